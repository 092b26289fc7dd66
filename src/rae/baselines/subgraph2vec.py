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
        found = colors(graphs, features, self.rounds)
        n_words = int(found[-1].max(initial=-1)) + 1
        pairs = contexts(found, Graph.disjoint_union(graphs))
        vectors = self._learned(word_vectors, pairs, n_words, window=1)
        owners = np.tile(graph_numbers(graphs), len(found))
        counts = counted(np.concatenate(found), owners, len(graphs), n_words)
        return np.asarray(counts @ vectors, np.float32)


def contexts(found: Sequence[Any], whole: Graph) -> Any:
    """Every pair of a subtree and one of its context; a pair of words is read in both directions.  -> (pairs, 2)"""
    sources, targets = whole.edges().T
    pairs = [
        np.stack([found[a][sources], found[b][targets]], 1)
        for a in range(len(found))
        for b in range(max(0, a - 1), min(len(found), a + 2))
    ]
    return np.concatenate(pairs)
