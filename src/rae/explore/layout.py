"""Places in the plane: alike nodes pull each other together, all others push each other apart.

The scheme is UMAP's (McInnes, Healy and Melville, 2018): fuzzy weights on the nearest neighbours,
then steps along sampled edges with a few random strangers each, from the principal axes. It runs
on one thread and draws its luck from hashes, so the same vectors give the same map everywhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from rae.kernels.cpu import kernel, mix
from rae.runtime import key
from rae.search import unit_rows

Floats = np.ndarray[Any, np.dtype[np.float32]]
Ints = np.ndarray[Any, np.dtype[np.int32]]

# The curve of attraction by distance, 1 / (1 + SPREAD * d^(2 BEND)): flat below 1, so that points keep their distance.
SPREAD, BEND = 0.2, 1.6
EVENED, TALL = 0.6, 0.72  # how far empty space is shortened, and the height of the map for a width of one
STRANGERS = 5
SMALL, FEW_ROUNDS, MANY_ROUNDS = 10_000, 200, 500


def places(z: Floats, index: Ints, cosine: Floats, *, seed: int = 0) -> Floats:
    """A place in the plane for every node, x from 0 to 1 and y from 0 to TALL.  (n, d) -> (n, 2)"""
    n = len(z)
    start = principal(unit_rows(z), seed)
    if n < 4 or not start.any():
        return evened(start)
    edges = pull(index, cosine)
    rounds = MANY_ROUNDS if n <= SMALL else FEW_ROUNDS
    strong = edges.data >= edges.data.max() / rounds
    heads, tails, every = edges.row[strong], edges.col[strong], edges.data.max() / edges.data[strong]
    xy = np.ascontiguousarray(start)
    settle(xy, heads.astype(np.int32), tails.astype(np.int32), every, rounds, np.uint64(key(seed, "layout")))
    return evened(xy)


def principal(unit: Floats, seed: int = 0) -> Floats:
    """The two principal axes, ten wide, with a grain of noise that keeps equal vectors apart.  (n, d) -> (n, 2)"""
    centred = unit - unit.mean(axis=0)
    spread = centred.T @ centred
    _, axes = np.linalg.eigh(spread.astype(np.float64))
    axes = axes[:, ::-1][:, :2]
    axes *= np.where(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])] < 0, -1, 1)
    flat = np.zeros((len(unit), 2), np.float32)
    flat[:, : axes.shape[1]] = centred @ axes
    reach = np.abs(flat).max()
    if reach < 1e-6:
        return np.zeros_like(flat)
    salt = np.uint64(key(seed, "grain"))
    return np.asarray(10 * flat / reach + grain(len(flat), salt), np.float32)


def pull(index: Ints, cosine: Floats) -> sp.coo_array:
    """How strongly each pair of neighbours holds together: near ones of either side, in (0, 1].  -> (n, n)"""
    n, k = index.shape
    known = index >= 0
    apart = np.sqrt(np.maximum(2 - 2 * cosine, 0)).astype(np.float32)
    weight = np.zeros((n, k), np.float32)
    fuzzy(apart, known, weight)
    rows = np.repeat(np.arange(n, dtype=np.int32), k)[known.ravel()]
    one_way = sp.csr_array((weight[known], (rows, index[known])), shape=(n, n))
    both = one_way + one_way.T - one_way * one_way.T
    return sp.coo_array(both)


def evened(xy: Floats) -> Floats:
    """The places with empty space shortened: each side a blend of where a node is and how many are before it.

    Order along both sides is kept, so near stays near.  (n, 2) -> (n, 2)
    """
    low, reach = xy.min(axis=0), np.ptp(xy, axis=0)
    shares = (xy - low) / np.maximum(reach, 1e-12)
    ranks = np.column_stack([np.unique(side, return_inverse=True)[1] for side in xy.T])
    ranks = ranks / np.maximum(ranks.max(axis=0), 1)
    return np.asarray(((1 - EVENED) * shares + EVENED * ranks) * [1, TALL], np.float32)


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
