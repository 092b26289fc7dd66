"""Nodes that a symmetry of the graph swaps must get equal vectors."""

from __future__ import annotations

from rae.datasets.roles import refine
from rae.evaluation import data, probes
from rae.evaluation.table_spec import Effort, Row, Score, Table, work_per_row
from rae.evaluation.tables.methods import (
    DEGREE,
    EXACT,
    GRAPHWAVE,
    NEIGHBOR,
    NODE2VEC,
    REFEX,
    ROLE_METHODS,
    UNTRAINED,
    WITHIN,
    vectors,
)

DATASETS = ("barbell", "karate-mirrored")
RUNS = 5


def _spread(row: Row, dataset: str, seed: int, effort: Effort) -> Score:
    graph = data.get(dataset).graph
    return Score(probes.spread_of_equals(vectors(row, graph, seed, effort), refine(graph)))


TABLE = Table(
    name="automorphism",
    title="Equal positions, equal vectors",
    unit="% of the mean distance between nodes; 0 is right",
    protocol=(
        "The largest distance between two nodes in equal positions, in percent of the mean distance between any two "
        "nodes. Equal positions are the classes of colour refinement: in mirrored karate every node and its image."
    ),
    works=(
        *work_per_row(
            _spread, (DEGREE, REFEX, GRAPHWAVE, NODE2VEC, EXACT, UNTRAINED, WITHIN, NEIGHBOR), DATASETS, RUNS
        ),
        *work_per_row(_spread, ROLE_METHODS, DATASETS, RUNS, {}, 0),
    ),
    floors=False,
    lower_is_better=True,
)
