"""Feature files: wide, long and bare, and one sentence for what is wrong with them."""

from __future__ import annotations

import gzip
import io
import logging
import pickle
import zipfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from rae import Graph
from rae.errors import FeatureError, FileError, RaeError
from rae.features import FeatureTable
from rae.io import npz, read_features, text
from rae.memory import mapped


def file(tmp_path: Path, content: Any, name: str = "features.csv") -> Path:
    path = tmp_path / name
    if isinstance(content, dict):
        pq.write_table(pa.table(content), path)
    else:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def rows(cell: str) -> str:
    return "".join(f"{i},{cell}\n" for i in range(1, 4_001))


def keyed(path: Path, **choices: Any) -> FeatureTable:
    table = read_features(path, **choices)
    assert isinstance(table, FeatureTable)
    return table


def dense(table: FeatureTable) -> list[list[float]]:
    matrix: Any = table.matrix
    return (matrix.toarray() if sp.issparse(matrix) else matrix).tolist()  # type: ignore[no-any-return]


# ------------------------------------------------------------------------------------- wide


def test_a_wide_csv_keeps_names_and_exact_ids(tmp_path: Path) -> None:
    table = keyed(file(tmp_path, "x,Node_ID,y,flag\n1,9007199254740993,-2.5,true\n3,2,1e3,False\n"))

    assert table.id_column.to_pylist() == [2**53 + 1, 2]
    assert table.names == ("x", "y", "flag")
    assert dense(table) == [[1, -2.5, 1], [3, 1000, 0]]
    assert table.matrix.dtype == np.float32
    assert not table.open_vocabulary


def test_the_first_column_is_the_id_unless_named_otherwise(tmp_path: Path) -> None:
    path = file(tmp_path, "who,age,size\nann,7,1.5\nbob,8,2.5\n")

    assert keyed(path).id_column.to_pylist() == ["ann", "bob"]
    assert keyed(path, id="age", columns=["size"]).id_column.to_pylist() == [7, 8]
    assert keyed(path, columns=["size", "age"]).names == ("size", "age")
    assert dense(keyed(path, columns=["size", "age"])) == [[1.5, 7], [2.5, 8]]


def test_a_table_without_a_header_is_read_by_position(tmp_path: Path) -> None:
    table = keyed(file(tmp_path, "1 0.5  2\n2 1.5  3\n"))

    assert table.names == ("2", "3")
    assert dense(table) == [[0.5, 2], [1.5, 3]]
    assert keyed(file(tmp_path, "1,2\n3,4\n"), header=True).names == ("2",)


def test_whole_numbers_turning_to_fractions_late_in_the_file_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "BLOCK", 1 << 12)
    rows = "".join(f"{i},{i}\n" for i in range(30_000))
    table = keyed(file(tmp_path, f"id,x\n{rows}-1,0.25\n"))

    assert dense(table)[-1] == [0.25]


def test_every_kind_of_number_in_parquet_becomes_float32(tmp_path: Path) -> None:
    content = {
        "id": pa.array(["007", "x"]),
        "i": pa.array([1, 2], pa.int8()),
        "u": pa.array([1, 2**40], pa.uint64()),
        "h": pa.array([0.5, 1.5], pa.float16()),
        "b": pa.array([True, False]),
        "d": pa.array([Decimal("1.25"), Decimal("-3.00")]),
    }
    table = keyed(file(tmp_path, content, "f.parquet"))

    assert table.id_column.to_pylist() == ["007", "x"]
    assert table.names == ("i", "u", "h", "b", "d")
    assert dense(table) == [[1, 1, 0.5, 1, 1.25], [2, 2**40, 1.5, 0, -3]]


