"""The choice of the default: candidate settings of the exact solution on all development data.

    RAE_DATA=... python benchmarks/default_choice.py [--jobs 2] [--only NAME ...] [--table NAME ...] [--quick]

Every candidate is scored in the tables of `rae reproduce` that have floors; for each data set, the candidate that the
others choose is compared with the best one there. Lines go to results/default_choice.jsonl, those of the floors to the
files of their tables; a line that is there is not computed again. `make generate` writes docs/choice.md from them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import choice
from choice import CANDIDATES, DEVELOPMENT
from recording import parser

from rae.evaluation import data, runner
from rae.evaluation.ledger import Line, identity
from rae.evaluation.table_spec import Effort

QUICK = ("default", "two levels")

Job = tuple[int, str, str, int, Effort]  # number in DEVELOPMENT, candidate, data set, seed


def jobs(options: Any, effort: Effort) -> Iterator[Job]:
    """Every line that is asked for, data set by data set, so that each is loaded few times."""
    names = QUICK if options.quick else options.only or CANDIDATES
    for number, development in enumerate(DEVELOPMENT):
        for dataset in _datasets(development, options):
            for name in names:
                yield from ((number, name, dataset, seed, effort) for seed in range(_runs(development, options)))


def _datasets(development: choice.Development, options: Any) -> list[str]:
    if options.quick:
        return [name for name in development.datasets if name in ("house, 0 % noise", "mixed, 20 % noise")]
    if options.table and development.table.name not in options.table:
        return []
    files = development.table.from_files
    return [d for d in development.datasets if not files or all(map(data.present, d.split(" to ")))]


def _runs(development: choice.Development, options: Any) -> int:
    return 2 if options.quick else development.runs


def key(job: Job) -> Line:
    number, name, dataset, seed, effort = job
    return choice.key_of(DEVELOPMENT[number], name, dataset, seed, effort)


def compute(job: Job) -> list[Line]:
    """The line of one candidate on one data set."""
    number, name, dataset, seed, effort = job
    development = DEVELOPMENT[number]
    row = choice.candidate_row(development, name)
    return runner.scored_lines([key(job)], lambda: {name: development.score(row, dataset, seed, effort)})


def floors(options: Any, effort: Effort) -> None:
    """Compute the floors that are missing, with the runs that the candidates have."""
    for development in DEVELOPMENT:
        datasets = _datasets(development, options)
        outcome = runner.reproduce(
            [development.table] if datasets else [],
            options.results,
            runs=_runs(development, options),
            jobs=options.jobs,
            effort=effort,
            select=lambda work, dataset, names=datasets: (  # type: ignore[misc]
                dataset in names and all(row.kind == "floor" for row in work.rows)
            ),
        )
        for job, error in outcome.failed.items():
            print(f"failed: {job}: {error}", flush=True)


def main() -> None:
    arguments = parser(__doc__, "two candidates on two small planted graphs, without files")
    arguments.add_argument("--jobs", type=int, default=1, help="processes at a time")
    arguments.add_argument("--only", action="append", choices=list(CANDIDATES), metavar="NAME", help="a candidate")
    arguments.add_argument("--table", action="append", metavar="NAME", help="a table of the development data")
    options = arguments.parse_args()
    effort = Effort(steps=1) if options.quick else Effort()
    floors(options, effort)
    finished = {identity(line) for line in options.results.read(choice.TABLE)}
    todo = [job for job in jobs(options, effort) if identity(json.loads(json.dumps(key(job)))) not in finished]
    print(f"{len(todo):,} runs to compute", flush=True)
    for lines in _computed(todo, options.jobs):
        options.results.append(lines)
        line = lines[0]
        print(f"{line['settings']['table']}  {line['dataset']}  {line['row']}  {line['score']}", flush=True)
    print(choice.page(choice.gaps(options.results, effort)))


def _computed(todo: list[Job], processes: int) -> Iterator[list[Line]]:
    if processes <= 1:
        yield from map(compute, todo)
        return
    with runner.environment(), ProcessPoolExecutor(processes, get_context("spawn"), runner.init_worker) as pool:
        yield from pool.map(compute, todo)


if __name__ == "__main__":
    main()
