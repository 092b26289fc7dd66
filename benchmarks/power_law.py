"""Power-law graphs of any size, drawn into a Parquet file a chunk at a time and built into a graph folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import rae

CHUNK = 5_000_000


def draw_edges(path: Path, n: int, m: int, *, weighted: bool = False) -> Path:
    """The path of a Parquet file of m edges whose degrees follow a power law, with hubs at random ids.

    Doubles and loops are not removed. Of `weighted` edges a third column has amounts.
    """
    rng = np.random.default_rng(0)
    ids = rng.permutation(n).astype(np.int32)
    power = 3.0  # degrees fall off as degree^-2.5, as in rae.datasets.load("power-law")
    low, high = 10 ** (1 / power), (10 + n) ** (1 / power)
    amounts = [("amount", pa.float32())] if weighted else []
    schema = pa.schema([("source", pa.int32()), ("target", pa.int32()), *amounts])
    with pq.ParquetWriter(path, schema) as file:
        for start in range(0, m, CHUNK):
            uniform = rng.random((2, min(CHUNK, m - start)))
            ends = ((low + (high - low) * uniform) ** power - 10).astype(np.int64).clip(0, n - 1)
            columns = [ids[ends[0]], ids[ends[1]]]
            columns += [rng.gamma(0.7, 80.0, len(ends[0])).astype(np.float32)] if weighted else []
            file.write_table(pa.table(columns, schema=schema))
    return path


def graph_folder(work: Path, m: int) -> Path:
    """The graph folder of m edges among a tenth as many nodes; it is built if it does not exist."""
    folder = work / f"graph-{m}"
    if not folder.exists():
        edges = draw_edges(work / f"edges-{m}.parquet", m // 10, m)
        rae.build_graph(edges, folder)
        edges.unlink()
    return folder


def name(m: int) -> str:
    """The name of such a graph in a line.

    >>> name(1_000_000)
    'power law, 1,000,000 edges'
    """
    return f"power law, {m:,} edges"
