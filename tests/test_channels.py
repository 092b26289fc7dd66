"""Weights, directions, kinds and times of edges: from tables and arrays to graphs, folders and other libraries."""

from __future__ import annotations

import datetime
import json

import networkx as nx
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from rae import Graph, set_threads
from rae.errors import ConfigError, FileError, GraphError
from rae.graph.channels import checked_weights
from rae.graph.folder_builder import build_folder
from rae.inputs import Reading, read_inputs
from rae.io import build_graph_folder, open_graph, read_edges, write_graph
from rae.io.edges import EdgeOptions, open_edges
from rae.ops.library import reference_only

RNG = np.random.default_rng(5)
ROWS = 700
ENDS = RNG.integers(60, size=(ROWS, 2))
WEIGHT = np.round(RNG.gamma(1.0, 50.0, ROWS), 2)
KIND = RNG.choice(["card", "cash", "wire"], ROWS)
TIME = [datetime.datetime(2026, 10, 1) + datetime.timedelta(hours=int(h)) for h in RNG.integers(24 * 30, size=ROWS)]


def table(ids=lambda column: column):
    return pa.table(
        {
            "sender": ids(ENDS[:, 0]),
            "amount": WEIGHT,
            "receiver": ids(ENDS[:, 1]),
            "type": KIND,
            "when": pa.array(TIME, pa.timestamp("s")),
        }
    )


ALL = {"weight": "amount", "directed": True, "kind": "type"}
WAYS = [ALL, {"weight": "amount"}, {"directed": True}, {"kind": "type"}, {"doubled": "count", "directed": True}]


def expected(weight=None, directed=False, kind=None, doubled=None, rows=None):
    """Every edge with its weight, from Python dictionaries."""
    out: dict = {}
    for i in range(ROWS) if rows is None else rows:
        u, v = (int(end) for end in ENDS[i])
        if u == v:
            continue
        ends = (u, v) if directed else (min(u, v), max(u, v))
        key = (*ends, KIND[i] if kind else None)
        value = float(np.float32(WEIGHT[i])) if weight else 1.0
        if key in out and doubled == "max":
            value = max(out[key], value)
        elif key in out:
            value = out[key] + value if weight or doubled else 1.0
        out[key] = value
    return {key: np.float32(value) for key, value in out.items()}


def arcs_of(graph):
    arcs = graph.arcs()
    kinds = graph.kinds or (None,)
    named = zip(graph.ids[arcs.source], graph.ids[arcs.target], arcs.kind, arcs.weight, strict=True)
    return {(int(u), int(v), kinds[k]): w for u, v, k, w in named}


def check_symmetry(graph):
    """Every edge is in both of its rows, with the same weight."""
    for name in graph.channels:
        other = {"out": "in", "in": "out", "weight": "weight"}[name.split(":")[0]] + name[len(name.split(":")[0]) :]
        here, there = graph.to_scipy(channel=name), graph.to_scipy(channel=other)
        assert (here != there.T).nnz == 0
    union = sum(graph.to_scipy(channel=name) for name in graph.channels)
    assert ((union != 0) != (graph.to_scipy() != 0)).nnz == 0


# ------------------------------------------------------------------------------ what a graph keeps


@pytest.mark.parametrize("options", [*WAYS, ALL | {"doubled": "max"}, {"weight": "amount", "doubled": "max"}], ids=str)
@pytest.mark.parametrize("plain", [False, True], ids=["library", "reference"])
def test_edges_are_those_of_dictionaries(options, plain, small_pieces):
    def build():
        return Graph.from_dataframe(table(), **options)

    if plain:
        with reference_only():
            graph = build()
    else:
        graph = build()

    assert arcs_of(graph) == expected(**options)
    assert graph.directed == bool(options.get("directed"))
    assert graph.weighted == ("weight" in options or "doubled" in options)
    assert graph.kinds == (("card", "cash", "wire") if "kind" in options else ())
    counts = graph.counts
    assert counts.rows == ROWS == counts.self_loops + counts.doubled + len(graph.arcs().source)
    check_symmetry(graph)


