"""Graph folders built from batches of edges in bounded memory.

The folder is made under a hidden name, which an exclusive lock file protects, and gets its own name when it is
complete: a killed build leaves no folder, and the next one removes its hidden files.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from rae.errors import FileError, is_there
from rae.graph.builder import Batch, build_rows
from rae.graph.channels import EdgeValues
from rae.graph.csr_writer import Counts, FileSink
from rae.graph.folder import ARRAYS, IDS, INFO, OFFSETS, TARGETS, open_graph, write_ids, write_info
from rae.graph.graph import Graph
from rae.graph.id_numbering import Report
from rae.graph.row_order import reorder_folder
from rae.storage.atomic import writing
from rae.storage.lock import LOCK, exclusive_lock
from rae.storage.npy import write_array
from rae.storage.objects import ObjectPath
from rae.storage.spill_buffer import MemoryBudget, SpillBuffer

ENDS, WEIGHTS = "ends.raw", "weights.raw"  # the spill files of edges and of their weights


Written = tuple[Counts, tuple[str, ...]]  # counts of merged and dropped rows, and the channels


def build_folder(
    read: Callable[[Callable[[Iterable[Batch]], Written]], Written],
    folder: Path,
    *,
    order: str = "none",
    force: bool = False,
    report: Report | None = None,
    memory: int | None = None,
    values: EdgeValues | None = None,
) -> Graph:
    """The graph of the edges that `read` feeds to its argument, opened from the folder that it was written to.

    `read` may start again with other batches: the last call counts. Edges are buffered in memory
    up to `memory` bytes, if that is less than the usual budget. `force` replaces a graph folder that is there. `values`
    are the values of edges to store.
    """
    report = report or (lambda *_: None)
    budget = MemoryBudget.available(memory).left
    with new_folder(folder) as hidden:
        check_writable(folder, force)  # another build may just have ended
        counts, channels = read(lambda batches: _write(batches, hidden, order, report, budget, values))
        report("check", 0, 1)
        weighted = values is not None and values.has_weights
        doubled = None if values is None else values.merged
        ordered = None if order == "none" else order
        write_info(hidden, counts, ordered, channels=channels, weighted=weighted, doubled=doubled)
        report("check", 1, 1)
    return open_graph(folder)


def _write(
    batches: Iterable[Batch], folder: Path, order: str, report: Report, budget: int, values: EdgeValues | None
) -> Written:
    """Write the arrays of the folder; returns the counts of merged and dropped rows, and the names of the channels."""
    _clear(folder)
    left = MemoryBudget(budget)
    ends, weights = SpillBuffer(folder / ENDS, left), SpillBuffer(folder / WEIGHTS, left)
    sink = FileSink(folder / TARGETS)
    rows = build_rows(batches, sink, ends=ends, report=report, values=values, weights=weights)
    write_array(folder / OFFSETS, rows.offsets)
    ids = rows.ids
    if order == "locality":
        ids = reorder_folder(folder, ids, report, len(rows.channels))
    write_ids(folder / IDS, ids)
    return rows.counts, rows.channels


def check_writable(folder: Path, force: bool) -> None:
    """Refuse a folder that holds something, unless it is a graph and `force` replaces it."""
    if not folder.exists():
        return
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else {folder.name}
    channels = {name for name in names if re.fullmatch(r"channel-\d\d\.npy", name)}
    if names - {INFO, *ARRAYS, LOCK} - channels:  # earlier versions kept their lock file in the folder
        raise FileError(f"{folder} exists and is not only a graph folder; choose another name")
    if names and not force:
        raise is_there(folder, "name")


def check_free_store(folder: ObjectPath, force: bool) -> None:
    """Refuse a place in an object store that holds a graph, unless `force` replaces it."""
    if (folder / INFO).is_file() and not force:
        raise is_there(folder, "name")


@contextlib.contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A hidden folder that no other build writes to; it becomes `folder` if the block succeeds, else it is removed."""
    hidden, lock = _hidden_path(folder)
    with writing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
    with exclusive_lock(lock) as ours:
        if not ours:
            raise FileError(f"another build is writing {folder}; wait for it, or choose another name")
        try:
            with writing(folder):
                hidden.mkdir(exist_ok=True)
            _clear(hidden)  # of a build that was killed
            _restore_backup(folder)
            yield hidden
            if folder.exists():
                folder.replace(_backup_path(folder))
            hidden.replace(folder)
            _remove(_backup_path(folder))
        except BaseException:
            _remove(hidden)
            raise


def _backup_path(folder: Path) -> Path:
    """The hidden path of the old graph, until the new one is in its place."""
    return folder.with_name(f".{folder.name}.replaced")


def _hidden_path(folder: Path) -> tuple[Path, Path]:
    """The hidden folder of a build, and its lock file."""
    hidden = folder.with_name(f".{folder.name}.building")
    return hidden, hidden.with_name(f"{hidden.name}.{LOCK}")


def discard_folder(folder: Path) -> None:
    """Remove a graph folder and the leftovers of a killed build of it, unless a build is running."""
    discard_build(folder)
    if folder.exists() and not _hidden_path(folder)[1].exists():
        _remove(folder)


def discard_build(folder: Path) -> None:
    """Remove the leftovers of a killed build of this graph folder, its lock file too, unless a build is running."""
    hidden, lock = _hidden_path(folder)
    if hidden.exists() or lock.exists() or _backup_path(folder).exists():
        with exclusive_lock(lock) as ours:
            if ours:
                _restore_backup(folder)
                _remove(hidden)


def _restore_backup(folder: Path) -> None:
    """Restore the old graph of a build that was killed before it replaced it, else remove the old graph."""
    if _backup_path(folder).exists() and not folder.exists():
        _backup_path(folder).replace(folder)
    _remove(_backup_path(folder))


def _remove(folder: Path) -> None:
    if folder.exists():
        (folder / INFO).unlink(missing_ok=True)  # without it the folder is marked incomplete
        _clear(folder)
        folder.rmdir()


def _clear(folder: Path) -> None:
    for file in folder.iterdir():
        file.unlink()
