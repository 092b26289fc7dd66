"""Squared distances of pairs of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from rae.ops.library import call, int64, is_native

Doubles = np.ndarray[Any, np.dtype[np.float64]]
Ints = np.ndarray[Any, np.dtype[np.int64]]

CHUNK_BYTES = 1 << 24  # of the rows that the plain version copies at a time


def squared_distances(x: Doubles, y: Doubles, rows: Ints, others: Ints) -> Doubles:
    """|x[rows] - y[others]|², pair by pair, on the calling thread.  (n, d), (m, d), (p,), (p,) -> (p,)

    >>> squared_distances(np.array([[0.0, 0.0], [3.0, 4.0]]), np.zeros((1, 2)), np.array([1, 0]), np.zeros(2, int))
    array([25.,  0.])
    """
    x, y = (np.ascontiguousarray(z, np.float64) for z in (x, y))
    rows, others = int64(rows), int64(others)
    out = np.empty(len(rows))
    if is_native(x, y):
        call("squared_distances", x, y, x.shape[1], rows, others, out, 0, len(rows))
        return out
    chunk = max(1, CHUNK_BYTES // (8 * max(1, x.shape[1])))
    for start in range(0, len(rows), chunk):
        difference = x[rows[start : start + chunk]] - y[others[start : start + chunk]]
        out[start : start + chunk] = np.einsum("ij,ij->i", difference, difference)
    return out
