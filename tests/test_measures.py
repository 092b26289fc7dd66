"""Structural measures against networkx, and what role cards make of them."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from plain import random_graph
from rae import Graph
from rae.features.measures import core_numbers, triangles
from rae.roles.cards import edges_between, profile_roles, structural_measures


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("edges", [40, 400, 3000])
def test_measures_are_those_of_networkx(edges, seed):
    graph = random_graph(120, edges, seed=seed)
    rows = np.repeat(np.arange(120), graph.degrees)
    theirs = nx.Graph()
    theirs.add_nodes_from(range(120))
    theirs.add_edges_from(zip(rows.tolist(), graph.targets.tolist(), strict=True))
    ours = structural_measures(graph)

    assert list(nx.triangles(theirs).values()) == ours["triangles"].tolist()
    assert list(nx.core_number(theirs).values()) == ours["core"].tolist()
    assert np.allclose(list(nx.clustering(theirs).values()), ours["clustering"])
    expected = [nx.average_neighbor_degree(theirs)[u] for u in range(120)]
    assert np.allclose(expected, ours["neighbor_degree"])


def test_a_graph_without_edges_has_no_triangles_and_core_zero():
    graph = Graph.from_edges([], ids=["a", "b"])

    assert triangles(graph).tolist() == core_numbers(graph).tolist() == [0, 0]
    assert structural_measures(graph)["neighbor_degree"].tolist() == [0, 0]


def test_a_median_among_many_equals_stands_in_their_middle():
    values = {"degree": np.array([1] * 8 + [5, 9])}
    profiles = profile_roles(values, np.array([0] * 8 + [1, 1]), 3)

    assert profiles[0]["degree"] == {
        "quartiles": [1, 1, 1], "percentiles": [40.0, 40.0, 40.0], "percentile": 40.0, "overall": 1,
        "zero": 0.0, "one": 1.0, "others": 0.0,
    }  # fmt: skip
    assert profiles[1]["degree"]["quartiles"] == [5, 5, 9]
    assert profiles[2] == {}


def test_edges_between_roles_are_counted_at_both_ends():
    star = Graph.from_edges([("hub", x) for x in "abc"])
    hub = star.rows(["hub"])[0]
    labels = (np.arange(4) == hub).astype(np.int64)

    assert edges_between(star, labels, 2).tolist() == [[0, 3], [3, 0]]
