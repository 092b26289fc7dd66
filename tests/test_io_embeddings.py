"""Embeddings come back from a file exactly as they were written."""

from __future__ import annotations

import json
import uuid
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rae.errors import FeatureError, FileError, RaeError
from rae.io import embeddings, read_embeddings, write_embeddings

Z = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)
IDS = [
    pa.array([1, 2**53 + 1, -7, 2**31, 0]),
    pa.array([2**64 - 1, 1, 2, 3, 4], pa.uint64()),
    pa.array(["a", "007", 'q"uote', "ü, x", " b"]),
    pa.array([1, 2, 3, 4, 5], pa.int16()),
    pa.array([uuid.UUID(int=i) for i in range(5)]),
    pa.array([Decimal(i) / 4 for i in range(5)]),
    pa.array([date(2000, 1, i + 1) for i in range(5)]),
    pa.array([bytes([i, i]) for i in range(5)], pa.binary(2)),
]


@pytest.mark.parametrize("ids", IDS)
def test_parquet_keeps_ids_types_and_bytes(tmp_path: Path, ids: pa.Array, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embeddings, "GROUP_BYTES", 24)  # two rows a group
    path = tmp_path / "z.parquet"
    write_embeddings(path, ids, Z)
    read, z = read_embeddings(path)

    assert read.equals(ids)
    assert z.dtype == np.float32
    assert z.flags.c_contiguous
    assert np.array_equal(z, Z)
    file = pq.ParquetFile(path)
    assert file.num_row_groups == 3
    assert file.schema_arrow.field("embedding").type == pa.list_(pa.float32(), 3)
    assert json.loads(file.schema_arrow.metadata[b"rae"]) == {"format": 1}


@pytest.mark.parametrize("ids", IDS[:3])
def test_csv_keeps_ids_and_values(tmp_path: Path, ids: pa.Array) -> None:
    path = tmp_path / "z.CSV"
    write_embeddings(path, ids, Z)
    read, z = read_embeddings(path)

    assert read.to_pylist() == ids.to_pylist()
    assert np.array_equal(z, Z)
    assert path.read_text().startswith('"id","e0","e1","e2"\n')


def test_one_write_is_the_same_bytes_as_another(tmp_path: Path) -> None:
    for name in ("a.parquet", "b.parquet"):
        write_embeddings(tmp_path / name, list("abcde"), np.asfortranarray(Z.astype(np.float64)))

    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_no_rows_are_still_embeddings(tmp_path: Path) -> None:
    write_embeddings(tmp_path / "z.parquet", pa.array([], pa.int64()), np.empty((0, 4)))

    assert read_embeddings(tmp_path / "z.parquet")[1].shape == (0, 4)


def test_plain_lists_of_doubles_are_read_too(tmp_path: Path) -> None:
    pq.write_table(pa.table({"embedding": [[1.0, 2.0], [3.0, 4.0]], "id": ["a", "b"]}), tmp_path / "z.parquet")
    ids, z = read_embeddings(tmp_path / "z.parquet")

    assert ids.to_pylist() == ["a", "b"]
    assert z.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("name", "ids", "z", "sentence"),
    [
        ("z.npy", [1], np.ones((1, 2)), r"are written as \.parquet or \.csv, since ids go with them; got .*z\.npy"),
        ("z", [1], np.ones((1, 2)), r"are written as \.parquet or \.csv"),
        ("z.parquet", [1, 2], np.ones((1, 2)), r"must have one row per id \(2\).*got \(1, 2\)"),
        ("z.parquet", [1], np.ones(1), r"got \(1,\)"),
        ("z.parquet", [1], np.ones((1, 0)), r"got \(1, 0\)"),
        ("z.parquet", [1], np.array([[np.nan]]), "must be finite, got 1 rows that are not, first row 0"),
        ("z.csv", [b"a", b"b"], np.ones((2, 1)), r"ids of type binary cannot be written as CSV; write \.parquet"),
        ("z.csv", [uuid.UUID(int=1)], np.ones((1, 1)), r"ids of type .*uuid.* cannot be written as CSV"),
        ("z.csv", [(0, 1), (1, 1)], np.ones((2, 1)), "cannot be written as CSV; write .parquet"),
    ],
)
def test_what_cannot_be_written_is_refused_and_nothing_is_left(
    tmp_path: Path, name: str, ids: Any, z: Any, sentence: str
) -> None:
    with pytest.raises(RaeError, match=sentence):
        write_embeddings(tmp_path / name, ids, z)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        (
            {"id": [1], "vector": [[1.0]]},
            "holds no embeddings: expected the columns id and embedding, got 'id', 'vector'",
        ),
        ({f"c{i}": [1] for i in range(9)}, "got 'c0', .*'c7', ..."),
        ({"id": [1], "embedding": [1.0]}, "the column embedding must hold lists of numbers, got double"),
        ({"id": [1], "embedding": [["a"]]}, "must hold numbers, got string"),
        ({"id": [1, 2], "embedding": [[1.0], [1.0, 2.0]]}, "must be equally long"),
        ({"id": [1, 2], "embedding": [[1.0], None]}, "1 missing lists"),
        ({"id": [1, 2], "embedding": [[1.0], [None]]}, "must be finite, got 1 rows that are not, first row 1"),
        ({"id": [1, 2], "embedding": [[1.0], [float("inf")]]}, "must be finite"),
        ({"id": [1, None], "embedding": [[1.0], [2.0]]}, "every id must be there"),
    ],
)
def test_a_parquet_file_of_something_else_is_refused(tmp_path: Path, columns: dict[str, Any], sentence: str) -> None:
    path = tmp_path / "z.parquet"
    pq.write_table(pa.table(columns), path)
    with pytest.raises(FileError, match=sentence) as caught:
        read_embeddings(path)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("source,target\n1,2\n", "holds no embeddings"),
        ("id\n1\n", "holds no embeddings"),
        ("id,e0\n1,x\n", "column 'e0' must hold numbers"),
        ("id,e0\n1,\n", "which is missing or NaN"),
        ("id,e0\n,1\n", "line 2 has an empty feature id"),
        ("", "is empty"),
    ],
)
def test_a_text_file_of_something_else_is_refused(tmp_path: Path, content: str, sentence: str) -> None:
    (tmp_path / "z.csv").write_text(content)
    with pytest.raises(FileError, match=sentence):
        read_embeddings(tmp_path / "z.csv")


