"""What the engine runs at each level, and the neighbourhoods it runs over.

A level is three steps, for every model: `before` maps rows, the engine averages them over neighbourhoods, `after`
maps the means to the level's vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from rae.graph import Graph
from rae.model.encoder import Encoder, Level
from rae.model.sampling import Block, inference_key, sample_neighbors

RowSet = tuple[int, int] | np.ndarray[Any, Any]  # rows a..b, or the rows that an index names


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

    def before(self, x: Any) -> Tensor:
        """The rows that are averaged, from the rows that the level reads: an array or a SciPy CSR."""

    def after(self, means: Tensor) -> Tensor:
        """The level's vectors, from the means."""


@dataclass(frozen=True)
class EncoderLevel:
    """A level of a trained encoder, on whatever device its weights are; rows come and go in main memory."""

    level: Level
    reads_dense: bool

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
    def device(self) -> torch.device:
        return self.level.aggregate.weight.device

    def before(self, x: Any) -> Tensor:
        if not isinstance(x, np.ndarray):
            return self.level.before(x).cpu()  # a sparse matrix
        rows = torch.from_numpy(x if x.flags.writeable else x.copy())  # torch takes no read-only array
        return self.level.before(_at_least(rows).to(self.device))[: len(x)].cpu()

    def after(self, means: Tensor) -> Tensor:
        return self.level.after(_at_least(means).to(self.device), self.maps_rows)[: len(means)].cpu()


def _at_least(rows: Tensor, least: int = 4) -> Tensor:
    """The rows, filled up with zeros: products of very few rows round in another way than those of many."""
    return rows if len(rows) >= least else torch.nn.functional.pad(rows, (0, 0, 0, least - len(rows)))


def encoder_levels(encoder: Encoder, dense: bool) -> list[EncoderLevel]:
    """The levels of an encoder that reads dense or sparse features, the first one first."""
    return [EncoderLevel(level, dense or k > 0) for k, level in enumerate(encoder.eval().stack())]


class Neighborhoods(Protocol):
    """Which rows each level averages. Level k makes n_rows(k) rows from a table of n_rows(k - 1) rows below."""

    def n_rows(self, k: int) -> int:
        """Rows of level k; level -1 is the features."""

    def lists(self, k: int, rows: RowSet) -> tuple[Any, Any, Any, Any]:
        """The arguments of `rae.ops.gather.mean` for these rows: offsets, index, ego, lists."""

    def places(self, k: int, rows: RowSet) -> RowSet:
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

    def places(self, k: int, rows: RowSet) -> RowSet:
        return rows


@dataclass(frozen=True)
class SomeNodes:
    """Only the rows that some nodes need at each level; see `exact_blocks`."""

    nodes: np.ndarray[Any, Any]
    blocks: Sequence[Block]

    def n_rows(self, k: int) -> int:
        return len(self.nodes) if k < 0 else self.blocks[k].n_rows

    def lists(self, k: int, rows: RowSet) -> tuple[Any, Any, Any, Any]:
        block = self.blocks[k]
        offsets, neighbors, ego = block.offsets.numpy(), block.neighbors.numpy(), block.ego.numpy()
        if isinstance(rows, tuple):
            return offsets[rows[0] : rows[1] + 1], neighbors, ego[rows[0] : rows[1]], None
        return offsets, neighbors, ego[rows], rows

    def places(self, k: int, rows: RowSet) -> RowSet:
        if k == len(self.blocks) - 1:
            return rows
        above = self.places(k + 1, rows)
        ego: np.ndarray[Any, Any] = self.blocks[k + 1].ego.numpy()
        return ego[above[0] : above[1]] if isinstance(above, tuple) else ego[above]
