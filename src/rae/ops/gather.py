"""Means and sums of rows that an index names: what every level of every model does.

mean(x, offsets, index, ego, lists)      mean({u} ∪ N(u)), without a gradient, in float32 or from float16
average(x, block)                        the same with a gradient, for training
moments(x, offsets, index, lists)        mean over N(u), without u, and the deviation of the first columns; by weights
sparse_product(matrix, weight)           sparse rows times dense weights, with a gradient for the weights
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rae.ops import device, reference
from rae.ops.library import call, int64, is_native
from rae.runtime import in_ranges

CPU = torch.device("cpu")
MIN_ENTRIES = 1 << 18  # numbers per thread: fewer are done before a second thread has woken up


def mean(x: Tensor, offsets: Any, index: Any, ego: Any = 0, lists: Any = None) -> Tensor:
    """mean({u} ∪ N(u)) of rows of x.  (n, d) -> (r, d), float32

    Row i averages row ego[i] of x, or ego + i where `ego` is a number, and the rows
    index[offsets[j]:offsets[j + 1]] with j = lists[i], or j = i without lists. x is float32 or float16.
    """
    if (gpu := device.place_of(x)) is not None and x.dtype in device.KINDS:
        return device.mean(gpu, x, offsets, index, ego, lists)
    rows, width = len(offsets) - 1 if lists is None else len(lists), x.shape[1]
    if not is_native(x, offsets, index) or x.dtype not in (torch.float32, torch.float16):
        return reference.mean(x, offsets, index, ego, lists)
    first, ego = (ego, None) if isinstance(ego, int) else (0, int64(ego))
    lists = None if lists is None else int64(lists)
    name = "mean_rows" if x.dtype == torch.float32 else "mean_half_rows"
    out = torch.empty(rows, width, dtype=torch.float32, device=CPU)  # begins at a cache line

    def work(start: int, stop: int) -> None:
        call(name, offsets, index, len(index), lists, ego, first, x, width, out, start, stop, index=index)

    in_ranges(work, rows, _min_rows(width))
    return out


def moments(x: Tensor, offsets: Any, index: Any, lists: Any = None, *, spread: int = 0, weights: Any = None) -> Tensor:
    """Mean of rows of x over N(u), without u, then the deviation of the first `spread` columns.  -> (r, d + spread)

    Row i is about index[offsets[j]:offsets[j + 1]] with j = lists[i], or j = i without lists; 0 where that is empty.
    x is float32 or float16, the result float32. With `weights`, one float32 from 0 up per entry of the index, both are
    weighted; rows of weight 0 are not read.
    """
    if (gpu := device.place_of(x)) is not None and x.dtype in device.KINDS:
        return device.moments(gpu, x, offsets, index, lists, spread, weights)
    rows, width = len(offsets) - 1 if lists is None else len(lists), x.shape[1]
    if not is_native(x, offsets, index, weights) or x.dtype not in (torch.float32, torch.float16):
        return reference.moments(x, offsets, index, lists, spread, weights)
    lists = None if lists is None else int64(lists)
    x = x if x.stride(1) == 1 or width == 1 else x.contiguous()
    stride = x.stride(0) if len(x) > 1 else width  # some columns of a table are read where they are
    name = "moment_rows" if x.dtype == torch.float32 else "moment_half_rows"
    out = torch.empty(rows, width + spread, dtype=torch.float32, device=CPU)

    def work(start: int, stop: int) -> None:
        call(
            name, offsets, index, len(index), weights, lists, x.data_ptr(), stride, width, spread, out, start, stop,
            index=index,
        )  # fmt: skip

    in_ranges(work, rows, _min_rows(width))
    return out


def average(x: Tensor, block: Any) -> Tensor:
    """mean({u} ∪ N(u)) for every row of a block (see `rae.model.sampling.Block`).  (n, d) -> (r, d)

    On a GPU, an index below 0 fills a block up to a fixed size: nothing goes back from there.
    """
    out: Tensor
    if device.has(x) and x.dtype == torch.float32:
        block = type(block)(*(None if index is None else index.to(x.device) for index in block))
        out = _AverageOnDevice.apply(x.contiguous(), block)  # type: ignore[no-untyped-call]
        return out
    if not is_native(x, *block) or x.dtype != torch.float32:
        ego = block.ego.to(x.device)
        return reference.mean(x, block.offsets, block.neighbors, ego, block.lists)
    block = type(block)(*(None if index is None else index.to(torch.int64).contiguous() for index in block))
    _check_block(block, len(x))
    out = _Average.apply(x.contiguous(), block)  # type: ignore[no-untyped-call]
    return out


def _check_block(block: Any, n_below: int) -> None:
    """Refuse a block that names rows or lists which are not there: the library does not check what it reads."""
    n_lists, offsets = len(block.offsets) - 1, block.offsets.numpy()
    rows = ((block.ego, n_below), (block.neighbors, n_below), (block.lists, n_lists))
    inside = all(index is None or not len(index) or _is_within(index.numpy(), bound) for index, bound in rows)
    ordered = bool(offsets[0] >= 0 and (offsets[1:] >= offsets[:-1]).all())
    long_enough = bool(offsets[-1] <= len(block.neighbors))
    matching = block.lists is not None or len(block.ego) == n_lists
    if not (inside and ordered and long_enough and matching):
        raise IndexError(f"the block names rows or lists that are not there: {n_below:,} rows, {n_lists:,} lists")


def _is_within(index: Any, bound: int) -> bool:
    return bool(index.min() >= 0 and index.max() < bound)


class _Average(torch.autograd.Function):
    """The mean over a block, forwards by gathering, backwards by scattering."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, block: Any) -> Tensor:
        total = _sum_rows(block.offsets, block.neighbors, None, x.detach())
        counts = torch.diff(block.offsets)
        if block.lists is not None:  # several rows share a list: each list is summed once
            total, counts = total[block.lists], counts[block.lists]
        ctx.block, ctx.n_below, ctx.share = block, len(x), (1.0 / (1.0 + counts)).to(x.dtype)[:, None]
        return total.add_(x.detach()[block.ego]).mul_(ctx.share)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        block = ctx.block
        scaled = (grad * ctx.share).contiguous()
        each = torch.arange(len(scaled) + 1)
        of_lists = scaled
        if block.lists is not None:
            of_lists = torch.zeros((len(block.offsets) - 1, scaled.shape[1]), dtype=scaled.dtype)
            _scatter(each, block.lists, None, scaled, of_lists)
        out = torch.zeros((ctx.n_below, scaled.shape[1]), dtype=scaled.dtype)
        _scatter(each, block.ego, None, scaled, out)
        _scatter(block.offsets, block.neighbors, None, of_lists, out)
        return out, None


