"""Vectors of words and of documents by gensim, for methods that turn a graph into sentences.

Words are whole numbers. One thread, so that the same seed gives the same bytes.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from inspect import signature
from typing import Any

import numpy as np

from rae.datasets.options import positive, whole_number
from rae.errors import MissingExtraError
from rae.memory import row_chunks
from rae.runtime import generator, key

GENSIM_UNTIL = (3, 13)  # the newest Python that gensim has wheels for; the extra `bench` says the same
MOST_WORDS = 10_000  # gensim drops what a sentence has beyond that
Floats = np.ndarray[Any, np.dtype[np.float32]]
Words = np.ndarray[Any, np.dtype[np.integer[Any]]]
Sentences = Words | Sequence[Words]  # all of one length, or of several
LEAST = {"seed": 0, "rounds": 0, "levels": 0, "length": 2, "size": 2}  # of settings that are whole numbers; others 1


@dataclass(frozen=True, kw_only=True)
class SkipGram:
    """The settings of a method that learns vectors of words: `passes` over all sentences."""

    dims: int = 128
    passes: int = 1
    learning_rate: float = 0.025
    seed: int = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.type == "int":
                whole_number(field.name, getattr(self, field.name), LEAST.get(field.name, 1))
        positive("learning_rate", self.learning_rate)

    def _learned(self, by: Callable[..., Floats], *sentences: Any, **more: Any) -> Floats:
        """The vectors that `word_vectors` or `document_vectors` learns with these settings."""
        parameters = signature(by).parameters
        return by(*sentences, **{f.name: getattr(self, f.name) for f in fields(self) if f.name in parameters}, **more)


def word_vectors(
    sentences: Sentences,
    n_words: int,
    *,
    dims: int,
    window: int,
    negatives: int,
    passes: int,
    learning_rate: float,
    seed: int,
    hierarchical: bool = False,
) -> Floats:
    """Skip-gram vectors of the words 0 to n_words - 1; one that no sentence has gets zeros.  -> (n_words, dims)

    hierarchical: a binary tree over the words instead of `negatives` random ones.
    """
    word2vec = _gensim("Word2Vec")
    z = np.zeros((n_words, dims), np.float32)
    counts = _counts(sentences, n_words)
    words = np.flatnonzero(counts)
    if len(words) == 0:
        return z
    with _gensim_warnings_off():
        model = word2vec(
            vector_size=dims, window=window, negative=0 if hierarchical else negatives, sg=1, hs=int(hierarchical),
            sample=0, min_count=1, alpha=learning_rate, min_alpha=learning_rate / 250, seed=_gensim_seed(seed),
            workers=1,
        )  # fmt: skip
        # Counting here saves gensim a pass in Python over every word.
        # Its binary tree takes a number for a word's place, not for the word: there words are text.
        kind = str if hierarchical else int
        frequency = dict(zip(words.astype(kind).tolist(), counts[words].tolist(), strict=True))
        model.build_vocab_from_freq(frequency, corpus_count=len(sentences))
        model.train(_Lists(sentences, kind), total_examples=len(sentences), epochs=passes)
    z[np.array(model.wv.index_to_key, dtype=np.int64)] = model.wv.vectors
    return z


def document_vectors(
    documents: Sequence[Words],
    *,
    dims: int,
    negatives: int,
    passes: int,
    learning_rate: float,
    seed: int,
) -> Floats:
    """A vector per document that predicts its words, whatever their order (PV-DBOW).  -> (documents, dims)

    Documents come in a new random order at every pass. In a given one a vector tells its place in it, since rate and
    words change on the way, and public sets of graphs are sorted by class.
    """
    doc2vec, tagged = _gensim("Doc2Vec"), _gensim("doc2vec").TaggedDocument
    parts = [
        tagged(list(map(str, words[start:stop].tolist())), [number])
        for number, words in enumerate(documents)
        for start, stop in row_chunks(len(words), MOST_WORDS)
    ]
    with _gensim_warnings_off():
        model = doc2vec(
            _Shuffled(parts, seed), vector_size=dims, dm=0, dbow_words=0, negative=negatives, hs=0, sample=0,
            min_count=1, alpha=learning_rate, min_alpha=learning_rate / 250, seed=_gensim_seed(seed), workers=1,
            epochs=passes,
        )  # fmt: skip
    return np.ascontiguousarray(model.dv.vectors, np.float32)


class _Shuffled:
    """These documents, in another random order each time."""

    def __init__(self, documents: Sequence[Any], seed: int) -> None:
        self.documents, self.random = documents, generator(seed, "documents")

    def __iter__(self) -> Any:
        return (self.documents[number] for number in self.random.permutation(len(self.documents)))


class _Lists:
    """The sentences as lists of ints or texts, a chunk of them in memory at a time."""

    def __init__(self, sentences: Sentences, kind: type, size: int = 10_000) -> None:
        self.sentences, self.kind, self.size = sentences, kind, size

    def __iter__(self) -> Any:
        for start, stop in row_chunks(len(self.sentences), self.size):
            part = self.sentences[start:stop]
            if isinstance(part, np.ndarray):
                yield from part.astype(self.kind).tolist()
            else:
                yield from (words.astype(self.kind).tolist() for words in part)


def _counts(sentences: Sentences, n_words: int) -> Words:
    """How often each word occurs.  -> (n_words,)"""
    if not isinstance(sentences, np.ndarray):
        sentences = np.concatenate(sentences) if len(sentences) else np.empty(0, np.int64)
    return np.bincount(sentences.reshape(-1), minlength=n_words)


def _gensim_seed(seed: int) -> int:
    return int(key(seed, "skip-gram") >> np.uint64(32))


def _gensim(name: str) -> Any:
    try:
        models = importlib.import_module("gensim.models")
    except ImportError:
        raise MissingExtraError("gensim", "bench", "a skip-gram model (DeepWalk, node2vec)", GENSIM_UNTIL) from None
    return getattr(models, name)


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
