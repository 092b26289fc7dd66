"""The files of a run folder: their names, how a new run replaces them, and the content of run.json.

A run is written to a hidden staging folder and moved into place, run.json last: a folder with run.json is
complete, and a run that is replaced stays complete until the new one is.
"""

from __future__ import annotations

import contextlib
import platform
import re
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rae.errors import Argument, InUseError, RunError
from rae.storage.npy import DENSE as DENSE
from rae.storage.npy import SPARSE as SPARSE
from rae.updates import CHANNEL_FILES, FOLDER, GRAPH_FILES, STATE, UpdateFolder
from rae.updates import EMBEDDINGS as EMBEDDINGS
from rae.updates import GRAPH as GRAPH
from rae.updates import ROLES as ROLES
from rae.version import versions_of

if TYPE_CHECKING:
    import pyarrow as pa

    from rae.features import Matrix
    from rae.graph import Graph

FORMAT, FORMAT_VERSION = "rae run", 1
LIBRARIES = ("numpy", "scipy", "pyarrow", "torch", "safetensors", "scikit-learn")
MODEL, INFO, NAMES = "model.safetensors", "run.json", "names.parquet"
PAGE, NOTICE = "explore/index.html", "explore/NOTICE.txt"
CARDS, FITTED_ROLES = "roles.json", "roles.safetensors"
# Every file of a run, in the order of removal: the model last, so that a graph folder without a model
# is never taken for part of a run. No other file is replaced.
RUN_FILES = (
    *(INFO, STATE, PAGE, NOTICE, ROLES, CARDS, FITTED_ROLES),
    *(*GRAPH_FILES, *CHANNEL_FILES, SPARSE, DENSE, NAMES, EMBEDDINGS, MODEL),
)
OUT, FORCE = Argument("out"), Argument("force", True)
STAGING = re.compile(r"\.[0-9a-f]{32}\.tmp")  # the name of a staging folder
MOVES = "moves.json"  # in a complete staging folder: the files of the run that are moved into their places
_FIT = {"first": float, "last": float, "steps": int, "rank": float, "cosine": float}
_PATTERN = {  # of run.json
    "settings": dict,
    "versions": {str: str},
    "counts": {str: int},
    "timings": {str: float},
    "training": {str: _FIT},
    "history": [{"loss": str, "step": int, "value": float}],
    "inputs": {str: {"path": str, "bytes": int}},
    "asked?": {"key?": str, "page?": bool, "half?": bool},
    "reading?": {str: (str, bool, [str])},
    "channels?": [str],
    "weighted?": bool,
}


