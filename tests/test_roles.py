"""Roles: the planted number is found, in any order of rows, and other vectors get the same roles."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest
from sklearn.cluster import kmeans_plusplus
from sklearn.metrics import adjusted_rand_score

from rae import RAE, Graph, Roles
from rae.blocks import Block, side_by_side
from rae.datasets import load
from rae.errors import CheckpointError, ConfigError, FeatureError, GraphError, NotFittedError, RunError
from rae.io import read_embeddings
from rae.roles.compare import compare
from rae.roles.number import MOST_HALVINGS, choose_number, find_positions, kmeans_starts, uncertain_numbers
from rae.roles.storage import describe_number, make_record, read_record, read_table
from rae.roles.vectors import Projection, sample_rows

OLD_FILES = Path(__file__).parent / "old_roles"  # written by rae 0.1.0 at commit 77df0be


def make_blobs(k, n=600, width=12, spread=0.35, seed=0):
    """k round, well separated groups of unequal size: vectors and groups."""
    draw = np.random.default_rng(seed)
    truth = np.minimum(draw.geometric(1.5 / k, n) - 1, k - 1)
    centers = 2 * draw.normal(size=(k, width))
    return (centers[truth] + spread * draw.normal(size=(n, width))).astype(np.float32), truth


@pytest.fixture(scope="module")
def three():
    z, truth = make_blobs(3)
    return z, truth, Roles(max_k=6).fit(z, model="abc")


@pytest.fixture(scope="module")
def deep():
    return RAE(dims=(32, 32, 32), fanout=(8, 8, 8), steps=20)


# ---------------------------------------------------------------------------------- number


@pytest.mark.parametrize("k", [2, 4, 5])
def test_prediction_strength_finds_the_number_of_round_groups(k):
    z, truth = make_blobs(k, seed=k)
    roles = Roles(max_k=8).fit(z)

    assert roles.n_roles == k
    assert roles.criterion == "prediction strength"
    assert adjusted_rand_score(truth, roles.labels) > 0.99
    assert not roles.weak
    assert roles.curve[k] >= 0.8
    assert all(value < 0.8 for number, value in roles.curve.items() if number > k)


@pytest.mark.parametrize("n", [3, 40, 8_000])  # the last one in several parts
def test_starts_of_k_means_are_those_of_scikit_learn_one_after_the_other(n):
    x = np.random.default_rng(n).normal(size=(n, 4))
    x -= x.mean(0)
    for k in (1, 2, 3):
        ours, draw = kmeans_starts(x, k, np.random.RandomState(5)), np.random.RandomState(5)
        assert np.array_equal(ours, [kmeans_plusplus(x, k, random_state=draw)[0] for _ in ours])


def test_only_numbers_that_could_still_be_chosen_get_more_halvings():
    assert uncertain_numbers({2: [], 3: []}) == [2, 3]
    certain = {2: [0.72, 0.68], 3: [0.95, 0.91], 4: [0.74, 0.70], 5: [0.3, 0.26]}
    assert uncertain_numbers(certain) == [4]  # 2 is as uncertain, but 3 is strong; 5 is certainly not
    assert uncertain_numbers(certain | {4: certain[4] * MOST_HALVINGS}) == []  # the same mean of more halvings
    assert uncertain_numbers({}) == []


def test_the_number_of_overlapping_groups_does_not_hang_on_rounding():
    z, _ = make_blobs(6, n=300, spread=1.6, seed=7)
    for seed in range(3):  # rows are sorted by their values before they are halved: rounding gives other halves
        moved = z + 1e-5 * np.random.default_rng(seed).normal(size=z.shape)
        assert Roles(max_k=7).fit(moved).n_roles == 6


@pytest.mark.parametrize("seed", range(3))
def test_positions_that_differ_only_far_away_are_separate_roles(seed):
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


def test_the_number_of_planted_action_groups_is_found():
    data = load("planted-actions", n_nodes=800, groups=4, signal=0.4)
    z = RAE(dims=(64,), fanout=(10,), steps=60).fit_transform(data.graph, features=data.features)
    roles = Roles(max_k=8).fit(z)

    assert roles.n_roles == 4
    assert adjusted_rand_score(data.labels, roles.labels) > 0.6


def test_many_equal_vectors_do_not_hide_the_other_roles():
    z, _ = make_blobs(3)
    z = np.vstack([z, np.full((900, 12), 3, np.float32)])

    assert Roles(max_k=8).fit(z).n_roles == 4


def test_the_number_can_be_given():
    z, _ = make_blobs(3)
    roles = Roles(k=5).fit(z)

    assert roles.n_roles == 5
    assert roles.criterion == "given"
    assert roles.curve == {}


def test_where_no_number_is_strong_the_best_is_taken_and_called_weak():
    noise = np.random.default_rng(0).normal(size=(300, 30)).astype(np.float32)
    roles = Roles(max_k=4).fit(noise)

    assert max(roles.curve.values()) < 0.8
    assert roles.n_roles == max(roles.curve, key=lambda k: roles.curve[k])
    assert roles.weak
    assert make_record(roles, roles.assignment, [])["weak"] is True
    assert "a weak choice" in describe_number(roles.parameters.choice)


def test_many_equal_vectors_and_a_few_others_raise_no_warning():
    """A half then has fewer different rows than the largest k, which k-means would warn of."""
    z = np.vstack([np.zeros((200, 4)), np.random.default_rng(0).normal(size=(24, 4))])

    assert Roles().fit(z).criterion == "prediction strength"


def test_equal_vectors_are_one_role():
    roles = Roles().fit(np.ones((5, 3)))

    assert roles.n_roles == 1
    assert roles.memberships(np.ones((2, 3))).tolist() == [[1], [1]]
    assert Roles().fit(np.ones((1, 3))).n_roles == 1


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_vectors_equal_up_to_rounding_are_one_role(scale):
    draw = np.random.default_rng(0)
    z = scale * (1 + 1e-7 * draw.normal(size=(200, 16))).astype(np.float32)
    roles = Roles().fit(z)

    assert roles.n_roles == 1
    assert describe_number(roles.parameters.choice) == "1 role: all vectors are equal up to rounding"
    assert (roles.confidence == 1).all()
    two = z + np.float32(scale * 1e-4) * (np.arange(200) % 2)[:, None]
    assert Roles().fit(two).sizes.tolist() == [100, 100]


def test_three_nodes_are_too_few_to_tell_roles_apart():
    roles = Roles().fit(np.eye(3))

    assert roles.n_roles == 1
    assert roles.curve == {}


def test_the_middle_of_a_star_is_a_role_of_its_own():
    z = np.vstack([np.zeros((40, 4)), np.ones((1, 4))])

    assert Roles().fit(z).sizes.tolist() == [40, 1]


# ----------------------------------------------------------------------------- order of rows


def test_a_reshuffle_of_rows_changes_nothing_but_the_order(three):
    z, _, roles = three
    order = np.random.default_rng(5).permutation(len(z))
    again = Roles(max_k=6).fit(z[order])

    np.testing.assert_array_equal(again.labels, roles.labels[order])
    np.testing.assert_allclose(again.assignment.memberships, roles.assignment.memberships[order], atol=1e-5)
    assert again.curve == roles.curve


@pytest.mark.parametrize("name", ["house", "barbell"])
def test_relabelling_the_nodes_of_a_graph_does_not_change_their_roles(name, deep):
    graph = load(name).graph
    first = Roles().fit(deep.fit_transform(graph))
    row = np.random.default_rng(3).permutation(graph.n_nodes)
    ends = row[np.repeat(np.arange(graph.n_nodes), graph.degrees)], row[graph.targets]
    second = Roles().fit(deep.transform(Graph.from_edges(ends, ids=np.arange(graph.n_nodes)), whole=True))

    assert second.sizes.tolist() == first.sizes.tolist()
    assert adjusted_rand_score(second.labels[row], first.labels) == 1


def test_a_reshuffle_changes_nothing_where_only_a_sample_is_fitted(monkeypatch):
    monkeypatch.setattr("rae.roles.model.SAMPLE_ROWS", 200)
    z, _ = make_blobs(4, n=900)
    z = np.vstack([z, z[:300]])  # with equal rows
    order = np.random.default_rng(2).permutation(len(z))
    first, second = Roles(max_k=6).fit(z), Roles(max_k=6).fit(z[order])

    assert first.n_roles == 4
    np.testing.assert_array_equal(second.labels, first.labels[order])


def test_a_sample_depends_on_the_values_of_rows_alone():
    z = np.random.default_rng(0).normal(size=(500, 3)).astype(np.float32)
    z[100:400] = z[0]
    order = np.random.default_rng(1).permutation(500)
    first = sample_rows(z, 50, 0)

    np.testing.assert_array_equal(first, sample_rows(z[order], 50, 0))
    assert not np.array_equal(first, sample_rows(z, 50, 1))
    share = (first == z[0]).all(1).mean()
    assert 0.4 < share < 0.8  # equal rows are drawn by their share of all rows, 0.6


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
    positions = find_positions(noisy)

    assert len(positions) == 6
    assert np.bincount(positions.of_row).tolist() == [50] * 6


def test_a_projection_keeps_the_distances_of_rows_in_a_plane():
    draw = np.random.default_rng(0)
    z = (draw.normal(size=(400, 2)) @ draw.normal(size=(2, 9)) + 5).astype(np.float32)
    projection = Projection.fit(z)

    assert projection.leading == 2
    assert projection.leading_only().directions.shape == (9, 2)
    distance = np.linalg.norm(z[0].astype(float) - z[1])
    x = projection.leading_only()(z)
    assert np.isclose(np.linalg.norm(x[0] - x[1]), distance, rtol=1e-3)


# -------------------------------------------------------------------------------- membership


def test_memberships_sum_to_one_and_their_largest_is_the_role(three):
    z, _, roles = three
    assignment = roles.assign(z)

    np.testing.assert_allclose(assignment.memberships.sum(1), 1, atol=1e-5)
    np.testing.assert_array_equal(assignment.memberships.argmax(1), assignment.labels)
    np.testing.assert_allclose(assignment.confidence, assignment.memberships.max(1))
    np.testing.assert_array_equal(roles.predict(z), roles.labels)
    np.testing.assert_array_equal(roles.memberships(z), assignment.memberships)


def test_a_node_between_two_roles_has_a_low_confidence(three):
    z, truth, roles = three
    middle = (z[truth == 0].mean(0) + z[truth == 1].mean(0)) / 2
    memberships = roles.memberships(middle[None])[0]

    assert memberships.max() < 0.6
    assert roles.confidence.mean() > memberships.max()


def test_chunks_do_not_change_the_answer(three, monkeypatch):
    z, _, roles = three
    monkeypatch.setattr("rae.roles.model.CHUNK_ROWS", 7)

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


@pytest.mark.parametrize(("name", "criterion"), [("steady", "steady positions"), ("strength", "prediction strength")])
def test_files_of_the_version_that_counted_roles_through_noise_load(name, criterion, tmp_path):
    folder = OLD_FILES / name
    roles, stored = Roles.load(folder / "roles.safetensors"), read_record(folder / "roles.json")
    ids, labels, confidence, memberships = read_table(folder / "roles.parquet")
    embedded_ids, z = read_embeddings(folder / "embeddings.parquet")
    assignment = roles.assign(z)

    assert (roles.n_roles, roles.criterion) == (stored["k"], stored["criterion"]) == (len(stored["cards"]), criterion)
    assert describe_number(roles.parameters.choice)[0] == stored["rule"][0]
    assert ids.equals(embedded_ids)
    np.testing.assert_array_equal(assignment.labels, labels)
    np.testing.assert_allclose(assignment.confidence, confidence, atol=1e-6)
    np.testing.assert_allclose(assignment.memberships, memberships, atol=1e-6)
    roles.save(tmp_path / "again")
    np.testing.assert_array_equal(Roles.load(tmp_path / "again").memberships(z), assignment.memberships)


def _rewrite_header(path, change):
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + size])
    ours = json.loads(header["__metadata__"]["rae roles"])
    del ours["sha256"]
    change(header, ours)
    if "rae roles" in header["__metadata__"]:
        header["__metadata__"]["rae roles"] = json.dumps(ours)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + size :])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda h, t: h["__metadata__"].pop("rae roles"), "not one that rae wrote"),
        (lambda h, t: t.update(format=9), "reads up to 2; upgrade"),
        (lambda h, t: t.pop("format"), "header .* is damaged"),
        (lambda h, t: t.pop("radius"), "does not hold the roles"),
        (lambda h, t: t.update(radius=-1), "settings are damaged"),
        (lambda h, t: t.update(model=5), "model must be text or null, got 5"),
        (lambda h, t: h["centers"].update(shape=h["centers"]["shape"][::-1]), "do not fit together"),
    ],
)
def test_a_foreign_newer_or_damaged_file_is_refused(three, tmp_path, change, words):
    path = tmp_path / "roles.safetensors"
    three[2].save(path)
    _rewrite_header(path, change)
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
def test_input_that_is_not_a_matrix_of_vectors_is_refused(z, words):
    with pytest.raises(FeatureError, match=words):
        Roles().fit(z)


def test_vectors_of_another_width_are_refused(three):
    with pytest.raises(FeatureError, match="width 12, got width 3"):
        three[2].predict(np.ones((2, 3)))


def test_unfitted_roles_say_so():
    with pytest.raises(NotFittedError, match="fit"):
        Roles().predict(np.ones((2, 3)))


# ----------------------------------------------------------------------------------- compare


def test_a_comparison_counts_the_moves_of_common_ids(three):
    z, _, roles = three
    ids = np.arange(len(z))
    other = z.copy()
    mover = int(np.flatnonzero(roles.labels == 0)[0])
    goal = int(np.flatnonzero(roles.labels == 1)[0])
    other[mover] = z[goal]
    common = np.setdiff1d(ids, [5])  # 5 is gone, 9999 is new
    comparison = compare(roles, ids, z, np.append(common, 9999), np.vstack([other[common], z[:1]]))
    data = comparison.as_dict()

    assert comparison.common == len(z) - 1
    assert comparison.moved == comparison.moves[0, 1] == 1
    assert [m["id"] for m in data["movers"]] == [mover]
    assert (data["movers"][0]["from"], data["movers"][0]["to"]) == (0, 1)
    assert data["gone"] == data["new"] == 1
    assert data["roles"][0]["stayed"] < 1 == data["roles"][2]["stayed"]
    assert max(r["drift"] for r in data["roles"]) < 0.2
    assert comparison.table.column_names == ["id", "from", "to"]
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


def test_a_curve_needs_four_rows_per_role():
    x = np.random.default_rng(0).normal(size=(9, 2))

    assert set(choose_number(x, find_positions(x), 2, 20, 0).curve) == {2}


# ---------------------------------------------------------------------------------- blocks


def blocks_of(*widths, off=()):
    return side_by_side(Block(f"b{i}", 0, width, weight=float(i not in off)) for i, width in enumerate(widths))


def test_a_block_of_weight_zero_never_enters_distances():
    z, truth = make_blobs(3)
    noise = 50 * np.random.default_rng(1).normal(size=(len(z), 5)).astype(np.float32)
    blocks = blocks_of(12, 5, off=[1])
    roles = Roles(max_k=6).fit(np.hstack([z, noise]), blocks=blocks)

    assert adjusted_rand_score(truth, roles.labels) > 0.99
    assert roles.parameters.weights == {"b0": 1.0, "b1": 0.0}
    np.testing.assert_array_equal(roles.predict(np.hstack([z, -noise])), roles.labels)
    assert adjusted_rand_score(truth, Roles(3, weights="b1=1").fit(np.hstack([z, noise]), blocks=blocks).labels) < 0.5


def test_weights_are_factors_of_the_blocks():
    z, _ = make_blobs(4)
    scaled = z * np.repeat([1, 0.25], 6).astype(np.float32)

    weighted = Roles(3, weights={"b1": 0.25}).fit(z, blocks=blocks_of(6, 6))
    np.testing.assert_array_equal(weighted.labels, Roles(3).fit(scaled).labels)


def test_stored_roles_remember_blocks_and_weights(tmp_path):
    z, _ = make_blobs(3)
    roles = Roles(max_k=6, weights="b1=0").fit(z, blocks=blocks_of(6, 6))
    roles.save(tmp_path / "roles.safetensors")
    again = Roles.load(tmp_path / "roles.safetensors")

    assert again.parameters.blocks == roles.parameters.blocks
    assert again.parameters.weights == {"b0": 1.0, "b1": 0.0}
    assert "weights={'b0': 1.0" in repr(again)
    np.testing.assert_array_equal(again.memberships(z), roles.memberships(z))
    with pytest.raises(FeatureError, match="width 12, got width 6"):
        again.assign(z[:, :6])
    assert make_record(again, roles.assignment, [])["weights"] == {"b0": 1.0, "b1": 0.0}


def test_blocks_that_do_not_fit_are_refused():
    z, _ = make_blobs(2)
    with pytest.raises(FeatureError, match=r"12 columns\), got 5"):
        Roles().fit(z, blocks=blocks_of(5))
    with pytest.raises(ConfigError, match="these vectors have none"):
        Roles(weights="place=1").fit(z)
