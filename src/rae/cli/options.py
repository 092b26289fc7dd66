"""Options that several commands have: which files are read and how, memory, where work runs, weights of blocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import click

from rae.cli.settings import bundled
from rae.reading import Reading

DOUBLED = ["add", "count", "max"]  # as in rae.graph.channels, which takes long to import

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def options(*decorators: Decorator) -> Decorator:
    """A decorator that gives a command these options, which its help lists in this order."""

    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorated


def _names(_: click.Context, __: click.Parameter, value: str | None) -> list[str] | None:
    return value.split(",") if value else None


def edge_options(files: str) -> Decorator:
    """The options that say how these files of edges are read."""
    return options(
        click.option("--source", metavar="NAME", help=f"column of {files} that holds one end"),
        click.option("--target", metavar="NAME", help=f"column of {files} that holds the other end"),
        click.option("--header/--no-header", default=None, help=f"whether {files} begins with column names"),
        click.option(
            "--weight",
            metavar="NAME",
            help=f"column of {files} that holds weights, 0 or more; rows of weight 0 are left out",
        ),
        click.option("--directed", is_flag=True, help="edges go from --source to --target"),
        click.option(
            "--kind",
            metavar="NAME",
            help=f"column of {files} that holds the kind of the edge, at most 16 different ones",
        ),
        click.option(
            "--doubled",
            type=click.Choice(DOUBLED),
            help="what doubled edges become: weights add, their number is the weight, or the largest weight stays  "
            "[default: add with --weight, else they count once]",
        ),
        click.option(
            "--time",
            metavar="NAME",
            help=f"column of {files} that holds times, of which --since and --until choose rows",
        ),
        click.option("--since", metavar="TIME", help="the first time that counts, as --until"),
        click.option(
            "--until",
            metavar="TIME",
            help="the first time that does not count: a date, a timestamp (UTC if it has no zone) or a number",
        ),
    )


def join_options(missing: str, unknown: str) -> Decorator:
    """--missing and --unknown, which say what becomes of nodes without features and of features without a node."""
    return options(
        _choice("--missing", ["error", "zero"], missing),
        _choice("--unknown", ["isolated", "drop", "error"], unknown),
    )


def _choice(name: str, choices: list[str], help: str) -> Decorator:
    """An option of which the first choice is the default."""
    return click.option(name, type=click.Choice(choices), default=choices[0], show_default=True, help=help)


id_column_option = click.option(
    "--id-column", "id", metavar="NAME", help="column of --features that holds the node's id"
)

_reading_options = options(
    click.argument("edges", metavar="EDGES"),
    click.option("--features", metavar="FILE", help="action features: Parquet, CSV, TSV, JSON, .npz or .npy"),
    edge_options("EDGES"),
    click.option(
        "--features-header/--no-features-header", default=None, help="whether --features begins with column names"
    ),
    id_column_option,
    click.option(
        "--category-columns",
        "categories",
        metavar="NAME,NAME",
        callback=_names,
        help="columns of --features that hold codes: one 0/1 column per value, as text gets anyway",
    ),
    click.option(
        "--drop-columns",
        "drop",
        metavar="NAME,NAME",
        callback=_names,
        help="columns of --features to leave out, such as names and free text",
    ),
    click.option(
        "--columns",
        metavar="NAME,NAME",
        callback=_names,
        help="columns of --features to use  [default: all but the id]",
    ),
    click.option(
        "--feature-column", "feature", metavar="NAME", help="long feature tables (id, feature[, value]): the feature"
    ),
    click.option("--value-column", "value", metavar="NAME", help="long feature tables (id, feature, value): the value"),
    click.option(
        "--feature-names",
        metavar="FILE",
        help="names of the features: one per line, or a JSON list, in their order",
    ),
    click.option(
        "--name-column",
        "name",
        metavar="NAME",
        help="column of --names or --features with display names, which is no feature",
    ),
    join_options(
        missing="nodes without a feature row: an error, or 0 in every column, which is no average",
        unknown="feature rows whose id has no edge: isolated nodes, left out, or an error",
    ),
)


def reading_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with EDGES, --features and the options of reading; it gets `edges`, `features` and a Reading."""
    return _reading_options(bundled(command, "reading", [field.name for field in fields(Reading)], Reading))


memory_options = options(
    click.option(
        "--memory",
        metavar="SIZE",
        help="memory the command may take, e.g. 4GiB: what does not fit goes to disk beside the output, and a "
        "killed run is resumed  [default: rows between levels in memory, no disk]",
    ),
    click.option(
        "--half",
        is_flag=True,
        help="with --memory: intermediate rows in half precision, half the bytes, vectors off by 0.0002 on average",
    ),
    click.option(
        "--dtype",
        type=click.Choice(["float32", "float16"]),
        default="float32",
        show_default=True,
        help="precision of the vectors in the file",
    ),
)

cluster_options = options(
    click.option(
        "--ray",
        metavar="ADDRESS",
        help="run on a Ray cluster: auto, local, ray://HOST:10001 or HOST:6379; its hosts must all see the folder "
        "of the output, and --memory is then that of one task",
    ),
    click.option(
        "--ray-cores",
        type=click.IntRange(min=1),
        metavar="N",
        help="with --ray: cores of one task  [default: all of the smallest host; one with --ray local]",
    ),
)

device_option = click.option(
    "--device",
    default="cpu",
    show_default=True,
    metavar="NAME",
    help="where to compute: cpu, or, experimental, a GPU (cuda, cuda:1) or auto: the GPU where there is one "
    "and the graph is large",
)


def weights_option(where: str = "") -> Decorator:
    """--weights of the blocks of a vector."""
    return click.option(
        "--weights",
        metavar="BLOCK=N,...",
        help=f"how much each block counts{where}, as in place=1,own=0.3  [default: the blocks' own]",
    )
