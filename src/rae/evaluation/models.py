"""The model of a row, its blocks, and the vectors as distances and as readers take them."""

from __future__ import annotations

from typing import Any

import numpy as np

from rae.blocks import weighted
from rae.estimator import RAE
from rae.evaluation.table_spec import Effort, Row

Array = np.ndarray[Any, Any]


def fitted(row: Row, seed: int, effort: Effort, graph: Any, features: Any = None) -> Any:
    """The model of this row, fitted."""
    return RAE(row.config(seed, effort), device=effort.device).fit(graph, features=features)


def chosen(row: Row, model: Any, z: Array) -> Array:
    """The columns that this row gives to a reader: the block it names, else all."""
    if "block" not in row.settings:
        return z
    block = next(b for b in model.blocks if b.name == row.settings["block"])
    return z[:, block.start : block.stop]


def for_distances(row: Row, model: Any, z: Array) -> Array:
    """The vectors as distances take them: blocks by their weights, or the block that this row names."""
    return chosen(row, model, z) if "block" in row.settings else weighted(z, model.blocks)
