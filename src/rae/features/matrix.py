"""Feature matrices: a float32 or float16 array or a float32 CSR, one row per node, checked.

Sparse stays sparse from here to the last product, half precision becomes float32 where rows are used, and what lies
in a mapped file stays there.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from typing import Any

import numpy as np
import scipy.sparse as sp

from rae.errors import FeatureError
from rae.graph.frames import is_frame, without_ids
from rae.memory import forget, mapped, row_runs

Matrix = np.ndarray[Any, np.dtype[np.float32 | np.float16]] | sp.csr_array

MAX_COLUMNS = 1 << 28  # weights of 192 columns each are 200 GB already
LARGEST = 1e18  # of a feature: products of larger ones are beyond float32, and a fit ends in NaN
TOO_LARGE = f"features must be numbers from -{LARGEST:g} to {LARGEST:g}, since products of larger ones overflow"
PIECE = 1 << 18  # numbers in double precision at a time
CHUNK = 1 << 22  # numbers checked at a time, so that a check needs no memory that grows with the matrix


def is_sparse(x: Any) -> bool:
    """Whether x is a SciPy sparse matrix or array."""
    return bool(sp.issparse(x))


def check_matrix(x: Any, n_rows: int | None = None) -> Matrix:
    """x as a finite matrix with one row per node: a C-ordered float32 or float16 array, or a float32 CSR.

    What is one already comes back as it is; a mapped file stays on disk and is read in pieces. A data frame is
    taken row by row; one that has ids of its own is refused: `FeatureTable.from_dataframe`.
    """
    if hasattr(x, "detach"):  # a torch tensor
        x = _from_torch(x.detach().cpu())
    elif is_frame(x):
        x = without_ids(x)
    if isinstance(x, str | os.PathLike):
        raise FeatureError(
            f"features must be a matrix or a table, got the path {x!s}; pass rae.read_features({str(x)!r})"
        )
    matrix: Any = _as_csr(x) if is_sparse(x) else _as_array(x)
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise FeatureError(
            f"features must be a table with one row per node and a column or more, got shape {matrix.shape}"
        )
    if matrix.shape[1] > MAX_COLUMNS:
        raise FeatureError(
            f"features must have {MAX_COLUMNS:,} columns or fewer, since each has weights of its own, "
            f"got {matrix.shape[1]:,}; hash or drop the rare ones"
        )
    if n_rows is not None and matrix.shape[0] != n_rows:
        raise FeatureError(
            f"features must have one row per node ({n_rows:,}), got {matrix.shape[0]:,}; "
            "pass a FeatureTable (rae.read_features) if the rows are keyed by id",
            argument="features",
        )
    _refuse_not_finite(matrix)
    checked: Matrix = matrix
    return checked


def _as_array(x: Any) -> Any:
    array = np.asarray(x)
    _refuse_dtype(array.dtype)
    with np.errstate(over="ignore"):  # what is beyond float32 is refused as infinite
        return np.require(array, np.float16 if array.dtype == np.float16 else np.float32, ["C", "A"])


def check_csr(x: Any) -> Any:
    """Sparse x as a float32 CSR whose entries all lie inside it."""
    _refuse_dtype(x.dtype)
    with np.errstate(over="ignore"):
        matrix: Any = x if isinstance(x, sp.csr_array) and x.dtype == np.float32 else sp.csr_array(x, dtype=np.float32)
    n_entries, n_columns = len(matrix.indices), matrix.shape[1]
    sound = int(matrix.indptr[0]) == 0 and int(matrix.indptr[-1]) <= min(n_entries, len(matrix.data))
    sound = sound and bool((np.diff(matrix.indptr) >= 0).all())
    for a in range(0, n_entries, CHUNK):
        columns = matrix.indices[a : a + CHUNK]
        sound = sound and int(columns.min()) >= 0 and int(columns.max()) < n_columns
        forget(matrix.indices)
    if not sound:
        raise FeatureError(f"the sparse matrix is damaged: entries lie outside of its {n_columns:,} columns")
    return matrix


def _as_csr(x: Any) -> Any:
    """The CSR of sparse x, each entry once and in order."""
    matrix = check_csr(x)
    if not _is_canonical(matrix):
        matrix = matrix.copy()  # the arrays are the caller's, or a file's
        matrix.sum_duplicates()
    return matrix


def _is_canonical(matrix: Any) -> bool:
    if mapped(matrix.indices) is None:
        return bool(matrix.has_canonical_format)
    for a, b in row_runs(matrix.indptr, CHUNK):
        if not csr_rows(matrix, a, b).has_canonical_format:
            return False
        forget(matrix.indices, matrix.data)
    return True


def _refuse_not_finite(matrix: Any) -> None:
    """Refuse entries that are NaN, infinite or too large; the error counts them and names the first."""
    values = matrix.data if is_sparse(matrix) else matrix
    step = max(1, CHUNK // max(1, values[:1].size))
    bad = 0
    first: tuple[int, ...] = ()
    for a in range(0, len(values), step):
        usable = np.abs(values[a : a + step]) <= np.float32(LARGEST)  # halves cannot hold it
        if not usable.all():
            row, *column = (int(positions[0]) for positions in np.nonzero(~usable))
            first = first if bad else (a + row, *column)
            bad += int(np.count_nonzero(~usable))
        forget(values)
    value = float(values[first]) if bad else 0.0
    if bad and is_sparse(matrix):
        first = bisect_right(matrix.indptr, first[0]) - 1, int(matrix.indices[first[0]])
    if bad and np.isfinite(value):
        raise FeatureError(
            f"{TOO_LARGE}, got {bad:,}, first {value:g} in row {first[0]:,}, column {first[1]:,}; mend them, or take "
            "the logarithm of that column"
        )
    if bad:
        raise FeatureError(
            f"features must be finite numbers within float32, got {bad:,} NaN or infinite, "
            f"first in row {first[0]:,}, column {first[1]:,}; fill or drop them"
        )


def column_sizes(matrix: Matrix) -> np.ndarray[Any, np.dtype[np.float64]]:
    """How much each column varies: its deviation, 1/2 for a column of 0 and 1; 0 for a constant one.  (n, m) -> (m,)

    Of a sparse matrix, the root mean square of the entries that are not zero: a rare word is as large as a common one.

    >>> column_sizes(np.array([[0, 5, 7], [1, 5, 9]], np.float32)).tolist()
    [0.5, 0.0, 1.0]
    """
    n, m = matrix.shape
    if not isinstance(matrix, np.ndarray):
        squares, counts = np.zeros(m), np.zeros(m)
        for a in range(0, len(matrix.data), PIECE):
            values, columns = matrix.data[a : a + PIECE].astype(np.float64), matrix.indices[a : a + PIECE]
            squares += np.bincount(columns, values**2, m)
            counts += np.bincount(columns, values != 0, m)
            forget(matrix.data, matrix.indices)
        return np.sqrt(squares / np.maximum(counts, 1))
    total, squares, binary = np.zeros(m), np.zeros(m), np.ones(m, bool)
    first = matrix[:1].astype(np.float64)
    step = max(1, PIECE // m)
    for a in range(0, n, step):
        rows = matrix[a : a + step].astype(np.float64)
        binary &= ((rows == 0) | (rows == 1)).all(0)
        rows -= first  # so that little cancels
        total += rows.sum(0)
        squares += (rows**2).sum(0)
        forget(matrix)
    deviations = np.sqrt(np.maximum(squares / n - (total / n) ** 2, 0))
    return np.where(binary & (deviations > 0), 0.5, deviations)


def csr_rows(matrix: Any, a: int, b: int) -> Any:
    """Rows a..b of a float32 CSR, without a copy of their entries."""
    start, stop = matrix.indptr[a], matrix.indptr[b]
    part: Any = sp.csr_array((b - a, matrix.shape[1]), dtype=np.float32)
    part.data, part.indices = matrix.data[start:stop], matrix.indices[start:stop]
    part.indptr = matrix.indptr[a : b + 1] - start
    return part


def as_float32(rows: Matrix) -> Matrix:
    """The rows in float32; rows that are no float16 come back as they are."""
    return rows.astype(np.float32) if rows.dtype == np.float16 else rows


def _from_torch(x: Any) -> Any:
    if str(x.layout) != "torch.strided":
        entries = x.to_sparse_coo().coalesce()
        if entries.ndim != 2 or entries.sparse_dim() != 2:
            raise FeatureError(f"sparse features must be a matrix, got shape {tuple(x.shape)}; pass x.to_dense()")
        return sp.coo_array((_from_torch(entries.values()), tuple(entries.indices().numpy())), shape=tuple(x.shape))
    return (x.float() if str(x.dtype) == "torch.bfloat16" else x).numpy()  # NumPy has no bfloat16


def _refuse_dtype(dtype: np.dtype[Any]) -> None:
    if dtype.kind not in "biuf":
        raise FeatureError(
            f"features must be numbers, got {dtype}; turn text into numbers first (one column per word), "
            "or pass FeatureTable.from_dataframe(df), which does so for a table with ids"
        )


def concatenate(first: Any, second: Any) -> Matrix:
    """Two feature matrices side by side; sparse if either is."""
    a, b = check_matrix(first), check_matrix(second)
    if a.shape[0] != b.shape[0]:
        raise FeatureError(f"both must have one row per node, got {a.shape[0]:,} and {b.shape[0]:,} rows")
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return np.ascontiguousarray(np.hstack([a, b]))
    return sp.csr_array(sp.hstack([sp.csr_array(as_float32(a)), sp.csr_array(as_float32(b))], format="csr"))
