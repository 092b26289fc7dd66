"""What Ray costs: processor time of embedding by tasks of Ray on this machine, and by one process.

    python benchmarks/cluster_overhead.py [--edges 1e7] [--work DIR]

The same command, `rae embed RUN GRAPH --out FOLDER/`, with `--ray local` on two workers of one core and without Ray
on two threads, each in a control group, which counts the time of every process that belongs to it. Start-up is the
same on a graph of ten thousand nodes, of which both workers get parts. Needs the right to make control groups.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from cluster import checksum
from power_law import graph_folder, name
from recording import parser, record

TABLE = "cluster-overhead"
ONE, SEVERAL = "one process, 2 threads", "Ray, 2 workers"
SMALL = 100_000  # edges
GROUPS = Path("/sys/fs/cgroup/cpuacct")
USAGE, FILE = "cpuacct.usage", "cgroup.procs"


def cpu_seconds(command: list[str]) -> tuple[float, float]:
    """CPU seconds of a command with all its processes, and the seconds that it took."""
    group = GROUPS / f"rae-{os.getpid()}"
    group.mkdir()
    try:
        began = time.perf_counter()
        subprocess.run(
            ["sh", "-c", f'echo $$ > {group}/{FILE}; exec "$@"', "sh", *command], check=True, stdout=subprocess.DEVNULL
        )
        seconds = time.perf_counter() - began
        while (group / FILE).read_text().strip():  # Ray's own processes end a little later
            time.sleep(0.1)

        return int((group / USAGE).read_text()) / 1e9, seconds
    finally:
        group.rmdir()


def embed(work: Path, graph: Path, row: str) -> tuple[float, float, str]:
    """CPU seconds, seconds, and the checksum of ids and vectors of embedding a graph."""
    out = f"{work}/vectors/"
    how = ["--ray", "local"] if row == SEVERAL else ["--threads", "2", "--memory", "8GiB"]
    words = ["embed", str(work / "run"), str(graph), "--out", out, "--force", "--quiet", *how]
    spent = cpu_seconds([sys.executable, "-m", "rae", *words])
    return *spent, checksum("embed", Path(out))


def main() -> None:
    arguments = parser(__doc__, "a graph of 200,000 edges")
    arguments.add_argument("--edges", type=float, default=1e7)
    arguments.add_argument("--work", type=Path, help="folder that keeps the graph  [default: temporary]")
    options = arguments.parse_args()
    edges = 200_000 if options.quick else int(options.edges)
    if not os.access(GROUPS, os.W_OK):
        raise SystemExit(f"no right to make control groups in {GROUPS}")
    with tempfile.TemporaryDirectory() as scratch:
        work = (options.work or Path(scratch)).resolve()
        work.mkdir(parents=True, exist_ok=True)
        graph, small = graph_folder(work, edges), graph_folder(work, SMALL)
        fit = ["fit", str(small), "--out", str(work / "run"), "--no-page", "--force", "--quiet"]
        subprocess.run([sys.executable, "-m", "rae", *fit], check=True, stdout=subprocess.DEVNULL)
        results: dict[str, Any] = {}
        for row in (ONE, SEVERAL):
            start, start_s, _ = embed(work, small, row)
            cpu, seconds, results[row] = embed(work, graph, row)
            numbers = {"start_cpu_s": start, "start_s": start_s, "cpu_s": cpu, "seconds": seconds}
            results[row, "cpu"] = cpu - start
            numbers["times_cpu"] = results[row, "cpu"] / results[ONE, "cpu"]
            rounded = {key: round(value, 2) for key, value in numbers.items()}
            record(options.results, TABLE, name(edges), row, {}, **rounded, same=results[row] == results[ONE])


if __name__ == "__main__":
    main()
