"""Which features set a role apart: by how much more often its members have them, or how much higher they stand.

A feature that most nodes lack (a word) is judged by who has it: lift is how many members have it
over how many would if they were like everybody. `PRIOR` imaginary members are added to both, so
that a rare word which a few members happen to have does not look like a discovery. A feature that
most nodes have (age, amount) is judged by its mean, in standard deviations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from rae.features import Matrix
from rae.roles.canonical import Doubles, Ints, chunks

PRIOR = 3  # imaginary members on both sides of a lift
LEAST_LIFT, LEAST_SHIFT, LEAST_MEMBERS = 1.25, 0.25, 3
MOST = 8  # features named per role


def standing_out(
    features: Matrix, labels: Ints, k: int, names: Sequence[str] | None = None, most: int = MOST
) -> list[list[dict[str, Any]]]:
    """Per role, the features that set it apart, strongest first.

    Each is {feature, column, lift, share, overall} or, for features most nodes have,
    {feature, column, shift, mean, overall}.
    """
    n = features.shape[0]
    sizes = np.bincount(labels, minlength=k).astype(np.float64)
    having, sums, squares = _counted(features, labels, k)
    common = having.sum(0) > n / 2
    shares = having.sum(0) / n
    lift = (having + PRIOR) / (sizes[:, None] * shares + PRIOR)
    gain = having / np.maximum(sizes[:, None], 1) * np.log(lift)  # common and telling
    rare = ~common & (lift >= LEAST_LIFT) & (having >= LEAST_MEMBERS)
    mean = sums.sum(0) / n
    spread = np.sqrt(np.maximum(squares / n - mean**2, 0))
    damped = (sums + PRIOR * mean) / (sizes[:, None] + PRIOR)
    shift = np.where(spread > 1e-9, (damped - mean) / np.maximum(spread, 1e-9), 0.0)
    strength = np.where(rare, gain, 0.0) + np.where(common & (np.abs(shift) >= LEAST_SHIFT), np.abs(shift) / 10, 0.0)
    out: list[list[dict[str, Any]]] = []
    for role in range(k):
        best = [j for j in np.argsort(-strength[role], kind="stable")[:most].tolist() if strength[role, j] > 0]
        told: list[dict[str, Any]] = []
        for j in best:
            entry: dict[str, Any] = {"feature": str(names[j]) if names is not None else f"feature {j}", "column": j}
            if common[j]:
                own = sums[role, j] / sizes[role]
                entry |= _rounded(shift=shift[role, j], mean=own, overall=mean[j])
            else:
                own = having[role, j] / sizes[role]
                entry |= _rounded(lift=lift[role, j], share=own, overall=shares[j])
            told.append(entry)
        out.append(told)
    return out


def _counted(features: Matrix, labels: Ints, k: int) -> tuple[Doubles, Doubles, Doubles]:
    """Members that have each feature and their sums, by role; sums of squares over all.  -> (k, f), (k, f), (f,)"""
    width = features.shape[1]
    having, sums, squares = np.zeros((k, width)), np.zeros((k, width)), np.zeros(width)
    for a, b in chunks(features.shape[0]):
        part: Any = features[a:b]
        ones, places = np.ones(b - a), (labels[a:b], np.arange(b - a))
        roles = sp.csr_array((ones, places), shape=(k, b - a))
        if isinstance(part, np.ndarray):
            part = part.astype(np.float64)
            having += roles @ (part != 0)
            sums += roles @ part
            squares += (part**2).sum(0)
        else:
            part = sp.csr_array(part, dtype=np.float64)
            present = sp.csr_array(((part.data != 0).astype(np.float64), part.indices, part.indptr), shape=part.shape)
            having += (roles @ present).toarray()
            sums += (roles @ part).toarray()
            squares += np.bincount(part.indices, weights=part.data**2, minlength=width)
    return having, sums, squares


def _rounded(**values: float) -> dict[str, float]:
    return {name: round(float(value), 4) for name, value in values.items()}
