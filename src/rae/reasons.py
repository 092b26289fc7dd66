"""Why a node plays its role: which measures and which neighbours put it there, and which few edges would move it.

The lead of a role is how much nearer the node is to its centre than to that of the next role, in squared distances.
It is linear in the vector, and `place` is linear in the statistics of the node's surroundings, so what each of them
adds to the lead, compared with the members of the next role, is exact and adds up. Neighbours are left out one by one.
The change is searched greedily among edges of the node, and every step of it is made and its role read again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
import torch

from rae.blocks import block_factors
from rae.config import EDGES_LIMIT, MEASURES, MOST_EDGES
from rae.display import printable
from rae.edge_trials import Edge, EdgeTrials, NodeChangedError, sampled, search_change
from rae.errors import Argument, ConfigError, RunError
from rae.features.measures import degrees
from rae.graph import Graph
from rae.graph.ids import json_id
from rae.live_tables import ids_of, live_of
from rae.model.actions import Actions
from rae.model.channels import conform, measure_names, n_averaged
from rae.model.exact import ExactModel
from rae.model.structure import measured, moments_read, statistics, weights_of_measures
from rae.roles import Roles
from rae.runtime import torch_alone
from rae.search import row_of
from rae.stored_run import StoredRun

Ints = np.ndarray[Any, np.dtype[np.int64]]
Floats = np.ndarray[Any, np.dtype[np.float32]]
Doubles = np.ndarray[Any, np.dtype[np.float64]]
Part = tuple[str, float, float | None, float | None]  # name, contribution, value here, value among the others

ATTEMPTS = 3  # where updates change the edges of the node meanwhile
MEMBERS = 200  # of the next role, that a node is compared with
NAMED, LISTED = 4, 20  # reasons in a sentence, and in JSON
LEAST_SHARE = 0.03  # of the lead that is worth a line
WORDS = {"core": "core number", "four_cycles": "4-cycles"}
DISTANCES = {2: "two", 3: "three", 4: "four"}
BLOCKS = {
    "own": "what it does",
    "near": "what its neighbours do",
    "mid": "what is done two edges away",
    "far": "what is done up to four edges away",
    "around": "degrees and groups around it",
}


@dataclass(frozen=True)
class Reason:
    """One measure or feature: its value here and among members of the next role, and what it adds to the lead."""

    what: str
    contribution: float
    share: float  # of the lead over a typical member of the next role; all shares add up to 1
    value: float | None = None
    typical: float | None = None

    def __str__(self) -> str:
        text = self.what
        if self.value is not None and self.typical is not None:
            text += f" {_number(self.value)}, there typically {_number(self.typical)}"
        return f"{text} ({100 * self.share:+.0f} %)"


@dataclass(frozen=True)
class Neighbour:
    """A neighbour, its role, and the share of the lead that goes with the edge to it; below 0, the lead grows."""

    id: Any
    role: int
    share: float
    name: str | None = None


@dataclass(frozen=True)
class Change:
    """Edges whose removal and addition give the node another role, as a trial of all of them showed."""

    removed: tuple[Any, ...]
    added: tuple[Any, ...]
    role: int
    confidence: float


@dataclass(frozen=True)
class Why:
    """Why a node plays its role. Print it, or take `as_dict()`."""

    id: Any
    name: str | None
    role: int
    about: str
    confidence: float
    next_role: int | None  # the role it plays second most; None where there is one role alone
    next_about: str = ""
    next_membership: float = 0.0
    lead: float = 0.0  # over the next role, in squared distances
    gained: float = 0.0  # the lead less that of the members of the next role: what the reasons add up to
    reasons: tuple[Reason, ...] = ()
    degree: int = 0
    neighbours: tuple[Neighbour, ...] = ()  # that were left out in turn, those that hold it in its role first
    change: Change | None = None
    most_edges: int = MOST_EDGES
    trials: int = 0  # changes that were tried and undone
    to: int | None = None  # the role that was asked for
    names: dict[Any, str] = field(default_factory=dict)  # display names of the nodes that are spoken of

    def as_dict(self) -> dict[str, Any]:
        """Everything as JSON holds it; of the reasons the largest, and what the others add up to."""
        listed = self.reasons[:LISTED]
        rest = sum(reason.contribution for reason in self.reasons[LISTED:])
        change = self.change and {
            "removed": [json_id(id) for id in self.change.removed],
            "added": [json_id(id) for id in self.change.added],
            "role": self.change.role,
            "confidence": round(self.change.confidence, 4),
        }
        facts = {name: value for name, value in vars(self).items() if name != "names"}
        return facts | {
            "id": json_id(self.id),
            "confidence": round(self.confidence, 4),
            "next_membership": round(self.next_membership, 4),
            "reasons": [vars(reason) for reason in listed],
            "other_reasons": rest,
            "neighbours": [vars(n) | {"id": json_id(n.id)} for n in self.neighbours],
            "change": change,
            "sentences": self.sentences(),
        }

    def sentences(self) -> list[str]:
        """The answer as sentences."""
        said = [f"{self._title(self.id)} plays role {self.role}{_in_brackets(self.about)}, sure {self.confidence:.2f}"]
        if self.next_role is None:
            return [printable(f"{said[0]}: there is one role alone")]
        said.append(
            f"next is role {self.next_role}{_in_brackets(self.next_about)}, {self.next_membership:.2f}; compared with "
            f"its members: {', '.join(map(str, self._telling())) or 'no measure stands out'}"
        )
        said += [self._neighbours_in_words(), self._change_in_words()]
        return [printable(text) for text in said if text]

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def _title(self, id: Any) -> str:
        return str(self.names.get(id, id))

    def _telling(self) -> list[Reason]:
        """The largest reasons that speak for the role."""
        return [reason for reason in self.reasons if reason.share >= LEAST_SHARE][:NAMED]

    def _neighbours_in_words(self) -> str:
        if not self.neighbours:
            return "it has no neighbours"
        count = f"the {self.degree:,}" if len(self.neighbours) == self.degree else (
            f"{len(self.neighbours):,} of the {self.degree:,}")  # fmt: skip
        holding = [n for n in self.neighbours if n.share >= LEAST_SHARE][:NAMED]
        if not holding:
            return f"of {count} edges, left out in turn, none holds it there alone"
        named = [f"{self._title(n.id)} ({100 * n.share:.0f} % of the lead)" for n in holding]
        return f"of {count} edges, left out in turn, these hold it there most: {', '.join(named)}"

    def _change_in_words(self) -> str:
        goal = "another role" if self.to is None else f"role {self.to}"
        if self.to == self.role:
            return ""
        if self.change is None:
            return f"no change of up to {self.most_edges} of its edges that was tried ({self.trials:,}) gives it {goal}"
        said = (
            (self.change.removed, "without the edge to", "without the edges to"),
            (self.change.added, "with an edge to", "with edges to"),
        )
        parts = [
            f"{one if len(ids) == 1 else several} {', '.join(map(self._title, ids))}"
            for ids, one, several in said
            if ids
        ]
        return (
            f"{' and '.join(parts)} it would play role {self.change.role}, sure {self.change.confidence:.2f} "
            "(made, read and taken back)"
        )


def _in_brackets(about: str) -> str:
    return f" ({about})" if about else ""


def _number(value: float) -> str:
    value = round(value, 9) + 0.0  # no "-0"
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


# ----------------------------------------------------------------------------- the whole of it


def why_of(
    run: StoredRun,
    node: Any,
    *,
    to: int | None = None,
    most_edges: int = MOST_EDGES,
    labels: Any = None,
    lock: Any = None,
) -> Why:
    """Why a node of a run plays its role; see `Run.why`.

    Each trial holds `lock`, by which other threads may use the run between two trials. If an update changes edges of
    the node itself meanwhile, all trials begin again. `labels` are the roles of all nodes, if known.
    """
    for _ in range(ATTEMPTS):
        try:
            return _why(run, node, to, most_edges, labels, lock or contextlib.nullcontext())
        except NodeChangedError:
            continue
    raise RunError(f"the edges of {node!r} change faster than reasons are found; ask again later")


def _why(run: StoredRun, node: Any, to: int | None, most_edges: int, labels: Any, lock: Any) -> Why:
    roles, model = run.roles(), run.cached_model
    fitted = model.fitted
    if not isinstance(fitted, ExactModel):
        raise RunError(
            f"the run in {run.path} has a trained model, whose vectors are no sums of measures; fit the exact one to "
            "ask why: rae fit EDGES --out RUN"
        )
    if isinstance(most_edges, bool) or not isinstance(most_edges, int) or not 1 <= most_edges <= EDGES_LIMIT:
        raise ConfigError(
            Argument("most_edges"), f" must be a whole number from 1 to {EDGES_LIMIT}, got {most_edges!r}"
        )
    if to is not None and (isinstance(to, bool) or not isinstance(to, int) or not 0 <= to < roles.n_roles):
        raise ConfigError(Argument("to"), f" must be a role, from 0 to {roles.n_roles - 1}, got {to!r}")
    names, cards = run.names(), run.role_record()["cards"]
    with lock:
        live, graph, features, own_measures = _present(run)
    row = row_of(graph.id_column, node, names)
    trials = EdgeTrials(run, graph, features, model, roles, row, lock, live is not None)
    squared, assignment = trials.squared([]), roles.assign(trials.vector([])[None])
    own = int(assignment.labels[0])
    next_role = _second(squared, own, to)
    labels = run.role_table()[1] if labels is None else labels
    answer = Why(
        graph.id_column[row].as_py(), None, own, _about(cards, own), float(assignment.confidence[0]), next_role,
        degree=int(degrees(graph)[row]), most_edges=most_edges, to=to,
    )  # fmt: skip
    if next_role is None:
        return _with_names(answer, graph, names, [row])
    labels = labels[: graph.n_nodes]
    members = sampled(np.flatnonzero((labels == next_role) & (np.arange(len(labels)) != row)), MEMBERS, row)
    z = trials.vectors(np.concatenate([[row], members]))
    reasons, gained = attributions(fitted, roles, graph, features, row, members, own, next_role, own_measures, z)
    lead = float(squared[next_role] - squared[own])
    left_out, change = search_change(trials, graph, labels, own, next_role, to, most_edges)
    answer = replace(
        answer, next_about=_about(cards, next_role), lead=lead,
        next_membership=float(assignment.memberships[0, next_role]),
        gained=gained, reasons=reasons, trials=trials.count,
        neighbours=_neighbours(graph, labels, left_out, lead), change=_as_ids(graph, change),
    )  # fmt: skip
    return _with_names(answer, graph, names, [row, *left_out, *((end for end, _ in change[0]) if change else ())])


def _present(run: StoredRun) -> tuple[Any, Graph, Any, Any]:
    """The current tables of a run, if it has some, its graph and features, and the measures of the graph."""
    live = run._as_it_is(lambda _: live_of(run))
    if live is None or live.base.channels:
        return None, run.graph(), run.features(), None
    graph = live.graph(ids_of(run, live))
    features = None if live.features is None else live.features.whole_matrix(live.n_nodes)
    own = live.tables["own"][: live.n_nodes].copy() if "own" in live.tables else None
    return live, graph, features, own


def _second(squared: Doubles, own: int, to: int | None) -> int | None:
    """The role to compare with: the one that was asked for, else the nearest other one."""
    if len(squared) == 1:
        return None
    if to is not None and to != own:
        return to
    return int(np.argsort(squared, kind="stable")[np.argsort(squared, kind="stable") != own][0])


def _neighbours(graph: Graph, labels: Ints, left_out: dict[int, float], lead: float) -> tuple[Neighbour, ...]:
    """The neighbours that were left out, those that hold the node in its role first."""
    shares = {at: effect / lead if lead else 0.0 for at, effect in left_out.items()}
    order = sorted(shares, key=lambda at: (-shares[at], at))
    return tuple(Neighbour(graph.id_column[at].as_py(), int(labels[at]), round(shares[at], 6)) for at in order)


def _as_ids(graph: Graph, change: tuple[list[Edge], Any] | None) -> Change | None:
    """A change with ids for rows."""
    if change is None:
        return None
    edges, assignment = change
    removed, added = (
        [graph.id_column[end].as_py() for end, is_added in edges if is_added == kind] for kind in (False, True)
    )
    return Change(tuple(removed), tuple(added), int(assignment.labels[0]), float(assignment.confidence[0]))


def _with_names(answer: Why, graph: Graph, names: pa.Array | None, rows: Sequence[int]) -> Why:
    """The answer with the display names of the nodes that it speaks of."""
    if names is None:
        return answer
    names_by_id = {graph.id_column[at].as_py(): names[at].as_py() for at in rows if names[at].is_valid}
    neighbours = tuple(replace(n, name=names_by_id.get(n.id)) for n in answer.neighbours)
    return replace(answer, name=names_by_id.get(answer.id), names=names_by_id, neighbours=neighbours)


def _about(cards: Any, role: int | None) -> str:
    """What a card calls its role, in the first words of its summary."""
    return "" if role is None else str(cards[role]["summary"]).split("; ")[0]


# ----------------------------------------------------------------------------- measures and features


def attributions(
    fitted: ExactModel, roles: Roles, graph: Graph, features: Any, row: int, members: Ints, own: int, other: int,
    measures: Any = None, z: Any = None,
) -> tuple[tuple[Reason, ...], float]:  # fmt: skip
    """What each measure and feature adds to the lead of a role over another, compared with members of the other.

    -> reasons, the largest first, and their sum: the lead of the node less the mean lead of those members. `measures`
    are those of the graph, in units of the fit, `z` the vectors of the node and of the members, where they are known.
    """
    from rae.engine import embed, models_of

    fitted = replace(fitted, config=fitted.config.replace(relative=False))
    rows = np.concatenate([[row], members])
    graph = conform(graph, fitted.channels, fitted.weighted)
    if measures is None and fitted.structure is not None:
        measures = measured(graph, fitted.structure, fitted.config)[0]
    z = embed(models_of(fitted, graph, features, own=measures), nodes=rows) if z is None else z
    z = np.asarray(z, np.float64)
    slopes = _slopes(roles, fitted, own, other)
    parts: list[Part] = []
    total = 0.0
    for block in fitted.blocks:
        slope = slopes[block.name]
        worth = z[:, block.start : block.stop] @ slope
        whole = float(worth[0] - worth[1:].mean())
        total += whole
        inside: list[Part] = []
        if block.name == "place":
            inside = _measures(fitted, graph, measures, rows, slope)
        elif block.name in ("own", "near") and len(graph.channels) == 0:
            inside = _columns(fitted, features, graph, rows, slope, block.name)
        parts += inside
        parts.append((_rest(block.name, inside), whole - sum(part[1] for part in inside), None, None))
    reasons = [Reason(what, c, c / total if total else 0.0, value, like) for what, c, value, like in parts if c]
    return tuple(sorted(reasons, key=lambda reason: -abs(reason.contribution))), total


def _rest(block: str, inside: Sequence[Any]) -> str:
    """What a block adds besides the columns that are named."""
    named = [part[0].removesuffix(" of its neighbours") for part in inside[:3]]
    return BLOCKS.get(block, "rounding") + (f", beside {', '.join(named)}" if named and block in BLOCKS else "")


def _slopes(roles: Roles, fitted: ExactModel, own: int, other: int) -> dict[str, Doubles]:
    """By block, what a step along each column of a vector adds to the lead of one role over another."""
    parameters = roles.parameters
    step = 2 * parameters.projection.directions @ (parameters.centers[own] - parameters.centers[other])
    factors, out, at = block_factors(fitted.blocks, parameters.weights or None), {}, 0
    for block in fitted.blocks:
        out[block.name] = np.zeros(block.width)
        if factors[block.name]:
            out[block.name] = step[at : at + block.width] * factors[block.name]
            at += block.width
    return out


def _measures(fitted: ExactModel, graph: Graph, own: Any, rows: Ints, slope: Doubles) -> list[Any]:
    """What each statistic of `place` adds, with its value here and among the members, as a person counts."""
    structure, config = fitted.structure, fitted.config
    assert structure is not None
    ascending, place = np.unique(rows, return_inverse=True)
    with torch_alone():
        phi = statistics(graph, own, config, ascending).numpy()[place]
    gradient = (structure.directions.numpy() * fitted.structure_scale) @ slope
    mean, deviation = structure.mean.numpy(), structure.deviation.numpy()
    out = []
    for column, (what, measure, weight, is_spread) in enumerate(_statistic_names(fitted)):
        own_value, typical_value = phi[0, column], phi[1:, column].mean()
        scale = deviation[measure] / weight if weight else 0.0
        values = (own_value * scale, typical_value * scale)
        if is_spread:
            value, typical = (float(np.exp(v)) for v in values)
        else:
            value, typical = (float(np.expm1(v + mean[measure])) for v in values)
        contribution = float(gradient[column] * (own_value - typical_value))
        out.append((what, contribution, *((round(value, 6), round(typical, 6)) if weight else (None, None))))
    return out


def _statistic_names(fitted: ExactModel) -> list[tuple[str, int, float, bool]]:
    """For each statistic its words, its measure, its weight, and whether it is a spread; in their order."""
    config, channels, weighted = fitted.config, fitted.channels, fitted.weighted
    names = [*(WORDS.get(name, name) for name in MEASURES), *measure_names(channels, weighted)]
    weights = weights_of_measures(config, len(names))
    out = [(name, m, weights[m], False) for m, name in enumerate(names)]
    for part in moments_read(config, channels, weighted):
        along = f" along {part.channels[0]}" if part.channels else ""
        far = f"{DISTANCES.get(part.level, part.level)} edges away"
        where = f"of its neighbours{along}" if part.level == 1 else far
        for m, name in enumerate(names[: n_averaged(channels, weighted)]):
            what = f"differences in {name} {where}, a factor of" if part.is_spread else f"{name} {where}"
            out.append((what, m, part.weight * weights[m], part.is_spread))
    return out


def _columns(fitted: ExactModel, features: Any, graph: Graph, rows: Ints, slope: Doubles, block: str) -> list[Part]:
    """What each feature column of a node, or of its neighbours, adds by itself; the few that add the most."""
    actions = fitted.actions
    assert actions is not None
    if block == "own":
        raw, counted = _as_csr(features[rows]), _as_csr(actions.prepared(features[rows]))
    else:
        raw, counted = (_neighbour_means(graph, features, rows, how) for how in (None, actions))
    axes = actions.own_axes if block == "own" else actions.axes.double() @ actions.near_map
    worth = axes.double().numpy() @ slope
    if actions.words:
        counted = sp.csr_array(counted.multiply(_lengths(actions, counted, block)[:, None]))
    own_row = counted[[0]].toarray().ravel()
    typical_row = np.asarray(counted[1:].mean(0)).ravel()
    added = (own_row - typical_row) * worth
    largest = np.argsort(-np.abs(added), kind="stable")[:LISTED]
    names, means = fitted.feature_names, np.asarray(raw[1:].mean(0)).ravel()
    out: list[Part] = []
    for column in largest[added[largest] != 0].tolist():
        name = f"feature {column}" if names is None else names[column]
        of = "" if block == "own" else " of its neighbours"
        value, typical = float(raw[0, column]), float(means[column])
        out.append((f"{name}{of}", float(added[column]), round(value, 6), round(typical, 6)))
    return out


def _as_csr(rows: Any) -> Any:
    return sp.csr_array(rows.numpy() if isinstance(rows, torch.Tensor) else rows, dtype=np.float64)


def _neighbour_means(graph: Graph, features: Any, rows: Ints, actions: Actions | None = None) -> Any:
    """The mean features of the neighbours of these rows, as they are or as a model counts them.  -> CSR (r, m)"""
    lists = [graph.neighbors(int(row)) for row in rows]
    sizes = np.array([len(near) for near in lists])
    near = np.concatenate([*lists, np.empty(0, np.int64)]).astype(np.int64)
    distinct, place = np.unique(near, return_inverse=True)
    values = features[distinct]
    counted = _as_csr(values if actions is None else actions.prepared(values))
    share = np.repeat(1 / np.maximum(sizes, 1), sizes)
    means = sp.csr_array((share, place, np.append(0, np.cumsum(sizes))), shape=(len(rows), len(distinct)))
    return sp.csr_array(means @ counted)


def _lengths(actions: Actions, counted: Any, block: str) -> Doubles:
    """What words are multiplied by so that each row of a block has one length.  -> (r,)"""
    k = 0 if block == "own" else 1
    if block == "own":
        raw = counted @ actions.own_axes.double().numpy() - actions.own_center.double().numpy()
    else:
        centered = counted @ actions.axes.double().numpy() - actions.near_center.numpy()
        raw = centered @ actions.near_map.numpy()
    length = np.linalg.norm(raw, axis=1)
    out: Doubles = float(actions.unit_scales[k]) / np.maximum(length, 1e-12)
    return out
