"""graph2vec (Narayanan et al. 2017): a graph is a document, and the subtrees around its nodes are its words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rae.baselines.colors import colors
from rae.baselines.registry import method
from rae.baselines.skipgram import Floats, SkipGram, document_vectors
from rae.graph import Graph


@method("graph2vec", paper="Narayanan et al. 2017", needs=("gensim",), of="graphs")
@dataclass(frozen=True, kw_only=True)
class Graph2Vec(SkipGram):
    """A vector per graph that predicts which Weisfeiler-Lehman subtrees its nodes have (gensim's PV-DBOW).

    Subtrees have up to `rounds` levels; each word is contrasted with `negatives` random ones, `passes` times.
    """

    dims: int = 1024
    rounds: int = 3
    negatives: int = 10
    passes: int = 50

    def fit_transform(self, graphs: Sequence[Graph], features: Sequence[Any] | None = None) -> Floats:
        """One row per graph.  -> (g, dims)"""
        words = np.stack(colors(graphs, features, self.rounds))
        ends = np.cumsum([g.n_nodes for g in graphs])[:-1]
        documents = [part.reshape(-1) for part in np.split(words, ends, axis=1)]
        return self._learned(document_vectors, documents)
