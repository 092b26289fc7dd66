"""Embeddings in a file: the column id, exactly as it came in, and the column embedding."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from rae.errors import FeatureError, FileError, GraphError
from rae.ids import id_array, is_text
from rae.io.atomic import atomic_path
from rae.io.features import list_matrix, read_features
from rae.io.tables import ArrowTable, open_table, read_ids

FORMAT = 1
GROUP_BYTES = 1 << 26

Floats = np.ndarray[Any, np.dtype[np.float32]]


def write_embeddings(path: str | os.PathLike[str], ids: Any, z: Any, *, model: str | None = None) -> None:
    """Write ids and their vectors, whole or not at all: .parquet (id, embedding) or .csv (id, e0, e1, ...).

    `model`, the checksum of the model file, is kept in a Parquet file's header.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in (".parquet", ".csv"):
        raise FileError(f"embeddings are written as .parquet or .csv, since ids go with them; got {path}")
    column = id_array(ids)
    matrix = _checked(column, z)
    if suffix == ".csv" and not _is_writable(column.type):
        raise FileError(f"ids of type {column.type} cannot be written as CSV; write .parquet")
    with atomic_path(path) as hidden:
        if suffix == ".parquet":
            _write_parquet(hidden, column, matrix, model)
        else:
            _write_csv(hidden, column, matrix)


def embeddings_model(path: str | os.PathLike[str]) -> str | None:
    """The checksum of the model that made these embeddings, None where the file does not say."""
    table = open_table(path)
    if not isinstance(table, ArrowTable):
        return None
    told = _note(path, (table.schema.metadata or {}).get(b"rae", b"{}")).get("model")
    return told if isinstance(told, str) else None


def read_embeddings(path: str | os.PathLike[str]) -> tuple[pa.Array, Floats]:
    """The ids and the vectors that `write_embeddings` wrote.  -> (n,), (n, d)"""
    table = open_table(path)
    try:
        if isinstance(table, ArrowTable):
            return _read_arrow(path, table)
        if table.names != ("id", *(f"e{i}" for i in range(len(table.names) - 1))) or len(table.names) < 2:
            raise _foreign(path, table.names)
        read = read_features(path, id="id", header=True)
    except (FeatureError, GraphError) as error:
        where = "" if str(error).startswith(str(path)) else f"{path}: "
        raise FileError(f"{where}{error}") from None
    return read.id_column, read.matrix  # type: ignore[union-attr, return-value]  # a table of text is keyed and dense


def _read_arrow(path: str | os.PathLike[str], table: ArrowTable) -> tuple[pa.Array, Floats]:
    if not {"id", "embedding"} <= set(table.names):
        raise _foreign(path, table.names)
    _refuse_newer(path, (table.schema.metadata or {}).get(b"rae", b"{}"))
    at = {name: table.names.index(name) for name in ("id", "embedding")}
    (ids,) = read_ids(table, {"embedding": at["id"]})
    (vectors,) = table.read([at["embedding"]])
    if not pa.types.is_fixed_size_list(vectors.type) and not pa.types.is_list(vectors.type):
        raise FeatureError(f"the column embedding must hold lists of numbers, got {vectors.type}")
    z = np.ascontiguousarray(list_matrix(vectors, "embedding"))
    return ids, _checked(ids, z)


def _note(path: str | os.PathLike[str], note: bytes) -> dict[str, Any]:
    """What the header says, refused where it says nothing whole."""
    try:
        told = json.loads(note)
        return {**told, "format": int(told.get("format", FORMAT))}
    except (ValueError, TypeError, AttributeError):
        raise FileError(f"{path} has a damaged header; write it again") from None


def _refuse_newer(path: str | os.PathLike[str], note: bytes) -> None:
    written = _note(path, note)["format"]
    if written > FORMAT:
        raise FileError(f"{path} was written by a newer rae (format {written}, this one knows {FORMAT}); update rae")


def _foreign(path: str | os.PathLike[str], names: tuple[str, ...]) -> FileError:
    listed = ", ".join(map(repr, names[:8])) + (", ..." if len(names) > 8 else "")
    return FileError(f"{path} holds no embeddings: expected the columns id and embedding, got {listed}")


def _checked(ids: pa.Array, z: Any) -> Floats:
    matrix: Floats = np.ascontiguousarray(z, dtype=np.float32)
    if matrix.ndim != 2 or matrix.shape[0] != len(ids) or matrix.shape[1] == 0:
        raise FeatureError(
            f"embeddings must have one row per id ({len(ids):,}) and a column or more, got {matrix.shape}"
        )
    finite = np.isfinite(matrix).all(axis=1)
    if not finite.all():
        bad = np.flatnonzero(~finite)
        raise FeatureError(f"embeddings must be finite, got {len(bad):,} rows that are not, first row {bad[0]:,}")
    return matrix


def _is_writable(kind: pa.DataType) -> bool:
    """Whether a CSV file keeps ids of this kind."""
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return bool(number or is_text(kind) or pa.types.is_boolean(kind) or pa.types.is_temporal(kind))


def _group_rows(z: Floats) -> int:
    return max(1, GROUP_BYTES // (4 * int(z.shape[1])))


def _write_parquet(path: Path, ids: pa.Array, z: Floats, model: str | None) -> None:
    vectors = pa.list_(pa.float32(), z.shape[1])
    note = {"format": FORMAT} | ({} if model is None else {"model": model})
    schema = pa.schema([("id", ids.type), ("embedding", vectors)], {"rae": json.dumps(note)})
    rows = _group_rows(z)
    # Vectors do not compress; ids do.
    packing = {"id": "snappy", "embedding.list.element": "none"}
    with pq.ParquetWriter(path, schema, compression=packing, use_dictionary=["id"]) as writer:
        for start in range(0, len(z), rows):
            part = pa.array(z[start : start + rows].ravel())
            lists = pa.FixedSizeListArray.from_arrays(part, type=vectors)
            writer.write_table(pa.table([ids.slice(start, rows), lists], schema=schema), row_group_size=rows)


def _write_csv(path: Path, ids: pa.Array, z: Floats) -> None:
    names = ["id", *(f"e{i}" for i in range(z.shape[1]))]
    schema = pa.schema([("id", ids.type), *((name, pa.float32()) for name in names[1:])])
    rows = _group_rows(z)
    with pa.csv.CSVWriter(path, schema) as writer:
        for start in range(0, len(z), rows):
            columns = [pa.array(np.ascontiguousarray(column)) for column in z[start : start + rows].T]
            writer.write_table(pa.table([ids.slice(start, rows), *columns], schema=schema))