@pytest.mark.parametrize("options", WAYS, ids=str)
def test_the_rows_are_those_of_the_plain_graph(options):
    plain, graph = Graph.from_dataframe(table()), Graph.from_dataframe(table(), **options)

    assert np.array_equal(plain.offsets, graph.offsets)
    assert np.array_equal(plain.targets, graph.targets)
    assert plain.n_edges == graph.n_edges
    assert not plain.channels
    assert not plain.weighted
    assert not plain.directed


def test_arrays_and_frames_of_any_library_give_the_same_graph():
    from_table = Graph.from_dataframe(table(), **ALL)
    columns = {"weight": WEIGHT, "kind": KIND, "directed": True}
    for graph in (
        Graph.from_edges((ENDS[:, 0], ENDS[:, 1]), **columns),
        Graph.from_edges(ENDS.tolist(), weight=WEIGHT.tolist(), kind=KIND.tolist(), directed=True),
        Graph.from_dataframe(table().to_pandas(), **ALL),
        Graph.from_dataframe(table().to_pandas().astype({"type": "category"}), **ALL),
        Graph.from_edges(ENDS, ids=np.arange(60), **columns),
    ):
        assert same(graph, from_table)


def same(first, second):
    assert list(first.channels) == list(second.channels)
    assert first.weighted == second.weighted
    return all(np.array_equal(a, b) for a, b in zip(first.arrays, second.arrays, strict=True))


def test_rows_of_weight_zero_are_left_out_and_counted():
    graph = Graph.from_edges([("a", "b"), ("b", "c"), ("c", "d"), ("a", "a")], weight=[1, 0, 2, 3])

    assert list(graph.ids) == ["a", "b", "c", "d"]
    assert graph.n_edges == 2
    assert (graph.counts.rows, graph.counts.zeros, graph.counts.self_loops) == (4, 1, 1)
    assert str(graph.counts).endswith("1 self-loops dropped, 1 of weight 0 dropped")
    by_rows = Graph.from_scipy(graph.to_scipy(channel="weight"), weighted=True)
    assert np.array_equal(by_rows.channels["weight"], graph.channels["weight"])
    with pytest.raises(GraphError, match=r"got no edges and no ids: 1 rows read.*1 of weight 0 dropped"):
        Graph.from_edges([("a", "b")], weight=[0])


def test_a_reversed_graph_has_in_and_out_swapped():
    graph = Graph.from_dataframe(table(), **ALL)
    reversed_table = table().rename_columns(["receiver", "amount", "sender", "type", "when"])

    assert same(graph.reverse(), Graph.from_dataframe(reversed_table, **ALL))
    assert same(graph.reverse().reverse(), graph)
    undirected = Graph.from_dataframe(table(), weight="amount")
    assert same(undirected.reverse(), undirected)


def test_a_subgraph_keeps_the_edges_between_its_nodes():
    graph, some = Graph.from_dataframe(table(), **ALL), RNG.permutation(60)[:30]

    part = graph.subgraph(some)
    inside = {key: w for key, w in arcs_of(graph).items() if key[0] in some and key[1] in some}
    assert arcs_of(part) == inside
    assert part.counts.rows == len(inside)
    check_symmetry(part)
    assert same(part.subgraph(np.arange(60)[np.isin(np.arange(60), some)]), graph.subgraph(np.sort(some)))


def test_graphs_stand_side_by_side_where_they_keep_the_same():
    graph, plain = Graph.from_dataframe(table(), **ALL), Graph.from_dataframe(table())
    both = Graph.disjoint_union([graph, graph.reverse()])

    assert same(both.subgraph(np.arange(60)), graph)
    assert same(both.subgraph(np.arange(60, 120)), graph.reverse())
    with pytest.raises(GraphError, match="must keep the same of their edges"):
        Graph.disjoint_union([graph, plain])
    more = graph.with_nodes([60, 61])
    assert more.n_nodes == 62
    assert same(more.subgraph(np.arange(60)), graph)


# ------------------------------------------------------------------------------ other libraries


@pytest.mark.parametrize("options", WAYS, ids=str)
def test_networkx_and_back(options):
    graph = Graph.from_dataframe(table(), **options)

    there = graph.to_networkx()
    assert there.is_directed() == graph.directed
    assert there.is_multigraph() == bool(graph.kinds)
    named = {"weight": "weight" if graph.weighted else None, "kind": "kind" if graph.kinds else None}
    assert same(Graph.from_networkx(there, directed=graph.directed, **named), graph)
    assert dict(there.degree()) == dict(nx.from_pandas_edgelist(
        graph.to_arrow().to_pandas(), "source", "target",
        create_using=type(there)).degree())  # fmt: skip


