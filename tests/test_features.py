"""Features: checked, aligned by id, kept sparse."""

from __future__ import annotations

import logging

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
import torch

from rae import PAPER, RAE, Config, FeatureTable, Graph, structural_features
from rae.errors import FeatureError, RaeError
from rae.features import Features, check_matrix, concatenate, matrix
from rae.memory import forget, mapped

GRAPH = Graph.from_edges([("a", "b"), ("b", "c")])


def _rows(graph, x, config):
    return Features.of(graph, x, config).rows(0, graph.n_nodes)


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
        (lambda: check_matrix(np.array([[1, 2], [1e30, 3]])), "got 1, first 1e\\+30 in row 1, column 0; mend them"),
        (lambda: check_matrix(sp.csr_array(np.array([[0, -1e20]]))), "got 1, first -1e\\+20 in row 0, column 1"),
        (lambda: check_matrix(pd.DataFrame({"town": ["Rome"]})), "or pass FeatureTable.from_dataframe"),
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


def test_ids_written_alike_match_whatever_kind_they_are():
    graph = Graph.from_edges([("0", "1"), ("1", "guest")])
    table = FeatureTable(pa.array([1, 0]), np.array([[1.0], [0.0]]))
    turned = FeatureTable(pa.array(["1", "guest", "0"]), np.array([[1.0], [9], [0]]))

    assert table.aligned(graph, missing="zero").tolist() == [[0], [1], [0]]
    with pytest.raises(FeatureError, match="1 of 3 nodes have no feature row, first 'guest'"):
        table.aligned(graph)
    whole = Graph.from_edges([(0, 1)])
    assert turned.aligned(whole, unknown="drop").tolist() == [[0], [1]]
    with pytest.raises(FeatureError, match="whole numbers in the graph and text in the table: read both with as_text"):
        turned.aligned(whole)


SCRAMBLED = pd.DataFrame({"id": ["c", "a", "b"], "x": [3.0, 1, 2], "ok": [True, False, True]})


@pytest.mark.parametrize(
    ("frame", "id"),
    [
        (SCRAMBLED, None),
        (SCRAMBLED.set_index("id"), None),
        (SCRAMBLED.set_index("id"), "id"),
        (SCRAMBLED[SCRAMBLED.x > 0].sort_values("x"), None),
        (SCRAMBLED.rename(columns={"id": "who"}), "who"),
        (pl.DataFrame(SCRAMBLED.to_dict("list")), None),
        (pa.table(SCRAMBLED.to_dict("list")), None),
        (pa.table(SCRAMBLED.to_dict("list")).to_batches()[0], "id"),
    ],
)
def test_a_data_frame_is_keyed_by_its_id(frame, id):
    table = FeatureTable.from_dataframe(frame, id=id)

    assert table.names == ("x", "ok")
    assert table.aligned(GRAPH).tolist() == [[1, 0], [2, 1], [3, 1]]


@pytest.mark.parametrize(
    "frame",
    [
        SCRAMBLED,
        SCRAMBLED.set_index("id"),
        SCRAMBLED.drop(columns="id").sort_values("x"),
        SCRAMBLED.rename(columns={"id": "user_id"}),
        pd.DataFrame({"x": [1.0, 2, 3]}, index=pd.RangeIndex(3, name="id")),
        pl.DataFrame(SCRAMBLED.to_dict("list")),
        pa.table(SCRAMBLED.to_dict("list")),
    ],
)
def test_a_data_frame_with_ids_is_not_taken_row_by_row(frame):
    with pytest.raises(FeatureError, match=r"(an index|a column '.*id') that seems to hold ids: pass FeatureTable"):
        RAE(steps=0).fit(GRAPH, features=frame)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_a_data_frame_without_ids_is_taken_in_row_order(make):
    frame = make({"x": [1.0, 2, 3], "grid": [4.0, 5, 6]})

    assert check_matrix(frame, 3).tolist() == [[1, 4], [2, 5], [3, 6]]


