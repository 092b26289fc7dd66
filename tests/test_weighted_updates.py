"""Updates of runs whose edges have weights, directions and kinds: what a full pass over the new graph gives."""

from __future__ import annotations

import contextlib
import itertools

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

import rae
from rae.engine import live
from rae.engine.live import Live
from rae.errors import FeatureError, GraphError, RaeError
from rae.graph.folder import write_graph
from rae.ops.edits import CHANGES, COMES, GOES, EditedRows
from rae.ops.library import reference_only
from rae.run import Run

N = 40
KINDS = ("card", "wire")
FORMS = {
    "weighted": {"weight": True},
    "directed": {"directed": True},
    "kinds": {"kind": True},
    "largest": {"weight": True, "directed": True, "doubled": "max"},
    "counted": {"directed": True, "doubled": "count"},
    "all": {"weight": True, "directed": True, "kind": True},
}


def same_bytes(a, b):
    a, b = np.asarray(a), np.asarray(b)
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


class Payments:
    """Edges with all that a form asks for, beside the run that follows them: {(source, target, kind): weight}."""

    def __init__(self, rng, form, n=N, rows=70):
        self.rng, self.form, self.n, self.edges = rng, FORMS[form], n, {}
        self.add(self.draw(rows))

    def draw(self, count):
        """Rows of a table: source, target, weight, kind; some twice."""
        ends = self.rng.integers(self.n, size=(count, 2))
        weights = np.round(self.rng.gamma(1.0, 50.0, count), 1) + 0.1
        rows = [
            (int(u), int(v), float(w), str(k))
            for (u, v), w, k in zip(ends, weights, self.rng.choice(KINDS, count), strict=True)
        ]
        return rows + rows[: count // 4]

    def key(self, u, v, kind):
        if not self.form.get("directed"):
            u, v = min(u, v), max(u, v)
        return u, v, kind if self.form.get("kind") else ""

    def add(self, rows):
        """Merge rows as the rule of the form says: those of one call first, in double precision."""
        together = {}
        for u, v, weight, kind in rows:
            if u != v:
                weight = np.float32(weight) if self.form.get("weight") else np.float32(1)
                together.setdefault(self.key(u, v, kind), []).append(float(weight))
        doubled = self.form.get("doubled", "add" if self.form.get("weight") else "max")
        for key, weights in together.items():
            merged = np.float32(max(weights) if doubled == "max" else sum(weights))
            old = self.edges.get(key, np.float32(0))
            self.edges[key] = max(old, merged) if doubled == "max" else np.float32(float(old) + float(merged))

    def remove(self, keys):
        for key in keys:
            del self.edges[key]

    def graph(self):
        ends = [(f"n{u:03d}", f"n{v:03d}") for u, v, _ in self.edges]
        options = {"directed": self.form.get("directed", False)}
        weighted = self.form.get("weight") or self.form.get("doubled") in ("add", "count")
        if weighted:
            options["weight"] = [float(weight) for weight in self.edges.values()]
        if self.form.get("kind"):
            options["kind"] = [kind for _, _, kind in self.edges]
        return rae.Graph.from_edges(ends, ids=[f"n{u:03d}" for u in range(self.n)], **options)

    def table(self, rows):
        columns = {"payer": [f"n{r[0]:03d}" for r in rows], "payee": [f"n{r[1]:03d}" for r in rows]}
        columns |= {"amount": [r[2] for r in rows], "how": [r[3] for r in rows]}
        return pa.table(columns)

    @property
    def options(self):
        form = dict(self.form)
        for name, column in (("weight", "amount"), ("kind", "how")):
            if form.pop(name, False):
                form[name] = column
        return form | {"source": "payer", "target": "payee"}

    def some(self, count):
        return [key for key in self.edges if self.rng.random() < count / len(self.edges)]

    def gone(self, keys):
        """Edges as they are removed in Python."""
        return [(f"n{u:03d}", f"n{v:03d}", *([kind] if kind else [])) for u, v, kind in keys]


def check(run, payments, x=None):
    """The run, opened anew, is the full pass over a graph that is built from its edges."""
    run, expected = Run.open(run.path), payments.graph()
    ids, z = run.embeddings()
    assert ids.to_pylist() == expected.id_column.to_pylist()
    assert same_bytes(z, run.model().transform(expected, x, units="fit", whole=True))
    graph = run.graph()
    assert graph.targets.tolist() == expected.targets.tolist()
    assert graph.weighted == expected.weighted
    for name, channel in expected.channels.items():
        assert same_bytes(graph.channels[name], channel), name
    return z


# ------------------------------------------------------------------------------------- rows with weights


@pytest.mark.parametrize("native", [True, False])
def test_weights_follow_each_edge(native):
    rng = np.random.default_rng(int(native))
    ends = rng.integers(12, size=(30, 2))
    graph = rae.Graph.from_edges(ends, ids=np.arange(12), directed=True, weight=rng.random(30) + 0.5)
    matrix = graph.to_scipy(np.float32, channel="out").toarray()
    rows = EditedRows.of(graph, 12)
    for _ in range(40):
        u, v = map(int, rng.choice(12, size=2, replace=False))
        there = matrix[u, v] > 0 or matrix[v, u] > 0
        edit = int(rng.choice([GOES, CHANGES])) if there else COMES
        out, into = np.float32(rng.random(2) + 0.1) if edit != GOES else (np.float32(0), np.float32(0))
        arguments = [u], [v], [edit], [[[out, into], [into, out]]]
        before, used = rows._numbers().copy(), rows.used
        if native:
            nodes, counts_before = rows.edit(*arguments)
        else:
            with reference_only():
                nodes, counts_before = rows.edit(*arguments)
        assert {u, v} <= set(nodes.tolist())
        if edit != CHANGES and rng.random() < 0.3:
            rows.undo(nodes, counts_before, used)
            assert np.array_equal(rows._numbers(), before)
            continue
        matrix[u, v], matrix[v, u] = out, into
        offsets, targets = rows.lists(np.arange(12))
        for channel, expected in enumerate((matrix, matrix.T)):
            dense = sp.csr_array((rows.weights(channel, np.arange(12), offsets), targets, offsets), shape=(12, 12))
            assert np.array_equal(dense.toarray(), expected)
        us, vs = map(list, zip(*itertools.permutations(range(12), 2), strict=True))
        exists, values = rows.values(us, vs)
        assert np.array_equal(exists, (matrix + matrix.T)[us, vs] > 0)
        assert np.array_equal(values, np.stack([matrix[us, vs], matrix.T[us, vs]], 1))


# ------------------------------------------------------------------------------------- the law


@pytest.mark.parametrize("form", FORMS)
def test_updates_are_what_a_full_pass_gives(form, tmp_path, small_steps):
    rng = np.random.default_rng(len(form))
    payments = Payments(rng, form)
    run = rae.fit_run(payments.graph(), out=tmp_path / "run", page=False)
    check(run, payments)
    if "doubled" in payments.form:  # a graph in memory does not know how it was made
        run.info["reading"] = {"doubled": payments.form["doubled"]}
    for step in range(3):
        gone = payments.some(2)
        payments.remove(gone)
        payments.n += 1
        rows = [*payments.draw(4), (0, payments.n - 1, 3.5, KINDS[0])]
        rows = [row for row in rows if payments.form.get("weight") or payments.key(*row[:2], row[3]) not in gone]
        payments.add(rows)
        table = payments.table(rows)
        names = {k: v for k, v in payments.options.items() if k in ("source", "target", "weight", "kind")}
        updated = run.update(added=table, removed=payments.gone(gone), fold=step == 1, **names)
        assert updated.removed + updated.changed >= len(gone)
        assert not updated.in_full
        assert updated.new_nodes == 1
        check(run, payments)
    assert (run.path / "embeddings.parquet").is_file() is False
    run.fold()
    z = check(run, payments)
    assert same_bytes(rae.read_embeddings(run.path / "embeddings.parquet")[1], z)
    assert rae.open_graph(run.path / "graph", verify=True).weighted == payments.graph().weighted


@pytest.mark.parametrize("few", [2048, 3])
@pytest.mark.parametrize(("mix", "words"), [("union", False), ("directions", True), ("channels", False)])
def test_features_follow_along_directions_and_kinds(mix, words, few, monkeypatch):
    monkeypatch.setattr(live, "MOST_SHARE", float("inf"))
    monkeypatch.setattr(live, "FEW", few)
    rng = np.random.default_rng(few + len(mix))

    def draw(count):
        values = rng.normal(size=(count, 5)).astype(np.float32)
        return sp.csr_array((values > 0.3).astype(np.float32)) if words else values

    payments = Payments(rng, "all")
    graph, x = payments.graph(), draw(N)
    model = rae.RAE(mix=mix).fit(graph, features=x)
    follows = Live.of(model.fitted, graph, x)
    assert same_bytes(follows.vectors((0, N)), model.transform(graph, x, units="fit", whole=True))
    for _ in range(2):
        u, v = map(int, rng.choice(N, size=2, replace=False))
        there, values = follows.rows.values([u], [v])
        weight = values[0] + np.float32(rng.random(4)) if there[0] else np.float32(rng.random(4) + 0.5)
        names = list(graph.channels)
        both = np.stack([weight, weight[[names.index(rae.graph.channels.mirrored(name)) for name in names]]])
        row = int(rng.integers(N))
        changes = follows.update([u], [v], [CHANGES if there[0] else COMES], [both], features=([row], draw(1)))
        assert not changes.in_full
        now, features = follows.graph(graph.id_column), follows.features.whole_matrix(N)
        assert same_bytes(follows.vectors((0, N)), model.transform(now, features, units="fit", whole=True))


@pytest.mark.parametrize("form", ["weighted", "counted", "all"])
def test_a_node_that_is_not_there_yet(form, tmp_path, small_steps, caplog):
    rng = np.random.default_rng(5)
    payments = Payments(rng, form)
    run = rae.fit_run(payments.graph(), out=tmp_path / "run", page=False)
    if form == "counted":
        run.info["reading"] = {"doubled": "count"}
    near, directions = [3, 4, 3, 5], ["out", "in", "in", "out"]
    weights, kinds = [2.5, 7.0, 1.25, 0.0 if form != "counted" else 1.0], ["card", "wire", "card", "wire"]
    values = {"weights": weights, "directions": directions, "kinds": kinds}
    asked = {"weights": "weight", "directions": "directed", "kinds": "kind"}
    arguments = {name: value for name, value in values.items() if payments.form.get(asked[name])}
    for _ in range(2):
        caplog.clear()
        vector = run.embed("new", neighbours=[f"n{u:03d}" for u in near], **arguments)
        assert ("1 of 4 neighbours have an edge of weight 0" in caplog.text) == (0.0 in arguments.get("weights", []))
        grown = Payments(rng, form, N, 1)
        grown.n, grown.edges = N + 1, dict(payments.edges)
        rows = zip(near, weights, directions, kinds, strict=True)
        grown.add([(N, u, w, k) if d == "out" else (u, N, w, k) for u, w, d, k in rows if w > 0])
        full = run.model().transform(grown.graph(), units="fit", whole=True)[N]
        assert same_bytes(vector, full)
        run.update()  # now from the tables on disk
    first = next(iter(arguments))
    for name in arguments:
        less = {key: other for key, other in arguments.items() if key != name}
        with pytest.raises(
            GraphError, match=f"edges of the run have {name}, got none for the 4 neighbours; pass {name}="
        ):
            run.embed(neighbours=[f"n{u:03d}" for u in near], **less)
    with pytest.raises(GraphError, match=f"{first} must be one for each of 1 neighbours, got 4"):
        run.embed(neighbours=["n001"], **arguments)


# ------------------------------------------------------------------------------------- what is possible


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run of payments in several kinds, and a plain directed one; nothing that is refused changes them."""
    folder = tmp_path_factory.mktemp("kept")
    rng = np.random.default_rng(8)
    payments = Payments(rng, "all")
    payments.add([(0, 1, 20, "card"), (0, 1, 5, "card"), (1, 0, 3, "wire")])
    directed = Payments(rng, "directed")
    directed.add([(0, 1, 1, "")])
    directed.edges.pop((1, 0, ""), None)
    return {
        "all": rae.fit_run(payments.graph(), out=folder / "all", page=False),
        "directed": rae.fit_run(directed.graph(), out=folder / "directed", page=False),
    }


@pytest.mark.parametrize(
    ("which", "arguments", "message"),
    [
        ("all", {"added": [("n000", "n001")]}, r"edges to add must be \(source, target, weight, kind\) each, .* got 2"),
        ("all", {"added": [("n000", "n001", 1.0, "loan")]}, "the kind 'loan' was not there when"),
        ("all", {"added": [("n000", "n001", -1.0, "card")]}, "weight must hold finite numbers .* got -1 in row 0"),
        ("all", {"added": [("n000", "n001", float("nan"), "card")]}, r"got a missing one \(NaN\)"),
        ("all", {"added": [("n000", "n001", float("inf"), "card")]}, "got inf in row 0"),
        ("all", {"added": [("n000", "n001", 3e38, "card")] * 2}, "add up to more than 3.4e"),
        ("all", {"added": [("n000", "", 1.0, "card")]}, r"a new node has an empty id \(''\); nothing was changed"),
        ("all", {"removed": [("n000", "n001")]}, r"edges to remove must be \(source, target, kind\) each"),
        ("all", {"removed": [("n000", "n001", "wire")]}, "not in the graph, first 'n000' to 'n001' of kind 'wire'"),
        ("all", {"removed": [("n000", "n001", 0.0, "card")]}, "removed whole, got 1 to remove with the weight 0"),
        ("all", {"removed": [("n000", "n001", 20.0, "card")]}, "another weight in the graph, .*; an edge goes"),
        ("all", {"added": [("n000", "n001", 1.0, "card")], "doubled": "most"}, "doubled must be one of"),
        ("all", {"added": rae.Graph.from_edges([("n000", "n001")])}, "and those of this graph are not directed"),
        ("directed", {"removed": [("n001", "n000")]}, "to remove are not in the graph, first 'n001' to 'n000'"),
        ("directed", {"added": [("n000", "n001")], "removed": [("n000", "n001")]}, "removed and added"),
        ("directed", {"added": [("n000", "n001", 2.0)]}, r"must be \(source, target\) each, .* directed, got 3"),
        ("directed", {"added": [("n000", "n001")], "weight": "w"}, "weight does not go with the run, .* are directed"),
        ("directed", {"added": [("n000", "n001")], "doubled": "count"}, "makes weights, and the edges of the run are"),
    ],
)  # fmt: skip
def test_wrong_updates_are_refused_and_change_nothing(runs, which, arguments, message):
    run = runs[which]
    with pytest.raises(RaeError, match=message):
        run.update(**arguments)
    assert run.n_updates == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"directions": "both"}, r"directions must be 'out' \(from the new node\) or 'in' \(to it\), got 'both'"),
        ({"kinds": "loan"}, "the kind 'loan' was not there"),
        ({"weights": -1}, "weight must hold finite numbers from 0 up, got -1"),
        ({"weights": [1.0, 2.0]}, "weights must be one for each of 1 neighbours, got 2"),
        ({"neighbours": ["who"]}, "1 of 1 neighbours are not in the graph, first 'who'"),
        ({"node": "n003"}, "'n003' is a node of the run already"),
        ({"features": [1.0]}, "structure alone, got features"),
    ],
)
def test_wrong_new_nodes_are_refused(runs, arguments, message):
    values = {"neighbours": ["n000"], "weights": 1.0, "directions": "out", "kinds": "card"} | arguments
    with pytest.raises((GraphError, FeatureError), match=message):
        runs["all"].embed(**values)
    with pytest.raises(GraphError, match="weights do not go with the run, whose edges are directed; leave them out"):
        runs["directed"].embed(neighbours=["n000"], directions="in", weights=1)


def test_one_edge_goes_and_another_changes(tmp_path, small_steps):
    rng = np.random.default_rng(21)
    payments = Payments(rng, "all", rows=60)
    payments.edges |= {(0, 1, "card"): np.float32(25), (1, 0, "wire"): np.float32(3)}
    run = rae.fit_run(payments.graph(), out=tmp_path / "run", page=False)
    updated = run.update(removed=[("n000", "n001", 25.0, "card")], added=[("n001", "n000", 4.5, "wire")])
    assert (updated.removed, updated.changed, updated.added) == (1, 1, 0)
    payments.remove([(0, 1, "card")])
    payments.add([(1, 0, 4.5, "wire")])
    check(run, payments)
    updated = run.update(removed=[("n001", "n000", "wire")], added=[("n001", "n000", 2.0, "wire")])  # another weight
    assert (updated.removed, updated.changed, updated.added) == (0, 1, 0)
    payments.edges[1, 0, "wire"] = np.float32(2)
    check(run, payments)
    assert run.update(added=(["n000"], ["n000"], [1.0], ["wire"])).self_loops == 1
    other = payments.graph().subgraph(["n001", "n000", "n002"])
    updated = run.update(removed=other)
    payments.remove([key for key in payments.edges if max(key[:2]) < 3])
    assert updated.removed == len(other.arcs().source)
    check(run, payments)


@pytest.mark.parametrize("settings", [{}, {"steps": 1, "dims": (8,), "fanout": (5,)}], ids=["exact", "trained"])
@pytest.mark.parametrize("doubled", ["add", "count", "max"])
def test_a_table_that_comes_twice_is_refused_where_its_weights_add_up(tmp_path, small_steps, doubled, settings):
    rng, weight = np.random.default_rng(3), {} if doubled == "count" else {"weight": "amount"}
    columns = {name: rng.integers(30, size=60) for name in ("source", "target")} | {"amount": rng.random(60) + 1}
    config = rae.Config(**settings) if settings else None
    run = rae.fit_run(pa.table(columns), out=tmp_path / "run", page=False, doubled=doubled, config=config, **weight)
    table = pa.table({name: column[:9] for name, column in columns.items()})
    run.update(added=table)
    before = run.graph().to_arrow()
    if doubled == "max":
        run.update(added=table)  # the larger one stays: nothing to spoil
    else:
        for again in (table, table.take(np.arange(9)[::-1])):
            with pytest.raises(GraphError, match=r"an earlier update added this table.* pass again=True"):
                rae.Run.open(run.path).update(added=again)
    assert run.graph().to_arrow().equals(before)
    pairs = list(zip(*(table[name].to_pylist() for name in table.column_names[: 3 if weight else 2]), strict=True))
    for _ in range(2):  # what is written out is meant
        run.update(added=pairs)
    run.update(added=table, again=True)
    run.fold()
    with pytest.raises(GraphError, match="an earlier update") if doubled != "max" else contextlib.nullcontext():
        run.update(added=table)


def test_trained_models_take_a_full_pass_with_weights(tmp_path):
    payments = Payments(np.random.default_rng(22), "all")
    config = rae.Config(steps=2, dims=(8,), fanout=(5,))
    run = rae.fit_run(payments.graph(), out=tmp_path / "run", page=False, config=config)
    rows = payments.draw(6)
    payments.add(rows)
    assert run.update(payments.table(rows), source="payer", target="payee", weight="amount", kind="how").in_full
    check(run, payments)
    assert run.embed(neighbours=["n001"], weights=2, directions="in", kinds="wire").shape == (8,)


def test_vectors_kept_in_half_precision_on_the_way_are_updated_in_full_precision(tmp_path, small_steps):
    payments = Payments(np.random.default_rng(23), "weighted")
    pq.write_table(payments.graph().to_arrow(), tmp_path / "edges.parquet")
    options = {"memory": "4GiB", "half": True, "weight": "weight"}
    run = rae.fit_run(tmp_path / "edges.parquet", out=tmp_path / "run", page=False, **options)
    assert run.info["reading"] == {"weight": "weight"}
    updated = run.update(added=pa.table({"source": ["n000"], "target": ["n001"], "weight": [2.0]}))
    assert updated.in_full
    assert same_bytes(run.embeddings()[1], run.model().transform(run.graph(), units="fit"))
    assert not run.update(added=[("n003", "n001", 2.0)]).in_full


@pytest.mark.parametrize("doubled", ["max", "count"])
@pytest.mark.parametrize("folder", [False, True])
def test_a_run_of_a_graph_knows_how_its_doubled_edges_were_merged(tmp_path, doubled, folder):
    amounts = {"weight": [1.0, 2.0, 5.0, 3.0]} if doubled == "max" else {}
    ends = [("a", "b"), ("a", "b"), ("b", "c"), ("c", "d")]
    graph = rae.Graph.from_edges(ends, doubled=doubled, **amounts)
    if folder:
        write_graph(tmp_path / "graph", graph)
        graph = rae.open_graph(tmp_path / "graph")
    assert graph.doubled == doubled
    run = rae.fit_run(graph, out=tmp_path / "run", page=False)
    for fold in (False, True):
        rows = [("b", "c", 4.0), ("c", "d", 7.0)] if doubled == "max" else [("b", "c"), ("c", "d")]
        run.update(rows, fold=fold)
    weights = np.unique(run.graph().channels["weight"])
    np.testing.assert_array_equal(weights, [2, 5, 7] if doubled == "max" else [2, 3])
    assert run.graph().doubled == doubled


def test_a_node_without_edges_needs_no_weights_and_text_is_no_list_of_ids(tmp_path):
    ends = [("a", "b"), ("b", "c"), ("c", "d"), ("b", "d")]
    graph = rae.Graph.from_edges(ends, weight=[1.0, 2, 3, 4], directed=True, kind=["card"] * 4)
    run = rae.fit_run(graph, out=tmp_path / "run", page=False)
    alone = run.embed(neighbours=[])
    np.testing.assert_array_equal(alone, run.embed(neighbours=["a"], weights=0, directions="in", kinds="card"))
    with pytest.raises(GraphError, match=r"must be a list of ids, got the text 'ab'; write \['ab'\]"):
        run.embed(neighbours="ab", weights=1, directions="in", kinds="card")
    updated = run.update(removed=[("a", "a", "card")])
    assert (updated.removed, updated.self_loops, run.n_updates) == (0, 1, 0)
