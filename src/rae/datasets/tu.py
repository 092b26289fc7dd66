"""Collections of small graphs: the TU form (a zip of text files) and the one-file text form.

If both forms are on the machine the one-file form is read, because the public folds number
its graphs; the zip of MUTAG holds the same molecules in another order. Graph labels become
0..C-1 in the order of their codes. Node labels become one column each; a set whose nodes all
carry the same label has no features.
"""

from __future__ import annotations

import io
import re
import tarfile
import zipfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rae.datasets.dataset import GraphCollection
from rae.datasets.home import Home, read_bytes
from rae.datasets.integers import Ints, parse_integers
from rae.errors import DatasetError, one_line
from rae.graph import Counts, Graph
from rae.io.npz import DAMAGED

NAMES = ("IMDB-BINARY", "IMDB-MULTI", "MUTAG", "PROTEINS", "REDDIT-BINARY", "REDDIT-MULTI-12K", "REDDIT-MULTI-5K")

FOLDS_FIT_THE_ZIP = ("IMDB-BINARY", "IMDB-MULTI", "PROTEINS")
"""Sets whose zip has the graphs in the order of the one-file form, checked graph by graph."""

ATOMS = ("C", "N", "O", "F", "I", "Cl", "Br")
_ATOMS_IN_TEXT = ("Br", "Cl", "C", "F", "I", "N", "O")  # the one-file form numbers them in its own way
_MOST_BYTES = 1 << 29
_MOST_FOLD_BYTES = 1 << 24


@dataclass(frozen=True)
class Tables:
    """A collection as columns, its nodes numbered through all graphs."""

    graph_of: Ints  # (n,) the graph of each node, from 0
    source: Ints  # (m,) node
    target: Ints  # (m,) node
    labels: Ints  # (g,) code of each graph
    tags: Ints | None  # (n,) code of each node


def load(name: str, *, home: Home | None = None) -> GraphCollection:
    """The collection of this name, from the one-file form if it is there, else from the zip."""
    home = home or Home.from_environment()
    stem = f"{name}/{name.replace('-', '')}"
    text = home.find(f"{stem}.txt") or home.find(f"{stem}.txt.gz")
    folds = home.find(f"{name}/10fold_idx.tar.gz")
    if text is not None:
        return collection(name, read_text(text), folds)
    archive = home.get(f"{name}/{name}.zip")
    return collection(name, read_zip(archive, name), folds if name in FOLDS_FIT_THE_ZIP else None)


def collection(name: str, tables: Tables, folds: Path | None = None) -> GraphCollection:
    """The graphs of these tables, with one-hot node features where nodes differ."""
    codes, labels = np.unique(tables.labels, return_inverse=True)
    if not len(labels):
        raise DatasetError(f"{name} must hold a graph or more, got none")
    tables = _sorted_by_graph(tables)
    graphs, starts = _split_graphs(name, tables)
    features: tuple[Any, ...] | None = None
    names = None
    if tables.tags is not None and len(kinds := np.unique(tables.tags)) > 1:
        one_hot = (tables.tags[:, None] == kinds).astype(np.float32)
        features = tuple(one_hot[a:b] for a, b in pairwise(starts))
        names = ATOMS if name == "MUTAG" and len(kinds) == len(ATOMS) else tuple(map(str, kinds.tolist()))
    return GraphCollection(
        name,
        graphs,
        labels.astype(np.int64),
        features,
        names,
        tuple(map(str, codes.tolist())),
        None if folds is None else read_folds(folds, len(graphs)),
    )


# --------------------------------------------------------------------------------- to graphs


def _sorted_by_graph(tables: Tables) -> Tables:
    """The same collection with the nodes of each graph numbered consecutively."""
    if np.all(tables.graph_of[1:] >= tables.graph_of[:-1]):
        return tables
    order = np.argsort(tables.graph_of, kind="stable")
    new_number = np.empty(len(order), np.int64)
    new_number[order] = np.arange(len(order))
    tags = None if tables.tags is None else tables.tags[order]
    return Tables(tables.graph_of[order], new_number[tables.source], new_number[tables.target], tables.labels, tags)


