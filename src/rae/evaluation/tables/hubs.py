"""Hubs near hubs: what stands next to a graph's largest hubs must be large too."""

from __future__ import annotations

from rae.evaluation import data, probes
from rae.evaluation.table_spec import Effort, Row, Score, Table, work_per_row
from rae.evaluation.tables.methods import EXACT, UNTRAINED, WITHIN, both_vectors

SMALL = ("brazil", "europe", "usa", "facebook348", "chameleon", "squirrel", "cora", "citeseer", "actor")
LARGE = ("pubmed", "ca-AstroPh", "facebook-pages")
LOG_DEGREE = Row("log-degree", "other", {"method": "degree"}, "the yardstick: near is what has as many neighbours")


def near_hubs(row: Row, dataset: str, seed: int, effort: Effort) -> Score:
    """The median degree around the largest hubs, in percent of the smallest of them."""
    graph = data.get(dataset).graph
    return Score(probes.hubs_near_hubs(both_vectors(row, graph, seed, effort)[0], graph.degrees))


TABLE = Table(
    name="hubs",
    title="Hubs near hubs",
    unit="% of the 20th largest degree; 50 is asked for",
    protocol=(
        "Structure alone: the median degree of the ten nodes nearest to each of the twenty largest hubs, by distance "
        "between vectors as they come (blocks by their default weights), in percent of the degree of the smallest of "
        "these hubs."
    ),
    works=(
        *work_per_row(near_hubs, (LOG_DEGREE,), (*SMALL, *LARGE), 1),
        *work_per_row(near_hubs, (EXACT, UNTRAINED, WITHIN), SMALL, 3),
        *work_per_row(near_hubs, (EXACT, UNTRAINED, WITHIN), LARGE, 1),
    ),
    floors=False,
)
