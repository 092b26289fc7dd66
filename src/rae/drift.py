"""Change over time: which roles grew, who moved, and who moved more than noise of the same size explains.

Two moments are embedded by one model and compared with noise: as many changes as lie between the two, at random places
(`rae.stability`). If nothing but that happened, the second moment is one more such view of the first, so any
count in it can be compared with the same count in the views, exactly and without independence:

    score     how far a node moved, over its own spread: how far the noise of the fit moves it, which drops a tenth of
              the edges; then over what is rare, in the views and the second moment, for nodes of like degree
    q         for a score: nodes of an average view that reach it, over nodes of the second moment that do
    overall   how often noise alone gives a q as low as the lowest one: every view is judged against the others, too
    alarm     q at most the rate, and overall at most the rate. Of the alarms about that share is noise, at most; where
              nothing but noise happened, the chance of any alarm is at most the rate
"""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rae.config import MORE_VIEWS, MOST_RATE, MOST_VIEWS, RATE, VIEWS
from rae.display import printable
from rae.errors import Argument, ConfigError, RunError
from rae.estimator import UNITS
from rae.features import FeatureTable
from rae.features.measures import degrees
from rae.graph import Graph
from rae.graph.ids import index_in, json_id, positions_in
from rae.ops.nearest import DECIMALS, Scale
from rae.progress import Progress, counter, of_stage
from rae.roles import Roles
from rae.roles.compare import Comparison, compare
from rae.runtime import key
from rae.stability import (
    as_compared,
    check_views,
    noise_of_fit,
    noisy_vectors,
    squared_distances_by_row,
)
from rae.stored_run import StoredRun
from rae.updates import UpdateFolder

Ints = np.ndarray[Any, np.dtype[np.int64]]
Floats = np.ndarray[Any, np.dtype[np.float32]]
Doubles = np.ndarray[Any, np.dtype[np.float64]]

SMALL = 50_000  # edges of a graph that is so small that more views cost little
SPREAD_VIEWS = 8  # views that measure how far noise moves each node
PRIOR = 4  # views that the spread of nodes of like degree weighs as much as
RARE = 0.99  # of the moves in the views, the share below what is rare
CLASS = 50  # nodes of like degree, at least
NAMED, LISTED = 5, 1_000  # alarms in a sentence, and in JSON


@dataclass(frozen=True, eq=False)
class Moment:
    """A graph at a time: ids and vectors by the model that both moments share; the graph where it is known."""

    ids: pa.Array
    z: Floats
    graph: Graph | None


@dataclass(frozen=True)
class Noise:
    """The noise that change is compared with: what a view drops and adds, and how many views there are."""

    dropped: float  # share of the edges
    added: int  # random pairs
    views: int
    measured: bool  # whether these are the changes between the two moments, or were set


