"""Role cards: for each role its size, its prototypes, how its members stand in the graph, what they do."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from rae.errors import FeatureError, GraphError
from rae.features import check_matrix
from rae.graph import Graph
from rae.graph.ids import id_array
from rae.roles.actions import standing_out
from rae.roles.apart import told_apart
from rae.roles.canonical import Doubles, Ints
from rae.roles.fitted import Assignment
from rae.roles.structure import edges_between, measures, profile
from rae.roles.words import summary

PROTOTYPES = 5
COMMON = 0.2  # of its members in one position make that position the first to be shown


@dataclass(frozen=True)
class Card:
    """One role. `structure` and `edges` are empty without a graph, `actions` without features."""

    role: int
    size: int
    share: float
    confidence: float  # the median over its members
    prototypes: tuple[Any, ...]  # ids, the commonest position first, then the most central
    structure: dict[str, dict[str, Any]] = field(default_factory=dict)  # measure -> quartiles, where they stand, ...
    edges: dict[str, Any] = field(default_factory=dict)  # inside: share, to: share by role, expected: share by role
    actions: tuple[dict[str, Any], ...] = ()
    summary: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The card as JSON holds it; ids that JSON has no kind for are text."""
        told = asdict(self)
        told["prototypes"] = [i if isinstance(i, int | str | float) else str(i) for i in self.prototypes]
        told["actions"] = list(told["actions"])
        return told


def make_cards(
    assignment: Assignment, ids: Any, *, graph: Graph | None = None, features: Any = None, names: Any = None
) -> list[Card]:
    """The cards of these roles; graph, features and ids have the rows of the assignment."""
    column = id_array(ids)
    n, k = assignment.memberships.shape
    if len(column) != n:
        raise FeatureError(f"ids must have one entry per row ({n:,}), got {len(column):,}")
    if graph is not None and graph.n_nodes != n:
        raise GraphError(f"the graph must have the nodes of the vectors ({n:,}), got {graph.n_nodes:,}")
    labels = assignment.labels
    structure: list[dict[str, Any]] = [{} for _ in range(k)]
    edges: list[dict[str, Any]] = [{} for _ in range(k)]
    if graph is not None:
        structure = profile(measures(graph), labels, k)
        edges = _shares(edges_between(graph, labels, k))
    actions: list[list[dict[str, Any]]] = [[] for _ in range(k)]
    if features is not None:
        actions = standing_out(check_matrix(features, n), labels, k, names)
    told = told_apart([summary(r, structure[r], edges[r], actions[r]) for r in range(k)], structure, edges)
    sizes = assignment.sizes
    cards = []
    for role in range(k):
        members = np.flatnonzero(labels == role)
        sure = float(np.median(assignment.confidence[members])) if len(members) else 0.0
        central = _prototypes(members, assignment, column)
        cards.append(
            Card(
                role=role,
                size=int(sizes[role]),
                share=round(float(sizes[role]) / n, 6),
                confidence=round(sure, 4),
                prototypes=central,
                structure=structure[role],
                edges=edges[role],
                actions=tuple(actions[role]),
                summary=told[role],
            )
        )
    return cards


def _prototypes(members: Ints, assignment: Assignment, ids: pa.Array) -> tuple[Any, ...]:
    """One of the position most members share, if many do, then the nearest to the centre, in different positions."""
    if not len(members):
        return ()
    far: Doubles = assignment.distances[members].astype(np.float64).round(5)
    usual = _usual(far)
    some = min(len(members), 50 * PROTOTYPES)
    near = np.union1d(np.argpartition(far, some - 1)[:some], np.flatnonzero(far == usual)[:some])
    values = ids.take(pa.array(members[near])).to_pylist()
    order = sorted(range(len(near)), key=lambda i: (far[near[i]] != usual, far[near[i]], str(values[i])))
    seen: set[float] = set()
    first: list[Any] = []
    others: list[Any] = []
    for i in order:
        place = float(far[near[i]])
        (others if place in seen else first).append(values[i])
        seen.add(place)
    return tuple((first + others)[:PROTOTYPES])


def _usual(far: Doubles) -> float | None:
    """The distance at which most stand, since equal positions are equally far; None if no fifth of them share one."""
    places, counts = np.unique(far, return_counts=True)
    best = int(counts.argmax())
    return float(places[best]) if counts[best] > max(1, COMMON * len(far)) else None


def _shares(table: Ints) -> list[dict[str, Any]]:
    """Where the edges of each role lead, and where all edges do."""
    everywhere = table.sum(0) / max(int(table.sum()), 1)
    out: list[dict[str, Any]] = []
    for role, row in enumerate(table):
        to = row / max(int(row.sum()), 1)
        out.append(
            {
                "inside": round(float(to[role]), 4),
                "to": [round(float(share), 4) for share in to],
                "expected": [round(float(share), 4) for share in everywhere],
            }
        )
    return out
