"""A large graph by the commands a user would type: edges in Parquet to a graph folder to embeddings in Parquet.

    python benchmarks/large.py [--nodes 1e7] [--edges 1e8] [--memory 4GiB] [--work /tmp] [--threads 2]

A power-law graph is drawn into a Parquet file, a piece at a time. `rae graph build` makes the folder; a
model fitted on a small graph of the same kind embeds every node 256 wide; then the same again, killed
with -9 half way and continued, and the two files are compared byte by byte. Seconds by the clock and the
peak resident memory of each command are kept as JSON lines in results/large.jsonl.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

PIECE = 5_000_000
RAE = [sys.executable, "-m", "rae"]


def draw_edges(path: Path, n: int, m: int) -> None:
    """So many edges whose ends fall off as a power law, hubs at random ids; doubles and loops as they come."""
    draw = np.random.default_rng(0)
    place = draw.permutation(n).astype(np.int32)
    power = 3.0  # degrees fall off as degree^-2.5, as in rae.datasets.load("power-law")
    low, high = 10 ** (1 / power), (10 + n) ** (1 / power)
    schema = pa.schema([("source", pa.int32()), ("target", pa.int32())])
    with pq.ParquetWriter(path, schema) as file:
        for start in range(0, m, PIECE):
            uniform = draw.random((2, min(PIECE, m - start)))
            ends = ((low + (high - low) * uniform) ** power - 10).astype(np.int64).clip(0, n - 1)
            file.write_table(pa.table([place[ends[0]], place[ends[1]]], schema=schema))


def timed(command: list[str], *, kill_after: float | None = None) -> tuple[float, float]:
    """Seconds and peak GiB of one command, or of its first part when it is killed."""
    began = time.perf_counter()
    work = subprocess.Popen([*RAE, *command, "--quiet"], stdout=subprocess.DEVNULL)
    peak = 0.0
    while work.poll() is None:
        peak = max(peak, resident_peak(work.pid))
        if kill_after is not None and time.perf_counter() - began > kill_after:
            work.send_signal(signal.SIGKILL)
            work.wait()
            return time.perf_counter() - began, peak
        time.sleep(0.1)
    if work.returncode:
        raise SystemExit(f"rae {' '.join(command)} ended with {work.returncode}")
    return time.perf_counter() - began, peak


def resident_peak(pid: int) -> float:
    """The peak of the process so far, in GiB."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    found = [line.split()[1] for line in text.splitlines() if line.startswith("VmHWM")]
    return int(found[0]) / 2**20 if found else 0.0


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=float, default=1e7)
    parser.add_argument("--edges", type=float, default=1e8)
    parser.add_argument("--memory", default="4GiB")
    parser.add_argument("--order", default="none", choices=("none", "locality"))
    parser.add_argument("--work", type=Path, help="folder for some 20 GB  [default: the system's]")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path, default=Path("results/large.jsonl"))
    options = parser.parse_args()
    n, m = int(options.nodes), int(options.edges)

    def keep(stage: str, seconds: float, peak: float, **more: object) -> None:
        where = {"table": "large", "nodes": n, "edges": m, "order": options.order, "memory": options.memory}
        line = {**where, "stage": stage, "seconds": round(seconds, 1), "peak_gib": round(peak, 2), **more}
        line |= {"threads": options.threads, "load": round(os.getloadavg()[0], 1)}
        with options.out.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(f"{stage:28} {seconds:7.1f} s  {peak:5.2f} GiB  {more or ''}", flush=True)

    with tempfile.TemporaryDirectory(dir=options.work) as name:
        work, threads = Path(name), ["--threads", str(options.threads)]
        draw_edges(work / "edges.parquet", n, m)
        draw_edges(work / "small.parquet", 20_000, 200_000)
        folder, model = str(work / "graph"), str(work / "run")
        timed(["fit", str(work / "small.parquet"), "--out", model, "--no-page"])
        keep(
            "graph build",
            *timed(["graph", "build", str(work / "edges.parquet"), "--out", folder, "--order", options.order]),
        )
        (work / "edges.parquet").unlink()
        embed = ["embed", model, folder, "--memory", options.memory, *threads, "--out"]
        whole, peak = timed([*embed, str(work / "whole.parquet")])
        size = (work / "whole.parquet").stat().st_size
        keep("embed and write", whole, peak, file_gb=round(size / 1e9, 2), edge_dims_per_s=round(2 * m * 256 / whole))
        first = sha256(work / "whole.parquet")
        (work / "whole.parquet").unlink()
        killed, peak = timed([*embed, str(work / "again.parquet")], kill_after=whole / 2)
        rest, peak2 = timed([*embed, str(work / "again.parquet")])
        same = sha256(work / "again.parquet") == first
        keep("killed half way, continued", rest, max(peak, peak2), killed_after=round(killed, 1), same_bytes=same)


if __name__ == "__main__":
    main()
