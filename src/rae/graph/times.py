"""Times of edges: which rows of a table count, by a column of timestamps, dates or numbers."""

from __future__ import annotations

import contextlib
import datetime
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rae.errors import Argument, ConfigError, GraphError
from rae.graph.ids import is_text, usable
from rae.reading import EdgeOptions

MICROSECONDS = pa.timestamp("us")
UTC = pa.timestamp("us", "UTC")


class TimeError(GraphError):
    """A time that is missing or cannot be read; `row` counts from 0 in the column."""

    def __init__(self, row: int, value: Any, expected: str) -> None:
        self.row, self.value, self.expected = row, value, expected
        got = "none" if value is None else repr(value)
        super().__init__(Argument("time"), f" must hold {expected}, got {got} in row {row:,}; mend or drop such rows")


@dataclass(frozen=True)
class TimeWindow:
    """The times that count: from `since` on, and before `until`; None is no bound.

    A bound is a number, where the column holds numbers, or a date or timestamp (ISO 8601; UTC where it has no zone).
    """

    since: Any = None
    until: Any = None

    @classmethod
    def of(cls, options: EdgeOptions) -> TimeWindow | None:
        """The window, None where no time is asked about; a bound without a column is refused, and the reverse."""
        column, bounds = options.time, {"since": options.since, "until": options.until}
        bound_name = next((name for name, bound in bounds.items() if bound is not None), None)
        if column is None:
            if bound_name is None:
                return None
            raise ConfigError(
                Argument(bound_name), " needs ", Argument("time", ...), ", the column that holds the times"
            )
        if bound_name is None:
            raise ConfigError(
                *(Argument("time", column), " is the column of the times that count; pass "),
                *(Argument("since", ...), " or ", Argument("until", ...), " as well, or leave it out"),
            )
        window = cls(**bounds)
        low, high = (_instant(name, bound) for name, bound in bounds.items())
        comparable = isinstance(low, datetime.datetime) == isinstance(high, datetime.datetime)
        if low is not None and high is not None and comparable and not low < high:  # type: ignore[operator]
            got = f", got {options.since} and {options.until}"
            raise ConfigError(Argument("since"), " must be before ", Argument("until"), got)
        return window

    def empty(self, column: Any) -> GraphError:
        """The error of a table without a row in the window: it says which times the column has."""
        times = pc.min_max(self._times(column))
        bounds = {" from {} on": self.since, " before {}": self.until}
        window = " and".join(text.format(bound) for text, bound in bounds.items() if bound is not None)
        return GraphError(
            f"no row has a time{window}: those of the {len(column):,} rows are from {times['min']} to {times['max']}; ",
            *("pass another ", Argument("since"), " or ", Argument("until")),
        )

    def _times(self, column: Any) -> pa.Array:
        """The times of a column, parsed where they are text."""
        times = usable(column)
        return self._parse(times) if is_text(times.type) else times

    def contains(self, column: Any) -> pa.Array:
        """Whether each time of the column counts.  (r,) -> (r,)"""
        times = self._times(column)
        if times.null_count or (pa.types.is_floating(times.type) and pc.any(pc.is_nan(times)).as_py()):
            row = pc.index(pc.is_null(times, nan_is_null=True), True).as_py()
            raise TimeError(row, None, "a time in every row")
        kind, numeric = times.type, pa.types.is_integer(times.type) or pa.types.is_floating(times.type)
        if not numeric and not pa.types.is_timestamp(kind) and not pa.types.is_date(kind):
            raise GraphError(
                Argument("time"), f" must hold timestamps, dates or numbers, got {kind}; name another column"
            )
        if not numeric:
            times = times.cast(pa.timestamp("us", kind.tz) if pa.types.is_timestamp(kind) else MICROSECONDS, safe=False)
            times = times.cast(pa.int64())
        inside = pa.array(np.ones(len(times), np.bool_))
        for name, bound, compare in (("since", self.since, pc.greater_equal), ("until", self.until, pc.less)):
            if bound is not None:
                inside = pc.and_(inside, compare(times, self._value(name, bound, numeric, kind)))
        return inside

    def _value(self, name: str, bound: Any, numeric: bool, kind: Any) -> pa.Scalar:
        instant = _instant(name, bound)
        if isinstance(instant, datetime.datetime) == numeric:
            holds, example = ("numbers", "1700000000") if numeric else ("timestamps", "2026-10-01")
            raise ConfigError(
                Argument(name),
                f" must be as the column of times, which holds {holds} ({kind}), e.g. {example}, got {bound!r}",
            )
        if isinstance(instant, datetime.datetime):
            return pa.scalar(round((instant - EPOCH) / datetime.timedelta(microseconds=1)), pa.int64())
        return pa.scalar(instant)

    def _parse(self, text: pa.Array) -> pa.Array:
        """Times that are written out: numbers where the bounds are, else timestamps."""
        bound = next(value for value in (self.since, self.until) if value is not None)
        wants_time = isinstance(_instant("since", bound), datetime.datetime)
        text = pc.utf8_trim_whitespace(text)
        kinds = (MICROSECONDS, UTC) if wants_time else (pa.int64(), pa.float64())
        for kind in kinds:
            try:
                return text.cast(kind)
            except pa.ArrowInvalid:
                continue
        expected = "timestamps (2026-10-01, 2026-10-01 12:30:00)" if wants_time else "numbers"
        for row, value in enumerate(text.to_pylist()):  # slow, for errors only
            if not any(_casts(value, kind) for kind in kinds):
                raise TimeError(row, value, expected)
        raise GraphError(
            Argument("time"), " holds times with and without a zone, which cannot be compared; write all in one way"
        )


EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def _casts(value: str | None, kind: pa.DataType) -> bool:
    try:
        return value is not None and bool(pa.scalar(value).cast(kind).is_valid)
    except pa.ArrowInvalid:
        return False


def _instant(name: str, bound: Any) -> float | int | datetime.datetime | None:
    """A bound as a number, or as a moment in UTC.

    >>> _instant("since", "2026-10-01").isoformat(), _instant("since", "17")
    ('2026-10-01T00:00:00+00:00', 17)
    """
    if bound is None or (isinstance(bound, (int, float)) and not isinstance(bound, bool) and bound == bound):
        return bound
    if isinstance(bound, np.generic):
        return _instant(name, bound.item())
    if isinstance(bound, datetime.date) and not isinstance(bound, datetime.datetime):
        bound = datetime.datetime(bound.year, bound.month, bound.day)
    if isinstance(bound, str):
        for number in (int, float):
            try:
                return number(bound)
            except ValueError:
                continue
        with contextlib.suppress(ValueError):
            bound = datetime.datetime.fromisoformat(bound.strip())
    if not isinstance(bound, datetime.datetime):
        raise ConfigError(
            Argument(name),
            f" must be a number, a date or a timestamp such as 2026-10-01 or 2026-10-01T12:30, got {bound!r}",
        )
    return bound if bound.tzinfo else bound.replace(tzinfo=datetime.UTC)
