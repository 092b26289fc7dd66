"""A server that speaks the part of S3 that readers and writers of tables use, over a folder.

    python benchmarks/object_store.py FOLDER HOST PORT

Buckets come into being when something is put into them. Objects are put whole or not at all, from one request or
from the parts of an upload; whatever signature a request has is taken. For rehearsals on a network without others.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.sax.saxutils import escape

PIECE = 1 << 20


def pieces(source: Any, size: int) -> Iterator[bytes]:
    """So many bytes of a stream, in pieces."""
    while size:
        piece = source.read(min(size, PIECE))
        if not piece:
            raise ConnectionError("the request ended early")
        yield piece
        size -= len(piece)


class Chunks:
    """The bytes of a stream that comes in chunks, each after a line with its size; what follows the last is passed."""

    def __init__(self, source: Any) -> None:
        self.source, self.buffer, self.ended = source, b"", False

    def rest(self) -> Iterator[bytes]:
        """All that is left, in pieces."""
        while self.buffer or not self.ended:
            yield self.buffer
            self.buffer = b""
            if not self.ended:
                self._fill()

    def read(self, size: int) -> bytes:
        """At most so many bytes, fewer at the end."""
        while len(self.buffer) < size and not self.ended:
            self._fill()
        out, self.buffer = self.buffer[:size], self.buffer[size:]
        return out

    def readline(self) -> bytes:
        """The bytes up to the end of a line."""
        while b"\n" not in self.buffer and not self.ended:
            self._fill()
        line, end, self.buffer = self.buffer.partition(b"\n")
        return line + end

    def _fill(self) -> None:
        size = int(self.source.readline().split(b";")[0], 16)
        self.buffer += b"".join(pieces(self.source, size))
        if size:
            self.source.readline()
        else:
            self.ended = True
            while self.source.readline().strip():  # checksums
                pass


class Handler(BaseHTTPRequestHandler):
    """One request after the other of one connection."""

    protocol_version = "HTTP/1.1"
    server: Store
    disable_nagle_algorithm = True

    def log_message(self, *_: object) -> None:
        """Nothing: requests are counted by the network."""

    def do_GET(self) -> None:
        """An object or a range of it; the names in a bucket."""
        bucket, key, options = self._asked()
        if not key:
            self._list(bucket, options)
            return
        path = self.server.path(bucket, key)
        try:
            file = path.open("rb")
        except FileNotFoundError:
            self._missing()
            return
        with file:
            size = os.fstat(file.fileno()).st_size
            first, last = 0, size - 1
            asked_range = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
            if asked_range:
                first, last = int(asked_range[1]), min(int(asked_range[2] or last), last)
            self.send_response(206 if asked_range else 200)
            if asked_range:
                self.send_header("Content-Range", f"bytes {first}-{last}/{size}")
            self._about(path, last + 1 - first)
            if self.command == "GET":
                while first <= last:
                    first += os.sendfile(self.connection.fileno(), file.fileno(), first, last + 1 - first)

    def do_HEAD(self) -> None:
        """Whether an object is there, its size and when it was written."""
        bucket, key, _ = self._asked()
        if not key:
            self._answer(200)
        elif self.server.path(bucket, key).is_file():
            self.do_GET()
        else:
            self._answer(404)

    def do_PUT(self) -> None:
        """A bucket, an object, or a part of an upload."""
        bucket, key, options = self._asked()
        if not key:
            self._read_body(None)
            self._answer(200)
            return
        if "uploadId" in options:
            target = self.server.part(options["uploadId"], int(options["partNumber"]))
        else:
            target = self.server.path(bucket, key)
        hidden = self.server.hidden()
        with hidden.open("wb") as file:
            self._read_body(file)
        hidden.replace(target)
        self._answer(200, headers={"ETag": '"part"'})

    def do_POST(self) -> None:
        """The beginning and the end of an upload; several objects to remove."""
        bucket, key, options = self._asked()
        body = self._read_body(None)
        if "delete" in options:
            for name in re.findall(rb"<Key>(.*?)</Key>", body):
                self.server.path(bucket, name.decode()).unlink(missing_ok=True)
            self._answer(200, "<DeleteResult/>")
        elif "uploads" in options:
            names = f"<Bucket>{escape(bucket)}</Bucket><Key>{escape(key)}</Key><UploadId>{uuid.uuid4().hex}</UploadId>"
            self._answer(200, f"<InitiateMultipartUploadResult>{names}</InitiateMultipartUploadResult>")
        else:
            hidden = self.server.hidden()
            with hidden.open("wb") as file:
                for number in re.findall(rb"<PartNumber>(\d+)</PartNumber>", body):
                    part = self.server.part(options["uploadId"], int(number))
                    with part.open("rb") as source:
                        while piece := source.read(PIECE):
                            file.write(piece)
            hidden.replace(self.server.path(bucket, key))
            self.server.forget(options["uploadId"])
            names = f'<Bucket>{escape(bucket)}</Bucket><Key>{escape(key)}</Key><ETag>"whole"</ETag>'
            self._answer(200, f"<CompleteMultipartUploadResult>{names}</CompleteMultipartUploadResult>")

    def do_DELETE(self) -> None:
        """An object, or an upload that is given up."""
        bucket, key, options = self._asked()
        if "uploadId" in options:
            self.server.forget(options["uploadId"])
        elif key:
            self.server.path(bucket, key).unlink(missing_ok=True)
        self._answer(204)

    def _asked(self) -> tuple[str, str, dict[str, str]]:
        address = urlsplit(self.path)
        bucket, _, key = unquote(address.path).lstrip("/").partition("/")
        options = {name: values[0] for name, values in parse_qs(address.query, keep_blank_values=True).items()}
        return bucket, key, options

    def _read_body(self, file: Any) -> bytes:
        """The body of the request; into a file where there is one."""
        if file is None:
            return b"".join(self._body())
        file.writelines(self._body())
        return b""

    def _body(self) -> Iterator[bytes]:
        """The body in pieces, without the chunks of HTTP and those of S3, which may be one in the other."""
        source: Any = self.rfile
        if self.headers.get("Transfer-Encoding"):
            source = Chunks(source)
        elif (size := int(self.headers.get("Content-Length") or 0)) and "aws-chunked" not in self._encoding:
            yield from pieces(source, size)
            return
        elif not size:
            return
        if "aws-chunked" in self._encoding:
            yield from Chunks(source).rest()
        if isinstance(source, Chunks):
            yield from source.rest()

    @property
    def _encoding(self) -> str:
        return self.headers.get("Content-Encoding", "")

    def _list(self, bucket: str, options: dict[str, str]) -> None:
        prefix, delimiter = options.get("prefix", ""), options.get("delimiter", "")
        after = options.get("continuation-token") or options.get("start-after", "")
        most = int(options.get("max-keys", 1000))
        path_of_name: dict[str, Path | None] = {}
        for name, path in self.server.objects(bucket):
            if name.startswith(prefix):
                end = name.find(delimiter, len(prefix)) if delimiter else -1
                path_of_name[name if end < 0 else name[: end + 1]] = path if end < 0 else None
        names = [name for name in sorted(path_of_name) if name > after]
        shown, lines = names[:most], []
        for name in shown:
            if (path := path_of_name[name]) is None:
                lines.append(f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>")
            else:
                with contextlib.suppress(FileNotFoundError):
                    size = f"<Size>{path.stat().st_size}</Size><LastModified>{_iso(path)}</LastModified>"
                    lines.append(f"<Contents><Key>{escape(name)}</Key>{size}</Contents>")
        more = len(names) > len(shown)
        token = f"<NextContinuationToken>{escape(shown[-1])}</NextContinuationToken>" if more else ""
        head = f"<Name>{bucket}</Name><Prefix>{escape(prefix)}</Prefix><KeyCount>{len(lines)}</KeyCount>"
        head += f"<IsTruncated>{str(more).lower()}</IsTruncated>{token}"
        self._answer(200, f"<ListBucketResult>{head}{''.join(lines)}</ListBucketResult>")

    def _missing(self) -> None:
        self._answer(404, "<Error><Code>NoSuchKey</Code><Message>there is no such object</Message></Error>")

    def _about(self, path: Path, length: int) -> None:
        state = path.stat()
        self.send_header("ETag", f'"{state.st_size:x}-{state.st_mtime_ns:x}"')
        self.send_header("Last-Modified", self.date_time_string(state.st_mtime))
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.flush()

    def _answer(self, code: int, text: str = "", headers: dict[str, str] | None = None) -> None:
        body = f'<?xml version="1.0" encoding="UTF-8"?>{text}'.encode() if text else b""
        self.send_response(code)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/xml")
        if code != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


class Store(ThreadingHTTPServer):
    """Objects as files of a folder, by bucket; hidden files are on their way."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, folder: Path, address: tuple[str, int]) -> None:
        self.folder = folder
        (folder / ".coming").mkdir(parents=True, exist_ok=True)
        super().__init__(address, Handler)

    def path(self, bucket: str, key: str) -> Path:
        """The file of an object."""
        return self.folder / f"{bucket}%2F{quote(key, safe='')}"

    def objects(self, bucket: str) -> list[tuple[str, Path]]:
        """The names in a bucket, with their files."""
        start = f"{bucket}%2F"
        return [(unquote(p.name[len(start) :]), p) for p in self.folder.iterdir() if p.name.startswith(start)]

    def hidden(self) -> Path:
        """A new file that no name leads to."""
        return self.folder / ".coming" / uuid.uuid4().hex

    def part(self, upload: str, number: int) -> Path:
        """The file of a part of an upload."""
        return self.folder / ".coming" / f"{upload}-{number}"

    def forget(self, upload: str) -> None:
        """Remove the parts of an upload."""
        for path in (self.folder / ".coming").glob(f"{upload}-*"):
            path.unlink(missing_ok=True)

    def handle_error(self, *_: object) -> None:
        """Nothing: a client that was killed is no error of the server."""


def _iso(path: Path) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(path.stat().st_mtime, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


if __name__ == "__main__":
    Store(Path(sys.argv[1]), (sys.argv[2], int(sys.argv[3]))).serve_forever()
