"""How the work is cut so that it keeps to a memory budget.

Nodes are cut into parts of equally many rows, the unit in which everything is read and written. A
node's neighbours stand anywhere, so the rows that a level averages must be in memory for all nodes
at once; where they do not fit, they are cut into stripes of columns and averaged stripe by stripe.
A mean is taken column by column, so neither cut changes a bit of the result.

Where parts go to different hosts, they are cut by edges too (`by_edges`): a part that holds hubs has fewer rows.

    budget  >=  program + what is resident anyway + parts at work + row groups + n x columns x 4 (half: 2)
"""

from __future__ import annotations

import bisect
import itertools
import math
import re
from dataclasses import dataclass, replace
from typing import Any

from rae.errors import Argument, ConfigError

TILE = 2048  # rows worked on at a time by a thread
PROGRAM = 600_000_000  # bytes of Python, torch and pyarrow, before any data
PART_BYTES = 128 << 20  # the parts at work, at most: larger ones gain nothing
WRITING = 3  # row groups that are in memory while one is written: waiting, encoded, on its way
AT_WORK_SHARE = 16  # of the memory of a task on another host, for the parts at work there
PARTS = 64  # of a job for several hosts at least, where the graph is large enough
AT_WORK = 2  # parts at a time: one is computed while the other is written
LINE = 16  # float32 columns in a cache line: narrower stripes read more than they use
UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


@dataclass(frozen=True)
class Layout:
    """Rows of a part, and columns that are in memory for all nodes at once."""

    rows: int
    columns: int
    bounds: tuple[int, ...] = ()  # the first row of each part and the number of rows, where they were cut by edges

    def parts(self, n_rows: int) -> list[tuple[int, int]]:
        """So many rows cut into parts (a, b)."""
        if self.bounds:
            return list(itertools.pairwise(self.bounds))
        return [(a, min(a + self.rows, n_rows)) for a in range(0, n_rows, self.rows)]

    def part_of(self, row: int) -> int:
        """The part that a row is in."""
        return bisect.bisect_right(self.bounds, row) - 1 if self.bounds else row // self.rows

    def stripes(self, width: int) -> list[tuple[int, int]]:
        """So many columns cut into the fewest stripes, of whole cache lines where there is room."""
        step = -(-width // -(-width // self.columns))
        lines = -(-step // LINE) * LINE
        step = lines if lines <= self.columns else step
        return [(left, min(left + step, width)) for left in range(0, width, step)]


@dataclass(frozen=True)
class Sizes:
    """The sizes that the layout of a job depends on."""

    n_nodes: int
    n_targets: int
    widths: tuple[int, ...]  # columns that each level reads and makes
    width: int  # columns of the output
    itemsize: int  # bytes of a number that is averaged
    resident: int  # bytes that are in memory anyway
    group_bytes: int  # bytes of a row group

    @property
    def fixed_bytes(self) -> int:
        """Bytes that do not depend on the layout."""
        return PROGRAM + self.resident + WRITING * self.group_bytes

    @property
    def row_bytes(self) -> int:
        """Bytes of the parts at work per row: what is read, what is made, and the neighbours."""
        return AT_WORK * (12 * max(*self.widths, self.width) + 4 * -(-self.n_targets // self.n_nodes))

    @property
    def least_memory(self) -> int:
        """The least budget that `layout` accepts: one tile of rows a part, one column of all nodes at once."""
        return self.fixed_bytes + TILE * self.row_bytes + self.n_nodes * self.itemsize


def budget_for(passes: int, averaged: int, sizes: Sizes) -> int:
    """A budget with which so many averaged columns of all nodes take at most so many passes over the edges."""
    columns = -(-averaged // passes)
    return sizes.fixed_bytes + max(PART_BYTES, TILE * sizes.row_bytes) + columns * sizes.n_nodes * sizes.itemsize


def layout(memory: int | str, sizes: Sizes, part_bytes: int = PART_BYTES) -> Layout:
    """The layout that keeps to `memory`, with parts at work of `part_bytes`; a budget that none keeps to is refused."""
    budget = memory_bytes(memory)
    column_bytes = sizes.n_nodes * sizes.itemsize
    room = max(0, min(part_bytes, (budget - sizes.fixed_bytes) // 4, budget - sizes.fixed_bytes - column_bytes))
    rows = max(TILE, room // sizes.row_bytes // TILE * TILE)
    rows = min(rows, -(-sizes.n_nodes // TILE) * TILE)
    columns = (budget - sizes.fixed_bytes - rows * sizes.row_bytes) // column_bytes
    if columns < 1:
        least = math.ceil(sizes.least_memory / 2**30 * 100) / 100
        raise ConfigError(
            Argument("memory"),
            f" must be {least:.2f} GiB or more for {sizes.n_nodes:,} nodes and {sizes.n_targets // 2:,} edges, "
            f"got {budget / 2**30:.2f} GiB",
        )
    return Layout(rows, columns)


def layout_for_hosts(memory: int | str, sizes: Sizes, averaged: int) -> Layout:
    """The layout of tasks that take so much memory each, before parts are cut by edges; `averaged` columns at most.

    It is the same for budgets that differ a little, and whatever the number of hosts, so that another cluster goes on
    with the parts of one that is gone: about PARTS parts where these fit, else parts of a power of two of tiles, and
    whole stripes of columns. Parts are larger where there is more memory, since each costs some time whatever it holds.
    """
    budget = memory_bytes(memory)
    cut = layout(budget, sizes, max(PART_BYTES, budget // AT_WORK_SHARE))
    tiles = min(1 << (cut.rows // TILE).bit_length() - 1, -(-sizes.n_nodes // (PARTS * TILE)))
    stripes = -(-averaged // cut.columns)
    return Layout(tiles * TILE, -(-averaged // stripes))


def by_edges(cut: Layout, offsets: Any) -> Layout:
    """The same layout with parts of about equally much work, an edge counting as much as a row; whole tiles of rows.

    A part has no more rows than before and no more work than twice the mean, unless a single tile has.

    >>> import numpy as np
    >>> offsets = np.concatenate([[0], np.cumsum(np.where(np.arange(8 * TILE) == 0, 100_000, 1))])
    >>> [b // TILE for b in by_edges(Layout(4 * TILE, 1), offsets).bounds]
    [0, 1, 5, 8]
    """
    n = len(offsets) - 1
    edges = [int(offsets[min(a, n)]) for a in range(0, n + TILE, TILE)]
    work = [min(k * TILE, n) + edges[k] for k in range(len(edges))]  # before tile k
    mean = max(1, work[-1] * cut.rows // n)
    bounds, first = [0], 0
    for k in range(1, len(work) - 1):
        if work[k + 1] - work[first] > mean or (k + 1 - first) * TILE > cut.rows:
            bounds.append(k * TILE)
            first = k
    return replace(cut, bounds=(*bounds, n))


def memory_bytes(memory: Any) -> int:
    """A size such as "4GiB", "500 MB" or a number of bytes, in bytes.

    >>> memory_bytes("4GiB"), memory_bytes("1.5 GB"), memory_bytes(1 << 20)
    (4294967296, 1500000000, 1048576)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*(|[kmgt]i?)b?\s*", str(memory).lower())
    if isinstance(memory, bool) or not match or (size := round(float(match[1]) * UNITS[match[2]])) < 1:
        raise ConfigError(Argument("memory"), f" must be a size such as 4GiB or 500MB, got {memory!r}")
    return size
