"""docs/performance.md and its figure, from the lines in results/ alone.

python benchmarks/performance.py [--results results] [--docs docs]
"""

from __future__ import annotations

import argparse
import re
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import measurements
from growth import BOUNDED, BUILD, EMBED, PARTS
from measurements import PEAK, ROW, THREADS, TIME, TIMES_AS_FAST, Measurements, Section, value_column
from old_and_new import SLOWER
from old_and_new import TABLE as OLD_AND_NEW
from recording import RESULTS

from rae.evaluation import figures, report
from rae.evaluation.ledger import Ledger, Line
from rae.evaluation.report import Column

DOCS = Path(__file__).parent.parent / "docs"
LARGEST = "power law, 100,000,000 edges"
SHORTEST = 0.25  # seconds: less cannot be distinguished from the spread of starting a process
COLUMNS_EMBEDDED = 256

TRAINING_STEP = Section(
    "Training step",
    "python benchmarks/training_step.py --threads 1",
    "One step of training, with the paper's settings: 256 anchors, five positives and twenty negatives each, samples "
    "of 10 and 25 neighbours. Ours is a step as `RAE.fit` takes it, history included.",
    ("training-step",),
    (ROW, THREADS, TIME, TIMES_AS_FAST),
)
NEIGHBORHOOD_MEAN = Section(
    "Mean over neighbourhoods",
    "python benchmarks/neighborhood_mean.py",
    "For every node, the mean of its row and its neighbours' rows: most of the time of embedding. The *limit* is what "
    "the machine can do: read as many rows at random and add them up. It is the faster of two ways, a plain loop "
    "(without the node's own row and without a result) and our own kernel over random neighbours. Neighbours in a "
    "graph are not random: hubs and near ids stay in the cache. So a row may pass 100 %, and more so in locality "
    "order, which brings neighbours close together.",
    ("neighborhood-mean",),
    (
        *(ROW, THREADS, TIME, value_column("rows read", "gigabytes_per_s", "{:.1f} GB/s")),
        value_column("of the limit", "of_limit", "{:.0%}"),
        value_column("times torch.sparse CSR", "times_torch", "{:.2f}"),
    ),
)
EMBED_ALL = Section(
    "Every node embedded",
    "python benchmarks/embed_all.py",
    "The vectors of all nodes of a trained model: 256 columns from structural features, all neighbours, both levels. "
    "Each way is a process of its own. A sample of every way's vectors is within 0.0001 of ours. A way that "
    "holds over 20 GiB or takes over ten minutes is stopped.",
    ("embed-all",),
    (ROW, THREADS, TIME, value_column("edges × dims / s", "edge_dims_per_s", "{:.3g}"), PEAK, TIMES_AS_FAST),
)
FILE_TO_VECTORS = Section(
    "From a file to vectors",
    "python benchmarks/file_to_vectors.py",
    "Gzipped text in, vectors of all nodes out, each method in its own process.",
    ("file-to-vectors",),
    (ROW, THREADS, TIME, PEAK, TIMES_AS_FAST),
)
GRAPH_BUILD = Section(
    "Building, ordering, sampling",
    "python benchmarks/graph_build.py",
    "Three things: from an edge file to undirected neighbour lists without doubles; what it brings to order the rows "
    "so that neighbours lie together; sampled edges a second.",
    ("graph-build", "row-order", "neighbor-sampler"),
    (ROW, THREADS, TIME, PEAK, TIMES_AS_FAST),
)
PLAN_ACCURACY = Section(
    "Planned and real",
    "python benchmarks/plan_accuracy.py",
    "What `rae plan` predicted, and what the whole command `rae fit --no-page --lean` then took. Aims: memory within "
    "25 %, time within a factor of two.",
    ("plan-accuracy",),
    (
        *(ROW, THREADS),
        *(value_column("peak, planned", "planned_gib", "{:.2f} GiB"), value_column("real", "peak_gib", "{:.2f} GiB")),
        *(value_column("ratio", "memory_ratio", "{:.2f}"), value_column("time, planned", "planned_s", "{:.1f} s")),
        *(value_column("real", "best_s", "{:.1f} s"), value_column("ratio", "time_ratio", "{:.2f}")),
    ),
)
FIRST_FIT = Section(
    "First fit after an installation",
    "python benchmarks/first_fit.py",
    "An installation compiles the C library and copies the package; then each job runs twice. Whole processes, "
    "imports included.",
    ("first-fit",),
    (ROW, THREADS, TIME),
)
MILLION_NODES = Section(
    "Other commands on a million nodes",
    "python benchmarks/million_nodes.py",
    "Whole processes on runs with vectors of 256 columns.",
    ("million-nodes",),
    (ROW, TIME, PEAK),
)
UPDATE = Section(
    "A few edges",
    "python benchmarks/one_node.py",
    "`run.update` in a process that has made one update before, from ids to the state on disk. Half of the edges are "
    "added, half removed. *Without hubs*: their nodes have at most 300 nodes up to five edges away. *Moved* are "
    "vectors that were computed anew. *In full* says how often a full pass was cheaper. CPU time, of all threads, and "
    "moved are medians.",
    ("update",),
    (
        *(ROW, TIME, value_column("CPU time", "cpu_s", "{:.2f} s"), value_column("moved", "moved", "{:,}")),
        *(value_column("in full", "in_full", "{}"), value_column("first update", "first_update_s", "{:.0f} s")),
    ),
)
ONE_NODE = Section(
    "One node",
    "python benchmarks/one_node.py",
    "In a warm process, one call after the other. A new node has the neighbours of a node of the graph, drawn "
    "uniformly; a hub has 1,000 neighbours or more. CPU time is that of the thread, which load lengthens less.",
    ("one-node",),
    (
        *(ROW, value_column("p50", "p50_ms", "{:.1f} ms"), value_column("p90", "p90_ms", "{:.1f} ms")),
        *(value_column("p99", "p99_ms", "{:.1f} ms"), value_column("CPU p50", "cpu_p50_ms", "{:.1f} ms")),
        *(value_column("CPU p99", "cpu_p99_ms", "{:.1f} ms"), value_column("calls", "calls", "{:,}")),
    ),
)
RATE: Column = ("reads/s", lambda line, _: f"{line['settings']['rate']:g}, {line['settings']['seconds']:g} s")
SERVE = Section(
    "A service under load",
    "python benchmarks/serve_load.py",
    "`rae serve` and the program that asks share the cores of one machine. Requests arrive at random moments, whether "
    "or not earlier ones were answered, and a latency counts from the moment at which the request was due. Updates go "
    "on beside the reads; the log is long when it begins, and is folded in after some 80 of the 600 seconds. Memory is "
    "that of both processes after a tenth of the time and at the end. The last row is a service that was killed: "
    "updates that it had acknowledged, and edges of them that were not there afterwards.",
    ("serve", "serve-killed"),
    (
        *(ROW, RATE),
        *(value_column("p50", "p50_ms", "{:.1f} ms"), value_column("p99", "p99_ms", "{:.1f} ms")),
        *(value_column("max", "max_ms", "{:.0f} ms"), value_column("calls", "calls", "{:,}")),
        *(value_column("errors", "errors", "{:,}"), value_column("lost", "lost", "{:,}")),
        value_column("acknowledged", "acknowledged", "{:,}"),
        value_column("memory", "memory_first_mb", "{:,.0f} MB"),
        value_column("at the end", "memory_last_mb", "{:,.0f} MB"),
    ),
)
LARGE_WEIGHTED = Section(
    "Weighted, directed edges",
    "python benchmarks/weighted_edges.py --large 100000000 --memory 5GiB",
    "From a Parquet file with an amount in every row to vectors in Parquet by the exact default, in two commands with "
    "their own processes; *planned* is what `rae plan` said before.",
    ("large-weighted",),
    (
        *(ROW, TIME, value_column("CPU time", "cpu_s", "{:.0f} s"), value_column("peak", "peak_gib", "{:.2f} GiB")),
        *(value_column("planned", "planned_gib", "{:.2f} GiB"), value_column("planned time", "planned_s", "{:.0f} s")),
    ),
)