def test_scipy_matrices_have_the_weights_of_a_channel():
    graph = Graph.from_dataframe(table(), weight="amount", directed=True)
    matrix = graph.to_scipy(channel="out")

    weights = expected(weight=True, directed=True)
    assert {(int(u), int(v), None): np.float32(matrix[u, v]) for u, v in zip(*matrix.nonzero(), strict=True)} == weights
    assert same(Graph.from_scipy(matrix, weighted=True, directed=True), graph)
    assert same(Graph.from_scipy(matrix.T, weighted=True, directed=True), graph.reverse())
    with pytest.raises(GraphError, match="no channel 'out:cash'; it has 'out', 'in'"):
        graph.to_scipy(channel="out:cash")
    with pytest.raises(GraphError, match="keeps neither weights nor directions nor kinds"):
        Graph.from_edges(ENDS).channel("out")


def test_pyg_gets_weights_and_types():
    pytest.importorskip("torch_geometric")
    graph = Graph.from_dataframe(table(), **ALL)
    data = graph.to_pyg()
    assert data.edge_weight.sum().item() == pytest.approx(graph.arcs().weight.sum(), rel=1e-5)
    assert len(data.edge_type) == data.edge_index.shape[1] == len(graph.arcs().source)
    undirected = Graph.from_dataframe(table(), weight="amount").to_pyg()
    assert undirected.is_undirected()


def test_a_graph_says_what_it_keeps():
    graph = Graph.from_dataframe(table(), **ALL)
    assert repr(graph).endswith("ids=int64, directed, weighted, kinds: card, cash, wire)")
    assert "kinds: card" in graph._repr_html_()
    assert repr(Graph.from_dataframe(table())).endswith("ids=int64)")


# ------------------------------------------------------------------------------ files and folders


def written(path, folder, **options):
    write_graph(folder, read_edges(path, **options))
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.mark.parametrize("options", [*WAYS, ALL | {"time": "when", "since": "2026-10-11"}], ids=str)
@pytest.mark.parametrize(
    "ids", [lambda c: c, lambda c: [f"n{i}" for i in c], lambda c: c * 2**40 - 7], ids=["", "text", "wide"]
)
@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_in_memory_out_of_core_and_any_threads_give_the_same_bytes(options, ids, suffix, tmp_path, small_pieces):
    path = tmp_path / f"t.{suffix}"
    pq.write_table(table(ids), path) if suffix == "parquet" else pa.csv.write_csv(table(ids), path)
    names = {"weight": None, "kind": None, "directed": False, "doubled": None} | options
    in_memory = written(path, tmp_path / "memory", **options)
    build_graph_folder(path, tmp_path / "built", **options)
    opened = open_edges(path, options=EdgeOptions(**names))
    build_folder(opened.feed, tmp_path / "spilled", memory=0, values=opened.values)
    set_threads(3)
    try:
        build_graph_folder(path, tmp_path / "threads", **options)
    finally:
        set_threads(1)

    for name in ("built", "spilled", "threads"):
        assert {file.name: file.read_bytes() for file in (tmp_path / name).iterdir()} == in_memory, name
    opened_again = open_graph(tmp_path / "built", verify=True)
    assert same(opened_again, read_edges(path, **options))
    assert opened_again.counts == read_edges(path, **options).counts


def test_another_order_of_the_rows_is_the_same_graph(tmp_path, small_pieces):
    pq.write_table(table(), tmp_path / "t.parquet")
    plain = build_graph_folder(tmp_path / "t.parquet", tmp_path / "plain", **ALL)
    near = build_graph_folder(tmp_path / "t.parquet", tmp_path / "near", order="locality", **ALL)

    assert list(near.ids) != list(plain.ids)
    assert arcs_of(near) == arcs_of(plain)
    check_symmetry(near)


