"""Our mean over neighbourhoods and a loop that reads random rows: the one benchmark module that calls kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rae.engine import TILE
from rae.ops import cpu
from rae.ops.intrinsics import aligned, fetch_row
from rae.runtime import in_ranges

PREFETCH = 24  # rows fetched ahead: more did not make the loop faster


@cpu.kernel
def _sum_rows(index, x, out, start, stop):
    """out[0] = sum of x[index[start:stop]]."""
    total = np.zeros(x.shape[1], np.float32)
    for e in range(start, stop):
        if e + PREFETCH < len(index):
            fetch_row(x, index[e + PREFETCH])
        row = x[index[e]]
        for j in range(len(total)):
            total[j] += row[j]
    for j in range(len(total)):
        out[0, j] = total[j]


def sum_rows(index: Any, x: Any) -> None:
    """Read x[index] and add the rows up, spread over the threads; the sum is thrown away."""
    in_ranges(lambda a, b: _sum_rows(index, x, np.empty((1, x.shape[1]), np.float32), a, b), len(index))


def mean_in_tiles(offsets: Any, targets: Any, rows: Any, width: int) -> Callable[..., None]:
    """A function that computes every mean({u} ∪ N(u)) tile by tile, as embedding does, into an array if given one."""
    n = len(offsets) - 1

    def run(out: Any = None) -> None:
        def tiles(first: int, last: int) -> None:
            for a in range(first * TILE, min(last * TILE, n), TILE):
                b = min(a + TILE, n)
                tile = aligned((b - a, width)) if out is None else out[a:b]
                cpu.mean_rows(offsets[a : b + 1], targets, rows, a, tile, 0, b - a)

        in_ranges(tiles, -(-n // TILE))

    return run


def mean_at_once(offsets: Any, targets: Any, rows: Any, out: Any) -> None:
    """Every mean({u} ∪ N(u)) by one call of the kernel, one thread."""
    cpu.mean_rows(offsets, targets, rows, 0, out, 0, len(out))


def cache_aligned(rows: Any) -> Any:
    """A copy of the rows that begins at a cache line, as torch's own arrays and ours do."""
    out = aligned(rows.shape, rows.dtype)
    out[:] = rows
    return out


def empty(shape: tuple[int, int]) -> Any:
    """An uninitialised float32 array that begins at a cache line."""
    return aligned(shape)