def _same(line: Line, _: object) -> str:
    return {True: "the same", False: "**DIFFERENT**"}.get(line.get("same"), "")  # type: ignore[arg-type]


def _parts(line: Line, _: object) -> str:
    return f"{line['parts_there']} of {line['parts']}" if "parts" in line else ""


def _bytes(line: Line, _: object) -> str:
    return f"{line['received'] + line['sent']:,}" if "received" in line else ""


CLUSTER = Section(
    "A cluster, rehearsed on one machine",
    "python benchmarks/cluster.py",
    "Four hosts with one core of Ray each, in namespaces of their own on a bridge without an uplink, with a token, and "
    "a server that speaks S3 beside them, all on two cores. `rae graph build`, `rae fit` and `rae embed` are given on "
    "host 2 and read and write the store alone. *Files* compares the graph folder, the model and all ids and vectors "
    "with those of one machine, byte by byte. Bytes are those of the bridge's counters, sent and received by all "
    "hosts, beside what `rae plan --hosts 4` said of embedding; so is its time.",
    ("cluster",),
    (
        *(ROW, value_column("seconds", "seconds", "{:.0f}"), value_column("planned", "planned_seconds", "{:.0f}")),
        *(("over the network", _bytes), value_column("planned", "planned", "{:,}"), ("files", _same)),
    ),
)
CLUSTER_OVERHEAD = Section(
    "What Ray costs",
    "python benchmarks/cluster_overhead.py",
    "`rae embed` into a folder of parts, on two threads of one process and by two workers of Ray on the same machine. "
    "CPU time is that of all processes, Ray's own among them; *start* is the same on a graph of 10,000 nodes, and "
    "*times* is what remains of CPU time after it, beside the first row.",
    ("cluster-overhead",),
    (
        *(ROW, value_column("CPU time", "cpu_s", "{:.1f} s"), value_column("of it start", "start_cpu_s", "{:.1f} s")),
        *(value_column("seconds", "seconds", "{:.1f}"), value_column("of them start", "start_s", "{:.1f}")),
        *(value_column("times", "times_cpu", "{:.2f}"), ("vectors", _same)),
    ),
)
CLUSTER_MODEL = Section(
    "A thousand parts on 64 hosts, by a model",
    "python benchmarks/cluster_model.py",
    "Not measured on a cluster: times of tasks of one thread here, put into a model of how tasks are given to hosts, "
    "with one core a host, 10 Gbit/s, and a millisecond to send a batch of tasks, which is assumed. *Of linear* is the "
    "time of one host over hosts times seconds. What keeps it below one are the rows that every host reads before its "
    "first task of a level, hosts that wait for the last, and on many hosts the sending.",
    ("cluster-model",),
    (ROW, value_column("seconds", "seconds", "{:,.0f}"), value_column("of linear", "of_linear", "{:.0%}")),
)
MANY_THREADS = Section(
    "Many threads",
    "python benchmarks/threads.py",
    "On a machine of 16 cores, each row in a process of its own: a graph from two arrays of ids, and vectors of 256 "
    "columns of all nodes in memory. Both are mostly reading and writing, so the last column says what more threads "
    "can bring: a copy from memory to memory by as many of them, bytes read and written.",
    ("threads",),
    (
        *(ROW, value_column("building", "build_s", "{:.2f} s"), value_column("embedding", "embed_s", "{:.2f} s")),
        value_column("copy", "copy_gb_per_s", "{:.0f} GB/s"),
    ),
)
CLUSTER_SKEW = Section(
    "Hubs and dense parts on many cores",
    "python benchmarks/cluster_skew.py",
    "Not measured on a cluster either: every task of embedding timed on one thread, then put on 8, 16 and 64 cores, "
    "each task on the first that is free. The graphs have about equally many edges; *times* are those of the first row "
    "on as many cores.",
    ("cluster-skew",),
    (
        *(
            ROW,
            value_column("neighbours of the largest", "largest_row", "{:,}"),
            value_column("CPU", "cpu_s", "{:.0f} s"),
        ),
        *(value_column(f"on {cores} cores", f"seconds_{cores}", "{:.1f} s") for cores in (8, 16, 64)),
        *(value_column(f"times, {cores}", f"times_{cores}", "{:.2f}") for cores in (8, 16, 64)),
        value_column("peak", "peak_mb", "{:,} MB"),
    ),
)
COMPARED = (TRAINING_STEP, NEIGHBORHOOD_MEAN, EMBED_ALL, FILE_TO_VECTORS, GRAPH_BUILD)
MORE = (
    PLAN_ACCURACY,
    FIRST_FIT,
    MILLION_NODES,
    LARGE_WEIGHTED,
    MANY_THREADS,
    UPDATE,
    ONE_NODE,
    SERVE,
    CLUSTER,
    CLUSTER_OVERHEAD,
    CLUSTER_MODEL,
    CLUSTER_SKEW,
)
FAULTS, GPU = "cluster-faults", "gpu"
TABLES = (*(t for s in (*COMPARED, *MORE) for t in s.tables), FAULTS, GPU, "growth", "resume-after-kill", OLD_AND_NEW)

