"""Threads and seeded randomness.

Every random choice is drawn from a generator or a key made here from (seed, words, counters), so
it depends on what it is for and not on what was drawn before. Nothing touches the caller's
global random state.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import numpy as np

Part = int | str


def key(seed: int, *parts: Part) -> np.uint64:
    """A 64-bit key for one purpose, e.g. key(seed, "anchor", step, level)."""
    text = "\x1f".join([str(int(seed)), *map(str, parts)]).encode()
    return np.uint64(int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little"))


def generator(seed: int, *parts: Part) -> np.random.Generator:
    """A NumPy generator for one purpose, independent of every other purpose.

    >>> bool(generator(1, "batch", 7).integers(100) == generator(1, "batch", 7).integers(100))
    True
    """
    return np.random.Generator(np.random.Philox(key=int(key(seed, *parts))))


_threads: int | None = None


def set_threads(count: int | None) -> None:
    """Use this many threads for our kernels; None goes back to the default (all cores allowed)."""
    global _threads
    _threads = None if count is None else max(1, int(count))


def threads() -> int:
    """How many threads the kernels use: set_threads, else RAE_THREADS, else the cores allowed."""
    if _threads is not None:
        return _threads
    if (named := os.environ.get("RAE_THREADS", "")).isdigit() and int(named) > 0:
        return int(named)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@lru_cache(maxsize=4)
def _pool(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, thread_name_prefix="rae")


def in_ranges(work: Callable[[int, int], None], size: int, smallest: int = 1) -> None:
    """Call work(start, stop) over 0..size, split over the threads into ranges of >= smallest.

    The kernels release the interpreter lock and write disjoint parts of their output, so the
    result does not depend on how many threads there are.
    """
    pieces = max(1, min(threads(), size // max(1, smallest)))
    if pieces == 1:
        work(0, size)
        return
    cuts = [size * i // pieces for i in range(pieces + 1)]
    mine, *others = itertools.pairwise(cuts)
    futures = [_pool(pieces - 1).submit(work, a, b) for a, b in others]
    work(*mine)
    for future in futures:
        future.result()


@contextlib.contextmanager
def torch_alone() -> Iterator[None]:
    """Torch works on one thread inside this block, and as before after it.

    Its matrix products add in another order for another number of threads; with one, the same seed
    gives the same bytes on any number of cores. Our own kernels still use them all.
    """
    import torch

    before = torch.get_num_threads()
    if before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
