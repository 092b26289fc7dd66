"""`rae fit`: read, learn, embed, write a run folder."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rae.cli.console import Console, columns, global_options, size
from rae.cli.inputs import Inputs, Reading, read_inputs, reading_options
from rae.cli.memory_options import Bounds, bounds_options
from rae.cli.progress import seconds
from rae.cli.resume import Beside, made_of
from rae.cli.roles import table
from rae.cli.settings import config_options
from rae.config import Config

if TYPE_CHECKING:
    from rae.explore import Subject
    from rae.run import Run

MIB = 1 << 20
SHARE = 0.8  # of the memory that is free, advised to be used
PAGE_MOST = 200_000  # nodes up to which a fit goes on to roles and page without being asked


@click.command(short_help="learn a model from a graph and embed its nodes")
@reading_options
@click.option("--out", metavar="RUN", help="folder to write  [default: runs/<name of EDGES>]")
@click.option("--force", is_flag=True, help="replace the run that is there")
@click.option("--page/--no-page", default=None, help="find roles and write the page  [default: up to 200,000 nodes]")
@click.option("--lean", is_flag=True, help="keep no copy of the graph and the features in the run")
@bounds_options
@config_options
@global_options
@click.pass_obj
def fit(
    console: Console,
    reading: Reading,
    config: Config,
    bounds: Bounds,
    out: str | None,
    force: bool,
    page: bool | None,
    lean: bool,
) -> None:
    """Learn a model from the graph in EDGES and embed its nodes.

    EDGES is Parquet, CSV, TSV or a plain edge list, gzipped or not; its first two columns are the
    ends of an edge unless --source and --target say otherwise. A run folder comes out: the model,
    embeddings.parquet (id, embedding), the graph and the features as they were read, run.json
    (settings, counts, timings), the roles of the nodes, and a page to explore them.

    \b
    rae fit edges.csv
    rae fit edges.parquet --features users.csv --id-column user --out runs/users
    rae fit edges.tsv.gz --loss both --steps 500 --seed 3
    rae fit edges.csv --dims 64 --fanout 10 --no-page --json --quiet
    rae fit big.parquet --memory 6GiB --dtype float16
    """
    from rae.run import check_free

    folder = Path(out) if out else default_folder(reading.edges)
    check_free(folder, force=force)
    console.use_threads()
    inputs = read_inputs(reading, console, memory=bounds.memory, beside=folder)
    warn_of_memory(inputs, config, bounds, console)
    run = fit_run(inputs, config, folder, console, force=force, lean=lean, bounds=bounds)
    if page or (page is None and run.counts["nodes"] <= PAGE_MOST):
        add_page(run, console)
    report(run, console)


def warn_of_memory(inputs: Inputs, config: Config, bounds: Bounds, console: Console) -> None:
    """Say so, before anything is started, if it will not fit in memory; a budget that nothing keeps to is refused."""
    from rae.plan import check_budget, memory, shortage

    if bounds.memory is not None:
        check_budget(bounds.memory, inputs.graph, inputs.features, config, half=bounds.half)
    parts = memory(inputs.graph, inputs.features, config, budget=bounds.memory, half=bounds.half, from_folder=True)
    short = shortage(parts["peak"])
    if short is None:
        return
    needed, free = short
    way = way_out(inputs, config, bounds, parts, parts["peak"] - needed, free)
    console.warn(f"this will take about {size(needed)} more memory and {size(free)} is available; {way}")


def way_out(inputs: Inputs, config: Config, bounds: Bounds, parts: Mapping[str, int], held: int, free: int) -> str:
    """What to do, where a process that holds so many bytes can have so many more and no others."""
    from rae.memory import mapped
    from rae.plan import least_budget

    room, given = held + free, parts["program"] + parts["graph"] + parts["features"]
    if given > room:
        fewer = "" if inputs.features is None else ", or give fewer columns"
        return f"no --memory makes it fit, program, graph and features take {size(given)}; free some memory{fewer}"
    if given + parts["step"] > room:
        return "pass a smaller --batch-size"
    for half in (True,) if bounds.half else (False, True):
        least = -(-least_budget(inputs.graph, inputs.features, config, half=half) // MIB)
        if least * MIB <= room:
            advised = max(least, (held + round(SHARE * free)) // MIB)  # of the whole process, with what it holds
            return f"pass --memory {advised}MiB" + " --half" * (half and not bounds.half)
    folder = ", or give EDGES as a graph folder (`rae graph build`)" * (mapped(inputs.graph.targets) is None)
    return f"no --memory makes it fit, the least is {least} MiB, with --half; free some memory{folder}"


def default_folder(edges: str) -> Path:
    """runs/<name>, the name without its endings.

    >>> default_folder("data/web.csv.gz").as_posix()
    'runs/web'
    """
    name = Path(edges).name
    return Path("runs") / (name.split(".")[0] or name)


def fit_run(
    inputs: Inputs,
    config: Config,
    folder: Path,
    console: Console,
    *,
    force: bool,
    lean: bool = False,
    bounds: Bounds | None = None,
) -> Run:
    """Fit, embed and write; the run that comes out is complete."""
    from rae.estimator import RAE
    from rae.run import Run

    bounds = bounds or Bounds()
    model, beside = RAE(config), Beside(folder)
    with console.progress() as progress:

        def embed(path: Path, made_by: str) -> int:
            return model.embed_to(
                path, inputs.graph, inputs.features, model=made_by, progress=progress, **asdict(bounds)
            )

        def embed_beside(path: Path, made_by: str) -> int:
            about = made_of(inputs.graph, inputs.features, config, made_by, bounds)
            return beside.put(path, about, lambda vectors: embed(vectors, made_by))

        began = time.perf_counter()
        model.fit(inputs.graph, inputs.features, progress=progress)
        run = Run.create(
            folder,
            model,
            inputs.graph.id_column,
            embed if bounds.memory is None else embed_beside,
            graph=None if lean else inputs.graph,
            features=None if lean else inputs.features,
            counts=inputs.counts,
            timings={"read": inputs.seconds, "fit": time.perf_counter() - began},
            inputs=inputs.files,
            force=force,
        )
    if bounds.memory is not None:
        beside.remove()
    return run


def add_page(run: Run, console: Console, subject: Subject | None = None, *, k: int | str = "auto") -> None:
    """Find the roles of a run and write its page."""
    from rae.explore import write_page

    run.fit_roles(k)
    with console.progress() as progress:
        write_page(run, subject=subject, force=True, progress=progress)


def report(run: Run, console: Console) -> None:
    """Say what came out and where."""
    from rae.run import PAGE

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
