"""role2vec (Ahmed et al. 2018): walks of types instead of nodes, so that nodes of one type have one vector.

A node's type is the tuple of its motif counts in logarithmic bins: how many edges, triangles, squares (cycles of four),
paths of two steps from it, and triangles at the end of an edge from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rae.baselines.refex import log_bins
from rae.baselines.registry import method
from rae.baselines.skipgram import Floats, SkipGram, word_vectors
from rae.baselines.walks import random_walks
from rae.errors import ConfigError
from rae.features import measures
from rae.graph import Graph

Ints = np.ndarray[Any, np.dtype[np.int64]]
MOTIFS = ("edges", "triangles", "squares", "paths", "tails")


@method("role2vec", paper="Ahmed et al. 2018", needs=("gensim",))
@dataclass(frozen=True, kw_only=True)
class Role2Vec(SkipGram):
    """Skip-gram vectors of the types of nodes along uniform walks; a node without neighbours gets zeros.

    Bins are those of `ReFeX`: the lowest share `bins` of the nodes gets 0, that share of the others 1, and so on.
    """

    motifs: tuple[str, ...] = ("edges", "triangles", "squares")
    bins: float = 0.5
    walks: int = 10
    length: int = 80
    window: int = 10
    negatives: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.bins, bool) or not isinstance(self.bins, (int, float)) or not 0 < self.bins < 1:
            raise ConfigError(f"bins must be a number between 0 and 1, got {self.bins!r}")
        if not self.motifs or not set(self.motifs) <= set(MOTIFS):
            raise ConfigError(f"motifs must be some of {', '.join(MOTIFS)}, got {self.motifs!r}")

    def fit_transform(self, graph: Graph, features: Any = None) -> Floats:
        """One vector per node, in row order; nodes of one type have the same.  -> (n, dims)"""
        types = self.types(graph)
        walks = random_walks(graph, walks=self.walks, length=self.length, seed=self.seed)
        vectors = self._learned(word_vectors, types[walks], graph.n_nodes)
        return np.ascontiguousarray(vectors[types] * (graph.degrees > 0)[:, None])

    def types(self, graph: Graph) -> Ints:
        """The type of every node, as a number.  -> (n,)"""
        binned = [log_bins(motif_counts(graph, motif), self.bins) for motif in self.motifs]
        return np.unique(np.stack(binned, 1), axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)


def motif_counts(graph: Graph, motif: str) -> Any:
    """How often every node is in this motif, at the place that it names.  -> (n,)"""
    degrees = graph.degrees.astype(np.float64)
    if motif == "edges":
        return degrees
    if motif == "squares":
        return measures.four_cycles(graph).astype(np.float64)
    triangles = measures.triangles(graph).astype(np.float64)
    if motif == "triangles":
        return triangles
    if motif == "paths":  # two steps to a node that is no neighbour
        return graph.to_scipy() @ (degrees - 1) - 2 * triangles
    return graph.to_scipy() @ triangles - 2 * triangles
