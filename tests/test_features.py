"""Features: checked, aligned by id, kept sparse."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
import torch

from rae import PAPER, RAE, FeatureTable, Graph, structural_features
from rae.errors import FeatureError
from rae.features import check_matrix, concatenate, prepare

GRAPH = Graph.from_edges([("a", "b"), ("b", "c")])
TABLE = FeatureTable(pa.array(["c", "a", "b"]), np.array([[3.0, 30], [1, 10], [2, 20]]), ("x", "y"))


@pytest.mark.parametrize(
    "kind", [np.asarray, sp.csr_array, sp.coo_matrix, torch.tensor, pd.DataFrame, np.ndarray.tolist]
)
def test_every_kind_of_matrix_is_taken_as_float32(kind):
    x = check_matrix(kind(np.arange(6, dtype=np.float64).reshape(3, 2)))

    assert x.dtype == np.float32
    assert np.array_equal(x.toarray() if sp.issparse(x) else x, np.arange(6).reshape(3, 2))
    assert sp.issparse(x) == (kind in (sp.csr_array, sp.coo_matrix))


def test_a_table_is_aligned_by_id():
    assert TABLE.aligned(GRAPH).tolist() == [[1, 10], [2, 20], [3, 30]]


@pytest.mark.parametrize("sparse", [False, True])
def test_missing_rows_can_be_zeros_and_unknown_ones_dropped(sparse):
    matrix = np.array([[3.0, 30], [1, 10], [9, 90]])
    table = FeatureTable(pa.array(["c", "a", "z"]), sp.csr_array(matrix) if sparse else matrix)

    x = table.aligned(GRAPH, missing="zero", unknown="drop")

    assert (x.toarray() if sparse else x).tolist() == [[1, 10], [0, 0], [3, 30]]


@pytest.mark.parametrize("sparse", [False, True])
def test_columns_are_put_in_the_models_order_by_name(sparse):
    table = FeatureTable(TABLE.id_column, sp.csr_array(TABLE.matrix) if sparse else TABLE.matrix, TABLE.names)
    turned = table.with_columns(("y", "x"))

    dense = turned.matrix.toarray() if sparse else turned.matrix
    assert dense.tolist() == [[30, 3], [10, 1], [20, 2]]
    assert table.with_columns(("x", "y")) is table


def test_an_open_vocabulary_may_lack_words_and_bring_new_ones():
    table = FeatureTable(pa.array(["a", "b"]), sp.csr_array(np.array([[1.0, 2], [0, 4]])), ("new", "old"), True)

    x = table.with_columns(("gone", "old")).matrix

    assert x.toarray().tolist() == [[0, 2], [0, 4]]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: check_matrix(np.ones(3)), "one row per node and a column or more"),
        (lambda: check_matrix(np.ones((3, 0))), "a column or more"),
        (lambda: check_matrix(np.ones((3, 2)), 4), "one row per node \\(4\\), got 3; pass a FeatureTable"),
        (lambda: check_matrix([["a"], ["b"]]), "must be numbers"),
        (lambda: check_matrix(np.array([[1, None]], object)), "must be numbers"),
        (lambda: check_matrix(sp.csr_array(np.array([[1j]]))), "must be numbers"),
        (lambda: check_matrix(np.array([[1, 2], [3, np.nan]])), "got 1 NaN or infinite, first in row 1, column 1"),
        (lambda: check_matrix(sp.csr_array(np.array([[0, 2], [np.inf, 1]]))), "first in row 1, column 0"),
        (lambda: concatenate(np.ones((2, 1)), np.ones((3, 1))), "got 2 and 3 rows"),
        (lambda: FeatureTable(pa.array(["a", "a"]), np.ones((2, 1))), "got 1 with more, first 'a'"),
        (lambda: FeatureTable(pa.array(["a"]), np.ones((1, 2)), ("x",)), "names must have one entry per column"),
        (
            lambda: FeatureTable(pa.array(["a", "b"]), np.ones((2, 1))).aligned(GRAPH),
            "1 of 3 nodes have no feature row",
        ),
        (
            lambda: FeatureTable(pa.array(list("abcz")), np.ones((4, 1))).aligned(GRAPH),
            "1 feature rows belong to ids that are not in the graph, first 'z'",
        ),
        (
            lambda: FeatureTable(pa.array([1, 2, 3]), np.ones((3, 1))).aligned(GRAPH),
            "none of the 3 nodes has a feature row: node ids are string such as 'a', 'b', 'c', feature ids are int64",
        ),
        (lambda: TABLE.with_columns(("x", "yy")), "1 are not in this table, first 'yy'; did 'y' change its name"),
        (lambda: TABLE.with_columns(("x", "other")), "first 'other'$"),
        (lambda: FeatureTable(pa.array(["a"]), np.ones((1, 1))).with_columns(("x",)), "has no names"),
        (
            lambda: FeatureTable(pa.array(["a"]), np.ones((1, 1)), ("w",), True).with_columns(("x", "y")),
            "none of the model's 2 features occurs here",
        ),
    ],
)
def test_features_that_do_not_fit_are_refused_in_a_sentence(make, says):
    with pytest.raises(FeatureError, match=says):
        make()


def test_structure_and_action_are_joined_only_when_asked():
    x = np.ones((3, 2), np.float32)

    assert np.array_equal(prepare(GRAPH, x, PAPER), x)
    assert np.array_equal(prepare(GRAPH, None, PAPER), structural_features(GRAPH))
    joined = prepare(GRAPH, sp.csr_array(x), PAPER.replace(add_structure=True))
    assert sp.issparse(joined)
    assert np.array_equal(joined.toarray(), np.hstack([structural_features(GRAPH), x]))
    assert np.array_equal(concatenate(x, x), np.hstack([x, x]))


def test_sparse_features_are_never_made_dense(monkeypatch):
    """Neither in training (input dropout included) nor when embedding."""
    graph = Graph.from_edges([(i, i + 1) for i in range(300)])
    words = sp.random_array((301, 2000), density=0.01, rng=np.random.default_rng(0), dtype=np.float32).tocsr()
    for name in ("toarray", "todense"):
        monkeypatch.setattr(sp.csr_array, name, lambda *a, **k: pytest.fail("made dense"))

    z = RAE(dims=(8, 4), fanout=(3, 3), steps=3, input_dropout=0.3).fit_transform(graph, words)

    assert np.isfinite(z).all()
