"""The inputs of an exact fit, by tasks that any host can run: measures, statistics, sums over features.

    rows(v, part)        a run of rows of noisy copy v of the graph; version 0 is the graph itself
    view(v)              all of them, one after the other: a graph folder
    count(v, share)      a share of its triangles and 4-cycles: those to add up, or, estimated, those of a run of rows
    core(v)              its core numbers
    own(v)               its measures in units; those of version 0 are the units, unless they are given
    words, columns, squares (share)   sums over runs of rows of the features
    levels               the tasks of `rae.engine.tasks`, of which `sample` brings the rows that the fit is solved from

The formulas are those of `rae.model`, and what is added up is added in the order of one machine: the model has its
bytes. Every task reads files and writes one output atomically, so it may run twice. The files left of a version are a
few megabytes, from which the same command resumes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rae.config import Config, ExactConfig
from rae.engine.embedding import JobDescription, job_of_sample, part_job, sampled_vectors
from rae.engine.layout import Layout
from rae.engine.levels import Model
from rae.engine.models import models_of
from rae.engine.shared import GRAPH, MEASURES, MODEL, discard, filled, share_features, share_graph, write_rows_of_parts
from rae.features import Features, measures
from rae.graph import Counts, Graph
from rae.graph.folder import IDS, INFO, open_graph, write_ids, write_info
from rae.graph.folder_builder import new_folder
from rae.io import read_features
from rae.memory import row_runs
from rae.model import actions, structure
from rae.model.actions import Actions
from rae.model.channels import conform, n_measures
from rae.model.checkpoint import save
from rae.model.exact import ExactModel
from rae.model.structure import Structure, Unit
from rae.ops.structure import core_numbers
from rae.progress import Progress
from rae.runtime import torch_alone
from rae.storage.npy import map_array, write_array
from rae.storage.objects import ObjectPath, on_disk, place
from rae.storage.parts import Parts, digest_of
from rae.version import versions_of

FOLDER = ".fit"  # after the name of what is fitted; then the number of the version
PARTS = ".parts"
STATISTICS = "statistics"  # a sample of them per version
OF_GRAPH = f"{STATISTICS}-0"
ENTRIES = 1 << 25  # neighbours in a run of rows of a view, at least where there are as many
RUNS = 256  # of rows of a view, at most: each draws all pairs
CHUNKS = 32  # runs of rows whose sums one task takes
SUMS = {"words": 1, "columns": 1, "squares": 2}  # of each column

Array = np.ndarray[Any, Any]
Report = Callable[[int, int], None]


@dataclass(frozen=True)
class FitTask:
    """One unit of work: its kind, the version of the graph, and its number among those of the kind."""

    kind: str
    version: int = 0
    number: int = 0
    rows: tuple[int, int] = (0, 0)

    @property
    def name(self) -> str:
        """The name of its output."""
        return f"{self.kind}-{self.version}-{self.number:05}"


@dataclass(frozen=True)
class FitDescription:
    """A fit as plain data, for tasks that run anywhere."""

    graph: str  # graph folder
    features: str | None  # .npy or .npz, one row per node
    base: str  # the prefix of folders that all hosts see
    fingerprint: str
    config: dict[str, Any]
    channels: tuple[str, ...]  # that the model reads
    weighted: bool
    estimated: bool  # whether cycles are estimated
    shares: int  # of the work of counting them

    def perform(self, task: FitTask) -> None:
        """Do one task, unless its output is there."""
        _opened(json.dumps(asdict(self))).perform(task)

    def close(self) -> None:
        """Give back what this process has opened for tasks."""
        _opened.cache_clear()
        _graph.cache_clear()


@lru_cache(maxsize=1)
def _opened(fields: str) -> FitFiles:
    values = json.loads(fields)
    description = FitDescription(**values | {"channels": tuple(values["channels"])})
    return FitFiles(description, Parts(place(f"{description.base}{PARTS}"), description.fingerprint))


@dataclass(frozen=True)
class FitFiles:
    """A fit in a process that runs tasks of it: the files of every version."""

    description: FitDescription
    parts: Parts

    def folder(self, version: int) -> Path | ObjectPath:
        """The folder of a version."""
        return place(f"{self.description.base}-{version}")

    @cached_property
    def config(self) -> ExactConfig:
        """The settings of the fit."""
        return ExactConfig.from_dict(self.description.config)

    def graph_of(self, version: int) -> str:
        """The graph folder of a version."""
        return self.description.graph if version == 0 else os.fspath(self.folder(version) / GRAPH)

    def graph(self, version: int) -> Graph:
        """A version of the graph, as the model reads it."""
        graph = conform(_graph(self.graph_of(version)), self.description.channels, self.description.weighted)
        graph.__dict__.setdefault("measures", {})["estimated"] = self.description.estimated
        return graph

    @cached_property
    def features(self) -> Features:
        """The features of the graph."""
        assert self.description.features is not None
        return Features.of(self.graph(0), read_features(self.description.features), Config(), check=False)

    def has(self, task: FitTask) -> bool:
        """Whether the output of a task is there."""
        if task.kind == "view":
            return (self.folder(task.version) / GRAPH / INFO).is_file()
        return self.parts.has(task.name)

    def perform(self, task: FitTask) -> None:
        """Do one task, unless its output is there."""
        kinds = {"rows": self._rows, "view": self._view, "count": self._count, "core": self._core, "own": self._own}
        if not self.has(task):
            with torch_alone():
                kinds.get(task.kind, self._sums)(task)

    def _rows(self, task: FitTask) -> None:
        lengths, entries, weights = structure.rows_of_view(self.graph(0), self.config, task.version - 1, *task.rows)
        self.parts.write(task.name, [lengths, entries, *weights])

    def _view(self, task: FitTask) -> None:
        graph = self.graph(0)
        names = tuple(graph.channels)
        rows = [(made.name, *made.rows) for made in row_tasks(graph, task.version)]
        with filled(self.folder(task.version), INFO) as here, new_folder(here / GRAPH) as hidden:
            write_rows_of_parts(hidden, self.parts, rows, graph.n_nodes, graph.targets.dtype, len(names))
            write_ids(hidden / IDS, graph.id_column)
            write_info(hidden, Counts(), channels=names, weighted=graph.weighted, doubled=graph.doubled)
        self.parts.drop(*(name for name, *_ in rows))

    def _count(self, task: FitTask) -> None:
        counts = measures.share_of_counts(self.graph(task.version), task.number, self.description.shares)
        self.parts.write(task.name, counts)

    def _core(self, task: FitTask) -> None:
        graph = self.graph(task.version)
        self.parts.write(task.name, [core_numbers(graph.offsets, graph.targets)])

    def _own(self, task: FitTask) -> None:
        graph = self.graph(task.version)
        measures.forget_order(graph)
        self.keep_counts(graph, task.version)
        scales = structure.scales_of(graph) if not self.parts.has("unit") else self.unit()[1]
        x = structure.measure(graph, scales)
        if not self.parts.has("unit"):
            self.write_unit(structure.units(x), scales)
        own = structure.in_units(x, self.unit()[0])
        with filled(self.folder(task.version), MEASURES) as here:
            write_array(here / MEASURES, own)
        self.parts.write(task.name, [])

    def keep_counts(self, graph: Graph, version: int) -> None:
        """Cache the counts that tasks have made in a version of the graph."""
        if measures.are_counted(graph):
            return
        shares = [
            self.parts.read(FitTask("count", version, i).name, measures.share_shape(graph, i), np.int64)
            for i in range(self.description.shares)
        ]
        cores = self.parts.read(FitTask("core", version).name, (graph.n_nodes,), np.int64)
        measures.keep_counts(graph, shares, cores)

    def write_unit(self, unit: Unit, scales: Tensor | None) -> None:
        """Keep the units of the measures, and those of weights."""
        self.parts.write("unit", _values(unit, scales))

    def unit(self) -> tuple[Unit, Tensor | None]:
        """The units of the measures, and those of weights, None where there are none."""
        k = n_measures(self.description.channels, self.description.weighted)
        values = torch.from_numpy(self.parts.read("unit", (self.parts.size("unit") // 8,), np.float64))
        return (values[:k], values[k : 2 * k]), values[2 * k :] if len(values) > 2 * k else None

    def own(self, version: int) -> Any:
        """The measures of a version, mapped."""
        with on_disk(os.fspath(self.folder(version) / MEASURES)) as path:  # mappings outlive the deleted file
            return map_array(path)

    def _sums(self, task: FitTask) -> None:
        x, kind = self.features, task.kind
        mean = self.parts.read("mean", (x.given_width,), np.float64) if kind == "squares" else None
        chunks = actions.chunks_to_sum(x, kind)[task.number * CHUNKS : (task.number + 1) * CHUNKS]
        self.parts.write(task.name, [actions.sums_of_rows(x, kind, a, b, mean) for a, b in chunks])


def row_tasks(graph: Graph, version: int) -> list[FitTask]:
    """The tasks that make the rows of a version, by runs of rows with about equally many neighbours."""
    most = entries_of_run(len(graph.targets))
    return [FitTask("rows", version, i, rows) for i, rows in enumerate(row_runs(graph.offsets, most))]


def entries_of_run(n_targets: int) -> int:
    """The neighbours of a run of rows of a view, about."""
    return max(ENTRIES, -(-n_targets // RUNS))


@lru_cache(maxsize=1)
def _graph(path: str) -> Graph:
    return open_graph(path, checked=True)


@dataclass
class FitByTasks:
    """The versions of a graph and the passes over its features, for a fit whose tasks an executor runs.

    `cut` says how the levels of a model are cut into parts; with `keeps_levels` those of the graph itself stay, for
    embedding it.
    """

    files: FitFiles
    graph: Graph
    executor: Any
    cut: Callable[[Mapping[str, Model]], Layout]
    x: Features | None = None
    progress: Progress | None = None
    keeps_levels: bool = False

    # ------------------------------------------------------------------------- structure

    def units(self) -> tuple[Unit, Tensor | None]:
        config = self.files.config
        self.measure(range(config.n_views(self.graph.n_nodes) + 1))
        return self.files.unit()

    def statistics(self, number: int | None) -> Tensor:
        version, parts = 0 if number is None else number + 1, self.files.parts
        name, rows = f"{STATISTICS}-{version}", min(self.graph.n_nodes, structure.SAMPLE)
        if not parts.has(name):
            parts.write(name, [self._statistics(version, name)])
            if version:
                discard(self.files.folder(version))
        width = structure.n_statistics(self.files.config, self.channels, self._weighted)
        return torch.from_numpy(parts.read(name, (rows, width))).double()

    def _statistics(self, version: int, name: str) -> Array:
        (mean, deviation), scales = self.files.unit()
        blank = Structure.blank(self.files.config, 2, channels=self.channels, weighted=self._weighted)
        blank = replace(blank, mean=mean, deviation=deviation, scales=scales)
        model = ExactModel(self.files.config, blank, channels=self.channels, weighted=self._weighted)
        models = models_of(model, self.files.graph(version), check=False, own=self.files.own(version))
        measured = os.fspath(self.files.folder(version) / MEASURES)
        paths = {"graph": self.files.graph_of(version), "measures": measured}
        return self._sampled(name, model, models, structure.SAMPLE, paths)

    def measure(self, versions: Iterable[int]) -> None:
        """Count and measure these versions of the graph, unless that is done."""
        parts, shares = self.files.parts, range(self.files.description.shares)
        missing = [v for v in versions if not parts.has(f"{STATISTICS}-{v}") or v == 0]
        views = [FitTask("view", v) for v in missing if v]
        absent = [view.version for view in views if not self.files.has(view)]
        self._run([task for v in absent for task in row_tasks(self.graph, v)], "views")
        self._run(views, "views")
        counts = [FitTask("core", v) for v in missing] + [FitTask("count", v, i) for v in missing for i in shares]
        self._run(counts, "counts")
        self._run([FitTask("own", v) for v in missing if v == 0], "measures")
        self._run([FitTask("own", v) for v in missing if v], "measures")

    def keep_own(self) -> None:
        """Cache the measures in the graph, for embedding."""
        structure.keep_own(self.graph, self.files.config, *self.files.unit(), self.files.own(0))

    # ------------------------------------------------------------------------- actions

    def sums(self, kind: str, mean: Any = None) -> Array:
        assert self.x is not None
        if mean is not None:
            self.files.parts.write("mean", [mean])
        m, count = self.x.given_width, len(actions.chunks_to_sum(self.x, kind))
        tasks = [FitTask(kind, 0, i) for i in range(-(-count // CHUNKS))]
        self._run(tasks, "columns")
        total = np.zeros((SUMS[kind], m))
        for i, task in enumerate(tasks):
            for sums in self.files.parts.read(task.name, (min(CHUNKS, count - i * CHUNKS), *total.shape), np.float64):
                total += sums
        return total

    def hops(self, blank: Actions, axes: Tensor, groups: Sequence[tuple[str, ...]]) -> list[Tensor]:
        assert self.x is not None
        width, rows = len(groups) * axes.shape[1], min(self.graph.n_nodes, actions.SAMPLE)
        if not self.files.parts.has("hops"):
            zero = Actions.blank(blank.shift, blank.scale, blank.words, 1, axes.shape[1], len(groups))
            config = replace(self.files.config, structure=False)
            fitted = replace(zero, axes=axes)
            model = ExactModel(config, None, fitted, channels=self.channels, weighted=self._weighted)
            models = models_of(model, self.graph, self.x.matrix, check=False)
            paths = {"graph": self.files.graph_of(0), "features": self.files.description.features}
            self.files.parts.write("hops", [self._sampled("hops", model, models, actions.SAMPLE, paths)])
        hops = torch.from_numpy(self.files.parts.read("hops", (rows, actions.HOPS * width)))
        return [hops[:, i * width : (i + 1) * width].contiguous() for i in range(actions.HOPS)]

    # ------------------------------------------------------------------------- tasks

    def _sampled(
        self, name: str, fitted: ExactModel, models: Mapping[str, Model], most: int, paths: Mapping[str, str | None]
    ) -> Array:
        """The columns of these models for a sample of at most so many nodes, for a fit."""
        seed, cut = self.files.config.seed, self.cut(models)
        where, parts = f"{self.files.description.base}-{name}", self.parts_of_levels(name, cut)
        with filled(place(where), MODEL) as here:
            save(fitted, here / MODEL)
        description = JobDescription(
            model=os.fspath(place(where) / MODEL),
            parts=os.fspath(parts.folder),
            rows=cut.rows,
            columns=cut.columns,
            fingerprint=parts.fingerprint,
            by_edges=bool(cut.bounds),
            sample=(most, seed),
            **({"features": None} | dict(paths)),  # type: ignore[arg-type]
        )
        job = part_job(models, parts, cut, np.dtype(np.float32))
        job = job_of_sample(replace(job, description=description), most, seed)
        out = sampled_vectors(job, self.executor, self._report("levels"))
        if not (self.keeps_levels and name == OF_GRAPH):
            parts.remove()
        discard(place(where))
        return out

    def parts_of_levels(self, name: str, cut: Layout) -> Parts:
        """The parts of the levels of which a sample is taken."""
        about = {"fit": self.files.description.fingerprint, "name": name, "rows": cut.rows, "columns": cut.columns}
        return Parts.open(f"{self.files.description.base}-{name}{PARTS}", about | {"bounds": cut.bounds})

    def _run(self, tasks: list[FitTask], stage: str) -> None:
        report, missing = self._report(stage), [task for task in tasks if not self.files.has(task)]
        for i, _ in enumerate(self.executor.run(self.files, missing)):
            if report is not None:
                report(len(tasks) - len(missing) + i + 1, len(tasks))

    def _report(self, stage: str) -> Report | None:
        progress = self.progress
        return None if progress is None else lambda count, total: progress(stage, count, total, {})

    @property
    def channels(self) -> tuple[str, ...]:
        """The channels that the model reads."""
        return self.files.description.channels

    @property
    def _weighted(self) -> bool:
        return self.files.description.weighted


def fit_by_tasks(
    graph: Graph,
    x: Features | None,
    config: ExactConfig,
    base: str,
    executor: Any,
    cut: Callable[[Mapping[str, Model]], Layout],
    progress: Progress | None = None,
    unit: tuple[Unit, Tensor | None] | None = None,
    keeps_levels: bool = False,
) -> FitByTasks:
    """The inputs of a fit of this graph, by tasks; `base` is the prefix of folders that all hosts see.

    A killed fit is resumed from its files there. `unit` are units of measures and weights that are given.
    """
    about = {
        "versions": versions_of("numpy", "torch"),
        "config": config.as_dict(),
        "graph": digest_of(*graph.arrays),
        "channels": list(graph.channels),
        "weighted": graph.weighted,
        "features": None if x is None else x.digest(),
        "unit": None if unit is None else [[float(v) for v in values] for values in _values(*unit)],
    }
    parts = Parts.open(f"{base}{PARTS}", about)
    if not parts.has("begun"):
        _remove_versions(base, config.n_views(graph.n_nodes) + 1)
        parts.write("begun", [])
    home = place(f"{base}-0")
    description = FitDescription(
        share_graph(home, graph),
        None if x is None or x.matrix is None else share_features(home, x.matrix),
        base,
        parts.fingerprint,
        config.as_dict(),
        tuple(graph.channels),
        bool(graph.channels) and graph.weighted,
        measures.is_estimated(graph),
        measures.shares_of_counts(graph),
    )
    files = FitFiles(description, parts)
    if unit is not None:
        files.write_unit(*unit)
    return FitByTasks(files, graph, executor, cut, x, progress, keeps_levels)


def forget_fit(base: str) -> None:
    """Remove the files of a fit's tasks: its sums, and the measures of the graph."""
    _remove_versions(base, 1)
    Parts(place(f"{base}{PARTS}"), "").remove()


def _remove_versions(base: str, count: int) -> None:
    """Remove the folders of so many versions, and the rows between their levels."""
    names = [*map(str, range(count)), "hops", *(f"{STATISTICS}-{version}" for version in range(count))]
    for name in names:
        discard(place(f"{base}-{name}"))
        Parts(place(f"{base}-{name}{PARTS}"), "").remove()


def _values(unit: Unit, scales: Tensor | None) -> list[Array]:
    """Units of measures and weights as arrays."""
    return [tensor.numpy() for tensor in (*unit, *([] if scales is None else [scales]))]