@pytest.mark.parametrize(
    ("frame", "id", "says"),
    [
        (SCRAMBLED[["x"]], None, "which column holds the ids\\? pass id=, one of 'x'"),
        (SCRAMBLED, "idd", "there is no column 'idd'; did you mean 'id'"),
        (SCRAMBLED[["id"]], None, "there are only ids, expected a column of features or more"),
        (SCRAMBLED[:0], None, "the table has no rows, expected one per node"),
        (
            SCRAMBLED.assign(x=1e30),
            None,
            r"from -1e\+18 to 1e\+18, .* 3 are not, first in row 1 \(id 'c'\), column 'x'",
        ),
        (SCRAMBLED.assign(x=[1, None, 2]), None, r"row 2 \(id 'a'\), column 'x', which is missing .* drop=\['x'\]"),
        (SCRAMBLED.assign(id="a"), None, "one feature row, got 1 with more, first 'a'"),
        (SCRAMBLED.assign(id=[(1, 2)] * 3), None, "one feature row, got 1 with more, first \\[1, 2\\]"),
        (SCRAMBLED[["x"]].set_index([["a"] * 3, [1, 2, 3]]), None, "text"),
        ([1, 2], None, "expected a data frame"),
    ],
)
def test_a_data_frame_that_makes_no_table_is_refused_in_a_sentence(frame, id, says):
    with pytest.raises(RaeError, match=says):
        FeatureTable.from_dataframe(frame, id=id)


@pytest.mark.filterwarnings("ignore:Sparse CS. tensor support")
def test_torch_matrices_of_every_layout_are_taken_and_sparse_ones_stay_sparse():
    dense = torch.tensor([[0.0, 2], [3, 0]])
    for x in (dense.to_sparse(), dense.to_sparse_csr(), dense.to_sparse_csc()):
        assert sp.issparse(check_matrix(x))
        assert check_matrix(x).toarray().tolist() == dense.tolist()
    assert check_matrix(dense.to(torch.bfloat16)).tolist() == dense.tolist()
    with pytest.raises(FeatureError, match="must be a matrix, got shape"):
        check_matrix(torch.ones(2, 2, 2).to_sparse())


def test_columns_the_model_does_not_know_are_left_out_aloud(caplog):
    with caplog.at_level(logging.WARNING, "rae"):
        assert TABLE.with_columns(("y",)).matrix.tolist() == [[30], [10], [20]]
        assert "1 feature columns are unknown to the model and left out, first 'x'" in caplog.text
        caplog.clear()
        words = FeatureTable(pa.array(["a"]), sp.csr_array(np.array([[1.0, 2]])), ("new", "old"), True)
        words.with_columns(("old",))
    assert not caplog.records


def test_structure_and_action_are_joined_only_when_asked():
    x = np.ones((3, 2), np.float32)

    assert np.array_equal(_rows(GRAPH, x, PAPER), x)
    raw = structural_features(GRAPH, scale="raw")
    assert np.array_equal(_rows(GRAPH, None, PAPER), raw)
    assert np.array_equal(_rows(GRAPH, None, Config()), structural_features(GRAPH))
    joined = _rows(GRAPH, sp.csr_array(x), PAPER.replace(add_structure=True))
    assert sp.issparse(joined)
    assert np.array_equal(joined.toarray(), np.hstack([raw, x]))
    assert np.array_equal(concatenate(x, x), np.hstack([x, x]))


def test_sparse_features_are_never_made_dense(monkeypatch):
    """Neither in training (input dropout included) nor when embedding."""
    graph = Graph.from_edges([(i, i + 1) for i in range(300)])
    words = sp.random_array((301, 2000), density=0.01, rng=np.random.default_rng(0), dtype=np.float32).tocsr()
    for name in ("toarray", "todense"):
        monkeypatch.setattr(sp.csr_array, name, lambda *a, **k: pytest.fail("made dense"))

    z = RAE(dims=(8, 4), fanout=(3, 3), steps=3, input_dropout=0.3).fit_transform(graph, features=words)

    assert np.isfinite(z).all()


@pytest.mark.parametrize("make", [pd.DataFrame, pa.table])
def test_a_column_that_holds_the_ids_is_no_feature_whatever_its_name(make):
    graph = Graph.from_edges([(10, 20), (20, 30)])
    frame = make({"uid": [30, 10, 20], "x": [3.0, 1.0, 2.0]})

    with pytest.raises(FeatureError, match=r"from_dataframe\(df, id='uid'\)"):
        _rows(graph, frame, PAPER)
    assert FeatureTable.from_dataframe(frame, id="uid").aligned(graph).tolist() == [[1], [2], [3]]
    assert _rows(graph, make({"a": [10, 10, 20], "x": [3.0, 1.0, 2.0]}), PAPER).shape == (3, 2)


# ------------------------------------------------------------------------------------- as they are

