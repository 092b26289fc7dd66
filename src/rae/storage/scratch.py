"""Temporary folders and files, removed with their process or by the next one.

A folder that a killed process left is removed by the next one; the file of an array has no name and goes with it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from rae.memory import SharedMap
from rae.storage.atomic import writing
from rae.storage.lock import exclusive_lock

PREFIX, LOCK = "rae-", ".lock"


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """An empty folder among the system's temporary ones, removed at the end of the block."""
    home = Path(tempfile.gettempdir())
    for lock in home.glob(f"{PREFIX}{'[0-9a-f]' * 32}{LOCK}"):
        with exclusive_lock(lock) as abandoned:
            if abandoned:
                shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
    folder = home / f"{PREFIX}{uuid.uuid4().hex}"
    with exclusive_lock(folder.with_suffix(LOCK)):  # locked before the folder exists
        try:
            folder.mkdir(mode=0o700)
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def scratch_array(size: int, dtype: Any, *, folder: Path | None = None) -> Any:
    """An uninitialised array of so many numbers in a temporary file of this folder, by default the system's.

    `rae.memory.forget` frees its memory; the data is then read from the file again. Disk space is allocated at once, so
    that a full disk is an error now and no crash later.
    """
    count = max(1, size * np.dtype(dtype).itemsize)
    with writing(folder or tempfile.gettempdir()), tempfile.TemporaryFile(dir=folder) as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, count)
        else:  # pragma: no cover  # Windows, macOS
            file.truncate(count)
        return np.ndarray((size,), dtype, SharedMap(file.fileno(), count))
