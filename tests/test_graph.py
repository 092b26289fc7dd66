"""The graph: ids come back as given, merged and dropped edges are counted, bad input is refused."""

from __future__ import annotations

import copy
import datetime
import decimal
import logging
import sys
import uuid

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import rae
from plain import random_graph
from rae import Graph, read_embeddings, write_embeddings
from rae.errors import GraphError, MissingExtraError, RaeError
from rae.graph import Counts, id_numbering
from rae.graph.ids import index_in

MAP = pa.map_(pa.int64(), pa.int64())
IDS = [
    [5, 2**40, -3],
    ["ann", "bob", "čeněk"],
    [2**63 + 5, 1, 7],
    [datetime.date(2020, 1, 1), datetime.date(1999, 1, 1), datetime.date(2000, 5, 5)],
    [b"\x00\xff", b"a", b""],
    [decimal.Decimal("1.50"), decimal.Decimal("2.00"), decimal.Decimal("-3.00")],
    [decimal.Decimal("1.50"), decimal.Decimal("22.00"), decimal.Decimal("-333.25")],
    [datetime.datetime(2020, 1, 1, 5), datetime.datetime(1999, 1, 1), datetime.datetime(2000, 5, 5)],
    [datetime.timedelta(1), datetime.timedelta(0), datetime.timedelta(-1)],
    [uuid.UUID(int=2**100), uuid.UUID(int=7), uuid.UUID(int=2**64)],
    [True, False, True],
]


@pytest.mark.parametrize("ids", IDS[:-1])
def test_ids_come_back_exactly_as_they_went_in(ids):
    a, b, c = ids
    graph = Graph.from_edges([(a, b), (b, c)])
    in_order_of_ids = Graph.from_edges([(a, b)], ids=ids)

    assert sorted(graph.ids) == sorted(ids)
    assert list(in_order_of_ids.ids) == ids
    assert [type(x) for x in graph.id_column.to_pylist()] == [type(x) for x in ids]
    assert in_order_of_ids.n_isolated == 1
    assert graph.rows([c, a]).tolist() == [list(graph.ids).index(c), list(graph.ids).index(a)]


def test_doubled_edges_are_merged_self_loops_dropped_and_both_counted():
    graph = Graph.from_edges([(1, 2), (2, 1), (1, 2), (3, 3), (2, 3)])

    assert graph.n_edges == 2
    assert graph.counts == Counts(rows=5, self_loops=1, doubled=2)
    assert graph.counts.rows == graph.counts.self_loops + graph.counts.doubled + graph.n_edges
    assert "2 doubled merged, 1 self-loops dropped" in str(graph.counts)
    assert graph.neighbors(1).tolist() == [0, 2]


def test_a_node_with_only_a_self_loop_is_isolated():
    graph = Graph.from_edges([("a", "b"), ("c", "c")])

    assert graph.n_isolated == 1
    assert "isolated=1" in repr(graph)


EDGES = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")]
FRAME = pd.DataFrame(EDGES, columns=["from", "to"])


def _named(graph):
    return Graph.from_scipy(graph.to_scipy(), ids=list("abcd"))


@pytest.mark.parametrize(
    "graph",
    [
        lambda: Graph.from_edges(EDGES),
        lambda: Graph.from_edges(np.array(EDGES)),
        lambda: Graph.from_edges(tuple(map(list, zip(*EDGES, strict=True)))),
        lambda: Graph.from_edges(iter(EDGES)),
        lambda: _named(Graph.from_edges(torch.tensor([[0, 1], [1, 2], [2, 0], [2, 3]]))),
        lambda: Graph.from_edges((FRAME["from"], FRAME["to"])),
        lambda: Graph.from_edges((pl.Series(FRAME["from"].tolist()), pa.array(FRAME["to"].tolist()))),
        lambda: Graph.from_dataframe(FRAME),
        lambda: Graph.from_dataframe(FRAME.assign(w=1)[["w", "to", "from"]], source="from", target="to"),
        lambda: Graph.from_dataframe(FRAME.astype("category")),
        lambda: Graph.from_dataframe(pl.DataFrame(EDGES, schema=["u", "v"], orient="row")),
        lambda: Graph.from_dataframe(pa.table({"u": [e[0] for e in EDGES], "v": [e[1] for e in EDGES]})),
        lambda: Graph.from_dataframe(
            pa.table({"u": [e[0] for e in EDGES], "v": [e[1] for e in EDGES]}).to_batches()[0]
        ),
        lambda: Graph.from_networkx(nx.Graph(EDGES)),
        lambda: Graph.from_networkx(nx.DiGraph([*EDGES, ("b", "a")])),
    ],
)
def test_every_way_in_makes_the_same_graph(graph):
    built = graph()
    neighbors = {u: sorted(built.ids[v] for v in built.neighbors(i)) for i, u in enumerate(built.ids)}

    assert neighbors == {"a": ["b", "c"], "b": ["a", "c"], "c": ["a", "b", "d"], "d": ["c"]}


