"""Adam by torch's fused kernel. Its optimiser class does the same, but imports a compiler first: 1.5 seconds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import torch
from torch import Tensor, nn

FIRST, SECOND, EPSILON = 0.9, 0.999, 1e-8  # Adam's usual decay rates and guard against division by zero


class Adam:
    """A step of Adam for these weights, the same numbers as torch.optim.Adam(weights, lr=rate, fused=True)."""

    def __init__(self, weights: Iterable[nn.Parameter], rate: float) -> None:
        self.weights: list[Tensor] = list(weights)
        self.rate = rate
        self._means, self._squares = ([torch.zeros_like(w) for w in self.weights] for _ in range(2))
        self._counts = [torch.zeros((), dtype=torch.float32, device=w.device) for w in self.weights]

    def state(self) -> list[Tensor]:
        """The state between steps, to save in a checkpoint and to fill when training resumes."""
        return [*self._means, *self._squares, *self._counts]

    def zero_grad(self) -> None:
        """Clear the gradients."""
        for weight in self.weights:
            weight.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Move every weight against its gradient."""
        gradients = cast("list[Tensor]", [w.grad for w in self.weights])  # every weight has a gradient of every loss
        torch._foreach_add_(self._counts, 1)
        torch._fused_adam_(
            self.weights, gradients, self._means, self._squares, [], self._counts,
            lr=self.rate, beta1=FIRST, beta2=SECOND, weight_decay=0.0, eps=EPSILON, amsgrad=False, maximize=False,
        )  # fmt: skip
