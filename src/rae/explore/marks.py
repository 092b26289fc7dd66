"""Marks: nodes whose vectors are equal are one mark of the map, with a count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from rae.ops.nearest import Scale, nearest_rows

Floats = np.ndarray[Any, np.dtype[np.float32]]
Ints = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, eq=False)
class Marks:
    """The mark of each node, the first node of each mark, and the marks nearest to each with their distance."""

    of: Ints  # (n,); marks are numbered in the order of their first nodes
    first: Ints  # (m,)
    neighbors: Ints  # (m, k), -1 for none
    distance: Floats  # (m, k), in units of the typical distance between two nodes


def find_marks(vectors: Floats, k: int) -> Marks:
    """One mark per distinct vector, with its k nearest others.  (n, d) -> Marks of n nodes

    Vectors are equal where a search says so: at a distance of 0 once rounded.
    """
    of = _byte_groups(vectors)
    first = _first_nodes(of)
    everyone = np.arange(len(first))
    marks = Marks(of, first, *_nearest(vectors, first, everyone, k))
    while ((marks.neighbors >= 0) & (marks.distance == 0)).any():
        marks = _merge_equal(vectors, marks)
    return marks


def _nearest(vectors: Floats, first: Ints, queries: Ints, k: int) -> tuple[Ints, Floats]:
    """The marks nearest to these, and their distances.  (n, d), (m,), (q,) -> (q, k), (q, k)"""
    distinct = vectors[first]
    neighbors, distance = nearest_rows(distinct, distinct[queries], k, skip=queries)
    if len(first) < len(vectors):  # a unit is the typical distance of two nodes, not of two marks
        distance = distance * np.float32(Scale.of(distinct).unit / Scale.of(vectors).unit)
    return neighbors, np.asarray(distance, np.float32)


def _merge_equal(vectors: Floats, marks: Marks) -> Marks:
    """Marks at a distance of 0 merged; only lists that hold one of those are searched again."""
    m, k = marks.neighbors.shape
    equal = (marks.neighbors >= 0) & (marks.distance == 0)
    pairs = np.nonzero(equal)[0], marks.neighbors[equal]
    _, parts = connected_components(sp.coo_array((np.ones(len(pairs[0]), np.int8), pairs), shape=(m, m)))
    group = _in_order_of_first(parts)
    of, old = group[marks.of], _first_nodes(group)
    first = marks.first[old]
    several = np.bincount(group)[group] > 1
    touched = several | (several[marks.neighbors] & (marks.neighbors >= 0)).any(axis=1)
    neighbors = np.where(marks.neighbors >= 0, group[marks.neighbors], -1)[old]
    distance = marks.distance[old]
    stale = np.flatnonzero(np.bincount(group, touched) > 0)
    neighbors[stale], distance[stale] = _nearest(vectors, first, stale, k)
    return Marks(of, first, neighbors, distance)


def _byte_groups(vectors: Floats) -> Ints:
    """The group of each row; rows with the same numbers are one.  (n, d) -> (n,)"""
    rows = np.ascontiguousarray(vectors) + np.float32(0)  # -0 becomes 0
    keys = rows.view(np.dtype((np.void, rows.shape[1] * rows.itemsize))).ravel()
    return _in_order_of_first(np.unique(keys, return_inverse=True)[1].ravel())


def _in_order_of_first(group: Any) -> Ints:
    """The groups numbered as they first occur.

    >>> _in_order_of_first(np.array([5, 2, 5, 0])).tolist()
    [0, 1, 0, 2]
    """
    _, first, inverse = np.unique(group, return_index=True, return_inverse=True)
    out: Ints = np.argsort(np.argsort(first)).astype(np.int64)[inverse]
    return out


def _first_nodes(of: Ints) -> Ints:
    out: Ints = np.unique(of, return_index=True)[1].astype(np.int64)
    return out
