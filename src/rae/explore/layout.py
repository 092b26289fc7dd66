"""Places in the plane: alike nodes pull each other together, all others push each other apart.

The scheme is UMAP's (McInnes, Healy and Melville, 2018): fuzzy weights on the nearest neighbours,
then steps along sampled edges with a few random strangers each, from the principal axes. It runs
on one thread and draws its luck from hashes, so the same vectors give the same map everywhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from rae.ops.layout import fuzzy, grain, settle
from rae.runtime import key
from rae.search import unit_rows

Floats = np.ndarray[Any, np.dtype[np.float32]]
Ints = np.ndarray[Any, np.dtype[np.int32]]

EVENED, TALL = 0.6, 0.72  # how far empty space is shortened, and the height of the map for a width of one
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
