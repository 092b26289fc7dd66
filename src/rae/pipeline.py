"""The whole way from files to results: `fit_run` is `rae fit`, and `embed_file`, `build_graph` two more commands."""

from __future__ import annotations

import contextlib
import logging
import os
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rae.config import ExactConfig, Settings
from rae.errors import Argument, ConfigError, FeatureError, FileError, MemoryWarning, Sentence, is_there
from rae.graph import Graph
from rae.inputs import Inputs, check_output, dataset_inputs, is_table, read_inputs
from rae.io.build import build_graph_folder
from rae.progress import Asked, Progress, shown, size, stages
from rae.reading import Reading
from rae.resume import VectorCache, fit_key, vectors_key
from rae.run import Run, load_model, model_checksum
from rae.run_folder import EMBEDDINGS, INFO, MODEL, PAGE, check_free, finish_moves
from rae.storage.objects import ObjectPath, is_url, place
from rae.storage.scratch import scratch_folder

if TYPE_CHECKING:
    from rae.explore import Subject

log = logging.getLogger("rae")

MIB = 1 << 20
ADVISED_SHARE = 0.8  # of the available memory
MOST_NAME = 200  # characters of a folder name made of a URL
PAGE_LIMIT = 200_000  # nodes up to which roles and page are made by default


def fit_run(
    edges: Any,
    features: Any = None,
    *,
    out: str | os.PathLike[str] | None = None,
    config: Settings | None = None,
    memory: int | str | None = None,
    half: bool = False,
    dtype: str = "float32",
    page: bool | None = None,
    names: Any = None,
    subject: Subject | None = None,
    lean: bool = False,
    force: bool = False,
    ray: str | None = None,
    ray_cores: int | None = None,
    ray_workers: int = 1,
    device: str = "cpu",
    progress: Asked = None,
    **reading: Any,
) -> Run:
    """The run of a fitted and embedded graph, written to a folder with its roles and its page, as `rae fit` does.

    `edges` is an edge file, a folder of Parquet files, a graph folder (each of them on a disk or, by its URL, in an
    object store), a data frame, a Graph, a Dataset (whose features and names are taken too),
    or the Inputs that `rae.inputs.read_inputs` returns;
    `features` a file, a FeatureTable, a data frame, or a matrix with a row per node, in row order.
    `reading` are the fields of `rae.inputs.Reading`, which say how files are read and joined, such as
    source="caller", id="user" or missing="zero". `out` is by default runs/<name of the edge file or data set>.

    With `memory`, such as "4GiB", copies of the graph and intermediate rows that do not fit lie on disk beside `out`,
    rows with `half` in half precision; the same call resumes where a killed one stopped. `dtype` is that of the
    embeddings file. `page` says whether roles are found and the page is written, by default up to 200,000 nodes.
    `names` are display names of the nodes: a mapping from ids, one per node in row order, or a table (a file or a data
    frame); `name` is their column in that table, or in that of the features, which `names` may also name. `subject` is
    the title and the labels of the page. A `lean` run keeps no copy of the graph and the features. `force` replaces the
    run that is there. `ray` is the address of a Ray cluster ("auto", "local", "ray://HOST:10001") whose hosts all see
    the folder of `out`: it fits and embeds, in tasks of `memory` and `ray_cores` each, and `ray_workers` share each
    step of a training (one gives the model of one machine). `progress` is
    True for bars (which a notebook shows anyway), or called with the stage, how much of it is done, its total, and a
    mapping of numbers worth showing.

    `device` is "cpu" or, experimental, a GPU: "cuda", "cuda:1"; "auto" takes a GPU where there is one and the graph is
    large.

    A call that was killed after its vectors and before its page is finished by the same call.

    A MemoryWarning says in advance what will not fit and what to pass; counts and notes on the files are logged.

    >>> from tempfile import TemporaryDirectory
    >>> from rae import Config, fit_run
    >>> with TemporaryDirectory() as folder:
    ...     calls = Path(folder, "calls.csv")
    ...     _ = calls.write_text("caller,called\\nann,bob\\nann,cid\\nann,dan\\ndan,eve\\n")
    ...     run = fit_run(calls, out=Path(folder, "run"), config=Config(steps=5, dims=(8,), fanout=(5,)))
    ...     sorted(run.files())[:3], run.counts["nodes"], run.embeddings()[1].shape
    (['embeddings.parquet', 'explore/NOTICE.txt', 'explore/index.html'], 5, (5, 8))
    """
    check_output(memory, half, dtype, ray)
    remote = place(out) if out is not None and is_url(out) else None
    if isinstance(remote, ObjectPath) and (remote / INFO).is_file() and not force:
        raise is_there(remote)
    if isinstance(remote, ObjectPath):
        folder = copied_folder(remote)
    else:
        folder = default_folder(edges) if out is None else Path(out)
    begun = check_run_folder(folder, page=page, force=force)
    if _is_dataset(edges):
        edges, names = dataset_inputs(edges), edges.node_names if names is None else names
    config = ExactConfig() if config is None else config
    if not isinstance(config, Settings):
        raise ConfigError(
            *(Argument("config"), " must be a rae.ExactConfig or a rae.Config such as rae.Config(steps=500), got "),
            type(config).__name__,
        )
    if isinstance(names, str) and features is not None and not Path(names).exists() and reading.get("name") is None:
        names, reading["name"] = None, names  # a column of the features
    name = reading.pop("name", None) if names is not None else reading.get("name")
    with shown(progress) as report:
        inputs = _inputs(edges, features, reading, memory, folder, report)
        display_names = _display_names(inputs, features, names, name, reading.get("id"))
        with_page = _wants_page(page, inputs.counts["nodes"])
        key = _fit_key(inputs, config, display_names, half=half, dtype=dtype, lean=lean)
        asked = {"key": key, "page": with_page} | ({"half": True} if half else {})
        if begun is not None and begun.info["asked"] == asked:
            log.info("a killed fit had written the vectors in %s, they are taken", folder)
            run = begun
        else:
            check_free(folder, force=force)
            if ray is None:
                warn_of_memory(inputs, config, memory=memory, half=half)
            record = Reading(**reading).record() if is_table(edges) else {}
            with _cluster_for_all(ray, ray_cores):
                run = _write_run(
                    *(inputs, config, folder, display_names, asked, record),
                    memory=memory, half=half, dtype=dtype, lean=lean, force=force, device=device,
                    ray=ray, ray_cores=ray_cores, ray_workers=ray_workers,
                    shared=None if remote is None else os.fspath(remote), progress=report,
                )  # fmt: skip
        VectorCache(folder).remove()
        if with_page:
            from rae.explore import write_page
            from rae.explore.page import STAGES

            stages(report)("page", 0, STAGES)  # roles are its first part
            if not run.has_roles:
                run.fit_roles(ray=ray, ray_cores=ray_cores)
            write_page(run, subject=subject, force=True, progress=report)
        if isinstance(remote, ObjectPath):
            remote.upload_folder(folder, INFO)
            log.info("the run in %s was copied to %s", folder, remote)
    return run


