"""N(u): blocks of neighbours, sampled or all of them, and neighbour shuffling.

A block says how one level reads the rows of the level below it. Blocks are plain index tensors, so what a model
reads can be changed by changing a block; the encoder does not know.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rae.errors import Argument, ConfigError
from rae.graph import Graph
from rae.ops import sampling
from rae.ops.dense import dropout_mask
from rae.ops.sampling import renumber
from rae.runtime import key

Ints = np.ndarray[Any, np.dtype[np.integer[Any]]]


class Block(NamedTuple):
    """Row i of a level averages row `ego[i]` of the level below and its list of neighbours.

    The lists lie one after another in `neighbors`, list j from offsets[j] to offsets[j + 1]. Row i reads
    list i, or list `lists[i]` when several rows share lists (neighbour shuffling).
    """

    ego: Tensor  # (r,) rows of the level below
    offsets: Tensor  # (l + 1,)
    neighbors: Tensor  # (e,) rows of the level below
    lists: Tensor | None = None  # (r,) which list each row reads

    @property
    def n_rows(self) -> int:
        """Rows of the level that this block makes."""
        return len(self.ego)


def sample_neighbors(graph: Graph, nodes: Ints, fanout: int, key: Any, views: Ints | None = None) -> tuple[Ints, Ints]:
    """Up to `fanout` distinct neighbours of each node, all if there are fewer.  (b,) -> offsets (b + 1,), rows

    The choice depends on (key, node, view) alone, not on the batch around it or on threads.
    """
    _check_fanout(fanout)
    return sampling.sample_neighbors(graph.offsets, graph.targets, graph.checked_rows(nodes), fanout, key, views)


def _check_fanout(fanout: int) -> None:
    if fanout < 1:
        raise ConfigError(Argument("fanout"), f" must be 1 or more, got {fanout}")


def sample_blocks(
    graph: Graph, nodes: Ints, fanout: Sequence[int], seed: int, *purpose: int | str, views: Ints | None = None
) -> tuple[Ints, list[Block]]:
    """The nodes whose features are needed, and one block per level, the first level first.

    `fanout` goes by hop from the ego. A node that several egos need below the last level appears
    there once, with one neighbourhood, so its vector is computed once. Repeated `nodes` are told
    apart by `views` and get neighbourhoods of their own.
    """
    hops = [(size, key(seed, *purpose, "hop", hop)) for hop, size in enumerate(fanout)]
    return _blocks(graph, nodes, hops, views)


def exact_blocks(graph: Graph, nodes: Ints, depth: int) -> tuple[Ints, list[Block]]:
    """`sample_blocks` with all neighbours: what an encoder of this depth needs to embed these nodes exactly.

    >>> rows, blocks = exact_blocks(Graph.from_edges([(0, 1), (1, 2), (2, 3)]), np.array([0]), depth=2)
    >>> rows.tolist(), blocks[-1].neighbors.tolist()
    ([0, 1, 2], [1])
    """
    return _blocks(graph, nodes, [(graph.n_nodes, key(0))] * depth, None)


def inference_blocks(graph: Graph, nodes: Ints, fanout: Sequence[int], seed: int) -> tuple[Ints, list[Block]]:
    """Blocks with the neighbours that sampled inference takes; they depend on (seed, node, hop) alone."""
    return _blocks(graph, nodes, [(size, inference_key(seed, hop)) for hop, size in enumerate(fanout)], None)


def inference_key(seed: int, hop: int) -> Any:
    """The key of the neighbours that sampled inference takes at this hop from the ego."""
    return key(seed, "inference", hop)


def _blocks(graph: Graph, nodes: Ints, hops: list[tuple[int, Any]], views: Ints | None) -> tuple[Ints, list[Block]]:
    blocks: list[Block] = []
    rows = graph.checked_rows(nodes)  # those of the next hops are neighbours
    for hop, (size, hop_key) in enumerate(hops):
        _check_fanout(size)
        of_hop = None if hop else views
        offsets, neighbors = sampling.sample_neighbors(graph.offsets, graph.targets, rows, size, hop_key, of_hop)
        below, place = renumber(np.concatenate([rows, neighbors]))
        ego, listed = torch.from_numpy(place[: len(rows)]), torch.from_numpy(place[len(rows) :])
        blocks.append(Block(ego, torch.from_numpy(offsets), listed))
        rows = below
    return rows, blocks[::-1]


def shuffle_neighbors(block: Block, rows: Any, others: Any) -> Block:
    """A block for which u stays and N(u) becomes N(v): row i is ego `rows[i]` with list `others[i]`.

    >>> block = Block(torch.tensor([0, 1]), torch.tensor([0, 1, 2]), torch.tensor([2, 3]))
    >>> shuffle_neighbors(block, rows=[0, 1], others=[1, 0]).lists.tolist()
    [1, 0]
    """
    rows, others = torch.as_tensor(rows), torch.as_tensor(others)
    return block._replace(ego=block.ego[rows], lists=others if block.lists is None else block.lists[others])


def hide_neighbors(block: Block, share: float, key: Any) -> Block:
    """The block without a share of its neighbours, egos kept; which ones is a hash of (key, position).

    >>> block = Block(torch.tensor([0, 1]), torch.tensor([0, 2, 3]), torch.tensor([2, 3, 3]))
    >>> hide_neighbors(block, 0.5, 3).offsets.tolist()
    [0, 1, 2]
    """
    if not share:
        return block
    shown = dropout_mask(len(block.neighbors), share, key, like=torch.empty(0)) > 0
    before = torch.cat([torch.zeros(1, dtype=torch.int64), torch.cumsum(shown, 0)])
    return block._replace(offsets=before[block.offsets], neighbors=block.neighbors[shown])


def whole_block(graph: Graph) -> Block:
    """The block in which every row is a node with all its neighbours: the same for every level."""
    ego = torch.arange(graph.n_nodes)
    offsets, neighbors = (torch.from_numpy(np.array(a, np.int64)) for a in (graph.offsets, graph.targets))
    return Block(ego, offsets, neighbors)


def stack(first: Block, second: Block) -> Block:
    """The rows of two blocks over the same lists, one after the other."""
    own = torch.arange(first.n_rows) if first.lists is None else first.lists
    assert second.lists is not None
    assert second.neighbors is first.neighbors
    return first._replace(ego=torch.cat([first.ego, second.ego]), lists=torch.cat([own, second.lists]))
