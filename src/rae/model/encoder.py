"""Algorithms 1 and 2: average a neighbourhood, project, normalise, squash; level after level."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.nn import functional

from rae.config import Config
from rae.errors import FeatureError
from rae.features.matrix import check_csr
from rae.model.sampling import Block
from rae.ops.dense import dropout, dropout_mask, gram, norm_tanh, norm_tanh_dropout, product
from rae.ops.gather import SparseRows, average, sparse_product
from rae.runtime import generator, key

Rows = Tensor | sp.csr_array | SparseRows  # dense rows are tensors, sparse rows stay sparse
Doubles = np.ndarray[Any, np.dtype[np.float64]]
Stream = tuple[int | str, ...]  # (seed, words and counters ...): the name of a random stream
Keys = Mapping[tuple[int | str, ...], Tensor]  # of what is dropped, by level and layer: (key, rows that count) on a GPU

_ACTIVATIONS = {
    "tanh": torch.tanh,
    "relu": torch.relu,
    "elu": functional.elu,
    "leaky_relu": functional.leaky_relu,
}


class Layer(nn.Module):
    """One projection and the paper's σ = Dropout(tanh(BatchNorm(.)))."""

    def __init__(self, n_in: int, n_out: int, activation: str, dropout: float, rng: np.random.Generator) -> None:
        super().__init__()
        bound = (6.0 / (n_in + n_out)) ** 0.5  # Xavier uniform
        self.weight = nn.Parameter(torch.from_numpy(rng.uniform(-bound, bound, (n_in, n_out)).astype(np.float32)))
        self.norm = nn.BatchNorm1d(n_out, dtype=torch.float32)
        self.activation, self.dropout = activation, dropout

    def project(self, x: Rows) -> Tensor:
        """W x, row by row; sparse rows stay sparse.  (n, n_in) -> (n, n_out)"""
        return product(x, self.weight) if isinstance(x, Tensor) else sparse_product(x, self.weight)

    def norm_factors(self) -> tuple[Doubles, Doubles]:
        """The factor and the offset of a fitted layer's BatchNorm.  -> (d,), (d,)"""
        norm = self.norm
        assert norm.running_mean is not None
        assert norm.running_var is not None
        parameters = (norm.weight, norm.bias, norm.running_mean, norm.running_var)
        gain, shift, mean, variance = (values.detach().cpu().double().numpy() for values in parameters)
        gain = gain / np.sqrt(variance + norm.eps)
        return gain, shift - mean * gain

    def activate(self, h: Tensor, dropout_key: Any = None) -> Tensor:
        """σ(h). In training `dropout_key` decides what is dropped; without it torch's own generator does."""
        if self.activation == "tanh" and not self.training:
            return norm_tanh(h, self.norm)
        if self.activation == "tanh" and dropout_key is not None:
            return norm_tanh_dropout(h, self.norm, self.dropout, dropout_key)
        h = _ACTIVATIONS[self.activation](self.norm(h))
        if not self.training or self.dropout == 0:
            return h
        return functional.dropout(h, self.dropout) if dropout_key is None else dropout(h, self.dropout, dropout_key)


class Level(nn.Module):
    """One level: Agg^k (Algorithm 2), then σ^k(W^k ·) (Algorithm 1)."""

    def __init__(self, n_in: int, n_out: int, config: Config, rng: np.random.Generator) -> None:
        super().__init__()
        self.order = config.order
        self.aggregate = Layer(n_in, n_out, config.activation, config.dropout, rng)
        self.update = Layer(n_out, n_out, config.activation, config.dropout, rng) if config.projections == 2 else None

    @property
    def widths(self) -> tuple[int, int]:
        """Columns that the level reads and columns of its vectors."""
        n_in, n_out = self.aggregate.weight.shape
        return int(n_in), int(n_out)

    def projects_first(self, dense: bool) -> bool:
        """Whether rows are projected, then averaged: averaging is linear, so where that moves fewer bytes."""
        n_in, n_out = self.widths
        return self.order == "project_first" or n_out < n_in or not dense

    def before(self, x: Rows, dropout_key: Any = None) -> Tensor:
        """The rows that the level averages, from the rows that it reads.  (n, n_in) -> (n, columns)"""
        if isinstance(x, Tensor) and not self.projects_first(dense=True):
            return x
        h = self.aggregate.project(x)
        return self.aggregate.activate(h, dropout_key) if self.order == "project_first" else h

    def after(self, means: Tensor, projected: bool, keys: tuple[Any, Any] = (None, None)) -> Tensor:
        """The level's vectors, from the means over neighbourhoods.  (n, columns) -> (n, n_out)"""
        h = means
        if self.order != "project_first":
            h = self.aggregate.activate(h if projected else self.aggregate.project(h), keys[0])
        return h if self.update is None else self.update.activate(self.update.project(h), keys[1])

    def forward(self, x: Rows, block: Block, keys: tuple[Any, Any] = (None, None)) -> Tensor:
        """The vectors of the rows of a block; `keys` decide what the two layers drop in training."""
        projected = self.projects_first(isinstance(x, Tensor))
        return self.after(average(self.before(x, keys[0]), block), projected, keys)


