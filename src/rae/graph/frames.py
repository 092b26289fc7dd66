"""Data frames of any library: in through the Arrow C stream interface, out as Arrow, pandas or polars.

A frame exports its columns to Arrow (`__arrow_c_stream__`: pandas, polars, PyArrow, DuckDB, ibis, ...), or by the older
exchange protocol (`__dataframe__`: Modin). No library is imported for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from rae.errors import FeatureError, GraphError, needed_library, one_line
from rae.graph.column_names import ID, like_an_id, usual
from rae.graph.ids import id_array

Floats = np.ndarray[Any, np.dtype[np.float32]]


def as_table(df: Any) -> pa.Table:
    """The columns of a data frame as an Arrow table; an index is left out."""
    try:
        table = pa.table(df) if hasattr(df, "__arrow_c_stream__") else _from_exchange_protocol(df)
    except (pa.ArrowException, ValueError, TypeError, NotImplementedError, RuntimeError) as error:
        reason = one_line(error)
        raise GraphError(f"the table has a column that Arrow cannot hold ({reason}); mend it or leave it out") from None
    if table is None:
        raise GraphError(f"expected a data frame (pandas, polars, Arrow, DuckDB, ...), got {type(df).__name__}")
    index = [c for c in (table.schema.pandas_metadata or {}).get("index_columns", ()) if isinstance(c, str)]
    return table.drop_columns(index) if index else table


def _from_exchange_protocol(df: Any) -> pa.Table | None:
    """The table of a frame that has the older exchange protocol alone, None where it has neither."""
    if not hasattr(df, "__dataframe__"):
        return None
    from pyarrow.interchange import from_dataframe

    return from_dataframe(df)


def is_frame(x: Any) -> bool:
    """Whether x is a table with named columns, of any library that gives its data to Arrow, and no bare matrix.

    >>> is_frame(pa.table({"a": [1]})), is_frame(pa.chunked_array([[1]])), is_frame(np.eye(2))
    (True, False, False)
    """
    kind = type(x)
    gives = hasattr(kind, "__arrow_c_stream__") or hasattr(kind, "__dataframe__")
    return gives and (hasattr(kind, "columns") or hasattr(kind, "schema"))


def own_index(df: Any) -> Any:
    """The index of a frame that has one unless it is the row number, else None."""
    index: Any = getattr(df, "index", None)
    names = getattr(index, "names", None)  # the method `index` of other things has none
    if names is None or (list(names) == [None] and np.array_equal(index, np.arange(len(index)))):
        return None
    return index


def without_ids(df: Any) -> Any:
    """The values of a data frame in row order; a frame with ids is refused, since its rows may be in another order."""
    table = as_table(df)
    key = like_an_id(table.column_names)
    if key is not None or own_index(df) is not None:
        what = "an index" if key is None else f"a column {table.column_names[key]!r}"
        raise FeatureError(
            f"the data frame has {what} that seems to hold ids: pass FeatureTable.from_dataframe(df) to find rows by "
            "id, or a NumPy array of the numbers alone if the rows are in the graph's order"
        )
    try:
        return numbers(table)
    except FeatureError as error:
        advice = "; turn text into numbers, or pass FeatureTable.from_dataframe(df), which does so for a table with ids"
        raise FeatureError(error, advice) from None


def vectors_of(df: Any) -> tuple[pa.Array | None, Floats]:
    """The ids of a frame of vectors, from its column id or its index, None without; and the vectors themselves.

    >>> vectors_of(pa.table({"id": ["ann"], "place0": [1.0]}))[1].tolist()
    [[1.0]]
    """
    table, index = as_table(df), own_index(df)
    key = usual(table.column_names, ID)
    if key is not None:
        return id_array(table.column(key)), numbers(table.remove_column(key))
    return None if index is None else id_array(index), numbers(table)


# ------------------------------------------------------------------------------------------- out


FRAMES = ("pandas", "polars")


def vector_table(ids: pa.Array, z: Any) -> pa.Table:
    """Ids and vectors as a file of embeddings has them: the columns id and embedding.

    >>> vector_table(pa.array(["ann"]), np.ones((1, 2), np.float32)).to_pylist()
    [{'id': 'ann', 'embedding': [1.0, 1.0]}]
    """
    flat = pa.array(np.ascontiguousarray(z).ravel())
    return pa.table({"id": ids, "embedding": pa.FixedSizeListArray.from_arrays(flat, z.shape[1])})


def vector_frame(kind: str, ids: pa.Array, z: Any, names: Sequence[str]) -> Any:
    """Vectors as a frame of one column per name: the ids are the index of a pandas one, a column of a polars one."""
    if kind == "pandas":
        pandas = needed_library("pandas", "pandas", "a pandas frame")
        return pandas.DataFrame(z, index=pandas.Index(ids.to_pandas(), name="id"), columns=list(names))
    polars = needed_library("polars", "polars", "a polars frame")
    vectors = polars.DataFrame(z, schema=list(names), orient="row")
    return vectors.insert_column(0, polars.Series("id", ids))


def to_pandas(table: pa.Table) -> Any:
    """The table as a pandas frame, its column id as the index."""
    needed_library("pandas", "pandas", "a pandas frame")
    frame = table.to_pandas()
    return frame.set_index("id") if "id" in table.column_names else frame


# --------------------------------------------------------------------------------------- numbers


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
