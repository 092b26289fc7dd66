"""A run in memory, from which questions are answered, and how updates reach it."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import numpy as np

from rae.blocks import Weights, column_factors, weighted
from rae.io.embeddings import embedding_batches, embeddings_dtype, rounded
from rae.run import Run
from rae.run_folder import EMBEDDINGS
from rae.service.names import Names
from rae.service.neighbors import Neighbors
from rae.service.rows import Ints, Rows
from rae.updates import ROLE_PARTS, State, Update, UpdateFolder


class RoleRows:
    """The role of every node, how sure it is, and how much the node plays each role."""

    def __init__(self, *parts: Any) -> None:
        kinds = (np.int32, np.float32, np.float32)
        self.role, self.confidence, self.membership = self.parts = tuple(  # (n,), (n,), (n, k)
            Rows.of([part.astype(kind, copy=False)], len(part)) for part, kind in zip(parts, kinds, strict=True)
        )

    def put(self, rows: Ints, *values: Any) -> None:
        """Write roles, confidences and memberships of these rows, ascending."""
        for part, value in zip(self.parts, values, strict=True):
            part.put(rows, value)


class Present:
    """The current names, vectors with their index, and roles of a run. Readers hold `lock`; `follow` writes under it.

    Updates are prepared without the lock and written within a millisecond or two: nothing as large as the graph is
    copied for an update.
    """

    def __init__(self, run: Run, weights: Weights | None = None) -> None:
        """The current run, with an index of its vectors; look-alikes are searched by these weights of blocks."""
        self.lock, self.weights = threading.Lock(), weights
        self.state, self.counts, ids, vectors, roles = self._read(run)
        self.names, self.neighbors = Names(ids, run.names()), Neighbors(vectors)
        self.roles = RoleRows(*roles) if roles else None

    @property
    def number(self) -> int:
        """Updates since the fit."""
        return 0 if self.state is None else self.state.number

    def is_current(self, run: Run) -> bool:
        """Whether no update came since it was read."""
        return UpdateFolder(run.path).state() == self.state

    def follow(self, run: Run) -> None:
        """Apply the updates since, from the log where it reaches back far enough, else by reading everything again."""
        folder = UpdateFolder(run.path)
        state = folder.state()
        if state is None or state.number == self.number:
            self.state = state  # the same vectors, in other files at most
            return
        first = state.log_after(self.number)
        if first is None:
            self._read_anew(run)
            return
        for length, update in enumerate(folder.updates(state, first), first + 1):
            number = state.number - len(state.log) + length
            self._take(run, state, update, replace(state, number=number, log=state.log[:length]))

    def _take(self, run: Run, state: State, update: Update, later: State) -> None:
        """Write the rows that one update of the log changed."""
        rows, values = self._changed_rows(run, state, update, self.neighbors.vectors)
        a = update.arrays
        roles = [a[f"roles.{part}"] for part in ("rows", *ROLE_PARTS) if "roles.rows" in a]
        self._put(rows, values, update.new_ids, roles, later)

    def _read_anew(self, run: Run) -> None:
        """Read everything, after the log was folded; only rows that differ are written."""
        state, _, ids, vectors, roles = self._read(run)
        vectors_now, vectors_before = vectors.now, self.neighbors.vectors.now
        different = np.flatnonzero((vectors_now[: len(vectors_before)] != vectors_before).any(1))
        rows = np.concatenate([different, np.arange(len(vectors_before), len(vectors_now))])
        self._put(rows, vectors_now[rows], ids.slice(len(self.names)), [np.arange(len(vectors_now)), *roles], state)

    def _read(self, run: Run) -> tuple[State | None, dict[str, int], Any, Rows, list[Any]]:
        """The state of a run, and its counts, ids, weighted vectors and roles in that state."""
        folder = UpdateFolder(run.path)

        def read(state: State | None) -> tuple[State | None, dict[str, int], Any, Rows, list[Any]]:
            counts, ids = run.counts, run.ids()
            batches = embedding_batches(folder.file(state, EMBEDDINGS))
            rows = Rows.of((weighted(z, run.blocks, self.weights) for z in batches), len(ids))
            if state is not None:
                for update in folder.updates(state):
                    rows.put(*self._changed_rows(run, state, update, rows))
            return state, counts, ids, rows, list(run.role_table()[1:]) if run.has_roles else []

        while True:
            snapshot = run._as_it_is(read)
            if folder.state() == snapshot[0]:  # else an update came between
                return snapshot

    def _changed_rows(self, run: Run, state: State, update: Update, vectors: Rows) -> tuple[Ints, Any]:
        """The rows of vectors that an update changes, ascending, and their new values."""
        path = UpdateFolder(run.path).file(state, EMBEDDINGS)
        factors = column_factors(run.blocks, self.weights, run.counts["width"])
        place = np.cumsum(factors != 0) - 1  # the position of each column in the weighted vectors
        parts = [(update.rows(name), int(update.arrays[f"{name}.left"][0])) for name in update.names("columns")]
        rows = np.unique(np.concatenate([np.empty(0, np.int64), *(changed for (changed, _), _ in parts)]))
        values = np.zeros((len(rows), int((factors != 0).sum())), np.float32)
        old = rows[rows < len(vectors)]
        values[: len(old)] = before = vectors.take(old)
        kind = np.dtype(embeddings_dtype(path))
        for (changed, new), left in parts:
            columns = np.arange(left, left + new.shape[1])
            columns = columns[factors[columns] != 0]
            new_values = rounded(new, kind)[:, columns - left].astype(np.float32) * factors[columns]
            values[np.searchsorted(rows, changed)[:, None], place[columns]] = new_values
        differs = np.ones(len(rows), bool)
        differs[: len(old)] = (values[: len(old)] != before).any(1)
        return rows[differs], values[differs]

    def _put(self, rows: Ints, values: Any, new_ids: Any, roles: Any, state: State | None) -> None:
        """Write vectors, names and roles under the lock."""
        with self.lock:
            self.names.add(new_ids)
            self.neighbors.put(rows, values)
            if self.roles is not None and len(roles) > 1:
                self.roles.put(*roles)
            self.state, self.counts = state, self.counts | ({} if state is None else state.counts)
        self.neighbors.learn(rows, values, self.lock)
