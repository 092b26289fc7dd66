"""Run: the folder that `rae fit` and `fit_run` write, with all that is asked of it and all that changes it.

`rae.stored_run` has its files and reads them.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from rae.config import MOST_EDGES, RATE, VIEWS
from rae.errors import Argument, ConfigError, FileError, RunError
from rae.run_folder import (
    EMBEDDINGS,
    FORMAT,
    FORMAT_VERSION,
    GRAPH,
    INFO,
    MODEL,
    check_free,
    in_row_order,
    library_versions,
    staging_folder,
    summary,
    write_names,
    write_vectors,
)
from rae.stored_run import StoredRun

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from rae.blocks import Weights
    from rae.drift import Drift
    from rae.estimator import RAE
    from rae.graph import Graph
    from rae.io.embeddings import EmbeddingsFile
    from rae.progress import Asked
    from rae.reasons import Why
    from rae.roles import Roles
    from rae.roles.compare import Comparison
    from rae.roles.storage import AppliedRoles
    from rae.stability import Reliability
    from rae.updater import Updated

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


@dataclass(frozen=True, repr=False)
class Run(StoredRun):
    """A complete run folder: its path and the contents of run.json."""

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
        """Write a run folder and return it; other files in the folder are not touched.

        `graph` and `features` (a matrix in row order or a FeatureTable) are stored too, if given: role cards
        need them to describe members, the page to draw neighbourhoods. `embeddings` is a matrix in the order of
        ids, a Parquet file of one, which is moved into the run, or a function of a path and the model's checksum
        that writes such a file and returns the width of the vectors; its duration is the timing "embed".
        `names` are display names in the order of ids; `asked` is what tells this fit from others, for `fit_run`;
        `reading` how its tables were read (`Reading.record`), for updates. Where `graph` is the graph of the fit of
        `model`, it stays known to it after updates.
        """
        from rae.graph.digest import is_digest_of
        from rae.graph.folder import checksum, write_graph
        from rae.storage.atomic import write_json
        from rae.storage.npy import write_matrix

        folder = Path(path)
        check_free(folder, force=force)
        matrix = in_row_order(ids, graph, features)
        with staging_folder(folder) as new:
            model.save(new / MODEL)
            if graph is not None:
                write_graph(new / GRAPH, graph)
            if matrix is not None:
                write_matrix(new, matrix)
            if names is not None:
                write_names(new, ids, names)
            began = time.perf_counter()
            # Vectors cost the most: a finished file of them is moved here only after everything else is written.
            width = write_vectors(embeddings, new / EMBEDDINGS, ids, checksum(new / MODEL), dtype)
            embed_timing = {"embed": time.perf_counter() - began} if callable(embeddings) else {}
            info: dict[str, Any] = {
                "format": FORMAT,
                "format_version": FORMAT_VERSION,
                "settings": model.config.stored(),
                "structural": bool(model.structural),
                "versions": library_versions(),
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
            if graph is not None and is_digest_of(fitted_on := model.fitted.fitted_on, graph):
                info["fitted_on"] = fitted_on
            info = json.loads(json.dumps(info, sort_keys=True))  # as `open` will read it
            write_json(new / INFO, info)
        return cls(folder, info)

    def set_names(self, names: Any, *, column: str | None = None, id_column: str | None = None) -> None:
        """Store display names of the nodes: a mapping from ids, one name per node in row order, or a table file.

        Roles that are found later show them.
        """
        from rae.io.node_columns import node_names

        ids = self.ids()
        write_names(self.path, ids, node_names(names, ids, column=column, id_column=id_column))

    # ------------------------------------------------------------------------- updates

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
        """Add and remove edges and change features; the vectors are then those of a full pass over the new graph.

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
        fitted again: the model, its units and its roles stay those of the fit.

        A killed update leaves the run as before it or as after it. `fold=True` also rewrites embeddings.parquet,
        `False` leaves that for later; by default small runs do, and those with a long log.

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
        """The lock of updates, held by this object during the block; others, in any process, are refused."""
        from rae.updater import refuse_lean

        refuse_lean(self)
        with self._updates.alone():
            self._session.is_alone = True
            try:
                yield
            finally:
                self._session.is_alone = False

    def fold(self, *, progress: Asked = None) -> None:
        """Fold the log: write embeddings.parquet and graph/, which are absent while the log has updates."""
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

        It is the row that a full pass over the graph with that node would give. Nothing is saved. `node` is the id that
        it will have; an id of the run is refused. `features` are its features: numbers in the order of the columns, or
        a mapping by name. Where the edges of the run have these, `weights`, `directions` ("out": from the new node to
        the neighbour, or "in") and `kinds` are one for each neighbour, or one for all; a neighbour may be there several
        times. The first call loads the tables of the levels into memory, the next ones take milliseconds.
        """
        from rae.updater import embed_new, refuse_lean

        if self._session.tables is None:
            refuse_lean(self)
        values = node, neighbours, features, weights, directions, kinds
        vector: np.ndarray[Any, Any] = self._as_it_is(lambda _: embed_new(self, *values))
        return vector

    # ------------------------------------------------------------------------- how sure, and what changed

    def reliability(self, *, noise: float | None = None, views: int = VIEWS, progress: Asked = None) -> Reliability:
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

    def why(self, node: Any, *, to: int | None = None, most_edges: int = MOST_EDGES) -> Why:
        """Why a node plays its role: measures, neighbours, and the smallest change of edges that was found. Print it.

        `node` is an id or a display name. The measures and features are compared with members of the role it plays
        second most, or of the role `to`; what they add to its lead is exact and adds up. Neighbours are left out in
        turn. The change is searched greedily, up to `most_edges` edges of the node; each step is made in the graph,
        the role is read, and the graph is as before afterwards. The first call of a process loads the tables of the
        levels into memory, as `embed` does. Not to be called in two threads at once.
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
        rate: float = RATE,
        units: str | None = None,
        whole: bool = False,
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

        A graph that is not that of the fit, and that of a run of another fit, come with a CutWarning unless `whole`
        says that no edge is missing in it: nodes at the cut of a part would be alarms.
        """
        from rae.drift import drift_of
        from rae.progress import shown

        if isinstance(other, (str, Path)):
            other = open_vectors(other) if Path(other).is_file() else Run.open(other)
        with shown(progress) as report:
            how: dict[str, Any] = {"noise": noise, "views": views, "rate": rate, "units": units, "whole": whole}
            return drift_of(self, other, since=since, progress=report, **how)

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
        """Find the roles of this run, store them with their cards, and return them.

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
            self.drop_page()
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
        """Give this run the roles of another run of the same model, and store them with new cards."""
        from rae.roles.storage import write_roles

        roles.check_model(self.model_checksum, str(self.path))
        with self._not_updated():
            ids, z = self.embeddings()
            assignment = roles.assign(z)
            cards = self._cards(ids, roles, z)
            self.drop_page()
            write_roles(self.path, ids, roles, assignment, cards, update=self.n_updates)

    def same_model(self, other: Any) -> Run | EmbeddingsFile:
        """A run or a file of vectors, opened where it is a path; one that another model made is refused."""
        vectors: Run | EmbeddingsFile = other if hasattr(other, "model_checksum") else open_vectors(other)
        self.roles().check_model(vectors.model_checksum, str(vectors.path))
        return vectors

    def compare_roles(self, other: Any) -> Comparison:
        """Who changed role from this run to `other`: a run of the same model, or a file of vectors that it embedded."""
        from rae.roles.compare import compare

        vectors = self.same_model(other)
        return compare(self.roles(), *self.embeddings(), *vectors.embeddings())

    def apply_roles(self, other: Any, out: str | Path | None = None, *, force: bool = False) -> AppliedRoles:
        """Assign the roles of this run to the nodes of `other`: a run of the same model, or a file of its vectors.

        A run takes the roles, with cards of its own, unless `out` names a table. The table of a file is by default
        beside it: z.roles.parquet of z.parquet. `force` replaces roles or a table that are there.
        """
        from rae.io.tables import check_table_free
        from rae.roles.storage import AppliedRoles, table_beside, write_table

        path = Path(other.path if isinstance(other, StoredRun) else other)
        target = table_beside(path) if out is None else Path(out)
        if out is not None:
            check_table_free(target, force=True)
        vectors, roles = self.same_model(other), self.roles()
        if isinstance(vectors, Run) and out is None:
            if vectors.has_roles and not force:
                raise RunError(
                    *(f"{path} has roles already; pass ", Argument("force", True), " to replace them, or "),
                    *(Argument("out", ...), " to write beside them"),
                )
            vectors.take_roles(roles)
            return AppliedRoles(path, tuple(card["size"] for card in vectors.role_record()["cards"]))
        check_table_free(target, force=force)
        ids, z = vectors.embeddings()
        assignment = roles.assign(z)
        write_table(target, ids, assignment)
        return AppliedRoles(target, tuple(map(int, assignment.sizes)))

    @contextlib.contextmanager
    def _not_updated(self) -> Iterator[None]:
        """The lock of updates during the block, so that no other process changes roles that are being written.

        A run without a folder of updates needs none, and a killed call leaves none there.
        """
        free = self._session.is_alone or not self._updates.folder.is_dir()
        with contextlib.nullcontext() if free else self._updates.alone():
            yield

    def _cards(self, ids: pa.Array, roles: Roles, z: Any = None) -> Any:
        graph = self.graph() if self.has_graph else None
        return roles.cards(ids, z, graph, self.features(), self.feature_names, display_names=self.names())

    def explore(self, **options: Any) -> Page:
        """The page of this run, which a notebook shows below the cell, as `rae explore` writes it.

        An existing page is shown as it is, unless options are given or `force=True`, which write a new one. `title`
        is its heading, `labels` a table of labels to colour the map by, a file or a data frame, `sample` the most nodes
        on the map. `height` is in pixels, `progress` as in `fit_run`. The page is copied into the notebook, so that it
        needs neither a server nor a network.
        """
        # The layer of pages is above this one (docs/architecture.md), so it is imported by name.
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
