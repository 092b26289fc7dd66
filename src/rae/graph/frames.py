"""Data frames (pandas, polars, Arrow) as Arrow tables or as numbers, and the ids in them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from rae.errors import FeatureError, GraphError
from rae.graph.column_names import like_an_id

Floats = np.ndarray[Any, np.dtype[np.float32]]


def as_table(df: Any) -> pa.Table:
    """The columns of a data frame as an Arrow table; a pandas index is left out."""
    if isinstance(df, pa.Table):
        return df
    if isinstance(df, pa.RecordBatch):
        return pa.Table.from_batches([df])
    try:
        if _is_pandas(df):
            return pa.Table.from_pandas(df, preserve_index=False)
        if hasattr(df, "__arrow_c_stream__"):  # polars, duckdb, ...
            return pa.table(df)
        if hasattr(df, "to_arrow"):
            return df.to_arrow()
    except (pa.ArrowException, ValueError) as error:
        reason = str(error).strip().split("\n")[0]
        raise GraphError(f"the table has a column that Arrow cannot hold ({reason}); mend it or leave it out") from None
    raise GraphError(f"expected a pandas, polars or Arrow table, got {type(df).__name__}")


def is_frame(x: Any) -> bool:
    """Whether x is a table with named columns and not a bare matrix."""
    return isinstance(x, (pa.Table, pa.RecordBatch)) or (hasattr(x, "columns") and hasattr(x, "to_numpy"))


def own_index(df: Any) -> Any:
    """The index of a pandas frame unless it is the row number, else None."""
    index = getattr(df, "index", None) if _is_pandas(df) else None
    if index is None or (list(index.names) == [None] and np.array_equal(index, np.arange(len(index)))):
        return None
    return index


def without_ids(df: Any) -> Any:
    """The values of a data frame in row order; a frame with ids is refused, since its rows may be in another order."""
    names = [str(name) for name in (df.column_names if isinstance(df, (pa.Table, pa.RecordBatch)) else df.columns)]
    key = like_an_id(names)
    if key is not None or own_index(df) is not None:
        what = "an index" if key is None else f"a column {names[key]!r}"
        raise FeatureError(
            f"the data frame has {what} that seems to hold ids: pass FeatureTable.from_dataframe(df) to find rows by "
            "id, or a NumPy array of the numbers alone if the rows are in the graph's order"
        )
    if isinstance(df, (pa.Table, pa.RecordBatch)):
        return numbers(as_table(df))
    return df.to_numpy()


def numbers(table: pa.Table) -> Floats:
    """The columns of a table side by side; one that is not of numbers is refused by name.  -> (n, d)"""
    out = np.empty((table.num_rows, table.num_columns), np.float32)
    for j, name in enumerate(table.column_names):
        out[:, j] = float_column(table.column(j), name)
    return out


def float_column(column: pa.ChunkedArray, name: str) -> Floats:
    """A column of any kind of number as float32, NaN where it is null."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if pa.types.is_boolean(kind):
        column = column.cast(pa.uint8())
    elif pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
    elif not pa.types.is_integer(kind) and not pa.types.is_floating(kind):
        raise FeatureError(f"column {name!r} must hold numbers, got {kind}")
    with np.errstate(over="ignore"):  # beyond float32 becomes infinite, which is refused by name
        out: Floats = column.to_numpy().astype(np.float32)
    return out


def _is_pandas(df: Any) -> bool:
    return type(df).__module__.startswith("pandas")
