"""The coordinates by which the page weighs blocks: each block on its principal axes, quantised as finely as fits.

A step is a share of how far apart near nodes are in its block, so that every block is equally fine; axes along
which all nodes are within a step are dropped. What that costs is measured and said.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rae.blocks import Block
from rae.explore.marks import Marks
from rae.runtime import generator, libraries_alone

Floats = np.ndarray[Any, np.dtype[np.float32]]
Doubles = np.ndarray[Any, np.dtype[np.float64]]
Ints = np.ndarray[Any, np.dtype[np.int64]]

MOST_BYTES = 5_000_000  # of coordinates on the page, deflated
ERRORS = tuple(0.0125 * 2 ** (i / 4) for i in range(32))  # of the distance of near nodes, in a block: fine to coarse
NEAR, TRIALS = 10, 200  # near is the tenth nearest; nodes by which it and the agreement are measured
LARGEST_CODE = 65_535


@dataclass(frozen=True, eq=False)
class Coordinates:
    """The blocks that a reader can weigh, for the page; the codes of all, block after block; the agreement."""

    blocks: list[dict[str, Any]]  # empty where there is nothing to weigh
    arrays: dict[str, np.ndarray[Any, Any]]  # "wide": (axes, marks) uint16, "narrow": (axes, marks) uint8
    agreement: float = 1.0  # share of the exact nearest that these coordinates find too


@dataclass(frozen=True, eq=False)
class _RotatedBlock:
    """A block at the scale at which it is weighed, turned onto its principal axes, the longest first."""

    block: Block
    x: Doubles  # (marks, width), each column from 0 on
    deviations: Doubles  # (width,) standard deviations, descending
    near: float  # median distance of the tenth nearest

    @property
    def variance(self) -> float:
        return float(np.square(self.deviations).sum())

    def step(self, error: float) -> tuple[float, int]:
        """The step with which near distances are off by about `error` of themselves, and the axes that are kept."""
        step, axes = 0.0, len(self.deviations)
        for _ in range(4):
            step = max(error * self.near * math.sqrt(6 / axes), float(self.x.max()) / LARGEST_CODE)
            axes = max(1, int((self.deviations > step / 2).sum()))
        return step, axes

    def codes(self, error: float) -> Ints:
        """(marks, axes)"""
        step, axes = self.step(error)
        out: Ints = np.round(self.x[:, :axes] / step).astype(np.int64)
        return out


def block_coordinates(
    vectors: Floats, marks: Marks, blocks: Sequence[Block], weights: Mapping[str, float] | None
) -> Coordinates:
    """The coordinates of the vectors of all marks, as fine as the page has room for.  (m, d) -> (axes, m)"""
    counts = np.bincount(marks.of)
    trials = np.sort(generator(0, "coordinates").permutation(len(vectors))[:TRIALS])
    with libraries_alone("blas"):
        parts = [_rotate(vectors, counts, block, trials) for block in blocks]
        turned = [part for part in parts if part is not None]
        if len(turned) < 2:
            return Coordinates([], _arrays([], len(vectors)))
        fits = bisect_left(ERRORS, -float(MOST_BYTES), key=lambda e: -_deflated_bytes(turned, e))
        error = ERRORS[min(fits, len(ERRORS) - 1)]
        chosen = {b.name: b.weight if weights is None else weights.get(b.name, b.weight) for b in blocks}
        agreement = _agreement(turned, error, chosen, marks, trials)
    described, codes = [], []
    for part in turned:
        step, axes = part.step(error)
        own = part.codes(error)
        wide = own.max(axis=0) > 255
        codes.append((own[:, wide], own[:, ~wide]))
        described.append(
            {
                "name": part.block.name,
                "about": part.block.about,
                "weight": chosen[part.block.name],
                "width": part.block.width,
                "wide": int(wide.sum()),
                "narrow": int((~wide).sum()),
                "kept": round(float(np.square(part.deviations[:axes]).sum()) / part.variance, 4),
                "step": step,
                "variance": part.variance,
            }
        )
    return Coordinates(described, _arrays(codes, len(vectors)), agreement)


def _rotate(vectors: Floats, counts: Ints, block: Block, trials: Ints) -> _RotatedBlock | None:
    """The block on its axes; None where it is the same for all nodes."""
    x = vectors[:, block.start : block.stop].astype(np.float64) / math.sqrt(block.variance or 1.0)
    x -= np.average(x, axis=0, weights=counts)
    values, axes = np.linalg.eigh((x.T * counts) @ x / counts.sum())
    values, axes = np.maximum(values[::-1], 0), axes[:, ::-1]
    if values.sum() < 1e-12:
        return None
    x = x @ (axes * np.where(axes[np.abs(axes).argmax(axis=0), np.arange(axes.shape[1])] < 0, -1, 1))
    squared = _squared_distances_to_all(x, trials)
    near = np.sqrt(np.partition(squared, k := min(NEAR, len(x) - 1), axis=1)[:, k])
    near = near[near > 1e-6 * math.sqrt(values.sum())]
    typical = float(np.median(near)) if len(near) else math.sqrt(values.sum()) / NEAR
    return _RotatedBlock(block, x - x.min(axis=0), np.sqrt(values), typical)


def _squared_distances_to_all(x: Doubles, rows: Ints) -> Doubles:
    """From these rows to all.  (m, d), (q,) -> (q, m)"""
    squares = np.einsum("ij,ij->i", x, x)
    out: Doubles = np.maximum(squares[rows, None] + squares - 2 * x[rows] @ x.T, 0)
    return out


def _deflated_bytes(turned: Sequence[_RotatedBlock], error: float) -> float:
    """About how many bytes the codes take once deflated: their entropy."""
    bits = 0.0
    for part in turned:
        for column in part.codes(error).T:
            counts = np.bincount(column)
            counts = counts[counts > 0]
            bits += float((counts * np.log2(len(column) / counts)).sum())
    return bits / 8


def _agreement(
    turned: Sequence[_RotatedBlock], error: float, weights: Mapping[str, float], marks: Marks, trials: Ints
) -> float:
    """The share of the exact nearest of some marks that are nearest by the codes too."""
    squared: Any = sum(
        np.square(weights[part.block.name] * part.step(error)[0])
        * _squared_distances_to_all(part.codes(error).astype(np.float64), trials)
        for part in turned
    )
    squared[np.arange(len(trials)), trials] = np.inf
    exact = marks.neighbors[trials, :NEAR]
    order = np.argsort(squared, axis=1, kind="stable")[:, :NEAR]
    hits = sum(len(set(a) & set(b)) for a, b in zip(exact.tolist(), order.tolist(), strict=True))  # no mark is -1
    return hits / max(int((exact >= 0).sum()), 1)


def _arrays(codes: Sequence[tuple[Ints, Ints]], marks: int) -> dict[str, np.ndarray[Any, Any]]:
    wide = [np.empty((0, marks), np.int64), *(part.T for part, _ in codes)]
    narrow = [np.empty((0, marks), np.int64), *(part.T for _, part in codes)]
    return {
        "wide": np.concatenate(wide).astype(np.uint16),
        "narrow": np.concatenate(narrow).astype(np.uint8),
    }
