"""The options that bound the memory of a command, choose the precision of vectors, and say where it runs."""

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
            help="memory the command may take, e.g. 4GiB: what does not fit goes to disk beside the output, and a "
            "killed run goes on where it was  [default: rows between levels in memory, no disk]",
        ),
    ):
        command = option(command)
    return command


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with --ray and --ray-cores."""
    for option in (
        click.option(
            "--ray-cores",
            type=click.IntRange(min=1),
            metavar="N",
            help="with --ray: cores of one task  [default: all of the smallest host; one with --ray local]",
        ),
        click.option(
            "--ray",
            metavar="ADDRESS",
            help="run on a Ray cluster: auto, local, ray://HOST:10001 or HOST:6379; its hosts must all see the folder "
            "of the output, and --memory is then that of one task",
        ),
    ):
        command = option(command)
    return command


def device_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with --device."""
    return click.option(
        "--device",
        default="cpu",
        show_default=True,
        metavar="NAME",
        help="where to compute: cpu, or, experimental, a GPU (cuda, cuda:1) or auto: the GPU where there is one "
        "and the graph is large",
    )(command)
