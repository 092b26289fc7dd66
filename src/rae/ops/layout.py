"""The operations behind the map of a run: fuzzy weights of neighbours, and the steps of the layout."""

from __future__ import annotations

from typing import Any

import numpy as np

from rae.ops.library import call, is_native

Floats = np.ndarray[Any, np.dtype[np.float32]]

# UMAP's curve of attraction by distance, 1 / (1 + a * d^(2 b)): flat below 1, so that points do not coincide.
CURVE_A, CURVE_B = 0.2, 1.6
NEGATIVES = 5  # random points that are pushed away for each edge that pulls
LARGEST_STEP = 4.0
GOLDEN = 0x9E3779B97F4A7C15


def jitter(n: int, salt: Any) -> Floats:
    """Uniform noise within a thousandth of zero.  -> (n, 2)"""
    bits = _mix(np.arange(2 * n, dtype=np.uint64) + np.uint64(salt)) >> np.uint64(40)
    noise: Floats = (bits.astype(np.float32) / np.float32(1 << 24) - np.float32(0.5)) * np.float32(2e-3)
    return noise.reshape(n, 2)


def fuzzy_weights(distance: Floats, valid: Any) -> Floats:
    """exp(-(distance - the smallest) / width), the width such that a row sums to log2 of its neighbours.

    (n, k), (n, k) -> (n, k), zero where a neighbour is not valid.
    """
    weight = np.zeros(distance.shape, np.float32)
    if is_native(distance):
        call("fuzzy_weights", distance, valid, *distance.shape, weight)
        return weight
    for i, (row, known) in enumerate(zip(distance.astype(np.float64), valid, strict=True)):
        if not known.any():
            continue
        excess = row[known] - min(row[known & (row > 1e-6)], default=0.0)
        excess, target = np.maximum(excess, 0), max(np.log2(known.sum()), 1.0)
        low, high, width = 0.0, np.inf, 1.0
        for _ in range(48):
            if width > 1e6:
                break
            if np.exp(-excess / width).sum() > target:
                high = width
            else:
                low = width
            width = 2 * width if high == np.inf else (low + high) / 2
        weight[i, known] = np.exp(-excess / max(width, 1e-3))
    return weight


def optimize_layout(xy: Floats, heads: Any, tails: Any, interval: Any, rounds: int, salt: Any) -> Floats:
    """The points after so many rounds: every interval[e] rounds edge e pulls its ends and pushes random points.

    (n, 2) -> (n, 2). One thread, one edge after the other, so that the result is always the same.
    """
    xy = np.array(xy, np.float32)
    heads, tails = (np.ascontiguousarray(ends, np.int32) for ends in (heads, tails))
    interval = np.ascontiguousarray(interval, np.float64)
    due = interval.copy()
    if is_native(xy):
        curve = CURVE_A, CURVE_B, NEGATIVES, LARGEST_STEP
        call("optimize_layout", xy, len(xy), heads, tails, interval, due, len(heads), rounds, int(salt), *curve)
        return xy
    state = int(salt)
    for turn in range(rounds):
        step = np.float32(1 - turn / rounds)
        for e in np.flatnonzero(due <= turn + 1):
            due[e] += interval[e]
            u, v = heads[e], tails[e]
            pull = _force(xy[u] - xy[v], pulls=True)
            xy[u] += step * pull
            xy[v] -= step * pull
            states = [(state + GOLDEN * (i + 1)) % 2**64 for i in range(NEGATIVES)]
            state = states[-1]
            for other in (_mix(np.array(states, np.uint64)) % np.uint64(len(xy))).tolist():
                if other != u:
                    xy[u] += step * _force(xy[u] - xy[other], pulls=False)
    return xy


def _force(difference: Floats, *, pulls: bool) -> Floats:
    squared = float(np.float32(difference @ difference))
    if pulls and squared == 0:
        return np.zeros(2, np.float32)
    curve = 1 + CURVE_A * squared**CURVE_B
    force = (
        -2 * CURVE_A * CURVE_B * squared ** (CURVE_B - 1) / curve
        if pulls
        else 2 * CURVE_B / ((0.001 + squared) * curve)
    )
    clipped: Floats = np.clip(force * difference.astype(np.float64), -LARGEST_STEP, LARGEST_STEP).astype(np.float32)
    return clipped


def _mix(x: Any) -> Any:
    """The hash of the compiled library, word by word."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
