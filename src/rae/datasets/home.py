"""Home: where the files of the public data sets are, and how they get there.

A file is looked for in the folder that RAE_DATA names, then in the cache folder, and is otherwise
downloaded into the cache. Only downloads are held against their SHA-256 sum: what a user has put
into RAE_DATA or the cache by hand is his own choice (a newer release, a repaired file), and the
loaders check the content of every file anyway.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from rae.datasets.sources import SOURCES, Source
from rae.errors import DatasetError
from rae.storage.atomic import atomic_path

log = logging.getLogger("rae.datasets")

_PIECE = 1 << 20
_MOST_BYTES = 1 << 30  # far above every file of the public sets


@dataclass(frozen=True)
class Home:
    """The folders to look in, and the public home of what is in neither."""

    folder: Path | None
    cache: Path
    sources: Mapping[str, Source] = field(default_factory=lambda: SOURCES)
    timeout: float = 30.0

    @classmethod
    def from_environment(cls) -> Home:
        """The home that RAE_DATA and the platform's cache folder make."""
        named = os.environ.get("RAE_DATA")
        return cls(Path(named) if named else None, cache_folder())

    def find(self, path: str) -> Path | None:
        """The file where it lies on this machine, None if it does not."""
        for folder in (self.folder, self.cache):
            if folder is not None and (folder / path).is_file():
                return folder / path
        return None

    def get(self, path: str) -> Path:
        """The file on this machine, downloaded if need be."""
        found = self.find(path)
        if found is not None:
            return found
        source = self.sources.get(path)
        if source is None or source.url is None:
            raise DatasetError(
                f"{path} is not on this machine and has no download that can be checked; {self.by_hand(path)}"
            )
        download(source, self.cache / path, timeout=self.timeout, otherwise=self.by_hand(path))
        return self.cache / path

    def by_hand(self, path: str) -> str:
        """What to tell a user whose file could not be had."""
        places = [str(folder / path) for folder in (self.folder, self.cache) if folder is not None]
        unset = "" if self.folder is not None else ", or set RAE_DATA to the folder that holds it"
        return f"put the file at {' or '.join(places)}{unset}"


def cache_folder() -> Path:
    """The folder for downloads: XDG_CACHE_HOME/rae, or what the platform has in its place."""
    if named := os.environ.get("XDG_CACHE_HOME"):
        return Path(named) / "rae"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "rae"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "rae"
    return Path.home() / ".cache" / "rae"


def download(source: Source, path: Path, *, timeout: float, otherwise: str) -> None:
    """Fetch the file to this path, whole and checked, or leave nothing there."""
    import urllib.request

    assert source.url is not None
    log.info("downloading %s (%s bytes)", source.url, f"{source.size:,}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(path) as part:
            with urllib.request.urlopen(source.url, timeout=timeout) as answer, Path(part).open("wb") as file:
                size, sha256 = _copy(answer, file, source.size)
            if size > source.size:
                raise DatasetError(f"{source.url} should have {source.size:,} bytes and sends more; {otherwise}")
            if sha256 != source.sha256:
                raise DatasetError(
                    f"{source.url} should have the SHA-256 sum {source.sha256}, got {sha256} ({size:,} bytes); "
                    f"nothing was kept; try again, or {otherwise}"
                )
    except (OSError, ValueError) as error:  # URLError, timeouts, a full disk, a malformed address
        raise DatasetError(f"could not download {source.url}: {error}; {otherwise}") from None
    log.info("kept %s", path)


def _copy(answer: IO[bytes], file: IO[bytes], expected: int) -> tuple[int, str]:
    """How much came and its sum; stops soon after more has come than was expected."""
    digest, size, told = hashlib.sha256(), 0, 0
    while size <= expected and (piece := answer.read(_PIECE)):
        size += len(piece)
        digest.update(piece)
        file.write(piece)
        if size * 10 // max(1, expected) > told:
            told = size * 10 // max(1, expected)
            log.info("%3d %%", min(100, told * 10))
    return size, digest.hexdigest()


def read_bytes(path: Path, most: int = _MOST_BYTES) -> bytes:
    """The content of the file, unpacked if it ends in .gz; refused beyond `most` bytes."""
    import gzip
    import zlib

    opener: Any = gzip.open if path.suffix == ".gz" else Path.open
    try:
        with opener(path, "rb") as file:
            content: bytes = file.read(most + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DatasetError(f"could not read {path}: {error}") from None
    if len(content) > most:
        raise DatasetError(f"{path} should have {most:,} bytes at most, got more; it is not the public file")
    return content
