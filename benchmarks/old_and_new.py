"""An older revision and the present tree, every kind of row of `make bench`, in turns in one run.

    RAE_DATA=... python benchmarks/old_and_new.py --old REVISION [--only TABLE ...] [--rounds 3]
        [--environments FOLDER] [--work FOLDER] [--quick]

Each version is installed by pip into an environment of its own, with the versions that its constraints.txt pins. Both
get the same input, the same settings (those of the trained model, by name: the exact one is younger) and the same
jobs (old_and_new_jobs.py) or commands, each in a fresh process, and each version has its own folder of graphs, models
and runs. Turns change their order from round to round. A job of which a row is more than 5 % slower has as many
rounds again, of both versions.

The main number is CPU time, user and system, since other work on the machine disturbs it least; then seconds, then
peak memory. Ratios are new to old, of the best of all rounds (of the largest peaks): below 1 the new one is better.
Sizes are those of `make bench`, but for the graph of 100 million edges and the run of a million nodes, which are left
out or smaller so that a whole run takes half an hour of two cores. --quick compares the present environment with
itself on small graphs.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from first_fit import write_small_graph
from graph_build import skewed_edges
from power_law import draw_edges, name
from processes import CommandError, ProcessResult, run_process
from recording import all_cores, parser, record, web_google

from rae.evaluation.ledger import Ledger, Line
from rae.graph.folder import checksum

HERE, ROOT = Path(__file__).parent, Path(__file__).parent.parent
TABLE = "old-and-new"
SLOWER = 1.05  # a ratio above this is named
JOB_SECONDS, MOST_ROUNDS = 15.0, 8  # short jobs have further rounds, up to so many seconds or rounds
LONG_SECONDS = 30.0  # a job that takes longer for both versions has two rounds
MEMORY, TINY = "4GiB", 100


@dataclass(frozen=True)
class Version:
    """An installed version of the package, and the folder of what it builds."""

    label: str
    python: Path
    home: Path
    sources: Path

    def command(self, words: Iterable[object], threads: int, **environment: str) -> list[object]:
        """A command of this version: `{home}` in a word is its folder."""
        variables = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "RAE_THREADS")
        settings = {**dict.fromkeys(variables, str(threads)), "OMP_WAIT_POLICY": "PASSIVE", **environment}
        clean = [] if "PYTHONPATH" in environment or self.sources == ROOT else ["-u", "PYTHONPATH"]
        assigned = [f"{key}={value}" for key, value in settings.items()]
        return ["env", *clean, *assigned, self.python, *(str(word).format(home=self.home) for word in words)]


@dataclass(frozen=True)
class Sample:
    """What a row took in one round."""

    cpu_s: float
    seconds: float
    peak_gib: float


Samples = dict[str, list[Sample]]
Words = tuple[object, ...]


@dataclass(frozen=True)
class Job:
    """Rows that one process, or a few that belong together, measures for a version; `needs` are jobs done before."""

    table: str
    dataset: str
    threads: int
    measure: Callable[[Version], Samples]
    needs: tuple[Words, ...] = ()


# ------------------------------------------------------------------------------------ kinds of jobs


def sample(result: ProcessResult) -> Sample:
    return Sample(result.cpu_s, result.seconds, result.peak_gib)


def job_words(job: str, threads: int, *words: object) -> Words:
    return (HERE / "old_and_new_jobs.py", job, threads, *words)


def command(row: str, threads: int, *words: object) -> Callable[[Version], Samples]:
    """A whole process is the row."""
    return lambda version: {row: [sample(run_process(version.command(words, threads)))]}


def rae_command(row: str, threads: int, *words: object) -> Callable[[Version], Samples]:
    return command(row, threads, "-m", "rae", *words)


def parts(threads: int, job: str, *words: object, rename: str = "") -> Callable[[Version], Samples]:
    """The parts that a job times itself are the rows; the peak is that of the process."""

    def measure(version: Version) -> Samples:
        result = run_process(version.command(job_words(job, threads, *words), threads))
        return {rename or row: [Sample(*pair, result.peak_gib) for pair in pairs] for row, pairs in result.json.items()}

    return measure


def resumed(threads: int, *words: object) -> Callable[[Version], Samples]:
    """A command killed half way and given again, both together; its file must be that of an uninterrupted one."""

    def measure(version: Version) -> Samples:
        whole, again = version.home / "whole.parquet", version.home / "again.parquet"
        first = run_process(version.command((*words, "--out", whole), threads))
        killed = run_process(version.command((*words, "--out", again), threads), kill_after=first.seconds / 2)
        last = run_process(version.command((*words, "--out", again), threads))
        if checksum(whole) != checksum(again):
            raise SystemExit(f"{version.label}: the resumed run gave other bytes")
        both = Sample(killed.cpu_s + last.cpu_s, killed.seconds + last.seconds, max(killed.peak_gib, last.peak_gib))
        return {"uninterrupted": [sample(first)], "killed half way and resumed": [both]}

    return measure


def after_install(threads: int) -> Callable[[Version], Samples]:
    """An installation without dependencies, then each job twice from it."""
    python = "import rae; graph = rae.read_edges('{0}'); rae.RAE(steps=200, seed=3).fit(graph).transform(graph)"

    def measure(version: Version) -> Samples:
        with tempfile.TemporaryDirectory(dir=version.home) as work:
            site, (edges, table) = Path(work) / "site", write_small_graph(Path(work))
            sources = shutil.copytree(version.sources, Path(work) / "sources")
            options = ("--quiet", "--no-deps", "--no-build-isolation", "--target", site)
            samples = {"pip install --no-deps .": [run(version, "-m", "pip", "install", *options, sources)]}
            fit = ("-m", "rae", "fit", edges, "--steps", 200, "--quiet", "--force", "--out", Path(work) / "run")
            jobs: dict[str, Words] = {
                "rae fit": fit,
                "rae fit --features": (*fit, "--features", table),
                "RAE().fit, transform": ("-c", python.format(edges)),
                "rae graph build": ("-m", "rae", "graph", "build", edges, "--quiet", "--force", "--out", f"{work}/g"),
            }
            for row, words in jobs.items():
                fresh = shutil.copytree(site, Path(work) / row.replace(" ", "-"))
                for turn in ("first", "second"):
                    samples[f"{row}, {turn}"] = [run(version, *words, site=fresh)]
        return samples

    def run(version: Version, *words: object, site: Path | None = None) -> Sample:
        environment = {"PYTHONPATH": str(site)} if site else {}
        return sample(run_process(version.command(words, threads, **environment)))

    return measure


# ----------------------------------------------------------------------------------------- the jobs


@dataclass(frozen=True)
class Sizes:
    """What is measured: data sets, sizes and files."""

    training: tuple[str, ...]
    growth: tuple[int, ...]
    embedded: tuple[int, ...]
    planned: tuple[int, ...]
    resumed: int
    nodes: int
    steps: int
    widths: tuple[int, ...]
    threads: int
    quick: bool
    work: Path

    def edges(self, m: int) -> Path:
        """The file of a power-law graph of m edges; it is drawn if it does not exist."""
        path = self.work / f"edges-{m}.parquet"
        return path if path.exists() else draw_edges(path, m // 10 if m > 100 else m // 2, m)

    def public(self) -> dict[str, Path]:
        """Edge files of public graphs by name; of a trial, a drawn one."""
        if self.quick:
            return {name(self.growth[0]): self.edges(self.growth[0])}
        web = web_google()
        return {"web-Google": web, "ca-AstroPh": next((web.parents[1] / "ca-AstroPh").glob("*.gz"))}


def sizes(work: Path, quick: bool, threads: int) -> Sizes:
    if quick:
        return Sizes(("planted-actions",), (2_000,), (2_000,), (2_000,), 2_000, 500, 2, (8,), threads, True, work)
    large = (100_000, 1_000_000, 10_000_000)
    return Sizes(
        *(("cora", "pubmed"), large, large[1:], large[2:], large[2], 250_000, 200, (64, 192), threads, False, work)
    )


def jobs(size: Sizes) -> Iterator[Job]:
    """Every job, about in the order of the steps of `make bench`; the longest is last."""
    yield from training_jobs(size)
    yield from mean_jobs(size)
    yield from growth_jobs(size)
    yield from resume_jobs(size)
    yield from embed_jobs(size)
    yield from build_jobs(size)
    yield from fit_jobs(size)
    yield from run_jobs(size)
    yield from score_jobs(size)
    yield from after_install_jobs(size)


def graph_need(edges: Path, folder: str, *order: str) -> Words:
    return job_words("prepare_graph", 2, edges, folder, *order)


def models_need() -> Words:
    return job_words("prepare_models", 2, "{home}")


def after_install_jobs(size: Sizes) -> Iterator[Job]:
    if not size.quick:  # it needs an installation
        yield Job("first-fit", "34 nodes", size.threads, after_install(size.threads))


def training_jobs(size: Sizes) -> Iterator[Job]:
    for dataset in size.training:
        for threads in (1, 2):
            yield Job("training-step", dataset, threads, parts(threads, "training_step", dataset))


def mean_jobs(size: Sizes) -> Iterator[Job]:
    dataset, edges = next(iter(size.public().items()))
    needs = graph_need(edges, "{home}/web"), graph_need(edges, "{home}/web-local", "locality")
    for threads in (1, 2):
        measure = parts(threads, "neighborhood_mean", "{home}/web", "{home}/web-local", *size.widths)
        yield Job("neighborhood-mean", dataset, threads, measure, needs)


def growth_jobs(size: Sizes) -> Iterator[Job]:
    rows = {"build": "graph build", "train": f"{size.steps} training steps", "embed": "embed and write"}
    tiny = size.edges(TINY)
    for part, row in rows.items():  # each leaves what the next one needs
        words = job_words("growth", size.threads, part, size.threads, size.steps, "{home}", tiny)
        yield Job("growth", "start", size.threads, command(row, size.threads, *words))
    for m in size.growth:
        for part, row in rows.items():
            words = (part, size.threads, size.steps, "{home}", tiny, size.edges(m))
            yield Job("growth", name(m), size.threads, parts(size.threads, "growth", *words, rename=row))


def resume_jobs(size: Sizes) -> Iterator[Job]:
    m, needs = size.resumed, (graph_need(size.edges(size.resumed), "{home}/resumed"), models_need())
    words = ("-m", "rae", "embed", "{home}/structure.safetensors", "{home}/resumed", "--memory", MEMORY)
    measure = resumed(size.threads, *words, "--threads", size.threads, "--force", "--quiet")
    yield Job("resume-after-kill", name(m), size.threads, measure, needs)


def embed_jobs(size: Sizes) -> Iterator[Job]:
    dataset, edges = next(iter(size.public().items()))
    for label, path in {dataset: edges, **{name(m): size.edges(m) for m in size.embedded}}.items():
        folder = "{home}/embedded-" + path.name
        features = job_words("prepare_features", 2, folder, f"{folder}.npy")
        needs = (graph_need(path, folder), features, models_need())
        for words in (("embed_in_memory", "{home}", folder, f"{folder}.npy"), ("embed_bounded", "{home}", folder)):
            yield Job("embed-all", label, size.threads, parts(size.threads, *words), needs)


def build_jobs(size: Sizes) -> Iterator[Job]:
    public, m = size.public(), 1_000 if size.quick else 1_000_000
    drawn = size.work / "skewed.parquet"
    if not drawn.exists():
        skewed_edges(m, drawn)
    for dataset, edges in {next(iter(public)): next(iter(public.values())), f"skewed, {m:,} edges": drawn}.items():
        folder = "{home}/built-" + edges.name
        for way in ("graph build", "graph build --order locality", "open the folder", "read_edges, in memory"):
            words = job_words("graph_build", size.threads, way, edges, folder)
            measure = command(way, size.threads, *words)
            yield Job("graph-build", dataset, size.threads, measure, (graph_need(edges, folder),))
    for dataset, edges in public.items():
        yield Job("neighbor-sampler", dataset, 1, parts(1, "neighbor_sampler", edges))


def fit_jobs(size: Sizes) -> Iterator[Job]:
    options = ("--steps", size.steps, "--threads", size.threads, "--quiet")
    dataset, edges = next(iter(size.public().items()))
    rows = [("file-to-vectors", dataset, edges, "1GiB")]
    rows += [("plan-accuracy", name(m), size.edges(m), "1500MB") for m in size.planned]
    for table, label, path, memory in rows:
        fit = ("fit", path, "--no-page", "--lean", "--force", *options, "--out", "{home}/run")
        if table == "plan-accuracy":
            plan = rae_command("rae plan", size.threads, "plan", path, "--json", *options)
            yield Job(table, label, size.threads, plan)
        yield Job(table, label, size.threads, rae_command("rae fit", size.threads, *fit))
        measure = rae_command(f"rae fit --memory {memory}", size.threads, *fit, "--memory", memory)
        yield Job(table, label, size.threads, measure)


def run_jobs(size: Sizes) -> Iterator[Job]:
    label, needs = f"{size.nodes:,} nodes", (job_words("prepare_runs", 2, "{home}", size.nodes),)
    calls = {"roles": ("{home}/fitted",), "similar": ("{home}/fitted", 17), "explore": ("{home}/planted",)}
    for call, words in calls.items():
        measure = rae_command(f"rae {call}", size.threads, call, *words, "--json", "--quiet")
        yield Job("million-nodes", label, size.threads, measure, needs)


def score_jobs(size: Sizes) -> Iterator[Job]:
    for dataset in ("planted-actions",) if size.quick else ("house", "planted-actions"):
        yield Job("roles", dataset, 1, parts(1, "roles", dataset))
    dataset = "barbell" if size.quick else "cora"
    yield Job("baselines", dataset, 1, parts(1, "baselines", dataset))
    yield Job("variants", size.training[0], 1, parts(1, "variants", size.training[0]))


# ------------------------------------------------------------------------------------- measuring


def measure_in_turns(job: Job, versions: Sequence[Version], rounds: int) -> dict[str, Samples]:
    """The samples of each version by row; short jobs and those with a slower row have more rounds, long ones two."""
    samples: dict[str, Samples] = {version.label: {} for version in versions}
    began = time.perf_counter()
    one_round(job, versions, samples)
    seconds = time.perf_counter() - began
    if rounds > 1:
        rounds = 2 if seconds > LONG_SECONDS else max(rounds, min(MOST_ROUNDS, int(JOB_SECONDS / seconds)))
    more_rounds(job, versions, samples, rounds - 1)
    if rounds > 1 and any(line["cpu_ratio"] > SLOWER for line in compared(samples).values()):
        more_rounds(job, versions, samples, rounds)
    return samples


def more_rounds(job: Job, versions: Sequence[Version], samples: dict[str, Samples], rounds: int) -> None:
    for number in range(rounds):
        one_round(job, versions[:: 1 if number % 2 else -1], samples)


def one_round(job: Job, versions: Sequence[Version], samples: dict[str, Samples]) -> None:
    """Measure the job once with each version, in this order."""
    for version in versions:
        for row, new in job.measure(version).items():
            samples[version.label].setdefault(row, []).extend(new)


def compared(samples: dict[str, Samples]) -> dict[str, Line]:
    """The fields of each row: both versions at their best, and the ratios of new to old."""
    return {row: compare(samples["old"][row], samples["new"][row]) for row in samples["old"]}


def compare(old: Sequence[Sample], new: Sequence[Sample]) -> Line:
    """CPU time and seconds at their best, memory at its largest, and the ratios of new to old.

    >>> line = compare([Sample(2, 4, 1), Sample(3, 3, 1)], [Sample(1, 3, 2)])
    >>> line["cpu_ratio"], line["ratio"], line["peak_ratio"]
    (0.5, 1.0, 2.0)
    """
    medians = [statistics.median(x.cpu_s for x in side) for side in (old, new)]
    line: Line = {"samples": len(old), "cpu_median_ratio": round(medians[1] / max(medians[0], 1e-9), 3)}
    for field, ratio, best in (("cpu_s", "cpu_ratio", min), ("seconds", "ratio", min), ("peak_gib", "peak_ratio", max)):
        values = [best(getattr(x, field) for x in side) for side in (old, new)]
        line |= {f"old_{field}": significant(values[0]), f"new_{field}": significant(values[1])}
        line[ratio] = round(values[1] / max(values[0], 1e-9), 3)
    return line


def significant(value: float) -> float:
    return float(f"{value:.4g}")


def measure_all(options: object, versions: Sequence[Version], all_jobs: Iterable[Job], revisions: Line) -> list[str]:
    """Measure and record every job, and print the rows that are more than 5 % slower; the jobs that failed."""
    ledger: Ledger = options.results
    prepared: set[Words] = set()
    slower, failed, ratios = [], [], []
    for job in all_jobs:
        if options.only and job.table not in options.only:
            continue
        try:
            for words in [words for words in job.needs if words not in prepared]:
                for version in versions:
                    run_process(version.command(words, 2))
                prepared.add(words)
            lines = compared(measure_in_turns(job, versions, options.rounds))
        except CommandError as error:
            print(error, file=sys.stderr)
            failed.append(f"{job.table}: {job.dataset}")
            continue
        for row, line in lines.items():
            settings = {"threads": job.threads, "old": revisions["old"]}
            record(ledger, TABLE, f"{job.table}: {job.dataset}", row, settings, **line, new=revisions["new"])
            ratios.append(line["cpu_ratio"])
            if line["cpu_ratio"] > SLOWER:
                slower.append(f"{job.table}: {job.dataset}, {row}, {job.threads} threads: {line['cpu_ratio']:.2f}")
    if ratios:
        print(
            f"{len(ratios)} rows, CPU time new to old: median {statistics.median(ratios):.2f}, worst {max(ratios):.2f}"
        )
    print("\n".join([f"more than 5 % slower: {len(slower)}", *slower]))
    return failed


# ---------------------------------------------------------------------------------- environments


def install(label: str, revision: str | None, folder: Path, home: Path) -> Version:
    """A version in an environment of its own; a folder that has the environment already is used again."""
    sources, environment = folder / f"{label}-sources", folder / f"{label}-{revision or 'tree'}"
    shutil.rmtree(sources, ignore_errors=True)
    sources.mkdir(parents=True)
    check_out(revision, sources)
    python = environment / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if not (environment / "complete").exists():
        print(f"{label}: installing {revision or 'the present tree'}", flush=True)
        quietly([sys.executable, "-m", "venv", "--clear", environment])
        quietly([*pip, "-c", sources / "constraints.txt", sources, "gensim", "setuptools>=77"])
        (environment / "complete").touch()
    elif revision is None:  # it may have changed
        quietly([*pip, "--no-deps", "--no-build-isolation", "--force-reinstall", sources])
    home.mkdir(parents=True, exist_ok=True)
    return Version(label, python, home, sources)


def quietly(words: Sequence[object]) -> None:
    """Run a command without PYTHONPATH; its words as an error if it fails."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    process = subprocess.run([str(word) for word in words], env=environment, capture_output=True, text=True)
    if process.returncode:
        raise SystemExit(f"{' '.join(map(str, words))} ended with {process.returncode}:\n{process.stderr[-2000:]}")