def test_a_plain_graph_is_written_as_before(tmp_path):
    write_graph(tmp_path / "g", Graph.from_edges([("ann", "bob"), ("bob", "cid")]))

    info = json.loads((tmp_path / "g" / "graph.json").read_text())
    assert sorted(file.name for file in (tmp_path / "g").iterdir()) == [
        "graph.json", "ids.arrow", "offsets.npy", "targets.npy"
    ]  # fmt: skip
    assert info["counts"] == {"rows": 2, "self_loops": 0, "doubled": 0}
    assert (info["directed"], info["weights"], info["format_version"]) == (False, None, 2)


def test_a_folder_gets_a_plain_graph_after_a_weighted_one(tmp_path):
    write_graph(tmp_path / "g", Graph.from_dataframe(table(), **ALL))
    write_graph(tmp_path / "g", Graph.from_dataframe(table()))

    assert not open_graph(tmp_path / "g", verify=True).channels
    assert not list((tmp_path / "g").glob("channel*"))


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (lambda f: (f / "channel-01.npy").unlink(), "damaged"),
        (lambda f: np.save(f / "channel-00.npy", np.zeros(3, np.float32)), "damaged.*one weight per stored neighbour"),
        (lambda f: np.save(f / "channel-00.npy", _like(f, -1)), "do not fit together"),
        (lambda f: np.save(f / "channel-00.npy", _like(f, np.nan)), "do not fit together"),
        (lambda f: np.save(f / "channel-00.npy", _like(f, np.inf)), "do not fit together"),
        (lambda f: np.save(f / "channel-00.npy", _like(f, 1).astype(np.float64)), "damaged"),
        (lambda f: _info(f, weights={"channels": ["out", "sideways"], "given": True}), "channels must be"),
        (lambda f: _info(f, weights={"channels": ["weight"], "given": True}), "does not go with its channels"),
        (lambda f: _info(f, weights={"channels": "out", "given": True}), "weights must be"),
        (lambda f: _info(f, counts={"rows": 1, "self_loops": 0, "doubled": 0, "stolen": 3}), "unknown count"),
    ],
)
def test_a_damaged_or_hostile_channel_is_refused(harm, says, tmp_path):
    write_graph(tmp_path, Graph.from_dataframe(table(), weight="amount", directed=True))
    harm(tmp_path)
    with pytest.raises(FileError, match=says):
        open_graph(tmp_path)


def _like(folder, value):
    return np.full_like(np.load(folder / "channel-00.npy"), value)


def _info(folder, **fields):
    path = folder / "graph.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def test_a_changed_channel_is_found(tmp_path):
    write_graph(tmp_path, Graph.from_dataframe(table(), **ALL))
    np.save(tmp_path / "channel-02.npy", np.load(tmp_path / "channel-02.npy") * 2)
    open_graph(tmp_path)
    with pytest.raises(FileError, match=r"channel-02.npy has changed"):
        open_graph(tmp_path, verify=True)


def test_a_graph_folder_takes_no_options_of_reading(tmp_path):
    write_graph(tmp_path, Graph.from_dataframe(table(), **ALL))
    assert read_edges(tmp_path).directed
    with pytest.raises(GraphError, match="is a graph folder, which takes no weight="):
        read_edges(tmp_path, weight="amount")


# ------------------------------------------------------------------------------ times


NOON = datetime.datetime(2026, 10, 20, 12)
INSIDE = [i for i, t in enumerate(TIME) if datetime.datetime(2026, 10, 5) <= t < datetime.datetime(2026, 10, 20, 12)]


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
@pytest.mark.parametrize(
    ("column", "since", "until"),
    [
        (lambda: pa.array(TIME, pa.timestamp("us")), "2026-10-05", "2026-10-20T12:00"),
        (lambda: pa.array(TIME, pa.timestamp("ms", "UTC")), "2026-10-05T02:00+02:00", "2026-10-20 12:00:00Z"),
        (lambda: pa.array([t.isoformat(" ") for t in TIME]), datetime.date(2026, 10, 5), NOON),
        (lambda: pa.array([t.isoformat() + "Z" for t in TIME]), "2026-10-05", "2026-10-20T12:00"),
        (lambda: pa.array([int((t - TIME[0]).total_seconds()) for t in TIME]), "first", "last"),
    ],
)  # fmt: skip
def test_rows_are_chosen_by_their_time(suffix, column, since, until, tmp_path):
    if since == "first":
        bounds = datetime.datetime(2026, 10, 5), datetime.datetime(2026, 10, 20, 12)
        since, until = (str(int((bound - TIME[0]).total_seconds())) for bound in bounds)
    timed, path = table().set_column(4, "when", column()), tmp_path / f"t.{suffix}"
    pq.write_table(timed, path) if suffix == "parquet" else pa.csv.write_csv(timed, path)

    graph = read_edges(path, time="when", since=since, until=until, **ALL)
    assert arcs_of(graph) == expected(**ALL, rows=INSIDE)
    assert graph.counts.outside == ROWS - len(INSIDE)
    assert graph.counts.rows == ROWS
    assert "of another time left out" in str(graph.counts)
    assert same(Graph.from_dataframe(timed, time="when", since=since, until=until, **ALL), graph)