WORDS = (
    "It says what takes how long and how much memory, beside other programs that do the same. **Ours** is bold. A "
    "table shows the best of several rounds, and the worst in brackets; ratios are of the best. The rows of a table "
    "ran in turns, in one process or each in its own. Numbers depend on the machine, which is named at the end. The "
    "command in a section repeats one benchmark (`RAE_DATA` names the folder of the public graphs), `make bench` all "
    "of them."
)
GPU_WORDS = (
    "`python benchmarks/gpu.py`. The means of rows over lists of power-law lengths (65 million rows of 4 million), as "
    "a share of the speed of a copy on the card; in brackets how many times as fast as the best of cuSPARSE, with "
    "indexes of 32 and 64 bits, and `embedding_bag`, at the same type. What each prepares once for a graph is prepared "
    "before. Then hubs among such lists, and one level of a graph of 100 million nodes; then whole jobs beside all "
    "cores of that machine. A fit is the first of its process, so it compiles kernels."
)
LIMITS = (
    "A command starts in the seconds that the growth tables name, most of them imports; on small graphs that is "
    "nearly all of its time, and a script that needs NumPy and SciPy alone has ended before.",
    "Everything runs on the processor, but for the section that says so.",
    "Training without given features holds 31 columns of float32 a node in memory, so its peak grows with the nodes, "
    "though not with the edges; given features can stay on disk.",
    "In memory, embedding holds the vectors of all nodes and the rows that a level averages. `--memory` bounds it and "
    "pays with disk: at most the vectors of all levels once and the rows of the level at work.",
    "`--order locality` brings much on graphs of the web and next to nothing on generated power-law graphs, in which "
    "there is no locality to find.",
)


