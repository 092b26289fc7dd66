"""Text tables: comma, tab, semicolon, pipe or blanks between the cells, with or without a header.

Nothing is asked of the user that the first lines can tell; what they cannot tell for sure is
decided by the rule in `rae.io.header.has_header`, noted, and can be overridden.
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
from rae.io.files import File, reading
from rae.io.header import Row, Verdict, has_header, is_number

SAMPLE = 1 << 17
BLOCK = 1 << 22

_ATTRIBUTES = re.compile(rb"[ \t]+\{[^\r\n]*\}[ \t]*(?=[\r\n]|$)")
_QUOTED_OR_BLANKS = re.compile(rb'(?<![^ \t\r\n])("[^"\r\n]*")(?![^ \t\r\n])|[ \t]+')


@dataclass(frozen=True)
class TextTable:
    """How a text file is laid out; the columns are read when asked for."""

    file: File
    names: tuple[str, ...]  # of the header, else "1", "2", ...
    header: bool
    delimiter: str
    start: int  # bytes before the first row of data
    line: int  # the line of the file, from 1, where the data begin
    sample: tuple[Row, ...]  # the first rows of data
    notes: tuple[str, ...]  # how it was read, where that is worth a word
    doubts: tuple[str, ...] = ()  # what could well have been meant otherwise
    clean: Callable[[bytes], bytes] | None = None  # blocks of whole lines -> what Arrow can split

    def read(self, kinds: Mapping[int, pa.DataType]) -> list[pa.ChunkedArray]:
        """The columns at these positions, in this order, as these types; text is never null."""
        if not self.sample:
            return [pa.chunked_array([], kind) for kind in kinds.values()]
        try:
            with reading(self.file.path), self._data() as stream:
                table = pa.csv.read_csv(stream, **self._options(kinds))
        except FileError as error:
            raise self._explained(kinds) or error from None
        return [table.column(str(i)) for i in kinds]

    def batches(self, kinds: Mapping[int, pa.DataType]) -> Iterator[list[pa.Array]]:
        """The columns as `read` gives them, a few hundred thousand rows at a time."""
        if not self.sample:
            return
        try:
            with (
                reading(self.file.path),
                self._data() as stream,
                pa.csv.open_csv(stream, **self._options(kinds)) as rows,
            ):
                for batch in rows:
                    yield [batch.column(str(i)) for i in kinds]
        except FileError as error:
            raise self._explained(kinds) or error from None

    def whole_numbers(self, positions: Sequence[int]) -> Iterator[list[pa.Array]]:
        """The two columns of a table that has no other as int64, in batches; `NotPlain` if that loses their writing.

        Arrow reads numbers three times as fast as text, but takes 007 for 7. The plain writing of a number
        is its shortest, so all cells are plain where every row has its line feed and the file is as long
        as its digits, delimiters and ends of lines. Other notations of numbers are left to `batches`.
        """
        if sorted(positions) != list(range(len(self.names))) or len(self.names) != 2 or not self.sample:
            raise NotPlain
        options = self._options(dict.fromkeys(positions, pa.int64()))
        options["convert_options"].null_values = []
        expected = n_rows = 0
        try:
            with self._data() as stream:
                plain = _Plain(stream)
                with pa.csv.open_csv(pa.PythonFile(plain, mode="r"), **options) as rows:
                    for batch in rows:
                        columns = [batch.column(str(i)) for i in positions]
                        expected += sum(_digits(column.to_numpy()) + len(column) for column in columns)
                        n_rows += len(batch)
                        yield columns
        except (pa.ArrowException, OSError, EOFError):  # said in full by the careful way
            raise NotPlain from None
        if plain.odd or plain.feeds != n_rows or plain.length != expected:
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
        """The line of the file, from 1, and the cells of the first row that is bad; slow, for errors only."""
        rows = csv.reader(self._lines(), delimiter=self.delimiter)
        with contextlib.suppress(OSError, csv.Error):
            for row in rows:
                if row and bad(row):
                    return self.line + rows.line_num - 1, row
        return None

    def _data(self) -> pa.NativeFile:
        stream = self.file.open()
        stream.read(self.start)
        return stream if self.clean is None else pa.PythonFile(_Cleaned(stream, self.clean), mode="r")

    def _lines(self) -> Iterator[str]:
        with self.file.open() as stream:
            stream.read(self.start)
            blocks = _Cleaned(stream, self.clean or bytes)
            while block := blocks.whole_lines():
                for line in block.splitlines(keepends=True):
                    yield line.decode("utf-8", "replace")

    def _explained(self, kinds: Mapping[int, pa.DataType]) -> FileError | FeatureError | None:
        """The error that says which line Arrow could not read, None if that is not the matter."""
        width, path = len(self.names), self.file.path
        if found := self.find(lambda row: len(row) != width):
            line, row = found
            return FileError(f"{path}: line {line:,} has {len(row)} cells, expected {width}; mend that line")
        if found := self.find(lambda row: any("\ufffd" in row[i] for i in kinds)):
            return FileError(f"{path}: line {found[0]:,} is not UTF-8 text; save the file as UTF-8")
        if found := self.find(lambda row: any(not _fits(row[i], kind) for i, kind in kinds.items())):
            line, row = found
            i, kind = next((i, kind) for i, kind in kinds.items() if not _fits(row[i], kind))
            what = "true or false" if pa.types.is_boolean(kind) else "numbers"
            return FeatureError(
                f"{path}: column {self.names[i]!r} must hold {what}, got {row[i]!r} in line {line:,}; mend it or "
                "choose other columns with ",
                Argument("columns", ...),
            )
        return None


def _fits(cell: str, kind: pa.DataType) -> bool:
    if pa.types.is_boolean(kind):
        return cell.casefold() in ("true", "false", "1", "0", "")
    return not pa.types.is_floating(kind) or is_number(cell)


class NotPlain(Exception):  # noqa: N818  # no error of the user's: the reader takes the careful way
    """A text column that is not the plain writing of whole numbers, or that cannot be told to be."""


class _Plain:
    """A stream of bytes that counts them and notes such as stand in other notations of numbers."""

    closed = False

    def __init__(self, stream: pa.NativeFile) -> None:
        self._stream = stream
        self.length = self.feeds = 0  # bytes that are no carriage returns; line feeds
        self.odd = False

    def read(self, size: int) -> bytes:
        block: bytes = self._stream.read(size)
        self.length += len(block) - block.count(b"\r")
        self.feeds += block.count(b"\n")
        self.odd = self.odd or any(byte in block for byte in (b"x", b"X", b'"', b"-"))
        return block

    def close(self) -> None:
        self._stream.close()


def _digits(numbers: Any) -> int:
    """How many digits these numbers, none below 0, are written with.

    >>> _digits(np.array([0, 9, 10, 123]))
    7
    """
    most = len(str(numbers.max())) if len(numbers) else 0
    return len(numbers) + sum(int(np.count_nonzero(numbers >= 10**k)) for k in range(1, most))


class _Cleaned:
    """A stream of bytes, cleaned in blocks that end where a line ends."""

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


# --------------------------------------------------------------------------- how it is laid out


def sniff(file: File, header: bool | None = None) -> TextTable:
    """The layout of a text table, told from its first lines; `header` overrides what they say."""
    with reading(file.path):
        sample = _sample(file)
    lines = sample.splitlines(keepends=True)
    top = _top(lines)
    data = [line for line in lines[top:] if line.strip()]
    if not data:
        raise FileError(f"{file.path} holds no rows, only comments or blank lines; expected a table")
    delimiter, clean = _delimiter(data)
    rows, length = _rows(lines[top:], delimiter, clean)
    if not rows:
        raise FileError(f"{file.path} has a cell of more than {csv.field_size_limit():,} characters; is it a table?")
    width = Counter(map(len, rows)).most_common(1)[0][0]
    if len(rows[0]) != width:
        raise FileError(
            f"{file.path}: line {top + 1:,} has {len(rows[0])} cells, the lines after it have {width}; mend or drop it"
        )
    told = Verdict(header) if header is not None else has_header([r for r in rows if len(r) == width])
    decided = told.header
    names = tuple(rows[0]) if decided else tuple(str(i + 1) for i in range(width))
    skipped = top + (length if decided else 0)
    notes = [told.note] if told.note and not told.doubtful else []
    if comments := sum(1 for line in lines[:top] if line.strip()):
        notes.append(f"{comments} comment lines at the top were skipped")
    return TextTable(
        file,
        names,
        decided,
        delimiter,
        start=sum(map(len, lines[:skipped])) + (3 if _has_mark(file) else 0),
        line=skipped + 1,
        sample=tuple(rows[1:] if decided else rows),
        notes=tuple(notes),
        doubts=(told.note,) if told.note and told.doubtful else (),
        clean=clean,
    )


def _has_mark(file: File) -> bool:
    with file.open() as stream:
        return bool(stream.read(3) == b"\xef\xbb\xbf")


def _sample(file: File) -> bytes:
    """The first whole lines without the byte order mark: two or more after the comments, if there are."""
    out = b""
    with file.open() as stream:
        while block := stream.read(SAMPLE):
            _refuse_binary(file, block)
            out += block
            lines = out.splitlines(keepends=True)
            if len(out) >= SAMPLE and sum(1 for line in lines[_top(lines) : -1] if line.strip()) > 1:
                out = b"".join(lines[:-1])
                break
    return out.removeprefix(b"\xef\xbb\xbf")


def _refuse_binary(file: File, block: bytes) -> None:
    if block.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise FileError(f"{file.path} is UTF-16 text; save it as UTF-8")
    if b"\0" in block:
        raise FileError(f"{file.path} is neither Parquet, Arrow nor text; save it as Parquet or CSV")


def _top(lines: Sequence[bytes]) -> int:
    """How many lines stand before the table: blank ones, comments, Matrix Market's line of sizes."""
    top = 0
    while top < len(lines) and (not lines[top].strip() or lines[top].lstrip(b"\xef\xbb\xbf \t")[:1] in b"#%"):
        top += 1
    matrix_market = lines and lines[0].startswith(b"%%MatrixMarket matrix coordinate")
    return min(top + 1, len(lines)) if matrix_market else top


