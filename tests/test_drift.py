"""Change over time: laws, planted movers, the rate of false alarms, and what cannot be compared."""

import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import rae
from rae import drift as drift_module
from rae.cli import app
from rae.cli.console import Console
from rae.config import ExactConfig
from rae.drift import chance_of_all, chances, edges_without, like_degrees, moderated, scores
from rae.errors import ConfigError, CutWarning, FeatureError, FileError, RunError
from rae.model.structure import view


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("drift")


@pytest.fixture(scope="module")
def graph():
    house = rae.datasets.load("house", cycle=90, shapes=30, noise=0.05).graph
    return rae.Graph.from_edges(house.edges().tolist(), ids=list(range(house.n_nodes)))


@pytest.fixture(scope="module")
def run(graph, folder):
    run = rae.fit_run(graph, out=folder / "run", page=False)
    run.fit_roles(6)
    return run


def rewired(graph, seed, more=(), share=0.01):
    """The graph with a share of its edges replaced at random, and more edges."""
    noisy = view(graph, ExactConfig(noise=share, seed=seed), 0)
    return rae.Graph.from_edges([*map(tuple, noisy.edges().tolist()), *more], ids=graph.ids.tolist())


def with_mover(graph, seed, mover=5, share=0.01):
    ends = np.random.default_rng(seed).choice(graph.n_nodes, 12, replace=False)
    return rewired(graph, seed, [(mover, int(v)) for v in ends if v != mover], share)


def invoke(*words):
    return CliRunner().invoke(app, [*map(str, words), "--quiet"], obj=Console())


# ------------------------------------------------------------------------------- laws


@pytest.mark.parametrize("units", ["fit", "graph"])
def test_a_run_against_itself_has_no_movers(run, units):
    same = run.drift(run, units=units)
    assert same.alarms.num_rows == 0
    assert same.comparison.moved == 0
    assert same.overall == 1
    assert (same.table.column("distance").to_numpy() == 0).all()
    assert same.noise.dropped == 0
    assert same.noise.added == 0
    assert "no node moved more than noise explains" in str(same)


def test_the_order_of_the_second_moment_does_not_matter(run, graph):
    after = with_mover(graph, 3)
    shuffled = np.random.default_rng(0).permutation(graph.n_nodes)
    other = rae.Graph.from_edges(after.edges().tolist(), ids=shuffled.tolist())
    one, two = (run.drift(g, views=19, whole=True) for g in (after, other))
    assert one.table.select(["id", "from", "to", "alarm"]).equals(two.table.select(["id", "from", "to", "alarm"]))
    assert np.allclose(one.table.column("score").to_numpy(), two.table.column("score").to_numpy(), atol=1e-3)


def test_the_same_call_gives_the_same_bytes(run, graph):
    assert run.drift(with_mover(graph, 3), views=19, whole=True).table.equals(
        run.drift(with_mover(graph, 3), views=19, whole=True).table
    )


def test_changes_are_counted_at_nodes_of_both():
    before = rae.Graph.from_edges([(0, 1), (1, 2), (2, 3), (8, 9)])
    after = rae.Graph.from_edges([(1, 0), (2, 3), (2, 4), (5, 6)])
    assert edges_without(before, after) == 1  # 1-2; both ends of 8-9 are gone
    assert edges_without(after, before) == 1  # 2-4; 5-6 is no matter of the nodes of both


def test_scores_treat_the_moment_as_one_more_view():
    """Whichever of them is called the moment, each has the same scores: the false-alarm rate rests on that."""
    rng = np.random.default_rng(5)
    shifts, spread = rng.exponential(size=(6, 300)) ** 3 * (rng.random((6, 300)) < 0.4), rng.random(300) + 0.1
    classes = np.repeat([0, 1, 2], [200, 90, 10])
    whole = np.concatenate([part.reshape(-1, 300) for part in scores(shifts[0], shifts[1:], spread, classes)])
    for number in range(6):
        own, views = scores(shifts[number], np.delete(shifts, number, 0), spread, classes)
        assert np.array_equal(own, whole[number])
        assert np.array_equal(views, np.delete(whole, number, 0))


