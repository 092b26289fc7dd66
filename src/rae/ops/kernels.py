"""Triton kernels: imported only where a GPU works. `rae.ops.device` says what they compute and launches them.

No output is added to by several programs, except whole numbers, whose sum has no order: the same bytes on every run.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def gather_rows(
    x,
    stride,
    index,
    weights,
    starts,
    ends,
    lists,
    ego,
    first,
    center,
    center_stride,
    divisors,
    out,
    out_stride,
    n_rows,
    width,
    longest,
    EGO: tl.constexpr,  # 0 none, 1 row first + i, 2 row ego[i]
    DIVIDE: tl.constexpr,  # 0 a sum, 1 by the number of rows, 2 by divisors[i]
    SKIP_LONG: tl.constexpr,  # rows of more than `longest` neighbours are left to others
    ROWS: tl.constexpr,
    NEIGHBORS: tl.constexpr,
    COLUMNS: tl.constexpr,
    KIND: tl.constexpr,  # of the sums
):
    """out[i] = sum of weights[e] * x[index[e]], e in starts[i]..ends[i], and the ego, divided.

    With a center, the root of the mean square of what is left after it. What is None is not there.
    """
    i = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    here = i < n_rows
    wide = column < width
    which = i
    if lists is not None:
        which = tl.load(lists + i, mask=here, other=0)
    low = tl.load(starts + which, mask=here, other=0)
    count = tl.load(ends + which, mask=here, other=0) - low
    if SKIP_LONG:
        here = here & (count <= longest)
        count = tl.where(count <= longest, count, 0)
    middle = tl.zeros((ROWS, COLUMNS), KIND)
    if center is not None:
        middle = tl.load(
            center + i[:, None] * center_stride + column[None, :], mask=here[:, None] & wide[None, :], other=0
        ).to(KIND)
    place = tl.arange(0, NEIGHBORS)
    total = tl.zeros((ROWS, NEIGHBORS, COLUMNS), KIND)
    most = tl.max(count, 0)
    for begin in range(0, most, NEIGHBORS):
        e = low[:, None] + begin + place[None, :]
        there = (begin + place[None, :]) < count[:, None]
        row = e
        if index is not None:
            row = tl.load(index + e, mask=there, other=0).to(tl.int64)
        weight = tl.zeros((ROWS, NEIGHBORS), KIND)
        if weights is not None:
            weight = tl.load(weights + e, mask=there, other=0).to(KIND)
            there = there & (weight != 0)
        at = x + row[:, :, None] * stride + column[None, None, :]
        value = tl.load(at, mask=there[:, :, None] & wide[None, None, :], other=0).to(KIND)
        if center is not None:
            value = tl.where(there[:, :, None], value - middle[:, None, :], 0)
            value = value * value
        if weights is not None:
            value = value * weight[:, :, None]
        total += value
    answer = tl.sum(total, 1)
    share = count.to(KIND)
    if EGO > 0:
        own = first + i
        if EGO == 2:
            own = tl.load(ego + i, mask=here, other=0)
        answer += tl.load(x + own[:, None] * stride + column[None, :], mask=here[:, None] & wide[None, :], other=0).to(
            KIND
        )
        share += 1
    if DIVIDE == 2:
        share = tl.load(divisors + i, mask=here, other=1).to(KIND)
    if DIVIDE > 0:
        share = tl.where(share > 0, share, 1)
        answer = answer / share[:, None]
    if center is not None:  # noqa: SIM102 (each is decided when it is compiled)
        if DIVIDE > 0:
            answer = tl.sqrt(answer)
    tl.store(out + i[:, None] * out_stride + column[None, :], answer, mask=here[:, None] & wide[None, :])


@triton.jit
def count_triangles(starts, after, edge_from, edge_to, counts, TILE: tl.constexpr):
    """counts += the triangles of each corner, from the edges e = (u, v) of rows that name later nodes alone."""
    e = tl.program_id(0).to(tl.int64)
    u = tl.load(edge_from + e).to(tl.int64)
    v = tl.load(edge_to + e).to(tl.int64)
    short, short_end = tl.load(starts + u), tl.load(starts + u + 1)
    long, long_end = tl.load(starts + v), tl.load(starts + v + 1)
    if long_end - long < short_end - short:
        short, long = long, short
        short_end, long_end = long_end, short_end
    closed = tl.zeros((), tl.int64)
    if long_end > long:
        for begin in range(short, short_end, TILE):
            place = begin + tl.arange(0, TILE)
            there = place < short_end
            w = tl.load(after + place, mask=there, other=-1)
            low = tl.zeros((TILE,), tl.int64) + long
            high = tl.zeros((TILE,), tl.int64) + long_end
            left = long_end - long
            while left > 0:
                middle = (low + high) // 2
                smaller = tl.load(after + middle, mask=there & (low < high), other=0) < w
                low = tl.where((low < high) & smaller, middle + 1, low)
                high = tl.where((low < high) & (smaller == 0), middle, high)
                left = left // 2
            found = tl.load(after + low, mask=there & (low < long_end), other=-2) == w
            tl.atomic_add(counts + w, 1, mask=there & found)
            closed += tl.sum(found.to(tl.int64), 0)
    if closed > 0:
        tl.atomic_add(counts + u, closed)
        tl.atomic_add(counts + v, closed)


@triton.jit
def h_index(offsets, targets, nodes, core, out, changed, longest, TILE: tl.constexpr):
    """out[u] = the largest h such that h neighbours of u have a core of h or more, and at most core[u].

    Of the nodes that are named, else of those with at most `longest` neighbours.
    """
    u = tl.program_id(0).to(tl.int64)
    if nodes is not None:
        u = tl.load(nodes + u)
    start, end = tl.load(offsets + u), tl.load(offsets + u + 1)
    now = tl.load(core + u)
    low = tl.zeros((), tl.int64)
    high = now
    if nodes is None:  # noqa: SIM102
        if end - start > longest:
            return
    while low < high:
        middle = (low + high + 1) // 2
        count = tl.zeros((), tl.int64)
        for begin in range(start, end, TILE):
            place = begin + tl.arange(0, TILE)
            v = tl.load(targets + place, mask=place < end, other=0)
            value = tl.load(core + v, mask=place < end, other=-1)
            count += tl.sum((value >= middle).to(tl.int64), 0)
        if count >= middle:
            low = middle
        else:
            high = middle - 1
    tl.store(out + u, low)
    if low < now:
        tl.store(changed, 1)


@triton.jit(do_not_specialize=["key"])
def norm_tanh_dropout(x, gain, shift, mean, inverse, active, out, key, threshold, scale, n, width, TILE: tl.constexpr):
    """active = tanh(BatchNorm(x)), out = active with entries dropped by a hash of (key, row, column)."""
    at = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    there = at < n * width
    row, column = at // width, at % width
    value = tl.load(x + at, mask=there, other=0)
    normal = (value - tl.load(mean + column, mask=there, other=0)) * tl.load(inverse + column, mask=there, other=0)
    normal = normal * tl.load(gain + column, mask=there, other=0) + tl.load(shift + column, mask=there, other=0)
    power = tl.exp(-2 * tl.abs(normal))
    squashed = (1 - power) / (1 + power)
    squashed = tl.where(normal < 0, -squashed, squashed)
    tl.store(active + at, squashed, mask=there)
    tl.store(out + at, squashed * _kept(key, row, column, threshold, scale), mask=there)


@triton.jit(do_not_specialize=["key"])
def norm_tanh_dropout_grad(
    grad, x, active, mean, inverse, of_shift, of_gain, key, threshold, scale, n, width, TILE: tl.constexpr
):
    """of_shift = the gradient of each entry before dropout and tanh, of_gain = the same times the normalised entry."""
    at = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    there = at < n * width
    row, column = at // width, at % width
    squashed = tl.load(active + at, mask=there, other=0)
    back = tl.load(grad + at, mask=there, other=0) * _kept(key, row, column, threshold, scale)
    back = back * (1 - squashed * squashed)
    away = tl.load(x + at, mask=there, other=0) - tl.load(mean + column, mask=there, other=0)
    tl.store(of_shift + at, back, mask=there)
    tl.store(of_gain + at, back * away * tl.load(inverse + column, mask=there, other=0), mask=there)


@triton.jit
def norm_grad(back, x, gain, mean, inverse, sum_shift, sum_gain, out, n, width, TILE: tl.constexpr):
    """out = the gradient of x: what is left of `back` without its mean and its part along the normalised column."""
    at = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    there = at < n * width
    column = at % width
    scale = tl.load(inverse + column, mask=there, other=0)
    normal = (tl.load(x + at, mask=there, other=0) - tl.load(mean + column, mask=there, other=0)) * scale
    first = tl.load(sum_shift + column, mask=there, other=0) / n
    second = tl.load(sum_gain + column, mask=there, other=0) / n
    left = tl.load(back + at, mask=there, other=0) - first - normal * second
    tl.store(out + at, left * tl.load(gain + column, mask=there, other=0) * scale, mask=there)


@triton.jit
def _kept(key, row, column, threshold, scale):
    """`scale`, or 0 where an entry is dropped: the hash of `rae.ops.native`."""
    state = key.to(tl.int64).to(tl.uint64, bitcast=True) + (row + 1).to(tl.uint64) * 0x9E3779B97F4A7C15
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9
    state = (state ^ (state >> 27)) * 0x94D049BB133111EB
    state = state ^ (state >> 31)
    low = (state & 0xFFFFFFFF).to(tl.uint32)
    high = (state >> 32).to(tl.uint32)
    h = column.to(tl.uint32) * 0x9E3779B9 + low
    h = (h ^ (h >> 16)) * 0x7FEB352D
    h = (h ^ (h >> 15) ^ high) * 0x846CA68B
    h = h ^ (h >> 16)
    return tl.where(h.to(tl.int64) >= threshold, scale, 0.0)
