"""Look-alikes: for a few nodes, the nodes whose vectors point the same way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float32]]


@dataclass(frozen=True)
class LookAlikes:
    """A node, and its nearest others with their cosine, nearest first."""

    name: str
    nearest: tuple[tuple[str, float], ...]


def look_alikes(ids: Sequence[Any], z: Floats, names: Sequence[str] | None = None, k: int = 5) -> list[LookAlikes]:
    """The k nearest by cosine of each named node; without names, of nodes spread evenly over the ids.

    A name that is not there is skipped.
    """
    known = [str(i) for i in ids]
    place = {name: row for row, name in enumerate(known)}
    rows = [place[name] for name in names if name in place] if names is not None else spread(len(known))
    unit = z / np.maximum(np.linalg.norm(z, axis=1, keepdims=True), 1e-12)
    out = []
    for row in rows:
        cosine = unit @ unit[row]
        cosine[row] = -np.inf
        best = np.argsort(-cosine, kind="stable")[: min(k, len(known) - 1)]
        out.append(LookAlikes(known[row], tuple((known[i], float(cosine[i])) for i in best)))
    return out


def spread(n: int, most: int = 12) -> list[int]:
    """Up to `most` rows, evenly spaced.

    >>> spread(100, 4)
    [0, 33, 66, 99]
    """
    return sorted({int(row) for row in np.linspace(0, n - 1, min(n, most))})
