"""Embed every node exactly: into memory, into a file while it is computed, or in bounded memory from disk to disk.

One loop runs the tasks of every level over a store by an executor. All neighbours count, one pass over the edges per
level, no sampling, so the result is the same on every call, for the graph of the fit, a grown one and another one.

With a memory budget, intermediate rows lie as part files in a folder beside the output; its manifest has
checksums of model, graph, features and settings; a job with the same ones resumes. The output grows in that folder too
and is renamed when it is complete.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rae.blocks import Block
from rae.engine.exact_levels import models_to_sample
from rae.engine.executors import Executor, Serial, default_executor
from rae.engine.layout import AT_WORK, TILE, Layout, Sizes, by_edges, layout
from rae.engine.levels import Model, Neighborhoods, SomeNodes, WholeGraph
from rae.engine.models import models_of
from rae.engine.results import Results, open_results
from rae.engine.shared import SharedInputs
from rae.engine.stores import MemoryStore, PartStore
from rae.engine.tasks import Job, Task
from rae.features.measures import CACHED_BYTES
from rae.graph import Graph
from rae.graph.folder import open_graph
from rae.io import embeddings, read_features
from rae.io.embeddings import EmbeddingWriter, check_writable
from rae.memory import available_memory
from rae.model.checkpoint import load
from rae.model.sampling import exact_blocks, inference_blocks
from rae.model.structure import sample_rows
from rae.ops.device import Copies, copies
from rae.progress import Report, counter
from rae.runtime import device, run_ahead, threads, torch_alone
from rae.storage.atomic import atomic_path
from rae.storage.npy import map_array
from rae.storage.objects import REQUESTS, on_disk, place
from rae.storage.parts import Parts, digest_of
from rae.version import versions_of

Floats = np.ndarray[Any, np.dtype[np.float32]]

ROWS_ON_DEVICE = 1 << 21  # of a part on a GPU
FOLDER = ".parts"  # after the output's name: where intermediate rows lie
GROWING, OUTPUT = ".output.tmp", ".whole.tmp"


def embed(
    models: Mapping[str, Model],
    *,
    nodes: Any = None,
    report: Report | None = None,
    tile: int = TILE,
) -> Floats:
    """The vectors of every node, model beside model.  -> (n, width)

    `nodes` are the rows to embed, all by default; only what they need is computed.
    """
    n_rows = _graph(models).n_nodes if nodes is None else len(nodes)
    out = np.empty((n_rows, sum(model.width for model in models.values())), np.float32)
    if nodes is None:
        groups: list[Mapping[str, Model]] = [models]
    else:  # each model by itself: one that reads fewer edges away needs fewer nodes
        groups = [{name: model} for name, model in models.items()]
    left = 0
    with torch_alone():
        for group in groups:
            right = left + sum(model.width for model in group.values())
            for _ in run_job(memory_job(group, nodes=nodes, out=out[:, left:right], tile=tile), report=report):
                pass
            left = right
    return out


def stream(models: Mapping[str, Model]) -> Generator[Floats, None, None]:
    """The vectors of all nodes, a part at a time; the next is computed while one is used, and then overwritten."""
    return run_job(memory_job(models))


def embed_to(
    path: str | os.PathLike[str],
    models: Mapping[str, Model],
    *,
    memory: int | str | None = None,
    half: bool = False,
    dtype: str = "float32",
    model: str | None = None,
    blocks: Sequence[Block] = (),
    cut: Layout | None = None,
    executor: Executor | None = None,
    shared: SharedInputs | None = None,
    between: str | None = None,
    ready: Mapping[str, Parts] | None = None,
    in_folder: bool = False,
    report: Report | None = None,
) -> int:
    """Write ids and vectors of every node to a file while they are computed; the width of the vectors comes back.

    The bytes are those of `write_embeddings` with what `embed` returns. `memory` is what the process may take,
    e.g. "4GiB"; `half` stores intermediate rows in half precision; `dtype` is the precision of the file; `model` (a
    checksum) and `blocks` go into its header; `cut` says how to cut the work, whatever `memory` is, and `executor`
    where its tasks run: where they leave this process, `shared` are files of all that they read. `between` is the
    folder of intermediate rows, by default one beside the path; `ready` are parts of models that lie elsewhere already,
    by the same cut.

    With `in_folder` the path is a folder of Parquet files, one per part (`rae.engine.results`).
    """
    ids = _graph(models).id_column
    if not in_folder:
        check_writable(path, ids, dtype)
    if memory is None and cut is None and not in_folder:
        job, parts = memory_job(models), None
    else:
        stored = _stored_dtype(half)
        cut = cut or layout(memory or available_memory() or 0, job_sizes(models, stored.itemsize))
        between = between or f"{os.fspath(path).rstrip('/')}{FOLDER}"
        parts = Parts.open(between, _about(models, cut, stored))
        job = _described(part_job(models, parts, cut, stored, ready), parts, shared, half)
    if in_folder:
        assert parts is not None
        about = {"dtype": dtype, "model": model, "blocks": blocks}
        results = open_results(place(path), parts.fingerprint, job.width, **about)  # type: ignore[arg-type]
        job = _with_results(job, results)
        for _ in write_results(job, executor=executor, report=report):
            pass
        with ThreadPoolExecutor(REQUESTS) as pool:
            noted = pool.map(job.store.noted, (Task("write", "", -1, part) for part in range(len(job.parts(-1)))))
            results.finish(place(path), job.parts(-1), noted)
        parts.remove()
        return job.width
    aside = Path(parts.folder) / GROWING if parts is not None and isinstance(parts.folder, Path) else None
    with (
        atomic_path(path, aside=aside) as hidden,
        EmbeddingWriter(hidden, ids, job.width, Path(path).suffix, model=model, dtype=dtype, blocks=blocks) as writer,
        contextlib.closing(run_job(job, executor=executor, report=report)) as rows,
    ):
        for vectors in rows:
            writer.append(vectors)
        if aside is not None:
            _note_output(aside)
    if parts is not None:
        parts.remove(last=OUTPUT)
    return job.width


def _note_output(output: Path) -> None:
    """Hard-link a growing output among its parts, by which `forget_parts` recognises it after the move."""
    with contextlib.suppress(OSError):  # without hard links a kill may leave the parts of a complete output
        (output.parent / OUTPUT).unlink(missing_ok=True)
        (output.parent / OUTPUT).hardlink_to(output)


def forget_parts(path: str | os.PathLike[str]) -> None:
    """Remove the parts of a complete file whose process was killed before it did."""
    folder = Path(f"{os.fspath(path)}{FOLDER}")
    noted = folder / OUTPUT
    if noted.is_file() and Path(path).is_file() and noted.samefile(path):
        Parts(folder, "").remove(last=OUTPUT)
    elif folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def memory_job(models: Mapping[str, Model], *, nodes: Any = None, out: Floats | None = None, tile: int = TILE) -> Job:
    """A job whose averaged rows are in memory, for every node or some; parts are row groups of an output file.

    On a GPU parts are larger, and the output still comes in row groups.
    """
    if nodes is None:  # rows that are averaged as they are
        models = {
            name: model if model.levels[0].maps_rows else replace(model, reads=model.reads.in_memory())
            for name, model in models.items()
        }
    columns = max(level.columns for model in models.values() for level in model.levels)
    width = sum(model.width for model in models.values())
    rows, group = max(tile, embeddings.GROUP_BYTES // (4 * width) // tile * tile), None
    if out is not None:  # each thread has several tiles of a part
        rows *= max(1, threads() // 2)
    store = MemoryStore(copies=None if nodes is not None else _copies())
    if store.copies is not None:
        rows, group = max(rows, ROWS_ON_DEVICE), None if out is not None else rows
    return Job(models, _neighborhoods(models, nodes), store, Layout(rows, columns), tile, out, group)


def _copies() -> Copies | None:
    """The arrays on the device that is in force, None for the CPU."""
    return None if device() == "cpu" else copies(torch.device(device()))


def part_job(
    models: Mapping[str, Model],
    parts: Parts,
    cut: Layout,
    stored: np.dtype[Any],
    ready: Mapping[str, Parts] | None = None,
) -> Job:
    """A job whose intermediate rows are part files."""
    return Job(models, _neighborhoods(models), PartStore(parts, stored, copies=_copies(), ready=ready or {}), cut)


def _neighborhoods(models: Mapping[str, Model], nodes: Any = None) -> Neighborhoods:
    """All nodes, or what some nodes need, with all neighbours or those of sampled inference."""
    graph, config = _graph(models), next(iter(models.values())).reads.config
    depth, sampled = max(len(model.levels) for model in models.values()), config.inference == "sampled"
    if nodes is None:
        return WholeGraph(graph, depth, config.fanout if sampled else None, config.seed)
    if sampled:
        return SomeNodes(graph, *inference_blocks(graph, nodes, config.fanout, config.seed))
    return SomeNodes(graph, *exact_blocks(graph, nodes, depth))


def _graph(models: Mapping[str, Model]) -> Graph:
    return next(iter(models.values())).reads.graph


@dataclass(frozen=True)
class JobDescription:
    """A job on disk as plain data, so that its tasks can run in any process that sees the same files."""

    graph: str  # graph folder
    features: str | None  # .npy or .npz, one row per node; None for structure alone
    model: str  # model file
    parts: str  # folder of part files
    rows: int
    columns: int
    half: bool = False
    measures: str | None = None  # .npy, what an exact model reads of each node; computed where it is None
    fingerprint: str | None = None  # of the parts, where it is computed already
    by_edges: bool = False  # whether parts are cut by edges too
    results: dict[str, Any] | None = None  # the fields of `Results`, where the result is a folder
    ready: dict[str, tuple[str, str]] | None = None  # folder and fingerprint of parts that lie elsewhere, by model
    sample: tuple[int, int] | None = None  # how many nodes at most, and the seed, where the result is a fit's sample

    def open(self) -> Job:
        """The job, opened once per process."""
        return _open_job(json.dumps(asdict(self)))

    def perform(self, task: Task) -> None:
        """Do one task of it, unless its output is there."""
        self.open().perform(task)

    def close(self) -> None:
        """Give back what this process has opened for tasks."""
        _open_job.cache_clear()


@lru_cache(maxsize=1)
def _open_job(fields: str) -> Job:
    description = JobDescription(**json.loads(fields))
    features = None if description.features is None else read_features(description.features)
    own = None
    if description.measures is not None:
        with on_disk(description.measures) as path:  # mappings outlive the deleted file
            own = map_array(path)
    graph = open_graph(description.graph, checked=description.fingerprint is not None)
    with on_disk(description.model) as path:
        models = models_of(load(path), graph, features, check=False, own=own)
    cut, stored = Layout(description.rows, description.columns), _stored_dtype(description.half)
    if description.by_edges:
        cut = by_edges(cut, graph.offsets)
    if description.fingerprint is None:
        parts = Parts.open(description.parts, _about(models, cut, stored))
    else:
        parts = Parts(place(description.parts), description.fingerprint)
    results = None if description.results is None else Results(**description.results)
    ready = {
        name: Parts(place(folder), fingerprint) for name, (folder, fingerprint) in (description.ready or {}).items()
    }
    job = replace(part_job(models, parts, cut, stored, ready), description=description, results=results)
    return job if description.sample is None else job_of_sample(job, *description.sample)


def job_of_sample(job: Job, most: int, seed: int) -> Job:
    """The same job for a sample of so many nodes, for a fit."""
    rows = sample_rows(job.neighborhoods.graph.n_nodes, most, seed)
    return replace(job, models=models_to_sample(job.models), sample=rows)


def _described(job: Job, parts: Parts, shared: SharedInputs | None, half: bool) -> Job:
    """The job with itself as plain data, where its inputs lie in files."""
    if shared is None:
        return job
    cut = job.layout
    description = JobDescription(
        graph=shared.graph,
        features=shared.features,
        model=shared.model,
        parts=os.fspath(parts.folder),
        rows=cut.rows,
        columns=cut.columns,
        half=half,
        measures=shared.measures,
        fingerprint=parts.fingerprint,
        by_edges=bool(cut.bounds),
        ready={name: (os.fspath(p.folder), p.fingerprint) for name, p in job.store.ready.items()},  # type: ignore[attr-defined]
    )
    return replace(job, description=description)


def _with_results(job: Job, results: Results) -> Job:
    """The job with the folder that its results go to, in its description too."""
    if job.description is None:
        return replace(job, results=results)
    return replace(job, results=results, description=replace(job.description, results=asdict(results)))


def tasks_of_level(job: Job, model: str, k: int) -> list[list[Task]]:
    """The tasks that make the vectors of level k where they are stored, in stages: a stage needs the one before it."""
    stripes, n_parts = job.stripes(model, k), len(job.parts(k))
    means = [[Task("gather", model, k, part, stripe) for part in range(n_parts)] for stripe in range(len(stripes))]
    vectors = [Task("after", model, k, part) for part in range(n_parts)]
    return [job.before_tasks(model, k), *(means if len(stripes) > 1 else []), vectors]


def _stored_dtype(half: bool) -> np.dtype[Any]:
    return np.dtype(np.float16 if half else np.float32)


# ----------------------------------------------------------------------------- the one loop


def run_job(
    job: Job, *, executor: Executor | None = None, report: Report | None = None
) -> Generator[Floats, None, None]:
    """Run every task of a job and yield the vectors part by part: in `job.out`, or in buffers that are used again."""
    levels = _levels(job)
    advance = counter(report, _n_steps(job, levels))
    count = AT_WORK if job.store.stores_vectors else 1
    in_memory = job.out is not None  # no part is used before the last one is complete
    executor = executor or (Serial() if in_memory else default_executor(count))
    if job.store.stores_vectors:  # yield a part while the executor computes the next ones
        vectors = _run_levels(job, executor, levels, advance)
        for (a, b), _ in zip(job.parts(levels[-1][1]), executor.run(job, vectors), strict=True):
            advance()
            yield job.output((a, b), np.empty((b - a, job.width), np.float32))
        _drop_inputs(job, *levels[-1])
        return
    for model, k in levels:
        _make_rows(job, executor, model, k, advance)
    bounds = job.output_parts(k)
    n_buffers = 0 if in_memory else min(count + 1, len(bounds))
    buffers = [_buffer(job, (bounds[0][1], job.width)) for _ in range(n_buffers)]

    def output(part: int) -> Floats:
        a, b = bounds[part]
        return job.output((a, b), job.out[a:b] if job.out is not None else buffers[part % n_buffers][: b - a])

    for rows in map(output, range(len(bounds))) if in_memory else run_ahead(output, range(len(bounds)), count):
        advance()
        yield rows


def write_results(
    job: Job, *, executor: Executor | None = None, report: Report | None = None
) -> Generator[None, None, None]:
    """Run every task of a job whose result is a folder, the files of the result among them; yields once per file."""
    assert job.results is not None
    tasks = [Task("write", "", -1, part) for part in range(len(job.parts(-1)))]
    is_complete = all(job.results.has(task.part) for task in tasks)
    yield from _run_tasks(job, tasks, is_complete, executor or default_executor(AT_WORK), report)


def sampled_vectors(job: Job, executor: Executor, report: Report | None = None) -> Floats:
    """The vectors of the sample of a job, by its tasks.  -> (rows of the sample, width)"""
    tasks = [Task("sample", "", -1, part) for part in range(len(job.parts(-1)))]
    for _ in _run_tasks(job, tasks, all(map(job.store.has, tasks)), executor, report):
        pass
    return np.concatenate([job.store.read(task, (len(job.sampled(task.part)), job.width)) for task in tasks])


def _run_tasks(
    job: Job, tasks: list[Task], is_complete: bool, executor: Executor, report: Report | None
) -> Generator[None, None, None]:
    """Run every task of a job, at last those that make its results, unless it is complete; yields once per result."""
    levels = _levels(job)
    advance = counter(report, _n_steps(job, levels) + len(tasks))
    if not is_complete:
        for _ in executor.run(job, _run_levels(job, executor, levels, advance)):
            advance()
        _drop_inputs(job, *levels[-1])
    for _ in executor.run(job, tasks):
        advance()
        yield


def _levels(job: Job) -> list[tuple[str, int]]:
    """Every level of every model, in the order in which they are made."""
    return [(name, k) for name, model in job.models.items() for k in range(len(model.levels))]


def _run_levels(job: Job, executor: Executor, levels: list[tuple[str, int]], advance: Callable[[], None]) -> list[Task]:
    """Make and store the vectors of all levels but the last one, whose last tasks come back."""
    for model, k in levels:
        _make_rows(job, executor, model, k, advance)
        *means, vectors = _missing_tasks(job, model, k)
        for stage in means:
            for _ in executor.run(job, stage):
                pass
        if (model, k) != levels[-1]:
            for _ in executor.run(job, vectors):
                advance()
            _drop_inputs(job, model, k)
    return vectors


def _buffer(job: Job, shape: tuple[int, int]) -> Floats:
    """An array for the vectors of a part; where a GPU makes them, memory that it copies to at full speed."""
    if job.store.copies is None:
        return np.empty(shape, np.float32)
    pinned: Floats = torch.empty(shape, pin_memory=True).numpy()
    return pinned


def _make_rows(job: Job, executor: Executor, model: str, k: int, advance: Callable[[], None]) -> None:
    """Make the rows that level k averages, of all nodes, unless all that is made of them is there."""
    if not job.needs_rows(model, k):
        return
    rows, *_, vectors = tasks_of_level(job, model, k)
    needed = not all(map(job.store.has, vectors))
    for _ in executor.run(job, rows) if needed else rows:
        advance()
    job.store.finish(model, k)
    levels = job.models[model].levels
    if k > 0 and levels[k - 1].maps_rows and not levels[k].maps_rows:  # these rows are the vectors of the level below
        job.store.forget(model, k - 1)


def _missing_tasks(job: Job, model: str, k: int) -> list[list[Task]]:
    """The stages after the rows: means stripe by stripe, where there are several and vectors are missing; vectors."""
    _, *means, vectors = tasks_of_level(job, model, k)
    if not means:
        return [vectors]
    missing = {task.part for task in vectors if not job.store.has(task)}
    return [*([task for task in stage if task.part in missing] for stage in means), vectors]


def _drop_inputs(job: Job, model: str, k: int) -> None:
    """Remove the inputs of the vectors of level k, once these are stored."""
    for stage in tasks_of_level(job, model, k)[:-1]:
        job.store.drop(stage)


def _n_steps(job: Job, levels: list[tuple[str, int]]) -> int:
    """Tasks that progress counts: rows of every level, vectors of those that store them, and the output."""
    rows = sum(len(job.parts(k - 1)) for model, k in levels if job.needs_rows(model, k))
    vectors = sum(len(job.parts(k)) for _, k in levels[:-1]) if job.store.stores_vectors else 0
    return rows + vectors + len(job.output_parts(levels[-1][1]))


# ----------------------------------------------------------------------------- bounded memory


def job_sizes(models: Mapping[str, Model], itemsize: int) -> Sizes:
    """The sizes that a layout depends on."""
    graph = _graph(models)
    reads = {id(model.reads): model.reads for model in models.values()}.values()
    counted = CACHED_BYTES * graph.n_nodes if "place" in models else 0
    levels = [max(level.width, level.columns) for model in models.values() for level in model.levels]
    return Sizes(
        n_nodes=graph.n_nodes,
        n_targets=len(graph.targets),
        widths=(*levels, *(features.row_entries for features in reads)),
        width=sum(model.width for model in models.values()),
        itemsize=itemsize,
        resident=graph.resident_bytes + counted + sum(features.resident_bytes for features in reads),
        group_bytes=embeddings.GROUP_BYTES,
    )


def _about(models: Mapping[str, Model], cut: Layout, stored: np.dtype[Any]) -> dict[str, Any]:
    """Everything that the bytes of a part depend on, for their fingerprint."""
    graph = _graph(models)
    return {
        "versions": versions_of("numpy", "torch"),
        "models": {name: model.digest() for name, model in models.items()},
        "settings": {name: model.reads.config.as_dict() for name, model in models.items()},
        "features": {name: model.reads.digest() for name, model in models.items()},
        "graph": digest_of(*graph.arrays),
        "rows": cut.rows,
        "columns": cut.columns,
        **({"bounds": cut.bounds} if cut.bounds else {}),
        "tile": TILE,
        "stored": stored.name,
    }
