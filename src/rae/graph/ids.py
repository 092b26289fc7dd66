"""Ids of any kind: one Arrow column, exactly as it came in, that can be sorted and looked up.

Arrow sorts and looks up plain kinds by itself. Lists and structs (tuples, as networkx has them) are
compared by their text, one Python object at a time: correct, but slow for millions.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rae.errors import GraphError, one_line

Ints = np.ndarray[Any, np.dtype[np.int64]]

MOST = 2**31 - 1  # ids that Arrow can number


def id_array(ids: Any) -> pa.Array:
    """Any column of ids as one Arrow array; missing ids, mixed kinds and kinds without order are refused."""
    column = ids if isinstance(ids, (pa.Array, pa.ChunkedArray)) else _arrow(ids)
    try:
        column = usable(column)
    except pa.ArrowException as error:
        raise _refusal(error) from None
    if isinstance(column, pa.ChunkedArray):  # combine_chunks of very long columns
        raise GraphError("too many ids for one array; split the table")
    bad = column.null_count
    if pa.types.is_floating(column.type):
        bad = pc.sum(pc.is_null(column, nan_is_null=True)).as_py() or 0
    if bad and len(column):
        first = pc.index(pc.is_null(column, nan_is_null=True), True).as_py()
        raise GraphError(f"every id must be there, got {bad:,} missing, first in row {first:,}; drop those rows")
    if not _has_order(column.type):
        raise GraphError(
            f"ids must be text, numbers or another plain kind, got {column.type} such as {shown(column, 1)}; "
            "turn each into text first, e.g. with map(str, ids)"
        )
    return column


def index_in(column: pa.Array, values: pa.Array) -> pa.Array:
    """The position of each id of `column` in `values`, null where it is not there.  (m,), (n,) -> (m,)

    Whole numbers of any width are compared by value, a whole number and a text by its digits.

    >>> index_in(pa.array(["7", "007", "x"]), pa.array([6, 7])).to_pylist()
    [1, None, None]
    """
    refuse_too_many(len(values))
    both = _comparable(column, values)
    if both is None:
        return pa.nulls(len(column), pa.int32())
    return pc.index_in(as_plain(both[0]), value_set=as_plain(both[1]))


def positions_in(column: pa.Array, values: pa.Array) -> Ints:
    """What `index_in` gives, as int64, with -1 for an id that is not there.  (m,), (n,) -> (m,)"""
    positions: Ints = index_in(column, values).fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return positions


def sorting_order(column: pa.Array) -> Ints | None:
    """The positions of the ids in ascending order, None where they stand in it already: for `find_sorted`."""
    order: Ints = pc.array_sort_indices(as_plain(column)).to_numpy().astype(np.int64)
    return None if (order[1:] > order[:-1]).all() else order


def find_sorted(ids: pa.Array, column: pa.Array, order: Any) -> Ints | None:
    """`positions_in` for few ids by binary search, without a look at all ids; None for kinds that Arrow must compare.

    >>> column = pa.array(["b", "a"])
    >>> find_sorted(pa.array(["a", "x"]), column, sorting_order(column)).tolist()
    [1, -1]
    """
    integers = pa.types.is_integer(ids.type) and pa.types.is_integer(column.type)
    if not integers and not (is_text(ids.type) and is_text(column.type)):
        return None
    if integers and len(column):
        return _find_integers(ids, column, order)
    out = []
    for value in ids.to_pylist():
        low, high = 0, len(column)
        while low < high:
            middle = (low + high) // 2
            if column[middle if order is None else int(order[middle])].as_py() < value:
                low = middle + 1
            else:
                high = middle
        row = low if order is None or low == len(column) else int(order[low])
        out.append(row if row < len(column) and column[row].as_py() == value else -1)
    return np.array(out, np.int64)


def _find_integers(ids: pa.Array, column: pa.Array, order: Any) -> Ints:
    kinds = {ids.type, column.type}
    if pa.uint64() in kinds and len(kinds) > 1:  # NumPy would compare them as floats
        return positions_in(ids, column)
    values, numbers = column.to_numpy(), ids.to_numpy()
    place = np.minimum(np.searchsorted(values, numbers, sorter=order), len(values) - 1)
    rows = place if order is None else order[place]
    return np.where(values[rows] == numbers, rows, -1)


def refuse_too_many(count: int) -> None:
    """Refuse more ids than Arrow can look up, which numbers them in 32 bits."""
    if count > MOST:
        raise GraphError(
            f"ids that are text, or that features and names are joined by, can be {MOST:,} at most, got {count:,}; "
            "give edges whose ids are whole numbers, and features without ids"
        )


def codes_and_ids(column: pa.Array) -> tuple[Ints, pa.Array]:
    """For each id its position among the distinct ones, and those, ascending.  (m,) -> (m,), (n,)"""
    encoded = as_plain(column).dictionary_encode()
    order = pc.array_sort_indices(encoded.dictionary)
    rank = np.empty(len(order), np.int64)
    rank[order.to_numpy()] = np.arange(len(order))
    codes = rank[encoded.indices.to_numpy()] if len(encoded) else np.empty(0, np.int64)
    return codes, _from_storage(encoded.dictionary.take(order), column)


def distinct(column: pa.Array) -> pa.Array:
    """The ids, each once, in the order of their first appearance."""
    return _from_storage(as_plain(column).unique(), column)


def doubled(column: pa.Array) -> pa.Array:
    """The ids that occur more than once, each once."""
    storage = as_plain(column)
    if len(storage.unique()) == len(storage):
        return column.slice(0, 0)
    counted = pc.value_counts(storage)
    return _from_storage(counted.filter(pc.greater(counted.field("counts"), 1)).field("values"), column)


def one_kind(first: pa.Array, second: pa.Array) -> tuple[pa.Array, pa.Array] | None:
    """Both columns in one type, so that 7 is one id in any integer type; None if there is none."""
    a, b = first.type, second.type
    if a == b:
        return first, second
    if len(first) == 0 or len(second) == 0:
        kind = b if len(first) == 0 else a
        return tuple(pa.array([], kind) if len(c) == 0 else c for c in (first, second))
    kinds: list[pa.DataType] = []
    if pa.types.is_integer(a) and pa.types.is_integer(b):
        kinds = [pa.int64(), pa.uint64()]
    elif is_text(a) and is_text(b):
        kinds = [pa.large_string()]
    elif a.id == b.id and (pa.types.is_decimal(a) or pa.types.is_temporal(a)):
        kinds = _promote(a, b)
    return _cast_both(first, second, kinds)


def cast_to_kind(ids: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """These ids in this type, None where the two are not of one kind: text, whole numbers, dates, ...

    >>> cast_to_kind(pa.array([7]), pa.int32()).type, cast_to_kind(pa.array(["7"]), pa.int32())
    (DataType(int32), None)
    """
    both = (ids.type, kind)
    if len(ids) == 0:
        return pa.array([], kind)
    alike = (
        ids.type == kind
        or all(map(is_text, both))
        or all(map(pa.types.is_integer, both))
        or (ids.type.id == kind.id and bool(pa.types.is_temporal(kind) or pa.types.is_decimal(kind)))
    )
    try:
        return ids.cast(kind) if alike else None
    except pa.ArrowInvalid:
        return None


def is_text(kind: pa.DataType) -> bool:
    """Whether ids of this kind are text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def in_words(kind: pa.DataType) -> str:
    """The kind as a sentence names it.

    >>> in_words(pa.int32()), in_words(pa.string()), in_words(pa.float32())
    ('whole numbers', 'text', 'float')
    """
    return "text" if is_text(kind) else "whole numbers" if pa.types.is_integer(kind) else str(kind)


