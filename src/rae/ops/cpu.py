"""The hot loops on the CPU, compiled by Numba and kept on disk between runs.

Every kernel works on a range of rows (or columns) that nobody else writes and releases the
interpreter lock, so `runtime.in_ranges` can spread it over threads without changing a bit of
the result. Random choices are hashes of (key, node, view, slot): no state, no order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit

from rae.ops.intrinsics import fetch_item
from rae.ops.row_sums import mean_row, spread_row, sum_row

F = TypeVar("F", bound=Callable[..., Any])
NEAR, FAR = 8, 24  # nodes ahead whose neighbours, and whose place in the neighbour lists, are fetched


def kernel(function: F) -> F:
    """Compile on first use: no interpreter lock, Numba's cache on disk, fused multiply-add only."""
    options: dict[str, Any] = {"nogil": True, "fastmath": {"contract"}, "error_model": "numpy"}
    try:
        compiled: Any = njit(cache=True, **options)(function)
    except RuntimeError:  # nowhere to keep the compiled code, e.g. a read-only install without a home folder
        compiled = njit(**options)(function)
    return cast(F, compiled)


# ---------------------------------------------------------------------------------- hashing


@kernel
def mix(x: Any) -> Any:
    """Scramble 64 bits (the finaliser of splitmix64)."""
    x = np.uint64(x)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@kernel
def stream(key: Any, node: Any, view: Any) -> Any:
    """The start of the random stream of one (node, view) under one key."""
    golden = np.uint64(0x9E3779B97F4A7C15)
    return mix(mix(np.uint64(key) + golden * np.uint64(node)) + golden * np.uint64(view))


@kernel
def draw(state: Any, slot: Any, bound: Any) -> Any:
    """A whole number in 0..bound-1 from slot `slot` of a stream; bound < 2**32."""
    bits = mix(state + np.uint64(0x9E3779B97F4A7C15) * np.uint64(slot + 1))
    return np.int64(((bits >> np.uint64(32)) * np.uint64(bound)) >> np.uint64(32))


# ------------------------------------------------------------------------- sorting and looking up


@kernel
def sort_values(values: Any) -> None:
    """Sort in place by Shell's method: one short loop, which compiles ten times as fast as `values.sort()`.

    Gaps are about 2.25 times each other; rows of a graph are mostly short, where it is an insertion sort.
    """
    n = len(values)
    gap = 1
    while gap < n // 3:
        gap = (9 * gap) // 4 + 2
    while gap > 0:
        for i in range(gap, n):
            value, j = values[i], i
            while j >= gap and values[j - gap] > value:
                values[j] = values[j - gap]
                j -= gap
            values[j] = value
        gap = (4 * gap) // 9 if gap > 2 else gap // 2  # ... 2, 1: the last pass is an insertion sort


@kernel
def has_edge(offsets: Any, targets: Any, u: Any, v: Any) -> Any:
    """Whether u and v share an edge, by binary search in the sorted row of u."""
    low, high = offsets[u], offsets[u + 1]
    while low < high:
        middle = (low + high) // 2
        if targets[middle] < v:
            low = middle + 1
        else:
            high = middle
    return low < offsets[u + 1] and targets[low] == v


@kernel
def adjacent(offsets: Any, targets: Any, us: Any, vs: Any, out: Any, start: Any, stop: Any) -> None:
    """out[i] = whether us[i] and vs[i] share an edge."""
    for i in range(start, stop):
        out[i] = has_edge(offsets, targets, us[i], vs[i])


# -------------------------------------------------------------------------------- features


