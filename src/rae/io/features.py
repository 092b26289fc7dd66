"""Features from a file: one row per id, one row per (id, word), or a matrix without ids."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from rae.errors import Argument, FeatureError, FileError, GraphError, one_line
from rae.features import FeatureTable, Matrix, check_matrix
from rae.features.columns import MAX_VALUES, columns_of_model, encode, is_category, refuse_crowds, refuse_gaps
from rae.features.table import column_number, pairs_advice, refuse_doubled
from rae.graph.column_names import ID, usual
from rae.graph.frames import float_column
from rae.graph.ids import id_array
from rae.io.files import File, check_path, identify, parquet_parts
from rae.io.header import is_missing, is_number
from rae.io.json_features import read_json
from rae.io.npz import DAMAGED, LEAST_MAPPED, open_npz
from rae.io.tables import Table, open_table, read_ids
from rae.io.text import TextTable
from rae.memory import mapped
from rae.storage.npy import map_array
from rae.storage.objects import on_disk, place

log = logging.getLogger("rae")

MOST_EMPTY_ROWS = 1 << 27  # of a sparse matrix: more need as many entries, since each takes memory

Floats = np.ndarray[Any, np.dtype[np.float32]]


def read_features(
    path: str | os.PathLike[str],
    *,
    id: str | None = None,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
    categories: Sequence[str] | None = None,
    feature: str | None = None,
    value: str | None = None,
    header: bool | None = None,
    as_text: bool = False,
    like: Sequence[str] | None = None,
) -> FeatureTable | Matrix:
    """The features of a file, keyed by id; a NumPy or SciPy file without ids gives the bare matrix.

    Wide: the column `id` (by default the one called id, node or node_id, else the first) and
    `columns` (by default all but the id) without those of `drop`: numbers as they are, true and false as
    1 and 0, dates as years since 2000, text as one 0/1 column per value, called `column=value`, an empty
    cell being a value too; or one column of equally long lists of numbers. `categories` are columns of
    numbers (codes, kinds) to encode by value as text is. `like` are the columns of a fitted model,
    `model.feature_names`, by which the columns are then encoded.

    Long: `feature` names the column of words or items, `value` that of their numbers (by default 1 each;
    the same pair twice adds up), which makes a sparse matrix with the sorted words as names.

    JSON: a list of features for each id, {"ann": ["buys", "sells"]}, or a number for each of its features,
    {"ann": {"buys": 2}}.

    .npz: a SciPy sparse matrix, or the array x (or the only matrix in it), with or without ids and
    names. .npy: a matrix. Rows without ids are in the graph's row order. `as_text` keeps ids that
    are whole numbers as text. Memory-mapped, and so never in memory as a whole: a .npy of float32 or
    float16 in C order, and a CSR of float32 that was saved with `scipy.sparse.save_npz(compressed=False)`.
    """
    check_path(path, "rae.FeatureTable.from_dataframe")
    if not parquet_parts(path) and (file := identify(path)).kind in ("zip", "npy", "json"):
        return read_json(file, as_text=as_text) if file.kind == "json" else _read_numpy(file, as_text)
    table = open_table(path, header, "read_features")
    with _errors_name(place(path)):
        key = column_number(id, table.names) if id is not None else (usual(table.names, ID) or 0)
        if feature is not None:
            if odd := next(
                (n for n, v in (("columns", columns), ("drop", drop), ("categories", categories)) if v), None
            ):
                raise FeatureError(
                    *(Argument(odd, ...), " is about a table with one row per id, "),
                    *(Argument("feature", ...), " about one with a row per (id, word) pair; pass one of them"),
                )
            return _read_long(table, key, feature, value, as_text)
        if value is not None:
            raise FeatureError(
                *(
                    Argument("value", ...),
                    " goes with ",
                    Argument("feature", ...),
                    ", the column of words; pass both or ",
                ),
                Argument("columns", ...),
            )
        chosen = _choose_columns(table, key, columns, drop or ())
        chosen = [chosen[i] for i in columns_of_model([table.names[i] for i in chosen], like)]
        by_value = {table.names[column_number(name, table.names)] for name in categories or ()}
        return _read_wide(table, key, chosen, by_value, like, as_text)


# ------------------------------------------------------------------------------------- wide


def _choose_columns(table: Table, key: int, columns: Sequence[str] | None, drop: Sequence[str]) -> list[int]:
    """The positions of the columns that are features."""
    dropped = {column_number(name, table.names) for name in drop}
    among = range(len(table.names)) if columns is None else [column_number(name, table.names) for name in columns]
    chosen = [i for i in among if i not in dropped and (columns is not None or i != key)]
    if not chosen:
        only = f"there are only ids (column {table.names[key]!r})"
        raise FeatureError(only if not drop else "no column is left", ", expected one column of features or more")
    return chosen


def _read_wide(
    table: Table, key: int, chosen: list[int], categories: Collection[str], like: Sequence[str] | None, as_text: bool
) -> FeatureTable:
    names = [table.names[i] for i in chosen]
    (ids,) = read_ids(table, {"feature": key}, as_text=as_text)
    if len(ids) == 0:
        raise FeatureError("there are no rows, only column names; expected one row per node")
    refuse_doubled(ids, *pairs_advice(names, _kinds(table, chosen)))
    if isinstance(table, TextTable):
        by_value = {name for name in names if name in categories or (like is not None and is_category(name, like))}
        columns = table.read(_text_kinds(table, chosen, by_value, is_known=like is not None))
    else:
        columns = table.read(chosen, as_dictionaries=True)
    lists = [name for name, column in zip(names, columns, strict=True) if _is_list(column.type)]
    if lists and len(names) > 1:
        alone = Argument("columns", lists[:1])
        raise FeatureError(f"column {lists[0]!r} holds lists and must stand alone; pass ", alone)
    if lists:
        matrix = list_matrix(columns[0], names[0])
        refuse_gaps(matrix, ids, None)
        return FeatureTable(ids, matrix)
    encoded = encode(ids, names, columns, categories=categories, like=like)
    return FeatureTable(ids, encoded.matrix, encoded.names, encodings=encoded.encodings)


def _kinds(table: Table, chosen: Sequence[int]) -> list[pa.DataType]:
    """The kinds of these columns, of a text table by its first rows."""
    if not isinstance(table, TextTable):
        return [table.schema.types[i] for i in chosen]
    return [_text_kind({row[i] for row in table.sample if len(row) > i}) for i in chosen]


DATES = (pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.timestamp("ns"), pa.timestamp("ns", "UTC"))
TEXT = pa.dictionary(pa.int32(), pa.string())


def _text_kinds(
    table: TextTable, chosen: Sequence[int], categories: Collection[str], *, is_known: bool
) -> dict[int, pa.DataType]:
    """What each column is read as, from the first rows: numbers, true and false, ISO dates, else text."""
    kinds = {}
    for i in chosen:
        cells = {row[i] for row in table.sample if len(row) > i}
        kinds[i] = TEXT if table.names[i] in categories else _text_kind(cells)
        if kinds[i] == TEXT and len(cells) > MAX_VALUES and not is_known:  # before the whole of it is read
            refuse_crowds([table.names[i]], len(cells), first_rows=True)
        if kinds[i] == TEXT and table.names[i] not in categories:
            _warn_of_a_mixture(table, table.names[i], cells)
    return kinds


def _text_kind(cells: Collection[str]) -> pa.DataType:
    if cells and all(c.casefold() in ("true", "false") for c in cells):
        return pa.bool_()
    if all(map(is_number, cells)):
        return pa.float32()
    present = pa.array(sorted(c for c in cells if not is_missing(c)), pa.string())
    for kind in DATES:
        try:
            present.cast(kind)
        except pa.ArrowInvalid:
            continue
        return kind
    return TEXT


def _warn_of_a_mixture(table: TextTable, name: str, cells: Collection[str]) -> None:
    numbers = sum(is_number(c) and not is_missing(c) for c in cells)
    words = sorted(c for c in cells if not is_number(c))
    if numbers > len(words):
        log.warning(
            "%s: column %r holds numbers and words such as %r, and becomes one column per value; "
            "mend those cells if it should hold numbers",
            *(table.file.path, name, words[0]),
        )


def list_matrix(column: pa.ChunkedArray, name: str) -> Floats:
    """A column of equally long lists of numbers as one matrix.  n lists of d -> (n, d)"""
    if column.null_count:
        raise FeatureError(f"column {name!r} has {column.null_count:,} missing lists; fill or drop those rows")
    fixed = pa.types.is_fixed_size_list(column.type)
    widths = [column.type.list_size] if fixed else pc.unique(pc.list_value_length(column)).to_pylist()
    if len(widths) > 1:
        raise FeatureError(
            f"the lists in column {name!r} must be equally long, got lengths {min(widths)} to {max(widths)}"
        )
    flat = float_column(pc.list_flatten(column), name)
    return flat.reshape(len(column), widths[0] if widths else 0)


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


# ------------------------------------------------------------------------------------- long


def _read_long(table: Table, key: int, feature: str, value: str | None, as_text: bool) -> FeatureTable:
    word = column_number(feature, table.names)
    if word == key:
        raise FeatureError(
            f"the id and the feature must be two columns, got {feature!r} for both; pass ", Argument("id", ...), " too"
        )
    (ids,) = read_ids(table, {"feature": key}, as_text=as_text)
    (words,) = read_ids(table, {"word": word}, as_text=True)
    if len(ids) == 0:
        raise FeatureError("there are no rows, only column names; expected one (id, word) pair or more")
    numbers = None
    if value is not None:
        numbers = _value_column(table, column_number(value, table.names))
        refuse_gaps(numbers[:, None], ids, [value])
    return FeatureTable.from_pairs(ids, words, numbers)


def _value_column(table: Table, at: int) -> Floats:
    """The numbers of (id, word, number) rows."""
    name = table.names[at]
    if not isinstance(table, TextTable):
        return float_column(table.read([at])[0], name)
    if odd := next((row[at] for row in table.sample if len(row) > at and not is_number(row[at])), None):
        raise FeatureError(
            f"column {name!r} must hold numbers, got {odd!r}; name another with ", Argument("value", ...)
        )
    return float_column(table.read({at: pa.float32()})[0], name)


# ------------------------------------------------------------------------------ NumPy and SciPy


def _read_numpy(file: File, as_text: bool) -> FeatureTable | Matrix:
    if file.compression:
        raise FileError(f"{file.path} is a packed NumPy file; unpack it first")
    try:
        with on_disk(file.path) as path:  # what is mapped outlives its name
            loaded: Any = open_npz(path) if file.kind == "zip" else map_array(path)
    except DAMAGED as error:
        raise FileError(f"{file.path} is no NumPy file of plain numbers ({one_line(error)}); save it again") from None
    with _errors_name(file.path):
        return _table_or_matrix(file.path, loaded, as_text) if file.kind == "zip" else _bare_matrix(file.path, loaded)


def _bare_matrix(path: Any, array: Any) -> Matrix:
    matrix = check_matrix(array)
    if mapped(matrix) is None and array.nbytes >= LEAST_MAPPED:
        log.info("%s is read into memory; it could be mapped as float32 or float16 in C order", path)
    return matrix


def _table_or_matrix(path: Any, arrays: dict[str, Any], as_text: bool) -> FeatureTable | Matrix:
    matrix = check_matrix(_sparse(path, arrays) if "format" in arrays else _dense(arrays))
    if "ids" not in arrays:
        return matrix
    ids = id_array(arrays["ids"])
    if as_text and pa.types.is_integer(ids.type):
        ids = ids.cast(pa.string())
    if len(ids) != matrix.shape[0]:
        raise FeatureError(f"ids must have one entry per row of the matrix ({matrix.shape[0]:,}), got {len(ids):,}")
    names = tuple(map(str, arrays["names"].ravel())) if "names" in arrays else None
    return FeatureTable(ids, matrix, names)


def _dense(arrays: dict[str, Any]) -> Any:
    matrices = [name for name, array in arrays.items() if array.ndim == 2 and name not in ("ids", "names")]
    if "x" in arrays:
        return arrays["x"]
    if len(matrices) != 1:
        raise FeatureError(f"expected an array called x, or just one matrix, got {', '.join(arrays) or 'nothing'}")
    return arrays[matrices[0]]


def _sparse(path: Path, arrays: dict[str, Any]) -> Any:
    """The SciPy matrix of the file."""
    for name in ("indices", "indptr", "row", "col", "offsets"):
        if name in arrays and arrays[name].dtype.kind != "i":
            raise FeatureError(f"{name} of a sparse matrix must be whole numbers, got {arrays[name].dtype}")
    try:
        if arrays["format"].tolist() in (b"csr", "csr"):
            return _csr(path, arrays)
        rows = sp.csr_array(_other_format(arrays))
        rows.check_format(full_check=True)
    except (ValueError, TypeError, IndexError, KeyError, OverflowError) as error:
        raise FeatureError(f"the sparse matrix is damaged ({one_line(error)}); save it again") from None
    return rows


def _other_format(arrays: dict[str, Any]) -> Any:
    """The matrix of these arrays in the format they name, as SciPy saves it; its own checks raise ValueError."""
    name, shape, data = arrays["format"].tolist(), _shape(arrays), arrays["data"]
    name = name.decode("latin1") if isinstance(name, bytes) else name
    if shape[0] > max(MOST_EMPTY_ROWS, 100 * data.size):
        raise ValueError(f"{shape[0]:,} rows for {data.size:,} entries")
    if data.dtype.kind not in "biuf":
        raise ValueError(f"its entries are {data.dtype}")
    if name == "coo":
        return sp.coo_array((data, (arrays["row"], arrays["col"])), shape=shape)
    if name == "dia":
        offsets = arrays["offsets"]
        if (data.ndim, offsets.shape) != (2, (len(data),)) or len(np.unique(offsets)) != len(offsets):
            raise ValueError("its diagonals do not go with their offsets")
        return sp.dia_array((data, offsets.astype(np.int64)), shape=shape)
    if name not in ("csc", "bsr"):
        raise ValueError(f"unknown format {name!r}")
    parts = (data, arrays["indices"], arrays["indptr"])
    matrix = sp.csc_array(parts, shape=shape) if name == "csc" else sp.bsr_array(parts, shape=shape)
    matrix.check_format(full_check=True)
    return matrix


def _shape(arrays: dict[str, Any]) -> tuple[int, int]:
    n, width = (int(size) for size in arrays["shape"].tolist())
    if min(n, width) < 0:
        raise ValueError(f"its shape is {n:,} x {width:,}")
    return n, width


def _csr(path: Path, arrays: dict[str, Any]) -> Any:
    """The CSR of these arrays, not copied where their types allow it; ValueError if they do not fit.

    That its entries lie inside it is checked by `check_matrix`.
    """
    data, indices, indptr = (arrays[name] for name in ("data", "indices", "indptr"))
    n, width = _shape(arrays)
    if (data.ndim, indices.ndim, indptr.shape) != (1, 1, (n + 1,)):
        raise ValueError(f"shape {n:,} x {width:,} does not go with its arrays")
    last = int(indptr[-1])
    if int(indptr[0]) != 0 or (indptr[1:] < indptr[:-1]).any() or last > len(indices) or len(indices) != len(data):
        raise ValueError("indptr must rise from 0 to the number of entries")
    kind = np.int64 if max(last, width, n) > np.iinfo(np.int32).max or indices.dtype == np.int64 else np.int32
    rows: Any = sp.csr_array((n, width), dtype=np.float32)
    rows.data, rows.indices, rows.indptr = data[:last], indices[:last].astype(kind, copy=False), indptr.astype(kind)
    if mapped(indices) is None and indices.nbytes >= LEAST_MAPPED:
        log.info("%s is packed and read into memory; save_npz(compressed=False) lets it be mapped", path)
    elif mapped(data) is not None and data.dtype != np.float32:
        log.info("%s holds %s and its values are read into memory; those of float32 are mapped", path, data.dtype)
    return rows


# ------------------------------------------------------------------------------------- errors and columns


@contextmanager
def _errors_name(path: Any) -> Iterator[None]:
    """Errors in this block begin with the path of the file."""
    try:
        yield
    except (FeatureError, GraphError) as error:
        where = "" if str(error).startswith(str(path)) else f"{path}: "
        raise FeatureError(where, error) from None
