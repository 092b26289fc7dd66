"""From web-Google's gzipped text to vectors of all its nodes in Parquet: ours, node2vec, Cleora and RolX.

    RAE_DATA=... python benchmarks/file_to_vectors.py [--limit 600] [--rounds 3] [--only ROW ...] [--quick]

Every way is its own process, which starts from the same file and ends with a Parquet file of ids and vectors; seconds
are those of the whole process, imports included. All ways run once, in turns; those that took less than two minutes
run twice more, in turns again. A way that is not done after --limit seconds, or that holds over 20 GiB, is stopped,
and its line says how far it got. The peak is VmHWM of the process; none of
them starts others. `embedded_s` is the time to the vectors without the program's start and the writing; ours
are written while they are computed, so it has none.

Ours is `rae fit` with 200 steps and 256 columns. The others are in a separate environment (install_alternatives.py):

node2vec is PecanPy, 10 walks of 80 nodes, window 10 and one epoch as in the paper, 256 columns, p = q = 1, for
which it has a mode that draws neighbours without weights: any other p and q take longer. Its walks are compiled,
its training is gensim's, which tells how far it is. GRAPE, all of it compiled, took a quarter less processor time
on 8,000 rows of the file with the same settings (19 s and 26 s, start and compilation included): hundreds of
times that cut are beyond the limit for both, and it brings 80 packages. fastnode2vec and nodevectors train by gensim
too; PyTorch Geometric's Node2Vec needs pyg-lib or torch-cluster, which have no wheels for this torch.

Cleora is pycleora 3: `embed` as it is (40 iterations, whitened after each) and, as in the example of its
second version, three iterations without whitening. It learns nothing, and doubled edges count twice.

RolX is graphrole: recursive features, then roles by factorisation, as many as it chooses (eight at most).
"""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pyarrow.parquet as pq
from install_alternatives import install_methods, methods_python, pinned
from measurements import spread
from processes import RAE, CommandError, ProcessResult, run_process
from recording import parser, record, web_google

from rae.evaluation.ledger import Line

HERE = Path(__file__).parent
REPEAT_SECONDS = 120.0  # a way that took longer runs once
MAX_GIB = 20.0
QUICK_ROWS = 300


@dataclass(frozen=True)
class Way:
    """A row of the table: a method by its name in other_methods.py, or our own command with these options."""

    row: str
    method: str | None = None
    options: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    note: str = ""


WAYS = (
    Way("rae fit"),
    Way("rae fit --memory 1GiB", options=("--memory", "1GiB")),
    Way(
        "Cleora, 3 iterations",
        "cleora-short",
        packages=("pycleora", "numpy"),
        note="no training, not whitened: the example of pycleora 2",
    ),
    Way(
        "Cleora, 40 iterations",
        "cleora",
        packages=("pycleora", "numpy"),
        note="no training, whitened after each iteration: pycleora's default",
    ),
    Way("node2vec (PecanPy)", "node2vec", packages=("pecanpy", "gensim", "numpy", "numba")),
    Way("RolX (graphrole)", "rolx", packages=("graphrole", "networkx", "numpy", "pandas")),
)