def test_what_is_counted_adds_up_in_the_sentence():
    from rae.inputs import count, describe

    rows = [("a", "b", "x"), ("a", "b", "x"), ("b", "a", "x"), ("a", "b", "y"), ("c", "c", "x")]
    source, target, kind = zip(*rows, strict=True)
    graph = Graph.from_edges((list(source), list(target)), kind=list(kind), directed=True)
    text = describe(count(graph, None))
    assert "3 nodes, 1 edges" in text
    assert "5 rows read, 1 doubled merged, 1 self-loops dropped, 2 connect a pair again" in text
    assert "again" not in describe(count(Graph.from_edges((list(source), list(target))), None))


@pytest.mark.parametrize("bounds", [{"since": "2026-12-24"}, {"since": "2025-01-01", "until": "2025-02-01"}])
@pytest.mark.parametrize("suffix", ["csv", "parquet", "frame"])
def test_a_window_without_rows_says_which_times_there_are(suffix, bounds, tmp_path):
    path = tmp_path / f"t.{suffix}"
    pq.write_table(table(), path) if suffix == "parquet" else pa.csv.write_csv(table(), path)
    read, edges = (Graph.from_dataframe, table()) if suffix == "frame" else (read_edges, path)
    says = rf"no row has a time from {bounds['since']} on.*rows are from {min(TIME)} to {max(TIME)}; pass another since"
    with pytest.raises(GraphError, match=says):
        read(edges, time="when", **bounds)
    assert Graph.from_dataframe(table(), ids=[0, 1], time="when", **bounds).n_edges == 0


def test_dates_are_times_too():
    days = table().set_column(4, "when", pa.array([t.date() for t in TIME]))
    graph = Graph.from_dataframe(days, time="when", until="2026-10-05", **ALL)
    rows = [i for i, t in enumerate(TIME) if t < datetime.datetime(2026, 10, 5)]
    assert arcs_of(graph) == expected(**ALL, rows=rows)


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"since": "2026-10-01"}, ConfigError, "since needs time="),
        ({"time": "when"}, ConfigError, "pass since= or until= as well"),
        ({"time": "when", "since": "yesterday"}, ConfigError, "since must be a number, a date or a timestamp such as"),
        ({"time": "when", "since": 17}, ConfigError, "since must be as the column of times, which holds timestamps"),
        ({"time": "amount", "since": "2026-10-01"}, ConfigError, "since must be as the column.*holds numbers"),
        ({"time": "when", "since": "2026-10-03", "until": "2026-10-02"}, ConfigError, "since must be before until"),
        ({"time": "type", "since": "2026-10-01"}, GraphError, "time must hold timestamps .*got 'c.*' in row 0"),
        ({"time": "whn", "since": "2026-10-01"}, GraphError, "time: there is no column 'whn'; did you mean 'when'"),
        ({"time": "sender", "since": 3}, GraphError, "time and source must be two columns"),
    ],
)  # fmt: skip
def test_times_that_cannot_be_used_are_refused(options, error, says):
    with pytest.raises(error, match=says):
        Graph.from_dataframe(table(), **options)


