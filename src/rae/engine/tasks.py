"""The tasks that embed a graph: `before`, `gather` and `after`, per model, level and part.

    before(k, part)           the rows that level k averages: projected where that is narrower, else as they are
    gather(k, part, stripe)   their mean({u} ∪ N(u)), where the columns are cut into several stripes
    after(k, part)            the vectors of level k: from the stripes of means, or straight from the averaged rows

A task is plain data. It reads what other tasks wrote, writes one output, whole or not at all, and does nothing where
that is there: done twice, in another process or after a crash, the result is the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rae.engine.layout import TILE, Layout
from rae.engine.levels import LevelSteps, Neighborhoods, RowSet
from rae.engine.stores import Store, as_tensor
from rae.errors import FeatureError
from rae.features import Features
from rae.ops.gather import mean
from rae.runtime import in_ranges, torch_alone, torch_alone_here

Array = np.ndarray[Any, Any]
Tile = Callable[[int, int], Tensor]  # rows i..j of a part
OUTPUTS = {"before": "rows", "gather": "means", "after": "vectors"}


@dataclass(frozen=True)
class Task:
    """One unit of work: its kind, and the model, level, part and stripe that it is about."""

    kind: str
    model: str
    level: int
    part: int
    stripe: int = 0

    @property
    def name(self) -> str:
        """The name of its output."""
        stripe = f"-{self.stripe:03}" if self.kind == "gather" else ""
        return f"{self.model}-{self.level + 1}-{OUTPUTS[self.kind]}{stripe}-{self.part:05}"


@dataclass(frozen=True, eq=False)
class Job:
    """What tasks work on: models and features to read, a store to write to, how rows and columns are cut."""

    models: Mapping[str, Sequence[LevelSteps]]
    features: Features
    neighborhoods: Neighborhoods
    store: Store
    layout: Layout
    tile: int = TILE
    out: Array | None = None  # where all vectors go, if they go into memory: (n, width)
    description: Any = None  # the same job as plain data, where it lies on disk

    @property
    def width(self) -> int:
        """Columns of the embedding."""
        return sum(level.width for levels in self.models.values() for level in levels)

    def parts(self, k: int) -> list[tuple[int, int]]:
        """The parts of level k as row ranges; level -1 is the features."""
        return self.layout.parts(self.neighborhoods.n_rows(k))

    def stripes(self, model: str, k: int) -> list[tuple[int, int]]:
        """The stripes of the columns that level k averages."""
        return self.layout.stripes(self.models[model][k].columns)

    def before_tasks(self, model: str, k: int) -> list[Task]:
        """The tasks that make the rows that level k averages."""
        return [Task("before", model, k, part) for part in range(len(self.parts(k - 1)))]

    def needs_rows(self, model: str, k: int) -> bool:
        """Whether the averaged rows of level k have to be made: the first level may average the features themselves."""
        return k > 0 or self.models[model][k].maps_rows or self._whole_features() is None

    def output(self, rows: RowSet, out: Array) -> Array:
        """Fill `out` with the vectors of these rows: for each model the last level first.  -> (b, width)"""
        for model, levels in self.models.items():
            for k in reversed(range(len(levels))):
                if self.out is None or not self._goes_to_out(model, k):
                    left, right = self.columns(model, k)
                    self.fill(out[:, left:right], self._vectors(model, k, self.neighborhoods.places(k, rows)), rows)
        return out

    def columns(self, model: str, k: int) -> tuple[int, int]:
        """The columns of the embedding that hold level k of a model: models in order, their last level first."""
        left = 0
        for name, levels in self.models.items():
            widths = [level.width for level in levels]
            if name == model:
                return left + sum(widths[k + 1 :]), left + sum(widths[k:])
            left += sum(widths)
        raise KeyError(model)

    def fill(self, out: Array, tile: Tile, rows: RowSet) -> None:
        """Fill `out` tile by tile, spread over the threads; numbers that are not finite are refused.

        Tiles are fixed runs of rows, each worked on by one thread, so the bytes do not depend on the threads.
        """
        n, first = len(out), rows[0] if isinstance(rows, tuple) else 0

        def work(start: int, stop: int) -> None:
            torch_alone_here()
            with torch.inference_mode():
                for a in range(start * self.tile, min(stop * self.tile, n), self.tile):
                    b = min(a + self.tile, n)
                    out[a:b] = tile(a, b).numpy()
                    if not np.isfinite(out[a:b]).all():
                        raise FeatureError(
                            f"the vectors of rows {first + a:,} to {first + b - 1:,} came out infinite or NaN; "
                            "scale the features to 1"
                        )

        with torch_alone():
            in_ranges(work, -(-n // self.tile))

    # ------------------------------------------------------------------------- rows by tile

    def _input(self, model: str, k: int, rows: tuple[int, int]) -> Callable[[int, int], Any]:
        """What level k reads, by tile: the features or the vectors below."""
        if k > 0:
            vectors = self._vectors(model, k - 1, rows)
            if self.out is None or not self._goes_to_out(model, k - 1):
                return lambda i, j: vectors(i, j).numpy()
            left, right = self.columns(model, k - 1)
            columns = self.out[rows[0] : rows[1], left:right]

            def computed_once(i: int, j: int) -> Array:
                tile = vectors(i, j).numpy()
                columns[i:j] = tile
                return tile

            return computed_once
        a, b = rows
        nodes = self.neighborhoods.nodes
        if nodes is None and self._whole_features() is None and self.features.is_dense:
            x: Any = self.features.rows(a, b)  # computed once per part
            return lambda i, j: x[i:j]
        if nodes is None:
            return lambda i, j: self.features.rows(a + i, a + j)
        return lambda i, j: self.features.take(nodes[a + i : a + j])

    def averaged(self, model: str, k: int, rows: tuple[int, int]) -> Tile:
        """The rows that level k averages, by tile."""
        steps, x = self.models[model][k], self._input(model, k, rows)
        return lambda i, j: steps.before(x(i, j))

    def means(self, model: str, k: int, rows: RowSet, stripe: tuple[int, int]) -> Tile:
        """mean({u} ∪ N(u)) over a stripe of the rows that level k averages, by tile."""
        table = self._table(model, k, stripe)
        offsets, index, ego, lists = self.neighborhoods.lists(k, rows)

        def tile(i: int, j: int) -> Tensor:
            of_tile = ego + i if isinstance(ego, int) else ego[i:j]
            if lists is None:
                return mean(table, offsets[i : j + 1], index, of_tile)
            return mean(table, offsets, index, of_tile, lists[i:j])

        return tile

    def _vectors(self, model: str, k: int, rows: RowSet) -> Tile:
        """The vectors of level k, by tile: read where they are stored, else computed."""
        levels = self.models[model]
        if self.store.stores_vectors:
            assert isinstance(rows, tuple)
            part = rows[0] // self.layout.rows
            array = self.store.read(Task("after", model, k, part), (rows[1] - rows[0], levels[k].width))
            return lambda i, j: torch.from_numpy(array[i:j])
        if k + 1 < len(levels) and not levels[k + 1].maps_rows and self.store.is_complete(model, k + 1):
            table = self._table(model, k + 1, (0, levels[k + 1].columns))  # the level above averages them as they are
            if isinstance(rows, tuple):
                a = rows[0]
                return lambda i, j: table[a + i : a + j]
            index = torch.from_numpy(rows)
            return lambda i, j: table[index[i:j]]
        means = self.means(model, k, rows, (0, levels[k].columns))
        return lambda i, j: levels[k].after(means(i, j))

    def _goes_to_out(self, model: str, k: int) -> bool:
        """Whether the vectors of level k go into `out` when the level above reads them: rows of all nodes, in order."""
        return k + 1 < len(self.models[model]) and self.neighborhoods.nodes is None

    def _table(self, model: str, k: int, stripe: tuple[int, int]) -> Tensor:
        if not self.needs_rows(model, k):
            return as_tensor(self._whole_features())
        return self.store.table(self.before_tasks(model, k), self.parts(k - 1), stripe)

    def _whole_features(self) -> Any:
        """The feature matrix itself, where a level in memory can average it without a copy."""
        if self.store.stores_vectors or self.neighborhoods.nodes is not None:
            return None
        return self.features.whole()


def perform(job: Job, task: Task) -> None:
    """Do one task, unless its output is there."""
    if not job.store.has(task):
        {"before": _before, "gather": _gather, "after": _after}[task.kind](job, task)
        if job.store.stores_vectors:  # memory is short
            job.features.release()


def _before(job: Job, task: Task) -> None:
    rows, steps = job.parts(task.level - 1)[task.part], job.models[task.model][task.level]
    out = job.store.empty(task, rows, job.neighborhoods.n_rows(task.level - 1), steps.columns)
    job.fill(out, job.averaged(task.model, task.level, rows), rows)
    job.store.write(task, out, job.stripes(task.model, task.level))


def _gather(job: Job, task: Task) -> None:
    rows, stripe = job.parts(task.level)[task.part], job.stripes(task.model, task.level)[task.stripe]
    columns = stripe[1] - stripe[0]
    out = job.store.empty(task, rows, job.neighborhoods.n_rows(task.level), columns)
    job.fill(out, job.means(task.model, task.level, rows, stripe), rows)
    job.store.write(task, out, [(0, columns)])


def _after(job: Job, task: Task) -> None:
    rows, steps = job.parts(task.level)[task.part], job.models[task.model][task.level]
    stripes = job.stripes(task.model, task.level)
    if len(stripes) == 1:
        means = job.means(task.model, task.level, rows, stripes[0])
    else:
        read = [
            job.store.read(Task("gather", task.model, task.level, task.part, s), (rows[1] - rows[0], b - a))
            for s, (a, b) in enumerate(stripes)
        ]

        def means(i: int, j: int) -> Tensor:
            return torch.from_numpy(np.hstack([columns[i:j] for columns in read]))

    out = job.store.empty(task, rows, job.neighborhoods.n_rows(task.level), steps.width)
    job.fill(out, lambda i, j: steps.after(means(i, j)), rows)
    job.store.write(task, out, [(0, steps.width)])