@dataclass(frozen=True)
class Comparison:
    """The settings that all ways share."""

    edges: Path
    dataset: str
    threads: int = 2
    steps: int = 200
    limit: float = 600.0

    def run(self, way: Way, work: Path) -> tuple[ProcessResult | None, Line]:
        """Run a way once: its process, None if it failed by itself, and further fields of its line."""
        out, progress = work / "z.parquet", work / "progress.jsonl"
        for path in (out, progress):
            path.unlink(missing_ok=True)
        try:
            command = self._command(way, out, progress)
            result = run_process(command, max_seconds=self.limit, max_gib=MAX_GIB)
        except CommandError as error:
            last = str(error).strip().splitlines()[-1]
            return None, {"note": "; ".join(filter(None, [stages_text(read_stages(progress)), f"failed: {last}"]))}
        if result.stopped:
            return result, {"note": f"{result.stopped}: {stages_text(read_stages(progress)) or 'nothing done'}"}
        return result, self._finished(way, out, progress)

    def _command(self, way: Way, out: Path, progress: Path) -> list[object]:
        shared = [f"{name}={self.threads}" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")]
        if way.method is not None:
            call = [methods_python(), HERE / "other_methods.py", way.method, self.edges, out, progress, self.threads]
            return ["env", *shared, *call]
        steps = ["--steps", self.steps, "--threads", self.threads, *way.options]
        call = ["fit", self.edges, "--no-page", "--lean", "--force", "--json", "--quiet", *steps]
        return ["env", *shared, *RAE, *call, "--out", out.with_suffix("")]

    def _finished(self, way: Way, out: Path, progress: Path) -> Line:
        """Nodes and columns of the file, and the time to the vectors where it is known."""
        if way.method is not None:
            embedded = next(line["at"] for line in read_stages(progress) if line["stage"] == "embedded")
            return {"embedded_s": round(embedded, 2), **shape(out)}
        return shape(out.with_suffix("") / "embeddings.parquet")  # written while it is computed


def shape(path: Path) -> Line:
    """Nodes and columns of a file of vectors."""
    file = pq.ParquetFile(path)
    return {"nodes": file.metadata.num_rows, "columns": file.schema_arrow.field("embedding").type.list_size}


def read_stages(path: Path) -> list[Line]:
    """The lines that a method wrote about its progress; an incomplete last line is left out."""
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def stages_text(stages: Sequence[Line]) -> str:
    """How far a method got.

    >>> stages_text([{"stage": "graph", "share": 1.0, "at": 41.2}, {"stage": "the walks", "share": 0.12, "at": 599}])
    'graph after 41 s, 12.0 % of the walks done'
    """
    finished = [f"{line['stage']} after {line['at']:.0f} s" for line in stages if line["share"] == 1.0]
    if stages and stages[-1]["share"] < 1:
        finished.append(f"{100 * stages[-1]['share']:.1f} % of {stages[-1]['stage']} done")
    return ", ".join(finished)


def compare(ways: Sequence[Way], shared: Comparison, rounds: int, work: Path) -> dict[str, Line]:
    """The numbers of each way: all run once, then those that are quick enough again, in turns."""
    runs: dict[str, list[tuple[ProcessResult | None, Line]]] = {way.row: [] for way in ways}
    for number in range(rounds):
        for way in ways:
            if not number or is_quick(runs[way.row][0][0]):
                runs[way.row].append(shared.run(way, work))
    return {way.row: numbers(way, runs[way.row], shared.limit) for way in ways}


def is_quick(result: ProcessResult | None) -> bool:
    return result is not None and result.stopped is None and result.seconds < REPEAT_SECONDS


def numbers(way: Way, runs: Sequence[tuple[ProcessResult | None, Line]], limit: float) -> Line:
    """Best and worst of the runs that finished; if none did, how far the first got."""
    finished = [(result, fields) for result, fields in runs if result is not None and result.stopped is None]
    if finished:
        line = spread([result.seconds for result, _ in finished]) | finished[0][1]
        embedded = [fields["embedded_s"] for _, fields in finished if "embedded_s" in fields]
        line |= {"embedded_s": min(embedded)} if embedded else {}
    else:
        line = {"rounds": len(runs), "limit_s": limit}
    peaks = [result.peak_gib for result, _ in runs if result is not None]
    line |= {"peak_mb": round(max(peaks) * 2**30 / 1e6)} if peaks else {}
    notes = dict.fromkeys(fields["note"] for _, fields in runs if "note" in fields)
    unwritten = f"{line['embedded_s']:.1f} s to the vectors, unwritten" if "embedded_s" in line else ""
    if texts := [text for text in (way.note, unwritten, *notes) if text]:
        line["note"] = "; ".join(texts)
    return line | {"versions": versions(way.packages)}


def versions(packages: Sequence[str]) -> dict[str, str]:
    """The pinned versions of packages of other methods."""
    pins = pinned("other_methods.txt")
    return {name: pins[name] for name in packages}


def first_rows(edges: Path, rows: int, out: Path) -> Path:
    """A gzipped file of the header and the first rows of an edge list."""
    with gzip.open(edges, "rt") as source, gzip.open(out, "wt") as target:
        target.writelines(islice(source, rows + 1))
    return out


def main() -> None:
    arguments = parser(__doc__, f"the first {QUICK_ROWS} rows, two steps, one round", threads=2, rounds=3)
    arguments.add_argument("--limit", type=float, default=600.0, help="seconds after which a way is stopped")
    arguments.add_argument("--edges", type=Path, help="gzipped edge list, tabs, a header  [default: web-Google's]")
    rows = [way.row for way in WAYS]
    arguments.add_argument("--only", nargs="+", metavar="ROW", choices=rows, default=rows, help="these rows alone")
    arguments.add_argument("--work", type=Path, help="folder for a few GB")
    options = arguments.parse_args()
    edges = options.edges or web_google()
    dataset = "web-Google" if options.edges is None else edges.name.split(".")[0]
    error = None if options.quick else install_methods()
    ways = [way for way in WAYS if way.row in options.only]
    installed = [way for way in ways if way.method is None or methods_python()]
    with tempfile.TemporaryDirectory(dir=options.work) as name:
        shared = Comparison(edges, dataset, options.threads, limit=options.limit)
        if options.quick:
            edges, dataset = first_rows(edges, QUICK_ROWS, Path(name) / "edges.txt.gz"), f"{dataset}, {QUICK_ROWS} rows"
            shared = Comparison(edges, dataset, options.threads, steps=2, limit=min(options.limit, 60.0))
        lines = compare(installed, shared, 1 if options.quick else options.rounds, Path(name))
    reason = f"not installed: {error or 'python benchmarks/install_alternatives.py'}"
    for way in ways:
        line = lines.get(way.row, {"rounds": 0, "note": reason})
        record(options.results, "file-to-vectors", dataset, way.row, {"threads": options.threads}, **line)


if __name__ == "__main__":
    main()
