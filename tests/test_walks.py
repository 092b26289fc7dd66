"""Walks and characteristic functions: the compiled loops against their own source, and against the formulas."""

from __future__ import annotations

import numpy as np
import pytest

from plain import random_graph, relabel
from rae import Graph
from rae.baselines.walks import random_walks
from rae.ops import sampling
from rae.ops.charfun import characteristic_function
from rae.ops.library import reference_only
from rae.runtime import key

GRAPH = random_graph(30, 120, seed=4)
PSI = np.random.default_rng(0).normal(size=(4, 150)) * (np.arange(150) % 3 > 0)
PATH = Graph.from_edges([(0, 1), (1, 2)])


# ----------------------------------------------------------------------------------- walks


@pytest.mark.parametrize(("p", "q"), [(1.0, 1.0), (0.25, 4.0)])
def test_every_step_of_a_walk_is_an_edge(p, q):
    walked = random_walks(GRAPH, walks=3, length=12, p=p, q=q, seed=2)

    assert GRAPH.adjacent(walked[:, :-1].reshape(-1), walked[:, 1:].reshape(-1)).all()
    assert np.array_equal(np.bincount(walked[:, 0], minlength=30), 3 * (GRAPH.degrees > 0))


def test_a_walk_depends_on_the_seed_its_first_node_and_its_number_alone():
    few, many = (random_walks(GRAPH, walks=k, length=9, p=0.5, q=2.0, seed=5) for k in (2, 4))
    other = random_walks(GRAPH, walks=2, length=9, p=0.5, q=2.0, seed=6)

    assert {tuple(w) for w in few} <= {tuple(w) for w in many}
    assert len({tuple(w) for w in few} & {tuple(w) for w in other}) < 5
    assert np.array_equal(few, random_walks(GRAPH, walks=2, length=9, p=0.5, q=2.0, seed=5))


def _third_nodes(graph, first, second, p, q):
    """The third nodes of many walks that begin with these two."""
    views = np.arange(60_000)
    paths = sampling.walks(graph.offsets, graph.targets, np.full(60_000, first), 3, key(1), views, p, q)
    return paths[paths[:, 1] == second, 2]


@pytest.mark.parametrize(("p", "q"), [(0.25, 4.0), (4.0, 0.25), (1.0, 2.0), (1e9, 1e9), (1e-9, 1e9)])
def test_a_step_is_drawn_by_the_weights_of_node2vec(p, q):
    """From 1, after 0: back to 0 weighs 1 / p, to 2 (which 0 knows) 1, to 3 and 4 (which it does not) 1 / q."""
    graph = Graph.from_edges([(0, 1), (0, 2), (1, 2), (1, 3), (1, 4)])
    steps = _third_nodes(graph, 0, 1, p, q)
    share = np.bincount(steps, minlength=5) / len(steps)
    expected = np.array([1 / p, 0, 1, 1 / q, 1 / q])

    assert np.allclose(share, expected / expected.sum(), atol=0.015)


def test_where_every_weight_is_all_but_zero_the_walk_still_moves_by_them():
    """On a path after 0 at 1: only back and away, both a billionth of what a triangle would weigh."""
    steps = _third_nodes(PATH, 0, 1, 3e9, 1e9)

    assert abs(np.mean(steps == 2) - 0.75) < 0.03


def test_walks_of_a_graph_without_edges_are_none():
    assert random_walks(Graph.from_edges([], ids=["a", "b"]), walks=3, length=5).shape == (0, 5)


def test_uniform_walks_visit_a_node_as_often_as_it_has_neighbours():
    graph = relabel(random_graph(20, 200, seed=1), np.random.default_rng(0).permutation(20))
    visits = np.bincount(random_walks(graph, walks=400, length=30, seed=1)[:, 10:].reshape(-1), minlength=20)

    assert np.allclose(visits / visits.sum(), graph.degrees / graph.degrees.sum(), atol=0.005)


# --------------------------------------------------------------- characteristic functions


def test_the_characteristic_function_is_the_mean_of_its_definition():
    t = 4.0 * np.arange(1, 26)
    padded = np.hstack([PSI, np.zeros((4, 50))])
    truth = np.exp(1j * padded[:, :, None] * t).mean(1)

    assert np.allclose(characteristic_function(PSI, 200, 4.0, 0.0, 25), np.hstack([truth.real, truth.imag]), atol=1e-12)


def test_small_numbers_count_as_zero_and_the_reference_agrees():
    fast = characteristic_function(PSI, 200, 0.5, 0.3, 5)
    with reference_only():
        assert np.allclose(characteristic_function(PSI, 200, 0.5, 0.3, 5), fast, atol=1e-9)

    assert np.allclose(characteristic_function(PSI * (np.abs(PSI) > 0.3), 200, 0.5, 0.0, 5), fast, atol=1e-12)
