"""The questions that a run answers, as plain functions: what `rae serve` has as addresses, and `rae mcp` as tools.

`VERBS` lists them. A further one is a method of `Answers` with annotated arguments, and its line in `VERBS`: both
front ends make their schemas from its signature, and its description from its docstring.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from rae.blocks import Weights, weighted
from rae.errors import ConfigError, GraphError, RunError, UnknownIdError
from rae.roles.cards import Card
from rae.run import Run
from rae.service.neighbors import EXACT_ROWS
from rae.service.snapshot import Snapshot

Id = int | str
MOST_SIMILAR, MOST_FOUND = 1_000, 100  # look-alikes and nodes that one question can ask for
FOLD_SHARE = 4  # rows of vectors in the log, over those of the graph, above which all is written anew
LONGEST_LOG = 5_000  # updates that are kept apart; the next one writes all of them into the files of the run
FOLDED_AT_STOP = 4_000_000  # numbers in all vectors up to which a service that stops writes embeddings.parquet anew


class Verb(NamedTuple):
    """A question: the method of `Answers` that answers it, and its address."""

    name: str
    method: str
    path: str
    writes: bool = False
    takes_long: bool = False  # never answered where other requests would wait for it


VERBS = (
    Verb("similar", "GET", "/similar/{id}"),
    Verb("role", "GET", "/role/{id}"),
    Verb("card", "GET", "/card/{role}"),
    Verb("roles", "GET", "/roles"),
    Verb("why", "GET", "/why/{id}", takes_long=True),
    Verb("search", "GET", "/search"),
    Verb("embed", "POST", "/embed"),
    Verb("edges", "POST", "/edges", writes=True),
)


@dataclass(frozen=True)
class Match:
    """A node, how far it is (0 the same vector, 1 as far as two nodes taken at random), its role and its name."""

    id: Id
    distance: float
    role: int | None
    name: str | None


@dataclass(frozen=True)
class SimilarAnswer:
    """A node and those most like it; `recall` is the share of the true nearest that the search finds."""

    id: Id
    name: str | None
    role: int | None
    matches: list[Match]
    method: str
    recall: float


@dataclass(frozen=True)
class RoleAnswer:
    """The role of a node, how sure that is, how much it plays each role, and what the role is, in words."""

    id: Id
    name: str | None
    role: int
    confidence: float
    membership: list[float]
    summary: str


@dataclass(frozen=True)
class CardAnswer:
    """What a role is; `updates_since` the card was written, sizes may have changed."""

    role: int
    size: int
    share: float
    confidence: float
    prototypes: list[Id | float]
    names: list[str | None]
    structure: dict[str, Any]
    edges: dict[str, Any]
    actions: list[dict[str, Any]]
    summary: str
    text: str
    updates_since: int


@dataclass(frozen=True)
class RoleSummary:
    """A role in one line."""

    role: int
    size: int
    share: float
    summary: str


@dataclass(frozen=True)
class RolesAnswer:
    """All roles, and how their number was chosen."""

    rule: str
    roles: list[RoleSummary]


@dataclass(frozen=True)
class WhyAnswer:
    """Why a node plays its role: the same in words, and what `Run.why` measured, by name."""

    id: Id
    role: int
    text: str
    measured: dict[str, Any]


@dataclass(frozen=True)
class Node:
    """A node that was found."""

    id: Id
    name: str | None
    role: int | None


@dataclass(frozen=True)
class SearchAnswer:
    """Nodes whose id or name begins as asked, in the order of their letters."""

    nodes: list[Node]


@dataclass(frozen=True)
class EmbedAnswer:
    """The vector of a new node, its blocks by first and last column, its role, and nodes like it where asked for."""

    vector: list[float]
    blocks: dict[str, list[int]]
    role: int | None
    confidence: float | None
    matches: list[Match]


@dataclass(frozen=True)
class EdgesAnswer:
    """What an update did. It is on the disk when this is answered; `update` is its number since the fit."""

    update: int
    added: int
    removed: int
    already_there: int
    self_loops: int
    new_nodes: int
    moved: int
    in_full: bool
    nodes: int
    edges: int
    seconds: float


class Answers:
    """A run that is asked, and with `writable` changed; made by `Answers.open`."""

    def __init__(self, run: Run, *, weights: Weights | None = None, writable: bool = False) -> None:
        self.run, self.writable = run, writable
        self.now = Snapshot.of(run, weights)
        self._embeds = Run.open(run.path)  # its tables follow the log, so that an update does not hold it up
        self._writing, self._embedding, self._following = threading.Lock(), threading.Lock(), threading.Lock()

    @classmethod
    @contextlib.contextmanager
    def open(cls, run: Run, *, weights: Weights | None = None, writable: bool = False) -> Iterator[Answers]:
        """Answers about a run; a writable one is the only one that updates it during the block."""
        with contextlib.ExitStack() as held:
            if writable:
                try:
                    held.enter_context(run.alone())
                except RunError as error:
                    if "is running" not in str(error):
                        raise
                    raise RunError(
                        f"another service or update has {run.path}; stop that one first, or ask without changing it: ",
                        "--read-only, and no --write",
                    ) from None
            answers = cls(run, weights=weights, writable=writable)
            try:
                yield answers
            finally:
                answers.close()

    def close(self) -> None:
        """Wait for an update that is being written, and write embeddings.parquet of small runs anew."""
        with self._writing:
            state = self.now.state
            small = self.now.counts["nodes"] * self.now.counts["width"] <= FOLDED_AT_STOP
            if self.writable and state is not None and state.log and small:
                self.run.fold()
            self.writable = False

    # ------------------------------------------------------------------------- questions

    def similar(self, id: Id, k: int = 10) -> SimilarAnswer:
        """The nodes most like a node, by its id or display name: those whose vectors are nearest."""
        now = self._current()
        if not 1 <= k <= MOST_SIMILAR:
            raise ConfigError(f"k must be from 1 to {MOST_SIMILAR:,}, got {k}")
        row = now.names.row(id)
        query = now.neighbors.vectors.take(np.array([row]))[0]
        index = now.neighbors.index
        return SimilarAnswer(
            now.names.id(row), now.names.name(row), _role(now, row), self._matches(now, query, k, row),
            index.method, round(index.recall, 4),
        )  # fmt: skip

    def role(self, id: Id) -> RoleAnswer:
        """The role that a node plays most, by its id or display name, and how much it plays each role."""
        now = self._current()
        row = np.array([now.names.row(id)])
        roles = now.roles
        if roles is None:
            raise self._no_roles()
        role = int(roles.role.take(row)[0])
        confidence, membership = float(roles.confidence.take(row)[0]), roles.membership.take(row)[0]
        return RoleAnswer(
            now.names.id(int(row[0])), now.names.name(int(row[0])), role, round(confidence, 6),
            [round(float(x), 6) for x in membership], self._cards[role].summary,
        )  # fmt: skip

    def card(self, role: int) -> CardAnswer:
        """The card of a role: its size, its most typical nodes, its place in the graph, what its members do."""
        if not 0 <= role < len(self._cards):
            raise UnknownIdError(f"there is no role {role}; roles here are 0 to {len(self._cards) - 1}")
        card, number = self._cards[role], self._current().number
        return CardAnswer(**card.as_dict(), text=str(card), updates_since=number - int(self._record.get("update", 0)))

    def roles(self) -> RolesAnswer:
        """All roles of the graph: how many nodes each has and what it is, the largest first."""
        cards = [RoleSummary(card.role, card.size, card.share, card.summary) for card in self._cards]
        return RolesAnswer(self._record["rule"], cards)

    def why(self, id: Id, to: int | None = None) -> WhyAnswer:
        """Why a node plays its role, by its id or display name: measures, neighbours, and a small change of edges.

        It is compared with the role that it plays second most, or with the role `to`. The change that would move the
        node to another role was tried; nothing of it is kept.
        """
        names = self._current().names
        with self._embedding:
            found = self._embeds.why(names.id(names.row(id)), to=to)
        measured = found.as_dict()
        return WhyAnswer(measured["id"], found.role, str(found), measured)

    def search(self, q: Id, limit: int = 10) -> SearchAnswer:
        """Nodes whose id or display name begins with this text, upper or lower case alike."""
        if not 1 <= limit <= MOST_FOUND:
            raise ConfigError(f"limit must be from 1 to {MOST_FOUND}, got {limit}")
        now = self._current()
        rows = now.names.starting_with(str(q), limit)
        return SearchAnswer([Node(now.names.id(row), now.names.name(row), _role(now, row)) for row in rows])

    def embed(
        self,
        neighbours: list[Id],
        id: Id | None = None,
        features: list[float] | dict[str, float] | None = None,
        weights: list[float] | None = None,
        directions: list[str] | None = None,
        kinds: list[str] | None = None,
        k: int = 0,
    ) -> EmbedAnswer:
        """The vector and the role of a node that is not in the graph yet, as if it were added with these neighbours.

        Nothing is kept. `features` are numbers in the order of the columns, or by name; `weights`, `directions` ("out"
        or "in") and `kinds` those of the edges to its neighbours, where the graph has them; `k` asks for so many nodes
        like it.
        """
        if not 0 <= k <= MOST_SIMILAR:
            raise ConfigError(f"k must be from 0 to {MOST_SIMILAR:,}, got {k}")
        of_edges = {"weights": weights, "directions": directions, "kinds": kinds}
        given: dict[str, Any] = {name: value for name, value in of_edges.items() if value is not None}
        with self._embedding:
            vector = self._embeds.embed(id, neighbours=neighbours, features=features, **given)
        now, role, confidence = self._current(), None, None
        if now.roles is not None:
            assigned = self._fitted_roles.assign(vector[None])
            role, confidence = int(assigned.labels[0]), round(float(assigned.confidence[0]), 6)
        query = weighted(vector[None], self.run.blocks, now.weights)[0]
        matches = self._matches(now, query, k, -1) if k else []
        blocks = {block.name: [block.start, block.stop] for block in self.run.blocks}
        return EmbedAnswer([float(x) for x in vector], blocks, role, confidence, matches)

    def edges(
        self,
        added: list[list[int | float | str] | dict[str, Any]] | None = None,
        removed: list[list[int | float | str] | dict[str, Any]] | None = None,
        features: dict[str, list[float] | dict[str, Any]] | None = None,
        missing: str = "error",
    ) -> EdgesAnswer:
        """Let edges come and go; what is answered is on the disk, and the next question sees it.

        An edge is a pair of ids, [u, v], with what the run reads of an edge after them, or an object with `source`,
        `target` and that (`weight`, `kind`). New ids become nodes. `features` are rows by id: numbers in the order of
        the columns, or objects by column; `missing` says whether new nodes without a row are an error ("error") or get
        zeros ("zero").
        """
        come, reading = _edge_table(added, "added")
        gone, of_gone = _edge_table(removed, "removed")
        with self._writing:
            if not self.writable:
                raise RunError("this service changes nothing: it was started to answer questions only, or is stopping")
            table = _feature_table(features, self.run)
            done = self.run.update(
                come, gone, table, missing=missing, fold=self._folds(), progress=False, **of_gone | reading
            )
            self.now = now = self.now.following(self.run)
        return EdgesAnswer(
            done.number, done.added, done.removed, done.already_there, done.self_loops, done.new_nodes,
            len(done.moved), done.in_full, now.counts["nodes"], now.counts["edges"], round(done.seconds, 4),
        )  # fmt: skip

    @property
    def is_quick(self) -> bool:
        """Whether questions take a millisecond: no update of others is read first, no long search is made."""
        near = self.now.neighbors
        return self.writable and (near.index.method == "approximate" or len(near.vectors) <= EXACT_ROWS)

    # ------------------------------------------------------------------------- inside

    def warm_up(self) -> None:
        """Make what the first new node and the first update need, where the run keeps its graph."""
        if self.writable:
            with self._writing:
                self.run.update(progress=False)  # keeps what each level averages, if it was never updated
                self.now = self.now.following(self.run)
        if self.run.has_graph:
            with self._embedding, contextlib.suppress(RunError):  # such as that of a lean run
                self._embeds.embed(neighbours=[], features=self._no_features())

    def _no_features(self) -> Any:
        width = self.run.model_kept.n_features or 0
        return None if self.run.model_kept.structural or not width else np.zeros(width, np.float32)

    def _folds(self) -> bool:
        """Whether the next update writes everything anew: not for being small, but where its log has grown long."""
        state = self.now.state
        if state is None:
            return False
        return state.changed > FOLD_SHARE * self.now.counts["nodes"] or len(state.log) >= LONGEST_LOG

    def _current(self) -> Snapshot:
        """The run as it is; one that others update is followed."""
        if not self.writable and not self.now.is_current(self.run):
            with self._following:
                self.now = self.run._as_it_is(lambda _: self.now.following(self.run))
        return self.now

    def _matches(self, now: Snapshot, query: Any, k: int, skip: int) -> list[Match]:
        rows, distances = now.neighbors.nearest(query, k, skip)
        roles = [None] * len(rows) if now.roles is None else now.roles.role.take(rows).tolist()
        return [
            Match(now.names.id(row), round(float(far), 6), role, now.names.name(row))
            for row, far, role in zip(rows.tolist(), distances, roles, strict=True)
        ]

    @cached_property
    def _record(self) -> dict[str, Any]:
        if not self.run.has_roles:
            raise self._no_roles()
        return self.run.role_record()

    @cached_property
    def _cards(self) -> list[Card]:
        return [Card.of(card) for card in self._record["cards"]]

    @cached_property
    def _fitted_roles(self) -> Any:
        return self.run.roles()

    def _no_roles(self) -> RunError:
        return RunError(f"the run in {self.run.path} has no roles yet; `rae roles {self.run.path}` finds them")


def _role(now: Snapshot, row: int) -> int | None:
    return None if now.roles is None else int(now.roles.role.take(np.array([row]))[0])


def _edge_table(edges: list[list[int | float | str] | dict[str, Any]] | None, what: str) -> tuple[Any, dict[str, str]]:
    """Edges as `Run.update` takes them, and which of their columns are which."""
    import pyarrow as pa

    if not edges:
        return None, {}
    if all(isinstance(edge, list) and len(edge) == len(edges[0]) >= 2 for edge in edges):
        return edges, {}
    objects = [edge for edge in edges if isinstance(edge, dict)]
    names = dict.fromkeys(["source", "target", *sorted({name for edge in objects for name in edge})])
    if len(objects) < len(edges) or not all(set(edge) == set(names) for edge in objects):
        raise GraphError(f"{what} must be pairs of ids, [u, v], or objects with source and target, all of one kind")
    try:
        table = pa.table({name: pa.array([edge[name] for edge in objects]) for name in names})
    except pa.ArrowException as error:
        raise GraphError(f"{what} must have ids and numbers of one kind in each field: {error}") from None
    return table, {"source": "source", "target": "target"} | {n: n for n in ("weight", "kind") if n in names}


def _feature_table(features: dict[str, list[float] | dict[str, Any]] | None, run: Run) -> Any:
    """Feature rows by id as `Run.update` takes them."""
    import pyarrow as pa

    from rae.errors import FeatureError
    from rae.features import FeatureTable

    if not features:
        return None
    ids, rows = run.ids().type, list(features.values())
    try:
        column = pa.array(list(features)).cast(ids)
    except pa.ArrowException:
        raise FeatureError(
            f"features are rows by id, and the ids here are {ids}, got {next(iter(features))!r}"
        ) from None
    lists = [row for row in rows if isinstance(row, list)]
    objects = [row for row in rows if isinstance(row, dict)]
    if len(lists) == len(rows):
        width, names = len(lists[0]), run.feature_names
        if (names is not None and width != len(names)) or any(len(row) != width for row in lists):
            raise FeatureError(f"a row of features has as many numbers as the model has columns, got {width:,}")
        return FeatureTable(column, np.array(lists, np.float32), names)
    if len(objects) < len(rows) or not all(set(row) == set(objects[0]) for row in objects):
        raise FeatureError("features must all be lists of numbers, or all objects with the same columns")
    return pa.table({"id": column} | {name: pa.array([row[name] for row in objects]) for name in objects[0]})
