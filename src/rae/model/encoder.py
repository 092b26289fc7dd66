"""Algorithms 1 and 2: average a neighbourhood, project, normalise, squash; level after level."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.nn import functional

from rae.config import Config
from rae.features import Matrix
from rae.model.sampling import Block
from rae.ops import cpu
from rae.runtime import generator, in_ranges, key, torch_alone_here

_ACTIVATIONS = {
    "tanh": torch.tanh,
    "relu": torch.relu,
    "elu": functional.elu,
    "leaky_relu": functional.leaky_relu,
}
CHUNK = 512  # rows that are multiplied at a time
_WORTH = 1 << 18  # entries: less than this is done before a second thread has woken up


def _stripe(rows: Any) -> int:
    """How many columns a thread should take at least, so that its part is worth it and a cache line wide."""
    return max(32, -(-_WORTH // max(1, len(rows))))


def _rows(out: Any) -> int:
    """How many rows a thread should take at least."""
    return -(-_WORTH // max(1, 4 * int(out.shape[1])))  # a row is made of several others


class _Average(torch.autograd.Function):
    """mean({u} ∪ N(u)) over a block, forwards by gathering, backwards by scattering."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, block: Block) -> Tensor:
        rows = x.detach().numpy()
        sums = np.empty((len(block.offsets) - 1, rows.shape[1]), rows.dtype)
        in_ranges(lambda a, b: cpu.sum_rows(block.offsets, block.index, rows, sums, a, b), len(sums), _rows(sums))
        share = _shares(block, rows.dtype)
        total = torch.from_numpy(sums)
        if block.lists is not None:
            total = total[torch.from_numpy(block.lists)]
        ctx.block, ctx.n_below, ctx.share = block, len(rows), share
        return total.add_(x.detach()[torch.from_numpy(block.ego)]).mul_(share)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        block: Block = ctx.block
        scaled = (grad * ctx.share).numpy()
        out = np.zeros((ctx.n_below, scaled.shape[1]), scaled.dtype)
        sums = scaled
        if block.lists is not None:
            sums = np.zeros((len(block.offsets) - 1, scaled.shape[1]), scaled.dtype)
            _scatter(np.arange(len(scaled) + 1), block.lists, scaled, sums)
        _scatter(np.arange(len(scaled) + 1), block.ego, scaled, out)
        _scatter(block.offsets, block.index, sums, out)
        return torch.from_numpy(out), None


def _shares(block: Block, dtype: Any) -> Tensor:
    counts = np.diff(block.offsets)
    if block.lists is not None:
        counts = counts[block.lists]
    return torch.from_numpy((1.0 / (1.0 + counts)).astype(dtype)[:, None])


def _scatter(offsets: Any, index: Any, grad: Any, out: Any) -> None:
    in_ranges(lambda a, b: cpu.scatter_rows(offsets, index, grad, out, a, b), grad.shape[1], _stripe(index))


def average(x: Tensor, block: Block) -> Tensor:
    """mean({u} ∪ N(u)) for every row of the block.  (n, d) -> (r, d)"""
    out: Tensor = _Average.apply(x.contiguous(), block)  # type: ignore[no-untyped-call]
    return out


class _Product(torch.autograd.Function):
    """Dense rows times weights, CHUNK rows at a time on as many threads as there are.

    Torch itself adds in another order for another number of threads; chunks are cut the same for any.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _product(x, weight)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor]:
        x, weight = ctx.saved_tensors
        grad = grad.contiguous()
        below = _product(grad, weight.T) if ctx.needs_input_grad[0] else None
        shares = torch.empty((max(1, -(-len(x) // CHUNK)), *weight.shape), dtype=weight.dtype)
        _in_chunks(lambda i, a, b: torch.mm(x[a:b].T, grad[a:b], out=shares[i]), len(x))
        return below, shares.sum(0) if len(shares) > 1 else shares[0]


def _product(x: Tensor, weight: Tensor) -> Tensor:
    out = torch.empty((len(x), weight.shape[1]), dtype=weight.dtype)
    _in_chunks(lambda _, a, b: torch.mm(x[a:b], weight, out=out[a:b]), len(x))
    return out


def _in_chunks(work: Callable[[int, int, int], Any], n_rows: int) -> None:
    """Call work(number, first row, last row) for each chunk of rows, spread over the threads."""

    def some(start: int, stop: int) -> None:
        torch_alone_here()
        with torch.no_grad():  # a thread of its own begins with gradients
            for i in range(start, stop):
                work(i, i * CHUNK, min((i + 1) * CHUNK, n_rows))

    in_ranges(some, max(1, -(-n_rows // CHUNK)))


class _SparseProduct(torch.autograd.Function):
    """Sparse rows times weights; the rows are data and get no gradient."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, x: sp.csr_array) -> Tensor:
        ctx.x, ctx.n_below = x, len(weight)
        return torch.from_numpy(sparse_product(x, weight.detach().numpy()))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        x, rows = ctx.x, grad.contiguous().numpy()
        out = np.zeros((ctx.n_below, rows.shape[1]), rows.dtype)

        def work(start: int, stop: int) -> None:
            cpu.sparse_dense_grad(x.indptr, x.indices, x.data, rows, out, start, stop)

        in_ranges(work, rows.shape[1], _stripe(x.indices))
        return torch.from_numpy(out), None


