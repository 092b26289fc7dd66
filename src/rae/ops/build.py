"""The loops of the graph builder: number ids, deal edges to stripes of rows, sort rows, renumber them.

An end of an edge on its way into a row is one 64-bit key: the row within its stripe from bit `ROW` on, below it the
neighbour. Sorted, the keys of a stripe are its rows. Outputs are buffers of the caller, which uses them again and
again: fresh memory costs as much as the work done in it.

Where edges have weights, directions or kinds, the lowest `CHANNEL` bits of a key say which channel its weight belongs
to, the neighbour stands above them, and the weights are in an array of their own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rae.ops.library import call, is_native
from rae.runtime import in_ranges

Array = np.ndarray[Any, Any]

ROW = 48  # the neighbour's bits; above them there is room for 2**15 rows of a stripe
CHANNEL = 5  # bits of a key that number its channel


def mark_ids(ids: Array, low: int, present: Array) -> None:
    """present[id - low] = True for every id; ids are int64, or uint64 seen as int64."""
    if is_native(ids):
        call("mark_ids", ids, len(ids), int(low), present)
    else:
        present[_distance(ids, low)] = True


def look_up(ids: Array, low: int, before: Array, words: Array, out: Array) -> None:
    """out[i] = the number of ids below ids[i]: `before` its 64-bit word of the bit table, and within the word."""
    if is_native(ids):
        call("look_up", ids, len(ids), int(low), before, words, out, index=out)
    else:
        bits = np.unpackbits(words.astype("<u8").view(np.uint8), bitorder="little")
        out[:] = (np.cumsum(bits, dtype=np.int64) - 1)[_distance(ids, low)]


def number_ids(ids: Array, table: Array, keys: Array, count: int, codes: Array) -> int:
    """The number of distinct ids, after each new one was numbered from `count` on and every number written to codes.

    `table` is an open-addressing hash table of places in `keys`, -1 where free; its length is a power of two.
    """
    if is_native(ids):
        return int(call("number_ids", ids, len(ids), table, len(table), keys, count, codes, index=table))
    number_of_key = {key: place for place, key in enumerate(keys[:count].tolist())}
    numbers = [number_of_key.setdefault(key, len(number_of_key)) for key in ids.tolist()]
    keys[count : len(number_of_key)] = list(number_of_key)[count:]
    codes[:] = numbers
    return len(number_of_key)


def deal(source: Array, target: Array, bits: int, ends: Array, out: Array) -> int:
    """The number of self-loops, after both ends of every other edge were written as keys, by stripes of 2**bits rows.

    ends[s], all zero before, becomes the end of stripe s in `out`.
    """
    if is_native(source):
        return int(call("deal", source, target, len(source), bits, ends, len(ends), out, index=source))
    edges = source != target
    both = np.stack([source[edges], target[edges]], 1).astype(np.int64)
    own, other = both.ravel(), both[:, ::-1].ravel()
    order = np.argsort(own >> bits, kind="stable")
    out[: len(own)] = ((own & ((1 << bits) - 1)) << ROW | other)[order]
    ends[:] = np.cumsum(np.bincount(own >> bits, minlength=len(ends)))
    return int(len(source) - edges.sum())


def sort_digit(keys: Array, shift: int, cursor: Array, out: Array) -> None:
    """out = the keys, ascending in the bits from `shift` on that number the cursors, else in the order they had."""
    if is_native(keys):
        call("sort_digit", keys, len(keys), shift, cursor, len(cursor), out)
    else:
        out[:] = keys[np.argsort((keys >> shift) & (len(cursor) - 1), kind="stable")]


def fill_rows(keys: Array, first: int, ends: Array, lengths: Array, out: Array) -> int:
    """The number of entries of rows first, first + 1, ..., written to `out`, each neighbour once; lengths[i] of row i.

    The keys have neighbours ascending; `ends` is all zero before.
    """
    if is_native(keys):
        return int(call("fill_rows", keys, len(keys), first, ends, len(ends), lengths, out, index=out))
    ordered = np.unique(keys)
    out[: len(ordered)] = ordered & ((1 << ROW) - 1)
    lengths[:] = np.bincount((ordered >> ROW) - first, minlength=len(lengths))
    return len(ordered)


def deal_weighted(
    source: Array,
    target: Array,
    weights: Array,
    kinds: Array,
    directions: int,
    bits: int,
    ends: Array,
    out: Array,
    out_weights: Array,
) -> int:
    """`deal` for edges with weights and kinds (float32 numbers): keys say the channel, the weights are in their order.

    The channel of a source is kind * directions, that of a target the last one of the kind.
    """
    if is_native(source):
        return int(
            call(
                "deal_weighted", source, target, weights, kinds, directions, len(source), bits, ends, len(ends), out,
                out_weights, index=source,
            )
        )  # fmt: skip
    edges = source != target
    both = np.stack([source[edges], target[edges]], 1).astype(np.int64)
    channel = kinds[edges].astype(np.int64) * directions
    channels = np.stack([channel, channel + directions - 1], 1).ravel()
    own, other = both.ravel(), both[:, ::-1].ravel()
    order = np.argsort(own >> bits, kind="stable")
    out[: len(own)] = ((own & ((1 << bits) - 1)) << ROW | other << CHANNEL | channels)[order]
    out_weights[: len(own)] = np.repeat(weights[edges], 2)[order]
    ends[:] = np.cumsum(np.bincount(own >> bits, minlength=len(ends)))
    return int(len(source) - edges.sum())


def sort_weighted_digit(keys: Array, weights: Array, shift: int, cursor: Array, out: Array, out_weights: Array) -> None:
    """`sort_digit` for keys that have weights."""
    if is_native(keys):
        call("sort_weighted_digit", keys, weights, len(keys), shift, cursor, len(cursor), out, out_weights)
    else:
        order = np.argsort((keys >> shift) & (len(cursor) - 1), kind="stable")
        out[:], out_weights[:] = keys[order], weights[order]


def fill_weighted_rows(
    keys: Array,
    weights: Array,
    first: int,
    ends: Array,
    lengths: Array,
    spare: tuple[Array, Array],
    largest: bool,
    out: Array,
    out_weights: Array,
) -> tuple[int, int]:
    """`fill_rows` for keys that have weights: entries written, and how many weights of them there are.

    out_weights[c, i] is the sum, or the `largest`, of the weights of channel c of entry i, in the order of the keys; 0
    where there is none. `spare` has room for keys and weights.
    """
    channels, stride = out_weights.shape
    if is_native(keys):
        slots = np.zeros(1, np.int64)
        size = call(
            "fill_weighted_rows", keys, weights, len(keys), first, ends, len(ends), lengths, *spare, channels,
            int(largest), out, out_weights, stride, slots, index=out,
        )  # fmt: skip
        return int(size), int(slots[0])
    entries, which = np.unique(keys >> CHANNEL, return_inverse=True)
    channel = keys & ((1 << CHANNEL) - 1)
    values = np.zeros((channels, len(entries)))
    (np.maximum if largest else np.add).at(values, (channel, which), weights.astype(np.float64))
    out[: len(entries)] = entries & ((1 << (ROW - CHANNEL)) - 1)
    with np.errstate(over="ignore"):
        out_weights[:, : len(entries)] = values
    lengths[:] = np.bincount((entries >> (ROW - CHANNEL)) - first, minlength=len(lengths))
    return len(entries), len(np.unique(keys))


def breadth_first(offsets: Array, targets: Array, starts: Array) -> Array:
    """All nodes: each start not yet visited, then the nodes connected with it, nearest first.  (n,) -> (n,)"""
    n = len(starts)
    out, visited = np.empty(n, targets.dtype), np.zeros(n, np.bool_)
    starts = starts.astype(targets.dtype, copy=False)
    if is_native(targets):
        call("breadth_first", offsets, targets, starts, n, visited, out, index=targets)
        return out
    at = end = 0
    for start in starts:
        fresh = [] if visited[start] else [start]
        while fresh or at < end:
            visited[fresh] = True
            out[end : end + len(fresh)] = fresh
            end += len(fresh)
            around = targets[offsets[out[at]] : offsets[out[at] + 1]]
            fresh, at = around[~visited[around]].tolist(), at + 1
    return out


def relabel_rows(offsets: Array, targets: Array, order: Array, rank: Array, starts: Array) -> Array:
    """The entries of the rows `order`, renumbered by `rank`, ascending in each row; row i begins at starts[i]."""
    out = np.empty(int(starts[-1] - starts[0]), targets.dtype)
    order, rank = (array.astype(targets.dtype, copy=False) for array in (order, rank))
    if is_native(targets):
        in_ranges(
            lambda a, b: call("relabel_rows", offsets, targets, order, rank, starts, out, a, b, index=targets),
            len(order),
            1024,
        )
        return out
    for u, at in zip(order, starts - starts[0], strict=False):
        row = np.sort(rank[targets[offsets[u] : offsets[u + 1]]])
        out[at : at + len(row)] = row
    return out


def _distance(ids: Array, low: int) -> Array:
    """ids - low, where both are int64 or both uint64 seen as int64."""
    return (ids.view(np.uint64) - np.array(low, np.int64).view(np.uint64)).view(np.int64)