def _delimiter(lines: list[bytes]) -> tuple[str, Callable[[bytes], bytes] | None]:
    """What stands between the cells: the one that splits most lines into equally many, two or more."""
    if all(_ATTRIBUTES.search(line) for line in lines):  # networkx: u v {'weight': 1, ...}
        return " ", lambda block: _squeezed(_ATTRIBUTES.sub(b"", block))
    best, share = ",", 0.0
    for candidate in "\t;,| ":
        rows, _ = _rows(lines, candidate, _squeezed if candidate == " " else None, skip_blanks=True)
        width, count = Counter(map(len, rows)).most_common(1)[0] if rows else (0, 0)
        if width > 1 and count / len(rows) > share:
            best, share = candidate, count / len(rows)
    if best == " ":
        return best, _squeezed
    rows, _ = _rows(lines, best)
    padded = share and all(cell.startswith(" ") for row in rows for cell in row[1:]) and rows[0][0][:1] != " "
    return best, _unpadded(best) if padded else None


def _rows(
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


def _squeezed(block: bytes) -> bytes:
    """Every run of blanks as one, none at either end of a line; quoted text stays."""
    if b'"' in block:
        block = _QUOTED_OR_BLANKS.sub(lambda m: m[1] or b" ", block)
    else:
        block = block.replace(b"\t", b" ")
        while b"  " in block:
            block = block.replace(b"  ", b" ")
    for end in (b"\n", b"\r"):
        block = block.replace(b" " + end, end).replace(end + b" ", end)
    return block.strip(b" ")


def _unpadded(delimiter: str) -> Callable[[bytes], bytes]:
    """A cleaner that drops the blanks after each delimiter outside quotes."""
    mark = re.escape(delimiter.encode())
    pattern = re.compile(rb'("[^"]*")|(?<=' + mark + rb") +")

    def clean(block: bytes) -> bytes:
        return pattern.sub(lambda m: m[1] or b"", block)

    return clean
