"""DeepWalk (Perozzi et al. 2014) and node2vec (Grover & Leskovec 2016): skip-gram vectors of random walks.

Walks are sentences and nodes are words of gensim's skip-gram with negative sampling.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rae.baselines.registry import method
from rae.baselines.skipgram import Floats, SkipGram, word_vectors
from rae.baselines.walks import random_walks
from rae.datasets.options import positive
from rae.graph import Graph


@method("DeepWalk", paper="Perozzi et al. 2014", needs=("gensim",))
@dataclass(frozen=True, kw_only=True)
class DeepWalk(SkipGram):
    """Skip-gram vectors of uniform random walks; a node without neighbours gets zeros.

    Every node starts `walks` walks of `length` nodes; two nodes at most `window` apart on a walk are
    a pair, contrasted with `negatives` random nodes, `passes` times over all walks.
    """

    walks: int = 5
    length: int = 20
    window: int = 10
    negatives: int = 2
    learning_rate: float = 0.05

    def fit_transform(self, graph: Graph, features: Any = None) -> Floats:
        """One vector per node, in row order.  -> (n, dims)"""
        p, q = self._bias()
        walks = random_walks(graph, walks=self.walks, length=self.length, p=p, q=q, seed=self.seed)
        return self._learned(word_vectors, walks, graph.n_nodes)

    def _bias(self) -> tuple[float, float]:
        return 1.0, 1.0


@method("node2vec", paper="Grover and Leskovec 2016", needs=("gensim",))
@dataclass(frozen=True, kw_only=True)
class Node2Vec(DeepWalk):
    """Skip-gram vectors of biased walks: p above 1 returns less often, q above 1 stays near the start.

    The defaults are q = 0.5, outward walks; with p = q = 1 it is DeepWalk.
    """

    p: float = 1.0
    q: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("p", self.p)
        positive("q", self.q)

    def _bias(self) -> tuple[float, float]:
        return float(self.p), float(self.q)
