"""Finding and opening what is read: a file that is there, and what its first bytes say it is."""

from __future__ import annotations

import contextlib
import difflib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from rae.errors import FileError

_PACKED = (
    (re.compile(rb"\x1f\x8b"), "gzip"),
    (re.compile(rb"\x28\xb5\x2f\xfd"), "zstd"),
    (re.compile(rb"BZh[1-9]1AY&SY"), "bz2"),
)
_KINDS = (
    # A text file may begin with the word PAR1; what follows it in a Parquet file is not text.
    (re.compile(rb"PAR1(?![\x09-\x0d -~])"), "parquet"),
    (re.compile(rb"ARROW1\0\0"), "arrow"),
    (re.compile(rb"PK(\x03\x04|\x05\x06)"), "zip"),
    (re.compile(rb"\x93NUMPY"), "npy"),
    (re.compile(rb"\x80[\x02-\x05]"), "pickle"),
)


@dataclass(frozen=True)
class File:
    """A file and what it holds: parquet, arrow, zip, npy, pickle or, if none of these, text."""

    path: Path
    kind: str
    packed: str | None = None

    def open(self) -> pa.NativeFile:
        """The bytes of the file, unpacked on the way."""
        raw = pa.OSFile(str(self.path))
        return pa.CompressedInputStream(raw, self.packed) if self.packed else raw


def look(path: str | os.PathLike[str]) -> File:
    """The file at `path`, known by its content and not by its ending."""
    there = _existing(Path(path))
    if there.is_dir():
        raise FileError(f"expected a file, {path} is a folder; name a file in it (or a folder of only .parquet files)")
    if not there.is_file():
        raise FileError(f"expected a regular file, {path} is a pipe or a device; save its content to a file first")
    with reading(there):
        with there.open("rb") as stream:
            head = stream.read(16)
        packed = next((name for magic, name in _PACKED if magic.match(head)), None)
        file = File(there, "text", packed)
        if packed:
            with file.open() as unpacked:
                head = unpacked.read(16)
    if not head:
        raise FileError(f"{path} is empty; expected a table with one row or more")
    kind = next((name for magic, name in _KINDS if magic.match(head)), "text")
    if kind == "pickle":
        raise FileError(
            f"{path} is a Python pickle, which is never read since it can run code; save it as Parquet or CSV"
        )
    return File(there, kind, packed)


def parts(path: str | os.PathLike[str]) -> list[Path]:
    """The Parquet files of a folder that holds nothing else, sorted; [] if it is no such folder."""
    folder = Path(path)
    if not folder.is_dir():
        return []
    inside = sorted(p for p in folder.iterdir() if not p.name.startswith(("_", ".")))
    return inside if all(p.suffix == ".parquet" and p.is_file() for p in inside) else []


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn what Arrow and the system say about a bad file into one sentence."""
    try:
        yield
    except PermissionError:
        raise FileError(f"{path} may not be read by you; ask for permission") from None
    except (pa.ArrowException, OSError, EOFError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise FileError(f"{path} is cut short or damaged ({reason.rstrip('.')}); fetch or write it again") from None


def _existing(path: Path) -> Path:
    with reading(path):
        if path.exists():
            return path
        if not path.parent.is_dir():
            raise FileError(f"there is no file {path}, nor a folder {path.parent}; check the path")
        beside = [p.name for p in path.parent.iterdir()]
    near = difflib.get_close_matches(path.name, beside, n=1)
    raise FileError(f"there is no file {path}; " + (f"did you mean {near[0]!r}?" if near else "check the path"))
