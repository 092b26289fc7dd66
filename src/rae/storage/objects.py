"""Object stores by URL: s3://, gs://, az:// (abfs://), and file:// for a folder, by the filesystems that Arrow brings.

A place is an `ObjectPath`, which has of a `Path` what readers ask for. An object appears when its upload is complete:
it is whole or absent. Credentials come from the usual environment of each store (AWS_ACCESS_KEY_ID or a role,
GOOGLE_APPLICATION_CREDENTIALS, AZURE_STORAGE_ACCOUNT) and appear in no message; AWS_ENDPOINT_URL names another server.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa
from pyarrow import fs

from rae.errors import FileError, one_line
from rae.storage.atomic import writing
from rae.storage.scratch import scratch_folder

SCHEMES = ("s3", "gs", "gcs", "az", "abfs", "abfss", "file")
REQUESTS = 16  # to a store at the same time
GS_SECONDS = 30  # for which a request to Google's store is tried again; its library would for a quarter of an hour
_URL = re.compile(r"([a-z][a-z0-9+]+)://")
_SECRET = re.compile(r"://[^/@]*@|([?&][^=&]*(?:key|token|secret|sig)[^=&]*=)[^&\s'\"]*", re.IGNORECASE)


def scheme_of(path: Any) -> str | None:
    """The scheme of a URL, None for what is none."""
    match = _URL.match(os.fspath(path)) if isinstance(path, (str, os.PathLike)) else None
    return match[1] if match else None


def is_url(path: Any) -> bool:
    """Whether this is a place in an object store that can be read and written."""
    return scheme_of(path) in SCHEMES


@contextlib.contextmanager
def on_disk(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A path of this file on this machine: of an object, a copy that loses its name at the end."""
    if not is_url(path):
        yield Path(path)
        return
    remote = ObjectPath(os.fspath(path))
    with scratch_folder() as folder:
        remote.download(folder / remote.name)
        yield folder / remote.name


@contextlib.contextmanager
def to_store(path: Path | ObjectPath) -> Iterator[Path]:
    """A path on this machine to write a file to; of an object, it is uploaded when the block succeeds."""
    if isinstance(path, Path):
        yield path
        return
    with scratch_folder() as folder:
        yield folder / path.name
        path.upload(folder / path.name)


def place(path: str | os.PathLike[str]) -> Path | ObjectPath:
    """A place by its name: in an object store, or on a disk of this machine."""
    return ObjectPath(os.fspath(path)) if is_url(path) else Path(path)


def unlink_all(paths: Sequence[Path | ObjectPath]) -> None:
    """Remove files, where they are there: those in a store several at a time."""
    if paths and isinstance(paths[0], ObjectPath):
        with ThreadPoolExecutor(REQUESTS) as pool:
            list(pool.map(lambda path: path.unlink(missing_ok=True), paths))
        return
    for path in paths:
        path.unlink(missing_ok=True)


def sizes_below(path: str | os.PathLike[str]) -> dict[str, int]:
    """The bytes of the files right in a folder, by name."""
    where = place(path)
    if isinstance(where, ObjectPath):
        return {child.name: child.size() for child in where.iterdir()}
    return {file.name: file.stat().st_size for file in sorted(where.iterdir())}


def without_secrets(text: str) -> str:
    """A URL, or a message with one, without passwords and keys.

    >>> without_secrets("s3://me:word@bucket/x?secret_key=abc&region=eu")
    's3://bucket/x?secret_key=...&region=eu'
    """
    return _SECRET.sub(lambda match: f"{match[1]}..." if match[1] else "://", text)


