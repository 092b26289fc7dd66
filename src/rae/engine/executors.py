"""Where tasks run. An executor decides only that: the same tasks give the same bytes on any of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from rae.runtime import threads

T = TypeVar("T")


class Executor(Protocol):
    """Runs a function for each item and yields the results in the order of the items."""

    def run(self, function: Callable[[Any], T], items: Iterable[Any]) -> Iterator[T]:
        """The results, each as soon as it and all before it are there."""


class Serial:
    """One item after the other, in the caller's thread."""

    def run(self, function: Callable[[Any], T], items: Iterable[Any]) -> Iterator[T]:
        return map(function, items)


@dataclass(frozen=True)
class Threads:
    """`ahead` items at work while the caller uses the result before them; an item may use all threads itself."""

    ahead: int = 1

    def run(self, function: Callable[[Any], T], items: Iterable[Any]) -> Iterator[T]:
        waiting = list(items)[::-1]
        with ThreadPoolExecutor(self.ahead, thread_name_prefix="rae-task") as pool:
            futures = [pool.submit(function, waiting.pop()) for _ in range(min(self.ahead, len(waiting)))]
            try:
                while futures:
                    result = futures.pop(0).result()
                    if waiting:
                        futures.append(pool.submit(function, waiting.pop()))
                    yield result
            finally:
                for future in futures:
                    future.cancel()


def default_executor(ahead: int) -> Executor:
    """Threads where there are several, else the caller's thread alone."""
    return Serial() if threads() == 1 else Threads(ahead)
