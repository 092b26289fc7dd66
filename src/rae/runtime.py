"""Threads, the device that is worked on, and seeded randomness.

Every random choice is drawn from a generator or a key made here from (seed, words, counters), so
it depends on what it is for and not on what was drawn before. Nothing touches the caller's
global random state.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import hashlib
import itertools
import logging
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from typing import Any, TypeVar

import numpy as np

from rae.errors import Argument, ConfigError, Sentence

log = logging.getLogger("rae.inputs")  # what the command line shows

Part = int | str
T = TypeVar("T")
FIRST, SECOND, PARTNER = 0, 1, 2  # pools of the two sides of `together`, and of the thread of the second side


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
_alone, _before, _counting = 0, 1, threading.Lock()  # threads in torch_alone, torch's number before the first
# new: a thread of a pool that torch has not met; share, side: see `_with_share`; alone: in `torch_alone`;
# device, copies: see `on_device`
_here = threading.local()


def set_threads(count: int | None) -> None:
    """Use this many threads for our operations; None goes back to the default (all cores allowed)."""
    global _threads
    if count is not None and (isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1):
        raise ConfigError(f"threads must be a whole number from 1, or None for all cores, got {count!r}")
    _threads = None if count is None else int(count)


def threads() -> int:
    """Threads that an operation uses here: its share, else set_threads, else RAE_THREADS, else the cores allowed."""
    if (share := getattr(_here, "share", None)) is not None:
        return int(share)
    if _threads is not None:
        return _threads
    if (setting := os.environ.get("RAE_THREADS", "")).isdigit() and int(setting) > 0:
        return int(setting)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@lru_cache(maxsize=8)
def _pool(workers: int, side: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, thread_name_prefix="rae", initializer=_here.__setattr__, initargs=("new", True))


def in_ranges(work: Callable[[int, int], None], size: int, smallest: int = 1) -> None:
    """Call work(start, stop) over 0..size, split over the threads into ranges of >= smallest.

    Operations release the interpreter lock and write disjoint parts of their output, so the result does not depend
    on how many threads there are. Inside a range, further operations stay on its thread.
    """
    most = size // max(1, smallest)
    pieces = 1 if most < 2 else min(threads(), most)
    if pieces == 1:
        work(0, size)
        return
    side = getattr(_here, "side", FIRST)
    cuts = [size * i // pieces for i in range(pieces + 1)]
    own, *others = itertools.pairwise(cuts)
    futures = [_pool(pieces - 1, side).submit(_with_share, partial(work, a, b), 1, side) for a, b in others]
    try:
        _with_share(partial(work, *own), 1, side)
    finally:  # all threads have ended before the caller sees an error
        concurrent.futures.wait(futures)
    for future in futures:
        future.result()


def together(first: Callable[[], T], second: Callable[[], T], *, even: bool = True) -> tuple[T, T]:
    """The results of both, computed at the same time on half of the threads each; with one thread, in turn.

    Unless `even`, the first has all threads and the second, which cannot use several, one more.
    """
    if (count := threads()) == 1 or hasattr(_here, "share"):
        return first(), second()
    other = _pool(1, PARTNER).submit(_with_share, second, count // 2 if even else 1, SECOND)
    try:
        own = _with_share(first, count - count // 2, FIRST) if even else first()
    finally:
        concurrent.futures.wait([other])
    return own, other.result()


def run_ahead(function: Callable[[Any], T], items: Iterable[Any], count: int) -> Iterator[T]:
    """function(item) of every item, in order; with threads, `count` are at work while the caller uses a result."""
    if threads() == 1:
        yield from map(function, items)
        return
    waiting = list(items)[::-1]
    with ThreadPoolExecutor(count, thread_name_prefix="rae-task") as pool:
        futures = [pool.submit(function, waiting.pop()) for _ in range(min(count, len(waiting)))]
        try:
            while futures:
                result = futures.pop(0).result()
                if waiting:
                    futures.append(pool.submit(function, waiting.pop()))
                yield result
        finally:
            for future in futures:
                future.cancel()


def _with_share(work: Callable[[], T], share: int, side: int) -> T:
    """The result of `work`, with `share` threads of the pool of one side for operations in this thread."""
    before = {name: getattr(_here, name) for name in ("share", "side") if hasattr(_here, name)}
    _here.share, _here.side = share, side
    try:
        return work()
    finally:
        del _here.share, _here.side
        _here.__dict__.update(before)


# ----------------------------------------------------------------------------- devices

DEVICES = "auto, cpu, cuda or cuda:1"
# Stored neighbours for each thread from which on a GPU is faster than the CPU, its start included.
WORTH_IT = 2_000_000


def chosen_device(asked: str, neighbors: int, needed: int = 0) -> str:
    """The device that work on so many stored neighbours goes to: "cpu", or a GPU such as "cuda:0".

    "auto" takes the GPU where there is one, the work is worth its start, and the `needed` bytes are free there;
    a GPU that is asked for by name and is not there is an error.
    """
    if asked == "cpu":
        return "cpu"
    match = re.fullmatch(r"auto|cuda(?::(\d+))?", str(asked))
    if match is None:
        raise ConfigError(Argument("device"), f" must be {DEVICES}, got {asked!r}")
    import torch

    n_devices = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if match[0] == "auto":
        if not n_devices or neighbors < WORTH_IT * threads() or torch.cuda.mem_get_info()[0] < needed:
            return "cpu"
        log.info(
            Sentence(f"working on the GPU, {gpu_name('cuda:0')}; ", Argument("device", "cpu"), " stays on the CPU")
        )
        return "cuda:0"
    number = int(match[1] or 0)
    if number >= n_devices:
        count = f"{n_devices} of them" if n_devices else "none"
        raise ConfigError(
            *(
                Argument("device", asked),
                f" needs such a GPU that torch can use, and there is {count}; pass ",
            ),
            *(Argument("device", "cpu"), ", or leave it out"),
        )
    return f"cuda:{number}"


def device_bytes(graph: Any, columns: int) -> int:
    """Bytes that a graph takes on a GPU, and so many columns of all its nodes."""
    return sum(int(array.nbytes) for array in graph.arrays) + 4 * columns * int(graph.n_nodes)


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether a GPU had not enough memory."""
    import torch

    return isinstance(error, torch.OutOfMemoryError)


