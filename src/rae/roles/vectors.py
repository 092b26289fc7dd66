"""Vectors as input of roles: checks, a sample that ignores the order of rows, principal directions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from rae.errors import FeatureError
from rae.graph.frames import is_frame, vectors_of
from rae.graph.ids import id_array
from rae.runtime import generator

Floats = np.ndarray[Any, np.dtype[np.float32]]
Doubles = np.ndarray[Any, np.dtype[np.float64]]
Ints = np.ndarray[Any, np.dtype[np.integer[Any]]]

CHUNK_ROWS = 65_536
MAX_DIRECTIONS = 32
LEADING_VARIANCE = 0.95  # share of the variance in the leading directions


def chunks(n: int, size: int = CHUNK_ROWS) -> Iterator[tuple[int, int]]:
    """Start and stop of consecutive chunks of 0..n."""
    return ((start, min(start + size, n)) for start in range(0, n, size))


def check_vectors(z: Any, width: int | None = None) -> Floats:
    """The vectors as a finite float32 matrix with one row or more.  (n, d) -> (n, d)"""
    z = split_ids(z)[1]
    try:
        matrix: Floats = np.ascontiguousarray(z, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise FeatureError(f"vectors must be a matrix of numbers, got {type(z).__name__}: {error}") from None
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise FeatureError(f"vectors must be a matrix with a row per node, got shape {matrix.shape}")
    if width is not None and matrix.shape[1] != width:
        raise FeatureError(f"these roles were fitted on vectors of width {width}, got width {matrix.shape[1]}")
    for start, stop in chunks(len(matrix)):
        finite = np.isfinite(matrix[start:stop]).all(1)
        if not finite.all():
            row = start + int(finite.argmin())
            raise FeatureError(f"vectors must be finite, got NaN or infinity, first in row {row:,}")
    return matrix


def split_ids(z: Any) -> tuple[pa.Array | None, Any]:
    """The ids that a data frame of vectors brings, None for anything else; and the vectors."""
    return vectors_of(z) if is_frame(z) else (None, z)


def checked_ids(ids: Any, n: int) -> pa.Array:
    """The ids of n rows."""
    column = id_array(ids)
    if len(column) != n:
        raise FeatureError(f"ids must have one entry per row ({n:,}), got {len(column):,}")
    return column


def sample_rows(z: Floats, size: int, seed: int) -> Floats:
    """At most `size` rows, chosen and ordered by their values.  (n, d) -> (m, d)

    Everything fitted on the sample is therefore the same, bit for bit, after a reshuffle of the rows.
    """
    row_bytes = z.view(np.dtype((np.void, z.shape[1] * z.itemsize))).reshape(-1)
    by_value = np.argsort(row_bytes, kind="stable")
    rows: Floats = z[by_value[sampled_positions(len(z), size, seed)]]
    return rows


def sampled_positions(n: int, size: int, seed: int) -> Ints:
    """The places of a sample of at most `size` rows among n that are sorted by their values, ascending."""
    if n <= size:
        return np.arange(n)
    return np.sort(generator(seed, "roles", "sample").choice(n, size, replace=False))


@dataclass(frozen=True, eq=False)
class Projection:
    """Vectors in a few orthogonal directions, the widest spread first."""

    mean: Doubles  # (d,)
    directions: Doubles  # (d, p)
    leading: int  # the first directions, which hold 95 % of the variance

    @classmethod
    def fit(cls, rows: Floats) -> Projection:
        """The principal directions of these rows, 32 at most."""
        from sklearn.decomposition import PCA

        mean = rows.mean(0, dtype=np.float64)
        centered = rows.astype(np.float64) - mean
        if len(centered) == 1:
            centered = np.repeat(centered, 2, axis=0)  # PCA needs two rows
        pca = PCA(min(MAX_DIRECTIONS, *centered.shape), svd_solver="covariance_eigh")
        with np.errstate(invalid="ignore"):  # equal rows have no variance to divide by
            pca.fit(centered)
        explained = np.cumsum(pca.explained_variance_ratio_)
        leading = min(len(explained), 1 + int(np.count_nonzero(explained < LEADING_VARIANCE)))
        return cls(mean, np.ascontiguousarray(pca.components_.T), leading)

    def leading_only(self) -> Projection:
        """The projection onto the leading directions."""
        return Projection(self.mean, np.ascontiguousarray(self.directions[:, : self.leading]), self.leading)

    def __call__(self, z: Floats) -> Doubles:
        """(n, d) -> (n, p)"""
        out: Doubles = (z.astype(np.float64) - self.mean) @ self.directions
        return out
