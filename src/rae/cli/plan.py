"""`rae plan`: the memory and time that a fit will take."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from rae.cli.console import Console, columns, global_options, size
from rae.cli.options import device_option, memory_options, options, reading_options
from rae.cli.settings import config_options
from rae.config import Settings
from rae.progress import seconds

if TYPE_CHECKING:
    from rae.engine.cluster_plan import Hosts
    from rae.reading import Reading


_count = click.IntRange(min=1)
_host_options = options(
    click.option("--hosts", type=_count, metavar="N", help="plan for a cluster of so many hosts instead"),
    click.option(
        "--host-memory", metavar="SIZE", default="64GiB", show_default=True, help="with --hosts: memory of each"
    ),
    click.option("--host-cores", type=_count, metavar="N", default=16, show_default=True, help="... its cores"),
    click.option(
        "--host-network",
        type=click.FloatRange(min=0, min_open=True),
        metavar="GBIT",
        default=10.0,
        show_default=True,
        help="... its network, in Gbit/s",
    ),
    click.option("--feature-width", type=click.IntRange(min=0), metavar="N", default=0, help="... columns of features"),
)


@click.command(short_help="memory and time a fit will take, before any fit")
@reading_options
@memory_options
@device_option
@config_options
@_host_options
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
    hosts: int | None,
    host_memory: str,
    host_cores: int,
    host_network: float,
    feature_width: int,
) -> None:
    """Say how much memory and time `rae fit` with the same arguments will take.

    EDGES is read, since that is how nodes are counted, and a small fit or a few training steps are
    timed; nothing is written. Counts, memory by part and time by stage come out.

    \b
    rae plan edges.csv
    rae plan edges.parquet --features users.csv --loss both --steps 500
    rae plan edges.tsv.gz --batch-size 1024 --json
    rae plan folder-of-rae-graph-build --memory 4GiB --half
    rae plan 1e9,1e11 --hosts 64 --host-memory 512GiB --half --dtype float16

    With --hosts the plan is that of embedding on a cluster; EDGES may then be a size, NODES,EDGES.
    """
    from rae.graph.folder import is_graph_folder
    from rae.inputs import check_output, read_inputs
    from rae.plan import available_memory
    from rae.plan import plan as make_plan

    check_output(memory, half, dtype, None if hosts is None else "hosts")
    console.use_threads()
    if hosts is not None:
        from rae.engine.cluster_plan import Hosts

        machines = Hosts.of(hosts, host_memory, host_cores, host_network)
        _plan_cluster(console, edges, features, feature_width, reading, config, half, dtype, machines)
        return
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


def _plan_cluster(
    console: Console,
    edges: str,
    features: str | None,
    feature_width: int,
    reading: Reading,
    config: Settings,
    half: bool,
    dtype: str,
    hosts: Hosts,
) -> None:
    """Print the table that one reads before renting machines."""
    from rae.engine.cluster_plan import parsed_size, plan_on_hosts
    from rae.inputs import read_inputs

    sizes, width = parsed_size(edges), feature_width
    if sizes is None:
        with console.progress() as progress:
            counts = read_inputs(edges, features, reading, progress=progress).counts
        sizes, width = (counts["nodes"], counts["edges"]), counts["features"] or feature_width
    expected, fit = plan_on_hosts(config, hosts, *sizes, width, half=half, dtype=dtype)
    about = {"nodes": sizes[0], "edges": sizes[1], "feature columns": width, "hosts": hosts.count, **expected.counts}
    needs = (
        "" if expected.fits else f"\n\nthis does not fit: a host must give {size(expected.memory['least'])} to a task"
    )
    before = [] if fit is None else ["the fit before it\n" + columns(_lines(fit), "  ")]
    text = "\n\n".join(
        [
            columns([(name, f"{n:,}") for name, n in about.items()]),
            "memory of a host\n" + columns([(name, size(n)) for name, n in expected.memory.items()], "  "),
            "bytes\n" + columns([(name, size(n)) for name, n in expected.bytes.items()], "  "),
            "time\n" + columns(_times(expected), "  ") + needs,
            *before,
        ]
    )
    data = {"counts": about, "memory": expected.memory, "bytes": expected.bytes, "seconds": expected.seconds}
    console.result(text, data | {"fits": expected.fits, "fit": None if fit is None else asdict(fit)})


def _times(plan: Any) -> list[tuple[str, str]]:
    return [(name, f"{n:,.1f}" if name == "core hours" else seconds(n)) for name, n in plan.seconds.items()]


def _lines(fit: Any) -> list[tuple[str, str]]:
    """All numbers of the plan of a fit."""
    counts = [(name, f"{n:,}") for name, n in fit.counts.items()]
    return [*counts, *((name, size(n)) for name, n in (fit.memory | fit.bytes).items() if n), *_times(fit)]