@contextlib.contextmanager
def staging_folder(folder: Path) -> Iterator[Path]:
    """A hidden folder to write a run in; when the block ends well its files replace those of the old run.

    When it does not (a full disk, Ctrl-C), the old run is still there, complete. The moves themselves
    need no space; if they are interrupted, the run lacks its run.json, and `finish_moves` resumes them.
    """
    from rae.storage.atomic import write_json
    from rae.storage.lock import LOCK, exclusive_lock

    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    for abandoned in _abandoned_staging(folder):
        shutil.rmtree(abandoned, ignore_errors=True)
    staging = folder / f".{uuid.uuid4().hex}.tmp"
    try:
        staging.mkdir()
        with exclusive_lock(staging / LOCK):
            yield staging
            write_json(staging / MOVES, [name for name in RUN_FILES if (staging / name).is_file()])
            _move(staging, folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
        if is_new and not any(folder.iterdir()):
            folder.rmdir()


def _move(staging: Path, folder: Path) -> None:
    """Replace the run in a folder by the staged one, run.json last; an interrupted move is resumed."""
    from rae.storage.documents import expect, read_json

    try:
        expect(new := read_json(staging / MOVES), [str])
    except ValueError as error:
        raise RunError(f"{staging / MOVES} is damaged: {error}; remove {staging}, and fit the run again") from None
    for name in RUN_FILES:
        if name not in new or (staging / name).is_file():
            (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / FOLDER, ignore_errors=True)  # updates of the run that is replaced
    for name in [name for name in reversed(RUN_FILES) if (staging / name).is_file()]:
        (folder / name).parent.mkdir(exist_ok=True)
        (staging / name).replace(folder / name)


def finish_moves(path: str | Path) -> bool:
    """Remove the staging folders of killed fits; True if one was moving its files, which is finished here."""
    folder, moved = Path(path), False
    for staging in _abandoned_staging(folder) if folder.is_dir() else ():
        if (staging / MOVES).is_file():
            _move(staging, folder)
            moved = True
        shutil.rmtree(staging, ignore_errors=True)
    return moved


def _abandoned_staging(folder: Path) -> list[Path]:
    """The staging folders of killed fits; that of a running fit is an error."""
    from rae.storage.lock import LOCK, exclusive_lock

    abandoned = [path for path in folder.iterdir() if STAGING.fullmatch(path.name) and path.is_dir()]
    for path in [path for path in abandoned if (path / LOCK).is_file()]:
        with exclusive_lock(path / LOCK) as free:
            if not free:
                raise InUseError(f"another fit is writing its run into {folder}; wait for it, or choose another ", OUT)
    return abandoned


def check_free(path: str | Path, *, force: bool = False) -> None:
    """Refuse a folder that is in use; called before any work, and again before writing."""
    folder = Path(path)
    if not folder.exists():
        return
    if not folder.is_dir():
        raise RunError(OUT, f" must be a folder, {folder} is a file; choose another name")
    blocked = [folder / name for name in RUN_FILES if (folder / name).is_dir()]
    if blocked:
        raise RunError(f"{blocked[0]} is a folder where a file of the run must go; choose another ", OUT)
    for inner in (folder / GRAPH, folder / Path(PAGE).parent):
        if inner.is_symlink() or (inner.exists() and not inner.is_dir()):
            raise RunError(f"{inner} is a file or a link where a folder of the run must go; choose another ", OUT)
    graph = folder / GRAPH
    if any((folder / name).exists() for name in GRAPH_FILES) and not (folder / MODEL).is_file():
        raise RunError(f"{graph} holds a graph that no run wrote, it would be replaced; choose another ", OUT)
    if force or not set(folder.iterdir()) - set(_abandoned_staging(folder)):
        _check_unused(folder)
        return
    if (folder / INFO).is_file():
        raise RunError(f"{folder} holds a run already; choose another ", OUT, ", or pass ", FORCE, " to replace it")
    if any((folder / name).exists() for name in RUN_FILES):
        raise RunError(f"{folder} holds an incomplete run; pass ", FORCE, " to replace it")
    raise RunError(
        *(f"{folder} is not empty; choose another ", OUT, ", or pass ", FORCE),
        " to write the run beside what is there",
    )


def _check_unused(folder: Path) -> None:
    """Refuse a run that is being updated, or answers questions and takes updates."""
    if (folder / FOLDER).is_dir():
        try:
            with UpdateFolder(folder).alone():
                pass
        except InUseError:
            raise InUseError(
                f"{folder} holds a run that is being updated, or that `rae serve` holds; stop that first, or choose "
                "another ", OUT
            ) from None  # fmt: skip


def read_info(path: Path) -> dict[str, Any]:
    """The content of run.json; a file that is damaged, foreign or newer is refused."""
    from rae.errors import one_line
    from rae.storage.documents import expect, read_json

    try:
        info = read_json(path)
    except (OSError, ValueError) as error:
        reason = one_line(error)
        raise RunError(f"{path} is not what `rae fit` writes: {reason}; fit the run again with ", FORCE) from None
    if not isinstance(info, dict) or info.get("format") != FORMAT:
        raise RunError(f"{path} is not what `rae fit` writes; is this another program's folder?")
    format_version = info.get("format_version")
    if type(format_version) is not int or format_version > FORMAT_VERSION:
        shown = repr(format_version)[:20]
        raise RunError(f"{path} has format version {shown}, this rae reads up to {FORMAT_VERSION}; upgrade rae")
    try:
        expect(info, _PATTERN)
    except ValueError as error:
        raise RunError(f"{path} is damaged: {error}; fit the run again with ", FORCE) from None
    return info


def write_vectors(embeddings: Any, path: Path, ids: pa.Array, model: str, dtype: str) -> int:
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


def in_row_order(ids: pa.Array, graph: Graph | None, features: Any) -> Matrix | None:
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


def write_names(folder: Path, ids: pa.Array, names: pa.Array) -> None:
    """Write display names, in the order of the ids."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from rae.storage.atomic import atomic_path

    with atomic_path(folder / NAMES) as hidden:
        pq.write_table(pa.table({"id": ids, "name": names}), hidden)


def summary(history: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Steps, first and last loss, last rank and cosine of each fit in a history, by the name of its loss."""
    out: dict[str, dict[str, Any]] = {}
    for point in history:
        entry = out.setdefault(str(point["loss"]), {"first": point["value"]})
        entry |= {"steps": point["step"], "last": point["value"], "rank": point["rank"], "cosine": point["cosine"]}
    return out


def library_versions() -> dict[str, str]:
    """The versions of Python, of this package and of the libraries that results depend on."""
    system = {"python": platform.python_version(), "platform": f"{platform.system()} {platform.machine()}"}
    return {**system, **versions_of(*LIBRARIES)}
