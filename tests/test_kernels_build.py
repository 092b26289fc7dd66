"""The loops of the graph builder, compared with their own Python source."""

from __future__ import annotations

import inspect

import numba
import numpy as np
import pytest

from plain import random_graph
from rae.ops import build

GRAPH = random_graph(40, 90, seed=2)
RNG = np.random.default_rng(1)
SOURCE, TARGET = RNG.integers(0, 9, (2, 30)).astype(np.int32)
ORDER = RNG.permutation(40).astype(np.int32)
RANK = np.argsort(ORDER).astype(np.int32)
STARTS = np.concatenate([[0], np.cumsum(GRAPH.degrees[ORDER])])

PRESENT = RNG.random(200) < 0.4
PRESENT[-1] = True
IDS = np.flatnonzero(PRESENT) - 50
WORDS = np.packbits(np.pad(PRESENT, (0, 56)), bitorder="little").view(np.uint64)
BEFORE = np.array([PRESENT[: 64 * i].sum() for i in range(4)], np.int32)


def _keys(kind=np.int64):
    """The ends of SOURCE and TARGET as keys, neighbours ascending."""
    pairs = [(u, v) for u, v in zip(SOURCE.tolist(), TARGET.tolist(), strict=True) if u != v]
    pairs = sorted([*pairs, *((v, u) for u, v in pairs)], key=lambda pair: pair[1])
    return np.array([u << build.ROW | v for u, v in pairs], kind)


CASES = {
    "mark": lambda: (IDS, np.int64(-50), np.zeros(200, np.bool_)),
    "mark unsigned": lambda: (_wrapped(IDS), _wrapped(-50), np.zeros(200, np.bool_)),
    "count_bits": lambda: (np.uint64(0xF0F0_1234_8000_0001),),
    "look_up": lambda: (IDS, np.int64(-50), BEFORE, WORDS, np.zeros(len(IDS), np.int32)),
    "look_up narrow": lambda: (IDS.astype(np.int32), np.int32(-50), BEFORE, WORDS, np.zeros(len(IDS), np.int32)),
    "look_up unsigned": lambda: (_wrapped(IDS), _wrapped(-50), BEFORE, WORDS, np.zeros(len(IDS), np.int32)),
    "deal": lambda: (SOURCE, TARGET, 2, np.zeros(3, np.int64), np.zeros(60, np.int64)),
    "sort_digit": lambda: (_keys()[::-1].copy(), 1, np.full(8, 7), np.zeros(len(_keys()), np.int64)),
    "fill_rows": lambda: (
        _keys(), 0, np.zeros(9, np.int64), np.full(9, 5), np.zeros(len(_keys()), np.int32)
    ),
    "breadth_first": lambda: (GRAPH.offsets, GRAPH.targets, ORDER, np.zeros(40, np.bool_), np.zeros(40, np.int32)),
    "relabel_rows": lambda: (
        GRAPH.offsets, GRAPH.targets, ORDER[10:], RANK, STARTS[10:], np.zeros(int(STARTS[-1] - STARTS[10]), np.int32),
        0, 30,
    ),
}  # fmt: skip


def _wrapped(ids):
    """Around 2**63, as unsigned numbers are stored in signed ones."""
    return (np.asarray(ids, np.int64).view(np.uint64) + np.uint64(2**63)).view(np.int64)[()]


@pytest.mark.parametrize("name", CASES)
def test_the_compiled_loop_does_what_its_source_says(name):
    function = getattr(build, name.split()[0])
    fast, plain = CASES[name](), CASES[name]()
    with np.errstate(over="ignore"):
        results = function(*fast), function.py_func(*plain)

    assert results[0] == results[1]
    for a, b in zip(fast, plain, strict=True):
        np.testing.assert_array_equal(a, b)


def test_every_loop_has_a_case():
    own = {n for n, f in inspect.getmembers(build) if isinstance(f, numba.core.dispatcher.Dispatcher)}

    assert own - {"sort_values"} == {name.split()[0] for name in CASES}


@pytest.mark.parametrize("kind", ["", " narrow", " unsigned"])
def test_an_id_is_numbered_by_how_many_are_smaller(kind):
    arguments = CASES["look_up" + kind]()
    build.look_up(*arguments)

    assert arguments[-1].tolist() == list(range(len(IDS)))


def test_every_bit_of_a_word_counts():
    for word in (0, 1, 2**63, 2**64 - 1, 0x8421_0F0F_5555_CCCC):
        assert build.count_bits(np.uint64(word)) == word.bit_count()


def test_edges_are_dealt_to_their_stripes_and_loops_counted():
    *_, ends, keys = arguments = CASES["deal"]()

    assert build.deal(*arguments) == (SOURCE == TARGET).sum()
    starts = [0, *ends[:-1]]
    dealt = [(4 * s + (key >> build.ROW), key % 2**build.ROW) for s in range(3) for key in keys[starts[s] : ends[s]]]
    assert sorted(dealt) == sorted((key >> build.ROW, key % 2**build.ROW) for key in _keys())


def test_sorting_by_a_digit_keeps_the_order_of_equal_ones():
    keys, shift, cursor, out = CASES["sort_digit"]()
    build.sort_digit(keys, shift, cursor, out)

    assert out.tolist() == sorted(keys.tolist(), key=lambda key: key >> 1 & 7)


def test_rows_are_filled_with_each_neighbour_once():
    keys, first, ends, lengths, out = CASES["fill_rows"]()
    size = build.fill_rows(keys, first, ends, lengths, out)

    pairs = sorted({(key >> build.ROW, key % 2**build.ROW) for key in keys.tolist()})
    assert size == len(pairs) < len(keys)
    assert out[:size].tolist() == [v for _, v in pairs]
    assert lengths.tolist() == [sum(u == row for u, _ in pairs) for row in range(9)]


def test_breadth_first_names_every_node_once_and_keeps_what_is_connected_together():
    arguments = CASES["breadth_first"]()
    build.breadth_first(*arguments)
    out = arguments[-1]

    assert sorted(out) == list(range(40))
    visited = set()
    for u in out[1:]:
        visited.add(int(out[0])) if not visited else None
        near = set(GRAPH.neighbors(int(u)).tolist())
        assert near & visited or not any(set(GRAPH.neighbors(v).tolist()) - visited for v in visited)
        visited.add(int(u))
