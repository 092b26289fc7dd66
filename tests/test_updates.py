"""Update = recompute: after any updates a run is what a full pass over its new graph gives, byte for byte."""

from __future__ import annotations

import json
import shutil
import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rae
from elsewhere import exit_code
from rae import updater
from rae.engine import live
from rae.errors import CheckpointError, FeatureError, GraphError, RunError
from rae.run import Run
from rae.updates import STATE, UpdateFolder

N = 120


def random_edges(rng, n=N, m=170):
    pairs = rng.integers(n, size=(m, 2))
    return {(int(min(u, v)), int(max(u, v))) for u, v in pairs if u != v}


def names(edges):
    return [(f"n{u:03d}", f"n{v:03d}") for u, v in sorted(edges)]


def graph_of(edges, n=N):
    ids = [f"n{u:03d}" for u in range(n)]
    return rae.Graph.from_edges(names(edges), ids=ids) if edges else rae.Graph.from_edges([], ids=ids)


def table_of(rows, values):
    ids = pa.array([f"n{u:03d}" for u in rows])
    return rae.FeatureTable(ids, np.asarray(values, np.float32), tuple("abcde"))


def new_run(path, edges, features=None, **options):
    return rae.fit_run(graph_of(edges), features, out=path, page=False, **options)


def same_bytes(a, b):
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


def check(run, edges, n, x=None):
    """The run, opened anew, is the full pass over this graph."""
    run = Run.open(run.path)
    ids, z = run.embeddings()
    expected = graph_of(edges, n)
    assert ids.to_pylist() == expected.id_column.to_pylist() == run.ids().to_pylist()
    assert same_bytes(z, run.model().transform(expected, x, units="fit", whole=True))
    graph = run.graph()
    assert graph.offsets.tolist() == expected.offsets.tolist()
    assert graph.targets.tolist() == expected.targets.tolist()
    assert graph.id_column.equals(expected.id_column)
    assert [run.counts[name] for name in ("nodes", "edges", "isolated")] == [n, len(edges), expected.n_isolated]
    if x is not None:
        assert same_bytes(np.asarray(run.features()), x)


def edit(rng, edges, n, new, count=5):
    """Edges to add and to remove; `edges` follows."""
    gone = [edge for edge in sorted(edges) if rng.random() < 2 / max(len(edges), 1)][:count]
    come = random_edges(rng, n + new, count) - edges
    edges -= set(gone)
    edges |= come
    return names(come), names(gone)


# ------------------------------------------------------------------------------------- the law


@pytest.mark.parametrize("folds", [False, True])
def test_updates_are_what_a_full_pass_gives(tmp_path, small_steps, folds):
    rng = np.random.default_rng(3)
    edges, n = random_edges(rng), N
    run = new_run(tmp_path / "run", edges)
    before = run.embeddings()[1]
    assert same_bytes(before, run.model().transform(graph_of(edges), units="fit", whole=True))
    for step in range(5):
        new = int(rng.integers(0, 3))
        added, removed = edit(rng, edges, n, new)
        isolated = [f"n{u:03d}" for u in range(n, n + new)]
        updated = run.update(added=[*added, *((u, u) for u in isolated)], removed=removed, fold=folds and step % 2 == 1)
        # new nodes are appended in the order of their first edge: the ids here ascend, so row order is made to match
        n += new
        assert (updated.number, updated.added, updated.removed) == (step + 1, len(added), len(removed))
        assert updated.new_nodes == new
        assert not updated.in_full
        ids, z = Run.open(run.path).embeddings()
        expected = rae.Graph.from_edges(names(edges), ids=ids)
        assert same_bytes(z, run.model().transform(expected, units="fit", whole=True))
        assert Run.open(run.path).graph().targets.tolist() == expected.targets.tolist()
        assert (run.path / "embeddings.parquet").is_file() == (folds and step % 2 == 1)
    run.fold()
    assert not Run.open(run.path)._updates.state().log
    assert same_bytes(rae.read_embeddings(run.path / "embeddings.parquet")[1], z)
    assert rae.open_graph(run.path / "graph", verify=True).targets.tolist() == expected.targets.tolist()


def test_features_that_change_and_come(tmp_path, small_steps):
    rng = np.random.default_rng(4)
    edges, n = random_edges(rng), N
    x = rng.normal(size=(n, 5)).astype(np.float32)
    run = new_run(tmp_path / "run", edges, table_of(range(n), x))
    for fold in (False, False, True, False):
        added, removed = edit(rng, edges, n, 0)
        newcomer = (n - 1, n)
        edges.add(newcomer)
        rows = [int(rng.integers(n)), n]
        values = rng.normal(size=(2, 5)).astype(np.float32)
        run.update(added=[*added, *names({newcomer})], removed=removed, features=table_of(rows, values), fold=fold)
        x = np.vstack([x, values[1:]])
        x[rows] = values
        n += 1
        check(run, edges, n, x)