@kernel
def neighbor_degrees(
    offsets: Any, targets: Any, degrees: Any, cap: Any, random: Any, key: Any,
    first: Any, out: Any, start: Any, stop: Any,
) -> None:  # fmt: skip
    """out[i], of node first + i: own degree, then its neighbours' degrees, largest first, `cap` at most, then zeros.

    Above the cap: `random` samples neighbours, else evenly spaced order statistics are kept.
    """
    for i in range(start, stop):
        u = first + i
        low, d = offsets[u], offsets[u + 1] - offsets[u]
        out[i, 0] = degrees[u]
        values = np.empty(d, np.float32)
        for j in range(d):
            values[j] = degrees[targets[low + j]]
        if d > cap and random:
            state = stream(key, u, 0)
            for j in range(cap):  # the first steps of a Fisher-Yates shuffle
                pick = j + draw(state, j, d - j)
                values[j], values[pick] = values[pick], values[j]
            values = values[:cap]
        sort_values(values)
        kept = len(values)
        for j in range(min(kept, cap)):
            at = j
            if kept > cap and cap > 1:
                at = (2 * j * (kept - 1) + (cap - 1)) // (2 * (cap - 1))
            out[i, 1 + j] = values[kept - 1 - at]


# -------------------------------------------------------------------------------- sampling


@kernel
def sample_counts(offsets: Any, nodes: Any, fanout: Any, out: Any) -> None:
    """out[i + 1] = running total of min(degree, fanout)."""
    total = 0
    for i in range(len(nodes)):
        if i + FAR < len(nodes):
            fetch_item(offsets, nodes[i + FAR])
        total += min(offsets[nodes[i] + 1] - offsets[nodes[i]], fanout)
        out[i + 1] = total


@kernel
def sample_rows(
    offsets: Any, targets: Any, nodes: Any, views: Any, fanout: Any, key: Any,
    out_offsets: Any, out: Any, start: Any, stop: Any,
) -> None:  # fmt: skip
    """Fill each row with `fanout` distinct neighbours (all if fewer), by Floyd's method.

    Where a node's neighbours begin is fetched FAR nodes before it is their turn, its first neighbours NEAR.
    """
    for i in range(start, stop):
        if i + FAR < stop:
            fetch_item(offsets, nodes[i + FAR])
        if i + NEAR < stop:
            fetch_item(targets, offsets[nodes[i + NEAR]])
        u = nodes[i]
        low, d, at = offsets[u], offsets[u + 1] - offsets[u], out_offsets[i]
        if d <= fanout:
            for j in range(d):
                out[at + j] = targets[low + j]
            continue
        state = stream(key, u, views[i])
        for slot in range(fanout):
            last = d - fanout + slot
            pick = draw(state, slot, last + 1)
            for j in range(slot):
                if out[at + j] == pick:
                    pick = last
                    break
            out[at + slot] = pick
        for slot in range(fanout):
            out[at + slot] = targets[low + out[at + slot]]


@kernel
def pick_neighbors(offsets: Any, targets: Any, nodes: Any, views: Any, key: Any, out: Any) -> None:
    """One uniformly drawn neighbour per (node, view); a node without any stands for itself."""
    for i in range(len(nodes)):
        u = nodes[i]
        d = offsets[u + 1] - offsets[u]
        out[i] = u if d == 0 else targets[offsets[u] + draw(stream(key, u, views[i]), 0, d)]


@kernel
def number(ids: Any, table: Any, keys: Any, count: Any, codes: Any) -> Any:
    """Give each new id the next number from `count` on, write every id's number; return how many there are.

    `table` is an open-addressing hash table of places in `keys`, -1 where free, a power of two and
    larger than the number of distinct ids.
    """
    mask = np.uint64(len(table) - 1)
    for i in range(len(ids)):
        at = mix(ids[i]) & mask
        while table[at] >= 0 and keys[table[at]] != ids[i]:
            at = (at + np.uint64(1)) & mask
        if table[at] < 0:
            table[at] = count
            keys[count] = ids[i]
            count += 1
        codes[i] = table[at]
    return count


@kernel
def non_neighbors(offsets: Any, targets: Any, nodes: Any, key: Any, exclude: Any, tries: Any, out: Any) -> None:
    """out[i, j] = a batch position whose node is not nodes[i] nor adjacent to it; -1 if none is found."""
    b, q = out.shape
    for i in range(b):
        u = nodes[i]
        state = stream(key, u, 0)
        for j in range(q):
            out[i, j] = -1
            for attempt in range(tries):
                pick = draw(state, j * tries + attempt, b)
                v = nodes[pick]
                if v != u and not (exclude and has_edge(offsets, targets, u, v)):
                    out[i, j] = pick
                    break


