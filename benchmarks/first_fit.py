"""What the first job after an installation pays for compiling, and the second.

    python benchmarks/first_fit.py [--rounds 3] [--threads 2] [--quick]

pip installs the package into a folder without its dependencies. Every round begins with an empty Numba cache
(NUMBA_CACHE_DIR is a new folder) and runs each job twice, in processes of their own, on a graph of 34 nodes. Seconds
of the process are measured outside, seconds of compiling inside, the outermost compilations alone. --quick needs no
network and runs the shortest job once.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from recording import all_cores, parser, record

from rae.evaluation.measurements import spread

ROOT = Path(__file__).parent.parent
SOURCES = ("src", "pyproject.toml", "README.md", "LICENSE")
DATASET = "34 nodes"

COUNT_COMPILATIONS = """
import json, sys
from numba.core import event

with event.install_recorder("numba:compile") as recorder:
    {job}
depth, began, spent, count = 0, 0.0, 0.0, 0
for when, one in recorder.buffer:
    depth += 1 if one.is_start else -1
    count += one.is_start
    if one.is_start and depth == 1:
        began = when
    if depth == 0:
        spent += when - began
print(json.dumps({{"compile_s": round(spent, 2), "compiled": count}}))
"""
COMMAND = "from rae.cli import main; code = main({words}); assert code == 0, code"
PYTHON = "import rae; graph = rae.read_edges('edges.csv'); rae.RAE(seed=3).fit(graph).transform(graph)"
SHORTEST_JOB = "rae graph build"
JOBS = {
    "rae fit": COMMAND.format(words=["fit", "edges.csv", "--out", "run", "--quiet"]),
    "rae fit --features": COMMAND.format(words=["fit", "edges.csv", "--features", "x.csv", "--out", "run", "--quiet"]),
    "RAE().fit, transform": PYTHON,
    SHORTEST_JOB: COMMAND.format(words=["graph", "build", "edges.csv", "--out", "graph", "--quiet"]),
}


@dataclass(frozen=True)
class Job:
    """Seconds of one process, and what it compiled."""

    seconds: float
    compile_s: float
    compiled: int


def install(folder: Path, isolated: bool) -> float:
    """Install the package into a folder by pip, from a copy of the sources; the seconds that took."""
    with tempfile.TemporaryDirectory() as home:
        for name in SOURCES:
            source, target = ROOT / name, Path(home) / name
            skip = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(source, target, ignore=skip) if source.is_dir() else shutil.copy(source, target)
        options = ["--quiet", "--no-deps", "--target", folder, *([] if isolated else ["--no-build-isolation"])]
        began = time.perf_counter()
        subprocess.run([sys.executable, "-m", "pip", "install", *options, home], check=True)
        return time.perf_counter() - began


def run_job(code: str, site: Path, cache: Path, threads: int) -> Job:
    """Run a job with the package in `site` and this Numba cache, in a folder that holds its input alone."""
    edges = [(i, j) for i in range(34) for j in ((i + 1) % 34, i * i % 31, (5 * i + 2) % 34)]
    environment = {
        **os.environ,
        "PYTHONPATH": str(site),
        "NUMBA_CACHE_DIR": str(cache),
        "RAE_THREADS": str(threads),
        "OMP_NUM_THREADS": str(threads),
        "OMP_WAIT_POLICY": "PASSIVE",  # as the command sets it
    }
    with tempfile.TemporaryDirectory() as work:
        (Path(work) / "edges.csv").write_text("source,target\n" + "".join(f"n{i},n{j}\n" for i, j in edges))
        (Path(work) / "x.csv").write_text("id,a,b\n" + "".join(f"n{i},{i % 3},{i % 7}\n" for i in range(34)))
        command = [sys.executable, "-c", COUNT_COMPILATIONS.format(job=code)]
        began = time.perf_counter()
        done = subprocess.run(command, cwd=work, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return Job(time.perf_counter() - began, **json.loads(done.stdout.splitlines()[-1]))


def run_twice(code: str, site: Path, rounds: int, threads: int) -> dict[str, list[Job]]:
    """The first and the second run of a job after an installation, several times."""
    turns: dict[str, list[Job]] = {"first": [], "second": []}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as cache:
            for jobs in turns.values():
                jobs.append(run_job(code, site, Path(cache), threads))
    return turns


def main() -> None:
    arguments = parser(__doc__, "one round of one job, without a network", threads=all_cores(), rounds=3)
    options = arguments.parse_args()
    settings = {"threads": options.threads}
    with tempfile.TemporaryDirectory() as site:
        seconds = install(Path(site), isolated=not options.quick)
        record(options.results, "first-fit", DATASET, "pip install --no-deps .", settings, **spread([seconds]))
        for name, code in JOBS.items():
            if options.quick and name != SHORTEST_JOB:
                continue
            turns = run_twice(code, Path(site), 1 if options.quick else options.rounds, options.threads)
            for turn, jobs in turns.items():
                worst = {key: max(getattr(job, key) for job in jobs) for key in ("compile_s", "compiled")}
                numbers = {**worst, **spread([job.seconds for job in jobs])}
                record(options.results, "first-fit", DATASET, f"{name}, {turn}", settings, **numbers)


if __name__ == "__main__":
    main()