def test_a_run_opened_before_an_update_of_another_sees_it(tmp_path, small_steps):
    rng = np.random.default_rng(5)
    edges = random_edges(rng)
    first = new_run(tmp_path / "run", edges)
    second = Run.open(first.path)
    for run in (first, second, first, second):
        added, removed = edit(rng, edges, N, 0)
        run.update(added, removed)
        check(first, edges, N)
    first.fold()
    added, removed = edit(rng, edges, N, 0)
    second.update(added, removed)
    check(first, edges, N)


def test_trained_models_take_a_full_pass(tmp_path):
    rng = np.random.default_rng(6)
    edges = random_edges(rng)
    run = new_run(tmp_path / "run", edges, config=rae.Config(steps=2, dims=(8,), fanout=(5,)))
    added, removed = edit(rng, edges, N, 0)
    updated = run.update(added, removed)
    assert updated.in_full
    assert len(updated.moved) == N
    check(run, edges, N)
    assert run.embed("x", neighbours=["n000"]).shape == (8,)


def test_small_runs_and_long_logs_are_folded_in(tmp_path, monkeypatch):
    rng = np.random.default_rng(7)
    edges = random_edges(rng)
    run = new_run(tmp_path / "run", edges)
    assert run.update(*edit(rng, edges, N, 0)).folded
    monkeypatch.setattr(updater, "FOLD_NUMBERS", 0)
    monkeypatch.setattr(updater, "FOLD_SHARE", 1.5)
    monkeypatch.setattr(live, "MOST_SHARE", float("inf"))
    folded = [run.update(*edit(rng, edges, N, 0, count=1)).folded for _ in range(6)]
    assert set(folded) == {False, True}
    check(run, edges, N)


def test_half_precision_stays(tmp_path, small_steps):
    rng = np.random.default_rng(8)
    edges = random_edges(rng)
    run = new_run(tmp_path / "run", edges, dtype="float16")
    run.update(*edit(rng, edges, N, 0))
    full = run.model().transform(graph_of(edges), units="fit", whole=True).astype(np.float16).astype(np.float32)
    assert same_bytes(run.embeddings()[1], full)
    run.fold()
    assert same_bytes(run.embeddings()[1], full)
    assert pq.read_schema(run.path / "embeddings.parquet").field("embedding").type.value_type == pa.float16()


# ------------------------------------------------------------------------------------- what else a run has


def test_roles_names_and_cards_follow(tmp_path, small_steps, caplog):
    rng = np.random.default_rng(9)
    edges = random_edges(rng)
    run = rae.fit_run(graph_of(edges), out=tmp_path / "run", page=False, names={"n001": "one"})
    roles = run.fit_roles(3)
    run.explore()
    run.update([*edit(rng, edges, N, 0)[0], ("n000", "new")])
    assert "showed the state before this update and is gone" in caplog.text
    assert run.roles_behind == 1
    ids, role, sure, shares = run.role_table()
    assigned = roles.assign(run.embeddings()[1])
    assert role.tolist() == assigned.labels.tolist()
    assert np.allclose(shares, assigned.memberships, atol=1e-6)
    assert np.allclose(sure, assigned.confidence, atol=1e-6)
    assert len(run.names()) == len(ids) == N + 1
    run.card("new")
    assert "of the run before the last update" in caplog.text
    assert run.similar("new", 3).matches
    assert run.explore().path.is_file()  # with the node that came later
    run.fold()
    assert run.role_table()[1].tolist() == role.tolist()
    assert rae.Roles.load(run.path / "roles.safetensors").n_roles == 3
    run.fit_roles(2)
    assert run.roles_behind == 0
    run.update(removed=[("n000", "new")])
    assert run.role_table()[3].shape == (N + 1, 2)
    run.set_names({"new": "newcomer"})
    assert run.names()[N].as_py() == "newcomer"


def test_a_run_that_is_replaced_forgets_its_updates(tmp_path, small_steps):
    rng = np.random.default_rng(10)
    edges = random_edges(rng)
    run = new_run(tmp_path / "run", edges)
    run.update(*edit(rng, edges, N, 0))
    again = random_edges(rng)
    run = new_run(tmp_path / "run", again, force=True)
    assert not (run.path / "updates").exists()
    check(run, again, N)


# ------------------------------------------------------------------------------------- one node


