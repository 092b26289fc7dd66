"""The nearest nodes, exact or with a measured recall; the row of an id, or a suggestion."""

from __future__ import annotations

import sys
import time

import numpy as np
import pyarrow as pa
import pytest
import threadpoolctl

import rae
from rae import search
from rae.blocks import Block
from rae.errors import ConfigError, FeatureError, GraphError, MissingExtraError, RunError
from rae.ops import nearest
from rae.ops.nearest import Scale, nearest_rows
from rae.runtime import set_threads
from rae.search import Index, row_of, similar, similar_to_each

Z = np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32)


class FakeRun:
    """The part of a run that the search uses."""

    def __init__(self, ids, z, checksum=None):
        self.ids, self.z, self.model_checksum, self.path = pa.array(ids), z, checksum, "runs/fake"

    def embeddings(self):
        return self.ids, self.z


def truth(z, row, k):
    """The nearest rows by definition, in units of the root mean square distance of two rows taken at random."""
    z = z.astype(np.float64)
    unit = np.sqrt(((z[:, None] - z[None]) ** 2).sum(-1).mean())
    distance = np.linalg.norm(z - z[row], axis=1) / unit
    distance[row] = np.inf
    order = np.argsort(distance, kind="stable")[:k]
    return order, distance[order]


@pytest.mark.parametrize("block", [1 << 26, 1 << 12, 64])
def test_the_nearest_are_those_of_the_whole_product(block, monkeypatch):
    monkeypatch.setattr(nearest, "BLOCK", block)
    near, distance = nearest_rows(Z, Z[:20], 7, skip=np.arange(20))

    for row in range(20):
        rows, values = truth(Z, row, 7)
        np.testing.assert_array_equal(near[row], rows)
        np.testing.assert_allclose(distance[row], values, atol=1e-5)


def test_the_public_function_names_nodes():
    answer = rae.similar(Z, 17, k=3)
    rows, values = truth(Z, 17, 3)

    assert answer.id == 17
    assert [name for name, _ in answer.matches] == rows.tolist()
    np.testing.assert_allclose([c for _, c in answer.matches], values, atol=1e-5)
    assert (answer.method, answer.recall) == ("exact", 1.0)


def test_length_matters_and_a_node_is_not_its_own_neighbour():
    z = np.array([[1, 0], [100, 1], [2, 0], [0, 0]], np.float32)
    answer = similar(z, "a", k=10, ids=list("abcd"))

    assert [name for name, _ in answer.matches] == ["c", "d", "b"]
    assert answer.matches[0][1] == answer.matches[1][1] < 0.1 < answer.matches[2][1]


def test_two_nodes_taken_at_random_are_at_distance_one():
    z = 100 + 7 * np.random.default_rng(1).normal(size=(400, 5)).astype(np.float32)
    _, distance = nearest_rows(z, z, 400)

    assert np.sqrt((distance.astype(np.float64) ** 2).mean()) == pytest.approx(1, abs=1e-4)
    assert not nearest_rows(np.ones((5, 2)), np.ones((1, 2)), 5)[1].any()


def test_near_vectors_far_from_the_others_are_told_apart():
    """Squares of distances by products lose what single precision cannot hold."""
    z = np.zeros((2000, 4), np.float32)
    z[:1000] = np.random.default_rng(0).normal(size=(1000, 4))
    z[1000:, 0] = 1000 + np.arange(1000) / 1000
    near, _ = nearest_rows(z, z[1500:1501], 3, np.array([1500]))

    assert near[0, 0] in (1499, 1501)
    assert set(near[0].tolist()) <= {1498, 1499, 1501, 1502}


def test_among_equals_the_lower_row_comes_first():
    z = np.tile(np.array([[1.0, 2.0]], np.float32), (30, 1))

    assert [i for i, _ in similar(z, 4, k=6).matches] == [0, 1, 2, 3, 5, 6]


@pytest.mark.parametrize("block", [1 << 26, 1 << 14, 64])
def test_equal_vectors_come_in_row_order_whatever_the_block(block, monkeypatch):
    """Products of equal vectors differ in the last bits; those must not decide."""
    monkeypatch.setattr(nearest, "BLOCK", block)
    monkeypatch.setattr(nearest, "TILE", 150)
    kind = np.random.default_rng(2).integers(4, size=400)
    z = np.random.default_rng(3).normal(size=(4, 33)).astype(np.float32)[kind]
    near, distance = nearest_rows(z, z, 9, skip=np.arange(400))

    for row in range(400):
        same = np.flatnonzero(kind == kind[row])
        assert near[row].tolist() == same[same != row][:9].tolist()
    assert (distance == 0).all()


