"""The spill buffer: arrays come back as they were, from memory or from its file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rae.errors import FileError
from rae.storage import spill_buffer
from rae.storage.spill_buffer import MemoryBudget, SpillBuffer

FULL = Path("/dev/full")
ARRAYS = [np.arange(10), np.arange(7, dtype=np.int32), np.arange(20) * 3, np.empty(0, np.int64)]


@pytest.mark.parametrize("budget", [0, 100, 10_000])
def test_arrays_come_back_whole_and_in_part(budget, tmp_path):
    buffer = SpillBuffer(tmp_path / "a.raw", MemoryBudget(budget))
    for array in ARRAYS[:3]:
        buffer.append(array.copy())

    assert len(buffer) == 3
    for i, array in enumerate(ARRAYS[:3]):
        assert buffer.part(i, 2, 5).tolist() == array[2:5].tolist()
        assert buffer.part(i, 3).tolist() == array[3:].tolist()
        assert buffer.part(i).dtype == array.dtype
        assert buffer.part(i).tolist() == array.tolist()


@pytest.mark.parametrize("budget", [0, 10_000])
def test_what_is_changed_in_a_part_stays_changed(budget, tmp_path):
    buffer = SpillBuffer(tmp_path / "a.raw", MemoryBudget(budget))
    buffer.append(np.array([9, 3, 2, 1, 0]))
    buffer.part(0, 1, 4).sort()

    assert buffer.part(0).tolist() == [9, 1, 2, 3, 0]


def test_memory_is_used_up_to_the_budget_and_given_back(tmp_path):
    budget = MemoryBudget(130)
    buffer = SpillBuffer(tmp_path / "a.raw", budget)
    buffer.append(ARRAYS[0])
    assert (budget.left, buffer.path.exists()) == (50, False)
    buffer.append(ARRAYS[2])
    assert (budget.left, buffer.path.stat().st_size) == (50, 160)
    buffer.append(ARRAYS[1])
    assert budget.left == 22
    buffer.clear()
    assert (budget.left, buffer.path.exists(), len(buffer)) == (130, False, 0)


def test_without_a_file_everything_stays_in_memory():
    buffer = SpillBuffer()
    for array in ARRAYS:
        buffer.append(array)

    assert all(
        buffer.part(i) is not array and np.shares_memory(buffer.part(i), array) for i, array in enumerate(ARRAYS[:3])
    )
    buffer.clear()
    assert len(buffer) == 0


def test_an_empty_array_needs_no_file(tmp_path):
    buffer = SpillBuffer(tmp_path / "a.raw", MemoryBudget(0))
    buffer.append(ARRAYS[3])

    assert len(buffer.part(0)) == 0
    assert not buffer.path.exists()


@pytest.mark.skipif(not FULL.exists(), reason="this system has no disk that is always full")
def test_a_full_disk_is_one_sentence():
    with pytest.raises(FileError, match="cannot write /dev/full: the disk is full; free some space"):
        SpillBuffer(FULL, MemoryBudget(0)).append(ARRAYS[0])


@pytest.mark.parametrize(("free", "budget"), [(None, 3 << 30), (1 << 40, 3 << 30), (4_000, 1_000)])
def test_the_budget_is_a_quarter_of_the_available_memory_and_three_gigabytes_at_most(free, budget, monkeypatch):
    monkeypatch.setattr(spill_buffer, "available_memory", lambda: free)

    assert MemoryBudget.available().left == budget
    assert MemoryBudget.available(17).left == 17
    assert MemoryBudget.available(1 << 50).left == budget
