"""Vectors as a Lance dataset: a folder of columns with versions and an index for vectors."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa

from rae.errors import Argument, FileError, MissingExtraError, one_line
from rae.export.contract import FORCE, MARK, TARGET, Options, Written
from rae.export.vectors import Vectors, vectors_of
from rae.run import Run
from rae.storage.atomic import writing


def write(run: Run, target: str, options: Options) -> Written:
    """Write the vectors of a run as a dataset; one that is replaced becomes its older version.

    A new dataset is written in a hidden folder beside it and moved into place, so it is there whole or not at all.
    """
    lance = _library()
    path = Path(target)
    exists = _check(lance, path, options.force)
    vectors = vectors_of(run, options)
    if exists:
        _write(lance, vectors, path, "overwrite", options)
        return Written("lance", str(path), rows=vectors.table.num_rows)
    hidden = path.parent / f".{uuid.uuid4().hex}.tmp"
    try:
        _write(lance, vectors, hidden, "create", options)
        with writing(path):
            hidden.rename(path)
    finally:
        shutil.rmtree(hidden, ignore_errors=True)
    return Written("lance", str(path), rows=vectors.table.num_rows)


def _library() -> Any:
    try:
        import lance
    except ImportError:
        raise MissingExtraError("pylance", "lance", "a Lance dataset") from None
    return lance


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
        raise FileError(f"{path} is there and is no dataset that rae wrote; choose another ", Argument("target"))
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
