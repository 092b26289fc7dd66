"""Memory: how much is available, aligned arrays, and memory-mapped arrays that give back what was read of them."""

from __future__ import annotations

import math
import mmap
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

CACHE_LINE = 64  # bytes that memory hands over at a time


def aligned_empty(shape: tuple[int, ...], dtype: Any = np.float32) -> Any:
    """An uninitialised array that begins at a cache line, so that rows of whole lines touch no others.

    >>> aligned_empty((3, 16)).ctypes.data % CACHE_LINE
    0
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    space = np.empty(size + CACHE_LINE, np.uint8)
    start = -space.ctypes.data % CACHE_LINE
    return space[start : start + size].view(dtype).reshape(shape)


def row_chunks(n: int, size: int) -> Iterator[tuple[int, int]]:
    """(start, stop) of the chunks of at most `size` rows that cut 0..n, in order.

    >>> list(row_chunks(5, 2))
    [(0, 2), (2, 4), (4, 5)]
    """
    return ((start, min(n, start + size)) for start in range(0, n, size))


def row_runs(offsets: Any, most: int) -> Iterator[tuple[int, int]]:
    """(first, last) of runs of rows with at most so many entries in all; a row that has more is alone.

    >>> list(row_runs([0, 2, 3, 9, 10], 3))
    [(0, 2), (2, 3), (3, 4)]
    """
    a, n = 0, len(offsets) - 1
    while a < n:
        b = int(np.searchsorted(offsets, offsets[a] + most, "right")) - 1
        b = min(max(b, a + 1), n)
        yield a, b
        a = b


def mapped(array: Any) -> mmap.mmap | None:
    """The mapped file that an array is a view of, None for an array in memory."""
    base = getattr(array, "base", None)
    while base is not None and not isinstance(base, mmap.mmap):
        base = getattr(base, "base", None)
    return base


class SharedMap(mmap.mmap):
    """A mapped file that is written through: what its arrays hold is in the file, in memory or not."""


def forget(*arrays: Any) -> None:
    """Free the pages of memory-mapped arrays; later reads go to the file again.

    A private mapping that may be written to is not freed, unless it is a SharedMap: its changes are in no file.
    """
    for array in arrays:
        base = mapped(array)
        in_file = base is not None and (isinstance(base, SharedMap) or memoryview(base).readonly)
        if base is not None and in_file and hasattr(mmap, "MADV_DONTNEED"):
            base.madvise(mmap.MADV_DONTNEED)


def give_back() -> None:
    """Return freed memory, which allocators cache, to the system."""
    import ctypes

    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None  # glibc has it
    if trim is not None:
        trim(0)


def available_memory(root: Path = Path("/")) -> int | None:
    """Bytes that can be had without swapping: of the machine and of the control group; None where unknown."""
    groups = [
        ("sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory.current"),
        ("sys/fs/cgroup/memory/memory.limit_in_bytes", "sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ]
    amounts = [number_in(root / "proc/meminfo", r"MemAvailable:\s+(\d+) kB", 1024)]
    for limit, used in groups:
        most, now = (number_in(root / name, r"(\d+)\s*") for name in (limit, used))
        if most is not None and now is not None:
            cached = number_in((root / used).with_name("memory.stat"), r"(?s).*?\binactive_file (\d+).*") or 0
            amounts.append(max(0, most - now + cached))  # cached pages of files are reclaimable
    return min((free for free in amounts if free is not None), default=None)


def number_in(path: Path, pattern: str, unit: int = 1) -> int | None:
    """The number that the pattern finds in a file of the system, None where there is none."""
    try:
        match = re.search(pattern, path.read_text(encoding="ascii", errors="replace"))
    except OSError:
        return None
    return int(match[1]) * unit if match else None
