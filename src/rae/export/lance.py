"""Vectors as a Lance dataset: a folder of columns with versions and an index for vectors."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from rae.errors import FileError, needed_library, one_line
from rae.export.contract import FORCE, MARK, TARGET, Options, Written
from rae.export.vectors import Vectors, vectors_of
from rae.run import Run
from rae.storage.atomic import writing
from rae.storage.lock import exclusive_lock


def write(run: Run, target: str, options: Options) -> Written:
    """Write the vectors of a run as a dataset; one that is replaced becomes its older version.

    A new dataset is written in a hidden folder beside it and moved into place, so it is there whole or not at all.
    """
    lance = needed_library("lance", "lance", "a Lance dataset", "pylance")
    path = Path(target)
    exists = _check(lance, path, options.force)
    vectors = vectors_of(run, options)
    if exists:
        _write(lance, vectors, path, "overwrite", options)
        return Written("lance", str(path), rows=vectors.table.num_rows)
    with _staging(path) as hidden:
        _write(lance, vectors, hidden, "create", options)
        with writing(path):
            hidden.rename(path)
    return Written("lance", str(path), rows=vectors.table.num_rows)


@contextlib.contextmanager
def _staging(path: Path) -> Iterator[Path]:
    """A hidden folder beside the target, of one name, so that an export removes that of a killed one."""
    hidden = path.with_name(f".{hashlib.blake2b(os.fsencode(path.name), digest_size=16).hexdigest()}.tmp")
    with exclusive_lock(hidden.with_suffix(".lock")) as free:
        if not free:
            raise FileError(f"another export is writing {path}; wait for it, or choose another ", TARGET)
        try:
            shutil.rmtree(hidden, ignore_errors=True)
            yield hidden
        finally:
            shutil.rmtree(hidden, ignore_errors=True)


def _check(lance: Any, path: Path, force: bool) -> bool:
    """Whether a dataset that may be replaced is there; anything else that is there is refused."""
    if "://" in str(path) or str(path).startswith(("s3:", "gs:", "az:")):
        raise FileError(TARGET, f" must be a folder on this machine, got {path}; copy it from there")
    if not path.parent.is_dir():
        raise FileError(f"cannot write {path}: there is no folder {path.parent}; make it first")
    if not path.exists():
        return False
    try:
        ours = MARK.encode() in (lance.dataset(str(path)).schema.metadata or {})
    except (ValueError, OSError):
        ours = False
    if not ours:
        raise FileError(f"{path} is there and is no dataset that rae wrote; choose another ", TARGET)
    if not force:
        raise FileError(
            f"{path} is there already; choose another name, or pass ", FORCE, " to make these its newest version"
        )
    return True


def _write(lance: Any, vectors: Vectors, path: Path, mode: str, options: Options) -> None:
    schema = vectors.table.schema.with_metadata({MARK: vectors.comment})
    batches = (batch for part in vectors.batches(options) for batch in part.cast(schema).to_batches())
    reader = pa.RecordBatchReader.from_batches(schema, batches)
    try:
        with writing(path):
            lance.write_dataset(reader, str(path), schema=schema, mode=mode)
    except (OSError, ValueError, RuntimeError) as error:
        raise FileError(f"cannot write {path}: {one_line(error)[:200]}") from error
