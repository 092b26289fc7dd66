"""A file is held by one at a time, and by nobody where it is gone."""

from __future__ import annotations

import errno
import fcntl
import os
import sys

import pytest

from rae.storage.lock import holding


def test_who_comes_second_is_told_and_who_comes_after_the_first_is_not(tmp_path):
    path = tmp_path / "lock"
    with holding(path) as first, holding(path) as second:
        assert (first, second) == (True, False)
    with holding(path) as third:
        assert third


@pytest.mark.parametrize("again", [False, True])
def test_a_file_that_was_removed_before_it_could_be_held_is_not_held(again, tmp_path, monkeypatch):
    path, lock = tmp_path / "lock", fcntl.flock

    def too_late(file, flags):
        path.rename(tmp_path / "moved")
        if again:
            path.touch()
        lock(file, flags)

    monkeypatch.setattr(fcntl, "flock", too_late)
    with holding(path) as ours:
        assert not ours


def test_where_files_cannot_be_held_work_goes_on(tmp_path, monkeypatch):
    def refuse(file, flags):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with holding(tmp_path / "lock") as ours:
        assert ours
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with holding(tmp_path / "other") as ours:
        assert ours
    assert not (tmp_path / "other").exists()
