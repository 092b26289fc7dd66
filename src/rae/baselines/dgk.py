"""Deep graph kernels (Yanardag and Vishwanathan 2015): counts of substructures, of which similar ones count as alike.

A classic kernel is the inner product of counts, phi phi'. The deep one is phi M phi', where M holds the inner products
of skip-gram vectors of the substructures, so its map is the counts times the vectors, which is what is returned. A
substructure is a word; which ones occur together is said by sentences:

- "wl": the Weisfeiler-Lehman colours of one graph after one round;
- "paths": the shortest paths from one node, each told by the kinds of its ends and its length;
- "graphlets": induced subgraphs of `size` nodes; a random one, then others that differ from it in one node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csgraph

from rae.baselines.colors import FIRST, SECOND, colors, counted, graph_numbers, mixed, node_kinds
from rae.baselines.registry import method
from rae.baselines.skipgram import Floats, SkipGram, word_vectors
from rae.errors import ConfigError
from rae.graph import Graph
from rae.runtime import generator

Ints = np.ndarray[Any, np.dtype[np.int64]]
Corpus = tuple[Sequence[Ints], Ints]  # sentences, and the graph of each
KINDS = ("wl", "paths", "graphlets")


@method(
    "DGK",
    paper="Yanardag and Vishwanathan 2015",
    needs=("gensim",),
    of="graphs",
    # The paper's best kernel of each set: shortest paths on molecules, graphlets on the social sets.
    by_dataset={
        **{name: {"substructures": "paths"} for name in ("MUTAG", "PROTEINS")},
        **{name: {"substructures": "graphlets"} for name in ("IMDB-BINARY", "IMDB-MULTI", "REDDIT-BINARY")},
    },
)
@dataclass(frozen=True, kw_only=True)
class DeepGraphKernel(SkipGram):
    """Counts of substructures times their skip-gram vectors; inner products of rows are the deep kernel.

    `rounds` is of "wl"; of "graphlets" are `size`, at most 7, and `samples`: how many are drawn from each graph, each
    followed by `near` others that differ from it in one node.
    """

    substructures: str = "wl"
    rounds: int = 2
    size: int = 7
    samples: int = 50
    near: int = 10
    dims: int = 25
    window: int = 10
    negatives: int = 5
    passes: int = 5

    def __post_init__(self) -> None:
        if self.substructures not in KINDS:
            raise ConfigError(f"substructures must be one of {', '.join(KINDS)}, got {self.substructures!r}")
        super().__post_init__()
        if self.size > 7:
            raise ConfigError(f"size must be 7 or less, got {self.size}")

    def fit_transform(self, graphs: Sequence[Graph], features: Sequence[Any] | None = None) -> Floats:
        """One row per graph.  -> (g, dims)"""
        sentences, owners = self.corpus(graphs, features)
        lengths = [len(sentence) for sentence in sentences]
        words = np.concatenate(sentences)
        n_words = int(words.max(initial=-1)) + 1
        vectors = self._learned(word_vectors, sentences, n_words)
        counts = counted(words, np.repeat(owners, lengths), len(graphs), n_words)
        return np.asarray(counts @ vectors, np.float32)

    def corpus(self, graphs: Sequence[Graph], features: Sequence[Any] | None = None) -> Corpus:
        """The sentences of all graphs, and the number of the graph of each."""
        if self.substructures == "wl":
            return shuffled(*wl_sentences(graphs, features, self.rounds), self.seed)
        if self.substructures == "paths":
            return shuffled(*path_sentences(graphs, features), self.seed)
        return graphlet_sentences(graphs, self.size, self.samples, self.near, self.seed)


def shuffled(sentences: Sequence[Ints], owners: Ints, seed: int) -> Corpus:
    """The same sentences with their words in random order: what occurs together has no order of its own."""
    lengths = np.array([len(sentence) for sentence in sentences])
    chance = generator(seed, "sentences").random(int(lengths.sum()))
    order = np.lexsort((chance, np.repeat(np.arange(len(sentences)), lengths)))
    return np.split(np.concatenate(sentences)[order], np.cumsum(lengths)[:-1]), owners


def wl_sentences(graphs: Sequence[Graph], features: Sequence[Any] | None, rounds: int) -> Corpus:
    """A sentence per graph and round: the colours of its nodes."""
    ends = np.cumsum([g.n_nodes for g in graphs])[:-1]
    sentences = [part for round_colors in colors(graphs, features, rounds) for part in np.split(round_colors, ends)]
    return sentences, np.tile(np.arange(len(graphs)), rounds + 1)


def path_sentences(graphs: Sequence[Graph], features: Sequence[Any] | None) -> Corpus:
    """A sentence per node: the shortest paths from it, as words for (kind, kind, length)."""
    kinds = node_kinds(graphs, features)
    starts = np.cumsum([0, *(g.n_nodes for g in graphs)])
    codes, counts = [], []
    n_kinds = int(kinds.max(initial=-1)) + 1
    for graph, start in zip(graphs, starts[:-1], strict=True):
        own = kinds[start : start + graph.n_nodes]
        lengths = csgraph.shortest_path(graph.to_scipy(), unweighted=True, directed=False)
        lengths[~np.isfinite(lengths)] = 0
        first, second = np.nonzero(lengths)
        low, high = np.minimum(own[first], own[second]), np.maximum(own[first], own[second])
        codes.append((lengths[first, second].astype(np.int64) * n_kinds + low) * n_kinds + high)
        counts.append(np.bincount(first, minlength=graph.n_nodes))
    words = np.unique(np.concatenate(codes), return_inverse=True)[1].reshape(-1)
    return np.split(words, np.cumsum(np.concatenate(counts))[:-1]), graph_numbers(graphs)


# ------------------------------------------------------------------------------------------ graphlets


def graphlet_sentences(graphs: Sequence[Graph], size: int, samples: int, near: int, seed: int) -> Corpus:
    """Sentences of graphlets: a random one, then `near` that have another node in place of one of its nodes.

    A graph that has no more than `size` nodes has itself as its only graphlet.
    """
    words = np.empty((len(graphs), samples, 1 + near), np.uint64)
    for number, graph in enumerate(graphs):
        rng, n, k = generator(seed, "graphlets", number), graph.n_nodes, min(size, graph.n_nodes)
        order = np.argsort(rng.random((samples, n)), axis=1)  # k nodes in, the others out
        nodes = np.repeat(order[:, None, :k], 1 + near, axis=1)
        if n > k:
            rows, columns = np.indices((samples, near))
            leaves, enters = rng.integers(k, size=(samples, near)), rng.integers(k, n, size=(samples, near))
            nodes[rows, 1 + columns, leaves] = order[rows, enters]
        pairs = np.triu_indices(k, 1)
        joined = graph.to_scipy(np.bool_).toarray()[nodes[..., pairs[0]], nodes[..., pairs[1]]]
        bits, place = np.unique(joined @ (1 << np.arange(len(pairs[0]))), return_inverse=True)
        words[number] = graphlet_names(bits, k)[place].reshape(samples, 1 + near)
    numbers = np.unique(words, return_inverse=True)[1].reshape(len(graphs) * samples, 1 + near)
    return list(numbers.astype(np.int64)), np.repeat(np.arange(len(graphs)), samples)


def graphlet_names(bits: Ints, k: int) -> Any:
    """A hash of each graph of k nodes that is the same for those that are isomorphic, and for no others up to k = 7.

    The bits of a number are the pairs of nodes, in the order of the upper triangle. Each pair of nodes is told by the
    numbers of walks of 1 to 6 steps between them, a node by those of its pairs, the graph by those of its nodes.
    """
    adjacency = np.zeros((len(bits), k, k), np.int64)
    rows, columns = np.triu_indices(k, 1)
    adjacency[:, rows, columns] = (bits[:, None] >> np.arange(len(rows))) & 1
    adjacency += adjacency.transpose(0, 2, 1)
    walks, pairs = adjacency, mixed(adjacency)
    for _ in range(5):
        walks = walks @ adjacency
        pairs = mixed(pairs ^ mixed(walks, SECOND))
    nodes = mixed(mixed(pairs, SECOND).sum(2) ^ mixed(np.diagonal(pairs, axis1=1, axis2=2)))
    return mixed(nodes.sum(1) + np.uint64(k), FIRST)