@dataclass(frozen=True, eq=False)
class Drift:
    """What changed from one moment to another, and what of it noise explains. Print it."""

    comparison: Comparison  # roles before and after, who is new and gone, who changed role
    table: pa.Table  # per id in both: id, from, to, distance, noise, score, p, q, alarm
    overall: float  # how often noise alone looks as unlike noise as this
    role_p: Doubles  # (k,) how often noise alone changes the size of a role as much
    threshold: float  # the least score of an alarm; infinite where there is none
    by_chance: Ints  # (views,) nodes of each view whose score is as high
    noise: Noise
    rate: float
    units: str
    names: dict[Any, str]  # display names of the alarms that have some

    @cached_property
    def alarms(self) -> pa.Table:
        """The rows of `table` that moved more than noise explains, the highest score first."""
        chosen = self.table.filter(self.table.column("alarm"))
        return chosen.sort_by([("score", "descending")])

    def as_dict(self) -> dict[str, Any]:
        """Everything but the table, as JSON holds it; of the alarms the first thousand."""
        facts = self.comparison.as_dict()
        for role, p in zip(facts["roles"], self.role_p, strict=True):
            role["p"] = round(float(p), 4)
        return facts | {
            "units": self.units,
            "rate": self.rate,
            "overall": round(self.overall, 6),
            "noise": vars(self.noise),
            "n_alarms": self.alarms.num_rows,
            "by_chance": round(float(self.by_chance.mean()), 4) if len(self.by_chance) else 0.0,
            "alarms": [self._plain(row) for row in self.alarms.slice(0, LISTED).to_pylist()],
        }

    def _plain(self, row: dict[str, Any]) -> dict[str, Any]:
        id = row.pop("id")
        named = {"name": self.names[id]} if id in self.names else {}
        numbers = {name: _finite(value) for name, value in row.items() if name != "alarm"}
        return {"id": json_id(id)} | named | numbers

    def sentences(self) -> list[str]:
        """What happened, in a few sentences."""
        facts = self.as_dict()
        grew = [r for r in facts["roles"] if r["p"] <= self.rate and r["after"] != r["before"]]
        sizes = [f"role {r['role']} from {r['before']:,} to {r['after']:,}" for r in grew]
        said = [
            f"{facts['common']:,} nodes are in both, {facts['new']:,} are new, {facts['gone']:,} are gone; "
            f"{facts['moved']:,} play another role",
            self._noise_in_words(),
            f"sizes that noise does not explain: {', '.join(sizes)}"
            if sizes
            else "noise explains the size of each role",
            self._alarms_in_words(),
        ]
        return [printable(text) for text in said]

    def _noise_in_words(self) -> str:
        noise = self.noise
        what = "as many changes as there are between the two" if noise.measured else "the noise"
        return (
            f"{what}, at random places: {100 * noise.dropped:.3g} % of the edges dropped and {noise.added:,} random "
            f"pairs added, {noise.views} times"
        )

    def _alarms_in_words(self) -> str:
        n = self.alarms.num_rows
        if not n:
            return f"no node moved more than noise explains (false alarms at most {100 * self.rate:g} %)"
        first = [self.names.get(id, id) for id in self.alarms.column("id").slice(0, NAMED).to_pylist()]
        return (
            f"{n:,} node{'s' if n > 1 else ''} moved more than noise explains, about {100 * self.rate:g} % of these by "
            f"chance at most: {', '.join(map(str, first))}{', ...' if n > NAMED else ''}"
        )

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def write_page(self, path: str | Path, *, title: str = "", force: bool = False) -> Path:
        """Write one HTML file that shows this, without a script or a network, and return its path."""
        # The layer of pages is above this one (docs/architecture.md), so it is imported by name.
        written: Path = importlib.import_module("rae.explore.drift").write_page(self, path, title=title, force=force)
        return written


def _finite(value: Any) -> Any:
    """A number as JSON has it: an infinite score is None."""
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value


# ----------------------------------------------------------------------------- from two moments to a Drift


def drift_of(
    run: StoredRun,
    other: Any = None,
    *,
    since: int | None = None,
    noise: float | None = None,
    views: int | None = None,
    rate: float = RATE,
    units: str | None = None,
    whole: bool = False,
    progress: Progress | None = None,
) -> Drift:
    """What changed from a run to another moment; see `Run.drift`."""
    _check(views, noise, rate, units)
    roles, model = run.roles(), run.cached_model
    if (other is None) == (since is None):
        raise RunError(
            "drift needs two moments: another run or its vectors, or ",
            *(Argument("since", ...), " with the number of an update of this run; one of both"),
        )
    if since is not None:
        graph, features = _at_update(run, since)
        other = run
    else:
        graph, features = run.graph(), run.features()
    after, units = _second(run, other, units, whole or other is run)
    first = Moment(graph.id_column, model.transform(graph, features, units=units, whole=True, progress=False), graph)
    number = _enough_views(rate, graph.n_edges) if views is None else views
    sizes = Noise(*_changes(first, after, model, noise), number, noise is None and after.graph is not None)
    return _compare(roles, model, first, features, after, sizes, rate, units, run.names(), progress)


