"""Jobs that old_and_new.py gives to either version of the package, each in its own process.

    python benchmarks/old_and_new_jobs.py JOB THREADS ARGUMENT ...

A job that times its own parts prints one JSON object of them: name -> [[CPU seconds, seconds], ...]. Only names that
both versions have are used, or the one in place of the other where a name has moved; nothing but the standard library
is imported before the job, so that a job timed from outside pays for its own imports. All models are trained ones.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

TURN_SECONDS, TURNS = 0.2, 3  # of a timed call: repeated to fill so much, so many times
STEPS = 10
TILE = 2048  # rows of a tile of means, as embedding takes them
FANOUT = 10
MEMORY = "4GiB"

Pair = tuple[float, float]
Times = dict[str, list[Pair]]


def now() -> Pair:
    """CPU seconds of this process with all its threads, and seconds."""
    return time.process_time(), time.perf_counter()


def since(began: Pair, calls: int = 1) -> Pair:
    ended = now()
    return (ended[0] - began[0]) / calls, (ended[1] - began[1]) / calls


def once(call: Callable[[], Any]) -> list[Pair]:
    """What one call takes."""
    began = now()
    result = call()
    pair = since(began)
    del result
    return [pair]


def repeated(call: Callable[[], Any]) -> list[Pair]:
    """What a call takes after the first one: TURNS times the mean of as many calls as fill TURN_SECONDS."""
    call()
    pairs = []
    for _ in range(TURNS):
        calls, began = 0, now()
        while calls == 0 or since(began)[1] < TURN_SECONDS:
            call()
            calls += 1
        pairs.append(since(began, calls))
    return pairs


# ------------------------------------------------------------------------------- what jobs need


def prepare_graph(edges: str, folder: str, order: str = "") -> None:
    """Build a graph folder."""
    import rae

    rae.build_graph(edges, folder, force=True, **({"order": order} if order else {}))


def prepare_models(home: str) -> None:
    """Write an untrained model of structure, and one of the same weights that is given the features."""
    import rae

    tiny = rae.Graph.from_edges([(0, 1), (1, 2)])
    rae.RAE(steps=0).fit(tiny).save(Path(home) / "structure.safetensors")
    rae.RAE(steps=0).fit(tiny, features=rae.structural_features(tiny)).save(Path(home) / "features.safetensors")


def prepare_features(graph: str, out: str) -> None:
    """Write the structural features of a graph."""
    import numpy as np

    import rae

    np.save(out, rae.structural_features(rae.open_graph(graph)))


def prepare_runs(home: str, nodes: str) -> None:
    """Write a run of a fitted model, and one of planted vectors that has its roles."""
    from large_runs import fitted_run, planted_run

    fitted_run(Path(home) / "fitted", int(nodes))
    planted_run(Path(home) / "planted", int(nodes))


# ------------------------------------------------------------------------- jobs that time themselves


def training_step(dataset: str) -> Times:
    """A step of each loss with the paper's settings, and all nodes embedded."""
    import rae

    data = load(dataset)
    times = {loss: steps(data, rae.PAPER.replace(loss=loss)) for loss in ("within", "neighbor")}
    model = rae.RAE(rae.PAPER, steps=0).fit(data.graph, features=data.features)
    times["embedding every node"] = repeated(lambda: model.transform(data.graph, features=data.features))
    return times


def variants(dataset: str) -> Times:
    """A step with each setting in which the paper and its released code differ."""
    import rae

    data = load(dataset)
    settings: dict[str, dict[str, Any]] = {
        "within, only shuffling": {"shuffled": 1.0},
        "within, rows shuffled": {"shuffle": "rows"},
        "within, project first": {"order": "project_first"},
        "within, relu": {"activation": "relu"},
        "within, structure added": {"add_structure": True},
        "neighbor, negatives may be adjacent": {"loss": "neighbor", "exclude_neighbors": False},
        "neighbor, one projection, input dropout": {"loss": "neighbor", "projections": 1, "input_dropout": 0.5},
    }
    times = {row: steps(data, rae.PAPER.replace(**changes)) for row, changes in settings.items()}
    model = rae.RAE(rae.PAPER, steps=0, inference="sampled").fit(data.graph, features=data.features)
    times["sampled inference of every node"] = repeated(lambda: model.transform(data.graph, features=data.features))
    return times


