"""The callback of long work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Progress(Protocol):
    """Called with the stage, how much of it is done, its total (0: unknown), and numbers worth showing."""

    def __call__(self, stage: str, done: int, total: int, info: Mapping[str, float], /) -> None: ...