# ----------------------------------------------------------------------------------------- growth


def growth(lines: Measurements, figure: str | None) -> str:
    """Time and memory over size, with the ratio from one size to the next."""
    words = (
        "`python benchmarks/growth.py`. Power-law graphs with a tenth as many nodes as edges drawn; doubled edges are "
        "merged, so edges grow by a little more than ten. Each part is its own process; timed is what comes after the "
        "imports and after the same on a graph of a hundred edges (`start` is a process with nothing but these), the "
        "peak is that of the process. Just before, another process touched as much memory as a build takes: a virtual "
        "machine may have to ask its host for it, which can take longer than the build. The dotted line is "
        "proportional to the edges."
    )
    columns: list[Column] = [
        ("edges", lambda pair, _: f"{pair[1]['edges']:,}"),
        ("best (worst)", lambda pair, _: measurements.best_worst(pair[1])),
        ("times the edges", lambda pair, _: _ratio(*pair, "edges")),
        ("times the seconds", lambda pair, _: _ratio(*pair, "best_s")),
        ("peak", lambda pair, _: f"{pair[1]['peak_gib']:.2f} GiB"),
    ]
    parts = [report.paragraph(words)]
    for part in PARTS:
        if sizes := _sizes(lines, part):
            budget = f", --memory {sizes[-1]['settings']['memory']}" if part == EMBED else ""
            start = f"{measurements.threads(sizes[-1])} threads, start {sizes[-1]['start_s']:.1f} s"
            parts += [f"**{part}{budget}, {start}**", report.table(pairwise([None, *sizes]), columns)]
    parts += [] if lines.of("growth") else ["Not measured yet."]
    parts += [f"![Seconds and peak memory over edges, both logarithmic]({figure})"] if figure else []
    return report.section("Growth", *parts, *map(_resumed, lines.of("resume-after-kill")))


def _sizes(lines: Measurements, part: str) -> list[Line]:
    return sorted((x for x in lines.of("growth") if x["row"] == part), key=lambda x: x["drawn"])


def _ratio(before: Line | None, line: Line, key: str) -> str:
    if before is None:
        return ""
    return "too short to tell" if key == "best_s" and before[key] < SHORTEST else f"{line[key] / before[key]:.1f}"


def _resumed(line: Line) -> str:
    same = "the same bytes as" if line["same_bytes"] else "OTHER BYTES than"
    return report.paragraph(
        f"Killed and resumed (`python benchmarks/resume_after_kill.py`): `rae embed --memory "
        f"{line['settings']['memory']}` on {line['dataset']}, killed with -9 after {line['killed_after_s']:.0f} s, "
        f"finished {line['best_s']:.0f} s after the command was given again, peak {line['peak_gib']:.2f} GiB, with "
        f"{same} the uninterrupted run of {line['uninterrupted_s']:.0f} s ({line['file_gb']:.1f} GB)."
    )


