"""Progress of long work: the callback, and what shows it: bars on a terminal and in a notebook, lines in a pipe.

Whatever takes `progress` takes a callback, True or False. By default work is silent, but for a notebook, where a bar
comes up when a stage takes longer than half a second.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol, TextIO


class Progress(Protocol):
    """Called with the stage, how much of it is done, its total (0: unknown), and numbers worth showing."""

    def __call__(self, stage: str, done: int, total: int, info: Mapping[str, float], /) -> None: ...


Asked = Progress | bool | None  # a callback; True: bars or lines; False: silence; None: bars in a notebook

Report = Callable[[int, int], None]  # of one stage: how much of it is done, its total

PLAIN_INTERVAL = 5.0  # seconds between two lines in a pipe
NOTEBOOK_DELAY = 0.5  # seconds that a stage takes before a notebook shows its bar


@contextmanager
def shown(progress: Asked) -> Iterator[Progress | None]:
    """The callback that `progress` asks for, None for silence; bars are closed when the block ends.

    >>> with shown(None) as callback:
    ...     callback is None  # no notebook here
    True
    """
    if callable(progress):
        yield progress
        return
    if progress is False or (progress is None and not in_notebook()):
        yield None
        return
    reporter = NotebookReporter() if in_notebook() else Reporter(sys.stderr)
    try:
        yield reporter
    finally:
        reporter.close()


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook; IPython in a terminal is none."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and "IPKernelApp" in getattr(shell, "config", {})


def of_stage(progress: Progress | None, stage: str) -> Report | None:
    """The report of one stage that goes to a callback, None for silence."""
    return None if progress is None else lambda done, total: progress(stage, done, total, {})


def stages(progress: Progress | None) -> Callable[[str, int, int], None]:
    """A report of build stages that goes to `progress`."""
    return lambda stage, done, total: None if progress is None else progress(stage, done, total, {})


def counter(report: Report | None, total: int) -> Callable[[], None]:
    """A function that reports one more of `total` done each time it is called."""
    counts = itertools.count(1)

    def report_one() -> None:
        count = next(counts)
        if report is not None:
            report(count, total)

    return report_one


class NotebookReporter:
    """A progress callback that shows a bar per stage in the output of a cell: a widget, or text without ipywidgets."""

    def __init__(self, *, delay: float = NOTEBOOK_DELAY) -> None:
        self._delay, self._stage = delay, ""
        self._bar: Any = None

    def __call__(self, stage: str, done: int, total: int, info: Mapping[str, float], /) -> None:
        if stage != self._stage:
            self.close()
            self._stage, self._bar = stage, _notebook_bar()(total=total or None, desc=stage, delay=self._delay)
        if notes := [*_loss(info), *_cluster(info)]:
            self._bar.set_postfix_str("  ".join(notes), refresh=False)
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        """Leave the bar as it is."""
        if self._bar is not None:
            self._bar.close()
        self._bar, self._stage = None, ""


def _notebook_bar() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that ipywidgets is missing: text will do
        from tqdm.auto import tqdm
    return tqdm


class Reporter:
    """A progress callback that prints to `stream`; on a terminal, by default where the stream is one, it is a bar."""

    def __init__(
        self, stream: TextIO, *, live: bool | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream, self._clock = stream, clock
        self._live = stream.isatty() if live is None else live
        self._stage = ""
        self._began = self._printed = 0.0
        self._bar: Any = None

    def __call__(self, stage: str, done: int, total: int, info: Mapping[str, float], /) -> None:
        now = self._clock()
        if stage != self._stage:
            self.close()
            self._stage, self._began, self._printed = stage, now, now
        spent = now - self._began
        if total > 0 and done >= total:
            self.close(leave=False)
            self._print(finished(stage, total, spent, info))
        elif self._live:
            self._update(stage, done, total, running(done, total, spent, info))
        elif now - self._printed >= PLAIN_INTERVAL:
            self._printed = now
            self._print(f"{stage}  {running(done, total, spent, info)}")

    def close(self, *, leave: bool = True) -> None:
        """Remove the bar, or leave it as it is above a fresh line."""
        if self._bar is not None:
            self._bar.leave = leave
            self._bar.close()
        self._bar, self._stage = None, ""

    def _update(self, stage: str, done: int, total: int, text: str) -> None:
        from tqdm import tqdm

        is_new = self._bar is None
        columns = max(10, terminal_width(self._stream) - 1)
        if is_new:
            # The delay keeps tqdm from drawing before the text is there, rows and columns from asking the terminal.
            shape = {"ncols": columns, "nrows": 20}
            self._bar = tqdm(total=total or None, file=self._stream, ascii="-#", miniters=1, delay=1e-9, **shape)
        self._bar.ncols = columns
        self._bar.bar_format = f"{stage}  [{{bar}}]  {text}"
        self._bar.update(done - self._bar.n)
        if is_new:
            self._bar.refresh()

    def _print(self, line: str) -> None:
        self._stream.write(f"{line}\n")
        self._stream.flush()


def running(done: int, total: int, spent: float, info: Mapping[str, float]) -> str:
    """How far a stage is, with its loss or its cluster, its rate and the time left.

    >>> running(5, 10, 2.0, {})
    '5/10  2.5/s  0:02 left'
    >>> running(500, 1000, 10.0, {"hosts": 4, "bytes": 3.2e9})
    '500/1,000  4 hosts  3.2 GB  50/s  0:10 left'
    """
    rate = done / spent if spent > 0 else 0.0
    parts = [f"{done:,}/{total:,}" if total else f"{done:,}", *_loss(info), *_cluster(info)]
    if rate:
        parts.append(f"{rate:,.1f}/s" if rate < 10 else f"{rate:,.0f}/s")
        parts += [f"{clock((total - done) / rate)} left"] if total else []
    return "  ".join(parts)


def finished(stage: str, total: int, spent: float, info: Mapping[str, float]) -> str:
    """The line that stays when a stage is done.

    >>> finished("train within", 200, 1.25, {"loss": 0.5})
    'train within  200 done in 1.2 s  loss 0.5'
    """
    return "  ".join([stage, f"{total:,} done in {seconds(spent)}", *_loss(info), *_cluster(info)])


def _loss(info: Mapping[str, float]) -> list[str]:
    return [f"loss {value:.3g}" for name, value in info.items() if name in ("loss", "value")][:1]


def _cluster(info: Mapping[str, float]) -> list[str]:
    """What a cluster says of itself: its hosts, and the bytes that tasks have read and written."""
    if "hosts" not in info:
        return []
    return [f"{info['hosts']:,.0f} host{'' if info['hosts'] == 1 else 's'}", size(info["bytes"])]


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


def size(n_bytes: float) -> str:
    """Bytes in the unit that reads best.

    >>> size(512), size(2_500_000), size(3.2e9)
    ('512 B', '2.5 MB', '3.2 GB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if n_bytes < 1000:
            return f"{n_bytes:.0f} {unit}" if unit == "B" or n_bytes >= 100 else f"{n_bytes:.1f} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.1f} TB"


def terminal_width(stream: TextIO) -> int:
    """Columns of the terminal behind this stream, 80 when there is none."""
    if (named := os.environ.get("COLUMNS", "")).isdigit() and int(named) > 0:
        return int(named)
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80
