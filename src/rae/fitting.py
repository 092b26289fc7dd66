"""The two fits, with what they warn of: the exact model is solved, the paper's encoders are trained."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rae.config import Config, ExactConfig
from rae.engine import memory_bytes
from rae.engine.layout import PROGRAM
from rae.errors import CollapseWarning, ScaleWarning
from rae.features import Features, column_sizes
from rae.graph import Graph
from rae.model.actions import Actions, Passes, fit_actions
from rae.model.checkpoint import Checkpoint, losses
from rae.model.exact import ExactModel
from rae.model.structure import Structure, Versions, VersionsHere, fit_bytes, fit_structure
from rae.model.training import fit
from rae.progress import Progress
from rae.storage.scratch import scratch_array

if TYPE_CHECKING:
    from rae.engine.cluster import Cluster

log = logging.getLogger("rae.inputs")  # what the command line shows: notes on the inputs

UNEVEN = 100  # times the size of a typical feature column: one that is larger is warned of


def fit_trained(
    graph: Graph,
    features: Any,
    config: Config,
    names: Sequence[str] | None = None,
    progress: Progress | None = None,
    *,
    cluster: Cluster | None = None,
) -> Checkpoint:
    """The paper's model, trained: an encoder per loss; on a cluster, where there is one."""
    if graph.channels:
        log.info("the trained model reads who is connected with whom; weights, directions and kinds are left out")
    x = Features.of(graph, features, config, names)
    _warn_of_sizes(x)
    if cluster is None:
        fits = {loss: fit(graph, x, config, loss, progress) for loss in losses(config)}
    else:
        from rae.engine.cluster import train_on_cluster

        fits = train_on_cluster(graph, x, config, losses(config), cluster, progress)
    encoders = {loss: encoder for loss, (encoder, _) in fits.items()}
    history = [record.as_dict() for _, records in fits.values() for record in records]
    return Checkpoint(config, encoders, x.width, x.is_structural, x.names, history)


def fit_exact(
    graph: Graph,
    features: Any,
    config: ExactConfig,
    names: Sequence[str] | None = None,
    progress: Progress | None = None,
    *,
    categories: frozenset[str] = frozenset(),
    memory: int | str | None = None,
    scratch: str | os.PathLike[str] | None = None,
    cluster: Cluster | None = None,
) -> ExactModel:
    """J_within solved, for structure and for the features that are given.

    `categories` are columns of a table that became one feature per value, where `features` is no table; `memory` and
    `scratch` as in `RAE.fit`. What is read of all nodes is read by tasks on a cluster, where there is one.
    """
    x = None if features is None else Features.of(graph, features, Config(), names, categories=categories)
    if cluster is None:
        folder = None if scratch is None else Path(scratch)
        empty = np.empty if views_in_memory(graph, x, config, memory) else partial(scratch_array, folder=folder)
        actions, structure = _solve_parts(graph, x, config, progress, None, VersionsHere(graph, config, empty))
    else:
        from rae.engine.cluster import fit_on_cluster

        with fit_on_cluster(graph, x, config, cluster, memory, progress) as tasks:
            actions, structure = _solve_parts(graph, x, config, progress, tasks, tasks)
            if structure is not None:
                tasks.keep_own()
    names = None if x is None else x.names
    model = ExactModel(
        config,
        structure,
        actions,
        names,
        channels=tuple(graph.channels),
        weighted=bool(graph.channels) and graph.weighted,
    )
    if actions is not None:
        log.info(
            "features: %s", "words, rare ones count more" if actions.words else "each column in units of its deviation"
        )
    _warn_of_collapse(model)
    return model


def _solve_parts(
    graph: Graph,
    x: Features | None,
    config: ExactConfig,
    progress: Progress | None,
    passes: Passes | None,
    versions: Versions,
) -> tuple[Actions | None, Structure | None]:
    """Both parts of an exact model, as far as the settings and the features ask for them."""
    actions = None if x is None else fit_actions(x, config, progress, passes=passes)
    if x is not None and not config.structure:
        return actions, None
    return actions, fit_structure(graph, config, progress, beside_features=x is not None, versions=versions)


def views_in_memory(graph: Graph, x: Features | None, config: ExactConfig, memory: int | str | None) -> bool:
    """Whether a fit that keeps to so much memory has its noisy copies of the graph there, or in a file."""
    resident = graph.resident_bytes + (0 if x is None else x.resident_bytes)
    return memory is None or PROGRAM + resident + fit_bytes(graph, config) <= memory_bytes(memory)


def _warn_of_sizes(x: Features) -> None:
    """Warn where one feature column is far larger than the others, or none varies: training takes them as they are."""
    sizes = np.empty(0) if x.matrix is None else column_sizes(x.matrix)
    if x.matrix is not None and not sizes.any() and x.config.steps == 0:  # training says so itself
        warnings.warn(
            CollapseWarning(
                "no feature column varies: all nodes have the same features; leave them out or give others"
            ),
            stacklevel=4,
        )
    varying = np.flatnonzero(sizes)
    if len(varying) < 2:
        return
    largest = int(varying[sizes[varying].argmax()])
    typical = float(np.median(sizes[varying[varying != largest]]))
    if sizes[largest] > UNEVEN * typical:
        name = f"column {largest:,}" if x.names is None else repr(x.names[largest])
        warnings.warn(
            ScaleWarning(
                f"feature columns differ in size: {name} varies by {sizes[largest]:.3g}, others by {typical:.3g}, "
                "and a trained model takes them as they are, so that one outweighs the others; divide each column by "
                "its deviation, or fit the exact model, which does"
            ),
            stacklevel=4,
        )


def _warn_of_collapse(model: ExactModel) -> None:
    """Warn where vectors, or all columns of a kind, are the same for every node."""
    if model.actions is not None and model.actions.is_collapsed:
        warnings.warn(
            CollapseWarning(
                "no feature column varies, so every vector of the blocks 'own', 'near', 'mid' and 'far' is zero; "
                "leave the features out or give others"
            ),
            stacklevel=4,
        )
    if model.structure is not None and model.structure.is_collapsed:
        warnings.warn(
            CollapseWarning(
                "all nodes of the graph look alike (the same degree, triangles, core number and 4-cycles everywhere), "
                "so every vector of the block 'place' is zero"
            ),
            stacklevel=4,
        )
