"""The digest of a graph as a line of text: sums of hashes, so that the order of rows does not count."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pyarrow as pa

from rae.graph.graph import Graph
from rae.graph.ids import as_plain
from rae.memory import forget, row_chunks, row_runs
from rae.runtime import in_ranges

Hashes = np.ndarray[Any, np.dtype[np.uint64]]

AT_ONCE = 1 << 18  # neighbours, or bytes of ids, that are read at a time
DIGEST = "digest"  # its key in `Graph.measures`; an ego graph has that of the graph it was cut from


def graph_digest(*graphs: Graph) -> str:
    """Nodes, edges, and a hash of ids, edges and weights; that of several graphs is the same in any order.

    A node is hashed with the sum over its neighbours of their hashes, and the nodes are summed: two graphs that differ
    in an id, an edge, a weight, a direction or a kind have the same digest once in 2^64. Of several graphs the sums are
    hashed again and summed, so that a node or an edge that goes from one to another is a difference.

    >>> graph = Graph.from_edges([("ann", "bob"), ("bob", "cid")])
    >>> digest = graph_digest(graph)
    >>> digest[:4], digest == graph_digest(graph.subgraph(["cid", "ann", "bob"]))
    ('3-2-', True)
    """
    for graph in graphs:
        if DIGEST not in graph.measures:
            graph.measures[DIGEST] = (*_size(graph), _hash(graph))
    nodes, edges, hashes = zip(*(graph.measures[DIGEST] for graph in graphs), strict=True)
    total = sum(_mix(np.array(hashes, np.uint64)).tolist()) if len(graphs) > 1 else hashes[0]
    return f"{sum(nodes)}-{sum(edges)}-{total % (1 << 64):016x}"


def is_digest_of(digest: str, *graphs: Graph) -> bool:
    """Whether these graphs have this digest; graphs of another size are not read."""
    nodes, edges = map(sum, zip(*map(_size, graphs), strict=True))
    return digest.startswith(f"{nodes}-{edges}-") and digest == graph_digest(*graphs)


def rows_digest(*columns: pa.Array) -> str:
    """How many rows a table has, and a hash of what is in them, the same in any order of the rows.

    >>> rows_digest(pa.array(["a", "b"]), pa.array([1, 2])) == rows_digest(pa.array(["b", "a"]), pa.array([2, 1]))
    True
    """
    rows = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        rows = _mix(rows) + _hashes_of_ids(column)
    return f"{len(rows)}-{int(_mix(rows).sum(dtype=np.uint64)):016x}"


def _size(graph: Graph) -> tuple[int, int]:
    nodes, edges, *_ = graph.measures.get(DIGEST, (graph.n_nodes, graph.n_edges))
    return nodes, edges


def _hash(graph: Graph) -> int:
    ids = _hashes_of_ids(graph.id_column)
    of_channels = {name: np.uint64(_number(name)) for name in graph.channels}
    runs = list(row_runs(graph.offsets, AT_ONCE))
    totals = np.zeros(len(runs), np.uint64)

    def work(start: int, stop: int) -> None:
        for run in range(start, stop):
            first, last = runs[run]
            starts = graph.offsets[first : last + 1]
            near = ids[graph.targets[starts[0] : starts[-1]]]
            if of_channels:
                weights = np.ones(len(near), np.uint64)
                for name, of_channel in of_channels.items():
                    weights += graph.channels[name][starts[0] : starts[-1]].view(np.uint32) * of_channel
                near *= weights
            sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(near, dtype=np.uint64)])[starts - starts[0]]
            totals[run] = _mix(ids[first:last] + _mix(np.diff(sums))).sum(dtype=np.uint64)
            forget(graph.targets, *graph.channels.values())

    in_ranges(work, len(runs))
    return int(totals.sum(dtype=np.uint64))


def _hashes_of_ids(column: pa.Array) -> Hashes:
    """A hash for each id; whole numbers of any width are hashed by value, everything else by its bytes or its text."""
    column = as_plain(column)
    if pa.types.is_integer(column.type):
        return _mix(column.to_numpy(zero_copy_only=False).astype(np.uint64))
    per_chunk = max(1, AT_ONCE * len(column) // max(1, column.nbytes))
    chunks = [_hashes_of_bytes(_in_bytes(column.slice(a, b - a))) for a, b in row_chunks(len(column), per_chunk)]
    return np.concatenate(chunks or [np.empty(0, np.uint64)])


def _in_bytes(column: pa.Array) -> pa.Array:
    kind = column.type
    is_bytes = pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)
    return column.cast(pa.large_binary()) if is_bytes else column.cast(pa.large_string()).cast(pa.large_binary())


def _hashes_of_bytes(column: pa.Array) -> Hashes:
    """For each value the sum of hashes of its bytes and their places."""
    _, where, data = column.buffers()
    offsets = np.frombuffer(where, np.int64)[column.offset : column.offset + len(column) + 1]
    content = np.frombuffer(data or b"", np.uint8)[offsets[0] : offsets[-1]].astype(np.uint64)
    offsets, lengths = offsets - offsets[0], np.diff(offsets)
    positions = np.arange(len(content), dtype=np.uint64) - np.repeat(offsets[:-1], lengths).astype(np.uint64)
    hashes = _mix(content + (positions << np.uint64(8)))
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(hashes, dtype=np.uint64)])[offsets]
    return _mix(np.diff(sums) + lengths.astype(np.uint64))


def _mix(numbers: Hashes) -> Hashes:
    """Each number hashed (SplitMix64)."""
    out = numbers + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        out ^= out >> np.uint64(shift)
        out *= np.uint64(factor)
    out ^= out >> np.uint64(31)
    return out


def _number(name: str) -> int:
    """An odd number that goes with a name."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little") | 1
