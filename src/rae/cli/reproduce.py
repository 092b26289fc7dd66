"""`rae reproduce`: the paper's tables and figures, with floors."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rae.cli.console import Console, global_options
from rae.errors import RaeError
from rae.progress import terminal_width

if TYPE_CHECKING:
    from rae.evaluation.paper_report import FilledTable
    from rae.evaluation.runner import Outcome
    from rae.evaluation.statistics import Summary
    from rae.evaluation.table_spec import Table, Work

WHAT = ("toy", "node", "graph", "roles", "inductive", "figures", "all")


@click.command(short_help="the paper's tables and figures, with floors")
@click.argument("what", type=click.Choice(WHAT), metavar="{" + ",".join(WHAT) + "}")
@click.option("--runs", type=click.IntRange(min=1), metavar="N", help="at most N runs a row  [default: the paper's]")
@click.option("--jobs", type=click.IntRange(min=1), metavar="J", help="processes at a time  [default: all cores]")
@click.option("--table", "only", multiple=True, metavar="NAME", help="only this table, such as node-tuned; repeatable")
@click.option("--row", "rows", multiple=True, metavar="TEXT", help="only rows whose name has this text; repeatable")
@click.option("--out", default=".", metavar="DIR", show_default=True, help="folder for results/ and docs/")
@click.option(
    "--device", default="cpu", metavar="NAME", show_default=True, help="cuda: networks, ours and others', on a GPU"
)
@click.option("--download", is_flag=True, help="fetch data sets that are not on this machine")
@click.option("--steps", type=click.IntRange(min=1), metavar="N", help="a trial: cut every fit to N steps, no report")
@global_options
@click.pass_obj
def reproduce(
    console: Console,
    what: str,
    runs: int | None,
    jobs: int | None,
    only: tuple[str, ...],
    rows: tuple[str, ...],
    out: str,
    device: str,
    download: bool,
    steps: int | None,
) -> None:
    """Compute the paper's tables and figures, with the published values and with floors.

    Every run is one line of JSON in results/. A run that has a line is not repeated, so an
    interrupted call resumes. Rows of other methods that take many minutes are computed
    only where --row asks for them. docs/reproduce.md and docs/figures/ are generated from those lines.
    Data sets are read from the folder RAE_DATA; absent ones are named.

    \b
    rae reproduce toy
    rae reproduce node --runs 5 --jobs 4
    rae reproduce node --table node-tuned --row "exact solution"
    rae reproduce node --row DGI --row GraphMAE --device cuda --jobs 1
    rae reproduce all
    """
    from rae.evaluation import figures
    from rae.evaluation.ledger import Ledger
    from rae.evaluation.paper_report import fill, lines_of, terminal
    from rae.evaluation.publish import publish
    from rae.evaluation.runner import reproduce as run
    from rae.evaluation.table_spec import Effort
    from rae.evaluation.tables import GROUPS, TABLES
    from rae.runtime import threads

    names = [name for group, names in GROUPS.items() if what in (group, "all") for name in names]
    tables = [TABLES[name] for name in _choose_tables(names, only)]
    wanted = _wanted(tables, rows)
    folder, effort = Path(out), Effort(steps, _present(device))
    ledger = Ledger(folder / "results")
    if steps is None:
        figures.pyplot()  # fails before any work if it is not installed
    if download:
        _fetch(tables, console)
    with console.progress() as progress:
        jobs = jobs or console.threads or threads()
        outcome = run(tables, ledger, runs=runs, jobs=jobs, effort=effort, progress=progress, wanted=wanted)
    files = [] if steps else publish(ledger, folder / "docs")
    filled = [fill(table, lines_of(table, ledger), effort, runs) for table in tables if table.name != "figures"]
    text = "\n\n".join([*(terminal(table, terminal_width(sys.stdout)) for table in filled), _summary(outcome, files)])
    console.result(text, _as_data(filled, outcome, files))
    if outcome.failed:
        job, error = next(iter(outcome.failed.items()))
        raise RaeError(f"{len(outcome.failed):,} runs failed, the first: {job}: {error}; the others are in the ledger")


def _choose_tables(names: Sequence[str], only: Sequence[str]) -> list[str]:
    """The tables of this name, all where none is named."""
    if missing := [name for name in only if name not in names]:
        raise RaeError(f"--table must be one of {', '.join(names)}, got {missing[0]!r}")
    return [name for name in names if not only or name in only]


def _wanted(tables: Sequence[Table], texts: Sequence[str]) -> Callable[[Work, str], bool] | None:
    """Whether a work has a row whose name has one of these texts; None, which wants all, where there is no text."""
    names = [row.name for table in tables for row in table.rows]
    if missing := [text for text in texts if not any(text in name for name in names)]:
        raise RaeError(f"--row must be part of the name of a row, such as {names[0]!r}, got {missing[0]!r}")
    if not texts:
        return None
    return lambda work, _: any(text in row.name for row in work.rows for text in texts)


def _present(device: str) -> str:
    """The device, if torch has it here."""
    import torch

    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError):
        raise RaeError(f"--device must be one that torch has here, such as cpu, got {device!r}") from None
    return device


def _fetch(tables: Sequence[Table], console: Console) -> None:
    """Download the data sets of these tables that are not on this machine; a failure is a warning."""
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


def _summary(outcome: Outcome, files: Sequence[Path]) -> str:
    lines = [f"{outcome.computed:,} runs computed, {outcome.present:,} were in the ledger"]
    if outcome.absent:
        lines.append(
            f"data not present: {', '.join(outcome.absent)}; put the files into the folder that RAE_DATA names, "
            "or add --download"
        )
    if files:
        lines += ["written:", *(f"  {path}" for path in files)]
    return "\n".join(lines)


def _numbers(cell: Summary) -> dict[str, Any]:
    """A cell as JSON; one run has neither a spread nor an interval."""
    return dataclasses.asdict(cell) if cell.runs > 1 else {"mean": cell.mean, "runs": 1}


def _as_data(filled: Sequence[FilledTable], outcome: Outcome, files: Sequence[Path]) -> dict[str, Any]:
    cells = [
        {"table": f.table.name, "row": row.name, "dataset": dataset, **_numbers(cell)}
        for f in filled
        for row, dataset in f.filled_cells()
        if (cell := f.summary(row, dataset))
    ]
    counts = {"made": outcome.computed, "kept": outcome.present, "absent": outcome.absent, "failed": outcome.failed}
    return {"cells": cells, **counts, "files": [str(path) for path in files]}
