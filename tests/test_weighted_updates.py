"""Updates of runs whose edges have weights, directions and kinds: what a full pass over the new graph gives."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

import rae
from rae import updater
from rae.engine import live
from rae.engine.live import Live
from rae.errors import ConfigError, FeatureError, GraphError, RaeError
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


@pytest.fixture
def small_steps(monkeypatch):
    """Nothing is folded in by itself, and a full pass is never cheaper."""
    monkeypatch.setattr(updater, "FOLD_NUMBERS", 0)
    monkeypatch.setattr(updater, "FOLD_SHARE", float("inf"))
    monkeypatch.setattr(live, "MOST_SHARE", float("inf"))


def same_bytes(a, b):
    a, b = np.asarray(a), np.asarray(b)
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


class Payments:
    """Edges with all that a form asks for, kept apart from the run that follows them: {(source, target, kind): weight}."""

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
        given = dict(self.form)
        for name, column in (("weight", "amount"), ("kind", "how")):
            if given.pop(name, False):
                given[name] = column
        return given | {"source": "payer", "target": "payee"}

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
    assert same_bytes(z, run.model().transform(expected, x, units="fit"))
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
            nodes, kept = rows.edit(*arguments)
        else:
            with reference_only():
                nodes, kept = rows.edit(*arguments)
        assert {u, v} <= set(nodes.tolist())
        if edit != CHANGES and rng.random() < 0.3:
            rows.undo(nodes, kept, used)
            assert np.array_equal(rows._numbers(), before)
            continue
        matrix[u, v], matrix[v, u] = out, into
        offsets, targets = rows.lists(np.arange(12))
        for channel, expected in enumerate((matrix, matrix.T)):
            dense = sp.csr_array((rows.weights(channel, np.arange(12), offsets), targets, offsets), shape=(12, 12))
            assert np.array_equal(dense.toarray(), expected)
        us, vs = map(list, zip(*itertools.permutations(range(12), 2), strict=True))
        found, values = rows.values(us, vs)
        assert np.array_equal(found, (matrix + matrix.T)[us, vs] > 0)
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
        done = run.update(added=table, removed=payments.gone(gone), fold=step == 1, **names)
        assert done.removed + done.changed >= len(gone)
        assert not done.in_full
        assert done.new_nodes == 1
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
    assert same_bytes(follows.vectors((0, N)), model.transform(graph, x, units="fit"))
    for _ in range(2):
        u, v = map(int, rng.choice(N, size=2, replace=False))
        there, values = follows.rows.values([u], [v])
        wanted = values[0] + np.float32(rng.random(4)) if there[0] else np.float32(rng.random(4) + 0.5)
        names = list(graph.channels)
        both = np.stack([wanted, wanted[[names.index(rae.graph.channels.mirrored(name)) for name in names]]])
        row = int(rng.integers(N))
        changes = follows.update([u], [v], [CHANGES if there[0] else COMES], [both], features=([row], draw(1)))
        assert not changes.in_full
        now, given = follows.graph(graph.id_column), follows.features.whole_matrix(N)
        assert same_bytes(follows.vectors((0, N)), model.transform(now, given, units="fit"))


@pytest.mark.parametrize("form", ["weighted", "counted", "all"])
def test_a_node_that_is_not_there_yet(form, tmp_path, small_steps):
    rng = np.random.default_rng(5)
    payments = Payments(rng, form)
    run = rae.fit_run(payments.graph(), out=tmp_path / "run", page=False)
    if form == "counted":
        run.info["reading"] = {"doubled": "count"}
    near, directions = [3, 4, 3, 5], ["out", "in", "in", "out"]
    weights, kinds = [2.5, 7.0, 1.25, 0.0 if form != "counted" else 1.0], ["card", "wire", "card", "wire"]
    given = {"weights": weights, "directions": directions, "kinds": kinds}
    asked = {"weights": "weight", "directions": "directed", "kinds": "kind"}
    arguments = {name: value for name, value in given.items() if payments.form.get(asked[name])}
    for _ in range(2):
        vector = run.embed("new", neighbours=[f"n{u:03d}" for u in near], **arguments)
        grown = Payments(rng, form, N, 1)
        grown.n, grown.edges = N + 1, dict(payments.edges)
        rows = zip(near, weights, directions, kinds, strict=True)
        grown.add([(N, u, w, k) if d == "out" else (u, N, w, k) for u, w, d, k in rows if w > 0])
        full = run.model().transform(grown.graph(), units="fit")[N]
        assert same_bytes(vector, full)
        run.update()  # now from the tables on disk
    first = next(iter(arguments))
    for name, value in arguments.items():
        less = {key: other for key, other in arguments.items() if key != name}
        with pytest.raises(
            GraphError, match=f"edges of the run have {name}, got none for the 4 neighbours; pass {name}="
        ):
            run.embed(neighbours=[f"n{u:03d}" for u in near], **less)
    with pytest.raises(GraphError, match=f"{first} must be one for each of 1 neighbours, got {len(value)}"):
        run.embed(neighbours=["n001"], **arguments)
