"""Features: what a model reads for each node of one graph: given features (X_a), structural ones (X_s), or both.

One object for fit, inference, plan and checkpoint: it knows its width and names, gives rows by range or by index,
and has a digest. Structural rows are computed when they are asked for; given ones may lie in a mapped file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from rae.config import Config
from rae.errors import Argument, FeatureError
from rae.features.matrix import LARGEST, Matrix, as_float32, check_matrix, concatenate, csr_rows, is_sparse
from rae.features.structural import structural_features, structural_width
from rae.features.table import FeatureTable
from rae.graph import Graph
from rae.graph.frames import as_table, is_frame
from rae.graph.ids import id_array, index_in
from rae.memory import forget, mapped
from rae.storage.parts import digest_of


@dataclass(frozen=True, eq=False)
class Features:
    """The rows that a model reads for the nodes of `graph`, in its row order.

    >>> features = Features.of(Graph.from_edges([(0, 1), (1, 2)]), None, Config(degree_cap=2, degree_scale="raw"))
    >>> features.width, features.rows(1, 2).tolist(), features.take([0, 2]).tolist()
    (3, [[2.0, 1.0, 1.0]], [[1.0, 2.0, 0.0], [1.0, 2.0, 0.0]])
    """

    graph: Graph
    matrix: Any  # (n, d) float32 or float16 array, in memory or mapped, or a float32 CSR; None for structure alone
    config: Config
    names: tuple[str, ...] | None = None  # of the given columns
    structure: Any = None  # the structural columns, once they are in memory
    is_checked: bool = True  # whether the whole matrix was searched for NaN
    categories: frozenset[str] = frozenset()  # columns of a table that became one column per value, `column=value`

    @classmethod
    def of(
        cls,
        graph: Graph,
        given: Any,
        config: Config,
        names: Sequence[str] | None = None,
        *,
        check: bool = True,
        categories: frozenset[str] = frozenset(),
    ) -> Features:
        """The features of a graph: None for structure alone, a matrix in row order, a frame, or a FeatureTable.

        Without `check`, a dense matrix of the right shape is not searched for NaN; `rows` checks what it gives.
        """
        matrix = given
        if isinstance(given, FeatureTable):
            categories = given.categories
            names = given.names if names is None else names
            matrix = given.aligned(graph)
        elif is_frame(given):
            _refuse_id_column(given, graph)
        dense = isinstance(matrix, np.ndarray) and matrix.ndim == 2 and matrix.dtype in (np.float32, np.float16)
        check = check or not dense or matrix.shape[0] != graph.n_nodes or not matrix.shape[1]
        if matrix is not None and check:
            matrix = check_matrix(matrix, graph.n_nodes)
        names = None if names is None else tuple(map(str, names))
        features = cls(graph, matrix, config, names, is_checked=check, categories=categories)
        if features.names is not None and len(features.names) != features.given_width:
            raise FeatureError(
                Argument("feature_names"),
                f" must have one entry per column ({features.given_width:,}), got {len(features.names):,}",
            )
        return features

    @property
    def given_width(self) -> int:
        """Columns of the given features, 0 for structure alone."""
        return 0 if self.matrix is None else int(self.matrix.shape[1])

    @property
    def structural_width(self) -> int:
        """Columns of the structural features, 0 where the model does not read them."""
        return structural_width(self.config, self.matrix is None)

    @property
    def width(self) -> int:
        """Columns that the model reads: the structural ones first."""
        return self.structural_width + self.given_width

    @property
    def is_structural(self) -> bool:
        """Whether the model reads structure alone."""
        return self.matrix is None

    @property
    def is_dense(self) -> bool:
        """Whether rows are arrays and not sparse matrices."""
        return not is_sparse(self.matrix)

    @property
    def is_mapped(self) -> bool:
        """Whether the given features lie in a mapped file."""
        return bool(self._arrays) and mapped(self._arrays[-1]) is not None

    @property
    def row_entries(self) -> int:
        """Numbers in a row, on average where the rows are sparse."""
        return self.width if self.is_dense else self.structural_width + -(-self.matrix.nnz // self.graph.n_nodes)

    @property
    def given_bytes(self) -> int:
        """Bytes of the given features, in memory or mapped."""
        return sum(int(array.nbytes) for array in self._arrays)

    @property
    def resident_bytes(self) -> int:
        """Bytes of the given features that are in memory and not mapped."""
        structure = 0 if self.structure is None else int(self.structure.nbytes)
        return structure + sum(int(array.nbytes) for array in self._arrays if mapped(array) is None)

    def in_memory(self) -> Features:
        """The same features with the structural columns computed once, for training, which reads rows at random."""
        if not self.structural_width or self.structure is not None:
            return self
        return replace(self, structure=self._structural((0, self.graph.n_nodes)))

    def whole(self) -> Any:
        """The dense matrix itself where the rows are one, without a copy; None where they are computed or sparse."""
        if self.matrix is None:
            return self.structure
        return self.matrix if self.is_dense and not self.config.add_structure else None

    def rows(self, a: int, b: int) -> Matrix:
        """Rows a..b, float32.  -> (b - a, width)"""
        structure: Any = self._structural((a, b)) if self.structural_width else None
        if self.matrix is None:
            computed: Matrix = structure
            return computed
        matrix: Any = self.matrix[a:b] if self.is_dense else csr_rows(self.matrix, a, b)
        return self._join(structure, matrix, f"rows {a:,} to {b - 1:,}")

    def take(self, index: Any) -> Matrix:
        """The rows that an index names, in its order, float32.  (b,) -> (b, width)"""
        index = np.asarray(index)
        structure: Any = self._structural(index) if self.structural_width else None
        if self.matrix is None:
            computed: Matrix = structure
            return computed
        return self._join(structure, self.matrix[index], "the rows asked for")

    def digest(self) -> str:
        """The SHA-256 of the given features, "structural" where there are none."""
        return "structural" if self.matrix is None else digest_of(*self._arrays)

    def release(self) -> None:
        """Give back the memory of mapped pages, those of the graph too."""
        forget(*self.graph.arrays, *self._arrays)

    @property
    def _arrays(self) -> tuple[Any, ...]:
        if self.matrix is None:
            return ()
        return (self.matrix,) if self.is_dense else (self.matrix.indptr, self.matrix.indices, self.matrix.data)

    def _structural(self, rows: Any) -> Any:
        if self.structure is not None:
            return self.structure[slice(*rows) if isinstance(rows, tuple) else rows]
        c = self.config
        return structural_features(
            self.graph, cap=c.degree_cap, above_cap=c.degree_above_cap, scale=c.degree_scale, seed=c.seed, rows=rows
        )

    def _join(self, structure: Any, matrix: Any, where: str) -> Matrix:
        if not self.is_dense:
            matrix = sp.csr_array(matrix)
        else:
            matrix = np.ascontiguousarray(as_float32(matrix))
            if not self.is_checked and not (np.abs(matrix) <= LARGEST).all():
                what = "NaN or infinite" if not np.isfinite(matrix).all() else "larger ones"
                raise FeatureError(f"features must be finite and at most {LARGEST:g}, got {what} in {where}")
        joined: Matrix = matrix if structure is None else concatenate(structure, matrix)
        return joined


def _refuse_id_column(df: Any, graph: Graph) -> None:
    """A column that holds exactly the graph's ids is no feature, whatever its name."""
    table = as_table(df)
    for name, column in zip(table.column_names, table.columns, strict=True):
        if not pa.types.is_integer(column.type):
            continue
        ids = id_array(column)
        if len(ids.unique()) == len(ids) and index_in(ids, graph.id_column).null_count == 0:
            raise FeatureError(
                f"the column {name!r} of the data frame holds the ids of the nodes: pass "
                f"FeatureTable.from_dataframe(df, id={name!r}) to find rows by id, or leave the column out"
            )
