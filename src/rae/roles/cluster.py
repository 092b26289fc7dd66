"""Roles of vectors that lie in files, by tasks on a cluster: the sample that they are fitted on, and every assignment.

    keys(part)     the first numbers of the vectors of a part, distinct and ascending, with how many rows have each
    rows(part)     the distinct vectors of a part whose first number some rows of the sample have, with their counts
    assign(part)   role, confidence, memberships and distance of every vector of a part

One machine sorts all vectors by their bytes and draws places in that order: the first numbers say which vectors stand
at those places, so that the sample is the same. A part is a chunk of rows that one machine assigns at a time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from rae.engine.cluster import Cluster
from rae.engine.ray_executor import connected
from rae.io.embeddings import GroupsOfRows, groups_of_rows
from rae.roles.model import SAMPLE_ROWS, Assignment, Parameters, Roles
from rae.roles.storage import load_parameters, save_parameters
from rae.roles.vectors import CHUNK_ROWS, Floats, Ints, check_vectors, sampled_positions
from rae.storage.objects import on_disk, place, to_store
from rae.storage.parts import Parts
from rae.version import versions_of

FOLDER = ".roles"  # after the name of what the vectors belong to
PARAMETERS = ".safetensors"
AT_A_TIME = 4  # chunks of rows that are a part

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class RolesTask:
    """One unit of work: its kind and the part that it is about."""

    kind: str
    part: int

    @property
    def name(self) -> str:
        """The name of its output."""
        return f"{self.kind}-{self.part:05}"


@dataclass(frozen=True)
class RolesDescription:
    """The vectors, where parts go, and the roles to assign, as plain data."""

    vectors: str  # Parquet file of embeddings, or a folder of them
    parts: str
    fingerprint: str
    parameters: str | None = None

    def perform(self, task: RolesTask) -> None:
        """Do one task, unless its output is there."""
        parts = Parts(place(self.parts), self.fingerprint)
        if not parts.has(task.name):
            z = check_vectors(_groups(self.vectors).rows(*_bounds(_groups(self.vectors).n_rows, task.part)))
            parts.write(task.name, {"keys": self._keys, "rows": self._rows, "assign": self._assign}[task.kind](z))

    def close(self) -> None:
        """Give back what this process has opened for tasks."""
        _groups.cache_clear()
        _parameters.cache_clear()

    def _keys(self, z: Floats) -> list[Array]:
        return list(np.unique(first_numbers(z), return_counts=True))

    def _rows(self, z: Floats) -> list[Array]:
        parts = Parts(place(self.parts), self.fingerprint)
        numbers = parts.read("wanted", (parts.size("wanted") // 4,), np.uint32)
        rows, counts = np.unique(as_bytes(z[np.isin(first_numbers(z), numbers)]), return_counts=True)
        return [counts, rows]

    def _assign(self, z: Floats) -> list[Array]:
        assert self.parameters is not None
        assigned = _parameters(self.parameters, self.fingerprint).assign(z)
        return [assigned.labels, assigned.confidence, assigned.distances, assigned.memberships]


@lru_cache(maxsize=1)
def _groups(path: str) -> GroupsOfRows:
    return groups_of_rows(path)


@lru_cache(maxsize=1)
def _parameters(path: str, _: str) -> Parameters:
    with on_disk(path) as here:
        return load_parameters(here)


def _bounds(n: int, part: int) -> tuple[int, int]:
    return part * AT_A_TIME * CHUNK_ROWS, min((part + 1) * AT_A_TIME * CHUNK_ROWS, n)


def first_numbers(z: Floats) -> Array:
    """The first four bytes of each row, as numbers in the order of bytes.  (n, d) -> (n,) uint32"""
    return np.ascontiguousarray(z[:, 0]).view(">u4").astype(np.uint32)


def as_bytes(z: Floats) -> Array:
    """The rows as strings of bytes, which NumPy sorts.  (n, d) -> (n,)"""
    return np.ascontiguousarray(z).view(np.dtype((np.void, z.shape[1] * z.itemsize))).reshape(-1)


@dataclass
class VectorsByParts:
    """Vectors in files, of which an executor's tasks take what roles need."""

    description: RolesDescription
    executor: Any

    @property
    def n_rows(self) -> int:
        """The number of vectors."""
        return _groups(self.description.vectors).n_rows

    def perform(self, task: RolesTask) -> None:
        """Do one task, unless its output is there."""
        self.description.perform(task)

    def sample(self, size: int, seed: int) -> Floats:
        """What `sample_rows` gives of all vectors.  -> (m, d)"""
        positions = sampled_positions(self.n_rows, size, seed)
        keys, counts = _added_up(self._read(task) for task in self._run("keys"))
        before = np.concatenate([[0], np.cumsum(counts)])  # vectors whose first number is smaller
        chosen = np.unique(np.searchsorted(before, positions, side="right") - 1)
        self.parts.write("wanted", [keys[chosen]])
        rows, counts = _added_up(self._read(task) for task in self._run("rows"))
        width = rows.dtype.itemsize // 4
        vectors = rows.view(np.float32).reshape(-1, width)
        group = np.searchsorted(keys, first_numbers(vectors))
        inside = np.cumsum(counts) - counts
        first_of_group = inside[np.searchsorted(group, group)]
        starts = before[group] + inside - first_of_group  # the place of each distinct vector among all
        return np.ascontiguousarray(vectors[np.searchsorted(starts, positions, side="right") - 1])

    def assign(self, parameters: Parameters) -> Assignment:
        """What `Parameters.assign` gives of all vectors."""
        path = f"{self.description.parts}{PARAMETERS}"
        with to_store(place(path)) as here:
            save_parameters(parameters, here)
        self.description = replace(self.description, parameters=path)
        outputs = list(zip(*(self._read(task, len(parameters.centers)) for task in self._run("assign")), strict=True))
        place(path).unlink(missing_ok=True)
        labels, confidence, distances, memberships = map(np.concatenate, outputs)
        return Assignment(labels, confidence, memberships, distances)

    def _run(self, kind: str) -> list[RolesTask]:
        tasks = [RolesTask(kind, part) for part in range(-(-self.n_rows // (AT_A_TIME * CHUNK_ROWS)))]
        for _ in self.executor.run(self, tasks):
            pass
        return tasks

    @property
    def parts(self) -> Parts:
        """What tasks wrote."""
        return Parts(place(self.description.parts), self.description.fingerprint)

    def _read(self, task: RolesTask, k: int = 0) -> tuple[Array, ...]:
        """The arrays of the output of a task; those with counts as values and counts."""
        raw = self.parts.read(task.name, (self.parts.size(task.name),), np.uint8)
        if task.kind == "keys":
            count = len(raw) // 12
            return raw[: 4 * count].view(np.uint32), raw[4 * count :].view(np.int64)
        if task.kind == "rows":
            row = np.dtype((np.void, 4 * _groups(self.description.vectors).width))
            count = len(raw) // (8 + row.itemsize)
            return raw[8 * count :].view(row), raw[: 8 * count].view(np.int64)
        count = len(raw) // (12 + 4 * k)
        labels, confidence, distances = (raw[4 * i * count : 4 * (i + 1) * count] for i in range(3))
        memberships = raw[12 * count :].view(np.float32).reshape(count, k)
        return labels.view(np.int32), confidence.view(np.float32), distances.view(np.float32), memberships


def _added_up(parts: Iterator[tuple[Array, ...]]) -> tuple[Array, Ints]:
    """Distinct values of all parts, ascending, with their counts added up."""
    values, counts = zip(*parts, strict=True)
    distinct, which = np.unique(np.concatenate(values), return_inverse=True)
    return distinct, np.bincount(which.reshape(-1), np.concatenate(counts), len(distinct)).astype(np.int64)


def vectors_by_parts(
    vectors: str | os.PathLike[str], shared: str, about: Sequence[Any], executor: Any
) -> VectorsByParts:
    """Vectors in files; `shared` is what names of files begin with that all hosts see, `about` what roles depend on."""
    parts = Parts.open(f"{shared}{FOLDER}", {"about": list(about), "versions": versions_of("numpy", "scikit-learn")})
    return VectorsByParts(RolesDescription(os.fspath(vectors), os.fspath(parts.folder), parts.fingerprint), executor)


def fit_roles_on_cluster(
    roles: Roles, vectors: str | os.PathLike[str], checksum: str, cluster: Cluster, **options: Any
) -> Roles:
    """These roles, fitted on the vectors in a file by tasks on a cluster; `checksum` is that of the file."""
    assert cluster.shared is not None
    about = [
        SAMPLE_ROWS,
        checksum,
        json.dumps({"k": roles.k, "max_k": roles.max_k, "seed": roles.seed, "weights": roles.weights}),
    ]
    with connected(cluster.address, cores=cluster.cores or 1) as executor:
        source = vectors_by_parts(vectors, cluster.shared, about, executor)
        roles.fit_from(source, **options)
    source.parts.remove()
    return roles
