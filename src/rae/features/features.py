"""X_s, made from the graph alone, and X_a, given by the user and checked: dense or sparse.

A feature matrix is a float32 or float16 array or a float32 SciPy CSR, one row per node in the graph's
row order. Sparse stays sparse from here to the last product, half precision is widened where rows are
used, and what lies in a mapped file stays there. A `FeatureTable` is such a matrix keyed by the user's
ids, in any order.
"""

from __future__ import annotations

import difflib
import logging
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from rae.config import Config
from rae.errors import Argument, FeatureError
from rae.graph import Graph
from rae.graph.column_names import ID, position, usual
from rae.graph.frames import as_table, is_frame, numbers, own_index, without_ids
from rae.graph.ids import doubled, id_array, in_words, index_in, shown
from rae.memory import forget, mapped
from rae.ops import cpu
from rae.runtime import in_ranges, key

log = logging.getLogger("rae")

MOST_COLUMNS = 1 << 28  # weights of 192 columns each are 200 GB already

DEFAULT = Config()
Matrix = np.ndarray[Any, np.dtype[np.float32 | np.float16]] | sp.csr_array

PIECE = 1 << 22  # numbers looked at at a time, so that a check needs no room that grows with the matrix


def is_sparse(x: Any) -> bool:
    """Whether x is a SciPy sparse matrix or array."""
    return bool(sp.issparse(x))


def structural_features(
    graph: Graph,
    *,
    cap: int = DEFAULT.degree_cap,
    above_cap: str = DEFAULT.degree_above_cap,
    scale: str = DEFAULT.degree_scale,
    seed: int = DEFAULT.seed,
    rows: tuple[int, int] | None = None,
) -> np.ndarray[Any, np.dtype[np.float32]]:
    """X_s: own degree, then the neighbours' degrees, largest first, zero-padded.  -> (n, 1 + cap)

    Above the cap, `above_cap="even"` keeps evenly spaced order statistics, so equal positions get
    equal features; `"random"` samples neighbours, as the paper does. `scale="log"` gives
    log(1 + degree), `"raw"` the degrees. Defaults are Config's. `rows` = (a, b) gives rows a..b alone.

    >>> structural_features(Graph.from_edges([(0, 1), (1, 2)]), cap=2, scale="raw").tolist()
    [[1.0, 2.0, 0.0], [2.0, 1.0, 1.0], [1.0, 2.0, 0.0]]
    """
    a, b = (0, graph.n_nodes) if rows is None else rows
    out = np.zeros((b - a, 1 + cap), np.float32)
    random, salt = above_cap == "random", key(seed, "degrees")

    def work(start: int, stop: int) -> None:
        cpu.neighbor_degrees(graph.offsets, graph.targets, graph.degrees, cap, random, salt, a, out, start, stop)

    in_ranges(work, b - a, 1024)
    return np.log1p(out) if scale == "log" else out


def check_matrix(x: Any, n_rows: int | None = None) -> Matrix:
    """x as a finite matrix with one row per node: a C-ordered float32 or float16 array, or a float32 CSR.

    What is one already comes back as it is; a mapped file stays on disk and is read in pieces. A data frame is
    taken row by row; one that has ids of its own is refused: `FeatureTable.from_dataframe`.
    """
    if hasattr(x, "detach"):  # a torch tensor
        x = _from_torch(x.detach().cpu())
    elif is_frame(x):
        x = without_ids(x)
    matrix: Any = _as_rows(x) if is_sparse(x) else _as_array(x)
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise FeatureError(
            f"features must be a table with one row per node and a column or more, got shape {matrix.shape}"
        )
    if matrix.shape[1] > MOST_COLUMNS:
        raise FeatureError(
            f"features must have {MOST_COLUMNS:,} columns or fewer, since each has weights of its own, "
            f"got {matrix.shape[1]:,}; hash or drop the rare ones"
        )
    if n_rows is not None and matrix.shape[0] != n_rows:
        raise FeatureError(
            f"features must have one row per node ({n_rows:,}), got {matrix.shape[0]:,}; "
            "pass a FeatureTable (rae.read_features) if the rows are keyed by id",
            argument="features",
        )
    _refuse_gaps(matrix)
    checked: Matrix = matrix
    return checked


