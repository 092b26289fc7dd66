"""Role cards: for each role its size, its prototypes, its place in the graph, and what its members do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from rae.display import printable
from rae.errors import GraphError
from rae.features import check_matrix
from rae.features.measures import clustering, core_numbers, degrees, strengths, triangles
from rae.graph import Graph
from rae.graph.channels import IN, OUT, split_name
from rae.graph.ids import json_id
from rae.io.node_columns import node_names
from rae.memory import row_chunks
from rae.roles.actions import distinctive_features
from rae.roles.summary import summarize_roles
from rae.roles.vectors import CHUNK_ROWS, Doubles, Ints, checked_ids

if TYPE_CHECKING:
    from rae.roles.model import Assignment

PROTOTYPES = 5
COMMON_POSITION = 0.2  # share of a role's members in one position that gives it the first prototype


@dataclass(frozen=True)
class Card:
    """One role. `structure` and `edges` are empty without a graph, `actions` without features."""

    role: int
    size: int
    share: float
    confidence: float  # the median over its members
    prototypes: tuple[Any, ...]  # ids, the commonest position first, then the most central
    names: tuple[str | None, ...] = ()  # display names of the prototypes, where nodes have some
    structure: dict[str, dict[str, Any]] = field(default_factory=dict)  # measure -> see `profile_roles`
    edges: dict[str, Any] = field(default_factory=dict)  # inside: share, to: share by role, expected: share by role
    actions: tuple[dict[str, Any], ...] = ()
    summary: str = ""

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Card:
        """The card that `as_dict` wrote."""
        values_by_field = {part.name: data[part.name] for part in fields(cls) if part.name in data}
        values: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in values_by_field.items()}
        return cls(**values)

    def __str__(self) -> str:
        """A few lines: the size of the role, its prototypes, and what sets it apart."""
        head = f"role {self.role}, {self.size:,} nodes ({100 * self.share:.0f} %)"
        if self.prototypes:
            head += f" such as {', '.join(prototype_names(vars(self))[:3])}"
        return "\n".join(map(printable, [head, *filter(None, self.summary.split("; "))]))

    def as_dict(self) -> dict[str, Any]:
        """The card as JSON holds it; ids of types that JSON lacks become text."""
        card = asdict(self)
        card["prototypes"] = [json_id(i) for i in self.prototypes]
        card["actions"], card["names"] = list(card["actions"]), list(card["names"])
        return card


def prototype_names(card: Mapping[str, Any]) -> list[str]:
    """The prototypes of a card, as JSON holds it, by their display names, or by their ids where they have none."""
    names = card.get("names") or [None] * len(card["prototypes"])
    return [str(id) if name is None else name for id, name in zip(card["prototypes"], names, strict=True)]


def make_cards(
    assignment: Assignment,
    ids: Any,
    *,
    graph: Graph | None = None,
    features: Any = None,
    names: Any = None,
    display_names: Any = None,
) -> list[Card]:
    """A card per role; graph, features and ids have the rows of the assignment.

    `names` are those of the feature columns, `display_names` those of the nodes: one each, or a mapping from ids.
    """
    n, k = assignment.memberships.shape
    ids = checked_ids(ids, n)
    if graph is not None and graph.n_nodes != n:
        raise GraphError(f"the graph must have the nodes of the vectors ({n:,}), got {graph.n_nodes:,}")
    labels, sizes = assignment.labels, assignment.sizes
    structure: list[dict[str, Any]] = [{} for _ in range(k)]
    edges: list[dict[str, Any]] = [{} for _ in range(k)]
    actions: list[list[dict[str, Any]]] = [[] for _ in range(k)]
    if graph is not None:
        structure = structural_profiles(graph, labels, k)
        edges = _edge_shares(edges_between(graph, labels, k))
    if features is not None:
        actions = distinctive_features(check_matrix(features, n), labels, k, names)
    summaries = summarize_roles(structure, edges, actions)
    shown = None if display_names is None else node_names(display_names, ids)
    cards = []
    for role in range(k):
        members = np.flatnonzero(labels == role)
        prototypes = _prototypes(assignment.distances[members], members, ids)
        confidence = float(np.median(assignment.confidence[members])) if len(members) else 0.0
        card = Card(
            role=role,
            size=int(sizes[role]),
            share=round(float(sizes[role]) / n, 6),
            confidence=round(confidence, 4),
            prototypes=tuple(ids.take(pa.array(prototypes)).to_pylist()),
            names=() if shown is None else tuple(shown.take(pa.array(prototypes)).to_pylist()),
            structure=structure[role],
            edges=edges[role],
            actions=tuple(actions[role]),
            summary=summaries[role],
        )
        cards.append(card)
    return cards


# -------------------------------------------------------------------------------------- prototypes


def _prototypes(distances: Any, members: Ints, ids: pa.Array) -> Ints:
    """Rows of a role: one from its commonest position, then the most central, in different positions first."""
    if not len(members):
        return np.empty(0, np.int64)
    distances = distances.astype(np.float64).round(5)  # equal positions are equally far from the centre
    common = _common_distance(distances)
    size = min(len(members), 50 * PROTOTYPES)
    candidates = np.union1d(np.argpartition(distances, size - 1)[:size], np.flatnonzero(distances == common)[:size])
    far, names = distances[candidates], ids.take(pa.array(members[candidates])).to_pylist()
    order = sorted(range(len(candidates)), key=lambda i: (far[i] != common, far[i], str(names[i])))
    first_of_position = {float(far[i]): i for i in reversed(order)}
    chosen = set(first_of_position.values())
    order.sort(key=lambda i: i not in chosen)
    rows: Ints = members[candidates[order[:PROTOTYPES]]]
    return rows


def _common_distance(distances: Doubles) -> float | None:
    """The distance that most members share, or None if less than a fifth of them share one."""
    values, counts = np.unique(distances, return_counts=True)
    most = int(counts.argmax())
    return float(values[most]) if counts[most] > max(1, COMMON_POSITION * len(distances)) else None


# --------------------------------------------------------------------------------------- structure


def structural_measures(graph: Graph) -> dict[str, np.ndarray[Any, Any]]:
    """Per node: degree, mean degree of its neighbours, triangles, clustering coefficient, core number.

    Then degrees and strengths by direction, where edges have weights or directions.
    """
    triangle_counts = triangles(graph)
    return {
        "degree": degrees(graph),
        "neighbor_degree": _neighbor_degrees(graph),
        "triangles": triangle_counts,
        "clustering": clustering(graph, triangle_counts),
        "core": core_numbers(graph),
        **flow_measures(graph),
    }


def flow_measures(graph: Graph) -> dict[str, np.ndarray[Any, Any]]:
    """Per node, where edges have directions or weights: degree and strength out of it and into it, and their balance.

    A strength is a sum of weights. The balance is that of what goes out and what comes in, from -1 for nodes that only
    get to 1 for nodes that only give, 0 for those that pass on as much as they get.
    """
    if not graph.directed and not graph.weighted:
        return {}
    by_direction: dict[str, list[tuple[Any, Any]]] = {}
    for name in graph.channels:
        by_direction.setdefault(split_name(name)[0], []).append(strengths(graph, name))
    counts = {way: np.sum([c for c, _ in both], axis=0) for way, both in by_direction.items()}
    sums = {way: np.sum([s for _, s in both], axis=0) for way, both in by_direction.items()}
    out: dict[str, np.ndarray[Any, Any]] = {}
    if graph.directed:
        out |= {f"{way}_degree": counts[way] for way in (OUT, IN)}
    if graph.weighted:
        out |= {f"{way}_strength" if graph.directed else "strength": sums[way] for way in sums}
    if graph.directed:
        total = sums[OUT] + sums[IN]
        out["balance"] = (sums[OUT] - sums[IN]) / np.where(total > 0, total, 1)
    return out


def _neighbor_degrees(graph: Graph) -> Doubles:
    """The mean degree of each node's neighbours; 0 without neighbours.  -> (n,)"""
    degree = degrees(graph)
    means = np.empty(graph.n_nodes)
    for start, stop in row_chunks(graph.n_nodes, CHUNK_ROWS):
        rows = np.repeat(np.arange(stop - start), degree[start:stop])
        around = degree[graph.targets[graph.offsets[start] : graph.offsets[stop]]]
        means[start:stop] = np.bincount(rows, around, stop - start) / np.maximum(degree[start:stop], 1)
    return means


