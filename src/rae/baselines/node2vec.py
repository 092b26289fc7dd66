"""DeepWalk (Perozzi et al. 2014) and node2vec (Grover & Leskovec 2016): skip-gram vectors of random walks.

Walks are sentences and nodes are words of gensim's skip-gram with negative sampling.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from rae.baselines.registry import method
from rae.baselines.walks import Ints, random_walks
from rae.datasets.options import whole_number
from rae.errors import ConfigError, MissingExtraError
from rae.graph import Graph
from rae.memory import row_chunks
from rae.runtime import key

GENSIM_UNTIL = (3, 13)  # the newest Python that gensim has wheels for; the extra `bench` says the same
Floats = np.ndarray[Any, np.dtype[np.float32]]


@method("DeepWalk", paper="Perozzi et al. 2014", needs=("gensim",))
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
            whole_number(name, getattr(self, name), low)
        whole_number("seed", self.seed, 0)
        _check_positive("learning_rate", self.learning_rate)

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
        with _gensim_warnings_off():
            model = word2vec(
                vector_size=self.dims, window=self.window, negative=self.negatives, sg=1, hs=0, sample=0, min_count=1,
                alpha=self.learning_rate, min_alpha=self.learning_rate / 250,
                seed=int(key(self.seed, "skip-gram") >> np.uint64(32)), workers=1,
            )  # fmt: skip
            # Counting rows here saves gensim a pass in Python over every word.
            counts = np.bincount(walks.reshape(-1), minlength=n_nodes)
            words = np.flatnonzero(counts)
            frequency = dict(zip(words.tolist(), counts[words].tolist(), strict=True))
            model.build_vocab_from_freq(frequency, corpus_count=len(walks))
            model.train(_Sentences(walks), total_examples=len(walks), epochs=self.passes)
        z[np.array(model.wv.index_to_key, dtype=np.int64)] = model.wv.vectors
        return z


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
        _check_positive("p", self.p)
        _check_positive("q", self.q)

    def _bias(self) -> tuple[float, float]:
        return float(self.p), float(self.q)


class _Sentences:
    """The walks as lists of ints, one chunk of them in memory at a time."""

    def __init__(self, walks: Ints, size: int = 10_000) -> None:
        self.walks, self.size = walks, size

    def __iter__(self) -> Any:
        for start, stop in row_chunks(len(self.walks), self.size):
            yield from self.walks[start:stop].tolist()


def _word2vec() -> Any:
    try:
        from gensim.models import Word2Vec
    except ImportError:
        raise MissingExtraError("gensim", "bench", "a skip-gram model (DeepWalk, node2vec)", GENSIM_UNTIL) from None
    return Word2Vec


@contextlib.contextmanager
def _gensim_warnings_off() -> Iterator[None]:
    """No warnings of gensim in this block: it warns of few words, and a small graph has few."""
    log = logging.getLogger("gensim")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)


def _check_positive(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        raise ConfigError(f"{name} must be a number above 0, got {value!r}")