def _split_graphs(name: str, tables: Tables) -> tuple[tuple[Graph, ...], Ints]:
    """Every graph as a slice of one large graph, and the first node of each."""
    graph_of, source, target = tables.graph_of, tables.source, tables.target
    g = len(tables.labels)
    sizes = np.bincount(graph_of, minlength=g)
    if np.any(sizes == 0):
        raise DatasetError(f"{name}: every graph needs a node, graph {int(np.argmin(sizes)) + 1:,} has none")
    if np.any(across := graph_of[source] != graph_of[target]):
        edge = int(np.argmax(across))
        raise DatasetError(f"{name}: edge {edge + 1:,} joins two graphs; the file is damaged")
    whole = Graph.from_edges((source, target), ids=np.arange(len(graph_of)))
    starts = np.concatenate([[0], np.cumsum(sizes)])
    rows = np.bincount(graph_of[source], minlength=g)
    loops = np.bincount(graph_of[source[source == target]], minlength=g)
    doubled = rows - loops - np.diff(whole.offsets[starts]) // 2
    first = starts[:-1].astype(whole.targets.dtype)
    local = whole.targets - np.repeat(first, np.diff(whole.offsets[starts]))
    local.flags.writeable = False
    ids = pa.array(np.arange(sizes.max()))
    graphs = []
    for i, (a, b) in enumerate(pairwise(starts)):
        low, high = whole.offsets[a], whole.offsets[b]
        offsets = whole.offsets[a : b + 1] - low
        offsets.flags.writeable = False
        counts = Counts(int(rows[i]), int(loops[i]), int(doubled[i]))
        graphs.append(Graph(offsets, local[low:high], ids[: b - a], counts))
    return tuple(graphs), starts


# --------------------------------------------------------------------------------- one file


def read_text(path: Path) -> Tables:
    """The one-file form: how many graphs; for each `n label`, then a line `tag degree neighbours...` per node."""
    what = path.name
    values, lines = parse_integers(read_bytes(path, _MOST_BYTES), what)
    present, first = np.unique(lines, return_index=True)  # lines that hold numbers
    width = np.diff(first, append=len(values))
    if len(values) == 0 or width[0] != 1 or not 0 < values[0] <= len(present):
        raise DatasetError(f"{what} must start with a line that says how many graphs it holds")
    heads = _heads(what, values, first, width, int(values[0]))
    is_node = np.ones(len(present), np.bool_)
    is_node[0] = False
    is_node[heads] = False
    n_nodes = values[first[heads]]
    at, degree = first[is_node], width[is_node] - 2
    if np.any(degree < 0) or np.any(values[at + 1] != degree):
        raise DatasetError(f"{what}: a node's line must be tag, degree and as many neighbours; the file is damaged")
    graph_of = np.repeat(np.arange(len(heads)), n_nodes)
    source = np.repeat(np.arange(len(at)), degree)
    is_target = np.ones(len(values), np.bool_)
    is_target[0] = False
    for column in (first[heads], first[heads] + 1, at, at + 1):
        is_target[column] = False
    target = values[is_target]
    if np.any((target < 0) | (target >= n_nodes[graph_of[source]])):
        raise DatasetError(f"{what}: neighbours must be numbered within their graph, from 0; the file is damaged")
    start = np.cumsum(n_nodes) - n_nodes
    tags = values[at]
    if path.name.startswith("MUTAG") and np.all((tags >= 0) & (tags < len(ATOMS))):
        tags = np.array([ATOMS.index(atom) for atom in _ATOMS_IN_TEXT])[tags]
    return Tables(graph_of, source, target + start[graph_of[source]], values[first[heads] + 1], tags)


