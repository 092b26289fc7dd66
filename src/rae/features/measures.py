"""Structural measures of every node: degree, triangles, 4-cycles, clustering, core number.

Each is counted once per graph: fits, embeddings and cards ask for the same ones. Triangles and 4-cycles are exact while
counting them looks at no more than MOST_PATHS paths of two edges, and estimated beyond that, from DRAWS pairs of
neighbours a node: the logarithm of a count is then off by 0.12 (triangles) and 0.14 (4-cycles) on average, the root
mean square over the nodes of ca-AstroPh.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rae.errors import GraphError
from rae.graph import Graph
from rae.memory import forget
from rae.ops import structure
from rae.runtime import key

Ints = np.ndarray[Any, np.dtype[np.integer[Any]]]
Doubles = np.ndarray[Any, np.dtype[np.float64]]

MOST_PATHS = 10_000_000_000  # some minutes of one core
DRAWS = 64
SHARE_PATHS = 500_000_000  # that one task looks at, about
SHARE_ROWS = 1 << 20  # whose cycles one task estimates
MOST_SHARES = 16  # of counts: each is two numbers of every node
CACHED_BYTES = 24  # per node, of degrees and counts that are kept with a graph
COUNTED = ("triangles", "four_cycles", "core_numbers")  # besides the degrees

log = logging.getLogger("rae")


def degrees(graph: Graph) -> Ints:
    """The number of neighbours of each node.  -> (n,)"""
    if graph.reach is not None:
        return _cached_count(graph, "degrees")
    return np.ascontiguousarray(graph.degrees, np.int64)


def triangles(graph: Graph) -> Ints:
    """The triangles each node is a corner of.  -> (n,)"""
    return _cached_count(graph, "triangles")


def four_cycles(graph: Graph) -> Ints:
    """The cycles of four different nodes that each node is on, with or without a chord.  -> (n,)"""
    return _cached_count(graph, "four_cycles")


def core_numbers(graph: Graph) -> Ints:
    """The largest k such that the node is in the k-core.  -> (n,)"""
    return _cached_count(graph, "core_numbers")


def strengths(graph: Graph, channel: str) -> tuple[Ints, Doubles]:
    """How many edges each node has in a channel, and the sum of their weights.  -> (n,), (n,)"""
    cache = graph.measures
    name = f"strengths {channel}"
    if name not in cache:
        counts, sums = structure.strengths(graph.offsets, graph.channel(channel))
        sums.flags.writeable = False
        cache[name] = _small(counts), sums
    both: tuple[Ints, Doubles] = cache[name]
    return both


def clustering(graph: Graph, triangle_counts: Ints | None = None) -> Doubles:
    """The share of pairs of neighbours that are adjacent; 0 for nodes with fewer than two neighbours.  -> (n,)"""
    counts = triangles(graph) if triangle_counts is None else triangle_counts
    degree = degrees(graph)
    out: Doubles = counts / np.maximum(degree * (degree - 1) / 2, 1)
    return np.minimum(out, 1.0)


def is_estimated(graph: Graph) -> bool:
    """Whether counting cycles of this graph costs too much, so that they are estimated."""
    cached_value = graph.measures.get("estimated")
    return paths_counted(graph) > MOST_PATHS if cached_value is None else bool(cached_value)


def paths_counted(graph: Graph) -> int:
    """Paths of two edges that counting triangles and 4-cycles looks at: each edge from its end of higher degree."""
    if "paths" not in graph.measures:
        graph.measures["paths"] = structure.paths_counted(graph.offsets, graph.targets)
    return int(graph.measures["paths"])


def shares_of_counts(graph: Graph) -> int:
    """Into how many shares counting or estimating the cycles of this graph is cut, where tasks do it."""
    return number_of_shares(graph.n_nodes, paths_counted(graph), is_estimated(graph))


def number_of_shares(n_nodes: int, paths: float, estimated: bool) -> int:
    """Into how many shares counting so many paths is cut, or estimating for so many nodes."""
    return -(-n_nodes // SHARE_ROWS) if estimated else max(1, min(MOST_SHARES, int(paths // SHARE_PATHS)))


def share_of_counts(graph: Graph, share: int, shares: int) -> tuple[Ints, Ints]:
    """One share of the triangles and 4-cycles: of all nodes, what to add up, or, estimated, those of a run of rows.

    The rows by degree are kept with the graph until `forget_order`: the next share begins with them.
    """
    rows = graph.offsets, graph.targets
    if not is_estimated(graph):
        return structure.share_of_cycles(
            *rows, share, shares, lambda: cached(graph, "by degree", b"", lambda: structure.by_degree(*rows))
        )
    return _round(structure.estimate_cycles(*rows, DRAWS, key(0, "cycles"), _rows_of_share(graph, share)))


def forget_order(graph: Graph) -> None:
    """Give back what counting a share kept with a graph."""
    graph.measures.pop("by degree", None)


def keep_counts(graph: Graph, shares: Sequence[Any], cores: Ints) -> None:
    """Keep with a graph its triangles and 4-cycles, from all their shares, and its core numbers."""
    if is_estimated(graph):
        triangle_counts, cycle_counts = (np.concatenate([share[i] for share in shares]) for i in (0, 1))
    else:
        triangle_counts, cycle_counts = (np.add.reduce([share[i] for share in shares]) for i in (0, 1))
    counted = zip(COUNTED, map(_small, (triangle_counts, cycle_counts, cores)), strict=True)
    graph.measures.update(counted)


def is_measured(graph: Graph) -> bool:
    """Whether measures in units are kept with this graph."""
    return "own" in graph.measures


def are_counted(graph: Graph) -> bool:
    """Whether the counts of this graph are kept with it."""
    return set(COUNTED) <= set(graph.measures)


def _rows_of_share(graph: Graph, share: int) -> tuple[int, int]:
    return share * SHARE_ROWS, min((share + 1) * SHARE_ROWS, graph.n_nodes)


def share_shape(graph: Graph, share: int) -> tuple[int, int]:
    """The shape of a share of counts as one array: triangles, then 4-cycles."""
    a, b = _rows_of_share(graph, share) if is_estimated(graph) else (0, graph.n_nodes)
    return 2, b - a


def cached(graph: Graph, name: str, key: bytes, compute: Callable[[], Any]) -> Any:
    """What `compute` gives for this graph, kept with it under a name until another key is asked for."""
    cache = graph.measures
    if name not in cache or cache[name][0] != key:
        cache[name] = key, compute()
    return cache[name][1]


def _cached_count(graph: Graph, name: str) -> Ints:
    """A count per node; all of them are made at the first call for this graph and kept with it.  -> (n,)"""
    cache = graph.measures
    if name not in cache:
        if graph.reach is not None:
            raise GraphError(
                f"the {name.replace('_', ' ')} of a part of a graph are not those of the graph, and this part does not "
                "have the latter; cut it by rae.ego_graph, which takes them along, or pass the whole graph"
            )
        counts = _estimates(graph) if is_estimated(graph) else structure.counts_of_nodes(graph.offsets, graph.targets)
        cache |= zip(COUNTED, map(_small, counts), strict=True)
        forget(graph.targets)
    counted: Ints = cache[name]
    return counted


def _estimates(graph: Graph) -> tuple[Ints, Ints, Ints]:
    if "estimated" not in graph.measures:  # said once, not of every view
        log.warning(
            "triangles and 4-cycles are estimated from %d pairs of neighbours a node, off by about 13 %%: counting "
            "them would look at %.1e paths",
            *(DRAWS, paths_counted(graph)),
        )
    rows = graph.offsets, graph.targets
    return *_round(structure.estimate_cycles(*rows, DRAWS, key(0, "cycles"))), structure.core_numbers(*rows)


def _round(estimates: tuple[Doubles, Doubles]) -> tuple[Ints, Ints]:
    triangle_counts, cycle_counts = (np.rint(x).astype(np.int64) for x in estimates)
    return triangle_counts, cycle_counts


def _small(counts: Ints) -> Ints:
    """The counts in 32 bits where they fit, read-only."""
    out = counts.astype(np.uint32) if len(counts) and counts.max() < 2**32 else counts
    out.flags.writeable = False
    return out
