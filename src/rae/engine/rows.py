"""The features of a graph a run of rows at a time, so that the whole matrix need not be in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rae.config import Config
from rae.errors import FeatureError
from rae.features import FeatureTable, Matrix, concatenate, is_sparse, prepare, run_of_rows, structural_features
from rae.graph import Graph
from rae.memory import forget, mapped
from rae.storage.parts import digest_of


@dataclass(frozen=True, eq=False)
class FeatureRows:
    """What a model reads for each node: given features, structural ones, or both; made when asked for."""

    graph: Graph
    given: Any  # (n, d) float32 or float16, in memory or mapped, or a float32 CSR; None for structure alone
    config: Config

    @classmethod
    def of(cls, graph: Graph, features: Any, config: Config) -> FeatureRows:
        """The rows of `features` as `prepare` would give them; mapped arrays stay on disk."""
        given = features.matrix if isinstance(features, FeatureTable) else features
        if isinstance(features, FeatureTable) and not features.id_column.equals(graph.id_column):
            given = features.aligned(graph)
        lazy = isinstance(given, np.ndarray) and given.dtype in (np.float32, np.float16) and given.ndim == 2
        if given is not None and not (lazy and len(given) == graph.n_nodes and given.shape[1]):
            given = prepare(graph, given, config.replace(add_structure=False))
        return cls(graph, given, config)

    @property
    def width(self) -> int:
        """Columns the model reads."""
        structural = self.given is None or self.config.add_structure
        return (1 + self.config.degree_cap if structural else 0) + (0 if self.given is None else self.given.shape[1])

    @property
    def entries(self) -> int:
        """Numbers that a row takes, on average where the rows are sparse."""
        return self.width if self.dense else self.width - self.given.shape[1] + -(-self.given.nnz // self.graph.n_nodes)

    @property
    def dense(self) -> bool:
        """Whether the rows are an array and no sparse matrix."""
        return not is_sparse(self.given)

    @property
    def held_bytes(self) -> int:
        """Memory taken whatever is asked for: features that are not mapped, degrees where they are features."""
        degrees = 8 * self.graph.n_nodes if self.given is None or self.config.add_structure else 0
        return degrees + sum(int(array.nbytes) for array in self._arrays if mapped(array) is None)

    def rows(self, a: int, b: int) -> Matrix:
        """Rows a..b, float32.  -> (b - a, width)"""
        if self.given is None:
            return self._structural(a, b)
        part: Any = self.given[a:b] if self.dense else run_of_rows(self.given, a, b)
        if self.dense:
            part = np.ascontiguousarray(part, np.float32)
            if not np.isfinite(part).all():
                raise FeatureError(f"features must be finite, got NaN or infinite in rows {a:,} to {b - 1:,}")
        checked: Matrix = part
        return concatenate(self._structural(a, b), checked) if self.config.add_structure else checked

    def forget(self) -> None:
        """Give back the memory of mapped pages."""
        forget(self.graph.offsets, self.graph.targets, *self._arrays)

    def digest(self) -> str:
        """The SHA-256 of the given features, "structural" where there are none."""
        if self.given is None:
            return "structural"
        return digest_of(*self._arrays)

    @property
    def _arrays(self) -> tuple[Any, ...]:
        if self.given is None:
            return ()
        return (self.given,) if self.dense else (self.given.indptr, self.given.indices, self.given.data)

    def _structural(self, a: int, b: int) -> Matrix:
        c = self.config
        return structural_features(
            self.graph, cap=c.degree_cap, above_cap=c.degree_above_cap, scale=c.degree_scale, seed=c.seed, rows=(a, b)
        )
