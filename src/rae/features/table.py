"""FeatureTable: features keyed by the user's ids, in any order."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from rae.errors import Argument, FeatureError
from rae.features.columns import Encoding, category_of, columns_of_model, encode, refuse_gaps, say_unknown
from rae.features.matrix import Matrix, check_matrix, is_sparse
from rae.graph import Graph
from rae.graph.column_names import ID, position, usual
from rae.graph.frames import as_table, float_column, own_index
from rae.graph.ids import codes_and_ids, distinct, doubled, id_array, in_words, index_in, is_text, shown

log = logging.getLogger("rae.inputs")  # what the command line shows: notes on the inputs


@dataclass(frozen=True, eq=False)
class FeatureTable:
    """Features keyed by id: row i belongs to `id_column[i]`, column j is called `names[j]`.

    `open_vocabulary` says that a column which is absent means zero everywhere (a table of
    (id, feature) pairs), so that tomorrow's table may lack words and bring new ones. `encodings` are the columns
    of the table that were no numbers; the values of a category are open in the same way.
    """

    id_column: pa.Array
    matrix: Matrix
    names: tuple[str, ...] | None = None
    open_vocabulary: bool = False
    encodings: tuple[Encoding, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "id_column", id_array(self.id_column))
        object.__setattr__(self, "matrix", check_matrix(self.matrix, len(self.id_column)))
        if self.names is not None and len(self.names) != self.matrix.shape[1]:
            raise FeatureError(f"names must have one entry per column ({self.width:,}), got {len(self.names):,}")
        refuse_doubled(self.id_column)

    @classmethod
    def from_dataframe(
        cls,
        df: Any,
        id: str | None = None,
        *,
        drop: Sequence[str] = (),
        categories: Sequence[str] = (),
        feature: str | None = None,
        value: str | None = None,
        like: Sequence[str] | None = None,
    ) -> FeatureTable:
        """The features of a data frame of any library (pandas, polars, Arrow, DuckDB, ...), keyed by id.

        `id` names the column of ids; by default the one called id, node or node_id, else an index
        that is more than the row number. All other columns but those of `drop` are features:
        numbers as they are, true and false as 1 and 0, dates as years since 2000, text and categories as one
        0/1 column per value. `categories` are columns of numbers to encode by value too. `like` are the columns
        of a fitted model, `model.feature_names`: today's columns are then encoded as they were for the fit.

        In a long frame, with a row per (id, word) pair, `feature` names the column of words, and `value` that of
        their numbers, by default 1 each.

        >>> table = pa.table({"id": ["ann", "bob"], "age": [40, 30], "town": ["Rome", "Bonn"]})
        >>> FeatureTable.from_dataframe(table).names
        ('age', 'town=Bonn', 'town=Rome')
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
        if feature is not None:
            words = id_array(table.column(column_number(feature, names)))
            numbers = None if value is None else float_column(table.column(column_number(value, names)), value)
            return cls.from_pairs(ids, words, numbers)
        dropped = {column_number(name, names) for name in drop}
        by_value = {names[column_number(name, names)] for name in categories}
        chosen = [i for i in range(len(names)) if i != place and i not in dropped]
        if not chosen:
            raise FeatureError("there are only ids, expected a column of features or more")
        if not len(ids):
            raise FeatureError("the table has no rows, expected one per node")
        refuse_doubled(ids, *pairs_advice([names[i] for i in chosen], [table.schema.types[i] for i in chosen]))
        chosen = [chosen[i] for i in columns_of_model([names[i] for i in chosen], like)]
        columns = [table.column(i) for i in chosen]
        encoded = encode(ids, [names[i] for i in chosen], columns, categories=by_value, like=like)
        return cls(ids, encoded.matrix, encoded.names, encodings=encoded.encodings)

    @classmethod
    def from_pairs(cls, ids: pa.Array, words: pa.Array, values: Any = None, *, rows: Any = None) -> FeatureTable:
        """The table of (id, word) pairs: one column per word, in order, with the sum of its values, 1 each by default.

        `rows` are the ids that have a row, with or without a pair; by default those of the pairs.

        >>> FeatureTable.from_pairs(pa.array(["ann", "bob"]), pa.array(["buys", "sells"])).names
        ('buys', 'sells')
        """
        values = np.ones(len(ids)) if values is None else np.asarray(values, np.float64)
        refuse_gaps(values[:, None], ids, ["value"])
        column, names = codes_and_ids(words)
        try:
            texts = names.cast(pa.string()).to_pylist()
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise FeatureError(f"the features must be words or items, got {words.type}; turn them into text") from None
        rows = distinct(ids) if rows is None else rows
        row = index_in(ids, rows).to_numpy(zero_copy_only=False)
        matrix = sp.csr_array((values, (row, column)), shape=(len(rows), len(texts)))
        return cls(rows, matrix, tuple(texts), open_vocabulary=True)

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
        positions = index_in(graph.id_column, self.id_column)
        if positions.null_count == graph.n_nodes:
            raise FeatureError(
                f"none of the {graph.n_nodes:,} nodes has a feature row: node ids are {graph.id_column.type} such as "
                f"{shown(graph.id_column)}, feature ids are {self.id_column.type} such as {shown(self.id_column)}"
            )
        if positions.null_count and missing == "error":
            missing_ids = graph.id_column.filter(pc.is_null(positions))
            raise FeatureError(
                f"{len(missing_ids):,} of {graph.n_nodes:,} nodes have no feature row, first {shown(missing_ids)}; ",
                *("add them, or pass ", Argument("missing", "zero"), " to give them zeros"),
            )
        extra = len(self.id_column) - (graph.n_nodes - positions.null_count)
        if extra and unknown == "error":
            unknown_ids = self.id_column.filter(pc.is_null(index_in(self.id_column, graph.id_column)))
            kinds = [in_words(column.type) for column in (graph.id_column, self.id_column)]
            way = "add them with graph.with_nodes(table.id_column)"
            if kinds[0] != kinds[1]:
                way = f"ids are {kinds[0]} in the graph and {kinds[1]} in the table: read both with as_text=True"
            raise FeatureError(
                f"{extra:,} feature rows belong to ids that are not in the graph, first {shown(unknown_ids)}; ",
                *(f"{way}, or pass ", Argument("unknown", "drop")),
            )
        rows = pc.fill_null(positions, 0).to_numpy(zero_copy_only=False)
        is_missing = pc.is_null(positions).to_numpy(zero_copy_only=False)
        matrix: Any = self.matrix[rows]
        if is_missing.any() and is_sparse(matrix):
            current = np.repeat(~is_missing, np.diff(matrix.indptr))
            ends = np.cumsum(np.where(is_missing, 0, np.diff(matrix.indptr)))
            parts = (matrix.data[current], matrix.indices[current], np.concatenate([[0], ends]))
            matrix = sp.csr_array(parts, shape=matrix.shape)
        elif is_missing.any():
            matrix[is_missing] = 0
        aligned: Matrix = matrix
        return aligned

    def with_names(self, names: Sequence[str]) -> FeatureTable:
        """The same columns by these names, column by column; columns that are known by number get the name of that.

        >>> FeatureTable.from_pairs(pa.array(["ann"]), pa.array([1])).with_names(["buys", "sells"]).names
        ('sells',)
        """
        current = self.names
        if current is None or not all(name.isascii() and name.isdigit() for name in current):
            if current is not None and len(names) != self.width:
                raise FeatureError(
                    f"the {self.width:,} columns have names already, first {current[0]!r}, and there are "
                    f"{len(names):,} others; leave ", Argument("feature_names"), " out",
                )  # fmt: skip
            return replace(self, names=tuple(names))
        if beyond := next((name for name in current if int(name) >= len(names)), None):
            raise FeatureError(
                Argument("feature_names"),
                f" must have a name for every number, feature {beyond} is beyond its {len(names):,}",
            )
        return replace(self, names=tuple(names[int(name)] for name in current))

    def with_columns(self, names: Sequence[str]) -> FeatureTable:
        """The same rows with exactly these columns, in this order, as a fitted model expects them."""
        if self.names is None:
            raise FeatureError(f"the model knows its {len(names):,} feature columns by name, this table has no names")
        if tuple(names) == self.names:
            return self
        place = {name: j for j, name in enumerate(self.names)}
        absent = [name for name in names if name not in place]
        categories = self.categories
        closed = [] if self.open_vocabulary else absent
        if needed := [name for name in closed if category_of(name, categories) is None]:
            raise FeatureError(
                f"the model needs {len(names):,} feature columns, {len(needed):,} are not in this table, "
                f"first {needed[0]!r}",
                *self._hint(needed[0]),
            )
        if len(absent) == len(names):
            raise FeatureError(f"none of the model's {len(names):,} features occurs here, first {absent[0]!r}")
        expected = set(names)
        self._say_unknown([] if self.open_vocabulary else [name for name in self.names if name not in expected])
        new = np.full(self.width, -1)
        for j, name in enumerate(names):
            if name in place:
                new[place[name]] = j
        return replace(self, matrix=self._moved(new, len(names)), names=tuple(names))

    @property
    def categories(self) -> frozenset[str]:
        """The columns of the table that became one column per value."""
        return frozenset(e.column for e in self.encodings if e.kind == "category")

    def _hint(self, name: str) -> tuple[str | Argument, ...]:
        """Why a column that the model needs may be absent."""
        names = self.names or ()
        if (column := category_of(name, names)) is not None:
            by_value = Argument("categories", [column])
            return (f"; column {column!r} holds numbers here and held categories in the fit: pass ", by_value)
        near = difflib.get_close_matches(name, names, n=1)
        return (f"; did {near[0]!r} change its name?",) if near else ()

    def _say_unknown(self, names: Sequence[str]) -> None:
        """Log the columns that the model does not know: new values of its categories, and others."""
        categories = self.categories
        values = [name for name in names if category_of(name, categories) is not None]
        others = [name for name in names if category_of(name, categories) is None]
        if values:
            log.info("%d values of categories are unknown to the model: zeros, first %r", len(values), values[0])
        say_unknown(others)

    def _moved(self, new: np.ndarray[Any, Any], width: int) -> Matrix:
        """The matrix with column j at new[j], left out where that is -1, and zeros where none came."""
        shape = (len(self.id_column), width)
        if isinstance(self.matrix, np.ndarray):
            moved = np.zeros(shape, self.matrix.dtype)
            moved[:, new[new >= 0]] = self.matrix[:, new >= 0]
            return moved
        coo = sp.coo_array(self.matrix)
        current = new[coo.col] >= 0
        return sp.csr_array((coo.data[current], (coo.row[current], new[coo.col[current]])), shape=shape)


def refuse_doubled(ids: pa.Array, *advice: str | Argument) -> None:
    """Refuse ids that have more than one row."""
    if len(twice := doubled(ids)):
        raise FeatureError(
            f"every id must have one feature row, got {len(twice):,} with more, first {shown(twice)}", *advice
        )


def pairs_advice(names: Sequence[str], kinds: Sequence[pa.DataType]) -> tuple[str | Argument, ...]:
    """What to pass if a table with these features and repeated ids has a row per (id, word) pair, not one per id."""
    texts = [name for name, kind in zip(names, kinds, strict=True) if is_text(kind) or pa.types.is_dictionary(kind)]
    if not texts and len(names) > 2:
        return ()
    feature = (texts or list(names))[0]
    values = [name for name in names if name != feature and name not in texts]
    both = (" and ", Argument("value", values[0])) if len(values) == 1 and len(names) == 2 else ()
    return ("; pass ", Argument("feature", feature), *both, " if each row is one (id, word) pair")


def column_number(name: str, names: Sequence[str]) -> int:
    """The position of the column of this name; an unknown one is refused with the nearest."""
    number_or_error = position(name, names)
    if isinstance(number_or_error, str):
        raise FeatureError(number_or_error)
    return number_or_error
