"""One writer of a folder at a time: it holds a file in there, and whoever comes second can tell."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

LOCK = "lock"  # the file that is held, in the hidden folder that something is made in


@contextlib.contextmanager
def holding(path: Path) -> Iterator[bool]:
    """Whether this file, made where there is none, is held in this block; False where somebody else holds it.

    However the process ends, nobody holds the file any more.
    """
    try:
        import fcntl  # noqa: F401
    except ImportError:  # Windows, which would not move a folder with an open file in it
        yield True
        return
    with path.open("a") as file:
        yield _hold(file)


def _hold(file: IO[str]) -> bool:
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system that has no locks
        return True
    try:  # who held it before may have removed it or moved it away, after it was opened here
        return os.path.samestat(os.fstat(file.fileno()), Path(file.name).stat())
    except FileNotFoundError:
        return False
