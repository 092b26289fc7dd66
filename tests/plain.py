"""The paper written as plainly as possible, one node at a time, to hold the fast code against."""

from __future__ import annotations

import networkx as nx
import numpy as np
import torch

from rae import Graph


def relabel(graph: Graph, order: np.ndarray) -> Graph:
    """The same graph with its rows in another order: new row i is old row order[i]."""
    ends = np.repeat(np.arange(graph.n_nodes), graph.degrees)
    place = np.argsort(order)
    ids = graph.id_column.take(order)
    edges = (graph.id_column.take(ends), graph.id_column.take(graph.targets))
    moved = Graph.from_edges(edges, ids=ids)
    assert all(set(place[graph.neighbors(u)]) == set(moved.neighbors(place[u])) for u in range(min(20, graph.n_nodes)))
    return moved


def random_graph(n: int, m: int, seed: int = 0) -> Graph:
    """n nodes, about m random edges; some nodes stay isolated."""
    return Graph.from_edges(np.random.default_rng(seed).integers(0, n, (m, 2)), ids=np.arange(n))


def sigma(layer, h):
    """BatchNorm with running statistics, then the activation (dropout is off when embedding)."""
    norm = layer.norm
    h = (h - norm.running_mean) / torch.sqrt(norm.running_var + norm.eps) * norm.weight + norm.bias
    return {"tanh": torch.tanh, "relu": torch.relu}[layer.activation](h)


def plain_embedding(encoder, graph: Graph, x: np.ndarray, order: str = "average_first") -> np.ndarray:
    """Algorithms 1 and 2, node by node, in float64."""
    encoder = encoder.double().eval()
    h = torch.tensor(np.asarray(x), dtype=torch.float64)
    levels = []
    with torch.no_grad():
        for level in encoder.stack():
            if order == "project_first":
                h = sigma(level.aggregate, h @ level.aggregate.weight)
            h = torch.stack([h[[u, *graph.neighbors(u)]].mean(0) for u in range(graph.n_nodes)])
            if order == "average_first":
                h = sigma(level.aggregate, h @ level.aggregate.weight)
            if level.update is not None:
                h = sigma(level.update, h @ level.update.weight)
            levels.append(h)
    encoder.float()
    return torch.cat(levels[::-1], 1).numpy()


def to_networkx(graph: Graph) -> nx.Graph:
    out = nx.Graph()
    out.add_nodes_from(range(graph.n_nodes))
    out.add_edges_from((u, int(v)) for u in range(graph.n_nodes) for v in graph.neighbors(u))
    return out
