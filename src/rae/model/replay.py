"""The inputs of a training step on a GPU as whole numbers in arrays of fixed size, which a recorded step replays.

Features are on the GPU. What is drawn for a step says which of their rows it reads; it is filled up to a size, by rows
that do not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rae.features import Features, is_sparse
from rae.model.sampling import Block
from rae.ops.device import SparseTable
from rae.ops.gather import SparseRows
from rae.ops.reference import signed_word

Name = tuple[int | str, ...]
SLACK = 8  # a size is this part larger than the first steps need
FIRST_STEPS = 4  # that sizes are taken from
MOST_ENTRIES = 1 << 23  # of sparse features: each step goes through all of them
MEMORY_SHARE = 4  # dense features take this part of the free memory of a GPU at most
SIDES = "anchor", "context"


@dataclass(frozen=True, eq=False)
class Numbers:
    """An array, and what fills it up; whether its size is that of every step."""

    array: Any
    filling: int = -1
    fixed: bool = False

    def __len__(self) -> int:
        return len(self.array)

    def fill(self, out: Any) -> None:
        """Write the array to the beginning of another one, and fill the rest up."""
        out[: len(self.array)], out[len(self.array) :] = self.array, self.filling


def of_blocks(side: str, rows: Any, blocks: list[Block]) -> Iterator[tuple[Name, Numbers]]:
    """The numbers of what an encoder reads, by name: rows of the features, and blocks; the last has a fixed size."""
    yield (side, "rows"), Numbers(rows)
    for k, block in enumerate(blocks):
        last = k == len(blocks) - 1
        for field, index in block._asdict().items():
            if index is not None:
                array = index.numpy()
                filling = int(array[-1]) if field == "offsets" else -1
                yield (side, k, field), Numbers(array, filling, last and field != "neighbors")


def of_keys(side: str, keys: Mapping[Name, Any], blocks: list[Block]) -> Iterator[tuple[Name, Numbers]]:
    """The keys of what is dropped, each with the rows that count, by name."""
    for name, key in keys.items():
        yield (side, *name), Numbers(np.array([signed_word(key), blocks[int(name[0])].n_rows]), fixed=True)


def sizes_of(steps: Sequence[Mapping[Name, Numbers]]) -> dict[Name, int]:
    """Sizes that these steps fit into, and most others."""
    sizes = {}
    for name, numbers in steps[0].items():
        most = max(len(step[name]) for step in steps)
        sizes[name] = most if numbers.fixed else most + most // SLACK + 64
    for name in sizes:
        if name[-1] == "offsets":  # one more than the rows, whose number may change
            sizes[name] = sizes[name] if steps[0][name].fixed else sizes[*name[:-1], "ego"] + 1
    return sizes


def table_of(features: Features, place: torch.device) -> Tensor | SparseTable | None:
    """Features of all nodes on a GPU; None where they are too large for that."""
    n, entries = features.graph.n_nodes, features.graph.n_nodes * features.row_entries
    if not features.is_dense:
        return SparseTable(features.rows(0, n), place) if entries <= MOST_ENTRIES else None
    if place.type == "cuda" and 4 * entries > torch.cuda.mem_get_info(place)[0] // MEMORY_SHARE:
        return None
    return torch.from_numpy(np.ascontiguousarray(features.rows(0, n), np.float32)).to(place)


def read(
    side: str, numbers: Mapping[Name, Tensor], table: Tensor | SparseTable, depth: int
) -> tuple[Tensor | SparseRows, list[Block]]:
    """What an encoder reads in a step: rows of the features, and blocks, all of fixed size."""
    index = numbers[side, "rows"]
    rows = table[index.clamp(min=0)] if isinstance(table, Tensor) else SparseRows(table, index)
    blocks = [Block(*(numbers.get((side, k, field)) for field in Block._fields)) for k in range(depth)]  # type: ignore[arg-type]
    return rows, blocks


def placed(rows: Any, blocks: list[Block], place: torch.device) -> tuple[Any, list[Block]]:
    """The same rows and blocks on a device."""
    if place.type == "cpu":
        return rows, blocks
    if is_sparse(rows):
        rows = SparseRows(SparseTable(rows, place), torch.arange(rows.shape[0], device=place))
    else:
        rows = torch.from_numpy(rows).to(place)
    return rows, [Block(*(None if index is None else index.to(place) for index in block)) for block in blocks]  # type: ignore[arg-type]


def keys_of(side: str, numbers: Mapping[Name, Tensor]) -> dict[Name, Tensor]:
    """The keys of what is dropped in an encoder, by level and layer."""
    return {name[1:]: key for name, key in numbers.items() if name[0] == side}