HALF = np.arange(12, dtype=np.float16).reshape(4, 3)


def test_what_is_a_matrix_already_is_not_copied(tmp_path):
    np.save(tmp_path / "x.npy", HALF)
    on_disk = np.load(tmp_path / "x.npy", mmap_mode="r")

    for x in (HALF, HALF.astype(np.float32), on_disk):
        assert np.shares_memory(check_matrix(x), x)
        assert check_matrix(x).dtype == x.dtype
    assert mapped(check_matrix(on_disk)) is not None
    entries = sp.csr_array(HALF.astype(np.float32))
    assert check_matrix(entries) is entries


def test_halves_in_another_order_or_place_are_put_row_by_row_and_stay_halves():
    crooked = np.zeros(HALF.nbytes + 1, np.uint8)[1:].view(np.float16).reshape(HALF.shape)
    crooked[:] = HALF
    for x in (np.asfortranarray(HALF), crooked, torch.from_numpy(HALF)):
        checked = check_matrix(x)

        assert checked.dtype == np.float16
        assert checked.flags.c_contiguous
        assert checked.flags.aligned
        assert np.array_equal(checked, HALF)
    assert check_matrix(HALF.astype(">f2")).dtype == np.float32


@pytest.mark.parametrize("piece", [1, 2, 5, 1000])
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, sp.csr_array])
def test_a_check_in_pieces_counts_all_gaps_and_finds_the_first(monkeypatch, piece, kind):
    monkeypatch.setattr(matrix, "CHUNK", piece)
    bad = np.array([[0, 1, 0], [0, 2, 3], [0, 0, 0], [4, 0, np.nan], [np.inf, -np.inf, 5]])

    with pytest.raises(FeatureError, match="got 3 NaN or infinite, first in row 3, column 2"):
        check_matrix(kind(bad))
    check_matrix(kind(np.nan_to_num(bad, posinf=1, neginf=1)))


def test_entries_given_twice_are_summed_and_the_callers_matrix_is_left_alone():
    arrays = (np.array([1, 2, 4], np.float32), np.array([1, 1, 0]), np.array([0, 3]))
    for array in arrays:
        array.flags.writeable = False
    x = sp.csr_array(arrays, shape=(1, 2))

    assert check_matrix(x).toarray().tolist() == [[4, 3]]
    assert check_matrix(x).nnz == 2
    assert x.nnz == 3


def test_halves_stand_beside_sparse_columns_and_take_other_places():
    assert concatenate(sp.csr_array(np.eye(4)), HALF).toarray().tolist() == np.hstack([np.eye(4), HALF]).tolist()
    assert concatenate(HALF, HALF).dtype == np.float16
    table = FeatureTable(pa.array(list("abcd")), HALF, ("x", "y", "z"), True)

    moved = table.with_columns(("z", "new", "x")).matrix
    assert moved.dtype == np.float16
    assert moved.tolist() == [[z, 0, x] for x, _, z in HALF.tolist()]


def test_a_table_in_the_graphs_order_is_the_matrix_itself():
    table = FeatureTable(GRAPH.id_column, HALF[:3])

    assert table.aligned(GRAPH) is table.matrix


def test_graphs_side_by_side_may_have_halves_and_sparse_features():
    model = RAE(dims=(4,), fanout=(2,), steps=0).fit([GRAPH, GRAPH], features=[sp.csr_array(np.eye(3)), HALF[:3]])

    together = np.vstack([np.eye(3), HALF[:3]])
    both = Graph.disjoint_union([GRAPH, GRAPH])
    assert np.array_equal(model.transform(both, sp.csr_array(together), whole=True), model.transform([GRAPH, GRAPH], [
        sp.csr_array(np.eye(3)), FeatureTable(GRAPH.id_column, HALF[:3])
    ]))  # fmt: skip


def test_pages_that_were_written_to_are_not_given_back(tmp_path):
    np.save(tmp_path / "x.npy", HALF)
    mine = np.load(tmp_path / "x.npy", mmap_mode="c")
    mine[0, 0] = 9
    check_matrix(mine)
    forget(mine)

    assert mine[0, 0] == 9


def test_more_columns_than_weights_could_ever_have_are_refused():
    endless = sp.csr_array(([1.0], [5], [0, 1]), shape=(1, 2**40))

    with pytest.raises(FeatureError, match="268,435,456 columns or fewer"):
        check_matrix(endless)
