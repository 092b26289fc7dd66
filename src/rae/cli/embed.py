"""`rae embed`: vectors of another graph by a fitted model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rae.cli.console import Console, columns, global_options, size
from rae.cli.options import cluster_options, device_option, memory_options, reading_options
from rae.progress import seconds

if TYPE_CHECKING:
    from rae.reading import Reading


@click.command(short_help="embed another graph with a fitted model")
@click.argument("run", metavar="RUN")
@reading_options
@click.option(
    "--out", required=True, metavar="FILE", help="file to write, .parquet (id, embedding) or .csv; or a folder/"
)
@click.option("--force", is_flag=True, help="replace the file that is there")
@click.option("--whole", is_flag=True, help="no edge is missing, as in a part of a larger graph would be: do not warn")
@memory_options
@cluster_options
@device_option
@global_options
@click.pass_obj
def embed(console: Console, /, run: str, edges: str, features: str | None, reading: Reading, **options: Any) -> None:
    """Embed the graph in EDGES with the model of RUN, without learning anything new.

    RUN is a run folder or a model.safetensors file. The graph may be the same one grown, or another
    one; features must be of the kind the model was fitted with. A run folder knows the columns of its fit
    (--weight, --directed, --id-column, ...), so files of the same shape need no such flags. One file comes
    out, with a row per node: id, embedding.

    In a part of a graph vectors lack what they read, and edges do not say that they are one: a graph
    other than that of the fit is warned of. --whole says that none of its edges is missing.

    With --memory the rows between two levels lie on disk, in FILE.parts, until the file is whole. The
    same command resumes where a killed one stopped; the bytes are the same for any budget.

    With --ray the work is done by tasks on a Ray cluster, with the same bytes. An --out that ends in a
    slash is a folder: a Parquet file per part, and _manifest.json.

    \b
    rae embed runs/users tomorrow.csv --whole --features users.csv --out z.parquet
    rae embed runs/web/model.safetensors other.tsv.gz --out other.parquet --force
    rae embed runs/web big.parquet --out z.parquet --memory 4GiB --dtype float16
    rae embed runs/web network --out vectors/ --ray auto --memory 16GiB
    """
    from rae.pipeline import embed_file

    console.use_threads()
    with console.progress() as progress:
        embedded = embed_file(run, edges, features, progress=progress, **options, **vars(reading))
    counts, timings, written = embedded.counts, embedded.timings, embedded.n_bytes
    rows = [
        ("time", f"read {seconds(timings['read'])}, embed {seconds(timings['embed'])}"),
        ("vectors", f"{counts['nodes']:,} x {counts['width']}"),
        ("written", f"{embedded.path} ({size(written)})"),
    ]
    data = {
        "out": str(embedded.path),
        "bytes": written,
        "counts": counts,
        "timings": {name: round(spent, 4) for name, spent in timings.items()},
    }
    console.result(columns(rows), data)