def sparse_product(x: sp.csr_array, weight: Any) -> Any:
    """Sparse rows times dense weights, as a dense array."""
    out = np.empty((x.shape[0], weight.shape[1]), weight.dtype)
    in_ranges(lambda a, b: cpu.sparse_dense(x.indptr, x.indices, x.data, 0, weight, out, a, b), len(out), _rows(out))
    return out


def drop(x: Tensor, share: float, luck: Any) -> Tensor:
    """x with a share of its entries zeroed and the rest scaled up; which ones depends on luck alone."""
    return x * torch.from_numpy(_mask(x.numel(), share, luck)).view(x.shape)


def _mask(size: int, share: float, luck: Any) -> Any:
    threshold, scale = _dropping(share)
    out = np.empty(size, np.float32)
    in_ranges(lambda a, b: cpu.fill_mask(luck, 0, threshold, scale, out[a:b], a), size, _WORTH)
    return out


def _dropping(share: float) -> tuple[Any, Any]:
    """The hash below which an entry is dropped, and what the others are multiplied by."""
    return np.uint32(round(share * 2**32)), np.float32(1 / (1 - share))


class _Squash(torch.autograd.Function):
    """Dropout(tanh(BatchNorm(x))) with batch statistics, a few passes over memory each way."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, gain: Tensor, shift: Tensor, norm: nn.BatchNorm1d, share: float, luck: Any
    ) -> Tensor:
        rows, g, s = x.detach().numpy(), gain.detach().numpy(), shift.detach().numpy()
        mean, variance, inverse = (np.empty(rows.shape[1], np.float32) for _ in range(3))
        kept, out = np.empty_like(rows), np.empty_like(rows)
        threshold, scale = _dropping(share)

        def work(a: int, b: int) -> None:
            cpu.column_moments(rows, norm.eps, mean, variance, inverse, a, b)
            cpu.squash(rows, g, s, mean, inverse, luck, threshold, scale, kept, out, a, b)

        in_ranges(work, rows.shape[1], _stripe(rows))
        _track(norm, mean, variance, len(rows))
        ctx.saved = rows, kept, g, mean, inverse, luck, threshold, scale
        return torch.from_numpy(out)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None, None]:
        rows, kept, gain, mean, inverse, luck, threshold, scale = ctx.saved
        given = grad.contiguous().numpy()
        out, of_gain, of_shift = np.empty_like(rows), np.empty_like(mean), np.empty_like(mean)

        def work(a: int, b: int) -> None:
            cpu.squash_grad(
                given, rows, kept, gain, mean, inverse, luck, threshold, scale, out, of_gain, of_shift, a, b
            )  # fmt: skip

        in_ranges(work, rows.shape[1], _stripe(rows))
        return torch.from_numpy(out), torch.from_numpy(of_gain), torch.from_numpy(of_shift), None, None, None


def _track(norm: nn.BatchNorm1d, mean: Any, variance: Any, n: int) -> None:
    """Move the running statistics towards those of this batch, as BatchNorm1d does."""
    with torch.no_grad():
        assert norm.running_mean is not None
        assert norm.running_var is not None
        assert norm.num_batches_tracked is not None
        assert norm.momentum is not None
        norm.running_mean.lerp_(torch.from_numpy(mean), norm.momentum)
        norm.running_var.lerp_(torch.from_numpy(variance) * (n / max(1, n - 1)), norm.momentum)
        norm.num_batches_tracked += 1


class Layer(nn.Module):
    """One projection and the paper's σ = Dropout(tanh(BatchNorm(.)))."""

    def __init__(self, n_in: int, n_out: int, activation: str, dropout: float, rng: np.random.Generator) -> None:
        super().__init__()
        bound = (6.0 / (n_in + n_out)) ** 0.5  # Xavier uniform
        self.weight = nn.Parameter(torch.from_numpy(rng.uniform(-bound, bound, (n_in, n_out)).astype(np.float32)))
        self.norm = nn.BatchNorm1d(n_out, dtype=torch.float32)
        self.activation, self.dropout = activation, dropout

    def project(self, x: Tensor | sp.csr_array) -> Tensor:
        """W x, row by row; sparse rows stay sparse.  (n, n_in) -> (n, n_out)"""
        if isinstance(x, Tensor):
            if not torch.is_grad_enabled():  # embedding gives each thread rows of its own
                return x @ self.weight
            dense: Tensor = _Product.apply(x, self.weight)  # type: ignore[no-untyped-call]
            return dense
        out: Tensor = _SparseProduct.apply(self.weight, x)  # type: ignore[no-untyped-call]
        return out

    def squash(self, h: Tensor, luck: Any = None) -> Tensor:
        """σ(h). In training mode `luck` decides what is dropped; without it torch's own generator does."""
        if self.training and luck is not None and self.activation == "tanh":
            out: Tensor = _Squash.apply(h, self.norm.weight, self.norm.bias, self.norm, self.dropout, luck)  # type: ignore[no-untyped-call]
            return out
        if not self.training and self.activation == "tanh" and not torch.is_grad_enabled():
            return self._squash_exactly(h)
        h = _ACTIVATIONS[self.activation](self.norm(h))
        if not self.training or self.dropout == 0:
            return h
        return functional.dropout(h, self.dropout) if luck is None else drop(h, self.dropout, luck)

    def _squash_exactly(self, h: Tensor) -> Tensor:
        """σ(h) with the running statistics and nothing dropped, in one pass over memory."""
        norm, rows = self.norm, h.contiguous().numpy()
        assert norm.running_mean is not None
        assert norm.running_var is not None
        inverse = torch.rsqrt(norm.running_var + norm.eps).numpy()
        gain, shift, mean = (t.detach().numpy() for t in (norm.weight, norm.bias, norm.running_mean))
        out = np.empty_like(rows)
        nothing, whole = np.uint32(0), np.float32(1)
        cpu.squash(rows, gain, shift, mean, inverse, np.uint64(0), nothing, whole, out, out, 0, rows.shape[1])
        return torch.from_numpy(out)


