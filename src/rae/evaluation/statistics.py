"""From runs to words: mean, spread, interval, and what they say beside a published value or a floor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from rae.evaluation.cells import Published


@dataclass(frozen=True)
class Summary:
    """The runs of one cell."""

    mean: float
    sd: float  # of the runs; 0 for a single one
    runs: int
    low: float  # the 95 % interval of the mean, by Student's t
    high: float


def summary(scores: Sequence[float]) -> Summary:
    """Mean, standard deviation and 95 % interval of the mean.

    >>> summary([1.0, 2.0, 3.0]).sd
    1.0
    """
    mean, n = float(np.mean(scores)), len(scores)
    sd = float(np.std(scores, ddof=1)) if n > 1 else 0.0
    half = float(stats.t.ppf(0.975, n - 1)) * sd / math.sqrt(n) if n > 1 else 0.0
    return Summary(mean, sd, n, mean - half, mean + half)


def verdict(ours: Summary, published: Published) -> str:
    """Reproduced, better or worse: ours within the published standard deviation (ours where it has none, 1 at least).

    >>> verdict(summary([80.0, 80.2]), Published(78.0, 0.9))
    'better'
    """
    margin = published.sd if published.sd is not None else max(1.0, ours.sd)
    if ours.mean > published.mean + margin:
        return "better"
    return "worse" if ours.mean < published.mean - margin else "reproduced"


def against_floor(ours: Sequence[float], floor: Sequence[float]) -> str:
    """Above, level with or below a floor, by the 95 % interval of the difference; paired where both have the runs.

    >>> against_floor([80.0, 80.5, 80.2], [75.0])
    'above'
    """
    if len(ours) == len(floor) > 1:
        gap = summary([a - b for a, b in zip(ours, floor, strict=True)])
    else:
        # A floor of one run has no spread of its own: it is the same every time.
        a, b = summary(ours), summary(floor)
        half = math.hypot(a.high - a.mean, b.high - b.mean)
        gap = Summary(a.mean - b.mean, 0.0, a.runs, a.mean - b.mean - half, a.mean - b.mean + half)
    if gap.low > 0:
        return "above"
    return "below" if gap.high < 0 else "level with"


def two_sample(a: Sequence[float], b: Sequence[float]) -> tuple[float, int, float]:
    """Student's two-sided t-test of two rows, as the paper does it: t, degrees of freedom, p."""
    found = stats.ttest_ind(a, b)
    return float(found.statistic), len(a) + len(b) - 2, float(found.pvalue)
