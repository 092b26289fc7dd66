"""The graph folder: a graph as memory-mapped arrays, so that a large one opens at once.

graph.json     format, counts, and of every array its type, shape and checksum; written last
offsets.npy    (n + 1,) int64
targets.npy    (2 m,) int32 or int64
ids.arrow      the ids in row order, in their own type
channel-00.npy (2 m,) float32: the weights in a channel (see `rae.graph.channels`), where the graph keeps any

Version 2 says whether edges are directed and have weights, and lists the arrays; version 1 had checksums only.
`weights` names the channels, in the order of their files, and says whether weights were given; null for a plain graph.
"""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rae.errors import FileError, GraphError, one_line
from rae.graph.channels import LARGEST, check_channels, is_directed
from rae.graph.csr_writer import Counts, channel_file
from rae.graph.graph import Graph
from rae.graph.ids import id_array
from rae.memory import forget
from rae.runtime import threads
from rae.storage.atomic import atomic_path, write_json
from rae.storage.documents import expect, read_json
from rae.storage.npy import map_array, write_array
from rae.storage.objects import is_url, place
from rae.storage.scratch import scratch_folder

FORMAT, FORMAT_VERSION = "rae graph", 2
CHUNK = 1 << 23  # targets checked before their memory is given back
INFO, OFFSETS, TARGETS, IDS = "graph.json", "offsets.npy", "targets.npy", "ids.arrow"
ARRAYS = (OFFSETS, TARGETS, IDS)
_OF_ARRAY = {"sha256": str, "dtype?": str, "shape?": [int]}
_PATTERN = {
    "n_nodes": int,
    "n_edges": int,
    "counts": {"rows": int, "self_loops": int, "doubled": int, "zeros?": int, "outside?": int},
    "directed": bool,
    "weights": ({"channels": [str], "given": bool, "doubled?": str}, None),
    "order?": (str, None),
    "arrays": dict.fromkeys(ARRAYS, _OF_ARRAY),
}


def write_graph(path: str | os.PathLike[str], graph: Graph) -> None:
    """Write the graph to this folder; a graph that is there is replaced."""
    folder = Path(path)
    if graph.reach is not None:
        raise GraphError("a graph folder holds a whole graph, got one that is cut off (an ego graph)")
    if folder.exists() and not folder.is_dir():
        raise FileError(f"cannot write a graph folder to {folder}: it is a file; choose another name")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / INFO).unlink(missing_ok=True)  # without it the folder is incomplete
    write_array(folder / OFFSETS, graph.offsets)
    write_array(folder / TARGETS, graph.targets)
    for file in folder.glob("channel-*.npy"):  # of a graph that was here
        file.unlink()
    for number, array in enumerate(graph.channels.values()):
        write_array(folder / channel_file(number), array)
    write_ids(folder / IDS, graph.id_column)
    write_info(folder, graph.counts, channels=tuple(graph.channels), weighted=graph.weighted, doubled=graph.doubled)


def write_ids(path: Path, ids: pa.Array) -> None:
    """Write a column of ids as an Arrow file atomically."""
    with atomic_path(path) as hidden, pa.OSFile(str(hidden), "wb") as sink:
        table = pa.table({"id": ids})
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)


def write_info(
    folder: Path,
    counts: Counts,
    order: str | None = None,
    *,
    channels: tuple[str, ...] = (),
    weighted: bool = False,
    doubled: str | None = None,
) -> None:
    """Write graph.json, which completes the folder; `order` names that of the rows where they do not follow the ids."""
    arrays = dict(zip(ARRAYS, _arrays(folder), strict=True))
    for number in range(len(channels)):
        arrays[channel_file(number)] = map_array(folder / channel_file(number))
    with ThreadPoolExecutor(min(2, threads())) as pool:
        checksums = list(pool.map(lambda name: checksum(folder / name), arrays))
    more = {} if doubled is None else {"doubled": doubled}
    info = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "n_nodes": len(arrays[IDS]),
        "n_edges": len(arrays[TARGETS]) // 2,
        "directed": is_directed(channels),
        "weights": {"channels": list(channels), "given": weighted} | more if channels else None,
        "counts": counts.as_dict(),
        **({} if order is None else {"order": order}),
        "arrays": {
            name: {"dtype": _dtype(array), "shape": _shape(array), "sha256": sha256}
            for (name, array), sha256 in zip(arrays.items(), checksums, strict=True)
        },
    }
    write_json(folder / INFO, info)


def row_order(path: str | os.PathLike[str]) -> str | None:
    """The order that the rows of this graph folder were put in, None where they follow the ids."""
    if is_url(path):
        with scratch_folder() as scratch:
            (place(path) / INFO).download(scratch / INFO)  # type: ignore[union-attr]
            (scratch / OFFSETS).touch()
            return row_order(scratch)
    order = _read_info(Path(path)).get("order")
    return None if order is None else str(order)


def is_graph_folder(path: str | os.PathLike[str]) -> bool:
    """Whether this is a graph folder, complete or not."""
    return (place(path) / OFFSETS).is_file()


