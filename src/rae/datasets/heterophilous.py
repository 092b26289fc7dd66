"""chameleon and squirrel without their doubled nodes: pages whose links lead mostly to pages of other classes.

One .npz file each: edges, bags of words, classes and ten public splits. Arrays are read as plain numbers, never as
Python objects, and only as long as their bytes in the file.
"""

from __future__ import annotations

import io
import zipfile
from typing import Any

import numpy as np
import scipy.sparse as sp

from rae.datasets.dataset import Dataset, Split
from rae.datasets.home import Home, read_bytes
from rae.errors import DatasetError, one_line
from rae.graph import Graph
from rae.io.npz import DAMAGED, read_member

NAMES = ("chameleon", "squirrel")
ARRAYS = {  # name: dimensions, kinds of number
    "edges": (2, "iu"),
    "node_features": (2, "f"),
    "node_labels": (1, "iu"),
    "train_masks": (2, "b"),
    "val_masks": (2, "b"),
    "test_masks": (2, "b"),
}
_MOST_BYTES = 1 << 27  # of the file, and of an array; the largest has 18.6 MB
_MOST_CLASSES = 1 << 10

Array = np.ndarray[Any, Any]


def load(name: str, *, home: Home | None = None) -> Dataset:
    """The page graph with its words, classes and ten public splits; `split` is the first of them."""
    home = home or Home.from_environment()
    path = home.get(f"heterophilous/{name}_filtered.npz")
    arrays = read_arrays(read_bytes(path, _MOST_BYTES), path.name)
    n = len(arrays["node_labels"])
    splits = _splits([arrays[f"{part}_masks"] for part in ("train", "val", "test")], n, path.name)
    labels, features, edges = arrays["node_labels"].astype(np.int64), arrays["node_features"], arrays["edges"]
    if len(features) != n or not features.shape[1] or not np.all(np.isfinite(features)):
        raise DatasetError(f"{path.name} must have finite features for each of its {n:,} nodes; the file is damaged")
    if labels.min(initial=0) < 0 or labels.max(initial=0) >= _MOST_CLASSES:
        raise DatasetError(f"{path.name} must have a class from 0 on for every node; the file is damaged")
    if edges.shape[1] != 2 or (edges.size and not 0 <= edges.min() <= edges.max() < n):
        raise DatasetError(f"{path.name} must have edges between nodes 0..{n - 1:,}; the file is damaged")
    graph = Graph.from_edges((edges[:, 0].astype(np.int64), edges[:, 1].astype(np.int64)), ids=np.arange(n))
    words: Any = sp.csr_array(features.astype(np.float32))
    return Dataset(name, graph, words, labels=labels, split=splits[0], splits=splits)


def read_arrays(content: bytes, what: str) -> dict[str, Array]:
    """The arrays of the .npz file by name; anything but plain numbers is refused."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return {name: _array(archive, name, *rules) for name, rules in ARRAYS.items()}
    except KeyError as error:
        raise DatasetError(f"{what} must hold the arrays {', '.join(ARRAYS)}: {error.args[0]}") from None
    except DAMAGED as error:
        raise DatasetError(
            f"could not read {what}: {one_line(error)}; the file is damaged or not what its name says"
        ) from None


def _array(archive: zipfile.ZipFile, name: str, dimensions: int, kinds: str) -> Array:
    info = archive.getinfo(f"{name}.npy")
    if info.file_size > _MOST_BYTES:
        raise ValueError(f"{name} has {info.file_size:,} bytes, {_MOST_BYTES:,} are the most")
    array = read_member(archive, info)
    if array.dtype.kind not in kinds or array.ndim != dimensions:
        raise ValueError(f"{name} holds {array.ndim} dimensions of {array.dtype}")
    return array


def _splits(masks: list[Array], n: int, what: str) -> tuple[Split, ...]:
    count = len(masks[0])
    if (
        not count
        or any(mask.shape != (count, n) for mask in masks)
        or np.any(sum(m.astype(np.int8) for m in masks) > 1)
    ):
        raise DatasetError(f"{what} must have splits of its {n:,} nodes whose parts share none; the file is damaged")
    if not all(mask.any(1).all() for mask in masks):
        raise DatasetError(f"{what} must have nodes in every part of every split; the file is damaged")
    return tuple(Split(*(np.flatnonzero(mask[i]) for mask in masks)) for i in range(count))
