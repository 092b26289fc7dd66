"""`rae why`: why a node plays its role, and which few edges would give it another."""

from __future__ import annotations

import click

from rae.cli.console import Console, global_options, wrapped
from rae.cli.similar import NegativeIds, unescaped
from rae.config import EDGES_LIMIT, MOST_EDGES


@click.command(cls=NegativeIds, short_help="why a node plays its role")
@click.argument("run", metavar="RUN", callback=unescaped)
@click.argument("id", metavar="ID", callback=unescaped)
@click.option(
    "--to", type=click.IntRange(min=0), metavar="ROLE", help="compare with this role  [default: the next one]"
)
@click.option(
    "--most-edges",
    type=click.IntRange(1, EDGES_LIMIT),
    default=MOST_EDGES,
    show_default=True,
    metavar="N",
    help="edges that the change may have",
)
@global_options
@click.pass_obj
def why(console: Console, run: str, id: str, to: int | None, most_edges: int) -> None:
    """Say why the node ID of RUN plays its role: its measures and features compared with members
    of the role it plays second most, the edges that hold it there, and the smallest change of
    its edges that was found to give it another role.

    Percentages of measures are shares of its lead over that role, and add up to 100 with those
    not shown. Those of edges say how much of the lead goes when that edge alone goes. The
    change is made, the role is read, and the graph is as before afterwards.

    \b
    rae why runs/web home
    rae why runs/users 4711 --to 3 --json
    """
    from rae.run import Run

    console.use_threads()
    reasons = Run.open(run).why(id, to=to, most_edges=most_edges)
    console.result("\n".join(wrapped(reasons.sentences())), reasons.as_dict())
