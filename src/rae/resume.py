"""Resuming a killed fit: finished vectors are cached beside the run folder until the run is complete.

.RUN.parquet.parts    intermediate rows while vectors are computed, see rae.engine
.RUN.parquet          the vectors, once they are finished
.RUN.json             the key of those vectors: all that they depend on; written before them
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rae.config import Config
from rae.version import versions_of

if TYPE_CHECKING:
    from rae.graph import Graph

log = logging.getLogger("rae")

IDS_PER_BATCH = 1 << 16


class VectorCache:
    """The cached vectors of one run folder."""

    def __init__(self, run: Path) -> None:
        folder = run.resolve()
        self.vectors, self.key_file = (folder.with_name(f".{folder.name}{ending}") for ending in (".parquet", ".json"))

    def write(self, path: Path, key: Mapping[str, Any], embed: Callable[[Path], int]) -> int:
        """The width of the vectors that are now in `path`: cached ones of the same key, else those `embed` writes.

        Where the disk allows two names for a file, the cache keeps its own until `remove`.
        """
        from rae.io.embeddings import embeddings_width

        if self._has(key):
            log.info("a killed fit had finished the vectors in %s, they are taken", self.vectors)
        else:
            self._fill(key, embed)
        try:
            path.hardlink_to(self.vectors)
        except OSError:
            shutil.move(self.vectors, path)
        return embeddings_width(path)

    def remove(self) -> None:
        """Remove the cache, intermediate rows of a killed fit included."""
        from rae.storage.parts import Parts

        Parts(self._parts, "").remove()
        self.key_file.unlink(missing_ok=True)
        self.vectors.unlink(missing_ok=True)  # last: `forget` compares it with the file of the complete run

    def forget(self, embeddings: Path) -> None:
        """Remove the cache if its vectors are those in this file, that of the complete run, or if it holds nothing."""
        used = self.vectors.is_file() and embeddings.is_file() and self.vectors.samefile(embeddings)
        if used or not (self.vectors.exists() or self._parts.exists()):
            self.remove()

    @property
    def _parts(self) -> Path:
        from rae.engine.embedding import FOLDER

        return Path(f"{self.vectors}{FOLDER}")

    def _fill(self, key: Mapping[str, Any], embed: Callable[[Path], int]) -> None:
        from rae.storage.atomic import write_json

        self.vectors.unlink(missing_ok=True)  # first, so that vectors never stand beside the key of others
        write_json(self.key_file, key)
        try:
            embed(self.vectors)
        finally:
            if not self.vectors.exists():
                self.key_file.unlink(missing_ok=True)

    def _has(self, key: Mapping[str, Any]) -> bool:
        """Whether there are whole vectors of this key."""
        from rae.errors import RaeError
        from rae.io.embeddings import embeddings_width
        from rae.storage.documents import read_json

        try:
            return self.vectors.is_file() and read_json(self.key_file) == key and embeddings_width(self.vectors) > 0
        except (OSError, ValueError, RaeError):
            return False


def vectors_key(
    graph: Graph, features: Any, model: str, *, half: bool = False, dtype: str = "float32"
) -> dict[str, Any]:
    """All that the bytes of a file of vectors depend on; `model` is the checksum of the model file."""
    from rae.features import Features
    from rae.storage.parts import digest_of

    return {
        "versions": versions_of("numpy", "pyarrow", "torch"),
        "model": model,
        "graph": digest_of(*graph.arrays),
        "ids": _ids_digest(graph.id_column),
        "features": Features.of(graph, features, Config(), check=False).digest(),
        "half": half,
        "dtype": dtype,
    }


def fit_key(
    vectors: Mapping[str, Any], settings: Mapping[str, Any], columns: Sequence[str] | None, names: Any, *, lean: bool
) -> str:
    """A checksum of a `vectors_key` and of what else a run stores: settings, feature names, display names."""
    import hashlib
    import json

    names_and_columns = {
        "columns": None if columns is None else list(columns),
        "names": None if names is None else _ids_digest(names),
    }
    request = {**vectors, **names_and_columns, "settings": dict(settings), "lean": lean}
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()


def _ids_digest(ids: Any) -> str:
    """The SHA-256 of a column of ids, read in batches."""
    import hashlib

    import pyarrow as pa

    digest = hashlib.sha256()
    for start in range(0, len(ids), IDS_PER_BATCH):
        digest.update(pa.record_batch([ids.slice(start, IDS_PER_BATCH)], ["id"]).serialize())
    return digest.hexdigest()
