"""Where tasks read and write rows: in memory, or in part files on disk.

MemoryStore   the rows that each level averages, of all nodes, in one array per level, on a GPU where one works.
              Vectors are not stored: they are computed again where they are needed, which takes less time than to
              store them
PartStore     one file per task, whole or absent, so that a killed job resumes; averaged rows of all nodes come
              into memory a stripe of columns at a time
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import Tensor

from rae.io.embeddings import rounded
from rae.memory import aligned_empty
from rae.ops.device import Copies
from rae.storage.parts import Parts

if TYPE_CHECKING:
    from rae.engine.tasks import Task

Array = np.ndarray[Any, Any]


class Store(Protocol):
    """The outputs of tasks, by task."""

    @property
    def stores_vectors(self) -> bool:
        """Whether vectors are stored, or computed again where they are needed."""

    @property
    def copies(self) -> Copies | None:
        """The arrays of the job that are on a GPU, None where the job works in main memory."""

    def has(self, task: Task) -> bool:
        """Whether the output of this task is there."""

    def empty(self, task: Task, rows: tuple[int, int], n_rows: int, columns: int) -> Any:
        """An array for rows a..b of an output with n_rows rows in all, to be filled and written."""

    def write(self, task: Task, output: Array, stripes: list[tuple[int, int]]) -> None:
        """Store the output of a task; a stripe of its columns can be read alone."""

    def note(self, task: Task, size: int, digest: str) -> None:
        """Keep the bytes and the SHA-256 of the file that a task wrote."""

    def noted(self, task: Task) -> tuple[int, str] | None:
        """What was noted of a file, None where nothing was."""

    def read(self, task: Task, shape: tuple[int, int]) -> Array:
        """The output of one task, float32."""

    def table(self, tasks: list[Task], bounds: list[tuple[int, int]], stripe: tuple[int, int]) -> Tensor:
        """A stripe of columns of the outputs of these tasks, one below the other.  -> (n, columns)"""

    def finish(self, model: str, k: int) -> None:
        """Note that all rows of level k are stored."""

    def is_complete(self, model: str, k: int) -> bool:
        """Whether the rows of level k are one table in memory, all of them."""

    def forget(self, model: str, k: int) -> None:
        """Note that the rows of level k will not be read again."""

    def drop(self, tasks: list[Task]) -> None:
        """Remove the outputs of tasks of one level."""


@dataclass(frozen=True)
class MemoryStore:
    """Outputs of all parts of a level in one array, by (model, level)."""

    arrays: dict[tuple[str, int], Any] = field(default_factory=dict)
    complete: set[tuple[str, int]] = field(default_factory=set)  # levels whose rows are all there
    stores_vectors: bool = False
    copies: Copies | None = None  # on a GPU: the arrays are tensors there

    def has(self, task: Task) -> bool:
        return False

    def empty(self, task: Task, rows: tuple[int, int], n_rows: int, columns: int) -> Any:
        array = self.arrays.get((task.model, task.level))
        if array is None:
            array = self.arrays[task.model, task.level] = self._table(n_rows, columns)
        return array[rows[0] : rows[1]]

    def _table(self, n_rows: int, columns: int) -> Any:
        if self.copies is None:
            return aligned_empty((n_rows, columns))
        return torch.empty((n_rows, columns), device=self.copies.device)

    def write(self, task: Task, output: Array, stripes: list[tuple[int, int]]) -> None:
        """Nothing: the output was filled in place."""

    def note(self, task: Task, size: int, digest: str) -> None:
        raise AssertionError("a job in memory writes no files")

    def noted(self, task: Task) -> tuple[int, str] | None:
        return None

    def read(self, task: Task, shape: tuple[int, int]) -> Array:
        raise AssertionError("vectors are not stored in memory")

    def table(self, tasks: list[Task], bounds: list[tuple[int, int]], stripe: tuple[int, int]) -> Tensor:
        table = self.arrays[tasks[0].model, tasks[0].level]
        return table if isinstance(table, Tensor) else as_tensor(table)

    def finish(self, model: str, k: int) -> None:
        self.complete.add((model, k))

    def is_complete(self, model: str, k: int) -> bool:
        return (model, k) in self.complete

    def forget(self, model: str, k: int) -> None:
        self.complete.discard((model, k))
        self.arrays.pop((model, k), None)

    def drop(self, tasks: list[Task]) -> None:
        """Nothing: vectors are computed again from the rows."""


@dataclass(frozen=True)
class PartStore:
    """Outputs as part files of a folder; `dtype` is the precision of what is stored between levels.

    Those of a model that is named in `ready` are in other parts, where another job has made some of them.
    """

    parts: Parts
    dtype: np.dtype[Any]
    stores_vectors: bool = True
    copies: Copies | None = None  # on a GPU: stripes are copied there
    ready: Mapping[str, Parts] = field(default_factory=dict)
    _table: dict[tuple[str, int, tuple[int, int]], Tensor] = field(default_factory=dict)
    _loading: Any = field(default_factory=threading.Lock)

    def has(self, task: Task) -> bool:
        return self._of(task).has(task.name)

    def empty(self, task: Task, rows: tuple[int, int], n_rows: int, columns: int) -> Array:
        return np.empty((rows[1] - rows[0], columns), np.float32)

    def write(self, task: Task, output: Array, stripes: list[tuple[int, int]]) -> None:
        self._of(task).write(task.name, [rounded(output[:, a:b], self._precision(task)) for a, b in stripes])

    def note(self, task: Task, size: int, digest: str) -> None:
        self.parts.write(task.name, [np.array([size], np.int64), np.frombuffer(bytes.fromhex(digest), np.uint8)])

    def noted(self, task: Task) -> tuple[int, str] | None:
        if not self.parts.has(task.name):
            return None
        raw = self.parts.read(task.name, (self.parts.size(task.name),), np.uint8)
        return int(raw[:8].view(np.int64)[0]), raw[8:].tobytes().hex()

    def read(self, task: Task, shape: tuple[int, int]) -> Array:
        return self._of(task).read(task.name, shape, self._precision(task)).astype(np.float32, copy=False)

    def table(self, tasks: list[Task], bounds: list[tuple[int, int]], stripe: tuple[int, int]) -> Tensor:
        key = tasks[0].model, tasks[0].level, stripe
        with self._loading:
            if key not in self._table:
                self._table.clear()  # one stripe is in memory at a time
                self._table[key] = self._load(tasks, bounds, stripe)
            return self._table[key]

    def _load(self, tasks: list[Task], bounds: list[tuple[int, int]], stripe: tuple[int, int]) -> Tensor:
        left, right = stripe
        out = aligned_empty((bounds[-1][1], right - left), self.dtype)
        for task, (a, b) in zip(tasks, bounds, strict=True):
            self._of(task).read_into(task.name, out[a:b], (b - a) * left * self.dtype.itemsize)
        return as_tensor(out) if self.copies is None else as_tensor(out).to(self.copies.device)

    def finish(self, model: str, k: int) -> None:
        """Nothing: the files are there."""

    def is_complete(self, model: str, k: int) -> bool:
        return False

    def forget(self, model: str, k: int) -> None:
        """Nothing: `drop` removes the files."""

    def drop(self, tasks: list[Task]) -> None:
        self._table.clear()
        if tasks:  # of one level
            self._of(tasks[0]).drop(*(task.name for task in tasks))

    def _of(self, task: Task) -> Parts:
        return self.ready.get(task.model, self.parts)

    def _precision(self, task: Task) -> np.dtype[Any]:
        return np.dtype(np.float32) if task.kind == "gather" else self.dtype  # a sum in parts is not rounded twice


def as_tensor(array: Array) -> Tensor:
    """The array as a tensor that shares its memory; one that may not be written is only read."""
    if array.flags.writeable:
        return torch.from_numpy(array)
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch has no read-only tensors; nothing here writes
        return torch.from_numpy(array)
