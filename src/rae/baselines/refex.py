"""ReFeX (Henderson et al. 2011): recursive features of a node's neighbourhood, without near-duplicates.

Degree and the edges inside and out of the egonet; then, in each round, sums and means of the last columns
over the neighbours, until a round brings no column that differs from the others after binning.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from rae.baselines.registry import method
from rae.datasets.options import whole_number
from rae.errors import ConfigError, NotFittedError
from rae.features.measures import triangles
from rae.graph import Graph

Floats = np.ndarray[Any, np.dtype[np.float32]]
Doubles = np.ndarray[Any, np.dtype[np.float64]]
Ints = np.ndarray[Any, np.dtype[np.int64]]
Recipe = tuple[str, ...]  # ("degree", "sum", "mean"): the mean over neighbours of their sums of degrees

LOCAL = ("degree", "inside", "outside")
SAME = 1e-9  # relative difference of equal sums that were added up in another order


@method("ReFeX", paper="Henderson et al. 2011")
@dataclass(kw_only=True, eq=False)
class ReFeX:
    """Recursive features; `fit` selects the columns, `transform` computes them on any graph.

    A column is compared with the others after binning: the lowest share `bins` of the nodes gets 0,
    that share of the others 1, and so on. Columns that differ by no more than the number of the round
    at every node are one, and the earliest is selected. `scale="log"` gives log(1 + value), `"raw"` values.
    """

    rounds: int = 4
    bins: float = 0.5
    scale: str = "log"
    recipes: tuple[Recipe, ...] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        whole_number("rounds", self.rounds, 0)
        if isinstance(self.bins, bool) or not isinstance(self.bins, (int, float)) or not 0 < self.bins < 1:
            raise ConfigError(f"bins must be a number between 0 and 1, got {self.bins!r}")
        if self.scale not in ("log", "raw"):
            raise ConfigError(f"scale must be one of 'log', 'raw', got {self.scale!r}")

    def fit(self, graph: Graph, features: Any = None) -> Self:
        """Select the columns that differ on this graph."""
        table = _Table(graph)
        selected: list[Recipe] = []
        selected_bins = np.empty((graph.n_nodes, 0), np.int64)
        fresh: list[Recipe] = [(name,) for name in LOCAL]
        for tolerance in range(self.rounds + 1):
            binned = np.stack([log_bins(table[recipe], self.bins) for recipe in fresh], 1)
            new = _new_columns(selected_bins, binned, tolerance)
            selected += [fresh[j] for j in new]
            selected_bins = np.hstack([selected_bins, binned[:, new]])
            fresh = [(*fresh[j], verb) for j in new for verb in ("sum", "mean")]
            if not fresh:
                break
        self.recipes = tuple(selected)
        return self

    def transform(self, graph: Graph, features: Any = None) -> Floats:
        """The selected columns of this graph's nodes, in row order.  -> (n, len(recipes))"""
        if self.recipes is None:
            raise NotFittedError("this ReFeX has no columns yet; call fit or fit_transform first")
        table = _Table(graph)
        values = np.stack([table[recipe] for recipe in self.recipes], 1)
        return (np.log1p(values) if self.scale == "log" else values).astype(np.float32)

    def fit_transform(self, graph: Graph, features: Any = None) -> Floats:
        """fit, then the columns of the same graph."""
        return self.fit(graph).transform(graph)


class _Table(dict[Recipe, Doubles]):
    """Columns of one graph by recipe, each computed on first use."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.adjacency = graph.to_scipy()
        self.shares = 1.0 / np.maximum(graph.degrees, 1)
        degree = graph.degrees.astype(np.float64)
        inside = degree + triangles(graph)
        self["degree",], self["inside",] = degree, inside
        self["outside",] = degree + self.adjacency @ degree - 2 * inside

    def __missing__(self, recipe: Recipe) -> Doubles:
        *before, verb = recipe
        below: Recipe = (*before, "sum") if verb == "mean" else tuple(before)
        column: Doubles = self[below] * self.shares if verb == "mean" else np.asarray(self.adjacency @ self[below])
        self[recipe] = column
        return column


def log_bins(values: Doubles, share: float) -> Ints:
    """Vertical logarithmic bins: the lowest share of the nodes is 0, that share of the rest 1, ...  (n,) -> (n,)

    Equal values share a bin.

    >>> log_bins(np.array([1.0, 1.0, 1.0, 5.0, 7.0, 9.0]), 0.5).tolist()
    [0, 0, 0, 1, 1, 2]
    """
    order = np.argsort(values, kind="stable")
    ranked = values[order]
    fresh = np.diff(ranked) > SAME * np.abs(ranked[1:])
    ends = np.append(np.flatnonzero(fresh) + 1, len(values))  # where a run of equal values stops
    bins = np.empty(len(values), np.int64)
    start = number = 0
    while start < len(values):
        target = start + int(np.ceil(share * (len(values) - start)))
        stop = int(ends[np.searchsorted(ends, target)])
        bins[order[start:stop]] = number
        start, number = stop, number + 1
    return bins


def _new_columns(old: Ints, new: Ints, tolerance: int) -> list[int]:
    """The columns of `new` that are similar to none of `old`: the first of each group of similar columns."""
    both = np.hstack([old, new])
    width, first = both.shape[1], old.shape[1]
    similar = np.zeros((width, width), bool)
    for j in range(first, width):
        similar[j] = np.abs(both - both[:, j, None]).max(0, initial=0) <= tolerance
    _, group = connected_components(sp.csr_array(similar), directed=False)
    _, earliest = np.unique(group, return_index=True)
    return sorted(int(j) - first for j in earliest if j >= first)