def cluster_faults(lines: Measurements) -> str:
    """What every fault of the rehearsal did, one row each: they are of several runs."""
    words = (
        "`python benchmarks/cluster.py --edges 2e6`. The same commands once more for every fault, when half of the "
        "parts of a stage are there and a task is at work: a worker is killed with -9; host 3 with all its processes "
        "and its network; the head, after which Ray is started anew and the same command given *again*; or the disk of "
        "host 4 is full, and emptied before the command is given again. *Kept* are parts that were there then, *anew* "
        "those of them that the second command wrote once more."
    )
    columns: list[Column] = [
        ("", lambda line, _: line["dataset"].partition(": ")[2]),
        ("parts there", _parts),
        value_column("seconds", "seconds", "{:.0f}"),
        *(value_column("exit code", "code", "{}"), value_column("again", "code_again", "{}")),
        *(value_column("kept", "parts_kept", "{}"), value_column("anew", "parts_written_anew", "{}"), ("files", _same)),
    ]
    rows = lines.of(FAULTS)
    table = report.table(rows, columns) if rows else "Not measured yet."
    return report.section("Hosts that die", report.paragraph(words), table)


# ----------------------------------------------------------------------------------------- a GPU

GATHER = re.compile(r"gather, (\d+) columns, (\w+)")
CPU_AND_GPU = ("fit", "embed", "")  # what has a time on the processor and one on the GPU


def gpu(lines: Measurements) -> str:
    """What one GPU does, beside the memory's speed, other ways and the processor of its machine."""
    measured = lines.of(GPU)
    parts = [report.paragraph(GPU_WORDS), *(_suite(x) for x in measured if x["row"] == "tests")]
    parts += [_gathers(measured)] if any(GATHER.match(x["dataset"]) for x in measured) else []
    columns: list[Column] = [("", lambda line, _: line["dataset"]), value_column("", "median_ms", "{:.1f} ms")]
    others = [x for x in measured if "median_ms" in x and not GATHER.match(x["dataset"])]
    parts += [report.table(others, [*columns, value_column("of copy speed", "of_copy", "{:.2f}")])] if others else []
    rows = [(x, what) for x in measured for what in CPU_AND_GPU if _time(x, "cpu", what) is not None]
    both: list[Column] = [
        ("", lambda row, _: f"{row[0]['dataset']}{row[1] and ': '}{row[1]}"),
        ("CPU", lambda row, _: f"{_time(row[0], 'cpu', row[1]):.2f} s"),
        ("GPU", lambda row, _: f"{_time(row[0], 'gpu', row[1]):.2f} s"),
    ]
    parts += [report.table(rows, both)] if rows else []
    return report.section("One GPU", *parts, "" if measured else "Not measured yet.")


def _suite(line: Line) -> str:
    counts = ", ".join(f"{line[what]} {what}" for what in ("passed", "failed", "skipped") if what in line)
    versions = ", ".join(f"{name} {line['versions'][name]}" for name in ("torch", "triton"))
    return report.paragraph(f"`make test-gpu` on {line['date'][:10]}, {line['card']}, {versions}: {counts}.")


def _gathers(measured: list[Line]) -> str:
    """Of each width and type the share of copy speed, and how many times as fast as the best of the other ways."""
    found: dict[int, dict[str, list[Line]]] = {}
    for line in measured:
        if match := GATHER.match(line["dataset"]):
            found.setdefault(int(match[1]), {}).setdefault(match[2], []).append(line)
    kinds = list(dict.fromkeys(kind for of_width in found.values() for kind in of_width))

    def cell(of_kind: list[Line]) -> str:
        ours = next((x for x in of_kind if measurements.is_ours(x)), None)
        others = [x["median_ms"] for x in of_kind if not measurements.is_ours(x)]
        if ours is None or not others:
            return ""
        return f"{ours['of_copy']:.2f} ({min(others) / ours['median_ms']:.2f})"

    rows = ([str(width), *(cell(of_width.get(kind, [])) for kind in kinds)] for width, of_width in found.items())
    return report.grid(["columns", *kinds], rows)


def _time(line: Line, where: str, what: str) -> float | None:
    """The seconds of a line on the processor ("cpu") or the GPU."""
    names = [f"{place}_{what}{what and '_'}s" for place in ((where,) if where == "cpu" else ("gpu", "cuda"))]
    return next((float(line[name]) for name in names if name in line), None)


def draw(lines: Measurements, docs: Path) -> None:
    """Write figures/growth.png and .svg, if growth was measured."""
    if growth_lines := lines.of("growth"):
        figures.save(docs / "figures" / "growth", lambda plt: _growth_figure(plt, growth_lines))
    if lines.of("cluster"):
        figures.save(docs / "figures" / "cluster", lambda plt: _cluster_figure(plt, lines))


