"""The tasks that embed a graph from files to files: `project` and `gather`, per level and part.

Each reads what other tasks wrote and writes one file, whole or not at all, and does nothing where
that file is there: done twice, in another process or after a crash, the result is the same bytes.

    project(k, part)          the rows that level k averages: W x where that is narrower, else x itself
    gather(k, part, stripe)   their mean({u} ∪ N(u)); with one stripe, the vectors of level k at once
    finish(k, part)           with several stripes: the vectors of level k from the stripes of means
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from rae.engine.exact import after, before, by_tiles, mean, neighborhoods, projects
from rae.engine.layout import Layout
from rae.engine.rows import FeatureRows
from rae.graph import Graph
from rae.io.embeddings import rounded
from rae.model.encoder import Encoder, Level
from rae.ops.intrinsics import aligned
from rae.runtime import torch_alone
from rae.storage.parts import Parts

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Job:
    """One encoder and one graph, and where the parts go."""

    name: str
    encoder: Encoder
    graph: Graph
    features: FeatureRows
    parts: Parts
    layout: Layout
    kept: np.dtype[Any]  # precision of the numbers on disk and of the rows that are averaged
    fanout: tuple[int, ...] | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        self.encoder.eval()

    @property
    def levels(self) -> list[Level]:
        """The levels, the first one first."""
        return self.encoder.stack()

    def bounds(self, part: int) -> tuple[int, int]:
        """The rows of a part."""
        return self.layout.parts()[part]

    def width(self, k: int) -> int:
        """Columns of the vectors of level k."""
        return int(self.levels[k].aggregate.weight.shape[1])

    def projects(self, k: int) -> bool:
        """Whether level k projects before it averages."""
        return projects(self.levels[k], k > 0 or self.features.dense)

    def stripes(self, k: int) -> list[tuple[int, int]]:
        """The stripes of the columns that level k averages."""
        return self.layout.stripes(int(self.levels[k].aggregate.weight.shape[1 if self.projects(k) else 0]))

    def rows_name(self, k: int, part: int) -> str:
        """The file of the rows that level k averages."""
        return f"{self.name}-{k + 1}-rows-{part:05}"

    def means_name(self, k: int, part: int, stripe: int) -> str:
        """The file of a stripe of means."""
        return f"{self.name}-{k + 1}-means-{stripe:03}-{part:05}"

    def vectors_name(self, k: int, part: int) -> str:
        """The file of the vectors of level k."""
        return f"{self.name}-{k + 1}-vectors-{part:05}"

    def vectors(self, k: int, part: int) -> Array:
        """The vectors of level k, for one part.  -> (rows, width), float32"""
        a, b = self.bounds(part)
        found = self.parts.read(self.vectors_name(k, part), (b - a, self.width(k)), self.kept)
        return found.astype(np.float32, copy=False)


def project(job: Job, k: int, part: int) -> None:
    """Write the rows of one part that level k averages, stripe after stripe."""
    name = job.rows_name(k, part)
    if job.parts.has(name):
        return
    a, b = job.bounds(part)
    x: Any = job.features.rows(a, b) if k == 0 else job.vectors(k - 1, part)
    level = job.levels[k]
    if job.projects(k):
        out = np.empty((b - a, job.width(k)), np.float32)
        with torch_alone():
            by_tiles(lambda i, j: before(level, x, i, j), out, first=a)
        x = out
    job.parts.write(name, [rounded(x[:, left:right], job.kept) for left, right in job.stripes(k)])
    job.features.forget()


def averaged_rows(job: Job, k: int, stripe: int) -> Array:
    """One stripe of the rows that level k averages, of all nodes, in memory.  -> (n, columns)"""
    left, right = job.stripes(k)[stripe]
    out = aligned((job.graph.n_nodes, right - left), job.kept)
    for part, (a, b) in enumerate(job.layout.parts()):
        job.parts.read_into(job.rows_name(k, part), out[a:b], (b - a) * left * job.kept.itemsize)
    rows: Array = out.view(np.uint16) if job.kept == np.float16 else out  # as the kernel knows half precision
    return rows


def gather(job: Job, k: int, part: int, stripe: int, rows: Array) -> None:
    """Write the vectors of level k for one part, or where the rows are a stripe of several, its means."""
    alone = len(job.stripes(k)) == 1
    name = job.vectors_name(k, part) if alone else job.means_name(k, part, stripe)
    if job.parts.has(name):
        return
    a, b = job.bounds(part)
    level, moved = job.levels[k], job.projects(k)
    offsets, index = neighborhoods(job.graph, a, b, k, len(job.levels), job.fanout, job.seed)

    def work(i: int, j: int) -> torch.Tensor:
        means = mean(offsets[i : j + 1], index, rows, a + i)
        return after(level, means, moved) if alone else means

    out = np.empty((b - a, job.width(k) if alone else rows.shape[1]), np.float32)
    with torch_alone():
        by_tiles(work, out, first=a)
    job.parts.write(name, [rounded(out, job.kept) if alone else out])
    job.features.forget()


def finish(job: Job, k: int, part: int) -> None:
    """Write the vectors of level k for one part from its stripes of means."""
    name = job.vectors_name(k, part)
    if job.parts.has(name):
        return
    a, b = job.bounds(part)
    level, moved = job.levels[k], job.projects(k)
    stripes = [
        job.parts.read(job.means_name(k, part, s), (b - a, right - left))
        for s, (left, right) in enumerate(job.stripes(k))
    ]

    def work(i: int, j: int) -> torch.Tensor:
        return after(level, torch.from_numpy(np.hstack([means[i:j] for means in stripes])), moved)

    out = np.empty((b - a, job.width(k)), np.float32)
    with torch_alone():
        by_tiles(work, out, first=a)
    job.parts.write(name, [rounded(out, job.kept)])
