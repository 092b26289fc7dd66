"""From web-Google's gzipped text to vectors of all its nodes in Parquet, beside node2vec, Cleora and RolX.

    RAE_DATA=... python benchmarks/peers.py [--limit 600] [--rounds 3] [--threads 2] [--only ROW ...] [--quick]

Every way is a process of its own that starts from the same file and ends with a Parquet file of ids and
vectors; seconds are those of the whole process, imports included. All ways run once, in turns; those that
took less than two minutes run twice more, in turns again. A way that is not done after --limit seconds, or
that holds over 20 GiB, is ended, and its line says how far it got. The peak is VmHWM of the process; none of
them starts others. `embedded_s` is the time to the vectors without the program's start and the writing; ours
are written while they are made, so it has none.

Ours is `rae fit` with 200 steps and 256 columns. The others, in an environment of their own (alternatives.py):

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

import argparse
import gzip
import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pyarrow.parquet as pq
from alternatives import make_peers, peers_python, pinned
from lines import RESULTS, Line, Lines, spread
from watched import RAE, CommandError, Spent, watch

HERE = Path(__file__).parent
AGAIN = 120.0  # a way that took longer is not run again
MOST_GIB = 20.0
CUT = 300  # rows of the quick cut


@dataclass(frozen=True)
class Way:
    """A row of the table: a peer by its name in peer.py, or our own command with these options."""

    row: str
    peer: str | None = None
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
class Race:
    """What all ways share."""

    edges: Path
    dataset: str
    threads: int = 2
    steps: int = 200
    limit: float = 600.0

    def run(self, way: Way, work: Path) -> tuple[Spent | None, Line]:
        """Run it once: what it took, None if it failed by itself, and what is known of how it went."""
        out, told = work / "z.parquet", work / "told.jsonl"
        for left in (out, told):
            left.unlink(missing_ok=True)
        try:
            spent = watch(self._command(way, out, told), most_s=self.limit, most_gib=MOST_GIB)
        except CommandError as error:
            last = str(error).strip().splitlines()[-1]
            return None, {"note": "; ".join(x for x in (progress(told_lines(told)), f"failed: {last}") if x)}
        if spent.stopped:
            return spent, {"note": f"{spent.stopped}: {progress(told_lines(told)) or 'nothing done'}"}
        return spent, self._finished(way, out, told)

    def _command(self, way: Way, out: Path, told: Path) -> list[object]:
        shared = [f"{name}={self.threads}" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")]
        if way.peer is not None:
            call = [peers_python(), HERE / "peer.py", way.peer, self.edges, out, told, self.threads]
            return ["env", *shared, *call]
        steps = ["--steps", self.steps, "--threads", self.threads, *way.options]
        call = ["fit", self.edges, "--no-page", "--lean", "--force", "--json", "--quiet", *steps]
        return ["env", *shared, *RAE, *call, "--out", out.with_suffix("")]

    def _finished(self, way: Way, out: Path, told: Path) -> Line:
        """Nodes and columns as they stand in the file, and the time to the vectors where it can be told apart."""
        if way.peer is not None:
            embedded = next(line["at"] for line in told_lines(told) if line["stage"] == "embedded")
            return {"embedded_s": round(embedded, 2), **shape(out)}
        return shape(out.with_suffix("") / "embeddings.parquet")  # written while it is computed


def shape(path: Path) -> Line:
    """Nodes and columns of a file of vectors."""
    file = pq.ParquetFile(path)
    return {"nodes": file.metadata.num_rows, "columns": file.schema_arrow.field("embedding").type.list_size}


def told_lines(path: Path) -> list[Line]:
    """What a peer told of itself; a last line that was cut off by its end is left out."""
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def progress(told: Sequence[Line]) -> str:
    """How far a peer got.

    >>> progress([{"stage": "graph read", "share": 1.0, "at": 41.2}, {"stage": "the walks", "share": 0.12, "at": 599}])
    'graph read after 41 s, 12.0 % of the walks done'
    """
    done = [f"{line['stage']} after {line['at']:.0f} s" for line in told if line["share"] == 1.0]
    if told and told[-1]["share"] < 1:
        done.append(f"{100 * told[-1]['share']:.1f} % of {told[-1]['stage']} done")
    return ", ".join(done)


def race(ways: Sequence[Way], shared: Race, rounds: int, work: Path) -> list[Line]:
    """A line for each way: all once, then those that are quick enough again, in turns."""
    found: dict[str, list[tuple[Spent | None, Line]]] = {way.row: [] for way in ways}
    for round_ in range(rounds):
        for way in ways:
            if round_ and not quick(found[way.row][0][0]):
                continue
            spent, known = shared.run(way, work)
            found[way.row].append((spent, known))
            print(f"{way.row}: {'failed' if spent is None else f'{spent.seconds:.1f} s'} {known}", flush=True)
    return [line(way, found[way.row], shared) for way in ways]


def quick(spent: Spent | None) -> bool:
    return spent is not None and spent.stopped is None and spent.seconds < AGAIN


def line(way: Way, runs: Sequence[tuple[Spent | None, Line]], shared: Race) -> Line:
    """Best and worst of the runs that finished; if none did, how far the first got."""
    made: Line = {"table": "peers", "dataset": shared.dataset, "row": way.row, "threads": shared.threads}
    finished = [(spent, known) for spent, known in runs if spent is not None and spent.stopped is None]
    if finished:
        made |= spread([spent.seconds for spent, _ in finished]) | finished[0][1]
        inner = [known["embedded_s"] for _, known in finished if "embedded_s" in known]
        made |= {"embedded_s": min(inner)} if inner else {}
    else:
        made |= {"rounds": len(runs), "limit_s": shared.limit}
    peaks = [spent.peak_gib for spent, _ in runs if spent is not None]
    made |= {"peak_mb": round(max(peaks) * 2**30 / 1e6)} if peaks else {}
    notes = dict.fromkeys(known["note"] for _, known in runs if "note" in known)
    whole = f"{made['embedded_s']:.1f} s to the vectors, unwritten" if "embedded_s" in made else ""
    if texts := [text for text in (way.note, whole, *notes) if text]:
        made["note"] = "; ".join(texts)
    return made | {"versions": versions(way.packages)}


def versions(packages: Sequence[str]) -> dict[str, str]:
    """Those of the peers, as pinned."""
    pins = pinned("peers.txt")
    return {name: pins[name] for name in packages}


def cut(edges: Path, rows: int, to: Path) -> Path:
    """The header and the first rows of a gzipped edge list."""
    with gzip.open(edges, "rt") as source, gzip.open(to, "wt") as target:
        target.writelines(islice(source, rows + 1))
    return to


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=float, default=600.0, help="seconds after which a way is ended")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--edges", type=Path, help="gzipped edge list, tabs, a header  [default: web-Google's]")
    parser.add_argument("--only", nargs="+", metavar="ROW", choices=[way.row for way in WAYS], help="these rows alone")
    parser.add_argument("--work", type=Path, help="folder for a few GB")
    parser.add_argument("--quick", action="store_true", help=f"the first {CUT} rows, two steps, one round")
    parser.add_argument("--out", type=Path, default=RESULTS / "peers.jsonl")
    options = parser.parse_args()
    edges = options.edges or Path(os.environ["RAE_DATA"]) / "web-Google" / "web_Google.txt.gz"
    dataset = "web-Google" if options.edges is None else edges.name.split(".")[0]
    missing = None if options.quick else make_peers()
    ways = [way for way in WAYS if options.only is None or way.row in options.only]
    able = [way for way in ways if way.peer is None or peers_python()]
    lines = Lines(options.out)
    with tempfile.TemporaryDirectory(dir=options.work) as name:
        work = Path(name)
        shared = Race(edges, dataset, options.threads, limit=options.limit)
        if options.quick:
            edges = cut(edges, CUT, work / "cut.txt.gz")
            shared = Race(edges, f"{dataset}, {CUT} rows", options.threads, steps=2, limit=min(options.limit, 60.0))
        for made in race(able, shared, 1 if options.quick else options.rounds, work):
            lines.keep(made)
        for way in (way for way in ways if way not in able):
            row = {"table": "peers", "dataset": shared.dataset, "row": way.row, "threads": shared.threads}
            lines.keep(row | {"rounds": 0, "note": f"not installed: {missing or 'python benchmarks/alternatives.py'}"})


if __name__ == "__main__":
    main()