def _cluster_figure(plt: Any, lines: Measurements) -> Any:
    """Seconds and bytes of the rehearsal over edges; the modelled seconds over hosts."""
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.6))
    for number, command in enumerate(("build", "fit", "embed")):
        rows = [x for x in lines.of("cluster") if x["row"] == command and x["dataset"].startswith("power law")]
        rows.sort(key=lambda x: x["edges"])
        style = {"color": figures.COLOURS[(0, 3, 6)[number]], "ls": figures.LINES[number]}
        edges = [x["edges"] for x in rows]
        for axis, key, scale in ((axes[0], "seconds", 1.0), (axes[1], "received", 1e9)):
            axis.plot(
                edges,
                [(x[key] + x["sent"] * (key == "received")) / scale for x in rows],
                marker=figures.MARKS[number],
                label=command,
                ms=5,
                **style,
            )
        if command == "embed":
            planned = [x["planned"] / 1e9 for x in rows]
            axes[1].plot(edges, planned, color="#999999", lw=1, ls=(0, (1, 2)), label="planned for embed")
    axes[0].set(xscale="log", yscale="log", xlabel="edges", title="seconds, four hosts on two cores")
    axes[1].set(xscale="log", yscale="log", xlabel="edges", title="GB sent and received")
    modelled = sorted(lines.of("cluster-model"), key=lambda x: x["hosts"])
    if modelled:
        hosts, first = [x["hosts"] for x in modelled], modelled[0]["seconds"]
        axes[2].plot(hosts, [x["seconds"] for x in modelled], marker="o", ms=5, color=figures.COLOURS[0], label="model")
        axes[2].plot(hosts, [first / h for h in hosts], color="#999999", lw=1, ls=(0, (1, 2)), label="linear")
    axes[2].set(xscale="log", yscale="log", xlabel="hosts", title="seconds of 1,000 parts, by a model")
    for axis in axes:
        axis.grid(True, which="major", color="#dddddd", lw=0.6)
        if axis.lines:
            axis.legend(frameon=False, fontsize=8)
    return figure


def _growth_figure(plt: Any, lines: list[Line]) -> Any:
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.8))
    for axis, key, title in zip(axes, ("best_s", "peak_gib"), ("seconds", "peak resident GiB"), strict=True):
        for number, part in enumerate(PARTS):
            sizes = sorted((x for x in lines if x["row"] == part and x[key] > 0), key=lambda x: x["edges"])
            style = {"color": figures.COLOURS[(0, 3, 6)[number]], "ls": figures.LINES[number]}
            xy = [x["edges"] for x in sizes], [x[key] for x in sizes]
            axis.plot(*xy, marker=figures.MARKS[number], label=part, ms=6, **style)
        axis.set(xscale="log", yscale="log", xlabel="edges", title=title)
        axis.yaxis.set_major_formatter("{x:g}")
        axis.yaxis.set_minor_formatter("")
        axis.grid(True, which="major", color="#dddddd", lw=0.6)
    last = max(lines, key=lambda x: x["best_s"])
    ends = [min(x["edges"] for x in lines), last["edges"]]
    proportional = [last["best_s"] * edges / last["edges"] for edges in ends]
    axes[0].plot(ends, proportional, color="#999999", lw=1, ls=(0, (1, 2)), label="proportional to edges", zorder=1)
    axes[1].set(ylim=(0.2, 10), yticks=[0.25, 0.5, 1, 2, 4, 8])
    axes[0].legend(frameon=False, fontsize=9, loc="upper left")
    return figure


# ------------------------------------------------------------------------------------ old and new


