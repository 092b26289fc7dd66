"""Text tables: comma, tab, semicolon, pipe or blanks between the cells, with or without a header.

Delimiter and header are detected from the first lines. What is not certain is decided by the rule in
`rae.io.header.has_header`, logged, and can be overridden.
"""

from __future__ import annotations

import contextlib
import csv
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from rae.errors import Argument, FeatureError, FileError
from rae.io.files import File, file_errors
from rae.io.header import Row, Verdict, has_header, is_missing, is_number

SAMPLE = 1 << 17  # bytes from which the layout is detected
BLOCK = 1 << 22  # bytes read at a time

_ATTRIBUTES = re.compile(rb"[ \t]+\{[^\r\n]*\}[ \t]*(?=[\r\n]|$)")
_QUOTED_OR_BLANKS = re.compile(rb'(?<![^ \t\r\n])("[^"\r\n]*")(?![^ \t\r\n])|[ \t]+')


@dataclass(frozen=True)
class TextTable:
    """The layout of a text file; columns are read on demand."""

    file: File
    names: tuple[str, ...]  # of the header, else "1", "2", ...
    header: bool
    delimiter: str
    start: int  # bytes before the first row of data
    line: int  # the line of the file, from 1, where the data begin
    sample: tuple[Row, ...]  # the first rows of data
    notes: tuple[str, ...]  # decisions to log
    doubts: tuple[str, ...] = ()  # decisions that may be wrong, to log as warnings
    clean: Callable[[bytes], bytes] | None = None  # turns whole lines into what Arrow can split

    def read(self, kinds: Mapping[int, pa.DataType]) -> list[pa.ChunkedArray]:
        """The columns at these positions, in this order, as these types; text is never null."""
        if not self.sample:
            return [pa.chunked_array([], kind) for kind in kinds.values()]
        try:
            with file_errors(self.file.path), self._data() as stream:
                table = pa.csv.read_csv(stream, **self._options(kinds))
        except FileError as error:
            raise self._specific_error(kinds) or error from None
        return [table.column(str(i)) for i in kinds]

    def batches(self, kinds: Mapping[int, pa.DataType]) -> Iterator[list[pa.Array]]:
        """The columns as `read` gives them, a few hundred thousand rows at a time."""
        if not self.sample:
            return
        try:
            with (
                file_errors(self.file.path),
                self._data() as stream,
                pa.csv.open_csv(stream, **self._options(kinds)) as rows,
            ):
                for batch in rows:
                    yield [batch.column(str(i)) for i in kinds]
        except FileError as error:
            raise self._specific_error(kinds) or error from None

    def whole_numbers(self, positions: Sequence[int]) -> Iterator[list[pa.Array]]:
        """The columns of a table of two as int64, in batches; `NotPlain` if a number is not in its shortest form.

        Arrow reads numbers three times as fast as text, but reads 007 as 7. All cells are in their shortest form
        if every row has its line feed and the file is as long as its digits, delimiters and line ends. Other
        notations of numbers are left to `batches`.
        """
        if sorted(positions) != list(range(len(self.names))) or len(self.names) != 2 or not self.sample:
            raise NotPlain
        options = self._options(dict.fromkeys(positions, pa.int64()))
        options["convert_options"].null_values = []
        expected = n_rows = 0
        try:
            with self._data() as stream:
                counted = _CountingStream(stream)
                with pa.csv.open_csv(pa.PythonFile(counted, mode="r"), **options) as rows:
                    for batch in rows:
                        columns = [batch.column(str(i)) for i in positions]
                        expected += sum(_count_digits(column.to_numpy()) + len(column) for column in columns)
                        n_rows += len(batch)
                        yield columns
        except (pa.ArrowException, OSError, EOFError):  # `batches` raises the full error
            raise NotPlain from None
        if counted.other_notation or counted.line_feeds != n_rows or counted.length != expected:
            raise NotPlain

    def _options(self, kinds: Mapping[int, pa.DataType]) -> dict[str, Any]:
        longest = max(sum(map(len, row)) + len(row) for row in self.sample)
        return {
            "read_options": pa.csv.ReadOptions(
                column_names=[str(i) for i in range(len(self.names))], block_size=max(BLOCK, 8 * longest)
            ),
            "parse_options": pa.csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
            "convert_options": pa.csv.ConvertOptions(
                column_types={str(i): kind for i, kind in kinds.items()},
                include_columns=[str(i) for i in kinds],
                strings_can_be_null=False,
            ),
        }

    def find(self, bad: Callable[[Row], bool]) -> tuple[int, Row] | None:
        """The line number, from 1, and the cells of the first row that is bad; slow, for errors only."""
        rows = csv.reader(self._lines(), delimiter=self.delimiter)
        with contextlib.suppress(OSError, csv.Error):
            for row in rows:
                if row and bad(row):
                    return self.line + rows.line_num - 1, row
        return None

    def _data(self) -> pa.NativeFile:
        stream = self.file.open()
        stream.read(self.start)
        return stream if self.clean is None else pa.PythonFile(_CleanedStream(stream, self.clean), mode="r")

    def _lines(self) -> Iterator[str]:
        with self.file.open() as stream:
            stream.read(self.start)
            blocks = _CleanedStream(stream, self.clean or bytes)
            while block := blocks.whole_lines():
                for line in block.splitlines(keepends=True):
                    yield line.decode("utf-8", "replace")

    def _specific_error(self, kinds: Mapping[int, pa.DataType]) -> FileError | FeatureError | None:
        """The error with the line that Arrow could not read, None if every line is well formed."""
        width, path = len(self.names), self.file.path
        if bad := self.find(lambda row: len(row) != width):
            line, row = bad
            return FileError(
                f"{path}: line {line:,} has {_cells(row)}, expected {width}; mend that line, or the quotes before it"
            )
        if bad := self.find(lambda row: any("\ufffd" in row[i] for i in kinds)):
            return FileError(f"{path}: line {bad[0]:,} is not UTF-8 text; save the file as UTF-8")
        if bad := self.find(lambda row: any(not _fits(row[i], kind) for i, kind in kinds.items())):
            line, row = bad
            i, kind = next((i, kind) for i, kind in kinds.items() if not _fits(row[i], kind))
            what = (
                "true or false" if pa.types.is_boolean(kind) else "dates" if pa.types.is_temporal(kind) else "numbers"
            )
            return FeatureError(
                f"{path}: column {self.names[i]!r} must hold {what} as in the first rows, got {row[i]!r} in line "
                f"{line:,}; mend it, leave the column out with ",
                *(Argument("drop", [self.names[i]]), ", or encode each of its values with "),
                Argument("categories", [self.names[i]]),
            )
        return None


