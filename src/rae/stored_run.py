"""A run folder as it is read: its files, with the updates of its log applied.

    model.safetensors     the fitted model
    embeddings.parquet    id, embedding
    graph/                the graph, unless the run is lean
    names.parquet         display names of the nodes, if given: id, name
    features.npz          the features of the fit, if any; features.npy where they are dense
    roles.*               the roles, if fitted: parquet per node, json of cards, safetensors of the model of roles
    explore/              the page, if written: index.html opens without a server
    run.json              settings, versions, counts, timings, training, inputs
    updates/              the log of updates and its base, after the first update (see `rae.updates`)

Rows of the graph, of the features and of the embeddings are in the same order.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

from rae.errors import Argument, RaeError, RunError
from rae.run_folder import (
    CARDS,
    DENSE,
    EMBEDDINGS,
    FITTED_ROLES,
    FORCE,
    GRAPH,
    INFO,
    MODEL,
    NAMES,
    NOTICE,
    PAGE,
    RUN_FILES,
    SPARSE,
    read_info,
)
from rae.updates import GRAPH_FILES, State, UpdateFolder

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from rae.blocks import Block, Weights
    from rae.edits import EdgeForm
    from rae.engine.live import Live
    from rae.estimator import RAE
    from rae.features import Matrix
    from rae.graph import Graph
    from rae.roles import LabelTable, Roles
    from rae.roles.cards import Card
    from rae.search import Similar

log = logging.getLogger("rae")
T = TypeVar("T")

STAGES = ("read", "fit", "embed")
_REPLACE = "`rae roles --force` or fit_roles() replaces"
COUNTS = ("nodes", "edges", "isolated", "features", "width", "rows", "doubled", "self_loops")


class LiveTables(NamedTuple):
    """The tables of a run in memory, their state, and the ids of nodes added after their base."""

    state: State | None
    live: Live
    later_ids: pa.Array


@dataclass
class UpdateSession:
    """The state that a run caches in memory between updates and new nodes."""

    tables: LiveTables | None = None
    roles: Sequence[Any] | None = None  # role, confidence and membership of every node
    form: EdgeForm | None = None
    unfinished: str | None = None  # the name of a base that is being written
    is_alone: bool = False  # whether this object holds the lock of updates

    @property
    def later_ids(self) -> pa.Array:
        """The ids of the nodes that came after the base of the tables."""
        assert self.tables is not None
        return self.tables.later_ids


@dataclass(frozen=True)
class StoredRun:
    """A complete run folder: its path and the contents of run.json."""

    path: Path
    info: dict[str, Any]
    _session: UpdateSession = field(default_factory=UpdateSession, init=False, repr=False, compare=False)

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """The run in this folder; a missing, incomplete, foreign or newer one is refused."""
        folder = Path(path)
        if not folder.is_dir():
            from rae.io.files import nearest
            from rae.storage.objects import is_url, without_secrets

            if is_url(path):
                raise RunError(
                    f"a run is opened in a folder of this machine, got {without_secrets(str(path))}; copy it here, or "
                    "embed with its model by `rae embed`, which takes a URL"
                )

            what = "a file" if folder.exists() else "nothing"
            near = None if folder.exists() else nearest(folder)
            way = f"did you mean {near!r}?" if near else "`rae fit` makes one"
            raise RunError(f"expected a run folder at {folder}, found {what}; {way}")
        if not (folder / INFO).is_file():
            if any((folder / name).exists() for name in RUN_FILES):
                raise RunError(f"the run in {folder} is incomplete: it has no {INFO}; fit it again with ", FORCE)
            raise RunError(f"{folder} is not a run folder: it has no {INFO}; `rae fit EDGES --out {folder}` makes one")
        return cls(folder, read_info(folder / INFO))

    def model(self) -> RAE:
        """The fitted model."""
        from rae.estimator import RAE

        return RAE.load(self.path / MODEL)

    def embeddings(self) -> tuple[pa.Array, np.ndarray[Any, Any]]:
        """The ids and their vectors, in the same order.  -> (n,), (n, width)"""
        from rae.io import read_embeddings

        def read(state: State | None) -> tuple[pa.Array, np.ndarray[Any, Any]]:
            ids, z = read_embeddings(self.path / EMBEDDINGS) if state is None else self._updates.vectors(state)
            return ids, z

        return self._as_it_is(read)

    @property
    def _updates(self) -> UpdateFolder:
        return UpdateFolder(self.path)

    def _as_it_is(self, read: Callable[[State | None], T]) -> T:
        """The result of `read` for the current state; where an update replaced that meanwhile, for the next one."""
        while True:
            state = self._updates.state()
            try:
                return read(state)
            except (OSError, RaeError):
                if self._updates.state() == state:
                    raise

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The named blocks of the vectors; none in runs of models without blocks."""
        from rae.io.embeddings import embeddings_blocks

        return self._as_it_is(lambda state: embeddings_blocks(self._updates.file(state, EMBEDDINGS)))

    def names(self) -> pa.Array | None:
        """The display names of the nodes, in the rows of the embeddings, or None where the run has none."""
        import pyarrow as pa

        path = self.path / NAMES
        if not path.is_file():
            return None
        names = _read_column(path, "name")
        later = self.counts["nodes"] - len(names) if self._updates.state() is not None else 0
        return pa.concat_arrays([names, pa.nulls(later, names.type)]) if later > 0 else names

    def ids(self) -> pa.Array:
        """The ids of the nodes, in the rows of the embeddings."""
        return self._as_it_is(
            lambda state: self._updates.ids(state) if state is not None else _read_column(self.path / EMBEDDINGS, "id")
        )

    @property
    def has_graph(self) -> bool:
        """Whether the run has its graph."""
        return (self.path / GRAPH_FILES[0]).is_file() or self._updates.state() is not None

    def graph(self) -> Graph:
        """The graph, with all updates; memory-mapped where none is in the log. Its rows are those of the embeddings.

        It counts as whole for models of the fit of this run; see `RAE.transform`.
        """
        from rae.graph.folder import open_graph

        if not self.has_graph:
            raise RunError(
                f"the run in {self.path} keeps no graph (an older or a lean one); fit it again without ",
                Argument("lean", True),
            )
        graph: Graph = self._as_it_is(
            lambda state: open_graph(self.path / GRAPH) if state is None else self._updates.graph(state)
        )
        return graph.as_known_to(self.info.get("fitted_on", ""))

    def features(self) -> Matrix | None:
        """The features, with all updates, one row per node, or None where the run has none."""

        def read(state: State | None) -> Matrix | None:
            base = self.base_features(state)
            features: Matrix | None = base if state is None else self._updates.features(state, base)
            return features

        return self._as_it_is(read)

    @property
    def has_features(self) -> bool:
        """Whether the run has the features of its fit."""
        state = self._updates.state()
        return any(self._updates.file(state, name).is_file() for name in (SPARSE, DENSE))

    def base_features(self, state: State | None) -> Matrix | None:
        """The features before the updates of a state's log."""
        paths = [self._updates.file(state, name) for name in (SPARSE, DENSE)]
        files = [path for path in paths if path.is_file()]
        return _read_matrix(files[0]) if files else None

    @property
    def n_updates(self) -> int:
        """Updates since the fit."""
        state = self._updates.state()
        return 0 if state is None else state.number

    @property
    def roles_behind(self) -> int:
        """Updates since the cards of the roles were written; nodes that changed have current roles anyway."""
        state = self._updates.state()
        if state is None or not self.has_roles:
            return 0
        description = self.role_record()
        return state.number - int(description.get("update", 0))

    @cached_property
    def cached_model(self) -> RAE:
        """The fitted model, read once."""
        return self.model()

    @cached_property
    def feature_names(self) -> tuple[str, ...] | None:
        """The names of the feature columns, where they had names."""
        return self.model().feature_names

    @cached_property
    def model_checksum(self) -> str:
        """The SHA-256 of the model file, by which embeddings of one model are recognised."""
        from rae.graph.folder import checksum

        return checksum(self.path / MODEL)

    @property
    def counts(self) -> dict[str, int]:
        """The counts of the inputs and the width of the vectors, the most important first."""
        state = self._updates.state()
        return _in_order(self.info["counts"] | ({} if state is None else state.counts), COUNTS)

    @property
    def timings(self) -> dict[str, float]:
        """Seconds by stage, as the stages follow each other."""
        return _in_order(self.info["timings"], STAGES)

    @property
    def has_roles(self) -> bool:
        """Whether the run has roles."""
        return (self.path / CARDS).is_file()

    def roles(self, k: int | str | None = None, *, weights: Weights | None = None) -> Roles:
        """The stored roles; roles of another model are refused, and another number or other weights where given."""
        from rae.blocks import parse_weights
        from rae.roles import Roles

        self._check_roles()
        roles = Roles.load(self.path / FITTED_ROLES)
        roles.check_model(self.model_checksum, str(self.path))
        if k is not None and k not in (roles.k, roles.n_roles):
            raise RunError(f"{self.path} has {roles.n_roles} roles already; {_REPLACE} them by {k}")
        if weights is not None and parse_weights(weights, self.blocks) != roles.parameters.weights:
            used = ",".join(f"{name}={weight:g}" for name, weight in roles.parameters.weights.items()) or "none"
            raise RunError(f"the roles of {self.path} have other weights ({used}); {_REPLACE} them")
        return roles.remember(self.embeddings)

    def _check_roles(self) -> None:
        if not self.has_roles:
            raise RunError(
                f"the run in {self.path} has no roles yet; `rae roles {self.path}` or fit_roles() finds them"
            )

    def role_record(self) -> dict[str, Any]:
        """The content of roles.json: how many roles and why, and a card each."""
        from rae.roles.storage import read_record

        return read_record(self.path / CARDS)

    def card(self, node: Any) -> Card:
        """The card of the role that this node plays most; `node` is an id or a display name. Print it."""
        from rae.roles.cards import Card
        from rae.search import row_of

        self._check_roles()
        ids, role, _, _ = self.role_table()
        self.warn_of_old_cards()
        return Card.of(self.role_record()["cards"][int(role[row_of(ids, node, self.names())])])

    def warn_of_old_cards(self) -> None:
        """Warn where the run was updated since its cards were written."""
        if behind := self.roles_behind:
            when = "before the last update" if behind == 1 else f"{behind} updates ago"
            log.warning(
                "the cards and their sizes are of the run %s; `rae roles %s --force` finds roles and writes cards anew",
                *(when, self.path),
            )

    def similar(self, node: Any, k: int = 10, *, weights: Weights | None = None) -> Similar:
        """The k nodes most like this one, by `rae.similar`; `node` is an id or a display name. Print it."""
        from rae.search import similar

        return similar(self, node, k, weights=weights)

    def role_table(self) -> tuple[Any, Any, Any, Any]:
        """Ids, roles, confidences and memberships, in the rows of the embeddings.  -> (n,), (n,), (n,), (n, k)"""
        return self._as_it_is(self._updates.role_table)

    def roles_of(self, ids: Sequence[Any]) -> dict[Any, int]:
        """The role of each of these ids that the run has; nothing where it has no roles."""
        import pyarrow as pa

        from rae.graph.ids import index_in

        if not self.has_roles:
            return {}
        all_ids, role, _, _ = self.role_table()
        rows = index_in(pa.array(ids, all_ids.type), all_ids).to_pylist()
        return {id: int(role[row]) for id, row in zip(ids, rows, strict=True) if row is not None}

    def label_table(self, labels: Any, column: str | None = None, *, id_column: str | None = None) -> LabelTable:
        """How often each role has each label.

        `labels` is a table, in a file or a data frame, a mapping from ids, or one label per node in row order.
        """
        from rae.graph.frames import is_frame
        from rae.io.node_columns import node_names, read_node_columns
        from rae.roles.labels import label_table

        ids, role, _, memberships = self.role_table()
        if isinstance(labels, Mapping):
            labels = node_names(labels, ids)
        elif isinstance(labels, (str, os.PathLike)) or is_frame(labels):
            columns = read_node_columns(labels, ids, () if column is None else [column], id_column=id_column)
            column, labels = next(iter(columns.items()))
        return label_table(role, labels, memberships.shape[1], column=column or "label")

    def drop_page(self, what: str = "the old roles") -> None:
        """Remove the page before the run loses what it shows, with a warning."""
        if (self.path / PAGE).is_file():
            for name in (NOTICE, PAGE):  # the page last: a killed call is repeated while it is there
                (self.path / name).unlink(missing_ok=True)
            log.warning("the page of %s showed %s and is gone; `rae explore` makes it anew", self.path, what)

    def to_arrow(self) -> pa.Table:
        """The nodes as an Arrow table: id, name, role, confidence, embedding; names and roles where it has some."""
        import pyarrow as pa

        from rae.graph.frames import vector_table

        ids, z = self.embeddings()
        columns: dict[str, Any] = {"id": ids}
        if (names := self.names()) is not None:
            columns["name"] = names
        if self.has_roles:
            _, columns["role"], columns["confidence"], _ = self.role_table()
        return pa.table({**columns, "embedding": vector_table(ids, z).column("embedding")})

    def files(self) -> dict[str, int]:
        """The run's files that are there, with their sizes in bytes."""
        return {n: (self.path / n).stat().st_size for n in sorted(RUN_FILES) if (self.path / n).is_file()}


