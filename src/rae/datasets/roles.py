"""Graphs whose true roles are known: house, barbell, and planted roles of any size.

House and barbell are labelled with their automorphism classes: two nodes have one role when a
symmetry of the graph moves one onto the other. Colour refinement finds these classes, exactly on
graphs like these (cycles and paths that carry small distinct shapes). Planted shapes are at random
sites, so the whole graph has no symmetry; there a node's role is its position in its shape. Noise adds
random edges and does not change the labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rae.datasets.dataset import Dataset
from rae.datasets.options import fraction, whole_number
from rae.errors import ConfigError
from rae.graph import Graph
from rae.runtime import generator

Ints = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Shape:
    """A small graph whose node 0 is joined to a node of the cycle."""

    edges: Ints  # (e, 2)
    roles: tuple[str, ...]  # one per node


def _complete(first: int, size: int) -> Ints:
    return np.stack(np.triu_indices(size, 1), 1) + first


# The house stands with one corner on the cycle, so left and right differ: near is the side that touches it.
HOUSE = Shape(
    np.array([(0, 1), (1, 2), (2, 3), (3, 0), (2, 4), (3, 4)]),
    ("near corner", "far corner", "far wall", "near wall", "roof"),
)
STAR = Shape(np.array([(0, leaf) for leaf in range(1, 6)]), ("star hub", *["star leaf"] * 5))
FAN = Shape(
    np.array([(0, leaf) for leaf in range(1, 6)] + [(leaf, leaf + 1) for leaf in range(1, 5)]),
    ("fan hub", "fan edge", "fan inside", "fan middle", "fan inside", "fan edge"),
)
CLIQUE = Shape(_complete(0, 5), ("clique door", *["clique"] * 4))
SHAPES = {"house": HOUSE, "star": STAR, "fan": FAN, "clique": CLIQUE}


def house(*, cycle: int = 30, shapes: int = 10, noise: float = 0.0, seed: int = 0) -> Dataset:
    """A cycle with houses at regular distances: 7 roles in 80 nodes by default.

    Each house is a square with a roof, joined by one corner to its node of the cycle.
    """
    cycle, shapes = whole_number("cycle", cycle, 3), whole_number("shapes", shapes, 1)
    if shapes > cycle:
        raise ConfigError(f"shapes must be at most one per node of the cycle ({cycle:,}), got {shapes:,}")
    sites = np.arange(shapes) * cycle // shapes
    edges = np.concatenate([_ring(cycle), _attach(HOUSE, sites, cycle)])
    step = np.abs(np.arange(cycle)[:, None] - sites)
    distance = np.minimum(step, cycle - step).min(1)
    names = [f"cycle, {d} from a house" for d in distance.tolist()] + list(HOUSE.roles) * shapes
    return _labelled_by_symmetry("house", edges, names, noise, seed)


def barbell(*, clique: int = 10, path: int = 10, noise: float = 0.0, seed: int = 0) -> Dataset:
    """Two complete graphs joined by a path: 7 roles in 30 nodes by default, as in struc2vec."""
    clique, path = whole_number("clique", clique, 3), whole_number("path", path, 0)
    n = 2 * clique + path
    line = np.arange(clique - 1, clique + path + 1)
    edges = np.concatenate([_complete(0, clique), np.stack([line[:-1], line[1:]], 1), _complete(clique + path, clique)])
    names = np.full(n, "clique", dtype=object)
    names[[clique - 1, clique + path]] = "clique, on the path"
    inside = np.arange(path)
    names[clique : clique + path] = [f"path, {d} from a clique" for d in 1 + np.minimum(inside, path - 1 - inside)]
    return _labelled_by_symmetry("barbell", edges, list(names), noise, seed)


def planted_roles(*, n_nodes: int = 1000, noise: float = 0.0, seed: int = 0) -> Dataset:
    """A cycle with houses, stars, fans and cliques at random sites, one shape for every ten nodes."""
    n = whole_number("n_nodes", n_nodes, 30)
    rng = generator(whole_number("seed", seed, 0), "datasets", "planted-roles")
    kinds = rng.integers(len(SHAPES), size=n // 10)
    cycle = n - int(np.array([len(s.roles) for s in SHAPES.values()])[kinds].sum())
    sites = rng.choice(cycle, size=len(kinds), replace=False)

    label_names = ["cycle"]
    edges, labels, first = [_ring(cycle)], [np.zeros(cycle, np.int64)], cycle
    for kind, (name, shape) in enumerate(SHAPES.items()):
        own_sites = sites[kinds == kind]
        label_names.append(f"cycle, at a {name}")
        labels[0][own_sites] = len(label_names) - 1
        roles = list(dict.fromkeys(shape.roles))
        labels.append(np.tile([len(label_names) + roles.index(r) for r in shape.roles], len(own_sites)))
        label_names.extend(roles)
        edges.append(_attach(shape, own_sites, first))
        first += len(own_sites) * len(shape.roles)
    graph = _with_noise("planted-roles", np.concatenate(edges), n, noise, seed)
    return Dataset("planted-roles", graph, labels=np.concatenate(labels), label_names=tuple(label_names))


# ------------------------------------------------------------------------------------ parts


def _ring(n: int) -> Ints:
    return np.stack([np.arange(n), (np.arange(n) + 1) % n], 1)


def _attach(shape: Shape, sites: Ints, first: int) -> Ints:
    """The edges of one copy of the shape per site; the new nodes are numbered from `first` on."""
    starts = first + np.arange(len(sites)) * len(shape.roles)
    inside = (starts[:, None, None] + shape.edges).reshape(-1, 2)
    return np.concatenate([inside, np.stack([sites, starts], 1)])


def _labelled_by_symmetry(name: str, edges: Ints, names: list[str], noise: float, seed: int) -> Dataset:
    """The graph with its automorphism classes as labels, each named after its first node."""
    labels = refine(Graph.from_edges(edges, ids=np.arange(len(names))))
    firsts = [names[i] for i in np.unique(labels, return_index=True)[1]]
    label_names = tuple(
        f if firsts.count(f) == 1 else f"{f} ({firsts[: i + 1].count(f)})" for i, f in enumerate(firsts)
    )
    return Dataset(name, _with_noise(name, edges, len(names), noise, seed), labels=labels, label_names=label_names)


def refine(graph: Graph) -> Ints:
    """Colour refinement: the coarsest colours whose nodes have the same colours among their neighbours.  -> (n,)

    Colours are numbered in the order in which they first appear among the rows.
    """
    n = graph.n_nodes
    colors, count = np.zeros(n, np.int64), 1
    rows = np.repeat(np.arange(n), graph.degrees)
    width = int(graph.degrees.max(initial=0))
    column = np.arange(len(rows)) - np.repeat(graph.offsets[:-1], graph.degrees)
    while True:
        around = colors[graph.targets]
        order = np.lexsort((around, rows))
        signature = np.full((n, 1 + width), -1)
        signature[:, 0] = colors
        signature[rows, 1 + column] = around[order]
        _, first, colors = np.unique(signature, axis=0, return_index=True, return_inverse=True)
        colors = np.argsort(np.argsort(first))[colors.reshape(-1)]
        if len(first) == count:
            return colors.astype(np.int64)
        count = len(first)


def _with_noise(name: str, edges: Ints, n: int, noise: float, seed: int) -> Graph:
    """The graph of these edges and a share of random others that were not there."""
    extra = round(fraction("noise", noise, float("inf")) * len(edges))
    rng = generator(whole_number("seed", seed, 0), "datasets", name, "noise")
    existing = np.minimum(*edges.T) * n + np.maximum(*edges.T)
    free = n * (n - 1) // 2 - len(existing)
    if extra > free // 2:
        raise ConfigError(
            f"noise={noise} asks for {extra:,} more edges where {free:,} have room; ask for half of that or less"
        )
    added = np.empty(0, np.int64)
    while len(added) < extra:
        ends = np.sort(rng.integers(n, size=(2 * extra, 2)), axis=1)
        codes = ends[ends[:, 0] < ends[:, 1]] @ np.array([n, 1])
        added = np.concatenate([added, codes[~np.isin(codes, existing)]])
        added = added[np.sort(np.unique(added, return_index=True)[1])][:extra]
    noisy = np.concatenate([edges, np.stack(np.divmod(added, n), 1)])
    return Graph.from_edges(noisy, ids=np.arange(n))
