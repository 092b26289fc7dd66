"""The loops that make a graph folder, against their own Python source."""

from __future__ import annotations

import inspect

import numba
import numpy as np
import pytest

from plain import random_graph
from rae.kernels import build

GRAPH = random_graph(40, 90, seed=2)
RNG = np.random.default_rng(1)
SOURCE, TARGET = RNG.integers(0, 9, (2, 30)).astype(np.int32)
ORDER = RNG.permutation(40).astype(np.int32)
RANK = np.argsort(ORDER).astype(np.int32)
STARTS = np.concatenate([[0], np.cumsum(GRAPH.degrees[ORDER])])

CASES = {
    "place_between": lambda: (SOURCE, TARGET, 3, 6, np.array([0, 40, 80]), np.zeros(120, np.int32)),
    "breadth_first": lambda: (GRAPH.offsets, GRAPH.targets, ORDER, np.zeros(40, np.bool_), np.zeros(40, np.int32)),
    "relabel_rows": lambda: (
        GRAPH.offsets, GRAPH.targets, ORDER[10:], RANK, STARTS[10:], np.zeros(int(STARTS[-1] - STARTS[10]), np.int32),
        0, 30,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_compiled_loop_does_what_its_source_says(name):
    function = getattr(build, name)
    fast, plain = CASES[name](), CASES[name]()
    with np.errstate(over="ignore"):
        results = function(*fast), function.py_func(*plain)

    assert results[0] == results[1]
    for a, b in zip(fast, plain, strict=True):
        np.testing.assert_array_equal(a, b)


def test_every_loop_has_a_case():
    own = {n for n, f in inspect.getmembers(build) if isinstance(f, numba.core.dispatcher.Dispatcher)}

    assert own - {"sort_values"} == set(CASES)


def test_breadth_first_names_every_node_once_and_keeps_what_is_connected_together():
    arguments = CASES["breadth_first"]()
    build.breadth_first(*arguments)
    out = arguments[-1]

    assert sorted(out) == list(range(40))
    seen = set()
    for u in out[1:]:
        seen.add(int(out[0])) if not seen else None
        near = set(GRAPH.neighbors(int(u)).tolist())
        assert near & seen or not any(set(GRAPH.neighbors(v).tolist()) - seen for v in seen)
        seen.add(int(u))
