"""The choice of the default: candidates compared on all development data, leaving one data set out at a time.

A task is a cell of a table with a floor: a data set and a number that is judged. Of several candidates that one is
chosen which is below its best floor in the fewest tasks, and among equals the one that is highest above it, in
standard errors. Whether such a choice holds elsewhere is seen on the data set that had no part in it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rae.evaluation import report
from rae.evaluation.ledger import SCORE_KEYS, Ledger, Line, lines_of_cell
from rae.evaluation.paper_report import FilledTable, display, fill
from rae.evaluation.statistics import Gap
from rae.evaluation.table_spec import Effort, Row, Score, Table, digest
from rae.evaluation.tables import airports, graph, methods, recovery, words

TABLE = "default_choice"
KINDS = ("structure alone", "with features")

CANDIDATES: dict[str, dict[str, Any]] = {
    "default": {},
    "without 4-cycles": {"measure_weights": (1.5, 1.0, 0.3, 0.0)},
    "measures weigh alike": {"measure_weights": (1.0, 1.0, 1.0, 1.0)},
    "two levels": {"level_weights": (0.5, 0.25)},
    "power 0.5": {"power": 0.5},
    "power 1.5": {"power": 1.5},
    "power 2": {"power": 2.0},
    "more noise": {"noise": 0.2},
    "16 frequencies": {"frequencies": 16},
    "32 frequencies": {"frequencies": 32},
    "power 1.5 and 32 frequencies": {"power": 1.5, "frequencies": 32},
    "64 columns of each block": {"block_columns": 64},
    "128 columns of each block": {"block_columns": 128},
    "structure at full scale": {"structure_scale": 1.0},
    "no structure beside features": {"structure": False},
}
"""What differs from the default, by name; lines of other settings are not read, whatever their name."""


@dataclass(frozen=True)
class Development:
    """The data sets of a table on which candidates are compared, and how a row of ours is scored there."""

    table: Table
    score: Callable[[Row, str, int, Effort], Score]
    row: Row  # of the exact solution; a candidate changes its settings
    datasets: tuple[str, ...]
    runs: int
    kind: str  # one of KINDS


DEVELOPMENT = (
    Development(recovery.PLAIN, recovery.read_plainly, methods.EXACT, recovery.DATASETS, 3, KINDS[0]),
    Development(airports.ACTIVITY, airports.active, airports.EXACT, airports.DATASETS, 5, KINDS[0]),
    Development(airports.ACTIVITY, airports.active, airports.EXACT, ("actor",), 3, KINDS[0]),
    Development(airports.TUNED_TRANSFER, airports.tuned_transferred, airports.EXACT, airports.PAIRS, 1, KINDS[0]),
    Development(graph.TABLE, graph.solved, graph.SOLUTION, ("IMDB-BINARY", "IMDB-MULTI"), 3, KINDS[0]),
    Development(graph.TABLE, graph.solved, graph.SOLUTION, ("MUTAG", "PROTEINS"), 3, KINDS[1]),
    Development(words.CITED, words.solved, words.EXACT, words.CITED.datasets, 1, KINDS[1]),
    Development(words.PAGES, words.solved, words.EXACT, words.SPLITS, 5, KINDS[1]),
    Development(words.PAGES, words.solved, words.EXACT, words.LARGE, 2, KINDS[1]),
)


def group_of(dataset: str) -> str:
    """What is left out together: all airports, all noise levels of one planted graph."""
    if dataset.split(" to ")[0] in airports.DATASETS:
        return "airports"
    return dataset.split(",")[0]


# ------------------------------------------------------------------------------------------------ lines


def key_of(development: Development, name: str, dataset: str, seed: int, effort: Effort) -> Line:
    """Table, row, data set, seed and settings of a candidate's line."""
    row = candidate_row(development, name)
    settings = {"table": development.table.name, **row.settings, "config": digest(row.config(0, Effort()))}
    return {
        "table": TABLE,
        "row": name,
        "dataset": dataset,
        "seed": seed,
        "settings": {**settings, **effort.settings()},
    }


def candidate_row(development: Development, name: str) -> Row:
    """The row of a candidate: the exact solution with these settings changed."""
    row = development.row
    return dataclasses.replace(row, name=name, settings={**row.settings, **CANDIDATES[name]})


# ----------------------------------------------------------------------------------------------- gaps


@dataclass(frozen=True)
class Task:
    """One cell in which candidates are compared."""

    table: str
    dataset: str
    key: str
    kind: str

    @property
    def group(self) -> str:
        """The data set, or the family of data sets, that is left out with it."""
        return group_of(self.dataset)


Gaps = Mapping[str, Mapping[Task, Gap]]  # by candidate


