"""What the first job after an installation pays for compiling, and the second.

    python benchmarks/first.py [--rounds 3] [--threads 2] [--quick]

The package is installed by pip as anybody would, into a folder, without its dependencies; every round begins with a
copy of that folder that nothing has run in. With RAE_COMPILE=0 the installation compiles nothing ahead. Jobs are
processes of their own on a graph of 34 nodes; seconds of the process are taken outside, those of compiling inside,
the outermost compilations alone. --quick needs no network, compiles nothing ahead and runs the shortest job. JSON
lines go to results/first.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lines import RESULTS, Lines, spread

ROOT = Path(__file__).parent.parent
NEEDED = ("src", "setup.py", "pyproject.toml", "README.md", "LICENSE")

LISTENING = """
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
JOBS = {
    "rae fit": COMMAND.format(words=["fit", "edges.csv", "--out", "run", "--quiet"]),
    "rae fit --features": COMMAND.format(words=["fit", "edges.csv", "--features", "x.csv", "--out", "run", "--quiet"]),
    "RAE().fit, transform": PYTHON,
    "rae graph build": COMMAND.format(words=["graph", "build", "edges.csv", "--out", "graph", "--quiet"]),
}
SHORT = "rae graph build"
SMALL, WITHOUT = "34 nodes", "RAE_COMPILE=0"


@dataclass(frozen=True)
class Spent:
    """What one process took, and what it says it compiled."""

    seconds: float
    compile_s: float
    compiled: int


def install(folder: Path, ahead: bool, isolated: bool) -> float:
    """Install the package into a folder by pip, from a copy of the sources; the seconds that took."""
    with tempfile.TemporaryDirectory() as home:
        leave = shutil.ignore_patterns("__pycache__", "compiled", "*.egg-info")
        for name in NEEDED:
            source, target = ROOT / name, Path(home) / name
            shutil.copytree(source, target, ignore=leave) if source.is_dir() else shutil.copy(source, target)
        options = ["--quiet", "--no-deps", "--target", folder, *([] if isolated else ["--no-build-isolation"])]
        environment = {**os.environ, "RAE_COMPILE": "1" if ahead else "0"}
        began = time.perf_counter()
        subprocess.run([sys.executable, "-m", "pip", "install", *options, home], env=environment, check=True)
        return time.perf_counter() - began


def run(job: str, site: Path, work: Path, threads: int) -> Spent:
    """A job with the package in `site`, in an empty folder but for its input."""
    work.mkdir()
    edges = [(i, j) for i in range(34) for j in ((i + 1) % 34, i * i % 31, (5 * i + 2) % 34)]
    (work / "edges.csv").write_text("source,target\n" + "".join(f"n{i},n{j}\n" for i, j in edges))
    (work / "x.csv").write_text("id,a,b\n" + "".join(f"n{i},{i % 3},{i % 7}\n" for i in range(34)))
    settings = {"PYTHONPATH": str(site), "RAE_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
    settings["OMP_WAIT_POLICY"] = "PASSIVE"  # as the command sets it
    environment = {name: text for name, text in os.environ.items() if name != "NUMBA_CACHE_DIR"} | settings
    call = [sys.executable, "-c", LISTENING.format(job=job)]
    began = time.perf_counter()
    done = subprocess.run(call, cwd=work, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return Spent(time.perf_counter() - began, **json.loads(done.stdout.splitlines()[-1]))


def rounds(job: str, installed: Path, count: int, threads: int) -> tuple[list[Spent], list[Spent]]:
    """The first and the second run of a job after an installation, several times."""
    found: tuple[list[Spent], list[Spent]] = ([], [])
    for _ in range(count):
        with tempfile.TemporaryDirectory() as home:
            site = Path(home) / "site"
            shutil.copytree(installed, site)
            for turn, spent in enumerate(found):
                spent.append(run(job, site, Path(home) / f"work{turn}", threads))
    return found


def line(row: str, threads: int, spent: list[Spent]) -> dict[str, Any]:
    """Best and worst of the whole process, and the worst of what was compiled."""
    worst = {"compile_s": max(x.compile_s for x in spent), "compiled": max(x.compiled for x in spent)}
    seconds = spread([x.seconds for x in spent])
    return {"table": "first", "dataset": SMALL, "row": row, "threads": threads, **worst, **seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--quick", action="store_true", help="one round of one job, without a network")
    parser.add_argument("--out", type=Path, default=RESULTS / "first.jsonl")
    given = parser.parse_args()
    lines, count = Lines(given.out), 1 if given.quick else given.rounds
    with tempfile.TemporaryDirectory() as home:
        for ahead in (False,) if given.quick else (True, False):
            site = Path(home) / ("ahead" if ahead else "plain")
            spent = install(site, ahead, isolated=not given.quick)
            row = {"row": f"pip install --no-deps .{'' if ahead else f', {WITHOUT}'}", **spread([spent])}
            print(lines.keep({"table": "first", "dataset": SMALL, "threads": given.threads, **row}), flush=True)
            for name, job in JOBS.items():
                if given.quick and name != SHORT:
                    continue
                for turn, found in zip(("first", "second"), rounds(job, site, count, given.threads), strict=True):
                    row = f"{name}, {turn}{'' if ahead else f' after {WITHOUT}'}"
                    print(lines.keep(line(row, given.threads, found)), flush=True)


if __name__ == "__main__":
    main()