def test_dictionary_encoded_columns_are_decoded(tmp_path: Path) -> None:
    coded = {"id": pa.array(["a", "b"]).dictionary_encode(), "x": pa.array([4.0, 4.5]).dictionary_encode()}
    pyarrow.feather.write_feather(pa.table(coded), tmp_path / "f")
    table = keyed(tmp_path / "f")

    assert table.id_column.to_pylist() == ["a", "b"]
    assert dense(table) == [[4], [4.5]]


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.float64()), pa.large_list(pa.int32()), pa.list_(pa.float32(), 2), pa.list_(pa.float16(), 2)]
)
def test_a_column_of_lists_is_a_matrix_without_names(tmp_path: Path, kind: pa.DataType) -> None:
    lists = pa.array([[1, 2], [3, 4], [5, 6]], kind)
    table = keyed(
        file(tmp_path, {"node": [3, 1, 2], "vector": lists, "text": ["a", "b", "c"]}, "f"), columns=["vector"]
    )

    assert table.names is None
    assert dense(table) == [[1, 2], [3, 4], [5, 6]]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("id,x\n1,2\n2,nan\n", r"first in row 2 \(id 2\), column 'x', which is missing or NaN; fill it"),
        ("id,x\n1,2\n2,\n", "column 'x', which is missing or NaN"),
        ("id,x,y\n1,2,3\n2,4,-inf\n", "column 'y', which is infinite or beyond float32"),
        ("id,x\n1,1e39\n", "column 'x', which is infinite or beyond float32"),
        (
            "id,x\n" + rows("2") + "0,zwei\n",
            r"column 'x' must hold numbers as in the first rows, got 'zwei' in line 4,002; mend it, leave the column "
            r"out with drop=\['x'\], or encode each of its values with categories=\['x'\]",
        ),
        ("id,x\n" + rows("true") + "0,7\n", "column 'x' must hold true or false .*, got '7' in line 4,002"),
        ("id,x\n" + rows("2024-01-31") + "0,soon\n", "column 'x' must hold dates .*, got 'soon' in line 4,002"),
        ("id,when\n1,2024-01-31\n2,\n", r"row 2 \(id 2\), column 'when', which is missing .* drop=\['when'\]"),
        ("id,x\n1,1e30\n2,1\n", r"features must be numbers from -1e\+18 to 1e\+18, .* which is 1e\+30; mend it, or"),
        ("id,x\n1,2\n2,3,4\n", "line 3 has 3 cells, expected 2"),
        ("id,x\n1,2\n,3\n", "line 3 has an empty feature id"),
        ("id,x\n1,2\n1,3\n", "every id must have one feature row, got 1 with more, first 1"),
        ("id\n1\n2\n", "there are only ids"),
        ("id,x\n", "there are no rows, only column names; expected one row per node"),
        ({"id": pa.array([], pa.int64()), "x": pa.array([], pa.float32())}, "there are no rows"),
        ("", "is empty"),
        ({"id": [1, 2], "x": [1.0, None]}, r"row 2 \(id 2\), column 'x', which is missing or NaN"),
        ({"id": [1, None], "x": [1.0, 2.0]}, "every id must be there"),
        ({"id": [1, 2], "x": [1e300, 2.0]}, "beyond float32"),
        ({"id": [1, 1], "x": ["a", "b"]}, "got 1 with more, first 1; pass feature='x' if each row is one .* pair"),
        ({"id": [1, 2], "x": pa.array([None, None])}, r"column 'x' has no values; leave it out with drop=\['x'\]"),
        ({"id": [1, 2], "x": [b"a", b"b"]}, "column 'x' must hold numbers, text, dates or true and false, got binary"),
        ({"id": [1, 2], "x": [{"a": 1}, {"a": 2}]}, "column 'x' must hold numbers, text, dates .*, got struct"),
        ({"id": [1, 2], "x": [[1], [1, 2]]}, "the lists in column 'x' must be equally long, got lengths 1 to 2"),
        ({"id": [1, 2], "x": [[1], None]}, "column 'x' has 1 missing lists"),
        ({"id": [1, 2], "x": [[1.0], [None]]}, r"column 0 of the list, which is missing or NaN"),
        ({"id": [1, 2], "x": [["a"], ["b"]]}, "column 'x' must hold numbers, got string"),
        ({"id": [1, 2], "x": [[1], [2]], "y": [1, 2]}, r"'x' holds lists and must stand alone; pass columns=\['x'\]"),
        ({"id": [None, None], "x": [1, 2]}, r"must hold ids \(numbers or text\), got null"),
    ],
)
def test_a_bad_wide_table_is_one_sentence(
    tmp_path: Path, content: Any, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "SAMPLE", 1 << 12)  # so that what comes late was not seen first
    with pytest.raises(RaeError, match=sentence) as caught:
        read_features(file(tmp_path, content))
    assert str(caught.value).count("features.csv") == 1
    assert "\n" not in str(caught.value)


