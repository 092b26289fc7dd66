"""The one formula behind J_within and J_neighbor; only the pairs differ (see `rae.model.pairs`)."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import logsigmoid


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
