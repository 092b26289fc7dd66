"""Roles: how many there are, how much each node plays each of them, and which one most."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from rae.errors import Argument, ConfigError, FeatureError, GraphError, NotFittedError, RunError
from rae.graph import Graph
from rae.roles.arranged import in_order
from rae.roles.canonical import CHUNK, Doubles, Floats, Ints, Space, chunks, norm, positions, sample
from rae.roles.number import Choice, choose, cluster, few_positions, squared
from rae.roles.seen import shaken
from rae.roles.steady import steady
from rae.runtime import generator

if TYPE_CHECKING:
    from rae.roles.cards import Card

SAMPLE = 20_000  # rows the roles are fitted on; every row is assigned
STARTS = 10  # k-means starts of the final fit
NOISE, COPIES, NODES = 0.1, 8, 80_000  # edges added to a noisy copy of the graph, copies, nodes in all of them
NARROW = 0.1  # of the distance between two centres: memberships never become sharper than this


@dataclass(frozen=True, eq=False)
class Assignment:
    """Who plays which role: soft, hard, and how sure."""

    labels: np.ndarray[Any, np.dtype[np.int32]]  # (n,) the role with the largest membership
    confidence: Floats  # (n,) that membership
    memberships: Floats  # (n, k), rows sum to one
    distances: Floats  # (n,) to the centre of the role

    @property
    def sizes(self) -> Ints:
        """Nodes per role."""
        return np.bincount(self.labels, minlength=self.memberships.shape[1])


@dataclass(frozen=True, eq=False)
class Fitted:
    """All that is needed to find the same roles in other vectors of the same model."""

    space: Space
    centers: Doubles  # (k, p), the largest role first
    radius: float  # how far nodes typically lie from their centre: the scale of a membership
    sizes: Ints  # (k,) nodes per role at the fit
    choice: Choice
    settings: dict[str, Any]
    model: str | None = None  # the checksum of the model that made the vectors

    def assign(self, z: Floats) -> Assignment:
        """Memberships proportional to exp(-distance² / (2 radius²)), a chunk of rows at a time."""
        n, k = len(z), len(self.centers)
        labels, confidence = np.empty(n, np.int32), np.empty(n, np.float32)
        memberships, distances = np.empty((n, k), np.float32), np.empty(n, np.float32)
        for a, b in chunks(n, CHUNK):
            far = squared(self.space.project(z[a:b]), self.centers)
            nearest = far.argmin(1)
            least = far[np.arange(b - a), nearest]
            weight = np.exp(-(far - least[:, None]) / (2 * self.radius**2))
            weight /= weight.sum(1, keepdims=True)
            labels[a:b], distances[a:b], memberships[a:b] = nearest, np.sqrt(least), weight
            confidence[a:b] = memberships[np.arange(a, b), nearest]
        return Assignment(labels, confidence, memberships, distances)


class Roles:
    """Soft roles in vectors: fit finds them, assign says who plays which.

    >>> z = np.repeat([[0.0, 1.0], [5.0, 1.0], [9.0, 4.0]], [30, 20, 10], axis=0)
    >>> roles = Roles().fit(z)
    >>> roles.n_roles, roles.sizes.tolist(), roles.criterion
    (3, [30, 20, 10], 'positions')
    """

    def __init__(self, k: int | str = "auto", *, max_k: int = 20, seed: int = 0) -> None:
        for name, value in (("k", k), ("max_k", max_k)):
            if value != "auto" and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                auto = Argument("k", "auto")
                raise ConfigError(Argument(name), " must be a whole number of 1 or more, or ", auto, f", got {value!r}")
        self.k, self.max_k, self.seed = k, max_k, seed
        self._fitted: Fitted | None = None
        self._assignment: Assignment | None = None

    # ----------------------------------------------------------------------------- fit, apply

    def fit(
        self,
        z: Any,
        *,
        graph: Graph | None = None,
        embed: Callable[[Graph], Any] | None = None,
        model: str | None = None,
    ) -> Self:
        """Find the roles in these vectors, in whatever order they come.  (n, d)

        `graph`, whose nodes they are, and `embed`, which gives the vectors of another graph
        (`RAE.transform` of a model of structure alone), let roles be found through noise in the edges.
        `model`, the checksum of the model file, ties the roles to it.
        """
        z = checked(z)
        if graph is not None and graph.n_nodes != len(z):
            raise GraphError(f"the graph must have the nodes of the vectors ({len(z):,}), got {graph.n_nodes:,}")
        rows = sample(z, SAMPLE, self.seed)
        space = Space.of(rows)
        x, size = space.project(rows), norm(rows)
        through = None
        if self.k == "auto" and graph is not None and embed is not None and not few_positions(x, self.max_k, size):
            through = _through_noise(z, graph, embed, self.max_k, self.seed)
        if through is not None:
            space, choice = through
            x = space.project(rows)
        elif self.k == "auto":
            choice = choose(x, space.leading, self.max_k, self.seed, size)
        else:
            choice = _given(x, int(self.k), size)
        if choice.centers is None:
            space, x = space.led(), x[:, : space.leading]
            centers = cluster(x, choice.k, self.seed, STARTS)
        else:
            centers = choice.centers
        settings = {"k": self.k, "max_k": self.max_k, "seed": self.seed, "sample": SAMPLE}
        found = Fitted(space, centers, _radius(x, centers), np.zeros(choice.k, np.int64), choice, settings, model)
        self._fitted, self._assignment = _by_size(found, found.assign(z))
        return self

    def assign(self, z: Any) -> Assignment:
        """Labels, confidence and memberships of any vectors of the same model."""
        return self.fitted.assign(checked(z, len(self.fitted.space.mean)))

    def predict(self, z: Any) -> np.ndarray[Any, np.dtype[np.int32]]:
        """The role of each row, 0 the largest of the fit.  (n, d) -> (n,)"""
        return self.assign(z).labels

    def memberships(self, z: Any) -> Floats:
        """How much each row plays each role.  (n, d) -> (n, k), rows sum to one"""
        return self.assign(z).memberships

    def cards(self, ids: Any, z: Any = None, graph: Any = None, features: Any = None, names: Any = None) -> list[Card]:
        """A card per role: who is in it, what its members have in common. Without z, of the vectors of the fit."""
        from rae.roles.cards import make_cards

        assignment = self.assignment if z is None else self.assign(z)
        return make_cards(assignment, ids, graph=graph, features=features, names=names)

    # ------------------------------------------------------------------------ what a fit leaves

    @property
    def fitted(self) -> Fitted:
        if self._fitted is None:
            raise NotFittedError("these roles are not fitted yet; call fit(z) first, or Roles.load(path)")
        return self._fitted

    @property
    def assignment(self) -> Assignment:
        """Who plays which role, of the vectors of the fit."""
        if self._assignment is None:
            raise NotFittedError("who played which role is known after fit(z); call assign(z)")
        return self._assignment

    @property
    def labels(self) -> np.ndarray[Any, np.dtype[np.int32]]:
        """The role of each row of the fit, 0 the largest."""
        return self.assignment.labels

    @property
    def confidence(self) -> Floats:
        """The membership of each row of the fit in its role."""
        return self.assignment.confidence

    @property
    def n_roles(self) -> int:
        return len(self.fitted.centers)

    @property
    def sizes(self) -> Ints:
        """Nodes per role at the fit, largest first."""
        return self.fitted.sizes

    @property
    def criterion(self) -> str:
        """By which rule the number was chosen: "given", "positions", "steady positions" or "prediction strength"."""
        return self.fitted.choice.criterion

    @property
    def curve(self) -> dict[int, float]:
        """By number of roles: prediction strength, or the penalised likelihood of steady positions."""
        return self.fitted.choice.curve

    @property
    def model(self) -> str | None:
        """The checksum of the model these roles belong to."""
        return self.fitted.model

    def check_model(self, other: str | None, where: str) -> None:
        """Refuse vectors of another model; unknown ones (None) pass."""
        if self.model is not None and other is not None and other != self.model:
            raise RunError(
                f"the vectors in {where} were made by another model than these roles (checksums {other[:8]} and "
                f"{self.model[:8]}); embed that graph with this run's model: rae embed RUN EDGES --out z.parquet"
            )

    # ---------------------------------------------------------------------------- save, load

    def save(self, path: str | Path) -> None:
        """Write the fitted roles to one safetensors file, atomically."""
        from rae.roles import file

        file.save(self.fitted, path)

    @classmethod
    def load(cls, path: str | Path) -> Roles:
        """The roles that `save` wrote."""
        from rae.roles import file

        fitted = file.load(path)
        roles = cls(fitted.settings["k"], max_k=fitted.settings["max_k"], seed=fitted.settings["seed"])
        roles._fitted = fitted
        return roles

    def __repr__(self) -> str:
        return f"Roles(k={self.k!r}, max_k={self.max_k}, seed={self.seed})"


def checked(z: Any, width: int | None = None) -> Floats:
    """Vectors as a finite float32 matrix with a row or more."""
    try:
        matrix: Floats = np.ascontiguousarray(z, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise FeatureError(f"vectors must be a matrix of numbers, got {type(z).__name__}: {error}") from None
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise FeatureError(f"vectors must be a matrix with a row per node, got shape {matrix.shape}")
    if width is not None and matrix.shape[1] != width:
        raise FeatureError(f"these roles were fitted on vectors of width {width}, got width {matrix.shape[1]}")
    for a, b in chunks(len(matrix)):
        if not np.isfinite(matrix[a:b]).all():
            bad = a + int(np.flatnonzero(~np.isfinite(matrix[a:b]).all(1))[0])
            raise FeatureError(f"vectors must be finite, got NaN or infinity, first in row {bad:,}")
    return matrix


def _through_noise(
    z: Floats, graph: Graph, embed: Callable[[Graph], Any], max_k: int, seed: int
) -> tuple[Space, Choice] | None:
    """The roles of steady positions, seen in the directions that tell their members apart however they are shaken."""
    found = steady(graph, max_k, seed)
    if found is None:
        return None
    draw = generator(seed, "roles", "noise")
    graph, z, stand = in_order(graph, found.order), z[found.order], found.labels[found.order]
    members = np.flatnonzero(stand >= 0)
    if len(members) > SAMPLE:
        members = np.sort(draw.choice(members, SAMPLE, replace=False))
    played, labels = np.unique(stand[members], return_inverse=True)
    if len(played) < 2:  # a role in which nobody stands is none
        return None
    copies = [z[members]]
    for _ in range(min(COPIES, max(1, NODES // graph.n_nodes))):
        copies.append(checked(embed(shaken(graph, NOISE, draw)), z.shape[1])[members])
    rows, labels = np.vstack(copies), np.tile(labels.reshape(-1), len(copies))
    space = Space.between(rows, labels)
    centers = np.zeros((len(played), space.directions.shape[1]))
    np.add.at(centers, labels, space.project(rows))
    centers /= np.bincount(labels)[:, None]
    return space, Choice(len(played), "steady positions", found.curve, centers)


def _given(x: Doubles, k: int, size: float) -> Choice:
    """So many roles, because the user says so; not more than there are positions."""
    points, counts, _ = positions(x, size)
    if k > len(points):
        raise ConfigError(f"k must be at most the number of different vectors ({len(points):,}), got {k:,}")
    exact = points[np.argsort(-counts, kind="stable")] if k == len(points) else None
    return Choice(k, "given", {}, exact)


def _radius(x: Doubles, centers: Doubles) -> float:
    """The typical distance of a node from its centre; a tenth of that between two centres at least."""
    typical = float(np.sqrt(squared(x, centers).min(1).mean()))
    if len(centers) == 1:
        return max(typical, 1e-9)
    between = squared(centers, centers)
    return max(typical, NARROW * float(np.sqrt(between[~np.eye(len(centers), dtype=bool)].min())), 1e-9)


def _by_size(found: Fitted, assignment: Assignment) -> tuple[Fitted, Assignment]:
    """The same roles numbered by size, largest first; equal sizes by where their centres lie."""
    order = np.lexsort((*np.round(found.centers.T[::-1], 9), -assignment.sizes))
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order))
    fitted = replace(
        found,
        centers=np.ascontiguousarray(found.centers[order]),
        sizes=assignment.sizes[order],
        choice=replace(found.choice, centers=None),
    )
    return fitted, replace(
        assignment, labels=rank[assignment.labels], memberships=np.ascontiguousarray(assignment.memberships[:, order])
    )
