"""Walks and characteristic functions: the compiled loops against their own source, and against the formulas."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from plain import random_graph, relabel
from rae import Graph
from rae.baselines.walks import random_walks
from rae.ops import charfun, cpu, walks
from rae.runtime import key

GRAPH = random_graph(30, 120, seed=4)
OFFSETS, TARGETS = GRAPH.offsets, GRAPH.targets
NODES = np.flatnonzero(GRAPH.degrees)
VIEWS = np.arange(len(NODES)) % 3
SALT = key(1, "test")
PSI = np.random.default_rng(0).normal(size=(4, 150)) * (np.arange(150) % 3 > 0)
PATH = Graph.from_edges([(0, 1), (1, 2)])
MODULES = {"walks": walks, "charfun": charfun}

CASES = {
    "walks weight": lambda: (OFFSETS, TARGETS, 3, TARGETS[OFFSETS[3]], 2.0, 4.0),
    "walks weight back": lambda: (OFFSETS, TARGETS, 3, 3, 2.0, 4.0),
    "walks next_node": lambda: (OFFSETS, TARGETS, 3, TARGETS[OFFSETS[3]], 0.5, 2.0, np.uint64(77), 7),
    **{
        f"walks next_node rarely {i}": lambda i=i: (PATH.offsets, PATH.targets, 0, 1, 3e9, 1e9, np.uint64(i), 7)
        for i in range(8)
    },
    "walks walk": lambda: (
        OFFSETS, TARGETS, NODES, VIEWS, 1.0, 1.0, SALT, np.zeros((len(NODES), 9), np.int32), 0, len(NODES)
    ),
    "walks walk biased": lambda: (
        OFFSETS, TARGETS, NODES, VIEWS, 0.5, 2.0, SALT, np.zeros((len(NODES), 9), np.int32), 0, len(NODES)
    ),
    "charfun add_powers": lambda: (
        *np.random.default_rng(1).normal(size=(2, charfun.LANES)), *np.zeros((2, 5, charfun.LANES))
    ),
    "charfun characteristic_function": lambda: (PSI, 200, 0.5, 1e-3, np.zeros((4, 10)), 0, 4),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
@pytest.mark.filterwarnings("ignore:overflow encountered")  # NumPy warns where 64-bit hashes wrap on purpose
def test_the_compiled_kernel_equals_its_python_source(case, monkeypatch):
    home, name = case.split()[:2]
    kernel = getattr(MODULES[home], name)
    compiled, plain = CASES[case](), CASES[case]()
    answer = kernel(*compiled)
    for module, inner in (
        (cpu, ("mix", "stream", "draw", "has_edge")),
        (walks, ("draw", "has_edge", "stream", "weight", "next_node")),
        (charfun, ("add_powers",)),
    ):
        for called in inner:
            monkeypatch.setattr(module, called, getattr(getattr(module, called), "py_func", None))

    assert kernel.py_func(*plain) == answer
    for a, b in zip(compiled, plain, strict=True):
        assert np.allclose(a, b, atol=1e-9)


def test_every_kernel_is_covered():
    for home, module in MODULES.items():
        own = {n for n, f in vars(module).items() if hasattr(f, "py_func") and f.__module__ == module.__name__}
        assert own == {case.split()[1] for case in CASES if case.startswith(home)}
        assert all(inspect.getdoc(getattr(module, name).py_func) for name in own)


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


@pytest.mark.parametrize(("p", "q"), [(0.25, 4.0), (4.0, 0.25), (1.0, 2.0), (1e9, 1e9), (1e-9, 1e9)])
def test_a_step_is_drawn_by_the_weights_of_node2vec(p, q):
    """From 1, after 0: back to 0 weighs 1 / p, to 2 (which 0 knows) 1, to 3 and 4 (which it does not) 1 / q."""
    graph = Graph.from_edges([(0, 1), (0, 2), (1, 2), (1, 3), (1, 4)])
    steps = [
        walks.next_node(graph.offsets, graph.targets, 0, 1, p, q, np.uint64(i) << np.uint64(32), 0)
        for i in range(20_000)
    ]
    share = np.bincount(steps, minlength=5) / len(steps)
    expected = np.array([1 / p, 0, 1, 1 / q, 1 / q])

    assert np.allclose(share, expected / expected.sum(), atol=0.015)


def test_where_every_weight_is_all_but_zero_the_walk_still_moves_by_them():
    """On a path after 0 at 1: only back and away, both a billionth of what a triangle would weigh."""
    steps = [
        walks.next_node(PATH.offsets, PATH.targets, 0, 1, 3e9, 1e9, np.uint64(i) << np.uint64(32), 0)
        for i in range(4000)
    ]

    assert abs(np.mean(np.array(steps) == 2) - 0.75) < 0.03


def test_walks_of_a_graph_without_edges_are_none():
    assert random_walks(Graph.from_edges([], ids=["a", "b"]), walks=3, length=5).shape == (0, 5)


def test_uniform_walks_visit_a_node_as_often_as_it_has_neighbours():
    graph = relabel(random_graph(20, 200, seed=1), np.random.default_rng(0).permutation(20))
    visits = np.bincount(random_walks(graph, walks=400, length=30, seed=1)[:, 10:].reshape(-1), minlength=20)

    assert np.allclose(visits / visits.sum(), graph.degrees / graph.degrees.sum(), atol=0.005)


# --------------------------------------------------------------- characteristic functions


def test_the_characteristic_function_is_the_mean_of_its_definition():
    out = np.empty((4, 50))
    charfun.characteristic_function(PSI, 200, 4.0, 0.0, out, 0, 4)
    t = 4.0 * np.arange(1, 26)
    padded = np.hstack([PSI, np.zeros((4, 50))])
    truth = np.exp(1j * padded[:, :, None] * t).mean(1)

    assert np.allclose(out, np.hstack([truth.real, truth.imag]), atol=1e-12)
