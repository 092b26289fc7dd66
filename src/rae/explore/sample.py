"""Which nodes stand on the map: all of them, or a faithful sample of a large graph."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from rae.runtime import generator

Ints = np.ndarray[Any, np.dtype[np.integer[Any]]]

LEAST = 300  # nodes of each role in a sample, if it has them


def on_the_map(role: Ints, prototypes: Iterable[int], most: int, *, seed: int = 0) -> Ints:
    """The rows to show, ascending: every node up to `most`, else a sample stratified by role.

    Each role gets a few places for itself and of the rest its share, so that a rare role is seen
    too; its prototypes come first, then rows drawn at random.
    """
    n = len(role)
    if n <= most:
        return np.arange(n)
    sizes = np.bincount(role)
    least = min(LEAST, most // (2 * len(sizes)))
    quota = np.minimum(sizes, least + (most - least * len(sizes)) * sizes // n)
    order = generator(seed, "sample").permutation(n)
    first = np.asarray(sorted(set(prototypes)), np.int64)
    order = np.concatenate([first, order[~np.isin(order, first)]])
    by_role = order[np.argsort(role[order], kind="stable")]
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.sort(by_role[np.arange(n) - starts < np.repeat(quota, sizes)])
