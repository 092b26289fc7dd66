"""Power-law graphs of any size: drawn into a Parquet file a piece at a time, built into a folder, kept for the next."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import rae

PIECE = 5_000_000


def draw_edges(path: Path, n: int, m: int) -> Path:
    """So many edges whose ends fall off as a power law, hubs at random ids; doubles and loops as they come."""
    draw = np.random.default_rng(0)
    place = draw.permutation(n).astype(np.int32)
    power = 3.0  # degrees fall off as degree^-2.5, as in rae.datasets.load("power-law")
    low, high = 10 ** (1 / power), (10 + n) ** (1 / power)
    schema = pa.schema([("source", pa.int32()), ("target", pa.int32())])
    with pq.ParquetWriter(path, schema) as file:
        for start in range(0, m, PIECE):
            uniform = draw.random((2, min(PIECE, m - start)))
            ends = ((low + (high - low) * uniform) ** power - 10).astype(np.int64).clip(0, n - 1)
            file.write_table(pa.table([place[ends[0]], place[ends[1]]], schema=schema))
    return path


def folder(work: Path, m: int) -> Path:
    """The graph folder of m edges drawn among a tenth as many nodes, built now if it is not there."""
    built = work / f"graph-{m}"
    if not built.exists():
        edges = draw_edges(work / f"edges-{m}.parquet", m // 10, m)
        rae.build_graph(edges, built)
        edges.unlink()
    return built


def name(m: int) -> str:
    """What such a graph is called in a line.

    >>> name(1_000_000)
    'power law, 1,000,000 edges'
    """
    return f"power law, {m:,} edges"