def test_each_comparison_has_views_of_its_own(run, graph, monkeypatch):
    seeds = []
    real = drift_module.noisy_vectors
    monkeypatch.setattr(
        drift_module, "noisy_vectors", lambda **arguments: seeds.append(arguments["seed"]) or real(**arguments)
    )
    for seed in (1, 2, 1):
        run.drift(rewired(graph, seed), views=19, whole=True)
    first, second, again = seeds[::2]
    assert first == again != second
    assert first != run.model().config.seed


def test_scores_that_are_one_more_view_have_every_rank_alike():
    """Under exchangeability the overall chance is uniform over multiples of 1 / (views + 1)."""
    rng, hits = np.random.default_rng(0), []
    for _ in range(400):
        clumps = np.repeat(rng.exponential(size=(20, 10)) ** 2, 4, axis=1)  # nodes move together
        hits.append(chance_of_all(clumps[0], clumps[1:]) <= 0.05)
    assert np.mean(hits) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 400)


def test_q_never_falls_with_the_score_and_p_counts_the_views():
    rng = np.random.default_rng(1)
    score, noise = rng.exponential(size=50), rng.exponential(size=(9, 50))
    p, q = chances(score, noise)
    order = np.argsort(score)
    assert (np.diff(q[order]) <= 1e-12).all()
    assert (np.diff(p[order]) <= 0).all()
    plain = [(1 + (noise >= s).sum()) / (noise.size + 1) for s in score]
    assert np.allclose(p, plain)


def test_nodes_of_like_degree_are_classes_of_fifty_or_more():
    degree = np.repeat([0, 1, 2, 5, 9, 400], [3, 60, 70, 20, 55, 2])
    classes = like_degrees(degree)
    assert np.bincount(classes).min() >= 50
    assert classes.max() >= 2
    assert (np.diff(classes[np.argsort(degree, kind="stable")]) >= 0).all()
    assert like_degrees(np.array([1, 7, 90])).tolist() == [0, 0, 0]
    spread = moderated(np.array([0.0, 4.0]), np.zeros(2, np.int64))
    assert 0 < spread[0] < np.sqrt(2) < spread[1] < 2
    own, views = scores(np.array([0.0, 1.0]), np.zeros((3, 2)), np.zeros(2), np.zeros(2, np.int64))
    assert own.tolist() == [0, np.inf]
    assert not views.any()


# ------------------------------------------------------------------------------- planted answers


def test_with_noise_alone_alarms_are_as_rare_as_stated(run, graph):
    drifts = [run.drift(rewired(graph, 100 + seed), views=19, whole=True) for seed in range(12)]
    assert sum(d.alarms.num_rows > 0 for d in drifts) <= 3  # 0.6 expected; four or more once in 400 tests
    assert np.mean([d.alarms.num_rows for d in drifts]) / graph.n_nodes <= 0.005
    small = np.mean([(d.table.column("p").to_numpy() <= 0.05).mean() for d in drifts])
    assert small <= 0.07
    grown = np.mean([(d.role_p <= 0.05).mean() for d in drifts])
    assert grown <= 0.15


def test_a_planted_mover_is_found(run, graph):
    hits = []
    for seed in range(3):
        drift = run.drift(with_mover(graph, seed), noise=0.01, views=39, whole=True)
        hits.append(5 in drift.alarms.column("id").to_pylist())
        if hits[-1]:
            row = drift.alarms.to_pylist()[0]
            assert row["q"] <= 0.05
            assert row["distance"] > row["noise"] > 0
    assert sum(hits) >= 2


def test_growth_as_a_whole_moves_everybody_in_units_of_the_fit_alone(folder):
    """Every node gets twice its edges: in its own units the graph is nearly the same."""
    ring = [(i, (i + s) % 200) for i in range(200) for s in range(1, 1 + 2 * (1 + i % 3))]
    graph = rae.Graph.from_edges(ring)
    more = rae.Graph.from_edges([*ring, *((u, (v + 100) % 200) for u, v in ring)], ids=graph.ids.tolist())
    run = rae.fit_run(graph, out=folder / "growth", page=False)
    run.fit_roles(3)
    far, near = (
        float(np.median(run.drift(more, units=u, views=19, whole=True).table.column("distance").to_numpy()))
        for u in ("fit", "graph")
    )
    assert far > 2 * near