def load(dataset: str) -> Any:
    import rae

    return rae.datasets.load(dataset, **({"n_nodes": 300, "n_words": 200} if dataset == "planted-actions" else {}))


def steps(data: Any, config: Any) -> list[Pair]:
    """What a step takes as `RAE.fit` takes it, from the end of the first one on; the last one left out."""
    import rae

    pairs = []
    for seed in range(TURNS):
        ends: list[Pair] = []
        model = rae.RAE(config, steps=STEPS + 2, seed=seed)
        model.fit(data.graph, features=data.features, progress=lambda *_, ends=ends: ends.append(now()))
        first, last = ends[0], ends[STEPS]
        pairs.append(((last[0] - first[0]) / STEPS, (last[1] - first[1]) / STEPS))
    return pairs


def neighborhood_mean(plain: str, local: str, *widths: str) -> Times:
    """mean({u} ∪ N(u)) of every node, tile by tile, in two orders of the rows and in half precision."""
    import numpy as np
    import torch

    import rae

    times = {}
    for width in map(int, widths):
        graph = rae.open_graph(plain)
        x = np.random.default_rng(width).random((graph.n_nodes, width), dtype=np.float32)
        x = torch.from_numpy(x).clone()  # torch's arrays begin at a cache line
        half = x.to(torch.float16)
        ways = {"": (graph, x), ", half precision": (graph, half), ", locality order": (rae.open_graph(local), x)}
        for name, (lists, rows) in ways.items():
            times[f"{width} columns{name}"] = repeated(means(lists, rows))
    return times