def test_scipy_and_pyg_make_the_same_graph_as_pairs():
    from torch_geometric.data import Data

    pairs = np.array([(0, 1), (1, 2), (2, 0), (2, 3)])
    matrix = sp.coo_array(
        (np.array([1.0, 2, 3, 4, 0.0]), (np.array([0, 1, 2, 2, 3]), np.array([1, 2, 0, 3, 1]))), (5, 5)
    )
    data = Data(edge_index=torch.tensor(pairs.T), num_nodes=5)
    expected = Graph.from_edges(pairs, ids=range(5))

    for graph in (Graph.from_scipy(matrix), Graph.from_scipy(matrix.toarray()), Graph.from_pyg(data)):
        assert graph.offsets.tolist() == expected.offsets.tolist()
        assert graph.targets.tolist() == expected.targets.tolist()
    assert list(Graph.from_scipy(matrix, ids=list("vwxyz")).ids) == list("vwxyz")
    assert list(Graph.from_pyg(data, ids=list("vwxyz")).ids) == list("vwxyz")


def test_integers_of_different_widths_are_one_kind():
    graph = Graph.from_edges((np.array([1, 2], np.int32), np.array([2, 3], np.uint8)))
    large = Graph.from_edges((np.array([1, 2], np.int64), np.array([2**63 + 1, 3], np.uint64)))

    assert graph.ids.tolist() == [1, 2, 3]
    assert large.ids.tolist() == [1, 2, 3, 2**63 + 1]
    assert graph.rows(np.array([3], np.int16)).tolist() == [2]


def test_adjacency_is_symmetric_and_true():
    graph = Graph.from_edges(EDGES)
    a, b, c, d = graph.rows(list("abcd"))

    assert graph.adjacent(np.array([a, d, a, b]), np.array([b, c, d, d])).tolist() == [True, True, False, False]


def test_a_grown_graph_keeps_its_rows_and_adds_isolated_ones():
    graph = Graph.from_edges(EDGES)
    grown = graph.with_nodes(["d", "e", "f", "e"])

    assert list(grown.ids) == [*graph.ids, "e", "f"]
    assert grown.n_edges == graph.n_edges
    assert grown.n_isolated == 2
    assert graph.with_nodes(["a"]) is graph


def test_a_union_connects_no_two_graphs():
    union = Graph.disjoint_union([Graph.from_edges(EDGES), Graph.from_edges([(0, 1), (1, 1)])])

    assert union.n_nodes == 6
    assert union.neighbors(5).tolist() == [4]
    assert union.counts.self_loops == 1


# ------------------------------------------------------------------------------ edges and subgraphs


def _same(first, second):
    assert first.id_column.equals(second.id_column)
    assert np.array_equal(first.offsets, second.offsets)
    assert np.array_equal(first.targets, second.targets)
    assert first.targets.dtype == second.targets.dtype


LONELY = Graph.from_edges([*EDGES, ("x", "x"), ("b", "d")])


@pytest.mark.parametrize("graph", [LONELY, random_graph(300, 900), Graph.from_edges([(1, 1)])])
def test_edges_name_every_edge_once_and_make_the_graph_again(graph):
    edges = graph.edges()

    assert edges.shape == (graph.n_edges, 2)
    assert (edges[:, 0] < edges[:, 1]).all()
    assert edges.tolist() == sorted(edges.tolist())
    assert graph.adjacent(edges[:, 0], edges[:, 1]).all()
    _same(Graph.from_edges(edges, ids=np.arange(graph.n_nodes)), Graph.from_scipy(graph.to_scipy()))


