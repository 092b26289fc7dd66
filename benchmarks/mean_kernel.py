"""Our mean over neighbourhoods and a pass over random rows: the one benchmark module that calls operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from rae.engine import TILE
from rae.memory import aligned_empty
from rae.ops.gather import mean
from rae.ops.library import call
from rae.runtime import in_ranges

LIST = 1 << 16  # rows of one sum: so many that nothing but reading them counts


def sum_rows(index: Any, x: Any) -> None:
    """Read x[index] and add the rows up, spread over the threads; the sums are thrown away."""
    offsets = np.append(np.arange(0, len(index), LIST), len(index))
    mean(torch.from_numpy(x), offsets, index, np.zeros(len(offsets) - 1, np.int64))


def mean_in_chunks(offsets: Any, targets: Any, rows: Any) -> Callable[..., None]:
    """A function that computes every mean({u} ∪ N(u)) tile by tile, as embedding does, into an array if given one."""
    n, table = len(offsets) - 1, torch.from_numpy(rows)

    def run(out: Any = None) -> None:
        def chunks(first: int, last: int) -> None:
            for a in range(first * TILE, min(last * TILE, n), TILE):
                b = min(a + TILE, n)
                tile = mean(table, offsets[a : b + 1], targets, a)
                if out is not None:
                    out[a:b] = tile.numpy()

        in_ranges(chunks, -(-n // TILE))

    return run


def mean_at_once(offsets: Any, targets: Any, rows: Any, out: Any) -> None:
    """Every mean({u} ∪ N(u)) by one call of the library, one thread."""
    name = "mean_rows" if rows.dtype == np.float32 else "mean_half_rows"
    call(
        name, offsets, targets, len(targets), None, None, 0, rows, rows.shape[1], out, 0, len(out), index=targets
    )  # fmt: skip


def cache_aligned(rows: Any) -> Any:
    """A copy of the rows that begins at a cache line, as torch's own arrays and ours do."""
    out = aligned_empty(rows.shape, rows.dtype)
    out[:] = rows
    return out