def test_a_node_that_is_not_there_yet(tmp_path, small_steps):
    rng = np.random.default_rng(11)
    edges = random_edges(rng)
    x = rng.normal(size=(N, 5)).astype(np.float32)
    for features in (None, x):
        table = None if features is None else table_of(range(N), x)
        run = new_run(tmp_path / f"run{features is None}", edges, table)
        own = None if features is None else [1.0, 2.0, 0.0, 0.0, -1.0]
        for _ in range(2):
            vector = run.embed("new", neighbours=["n003", "n004", "n003"], features=own)
            grown = graph_of(edges | {(3, N), (4, N)}, N + 1)
            stacked = None if features is None else np.vstack([x, np.float32([own])])
            assert same_bytes(vector, run.model().transform(grown, stacked, units="fit", whole=True)[N])
            run.update([("n000", "n119")] if (0, 119) not in edges else None)
            edges = edges | {(0, 119)}
        edges = edges - {(0, 119)}
    by_name = run.embed(neighbours=["n003", "n004"], features={"a": 1, "b": 2, "e": -1})
    assert same_bytes(by_name, run.embed(neighbours=["n003", "n004"], features=own))
    with pytest.raises(FeatureError, match="knows no feature 'z'; it has 5 by name"):
        run.embed(neighbours=["n003"], features={"z": 1})
    with pytest.raises(FeatureError, match="fitted on 5 feature columns, got 2"):
        run.embed(neighbours=["n003"], features=[1, 2])
    with pytest.raises(FeatureError, match="fitted with 5 features, got none for the new node; pass features="):
        run.embed(neighbours=["n003"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"node": "n001", "neighbours": ["n002"]}, "'n001' is a node of the run already"),
        ({"node": "x", "neighbours": ["n002", "who"]}, "1 of 2 neighbours are not in the graph, first 'who'"),
        ({"node": 7, "neighbours": ["n002"]}, "new nodes have ids of type int64, the run's are string"),
        ({"node": "x", "neighbours": [3]}, "neighbours have ids of type int64"),
        ({"node": "x", "neighbours": ["n002"], "features": [1.0]}, "structure alone, got features"),
    ],
)
def test_wrong_new_nodes_are_refused(tmp_path_factory, arguments, message):
    run = _shared_run(tmp_path_factory)
    with pytest.raises((GraphError, FeatureError), match=message):
        run.embed(**arguments)


_RUNS: dict[str, Run] = {}


def _shared_run(factory, features=False):
    key = str(features)
    if key not in _RUNS:
        rng = np.random.default_rng(12)
        x = table_of(range(N), rng.normal(size=(N, 5))) if features else None
        _RUNS[key] = new_run(factory.mktemp("kept") / "run", random_edges(rng) - {(0, 1)} | {(2, 3)}, x)
    return _RUNS[key]


# ------------------------------------------------------------------------------------- bad input


OTHER = [(f"x{i}", f"y{i}") for i in range(20)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"removed": [("n000", "n001")]},
            "1 of 1 edges to remove are not in the graph, first 'n000' to 'n001'; nothing",
        ),
        ({"removed": [("n002", "n003"), ("n000", "who")]}, "first 'n000' to 'who', whose ends are not both nodes"),
        ({"added": OTHER}, "none of the 20 edges to add has an end that is a node of the run, .* another graph"),
        ({"added": [(1, 2)]}, "edges to add have ids of type int64, the run's are string"),
        ({"added": [("n003", "n002")], "removed": [("n002", "n003")]}, "removed and added, first 'n002' to 'n003'"),
        ({"features": table_of([0], np.zeros((1, 5)))}, "structure alone, got features"),
        ({"added": "nowhere.csv"}, "nowhere.csv"),
        ({"added": [("n000", "n001")], "fold": "yes"}, "fold must be True, False or None, got 'yes'"),
    ],
)
def test_wrong_updates_are_refused_and_change_nothing(tmp_path_factory, arguments, message):
    run = _shared_run(tmp_path_factory)
    before = run.embeddings()[1]
    with pytest.raises(rae.errors.RaeError, match=message):
        run.update(**arguments)
    assert same_bytes(run.embeddings()[1], before)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"added": [("n000", "new")]},
            "1 of 1 new nodes have no feature row, first 'new'; add them, or pass missing='zero'",
        ),
        ({"features": np.zeros((N, 5), np.float32)}, "found by id, got a matrix without ids"),
        (
            {"features": rae.FeatureTable(pa.array(["n001"]), np.ones((1, 2), np.float32), ("a", "b"))},
            "needs 5 feature",
        ),
        ({"features": table_of([N], np.zeros((1, 5))), "unknown": "error"}, "1 feature rows are of ids that are not"),
    ],
)
def test_wrong_features_are_refused(tmp_path_factory, arguments, message):
    with pytest.raises(FeatureError, match=message):
        _shared_run(tmp_path_factory, features=True).update(**arguments)


def test_what_changes_nothing_is_no_update(tmp_path_factory):
    run = _shared_run(tmp_path_factory)
    number = run.n_updates
    updated = run.update(added=[("n003", "n002"), ("n005", "n005")], removed=[])
    assert (updated.added, updated.already_there, updated.self_loops, len(updated.moved)) == (0, 1, 1, 0)
    assert run.n_updates == number


