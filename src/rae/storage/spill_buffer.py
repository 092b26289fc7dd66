"""A list of arrays that spills to disk above a memory budget."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rae.memory import available_memory
from rae.storage.atomic import writing

Array = np.ndarray[Any, Any]
SHARE, MAX_BUDGET = 4, 3 << 30  # the budget is a quarter of the available memory, 3 GiB at most


@dataclass
class MemoryBudget:
    """Bytes of memory that may still be used."""

    left: int

    @classmethod
    def available(cls, limit: int | None = None) -> MemoryBudget:
        """The budget on this machine, `limit` if that is less; most memory stays free for the file cache and others."""
        free = available_memory()
        budget = MAX_BUDGET if free is None else min(free // SHARE, MAX_BUDGET)
        return cls(budget if limit is None else min(budget, limit))


@dataclass
class SpillBuffer:
    """Arrays in the order they were added: in memory while the budget lasts, the others in the file `path`.

    Without a path there is no budget: all arrays stay in memory.
    """

    path: Path | None = None
    budget: MemoryBudget = field(default_factory=lambda: MemoryBudget(0))
    _arrays: list[Array | None] = field(default_factory=list)
    _spilled: dict[int, tuple[int, int, Any]] = field(default_factory=dict)  # position in the file, length, dtype
    _file_size: int = 0

    def __len__(self) -> int:
        return len(self._arrays)

    def append(self, array: Array) -> None:
        """Add an array, which the buffer owns from now on."""
        if self.path is None or array.nbytes <= self.budget.left:
            self.budget.left -= array.nbytes
            self._arrays.append(array)
            return
        with writing(self.path), self.path.open("ab") as file:
            file.write(array.view(np.uint8).data)  # `tofile` hides why it fails
        self._spilled[len(self)] = self._file_size, len(array), array.dtype
        self._file_size += array.nbytes
        self._arrays.append(None)

    def part(self, i: int, start: int = 0, stop: int | None = None) -> Array:
        """A writable view of entries start..stop of array i; a spilled array is memory-mapped."""
        array = self._arrays[i]
        if array is not None:
            return array[start:stop]
        position, length, kind = self._spilled[i]
        count = (length if stop is None else stop) - start
        assert self.path is not None
        return np.asarray(np.memmap(self.path, kind, "r+", position + start * kind.itemsize, (count,)))

    def clear(self) -> None:
        """Remove all arrays, and the file; the budget gets its bytes back."""
        self.budget.left += sum(array.nbytes for array in self._arrays if array is not None)
        self._arrays, self._spilled, self._file_size = [], {}, 0
        if self.path is not None:
            self.path.unlink(missing_ok=True)
