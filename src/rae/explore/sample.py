"""The nodes on the map: all of them, or a sample of a large graph that is stratified by role."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from rae.runtime import generator

Ints = np.ndarray[Any, np.dtype[np.integer[Any]]]

LEAST_PER_ROLE = 300  # nodes of each role in a sample, if it has them


def map_rows(role: Ints, prototypes: Iterable[int], most: int) -> Ints:
    """The rows on the map, ascending: every node up to `most`, else a sample stratified by role.

    Each role has a minimum and a share of the rest, so that a rare role is on the map too; its prototypes
    come first, then random rows.
    """
    n = len(role)
    if n <= most:
        return np.arange(n)
    sizes = np.bincount(role)
    least = min(LEAST_PER_ROLE, most // (2 * len(sizes)))
    quota = np.minimum(sizes, least + (most - least * len(sizes)) * sizes // n)
    order = generator(0, "sample").permutation(n)
    first = np.asarray(sorted(set(prototypes)), np.int64)
    order = np.concatenate([first, order[~np.isin(order, first)]])
    by_role = order[np.argsort(role[order], kind="stable")]
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.sort(by_role[np.arange(n) - starts < np.repeat(quota, sizes)])
