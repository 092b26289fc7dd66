"""Where words go: results to standard output, notes and progress to standard error."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from rae.cli.progress import Progress, Reporter, terminal_width


@dataclass
class Console:
    """What the global flags say about talking; one per call, shared by the group and its command."""

    quiet: bool = False
    json: bool = False
    verbose: bool = False
    threads: int | None = None

    def note(self, text: str) -> None:
        """A line for the person watching; none with --quiet."""
        if not self.quiet:
            click.echo(text, err=True)

    def warn(self, text: str) -> None:
        """A line that even --quiet lets through."""
        click.echo(f"warning: {text}", err=True)

    def result(self, text: str, data: Mapping[str, Any]) -> None:
        """The answer: text, or with --json one object and nothing else."""
        click.echo(json.dumps(data, sort_keys=True) if self.json else text)

    @contextlib.contextmanager
    def progress(self) -> Iterator[Progress | None]:
        """A callback for fit and transform; the terminal is on a fresh line afterwards."""
        if self.quiet:
            yield None
            return
        stream = sys.stderr
        reporter = Reporter(stream, live=stream.isatty(), width=lambda: terminal_width(stream))
        try:
            yield reporter
        finally:
            reporter.close()

    def use_threads(self) -> None:
        """Hold our kernels and torch to --threads, if it was given."""
        if self.threads is None:
            return
        import torch

        from rae.runtime import set_threads

        set_threads(self.threads)
        torch.set_num_threads(self.threads)


def global_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with --quiet, --json, --verbose and --threads, wherever the user puts them."""
    for option in (
        _global(
            "--threads",
            "threads",
            "threads to use  [default: all cores allowed]",
            type=click.IntRange(min=1),
            metavar="N",
        ),
        _global("--verbose", "verbose", "say more, e.g. the log of the library", is_flag=True),
        _global("--json", "json", "print the result as one JSON object", is_flag=True),
        _global("--quiet", "quiet", "no notes and no progress", is_flag=True),
    ):
        command = option(command)
    return command


def _global(name: str, attribute: str, help: str, **rules: Any) -> Callable[..., Any]:
    def remember(ctx: click.Context, _: click.Parameter, value: Any) -> None:
        console = ctx.ensure_object(Console)
        if value not in (None, False):
            setattr(console, attribute, value)

    return click.option(name, expose_value=False, callback=remember, help=help, **rules)


def columns(rows: Sequence[tuple[str, str]], indent: str = "") -> str:
    """Two columns of text, the first as wide as its widest entry."""
    wide = max((len(name) for name, _ in rows), default=0)
    return "\n".join(f"{indent}{name.ljust(wide)}  {text}" for name, text in rows)


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