def _fetched_model(remote: Any, scratch: Path) -> Path:
    """A local copy of a run or a model file of an object store, with the files that embedding reads."""
    if not (remote / INFO).is_file():
        remote.download(scratch / remote.name)
        return scratch / str(remote.name)
    for name in (INFO, MODEL):
        (remote / name).download(scratch / name)
    return scratch


def check_run_folder(folder: Path, *, page: bool | None = None, force: bool = False) -> Run | None:
    """The run of a killed fit that lacks its page, for the same call to finish, None where a new one can be written.

    A folder in use is refused.
    """
    moved = finish_moves(folder)
    if (folder / INFO).is_file() and (moved or not force):
        run = Run.open(folder)
        asked = run.info.get("asked", {})
        lacks_page = asked.get("page") and not (folder / PAGE).is_file() and _wants_page(page, run.counts["nodes"])
        if asked and (moved or lacks_page):
            return run
        VectorCache(folder).forget(folder / EMBEDDINGS)
    check_free(folder, force=force)
    return None


def _fit_key(inputs: Inputs, config: Settings, names: Any, *, half: bool, dtype: str, lean: bool) -> str:
    """A checksum of all settings and inputs of a fit, but for its roles and page."""
    vectors = vectors_key(inputs.graph, inputs.features, "", half=half, dtype=dtype)
    columns = inputs.feature_names or getattr(inputs.features, "names", None)
    return fit_key(vectors, config.as_dict(), columns, names, lean=lean)


def _wants_page(page: bool | None, nodes: int) -> bool:
    """Whether a fit of so many nodes writes a page."""
    return nodes <= PAGE_LIMIT if page is None else page


