"""Degree: the logarithm of the number of neighbours. The lower bound in every table of roles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from rae.baselines.registry import method
from rae.graph import Graph

Floats = np.ndarray[Any, np.dtype[np.float32]]


@method("degree", paper="none: the lower bound")
@dataclass(frozen=True, kw_only=True)
class Degree:
    """log(1 + degree).  -> (n, 1)"""

    def fit(self, graph: Graph, features: Any = None) -> Self:
        """Itself: there is nothing to learn."""
        return self

    def transform(self, graph: Graph, features: Any = None) -> Floats:
        """log(1 + degree) of every node, in row order.  -> (n, 1)"""
        return np.log1p(graph.degrees.astype(np.float32))[:, None]

    def fit_transform(self, graph: Graph, features: Any = None) -> Floats:
        """The same as `transform`."""
        return self.transform(graph)
