"""Columns about nodes from a table of the user (labels, display names), joined to the nodes by id."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rae.errors import Argument, FeatureError, FileError
from rae.graph.column_names import ID, position, usual
from rae.graph.frames import as_table, is_frame, own_index
from rae.graph.ids import id_array, index_in, shown, usable
from rae.io.tables import ArrowTable, Table, open_table, read_ids
from rae.storage.objects import place

log = logging.getLogger("rae")


def read_node_columns(
    source: Any,
    ids: pa.Array,
    columns: Sequence[str] = (),
    *,
    id_column: str | None = None,
    what: str = "label",
) -> dict[str, pa.Array]:
    """The columns of this table (by default all but the id) in the order of `ids`; null where a node has no row.

    `source` is a file or a data frame. `id_column` is by default the column called id or node, else the index of a
    frame that has one, else the first.
    """
    is_file = isinstance(source, (str, os.PathLike))
    path = place(source) if is_file else f"the {what}s"
    keys, by_name = (_of_file if is_file else _of_frame)(source, columns, id_column, what)
    if not by_name:
        raise FileError(f"{path} has only ids, expected one column of {what}s or more")
    rows = index_in(ids, keys)
    if rows.null_count == len(ids):
        raise FileError(
            f"{path}: none of its {len(keys):,} ids is a node: its ids are {keys.type} such as {shown(keys)}, "
            f"node ids are {ids.type} such as {shown(ids)}; check ",
            Argument("id_column"),
        )
    repeated = len(keys) - len(keys.unique())
    unknown = len(keys.unique()) - (len(ids) - rows.null_count)
    for count, words in (
        (rows.null_count, f"of the nodes have no {what}"),
        (unknown, "of its ids are no node"),
        (repeated, "of its rows repeat an id: the first one counts"),
    ):
        if count:
            log.warning("%s: %s %s", path, f"{count:,}", words)
    return {name: values.take(rows) for name, values in by_name.items()}


TableColumns = tuple[pa.Array, dict[str, pa.Array]]  # the ids of a table, and the columns by name


def _of_file(path: Any, columns: Sequence[str], id_column: str | None, what: str) -> TableColumns:
    # A column that is named by a word implies a header.
    table = open_table(path, True if any(not c.isdigit() for c in (*columns, id_column or "0")) else None)
    key = _column_number(path, table.names, id_column) if id_column is not None else (usual(table.names, ID) or 0)
    chosen = [_column_number(path, table.names, name) for name in columns]
    chosen = chosen or [i for i in range(len(table.names)) if i != key]
    (keys,) = read_ids(table, {what: key})
    return keys, {table.names[i]: _values(table, i) for i in chosen}


def _of_frame(df: Any, columns: Sequence[str], id_column: str | None, what: str) -> TableColumns:
    table, index = as_table(df), own_index(df)
    names, where = table.column_names, f"the {what}s"
    key = usual(names, ID) if id_column is None else _column_number(where, names, id_column)
    key = 0 if key is None and index is None else key
    chosen = [_column_number(where, names, name) for name in columns] or [i for i in range(len(names)) if i != key]
    return id_array(index if key is None else table.column(key)), {names[i]: usable(table.column(i)) for i in chosen}


def node_names(names: Any, ids: pa.Array, *, column: str | None = None, id_column: str | None = None) -> pa.Array:
    """Display names as text in the order of `ids`, null for nodes without one.

    `names` is a mapping of ids to names, one name per node in row order, or a table with the column `column`, in a file
    or a data frame (by default the one called name, else the first that is not the id).

    >>> node_names({2: "bob"}, pa.array([1, 2])).to_pylist()
    [None, 'bob']
    """
    if isinstance(names, (str, os.PathLike)) or is_frame(names):
        table_names = as_table(names).column_names if is_frame(names) else open_table(names).names
        chosen = [column] if column is not None else [c for c in ("name",) if c in table_names]
        by_name = read_node_columns(names, ids, chosen, id_column=id_column, what="name")
        return as_text(next(iter(by_name.values())))
    if isinstance(names, Mapping):
        rows = index_in(ids, id_array(list(names)))
        return as_text(pa.array(list(names.values()), from_pandas=True)).take(rows)
    values = as_text(names if isinstance(names, pa.Array) else pa.array(names, from_pandas=True))
    if len(values) != len(ids):
        raise FeatureError(Argument("names"), f" must have one entry per node ({len(ids):,}), got {len(values):,}")
    return values


def as_text(values: pa.Array) -> pa.Array:
    """The values as text, whole numbers without a decimal point.

    >>> as_text(pa.array([1.0, None])).to_pylist()
    ['1', None]
    """
    if pa.types.is_floating(values.type) and (whole := values.drop_null().to_numpy()).size and (whole % 1 == 0).all():
        values = values.cast(pa.int64())
    return values.cast(pa.string())


def _column_number(where: Any, names: Sequence[str], name: str) -> int:
    number_or_error = position(name, names)
    if isinstance(number_or_error, str):
        raise FileError(f"{where}: {number_or_error}")
    return number_or_error


def _values(table: Table, i: int) -> pa.Array:
    """One column as numbers or text; of a text file, as numbers if every cell that is not empty is one."""
    if isinstance(table, ArrowTable):
        (column,) = table.read([i])
        return usable(column)
    (column,) = table.read({i: pa.string()})
    text = usable(column)
    text = pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)
    try:
        numbers = text.cast(pa.float64())
    except pa.ArrowInvalid:
        return text
    return numbers if np.isfinite(numbers.drop_null().to_numpy()).all() else text
