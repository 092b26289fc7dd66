"""The methods of the role tables: the vectors of a row, a graph and a seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rae.baselines import GraphWave, Node2Vec, ReFeX, find, names
from rae.baselines.registry import Method, settings_of
from rae.evaluation import floors, models
from rae.evaluation.table_spec import Effort, Row
from rae.evaluation.tables import others
from rae.features import structural_features
from rae.graph import Graph

DEGREE = Row("degree", "floor", {"method": "degree"}, "log-degree alone")
FEATURES = Row("structural features", "floor", {"method": "features"}, "what RAE is given")
DEGREE_TRIANGLES = Row("log-degree and log-triangles", "floor", {"method": "degree and triangles"}, "in graph units")
STATISTICS = Row("39 two-hop statistics", "floor", {"method": "two-hop statistics"}, "degree, triangles, clustering")
REFEX = Row("ReFeX-style features", "other", {"method": "refex", **settings_of(ReFeX())})
GRAPHWAVE = Row("GraphWave", "other", {"method": "graphwave", **settings_of(GraphWave())})
NODE2VEC = Row(
    "node2vec", "other", {"method": "node2vec", **settings_of(Node2Vec(walks=50))}, "50 walks: the graphs are small"
)
STRUC2VEC, ROLE2VEC, ROLX, RESD, DRNE = (
    Row(name, "other", {"method": name, **others.settings_of_method(find(name))}, find(name).paper)
    for name in ("struc2vec", "role2vec", "RolX", "RESD", "DRNE")
)
ROLX_16 = Row("RolX, 16 roles", "other", {**ROLX.settings, "roles": 16}, "as many as in RONE's survey")
ROLE_METHODS = (STRUC2VEC, ROLE2VEC, ROLX, ROLX_16, RESD, DRNE)
EXACT = Row("RAE, exact solution", "ours", {"method": "rae", "model": "exact"})
PLACE = Row("RAE, exact solution, place alone", "ours", {"method": "rae", "model": "exact", "block": "place"})
UNTRAINED = Row("RAE, untrained", "ours", {"method": "rae", "steps": 0})
WITHIN = Row("RAE, J_within", "ours", {"method": "rae", "loss": "within"})
NEIGHBOR = Row("RAE, J_neighbor", "ours", {"method": "rae", "loss": "neighbor"})

FLOORS = (DEGREE, DEGREE_TRIANGLES, STATISTICS, FEATURES)
ROWS = (*FLOORS, REFEX, GRAPHWAVE, NODE2VEC, EXACT, UNTRAINED, WITHIN, NEIGHBOR)

_VECTORS: dict[str, Callable[[Graph], Any]] = {
    **dict.fromkeys(("features", "structural features"), structural_features),
    "log-degree": floors.log_degree,
    "log-degree, own units": lambda graph: floors.in_own_units(floors.log_degree(graph)),
    "two-hop degree statistics": floors.two_hop_degrees,
    "degree and triangles": floors.degree_and_triangles,
    "two-hop statistics": floors.two_hop_statistics,
    "39 two-hop statistics, own units": lambda graph: floors.in_own_units(floors.two_hop_statistics(graph)),
}


def vectors(row: Row, graph: Graph, seed: int, effort: Effort) -> np.ndarray[Any, Any]:
    """The vectors that the method of this row gives the nodes, as distances take them.  -> (n, d)"""
    return np.asarray(both_vectors(row, graph, seed, effort)[0])


def both_vectors(row: Row, graph: Graph, seed: int, effort: Effort) -> tuple[Any, Any]:
    """The vectors of a row as distances take them, and as readers that learn take them."""
    method = row.settings.get("method", "rae")
    if method == "rae":
        model = models.fitted(row, seed, effort, graph)
        z = model.transform(graph)
        return models.for_distances(row, model, z), models.chosen(row, model, z)
    z = _VECTORS[method](graph) if method in _VECTORS else _baseline(row, graph, seed, effort)
    return z, z


def _baseline(row: Row, graph: Graph, seed: int, effort: Effort) -> np.ndarray[Any, Any]:
    method = method_of(row)
    chosen = {name: value for name, value in row.settings.items() if name in method.fields}
    settings = {name: tuple(value) if isinstance(value, list) else value for name, value in chosen.items()}
    return np.asarray(others.configured(method, settings, seed, effort).fit_transform(graph))


def method_of(row: Row) -> Method:
    """The registered method of a row of kind `other`; older rows have names in small letters."""
    name = str(row.settings["method"]).removesuffix(" + features")
    return next(method for method in map(find, names()) if name in (method.name, method.name.lower()))