def test_a_subgraph_has_the_nodes_in_their_order_and_the_edges_between_them():
    graph = random_graph(200, 900, seed=4)
    rows = np.random.default_rng(2).permutation(200)[:80]
    part = graph.subgraph(graph.ids[rows])

    assert list(part.ids) == list(graph.ids[rows])
    assert part.id_column.type == graph.id_column.type
    assert np.array_equal(part.to_scipy().toarray(), graph.to_scipy()[rows][:, rows].toarray())
    assert part.counts == Counts(part.n_edges, 0, 0)
    _same(graph.subgraph(graph.ids), graph)


def test_a_subgraph_keeps_ids_of_any_kind_and_refuses_unknown_and_doubled_ones():
    a, b, c = (uuid.UUID(int=i) for i in range(3))

    assert list(Graph.from_edges([(a, b), (b, c)]).subgraph([c, a]).ids) == [c, a]
    assert list(Graph.from_edges([((1, 2), (3, 4))]).subgraph([(3, 4)]).ids) == [(3, 4)]
    assert LONELY.subgraph(["x"]).n_isolated == 1
    with pytest.raises(GraphError, match="not in the graph, first 'z'"):
        LONELY.subgraph(["a", "z"])
    with pytest.raises(GraphError, match="every id must occur once, got 1 more than once, first 'a'"):
        LONELY.subgraph(["a", "a"])
    with pytest.raises(GraphError, match="at least one node"):
        LONELY.subgraph([])


# ------------------------------------------------------------------------------ to other libraries and back


@pytest.mark.parametrize("ids", IDS[:-1])
def test_networkx_gets_the_same_graph_and_gives_it_back(ids):
    a, b, c = ids
    graph = Graph.from_edges([(a, b)], ids=ids)
    other = graph.to_networkx()

    assert list(other.nodes) == [a, b, c]
    assert list(other.edges) == [(a, b)]
    _same(Graph.from_networkx(other), graph)


@pytest.mark.parametrize("graph", [LONELY, random_graph(300, 400), Graph.from_networkx(nx.grid_2d_graph(3, 4))])
def test_every_library_gives_back_the_graph_it_got(graph):
    matrix, data = graph.to_scipy(), graph.to_pyg()

    _same(Graph.from_networkx(graph.to_networkx()), graph)
    _same(Graph.from_scipy(matrix, ids=graph.id_column), graph)
    _same(Graph.from_pyg(data, ids=graph.id_column), graph)
    assert data.is_undirected()
    assert data.num_nodes == graph.n_nodes
    assert (matrix != matrix.T).nnz == 0
    assert graph.to_scipy(np.int8).dtype == np.int8


def test_a_matrix_may_be_changed_and_the_graph_stays():
    matrix = LONELY.to_scipy()
    matrix.data[:] = 0
    matrix.eliminate_zeros()

    assert matrix.nnz == 0
    assert LONELY.neighbors(0).tolist() == [1, 2]


def test_ids_that_networkx_cannot_hold_are_refused():
    with pytest.raises(GraphError, match="networkx cannot have ids of this kind as nodes, got struct"):
        Graph.from_edges([({"a": 1}, {"a": 2})]).to_networkx()


@pytest.mark.parametrize(("library", "method"), [("networkx", "to_networkx"), ("torch_geometric.data", "to_pyg")])
def test_a_missing_library_is_named_with_its_pip_line(library, method, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError, match=rf"Graph.{method} needs .*: pip install 'role-action-embeddings\["):
        getattr(LONELY, method)()


def test_a_graph_cannot_be_changed():
    graph = Graph.from_edges(EDGES)
    for array in (graph.offsets, graph.targets, graph.degrees, graph.ids):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(-(2**62), 2**62), st.integers(-3, 3)), min_size=1, max_size=60))
