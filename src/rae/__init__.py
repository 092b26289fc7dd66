"""Role action embeddings: which nodes of a graph play the same role?

>>> import rae
>>> graph = rae.Graph.from_edges([("ann", "bob"), ("bob", "cid")])
>>> rae.RAE(steps=0).fit_transform(graph).shape
(3, 256)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from rae.version import __version__ as __version__

if TYPE_CHECKING:
    from rae import datasets, errors
    from rae.config import ACTIONS, PAPER, TOY, Config, ExactConfig
    from rae.estimator import RAE
    from rae.features import Features, FeatureTable, ego_graph, structural_features
    from rae.graph import Graph
    from rae.io import (
        open_graph,
        read_edges,
        read_embeddings,
        read_features,
        write_embeddings,
        write_graph,
    )
    from rae.model.encoder import Decoder, Encoder
    from rae.model.losses import agreement, contrast, telling
    from rae.model.pairs import any_other, non_neighbor, random_neighbor, same_node, walk_end
    from rae.model.sampling import exact_blocks, hide_neighbors, sample_blocks, shuffle_neighbors
    from rae.model.training import step_loss
    from rae.pipeline import build_graph, embed_file, fit_run
    from rae.roles import Roles
    from rae.run import Run
    from rae.runtime import key, set_threads
    from rae.search import similar

# Each public name and the module it is loaded from on first use: `import rae` stays light.
_HOMES = {
    "ACTIONS": "config",
    "Config": "config",
    "Decoder": "model.encoder",
    "Encoder": "model.encoder",
    "ExactConfig": "config",
    "Features": "features",
    "FeatureTable": "features",
    "Graph": "graph",
    "PAPER": "config",
    "RAE": "estimator",
    "Roles": "roles",
    "Run": "run",
    "TOY": "config",
    "agreement": "model.losses",
    "any_other": "model.pairs",
    "build_graph": "pipeline",
    "contrast": "model.losses",
    "ego_graph": "features",
    "exact_blocks": "model.sampling",
    "hide_neighbors": "model.sampling",
    "key": "runtime",
    "non_neighbor": "model.pairs",
    "embed_file": "pipeline",
    "fit_run": "pipeline",
    "open_graph": "io",
    "random_neighbor": "model.pairs",
    "same_node": "model.pairs",
    "read_edges": "io",
    "read_embeddings": "io",
    "read_features": "io",
    "sample_blocks": "model.sampling",
    "set_threads": "runtime",
    "shuffle_neighbors": "model.sampling",
    "similar": "search",
    "step_loss": "model.training",
    "structural_features": "features",
    "telling": "model.losses",
    "walk_end": "model.pairs",
    "write_embeddings": "io",
    "write_graph": "io",
}
_MODULES = ("datasets", "errors")

__all__ = [
    "ACTIONS",
    "PAPER",
    "RAE",
    "TOY",
    "Config",
    "Decoder",
    "Encoder",
    "ExactConfig",
    "FeatureTable",
    "Features",
    "Graph",
    "Roles",
    "Run",
    "agreement",
    "any_other",
    "build_graph",
    "contrast",
    "datasets",
    "ego_graph",
    "embed_file",
    "errors",
    "exact_blocks",
    "fit_run",
    "hide_neighbors",
    "key",
    "non_neighbor",
    "open_graph",
    "random_neighbor",
    "read_edges",
    "read_embeddings",
    "read_features",
    "same_node",
    "sample_blocks",
    "set_threads",
    "shuffle_neighbors",
    "similar",
    "step_loss",
    "structural_features",
    "telling",
    "walk_end",
    "write_embeddings",
    "write_graph",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"rae.{name}")
    if name in _HOMES:
        return getattr(importlib.import_module(f"rae.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'rae' has no attribute {name!r}; it has {', '.join(__all__)}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
