"""One other method, from a gzipped edge list to vectors in Parquet; file_to_vectors.py runs it in its environment.

    .venv/other_methods/bin/python benchmarks/other_methods.py NAME EDGES OUT PROGRESS THREADS

The file PROGRESS gets a JSON line a stage, so that the stage of a method that is stopped early is known.
"""

from __future__ import annotations

import gzip
import json
import logging
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

WIDTH = 256
WALKS, LENGTH, WINDOW = 10, 80, 10  # per node, and for skip-gram: those of the node2vec paper
REPORT_SECONDS = 2.0  # between two lines about one stage


@dataclass
class ProgressFile:
    """A file of the stages done, by the clock since the packages were imported."""

    path: Path
    began: float = field(default_factory=time.perf_counter)
    last: float = 0.0

    def done(self, stage: str, **more: Any) -> None:
        self._write(stage=stage, share=1.0, **more)

    def update(self, stage: str, share: float) -> None:
        if time.perf_counter() - self.last > REPORT_SECONDS:
            self._write(stage=stage, share=round(share, 4))

    def counted(self, stage: str, total: int, work: Callable[..., Any]) -> Callable[..., Any]:
        """The same function with its calls counted; {} in the stage's name is the number of the pass."""
        calls = 0

        def called(*arguments: Any, **named: Any) -> Any:
            nonlocal calls
            if not calls % 100:
                self.update(stage.format(calls // total + 1), calls % total / total)
            calls += 1
            return work(*arguments, **named)

        return called

    def after(self, stage: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """The same function with its end reported."""

        def called(*arguments: Any) -> Any:
            result = work(*arguments)
            self.done(stage)
            return result

        return called

    def _write(self, **line: Any) -> None:
        self.last = time.perf_counter()
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**line, "at": round(self.last - self.began, 3)}) + "\n")


def node2vec(edges: Path, progress: ProgressFile, threads: int) -> tuple[Any, Any]:
    """PecanPy in the mode that it recommends for p = q = 1, its quickest; read by pandas and SciPy, its own reader
    takes no gzip and goes line by line.
    """
    import numba
    import numpy as np
    import pandas as pd
    import scipy.sparse as sp
    from pecanpy.pecanpy import FirstOrderUnweighted

    progress.began = time.perf_counter()
    numba.set_num_threads(threads)
    codes, ids = pd.factorize(pd.read_csv(edges, sep="\t").to_numpy().ravel(), sort=True)
    source, target = codes.reshape(-1, 2).T
    one_way = sp.coo_array((np.ones(len(source), np.int8), (source, target)), shape=(len(ids),) * 2).tocsr()
    both = (one_way + one_way.T).tocsr()
    both.setdiag(0)
    both.eliminate_zeros()
    both.sort_indices()
    arrays = progress.path.with_suffix(".npz")
    np.savez(arrays, IDs=ids.astype(str), data=both.data, indptr=both.indptr, indices=both.indices)
    graph = FirstOrderUnweighted(p=1, q=1, workers=threads, random_state=0)
    graph.read_npz(str(arrays), weighted=False)
    progress.done("graph")
    graph.simulate_walks = progress.after("walks", graph.simulate_walks)
    _log_progress(progress)
    return ids, graph.embed(dim=WIDTH, num_walks=WALKS, walk_length=LENGTH, window_size=WINDOW, epochs=1)


def _log_progress(progress: ProgressFile) -> None:
    """Report gensim's progress, which is in its log alone."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            text = record.getMessage()
            if match := re.search(r"EPOCH \d+ - PROGRESS: at ([\d.]+)% examples", text):
                progress.update("the training", float(match[1]) / 100)
            elif text.startswith("collected"):
                progress.done("vocabulary")

    log = logging.getLogger("gensim.models.word2vec")
    log.addHandler(Handler())
    log.setLevel(logging.INFO)
    log.propagate = False


def cleora(edges: Path, progress: ProgressFile, threads: int) -> tuple[Any, Any]:
    """The default of `pycleora.embed`: 40 iterations, whitened after each."""
    return _cleora(edges, progress, threads, num_iterations=40)


def cleora_short(edges: Path, progress: ProgressFile, threads: int) -> tuple[Any, Any]:
    """Three iterations and no whitening, the example of pycleora 2, by the compiled loop of pycleora 3."""
    return _cleora(edges, progress, threads, num_iterations=3, whiten=False)


def _cleora(edges: Path, progress: ProgressFile, threads: int, **settings: Any) -> tuple[Any, Any]:
    import numpy as np
    from pycleora import SparseMatrix, embed

    progress.began = time.perf_counter()
    # A line is a hyperedge; its members are parted by spaces, columns by tabs.
    graph = SparseMatrix.from_iterator(_lines(edges), "complex::reflexive::node", num_workers=threads)
    progress.done("graph")
    if settings.get("whiten", True):  # a callback would keep the other way from its compiled loop
        settings["callback"] = lambda i, _: progress.update("the iterations", (i + 1) / settings["num_iterations"])
    vectors = embed(graph, feature_dim=WIDTH, num_workers=threads, **settings)
    return np.array(graph.entity_ids).astype(np.int64), vectors


def _lines(edges: Path) -> Iterator[str]:
    with gzip.open(edges, "rt") as file:
        yield from (line.replace("\t", " ") for line in islice(file, 1, None))


def rolx(edges: Path, progress: ProgressFile, threads: int) -> tuple[Any, Any]:
    """graphrole over networkx, its quicker interface: with igraph it goes over all edges for each node."""
    import networkx as nx
    import numpy as np
    import pandas as pd
    from graphrole import RecursiveFeatureExtractor, RoleExtractor

    progress.began = time.perf_counter()
    frame = pd.read_csv(edges, sep="\t")
    graph = nx.from_pandas_edgelist(frame, *frame.columns)
    graph.remove_edges_from(list(nx.selfloop_edges(graph)))
    progress.done("graph")
    nx.ego_graph = progress.counted("the ego networks", len(graph), nx.ego_graph)
    extractor = RecursiveFeatureExtractor(graph)
    inner = extractor.graph
    inner.get_neighborhood_features = progress.after("ego networks", inner.get_neighborhood_features)
    inner.get_neighbors = progress.counted("generation {} of the features", len(graph), inner.get_neighbors)
    features = extractor.extract_features()
    progress.done("features")
    roles = RoleExtractor(n_roles=None)
    roles.extract_role_factors(features)
    return np.asarray(features.index), roles.node_role_factor.to_numpy()


METHODS: dict[str, Callable[[Path, ProgressFile, int], tuple[Any, Any]]] = {
    "node2vec": node2vec,
    "cleora": cleora,
    "cleora-short": cleora_short,
    "rolx": rolx,
}


def write(path: Path, ids: Any, vectors: Any) -> None:
    """Ids and vectors in the form of our own files: one row a node, a list of floats."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    flat = pa.array(np.ascontiguousarray(vectors, np.float32).reshape(-1))
    lists = pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])
    packing = {"id": "snappy", "embedding.list.element": "none"}  # vectors do not compress
    table = pa.table({"id": ids, "embedding": lists})
    pq.write_table(table, path, row_group_size=65_536, compression=packing, use_dictionary=["id"])


def main() -> None:
    name, edges, out, path, threads = sys.argv[1:]
    progress = ProgressFile(Path(path))
    ids, vectors = METHODS[name](Path(edges), progress, int(threads))
    progress.done("embedded", nodes=len(ids), columns=vectors.shape[1])
    write(Path(out), ids, vectors)
    progress.done("written")


if __name__ == "__main__":
    main()
