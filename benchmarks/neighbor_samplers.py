"""Ways to sample up to ten neighbours of every node, as functions without arguments; their inputs are built before.

A way without replacement gives every node min(degree, fan-out) distinct neighbours; `pairs` turns its result into
(node, neighbour) rows for the check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from install_alternatives import import_extra_packages

import rae
from rae.model.sampling import sample_neighbors

BATCH = 8192


@dataclass(frozen=True)
class Sampler:
    """One way: the function that is timed, and how its result is read."""

    sample: Callable[[], Any]
    pairs: Callable[[Any], tuple[Any, Any]]
    replacement: bool = False
    note: str = ""


Make = Callable[[rae.Graph, Any, int], Sampler]


def ours(graph: rae.Graph, nodes: Any, fanout: int) -> Sampler:
    return Sampler(partial(sample_neighbors, graph, nodes, fanout, np.uint64(7)), partial(listed_pairs, nodes))


def listed_pairs(nodes: Any, result: tuple[Any, Any]) -> tuple[Any, Any]:
    """The pairs of a result that is offsets and, list after list, neighbours."""
    offsets, neighbors = result
    return np.repeat(nodes, np.diff(offsets)), neighbors


def numba_loop(graph: rae.Graph, nodes: Any, fanout: int) -> Sampler:
    """What one writes in an hour: redraw until a place is new, copy a short list whole."""
    import_extra_packages()
    import numba

    @numba.njit(nogil=True)
    def draw(offsets: Any, targets: Any, nodes: Any, fanout: int, starts: Any, drawn: Any) -> None:
        chosen = np.empty(fanout, np.int64)
        for i in range(len(nodes)):
            first, degree = offsets[nodes[i]], offsets[nodes[i] + 1] - offsets[nodes[i]]
            if degree <= fanout:
                for j in range(degree):
                    drawn[starts[i] + j] = targets[first + j]
                continue
            j = 0
            while j < fanout:
                chosen[j] = np.random.randint(0, degree)
                if chosen[j] not in chosen[:j]:
                    drawn[starts[i] + j] = targets[first + chosen[j]]
                    j += 1

    def sample() -> Any:
        starts = np.zeros(len(nodes) + 1, np.int64)
        np.cumsum(np.minimum(graph.degrees[nodes], fanout), out=starts[1:])
        drawn = np.empty(starts[-1], graph.targets.dtype)
        draw(graph.offsets, graph.targets, nodes, fanout, starts, drawn)
        return starts, drawn

    return Sampler(sample, partial(listed_pairs, nodes))


def numpy_sorted(graph: rae.Graph, nodes: Any, fanout: int) -> Sampler:
    """A random key for every edge, each list sorted by it, the first ones taken: no loop, no replacement."""
    rng, degrees = np.random.default_rng(1), graph.degrees
    row = np.repeat(np.arange(graph.n_nodes), degrees)
    place = np.arange(len(graph.targets)) - np.repeat(graph.offsets[:-1], degrees)

    def sample() -> Any:
        shuffled = np.argsort(row + rng.random(len(row)))
        taken = place < fanout
        return row[taken], graph.targets[shuffled[taken]]

    return Sampler(sample, lambda result: result)


def numpy_replaced(graph: rae.Graph, nodes: Any, fanout: int) -> Sampler:
    rng = np.random.default_rng(1)
    degrees, starts = graph.degrees[nodes], graph.offsets[nodes]

    def sample() -> Any:
        pick = (rng.random((len(nodes), fanout)) * degrees[:, None]).astype(np.int64)
        return graph.targets[starts[:, None] + pick]

    return Sampler(sample, lambda result: (np.repeat(nodes, fanout), result.ravel()), replacement=True)


def torch_replaced(graph: rae.Graph, nodes: Any, fanout: int) -> Sampler:
    import torch

    arrays = (graph.degrees[nodes], graph.offsets[nodes], graph.targets)
    degrees, starts, targets = (torch.from_numpy(np.array(a)) for a in arrays)

    def sample() -> Any:
        return targets[starts[:, None] + (torch.rand(len(degrees), fanout) * degrees[:, None]).long()]

    return Sampler(sample, lambda result: (np.repeat(nodes, fanout), result.numpy().ravel()), replacement=True)


def dgl(graph: rae.Graph, nodes: Any, fanout: int) -> Sampler:
    import torch

    import_extra_packages()
    import dgl

    dgl.utils.set_num_threads(1)
    ends, entries = (torch.from_numpy(np.array(a, np.int64)) for a in (graph.offsets, graph.targets))
    dgl_graph = dgl.graph(
        ("csc", (ends, entries, torch.empty(0, dtype=torch.int64)))
    )  # it draws edges that point to a node
    seeds = torch.from_numpy(nodes)

    def pairs(result: Any) -> tuple[Any, Any]:
        neighbors, egos = result.edges()
        return egos.numpy(), neighbors.numpy()

    return Sampler(lambda: dgl.sampling.sample_neighbors(dgl_graph, seeds, fanout), pairs)


def torch_sparse(graph: rae.Graph, nodes: Any, fanout: int) -> Sampler:
    import torch

    import_extra_packages()
    import torch_sparse  # noqa: F401

    ends, entries = (torch.from_numpy(np.array(a, np.int64)) for a in (graph.offsets, graph.targets))
    seeds = torch.from_numpy(nodes)

    def sample() -> Any:
        return torch.ops.torch_sparse.neighbor_sample(ends, entries, seeds, [fanout], False, True)

    def pairs(result: Any) -> tuple[Any, Any]:
        sampled, neighbors, egos, _ = (part.numpy() for part in result)
        return sampled[egos], sampled[neighbors]

    return Sampler(sample, pairs, note="numbers the nodes it finds as well")


def pyg_loader(graph: rae.Graph, nodes: Any, fanout: int) -> Sampler:
    import torch

    import_extra_packages()
    from torch_geometric import typing
    from torch_geometric.data import Data
    from torch_geometric.loader import NeighborLoader

    if not (typing.WITH_PYG_LIB or typing.WITH_TORCH_SPARSE):
        raise ImportError("NeighborLoader needs pyg-lib or torch-sparse")
    row = np.repeat(np.arange(graph.n_nodes), graph.degrees)
    edges = torch.from_numpy(np.stack([np.asarray(graph.targets, np.int64), row]))
    data = Data(edge_index=edges, num_nodes=graph.n_nodes)
    loader = NeighborLoader(data, [fanout], torch.from_numpy(nodes), batch_size=BATCH, is_sorted=True)

    def pairs(result: Any) -> tuple[Any, Any]:
        both = [batch.n_id[batch.edge_index].numpy() for batch in result]
        return tuple(np.concatenate([part[i] for part in both]) for i in (1, 0))  # type: ignore[return-value]

    return Sampler(lambda: list(loader), pairs, note=f"batches of {BATCH:,} nodes, numbers the nodes of each as well")


def scikit_network(graph: rae.Graph, nodes: Any, fanout: int) -> Sampler:
    import scipy.sparse as sp

    import_extra_packages()
    from sknetwork.gnn.neighbor_sampler import UniformNeighborSampler

    adjacency = sp.csr_matrix(graph.to_scipy(np.int8))
    sampler = UniformNeighborSampler(fanout)
    return Sampler(lambda: sampler(adjacency), lambda result: result.nonzero())


def csrgraph(graph: rae.Graph, nodes: Any, fanout: int) -> Sampler:
    import scipy.sparse as sp

    import_extra_packages()
    import csrgraph

    walker = csrgraph.csrgraph(sp.csr_matrix(graph.to_scipy(np.float32)), threads=1)
    walk = partial(walker.random_walks, walklen=2, epochs=fanout, start_nodes=nodes)
    return Sampler(walk, lambda result: (result[:, 0], result[:, 1]), replacement=True, note="walks of one step")


WAYS: dict[str, Make] = {
    "rae": ours,
    "numba, redraw what was drawn": numba_loop,
    "NumPy, sorted by random keys": numpy_sorted,
    "DGL sample_neighbors": dgl,
    "torch-sparse neighbor_sample": torch_sparse,
    "PyG NeighborLoader": pyg_loader,
    "scikit-network UniformNeighborSampler": scikit_network,
    "NumPy, with replacement": numpy_replaced,
    "PyTorch, with replacement": torch_replaced,
    "csrgraph random_walks, with replacement": csrgraph,
}
# Considered and not run, with the reason.
NOT_RUN = {
    "pyg-lib": "pip finds no distribution; its wheels lie on an index of their own",
    "DGL 2 GraphBolt": "its newest release on PyPI, 2.1, has libraries for torch 2.0 to 2.2 alone and does not import",
    "igraph, NetworKit": "draw one neighbour or one walk a call, none for many nodes at once",
    "graph-tool": "pip finds no distribution",
}


def samplers(graph: rae.Graph, nodes: Any, fanout: int) -> Iterator[tuple[str, Sampler | str]]:
    """Each way, or why it is not installed."""
    for name, make in WAYS.items():
        try:
            yield name, make(graph, nodes, fanout)
        except (ImportError, OSError) as error:
            yield name, f"not installed: {str(error).splitlines()[0]}"


def check_sample(sampler: Sampler, result: Any, graph: rae.Graph, nodes: Any, fanout: int) -> None:
    """Raise an error for pairs that are no edges, nodes with too few neighbours, or the same neighbour twice."""
    egos, neighbors = (np.asarray(part, np.int64) for part in sampler.pairs(result))
    edges = np.repeat(np.arange(graph.n_nodes), graph.degrees) * graph.n_nodes + graph.targets
    drawn = egos * graph.n_nodes + neighbors
    assert np.isin(drawn, edges).all(), "drew a pair that is no edge"
    expected = np.zeros(graph.n_nodes, np.int64)
    expected[nodes] = fanout if sampler.replacement else np.minimum(graph.degrees[nodes], fanout)
    assert (np.bincount(egos, minlength=graph.n_nodes) == expected).all(), "drew too few or too many"
    assert sampler.replacement or len(np.unique(drawn)) == len(drawn), "drew a neighbour twice"
