"""Embed every node exactly: all neighbours, level by level, a tile of nodes at a time.

One pass over the edges per level, no sampling, so the result is the same on every call, for the
graph of the fit, for a grown one, and for another one. Tiles are fixed runs of rows, each worked
on by one thread, so the bytes do not depend on how many threads there are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rae.encoder import Encoder, Level
from rae.errors import FeatureError
from rae.features import Matrix
from rae.graph import Graph
from rae.kernels import cpu
from rae.runtime import in_ranges, key, torch_alone
from rae.sampling import sample_neighbors

Floats = np.ndarray[Any, np.dtype[np.float32]]
Report = Callable[[int, int], None]

TILE = 2048  # rows worked on at a time by a thread


def embed(
    encoder: Encoder,
    graph: Graph,
    x: Matrix,
    *,
    fanout: tuple[int, ...] | None = None,
    seed: int = 0,
    tile: int = TILE,
    report: Report | None = None,
) -> Floats:
    """All levels of every node side by side, the last level first.  -> (n, d_K + ... + d_1)

    `fanout` samples that many neighbours per hop instead of taking all.
    """
    levels = encoder.stack()
    n = graph.n_nodes
    out = np.empty((n, encoder.width), np.float32)
    right = encoder.width
    h: Matrix = x
    encoder.eval()
    with torch_alone():
        for k, level in enumerate(levels):
            hop = len(levels) - 1 - k
            offsets, index = graph.offsets, graph.targets
            if fanout is not None:
                offsets, index = sample_neighbors(graph, np.arange(n), fanout[hop], key(seed, "inference", hop))
            h = _run_level(level, h, offsets, index, tile)
            out[:, right - h.shape[1] : right] = h
            right -= h.shape[1]
            if report is not None:
                report(k + 1, len(levels))
    return out


def _run_level(level: Level, x: Matrix, offsets: Any, index: Any, tile: int) -> Floats:
    n, width = len(offsets) - 1, int(level.aggregate.weight.shape[1])
    first = level.order == "project_first"

    def mean(a: int, b: int) -> Tensor:
        rows = np.empty((b - a, x.shape[1]), np.float32)
        cpu.mean_rows(offsets, index, x, a, rows, 0, b - a)
        return torch.from_numpy(rows)

    def projected(a: int, b: int) -> Tensor:
        h = _projected(level, x, a, b)
        return level.aggregate.squash(h) if first else h

    if first or level.narrows or not isinstance(x, np.ndarray):
        x = _by_tiles(projected, n, width, tile)
        if first:
            return _by_tiles(lambda a, b: level.finish(mean(a, b)), n, width, tile)
        return _by_tiles(lambda a, b: level.finish(level.aggregate.squash(mean(a, b))), n, width, tile)
    return _by_tiles(
        lambda a, b: level.finish(level.aggregate.squash(level.aggregate.project(mean(a, b)))), n, width, tile
    )


def _projected(level: Level, x: Matrix, a: int, b: int) -> Tensor:
    """W x for rows a..b."""
    weight = level.aggregate.weight.detach()
    if isinstance(x, np.ndarray):
        rows = x[a:b] if x.flags.writeable else x[a:b].copy()  # torch takes no read-only array
        return torch.from_numpy(rows) @ weight
    out = np.empty((b - a, weight.shape[1]), np.float32)
    cpu.sparse_dense(x.indptr, x.indices, x.data, a, weight.numpy(), out, 0, b - a)
    return torch.from_numpy(out)


def _by_tiles(rows: Callable[[int, int], Tensor], n: int, width: int, tile: int) -> Floats:
    """The array whose rows a..b are rows(a, b), tile by tile, spread over the threads."""
    out = np.empty((n, width), np.float32)

    def work(first: int, last: int) -> None:
        with torch.inference_mode():
            for a in range(first * tile, min(last * tile, n), tile):
                b = min(a + tile, n)
                out[a:b] = rows(a, b).numpy()
                if not np.isfinite(out[a:b]).all():
                    raise FeatureError(
                        f"the vectors of rows {a:,} to {b - 1:,} came out infinite or NaN; scale the features to 1"
                    )

    in_ranges(work, -(-n // tile))
    return out
