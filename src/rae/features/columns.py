"""Columns of a node table as numbers: numbers as they are, dates as years, one 0/1 column per value of the rest.

A column of text, or of categories (an Arrow dictionary, pandas category, polars Categorical or Enum) of text or whole
numbers, becomes one column per value that occurs, called `column=value`, in the order of the values. A missing value
(null, or an empty text) is a value of its own, `column=missing`: that it is missing may tell something, and a row of
zeros means a value that the model has never seen. A missing number or date has no such place and is refused.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from rae.errors import Argument, FeatureError
from rae.features.matrix import LARGEST, TOO_LARGE, Matrix
from rae.graph.frames import float_column
from rae.graph.ids import is_text

log = logging.getLogger("rae.inputs")  # what the command line shows: notes on the inputs

MAX_VALUES = 1_000  # of a column that becomes one column per value; more are ids or free text
MISSING = "missing"
MANY_ROWS = 20  # from which on a different value in each row is worth a warning
DAY = 86_400
PER_DAY = {"s": DAY, "ms": DAY * 10**3, "us": DAY * 10**6, "ns": DAY * 10**9}
YEAR = 365.2425  # days
EPOCH = 10_957  # 2000-01-01, in days after 1970-01-01

Floats = np.ndarray[Any, np.dtype[np.float32]]
Ints = np.ndarray[Any, np.dtype[np.int32]]


@dataclass(frozen=True)
class Encoding:
    """How one column of a table became numbers: `kind` is "category", "date" or "duration".

    >>> str(Encoding("country", "category", 12)), str(Encoding("joined", "date"))
    ('12 values, one column each', 'date, in years since 2000')
    """

    column: str
    kind: str
    n_values: int = 0

    def __str__(self) -> str:
        if self.kind == "category":
            return f"{self.n_values:,} value{'s, one column each' if self.n_values != 1 else ', one column'}"
        return {"date": "date, in years since 2000", "duration": "duration, in days"}[self.kind]


@dataclass(frozen=True)
class Encoded:
    """The matrix of a table, the names of its columns, and which of them were no numbers before."""

    matrix: Matrix
    names: tuple[str, ...]
    encodings: tuple[Encoding, ...]


def encode(
    ids: pa.Array,
    names: Sequence[str],
    columns: Sequence[pa.ChunkedArray],
    *,
    categories: Collection[str] = (),
    like: Collection[str] | None = None,
) -> Encoded:
    """The columns side by side as numbers, sparse where that takes less memory; row i belongs to ids[i].

    `categories` are columns to encode by value though they hold numbers. `like` are the column names of a fitted
    model: a column is encoded as it was there, whatever it holds now, and text that the model does not know is
    left out.
    """
    kinds = [_kind(name, column.type, categories, like) for name, column in zip(names, columns, strict=True)]
    chosen = [i for i, kind in enumerate(kinds) if kind is not None]
    if not chosen:
        raise FeatureError(f"the model knows none of the columns of this table, first {names[0]!r}")
    values = {i: _values(columns[i]) for i in chosen if kinds[i] == "category"}
    if like is None:
        _refuse_crowds({names[i]: distinct for i, distinct in values.items()}, len(ids))
    numbers = _numbers(ids, [(names[i], columns[i]) for i in chosen if i not in values])
    texts = {i: distinct.texts() for i, distinct in values.items()}
    labels = [[f"{names[i]}={text}" for text in texts[i]] if i in texts else [names[i]] for i in chosen]
    all_labels = tuple(label for group in labels for label in group)
    if texts and len(set(all_labels)) < len(all_labels):
        twice = next(label for label, times in Counter(all_labels).items() if times > 1)
        raise FeatureError(f"two columns would be called {twice!r}; rename one of those that make it")
    encodings = tuple(Encoding(names[i], kinds[i] or "", len(texts.get(i, ()))) for i in chosen if kinds[i] != "number")
    if like is None:
        _say(encodings, numbers, [names[i] for i in chosen if i not in texts])
    codes = [values[i].filled() if i in values else None for i in chosen]
    return Encoded(_matrix(numbers, codes, labels), all_labels, encodings)


def category_of(name: str, columns: Collection[str]) -> str | None:
    """Which of these columns a name `column=value` comes from, None if it comes from none.

    >>> category_of("a=b=c", {"a=b", "x"}), category_of("a", {"a"})
    ('a=b', None)
    """
    parts = name.split("=")
    return next((c for i in range(len(parts) - 1, 0, -1) if (c := "=".join(parts[:i])) in columns), None)


def is_category(name: str, like: Collection[str]) -> bool:
    """Whether the column of this name was encoded by value in a model with these columns."""
    return name not in like and any(column.startswith(f"{name}=") for column in like)


def columns_of_model(names: Sequence[str], like: Collection[str] | None) -> list[int]:
    """The positions of the columns that a model knows; others are left out, with a warning, whatever they hold.

    Where the model needs a column that is not here, all stay: `with_columns` refuses the table and names the nearest.
    """
    if like is None or any(name not in names and category_of(name, names) is None for name in like):
        return list(range(len(names)))
    model = frozenset(like)
    positions = [i for i, name in enumerate(names) if name in model or is_category(name, model)]
    say_unknown([name for i, name in enumerate(names) if i not in positions])
    return positions


def say_unknown(names: Sequence[str]) -> None:
    """Log the columns that a model does not know."""
    if names:
        log.warning("%d feature columns are unknown to the model and left out, first %r", len(names), names[0])


# ------------------------------------------------------------------------------------- kinds


def _kind(name: str, kind: pa.DataType, categories: Collection[str], like: Collection[str] | None) -> str | None:
    """ "number", "date", "duration" or "category"; None for text that the model does not know."""
    by_value = name in categories or (like is not None and is_category(name, like))
    if by_value and pa.types.is_null(kind):  # an update may have no value at all
        return "category"
    natural = _natural_kind(name, kind)
    if by_value:
        return "category"
    if natural == "category" and like is not None:
        if name in like:
            raise FeatureError(f"column {name!r} holds numbers or dates in the model, here it holds text; mend it")
        return None
    return natural


def _natural_kind(name: str, kind: pa.DataType) -> str:
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    if _is_text(value) or (value is not kind and pa.types.is_integer(value)):
        return "category"
    if pa.types.is_date(value) or pa.types.is_timestamp(value):
        return "date"
    if pa.types.is_duration(value):
        return "duration"
    numeric = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean)
    if any(test(value) for test in numeric):
        return "number"
    drop = ("; leave it out with ", Argument("drop", [name]))
    if pa.types.is_null(value):
        raise FeatureError(f"column {name!r} has no values", *drop)
    raise FeatureError(f"column {name!r} must hold numbers, text, dates or true and false, got {kind}", *drop)


def _is_text(kind: pa.DataType) -> bool:
    return is_text(kind) or bool(pa.types.is_string_view(kind))


def _refuse_crowds(columns: Mapping[str, Values], n_rows: int) -> None:
    """Refuse columns of too many values: leaving them out without a word would make a fit depend on a limit."""
    if crowds := [name for name, values in columns.items() if values.count > MAX_VALUES]:
        refuse_crowds(crowds, columns[crowds[0]].count)
    for name, values in columns.items():
        if values.count == n_rows >= MANY_ROWS:
            log.warning("every row has another value in column %r, as ids and names have; is it a feature?", name)


def refuse_crowds(names: Sequence[str], count: int, *, first_rows: bool = False) -> None:
    """Refuse these columns, the first of which has so many values, or has them in the first rows already."""
    where = " in the first rows alone" if first_rows else ""
    more = f", and {len(names) - 1:,} more columns have as many" if len(names) > 1 else ""
    raise FeatureError(
        f"column {names[0]!r} has {count:,} different values{where}{more}: text becomes one column per value, for up "
        f"to {MAX_VALUES:,} of them, and more are ids or free text; leave such columns out with ",
        Argument("drop", list(names)),
    )


# ------------------------------------------------------------------------------------- numbers


def _numbers(ids: pa.Array, columns: Sequence[tuple[str, pa.ChunkedArray]]) -> Floats:
    """The columns of numbers and dates side by side; gaps are refused.  -> (n, m)"""
    out = np.empty((len(ids), len(columns)), np.float32)
    for j, (name, column) in enumerate(columns):
        out[:, j] = _floats(column, name)
    refuse_gaps(out, ids, [name for name, _ in columns])
    return out


def _floats(column: pa.ChunkedArray, name: str) -> Floats:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not pa.types.is_temporal(column.type):
        return float_column(column, name)
    days = _days(column)
    return ((days - EPOCH) / YEAR if not pa.types.is_duration(column.type) else days).astype(np.float32)


def _days(column: pa.ChunkedArray) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Dates as days after 1970-01-01 (UTC where they have a zone), durations as days; NaN where it is null."""
    whole = column.cast(pa.int32() if pa.types.is_date32(column.type) else pa.int64())
    units = (
        1 if pa.types.is_date32(column.type) else PER_DAY["ms" if pa.types.is_date64(column.type) else column.type.unit]
    )
    days: np.ndarray[Any, np.dtype[np.float64]] = whole.cast(pa.float64(), safe=False).to_numpy() / units
    return days


