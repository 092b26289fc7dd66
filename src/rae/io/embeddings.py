"""Embeddings in a file: the column id, exactly as in the input, and the column embedding."""

from __future__ import annotations

import json
import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from rae.blocks import Block, blocks_from
from rae.errors import FeatureError, FileError, GraphError
from rae.graph.ids import id_array, is_text
from rae.io.features import list_matrix, read_features
from rae.io.files import File, file_errors
from rae.io.tables import ArrowTable, Table, open_table, read_ids
from rae.storage.atomic import atomic_path
from rae.storage.documents import expect, parse_json

FORMAT = 1
GROUP_BYTES = 1 << 26
DTYPES = ("float32", "float16")
SUFFIXES = (".parquet", ".csv")

Floats = np.ndarray[Any, np.dtype[np.float32]]


def write_embeddings(
    path: str | os.PathLike[str],
    ids: Any,
    z: Any,
    *,
    model: str | None = None,
    dtype: str = "float32",
    blocks: Sequence[Block] = (),
) -> None:
    """Write ids and their vectors atomically: .parquet (id, embedding) or .csv (id, e0, e1, ...).

    `model`, the checksum of the model file, and `blocks`, the named columns, are kept in a Parquet file's header.
    `dtype="float16"` rounds the vectors to half precision and halves the file.
    """
    check_writable(path, column := id_array(ids), dtype)
    matrix = _check_embeddings(column, z)
    width, suffix = int(matrix.shape[1]), Path(path).suffix
    with (
        atomic_path(path) as hidden,
        EmbeddingWriter(hidden, column, width, suffix, model=model, dtype=dtype, blocks=blocks) as writer,
    ):
        writer.append(matrix)


def check_writable(path: str | os.PathLike[str], ids: pa.Array, dtype: str = "float32") -> None:
    """Refuse a suffix, a type of ids or a precision that embeddings cannot be written with."""
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise FileError(f"embeddings are written as .parquet or .csv, since ids go with them; got {path}")
    if suffix == ".csv" and not _fits_csv(ids.type):
        raise FileError(f"ids of type {ids.type} cannot be written as CSV; write .parquet")
    if dtype not in DTYPES:
        raise FileError(f"embeddings are written as {' or '.join(DTYPES)}, got dtype {dtype!r}")


