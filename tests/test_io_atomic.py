"""A file is written whole or not at all, and the old one stays until the new one is complete."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from rae.errors import FileError
from rae.io import write_embeddings
from rae.storage.atomic import atomic_path, write_json, write_text


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A real disk of 64 KiB, where mounting is allowed."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = shutil.which("mount")
    mounted = mount and subprocess.run(
        [mount, "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], check=False, capture_output=True
    )
    if not mounted or mounted.returncode:
        pytest.skip("mounting a small disk is not allowed here")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def files(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def test_a_written_file_replaces_the_old_one_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "run.txt"
    write_text(path, "old")
    write_text(path, "new ünd\n")

    assert path.read_bytes() == "new ünd\n".encode()
    assert files(tmp_path) == ["run.txt"]


def test_the_hidden_file_lies_beside_the_target(tmp_path: Path) -> None:
    with atomic_path(tmp_path / "a") as first, atomic_path(tmp_path / "a") as second:
        assert first.parent == second.parent == tmp_path
        assert first.name.startswith(".")
        assert first != second
        first.write_text("1")
        second.write_text("2")


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, ValueError, SystemExit])
def test_an_interruption_keeps_the_old_file(tmp_path: Path, interruption: type[BaseException]) -> None:
    path = tmp_path / "z.parquet"
    path.write_text("old")

    def write() -> None:
        with atomic_path(path) as hidden:
            hidden.write_text("half")
            raise interruption

    with pytest.raises(interruption):
        write()
    assert path.read_text() == "old"
    assert files(tmp_path) == ["z.parquet"]


def test_a_full_disk_is_one_sentence_and_keeps_the_old_file(tiny_disk: Path) -> None:
    path = tiny_disk / "z.parquet"
    write_embeddings(path, [1, 2], np.ones((2, 3), np.float32))
    old = path.read_bytes()

    with pytest.raises(FileError, match=r"cannot write .*z\.parquet: the disk is full; free some space") as caught:
        write_embeddings(path, np.arange(10_000), np.ones((10_000, 64), np.float32))
    assert "\n" not in str(caught.value)
    with pytest.raises(FileError, match="the disk is full"):
        write_text(tiny_disk / "other.txt", "x" * 200_000)
    with pytest.raises(FileError, match="the disk is full"):
        write_embeddings(tiny_disk / "z.csv", np.arange(10_000), np.ones((10_000, 64), np.float32))

    assert path.read_bytes() == old
    assert files(tiny_disk) == ["z.parquet"]


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        (errno.ENOSPC, "the disk is full"),
        (errno.EDQUOT, "quota"),
        (errno.EROFS, "read-only"),
        (errno.EACCES, "you may not write there"),
    ],
)
def test_a_disk_that_fails_when_flushed_keeps_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, sentence: str
) -> None:
    path = tmp_path / "run.json"
    write_json(path, {"a": 1})

    def refuse(handle: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(FileError, match=sentence):
        write_json(path, {"a": 2})
    assert json.loads(path.read_text()) == {"a": 1}
    assert files(tmp_path) == ["run.json"]


def test_an_error_that_is_not_about_the_disk_passes_unchanged(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), atomic_path(tmp_path / "a"):
        (tmp_path / "not there").read_text()
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "a", float("nan"))
    assert files(tmp_path) == []


def test_a_missing_folder_a_folder_and_a_long_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"there is no folder .*nowhere; make it first"):
        write_text(tmp_path / "nowhere" / "a", "")
    with pytest.raises(FileError, match="it is a folder; name a file in it"):
        write_text(tmp_path, "")
    with pytest.raises(FileError, match="the name is too long"):
        write_text(tmp_path / ("a" * 300), "")
    assert files(tmp_path) == []


def test_a_link_is_replaced_and_the_file_behind_it_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    for name, goal in (("link", "file"), ("dangling", "nowhere"), ("to-folder", "folder")):
        (tmp_path / name).symlink_to(tmp_path / goal)
        write_text(tmp_path / name, "x")

        assert not (tmp_path / name).is_symlink()
        assert (tmp_path / name).read_text() == "x"
    assert (tmp_path / "file").read_text() == "mine"
    assert files(tmp_path) == ["dangling", "file", "folder", "link", "to-folder"]


@contextlib.contextmanager
def without_root() -> Iterator[None]:
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_folder_one_may_not_write_to_is_one_sentence() -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        (folder / "a").write_text("old")
        folder.chmod(0o555)
        with without_root(), pytest.raises(FileError, match="you may not write there; choose another folder"):
            write_text(folder / "a", "new")
        assert files(folder) == ["a"]
        assert (folder / "a").read_text() == "old"
        folder.chmod(0o000)
        with without_root(), pytest.raises(FileError, match="you may not write there"):
            write_text(folder / "a" / "b", "new")
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


def test_a_file_is_flushed_by_a_handle_that_may_write(tmp_path, monkeypatch):
    """Windows refuses to flush through a read-only one."""
    written, fsync = [], os.fsync

    def spy(handle: int) -> None:
        if stat.S_ISREG(os.fstat(handle).st_mode):
            written.append(os.write(handle, b""))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", spy)
    write_text(tmp_path / "a.txt", "text")

    assert written == [0]