def _check(views: Any, noise: Any, rate: Any, units: Any) -> None:
    """Refuse impossible settings."""
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 1 / MOST_VIEWS <= rate <= MOST_RATE:
        raise ConfigError(Argument("rate"), f" must be a share from {1 / MOST_VIEWS:g} to {MOST_RATE}, got {rate!r}")
    if units not in (None, *UNITS):
        raise ConfigError(Argument("units"), f" must be one of {', '.join(map(repr, UNITS))}, got {units!r}")
    check_views(VIEWS if views is None else views, noise)
    if views is not None and views < (least := _least_views(rate)):
        raise ConfigError(
            Argument("views", views),
            f" cannot show a rate of {rate:g}, which needs {least:,} views or more; pass more, or a higher ",
            Argument("rate"),
        )


def _least_views(rate: float) -> int:
    """Views that, with the moment itself, are enough for one in so many to be this rate."""
    return math.ceil(1 / rate - 1e-9) - 1


def _enough_views(rate: float, edges: int) -> int:
    """The default number of views: those that the rate needs, and more on small graphs."""
    return max(MORE_VIEWS if edges <= SMALL else VIEWS, _least_views(rate))


def _at_update(run: StoredRun, number: int) -> tuple[Graph, Any]:
    """Graph and features of a run after one of its updates, 0 for the fit; refused where that was folded."""
    folder = UpdateFolder(run.path)
    state = folder.state()
    run.graph()  # raises where there is none
    if state is None:
        raise RunError(f"the run in {run.path} was never updated; compare it with another run, or with vectors")
    earlier = folder.moment(state, number)
    return folder.graph(earlier), folder.features(earlier, run.base_features(state))


def _second(run: StoredRun, other: Any, units: str | None, whole: bool) -> tuple[Moment, str]:
    """The second moment by the model of the run, and the units of its vectors."""
    model = run.cached_model
    if isinstance(other, Graph):
        units = units or "fit"
        return Moment(other.id_column, model.transform(other, units=units, whole=whole, progress=False), other), units
    if getattr(other, "has_graph", False):
        units = units or "fit"
        graph, features = other.graph(), _features(run, other)
        z = model.transform(graph, features, units=units, whole=whole, progress=False)
        return Moment(graph.id_column, z, graph), units
    own = "graph" if getattr(model.config, "relative", False) else "fit"
    if units not in (None, own):
        raise ConfigError(
            Argument("units", units), f" needs the other graph, and {other.path} has vectors alone, in units of "
            f"{own!r}; give a run that keeps its graph",
        )  # fmt: skip
    if other.model_checksum != run.model_checksum:
        what = "another model" if other.model_checksum is not None else "a model that the file does not name"
        raise RunError(
            f"the vectors of {other.path} were made by {what}, so they cannot be compared with those of {run.path}; "
            f"embed that graph with the model of this run: rae embed {run.path} EDGES --out z.parquet"
        )
    ids, z = other.embeddings()
    return Moment(ids, z, None), own


def _features(run: StoredRun, other: Any) -> Any:
    """The features of the other run as the model of this one reads them."""
    if run.cached_model.structural:
        return None
    matrix = other.features()
    if matrix is None or other.model_checksum == run.model_checksum:
        return matrix
    if other.feature_names is None:
        raise RunError(
            f"the feature columns of {other.path} have no names, so the model of {run.path} cannot know which they "
            f"are; embed that graph with it: rae embed {run.path} EDGES --features FILE --out z.parquet"
        )
    return FeatureTable(other.ids(), matrix, other.feature_names)


def _changes(before: Moment, after: Moment, model: Any, noise: float | None) -> tuple[float, int]:
    """The noise to compare with: the share of edges to drop, and how many pairs to add.

    By default what happened between the two: edges at nodes of both that are gone, over all, and those that came.
    """
    assert before.graph is not None
    edges = before.graph.n_edges
    if noise is None and after.graph is not None:
        n_removed = edges_without(before.graph, after.graph)
        n_added = edges_without(after.graph, before.graph)
        return n_removed / max(edges, 1), n_added
    share = noise_of_fit(model) if noise is None else float(noise)
    return share, round(share * edges)


