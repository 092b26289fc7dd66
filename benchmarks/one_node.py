"""One node at a time and a few edges at a time on web-Google: milliseconds, in a warm process.

    RAE_DATA=... python benchmarks/one_node.py [--run FOLDER] [--nodes 400] [--rounds 5] [--quick]

A new node has the neighbours of a node of the graph, drawn uniformly: what `run.embed` takes, as wall-clock and as CPU
time of its thread; hubs among the neighbours are shown apart. `model.transform(graph, nodes=[one])` computes the
surroundings of a node from the graph alone. Updates are 100 edges, half of them added, half removed, between nodes
with at most 300 nodes up to five edges away (without hubs), and between any nodes, also where a full pass is forced;
and one edge at the largest hub.
A sample of the vectors is compared with full passes, byte for byte. --run is a run of web-Google to use, else one is
fitted in a temporary folder.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from measurements import spread
from recording import parser, record, web_google

import rae
from rae.engine import live
from rae.run import Run

WITHOUT_HUBS = 300  # nodes up to five edges away, at most
HUB = 1000  # neighbours


def percentiles(seconds):
    ms = np.array(seconds) * 1000
    names = ("p50_ms", "p90_ms", "p99_ms", "max_ms")
    return {name: round(float(np.percentile(ms, p)), 3) for name, p in zip(names, (50, 90, 99, 100), strict=True)}


def timed(calls):
    """What each call takes, wall-clock and CPU time of this thread."""
    wall, cpu = [], []
    for call in calls:
        began, before = time.perf_counter(), time.thread_time()
        call()
        wall.append(time.perf_counter() - began)
        cpu.append(time.thread_time() - before)
    cpu_ms = {f"cpu_{name}": value for name, value in percentiles(cpu).items()}
    return percentiles(wall) | cpu_ms | {"calls": len(wall)}


def new_nodes(run, graph, rng, count):
    """Neighbour lists of nodes of the graph: those without a hub, and those with one."""
    lists = [graph.neighbors(int(u)) for u in rng.integers(graph.n_nodes, size=count)]
    return [graph.ids[row].tolist() for row in lists], [int(graph.degrees[row].max()) for row in lists if len(row)]


def surroundings(rows, u, hops, most):
    """Nodes up to `hops` edges away, None if there are more than `most`."""
    near = np.array([u])
    for _ in range(hops):
        near = rows.spread(near, also=near)
        if len(near) > most:
            return None
    return near


def edges_between(rows, graph, rng, nodes, count=50):
    """Edges to add between these nodes, and edges of theirs to remove."""
    pick = rng.permutation(nodes)
    added = {(min(u, v), max(u, v)) for u, v in zip(pick[:count], pick[count : 2 * count], strict=True) if u != v}
    removed = set()
    for u in pick[2 * count :]:
        row = rows.lists([u])[1]
        if len(row) and len(removed) < count:
            v = int(row[rng.integers(len(row))])
            removed.add((min(int(u), v), max(int(u), v)))
    there = {(u, v) for u, v in added if v in rows.lists([u])[1]}
    return [
        [(ids_of(graph, u), ids_of(graph, v)) for u, v in sorted(edges)] for edges in (added - there, removed - added)
    ]


def ids_of(graph, row):
    return graph.id_column[int(row)].as_py()


def main() -> None:
    arguments = parser(__doc__, "a random graph of 2,000 nodes, few calls", rounds=5)
    arguments.add_argument("--run", type=Path, help="a run of web-Google, which is updated")
    arguments.add_argument("--nodes", type=int, default=400)
    arguments.add_argument("--no-updates", action="store_true", help="measure single nodes alone")
    options = arguments.parse_args()
    name, rng = "random, 2,000 nodes" if options.quick else "web-Google", np.random.default_rng(7)
    count, rounds = (20, 2) if options.quick else (options.nodes, options.rounds)
    with tempfile.TemporaryDirectory() as scratch:
        if options.quick:
            start = rae.Graph.from_edges(rng.integers(2000, size=(2600, 2)))
        elif options.run is None:
            start = rae.read_edges(web_google())
        run = Run.open(options.run) if options.run else rae.fit_run(start, out=Path(scratch) / "run", page=False)
        began = time.perf_counter()
        run.update()  # writes what each level averages, the first time
        first = time.perf_counter() - began
        graph, model = run.graph(), run.model()
        run.embed(neighbours=[])
        lists, largest = new_nodes(run, graph, rng, count)
        settings = {"threads": 1}
        with_hub = [ids for ids, most in zip(lists, largest, strict=False) if most >= HUB]
        for row, chosen in (("run.embed, a new node", lists), ("run.embed, a hub among its neighbours", with_hub)):
            calls = [lambda ids=ids: run.embed(neighbours=ids) for ids in chosen]
            if calls:
                record(options.results, "one-node", name, row, settings, **timed(calls))
        some = [ids_of(graph, u) for u in rng.integers(graph.n_nodes, size=count)]
        model.transform(graph, nodes=some[:1], units="fit")
        calls = [lambda id=id: model.transform(graph, nodes=[id], units="fit") for id in some]
        record(options.results, "one-node", name, "transform(graph, nodes=[one])", settings, **timed(calls))
        if options.no_updates:
            return
        began, before = time.perf_counter(), time.process_time()
        z = model.transform(rae.Graph(graph.offsets, graph.targets, graph.id_column), units="fit", whole=True)
        record(options.results, "update", name, "a full pass, for comparison", settings,
               **spread([time.perf_counter() - began], digits=2), cpu_s=round(time.process_time() - before, 2),
               moved=graph.n_nodes, first_update_s=round(first, 1))  # fmt: skip
        exact = np.array_equal(model.transform(graph, nodes=some[:50], units="fit"), z[graph.rows(some[:50])])
        rows = run._session.tables.live.rows
        quiet = [
            u
            for u in rng.permutation(graph.n_nodes)[: 10 * count + 8000]
            if surroundings(rows, u, 5, WITHOUT_HUBS) is not None
        ]
        share = round(len(quiet) / (10 * count + 8000), 3)
        any_node = rng.integers(graph.n_nodes, size=400)
        hub = int(np.argmax(graph.degrees))
        kinds = {
            "100 edges, without hubs": quiet,
            "100 edges, any nodes": any_node,
            "1 edge, at the largest hub": None,
            "100 edges, any nodes, in full": any_node,
        }
        most = live.MOST_SHARE
        for row, nodes in kinds.items():
            seconds, cpu, moved, in_full = [], [], [], 0
            live.MOST_SHARE = -1.0 if row.endswith("in full") else most
            for _ in range(rounds):
                if nodes is None:
                    other = int(rng.integers(graph.n_nodes))
                    added, removed = [(ids_of(graph, hub), ids_of(graph, other))], []
                else:
                    added, removed = edges_between(rows, graph, rng, rng.permutation(nodes)[:200])
                before = time.process_time()
                update = run.update(added, removed, fold=False)
                cpu.append(time.process_time() - before)
                if run._session.tables:
                    rows = run._session.tables.live.rows
                else:
                    run.embed(neighbours=[])
                    rows = run._session.tables.live.rows
                seconds.append(update.seconds)
                moved.append(len(update.moved))
                in_full += update.in_full
            record(
                options.results, "update", name, row, settings | {"nodes_without_hubs": share},
                **spread(seconds, digits=3), cpu_s=round(float(np.median(cpu)), 3), moved=int(np.median(moved)),
                in_full=in_full,
            )  # fmt: skip
        now, (_, z) = run.graph(), run.embeddings()
        some = [ids_of(now, u) for u in rng.integers(now.n_nodes, size=200)]
        exact = exact and np.array_equal(z[now.rows(some)], model.transform(now, nodes=some, units="fit"))
        neighbours = lists[0]
        vector = run.embed(neighbours=neighbours)
        ends = np.concatenate([now.edges(), np.stack([now.rows(neighbours), np.full(len(neighbours), now.n_nodes)], 1)])
        grown = rae.Graph.from_edges((ends[:, 0], ends[:, 1]), ids=pa.array(np.arange(now.n_nodes + 1)))
        exact = exact and np.array_equal(
            vector, model.transform(grown, nodes=[now.n_nodes], units="fit", whole=True)[0]
        )
    if not exact:
        raise SystemExit("an updated vector is not that of a full pass")
    print("all compared vectors are those of full passes, byte for byte")


if __name__ == "__main__":
    main()
