"""Statistics of runs: mean, spread, interval, and comparison with a published value or a floor."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from rae.evaluation.table_spec import Published


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


def difference(ours: Mapping[int, float], other: Mapping[int, float]) -> Summary | None:
    """Ours minus the other over the seeds that both have; a row of one run is compared with every seed.

    >>> difference({0: 80.0, 1: 82.0}, {0: 79.0, 1: 80.0, 2: 60.0}).mean
    1.5
    """
    if len(other) == 1:
        other = dict.fromkeys(ours, next(iter(other.values())))
    gaps = [ours[seed] - other[seed] for seed in ours if seed in other]
    return summary(gaps) if gaps else None


def against_floor(ours: Mapping[int, float], floor: Mapping[int, float]) -> str:
    """Above, level with or below a floor, by the 95 % interval of the difference; one run decides nothing.

    >>> against_floor({0: 80.0, 1: 80.5, 2: 80.2}, {0: 75.0})
    'above'
    """
    gap = difference(ours, floor)
    if gap is None or gap.runs < 2:
        return "undecided against"
    if gap.low > 0:
        return "above"
    return "below" if gap.high < 0 else "level with"


def two_sample(a: Sequence[float], b: Sequence[float]) -> tuple[float, int, float]:
    """Student's two-sided t-test of two rows, as the paper does it: t, degrees of freedom, p."""
    test = stats.ttest_ind(a, b)
    return float(test.statistic), len(a) + len(b) - 2, float(test.pvalue)