def edges_without(graph: Graph, other: Graph) -> int:
    """The edges of a graph that another one lacks, of those with an end that is a node of both."""
    rows_there = other.find(graph.id_column)
    ends = rows_there[graph.edges()]
    both, one = (ends >= 0).all(1), (ends >= 0).any(1)
    common = int(other.adjacent(ends[both, 0], ends[both, 1]).sum())
    return int(one.sum()) - common


def _compare(
    roles: Roles, model: Any, before: Moment, features: Any, after: Moment, noise: Noise, rate: float, units: str,
    names: pa.Array | None, progress: Progress | None,
) -> Drift:  # fmt: skip
    comparison = compare(roles, before.ids, before.z, after.ids, after.z)
    assert before.graph is not None
    column = comparison.table.column("id").combine_chunks()
    rows, matched = (positions_in(column, ids) for ids in (before.ids, after.ids))
    first = as_compared(roles, before.z)
    unit = Scale.of(first).unit

    def shift(z: Floats) -> Doubles:
        """The distance that each row moved, as `similar` counts: rounding of float32 is no move."""
        out: Doubles = np.round(np.sqrt(squared_distances_by_row(as_compared(roles, z), first[rows])) / unit, DECIMALS)
        return out

    moved = shift(after.z[matched])

    shifts, sizes = np.zeros((noise.views, len(rows))), np.tile(comparison.before, (noise.views, 1))
    squares = np.zeros(len(rows))
    if noise.dropped or noise.added:  # else every view is the graph itself
        # Other views for each comparison: with the same ones, a run whose views happen to be quiet would raise false
        # alarms night after night. Two moments that are the same again have the same views.
        sizes_after = map(int, comparison.after)
        seed = int(key(model.config.seed, "drift", noise.added, repr(noise.dropped), *sizes_after) >> np.uint64(33))
        view_settings: Any = {"model": model, "graph": before.graph, "features": features, "units": units, "seed": seed}
        report_view = counter(of_stage(progress, "views"), SPREAD_VIEWS + noise.views)
        for z in noisy_vectors(**view_settings, views=SPREAD_VIEWS, dropped=noise_of_fit(model), first=noise.views):
            squares += shift(z[rows]) ** 2
            report_view()
        noisy = noisy_vectors(**view_settings, views=noise.views, dropped=noise.dropped, added=noise.added)
        for number, z in enumerate(noisy):
            shifts[number], sizes[number] = shift(z[rows]), roles.assign(z).sizes
            report_view()
    classes = like_degrees(degrees(before.graph)[rows])
    spread = moderated(squares / SPREAD_VIEWS, classes)
    score, by_view = scores(moved, shifts, spread, classes)
    p, q = chances(score, by_view)
    overall = chance_of_all(score, by_view)
    alarm = (q <= rate + 1e-12) & (score > 0) & (overall <= rate + 1e-12)
    threshold = float(score[alarm].min()) if alarm.any() else math.inf
    table = pa.table(
        {name: comparison.table.column(name) for name in ("id", "from", "to")}
        | {"distance": moved, "noise": spread, "score": score, "p": p, "q": q, "alarm": alarm}
    )
    by_chance = (by_view >= threshold).sum(1) if alarm.any() else np.zeros(noise.views, np.int64)
    change = np.abs(comparison.after - comparison.before)
    role_p = (1 + (np.abs(sizes - comparison.before) >= change).sum(0)) / (noise.views + 1)
    named = _names(names, before.ids, column.filter(pa.array(alarm)))
    return Drift(comparison, table, overall, role_p, threshold, by_chance, noise, rate, units, named)


def _names(names: pa.Array | None, ids: pa.Array, some: pa.Array) -> dict[Any, str]:
    if names is None or not len(some):
        return {}
    texts = names.take(index_in(some, ids))
    pairs = zip(some.to_pylist(), texts.to_pylist(), strict=True)
    return {id: name for id, name in pairs if name is not None}


# ----------------------------------------------------------------------------- the test


