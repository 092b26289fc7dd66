"""DeepWalk (Perozzi et al. 2014) and node2vec (Grover & Leskovec 2016): nodes met on one walk lie close.

Walks are sentences, nodes are words, and gensim's skip-gram with negative sampling does the rest.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from rae.baselines.walks import Ints, random_walks
from rae.datasets.options import whole
from rae.errors import ConfigError, MissingExtraError
from rae.graph import Graph
from rae.runtime import key

Floats = np.ndarray[Any, np.dtype[np.float32]]


@dataclass(frozen=True, kw_only=True)
class DeepWalk:
    """Skip-gram vectors of uniform random walks; a node without neighbours gets zeros.

    Every node starts `walks` walks of `length` nodes; two nodes at most `window` apart on a walk are
    a pair, contrasted with `negatives` random nodes, `passes` times over all walks.
    """

    dims: int = 128
    walks: int = 5
    length: int = 20
    window: int = 10
    negatives: int = 2
    passes: int = 1
    learning_rate: float = 0.05
    seed: int = 0

    def __post_init__(self) -> None:
        for name, low in (("dims", 1), ("walks", 1), ("length", 2), ("window", 1), ("negatives", 1), ("passes", 1)):
            whole(name, getattr(self, name), low)
        whole("seed", self.seed, 0)
        _above_zero("learning_rate", self.learning_rate)

    def fit_transform(self, graph: Graph, features: Any = None) -> Floats:
        """One vector per node, in row order.  -> (n, dims)"""
        p, q = self._bias()
        walks = random_walks(graph, walks=self.walks, length=self.length, p=p, q=q, seed=self.seed)
        return self._skip_gram(walks, graph.n_nodes)

    def _bias(self) -> tuple[float, float]:
        return 1.0, 1.0

    def _skip_gram(self, walks: Ints, n_nodes: int) -> Floats:
        word2vec = _word2vec()
        z = np.zeros((n_nodes, self.dims), np.float32)
        if len(walks) == 0:
            return z
        with _quiet():
            model = word2vec(
                vector_size=self.dims, window=self.window, negative=self.negatives, sg=1, hs=0, sample=0, min_count=1,
                alpha=self.learning_rate, min_alpha=self.learning_rate / 250,
                seed=int(key(self.seed, "skip-gram") >> np.uint64(32)), workers=1,
            )  # fmt: skip
            # The vocabulary is known: counting rows here saves gensim a pass in Python over every word.
            counts = np.bincount(walks.reshape(-1), minlength=n_nodes)
            words = np.flatnonzero(counts)
            frequency = dict(zip(words.tolist(), counts[words].tolist(), strict=True))
            model.build_vocab_from_freq(frequency, corpus_count=len(walks))
            model.train(_Sentences(walks), total_examples=len(walks), epochs=self.passes)
        z[np.array(model.wv.index_to_key, dtype=np.int64)] = model.wv.vectors
        return z


@dataclass(frozen=True, kw_only=True)
class Node2Vec(DeepWalk):
    """Skip-gram vectors of biased walks: p above 1 turns back less often, q above 1 stays near the start.

    The defaults are q = 0.5, outward walks; with p = q = 1 it is DeepWalk.
    """

    p: float = 1.0
    q: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        _above_zero("p", self.p)
        _above_zero("q", self.q)

    def _bias(self) -> tuple[float, float]:
        return float(self.p), float(self.q)


class _Sentences:
    """The walks as lists of whole numbers, a block of them in memory at a time."""

    def __init__(self, walks: Ints, size: int = 10_000) -> None:
        self.walks, self.size = walks, size

    def __iter__(self) -> Any:
        for start in range(0, len(self.walks), self.size):
            yield from self.walks[start : start + self.size].tolist()


def _word2vec() -> Any:
    try:
        from gensim.models import Word2Vec
    except ImportError:
        raise MissingExtraError("gensim", "bench", "a skip-gram model (DeepWalk, node2vec)") from None
    return Word2Vec


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """gensim keeps its warnings of few words, which is what a small graph has, to itself in this block."""
    log = logging.getLogger("gensim")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)


def _above_zero(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        raise ConfigError(f"{name} must be a number above 0, got {value!r}")
