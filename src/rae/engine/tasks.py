"""The tasks that embed a graph: `before`, `gather` and `after`, per model, level and part.

    before(k, part)           the rows that level k averages: projected where that is narrower, else as they are
    gather(k, part, stripe)   their mean({u} ∪ N(u)), or moments over N(u), where columns are cut into several stripes
    after(k, part)            the vectors of level k: from the stripes of means, or straight from the averaged rows
    write(part)               ids and vectors of all models in one Parquet file, where the result is a folder of such
    sample(part)              the vectors of those nodes of a part that are in a sample, for a fit

A task is plain data. It reads outputs of other tasks, writes one output atomically, and does nothing where that exists:
run twice, in another process or after a crash, the result is the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rae.engine.layout import TILE, Layout
from rae.engine.levels import Model, Neighborhoods, RowSet
from rae.engine.results import Results
from rae.engine.stores import Store, as_tensor
from rae.errors import FeatureError
from rae.model.channels import Way
from rae.ops.gather import mean, moments
from rae.runtime import in_ranges, threads, torch_alone, torch_alone_here

Array = np.ndarray[Any, Any]
Tile = Callable[[int, int], Tensor]  # rows i..j of a part
TILES_IN_ONE = 4  # that a thread works on at a time, at most
OUTPUTS = {"before": "rows", "gather": "means", "after": "vectors", "sample": "sample", "write": "written"}


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
    """The inputs and outputs of tasks: models and features, a store to write to, and how rows and columns are cut."""

    models: Mapping[str, Model]
    neighborhoods: Neighborhoods
    store: Store
    layout: Layout
    tile: int = TILE
    out: Array | None = None  # where all vectors go, if they go into memory: (n, width)
    group: int | None = None  # rows of the output that are made at a time, None: a part
    description: Any = None  # the same job as plain data, where it lies on disk
    results: Results | None = None  # a folder of files, one per part, where the result is one
    sample: Array | None = None  # rows, ascending, where the result is their vectors alone

    @property
    def width(self) -> int:
        """Columns of the embedding."""
        return sum(model.width for model in self.models.values())

    def parts(self, k: int) -> list[tuple[int, int]]:
        """The parts of level k as row ranges; level -1 is the features."""
        return self.layout.parts(self.neighborhoods.n_rows(k))

    def output_parts(self, k: int) -> list[tuple[int, int]]:
        """The rows of the output, level k, as they are given out."""
        return self.parts(k) if self.group is None else Layout(self.group, 1).parts(self.neighborhoods.n_rows(k))

    def stripes(self, model: str, k: int) -> list[tuple[int, int]]:
        """The stripes of the columns that level k averages."""
        return self.layout.stripes(self.models[model].levels[k].columns)

    def sampled(self, part: int) -> Array:
        """The rows of a part that are in the sample, counted from its first one."""
        assert self.sample is not None
        a, b = self.parts(-1)[part]
        return self.sample[np.searchsorted(self.sample, a) : np.searchsorted(self.sample, b)] - a

    def before_tasks(self, model: str, k: int) -> list[Task]:
        """The tasks that make the rows that level k averages."""
        return [Task("before", model, k, part) for part in range(len(self.parts(k - 1)))]

    def needs_rows(self, model: str, k: int) -> bool:
        """Whether the averaged rows of level k have to be made: the first level may average the features themselves."""
        return k > 0 or self.models[model].levels[k].maps_rows or self._whole_features(model) is None

    def perform(self, task: Task) -> None:
        """Do one task, unless its output is there."""
        if task.kind == "write":
            _write(self, task)
        elif not self.store.has(task):
            {"before": _before, "gather": _gather, "after": _after, "sample": _sample}[task.kind](self, task)
            if self.store.stores_vectors and task.model:  # memory is short
                self.models[task.model].reads.release()

    def output(self, rows: RowSet, out: Array) -> Array:
        """Fill `out` with the vectors of these rows, model beside model.  -> (b, width)"""
        if self.store.copies is None:
            self._fill_columns(rows, out)
        else:  # made on the device, copied at once
            here = torch.empty(out.shape, device=self.store.copies.device)
            self._fill_columns(rows, here)
            torch.from_numpy(out).copy_(here)
        return out

    def _fill_columns(self, rows: RowSet, out: Any) -> None:
        for name, model in self.models.items():
            levels = range(len(model.levels))
            if model.finish is not None:
                left = self._first_column(name)
                self.fill(out[:, left : left + model.width], self._finished(name, rows), rows)
                continue
            for k in reversed(levels):
                if self.out is None or not self._goes_to_out(name, k):
                    left, right = self.columns(name, k)
                    self.fill(out[:, left:right], self._vectors(name, k, self.neighborhoods.rows_at(k, rows)), rows)

    def columns(self, model: str, k: int) -> tuple[int, int]:
        """The columns of the embedding that hold level k of a model: models in order, their last level first."""
        left, widths = self._first_column(model), [level.width for level in self.models[model].levels]
        return left + sum(widths[k + 1 :]), left + sum(widths[k:])

    def _first_column(self, model: str) -> int:
        names = list(self.models)
        return sum(self.models[name].width for name in names[: names.index(model)])

    def fill(self, out: Any, tile: Tile, rows: RowSet) -> None:
        """Fill `out` tile by tile, spread over the threads; numbers that are not finite are refused.

        Tiles are fixed runs of rows, each worked on by one thread, so the bytes do not depend on the threads. A GPU
        takes all rows at once.
        """
        n, first = len(out), rows[0] if isinstance(rows, tuple) else 0
        step = self._rows_at_a_time(n)

        def work(start: int, stop: int) -> None:
            torch_alone_here()
            with torch.inference_mode():
                for a in range(start * step, min(stop * step, n), step):
                    b = min(a + step, n)
                    values = tile(a, b)
                    if isinstance(out, Tensor):
                        out[a:b] = values
                    else:
                        out[a:b] = values.cpu().numpy()
                    finite = torch.isfinite(values) if values.is_cuda else np.isfinite(out[a:b])
                    if not finite.all():
                        raise FeatureError(
                            f"the vectors of rows {first + a:,} to {first + b - 1:,} came out infinite or NaN; "
                            "scale the features to 1"
                        )

        with torch_alone():
            in_ranges(work, -(-n // step))

    def _rows_at_a_time(self, n: int) -> int:
        """Rows of a tile: more where many threads would take turns in Python between the operations of small ones."""
        if self.store.copies is not None:
            return max(1, n)
        count, most = threads(), 1 if self.store.stores_vectors else TILES_IN_ONE
        return self.tile * max(1, min(most, count // 2, n // (2 * count * self.tile)))

    def placed(self, array: Any) -> Any:
        """An array where the job works: on a GPU, or in main memory as it is."""
        return array if self.store.copies is None else self.store.copies.of(array)

    # ------------------------------------------------------------------------- rows by tile

    def _input(self, model: str, k: int, rows: RowSet) -> Callable[[int, int], Any]:
        """What level k reads, by tile: the features or the vectors below."""
        if k > 0:
            vectors = self._vectors(model, k - 1, rows)
            if self.out is None or not self._goes_to_out(model, k - 1):
                return lambda i, j: _as_read(vectors(i, j))
            assert isinstance(rows, tuple)
            left, right = self.columns(model, k - 1)
            columns = self.out[rows[0] : rows[1], left:right]

            def computed_once(i: int, j: int) -> Any:
                tile = vectors(i, j)
                columns[i:j] = tile.cpu().numpy()
                return _as_read(tile)

            return computed_once
        return self._features(model, rows)

    def _features(self, model: str, rows: RowSet) -> Callable[[int, int], Any]:
        """What a model reads of these rows of level -1, by tile."""
        read = self._features_of(model, rows)
        return read if self.store.copies is None else lambda i, j: self.placed(read(i, j))

    def _features_of(self, model: str, rows: RowSet) -> Callable[[int, int], Any]:
        nodes, features = self.neighborhoods.nodes, self.models[model].reads
        if not isinstance(rows, tuple):
            index = rows if nodes is None else nodes[rows]
            return lambda i, j: features.take(index[i:j])
        a, b = rows
        if nodes is not None:
            return lambda i, j: features.take(nodes[a + i : a + j])
        if self._whole_features(model) is None and features.is_dense:
            x: Any = features.rows(a, b)  # computed once per part
            return lambda i, j: x[i:j]
        return lambda i, j: features.rows(a + i, a + j)

    def _finished(self, model: str, rows: RowSet) -> Tile:
        """The columns of a model with a last step, by tile."""
        finish, rows_at = self.models[model].finish, self.neighborhoods.rows_at
        assert finish is not None
        x = self._features(model, rows_at(-1, rows))
        vectors = [self._vectors(model, k, rows_at(k, rows)) for k in range(len(self.models[model].levels))]
        return lambda i, j: finish.columns(x(i, j), [level(i, j) for level in vectors])

    def averaged(self, model: str, k: int, rows: RowSet) -> Tile:
        """The rows that level k averages, by tile."""
        steps, x = self.models[model].levels[k], self._input(model, k, rows)
        return lambda i, j: steps.before(x(i, j))

    def means(self, model: str, k: int, rows: RowSet, stripe: tuple[int, int]) -> Tile:
        """The means over a stripe of the rows that level k averages, then the deviations that it wants, by tile.

        Along each way of the level one after the other.
        """
        table, steps = self._table(model, k, stripe), self.models[model].levels[k]
        offsets, index, ego, lists = map(self.placed, self.neighborhoods.lists(k, rows))

        def tile(i: int, j: int) -> Tensor:
            of_tile, which = (offsets[i : j + 1], None) if lists is None else (offsets, lists[i:j])
            if steps.with_ego:
                return mean(table, of_tile, index, ego + i if isinstance(ego, int) else ego[i:j], which)
            parts = []
            for way in steps.ways:
                left, right = within(way, stripe)
                if left < right:
                    columns = (
                        table if right - left == table.shape[1] else table[:, left - stripe[0] : right - stripe[0]]
                    )
                    spread = self.deviations(model, k, way, stripe)
                    parts.append(self._moments(columns, k, way, of_tile, index, which, spread))
            return parts[0] if len(parts) == 1 else torch.cat(parts, 1)

        return tile

    def _moments(self, columns: Tensor, k: int, way: Way, offsets: Any, index: Any, lists: Any, spread: int) -> Tensor:
        """Moments of some columns over neighbours, along a way."""
        if not way.channels:
            return moments(columns, offsets, index, lists, spread=spread)
        first, last = (int(offsets[0]), int(offsets[-1])) if lists is None else (0, len(index))
        weights = self.placed(self.neighborhoods.weights(k, way.channels, first, last))
        return moments(columns, offsets - first, index[first:last], lists, spread=spread, weights=weights)

    def deviations(self, model: str, k: int, way: Way, stripe: tuple[int, int]) -> int:
        """Columns of a stripe whose deviation level k wants along a way."""
        left, right = within(way, stripe)
        last = way.left + min(self.models[model].levels[k].spread, way.right - way.left)
        return max(0, min(last, right) - left)

    def gathered_columns(self, model: str, k: int, stripe: tuple[int, int]) -> list[int]:
        """The columns that a stripe gives: means and deviations of the first way, of the next one, ..."""
        out = []
        for way in self.models[model].levels[k].ways:
            left, right = within(way, stripe)
            out += [max(0, right - left), self.deviations(model, k, way, stripe)]
        return out

    def _vectors(self, model: str, k: int, rows: RowSet) -> Tile:
        """The vectors of level k, by tile: read where they are stored, else computed."""
        levels = self.models[model].levels
        if self.store.stores_vectors:
            assert isinstance(rows, tuple)
            part = self.layout.part_of(rows[0])
            array = self.store.read(Task("after", model, k, part), (rows[1] - rows[0], levels[k].width))
            return lambda i, j: self.placed(torch.from_numpy(array[i:j]))
        if k + 1 < len(levels) and not levels[k + 1].maps_rows and self.store.is_complete(model, k + 1):
            table = self._table(model, k + 1, (0, levels[k + 1].columns))  # the level above averages them as they are
            if isinstance(rows, tuple):
                a = rows[0]
                return lambda i, j: table[a + i : a + j]
            index = torch.from_numpy(rows).to(table.device)
            return lambda i, j: table[index[i:j]]
        means = self.means(model, k, rows, (0, levels[k].columns))
        return lambda i, j: levels[k].after(means(i, j))

    def _goes_to_out(self, model: str, k: int) -> bool:
        """Whether the vectors of level k go into `out` when the level above reads them: rows of all nodes, in order."""
        if self.store.copies is not None:  # `out` is not where they are made
            return False
        steps = self.models[model]
        return steps.finish is None and k + 1 < len(steps.levels) and self.neighborhoods.nodes is None

    def _table(self, model: str, k: int, stripe: tuple[int, int]) -> Tensor:
        if not self.needs_rows(model, k):
            whole = self._whole_features(model)
            return as_tensor(whole) if self.store.copies is None else self.placed(whole)
        return self.store.table(self.before_tasks(model, k), self.parts(k - 1), stripe)

    def _whole_features(self, model: str) -> Any:
        """The feature matrix itself, where a level in memory can average it without a copy."""
        if self.store.stores_vectors or self.neighborhoods.nodes is not None:
            return None
        return self.models[model].reads.whole()


def _as_read(tile: Tensor) -> Any:
    """The vectors of a level as the next one reads them: an array, or a tensor on its device."""
    return tile if tile.is_cuda else tile.numpy()


def _before(job: Job, task: Task) -> None:
    rows, steps = job.parts(task.level - 1)[task.part], job.models[task.model].levels[task.level]
    out = job.store.empty(task, rows, job.neighborhoods.n_rows(task.level - 1), steps.columns)
    job.fill(out, job.averaged(task.model, task.level, rows), rows)
    job.store.write(task, out, job.stripes(task.model, task.level))


def _gather(job: Job, task: Task) -> None:
    rows, stripe = job.parts(task.level)[task.part], job.stripes(task.model, task.level)[task.stripe]
    columns = sum(job.gathered_columns(task.model, task.level, stripe))
    out = job.store.empty(task, rows, job.neighborhoods.n_rows(task.level), columns)
    job.fill(out, job.means(task.model, task.level, rows, stripe), rows)
    job.store.write(task, out, [(0, columns)])


def _after(job: Job, task: Task) -> None:
    rows, steps = job.parts(task.level)[task.part], job.models[task.model].levels[task.level]
    stripes = job.stripes(task.model, task.level)
    if len(stripes) == 1:
        means = job.means(task.model, task.level, rows, stripes[0])
    else:
        read = [_read_stripe(job, task, number, stripe) for number, stripe in enumerate(stripes)]

        def means(i: int, j: int) -> Tensor:  # of each way the means of all stripes, then their deviations
            whole = np.hstack([columns[i:j] for kind in zip(*read, strict=True) for columns in kind])
            placed: Tensor = job.placed(torch.from_numpy(whole))
            return placed

    out = job.store.empty(task, rows, job.neighborhoods.n_rows(task.level), steps.width)
    job.fill(out, lambda i, j: steps.after(means(i, j)), rows)
    job.store.write(task, out, [(0, steps.width)])


def _write(job: Job, task: Task) -> None:
    assert job.results is not None
    if not job.results.has(task.part):
        a, b = job.parts(-1)[task.part]
        vectors = job.output((a, b), np.empty((b - a, job.width), np.float32))
        written = job.results.write(task.part, job.neighborhoods.graph.id_column.slice(a, b - a), vectors)
        job.store.note(task, *written)


def _sample(job: Job, task: Task) -> None:
    a, b = job.parts(-1)[task.part]
    rows = job.sampled(task.part)
    vectors = job.output((a, b), np.empty((b - a, job.width), np.float32))[rows] if len(rows) else np.empty((0, 0))
    job.store.write(task, vectors, [(0, job.width)])


def _read_stripe(job: Job, task: Task, number: int, stripe: tuple[int, int]) -> list[Array]:
    """The means and the deviations of one stripe of a part, along each way."""
    (a, b), columns = job.parts(task.level)[task.part], job.gathered_columns(task.model, task.level, stripe)
    array = job.store.read(Task("gather", task.model, task.level, task.part, number), (b - a, sum(columns)))
    return np.split(array, np.cumsum(columns)[:-1], axis=1)


def within(way: Way, stripe: tuple[int, int]) -> tuple[int, int]:
    """The columns of a way that are in a stripe."""
    return max(way.left, stripe[0]), min(way.right, stripe[1])
