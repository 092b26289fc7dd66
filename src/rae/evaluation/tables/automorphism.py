"""Nodes that a symmetry of the graph swaps must get equal vectors."""

from __future__ import annotations

from functools import partial

from rae.datasets.roles import refine
from rae.evaluation import data, probes
from rae.evaluation.table_spec import Effort, Row, Score, Scores, Table, Work
from rae.evaluation.tables.methods import DEGREE, GRAPHWAVE, NEIGHBOR, NODE2VEC, REFEX, UNTRAINED, WITHIN, vectors

DATASETS = ("barbell", "karate-mirrored")
RUNS = 5


def _spread(row: Row, dataset: str, seed: int, effort: Effort) -> Scores:
    graph = data.get(dataset).graph
    return {row.name: Score(probes.spread_of_equals(vectors(row, graph, seed, effort), refine(graph)))}


TABLE = Table(
    name="automorphism",
    title="Equal positions, equal vectors",
    unit="% of the mean distance between nodes; 0 is right",
    protocol=(
        "The largest distance between two nodes in equal positions, in percent of the mean distance between any two "
        "nodes. Equal positions are the classes of colour refinement: in mirrored karate every node and its image."
    ),
    works=tuple(
        Work((row,), partial(_spread, row), DATASETS, RUNS)
        for row in (DEGREE, REFEX, GRAPHWAVE, NODE2VEC, UNTRAINED, WITHIN, NEIGHBOR)
    ),
    floors=False,
    lower_is_better=True,
)
