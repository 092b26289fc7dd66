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
from rae.errors import ConfigError, RunError, UnknownIdError
from rae.memory import give_back
from rae.reasons import why_of
from rae.roles.cards import Card
from rae.run import Run
from rae.service.neighbors import EXACT_ROWS
from rae.service.present import Present
from rae.service.writer import Writer, WriterProcess, follow_tables

Id = int | str
MOST_SIMILAR, MOST_MATCHES = 1_000, 100  # most look-alikes and matches per question


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
    """A node that a search returns."""

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


class FairLock:
    """A fair lock: a waiting thread gets it before the thread that released it.

    >>> lock = FairLock()
    >>> with lock:
    ...     lock.acquire(blocking=False)
    False
    """

    def __init__(self) -> None:
        self._line, self._lock = threading.Lock(), threading.Lock()

    def acquire(self, blocking: bool = True) -> bool:
        """Whether the lock was acquired."""
        if not self._line.acquire(blocking=blocking):
            return False
        try:
            return self._lock.acquire(blocking=blocking)
        finally:
            self._line.release()

    def release(self) -> None:
        """Release the lock to the next waiting thread."""
        self._lock.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *raised: object) -> None:
        self.release()


class Answers:
    """The answers about a run, and with `writable` its updates; opened by `Answers.open`."""

    def __init__(
        self, run: Run, *, weights: Weights | None = None, writer: Writer | WriterProcess | None = None
    ) -> None:
        self.run, self._writer = run, writer
        self.now = Present(run, weights)
        self._embeds = Run.open(run.path)  # it replays the log, so it never waits for an update
        self._writing, self._embedding, self._following = threading.Lock(), FairLock(), threading.Lock()

    @classmethod
    @contextlib.contextmanager
    def open(
        cls, run: Run, *, weights: Weights | None = None, writable: bool = False, own_process: bool = False
    ) -> Iterator[Answers]:
        """Answers about a run; a writable one is the only one that updates it during the block.

        With `own_process` another process computes updates, so that no question waits for them.
        """
        with contextlib.ExitStack() as stack:
            writer: Writer | WriterProcess | None = None
            if writable and own_process:
                writer = stack.enter_context(WriterProcess.of(run))
            elif writable:
                writer = stack.enter_context(Writer.of(run))
            answers = cls(run, weights=weights, writer=writer)
            try:
                yield answers
            finally:
                with answers._writing:  # wait for an update that is being written
                    answers._writer = None

    @property
    def writable(self) -> bool:
        """Whether it takes updates."""
        return self._writer is not None

    # ------------------------------------------------------------------------- questions

    def similar(self, id: Id, k: int = 10) -> SimilarAnswer:
        """The nodes most like a node, by its id or display name: those whose vectors are nearest."""
        if not 1 <= k <= MOST_SIMILAR:
            raise ConfigError(f"k must be from 1 to {MOST_SIMILAR:,}, got {k}")
        with self._current() as now:
            row = now.names.row(id)
            query = now.neighbors.vectors.take(np.array([row]))[0]
            index = now.neighbors.index
            return SimilarAnswer(
                now.names.id(row), now.names.name(row), _role(now, row), self._matches(now, query, k, row),
                index.method, round(index.recall, 4),
            )  # fmt: skip

    def role(self, id: Id) -> RoleAnswer:
        """The role that a node plays most, by its id or display name, and how much it plays each role."""
        with self._current() as now:
            row = now.names.row(id)
            if now.roles is None:
                raise self._no_roles()
            at = np.array([row])
            role, confidence, membership = (part.take(at)[0] for part in now.roles.parts)
            return RoleAnswer(
                now.names.id(row), now.names.name(row), int(role), round(float(confidence), 6),
                [round(float(x), 6) for x in membership], self._cards[int(role)].summary,
            )  # fmt: skip

    def card(self, role: int) -> CardAnswer:
        """The card of a role: its size, its most typical nodes, its place in the graph, what its members do."""
        if not 0 <= role < len(self._cards):
            raise UnknownIdError(f"there is no role {role}; roles here are 0 to {len(self._cards) - 1}")
        card = self._cards[role]
        with self._current() as now:
            since = now.number - int(self._record.get("update", 0))
        return CardAnswer(**card.as_dict(), text=str(card), updates_since=since)

    def roles(self) -> RolesAnswer:
        """All roles of the graph: how many nodes each has and what it is, the largest first."""
        cards = [RoleSummary(card.role, card.size, card.share, card.summary) for card in self._cards]
        return RolesAnswer(self._record["rule"], cards)

    def why(self, id: Id, to: int | None = None) -> WhyAnswer:
        """Why a node plays its role, by its id or display name: measures, neighbours, and a small change of edges.

        It is compared with the role that it plays second most, or with the role `to`. The change that would move the
        node to another role was tried; nothing of it is saved.
        """
        with self._current() as now:
            own = now.names.id(now.names.row(id))
            labels = None if now.roles is None else now.roles.role.now.copy()
        reasons = why_of(self._embeds, own, to=to, labels=labels, lock=self._embedding)
        measured = reasons.as_dict()
        return WhyAnswer(measured["id"], reasons.role, str(reasons), measured)

    def search(self, q: Id, limit: int = 10) -> SearchAnswer:
        """Nodes whose id or display name begins with this text, upper or lower case alike."""
        if not 1 <= limit <= MOST_MATCHES:
            raise ConfigError(f"limit must be from 1 to {MOST_MATCHES}, got {limit}")
        with self._current() as now:
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

        Nothing is saved. `features` are numbers in the order of the columns, or by name; `weights`, `directions` ("out"
        or "in") and `kinds` those of the edges to its neighbours, where the graph has them; `k` asks for so many nodes
        like it.
        """
        if not 0 <= k <= MOST_SIMILAR:
            raise ConfigError(f"k must be from 0 to {MOST_SIMILAR:,}, got {k}")
        of_edges = {"weights": weights, "directions": directions, "kinds": kinds}
        edge_values: dict[str, Any] = {name: value for name, value in of_edges.items() if value is not None}
        with self._embedding:
            vector = self._embeds.embed(id, neighbours=neighbours, features=features, **edge_values)
        role, confidence, matches = None, None, []
        if self.now.roles is not None:
            assigned = self._fitted_roles.assign(vector[None])
            role, confidence = int(assigned.labels[0]), round(float(assigned.confidence[0]), 6)
        if k:
            query = weighted(vector[None], self.run.blocks, self.now.weights)[0]
            with self._current() as now:
                matches = self._matches(now, query, k, -1)
        blocks = {block.name: [block.start, block.stop] for block in self.run.blocks}
        return EmbedAnswer([float(x) for x in vector], blocks, role, confidence, matches)

    def edges(
        self,
        added: list[list[int | float | str] | dict[str, Any]] | None = None,
        removed: list[list[int | float | str] | dict[str, Any]] | None = None,
        features: dict[str, list[float] | dict[str, Any]] | None = None,
        missing: str = "error",
    ) -> EdgesAnswer:
        """Add and remove edges; once this is answered the update is on the disk, and the next question reads it.

        An edge is a pair of ids, [u, v], with what the run reads of an edge after them, or an object with `source`,
        `target` and that (`weight`, `kind`). New ids become nodes. `features` are rows by id: numbers in the order of
        the columns, or objects by column; `missing` says whether new nodes without a row are an error ("error") or get
        zeros ("zero").
        """
        with self._writing:
            if self._writer is None:
                raise RunError("this service changes nothing: it was started to answer questions only, or is stopping")
            outcome = self._writer.edges(added, removed, features, missing)
            self.run._as_it_is(lambda _: self.now.follow(self.run))
            if self._embedding.acquire(blocking=False):  # else the next new node replays the log first
                try:
                    self.run._as_it_is(lambda _: follow_tables(self._embeds))
                finally:
                    self._embedding.release()
            self._writer.fold_if_long()
        return EdgesAnswer(**outcome)

    @property
    def is_quick(self) -> bool:
        """Whether questions take a millisecond: none reads updates of other processes first or makes a long search."""
        near = self.now.neighbors
        return self.writable and (near.index.method == "approximate" or len(near.vectors) <= EXACT_ROWS)

    # ------------------------------------------------------------------------- inside

    def warm_up(self) -> None:
        """Load what the first new node needs, where the run has its graph, and give back temporary memory."""
        if self.run.has_graph:
            with self._embedding, contextlib.suppress(RunError):  # such as that of a lean run
                self._embeds.embed(neighbours=[], features=self._no_features())
                follow_tables(self._embeds)
        give_back()

    def _no_features(self) -> Any:
        width = self.run.cached_model.n_features or 0
        return None if self.run.cached_model.structural or not width else np.zeros(width, np.float32)

    @contextlib.contextmanager
    def _current(self) -> Iterator[Present]:
        """The run as it is, locked during the block; updates by other processes are read first."""
        if not self.writable and not self.now.is_current(self.run):
            with self._following:
                self.run._as_it_is(lambda _: self.now.follow(self.run))
        with self.now.lock:
            yield self.now

    def _matches(self, now: Present, query: Any, k: int, skip: int) -> list[Match]:
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


def _role(now: Present, row: int) -> int | None:
    return None if now.roles is None else int(now.roles.role.take(np.array([row]))[0])
