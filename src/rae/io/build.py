"""From an edge file of any size to a graph folder, in bounded memory.

    read     edges in batches, put away as they are: in memory while there is room, then in files beside the folder
    number   ids to 0..n-1 in ascending order: by a table where whole numbers lie close together, else by
             hashing; text by Arrow. Never a Python object per node. Both ends of each edge are dealt to
             the stripe of rows that they belong to
    place    stripe after stripe: each row sorted, doubled edges merged
    order    where asked for: rows renumbered so that neighbours stand near each other

What is in memory: a few arrays with a number per node, edges up to the room that `Room` finds, a batch or a
stripe for each thread, and for a short time a byte for every number between the lowest and the highest id where
they lie close together. Everything is made in a hidden folder that takes the name when it is whole.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from rae.errors import Argument, ConfigError, FileError, GraphError
from rae.graph import Graph
from rae.graph.folder import IDS, INFO, OFFSETS, TARGETS, open_graph, write_graph, write_ids, write_info
from rae.io.csr_writer import place, reorder
from rae.io.edges import EdgeFile, open_edges
from rae.io.id_numbering import Report, Unusual, spill
from rae.storage.atomic import writing
from rae.storage.lock import LOCK, holding

log = logging.getLogger("rae")

ORDERS = ("none", "locality")


def build_graph(
    edges: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    source: str | None = None,
    target: str | None = None,
    header: bool | None = None,
    order: str = "none",
    force: bool = False,
    report: Report | None = None,
) -> Graph:
    """The graph of an edge file, opened from the folder `path` that it was written to.

    The folder is what `write_graph` writes of what `read_edges` reads, byte for byte, but the whole is
    never in memory. `source`, `target` and `header` as in `read_edges`. `order="locality"` puts rows
    that are near each other in the graph near each other in memory, which makes embedding faster; ids
    stay what they are. `force` replaces a graph folder that is there.
    """
    folder = _free(Path(path), force)
    if order not in ORDERS:
        raise ConfigError(Argument("order"), f" must be one of {', '.join(ORDERS)}, got {order!r}")
    opened = open_edges(edges, source=source, target=target, header=header)
    return build_opened(opened, folder, order=order, force=force, report=report)


def build_opened(
    opened: EdgeFile,
    folder: Path,
    *,
    order: str = "none",
    force: bool = False,
    report: Report | None = None,
    room: int | None = None,
) -> Graph:
    """The same for a file that was looked at; edges stay in memory up to `room` bytes, if that is less than usual."""
    with _made_aside(folder) as hidden:
        _free(folder, force)  # another build may just have ended
        _build(opened, hidden, order, report or (lambda *_: None), room)
    return open_graph(folder)


@contextlib.contextmanager
def _made_aside(folder: Path) -> Iterator[Path]:
    """A hidden folder that no other build writes to; when the block ends well it takes the name, else it is removed."""
    hidden = folder.with_name(f".{folder.name}.building")
    with writing(folder):
        hidden.mkdir(parents=True, exist_ok=True)
    with holding(hidden / LOCK) as ours:
        if not ours:
            raise FileError(f"another build is writing {folder}; wait for it, or choose another name")
        try:
            _clear(hidden)  # of a build that was killed
            yield hidden
            _remove(folder)
            hidden.replace(folder)
        except BaseException:
            _remove(hidden)
            raise
        (folder / LOCK).unlink(missing_ok=True)  # not sooner: until it is moved, nobody else may take the hidden folder


def _free(folder: Path, force: bool) -> Path:
    """The folder, if it may be written."""
    if not folder.exists():
        return folder
    inside = {p.name for p in folder.iterdir()} if folder.is_dir() else {folder.name}
    if inside - {INFO, OFFSETS, TARGETS, IDS, LOCK}:  # a build killed at its very end leaves the lock
        raise FileError(f"{folder} exists and is not only a graph folder; choose another name")
    if inside and not force:
        raise FileError(f"{folder} exists; choose another name, or pass ", Argument("force", True), " to replace it")
    return folder


def _remove(folder: Path) -> None:
    if folder.exists():
        (folder / INFO).unlink(missing_ok=True)  # cut off from here on, it is incomplete and says so
        _clear(folder)
        (folder / LOCK).unlink(missing_ok=True)
        folder.rmdir()


def _clear(folder: Path) -> None:
    for file in folder.iterdir():
        if file.name != LOCK:
            file.unlink()


def _build(opened: EdgeFile, folder: Path, order: str, report: Report, room: int | None) -> None:
    try:
        spilled = spill(opened, folder, report, room)
    except (Unusual, GraphError):  # dates, UUIDs, decimals, pairs: right, but all in memory; or ids that it refuses
        _clear(folder)
        graph = opened.graph()
        ids, counts = graph.id_column, graph.counts
        write_graph(folder, graph)
        (folder / INFO).unlink()
    else:
        ids, look = spilled.numbered(report)
        counts = place(spilled, look, len(ids), folder, report)
        write_ids(folder / IDS, ids)
    if order == "locality":
        ids = reorder(folder, ids, report)
        write_ids(folder / IDS, ids)
    n_edges = int(np.load(folder / OFFSETS, mmap_mode="r")[-1]) // 2
    report("check", 0, 1)
    write_info(folder, len(ids), n_edges, counts, None if order == "none" else order)
    report("check", 1, 1)
    log.info("%s: %s; %s", opened.path, opened, counts)
