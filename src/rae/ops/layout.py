"""The loops behind the map of a run, compiled by Numba: fuzzy weights of neighbours, and the steps of the layout."""

from __future__ import annotations

from typing import Any

import numpy as np

from rae.ops.cpu import kernel, mix

# UMAP's curve of attraction by distance, 1 / (1 + a * d^(2 b)): flat below 1, so that points do not coincide.
CURVE_A, CURVE_B = 0.2, 1.6
NEGATIVES = 5  # random points that are pushed away for each edge that pulls
LARGEST_STEP = 4.0


@kernel
def jitter(n: Any, salt: Any) -> Any:
    """Uniform noise within a thousandth of zero.  -> (n, 2)"""
    out = np.empty((n, 2), np.float32)
    for i in range(n):
        for axis in range(2):
            bits = mix(salt + np.uint64(2 * i + axis)) >> np.uint64(40)
            out[i, axis] = (np.float32(bits) / np.float32(1 << 24) - np.float32(0.5)) * np.float32(2e-3)
    return out


@kernel
def fuzzy_weights(distance: Any, valid: Any, weight: Any) -> None:
    """weight = exp(-(distance - the smallest) / width), the width such that a row sums to log2 of its neighbours."""
    n, k = distance.shape
    for i in range(n):
        count = 0
        nearest = np.inf
        for j in range(k):
            if valid[i, j]:
                count += 1
                if distance[i, j] > 1e-6 and distance[i, j] < nearest:
                    nearest = distance[i, j]
        if count == 0:
            continue
        if nearest == np.inf:
            nearest = 0.0
        target = max(np.log2(count), 1.0)
        low, high, width = 0.0, np.inf, 1.0
        for _ in range(48):
            total = 0.0
            for j in range(k):
                if valid[i, j]:
                    total += np.exp(-max(distance[i, j] - nearest, 0.0) / width)
            if total > target:
                high = width
                width = (low + high) / 2
            else:
                low = width
                width = width * 2 if high == np.inf else (low + high) / 2
            if width > 1e6:
                break
        for j in range(k):
            if valid[i, j]:
                weight[i, j] = np.exp(-max(distance[i, j] - nearest, 0.0) / max(width, 1e-3))


@kernel
def optimize_layout(xy: Any, heads: Any, tails: Any, interval: Any, rounds: Any, salt: Any) -> None:
    """Move the points in place: every interval[e] rounds edge e pulls its ends together and pushes random points."""
    n = np.uint64(len(xy))
    due = interval.copy()
    state = salt
    for turn in range(rounds):
        step = np.float32(1 - turn / rounds)
        for e in range(len(heads)):
            if due[e] > turn + 1:
                continue
            due[e] += interval[e]
            u, v = heads[e], tails[e]
            dx, dy = xy[u, 0] - xy[v, 0], xy[u, 1] - xy[v, 1]
            squared = dx * dx + dy * dy
            if squared > 0:
                force = -2 * CURVE_A * CURVE_B * squared ** (CURVE_B - 1) / (1 + CURVE_A * squared**CURVE_B)
                px, py = step * _clip(force * dx), step * _clip(force * dy)
                xy[u, 0] += px
                xy[u, 1] += py
                xy[v, 0] -= px
                xy[v, 1] -= py
            for _ in range(NEGATIVES):
                state += np.uint64(0x9E3779B97F4A7C15)
                w = np.int64(mix(state) % n)
                if w == u:
                    continue
                dx, dy = xy[u, 0] - xy[w, 0], xy[u, 1] - xy[w, 1]
                squared = dx * dx + dy * dy
                force = 2 * CURVE_B / ((0.001 + squared) * (1 + CURVE_A * squared**CURVE_B))
                xy[u, 0] += step * _clip(force * dx)
                xy[u, 1] += step * _clip(force * dy)


@kernel
def _clip(value: Any) -> Any:
    return np.float32(min(max(value, -LARGEST_STEP), LARGEST_STEP))
