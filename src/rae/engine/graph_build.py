"""A graph folder from many Parquet files by partition and merge, in tasks that any host can run.

    ids(unit)      the distinct ids of some row groups of a file, ascending, and the kinds of its edges
    number(range)  the distinct ids of all units between two bounds, ascending: their numbers follow from the lengths
    deal(unit)     its edges by stripes of rows, once in that of each end, with weights and kinds; some are left out
    rows(part)     the rows of some stripes, by the builder of one machine from the edges that have an end there

Ids are numbered in ascending order, rows are sorted: the folder has the bytes that one machine writes. Every task reads
files and writes one part (`rae.storage.parts`) atomically, so it may run twice, and the same command resumes from the
parts of a killed one. Stripes are put together by their edges, not by their
nodes, so that hubs make no part large.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rae.engine.cluster import Cluster
from rae.engine.ray_executor import connected
from rae.engine.shared import write_rows_of_parts
from rae.errors import Argument, FileError, GraphError
from rae.graph import Counts, Graph
from rae.graph.builder import Batch, build_numbered
from rae.graph.channels import KindCodes, channel_names
from rae.graph.csr_writer import MemorySink
from rae.graph.folder import IDS, INFO, open_graph, write_ids, write_info
from rae.graph.folder_builder import check_free_store, check_writable, discard_build, new_folder
from rae.graph.id_numbering import CLOSE, index_type
from rae.graph.ids import id_array, is_text
from rae.io.edges import EdgeFile, open_edges
from rae.io.files import File, file_errors
from rae.io.tables import BATCH, ArrowTable
from rae.progress import Progress, stages
from rae.reading import EdgeOptions
from rae.storage.objects import ObjectPath, is_url, place
from rae.storage.parts import Parts
from rae.storage.scratch import scratch_folder
from rae.version import versions_of

UNIT = 1 << 24  # edges of a unit, about
RANGE = 50_000_000  # ids that one task numbers, about
PART = 1 << 24  # edges that one task sorts into rows, about
STRIPES = 4096  # of the rows, at most: what a part is made of
FOLDER = ".parts"
HEAD = 3  # numbers before the ends of stripes: self-loops, rows that count, rows of another time
DEALT = (np.int64, np.int64, np.int64, np.float32, np.float32)  # of an edge: its place, both ends, weight and kind

Array = np.ndarray[Any, Any]
Report = Callable[[str, int, int], None]


@dataclass(frozen=True)
class BuildTask:
    """One unit of work: its kind and its number; for rows the stripes a..b, for numbers the bounds of the range."""

    kind: str
    number: int
    bounds: tuple[Any, ...] = ()

    @property
    def name(self) -> str:
        """The name of its output."""
        return f"{self.kind}-{self.number:06}"


@dataclass(frozen=True)
class BuildDescription:
    """A build as plain data.

    `units` are (file, first row group, last one, rows of the table before it, and of these groups from which to which).
    """

    edges: str
    options: dict[str, Any]  # of reading the edges: the fields of `EdgeOptions`
    kind: str  # of ids
    units: tuple[tuple[int, ...], ...]
    parts: str
    fingerprint: str
    ranges: int = 0  # of ids
    stripes: int = 0
    kinds: tuple[str, ...] | None = None  # of edges, ascending; None where they have none

    def perform(self, task: BuildTask) -> None:
        """Do one task, unless its output is there."""
        _opened(json.dumps(asdict(self))).perform(task)

    def close(self) -> None:
        """Give back what this process has opened for tasks."""
        _opened.cache_clear()
        _ids_by_build.clear()


@dataclass(frozen=True)
class BuildJob:
    """A build in a process that runs tasks of it."""

    description: BuildDescription
    parts: Parts

    @cached_property
    def edges(self) -> EdgeFile:
        """The table of edges, whose columns are known."""
        return open_edges(self.description.edges, EdgeOptions(**self.description.options))

    @property
    def names(self) -> tuple[str, ...]:
        """The channels of the graph; none where edges have their ends alone."""
        values = self.edges.values
        return channel_names(values.directions, self.description.kinds or ()) if values else ()

    def perform(self, task: BuildTask) -> None:
        """Do one task, unless its output is there."""
        if not self.parts.has(task.name):
            {"ids": self.distinct, "number": self.number, "deal": self.deal, "rows": self.rows}[task.kind](task)

    def distinct(self, task: BuildTask) -> None:
        """The distinct ids of a unit, ascending, with the kinds of its edges."""
        batches, kinds = list(self._batches(task.number)), KindCodes()
        columns = [column for batch in batches for column in (batch.source, batch.target)]
        ids = pa.chunked_array(columns, self._kind()).unique() if columns else pa.array([], self._kind())
        for batch in batches:
            if batch.kind is not None:
                kinds.codes(batch.kind)
        self.parts.write(task.name, [_packed(_ascending(ids), kinds.names)])

    def number(self, task: BuildTask) -> None:
        """The distinct ids of all units from one bound on and below the next, ascending."""
        low, high = task.bounds
        columns = []
        for unit in range(len(self.description.units)):
            ids = self.column(BuildTask("ids", unit).name)
            a = 0 if low is None else _position(ids, low)
            columns.append(ids.slice(a, (len(ids) if high is None else _position(ids, high)) - a))
        self.parts.write(task.name, [_packed(_ascending(pa.chunked_array(columns).unique()))])

    def deal(self, task: BuildTask) -> None:
        """The edges of a unit, stripe after stripe, in each once: what was left out, where stripes end, the edges."""
        ids, stripes, values = self.ids(), self.description.stripes, self.edges.values
        look_up, kind_codes = _numbers_of(ids), KindCodes()
        kind_codes.names = list(self.description.kinds or ())
        columns, outside, rows = [], 0, 0
        for batch in self._batches(task.number):
            source, target = look_up(batch.source), look_up(batch.target)
            weight = batch.weight if values.weighted else np.ones(len(source), np.float32)
            kind = kind_codes.codes(batch.kind) if values.kinds else np.zeros(len(source), np.float32)
            columns.append((source, target, weight, kind))
            outside, rows = outside + batch.outside, rows + len(source)
        source, target, weight, kind = _joined(columns)
        edges = source != target
        source, target, weight, kind = (column[edges] for column in (source, target, weight, kind))
        height = _stripe_rows(len(ids), stripes)
        at, other = source // height, target // height
        place = np.concatenate([np.arange(len(at)), np.flatnonzero(other != at)])
        stripe = np.concatenate([at, other[other != at]])
        order = np.lexsort((place, stripe))
        place, ends = place[order], np.searchsorted(stripe[order], np.arange(1, stripes + 1))
        head = np.array([rows - len(source), rows, outside], np.int64)
        dealt = [place, source[place], target[place], weight[place], kind[place]]
        self.parts.write(task.name, [head, ends.astype(np.int64), *(dealt if values else dealt[:3])])

    def rows(self, task: BuildTask) -> None:
        """The rows of some stripes: their lengths, their entries, and weights of these in each channel."""
        a, b = task.bounds
        ids, values = self.ids(), self.edges.values
        height = _stripe_rows(len(ids), self.description.stripes)
        first, last = min(a * height, len(ids)), min(b * height, len(ids))
        source, target, weight, kind = _joined([self._dealt(unit, a, b) for unit in range(len(self.description.units))])
        sink, more = MemorySink(), dict[str, Any]()
        if values:
            more = {"values": values, "kind": kind, "kinds": self.description.kinds}
            more |= {"weight": weight} if values.weighted else {}
        rows = build_numbered(source, target, ids, sink, **more)
        low, high = int(rows.offsets[first]), int(rows.offsets[last])
        arrays = [channel[low:high] for channel in sink.channels]
        self.parts.write(task.name, [np.diff(rows.offsets[first : last + 1]), sink.targets[low:high], *arrays])

    def ids(self) -> pa.Array:
        """All ids, ascending."""
        return _ids_of(self)

    def dealt_head(self, unit: int) -> Array:
        """Of a unit its self-loops, rows that count, and rows of another time; then where its stripes end."""
        return self.parts.read(BuildTask("deal", unit).name, (HEAD + self.description.stripes,), np.int64)

    def column(self, name: str) -> pa.Array:
        """The column of ids that a part holds."""
        return self._table(name).column("id").combine_chunks()

    def kinds(self, unit: int) -> list[str]:
        """The kinds of the edges of a unit."""
        kinds: list[str] = json.loads(self._table(BuildTask("ids", unit).name).schema.metadata[b"kinds"])
        return kinds

    def _table(self, name: str) -> pa.Table:
        raw = self.parts.read(name, (self.parts.size(name),), np.uint8)
        return pa.ipc.open_stream(pa.py_buffer(raw)).read_all()

    def _dealt(self, unit: int, a: int, b: int) -> tuple[Array, ...]:
        """The edges of a unit with an end in stripes a..b, in the order of the table."""
        ends, name = self.dealt_head(unit)[HEAD:], BuildTask("deal", unit).name
        start, stop, total = int(ends[a - 1]) if a else 0, int(ends[b - 1]), int(ends[-1])
        base, columns = 8 * (HEAD + len(ends)), []
        for kind in DEALT if self.edges.values else DEALT[:3]:
            size = np.dtype(kind).itemsize
            columns.append(np.empty(stop - start, kind))
            self.parts.read_into(name, columns[-1], base + size * start)
            base += size * total
        place, *edges = columns
        _, once = np.unique(place, return_index=True)  # both ends may be in these stripes
        none = [np.empty(0, np.float32)] * (len(DEALT) - len(columns))
        return (*(column[once] for column in edges), *none)

    def _batches(self, unit: int) -> Iterator[Batch]:
        """The edges of a unit that count, in batches, their ids of one kind."""
        at, first, last, before, start, stop = self.description.units[unit]
        table = self.edges.table
        assert isinstance(table, ArrowTable)
        file, names, position = table.files[at], self.edges.columns_read(), 0
        with file_errors(file.path), file.raw() as stream:
            parquet = pq.ParquetFile(stream, pre_buffer=False)
            for batch in parquet.iter_batches(BATCH, row_groups=list(range(first, last)), columns=names):
                some = batch.slice(max(0, start - position), max(0, stop - max(start, position)))
                skipped, position = max(0, start - position), position + len(batch)
                if len(some):
                    some.validate(full=True)
                    ends = [id_array(some.column(name)).cast(self._kind()) for name in names[:2]]
                    others = [some.column(name) for name in names[2:]]
                    yield self.edges.batch([*ends, *others], before + position - len(batch) + skipped)
                if position >= stop:
                    return

    def _kind(self) -> pa.DataType:
        return pa.type_for_alias(self.description.kind)


def build_graph_on_cluster(
    edges: str | os.PathLike[str],
    path: str | os.PathLike[str],
    cluster: Cluster,
    *,
    force: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> Graph:
    """The graph of many Parquet files, opened from the folder `path` that it was written to; all hosts see both.

    `options` say how the files are read, as in `read_edges`.
    """
    with connected(cluster.address, cores=cluster.cores or 1) as executor:
        report = stages(executor.telling(progress))
        return build_by_parts(edges, path, executor, force=force, report=report, **options)


def build_by_parts(
    edges: str | os.PathLike[str],
    path: str | os.PathLike[str],
    executor: Any,
    *,
    force: bool = False,
    report: Report | None = None,
    unit: int = UNIT,
    **options: Any,
) -> Graph:
    """The graph of Parquet files, built by the tasks of `executor` and opened from the folder it was written to.

    For an object store the folder is put together among the temporary files of this machine, and uploaded.
    """
    folder, report = place(path), report or (lambda *_: None)
    if isinstance(folder, Path):
        discard_build(folder)
        check_writable(folder, force)
    else:
        check_free_store(folder, force)
    reading = EdgeOptions.of(options)
    opened = open_edges(edges, reading)
    table = opened.table
    if not isinstance(table, ArrowTable) or any(file.kind != "parquet" or file.compression for file in table.files):
        what = f"a cluster builds a graph of Parquet files, {edges} is another kind; leave "
        raise FileError(what, Argument("ray"), " out")
    columns = table.names[opened.ends[0]], table.names[opened.ends[1]]
    for name in columns:
        id_type = table.schema.field(name).type
        if not (pa.types.is_integer(id_type) or is_text(id_type)):
            what = f"a cluster numbers ids that are whole numbers or text, {name!r} holds {id_type}; leave "
            raise GraphError(what, Argument("ray"), " out")
    kind = _common_kind(*(table.schema.field(name).type for name in columns))
    if kind is None:
        raise GraphError(f"{edges}: source and target ids must be of one kind; turn both into text first")
    units, total = _units(table.files, unit)
    settings = {name: _plain(value) for name, value in asdict(reading).items()}
    about = {"files": [_identity(file) for file in table.files], "options": settings, "units": units}
    where = f"{os.fspath(path).rstrip('/')}{FOLDER}"
    parts = Parts.open(where, about | {"build": 2, "versions": versions_of("numpy", "pyarrow")})
    edges = os.fspath(edges) if is_url(edges) else str(Path(edges).resolve())
    description = BuildDescription(edges, settings, str(kind), tuple(units), os.fspath(parts.folder), parts.fingerprint)
    job = BuildJob(description, parts)
    if isinstance(folder, Path):
        graph = _build(job, folder, executor, total, report)
    else:
        with scratch_folder() as scratch:
            graph = _build(job, scratch / "graph", executor, total, report)
            folder.upload_folder(scratch / "graph", INFO)
    parts.remove()
    opened.log_counts(graph.counts)
    return graph


def _plain(value: Any) -> Any:
    """An option as JSON has it: a date as text."""
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def _build(job: BuildJob, folder: Path, executor: Any, total: int, report: Report) -> Graph:
    n_units = len(job.description.units)
    _run(executor, job, [BuildTask("ids", unit) for unit in range(n_units)], "read", report)
    ranges = _ranges(job)
    _run(executor, job, ranges, "number", report)
    job = replace(job, description=replace(job.description, ranges=len(ranges)))
    ids = job.ids()
    if len(ids) == 0:
        raise GraphError("a graph needs at least one node, got no edges")
    kinds = _all_kinds(job) if job.edges.values.kinds else None
    job = replace(job, description=replace(job.description, stripes=min(STRIPES, len(ids)), kinds=kinds))
    _run(executor, job, [BuildTask("deal", unit) for unit in range(n_units)], "deal", report)
    heads = [job.dealt_head(unit) for unit in range(n_units)]
    loops, rows, outside = (sum(int(head[i]) for head in heads) for i in range(HEAD))
    sizes = np.diff(sum(head[HEAD:] for head in heads), prepend=0)
    tasks = [BuildTask("rows", i, bounds) for i, bounds in enumerate(_by_size(sizes, PART))]
    _run(executor, job, tasks, "place", report)
    counts = Counts(total, loops, rows - loops, total - rows - outside, outside)  # of doubled ones none is merged yet
    return _assemble(job, folder, ids, tasks, counts)


def _all_kinds(job: BuildJob) -> tuple[str, ...]:
    """The kinds of all edges, ascending."""
    kind_codes = KindCodes()
    for unit in range(len(job.description.units)):
        kind_codes.codes(pa.array(job.kinds(unit), pa.string()))
    return tuple(sorted(kind_codes.names))


def _assemble(job: BuildJob, folder: Path, ids: pa.Array, tasks: list[BuildTask], counts: Counts) -> Graph:
    """The folder of all rows, one after the other."""
    n, kind, names, values = len(ids), np.dtype(index_type(len(ids))), job.names, job.edges.values
    height = _stripe_rows(n, job.description.stripes)
    rows = [(task.name, *(min(bound * height, n) for bound in task.bounds)) for task in tasks]
    with new_folder(folder) as hidden:
        slots = write_rows_of_parts(hidden, job.parts, rows, n, kind, len(names), int(counts.rows) * 2)
        write_ids(hidden / IDS, ids.cast(pa.string()) if is_text(ids.type) and ids.nbytes < 2**31 else ids)
        counts = replace(counts, doubled=counts.doubled - slots // 2)
        weighted, doubled = (values.has_weights, values.merged) if values else (False, None)
        write_info(hidden, counts, channels=names, weighted=weighted, doubled=doubled)
    return open_graph(folder)


def _run(executor: Any, job: BuildJob, tasks: list[BuildTask], stage: str, report: Report) -> None:
    for i, _ in enumerate(executor.run(job, tasks)):
        report(stage, i + 1, len(tasks))


@lru_cache(maxsize=1)
def _opened(fields: str) -> BuildJob:
    values = json.loads(fields)
    kinds = None if values["kinds"] is None else tuple(values["kinds"])
    description = BuildDescription(**values | {"units": tuple(map(tuple, values["units"])), "kinds": kinds})
    return BuildJob(description, Parts(place(description.parts), description.fingerprint))


_ids_by_build: dict[tuple[str, int], pa.Array] = {}


def _ids_of(job: BuildJob) -> pa.Array:
    """All ids of a build, read once per process."""
    key = job.description.fingerprint, job.description.ranges
    if key not in _ids_by_build:
        _ids_by_build.clear()
        columns = [job.column(BuildTask("number", i).name) for i in range(job.description.ranges)]
        _ids_by_build[key] = pa.concat_arrays(columns)
    return _ids_by_build[key]


def _ranges(job: BuildJob) -> list[BuildTask]:
    """The tasks that number ids: bounds between them are taken from samples of all units."""
    columns = [job.column(BuildTask("ids", unit).name) for unit in range(len(job.description.units))]
    count = max(1, -(-sum(map(len, columns)) // RANGE))
    samples = [ids.take(pa.array(np.arange(0, len(ids), max(1, len(ids) // 256)))) for ids in columns if len(ids)]
    bounds: list[Any] = []
    if count > 1:
        sample = _ascending(pa.chunked_array(samples).combine_chunks().unique())
        bounds = [sample[len(sample) * i // count].as_py() for i in range(1, count)]
    return [BuildTask("number", i, pair) for i, pair in enumerate(itertools.pairwise([None, *bounds, None]))]


def _common_kind(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """The kind that ids of both columns are read as, None where there is none without a look at the numbers."""
    if a == b:
        return a
    if is_text(a) and is_text(b):
        return pa.large_string()
    signed = all(pa.types.is_integer(kind) and not pa.types.is_uint64(kind) for kind in (a, b))
    return pa.int64() if signed else None


def _ascending(ids: pa.Array) -> pa.Array:
    column = ids.cast(pa.large_string()) if is_text(ids.type) else ids
    return column.take(pc.array_sort_indices(column))


def _position(ids: pa.Array, value: Any) -> int:
    """How many of these ascending ids are below a value."""
    low, high = 0, len(ids)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if ids[middle].as_py() < value else (low, middle)
    return low


def _numbers_of(ids: pa.Array) -> Callable[[pa.Array], Array]:
    """A function from a column of ids to their positions among these ascending ones."""
    if is_text(ids.type):
        return lambda column: pc.index_in(column.cast(pa.large_string()), value_set=ids).to_numpy().astype(np.int64)
    values = ids.to_numpy(zero_copy_only=False)
    low, high = (int(values[0]), int(values[-1])) if len(values) else (0, 0)
    if high - low >= CLOSE * len(values) + (1 << 16):
        return lambda column: np.searchsorted(values, column.to_numpy(zero_copy_only=False)).astype(np.int64)
    rank = np.zeros(high - low + 1, index_type(len(values)))
    rank[values - values.dtype.type(low)] = np.arange(len(values), dtype=rank.dtype)
    return lambda column: rank[column.to_numpy(zero_copy_only=False) - values.dtype.type(low)].astype(np.int64)


def _packed(ids: pa.Array, kinds: Sequence[str] = ()) -> Array:
    """A column of ids as bytes, with the kinds of edges."""
    sink, table = pa.BufferOutputStream(), pa.table({"id": ids}, metadata={"kinds": json.dumps(list(kinds))})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return np.frombuffer(sink.getvalue(), np.uint8)


def _joined(columns: Sequence[tuple[Array, ...]]) -> tuple[Array, ...]:
    """Sources, targets, weights and kinds of several pieces, one after the other."""
    empty = tuple(np.empty(0, kind) for kind in DEALT[1:])
    return tuple(np.concatenate(parts) for parts in zip(empty, *columns, strict=True))


def _stripe_rows(n: int, stripes: int) -> int:
    return -(-n // stripes)


def _by_size(sizes: Array, most: int) -> list[tuple[int, int]]:
    """Runs of stripes with at most so many entries; one that has more is alone."""
    out, first, count = [], 0, 0
    for i, size in enumerate(sizes.tolist()):
        if i > first and count + size > most:
            out.append((first, i))
            first, count = i, 0
        count += size
    return [*out, (first, len(sizes))]


def _units(files: tuple[File, ...], most: int) -> tuple[list[tuple[int, ...]], int]:
    """Runs of row groups of about so many edges, larger groups in pieces, as of `BuildDescription`; and all edges."""
    units: list[tuple[int, ...]] = []
    total = 0
    for at, file in enumerate(files):
        with file_errors(file.path), file.raw() as stream:
            metadata = pq.ParquetFile(stream).metadata
        first, rows = 0, 0
        for group in range(metadata.num_row_groups):
            rows += metadata.row_group(group).num_rows
            if rows >= most or group + 1 == metadata.num_row_groups:
                pieces = max(1, rows // most)  # of equal size, about: of one that is larger than all others
                cuts = [rows * piece // pieces for piece in range(pieces + 1)]
                units += [(at, first, group + 1, total, *cut) for cut in itertools.pairwise(cuts)]
                total += rows
                first, rows = group + 1, 0
    return units, total


def _identity(file: File) -> list[Any]:
    """The size of a file and when it was written, to detect a changed one."""
    if isinstance(file.path, ObjectPath):
        return [str(file.path), file.path.size(), file.path.written()]
    state = file.path.stat()
    return [str(file.path.resolve()), state.st_size, state.st_mtime_ns]