@pytest.mark.parametrize("block", [1 << 26, 1 << 12])
def test_rows_that_are_ever_nearer_are_all_considered(block, monkeypatch):
    monkeypatch.setattr(nearest, "BLOCK", block)
    x = np.linspace(1.5, 0, 500)
    near, distance = nearest_rows(np.stack([x, x], 1), np.array([[0.0, 0.0]]), 4)

    assert near.tolist() == [[499, 498, 497, 496]]
    np.testing.assert_allclose(distance, [x[:-5:-1] / (np.sqrt(2) * x.std())], atol=1e-6)


def test_the_number_of_threads_changes_nothing():
    z = np.random.default_rng(5).normal(size=(1500, 64)).astype(np.float32)
    answers = []
    for count in (1, 2, 3):
        set_threads(count)
        with threadpoolctl.threadpool_limits(count, user_api="blas"):
            answers.append(nearest_rows(z, z, 15, skip=np.arange(1500)))

    for rows, distance in answers[1:]:
        assert np.array_equal(rows, answers[0][0])
        assert np.array_equal(distance, answers[0][1])


def test_the_query_may_be_a_node_of_another_run():
    here, there = FakeRun(["a", "b"], Z[:2], "m"), FakeRun([7, 8, 9], Z[[5, 0, 6]], "m")
    answer = similar(here, "a", k=2, among=there)

    assert answer.matches[0][0] == 8
    assert answer.matches[0][1] == 0
    assert similar(here, "a", k=1, among=([7, 8, 9], Z[[5, 0, 6]])).matches[0][0] == 8
    with pytest.raises(RunError, match="different models"):
        similar(here, "a", among=FakeRun([1], Z[:1], "other"))
    with pytest.raises(FeatureError, match="widths 8 and 3"):
        similar(here, "a", among=np.ones((2, 3)))


def test_many_queries_at_once():
    both = similar_to_each(Z, [3, 250], k=4)

    assert [s.id for s in both] == [3, 250]
    assert [i for i, _ in both[1].matches] == [i for i, _ in similar(Z, 250, k=4).matches]


# ------------------------------------------------------------------------------------- blocks

BLOCKS = (Block("place", 0, 2), Block("own", 2, 4), Block("around", 4, 8, weight=0.0))


def test_blocks_count_by_their_weights_and_those_of_weight_zero_never():
    z = Z.copy()
    z[:, 4:] *= 1000
    run = FakeRun(np.arange(300), z)
    run.blocks = BLOCKS
    ids = lambda z: [i for i, _ in similar(z, 9).matches]  # noqa: E731
    named = lambda **options: [i for i, _ in similar(z, 9, blocks=BLOCKS, **options).matches]  # noqa: E731

    assert named() == ids(run) == ids(z[:, :4])
    assert named(weights="own=0") == ids(z[:, :2])
    assert named(weights={"own": 3}) == ids(z[:, :4] * [1, 1, 3, 3])
    assert named(weights="place=0,own=0,around=1") == ids(z[:, 4:])
    with pytest.raises(ConfigError, match=r"no block 'ownn'.*did you mean 'own'"):
        named(weights="ownn=1")
    with pytest.raises(ConfigError, match="these vectors have none"):
        similar(z, 9, weights="own=1")


# ------------------------------------------------------------------------------------- index


def test_an_index_finds_nearly_all_and_measures_how_many():
    pytest.importorskip("faiss")
    draw = np.random.default_rng(1)
    z = (3 * draw.normal(size=(20, 16))[draw.integers(20, size=6000)] + draw.normal(size=(6000, 16))).astype(np.float32)
    index = Index(z, method="approximate")
    queries = np.arange(0, 6000, 60)
    near, distance = index.nearest(z[queries], 10, queries)
    _, best = nearest_rows(z, z[queries], 10, queries)

    assert index.method == "approximate"
    assert index.recall >= 0.95
    assert (distance <= best[:, -1:] + 1e-5).mean() > 0.9
    assert not (near == queries[:, None]).any()
    assert similar(z, 5, method="approximate").recall == index.recall


def test_equal_vectors_do_not_spoil_the_recall():
    pytest.importorskip("faiss")
    z = np.repeat(np.random.default_rng(0).normal(size=(8, 5)), 500, axis=0)

    assert Index(z, method="approximate").recall == 1


def test_an_index_is_built_only_for_many_queries_and_many_vectors(monkeypatch):
    built = []
    monkeypatch.setattr(Index, "_build", lambda self: built.append(len(self.z)))
    Index(Z, n_queries=10**6)
    monkeypatch.setattr(search, "EXACT_ROWS", 100)
    Index(Z, n_queries=1)
    assert built == []
    Index(Z, n_queries=10**6)
    assert built == [300]


