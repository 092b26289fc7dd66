"""The loops of the graph builder: number ids, deal edges to stripes of rows, sort rows, renumber them.

An end of an edge on its way into a row is one 64-bit key: the row within its stripe from bit `ROW` on, below it the
neighbour. Sorted, the keys of a stripe are its rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rae.ops.cpu import kernel, sort_values

ROW = 48  # the neighbour's bits; above them there is room for 2**15 rows of a stripe


@kernel
def mark(ids: Any, low: Any, present: Any) -> None:
    """present[id - low] = True for every id."""
    for i in range(len(ids)):
        present[ids[i] - low] = True


@kernel
def count_bits(word: Any) -> Any:
    """The number of bits set in 64; one instruction where the processor has it."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@kernel
def look_up(ids: Any, low: Any, before: Any, words: Any, out: Any) -> None:
    """out[i] = the number of ids below ids[i]: those before its word of the bit table, and those within the word.

    A bit and a half per id stays in the cache, where a plain table of 32 or 64 bits per id does not.
    """
    for i in range(len(ids)):
        at = np.uint64(ids[i] - low)
        word, bit = at >> np.uint64(6), at & np.uint64(63)
        out[i] = before[word] + count_bits(words[word] & ((np.uint64(1) << bit) - np.uint64(1)))


@kernel
def deal(source: Any, target: Any, bits: Any, ends: Any, out: Any) -> Any:
    """Both ends of every non-loop edge as keys, stripe after stripe of 2**bits rows; return the number of self-loops.

    ends[s], all zero before, is where stripe s ends in `out`.
    """
    loops, total, below = 0, 0, (1 << bits) - 1
    for e in range(len(source)):
        if source[e] == target[e]:
            loops += 1
        else:
            ends[source[e] >> bits] += 1
            ends[target[e] >> bits] += 1
    for s in range(len(ends)):
        total, ends[s] = total + ends[s], total
    for e in range(len(source)):
        u, v = np.int64(source[e]), np.int64(target[e])
        if u != v:
            out[ends[u >> bits]] = (u & below) << ROW | v
            ends[u >> bits] += 1
            out[ends[v >> bits]] = (v & below) << ROW | u
            ends[v >> bits] += 1
    return loops


@kernel
def sort_digit(keys: Any, shift: Any, cursor: Any, out: Any) -> None:
    """out = the keys, ascending in the bits from `shift` on that number the cursors, else in the order they had."""
    total, mask = 0, len(cursor) - 1
    for i in range(len(cursor)):
        cursor[i] = 0
    for e in range(len(keys)):
        cursor[(keys[e] >> shift) & mask] += 1
    for i in range(len(cursor)):
        total, cursor[i] = total + cursor[i], total
    for e in range(len(keys)):
        digit = (keys[e] >> shift) & mask
        out[cursor[digit]] = keys[e]
        cursor[digit] += 1


@kernel
def fill_rows(keys: Any, first: Any, ends: Any, lengths: Any, out: Any) -> Any:
    """out = the neighbours of rows first, first + 1, ..., each once; return their number, lengths[i] of row i.

    The keys have neighbours ascending; `ends` is all zero before.
    """
    total = size = at = 0
    for e in range(len(keys)):
        ends[(keys[e] >> ROW) - first] += 1
    for i in range(len(ends)):
        total, ends[i] = total + ends[i], total
    for e in range(len(keys)):
        u = (keys[e] >> ROW) - first
        out[ends[u]] = keys[e] & ((1 << ROW) - 1)
        ends[u] += 1
    for i in range(len(ends)):
        row_start = size
        while at < ends[i]:
            if size == row_start or out[at] != out[size - 1]:
                out[size] = out[at]
                size += 1
            at += 1
        lengths[i] = size - row_start
    return size


@kernel
def breadth_first(offsets: Any, targets: Any, starts: Any, visited: Any, out: Any) -> None:
    """out = all nodes: each start not yet visited, then the nodes connected with it, nearest first."""
    at = end = 0
    for i in range(len(starts)):
        if visited[starts[i]]:
            continue
        visited[starts[i]] = True
        out[end] = starts[i]
        end += 1
        while at < end:
            u = out[at]
            at += 1
            for e in range(offsets[u], offsets[u + 1]):
                v = targets[e]
                if not visited[v]:
                    visited[v] = True
                    out[end] = v
                    end += 1


@kernel
def relabel_rows(
    offsets: Any, targets: Any, order: Any, rank: Any, starts: Any, out: Any, start: Any, stop: Any
) -> None:
    """Rows start..stop of the graph whose row i is row order[i] of this one; row i begins at starts[i] - starts[0]."""
    for i in range(start, stop):
        at, u = starts[i] - starts[0], order[i]
        row = out[at : at + offsets[u + 1] - offsets[u]]
        for j in range(len(row)):
            row[j] = rank[targets[offsets[u] + j]]
        sort_values(row)
