"""An exclusive lock file per folder; the system releases it however its process ends."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

LOCK = "lock"  # the name of a lock file inside the folder that it protects


@contextlib.contextmanager
def exclusive_lock(path: Path) -> Iterator[bool]:
    """True if this process holds the lock file `path` during the block, False if another one does.

    The file is created if needed and removed at the end. Without locks in the file system it is always True.
    """
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        yield False
        return
    except (OSError, NotImplementedError):  # the file system has no locks
        yield True
        return
    try:
        yield True
    finally:
        # Removed while it is locked: filelock refuses a lock file that was removed after it was opened, so a process
        # that has opened this one tries again with a new file. Windows removes no open file; there it stays.
        with contextlib.suppress(OSError):
            path.unlink()
        lock.release()
