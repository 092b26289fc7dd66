"""Trials of changes: edges of one node that are added and removed until the node plays another role.

The search is greedy: each step adds or removes the edge that moves the node farthest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from rae.engine.live import Live
from rae.features.measures import degrees
from rae.graph import Graph
from rae.live_tables import live_of
from rae.roles import Roles
from rae.runtime import generator
from rae.stored_run import StoredRun

Ints = np.ndarray[Any, np.dtype[np.int64]]
Floats = np.ndarray[Any, np.dtype[np.float32]]
Doubles = np.ndarray[Any, np.dtype[np.float64]]
Edge = tuple[int, bool]  # the other end, and whether the edge is added

LEFT_OUT, CANDIDATES, RETRIED = (
    60,
    60,
    40,
)  # most neighbours left out, edges added, edges tried again at a step
IN_FULL = 12  # neighbours and candidates where each trial is a full pass


class NodeChangedError(Exception):
    """The edges of the node changed since the start."""


class EdgeTrials:
    """Trials: changes of the edges of one node that are applied, embedded and undone."""

    def __init__(
        self, run: StoredRun, graph: Graph, features: Any, model: Any, roles: Roles, row: int, lock: Any, follows: bool
    ) -> None:
        self.run, self.graph, self.features, self.model, self.roles, self.row = run, graph, features, model, roles, row
        self.lock, self.follows = lock, follows
        self.count = 0
        self._near = np.asarray(graph.neighbors(row))
        self._vectors: dict[tuple[Edge, ...], Floats] = {}

    @property
    def most(self) -> tuple[int, int]:
        """Neighbours to leave out, and edges that could be added: fewer where each costs a full pass."""
        return (LEFT_OUT, CANDIDATES) if self.follows else (IN_FULL, 0 if self.graph.channels else IN_FULL)

    def vector(self, edges: Sequence[Edge]) -> Floats:
        """The vector of the node with these changes of its edges.  -> (width,)"""
        key = tuple(sorted(edges))
        if key not in self._vectors:
            self.count += bool(key)
            self._vectors[key] = self._compute(key)
        return self._vectors[key]

    def vectors(self, rows: Ints) -> Floats | None:
        """The current vectors of these nodes; None where the run has no tables.  (r,) -> (r, width)"""
        if not self.follows:
            return None
        with self.lock:
            return self._live().vectors(rows)

    def squared(self, edges: Sequence[Edge]) -> Doubles:
        """The squared distances from the centres of the roles with these changes.  -> (k,)"""
        parameters = self.roles.parameters
        out: Doubles = ((parameters.project(self.vector(edges)[None]) - parameters.centers) ** 2).sum(1)
        return out

    def _compute(self, edges: tuple[Edge, ...]) -> Floats:
        if self.follows:
            with self.lock:
                return self._try_edges(edges)
        changed = with_edges(self.graph, self.row, edges) if edges else self.graph
        node = [self.graph.id_column[self.row].as_py()]
        z: Floats = self.model.transform(
            changed, self.features, nodes=pa.array(node), units="fit", whole=True, progress=False
        )
        return np.asarray(z[0], np.float32)

    def _try_edges(self, edges: tuple[Edge, ...]) -> Floats:
        """The vector with these changes, tried in the current tables of the run."""
        live = self._live()
        if not edges:
            row: Floats = live.vectors(np.array([self.row]))[0]
            return row
        ends, is_added = np.array([end for end, _ in edges], np.int64), np.array([is_added for _, is_added in edges])
        out: Floats = live.tried(np.full(len(ends), self.row), ends, is_added, self.row)
        return out

    def _live(self) -> Live:
        """The current tables of the run, where the node still has its edges of the start."""
        live: Live | None = self.run._as_it_is(lambda _: live_of(self.run))
        if live is None or not np.array_equal(live.rows.lists(np.array([self.row]))[1], self._near):
            raise NodeChangedError
        return live


def search_change(
    trials: EdgeTrials, graph: Graph, labels: Ints, own: int, other: int, to: int | None, most_edges: int
) -> tuple[dict[int, float], tuple[list[Edge], Any] | None]:
    """What each neighbour adds to the lead, and the smallest change of role found by search, or None."""
    n_out, n_in = trials.most
    before = trials.squared([])
    lead = before[other] - before[own]
    left_out = sampled(np.unique(graph.neighbors(trials.row)), n_out, trials.row)
    effects = {}
    for end in left_out.tolist():
        after = trials.squared([(end, False)])
        effects[end] = float(lead - (after[other] - after[own]))
    if to == own:
        return effects, None
    candidates = [
        *((end, False) for end in left_out.tolist()),
        *((end, True) for end in _possible_ends(trials, labels, n_in)),
    ]
    greedy_edges = _greedy_edges(trials, candidates, own, to, most_edges)
    if greedy_edges is None:
        return effects, None
    edges = _needed_edges(trials, greedy_edges, own, to)
    return effects, (edges, trials.roles.assign(trials.vector(edges)[None]))


def with_edges(graph: Graph, row: int, edges: Sequence[Edge]) -> Graph:
    """The graph with edges of one node removed and added; a graph with channels only loses some."""
    removed = [end for end, is_added in edges if not is_added]
    sources = np.repeat(np.arange(graph.n_nodes), graph.degrees)
    from_node = (sources == row) & np.isin(graph.targets, removed)
    to_node = (graph.targets == row) & np.isin(sources, removed)
    keep = ~(from_node | to_node)
    if graph.channels:
        counts = np.bincount(sources[keep], minlength=graph.n_nodes)
        offsets = np.append(0, np.cumsum(counts)).astype(graph.offsets.dtype)
        channels = {name: array[keep] for name, array in graph.channels.items()}
        return replace(graph, offsets=offsets, targets=graph.targets[keep], channels=channels)
    once = keep & (sources < graph.targets)
    added = np.array([end for end, is_added in edges if is_added], np.int64)
    us, vs = np.append(sources[once], np.full(len(added), row)), np.append(graph.targets[once], added)
    return Graph.from_rows(us, vs, graph.id_column)


def _possible_ends(trials: EdgeTrials, labels: Ints, most: int) -> list[int]:
    """Nodes that an edge could lead to: friends of friends, hubs, and members of every role."""
    graph, row = trials.graph, trials.row
    near = np.unique(graph.neighbors(row)).astype(np.int64)
    second = np.unique(np.concatenate([np.empty(0, np.int64), *(graph.neighbors(int(v)) for v in near[:LEFT_OUT])]))
    hubs = np.argsort(-np.asarray(degrees(graph), np.int64), kind="stable")[: max(most // 6, 1)]
    roles = range(int(labels.max()) + 1)
    each = max(most // (2 * len(roles)), 1)
    members = [sampled(np.flatnonzero(labels == role), each, row, role) for role in roles]
    ends = np.concatenate([sampled(second, most // 3, row, "second"), hubs, *members])
    candidates = dict.fromkeys(ends[~np.isin(ends, near) & (ends != row)].tolist())
    return list(candidates)[:most]


def _beyond_border(squared: Doubles, own: int, to: int | None) -> float:
    """How far beyond the border of its role, or inside the role that was asked for; above 0 it has changed."""
    if to is not None:
        return float(np.delete(squared, to).min() - squared[to])
    return float(squared[own] - np.delete(squared, own).min())


def _greedy_edges(
    trials: EdgeTrials, candidates: list[Edge], own: int, to: int | None, most_edges: int
) -> list[Edge] | None:
    """Edges chosen greedily, each the one that moves the node farthest; None where they do not suffice."""
    chosen: list[Edge] = []
    for _ in range(most_edges):
        reached = {
            edge: _beyond_border(trials.squared([*chosen, edge]), own, to) for edge in candidates if edge not in chosen
        }
        if not reached:
            return None
        order = sorted(reached, key=lambda edge: (-reached[edge], edge))
        chosen.append(order[0])
        if reached[order[0]] > 0:
            return chosen
        candidates = order[1 : 1 + RETRIED]
    return None


def _needed_edges(trials: EdgeTrials, edges: list[Edge], own: int, to: int | None) -> list[Edge]:
    """The change without edges that it does not need: without any one of the others the role stays."""
    for edge in list(edges):
        fewer = [other for other in edges if other != edge]
        if fewer and _beyond_border(trials.squared(fewer), own, to) > 0:
            return _needed_edges(trials, fewer, own, to)
    return edges


def sampled(rows: Any, most: int, *keys: Any) -> Ints:
    """These rows, or a sample of them in ascending order."""
    chosen: Ints = np.asarray(rows, np.int64)
    if len(chosen) > most:
        chosen = np.sort(generator(0, "why", *keys).choice(chosen, most, replace=False))
    return chosen
