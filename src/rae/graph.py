"""Graph: an immutable undirected graph in compressed rows, with the user's own ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rae.errors import GraphError
from rae.kernels import cpu
from rae.runtime import in_ranges

Ints = np.ndarray[Any, np.dtype[np.integer[Any]]]
A = TypeVar("A", bound=np.ndarray[Any, Any])


@dataclass(frozen=True)
class Counts:
    """What was done to the edges on the way in: rows = self_loops + doubled + n_edges."""

    rows: int = 0
    self_loops: int = 0
    doubled: int = 0

    def __str__(self) -> str:
        return f"{self.rows:,} rows read, {self.doubled:,} doubled merged, {self.self_loops:,} self-loops dropped"


@dataclass(frozen=True, eq=False)
class Graph:
    """An undirected graph without loops or doubled edges; row i is the node `ids[i]`.

    >>> g = Graph.from_edges([("ann", "bob"), ("bob", "cid")])
    >>> g.n_nodes, g.n_edges, list(g.ids)
    (3, 2, ['ann', 'bob', 'cid'])
    """

    offsets: Ints  # (n + 1,) int64
    targets: Ints  # (2 m,) int32, sorted within a row
    id_column: pa.Array  # (n,) the ids, exactly as Arrow holds them
    counts: Counts = field(default_factory=Counts)

    # -------------------------------------------------------------------------- reading it

    @property
    def n_nodes(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_edges(self) -> int:
        """Undirected edges, each counted once."""
        return len(self.targets) // 2

    @cached_property
    def ids(self) -> np.ndarray[Any, Any]:
        """The ids in row order, as NumPy holds them (text and other kinds as Python objects)."""
        kind = self.id_column.type
        if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
            return _read_only(self.id_column.to_numpy(zero_copy_only=False))
        out = np.empty(self.n_nodes, dtype=object)
        out[:] = self.id_column.to_pylist()
        return _read_only(out)

    @cached_property
    def degrees(self) -> Ints:
        """(n,) number of neighbours of each node."""
        return _read_only(np.diff(self.offsets))

    @property
    def n_isolated(self) -> int:
        """Nodes without a neighbour."""
        return int(np.count_nonzero(self.degrees == 0))

    def neighbors(self, row: int) -> Ints:
        """N(u): the rows adjacent to this row, ascending."""
        if not -self.n_nodes <= row < self.n_nodes:
            raise GraphError(f"row must be below {self.n_nodes:,}, got {row}; use rows([id]) to look an id up")
        row %= self.n_nodes
        return self.targets[self.offsets[row] : self.offsets[row + 1]]

    def rows(self, ids: Any) -> Ints:
        """The rows of these ids, in their order; an unknown id is refused."""
        wanted = id_array(ids)
        found = index_in(wanted, self.id_column)
        if found.null_count:
            missing = wanted.filter(pc.is_null(found))
            raise GraphError(
                f"{len(missing):,} of {len(wanted):,} ids are not in the graph, first {shown(missing)}; "
                f"ids here are {self.id_column.type}"
            )
        rows: Ints = found.to_numpy(zero_copy_only=False).astype(np.int64)
        return rows

    def adjacent(self, us: Ints, vs: Ints) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Whether each pair of rows shares an edge.  (b,), (b,) -> (b,)"""
        us, vs = np.ascontiguousarray(us, np.int64), np.ascontiguousarray(vs, np.int64)
        out = np.empty(len(us), np.bool_)
        in_ranges(lambda a, b: cpu.adjacent(self.offsets, self.targets, us, vs, out, a, b), len(us), 4096)
        return out

    def __repr__(self) -> str:
        return (
            f"Graph(n_nodes={self.n_nodes:,}, n_edges={self.n_edges:,}, isolated={self.n_isolated:,}, "
            f"ids={self.id_column.type})"
        )

    # -------------------------------------------------------------------------- making it

    @classmethod
    def from_edges(cls, edges: Any, ids: Any = None) -> Graph:
        """The graph of these edges: pairs, an (m, 2) array, or a tuple of two arrays.

        Without `ids` the nodes are the ends of the edges, sorted. With `ids`, those are the nodes,
        in that order, edges or not.

        >>> Graph.from_edges([(3, 1), (1, 3), (2, 2)], ids=[1, 2, 3]).counts
        Counts(rows=3, self_loops=1, doubled=1)
        """
        source, target = _two_columns(edges)
        return cls._from_columns(source, target, None if ids is None else id_array(ids))

    @classmethod
    def from_dataframe(cls, df: Any, source: str | None = None, target: str | None = None, ids: Any = None) -> Graph:
        """The graph of a pandas, polars or Arrow table; by default its first two columns."""
        table = _as_table(df)
        names = table.column_names
        if len(names) < 2:
            raise GraphError(f"an edge table needs two columns, got {names}")
        columns = []
        for role, name, default in (("source", source, names[0]), ("target", target, names[1])):
            name = default if name is None else name
            if name not in names:
                raise GraphError(f"no column {name!r} for {role}=; the table has {', '.join(map(repr, names))}")
            columns.append(table.column(name))
        return cls._from_columns(id_array(columns[0]), id_array(columns[1]), None if ids is None else id_array(ids))

    @classmethod
    def from_scipy(cls, matrix: Any, ids: Any = None) -> Graph:
        """The graph of a square SciPy sparse (or dense) adjacency matrix; weights are ignored."""
        import scipy.sparse as sp

        if len(getattr(matrix, "shape", ())) != 2 or matrix.shape[0] != matrix.shape[1]:
            raise GraphError(f"an adjacency matrix must be square, got shape {getattr(matrix, 'shape', None)}")
        coo = sp.coo_array(matrix)
        n = coo.shape[0]
        present = coo.data != 0
        column = id_array(np.arange(n, dtype=np.int64) if ids is None else ids)
        if len(column) != n:
            raise GraphError(f"ids must have one entry per row ({n:,}), got {len(column):,}")
        _refuse_doubled(column)
        row, col = coo.row[present], coo.col[present]
        return cls._from_codes(np.ascontiguousarray(row), np.ascontiguousarray(col), column)

    @classmethod
    def from_networkx(cls, graph: Any) -> Graph:
        """The graph of a networkx graph; its nodes are the ids, in networkx's order."""
        nodes = list(graph.nodes)
        place = {node: i for i, node in enumerate(nodes)}
        pairs = np.fromiter((place[end] for edge in graph.edges() for end in edge), np.int64, -1).reshape(-1, 2)
        source, target = np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])
        return cls._from_codes(source, target, id_array(nodes))

    @classmethod
    def from_pyg(cls, data: Any, ids: Any = None) -> Graph:
        """The graph of a PyTorch Geometric Data: its edge_index, with num_nodes nodes 0, 1, 2, ..."""
        index = getattr(data, "edge_index", None)
        if index is None:
            raise GraphError(f"expected a PyG Data with an edge_index, got {type(data).__name__}")
        n = int(data.num_nodes)
        ends = index.detach().cpu().numpy().astype(np.int64, copy=False)
        if ends.ndim != 2 or ends.shape[0] != 2:
            raise GraphError(f"edge_index must have shape (2, m), got {tuple(ends.shape)}")
        if ends.size and not 0 <= int(ends.min()) <= int(ends.max()) < n:
            raise GraphError(f"edge_index must name nodes 0..{n - 1}, got {int(ends.min())}..{int(ends.max())}")
        column = id_array(np.arange(n, dtype=np.int64) if ids is None else ids)
        if len(column) != n:
            raise GraphError(f"ids must have one entry per node ({n:,}), got {len(column):,}")
        _refuse_doubled(column)
        return cls._from_codes(np.ascontiguousarray(ends[0]), np.ascontiguousarray(ends[1]), column)

    def with_nodes(self, ids: Any) -> Graph:
        """The same graph and, after its nodes, those of `ids` it did not have, as isolated nodes."""
        extra = _same_kind(id_array(ids), self.id_column.type, "the new ids")
        extra = extra.filter(pc.is_null(index_in(extra, self.id_column))).unique()
        if len(extra) == 0:
            return self
        offsets = np.concatenate([self.offsets, np.full(len(extra), self.offsets[-1])])
        return replace(self, offsets=_read_only(offsets), id_column=pa.concat_arrays([self.id_column, extra]))

    @classmethod
    def disjoint_union(cls, graphs: Sequence[Graph]) -> Graph:
        """All graphs side by side, unconnected; ids become 0, 1, 2, ... in the order given."""
        if not graphs:
            raise GraphError("expected at least one graph, got none")
        starts = np.cumsum([0, *(g.n_nodes for g in graphs)])
        ends = np.cumsum([0, *(len(g.targets) for g in graphs)])
        offsets = np.concatenate([[0], *(g.offsets[1:] + e for g, e in zip(graphs, ends, strict=False))])
        targets = np.concatenate(
            [g.targets + _index_type(int(starts[-1]))(s) for g, s in zip(graphs, starts, strict=False)]
        )
        counts = Counts(*(sum(getattr(g.counts, f) for g in graphs) for f in ("rows", "self_loops", "doubled")))
        return cls(_read_only(offsets.astype(np.int64)), _read_only(targets), pa.array(np.arange(starts[-1])), counts)

    @classmethod
    def _from_columns(cls, source: pa.Array, target: pa.Array, ids: pa.Array | None) -> Graph:
        if len(source) != len(target):
            raise GraphError(f"source and target must be equally long, got {len(source):,} and {len(target):,}")
        if ids is None:
            source, target = _one_kind(source, target)
            coded = pa.concat_arrays([source, target]).dictionary_encode()
            order = pc.array_sort_indices(coded.dictionary).to_numpy()
            rank = np.empty(len(order), np.int64)
            rank[order] = np.arange(len(order))
            codes = rank[coded.indices.to_numpy()] if len(coded) else np.empty(0, np.int64)
            return cls._from_codes(codes[: len(source)], codes[len(source) :], coded.dictionary.take(pa.array(order)))
        _refuse_doubled(ids)
        ends = []
        for name, column in (("source", source), ("target", target)):
            column = _same_kind(column, ids.type, f"the {name} ids") if len(column) else column
            found = index_in(column, ids) if len(column) else pa.array([], pa.int32())
            if found.null_count:
                unknown = column.filter(pc.is_null(found))
                raise GraphError(
                    f"{len(unknown):,} edges name a {name} that is not among ids=, first {shown(unknown)}; "
                    "add it to ids, or leave ids out"
                )
            ends.append(found.to_numpy(zero_copy_only=False).astype(np.int64))
        return cls._from_codes(ends[0], ends[1], ids)

    @classmethod
    def _from_codes(cls, source: Ints, target: Ints, ids: pa.Array) -> Graph:
        """The graph of edges given as row numbers."""
        n = len(ids)
        if n == 0:
            raise GraphError("a graph needs at least one node, got no edges and no ids")
        counts = np.zeros(n + 1, np.int64)
        loops = int(cpu.count_ends(source, target, counts))
        offsets = np.cumsum(counts)
        targets = np.empty(int(offsets[-1]), _index_type(n))
        cpu.place_ends(source, target, offsets[:-1].copy(), targets)
        in_ranges(lambda a, b: cpu.sort_rows(offsets, targets, counts, a, b), n, 1024)
        counts[0] = 0
        kept = np.cumsum(counts)
        out = targets
        if kept[-1] < offsets[-1]:
            out = np.empty(int(kept[-1]), targets.dtype)
            in_ranges(lambda a, b: cpu.compact_rows(offsets, kept, targets, out, a, b), n, 1024)
        doubled = len(source) - loops - len(out) // 2
        return cls(_read_only(kept), _read_only(out), ids, Counts(len(source), loops, doubled))