# ------------------------------------------------------------------------------ arithmetic


@kernel
def sum_rows(offsets: Any, index: Any, x: Any, out: Any, start: Any, stop: Any) -> None:
    """out[i] = sum of x[index[e]] over row i."""
    for i in range(start, stop):
        sum_row(x, index, None, offsets[i], offsets[i + 1], out, i)


@kernel
def mean_rows(offsets: Any, index: Any, x: Any, first: Any, out: Any, start: Any, stop: Any) -> None:
    """out[i] = mean of x[first + i] and of x[index[e]], e in offsets[i]..offsets[i + 1]: mean({u} ∪ N(u)).

    x is float32, or float16 as uint16.
    """
    for i in range(start, stop):
        low, high = offsets[i], offsets[i + 1]
        mean_row(x, first + i, index, low, high, np.float32(1) / np.float32(1 + high - low), out, i)


@kernel
def scatter_rows(offsets: Any, index: Any, grad: Any, out: Any, start: Any, stop: Any) -> None:
    """out[index[e]] += grad[i] over row i, columns start..stop only: the transpose of sum_rows."""
    for i in range(len(offsets) - 1):
        spread_row(grad, i, index, None, offsets[i], offsets[i + 1], out, start, stop)


@kernel
def sparse_dense(offsets: Any, index: Any, values: Any, first: Any, w: Any, out: Any, start: Any, stop: Any) -> None:
    """out[i] = sparse row (first + i) times w."""
    for i in range(start, stop):
        sum_row(w, index, values, offsets[first + i], offsets[first + i + 1], out, i)


@kernel
def sparse_dense_grad(offsets: Any, index: Any, values: Any, grad: Any, out: Any, start: Any, stop: Any) -> None:
    """out += sparse.T @ grad, columns start..stop only."""
    for i in range(len(offsets) - 1):
        spread_row(grad, i, index, values, offsets[i], offsets[i + 1], out, start, stop)


# ----------------------------------------------- BatchNorm, tanh and dropout in a few passes


@kernel
def fill_mask(key: Any, row: Any, threshold: Any, scale: Any, out: Any, start: Any) -> None:
    """out[j] = 0 with chance threshold / 2**32, else scale, for columns start .. start + len(out) of a row.

    A 32-bit hash per entry, seeded by a 64-bit one per row: as wide as the registers allow.
    """
    state = mix(np.uint64(key) + np.uint64(0x9E3779B97F4A7C15) * np.uint64(row + 1))
    low, high = np.uint32(state & np.uint64(0xFFFFFFFF)), np.uint32(state >> np.uint64(32))
    for j in range(len(out)):
        h = np.uint32(np.uint32(np.uint32(start + j) * np.uint32(0x9E3779B9)) + low)
        h = np.uint32((h ^ np.uint32(h >> np.uint32(16))) * np.uint32(0x7FEB352D))
        h = np.uint32((h ^ np.uint32(h >> np.uint32(15)) ^ high) * np.uint32(0x846CA68B))
        h = np.uint32(h ^ np.uint32(h >> np.uint32(16)))
        out[j] = scale if h >= np.uint32(threshold) else np.float32(0)


@kernel
def tanh_row(x: Any, out: Any) -> None:
    """out = tanh(x) to float32 accuracy, without branches, so that it runs on whole registers.

    Lambert's continued fraction p / q is exact enough for tanh(x / 4); the double-angle formula
    tanh(2a) = 2 p q / (p² + q²), twice, gives tanh(x) with one division. Beyond 9.1 tanh is 1.
    """
    one = np.float32(1)
    for j in range(len(x)):
        a = min(max(x[j], np.float32(-9.1)), np.float32(9.1)) * np.float32(0.25)
        s = a * a
        p = a * (np.float32(135135) + s * (np.float32(17325) + s * (np.float32(378) + s)))
        q = np.float32(135135) + s * (np.float32(62370) + s * (np.float32(3150) + s * np.float32(28)))
        r = p * (one / q)
        up, down = np.float32(2) * r, one + r * r
        out[j] = np.float32(2) * up * down / (down * down + up * up)


