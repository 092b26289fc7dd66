"""The options that bound the memory of embedding, choose its precision, and where it is computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click


def memory_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with --memory, --half and --dtype."""
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
        command = option(command)
    return command


def device_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with --device."""
    return click.option(
        "--device",
        default="auto",
        show_default=True,
        metavar="NAME",
        help="where to compute: cpu, a GPU (cuda, cuda:1), or auto: the GPU where there is one and the graph is large",
    )(command)
