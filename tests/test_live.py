"""Vectors that follow a graph: after any edits they are those of a full pass, byte for byte."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import scipy.sparse as sp

import rae
from rae.engine import live
from rae.engine.live import Live, can_follow
from rae.features import measures
from rae.ops import structure
from rae.ops.dense import row_product
from rae.ops.edits import EditedRows, written
from rae.ops.library import reference_only


def random_graph(rng, n, m):
    return rae.Graph.from_edges(rng.integers(n, size=(m, 2)), ids=np.arange(n))


def edges_of(graph):
    return {tuple(map(int, edge)) for edge in graph.edges()}


def graph_of(edges, n):
    return rae.Graph.from_edges(np.array(sorted(edges), np.int64).reshape(-1, 2), ids=np.arange(n))


def draw_edits(rng, edges, n, count):
    """Edges that come and go, some of them the same one several times; `edges` follows."""
    edits = []
    while len(edits) < count:
        u, v = map(int, rng.integers(n, size=2))
        if u == v:
            continue
        edge = (min(u, v), max(u, v))
        edits.append((u, v, edge not in edges))
        (edges.discard if edge in edges else edges.add)(edge)
    return map(list, zip(*edits, strict=True))


# ------------------------------------------------------------------------- counts that follow each edge


def edited_rows(graph, spare=3):
    rows = graph.offsets, graph.targets
    return EditedRows.of(graph, graph.n_nodes + spare, structure.counts_of_nodes(*rows))


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_counts_that_follow_each_edge_are_those_of_the_new_graph(seed, native):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(5, 60))
    graph = random_graph(rng, n, int(rng.integers(1, 5 * n)))
    rows, edges = edited_rows(graph), edges_of(graph)
    for step in range(4):
        us, vs, adds = draw_edits(rng, edges, n + 3, int(rng.integers(1, 15)))
        before, used = rows._numbers().copy(), rows.used
        if native:
            nodes, counts_before = rows.edit(us, vs, adds)
        else:
            with reference_only():
                nodes, counts_before = rows.edit(us, vs, adds)
        now = graph_of(edges, n + 3)
        assert [part.tolist() for part in rows.lists(np.arange(n + 3))] == [now.offsets.tolist(), now.targets.tolist()]
        triangles, cycles, _ = structure.counts_of_nodes(now.offsets, now.targets)
        assert rows.triangles.tolist() == triangles.tolist()
        assert rows.cycles.tolist() == cycles.tolist()
        assert rows.core.tolist() == structure.core_numbers(now.offsets, now.targets).tolist()
        assert np.array_equal(before[nodes], counts_before)
        assert set(np.flatnonzero((before != rows._numbers()).any(1))) <= set(nodes.tolist())
        if step % 2:
            rows.undo(nodes, counts_before, used)
            assert np.array_equal(rows._numbers(), before)
            edges = {(u, int(v)) for u in range(n + 3) for v in rows.lists([u])[1] if u < v}


def test_neighbours_of_a_set_are_found_once():
    path = rae.Graph.from_edges([(0, 1), (1, 2), (2, 3), (3, 4)])
    for native in (True, False):
        rows = edited_rows(path)
        if native:
            assert rows.spread([0, 2], also=[4, 0]).tolist() == [0, 1, 3, 4]
        else:
            with reference_only():
                assert rows.spread([0, 2], also=[4, 0]).tolist() == [0, 1, 3, 4]
                assert rows.lists([1, 0])[1].tolist() == [0, 2, 1]


def test_a_row_of_a_product_does_not_depend_on_the_others():
    import torch

    rng = np.random.default_rng(0)
    for m, d in [(9, 9), (8, 5), (24, 64), (33, 1), (257, 100)]:
        x, w = (torch.from_numpy(rng.normal(size=shape).astype(np.float32)) for shape in ((2048, m), (m, d)))
        whole = row_product(x, w)
        for size in (1, 3, 17, 150):
            rows = rng.integers(2048, size=size)
            assert torch.equal(row_product(x[rows], w), whole[rows])


# ------------------------------------------------------------------------- the law


def features_of(kind, rng, n):
    if kind == "dense":
        return rng.normal(size=(n, 5)).astype(np.float32)
    return sp.csr_array((rng.random((n, 9)) < 0.3).astype(np.float32)) if kind == "words" else None


def same_bytes(a, b):
    return a.shape == b.shape and a.tobytes() == b.tobytes()


@pytest.mark.parametrize("few", [2048, 3])
@pytest.mark.parametrize("kind", ["none", "dense", "words"])
def test_vectors_follow_edits_byte_for_byte(kind, few, monkeypatch):
    monkeypatch.setattr(live, "MOST_SHARE", float("inf"))
    monkeypatch.setattr(live, "FEW", few)
    rng = np.random.default_rng(len(kind) + few)
    for _ in range(2):
        n = int(rng.integers(30, 150))
        graph, x = random_graph(rng, n, int(rng.integers(n // 2, 2 * n))), features_of(kind, rng, n)
        model = rae.RAE().fit(graph, features=x)
        follows, edges = Live.of(model.fitted, graph, x), edges_of(graph)
        z = model.transform(graph, x)
        assert same_bytes(follows.vectors((0, n)), z)
        for _ in range(3):
            new = int(rng.integers(0, 3))
            us, vs, adds = draw_edits(rng, edges, n + new, int(rng.integers(1, 6)))
            replaced = np.unique(np.append(rng.integers(n, size=1), np.arange(n, n + new)))
            replacement = None if x is None else (replaced, features_of(kind, rng, len(replaced)))
            changes = follows.update(us, vs, adds, new=new, features=replacement)
            n += new
            x = None if x is None else follows.features.whole_matrix(n)
            full = model.transform(graph_of(edges, n), x, units="fit", whole=True)
            z = np.concatenate([z, np.zeros((new, z.shape[1]), np.float32)])
            for name, (rows, values) in changes.columns.items():
                z[rows, slice(*follows.columns(name))] = values
            assert same_bytes(z, full)
            assert same_bytes(follows.vectors((0, n)), full)
            near = rng.choice(n, size=int(rng.integers(0, 5)), replace=False)
            own = None if x is None else features_of(kind, rng, 1)
            vector = follows.embed(near, own)
            grown = graph_of(edges | {(int(v), n) for v in near}, n + 1)
            stacked = x if x is None or kind == "dense" else sp.csr_array(sp.vstack([x, own]))
            stacked = np.vstack([x, own]) if kind == "dense" else stacked
            assert same_bytes(vector, model.transform(grown, stacked, units="fit", whole=True)[n])
            assert same_bytes(follows.vectors(np.arange(n)), full)


def test_what_costs_too_much_is_a_full_pass_with_the_same_bytes():
    rng = np.random.default_rng(2)
    graph = random_graph(rng, 60, 200)
    model = rae.RAE().fit(graph)
    follows, edges = Live.of(model.fitted, graph), edges_of(graph)
    us, vs, adds = draw_edits(rng, edges, 60, 9)
    assert follows.update(us, vs, adds).in_full
    assert same_bytes(follows.vectors((0, 60)), model.transform(graph_of(edges, 60), units="fit", whole=True))


def test_small_changes_far_from_all_else_are_followed():
    path = rae.Graph.from_edges([(i, i + 1) for i in range(400)])
    follows = Live.of(rae.RAE().fit(path).fitted, path)
    changes = follows.update([0], [2], [True])
    assert not changes.in_full
    assert changes.rows.tolist() == list(range(7))


def test_estimated_cycles_and_trained_models_are_not_followed(monkeypatch):
    graph = random_graph(np.random.default_rng(1), 50, 100)
    assert can_follow(rae.RAE().fit(graph).fitted, graph)
    assert not can_follow(rae.RAE(steps=0).fit(graph).fitted, graph)
    model = rae.RAE().fit(graph)
    follows = Live.of(model.fitted, graph)
    monkeypatch.setattr(measures, "MOST_PATHS", 10)
    assert not can_follow(model.fitted, graph)
    assert follows.update([0], [49], [not graph.adjacent([0], [49])[0]]).in_full


def test_written_rows_are_those_whose_bytes_changed():
    rng, rows = np.random.default_rng(0), np.array([1, 4, 5, 8])
    before = rng.random((9, 7)).astype(np.float32)
    before[4] = 0
    values = before[rows].copy()
    values[0, 6] += 1
    values[1] = -0.0  # equal, and other bytes
    values[3] = np.nan
    results = []
    for block in (contextlib.nullcontext(), reference_only()):
        with block:
            table = before.copy()
            changed, old = written(table, rows, values)
        np.testing.assert_array_equal(changed, [1, 4, 8])
        results.append((old.tobytes(), table.tobytes()))
    assert results[0] == results[1]
    assert results[0][0] == before[[1, 4, 8]].tobytes()
