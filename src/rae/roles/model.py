"""Roles: their number, how much each node plays each of them, and which one most."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
import pyarrow as pa

from rae import display
from rae.blocks import Block, Weights, parse_weights, weighted
from rae.errors import ConfigError, FeatureError, NotFittedError, RunError
from rae.graph.frames import to_pandas
from rae.memory import row_chunks
from rae.roles.number import Choice, check_k, choose_number, find_positions, fit_kmeans
from rae.roles.vectors import (
    CHUNK_ROWS,
    Doubles,
    Floats,
    Ints,
    Projection,
    check_vectors,
    checked_ids,
    sample_rows,
    split_ids,
)
from rae.runtime import libraries_alone

if TYPE_CHECKING:
    from rae.roles.cards import Card
    from rae.roles.labels import LabelTable

SAMPLE_ROWS = 20_000  # rows that roles are fitted on; every row is assigned
LEAST_RADIUS = 0.1  # of the distance between the two nearest centres


@dataclass(frozen=True, eq=False)
class Assignment:
    """The role of every node, its confidence, and the memberships in all roles."""

    labels: np.ndarray[Any, np.dtype[np.int32]]  # (n,) the role with the largest membership
    confidence: Floats  # (n,) that membership
    memberships: Floats  # (n, k), rows sum to one
    distances: Floats  # (n,) to the centre of the role

    @property
    def sizes(self) -> Ints:
        """Nodes per role."""
        return np.bincount(self.labels, minlength=self.memberships.shape[1])


@dataclass(frozen=True, eq=False)
class Parameters:
    """Everything that assigns roles to vectors of the same model, and how it was chosen."""

    projection: Projection
    centers: Doubles  # (k, p), the largest role first
    radius: float  # typical distance of a node from its centre: the scale of a membership
    sizes: Ints  # (k,) nodes per role at the fit
    choice: Choice
    settings: dict[str, Any]
    model: str | None = None  # the checksum of the model that made the vectors
    blocks: tuple[Block, ...] = ()  # of the vectors, where they have names
    weights: dict[str, float] = field(default_factory=dict)  # of every block

    @property
    def width(self) -> int:
        """The width of the vectors."""
        return self.blocks[-1].stop if self.blocks else len(self.projection.mean)

    def project(self, z: Floats) -> Doubles:
        """The vectors as distances between roles see them: blocks times their weights, in a few directions."""
        return self.projection(weighted(z, self.blocks, self.weights or None))

    def assign(self, z: Floats) -> Assignment:
        """Memberships proportional to exp(-distance² / (2 radius²)), a chunk of rows at a time.  (n, d)"""
        from sklearn.metrics.pairwise import euclidean_distances

        n, k = len(z), len(self.centers)
        labels, confidence = np.empty(n, np.int32), np.empty(n, np.float32)
        memberships, distances = np.empty((n, k), np.float32), np.empty(n, np.float32)
        for start, stop in row_chunks(n, CHUNK_ROWS):
            squared = euclidean_distances(self.project(z[start:stop]), self.centers, squared=True)
            nearest = squared.argmin(1)
            least = squared[np.arange(stop - start), nearest]
            weights = np.exp(-(squared - least[:, None]) / (2 * self.radius**2))
            weights /= weights.sum(1, keepdims=True)
            labels[start:stop], distances[start:stop], memberships[start:stop] = nearest, np.sqrt(least), weights
            confidence[start:stop] = memberships[np.arange(start, stop), nearest]
        return Assignment(labels, confidence, memberships, distances)


class Source(Protocol):
    """Vectors that roles are found in."""

    @property
    def n_rows(self) -> int:
        """The number of vectors."""

    def sample(self, size: int, seed: int) -> Floats:
        """At most `size` of them, as `sample_rows` chooses them."""

    def assign(self, parameters: Parameters) -> Assignment:
        """The role of each."""


@dataclass(frozen=True, eq=False)
class InMemory:
    """Vectors in memory."""

    z: Floats

    @property
    def n_rows(self) -> int:
        return len(self.z)

    def sample(self, size: int, seed: int) -> Floats:
        return sample_rows(self.z, size, seed)

    def assign(self, parameters: Parameters) -> Assignment:
        return parameters.assign(self.z)


class Roles:
    """Soft roles in vectors: `fit` finds them, `assign` gives every vector its memberships.

    >>> z = np.repeat([[0.0, 1.0], [5.0, 1.0], [9.0, 4.0]], [30, 20, 10], axis=0)
    >>> roles = Roles().fit(z)
    >>> roles.n_roles, roles.sizes.tolist(), roles.criterion
    (3, [30, 20, 10], 'positions')

    `weights` say how much each block of the vectors counts, as in "place=1,own=0.3" or a mapping; by default
    the blocks' own weights.
    """

    def __init__(
        self, k: int | str = "auto", *, max_k: int = 20, seed: int = 0, weights: Weights | None = None
    ) -> None:
        for name, value in (("k", k), ("max_k", max_k)):
            if value != "auto" and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise ConfigError(f"{name} must be a whole number of 1 or more, or k='auto', got {value!r}")
        self.k, self.max_k, self.seed, self.weights = k, max_k, seed, weights
        self._parameters: Parameters | None = None
        self._assignment: Assignment | None = None
        self._ids: pa.Array | None = None
        self._source: Callable[[], tuple[pa.Array, Any]] | None = None

    def fit(self, z: Any, *, blocks: Sequence[Block] = (), model: str | None = None, ids: Any = None) -> Self:
        """Find the roles in these vectors; the order of the rows does not matter.  (n, d)

        `blocks` are the named blocks of the vectors (`RAE.blocks`, `Run.blocks`), which weights speak of.
        `model`, the checksum of the model file, ties the roles to it. `ids` are those of the nodes, for `to_pandas`;
        a data frame with an index or a column id brings its own.
        """
        own, z = split_ids(z)
        return self.fit_from(InMemory(check_vectors(z)), blocks=blocks, model=model, ids=own if ids is None else ids)

    def fit_from(self, z: Source, *, blocks: Sequence[Block] = (), model: str | None = None, ids: Any = None) -> Self:
        """What `fit` does, of vectors that may lie in files (`rae.roles.cluster`)."""
        blocks = tuple(blocks)
        self._ids, self._source = None if ids is None else checked_ids(ids, z.n_rows), None
        rows = z.sample(SAMPLE_ROWS, self.seed)
        if blocks and blocks[-1].stop != rows.shape[1]:
            width = rows.shape[1]
            raise FeatureError(f"blocks must make up the vectors ({width} columns), got {blocks[-1].stop} columns")
        with libraries_alone():
            parameters = self._fit_sample(weighted(rows, blocks, self.weights))
        weights = parse_weights(self.weights, blocks) if blocks else {}
        parameters = replace(parameters, model=model, blocks=blocks, weights=weights)
        self._parameters, self._assignment = _order_by_size(parameters, z.assign(parameters))
        return self

    def _fit_sample(self, rows: Floats) -> Parameters:
        """The roles in these weighted rows; their sizes are not counted yet.  (m, d) -> Parameters"""
        projection = Projection.fit(rows)
        x = projection(rows)
        positions = find_positions(x, _largest_norm(rows))
        if self.k == "auto":
            choice = choose_number(x, positions, projection.leading, self.max_k, self.seed)
        else:
            choice = check_k(int(self.k), positions)
        if choice.k == len(positions):
            centers = positions.points
        else:
            projection, x = projection.leading_only(), x[:, : projection.leading]
            centers = fit_kmeans(x, choice.k, self.seed).cluster_centers_
        settings = {"k": self.k, "max_k": self.max_k, "seed": self.seed, "sample": SAMPLE_ROWS}
        sizes = np.zeros(choice.k, np.int64)
        return Parameters(projection, centers, _radius(x, centers), sizes, choice, settings)

    def assign(self, z: Any) -> Assignment:
        """Labels, confidence and memberships of any vectors of the same model.  (n, d) -> Assignment"""
        return self.parameters.assign(check_vectors(z, self.parameters.width))

    def predict(self, z: Any) -> np.ndarray[Any, np.dtype[np.int32]]:
        """The role of each row, 0 the largest of the fit.  (n, d) -> (n,)"""
        return self.assign(z).labels

    def memberships(self, z: Any) -> Floats:
        """How much each row plays each role; rows sum to one.  (n, d) -> (n, k)"""
        return self.assign(z).memberships

    def cards(
        self,
        ids: Any,
        z: Any = None,
        graph: Any = None,
        features: Any = None,
        names: Any = None,
        *,
        display_names: Any = None,
    ) -> list[Card]:
        """A card per role: its members and what they have in common. Without z, of the vectors of the fit.

        `names` are those of the feature columns; `display_names` those of the nodes, one per node or a mapping
        from ids.
        """
        from rae.roles.cards import make_cards

        assignment = self.assignment if z is None else self.assign(z)
        return make_cards(assignment, ids, graph=graph, features=features, names=names, display_names=display_names)

    def to_arrow(self, z: Any = None, *, ids: Any = None) -> pa.Table:
        """The role of every node as an Arrow table: id, role, confidence, membership.

        Without z, of the nodes of the fit. Nodes without ids are 0, 1, 2, ...
        """
        from rae.roles.storage import assignment_table

        assignment = self.assignment if z is None else self.assign(z)
        n = len(assignment.labels)
        node_ids = ids if ids is not None else self._ids if z is None else split_ids(z)[0]
        return assignment_table(pa.array(np.arange(n)) if node_ids is None else checked_ids(node_ids, n), assignment)

    def to_pandas(self, z: Any = None, *, ids: Any = None) -> Any:
        """The role of every node as a pandas frame, with the ids as its index: role, confidence, membership0, ...

        >>> Roles(2).fit([[0.0], [0.0], [9.0]], ids=["ann", "bob", "cid"]).to_pandas().role.to_dict()
        {'ann': 0, 'bob': 0, 'cid': 1}
        """
        table = self.to_arrow(z, ids=ids)
        memberships = table.column("membership").combine_chunks().flatten().to_numpy().reshape(table.num_rows, -1)
        columns = {f"membership{role}": pa.array(np.ascontiguousarray(m)) for role, m in enumerate(memberships.T)}
        plain = table.drop_columns(["membership"])
        return to_pandas(pa.table({name: plain.column(name) for name in plain.column_names} | columns))

    def remember(self, source: Callable[[], tuple[pa.Array, Any]]) -> Self:
        """These roles with the ids and vectors of their fit, which `source` reads when they are asked for."""
        self._source = source
        return self

    def label_table(self, labels: Any, z: Any = None, *, column: str = "label") -> LabelTable:
        """How often each role has each label, with its share and lift; `labels` has one entry per node, or None.

        Without z, of the nodes of the fit. Labels never influence the roles.
        """
        from rae.roles.labels import label_table

        assignment = self.assignment if z is None else self.assign(z)
        return label_table(assignment.labels, labels, self.n_roles, column=column)

    @property
    def parameters(self) -> Parameters:
        """Everything that `assign` needs and `save` writes."""
        if self._parameters is None:
            raise NotFittedError("these roles are not fitted yet; call fit(z) first, or Roles.load(path)")
        return self._parameters

    @property
    def assignment(self) -> Assignment:
        """The assignment of the vectors of the fit."""
        if self._assignment is None and self._source is not None:
            self._ids, z = self._source()
            self._assignment = self.assign(z)
        if self._assignment is None:
            raise NotFittedError("the assignment of the fit is known after fit(z) only; call assign(z)")
        return self._assignment

    @property
    def labels(self) -> np.ndarray[Any, np.dtype[np.int32]]:
        """The role of each row of the fit, 0 the largest.  -> (n,)"""
        return self.assignment.labels

    @property
    def confidence(self) -> Floats:
        """The membership of each row of the fit in its role.  -> (n,)"""
        return self.assignment.confidence

    @property
    def n_roles(self) -> int:
        """The number of roles."""
        return len(self.parameters.centers)

    @property
    def sizes(self) -> Ints:
        """Nodes per role at the fit, largest first.  -> (k,)"""
        return self.parameters.sizes

    @property
    def criterion(self) -> str:
        """The criterion that chose the number: "given", "positions" or "prediction strength"."""
        return self.parameters.choice.criterion

    @property
    def weak(self) -> bool:
        """Whether prediction strength chose the number without reaching 0.7."""
        return self.parameters.choice.weak

    @property
    def curve(self) -> dict[int, float]:
        """Prediction strength by number of roles; empty for the other criteria."""
        return self.parameters.choice.curve

    @property
    def model(self) -> str | None:
        """The checksum of the model these roles belong to."""
        return self.parameters.model

    def check_model(self, other: str | None, where: str) -> None:
        """Refuse vectors of another model; an unknown model (None) passes."""
        if self.model is not None and other is not None and other != self.model:
            raise RunError(
                f"the vectors in {where} were made by another model than these roles (checksums {other[:8]} and "
                f"{self.model[:8]}); embed that graph with this run's model: rae embed RUN EDGES --out z.parquet"
            )

    def save(self, path: str | Path) -> None:
        """Write the roles to one safetensors file, atomically."""
        from rae.roles.storage import save_parameters

        save_parameters(self.parameters, path)

    @classmethod
    def load(cls, path: str | Path) -> Roles:
        """The roles that `save` wrote."""
        from rae.roles.storage import load_parameters

        parameters = load_parameters(path)
        settings = parameters.settings
        weights = parameters.weights or None
        roles = cls(settings["k"], max_k=settings["max_k"], seed=settings["seed"], weights=weights)
        roles._parameters = parameters
        return roles

    def _repr_html_(self) -> str:
        if self._parameters is None:
            return display.panel("Roles, not fitted", display.table([("settings", repr(self))]))
        sizes, n = self.sizes.tolist(), max(int(self.sizes.sum()), 1)
        rows = [(role, size, f"{100 * size / n:.1f} %") for role, size in enumerate(sizes)]
        labels = [str(role) for role in range(len(sizes))]
        return display.panel(
            f"{len(sizes)} roles of {n:,} nodes, by {self.criterion}" + (", a weak choice" if self.weak else ""),
            display.table(rows, ("role", "nodes", "share")),
            display.bars("nodes by role", sizes, labels),
        )

    def __repr__(self) -> str:
        weights = "" if self.weights is None else f", weights={self.weights!r}"
        return f"Roles(k={self.k!r}, max_k={self.max_k}, seed={self.seed}{weights})"


def _largest_norm(rows: Floats) -> float:
    return float(np.linalg.norm(rows.astype(np.float64), axis=1).max())


def _radius(x: Doubles, centers: Doubles) -> float:
    """Root mean square distance of a row from its centre, at least a tenth of that between two centres."""
    from sklearn.metrics.pairwise import euclidean_distances

    typical = float(np.sqrt((euclidean_distances(x, centers).min(1) ** 2).mean()))
    if len(centers) == 1:
        return max(typical, 1e-9)
    between = euclidean_distances(centers)[np.triu_indices(len(centers), 1)]
    return max(typical, LEAST_RADIUS * float(between.min()), 1e-9)


def _order_by_size(parameters: Parameters, assignment: Assignment) -> tuple[Parameters, Assignment]:
    """The same roles numbered by size, largest first; equal sizes by the coordinates of their centres."""
    sizes, centers = assignment.sizes, parameters.centers
    order = np.lexsort((*np.round(centers.T[::-1], 9), -sizes))
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order))
    memberships = np.ascontiguousarray(assignment.memberships[:, order])
    return (
        replace(parameters, centers=np.ascontiguousarray(centers[order]), sizes=sizes[order]),
        replace(assignment, labels=rank[assignment.labels], memberships=memberships),
    )
