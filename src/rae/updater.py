"""An update of a run from start to end, and the vector of one node that is not in its graph yet."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from rae.edits import EdgeForm, Edits, Ids, check_edits, edges_of_new_node, one_row
from rae.engine.live import Live, can_follow, edited_graph
from rae.errors import Argument, GraphError, RunError
from rae.folding import finish_base, fold_now
from rae.graph import Graph
from rae.graph.folder import write_graph
from rae.graph.ids import id_array, shown
from rae.inputs import Reading, is_table
from rae.io.embeddings import embeddings_dtype
from rae.live_tables import current_live
from rae.ops.edits import COMES, EditedRows
from rae.progress import Progress
from rae.storage.npy import map_array, write_matrix
from rae.stored_run import LiveTables, StoredRun
from rae.updates import (
    EMBEDDINGS,
    GRAPH,
    ROLE_PARTS,
    TABLES,
    State,
    UpdateFolder,
    capacity_for,
    counts_of,
    new_table,
    with_rows,
    write_counts,
)

FOLD_NUMBERS = 4_000_000  # numbers in all vectors up to which every update folds the log: a Parquet file of 16 MB
FOLD_SHARE = 1.0  # rows of vectors in the log per row of the graph above which it is folded
TABLES_REMEMBERED = 400  # digests of added tables in state.json: a year of nightly updates


@dataclass(frozen=True)
class Updated:
    """What an update did: edges, nodes and vectors that changed, whether all was recomputed, and seconds."""

    number: int  # of updates since the fit
    added: int
    removed: int
    new_nodes: int
    features: int  # rows that changed
    moved: pa.Array  # the ids whose vectors were recomputed
    already_there: int = 0  # edges to add that were in the graph and did not change
    changed: int = 0  # edges to add that were in the graph and got another weight
    self_loops: int = 0
    zeros: int = 0  # rows of weight 0, which are left out
    apart: int = 0  # rows to add of which no end was a node of the run
    in_full: bool = False  # whether a full pass was cheaper, or the only way
    folded: bool = False  # whether the log was folded into embeddings.parquet
    seconds: float = 0.0

    def __repr__(self) -> str:
        return (
            f"Updated(number={self.number}, added={self.added:,}, removed={self.removed:,}, new_nodes="
            f"{self.new_nodes:,}, moved={len(self.moved):,}, in_full={self.in_full}, seconds={self.seconds:.3f})"
        )


def update_run(
    run: StoredRun,
    added: Any,
    removed: Any,
    features: Any,
    reading: Reading,
    fold: bool | None,
    progress: Progress | None,
    *,
    again: bool = False,
) -> Updated:
    """Update a run and say what changed; see `Run.update`."""
    began = time.perf_counter()
    folder = UpdateFolder(run.path, run._session.unfinished)
    began_to_change = False
    with contextlib.nullcontext() if run._session.is_alone else folder.alone():
        try:
            state = _prepare_state(run, folder, progress)
            live = current_live(run, folder, state)
            graph = live.base if live is not None else folder.graph(state)
            ids = Ids(graph, run._session.later_ids if live is not None else graph.id_column.slice(0, 0))
            rows = EditedRows.of(graph, graph.n_nodes) if live is None else live.rows
            model, record = run.model(), run.info.get("reading", {})
            form = EdgeForm.of(graph, reading, record)
            reading = reading.as_at_the_fit(
                record, edges=is_table(added) or is_table(removed), features=is_table(features)
            )
            edits = check_edits(
                ids, rows, form, added, removed, features, reading,
                0 if model.structural else _width(run, folder, state), model.feature_names,
            )  # fmt: skip
            state = _with_table(state, edits, again)
            began_to_change = True
            out = Updated(
                state.number, edits.n_added, edits.n_removed, len(edits.new_ids),
                0 if edits.features is None else len(edits.features[0]), ids.column.slice(0, 0),
                edits.n_already_there, edits.n_changed, edits.n_self_loops, edits.n_zeros, edits.n_apart,
            )  # fmt: skip
            if edits.is_empty:
                outcome = replace(out, moved=ids.column.slice(0, 0))
                if fold and state.log and live is not None:
                    fold_now(run, folder, state, live, ids.column, progress=progress)
                    outcome = replace(outcome, folded=True)
            elif live is None:
                column = _update_in_full(run, folder, state, graph, edits, progress)
                outcome = replace(out, number=state.number + 1, moved=column, in_full=True, folded=True)
            else:
                outcome = _update_live(run, folder, state, live, ids, edits, out, fold, progress)
        except BaseException:
            if began_to_change:  # the cached tables may be between two states
                run._session.tables = run._session.roles = None
            raise
    return replace(outcome, seconds=time.perf_counter() - began)


def _with_table(state: State, edits: Edits, again: bool) -> State:
    """The state with the digest of the table to add; a table that was added before is refused without `again`."""
    if not edits.table or edits.is_empty:
        return state
    if edits.table in state.came and not again:
        raise GraphError(
            "an earlier update added this table: the same rows would have their weights added twice; nothing was "
            "changed: leave it out, or, if it is meant, pass ",
            Argument("again", True),
        )
    return replace(state, came=(*(one for one in state.came if one != edits.table), edits.table)[-TABLES_REMEMBERED:])


def _update_live(
    run: StoredRun,
    folder: UpdateFolder,
    state: State,
    live: Live,
    ids: Ids,
    edits: Edits,
    out: Updated,
    fold: Any,
    progress: Any,
) -> Updated:
    feature_rows = _in_stored_kind(edits.features, live)
    changes = live.update(edits.us, edits.vs, edits.edits, edits.values, new=len(edits.new_ids), features=feature_rows)
    if state.number == 0 and run.info.get("asked", {}).get("half"):
        changes.in_full = True  # the vectors of the fit came from rows in half precision: none of them stays
    column = pa.concat_arrays([ids.column, edits.new_ids])
    rows = changes.rows
    small = live.n_nodes * live.width <= FOLD_NUMBERS
    large = state.changed + len(rows) > FOLD_SHARE * live.n_nodes
    fold = changes.in_full or (small or large or live.capacity > _capacity(folder, state) if fold is None else fold)
    roles = _role_rows(run, live, rows) if run.has_roles and not changes.in_full else None
    run.drop_page("the state before this update")
    if fold:
        fold_now(run, folder, state, live, column, changes, roles, progress)
    else:
        new = {
            "ids": edits.new_ids,
            "ends": changes.ends,
            "counted": changes.counted,
            "features": feature_rows,
            "roles": roles,
        }
        later = folder.append(state, changes, live, new, counts_of(live.rows.degrees[: live.n_nodes]))
        if roles is not None and run._session.roles is not None:
            run._session.roles = with_rows(run._session.roles, live.n_nodes, [roles])
        run._session.tables = LiveTables(later, live, column.slice(live.base.n_nodes))
    moved = column if changes.in_full else column.take(pa.array(rows))
    return replace(out, number=state.number + 1, moved=moved, in_full=changes.in_full, folded=bool(fold))


def embed_new(
    run: StoredRun,
    node: Any,
    neighbours: Any,
    features: Any,
    weights: Any = None,
    directions: Any = None,
    kinds: Any = None,
) -> Any:
    """The vector of a node that is not in the graph yet; see `Run.embed`."""
    folder = UpdateFolder(run.path)
    state = folder.state()
    live = current_live(run, folder, state)
    model = run.cached_model
    if live is not None:
        ids = Ids(live.base, run._session.later_ids)
    else:
        ids = Ids(graph := run.graph(), graph.id_column.slice(0, 0))
    if node is not None and int(ids.find(ids.as_own_kind(id_array([node]), "new nodes"))[0]) >= 0:
        raise GraphError(f"{node!r} is a node of the run already; `run.embeddings()` has its vector")
    if isinstance(neighbours, (str, bytes)):
        raise GraphError(f"neighbours must be a list of ids, got the text {neighbours!r}; write [{neighbours!r}]")
    neighbour_ids = list(neighbours)
    column = ids.as_own_kind(id_array(neighbour_ids), "neighbours") if neighbour_ids else pa.array([], ids.kind)
    rows = ids.find(column)
    if (rows < 0).any():
        unknown = column.filter(pa.array(rows < 0))
        raise GraphError(f"{len(unknown):,} of {len(column):,} neighbours are not in the graph, first {shown(unknown)}")
    base = graph if live is None else live.base
    edited = EditedRows.of(base, base.n_nodes + 1) if live is None else live.rows
    form = _form(run, base)
    near, values = edges_of_new_node(ids, edited, form, rows, weights, directions, kinds)
    if live is not None:
        like = None if live.features is None else live.features.matrix
        feature_row = one_row(features, model.n_features if like is not None else 0, model.feature_names, like)
        return live.embed(near, feature_row, values)
    n, matrix = graph.n_nodes, run.features()
    feature_row = one_row(features, 0 if matrix is None else matrix.shape[1], model.feature_names, matrix)
    edited.replace(np.full(len(near), n), near, np.full(len(near), COMES), values)
    grown = edited_graph(graph, edited, pa.array(np.arange(n + 1)))
    patched = None if matrix is None else _patch_features(matrix, (np.array([n]), feature_row), n + 1)
    return model.transform(grown, patched, nodes=[n], units="fit", whole=True)[0]


# ------------------------------------------------------------------------------------- the state


def _prepare_state(run: StoredRun, folder: UpdateFolder, progress: Progress | None) -> State:
    """The current state; the first update of a run writes the tables of the levels, in a full pass."""
    state = folder.state()
    if state is not None:
        if not state.log:
            folder.show(state)  # a killed process may have left files hidden
        return state
    graph, features, fitted = run.graph(), run.features(), run.model().fitted
    base = folder.new_base(None)
    folder.adopt(base)
    if followed := can_follow(fitted, graph):
        (base / TABLES).mkdir()
        live = Live.of(fitted, graph, features, capacity=capacity_for(graph.n_nodes), make=partial(new_table, base))
        for table in live.tables.values():
            table.flush()  # type: ignore[attr-defined]  # a mapped file
        write_counts(base, live, live.n_nodes)
    state = State(0, base.name, (), counts_of(graph.degrees), followed=followed)
    folder.commit(state)
    return state


def _capacity(folder: UpdateFolder, state: State) -> int:
    """Nodes that the tables of the base have room for."""
    return len(map_array(next((folder.folder / state.base / TABLES).glob("*-0.npy"))))


def _form(run: StoredRun, graph: Graph) -> EdgeForm:
    """The form of the run's edges, cached after the first call."""
    if run._session.form is None:
        run._session.form = EdgeForm.of(graph, Reading(), run.info.get("reading", {}))
    form: EdgeForm = run._session.form
    return form


