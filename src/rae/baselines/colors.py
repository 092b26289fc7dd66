"""The colours of Weisfeiler and Lehman: a node's subtree after some rounds, as a whole number.

Two nodes of any of the graphs have one colour after a round when they had one before and their neighbours had the
same colours, each as often. Colours do not depend on how nodes are numbered. A multiset of colours is told from others
by the sums of two 64-bit hashes of its members: two different ones are confused with a chance of about 1e-38 times the
number of pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from rae.errors import FeatureError
from rae.graph import Graph

Ints = np.ndarray[Any, np.dtype[np.int64]]
Hashes = np.ndarray[Any, np.dtype[np.uint64]]

FIRST, SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)


def mixed(values: Any, salt: np.uint64 = FIRST) -> Hashes:
    """A 64-bit hash of each number (the finaliser of splitmix64)."""
    x = (np.asarray(values).astype(np.uint64) + np.uint64(1)) * salt
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    return np.asarray(x ^ (x >> np.uint64(31)))


def node_kinds(graphs: Sequence[Graph], features: Sequence[Any] | None) -> Ints:
    """The kind of every node of all graphs: equal features, one kind; without features, equal degrees.  -> (n,)"""
    if features is None:
        values: Any = np.concatenate([g.degrees for g in graphs])
    else:
        if len(features) != len(graphs) or any(len(f) != g.n_nodes for f, g in zip(features, graphs, strict=False)):
            raise FeatureError("features must be one table per graph, with a row per node")
        values = np.vstack([np.asarray(f) for f in features])
    return np.unique(values, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)


def graph_numbers(graphs: Sequence[Graph]) -> Ints:
    """The number of the graph of every node of all graphs.  -> (n,)"""
    return np.repeat(np.arange(len(graphs)), [g.n_nodes for g in graphs])


def colors(graphs: Sequence[Graph], features: Sequence[Any] | None, rounds: int) -> list[Ints]:
    """The colours of the nodes of all graphs after 0, 1, ... rounds; no two rounds share one.  -> rounds + 1 of (n,)

    >>> path = Graph.from_edges([(0, 1), (1, 2)])
    >>> [c.tolist() for c in colors([path], None, 1)]
    [[0, 1, 0], [2, 3, 2]]
    """
    whole = Graph.disjoint_union(graphs)
    adjacency = whole.to_scipy(np.uint64)
    by_round = [node_kinds(graphs, features)]
    for _ in range(rounds):
        own = by_round[-1]
        signature = np.stack([own.astype(np.uint64), *(adjacency @ mixed(own, salt) for salt in (FIRST, SECOND))], 1)
        numbers = np.unique(signature, axis=0, return_inverse=True)[1].reshape(-1)
        by_round.append(int(own.max(initial=-1)) + 1 + numbers.astype(np.int64))
    return by_round


def counted(words: Ints, owners: Ints, n_owners: int, n_words: int) -> sp.csr_array:
    """How often each owner has each word.  -> (owners, words)"""
    ones = np.ones(len(words))
    return sp.csr_array(sp.coo_array((ones, (owners, words)), shape=(n_owners, n_words)))
