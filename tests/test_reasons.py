"""Why a node plays its role: attributions that add up, neighbours left out, changes that are made."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
from click.testing import CliRunner

import rae
from rae import live_tables
from rae.cli import app
from rae.cli.console import Console
from rae.edge_trials import with_edges
from rae.engine.live import Live
from rae.errors import ConfigError, GraphError, RunError


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("reasons")


def fitted(graph, out, features=None, k=3, **asked):
    run = rae.fit_run(graph, features, out=out, page=False, **asked)
    run.fit_roles(k)
    return run


@pytest.fixture(scope="module")
def house():
    return rae.datasets.load("house", cycle=30, shapes=10, noise=0.1).graph


@pytest.fixture(scope="module")
def run(house, folder):
    return fitted(house, folder / "house", k=4)


@pytest.fixture(scope="module")
def words_run(house, folder):
    rng = np.random.default_rng(0)
    words = sp.csr_array((rng.random((house.n_nodes, 40)) < 0.15).astype(np.float32))
    return fitted(house, folder / "words", words, k=3)


@pytest.fixture(scope="module")
def table_run(house, folder):
    values = np.random.default_rng(1).normal(size=(house.n_nodes, 3)).astype(np.float32)
    return fitted(house, folder / "table", rae.FeatureTable(house.ids, values, ("age", "spent", "calls")), k=3)


@pytest.fixture(scope="module")
def paid_run(folder):
    rng = np.random.default_rng(2)
    edges = rng.integers(0, 40, (120, 2))
    graph = rae.Graph.from_edges(edges.tolist(), directed=True, weight=rng.integers(1, 9, 120))
    return fitted(graph, folder / "paid", k=3)


def leads(run, own, other):
    """The lead of one role over another, of every node: reference formula, from the vectors of a full pass."""
    z = run.model().transform(run.graph(), run.features(), units="fit")
    x, centers = run.roles().parameters.project(z), run.roles().parameters.centers
    return ((x - centers[other]) ** 2).sum(1) - ((x - centers[own]) ** 2).sum(1)


def role_after(run, id, change):
    """The role of a node in a graph that is built anew with a change, by a full pass."""
    gone = {frozenset((id, other)) for other in change.removed}
    graph = run.graph()
    edges = [(graph.ids[u].item(), graph.ids[v].item()) for u, v in graph.edges().tolist()]
    edges = [e for e in edges if frozenset(e) not in gone] + [(id, other) for other in change.added]
    changed = rae.Graph.from_edges(edges, ids=graph.ids.tolist())
    z = run.model().transform(changed, run.features(), nodes=[id], units="fit", whole=True)
    return int(run.roles().predict(z)[0])


# ------------------------------------------------------------------------------- laws


@pytest.mark.parametrize("which", ["run", "words_run", "table_run", "paid_run"])
def test_attributions_add_up_to_the_lead_over_members_of_the_next_role(which, request):
    run = request.getfixturevalue(which)
    labels = run.role_table()[1]
    for id in run.graph().ids[[0, 7, 33]].tolist():
        why = run.why(id, most_edges=1)
        ahead = leads(run, why.role, why.next_role)
        row = run.graph().rows([id])[0]
        members = np.flatnonzero(labels == why.next_role)
        assert why.lead == pytest.approx(ahead[row], rel=1e-4, abs=1e-6)
        assert why.gained == pytest.approx(ahead[row] - ahead[members[members != row]].mean(), rel=1e-4, abs=1e-6)
        assert sum(r.contribution for r in why.reasons) == pytest.approx(why.gained, rel=1e-9)
        assert sum(r.share for r in why.reasons) == pytest.approx(1)
        rest = why.as_dict()["other_reasons"]
        assert sum(r["contribution"] for r in why.as_dict()["reasons"]) + rest == pytest.approx(why.gained)
        rounding = [r for r in why.reasons if r.what == "rounding"]
        assert all(abs(r.share) < 1e-4 for r in rounding)


def test_the_reasons_of_a_structural_run_have_the_numbers_of_the_graph(run, house):
    id = int(house.ids[np.argmax(house.degrees)])
    why = run.why(id)
    by_name = {reason.what: reason for reason in why.reasons}
    assert by_name["degree"].value == house.degrees.max() == why.degree
    assert {"degree of its neighbours", "degree two edges away"} <= set(by_name)
    near = house.degrees[house.neighbors(int(house.rows([id])[0]))]
    assert by_name["degree of its neighbours"].value == pytest.approx(np.expm1(np.log1p(near).mean()), rel=1e-4)


def test_reasons_are_the_same_where_a_graph_is_read_in_parts(run, house, monkeypatch):
    before = [run.why(node).as_dict()["reasons"] for node in house.ids[-5:].tolist()]
    monkeypatch.setattr("rae.model.structure.ROWS", 16)
    assert [run.why(node).as_dict()["reasons"] for node in house.ids[-5:].tolist()] == before


def test_features_are_named(table_run, words_run):
    text = " ".join(r.what for id in (0, 5, 9) for r in table_run.why(id, most_edges=1).reasons)
    assert "age" in text
    assert "age of its neighbours" in text
    assert "what is done two edges away" in text
    reasons = words_run.why(3, most_edges=1).reasons
    own = words_run.features()[[3]].toarray().ravel()
    words = [r for r in reasons if r.what.startswith("feature") and "neighbours" not in r.what]
    assert words
    assert all(r.value == own[int(r.what.split()[1])] for r in words)


def test_an_edge_left_out_is_what_a_graph_without_it_gives(run, house):
    why = run.why(4)
    row = int(house.rows([4])[0])
    assert len(why.neighbours) == why.degree == len(house.neighbors(row))
    for neighbour in why.neighbours:
        less = with_edges(house, row, [(int(house.rows([neighbour.id])[0]), False)])
        z = run.model().transform(less, nodes=[4], units="fit", whole=True)
        x, centers = run.roles().parameters.project(z), run.roles().parameters.centers
        lead = ((x - centers[why.next_role]) ** 2).sum() - ((x - centers[why.role]) ** 2).sum()
        assert neighbour.share == pytest.approx((why.lead - lead) / why.lead, rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("which", ["run", "words_run", "table_run"])
def test_a_change_moves_the_node_in_a_graph_that_is_built_anew(which, request):
    run, n_changes = request.getfixturevalue(which), 0
    before = run.embeddings()[1].copy()
    for id in run.graph().ids[:: 9 if which == "run" else 20].tolist():
        why = run.why(id, most_edges=3)
        change = why.change
        if change is not None:
            n_changes += 1
            assert role_after(run, id, change) == change.role != why.role
            assert len(change.removed) + len(change.added) <= 3
            for fewer in range(len(change.removed)):  # every edge is needed
                part = rae.reasons.Change(change.removed[:fewer] + change.removed[fewer + 1 :], change.added, 0, 0.0)
                assert not (part.removed or part.added) or role_after(run, id, part) == why.role
    assert n_changes >= (3 if which == "run" else 1)
    assert np.array_equal(before, run.embeddings()[1])
    live = live_tables.live_of(run)
    assert np.array_equal(
        live.vectors((0, live.n_nodes)), run.model().transform(run.graph(), run.features(), units="fit")
    )


def test_edges_that_are_tried_leave_the_tables_as_they_were(house):
    model = rae.RAE().fit(house)
    live = Live.of(model.fitted, house)
    before, paths = live.vectors((0, house.n_nodes)), live.paths
    row, end = 3, int(house.neighbors(3)[0])
    got = live.tried([row, row], [end, 40], [False, True], row)
    changed = with_edges(house, row, [(end, False), (40, True)])
    assert np.array_equal(got, model.transform(changed, nodes=[house.ids[row].item()], units="fit", whole=True)[0])
    far = live.tried([end], [row], [False], 50)  # an edge elsewhere
    less = with_edges(house, row, [(end, False)])
    assert np.array_equal(far, model.transform(less, nodes=[house.ids[50].item()], units="fit", whole=True)[0])
    live.embed([1, 2])
    assert np.array_equal(before, live.vectors((0, house.n_nodes)))
    assert live.paths == paths


def test_relabelling_changes_names_alone(house, folder, run):
    order = np.random.default_rng(0).permutation(house.n_nodes)
    names = {int(id): f"x{order[i]:03d}" for i, id in enumerate(house.ids)}
    edges = [(names[int(house.ids[u])], names[int(house.ids[v])]) for u, v in house.edges().tolist()]
    other = fitted(rae.Graph.from_edges(edges), folder / "relabelled", k=4)
    one, two = run.why(4), other.why(names[4])
    assert two.confidence == pytest.approx(one.confidence, abs=0.05)  # views are drawn by rows
    assert two.degree == one.degree
    assert {r.what for r in one.reasons if abs(r.share) > 0.2} & {r.what for r in two.reasons if abs(r.share) > 0.1}


# ------------------------------------------------------------------------------- what is asked, what is refused


def test_a_role_that_is_asked_for_is_reached_or_the_answer_says_so(run):
    reached = 0
    for id in range(0, 80, 8):
        why = run.why(id, to=2)
        if why.role == 2:
            assert why.change is None
            assert "edges" in why.sentences()[2]
            assert len(why.sentences()) == 3
        elif why.change is None:
            assert "gives it role 2" in str(why)
        else:
            reached += 1
            assert why.change.role == 2 == role_after(run, id, why.change)
    assert reached


def test_runs_whose_edges_have_channels_lose_edges_by_full_passes(paid_run):
    why = paid_run.why(0, most_edges=2)
    assert len(why.neighbours) <= 12
    assert why.change is None or not why.change.added
    assert any("strength" in r.what or "along" in r.what for r in why.reasons)


def test_without_tables_that_follow_each_change_is_a_full_pass(run, monkeypatch):
    fast = run.why(4, most_edges=1)
    monkeypatch.setattr("rae.reasons.live_of", lambda run: None)
    slow = run.why(4, most_edges=1)
    assert {n.id: n.share for n in slow.neighbours} == pytest.approx({n.id: n.share for n in fast.neighbours})
    assert slow.trials <= 24


def test_one_role_alone_and_a_node_without_neighbours(folder):
    graph = rae.Graph.from_edges([(0, 1), (1, 2), (2, 0), (2, 3), (3, 4)], ids=[*range(5), 9])
    run = fitted(graph, folder / "one", k=1)
    assert "there is one role alone" in str(run.why(3))
    assert run.why(3).as_dict()["next_role"] is None
    run.fit_roles(2)
    assert "it has no neighbours" in str(run.why(9))


def test_what_cannot_be_answered_is_refused_in_a_sentence(run, house, folder):
    with pytest.raises(GraphError, match="no node"):
        run.why("nobody")
    with pytest.raises(ConfigError, match="from 0 to 3"):
        run.why(4, to=4)
    with pytest.raises(ConfigError, match="most_edges"):
        run.why(4, most_edges=0)
    trained = fitted(house, folder / "trained", config=rae.Config(steps=0, dims=(8,), fanout=(4,)))
    with pytest.raises(RunError, match="trained model"):
        trained.why(4)
    bare = rae.fit_run(house, out=folder / "bare", page=False)
    with pytest.raises(RunError, match="no roles yet"):
        bare.why(4)
    lean = fitted(house, folder / "lean", lean=True)
    with pytest.raises(RunError, match="keeps no graph"):
        lean.why(4)


def test_the_command_answers_by_name_and_as_json(run, house):
    run.set_names([f"Node {i}" for i in house.ids.tolist()])

    def invoke(*words):
        return CliRunner().invoke(app, ["why", str(run.path), *words], obj=Console())

    result = invoke("Node 4")
    assert result.exit_code == 0, result.output
    assert result.output.startswith("Node 4 plays role")
    facts = json.loads(invoke("4", "--json").output)
    assert facts["id"] == 4
    assert facts["name"] == "Node 4"
    assert facts["sentences"] == run.why(4).sentences()
    assert all(n["name"] == f"Node {n['id']}" for n in facts["neighbours"])
    assert isinstance(invoke("999").exception, GraphError)
    (run.path / "names.parquet").unlink()
