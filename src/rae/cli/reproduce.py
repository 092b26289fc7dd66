"""`rae reproduce`: the paper's tables and figures, with floors."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
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

WHAT = ("toy", "node", "graph", "roles", "inductive", "figures", "all")


@click.command(short_help="the paper's tables and figures, with floors")
@click.argument("what", type=click.Choice(WHAT), metavar="{" + ",".join(WHAT) + "}")
@click.option("--runs", type=click.IntRange(min=1), metavar="N", help="at most N runs a row  [default: the paper's]")
@click.option("--jobs", type=click.IntRange(min=1), metavar="J", help="processes at a time  [default: all cores]")
@click.option("--table", "tables", multiple=True, metavar="NAME", help="only this table, as node-tuned; repeatable")
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
    tables: tuple[str, ...],
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
    from rae.evaluation.paper_report import terminal
    from rae.evaluation.reproduction import reproduce_paper

    with console.progress() as progress:
        done = reproduce_paper(
            what, tables=tables, rows=rows, out=out, runs=runs, jobs=jobs or console.threads, device=device,
            download=download, steps=steps, progress=progress or False,
        )  # fmt: skip
    outcome, width = done.outcome, terminal_width(sys.stdout)
    text = "\n\n".join([*(terminal(table, width) for table in done.tables), _summary(outcome, done.files)])
    console.result(text, _as_data(done.tables, outcome, done.files))
    if outcome.failed:
        job, error = next(iter(outcome.failed.items()))
        raise RaeError(f"{len(outcome.failed):,} runs failed, the first: {job}: {error}; the others are in the ledger")


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
