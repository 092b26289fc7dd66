"""Role cards: for each role its size, its prototypes, how its members stand in the graph, what they do."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from rae.errors import FeatureError, GraphError
from rae.features import check_matrix
from rae.graph import Graph
from rae.ids import id_array
from rae.roles.actions import standing_out
from rae.roles.canonical import Ints
from rae.roles.fitted import Assignment
from rae.roles.structure import edges_between, measures, profile
from rae.roles.words import summary

PROTOTYPES = 5


@dataclass(frozen=True)
class Card:
    """One role. `structure` and `edges` are empty without a graph, `actions` without features."""

    role: int
    size: int
    share: float
    confidence: float  # the median over its members
    prototypes: tuple[Any, ...]  # ids, most central first
    structure: dict[str, dict[str, Any]] = field(default_factory=dict)  # measure -> quartiles, percentile, overall
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
    sizes = assignment.sizes
    cards = []
    for role in range(k):
        members = np.flatnonzero(labels == role)
        sure = float(np.median(assignment.confidence[members])) if len(members) else 0.0
        central = _prototypes(members, assignment, column)
        told = summary(role, structure[role], edges[role], actions[role])
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
                summary=told,
            )
        )
    return cards


def _prototypes(members: Ints, assignment: Assignment, ids: pa.Array) -> tuple[Any, ...]:
    """The ids nearest to the centre, in different positions while there are such."""
    if not len(members):
        return ()
    far = assignment.distances[members]
    some = min(len(members), 50 * PROTOTYPES)
    near = members[np.argpartition(far, some - 1)[:some]]
    values = ids.take(pa.array(near)).to_pylist()
    order = sorted(range(some), key=lambda i: (round(float(assignment.distances[near[i]]), 5), str(values[i])))
    seen: set[float] = set()
    first: list[Any] = []
    others: list[Any] = []
    for i in order:
        place = round(float(assignment.distances[near[i]]), 5)
        (others if place in seen else first).append(values[i])
        seen.add(place)
    return tuple((first + others)[:PROTOTYPES])


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