def _as_array(x: Any) -> Any:
    array = np.asarray(x)
    _refuse_kind(array.dtype)
    return np.require(array, np.float16 if array.dtype == np.float16 else np.float32, ["C", "A"])


def _as_rows(x: Any) -> Any:
    """The CSR of sparse x, each entry once and in order."""
    _refuse_kind(x.dtype)
    matrix: Any = x if isinstance(x, sp.csr_array) and x.dtype == np.float32 else sp.csr_array(x, dtype=np.float32)
    if not _in_order(matrix):
        matrix = matrix.copy()  # the arrays are the caller's, or a file's
        matrix.sum_duplicates()
    return matrix


def _in_order(matrix: Any) -> bool:
    if mapped(matrix.indices) is None:
        return bool(matrix.has_canonical_format)
    for a, b in _runs(matrix.indptr):
        if not run_of_rows(matrix, a, b).has_canonical_format:
            return False
        forget(matrix.indices, matrix.data)
    return True


def _runs(indptr: Any) -> Iterator[tuple[int, int]]:
    """Runs of rows a..b with PIECE entries or fewer, or one row."""
    a, n = 0, len(indptr) - 1
    while a < n:
        b = max(a + 1, bisect_right(indptr, int(indptr[a]) + PIECE) - 1)
        yield a, b
        a = b


