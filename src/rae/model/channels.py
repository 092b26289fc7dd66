"""Weights, directions and kinds in a model: more measures of a node, and ways along which rows are averaged.

    measures   log1p of the edges out of and into a node, and of their strength: the sum of weights in units of the
               graph, the median strength of a kind, so that amounts in cents and in euros are the same; then by kind
    ways       neighbours are averaged over all edges alike, and along each channel by its weights

A graph without channels has none of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rae.config import MEASURES
from rae.errors import GraphError
from rae.features import measures
from rae.graph import Graph
from rae.graph.channels import BOTH, is_directed, kinds_of, split_name


class Way(NamedTuple):
    """Columns left..right of the rows that a level averages, and the channels along which: () is all edges alike.

    Of several channels the weights are added.
    """

    left: int
    right: int
    channels: tuple[str, ...] = ()


def in_directions(channels: Sequence[str]) -> list[tuple[str, ...]]:
    """The channels of each direction.

    >>> in_directions(["out:a", "in:a", "out:b", "in:b"])
    [('out:a', 'out:b'), ('in:a', 'in:b')]
    """
    directions = dict.fromkeys(split_name(name)[0] for name in channels)
    return [tuple(name for name in channels if split_name(name)[0] == way) for way in directions]


def measure_names(channels: Sequence[str], weighted: bool) -> list[str]:
    """The names of the measures besides those of a plain graph: totals by direction first, then each channel.

    >>> measure_names(["out", "in"], True)
    ['out degree', 'out strength', 'in degree', 'in strength']
    """
    out = []
    for group in in_directions(channels):
        direction = split_name(group[0])[0]
        out += [f"{direction} degree"] if direction != BOTH else []
        out += [f"{direction.replace(BOTH, '')} strength".strip()] if weighted else []
    if kinds_of(channels):
        for name in channels:
            out += [f"{name} degree", *([f"{name} strength"] if weighted else [])]
    return out


def n_averaged(channels: Sequence[str], weighted: bool) -> int:
    """Measures whose moments over neighbours are taken: those of a plain graph, and the totals by direction."""
    directions = in_directions(channels)
    counted = len(directions) if is_directed(channels) else 0
    return len(MEASURES) + counted + (len(directions) if weighted else 0)


def n_measures(channels: Sequence[str], weighted: bool) -> int:
    """All measures of a node."""
    return len(MEASURES) + len(measure_names(channels, weighted))


def place_ways(channels: Sequence[str], weighted: bool) -> tuple[Way, ...]:
    """How the first level of `place` averages: all edges alike, then along each channel."""
    width = n_averaged(channels, weighted)
    return (Way(0, width), *(Way(0, width, (name,)) for name in channels))


def mixed_channels(channels: Sequence[str], weighted: bool, mix: str) -> list[tuple[str, ...]]:
    """The groups of channels along which features are averaged; () is all edges alike.

    >>> mixed_channels(["out", "in"], True, "union"), mixed_channels(["out", "in"], False, "directions")
    ([('out', 'in')], [('out',), ('in',)])
    """
    if not channels or (mix == "union" and not weighted):
        return [()]
    if mix == "union":
        return [tuple(channels)]
    return in_directions(channels) if mix == "directions" else [(name,) for name in channels]


def sum_of_channels(channels: Sequence[Any], first: int, last: int) -> Any:
    """The weights first..last of several channels added up; of one channel, without a copy."""
    out = channels[0][first:last]
    for channel in channels[1:]:
        out = out + channel[first:last]
    return out


def weight_scales(graph: Graph) -> Tensor:
    """The median strength of the nodes that have edges of a kind, for each kind.  -> (kinds or 1,) float64"""
    scales = []
    for kind in graph.kinds or ("",):
        strengths = [measures.strengths(graph, name)[1] for name in graph.channels if split_name(name)[1] == kind]
        values = np.concatenate(strengths)
        values = values[values > 0]
        scales.append(float(np.median(values)) if len(values) else 1.0)
    return torch.tensor(scales, dtype=torch.float64)


def channel_measures(graph: Graph, scales: Tensor | None) -> list[Tensor]:
    """The measures besides those of a plain graph, before their logarithm, in the order of `measure_names`."""
    names = tuple(graph.channels)
    kinds = graph.kinds or ("",)
    of_channel: dict[str, tuple[Tensor, Tensor]] = {}
    for name in names:
        counts, sums = (torch.from_numpy(values.astype(np.float64)) for values in measures.strengths(graph, name))
        unit = 1.0 if scales is None else float(scales[kinds.index(split_name(name)[1])])
        of_channel[name] = counts, sums / unit
    columns: list[Tensor] = []
    for group in in_directions(names):
        totals = [torch.stack(values).sum(0) for values in zip(*(of_channel[name] for name in group), strict=True)]
        columns += [totals[0]] if is_directed(names) else []
        columns += [totals[1]] if graph.weighted else []
    if graph.kinds:
        for name in names:
            columns += list(of_channel[name][: 2 if graph.weighted else 1])
    return columns


def conform(graph: Graph, channels: Sequence[str], weighted: bool) -> Graph:
    """The graph as a model reads it that was fitted with these channels; refused where the model would misread it.

    A model of a plain graph reads the rows of any graph. A kind that the graph does not have counts as absent; one that
    the model has never seen is refused.
    """
    names = tuple(graph.channels)
    if names == tuple(channels) and (graph.weighted == weighted or not names):
        return graph
    if channels:
        refuse_others(graph, tuple(channels), weighted)
    absent = np.zeros(0 if set(channels) <= set(names) else len(graph.targets), np.float32)
    absent.flags.writeable = False
    read_channels = {name: graph.channels.get(name, absent) for name in channels}
    out = replace(graph, channels=read_channels, weighted=weighted)
    out.__dict__["measures"] = graph.measures  # counted once for both
    return out


def refuse_others(graph: Graph, channels: tuple[str, ...], weighted: bool) -> None:
    """Refuse a graph whose edges are not of the kind that a model with these channels was fitted on."""
    fitted = in_words(channels, weighted)
    for ours, theirs, what in (
        (is_directed(channels), graph.directed, "directed"),
        (weighted, graph.weighted, "weighted"),
        (bool(kinds_of(channels)), bool(graph.kinds), "of several kinds"),
    ):
        if ours != theirs:
            raise GraphError(
                f"the model was fitted on edges that are {fitted}, and those of this graph are "
                f"{'' if theirs else 'not '}{what}; read the graph in the same way, or fit a model of its own"
            )
    refuse_unknown_kinds(graph.kinds, channels)


def refuse_unknown_kinds(kinds: Sequence[str], channels: Sequence[str]) -> None:
    """Refuse kinds of edges that a model with these channels has never seen."""
    if unknown := [kind for kind in kinds if kind not in kinds_of(channels)]:
        raise GraphError(
            f"the kind {unknown[0]!r} was not there when the model was fitted, its kinds are "
            f"{', '.join(map(repr, kinds_of(channels)))}; leave such edges out, give them a known kind, or fit again"
        )


def in_words(channels: Sequence[str], weighted: bool) -> str:
    """The values of edges with these channels, in words.

    >>> in_words(["out:a", "in:a"], True)
    'directed, weighted, of kinds a'
    """
    kinds = ", ".join(kinds_of(channels))
    said = ((is_directed(channels), "directed"), (weighted, "weighted"), (kinds, f"of kinds {kinds}"))
    return ", ".join(text for there, text in said if there) or "plain"
