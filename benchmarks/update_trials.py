"""Is an update what a full pass gives, byte for byte, and does a kill leave the run before or after it?

    python benchmarks/update_trials.py [--sequences 1000] [--kills 200] [--seed 0] [--quick]

A sequence is a random graph of 20 to 150 nodes, without features, with dense ones or with words, fitted and written as
a run, then four updates: edges that come and go, new nodes, features that change, some folded in. After each the run is
opened anew and compared with a full pass over a graph that is built from its edges: ids, vectors, graph, features.
One node that is not there is embedded too. A kill is SIGKILL to a process that updates a run, after a random share of
the time that it takes; the run must then be, byte for byte, the one before or the one after, and take the next update.
"""

from __future__ import annotations

import logging
import os
import signal
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from recording import parser, record

import rae
from rae import updater
from rae.engine import live
from rae.run import Run

UPDATES = 4  # in a sequence
KINDS = ("none", "dense", "words")


def random_edges(rng, n, m):
    pairs = rng.integers(n, size=(m, 2))
    return {(int(min(u, v)), int(max(u, v))) for u, v in pairs if u != v}


def random_features(rng, kind, n):
    if kind == "none":
        return None
    values = rng.normal(size=(n, 6)).astype(np.float32)
    return values if kind == "dense" else sp.csr_array((values > 0.6).astype(np.float32))


def names(edges):
    return [(f"n{u:05d}", f"n{v:05d}") for u, v in sorted(edges)]


def ids_of(rows):
    return pa.array([f"n{u:05d}" for u in rows])


def same(a, b):
    a, b = (m.toarray() if sp.issparse(m) else np.asarray(m) for m in (a, b))
    return a.shape == b.shape and a.tobytes() == b.tobytes()


