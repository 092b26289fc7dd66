"""`rae graph`: build a graph folder from an edge file of any size."""

from __future__ import annotations

import time
from typing import Any

import click

from rae.cli.console import Console, columns, global_options, size
from rae.cli.options import cluster_options, edge_options
from rae.progress import seconds


@click.group(short_help="store a graph as a folder that opens at once")
@global_options
def graph() -> None:
    """Store a graph as a folder: built once, memory-mapped, accepted wherever a command takes EDGES.

    \b
    rae graph build edges.parquet --out web
    rae fit web --out runs/web
    """


@graph.command(short_help="edge file to graph folder, in bounded memory")
@click.argument("edges", metavar="EDGES")
@click.option("--out", required=True, metavar="FOLDER", help="folder to write")
@click.option(
    "--order",
    type=click.Choice(["none", "locality"]),
    default="none",
    show_default=True,
    help="order of the rows: as the ids ascend, or neighbours near each other, which embeds large graphs faster",
)
@edge_options("EDGES")
@click.option("--force", is_flag=True, help="replace an existing graph folder")
@cluster_options
@global_options
@click.pass_obj
def build(
    console: Console,
    /,
    edges: str,
    out: str,
    order: str,
    force: bool,
    ray: str | None,
    ray_cores: int | None,
    **options: Any,
) -> None:
    """Build a graph folder from EDGES: Parquet, CSV, TSV or a plain edge list, gzipped or not.

    Edges are buffered in a quarter of the free memory, 3 GiB at most, and spill to disk beyond that, so memory grows
    with the nodes, by some tens of bytes each, and not with the edges. Doubled edges are merged and self-loops left
    out, both counted. Weights, directions and kinds are kept where they are asked for, else dropped. Ids stay what they
    are in the file. A build that is killed leaves no folder.

    With --ray, many Parquet files are built by tasks on a cluster, into a folder that all its hosts see, or into an
    object store; the same command resumes from the parts of a killed one in FOLDER.parts. The folder has the same
    bytes.

    \b
    rae graph build edges.parquet --out web
    rae graph build edges.tsv.gz --out web --order locality --force
    rae graph build calls.csv --source caller --target called --out calls
    rae graph build payments.parquet --weight amount --directed --kind type --out payments
    rae graph build s3://bucket/calls/ --out s3://bucket/network --ray auto
    """
    from rae.pipeline import build_graph
    from rae.storage.objects import sizes_below

    start = time.perf_counter()
    with console.progress() as progress:
        built = build_graph(
            edges, out, order=order, force=force, ray=ray, ray_cores=ray_cores, progress=progress or False, **options
        )
    elapsed = time.perf_counter() - start
    files = sizes_below(out)
    counts: dict[str, Any] = {
        "nodes": built.n_nodes,
        "edges": built.n_edges,
        "rows": built.counts.rows,
        "doubled": built.counts.doubled,
        "self_loops": built.counts.self_loops,
        **{name: count for name, count in built.counts.as_dict().items() if name in ("zeros", "outside")},
    }
    rows = [
        ("graph", f"{built.n_nodes:,} nodes, {built.n_edges:,} edges"),
        ("rows", str(built.counts)),
        *([("channels", ", ".join(built.channels))] if built.channels else []),
        ("time", seconds(elapsed)),
        ("written", f"{out} ({len(files)} files, {size(sum(files.values()))})"),
    ]
    data = {"out": out, "order": order, "files": files, "counts": counts, "timings": {"build": round(elapsed, 4)}}
    console.result(columns(rows), data)
