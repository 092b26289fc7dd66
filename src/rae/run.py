"""Run: the folder that `rae fit` and `fit_run` write and every other command reads.

    model.safetensors     the fitted model
    embeddings.parquet    id, embedding
    graph/                the graph, unless the run is lean
    names.parquet         display names of the nodes, if given: id, name
    features.npz          the features of the fit, if any; features.npy where they are dense
    roles.*               the roles, if fitted: parquet per node, json of cards, safetensors of the model of roles
    explore/              the page, if written: index.html opens without a server
    run.json              settings, versions, counts, timings, training, inputs
    updates/              what is current, after the first update (see `rae.updates`)

Rows of the graph, of the features and of the embeddings are in the same order.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
import platform
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from rae.errors import Argument, ConfigError, FileError, RaeError, RunError
from rae.run_folder import (
    CARDS,
    DENSE,
    FITTED_ROLES,
    FORCE,
    FORMAT,
    FORMAT_VERSION,
    GRAPH,
    INFO,
    MODEL,
    NAMES,
    NOTICE,
    PAGE,
    RUN_FILES,
    SPARSE,
    check_free,
    read_info,
    staging_folder,
)
from rae.run_folder import EMBEDDINGS as EMBEDDINGS
from rae.updates import GRAPH_FILES, State, UpdateFolder
from rae.version import versions_of

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from rae.blocks import Block, Weights
    from rae.drift import Drift
    from rae.edits import EdgeForm
    from rae.estimator import RAE
    from rae.features import Matrix
    from rae.graph import Graph
    from rae.io.embeddings import EmbeddingsFile
    from rae.progress import Asked
    from rae.reasons import Why
    from rae.roles import LabelTable, Roles
    from rae.roles.cards import Card
    from rae.search import Similar
    from rae.stability import Reliability
    from rae.updater import KeptTables, Updated

    class Written(Protocol):
        """What an export wrote: the kind of target, where, rows of vectors, files, and notes."""

        kind: str
        where: str
        rows: int
        files: tuple[Path, ...]
        notes: tuple[str, ...]

    class Page(Protocol):
        """A page that a notebook shows: the path of its file, and the HTML."""

        path: Path

        def _repr_html_(self) -> str: ...


log = logging.getLogger("rae")
T = TypeVar("T")

COUNTS = ("nodes", "edges", "isolated", "features", "width", "rows", "doubled", "self_loops")
STAGES = ("read", "fit", "embed")
LIBRARIES = ("numpy", "scipy", "pyarrow", "torch", "safetensors", "scikit-learn")


@dataclass
class _Kept:
    """What a run keeps in memory from one update, or one new node, to the next."""

    tables: KeptTables | None = None
    roles: Sequence[Any] | None = None  # role, confidence and membership of every node
    form: EdgeForm | None = None
    unfinished: str | None = None  # the name of a base that is being written
    is_alone: bool = False  # whether this object holds the lock of updates


@dataclass(frozen=True)
class Run:
    """A complete run folder: its path and the contents of run.json."""

    path: Path
    info: dict[str, Any]
    _kept: _Kept = field(default_factory=_Kept, init=False, repr=False, compare=False)

    @classmethod
    def open(cls, path: str | Path) -> Run:
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

    @classmethod
    def create(
        cls,
        path: str | Path,
        model: RAE,
        ids: pa.Array,
        embeddings: np.ndarray[Any, Any] | Path | Callable[[Path, str], int],
        *,
        graph: Graph | None = None,
        features: Any = None,
        counts: Mapping[str, Any] | None = None,
        timings: Mapping[str, float] | None = None,
        inputs: Mapping[str, Any] | None = None,
        names: pa.Array | None = None,
        asked: Mapping[str, Any] | None = None,
        reading: Mapping[str, Any] | None = None,
        dtype: str = "float32",
        force: bool = False,
    ) -> Run:
        """Write a run folder and return it; whatever else lies in the folder is left alone.

        `graph` and `features` (a matrix in row order or a FeatureTable) are stored too, if given: role cards
        need them to describe members, the page to draw neighbourhoods. `embeddings` is a matrix in the order of
        ids, a Parquet file of one, which is moved into the run, or a function of a path and the model's checksum
        that writes such a file and returns the width of the vectors; its duration is the timing "embed".
        `names` are display names in the order of ids; `asked` is what tells this fit from others, for `fit_run`;
        `reading` how its tables were read (`Reading.record`), for those of tomorrow.
        """
        from rae.graph.folder import checksum, write_graph
        from rae.storage.atomic import write_json
        from rae.storage.npy import write_matrix

        folder = Path(path)
        check_free(folder, force=force)
        matrix = _in_row_order(ids, graph, features)
        with staging_folder(folder) as new:
            model.save(new / MODEL)
            if graph is not None:
                write_graph(new / GRAPH, graph)
            if matrix is not None:
                write_matrix(new, matrix)
            if names is not None:
                _write_names(new, ids, names)
            began = time.perf_counter()
            # Vectors cost the most: a finished file of them is moved here only after everything else is written.
            width = _write_vectors(embeddings, new / EMBEDDINGS, ids, checksum(new / MODEL), dtype)
            embed_timing = {"embed": time.perf_counter() - began} if callable(embeddings) else {}
            info: dict[str, Any] = {
                "format": FORMAT,
                "format_version": FORMAT_VERSION,
                "settings": model.config.stored(),
                "structural": bool(model.structural),
                "versions": _versions(),
                "counts": {**(counts or {}), "width": width},
                "timings": {
                    name: round(float(spent), 4) for name, spent in {**(timings or {}), **embed_timing}.items()
                },
                "training": summary(model.history),
                "history": list(model.history),
                "inputs": dict(inputs or {}),
                "asked": dict(asked or {}),
                "reading": dict(reading or {}),
                **model.edges_read,
            }
            info = json.loads(json.dumps(info, sort_keys=True))  # as `open` will read it
            write_json(new / INFO, info)
        return cls(folder, info)

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
        """What `read` reads of the current state; where an update replaced that meanwhile, of the next one."""
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

    def set_names(self, names: Any, *, column: str | None = None, id_column: str | None = None) -> None:
        """Keep display names for the nodes: a mapping from ids, one name per node in row order, or a table file.

        Roles that are found later show them.
        """
        from rae.io.node_columns import node_names

        ids = self.ids()
        _write_names(self.path, ids, node_names(names, ids, column=column, id_column=id_column))

    @property
    def has_graph(self) -> bool:
        """Whether the run has its graph."""
        return (self.path / GRAPH_FILES[0]).is_file() or self._updates.state() is not None

    def graph(self) -> Graph:
        """The graph, with all updates; memory-mapped where none is in the log. Its rows are those of the embeddings.

        `RAE.transform` knows that it is whole.
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
        return graph.as_whole()

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

    # ------------------------------------------------------------------------- tomorrow's edges

    def update(
        self,
        added: Any = None,
        removed: Any = None,
        features: Any = None,
        *,
        fold: bool | None = None,
        again: bool = False,
        progress: Asked = None,
        **reading: Any,
    ) -> Updated:
        """Let edges come and go and features change; the vectors are then those of a full pass over the new graph.

        `added` and `removed` are edges by id: pairs, two arrays, a data frame, a Graph or an edge file. Ids that exist
        keep their rows, new ones are appended. `features` is a table keyed by id (a file, a data frame, a
        FeatureTable): rows that changed, and those of new nodes. Tables are read as at the fit; `reading` are fields of
        `rae.inputs.Reading` where they are to be read otherwise.

        Where the edges of the run have weights, directions or kinds, so have those that come: tuples are (source,
        target, weight, kind), as far as the run has these. One that is there already is merged by the rule of the fit
        (`doubled`): weights are added, or the larger one stays. An edge goes whole, that of one direction and kind
        alone; one that is removed and added has the new weight. A table (a file, a frame, a Graph) whose weights an
        earlier update has added is refused, unless it is meant to come `again`.

        A full pass in the units of the fit, `model.transform(run.graph(), run.features(), units="fit")`, gives the same
        bytes. Only what is near the changes is computed, unless a full pass is cheaper. Nothing is
        learned anew: the model, its units and its roles stay those of the fit.

        A killed update leaves the run as it was before it or after it. `fold=True` also writes embeddings.parquet anew,
        `False` leaves that for later; by default small runs do, and those whose log has grown long.

        >>> from tempfile import TemporaryDirectory
        >>> from rae import Graph, fit_run
        >>> with TemporaryDirectory() as folder:
        ...     calls = Graph.from_edges([("ann", "bob"), ("bob", "cid"), ("cid", "ann"), ("cid", "dan")])
        ...     run = fit_run(calls, out=Path(folder, "run"), page=False)
        ...     changed = run.update(added=[("dan", "eve")], removed=[("ann", "bob")])
        ...     changed.added, changed.removed, changed.new_nodes, run.counts["nodes"]
        (1, 1, 1, 5)
        """
        from rae.progress import shown
        from rae.reading import Reading
        from rae.updater import refuse_lean, update_run

        refuse_lean(self)
        if fold not in (None, True, False):
            raise ConfigError(Argument("fold"), f" must be True, False or None, got {fold!r}")
        with shown(progress) as report:
            return update_run(self, added, removed, features, Reading.of(reading), fold, report, again=again)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Only this object updates the run during the block; another one, in any process, is refused."""
        from rae.updater import refuse_lean

        refuse_lean(self)
        with self._updates.alone():
            self._kept.is_alone = True
            try:
                yield
            finally:
                self._kept.is_alone = False

    def fold(self, *, progress: Asked = None) -> None:
        """Write what is current to embeddings.parquet and graph/, which are not there while the log has updates."""
        self.update(fold=True, progress=progress)

    def embed(
        self,
        node: Any = None,
        *,
        neighbours: Any = (),
        features: Any = None,
        weights: Any = None,
        directions: Any = None,
        kinds: Any = None,
    ) -> np.ndarray[Any, Any]:
        """The vector of a node that is not in the graph yet, as if it were added with these neighbours.  -> (width,)

        It is the row that a full pass over the graph with that node would give. Nothing is kept. `node` is the id that
        it will have; an id of the run is refused. `features` are its features: numbers in the order of the columns, or
        a mapping by name. Where the edges of the run have these, `weights`, `directions` ("out": from the new node to
        the neighbour, or "in") and `kinds` are one for each neighbour, or one for all; a neighbour may be there several
        times. The first call keeps what each level averages in memory, the next ones take milliseconds.
        """
        from rae.updater import embed_new, refuse_lean

        if self._kept.tables is None:
            refuse_lean(self)
        values = node, neighbours, features, weights, directions, kinds
        vector: np.ndarray[Any, Any] = self._as_it_is(lambda _: embed_new(self, *values))
        return vector

    # ------------------------------------------------------------------------- how sure, and what changed

    def reliability(self, *, noise: float | None = None, views: int = 19, progress: Asked = None) -> Reliability:
        """How sure the role of every node is: the chance that it keeps it where edges are noisy.

        A reliability of 0.9 means that of such nodes nine in ten keep their role when a share `noise` of the edges is
        dropped and as many random pairs are added; by default the noise of the fit, a tenth. Beside it is what it
        rests on: how far the node moves under that noise, its degree, and how far the nearest other vector is. It is
        computed when asked for and not kept, in `views` passes over the graph.
        """
        from rae.progress import shown
        from rae.stability import reliability_of

        with shown(progress) as report:
            return reliability_of(self, noise=noise, views=views, progress=report)

    def why(self, node: Any, *, to: int | None = None, most_edges: int = 5) -> Why:
        """Why a node plays its role: measures, neighbours, and the smallest change of edges that was found. Print it.

        `node` is an id or a display name. The measures and features are compared with members of the role it plays
        second most, or of the role `to`; what they add to its lead is exact and adds up. Neighbours are left out in
        turn. The change is searched greedily, up to `most_edges` edges of the node; each step is made in the graph,
        the role is read, and the graph is as before afterwards. The first call of a process keeps what each level
        averages in memory, as `embed` does. Not to be called in two threads at once.
        """
        from rae.reasons import why_of

        return why_of(self, node, to=to, most_edges=most_edges)

    def drift(
        self,
        other: Any = None,
        *,
        since: int | None = None,
        noise: float | None = None,
        views: int | None = None,
        rate: float = 0.05,
        units: str | None = None,
        progress: Asked = None,
    ) -> Drift:
        """What changed from this run to `other`: which roles grew, and who moved more than noise explains. Print it.

        `other` is a run, its folder, a Graph, or a file of vectors that `rae embed` wrote with the model of this run. A
        run that keeps its graph may have any model: its graph is embedded by the one of this run. `since` compares this
        run with itself instead, from the state after that update to now (0 is the fit).

        Alarms are nodes that moved more than they do when as many edges are dropped and added at random places, `views`
        times; `noise` sets another share of the edges. About a share `rate` of the alarms is due to chance, at most;
        where nothing but noise happened there is any alarm in at most that share of all comparisons.

        `units="fit"`, the default where graphs are known, measures both moments with one ruler: what happens elsewhere
        moves nobody, and in a graph that grows as a whole everybody moves. `units="graph"` measures each in its own:
        where a node stands among the others.
        """
        from rae.drift import drift_of
        from rae.progress import shown

        if isinstance(other, (str, Path)):
            other = open_vectors(other) if Path(other).is_file() else Run.open(other)
        with shown(progress) as report:
            return drift_of(self, other, since=since, noise=noise, views=views, rate=rate, units=units, progress=report)

    @property
    def n_updates(self) -> int:
        """Updates since the fit."""
        state = self._updates.state()
        return 0 if state is None else state.number

    @property
    def roles_behind(self) -> int:
        """Updates since the cards of the roles were written; nodes that changed have roles by those cards anyway."""
        state = self._updates.state()
        if state is None or not self.has_roles:
            return 0
        record = self.role_record()
        return state.number - int(record.get("update", 0))

    @cached_property
    def model_kept(self) -> RAE:
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

    def fit_roles(
        self,
        k: int | str = "auto",
        *,
        max_k: int = 20,
        seed: int = 0,
        weights: Weights | None = None,
        ray: str | None = None,
        ray_cores: int | None = None,
    ) -> Roles:
        """Find the roles of this run, keep them with their cards, and return them.

        `weights` say how much each block of the vectors counts, as in "place=1,own=0.3" or a mapping. `ray` is the
        address of a Ray cluster whose hosts all see this run, which then reads and assigns the vectors by parts, and
        `ray_cores` the cores of a task.
        """
        from rae.roles import Roles
        from rae.roles.storage import write_roles

        with self._not_updated():
            roles = Roles(k, max_k=max_k, seed=seed, weights=weights)
            about: dict[str, Any] = {"blocks": self.blocks, "model": self.model_checksum}
            if ray is None:
                ids, z = self.embeddings()
                roles.fit(z, ids=ids, **about)
            else:
                ids = self.ids()
                self._fit_roles_on_cluster(roles, ray, ray_cores, ids=ids, **about)
            cards = self._cards(ids, roles)
            self._drop_page()
            write_roles(self.path, ids, roles, roles.assignment, cards, update=self.n_updates)
        return roles

    def _fit_roles_on_cluster(self, roles: Roles, ray: str, ray_cores: int | None, **options: Any) -> None:
        from rae.engine.cluster import Cluster
        from rae.graph.folder import checksum
        from rae.roles.cluster import fit_roles_on_cluster

        state = self._updates.state()
        vectors = self._updates.file(state, EMBEDDINGS)
        if (state is not None and state.log) or not vectors.is_file():
            raise RunError(
                f"the vectors of {self.path} lie in its log of updates, which a cluster does not read; write them to "
                "one file first: Run.fold()"
            )
        shared = self.path.resolve().with_name(f".{self.path.resolve().name}")
        fit_roles_on_cluster(
            roles, vectors.resolve(), checksum(vectors), Cluster(ray, ray_cores, str(shared)), **options
        )

    def take_roles(self, roles: Roles) -> None:
        """Give this run the roles of another run of the same model, and keep them with their cards here."""
        from rae.roles.storage import write_roles

        roles.check_model(self.model_checksum, str(self.path))
        with self._not_updated():
            ids, z = self.embeddings()
            assignment = roles.assign(z)
            cards = self._cards(ids, roles, z)
            self._drop_page()
            write_roles(self.path, ids, roles, assignment, cards, update=self.n_updates)

    @contextlib.contextmanager
    def _not_updated(self) -> Iterator[None]:
        """No other process updates the run during the block: it would give nodes roles of which some are replaced.

        A run without a folder of updates has none, and a killed call leaves none there.
        """
        free = self._kept.is_alone or not self._updates.folder.is_dir()
        with contextlib.nullcontext() if free else self._updates.alone():
            yield

    def _drop_page(self, what: str = "the old roles") -> None:
        """Remove a page that shows what this run will no longer have, and say so; before that is replaced."""
        if (self.path / PAGE).is_file():
            for name in (NOTICE, PAGE):  # the page last, by which a killed call is known to have begun
                (self.path / name).unlink(missing_ok=True)
            log.warning("the page of %s showed %s and is gone; `rae explore` makes it anew", self.path, what)

    def roles(self) -> Roles:
        """The roles that were kept; roles of another model are refused."""
        from rae.roles import Roles

        self._check_roles()
        roles = Roles.load(self.path / FITTED_ROLES)
        roles.check_model(self.model_checksum, str(self.path))
        return roles.remember(self.embeddings)

    def _check_roles(self) -> None:
        if not self.has_roles:
            raise RunError(
                f"the run in {self.path} has no roles yet; `rae roles {self.path}` or fit_roles() finds them"
            )

    def role_record(self) -> dict[str, Any]:
        """What roles.json says: how many roles and why, and a card each."""
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
        """Say so where the run was updated since its cards were written."""
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

    def label_table(self, labels: Any, column: str | None = None, *, id_column: str | None = None) -> LabelTable:
        """How often each role has each label.

        `labels` is a table, in a file or a data frame, a mapping from ids, or one label per node in row order.
        """
        import os

        from rae.graph.frames import is_frame
        from rae.io.node_columns import node_names, read_node_columns
        from rae.roles.labels import label_table

        ids, role, _, memberships = self.role_table()
        if isinstance(labels, Mapping):
            labels = node_names(labels, ids)
        elif isinstance(labels, (str, os.PathLike)) or is_frame(labels):
            found = read_node_columns(labels, ids, () if column is None else [column], id_column=id_column)
            column, labels = next(iter(found.items()))
        return label_table(role, labels, memberships.shape[1], column=column or "label")

    def _cards(self, ids: pa.Array, roles: Roles, z: Any = None) -> Any:
        graph = self.graph() if self.has_graph else None
        return roles.cards(ids, z, graph, self.features(), self.feature_names, display_names=self.names())

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

    def explore(self, **options: Any) -> Page:
        """The page of this run, which a notebook shows below the cell, as `rae explore` writes it.

        A page that is there is shown as it is, unless something is asked of it or `force=True` makes it anew. `title`
        is its heading, `labels` a table of labels to colour the map by, a file or a data frame, `sample` the most nodes
        on the map. `height` is in pixels, `progress` as in `fit_run`. The page is copied into the notebook, so that it
        needs neither a server nor a network.
        """
        # The page is made above the run (docs/architecture.md), which therefore knows it by name alone.
        page = importlib.import_module("rae.explore.inline")
        shown: Page = page.inline_page(self, **options)
        return shown

    def export(self, to: str, target: str | Path, **options: Any) -> Written:
        """Write the model ("onnx", "sql") or the vectors ("lance", "duckdb", "pgvector", "qdrant"), as `rae export`.

        `options` are those of `rae.export.export`: force, table, weights, units, progress.
        """
        written: Written = importlib.import_module("rae.export").export(
            self, to, target, **options
        )  # above, as the page
        return written

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}={count:,}" for name, count in self.counts.items())
        return f"Run({str(self.path)!r}, {facts}, has_roles={self.has_roles})"

    def _repr_html_(self) -> str:
        from rae import display
        from rae.roles.cards import prototype_names

        counts = [(name.replace("_", " "), n) for name, n in self.counts.items()]
        facts = display.table([("folder", str(self.path)), *counts])
        if not self.has_roles:
            return display.panel("Run, without roles yet", facts, *([self.graph().picture()] if self.has_graph else []))
        cards = self.role_record()["cards"]
        rows = [(c["role"], c["size"], ", ".join(prototype_names(c)[:3]), c["summary"]) for c in cards]
        sizes, numbers = [c["size"] for c in cards], [str(c["role"]) for c in cards]
        roles = display.table(rows, ("role", "nodes", "for example", "what it is"))
        return display.panel("Run", facts, roles, display.bars("nodes by role", sizes, numbers))

    def files(self) -> dict[str, int]:
        """The run's files that are there, with their sizes in bytes."""
        return {n: (self.path / n).stat().st_size for n in sorted(RUN_FILES) if (self.path / n).is_file()}


