"""Output: results to standard output, notes, warnings and progress to standard error; text tables, and files."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import click

from rae.display import printable
from rae.progress import Progress, shown, terminal_width
from rae.progress import size as size

MAX_WIDTH, MIN_WIDTH = 80, 60
ID_WIDTH = 56  # characters of an id in a table, so that a line fits MAX_WIDTH


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


def text_table(head: Sequence[str], rows: Sequence[Sequence[str]], width: int, *, wrap: bool = False) -> str:
    """A table with right-aligned numbers.

    The last column of the head is cut or wrapped to fit; cells beyond it follow on lines of their own, indented.
    """
    n = len(head)
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(head[i]), *(len(row[i]) for row in rows)) for i in range(n - 1)]
    indent = sum(widths) + 2 * len(widths)
    last_width = max(8, width - indent)

    def line(cells: Sequence[str]) -> str:
        last = textwrap.wrap(cells[n - 1], last_width) or [""] if wrap else [shorten(cells[n - 1], last_width)]
        first = "  ".join([*(cell.rjust(w) for cell, w in zip(cells, widths, strict=False)), last[0]]).rstrip()
        return "\n".join([first, *(" " * indent + more for more in last[1:])])

    lines = [line(head)]
    for row in rows:
        lines.append(line(row))
        for extra in row[n:]:
            lines += textwrap.wrap(extra, width, initial_indent="      ", subsequent_indent="      ")
    return "\n".join(lines)


def shorten(text: str, width: int) -> str:
    """The text, cut to this many characters.

    >>> shorten("json.decoder", 6)
    'json.…'
    """
    return text if len(text) <= width else text[: width - 1] + "…"


def text_width() -> int:
    """The columns to write in: those of the terminal, 60 to 80."""
    return max(MIN_WIDTH, min(MAX_WIDTH, terminal_width(sys.stdout)))


def wrapped(sentences: Iterable[str]) -> list[str]:
    """The lines of sentences, each from the margin on."""
    return [line for text in sentences for line in textwrap.wrap(text, text_width(), subsequent_indent="  ")]


# ------------------------------------------------------------------------------------ files


def write_table_of(result: Any, out: str | None, data: dict[str, Any]) -> str:
    """Write the table of a result to a Parquet file where one is named, and note it in `data`; what to say of it."""
    if not out:
        return ""
    from rae.io.tables import write_table

    table = result.table
    write_table(out, table, force=True)  # whether it is there was asked before the work
    data["out"] = out
    return f"\n\nwritten  {out} ({', '.join(table.column_names)})"
