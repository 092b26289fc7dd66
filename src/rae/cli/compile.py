"""`rae compile`: the hot loops for this processor, made once, before anybody waits for them."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from rae.cli.console import Console, global_options
from rae.cli.progress import seconds


@click.command(name="compile", short_help="compile the hot loops now, so that the first fit does not")
@click.option("--types", is_flag=True, hidden=True, help="list the loops found compiled, as kernels/types.txt has them")
@global_options
@click.pass_obj
def compile_(console: Console, types: bool) -> None:
    """Compile rae's hot loops for this processor and keep them beside the program.

    An installation does this already. Where it could not (another processor or version of numba than it was
    made with, no numba while building), they are compiled when first used, which makes the first fit some
    seconds slower than the next. This runs every kind of job once on a tiny graph instead. Nothing else is
    written.

    \b
    rae compile
    """
    began = time.perf_counter()
    jobs: list[Callable[[Path], None]] = [_structure, _features, _folder, _numbers]
    with tempfile.TemporaryDirectory(prefix="rae-") as name, console.progress() as progress:
        for done, job in enumerate(jobs):
            if progress is not None:
                progress("compile", done, len(jobs), {})
            job(Path(name))
    if types:
        from rae.kernels.ahead import asked

        lines = asked()
        console.result("\n".join(lines), {"types": lines})
        return
    spent = time.perf_counter() - began
    console.result(f"compiled in {seconds(spent)}; every fit starts at once now", {"seconds": round(spent, 2)})


def _structure(folder: Path) -> None:
    """From a file of edges to roles, look-alikes and a page."""
    from rae.explore import write_page
    from rae.io import read_edges
    from rae.run import Run

    edges = folder / "edges.csv"
    edges.write_text("source,target\n" + "".join(f"{a},{b}\n" for a, b in _edges()))
    read_edges(edges, as_text=True)
    graph = read_edges(edges)
    model = _model(loss="both").fit(graph)
    run = Run.create(folder / "run", model, graph.id_column, model.transform(graph), graph=graph)
    run.fit_roles(2)
    write_page(run, force=True)


def _features(folder: Path) -> None:
    """Dense and sparse features, in training and in embedding."""
    import numpy as np
    import scipy.sparse as sp

    from rae.graph import Graph

    graph = Graph.from_edges(_edges())
    dense = np.eye(graph.n_nodes, 20, dtype=np.float32)
    for x in (dense, dense.astype(np.float16), sp.csr_array(dense)):
        model = _model().fit(graph, x)
        model.transform(graph, x)
        model.embed_to(folder / "z.parquet", graph, x, memory="2GiB")


def _folder(folder: Path) -> None:
    """A graph folder, in both orders; bounded memory, whole and in halves."""
    from rae.io import build_graph

    for order in ("none", "locality"):
        graph = build_graph(folder / "edges.csv", folder / order, order=order)
        model: Any = _model().fit(graph)
        model.transform(graph)
        for half in (False, True):
            model.embed_to(folder / "z.parquet", graph, memory="2GiB", half=half)


def _numbers(folder: Path) -> None:
    """Graph folders of ids of 32 bits, and of ids that lie far apart."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from rae.io import build_graph

    ends = np.array(_edges()).T
    for name, (source, target) in (("narrow", ends.astype(np.int32)), ("apart", ends << 40)):
        pq.write_table(pa.table({"source": source, "target": target}), folder / f"{name}.parquet")
        build_graph(folder / f"{name}.parquet", folder / name)


def _model(**settings: Any) -> Any:
    from rae.estimator import RAE

    return RAE(dims=(32, 16), fanout=(3, 3), steps=1, **settings)


def _edges() -> list[tuple[int, int]]:
    """A ring of 60 nodes, and chords of all sizes."""
    return [(i, (i + 1) % 60) for i in range(60)] + [(i, i * i % 59) for i in range(60)]
