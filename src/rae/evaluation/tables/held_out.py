"""Graphs that had no part in any choice: nerves, brains, words and software, of what package archives ship."""

from __future__ import annotations

from typing import Any

import numpy as np

from rae.datasets import Dataset, Split
from rae.evaluation import data, models, probes
from rae.evaluation.table_spec import Effort, Row, Score, Table, work_per_row
from rae.evaluation.tables.airports import LOG_DEGREE
from rae.evaluation.tables.methods import DEGREE_TRIANGLES, EXACT, PLACE, STATISTICS, UNTRAINED, WITHIN, both_vectors
from rae.evaluation.tables.node import UNTRAINED as UNTRAINED_WORDS
from rae.evaluation.tables.others import TUNED
from rae.evaluation.tables.words import AGREE, HOPS, RAW, STRUCTURE, WORDS_AND_MEANS
from rae.evaluation.tables.words import EXACT as EXACT_WORDS
from rae.evaluation.tables.words import floor_vectors as floor_of_words

SMALL = (
    "drosophila-left", "drosophila-right", "celegans-herm", "celegans-male", "mouse-brain", "adjnoun",
    "serengeti-foodweb",
)  # fmt: skip
LARGE = ("linux-headers", "wordnet-verb", "boost", "debian", "wordnet-noun")
WITH_WORDS = ("linux-headers", "wordnet-verb", "debian", "wordnet-noun")
TRAIN, ASKED = 1000, 6000  # labels of a large graph for training, as many for the choice of C, and for the test


def by_position(row: Row, dataset: str, seed: int, effort: Effort) -> Score:
    """The accuracy of a reader of structure alone, and of small graphs the agreement of clusters with the classes."""
    labelled: Dataset = data.get(dataset)
    near, z = both_vectors(row, labelled.graph, seed, effort)
    labels = _labels(labelled)
    if dataset in LARGE:
        return _read_part(z, labels, effort)
    train, test = probes.fifth(labels, seed)
    reading = probes.tuned_within(z, labels, train, test, seed, probes.grid(effort))
    agreement = {name: round(value, 3) for name, value in probes.clusters(near, labels, seed).items()}
    return Score(reading.accuracy, {**reading.also(), **agreement})


def by_words(row: Row, dataset: str, seed: int, effort: Effort) -> Score:
    """The accuracy of a reader of a graph with words."""
    labelled: Dataset = data.get(dataset)
    if row.kind == "floor":
        return _read_part(floor_of_words(row, labelled), _labels(labelled), effort)
    model = models.fitted(row, seed, effort, labelled.graph, labelled.features)
    return _read_part(model.transform(labelled.graph, labelled.features), _labels(labelled), effort)


def _labels(labelled: Dataset) -> Any:
    assert labelled.labels is not None
    return labelled.labels


def _read_part(z: Any, labels: Any, effort: Effort) -> Score:
    """One split of a large graph, the same for every seed: what differs between runs is the vectors."""
    reading = probes.tuned(z, labels, part_of(labels), probes.grid(effort))
    return Score(reading.accuracy, {**reading.also(), "right": probes.packed(reading.right)})


def part_of(labels: Any) -> Split:
    """Random nodes that have labels: some for training, as many for the choice of C, and others for the test."""
    rows = np.random.default_rng(0).permutation(np.flatnonzero(labels >= 0))
    n_labels = min(TRAIN, len(rows) // 4)
    return Split(rows[:n_labels], rows[n_labels : 2 * n_labels], rows[2 * n_labels : 2 * n_labels + ASKED])


_FLOORS = (LOG_DEGREE, DEGREE_TRIANGLES, STATISTICS)
_SOURCES = (
    "`python benchmarks/held_out.py` makes the graphs of what Debian 12 and PyPI ship: nerves of a fly and a worm, "
    "regions of a mouse's brain, adjectives and nouns of a novel, species of the Serengeti, header files of Linux and "
    "Boost, senses of English verbs and nouns, packages of Debian. No setting was chosen on them. "
)
_READER = (
    f"Large graphs have one split: {TRAIN:,} random labels for training, as many for the choice of scaling and C, up "
    f"to {ASKED:,} for the test; the error of a difference is that over the test nodes. "
)

TABLE = Table(
    name="held-out",
    title="Graphs that had no part in any choice, structure alone",
    unit="accuracy, %",
    protocol=(
        _SOURCES
        + "Softmax regression. Small graphs: seed s holds a fifth of the labelled nodes out; scaling and C are "
        "chosen by five folds of the others; k-means on all nodes, told the number of classes, gives the adjusted Rand "
        "index × 100. " + _READER
    ),
    settings={"reader": "softmax, C and scaling by folds or a validation part"},
    works=(
        *work_per_row(by_position, _FLOORS, SMALL, 5),
        *work_per_row(by_position, _FLOORS, LARGE, 1),
        *work_per_row(by_position, (EXACT, PLACE, UNTRAINED, WITHIN), SMALL, 5),
        *work_per_row(by_position, (EXACT, PLACE, UNTRAINED, WITHIN), LARGE, 1),
    ),
    also={"ari": "ARI of k-means, as they come"},
    judged=("ari",),
)

WORDS = Table(
    name="held-out-words",
    title="Graphs that had no part in any choice, with words",
    unit="accuracy, %",
    protocol=(
        "The large graphs of the table of structure alone, with the words of descriptions and tags, of glosses, or of "
        "code. " + _READER + "The same reader for every row, as in the table of pages."
    ),
    settings={"reader": TUNED},
    works=(
        *work_per_row(by_words, (RAW, HOPS[2, False], WORDS_AND_MEANS, STRUCTURE), WITH_WORDS, 1),
        *work_per_row(by_words, (EXACT_WORDS, UNTRAINED_WORDS), WITH_WORDS, 1),
        *work_per_row(by_words, (AGREE,), WITH_WORDS, 1, {}, 0),
    ),
)