def means(graph: Any, rows: Any) -> Callable[[], None]:
    """A function that computes all means and keeps none."""
    from rae.runtime import in_ranges

    tile = mean_of_tile(graph.offsets, graph.targets, rows)
    n = graph.n_nodes

    def chunks(first: int, last: int) -> None:
        for a in range(first * TILE, min(last * TILE, n), TILE):
            tile(a, min(a + TILE, n))

    return lambda: in_ranges(chunks, -(-n // TILE))


def mean_of_tile(offsets: Any, targets: Any, rows: Any) -> Callable[[int, int], Any]:
    """The operation, or the kernel that was there before the operations."""
    import numpy as np

    try:
        from rae.ops.gather import mean
    except ImportError:
        from rae.kernels import cpu
        from rae.kernels.hardware import aligned

        table, width = rows.numpy(), rows.shape[1]
        table = table.view(np.uint16) if table.dtype == np.float16 else table
        return lambda a, b: cpu.mean_rows(
            offsets[a : b + 1], targets, table, a, aligned((b - a, width)), 0, b - a
        )  # fmt: skip
    return lambda a, b: mean(rows, offsets[a : b + 1], targets, a)


def neighbor_sampler(edges: str) -> Times:
    """Up to ten neighbours of every node, nodes in random order."""
    import numpy as np

    import rae

    try:
        from rae.model.sampling import sample_neighbors
    except ImportError:
        from rae.sampling import sample_neighbors
    graph = rae.read_edges(edges)
    nodes = np.random.default_rng(0).permutation(np.flatnonzero(graph.degrees))
    return {"sampled": repeated(lambda: sample_neighbors(graph, nodes, FANOUT, np.uint64(7)))}


def embed_in_memory(home: str, graph: str, features: str) -> Times:
    """All nodes embedded from features that are given."""
    import numpy as np

    import rae

    model, tiny = rae.RAE.load(Path(home) / "features.safetensors"), rae.Graph.from_edges([(0, 1), (1, 2)])
    model.transform(tiny, rae.structural_features(tiny))
    lists, x = rae.open_graph(graph), np.load(features)
    return {"in memory": once(lambda: model.transform(lists, x))}


def embed_bounded(home: str, graph: str) -> Times:
    """All nodes embedded in bounded memory and written."""
    import rae

    model, out = rae.RAE.load(Path(home) / "structure.safetensors"), Path(home) / "z.parquet"
    model.embed_to(out, rae.Graph.from_edges([(0, 1), (1, 2)]), memory=MEMORY)
    lists = rae.open_graph(graph)
    return {f"--memory {MEMORY}": once(lambda: model.embed_to(out, lists, memory=MEMORY))}


def growth(part: str, threads: str, n_steps: str, home: str, tiny: str, large: str = "") -> Times:
    """A part of growth.py on a large graph, after the same on a tiny one."""

    def call(edges: str) -> None:
        graph, model, out = (f"{home}/{Path(edges).stem}{end}" for end in ("-graph", ".safetensors", "-z.parquet"))
        if part == "train":
            import rae

            rae.RAE(steps=int(n_steps)).fit(rae.open_graph(graph)).save(model)
            return
        from rae.cli import main

        build = ["graph", "build", edges, "--out", graph]
        embed = ["embed", model, graph, "--memory", MEMORY, "--threads", threads, "--out", out]
        if main([*(build if part == "build" else embed), "--force", "--quiet"]):
            raise SystemExit(f"{part} failed")

    call(tiny)
    return {part: once(lambda: call(large))} if large else {}


def roles(dataset: str) -> Times:
    """The roles of the vectors of a planted graph."""
    import rae

    planted = {"house": {"cycle": 300, "shapes": 100}, "planted-actions": {"groups": 5, "signal": 0.3}}
    data = rae.datasets.load(dataset, **planted[dataset], seed=0)
    z = rae.RAE(steps=100).fit_transform(data.graph, features=data.features)
    return {"rae.Roles().fit": repeated(lambda: rae.Roles().fit(z))}


def baselines(dataset: str) -> Times:
    """Every method of rae.baselines."""
    import rae
    from rae import baselines as methods

    graph = rae.datasets.load(dataset).graph
    walking = ("DeepWalk", "Node2Vec")
    return {
        name: repeated(lambda name=name: getattr(methods, name)(**seed).fit_transform(graph))
        for name in (*walking, "GraphWave", "ReFeX", "Degree")
        if (seed := {"seed": 0} if name in walking else {}) is not None
    }


# -------------------------------------------------------------------- jobs that are timed from outside


def graph_build(way: str, edges: str, folder: str) -> None:
    """A way from an edge file to a graph."""
    import rae

    if way == "read_edges, in memory":
        rae.read_edges(edges)
    elif way == "open the folder":
        rae.open_graph(folder)
    else:
        rae.build_graph(edges, f"{folder}-again", force=True, **({"order": "locality"} if "locality" in way else {}))


JOBS: dict[str, Callable[..., Times | None]] = {
    job.__name__: job
    for job in (
        *(prepare_graph, prepare_models, prepare_features, prepare_runs),
        *(training_step, variants, neighborhood_mean, neighbor_sampler, embed_in_memory, embed_bounded),
        *(growth, roles, baselines, graph_build),
    )
}


def main() -> None:
    job, threads, *words = sys.argv[1:]
    from rae import set_threads

    set_threads(int(threads))
    if job not in ("graph_build", "growth"):  # which have no use for torch, or import it themselves
        import warnings

        import torch

        torch.set_num_threads(int(threads))
        warnings.simplefilter("ignore")  # a dozen steps are no fit
    print(json.dumps(JOBS[job](*words)))


if __name__ == "__main__":
    main()
