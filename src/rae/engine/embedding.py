"""Embed every node exactly: into memory, into a file while it is computed, or in bounded memory from disk to disk.

One loop runs the tasks of every level over a store by an executor. All neighbours count, one pass over the edges per
level, no sampling, so the result is the same on every call, for the graph of the fit, a grown one and another one.

With a memory budget, intermediate rows lie as part files in a folder beside the output; its manifest says of which
model, graph, features and settings, and anything else starts anew. The output grows in that folder too and is moved
to its name when it is whole, so a killed run resumes.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from rae.engine.executors import Executor, Serial, default_executor, run_ahead
from rae.engine.layout import AT_WORK, TILE, Layout, Sizes, layout
from rae.engine.levels import EncoderLevel, SomeNodes, WholeGraph, encoder_levels
from rae.engine.stores import MemoryStore, PartStore
from rae.engine.tasks import Job, Task
from rae.errors import FeatureError
from rae.features import Features
from rae.graph.folder import open_graph
from rae.io import embeddings, read_features
from rae.io.embeddings import EmbeddingWriter, check_writable
from rae.memory import mapped
from rae.model.checkpoint import load
from rae.model.encoder import Encoder
from rae.model.sampling import exact_blocks, inference_blocks
from rae.runtime import torch_alone
from rae.storage.atomic import atomic_path
from rae.storage.parts import Parts, digest_of

Floats = np.ndarray[Any, np.dtype[np.float32]]
Report = Callable[[int, int], None]

FOLDER = ".parts"  # after the output's name: where intermediate rows lie
GROWING = ".output.tmp"


def embed(
    encoders: Mapping[str, Encoder],
    features: Features,
    *,
    nodes: Any = None,
    report: Report | None = None,
    tile: int = TILE,
) -> Floats:
    """All levels of every node side by side, encoder beside encoder, the last level first.  -> (n, width)

    `nodes` are the rows to embed, all by default; only what they need is computed.
    """
    n_rows = features.graph.n_nodes if nodes is None else len(nodes)
    width = sum(encoder.width for encoder in encoders.values())
    out = np.empty((n_rows, width), np.float32)
    job = memory_job(encoders, features, nodes=nodes, out=out, tile=tile)
    with torch_alone():
        for _ in run_job(job, report=report):
            pass
    return out


def stream(
    encoders: Mapping[str, Encoder], features: Features, *, report: Report | None = None
) -> Generator[Floats, None, None]:
    """The vectors of all nodes, a part at a time; the next is computed while one is used, and then overwritten."""
    return run_job(memory_job(encoders, features), report=report)


def embed_to(
    path: str | os.PathLike[str],
    encoders: Mapping[str, Encoder],
    features: Features,
    *,
    memory: int | str | None = None,
    half: bool = False,
    dtype: str = "float32",
    model: str | None = None,
    cut: Layout | None = None,
    executor: Executor | None = None,
    report: Report | None = None,
) -> int:
    """Write ids and vectors of every node to a file while they are computed; the width of the vectors comes back.

    The bytes are those of `write_embeddings` with what `embed` returns. `memory` is what the process may take,
    e.g. "4GiB"; `half` stores intermediate rows in half precision; `dtype` is the precision of the file; `cut` says
    how to cut the work, whatever `memory` is, and `executor` where its tasks run.
    """
    ids = features.graph.id_column
    check_writable(path, ids, dtype)
    if memory is None and cut is None:
        job, parts = memory_job(encoders, features), None
    else:
        stored = _stored_dtype(half)
        cut = cut or _layout(memory, encoders, features, stored)
        parts = Parts.open(f"{os.fspath(path)}{FOLDER}", _about(encoders, features, cut, stored))
        job = part_job(encoders, features, parts, cut, stored)
    aside = None if parts is None else parts.folder / GROWING
    with (
        atomic_path(path, aside=aside) as hidden,
        EmbeddingWriter(hidden, ids, job.width, Path(path).suffix, model=model, dtype=dtype) as writer,
        contextlib.closing(run_job(job, executor=executor, report=report)) as rows,
    ):
        for vectors in rows:
            writer.append(vectors)
    if parts is not None:
        parts.remove()
    return job.width


def memory_job(
    encoders: Mapping[str, Encoder],
    features: Features,
    *,
    nodes: Any = None,
    out: Floats | None = None,
    tile: int = TILE,
) -> Job:
    """A job whose averaged rows are in memory, for every node or some; parts are row groups of an output file."""
    models = _models(encoders, features)
    if nodes is None and not all(levels[0].maps_rows for levels in models.values()):
        features = features.in_memory()  # rows that are averaged as they are
    columns = max(level.columns for levels in models.values() for level in levels)
    width = sum(level.width for levels in models.values() for level in levels)
    rows = max(tile, embeddings.GROUP_BYTES // (4 * width) // tile * tile)
    depth = max(map(len, models.values()))
    neighborhoods: Any = _whole_graph(features, depth)
    if nodes is not None:
        config = features.config
        sampled = config.inference == "sampled"
        neighborhoods = SomeNodes(
            *(
                inference_blocks(features.graph, nodes, config.fanout, config.seed)
                if sampled
                else exact_blocks(features.graph, nodes, depth)
            )
        )
    return Job(models, features, neighborhoods, MemoryStore(), Layout(rows, columns), tile, out)


def part_job(
    encoders: Mapping[str, Encoder], features: Features, parts: Parts, cut: Layout, stored: np.dtype[Any]
) -> Job:
    """A job whose intermediate rows are part files."""
    models = _models(encoders, features)
    neighborhoods = _whole_graph(features, max(map(len, models.values())))
    return Job(models, features, neighborhoods, PartStore(parts, stored), cut)


def _whole_graph(features: Features, depth: int) -> WholeGraph:
    config = features.config
    fanout = config.fanout if config.inference == "sampled" else None
    return WholeGraph(features.graph, depth, fanout, config.seed)


def _models(encoders: Mapping[str, Encoder], features: Features) -> dict[str, list[EncoderLevel]]:
    """The levels of every encoder, refused where it does not read these features."""
    for encoder in encoders.values():
        if encoder.n_features != features.width:
            raise FeatureError(f"the model reads {encoder.n_features:,} feature columns, got {features.width:,}")
    return {name: encoder_levels(encoder, features.is_dense) for name, encoder in encoders.items()}


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

    def open(self) -> Job:
        """The job, opened once per process."""
        return _open_job(self)


@lru_cache(maxsize=1)
def _open_job(description: JobDescription) -> Job:
    checkpoint = load(description.model)
    given = None if description.features is None else read_features(description.features)
    features = Features.of(open_graph(description.graph), given, checkpoint.config, check=False)
    cut, stored = Layout(description.rows, description.columns), _stored_dtype(description.half)
    parts = Parts.open(description.parts, _about(checkpoint.encoders, features, cut, stored))
    return replace(part_job(checkpoint.encoders, features, parts, cut, stored), description=description)


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
    levels = [(model, k) for model, steps in job.models.items() for k in range(len(steps))]
    done = _counter(report, _n_steps(job, levels))
    count = AT_WORK if job.store.stores_vectors else 1
    in_memory = job.out is not None  # nobody uses a part before the last one is there
    executor = executor or (Serial() if in_memory else default_executor(count))
    for model, k in levels:
        _make_rows(job, executor, model, k, done)
        if job.store.stores_vectors:
            *means, vectors = _missing_tasks(job, model, k)
            for stage in means:
                for _ in executor.run(job, stage):
                    pass
            if (model, k) != levels[-1]:
                for _ in executor.run(job, vectors):
                    done()
                _drop_inputs(job, model, k)
    bounds = job.parts(k)
    if job.store.stores_vectors:  # a part is given out while the executor makes the next ones
        for (a, b), _ in zip(bounds, executor.run(job, vectors), strict=True):
            done()
            yield job.output((a, b), np.empty((b - a, job.width), np.float32))
        _drop_inputs(job, model, k)
        return
    n_buffers = 0 if in_memory else min(count + 1, len(bounds))
    buffers = [np.empty((bounds[0][1], job.width), np.float32) for _ in range(n_buffers)]

    def output(part: int) -> Floats:
        a, b = bounds[part]
        return job.output((a, b), job.out[a:b] if job.out is not None else buffers[part % n_buffers][: b - a])

    for rows in map(output, range(len(bounds))) if in_memory else run_ahead(output, range(len(bounds)), count):
        done()
        yield rows


def _make_rows(job: Job, executor: Executor, model: str, k: int, done: Callable[[], None]) -> None:
    """Make the rows that level k averages, of all nodes, unless all that is made of them is there."""
    if not job.needs_rows(model, k):
        return
    rows, *_, vectors = tasks_of_level(job, model, k)
    needed = not all(map(job.store.has, vectors))
    for _ in executor.run(job, rows) if needed else rows:
        done()
    job.store.finish(model, k)


def _missing_tasks(job: Job, model: str, k: int) -> list[list[Task]]:
    """The stages after the rows: means stripe by stripe, where there are several and vectors are missing; vectors."""
    _, *means, vectors = tasks_of_level(job, model, k)
    missing = {task.part for task in vectors if not job.store.has(task)}
    return [*([task for task in stage if task.part in missing] for stage in means), vectors]


def _drop_inputs(job: Job, model: str, k: int) -> None:
    """Remove what the vectors of level k were made of, now that they are there."""
    for stage in tasks_of_level(job, model, k)[:-1]:
        for task in stage:
            job.store.drop(task)


def _n_steps(job: Job, levels: list[tuple[str, int]]) -> int:
    """Tasks that progress counts: rows of every level, vectors of those that store them, and the output."""
    rows = sum(len(job.parts(k - 1)) for model, k in levels if job.needs_rows(model, k))
    vectors = sum(len(job.parts(k)) for _, k in levels[:-1]) if job.store.stores_vectors else 0
    return rows + vectors + len(job.parts(levels[-1][1]))


def _counter(report: Report | None, total: int) -> Callable[[], None]:
    """A function that reports one more of `total` tasks done."""
    count = 0

    def done() -> None:
        nonlocal count
        count += 1
        if report is not None:
            report(count, total)

    return done


# ----------------------------------------------------------------------------- bounded memory


def _layout(memory: Any, encoders: Mapping[str, Encoder], features: Features, stored: np.dtype[Any]) -> Layout:
    widths = [width for encoder in encoders.values() for width in (level.widths[1] for level in encoder.stack())]
    return layout(memory, job_sizes(features, widths, stored.itemsize))


def job_sizes(features: Features, widths: list[int], itemsize: int) -> Sizes:
    """What a layout depends on, for models whose levels have these widths, each level of each model."""
    graph = features.graph
    in_memory = sum(array.nbytes for array in (graph.offsets, graph.targets) if mapped(array) is None)
    return Sizes(
        n_nodes=graph.n_nodes,
        n_targets=len(graph.targets),
        widths=(*widths, features.row_entries),
        width=sum(widths),
        itemsize=itemsize,
        resident=in_memory + features.resident_bytes + int(graph.id_column.nbytes),
        group_bytes=embeddings.GROUP_BYTES,
    )


def _about(encoders: Mapping[str, Encoder], features: Features, cut: Layout, stored: np.dtype[Any]) -> dict[str, Any]:
    """All that the bytes of a part depend on."""
    return {
        "versions": {name: version(name) for name in ("rae", "numpy", "torch")},
        "settings": features.config.as_dict(),
        "encoders": {
            name: digest_of(*(t.reshape(-1).cpu().numpy() for t in encoder.state_dict().values()))
            for name, encoder in encoders.items()
        },
        "graph": digest_of(features.graph.offsets, features.graph.targets),
        "features": features.digest(),
        "rows": cut.rows,
        "columns": cut.columns,
        "tile": TILE,
        "stored": stored.name,
    }
