"""Run: the folder that `rae fit` writes and every other command reads.

    model.safetensors     the fitted model
    embeddings.parquet    id, embedding
    run.json              settings, versions, counts, timings, training, inputs

Each file is written atomically and run.json last, so a folder that has it is complete.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rae.errors import RunError

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from rae.estimator import RAE

FORMAT, FORMAT_VERSION = "rae run", 1
MODEL, EMBEDDINGS, INFO = "model.safetensors", "embeddings.parquet", "run.json"
PAGE, PICTURE, DRAWING = "page.html", "map.png", "map.svg"
OURS = (INFO, MODEL, EMBEDDINGS, PAGE, PICTURE, DRAWING)  # the only names a run ever replaces
LIBRARIES = ("rae", "numpy", "scipy", "pyarrow", "torch", "numba", "safetensors", "scikit-learn")


@dataclass(frozen=True)
class Run:
    """A complete run folder: where it is, and what its run.json says."""

    path: Path
    info: dict[str, Any]

    @classmethod
    def open(cls, path: str | Path) -> Run:
        """The run in this folder; a missing, incomplete, foreign or newer one is refused."""
        folder = Path(path)
        if not folder.is_dir():
            what = "a file" if folder.exists() else "nothing"
            raise RunError(f"expected a run folder at {folder}, found {what}; `rae fit` makes one")
        if not (folder / INFO).is_file():
            if any((folder / name).exists() for name in OURS):
                raise RunError(f"the run in {folder} is incomplete: it has no {INFO}; fit it again with --force")
            raise RunError(f"{folder} is not a run folder: it has no {INFO}; `rae fit EDGES --out {folder}` makes one")
        return cls(folder, _read_info(folder / INFO))

    @classmethod
    def create(
        cls,
        path: str | Path,
        model: RAE,
        ids: pa.Array,
        embeddings: np.ndarray[Any, Any],
        *,
        counts: Mapping[str, Any] | None = None,
        timings: Mapping[str, float] | None = None,
        inputs: Mapping[str, Any] | None = None,
        force: bool = False,
    ) -> Run:
        """Write a run folder and return it; whatever else lies in the folder is left alone."""
        from rae.io import write_embeddings
        from rae.io.atomic import write_json

        folder = Path(path)
        check_free(folder, force=force)
        folder.mkdir(parents=True, exist_ok=True)
        for name in OURS:  # run.json first: from here until it is back, the run is incomplete
            (folder / name).unlink(missing_ok=True)
        model.save(folder / MODEL)
        write_embeddings(folder / EMBEDDINGS, ids, embeddings)
        info: dict[str, Any] = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "settings": model.config.as_dict(),
            "structural": bool(model.structural),
            "versions": _versions(),
            "counts": {**(counts or {}), "width": int(embeddings.shape[1])},
            "timings": {name: round(float(spent), 4) for name, spent in (timings or {}).items()},
            "training": summary(model.history),
            "history": list(model.history),
            "inputs": dict(inputs or {}),
        }
        info = json.loads(json.dumps(info, sort_keys=True))  # as `open` will read it
        write_json(folder / INFO, info)
        return cls(folder, info)

    def model(self) -> RAE:
        """The fitted model."""
        from rae.estimator import RAE

        return RAE.load(self.path / MODEL)

    def embeddings(self) -> tuple[pa.Array, np.ndarray[Any, Any]]:
        """The ids and their vectors, in the same order.  -> (n,), (n, width)"""
        from rae.io import read_embeddings

        ids, z = read_embeddings(self.path / EMBEDDINGS)
        return ids, z

    def files(self) -> dict[str, int]:
        """The run's files that are there, with their sizes in bytes."""
        return {n: (self.path / n).stat().st_size for n in sorted(OURS) if (self.path / n).is_file()}


def check_free(path: str | Path, *, force: bool = False) -> None:
    """Refuse a place that holds something already; called before any work, and again before writing."""
    folder = Path(path)
    if not folder.exists():
        return
    if not folder.is_dir():
        raise RunError(f"--out must be a folder, {folder} is a file; choose another name")
    blocked = [folder / name for name in OURS if (folder / name).is_dir()]
    if blocked:
        raise RunError(f"{blocked[0]} is a folder where a file of the run must go; choose another --out")
    if force or not any(folder.iterdir()):
        return
    if (folder / INFO).is_file():
        raise RunError(f"{folder} holds a run already; choose another --out, or pass --force to replace it")
    if any((folder / name).exists() for name in OURS):
        raise RunError(f"{folder} holds an incomplete run; pass --force to replace it")
    raise RunError(
        f"{folder} is not empty; choose another --out, or pass --force to write the run beside what is there"
    )


def load_model(path: str | Path) -> RAE:
    """The model of a run folder, or of a model file."""
    if Path(path).is_file():
        from rae.estimator import RAE

        return RAE.load(path)
    return Run.open(path).model()


def summary(history: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """How each fit of the history went: its steps, its first and last loss, its last rank and cosine."""
    out: dict[str, dict[str, Any]] = {}
    for record in history:
        seen = out.setdefault(str(record["loss"]), {"first": record["value"]})
        seen |= {"steps": record["step"], "last": record["value"], "rank": record["rank"], "cosine": record["cosine"]}
    return out


def _read_info(path: Path) -> dict[str, Any]:
    try:
        info = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise RunError(f"{path} is not what `rae fit` writes: {error}; fit the run again with --force") from None
    if not isinstance(info, dict) or info.get("format") != FORMAT:
        raise RunError(f"{path} is not what `rae fit` writes; is this another program's folder?")
    found = info.get("format_version")
    if not isinstance(found, int) or found > FORMAT_VERSION:
        raise RunError(f"{path} has format version {found}, this rae reads up to {FORMAT_VERSION}; upgrade rae")
    return info


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "platform": f"{platform.system()} {platform.machine()}"}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
