"""Embed every node exactly and write the vectors while they are made: the whole of them is never in memory.

In memory are, of every node, the rows that each level averages, since a node's neighbours stand
anywhere; they are the narrower of what the level reads and makes. The vectors themselves are made
a run of rows at a time, those below the last level twice: once for what the level above
averages, and once to be written. That takes less time than to keep them on disk, and a part of the memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from rae.config import Config
from rae.engine.exact import TILE, Floats, Report, after, before, by_tiles, mean, neighborhoods, projects
from rae.errors import FeatureError
from rae.features import Matrix
from rae.graph import Graph
from rae.io import embeddings
from rae.io.embeddings import EmbeddingWriter, check_writable
from rae.model.encoder import Encoder, Level
from rae.ops.intrinsics import aligned
from rae.runtime import threads, torch_alone
from rae.storage.atomic import atomic_path

Tile = Callable[[int, int], Tensor]


@dataclass(frozen=True, eq=False)
class Stack:
    """The levels of one encoder over one graph, and the rows that each averages, as far as they are made."""

    encoder: Encoder
    graph: Graph
    x: Matrix
    fanout: tuple[int, ...] | None = None
    seed: int = 0
    rows: list[Any] = field(default_factory=list)

    @property
    def levels(self) -> list[Level]:
        """The levels, the first one first."""
        return self.encoder.stack()

    def projects(self, k: int) -> bool:
        """Whether level k projects before it averages."""
        return projects(self.levels[k], k > 0 or isinstance(self.x, np.ndarray))

    def averages_below(self, k: int) -> bool:
        """Whether the vectors of level k are the rows that the level above averages, and so are kept."""
        return k + 1 < len(self.levels) and not self.projects(k + 1)

    def averaged(self, k: int, a: int, b: int) -> Tile:
        """What makes rows a + i to a + j of those that level k averages; rows a to b are asked for."""
        level = self.levels[k]
        if k == 0:
            return lambda i, j: before(level, self.x, a + i, a + j)
        below = self.vectors(k - 1, a, b)
        return (lambda i, j: before(level, below(i, j).numpy(), 0, j - i)) if self.projects(k) else below

    def vectors(self, k: int, a: int, b: int) -> Tile:
        """What makes the vectors of level k for rows a + i to a + j; rows a to b are asked for."""
        level, moved, rows = self.levels[k], self.projects(k), self.rows[k]
        offsets, index = neighborhoods(self.graph, a, b, k, len(self.levels), self.fanout, self.seed)
        return lambda i, j: after(level, mean(offsets[i : j + 1], index, rows, a + i), moved)

    def make_rows(self, runs: list[tuple[int, int]], told: Callable[[], None]) -> None:
        """Make the rows that each level averages, of all nodes, level by level."""
        for k, level in enumerate(self.levels):
            if k == 0 and not self.projects(0):
                x: Any = self.x
                self.rows.append(x.view(np.uint16) if x.dtype == np.float16 else x)  # as the kernel knows halves
                continue
            out = aligned((self.graph.n_nodes, int(level.aggregate.weight.shape[1 if self.projects(k) else 0])))
            for a, b in runs:
                by_tiles(self.averaged(k, a, b), out[a:b], first=a)
                told()
            self.rows.append(out)

    def fill(self, out: Floats, a: int, b: int) -> None:
        """The vectors of rows a to b, the last level first.  (b - a, width)"""
        right = self.encoder.width
        for k, level in enumerate(self.levels):
            left = right - int(level.aggregate.weight.shape[1])
            if self.averages_below(k):
                out[:, left:right] = self.rows[k + 1][a:b]
            else:
                by_tiles(self.vectors(k, a, b), out[:, left:right], first=a)
            right = left


def stream_to(
    path: str | os.PathLike[str],
    encoders: Mapping[str, Encoder],
    graph: Graph,
    x: Matrix,
    config: Config,
    *,
    dtype: str = "float32",
    model: str | None = None,
    report: Report | None = None,
) -> int:
    """Write ids and vectors of every node to a file while they are made; the width of the vectors comes back.

    The bytes are those of `write_embeddings` with what `embed` returns, encoder beside encoder.
    """
    check_writable(path, graph.id_column, dtype)
    width = sum(encoder.width for encoder in encoders.values())
    with (
        atomic_path(path) as hidden,
        EmbeddingWriter(hidden, graph.id_column, width, Path(path).suffix, model=model, dtype=dtype) as writer,
    ):
        for rows in stream(encoders, graph, x, config, report=report):
            writer.append(rows)
    return width


def stream(
    encoders: Mapping[str, Encoder], graph: Graph, x: Matrix, config: Config, *, report: Report | None = None
) -> Iterator[Floats]:
    """The vectors of all nodes, a run of rows at a time; the next is made while one is used, and then overwritten."""
    for encoder in encoders.values():
        if encoder.n_features != x.shape[1]:
            raise FeatureError(f"the model reads {encoder.n_features:,} feature columns, got {x.shape[1]:,}")
        encoder.eval()
    fanout = config.fanout if config.inference == "sampled" else None
    stacks = [Stack(encoder, graph, x, fanout, config.seed) for encoder in encoders.values()]
    width = sum(encoder.width for encoder in encoders.values())
    runs = _runs(graph.n_nodes, width)
    made = sum(len(stack.levels) - (not stack.projects(0)) for stack in stacks)
    told = _counted(report, (made + 1) * len(runs))
    with torch_alone():
        for stack in stacks:
            stack.make_rows(runs, told)
    room = [np.empty((runs[0][1], width), np.float32) for _ in range(2)]

    def work(run: int) -> Floats:
        a, b = runs[run]
        out, left = room[run % 2][: b - a], 0
        with torch_alone():
            for stack in stacks:
                stack.fill(out[:, left : left + stack.encoder.width], a, b)
                left += stack.encoder.width
        return out

    for rows in _ahead(work, len(runs)):
        told()
        yield rows


def _runs(n: int, width: int) -> list[tuple[int, int]]:
    """The rows cut into runs of whole tiles, a row group of the file each where that is possible."""
    rows = max(TILE, embeddings.GROUP_BYTES // (4 * width) // TILE * TILE)
    return [(a, min(a + rows, n)) for a in range(0, n, rows)]


def _ahead(work: Callable[[int], Floats], count: int) -> Iterator[Floats]:
    """What work(0), work(1), ... return; with threads, the next is at work while one is used."""
    if threads() == 1:
        yield from map(work, range(count))
        return
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(work, 0)
        for run in range(count):
            rows = coming.result()
            if run + 1 < count:
                coming = pool.submit(work, run + 1)
            yield rows


def _counted(report: Report | None, total: int) -> Callable[[], None]:
    """A function that reports one more piece of `total` done."""
    so_far = 0

    def told() -> None:
        nonlocal so_far
        so_far += 1
        if report is not None:
            report(so_far, total)

    return told
