"""Input files: the format and compression of a file by its first bytes, and errors in one sentence."""

from __future__ import annotations

import contextlib
import difflib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from rae.errors import FileError, one_line
from rae.storage.objects import ObjectPath, is_url, place, scheme_of

HEAD = 64  # bytes by which a format is known

_COMPRESSIONS = (
    (re.compile(rb"\x1f\x8b"), "gzip"),
    (re.compile(rb"\x28\xb5\x2f\xfd"), "zstd"),
    (re.compile(rb"BZh[1-9]1AY&SY"), "bz2"),
)
_FORMATS = (
    # A text file may begin with the word PAR1; what follows it in a Parquet file is not text.
    (re.compile(rb"PAR1(?![\x09-\x0d -~])"), "parquet"),
    (re.compile(rb"ARROW1\0\0"), "arrow"),
    (re.compile(rb"PK(\x03\x04|\x05\x06)"), "zip"),
    (re.compile(rb"\x93NUMPY"), "npy"),
    (re.compile(rb"\x80[\x02-\x05]"), "pickle"),
    # An object or a list with something of JSON in it: an id that begins with a bracket goes on with a letter.
    (re.compile(rb"(\xef\xbb\xbf)?\s*(\{\s*(\"|\}|\Z)|\[\s*([\[{\"\]]|\Z))"), "json"),
)


@dataclass(frozen=True)
class File:
    """A file, its format (parquet, arrow, zip, npy, json, or else text) and its compression."""

    path: Path | ObjectPath
    kind: str
    compression: str | None = None

    def open(self) -> pa.NativeFile:
        """A stream of the bytes of the file, decompressed."""
        raw = self.raw()
        return pa.CompressedInputStream(raw, self.compression) if self.compression else raw

    def raw(self) -> pa.NativeFile:
        """The bytes of the file as they are, to be read at any position."""
        return self.path.open() if isinstance(self.path, ObjectPath) else pa.OSFile(str(self.path))


def identify(path: str | os.PathLike[str]) -> File:
    """The file at `path`, identified by its content; text that is called .json is JSON, whatever it holds."""
    if scheme_of(path) is not None and not is_url(path):
        raise FileError(
            f"expected a file, or one in an object store (s3://, gs://, az://), {path} is an address; download it first"
        )
    existing = _existing(place(path))
    if existing.is_dir():
        raise FileError(f"expected a file, {path} is a folder; name a file in it (or a folder of only .parquet files)")
    if not existing.is_file():
        raise FileError(f"expected a regular file, {path} is a pipe or a device; save its content to a file first")
    with file_errors(existing):
        with File(existing, "text").raw() as stream:
            head = stream.read(HEAD)
        compression = next((name for magic, name in _COMPRESSIONS if magic.match(head)), None)
        file = File(existing, "text", compression)
        if compression:
            with file.open() as stream:
                head = stream.read(HEAD)
    if not head:
        raise FileError(f"{path} is empty; expected a table with one row or more")
    kind = next((name for magic, name in _FORMATS if magic.match(head)), "text")
    if kind == "pickle":
        raise FileError(
            f"{path} is a Python pickle, which is never read since it can run code; save it as Parquet or CSV"
        )
    if kind == "text" and ".json" in existing.suffixes[-2:]:
        kind = "json"
    return File(existing, kind, compression)


def check_path(path: Any, instead: str) -> None:
    """Refuse what is no path, such as a data frame, and say what takes it `instead`."""
    if not isinstance(path, (str, os.PathLike)):
        raise FileError(f"expected the path of a file, got {type(path).__name__}; {instead} takes a data frame")


def parquet_parts(path: str | os.PathLike[str]) -> list[Any]:
    """The Parquet files of a folder, or below a URL, that holds nothing else, sorted; [] if it is no such folder."""
    folder: Any = place(path)
    if (scheme_of(path) is not None and not is_url(path)) or not folder.is_dir():
        return []
    files = sorted((p for p in folder.iterdir() if not p.name.startswith(("_", "."))), key=lambda p: str(p.name))
    return files if all(p.suffix == ".parquet" and p.is_file() for p in files) else []


@contextlib.contextmanager
def file_errors(path: Path | ObjectPath) -> Iterator[None]:
    """Errors of Arrow and of the system in this block become a FileError of one sentence."""
    try:
        yield
    except PermissionError:
        raise FileError(f"{path} may not be read by you; ask for permission") from None
    except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError) as error:  # the last: names of columns
        raise FileError(f"{path} is cut short or damaged ({one_line(error)}); fetch or write it again") from None


def _existing(path: Path | ObjectPath) -> Path | ObjectPath:
    if isinstance(path, ObjectPath):
        if not path.exists():
            raise FileError(f"there is no object {path}, nor one below it; check the name")
        return path
    with file_errors(path):
        if path.exists():
            return path
        if not path.parent.is_dir():
            raise FileError(f"there is no file {path}, nor a folder {path.parent}; check the path")
        near = nearest(path)
    raise FileError(f"there is no file {path}; " + (f"did you mean {near!r}?" if near else "check the path"))


def nearest(path: Path) -> str | None:
    """The name beside a path that is nearest to its own, if one is near."""
    siblings = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
    stems = difflib.get_close_matches(_stem(path.name), {_stem(name) for name in siblings}, n=1, cutoff=0.75)
    near = difflib.get_close_matches(path.name, [name for name in siblings if _stem(name) in stems], n=1, cutoff=0)
    return near[0] if near else None


def _stem(name: str) -> str:
    """A name without its endings: that two files are both .csv does not make them alike."""
    return name.lstrip(".").partition(".")[0]
