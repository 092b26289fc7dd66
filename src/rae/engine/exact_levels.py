"""The blocks of the exact model as the engine runs them: levels of moments over neighbours, and their last step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor

from rae.config import Config, ExactConfig
from rae.engine.levels import Model, as_rows, digest_of_tensors
from rae.features import Features
from rae.graph import Graph
from rae.model.actions import BLOCKS, HOPS, Actions, blocks_of_hops, unit_rows
from rae.model.channels import Way, mixed_channels, n_averaged, place_ways
from rae.model.structure import PLACE, WAVE_LEVELS, Structure, waves, weighted_levels, weighted_measures
from rae.ops.dense import row_product

PLAIN = Config()  # no structural columns besides the given ones, exact neighbourhoods


def structure_models(
    fitted: Structure, config: ExactConfig, graph: Graph, own: Any, scale: float = 1.0
) -> dict[str, Model]:
    """The structural blocks of a graph, `place` and `around`, from its measures in units."""
    channels = tuple(graph.channels)
    reads, n = Features(graph, own, PLAIN), n_averaged(channels, graph.weighted)
    digest = digest_of_tensors(fitted.tensors, config.as_dict() | {"scale": scale})
    place, around = Place(fitted, config, scale), Around(fitted, config, scale)
    ways = place_ways(channels, graph.weighted)
    near = [MomentLevel(n, spread=n, maps=place.first, along=ways), MomentLevel(n, maps=partial(_first_columns, n))]
    far = [MomentLevel(n) for _ in config.level_weights]
    width = 2 * fitted.n_frequencies  # cosine and sine of each
    waved = [MomentLevel(width, maps=around.first if k == 0 else None) for k in range(WAVE_LEVELS)]
    return {
        "place": Model(reads, [*near, *far][: len(config.level_weights)], digest, place),
        "around": Model(reads, waved, digest, around),
    }


def action_model(fitted: Actions, config: ExactConfig, features: Features) -> Model:
    """The blocks of given features: `own`, `near`, `mid` and `far`."""
    finish, graph = ActionFinish(fitted), features.graph
    columns, groups = fitted.axes.shape[1] + 1, mixed_channels(tuple(graph.channels), graph.weighted, config.mix)
    first = tuple(Way(0, columns, channels) for channels in groups)
    later = tuple(Way(i * columns, (i + 1) * columns, channels) for i, channels in enumerate(groups))
    levels = [MomentLevel(columns, maps=finish.first, along=first)]
    levels += [MomentLevel(len(groups) * columns, along=later) for _ in range(HOPS - 1)]
    return Model(features, levels, digest_of_tensors(fitted.tensors, config.as_dict()), finish)


@dataclass(frozen=True, eq=False)
class ActionFinish:
    """The blocks of the features of some rows: by own axes, and by those of each distance."""

    fitted: Actions

    @property
    def width(self) -> int:
        return len(BLOCKS) * self.fitted.width

    def first(self, x: Any) -> Tensor:
        """What the first level averages: directions of the features, and a one, whose mean says who has neighbours."""
        rows = self.fitted.project(x, self.fitted.axes)
        return torch.cat([rows, rows.new_ones((len(rows), 1))], 1)

    @cached_property
    def _maps(self) -> list[tuple[Tensor, Tensor]]:
        f = self.fitted
        pairs = (f.near_center, f.near_map), (f.mid_center, f.mid_map), (f.far_center, f.far_map)
        return [(center.float(), directions.float()) for center, directions in pairs]

    def columns(self, x: Any, vectors: Sequence[Tensor]) -> Tensor:
        own = self.fitted.project(x, self.fitted.own_axes) - self.fitted.own_center
        parts = [own]
        for block, (center, directions) in zip(blocks_of_hops(vectors), self._maps, strict=True):
            groups = block.view(len(block), -1, self.fitted.axes.shape[1] + 1)  # along each group of channels
            at_center = groups[:, :, -1:] * center.view(groups.shape[1], -1)
            centered = groups[:, :, :-1] - at_center  # a node without neighbours is at the center
            parts.append(row_product(centered.flatten(1), directions))
        if self.fitted.words:
            parts = [self._one_length(block, k) for k, block in enumerate(parts)]
        return torch.cat(parts, 1)

    def _one_length(self, block: Tensor, k: int) -> Tensor:
        """The rows of block k scaled to one length, then centred; a row at the center stays there."""
        center, factor = self.fitted.unit_centers[k].float(), float(self.fitted.unit_scales[k])
        unit = unit_rows(block)
        return torch.where(block.any(1, keepdim=True), (unit - center) * factor, 0.0)


def _first_columns(count: int, x: Any) -> Tensor:
    """The means of the measures over all neighbours, without their deviations."""
    return as_rows(x)[:, :count]


@dataclass(frozen=True)
class MomentLevel:
    """A level that takes means over N(u), then the deviations of its first columns: of all edges, or several ways."""

    columns: int
    spread: int = 0
    maps: Callable[[Any], Tensor] | None = None  # of the rows that the level reads; None: they are averaged as they are
    with_ego: bool = False
    along: tuple[Way, ...] = ()  # none: all columns, over all edges alike

    @property
    def ways(self) -> tuple[Way, ...]:
        return self.along or (Way(0, self.columns),)

    @property
    def width(self) -> int:
        return sum(way.right - way.left + min(self.spread, way.right - way.left) for way in self.ways)

    @property
    def maps_rows(self) -> bool:
        return self.maps is not None

    def before(self, x: Any) -> Tensor:
        return as_rows(x) if self.maps is None else self.maps(x)

    def after(self, gathered: Tensor) -> Tensor:
        return gathered


@dataclass(frozen=True, eq=False)
class Place:
    """`place`: the statistics of a node, in the directions of the fit."""

    fitted: Structure
    config: ExactConfig
    scale: float

    @property
    def width(self) -> int:
        return PLACE

    def own(self, x: Any) -> Tensor:
        """The measures as they count."""
        return as_rows(x) * self._factors

    @cached_property
    def _factors(self) -> Tensor:
        ones = torch.ones((1, len(self.fitted.mean)), device=self.fitted.mean.device)
        return weighted_measures(ones, self.config)

    def first(self, x: Any) -> Tensor:
        """The rows that the first level averages: some of the measures."""
        return self.own(x)[:, : len(self.fitted.frequencies)]

    @cached_property
    def _map(self) -> tuple[Tensor, Tensor]:
        return self.fitted.center.float(), (self.fitted.directions * self.scale).float()

    def statistics(self, x: Any, vectors: Sequence[Tensor]) -> Tensor:
        """The statistics of the surroundings of some rows."""
        return weighted_levels([self.own(x), *vectors], self.config)

    def columns(self, x: Any, vectors: Sequence[Tensor]) -> Tensor:
        center, directions = self._map
        return row_product(self.statistics(x, vectors) - center, directions)


@dataclass(frozen=True, eq=False)
class Statistics:
    """The statistics themselves, from which a fit is solved."""

    place: Place

    @property
    def width(self) -> int:
        return len(self.place.fitted.center)

    def columns(self, x: Any, vectors: Sequence[Tensor]) -> Tensor:
        return self.place.statistics(x, vectors)


@dataclass(frozen=True, eq=False)
class Hops:
    """What a fit of actions turns into blocks: the means of directions at every distance, without those of the ones."""

    n_axes: int
    width: int

    def columns(self, x: Any, vectors: Sequence[Tensor]) -> Tensor:
        groups = [block.view(len(block), -1, self.n_axes + 1)[:, :, :-1].flatten(1) for block in vectors]
        return torch.cat(groups, 1)


def models_to_sample(models: Mapping[str, Model]) -> dict[str, Model]:
    """The models whose columns a fit reads for a sample of nodes: statistics, or means of directions."""
    out: dict[str, Model] = {}
    for name, model in models.items():
        if isinstance(model.finish, Place):
            out[name] = replace(model, finish=Statistics(model.finish))
        elif isinstance(model.finish, ActionFinish):
            n_axes = model.finish.fitted.axes.shape[1]
            width = sum(level.width // (n_axes + 1) * n_axes for level in model.levels)
            out[name] = replace(model, finish=Hops(n_axes, width))
    return out


@dataclass(frozen=True, eq=False)
class Around:
    """`around`: cosines and sines of the measures, of the node and its neighbours; means of farther neighbours.

    Farther away more differs, so half of the frequencies are enough near the node.
    """

    fitted: Structure
    config: ExactConfig
    scale: float

    @property
    def width(self) -> int:
        return self.fitted.around_width

    @cached_property
    def _waves(self) -> tuple[Tensor, Tensor]:
        return self.fitted.frequencies.float(), self.fitted.phases.float()

    def first(self, x: Any) -> Tensor:
        """The rows that the first level averages."""
        return waves(as_rows(x)[:, : len(self.fitted.frequencies)].contiguous(), *self._waves)

    def columns(self, x: Any, vectors: Sequence[Tensor]) -> Tensor:
        factor = self.fitted.around_factor(self.config, self.scale)
        own, first, *farther = [self.first(x), *vectors]
        return torch.cat([own[:, self._near], first[:, self._near], *farther], 1) * factor

    @cached_property
    def _near(self) -> Tensor:
        """Half of the frequencies, cosine and sine."""
        f = self.fitted.n_frequencies
        return torch.arange(2 * f, device=self.fitted.phases.device).view(2, f)[:, : f // 2].reshape(-1)
