"""Atomic writes: the old file stays until the new one is complete."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import stat
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rae.errors import FileError

fcntl: Any = None
with contextlib.suppress(ImportError):  # Windows has none
    import fcntl

_REASONS = {
    errno.ENOSPC: "the disk is full; free some space or choose another folder",
    errno.EDQUOT: "your disk quota is used up; free some space or choose another folder",
    errno.EFBIG: "the file is larger than the disk allows; choose another folder",
    errno.EACCES: "you may not write there; choose another folder or ask for permission",
    errno.EPERM: "you may not write there; choose another folder or ask for permission",
    errno.EROFS: "the disk is read-only; choose another folder",
    errno.EIO: "the disk reports an error; choose another folder",
    errno.ENAMETOOLONG: "the name is too long; choose a shorter one",
}


@contextlib.contextmanager
def atomic_path(path: str | os.PathLike[str], *, flushes: bool = True, aside: Path | None = None) -> Iterator[Path]:
    """A hidden path in the same folder to write to; it replaces `path` when the block succeeds.

    On any exception, Ctrl-C included, the hidden file is removed and the old file is untouched. The hidden file of a
    killed process is reused by the next one that writes `path`. A link is replaced; the file behind it is not touched.
    `aside` is another hidden path on the same disk, where a killed process must leave nothing next to `path`. Without
    `flushes` a power failure may leave an incomplete file: for files with a checksum.
    """
    with writing(path):
        target = _writable(path)
    with _hidden_file(target) if aside is None else contextlib.nullcontext(aside) as hidden:
        try:
            with writing(path):
                yield hidden
                if flushes:
                    flush(hidden)
                hidden.replace(target)
                with contextlib.suppress(OSError):  # some file systems cannot flush a folder; the file is complete
                    if flushes:
                        flush(target.parent)
        except BaseException:
            with contextlib.suppress(OSError):
                hidden.unlink(missing_ok=True)
            raise


@contextlib.contextmanager
def _hidden_file(target: Path) -> Iterator[Path]:
    """A hidden path beside the target: always the same, so that files of killed processes do not pile up.

    While another process or thread writes the same target, or where files cannot be locked, it has a random name.
    """
    hidden = target.with_name(f".{hashlib.blake2b(os.fsencode(target.name), digest_size=16).hexdigest()}.tmp")
    lock = _open_locked(hidden)
    try:
        yield hidden if lock is not None else target.with_name(f".{uuid.uuid4().hex}.tmp")
    finally:
        if lock is not None:
            os.close(lock)


def _open_locked(hidden: Path) -> int | None:
    """An open file of this path, empty and locked until it is closed; None where another has it."""
    if fcntl is None:  # pragma: no cover  # Windows
        return None
    try:
        handle = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError:  # writing to the random name will raise the reason
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(handle), hidden.stat()):  # else it was just renamed to its target
            os.ftruncate(handle, 0)
            return handle
    except OSError:
        pass
    os.close(handle)
    return None


@contextlib.contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[None]:
    """Raise errors of the disk while `path` is written as one sentence."""
    try:
        yield
    except OSError as error:
        if error.errno not in _REASONS:
            raise
        raise FileError(f"cannot write {path}: {_REASONS[error.errno]}") from error


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write `text` as UTF-8 atomically."""
    with atomic_path(path) as hidden:
        hidden.write_text(text, encoding="utf-8", newline="\n")


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Write `value` as indented JSON atomically; NaN is refused, since JSON has none."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def _writable(path: str | os.PathLike[str]) -> Path:
    target = Path(path).parent.resolve() / Path(path).name
    if _is_folder(target) and not target.is_symlink():
        raise FileError(f"cannot write {path}: it is a folder; name a file in it")
    if not _is_folder(target.parent):
        raise FileError(f"cannot write {path}: there is no folder {target.parent}; make it first")
    return target


def _is_folder(path: Path) -> bool:
    """Whether the path is a folder; unlike `Path.is_dir` from Python 3.14 on, it raises without permission."""
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def flush(*paths: Path) -> None:
    """Flush these files and folders to the disk."""
    for path in paths:
        handle = os.open(path, os.O_RDWR if path.is_file() else os.O_RDONLY)  # Windows flushes what is open for writing
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
