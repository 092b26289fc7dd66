"""subgraph2vec (Narayanan et al. 2016): subtrees are words, and those around neighbouring nodes are their context.

The radial skip-gram of the paper: the subtree of a node with d levels has as context the subtrees of its neighbours
with d - 1, d and d + 1 levels. The deep kernel of two graphs is the inner product of their sums of subtree vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rae.baselines.colors import colors, counted, graph_numbers
from rae.baselines.registry import method
from rae.baselines.skipgram import Floats, SkipGram, word_vectors
from rae.graph import Graph


@method("subgraph2vec", paper="Narayanan et al. 2016", needs=("gensim",), of="graphs")
@dataclass(frozen=True, kw_only=True)
class Subgraph2Vec(SkipGram):
    """The sum of the skip-gram vectors of a graph's Weisfeiler-Lehman subtrees, of up to `rounds` levels."""

    dims: int = 32
    rounds: int = 2
    negatives: int = 5
    passes: int = 10

    def fit_transform(self, graphs: Sequence[Graph], features: Sequence[Any] | None = None) -> Floats:
        """One row per graph.  -> (g, dims)"""
        by_round = colors(graphs, features, self.rounds)
        n_words = int(by_round[-1].max(initial=-1)) + 1
        pairs = contexts(by_round, Graph.disjoint_union(graphs))
        vectors = self._learned(word_vectors, pairs, n_words, window=1)
        owners = np.tile(graph_numbers(graphs), len(by_round))
        counts = counted(np.concatenate(by_round), owners, len(graphs), n_words)
        return np.asarray(counts @ vectors, np.float32)


def contexts(by_round: Sequence[Any], whole: Graph) -> Any:
    """Every pair of a subtree and one of its context; a pair of words is read in both directions.  -> (pairs, 2)"""
    sources, targets = whole.edges().T
    pairs = [
        np.stack([by_round[a][sources], by_round[b][targets]], 1)
        for a in range(len(by_round))
        for b in range(max(0, a - 1), min(len(by_round), a + 2))
    ]
    return np.concatenate(pairs)
