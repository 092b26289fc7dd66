"""The digest of a graph: the same in any order of rows, another for any other graph."""

from __future__ import annotations

import datetime
import itertools

import numpy as np
import pyarrow as pa
import pytest

import rae
from rae.graph import digest
from rae.graph.digest import graph_digest, is_digest_of

PAIRS = list(itertools.combinations(range(4), 2))
IDS = {
    "whole numbers": [5, -1, 7, 2**40],
    "large whole numbers": [2**63, 2**64 - 1, 0, 1],
    "numbers": [0.5, 1.0, -2.5, 1e30],
    "text": ["", "b", "é", "ab"],
    "bytes": pa.array([b"", b"b", b"\xff", b"ab"]),
    "dates": [datetime.date(2026, 11, day) for day in (1, 2, 3, 4)],
    "pairs": [(1, 2), (2, 1), (1, 1), (12, 0)],
    "truth": [True, False],
}


def test_every_graph_on_four_nodes_has_a_digest_of_its_own():
    graphs = [
        rae.Graph.from_edges([pair for pair, there in zip(PAIRS, chosen, strict=True) if there], ids=range(4))
        for chosen in itertools.product([False, True], repeat=len(PAIRS))
    ]
    assert len({graph_digest(graph) for graph in graphs}) == 2 ** len(PAIRS)
    for graph in graphs:
        assert graph_digest(graph.subgraph([2, 0, 3, 1])) == graph_digest(graph)


@pytest.mark.parametrize("kind", IDS)
def test_ids_of_any_kind_count_and_their_order_does_not(kind):
    ids = IDS[kind]
    graph = rae.Graph.from_edges([], ids=ids)
    turned = graph.subgraph(graph.id_column.take(pa.array(np.arange(graph.n_nodes)[::-1])))
    assert graph_digest(turned) == graph_digest(graph)
    assert len({graph_digest(rae.Graph.from_edges([], ids=ids[i : i + 1])) for i in range(len(ids))}) == len(ids)


def test_whole_numbers_of_any_width_are_the_same_ids():
    assert len({graph_digest(rae.Graph.from_edges([], ids=np.array([3, 9], t))) for t in ("i2", "i8", "u4", "u8")}) == 1


def test_weights_directions_and_kinds_count():
    arcs = ["a", "b", "c"], ["b", "c", "a"]
    turned = ["b", "b", "c"], ["a", "c", "a"]
    graphs = [
        rae.Graph.from_edges(arcs),
        rae.Graph.from_edges(arcs, weight=[1, 2, 3]),
        rae.Graph.from_edges(arcs, weight=[2, 1, 3]),
        rae.Graph.from_edges(arcs, directed=True),
        rae.Graph.from_edges(turned, directed=True),
        rae.Graph.from_edges(arcs, weight=[1, 2, 3], directed=True),
        rae.Graph.from_edges(turned, weight=[1, 2, 3], directed=True),
        rae.Graph.from_edges(arcs, kind=["x", "y", "y"]),
        rae.Graph.from_edges(arcs, kind=["y", "y", "x"]),
        rae.Graph.from_edges(arcs, kind=["z", "y", "y"]),
    ]
    assert len({graph_digest(graph) for graph in graphs}) == len(graphs)


def test_it_is_the_same_however_much_is_read_at_a_time(monkeypatch):
    ends, weight = np.random.default_rng(1).integers(200, size=(600, 2)), np.random.default_rng(2).random(600)
    graph = rae.Graph.from_edges([(f"n{u}", f"n{v}") for u, v in ends], weight=weight, directed=True)
    whole = graph_digest(graph)
    for size in (1, 7, 100):
        monkeypatch.setattr(digest, "AT_ONCE", size)
        assert graph_digest(graph.reverse().reverse()) == whole


def test_models_that_were_saved_know_their_graphs_in_later_versions():
    graph = rae.Graph.from_edges([("ann", "bob"), ("bob", "cid")], weight=[2, 0.5], ids=["ann", "bob", "cid", "dan"])
    assert graph_digest(graph) == "4-2-660470db3496b646"
    assert graph_digest(rae.Graph.from_edges([(0, 1), (1, 2)])) == "3-2-2766ced5f8dc88d0"


def test_graphs_of_another_size_are_not_read():
    graph = rae.Graph.from_edges([(0, 1), (1, 2)])
    digest = graph_digest(graph)
    other = rae.Graph.from_edges([(0, 1), (1, 2), (2, 3)])
    assert not is_digest_of(digest, other)
    assert "digest" not in other.measures
    assert not is_digest_of("", other)
    assert is_digest_of(digest, rae.Graph.from_edges([(1, 2), (1, 0)]))


def test_parts_that_go_from_one_graph_to_another_count():
    def graphs(*edges):
        return [rae.Graph.from_edges([pair.split() for pair in one]) for one in edges]

    around = ["c d", "d e"], ["c d2", "d2 y"]
    first = graphs(["a b", "b c", "a z", *around[0]], ["a2 b", "b c", *around[1]])
    recombined = graphs(["a b", "b c", "a z", *around[1]], ["a2 b", "b c", *around[0]])
    assert [(g.n_nodes, g.n_edges) for g in first] == [(g.n_nodes, g.n_edges) for g in recombined]
    assert graph_digest(*first) == graph_digest(*first[::-1]) != graph_digest(*recombined)
    one, other = (sum(graph.measures["digest"][2] for graph in some) for some in (first, recombined))
    assert (one - other) % 2**64 == 0
    assert not is_digest_of(graph_digest(*first), *recombined)