@kernel
def column_moments(x: Any, eps: Any, mean: Any, variance: Any, inverse: Any, start: Any, stop: Any) -> None:
    """Mean, variance and 1 / sqrt(variance + eps) of columns start..stop, summed in float64."""
    n, width = x.shape[0], stop - start
    total, squares = np.zeros(width), np.zeros(width)
    for i in range(n):
        row = x[i, start:stop]
        for j in range(width):
            total[j] += row[j]
    total /= n
    for i in range(n):
        row = x[i, start:stop]
        for j in range(width):
            squares[j] += (row[j] - total[j]) ** 2
    for j in range(width):
        mean[start + j] = total[j]
        variance[start + j] = squares[j] / n
        inverse[start + j] = 1.0 / np.sqrt(squares[j] / n + eps)


@kernel
def squash(
    x: Any, gain: Any, shift: Any, mean: Any, inverse: Any, key: Any, threshold: Any, scale: Any,
    kept: Any, out: Any, start: Any, stop: Any,
) -> None:  # fmt: skip
    """kept = tanh(BatchNorm(x)) and out = Dropout(kept), columns start..stop."""
    width = stop - start
    slope, level = np.empty(width, np.float32), np.empty(width, np.float32)
    for j in range(width):
        slope[j] = gain[start + j] * inverse[start + j]
        level[j] = shift[start + j] - mean[start + j] * slope[j]
    normal, mask = np.empty(width, np.float32), np.full(width, scale, np.float32)
    for i in range(x.shape[0]):
        row, done, dropped = x[i, start:stop], kept[i, start:stop], out[i, start:stop]
        for j in range(width):
            normal[j] = row[j] * slope[j] + level[j]
        tanh_row(normal, done)
        if threshold > 0:
            fill_mask(key, i, threshold, scale, mask, start)
        for j in range(width):
            dropped[j] = done[j] * mask[j]


@kernel
def squash_grad(
    grad: Any, x: Any, kept: Any, gain: Any, mean: Any, inverse: Any, key: Any, threshold: Any, scale: Any,
    out: Any, gain_grad: Any, shift_grad: Any, start: Any, stop: Any,
) -> None:  # fmt: skip
    """The gradient of `squash` through the batch statistics, columns start..stop."""
    n, width = x.shape[0], stop - start
    of_gain, of_shift = np.zeros(width), np.zeros(width)
    centre, spread = mean[start:stop], inverse[start:stop]
    mask = np.full(width, scale, np.float32)
    for i in range(n):
        row, given, done, below = x[i, start:stop], grad[i, start:stop], kept[i, start:stop], out[i, start:stop]
        if threshold > 0:
            fill_mask(key, i, threshold, scale, mask, start)
        for j in range(width):
            below[j] = given[j] * mask[j] * (np.float32(1) - done[j] * done[j])
        for j in range(width):
            of_shift[j] += below[j]
            of_gain[j] += below[j] * ((row[j] - centre[j]) * spread[j])
    slope, level, tilt = np.empty(width, np.float32), np.empty(width, np.float32), np.empty(width, np.float32)
    for j in range(width):
        gain_grad[start + j], shift_grad[start + j] = of_gain[j], of_shift[j]
        slope[j] = gain[start + j] * spread[j]
        level[j], tilt[j] = of_shift[j] / n, of_gain[j] / n * spread[j]
    for i in range(n):
        row, below = x[i, start:stop], out[i, start:stop]
        for j in range(width):
            below[j] = slope[j] * (below[j] - level[j] - (row[j] - centre[j]) * tilt[j])
