"""Airports and actors with classes of activity, and edge lists without labels.

The airports of Brazil, Europe and the USA are struc2vec's, with four classes of activity, as are
mirrored karate, its barbell and facebook348. The actors are RONE's: who played with whom, labelled by quartiles of
influence. ca-AstroPh and web-Google (SNAP) serve to measure speed.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rae.datasets.dataset import Dataset
from rae.datasets.home import Home, read_bytes
from rae.datasets.integers import parse_integers
from rae.errors import DatasetError
from rae.io import read_edges

LABELLED = ("brazil", "europe", "usa")
EDGE_LISTS = {
    "barbell-struc2vec": ("struc2vec/barbell.edgelist",),
    "ca-AstroPh": ("ca-AstroPh/ca-AstroPh.txt.gz",),
    "facebook348": ("struc2vec/facebook348.edgelist",),
    "karate-mirrored": ("struc2vec/karate-mirrored.edgelist",),
    # the second is SNAP's own file, whose checksum is not known
    "web-Google": ("web-Google/web_Google.txt.gz", "web-Google/web-Google.txt.gz"),
}
_MOST_LABEL_BYTES = 1 << 26


def load(name: str, *, home: Home | None = None) -> Dataset:
    """The airports of one region, labelled by activity from 0 (least) to 3 (most)."""
    home = home or Home.from_environment()
    edges = home.get(f"struc2vec/{name}-airports.edgelist")
    labels_path = home.get(f"struc2vec/labels-{name}-airports.txt")
    header, _, body = read_bytes(labels_path, _MOST_LABEL_BYTES).partition(b"\n")
    if header.split() != [b"node", b"label"]:
        raise DatasetError(f"{labels_path} must start with the line 'node label', got {header[:60].decode('latin1')!r}")
    return _label(name, edges, labels_path, body)


def load_actor(*, home: Home | None = None) -> Dataset:
    """Actors who played together, labelled by influence from 0 (least) to 3 (most); some have no label."""
    home = home or Home.from_environment()
    edges, labels = home.get("rone/actor.edge"), home.get("rone/actor.lbl")
    return _label("actor", edges, labels, read_bytes(labels, _MOST_LABEL_BYTES))


def _label(name: str, edges: Path, labels_path: Path, text: bytes) -> Dataset:
    """The graph of an edge list, with the classes of a text of lines `node class`."""
    pairs = parse_integers(text, labels_path.name)[0]
    ids, classes = pairs[::2], pairs[1::2]
    if len(pairs) % 2 or len(np.unique(ids)) != len(ids) or np.any(classes < 0):
        raise DatasetError(f"{labels_path} must give every node one class from 0 on; the file is damaged")
    graph = read_edges(edges, header=False).with_nodes(ids)
    labels = np.full(graph.n_nodes, -1, np.int64)
    labels[graph.rows(ids)] = classes
    return Dataset(name, graph, labels=labels)


def load_edges(name: str, *, home: Home | None = None) -> Dataset:
    """The graph of a public edge list, without features or labels."""
    home = home or Home.from_environment()
    local = [path for path in EDGE_LISTS[name] if home.find(path) is not None]
    return Dataset(name, read_edges(home.get((local or EDGE_LISTS[name])[0])))
