"""A graph as a folder of arrays: memory-mapped, so a large one is there at once.

graph.json     format, counts, and a checksum of every other file; written last
offsets.npy    (n + 1,) int64
targets.npy    (2 m,) int32 or int64
ids.arrow      the ids in row order, in their own type
"""

from __future__ import annotations

import hashlib
import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rae.errors import FileError
from rae.graph import Counts, Graph
from rae.memory import forget
from rae.runtime import threads
from rae.storage.atomic import atomic_path, write_json

FORMAT, FORMAT_VERSION = "rae graph", 1
LOOK = 1 << 23  # targets looked at before their memory is given back
INFO, OFFSETS, TARGETS, IDS = "graph.json", "offsets.npy", "targets.npy", "ids.arrow"


def write_graph(path: str | os.PathLike[str], graph: Graph) -> None:
    """Keep the graph in this folder; a graph that lies there is replaced."""
    folder = Path(path)
    if folder.exists() and not folder.is_dir():
        raise FileError(f"cannot write a graph folder to {folder}: it is a file; choose another name")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / INFO).unlink(missing_ok=True)  # until it is back, the folder is incomplete
    for name, array in ((OFFSETS, graph.offsets), (TARGETS, graph.targets)):
        write_array(folder / name, array)
    write_ids(folder / IDS, graph.id_column)
    write_info(folder, graph.n_nodes, graph.n_edges, graph.counts)


def write_array(path: Path, array: np.ndarray[Any, Any]) -> None:
    """Write a .npy file, whole or not at all."""
    with atomic_path(path) as hidden, hidden.open("wb") as file:
        np.lib.format.write_array(file, np.ascontiguousarray(array), allow_pickle=False)


def write_ids(path: Path, ids: pa.Array) -> None:
    """Write a column of ids as Arrow, whole or not at all."""
    with atomic_path(path) as hidden, pa.OSFile(str(hidden), "wb") as sink:
        table = pa.table({"id": ids})
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)


def write_info(folder: Path, n_nodes: int, n_edges: int, counts: Counts, order: str | None = None) -> None:
    """Write graph.json, which makes the folder whole; `order` is said where rows do not follow the ids."""
    names = (OFFSETS, TARGETS, IDS)
    with ThreadPoolExecutor(min(2, threads())) as pool:
        sums = pool.map(lambda name: checksum(folder / name), names)
    info = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "n_nodes": n_nodes,
        "n_edges": n_edges,
        "counts": asdict(counts),
        **({} if order is None else {"order": order}),
        "sha256": dict(zip(names, sums, strict=True)),
    }
    write_json(folder / INFO, info)


def row_order(path: str | os.PathLike[str]) -> str | None:
    """The order that the rows of this graph folder were put in, None where they follow the ids."""
    order = _info(Path(path)).get("order")
    return None if order is None else str(order)


def is_graph_folder(path: str | os.PathLike[str]) -> bool:
    """Whether this is a folder that `write_graph` wrote (or half wrote)."""
    return (Path(path) / OFFSETS).is_file()


def open_graph(path: str | os.PathLike[str], *, verify: bool = False) -> Graph:
    """The graph in this folder, memory-mapped; `verify` also reads every byte against its checksum.

    Whatever the files say, no row points outside the graph: that is checked each time.
    """
    folder = Path(path)
    info = _info(folder)
    if verify:
        for name, expected in info["sha256"].items():
            if checksum(folder / name) != expected:
                raise FileError(f"{folder / name} has changed since it was written; build the graph folder again")
    try:
        offsets, targets = (
            np.asarray(np.load(folder / n, mmap_mode="r", allow_pickle=False)) for n in (OFFSETS, TARGETS)
        )
        ids = pa.ipc.open_file(pa.memory_map(str(folder / IDS))).read_all().column("id")
        column = ids.chunk(0) if ids.num_chunks == 1 else ids.combine_chunks()
        column.validate(full=True)
        counts = Counts(**{name: int(value) for name, value in info["counts"].items()})
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
        raise FileError(f"the graph folder {folder} is damaged ({error}); build it again") from None
    n = int(info["n_nodes"])
    sound = (
        offsets.dtype == np.int64
        and targets.dtype in (np.int32, np.int64)
        and offsets.shape == (n + 1,)
        and len(column) == n > 0
        and targets.ndim == 1
        and offsets[0] == 0
        and offsets[-1] == len(targets) == 2 * int(info["n_edges"])
        and bool((offsets[1:] >= offsets[:-1]).all())
        and _all_within(targets, n)
    )
    if not sound:
        raise FileError(f"the graph folder {folder} is damaged (its arrays do not fit together); build it again")
    forget(offsets)
    return Graph(offsets, targets, column, counts)


def _all_within(targets: np.ndarray[Any, Any], n: int) -> bool:
    """Whether all are from 0 to n - 1; memory is given back as they are looked through."""
    for a in range(0, len(targets), LOOK):
        piece = targets[a : a + LOOK]
        if int(piece.min()) < 0 or int(piece.max()) >= n:
            return False
        forget(targets)
    return True


def checksum(path: Path) -> str:
    """The SHA-256 of a file, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _info(folder: Path) -> dict[str, Any]:
    if not (folder / INFO).is_file():
        what = "is incomplete" if is_graph_folder(folder) else "is no graph folder"
        raise FileError(f"{folder} {what}: it has no {INFO}; build it again")
    try:
        info = json.loads((folder / INFO).read_text(encoding="utf-8"))
        version, known = info["format_version"], info["format"] == FORMAT
        needed = {"n_nodes", "n_edges", "counts", "sha256"} <= set(info) and set(info["sha256"]) == {
            OFFSETS,
            TARGETS,
            IDS,
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        known = needed = False
        version = 0
    if not known or not isinstance(version, int):
        raise FileError(f"{folder / INFO} is not what rae writes; is this another program's folder?")
    if version > FORMAT_VERSION:
        raise FileError(f"{folder} has format version {version}, this rae reads up to {FORMAT_VERSION}; upgrade rae")
    if not needed:
        raise FileError(f"the graph folder {folder} is damaged (graph.json lacks entries); build it again")
    out: dict[str, Any] = info
    return out
