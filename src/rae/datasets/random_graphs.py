"""Random graphs of any size: planted action groups, and power-law degrees for measuring speed."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from rae.datasets.dataset import Dataset, Split
from rae.datasets.options import fraction, whole_number
from rae.errors import ConfigError
from rae.graph import Graph
from rae.runtime import generator

Ints = np.ndarray[Any, np.dtype[np.int64]]


def planted_actions(
    *,
    n_nodes: int = 2000,
    groups: int = 5,
    n_words: int = 1500,
    words: int = 20,
    topic_words: int = 60,
    signal: float = 0.15,
    degree: int = 6,
    assortativity: float = 0.5,
    seed: int = 0,
) -> Dataset:
    """Groups of nodes with similar features and with neighbours of similar features.

    Every node draws `words` words: a share `signal` from the `topic_words` words of its group, the
    rest from all `n_words` words, few of them common and most rare. Of a node's edges (`degree` on
    average) a share `assortativity` leads into its own group, the others anywhere. A tenth of the
    nodes is for training, a tenth for validation.
    """
    n, k = whole_number("n_nodes", n_nodes, 20), whole_number("groups", groups, 2)
    n_words, topic_words = whole_number("n_words", n_words, 1), whole_number("topic_words", topic_words, 1)
    words, degree, seed = (
        whole_number("words", words, 1),
        whole_number("degree", degree, 1),
        whole_number("seed", seed, 0),
    )
    signal, assortativity = fraction("signal", signal), fraction("assortativity", assortativity)
    if k > n or topic_words > n_words:
        raise ConfigError(
            f"groups must be at most n_nodes ({n:,}) and topic_words at most n_words ({n_words:,}), "
            f"got {k:,} and {topic_words:,}"
        )
    rng_for = partial(generator, seed, "datasets", "planted-actions")
    labels = rng_for("groups").permutation(np.arange(n) % k)
    rng = rng_for("words")
    topics = rng.permuted(np.tile(np.arange(n_words), (k, 1)), axis=1)[:, :topic_words]
    own = topics[labels[:, None], rng.integers(topic_words, size=(n, words))]
    common = np.cumsum(1.0 / (10 + np.arange(n_words)))  # Zipf's law with a flat head
    any_word = np.searchsorted(common, rng.random((n, words)) * common[-1]).clip(max=n_words - 1)
    chosen = np.where(rng.random((n, words)) < signal, own, any_word)
    features = _bag_of_words(chosen, n_words)
    graph = _assortative(labels, n * degree // 2, assortativity, rng_for("edges"))
    order = rng_for("split").permutation(n)
    split = Split(*(np.sort(part) for part in np.split(order, [n // 10, n // 5])))
    names = tuple(f"group {g}" for g in range(k))
    return Dataset("planted-actions", graph, features, None, labels, names, split)


def _bag_of_words(chosen: Ints, n_words: int) -> Any:
    """1 for every word a node has, however often.  (n, words) -> (n, n_words)"""
    chosen = np.sort(chosen.astype(np.int32), axis=1)
    fresh = np.diff(chosen, axis=1, prepend=-1) != 0
    indices = chosen[fresh]
    offsets = np.concatenate([[0], np.cumsum(fresh.sum(1))])
    return sp.csr_array((np.ones(len(indices), np.float32), indices, offsets), shape=(len(chosen), n_words))


def _assortative(labels: Ints, n_edges: int, assortativity: float, rng: np.random.Generator) -> Graph:
    """Edges from random nodes, a share of them into the node's own group."""
    n = len(labels)
    members = np.argsort(labels, kind="stable")
    sizes = np.bincount(labels)
    first = np.cumsum(sizes) - sizes
    source = rng.integers(n, size=n_edges)
    group = labels[source]
    inside = members[first[group] + (rng.random(n_edges) * sizes[group]).astype(np.int64)]
    target = np.where(rng.random(n_edges) < assortativity, inside, rng.integers(n, size=n_edges))
    return _graph_of_rows(source, target, n)


def power_law(*, n_nodes: int = 10_000, n_edges: int = 50_000, exponent: float = 2.5, seed: int = 0) -> Dataset:
    """A graph with exactly so many edges whose degrees fall off as degree^-exponent, hubs at random rows.

    The ends of an edge are drawn with the weight (10 + i)^-a, a = 1 / (exponent - 1): the head is
    flat, as in graphs of the web, where no node is tied to everybody.
    """
    n, m = whole_number("n_nodes", n_nodes, 2), whole_number("n_edges", n_edges, 0)
    if not isinstance(exponent, (int, float)) or not exponent > 2:
        raise ConfigError(f"exponent must be a number above 2, got {exponent!r}")
    n_pairs = n * (n - 1) // 2
    if m > n_pairs // 4:
        raise ConfigError(f"n_edges must leave the graph sparse ({n_pairs // 4:,} or fewer for {n:,} nodes), got {m:,}")
    rng = generator(whole_number("seed", seed, 0), "datasets", "power-law")
    # The sum of the weights grows as (10 + i)^(1-a): the inverse of that turns a uniform number into a node.
    power = (exponent - 1) / (exponent - 2)
    low, high = 10 ** (1 / power), (10 + n) ** (1 / power)
    codes = np.empty(0, np.int64)
    while len(codes) < m:
        uniform = rng.random((2, (m - len(codes)) * 5 // 4 + 64))
        a, b = ((low + (high - low) * uniform) ** power - 10).astype(np.int64).clip(0, n - 1)
        fresh = (np.minimum(a, b) * n + np.maximum(a, b))[a != b]
        codes = np.sort(np.concatenate([codes, fresh]))
        codes = codes[np.diff(codes, prepend=-1) != 0]
    codes = codes if len(codes) == m else np.delete(codes, rng.choice(len(codes), len(codes) - m, replace=False))
    source, target = np.divmod(codes, n)
    place = rng.permutation(n)
    return Dataset("power-law", _graph_of_rows(place[source], place[target], n))


def _graph_of_rows(source: Ints, target: Ints, n: int) -> Graph:
    """The graph of nodes 0..n-1, without a lookup of ids, which takes longest on large graphs."""
    return Graph.from_scipy(sp.coo_array((np.ones(len(source), np.int8), (source, target)), shape=(n, n)))