def test_without_the_library_the_search_is_exact_and_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    monkeypatch.setattr(search, "EXACT_ROWS", 100)
    index = Index(Z, n_queries=10**6)

    assert index.method == "exact"
    assert "role-action-embeddings[search]" in index.note
    np.testing.assert_array_equal(index.nearest(Z[:1], 3, np.array([0]))[0][0], truth(Z, 0, 3)[0])
    with pytest.raises(MissingExtraError, match=r"role-action-embeddings\[search\]"):
        Index(Z, method="approximate")


def test_without_rows_to_skip_a_vector_finds_itself():
    near, distance = Index(Z).nearest(Z[:1], 1)

    assert near[0, 0] == 0
    assert distance[0, 0] == 0


def test_with_fewer_vectors_than_k_the_row_is_minus_one():
    near, _ = Index(Z[:2]).nearest(Z[:1], 4, np.array([0]))

    assert near.tolist() == [[1, -1, -1, -1]]


# --------------------------------------------------------------------------------------- ids


@pytest.mark.parametrize("id", ["7", 7, np.int64(7)])
def test_an_id_is_read_as_the_kind_the_run_has(id):
    assert row_of(pa.array([5, 7]), id) == 1
    assert row_of(pa.array(["5", "7"]), id) == 1


def test_an_unknown_id_gets_a_suggestion():
    ids = pa.array(["json.decoder", "json.encoder", "os", "posixpath"])
    with pytest.raises(GraphError, match=r"no node 'jsn.decoder'; did you mean 'json.decoder'"):
        row_of(ids, "jsn.decoder")
    with pytest.raises(GraphError, match="did you mean 'os'"):
        row_of(ids, "OS")
    with pytest.raises(GraphError, match="did you mean 'posixpath'"):
        row_of(ids, "path")
    with pytest.raises(GraphError, match=r"ids here are string such as 'json.decoder'"):
        row_of(ids, "zzzzzzzzzzz")
    with pytest.raises(GraphError, match="ids here are int64 such as 5"):
        row_of(pa.array([5, 7]), "ann")
    with pytest.raises(GraphError, match="no node"):
        row_of(ids, {"an": "object"})
    with pytest.raises(GraphError, match="no node"):
        row_of(ids, object())


@pytest.mark.parametrize("id", ["", " "])
def test_blank_text_is_not_similar_to_every_id(id):
    with pytest.raises(GraphError, match=r"no node ' ?'; ids here are string such as 'a b'"):
        row_of(pa.array(["a b", "c d"]), id)
    assert row_of(pa.array(["a", id]), id) == 1


def test_a_suggestion_among_many_ids_takes_no_time():
    ids = pa.array([f"user{i:07}" for i in range(300_000)])
    began = time.perf_counter()
    with pytest.raises(GraphError, match="did you mean"):
        row_of(ids, "usr0004711")
    with pytest.raises(GraphError, match="did you mean"):
        row_of(ids, "user00047111")
    assert time.perf_counter() - began < 20  # a letter-by-letter comparison with all would take minutes


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: similar(Z, 1, k=0), ConfigError, "k must be"),
        (lambda: similar(Z, 1, k=True), ConfigError, "k must be"),
        (lambda: similar(Z, 1, method="fast"), ConfigError, "method must be one of"),
        (lambda: similar(np.ones(3), 1), FeatureError, "matrix"),
        (lambda: similar(Z, 1, ids=[1]), FeatureError, "one entry per row"),
    ],
)
def test_a_wrong_call_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_products_in_single_precision_lose_no_neighbor():
    """Rows far from all others, rows nearly equal, and many rows nearly as near as the nearest."""
    rng = np.random.default_rng(5)
    cases = (
        rng.normal(size=(700, 3)),
        np.concatenate([rng.normal(size=(600, 64)) * 1e-4, rng.normal(size=(100, 64)), [[1e4] * 64]]),
        np.repeat(rng.normal(size=(40, 8)), 30, axis=0) + rng.normal(size=(1200, 8)) * 1e-6,
        np.arange(800)[:, None] * 1e-5 + 1000,
    )
    for z in (case.astype(np.float32) for case in cases):
        scaled = Scale.of(z)(z)
        squared = ((scaled[:, None, :] - scaled[None]) ** 2).sum(2)
        np.fill_diagonal(squared, np.inf)
        distance = np.sqrt(squared).round(6)
        expected = np.argsort(distance, axis=1, kind="stable")[:, :7]
        rows, near = nearest_rows(z, z, 7, skip=np.arange(len(z)))
        assert np.array_equal(near, np.take_along_axis(distance, expected, 1).astype(np.float32))
        assert np.array_equal(rows, expected)
