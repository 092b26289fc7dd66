"""Growth: time and memory of building, training and embedding over the size of the graph.

    python benchmarks/growth.py [--sizes 1e5,1e6,1e7,1e8] [--memory 4GiB] [--threads 2] [--work FOLDER] [--quick]

Power-law graphs with a tenth as many nodes as edges. Each part is a process of its own: `rae graph build`
from Parquet, 200 training steps on the folder (`RAE.fit`, structural features included), and `rae embed` at a
fixed --memory from the folder to Parquet. Timed is what comes after the imports and after the same on a graph of a
hundred edges; what a whole process takes with nothing but that is in the line too. Just before, another process
touches as much memory as a build takes and ends, since a virtual machine may have to ask its host for memory first.
With --work, graphs, models and the checksum of the vectors of the largest graph stay there for whole.py and large.py.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from drawn import draw_edges, name
from lines import RESULTS, Line, Lines, spread
from watched import RAE, Spent, watch

import rae
from rae.cli import program
from rae.graph.folder import open_graph
from rae.memory import available_memory

PARTS = BUILD, TRAIN, EMBED = "graph build", "200 training steps", "embed and write"
MEMORY = "4GiB"
BOUNDED = f"ours, --memory {MEMORY}"  # the row of whole.py that EMBED is on the largest graph


TINY = 100
BYTES_AN_EDGE = 40  # that building takes, with its files


def embed(
    model: Path, folder: Path, out: Path, memory: str, threads: int, *, kill_after: float = float("inf")
) -> Spent:
    """The command that large.py kills."""
    return watch([*RAE, *embedding(model, folder, out, memory, threads)], kill_after=kill_after)


def embedding(model: Path, folder: Path, out: Path, memory: str, threads: object) -> list[str]:
    where = ("--memory", memory, "--threads", threads, "--out", out)
    return [str(word) for word in ("embed", model, folder, *where, "--force", "--quiet")]


def apart(part: str, work: Path, m: int, steps: int, memory: str, threads: int) -> Spent:
    """A part on the graph of m edges, in a process of its own that prints the seconds of the call."""
    return watch([sys.executable, __file__, "--child", part, work, m, steps, memory, threads])


def child(part: str, home: str, m: str, steps: str, memory: str, threads: str) -> None:
    """A part on a graph of a hundred edges, and then timed on the one of m edges."""
    rae.set_threads(int(threads))
    if part != BUILD:  # which has no use for torch
        import torch

        torch.set_num_threads(int(threads))
    call(part, Path(home), TINY, int(steps), memory, threads)
    began = time.perf_counter()
    if int(m) != TINY:
        touch(int(m) * BYTES_AN_EDGE)
        began = time.perf_counter()
        call(part, Path(home), int(m), int(steps), memory, threads)
    print(json.dumps({"seconds": time.perf_counter() - began}))


def touch(size: int) -> None:
    """Let another process write to so much memory, at most half of what is free, and end."""
    size = min(size, (available_memory() or size) // 2)
    code = "import sys, numpy; numpy.empty(int(sys.argv[1]), numpy.uint8)[::4096] = 1"
    subprocess.run([sys.executable, "-c", code, str(size)], check=True)


def call(part: str, work: Path, m: int, steps: int, memory: str, threads: str) -> None:
    edges, folder, model = work / f"edges-{m}.parquet", work / f"graph-{m}", work / f"model-{m}.safetensors"
    if part == TRAIN:
        rae.RAE(steps=steps).fit(open_graph(folder)).save(model)
        return
    out = work / f"z-{m}.parquet"
    building = ["graph", "build", str(edges), "--out", str(folder), "--force", "--quiet"]
    if program.main(building if part == BUILD else embedding(model, folder, out, memory, threads)):
        raise SystemExit(f"{part} failed")


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def starting(work: Path, memory: str, threads: int) -> dict[str, Spent]:
    """What each process takes with next to nothing to do: the best of three, since the first may compile."""
    draw_edges(work / f"edges-{TINY}.parquet", TINY // 2, TINY)
    best: dict[str, Spent] = {}
    for _ in range(3):
        for part in PARTS:
            spent = apart(part, work, TINY, 2, memory, threads)
            best[part] = min(best.get(part, spent), spent, key=lambda s: s.seconds)
    return best


def measure(work: Path, m: int, steps: int, rounds: int, memory: str, threads: int) -> dict[str, list[Spent]]:
    """Every part on a graph of m edges, in turns; the graph and the model stay, the vectors and edges go.

    Builds are quick, so they have four more rounds.
    """
    draw_edges(work / f"edges-{m}.parquet", m // 10, m)
    spent: dict[str, list[Spent]] = {part: [] for part in PARTS}
    for turn in range(rounds + 4):
        for part in PARTS if turn < rounds else (BUILD,):
            spent[part].append(apart(part, work, m, steps, memory, threads))
            print(f"{m:12,} edges  {part:20} {spent[part][-1].found['seconds']:7.2f} s", flush=True)
    (work / f"edges-{m}.parquet").unlink()
    vectors = work / f"z-{m}.parquet"
    told = {"sha256": sha256(vectors), "seconds": spent[EMBED][-1].seconds, "bytes": vectors.stat().st_size}
    (work / f"z-{m}.json").write_text(json.dumps(told))
    vectors.unlink()
    return spent


def line(part: str, spent: list[Spent], start: Spent, m: int, folder: Path) -> Line:
    """Seconds of the call, and the peak of the whole process."""
    graph = open_graph(folder)
    peak = max(s.peak_gib for s in spent)
    return {
        "table": "growth",
        "dataset": name(m),
        "row": part,
        "drawn": m,
        "nodes": graph.n_nodes,
        "edges": graph.n_edges,
        **spread([s.found["seconds"] for s in spent]),
        "start_s": round(start.seconds, 2),
        "peak_gib": round(peak, 3),
        "start_gib": round(start.peak_gib, 3),
    }


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:8])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1e5,1e6,1e7,1e8")
    parser.add_argument("--memory", default=MEMORY)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument(
        "--work", type=Path, help="folder for some 30 GB that keeps the graphs  [default: none is kept]"
    )
    parser.add_argument("--quick", action="store_true", help="one small graph, two steps, one round")
    parser.add_argument("--out", type=Path, default=RESULTS / "growth.jsonl")
    options = parser.parse_args()
    sizes = [10_000] if options.quick else [int(float(s)) for s in options.sizes.split(",")]
    lines = Lines(options.out)
    with tempfile.TemporaryDirectory() as scratch:
        work = options.work or Path(scratch)
        start = starting(work, options.memory, options.threads)
        for m in sizes:
            rounds = 1 if options.quick else 2 if m >= 1e7 else 3
            spent = measure(work, m, 2 if options.quick else 200, rounds, options.memory, options.threads)
            for part, runs in spent.items():
                found = line(part, runs, start[part], m, work / f"graph-{m}")
                memory = {"memory": options.memory} if part == EMBED else {}
                lines.keep({**found, **memory, "threads": options.threads})


if __name__ == "__main__":
    main()