def test_the_graph_is_the_set_of_distinct_undirected_pairs(edges):
    graph = Graph.from_edges(edges)
    truth = {frozenset(e) for e in edges if e[0] != e[1]}
    ids = graph.ids
    pairs = {frozenset((int(ids[u]), int(ids[v]))) for u in range(graph.n_nodes) for v in graph.neighbors(u)}

    assert pairs == truth
    assert graph.n_edges == len(truth)
    assert ids.tolist() == sorted({x for e in edges for x in e})


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Graph.from_edges([]), "at least one node"),
        (lambda: Graph.from_edges([(1, 2, 3)]), r"pair, got \(1, 2, 3\) at position 0"),
        (lambda: Graph.from_edges(["ab", "cd"]), "pair, got 'ab'"),
        (lambda: Graph.from_edges("edges.csv"), "rae.read_edges reads files"),
        (lambda: Graph.from_edges(7), "got int"),
        (lambda: Graph.from_edges(FRAME), "got DataFrame; .*Graph.from_dataframe reads tables"),
        (lambda: Graph.from_edges(np.zeros((2, 5), int)), "pass edges.T"),
        (lambda: Graph.from_edges([("a", 1), ("b", 2)]), "one kind, got string and int64"),
        (lambda: Graph.from_edges([("a", "b"), (1, "c")]), "turn them into text first"),
        (lambda: Graph.from_edges([(2**64, 1)]), "below 2\\*\\*64"),
        (lambda: Graph.from_edges([(-1, 1), (2**63, 2)]), "turn them into text first"),
        (lambda: Graph.from_edges([("a", None)]), "missing, first in row 0"),
        (lambda: Graph.from_edges([(1.0, float("nan"))]), "missing, first in row 0"),
        (lambda: Graph.from_edges(([1, 2], [3])), "equally long, got 2 and 1"),
        (lambda: Graph.from_edges((np.zeros((2, 2)), [3])), "one column, got shape"),
        (lambda: Graph.from_edges([(1, 2)], ids=[1, 3]), "not among ids=, first 2"),
        (lambda: Graph.from_edges([(1, 2)], ids=["1", "2"]), "the source ids are int64, the graph's are string"),
        (lambda: Graph.from_edges([(1, 2)], ids=[1, 2, 1]), "every id must occur once, got 1 more than once, first 1"),
        (lambda: Graph.from_dataframe(FRAME, source="von"), "there is no column 'von'; the columns are 'from', 'to'"),
        (lambda: Graph.from_dataframe(FRAME[["from"]]), "needs two columns"),
        (lambda: Graph.from_dataframe([1, 2]), "got list"),
        (lambda: Graph.from_scipy(np.zeros((2, 3))), r"square, got shape \(2, 3\)"),
        (lambda: Graph.from_scipy(np.eye(3), ids=[1, 2]), "one entry per row"),
        (lambda: Graph.from_pyg(object()), "edge_index"),
        (lambda: Graph.from_edges(EDGES).rows(["z"]), "not in the graph, first 'z'"),
        (lambda: Graph.from_edges(EDGES).rows([5]), "not in the graph, first 5"),
        (lambda: Graph.from_edges(EDGES).neighbors(4), "row must be below 4"),
        (lambda: Graph.from_edges(EDGES).with_nodes([1]), "the new ids are int64"),
        (lambda: Graph.from_edges([(1, 2)]).with_nodes(np.array([2**64 - 1], np.uint64)), "the new ids are uint64"),
        (lambda: Graph.disjoint_union([]), "at least one graph"),
        (lambda: Graph.from_edges([(frozenset([1]), frozenset([2]))]), "turn them into text first"),
        (lambda: Graph.from_edges([("\ud800", "a")]), "valid Unicode"),
        (lambda: Graph.from_edges((np.array(["\ud800"]), ["a"])), "valid Unicode"),
        (lambda: Graph.from_networkx(nx.Graph([(1, "a")])), r"Graph.from_networkx\(nx.relabel_nodes\(graph, str\)\)"),
        (lambda: Graph.from_edges((pa.array([[(1, 2)]], MAP), pa.array([[(1, 3)]], MAP))), "plain kind, got map"),
        (lambda: Graph.from_networkx(nx.Graph([(1, "a")])), r"nx.relabel_nodes\(graph, str\)"),
        (lambda: Graph.from_edges(EDGES).rows([("a", "b")]), r"not in the graph, first \['a', 'b'\]"),
        (lambda: Graph.from_edges(EDGES).rows("ab"), r"ids must be a column, got 'ab'; pass \['ab'\]"),
        (lambda: Graph.from_edges([(1, 2)]).rows(1), r"ids must be a column, got 1; pass \[1\]"),
        (lambda: Graph.from_dataframe(pd.DataFrame({"u": [1, "a"], "v": [2, 3]})), "a column that Arrow cannot hold"),
        (
            lambda: Graph.from_edges(
                (pa.array([0], pa.timestamp("us")), pa.array([0], pa.timestamp("us", "Europe/Prague")))
            ),
            "of one kind, got timestamp",
        ),
        (
            lambda: Graph.from_edges(
                (pa.DictionaryArray.from_arrays([0], pa.array([[1]], pa.list_view(pa.int32()))), [1])
            ),
            "turn",
        ),
        (lambda: Graph.from_edges([(1, datetime.date(2000, 1, 1))]), "of one kind, got int64 and date32"),
    ],
)
def test_bad_edges_are_refused_in_one_sentence(make, says):
    with pytest.raises(GraphError, match=says) as caught:
        make()

    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, RaeError)