def gaps(ledger: Ledger, effort: Effort | None = None) -> dict[str, dict[Task, Gap]]:
    """Every candidate against the best floor of every task that it has lines of, with the settings of today."""
    effort = effort or Effort()
    lines = ledger.read(TABLE, SCORE_KEYS)
    by_candidate: dict[str, dict[Task, Gap]] = {}
    for development in DEVELOPMENT if lines else ():
        floors = fill(development.table, ledger.read(development.table.name, SCORE_KEYS), effort)
        for name in CANDIDATES:
            for dataset in development.datasets:
                settings = key_of(development, name, dataset, 0, effort)["settings"]
                if ours := lines_of_cell(lines, name, dataset, settings):
                    both = FilledTable(development.table, {**floors.cells, (name, dataset): ours})
                    by_candidate.setdefault(name, {}).update(_gaps_of(development, both, name, dataset))
    return by_candidate


def _gaps_of(development: Development, filled: FilledTable, name: str, dataset: str) -> Iterator[tuple[Task, Gap]]:
    for key in development.table.keys:
        floor = filled.best_floor(dataset, key)
        if floor is not None and (gap := filled.gap(Row(name), floor, dataset, key)) is not None:
            yield Task(development.table.name, dataset, key, development.kind), gap


# --------------------------------------------------------------------------------------------- choice


@dataclass(frozen=True)
class Standing:
    """A candidate over some tasks: how many are above, level and below, and the mean gap in standard errors."""

    above: int
    level: int
    below: int
    mean: float
    undecided: int = 0

    @property
    def rank(self) -> tuple[int, float]:
        """Less is better: fewest below, then the highest mean."""
        return self.below, -self.mean

    def __str__(self) -> str:
        return f"{self.above} / {self.level + self.undecided} / {self.below} ({self.mean:+.1f})"


def standing(some: Iterable[Gap]) -> Standing:
    """Above, level, below and the mean gap in standard errors."""
    each = list(some)
    sides = [gap.place for gap in each]
    mean = float(np.mean([gap.in_errors for gap in each])) if each else 0.0
    above, level, below, undecided = (sides.count(word) for word in ("above", "level", "below", "undecided"))
    return Standing(above, level, below, mean, undecided)


@dataclass(frozen=True)
class Choice:
    """The candidate that the other data sets choose, and how it and the best one stand on the one left out."""

    left_out: str
    chosen: str
    there: Standing
    best: str
    best_there: Standing
    others: Standing = field(default_factory=lambda: Standing(0, 0, 0, 0.0))


def choose(candidates: Gaps, tasks: Sequence[Task]) -> str:
    """The candidate that is below its floor in the fewest of these tasks, then highest; the first among equals."""
    return min(candidates, key=lambda name: standing(candidates[name][task] for task in tasks).rank)


def leave_one_out(candidates: Gaps) -> list[Choice]:
    """For each data set, what the others choose; only tasks that every candidate has."""
    tasks = common_tasks(candidates)
    choices = []
    for group in dict.fromkeys(task.group for task in tasks):
        inside = [task for task in tasks if task.group == group]
        outside = [task for task in tasks if task.group != group]
        if not outside:
            continue
        chosen, best = choose(candidates, outside), choose(candidates, inside)
        there, best_there = (standing(candidates[name][task] for task in inside) for name in (chosen, best))
        others = standing(candidates[chosen][task] for task in outside)
        choices.append(Choice(group, chosen, there, best, best_there, others))
    return choices


def common_tasks(candidates: Gaps) -> list[Task]:
    """The tasks that every candidate has lines of, in the order of the first candidate."""
    first = next(iter(candidates.values()), {})
    return [task for task in first if all(task in each for each in candidates.values())]


# --------------------------------------------------------------------------------------------- report


def page(candidates: Gaps) -> str:
    """docs/choice.md: every candidate on every data set, and what leaving one out chooses."""
    parts = []
    for kind in KINDS:
        of_kind = {
            name: chosen
            for name, each in candidates.items()
            if (chosen := {t: g for t, g in each.items() if t.kind == kind})
        }
        if of_kind:
            parts.append(_part(kind, of_kind))
    words = (
        "Candidate settings of the exact solution are compared on all development data. A cell is above / level / "
        "below, by one standard error, the best floor of its task, and the mean gap in standard errors. A data set is "
        "left out with all its noise levels, pairs and numbers; the others choose the candidate that is below in the "
        "fewest tasks, then the highest mean."
    )
    return report.page("How the default was chosen", "`python benchmarks/default_choice.py`", words, parts)


def _part(kind: str, candidates: Gaps) -> str:
    tasks = common_tasks(candidates)
    groups = list(dict.fromkeys(task.group for task in tasks))
    rows = []
    for name, each in candidates.items():
        texts = [str(standing(each[t] for t in tasks if t.group == group)) for group in groups]
        rows.append([name, *texts, f"**{standing(each[task] for task in tasks)}**"])
    choices = [
        [display(c.left_out), c.chosen, str(c.others), str(c.there), c.best, str(c.best_there)]
        for c in leave_one_out(candidates)
    ]
    head = ["left out", "chosen by the others", "there", "on the one left out", "best on it", "which has"]
    grids = [f"**{kind.capitalize()}**", report.grid(["", *map(display, groups), "all"], rows)]
    grids += [report.grid(head, choices)] if choices else []
    if tasks:
        grids.append(f"All data sets together choose: **{choose(candidates, tasks)}**.")
    return "\n\n".join(grids)