@dataclass(frozen=True)
class ObjectPath:
    """An object, or a prefix of objects, by its URL."""

    url: str

    def __str__(self) -> str:
        return without_secrets(self.url)

    def __fspath__(self) -> str:
        return self.url

    def __truediv__(self, name: str) -> ObjectPath:
        base, mark, options = self.url.partition("?")
        return ObjectPath(f"{base.rstrip('/')}/{name}{mark}{options}")

    @property
    def name(self) -> str:
        """The last part of its name."""
        return PurePosixPath(self.url.partition("?")[0]).name

    @property
    def suffix(self) -> str:
        """The ending of its name, with its dot."""
        return PurePosixPath(self.name).suffix

    @property
    def suffixes(self) -> list[str]:
        """All endings of its name."""
        return PurePosixPath(self.name).suffixes

    def is_file(self) -> bool:
        """Whether it is an object."""
        return bool(self._info().type == fs.FileType.File)

    def is_dir(self) -> bool:
        """Whether objects lie below it."""
        return bool(self._info().type == fs.FileType.Directory)

    def exists(self) -> bool:
        """Whether it is an object, or one lies below it."""
        return bool(self._info().type != fs.FileType.NotFound)

    def size(self) -> int:
        """The bytes of an object, or of all objects right below a prefix."""
        return sum(child.size() for child in self.iterdir()) if self.is_dir() else int(self._info().size or 0)

    def written(self) -> int:
        """When an object was written, in nanoseconds."""
        return int(self._info().mtime_ns or 0)

    def iterdir(self) -> list[ObjectPath]:
        """The objects and prefixes right below it, sorted by name."""
        files, path = _open_store(self.url)
        with store_errors(self):
            entries = files.get_file_info(fs.FileSelector(path))
        return [self / name for name in sorted(info.base_name for info in entries)]

    def open(self) -> pa.NativeFile:
        """The object, to be read at any position; only what is asked for is fetched."""
        files, path = _open_store(self.url)
        with store_errors(self):
            return files.open_input_file(path)

    def create(self) -> pa.NativeFile:
        """A stream to write the object by; it is there when the stream is closed, with what was written until then."""
        files, path = _open_store(self.url)
        with store_errors(self):
            if isinstance(files, fs.LocalFileSystem):  # a disk has folders
                files.create_dir(str(PurePosixPath(path).parent), recursive=True)
            return files.open_output_stream(path)

    def read_bytes(self) -> bytes:
        """All bytes of the object."""
        with self.open() as stream:
            return bytes(stream.read())

    def download(self, target: Path) -> None:
        """Write the object, or all objects below a prefix, to this file or folder."""
        files, path = _open_store(self.url)
        with store_errors(self), writing(target):
            if self.is_dir():
                target.mkdir(parents=True, exist_ok=True)
            fs.copy_files(path, str(target.resolve()), source_filesystem=files, destination_filesystem=_DISK)

    def upload(self, source: Path) -> None:
        """Write a file to this object; it is there when it is complete."""
        files, path = _open_store(self.url)
        with store_errors(self):
            if isinstance(files, fs.LocalFileSystem):  # a disk has folders
                files.create_dir(str(PurePosixPath(path).parent), recursive=True)
            with ThreadPoolExecutor(1) as other:  # signals interrupt this thread, not the upload
                other.submit(_send, source, files, path).result()

    def upload_folder(self, source: Path, last: str) -> None:
        """Write the files of a folder below this prefix, the one called `last` last, which marks them complete."""
        files = sorted((path for path in source.rglob("*") if path.is_file()), key=lambda path: path.name == last)
        if (self / last).is_file():
            (self / last).unlink()
        for path in files:
            (self / path.relative_to(source).as_posix()).upload(path)

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove the object."""
        files, path = _open_store(self.url)
        if missing_ok and not self.is_file():
            return
        with store_errors(self):
            files.delete_file(path)

    def rmdir(self) -> None:
        """Remove the marker of an empty prefix: some stores have an object of that name."""
        files, path = _open_store(self.url)
        with store_errors(self), contextlib.suppress(FileNotFoundError):
            files.delete_dir(path)

    def _info(self) -> Any:
        files, path = _open_store(self.url)
        with store_errors(self):
            return files.get_file_info(path)


_DISK = fs.LocalFileSystem()
_PIECE = 1 << 26  # bytes per part of an upload


def _send(source: Path, files: Any, path: str) -> None:
    """Write a file to an object. Arrow's `copy_files` does not say when a part of a large object was refused."""
    with source.open("rb") as file, files.open_output_stream(path) as stream:
        while piece := file.read(_PIECE):
            stream.write(piece)
            stream.flush()


def filesystem_of(where: Path | ObjectPath) -> tuple[fs.FileSystem, str]:
    """Arrow's filesystem of a place, and its name in it."""
    if isinstance(where, ObjectPath):
        return _open_store(where.url)
    return _DISK, str(where.resolve())


@contextlib.contextmanager
def store_errors(where: ObjectPath) -> Iterator[None]:
    """Errors of the store become one sentence without credentials."""
    try:
        yield
    except FileError:  # one sentence already
        raise
    except (OSError, pa.ArrowException, ValueError) as error:
        reason = without_secrets(one_line(error))
        raise FileError(
            f"{where} cannot be read or written ({reason}); check its name, your credentials and the store's address"
        ) from None


@lru_cache(maxsize=16)
def _open_store(url: str) -> tuple[Any, str]:
    """The store of a URL, and the name in it."""
    base, _, options = url.partition("?")
    scheme, name = scheme_of(url), base.partition("://")[2].rstrip("/")
    where = ObjectPath(url)
    if not name:
        raise FileError(f"{where} names no bucket; expected {scheme}://BUCKET/NAME")
    with store_errors(where):
        if scheme == "az":
            account = os.environ.get("AZURE_STORAGE_ACCOUNT") or os.environ.get("AZURE_STORAGE_ACCOUNT_NAME")
            if not account:
                raise FileError(f"{where} needs the name of its account; set AZURE_STORAGE_ACCOUNT")
            key = os.environ.get("AZURE_STORAGE_KEY") or os.environ.get("AZURE_STORAGE_ACCOUNT_KEY")
            return _azure(account, key), name
        if scheme == "s3" and not options:
            return _s3(name.partition("/")[0]), name
        if scheme in ("gs", "gcs") and "retry_limit_seconds=" not in options:
            options = "&".join(filter(None, [options, f"retry_limit_seconds={GS_SECONDS}"]))
        files, path = fs.FileSystem.from_uri(f"{scheme}://{name}" + (f"?{options}" if options else ""))
        return files, path


@lru_cache(maxsize=16)
def _s3(bucket: str) -> Any:
    """The store of a bucket, at Amazon or at the server that the usual variables of Amazon's tools name."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    options: dict[str, Any] = {"region": region or ("us-east-1" if endpoint else fs.resolve_s3_region(bucket))}
    if endpoint:
        scheme, _, address = endpoint.rpartition("://")
        options |= {"endpoint_override": address.rstrip("/"), "scheme": scheme or "https"}
    if "allow_delayed_open" in (fs.S3FileSystem.__init__.__doc__ or "") + (fs.S3FileSystem.__doc__ or ""):
        options["allow_delayed_open"] = True  # a small object is sent in one request
    return fs.S3FileSystem(**options)


def _azure(account: str, key: str | None) -> Any:
    """Azure's store; Arrow has it on most platforms."""
    if not hasattr(fs, "AzureFileSystem"):  # pragma: no cover  # of some builds
        raise FileError("az:// needs a build of pyarrow with Azure's filesystem; this one has none")
    return fs.AzureFileSystem(account, account_key=key)