def _width(run: StoredRun, folder: UpdateFolder, state: State) -> int:
    features = run.base_features(state)
    return 0 if features is None else int(features.shape[1])


def _in_stored_kind(features: tuple[Any, Any] | None, live: Live) -> tuple[Any, Any] | None:
    """Feature rows as the run stores them: dense or sparse."""
    if features is None or live.features is None:
        return None
    return features[0], _like(features[1], live.features.matrix)


def _like(values: Any, matrix: Any) -> Any:
    import scipy.sparse as sp

    if sp.issparse(matrix):
        return sp.csr_array(values, dtype=np.float32)
    dense: Any = values.toarray() if hasattr(values, "toarray") else values
    return np.ascontiguousarray(dense, np.float32)


def _patch_features(matrix: Any, features: tuple[Any, Any], n_rows: int) -> Any:
    from rae.engine.exact_levels import PLAIN
    from rae.features.edited import EditedFeatures

    edited = EditedFeatures(None, matrix, PLAIN)  # type: ignore[arg-type]  # given rows need no graph
    return edited.with_rows(features[0], _like(features[1], matrix)).whole_matrix(n_rows)


# ------------------------------------------------------------------------------------- a new base


def _update_in_full(
    run: StoredRun, folder: UpdateFolder, state: State, graph: Graph, edits: Edits, progress: Progress | None
) -> pa.Array:
    """Update a run by a full pass, where single edges cannot be followed."""
    column = pa.concat_arrays([graph.id_column, edits.new_ids])
    rows = EditedRows.of(graph, len(column))
    rows.replace(edits.us, edits.vs, edits.edits, edits.values)
    changed = edited_graph(graph, rows, column)
    matrix = run.features()
    if matrix is not None and edits.features is not None:
        matrix = _patch_features(matrix, edits.features, len(column))
    run.drop_page("the state before this update")
    base, model = folder.new_base(state), run.model()
    write_graph(base / GRAPH, changed)
    if matrix is not None:
        write_matrix(base, matrix)
    dtype = embeddings_dtype(folder.file(state, EMBEDDINGS))
    about: dict[str, Any] = {"dtype": dtype, "model": run.model_checksum, "units": "fit", "whole": True}
    model.embed_to(base / EMBEDDINGS, changed, matrix, **about, progress=progress or False)
    later = State(state.number + 1, base.name, (), counts_of(changed.degrees), followed=False, came=state.came)
    finish_base(run, folder, base, column, later, None)
    return column


def _role_rows(run: StoredRun, live: Live, rows: Any) -> dict[str, Any]:
    """Roles, confidences and memberships of these rows, by the fitted roles."""
    assignment = run.roles().assign(live.vectors(rows))
    values = assignment.labels, assignment.confidence, assignment.memberships
    return {"rows": rows} | dict(zip(ROLE_PARTS, values, strict=True))


def refuse_lean(run: StoredRun) -> None:
    """Refuse to update a run that keeps no graph, or not the features of its fit."""
    if not run.has_graph:
        run.graph()  # raises
    if not run.cached_model.structural and not run.has_features:
        raise RunError(f"the run in {run.path} keeps no features; fit it again without lean=True")
