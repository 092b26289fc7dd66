"""The paper's tables and figures: which are computed, from which data, and what is written of them."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rae.datasets import load
from rae.errors import Argument, ConfigError, DatasetError, RaeWarning
from rae.evaluation import figures
from rae.evaluation.data import present
from rae.evaluation.ledger import Ledger
from rae.evaluation.paper_report import FilledTable, fill, lines_of
from rae.evaluation.publish import publish
from rae.evaluation.runner import Outcome, reproduce
from rae.evaluation.table_spec import Effort, Table, Work
from rae.evaluation.tables import GROUPS, TABLES
from rae.progress import Asked, shown
from rae.runtime import threads

log = logging.getLogger("rae.inputs")  # what the command line shows


@dataclass(frozen=True)
class Reproduction:
    """What was computed, the tables with all that the ledger has of them, and the files that were written."""

    outcome: Outcome
    tables: tuple[FilledTable, ...]
    files: tuple[Path, ...]


def reproduce_paper(
    what: str = "all",
    *,
    tables: Sequence[str] = (),
    rows: Sequence[str] = (),
    out: str | os.PathLike[str] = ".",
    runs: int | None = None,
    jobs: int | None = None,
    device: str = "cpu",
    download: bool = False,
    steps: int | None = None,
    progress: Asked = None,
) -> Reproduction:
    """The paper's tables and figures, computed where out/results has no line yet, as `rae reproduce` does.

    `what` is a group of tables or "all", `tables` the names of some of them, and `rows` texts of which
    one is in the name of each row that is computed. `runs` is the most of each row, `jobs` the number of processes, by
    default one for each core. `download` fetches data sets that are not on this machine. `steps` cuts every fit short,
    for a trial; without it out/docs gets the page and the figures.
    """
    chosen = [TABLES[name] for name in _table_names(what, tables)]
    select = _selection(chosen, rows)
    folder, effort = Path(out), Effort(steps, _present(device))
    ledger = Ledger(folder / "results")
    if steps is None:
        figures.pyplot()  # fails before any work if it is not installed
    if download:
        _fetch(chosen)
    with shown(progress) as report:
        outcome = reproduce(
            chosen, ledger, runs=runs, jobs=jobs or threads(), effort=effort, progress=report, select=select
        )
    files = [] if steps is not None else publish(ledger, folder / "docs")
    filled = [fill(table, lines_of(table, ledger), effort, runs) for table in chosen if table.name != "figures"]
    return Reproduction(outcome, tuple(filled), tuple(files))


def _table_names(what: str, only: Sequence[str]) -> list[str]:
    """The tables of a group with these names, all where none is named."""
    if what not in (*GROUPS, "all"):
        raise ConfigError(Argument("what"), f" must be one of {', '.join(GROUPS)} or all, got {what!r}")
    names = [name for group, names in GROUPS.items() if what in (group, "all") for name in names]
    if missing := [name for name in only if name not in names]:
        raise ConfigError(Argument("tables"), f" must be one of {', '.join(names)}, got {missing[0]!r}")
    return [name for name in names if not only or name in only]


def _selection(tables: Sequence[Table], texts: Sequence[str]) -> Callable[[Work, str], bool] | None:
    """Whether a work has a row whose name has one of these texts; None, which selects all, where there is no text."""
    names = [row.name for table in tables for row in table.rows]
    if missing := [text for text in texts if not any(text in name for name in names)]:
        what = f" must be part of the name of a row, such as {names[0]!r}, got {missing[0]!r}"
        raise ConfigError(Argument("rows"), what)
    if not texts:
        return None
    return lambda work, _: any(text in row.name for row in work.rows for text in texts)


def _present(device: str) -> str:
    """The device, if torch has it here."""
    import torch

    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError):
        raise ConfigError(
            Argument("device"), f" must be one that torch has here, such as cpu, got {device!r}"
        ) from None
    return device


def _fetch(tables: Sequence[Table]) -> None:
    """Download the data sets of these tables that are not on this machine; a failure is a warning."""
    names = {name for table in tables if table.from_files for pair in table.datasets for name in pair.split(" to ")}
    for name in sorted(names):
        if not present(name):
            log.info("fetching %s", name)
            try:
                load(name)
            except DatasetError as error:
                warnings.warn(RaeWarning(error.sentence), stacklevel=3)
