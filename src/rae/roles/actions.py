"""The features that distinguish a role: those its members have more or less often, or at a higher or lower level.

A feature that most nodes lack (a word) is judged by lift: members that have it over members expected to
have it if they were like all nodes. `PRIOR` imaginary members are added to both, so that a rare word of a
few members is not taken for a difference. A feature that most nodes have (age, amount) is judged by the
shift of its mean, in standard deviations.

How much a feature tells is the divergence (Kullback and Leibler) of the members from all nodes: of the two shares, or
of two normal distributions of one deviation. So a rare word tells little however high its lift, and a frequent one that
the members lack tells something too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import rel_entr

from rae.features import Matrix
from rae.memory import row_chunks
from rae.roles.vectors import CHUNK_ROWS, Doubles, Ints

PRIOR = 3
LEAST_LIFT, LEAST_SHIFT, LEAST_MEMBERS = 1.25, 0.25, 3  # a lack: that many members expected, and as many times fewer
FEATURES_PER_ROLE = 8


def distinctive_features(
    features: Matrix, labels: Ints, k: int, names: Sequence[str] | None = None
) -> list[list[dict[str, Any]]]:
    """Per role, the features that distinguish it, strongest first.

    Each is {feature, column, lift, share, overall} or, for features most nodes have,
    {feature, column, shift, mean, overall}.
    """
    n = features.shape[0]
    sizes = np.bincount(labels, minlength=k).astype(np.float64)[:, None]
    present, sums, squares = _count_by_role(features, labels, k)
    common = present.sum(0) > n / 2
    overall_share, overall_mean = present.sum(0) / n, sums.sum(0) / n
    share, mean = present / np.maximum(sizes, 1), sums / np.maximum(sizes, 1)

    expected = sizes * overall_share
    lift = (present + PRIOR) / (expected + PRIOR)
    rare = ~common & (lift >= LEAST_LIFT) & (present >= LEAST_MEMBERS)
    rare |= ~common & (lift <= 1 / LEAST_LIFT) & (expected >= LEAST_MEMBERS)
    deviation = np.sqrt(np.maximum(squares / n - overall_mean**2, 0))
    damped = (sums + PRIOR * overall_mean) / (sizes + PRIOR)
    shift = np.where(deviation > 1e-9, (damped - overall_mean) / np.maximum(deviation, 1e-9), 0.0)
    shifted = common & (np.abs(shift) >= LEAST_SHIFT)
    damped_share = np.minimum((present + PRIOR * overall_share) / (sizes + PRIOR), 1)
    strength = np.where(rare, divergence(damped_share, overall_share), 0.0) + np.where(shifted, shift**2 / 2, 0.0)

    def entry(role: int, column: int) -> dict[str, Any]:
        name = str(names[column]) if names is not None else f"feature {column}"
        if common[column]:
            values = {"shift": shift[role, column], "mean": mean[role, column], "overall": overall_mean[column]}
        else:
            values = {"lift": lift[role, column], "share": share[role, column], "overall": overall_share[column]}
        return {"feature": name, "column": column} | {key: round(float(value), 4) for key, value in values.items()}

    strongest = np.argsort(-strength, axis=1, kind="stable")[:, :FEATURES_PER_ROLE].tolist()
    return [[entry(role, j) for j in columns if strength[role, j] > 0] for role, columns in enumerate(strongest)]


def divergence(share: Doubles | float, overall: Doubles | float) -> Doubles:
    """How much more a share says of its nodes than that of all nodes does, in nats; 0 where they are equal.

    >>> float(divergence(0.5, 1 / 3).round(3)), float(divergence(0.0, 0.0))
    (0.059, 0.0)
    """
    has, lacks = rel_entr(share, overall), rel_entr(np.subtract(1, share), np.subtract(1, overall))
    return np.asarray(has + lacks, np.float64)


def _count_by_role(features: Matrix, labels: Ints, k: int) -> tuple[Doubles, Doubles, Doubles]:
    """By role, members that have each feature and its sum; its sum of squares.  -> (k, f), (k, f), (f,)"""
    width = features.shape[1]
    present, sums, squares = np.zeros((k, width)), np.zeros((k, width)), np.zeros(width)
    for start, stop in row_chunks(features.shape[0], CHUNK_ROWS):
        rows: Any = features[start:stop]
        size = stop - start
        by_role = sp.csr_array((np.ones(size), (labels[start:stop], np.arange(size))), shape=(k, size))
        if isinstance(rows, np.ndarray):
            rows = rows.astype(np.float64)
            present += by_role @ (rows != 0)
            sums += by_role @ rows
            squares += (rows**2).sum(0)
        else:
            rows = sp.csr_array(rows, dtype=np.float64)
            nonzero = sp.csr_array(((rows.data != 0).astype(np.float64), rows.indices, rows.indptr), shape=rows.shape)
            present += (by_role @ nonzero).toarray()
            sums += (by_role @ rows).toarray()
            squares += np.bincount(rows.indices, weights=rows.data**2, minlength=width)
    return present, sums, squares
