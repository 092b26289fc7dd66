"""Cora, Citeseer and Pubmed from Planetoid's files, with the split of Kipf & Welling.

The files number the nodes: those of `allx` first, then the test nodes, whose rows in `tx` are in
the order of `test.index`. Test ids that `tx` lacks (15 in Citeseer) are nodes with zero features,
label -1, in no part of the split.
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from rae.datasets.dataset import Dataset, Labels, Split
from rae.datasets.home import Home, read_bytes
from rae.datasets.integers import parse_integers
from rae.datasets.unpickle import CsrParts, unpickle
from rae.errors import DatasetError
from rae.graph import Graph

NAMES = ("citeseer", "cora", "pubmed")
PARTS = ("x", "y", "tx", "ty", "allx", "ally", "graph", "test.index")

_VALIDATION = 500
_MOST_BYTES = 1 << 25  # four times the largest of the files
_MOST_COLUMNS = 1 << 24


def load(name: str, *, home: Home | None = None) -> Dataset:
    """The citation graph with its word features, classes and public split."""
    home = home or Home.from_environment()
    return read({part: home.get(f"{name}/ind.{name}.{part}") for part in PARTS}, name)


def read(files: dict[str, Path], name: str) -> Dataset:
    """The data set in these eight files."""
    content = {part: read_bytes(path, _MOST_BYTES) for part, path in files.items()}
    value = {part: unpickle(content[part], files[part].name) for part in PARTS if part != "test.index"}
    matrix = {part: _csr(value[part], files[part].name) for part in ("tx", "allx")}
    classes = {part: _one_hot(value[part], files[part].name) for part in ("y", "ty", "ally")}
    test = parse_integers(content["test.index"], files["test.index"].name)[0]
    n = _check_sizes(name, matrix, classes, test)
    n_listed = matrix["allx"].shape[0]

    order = np.concatenate([np.arange(n_listed), test])
    stacked = sp.coo_array(sp.vstack([matrix["allx"], matrix["tx"]]))
    features: Any = sp.csr_array((stacked.data, (order[stacked.row], stacked.col)), shape=(n, stacked.shape[1]))
    labels = np.full(n, -1, np.int64)
    labels[order] = np.concatenate([classes["ally"], classes["ty"]])

    train = len(classes["y"])
    val = np.arange(train, min(train + _VALIDATION, n_listed))
    graph = _graph(value["graph"], n, files["graph"].name)
    return Dataset(name, graph, features, labels=labels, split=Split(np.arange(train), val, np.sort(test)))


def _check_sizes(name: str, matrix: dict[str, Any], classes: dict[str, Labels], test: Labels) -> int:
    """The number of nodes; parts that do not fit each other are refused."""
    n_listed = matrix["allx"].shape[0]
    for rows, labels in (("allx", "ally"), ("tx", "ty")):
        if matrix[rows].shape[0] != len(classes[labels]):
            raise DatasetError(
                f"{name}: {rows} and {labels} must have as many rows, "
                f"got {matrix[rows].shape[0]:,} and {len(classes[labels]):,}"
            )
    if matrix["allx"].shape[1] != matrix["tx"].shape[1]:
        raise DatasetError(
            f"{name}: allx and tx must be equally wide, got {matrix['allx'].shape[1]:,} and {matrix['tx'].shape[1]:,}"
        )
    if len(classes["y"]) > n_listed:
        raise DatasetError(f"{name}: y must be the first rows of ally ({n_listed:,}), got {len(classes['y']):,}")
    # Citeseer skips 15 of its thousand ids; a file that skips more ids than it has is not one of these.
    in_range = np.all((test >= n_listed) & (test < n_listed + 2 * len(test)))
    if len(test) != len(classes["ty"]) or len(np.unique(test)) != len(test) or not in_range:
        raise DatasetError(
            f"{name}: test.index must name each of the {len(classes['ty']):,} rows of tx once, "
            f"from {n_listed:,} on, got {len(test):,} ids"
        )
    return int(test.max(initial=n_listed - 1)) + 1


def _csr(value: Any, what: str) -> Any:
    """The CSR matrix of these parts, once they fit each other."""
    if not isinstance(value, CsrParts):
        raise DatasetError(f"{what} must hold a CSR matrix, got {type(value).__name__}")
    shape = value["_shape"]
    data, indices, offsets = parts = value["data"], value["indices"], value["indptr"]
    if not isinstance(shape, tuple) or len(shape) != 2 or any(type(n) is not int or n < 0 for n in shape):
        raise DatasetError(f"{what} must hold a table of rows and columns; the file is damaged")
    rows, columns = shape
    for part, kinds in zip(parts, ("biuf", "iu", "iu"), strict=True):
        if not isinstance(part, np.ndarray) or part.ndim != 1 or part.dtype.kind not in kinds:
            raise DatasetError(f"{what} must hold data, indices and indptr as rows of numbers; the file is damaged")
    if (
        columns > _MOST_COLUMNS
        or len(offsets) != rows + 1
        or len(indices) != len(data)
        or offsets[0] != 0
        or offsets[-1] != len(data)
        or np.any(offsets[1:] < offsets[:-1])
        or np.any((indices < 0) | (indices >= columns))
        or not np.all(np.isfinite(data))
    ):
        raise DatasetError(f"{what} holds a CSR matrix whose parts do not fit each other; the file is damaged")
    arrays = (data.astype(np.float32), indices.astype(np.int64), offsets.astype(np.int64))
    return sp.csr_array(arrays, shape=(rows, columns))


def _one_hot(value: Any, what: str) -> Labels:
    """The class of each row."""
    if not isinstance(value, np.ndarray) or value.ndim != 2 or value.dtype.kind not in "biuf" or not value.shape[1]:
        raise DatasetError(f"{what} must hold a table with one column per class; the file is damaged")
    if not np.all(((value == 0) | (value == 1)) & (value.sum(1, keepdims=True) == 1)):
        raise DatasetError(f"{what} must have a single 1 in every row; the file is damaged")
    classes: Labels = np.argmax(value, axis=1).astype(np.int64)
    return classes


def _graph(value: Any, n: int, what: str) -> Graph:
    """The graph of {node: [neighbours]}."""
    if isinstance(value, CsrParts) or not isinstance(value, dict):
        raise DatasetError(f"{what} must hold a list of neighbours for each node, got {type(value).__name__}")
    lengths = np.fromiter((len(v) for v in value.values()), np.int64, len(value))
    source = np.repeat(np.fromiter(value, np.int64, len(value)), lengths)
    try:
        target = np.fromiter(chain.from_iterable(value.values()), np.int64, int(lengths.sum()))
    except (TypeError, ValueError):
        raise DatasetError(f"{what} must name neighbours by number; the file is damaged") from None
    for column in (source, target):
        if column.size and not 0 <= column.min() <= column.max() < n:
            raise DatasetError(f"{what} must name nodes 0..{n - 1}, got {column.min()}..{column.max()}")
    return Graph.from_edges((source, target), ids=np.arange(n))
