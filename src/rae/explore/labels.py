"""Labels from a table of the user, joined to the nodes by id."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rae.errors import Argument, FileError
from rae.explore.columns import Column, label_column
from rae.graph.column_names import ID, position, usual
from rae.graph.ids import index_in, shown
from rae.io.tables import ArrowTable, Table, open_table, read_ids

log = logging.getLogger("rae")


def read_labels(
    path: str | os.PathLike[str], ids: pa.Array, columns: Sequence[str] = (), *, id_column: str | None = None
) -> tuple[Column, ...]:
    """The columns of this table (by default all but the id) in the order of `ids`; missing where a node has no row.

    `id_column` is by default the column called id or node, else the first.
    """
    # A column that is named by a word implies a header.
    table = open_table(path, True if any(not c.isdigit() for c in (*columns, id_column or "0")) else None)
    key = _column_number(path, table, id_column) if id_column is not None else (usual(table.names, ID) or 0)
    chosen = [_column_number(path, table, name) for name in columns] or [i for i in range(len(table.names)) if i != key]
    if not chosen:
        raise FileError(f"{path} has only ids (column {table.names[key]!r}), expected one column of labels or more")
    (keys,) = read_ids(table, {"label": key})
    rows = index_in(ids, keys)
    if rows.null_count == len(ids):
        raise FileError(
            f"{path}: none of its {len(keys):,} ids is a node: its ids are {keys.type} such as {shown(keys)}, "
            f"node ids are {ids.type} such as {shown(ids)}; check ",
            Argument("id_column"),
        )
    repeated = len(keys) - len(keys.unique())
    unknown = len(keys.unique()) - (len(ids) - rows.null_count)
    for count, what in (
        (rows.null_count, "of the nodes have no label"),
        (unknown, "of its ids are no node"),
        (repeated, "of its rows repeat an id: the first one counts"),
    ):
        if count:
            log.warning("%s: %s %s", path, f"{count:,}", what)
    return tuple(label_column(table.names[i], _values(table, i).take(rows)) for i in chosen)


def _column_number(path: str | os.PathLike[str], table: Table, name: str) -> int:
    number_or_error = position(name, table.names)
    if isinstance(number_or_error, str):
        raise FileError(f"{Path(path)}: {number_or_error}")
    return number_or_error


def _values(table: Table, i: int) -> pa.Array:
    """One column as numbers or text; of a text file, as numbers if every cell that is not empty is one."""
    if isinstance(table, ArrowTable):
        (column,) = table.read([i])
        return _one_array(column)
    (column,) = table.read({i: pa.string()})
    text = _one_array(column)
    text = pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)
    try:
        numbers = text.cast(pa.float64())
    except pa.ArrowInvalid:
        return text
    return numbers if np.isfinite(numbers.drop_null().to_numpy()).all() else text


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    array = column.combine_chunks()
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
