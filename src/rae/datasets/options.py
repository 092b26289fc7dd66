"""Checks of what a caller asks a generator for."""

from __future__ import annotations

import math
import operator
from typing import Any

from rae.errors import ConfigError


def whole(name: str, value: Any, low: int) -> int:
    """The value as a whole number, `low` or more."""
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or number < low:
        raise ConfigError(f"{name} must be a whole number, {low:,} or more, got {value!r}")
    return number


def share(name: str, value: Any, high: float = 1.0) -> float:
    """The value as a number from 0 to `high`."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= high:
        limit = "" if math.isinf(high) else f" to {high:g}"
        raise ConfigError(f"{name} must be a number from 0{limit}, got {value!r}")
    return float(value)
