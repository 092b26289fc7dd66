"""Fitted models as the engine runs them."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import torch

from rae.config import Config, ExactConfig, Settings
from rae.engine.exact_levels import PLAIN, action_model, structure_models
from rae.engine.levels import Model, encoder_models
from rae.errors import FeatureError
from rae.features import Features
from rae.graph import Graph
from rae.model.actions import AXES, Actions
from rae.model.channels import conform, mixed_channels, n_measures
from rae.model.checkpoint import Fitted, losses
from rae.model.encoder import Encoder
from rae.model.exact import ExactModel
from rae.model.structure import Structure, measured
from rae.runtime import device

T = TypeVar("T", Actions, Structure)


def models_of(
    fitted: Fitted, graph: Graph, features: Any = None, *, check: bool = True, own: Any = None
) -> dict[str, Model]:
    """The models that embed a graph with these features, by name, in the order of their columns.

    Without `check`, dense features are not searched for NaN in advance, but where they are read. `own` are the measures
    of this graph where they are computed already, for a model that is in its units.
    """
    if isinstance(fitted, ExactModel):
        return _exact_models(fitted, graph, features, check=check, own=own)
    encoders = fitted.encoders
    if device() != "cpu":
        encoders = {name: copy.deepcopy(encoder).to(device()) for name, encoder in encoders.items()}
    return encoder_models(encoders, Features.of(graph, features, fitted.config, check=check))


def _placed(fitted: T) -> T:
    """A fitted model, on the device in force."""
    if device() == "cpu":
        return fitted
    tensors: dict[str, Any] = fitted.tensors()
    return replace(fitted, **{name: tensor.to(device()) for name, tensor in tensors.items()})


def _exact_models(fitted: ExactModel, graph: Graph, given_features: Any, *, check: bool, own: Any) -> dict[str, Model]:
    models: dict[str, Model] = {}
    graph = conform(graph, fitted.channels, fitted.weighted)
    if fitted.actions is not None:
        features = Features.of(graph, given_features, PLAIN, check=check)
        if features.given_width != fitted.n_features:
            raise FeatureError(
                f"the model was fitted on {fitted.n_features:,} feature columns, got {features.given_width:,}"
            )
        models["actions"] = action_model(_placed(fitted.actions), fitted.config, features)
    if fitted.structure is not None:
        structure = fitted.structure
        if own is None:
            own, structure = measured(graph, structure, fitted.config)
        models |= structure_models(_placed(structure), fitted.config, graph, own, fitted.structure_scale)
    return models


def blank_models(config: Settings, graph: Graph, given_features: Any = None) -> dict[str, Model]:
    """Models of the right shapes without a fit, for plans: nothing is computed that grows with the graph."""
    if isinstance(config, Config):
        x = Features.of(graph, given_features, config, check=False)
        return encoder_models({loss: Encoder(x.width, config) for loss in losses(config)}, x)
    assert isinstance(config, ExactConfig)
    models: dict[str, Model] = {}
    if given_features is not None:
        features = Features.of(graph, given_features, PLAIN, check=False)
        groups = len(mixed_channels(tuple(graph.channels), graph.weighted, config.mix))
        m, zeros = features.given_width, torch.zeros(features.given_width, dtype=torch.float64)
        blank = Actions.blank(
            zeros,
            zeros,
            not features.is_dense and not features.categories,
            min(config.n_block_columns(graph.n_nodes), m),
            min(AXES // groups, m),
            groups,
        )
        models["actions"] = action_model(blank, config, features)
    if given_features is None or config.structure:
        channels, weighted = tuple(graph.channels), graph.weighted
        own = np.broadcast_to(np.float32(0), (graph.n_nodes, n_measures(channels, weighted)))
        count = config.n_frequencies(graph.n_nodes, beside_features=given_features is not None)
        structure = Structure.blank(config, count, channels=channels, weighted=weighted)
        models |= structure_models(structure, config, graph, own)
    return models