class _AverageOnDevice(torch.autograd.Function):
    """The mean over a block, both ways by gathering: backwards over the rows that read each row."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, block: Any) -> Tensor:
        ctx.block, ctx.n_below = block, len(x)
        return device.mean(x.device, x.detach(), block.offsets, block.neighbors, block.ego.clamp(min=0), block.lists)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        block, counts = ctx.block, torch.diff(ctx.block.offsets)
        own, n_lists = torch.arange(len(grad), device=grad.device), len(counts)
        scaled = grad / (1 + (counts if block.lists is None else counts[block.lists])).to(grad.dtype)[:, None]
        of_lists = scaled if block.lists is None else device.added_back(scaled, own, block.lists, n_lists)
        first = 0 if block.lists is None else len(grad)
        positions = torch.arange(len(block.neighbors), device=grad.device)
        readers = first - 1 + torch.searchsorted(block.offsets, positions, right=True)
        table = scaled if block.lists is None else torch.cat([scaled, of_lists])
        read = torch.cat([block.ego, block.neighbors])
        read = torch.where(read < 0, ctx.n_below, read)
        return device.added_back(table, torch.cat([own, readers]), read, ctx.n_below), None


@dataclass(frozen=True, eq=False)
class SparseRows:
    """Rows of a sparse table on a GPU, each of them once; an index below 0 fills them up to a fixed size."""

    table: device.SparseTable
    index: Tensor

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.index), self.table.shape[1]


def sparse_product(matrix: Any, weight: Tensor) -> Tensor:
    """Rows of a SciPy CSR times dense weights, with a gradient for the weights.  (n, m), (m, d) -> (n, d)"""
    out: Tensor
    if isinstance(matrix, SparseRows) or (device.has(weight) and weight.dtype == torch.float32):
        out = _SparseProductOnDevice.apply(weight, matrix)  # type: ignore[no-untyped-call]
        return out
    if not is_native(weight) or weight.dtype != torch.float32:
        return reference.sparse_product(matrix, weight)
    if torch.is_grad_enabled() and weight.requires_grad:
        out = _SparseProduct.apply(weight, matrix)  # type: ignore[no-untyped-call]
        return out
    return _sum_rows(int64(matrix.indptr), _native_order(matrix.indices), _native_order(matrix.data), weight.detach())


class _SparseProduct(torch.autograd.Function):
    """Sparse rows times weights; the rows are data and get no gradient."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, matrix: Any) -> Tensor:
        ctx.matrix, ctx.n_below = matrix, len(weight)
        return _sum_rows(int64(matrix.indptr), matrix.indices, matrix.data, weight.detach().contiguous())

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        matrix, grad = ctx.matrix, grad.contiguous()
        out = torch.zeros((ctx.n_below, grad.shape[1]), dtype=grad.dtype)
        _scatter(int64(matrix.indptr), matrix.indices, matrix.data, grad, out)
        return out, None


