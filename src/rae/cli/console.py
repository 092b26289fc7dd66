"""Output: results to standard output, notes, warnings and progress to standard error."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import click

from rae.display import printable
from rae.errors import size as size
from rae.progress import Progress, shown


def say(text: str, *, err: bool = False) -> None:
    """Print text of one line or more; nothing in it reaches the terminal as a command."""
    click.echo(printable(text, lines=True), err=err)


@dataclass
class Console:
    """The global flags of one call, shared by the group and its command."""

    quiet: bool = False
    json: bool = False
    verbose: bool = False
    threads: int | None = None
    command: click.Command | None = None  # the one that runs, by whose options errors name arguments

    def note(self, text: str) -> None:
        """Print a line on standard error, unless --quiet is given."""
        if not self.quiet:
            say(text, err=True)

    def warn(self, text: str) -> None:
        """Print a warning on standard error, --quiet or not."""
        say(f"warning: {text}", err=True)

    def result(self, text: str, data: Mapping[str, Any]) -> None:
        """Print the result: text, or with --json one object and nothing else."""
        say(json.dumps(data, sort_keys=True) if self.json else text)

    def progress(self) -> AbstractContextManager[Progress | None]:
        """A progress callback, None with --quiet; the terminal is on a fresh line afterwards."""
        return shown(not self.quiet)

    def use_threads(self) -> None:
        """Limit our kernels and torch to --threads, if it is given."""
        if self.threads is None:
            return
        import torch

        from rae.runtime import set_threads

        set_threads(self.threads)
        torch.set_num_threads(self.threads)


def global_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with --quiet, --json, --verbose and --threads, which may also stand before its name."""
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
        console.command = ctx.command
        if value not in (None, False):
            setattr(console, attribute, value)

    return click.option(name, expose_value=False, callback=remember, help=help, **rules)


def columns(rows: Sequence[tuple[str, str]], indent: str = "") -> str:
    """Two columns of text, the first as wide as its widest entry."""
    clean = [(printable(name), printable(text)) for name, text in rows]
    wide = max((len(name) for name, _ in clean), default=0)
    return "\n".join(f"{indent}{name.ljust(wide)}  {text}" for name, text in clean)
