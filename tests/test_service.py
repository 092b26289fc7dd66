"""A run that answers while it changes: what is in memory, the verbs, HTTP, and processes that end."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import itertools
import json
import os
import shutil
import signal
import socket
import sys
import threading
import time
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pytest

from elsewhere import CONTEXT
from rae import FeatureTable, Graph, fit_run
from rae.edge_trials import EdgeTrials
from rae.errors import (
    Argument,
    ConfigError,
    FeatureError,
    GraphError,
    InUseError,
    MissingExtraError,
    RaeError,
    RunError,
    UnknownIdError,
)
from rae.graph.channels import WeightError
from rae.graph.times import TimeError
from rae.ops.nearest import Scale, nearest_rows
from rae.run import Run
from rae.service import neighbors as neighbors_module
from rae.service import writer as writer_module
from rae.service.answers import VERBS, Answers
from rae.service.names import Names
from rae.service.neighbors import Neighbors
from rae.service.present import Present
from rae.service.rows import Rows
from rae.service.writer import WriterEndedError, WriterProcess, _error_of, _line_of, follow_tables
from rae.updates import SPARE_LEAST, UpdateFolder

ODD = "a/b c?é\n#"


def edges_of(n: int, m: int, seed: int = 0) -> list[tuple[str, str]]:
    drawn = np.random.default_rng(seed).integers(0, n, (m, 2))
    return [(f"u{a}", f"u{b}") for a, b in drawn]


@pytest.fixture(scope="module")
def fitted(tmp_path_factory) -> Path:
    """A run with roles and names whose graph is so thin that an update moves a part of it."""
    folder = tmp_path_factory.mktemp("service") / "run"
    pairs = [(f"u{i}", f"u{i + 300}") for i in range(60)]
    graph = Graph.from_edges([*pairs, *edges_of(600, 600), (ODD, "u1"), (ODD, "u2")])
    run = fit_run(graph, out=folder, page=False)
    run.set_names({"u5": "Ann", "u6": "Bob", "u7": "Bob"})
    run.fit_roles(3)
    return folder


@pytest.fixture
def run(fitted, tmp_path) -> Run:
    shutil.copytree(fitted, tmp_path / "run")
    return Run.open(tmp_path / "run")


@pytest.fixture
def answers(run):
    with Answers.open(run, writable=True) as opened:
        yield opened


# ------------------------------------------------------------------------------------- in memory


def test_rows_are_those_of_an_array_that_was_changed():
    rng = np.random.default_rng(1)
    plain = rng.random((20, 3), np.float32)
    rows = Rows.of([plain[:7], plain[7:]], 20)
    for _ in range(1_500):  # more rows than there is room for at first
        n = len(plain)
        new = int(rng.integers(3))
        changed = np.union1d(rng.choice(n, 4, replace=False), np.arange(n, n + new))
        values = rng.random((len(changed), 3), np.float32)
        rows.put(changed, values)
        plain = np.concatenate([plain, np.zeros((new, 3), np.float32)])
        plain[changed] = values
        some = rng.integers(0, len(plain), 9)
        assert len(rows) == len(plain)
        assert np.array_equal(rows.take(some), plain[some])
        assert np.array_equal(rows.now, plain)
    assert len(rows) > 20 + SPARE_LEAST


@pytest.mark.parametrize(
    "ids", [["b", "Ä/1", "aa", "a", "", "B"], [30, 4, 11, -2, 2**40], [1.5, 2.0, -1.25]], ids=["text", "ints", "floats"]
)
def test_every_id_is_found_as_it_is_shown(ids):
    names = Names(pa.array(ids[:-1]), None)
    names.add(pa.array(ids[-1:]))

    assert [names.row(names.id(row)) for row in range(len(ids))] == list(range(len(ids)))
    with pytest.raises(UnknownIdError, match="there is no node 'nobody'; ids here are such as"):
        names.row("nobody")
    with pytest.raises(UnknownIdError, match=r"there is no node 'x{100}\.\.\.'; ids"):
        names.row("x" * 60_000)


def test_names_lead_to_nodes_and_beginnings_to_several():
    names = Names(pa.array(["x1", "x2", "y1"]), pa.array(["Ann", "ann", None]))
    names.add(pa.array(["X3"]))

    assert (names.row("Ann"), names.row("ann"), names.row("y1"), names.row("X3")) == (0, 1, 2, 3)
    assert names.starting_with("X", 10) == [0, 1, 3]
    assert names.starting_with("an", 1) == [0]
    assert names.starting_with("\ud800", 3) == []
    same = Names(pa.array(["x1", "x2"]), pa.array(["Ann", "Ann"]))
    with pytest.raises(GraphError, match="2 nodes are called 'Ann': ask by id, one of 'x1', 'x2'"):
        same.row("Ann")


def test_new_nodes_are_sorted_in():
    names = Names(pa.array(["b"]), None)
    for id in ("c", "a", "D", "e"):
        names.add(pa.array([id]))

    assert names.starting_with("", 9) == [2, 0, 1, 3, 4]  # in the order of their letters, whenever they came
    assert [names.row(id) for id in "bcaDe"] == list(range(5))


def test_few_vectors_are_searched_as_rae_similar_does():
    z = np.random.default_rng(2).normal(size=(300, 4)).astype(np.float32).round(1)  # with ties
    near = Neighbors(Rows.of([z], len(z)))
    near.put(np.array([5, 300]), np.ones((2, 4), np.float32))
    now = near.vectors.now

    assert near.index.method == "exact"
    for row in (0, 5, 300):
        rows, distances = near.nearest(now[row], 7, row)
        expected = nearest_rows(now, now[row : row + 1], 7, np.array([row]))
        assert (rows.tolist(), distances.tolist()) == (expected[0][0].tolist(), expected[1][0].tolist())


def test_many_vectors_without_faiss_are_searched_too(monkeypatch, caplog):
    monkeypatch.setattr(neighbors_module, "EXACT_ROWS", 50)
    monkeypatch.setitem(sys.modules, "faiss", None)
    z = np.random.default_rng(2).normal(size=(90, 4)).astype(np.float32)
    near = Neighbors(Rows.of([z], len(z)))

    assert "searched one by one, which is slow" in caplog.text
    assert near.nearest(z[3], 2, 3)[0].tolist() == nearest_rows(z, z[3:4], 2, np.array([3]))[0][0].tolist()
    assert len(near.nearest(z[3], 200, 3)[0]) == 89


def test_an_index_follows_vectors_that_change(monkeypatch):
    pytest.importorskip("faiss", reason="the extra search is not installed")
    monkeypatch.setattr(neighbors_module, "EXACT_ROWS", 50)
    monkeypatch.setattr(neighbors_module, "AT_ONCE", 16)
    rng = np.random.default_rng(3)
    z = rng.normal(size=(2000, 8)).astype(np.float32)
    near, n_nearest, asked = Neighbors(Rows.of([z], len(z))), 0, 0
    for _ in range(8):  # most vectors are others in the end
        rows = np.union1d(rng.choice(len(z), 400, replace=False), np.arange(len(z), len(z) + 3))
        values = rng.normal(size=(len(rows), 8)).astype(np.float32)
        z = np.concatenate([z, np.zeros((3, 8), np.float32)])
        z[rows] = values
        near.put(rows, values)
        near.learn(rows, values, contextlib.nullcontext())
        scale = Scale.of(z)
        assert near.scale.unit == pytest.approx(scale.unit, rel=1e-9)
        assert np.allclose(near.scale.mean, scale.mean, atol=1e-9)
        queries = np.concatenate([rows[:10], rng.integers(0, len(z), 20)])
        truth = nearest_rows(z, z[queries], 5, queries)
        for query, expected, far in zip(queries, *truth, strict=True):
            got, distances = near.nearest(z[query], 5, int(query))
            assert query not in got
            assert np.all(np.diff(distances) >= 0)
            n_nearest, asked = n_nearest + int((distances <= far[-1] + 1e-6).sum()), asked + len(expected)
    assert near.index.method == "approximate"
    assert n_nearest / asked >= 0.98
    assert np.array_equal(near.vectors.now, z)


def same_present(one: Present, other: Present) -> None:
    assert one.counts == other.counts
    assert [one.names.id(r) for r in range(len(one.names))] == [other.names.id(r) for r in range(len(other.names))]
    assert np.array_equal(one.neighbors.vectors.now, other.neighbors.vectors.now)
    assert (one.roles is None) == (other.roles is None)
    for a, b in zip(one.roles.parts, other.roles.parts, strict=True) if one.roles else ():
        assert np.array_equal(a.now, b.now)


def test_what_is_in_memory_after_updates_is_what_a_new_process_reads(run):
    now = Present(run, "place=1,around=0.5")
    trials = [
        {"added": [("u1", "new 1"), ("u3", "u4")]},
        {"removed": [("u1", "new 1")]},
        {"added": [("u9", "u10")], "fold": True},
        {"added": [("u10", "new 2")]},
        {"added": [("u11", "u12")]},
        {"fold": True},
        {},
    ]
    for number, trial in enumerate(trials):
        run.update(**{"fold": False} | trial)
        if number == 3:
            continue  # two updates at once
        now.follow(run)
        same_present(now, Present(Run.open(run.path), "place=1,around=0.5"))
        assert now.is_current(run)


def test_half_precision_and_features_follow_too(tmp_path):
    pairs = edges_of(200, 210, seed=4)
    graph = Graph.from_edges(pairs)
    table = FeatureTable(graph.id_column, np.random.default_rng(0).random((graph.n_nodes, 3), np.float32))
    run = fit_run(graph, table, out=tmp_path / "run", page=False, dtype="float16")
    with Answers.open(run, writable=True) as answers:
        answers.edges(added=[["u1", "new"]], features={"new": [1.0, 2.0, 3.0], "u2": [0.0, 0.0, 9.0]})
        answers.edges(added=[["u3", "newer"]], missing="zero")
        same_present(answers.now, Present(Run.open(run.path)))
        rows = run.features()[run.graph().rows(["new", "u2", "newer"])]
        assert np.asarray(rows).tolist() == [[1, 2, 3], [0, 0, 9], [0, 0, 0]]
        vector = answers.embed(["u1", "new"], features=[1.0, 1.0, 1.0]).vector
        assert np.array_equal(np.float32(vector), run.embed(neighbours=["u1", "new"], features=[1.0, 1.0, 1.0]))
        for wrong in ({"u1": [1.0]}, {"u1": [1.0, 2.0, 3.0], "u2": [1.0]}, {"u1": [1.0, 2.0, 3.0], "u2": {"a": 1}}):
            with pytest.raises(FeatureError):
                answers.edges(features=wrong)


def test_features_by_name_are_encoded_as_in_the_fit(tmp_path):
    pairs = edges_of(60, 90, seed=5)
    graph = Graph.from_edges(pairs)
    rows = {"id": graph.ids.tolist(), "age": list(range(graph.n_nodes)), "kind": ["a", "b"] * (graph.n_nodes // 2)}
    rows = {name: values[: len(rows["kind"])] for name, values in rows.items()}
    run = fit_run(graph, pa.table(rows), out=tmp_path / "run", page=False, missing="zero")
    with Answers.open(run, writable=True) as answers:
        answers.edges(features={"u1": {"age": 77, "kind": "b"}})
        names = run.feature_names
        row = np.asarray(run.features()[run.graph().rows(["u1"])[0]])
        assert dict(zip(names, row.tolist(), strict=True))["age"] == 77
        with pytest.raises(FeatureError, match="as many numbers as the model has columns, got 1"):
            answers.edges(features={"u1": [1.0]})


# ------------------------------------------------------------------------------------- verbs


def test_the_verbs_answer_as_the_run_does(run, answers):
    similar = answers.similar("u5", 4)
    expected = run.similar("u5", 4)
    assert [(m.id, m.distance) for m in similar.matches] == [(i, round(float(d), 6)) for i, d in expected.matches]
    assert (similar.id, similar.name, similar.recall) == ("u5", "Ann", 1.0)

    ids, role, confidence, membership = run.role_table()
    row = ids.to_pylist().index("u5")
    answer = answers.role("Ann")
    assert (answer.role, answer.confidence) == (int(role[row]), round(float(confidence[row]), 6))
    assert answer.membership == [round(float(x), 6) for x in membership[row]]
    assert answer.summary == run.card("u5").summary
    assert similar.role == answer.role

    card = answers.card(answer.role)
    assert (card.text, card.size, card.updates_since) == (str(run.card("u5")), run.card("u5").size, 0)
    assert [r.summary for r in answers.roles().roles] == [c["summary"] for c in run.role_record()["cards"]]
    assert [node.id for node in answers.search("u59", 3).nodes] == ["u59", "u590", "u591"]
    assert [node.id for node in answers.search("BOB").nodes] == ["u6", "u7"]


def test_a_new_node_is_embedded_as_the_run_does_before_and_after_updates(run, answers):
    for _ in range(2):
        answer = answers.embed(["u1", "u2"], k=3)
        vector = run.embed(neighbours=["u1", "u2"])
        assert np.array_equal(np.float32(answer.vector), vector)
        assert answer.role == int(run.roles().assign(vector[None]).labels[0])
        assert answer.blocks == {b.name: [b.start, b.stop] for b in run.blocks}
        assert len(answer.matches) == 3
        answers.edges(added=[["u1", "u300"]])
    assert answers.embed(["u1"]).matches == []


def test_a_request_that_comes_twice_adds_its_amounts_twice(tmp_path):
    """Unlike a file: the same amount may be paid twice."""
    edges = edges_of(40, 90)
    run = fit_run(Graph.from_edges(edges, weight=[1.0] * len(edges)), out=tmp_path / "run", page=False)
    with Answers.open(run, writable=True) as answers:
        for _ in range(2):
            answers.edges(added=[{"source": "u1", "target": "fresh", "weight": 2.5}])
    arcs = Run.open(run.path).graph().to_arrow().to_pylist()
    assert [arc["weight"] for arc in arcs if "fresh" in arc.values()] == [5.0]


def test_an_update_is_seen_by_the_next_question(run, answers):
    update = answers.edges(added=[["u1", "fresh"], {"source": "u1", "target": "u2"}][:1], removed=[])
    assert (update.added, update.new_nodes, update.update) == (1, 1, 1)
    expected = Run.open(run.path).similar("fresh", 3)
    assert [m.id for m in answers.similar("fresh", 3).matches] == [id for id, _ in expected.matches]
    assert answers.card(0).updates_since == 1
    update = answers.edges(added=[{"source": "u1", "target": "u400"}], removed=[{"source": "fresh", "target": "u1"}])
    assert (update.added, update.removed) == (1, 1)


@pytest.mark.parametrize(
    ("verb", "arguments", "error", "words"),
    [
        ("similar", {"id": "zz"}, UnknownIdError, "there is no node 'zz'"),
        ("similar", {"id": "u1", "k": 0}, ConfigError, "k must be from 1 to 1,000, got 0"),
        ("embed", {"neighbours": ["u1"], "k": -1}, ConfigError, "k must be from 0 to 1,000"),
        ("embed", {"neighbours": ["zz"]}, GraphError, "1 of 1 neighbours are not in the graph"),
        ("embed", {"neighbours": ["u1"], "id": "u2"}, GraphError, "'u2' is a node of the run already"),
        ("embed", {"neighbours": ["u1"], "features": [1.0]}, FeatureError, "structure alone"),
        ("search", {"q": "u", "limit": 0}, ConfigError, "limit must be from 1 to 100, got 0"),
        ("card", {"role": 3}, UnknownIdError, "there is no role 3; roles here are 0 to 2"),
        ("edges", {"added": [["u1"]]}, GraphError, r"added must be pairs of ids, \[u, v\]"),
        ("edges", {"added": [["u1", "u2", 3.5]]}, GraphError, "must be \\(source, target\\) each, .* got 3 entries"),
        ("edges", {"added": [["u1", "u2"], ["u1", "u2", "u3"]]}, GraphError, "added must be pairs"),
        ("edges", {"added": [{"source": "u1"}]}, GraphError, "added must be pairs"),
        ("edges", {"added": [{"source": "u1", "target": 3}, {"source": 3, "target": "u1"}]}, GraphError, "one kind"),
        ("edges", {"added": [[1, 2]]}, GraphError, "ids of type int64, the run's are string"),
        ("edges", {"removed": [["u1", "zz"]]}, GraphError, "nothing was changed"),
        ("edges", {"features": {"u1": [1.0]}}, FeatureError, "structure alone"),
        ("edges", {"added": [["u1", "u2"]], "missing": "maybe"}, ConfigError, "missing must be one of"),
    ],
)
def test_what_cannot_be_answered_is_refused_and_changes_nothing(answers, verb, arguments, error, words):
    with pytest.raises(error, match=words):
        getattr(answers, verb)(**arguments)
    assert answers.run.n_updates == 0
    assert answers.edges(added=[["u1", "u300"]]).update == 1


def test_new_nodes_and_updates_come_between_the_trials_of_a_reason(run, answers, monkeypatch):
    """Nothing waits for the whole of it; the reason is that of the run unless edges of the node itself change."""
    answer, between, computed = answers.why("u5"), iter(range(10_000)), EdgeTrials._compute
    assert answer.measured == run.why("u5").as_dict()

    def with_others(self, edges):
        if (number := next(between)) % 7 == 3:
            answers.embed(["u1", "u2"])
            answers.edges(added=[["u590", f"far away {number}"]])
        return computed(self, edges)

    monkeypatch.setattr(EdgeTrials, "_compute", with_others)
    with answers._embedding:
        assert not answers._embedding.acquire(blocking=False)
    again = answers.why("u5")
    assert answers.now.number > 3
    assert (again.role, len(again.measured["neighbours"])) == (answer.role, len(answer.measured["neighbours"]))
    assert again.measured["change"] is not None
    live = answers._embeds._session.tables.live
    answers.embed(["u1"])
    full = Run.open(run.path)
    expected = full.model().transform(full.graph(), units="fit")
    assert np.array_equal(live.vectors((0, live.n_nodes)), expected)  # every trial was taken back

    def moving(self, edges):
        answers.edges(added=[["u5", f"near {next(between)}"]])
        return computed(self, edges)

    monkeypatch.setattr(EdgeTrials, "_compute", moving)
    with pytest.raises(RunError, match="the edges of 'u5' change faster than reasons are found"):
        answers.why("u5")


def test_a_refused_update_does_not_make_the_next_one_slow(answers):
    answers.edges(added=[["u1", "u300"]])
    live = answers.run._session.tables.live
    with pytest.raises(GraphError):
        answers.edges(removed=[["u1", "zz"]])
    assert answers.run._session.tables.live is live


def test_an_update_tells_its_followers_of_rows_that_its_memory_held_already(tmp_path, monkeypatch):
    """Memory for new nodes that held the same rows before, as recycled memory may, must not hide that they changed."""
    graph = Graph.from_edges(edges_of(600, 600))
    added = [("x", "y")]
    first = fit_run(graph, out=tmp_path / "first", page=False)
    shutil.copytree(first.path, tmp_path / "second")
    first.update(fold=False)
    follow_tables(first)
    first.update(added, fold=False)
    second = Run.open(tmp_path / "second")
    second.update(fold=False)
    other = Run.open(second.path)
    other.embed(neighbours=["u1"])
    tables = iter([table.copy() for table in first._session.tables.live.tables.values()])
    monkeypatch.setattr("rae.engine.live.aligned_empty", lambda shape: next(tables))
    follow_tables(second)
    monkeypatch.setattr("rae.engine.live.aligned_empty", lambda shape: np.full(shape, 7e20, np.float32))
    follow_tables(other)
    second.update(added, fold=False)
    follow_tables(other)
    assert len(UpdateFolder(second.path).state().log) == 1
    expected = second.model().transform(second.graph(), units="fit")
    assert np.array_equal(other._session.tables.live.vectors((0, len(expected))), expected)


def test_a_run_without_roles_or_without_a_graph_says_so(tmp_path):
    run = fit_run(Graph.from_edges(edges_of(30, 60)), out=tmp_path / "run", page=False)
    with Answers.open(run) as answers:
        assert answers.similar("u1", 1).role is None
        assert answers.embed(["u1"]).role is None
        for ask in (lambda: answers.role("u1"), answers.roles, lambda: answers.card(0)):
            with pytest.raises(RunError, match="has no roles yet; `rae roles"):
                ask()
    lean = fit_run(Graph.from_edges(edges_of(30, 60)), out=tmp_path / "lean", page=False, lean=True)
    with Answers.open(lean) as answers:
        answers.warm_up()
        assert len(answers.similar("u1", 2).matches) == 2
        with pytest.raises(RunError, match="keeps no graph"):
            answers.embed(["u1"])
    with pytest.raises(RunError, match="keeps no graph"), Answers.open(lean, writable=True):
        pass


def test_one_service_at_a_time_has_a_run_and_readers_follow_it(run):
    with Answers.open(run, writable=True) as first:
        with (
            pytest.raises(
                InUseError, match=r"another service or update has .*run; stop .* without changing it: writable=False"
            ),
            Answers.open(Run.open(run.path), writable=True),
        ):
            pass
        with pytest.raises(RunError, match="`rae serve` holds it; nothing was changed"):
            Run.open(run.path).update(added=[("u1", "u2")])
        for find in (lambda: Run.open(run.path).fit_roles(2), lambda: Run.open(run.path).take_roles(run.roles())):
            with pytest.raises(InUseError, match="`rae serve` holds it"):
                find()
        with Answers.open(Run.open(run.path)) as reader:
            first.edges(added=[["u1", "fresh"]])
            assert reader.role("fresh").role == first.role("fresh").role
            with pytest.raises(RunError, match="this service changes nothing"):
                reader.edges(added=[["u1", "u2"]])
    with Answers.open(run, writable=True) as again:
        assert again.now.number == 1


def test_a_service_that_stops_leaves_the_files_of_a_run(run):
    with Answers.open(run, writable=True) as answers:
        answers.edges(added=[["u1", "fresh"]])
        assert answers.now.state.log
        assert not (run.path / "embeddings.parquet").is_file()
    assert (run.path / "embeddings.parquet").is_file()
    assert not (run.path / "updates" / "lock").is_file()


def test_a_long_log_is_written_into_the_files_of_the_run(run, monkeypatch):
    monkeypatch.setattr(writer_module, "LONGEST_LOG", 3)
    with Answers.open(run, writable=True) as answers:
        lengths = []
        for number in range(4):
            answers.edges(added=[["u1", f"fresh {number}"]])
            lengths.append(len(UpdateFolder(run.path).state().log))
        same_present(answers.now, Present(Run.open(run.path)))
    assert lengths == [1, 2, 0, 1]


@pytest.mark.parametrize("how", ["structure", "features"])
def test_updates_between_the_parts_of_a_fold_give_what_a_full_pass_does(how, tmp_path, monkeypatch):
    """Rows of the new base are of several moments; with the log after it they are of one, in memory and on the disk."""
    monkeypatch.setattr("rae.folding.FLUSHED", 4 * 88 * 50)  # rows enough for a dozen parts
    rng = np.random.default_rng(8)
    graph = Graph.from_edges([*((f"u{i}", f"u{i + 300}") for i in range(60)), *edges_of(600, 600)])
    table = None
    if how == "features":
        table = FeatureTable(graph.id_column, rng.random((graph.n_nodes, 3)).astype(np.float32))
    run = fit_run(graph, table, out=tmp_path / "run", page=False)
    run.fit_roles(3)
    options = {"missing": "zero"} if how == "features" else {}
    with Answers.open(run, writable=True) as answers:
        reader = Present(Run.open(run.path))
        answers.embed(["u1"], features=[0.0, 0.0, 1.0] if options else None)
        for number in range(5):
            answers.edges(added=[[f"u{number}", f"old {number}"]], **options)
        reader.follow(run)
        monkeypatch.setattr(Present, "_read_anew", lambda *_: pytest.fail("all was read again"))
        writer, before = answers._writer, UpdateFolder(run.path).state()
        monkeypatch.setattr(writer, "fold_if_long", lambda: None)  # as where a process beside it updates
        monkeypatch.setattr(writer_module, "LONGEST_LOG", 3)
        writer.start_folding()
        monkeypatch.setattr(writer_module, "LONGEST_LOG", 1_000)
        parts = 0
        while writer.is_folding:
            writer.fold_next_part()
            u, v = rng.integers(600, size=2)
            more = {"features": {"u7": [float(parts), 1.0, 2.0]}} if options else {}
            answers.edges(added=[[f"u{u}", f"new {parts}"], [f"u{v}", "u1"]], **more, **options)
            parts += 1
        after = UpdateFolder(run.path).state()
        assert parts > 8
        assert (after.base, after.number) == ("base-0001", before.number + parts)
        assert len(after.log) == parts  # and none of those before
        answers.edges(removed=[["u1", "old 1"]])
        reader.follow(run)
        again = Run.open(run.path)
        model, graph, features = again.model(), again.graph(), again.features()
        expected = model.transform(graph, features, units="fit")
        assert np.array_equal(again.embeddings()[1], expected)
        assert np.array_equal(answers.run._session.tables.live.vectors((0, graph.n_nodes)), expected)
        assert np.array_equal(answers._embeds._session.tables.live.vectors((0, graph.n_nodes)), expected)
        assert np.array_equal(again.role_table()[1], again.roles().assign(expected).labels)
        for present in (answers.now, reader):
            same_present(present, Present(Run.open(run.path)))
    assert (run.path / "embeddings.parquet").is_file()
    assert np.array_equal(Run.open(run.path).embeddings()[1], expected)


def test_a_fold_is_given_up_where_an_update_fails_or_writes_everything_anew(run, monkeypatch):
    monkeypatch.setattr("rae.folding.FLUSHED", 4 * 88 * 50)
    with Answers.open(run, writable=True) as answers:
        writer = answers._writer
        monkeypatch.setattr(writer, "fold_if_long", lambda: None)
        answers.edges(added=[["u1", "fresh"]])
        for trial in ("fails", "in full"):
            monkeypatch.setattr(writer_module, "LONGEST_LOG", 1)
            writer.start_folding()
            monkeypatch.setattr(writer_module, "LONGEST_LOG", 1_000)
            for _ in range(3):
                writer.fold_next_part()
            if trial == "fails":
                with monkeypatch.context() as patch:
                    patch.setattr(UpdateFolder, "append", lambda *_: 1 / 0)
                    with pytest.raises(ZeroDivisionError):
                        answers.edges(added=[["u1", "fresher"]])
            else:
                update = answers.edges(added=[list(edge) for edge in edges_of(600, 900, seed=9)])
                assert update.in_full
            writer.fold_next_part()
            assert not writer.is_folding
            assert (Run.open(run.path).n_updates, len(UpdateFolder(run.path).state().log)) == (
                (1, 1) if trial == "fails" else (2, 0)
            )
            bases = {path.name for path in (run.path / "updates").iterdir() if path.is_dir()}
            assert bases == {UpdateFolder(run.path).state().base}
        answers.edges(added=[["u1", "freshest"]])
        same_present(answers.now, Present(Run.open(run.path)))


def test_a_fold_that_meets_a_full_disk_is_tried_again_later(run, monkeypatch, caplog):
    monkeypatch.setattr(writer_module, "LONGEST_LOG", 1)
    monkeypatch.setattr("rae.folding.EmbeddingWriter.append", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
    with Answers.open(run, writable=True) as answers:
        answers.edges(added=[["u1", "fresh"]])
        answers.edges(added=[["u1", "fresher"]])
        assert caplog.text.count("was not folded in: cannot write") == 1
        monkeypatch.undo()
        monkeypatch.setattr(writer_module, "LONGEST_LOG", 1)
        answers._writer._not_before = 0.0
        answers.edges(added=[["u1", "freshest"]])
        assert UpdateFolder(run.path).state().log == ()


def test_questions_are_answered_while_updates_are_written(run):
    """Readers in several threads, beside updates: no error, and each answer is that of one moment."""
    with Answers.open(run, writable=True) as answers:
        stop, wrong = threading.Event(), []

        def read() -> None:
            rng = np.random.default_rng(threading.get_ident())
            while not stop.is_set():
                try:
                    assert len(answers.similar(f"u{rng.integers(20)}", 3).matches) == 3
                    answers.embed(["u1", "u2"])
                except Exception as error:
                    wrong.append(error)
                    return

        readers = [threading.Thread(target=read) for _ in range(3)]
        for reader in readers:
            reader.start()
        for number in range(6):
            answers.edges(added=[["u1", f"fresh {number}"]], removed=[["u1", f"fresh {number - 1}"]] * (number > 0))
        stop.set()
        for reader in readers:
            reader.join()
        assert wrong == []
        assert np.array_equal(np.float32(answers.embed(["u1"]).vector), Run.open(run.path).embed(neighbours=["u1"]))


def test_a_full_disk_loses_nothing(run):
    import resource

    with Answers.open(run, writable=True) as answers:
        for name in ("the first update", "the next"):
            before = answers.now.number
            limits = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, limits[1]))
            try:
                with pytest.raises(Exception, match=r"larger than the disk allows|[Ff]ile too large") as refused:
                    answers.edges(added=[["u1", name]])
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            from rae.service.http import status_of

            assert status_of(refused.value) == 507
            assert Run.open(run.path).n_updates == answers.now.number == before
            assert answers.edges(added=[["u1", name]]).new_nodes == 1
        same_present(answers.now, Present(Run.open(run.path)))


def test_a_process_beside_it_that_finds_the_run_taken_says_so_and_ends(run, capfd):
    with (
        Answers.open(run, writable=True),
        pytest.raises(RunError, match="another service or update has"),
        Answers.open(Run.open(run.path), writable=True, own_process=True),
    ):
        pass
    assert capfd.readouterr().err == ""


def test_a_process_beside_it_updates_as_this_one_does(run, tmp_path, monkeypatch):
    """The same answers and bytes; errors come over whole; it is started again when it was killed."""
    import resource

    from rae.service.http import status_of

    shutil.copytree(run.path, tmp_path / "other")
    trials = [
        {"added": [["u1", "fresh 1"], ["u2", "u300"]]},
        {"removed": [["u1", "nobody"]]},
        {"added": [["u1", 5]]},
        {"added": [["u1", "u2", 0.5]]},
        {"removed": [["u1", "fresh 1"]], "added": [{"source": "u1", "target": ODD + "2"}]},
        {"features": {"u1": [1.0]}},
        {"added": [["u1", "u2"]], "missing": "maybe"},
    ]
    other = Run.open(tmp_path / "other")
    with Answers.open(run, writable=True) as here, Answers.open(other, writable=True, own_process=True) as in_process:
        in_process.warm_up()
        for trial in trials:
            outcomes = []
            for answers in (here, in_process):
                try:
                    outcomes.append(replace(answers.edges(**trial), seconds=0.0))
                except (RaeError, OSError) as error:
                    outcomes.append((type(error), str(error).replace("other", "run"), status_of(error), error.argument))
            assert outcomes[0] == outcomes[1], trial
        same_present(here.now, in_process.now)
        process, before = in_process._writer._process, in_process.now.number
        limit = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (500, limit[1]))
        with pytest.raises((RaeError, OSError)) as refused:
            in_process.edges(added=[["u1", "on a full disk"]])
        assert status_of(refused.value) == 507
        assert Run.open(other.path).n_updates == before
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, limit)
        process.kill()
        process.wait()
        assert in_process.edges(added=[["u1", "after it"]]).new_nodes == 1
        monkeypatch.setattr(WriterProcess, "_send", lambda self, process, request: process.kill())
        with pytest.raises(WriterEndedError, match="ended before it answered") as ended:
            in_process.edges(added=[["u1", "never sent"]])
        assert status_of(ended.value) == 503
        monkeypatch.undo()
        assert in_process.edges(added=[["u1", "later"]]).update == before + 2
        same_present(in_process.now, Present(Run.open(other.path)))
        assert in_process.embed(["u1", "later"]).vector
    assert (other.path / "embeddings.parquet").is_file()
    assert not (other.path / "updates" / "lock").is_file()


def test_a_bug_in_the_process_beside_it_is_no_users_mistake():
    from rae.service.writer import _error_of, _line_of

    error = _error_of(json.loads(json.dumps(_line_of(ZeroDivisionError("by zero")))))
    assert (type(error), str(error)) == (RuntimeError, "by zero")
    full = GraphError("cannot write ", Argument("features", ...), " to ", Argument("missing", "zero"))
    full.__cause__ = OSError(28, "No space left on device")
    again = _error_of(json.loads(json.dumps(_line_of(full))))
    assert (type(again), again.sentence.parts, again.__cause__.errno) == (GraphError, full.sentence.parts, 28)


def test_a_log_that_cannot_be_folded_in_loses_nothing(run, monkeypatch, caplog):
    monkeypatch.setattr(writer_module, "LONGEST_LOG", 1)

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with Answers.open(run, writable=True) as answers:
        with monkeypatch.context() as patch:
            patch.setattr("rae.folding.write_graph", full)
            assert answers.edges(added=[["u1", "fresh"]]).new_nodes == 1
            patch.undo()
        assert "was not folded in: [Errno 28]" in caplog.text
        assert Run.open(run.path).n_updates == answers.now.number == 1
        assert answers.edges(added=[["u1", "fresher"]]).update == 2


def test_a_run_that_answers_is_not_replaced(run):
    from rae.run_folder import check_free

    with Answers.open(run, writable=True), pytest.raises(RunError, match="or that `rae serve` holds; stop that first"):
        check_free(run.path, force=True)
    check_free(run.path, force=True)


# ------------------------------------------------------------------------------------- HTTP

fastapi = pytest.importorskip("fastapi", reason="the extra serve is not installed")
pytest.importorskip("prometheus_client", reason="the extra serve is not installed")

from starlette.testclient import TestClient  # noqa: E402

from rae.service.http import bound_socket, is_loopback, make_app, sentence_of, status_of  # noqa: E402
from rae.service.limits import Limits  # noqa: E402


def client_of(answers, **options) -> TestClient:
    return TestClient(make_app(answers, **options), base_url="http://localhost", raise_server_exceptions=False)


@pytest.fixture
def client(answers):
    return client_of(answers)


def test_every_verb_has_an_address_and_answers_json(answers, client):
    def plain(answer):
        from dataclasses import asdict

        return json.loads(json.dumps(asdict(answer)))

    assert client.get("/similar/u5?k=3").json() == plain(answers.similar("u5", 3))
    assert client.get("/role/u5").json() == plain(answers.role("u5"))
    assert client.get("/card/1").json() == plain(answers.card(1))
    assert client.get("/roles").json() == plain(answers.roles())
    assert client.get("/search?q=u1&limit=2").json() == plain(answers.search("u1", 2))
    body = {"neighbours": ["u1", "u2"], "k": 1}
    assert client.post("/embed", json=body).json() == plain(answers.embed(**body))
    response = client.post("/edges", json={"added": [["u1", "fresh"]]})
    assert (response.status_code, response.json()["new_nodes"]) == (200, 1)
    assert client.get("/role/fresh").status_code == 200
    paths = client.get("/openapi.json").json()["paths"]
    assert {verb.path for verb in VERBS} <= set(paths)
    page = client.get("/").text
    assert all(verb.path in page for verb in VERBS)
    assert "http" not in page.replace("<!doctype html>", "").replace("https", "http").split("<h1>")[1].split("<p>")[0]


def test_an_id_may_have_any_character(client):
    reply = client.get(f"/similar/{quote(ODD, safe='')}?k=1")
    assert (reply.status_code, reply.json()["id"]) == (200, ODD)
    assert client.get(f"/role/{quote(ODD, safe='')}").json()["id"] == ODD
    assert client.get("/similar/a/b%20c?k=1").status_code == 404
    assert client.post("/edges", json={"added": [["u1", "x/../y"]]}).status_code == 200
    assert client.get("/role/x%2F..%2Fy").json()["id"] == "x/../y"


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "words"),
    [
        ("GET", "/similar/zz", None, 404, "there is no node 'zz'"),
        ("GET", "/similar/", None, 404, "there is no such address; GET / lists them"),
        ("GET", "/card/9", None, 404, "there is no role 9"),
        ("GET", "/card/x", None, 422, "role: input should be a valid integer"),
        ("GET", "/similar/u1?k=ten", None, 422, "k: input should be"),
        ("GET", "/similar/u1?k=99999", None, 422, "k must be from 1 to 1,000"),
        ("GET", "/search", None, 422, "q: field required"),
        ("GET", "/edges", None, 405, "there is no such address"),
        ("POST", "/embed", b'{"neighbours": [', 400, "the body is not JSON"),
        ("POST", "/edges", b'{"added": ' + b"[" * 50_000 + b"]" * 50_000 + b"}", 400, "the body is not JSON that can"),
        ("POST", "/embed", b"[]", 422, "the body: "),
        ("POST", "/edges", b'{"added": [["u1", null]]}', 422, "added.0.1: input should be a valid"),
        ("POST", "/embed", b'{"neighbours": [true]}', 422, "neighbours.0"),
        ("POST", "/embed", b'{"neighbours": ["zz"]}', 422, "neighbours are not in the graph, first 'zz'"),
        ("POST", "/embed", b'{"neighbours": ["u1"], "features": [1, 2]}', 422, "structure alone"),
        ("POST", "/edges", b'{"adds": []}', 422, "adds: extra inputs are not permitted"),
        ("POST", "/edges", b'{"added": [["u1", 5]]}', 422, "the run's are string"),
        ("POST", "/edges", b'{"removed": [["u1", "u599"]]}', 422, "nothing was changed"),
    ],
)
def test_a_bad_request_has_its_status_and_one_sentence(client, method, path, body, status, words):
    reply = client.request(method, path, content=body, headers={"content-type": "application/json"} if body else {})
    assert (reply.status_code, list(reply.json())) == (status, ["error"])
    assert words in reply.json()["error"]
    assert "\n" not in reply.json()["error"]
    assert client.get("/healthz").json()["updates"] == 0


def test_errors_have_statuses_and_arguments_are_fields_of_a_request():
    from rae.errors import FileError

    full = FileError("cannot write: the disk is full")
    full.__cause__ = OSError(28, "No space left on device")
    assert [status_of(e) for e in (full, OSError(28, "x"), FileError("x"), MissingExtraError("a", "b", "c"))] == [
        507,
        507,
        500,
        501,
    ]
    sentence = sentence_of(FeatureError("pass ", Argument("missing", "zero"), " or ", Argument("features", ...)))
    assert sentence == 'pass "missing": "zero" or "features"'
    assert sentence_of(OSError("a\nb")) == "a"


def test_a_bug_is_said_to_be_one(answers, client, monkeypatch):
    monkeypatch.setattr(answers.now.names.__class__, "row", lambda *_: 1 / 0)
    reply = client.get("/role/u1")
    assert (reply.status_code, "a bug in rae" in reply.json()["error"]) == (500, True)


def test_only_this_machine_is_answered_unless_there_is_a_token(answers):
    here = client_of(answers)
    for host in ("evil.example", "localhost.evil.example", "127.0.0.1.nip.io:80", "", "[::1"):
        assert here.get("/healthz", headers={"host": host}).status_code == 403, host
    for host in ("localhost:8471", "127.0.0.1", "[::1]:8471", "LOCALHOST"):
        assert here.get("/healthz", headers={"host": host}).status_code == 200, host
    assert here.get("/roles", headers={"origin": "http://evil.example"}).status_code == 403
    assert here.get("/roles", headers={"origin": "http://localhost"}).status_code == 200
    assert here.post("/edges", content=b"{}", headers={"content-type": "text/plain"}).status_code == 415

    other = client_of(answers, token="sesame", only_here=False)
    assert other.get("/healthz", headers={"host": "service.example"}).status_code == 200
    for header in (None, "sesame", "Bearer wrong", "Basic sesame", "Bearer sesameé".encode()):
        reply = other.get("/roles", headers={} if header is None else {"authorization": header})
        assert (reply.status_code, reply.headers["www-authenticate"]) == (401, "Bearer")
    assert other.get("/roles", headers={"authorization": "Bearer sesame"}).status_code == 200
    assert [is_loopback(h) for h in ("localhost", "127.0.0.5", "::1", "0.0.0.0", "example.org")] == [True] * 3 + [
        False
    ] * 2


def test_a_request_that_is_too_large_is_refused_before_it_is_read(answers):
    small = client_of(answers, limits=Limits(body=100))
    large = json.dumps({"added": [["u1", "x" * 200]]}).encode()
    headers = {"content-type": "application/json"}
    for content in (large, iter([large[:60], large[60:]])):  # the second without a length
        reply = small.post("/edges", content=content, headers=headers)
        assert (reply.status_code, "at most 100 B" in reply.json()["error"]) == (413, True)
    assert small.post("/edges", content=b"{}", headers={**headers, "content-length": "x"}).status_code == 413
    assert answers.run.n_updates == 0


def ask(app, method="GET", path="/roles", body=(), headers=()) -> tuple[int, bytes]:
    """The answer of an application to a request whose parts come when `body` says so."""
    sent = []
    coming = iter(body)

    async def receive():
        wait, part = next(coming, (0, b""))
        await asyncio.sleep(wait)
        return {"type": "http.request", "body": part, "more_body": bool(part)}

    async def send(message):
        sent.append(message)

    chunked = [(b"transfer-encoding", b"chunked")] if body else []
    named = [(b"host", b"localhost"), (b"content-type", b"application/json"), *chunked, *headers]
    scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "headers": named,
             "query_string": b"", "http_version": "1.1", "scheme": "http", "root_path": ""}  # fmt: skip
    return app(scope, receive, send), sent


def test_a_request_that_does_not_arrive_is_given_up(answers):
    app = make_app(answers, limits=Limits(seconds=0.05))
    call, sent = ask(app, "POST", "/edges", [(0, b"{"), (5, b"}")])
    asyncio.run(call)
    assert sent[0]["status"] == 408
    assert b"did not arrive within 0.05 s" in sent[1]["body"]


def test_bodies_that_come_slowly_keep_no_question_from_its_answer(answers):
    app = make_app(answers, limits=Limits(requests=2, seconds=1))

    async def trial():
        slow = [ask(app, "POST", "/edges", [(0, b"{"), (5, b"}")]) for _ in range(2)]
        waiting = [asyncio.ensure_future(call) for call, _ in slow]
        await asyncio.sleep(0.05)
        others = [ask(app, path="/role/u1"), ask(app, "POST", "/edges", [(0, b"{}")])]
        for call, _ in others:
            await call
        await asyncio.gather(*waiting)
        return [sent[0]["status"] for _, sent in (*others, *slow)], others[1][1]

    statuses, refused = asyncio.run(trial())
    assert statuses == [200, 503, 408, 408]
    assert (b"connection", b"close") in refused[0]["headers"]


@pytest.mark.parametrize(
    "error", [WeightError(3, 1, -2.0, 1), TimeError(2, None, "dates"), RunError("y"), ValueError("z")]
)
def test_an_error_of_the_process_that_updates_is_of_the_same_family(error):
    came = _error_of(json.loads(json.dumps(_line_of(error))))
    assert str(came) == str(error)
    assert isinstance(came, RaeError) == isinstance(error, RaeError)
    assert isinstance(came, GraphError) == isinstance(error, GraphError)


def test_more_requests_than_can_be_answered_are_told_to_come_back(answers, monkeypatch):
    app = make_app(answers, limits=Limits(requests=1, updates=1))
    release = threading.Event()
    entered = threading.Event()
    real = answers.run.__class__.update

    def slow(self, *args, **options):
        entered.set()
        release.wait(5)
        return real(self, *args, **options)

    monkeypatch.setattr(answers.run.__class__, "update", slow)

    async def trial():
        body = [(0, b'{"added": [["u1", "x"]]}')]
        first, first_sent = ask(app, "POST", "/edges", body)
        running = asyncio.ensure_future(first)
        await asyncio.to_thread(entered.wait, 5)
        second, second_sent = ask(app)
        await second
        health, health_sent = ask(app, path="/healthz")
        await health
        app.limits = Limits(requests=9)
        third, third_sent = ask(app, "POST", "/edges", body)
        await third
        release.set()
        await running
        return [sent[0]["status"] for sent in (first_sent, second_sent, health_sent, third_sent)], third_sent

    statuses, refused = asyncio.run(trial())
    assert statuses == [200, 503, 200, 503]
    assert b"nothing was changed" in refused[1]["body"]
    assert (b"retry-after", b"1") in refused[0]["headers"]


def test_questions_that_take_long_leave_room_for_others(answers, monkeypatch):
    release, entered = threading.Event(), threading.Event()

    def slow(*_, **__):
        entered.set()
        release.wait(5)
        raise RunError("it took long")

    monkeypatch.setattr("rae.service.answers.why_of", slow)
    app = make_app(answers, limits=Limits(updates=1))

    async def trial():
        first, first_sent = ask(app, path="/why/u1")
        running = asyncio.ensure_future(first)
        await asyncio.to_thread(entered.wait, 5)
        statuses = []
        for path, method, body in (
            ("/why/u2", "GET", ()),
            ("/role/u1", "GET", ()),
            ("/edges", "POST", [(0, b'{"added": [["u1", "x"]]}')]),
        ):
            call, sent = ask(app, method, path, body)
            await call
            statuses.append(sent[0]["status"])
        release.set()
        await running
        return [*statuses, first_sent[0]["status"]]

    assert asyncio.run(trial()) == [503, 200, 200, 409]


def test_metrics_count_requests_and_say_how_large_the_graph_is(client):
    client.get("/role/u1")
    client.get("/role/zz")
    text = client.get("/metrics").text
    assert 'rae_request_seconds_count{status="200",verb="role"} 1.0' in text
    assert 'rae_request_seconds_count{status="404",verb="role"} 1.0' in text
    assert "process_resident_memory_bytes" in text
    assert f"rae_nodes {client.get('/healthz').json()['nodes']}.0" in text


# ------------------------------------------------------------------------------------- processes


def free_port() -> int:
    with bound_socket("127.0.0.1", 0) as listener:
        return int(listener.getsockname()[1])


def fetch(port: int, path: str, body: object = None) -> dict:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", data, {"Content-Type": "application/json"} if data else {}
    )
    with urllib.request.urlopen(request, timeout=30) as reply:
        return json.load(reply)


def wait_until_it_answers(port: int, process=None) -> None:
    for _ in range(600):
        try:
            fetch(port, "/healthz")
            return
        except (urllib.error.URLError, OSError):
            assert process is None or process.is_alive()
            time.sleep(0.05)
    raise AssertionError("the service did not start")


def _serve_elsewhere(path: str, port: int, *more: str) -> None:
    from rae.cli import main

    sys.exit(main(["--quiet", "serve", path, "--port", str(port), *more]))


@contextlib.contextmanager
def service_elsewhere(run, *more):
    port = free_port()
    process = CONTEXT.Process(target=_serve_elsewhere, args=(str(run.path), port, *more))
    process.start()
    try:
        wait_until_it_answers(port, process)
        yield process, port
    finally:
        if process.is_alive():
            process.kill()
        process.join()


def test_no_acknowledged_update_is_lost_when_the_service_is_killed(run):
    acknowledged, lock = [], threading.Lock()
    with service_elsewhere(run) as (process, port):
        with pytest.raises(RunError, match="`rae serve` holds it"):
            Run.open(run.path).update(added=[("u1", "u2")])

        def post(name: str) -> None:
            number = 0
            with contextlib.suppress(urllib.error.URLError, http.client.HTTPException, OSError, ValueError):
                while True:
                    edge = [f"u{number % 50}", f"{name}/50%2F ?#é {number}"]
                    fetch(port, "/edges", {"added": [edge]})
                    with lock:
                        acknowledged.append(edge)
                    assert fetch(port, f"/role/{quote(edge[1], safe='')}")["id"] == edge[1]
                    number += 1

        posting = [threading.Thread(target=post, args=(name,)) for name in "ab"]
        for thread in posting:
            thread.start()
        for _ in range(1000):
            if len(acknowledged) >= 12:
                break
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGKILL)
        for thread in posting:
            thread.join()
    again = Run.open(run.path)
    graph = again.graph()
    assert len(acknowledged) >= 12
    assert all(graph.adjacent(*(graph.rows([id]) for id in edge))[0] for edge in acknowledged)
    with Answers.open(again, writable=True) as answers:  # the lock went with the process
        assert answers.role(acknowledged[-1][1]).id == acknowledged[-1][1]


def test_a_connection_without_a_request_is_closed_and_one_with_some_is_kept(run):
    """Slow loris: a head that comes byte by byte gives no more time than none at all."""
    with service_elsewhere(run, "--timeout", "1", "--read-only") as (_, port):
        idle = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        silent, slow = (socket.create_connection(("127.0.0.1", port), timeout=20) for _ in range(2))
        closed = threading.Event()

        def trickle() -> None:
            with contextlib.suppress(OSError):
                for byte in itertools.cycle(b"GET /roles HTTP/1.1 "):
                    slow.sendall(bytes([byte]))
                    if closed.wait(0.1):
                        return

        for nonsense in (b"NONSENSE\r\n\r\n", b"GET /healthz HTTP/1.1\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", port), timeout=20) as odd:
                odd.sendall(nonsense)
                head, _, body = odd.makefile("rb").read().partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 400")
            assert json.loads(body) == {"error": "this is no HTTP request that can be read"}
        trickling = threading.Thread(target=trickle)
        trickling.start()
        for _ in range(8):
            idle.request("GET", "/healthz")
            assert idle.getresponse().read()
            time.sleep(0.2)
        assert silent.recv(10) == b""
        with contextlib.suppress(ConnectionResetError):
            assert slow.recv(10) == b""
        closed.set()
        trickling.join()
        for one in (idle, silent, slow):
            one.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_service_that_is_asked_to_stop_finishes_what_it_does(run, rae, number, monkeypatch):
    """In this process: a thread asks, sends the signal while an update is being written, and gets its answer."""
    port, replies = free_port(), []
    entered = threading.Event()
    real = WriterProcess.edges

    def slow(self, *args):
        entered.set()
        time.sleep(0.3)
        return real(self, *args)

    monkeypatch.setattr(WriterProcess, "edges", slow)

    def use() -> None:
        wait_until_it_answers(port)
        posting = threading.Thread(target=lambda: replies.append(fetch(port, "/edges", {"added": [["u1", "last"]]})))
        posting.start()
        entered.wait(10)
        os.kill(os.getpid(), number)
        posting.join()

    using = threading.Thread(target=use)
    using.start()
    code, out, err = rae("serve", run.path, "--port", port)
    using.join()
    assert code == 0, err
    assert f"http://127.0.0.1:{port}/" in out
    assert "stopped" in err
    assert replies[0]["new_nodes"] == 1
    assert Run.open(run.path).n_updates == 1
    assert not (run.path / "updates" / "lock").is_file()


# ------------------------------------------------------------------------------------- the command


def test_another_host_needs_a_token(run, rae, tmp_path, monkeypatch):
    monkeypatch.delenv("RAE_TOKEN", raising=False)
    code, _, err = rae("serve", run.path, "--host", "0.0.0.0")
    assert (code, "lets other machines in, which need a token: give --token-file" in err) == (2, True)
    (tmp_path / "token").write_text("two words")
    code, _, err = rae("serve", run.path, "--token-file", tmp_path / "token")
    assert (code, "must hold one token" in err) == (2, True)
    code, _, err = rae("serve", run.path, "--token-file", tmp_path / "none")
    assert (code, "no such file" in err) == (2, True)


def test_a_token_is_asked_for_by_the_command(run, rae, tmp_path, monkeypatch):
    (tmp_path / "token").write_text("sesame\n")
    settings = {}

    def pretend(app, listener):
        settings.update(token=app._token, only_here=app._only_here, limits=app.limits)

    monkeypatch.setattr("rae.service.http.serve", pretend)
    flags = ("--host", "0.0.0.0", "--port", 0, "--token-file", tmp_path / "token", "--read-only", "--max-body", 77)
    code, _, err = rae("serve", run.path, *flags, "--threads", 1)
    assert code == 0, err
    assert (settings["token"], settings["only_here"], settings["limits"].body) == (b"sesame", False, 77)


def test_what_keeps_a_service_from_starting_is_said(run, rae, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, _, err = rae("serve", run.path, "--port", taken.getsockname()[1])
        assert (code, "cannot listen on 127.0.0.1" in err) == (2, True)
    with Answers.open(run, writable=True):
        code, _, err = rae("serve", run.path, "--port", 0)
        assert (code, "another service or update has" in err) == (2, True)
        assert "stop that one first, or ask without changing it: --read-only" in err
    info = json.loads((run.path / "run.json").read_text())
    (run.path / "run.json").write_text(json.dumps(info | {"format_version": 99}))
    code, _, err = rae("serve", run.path)
    assert (code, "has format version 99, this rae reads up to 1; upgrade rae" in err) == (2, True)


def test_without_its_libraries_the_command_says_what_to_install(run, rae, monkeypatch):
    import importlib.util

    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name in ("uvicorn", "mcp") else find_spec(name)
    )
    code, _, err = rae("serve", run.path)
    assert (code, "`rae serve` needs uvicorn; install it with: pip install" in err) == (2, True)
    code, _, err = rae("mcp", run.path)
    assert (code, "`rae mcp` needs mcp; install it with: pip install" in err) == (2, True)
