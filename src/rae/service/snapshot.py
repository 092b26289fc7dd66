"""A run in memory as of one moment, and the next moment after its updates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rae.blocks import Weights, column_factors, weighted
from rae.io.embeddings import embeddings_dtype, rounded
from rae.run import EMBEDDINGS, Run
from rae.service.names import Names
from rae.service.neighbors import Neighbors
from rae.service.rows import Ints, Rows
from rae.updates import State, Update, UpdateFolder

MOST_CHANGED = 65_536  # rows of roles that are kept apart; with more, the whole tables are written anew


@dataclass(frozen=True, eq=False)
class RoleRows:
    """The role of every node, how sure it is, and how much the node plays each role."""

    role: Rows  # (n,)
    confidence: Rows  # (n,)
    membership: Rows  # (n, k)

    @classmethod
    def of(cls, run: Run) -> RoleRows:
        """The roles of a run as they are."""
        _, *parts = run.role_table()
        kinds = (np.int32, np.float32, np.float32)
        return cls(*(Rows.of(part.astype(kind, copy=False)) for part, kind in zip(parts, kinds, strict=True)))

    def replaced(self, rows: Ints, *values: Any) -> RoleRows:
        """With these roles, confidences and memberships in these rows."""
        parts = [part.replaced(rows, value) for part, value in zip(self._parts, values, strict=True)]
        if len(parts[0].changed) > MOST_CHANGED:
            parts = [Rows.of(part.whole()) for part in parts]
        return RoleRows(*parts)

    @property
    def _parts(self) -> tuple[Rows, Rows, Rows]:
        return self.role, self.confidence, self.membership


@dataclass(frozen=True, eq=False)
class Snapshot:
    """What answers are made of: names, vectors with their index, roles. Nothing in it changes."""

    state: State | None
    counts: dict[str, int]
    names: Names
    neighbors: Neighbors
    roles: RoleRows | None
    weights: Weights | None  # by which look-alikes are searched; None: the blocks' own

    @classmethod
    def of(cls, run: Run, weights: Weights | None = None) -> Snapshot:
        """A run as it is now, with an index of its vectors."""
        while True:
            state = UpdateFolder(run.path).state()
            ids, z = run.embeddings()
            names = Names.of(ids, run.names())
            near = weighted(z, run.blocks, weights)
            del z
            roles = RoleRows.of(run) if run.has_roles else None
            if UpdateFolder(run.path).state() == state:  # else an update came between
                return cls(state, run.counts, names, Neighbors.of(near), roles, weights)

    @property
    def number(self) -> int:
        """Updates since the fit."""
        return 0 if self.state is None else self.state.number

    def is_current(self, run: Run) -> bool:
        """Whether no update came since."""
        return UpdateFolder(run.path).state() == self.state

    def following(self, run: Run) -> Snapshot:
        """The run as it is now: what updates changed since is read, and no more where the log says it all."""
        folder = UpdateFolder(run.path)
        state = folder.state()
        if state is None or state.number == self.number:
            return replace(self, state=state)  # the same vectors, in other files at most
        before = self.state
        n_read = 0 if before is None else len(before.log)
        if before is None:
            continues = len(state.log) == state.number  # every update since the fit is in the log
        else:
            continues = state.base == before.base and state.log[:n_read] == before.log
        now = self
        if continues and state.log:
            for update in folder.updates(state, n_read):
                now = now._with(run, state, update)
        else:
            now = now._read_anew(run)
        return replace(now, state=state, counts=run.counts)

    def _with(self, run: Run, state: State, update: Update) -> Snapshot:
        """With the rows that one update of the log changed."""
        path = UpdateFolder(run.path).file(state, EMBEDDINGS)
        factors = column_factors(run.blocks, self.weights, run.counts["width"])
        place = np.cumsum(factors != 0) - 1  # of a column, in the vectors that are searched
        parts = [(update.rows(name), int(update.arrays[f"{name}.left"][0])) for name in update.names("columns")]
        rows = np.unique(np.concatenate([np.empty(0, np.int64), *(changed for (changed, _), _ in parts)]))
        old = rows[rows < len(self.neighbors.vectors)]
        values = np.zeros((len(rows), int((factors != 0).sum())), np.float32)
        values[: len(old)] = self.neighbors.vectors.take(old)
        kind = np.dtype(embeddings_dtype(path))
        for (changed, new), left in parts:
            columns = np.arange(left, left + new.shape[1])
            columns = columns[factors[columns] != 0]
            given = rounded(new, kind)[:, columns - left].astype(np.float32) * factors[columns]
            values[np.searchsorted(rows, changed)[:, None], place[columns]] = given
        roles, a = self.roles, update.arrays
        if roles is not None and "roles.rows" in a:
            roles = roles.replaced(a["roles.rows"], a["roles.role"], a["roles.confidence"], a["roles.membership"])
        names = self.names.grown(update.new_ids)
        return replace(self, names=names, neighbors=self.neighbors.replaced(rows, values), roles=roles)

    def _read_anew(self, run: Run) -> Snapshot:
        """With everything read again, after a log was folded in: the index learns only what is different."""
        ids, z = run.embeddings()
        near = weighted(z, run.blocks, self.weights)
        del z
        known = self.neighbors.vectors.whole()
        different = np.flatnonzero((near[: len(known)] != known).any(1))
        rows = np.concatenate([different, np.arange(len(known), len(near))])
        neighbors = self.neighbors.replaced(rows, near[rows]) if len(rows) else self.neighbors
        roles = RoleRows.of(run) if run.has_roles else None
        return replace(self, names=self.names.grown(ids.slice(len(self.names))), neighbors=neighbors, roles=roles)
