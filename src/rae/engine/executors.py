"""Where tasks run. An executor decides only that: the same tasks give the same bytes on any of them.

An executor in this process performs tasks on the job itself. One that leaves it (other processes, a cluster) ships
`job.description`, which is plain data, and each task, and has `perform(description.open(), task)` called there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from rae.engine.tasks import Job, Task, perform
from rae.runtime import run_ahead, threads


class Executor(Protocol):
    """Runs tasks of a job that do not need each other."""

    def run(self, job: Job, tasks: list[Task]) -> Iterator[None]:
        """Yields once per task, in order, as soon as it and all before it are done."""


class Serial:
    """One task after the other, in the caller's thread."""

    def run(self, job: Job, tasks: list[Task]) -> Iterator[None]:
        return map(partial(perform, job), tasks)


@dataclass(frozen=True)
class Threads:
    """So many tasks at work at a time; a task may use all threads itself."""

    count: int = 1

    def run(self, job: Job, tasks: list[Task]) -> Iterator[None]:
        return run_ahead(partial(perform, job), tasks, self.count)


def default_executor(count: int) -> Executor:
    """Threads where there are several, else the caller's thread alone."""
    return Serial() if threads() == 1 else Threads(count)