def build_graph(
    edges: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    order: str = "none",
    force: bool = False,
    ray: str | None = None,
    ray_cores: int | None = None,
    progress: Asked = None,
    **options: Any,
) -> Graph:
    """The graph of an edge file of any size, opened from the folder `path` that `rae graph build` writes.

    The folder is what `write_graph` writes of what `read_edges` reads, byte for byte, but the whole is never in
    memory. `options` say how the file is read, as in `read_edges`. `order="locality"` puts rows that are near each
    other in the graph near each other in memory, which makes embedding faster; ids stay what they are. `force` replaces
    a graph folder that is there. Both may be in an object store.

    `ray` is the address of a Ray cluster, as in `fit_run`: many Parquet files are built in tasks of `ray_cores` each,
    into a folder that all its hosts see; the same call resumes from the parts of a killed one.
    """
    if ray is not None and order != "none":
        raise ConfigError(Argument("order", order), " is for a build on one machine; leave ", Argument("ray"), " out")
    with shown(progress) as report:
        if ray is None:
            return build_graph_folder(edges, path, order=order, force=force, report=stages(report), **options)
        from rae.engine.cluster import Cluster
        from rae.engine.graph_build import build_graph_on_cluster

        return build_graph_on_cluster(edges, path, Cluster(ray, ray_cores), force=force, progress=report, **options)


@dataclass(frozen=True)
class EmbeddedFile:
    """A file of vectors: where it is, the counts of its graph with the width of a vector, and seconds by stage."""

    path: Path | ObjectPath
    counts: dict[str, int]
    timings: dict[str, float]

    @property
    def n_bytes(self) -> int:
        """Bytes that were written: of the file, or of all files of a folder."""
        if isinstance(self.path, ObjectPath):
            return self.path.size()
        files = self.path.iterdir() if self.path.is_dir() else [self.path]
        return sum(file.stat().st_size for file in files)


def embed_file(
    model: str | os.PathLike[str],
    edges: Any,
    features: Any = None,
    *,
    out: str | os.PathLike[str],
    memory: int | str | None = None,
    half: bool = False,
    dtype: str = "float32",
    force: bool = False,
    ray: str | None = None,
    ray_cores: int | None = None,
    whole: bool = False,
    device: str = "cpu",
    progress: Asked = None,
    **reading: Any,
) -> EmbeddedFile:
    """The file of another graph's vectors by a fitted model, as `rae embed` writes it.

    `model` is a run folder or a model file, `out` a .parquet or .csv file, or a folder (a name that ends in a slash)
    for one Parquet file per part of the nodes and a manifest, `whole` as in `RAE.transform`; everything else as in
    `fit_run`. Each of them may be in
    an object store, by its URL: s3://, gs://, az://.
    Tables are read as those of the run's fit, but for the fields in `reading`.
    """
    check_output(memory, half, dtype, ray)
    target, in_folder = place(out), os.fspath(out).endswith(("/", os.sep))
    how: dict[str, Any] = {
        "memory": memory, "half": half, "dtype": dtype, "whole": whole, "device": device, "progress": progress,
    }  # fmt: skip
    if is_url(model):
        how |= {"out": out, "force": force, "ray": ray, "ray_cores": ray_cores}
        with scratch_folder() as scratch:
            return embed_file(_fetched_model(place(model), scratch), edges, features, **how, **reading)
    if in_folder:
        from rae.engine.results import check_results

        check_results(target, force=force)
    elif isinstance(target, ObjectPath):
        if target.exists() and not force:
            raise is_there(target)
        if ray is not None:
            files = " writes one file to a folder of all hosts, several to a store; pass "
            raise ConfigError(Argument("ray"), files, Argument("out", f"{target}/"))
        with scratch_folder() as scratch:
            embedded = embed_file(model, edges, features, out=scratch / target.name, **how, **reading)
            target.upload(embedded.path)  # type: ignore[arg-type]
            return replace(embedded, path=target)
    else:
        _check_file(target, force=force)
    fitted, checksum = load_model(os.fspath(model)), model_checksum(os.fspath(model))
    fitted.device = device
    if fitted.structural and features is not None:
        raise FeatureError(
            "the model was fitted on structure alone, got features; leave ", Argument("features"), " out"
        )
    if not fitted.structural and features is None and not isinstance(edges, Inputs):
        raise FeatureError(
            *("the model was fitted with features, got none; pass ", Argument("features", ...)),
            " with the same columns for these nodes",
        )
    with shown(progress) as report:
        record = {} if Path(model).is_file() else Run.open(os.fspath(model)).info.get("reading", {})
        local_target = target if isinstance(target, Path) else None
        inputs = _inputs(
            edges, features, reading, memory, local_target, report, like=fitted.feature_names, record=record
        )
        if memory is not None and ray is None:
            from rae.plan import check_budget

            check_budget(memory, inputs.graph, inputs.features, fitted.config, half=half, fit=False)
        if local_target is not None:
            local_target.parent.mkdir(parents=True, exist_ok=True)
        began = time.perf_counter()
        width = fitted.embed_to(
            os.fspath(target), inputs.graph, inputs.features,
            memory=memory, half=half, dtype=dtype, model=checksum, whole=whole, ray=ray, ray_cores=ray_cores,
            in_folder=in_folder, progress=report or False,
        )  # fmt: skip
    timings = {"read": inputs.seconds, "embed": time.perf_counter() - began}
    return EmbeddedFile(target, inputs.counts | {"width": width}, timings)


