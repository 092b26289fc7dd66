"""RolX (Henderson et al. 2012): roles are non-negative factors of ReFeX's features, as many as describe them shortest.

Features = memberships x definitions, by scikit-learn's NMF. Their number minimises the description length: bits for the
two factors, whose numbers are rounded to some levels (Lloyd and Max) and coded by their frequency, and the error of
the product, a Kullback-Leibler divergence.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from rae.baselines.refex import Doubles, Floats, Recipe, ReFeX
from rae.baselines.registry import method
from rae.datasets.options import whole_number
from rae.errors import NotFittedError
from rae.graph import Graph

LEVELS = (8, 16, 32, 64, 128, 256)  # to which the numbers of factors are rounded


@method("RolX", paper="Henderson et al. 2012")
@dataclass(kw_only=True, eq=False)
class RolX:
    """Memberships in roles, non-negative; that of the mean node of the fit is 1 in each role.  -> (n, roles)

    `roles=None` chooses their number, from 2 to `most`, by description length.
    """

    roles: int | None = None
    most: int = 16
    rounds: int = 4
    bins: float = 0.5
    definitions: Doubles | None = field(default=None, init=False)  # (roles, features)

    def __post_init__(self) -> None:
        if self.roles is not None:
            whole_number("roles", self.roles, 1)
        whole_number("most", self.most, 1)
        self._features = ReFeX(rounds=self.rounds, bins=self.bins, scale="raw")

    @property
    def recipes(self) -> tuple[Recipe, ...]:
        """What the columns of `definitions` are."""
        return self._features.recipes or ()

    def fit(self, graph: Graph, features: Any = None) -> Self:
        """Find the features, the number of roles and their definitions on this graph."""
        x = self._features.fit(graph).transform(graph).astype(np.float64)
        candidates = [self.roles] if self.roles is not None else range(2, max(3, 1 + min(self.most, *x.shape)))
        tried = {roles: factors(x, roles) for roles in candidates}
        best = min(tried, key=lambda roles: description_length(x, *tried[roles])) if len(tried) > 1 else candidates[0]
        left, right = tried[best]
        mean = left.mean(0)
        self.definitions = right * np.where(mean > 0, mean, 1)[:, None]
        return self

    def transform(self, graph: Graph, features: Any = None) -> Floats:
        """The memberships of this graph's nodes in the roles of the fit, in row order.  -> (n, roles)"""
        if self.definitions is None:
            raise NotFittedError("this RolX has no roles yet; call fit or fit_transform first")
        x = self._features.transform(graph).astype(np.float64)
        return memberships(x, self.definitions).astype(np.float32)

    def fit_transform(self, graph: Graph, features: Any = None) -> Floats:
        """fit, then the memberships of the same graph's nodes."""
        return self.fit(graph).transform(graph)

    def named_roles(self, top: int = 3) -> list[tuple[str, ...]]:
        """For each role, the features that it has most of, compared with the mean role."""
        if self.definitions is None:
            raise NotFittedError("this RolX has no roles yet; call fit or fit_transform first")
        shares = self.definitions / np.maximum(self.definitions.mean(0), 1e-12)
        order = np.argsort(-shares, axis=1, kind="stable")[:, :top]
        return [tuple(" of ".join(reversed(self.recipes[j])) for j in row) for row in order]


def factors(x: Doubles, roles: int) -> tuple[Doubles, Doubles]:
    """Non-negative factors of x, the same every time.  -> (n, roles), (roles, features)"""
    from sklearn.decomposition import NMF
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        start = "nndsvda" if roles <= min(x.shape) else "random"
        model = NMF(roles, init=start, max_iter=500, random_state=0)
        left = model.fit_transform(x)
    return np.asarray(left), np.asarray(model.components_)


def memberships(x: Doubles, definitions: Doubles, steps: int = 500) -> Doubles:
    """The non-negative left factor that goes with these definitions, by coordinate descent.  -> (n, roles)"""
    from sklearn.decomposition import non_negative_factorization
    from sklearn.exceptions import ConvergenceWarning

    if not definitions.any() or not len(x):  # a graph without edges has nothing to tell
        return np.zeros((len(x), len(definitions)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        left, _, _ = non_negative_factorization(
            x, H=definitions, n_components=len(definitions), update_H=False, max_iter=steps, random_state=0
        )
    return np.asarray(left)


def description_length(x: Doubles, left: Doubles, right: Doubles) -> float:
    """Bits of both factors, and the divergence of x from their product, at the best of several numbers of levels."""
    return min(_description_length(x, left, right, levels) for levels in LEVELS)


def _description_length(x: Doubles, left: Doubles, right: Doubles, levels: int) -> float:
    bits, rounded = 0.0, []
    for factor in (left, right):
        values, numbers = lloyd_max(factor.reshape(-1), levels)
        share = np.bincount(numbers) / len(numbers)
        bits -= len(numbers) * float(share[share > 0] @ np.log2(share[share > 0]))
        rounded.append(values[numbers].reshape(factor.shape))
    product = np.maximum(rounded[0] @ rounded[1], 1e-9)
    ratio = np.where(x > 0, x * np.log(np.maximum(x, 1e-9) / product), 0)
    return bits + float((ratio - x + product).sum())


def lloyd_max(values: Doubles, levels: int, steps: int = 20) -> tuple[Doubles, Any]:
    """Levels that are the means of what is rounded to them, and the level of every value.  -> (levels,), (n,)"""
    middles = np.unique(np.quantile(values, (np.arange(levels) + 0.5) / levels))
    for _ in range(steps):
        numbers = np.searchsorted((middles[1:] + middles[:-1]) / 2, values)
        counts = np.bincount(numbers, minlength=len(middles))
        middles = np.where(counts > 0, np.bincount(numbers, values, len(middles)) / np.maximum(counts, 1), middles)
    return middles, np.searchsorted((middles[1:] + middles[:-1]) / 2, values)