# ------------------------------------------------------------------------------------- ids


def id_array(ids: Any) -> pa.Array:
    """Any column of ids as one Arrow array; missing ids and mixed kinds are refused."""
    if isinstance(ids, pa.ChunkedArray):
        ids = ids.combine_chunks() if ids.num_chunks != 1 else ids.chunk(0)
    if not isinstance(ids, pa.Array):
        ids = _arrow(ids)
    if isinstance(ids, pa.ChunkedArray):  # combine_chunks of very long columns
        raise GraphError("too many ids for one array; split the table")
    if pa.types.is_dictionary(ids.type):
        ids = ids.dictionary_decode()
    if pa.types.is_string_view(ids.type) or pa.types.is_large_string(ids.type):
        ids = ids.cast(pa.string() if ids.nbytes < 2**31 else pa.large_string())
    bad = ids.null_count
    if pa.types.is_floating(ids.type):
        bad = pc.sum(pc.is_null(ids, nan_is_null=True)).as_py() or 0
    if bad and len(ids):
        first = pc.index(pc.is_null(ids, nan_is_null=True), True).as_py()
        raise GraphError(f"every id must be there, got {bad:,} missing, first in row {first:,}; drop those rows")
    return ids


def _arrow(values: Any) -> pa.Array:
    if not isinstance(values, (np.ndarray, list, tuple)) and hasattr(values, "__arrow_array__"):
        return pa.array(values)
    if hasattr(values, "to_arrow"):  # polars
        return values.to_arrow()
    if hasattr(values, "to_numpy"):  # pandas
        values = values.to_numpy()
    if not isinstance(values, np.ndarray):
        values = list(values)
    if isinstance(values, np.ndarray) and values.ndim != 1:
        raise GraphError(f"ids must be one column, got shape {values.shape}")
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as error:
        unsigned = _as_unsigned(values)
        if unsigned is not None:
            return unsigned
        raise GraphError(
            f"ids must be all of one kind that Arrow can hold (whole numbers below 2**64, text, ...): {error}; "
            "turn them into text first"
        ) from None


