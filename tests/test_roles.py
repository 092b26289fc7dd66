"""Roles: the number planted is the number found, in any order of rows, and other vectors get the same roles."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from rae import RAE, Graph, Roles
from rae.datasets import load
from rae.errors import CheckpointError, ConfigError, FeatureError, GraphError, NotFittedError, RunError
from rae.roles import canonical
from rae.roles.arranged import arranged, in_order
from rae.roles.canonical import Space, positions, sample
from rae.roles.cleaned import cleaned, nats
from rae.roles.compare import compare
from rae.roles.mixture import mixture, steps
from rae.roles.number import choose, standing_out
from rae.roles.record import record, rule
from rae.roles.seen import edges, seen, shaken, without_each
from rae.roles.steady import STEPS, Steady, steady
from rae.run import Run


def blobs(k, n=600, width=12, spread=0.35, seed=0):
    """k round groups of unequal size, well apart."""
    draw = np.random.default_rng(seed)
    truth = np.minimum(draw.geometric(1.5 / k, n) - 1, k - 1)
    centers = 2 * draw.normal(size=(k, width))
    return (centers[truth] + spread * draw.normal(size=(n, width))).astype(np.float32), truth


@pytest.fixture(scope="module")
def three():
    z, truth = blobs(3)
    return z, truth, Roles(max_k=6).fit(z, model="abc")


@pytest.fixture(scope="module")
def deep():
    return RAE(dims=(32, 32, 32), fanout=(8, 8, 8), steps=20)


# --------------------------------------------------------------------------------- how many


@pytest.mark.parametrize("k", [2, 4, 5])
def test_the_number_of_round_groups_is_found(k):
    z, truth = blobs(k, seed=k)
    roles = Roles(max_k=8).fit(z)

    assert roles.n_roles == k
    assert roles.criterion == "prediction strength"
    assert adjusted_rand_score(truth, roles.labels) > 0.99
    assert roles.curve[k] >= 0.8
    assert all(value < 0.8 for number, value in roles.curve.items() if number > k)


@pytest.mark.parametrize("seed", range(3))
def test_positions_that_differ_far_away_are_two(seed):
    graph = load("barbell").graph
    z = RAE(dims=(64, 64, 64), fanout=(10, 10, 10), steps=100, seed=seed).fit_transform(graph)

    assert Roles().fit(z).n_roles == 7


@pytest.mark.parametrize("name", ["house", "barbell"])
def test_exact_positions_are_the_roles_of_a_graph_without_noise(name, deep):
    data = load(name)
    roles = Roles().fit(deep.fit_transform(data.graph))

    assert roles.n_roles == data.n_classes == 7
    assert roles.criterion == "positions"
    assert adjusted_rand_score(data.labels, roles.labels) == 1
    assert roles.confidence.min() > 0.99


def test_positions_stand_out_of_a_little_noise(deep):
    data = load("house", cycle=300, shapes=100, noise=0.02)
    roles = Roles().fit(deep.fit_transform(data.graph))

    assert roles.n_roles == data.n_classes == 7
    assert roles.criterion == "positions"


def test_planted_action_groups_are_counted():
    data = load("planted-actions", n_nodes=800, groups=4, signal=0.4)
    z = RAE(dims=(64,), fanout=(10,), steps=60).fit_transform(data.graph, data.features)
    roles = Roles(max_k=8).fit(z)

    assert roles.n_roles == 4
    assert adjusted_rand_score(data.labels, roles.labels) > 0.6


def test_a_crowd_of_isolated_nodes_does_not_hide_the_other_roles():
    z, _ = blobs(3)
    z = np.vstack([z, np.full((900, 12), 3, np.float32)])

    assert Roles(max_k=8).fit(z).n_roles == 4


def test_the_number_can_be_given():
    z, _ = blobs(3)
    roles = Roles(k=5).fit(z)

    assert roles.n_roles == 5
    assert roles.criterion == "given"
    assert roles.curve == {}


def test_where_no_number_is_strong_the_best_is_taken():
    noise = np.random.default_rng(0).normal(size=(300, 30)).astype(np.float32)
    roles = Roles(max_k=4).fit(noise)

    assert max(roles.curve.values()) < 0.8
    assert roles.n_roles == max(roles.curve, key=lambda k: roles.curve[k])


def test_equal_vectors_are_one_role():
    roles = Roles().fit(np.ones((5, 3)))

    assert roles.n_roles == 1
    assert roles.memberships(np.ones((2, 3))).tolist() == [[1], [1]]


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_vectors_equal_up_to_rounding_are_one_role(scale):
    draw = np.random.default_rng(0)
    z = scale * (1 + 1e-7 * draw.normal(size=(200, 16))).astype(np.float32)
    roles = Roles().fit(z)

    assert roles.n_roles == 1
    assert rule(roles) == "1 role: all vectors are equal up to rounding"
    assert (roles.confidence == 1).all()
    apart = z + np.float32(scale * 1e-4) * (np.arange(200) % 2)[:, None]
    assert Roles().fit(apart).sizes.tolist() == [100, 100]


def test_three_nodes_are_too_few_to_tell_roles_apart():
    roles = Roles().fit(np.eye(3))

    assert roles.n_roles == 1
    assert roles.curve == {}


def test_the_middle_of_a_star_is_a_role_of_its_own():
    z = np.vstack([np.zeros((40, 4)), np.ones((1, 4))])

    assert Roles().fit(z).sizes.tolist() == [40, 1]


def test_positions_far_from_everything_else_do_not_stand_for_it():
    draw = np.random.default_rng(1)
    x = np.vstack([np.zeros((60, 2)), np.full((40, 2), 0.1), 50 * draw.normal(size=(30, 2))])
    points, counts, _ = positions(x)

    assert standing_out(x, points, counts, 10) is None


# --------------------------------------------------------------------------- through noise


@pytest.mark.parametrize("noise", [0.02, 0.05, 0.1])
@pytest.mark.parametrize(("cycle", "planted"), [(100, 6), (300, 7), (400, 8)])
def test_the_planted_number_is_found_through_random_edges(cycle, planted, noise):
    data = load("house", cycle=cycle, shapes=100, noise=noise)
    found = steady(data.graph, 20, 0)

    assert data.n_classes == planted == found.k
    assert (found.labels >= 0).mean() > 0.8
    assert adjusted_rand_score(data.labels, found.labels) > 0.6
    assert max(found.curve, key=found.curve.get) == found.k


@pytest.mark.parametrize("seed", range(3))
def test_noisy_roles_are_told_apart_in_the_vectors(deep, seed):
    data = load("house", cycle=300, shapes=100, noise=0.05, seed=seed)
    z = deep.fit_transform(data.graph)
    roles = Roles().fit(z, graph=data.graph, embed=deep.transform)
    blind = Roles(k=7).fit(z)

    assert (roles.n_roles, roles.criterion) == (7, "steady positions")
    scores = [adjusted_rand_score(data.labels, found.labels) for found in (roles, blind)]
    assert scores[0] > max(0.4, 1.5 * scores[1])
    np.testing.assert_array_equal(roles.predict(z), roles.labels)
    assert roles.sizes.tolist() == sorted(roles.sizes.tolist(), reverse=True)


def test_steady_roles_are_saved_and_told(deep, tmp_path):
    data = load("house", cycle=300, shapes=100, noise=0.05)
    z = deep.fit_transform(data.graph)
    roles = Roles().fit(z, graph=data.graph, embed=deep.transform)
    again = Roles().fit(z, graph=data.graph, embed=deep.transform)
    for found, name in ((roles, "a"), (again, "b")):
        found.save(tmp_path / name)
    loaded = Roles.load(tmp_path / "a")
    told = record(roles, roles.assignment, [])

    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    np.testing.assert_array_equal(loaded.predict(z), roles.labels)
    assert loaded.curve == roles.curve
    assert max(told["curve"], key=lambda point: point[1])[0] == 7
    assert told["threshold"] is None
    assert rule(roles) == "7 roles: the positions that random edges cannot have made"


def reshuffled(graph, seed):
    """The same graph with its rows in another order, and the new row of each."""
    rank = np.random.default_rng(seed).permutation(graph.n_nodes)
    rows = np.repeat(rank, graph.degrees)
    return Graph.from_edges((rows, rank[graph.targets]), ids=np.arange(len(rank))), rank


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("house", {"noise": 0.1}),
        ("house", {"cycle": 300, "shapes": 100, "noise": 0.05}),
        ("planted-roles", {"noise": 0.05}),
    ],
)
def test_a_reshuffle_of_rows_leaves_every_steady_role_and_its_number(deep, name, options):
    graph = load(name, **options).graph
    z = deep.fit_transform(graph)
    first = Roles().fit(z, graph=graph, embed=deep.transform)
    assert first.criterion == "steady positions"
    for seed in range(3):
        other, rank = reshuffled(graph, seed)
        again = Roles().fit(deep.transform(other), graph=other, embed=deep.transform)

        assert again.curve == first.curve
        assert again.sizes.tolist() == first.sizes.tolist()
        np.testing.assert_array_equal(again.labels[rank], first.labels)
        np.testing.assert_allclose(again.assignment.memberships[rank], first.assignment.memberships, atol=1e-4)


def ring(n):
    return [(i, (i + 1) % n) for i in range(n)]


GRAPHS = {
    "houses": lambda: load("house").graph,
    "noisy houses": lambda: load("house", noise=0.1).graph,
    "planted": lambda: load("planted-roles", n_nodes=200).graph,
    "complete": lambda: Graph.from_edges([(a, b) for b in range(30) for a in range(b)]),
    "three rings": lambda: Graph.disjoint_union([Graph.from_edges(ring(9))] * 3),
    "star": lambda: Graph.from_edges([(0, leaf) for leaf in range(1, 20)]),
    "tree": lambda: Graph.from_edges([((i - 1) // 3, i) for i in range(1, 121)]),
    "cube": lambda: Graph.from_edges([(a, a ^ bit) for a in range(32) for bit in (1, 2, 4, 8, 16)]),
    "ring of squares": lambda: Graph.from_edges(
        [(4 * s + a, 4 * s + b) for s in range(6) for a, b in ring(4)]
        + [(4 * s + 2, (4 * s + 4) % 24) for s in range(6)]
    ),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_the_order_of_rows_is_the_graph_s_own(name):
    graph = GRAPHS[name]()
    order = arranged(graph, seen(graph))
    plain = in_order(graph, order)

    assert sorted(order.tolist()) == list(range(graph.n_nodes))
    np.testing.assert_array_equal(seen(plain), seen(graph)[order])
    for seed in range(4):
        other, _ = reshuffled(graph, seed)
        again = in_order(other, arranged(other, seen(other)))
        np.testing.assert_array_equal(again.offsets, plain.offsets)
        np.testing.assert_array_equal(again.targets, plain.targets)


def test_ties_that_take_too_long_stay_in_the_order_of_rows(monkeypatch):
    graph = GRAPHS["three rings"]()
    monkeypatch.setattr("rae.roles.arranged.LINKS", 1)

    assert arranged(graph, seen(graph)).tolist() == list(range(27))


@pytest.mark.parametrize(
    ("name", "options"),
    [("planted-actions", {"n_nodes": 800}), ("power-law", {"n_nodes": 2000, "n_edges": 6000})],
)
def test_a_graph_without_repeated_positions_is_not_shaken_into_roles(name, options):
    graph = load(name, **options).graph
    z = blobs(3, n=graph.n_nodes)[0]

    assert steady(graph, 20, 0) is None
    assert Roles(max_k=4).fit(z, graph=graph, embed=lambda _: z).criterion == "prediction strength"


def test_more_steady_positions_than_roles_may_be_are_none():
    graph = load("house", cycle=300, shapes=100, noise=0.02).graph

    assert steady(graph, 7, 0).k == 7
    assert steady(graph, 6, 0) is None


@pytest.mark.parametrize("seed", range(4))
def test_a_small_graph_is_counted_with_its_noise_left_out(seed):
    data = load("house", noise=0.1, seed=seed)
    found = steady(data.graph, 20, 0)

    assert found.k == data.n_classes == 7
    assert adjusted_rand_score(data.labels, found.labels) > 0.8


def test_a_mixture_tells_how_many_members_a_role_had_and_how_much_noise_came():
    data = load("house", cycle=300, shapes=100, noise=0.1)
    found = mixture(data.graph, 0)

    np.testing.assert_allclose(found.sizes, np.sort(np.bincount(data.labels))[::-1], rtol=0.2)
    assert (found.untouched < 0.6 * found.sizes).all()
    assert found.noise == pytest.approx(0.1 / 1.1, rel=0.25)
    assert found.rest < 0.05
    assert found.kept == 1


def test_noise_is_left_out_of_a_graph_of_roles():
    clean, noisy = load("house").graph, load("house", noise=0.05).graph
    found = cleaned(noisy)

    assert nats(found, noisy.n_edges) < 0.8 * nats(noisy, noisy.n_edges)
    kept = set(zip(*(ends.tolist() for ends in edges(found)), strict=True))
    true = set(zip(*(ends.tolist() for ends in edges(clean)), strict=True))
    assert len(true - kept) <= 1
    assert len(kept - true) <= 1
    assert cleaned(clean).n_edges == clean.n_edges


def test_a_graph_that_is_all_noise_is_not_cleaned_away(monkeypatch):
    graph = load("house", noise=0.1).graph
    monkeypatch.setattr("rae.roles.cleaned.MOST", 0.01)

    assert graph.n_edges - 9 <= cleaned(graph).n_edges < graph.n_edges


def test_what_nodes_see_without_an_edge_is_what_they_see_when_it_is_gone():
    graph = load("planted-roles", n_nodes=60, noise=0.1).graph
    without = without_each(graph)
    for edge in range(0, graph.n_edges, 5):
        rest = np.arange(graph.n_edges) != edge
        gone = Graph.from_edges(tuple(ends[rest] for ends in without.ends), ids=np.arange(graph.n_nodes))
        now = without.before.copy()
        now[without.node[without.edge == edge]] = without.after[without.edge == edge]
        np.testing.assert_array_equal(now, seen(gone))


def test_too_many_positions_leave_those_that_noise_does_not_refill():
    graph = load("planted-roles").graph

    assert len(mixture(graph, 0).roles) > 20
    fewer, found = mixture(graph, 0, 20), steady(graph, 20, 0)
    assert 12 <= len(fewer.roles) <= 20
    assert 2 / 3 < fewer.kept < 0.9
    assert max(found.curve, key=found.curve.get) == found.k


def test_too_many_positions_of_which_few_nodes_stay_are_no_answer(monkeypatch):
    child = np.arange(1, 5000)
    graph = Graph.from_edges((child, (np.random.default_rng(2).random(4999) * child).astype(int)))

    assert mixture(in_order(graph, arranged(graph, seen(graph))), 0, 20).kept < 0.6
    assert steady(graph, 20, 0) is None
    planted = load("planted-roles").graph
    assert steady(planted, 20, 0) is not None
    monkeypatch.setattr("rae.roles.steady.KEPT", 0.9)
    assert steady(planted, 20, 0) is None


def test_a_graph_that_is_too_dense_is_not_shaken(caplog):
    a, b = np.triu_indices(600, 1)
    leaves = np.arange(600, 2000)
    graph = Graph.from_edges((np.append(a, leaves), np.append(b, leaves % 600)))

    assert steps(load("house", cycle=300, shapes=100).graph) < STEPS / 10 < STEPS < steps(graph)
    with caplog.at_level("INFO", logger="rae"):
        assert steady(graph, 20, 0) is None
    assert "so dense" in caplog.text


@pytest.mark.parametrize("edges_per_node", [1, 2])
def test_a_random_graph_has_no_steady_positions(edges_per_node):
    ends = np.random.default_rng(0).integers(300, size=(300 * edges_per_node, 2))

    assert steady(Graph.from_edges(ends, ids=np.arange(300)), 20, 0) is None


def test_a_cycle_is_one_position_and_no_roles():
    nodes = np.arange(60)

    assert steady(Graph.from_edges((nodes, (nodes + 1) % 60), ids=nodes), 20, 0) is None


def test_a_large_or_empty_graph_is_not_shaken(monkeypatch):
    graph = load("house").graph
    assert steady(graph, 20, 0).k == 7
    assert steady(Graph.from_edges(np.empty((0, 2), int), ids=np.arange(9)), 20, 0) is None
    monkeypatch.setattr("rae.roles.steady.PAIRS", 50)
    assert steady(graph, 20, 0).k == 7
    monkeypatch.setattr("rae.roles.steady.MOST", 50)
    assert steady(graph, 20, 0) is None


def test_a_position_is_what_a_node_sees_at_one_step():
    data = load("house")
    plain = Graph.from_edges([(0, 1), (1, 2), (3, 4), (4, 5), (5, 3)])

    assert len(np.unique(seen(data.graph))) == 7
    assert len(np.unique(seen(plain))) == 3  # ends, middle, corners


def test_shaking_adds_edges_and_keeps_those_that_are_there():
    graph = load("house").graph
    other = shaken(graph, 0.1, np.random.default_rng(0))

    assert 0 < other.n_edges - graph.n_edges <= round(0.1 * graph.n_edges)
    for node in range(graph.n_nodes):
        assert set(graph.neighbors(node)) <= set(other.neighbors(node))


def test_members_of_a_sample_are_enough_to_tell_roles_apart(deep, monkeypatch):
    data = load("house", cycle=300, shapes=100, noise=0.02)
    z = deep.fit_transform(data.graph)
    monkeypatch.setattr("rae.roles.fitted.SAMPLE", 300)

    assert Roles().fit(z, graph=data.graph, embed=deep.transform).n_roles == 7


def test_a_given_number_and_exact_positions_need_no_shaking(deep):
    data = load("house")
    z = deep.fit_transform(data.graph)

    def never(graph):
        raise AssertionError

    assert Roles().fit(z, graph=data.graph, embed=never).criterion == "positions"
    assert Roles(k=3).fit(z, graph=data.graph, embed=never).criterion == "given"


def test_a_graph_of_other_nodes_is_refused(three):
    with pytest.raises(GraphError, match=r"nodes of the vectors \(600\), got 80"):
        Roles().fit(three[0], graph=load("house").graph)


@pytest.mark.parametrize("lean", [False, True])
def test_a_run_is_shaken_if_it_keeps_its_graph(deep, tmp_path, lean):
    graph = load("house", cycle=300, shapes=100, noise=0.05).graph
    z = deep.fit_transform(graph)
    run = Run.create(tmp_path / "run", deep, graph.id_column, z, graph=None if lean else graph)
    roles = run.fit_roles(max_k=8)

    assert roles.criterion == ("prediction strength" if lean else "steady positions")
    assert run.role_record()["k"] == roles.n_roles
    assert lean or roles.n_roles == 7


def test_a_role_in_which_nobody_stands_is_none(deep, monkeypatch):
    graph = load("house", noise=0.1).graph
    z = deep.fit_transform(graph)
    order = np.arange(graph.n_nodes)
    for labels, found in ((2 * (order % 3), 3), (0 * order, None)):
        told = Steady(labels, 5, {5: 1.0}, order)
        monkeypatch.setattr("rae.roles.fitted.steady", lambda *_, told=told: told)
        roles = Roles(max_k=4).fit(z, graph=graph, embed=deep.transform)

        assert (roles.criterion == "steady positions") is (found is not None)
        assert found is None or roles.n_roles == found
        assert np.isfinite(roles.assignment.memberships).all()


def test_directions_between_labels_ignore_what_scatters_within():
    draw = np.random.default_rng(0)
    labels = np.arange(300) % 3
    rows = np.hstack([np.eye(3)[labels] + 0.05 * draw.normal(size=(300, 3)), 50 * draw.normal(size=(300, 4))])
    space = Space.between(rows.astype(np.float32), labels)
    x = space.project(rows.astype(np.float32))
    middles = np.stack([x[labels == j].mean(0) for j in range(3)])

    assert space.directions.shape == (7, 2)
    assert (((x[:, None] - middles) ** 2).sum(2).argmin(1) == labels).all()


# ----------------------------------------------------------------------------- order of rows


def test_a_reshuffle_of_rows_changes_nothing_but_the_order(three):
    z, _, roles = three
    order = np.random.default_rng(5).permutation(len(z))
    again = Roles(max_k=6).fit(z[order])

    np.testing.assert_array_equal(again.labels, roles.labels[order])
    np.testing.assert_allclose(again.assignment.memberships, roles.assignment.memberships[order], atol=1e-5)
    assert again.curve == roles.curve


def test_a_reshuffle_changes_nothing_where_only_a_sample_is_fitted(monkeypatch):
    monkeypatch.setattr("rae.roles.fitted.SAMPLE", 200)
    z, _ = blobs(4, n=900)
    z = np.vstack([z, z[:300]])  # doubled rows draw by turns
    order = np.random.default_rng(2).permutation(len(z))
    first, second = Roles(max_k=6).fit(z), Roles(max_k=6).fit(z[order])

    assert first.n_roles == 4
    np.testing.assert_array_equal(second.labels, first.labels[order])


def test_a_sample_is_by_what_rows_hold():
    z = np.random.default_rng(0).normal(size=(500, 3)).astype(np.float32)
    z[100:400] = z[0]
    order = np.random.default_rng(1).permutation(500)
    first = sample(z, 50, 0)

    np.testing.assert_array_equal(first, sample(z[order], 50, 0))
    assert not np.array_equal(first, sample(z, 50, 1))
    share = (first == z[0]).all(1).mean()
    assert 0.4 < share < 0.8  # equal rows are drawn as often as they are there (0.6)


def test_roles_are_numbered_by_size(three):
    _, _, roles = three

    assert roles.sizes.tolist() == sorted(roles.sizes.tolist(), reverse=True)
    assert roles.sizes.tolist() == np.bincount(roles.labels).tolist()


def test_the_same_seed_gives_the_same_bytes(three, tmp_path):
    z, _, roles = three
    roles.save(tmp_path / "a")
    Roles(max_k=6).fit(z, model="abc").save(tmp_path / "b")

    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_rounding_does_not_make_two_positions_of_one():
    exact = np.repeat(np.random.default_rng(3).normal(size=(6, 5)), 50, axis=0)
    noisy = exact + 1e-7 * np.random.default_rng(4).normal(size=exact.shape)
    points, counts, _ = positions(noisy)

    assert len(points) == 6
    assert counts.tolist() == [50] * 6


def test_space_keeps_the_directions_that_differ():
    draw = np.random.default_rng(0)
    z = (draw.normal(size=(400, 2)) @ draw.normal(size=(2, 9)) + 5).astype(np.float32)
    space = Space.of(z)

    assert space.leading == 2
    assert space.led().directions.shape == (9, 2)
    far = np.linalg.norm(z[0].astype(float) - z[1])
    x = space.led().project(z)
    assert np.isclose(np.linalg.norm(x[0] - x[1]), far, rtol=1e-3)


# -------------------------------------------------------------------------------- membership


def test_memberships_sum_to_one_and_their_largest_is_the_role(three):
    z, _, roles = three
    assignment = roles.assign(z)

    np.testing.assert_allclose(assignment.memberships.sum(1), 1, atol=1e-5)
    np.testing.assert_array_equal(assignment.memberships.argmax(1), assignment.labels)
    np.testing.assert_allclose(assignment.confidence, assignment.memberships.max(1))
    np.testing.assert_array_equal(roles.predict(z), roles.labels)
    np.testing.assert_array_equal(roles.memberships(z), assignment.memberships)


def test_a_node_between_two_roles_is_torn(three):
    z, truth, roles = three
    middle = (z[truth == 0].mean(0) + z[truth == 1].mean(0)) / 2
    torn = roles.memberships(middle[None])[0]

    assert torn.max() < 0.6
    assert roles.confidence.mean() > torn.max()


def test_chunks_do_not_change_the_answer(three, monkeypatch):
    z, _, roles = three
    monkeypatch.setattr("rae.roles.fitted.CHUNK", 7)

    np.testing.assert_array_equal(roles.predict(z), roles.labels)


# ------------------------------------------------------------------------------- save, load


def test_saved_roles_find_the_same_roles(three, tmp_path):
    z, _, roles = three
    roles.save(tmp_path / "roles.safetensors")
    loaded = Roles.load(tmp_path / "roles.safetensors")

    np.testing.assert_array_equal(loaded.memberships(z), roles.memberships(z))
    assert (loaded.curve, loaded.criterion, loaded.model) == (roles.curve, roles.criterion, "abc")
    assert loaded.sizes.tolist() == roles.sizes.tolist()
    assert repr(loaded) == repr(roles) == "Roles(k='auto', max_k=6, seed=0)"
    with pytest.raises(NotFittedError, match="assign"):
        _ = loaded.labels


def test_roles_of_another_model_are_refused(three):
    _, _, roles = three
    roles.check_model("abc", "there")
    roles.check_model(None, "there")
    with pytest.raises(RunError, match=r"there.*another model.*rae embed"):
        roles.check_model("f00d", "there")


def _tampered(path, change):
    import struct

    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + size])
    told = json.loads(header["__metadata__"]["rae roles"])
    change(header, told)
    if "rae roles" in header["__metadata__"]:
        header["__metadata__"]["rae roles"] = told if isinstance(told, str) else json.dumps(told)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + size :])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda h, t: h["__metadata__"].pop("rae roles"), "holds no roles"),
        (lambda h, t: t.update(format=9), "reads up to 1; upgrade"),
        (lambda h, t: t.pop("format"), "header .* is damaged"),
        (lambda h, t: t.pop("radius"), "does not hold the roles"),
        (lambda h, t: t.update(radius=-1), "settings are missing"),
        (lambda h, t: t.update(model=5), "settings are missing"),
        (lambda h, t: h["centers"].update(shape=h["centers"]["shape"][::-1]), "do not fit together"),
    ],
)
def test_a_foreign_newer_or_damaged_file_is_refused(three, tmp_path, change, words):
    path = tmp_path / "roles.safetensors"
    three[2].save(path)
    _tampered(path, change)
    with pytest.raises(CheckpointError, match=words):
        Roles.load(path)


def test_a_cut_or_absent_file_is_refused(three, tmp_path):
    path = tmp_path / "roles.safetensors"
    three[2].save(path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(CheckpointError, match="not a whole"):
        Roles.load(path)
    with pytest.raises(CheckpointError, match="no roles at"):
        Roles.load(tmp_path / "nothing")


# ------------------------------------------------------------------------------------ errors


@pytest.mark.parametrize("settings", [{"k": 0}, {"k": "many"}, {"k": True}, {"max_k": 0}, {"max_k": 2.5}])
def test_a_wrong_number_is_refused(settings):
    with pytest.raises(ConfigError, match="whole number"):
        Roles(**settings)


def test_more_roles_than_different_vectors_are_refused():
    with pytest.raises(ConfigError, match=r"at most the number of different vectors \(2\)"):
        Roles(k=3).fit(np.repeat(np.eye(2), 5, axis=0))
    assert Roles(k=2).fit(np.repeat(np.eye(2), 5, axis=0)).n_roles == 2


@pytest.mark.parametrize(
    ("z", "words"),
    [
        ([["a"]], "matrix of numbers"),
        (np.ones(3), "row per node"),
        (np.ones((0, 3)), "row per node"),
        (np.array([[1.0, 2], [np.nan, 1]]), "finite.*first in row 1"),
    ],
)
def test_what_is_no_matrix_of_vectors_is_refused(z, words):
    with pytest.raises(FeatureError, match=words):
        Roles().fit(z)


def test_vectors_of_another_width_are_refused(three):
    with pytest.raises(FeatureError, match="width 12, got width 3"):
        three[2].predict(np.ones((2, 3)))


def test_unfitted_roles_say_so():
    with pytest.raises(NotFittedError, match="fit"):
        Roles().predict(np.ones((2, 3)))


# ----------------------------------------------------------------------------------- compare


def test_who_moved_is_told_for_common_ids(three):
    z, _, roles = three
    ids = np.arange(len(z))
    other = z.copy()
    mover = int(np.flatnonzero(roles.labels == 0)[0])
    goal = int(np.flatnonzero(roles.labels == 1)[0])
    other[mover] = z[goal]
    keep = np.setdiff1d(ids, [5])  # one is gone, one is new
    told = compare(roles, ids, z, np.append(keep, 9999), np.vstack([other[keep], z[:1]]))
    data = told.as_dict()

    assert told.common == len(z) - 1
    assert told.moved == told.moves[0, 1] == 1
    assert [m["id"] for m in data["movers"]] == [mover]
    assert (data["movers"][0]["from"], data["movers"][0]["to"]) == (0, 1)
    assert data["gone"] == data["new"] == 1
    assert data["roles"][0]["stayed"] < 1 == data["roles"][2]["stayed"]
    assert max(r["drift"] for r in data["roles"]) < 0.2
    assert told.table.column_names == ["id", "from", "to"]
    json.dumps(data)


def test_drift_is_measured_in_radii(three):
    z, _, roles = three
    shift = np.zeros(12, np.float32)
    still = compare(roles, np.arange(len(z)), z, np.arange(len(z)), z + shift)
    only = np.flatnonzero(roles.labels == 0)
    part = compare(roles, np.arange(len(z)), z, only, z[only])

    assert still.drift.tolist() == [0, 0, 0]
    assert still.moved == 0
    assert part.as_dict()["roles"][1]["drift"] is None
    assert part.as_dict()["roles"][1]["stayed"] is None


def test_no_common_id_is_refused(three):
    z, _, roles = three
    with pytest.raises(GraphError, match="no id in common"):
        compare(roles, np.arange(len(z)), z, ["a"], z[:1])


def test_a_curve_needs_more_points_than_roles():
    x = np.random.default_rng(0).normal(size=(9, 2))

    assert set(choose(x, 2, 20, 0).curve) == {2}
    assert canonical.TOLERANCE < 1e-4
    assert Graph is not None
