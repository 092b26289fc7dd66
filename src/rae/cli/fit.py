"""`rae fit`: the flags and the report of `rae.fit_run`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rae.cli.console import Console, columns, global_options, size
from rae.cli.options import cluster_options, device_option, memory_options, reading_options
from rae.cli.roles import table
from rae.cli.settings import config_options
from rae.config import Settings
from rae.progress import seconds

if TYPE_CHECKING:
    from rae.reading import Reading
    from rae.run import Run


@click.command(short_help="learn a model from a graph and embed its nodes")
@reading_options
@click.option("--out", metavar="RUN", help="folder to write  [default: runs/<name of EDGES>]")
@click.option("--force", is_flag=True, help="replace the run that is there")
@click.option("--page/--no-page", default=None, help="find roles and write the page  [default: up to 200,000 nodes]")
@click.option("--names", metavar="COLUMN|FILE", help="display names: a column of --features, or a table of id and name")
@click.option("--lean", is_flag=True, help="keep no copy of the graph and the features in the run")
@memory_options
@cluster_options
@click.option(
    "--ray-workers",
    type=click.IntRange(min=1),
    default=1,
    metavar="N",
    help="with --ray: workers that share each step of a training; one gives the model of one machine  [default: 1]",
)
@device_option
@config_options
@global_options
@click.pass_obj
def fit(
    console: Console, /, edges: str, features: str | None, reading: Reading, config: Settings, **options: Any
) -> None:
    """Learn a model from the graph in EDGES and embed its nodes.

    EDGES is Parquet, CSV, TSV or a plain edge list, gzipped or not; its first two columns are the
    ends of an edge unless --source and --target say otherwise. A run folder comes out: the model,
    embeddings.parquet (id, embedding), the graph and the features as they were read, run.json
    (settings, counts, timings), the roles of the nodes, and a page to explore them.

    A table of --features has a row per node. Numbers stay as they are, dates become years since 2000, and text
    becomes one 0/1 column per value (country=FR), for up to 1,000 values.

    \b
    rae fit edges.csv
    rae fit edges.parquet --features users.csv --id-column user --names login --out runs/users
    rae fit calls.csv --features accounts.csv --drop-columns email,note --category-columns zip
    rae fit edges.tsv.gz --loss both --steps 500 --seed 3
    rae fit edges.csv --dims 64 --fanout 10 --no-page --json --quiet
    rae fit big.parquet --memory 6GiB --dtype float16
    rae fit network --out /shared/runs/network --ray auto --no-page
    """
    from rae.pipeline import fit_run

    console.use_threads()
    with console.progress() as progress:
        run = fit_run(edges, features, config=config, progress=progress, **options, **vars(reading))
    report(run, console)


def report(run: Run, console: Console) -> None:
    """Print the result of a fit and where it is."""
    from rae.run_folder import PAGE

    training: dict[str, dict[str, Any]] = run.info["training"]
    timings, counts = run.timings, run.counts
    rows = [
        (f"loss {name}", f"{t['first']:.3g} -> {t['last']:.3g} in {t['steps']:,} steps") for name, t in training.items()
    ]
    rows += [("time", ", ".join(f"{name} {seconds(spent)}" for name, spent in timings.items()))]
    blocks = ", ".join(f"{block.name} {block.width}" for block in run.blocks)
    rows += [("vectors", f"{counts['nodes']:,} x {counts['width']}" + (f" ({blocks})" if blocks else ""))]
    files = run.files()
    rows += [("written", f"{run.path} ({len(files)} files, {size(sum(files.values()))})")]
    data = {"run": str(run.path), "files": files, "counts": counts, "timings": timings, "training": training}
    record = run.role_record() if run.has_roles else None
    if record is not None:
        data["roles"] = {
            "k": record["k"],
            "criterion": record["criterion"],
            "sizes": [c["size"] for c in record["cards"]],
        }
    if PAGE in files:
        rows += [("page", str(run.path / PAGE))]
        data["page"] = str(run.path / PAGE)
    else:
        rows += [("next", f"rae explore {run.path} writes a page with its roles")]
    console.result((f"{table(record)}\n\n" if record else "") + columns(rows), data)
