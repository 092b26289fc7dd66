"""The k most alike of every node by cosine, exact: one product of matrices, the best kept as it passes."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from rae.ops.layout import keep_best
from rae.runtime import in_ranges
from rae.search import unit_rows

Floats = np.ndarray[Any, np.dtype[np.float32]]
Ints = np.ndarray[Any, np.dtype[np.int32]]

BLOCK_BYTES = 1 << 26  # of the product that is alive at a time


def most_alike(z: Floats, k: int) -> tuple[Ints, Floats]:
    """Rows and cosines of the k most alike others of each row, the most alike first.  (n, d) -> (n, k), (n, k)

    With fewer than k others, the places left over hold -1 and a cosine of -2.

    >>> most_alike(np.array([[1, 0], [0, 1], [2, 1]], np.float32), 1)[0].ravel().tolist()
    [2, 2, 0]
    """
    n = len(z)
    unit = unit_rows(z)
    index = np.full((n, k), -1, np.int32)
    cosine = np.full((n, k), -2, np.float32)
    rows = max(1, BLOCK_BYTES // (4 * n))
    for start in range(0, n, rows):
        block = unit[start : start + rows] @ unit.T
        in_ranges(partial(keep_best, block, start, index, cosine), len(block), 16)
    return index, np.clip(cosine, -2, 1)