def _refuse_gaps(matrix: Any) -> None:
    """Refuse what is not finite, with the number of such entries and the place of the first."""
    values = matrix.data if is_sparse(matrix) else matrix
    step = max(1, PIECE // max(1, values[:1].size))
    bad = 0
    first: tuple[int, ...] = ()
    for a in range(0, len(values), step):
        finite = np.isfinite(values[a : a + step])
        if not finite.all():
            row, *column = (int(places[0]) for places in np.nonzero(~finite))
            first = first if bad else (a + row, *column)
            bad += int(np.count_nonzero(~finite))
        forget(values)
    if bad and is_sparse(matrix):
        first = bisect_right(matrix.indptr, first[0]) - 1, int(matrix.indices[first[0]])
    if bad:
        raise FeatureError(
            f"features must be finite numbers within float32, got {bad:,} NaN or infinite, "
            f"first in row {first[0]:,}, column {first[1]:,}; fill or drop them"
        )


def run_of_rows(matrix: Any, a: int, b: int) -> Any:
    """Rows a..b of a float32 CSR, without a copy of their entries."""
    start, stop = matrix.indptr[a], matrix.indptr[b]
    part: Any = sp.csr_array((b - a, matrix.shape[1]), dtype=np.float32)
    part.data, part.indices = matrix.data[start:stop], matrix.indices[start:stop]
    part.indptr = matrix.indptr[a : b + 1] - start
    return part


def widened(rows: Matrix) -> Matrix:
    """Rows as a model computes with them: those of half precision as float32, others as they are."""
    return rows.astype(np.float32) if rows.dtype == np.float16 else rows


def _from_torch(x: Any) -> Any:
    if str(x.layout) != "torch.strided":
        entries = x.to_sparse_coo().coalesce()
        if entries.ndim != 2 or entries.sparse_dim() != 2:
            raise FeatureError(f"sparse features must be a matrix, got shape {tuple(x.shape)}; pass x.to_dense()")
        return sp.coo_array((_from_torch(entries.values()), tuple(entries.indices().numpy())), shape=tuple(x.shape))
    return (x.float() if str(x.dtype) == "torch.bfloat16" else x).numpy()  # NumPy has no bfloat16


def _refuse_kind(dtype: np.dtype[Any]) -> None:
    if dtype.kind not in "biuf":
        raise FeatureError(f"features must be numbers, got {dtype}; turn text into numbers first (one column per word)")


def concatenate(first: Any, second: Any) -> Matrix:
    """Two feature matrices side by side; sparse if either is."""
    a, b = check_matrix(first), check_matrix(second)
    if a.shape[0] != b.shape[0]:
        raise FeatureError(f"both must have one row per node, got {a.shape[0]:,} and {b.shape[0]:,} rows")
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return np.ascontiguousarray(np.hstack([a, b]))
    return sp.csr_array(sp.hstack([sp.csr_array(widened(a)), sp.csr_array(widened(b))], format="csr"))


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """Features keyed by id: row i belongs to `id_column[i]`, column j is called `names[j]`.

    `open_vocabulary` says that a column which is absent means zero everywhere (a table of
    (id, feature) pairs), so that tomorrow's table may lack words and bring new ones.
    """

    id_column: pa.Array
    matrix: Matrix
    names: tuple[str, ...] | None = None
    open_vocabulary: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "id_column", id_array(self.id_column))
        object.__setattr__(self, "matrix", check_matrix(self.matrix, len(self.id_column)))
        if self.names is not None and len(self.names) != self.matrix.shape[1]:
            raise FeatureError(f"names must have one entry per column ({self.width:,}), got {len(self.names):,}")
        if len(twice := doubled(self.id_column)):
            raise FeatureError(
                f"every id must have one feature row, got {len(twice):,} with more, first {shown(twice)}"
            )

    @classmethod
    def from_dataframe(cls, df: Any, id: str | None = None) -> FeatureTable:
        """The features of a pandas, polars or Arrow table, keyed by id; all other columns are numbers.

        `id` names the column of ids; by default the one called id, node or node_id, else an index
        of a pandas frame that is more than the row number.

        >>> FeatureTable.from_dataframe(pa.table({"id": ["ann", "bob"], "age": [40, 30]})).names
        ('age',)
        """
        index = own_index(df)
        table = as_table(df)
        names = table.column_names
        place = usual(names, ID) if id is None else position(id, names)
        if isinstance(place, str) and index is not None and id in index.names:
            place = None
        if isinstance(place, str):
            raise FeatureError(place)
        if place is None and index is None:
            listed = ", ".join(map(repr, names[:8]))
            raise FeatureError("which column holds the ids? pass ", Argument("id", ...), f", one of {listed or 'none'}")
        ids = id_array(index if place is None else table.column(place))
        values = table if place is None else table.remove_column(place)
        return cls(ids, numbers(values), tuple(values.column_names))

    @property
    def width(self) -> int:
        return int(self.matrix.shape[1])

    def aligned(self, graph: Graph, missing: str = "error", unknown: str = "error") -> Matrix:
        """The matrix in the graph's row order.

        `missing="zero"` gives nodes without a row zeros; `unknown="drop"` leaves out rows of ids
        that the graph does not have. Otherwise either is an error. Rows that are in order stay where they are.
        """
        if self.id_column.equals(graph.id_column):
            return self.matrix
        found = index_in(graph.id_column, self.id_column)
        if found.null_count == graph.n_nodes:
            raise FeatureError(
                f"none of the {graph.n_nodes:,} nodes has a feature row: node ids are {graph.id_column.type} such as "
                f"{shown(graph.id_column)}, feature ids are {self.id_column.type} such as {shown(self.id_column)}"
            )
        if found.null_count and missing == "error":
            lacking = graph.id_column.filter(pc.is_null(found))
            raise FeatureError(
                f"{len(lacking):,} of {graph.n_nodes:,} nodes have no feature row, first {shown(lacking)}; ",
                *("add them, or pass ", Argument("missing", "zero"), " to give them zeros"),
            )
        extra = len(self.id_column) - (graph.n_nodes - found.null_count)
        if extra and unknown == "error":
            strangers = self.id_column.filter(pc.is_null(index_in(self.id_column, graph.id_column)))
            kinds = [in_words(column.type) for column in (graph.id_column, self.id_column)]
            way = "add them with graph.with_nodes(table.id_column)"
            if kinds[0] != kinds[1]:
                way = f"ids are {kinds[0]} in the graph and {kinds[1]} in the table: read both with as_text=True"
            raise FeatureError(
                f"{extra:,} feature rows belong to ids that are not in the graph, first {shown(strangers)}; ",
                *(f"{way}, or pass ", Argument("unknown", "drop")),
            )
        rows = pc.fill_null(found, 0).to_numpy(zero_copy_only=False)
        lacks = pc.is_null(found).to_numpy(zero_copy_only=False)
        matrix: Any = self.matrix[rows]
        if lacks.any() and is_sparse(matrix):
            kept = np.repeat(~lacks, np.diff(matrix.indptr))
            ends = np.cumsum(np.where(lacks, 0, np.diff(matrix.indptr)))
            parts = (matrix.data[kept], matrix.indices[kept], np.concatenate([[0], ends]))
            matrix = sp.csr_array(parts, shape=matrix.shape)
        elif lacks.any():
            matrix[lacks] = 0
        aligned: Matrix = matrix
        return aligned

    def with_columns(self, names: Sequence[str]) -> FeatureTable:
        """The same rows with exactly these columns, in this order, as a fitted model expects them."""
        if self.names is None:
            raise FeatureError(f"the model knows its {len(names):,} feature columns by name, this table has no names")
        if tuple(names) == self.names:
            return self
        place = {name: j for j, name in enumerate(self.names)}
        absent = [name for name in names if name not in place]
        if absent and not self.open_vocabulary:
            near = difflib.get_close_matches(absent[0], self.names, n=1)
            hint = f"; did {near[0]!r} change its name?" if near else ""
            raise FeatureError(
                f"the model needs {len(names):,} feature columns, {len(absent):,} are not in this table, "
                f"first {absent[0]!r}{hint}"
            )
        if len(absent) == len(names):
            raise FeatureError(f"none of the model's {len(names):,} features occurs here, first {absent[0]!r}")
        known = set(names)
        extra = [name for name in self.names if name not in known] if not self.open_vocabulary else []
        if extra:
            log.warning("%d feature columns are unknown to the model and left out, first %r", len(extra), extra[0])
        new = np.full(self.width, -1)
        for j, name in enumerate(names):
            if name in place:
                new[place[name]] = j
        return FeatureTable(self.id_column, self._moved(new, len(names)), tuple(names), self.open_vocabulary)

    def _moved(self, new: np.ndarray[Any, Any], width: int) -> Matrix:
        """The matrix with column j at new[j], left out where that is -1, and zeros where none came."""
        shape = (len(self.id_column), width)
        if isinstance(self.matrix, np.ndarray):
            moved = np.zeros(shape, self.matrix.dtype)
            moved[:, new[new >= 0]] = self.matrix[:, new >= 0]
            return moved
        coo = sp.coo_array(self.matrix)
        kept = new[coo.col] >= 0
        return sp.csr_array((coo.data[kept], (coo.row[kept], new[coo.col[kept]])), shape=shape)


