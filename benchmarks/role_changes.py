"""How many nodes change role when a share of the edges does: the noise below which a change of role says nothing.

    RAE_DATA=... python benchmarks/role_changes.py [--quick]

A model and its roles are fitted once. Then 1, 5 and 10 % of the edges are replaced by random ones, the graph is
embedded with the same model, and nodes whose role is another are counted: of all nodes, and of those whose confidence
was over 0.9. "drawn anew" is another random graph with as many edges, in which nothing of the first one is left.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from recording import parser, record

import rae

TABLE = "role-changes"
SHARES = (0.01, 0.05, 0.1)
NAMES = ("stdlib", "europe", "usa", "facebook348", "cora", "ca-AstroPh")
WITH_FEATURES = ("stdlib", "cora")


def random_graph(nodes: int, edges: int, seed: int) -> rae.Graph:
    """A random graph without any structure."""
    return rae.Graph.from_edges(np.random.default_rng(seed).integers(0, nodes, (edges, 2)), ids=np.arange(nodes))


def with_replaced_edges(graph: rae.Graph, share: float, seed: int) -> rae.Graph:
    """The same nodes, and this share of the edges replaced by random ones."""
    draw, edges, n = np.random.default_rng(seed), graph.edges(), graph.n_nodes
    gone = draw.random(len(edges)) < share
    new = np.concatenate([edges[~gone], draw.integers(0, n, (int(gone.sum()), 2))])
    return rae.Graph.from_edges(new, ids=np.arange(n))


def cases(names: tuple[str, ...]) -> Iterator[tuple[str, rae.Graph, Any]]:
    """Name, graph and features of what is tried."""
    yield "random graph", random_graph(2000, 8000, 0), None
    for name in names:
        data = rae.datasets.load(name)
        yield f"{name}, structure", data.graph, None
        if name in WITH_FEATURES:
            yield f"{name}, with features", data.graph, data.features


def measure(options: Any, name: str, graph: rae.Graph, features: Any) -> None:
    """Record the nodes that change role, for every share."""
    model = rae.RAE()
    z = model.fit_transform(graph, features=features)
    roles = rae.Roles().fit(z, blocks=model.blocks)
    before = roles.assign(z)
    sure = before.confidence > 0.9
    changed = {f"{share:.0%} replaced": with_replaced_edges(graph, share, 1) for share in SHARES}
    if features is None:
        changed["drawn anew"] = random_graph(graph.n_nodes, graph.n_edges, 2)
    for row, other in changed.items():
        moved = before.labels != roles.assign(model.transform(other, features, whole=True)).labels
        record(
            *(options.results, TABLE, name, row, {}),
            nodes=graph.n_nodes,
            roles=roles.n_roles,
            changed=round(float(moved.mean()), 4),
            sure=round(float(sure.mean()), 4),
            changed_of_sure=round(float(moved[sure].mean()), 4) if sure.any() else None,
        )


def main() -> None:
    options = parser(__doc__, "the standard library alone").parse_args()
    warnings.simplefilter("ignore", rae.errors.RaeWarning)
    for name, graph, features in cases(("stdlib",) if options.quick else NAMES):
        measure(options, name, graph, features)


if __name__ == "__main__":
    main()
