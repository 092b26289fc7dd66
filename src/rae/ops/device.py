"""Operations on a GPU: what the kernels of `rae.ops.kernels` are given, and what is made of their results.

A list of neighbours is added up by one program, which has a few lists of like length. Lists of more than LONGEST are
cut, their pieces added up as lists, and the sums of the pieces added up in the same way, so that no program has more
than LONGEST rows to read, however many neighbours a hub has. Every sum has one order: the bytes are the same on every
run.

Where an operation gets arrays in main memory while `rae.runtime.on_device` is in force, they are copied to the device
once, and what comes back is in main memory again.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Mapping
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
LONGEST = 256  # neighbours that one program adds up
SHORT = 1 << 17  # entries of all lists together up to which none is cut
ORDERED = 1024  # rows that are sorted by their lengths, so that a program has lists of one length
PLANS = 64  # of lists, that are kept
WIDE = 32  # columns from which a program has few rows
HUB = 1024  # neighbours from which on a node is worked on by many threads
NARROW = 32  # columns up to which sums are taken in double precision: they cost little there
PATHS = 1 << 28  # paths of two edges that are sorted at a time to count 4-cycles
ROUNDS, ROUNDS_AT_ONCE = 500, 4  # of the iteration that finds core numbers, before it is left to the CPU
RECORDED_AHEAD = 4  # repetitions whose numbers are on their way at once
COLUMNS = 8  # of a level that a program works on: what memory gives at a time
MOST_PROGRAMS = 1 << 30  # of one launch


def place_of(*arrays: Any) -> torch.device | None:
    """The GPU that works on these arrays: where one of them is, else the one in force; None for the CPU."""
    for array in arrays:
        if isinstance(array, Tensor) and array.device.type != "cpu":
            return array.device if has(array) else None
    name = runtime.device()
    return None if name == "cpu" else torch.device(name)


def has(x: Tensor) -> bool:
    """Whether x is where kernels work, and a plain tensor."""
    return x.is_cuda and type(x) in (Tensor, torch.nn.Parameter)


class Copies:
    """A cache of arrays on a device: each array in main memory is copied once, and freed with it."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._copies: dict[int, tuple[Any, Tensor]] = {}
        self._plans: dict[Any, _Plan] = {}

    def of(self, array: Any) -> Any:
        """The array as a tensor on the device; other values are returned unchanged."""
        if isinstance(array, Tensor):
            return array.to(self.device)
        if not isinstance(array, np.ndarray):
            return array
        if id(array) not in self._copies:
            self._copies[id(array)] = weakref.ref(array, partial(self._forget, id(array))), tensor(array, self.device)
        return self._copies[id(array)][1]

    def _forget(self, key: int, _: Any) -> None:
        self._copies.pop(key, None)

    def plan(self, starts: Tensor, ends: Tensor, lists: Tensor | None) -> _Plan:
        """How these lists are worked on: the last few plans are kept."""
        key = tuple((t.data_ptr(), len(t)) for t in (starts, ends, lists) if t is not None)
        plan = self._plans.pop(key, None) or _Plan.of(starts, ends, lists)
        self._plans[key] = plan
        while len(self._plans) > PLANS:
            self._plans.pop(next(iter(self._plans)))
        return plan


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


def sums(x: Tensor, offsets: Any, index: Any, weights: Any, lists: Tensor | None = None) -> Tensor:
    """Row i: the sum of weights[e] * x[index[e]], e in offsets[j]..offsets[j + 1], j = i or lists[i].  -> (r, d)"""
    rows = _lists(copies(x.device), x, offsets, index, lists, weights)
    out = torch.empty((rows.count, rows.width), device=x.device)
    rows.gather(out)
    return out


def added_back(x: Tensor, source: Tensor, target: Tensor, n: int) -> Tensor:
    """Row t is the sum of x[source[e]] over the e with target[e] = t, in their order.  (r, d), (e,), (e,) -> (n, d)

    Targets of n and above are left out.
    """
    kind = torch.int32 if n < 2**31 - 1 else torch.int64  # fewer bits are sorted faster
    ordered, order = torch.sort(target.to(kind), stable=True)
    offsets = torch.searchsorted(ordered, torch.arange(n + 1, device=x.device, dtype=kind))
    return sums(x, offsets, source[order], None)