class Decoder(nn.Module):
    """D of the loss "agree", which tells features from vectors; dropped after the fit."""

    def __init__(self, n_features: int, width: int, rng: np.random.Generator) -> None:
        super().__init__()
        scaled = rng.standard_normal((n_features, width), np.float32) / np.float32(width**0.5)
        self.weight = nn.Parameter(torch.from_numpy(scaled))

    def project(self, x: Rows) -> Tensor:
        """x D, row by row; sparse rows stay sparse.  (n, n_features) -> (n, width)"""
        return product(x, self.weight) if isinstance(x, Tensor) else sparse_product(x, self.weight)

    def lengths(self, *views: Tensor) -> list[Tensor]:
        """|D z| of every row, as √(zᵀ DᵀD z), so that D z, as wide as the features, is never made.  (b, d) -> (b,)"""
        squares = gram(self.weight)
        return [(product(z, squares) * z).sum(1).clamp(min=1e-12).sqrt() for z in views]


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
        self.levels = nn.ModuleList(Level(a, b, config, rng) for a, b in itertools.pairwise(widths))

    @property
    def width(self) -> int:
        """Columns of the embedding: all levels side by side."""
        return sum(level.widths[1] for level in self.stack())

    @property
    def depth(self) -> int:
        """K, the number of levels."""
        return len(self.levels)

    def stack(self) -> list[Level]:
        """The levels, the first one first."""
        return [level for level in self.levels if isinstance(level, Level)]

    def norms(self) -> list[nn.BatchNorm1d]:
        """The normalisations of all levels."""
        return [layer.norm for level in self.stack() for layer in (level.aggregate, level.update) if layer is not None]

    def forward(self, x: Any, blocks: Sequence[Block], stream: Stream | None = None) -> Tensor:
        """All levels of each row of the last block, the last level first, as `transform` gives them.

        (n, n_features) -> (r, d_K + ... + d_1). x is a tensor, an array or a SciPy CSR, one row per node that
        `sample_blocks` or `exact_blocks` named. `stream` = (seed, words and counters ...) names the random
        stream of dropout in training; without it torch's own generator decides.
        """
        *lower, last = self.hidden(x, blocks, stream)
        columns, place = [last], blocks[-1].ego
        for k in range(len(lower) - 1, -1, -1):
            columns.append(lower[k][place.to(last.device)])
            place = blocks[k].ego[place]
        return torch.cat(columns, 1)

    def hidden(self, x: Any, blocks: Sequence[Block | None], stream: Stream | Keys | None = None) -> list[Tensor]:
        """h^1 ... h^K, each for the rows of its own block; the losses compare h^K.  -> (r_1, d_1) ... (r_K, d_K)

        Where the first block is None, x are the means over it already.
        """
        h: Any = torch.from_numpy(x) if isinstance(x, np.ndarray) else x
        if isinstance(h, Tensor):
            h = h.to(self.stack()[0].aggregate.weight.device)
        elif not isinstance(h, SparseRows):
            h = check_csr(h)
        if h.shape[1] != self.n_features:
            raise FeatureError(f"the encoder reads {self.n_features:,} feature columns, got {h.shape[1]:,}")
        if self.training and self.input_dropout and not isinstance(stream, Mapping):
            h = self._drop_input(h, stream)
        levels = []
        for k, (level, block) in enumerate(zip(self.stack(), blocks, strict=True)):
            keys = (None, None) if stream is None else (_key(stream, k, "aggregate"), _key(stream, k, "update"))
            h = level.after(h, False, keys) if block is None else level(h, block, keys)
            levels.append(h)
        return levels

    def _drop_input(self, x: Any, stream: Stream | None) -> Any:
        share = self.input_dropout
        if isinstance(x, Tensor):
            return functional.dropout(x, share) if stream is None else dropout(x, share, _key(stream, "input"))
        salt = int(torch.randint(2**62, ())) if stream is None else _key(stream, "input")
        mask = dropout_mask(x.nnz, share, salt, like=torch.empty(0)).numpy()
        return sp.csr_array((x.data * mask, x.indices, x.indptr), shape=x.shape)


@contextlib.contextmanager
def statistics_of(level: Level) -> Iterator[None]:
    """Inside this block a pass through the level makes its rows the statistics of its normalisation."""
    layers = [layer for layer in (level.aggregate, level.update) if layer is not None]
    before = [(layer.norm.momentum, layer.dropout) for layer in layers]
    level.train()
    for layer in layers:
        layer.norm.momentum, layer.dropout = 1.0, 0.0
    try:
        yield
    finally:
        level.eval()
        for layer, (momentum, dropout) in zip(layers, before, strict=True):
            layer.norm.momentum, layer.dropout = momentum, dropout


def _key(stream: Stream | Keys, *parts: int | str) -> Any:
    if isinstance(stream, Mapping):
        return stream[parts]
    seed, *purpose = stream
    return key(int(seed), *purpose, *parts)