def test_a_time_that_cannot_be_read_is_named_with_its_line(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("from,to,when\na,b,2026-10-01\nb,c,2026-10-02\nc,d,soon\n")
    with pytest.raises(GraphError, match=r"t.csv: time must hold timestamps .*, got 'soon' in line 4; mend or drop it"):
        read_edges(path, time="when", since="2026-10-01")
    path.write_text("from,to,when\na,b,2026-10-01\nb,c,2026-10-02Z\n")
    with pytest.raises(GraphError, match=r"with and without a zone|got"):
        read_edges(path, time="when", since="2026-10-01")
    missing = pa.table({"source": [1, 2], "target": [2, 3], "at": pa.array([5, None])})
    with pytest.raises(GraphError, match="time must hold a time in every row, got none in row 1"):
        Graph.from_dataframe(missing, time="at", since=3)
    with pytest.raises(GraphError, match="time must hold timestamps, dates or numbers, got bool"):
        Graph.from_dataframe(missing.set_column(2, "at", pa.array([True, False])), time="at", since=3)


# ------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (-3.0, "must hold finite numbers from 0 up, got -3"),
        (float("nan"), r"got a missing one \(NaN\)"),
        (float("inf"), "got inf"),
        (-float("inf"), "got -inf"),
        (1e39, r"got 1e\+39"),
    ],
)
def test_weights_that_cannot_be_used_are_refused_with_their_row(value, says, tmp_path):
    bad = pa.table({"source": [1, 2, 3], "target": [2, 3, 4], "amount": [1.0, 2.0, value]})
    with pytest.raises(GraphError, match=f"weight.*{says} in row 2"):
        Graph.from_dataframe(bad, weight="amount")
    with pytest.raises(GraphError, match=f"weight.*{says} in row 2"):
        Graph.from_edges([(1, 2), (2, 3), (3, 4)], weight=[1, 2, value])
    pq.write_table(bad, tmp_path / "t.parquet")
    with pytest.raises(GraphError, match=f"t.parquet: weight.*{says} in row 2"):
        read_edges(tmp_path / "t.parquet", weight="amount")
    pa.csv.write_csv(bad, tmp_path / "t.csv")
    with pytest.raises(GraphError, match=f"t.csv: weight.*{says} in line 4; mend or drop it"):
        read_edges(tmp_path / "t.csv", weight="amount")
    with pytest.raises(GraphError, match="in line 4"):
        build_graph_folder(tmp_path / "t.csv", tmp_path / "g", weight="amount")
    assert not (tmp_path / "g").exists()


def test_a_bad_weight_outside_of_the_times_that_count_is_left_alone(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("source,target,amount,at\n1,2,-1,5\n2,3,4,6\n3,4,-8,7\n")
    with pytest.raises(GraphError, match="got -8 in line 4"):
        read_edges(path, weight="amount", time="at", since=6)
    assert read_edges(path, weight="amount", time="at", since=6, until=7).n_edges == 1


def test_text_in_a_column_of_weights_is_named(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("source,target,amount\n1,2,1.5\n2,3,plenty\n")
    with pytest.raises(GraphError, match=r"t.csv: weight must hold numbers, got 'plenty' in line 3"):
        read_edges(path, weight="amount")
    with pytest.raises(GraphError, match=r"weight must hold numbers, got string such as 'card'|'cash'|'wire'"):
        Graph.from_dataframe(table(), weight="type")
    for mixed in ([1, "two", object()], ["two", 1], np.array([None, 1, "two"], object)):
        with pytest.raises(GraphError, match="weight must hold one number per edge, got 'two' among others"):
            checked_weights(mixed)


def test_weights_of_any_number_type_are_read():
    values = [1.0, 0.0, 2.0]
    for column in (
        np.array([1, 0, 2], np.uint8), [True, False, False], pd.Series([1, 0, 2]),
        pa.array([1, 0, 2]).dictionary_encode(), pa.array([1, 0, 2]).cast(pa.decimal128(25, 2)),
        np.array([1, 0, 2], np.float16),
    ):  # fmt: skip
        got = checked_weights(column).tolist()
        assert got == (values if got[2] else [1.0, 0.0, 0.0])


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"weight": "amonut"}, GraphError, "weight: there is no column 'amonut'; did you mean 'amount'"),
        ({"weight": "sender"}, GraphError, "weight and source must be two columns, got 'sender' for both"),
        ({"weight": "amount", "kind": "amount"}, GraphError, "kind and weight must be two columns"),
        ({"doubled": "sum"}, ConfigError, "doubled must be one of 'add', 'count', 'max', got 'sum'"),
        ({"weight": "amount", "doubled": "count"}, ConfigError, "leave weight out, or pass doubled='add'"),
        ({"kind": "receiver", "source": "sender", "target": "when"}, GraphError, "at most 16 different values, got '"),
        ({"kind": "amount"}, GraphError, "kind must hold words or whole numbers, got double"),
    ],
)  # fmt: skip
def test_options_that_do_not_go_with_the_table_are_refused(options, error, says):
    frame = table() if "source" not in options else table().set_column(4, "when", pa.array(ENDS[:, 1] + 1))
    with pytest.raises(error, match=says):
        Graph.from_dataframe(frame, **options)


