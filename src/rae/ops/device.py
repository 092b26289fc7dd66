"""Operations on a GPU: what the kernels of `rae.ops.kernels` are given, and what is made of their results.

A list of neighbours is added up by one program; lists of more than LONGEST are cut, their parts added up as lists, and
the sums of the parts added up in the same way, so that no program has more than LONGEST rows to read, however many
neighbours a hub has. Every sum has one order: the bytes are the same on every run.

Where an operation gets arrays in main memory while `rae.runtime.on_device` is in force, they are copied to the device
once, and what comes back is in main memory again.
"""

from __future__ import annotations

import contextlib
import weakref
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rae import runtime
from rae.ops import reference
from rae.ops.reference import tensor

KINDS = (torch.float32, torch.float16, torch.bfloat16)  # of tables
LONGEST = 1024  # neighbours that one program adds up
SHORT = 1 << 17  # entries of all lists together up to which none is cut
ENTRIES = 4096  # numbers of a program at a time
# The quickest on an H200, by columns and bytes of a number: rows, neighbours, warps (benchmarks/gpu.py --tune).
SHAPES = {
    (4, 4): (64, 8, 4),
    (8, 4): (32, 8, 4),
    (32, 4): (8, 8, 4),
    (64, 4): (4, 4, 2),
    (64, 2): (4, 4, 2),
    (128, 4): (2, 4, 2),
    (128, 2): (2, 4, 2),
    (256, 4): (1, 4, 1),
    (256, 2): (1, 4, 1),
}
NARROW = 32  # columns up to which sums are taken in double precision: they cost little there
PATHS = 1 << 28  # paths of two edges that are sorted at a time to count 4-cycles
ROUNDS, ROUNDS_AT_ONCE = 500, 4  # of the iteration that finds core numbers, before it is left to the CPU
TILE = 1024  # entries of a level that a program works on
MOST_PROGRAMS = 1 << 30  # of one launch


def place_of(*arrays: Any) -> torch.device | None:
    """The GPU that works on these arrays: where one of them is, else the one in force; None for the CPU."""
    for array in arrays:
        if isinstance(array, Tensor) and array.device.type != "cpu":
            return array.device if type(array) in (Tensor, torch.nn.Parameter) and _compiles(array.device) else None
    name = runtime.device()
    return None if name == "cpu" else torch.device(name)


def _compiles(device: torch.device) -> bool:
    """Whether Triton makes kernels for this device."""
    return device.type == "cuda"