# ------------------------------------------------------------------------------- moments


def test_new_and_gone_ids_are_counted(run, graph):
    edges = [e for e in graph.edges().tolist() if 0 not in e]
    drift = run.drift(rae.Graph.from_edges([*edges, (5, 9001), (6, 9001), (7, 9002)]), views=19, whole=True)
    facts = drift.as_dict()
    assert facts["new"] == 2
    assert facts["gone"] == 1
    assert facts["common"] == graph.n_nodes - 1
    assert drift.table.num_rows == graph.n_nodes - 1


def test_a_run_of_another_model_is_embedded_by_the_first(run, graph, folder):
    after = with_mover(graph, 3)
    other = rae.fit_run(after, out=folder / "other", page=False)
    assert other.model_checksum != run.model_checksum
    assert run.drift(other, views=19, whole=True).table.equals(run.drift(after, views=19, whole=True).table)
    assert run.drift(folder / "other", views=19, whole=True).table.equals(run.drift(after, views=19, whole=True).table)


def test_a_graph_of_another_fit_is_warned_of(run, graph, folder):
    part = graph.subgraph(graph.ids[:200])
    of_part = rae.fit_run(part, out=folder / "part", page=False)
    for second in (part, of_part, folder / "part", of_part.graph()):
        with pytest.warns(CutWarning) as caught:
            run.drift(second, views=19)
        assert [w.filename for w in caught] == [__file__]
        run.drift(second, views=19, whole=True)
    run.drift(graph, views=19)
    run.drift(rae.fit_run(graph, out=folder / "again", page=False), views=19)


def test_vectors_of_the_model_are_compared_and_others_refused(run, graph, folder):
    after = with_mover(graph, 3)
    run.model().embed_to(folder / "z.parquet", after, whole=True, model=run.model_checksum)
    drift = run.drift(folder / "z.parquet", noise=0.01)
    assert drift.units == "graph"
    assert not drift.noise.measured
    assert run.drift(folder / "z.parquet").noise.dropped == 0.1
    with pytest.raises(ConfigError, match="needs the other graph"):
        run.drift(folder / "z.parquet", units="fit")
    rae.RAE().fit(after).embed_to(folder / "foreign.parquet", after, model="0" * 64)
    with pytest.raises(RunError, match=r"made by another model.*rae embed"):
        run.drift(folder / "foreign.parquet")
    run.model().embed_to(folder / "unknown.csv", after, whole=True)
    with pytest.raises(RunError, match="does not name"):
        run.drift(folder / "unknown.csv")


def test_lean_runs_and_runs_without_roles_are_refused(run, graph, folder):
    lean = rae.fit_run(graph, out=folder / "lean", page=False, lean=True)
    with pytest.raises(RunError, match="has no roles yet"):
        lean.drift(run)
    lean.fit_roles(3)
    with pytest.raises(RunError, match="keeps no graph"):
        lean.drift(run)
    same = run.drift(lean, noise=0.01)  # it has vectors, of a model with the same bytes
    assert same.comparison.moved == 0


def test_features_are_found_by_name(graph, folder):
    n = graph.n_nodes
    values = np.random.default_rng(0).normal(size=(n, 2)).astype(np.float32)
    table = rae.FeatureTable(graph.ids, values, ("age", "spent"))
    turned = rae.FeatureTable(graph.ids, values[:, ::-1], ("spent", "age"))
    first = rae.fit_run(graph, table, out=folder / "table", page=False)
    first.fit_roles(2)
    second = rae.fit_run(graph, turned, out=folder / "turned", page=False)
    assert second.model_checksum != first.model_checksum
    assert first.drift(second).comparison.moved == 0
    changed = values.copy()
    changed[7] += 9
    third = rae.fit_run(graph, rae.FeatureTable(graph.ids, changed, ("age", "spent")), out=folder / "third", page=False)
    drift = first.drift(third)
    assert drift.noise.added == 0
    assert 7 in drift.alarms.column("id").to_pylist()
    nameless = rae.fit_run(graph, values + 1, out=folder / "nameless", page=False)
    with pytest.raises(RunError, match="have no names"):
        first.drift(nameless)
    with pytest.raises(FeatureError, match="got none"):
        first.drift(graph)