@pytest.mark.parametrize(("note", "sentence"), [('{"format": 2}', "newer rae"), ("{", "damaged"), ("[]", "damaged")])
def test_a_file_of_a_newer_version_is_refused(tmp_path: Path, note: str, sentence: str) -> None:
    table = pa.table({"id": [1], "embedding": [[1.0]]}).replace_schema_metadata({"rae": note})
    pq.write_table(table, tmp_path / "z.parquet")
    with pytest.raises(FileError, match=sentence):
        read_embeddings(tmp_path / "z.parquet")


def test_writing_refuses_with_the_family_of_features(tmp_path: Path) -> None:
    with pytest.raises(FeatureError):
        write_embeddings(tmp_path / "z.parquet", [1], np.array([[np.inf]]))


def test_half_precision_comes_back_rounded_and_what_it_cannot_hold_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "z.parquet"
    write_embeddings(path, IDS[0], Z, dtype="float16")
    kind = pq.ParquetFile(path).schema_arrow.field("embedding").type

    assert kind == pa.list_(pa.float16(), 3)
    assert np.array_equal(read_embeddings(path)[1], Z.astype(np.float16).astype(np.float32))
    assert embeddings.embeddings_width(path) == embeddings.embeddings_width(Z) == 3
    with pytest.raises(FeatureError, match=r"reach 100,00\d, half precision holds 65,504"):
        write_embeddings(path, IDS[0], Z + 1e5, dtype="float16")
    with pytest.raises(FileError, match="float32 or float16, got dtype 'float64'"):
        write_embeddings(path, IDS[0], Z, dtype="float64")


@pytest.mark.parametrize("pieces", [(5,), (1, 1, 1, 1, 1), (2, 3), (3, 2), (4, 1)])
def test_the_chunks_of_append_change_nothing(
    tmp_path: Path, pieces: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embeddings, "GROUP_BYTES", 24)  # two rows a group
    write_embeddings(tmp_path / "whole.parquet", IDS[2], Z)
    at = 0
    with embeddings.EmbeddingWriter(tmp_path / "z.parquet", IDS[2], 3, ".parquet") as writer:
        for rows in pieces:
            writer.append(Z[at : at + rows])
            at += rows

    assert (tmp_path / "z.parquet").read_bytes() == (tmp_path / "whole.parquet").read_bytes()


def test_a_file_with_fewer_or_more_rows_than_ids_is_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(FileError, match=r"one row per id \(5\), got 4 rows"),
        embeddings.EmbeddingWriter(tmp_path / "z.parquet", IDS[0], 3, ".parquet") as writer,
    ):
        writer.append(Z[:4])
    with (
        pytest.raises(FileError, match="got more rows"),
        embeddings.EmbeddingWriter(tmp_path / "z.parquet", IDS[0], 3, ".parquet") as writer,
    ):
        writer.append(np.vstack([Z, Z]))
