"""Kill `rae embed` with -9 half way through a large graph and resume it: are the bytes the same?

    python benchmarks/resume_after_kill.py [--edges 1e8] [--memory 4GiB] [--threads 2] [--work FOLDER] [--quick]

`rae embed --memory` of a power-law graph with a tenth as many nodes as edges. The uninterrupted run is the one that
growth.py has left in --work; without it, it runs now. Then the same command is killed after half the time, given
again, and the two files are compared by SHA-256.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import growth
from measurements import spread
from power_law import graph_folder, name
from recording import all_cores, parser, record

import rae
from rae.graph.folder import checksum


def uninterrupted(work: Path, m: int, memory: str, threads: int) -> dict:
    """Checksum, seconds and bytes of the vectors, as growth.py left them or measured now."""
    facts, model, graph = work / f"z-{m}.json", work / f"model-{m}.safetensors", graph_folder(work, m)
    if not facts.exists():
        rae.RAE(steps=0).fit(rae.open_graph(graph)).save(model)
        vectors = work / f"z-{m}.parquet"
        growth.remove_vectors(vectors, growth.embed(model, graph, vectors, memory, threads).seconds)
    return json.loads(facts.read_text())


def main() -> None:
    arguments = parser(__doc__, "ten thousand edges", threads=all_cores())
    arguments.add_argument("--edges", type=float, default=1e8)
    arguments.add_argument("--memory", default=growth.MEMORY)
    arguments.add_argument("--work", type=Path, help="folder for some 30 GB, best the one of growth.py")
    options = arguments.parse_args()
    m = 10_000 if options.quick else int(options.edges)
    with tempfile.TemporaryDirectory() as scratch:
        work = options.work or Path(scratch)
        whole = uninterrupted(work, m, options.memory, options.threads)
        model, graph, out = work / f"model-{m}.safetensors", work / f"graph-{m}", work / f"again-{m}.parquet"
        command = (model, graph, out, options.memory, options.threads)
        killed = growth.embed(*command, kill_after=whole["seconds"] / 2)
        resumed = growth.embed(*command)
        same = checksum(out) == whole["sha256"]
        out.unlink()
    record(
        *(options.results, "resume-after-kill", name(m), "killed with -9 half way, resumed"),
        {"threads": options.threads, "memory": options.memory},
        **spread([resumed.seconds], digits=1),
        killed_after_s=round(killed.seconds, 1),
        uninterrupted_s=round(whole["seconds"], 1),
        file_gb=round(whole["bytes"] / 1e9, 2),
        peak_gib=round(max(killed.peak_gib, resumed.peak_gib), 2),
        same_bytes=same,
    )
    if not same:
        raise SystemExit("the resumed run gave other bytes")


if __name__ == "__main__":
    main()
