"""A large graph, killed with -9 half way through its embedding and continued: are the bytes the same?

    python benchmarks/large.py [--edges 1e8] [--memory 4GiB] [--threads 2] [--work FOLDER] [--quick]

`rae embed --memory` of a power-law graph with a tenth as many nodes as edges. The uninterrupted run is the one
that growth.py has left in --work; without it, it is made now. Then the same command is killed after half
the time, given again, and the two files are compared by SHA-256.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path

import growth
from drawn import folder, name
from lines import RESULTS, Lines

import rae
from rae.graph.folder import open_graph


def uninterrupted(work: Path, m: int, memory: str, threads: int) -> dict:
    """Checksum, seconds and bytes of the vectors, as growth.py left them or made now."""
    told, model, graph = work / f"z-{m}.json", work / f"model-{m}.safetensors", folder(work, m)
    if not told.exists():
        rae.RAE(steps=0).fit(open_graph(graph)).save(model)
        vectors = work / f"z-{m}.parquet"
        spent = growth.embed(model, graph, vectors, memory, threads)
        found = {"sha256": growth.sha256(vectors), "seconds": spent.seconds, "bytes": vectors.stat().st_size}
        told.write_text(json.dumps(found))
        vectors.unlink()
    return json.loads(told.read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", type=float, default=1e8)
    parser.add_argument("--memory", default=growth.MEMORY)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--work", type=Path, help="folder for some 30 GB, best the one of growth.py")
    parser.add_argument("--quick", action="store_true", help="ten thousand edges")
    parser.add_argument("--out", type=Path, default=RESULTS / "large.jsonl")
    options = parser.parse_args()
    m = 10_000 if options.quick else int(options.edges)
    with tempfile.TemporaryDirectory() as scratch:
        work = options.work or Path(scratch)
        whole = uninterrupted(work, m, options.memory, options.threads)
        model, graph, out = work / f"model-{m}.safetensors", work / f"graph-{m}", work / f"again-{m}.parquet"
        call = (model, graph, out, options.memory, options.threads)
        killed = growth.embed(*call, kill_after=whole["seconds"] / 2)
        rest = growth.embed(*call)
        same = growth.sha256(out) == whole["sha256"]
        out.unlink()
    found = {
        "table": "large",
        "dataset": name(m),
        "row": "killed with -9 half way, continued",
        "threads": options.threads,
        "memory": options.memory,
        "best_s": round(rest.seconds, 1),
        "worst_s": round(rest.seconds, 1),
        "rounds": 1,
        "killed_after_s": round(killed.seconds, 1),
        "uninterrupted_s": round(whole["seconds"], 1),
        "file_gb": round(whole["bytes"] / 1e9, 2),
        "peak_gib": round(max(killed.peak_gib, rest.peak_gib), 2),
        "same_bytes": same,
    }
    Lines(options.out).keep(found)
    print(f"killed after {killed.seconds:.1f} s, continued in {rest.seconds:.1f} s, same bytes: {same}", flush=True)
    if not same:
        raise SystemExit("the continued run gave other bytes")


if __name__ == "__main__":
    main()