def test_new_nodes_without_features_get_zeros_if_asked(tmp_path_factory):
    run = _shared_run(tmp_path_factory, features=True)
    run.update(added=[("n000", "zero")], missing="zero")
    assert not np.asarray(run.features())[-1].any()


def test_edges_come_from_files_and_frames(tmp_path, small_steps):
    rng = np.random.default_rng(13)
    edges = random_edges(rng)
    run = new_run(tmp_path / "run", edges)
    come = random_edges(rng) - edges
    (tmp_path / "new.csv").write_text("source,target\n" + "".join(f"{u},{v}\n" for u, v in names(come)))
    gone = sorted(edges)[:4]
    table = pa.table({"source": [u for u, _ in names(gone)], "target": [v for _, v in names(gone)]})
    run.update(added=tmp_path / "new.csv", removed=table)
    check(run, (edges | come) - set(gone), N)
    run.update(removed=graph_of(come, N))
    check(run, edges - set(gone), N)


def test_a_lean_run_and_two_updates_at_once_are_refused(tmp_path):
    rng = np.random.default_rng(14)
    edges = random_edges(rng)
    lean = new_run(tmp_path / "lean", edges, lean=True)
    with pytest.raises(RunError, match="keeps no graph"):
        lean.update([("n000", "n119")])
    run = new_run(tmp_path / "run", edges)
    with (
        UpdateFolder(run.path).alone(),
        pytest.raises(RunError, match=r"another update of .* is running, or .*; nothing"),
    ):
        run.update(*edit(rng, set(edges), N, 0))
    failures: list[BaseException] = []

    def update(number):
        try:
            Run.open(run.path).update(added=[(f"n{number:03d}", f"new{number}")])
        except RunError as error:
            failures.append(error)

    threads = [threading.Thread(target=update, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Run.open(run.path).counts["nodes"] == N + 4 - len(failures)


def test_damaged_updates_are_refused_in_one_sentence(tmp_path, small_steps):
    rng = np.random.default_rng(15)
    edges = random_edges(rng)
    run = new_run(tmp_path / "run", edges)
    run.update(*edit(rng, edges, N, 0))
    path = run.path / "updates" / "000001.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(CheckpointError, match="has changed since it was written"):
        Run.open(run.path).embeddings()
    path.write_bytes(whole)
    table = next((run.path / "updates").glob("base-*/tables/place-1.npy"))
    content = table.read_bytes()
    table.write_bytes(content[: len(content) // 2])
    with pytest.raises(RunError, match="tables is damaged"):
        Run.open(run.path).embed(neighbours=["n001"])
    table.write_bytes(content)
    state = json.loads((run.path / STATE).read_text())
    for wrong in ({**state, "base": "../../elsewhere"}, {**state, "number": "7"}, {**state, "format_version": 99}, [1]):
        (run.path / STATE).write_text(json.dumps(wrong))
        with pytest.raises(RunError, match=r"state\.json is damaged \("):
            Run.open(run.path).embeddings()


# ------------------------------------------------------------------------------------- kills

KILLED = """
import os, sys
import rae
from rae import updater
from rae.engine import live
updater.FOLD_NUMBERS, live.MOST_SHARE = 0, float("inf")
stop, fold = int(sys.argv[2]), sys.argv[3] == "fold"
calls = 0
def killed(function):
    def wrapped(*args, **kwargs):
        global calls
        calls += 1
        if calls == stop:
            os.kill(os.getpid(), 9)
        return function(*args, **kwargs)
    return wrapped
for name in ("replace", "unlink", "link", "rename", "mkdir", "fsync"):
    setattr(os, name, killed(getattr(os, name)))
rae.Run.open(sys.argv[1]).update([("n000", "killed")], fold=fold)
"""


@pytest.mark.slow
def test_an_update_killed_at_any_step_is_before_or_after(tmp_path):
    rng = np.random.default_rng(16)
    edges = random_edges(rng)
    fitted = new_run(tmp_path / "run", edges)
    model = fitted.model()
    for fold in ("log", "fold"):
        for stop in range(1, 400, 9):  # to its end, where it is not killed any more
            run = Run.open(shutil.copytree(fitted.path, tmp_path / f"{fold}{stop}"))
            code = exit_code(KILLED, str(run.path), str(stop), fold)
            ids, z = Run.open(run.path).embeddings()
            now = rae.Graph.from_edges([*names(edges), *([("n000", "killed")] if len(ids) > N else [])], ids=ids)
            assert same_bytes(z, model.transform(now, units="fit", whole=True))
            Run.open(run.path).update([("n001", "after")])
            if code == 0:
                break
            assert code == -9
        assert code == 0
