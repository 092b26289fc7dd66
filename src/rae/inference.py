"""Embed every node exactly: all neighbours, level by level, a chunk of nodes at a time.

One pass over the edges per level, no sampling, so the result is the same on every call, for the
graph of the fit, for a grown one, and for another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from rae.encoder import Encoder, Level, sparse_product
from rae.features import Matrix
from rae.graph import Graph
from rae.kernels import cpu
from rae.runtime import in_ranges, key
from rae.sampling import sample_neighbors

Floats = np.ndarray[Any, np.dtype[np.float32]]
Report = Callable[[int, int], None]

CHUNK = 8192  # rows worked on at a time


def embed(
    encoder: Encoder,
    graph: Graph,
    x: Matrix,
    *,
    fanout: tuple[int, ...] | None = None,
    seed: int = 0,
    chunk: int = CHUNK,
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
    with torch.inference_mode():
        for k, level in enumerate(levels):
            hop = len(levels) - 1 - k
            offsets, index = graph.offsets, graph.targets
            if fanout is not None:
                offsets, index = sample_neighbors(graph, np.arange(n), fanout[hop], key(seed, "inference", hop))
            h = _run_level(level, h, offsets, index, chunk)
            out[:, right - h.shape[1] : right] = h
            right -= h.shape[1]
            if report is not None:
                report(k + 1, len(levels))
    return out


def _run_level(level: Level, x: Matrix, offsets: Any, index: Any, chunk: int) -> Floats:
    n = len(offsets) - 1
    out = np.empty((n, level.aggregate.weight.shape[1]), np.float32)
    first = level.order == "project_first"
    if first or level.narrows or sp.issparse(x):
        x = _project(level, x, chunk, squash=first)
        for a, b in _chunks(n, chunk):
            h = _mean(x, offsets, index, a, b)
            out[a:b] = level.finish(h if first else level.aggregate.squash(h)).numpy()
    else:
        for a, b in _chunks(n, chunk):
            h = level.aggregate.project(_mean(x, offsets, index, a, b))
            out[a:b] = level.finish(level.aggregate.squash(h)).numpy()
    return out


def _project(level: Level, x: Matrix, chunk: int, *, squash: bool) -> Floats:
    weight = level.aggregate.weight
    out = np.empty((x.shape[0], weight.shape[1]), np.float32)
    for a, b in _chunks(x.shape[0], chunk):
        if isinstance(x, np.ndarray):
            h = torch.from_numpy(x[a:b]) @ weight
        else:
            h = torch.from_numpy(sparse_product(x, weight.detach().numpy(), a, b))
        out[a:b] = (level.aggregate.squash(h) if squash else h).numpy()
    return out


def _mean(x: Any, offsets: Any, index: Any, start: int, stop: int) -> torch.Tensor:
    out = np.empty((stop - start, x.shape[1]), np.float32)
    in_ranges(lambda a, b: cpu.mean_rows(offsets, index, x, start, out, a, b), stop - start, 256)
    return torch.from_numpy(out)


def _chunks(n: int, size: int) -> Iterator[tuple[int, int]]:
    return ((a, min(a + size, n)) for a in range(0, n, size))
