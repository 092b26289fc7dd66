"""A folder of results: one Parquet file of ids and vectors per part, and a manifest that is written last.

    part-00000.parquet ...   rows of the graph in order; `rae.read_embeddings` reads the folder as one table
    _manifest.json           of every file its rows, bytes and SHA-256; the model, the blocks, the width

The files are written by tasks, on any host, into a hidden folder beside the result, which is renamed when it is
complete. Its hidden name has the fingerprint of the job, so that the same command resumes from its files.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rae.blocks import Block, blocks_from
from rae.errors import FileError, is_there
from rae.graph.folder import checksum
from rae.io.embeddings import EmbeddingWriter
from rae.storage.atomic import atomic_path, write_json, writing
from rae.storage.objects import ObjectPath, on_disk, place, to_store
from rae.storage.parts import moved

MANIFEST = "_manifest.json"
FORMAT, FORMAT_VERSION = "rae embeddings", 1
SUFFIX, BUILDING = ".parquet", ".building"


@dataclass(frozen=True)
class Results:
    """The folder of a result while it is written, and the headers of its files, as plain data."""

    folder: str
    dtype: str = "float32"
    model: str | None = None
    blocks: Sequence[Mapping[str, Any]] = field(default_factory=list)
    width: int = 0
    mark: str = ""  # the job, in the names of files in a store, where a folder cannot be renamed

    def has(self, part: int) -> bool:
        """Whether the file of this part is there; a file has its name when it is whole."""
        return self._path(part).is_file()

    def write(self, part: int, ids: pa.Array, vectors: np.ndarray[Any, Any]) -> tuple[int, str]:
        """Write the file of one part, whole or not at all; its bytes and its SHA-256."""
        blocks = blocks_from(list(self.blocks), self.width) if self.blocks else ()
        about: dict[str, Any] = {"model": self.model, "dtype": self.dtype, "blocks": blocks}
        with to_store(self._path(part)) as path, atomic_path(path) as hidden:
            with EmbeddingWriter(hidden, ids, self.width, SUFFIX, **about) as writer:
                writer.append(vectors)
            size_and_checksum = hidden.stat().st_size, checksum(hidden)
        moved.bytes += size_and_checksum[0]
        return size_and_checksum

    def finish(
        self,
        target: Path | ObjectPath,
        rows: Sequence[tuple[int, int]],
        noted: Iterable[tuple[int, str] | None],
    ) -> None:
        """Write the manifest and give the folder its name; `noted` are bytes and SHA-256 of files, None: unknown."""
        folder, files = place(self.folder), []
        for part, ((a, b), measured) in enumerate(zip(rows, noted, strict=True)):
            path = self._path(part)
            size, digest = measured or _measured(path)
            files.append({"file": path.name, "rows": b - a, "bytes": size, "sha256": digest})
        head = {"format": FORMAT, "format_version": FORMAT_VERSION, "rows": rows[-1][1], "width": self.width}
        about = {"dtype": self.dtype, "model": self.model, "blocks": [dict(block) for block in self.blocks]}
        with to_store(folder / MANIFEST) as manifest:
            write_json(manifest, head | about | {"files": files})
        if isinstance(target, ObjectPath):
            names = {MANIFEST, *(file["file"] for file in files)}
            for other in target.iterdir():
                if other.name not in names and _is_result(other):
                    other.unlink()
            return
        assert isinstance(folder, Path)
        with writing(target):
            if target.exists():
                remove_results(target)
            folder.replace(target)

    def _path(self, part: int) -> Path | ObjectPath:
        return place(self.folder) / f"part-{part:05}{self.mark}{SUFFIX}"


def _measured(path: Path | ObjectPath) -> tuple[int, str]:
    with on_disk(path) as copy:
        return copy.stat().st_size, checksum(copy)


def open_results(
    target: Path | ObjectPath, fingerprint: str, width: int, *, dtype: str, model: str | None, blocks: Sequence[Block]
) -> Results:
    """The hidden folder of a result, with the files that a killed job of this fingerprint left; others are removed."""
    about: dict[str, Any] = {"dtype": dtype, "model": model, "width": width}
    about["blocks"] = [block.as_dict() for block in blocks]
    if isinstance(target, ObjectPath):
        (target / MANIFEST).unlink(missing_ok=True)
        return Results(target.url, mark=f"-{fingerprint[:16]}", **about)
    hidden = target.with_name(f".{target.name}.{fingerprint[:16]}{BUILDING}")
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        for other in target.parent.glob(f".{target.name}.{'[0-9a-f]' * 16}{BUILDING}"):
            if other != hidden:
                shutil.rmtree(other)
        hidden.mkdir(exist_ok=True)
    return Results(str(hidden), **about)


def check_results(target: Path | ObjectPath, *, force: bool) -> None:
    """Refuse a folder that holds anything but results, or results that would be replaced without `force`."""
    if not target.exists():
        return
    below: list[Any] = sorted(target.iterdir(), key=str) if target.is_dir() else [target]
    foreign = [path.name for path in below if not _is_result(path)]
    if isinstance(target, ObjectPath) and not (target / MANIFEST).is_file() and not foreign:
        return  # of a killed job, which resumes
    if foreign:
        raise FileError(f"{target} exists and holds {foreign[0]}, which is no result of rae; choose another folder")
    if not force:
        raise is_there(target)


def remove_results(target: Path) -> None:
    """Remove a folder of results, and nothing else that may lie in it."""
    check_results(target, force=True)
    (target / MANIFEST).unlink(missing_ok=True)  # without it the folder is marked incomplete
    for path in target.iterdir():
        path.unlink()
    target.rmdir()


def _is_result(path: Path | ObjectPath) -> bool:
    hidden = path.name.startswith(".") and path.suffix == ".tmp"
    return path.name == MANIFEST or hidden or (path.name.startswith("part-") and path.suffix == SUFFIX)
