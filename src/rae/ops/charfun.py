"""The characteristic function of many numbers at evenly spaced points, compiled by Numba."""

from __future__ import annotations

from typing import Any

import numpy as np

from rae.ops.cpu import kernel

LANES = 64  # numbers that are rotated together, to fill the vector registers


@kernel
def add_powers(cosine: Any, sine: Any, real: Any, imaginary: Any) -> None:
    """Add the first powers k = 1, 2, ... of each exp(i x), less 1, to row k - 1, lane by lane."""
    x, y = np.ones(LANES), np.zeros(LANES)
    for k in range(real.shape[0]):
        real_sum, imaginary_sum = real[k], imaginary[k]
        for j in range(LANES):
            a = x[j] * cosine[j] - y[j] * sine[j]
            b = x[j] * sine[j] + y[j] * cosine[j]
            x[j], y[j] = a, b
            real_sum[j] += a - 1.0
            imaginary_sum[j] += b


@kernel
def characteristic_function(psi: Any, size: Any, step: Any, floor: Any, out: Any, start: Any, stop: Any) -> None:
    """out[i] = mean of cos(k step x), then of sin(k step x), k = 1 .. d, over row i and size - len(row) zeros.

    Numbers nearer to zero than `floor` count as zero. Only one sine and cosine per number is
    computed: the others are powers of it.
    """
    points = out.shape[1] // 2
    real, imaginary = np.empty((points, LANES)), np.empty((points, LANES))
    cosine, sine = np.empty(LANES), np.empty(LANES)
    for i in range(start, stop):
        real[:] = 0.0
        imaginary[:] = 0.0
        filled = 0
        for m in range(psi.shape[1]):
            if abs(psi[i, m]) > floor:
                cosine[filled], sine[filled] = np.cos(step * psi[i, m]), np.sin(step * psi[i, m])
                filled += 1
                if filled == LANES:
                    add_powers(cosine, sine, real, imaginary)
                    filled = 0
        for j in range(filled, LANES):
            cosine[j], sine[j] = 1.0, 0.0
        add_powers(cosine, sine, real, imaginary)
        for k in range(points):
            out[i, k] = 1.0 + real[k].sum() / size
            out[i, points + k] = imaginary[k].sum() / size
