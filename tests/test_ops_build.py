"""The operations of the graph builder: the compiled library against the plain reference, and both against the rules."""

from __future__ import annotations

import numpy as np
import pytest

from plain import random_graph
from rae.ops import build
from rae.ops.library import reference_only

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
    "mark_ids": lambda: (IDS, -50, np.zeros(200, np.bool_)),
    "mark_ids unsigned": lambda: (_wrapped(IDS), int(_wrapped(-50)), np.zeros(200, np.bool_)),
    "look_up": lambda: (IDS, -50, BEFORE, WORDS, np.zeros(len(IDS), np.int32)),
    "look_up wide": lambda: (IDS, -50, BEFORE.astype(np.int64), WORDS, np.zeros(len(IDS), np.int64)),
    "look_up unsigned": lambda: (_wrapped(IDS), int(_wrapped(-50)), BEFORE, WORDS, np.zeros(len(IDS), np.int32)),
    "deal": lambda: (SOURCE, TARGET, 2, np.zeros(3, np.int64), np.zeros(60, np.int64)),
    "deal wide": lambda: (
        SOURCE.astype(np.int64), TARGET.astype(np.int64), 2, np.zeros(3, np.int64), np.zeros(60, np.int64)
    ),
    "sort_digit": lambda: (_keys()[::-1].copy(), 1, np.zeros(8, np.int64), np.zeros(len(_keys()), np.int64)),
    "fill_rows": lambda: (_keys(), 0, np.zeros(9, np.int64), np.full(9, 5), np.zeros(len(_keys()), np.int32)),
    "breadth_first": lambda: (GRAPH.offsets, GRAPH.targets, ORDER),
    "breadth_first wide": lambda: (GRAPH.offsets, GRAPH.targets.astype(np.int64), ORDER),
    "relabel_rows": lambda: (GRAPH.offsets, GRAPH.targets, ORDER[10:], RANK, STARTS[10:]),
    "relabel_rows wide": lambda: (GRAPH.offsets, GRAPH.targets.astype(np.int64), ORDER[10:], RANK, STARTS[10:]),
    "number_ids": lambda: (
        _wrapped(IDS.repeat(2)), np.full(512, -1, np.int32), np.zeros(300, np.int64), 0,
        np.zeros(2 * len(IDS), np.int64),
    ),
}  # fmt: skip
WRITTEN = {"mark_ids": 2, "look_up": 4, "deal": 4, "sort_digit": 3, "fill_rows": 3, "number_ids": 4}  # which argument


def _wrapped(ids):
    """Around 2**63, as unsigned numbers are stored in signed ones."""
    return (np.asarray(ids, np.int64).view(np.uint64) + np.uint64(2**63)).view(np.int64)[()]


@pytest.mark.parametrize("name", CASES)
def test_the_library_and_the_reference_agree(name):
    function, written = getattr(build, name.split()[0]), WRITTEN.get(name.split()[0])
    fast, plain = CASES[name](), CASES[name]()
    result = function(*fast)
    with reference_only():
        expected = function(*plain)

    np.testing.assert_array_equal(result, expected)
    if written is not None:
        size = result if name.startswith("fill_rows") else None
        np.testing.assert_array_equal(fast[written][:size], plain[written][:size])


def test_ids_are_numbered_alike_in_one_call_or_two():
    ids = np.random.default_rng(3).integers(-(2**62), 2**62, 40)[np.random.default_rng(4).integers(40, size=200)]
    one, two = np.zeros(200, np.int64), np.zeros(200, np.int64)
    tables = [(np.full(512, -1, np.int32), np.zeros(256, np.int64)) for _ in range(2)]

    count = build.number_ids(ids, *tables[0], 0, one)
    first = build.number_ids(ids[:90], *tables[1], 0, two[:90])
    assert build.number_ids(ids[90:], *tables[1], first, two[90:]) == count == len(set(ids.tolist()))
    assert np.array_equal(one, two)
    assert np.array_equal(tables[0][1][one], ids)


@pytest.mark.parametrize("kind", ["", " wide", " unsigned"])
def test_an_id_is_numbered_by_how_many_are_smaller(kind):
    arguments = CASES["look_up" + kind]()
    build.look_up(*arguments)

    assert arguments[-1].tolist() == list(range(len(IDS)))


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
    out = build.breadth_first(*CASES["breadth_first"]())

    assert sorted(out) == list(range(40))
    visited = set()
    for u in out[1:]:
        visited.add(int(out[0])) if not visited else None
        near = set(GRAPH.neighbors(int(u)).tolist())
        assert near & visited or not any(set(GRAPH.neighbors(v).tolist()) - visited for v in visited)
        visited.add(int(u))


# ------------------------------------------------------------------------------ edges with weights


WEIGHTS, KINDS = RNG.random(30).astype(np.float32), RNG.integers(0, 3, 30).astype(np.float32)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("directions", [1, 2])
def test_weighted_rows_of_the_library_are_those_of_the_reference_and_of_dictionaries(kind, largest, directions):
    def built():
        source, target = SOURCE.astype(kind), TARGET.astype(kind)
        stripe_ends, keys, weights = np.zeros(1, np.int64), np.zeros(60, np.int64), np.zeros(60, np.float32)
        loops = build.deal_weighted(source, target, WEIGHTS, KINDS, directions, 4, stripe_ends, keys, weights)
        n = int(stripe_ends[-1])
        by_digit = keys[:n].copy(), weights[:n].copy()
        build.sort_weighted_digit(keys[:n], weights[:n], build.CHANNEL, np.zeros(16, np.int64), *by_digit)
        lengths, entries, out = np.zeros(9, np.int64), np.zeros(n, kind), np.zeros((3 * directions, n), np.float32)
        spare = np.zeros(n, np.int64), np.zeros(n, np.float32)
        size, slots = build.fill_weighted_rows(
            *by_digit, 0, np.zeros(9, np.int64), lengths, spare, largest, entries, out
        )
        return loops, slots, by_digit[0], by_digit[1], lengths, entries[:size], out[:, :size]

    fast = built()
    with reference_only():
        plain = built()
    for a, b in zip(fast, plain, strict=True):
        np.testing.assert_array_equal(a, b)

    expected_weights: dict = {}
    for u, v, w, k in zip(SOURCE.tolist(), TARGET.tolist(), WEIGHTS.tolist(), KINDS.tolist(), strict=True):
        for here, there, way in ((u, v, 0), (v, u, directions - 1)) if u != v else ():
            key = (here, there, int(k) * directions + way)
            expected_weights[key] = (
                max(expected_weights.get(key, 0.0), w) if largest else expected_weights.get(key, 0.0) + w
            )
    loops, slots, *_, lengths, entries, out = fast
    rows = np.repeat(np.arange(9), lengths)
    got = {(int(rows[i]), int(entries[i]), int(c)): out[c, i] for c, i in zip(*out.nonzero(), strict=True)}
    assert got == {key: np.float32(value) for key, value in expected_weights.items()}
    assert slots == len(expected_weights)
    assert loops == (SOURCE == TARGET).sum()
