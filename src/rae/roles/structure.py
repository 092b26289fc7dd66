"""What a role's members look like in the graph: measures per node, quantiles per role, edges between roles."""

from __future__ import annotations

from typing import Any

import numpy as np

from rae.features.measures import clustering, core_numbers, degrees, triangles
from rae.graph import Graph
from rae.roles.canonical import Ints, chunks

MEASURES = ("degree", "neighbor_degree", "triangles", "clustering", "core")


def measures(graph: Graph) -> dict[str, np.ndarray[Any, Any]]:
    """Per node: degree, mean degree of its neighbours, triangles, clustering coefficient, core number."""
    degree = degrees(graph)
    around = triangles(graph)
    return {
        "degree": degree,
        "neighbor_degree": sums_around(graph, degree[:, None])[:, 0] / np.maximum(degree, 1),
        "triangles": around,
        "clustering": clustering(graph, around),
        "core": core_numbers(graph),
    }


def profile(values: dict[str, np.ndarray[Any, Any]], labels: Ints, k: int) -> list[dict[str, dict[str, Any]]]:
    """Per role and measure: quartiles, where they stand among all nodes in percent, how many are 0 and how many 1.

    A node in the middle of many equals stands in their middle: of 100 leaves each is at 50.
    """
    members = np.argsort(labels, kind="stable")
    ends = np.cumsum(np.bincount(labels, minlength=k))
    out: list[dict[str, dict[str, Any]]] = [{} for _ in range(k)]
    for name, value in values.items():
        order = np.sort(value)
        for role, (a, b) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
            if a == b:
                continue
            own = value[members[a:b]]
            quartiles = np.quantile(own, [0.25, 0.5, 0.75], method="nearest")
            left, right = np.searchsorted(order, quartiles, "left"), np.searchsorted(order, quartiles, "right")
            stand = [round(100 * float(place) / (2 * len(order)), 2) for place in left + right]
            out[role][name] = {
                "quartiles": [_rounded(q) for q in quartiles],
                "percentiles": stand,
                "percentile": stand[1],
                "overall": _rounded(order[len(order) // 2]),
                "zero": _share(own == 0),
                "one": _share(own == 1),
            }
    return out


def edges_between(graph: Graph, labels: Ints, k: int) -> Ints:
    """Ends of edges at role i that lead to role j; symmetric, edges inside a role counted twice.  -> (k, k)"""
    table = np.zeros(k * k, np.int64)
    for a, b in chunks(graph.n_nodes):
        rows = np.repeat(labels[a:b].astype(np.int64), graph.degrees[a:b])
        table += np.bincount(rows * k + labels[graph.targets[graph.offsets[a] : graph.offsets[b]]], minlength=k * k)
    return table.reshape(k, k)


def sums_around(graph: Graph, values: Ints) -> Ints:
    """The sum over each node's neighbours, column by column.  (n, c) -> (n, c)"""
    out = np.zeros(values.shape, np.int64)
    for a, b in chunks(graph.n_nodes):
        low, high = int(graph.offsets[a]), int(graph.offsets[b])
        sums = np.zeros((high - low + 1, values.shape[1]), np.int64)
        np.cumsum(values[graph.targets[low:high]], axis=0, out=sums[1:])
        out[a:b] = sums[graph.offsets[a + 1 : b + 1] - low] - sums[graph.offsets[a:b] - low]
    return out


def _share(there: np.ndarray[Any, np.dtype[np.bool_]]) -> float:
    """How many of them, rounded, but 0 only for none and 1 only for all."""
    count = int(np.count_nonzero(there))
    return (
        float(count == len(there)) if count in (0, len(there)) else min(max(round(count / len(there), 4), 1e-4), 0.9999)
    )


def _rounded(value: Any) -> float | int:
    return int(value) if float(value).is_integer() else round(float(value), 4)
