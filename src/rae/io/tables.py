"""Tables from Parquet, Arrow and text files: column names first, then only the requested columns, ids exact."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rae.errors import Argument, FileError, GraphError, Sentence, is_there
from rae.graph.ids import id_array, is_text
from rae.io.files import File, file_errors, identify, parquet_parts
from rae.io.text import NotPlain, TextTable, sniff
from rae.storage.atomic import atomic_path

log = logging.getLogger("rae")

TEXT_KINDS = ("plain", pa.int64(), pa.uint64(), None)  # in the order they are tried
BATCH = 1 << 20  # rows of a Parquet file read at a time
SAMPLE = 1 << 20  # bytes of text from which the number of lines is estimated


class Format(Protocol):
    """What is read of a file with typed columns: its schema, columns at once or in batches, the number of its rows."""

    def schema(self, source: Any) -> pa.Schema: ...

    def read(self, source: Any, names: list[str], dictionaries: list[str]) -> pa.Table:
        """These columns, of which the `dictionaries`, which hold text, may come as dictionaries."""
        ...

    def batches(self, source: Any, names: list[str]) -> Iterator[pa.RecordBatch]: ...

    def rows(self, source: Any) -> int | None:
        """How many rows there are, None where only reading all tells."""
        ...


class ParquetFormat:
    """Parquet, by Arrow; text comes as dictionaries."""

    def schema(self, source: Any) -> pa.Schema:
        return pq.ParquetFile(source).schema_arrow

    def read(self, source: Any, names: list[str], dictionaries: list[str]) -> pa.Table:
        stored = pq.ParquetFile(source, read_dictionary=dictionaries)
        table = stored.read(columns=names)
        _check_rows(table.num_rows, stored)
        return table

    def batches(self, source: Any, names: list[str]) -> Iterator[pa.RecordBatch]:
        stored, n = pq.ParquetFile(source, pre_buffer=False), 0  # a pre-buffered file stays in memory to its end
        for batch in stored.iter_batches(BATCH, columns=names):
            n += batch.num_rows
            yield batch
        _check_rows(n, stored)

    def rows(self, source: Any) -> int | None:
        return int(pq.ParquetFile(source).metadata.num_rows)


class ArrowFormat:
    """Arrow IPC (feather)."""

    def schema(self, source: Any) -> pa.Schema:
        return pa.ipc.open_file(source).schema

    def read(self, source: Any, names: list[str], _: list[str]) -> pa.Table:
        return pa.ipc.open_file(source).read_all().select(names)

    def batches(self, source: Any, names: list[str]) -> Iterator[pa.RecordBatch]:
        stored = pa.ipc.open_file(source)
        for i in range(stored.num_record_batches):
            yield stored.get_batch(i).select(names)

    def rows(self, _: Any) -> int | None:
        return None


# Of typed columns, by the kinds of `rae.io.files`.
FORMATS: dict[str, Format] = {"parquet": ParquetFormat(), "arrow": ArrowFormat()}
NO_TABLES = {
    "zip": "a zip archive or a workbook; unpack it first, or save a sheet as CSV",
    "npy": "a NumPy array; save it as Parquet or CSV",
    "json": "JSON; save it as Parquet or CSV (features may be JSON: a list of features for each id)",
}


@dataclass(frozen=True)
class ArrowTable:
    """A table with typed columns: Parquet, in one file or several, or Arrow IPC."""

    files: tuple[File, ...]
    schema: pa.Schema

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.schema.names)

    def read(self, positions: Sequence[int], *, as_dictionaries: bool = False) -> list[pa.ChunkedArray]:
        """The columns at these positions, as they are stored, or text in Parquet as dictionaries."""
        names = self._column_names(positions)
        texts = [self.names[i] for i in positions if as_dictionaries and is_text(self.schema.types[i])]
        tables = []
        for file in self.files:
            with file_errors(file.path), file.open() as stream:
                table = FORMATS[file.kind].read(_seekable(file, stream), names, texts)
                table.validate(full=True)  # a hostile file may point outside its own buffers
            tables.append(table)
        with file_errors(self.files[0].path):
            whole = pa.concat_tables(tables, promote_options="permissive")
        return [whole.column(name) for name in names]

    def batches(self, positions: Sequence[int]) -> Iterator[list[pa.Array]]:
        """The columns at these positions, at most `BATCH` rows at a time."""
        names = self._column_names(positions)
        for file in self.files:
            with file_errors(file.path), file.open() as stream:
                for batch in FORMATS[file.kind].batches(_seekable(file, stream), names):
                    batch.validate(full=True)
                    yield [batch.column(name) for name in names]

    def _column_names(self, positions: Sequence[int]) -> list[str]:
        """The names of these columns; one that two columns have is refused."""
        names = [self.names[i] for i in positions]
        if double := next((name for name in names if self.names.count(name) > 1), None):
            raise FileError(f"{self.files[0].path} has two columns called {double!r}; rename one of them")
        return names


Table = TextTable | ArrowTable


def open_table(path: str | os.PathLike[str], header: bool | None = None, reader: str = "") -> Table:
    """The table at `path`, identified by its content: Parquet, Arrow IPC (feather) or text, compressed or not.

    A folder that holds only .parquet files is one table. `header` concerns text alone; `reader` is
    the function that takes it, which a warning names.
    """
    files = tuple(identify(p) for p in parquet_parts(path)) or (identify(path),)
    kind = files[0].kind
    if kind == "text":
        table = sniff(files[0], header)
        for note in table.notes:
            log.info(Sentence(f"{path}: ", _in_function(note, reader)))
        for doubt in table.doubts if len(table.names) > 1 else ():  # with one column, that is what there is to say
            log.warning(Sentence(f"{path}: ", _in_function(doubt, reader)))
        return table
    if kind not in FORMATS:
        what = NO_TABLES.get(kind, f"of the format {kind}; save it as Parquet or CSV")
        raise FileError(f"expected a table, {path} is {what}")
    if other := next((file for file in files if file.kind != kind), None):
        raise FileError(f"{other.path} is not Parquet, the files beside it are; expected one table")
    schemas = [_schema(file) for file in files]
    for file, schema in zip(files, schemas, strict=True):
        if schema.names != schemas[0].names:
            raise FileError(f"{file.path} has other columns than {files[0].path.name} beside it; expected one table")
    return ArrowTable(files, schemas[0])


def _in_function(doubt: str, function: str) -> Sentence:
    """The sentence with its arguments said to be those of this function."""
    parts = Sentence(doubt).parts
    return Sentence(*(replace(part, function=function) if isinstance(part, Argument) else part for part in parts))


def read_ids(table: Table, positions: Mapping[str, int], *, as_text: bool = False) -> list[pa.Array]:
    """The columns of these roles ("source", "target", ...) as ids, exactly as they are in the file.

    A Parquet or Arrow column keeps its type. Text is int64 when every cell of every column is the
    shortest form of such a number (blanks around it aside), else uint64 in the same way, else text:
    007, +1 and 1.0 stay text. With `as_text` whole numbers are text, in either.
    """
    if isinstance(table, ArrowTable):
        columns = table.read(list(positions.values()))
        ids = [_id_column(table.files[0].path, role, c) for role, c in zip(positions, columns, strict=True)]
        return [c.cast(pa.string()) if as_text and pa.types.is_integer(c.type) else c for c in ids]
    if not as_text and len(plain := _plain_integers(table, list(positions.values()))):
        return plain
    columns = table.read(dict.fromkeys(positions.values(), pa.string()))
    for (role, position), column in zip(positions.items(), columns, strict=True):
        if pc.any(pc.equal(column, "")).as_py():
            _refuse_empty(table, role, position)
    for kind in () if as_text else (pa.int64(), pa.uint64()):
        integers = _as_integers(columns, kind)
        if integers is not None:
            return integers
    return [id_array(column) for column in columns]


def id_batches(
    table: Table,
    positions: Mapping[str, int],
    kind: pa.DataType | str | None,
    others: Mapping[int, pa.DataType] | None = None,
) -> Iterator[list[pa.Array]]:
    """The columns as `read_ids` gives them, in batches; text is read as `kind`. Then the `others`, as they are stored.

    `NotPlain` means that a text file must be read again as the next of `TEXT_KINDS`: "plain" is int64 by
    Arrow's fast reader, int64 and uint64 are cast from text, and None is text; text of the others becomes their type.
    """
    more, n_ids = dict(others or {}), len(positions)
    if isinstance(table, ArrowTable):
        path = table.files[0].path
        for columns in table.batches([*positions.values(), *more]):
            ids = [_id_column(path, role, column) for role, column in zip(positions, columns[:n_ids], strict=True)]
            yield [*ids, *columns[n_ids:]]
        return
    if kind == "plain" and not more:
        yield from table.whole_numbers(list(positions.values()))
        return
    kind = pa.int64() if kind == "plain" else kind
    for columns in table.batches(dict.fromkeys(positions.values(), pa.string()) | more):
        ids = columns[:n_ids]
        for (role, position), column in zip(positions.items(), ids, strict=True):
            if pc.any(pc.equal(column, "")).as_py():
                _refuse_empty(table, role, position)
        if kind is None:
            yield columns
        elif (integers := _as_integers([pa.chunked_array([column]) for column in ids], kind)) is not None:
            yield [*integers, *columns[n_ids:]]
        else:
            raise NotPlain


def expected_rows(table: Table) -> int | None:
    """The approximate number of rows, without reading them all; None where that is unknown."""
    if isinstance(table, ArrowTable):
        if any(file.compression for file in table.files):
            return None
        with file_errors(table.files[0].path):
            counts = [FORMATS[file.kind].rows(file.raw()) for file in table.files]
        return None if None in counts else sum(filter(None, counts))
    file = table.file
    with file_errors(file.path), file.raw() as raw:
        stream = pa.CompressedInputStream(raw, file.compression) if file.compression else raw
        lines = stream.read(SAMPLE).count(b"\n")
        return int(lines * raw.size() // max(1, raw.tell()))


def write_table(path: str | os.PathLike[str], table: pa.Table, *, force: bool = False) -> Path:
    """Write a Parquet file, whole or not at all, and return its path."""
    check_table_free(path, force=force)
    with atomic_path(path) as temporary:
        pq.write_table(table, temporary)
    return Path(path)


def check_table_free(path: str | os.PathLike[str], *, force: bool = False) -> None:
    """Refuse a name that is not that of a Parquet file, and, without `force`, a file that is there."""
    if Path(path).suffix.lower() != ".parquet":
        raise FileError(Argument("out"), f" must end in .parquet, got {path}")
    if Path(path).exists() and not force:
        raise is_there(path)


def _seekable(file: File, stream: pa.NativeFile) -> pa.NativeFile:
    """The stream of a file, read whole where it is compressed and has no positions."""
    return pa.BufferReader(stream.read()) if file.compression else stream


def _check_rows(n: int, parquet: Any) -> None:
    """Refuse a file that gives fewer rows of a column than it says it has."""
    if n != parquet.metadata.num_rows:
        raise pa.ArrowInvalid(f"it says it has {parquet.metadata.num_rows:,} rows, and {n:,} are there")


def _plain_integers(table: TextTable, positions: list[int]) -> list[pa.Array]:
    """The columns as int64 by the fast reader, [] if a cell is not plain."""
    try:
        batches = list(table.whole_numbers(positions))
    except NotPlain:
        return []
    return [pa.concat_arrays([batch[i] for batch in batches]) for i in range(len(positions))]


def _as_integers(columns: Sequence[pa.ChunkedArray], kind: pa.DataType) -> list[pa.Array] | None:
    """The columns as integers, None if any cell is not the shortest form of its number."""
    out = []
    for column in columns:
        chunks = []
        for chunk in column.chunks:
            numbers = _cast_exactly(chunk, kind) or _cast_exactly(pc.ascii_trim(chunk, " \t"), kind)
            if numbers is None:
                return None
            chunks.append(numbers)
        out.append(pa.concat_arrays(chunks) if chunks else pa.array([], kind))
    return out


def as_whole_numbers(text: pa.Array) -> pa.Array:
    """Text as whole numbers where every cell is the shortest form of one, else as it is.

    >>> as_whole_numbers(pa.array(["7", "10"])).to_pylist(), as_whole_numbers(pa.array(["7", "007"])).to_pylist()
    ([7, 10], ['7', '007'])
    """
    integers = _as_integers([pa.chunked_array([text])], pa.int64())
    return text if integers is None else integers[0]


def _cast_exactly(chunk: pa.Array, kind: pa.DataType) -> pa.Array | None:
    try:
        numbers = chunk.cast(kind)
    except pa.ArrowInvalid:
        return None
    return numbers if pc.all(pc.equal(numbers.cast(chunk.type), chunk)).as_py() else None


def _refuse_empty(table: TextTable, role: str, position: int) -> None:
    empty = table.find(lambda row: len(row) > position and row[position] == "")
    where = f"line {empty[0]:,}" if empty else "some line"
    raise GraphError(f"{table.file.path}: {where} has an empty {role} id; fill it or drop that line")


def _id_column(path: Any, role: str, column: pa.ChunkedArray) -> pa.Array:
    if pa.types.is_null(column.type):
        raise GraphError(
            f"{path}: the {role} column must hold ids (numbers or text), got {column.type}; name another one"
        )
    try:
        return id_array(column)
    except GraphError as error:
        raise GraphError(f"{path}: {role}: ", error) from None


def _schema(file: File) -> pa.Schema:
    with file_errors(file.path), file.open() as stream:
        schema = FORMATS[file.kind].schema(_seekable(file, stream))
        _ = schema.names, str(schema)  # which fail here where they are not Unicode
        return schema
