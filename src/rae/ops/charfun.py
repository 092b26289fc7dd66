"""The characteristic function of many numbers at evenly spaced points."""

from __future__ import annotations

from typing import Any

import numpy as np

from rae.ops.library import call, is_native
from rae.runtime import in_ranges

Doubles = np.ndarray[Any, np.dtype[np.float64]]


def characteristic_function(psi: Doubles, size: int, step: float, floor: float, points: int) -> Doubles:
    """Means of cos(k step x), then of sin(k step x), k = 1 .. points, over a row and size - columns zeros.

    (b, columns) -> (b, 2 * points). Numbers nearer to zero than `floor` count as zero.
    """
    psi = np.ascontiguousarray(psi, np.float64)
    if not is_native(psi):
        angles = np.where(np.abs(psi) > floor, psi, 0)[:, :, None] * (step * np.arange(1, points + 1))
        real = 1 + (np.cos(angles) - 1).sum(1) / size
        return np.hstack([real, np.sin(angles).sum(1) / size])
    out = np.empty((len(psi), 2 * points))
    columns = psi.shape[1]
    in_ranges(
        lambda a, b: call("characteristic_function", psi, columns, size, step, floor, points, out, a, b), len(psi), 16
    )
    return out