class Expected:
    """A graph and its features, built from scratch, beside the run that follows it."""

    def __init__(self, rng, n, kind):
        self.rng, self.n, self.kind = rng, n, kind
        self.edges = random_edges(rng, n, int(rng.integers(n // 2, 2 * n)))
        self.features = random_features(rng, kind, n)

    def graph(self):
        return rae.Graph.from_edges(names(self.edges) or [], ids=ids_of(range(self.n)))

    def run(self, folder):
        model = rae.RAE().fit(graph := self.graph(), features=self.features)
        z = model.transform(graph, self.features)
        return Run.create(folder, model, graph.id_column, z, graph=graph, features=self.features,
                          counts={"nodes": self.n, "edges": len(self.edges), "isolated": 0})  # fmt: skip

    def next(self):
        """The arguments of an update, which this graph follows."""
        rng, new = self.rng, int(self.rng.integers(0, 3))
        gone = {edge for edge in sorted(self.edges) if rng.random() < 0.03}
        come = random_edges(rng, self.n + new, int(rng.integers(1, 8))) - self.edges
        come |= {(self.n - 1, self.n + i) for i in range(new)}
        self.edges = (self.edges - gone) | come
        order = sorted(come, key=lambda edge: max(edge))  # new nodes are appended as they come: by their number
        arguments = {"added": names(set()) or [names({edge})[0] for edge in order], "removed": names(gone)}
        if self.features is not None:
            rows = np.unique(np.append(rng.integers(self.n, size=2), np.arange(self.n, self.n + new)))
            values = random_features(rng, self.kind, len(rows))
            arguments["features"] = rae.FeatureTable(ids_of(rows), values)
            whole = sp.lil_matrix((self.n + new, 6), dtype=np.float32)
            whole[: self.n] = self.features
            whole[rows] = values
            self.features = whole.toarray() if self.kind == "dense" else sp.csr_array(whole)
        self.n += new
        return arguments

    def matches(self, run):
        """Whether the run, opened anew, is a full pass over this graph."""
        run, graph = Run.open(run.path), self.graph()
        ids, z = run.embeddings()
        found = run.graph()
        return (
            ids.equals(graph.id_column)
            and same(z, run.model().transform(graph, self.features, units="fit"))
            and found.targets.tolist() == graph.targets.tolist()
            and found.offsets.tolist() == graph.offsets.tolist()
            and (self.features is None or same(run.features(), self.features))
        )

    def matches_new_node(self, run):
        """Whether the vector of a node that is not there yet is the row of a full pass with it."""
        near = self.rng.choice(self.n, size=int(self.rng.integers(0, 5)), replace=False)
        own = random_features(self.rng, self.kind, 1)
        vector = run.embed(neighbours=ids_of(near).to_pylist(), features=own)
        edges = names(self.edges | {(int(v), self.n) for v in near})
        graph = rae.Graph.from_edges(edges, ids=ids_of(range(self.n + 1)))
        features = self.features
        if features is not None:
            features = np.vstack([features, own]) if self.kind == "dense" else sp.csr_array(sp.vstack([features, own]))
        return same(vector, run.model().transform(graph, features, units="fit")[self.n])


def sequence(folder, seed):
    """How many updates and new nodes of one sequence are not what a full pass gives, and how many were folded in."""
    rng = np.random.default_rng([seed, 17])
    expected = Expected(rng, int(rng.integers(20, 150)), KINDS[seed % len(KINDS)])
    run, wrong, folded, in_full = expected.run(folder), 0, 0, 0
    for _ in range(UPDATES):
        done = run.update(**expected.next(), fold=bool(rng.random() < 0.3))
        folded, in_full = folded + done.folded, in_full + done.in_full
        wrong += not expected.matches(run)
    wrong += not expected.matches_new_node(run)
    return wrong, folded, in_full


def kill(folder, seed):
    """ "before", "after", "finished" or what is wrong, for one update that is killed at a random moment."""
    rng = np.random.default_rng([seed, 23])
    expected = Expected(rng, 60, KINDS[seed % len(KINDS)])
    run = expected.run(folder)
    if rng.random() < 0.7:  # else the first update, which also writes the base
        began = time.perf_counter()
        run.update(**expected.next(), fold=bool(rng.random() < 0.3))
        kill.seconds = 0.7 * kill.seconds + 0.3 * 1.3 * (time.perf_counter() - began)
    before = Run.open(run.path).embeddings()
    arguments, fold = expected.next(), bool(rng.random() < 0.5)
    child = os.fork()
    if child == 0:
        Run.open(run.path).update(**arguments, fold=fold)
        os._exit(0)
    time.sleep(float(rng.random()) * kill.seconds)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    ids, z = Run.open(run.path).embeddings()
    if expected.matches(run):
        state = "finished" if os.WIFEXITED(status) else "after"
    elif ids.equals(before[0]) and same(z, before[1]):
        state = "before"
        Run.open(run.path).update(**arguments)
    else:
        return "BETWEEN"
    shown = run.path / "embeddings.parquet"
    current = Run.open(run.path).embeddings()[1]
    if shown.is_file() and not same(rae.read_embeddings(shown)[1], current):
        return "STALE FILE"
    Run.open(run.path).update(**expected.next())
    return state if expected.matches(run) else "WRONG AFTERWARDS"


kill.seconds = 0.25  # that an update takes, about, by those before; one that is killed later has finished


def main() -> None:
    arguments = parser(__doc__, "6 sequences and 4 kills")
    arguments.add_argument("--sequences", type=int, default=1000)
    arguments.add_argument("--kills", type=int, default=200)
    arguments.add_argument("--seed", type=int, default=0)
    options = arguments.parse_args()
    n_sequences, n_kills = (6, 4) if options.quick else (options.sequences, options.kills)
    logging.getLogger("rae").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    rae.set_threads(1)
    updater.FOLD_NUMBERS, live.MOST_SHARE = 0, float("inf")  # small graphs would be folded in, and in full, each time
    wrong = folded = in_full = 0
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(n_sequences):
            with tempfile.TemporaryDirectory(dir=scratch) as folder:
                live.MOST_SHARE = float("inf") if number % 10 else 0.5  # the full pass is taken too
                counts = sequence(Path(folder) / "run", options.seed + number)
            wrong, folded, in_full = wrong + counts[0], folded + counts[1], in_full + counts[2]
        if n_sequences:
            settings = {"sequences": n_sequences, "updates": UPDATES * n_sequences, "seed": options.seed}
            record(options.results, "update-trials", "random graphs", "updates against full passes", settings,
                   wrong=wrong, folded=folded, in_full=in_full)  # fmt: skip
        live.MOST_SHARE = float("inf")
        states: dict[str, int] = {}
        for number in range(n_kills):
            with tempfile.TemporaryDirectory(dir=scratch) as folder:
                state = kill(Path(folder) / "run", options.seed + number)
            states[state] = states.get(state, 0) + 1
        bad = sum(count for state, count in states.items() if state.isupper())
        if n_kills:
            record(options.results, "update-trials", "random graphs", "kill -9 during updates",
                   {"kills": n_kills, "seed": options.seed}, wrong=bad, states=states)  # fmt: skip
    if wrong or bad:
        raise SystemExit(f"{wrong} updates are not what a full pass gives, {bad} kills left something else")


if __name__ == "__main__":
    main()