def _write_vectors(embeddings: Any, path: Path, ids: pa.Array, model: str, dtype: str) -> int:
    """Write, move or compute the embeddings into this file and return their width."""
    from rae.io import write_embeddings
    from rae.io.embeddings import embeddings_width

    if callable(embeddings):
        return int(embeddings(path, model))
    width = embeddings_width(embeddings)
    if isinstance(embeddings, Path):
        shutil.move(embeddings, path)
    else:
        write_embeddings(path, ids, embeddings, model=model, dtype=dtype)
    return width


def open_vectors(path: str | Path) -> Run | EmbeddingsFile:
    """The run in a folder, or a file of vectors, which `rae embed` writes."""
    from rae.io.embeddings import EmbeddingsFile

    if Path(path).is_file():
        return EmbeddingsFile(Path(path))
    if not Path(path).is_dir():
        raise FileError(
            f"nothing at {path}; expected a run folder (`rae fit` makes one) or an embeddings file (`rae embed` does)"
        )
    return Run.open(path)


def load_model(path: str | Path) -> RAE:
    """The model of a run folder, or of a model file."""
    if Path(path).is_file():
        from rae.estimator import RAE

        return RAE.load(path)
    return Run.open(path).model()


def model_checksum(path: str | Path) -> str:
    """The SHA-256 of the model of a run folder, or of a model file."""
    from rae.graph.folder import checksum

    return checksum(Path(path)) if Path(path).is_file() else Run.open(path).model_checksum


