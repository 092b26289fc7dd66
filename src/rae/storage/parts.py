"""A folder of part files: checkpoints of intermediate arrays, from which a killed run resumes.

manifest.json   what the parts belong to: settings and checksums of the inputs, and their fingerprint
NAME.part       the bytes of arrays, one after the other, then the SHA-256 of fingerprint, name and bytes

A part is written to a temporary file and renamed, so it is whole or absent; two writers of the same
part write the same bytes. A part with a wrong checksum, or with another fingerprint, counts as absent.
Parts are not flushed to disk one by one: a killed process loses nothing by that, and after a power
failure the checksum finds the damage. The folder may be one in an object store, by its URL.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rae.errors import FileError
from rae.memory import forget
from rae.storage.atomic import atomic_path, write_json
from rae.storage.documents import parse_json
from rae.storage.objects import ObjectPath, place, to_store, unlink_all

log = logging.getLogger("rae")

FORMAT, FORMAT_VERSION = "rae parts", 1
INFO, SUFFIX, DIGEST = "manifest.json", ".part", 32
CHUNK = 1 << 22  # bytes read at a time where a part is checked

Array = np.ndarray[Any, Any]


@dataclass
class Moved:
    """Bytes that this process has read and written of parts and results, for who tells how far a job is."""

    bytes: int = 0


moved = Moved()


@dataclass(frozen=True)
class Parts:
    """The part files (checkpoints) of one job in one folder."""

    folder: Path | ObjectPath
    fingerprint: str
    _verified: set[str] = field(default_factory=set)  # parts that this process wrote or checked

    @classmethod
    def open(cls, folder: str | os.PathLike[str], about: Mapping[str, Any]) -> Parts:
        """The parts in this folder, to resume, if their fingerprint is the same; else an empty folder."""
        where = place(folder)
        fingerprint = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
        parts = cls(where, fingerprint)
        if where.exists():
            if not where.is_dir():
                raise FileError(f"{where} must be a folder for intermediate files, it is a file; move it away")
            if _fingerprint_in(where) == fingerprint:
                log.info("resuming with the parts in %s", where)
                return parts
            parts.remove()
        head = {"format": FORMAT, "format_version": FORMAT_VERSION, "fingerprint": fingerprint}
        if isinstance(where, Path):
            where.mkdir(parents=True, exist_ok=True)
        with to_store(where / INFO) as info:
            write_json(info, head | {"about": dict(about)})
        return parts

    def has(self, name: str) -> bool:
        """Whether this part is there and complete; a damaged one is removed."""
        if name in self._verified:
            return True
        path = self._path(name)
        if not path.is_file():
            return False
        if not self._verify(name, path):
            log.warning("%s is damaged or foreign and will be made anew", path)
            path.unlink(missing_ok=True)
            return False
        self._verified.add(name)
        return True

    def write(self, name: str, arrays: Sequence[Array]) -> None:
        """Write these arrays as one part, atomically."""
        digest, path = self._hash(name), self._path(name)
        with _open_new(path) as file:
            for array in arrays:
                data = _bytes(array)
                digest.update(data)
                _write_all(file, data)
            _write_all(file, memoryview(digest.digest()))
        self._verified.add(name)
        moved.bytes += sum(array.nbytes for array in arrays)

    def read_into(self, name: str, out: Array, at: int = 0) -> None:
        """Fill a C-ordered array with the bytes of a part from position `at` on."""
        data, path = _bytes(out), self._path(name)
        whole = name not in self._verified and at == 0 and path.is_file() and self.size(name) == len(data)
        if not whole and not self.has(name):
            raise FileError(f"the part {self._path(name)} is missing or damaged; run the same command again")
        with _opened(path) as file:
            file.seek(at)
            n_read = 0
            while n_read < len(data):
                length = file.readinto(data[n_read:])
                if not length:
                    raise FileError(f"the part {self._path(name)} is too short; run the same command again")
                n_read += length
            if whole:  # the checksum is verified while it is read
                digest = self._hash(name)
                digest.update(data)
                if file.read(DIGEST + 1) != digest.digest():
                    path.unlink(missing_ok=True)
                    raise FileError(f"the part {path} is damaged; run the same command again")
                self._verified.add(name)
        moved.bytes += len(data)

    def read(self, name: str, shape: tuple[int, ...], dtype: Any = np.float32) -> Array:
        """The array that a part holds."""
        out = np.empty(shape, dtype)
        self.read_into(name, out)
        return out

    def size(self, name: str) -> int:
        """The bytes that a part holds."""
        path = self._path(name)
        return (path.size() if isinstance(path, ObjectPath) else path.stat().st_size) - DIGEST

    def drop(self, *names: str) -> None:
        """Remove parts."""
        self._verified.difference_update(names)
        unlink_all([self._path(name) for name in names])

    def remove(self, last: str = "") -> None:
        """Remove the folder with all its parts, the file `last` last; a folder that holds anything else is refused."""
        if not self.folder.is_dir():
            return
        names = sorted(path.name for path in self.folder.iterdir())
        own = [n for n in names if not (n[0] == "." and n[-4:] == ".tmp")]  # a killed writer may leave its hidden file
        foreign = [n for n in own if n != INFO and not (n.endswith(SUFFIX) and INFO in own)]
        if foreign:
            raise FileError(f"{self.folder} must be free for intermediate files, it holds {foreign[0]}; move it away")
        ends = [n for n in (INFO, last) if n in names]  # the files that mark the folder as ours
        unlink_all([self.folder / name for name in names if name not in ends])
        for name in ends:
            (self.folder / name).unlink()
        self.folder.rmdir()
        self._verified.clear()

    def _path(self, name: str) -> Path | ObjectPath:
        return self.folder / f"{name}{SUFFIX}"

    def _hash(self, name: str) -> Any:
        return hashlib.sha256(f"{self.fingerprint} {name}\n".encode())

    def _verify(self, name: str, path: Path | ObjectPath) -> bool:
        left = self.size(name)
        digest, buffer = self._hash(name), memoryview(bytearray(CHUNK))
        with _opened(path) as file:
            while left > 0:
                length = file.readinto(buffer[: min(CHUNK, left)])
                if not length:
                    return False
                digest.update(buffer[:length])
                left -= length
            return left == 0 and file.read(DIGEST + 1) == digest.digest()


def _opened(path: Path | ObjectPath) -> Any:
    return path.open() if isinstance(path, ObjectPath) else path.open("rb", buffering=0)


@contextlib.contextmanager
def _open_new(path: Path | ObjectPath) -> Iterator[Any]:
    """A file to write; one in a store that was not written to its end lacks its checksum, and counts as absent."""
    if isinstance(path, ObjectPath):
        with path.create() as stream:
            yield stream
        return
    with atomic_path(path, flushes=False) as hidden, hidden.open("wb", buffering=0) as file:
        yield file


def digest_of(*arrays: Any) -> str:
    """The SHA-256 of the contents of arrays, their types and shapes, read in pieces."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype.str} {array.shape}\n".encode())
        rows = max(1, CHUNK * 8 // max(1, array.dtype.itemsize * int(np.prod(array.shape[1:]))))
        for start in range(0, len(array), rows):
            digest.update(_bytes(array[start : start + rows]))
            forget(array)
    return digest.hexdigest()


def _bytes(array: Array) -> memoryview:
    """The memory of a C-ordered array (a copy of any other) as bytes."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _write_all(file: Any, data: memoryview) -> None:
    while len(data):
        data = data[file.write(data) :]


def _fingerprint_in(folder: Path | ObjectPath) -> str | None:
    """The fingerprint in the manifest of this folder, None where there is no valid one."""
    try:
        manifest = parse_json((folder / INFO).read_bytes())
        is_readable = manifest["format"] == FORMAT and manifest["format_version"] == FORMAT_VERSION
        return str(manifest["fingerprint"]) if is_readable else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