class EmbeddingWriter:
    """A file of embeddings to append rows to, in chunks of any size; the row groups do not depend on them.

    Use it as a context manager; it raises at the end if there are fewer rows than ids.
    """

    def __init__(
        self,
        path: Path,
        ids: pa.Array,
        width: int,
        suffix: str,
        *,
        model: str | None = None,
        dtype: str = "float32",
        blocks: Sequence[Block] = (),
    ) -> None:
        self._ids, self._width, self._kind = ids, width, np.dtype(dtype)
        self._header: dict[str, Any] = {"format": FORMAT} | ({} if model is None else {"model": model})
        if blocks:
            self._header |= {"blocks": [block.as_dict() for block in blocks]}
        # PyArrow writes float16 with a pointer per value, ten bytes per byte: smaller groups bound its memory.
        self._rows = max(1, GROUP_BYTES // ((4 if self._kind == np.float32 else 8) * width))
        self._written, self._buffered = 0, 0
        self._group = np.empty((min(self._rows, len(ids)), width), self._kind)
        self._parquet = suffix.lower() == ".parquet"
        self._sink: Any = self._open_parquet(path) if self._parquet else self._open_csv(path)

    def append(self, z: Any) -> None:
        """Write the next rows; whole row groups are written at once, the rest is buffered."""
        if self._written + self._buffered + len(z) > len(self._ids):
            raise FileError(f"embeddings must have one row per id ({len(self._ids):,}), got more rows")
        at = 0
        while at < len(z):
            n_rows = min(len(z) - at, self._rows - self._buffered)
            rows = rounded(z[at : at + n_rows], self._kind)
            at += n_rows
            if n_rows == self._rows:
                self._write(rows)
                continue
            self._group[self._buffered : self._buffered + n_rows] = rows
            self._buffered += n_rows
            if self._buffered == self._rows:
                self._flush()

    def __enter__(self) -> EmbeddingWriter:
        return self

    def __exit__(self, *raised: object) -> None:
        try:
            if raised[0] is None and self._buffered:
                self._flush()
        finally:
            self._sink.close()
        if raised[0] is None and self._written != len(self._ids):
            raise FileError(f"embeddings must have one row per id ({len(self._ids):,}), got {self._written:,} rows")

    def _flush(self) -> None:
        self._write(self._group[: self._buffered])
        self._buffered = 0

    def _write(self, z: Any) -> None:
        ids = self._ids.slice(self._written, len(z))
        schema = self._sink.schema if self._parquet else self._schema
        if self._parquet:
            lists = pa.FixedSizeListArray.from_arrays(pa.array(z.ravel()), type=schema.field("embedding").type)
            self._sink.write_table(pa.table([ids, lists], schema=schema), row_group_size=self._rows)
        else:
            columns = [pa.array(np.ascontiguousarray(column)) for column in z.astype(np.float32).T]
            self._sink.write_table(pa.table([ids, *columns], schema=schema))
        self._written += len(z)

    def _open_parquet(self, path: Path) -> Any:
        vectors = pa.list_(pa.from_numpy_dtype(self._kind), self._width)
        schema = pa.schema([("id", self._ids.type), ("embedding", vectors)], {"rae": json.dumps(self._header)})
        # Vectors do not compress; ids do.
        compression = {"id": "snappy", "embedding.list.element": "none"}
        return pq.ParquetWriter(path, schema, compression=compression, use_dictionary=["id"])

    def _open_csv(self, path: Path) -> Any:
        names = [f"e{i}" for i in range(self._width)]
        self._schema = pa.schema([("id", self._ids.type), *((name, pa.float32()) for name in names)])
        return pa.csv.CSVWriter(path, self._schema)


def rounded(z: Any, kind: np.dtype[Any]) -> Any:
    """The rows in the precision of the file; values that it cannot hold are refused."""
    if kind == np.float32:
        return np.ascontiguousarray(z)
    with np.errstate(over="ignore"):
        rounded = np.ascontiguousarray(z, dtype=kind)
    if not np.isfinite(rounded).all():
        raise FeatureError(f"the vectors reach {float(np.abs(z).max()):,.0f}, half precision holds 65,504; use float32")
    return rounded


def embeddings_model(path: str | os.PathLike[str]) -> str | None:
    """The checksum of the model of these embeddings, None if it is not in the file."""
    model = _file_header(path, open_table(path)).get("model")
    return model if isinstance(model, str) else None


def embeddings_blocks(path: str | os.PathLike[str]) -> tuple[Block, ...]:
    """The named blocks of these embeddings, none if they are not in the file."""
    records = _file_header(path, open_table(path)).get("blocks", [])
    try:
        return blocks_from(records, embeddings_width(Path(path))) if records else ()
    except (TypeError, ValueError):
        raise FileError(f"{path} has a damaged header; write it again") from None


def embeddings_width(z: Any) -> int:
    """Columns of a matrix of embeddings, or of the vectors in a Parquet file of them."""
    if not isinstance(z, Path):
        return int(z.shape[1])
    kind = _kind_of_vectors(z)
    if not pa.types.is_fixed_size_list(kind):
        raise _not_embeddings(z, open_table(z).names)
    return int(kind.list_size)


def embeddings_dtype(path: str | os.PathLike[str]) -> str:
    """The precision of the vectors in a Parquet file of embeddings: "float32" or "float16"."""
    kind = _kind_of_vectors(path)
    return "float16" if pa.types.is_float16(kind.value_type) else "float32"


def _kind_of_vectors(path: str | os.PathLike[str]) -> pa.DataType:
    """The type of the vectors of an Arrow table: lists, whatever their lengths."""
    table = open_table(path)
    kind = table.schema.field("embedding").type if isinstance(table, ArrowTable) and _are_columns(table) else None
    if kind is None or not (pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind)):
        raise _not_embeddings(path, table.names)
    return kind


def read_embeddings(path: str | os.PathLike[str]) -> tuple[pa.Array, Floats]:
    """The ids and the vectors that `write_embeddings` wrote.  -> (n,), (n, d)"""
    table = open_table(path)
    try:
        if isinstance(table, ArrowTable):
            return _read_arrow(path, table)
        if table.names != ("id", *(f"e{i}" for i in range(len(table.names) - 1))) or len(table.names) < 2:
            raise _not_embeddings(path, table.names)
        table_of_text = read_features(path, id="id", header=True)
        if table_of_text.encodings:  # type: ignore[union-attr]  # a table of text is keyed
            column = table_of_text.encodings[0].column  # type: ignore[union-attr]
            raise FeatureError(f"column {column!r} must hold numbers")
    except (FeatureError, GraphError) as error:
        where = "" if str(error).startswith(str(path)) else f"{path}: "
        raise FileError(where, error) from None
    return table_of_text.id_column, table_of_text.matrix  # type: ignore[union-attr, return-value]  # a table of text is keyed and dense


def _read_arrow(path: str | os.PathLike[str], table: ArrowTable) -> tuple[pa.Array, Floats]:
    if not _are_columns(table):
        raise _not_embeddings(path, table.names)
    _refuse_newer(path, table)
    at = {name: table.names.index(name) for name in ("id", "embedding")}
    (ids,) = read_ids(table, {"embedding": at["id"]})
    (vectors,) = table.read([at["embedding"]])
    if not pa.types.is_fixed_size_list(vectors.type) and not pa.types.is_list(vectors.type):
        raise FeatureError(f"the column embedding must hold lists of numbers, got {vectors.type}")
    z = np.ascontiguousarray(list_matrix(vectors, "embedding"))
    return ids, _check_embeddings(ids, z)