def test_kinds_are_there_for_every_edge():
    with pytest.raises(GraphError, match="kind must be there for every edge, got none in row 1"):
        Graph.from_edges([(1, 2), (2, 3)], kind=["a", None])
    with pytest.raises(GraphError, match="kind must be a word for every edge, got an empty one"):
        Graph.from_edges([(1, 2), (2, 3)], kind=["a", ""])
    with pytest.raises(GraphError, match=r"kind must have one entry per edge \(2\), got 1"):
        Graph.from_edges([(1, 2), (2, 3)], kind=["a"])
    with pytest.raises(GraphError, match="kind must hold one word per edge"):
        Graph.from_edges([(1, 2), (2, 3)], kind=["a", 3])
    assert Graph.from_edges([(1, 2), (2, 3)], kind=[7, 5]).kinds == ("5", "7")


def test_weights_that_add_up_to_more_than_there_is_are_refused():
    with pytest.raises(GraphError, match="give them in a larger unit"):
        Graph.from_edges([(1, 2), (1, 2)], weight=[3e38, 3e38])
    assert Graph.from_edges([(1, 2), (1, 2)], weight=[3e38, 3e38], doubled="max").weighted


def test_arrays_that_are_no_channels_of_a_graph_are_refused():
    graph = Graph.from_edges([(1, 2), (2, 3)])
    with pytest.raises(GraphError, match="channels must be 'weight', or 'out' and 'in'"):
        Graph(graph.offsets, graph.targets, graph.id_column, channels={"out": np.ones(4, np.float32)})
    with pytest.raises(GraphError, match="channel 'weight' must be float32 with one weight per stored neighbour"):
        Graph(graph.offsets, graph.targets, graph.id_column, channels={"weight": np.ones(4)})
    with pytest.raises(GraphError, match="got list"):
        Graph(graph.offsets, graph.targets, graph.id_column, channels={"weight": [1.0] * 4})


# ------------------------------------------------------------------------------ suggestions


def test_columns_that_speak_for_themselves_are_suggested_and_not_read(tmp_path, caplog):
    caplog.set_level("INFO", "rae")
    path = tmp_path / "t.csv"
    pa.csv.write_csv(table(), path)

    inputs = read_inputs(path)
    said = "directed=True weight='amount' kind='type' time='when' since='...'"
    assert said in caplog.text
    assert not inputs.graph.channels
    caplog.clear()
    assert read_inputs(path, reading=Reading(**ALL)).graph.kinds == ("card", "cash", "wire")
    assert "if you want that" not in caplog.text
    assert (
        "edges go from column 'sender' to 'receiver', weight from 'amount', kind from 'type'; ignored: 'when'"
        in caplog.text
    )
    build_graph_folder(path, tmp_path / "g")
    assert said in caplog.text
    caplog.clear()
    (tmp_path / "plain.csv").write_text("source,target,colour\na,b,red\nb,c,blue\n")
    assert read_inputs(tmp_path / "plain.csv").graph.n_edges == 2
    assert "if you want that" not in caplog.text


def test_frames_are_read_as_asked():
    reading = Reading(**ALL, source="sender", target="receiver")
    assert same(read_inputs(table(), reading=reading).graph, Graph.from_dataframe(table(), **ALL))
    with pytest.raises(GraphError, match="directed says how an edge file is read, a Graph"):
        read_inputs(Graph.from_edges([(1, 2)]), reading=Reading(directed=True))
