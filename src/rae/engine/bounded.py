"""Embed every node exactly, from disk to disk: bounded memory, and a killed run goes on where it was.

Intermediate rows lie as part files in a folder beside the output; its manifest says of which model,
graph, features and settings, and anything else starts anew. Parts that are there are not made
again. The output grows in row groups while the last level is made, in that folder too, and is
moved to its name when it is whole.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from rae.config import Config
from rae.engine.exact import TILE, Report
from rae.engine.layout import AT_WORK, Layout, layout
from rae.engine.rows import FeatureRows
from rae.engine.tasks import Job, averaged_rows, finish, gather, project
from rae.errors import FeatureError
from rae.graph import Graph
from rae.io.embeddings import GROUP_BYTES, EmbeddingWriter, check_writable
from rae.memory import mapped
from rae.model.encoder import Encoder
from rae.runtime import threads, torch_alone
from rae.storage.atomic import atomic_path
from rae.storage.parts import Parts, digest_of

FOLDER = ".parts"  # after the output's name: where intermediate rows lie
GROWING = ".output.tmp"


def embed_to(
    path: str | os.PathLike[str],
    encoders: Mapping[str, Encoder],
    graph: Graph,
    features: Any,
    config: Config,
    *,
    memory: int | str,
    half: bool = False,
    dtype: str = "float32",
    model: str | None = None,
    cut: Layout | None = None,
    report: Report | None = None,
) -> int:
    """Write ids and vectors of every node to a file, in bounded memory; the width of the vectors comes back.

    The bytes are those of `write_embeddings` with what `embed` returns, encoder beside encoder.
    `memory` is what the process may take, e.g. "4GiB"; `half` keeps intermediate rows in half
    precision; `dtype` is the precision of the file; `cut` says how to cut the work, whatever `memory` is.
    """
    check_writable(path, graph.id_column, dtype)
    rows = FeatureRows.of(graph, features, config)
    for encoder in encoders.values():
        if encoder.n_features != rows.width:
            raise FeatureError(f"the model reads {encoder.n_features:,} feature columns, got {rows.width:,}")
    kept = np.dtype(np.float16 if half else np.float32)
    cut = cut or _cut(memory, encoders, rows, kept)
    fanout = config.fanout if config.inference == "sampled" else None
    parts = Parts.open(f"{os.fspath(path)}{FOLDER}", _about(encoders, rows, cut, kept))
    jobs = [
        Job(name, encoder, graph, rows, parts, cut, kept, fanout, config.seed) for name, encoder in encoders.items()
    ]
    width = sum(encoder.width for encoder in encoders.values())
    told = _counted(report, 2 * len(cut.parts()) * sum(len(job.levels) for job in jobs))
    with (
        torch_alone(),
        atomic_path(path, aside=parts.folder / GROWING) as hidden,
        EmbeddingWriter(hidden, graph.id_column, width, Path(path).suffix, model=model, dtype=dtype) as writer,
    ):
        last = jobs[-1], len(jobs[-1].levels) - 1

        def done(part: int) -> None:
            writer.append(np.hstack([job.vectors(k, part) for job in jobs for k in reversed(range(len(job.levels)))]))

        for job in jobs:
            for k in range(len(job.levels)):
                _run_level(job, k, told, done if (job, k) == last else None)
    parts.remove()
    return width


def _run_level(job: Job, k: int, told: Callable[[], None], done: Callable[[int], None] | None) -> None:
    """Make the vectors of level k that are not there, part by part; `done` hears of each part in order."""
    n_parts, n_stripes = len(job.layout.parts()), len(job.stripes(k))
    missing = [not job.parts.has(job.vectors_name(k, part)) for part in range(n_parts)]
    for _ in _in_order(lambda part: project(job, k, part) if any(missing) else None, n_parts):
        told()
    if any(missing) and n_stripes == 1:
        finished = _gathered(job, k, 0, missing)
    else:
        for stripe in range(n_stripes if any(missing) else 0):
            for _ in _gathered(job, k, stripe, missing):
                pass
        finished = _in_order(lambda part: finish(job, k, part), n_parts)
    for part in finished:
        told()
        if done is not None:
            done(part)
    for part in range(n_parts):  # the vectors are all there: what they were made of is not needed again
        job.parts.drop(job.rows_name(k, part))
        for stripe in range(n_stripes if n_stripes > 1 else 0):
            job.parts.drop(job.means_name(k, part, stripe))


def _gathered(job: Job, k: int, stripe: int, missing: list[bool]) -> Iterator[int]:
    """Each part when its gathering is done; the rows of all nodes are in memory until the last one is."""
    rows = averaged_rows(job, k, stripe)
    yield from _in_order(lambda part: gather(job, k, part, stripe, rows) if missing[part] else None, len(missing))


def _in_order(task: Callable[[int], None], n_parts: int) -> Iterator[int]:
    """Each part when its task is done, in order; with threads, a few parts are at work at a time."""
    if threads() == 1:
        for part in range(n_parts):
            task(part)
            yield part
        return
    with ThreadPoolExecutor(AT_WORK) as pool:
        futures = [pool.submit(task, part) for part in range(n_parts)]
        try:
            for part, future in enumerate(futures):
                future.result()
                yield part
        finally:
            for future in futures:
                future.cancel()


def _cut(memory: int | str, encoders: Mapping[str, Encoder], rows: FeatureRows, kept: np.dtype[Any]) -> Layout:
    graph = rows.graph
    shapes = [level.aggregate.weight.shape for encoder in encoders.values() for level in encoder.stack()]
    widths = [int(n_out) for _, n_out in shapes] + [rows.entries]
    held = sum(a.nbytes for a in (graph.offsets, graph.targets) if mapped(a) is None)
    return layout(
        memory,
        n_nodes=graph.n_nodes,
        n_targets=len(graph.targets),
        widths=widths,
        width=sum(encoder.width for encoder in encoders.values()),
        item=kept.itemsize,
        held=held + rows.held_bytes + int(graph.id_column.nbytes),
        group=GROUP_BYTES,
    )


def _about(encoders: Mapping[str, Encoder], rows: FeatureRows, cut: Layout, kept: np.dtype[Any]) -> dict[str, Any]:
    """All that the bytes of a part depend on."""
    return {
        "versions": {name: version(name) for name in ("rae", "numpy", "torch", "numba")},
        "settings": rows.config.as_dict(),
        "encoders": {
            name: digest_of(*(t.reshape(-1).numpy() for t in encoder.state_dict().values()))
            for name, encoder in encoders.items()
        },
        "graph": digest_of(rows.graph.offsets, rows.graph.targets),
        "features": rows.digest(),
        "rows": cut.rows,
        "columns": cut.columns,
        "tile": TILE,
        "kept": kept.name,
    }


def _counted(report: Report | None, total: int) -> Callable[[], None]:
    """A function that reports one more piece of `total` done."""
    so_far = 0

    def told() -> None:
        nonlocal so_far
        so_far += 1
        if report is not None:
            report(so_far, total)

    return told
