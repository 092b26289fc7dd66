"""`rae embed`: the vectors of another graph, by a model that was fitted before."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path

import click

from rae.cli.console import Console, columns, global_options, size
from rae.cli.inputs import Reading, read_inputs, reading_options
from rae.cli.memory_options import Bounds, bounds_options
from rae.cli.progress import seconds
from rae.errors import FileError


@click.command(short_help="embed another graph with a fitted model")
@click.argument("run", metavar="RUN")
@reading_options
@click.option("--out", required=True, metavar="FILE", help="file to write, .parquet (id, embedding) or .csv")
@click.option("--force", is_flag=True, help="replace the file that is there")
@bounds_options
@global_options
@click.pass_obj
def embed(console: Console, run: str, reading: Reading, bounds: Bounds, out: str, force: bool) -> None:
    """Embed the graph in EDGES with the model of RUN, without learning anything new.

    RUN is a run folder or a model.safetensors file. The graph may be the same one grown, or another
    one; features must be of the kind the model was fitted with. One file comes out, with a row per node:
    id, embedding.

    With --memory the rows between two levels lie on disk, in FILE.parts, until the file is whole. The
    same command goes on where a killed one was; the bytes are the same for any budget.

    \b
    rae embed runs/users tomorrow.csv --features users.csv --out z.parquet
    rae embed runs/web/model.safetensors other.tsv.gz --out other.parquet --force
    rae embed runs/web big.parquet --out z.parquet --memory 4GiB --dtype float16
    """
    from rae.engine import memory_bytes
    from rae.run import load_model, model_checksum

    target = Path(out)
    if target.is_dir():
        raise FileError(f"--out must be a file, {target} is a folder; try --out {target / 'embeddings.parquet'}")
    if target.suffix.lower() not in (".parquet", ".csv"):
        raise FileError(f"--out must end in .parquet or .csv, got {target}")
    if target.exists() and not force:
        raise FileError(f"{target} exists; choose another --out, or pass --force to replace it")
    if bounds.memory is not None:
        memory_bytes(bounds.memory)  # a misspelt size is said before anything is read
    console.use_threads()
    model, made_by = load_model(run), model_checksum(run)
    inputs = read_inputs(reading, console, memory=bounds.memory, beside=target)
    graph, features = inputs.graph, inputs.features
    target.parent.mkdir(parents=True, exist_ok=True)
    with console.progress() as progress:
        began = time.perf_counter()
        width = model.embed_to(target, graph, features, model=made_by, progress=progress, **asdict(bounds))
        spent = time.perf_counter() - began
    written = target.stat().st_size
    timings = {"read": round(inputs.seconds, 4), "embed": round(spent, 4)}
    rows = [
        ("time", f"read {seconds(inputs.seconds)}, embed {seconds(spent)}"),
        ("vectors", f"{graph.n_nodes:,} x {width}"),
        ("written", f"{target} ({size(written)})"),
    ]
    counts = inputs.counts | {"width": width}
    console.result(columns(rows), {"out": str(target), "bytes": written, "counts": counts, "timings": timings})
