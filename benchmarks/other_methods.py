"""One peer, from a gzipped edge list to vectors in Parquet; run by peers.py in the peers' own environment.

    .venv/peers/bin/python benchmarks/peer.py NAME EDGES OUT TOLD THREADS

How far it got goes to the file TOLD as JSON lines, so that something is known of a peer that is ended early.
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
OFTEN = 2.0  # seconds between two words on a stage that goes on


@dataclass
class Told:
    """A file of what was done, by the clock since the packages were loaded."""

    path: Path
    began: float = field(default_factory=time.perf_counter)
    last: float = 0.0

    def done(self, stage: str, **more: Any) -> None:
        self._say(stage=stage, share=1.0, **more)

    def going(self, stage: str, share: float) -> None:
        if time.perf_counter() - self.last > OFTEN:
            self._say(stage=stage, share=round(share, 4))

    def counted(self, stage: str, total: int, work: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, whose calls are counted; {} in the stage's name is how often it is gone through."""
        calls = 0

        def called(*given: Any, **named: Any) -> Any:
            nonlocal calls
            if not calls % 100:
                self.going(stage.format(calls // total + 1), calls % total / total)
            calls += 1
            return work(*given, **named)

        return called

    def after(self, stage: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, whose end is told."""

        def called(*given: Any) -> Any:
            made = work(*given)
            self.done(stage)
            return made

        return called

    def _say(self, **line: Any) -> None:
        self.last = time.perf_counter()
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**line, "at": round(self.last - self.began, 3)}) + "\n")


def node2vec(edges: Path, told: Told, threads: int) -> tuple[Any, Any]:
    """PecanPy in the mode that it recommends for p = q = 1, its quickest; read by pandas and SciPy, its own reader
    takes no gzip and goes line by line.
    """
    import numba
    import numpy as np
    import pandas as pd
    import scipy.sparse as sp
    from pecanpy.pecanpy import FirstOrderUnweighted

    told.began = time.perf_counter()
    numba.set_num_threads(threads)
    codes, ids = pd.factorize(pd.read_csv(edges, sep="\t").to_numpy().ravel(), sort=True)
    source, target = codes.reshape(-1, 2).T
    one_way = sp.coo_array((np.ones(len(source), np.int8), (source, target)), shape=(len(ids),) * 2).tocsr()
    both = (one_way + one_way.T).tocsr()
    both.setdiag(0)
    both.eliminate_zeros()
    both.sort_indices()
    kept = told.path.with_suffix(".npz")
    np.savez(kept, IDs=ids.astype(str), data=both.data, indptr=both.indptr, indices=both.indices)
    graph = FirstOrderUnweighted(p=1, q=1, workers=threads, random_state=0)
    graph.read_npz(str(kept), weighted=False)
    told.done("graph")
    graph.simulate_walks = told.after("walks", graph.simulate_walks)
    _listen(told)
    return ids, graph.embed(dim=WIDTH, num_walks=WALKS, walk_length=LENGTH, window_size=WINDOW, epochs=1)


def _listen(told: Told) -> None:
    """gensim tells how far it is in its log alone."""

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            text = record.getMessage()
            if found := re.search(r"EPOCH \d+ - PROGRESS: at ([\d.]+)% examples", text):
                told.going("the training", float(found[1]) / 100)
            elif text.startswith("collected"):
                told.done("vocabulary")

    log = logging.getLogger("gensim.models.word2vec")
    log.addHandler(Ear())
    log.setLevel(logging.INFO)
    log.propagate = False


def cleora(edges: Path, told: Told, threads: int) -> tuple[Any, Any]:
    """As `pycleora.embed` does it unless told otherwise: 40 iterations, whitened after each."""
    return _cleora(edges, told, threads, num_iterations=40)


def cleora_short(edges: Path, told: Told, threads: int) -> tuple[Any, Any]:
    """Three iterations and no whitening, the example of pycleora 2, by the compiled loop of pycleora 3."""
    return _cleora(edges, told, threads, num_iterations=3, whiten=False)


def _cleora(edges: Path, told: Told, threads: int, **settings: Any) -> tuple[Any, Any]:
    import numpy as np
    from pycleora import SparseMatrix, embed

    told.began = time.perf_counter()
    # A line is a hyperedge; its members are parted by spaces, columns by tabs.
    graph = SparseMatrix.from_iterator(_lines(edges), "complex::reflexive::node", num_workers=threads)
    told.done("graph")
    if settings.get("whiten", True):  # a callback would take the other from its compiled loop
        settings["callback"] = lambda i, _: told.going("the iterations", (i + 1) / settings["num_iterations"])
    vectors = embed(graph, feature_dim=WIDTH, num_workers=threads, **settings)
    return np.array(graph.entity_ids).astype(np.int64), vectors


def _lines(edges: Path) -> Iterator[str]:
    with gzip.open(edges, "rt") as file:
        yield from (line.replace("\t", " ") for line in islice(file, 1, None))


def rolx(edges: Path, told: Told, threads: int) -> tuple[Any, Any]:
    """graphrole over networkx, its quicker interface: with igraph it goes over all edges for each node."""
    import networkx as nx
    import numpy as np
    import pandas as pd
    from graphrole import RecursiveFeatureExtractor, RoleExtractor

    told.began = time.perf_counter()
    frame = pd.read_csv(edges, sep="\t")
    graph = nx.from_pandas_edgelist(frame, *frame.columns)
    graph.remove_edges_from(list(nx.selfloop_edges(graph)))
    told.done("graph")
    nx.ego_graph = told.counted("the ego networks", len(graph), nx.ego_graph)
    extractor = RecursiveFeatureExtractor(graph)
    its = extractor.graph
    its.get_neighborhood_features = told.after("ego networks", its.get_neighborhood_features)
    its.get_neighbors = told.counted("generation {} of the features", len(graph), its.get_neighbors)
    features = extractor.extract_features()
    told.done("features")
    roles = RoleExtractor(n_roles=None)
    roles.extract_role_factors(features)
    return np.asarray(features.index), roles.node_role_factor.to_numpy()


PEERS: dict[str, Callable[[Path, Told, int], tuple[Any, Any]]] = {
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
    name, edges, out, told, threads = sys.argv[1:]
    record = Told(Path(told))
    ids, vectors = PEERS[name](Path(edges), record, int(threads))
    record.done("embedded", nodes=len(ids), columns=vectors.shape[1])
    write(Path(out), ids, vectors)
    record.done("written")


if __name__ == "__main__":
    main()
