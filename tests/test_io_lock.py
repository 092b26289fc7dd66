"""The lock file: one process at a time, and a killed one blocks nobody."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import textwrap

import filelock
import pytest

from rae.storage.lock import exclusive_lock


def test_a_second_lock_is_refused_until_the_first_is_released(tmp_path):
    path = tmp_path / "lock"
    with exclusive_lock(path) as first, exclusive_lock(path) as second:
        assert (first, second) == (True, False)
        assert path.exists()
    assert not path.exists()
    with exclusive_lock(path) as third:
        assert third


def test_a_refused_lock_leaves_the_file_to_its_owner(tmp_path):
    path = tmp_path / "lock"
    with exclusive_lock(path):
        for _ in range(2):
            with exclusive_lock(path) as second:
                assert not second
            assert path.exists()


def test_another_process_is_refused_and_a_killed_one_does_not_block(tmp_path):
    path = tmp_path / "lock"
    script = f"""
        import pathlib, time
        from rae.storage.lock import exclusive_lock
        with exclusive_lock(pathlib.Path({str(path)!r})) as ours:
            print(ours, flush=True)
            time.sleep(60)
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        with exclusive_lock(path) as ours:
            assert not ours
        other.send_signal(signal.SIGKILL)
        other.wait()
    assert path.exists()
    with exclusive_lock(path) as ours:
        assert ours
    assert not path.exists()


def test_a_file_that_was_removed_before_it_was_locked_is_not_locked(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")
    path, flock, opened = tmp_path / "lock", fcntl.flock, []

    def too_late(file, flags):
        if not opened:
            opened.append(os.fstat(file).st_ino)
            path.unlink()  # as its owner does at the end
        flock(file, flags)

    monkeypatch.setattr(fcntl, "flock", too_late)
    with exclusive_lock(path) as ours:
        assert not ours or path.stat().st_ino != opened[0]


@pytest.mark.parametrize("error", [OSError(errno.ENOLCK, os.strerror(errno.ENOLCK)), NotImplementedError()])
def test_a_file_system_without_locks_does_not_stop_the_work(error, tmp_path, monkeypatch):
    def refuse(self, *_, **__):
        raise error

    monkeypatch.setattr(filelock.FileLock, "acquire", refuse)
    with exclusive_lock(tmp_path / "lock") as ours:
        assert ours