def open_graph(path: str | os.PathLike[str], *, verify: bool = False, checked: bool = False) -> Graph:
    """The graph in this folder, memory-mapped; `verify` also reads every byte against its checksum.

    Whatever the files say, no row points outside the graph: that is checked each time. One in an object store is
    copied to this machine first. `checked` skips that, for a caller that has just done it.
    """
    if is_url(path):
        with scratch_folder() as scratch:  # mappings outlive the deleted files
            copy = scratch / "graph"
            place(path).download(copy)  # type: ignore[union-attr]
            graph = open_graph(copy, verify=verify, checked=checked)
            graph.__dict__["folder"] = os.fspath(path)
            return graph
    folder = Path(path)
    info = _read_info(folder)
    if verify:
        for name in info["arrays"]:
            if checksum(folder / name) != info["arrays"][name]["sha256"]:
                raise FileError(f"{folder / name} has changed since it was written; build the graph folder again")
    weights = info["weights"] or {"channels": [], "given": False}
    files = [channel_file(number) for number in range(len(weights["channels"]))]
    try:
        offsets, targets, ids = _arrays(folder)
        ids = id_array(ids)
        counts = Counts(**info["counts"])
        channels = {name: map_array(folder / file) for name, file in zip(weights["channels"], files, strict=True)}
        check_channels(channels, len(targets))
        listed = all(
            info["arrays"][name].get(key, value) == value
            for name, array in zip((*ARRAYS, *files), (offsets, targets, ids, *channels.values()), strict=True)
            for key, value in (("dtype", _dtype(array)), ("shape", _shape(array)))
        )
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
        raise FileError(f"the graph folder {folder} is damaged ({one_line(error)}); build it again") from None
    n = info["n_nodes"]
    sound = (
        listed
        and offsets.dtype == np.int64
        and targets.dtype in (np.int32, np.int64)
        and offsets.shape == (n + 1,)
        and len(ids) == n > 0
        and targets.ndim == 1
        and offsets[0] == 0
        and offsets.flags.aligned
        and targets.flags.aligned
        and offsets[-1] == len(targets) == 2 * info["n_edges"]
        and bool((offsets[1:] >= offsets[:-1]).all())
        and all(channel.flags.aligned for channel in channels.values())
        and (checked or (_all_within(targets, n) and all(map(_all_weights, channels.values()))))
    )
    if not sound:
        raise FileError(f"the graph folder {folder} is damaged (its arrays do not fit together); build it again")
    forget(offsets)
    graph = Graph(offsets, targets, ids, counts, channels, weights["given"], weights.get("doubled"))
    graph.__dict__["folder"] = str(folder.resolve())
    return graph


def folder_of(graph: Graph) -> str | None:
    """The folder that this graph was opened from, None where it was made otherwise or the folder is gone."""
    folder: str | None = graph.__dict__.get("folder")
    return folder if folder is not None and (place(folder) / INFO).is_file() else None


def read_ids(path: str | os.PathLike[str]) -> pa.Array:
    """The ids of the graph in this folder, in row order."""
    folder = Path(path)
    _read_info(folder)
    try:
        return id_array(_ids(folder))
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        raise FileError(f"the graph folder {folder} is damaged ({one_line(error)}); build it again") from None


def checksum(path: Path) -> str:
    """The SHA-256 of a file, read in chunks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _arrays(folder: Path) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], pa.Array]:
    """Offsets, targets and ids, memory-mapped."""
    offsets, targets = (map_array(folder / name) for name in (OFFSETS, TARGETS))
    return offsets, targets, _ids(folder)


def _ids(folder: Path) -> pa.Array:
    table = pa.ipc.open_file(pa.memory_map(str(folder / IDS))).read_all()
    table.validate(full=True)  # before use: offsets may point outside of the buffers
    ids = table.column("id")
    return ids.chunk(0) if ids.num_chunks == 1 else ids.combine_chunks()


def _dtype(array: Any) -> str:
    """The type of an array as graph.json names it: NumPy's name, or Arrow's for ids."""
    return str(array.dtype if isinstance(array, np.ndarray) else array.type)


def _shape(array: Any) -> list[int]:
    return list(array.shape) if isinstance(array, np.ndarray) else [len(array)]


def _all_within(targets: np.ndarray[Any, Any], n: int) -> bool:
    """Whether all are from 0 to n - 1; memory is given back after each chunk."""
    for a in range(0, len(targets), CHUNK):
        chunk = targets[a : a + CHUNK]
        if int(chunk.min()) < 0 or int(chunk.max()) >= n:
            return False
        forget(targets)
    return True


def _all_weights(channel: np.ndarray[Any, Any]) -> bool:
    """Whether all are finite numbers from 0 up."""
    for a in range(0, len(channel), CHUNK):
        chunk = channel[a : a + CHUNK]
        if not bool((chunk >= 0).all() and (chunk <= LARGEST).all()):
            return False
        forget(channel)
    return True


def _read_info(folder: Path) -> dict[str, Any]:
    """The content of graph.json as version 2 has it."""
    if not (folder / INFO).is_file():
        what = "is incomplete" if is_graph_folder(folder) else "is no graph folder"
        raise FileError(f"{folder} {what}: it has no {INFO}; build it again")
    try:
        info = read_json(folder / INFO)
        version = info["format_version"] if info["format"] == FORMAT else None
    except (OSError, ValueError, KeyError, TypeError):
        version = None
    if type(version) is not int:
        raise FileError(f"{folder / INFO} is not what rae writes; is this another program's folder?")
    if version > FORMAT_VERSION:
        raise FileError(f"{folder} has format version {version}, this rae reads up to {FORMAT_VERSION}; upgrade rae")
    try:
        if version == 1:
            expect(info, {"sha256": dict.fromkeys(ARRAYS, str)})
            info["arrays"] = {name: {"sha256": info["sha256"][name]} for name in ARRAYS}
            info |= {"directed": False, "weights": None}
        expect(info, _PATTERN)
        extra = set(info["counts"]) - {"rows", "self_loops", "doubled", "zeros", "outside"}
        if extra:
            raise ValueError(f"an unknown count {min(extra)!r}")
        names = (info["weights"] or {"channels": []})["channels"]
        if info["directed"] != any(name.startswith("out") for name in names):
            raise ValueError("directed does not go with its channels")
    except ValueError as error:
        raise FileError(f"the graph folder {folder} is damaged ({INFO}: {error}); build it again") from None
    out: dict[str, Any] = info
    return out