def prepare(graph: Graph, features: Any, config: Config) -> Matrix:
    """The matrix a model reads for this graph: X_a if given, else X_s, both if the user chose so."""
    structural = features is None or config.add_structure
    x_s = structural_features(
        graph,
        cap=config.degree_cap,
        above_cap=config.degree_above_cap,
        scale=config.degree_scale,
        seed=config.seed,
    ) if structural else None  # fmt: skip
    if features is None:
        assert x_s is not None
        return x_s
    x_a = features.aligned(graph) if isinstance(features, FeatureTable) else check_matrix(features, graph.n_nodes)
    if is_frame(features):
        _refuse_id_column(features, graph)
    return x_a if x_s is None else concatenate(x_s, x_a)


def _refuse_id_column(df: Any, graph: Graph) -> None:
    """A column that holds exactly the graph's ids is no feature, whatever its name."""
    table = as_table(df)
    for name, column in zip(table.column_names, table.columns, strict=True):
        if not pa.types.is_integer(column.type):
            continue
        ids = id_array(column)
        if len(ids.unique()) == len(ids) and index_in(ids, graph.id_column).null_count == 0:
            raise FeatureError(
                f"the column {name!r} of the data frame holds the ids of the nodes: pass "
                f"FeatureTable.from_dataframe(df, id={name!r}) to find rows by id, or leave the column out"
            )
