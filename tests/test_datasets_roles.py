"""The planted roles are the true ones: symmetries keep them, and only they do."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from rae.datasets import load
from rae.datasets.roles import SHAPES, refine
from rae.errors import ConfigError
from rae.graph import Graph


def _networkx(graph):
    out = nx.Graph()
    out.add_nodes_from(range(graph.n_nodes))
    out.add_edges_from(_edges(graph))
    return out


def _edges(graph):
    rows = np.repeat(np.arange(graph.n_nodes), graph.degrees)
    return {(int(a), int(b)) for a, b in zip(rows, graph.targets, strict=True) if a < b}


def _orbits(graph):
    """The automorphism classes by brute force, as a set of sets of nodes."""
    plain = _networkx(graph)
    together = nx.Graph()
    together.add_nodes_from(plain)
    for i, move in enumerate(nx.isomorphism.GraphMatcher(plain, plain).isomorphisms_iter()):
        together.add_edges_from(move.items())
        assert i < 100_000
    return {frozenset(c) for c in nx.connected_components(together)}


def _classes(labels):
    return {frozenset(np.flatnonzero(labels == c).tolist()) for c in np.unique(labels)}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("house", {"cycle": 12, "shapes": 4}),
        ("house", {"cycle": 10, "shapes": 3}),
        ("house", {"cycle": 5, "shapes": 5}),
        ("house", {"cycle": 6, "shapes": 1}),
        ("barbell", {"clique": 4, "path": 3}),
        ("barbell", {"clique": 4, "path": 0}),
        ("barbell", {"clique": 3, "path": 4}),
    ],
)
def test_labels_are_the_automorphism_classes(name, options):
    data = load(name, **options)

    assert _classes(data.labels) == _orbits(data.graph)
    assert len(data.label_names) == data.n_classes
    assert len(set(data.label_names)) == data.n_classes


def test_the_default_house_has_seven_roles():
    data = load("house")

    assert (data.graph.n_nodes, data.graph.n_edges) == (80, 100)
    assert dict(zip(data.label_names, np.bincount(data.labels), strict=True)) == {
        "cycle, 0 from a house": 10,
        "cycle, 1 from a house": 20,
        "near corner": 10,
        "far corner": 10,
        "far wall": 10,
        "near wall": 10,
        "roof": 10,
    }


def test_the_default_barbell_has_seven_roles():
    data = load("barbell")

    assert np.bincount(data.labels).tolist() == [18, 2, 2, 2, 2, 2, 2]
    assert _edges(data.graph) == {tuple(sorted(e)) for e in nx.barbell_graph(10, 10).edges}


def test_roles_within_a_shape_are_its_symmetries_with_its_first_node_fixed():
    for shape in SHAPES.values():
        size = len(shape.roles)
        attached = Graph.from_edges(np.concatenate([shape.edges, [(0, size), (size, size + 1)]]))
        named = {frozenset(i for i, r in enumerate(shape.roles) if r == role) for role in shape.roles}

        assert _orbits(attached) == named | {frozenset([size]), frozenset([size + 1])}


def test_refinement_of_a_star_tells_hub_from_leaves():
    assert refine(Graph.from_edges([(0, 1), (0, 2), (0, 3)])).tolist() == [0, 1, 1, 1]
    assert refine(Graph.from_edges(np.empty((0, 2), np.int64), ids=[5, 6])).tolist() == [0, 0]


@pytest.mark.parametrize("n", [30, 101, 2000])
def test_planted_roles_have_the_size_asked_for(n):
    data = load("planted-roles", n_nodes=n, seed=4)

    assert data.graph.n_nodes == len(data.labels) == n
    assert nx.is_connected(_networkx(data.graph))


def test_nodes_of_one_planted_role_have_one_degree():
    data = load("planted-roles", n_nodes=3000, seed=1)

    assert np.bincount(data.labels, minlength=len(data.label_names)).min() > 0
    for role in range(data.n_classes):
        assert len(np.unique(data.graph.degrees[data.labels == role])) == 1


def test_a_planted_shape_is_the_same_at_each_of_its_sites():
    data = load("planted-roles", n_nodes=500, seed=2)
    around = [
        (data.label_names[data.labels[u]], sorted(data.label_names[r] for r in data.labels[data.graph.neighbors(u)]))
        for u in range(500)
    ]
    inside = {(role, tuple(neighbor_roles)) for role, neighbor_roles in around if not role.startswith("cycle")}

    assert len(inside) == len({role for role, _ in inside})


@pytest.mark.parametrize("name", ["house", "barbell", "planted-roles"])
def test_noise_adds_its_share_of_edges_and_keeps_the_rest(name):
    clean, noisy = load(name, seed=5), load(name, noise=0.1, seed=5)

    assert noisy.graph.n_edges == clean.graph.n_edges + round(0.1 * clean.graph.n_edges)
    assert _edges(clean.graph) < _edges(noisy.graph)
    assert np.array_equal(clean.labels, noisy.labels)


def test_same_seed_same_graph():
    one, same, other = (_edges(load("planted-roles", noise=0.2, seed=s).graph) for s in (3, 3, 4))

    assert one == same
    assert one != other


@pytest.mark.parametrize(
    ("name", "options", "match"),
    [
        ("house", {"cycle": 2}, "cycle must be a whole number, 3 or more, got 2"),
        ("house", {"shapes": 31}, "at most one per node of the cycle"),
        ("house", {"noise": -0.1}, r"noise must be a number from 0, got -0\.1"),
        ("house", {"noise": float("nan")}, "noise must be"),
        ("house", {"noise": True}, "noise must be"),
        ("barbell", {"noise": 9}, "ask for half of that or less"),
        ("barbell", {"clique": 3.0}, "clique must be a whole number"),
        ("barbell", {"seed": -1}, "seed must be a whole number"),
        ("planted-roles", {"n_nodes": "many"}, "n_nodes must be a whole number"),
        ("planted-roles", {"n_nodes": True}, "n_nodes must be a whole number"),
    ],
)
def test_impossible_options_are_refused(name, options, match):
    with pytest.raises(ConfigError, match=match):
        load(name, **options)