def _fits(cell: str, kind: pa.DataType) -> bool:
    if pa.types.is_boolean(kind):
        return cell.casefold() in ("true", "false", "1", "0", "")
    if pa.types.is_temporal(kind):
        return is_missing(cell) or _is_date(cell, kind)
    return not pa.types.is_floating(kind) or is_number(cell)


def _is_date(cell: str, kind: pa.DataType) -> bool:
    try:
        return bool(pa.scalar(cell).cast(kind).is_valid)
    except pa.ArrowInvalid:
        return False


class NotPlain(Exception):  # noqa: N818  # not an error of the user: the file is read again as text
    """A text column that does not hold integers in their shortest form, or may not."""


class _CountingStream:
    """A stream that counts bytes and line feeds, and detects other notations of numbers (hex, quotes, signs)."""

    closed = False

    def __init__(self, stream: pa.NativeFile) -> None:
        self._stream = stream
        self.length = self.line_feeds = 0  # length without carriage returns
        self.other_notation = False

    def read(self, size: int) -> bytes:
        block: bytes = self._stream.read(size)
        self.length += len(block) - block.count(b"\r")
        self.line_feeds += block.count(b"\n")
        self.other_notation = self.other_notation or any(byte in block for byte in (b"x", b"X", b'"', b"-"))
        return block

    def close(self) -> None:
        self._stream.close()


def _count_digits(numbers: Any) -> int:
    """The number of digits of these numbers, which are 0 or more.

    >>> _count_digits(np.array([0, 9, 10, 123]))
    7
    """
    most = len(str(numbers.max())) if len(numbers) else 0
    return len(numbers) + sum(int(np.count_nonzero(numbers >= 10**k)) for k in range(1, most))


class _CleanedStream:
    """A stream of bytes, cleaned in blocks of whole lines."""

    closed = False

    def __init__(self, stream: pa.NativeFile, clean: Callable[[bytes], bytes]) -> None:
        self._stream, self._clean = stream, clean
        self._rest, self._ready = b"", b""

    def whole_lines(self) -> bytes:
        """The next lines, cleaned; b"" at the end."""
        while block := self._stream.read(BLOCK):
            cut = block.rfind(b"\n") + 1
            whole, self._rest = (self._rest + block[:cut], block[cut:]) if cut else (b"", self._rest + block)
            if out := self._clean(whole):
                return out
        rest, self._rest = self._rest, b""
        return self._clean(rest)

    def read(self, size: int) -> bytes:
        self._ready = self._ready or self.whole_lines()
        out, self._ready = self._ready[:size], self._ready[size:]
        return out

    def close(self) -> None:
        self._stream.close()


# --------------------------------------------------------------------------- detecting the layout


