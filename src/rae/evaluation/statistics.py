"""Statistics of runs: mean, spread, interval, and comparison with a published value or a floor."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from rae.evaluation.table_spec import Published

Array = np.ndarray[Any, Any]


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


@dataclass(frozen=True)
class Gap:
    """Ours minus another row, and the standard error of that difference; None where one run decides nothing."""

    mean: float
    error: float | None
    half: float = 0.0  # half the width of the 95 % interval

    @property
    def against(self) -> str:
        """Above, level with or below, by the 95 % interval."""
        if self.error is None:
            return "undecided against"
        return "above" if self.mean > self.half else "below" if self.mean < -self.half else "level with"

    @property
    def place(self) -> str:
        """Above, level or below, by the standard error."""
        if self.error is None:
            return "undecided"
        return "above" if self.mean > self.error else "below" if self.mean < -self.error else "level"

    @property
    def in_errors(self) -> float:
        """The difference in standard errors, between -10 and 10; 0 where it is undecided."""
        if self.error is None:
            return 0.0
        return float(np.clip(self.mean / max(self.error, 1e-9), -10, 10))


def paired_gap(ours: Mapping[int, float], other: Mapping[int, float]) -> Gap | None:
    """The gap of two rows, paired seed by seed.

    >>> paired_gap({0: 80.0, 1: 82.0}, {0: 79.0, 1: 80.0}).place
    'above'
    """
    gap = difference(ours, other)
    if gap is None:
        return None
    if gap.runs < 2:
        return Gap(gap.mean, None)
    return Gap(gap.mean, gap.sd / math.sqrt(gap.runs), gap.high - gap.mean)


def gap_on_nodes(ours: Array, other: Array) -> Gap:
    """The gap of two rows in percent on one test set, paired node by node: (runs, t) right or wrong each.

    A test set is a sample of nodes too: one of 1,000 has an error of its own, which several runs on it do not lower.
    """
    differences = 100 * (ours.mean(0) - other.mean(0))
    error = float(differences.std(ddof=1)) / math.sqrt(len(differences))
    return Gap(float(differences.mean()), error, 1.96 * error)


def two_sample(a: Sequence[float], b: Sequence[float]) -> tuple[float, int, float]:
    """Student's two-sided t-test of two rows, as the paper does it: t, degrees of freedom, p."""
    test = stats.ttest_ind(a, b)
    return float(test.statistic), len(a) + len(b) - 2, float(test.pvalue)
