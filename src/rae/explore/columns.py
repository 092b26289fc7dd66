"""What the map can be coloured by: each column as a byte per node, and what the bytes stand for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from rae.explore.pack import smallest
from rae.features import Matrix, is_sparse

Floats = np.ndarray[Any, np.dtype[np.floating[Any]]]
Codes = np.ndarray[Any, np.dtype[np.uint8]]

MISSING, OTHER = 255, 254  # codes; the page knows them too
LEVELS = 254  # values of a column of numbers, or names of a column of words, at most
FEW = 20  # whole numbers with no more values than this are names, not amounts
ROOM = 8_000_000  # bytes of feature columns on the page


@dataclass(frozen=True)
class Column:
    """One column: its name, the group it is listed in, a code per node and the value of each code."""

    name: str
    group: str  # node, label or feature
    codes: Codes  # (n,), or of `rows` alone
    table: Floats | None = None  # numbers, ascending
    levels: tuple[str, ...] | None = None  # or words, most common first
    rows: np.ndarray[Any, Any] | None = None  # nodes that are not zero, where most are

    def of_rows(self, rows: np.ndarray[Any, Any]) -> Column:
        """The same column of these nodes alone."""
        return replace(self, codes=self.codes[rows])


def number_column(name: str, group: str, values: Floats) -> Column:
    """A column of numbers: exact while there are few different ones, else 254 quantiles.

    >>> number_column("degree", "node", np.array([3.0, 1, 1, np.nan])).codes.tolist()
    [1, 0, 0, 255]
    """
    there = np.isfinite(values)
    table = _table(values[there], LEVELS)
    codes = np.full(len(values), MISSING, np.uint8)
    codes[there] = _coded(values[there], table)
    return Column(name, group, codes, table=table.astype(np.float32))


def word_column(name: str, group: str, words: Sequence[str | None]) -> Column:
    """A column of words: the most common have codes of their own, the others share one.

    >>> word_column("kind", "label", ["b", "a", "b", None]).codes.tolist()
    [0, 1, 0, 255]
    """
    counted: dict[str, int] = {}
    for word in words:
        if word is not None:
            counted[word] = counted.get(word, 0) + 1
    levels = sorted(counted, key=lambda word: (-counted[word], word))[:LEVELS]
    code: dict[str | None, int] = {word: i for i, word in enumerate(levels)} | {None: MISSING}
    return Column(name, group, np.array([code.get(w, OTHER) for w in words], np.uint8), levels=tuple(levels))


def label_column(name: str, values: pa.Array) -> Column:
    """A label of the user's: amounts as numbers, everything else, and a few whole numbers, as words."""
    kind = values.type
    if pa.types.is_floating(kind) or pa.types.is_integer(kind):
        numbers = values.to_numpy(zero_copy_only=False).astype(np.float64)
        there = numbers[np.isfinite(numbers)]
        if len(np.unique(there)) > FEW or (there != np.round(there)).any():
            return number_column(name, "label", numbers)
        values = pc.cast(pa.array(numbers, from_pandas=True), pa.int64())
    return word_column(name, "label", [None if v is None else str(v) for v in values.to_pylist()])


def feature_columns(x: Matrix, names: Sequence[str], first: Sequence[int] = ()) -> dict[int, Column]:
    """The feature columns that fit the page, by their number: those of `first`, then the most used."""
    columns = sp.csc_array(x) if is_sparse(x) else None
    used = np.diff(columns.indptr) if columns is not None else np.count_nonzero(np.asarray(x), axis=0)
    order = sorted(range(x.shape[1]), key=lambda j: (-int(used[j]), j))
    order = list(dict.fromkeys([*(j for j in first if used[j]), *(j for j in order if used[j])]))
    out: dict[int, Column] = {}
    room = ROOM
    for j in order:
        column = _sparse_column(columns, j, names[j]) if columns is not None else None
        column = column or number_column(names[j], "feature", _dense(x, columns, j))
        room -= len(column.codes) * (1 if column.rows is None else 3)
        if room < 0:
            break
        out[j] = column
    return out


def packed_columns(columns: Sequence[Column]) -> tuple[list[dict[str, Any]], dict[str, np.ndarray[Any, Any]]]:
    """The columns as the page wants them: what to say of each, and all codes end to end."""
    told: list[dict[str, Any]] = []
    dense = [c for c in columns if c.rows is None]
    thin = [c for c in columns if c.rows is not None]
    place = {id(c): i for group in (dense, thin) for i, c in enumerate(group)}
    for column in columns:
        entry: dict[str, Any] = {"name": column.name, "group": column.group}
        entry |= {"kind": "category", "levels": column.levels} if column.levels is not None else {"kind": "number"}
        told.append(entry | {"dense" if column.rows is None else "sparse": place[id(column)]})
    tables = [np.empty(0, np.float32) if c.table is None else c.table for c in columns]
    arrays = {
        "dense": _joined([c.codes for c in dense], np.uint8),
        "codes": _joined([c.codes for c in thin], np.uint8),
        "rows": smallest(_joined([c.rows for c in thin], np.int64)),
        "starts": _starts([len(c.codes) for c in thin]),
        "tables": _joined(tables, np.float32).astype(np.float32),
        "table_at": _starts([len(t) for t in tables]),
    }
    return told, arrays


def _table(values: Floats, most: int) -> Floats:
    distinct = np.unique(values)
    if len(distinct) <= most:
        return distinct
    return np.unique(np.quantile(values, np.linspace(0, 1, most), method="nearest"))


def _coded(values: Floats, table: Floats) -> Codes:
    """The code of the table's value nearest from below."""
    return np.maximum(np.searchsorted(table, values, side="right") - 1, 0).astype(np.uint8)


def _sparse_column(columns: sp.csc_array, j: int, name: str) -> Column | None:
    """The column as its nodes that are not zero; None where that saves nothing or zero is not its least value."""
    part = slice(columns.indptr[j], columns.indptr[j + 1])
    values, rows = columns.data[part], columns.indices[part]
    if 3 * len(rows) > columns.shape[0] or (values <= 0).any():
        return None
    table = _table(values, LEVELS - 1)
    table = np.concatenate([[0], table]).astype(np.float32)
    return Column(name, "feature", _coded(values, table), table=table, rows=rows)


def _dense(x: Matrix, columns: sp.csc_array | None, j: int) -> Floats:
    column = np.asarray(x[:, j] if columns is None else columns[:, [j]].toarray(), np.float64)
    return column.ravel()


def _joined(parts: Sequence[Any], kind: Any) -> np.ndarray[Any, Any]:
    return np.concatenate([np.empty(0, kind), *parts]).astype(kind)


def _starts(lengths: Sequence[int]) -> np.ndarray[Any, Any]:
    return np.concatenate([[0], np.cumsum(np.asarray(lengths, np.int64))]).astype(np.uint32)
