"""What an installation costs, and the first job after it against the second.

    python benchmarks/first_fit.py [--rounds 3] [--threads 2] [--quick]

Every round compiles the C library as pip would, has pip install the package without its dependencies (it takes the
library as it is), and runs each job twice from a fresh copy of the installed folder, in processes of their own, on a
graph of 34 nodes. --quick needs no network, takes the library of this checkout and runs the shortest job once.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

from measurements import spread
from recording import all_cores, parser, record

ROOT = Path(__file__).parent.parent
SOURCES = ("src", "setup.py", "pyproject.toml", "README.md", "LICENSE")
DATASET = "34 nodes"
COMPILE, INSTALL = "compile the C library", "pip install --no-deps ., the rest"
SHORTEST_JOB = "rae graph build"
RAE = (sys.executable, "-m", "rae")
JOBS = {
    "rae fit": (*RAE, "fit", "edges.csv", "--out", "run", "--quiet"),
    "rae fit --features": (*RAE, "fit", "edges.csv", "--features", "x.csv", "--out", "run", "--quiet"),
    "RAE().fit, transform": (
        *(sys.executable, "-c"),
        "import rae; graph = rae.read_edges('edges.csv'); rae.RAE(seed=3).fit(graph).transform(graph)",
    ),
    SHORTEST_JOB: (*RAE, "graph", "build", "edges.csv", "--out", "graph", "--quiet"),
}


def seconds_of(command: list[object], folder: Path, **environment: str) -> float:
    """The seconds of a command in a folder; an error if it fails."""
    began = time.perf_counter()
    subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return time.perf_counter() - began


def copy_sources(folder: Path) -> None:
    """Copy what an installation needs, without anything compiled."""
    skip = shutil.ignore_patterns("__pycache__", "*.egg-info", "_native*.so")
    folder.mkdir()
    for name in SOURCES:
        source, target = ROOT / name, folder / name
        shutil.copytree(source, target, ignore=skip) if source.is_dir() else shutil.copy(source, target)


def reuse_compiled(sources: Path) -> None:
    """Put the library of this checkout, if it has one, where setuptools looks for one that is up to date."""
    folder = sources / "build" / f"lib.{sysconfig.get_platform()}-{sys.implementation.cache_tag}" / "rae" / "ops"
    folder.mkdir(parents=True)
    for library in (ROOT / "src" / "rae" / "ops").glob("_native*.so"):
        shutil.copy(library, folder)


def install(site: Path, quick: bool) -> dict[str, float]:
    """Seconds of compiling the C library and of the rest of an installation into `site`."""
    options = ["--quiet", "--no-deps", "--target", site, *(["--no-build-isolation"] if quick else [])]
    with tempfile.TemporaryDirectory() as home:
        sources = Path(home) / "sources"
        copy_sources(sources)
        if quick:
            reuse_compiled(sources)
        seconds = {
            COMPILE: seconds_of([sys.executable, "setup.py", "--quiet", "build_ext"], sources),
            INSTALL: seconds_of([sys.executable, "-m", "pip", "install", *options, "."], sources),
        }
    if not list(site.glob("rae/ops/_native*")):
        raise SystemExit("the C library was not compiled: is there a C compiler?")
    return seconds


def write_small_graph(folder: Path) -> tuple[Path, Path]:
    """The files of a graph of 34 nodes and of a table of features."""
    edges, table = folder / "edges.csv", folder / "x.csv"
    pairs = [(i, j) for i in range(34) for j in ((i + 1) % 34, i * i % 31, (5 * i + 2) % 34)]
    edges.write_text("source,target\n" + "".join(f"n{i},n{j}\n" for i, j in pairs))
    table.write_text("id,a,b\n" + "".join(f"n{i},{i % 3},{i % 7}\n" for i in range(34)))
    return edges, table


def run_job(command: tuple[str, ...], site: Path, threads: int) -> float:
    """Seconds of a job with the package in `site`, in a folder that has its input alone."""
    environment = {
        "PYTHONPATH": str(site),
        "RAE_THREADS": str(threads),
        "OMP_NUM_THREADS": str(threads),
        "OMP_WAIT_POLICY": "PASSIVE",  # as the command sets it
    }
    with tempfile.TemporaryDirectory() as work:
        write_small_graph(Path(work))
        return seconds_of([*command], Path(work), **environment)


def main() -> None:
    arguments = parser(__doc__, "one round of one job, without a network", threads=all_cores(), rounds=3)
    options = arguments.parse_args()
    jobs = {SHORTEST_JOB: JOBS[SHORTEST_JOB]} if options.quick else JOBS
    seconds: dict[str, list[float]] = {}
    for _ in range(1 if options.quick else options.rounds):
        with tempfile.TemporaryDirectory() as home:
            turn = install(Path(home) / "site", options.quick)
            for name, command in jobs.items():
                site = shutil.copytree(Path(home) / "site", Path(home) / name.replace(" ", "-"))
                for which in ("first", "second"):
                    turn[f"{name}, {which}"] = run_job(command, site, options.threads)
        for row, value in turn.items():
            seconds.setdefault(row, []).append(value)
    for row, values in seconds.items():
        record(options.results, "first-fit", DATASET, row, {"threads": options.threads}, **spread(values))


if __name__ == "__main__":
    main()
