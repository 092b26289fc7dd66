"""The one formula behind J_within and J_neighbor (only the pairs differ), and the two parts of the loss "agree"."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from rae.ops.dense import gram


def contrast(
    positive: Tensor, negative: Tensor, *, negative_weight: float = 1.0, valid: Tensor | None = None
) -> Tensor:
    """-(E[log σ(z_u · z_v)] + weight · E[log σ(-z_u · z_w)]), from the products of the pairs.

    `valid` marks the negatives that exist; an anchor may lack some (a hub without non-neighbours).

    >>> import torch
    >>> float(contrast(torch.zeros(2), torch.zeros(2)))  # 2 log 2: nothing learned yet
    1.3862943649291992
    """
    away = logsigmoid(-negative)
    mean_away = away.mean() if valid is None else (away * valid).sum() / valid.sum().clamp(min=1)
    return -(logsigmoid(positive).mean() + negative_weight * mean_away)


def agreement(first: Tensor, second: Tensor, near: Tensor, *, near_share: float, decorrelation: float) -> Tensor:
    """How little the columns of views agree, and how much they repeat each other.  (b, d) three times -> ()

    -1 is full agreement without any repetition. Row i of `first` and `second` are two views of one node, and
    of `near` a view of a node near it. With columns of mean 0 and length 1, a, b and c:
    `(decorrelation (|aᵀa - I|² + |bᵀb - I|²) / d - Σ a ((1 - near_share) b + near_share c)) / d`.

    >>> z = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    >>> round(float(agreement(z, z, z, near_share=0.5, decorrelation=1.0)), 5)
    -1.0
    """
    d = first.shape[1]
    a, b, c = _unit_columns(first), _unit_columns(second), _unit_columns(near)
    one = torch.eye(d, dtype=a.dtype, device=a.device)
    repeated = (gram(a) - one).square().sum() + (gram(b) - one).square().sum()
    agreed = (a * ((1 - near_share) * b + near_share * c)).sum()
    return (decorrelation / d * repeated - agreed) / d


def _unit_columns(z: Tensor) -> Tensor:
    """Columns of mean 0 and length 1; a constant one becomes 0."""
    centered = z - z.mean(0)
    lengths: Tensor = centered.square().sum(0).add(1e-12 * len(z)).sqrt()
    return centered / lengths


def telling(z: Tensor, xd: Tensor, lengths: Tensor, sizes: Tensor) -> Tensor:
    """Mean of (1 - cos(D z_u, x_u))²: how badly vectors tell features.  (b, d), (b, d), (b,), (b,) -> ()

    Neither x nor D z is here, so wide sparse features are never made dense: `xd` = x D, since x · D z = (x D) · z;
    `lengths` = `|D z|` (`Decoder.lengths`); `sizes` = `|x|`. Rows of zeros tell nothing and do not count.
    """
    exists = (sizes > 0).to(z.dtype)
    wrong = (1 - (z * xd).sum(1) / (lengths * torch.where(sizes > 0, sizes, 1))).square()
    return (wrong * exists).sum() / exists.sum().clamp(min=1)