class Level(nn.Module):
    """One level: Agg^k (Algorithm 2), then σ^k(W^k ·) (Algorithm 1)."""

    def __init__(self, n_in: int, n_out: int, config: Config, rng: np.random.Generator) -> None:
        super().__init__()
        self.order = config.order
        self.aggregate = Layer(n_in, n_out, config.activation, config.dropout, rng)
        self.update = Layer(n_out, n_out, config.activation, config.dropout, rng) if config.projections == 2 else None

    @property
    def narrows(self) -> bool:
        """Whether projecting leaves fewer columns to average."""
        n_in, n_out = self.aggregate.weight.shape
        return n_out < n_in

    def forward(self, x: Tensor | sp.csr_array, block: Block, luck: tuple[Any, Any] = (None, None)) -> Tensor:
        """Averaging is linear, so it goes after the projection whenever that moves fewer bytes."""
        if self.order == "project_first":
            h = average(self.aggregate.squash(self.aggregate.project(x), luck[0]), block)
        elif self.narrows or not isinstance(x, Tensor):
            h = self.aggregate.squash(average(self.aggregate.project(x), block), luck[0])
        else:
            h = self.aggregate.squash(self.aggregate.project(average(x, block)), luck[0])
        return self.finish(h, luck[1])

    def finish(self, h: Tensor, luck: Any = None) -> Tensor:
        """σ^k(W^k h), or h itself when the level has one projection only."""
        return h if self.update is None else self.update.squash(self.update.project(h), luck)


class Encoder(nn.Module):
    """The model: features and blocks in, one vector per row of the last block out.

    >>> Encoder(31, Config(dims=(192, 64))).width
    256
    """

    def __init__(self, n_features: int, config: Config, rng: np.random.Generator | None = None) -> None:
        super().__init__()
        rng = generator(config.seed, "encoder") if rng is None else rng
        widths = (n_features, *config.dims)
        self.n_features, self.input_dropout = n_features, config.input_dropout
        self.levels = nn.ModuleList(
            Level(a, b, config, rng) for a, b in itertools.pairwise(widths)
        )  # fmt: skip

    @property
    def width(self) -> int:
        """Columns of the embedding: all levels side by side."""
        return sum(level.aggregate.weight.shape[1] for level in self.stack())

    def stack(self) -> list[Level]:
        """The levels, the first one first."""
        return [level for level in self.levels if isinstance(level, Level)]

    def forward(self, x: Tensor | Matrix, blocks: Sequence[Block], luck: tuple[int | str, ...] | None = None) -> Tensor:
        """z = h^K for each row of the last block.  (n, n_features) -> (r, d_K)

        `luck` = (seed, words and counters ...) names the random stream of dropout in training mode.
        """
        h: Any = torch.from_numpy(x) if isinstance(x, np.ndarray) else x
        if self.training and self.input_dropout:
            h = self._drop_input(h, luck)
        for k, (level, block) in enumerate(zip(self.stack(), blocks, strict=True)):
            keys = (None, None) if luck is None else (_key(luck, k, "aggregate"), _key(luck, k, "update"))
            h = level(h, block, keys)
        out: Tensor = h
        return out

    def _drop_input(self, x: Any, luck: tuple[int | str, ...] | None) -> Any:
        if isinstance(x, Tensor):
            share = self.input_dropout
            return functional.dropout(x, share) if luck is None else drop(x, share, _key(luck, "input"))
        salt = int(torch.randint(2**62, ())) if luck is None else _key(luck, "input")
        return sp.csr_array((x.data * _mask(x.nnz, self.input_dropout, salt), x.indices, x.indptr), shape=x.shape)


def _key(luck: tuple[int | str, ...], *parts: int | str) -> Any:
    seed, *purpose = luck
    return key(int(seed), *purpose, *parts)
