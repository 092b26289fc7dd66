"""Models as the engine runs them: levels, the last step to columns, and the neighbourhoods.

A level is three steps, for every model: `before` maps rows, the engine averages them over neighbourhoods, `after`
maps the means to the level's vectors.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from rae.errors import FeatureError
from rae.features import Features
from rae.graph import Graph
from rae.model.channels import Way, sum_of_channels
from rae.model.encoder import Encoder, Level
from rae.model.sampling import Block, inference_key, sample_neighbors
from rae.ops.dense import at_least_four
from rae.storage.parts import digest_of

RowSet = tuple[int, int] | np.ndarray[Any, Any]  # rows a..b, or the rows that an index names


def as_rows(x: Any) -> Tensor:
    """An array as a tensor; torch takes no read-only one."""
    return x if isinstance(x, Tensor) else torch.from_numpy(x if x.flags.writeable else x.copy())


class LevelSteps(Protocol):
    """One level of a model, as the engine runs it."""

    @property
    def columns(self) -> int:
        """Columns of the rows that are averaged."""

    @property
    def width(self) -> int:
        """Columns of the level's vectors."""

    @property
    def maps_rows(self) -> bool:
        """Whether `before` changes the rows; if not, the rows that the level reads are averaged as they are."""

    @property
    def with_ego(self) -> bool:
        """Whether u itself is averaged: mean({u} ∪ N(u)), or N(u) alone."""

    @property
    def spread(self) -> int:
        """The first columns whose standard deviation over N(u) comes after the means."""

    @property
    def ways(self) -> Sequence[Way]:
        """Which columns are averaged along which edges: means and deviations of the first way, then of the next one."""

    def before(self, x: Any) -> Tensor:
        """The rows that are averaged, from the rows that the level reads: an array or a SciPy CSR."""

    def after(self, means: Tensor) -> Tensor:
        """The level's vectors, from the means."""


class Finish(Protocol):
    """The last step of a model whose columns are not its levels side by side."""

    @property
    def width(self) -> int:
        """Columns of the model."""

    def columns(self, x: Any, vectors: Sequence[Tensor]) -> Tensor:
        """The columns of some rows, from what the model reads and from the vectors of each level, the first first."""


@dataclass(frozen=True, eq=False)
class Model:
    """A model as the engine runs it: the rows it reads, its levels, and what they become."""

    reads: Features
    levels: Sequence[LevelSteps]
    digest: Callable[[], str]  # of its weights, for the fingerprint of resumable jobs
    finish: Finish | None = None  # None: all levels side by side, the last one first

    @property
    def width(self) -> int:
        """Its columns of the embedding."""
        return sum(level.width for level in self.levels) if self.finish is None else self.finish.width


@dataclass(frozen=True)
class EncoderLevel:
    """A level of a trained encoder, on the device of its weights, like its results."""

    level: Level
    reads_dense: bool
    with_ego: bool = True
    spread: int = 0

    @property
    def columns(self) -> int:
        return self.level.widths[1 if self.maps_rows else 0]

    @property
    def width(self) -> int:
        return self.level.widths[1]

    @property
    def maps_rows(self) -> bool:
        return self.level.projects_first(self.reads_dense)

    @property
    def ways(self) -> Sequence[Way]:
        return (Way(0, self.columns),)

    @property
    def device(self) -> torch.device:
        return self.level.aggregate.weight.device

    def before(self, x: Any) -> Tensor:
        if not isinstance(x, np.ndarray | Tensor):
            return self.level.before(x)  # a sparse matrix
        return self.level.before(at_least_four(as_rows(x)).to(self.device))[: len(x)]

    def after(self, means: Tensor) -> Tensor:
        return self.level.after(at_least_four(means).to(self.device), self.maps_rows)[: len(means)]


def encoder_models(encoders: Mapping[str, Encoder], features: Features) -> dict[str, Model]:
    """Trained encoders as models, refused where one does not read these features."""
    for encoder in encoders.values():
        if encoder.n_features != features.width:
            raise FeatureError(f"the model reads {encoder.n_features:,} feature columns, got {features.width:,}")
    return {
        name: Model(features, encoder_levels(encoder, features.is_dense), digest_of_tensors(encoder.state_dict))
        for name, encoder in encoders.items()
    }


def digest_of_tensors(
    tensors: Callable[[], Mapping[str, Tensor]], settings: Mapping[str, Any] | None = None
) -> Callable[[], str]:
    """A function that computes the SHA-256 of tensors by name and of settings, when it is called."""

    def digest() -> str:
        text = json.dumps(dict(settings or {}), sort_keys=True).encode()
        arrays = (tensor.reshape(-1).cpu().numpy() for tensor in tensors().values())
        return digest_of(np.frombuffer(text, np.uint8), *arrays)

    return digest


