"""Growth: time and memory of building, training and embedding over the size of the graph.

    python benchmarks/growth.py [--sizes 1e5,1e6,1e7,1e8] [--memory 4GiB] [--threads 2] [--work FOLDER] [--quick]

Power-law graphs with a tenth as many nodes as edges. Each part is a process of its own: `rae graph build`
from Parquet, 200 training steps on the folder (`RAE.fit`, structural features included), and `rae embed` at a
fixed --memory from the folder to Parquet. What a process takes to start is measured on a graph of a hundred edges
and subtracted; the line has both. With --work, graphs, models and the checksum of the vectors of the largest
graph stay there for whole.py and large.py.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from drawn import draw_edges, name
from lines import RESULTS, Line, Lines, spread
from watched import RAE, Spent, watch

from rae.io.graphs import open_graph

BUILD, TRAIN, EMBED = "graph build", "200 training steps", "embed and write"
MEMORY = "4GiB"
BOUNDED = f"ours, --memory {MEMORY}"  # the row of whole.py that EMBED is on the largest graph


def build(edges: Path, folder: Path) -> Spent:
    return watch([*RAE, "graph", "build", edges, "--out", folder, "--force", "--quiet"])


def train(folder: Path, model: Path, steps: int, threads: int) -> Spent:
    return watch([sys.executable, __file__, "--child", folder, model, steps, threads])


def embed(
    model: Path, folder: Path, out: Path, memory: str, threads: int, *, kill_after: float = float("inf")
) -> Spent:
    command = [
        *RAE,
        "embed",
        model,
        folder,
        "--memory",
        memory,
        "--threads",
        threads,
        "--out",
        out,
        "--force",
        "--quiet",
    ]
    return watch(command, kill_after=kill_after)


def child(folder: str, model: str, steps: str, threads: str) -> None:
    """Train on a folder and save the model."""
    import torch

    import rae

    torch.set_num_threads(int(threads))
    rae.set_threads(int(threads))
    rae.RAE(steps=int(steps)).fit(open_graph(folder)).save(model)


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def parts(work: Path, m: int, steps: int, memory: str, threads: int) -> dict[str, Callable[[], Spent]]:
    """The three commands on the graph of m edges, to be called in this order."""
    edges, folder, model = work / f"edges-{m}.parquet", work / f"graph-{m}", work / f"model-{m}.safetensors"
    return {
        BUILD: lambda: build(edges, folder),
        TRAIN: lambda: train(folder, model, steps, threads),
        EMBED: lambda: embed(model, folder, work / f"z-{m}.parquet", memory, threads),
    }


def starting(work: Path, memory: str, threads: int) -> dict[str, Spent]:
    """What each command takes with next to nothing to do: the best of five, since the first may compile."""
    draw_edges(work / "edges-100.parquet", 50, 100)
    best: dict[str, Spent] = {}
    for _ in range(5):
        for part, run in parts(work, 100, 0, memory, threads).items():
            spent = run()
            best[part] = min(best.get(part, spent), spent, key=lambda s: s.seconds)
    return best


def measure(work: Path, m: int, steps: int, rounds: int, memory: str, threads: int) -> dict[str, list[Spent]]:
    """Every part on a graph of m edges, in turns; the graph and the model stay, the vectors and edges go.

    A build takes little longer than a start, so it has two more rounds.
    """
    draw_edges(work / f"edges-{m}.parquet", m // 10, m)
    spent: dict[str, list[Spent]] = {BUILD: [], TRAIN: [], EMBED: []}
    for turn in range(rounds + 2):
        for part, run in parts(work, m, steps, memory, threads).items():
            if part == BUILD or turn < rounds:
                spent[part].append(run())
                print(f"{m:12,} edges  {part:20} {spent[part][-1].seconds:7.1f} s", flush=True)
    (work / f"edges-{m}.parquet").unlink()
    vectors = work / f"z-{m}.parquet"
    told = {"sha256": sha256(vectors), "seconds": spent[EMBED][-1].seconds, "bytes": vectors.stat().st_size}
    (work / f"z-{m}.json").write_text(json.dumps(told))
    vectors.unlink()
    return spent


def line(part: str, spent: list[Spent], start: Spent, m: int, folder: Path) -> Line:
    """Seconds with the start of the process subtracted, and the peak of the whole process."""
    graph = open_graph(folder)
    net = [max(0.0, s.seconds - start.seconds) for s in spent]
    peak = max(s.peak_gib for s in spent)
    return {
        "table": "growth",
        "dataset": name(m),
        "row": part,
        "drawn": m,
        "nodes": graph.n_nodes,
        "edges": graph.n_edges,
        **spread(net),
        "start_s": round(start.seconds, 2),
        "peak_gib": round(peak, 3),
        "start_gib": round(start.peak_gib, 3),
    }


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:6])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1e5,1e6,1e7,1e8")
    parser.add_argument("--memory", default=MEMORY)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument(
        "--work", type=Path, help="folder for some 30 GB that keeps the graphs  [default: none is kept]"
    )
    parser.add_argument(
        "--quick", action="store_true", help="one small graph, two steps, one round, starts not subtracted"
    )
    parser.add_argument("--out", type=Path, default=RESULTS / "growth.jsonl")
    options = parser.parse_args()
    sizes = [10_000] if options.quick else [int(float(s)) for s in options.sizes.split(",")]
    lines = Lines(options.out)
    with tempfile.TemporaryDirectory() as scratch:
        work = options.work or Path(scratch)
        nothing = dict.fromkeys((BUILD, TRAIN, EMBED), Spent(0.0, 0.0, None, ""))
        start = nothing if options.quick else starting(work, options.memory, options.threads)
        for m in sizes:
            rounds = 1 if options.quick or m >= 1e8 else 2 if m >= 1e7 else 3
            spent = measure(work, m, 2 if options.quick else 200, rounds, options.memory, options.threads)
            for part, runs in spent.items():
                found = line(part, runs, start[part], m, work / f"graph-{m}")
                memory = {"memory": options.memory} if part == EMBED else {}
                lines.keep({**found, **memory, "threads": options.threads})


if __name__ == "__main__":
    main()
