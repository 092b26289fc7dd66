"""Where tasks run. An executor decides only that: the same tasks give the same bytes on any of them.

There are five kinds of jobs: embedding, the fit of the exact model, the draws of a training, building a graph, finding
roles. An executor in this process calls `job.perform(task)`. One that leaves it (other processes, a cluster) ships
`job.description` and the task, both plain data, and has `description.perform(task)` called there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from rae.runtime import run_ahead, threads


class Performable(Protocol):
    """A job whose tasks an executor runs."""

    @property
    def description(self) -> Any:
        """The job as plain data, which has `perform` too; None where it is in memory alone."""

    def perform(self, task: Any) -> None:
        """Do one task, unless its output is there."""


class Executor(Protocol):
    """Runs tasks of a job that do not need each other."""

    def run(self, job: Performable, tasks: Sequence[Any]) -> Iterator[None]:
        """Yields once per task, in order, as soon as it and all before it are done."""


class Serial:
    """One task after the other, in the caller's thread."""

    def run(self, job: Performable, tasks: Sequence[Any]) -> Iterator[None]:
        return map(job.perform, tasks)


@dataclass(frozen=True)
class Threads:
    """So many tasks at work at a time; a task may use all threads itself."""

    count: int = 1

    def run(self, job: Performable, tasks: Sequence[Any]) -> Iterator[None]:
        return run_ahead(job.perform, tasks, self.count)


def default_executor(count: int) -> Executor:
    """Threads where there are several, else the caller's thread alone."""
    return Serial() if threads() == 1 else Threads(count)
