"""`rae explore`: a page with a map, role cards and neighbourhoods, that opens without a network."""

from __future__ import annotations

import time
from pathlib import Path

import click

from rae.cli.console import Console, columns, global_options, size
from rae.interrupts import settle
from rae.progress import seconds


@click.command(short_help="write a page to explore the roles of a run")
@click.argument("run", metavar="RUN")
@click.option("--out", metavar="DIR", help="folder to write  [default: RUN/explore]")
@click.option("--labels", metavar="FILE", help="a table of labels to colour the map by")
@click.option("--label-column", multiple=True, metavar="NAME", help="a column of --labels, as often as you like")
@click.option("--names", metavar="FILE", help="a table of display names: id, name  [default: those of the run]")
@click.option("--name-column", metavar="NAME", help="the column of --names  [default: name, else the first but the id]")
@click.option("--id-column", metavar="NAME", help="the column of --labels and --names that holds the node's id")
@click.option("--sample", type=click.IntRange(min=1), metavar="N", help="nodes on the map at most  [default: 30000]")
@click.option("--title", default="", metavar="TEXT", help="the heading of the page")
@click.option("--serve", is_flag=True, help="serve the page on this machine until Ctrl-C; alone, the one that is there")
@click.option("--port", type=click.IntRange(0, 65535), default=0, metavar="N", help="port of --serve  [default: free]")
@click.option("--force", is_flag=True, help="write into a folder that holds other things; make the page anew")
@global_options
@click.pass_obj
def explore(
    console: Console,
    run: str,
    out: str | None,
    labels: str | None,
    label_column: tuple[str, ...],
    names: str | None,
    name_column: str | None,
    id_column: str | None,
    sample: int | None,
    title: str,
    serve: bool,
    port: int,
    force: bool,
) -> None:
    """Write a page to explore the roles of RUN: a map of the nodes, a card for every role, search,
    and for each node its memberships, the nodes most like it and what is around it.

    The page is one folder that opens in a browser without a server and fetches nothing. If the run
    has no roles yet, they are found first, as `rae roles` does.

    \b
    rae explore runs/web
    rae explore runs/users --labels users.csv --label-column country --names users.csv
    rae explore runs/web --serve
    """
    from rae.explore import Subject, read_labels, write_page
    from rae.explore.page import INDEX, SAMPLE, is_page
    from rae.io.node_columns import node_names
    from rae.run import Run

    if labels is None and label_column:
        raise click.UsageError("--label-column says how --labels is read, but there is no --labels")
    if names is None and name_column:
        raise click.UsageError("--name-column says how --names is read, but there is no --names")
    if labels is None and names is None and id_column:
        raise click.UsageError("--id-column says how --labels and --names are read, but there is neither")
    opened = Run.open(run)
    folder = Path(out) if out else opened.path / "explore"
    changes_page = labels or names or sample or title or force
    if serve and not changes_page and is_page(folder):
        console.note("a page is there: it is served as it is; --force makes it anew")
    else:
        console.use_threads()
        began = time.perf_counter()
        ids = opened.embeddings()[0] if labels or names else None
        label_columns = read_labels(labels, ids, label_column, id_column=id_column) if labels else ()
        with console.progress() as progress:
            shown = node_names(names, ids, column=name_column, id_column=id_column) if names else None
            subject = Subject(title=title, labels=label_columns, names=shown)
            write_page(opened, folder, subject=subject, sample=sample or SAMPLE, force=force, progress=progress)
        spent = time.perf_counter() - began
        written = (folder / INDEX).stat().st_size
        rows = [("page", f"{folder / INDEX} ({size(written)})"), ("time", seconds(spent))]
        data = {"page": str(folder / INDEX), "bytes": written, "seconds": round(spent, 4)}
        console.result(columns(rows), data)
    if serve:
        _serve(folder, port, console)


def _serve(folder: Path, port: int, console: Console) -> None:
    from rae.explore.serve import page_server

    with page_server(folder, port) as server:
        click.echo(f"http://127.0.0.1:{server.server_address[1]}/  (Ctrl-C stops it)", err=console.json)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            settle()
            console.note("stopped")
