"""`rae export`: a model as ONNX or SQL, its vectors in databases."""

from __future__ import annotations

import click

from rae.cli.console import Console, columns, global_options, size
from rae.export import TARGETS, Options

STORES = [name for name, target in TARGETS.items() if not target.is_model]


@click.command(short_help="the model as ONNX or SQL, or the vectors in a database")
@click.argument("run", metavar="RUN")
@click.argument("target", metavar="TARGET")
@click.option("--onnx", is_flag=True, help="the model as ONNX files; TARGET ends in .onnx")
@click.option("--sql", is_flag=True, help="the model as SQL for DuckDB; TARGET is a file")
@click.option("--to", metavar="|".join(STORES), help="the vectors; TARGET is a folder, a file, or a database")
@click.option("--table", metavar="NAME", help=f"table or collection to write  [default: {Options.table}]")
@click.option("--distances", is_flag=True, help="vectors as `rae similar` compares them: blocks times their weights")
@click.option("--weights", metavar="BLOCK=N,...", help="as --distances, by other weights, as in place=1,own=0.3")
@click.option("--units", metavar="graph|fit", help="units of --sql  [default: those that give the run's own vectors]")
@click.option("--force", is_flag=True, help="replace what an earlier export wrote there")
@global_options
@click.pass_obj
def export(
    console: Console,
    run: str,
    target: str,
    onnx: bool,
    sql: bool,
    to: str | None,
    table: str | None,
    distances: bool,
    weights: str | None,
    units: str | None,
    force: bool,
) -> None:
    """Write the model of RUN, or its vectors, to where other programs read them.

    --onnx and --sql write the model: other systems then compute vectors of their own nodes. --to writes the vectors
    of the run with ids, names, roles and confidences, and says in the table which columns are which block.

    A database is given as a connection string, or as env:NAME, a variable of the environment that holds it, so
    that no password is seen. Nothing is replaced unless --force is given, and nothing that no export wrote at all.

    \b
    rae export runs/users --sql model.sql
    rae export runs/users --onnx model.onnx
    rae export runs/users --to duckdb users.duckdb --table users
    rae export runs/users --to lance users.lance --distances
    rae export runs/users --to pgvector env:DATABASE_URL
    rae export runs/users --to qdrant qdrant-folder
    """
    from rae.export import export as export_run

    targets = [name for name, chosen in (("onnx", onnx), ("sql", sql), (to, to)) if chosen]
    if len(targets) != 1:
        what = "one of --onnx, --sql and --to" + (f" {'|'.join(STORES)}" if not targets else "")
        raise click.UsageError(f"expected {what}, got {len(targets)}")
    console.use_threads()
    with console.progress() as progress:
        written = export_run(
            run, str(targets[0]), target, force=force, table=table, units=units, progress=progress or False,
            weights=weights if weights is not None else "" if distances else None,
        )  # fmt: skip
    for note in written.notes:
        console.note(note)
    rows = [("written", written.where)]
    rows += [("vectors", f"{written.rows:,}")] if written.rows else []
    rows += [("file", f"{path} ({size(path.stat().st_size)})") for path in written.files]
    data = {
        "to": written.kind,
        "where": written.where,
        "rows": written.rows,
        "files": [str(path) for path in written.files],
        "notes": list(written.notes),
    }
    console.result(columns(rows), data)