def json_id(value: Any) -> Any:
    """An id as JSON holds it: ids of types that JSON lacks become text."""
    return value if isinstance(value, int | str | float) else str(value)


def shown(column: pa.Array, most: int = 3) -> str:
    """The first few distinct ids, as an error message quotes them."""
    return ", ".join(list(dict.fromkeys(map(repr, column.slice(0, 1000).to_pylist())))[:most])


# ------------------------------------------------------------------------------------- making


def _arrow(values: Any) -> pa.Array | pa.ChunkedArray:
    if isinstance(values, (str, bytes)) or not (hasattr(values, "__iter__") or hasattr(values, "__arrow_array__")):
        raise GraphError(f"ids must be a column, got {values!r}; pass [{values!r}]")
    if hasattr(values, "columns"):
        raise GraphError(f"ids must be one column, got a {type(values).__name__}; pass that column alone")
    if hasattr(values, "detach"):  # a torch tensor
        values = values.detach().cpu().numpy()
    try:
        if hasattr(values, "__arrow_c_stream__"):
            return pa.chunked_array(values)
        if hasattr(values, "__arrow_array__") and not isinstance(values, (np.ndarray, list, tuple)):
            return pa.array(values)
        if hasattr(values, "to_numpy"):  # an index
            values = values.to_numpy()
        if not isinstance(values, np.ndarray):
            values = list(values)
        elif values.ndim != 1:
            raise GraphError(f"ids must be one column, got shape {values.shape}")
        return pa.array(values)
    except (pa.ArrowException, OverflowError, UnicodeError, TypeError) as error:
        unsigned = _as_unsigned(values)
        if unsigned is not None:
            return unsigned
        raise _refusal(error) from None


