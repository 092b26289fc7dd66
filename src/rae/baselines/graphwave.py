"""GraphWave (Donnat et al. 2018): the distribution of the heat that spreads from a node.

A node's wavelet is its column of exp(-s L). Its vector is the characteristic function of the numbers in
that column, so nodes in similar positions have similar vectors wherever they are. Components do not exchange
heat and are computed one by one.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse import csgraph

from rae.baselines.registry import method
from rae.datasets.options import whole_number
from rae.errors import ConfigError
from rae.graph import Graph
from rae.memory import row_chunks
from rae.ops.charfun import characteristic_function
from rae.runtime import generator

Floats = np.ndarray[Any, np.dtype[np.float32]]
Doubles = np.ndarray[Any, np.dtype[np.float64]]
Ints = np.ndarray[Any, np.dtype[np.int64]]

ETA, GAMMA = 0.85, 0.95  # the share of heat that remains at the two scales, for a wave of the mean frequency
LARGEST_T = 100.0  # of the characteristic function
FLOOR = 1e-4  # of a node's heat, spread evenly: numbers below that are zero
SMALL = 400  # rows up to which the whole spectrum costs less than a search for its ends
BLOCK = 1 << 23  # bytes of a block of wavelets


@method("GraphWave", paper="Donnat et al. 2018")
@dataclass(frozen=True, kw_only=True)
class GraphWave:
    """The characteristic function of every node's heat wavelets at two scales.  -> (n, 4 * points)

    It is sampled at `points` evenly spaced places in (0, 100]; cosines, then sines, by scale. The
    Laplacian is I - D^-1/2 A D^-1/2, as in the released code, or `"plain"`: D - A, as in the paper.
    `scales` replaces the two that the paper's rule finds. A component of up to `dense` nodes is
    decomposed exactly, a larger one approximated by Chebyshev polynomials, a block of columns at a time.
    """

    points: int = 25
    laplacian: str = "normalized"
    scales: tuple[float, ...] | None = None
    dense: int = 3000

    def __post_init__(self) -> None:
        whole_number("points", self.points, 1)
        whole_number("dense", self.dense, 0)
        if self.laplacian not in ("normalized", "plain"):
            raise ConfigError(f"laplacian must be one of 'normalized', 'plain', got {self.laplacian!r}")
        if self.scales is not None:
            _check_scales(self.scales)

    def fit_transform(self, graph: Graph, features: Any = None) -> Floats:
        """One vector per node, in row order.  -> (n, 2 * points * number of scales)"""
        laplacian = _laplacian(graph, self.laplacian == "normalized")
        components = list(_components(laplacian))
        null_vector = np.sqrt(graph.degrees) if self.laplacian == "normalized" else np.ones(graph.n_nodes)
        scales = automatic_scales(laplacian, components, null_vector) if self.scales is None else self.scales
        out = np.empty((graph.n_nodes, 2 * self.points * len(scales)), np.float32)
        for rows in components:
            part = laplacian[rows][:, rows]
            chunks = _exact(part, scales) if len(rows) <= self.dense else _chebyshev(part, scales)
            for start, stop, wavelets in chunks:
                out[rows[start:stop]] = np.hstack([self._characteristic(psi, graph.n_nodes) for psi in wavelets])
        isolated = np.flatnonzero(graph.degrees == 0)  # all their heat stays where it is
        if len(isolated):
            out[isolated] = np.hstack([self._characteristic(np.ones((1, 1)), graph.n_nodes)] * len(scales))
        return out

    def _characteristic(self, psi: Doubles, n_nodes: int) -> Doubles:
        step, floor = LARGEST_T / self.points, FLOOR / n_nodes
        return characteristic_function(psi, n_nodes, step, floor, self.points)


def automatic_scales(laplacian: Any, components: list[Ints], null_vector: Doubles) -> tuple[float, float]:
    """The paper's two scales, -log(share) / sqrt(l2 * lN) for the shares 0.95 and 0.85.

    l2 is the smallest eigenvalue above zero, of the largest component (of all that are as large), lN
    the largest of the graph; `null_vector` is the vector that the Laplacian maps to zeros.
    """
    if not components:
        return -float(np.log(GAMMA)), -float(np.log(ETA))
    most = max(len(rows) for rows in components)
    smallest = min(
        _smallest_eigenvalue(laplacian[rows][:, rows], null_vector[rows]) for rows in components if len(rows) == most
    )
    mean = float(np.sqrt(smallest * _largest_eigenvalue(laplacian)))
    return -float(np.log(GAMMA)) / mean, -float(np.log(ETA)) / mean


# ------------------------------------------------------------------------------- wavelets


def _exact(laplacian: Any, scales: tuple[float, ...]) -> Iterator[tuple[int, int, list[Doubles]]]:
    """exp(-s L) of a component by its eigenvectors, in blocks of rows: (start, stop, one (b, m) per scale)."""
    import scipy.linalg

    m = laplacian.shape[0]
    values, vectors = scipy.linalg.eigh(laplacian.toarray(), overwrite_a=True, check_finite=False, driver="evd")
    for start, stop in row_chunks(m, max(1, BLOCK // (8 * m))):
        yield start, stop, [(vectors[start:stop] * np.exp(-s * values)) @ vectors.T for s in scales]


def _chebyshev(laplacian: Any, scales: tuple[float, ...]) -> Iterator[tuple[int, int, list[Doubles]]]:
    """The same by Chebyshev polynomials of L, with one block of columns in memory at a time.

    exp(-s x) on [0, w] has the coefficients 2 (-1)^k exp(-a) I_k(a), a = s w / 2, which fall off
    faster than any power; those below 1e-10 are left out.
    """
    from scipy.special import ive

    m, width = laplacian.shape[0], 1.01 * _largest_eigenvalue(laplacian)
    halves = [s * width / 2 for s in scales]
    orders = np.arange(2, 40 + int(4 * max(halves)))
    order = int(orders[np.max([ive(orders, a) for a in halves], 0) > 1e-10].max(initial=1))
    weights = [2.0 * (-1.0) ** np.arange(order + 1) * ive(np.arange(order + 1), a) for a in halves]
    shifted = sp.csr_array(laplacian * (2 / width) - sp.eye_array(m))
    for start, stop in row_chunks(m, max(1, BLOCK // (8 * m))):
        before = np.zeros((m, stop - start))
        before[np.arange(start, stop), np.arange(stop - start)] = 1.0
        now = shifted @ before
        sums = [0.5 * w[0] * before + w[1] * now for w in weights]
        for k in range(2, order + 1):
            before, now = now, 2 * (shifted @ now) - before
            for total, w in zip(sums, weights, strict=True):
                total += w[k] * now
        yield start, stop, [np.ascontiguousarray(total.T) for total in sums]


# ------------------------------------------------------------------------------- spectrum


def _laplacian(graph: Graph, normalized: bool) -> Any:
    laplacian: Any = csgraph.laplacian(graph.to_scipy(), normed=normalized)
    return sp.csr_array(laplacian)


def _components(laplacian: Any) -> Iterator[Ints]:
    """The rows of each component of two nodes or more."""
    _, labels = csgraph.connected_components(laplacian, directed=False)
    sizes = np.bincount(labels)
    order = np.argsort(labels, kind="stable")
    for rows in np.split(order, np.cumsum(sizes)[:-1]):
        if len(rows) > 1:
            yield rows


def _largest_eigenvalue(laplacian: Any) -> float:
    """The largest eigenvalue."""
    from scipy.sparse.linalg import eigsh

    n = laplacian.shape[0]
    if n <= SMALL:
        return float(np.linalg.eigvalsh(laplacian.toarray())[-1])
    start = generator(0, "graphwave", "fastest").normal(size=n)
    return float(eigsh(laplacian, k=1, which="LA", return_eigenvectors=False, tol=1e-6, v0=start)[0])


def _smallest_eigenvalue(laplacian: Any, null_vector: Doubles) -> float:
    """The smallest eigenvalue above zero, of a connected graph."""
    from scipy.sparse.linalg import lobpcg

    n = laplacian.shape[0]
    if n <= SMALL:
        return float(np.linalg.eigvalsh(laplacian.toarray())[1])
    start = generator(0, "graphwave", "slowest").normal(size=(n, 4))
    scaled = sp.diags_array(1 / laplacian.diagonal())
    with warnings.catch_warnings():  # it warns if the last vectors of the four, which are not used, are inexact
        warnings.simplefilter("ignore", UserWarning)
        values, _ = lobpcg(laplacian, start, M=scaled, Y=null_vector[:, None], largest=False, tol=1e-4, maxiter=500)
    return float(np.min(values))


def _check_scales(scales: Any) -> None:
    valid = isinstance(scales, tuple) and len(scales) > 0
    if not valid or not all(isinstance(s, (int, float)) and 0 < s < float("inf") for s in scales):
        raise ConfigError(f"scales must be a tuple of numbers above 0, or None for the paper's rule, got {scales!r}")
