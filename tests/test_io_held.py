"""Arrays put away: in memory or in a file, they come back as they were."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rae.errors import FileError
from rae.storage import spill_buffer as held
from rae.storage.spill_buffer import Held, Room

FULL = Path("/dev/full")
ARRAYS = [np.arange(10), np.arange(7, dtype=np.int32), np.arange(20) * 3, np.empty(0, np.int64)]


@pytest.mark.parametrize("room", [0, 100, 10_000])
def test_arrays_come_back_whole_and_in_part(room, tmp_path):
    kept = Held(tmp_path / "a.raw", Room(room))
    for array in ARRAYS[:3]:
        kept.add(array.copy())

    assert len(kept) == 3
    for i, array in enumerate(ARRAYS[:3]):
        assert kept.part(i, 2, 5).tolist() == array[2:5].tolist()
        assert kept.part(i, 3).tolist() == array[3:].tolist()
        assert kept.part(i).dtype == array.dtype
        assert kept.part(i).tolist() == array.tolist()


@pytest.mark.parametrize("room", [0, 10_000])
def test_what_is_changed_in_a_part_stays_changed(room, tmp_path):
    kept = Held(tmp_path / "a.raw", Room(room))
    kept.add(np.array([9, 3, 2, 1, 0]))
    kept.part(0, 1, 4).sort()

    assert kept.part(0).tolist() == [9, 1, 2, 3, 0]


def test_memory_is_used_up_to_its_room_and_given_back(tmp_path):
    room = Room(130)
    kept = Held(tmp_path / "a.raw", room)
    kept.add(ARRAYS[0])
    assert (room.left, kept.path.exists()) == (50, False)
    kept.add(ARRAYS[2])
    assert (room.left, kept.path.stat().st_size) == (50, 160)
    kept.add(ARRAYS[1])
    assert room.left == 22
    kept.clear()
    assert (room.left, kept.path.exists(), len(kept)) == (130, False, 0)


def test_an_empty_array_needs_no_file(tmp_path):
    kept = Held(tmp_path / "a.raw", Room(0))
    kept.add(ARRAYS[3])

    assert len(kept.part(0)) == 0
    assert not kept.path.exists()


@pytest.mark.skipif(not FULL.exists(), reason="this system has no disk that is always full")
def test_a_full_disk_is_one_sentence():
    with pytest.raises(FileError, match="cannot write /dev/full: the disk is full; free some space"):
        Held(FULL, Room(0)).add(ARRAYS[0])


@pytest.mark.parametrize(("free", "room"), [(None, 3 << 30), (1 << 40, 3 << 30), (4_000, 1_000)])
def test_room_is_a_quarter_of_the_memory_there_is_and_three_gigabytes_at_most(free, room, monkeypatch):
    monkeypatch.setattr(held, "available_memory", lambda: free)

    assert Room.found().left == room
    assert Room.found(17).left == 17
    assert Room.found(1 << 50).left == room
