"""What the map can be coloured by: each column as one byte per node, with a table of the values behind the bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from rae.explore.pack import smallest_unsigned
from rae.features import Matrix, is_sparse

Floats = np.ndarray[Any, np.dtype[np.floating[Any]]]
Codes = np.ndarray[Any, np.dtype[np.uint8]]

MISSING, OTHER = 255, 254  # codes; the page has the same constants
MOST_LEVELS = 254  # values of a column of numbers, or words of a column of words
FEW = 20  # integers with no more distinct values than this are categories
MOST_BYTES = 8_000_000  # of feature columns on the page


@dataclass(frozen=True)
class Column:
    """One column: its name, the group it is listed in, a code per node, and the value of each code."""

    name: str
    group: str  # node, label or feature
    codes: Codes  # (n,), or (len(rows),) where there are rows
    table: Floats | None = None  # of numbers: the value of each code, ascending
    levels: tuple[str, ...] | None = None  # of words: the word of each code, most common first
    rows: np.ndarray[Any, Any] | None = None  # of a sparse column: the nodes that are not zero

    def select(self, rows: np.ndarray[Any, Any]) -> Column:
        """The column of these nodes alone."""
        return replace(self, codes=self.codes[rows])


def number_column(name: str, group: str, values: Floats) -> Column:
    """A column of numbers: exact up to 254 distinct ones, else 254 quantiles.

    >>> number_column("degree", "node", np.array([3.0, 1, 1, np.nan])).codes.tolist()
    [1, 0, 0, 255]
    """
    valid = np.isfinite(values)
    table = _value_table(values[valid], MOST_LEVELS)
    codes = np.full(len(values), MISSING, np.uint8)
    codes[valid] = _encode(values[valid], table)
    return Column(name, group, codes, table=table.astype(np.float32))


def word_column(name: str, group: str, words: Sequence[str | None]) -> Column:
    """A column of words: the 254 most common have a code each, the others share one.

    >>> word_column("kind", "label", ["b", "a", "b", None]).codes.tolist()
    [0, 1, 0, 255]
    """
    counts = Counter(word for word in words if word is not None)
    levels = sorted(counts, key=lambda word: (-counts[word], word))[:MOST_LEVELS]
    code: dict[str | None, int] = {word: i for i, word in enumerate(levels)} | {None: MISSING}
    return Column(name, group, np.array([code.get(w, OTHER) for w in words], np.uint8), levels=tuple(levels))


def label_column(name: str, values: pa.Array) -> Column:
    """A column of labels: amounts as numbers; words, and integers with few values, as words."""
    if pa.types.is_floating(values.type) or pa.types.is_integer(values.type):
        numbers = values.to_numpy(zero_copy_only=False).astype(np.float64)
        finite = numbers[np.isfinite(numbers)]
        if len(np.unique(finite)) > FEW or (finite != np.round(finite)).any():
            return number_column(name, "label", numbers)
        values = pc.cast(pa.array(numbers, from_pandas=True), pa.int64())
    return word_column(name, "label", [None if v is None else str(v) for v in values.to_pylist()])


def feature_columns(x: Matrix, names: Sequence[str], first: Sequence[int] = ()) -> dict[int, Column]:
    """The feature columns that fit the page, by column number: those of `first`, then the most used."""
    columns = sp.csc_array(x) if is_sparse(x) else None
    used = np.diff(columns.indptr) if columns is not None else np.count_nonzero(np.asarray(x), axis=0)
    order = sorted(range(x.shape[1]), key=lambda j: (-int(used[j]), j))
    order = list(dict.fromkeys([*(j for j in first if used[j]), *(j for j in order if used[j])]))
    out: dict[int, Column] = {}
    room = MOST_BYTES
    for j in order:
        column = _sparse_column(columns, j, names[j]) if columns is not None else None
        column = column or number_column(names[j], "feature", _dense_values(x, columns, j))
        room -= len(column.codes) * (1 if column.rows is None else 3)
        if room < 0:
            break
        out[j] = column
    return out


def pack_columns(columns: Sequence[Column]) -> tuple[list[dict[str, Any]], dict[str, np.ndarray[Any, Any]]]:
    """A description of each column for the page, and the arrays that hold the codes of all."""
    descriptions: list[dict[str, Any]] = []
    dense = [c for c in columns if c.rows is None]
    sparse = [c for c in columns if c.rows is not None]
    number = {id(c): i for group in (dense, sparse) for i, c in enumerate(group)}
    for column in columns:
        entry: dict[str, Any] = {"name": column.name, "group": column.group}
        entry |= {"kind": "category", "levels": column.levels} if column.levels is not None else {"kind": "number"}
        descriptions.append(entry | {"dense" if column.rows is None else "sparse": number[id(column)]})
    tables = [np.empty(0, np.float32) if c.table is None else c.table for c in columns]
    arrays = {
        "dense": _joined([c.codes for c in dense], np.uint8),
        "codes": _joined([c.codes for c in sparse], np.uint8),
        "rows": smallest_unsigned(_joined([c.rows for c in sparse], np.int64)),
        "starts": _starts([len(c.codes) for c in sparse]),
        "tables": _joined(tables, np.float32).astype(np.float32),
        "table_at": _starts([len(t) for t in tables]),
    }
    return descriptions, arrays


def _value_table(values: Floats, most: int) -> Floats:
    """The distinct values, or their quantiles where there are more than `most`."""
    distinct = np.unique(values)
    if len(distinct) <= most:
        return distinct
    return np.unique(np.quantile(values, np.linspace(0, 1, most), method="nearest"))


def _encode(values: Floats, table: Floats) -> Codes:
    """The code of the largest value of the table that is not above."""
    return np.maximum(np.searchsorted(table, values, side="right") - 1, 0).astype(np.uint8)


def _sparse_column(columns: sp.csc_array, j: int, name: str) -> Column | None:
    """The nodes that are not zero; None where that saves nothing, or where zero is not the smallest value."""
    part = slice(columns.indptr[j], columns.indptr[j + 1])
    values, rows = columns.data[part], columns.indices[part]
    if 3 * len(rows) > columns.shape[0] or (values <= 0).any():
        return None
    table = np.concatenate([[0], _value_table(values, MOST_LEVELS - 1)]).astype(np.float32)
    return Column(name, "feature", _encode(values, table), table=table, rows=rows)


def _dense_values(x: Matrix, columns: sp.csc_array | None, j: int) -> Floats:
    column = np.asarray(x[:, j] if columns is None else columns[:, [j]].toarray(), np.float64)
    return column.ravel()


def _joined(parts: Sequence[Any], dtype: Any) -> np.ndarray[Any, Any]:
    return np.concatenate([np.empty(0, dtype), *parts]).astype(dtype)


def _starts(lengths: Sequence[int]) -> np.ndarray[Any, Any]:
    return np.concatenate([[0], np.cumsum(np.asarray(lengths, np.int64))]).astype(np.uint32)
