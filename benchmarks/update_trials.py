"""Is an update what a full pass gives, byte for byte, and does a kill leave the run before or after it?

    python benchmarks/update_trials.py [--sequences 1000] [--kills 200] [--seed 0] [--edges all] [--quick]

A sequence is a random graph of 20 to 150 nodes, without features, with dense ones or with words, fitted and written as
a run, then four updates: edges that come, go and change, new nodes, features that change, some folded in. After each
the run is opened anew and compared with a full pass over a graph that is built from its edges: ids, vectors, graph,
features. --edges all has in turn edges that are plain, weighted, directed, of kinds, and several of these, with
features averaged by each `mix`; else they are of the form that is named. One node that is not there is embedded too.
A kill is SIGKILL to a process that updates a run, after a random share of the time that it takes; the run must then be,
byte for byte, the one before or the one after, and take the next update.
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
CHANNELS = ("card", "wire", "loan")  # kinds of edges
FORMS = {  # what edges have, and what is averaged along
    "plain": {},
    "weighted": {"weight": True},
    "directed": {"directed": True},
    "kinds": {"kind": True, "mix": "channels"},
    "weighted-directed": {"weight": True, "directed": True, "mix": "directions"},
    "largest": {"weight": True, "directed": True, "doubled": "max"},
    "counted": {"directed": True, "kind": True, "doubled": "count", "mix": "directions"},
    "weighted-directed-kinds": {"weight": True, "directed": True, "kind": True, "mix": "channels"},
}


def random_edges(rng, n, m):
    pairs = rng.integers(n, size=(m, 2))
    return {(int(min(u, v)), int(max(u, v))) for u, v in pairs if u != v}


def random_features(rng, kind, n):
    if kind == "none":
        return None
    values = rng.normal(size=(n, 6)).astype(np.float32)
    return values if kind == "dense" else sp.csr_array((values > 0.6).astype(np.float32))


def name(u):
    return f"n{u:05d}"


def ids_of(rows):
    return pa.array([f"n{u:05d}" for u in rows])


def same(a, b):
    a, b = (m.toarray() if sp.issparse(m) else np.asarray(m) for m in (a, b))
    return a.shape == b.shape and a.tobytes() == b.tobytes()


class Expected:
    """A graph and its features, built from scratch, beside the run that follows it."""

    def __init__(self, rng, n, kind, form="plain"):
        self.rng, self.n, self.kind, self.form = rng, n, kind, FORMS[form]
        self.edges = {}  # {(source, target, kind): weight}
        self.merge(self.rows(random_edges(rng, n, int(rng.integers(n // 2, 2 * n))), n))
        self.features = random_features(rng, kind, n)

    def rows(self, pairs, n_old):
        """Rows of a table of these pairs, new nodes as targets in the order of their numbers."""
        rng, rows = self.rng, []
        for u, v in sorted(pairs, key=lambda pair: (max(pair), pair)):
            if self.form.get("directed") and v < n_old and rng.random() < 0.5:
                u, v = v, u
            kind = CHANNELS[int(rng.integers(len(CHANNELS)))] if self.form.get("kind") else ""
            weight = np.float32(rng.gamma(1.0, 60.0) + 0.01) if self.form.get("weight") else np.float32(1)
            rows.append((u, v, weight, kind))
            if rng.random() < 0.2:
                rows.append((u, v, np.float32(0.5 * weight) if self.form.get("weight") else weight, kind))
        return rows

    def merge(self, rows):
        """Let rows come, by the rule of the form: those of one table first, in double precision."""
        doubled, together = self.form.get("doubled", "add" if self.form.get("weight") else "max"), {}
        for u, v, weight, kind in rows:
            ends = (u, v) if self.form.get("directed") else (min(u, v), max(u, v))
            together.setdefault((*ends, kind), []).append(float(weight))
        for key, weights in together.items():
            old, new = self.edges.get(key, np.float32(0)), np.float32((max if doubled == "max" else sum)(weights))
            self.edges[key] = max(old, new) if doubled == "max" else np.float32(float(old) + float(new))

    def graph(self, edges=None, n=None):
        edges, n = self.edges if edges is None else edges, self.n if n is None else n
        options = {"directed": bool(self.form.get("directed"))}
        if self.form.get("weight") or self.form.get("doubled") == "count":
            options["weight"] = [float(weight) for weight in edges.values()]
        if self.form.get("kind"):
            options["kind"] = [kind for _, _, kind in edges]
        return rae.Graph.from_edges([(name(u), name(v)) for u, v, _ in edges], ids=ids_of(range(n)), **options)

    def run(self, folder):
        settings = {"mix": self.form["mix"]} if "mix" in self.form else {}
        model = rae.RAE(**settings).fit(graph := self.graph(), features=self.features)
        z = model.transform(graph, self.features)
        return Run.create(folder, model, graph.id_column, z, graph=graph, features=self.features,
                          counts={"nodes": self.n, "edges": graph.n_edges, "isolated": 0},
                          reading={k: v for k, v in self.form.items() if k == "doubled"})  # fmt: skip

    def shown(self, row, *, weight=True):
        u, v, value, kind = row
        weights = (float(value),) if weight and self.form.get("weight") else ()
        return (name(u), name(v), *weights, *((kind,) if kind else ()))

    def next(self):
        """The arguments of an update, which this graph follows."""
        rng, new = self.rng, int(self.rng.integers(0, 3))
        gone = [key for key in sorted(self.edges) if rng.random() < 0.03]
        near = {(min(u, v), max(u, v)) for u, v, _ in sorted(self.edges) if rng.random() < 0.03}  # some are there
        pairs = random_edges(rng, self.n + new, int(rng.integers(1, 8))) | (near if self.form else set())
        taken = set() if self.form.get("weight") else {tuple(sorted(key[:2])) for key in gone}
        rows = self.rows((pairs | {(self.n - 1, self.n + i) for i in range(new)}) - taken, self.n)
        for key in gone:
            del self.edges[key]
        self.merge(rows)
        removed = [self.shown((u, v, 0, kind), weight=False) for u, v, kind in gone]
        arguments = {"added": [self.shown(row) for row in rows], "removed": removed}
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
        actual = run.graph()
        return (
            ids.equals(graph.id_column)
            and same(z, run.model().transform(graph, self.features, units="fit", whole=True))
            and actual.targets.tolist() == graph.targets.tolist()
            and all(same(actual.channels[name], channel) for name, channel in graph.channels.items())
            and actual.offsets.tolist() == graph.offsets.tolist()
            and (self.features is None or same(run.features(), self.features))
        )

    def matches_new_node(self, run):
        """Whether the vector of a node that is not there yet is the row of a full pass with it."""
        near = self.rng.choice(self.n, size=int(self.rng.integers(0, 5)), replace=False)
        own = random_features(self.rng, self.kind, 1)
        before, rows = dict(self.edges), self.rows({(int(v), self.n) for v in near}, self.n + 1)
        possible = {"weights": [float(row[2]) for row in rows], "kinds": [row[3] for row in rows]}
        possible["directions"] = ["out" if row[0] == self.n else "in" for row in rows]
        fields = {"weights": "weight", "kinds": "kind", "directions": "directed"}
        new_edges = {name: values for name, values in possible.items() if self.form.get(fields[name])}
        ids = [name(v if u == self.n else u) for u, v, _, _ in rows]
        vector = run.embed(neighbours=ids, features=own, **new_edges)
        self.merge(rows)
        graph, self.edges = self.graph(n=self.n + 1), before
        features = self.features
        if features is not None:
            features = np.vstack([features, own]) if self.kind == "dense" else sp.csr_array(sp.vstack([features, own]))
        return same(vector, run.model().transform(graph, features, units="fit", whole=True)[self.n])


def form_of(edges, seed):
    """The form of the edges of a trial: in turn all of them, each with all kinds of features."""
    return list(FORMS)[seed // len(KINDS) % len(FORMS)] if edges == "all" else edges


def sequence(folder, seed, edges):
    """How many updates and new nodes of one sequence are not what a full pass gives, and how many were folded in."""
    rng = np.random.default_rng([seed, 17])
    expected = Expected(rng, int(rng.integers(20, 150)), KINDS[seed % len(KINDS)], form_of(edges, seed))
    run, wrong, folded, in_full = expected.run(folder), 0, 0, 0
    for _ in range(UPDATES):
        update = run.update(**expected.next(), fold=bool(rng.random() < 0.3))
        folded, in_full = folded + update.folded, in_full + update.in_full
        wrong += not expected.matches(run)
    wrong += not expected.matches_new_node(run)
    return wrong, folded, in_full


def kill(folder, seed, edges):
    """ "before", "after", "finished" or what is wrong, for one update that is killed at a random moment."""
    rng = np.random.default_rng([seed, 23])
    expected = Expected(rng, 60, KINDS[seed % len(KINDS)], form_of(edges, seed))
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
    arguments = parser(__doc__, "8 sequences and 4 kills")
    arguments.add_argument("--sequences", type=int, default=1000)
    arguments.add_argument("--kills", type=int, default=200)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--edges", choices=["all", *FORMS], default="all", help="what edges have beside their ends")
    options = arguments.parse_args()
    n_sequences, n_kills = (8, 4) if options.quick else (options.sequences, options.kills)
    logging.getLogger("rae").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    rae.set_threads(1)
    updater.FOLD_NUMBERS, live.MOST_SHARE = 0, float("inf")  # small graphs would be folded in, and in full, each time
    wrong = folded = in_full = 0
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(n_sequences):
            with tempfile.TemporaryDirectory(dir=scratch) as folder:
                live.MOST_SHARE = float("inf") if number % 10 else 0.5  # the full pass is taken too
                seed = options.seed + number * (len(KINDS) if options.quick else 1)  # every form of edges
                counts = sequence(Path(folder) / "run", seed, options.edges)
            wrong, folded, in_full = wrong + counts[0], folded + counts[1], in_full + counts[2]
        if n_sequences:
            settings = {"sequences": n_sequences, "updates": UPDATES * n_sequences, "seed": options.seed,
                        "edges": options.edges}  # fmt: skip
            record(options.results, "update-trials", "random graphs", "updates against full passes", settings,
                   wrong=wrong, folded=folded, in_full=in_full)  # fmt: skip
        live.MOST_SHARE = float("inf")
        states: dict[str, int] = {}
        for number in range(n_kills):
            with tempfile.TemporaryDirectory(dir=scratch) as folder:
                state = kill(Path(folder) / "run", options.seed + number, options.edges)
            states[state] = states.get(state, 0) + 1
        bad = sum(count for state, count in states.items() if state.isupper())
        if n_kills:
            record(options.results, "update-trials", "random graphs", "kill -9 during updates",
                   {"kills": n_kills, "seed": options.seed, "edges": options.edges},
                   wrong=bad, states=states)  # fmt: skip
    if wrong or bad:
        raise SystemExit(f"{wrong} updates are not what a full pass gives, {bad} kills left something else")


if __name__ == "__main__":
    main()