def _heads(what: str, values: Ints, first: Ints, width: Ints, count: int) -> Ints:
    """The lines that open a graph: each says how many lines further the next one is."""
    heads, line = np.empty(count, np.int64), 1
    for i in range(count):
        if line >= len(first) or width[line] != 2 or values[first[line]] < 1:
            raise DatasetError(
                f"{what}: graph {i + 1:,} of {count:,} must open with size and label; the file is damaged"
            )
        heads[i] = line
        line += 1 + int(values[first[line]])
    if line != len(first):
        raise DatasetError(f"{what} must have {line:,} lines for its {count:,} graphs, got {len(first):,}")
    return heads


# -------------------------------------------------------------------------------------- zip


def read_zip(path: Path, name: str) -> Tables:
    """The TU form: edges, the graph of each node, labels of graphs and of nodes, one text file each."""
    try:
        with zipfile.ZipFile(path) as archive:
            edges = _member(archive, name, "A")
            graph_of = _member(archive, name, "graph_indicator")
            labels = _member(archive, name, "graph_labels")
            tags = _member(archive, name, "node_labels", needed=False)
    except DAMAGED as error:
        raise DatasetError(f"could not read {path}: {one_line(error)}") from None
    assert edges is not None
    assert graph_of is not None
    assert labels is not None
    n = len(graph_of)
    if len(edges) % 2 or np.any((edges < 1) | (edges > n)):
        raise DatasetError(f"{path.name}: edges must be pairs of nodes 1..{n:,}; the file is damaged")
    if np.any((graph_of < 1) | (graph_of > len(labels))):
        raise DatasetError(f"{path.name}: nodes must belong to graphs 1..{len(labels):,}; the file is damaged")
    if tags is not None and len(tags) != n:
        raise DatasetError(f"{path.name}: there must be one node label per node ({n:,}), got {len(tags):,}")
    return Tables(graph_of - 1, edges[::2] - 1, edges[1::2] - 1, labels, tags)


def _member(archive: zipfile.ZipFile, name: str, part: str, needed: bool = True) -> Ints | None:
    """The integers of one file of the zip, read in memory: no path of the zip is written."""
    file_name = f"{name}_{part}.txt"
    for info in archive.infolist():
        if info.filename in (file_name, f"{name}/{file_name}"):
            if info.file_size > _MOST_BYTES:
                raise DatasetError(f"{file_name} must have {_MOST_BYTES:,} bytes at most, got {info.file_size:,}")
            return parse_integers(archive.read(info), file_name)[0]
    if needed:
        raise DatasetError(f"{archive.filename} must hold {file_name}; it is not the TU zip of {name}")
    return None


# ------------------------------------------------------------------------------------ folds


def read_folds(path: Path, n_graphs: int) -> tuple[Ints, ...]:
    """The ten test sets, as graph numbers from 0, in the order of their files."""
    content = read_bytes(path, _MOST_FOLD_BYTES)
    folds: dict[int, Ints] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
            for member in archive:
                name = re.fullmatch(r"(?:\./)?(?:[\w-]+/)?test_idx-(\d{1,3})\.txt", member.name)
                if name and member.isreg() and not member.issparse() and member.size <= len(content):
                    file = archive.extractfile(member)
                    assert file is not None
                    folds[int(name[1])] = parse_integers(file.read(), member.name)[0]
    except (tarfile.TarError, ValueError, OverflowError, OSError, EOFError) as error:
        raise DatasetError(f"could not read {path}: {one_line(error)}") from None
    if sorted(folds) != list(range(1, 11)):
        raise DatasetError(f"{path} must hold test_idx-1.txt to test_idx-10.txt, got the numbers {sorted(folds)}")
    for number, fold in folds.items():
        if not len(fold) or fold.min() < 0 or fold.max() >= n_graphs:
            raise DatasetError(f"{path}: fold {number} must name graphs 0..{n_graphs - 1:,}; is it of another set?")
    return tuple(folds[i] for i in range(1, 11))
