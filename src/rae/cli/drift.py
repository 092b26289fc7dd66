"""`rae drift`: what changed from one moment to another, and what of it noise explains."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rae.cli.console import (
    Console,
    columns,
    global_options,
    shorten,
    text_width,
    wrapped,
    write_table_of,
)
from rae.cli.roles import comparison_table
from rae.config import MORE_VIEWS, MOST_RATE, MOST_VIEWS, RATE, VIEWS

if TYPE_CHECKING:
    from rae.drift import Drift

SHOWN, ROOM = 20, 42  # alarms in the terminal, and columns beside an id


@click.command(short_help="who moved more than noise explains")
@click.argument("run", metavar="RUN")
@click.argument("other", metavar="[OTHER]", required=False)
@click.option("--since", type=click.IntRange(min=0), metavar="N", help="compare RUN after its update N with RUN now")
@click.option(
    "--noise",
    type=click.FloatRange(0, 1, min_open=True),
    metavar="SHARE",
    help="share of the edges that noise drops and adds  [default: as many as changed]",
)
@click.option(
    "--views",
    type=click.IntRange(2, MOST_VIEWS),
    metavar="N",
    help=f"times that noise is tried  [default: {VIEWS}, of small graphs {MORE_VIEWS}]",
)
@click.option(
    "--rate",
    type=click.FloatRange(1 / MOST_VIEWS, MOST_RATE),
    default=RATE,
    show_default=True,
    metavar="SHARE",
    help="share of false alarms, at most",
)
@click.option(
    "--units",
    type=click.Choice(["fit", "graph"]),
    help="measure both in units of the fit, or each graph in its own  [default: fit]",
)
@click.option("--whole", is_flag=True, help="no edge of OTHER is missing, as in a part of a graph: do not warn")
@click.option("--page", metavar="FILE", help="an HTML file to write")
@click.option("--out", metavar="FILE", help="a .parquet table to write: a row per node")
@click.option("--force", is_flag=True, help="replace files that are there")
@global_options
@click.pass_obj
def drift(
    console: Console, /, run: str, other: str | None, page: str | None, out: str | None, force: bool, **options: Any
) -> None:
    """Show what changed from RUN to OTHER: roles that grew, who moved, and alarms: nodes that moved
    more than noise explains.

    OTHER is a run, whose graph is embedded by the model of RUN, or a file of vectors that `rae embed
    RUN` wrote. With --since it is RUN itself, now, and the first moment is RUN after that update;
    0 is the fit.

    In a part of a graph nodes at the cut would be alarms, and edges do not say that they are a part: a
    run of another graph is warned of, unless --whole says that none of its edges is missing.

    Noise is as many changes as there are between the two, at random places, tried --views times. A
    node is an alarm if it moved farther than its own spread explains. About a share --rate of the
    alarms is due to chance, at most; where nothing but noise happened there is any alarm at all in
    at most that share of all comparisons.

    In units of the fit both are measured alike: what happens elsewhere moves nobody, and where the
    graph grows as a whole everybody moves. With --units graph each is measured in its own units:
    where a node stands among the others.

    \b
    rae drift runs/monday runs/tuesday --whole
    rae drift runs/web tomorrow.parquet --noise 0.01
    rae drift runs/calls --since 0 --rate 0.01 --out moved.parquet
    rae drift runs/monday runs/tuesday --whole --page drift.html --json
    """
    from rae.explore.drift import check_page_file
    from rae.io.tables import check_table_free
    from rae.run import Run

    console.use_threads()
    if page:
        check_page_file(page, force=force)
    if out:
        check_table_free(out, force=force)
    with console.progress() as progress:
        result = Run.open(run).drift(other, progress=progress or False, **options)
    text, data = _as_text(result), {"run": run, "other": other, **result.as_dict()}
    text += write_table_of(result, out, data)
    if page:
        result.write_page(
            page, title=f"{Path(run).name} and {Path(other).name}" if other else Path(run).name, force=force
        )
        text, data["page"] = f"{text}\n\nwritten  {page}", page
    console.result(text, data)


def _as_text(result: Drift) -> str:
    """The sentences, a line per role, and the alarms."""
    facts = result.as_dict()
    lines = [*wrapped(result.sentences()), "", comparison_table(result.comparison, facts)]
    if facts["alarms"]:
        rows = [(shorten(str(a.get("name", a["id"])), text_width() - ROOM), _alarm(a)) for a in facts["alarms"][:SHOWN]]
        lines += ["", "moved more than noise explains", columns(rows, indent="  ")]
        if facts["n_alarms"] > SHOWN:
            lines.append(f"  and {facts['n_alarms'] - SHOWN:,} more; --out FILE writes all")
    return "\n".join(lines)


def _alarm(a: dict[str, Any]) -> str:
    return f"{a['from']} -> {a['to']}  moved {a['distance']:.3f} (noise {a['noise']:.3f}), q {a['q']:.3f}"
