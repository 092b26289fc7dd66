"""Progress as people want it: one live line on a terminal, a plain line now and then in a pipe."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Protocol, TextIO

BAR = 20  # cells of the bar at its widest
LIVE, PLAIN = 0.1, 5.0  # seconds between two updates


class Progress(Protocol):
    """What fit and transform call: the stage, how much of it is done, and numbers worth showing."""

    def __call__(self, stage: str, done: int, total: int, info: Mapping[str, float], /) -> None: ...


class Reporter:
    """Turns calls into lines on `stream`; `live` rewrites one line, otherwise every line stays."""

    def __init__(
        self,
        stream: TextIO,
        *,
        live: bool,
        width: Callable[[], int] = lambda: 80,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream, self._live, self._width, self._clock = stream, live, width, clock
        self._stage = ""
        self._began = self._told = 0.0
        self._open = False  # a live line stands unfinished on the terminal
        self._last = ""

    def __call__(self, stage: str, done: int, total: int, info: Mapping[str, float], /) -> None:
        now = self._clock()
        if stage != self._stage:
            self.close()
            self._stage, self._began = stage, now
            self._told = -PLAIN if self._live else now
        spent = now - self._began
        if total > 0 and done >= total:
            self._finish(stage, total, spent, info)
        elif now - self._told >= (LIVE if self._live else PLAIN):
            self._told = now
            self._tell(running(stage, done, total, spent, info, self._width() if self._live else 200, bar=self._live))

    def close(self) -> None:
        """Leave the terminal on a fresh line, whatever happened."""
        if self._open:
            self._stream.write("\n")
            self._stream.flush()
        self._open, self._stage = False, ""

    def _finish(self, stage: str, total: int, spent: float, info: Mapping[str, float]) -> None:
        self._tell(finished(stage, total, spent, info))
        self.close()

    def _tell(self, line: str) -> None:
        if self._live:
            room = max(10, self._width() - 1)
            self._stream.write("\r" + line[:room].ljust(min(room, len(self._last))))
            self._last, self._open = line[:room], True
        else:
            self._stream.write(line + "\n")
        self._stream.flush()


def running(
    stage: str, done: int, total: int, spent: float, info: Mapping[str, float], width: int, *, bar: bool
) -> str:
    """One line for a stage under way; parts that do not fit the width are left out, least needed first.

    A total of 0 is one that nobody knows yet.

    >>> running("embed", 5, 10, 2.0, {}, 60, bar=False)
    'embed  5/10  2.5/s  0:02 left'
    """
    rate = done / spent if spent > 0 else 0.0
    parts = [
        (0, stage),
        (0, f"{done:,}/{total:,}" if total else f"{done:,}"),
        *((1, f"{name} {value:.3g}") for name, value in _worth_showing(info)),
        *([(2, f"{rate:,.1f}/s" if rate < 10 else f"{rate:,.0f}/s")] if rate else []),
        *([(3, f"{clock((total - done) / rate)} left")] if rate and total else []),
    ]
    for least in (3, 2, 1):
        if len(_line(parts)) < width:
            break
        parts = [part for part in parts if part[0] != least]
    cells = min(BAR, width - 1 - len(_line(parts)) - len("  []"))
    if bar and cells >= 3:
        full = cells * done // max(total, 1)
        parts.insert(1, (0, "[" + "#" * full + "-" * (cells - full) + "]"))
    return _line(parts)


def _line(parts: list[tuple[int, str]]) -> str:
    return "  ".join(text for _, text in parts)


def finished(stage: str, total: int, spent: float, info: Mapping[str, float]) -> str:
    """The line that stays when a stage is done.

    >>> finished("train within", 200, 1.25, {"loss": 0.5})
    'train within  200 done in 1.2 s  loss 0.5'
    """
    numbers = "".join(f"  {name} {value:.3g}" for name, value in _worth_showing(info))
    return f"{stage}  {total:,} done in {seconds(spent)}{numbers}"


def _worth_showing(info: Mapping[str, float]) -> list[tuple[str, float]]:
    return [("loss", value) for name, value in info.items() if name in ("loss", "value")][:1]


def clock(spent: float) -> str:
    """Seconds as a clock shows them.

    >>> clock(75), clock(3_700)
    ('1:15', '1:01:40')
    """
    whole = round(spent)
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"


def seconds(spent: float) -> str:
    """A duration in the unit that reads best.

    >>> seconds(0.0042), seconds(1.23), seconds(300)
    ('4 ms', '1.2 s', '5 min')
    """
    if spent < 1:
        return f"{1000 * spent:.0f} ms"
    return f"{spent:.1f} s" if spent < 120 else f"{spent / 60:.0f} min" if spent < 7200 else f"{spent / 3600:.1f} h"


def terminal_width(stream: TextIO) -> int:
    """Columns of the terminal behind this stream, 80 when there is none."""
    if (named := os.environ.get("COLUMNS", "")).isdigit() and int(named) > 0:
        return int(named)
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80
