"""N(u): blocks of sampled neighbours, and neighbour shuffling.

A block says how one level reads the rows of the level below it. Blocks are plain index arrays, so
what a model sees can be changed by changing a block; the encoder never hears of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rae.graph import Graph
from rae.ops import cpu
from rae.runtime import in_ranges, key

Ints = np.ndarray[Any, np.dtype[np.integer[Any]]]


@dataclass(frozen=True, eq=False)
class Block:
    """Row i of a level averages row `ego[i]` of the level below and its list of neighbours.

    The lists lie one after another in `index`, list j from offsets[j] to offsets[j + 1]. Row i reads
    list i, or list `lists[i]` when several rows share lists (neighbour shuffling).
    """

    ego: Ints  # (r,) rows of the level below
    offsets: Ints  # (l + 1,)
    index: Ints  # (e,) rows of the level below
    lists: Ints | None = None  # (r,) which list each row reads

    @property
    def n_rows(self) -> int:
        return len(self.ego)


def sample_neighbors(graph: Graph, nodes: Ints, fanout: int, luck: Any, views: Ints | None = None) -> tuple[Ints, Ints]:
    """Up to `fanout` distinct neighbours of each node, all if there are fewer.  (b,) -> offsets, rows

    The choice depends on (luck, node, view) alone, not on the batch around it or on threads.
    """
    nodes = np.ascontiguousarray(nodes, np.int64)
    views = np.zeros(len(nodes), np.int64) if views is None else np.ascontiguousarray(views, np.int64)
    offsets = np.zeros(len(nodes) + 1, np.int64)
    cpu.sample_counts(graph.offsets, nodes, fanout, offsets)
    found = np.empty(int(offsets[-1]), graph.targets.dtype)

    def work(start: int, stop: int) -> None:
        cpu.sample_rows(graph.offsets, graph.targets, nodes, views, fanout, luck, offsets, found, start, stop)

    in_ranges(work, len(nodes), 2048)
    return offsets, found


def renumber(nodes: Ints) -> tuple[Ints, Ints]:
    """The distinct nodes by first appearance, and each node's place among them.

    >>> [a.tolist() for a in renumber(np.array([7, 3, 7, 9]))]
    [[7, 3, 9], [0, 1, 0, 2]]
    """
    nodes = np.ascontiguousarray(nodes, np.int64)
    size = 1 << max(4, int(2 * len(nodes)).bit_length())
    table, distinct = np.full(size, -1, np.int32), np.empty(len(nodes), np.int64)
    local = np.empty(len(nodes), np.int64)
    count = cpu.number(nodes, table, distinct, 0, local)
    return distinct[:count], local


def sample_blocks(
    graph: Graph, nodes: Ints, fanout: Sequence[int], seed: int, *purpose: int | str, views: Ints | None = None
) -> tuple[Ints, list[Block]]:
    """The nodes whose features are needed, and one block per level, the first level first.

    `fanout` goes by hop from the ego. A node that several egos need below the last level appears
    there once, with one neighbourhood, so its vector is computed once. Repeated `nodes` are told
    apart by `views` and get neighbourhoods of their own.
    """
    blocks: list[Block] = []
    rows: Ints = np.ascontiguousarray(nodes, np.int64)
    for hop, size in enumerate(fanout):
        offsets, found = sample_neighbors(graph, rows, size, key(seed, *purpose, "hop", hop), None if hop else views)
        below, local = renumber(np.concatenate([rows, found]))
        blocks.append(Block(local[: len(rows)], offsets, local[len(rows) :]))
        rows = below
    return rows, blocks[::-1]


def shuffle_neighbors(block: Block, rows: Ints, others: Ints) -> Block:
    """A block for which u stays and N(u) becomes N(v): row i is ego `rows[i]` with list `others[i]`.

    >>> block = Block(np.array([0, 1]), np.array([0, 1, 2]), np.array([2, 3]))
    >>> shuffle_neighbors(block, rows=np.array([0, 1]), others=np.array([1, 0])).lists.tolist()
    [1, 0]
    """
    lists = others if block.lists is None else block.lists[others]
    return replace(block, ego=block.ego[rows], lists=lists)


def stack(first: Block, second: Block) -> Block:
    """The rows of two blocks over the same lists, one after the other."""
    own = np.arange(first.n_rows) if first.lists is None else first.lists
    assert second.lists is not None
    assert second.index is first.index
    return replace(first, ego=np.concatenate([first.ego, second.ego]), lists=np.concatenate([own, second.lists]))