def structural_profiles(graph: Graph, labels: Ints, k: int) -> list[dict[str, dict[str, Any]]]:
    """The profiles of the roles in this graph; that of neighbour degrees has their ranks among degrees too."""
    measures = structural_measures(graph)
    profiles, ascending = profile_roles(measures, labels, k), np.sort(measures["degree"])
    for profile in profiles:
        if profile:
            around = profile["neighbor_degree"]
            around["as_degree"] = _percentiles(np.asarray(around["quartiles"]), ascending)
    return profiles


def profile_roles(measures: dict[str, np.ndarray[Any, Any]], labels: Ints, k: int) -> list[dict[str, dict[str, Any]]]:
    """Per role and measure: quartiles, their percentiles among all nodes, the shares of zeros and ones, and `others`.

    That is the share of the nodes of other roles between the first and the third quartile, every role counting
    alike: the smaller, the better the measure tells the role apart. A value in the middle of many equals has the
    percentile of their middle: of 100 leaves each is at 50.
    A role without members has an empty profile.
    """
    stops = np.cumsum(np.bincount(labels, minlength=k))
    members = np.split(np.argsort(labels, kind="stable"), stops[:-1])
    profiles: list[dict[str, dict[str, Any]]] = [{} for _ in range(k)]
    for name, values in measures.items():
        ascending, by_role = np.sort(values), [np.sort(values[rows]) for rows in members]
        for role in range(k):
            if len(members[role]):
                others = [other for i, other in enumerate(by_role) if i != role and len(other)]
                profiles[role][name] = _profile(by_role[role], ascending, others)
    return profiles