def old_and_new(lines: Measurements) -> str:
    """Every row measured with an older revision and with a newer tree, nothing without such lines."""
    rows = lines.of(OLD_AND_NEW)
    if not rows:
        return ""
    old, new = ({line[key] for line in each} for key, each in (("old", [x["settings"] for x in rows]), ("new", rows)))
    slower = sum(line["cpu_ratio"] > SLOWER for line in rows)
    ratios = [line["cpu_ratio"] for line in rows]
    words = (
        f"`python benchmarks/old_and_new.py --old {' '.join(sorted(old))}`. Each row with the old revision and with "
        f"the new tree ({' '.join(sorted(new))}), the same settings of the trained model, in turns in one run, each in "
        "a fresh process. Numbers are the best of the rounds; a ratio is new to old, so below 1 the new one is faster "
        "or smaller. CPU time, user and system of all threads, is the main number, since seconds depend on what else "
        f"the machine does. Of {len(rows)} rows {slower} take over {SLOWER - 1:.0%} more CPU time; the median ratio is "
        f"{statistics.median(ratios):.2f}."
    )
    columns: list[Column] = [
        ("benchmark", lambda line, _: line["dataset"]),
        ("", lambda line, _: line["row"]),
        measurements.THREADS,
        ("CPU time, old", lambda line, _: f"{line['old_cpu_s']:.3g} s"),
        ("new", lambda line, _: f"{line['new_cpu_s']:.3g} s"),
        ("ratio", lambda line, _: f"**{r:.2f}**" if (r := line["cpu_ratio"]) > SLOWER else f"{r:.2f}"),
        ("of medians", lambda line, _: f"{line['cpu_median_ratio']:.2f}"),
        ("seconds, ratio", lambda line, _: f"{line['ratio']:.2f}"),
        ("peak memory, ratio", lambda line, _: f"{line['peak_ratio']:.2f}"),
    ]
    return report.section("Old and new", report.paragraph(words), report.table(rows, columns))


# ------------------------------------------------------------------------------------------- aims


@dataclass(frozen=True)
class Aim:
    """A bound on a measured number; `text` formats both."""

    what: str
    bound: float
    text: str
    measured: Callable[[Measurements], float | None]
    at_least: bool = False

    def cells(self, lines: Measurements) -> list[str]:
        """What, aim, measured, and whether the aim is met."""
        value = self.measured(lines)
        aim = f"{self.text.format(self.bound)} or {'more' if self.at_least else 'less'}".replace(".0 ", " ")
        if value is None:
            return [self.what, aim, "not measured", ""]
        met = value >= self.bound if self.at_least else value <= self.bound
        return [self.what, aim, self.text.format(value), "met" if met else "**missed**"]


def _key(table: str, dataset: str, row: str, key: str, **settings: Any) -> Callable[[Measurements], float | None]:
    return lambda lines: (lines.one(table, dataset, row, **settings) or {}).get(key)


def _sampler(dataset: str) -> Callable[[Measurements], float | None]:
    def best(lines: Measurements) -> float | None:
        ours = [x for x in lines.of("neighbor-sampler") if measurements.is_ours(x) and x["dataset"] == dataset]
        return max((x["best_m_edges_s"] for x in ours if measurements.threads(x) == 1), default=None)

    return best


def _peak_gb(row: str) -> Callable[[Measurements], float | None]:
    def peak(lines: Measurements) -> float | None:
        gib = measurements.peak_gib(lines.one("file-to-vectors", "web-Google", row) or {})
        return None if gib is None else gib * 2**30 / 1e9

    return peak


def _with_start(part: str) -> Callable[[Measurements], float | None]:
    def seconds(lines: Measurements) -> float | None:
        line = lines.one("growth", LARGEST, part)
        return None if line is None else line["best_s"] + line["start_s"]

    return seconds


def _peak_of_largest(lines: Measurements) -> float | None:
    return max((x["peak_gib"] for x in lines.of("growth") if x["dataset"] == LARGEST), default=None)


def steepest(lines: Measurements, key: str) -> float | None:
    """The largest ratio of seconds from one size to the next, over all parts."""
    pairs = [pair for part in PARTS for pair in pairwise(_sizes(lines, part)) if pair[0]["best_s"] >= SHORTEST]
    return max((line[key] / before[key] for before, line in pairs), default=None)


def _first_fit_extra(lines: Measurements) -> float | None:
    """How many seconds more than the second fit the first one takes, at most; best by best."""
    best = {x["row"]: x["best_s"] for x in lines.of("first-fit") if "fit" in x["row"]}
    firsts = [row.removesuffix(", first") for row in best if row.endswith(", first")]
    return max((best[f"{job}, first"] - best[f"{job}, second"] for job in firsts), default=None)


def _aims_of_mean(width: int) -> Iterator[Aim]:
    what = f"mean over neighbourhoods, web-Google, {width} columns, one thread"
    line = {"table": "neighborhood-mean", "dataset": "web-Google", "threads": 1, "width": width}
    yield Aim(f"{what}: of the gather limit", 0.8, "{:.0%}", _key(row="ours", key="of_limit", **line), True)
    yield Aim(f"{what}: times torch.sparse CSR", 2.5, "{:.2f}", _key(row="ours", key="times_torch", **line), True)
    locality = _key(row="ours, locality order", key="of_limit", **line)
    yield Aim(f"{what}: of the limit in locality order", 1.0, "{:.0%}", locality, True)