def test_ids_are_text_when_asked_for(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=np.ones((2, 1)), ids=np.array([7, 8]))
    for path, choices in (
        (file(tmp_path, "id,x\n7,1\n8,2\n"), {}),
        (file(tmp_path, {"id": [7, 8], "x": [1, 2]}, "f.parquet"), {}),
        (file(tmp_path, {"id": [7, 8], "x": [1, 2]}, "f.parquet"), {"feature": "x"}),
        (tmp_path / "x.npz", {}),
    ):
        assert keyed(path, as_text=True, **choices).id_column.to_pylist() == ["7", "8"]


def test_a_wrong_column_name_gets_a_suggestion(tmp_path: Path) -> None:
    path = file(tmp_path, "id,size\n1,2\n")
    for choices in ({"id": "sizes"}, {"columns": ["sizes"]}, {"feature": "sizes"}):
        with pytest.raises(FeatureError, match=r"there is no column 'sizes'; did you mean 'size'\?"):
            read_features(path, **choices)  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------- long

PAIRS = "id,word,count\n7,b,1\n5,a,2\n7,a,0.5\n7,b,3\n"


def test_pairs_become_a_sparse_matrix_with_sorted_words(tmp_path: Path) -> None:
    table = keyed(file(tmp_path, PAIRS), feature="word")

    assert sp.issparse(table.matrix)
    assert table.names == ("a", "b")
    assert table.id_column.to_pylist() == [7, 5]
    assert dense(table) == [[1, 2], [1, 0]]
    assert table.open_vocabulary


def test_values_of_a_pair_given_twice_add_up(tmp_path: Path) -> None:
    assert dense(keyed(file(tmp_path, PAIRS), feature="word", value="count")) == [[0.5, 4], [2, 0]]


def test_items_that_are_numbers_have_the_same_names_in_csv_and_parquet(tmp_path: Path) -> None:
    from_text = keyed(file(tmp_path, "id,item\n1,10\n1,9\n2,10\n"), feature="item")
    from_parquet = keyed(file(tmp_path, {"id": [1, 1, 2], "item": [10, 9, 10]}, "f.parquet"), feature="item")

    assert from_text.names == from_parquet.names == ("10", "9")
    assert dense(from_text) == dense(from_parquet)


def test_pairs_are_joined_to_a_graph(tmp_path: Path) -> None:
    table = keyed(file(tmp_path, PAIRS), feature="word")
    x: Any = table.aligned(Graph.from_edges([(5, 7)]))

    assert x.toarray().tolist() == [[1, 0], [1, 2]]


@pytest.mark.parametrize(
    ("content", "choices", "sentence"),
    [
        (PAIRS, {"feature": "id"}, "the id and the feature must be two columns, got 'id' for both"),
        (PAIRS, {"value": "count"}, "value= goes with feature="),
        (PAIRS, {"feature": "count", "value": "word"}, "column 'word' must hold numbers"),
        ("id,word,n\n1,a,1\n2,b,\n", {"feature": "word", "value": "n"}, "row 2 .*column 'n', which is missing or NaN"),
        ("id,word,n\n1,a,1\n2,,3\n", {"feature": "word"}, "line 3 has an empty word"),
        ("id,word\n", {"feature": "word"}, "there are no rows, only column names"),
        ({"id": [1], "word": pa.array([None], pa.string())}, {"feature": "word"}, "word: every id must be there"),
        ({"id": [1], "word": [b"\xff"]}, {"feature": "word"}, "the features must be words or items, got binary"),
    ],
)
def test_a_bad_long_table_is_one_sentence(tmp_path: Path, content: Any, choices: Any, sentence: str) -> None:
    with pytest.raises(FeatureError, match=sentence):
        read_features(file(tmp_path, content), **choices)


# ------------------------------------------------------------------------------ NumPy and SciPy

X = np.arange(6.0).reshape(3, 2)


