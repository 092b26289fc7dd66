"""`rae plan`: what a fit will take, before it is done."""

from __future__ import annotations

import dataclasses

import click

from rae.cli.console import Console, columns, global_options, size
from rae.cli.inputs import Reading, read_inputs, reading_options
from rae.cli.memory_options import Bounds, bounds_options
from rae.cli.progress import seconds
from rae.cli.settings import config_options
from rae.config import Config


@click.command(short_help="memory and time a fit will take, before any fit")
@reading_options
@bounds_options
@config_options
@global_options
@click.pass_obj
def plan(console: Console, reading: Reading, config: Config, bounds: Bounds) -> None:
    """Say how much memory and time `rae fit` with the same arguments will take.

    EDGES is read, since that is how nodes are counted, and a few training steps are timed; nothing
    is written. Counts, memory by part and time by stage come out.

    \b
    rae plan edges.csv
    rae plan edges.parquet --features users.csv --loss both --steps 500
    rae plan edges.tsv.gz --batch-size 1024 --json
    rae plan folder-of-rae-graph-build --memory 4GiB --half
    """
    from rae.engine import memory_bytes
    from rae.graph.folder import is_graph_folder
    from rae.plan import available_memory
    from rae.plan import plan as make_plan

    if bounds.memory is not None:
        memory_bytes(bounds.memory)  # a misspelt size is said before anything is read
    console.use_threads()
    inputs = read_inputs(reading, console, memory=bounds.memory)
    file_bytes = sum(f["bytes"] for f in inputs.files.values())
    made = make_plan(
        inputs.graph,
        inputs.features,
        config,
        file_bytes=file_bytes,
        read_seconds=inputs.seconds,
        budget=bounds.memory,
        half=bounds.half,
        dtype=bounds.dtype,
        from_folder=is_graph_folder(reading.edges) or bounds.memory is not None,
    )
    free = available_memory()
    counts = inputs.counts | {"width": config.width, "file_bytes": file_bytes}
    shown = made.memory if free is None else made.memory | {"available": free}
    text = "\n\n".join(
        [
            columns([(name.replace("_", " "), f"{n:,}") for name, n in counts.items()]),
            "memory expected\n" + columns([(name, size(n)) for name, n in shown.items()], "  "),
            "time expected\n" + columns([(name, seconds(spent)) for name, spent in made.seconds.items()], "  "),
        ]
    )
    console.result(text, {"counts": counts, **dataclasses.asdict(made), "available": free})