def default_folder(edges: Any) -> Path:
    """runs/<name>, the name of the edge file without its endings.

    >>> default_folder("data/web.csv.gz").as_posix()
    'runs/web'
    """
    if _is_dataset(edges):
        return Path("runs") / str(edges.name)
    if not isinstance(edges, (str, os.PathLike)):
        raise ConfigError(Argument("out"), f" must be given where edges are no file, got a {type(edges).__name__}")
    name = place(edges).name
    return Path("runs") / (name.split(".")[0] or name)


def copied_folder(remote: ObjectPath) -> Path:
    """Where a run is kept on this machine that goes to an object store: runs/<its URL, in one name>.

    >>> copied_folder(ObjectPath("s3://calls/july/run/")).as_posix()
    'runs/calls-july-run'
    """
    parts = str(remote).partition("?")[0].partition("://")[2].split("/")
    return Path("runs") / "-".join(filter(None, parts))[-MOST_NAME:]


def _is_dataset(edges: Any) -> bool:
    if isinstance(edges, (str, os.PathLike)):
        return False
    from rae.datasets.dataset import Dataset

    return isinstance(edges, Dataset)


def warn_of_memory(inputs: Inputs, config: Settings, *, memory: int | str | None = None, half: bool = False) -> None:
    """Warn of a fit that will not fit in memory, with a remedy; an impossible budget is refused."""
    from rae import plan

    if memory is not None:
        plan.check_budget(memory, inputs.graph, inputs.features, config, half=half)
    parts = plan.memory(inputs.graph, inputs.features, config, budget=memory, half=half, from_folder=True)
    short = plan.shortage(parts["peak"])
    if short is None:
        return
    more, free = short
    advice = _memory_advice(inputs, config, parts, half=half, resident=parts["peak"] - more, free=free)
    text = f"this will take about {size(more)} more memory and {size(free)} is available; "
    warnings.warn(MemoryWarning(text, advice), stacklevel=3)


