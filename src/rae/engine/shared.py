"""The inputs that hosts of a cluster share: graph, features, measures and model as files in a folder that all see.

Measures and units are of the whole graph, so they are computed once, where the job starts, and shared as an array.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from rae.engine.exact_levels import Place
from rae.engine.levels import Model
from rae.features import is_sparse
from rae.graph import Graph
from rae.graph.csr_writer import FileSink
from rae.graph.folder import INFO as GRAPH_INFO
from rae.graph.folder import OFFSETS, TARGETS, folder_of, write_graph
from rae.model.checkpoint import Fitted, save
from rae.model.exact import ExactModel
from rae.storage.atomic import writing
from rae.storage.npy import DENSE, SPARSE, write_array, write_matrix
from rae.storage.objects import ObjectPath
from rae.storage.parts import Parts
from rae.storage.scratch import scratch_folder

FOLDER = ".inputs"  # after the output's name
GRAPH, MODEL, MEASURES = "graph", "model.safetensors", "measures.npy"
_NAMES = (MODEL, MEASURES, DENSE, SPARSE)


@dataclass(frozen=True)
class SharedInputs:
    """Paths of what tasks read, the same on every host."""

    graph: str
    model: str
    features: str | None = None
    measures: str | None = None


def share(
    folder: Path | ObjectPath, models: Mapping[str, Model], fitted: Fitted, graph: str | None = None
) -> SharedInputs:
    """The inputs of a job, written to this folder; `graph` is a graph folder of it that all hosts see already."""
    if isinstance(folder, ObjectPath):
        with filled(folder, MODEL) as here:
            written = share(here, models, fitted, graph)
        moved: dict[str, Any] = {
            name: None if path is None else path.replace(str(here), folder.url)
            for name, path in asdict(written).items()
        }
        return SharedInputs(**moved)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    reads = {name: model.reads for name, model in models.items()}
    if graph is None:
        write_graph(folder / GRAPH, next(iter(reads.values())).graph)
        graph = str(folder / GRAPH)
    features = measures = None
    if isinstance(fitted, ExactModel) and "place" in models:
        place = models["place"].finish
        assert isinstance(place, Place)
        fitted = replace(fitted, structure=place.fitted)  # with the units and the center of this graph
        write_array(folder / MEASURES, reads["place"].matrix)
        measures = str(folder / MEASURES)
    matrix = next((x.matrix for name, x in reads.items() if name not in ("place", "around")), None)
    if matrix is not None:
        features = str(write_matrix(folder, matrix))
    save(fitted, folder / MODEL)
    return SharedInputs(graph, str(folder / MODEL), features, measures)


@contextlib.contextmanager
def filled(folder: Path | ObjectPath, last: str) -> Iterator[Path]:
    """A folder of this machine to write files to; they are uploaded, `last` as the last one, where it is in a store."""
    if isinstance(folder, Path):
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        yield folder
        return
    with scratch_folder() as scratch:
        here = scratch / "inputs"
        here.mkdir()
        yield here
        folder.upload_folder(here, last)


def share_graph(folder: Path | ObjectPath, graph: Graph) -> str:
    """The path of a graph folder that all hosts see: the one that it was opened from, or a copy in this folder."""
    path = folder_of(graph)
    if path is not None:
        return path
    target = folder / GRAPH
    if not (target / GRAPH_INFO).is_file():
        with filled(target, GRAPH_INFO) as here:
            write_graph(here, graph)
    return os.fspath(target)


def share_features(folder: Path | ObjectPath, matrix: Any) -> str:
    """The path of a matrix of features that all hosts see, written to this folder."""
    name = SPARSE if is_sparse(matrix) else DENSE
    if not (folder / name).is_file():
        with filled(folder, name) as here:
            write_matrix(here, matrix)
    return os.fspath(folder / name)


def write_rows_of_parts(
    hidden: Path,
    parts: Parts,
    rows: Sequence[tuple[str, int, int]],
    n: int,
    kind: Any,
    channels: int,
    expected: int = 0,
) -> int:
    """Write the rows of a graph that parts hold, (name, first row, last row) of each; how many edges they stand for.

    A part has the lengths of its rows, their entries, and the weights of these by channel. `expected` is about how many
    entries there are, where that is known. An edge counts at both ends, and in each channel that has a weight for it.
    """
    offsets, slots = np.zeros(n + 1, np.int64), 0
    sink = FileSink(hidden / TARGETS)
    sink.open(np.dtype(kind), expected, channels)
    try:
        for name, first, last in rows:
            lengths = offsets[first + 1 : last + 1]
            parts.read_into(name, lengths)
            entries = np.empty(int(lengths.sum()), kind)
            parts.read_into(name, entries, lengths.nbytes)
            weights = np.empty((channels, len(entries)), np.float32)
            parts.read_into(name, weights, lengths.nbytes + entries.nbytes)
            slots += int(np.count_nonzero(weights)) if channels else len(entries)
            sink.append(entries, weights)
    finally:
        sink.close()
    write_array(hidden / OFFSETS, np.cumsum(offsets, out=offsets))
    return slots


def discard(folder: Path | ObjectPath) -> None:
    """Remove the files of `share`, and no others."""
    if isinstance(folder, ObjectPath):
        below = (folder / GRAPH).iterdir() if (folder / GRAPH).is_dir() else []
        for remote in (*below, *(folder / name for name in _NAMES)):
            remote.unlink(missing_ok=True)
        for remote in (folder / GRAPH, folder):
            if remote.is_dir() and not any(remote.iterdir()):
                remote.rmdir()
        return
    if folder.is_dir():
        shutil.rmtree(folder / GRAPH, ignore_errors=True)
        for path in folder.iterdir():
            if path.name in _NAMES or (path.name.startswith(".") and path.suffix == ".tmp"):
                path.unlink()
        if not any(folder.iterdir()):
            folder.rmdir()