def like_degrees(degree: Any) -> Ints:
    """Classes of nodes of like degree, by powers of two, of 50 nodes or more where there are as many.  (n,) -> (n,)"""
    powers = np.log2(np.maximum(np.asarray(degree, np.float64), 0.5)).astype(np.int64)
    values, place, count = np.unique(powers, return_inverse=True, return_counts=True)
    number, room = np.zeros(len(values), np.int64), 0
    for i in range(1, len(values)):
        room += int(count[i - 1])
        full = room >= CLASS and int(count[i:].sum()) >= CLASS
        number[i] = number[i - 1] + full
        room = 0 if full else room
    out: Ints = number[place]
    return out


def moderated(squares: Doubles, classes: Ints) -> Doubles:
    """The spread of each node: root mean squares of few views, drawn to those of its class.  (n,), (n,) -> (n,)"""
    typical = np.bincount(classes, squares) / np.bincount(classes)
    share = SPREAD_VIEWS / (SPREAD_VIEWS + PRIOR)
    out: Doubles = np.sqrt(share * squares + (1 - share) * typical[classes])
    return out


def scores(moved: Doubles, shifts: Doubles, spread: Doubles, classes: Ints) -> tuple[Doubles, Doubles]:
    """How far each node moved over its spread, then over what is rare in its class; and the same of every view.

    What is rare is found in the views and the moment alike: a moment that is one more view is treated as any other.
    (n,), (v, n), (n,), (n,) -> (n,), (v, n)
    """
    every = _over(np.concatenate([moved[None], shifts]), spread)
    positive = every[(every > 0) & np.isfinite(every)]
    rare = np.full(int(classes.max()) + 1, np.quantile(positive, RARE) if len(positive) else 1.0)
    for number in range(len(rare)):
        here = every[:, classes == number]
        here = here[(here > 0) & np.isfinite(here)]
        if len(here) >= CLASS:
            rare[number] = np.quantile(here, RARE)
    every /= rare[classes]
    return every[0], every[1:]


def _over(distance: Doubles, spread: Doubles) -> Doubles:
    """Distances in units of a spread: 0 for what did not move, infinite for what moved where nothing ever does."""
    with np.errstate(divide="ignore", invalid="ignore"):
        out: Doubles = np.where(distance > 0, distance / spread, 0.0)
    return out


def chances(score: Doubles, by_view: Doubles) -> tuple[Doubles, Doubles]:
    """p and q of each score: the share of all views' scores that reach it, and of false alarms at that score.

    (n,), (v, n) -> (n,), (n,)

    >>> p, q = chances(np.array([9.0, 1.0]), np.array([[1.0, 2.0], [3.0, 1.0], [1.0, 1.0]]))
    >>> p.round(2).tolist(), q.tolist()
    ([0.14, 1.0], [0.25, 0.875])
    """
    views = len(by_view)
    noise = np.sort(by_view, axis=None)
    reach = len(noise) - np.searchsorted(noise, score, "left")
    as_high = len(score) - np.searchsorted(np.sort(score), score, "left")
    p: Doubles = (1 + reach) / (len(noise) + 1)
    share = np.minimum((1 + reach) / ((views + 1) * as_high), 1.0)
    order = np.argsort(score, kind="stable")  # a higher score is never less of an alarm
    q = np.empty_like(share)
    q[order] = np.minimum.accumulate(share[order])
    return p, q


def chance_of_all(score: Doubles, by_view: Doubles) -> float:
    """How often noise alone gives a lowest q as low as that of these scores: each view is judged as they are.

    (n,), (v, n) -> a multiple of 1 / (v + 1). Scores that are one more view have any such chance alike.
    """
    values = np.concatenate([score[None], by_view])
    among, n = values.shape
    order = np.argsort(-values, axis=None, kind="stable")
    ordered = values.ravel()[order]
    whose = order // n
    ends = np.append(np.flatnonzero(ordered[1:] != ordered[:-1]), len(ordered) - 1)  # the last of equal scores
    ends = ends[ordered[ends] > 0]
    lowest = np.full(among, np.inf)
    for one in range(among):
        own = np.cumsum(whose == one)[ends]
        some = own > 0
        if some.any():
            lowest[one] = ((2 + ends[some] - own[some]) / own[some]).min()
    return float((lowest <= lowest[0]).sum() / among)