class _SparseProductOnDevice(torch.autograd.Function):
    """Sparse rows times weights on a GPU; backwards by columns."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, matrix: Any) -> Tensor:
        ctx.matrix = matrix
        if isinstance(matrix, SparseRows):
            return matrix.table.product(matrix.index, weight.detach())
        return device.sums(weight.detach(), int64(matrix.indptr), matrix.indices, matrix.data)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        if isinstance(ctx.matrix, SparseRows):
            return ctx.matrix.table.transposed_product(ctx.matrix.index, grad.contiguous()), None
        columns = ctx.matrix.tocsc()
        return device.sums(grad, int64(columns.indptr), columns.indices, columns.data), None


def _sum_rows(offsets: Any, index: Any, weights: Any, x: Tensor) -> Tensor:
    """Row i is the sum of weights[e] * x[index[e]], e in offsets[i]..offsets[i + 1]."""
    width = x.shape[1]
    out = torch.empty((len(offsets) - 1, width), dtype=x.dtype)
    in_ranges(
        lambda a, b: call("sum_rows", offsets, index, weights, x, width, out, a, b, index=index),
        len(out),
        _min_rows(width),
    )
    return out


def _scatter(offsets: Any, index: Any, weights: Any, x: Tensor, out: Tensor) -> None:
    """out[index[e]] += weights[e] * x[i] over row i: threads take columns, since rows may meet."""
    n, width = x.shape
    in_ranges(
        lambda a, b: call("scatter_rows", offsets, index, weights, x, width, n, out, a, b, index=index),
        width,
        min_columns(len(index)),
    )


def _min_rows(width: int) -> int:
    """Rows that a thread takes at least; a row is the sum of several."""
    return -(-MIN_ENTRIES // max(1, 4 * width))


def min_columns(rows: int) -> int:
    """Columns that a thread takes at least: enough work, and a cache line wide."""
    return max(32, -(-MIN_ENTRIES // max(1, rows)))


def _native_order(array: Any) -> Any:
    """The array as the library reads it; part of a mapped file may lie at any address."""
    return np.require(array, requirements=["C", "A"])
