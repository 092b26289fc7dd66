"""`rae plan`: the memory and time that a fit will take."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rae.cli.console import Console, columns, global_options, size
from rae.cli.memory_options import device_option, memory_options
from rae.cli.reading_options import reading_options
from rae.cli.settings import config_options
from rae.config import Settings
from rae.progress import seconds

if TYPE_CHECKING:
    from rae.inputs import Reading


@click.command(short_help="memory and time a fit will take, before any fit")
@reading_options
@memory_options
@device_option
@config_options
@global_options
@click.pass_obj
def plan(
    console: Console,
    edges: str,
    features: str | None,
    reading: Reading,
    config: Settings,
    memory: str | None,
    half: bool,
    dtype: str,
    device: str,
) -> None:
    """Say how much memory and time `rae fit` with the same arguments will take.

    EDGES is read, since that is how nodes are counted, and a small fit or a few training steps are
    timed; nothing is written. Counts, memory by part and time by stage come out.

    \b
    rae plan edges.csv
    rae plan edges.parquet --features users.csv --loss both --steps 500
    rae plan edges.tsv.gz --batch-size 1024 --json
    rae plan folder-of-rae-graph-build --memory 4GiB --half
    """
    from rae.graph.folder import is_graph_folder
    from rae.inputs import check_output, read_inputs
    from rae.plan import available_memory
    from rae.plan import plan as make_plan

    check_output(memory, half, dtype)
    console.use_threads()
    with console.progress() as progress:
        inputs = read_inputs(edges, features, reading, memory=memory, progress=progress)
    file_bytes = sum(f["bytes"] for f in inputs.files.values())
    expected = make_plan(
        inputs.graph,
        inputs.features,
        config,
        file_bytes=file_bytes,
        read_seconds=inputs.seconds,
        budget=memory,
        half=half,
        dtype=dtype,
        from_folder=is_graph_folder(edges) or memory is not None,
        device=device,
    )
    free = available_memory()
    counts = inputs.counts | {"width": expected.width, "file_bytes": file_bytes}
    by_part = expected.memory if free is None else expected.memory | {"available": free}
    counts_and_place = [(name.replace("_", " "), f"{n:,}") for name, n in counts.items()]
    if expected.device != "cpu":
        counts_and_place.append(("on the GPU", f"{expected.device}, {size(expected.device_bytes)} of its memory"))
    text = "\n\n".join(
        [
            columns(counts_and_place),
            "memory expected\n" + columns([(name, size(n)) for name, n in by_part.items()], "  "),
            "time expected\n" + columns([(name, seconds(spent)) for name, spent in expected.seconds.items()], "  "),
        ]
    )
    data = {"counts": counts, "memory": expected.memory, "seconds": expected.seconds, "available": free}
    console.result(text, data | {"device": expected.device, "device_bytes": expected.device_bytes})
