"""A trained encoder as ONNX graphs: the rows that each level averages, and the vectors."""

from __future__ import annotations

from rae.errors import RaeError
from rae.export.onnx_graph import GraphBuilder
from rae.model.checkpoint import Checkpoint
from rae.model.encoder import Encoder, Layer, Level

_ACTIVATIONS = {"tanh": "Tanh", "relu": "Relu", "elu": "Elu", "leaky_relu": "LeakyRelu"}
OVER = "over {u} ∪ N(u)"


def trained_graphs(model: Checkpoint) -> dict[str, GraphBuilder]:
    """The graphs of a trained model by the name of their file, "" for the one that gives vectors.

    rows-k gives what level k averages; where the features themselves are averaged there is no rows-1.
    """
    if model.config.inference == "sampled":
        raise RaeError(
            "ONNX reads means over all neighbours, and this model was fitted with inference='sampled', which draws "
            "some of them; fit it with the default of that setting"
        )
    encoders = {f"{loss}_" if len(model.encoders) > 1 else "": e for loss, e in model.encoders.items()}
    first = 1 if model.config.order == "project_first" else 2
    graphs: dict[str, GraphBuilder] = {}
    for k in range(first, model.config.depth + 1):
        graph = GraphBuilder(f"rows-{k}", f"the rows that level {k} averages over neighbourhoods")
        for prefix, encoder in encoders.items():
            level = encoder.stack()[k - 1]
            below = _read(graph, model) if k == 1 else _level(graph, model, encoder, prefix, k - 1)
            rows = _layer(graph, level.aggregate, below) if level.order == "project_first" else below
            width = level.widths[1 if level.order == "project_first" else 0]
            graph.output(f"{prefix}rows_{k}", rows, width, f"what {prefix}mean_{k} are means of")
        graphs[f"rows-{k}"] = graph
    vectors = GraphBuilder("vectors", "means over neighbourhoods, level by level -> the vector of a node")
    parts = [
        _level(vectors, model, encoder, prefix, k)
        for prefix, encoder in encoders.items()
        for k in range(encoder.depth, 0, -1)
    ]
    vectors.output("vector", vectors.side_by_side(parts), model.width, "the vector of a node: the last level first")
    return {**graphs, "": vectors}


def _read(graph: GraphBuilder, model: Checkpoint) -> str:
    return graph.input("features", model.n_features, f"of each node: {_columns(model)}")


def _columns(model: Checkpoint) -> str:
    features = "the features of the fit, in its order"
    own = f"own degree, then {model.config.degree_cap} degrees of neighbours ({model.config.degree_scale})"
    if model.structural:
        return own
    return f"{own}, then {features}" if model.config.add_structure else features


def _level(graph: GraphBuilder, model: Checkpoint, encoder: Encoder, prefix: str, k: int) -> str:
    """h^k, from the means of level k."""
    level: Level = encoder.stack()[k - 1]
    if level.order == "project_first":
        h = graph.input(f"{prefix}mean_{k}", level.widths[1], f"means of {prefix}rows_{k} {OVER}")
    else:
        name = "mean_1" if k == 1 else f"{prefix}mean_{k}"  # encoders of several losses read the same features
        of = f"the features ({_columns(model)})" if k == 1 else f"{prefix}rows_{k}"
        h = _layer(graph, level.aggregate, graph.input(name, level.widths[0], f"means of {of} {OVER}"))
    return h if level.update is None else _layer(graph, level.update, h)


def _layer(graph: GraphBuilder, layer: Layer, rows: str) -> str:
    """σ(BatchNorm(rows W)), with the statistics of the fit."""
    gain, shift = layer.norm_factors()
    h = graph.op("MatMul", rows, graph.constant(layer.weight.detach().numpy()))
    h = graph.op("Add", graph.op("Mul", h, graph.constant(gain)), graph.constant(shift))
    return graph.op(_ACTIVATIONS[layer.activation], h)
