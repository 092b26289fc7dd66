"""Growth: time and memory of building, training and embedding over the size of the graph.

    python benchmarks/growth.py [--sizes 1e5,1e6,1e7,1e8] [--memory 4GiB] [--threads 2] [--work FOLDER] [--quick]

Power-law graphs with a tenth as many nodes as edges. Each part is its own process: `rae graph build` from Parquet,
200 training steps on the folder (`RAE.fit`, structural features included), and `rae embed` at a fixed --memory from
the folder to Parquet. Timed is what comes after the imports and after the same on a graph of a hundred edges; what a
whole process takes with nothing but that is in the line too. Just before, another process touches as much memory as a
build takes and ends, since a virtual machine may have to ask its host for memory first. With --work, graphs, models
and the checksums of the vectors stay there for embed_all.py and resume_after_kill.py.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from measurements import spread
from power_law import draw_edges, name
from processes import RAE, ProcessResult, run_process
from recording import all_cores, parser, record

import rae
from rae.cli import main as rae_command
from rae.evaluation.ledger import Line
from rae.graph.folder import checksum
from rae.memory import available_memory

PARTS = BUILD, TRAIN, EMBED = "graph build", "200 training steps", "embed and write"
MEMORY = "4GiB"
BOUNDED = f"ours, --memory {MEMORY}"  # the row of embed_all.py that EMBED is on the largest graph
TINY = 100
BYTES_PER_EDGE = 40  # that a build takes, with its files


def embed_command(model: Path, folder: Path, out: Path, memory: str, threads: object) -> list[str]:
    """The words of `rae embed` with a memory budget."""
    options = ("--memory", memory, "--threads", threads, "--out", out)
    return [str(word) for word in ("embed", model, folder, *options, "--force", "--quiet")]


def embed(*arguments: object, kill_after: float = float("inf")) -> ProcessResult:
    """Run `rae embed` with the arguments of embed_command, and kill it after some seconds if given."""
    return run_process([*RAE, *embed_command(*arguments)], kill_after=kill_after)


def run_part(part: str, work: Path, m: int, steps: int, memory: str, threads: int) -> ProcessResult:
    """A part on the graph of m edges, in its own process, which prints the seconds of the call."""
    return run_process([sys.executable, __file__, "--child", part, work, m, steps, memory, threads])


def child(part: str, work: str, m: str, steps: str, memory: str, threads: str) -> None:
    """Run a part on a graph of a hundred edges, then time it on the graph of m edges."""
    rae.set_threads(int(threads))
    if part != BUILD:  # a build does not import torch
        import torch

        torch.set_num_threads(int(threads))
    call(part, Path(work), TINY, int(steps), memory, threads)
    began = time.perf_counter()
    if int(m) != TINY:
        touch_memory(int(m) * BYTES_PER_EDGE)
        began = time.perf_counter()
        call(part, Path(work), int(m), int(steps), memory, threads)
    print(json.dumps({"seconds": time.perf_counter() - began}))


def touch_memory(size: int) -> None:
    """Let another process write to so much memory, at most half of what is free."""
    size = min(size, (available_memory() or size) // 2)
    code = "import sys, numpy; numpy.empty(int(sys.argv[1]), numpy.uint8)[::4096] = 1"
    subprocess.run([sys.executable, "-c", code, str(size)], check=True)


def call(part: str, work: Path, m: int, steps: int, memory: str, threads: str) -> None:
    """Run a part on the graph of m edges in this process."""
    edges, folder, model = work / f"edges-{m}.parquet", work / f"graph-{m}", work / f"model-{m}.safetensors"
    if part == TRAIN:
        rae.RAE(steps=steps).fit(rae.open_graph(folder)).save(model)
        return
    build = ["graph", "build", str(edges), "--out", str(folder), "--force", "--quiet"]
    words = build if part == BUILD else embed_command(model, folder, work / f"z-{m}.parquet", memory, threads)
    if rae_command(words):
        raise SystemExit(f"{part} failed")


def remove_vectors(vectors: Path, seconds: float) -> None:
    """Replace a file of vectors by a JSON file of its checksum, its size and the seconds it took."""
    facts = {"sha256": checksum(vectors), "seconds": seconds, "bytes": vectors.stat().st_size}
    vectors.with_suffix(".json").write_text(json.dumps(facts))
    vectors.unlink()


def start_costs(work: Path, memory: str, threads: int, rounds: int = 3) -> dict[str, ProcessResult]:
    """What each process takes with next to nothing to do: the best of the rounds."""
    draw_edges(work / f"edges-{TINY}.parquet", TINY // 2, TINY)
    best: dict[str, ProcessResult] = {}
    for _ in range(rounds):
        for part in PARTS:
            result = run_part(part, work, TINY, 2, memory, threads)
            best[part] = min(best.get(part, result), result, key=lambda r: r.seconds)
    return best


def measure(work: Path, m: int, steps: int, rounds: int, memory: str, threads: int) -> dict[str, list[ProcessResult]]:
    """Every part on a graph of m edges, in turns; the graph and the model stay.

    Builds are short, so they have four more rounds, but for a single one.
    """
    draw_edges(work / f"edges-{m}.parquet", m // 10, m)
    results: dict[str, list[ProcessResult]] = {part: [] for part in PARTS}
    for turn in range(rounds + 4 if rounds > 1 else 1):
        for part in PARTS if turn < rounds else (BUILD,):
            results[part].append(run_part(part, work, m, steps, memory, threads))
    (work / f"edges-{m}.parquet").unlink()
    remove_vectors(work / f"z-{m}.parquet", results[EMBED][-1].seconds)
    return results


def numbers(results: list[ProcessResult], start: ProcessResult, m: int, folder: Path) -> Line:
    """Seconds of the call, and the peak of the whole process."""
    graph = rae.open_graph(folder)
    return {
        "drawn": m,
        "nodes": graph.n_nodes,
        "edges": graph.n_edges,
        **spread([result.json["seconds"] for result in results]),
        "start_s": round(start.seconds, 2),
        "peak_gib": round(max(result.peak_gib for result in results), 3),
        "start_gib": round(start.peak_gib, 3),
    }


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:8])
        return
    arguments = parser(__doc__, "one small graph, two steps, one round", threads=all_cores())
    arguments.add_argument("--sizes", default="1e5,1e6,1e7,1e8")
    arguments.add_argument("--memory", default=MEMORY)
    arguments.add_argument(
        "--work", type=Path, help="folder for some 30 GB that keeps the graphs  [default: temporary]"
    )
    options = arguments.parse_args()
    sizes = [10_000] if options.quick else [int(float(s)) for s in options.sizes.split(",")]
    with tempfile.TemporaryDirectory() as scratch:
        work = options.work or Path(scratch)
        start = start_costs(work, options.memory, options.threads, 1 if options.quick else 3)
        for m in sizes:
            rounds = 1 if options.quick else 2 if m >= 1e7 else 3
            results = measure(work, m, 2 if options.quick else 200, rounds, options.memory, options.threads)
            for part in PARTS:
                settings = {"threads": options.threads} | ({"memory": options.memory} if part == EMBED else {})
                line = numbers(results[part], start[part], m, work / f"graph-{m}")
                record(options.results, "growth", name(m), part, settings, **line)


if __name__ == "__main__":
    main()
