"""The options that bound the memory of embedding and choose its precision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from rae.cli.settings import bundled


@dataclass(frozen=True)
class Bounds:
    """How much memory embedding may take, and how exactly numbers are kept."""

    memory: str | None = None
    half: bool = False
    dtype: str = "float32"

    def __post_init__(self) -> None:
        if self.half and self.memory is None:
            raise click.UsageError("--half is about rows kept on disk, which --memory asks for; pass both")


def bounds_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with --memory, --half and --dtype; it gets one Bounds, `bounds`."""
    wrapped = bundled(command, "bounds", Bounds)
    for option in (
        click.option(
            "--dtype",
            type=click.Choice(["float32", "float16"]),
            default="float32",
            show_default=True,
            help="precision of the vectors in the file",
        ),
        click.option(
            "--half",
            is_flag=True,
            help="with --memory: intermediate rows in half precision, half the bytes, vectors off by 0.0002 on average",
        ),
        click.option(
            "--memory",
            metavar="SIZE",
            help="memory embedding may take, e.g. 4GiB: what does not fit goes to disk beside the output, and a "
            "killed run goes on where it was  [default: rows between levels in memory, no disk]",
        ),
    ):
        wrapped = option(wrapped)
    return wrapped