def test_matrices_without_ids_are_read_without_a_table(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    np.savez(tmp_path / "x.npz", x=X, other=X.T)
    np.savez(tmp_path / "one.npz", anything=X)
    for name in ("x.npy", "x.npz", "one.npz"):
        matrix = read_features(tmp_path / name)
        assert isinstance(matrix, np.ndarray)
        assert matrix.dtype == np.float32
        assert matrix.tolist() == X.tolist()


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr", "dia"])
@pytest.mark.parametrize("make", [sp.random_array, sp.random])
def test_scipy_files_stay_sparse(tmp_path: Path, form: str, make: Any) -> None:
    matrix = make((6, 4), density=0.5, rng=np.random.default_rng(1)) if make is sp.random_array else make(6, 4, 0.5)
    sp.save_npz(tmp_path / "x.npz", matrix.asformat(form))
    read: Any = read_features(tmp_path / "x.npz")

    assert isinstance(read, sp.csr_array)
    assert np.array_equal(read.toarray(), matrix.toarray().astype(np.float32))


def test_ids_and_names_in_a_numpy_file_make_a_table(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=X, ids=np.array(["a", "007", "c"]), names=np.array(["u", "v"]))
    table = keyed(tmp_path / "x.npz")

    assert table.id_column.to_pylist() == ["a", "007", "c"]
    assert table.names == ("u", "v")
    assert dense(table) == X.tolist()
    np.savez(tmp_path / "x.npz", matrix=X, ids=np.array([2**63, 1, 2], np.uint64))
    assert keyed(tmp_path / "x.npz").id_column.to_pylist() == [2**63, 1, 2]


def csr(**changes: Any) -> dict[str, Any]:
    good = {
        "format": np.array(b"csr"),
        "shape": np.array([2, 2]),
        "data": np.ones(2),
        "indices": np.array([0, 1], np.int32),
        "indptr": np.array([0, 1, 2], np.int32),
    }
    return good | changes


def test_the_unchanged_hostile_file_would_be_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", **csr())
    assert read_features(tmp_path / "x.npz").shape == (2, 2)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "changes",
    [
        {"indices": np.array([0, 2_000_000_000], np.int32)},
        {"indices": np.array([0, -5], np.int32)},
        {"indices": np.array([0.0, 1.0])},
        {"indptr": np.array([0, 2_000_000_000, 2], np.int32)},
        {"indptr": np.array([0, 1, 2_000_000_000], np.int32)},
        {"indptr": np.array([1, 1, 2], np.int32)},
        {"indptr": np.array([0, 1], np.int32)},
        {"indptr": np.array([0, 2_000_000_000, -2_000_000_000, 2], np.int32), "shape": np.array([3, 2])},
        {"indices": np.array([0], np.int32)},
        {"indices": np.array([[0], [1]], np.int32)},
        {"shape": np.array([2, 1])},
        {"shape": np.array([-2, 2])},
        {"shape": np.array([2])},
        {"format": np.array(b"csc"), "indices": np.array([0, 9], np.int32)},
        {"format": np.array(b"coo"), "row": np.array([0, 9], np.int32), "col": np.array([0, 1], np.int32)},
        {"format": np.array(b"xyz")},
        {"format": np.array(7)},
        {"data": np.array([1, 1j])},
        {"data": np.array(["a", "b"])},
        {"data": np.array([1, np.nan])},
    ],
)
def test_a_hostile_sparse_file_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    np.savez(tmp_path / "x.npz", **csr(**changes))
    with pytest.raises(FeatureError, match=r"x\.npz: .*(sparse matrix|features must be)"):
        read_features(tmp_path / "x.npz")


def test_a_bad_numpy_file_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    for arrays, sentence in (
        ({"x": X, "ids": np.arange(2)}, "ids must have one entry per row of the matrix"),
        ({"x": X, "ids": np.arange(6).reshape(3, 2)}, "ids must be one column"),
        ({"x": X, "ids": np.array([1, 1, 2])}, "every id must have one feature row"),
        ({"x": X, "ids": np.arange(3), "names": np.array(["a"])}, "names must have one entry per column"),
        ({"a": X, "b": X}, "expected an array called x, or just one matrix, got a, b"),
        ({"a": np.arange(3)}, "expected an array called x, or just one matrix, got a"),
        ({"x": np.arange(3)}, "features must be a table"),
        ({"x": np.full((2, 2), np.inf)}, "features must be finite"),
        ({"x": np.array([["a"]])}, "features must be numbers"),
    ):
        np.savez(path, **arrays)  # type: ignore[arg-type]
        with pytest.raises(FeatureError, match=sentence) as caught:
            read_features(path)
        assert str(caught.value).startswith(f"{path}: ")
    for content in (b"PK\x03\x04 not really", b"\x93NUMPY\x01\0\x10\0{'descr': oh no}", b"PK\x05\x06"):
        path.write_bytes(content)
        with pytest.raises(FileError, match="is no NumPy file of plain numbers"):
            read_features(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "no array")
    with pytest.raises(RaeError, match=r"x\.npz"):
        read_features(path)