def _aims_of_file(row: str) -> Iterator[Aim]:
    what = f"web-Google, gzipped text to 256 columns in Parquet, `{row}`"
    yield Aim(what, 18, "{:.1f} s", _key("file-to-vectors", "web-Google", row, "best_s"))
    yield Aim("the same, peak memory", 1.5, "{:.1f} GB", _peak_gb(row))


def _step(dataset: str) -> Callable[[Measurements], float | None]:
    return _key("training-step", dataset, "ours, within", "best_ms", threads=1)


AIMS = (
    Aim("training step, Cora, one thread", 25, "{:.1f} ms", _step("cora")),
    Aim("training step, Pubmed, one thread", 50, "{:.1f} ms", _step("pubmed")),
    Aim("sampler, ca-AstroPh, one thread", 100, "{:.0f} M edges/s", _sampler("ca-AstroPh"), True),
    Aim("sampler, web-Google, one thread", 50, "{:.0f} M edges/s", _sampler("web-Google"), True),
    *_aims_of_mean(64),
    *_aims_of_mean(192),
    *_aims_of_file("rae fit"),
    *_aims_of_file("rae fit --memory 1GiB"),
    Aim("100 M edges, graph folder built, with the start of the process", 120, "{:.1f} s", _with_start(BUILD)),
    Aim(
        "100 M edges, embedded at 256 columns and written, with the start of the process",
        *(240, "{:.1f} s", _with_start(EMBED)),
    ),
    Aim("100 M edges, peak memory of any part", 6, "{:.1f} GiB", _peak_of_largest),
    Aim(
        "growth: seconds for ten times the edges, best by best, the steepest of all parts",
        *(11, "{:.1f} times", lambda lines: steepest(lines, "best_s")),
    ),
    Aim("the same, worst by worst", 11, "{:.1f} times", lambda lines: steepest(lines, "worst_s")),
    Aim("first fit after an installation: longer than the second", 4, "{:.1f} s", _first_fit_extra),
)


# ---------------------------------------------------------------------------------------- the page


def with_bounded_row(lines: Measurements) -> Measurements:
    """The lines, with the bounded way on the largest graph from the growth table as a row of embed-all."""
    line = lines.one("growth", LARGEST, EMBED)
    datasets = {x["dataset"] for x in lines.of("embed-all")}
    if line is None or LARGEST not in datasets or lines.one("embed-all", LARGEST, BOUNDED):
        return lines
    rate = round(2 * line["edges"] * COLUMNS_EMBEDDED / line["best_s"])
    note = "from the growth table: a command of its own, vectors written to Parquet"
    return Measurements(
        [*lines.lines, {**line, "table": "embed-all", "row": BOUNDED, "edge_dims_per_s": rate, "note": note}]
    )


def page(lines: Measurements) -> str:
    """The whole of docs/performance.md."""
    lines = with_bounded_row(lines)
    figure = "figures/growth.png" if lines.of("growth") else None
    drawn = "![Seconds and bytes of the rehearsal over edges, and modelled seconds over hosts](figures/cluster.png)"
    cluster_figure = drawn if lines.of("cluster") else ""
    glance = report.grid(["what", "aim", "measured", ""], [aim.cells(lines) for aim in AIMS])
    parts = [
        report.section("At a glance", glance),
        *(section.text(lines) for section in COMPARED),
        growth(lines, figure),
        *(section.text(lines) for section in MORE),
        gpu(lines),
        cluster_faults(lines),
        cluster_figure,
        old_and_new(lines),
        _losses(lines),
        measurements.machines(lines.lines),
    ]
    return report.page("Performance", "`make bench`", WORDS, parts)


def _losses(lines: Measurements) -> str:
    words = (
        "Every row above in which an alternative is faster or takes less memory. An alternative is compared with the "
        "row of ours that does the same, or with our first; each further row of ours has one entry for all "
        "alternatives."
    )
    entries = report.bullets(measurements.losses(lines, [table for section in COMPARED for table in section.tables]))
    limits = report.listing("Not rows of a table, but true:", LIMITS)
    return report.section("Where we lose", report.paragraph(words), entries or "None of the rows measured.", limits)


def publish(results: Path, docs: Path) -> Path:
    """Write the page and its figure from the lines alone; the page's path."""
    lines = Measurements.read(Ledger(results), TABLES)
    draw(lines, docs)
    return report.write_page(docs / "performance.md", page(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--docs", type=Path, default=DOCS)
    options = parser.parse_args()
    print(f"wrote {publish(options.results, options.docs)}")


if __name__ == "__main__":
    main()