def _as_unsigned(values: Any) -> pa.Array | None:
    """Whole numbers between 2**63 and 2**64, which Arrow only takes when told so."""
    if not all(isinstance(v, (int, np.integer)) for v in values):
        return None
    try:
        return pa.array([int(v) for v in values], pa.uint64())
    except (OverflowError, pa.ArrowInvalid):
        return None


def _two_columns(edges: Any) -> tuple[pa.Array, pa.Array]:
    if isinstance(edges, tuple) and len(edges) == 2 and not any(isinstance(e, (tuple, str, bytes)) for e in edges):
        return id_array(edges[0]), id_array(edges[1])
    if hasattr(edges, "detach"):  # a torch tensor
        edges = edges.detach().cpu().numpy()
    if isinstance(edges, np.ndarray):
        if edges.ndim != 2 or (edges.shape[1] != 2 and edges.size):
            raise GraphError(
                f"edges must have shape (m, 2), got {edges.shape}; pass edges.T or a tuple of two arrays if the "
                "two ends are rows"
            )
        edges = edges.reshape(-1, 2)
        return id_array(edges[:, 0]), id_array(edges[:, 1])
    if isinstance(edges, (str, bytes)) or not isinstance(edges, Iterable) or hasattr(edges, "columns"):
        raise GraphError(
            f"edges must be pairs or two arrays, got {type(edges).__name__}; rae.read_edges reads files, "
            "Graph.from_dataframe reads tables"
        )
    pairs = list(edges)
    for i, pair in enumerate(pairs):
        if isinstance(pair, (str, bytes)) or not hasattr(pair, "__len__") or len(pair) != 2:
            raise GraphError(f"every edge must be a pair, got {pair!r} at position {i}")
    return id_array([p[0] for p in pairs]), id_array([p[1] for p in pairs])


