"""Arrays that are put away for later: in memory while there is room for them, else in a file."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rae.memory import available_memory
from rae.storage.atomic import writing

Array = np.ndarray[Any, Any]
SHARE, MOST = 4, 3 << 30  # room is a quarter of the memory that can be had, 3 GiB at most


@dataclass
class Room:
    """Bytes of memory that may still be taken."""

    left: int

    @classmethod
    def found(cls, most: int | None = None) -> Room:
        """The room on this machine, `most` if that is less; most memory stays free, for others and for files."""
        free = available_memory()
        room = MOST if free is None else min(free // SHARE, MOST)
        return cls(room if most is None else min(room, most))


@dataclass
class Held:
    """Arrays in the order they came, as far as there is room for them in memory, the others in a file."""

    path: Path
    room: Room
    _arrays: list[Array | None] = field(default_factory=list)
    _stored: dict[int, tuple[int, int, Any]] = field(default_factory=dict)  # where in the file, length, type
    _end: int = 0

    def __len__(self) -> int:
        return len(self._arrays)

    def add(self, array: Array) -> None:
        """Put an array away."""
        fits = array.nbytes <= self.room.left
        if fits:
            self.room.left -= array.nbytes
        else:
            with writing(self.path), self.path.open("ab") as file:
                file.write(array.view(np.uint8).data)  # `tofile` does not say why it fails
            self._stored[len(self)] = self._end, len(array), array.dtype
            self._end += array.nbytes
        self._arrays.append(array if fits else None)

    def part(self, i: int, start: int = 0, stop: int | None = None) -> Array:
        """Entries start..stop of the array that came as number i, to be read and changed; of a file, mapped."""
        array = self._arrays[i]
        if array is not None:
            return array[start:stop]
        at, length, kind = self._stored[i]
        count = (length if stop is None else stop) - start
        return np.asarray(np.memmap(self.path, kind, "r+", at + start * kind.itemsize, (count,)))

    def clear(self) -> None:
        """Forget them all."""
        self.room.left += sum(array.nbytes for array in self._arrays if array is not None)
        self._arrays, self._stored, self._end = [], {}, 0
        self.path.unlink(missing_ok=True)
