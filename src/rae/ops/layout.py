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
    for i, (row, is_valid) in enumerate(zip(distance.astype(np.float64), valid, strict=True)):
        if not is_valid.any():
            continue
        excess = row[is_valid] - min(row[is_valid & (row > 1e-6)], default=0.0)
        excess, target = np.maximum(excess, 0), max(np.log2(is_valid.sum()), 1.0)
        low, high, width = 0.0, np.inf, 1.0
        for _ in range(48):
            if width > 1e6:
                break
            if np.exp(-excess / width).sum() > target:
                high = width
            else:
                low = width
            width = 2 * width if high == np.inf else (low + high) / 2
        weight[i, is_valid] = np.exp(-excess / max(width, 1e-3))
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
    return _optimize_plainly(xy, heads, tails, interval, rounds, int(salt))


def _optimize_plainly(xy: Floats, heads: Any, tails: Any, interval: Any, rounds: int, state: int) -> Floats:
    """The same in Python's own numbers: NumPy takes ten times as long for two at a time."""
    x, y = xy.T.astype(np.float64).tolist()
    a, b, most, due = CURVE_A, CURVE_B, LARGEST_STEP, interval.copy()
    for turn in range(rounds):
        step = 1 - turn / rounds
        now = np.flatnonzero(due <= turn + 1)
        due[now] += interval[now]
        draws = np.arange(1, NEGATIVES * len(now) + 1, dtype=np.uint64) * np.uint64(GOLDEN) + np.uint64(state)
        state = int(draws[-1]) if len(now) else state
        pushed = (_mix(draws) % np.uint64(len(xy))).reshape(-1, NEGATIVES).tolist()
        for u, v, others in zip(heads[now].tolist(), tails[now].tolist(), pushed, strict=True):
            dx, dy = x[u] - x[v], y[u] - y[v]
            squared = dx * dx + dy * dy
            if squared > 0:
                power = squared**b
                force = -2 * a * b * power / squared / (1 + a * power)
                dx, dy = force * dx, force * dy
                px = step * (dx if -most < dx < most else most if dx > 0 else -most)
                py = step * (dy if -most < dy < most else most if dy > 0 else -most)
                x[u], y[u], x[v], y[v] = x[u] + px, y[u] + py, x[v] - px, y[v] - py
            at_x, at_y = x[u], y[u]
            for other in others:
                if other != u:
                    dx, dy = at_x - x[other], at_y - y[other]
                    squared = dx * dx + dy * dy
                    force = 2 * b / ((0.001 + squared) * (1 + a * squared**b))
                    dx, dy = force * dx, force * dy
                    at_x += step * (dx if -most < dx < most else most if dx > 0 else -most)
                    at_y += step * (dy if -most < dy < most else most if dy > 0 else -most)
            x[u], y[u] = at_x, at_y
    return np.array([x, y], np.float32).T.copy()


def _mix(x: Any) -> Any:
    """The hash of the compiled library, word by word."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
