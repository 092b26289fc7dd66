"""The specification of a table: rows, the works that compute their scores, and published values.

A work is one computation for one data set and one seed; it gives a score to one row or to several (both halves of a
concatenation are rows too).
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from rae.config import PRESETS, Config, ExactConfig, Settings

FAMILIES = ("exact", "exact, some blocks", "untrained", "trained")  # of our rows
KINDS = ("floor", "other", "ours", "ablation")  # of rows, in the order of a table; other: a method of others


@dataclass(frozen=True)
class Row:
    """One row of a table; `settings` are its differences from the preset."""

    name: str
    kind: str = "ours"  # one of KINDS
    settings: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    against: str = ""  # the row that an ablation changes in one point

    @property
    def ours(self) -> bool:
        """Whether this row runs RAE itself."""
        return self.settings.get("method", "rae") == "rae" and self.kind in ("ours", "ablation")

    @property
    def family(self) -> str:
        """How the vectors of a row of ours are made, one of FAMILIES."""
        if self.settings.get("model") == "exact":
            is_part = "block" in self.settings or self.settings.get("structure") is False
            return "exact, some blocks" if is_part else "exact"
        return "untrained" if self.settings.get("steps") == 0 else "trained"

    def config(self, seed: int, effort: Effort) -> Any:
        """The settings of this row: an ExactConfig for `model: exact`, else a Config; `preset` and others by name."""
        if self.settings.get("model") == "exact":
            names = {f.name for f in dataclasses.fields(ExactConfig)}
            return ExactConfig(**{k: v for k, v in self.settings.items() if k in names}, seed=seed)
        changes = {k: v for k, v in self.settings.items() if k in Config.__dataclass_fields__}
        config = PRESETS[self.settings.get("preset", "trained")].replace(**changes, seed=seed)
        assert isinstance(config, Config)
        return config if effort.steps is None else config.replace(steps=min(config.steps, effort.steps))


@dataclass(frozen=True)
class Effort:
    """The size of a run: `steps` shortens every fit for a trial, whose lines have settings of their own.

    `device` is where methods that can choose compute; it is no setting: what a line says is the same on any.
    """

    steps: int | None = None
    device: str = "cpu"

    def settings(self) -> dict[str, Any]:
        """What a line says about it: nothing for the full effort."""
        return {} if self.steps is None else {"trial_steps": self.steps}


@dataclass(frozen=True)
class Score:
    """The score of one run of one row; `also` holds further numbers of the same run."""

    score: float
    also: Mapping[str, Any] = field(default_factory=dict)


Scores = Mapping[str, Score]
Compute = Callable[[str, int, Effort], Scores]  # data set, seed, effort -> the score of each row


@dataclass(frozen=True)
class Work:
    """A computation that fills these rows on these data sets, with seeds 0 to runs - 1."""

    rows: tuple[Row, ...]
    compute: Compute
    datasets: tuple[str, ...]
    runs: int
    by_dataset: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # settings that follow the data set
    unasked: int | None = None  # runs where the row is not asked for by name: expensive ones have fewer
    ledger_table: str = ""  # the table that has these lines, where it is not this one; nothing is computed here

    def count(self, runs: int | None, asked: bool) -> int:
        """How many runs a call computes."""
        most = self.runs if asked or self.unasked is None else self.unasked
        return most if runs is None else min(runs, most)


def work_per_row(
    compute: Callable[[Row, str, int, Effort], Score], rows: Iterable[Row], *rest: Any
) -> tuple[Work, ...]:
    """A work for each row, whose score `compute` returns; `rest` are the further fields of a work."""
    return tuple(Work((row,), partial(_score_of_row, compute, row), *rest) for row in rows)


def _score_of_row(compute: Any, row: Row, dataset: str, seed: int, effort: Effort) -> Scores:
    return {row.name: compute(row, dataset, seed, effort)}


@dataclass(frozen=True)
class Published:
    """A value as its paper prints it."""

    mean: float
    sd: float | None = None

    def __str__(self) -> str:
        return f"{self.mean}" + (f" ± {self.sd}" if self.sd is not None else "")


@dataclass(frozen=True)
class Quoted:
    """A row of another method that is printed as it was published, never run."""

    name: str
    values: Mapping[str, float]
    source: str
    key: str = ""  # the key of `also` that it was published of; the score without one


@dataclass(frozen=True)
class Table:
    """One table: its works in the order of its rows, and the published values."""

    name: str
    title: str
    unit: str
    protocol: str
    works: tuple[Work, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)  # of every row: the reader, the size of the graphs
    published: Mapping[tuple[str, str], Published] = field(default_factory=dict)  # by row and data set
    quoted: tuple[Quoted, ...] = ()
    also: Mapping[str, str] = field(default_factory=dict)  # further numbers to print: key of `also`, and its heading
    judged: tuple[str, ...] = ()  # the keys of `also` that are scores of their own, compared with floors too
    from_files: bool = True  # data sets are files that may be absent
    floors: bool = True  # compare our rows with the floors
    published_as: str = ""  # the key of `also` that is scored as the published values were, where a line has it
    lower_is_better: bool = False

    @property
    def rows(self) -> tuple[Row, ...]:
        """Every row once, floors first."""
        by_name = {row.name: row for work in self.works for row in work.rows}
        return tuple(sorted(by_name.values(), key=lambda row: KINDS.index(row.kind)))

    @property
    def keys(self) -> tuple[str, ...]:
        """The numbers of a run that are judged: the score, which has no key, and those of `judged`."""
        return ("", *self.judged)

    def row(self, name: str) -> Row:
        """The row of this name."""
        return next(row for row in self.rows if row.name == name)

    def line_settings(self, work: Work, row: Row, dataset: str, effort: Effort) -> dict[str, Any]:
        """The settings in a line; the digest of the Config changes with any default or preset."""
        settings = {**self.settings, **row.settings, **work.by_dataset.get(dataset, {})}
        if row.ours:
            settings["config"] = digest(row.config(0, Effort()))
        return {**settings, **effort.settings()}

    @property
    def datasets(self) -> tuple[str, ...]:
        """Every data set once, in the order of the works."""
        return tuple(dict.fromkeys(name for work in self.works for name in work.datasets))


def digest(config: Settings) -> str:
    """A hash of every setting that this config's loss reads, but the seed, eight hexadecimal digits."""
    loss, stored = getattr(config, "loss", None), config.stored()
    read = [f.name for f in dataclasses.fields(config) if f.metadata.get("loss", loss) == loss]  # type: ignore[arg-type]
    text = json.dumps({name: stored[name] for name in read if name in stored and name != "seed"}, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=4).hexdigest()


def quoted(name: str, source: str, datasets: Sequence[str], *values: float | None, key: str = "") -> Quoted:
    """A row of published values, one per data set, None where there is none."""
    return Quoted(name, {d: v for d, v in zip(datasets, values, strict=True) if v is not None}, source, key)


def published(rows: Sequence[str], datasets: Sequence[str], values: Sequence[Sequence[Any]]) -> Any:
    """Published values by row and data set, from a grid of means or (mean, sd).

    >>> published(["a"], ["x", "y"], [[1.0, (2.0, 0.5)]])[("a", "y")]
    Published(mean=2.0, sd=0.5)
    """
    return {
        (row, dataset): Published(*value) if isinstance(value, tuple) else Published(value)
        for row, line in zip(rows, values, strict=True)
        for dataset, value in zip(datasets, line, strict=True)
        if value is not None
    }
