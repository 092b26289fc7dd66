"""Ways from an edge file to undirected neighbour lists without doubles; graph_build.py runs each in its own process.

    python benchmarks/graph_builders.py WAY EDGES OUT THREADS

Only the standard library is imported before the clock starts, so every way pays for its own imports.
"""

from __future__ import annotations

import time

BEGAN = time.perf_counter()

import json  # noqa: E402
import sys  # noqa: E402
from collections.abc import Callable  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

from install_alternatives import import_extra_packages  # noqa: E402
from processes import own_peak_gib  # noqa: E402


def folder(path: Path, out: Path) -> int:
    from rae import build_graph

    return build_graph(path, out / "g", force=True).n_edges


def folder_local(path: Path, out: Path) -> int:
    from rae import build_graph

    return build_graph(path, out / "g", force=True, order="locality").n_edges


def in_memory(path: Path, out: Path) -> int:
    from rae import read_edges

    return read_edges(path).n_edges


def open_folder(path: Path, out: Path) -> int:
    from rae import open_graph

    return open_graph(out / "g").n_edges


def pandas_scipy(path: Path, out: Path) -> int:
    import numpy as np
    import scipy.sparse as sp

    (source, target), n = _number_nodes(path)
    ones = np.ones(len(source), np.int8)
    matrix = sp.coo_array((ones, (source, target)), shape=(n, n)).tocsr()
    both = (matrix + matrix.T).tocsr()
    both.setdiag(0)
    both.eliminate_zeros()
    both.sort_indices()
    return both.nnz // 2


def pyg(path: Path, out: Path) -> int:
    import numpy as np
    import torch
    from torch_geometric.utils import remove_self_loops, to_undirected

    ends, _ = _number_nodes(path)
    return to_undirected(remove_self_loops(torch.from_numpy(np.ascontiguousarray(ends)))[0]).shape[1] // 2


def igraph(path: Path, out: Path) -> int:
    import_extra_packages()
    import igraph

    ends, n = _number_nodes(path)
    return int(igraph.Graph(n, ends.T).simplify().ecount())


def networkx(path: Path, out: Path) -> int:
    import networkx as nx

    frame = _frame(path)
    graph = nx.from_pandas_edgelist(frame, *frame.columns)
    graph.remove_edges_from(list(nx.selfloop_edges(graph)))
    return int(graph.number_of_edges())


def _frame(path: Path) -> Any:
    import pandas as pd

    return pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path, sep="\t")


def _number_nodes(path: Path) -> tuple[Any, int]:
    """Both ends of every edge as 0..n-1, and n."""
    import pandas as pd

    codes, ids = pd.factorize(_frame(path).to_numpy().ravel(), sort=True)
    return codes.reshape(-1, 2).T, len(ids)


WAYS: dict[str, Callable[[Path, Path], int]] = {
    "rae graph build": folder,
    "rae graph build --order locality": folder_local,
    "rae: open the folder": open_folder,
    "rae: read_edges, in memory": in_memory,
    "pandas factorize and SciPy CSR": pandas_scipy,
    "pandas factorize and PyG to_undirected": pyg,
    "pandas factorize and igraph simplify": igraph,
    "networkx": networkx,
}


def main() -> None:
    """Run one way and print its numbers."""
    way, path, out, threads = sys.argv[1:]
    if way.startswith("rae"):
        from rae import set_threads

        set_threads(int(threads))
    try:
        edges = WAYS[way](Path(path), Path(out))
    except ImportError as error:
        print(json.dumps({"absent": str(error)}))
        return
    seconds, cpu = time.perf_counter() - BEGAN, time.process_time()
    print(json.dumps({"edges": edges, "seconds": seconds, "cpu": cpu, "peak_gib": own_peak_gib()}))


if __name__ == "__main__":
    main()
