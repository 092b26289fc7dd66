"""Arrays that lie in memory-mapped files: whether one does, and giving back the memory of what was read of it."""

from __future__ import annotations

import mmap
from typing import Any


def mapped(array: Any) -> mmap.mmap | None:
    """The mapped file that an array is a view of, None for an array in memory."""
    base = getattr(array, "base", None)
    while base is not None and not isinstance(base, mmap.mmap):
        base = getattr(base, "base", None)
    return base


def forget(*arrays: Any) -> None:
    """Give back the memory of what was read of memory-mapped arrays; reading on reads the file again.

    A mapping that may be written to is left alone: its owner may have written what is in no file.
    """
    for array in arrays:
        base = mapped(array)
        if base is not None and memoryview(base).readonly and hasattr(mmap, "MADV_DONTNEED"):
            base.madvise(mmap.MADV_DONTNEED)