def _lists(place: Copies, x: Tensor, offsets: Any, index: Any, lists: Any, weights: Any = None) -> _Rows:
    x, offsets = place.of(x), place.of(offsets)
    x = x if x.stride(1) == 1 or x.shape[1] == 1 else x.contiguous()
    index, lists, starts, ends = place.of(index), place.of(lists), offsets[:-1], offsets[1:]
    short = index is None or len(index) <= SHORT or is_recorded()  # to plan would take longer, or cannot be recorded
    plan = None if short else place.plan(starts, ends, lists)
    return _Rows(x, starts, ends, index, place.of(weights), lists, plan=plan)


@dataclass(frozen=True, eq=False)
class _Plan:
    """How lists are worked on: rows in an order in which lists of like length meet, and the long lists in pieces."""

    of_lists: tuple[Tensor | None, ...]  # whose plan it is: as long as it is kept, nothing else lies there
    order: Tensor  # (r,) every row once, sorted by length among its neighbours
    long: Tensor  # rows whose lists are longer than LONGEST
    whose: Tensor  # which of them each piece is of
    pieces: list[tuple[Tensor, Tensor]]  # starts and ends: of their lists, then of the pieces before, until each is one

    @classmethod
    def of(cls, starts: Tensor, ends: Tensor, lists: Tensor | None) -> _Plan:
        low, counts = starts, ends - starts
        if lists is not None:
            low, counts = low[lists], counts[lists]
        block = torch.arange(len(counts), device=counts.device) // ORDERED
        order = torch.argsort(block * (LONGEST + 1) + LONGEST - counts.clamp(max=LONGEST)).int()
        long = torch.nonzero(counts > LONGEST)[:, 0]
        low, counts = low[long], counts[long]
        whose, pieces = long, list[tuple[Tensor, Tensor]]()
        while not pieces or len(pieces[-1][0]) > len(long):
            parts = -(-counts // LONGEST)
            before = torch.cumsum(parts, 0) - parts
            row = torch.repeat_interleave(torch.arange(len(parts), device=parts.device), parts)
            begins = low[row] + (torch.arange(len(row), device=parts.device) - before[row]) * LONGEST
            whose = whose if pieces else row
            pieces.append((begins, torch.minimum(begins + LONGEST, (low + counts)[row])))
            low, counts = before, parts
        return cls((starts, ends, lists), order, long, whose, pieces)


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
    plan: _Plan | None = None  # none: every list is added up by one program

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
        _launch(self, out, ego, divide, center)
        if self.plan is None or not len(self.plan.long):
            return
        long = self.plan.long
        answer = self._long_sums(self.plan, None if center is None else center[long][self.plan.whose])
        if ego is not None:
            answer += self.x[(long + ego) if isinstance(ego, int) else ego[long]]
        if divide is not False:
            which = long if self.lists is None else self.lists[long]
            counts = self.ends[which] - self.starts[which]
            share = counts + (ego is not None) if divide is True else divide[long]
            answer /= torch.where(share > 0, share, 1).to(answer.dtype)[:, None]
            answer = answer if center is None else answer.sqrt()
        out[long] = answer.to(out.dtype)

    def _long_sums(self, plan: _Plan, center: Tensor | None) -> Tensor:
        """The sums of the long lists: those of their pieces, added up in the same way.  -> (r, width)"""
        rows = replace(self, lists=None, plan=None)
        for starts, ends in plan.pieces:
            added = torch.empty((len(starts), self.width), dtype=self.kind, device=starts.device)
            _launch(replace(rows, starts=starts, ends=ends), added, None, False, center)
            rows, center = _Rows(added, starts, ends, None, kind=self.kind), None
        return rows.x


def _launch(rows: _Rows, out: Tensor, ego: Any, divide: Any, center: Tensor | None) -> None:
    """Run the kernel over all rows, or over those that a plan leaves to it."""
    import triton
    import triton.language as tl

    from rae.ops import kernels

    columns = min(256, max(4, triton.next_power_of_2(rows.width)))
    n_rows, neighbors = (2, 2) if columns >= WIDE else (4, 4)  # the quickest on an H200, in one warp
    divisors = divide if isinstance(divide, Tensor) else None
    grid = (triton.cdiv(rows.count, n_rows), triton.cdiv(rows.width, columns))
    with _launching(out.device):
        kernels.gather_rows[grid](
            *(rows.x, rows.x.stride(0), rows.index, rows.weights, rows.starts, rows.ends, rows.lists),
            None if rows.plan is None else rows.plan.order,
            *((None, ego) if isinstance(ego, int) else (ego, 0)),
            *(center, 0 if center is None else center.stride(0), divisors),
            *(out, out.stride(0), rows.count, rows.width, LONGEST),
            EGO=0 if ego is None else (1 if isinstance(ego, int) else 2),
            DIVIDE=2 if divisors is not None else int(bool(divide)),
            SKIP_LONG=rows.plan is not None,
            ROWS=n_rows,
            NEIGHBORS=neighbors,
            UNROLL=4,
            COLUMNS=columns,
            KIND=tl.float64 if rows.kind == torch.float64 else tl.float32,
            num_warps=1,
        )


class SparseTable:
    """A SciPy CSR on a device, by rows and by columns."""

    def __init__(self, matrix: Any, device: torch.device) -> None:
        self.shape: tuple[int, int] = matrix.shape
        self.rows, self.columns = (
            [tensor(np.asarray(a), device) for a in (of.indptr.astype(np.int64), of.indices, of.data)]
            for of in (matrix, matrix.tocsc())
        )
        self._plan = _Plan.of(self.columns[0][:-1], self.columns[0][1:], None)

    def product(self, index: Tensor, weight: Tensor) -> Tensor:
        """These rows times weights.  (r,), (m, d) -> (r, d)"""
        offsets, columns, weights = self.rows
        return sums(weight, offsets, columns, weights, index.clamp(min=0))

    def transposed_product(self, index: Tensor, grad: Tensor) -> Tensor:
        """The transpose of these rows, each of them once, times a matrix; an index below 0 is left out.  -> (m, d)"""
        below = grad.new_zeros((self.shape[0] + 1, grad.shape[1]))
        below[torch.where(index < 0, self.shape[0], index)] = grad
        offsets, rows, weights = self.columns
        out = torch.empty((self.shape[1], grad.shape[1]), device=grad.device)
        _Rows(below, offsets[:-1], offsets[1:], rows, weights, plan=self._plan).gather(out)
        return out


# ----------------------------------------------------------------------------- a level in training


def norm_tanh_dropout(x: Tensor, norm: torch.nn.BatchNorm1d, share: float, key: Any) -> Tensor:
    """Dropout(tanh(BatchNorm(x))), as `rae.ops.dense.norm_tanh_dropout`; differentiable.

    The key may be two whole numbers on the device, itself and how many rows count: the others are 0, and no part of
    the statistics.
    """
    if not isinstance(key, Tensor):
        key = torch.tensor([reference.signed_word(key), len(x)], device=x.device)
    out: Tensor = _NormTanhDropout.apply(x, norm.weight, norm.bias, norm, share, key)  # type: ignore[no-untyped-call]
    return out


class _NormTanhDropout(torch.autograd.Function):
    """One kernel each way: a program has all rows of some columns."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, gain: Tensor, shift: Tensor, norm: torch.nn.BatchNorm1d, share: float, drawing: Tensor
    ) -> Tensor:
        from rae.ops import kernels

        rows = x.detach().contiguous()
        mean, inverse, active, out = (torch.empty_like(t) for t in (gain, gain, rows, rows))
        dropping = min(round(share * 2**32), 2**32 - 1), float(np.float32(1 / (1 - share))), *rows.shape
        running = norm.running_mean, norm.running_var, norm.num_batches_tracked, norm.momentum, norm.eps
        with _launching(x.device):
            kernels.norm_tanh_dropout[_columns(rows)](
                *(rows, gain.detach(), shift.detach(), drawing, *running, mean, inverse, active, out, *dropping),
                **_tile(rows),
            )
        ctx.saved = rows, active, gain.detach(), mean, inverse, drawing, dropping
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None, None]:
        from rae.ops import kernels

        rows, active, gain, mean, inverse, drawing, dropping = ctx.saved
        out, of_gain, of_shift = torch.empty_like(rows), torch.empty_like(mean), torch.empty_like(mean)
        with _launching(grad.device):
            kernels.norm_tanh_dropout_grad[_columns(rows)](
                *(grad.contiguous(), rows, active, gain, mean, inverse, drawing, out, of_gain, of_shift, *dropping),
                **_tile(rows),
            )
        return out, of_gain, of_shift, None, None, None


def _columns(rows: Tensor) -> tuple[int]:
    return (-(-rows.shape[1] // COLUMNS),)


def _tile(rows: Tensor) -> dict[str, int]:
    """Rows and columns that a program works on at a time, and its warps."""
    return {"ROWS": 1024 if len(rows) > 512 else 256, "COLUMNS": COLUMNS, "num_warps": 8}


class Recorded:
    """Work on arrays of whole numbers on a device: done once, then recorded, then repeated with other numbers.

    A step of training is hundreds of small kernels, which take longer to launch than to run; a recording launches them
    together. Its arrays have fixed places and sizes.
    """

    def __init__(self, work: Callable[[Mapping[Any, Tensor]], Tensor], sizes: Mapping[Any, int], place: Tensor) -> None:
        self._work, self.sizes, cuda = work, dict(sizes), place.is_cuda
        bounds = np.cumsum([0, *sizes.values()])
        self._places = {name: slice(*ends) for name, *ends in zip(sizes, bounds, bounds[1:], strict=False)}
        there = torch.zeros(int(bounds[-1]), dtype=torch.int64, device=place.device)
        self._there, self._read = there, {name: there[part] for name, part in self._places.items()}
        self._here = [torch.empty(len(there), dtype=torch.int64, pin_memory=cuda) for _ in range(RECORDED_AHEAD)]
        cuda_of: Any = torch.cuda  # without types
        self._copied = [cuda_of.Event() for _ in self._here] if cuda else []
        self._stream = cuda_of.Stream(place.device) if cuda else None
        self._graph: Any = None
        self._out, self._count = place, 0

    def fits(self, numbers: Mapping[Any, Any]) -> bool:
        """Whether these arrays are not larger than those of the recording."""
        return all(len(numbers[name]) <= size for name, size in self.sizes.items())

    def run(self, numbers: Mapping[Any, Any]) -> Tensor:
        """What the work gives for these numbers, until it is next done: arrays end in what fills them up."""
        turn, self._count = self._count % RECORDED_AHEAD, self._count + 1
        if self._copied and self._count > RECORDED_AHEAD:
            self._copied[turn].synchronize()
        here = self._here[turn].numpy()
        for name, part in self._places.items():
            numbers[name].fill(here[part])
        if self._stream is None:
            self._there.copy_(self._here[turn])
            return self._work(self._read)
        outside = torch.cuda.current_stream(self._there.device)
        self._stream.wait_stream(outside)
        with torch.cuda.stream(self._stream):
            self._there.copy_(self._here[turn], non_blocking=True)
            self._copied[turn].record()
            if self._count == 1:  # what is compiled or prepared when it is first used must not be recorded
                self._out = self._work(self._read)
            elif self._graph is None:
                self._record()
            if self._graph is not None:
                self._graph.replay()
        outside.wait_stream(self._stream)
        return self._out

    def _record(self) -> None:
        torch.cuda.synchronize()
        graph: Any = torch.cuda.CUDAGraph()
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            self._out = self._work(self._read)
        except BaseException:
            with contextlib.suppress(RuntimeError):  # the first error says what is wrong
                graph.capture_end()
            raise
        graph.capture_end()
        self._graph = graph


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
    hubs = torch.nonzero(core > HUB)[:, 0]
    with _launching(device):
        for _ in range(ROUNDS if n else 0):
            changed.zero_()
            for _ in range(ROUNDS_AT_ONCE):
                kernels.h_index[(n,)](at, to, None, core, below, changed, HUB, TILE=32, num_warps=1)
                if len(hubs):
                    kernels.h_index[(len(hubs),)](at, to, hubs, core, below, changed, 0, TILE=4096, num_warps=16)
                core, below = below, core
            if not int(changed):
                return core.cpu().numpy()
    return None if n else core.cpu().numpy()


def side_by_side(first: Callable[[], Tensor], second: Callable[[], Tensor], place: Tensor) -> tuple[Tensor, Tensor]:
    """What both return, computed at the same time where a GPU works; their gradients go back at the same time too."""
    if not place.is_cuda:
        return first(), second()
    cuda: Any = torch.cuda  # without types
    here, there = cuda.current_stream(), cuda.Stream()
    there.wait_stream(here)
    with cuda.stream(there):
        two = second()
    one = first()
    here.wait_stream(there)
    two.record_stream(here)
    return one, two


def is_recorded() -> bool:
    """Whether what is launched here is recorded, to be done later and again."""
    return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()


def _launching(device: torch.device) -> Any:
    """Kernels are launched on this device inside."""
    return torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext()
