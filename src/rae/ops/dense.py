"""Dense arithmetic of a level: products of rows and weights, BatchNorm with tanh and dropout.

Torch's own matrix products add in another order for another number of threads. `product` cuts the rows into fixed
chunks, each multiplied on one thread, so that the bytes do not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rae.ops import device, reference
from rae.ops.gather import MIN_ENTRIES, min_columns
from rae.ops.library import call, is_native
from rae.runtime import in_ranges, torch_alone_here

CHUNK = 512  # rows multiplied at a time
REGISTER = 16  # columns of weights are filled up to a multiple of this


def product(x: Tensor, weight: Tensor) -> Tensor:
    """Dense rows times weights.  (n, m), (m, d) -> (n, d)"""
    if not is_native(x, weight):
        return x @ weight
    if not torch.is_grad_enabled():  # inference gives each thread rows of its own
        return row_product(x, weight)
    out: Tensor = _Product.apply(x, weight)  # type: ignore[no-untyped-call]
    return out


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _product(x, weight)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor]:
        x, weight = ctx.saved_tensors
        grad = grad.contiguous()
        below = _product(grad, weight.T) if ctx.needs_input_grad[0] else None
        return below, _inner(x, grad)


def gram(x: Tensor) -> Tensor:
    """xᵀx, the products of all pairs of columns.  (n, d) -> (d, d)"""
    if not is_native(x):
        return x.T @ x
    out: Tensor = _Gram.apply(x)  # type: ignore[no-untyped-call]
    return out


class _Gram(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return _inner(x, x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return _product(x, (grad + grad.T).contiguous())


def _inner(x: Tensor, y: Tensor) -> Tensor:
    """xᵀy.  (n, m), (n, d) -> (m, d)"""
    parts = torch.empty((max(1, -(-len(x) // CHUNK)), x.shape[1], y.shape[1]), dtype=y.dtype)
    _in_chunks(lambda i, a, b: torch.mm(x[a:b].T, y[a:b], out=parts[i]), len(x))
    return parts.sum(0) if len(parts) > 1 else parts[0]


def _product(x: Tensor, weight: Tensor) -> Tensor:
    out = torch.empty((len(x), weight.shape[1]), dtype=weight.dtype)
    _in_chunks(lambda _, a, b: torch.mm(x[a:b], weight, out=out[a:b]), len(x))
    return out


def _in_chunks(work: Callable[[int, int, int], Any], n_rows: int) -> None:
    """Call work(number, first row, last row) for each chunk of rows, spread over the threads."""

    def some(start: int, stop: int) -> None:
        torch_alone_here()
        with torch.no_grad():  # gradients are on in a new thread
            for i in range(start, stop):
                work(i, i * CHUNK, min((i + 1) * CHUNK, n_rows))

    in_ranges(some, max(1, -(-n_rows // CHUNK)))


def norm_tanh_dropout(x: Tensor, norm: nn.BatchNorm1d, share: float, key: Any) -> Tensor:
    """Dropout(tanh(BatchNorm(x))) with batch statistics, which the norm's running ones follow.  (n, d) -> (n, d)

    Which entries are dropped is a hash of (key, row, column).
    """
    out: Tensor
    if device.has(x) and x.dtype == torch.float32:
        return device.norm_tanh_dropout(x, norm, share, key)
    if is_native(x, norm.weight) and x.dtype == torch.float32:
        out = _NormTanhDropout.apply(x, norm.weight, norm.bias, norm, share, key)  # type: ignore[no-untyped-call]
        return out
    return reference.norm_tanh_dropout(x, norm, share, key)


class _NormTanhDropout(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, gain: Tensor, shift: Tensor, norm: nn.BatchNorm1d, share: float, key: Any
    ) -> Tensor:
        rows = x.detach().contiguous()
        n, width = rows.shape
        mean, variance, inverse = (torch.empty(width, dtype=torch.float32) for _ in range(3))
        active, out = torch.empty_like(rows), torch.empty_like(rows)
        dropping = (int(key), *_dropping(share))
        parameters = gain.detach(), shift.detach()

        def work(a: int, b: int) -> None:
            call("column_moments", rows, n, width, norm.eps, mean, variance, inverse, a, b)
            call("norm_tanh_dropout", rows, n, width, *parameters, mean, inverse, *dropping, active, out, a, b)

        in_ranges(work, width, min_columns(n))
        reference.follow_batch(norm, mean, variance, n)
        ctx.saved = rows, active, gain.detach(), mean, inverse, dropping
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None, None]:
        rows, active, gain, mean, inverse, dropping = ctx.saved
        n, width = rows.shape
        grad = grad.contiguous()
        out, of_gain, of_shift = torch.empty_like(rows), torch.empty_like(mean), torch.empty_like(mean)

        def work(a: int, b: int) -> None:
            statistics = gain, mean, inverse, *dropping
            call("norm_tanh_dropout_grad", grad, rows, active, n, width, *statistics, out, of_gain, of_shift, a, b)

        in_ranges(work, width, min_columns(n))
        return out, of_gain, of_shift, None, None, None


def norm_tanh(x: Tensor, norm: nn.BatchNorm1d) -> Tensor:
    """tanh(BatchNorm(x)) with the running statistics, without a gradient.  (n, d) -> (n, d)"""
    plain = norm.running_mean is not None and norm.running_mean.shape == (x.shape[1],)
    plain = plain and x.dtype == norm.weight.dtype == torch.float32
    if not plain or not is_native(x, norm.weight) or torch.is_grad_enabled():
        return torch.tanh(norm(x))
    x = x.contiguous()
    n, width = x.shape
    assert norm.running_mean is not None
    assert norm.running_var is not None
    inverse = torch.rsqrt(norm.running_var + norm.eps)
    out = torch.empty_like(x)
    parameters = norm.weight.detach(), norm.bias.detach(), norm.running_mean, inverse
    call("norm_tanh_dropout", x, n, width, *parameters, 0, 0, 1.0, out, out, 0, width)
    return out


def dropout(x: Tensor, share: float, key: Any) -> Tensor:
    """x with a share of its entries zeroed and the rest scaled up; which ones is a hash of (key, position)."""
    return x * dropout_mask(x.numel(), share, key, like=x).view(x.shape)


def dropout_mask(size: int, share: float, key: Any, like: Tensor | None = None) -> Tensor:
    """(size,): 0 with chance `share`, else 1 / (1 - share), on the device of `like`."""
    if not is_native(like):
        assert like is not None
        return reference.dropout_mask((1, size), share, key, like.device)[0]
    out = torch.empty(size, dtype=torch.float32)
    threshold, scale = _dropping(share)
    numbers = out.numpy()
    in_ranges(lambda a, b: call("fill_mask", int(key), 0, threshold, scale, a, b - a, numbers[a:b]), size, MIN_ENTRIES)
    return out


def _dropping(share: float) -> tuple[int, float]:
    """The hash below which an entry is dropped, and the factor of the others."""
    return min(round(share * 2**32), 2**32 - 1), float(np.float32(1 / (1 - share)))


def at_least_four(rows: Tensor) -> Tensor:
    """The rows, filled up with zeros to four: products of very few rows round in another way than those of many."""
    return rows if len(rows) >= 4 else torch.nn.functional.pad(rows, (0, 0, 0, 4 - len(rows)))


def row_product(rows: Tensor, weight: Tensor) -> Tensor:
    """Dense rows times weights, where a row's bytes depend on that row alone.  (n, m), (m, d) -> (n, d)

    Products of very few rows, or with a number of columns that does not fill registers, round in another way for
    another number of rows: both are filled up with zeros.
    """
    n, width = len(rows), weight.shape[1]
    wide = weight if width % REGISTER == 0 else torch.nn.functional.pad(weight, (0, -width % REGISTER))
    return (at_least_four(rows) @ wide)[:n, :width]