def test_a_truncated_numpy_file_is_one_sentence(tmp_path: Path) -> None:
    for save, name in ((np.save, "x.npy"), (np.savez, "x.npz")):
        path = tmp_path / name
        save(path, X)  # type: ignore[operator]
        path.write_bytes(path.read_bytes()[:-9])
        with pytest.raises(FileError, match=r"is no NumPy file of plain numbers \(.*\); save it again"):
            read_features(path)


def test_a_packed_numpy_file_is_refused(tmp_path: Path) -> None:
    raw = io.BytesIO()
    np.save(raw, X)
    with pytest.raises(FileError, match="is a packed NumPy file; unpack it first"):
        read_features(file(tmp_path, gzip.compress(raw.getvalue()), "x.npy.gz"))


class Bomb:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_pickles_are_refused_and_not_run(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    bombs = np.array([[Bomb(ran)]], dtype=object)
    np.save(tmp_path / "x.npy", bombs)
    np.savez(tmp_path / "x.npz", x=X, ids=bombs)
    np.savez(tmp_path / "y.npz", **csr(data=bombs))
    (tmp_path / "z.npy").write_bytes(pickle.dumps(Bomb(ran)))
    ran.unlink(missing_ok=True)
    for name in ("x.npy", "x.npz", "y.npz", "z.npy"):
        with pytest.raises(FileError, match=r"pickle|Object arrays"):
            read_features(tmp_path / name)
    assert not ran.exists()


def test_a_float32_array_on_disk_stays_there(tmp_path):
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.save(tmp_path / "x.npy", x)
    read = read_features(tmp_path / "x.npy")

    assert mapped(read) is not None
    np.testing.assert_array_equal(read, x)
    np.save(tmp_path / "y.npy", np.asfortranarray(x).astype(np.float64))
    np.testing.assert_array_equal(read_features(tmp_path / "y.npy"), x)


def words(index: Any = np.int32, value: Any = np.float32) -> Any:
    """A CSR whose arrays are large enough to be mapped."""
    matrix: Any = sp.random_array((2000, 100), density=0.2, rng=np.random.default_rng(3), dtype=np.float32).tocsr()
    matrix.data, matrix.indices = matrix.data.astype(value), matrix.indices.astype(index)
    matrix.indptr = matrix.indptr.astype(index)
    return matrix


def save_stored(path: Path, **changes: Any) -> Path:
    matrix = words()
    arrays = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr, "shape": np.array(matrix.shape)}
    np.savez(path, **csr(**(arrays | changes)))
    return path


@pytest.mark.parametrize("piece", [1000, 1 << 22])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_a_stored_csr_stays_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: Any, piece: int) -> None:
    monkeypatch.setattr("rae.features.matrix.CHUNK", piece)
    matrix = words(index)
    sp.save_npz(tmp_path / "x.npz", matrix, compressed=False)
    read: Any = read_features(tmp_path / "x.npz")

    assert mapped(read.data) is not None
    assert mapped(read.indices) is mapped(read.data)
    assert read.indices.dtype == index
    assert np.array_equal(read.toarray(), matrix.toarray())
    rows = np.random.default_rng(0).permutation(2000)
    assert np.array_equal(read[rows].toarray(), matrix[rows].toarray())


def test_what_cannot_be_mapped_is_read_and_the_log_says_how_to_map_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sp.save_npz(tmp_path / "packed.npz", words())
    sp.save_npz(tmp_path / "doubles.npz", words(value=np.float64), compressed=False)
    np.save(tmp_path / "doubles.npy", words().toarray().astype(np.float64))
    np.save(tmp_path / "columns.npy", np.asfortranarray(words().toarray()))
    caplog.set_level(logging.INFO, "rae")
    for name, says in (
        ("packed.npz", "packed.npz is packed and read into memory; save_npz(compressed=False) lets it be mapped"),
        ("doubles.npz", "doubles.npz holds float64 and its values are read into memory; those of float32 are mapped"),
        ("doubles.npy", "doubles.npy is read into memory; it could be mapped as float32 or float16 in C order"),
        ("columns.npy", "columns.npy is read into memory"),
    ):
        caplog.clear()
        read: Any = read_features(tmp_path / name)
        assert says in caplog.text
        assert mapped(read.data if sp.issparse(read) else read) is None
        assert np.array_equal(read.toarray() if sp.issparse(read) else read, words().toarray())


