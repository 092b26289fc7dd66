"""Recovered roles when random edges are added; without noise the methods hardly differ."""

from __future__ import annotations

from typing import Any

from rae.datasets import load
from rae.evaluation import probes
from rae.evaluation.table_spec import Effort, Row, Score, Table, work_per_row
from rae.evaluation.tables.methods import ROWS, vectors

NOISE = (0, 5, 10, 20, 30)  # percent of the edges
GRAPHS: dict[str, dict[str, Any]] = {
    "house": {"name": "house"},
    "mixed": {"name": "planted-roles", "n_nodes": 600},
}
DATASETS = tuple(f"{graph}, {noise} % noise" for graph in GRAPHS for noise in NOISE)
RUNS = 10


def _recovered(row: Row, dataset: str, seed: int, effort: Effort) -> Score:
    graph, _, noise = dataset.partition(", ")
    options = GRAPHS[graph] | {"noise": int(noise.split()[0]) / 100, "seed": seed}
    planted = load(**options)
    numbers = probes.recovery(vectors(row, planted.graph, seed, effort), planted.labels, seed)
    score = numbers.pop("v_measure")
    return Score(score, {name: round(value, 3) for name, value in numbers.items()})


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
    works=work_per_row(_recovered, ROWS, DATASETS, RUNS),
    also={"homogeneity": "homogeneity", "completeness": "completeness", "silhouette": "silhouette"},
    from_files=False,
)
