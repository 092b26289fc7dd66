"""Vectors of a fit in bounded memory: beside the run folder until the run is whole, so that a kill loses nothing.

.RUN.parquet.parts    rows between levels while vectors are made, see rae.engine.bounded
.RUN.parquet          the vectors, once they are finished
.RUN.json             what those vectors depend on, there before they are
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rae.cli.memory_options import Bounds
from rae.config import Config

if TYPE_CHECKING:
    from rae.graph import Graph

log = logging.getLogger("rae")

IDS_AT_ONCE = 1 << 16


class Beside:
    """The place beside a run folder where its vectors are made."""

    def __init__(self, folder: Path) -> None:
        run = folder.resolve()
        self.vectors, self.note = (run.with_name(f".{run.name}{ending}") for ending in (".parquet", ".json"))

    def put(self, path: Path, about: Mapping[str, Any], embed: Callable[[Path], int]) -> int:
        """Put vectors into this file and return their width; `embed` makes them, unless a killed fit has made the same.

        They keep their place here as well, where the disk allows two names for a file, until `remove`.
        """
        from rae.io.embeddings import embeddings_width

        if self._finished(about):
            log.info("a killed fit had finished the vectors in %s, they are taken", self.vectors)
        else:
            self._make(about, embed)
        try:
            path.hardlink_to(self.vectors)
        except OSError:
            shutil.move(self.vectors, path)
        return embeddings_width(path)

    def remove(self) -> None:
        """Remove what lies here, now that the run has it."""
        from rae.engine.embedding import FOLDER
        from rae.storage.parts import Parts

        self.vectors.unlink(missing_ok=True)
        self.note.unlink(missing_ok=True)
        Parts(Path(f"{self.vectors}{FOLDER}"), "").remove()  # of a fit that was killed while it removed them

    def _make(self, about: Mapping[str, Any], embed: Callable[[Path], int]) -> None:
        from rae.storage.atomic import write_json

        self.vectors.unlink(missing_ok=True)  # before the note: never are there vectors with the note of others
        write_json(self.note, about)
        try:
            embed(self.vectors)
        finally:
            if not self.vectors.exists():
                self.note.unlink(missing_ok=True)

    def _finished(self, about: Mapping[str, Any]) -> bool:
        try:
            return self.vectors.is_file() and json.loads(self.note.read_text(encoding="utf-8")) == about
        except (OSError, ValueError):
            return False


def made_of(graph: Graph, features: Any, config: Config, model: str, bounds: Bounds) -> dict[str, Any]:
    """All that the bytes of a file of vectors depend on, `model` being the checksum of their model."""
    from importlib.metadata import version

    from rae.features import Features
    from rae.storage.parts import digest_of

    return {
        "versions": {name: version(name) for name in ("rae", "numpy", "pyarrow", "torch", "numba")},
        "model": model,
        "graph": digest_of(graph.offsets, graph.targets),
        "ids": _ids_digest(graph.id_column),
        "features": Features.of(graph, features, config, check=False).digest(),
        "half": bounds.half,
        "dtype": bounds.dtype,
    }


def _ids_digest(ids: Any) -> str:
    """The SHA-256 of ids, a run of them at a time."""
    import hashlib

    import pyarrow as pa

    digest = hashlib.sha256()
    for start in range(0, len(ids), IDS_AT_ONCE):
        digest.update(pa.record_batch([ids.slice(start, IDS_AT_ONCE)], ["id"]).serialize())
    return digest.hexdigest()
