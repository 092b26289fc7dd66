"""Structure around each node: degrees of its neighbours, triangles, 4-cycles, core numbers; noisy copies of a graph."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from rae.memory import forget, row_chunks
from rae.ops.library import call, int64, is_native, reference
from rae.runtime import device, in_ranges, threads, together

Ints = np.ndarray[Any, np.dtype[np.integer[Any]]]
Floats = np.ndarray[Any, np.dtype[np.float32]]
Doubles = np.ndarray[Any, np.dtype[np.float64]]

ROWS = 1 << 18  # read of a graph before the memory of what was mapped of it is given back


def neighbor_degrees(
    offsets: Ints, targets: Ints, nodes: Any, cap: int, *, sample: bool = False, key: Any = 0
) -> Floats:
    """The degree of each node, then its neighbours' degrees, largest first, `cap` at most, then zeros.  -> (b, 1 + cap)

    `nodes` is an array or a pair (first, last). Above the cap evenly spaced order statistics remain, or a random
    sample of the neighbours that depends on (key, node).
    """
    run = isinstance(nodes, tuple)
    count = nodes[1] - nodes[0] if run else len(nodes)
    if not is_native(offsets, targets):
        chosen = np.arange(*nodes) if run else int64(nodes)
        degrees: Floats = reference().neighbor_degrees(offsets, targets, chosen, cap, sample, key)
        return degrees
    out = np.empty((count, 1 + cap), np.float32)
    first, rows = (nodes[0], None) if run else (0, int64(nodes))

    def work(a: int, b: int) -> None:
        call(
            "neighbor_degrees", offsets, targets, rows, first, cap, int(sample), int(key), out, a, b, index=targets
        )  # fmt: skip

    in_ranges(work, count, 1024)
    return out


def counts_of_nodes(offsets: Ints, targets: Ints) -> tuple[Ints, Ints, Ints]:
    """Of each node its triangles, the cycles of four different nodes it is on, its core number.  -> (n,) int64 each

    4-cycles count with or without a chord. All are counted on a copy of the rows that is ordered by degree, cycles in
    one walk over its paths of two edges; a GPU counts them one after the other.
    """
    if device() != "cpu" or not is_native(offsets, targets):
        return (*_counted_elsewhere(offsets, targets), core_numbers(offsets, targets))
    rank, starts, ranked = by_degree(offsets, targets)
    counts, core = together(partial(_cycles, starts, ranked), partial(core_numbers, starts, ranked), even=False)
    return counts[rank, 0], counts[rank, 1], core[rank]


def share_of_cycles(
    offsets: Ints, targets: Ints, share: int, shares: int, ordered: Callable[[], tuple[Ints, Ints, Ints]] | None = None
) -> tuple[Ints, Ints]:
    """What one of so many shares of the work adds to the triangles and 4-cycles of each node.  -> (n,), (n,) int64

    All shares added up are the counts. A GPU and the reference count everything in the first one. `ordered` gives what
    `by_degree` makes of these rows, for who counts several shares.
    """
    if device() != "cpu" or not is_native(offsets, targets):
        if share == 0:
            return _counted_elsewhere(offsets, targets)
        return np.zeros(len(offsets) - 1, np.int64), np.zeros(len(offsets) - 1, np.int64)
    rank, starts, ranked = by_degree(offsets, targets) if ordered is None else ordered()
    counts = _cycles(starts, ranked, share, shares)
    return counts[rank, 0], counts[rank, 1]


def _counted_elsewhere(offsets: Ints, targets: Ints) -> tuple[Ints, Ints]:
    """Triangles and 4-cycles, counted on a GPU or by the reference."""
    if device() != "cpu":
        return _on_device("triangles", offsets, targets), _on_device("four_cycles", offsets, targets)
    return reference().triangles(offsets, targets), reference().four_cycles(offsets, targets)


def _cycles(offsets: Ints, targets: Ints, share: int = 0, shares: int = 1) -> Ints:
    """Triangles and 4-cycles of the nodes of a graph whose rows are ordered by degree, or a share.  -> (n, 2)"""
    n = len(offsets) - 1
    step = max(1, min(threads(), n // 4096))  # the last rows cost most, so a thread takes every step-th row
    counts = [np.zeros((n, 2), np.int64) for _ in range(step)]  # a cycle has corners in any row: each for itself

    def work(first: int, last: int) -> None:
        for start in range(first, last):
            every = share + shares * start, shares * step
            call("count_cycles", offsets, targets, n, counts[start], *every, index=targets)

    def add_up(first: int, last: int) -> None:
        for others in counts[1:]:
            counts[0][first:last] += others[first:last]

    in_ranges(work, step)
    in_ranges(add_up, n, 4096)
    return counts[0]


def by_degree(offsets: Ints, targets: Ints) -> tuple[Ints, Ints, Ints]:
    """The place of each row in the order by degree, and the rows of the graph in that order: where they begin, entries.

    Rows are read in their own order, so that a mapped graph is never in memory as a whole.
    """
    n, degrees = len(offsets) - 1, np.diff(offsets)
    order = _stable_order(degrees).astype(targets.dtype)
    rank = np.empty_like(order)
    rank[order] = np.arange(n, dtype=order.dtype)
    starts = np.concatenate([[0], np.cumsum(degrees[order])]).astype(np.int64)
    del order, degrees
    ranked = np.empty(len(targets), targets.dtype)
    _over_rows(
        lambda a, b: call("ranked_rows", offsets, targets, rank, starts, ranked, a, b, index=targets), (0, n), targets
    )
    return rank, starts, ranked


def _stable_order(numbers: Ints) -> Ints:
    """The places of numbers from 0 up in ascending order, equal ones as they come: sorted by 16 bits at a time.

    >>> _stable_order(np.array([70_000, 3, 0, 3])).tolist()
    [2, 1, 3, 0]
    """
    order = np.argsort(numbers.astype(np.uint16), kind="stable")  # of the lowest 16 bits, by counting
    for shift in range(16, int(numbers.max(initial=0)).bit_length(), 16):
        order = order[np.argsort((numbers[order] >> shift).astype(np.uint16), kind="stable")]
    return order


def _over_rows(work: Callable[[int, int], Any], rows: tuple[int, int], *arrays: Any) -> None:
    """Call work(start, stop) over these rows by threads, some at a time; what was mapped is given back."""
    for first, last in row_chunks(rows[1] - rows[0], ROWS):
        in_ranges(partial(_shifted, work, rows[0] + first), last - first, 1024)
        forget(*arrays)


def _shifted(work: Callable[[int, int], Any], first: int, start: int, stop: int) -> None:
    work(first + start, first + stop)


def paths_counted(offsets: Ints, targets: Ints) -> int:
    """Paths of two edges that counting cycles looks at: each edge from its end of higher degree."""
    if not is_native(offsets, targets):
        degree = np.diff(offsets)
        here, there = np.repeat(degree, degree), degree[targets]
        return int(there[there <= here].sum())
    counts: list[int] = []
    _over_rows(
        lambda a, b: counts.append(call("count_paths", offsets, targets, a, b, index=targets)),
        (0, len(offsets) - 1),
        targets,
    )
    return sum(counts)


def estimate_cycles(
    offsets: Ints, targets: Ints, draws: int, key: Any, rows: tuple[int, int] | None = None
) -> tuple[Doubles, Doubles]:
    """Triangles and 4-cycles of each node, or of rows a..b, estimated from `draws` pairs of neighbours.  -> (n,), (n,)

    Without bias; exact where a node has no more pairs and short lists. The pairs are a hash
    of (key, node). The reference counts instead of estimating.
    """
    n = len(offsets) - 1
    first, last = rows or (0, n)
    if not is_native(offsets, targets):
        counts = reference().triangles(offsets, targets), reference().four_cycles(offsets, targets)
        return counts[0][first:last].astype(np.float64), counts[1][first:last].astype(np.float64)
    arrays = offsets, targets, int(key), draws, np.zeros(n), np.zeros(n)  # zeros that nobody writes take no memory
    work = partial(call, "estimate_cycles", *arrays, index=targets)
    in_ranges(lambda a, b: work(first + a, first + b), last - first, 1024)
    return arrays[4][first:last], arrays[5][first:last]


def view(
    offsets: Ints,
    targets: Ints,
    added: tuple[Ints, Ints],
    key: Any,
    noise: float,
    *,
    empty: Any = np.empty,
    rows: tuple[int, int] | None = None,
) -> tuple[np.ndarray[Any, np.dtype[np.int64]], Ints]:
    """The rows of a noisy copy of a graph, or its rows a..b: some edges dropped, the rows of `added` merged in.

    Whether an edge stays is a hash of (key, edge). `empty` makes the array of entries. -> offsets (n + 1,), where other
    rows are empty, and targets
    """
    n = len(offsets) - 1
    first, last = rows or (0, n)
    threshold = min(round(noise * 2**64), 2**64 - 1)
    if not is_native(offsets, targets, *added):
        starts, out = reference().view(offsets, targets, added, key, threshold)
        low, high = int(starts[first]), int(starts[last])
        return np.clip(starts, low, high) - low, out[low:high]
    also = np.ascontiguousarray(added[1], targets.dtype)
    graph = (offsets, targets, int64(added[0]), also, int(key), threshold)
    starts = np.zeros(n + 1, np.int64)  # zeros that nobody writes take no memory
    some = first, last
    _over_rows(lambda a, b: call("view_counts", *graph, starts, a, b, index=targets), some, targets)
    np.cumsum(starts[first : last + 1], out=starts[first : last + 1])
    out = empty(int(starts[last]), targets.dtype)
    _over_rows(lambda a, b: call("view_rows", *graph, starts, out, a, b, index=targets), some, targets, out)
    starts[last + 1 :] = starts[last]
    return starts, out


def view_weights(
    graph: tuple[Ints, Ints, tuple[Ints, Ints], Any, float],
    rows: tuple[Ints, Ints],
    here: Floats,
    there: Floats,
    *,
    empty: Any = np.empty,
    of: tuple[int, int] | None = None,
) -> Floats:
    """The weights in a channel of a noisy copy of a graph, for each stored neighbour of the copy, or of its rows a..b.

    `graph` are the arguments of `view`, `rows` what it gave. An edge of the graph keeps its weight; an added pair takes
    that of a random edge, a hash of (key, pair), seen by its first row as in `here` and by its second as in `there`,
    the channel of the other direction.
    """
    offsets, targets, added, key, noise = graph
    if not is_native(offsets, targets, *rows, here, there):
        plain: Floats = reference().view_weights((offsets, targets, added, key, 0), rows, here, there)
        return plain
    threshold = min(round(noise * 2**64), 2**64 - 1)
    also = np.ascontiguousarray(added[1], targets.dtype)
    starts, out = rows[0], empty(len(rows[1]), np.float32)
    arguments = (offsets, targets, int64(added[0]), also, int(key), threshold, here, there, len(targets), starts, out)
    work = partial(call, "view_weights", *arguments, index=targets)
    _over_rows(work, of or (0, len(offsets) - 1), targets, here, there, out)
    weights: Floats = out
    return weights


def strengths(offsets: Ints, weights: Floats) -> tuple[Ints, Doubles]:
    """How many weights of each row are above 0, and their sum, in the order of the row.  -> (n,), (n,)"""
    n = len(offsets) - 1
    if not is_native(offsets, weights):
        result: tuple[Ints, Doubles] = reference().strengths(offsets, weights)
        return result
    counts, sums = np.empty(n, np.int64), np.empty(n)
    in_ranges(lambda a, b: call("strengths", offsets, weights, counts, sums, a, b), n, 1024)
    return counts, sums


def core_numbers(offsets: Ints, targets: Ints) -> Ints:
    """The largest k such that the node is in the k-core.  -> (n,)"""
    if device() != "cpu":
        settled: Ints | None = _on_device("core_numbers", offsets, targets)
        if settled is not None:
            return settled
    if not is_native(offsets, targets):
        result: Ints = reference().core_numbers(offsets, targets)
        return result
    core = np.ascontiguousarray(np.diff(offsets), np.int64)
    call("core_numbers", offsets, targets, len(core), core, index=targets)
    return core


def _on_device(name: str, offsets: Ints, targets: Ints) -> Any:
    """What an operation of `rae.ops.device` gives, on the device in force."""
    import torch

    from rae.ops import device as on_gpu

    return getattr(on_gpu, name)(torch.device(device()), offsets, targets)
