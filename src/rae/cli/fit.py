"""`rae fit`: read, learn, embed, write a run folder."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rae.cli.console import Console, columns, global_options, size
from rae.cli.inputs import Inputs, Reading, read_inputs, reading_options
from rae.cli.progress import seconds
from rae.cli.settings import config_options
from rae.config import Config

if TYPE_CHECKING:
    from rae.run import Run


@click.command(short_help="learn a model from a graph and embed its nodes")
@reading_options
@click.option("--out", metavar="RUN", help="folder to write  [default: runs/<name of EDGES>]")
@click.option("--force", is_flag=True, help="replace the run that is there")
@click.option("--page", is_flag=True, help="also write page.html: counts, curve, map, look-alikes")
@click.option("--lean", is_flag=True, help="keep no copy of the graph and the features in the run")
@config_options
@global_options
@click.pass_obj
def fit(
    console: Console, reading: Reading, config: Config, out: str | None, force: bool, page: bool, lean: bool
) -> None:
    """Learn a model from the graph in EDGES and embed its nodes.

    EDGES is Parquet, CSV, TSV or a plain edge list, gzipped or not; its first two columns are the
    ends of an edge unless --source and --target say otherwise. A run folder comes out: the model,
    embeddings.parquet (id, embedding), the graph and the features as they were read, and run.json
    (settings, counts, timings).

    \b
    rae fit edges.csv
    rae fit edges.parquet --features users.csv --id-column user --out runs/users
    rae fit edges.tsv.gz --loss both --steps 500 --seed 3 --page
    rae fit edges.csv --dims 64 --fanout 10 --json --quiet
    """
    from rae.run import check_free

    folder = Path(out) if out else default_folder(reading.edges)
    check_free(folder, force=force)
    console.use_threads()
    run = fit_run(read_inputs(reading, console), config, folder, console, force=force, lean=lean)
    if page:
        add_page(run, console)
    report(run, console)


def default_folder(edges: str) -> Path:
    """runs/<name>, the name without its endings.

    >>> default_folder("data/web.csv.gz").as_posix()
    'runs/web'
    """
    name = Path(edges).name
    return Path("runs") / (name.split(".")[0] or name)


def fit_run(inputs: Inputs, config: Config, folder: Path, console: Console, *, force: bool, lean: bool = False) -> Run:
    """Fit, embed and write; the run that comes out is complete."""
    from rae.estimator import RAE
    from rae.run import Run

    model = RAE(config)
    with console.progress() as progress:
        began = time.perf_counter()
        model.fit(inputs.graph, inputs.features, progress=progress)
        fitted = time.perf_counter()
        z = model.transform(inputs.graph, inputs.features, progress=progress)
        embedded = time.perf_counter()
    timings = {"read": inputs.seconds, "fit": fitted - began, "embed": embedded - fitted}
    return Run.create(
        folder,
        model,
        inputs.graph.id_column,
        z,
        graph=None if lean else inputs.graph,
        features=None if lean else inputs.features,
        counts=inputs.counts,
        timings=timings,
        inputs=inputs.files,
        force=force,
    )


def add_page(
    run: Run,
    console: Console,
    *,
    title: str = "",
    names: Sequence[str] | None = None,
    landmarks: Sequence[str] | None = None,
    groups: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Write the picture and the page of a run; without matplotlib the page alone, and say so."""
    from rae.errors import MissingExtraError
    from rae.report.page import write_page
    from rae.report.picture import write_picture

    try:
        write_picture(run, names=landmarks, groups=groups, title=title)
    except MissingExtraError as error:
        console.warn(f"the page comes without its picture: {error}")
    write_page(run, title=title, names=names)


def report(run: Run, console: Console) -> None:
    """Say what came out and where."""
    training: dict[str, dict[str, Any]] = run.info["training"]
    timings, counts = run.timings, run.counts
    rows = [
        (f"loss {name}", f"{t['first']:.3g} -> {t['last']:.3g} in {t['steps']:,} steps") for name, t in training.items()
    ]
    rows += [("time", ", ".join(f"{name} {seconds(spent)}" for name, spent in timings.items()))]
    rows += [("vectors", f"{counts['nodes']:,} x {counts['width']}")]
    files = run.files()
    rows += [("written", f"{run.path} ({len(files)} files, {size(sum(files.values()))})")]
    data = {"run": str(run.path), "files": files, "counts": counts, "timings": timings, "training": training}
    console.result(columns(rows), data)