def free_device_memory() -> None:
    """Give back the memory of GPUs that nothing uses any more."""
    import torch

    torch.cuda.empty_cache()


def gpu_name(device: str) -> str:
    """The name of a GPU."""
    import torch

    return str(torch.cuda.get_device_name(torch.device(device)))


@contextlib.contextmanager
def on_device(name: str) -> Iterator[None]:
    """Inside this block, operations on arrays in main memory that a GPU can do are done on this device.

    What they copy there is kept until the block ends.
    """
    before = {key: getattr(_here, key) for key in ("device", "copies") if hasattr(_here, key)}
    _here.device, _here.copies = name, None
    try:
        yield
    finally:
        del _here.device, _here.copies
        _here.__dict__.update(before)


def device() -> str:
    """The device that `on_device` has put in force here."""
    return str(getattr(_here, "device", "cpu"))


def cached_on_device(make: Callable[[], T]) -> T:
    """What is kept while `on_device` is in force: made at the first call."""
    if getattr(_here, "copies", None) is None:
        _here.copies = make()
    copies: T = _here.copies
    return copies


def _forget_threads() -> None:
    """In a forked child the threads of the pools do not exist: start with new pools."""
    _pool.cache_clear()
    _here.__dict__.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)


@contextlib.contextmanager
def torch_alone() -> Iterator[None]:
    """Torch works on one thread inside this block, and as before after it.

    Its matrix products add in another order for another number of threads; with one, the same seed
    gives the same bytes on any number of cores. Our own kernels still use them all. Blocks may lie in each
    other and run in several threads at once. Torch keeps a number for each thread, and gives one that it has not met
    the number that was set last: each thread restores its own, such a one what the first block found.
    """
    import torch

    global _alone, _before
    outermost = not getattr(_here, "alone", False)
    if outermost:
        with _counting:
            before = torch.get_num_threads()
            if _alone == 0:
                _before = before
            elif before == 1:
                before = _before
            _alone += 1
        _here.alone = True
        torch.set_num_threads(1)
    try:
        yield
    finally:
        if outermost:
            _here.alone = False
            with _counting:
                _alone -= 1
            torch.set_num_threads(before)


def libraries_alone(kind: str | None = None) -> Any:
    """A block in which libraries of linear algebra ("blas"), and by default those of OpenMP too, work on one thread.

    The same bytes on any number of cores, and faster for few rows.
    """
    return _libraries(len(sys.modules)).limit(limits=1, user_api=kind)


@lru_cache(1)
def _libraries(modules: int) -> Any:
    """The libraries that are loaded, cached until the next import, since the search takes milliseconds."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def torch_alone_here() -> None:
    """In a thread of `in_ranges`, under `torch_alone`: torch works on this thread only.

    What `torch_alone` sets does not reach threads that torch has not met; there each matrix product
    would wake up as many others as there are cores.
    """
    if getattr(_here, "new", False):
        import torch

        torch.set_num_threads(1)
        _here.new = False  # once is enough