def test_a_stored_csr_with_ids_in_the_graphs_order_stays_on_disk(tmp_path: Path) -> None:
    graph = Graph.from_edges([(i, i + 1) for i in range(1999)])
    table = keyed(save_stored(tmp_path / "x.npz", ids=np.arange(2000), names=np.arange(100).astype(str)))

    assert table.names is not None
    assert len(table.names) == 100
    aligned: Any = table.aligned(graph)
    assert mapped(aligned.data) is not None


def test_stored_entries_out_of_order_or_given_twice_are_sorted_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rae.features.matrix.CHUNK", 1000)
    matrix = words()
    indices = matrix.indices.copy()
    last = slice(matrix.indptr[-2], matrix.indptr[-1])
    indices[last] = indices[last][::-1]
    indices[last][1] = indices[last][0]
    path = save_stored(tmp_path / "x.npz", indices=indices)
    expected = sp.coo_array((matrix.data, (np.repeat(np.arange(2000), np.diff(matrix.indptr)), indices)), matrix.shape)
    read: Any = read_features(path)

    assert read.has_canonical_format
    assert np.allclose(read.toarray(), expected.toarray())


@pytest.mark.parametrize("bad", [-1, 100, 2**31 - 1])
def test_an_entry_outside_a_stored_csr_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: int) -> None:
    monkeypatch.setattr("rae.features.matrix.CHUNK", 1000)
    indices = words().indices.copy()
    indices[-7] = bad
    with pytest.raises(
        FeatureError, match=r"x\.npz: the sparse matrix is damaged: entries lie outside of its 100 columns"
    ):
        read_features(save_stored(tmp_path / "x.npz", indices=indices))


def test_one_flipped_bit_of_a_stored_csr_is_found(tmp_path: Path) -> None:
    path = save_stored(tmp_path / "x.npz")
    content = bytearray(path.read_bytes())
    content[100_000] ^= 1
    path.write_bytes(content)
    with pytest.raises(FileError, match=r"is no NumPy file of plain numbers \(Bad CRC-32 .*\); save it again"):
        read_features(path)


def with_header(array: Any, version: tuple[int, int] = (1, 0), **changes: Any) -> bytes:
    """The bytes of a .npy file that says other things about itself."""
    raw = io.BytesIO()
    header = np.lib.format.header_data_from_array_1_0(array) | changes
    if version == (1, 0):
        np.lib.format.write_array_header_1_0(raw, header)
    else:
        np.lib.format.write_array_header_2_0(raw, header)
    content = raw.getvalue()
    return content[:6] + bytes(version) + content[8:] + array.tobytes()


@pytest.mark.parametrize("shape", [(10**6,), (-200, -200), (2**62, 4), (-40_000,)])
def test_an_array_that_claims_more_than_it_has_is_refused(tmp_path: Path, shape: tuple[int, ...]) -> None:
    content = with_header(np.zeros(40_000, np.float32), shape=shape)
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("x.npy", content)
        archive.writestr("y.npy", bytes(10**7))
    with pytest.raises(FileError, match="is no NumPy file of plain numbers"):
        read_features(tmp_path / "x.npz")


def test_arrays_of_every_header_and_order_are_read_as_numpy_does(tmp_path: Path) -> None:
    x = words().toarray()
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        for version in ((1, 0), (2, 0), (3, 0)):
            archive.writestr(f"v{version[0]}.npy", with_header(x, version))
        archive.writestr("fortran.npy", with_header(x.T.copy(), shape=x.shape, fortran_order=True))
        archive.writestr("note.txt", "no array")
    arrays = npz.open_npz(tmp_path / "x.npz")

    assert set(arrays) == {"v1", "v2", "v3", "fortran"}
    assert all(np.array_equal(array, x) for array in arrays.values())
    assert [name for name, array in arrays.items() if mapped(array) is not None] == ["v1", "v2", "v3"]


def test_a_locked_file_is_refused(tmp_path: Path) -> None:
    path = save_stored(tmp_path / "x.npz")
    content = bytearray(path.read_bytes())
    place = content.find(b"PK\x01\x02")
    content[place + 8] |= 1  # "encrypted", in the directory at the end
    path.write_bytes(content)
    with pytest.raises(FileError, match=r"is no NumPy file of plain numbers .*encrypted"):
        read_features(path)


def test_a_float16_array_on_disk_stays_there(tmp_path: Path) -> None:
    x = words().toarray().astype(np.float16)
    np.save(tmp_path / "x.npy", x)
    read: Any = read_features(tmp_path / "x.npy")

    assert read.dtype == np.float16
    assert mapped(read) is not None
    assert np.array_equal(read, x)
