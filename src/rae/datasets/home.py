"""Home: the folders with the files of the public data sets, and their download.

A file comes from the folder RAE_DATA, else from the cache folder, else it is downloaded into the cache.
Only downloads are compared with their SHA-256 checksum: a file that the user has put there may be a newer
release or a repaired one, and the loaders check the content of every file anyway.
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

_CHUNK_BYTES = 1 << 20
_MOST_BYTES = 1 << 30  # far above every public file


@dataclass(frozen=True)
class Home:
    """The folders with data files, and the sources of files that are in neither."""

    folder: Path | None
    cache: Path
    sources: Mapping[str, Source] = field(default_factory=lambda: SOURCES)
    timeout: float = 30.0

    @classmethod
    def from_environment(cls) -> Home:
        """The folder RAE_DATA and the platform's cache folder."""
        folder = os.environ.get("RAE_DATA")
        return cls(Path(folder) if folder else None, cache_folder())

    def find(self, path: str) -> Path | None:
        """The path of the file on this machine, None if it is not there."""
        for folder in (self.folder, self.cache):
            if folder is not None and (folder / path).is_file():
                return folder / path
        return None

    def get(self, path: str) -> Path:
        """The path of the file on this machine; it is downloaded if needed."""
        if (local := self.find(path)) is not None:
            return local
        source = self.sources.get(path)
        if source is None or source.url is None:
            raise DatasetError(
                f"{path} is not on this machine and has no download that can be checked; {self.manual_hint(path)}"
            )
        download(source, self.cache / path, timeout=self.timeout, hint=self.manual_hint(path))
        return self.cache / path

    def manual_hint(self, path: str) -> str:
        """The end of an error: where to put the file by hand."""
        paths = [str(folder / path) for folder in (self.folder, self.cache) if folder is not None]
        unset = "" if self.folder is not None else ", or set RAE_DATA to the folder that holds it"
        return f"put the file at {' or '.join(paths)}{unset}"


def cache_folder() -> Path:
    """The folder for downloads: XDG_CACHE_HOME/rae, or the platform's equivalent."""
    if cache := os.environ.get("XDG_CACHE_HOME"):
        return Path(cache) / "rae"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "rae"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "rae"
    return Path.home() / ".cache" / "rae"


def download(source: Source, path: Path, *, timeout: float, hint: str) -> None:
    """Download the file to this path, verified, or leave nothing there."""
    import urllib.error
    import urllib.request

    assert source.url is not None
    log.info("downloading %s (%s bytes)", source.url, f"{source.size:,}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(path) as part:
            with urllib.request.urlopen(source.url, timeout=timeout) as response, Path(part).open("wb") as file:
                size, sha256 = _copy(response, file, source.size)
            if size > source.size:
                raise DatasetError(f"{source.url} should have {source.size:,} bytes and sends more; {hint}")
            if sha256 != source.sha256:
                raise DatasetError(
                    f"{source.url} should have the SHA-256 sum {source.sha256}, got {sha256} ({size:,} bytes); "
                    f"nothing was kept; try again, or {hint}"
                )
    except (OSError, ValueError) as error:  # URLError, timeouts, a full disk, a malformed address
        if isinstance(error, urllib.error.HTTPError):
            error.close()  # it is the answer too
        raise DatasetError(f"could not download {source.url}: {error}; {hint}") from None
    log.info("saved %s", path)


def _copy(response: IO[bytes], file: IO[bytes], expected: int) -> tuple[int, str]:
    """Size and SHA-256 of what was copied; stops once there is more than expected."""
    digest, size, tenths = hashlib.sha256(), 0, 0
    while size <= expected and (chunk := response.read(_CHUNK_BYTES)):
        size += len(chunk)
        digest.update(chunk)
        file.write(chunk)
        if size * 10 // max(1, expected) > tenths:
            tenths = size * 10 // max(1, expected)
            log.info("%3d %%", min(100, tenths * 10))
    return size, digest.hexdigest()


def read_bytes(path: Path, most: int = _MOST_BYTES) -> bytes:
    """The content of the file, decompressed if it ends in .gz; more than `most` bytes are refused."""
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
