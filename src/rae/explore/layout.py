"""Positions of the nodes in the plane: similar nodes attract, all others repel each other.

The scheme is UMAP's (McInnes, Healy and Melville, 2018): fuzzy weights on the nearest neighbours,
then steps along sampled edges with a few random negatives each, from the principal axes. It runs
on one thread with counter-based random numbers, so the same vectors give the same map everywhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from rae.ops.layout import fuzzy_weights, jitter, optimize_layout
from rae.runtime import key

Floats = np.ndarray[Any, np.dtype[np.float32]]
Ints = np.ndarray[Any, np.dtype[np.integer[Any]]]

HEIGHT = 0.72  # of the map, for a width of one
RANK_SHARE = 0.6  # of a coordinate: how far empty space is shortened
SMALL, FEW_ROUNDS, MANY_ROUNDS = 10_000, 200, 500


def map_positions(z: Floats, neighbors: Ints, distance: Floats) -> Floats:
    """A position for every node, x from 0 to 1 and y from 0 to HEIGHT.  (n, d), (n, k), (n, k) -> (n, 2)"""
    n = len(z)
    start = principal_axes(z)
    if n < 4 or not start.any():
        return shorten_gaps(start)
    edges = attraction(neighbors, distance)
    rounds = MANY_ROUNDS if n <= SMALL else FEW_ROUNDS
    strong = edges.data >= edges.data.max() / rounds
    heads, tails, interval = edges.row[strong], edges.col[strong], edges.data.max() / edges.data[strong]
    return shorten_gaps(optimize_layout(start, heads, tails, interval, rounds, key(0, "layout")))


def principal_axes(z: Floats) -> Floats:
    """The two principal components, within -10..10, with a little noise that separates equal vectors.

    Zeros where all vectors are equal.  (n, d) -> (n, 2)
    """
    centred = z - z.mean(axis=0)
    _, axes = np.linalg.eigh((centred.T @ centred).astype(np.float64))
    axes = axes[:, ::-1][:, :2]
    axes *= np.where(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])] < 0, -1, 1)
    components = np.zeros((len(z), 2), np.float32)
    components[:, : axes.shape[1]] = centred @ axes
    largest = np.abs(components).max()
    if largest < 1e-6:
        return np.zeros_like(components)
    return np.asarray(10 * components / largest + jitter(len(z), key(0, "grain")), np.float32)


def attraction(neighbors: Ints, distance: Floats) -> sp.coo_array:
    """The symmetric weight in (0, 1] of each pair of neighbours.  (n, k), (n, k) -> (n, n)"""
    n, k = neighbors.shape
    valid = neighbors >= 0
    weight = fuzzy_weights(np.where(valid, distance, 0).astype(np.float32), valid)
    rows = np.repeat(np.arange(n, dtype=np.int32), k)[valid.ravel()]
    one_way = sp.csr_array((weight[valid], (rows, neighbors[valid])), shape=(n, n))
    return sp.coo_array(one_way + one_way.T - one_way * one_way.T)


def shorten_gaps(xy: Floats) -> Floats:
    """The positions with empty space shortened: each coordinate a blend of itself and of its rank.

    The order along both axes stays, so near points stay near.  (n, 2) -> (n, 2)
    """
    low, extent = xy.min(axis=0), np.ptp(xy, axis=0)
    shares = (xy - low) / np.maximum(extent, 1e-12)
    ranks = np.column_stack([np.unique(side, return_inverse=True)[1] for side in xy.T])
    ranks = ranks / np.maximum(ranks.max(axis=0), 1)
    return np.asarray(((1 - RANK_SHARE) * shares + RANK_SHARE * ranks) * [1, HEIGHT], np.float32)
