"""Checks of the options of generators and baselines."""

from __future__ import annotations

import math
import operator
from typing import Any

from rae.errors import ConfigError


def whole_number(name: str, value: Any, low: int) -> int:
    """The value as an int of `low` or more; anything else is refused."""
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or number < low:
        raise ConfigError(f"{name} must be a whole number, {low:,} or more, got {value!r}")
    return number


def fraction(name: str, value: Any, high: float = 1.0) -> float:
    """The value as a float from 0 to `high`; anything else is refused."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= high:
        limit = "" if math.isinf(high) else f" to {high:g}"
        raise ConfigError(f"{name} must be a number from 0{limit}, got {value!r}")
    return float(value)


def positive(name: str, value: Any) -> float:
    """The value as a finite float above 0; anything else is refused."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
        raise ConfigError(f"{name} must be a number above 0, got {value!r}")
    return float(value)
