"""`rae update`: tomorrow's edges in a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rae.cli.console import Console, columns, global_options
from rae.cli.options import edge_options, id_column_option, join_options
from rae.progress import seconds

if TYPE_CHECKING:
    from rae.updater import Updated

SHOWN = 1_000  # ids that --json lists, at most


@click.command(short_help="add and remove edges of a run")
@click.argument("run", metavar="RUN")
@click.option(
    "--add", "added", metavar="FILE", help="edges that are new: Parquet, Arrow, CSV, TSV or a plain edge list"
)
@click.option("--remove", "removed", metavar="FILE", help="edges that are gone; each must be in the graph")
@click.option("--features", metavar="FILE", help="feature rows that changed, and those of new nodes, by id")
@edge_options("--add and --remove")
@id_column_option
@join_options(
    missing="new nodes without a feature row: an error, or zeros",
    unknown="feature rows of new ids without an edge: isolated nodes, left out, or an error",
)
@click.option(
    "--fold/--no-fold",
    default=None,
    help="write embeddings.parquet anew, or leave that for later  [default: small runs, and where the log is long]",
)
@click.option("--again", is_flag=True, help="add the weights of a file that an earlier update has added")
@global_options
@click.pass_obj
def update(console: Console, /, run: str, fold: bool | None, again: bool, **options: Any) -> None:
    """Add and remove edges of RUN and change features, without fitting again.

    Only what is near the changes is computed. The vectors are then, byte for byte, those of a full pass
    over the new graph in the units of the fit. Nodes that exist keep their rows, new ones are appended. Roles
    stay those that were found; nodes that changed are assigned to them.

    Files are read as those of the fit were: the run knows their columns, and whether edges have weights,
    directions and kinds. An edge of --add that is there already is merged by the rule of the fit: weights are
    added, or the larger one stays (--doubled). --remove takes edges out whole, that of one direction and kind
    alone, and needs no weights; an edge in both files has the new weight. A file whose weights were added
    before is refused, unless --again says that it is meant. --since and --until of the fit chose rows of
    the fit alone: all rows of the files count, or those that --since and --until of this command choose.

    A killed update leaves the run as it was before or as it is after. While the run has updates that are not folded in,
    it has no embeddings.parquet, which would be stale; the other commands read what is current, and --fold
    writes the file anew.

    \b
    rae update runs/calls --add today.csv --remove gone.csv
    rae update runs/users --add today.parquet --features users.csv --source caller --target called
    rae update runs/payments --add today.csv --time booked --since 2026-11-18
    rae update runs/calls --fold
    """
    from rae.graph.ids import json_id
    from rae.run import Run

    if not any(options[name] for name in ("added", "removed", "features")) and fold is None:
        raise click.UsageError("nothing to do: give edges by --add or --remove, features by --features, or --fold")
    console.use_threads()
    opened = Run.open(run)
    with console.progress() as progress:
        outcome = opened.update(fold=fold, again=again, progress=progress or False, **options)
    how = "all of them, by a full pass" if outcome.in_full else "near the changes"
    rows = [
        ("edges", _edges(outcome)),
        ("nodes", f"{outcome.new_nodes:,} new; {opened.counts['nodes']:,} in all"),
        ("vectors", f"{len(outcome.moved):,} computed, {how}"),
        ("time", seconds(outcome.seconds)),
        ("state", f"update {outcome.number} of {opened.path}" + (", folded in" if outcome.folded else "")),
    ]
    if outcome.features:
        rows.insert(2, ("features", f"{outcome.features:,} rows changed"))
    data = {
        "run": str(opened.path),
        "update": outcome.number,
        "added": outcome.added,
        "removed": outcome.removed,
        "already_there": outcome.already_there,
        "changed": outcome.changed,
        "self_loops": outcome.self_loops,
        "zeros": outcome.zeros,
        "apart": outcome.apart,
        "new_nodes": outcome.new_nodes,
        "features": outcome.features,
        "moved": len(outcome.moved),
        "ids": [json_id(id) for id in outcome.moved.slice(0, SHOWN).to_pylist()],
        "in_full": outcome.in_full,
        "folded": outcome.folded,
        "counts": opened.counts,
        "seconds": round(outcome.seconds, 4),
    }
    console.result(columns(rows), data)


def _edges(outcome: Updated) -> str:
    """What became of the edges, in words."""
    counts = (
        (outcome.changed, "have another weight"),
        (outcome.already_there, "were there already"),
        (outcome.self_loops, "join a node with itself"),
        (outcome.zeros, "of weight 0 left out"),
        (outcome.apart, "have no end that was a node of the run"),
    )
    more = [f"{count:,} {what}" for count, what in counts if count]
    return "; ".join([f"{outcome.added:,} added, {outcome.removed:,} removed", *more])
