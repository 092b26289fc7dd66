"""Updates of a run: a log of changes over a base, so that a few edges cost no pass over the graph.

    updates/state.json       the current base, log and counts; replaced atomically by every update
    updates/base-NNNN/       graph, vectors and features when the log was last folded, and the tables of the
                             levels (tables/), with spare capacity for further nodes
    updates/NNNNNN.safetensors   one update: changed rows of the graph, the counts, the tables and the vectors,
                             ids and features of new nodes, with a checksum

Files that state.json does not name do not count: a killed process leaves the state before or after its update. Files of
the run that would be stale (its Parquet file, its graph) are removed before the state changes, and linked again when
the log is folded.

A base may be written during updates. Its graph and its features are those of the moment when that began; the rows
of its tables, counts and vectors are of later states, whatever they were when they were written. An update has every
row that it changed, whole, so the updates of the log after that base give the same whichever of the two a row was.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rae.errors import InUseError, RunError, one_line
from rae.storage.atomic import write_json, writing
from rae.storage.documents import expect, read_json
from rae.storage.lock import LOCK, exclusive_lock
from rae.storage.npy import DENSE, SPARSE, create_array, map_array, read_header, write_array
from rae.storage.tensors import read_tensors, write_tensors
from rae.version import __version__

if TYPE_CHECKING:
    from rae.engine.live import Changes, Live
    from rae.features import Matrix
    from rae.graph import Graph
    from rae.model.exact import ExactModel

Ints = np.ndarray[Any, np.dtype[np.int64]]

FORMAT, FORMAT_VERSION, HEADER = "rae updates", 1, "rae update"
FOLDER, STATE = "updates", "updates/state.json"
EMBEDDINGS, GRAPH, ROLES = "embeddings.parquet", "graph", "roles.parquet"
GRAPH_FILES = tuple(f"{GRAPH}/{name}" for name in ("graph.json", "offsets.npy", "targets.npy", "ids.arrow"))
CHANNEL_FILES = tuple(f"{GRAPH}/channel-{number:02}.npy" for number in range(32))  # as many as a graph can have
SHOWN = (*GRAPH_FILES, *CHANNEL_FILES, SPARSE, DENSE, EMBEDDINGS, ROLES)  # files that are stale after an update
TABLES = "tables"
ROLE_PARTS = ("role", "confidence", "membership")  # of the roles of nodes
SPARE_SHARE, SPARE_LEAST = 16, 1024  # spare rows: a 16th of the nodes, or so many
_BASE = re.compile(r"base-\d{4,}")
_PATTERN = {
    "number": int,
    "base": str,
    "log": [str],
    "counts": {"nodes": int, "edges": int, "isolated": int},
    "changed": int,
    "roles": (None, {"file": str, "after": int}),
    "followed": bool,
    "came?": [str],
}
_REMEDY = "fit the run again"


@dataclass(frozen=True)
class State:
    """The current state, as in state.json."""

    number: int  # of updates since the fit
    base: str
    log: tuple[str, ...]
    counts: dict[str, int]
    changed: int = 0  # rows of vectors in the log
    roles: dict[str, Any] | None = None  # the file of the roles before the rows of the log, and its update
    followed: bool = True  # whether the base has tables
    came: tuple[str, ...] = ()  # digests of the last tables that were added

    def log_after(self, number: int) -> int | None:
        """The position in the log of the first update after this one; None where that was folded.

        >>> State(9, "base-0001", ("000008", "000009"), {}).log_after(8)
        1
        """
        first = len(self.log) - (self.number - number)
        return first if 0 <= first <= len(self.log) else None


@dataclass(frozen=True)
class Update:
    """One update of the log."""

    header: dict[str, Any]
    arrays: dict[str, Any]

    def rows(self, name: str) -> tuple[Ints, Any]:
        """Rows and their new values, of a table or of columns of the vectors."""
        return self.arrays[f"{name}.rows"], self.arrays[f"{name}.values"]

    def names(self, kind: str) -> list[str]:
        """The names of its rows of this kind: "table" or "columns"."""
        return [name.removesuffix(".rows") for name in self.arrays if name.startswith(kind) and name.endswith(".rows")]

    @property
    def graph_rows(self) -> tuple[Ints, Ints, Ints, Any]:
        """The changed rows of the graph: nodes, offsets, neighbours, and their weights in each channel."""
        nodes, offsets, targets = (self.arrays[f"graph.{part}"] for part in ("nodes", "offsets", "targets"))
        return nodes, offsets, targets, self.arrays.get("graph.weights", ())

    @property
    def new_ids(self) -> pa.Array:
        """The ids of new nodes."""
        return pa.ipc.open_stream(pa.py_buffer(self.arrays["ids"].tobytes())).read_all().column(0).combine_chunks()

    @property
    def features(self) -> tuple[Ints, Any] | None:
        """The changed feature rows."""
        if "features.rows" not in self.arrays:
            return None
        if "features.values" in self.arrays:
            return self.rows("features")
        import scipy.sparse as sp

        data, indices, indptr = (self.arrays[f"features.{part}"] for part in ("data", "indices", "indptr"))
        shape = (len(indptr) - 1, int(self.header["width"]))
        return self.arrays["features.rows"], sp.csr_array((data, indices, indptr), shape=shape)


@lru_cache(maxsize=16)
def _read_state(path: Path, _: tuple[int, int, int]) -> State:
    """The state in a state.json, cached by file identity: every update writes a new file."""
    try:
        record = read_json(path)
        if record["format"] != FORMAT:
            raise ValueError("another program wrote it")
        if record["format_version"] > FORMAT_VERSION:
            raise ValueError(f"it has format version {record['format_version']}, upgrade rae")
        expect(record, _PATTERN)
        if not _BASE.fullmatch(record["base"]) or not all(re.fullmatch(r"\d{6,}", name) for name in record["log"]):
            raise ValueError("it names files of others")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(f"{path} is damaged ({one_line(error)}); {_REMEDY}") from None
    fields = {name: record[name] for name in _PATTERN if not name.endswith("?")}
    return State(**fields | {"log": tuple(record["log"]), "came": tuple(record.get("came", ()))})


class UpdateFolder:
    """The folder `updates` of a run: reading it, and replacing its state.

    `unfinished` is a base that is being written: it is not removed, though no state names it yet.
    """

    def __init__(self, run: Path, unfinished: str | None = None) -> None:
        self.run, self.folder, self.unfinished = run, run / FOLDER, unfinished

    # ------------------------------------------------------------------------- reading

    def state(self) -> State | None:
        """The current state, None for a run that was never updated."""
        path = self.run / STATE
        try:
            now = path.stat()
        except OSError:
            return None
        return _read_state(path, (now.st_ino, now.st_mtime_ns, now.st_size))

    def file(self, state: State | None, name: str) -> Path:
        """The path of a file of the run: in its base, or in the run folder where it was never updated."""
        return self.run / name if state is None else self.folder / state.base / name

    def updates(self, state: State, first: int = 0) -> Iterator[Update]:
        """The updates of the log, from position `first` on."""
        for name in state.log[first:]:
            path = self.folder / f"{name}.safetensors"
            header, arrays = read_tensors(path, HEADER, FORMAT_VERSION, ("number", "width"), _REMEDY)
            yield Update(header, arrays)

    def ids(self, state: State | None) -> pa.Array:
        """The ids in row order."""
        from rae.graph.folder import read_ids

        ids = read_ids(self.file(state, GRAPH))
        later = [update.new_ids.cast(ids.type) for update in self.updates(state)] if state is not None else []
        return pa.concat_arrays([ids, *later]) if later else ids

    def graph(self, state: State) -> Graph:
        """The current graph; mapped where the log is empty."""
        from rae.engine.live import edited_graph
        from rae.graph.folder import open_graph
        from rae.ops.edits import EditedRows

        base = open_graph(self.file(state, GRAPH))
        if not state.log:
            return base
        rows = EditedRows.of(base, state.counts["nodes"])
        for update in self.updates(state):
            rows.put_rows(*update.graph_rows)
        return edited_graph(base, rows, self.ids(state))

    def moment(self, state: State, number: int) -> State:
        """The state after an earlier update, 0 for the fit: its graph and features; refused once it is folded."""
        oldest = state.number - len(state.log)
        if isinstance(number, bool) or not isinstance(number, int) or not oldest <= number <= state.number:
            states = (
                f"the updates from {oldest:,} to {state.number:,}" if state.log else f"update {oldest:,}, the present,"
            )
            raise RunError(
                f"the run in {self.run} keeps the state after {states} and not after {number!r}: earlier ones are "
                "folded in; `rae update --no-fold` or update(fold=False) keeps them, or copy the run folder before an "
                "update, as one that is computed in full keeps none"
            )
        log = state.log[: number - oldest]
        earlier = replace(state, number=number, log=log)
        nodes = len(self.ids(earlier))
        return replace(earlier, counts=state.counts | {"nodes": nodes})

    def vectors(self, state: State) -> tuple[pa.Array, Any]:
        """The current ids and vectors.  -> (n,), (n, width)"""
        from rae.io import read_embeddings
        from rae.io.embeddings import embeddings_dtype, rounded

        path = self.file(state, EMBEDDINGS)
        ids, z = read_embeddings(path)
        if not state.log:
            return ids, z
        kind, before = np.dtype(embeddings_dtype(path)), z
        z = np.empty((state.counts["nodes"], before.shape[1]), np.float32)
        z[: len(before)] = before
        later = []
        for update in self.updates(state):
            later.append(update.new_ids.cast(ids.type))
            for name in update.names("columns"):
                rows, values = update.rows(name)
                left = int(update.arrays[f"{name}.left"][0])
                z[rows, left : left + values.shape[1]] = rounded(values, kind)
        return pa.concat_arrays([ids, *later]), z

    def features(self, state: State, base: Matrix | None) -> Any:
        """The current features, from those of the base."""
        from rae.engine.exact_levels import PLAIN
        from rae.features.edited import EditedFeatures

        if base is None or not state.log:
            return base
        edited = EditedFeatures(None, base, PLAIN)  # type: ignore[arg-type]  # given rows need no graph
        for update in self.updates(state):
            if (rows_and_values := update.features) is not None:
                edited = edited.with_rows(*rows_and_values)
        return edited.whole_matrix(state.counts["nodes"])

    def role_rows(self, state: State) -> Iterator[dict[str, Any]]:
        """Rows, roles, confidences and memberships, by name, that updates changed since the roles were written."""
        after = 0 if state.roles is None else int(state.roles["after"])
        for update in self.updates(state):
            if update.header["number"] > after and "roles.rows" in update.arrays:
                yield {part: update.arrays[f"roles.{part}"] for part in ("rows", *ROLE_PARTS)}

    def role_table(self, state: State | None) -> tuple[Any, Any, Any, Any]:
        """The current table of roles: that of the base with the rows that updates changed."""
        from rae.roles.storage import read_table

        top = self.run / ROLES
        if state is None or top.is_file():
            return read_table(top)
        path = self.folder / state.roles["file"] if state.roles is not None else self.folder / state.base / ROLES
        n_rows = state.counts["nodes"]
        role, sure, shares = with_rows([part.copy() for part in read_table(path)[1:]], n_rows, self.role_rows(state))
        return self.ids(state), role[:n_rows], sure[:n_rows], shares[:n_rows]

    def follow(self, state: State, model: ExactModel, features: Any, tables: Any = None) -> Live:
        """The tables of the base, mapped privately, with the log replayed: later changes stay in memory.

        `tables` are tables in memory of the same state, or of one after its base, to start from.
        """
        from rae.engine.live import COUNTED, Live
        from rae.graph.folder import open_graph

        folder = self.folder / state.base / TABLES
        graph = open_graph(self.file(state, GRAPH))
        shapes = Live.empty_tables(model, graph, features, graph.n_nodes, lambda _, shape: np.empty((0, shape[1])))
        try:
            tables = tables or {name: map_array(folder / f"{name}.npy", private=True) for name in shapes}
            counts = {name: map_array(folder / f"{name}.npy") for name in (COUNTED if model.structure else ())}
        except (OSError, ValueError) as error:
            raise RunError(f"{folder} is damaged ({one_line(error)}); {_REMEDY}") from None
        capacity = {len(table) for table in tables.values()}
        sound = all(t.dtype == np.float32 and t.shape[1] == shapes[n].shape[1] for n, t in tables.items())
        sound = sound and all(c.dtype == np.int64 and len(c) == graph.n_nodes for c in counts.values())
        if len(capacity) != 1 or not sound or min(capacity) < graph.n_nodes:
            raise RunError(f"{folder} is damaged (its arrays do not fit together); {_REMEDY}")
        live = Live.open(model, graph, features, tables, counts)
        if state.counts["nodes"] > live.capacity:
            live.grow(state.counts["nodes"] + SPARE_LEAST)
        for update in self.updates(state):
            self.apply(live, update)
        return live

    @staticmethod
    def apply(live: Live, update: Update) -> None:
        """Apply an update that another process computed to the tables."""
        arrays = update.arrays
        live.n_nodes += len(update.new_ids)
        live.rows.put_rows(*update.graph_rows)
        counted = arrays["counts.rows"]
        for column, values in enumerate((live.rows.triangles, live.rows.cycles, live.rows.core)):
            values[counted] = arrays["counts.values"][:, column]
        live.paths = max(live.paths, int(arrays["paths"][0]))
        for name in update.names("table"):
            rows, values = update.rows(name)
            live.tables[name.removeprefix("table.")][rows] = values
        if (rows_and_values := update.features) is not None:
            live.give_features(*rows_and_values)

    # ------------------------------------------------------------------------- writing

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """The lock of updates, held during the block; a second process is refused."""
        self.folder.mkdir(exist_ok=True)
        with exclusive_lock(self.folder / LOCK) as free:
            if not free:
                raise InUseError(
                    f"another update of {self.run} is running, or `rae serve` holds it; nothing was changed: wait for "
                    "it, then do this again, or send the edges to the service"
                )
            yield
        with contextlib.suppress(OSError):
            self.folder.rmdir()  # if nothing was written

    def append(
        self, state: State, changes: Changes, live: Live, new: Mapping[str, Any], counts: dict[str, int]
    ) -> State:
        """The state after an update whose changes are appended to the log; `commit` makes it current."""
        number = state.number + 1
        name = f"{number:06d}"
        ends = new["ends"]
        offsets, targets = live.rows.lists(ends)
        touched = new["counted"]
        arrays: dict[str, Any] = {
            "ids": np.frombuffer(_id_bytes(new["ids"]), np.uint8),
            "graph.nodes": ends,
            "graph.offsets": offsets,
            "graph.targets": targets,
            "counts.rows": touched,
            "counts.values": np.stack([v[touched] for v in (live.rows.triangles, live.rows.cycles, live.rows.core)], 1),
            "paths": np.array([live.paths]),
        }
        if channels := range(len(live.rows.channels)):
            arrays["graph.weights"] = np.stack([live.rows.weights(channel, ends, offsets) for channel in channels])
        for table, (rows, values) in changes.tables.items():
            arrays |= {f"table.{table}.rows": rows, f"table.{table}.values": values}
        for model, (rows, values) in changes.columns.items():
            left = np.array([live.columns(model)[0]])
            arrays |= {f"columns.{model}.rows": rows, f"columns.{model}.values": values, f"columns.{model}.left": left}
        width = 0
        if new["features"] is not None:
            rows, values = new["features"]
            width, parts = values.shape[1], {"values": values}
            if not isinstance(values, np.ndarray):
                parts = {part: getattr(values, part) for part in ("data", "indices", "indptr")}
            arrays |= {"features.rows": rows} | {f"features.{part}": array for part, array in parts.items()}
        if new["roles"] is not None:
            arrays |= {f"roles.{part}": array for part, array in new["roles"].items()}
        header = {"format": FORMAT_VERSION, "version": __version__, "number": number, "width": width}
        arrays = {key: np.ascontiguousarray(array) for key, array in arrays.items()}
        write_tensors(self.folder / f"{name}.safetensors", HEADER, header, arrays)
        roles = self._save_role_table(state)
        self.hide()
        later = State(
            number, state.base, (*state.log, name), counts, state.changed + len(changes.rows), roles, state.followed,
            state.came,
        )  # fmt: skip
        self.commit(later)
        return later

    def commit(self, state: State) -> None:
        """Make this the current state, and remove files that it does not name."""
        record = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            **vars(state),
            "log": list(state.log),
            "came": list(state.came),
        }
        write_json(self.run / STATE, record)
        named = {state.base, self.unfinished, LOCK, "state.json", *(f"{name}.safetensors" for name in state.log)}
        if state.roles is not None:
            named.add(state.roles["file"])
        for path in self.folder.iterdir():
            if path.name not in named:
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)

    def hide(self) -> None:
        """Remove the files of the run that will be stale; the base has them."""
        for name in SHOWN:
            (self.run / name).unlink(missing_ok=True)

    def show(self, state: State) -> None:
        """Link the files of a base with an empty log into the run folder, unless newer ones are there."""
        for name in SHOWN:
            source = self.folder / state.base / name
            if source.is_file() and not (self.run / name).is_file():
                (self.run / name).parent.mkdir(exist_ok=True)
                hidden = (self.run / name).with_name(f".{Path(name).name}.shown.tmp")
                hidden.unlink(missing_ok=True)
                _link(source, hidden)
                hidden.replace(self.run / name)

    def _save_role_table(self, state: State) -> dict[str, Any] | None:
        """Save the current table of roles under a name of its own; rows of later updates replace its rows."""
        table = self.run / ROLES
        if not table.is_file():
            return state.roles
        name = f"roles-{state.number:06d}.parquet"
        (self.folder / name).unlink(missing_ok=True)
        _link(table, self.folder / name)
        return {"file": name, "after": state.number}

    def new_base(self, state: State | None) -> Path:
        """An empty folder for the next base."""
        bases = [base for base in (None if state is None else state.base, self.unfinished) if base is not None]
        number = max((int(base.removeprefix("base-")) + 1 for base in bases), default=0)
        folder = self.folder / f"base-{number:04d}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        return folder

    def adopt(self, folder: Path) -> None:
        """Link, or else copy, the files of a run that was never updated into its first base."""
        (folder / GRAPH).mkdir()
        for name in SHOWN:
            if (self.run / name).is_file() and name != ROLES:
                _link(self.run / name, folder / name)


def capacity_for(n_nodes: int) -> int:
    """The rows to allocate for so many nodes, with spare ones."""
    return n_nodes + max(SPARE_LEAST, n_nodes // SPARE_SHARE)


def new_table(folder: Path, name: str, shape: tuple[int, int]) -> Any:
    """A mapped file of this base for the table of a level."""
    path = folder / TABLES / f"{name}.npy"
    with writing(path):
        return create_array(path, shape)


class TableWriter:
    """Files of the tables of the levels, with spare rows, to be written some rows at a time."""

    def __init__(self, folder: Path, live: Live, n_nodes: int) -> None:
        (folder / TABLES).mkdir()
        self.paths = {name: folder / TABLES / f"{name}.npy" for name in live.tables}
        self._first = {}  # the position of a table's first row in its file
        for name, path in self.paths.items():
            new_table(folder, name, (capacity_for(n_nodes), live.tables[name].shape[1]))
            with path.open("rb") as file:
                read_header(file)
                self._first[name] = file.tell()

    def write(self, live: Live, a: int, b: int) -> None:
        """Write rows a..b of every table."""
        for name, path in self.paths.items():
            table = live.tables[name]
            with writing(path), path.open("rb+") as file:
                file.seek(self._first[name] + a * table.shape[1] * table.itemsize)
                file.write(np.ascontiguousarray(table[a:b]).data)


def write_counts(folder: Path, live: Live, n_nodes: int) -> None:
    """Write the counts of the first nodes beside the tables."""
    from rae.engine.live import COUNTED

    counted = (live.rows.triangles, live.rows.cycles, live.rows.core)
    for name, values in zip(COUNTED, counted, strict=True) if live.model.structure is not None else ():
        write_array(folder / TABLES / f"{name}.npy", values[:n_nodes])


def _id_bytes(ids: pa.Array) -> bytes:
    sink = pa.BufferOutputStream()
    table = pa.table({"id": ids})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _link(source: Path, target: Path) -> None:
    """Hard-link a file, or copy it where the file system has no hard links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def counts_of(degrees: Any) -> dict[str, int]:
    """Nodes, edges and nodes without edges, by the degrees."""
    degrees = np.asarray(degrees)
    edges, isolated = int(degrees.sum()) // 2, int(np.count_nonzero(degrees == 0))
    return {"nodes": len(degrees), "edges": edges, "isolated": isolated}


def with_rows(parts: Any, n_rows: int, updates: Iterable[Mapping[str, Any]]) -> Any:
    """Roles, confidences and memberships with rows that updates changed, in place where there is room for all."""
    if len(parts[0]) < n_rows:
        room = n_rows + n_rows // SPARE_SHARE
        grown = [np.zeros((room, *part.shape[1:]), part.dtype) for part in parts]
        for part, before in zip(grown, parts, strict=True):
            part[: len(before)] = before
        parts = grown
    for update in updates:
        for part, name in zip(parts, ROLE_PARTS, strict=True):
            part[update["rows"]] = update[name]
    return parts
