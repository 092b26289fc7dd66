"""`rae reproduce`: the paper's tables and figures again, beside their floors."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rae.cli.console import Console, global_options
from rae.cli.progress import terminal_width
from rae.errors import RaeError

if TYPE_CHECKING:
    from rae.evaluation.paper_report import FilledTable
    from rae.evaluation.runner import Outcome
    from rae.evaluation.statistics import Summary
    from rae.evaluation.table_spec import Table

WHAT = ("toy", "node", "graph", "roles", "inductive", "figures", "all")


@click.command(short_help="the paper's tables and figures, beside their floors")
@click.argument("what", type=click.Choice(WHAT), metavar="{" + ",".join(WHAT) + "}")
@click.option("--runs", type=click.IntRange(min=1), metavar="N", help="at most N runs a row  [default: the paper's]")
@click.option("--jobs", type=click.IntRange(min=1), metavar="J", help="processes at a time  [default: all cores]")
@click.option("--out", default=".", metavar="DIR", show_default=True, help="folder for results/ and docs/")
@click.option("--download", is_flag=True, help="fetch data sets that are not on this machine")
@click.option("--steps", type=click.IntRange(min=1), metavar="N", help="a trial: cut every fit to N steps, no report")
@global_options
@click.pass_obj
def reproduce(
    console: Console, what: str, runs: int | None, jobs: int | None, out: str, download: bool, steps: int | None
) -> None:
    """Make the paper's tables and figures again, ours beside the published values and beside floors.

    Every run is one line of JSON in results/; a run that is there is not repeated, so an
    interrupted call goes on where it was. docs/reproduce.md and docs/figures/ are made from those
    lines. Data sets are read from the folder RAE_DATA; one that is absent is said to be.

    \b
    rae reproduce toy
    rae reproduce node --runs 5 --jobs 4
    rae reproduce all
    """
    from rae.evaluation import figures
    from rae.evaluation.ledger import Ledger
    from rae.evaluation.paper_report import fill, terminal
    from rae.evaluation.publish import publish
    from rae.evaluation.runner import reproduce as run
    from rae.evaluation.table_spec import Effort
    from rae.evaluation.tables import GROUPS, TABLES
    from rae.runtime import threads

    tables = [TABLES[name] for group, names in GROUPS.items() if what in (group, "all") for name in names]
    folder, effort = Path(out), Effort(steps)
    ledger = Ledger(folder / "results")
    if steps is None:
        figures.need_library()
    if download:
        _fetch(tables, console)
    with console.progress() as progress:
        outcome = run(
            tables, ledger, runs=runs, jobs=jobs or console.threads or threads(), effort=effort, progress=progress
        )
    made = [] if steps else publish(ledger, folder / "docs")
    filled = [fill(table, ledger.read(table.name), effort, runs) for table in tables if table.name != "figures"]
    text = "\n\n".join([*(terminal(each, terminal_width(sys.stdout)) for each in filled), _told(outcome, made)])
    console.result(text, _as_data(filled, outcome, made))
    if outcome.failed:
        first = next(iter(outcome.failed.items()))
        raise RaeError(f"{len(outcome.failed):,} runs failed, the first: {first[0]}: {first[1]}; the others are kept")


def _fetch(tables: Sequence[Table], console: Console) -> None:
    """Have every data set of these tables on this machine, as far as it can be had."""
    from rae.datasets import load
    from rae.errors import DatasetError
    from rae.evaluation.data import present

    names = {name for table in tables if table.from_files for pair in table.datasets for name in pair.split(" to ")}
    for name in sorted(names):
        if not present(name):
            console.note(f"fetching {name}")
            try:
                load(name)
            except DatasetError as error:
                console.warn(str(error))


def _told(outcome: Outcome, made: Sequence[Path]) -> str:
    lines = [f"{outcome.made:,} runs made, {outcome.kept:,} were there"]
    if outcome.absent:
        lines.append(
            f"data not present: {', '.join(outcome.absent)}; put the files into the folder that RAE_DATA names, "
            "or add --download"
        )
    if made:
        lines += ["written:", *(f"  {path}" for path in made)]
    return "\n".join(lines)


def _numbers(found: Summary) -> dict[str, Any]:
    """A cell as JSON; one run has neither a spread nor an interval."""
    every = dataclasses.asdict(found)
    return every if found.runs > 1 else {"mean": found.mean, "runs": 1}


def _as_data(filled: Sequence[FilledTable], outcome: Outcome, made: Sequence[Path]) -> dict[str, Any]:
    cells = [
        {"table": f.table.name, "row": row.name, "dataset": dataset, **_numbers(found)}
        for f in filled
        for row in f.table.rows
        for dataset in f.table.datasets
        if (found := f.summary(row, dataset))
    ]
    return {"cells": cells, **dataclasses.asdict(outcome), "files": [str(path) for path in made]}
