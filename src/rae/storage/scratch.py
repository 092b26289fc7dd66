"""Temporary folders that outlive no process for long: the next one removes what a killed one left."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

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
    with exclusive_lock(folder.with_suffix(LOCK)):  # before the folder is there, so that none is ever without a lock
        try:
            folder.mkdir(mode=0o700)
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
