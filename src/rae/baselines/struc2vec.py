"""struc2vec (Ribeiro et al. 2017): walks between nodes that look alike, wherever they are, read by skip-gram.

Two nodes are as far apart at level k as the degrees of what stands up to k steps around them differ: f_k = f_(k-1) +
the dynamic time warping distance of the sorted degrees at exactly k steps, equal degrees counted together (the paper's
first optimisation). Every level is a graph whose edges weigh exp(-f_k). A walk stays on its level or changes it,
upwards the likelier the more nodes there are that are closer than the mean. Nodes it meets are words of a sentence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rae.baselines.registry import method
from rae.baselines.skipgram import Floats, SkipGram, word_vectors
from rae.datasets.options import fraction
from rae.errors import ConfigError
from rae.graph import Graph
from rae.memory import row_chunks
from rae.runtime import generator

Ints = np.ndarray[Any, np.dtype[np.int64]]
Doubles = np.ndarray[Any, np.dtype[np.float64]]
BLOCK = 1 << 17  # numbers in one row of a block of warping distances
SOURCES = 512  # nodes whose rings are found at a time


@method("struc2vec", paper="Ribeiro et al. 2017", needs=("gensim",))
@dataclass(frozen=True, kw_only=True)
class Struc2Vec(SkipGram):
    """Skip-gram vectors of walks over levels of structural similarity; a node without neighbours gets zeros.

    `levels` is the paper's third optimisation: rings of up to so many steps. `pairs="near"` is the second: a node is
    compared with the log2(n) nodes above and below it in the order of degrees; `"all"` compares all.
    """

    walks: int = 10
    length: int = 80
    window: int = 10
    passes: int = 5
    levels: int = 4
    pairs: str = "near"
    stay: float = 0.3

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pairs not in ("near", "all"):
            raise ConfigError(f"pairs must be one of 'near', 'all', got {self.pairs!r}")
        if fraction("stay", self.stay) == 0:
            raise ConfigError("stay must be above 0: a walk that never stays meets no node")

    def fit_transform(self, graph: Graph, features: Any = None) -> Floats:
        """One vector per node, in row order.  -> (n, dims)"""
        walks = np.empty((0, self.length), np.int64)
        if np.count_nonzero(graph.degrees) > 1:
            levels = structural_distances(graph, compared(graph, self.pairs), self.levels)
            walks = _walks(graph, levels, self.walks, self.length, self.stay, self.seed)
        return self._learned(word_vectors, walks, graph.n_nodes, negatives=0, hierarchical=True)


# ------------------------------------------------------------------------------------------ distances


def compared(graph: Graph, pairs: str) -> Ints:
    """The pairs of rows that are compared, of nodes that have neighbours.  -> (pairs, 2)"""
    rows = np.flatnonzero(graph.degrees)
    if pairs == "all":
        return rows[np.stack(np.triu_indices(len(rows), 1), 1)]
    ordered = rows[np.argsort(graph.degrees[rows], kind="stable")]
    steps = range(1, min(len(rows), 1 + int(np.ceil(np.log2(len(rows))))))
    return np.concatenate([np.stack([ordered[:-step], ordered[step:]], 1) for step in steps])


def structural_distances(graph: Graph, pairs: Ints, levels: int) -> list[tuple[Ints, Doubles]]:
    """The pairs that have a distance at each level, which all levels below have too, and the distance f_k of each."""
    distance, levels_of_pairs = np.zeros(len(pairs)), []
    for ring in _rings(graph, levels):
        both = (ring.lengths[pairs] > 0).all(1)
        pairs, distance = pairs[both], distance[both]
        if len(pairs) == 0:
            break
        distance = distance + _warped(ring, pairs)
        levels_of_pairs.append((pairs, distance))
    return levels_of_pairs


@dataclass(frozen=True)
class Ring:
    """What stands at one distance around every node: its degrees, ascending, and how often each occurs."""

    starts: Ints  # (n,)
    lengths: Ints  # (n,) how many different degrees
    degrees: Doubles
    counts: Doubles

    def padded(self, rows: Ints, width: int) -> tuple[Doubles, Doubles]:
        """Degrees and counts of these rows, filled up with the last.  -> (b, width), (b, width)"""
        at = self.starts[rows, None] + np.minimum(np.arange(width), self.lengths[rows, None] - 1)
        return self.degrees[at], self.counts[at]


def _rings(graph: Graph, levels: int) -> list[Ring]:
    """The rings at 0, 1, ... steps."""
    n, adjacency = graph.n_nodes, graph.to_scipy(np.float32)
    most = int(graph.degrees.max(initial=0)) + 1
    codes: list[list[Ints]] = [[] for _ in range(levels + 1)]
    for start, stop in row_chunks(n, SOURCES):
        front = np.zeros((n, stop - start), np.float32)
        front[np.arange(start, stop), np.arange(stop - start)] = 1
        reached = np.zeros(front.shape, bool)
        for level in codes:
            nodes, sources = np.nonzero(front)
            level.append((sources + start) * most + graph.degrees[nodes])
            reached |= front > 0
            front = ((adjacency @ front > 0) & ~reached).astype(np.float32)
    return [_ring(np.concatenate(level), n, most) for level in codes]


def _ring(codes: Ints, n: int, most: int) -> Ring:
    unique, counts = np.unique(codes, return_counts=True)
    lengths = np.bincount(unique // most, minlength=n)
    return Ring(np.cumsum(lengths) - lengths, lengths, (unique % most).astype(np.float64), counts.astype(np.float64))


def _warped(ring: Ring, pairs: Ints) -> Doubles:
    """Dynamic time warping distances of the rings of each pair.  -> (pairs,)

    Two degrees a and b that occur m and n times cost (max(a, b) / min(a, b) - 1) * max(m, n). Within a row of the usual
    table, the way along the row is a running minimum: D_j = S_j + min over t <= j of (M_t - S_(t-1)), with S the
    running sum of the costs and M the better of the two entries above.
    """
    lengths = ring.lengths[pairs]
    shorter = np.take_along_axis(pairs, np.argsort(lengths, axis=1, kind="stable"), 1)
    few, many = np.sort(lengths, axis=1).T
    order = np.lexsort((few, many))
    out = np.empty(len(pairs))
    start = 0
    while start < len(order):
        width = int(many[order[start]])
        stop = min(len(order), start + max(1, BLOCK // (2 * width)))
        while stop > start + 1 and many[order[stop - 1]] > max(8, 2 * width):  # little padding in a block
            stop = start + int(np.searchsorted(many[order[start:stop]], max(8, 2 * width), side="right"))
        part = order[start:stop]
        out[part] = _warped_block(ring, shorter[part], few[part], many[part])
        start = stop
    return out


def _warped_block(ring: Ring, pairs: Ints, few: Ints, many: Ints) -> Doubles:
    a, a_counts = ring.padded(pairs[:, 0], int(few.max()))
    b, b_counts = ring.padded(pairs[:, 1], int(many.max()))
    out = np.empty(len(pairs))
    above = np.full(b.shape, np.inf)
    last = (many - 1)[:, None]
    for i in range(a.shape[1]):
        own = a[:, i, None]
        cost = (np.maximum(own, b) / np.minimum(own, b) - 1) * np.maximum(a_counts[:, i, None], b_counts)
        sums = np.cumsum(cost, axis=1)
        better = above.copy()
        np.minimum(better[:, 1:], above[:, :-1], out=better[:, 1:])
        if i == 0:
            better[:, 0] = 0
        above = sums + np.minimum.accumulate(better - (sums - cost), axis=1)
        ends_here = few == i + 1
        out[ends_here] = np.take_along_axis(above[ends_here], last[ends_here], 1)[:, 0]
    return np.maximum(out, 0)  # sums and differences may leave a rounding error below 0


# ------------------------------------------------------------------------------------------ walks


@dataclass(frozen=True)
class _Levels:
    """All levels side by side; state k * n + u is node u at level k."""

    ends: Doubles  # of the probabilities of each state's steps, state after state: those of state s are in (s, s + 1]
    targets: Ints  # states
    up: Doubles  # (states,) the probability that a change of level goes upwards
    n: int

    def step(self, states: Ints, chance: Doubles) -> Ints:
        """The states after one step within their levels."""
        return np.asarray(self.targets[np.searchsorted(self.ends, states + chance, side="right")])


def _walks(graph: Graph, levels: list[tuple[Ints, Doubles]], walks: int, length: int, stay: float, seed: int) -> Ints:
    """Walks from every node that has a neighbour, in random order.  -> (nodes * walks, length) of rows"""
    layers, rng = _side_by_side(levels, graph.n_nodes), generator(seed, "struc2vec")
    states = rng.permutation(np.tile(np.flatnonzero(graph.degrees), walks))
    paths = np.empty((len(states), length), np.int64)
    paths[:, 0], filled = states, np.ones(len(states), np.int64)
    going = np.arange(len(states))
    while len(going):
        chance = rng.random((2, len(going)))
        stays = chance[0] < stay
        here, away = going[stays], going[~stays]
        states[here] = layers.step(states[here], chance[1, stays])
        paths[here, filled[here]] = states[here] % layers.n
        filled[here] += 1
        upwards = chance[1, ~stays] < layers.up[states[away]]
        states[away] += np.where(upwards, layers.n, np.where(states[away] >= layers.n, -layers.n, 0))
        going = going[filled[going] < length]
    return paths


def _side_by_side(levels: list[tuple[Ints, Doubles]], n: int) -> _Levels:
    """Steps within each level in proportion to exp(-f), and how likely a change of level goes upwards."""
    sources = np.concatenate([p.T.reshape(-1) + k * n for k, (p, _) in enumerate(levels)])
    targets = np.concatenate([p[:, ::-1].T.reshape(-1) + k * n for k, (p, _) in enumerate(levels)])
    distances = np.concatenate([np.tile(d, 2) for _, d in levels])
    order = np.lexsort((targets, sources))
    sources, targets, distances = sources[order], targets[order], distances[order]
    states, first, counts = np.unique(sources, return_index=True, return_counts=True)
    nearest = np.minimum.reduceat(distances, first)  # subtracted, so that not all of a row is rounded to nothing
    weights = np.exp(np.repeat(nearest, counts) - distances)
    runs = np.cumsum(weights)
    before = np.repeat(runs[first] - weights[first], counts)
    totals = np.repeat(np.add.reduceat(weights, first), counts)
    ends = sources + np.minimum((runs - before) / totals, 1.0)
    ends[first + counts - 1] = states + 1.0
    up = np.zeros(len(levels) * n)
    for k, (pairs, distance) in enumerate(levels[:-1]):
        weight = np.exp(-distance)
        closer = np.bincount(pairs[weight > weight.mean()].reshape(-1), minlength=n)
        gain = np.log(closer + np.e)
        above = np.isin(np.arange((k + 1) * n, (k + 2) * n), states)
        up[k * n : (k + 1) * n] = np.where(above, gain / (gain + (k > 0)), 0)
    return _Levels(ends, targets, up, n)