def refuse_gaps(matrix: Floats, ids: pa.Array, names: Sequence[str] | None) -> None:
    """Refuse numbers that are missing, infinite or too large; the sentence counts them and names the first."""
    with np.errstate(invalid="ignore"):
        bad = ~(np.abs(matrix) <= np.float32(LARGEST))
    if not bad.any():
        return
    row, column = (int(a[0]) for a in np.nonzero(bad))
    value = matrix[row, column]
    what = "missing or NaN" if np.isnan(value) else "infinite or beyond float32" if np.isinf(value) else f"{value:g}"
    which = f"column {names[column]!r}" if names else f"column {column:,} of the list"
    place = f"{int(np.count_nonzero(bad)):,} are not, first in row {row + 1:,} (id {ids[row].as_py()!r}), {which}"
    if np.isfinite(value):
        raise FeatureError(f"{TOO_LARGE}, {place}, which is {what}; mend it, or take the logarithm of that column")
    drop = (", or leave the column out with ", Argument("drop", [names[column]])) if names else ()
    raise FeatureError(f"features must be finite numbers, {place}, which is {what}; fill it or drop that row", *drop)


# ------------------------------------------------------------------------------------- values


@dataclass(frozen=True, eq=False)
class Values:
    """The values of a column in their own order, and for each row the number of its value, -1 where it is missing."""

    ordered: pa.Array
    codes: Ints

    @property
    def has_gaps(self) -> bool:
        return bool((self.codes < 0).any())

    @property
    def count(self) -> int:
        return len(self.ordered) + self.has_gaps

    def texts(self) -> list[str]:
        """The values as text, "missing" last where one is."""
        texts = [str(value) for value in self.ordered.cast(pa.large_string()).to_pylist()]
        return [*texts, MISSING] if self.has_gaps and MISSING not in texts else texts

    def filled(self) -> Ints:
        """For each row the position of its value in `texts`; a text that says "missing" means what a gap does."""
        return np.where(self.codes < 0, self.texts().index(MISSING), self.codes) if self.has_gaps else self.codes


