"""How sure a vector and a role are: what noise of a known size does to each node, over views of its graph.

A view is the graph with some edges dropped and random pairs added (`rae.model.structure.view`), embedded by the same
model. How far a node moves from view to view separates change from noise (`rae.drift`), and how often it keeps its
role is the target that its reliability is calibrated to.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from rae.blocks import weighted
from rae.config import MOST_VIEWS, VIEWS, ExactConfig
from rae.errors import Argument, ConfigError
from rae.features.measures import degrees
from rae.graph import Graph
from rae.model.structure import sample_rows, view
from rae.ops.nearest import Scale, nearest_rows
from rae.progress import Progress, counter, of_stage
from rae.roles import Roles
from rae.stored_run import StoredRun

Ints = np.ndarray[Any, np.dtype[np.integer[Any]]]
Floats = np.ndarray[Any, np.dtype[np.float32]]
Doubles = np.ndarray[Any, np.dtype[np.float64]]

FIRST_VIEW = 1_000_000  # views of other numbers than those of the fit, which has at most a thousand
NEAREST_SAMPLE = 5_000  # rows among which the nearest other vector is searched
FITTED = 20_000  # nodes that the calibration is fitted on
BINS = 10  # of the table of calibration


# ----------------------------------------------------------------------------- views


def noisy_vectors(
    model: Any,
    graph: Graph,
    features: Any,
    *,
    views: int,
    dropped: float,
    added: int | None = None,
    first: int = 0,
    seed: int | None = None,
    units: str | None = "fit",
) -> Iterator[Floats]:
    """The vectors of each view: a share of the edges dropped and `added` random pairs added, by default as many.

    Views from another `first` are others, and those of another `seed` than that of the fit.
    """
    config = ExactConfig(noise=dropped, seed=model.config.seed if seed is None else seed)
    for number in range(views):
        noisy = view(graph, config, FIRST_VIEW + first + number, added)
        yield model.transform(noisy, features, units=units, whole=True, progress=False)


def noise_of_fit(model: Any) -> float:
    """The share of edges that the views of a fit drop; of a trained model, which has none, that of an exact one."""
    return float(getattr(model.config, "noise", ExactConfig().noise))


def as_compared(roles: Roles, z: Any) -> Floats:
    """The vectors as these roles compare them: weighted and scaled.  (n, d) -> (n, e)"""
    return weighted(z, roles.parameters.blocks, roles.parameters.weights or None)


def squared_distances_by_row(x: Any, y: Any) -> Doubles:
    """Squared distance of each row of x from the row of y.  (n, d), (n, d) -> (n,)"""
    difference = np.subtract(x, y, dtype=np.float64)
    out: Doubles = np.einsum("nd,nd->n", difference, difference)
    return out


def check_views(views: Any, noise: Any) -> None:
    """Refuse a number of views, or a share of noise, out of range."""
    if isinstance(views, bool) or not isinstance(views, int) or not 2 <= views <= MOST_VIEWS:
        raise ConfigError(Argument("views"), f" must be a whole number from 2 to {MOST_VIEWS:,}, got {views!r}")
    if noise is not None and (isinstance(noise, bool) or not isinstance(noise, int | float) or not 0 < noise <= 1):
        raise ConfigError(Argument("noise"), f" must be a share of the edges above 0 and up to 1, got {noise!r}")


# ----------------------------------------------------------------------------- reliability


@dataclass(frozen=True, eq=False)
class Reliability:
    """How sure the role of every node is, and why: in the rows of the run."""

    ids: pa.Array
    roles: Ints  # (n,)
    confidence: Doubles  # (n,) the membership in the role
    reliability: Doubles  # (n,) the chance that the node keeps its role under the noise
    kept: Doubles  # (n,) the share of the views in which it does
    spread: Doubles  # (n,) how far noise moves it, root mean square; 1 is the distance of two nodes taken at random
    degree: Ints  # (n,)
    distance: Doubles  # (n,) from the nearest other node that the fit has seen, in the same unit
    noise: float
    views: int

    @cached_property
    def table(self) -> pa.Table:
        """A row per node: id, role, confidence, reliability, kept, spread, degree, distance."""
        columns = ("confidence", "reliability", "kept", "spread", "distance")
        numbers = {name: pa.array(np.asarray(getattr(self, name), np.float32)) for name in columns}
        numbers["degree"] = pa.array(np.asarray(self.degree, np.int64))
        order = ("confidence", "reliability", "kept", "spread", "degree", "distance")
        roles = pa.array(np.asarray(self.roles, np.int32))
        return pa.table({"id": self.ids, "role": roles} | {name: numbers[name] for name in order})

    def to_pandas(self) -> Any:
        """The table as a pandas frame, with the ids as its index."""
        from rae.graph.frames import to_pandas

        return to_pandas(self.table)

    def as_dict(self) -> dict[str, Any]:
        """The summary as JSON holds it: by role, and for all nodes."""
        by_role = []
        for role in range(int(self.roles.max()) + 1):
            chosen = self.reliability[self.roles == role]
            if len(chosen):
                by_role.append({"role": role, "nodes": len(chosen), **_quartiles(chosen)})
        return {
            "noise": self.noise,
            "views": self.views,
            "nodes": len(self.roles),
            **_quartiles(self.reliability),
            "roles": by_role,
        }

    def __str__(self) -> str:
        """A line for all nodes, and one per role."""
        facts = self.as_dict()
        head = (
            f"with {100 * self.noise:g} % of the edges dropped and as many random ones added, "
            f"{100 * facts['mean']:.0f} % of {facts['nodes']:,} nodes keep their role"
        )
        lines = [
            f"role {r['role']}: {100 * r['mean']:.0f} % of {r['nodes']:,} nodes; middle half {r['low']:.2f} to "
            f"{r['high']:.2f}"
            for r in facts["roles"]
        ]
        return "\n".join([head, *lines])


def _quartiles(values: Doubles) -> dict[str, float]:
    low, median, high = np.quantile(values, [0.25, 0.5, 0.75])
    return {name: round(float(v), 4) for name, v in zip(("mean", "low", "median", "high"),
                                                        (values.mean(), low, median, high), strict=True)}  # fmt: skip


def reliability_of(
    run: StoredRun, *, noise: float | None = None, views: int = VIEWS, progress: Progress | None = None
) -> Reliability:
    """How sure the role of every node of a run is; see `Run.reliability`."""
    check_views(views, noise)
    roles, graph, features, model = run.roles(), run.graph(), run.features(), run.cached_model
    noise = noise_of_fit(model) if noise is None else float(noise)
    z = model.transform(graph, features, units="fit", progress=False)
    assignment = roles.assign(z)
    counted = as_compared(roles, z)
    scale = Scale.of(counted)
    keeps_role, squares = np.zeros((views, len(z)), bool), np.zeros((views, len(z)), np.float32)
    report_view = counter(of_stage(progress, "views"), views)
    for number, z_of_view in enumerate(noisy_vectors(model, graph, features, views=views, dropped=noise)):
        keeps_role[number] = roles.assign(z_of_view).labels == assignment.labels
        squares[number] = squared_distances_by_row(as_compared(roles, z_of_view), counted)
        report_view()
    degree, distance = np.asarray(degrees(graph)), _distance_to_nearest(counted, model.config.seed)
    signs = np.stack([np.log1p(degree), np.log1p(distance)], 1)
    return Reliability(
        graph.id_column, assignment.labels, assignment.confidence.astype(np.float64),
        calibrated(keeps_role, squares, role_margins(roles, z), signs), keeps_role.mean(0),
        np.sqrt(squares.mean(0, dtype=np.float64)) / scale.unit, degree, distance, noise, views,
    )  # fmt: skip


def _distance_to_nearest(z: Floats, seed: int) -> Doubles:
    """The distance of each row from the nearest other one, of a sample of all.  (n, d) -> (n,)"""
    sample = sample_rows(len(z), NEAREST_SAMPLE, seed)
    place = np.full(len(z), -1, np.int64)
    place[sample] = np.arange(len(sample))
    nearest = nearest_rows(np.ascontiguousarray(z[sample]), z, 1, skip=place)[1]
    out: Doubles = np.where(np.isfinite(nearest[:, 0]), nearest[:, 0], 0.0).astype(np.float64)
    return out


def role_margins(roles: Roles, z: Floats) -> Doubles:
    """How far each row is from the border of its role with the nearest other one; 0 with one role.  (n, d) -> (n,)"""
    from sklearn.metrics.pairwise import euclidean_distances

    centers = roles.parameters.centers
    if len(centers) == 1:
        return np.zeros(len(z))
    between = euclidean_distances(centers)
    squared = euclidean_distances(roles.parameters.project(z), centers, squared=True)
    own = squared.argmin(1)
    rows = np.arange(len(z))
    distances = between[own]
    distances[rows, own] = np.inf
    borders = (squared - squared[rows, own][:, None]) / (2 * np.maximum(distances, 1e-300))
    borders[rows, own] = np.inf
    out: Doubles = borders.min(1)
    return out


def calibrated(
    keeps_role: np.ndarray[Any, np.dtype[np.bool_]], squares: Any, margin: Doubles, signs: Doubles
) -> Doubles:
    """The chance that a node keeps its role in a further view.  (views, n) bool, (views, n), (n,), (n, s) -> (n,)

    A share of few views is too sure of itself: 19 of 19 is not 1. A logistic regression says, view by view, whether a
    node keeps its role, from what the other views say of it (how often it keeps its role, and how far it moves, alone
    and beside its margin) and from signs of its own. Every view is the target once, and nothing is predicted from
    itself.
    """
    from sklearn.linear_model import LogisticRegression

    views, n = keeps_role.shape
    counts, total = keeps_role.sum(0), squares.sum(0, dtype=np.float64)
    if counts.min() == views or counts.max() == 0:
        return np.full(n, (counts.sum() + 0.5) / (views * n + 1))
    least = max(float(np.median(total)) / views * 1e-6, 1e-24)

    def columns(count: Any, moved: Any, of: int, rows: Any) -> Doubles:
        spread = np.sqrt(np.maximum(moved / of, least))
        odds = np.log((count + 0.5) / (of - count + 0.5))
        return np.column_stack([odds, np.log1p(margin[rows] / spread), np.log(spread), signs[rows]])

    rows = sample_rows(n, FITTED, 0)
    left_out = [columns((counts - one)[rows], (total - moved)[rows], views - 1, rows)
                for one, moved in zip(keeps_role, squares, strict=True)]  # fmt: skip
    x, y = np.concatenate(left_out), keeps_role[:, rows].ravel()
    center, deviation = x.mean(0), np.maximum(x.std(0), 1e-9)
    chance = LogisticRegression(C=1.0, max_iter=1000).fit((x - center) / deviation, y)
    all_views = columns(counts, total, views, np.arange(n))
    out: Doubles = chance.predict_proba((all_views - center) / deviation)[:, 1]
    return out


def calibration(reliability: Any, keeps_role: Any, bins: int = BINS) -> list[dict[str, float]]:
    """The table of a calibration: nodes by their reliability, its mean, and the share that kept their role.

    >>> calibration([0.05, 0.95, 0.95, 0.95, 0.95], [0, 1, 1, 1, 0], bins=2)
    [{'from': 0.0, 'to': 0.5, 'nodes': 1, 'said': 0.05, 'kept': 0.0}, {'from': 0.5, 'to': 1.0, 'nodes': 4, 'said': 0.95, 'kept': 0.75}]
    """  # noqa: E501
    chance, keeps = np.asarray(reliability, np.float64), np.asarray(keeps_role, np.float64)
    place = np.clip((chance * bins).astype(int), 0, bins - 1)
    table = []
    for i in range(bins):
        chosen = place == i
        if chosen.any():
            row: dict[str, float] = {"from": i / bins, "to": (i + 1) / bins, "nodes": int(chosen.sum())}
            means = {"said": round(float(chance[chosen].mean()), 4), "kept": round(float(keeps[chosen].mean()), 4)}
            table.append(row | means)
    return table


def calibration_error(table: list[dict[str, float]]) -> float:
    """The expected calibration error: how far `said` and `kept` are apart, weighted by nodes."""
    total = sum(row["nodes"] for row in table)
    return sum(row["nodes"] * abs(row["said"] - row["kept"]) for row in table) / max(total, 1)
