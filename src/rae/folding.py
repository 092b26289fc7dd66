"""Folding the log of a run: its current state becomes a new base with an empty log, part by part."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rae.engine.live import Changes, Live
from rae.graph.folder import write_graph
from rae.io.embeddings import GROUP_BYTES, EmbeddingWriter, embeddings_dtype
from rae.live_tables import current_live, ids_of
from rae.memory import row_chunks
from rae.progress import Progress
from rae.roles.storage import write_table
from rae.storage.atomic import atomic_path, flush
from rae.storage.npy import write_matrix
from rae.stored_run import LiveTables, StoredRun
from rae.updates import EMBEDDINGS, GRAPH, ROLES, State, TableWriter, UpdateFolder, counts_of, with_rows, write_counts

FLUSHED = 1 << 24  # bytes of vectors that are flushed at a time


def fold_in_parts(run: StoredRun) -> Iterator[None]:
    """Fold the log of a run into its files, a part at each step; between two steps the run may be updated.

    It ends early where an update replaced the base meanwhile, or failed. Each part is flushed to disk, so that an
    update never waits in a long queue of writes.
    """
    folder = UpdateFolder(run.path)
    state = folder.state()
    live = current_live(run, folder, state)
    if state is not None and state.log and live is not None:
        column = ids_of(run, live)
        base = folder.new_base(state)
        run._session.unfinished = base.name
        try:
            yield from fold_log(run, folder, state, live, column, base, flushes=True)
        finally:
            run._session.unfinished = None


def fold_now(
    run: StoredRun,
    folder: UpdateFolder,
    state: State,
    live: Live,
    column: pa.Array,
    changes: Changes | None = None,
    roles: Any = None,
    progress: Progress | None = None,
) -> None:
    """Fold the log at once, with an update that is in no log."""
    for _ in fold_log(run, folder, state, live, column, folder.new_base(state), changes, roles, progress=progress):
        pass


def fold_log(
    run: StoredRun, folder: UpdateFolder, state: State, live: Live, column: pa.Array, base: Path,
    changes: Changes | None = None, roles: Any = None, *, flushes: bool = False, progress: Progress | None = None,
) -> Iterator[None]:  # fmt: skip
    """Write the current state to a new base, part by part, and make it current with an empty log.

    Updates between two parts stay in the log. `changes` are those of an update that is in no log, `roles` its rows.
    """
    assigned_roles = None if changes is not None and changes.in_full else partial(_all_roles, run, roles)
    try:
        write_graph(base / GRAPH, live.graph(column))
        if live.features is not None:
            write_matrix(base, live.features.whole_matrix(live.n_nodes))
        yield
        for n_written in _write_rows(run, folder, state, live, column, base, flushes):
            if progress is not None:
                progress("embed", n_written, len(column), {})
            yield
            tables = run._session.tables
            if folder.state().base != state.base or tables is None or tables.live is not live:  # type: ignore[union-attr]
                return  # an update replaced the base, or failed
        write_counts(base, live, len(column))
        now = folder.state()
        assert now is not None
        later = State(
            now.number + (changes is not None), base.name, now.log[len(state.log) :],
            counts_of(live.rows.degrees[: live.n_nodes]), now.changed - state.changed,
            came=now.came if changes is None else state.came,
        )  # fmt: skip
        ids = run._session.later_ids if changes is None else column.slice(live.base.n_nodes)
        finish_base(run, folder, base, folder.ids(now) if later.log else column, later, assigned_roles)
        run._session.tables = LiveTables(replace(later, base=state.base), live, ids)
    finally:
        if folder.state().base != base.name:  # type: ignore[union-attr]
            shutil.rmtree(base, ignore_errors=True)


def _write_rows(
    run: StoredRun, folder: UpdateFolder, state: State, live: Live, column: pa.Array, base: Path, flushes: bool
) -> Iterator[int]:
    """Write the tables of the levels, and the vectors; yields the number of nodes written, part by part.

    Files are written while the next vectors are computed.
    """
    step = max(1, (FLUSHED if flushes else GROUP_BYTES) // (4 * live.width))
    tables, dtype = TableWriter(base, live, len(column)), embeddings_dtype(folder.file(state, EMBEDDINGS))
    with (
        atomic_path(base / EMBEDDINGS, flushes=flushes) as hidden,
        EmbeddingWriter(
            hidden, column, live.width, ".parquet", model=run.model_checksum, dtype=dtype, blocks=run.blocks
        ) as writer,
        ThreadPoolExecutor(1) as aside,
    ):

        def write(vectors: Any, a: int, b: int) -> None:
            writer.append(vectors)
            tables.write(live, a, b)
            if flushes:
                flush(hidden, *tables.paths.values())

        written: Any = None
        for a, b in row_chunks(len(column), step):
            vectors = live.vectors((a, b))
            if written is not None:
                written.result()
            written = aside.submit(write, vectors, a, b)
            yield b
        written.result()


def finish_base(
    run: StoredRun, folder: UpdateFolder, base: Path, column: pa.Array, later: State, assigned_roles: Any
) -> None:
    """Write the roles of a new base, make it current, and link its files into the run where the log is empty."""
    if run.has_roles:
        if assigned_roles is None:
            from rae.io import read_embeddings

            assigned = run.roles().assign(read_embeddings(base / EMBEDDINGS)[1])
            if run._session.roles is not None:
                run._session.roles = assigned.labels, assigned.confidence, assigned.memberships
        else:
            assigned = assigned_roles(len(column))
        write_table(base / ROLES, column, assigned)
        if later.log:
            later = replace(later, roles={"file": f"{base.name}/{ROLES}", "after": later.number})
    folder.hide()
    folder.commit(later)
    if not later.log:
        folder.show(later)
    run._session.tables = None


def _all_roles(run: StoredRun, roles: Any, n_rows: int) -> Any:
    """All roles after an update that changed these rows of them."""
    from rae.roles.model import Assignment

    roles_before = run._session.roles or [part.copy() for part in run.role_table()[1:]]
    role, sure, shares = with_rows(roles_before, n_rows, [] if roles is None else [roles])
    of_nodes = role[:n_rows].astype(np.int32), sure[:n_rows].astype(np.float32), shares[:n_rows].astype(np.float32)
    return Assignment(*of_nodes, np.zeros(n_rows, np.float32))  # distances are not stored


def keep_roles(run: StoredRun) -> None:
    """Cache the roles of a run that only this process updates, so that no fold reads the log for them."""
    if run.has_roles:
        run._session.roles = [part.copy() for part in run.role_table()[1:]]