def _values(column: pa.ChunkedArray) -> Values:
    """The values of a column, chunk by chunk and without a Python object per row."""
    parts = [_dictionary(chunk) for chunk in _whole(column).chunks]
    distinct = (
        pa.concat_arrays([values for _, values in parts]).unique().drop_null() if parts else pa.array([], pa.string())
    )
    ordered = distinct.take(pc.array_sort_indices(distinct))
    out, start = np.empty(len(column), np.int32), 0
    for codes, values in parts:
        place = pc.fill_null(pc.index_in(values, value_set=ordered), -1).to_numpy(zero_copy_only=False)
        out[start : start + len(codes)] = np.append(place, -1)[codes]
        start += len(codes)
    return Values(ordered, out)


def _dictionary(chunk: pa.Array) -> tuple[np.ndarray[Any, Any], pa.Array]:
    """For each row a position among the values that occur, -1 where it is null, and those.  (n,) -> (n,), (k,)"""
    if pa.types.is_dictionary(chunk.type):
        codes, values = chunk.indices, _plain(chunk.dictionary)
    else:
        encoded = _plain(chunk).dictionary_encode()
        codes, values = encoded.indices, encoded.dictionary
    positions = pc.fill_null(codes.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
    occurs = np.zeros(len(values) + 1, bool)
    occurs[positions] = True
    number = np.cumsum(occurs[:-1]) - 1
    return np.append(number, -1)[positions], values.filter(pa.array(occurs[:-1]))


def _plain(values: pa.Array) -> pa.Array:
    """The values in a kind that Arrow can sort and look up, null where a text is empty or a number is NaN."""
    if _is_text(values.type):
        text = values.cast(pa.large_string())
        return pc.if_else(pc.equal(text, ""), pa.scalar(None, text.type), text)
    if pa.types.is_floating(values.type):
        return pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
    return values if pa.types.is_integer(values.type) else values.cast(pa.large_string())


def _whole(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Whole numbers that are stored as floats, as pandas does where some are missing, as whole numbers."""
    if not pa.types.is_floating(column.type):
        return column
    try:
        return pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column).cast(pa.int64())
    except pa.ArrowInvalid:
        return column


# ------------------------------------------------------------------------------------- side by side


def _matrix(numbers: Floats, by_column: Sequence[Ints | None], labels: Sequence[Sequence[str]]) -> Matrix:
    """The numbers and the 0/1 columns, in the order of the table."""
    if all(codes is None for codes in by_column):
        return numbers
    n, k = len(numbers), len(by_column)
    starts = np.cumsum([0, *map(len, labels)])
    dense_bytes, sparse_bytes = 4 * n * int(starts[-1]), 8 * n * (k + 1)
    return _sparse(numbers, by_column, starts) if sparse_bytes < dense_bytes else _dense(numbers, by_column, starts)


def _dense(numbers: Floats, by_column: Sequence[Ints | None], starts: Any) -> Floats:
    out, number = np.zeros((len(numbers), int(starts[-1])), np.float32), 0
    for start, codes in zip(starts[:-1], by_column, strict=True):
        if codes is None:
            out[:, start] = numbers[:, number]
            number += 1
        else:
            out[np.arange(len(out)), start + codes] = 1
    return out


def _sparse(numbers: Floats, by_column: Sequence[Ints | None], starts: Any) -> Any:
    n, k, number = len(numbers), len(by_column), 0
    data, columns = np.ones((n, k), np.float32), np.empty((n, k), np.int32)
    for j, (start, codes) in enumerate(zip(starts[:-1], by_column, strict=True)):
        if codes is None:
            columns[:, j], data[:, j] = start, numbers[:, number]
            number += 1
        else:
            columns[:, j] = start + codes
    matrix: Any = sp.csr_array((data.ravel(), columns.ravel(), np.arange(n + 1) * k), shape=(n, int(starts[-1])))
    matrix.eliminate_zeros()
    return matrix


def _say(encodings: Sequence[Encoding], numbers: Floats, names: Sequence[str]) -> None:
    """Log what was encoded, once, and which columns tell nothing."""
    if encodings:
        log.info("feature columns: %s", "; ".join(f"{e.column}: {e}" for e in encodings))
    if len(numbers) < 2:
        return
    constant = [e.column for e in encodings if e.kind == "category" and e.n_values == 1]
    constant += [name for name, same in zip(names, (numbers == numbers[:1]).all(0), strict=True) if same]
    if constant:
        listed = ", ".join(map(repr, constant[:8])) + (", ..." if len(constant) > 8 else "")
        log.info("feature columns with one value in all rows, which tell nothing: %s", listed)