def _as_table(df: Any) -> pa.Table:
    if isinstance(df, pa.Table):
        return df
    if isinstance(df, pa.RecordBatch):
        return pa.Table.from_batches([df])
    if hasattr(df, "__arrow_c_stream__"):  # polars, pandas >= 2.2, duckdb, ...
        return pa.table(df)
    if type(df).__module__.startswith("pandas"):
        return pa.Table.from_pandas(df, preserve_index=False)
    if hasattr(df, "to_arrow"):
        return df.to_arrow()
    raise GraphError(f"expected a pandas, polars or Arrow table, got {type(df).__name__}")


def _one_kind(source: pa.Array, target: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Both columns in one type, so that 7 and 7 are one node whatever width they were stored in."""
    a, b = source.type, target.type
    if a == b:
        return source, target
    if len(source) == 0 or len(target) == 0:
        return source, target
    if pa.types.is_integer(a) and pa.types.is_integer(b):
        for kind in (pa.int64(), pa.uint64()):
            try:
                return source.cast(kind), target.cast(kind)
            except pa.ArrowInvalid:
                continue
    raise GraphError(f"source and target ids must be of one kind, got {a} and {b}; turn both into text first")


def _same_kind(column: pa.Array, kind: pa.DataType, what: str) -> pa.Array:
    if column.type == kind or len(column) == 0:
        return column.cast(kind) if len(column) == 0 else column
    if pa.types.is_integer(column.type) and pa.types.is_integer(kind):
        try:
            return column.cast(kind)
        except pa.ArrowInvalid:
            pass
    raise GraphError(f"{what} are {column.type}, the graph's are {kind}; they must be of one kind")


def index_in(column: pa.Array, values: pa.Array) -> pa.Array:
    """Where each id of `column` stands in `values`, null where it does not.  (m,), (n,) -> (m,)"""
    if column.type != values.type:
        try:
            column = column.cast(values.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return pa.nulls(len(column), pa.int32())
    return pc.index_in(column, value_set=values)


def _refuse_doubled(ids: pa.Array) -> None:
    if len(ids.unique()) != len(ids):
        counted = pc.value_counts(ids)
        twice = counted.filter(pc.greater(counted.field("counts"), 1)).field("values")
        raise GraphError(f"every id must occur once, got {len(twice):,} more than once, first {shown(twice)}")


def shown(column: pa.Array, most: int = 3) -> str:
    """The first few distinct ids, as an error message quotes them."""
    return ", ".join(repr(v) for v in column.unique()[:most].to_pylist())


def _index_type(n: int) -> type[np.signedinteger[Any]]:
    return np.int32 if n < 2**31 else np.int64


def _read_only(array: A) -> A:
    array.flags.writeable = False
    return array
