"""Ego graphs: the part of a graph around some nodes, which knows where it is cut off."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from rae.errors import Argument, GraphError
from rae.features import measures
from rae.graph import Graph
from rae.graph.digest import DIGEST, graph_digest
from rae.ops.sampling import sample_neighbors

Ints = np.ndarray[Any, np.dtype[np.int64]]

CARRIED = ("degrees", *measures.COUNTED)


def ego_graph(graph: Graph, nodes: Any, hops: int) -> Graph:
    """The nodes up to `hops` edges from these ones and all edges between them, in the order of the graph.

    The measures of a node are those of the whole graph, since a core number cannot be counted in a part of it. Each
    row knows how far around it nothing of that graph is missing (`Graph.reach`): `RAE.transform` refuses rows whose
    vectors read farther than that, and embeds the others as in the whole graph. `RAE.hops` says how far a model reads.
    A model that draws neighbours when it embeds (the presets paper and toy) draws by row number, and refuses all.

    >>> path = Graph.from_edges([(i, i + 1) for i in range(9)])
    >>> ego = ego_graph(path, [4], hops=2)
    >>> ego.ids.tolist(), ego.reach.tolist()
    ([2, 3, 4, 5, 6], [0, 1, 2, 1, 0])
    """
    if isinstance(hops, bool) or not isinstance(hops, int | np.integer) or hops < 1:
        raise GraphError(Argument("hops"), f" must be a whole number from 1, got {hops!r}; a model reads RAE.hops")
    if graph.reach is not None:
        raise GraphError("an ego graph is cut from a whole graph, got one that is cut already; pass the whole graph")
    rings = _rings(graph, np.unique(graph.rows(nodes)), hops)
    rows = np.concatenate(rings)
    order = np.argsort(rows)  # neighbours are added up in the order of the graph, so vectors are the same bytes
    reach = (hops - np.repeat(np.arange(hops + 1), [len(ring) for ring in rings]))[order]
    rows = rows[order]
    part = replace(graph.subgraph(graph.id_column.take(pa.array(rows))), reach=reach)
    counts = {name: getattr(measures, name)(graph)[rows] for name in CARRIED} | {"estimated": False}
    for name in graph.channels:
        counts[f"strengths {name}"] = tuple(values[rows] for values in measures.strengths(graph, name))
    graph_digest(graph)
    part.measures.update(counts | {DIGEST: graph.measures[DIGEST]})
    return part.as_known_as(graph)


def _rings(graph: Graph, rows: Ints, hops: int) -> list[Ints]:
    """These rows, the rows one edge from them, two edges, and so on."""
    rings = [rows]
    inside = np.zeros(graph.n_nodes, bool)
    inside[rows] = True
    for _ in range(hops):
        _, around = sample_neighbors(graph.offsets, graph.targets, rings[-1], graph.n_nodes, 0)  # all of them
        new = np.unique(around[~inside[around]]).astype(np.int64)
        inside[new] = True
        rings.append(new)
    return rings
