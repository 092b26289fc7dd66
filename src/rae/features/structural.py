"""X_s, the paper's structural features: own degree and the degrees of the neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np

from rae.config import Config
from rae.errors import Argument, ConfigError, GraphError
from rae.graph import Graph
from rae.ops.structure import neighbor_degrees
from rae.runtime import key

DEFAULT = Config()


def structural_width(config: Config, alone: bool) -> int:
    """Columns of the structural features that a model reads: of structure alone, or where its settings add them."""
    return 1 + config.degree_cap if alone or config.add_structure else 0


def structural_features(
    graph: Graph,
    *,
    cap: int = DEFAULT.degree_cap,
    above_cap: str = DEFAULT.degree_above_cap,
    scale: str = DEFAULT.degree_scale,
    seed: int = DEFAULT.seed,
    rows: Any = None,
) -> np.ndarray[Any, np.dtype[np.float32]]:
    """X_s: own degree, then the neighbours' degrees, largest first, zero-padded.  -> (n, 1 + cap)

    Above the cap, `above_cap="even"` takes evenly spaced order statistics, so equal positions get
    equal features; `"random"` samples neighbours, as the paper does. `scale="log"` gives
    log(1 + degree), `"raw"` the degrees. Defaults are Config's. `rows` = (a, b), or an array of row
    numbers, gives those rows alone. In an ego graph only rows that are two edges or more from its cut have any, and
    none where neighbours are drawn, by row number.

    >>> structural_features(Graph.from_edges([(0, 1), (1, 2)]), cap=2, scale="raw").tolist()
    [[1.0, 2.0, 0.0], [2.0, 1.0, 1.0], [1.0, 2.0, 0.0]]
    """
    chosen = (0, graph.n_nodes) if rows is None else rows
    if isinstance(chosen, tuple):
        graph.checked_rows([chosen[0], max(chosen[0], chosen[1] - 1)] if chosen[0] != chosen[1] else [])
    else:
        chosen = graph.checked_rows(chosen)
    if cap < 1 or above_cap not in ("even", "random"):
        raise ConfigError(f"cap must be 1 or more and above_cap 'even' or 'random', got {cap} and {above_cap!r}")
    sample, salt = above_cap == "random", key(seed, "degrees")
    _refuse_cut(graph, chosen, sample)
    out = neighbor_degrees(graph.offsets, graph.targets, chosen, cap, sample=sample, key=salt)
    return np.log1p(out, out=out) if scale == "log" else out


def _refuse_cut(graph: Graph, rows: Any, sample: bool) -> None:
    """Refuse rows of an ego graph whose degree, or that of a neighbour, is another one than in the whole graph."""
    if graph.reach is None:
        return
    reach = graph.reach[slice(*rows) if isinstance(rows, tuple) else rows]
    if sample:
        raise GraphError("neighbours are drawn by row number, which a part of a graph does not have; pass the whole")
    if len(reach) and int(reach.min()) < 2:
        raise GraphError(
            f"degrees of neighbours lie two edges away, and {int((reach < 2).sum()):,} of {len(reach):,} rows of this "
            "part of a graph are nearer to the cut; pass ",
            *(Argument("rows", ...), " with those inside, or the whole graph"),
        )