@pytest.mark.parametrize(
    "ids",
    [
        pa.array([b"ab", b"cd", b"ab"], pa.binary(2)),
        pa.array([b"ab", b"cd", b"ab"], pa.binary_view()),
        pa.array([b"ab", b"cd", b"ab"], pa.large_binary()),
        pa.array(["ab", "cd", "ab"], pa.string_view()),
        pa.array(["ab", "cd", "ab"], pa.large_string()),
        pa.array(["ab", "cd", "ab"], pa.string_view()).dictionary_encode(),
        pa.chunked_array([["ab", "cd"], ["ab"]]).dictionary_encode(),
        pa.compute.run_end_encode(pa.array([3, 4, 3])),
        pa.array([1.5, 2.5, 1.5], pa.float16()),
        pl.Series(["ab", "cd", "ab"], dtype=pl.Categorical),
        pl.DataFrame({"x": pl.Series(["ab", "cd", "ab"], dtype=pl.Categorical)}).to_arrow().column(0),
        pd.Series(["ab", "cd", "ab"], dtype="category"),
        pd.Index([2.5, 1.5, 2.5]),
        pd.array([4, 5, 4]),
        torch.tensor([4, 5, 4]),
    ],
    ids=lambda ids: str(ids.type) if isinstance(ids, (pa.Array, pa.ChunkedArray)) else type(ids).__name__,
)
def test_ids_of_every_arrow_kind_make_the_same_graph(ids):
    graph = Graph.from_edges((ids, ids))
    turned = Graph.from_edges((ids[:2], ids[1:]))

    assert (graph.n_nodes, graph.counts.self_loops) == (2, 3)
    assert (turned.n_nodes, turned.n_edges) == (2, 1)
    assert turned.rows(ids).tolist() in ([0, 1, 0], [1, 0, 1])


def test_polars_categories_are_read_as_what_they_name():
    frame = pl.DataFrame({"u": ["a", "b"], "v": ["b", "c"]}, schema={"u": pl.Categorical, "v": pl.Categorical})

    assert list(Graph.from_dataframe(frame).ids) == ["a", "b", "c"]


def test_uuids_can_be_looked_up_and_added_and_doubled_ones_are_refused():
    a, b, c, d = (uuid.UUID(int=i) for i in range(4))
    graph = Graph.from_edges([(c, a), (a, b)])

    assert list(graph.ids) == [a, b, c]
    assert list(graph.with_nodes([b, d, d]).ids) == [a, b, c, d]
    assert graph.with_nodes([]) is graph
    assert Graph.from_edges([], ids=[b, a]).n_isolated == 2
    with pytest.raises(GraphError, match="more than once, first UUID"):
        Graph.from_edges([(a, b)], ids=[a, a, b])
    with pytest.raises(GraphError, match="not in the graph, first UUID"):
        graph.rows([d])


def test_numbers_and_text_are_one_id_when_written_alike():
    text, whole = pa.array(["7", "007", "x", "8 "]), pa.array([9, 8, 7], pa.int8())

    assert index_in(text, whole).to_pylist() == [2, None, None, None]
    assert index_in(whole, text).to_pylist() == [None, None, 0]
    assert index_in(pa.array([300, 7]), whole).to_pylist() == [None, 2]
    assert index_in(pa.array([-1, 7]), pa.array([2**64 - 1, 7], pa.uint64())).to_pylist() == [None, 1]
    assert index_in(pa.array(["x"], pa.large_string()), text).to_pylist() == [2]
    assert index_in(pa.array([b"7"]), pa.array([datetime.date(2000, 1, 1)])).to_pylist() == [None]


