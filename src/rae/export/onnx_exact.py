"""The exact model as ONNX graphs: `rows-1`, what neighbours average, and the vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from rae.config import MEASURES
from rae.export.onnx_graph import GraphBuilder
from rae.model.actions import HOPS, Actions, far_weights
from rae.model.channels import measure_names, mixed_channels, n_averaged
from rae.model.exact import ExactModel
from rae.model.structure import WAVE_LEVELS, Structure, moments_read, weights_of_measures

ALL = "all neighbours alike"


def exact_graphs(model: ExactModel) -> dict[str, GraphBuilder]:
    """The graphs of an exact model by the name of their file, "" for the one that gives vectors."""
    rows = GraphBuilder("rows-1", "what a node has itself -> the rows that are averaged over neighbours")
    vectors = GraphBuilder("vectors", "what a node has itself, and means over neighbours -> its vector")
    parts = []
    if model.actions is not None:
        _direction_rows(rows, model.actions)
        parts += _action_blocks(vectors, model)
    if model.structure is not None:
        _structure_rows(rows, model)
        parts += [_place(vectors, model, model.structure), _around(vectors, model, model.structure)]
    named = ", ".join(f"{block.name} {block.start}..{block.stop - 1}" for block in model.blocks)
    vectors.output("vector", vectors.side_by_side(parts), model.width, f"the vector of a node; columns: {named}")
    return {"rows-1": rows, "": vectors}


# ----------------------------------------------------------------------------- structure


def _names(model: ExactModel) -> list[str]:
    return [*MEASURES, *measure_names(model.channels, model.weighted)]


def _structure_rows(graph: GraphBuilder, model: ExactModel) -> None:
    """counts -> measures in units, and their waves."""
    fitted, names = model.structure, _names(model)
    assert fitted is not None
    more = "; strengths in units of the graph of the fit, see its metadata" if model.weighted else ""
    counts = graph.input("counts", len(names), f"of each node: {', '.join(names)}{more}")
    mean = graph.default(
        "unit_mean", fitted.mean, "mean of log(1 + counts) over the graph; that of the fit if left out"
    )
    deviation = graph.default(
        "unit_deviation", fitted.deviation, "their deviation, at least 0.1; that of the fit if left out"
    )
    logs = graph.op("Log", graph.op("Add", counts, graph.constant([1.0])))
    measures = graph.op("Div", graph.op("Sub", logs, mean), deviation)
    graph.output(
        "measures", measures, len(names), "the counts in units: what `measures`, mean_* and deviation_* are of"
    )
    waves = _waves(graph, measures, fitted, n_averaged(model.channels, model.weighted))
    graph.output("waves", waves, 2 * fitted.n_frequencies, "cosines, then sines: what waves_* are means of")


def _waves(graph: GraphBuilder, measures: str, fitted: Structure, averaged: int) -> str:
    first = graph.columns(measures, np.arange(averaged))
    angles = graph.op(
        "Add", graph.op("MatMul", first, graph.constant(fitted.frequencies)), graph.constant(fitted.phases)
    )
    return graph.side_by_side([graph.op("Cos", angles), graph.op("Sin", angles)])


def _place(graph: GraphBuilder, model: ExactModel, fitted: Structure) -> str:
    names, averaged = _names(model), n_averaged(model.channels, model.weighted)
    weights = np.array(weights_of_measures(model.config, len(names)))
    parts = [graph.input("measures", len(names), f"of each node, as rows-1 gives them: {', '.join(names)}")]
    factors, read = [weights], f"of {', '.join(names[:averaged])}"
    for part in moments_read(model.config, model.channels, model.weighted):
        suffix, along = f"{part.level}", ALL
        if part.channels:
            suffix = f"{part.level}_channel_{1 + model.channels.index(part.channels[0])}"
            along = f"along the channel {part.channels[0]}, by its weights"
        below = "measures" if part.level == 1 else f"mean_{part.level - 1}"
        if part.is_spread:
            name, about = f"deviation_{suffix}", f"their standard deviations over N(u), {along}; 0 without any"
        else:
            name, about = f"mean_{suffix}", f"means of {below} over N(u), {along}; 0 without any; {read}"
        parts.append(graph.input(name, averaged, about))
        factors.append(part.weight * weights[:averaged])
    phi = graph.op("Mul", graph.side_by_side(parts), graph.constant(np.concatenate(factors)))
    center = graph.default(
        "center", fitted.center, "mean of φ over the graph (docs: how `place` is made); that of the fit if left out"
    )
    directions = graph.constant(fitted.directions * model.structure_scale)
    return graph.op("MatMul", graph.op("Sub", phi, center), directions)


def _around(graph: GraphBuilder, model: ExactModel, fitted: Structure) -> str:
    f = fitted.n_frequencies
    own = _waves(graph, "measures", fitted, n_averaged(model.channels, model.weighted))
    hops = [
        graph.input(
            f"waves_{k}", 2 * f, f"means of {f'waves_{k - 1}' if k > 1 else 'waves'} over N(u), {ALL}; 0 without any"
        )
        for k in range(1, WAVE_LEVELS + 1)
    ]
    near = np.arange(2 * f).reshape(2, f)[:, : f // 2].ravel()
    parts = [graph.columns(own, near), graph.columns(hops[0], near), *hops[1:]]
    factor = fitted.around_factor(model.config, model.structure_scale)
    return graph.op("Mul", graph.side_by_side(parts), graph.constant([factor]))


# ----------------------------------------------------------------------------- actions


def _prepared(graph: GraphBuilder, fitted: Actions) -> str:
    x = graph.input("features", len(fitted.scale), "of each node, as they were given for the fit, in its order")
    if not fitted.words:  # in double precision, since a mean may be far larger than its deviation
        double, single = 11, 1
        away = graph.op("Sub", graph.op("Cast", x, to=double), graph.constant(fitted.shift, np.float64))
        return graph.op("Cast", graph.op("Mul", away, graph.constant(fitted.scale, np.float64)), to=single)
    scaled = graph.op("Mul", x, graph.constant(fitted.scale))
    squares = graph.op("ReduceSum", graph.op("Mul", scaled, scaled), graph.constant([1], np.int64), keepdims=1)
    floored = graph.op("Max", squares, graph.constant([1e-24]))
    return graph.op("Div", scaled, graph.op("Sqrt", graph.op("Sqrt", floored)))


def _direction_rows(graph: GraphBuilder, fitted: Actions) -> None:
    """features -> directions, and a one, whose mean says who has neighbours."""
    rows = graph.op("MatMul", _prepared(graph, fitted), graph.constant(fitted.axes))
    one = graph.op("Add", graph.op("Mul", graph.columns(rows, [0]), graph.constant([0.0])), graph.constant([1.0]))
    width = fitted.axes.shape[1] + 1
    graph.output("directions", graph.side_by_side([rows, one]), width, "what directions_* are means of, the last a one")


def _action_blocks(graph: GraphBuilder, model: ExactModel) -> list[str]:
    fitted = model.actions
    assert fitted is not None
    groups = mixed_channels(model.channels, model.weighted, model.config.mix)
    a = fitted.axes.shape[1]
    along = "; side by side ".join(f"by the weights of {' + '.join(group)}" if group else ALL for group in groups)
    hops = [
        graph.input(
            f"directions_{k}",
            len(groups) * (a + 1),
            f"means of {f'directions_{k - 1}' if k > 1 else 'directions'} over N(u), {along}; 0 without any",
        )
        for k in range(1, HOPS + 1)
    ]
    weighted = [graph.op("Mul", hop, graph.constant([weight])) for hop, weight in zip(hops, far_weights(), strict=True)]
    far = graph.op("Sum", *weighted)
    own = graph.op("MatMul", _prepared(graph, fitted), graph.constant(fitted.own_axes))
    blocks = [graph.op("Sub", own, graph.constant(fitted.own_center))]
    for hop, center, axes in (
        (hops[0], fitted.near_center, fitted.near_map),
        (hops[1], fitted.mid_center, fitted.mid_map),
        (far, fitted.far_center, fitted.far_map),
    ):
        blocks.append(graph.op("MatMul", _centered(graph, hop, center.numpy(), len(groups), a), graph.constant(axes)))
    if not fitted.words:
        return blocks
    return [_one_length(graph, block, fitted, k) for k, block in enumerate(blocks)]


def _centered(graph: GraphBuilder, hop: str, center: Any, groups: int, a: int) -> str:
    """The directions of a hop less the center, which a node without neighbours is at."""
    columns = np.arange(groups * (a + 1)).reshape(groups, a + 1)
    centers = np.zeros((groups, groups * a))
    for g in range(groups):
        centers[g, g * a : (g + 1) * a] = center[g * a : (g + 1) * a]
    at_center = graph.op("MatMul", graph.columns(hop, columns[:, -1]), graph.constant(centers))
    return graph.op("Sub", graph.columns(hop, columns[:, :-1].ravel()), at_center)


def _one_length(graph: GraphBuilder, block: str, fitted: Actions, k: int) -> str:
    """A block of words scaled to one length, then centred; a row at the center stays there."""
    length = graph.op("ReduceL2", block, axes=[1], keepdims=1)
    unit = graph.op("Div", block, graph.op("Max", length, graph.constant([1e-12])))
    moved = graph.op("Sub", unit, graph.constant(fitted.unit_centers[k]))
    scaled = graph.op("Mul", moved, graph.constant([float(fitted.unit_scales[k])]))
    return graph.op("Where", graph.op("Greater", length, graph.constant([0.0])), scaled, block)
