"""The tables of a run that updates follow: cached in memory, and replayed from the log.

`tables` are what every level averages, a row per node (`rae.engine.live`).
"""

from __future__ import annotations

import pyarrow as pa

from rae.engine.live import Live, can_follow
from rae.model.exact import ExactModel
from rae.stored_run import LiveTables, StoredRun
from rae.updates import SPARE_LEAST, State, UpdateFolder


def live_of(run: StoredRun) -> Live | None:
    """The current tables of a run, cached in memory; None where single edges cannot be followed."""
    folder = UpdateFolder(run.path)
    return current_live(run, folder, folder.state())


def current_live(run: StoredRun, folder: UpdateFolder, state: State | None) -> Live | None:
    """The tables of this state: the cached ones, updated from the log, or those on disk.

    For a run that was never updated they are computed in memory. None where single edges cannot be followed.
    """
    cached: LiveTables | None = run._session.tables
    if cached is not None and cached.state == state:
        return cached.live
    fitted = run.cached_model.fitted
    if state is None:
        graph = run.graph()
        live = Live.of(fitted, graph, run.features()) if can_follow(fitted, graph) else None
    elif not state.followed or not isinstance(fitted, ExactModel):
        live = None
    elif (
        cached is not None and cached.state is not None and (first := state.log_after(cached.state.number)) is not None
    ):
        live, later = cached.live, cached.later_ids
        run._session.tables = None  # a missing file would leave them between two states
        if state.base == cached.state.base:
            if state.counts["nodes"] > live.capacity:
                live.grow(state.counts["nodes"] + SPARE_LEAST)
            for update in folder.updates(state, first):
                folder.apply(live, update)
                later = pa.concat_arrays([later, update.new_ids.cast(later.type)])
            run._session.tables = LiveTables(state, live, later)
            return live
        live = folder.follow(state, fitted, run.base_features(state), live.tables)  # the log was folded
    else:
        live = folder.follow(state, fitted, run.base_features(state))
    if live is not None:
        later = live.base.id_column.slice(0, 0)
        if state is not None and state.log:
            later = pa.concat_arrays([u.new_ids.cast(later.type) for u in folder.updates(state)])
        run._session.tables = LiveTables(state, live, later)
    return live


def ids_of(run: StoredRun, live: Live) -> pa.Array:
    """The ids of the nodes of these tables, the cached ones of the run."""
    return pa.concat_arrays([live.base.id_column, run._session.later_ids])
