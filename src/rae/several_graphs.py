"""Several graphs, each with its features, side by side as one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from rae.errors import FeatureError, GraphError
from rae.features import FeatureTable
from rae.graph import Graph
from rae.graph.frames import is_frame


def graphs_in(graph: Any) -> Sequence[Graph]:
    """The graphs that were given: several, or one."""
    return graph if isinstance(graph, (list, tuple)) else (graph,)


def joined(graph: Any, features: Any) -> tuple[Graph, Any]:
    """One graph and its features, or several of them side by side as one."""
    if isinstance(graph, (list, tuple)):
        check_many(graph, features)
        return Graph.disjoint_union(graph), None if features is None else _stacked(graph, features)
    if not isinstance(graph, Graph):
        raise GraphError(f"expected a rae.Graph, got {type(graph).__name__}; make one with {_way_to_a_graph(graph)}")
    return graph, features


def column_names(features: Any) -> tuple[str, ...] | None:
    """The names of a table's columns, or of several tables' columns together, where they have names."""
    if isinstance(features, FeatureTable):
        return features.names
    tables = [t for t in features if isinstance(t, FeatureTable)] if isinstance(features, (list, tuple)) else []
    if not tables or any(t.names is None for t in tables):
        return None
    if any(t.open_vocabulary or t.categories for t in tables):
        return tuple(sorted({name for t in tables for name in t.names or ()}))
    return tables[0].names


def encoded_columns(features: Any) -> frozenset[str]:
    """The columns of several tables that became one feature per value."""
    tables = features if isinstance(features, (list, tuple)) else ()
    return frozenset(c for table in tables if isinstance(table, FeatureTable) for c in table.categories)


def with_columns(features: Any, names: Sequence[str] | None) -> Any:
    """Tables with their columns in this order; what has no names stays as it is."""
    if names is not None and isinstance(features, FeatureTable):
        return features.with_columns(names)
    if names is not None and isinstance(features, (list, tuple)):
        return [with_columns(f, names) for f in features]
    return features


def _way_to_a_graph(thing: Any) -> str:
    """The function of `Graph` that takes such a thing."""
    if isinstance(thing, (str, os.PathLike)):
        return "rae.read_edges"
    kind = type(thing).__module__.partition(".")[0]
    method_of_library = {"networkx": "networkx", "scipy": "scipy", "torch_geometric": "pyg"}
    return f"rae.Graph.from_{'dataframe' if is_frame(thing) else method_of_library.get(kind, 'edges')}"


def check_many(graphs: Sequence[Any], features: Any) -> None:
    """Refuse what are no graphs, or features that are not one matrix or table per graph."""
    if not graphs or not all(isinstance(g, Graph) for g in graphs):
        raise GraphError("expected one or more rae.Graph, got " + (type(graphs[0]).__name__ if graphs else "none"))
    if features is not None and not isinstance(features, (list, tuple)):
        raise FeatureError(f"features must be a list with one matrix or table per graph, got {type(features).__name__}")
    if features is not None and len(features) != len(graphs):
        raise FeatureError(f"features must have one matrix per graph ({len(graphs):,}), got {len(features):,}")


def _stacked(graphs: Sequence[Graph], features: Sequence[Any]) -> Any:
    """The features of all graphs in one matrix."""
    parts: list[Any] = [
        f.aligned(g) if isinstance(f, FeatureTable) else f for g, f in zip(graphs, features, strict=True)
    ]
    for graph, part in zip(graphs, parts, strict=True):
        if part.shape[0] != graph.n_nodes:
            raise FeatureError(f"features must have one row per node ({graph.n_nodes:,}), got {part.shape[0]:,}")
    if not any(map(sp.issparse, parts)):
        return np.concatenate(parts)
    return sp.csr_array(sp.vstack([sp.csr_array(part, dtype=np.float32) for part in parts]))