def sniff(file: File, header: bool | None = None) -> TextTable:
    """The layout of a text table, detected from its first lines; `header` overrides the detection."""
    with file_errors(file.path):
        head = _first_lines(file)
    sample = head.removeprefix(b"\xef\xbb\xbf")  # a byte order mark
    lines = sample.splitlines(keepends=True)
    top = _preamble_length(lines)
    data = [line for line in lines[top:] if line.strip()]
    if not data:
        raise FileError(f"{file.path} holds no rows, only comments or blank lines; expected a table")
    delimiter, clean = _delimiter(data)
    rows, length = _parse_rows(lines[top:], delimiter, clean)
    if not rows:
        raise FileError(f"{file.path} has a cell of more than {csv.field_size_limit():,} characters; is it a table?")
    width = Counter(map(len, rows)).most_common(1)[0][0]
    if len(rows[0]) != width:
        raise FileError(
            f"{file.path}: line {top + 1:,} has {_cells(rows[0])}, the lines after it have {width}; mend or drop it"
        )
    verdict = Verdict(header) if header is not None else has_header([r for r in rows if len(r) == width])
    names = tuple(rows[0]) if verdict.header else tuple(str(i + 1) for i in range(width))
    skipped = top + (length if verdict.header else 0)
    notes = [verdict.note] if verdict.note and not verdict.doubtful else []
    if comments := sum(1 for line in lines[:top] if line.strip()):
        notes.append(f"{comments} comment lines at the top were skipped")
    return TextTable(
        file,
        names,
        verdict.header,
        delimiter,
        start=len(head) - len(sample) + sum(map(len, lines[:skipped])),
        line=skipped + 1,
        sample=tuple(rows[1:] if verdict.header else rows),
        notes=tuple(notes),
        doubts=(verdict.note,) if verdict.note and verdict.doubtful else (),
        clean=clean,
    )


def _first_lines(file: File) -> bytes:
    """The first whole lines: two or more after the comments, if there are."""
    out = b""
    with file.open() as stream:
        while block := stream.read(SAMPLE):
            _refuse_binary(file, block)
            out += block
            lines = out.splitlines(keepends=True)
            if len(out) >= SAMPLE and sum(1 for line in lines[_preamble_length(lines) : -1] if line.strip()) > 1:
                out = b"".join(lines[:-1])
                break
    return out


def _refuse_binary(file: File, block: bytes) -> None:
    if block.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise FileError(f"{file.path} is UTF-16 text; save it as UTF-8")
    if b"\0" in block:
        raise FileError(f"{file.path} is neither Parquet, Arrow nor text; save it as Parquet or CSV")


def _preamble_length(lines: Sequence[bytes]) -> int:
    """The number of lines before the table: blank ones, comments, Matrix Market's line of sizes."""
    top = 0
    while top < len(lines) and (not lines[top].strip() or lines[top].lstrip(b"\xef\xbb\xbf \t")[:1] in b"#%"):
        top += 1
    matrix_market = lines and lines[0].startswith(b"%%MatrixMarket matrix coordinate")
    return min(top + 1, len(lines)) if matrix_market else top


def _delimiter(lines: list[bytes]) -> tuple[str, Callable[[bytes], bytes] | None]:
    """The delimiter that splits most lines into equally many cells, two or more; and a cleaner of lines, if needed."""
    if all(_ATTRIBUTES.search(line) for line in lines):  # networkx: u v {'weight': 1, ...}
        return " ", lambda block: _squeeze_blanks(_ATTRIBUTES.sub(b"", block))
    best, share = ",", 0.0
    for candidate in "\t;,| ":
        rows, _ = _parse_rows(lines, candidate, _squeeze_blanks if candidate == " " else None, skip_blanks=True)
        width, count = Counter(map(len, rows)).most_common(1)[0] if rows else (0, 0)
        if width > 1 and count / len(rows) > share:
            best, share = candidate, count / len(rows)
    if best == " ":
        return best, _squeeze_blanks
    rows, _ = _parse_rows(lines, best)
    padded = share and all(cell.startswith(" ") for row in rows for cell in row[1:]) and rows[0][0][:1] != " "
    return best, _padding_remover(best) if padded else None


def _parse_rows(
    lines: Sequence[bytes], delimiter: str, clean: Callable[[bytes], bytes] | None = None, *, skip_blanks: bool = False
) -> tuple[list[Row], int]:
    """The rows of these lines, blank ones left out, and how many lines the first row took."""
    texts = [(clean(line) if clean else line).decode("utf-8", "replace") for line in lines]
    rows, length = [], 0
    reader = csv.reader(texts, delimiter=delimiter, skipinitialspace=skip_blanks)
    try:
        for row in reader:
            if row:
                length = length or reader.line_num
                rows.append(row)
    except csv.Error:  # a line that this delimiter does not split is too long for Python's reader
        return [], 0
    return rows, length


def _squeeze_blanks(block: bytes) -> bytes:
    """Every run of blanks as one, none at either end of a line; quoted text is unchanged."""
    if b'"' in block:
        block = _QUOTED_OR_BLANKS.sub(lambda m: m[1] or b" ", block)
    else:
        block = block.replace(b"\t", b" ")
        while b"  " in block:
            block = block.replace(b"  ", b" ")
    for end in (b"\n", b"\r"):
        block = block.replace(b" " + end, end).replace(end + b" ", end)
    return block.strip(b" ")


def _padding_remover(delimiter: str) -> Callable[[bytes], bytes]:
    """A function that removes the blanks after each delimiter outside quotes."""
    mark = re.escape(delimiter.encode())
    pattern = re.compile(rb'("[^"]*")|(?<=' + mark + rb") +")

    def clean(block: bytes) -> bytes:
        return pattern.sub(lambda m: m[1] or b"", block)

    return clean


def _cells(row: Row) -> str:
    return "1 cell" if len(row) == 1 else f"{len(row)} cells"
