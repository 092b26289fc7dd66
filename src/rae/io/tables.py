"""One way to any table file: its column names, then only the columns that are wanted, ids exact."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rae.errors import Argument, FileError, GraphError, Sentence
from rae.graph.ids import id_array
from rae.io.files import File, look, parts, reading
from rae.io.text import NotPlain, TextTable, sniff

log = logging.getLogger("rae")

TEXT_KINDS = ("plain", pa.int64(), pa.uint64(), None)  # in the order they are tried
BATCH = 1 << 20  # rows of a Parquet file read at a time
LOOK = 1 << 20  # bytes of text by which its lines are guessed


@dataclass(frozen=True)
class ArrowTable:
    """A table whose columns have types of their own: Parquet, in one file or several, or Arrow IPC."""

    files: tuple[File, ...]
    schema: pa.Schema

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.schema.names)

    def read(self, positions: Sequence[int]) -> list[pa.ChunkedArray]:
        """The columns at these positions, as they are stored."""
        wanted = [self.names[i] for i in positions]
        read = []
        for file in self.files:
            with reading(file.path), file.open() as stream:
                source = pa.BufferReader(stream.read()) if file.packed else stream
                if file.kind == "parquet":
                    table = pq.ParquetFile(source).read(columns=wanted)
                else:
                    table = pa.ipc.open_file(source).read_all().select(wanted)
                table.validate(full=True)  # a hostile file may point outside its own buffers
            read.append(table)
        with reading(self.files[0].path):
            whole = pa.concat_tables(read, promote_options="permissive")
        return [whole.column(name) for name in wanted]

    def batches(self, positions: Sequence[int]) -> Iterator[list[pa.Array]]:
        """The columns at these positions, at most `BATCH` rows at a time."""
        wanted = [self.names[i] for i in positions]
        for file in self.files:
            with reading(file.path), file.open() as stream:
                source = pa.BufferReader(stream.read()) if file.packed else stream
                for batch in _record_batches(source, file.kind, wanted):
                    batch.validate(full=True)
                    yield [batch.column(name) for name in wanted]


Table = TextTable | ArrowTable


def open_table(path: str | os.PathLike[str], header: bool | None = None, reader: str = "") -> Table:
    """The table at `path`, told from its content: Parquet, Arrow IPC (feather) or text, packed or not.

    A folder that holds only .parquet files is one table. `header` concerns text alone; `reader` is
    the function that takes it, so that a doubt can say where to settle it.
    """
    files = tuple(look(p) for p in parts(path)) or (look(path),)
    kind = files[0].kind
    if kind == "text":
        table = sniff(files[0], header)
        for note in table.notes:
            log.info(Sentence(f"{path}: ", _in_function(note, reader)))
        for doubt in table.doubts if len(table.names) > 1 else ():  # with one column, that is what there is to say
            log.warning(Sentence(f"{path}: ", _in_function(doubt, reader)))
        return table
    if kind not in ("parquet", "arrow"):
        what = {"zip": "a zip archive; unpack it first", "npy": "a NumPy array; save it as Parquet or CSV"}[kind]
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
    """The columns of these roles as ids, exactly as they are in the file.

    A Parquet or Arrow column keeps its type. Text is int64 when every cell of every column is the
    plain writing of such a number (blanks around it aside), else uint64 in the same way, else text:
    007, +1 and 1.0 stay text. With `as_text` whole numbers are text, in either.
    """
    if isinstance(table, ArrowTable):
        columns = table.read(list(positions.values()))
        found = [_id_column(table.files[0].path, role, c) for role, c in zip(positions, columns, strict=True)]
        return [c.cast(pa.string()) if as_text and pa.types.is_integer(c.type) else c for c in found]
    if not as_text and len(found := _plain_columns(table, list(positions.values()))):
        return found
    columns = table.read(dict.fromkeys(positions.values(), pa.string()))
    for (role, position), column in zip(positions.items(), columns, strict=True):
        if pc.any(pc.equal(column, "")).as_py():
            _refuse_empty(table, role, position)
    for kind in () if as_text else (pa.int64(), pa.uint64()):
        whole = _as_whole(columns, kind)
        if whole is not None:
            return whole
    return [id_array(column) for column in columns]


def id_batches(table: Table, positions: Mapping[str, int], kind: pa.DataType | str | None) -> Iterator[list[pa.Array]]:
    """The columns as `read_ids` gives them, piece by piece; text as `kind`, a cell that is not so ends it.

    `NotPlain` says that a text file must be read again as another of `TEXT_KINDS`: "plain" is what
    Arrow reads as whole numbers by itself, int64 and uint64 what are such once they are looked at.
    """
    if isinstance(table, ArrowTable):
        path = table.files[0].path
        for columns in table.batches(list(positions.values())):
            yield [_id_column(path, role, column) for role, column in zip(positions, columns, strict=True)]
        return
    if kind == "plain":
        yield from table.whole_numbers(list(positions.values()))
        return
    for columns in table.batches(dict.fromkeys(positions.values(), pa.string())):
        for (role, position), column in zip(positions.items(), columns, strict=True):
            if pc.any(pc.equal(column, "")).as_py():
                _refuse_empty(table, role, position)
        if kind is None:
            yield columns
        elif (whole := _as_whole([pa.chunked_array([column]) for column in columns], kind)) is not None:
            yield whole
        else:
            raise NotPlain


def expected_rows(table: Table) -> int | None:
    """About how many rows there are, told without reading them all; None where that cannot be told."""
    if isinstance(table, ArrowTable):
        if any(file.packed or file.kind != "parquet" for file in table.files):
            return None
        return sum(int(pq.read_metadata(file.path).num_rows) for file in table.files)
    file = table.file
    with reading(file.path), pa.OSFile(str(file.path)) as raw:
        stream = pa.CompressedInputStream(raw, file.packed) if file.packed else raw
        lines = stream.read(LOOK).count(b"\n")
        return int(lines * raw.size() // max(1, raw.tell()))


def _record_batches(source: Any, kind: str, wanted: list[str]) -> Iterator[pa.RecordBatch]:
    if kind == "parquet":
        # what is read ahead would stay in memory until the end of the file
        yield from pq.ParquetFile(source, pre_buffer=False).iter_batches(BATCH, columns=wanted)
        return
    stored = pa.ipc.open_file(source)
    for i in range(stored.num_record_batches):
        yield stored.get_batch(i).select(wanted)


def _plain_columns(table: TextTable, positions: list[int]) -> list[pa.Array]:
    """The columns as whole numbers the fast way, [] where that does not do."""
    try:
        batches = list(table.whole_numbers(positions))
    except NotPlain:
        return []
    return [pa.concat_arrays([batch[i] for batch in batches]) for i in range(len(positions))]


def _as_whole(columns: Sequence[pa.ChunkedArray], kind: pa.DataType) -> list[pa.Array] | None:
    """The columns as whole numbers, None if any cell would not come back as it was written."""
    out = []
    for column in columns:
        chunks = []
        for chunk in column.chunks:
            numbers = _plain_numbers(chunk, kind) or _plain_numbers(pc.ascii_trim(chunk, " \t"), kind)
            if numbers is None:
                return None
            chunks.append(numbers)
        out.append(pa.concat_arrays(chunks) if chunks else pa.array([], kind))
    return out


def _plain_numbers(chunk: pa.Array, kind: pa.DataType) -> pa.Array | None:
    try:
        numbers = chunk.cast(kind)
    except pa.ArrowInvalid:
        return None
    return numbers if pc.all(pc.equal(numbers.cast(chunk.type), chunk)).as_py() else None


def _refuse_empty(table: TextTable, role: str, position: int) -> None:
    found = table.find(lambda row: len(row) > position and row[position] == "")
    where = f"line {found[0]:,}" if found else "some line"
    raise GraphError(f"{table.file.path}: {where} has an empty {role} id; fill it or drop that line")


def _id_column(path: Path, role: str, column: pa.ChunkedArray) -> pa.Array:
    if pa.types.is_null(column.type):
        raise GraphError(
            f"{path}: the {role} column must hold ids (numbers or text), got {column.type}; name another one"
        )
    try:
        return id_array(column)
    except GraphError as error:
        raise GraphError(f"{path}: {role}: ", error) from None


def _schema(file: File) -> pa.Schema:
    with reading(file.path), file.open() as stream:
        source = pa.BufferReader(stream.read()) if file.packed else stream
        return pq.ParquetFile(source).schema_arrow if file.kind == "parquet" else pa.ipc.open_file(source).schema
