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
    order,
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
    UNROLL: tl.constexpr,  # times NEIGHBORS rows of x are on their way at once
    COLUMNS: tl.constexpr,
    KIND: tl.constexpr,  # of the sums
):
    """out[i] = sum of weights[e] * x[index[e]], e in starts[i]..ends[i], and the ego, divided.

    With a center, the root of the mean square of what is left after it. What is None is not there; `order` is of rows.
    """
    i = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    here = i < n_rows
    wide = column < width
    if order is not None:
        i = tl.load(order + i, mask=here, other=0).to(tl.int64)
    which = i
    if lists is not None:
        which = tl.load(lists + i, mask=here, other=0)
    low = tl.load(starts + which, mask=here, other=0)
    count = (tl.load(ends + which, mask=here, other=0) - low).to(tl.int32)
    if SKIP_LONG:
        here = here & (count <= longest)
        count = tl.where(here, count, 0)
    middle = tl.zeros((ROWS, COLUMNS), KIND)
    if center is not None:
        middle = tl.load(
            center + i[:, None] * center_stride + column[None, :], mask=here[:, None] & wide[None, :], other=0
        ).to(KIND)
    total = tl.zeros((ROWS, NEIGHBORS, COLUMNS), KIND)
    most = tl.max(count, 0)
    for begin in range(0, most, NEIGHBORS * UNROLL):
        for turn in tl.static_range(UNROLL):
            place = begin + turn * NEIGHBORS + tl.arange(0, NEIGHBORS)
            there = place[None, :] < count[:, None]
            e = low[:, None] + place[None, :]
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
            closes = tl.load(after + low, mask=there & (low < long_end), other=-2) == w
            tl.atomic_add(counts + w, 1, mask=there & closes)
            closed += tl.sum(closes.to(tl.int64), 0)
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


@triton.jit
def norm_tanh_dropout(
    x,
    gain,
    shift,
    drawing,
    running_mean,
    running_variance,
    batches,
    momentum,
    eps,
    mean,
    inverse,
    active,
    out,
    threshold,
    scale,
    n_rows,
    width,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """active = tanh(BatchNorm(x)), out = active with entries dropped by a hash of (key, row, column).

    `drawing` is the key, and how many rows count: the others are 0 in `out`. The running statistics follow the batch.
    """
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    wide = column < width
    key, n = tl.load(drawing), tl.load(drawing + 1).to(tl.int32)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for first in range(0, n, ROWS):
        row = first + tl.arange(0, ROWS)
        there = (row < n)[:, None] & wide[None, :]
        total += tl.load(x + row.to(tl.int64)[:, None] * width + column[None, :], mask=there, other=0)
    center = tl.sum(total, 0) / n
    squares = tl.zeros((ROWS, COLUMNS), tl.float32)
    for first in range(0, n, ROWS):
        row = first + tl.arange(0, ROWS)
        there = (row < n)[:, None] & wide[None, :]
        away = tl.load(x + row.to(tl.int64)[:, None] * width + column[None, :], mask=there, other=0) - center[None, :]
        squares += tl.where(there, away * away, 0)
    variance = tl.sum(squares, 0) / n
    factor = 1 / tl.sqrt(variance + eps)
    tl.store(mean + column, center, mask=wide)
    tl.store(inverse + column, factor, mask=wide)
    before = tl.load(running_mean + column, mask=wide, other=0)
    tl.store(running_mean + column, before + momentum * (center - before), mask=wide)
    before = tl.load(running_variance + column, mask=wide, other=0)
    unbiased = variance * n / tl.maximum(n - 1, 1)
    tl.store(running_variance + column, before + momentum * (unbiased - before), mask=wide)
    if tl.program_id(0) == 0:
        tl.store(batches, tl.load(batches) + 1)
    factor = factor * tl.load(gain + column, mask=wide, other=0)
    moved = tl.load(shift + column, mask=wide, other=0)
    for first in range(0, n_rows, ROWS):
        row = first + tl.arange(0, ROWS)
        there = (row < n_rows)[:, None] & wide[None, :]
        at = row.to(tl.int64)[:, None] * width + column[None, :]
        normal = (tl.load(x + at, mask=there, other=0) - center[None, :]) * factor[None, :] + moved[None, :]
        power = tl.exp(-2 * tl.abs(normal))
        squashed = (1 - power) / (1 + power)
        squashed = tl.where(normal < 0, -squashed, squashed)
        tl.store(active + at, squashed, mask=there)
        kept = _dropout_scale(key, row.to(tl.int64)[:, None], column[None, :], threshold, scale)
        tl.store(out + at, tl.where((row < n)[:, None], squashed * kept, 0), mask=there)


@triton.jit
def norm_tanh_dropout_grad(
    grad,
    x,
    active,
    gain,
    mean,
    inverse,
    drawing,
    out,
    of_gain,
    of_shift,
    threshold,
    scale,
    n_rows,
    width,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """out = the gradient of x: what is left of that of BatchNorm(x) without its mean and its part along the column.

    And the gradients of gain and shift; rows that do not count have none.
    """
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    wide = column < width
    key, n = tl.load(drawing), tl.load(drawing + 1).to(tl.int32)
    center = tl.load(mean + column, mask=wide, other=0)
    factor = tl.load(inverse + column, mask=wide, other=0)
    sum_shift = tl.zeros((ROWS, COLUMNS), tl.float32)
    sum_gain = tl.zeros((ROWS, COLUMNS), tl.float32)
    for first in range(0, n, ROWS):
        row = first + tl.arange(0, ROWS)
        there = (row < n)[:, None] & wide[None, :]
        at = row.to(tl.int64)[:, None] * width + column[None, :]
        squashed = tl.load(active + at, mask=there, other=0)
        back = tl.load(grad + at, mask=there, other=0) * (1 - squashed * squashed)
        back = back * _dropout_scale(key, row.to(tl.int64)[:, None], column[None, :], threshold, scale)
        sum_shift += back
        sum_gain += back * (tl.load(x + at, mask=there, other=0) - center[None, :]) * factor[None, :]
    along_shift, along_gain = tl.sum(sum_shift, 0), tl.sum(sum_gain, 0)
    tl.store(of_shift + column, along_shift, mask=wide)
    tl.store(of_gain + column, along_gain, mask=wide)
    along_shift, along_gain = along_shift / n, along_gain / n
    strength = factor * tl.load(gain + column, mask=wide, other=0)
    for first in range(0, n_rows, ROWS):
        row = first + tl.arange(0, ROWS)
        there = (row < n_rows)[:, None] & wide[None, :]
        at = row.to(tl.int64)[:, None] * width + column[None, :]
        squashed = tl.load(active + at, mask=there, other=0)
        back = tl.load(grad + at, mask=there, other=0) * (1 - squashed * squashed)
        back = back * _dropout_scale(key, row.to(tl.int64)[:, None], column[None, :], threshold, scale)
        normal = (tl.load(x + at, mask=there, other=0) - center[None, :]) * factor[None, :]
        left = (back - along_shift[None, :] - normal * along_gain[None, :]) * strength[None, :]
        tl.store(out + at, tl.where((row < n)[:, None], left, 0), mask=there)


@triton.jit
def _dropout_scale(key, row, column, threshold, scale):
    """`scale`, or 0 where an entry is dropped: the hash of `rae.ops.native`."""
    state = key.to(tl.uint64, bitcast=True) + (row + 1).to(tl.uint64) * 0x9E3779B97F4A7C15
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