def encoder_levels(encoder: Encoder, dense: bool) -> list[EncoderLevel]:
    """The levels of an encoder that reads dense or sparse features, the first one first."""
    return [EncoderLevel(level, dense or k > 0) for k, level in enumerate(encoder.eval().stack())]


class Neighborhoods(Protocol):
    """Which rows each level averages. Level k makes n_rows(k) rows from a table of n_rows(k - 1) rows below."""

    def n_rows(self, k: int) -> int:
        """Rows of level k; level -1 is the features."""

    @property
    def graph(self) -> Graph:
        """The graph."""

    def lists(self, k: int, rows: RowSet) -> tuple[Any, Any, Any, Any]:
        """The arguments of `rae.ops.gather.mean` for these rows: offsets, index, ego, lists."""

    def weights(self, k: int, channels: tuple[str, ...], first: int, last: int) -> Any:
        """The weights in these channels, added up, of entries first..last of the index of level k."""

    def rows_at(self, k: int, rows: RowSet) -> RowSet:
        """Where these rows of the last level stand at level k."""

    @property
    def nodes(self) -> Any:
        """The nodes whose features are the rows of level -1, None for all in order."""


@dataclass(frozen=True)
class WholeGraph:
    """Every node at every level, with all of its neighbours or a sample of them."""

    graph: Graph
    depth: int
    fanout: tuple[int, ...] | None = None
    seed: int = 0
    nodes: None = None

    def n_rows(self, k: int) -> int:
        return self.graph.n_nodes

    def lists(self, k: int, rows: RowSet) -> tuple[Any, Any, Any, Any]:
        if self.fanout is not None:
            chosen = np.arange(*rows) if isinstance(rows, tuple) else rows
            hop = self.depth - 1 - k
            sampled = sample_neighbors(self.graph, chosen, self.fanout[hop], inference_key(self.seed, hop))
            return *sampled, chosen, None
        if isinstance(rows, tuple):
            return self.graph.offsets[rows[0] : rows[1] + 1], self.graph.targets, rows[0], None
        return self.graph.offsets, self.graph.targets, rows, rows

    def weights(self, k: int, channels: tuple[str, ...], first: int, last: int) -> Any:
        return sum_of_channels([self.graph.channels[name] for name in channels], first, last)

    def rows_at(self, k: int, rows: RowSet) -> RowSet:
        return rows


@dataclass(frozen=True)
class SomeNodes:
    """Only the rows that some nodes need at each level; see `exact_blocks`."""

    graph: Graph
    nodes: np.ndarray[Any, Any]
    blocks: Sequence[Block]
    _entries: dict[int, Any] = field(default_factory=dict)  # of the graph, by level: those of the blocks

    def n_rows(self, k: int) -> int:
        return len(self.nodes) if k < 0 else self.blocks[k].n_rows

    def lists(self, k: int, rows: RowSet) -> tuple[Any, Any, Any, Any]:
        block = self.blocks[k]
        offsets, neighbors, ego = block.offsets.numpy(), block.neighbors.numpy(), block.ego.numpy()
        if isinstance(rows, tuple):
            return offsets[rows[0] : rows[1] + 1], neighbors, ego[rows[0] : rows[1]], None
        return offsets, neighbors, ego[rows], rows

    def weights(self, k: int, channels: tuple[str, ...], first: int, last: int) -> Any:
        if k not in self._entries:  # a block has the neighbours of its rows in the order of the graph
            rows, lengths = self._rows(k), np.diff(self.blocks[k].offsets.numpy())
            before = np.cumsum(lengths) - lengths
            self._entries[k] = np.arange(int(lengths.sum())) + np.repeat(self.graph.offsets[rows] - before, lengths)
        entries = self._entries[k][first:last]
        return sum_of_channels([self.graph.channels[name][entries] for name in channels], 0, len(entries))

    def _rows(self, k: int) -> Any:
        """The nodes that the rows of level k are of."""
        return self.nodes if k < 0 else self._rows(k - 1)[self.blocks[k].ego.numpy()]

    def rows_at(self, k: int, rows: RowSet) -> RowSet:
        if k == len(self.blocks) - 1:
            return rows
        above = self.rows_at(k + 1, rows)
        ego: np.ndarray[Any, Any] = self.blocks[k + 1].ego.numpy()
        return ego[above[0] : above[1]] if isinstance(above, tuple) else ego[above]