def _read_column(path: Path, name: str) -> pa.Array:
    """A column of a table in the run."""
    from rae.graph.ids import is_text
    from rae.io.tables import open_table, read_ids

    table = open_table(path)
    if name not in table.names:
        raise RunError(f"{path} is damaged: it has no column {name!r}; fit the run again with ", FORCE)
    at = table.names.index(name)
    if name == "id":
        return read_ids(table, {"embedding": at})[0]
    column = table.read([at])[0] if hasattr(table, "schema") else None  # type: ignore[arg-type]  # it is no text
    if column is None or not is_text(column.type):
        raise RunError(f"{path} is damaged: its column {name!r} must hold text; give the names again")
    return column.combine_chunks()


def _read_matrix(path: Path) -> Matrix:
    from rae.io import read_features

    try:
        matrix = read_features(path)
    except RaeError as error:
        raise RunError(f"{path} is damaged (", error, "); fit the run again with ", FORCE) from None
    if not hasattr(matrix, "shape"):
        raise RunError(f"{path} is damaged (not a bare matrix); fit the run again with ", FORCE)
    return matrix  # type: ignore[return-value]  # a table has no shape


def _in_order(values: Mapping[str, Any], order: tuple[str, ...]) -> dict[str, Any]:
    return {name: values[name] for name in (*order, *(n for n in values if n not in order)) if name in values}