def check_out(revision: str | None, folder: Path) -> None:
    """Write the files of a revision, or of the present tree as it is, into a folder."""
    if revision is not None:
        archive = subprocess.run(["git", "archive", revision], cwd=ROOT, check=True, capture_output=True).stdout
        subprocess.run(["tar", "x", "-C", folder], input=archive, check=True)
        return
    listed = git(
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
        "src",
        "*.toml",
        "*.txt",
        "*.md",
        "setup.py",
        "LICENSE",
    )
    for path in [path for path in listed.splitlines() if (ROOT / path).is_file()]:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, folder / path)


def git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def present_tree() -> str:
    """The commit of the present tree, and whether its sources have changes."""
    return git("rev-parse", "--short", "HEAD") + (" and changes" if git("status", "--porcelain", "src") else "")


def main() -> None:
    arguments = parser(__doc__, "the present environment and itself, small graphs, one round", rounds=3)
    arguments.add_argument("--threads", type=int, default=all_cores())
    arguments.add_argument("--old", metavar="REVISION", help="the revision to compare the present tree with")
    arguments.add_argument("--only", action="append", metavar="TABLE", help="jobs of this table alone")
    arguments.add_argument(
        "--environments", type=Path, help="folder that keeps both environments  [default: temporary]"
    )
    arguments.add_argument("--work", type=Path, help="folder for some 10 GB  [default: the system's]")
    options = arguments.parse_args()
    if not options.old and not options.quick:
        arguments.error("name the revision to compare with: --old REVISION")
    with tempfile.TemporaryDirectory(dir=options.work) as scratch:
        work = Path(scratch)
        homes = work / "old", work / "new"
        if options.quick:
            options.rounds, revisions = 1, {"old": "the same", "new": "the same"}
            versions = [Version(home.name, Path(sys.executable), home, ROOT) for home in homes]
            for home in homes:
                home.mkdir()
        else:
            folder = (options.environments or work).resolve()
            revisions = {"old": git("rev-parse", "--short", options.old), "new": present_tree()}
            versions = [install("old", revisions["old"], folder, homes[0]), install("new", None, folder, homes[1])]
        failed = measure_all(options, versions, jobs(sizes(work, options.quick, options.threads)), revisions)
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}; the others are measured")


if __name__ == "__main__":
    main()
