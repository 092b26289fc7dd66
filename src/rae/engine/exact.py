"""Embed every node exactly, in memory: all neighbours, level by level, a tile of nodes at a time.

One pass over the edges per level, no sampling, so the result is the same on every call, for the
graph of the fit, for a grown one, and for another one. Tiles are fixed runs of rows, each worked
on by one thread, so the bytes do not depend on how many threads there are.

A level is three steps, and `embed_to` takes the same ones from disk to disk: `before` makes the
rows that are averaged, `mean` averages them over each neighbourhood, `after` does the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rae.errors import FeatureError
from rae.features import Matrix, widened
from rae.graph import Graph
from rae.model.encoder import Encoder, Level
from rae.model.sampling import sample_neighbors
from rae.ops import cpu
from rae.ops.intrinsics import aligned
from rae.runtime import in_ranges, key, torch_alone, torch_alone_here

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
            offsets, index = neighborhoods(graph, 0, n, k, len(levels), fanout, seed)
            left = right - int(level.aggregate.weight.shape[1])
            # A level that projects reads tiles of rows, wherever they lie; one that averages needs them side by side.
            apart = k + 1 < len(levels) and not projects(levels[k + 1], dense=True)
            made = aligned((n, right - left)) if apart else out[:, left:right]
            _run_level(level, h, offsets, index, made, tile)
            if apart:
                out[:, left:right] = made
            h, right = made, left
            if report is not None:
                report(k + 1, len(levels))
    return out


def neighborhoods(
    graph: Graph, a: int, b: int, k: int, depth: int, fanout: tuple[int, ...] | None, seed: int
) -> tuple[Any, Any]:
    """Where the neighbours of rows a..b stand in an index, and that index, for level k: all, or a sample."""
    if fanout is None:
        return graph.offsets[a : b + 1], graph.targets
    hop = depth - 1 - k
    return sample_neighbors(graph, np.arange(a, b), fanout[hop], key(seed, "inference", hop))


def _run_level(level: Level, x: Matrix, offsets: Any, index: Any, out: Floats, tile: int) -> None:
    """Fill `out` with the vectors of a level, from the rows x of the level below."""
    moved = projects(level, isinstance(x, np.ndarray))
    if moved:
        rows: Any = aligned(out.shape)
        by_tiles(lambda a, b: before(level, x, a, b), rows, tile)
    else:
        rows = x  # sparse rows are always projected
        rows = rows.view(np.uint16) if rows.dtype == np.float16 else rows  # as the kernel knows half precision
    by_tiles(lambda a, b: after(level, mean(offsets[a : b + 1], index, rows, a), moved), out, tile)


def projects(level: Level, dense: bool) -> bool:
    """Whether this level projects its rows, dense or not, before it averages: where that moves fewer bytes."""
    return level.order == "project_first" or level.narrows or not dense


def before(level: Level, x: Matrix, a: int, b: int) -> Tensor:
    """What the level averages where it projects first, for rows a..b of x: W x, or σ(W x)."""
    weight = level.aggregate.weight.detach()
    if isinstance(x, np.ndarray):
        rows: Any = widened(x[a:b])
        h = torch.from_numpy(rows if rows.flags.writeable else rows.copy()) @ weight  # torch takes no read-only array
    else:
        out = np.empty((b - a, weight.shape[1]), np.float32)
        cpu.sparse_dense(*_entries(x, a, b), weight.numpy(), out, 0, b - a)
        h = torch.from_numpy(out)
    return level.aggregate.squash(h) if level.order == "project_first" else h


def _entries(x: Any, a: int, b: int) -> tuple[Any, Any, Any, int]:
    """Offsets, columns and values that hold rows a..b of a CSR, and the first of these rows among the offsets.

    Those of a mapped file are copied: they need not lie where the processor, or the compiled kernel, wants them.
    """
    if x.data.flags.writeable and x.indices.flags.writeable:
        return x.indptr, x.indices, x.data, a
    start, stop = x.indptr[a], x.indptr[b]
    return x.indptr[a : b + 1] - start, x.indices[start:stop].copy(), x.data[start:stop].copy(), 0


def mean(offsets: Any, index: Any, rows: Any, first: int) -> Tensor:
    """mean({u} ∪ N(u)) for the nodes from `first` on whose neighbours `offsets` bounds.  (b + 1,) -> (b, d)"""
    out = aligned((len(offsets) - 1, rows.shape[1]))
    read = rows.view()
    read.flags.writeable = False  # mapped or not, the kernel is compiled once
    cpu.mean_rows(offsets, index, read, first, out, 0, len(out))
    return torch.from_numpy(out)


def after(level: Level, h: Tensor, projected: bool) -> Tensor:
    """The level's vectors, from the means of what it averages."""
    if level.order == "project_first":
        return level.finish(h)
    return level.finish(level.aggregate.squash(h if projected else level.aggregate.project(h)))


def by_tiles(rows: Callable[[int, int], Tensor], out: Floats, tile: int = TILE, first: int = 0) -> None:
    """Fill out[a:b] with rows(a, b), tile by tile, spread over the threads; `first` is the node of out[0]."""
    n = len(out)

    def work(start: int, stop: int) -> None:
        torch_alone_here()
        with torch.inference_mode():
            for a in range(start * tile, min(stop * tile, n), tile):
                b = min(a + tile, n)
                out[a:b] = rows(a, b).numpy()
                if not np.isfinite(out[a:b]).all():
                    raise FeatureError(
                        f"the vectors of rows {first + a:,} to {first + b - 1:,} came out infinite or NaN; "
                        "scale the features to 1"
                    )

    in_ranges(work, -(-n // tile))