def _memory_advice(
    inputs: Inputs, config: Settings, parts: Mapping[str, int], *, half: bool, resident: int, free: int
) -> Sentence:
    """The remedy in a process that has `resident` bytes and can have `free` more."""
    from rae.memory import mapped
    from rae.plan import least_budget

    room, fixed = resident + free, parts["program"] + parts["graph"] + parts["features"]
    none_fits = ("no ", Argument("memory", ...), " makes it fit, ")
    if fixed > room:
        fewer = "" if inputs.features is None else ", or give fewer columns"
        return Sentence(*none_fits, f"program, graph and features take {size(fixed)}; free some memory{fewer}")
    if fixed + parts["step"] > room:
        exact = isinstance(config, ExactConfig)
        return Sentence(
            "free some memory" if exact else "pass a smaller ", *(() if exact else (Argument("batch_size"),))
        )
    for also_half in (True,) if half else (False, True):
        least = -(-least_budget(inputs.graph, inputs.features, config, half=also_half) // MIB)
        if least * MIB <= room:
            advised = max(least, (resident + round(ADVISED_SHARE * free)) // MIB)
            added = (" ", Argument("half", True)) if also_half and not half else ()
            return Sentence("pass ", Argument("memory", f"{advised}MiB"), *added)
    folder = (", or give ", Argument("edges"), " as a graph folder (`rae graph build`)")
    return Sentence(
        *(*none_fits, f"the least is {least} MiB, with ", Argument("half", True), "; free some memory"),
        *(folder if mapped(inputs.graph.targets) is None else ()),
    )


def _inputs(
    edges: Any,
    features: Any,
    reading: Mapping[str, Any],
    memory: int | str | None,
    out: Path | None,
    progress: Progress | None,
    like: Sequence[str] | None = None,
    record: Mapping[str, Any] | None = None,
) -> Inputs:
    """The inputs that were given, or those that are read now; `record` is how those of a fit were read."""
    if not isinstance(edges, Inputs):
        how = Reading.of(reading, "settings go into config=rae.Config(...)")
        how = how.as_at_the_fit(record or {}, edges=is_table(edges), features=is_table(features))
        return read_inputs(edges, features, how, memory=memory, out=out, like=like, progress=progress)
    if features is not None or reading:
        name = "features" if features is not None else next(iter(reading))
        raise ConfigError(Argument(name), " is part of what was read before, or of the data set; leave it out")
    return edges


def _display_names(inputs: Inputs, features: Any, names: Any, column: str | None, id: str | None) -> Any:
    """The display names in row order, of `names` or of a column of the features; None where there are none."""
    from rae.graph.frames import is_frame
    from rae.io.node_columns import node_names

    if names is not None:
        return node_names(names, inputs.graph.id_column, column=column)
    if column is None:
        return None
    if not isinstance(features, (str, os.PathLike)) and not is_frame(features):
        raise FeatureError(
            *(Argument("name"), " is a column of a table of nodes, and there is none; pass "),
            *(Argument("names", ...), ", or ", Argument("features", ...), " as a file or a data frame"),
        )
    return node_names(features, inputs.graph.id_column, column=column, id_column=id)


def _write_run(
    inputs: Inputs,
    config: Settings,
    folder: Path,
    names: Any,
    asked: Mapping[str, Any],
    reading: Mapping[str, Any],
    *,
    memory: int | str | None,
    half: bool,
    dtype: str,
    lean: bool,
    force: bool,
    ray: str | None,
    ray_cores: int | None,
    ray_workers: int,
    shared: str | None,
    device: str,
    progress: Progress | None,
) -> Run:
    """The run of these inputs: fitted, embedded and written."""
    from rae.estimator import RAE

    model, cache = RAE(config, device=device), VectorCache(folder)
    shared_folder = os.fspath(cache.vectors) if shared is None else shared

    def embed(path: Path, checksum: str) -> int:
        return model.embed_to(
            path, inputs.graph, inputs.features,
            memory=memory, half=half, dtype=dtype, model=checksum, ray=ray, ray_cores=ray_cores, shared=shared,
            progress=progress or False,
        )  # fmt: skip

    def embed_or_resume(path: Path, checksum: str) -> int:
        about = vectors_key(inputs.graph, inputs.features, checksum, half=half, dtype=dtype)
        return cache.write(path, about, lambda vectors: embed(vectors, checksum))

    began = time.perf_counter()
    model.fit(
        inputs.graph, features=inputs.features, feature_names=inputs.feature_names,
        memory=memory, scratch=_existing(folder), ray=ray, ray_cores=ray_cores, ray_workers=ray_workers,
        shared=shared_folder, progress=progress or False,
    )  # fmt: skip
    run = Run.create(
        folder,
        model,
        inputs.graph.id_column,
        embed if memory is None and ray is None else embed_or_resume,
        graph=None if lean else inputs.graph,
        features=None if lean else inputs.features,
        counts=inputs.counts,
        timings={"read": inputs.seconds, "fit": time.perf_counter() - began},
        inputs=inputs.files,
        names=names,
        asked=asked,
        reading=reading,
        force=force,
    )
    if ray is not None:
        from rae.engine.cluster import forget_fit_on_cluster

        forget_fit_on_cluster(shared_folder)
    return run


def _cluster_for_all(ray: str | None, ray_cores: int | None) -> contextlib.AbstractContextManager[Any]:
    """One connection to a cluster for all steps of a fit."""
    if ray is None:
        return contextlib.nullcontext()
    from rae.engine.ray_executor import connected

    return connected(ray, cores=ray_cores)


def _existing(folder: Path) -> Path:
    """The nearest existing parent of a folder."""
    return next(parent for parent in folder.resolve().parents if parent.is_dir())


def _check_file(target: Path, *, force: bool) -> None:
    """Refuse a file of vectors that cannot be written or would be replaced."""
    from rae.engine.embedding import forget_parts

    out = Argument("out")
    if target.is_dir():
        inside = Argument("out", str(target / "embeddings.parquet"))
        raise FileError(out, f" must be a file, {target} is a folder; try ", inside)
    if target.suffix.lower() not in (".parquet", ".csv"):
        raise FileError(out, f" must end in .parquet or .csv, got {target}")
    forget_parts(target)
    if os.path.lexists(target) and not force:
        raise is_there(target)
