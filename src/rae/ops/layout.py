"""The loops behind the map of a run: who is most alike, how strongly they hold together, where they settle."""

from __future__ import annotations

from typing import Any

import numpy as np

from rae.ops.cpu import kernel, mix

# The curve of attraction by distance, 1 / (1 + SPREAD * d^(2 BEND)): flat below 1, so that points keep their distance.
SPREAD, BEND = 0.2, 1.6
STRANGERS = 5  # that are pushed off for each edge that pulls


@kernel
def keep_best(block: Any, first_row: Any, index: Any, cosine: Any, start: Any, stop: Any) -> None:
    """Put the largest entries of each row of the block into index and cosine; among equals the lower row."""
    k = index.shape[1]
    for b in range(start, stop):
        row = first_row + b
        filled = 0
        for j in range(block.shape[1]):
            value = block[b, j]
            if j == row or (filled == k and not value > cosine[row, k - 1]):
                continue
            place = min(filled, k - 1)
            while place > 0 and cosine[row, place - 1] < value:
                cosine[row, place] = cosine[row, place - 1]
                index[row, place] = index[row, place - 1]
                place -= 1
            cosine[row, place] = value
            index[row, place] = j
            filled = min(filled + 1, k)


@kernel
def grain(n: Any, salt: Any) -> Any:
    """Noise of a thousandth, (n, 2)."""
    out = np.empty((n, 2), np.float32)
    for i in range(n):
        for side in range(2):
            drawn = mix(salt + np.uint64(2 * i + side)) >> np.uint64(40)
            out[i, side] = (np.float32(drawn) / np.float32(1 << 24) - np.float32(0.5)) * np.float32(2e-3)
    return out


@kernel
def fuzzy(apart: Any, known: Any, weight: Any) -> None:
    """exp(-(distance - the nearest) / width), the width such that each row sums to log2 of its neighbours."""
    n, k = apart.shape
    for i in range(n):
        count = 0
        near = np.inf
        for j in range(k):
            if known[i, j]:
                count += 1
                if apart[i, j] > 1e-6 and apart[i, j] < near:
                    near = apart[i, j]
        if count == 0:
            continue
        if near == np.inf:
            near = 0.0
        target = max(np.log2(count), 1.0)
        low, high, width = 0.0, np.inf, 1.0
        for _ in range(48):
            total = 0.0
            for j in range(k):
                if known[i, j]:
                    total += np.exp(-max(apart[i, j] - near, 0.0) / width)
            if total > target:
                high = width
                width = (low + high) / 2
            else:
                low = width
                width = width * 2 if high == np.inf else (low + high) / 2
            if width > 1e6:
                break
        for j in range(k):
            if known[i, j]:
                weight[i, j] = np.exp(-max(apart[i, j] - near, 0.0) / max(width, 1e-3))


@kernel
def settle(xy: Any, heads: Any, tails: Any, every: Any, rounds: Any, salt: Any) -> None:
    """Move the points: an edge acts in every `every`-th round, and then pushes some strangers off its head."""
    n = np.uint64(len(xy))
    due = every.copy()
    state = salt
    for turn in range(rounds):
        step = np.float32(1 - turn / rounds)
        for e in range(len(heads)):
            if due[e] > turn + 1:
                continue
            due[e] += every[e]
            u, v = heads[e], tails[e]
            dx, dy = xy[u, 0] - xy[v, 0], xy[u, 1] - xy[v, 1]
            far = dx * dx + dy * dy
            if far > 0:
                force = -2 * SPREAD * BEND * far ** (BEND - 1) / (1 + SPREAD * far**BEND)
                px, py = step * _held(force * dx), step * _held(force * dy)
                xy[u, 0] += px
                xy[u, 1] += py
                xy[v, 0] -= px
                xy[v, 1] -= py
            for _ in range(STRANGERS):
                state += np.uint64(0x9E3779B97F4A7C15)
                w = np.int64(mix(state) % n)
                if w == u:
                    continue
                dx, dy = xy[u, 0] - xy[w, 0], xy[u, 1] - xy[w, 1]
                far = dx * dx + dy * dy
                force = 2 * BEND / ((0.001 + far) * (1 + SPREAD * far**BEND))
                xy[u, 0] += step * _held(force * dx)
                xy[u, 1] += step * _held(force * dy)


@kernel
def _held(value: Any) -> Any:
    return np.float32(min(max(value, -4.0), 4.0))