@dataclass(frozen=True)
class EmbeddingsFile:
    """A file of embeddings, with the properties that a Run has of its vectors."""

    path: Path

    def embeddings(self) -> tuple[pa.Array, Floats]:
        """The ids and their vectors, in the same order.  -> (n,), (n, d)"""
        return read_embeddings(self.path)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The named blocks of the vectors, none if they are not in the file."""
        return embeddings_blocks(self.path)

    @property
    def model_checksum(self) -> str | None:
        """The checksum of the model of the vectors, None if it is not in the file."""
        return embeddings_model(self.path)


def embedding_batches(path: str | os.PathLike[str]) -> Iterator[Floats]:
    """The vectors of a Parquet file that `write_embeddings` wrote, some rows at a time.  -> (b, d)"""
    table = open_table(path)
    if not isinstance(table, ArrowTable) or not _are_columns(table):
        raise _not_embeddings(path, table.names)
    _refuse_newer(path, table)
    for (column,) in table.batches([table.names.index("embedding")]):
        yield _check_embeddings(column, list_matrix(pa.chunked_array([column]), "embedding"))


@dataclass(frozen=True)
class GroupsOfRows:
    """The row groups of the Parquet files of a table of embeddings, to read any run of rows."""

    path: str
    files: tuple[File, ...]
    groups: tuple[tuple[int, int, int], ...]  # the file, the group in it, and its first row in the table
    n_rows: int
    width: int

    def rows(self, a: int, b: int) -> Floats:
        """The vectors of rows a..b.  -> (b - a, d)"""
        starts = [first for *_, first in self.groups]
        parts = []
        for i in range(bisect_right(starts, a) - 1, bisect_left(starts, b)):
            at, group, first = self.groups[i]
            with file_errors(self.files[at].path), self.files[at].raw() as stream:
                column = pq.ParquetFile(stream).read_row_group(group, columns=["embedding"]).column("embedding")
                column.validate(full=True)
            matrix = list_matrix(column, "embedding")
            parts.append(matrix[max(0, a - first) : b - first])
        return np.ascontiguousarray(np.concatenate(parts), np.float32)


def groups_of_rows(path: str | os.PathLike[str]) -> GroupsOfRows:
    """The row groups of embeddings in Parquet, in one file or in a folder of them."""
    table = open_table(path)
    if not isinstance(table, ArrowTable) or not _are_columns(table) or any(f.kind != "parquet" for f in table.files):
        raise FileError(f"{path} must be embeddings in Parquet to be read by rows")
    _refuse_newer(path, table)
    groups, n, kind = [], 0, table.schema.field("embedding").type
    for at, file in enumerate(table.files):
        with file_errors(file.path), file.raw() as stream:
            metadata = pq.ParquetFile(stream).metadata
        for group in range(metadata.num_row_groups):
            groups.append((at, group, n))
            n += metadata.row_group(group).num_rows
    return GroupsOfRows(os.fspath(path), table.files, tuple(groups), n, int(kind.list_size))


def _are_columns(table: ArrowTable) -> bool:
    return table.names.count("id") == table.names.count("embedding") == 1


def _file_header(path: str | os.PathLike[str], table: Table) -> dict[str, Any]:
    """The metadata that rae writes, with the format version; text has none, and damaged metadata is refused."""
    if not isinstance(table, ArrowTable):
        return {}
    try:
        header = parse_json((table.schema.metadata or {}).get(b"rae", b"{}"))
        expect(header, {"format?": int, "model?": str})
        return {"format": FORMAT, **header}
    except ValueError:
        raise FileError(f"{path} has a damaged header; write it again") from None


def _refuse_newer(path: str | os.PathLike[str], table: ArrowTable) -> None:
    version = _file_header(path, table)["format"]
    if version > FORMAT:
        raise FileError(f"{path} was written by a newer rae (format {version}, this one knows {FORMAT}); update rae")


def _not_embeddings(path: str | os.PathLike[str], names: tuple[str, ...]) -> FileError:
    listed = ", ".join(map(repr, names[:8])) + (", ..." if len(names) > 8 else "")
    return FileError(f"{path} holds no embeddings: expected the columns id and embedding, got {listed}")


def _check_embeddings(ids: pa.Array, z: Any) -> Floats:
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


def _fits_csv(kind: pa.DataType) -> bool:
    """Whether a CSV file keeps ids of this kind."""
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return bool(number or is_text(kind) or pa.types.is_boolean(kind) or pa.types.is_temporal(kind))
