"""The options that say which files are read and how."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from rae.cli.settings import bundled
from rae.reading import Reading

DOUBLED = ["add", "count", "max"]  # as in rae.graph.channels, which takes long to import


def _names(_: click.Context, __: click.Parameter, value: str | None) -> list[str] | None:
    return value.split(",") if value else None


def with_edge_options(files: str) -> Callable[..., Any]:
    """A decorator that gives a command the options that say how these files of edges are read."""

    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in edge_options(files):
            command = option(command)
        return command

    return decorated


def edge_options(files: str) -> list[Callable[..., Any]]:
    """The options that say how an edge file is read, the last one first."""
    return [
        click.option(
            "--until",
            metavar="TIME",
            help="the first time that does not count: a date, a timestamp (UTC if it has no zone) or a number",
        ),
        click.option("--since", metavar="TIME", help="the first time that counts, as --until"),
        click.option(
            "--time",
            metavar="NAME",
            help=f"column of {files} that holds times, of which --since and --until choose rows",
        ),
        click.option(
            "--doubled",
            type=click.Choice(DOUBLED),
            help="what doubled edges become: weights add, their number is the weight, or the largest weight stays  "
            "[default: add with --weight, else they count once]",
        ),
        click.option(
            "--kind",
            metavar="NAME",
            help=f"column of {files} that holds the kind of the edge, at most 16 different ones",
        ),
        click.option("--directed", is_flag=True, help="edges go from --source to --target"),
        click.option(
            "--weight",
            metavar="NAME",
            help=f"column of {files} that holds weights, 0 or more; rows of weight 0 are left out",
        ),
        click.option("--header/--no-header", default=None, help=f"whether {files} begins with column names"),
        click.option("--target", metavar="NAME", help=f"column of {files} that holds the other end"),
        click.option("--source", metavar="NAME", help=f"column of {files} that holds one end"),
    ]


def reading_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with EDGES, --features and the options of reading; it gets `edges`, `features` and a Reading."""
    wrapped = bundled(command, "reading", Reading)
    for option in (
        click.option(
            "--unknown",
            type=click.Choice(["isolated", "drop", "error"]),
            default="isolated",
            show_default=True,
            help="feature rows whose id has no edge: isolated nodes, left out, or an error",
        ),
        click.option(
            "--missing",
            type=click.Choice(["error", "zero"]),
            default="error",
            show_default=True,
            help="nodes without a feature row: an error, or 0 in every column, which is no average",
        ),
        click.option(
            "--name-column",
            "name",
            metavar="NAME",
            help="column of --names or --features with display names, which is no feature",
        ),
        click.option(
            "--feature-names",
            metavar="FILE",
            help="names of the features: one per line, or a JSON list, in their order",
        ),
        click.option(
            "--value-column", "value", metavar="NAME", help="long feature tables (id, feature, value): the value"
        ),
        click.option(
            "--feature-column",
            "feature",
            metavar="NAME",
            help="long feature tables (id, feature[, value]): the feature",
        ),
        click.option(
            "--columns",
            metavar="NAME,NAME",
            callback=_names,
            help="columns of --features to use  [default: all but the id]",
        ),
        click.option(
            "--drop-columns",
            "drop",
            metavar="NAME,NAME",
            callback=_names,
            help="columns of --features to leave out, such as names and free text",
        ),
        click.option(
            "--category-columns",
            "categories",
            metavar="NAME,NAME",
            callback=_names,
            help="columns of --features that hold codes: one 0/1 column per value, as text gets anyway",
        ),
        click.option("--id-column", "id", metavar="NAME", help="column of --features that holds the node's id"),
        click.option(
            "--features-header/--no-features-header", default=None, help="whether --features begins with column names"
        ),
        *edge_options("EDGES"),
        click.option("--features", metavar="FILE", help="action features: Parquet, CSV, TSV, JSON, .npz or .npy"),
        click.argument("edges", metavar="EDGES"),
    ):
        wrapped = option(wrapped)
    return wrapped