def _refusal(error: Exception) -> GraphError:
    if isinstance(error, UnicodeEncodeError | UnicodeDecodeError):
        return GraphError(f"ids that are text must be valid Unicode ({error.reason}); mend or drop them")
    reason = one_line(error)
    return GraphError(
        f"ids must be all of one kind that Arrow can hold (whole numbers below 2**64, text, ...): {reason}; "
        "turn them into text first, e.g. with map(str, ids)"
    )


def _as_unsigned(values: Any) -> pa.Array | None:
    """Whole numbers between 2**63 and 2**64, for which Arrow needs the type."""
    if not all(isinstance(v, (int, np.integer)) for v in values):
        return None
    try:
        return pa.array([int(v) for v in values], pa.uint64())
    except (OverflowError, pa.ArrowInvalid):
        return None


def usable(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The column in one piece and in a type that Arrow can work on, value for value the same."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    kind = column.type
    if pa.types.is_dictionary(kind):
        values = usable(column.dictionary)  # views cannot be taken from, so not dictionary_decode
        return values.take(column.indices)
    if pa.types.is_run_end_encoded(kind):
        return usable(pc.run_end_decode(column))
    if pa.types.is_string_view(kind) or pa.types.is_large_string(kind):
        return column.cast(pa.string() if column.nbytes < 2**31 else pa.large_string())
    if pa.types.is_binary_view(kind):
        return column.cast(pa.binary() if column.nbytes < 2**31 else pa.large_binary())
    return column.cast(pa.float32()) if pa.types.is_float16(kind) else column


@lru_cache(maxsize=64)  # it takes longer than building a small graph
def _has_order(kind: pa.DataType) -> bool:
    """Whether Arrow can encode, look up and sort ids of this kind, tried with an empty column."""
    empty = as_plain(pa.array([], kind))
    try:
        empty.dictionary_encode()
        pc.index_in(empty, value_set=empty)
        pc.array_sort_indices(empty)
    except pa.ArrowNotImplementedError:
        return False
    return True


def as_plain(column: pa.Array) -> pa.Array:
    """What Arrow's functions can work on: the storage of an extension type (uuid), the text of a list or struct."""
    if _is_compound(column.type):
        return pa.array([repr(value) for value in column.to_pylist()], pa.large_string())
    return column.storage if isinstance(column, pa.ExtensionArray) else column


def _from_storage(storage: pa.Array, column: pa.Array) -> pa.Array:
    """The ids of `column` whose storage is this."""
    if _is_compound(column.type):
        return column.take(pc.index_in(storage, value_set=as_plain(column)))
    kind = column.type
    return pa.ExtensionArray.from_storage(kind, storage) if isinstance(kind, pa.BaseExtensionType) else storage


def _is_compound(kind: pa.DataType) -> bool:
    lists = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return bool(lists or pa.types.is_struct(kind))


# ------------------------------------------------------------------------------------- comparing


def _comparable(column: pa.Array, values: pa.Array) -> tuple[pa.Array, pa.Array] | None:
    """Both in one type in which equal ids are equal, None if they have none."""
    if (both := one_kind(column, values)) is not None:
        return both
    a, b = column.type, values.type
    if all(is_text(kind) or pa.types.is_integer(kind) for kind in (a, b)):
        return _cast_both(column, values, [pa.large_string()])
    try:
        return column.cast(b), values
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _cast_both(first: pa.Array, second: pa.Array, kinds: list[pa.DataType]) -> tuple[pa.Array, pa.Array] | None:
    for kind in kinds:
        try:
            return first.cast(kind), second.cast(kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            continue
    return None


def _promote(a: pa.DataType, b: pa.DataType) -> list[pa.DataType]:
    try:
        both = pa.unify_schemas([pa.schema({"id": kind}) for kind in (a, b)], promote_options="permissive")
    except pa.ArrowException:
        return []
    return [both.field("id").type]