def test_tuples_lists_and_structs_are_ids_too(tmp_path):
    grid = nx.grid_2d_graph(3, 12)
    graph = Graph.from_networkx(grid)
    same = Graph.from_edges(list(grid.edges))
    structs = Graph.from_edges([({"a": 1}, {"a": 2}), ({"a": 2}, {"a": 1}), ({"a": 2}, {"a": None})])

    assert list(graph.ids) == list(grid.nodes)
    assert set(same.ids) == set(grid.nodes)
    assert same.n_edges == graph.n_edges == grid.number_of_edges()
    assert [tuple(graph.ids[v]) for v in graph.neighbors(graph.rows([(0, 11)])[0])] == [(0, 10), (1, 11)]
    assert list(graph.with_nodes([(0, 0), (9, 9), (9, 9)]).ids)[-1] == (9, 9)
    assert structs.id_column.to_pylist() == [{"a": 1}, {"a": 2}, {"a": None}]
    assert structs.counts.doubled == 1
    with pytest.raises(GraphError, match=r"every id must occur once, .* \[1, 2\]"):
        Graph.from_edges([((1, 2), (3, 4))], ids=[(1, 2), (3, 4), (1, 2)])
    write_embeddings(tmp_path / "z.parquet", graph.id_column, np.ones((36, 2)))
    assert read_embeddings(tmp_path / "z.parquet")[0].equals(graph.id_column)


def test_a_networkx_grid_with_text_nodes_is_read():
    graph = Graph.from_networkx(nx.relabel_nodes(nx.grid_2d_graph(3, 3), str))

    assert graph.rows(["(0, 1)"]).tolist() == [1]
    assert graph.n_edges == 12


def test_a_frame_is_read_by_the_usual_names_wherever_they_stand(caplog):
    weighted = pd.DataFrame({"weight": [0.5], "source": ["a"], "target": ["b"]})
    calls = pl.DataFrame({"when": [1], "Caller_ID": ["a"], "called_id": ["b"]})
    mixed = pa.table({"w": [1], "from": ["a"], "target": ["b"]})
    with caplog.at_level(logging.INFO, "rae"):
        for frame in (weighted, calls, mixed, FRAME.assign(start=1, end=2)):
            assert set(Graph.from_dataframe(frame).ids) <= set("abcd")
        assert not caplog.records
        assert list(Graph.from_dataframe(pa.table({"x": [1], "y": [2], "z": [3]})).ids) == [1, 2]
    assert "first two columns, 'x' and 'y'; pass source= and target=" in caplog.text
    assert caplog.records[0].levelno == logging.WARNING


def test_pyg_data_that_names_nodes_beyond_its_number_is_refused():
    from torch_geometric.data import Data

    with pytest.raises(GraphError, match=r"nodes 0..1, got 0..5"):
        Graph.from_pyg(Data(edge_index=torch.tensor([[0], [5]]), num_nodes=2))
    with pytest.raises(GraphError, match=r"shape \(2, m\)"):
        Graph.from_pyg(Data(edge_index=torch.zeros(3, 2, dtype=torch.long), num_nodes=2))
    with pytest.raises(GraphError, match="one entry per row"):
        Graph.from_pyg(Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2), ids=[1])


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16, np.int32, np.int64, np.uint64])
@pytest.mark.parametrize("end", ["low", "high"])
def test_numbers_that_lie_close_together_are_numbered_as_all_others_are(kind, end, monkeypatch):
    limits = np.iinfo(kind)
    low, high = (limits.min, limits.min + 100) if end == "low" else (limits.max - 100, limits.max)
    edges = np.random.default_rng(0).integers(low, high, (150, 2), dtype=kind, endpoint=True)
    by_table = Graph.from_edges(edges)
    monkeypatch.setattr(id_numbering.IntegerNumbering, "_by_table", id_numbering.IntegerNumbering._by_hash)
    by_hash = Graph.from_edges(edges)

    assert by_table.id_column.equals(by_hash.id_column)
    assert by_table.ids.tolist() == np.unique(edges).tolist()
    assert np.array_equal(by_table.targets, by_hash.targets)


def test_a_graph_and_an_ego_graph_travel_to_another_process():
    graph = Graph.from_edges([("ann", "bob"), ("bob", "cid")], weight=[2.0, 3.0], directed=True)
    for sent in (graph, rae.ego_graph(graph, ["ann"], hops=1)):
        came = copy.deepcopy(sent)
        assert all(map(np.array_equal, came.arrays, sent.arrays))
        assert came.channels.keys() == sent.channels.keys()
        with pytest.raises(TypeError):
            came.channels["out"] = came.offsets
        assert (came.reach is None) == (sent.reach is None)