def summary(history: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Steps, first and last loss, last rank and cosine of each fit in a history, by the name of its loss."""
    out: dict[str, dict[str, Any]] = {}
    for record in history:
        entry = out.setdefault(str(record["loss"]), {"first": record["value"]})
        entry |= {"steps": record["step"], "last": record["value"], "rank": record["rank"], "cosine": record["cosine"]}
    return out


def _in_row_order(ids: pa.Array, graph: Graph | None, features: Any) -> Matrix | None:
    """The features with one row per id; graph, features and ids that do not match are refused."""
    from rae.features import FeatureTable, check_matrix
    from rae.graph.ids import id_array

    if graph is not None and not id_array(ids).equals(graph.id_column):
        raise RunError(
            f"the ids of the embeddings ({len(ids):,}) must be those of the graph ({graph.n_nodes:,}), in order"
        )
    if isinstance(features, FeatureTable):
        if graph is None:
            raise RunError(
                "a feature table is put in the order of a graph, got no graph; pass ", Argument("graph", ...), " too"
            )
        return features.aligned(graph)
    return None if features is None else check_matrix(features, len(ids))


def _write_names(folder: Path, ids: pa.Array, names: pa.Array) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from rae.storage.atomic import atomic_path

    with atomic_path(folder / NAMES) as hidden:
        pq.write_table(pa.table({"id": ids, "name": names}), hidden)


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


def _versions() -> dict[str, str]:
    system = {"python": platform.python_version(), "platform": f"{platform.system()} {platform.machine()}"}
    return {**system, **versions_of(*LIBRARIES)}