def _profile(
    values: np.ndarray[Any, Any], ascending: np.ndarray[Any, Any], others: list[np.ndarray[Any, Any]]
) -> dict[str, Any]:
    """One measure of one role, of all nodes and of each other role, ascending."""
    quartiles = np.quantile(values, [0.25, 0.5, 0.75], method="nearest")
    low, _, high = quartiles
    percentiles = _percentiles(quartiles, ascending)
    within = [(np.searchsorted(o, high, "right") - np.searchsorted(o, low, "left")) / len(o) for o in others]
    return {
        "quartiles": [_plain_number(quartile) for quartile in quartiles],
        "percentiles": percentiles,
        "percentile": percentiles[1],
        "overall": _plain_number(ascending[len(ascending) // 2]),
        "zero": _share(values == 0),
        "one": _share(values == 1),
        "others": round(float(np.mean(within)), 4) if within else 1.0,
    }


def _percentiles(values: np.ndarray[Any, Any], ascending: np.ndarray[Any, Any]) -> list[float]:
    """The percentile of each value among these, that of the middle of its equals."""
    below, upto = np.searchsorted(ascending, values, "left"), np.searchsorted(ascending, values, "right")
    return [round(100 * float(twice) / (2 * len(ascending)), 2) for twice in below + upto]


def _share(mask: np.ndarray[Any, np.dtype[np.bool_]]) -> float:
    """The share of True, rounded, but 0 only for none and 1 only for all."""
    if mask.all() or not mask.any():
        return float(mask.all())
    return min(max(round(float(mask.mean()), 4), 1e-4), 0.9999)


def _plain_number(value: Any) -> float | int:
    return int(value) if float(value).is_integer() else round(float(value), 4)


def edges_between(graph: Graph, labels: Ints, k: int) -> Ints:
    """Ends of edges at role i that lead to role j; symmetric, edges inside a role counted twice.  -> (k, k)"""
    table = np.zeros(k * k, np.int64)
    for start, stop in row_chunks(graph.n_nodes, CHUNK_ROWS):
        own_roles = np.repeat(labels[start:stop].astype(np.int64), graph.degrees[start:stop])
        neighbor_roles = labels[graph.targets[graph.offsets[start] : graph.offsets[stop]]]
        table += np.bincount(own_roles * k + neighbor_roles, minlength=k * k)
    return table.reshape(k, k)


def _edge_shares(table: Ints) -> list[dict[str, Any]]:
    """Per role, the share of its edges that lead to each role, and the same share of all edges."""
    expected = [round(float(share), 4) for share in table.sum(0) / max(int(table.sum()), 1)]
    shares = (table / np.maximum(table.sum(1, keepdims=True), 1)).round(4).tolist()
    return [{"inside": to[role], "to": to, "expected": list(expected)} for role, to in enumerate(shares)]
