"""Recovered roles when random edges are added; without noise the methods hardly differ."""

from __future__ import annotations

from typing import Any

from rae.datasets import load
from rae.evaluation import probes
from rae.evaluation.table_spec import Effort, Row, Score, Table, work_per_row
from rae.evaluation.tables.methods import EXACT, FLOORS, ROLE_METHODS, ROWS, both_vectors, vectors

NOISE = (0, 5, 10, 20, 30)  # percent of the edges
GRAPHS: dict[str, dict[str, Any]] = {
    "house": {"name": "house"},
    "mixed": {"name": "planted-roles", "n_nodes": 600},
}
DATASETS = tuple(f"{graph}, {noise} % noise" for graph in GRAPHS for noise in NOISE)
RUNS = 10


def _planted(dataset: str, seed: int) -> Any:
    graph, _, noise = dataset.partition(", ")
    options = GRAPHS[graph] | {"noise": int(noise.split()[0]) / 100, "seed": seed}
    return load(**options)


def _recovered(row: Row, dataset: str, seed: int, effort: Effort) -> Score:
    planted = _planted(dataset, seed)
    numbers = probes.recovery(vectors(row, planted.graph, seed, effort), planted.labels, seed)
    score = numbers.pop("v_measure")
    return Score(score, {name: round(value, 3) for name, value in numbers.items()})


def read_plainly(row: Row, dataset: str, seed: int, effort: Effort) -> Score:
    """V-measure of k-means on the vectors as they come; beside it standardised ones, and a linear reader."""
    planted = _planted(dataset, seed)
    near, z = both_vectors(row, planted.graph, seed, effort)
    scores = probes.clusters(near, planted.labels, seed)
    linear = probes.tuned_within(z, planted.labels, *probes.fifth(planted.labels, seed), seed, probes.grid(effort))
    also = {"standardised": scores["v_measure_standardised"], "linear": linear.accuracy}
    return Score(scores["v_measure"], {name: round(value, 3) for name, value in also.items()})


TABLE = Table(
    name="recovery",
    title="Role recovery against random extra edges",
    unit="V-measure × 100",
    protocol=(
        "GraphWave's protocol: standardise, five principal components, k-means told the true number of roles. The "
        "house is a cycle of 30 with 10 houses; mixed is a cycle of 600 nodes in all with houses, stars, fans and "
        "cliques at random places (18 roles). Noise adds that share of random edges. RAE: the default settings, "
        "structure alone."
    ),
    settings={"reader": "5 directions, k-means", "graphs": "cycle 30 with 10 houses; 600 nodes of mixed shapes"},
    works=(
        *work_per_row(_recovered, ROWS, DATASETS, RUNS),
        *work_per_row(_recovered, ROLE_METHODS, DATASETS, RUNS, {}, 0),
    ),
    also={"homogeneity": "homogeneity", "completeness": "completeness", "silhouette": "silhouette"},
    from_files=False,
)

PLAIN = Table(
    name="recovery-plain",
    title="Role recovery, vectors as they come",
    unit="V-measure × 100",
    protocol=(
        "The graphs of the table before. k-means, told the true number of roles, on the vectors as they come, without "
        "principal components; then on standardised columns; then the accuracy of a linear reader on a fifth of the "
        "nodes, C and scaling chosen by folds of the others."
    ),
    settings={"reader": "k-means as they come", "graphs": "cycle 30 with 10 houses; 600 nodes of mixed shapes"},
    works=(
        *work_per_row(read_plainly, (*FLOORS, EXACT), DATASETS, RUNS),
        *work_per_row(read_plainly, (row for row in ROWS if row not in (*FLOORS, EXACT)), DATASETS, RUNS // 2),
        *work_per_row(read_plainly, ROLE_METHODS, DATASETS, RUNS // 2, {}, 0),
    ),
    also={"standardised": "V-measure after standardising", "linear": "linear reader, accuracy, %"},
    judged=("standardised", "linear"),
    from_files=False,
)