class Copies:
    """Arrays on a device: each array in main memory is copied once, and forgotten when it is no more."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._known: dict[int, tuple[Any, Tensor]] = {}

    def of(self, array: Any) -> Any:
        """The array as a tensor on the device; what is no array stays as it is."""
        if isinstance(array, Tensor):
            return array.to(self.device)
        if not isinstance(array, np.ndarray):
            return array
        if id(array) not in self._known:
            self._known[id(array)] = weakref.ref(array, partial(self._forget, id(array))), tensor(array, self.device)
        return self._known[id(array)][1]

    def _forget(self, key: int, _: Any) -> None:
        self._known.pop(key, None)


def copies(device: torch.device) -> Copies:
    """The copies of the work that is in force, or new ones."""
    return runtime.cached_on_device(lambda: Copies(device)) if runtime.device() != "cpu" else Copies(device)


# ----------------------------------------------------------------------------- gathering rows


def mean(device: torch.device, x: Tensor, offsets: Any, index: Any, ego: Any, lists: Any) -> Tensor:
    """mean({u} ∪ N(u)), as `rae.ops.gather.mean`."""
    rows = _lists(copies(device), x, offsets, index, lists)
    out = torch.empty((rows.count, rows.width), device=device)
    rows.gather(out, ego=ego if isinstance(ego, int) else copies(device).of(ego), divide=True)
    return out.to(x.device)


def moments(device: torch.device, x: Tensor, offsets: Any, index: Any, lists: Any, spread: int, weights: Any) -> Tensor:
    """Mean over N(u) and the deviation of the first columns, as `rae.ops.gather.moments`."""
    rows = _lists(copies(device), x, offsets, index, lists, weights)
    if weights is not None or rows.width <= NARROW:
        rows = replace(rows, kind=torch.float64)
    out = torch.empty((rows.count, rows.width + spread), device=device)
    divide: Any = True if weights is None else rows.totals()
    rows.gather(out[:, : rows.width], divide=divide)
    if spread:
        first = replace(rows, x=rows.x[:, :spread], kind=torch.float64)
        first.gather(out[:, rows.width :], divide=divide, center=out)
    return out.to(x.device)


def sums(x: Tensor, offsets: Any, index: Any, weights: Any) -> Tensor:
    """Row i is the sum of weights[e] * x[index[e]], e in offsets[i]..offsets[i + 1].  (m, d) -> (r, d)"""
    rows = _lists(copies(x.device), x, offsets, index, None, weights)
    out = torch.empty((rows.count, rows.width), device=x.device)
    rows.gather(out)
    return out


def added_back(x: Tensor, source: Tensor, target: Tensor, n: int) -> Tensor:
    """Row t is the sum of x[source[e]] over the e with target[e] = t, in their order.  (r, d), (e,), (e,) -> (n, d)"""
    ordered, order = torch.sort(target, stable=True)
    offsets = torch.searchsorted(ordered, torch.arange(n + 1, device=x.device))
    return sums(x, offsets, source[order], None)


def _lists(place: Copies, x: Tensor, offsets: Any, index: Any, lists: Any, weights: Any = None) -> _Rows:
    x, offsets = place.of(x), place.of(offsets)
    x = x if x.stride(1) == 1 or x.shape[1] == 1 else x.contiguous()
    return _Rows(x, offsets[:-1], offsets[1:], place.of(index), place.of(weights), place.of(lists))


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows that are added up: a table, and lists of rows of it, list i from starts[i] to ends[i] of the index."""

    x: Tensor
    starts: Tensor
    ends: Tensor
    index: Tensor | None  # None: list i is rows starts[i] to ends[i]
    weights: Tensor | None = None
    lists: Tensor | None = None  # which list each row reads, None: its own
    kind: torch.dtype = torch.float32  # of the sums

    @property
    def count(self) -> int:
        """Rows that come out."""
        return len(self.starts) if self.lists is None else len(self.lists)

    @property
    def width(self) -> int:
        """Columns."""
        return int(self.x.shape[1])

    def totals(self) -> Tensor:
        """The sum of the weights of each row.  -> (r,) float64"""
        ones = torch.ones((1, 1), device=self.x.device).expand(max(1, len(self.x)), 1)
        out = torch.empty((self.count, 1), dtype=torch.float64, device=self.x.device)
        replace(self, x=ones, kind=torch.float64).gather(out)
        return out[:, 0]

    def gather(self, out: Tensor, *, ego: Any = None, divide: Any = False, center: Tensor | None = None) -> None:
        """Fill `out`: sums, or means by count (True) or by divisors; with a center, deviations from its columns."""
        if not self.count or not self.width:
            return
        short = self.index is not None and len(self.index) <= SHORT  # to look for long lists would take longer
        _launch(self, out, ego, divide, center, skip_long=not short)
        if short:
            return
        counts = self.ends - self.starts
        counts = counts if self.lists is None else counts[self.lists]
        long = torch.nonzero(counts > LONGEST)[:, 0]
        if not len(long):
            return
        starts = self.starts[long] if self.lists is None else self.starts[self.lists[long]]
        answer = self._long_sums(starts, counts[long], None if center is None else center[long])
        if ego is not None:
            answer += self.x[(long + ego) if isinstance(ego, int) else ego[long]]
        if divide is not False:
            share = counts[long] + (ego is not None) if divide is True else divide[long]
            answer /= torch.where(share > 0, share, 1).to(answer.dtype)[:, None]
            answer = answer if center is None else answer.sqrt()
        out[long] = answer.to(out.dtype)

    def _long_sums(self, starts: Tensor, counts: Tensor, center: Tensor | None) -> Tensor:
        """The sums of lists of any length: those of parts of them, added up in the same way.  -> (r, width)"""
        pieces = -(-counts // LONGEST)
        offsets = torch.cat([pieces.new_zeros(1), torch.cumsum(pieces, 0)])
        row = torch.repeat_interleave(torch.arange(len(counts), device=counts.device), pieces)
        begins = starts[row] + (torch.arange(len(row), device=counts.device) - offsets[row]) * LONGEST
        ends = torch.minimum(begins + LONGEST, (starts + counts)[row])
        added = torch.empty((len(row), self.width), dtype=self.kind, device=counts.device)
        parts = replace(self, starts=begins, ends=ends, lists=None)
        _launch(parts, added, None, False, None if center is None else center[row], skip_long=False)
        if len(row) == len(counts):
            return added
        above = _Rows(added, offsets[:-1], offsets[1:], None, kind=self.kind)
        return above._long_sums(offsets[:-1], pieces, None)


def _launch(rows: _Rows, out: Tensor, ego: Any, divide: Any, center: Tensor | None, *, skip_long: bool) -> None:
    """Run the kernel over all rows, or over those that are not long."""
    import triton
    import triton.language as tl

    from rae.ops import kernels

    n_rows, neighbors, columns, warps = launch_shape(rows.width, rows.x.element_size(), rows.kind)
    divisors = divide if isinstance(divide, Tensor) else None
    grid = (triton.cdiv(rows.count, n_rows), triton.cdiv(rows.width, columns))
    with _launching(out.device):
        kernels.gather_rows[grid](
            *(rows.x, rows.x.stride(0), rows.index, rows.weights, rows.starts, rows.ends, rows.lists),
            *((None, ego) if isinstance(ego, int) else (ego, 0)),
            *(center, 0 if center is None else center.stride(0), divisors),
            *(out, out.stride(0), rows.count, rows.width, LONGEST),
            EGO=0 if ego is None else (1 if isinstance(ego, int) else 2),
            DIVIDE=2 if divisors is not None else int(bool(divide)),
            SKIP_LONG=skip_long,
            ROWS=n_rows,
            NEIGHBORS=neighbors,
            COLUMNS=columns,
            KIND=tl.float64 if rows.kind == torch.float64 else tl.float32,
            num_warps=warps,
        )


def launch_shape(width: int, itemsize: int, kind: torch.dtype) -> tuple[int, int, int, int]:
    """Rows, neighbours and columns that a program works on at a time, and its warps, for a table of this width."""
    columns = min(256, max(4, 1 << (width - 1).bit_length()))
    entries = ENTRIES // 2 if kind == torch.float64 else ENTRIES
    neighbors = max(4, min(16, entries // columns))
    rows, neighbors, warps = SHAPES.get((columns, itemsize), (entries // (columns * neighbors), neighbors, 4))
    return max(1, rows), neighbors, columns, warps


# ----------------------------------------------------------------------------- a level in training


def norm_tanh_dropout(x: Tensor, norm: torch.nn.BatchNorm1d, share: float, key: Any) -> Tensor:
    """Dropout(tanh(BatchNorm(x))), as `rae.ops.dense.norm_tanh_dropout`; differentiable."""
    out: Tensor = _NormTanhDropout.apply(x, norm.weight, norm.bias, norm, share, key)  # type: ignore[no-untyped-call]
    return out


class _NormTanhDropout(torch.autograd.Function):
    """Two passes over the rows each way: statistics, and all that follows from them."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, gain: Tensor, shift: Tensor, norm: torch.nn.BatchNorm1d, share: float, key: Any
    ) -> Tensor:
        from rae.ops import kernels

        rows = x.detach().contiguous()
        variance, mean = torch.var_mean(rows, 0, correction=0)
        inverse = torch.rsqrt(variance + norm.eps)
        reference.follow_batch(norm, mean, variance, len(rows))
        active, out = torch.empty_like(rows), torch.empty_like(rows)
        threshold, scale = min(round(share * 2**32), 2**32 - 1), float(np.float32(1 / (1 - share)))
        dropping = reference._word(key), threshold, scale, *rows.shape
        with _launching(x.device):
            kernels.norm_tanh_dropout[_tiles(rows)](
                rows, gain.detach(), shift.detach(), mean, inverse, active, out, *dropping, TILE=TILE
            )
        ctx.saved = rows, active, gain.detach(), mean, inverse, dropping
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None, None]:
        from rae.ops import kernels

        rows, active, gain, mean, inverse, dropping = ctx.saved
        both = torch.empty((2, *rows.shape), device=rows.device)
        with _launching(grad.device):
            kernels.norm_tanh_dropout_grad[_tiles(rows)](
                grad.contiguous(), rows, active, mean, inverse, *both, *dropping, TILE=TILE
            )
            of_shift, of_gain = both.sum(1)
            out = torch.empty_like(rows)
            kernels.norm_grad[_tiles(rows)](
                both[0], rows, gain, mean, inverse, of_shift, of_gain, out, *rows.shape, TILE=TILE
            )
        return out, of_gain, of_shift, None, None, None


def _tiles(rows: Tensor) -> tuple[int]:
    return (-(-rows.numel() // TILE),)


# ----------------------------------------------------------------------------- structure


def triangles(device: torch.device, offsets: Any, targets: Any) -> Any:
    """The triangles that each node is a corner of, counted from its corner of lowest degree.  -> (n,) int64"""
    from rae.ops import kernels

    place = copies(device)
    at, to = place.of(offsets), place.of(targets)
    n, degree = len(at) - 1, torch.diff(at)
    rows = torch.repeat_interleave(torch.arange(n, device=device, dtype=to.dtype), degree)
    there, here = degree[to], degree[rows]
    later = (there > here) | ((there == here) & (to > rows))
    after, before = to[later], rows[later]
    del there, here, later, rows
    starts = torch.cat([at.new_zeros(1), torch.cumsum(torch.bincount(before, minlength=n), 0)])
    counts = torch.zeros(n, dtype=torch.int64, device=device)
    with _launching(device):
        for first in range(0, len(after), MOST_PROGRAMS):
            edges = slice(first, first + MOST_PROGRAMS)
            kernels.count_triangles[(len(after[edges]),)](
                starts, after, before[edges], after[edges], counts, TILE=32, num_warps=1
            )
    return counts.cpu().numpy()


def four_cycles(device: torch.device, offsets: Any, targets: Any) -> Any:
    """The cycles of four different nodes that each node is on: paths of two edges, sorted by their ends.  -> (n,) int64

    A cycle is found at its node of highest degree, u: p paths from u to w, none of which leads over a higher node,
    make p (p - 1) / 2 cycles, and each node between is on p - 1 of them.
    """
    place = copies(device)
    at, to = place.of(offsets), place.of(targets).long()
    n, degree = len(at) - 1, torch.diff(at)
    order = torch.argsort(degree, stable=True)
    rank = torch.empty_like(order)
    rank[order] = torch.arange(n, device=device)
    rows = rank[torch.repeat_interleave(torch.arange(n, device=device), degree)]
    keys = torch.sort(rows * n + rank[to]).values  # the graph with its nodes in the order of their degrees
    near, rows = keys % n, keys // n
    starts = torch.cat([at.new_zeros(1), torch.cumsum(degree[order], 0)])
    del keys
    lower = near < rows
    u, v = rows[lower], near[lower]
    del rows, lower
    lengths = torch.diff(starts)[v]
    ends = torch.cumsum(lengths, 0)
    counts = torch.zeros(n, dtype=torch.int64, device=device)
    last = torch.searchsorted(u, torch.arange(n, device=device), right=True)  # the end of the edges of each u
    first = 0
    while first < len(u):
        limit = (int(ends[first - 1]) if first else 0) + PATHS
        until = int(torch.searchsorted(ends, torch.tensor([limit], device=device), right=True))
        if until < len(u):  # all the paths of a node are sorted together
            node = int(u[until])
            until = int(last[node - 1]) if node and int(last[node - 1]) > first else int(last[node])
        _count_paths(u[first:until], v[first:until], starts, near, counts)
        first = until
    return counts[rank].cpu().numpy()


def _count_paths(u: Tensor, v: Tensor, starts: Tensor, near: Tensor, counts: Tensor) -> None:
    """Add to `counts` the 4-cycles whose highest node is one of u, from its edges to v."""
    n, lengths = len(counts), torch.diff(starts)[v]
    edge = torch.repeat_interleave(torch.arange(len(u), device=u.device), lengths)
    w = near[starts[v][edge] + torch.arange(len(edge), device=u.device) - (torch.cumsum(lengths, 0) - lengths)[edge]]
    keep = w < u[edge]
    edge, w = edge[keep], w[keep]
    keys, order = torch.sort(u[edge] * n + w)
    between = v[edge[order]]
    del edge, w, order, keep
    pairs, paths = torch.unique_consecutive(keys, return_counts=True)
    cycles = paths * (paths - 1) // 2
    counts.index_add_(0, pairs // n, cycles)  # whole numbers: their sum has no order
    counts.index_add_(0, pairs % n, cycles)
    counts.index_add_(0, between, torch.repeat_interleave(paths - 1, paths))


def core_numbers(device: torch.device, offsets: Any, targets: Any) -> Any:
    """The largest k such that the node is in the k-core, None where ROUNDS do not settle it.  -> (n,) int64

    A core number is at most the h-index of those of the neighbours; from the degrees down, that settles.
    """
    from rae.ops import kernels

    place = copies(device)
    at, to = place.of(offsets), place.of(targets)
    core, n = torch.diff(at), len(at) - 1
    below, changed = torch.empty_like(core), torch.ones(1, dtype=torch.int32, device=device)
    hubs = torch.nonzero(core > LONGEST)[:, 0]
    with _launching(device):
        for _ in range(ROUNDS if n else 0):
            changed.zero_()
            for _ in range(ROUNDS_AT_ONCE):
                kernels.h_index[(n,)](at, to, None, core, below, changed, LONGEST, TILE=32, num_warps=1)
                if len(hubs):
                    kernels.h_index[(len(hubs),)](at, to, hubs, core, below, changed, 0, TILE=4096, num_warps=16)
                core, below = below, core
            if not int(changed):
                return core.cpu().numpy()
    return None if n else core.cpu().numpy()


def _launching(device: torch.device) -> Any:
    """Kernels are launched on this device inside."""
    return torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext()