def test_two_moments_of_an_updated_run(run, graph, folder):
    shutil.copytree(run.path, folder / "updated")
    live = rae.Run.open(folder / "updated")
    with pytest.raises(RunError, match="never updated"):
        live.drift(since=0)
    live.update(added=[(0, 900), (1, 900)], fold=False)
    live.update(added=[(2, 901)], fold=False)
    if live._updates.state().log:  # a full pass folds
        since = live.drift(since=0, views=19)
        assert since.as_dict()["new"] == 2
        assert since.noise.added == 3
        assert live.drift(since=1, views=19).as_dict()["new"] == 1
        assert live.drift(since=2).noise.added == 0
    live.fold()
    with pytest.raises(RunError, match="folded in"):
        live.drift(since=0)
    assert run.drift(live, views=19).as_dict()["new"] == 2


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"rate": 0}, "must be a share"),
        ({"rate": 0.01, "views": 19}, "needs 99 views"),
        ({"views": 1}, "whole number from 2"),
        ({"noise": 0}, "share of the edges"),
        ({"noise": 1.5}, "share of the edges"),
        ({"units": "meters"}, "'graph', 'fit'"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(run, asked, said):
    with pytest.raises(ConfigError, match=said):
        run.drift(run, **asked)


def test_two_moments_are_needed(run):
    for asked in ({}, {"other": run, "since": 0}):
        with pytest.raises(RunError, match="two moments"):
            run.drift(**asked)


# ------------------------------------------------------------------------------- command line and page


def test_the_command_prints_writes_and_refuses(run, graph, folder):
    other = rae.fit_run(with_mover(graph, 3), out=folder / "tomorrow", page=False)
    out, page = folder / "moved.parquet", folder / "drift.html"
    with pytest.warns(CutWarning, match="not the graph of the fit"):
        assert invoke("drift", run.path, other.path, "--noise", 0.01).exit_code == 0
    words = ("drift", run.path, other.path, "--whole", "--noise", 0.01, "--out", out, "--page", page)
    result = invoke(*words)
    assert result.exit_code == 0, result.output
    assert "moved more than noise explains" in result.output
    assert "5 " in result.output
    assert pq.read_table(out).column_names[:3] == ["id", "from", "to"]
    text = page.read_text()
    assert "Content-Security-Policy" in text
    assert "<script" not in text
    assert "<h2>Roles</h2>" in text
    assert isinstance(invoke(*words).exception, FileError)
    facts = json.loads(invoke(*words, "--force", "--json").output)
    assert facts["n_alarms"] == len(facts["alarms"]) > 0
    assert facts["rate"] == 0.05
    assert "page must end" in str(invoke("drift", run.path, other.path, "--page", "x.txt").exception)
    with pytest.raises(FileError, match="exists"):
        run.drift(run).write_page(page)


def test_names_are_shown_and_escaped(graph, folder):
    names = [f"<b>{i}</b>" for i in range(graph.n_nodes)]
    run = rae.fit_run(graph, out=folder / "named", page=False)
    run.set_names(names)
    run.fit_roles(4)
    far = [(5, int(v)) for v in range(40, 160)]
    drift = run.drift(rewired(graph, 3, far, share=0.0001), noise=0.01, whole=True)
    assert drift.as_dict()["alarms"][0]["name"].startswith("<b>")
    drift.write_page(folder / "named.html", title="a < b")
    text = (folder / "named.html").read_text()
    assert "&lt;b&gt;" in text
    assert "<b>" not in text
    assert "a &lt; b" in text
    assert pa.types.is_boolean(drift.table.schema.field("alarm").type)
    result = invoke("drift", run.path, run.path)
    assert "no node moved" in result.output
