"""The page over HTTP, for this machine alone."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

HOST = "127.0.0.1"


class _Quiet(SimpleHTTPRequestHandler):
    """Files of one folder, to callers who name this machine: a foreign site cannot borrow a reader's browser."""

    def send_head(self) -> Any:
        name = (self.headers.get("Host") or "").rpartition(":")[0]
        if name not in (HOST, "localhost"):
            self.send_error(HTTPStatus.FORBIDDEN)
            return None
        return super().send_head()

    def list_directory(self, path: Any) -> None:
        self.send_error(HTTPStatus.NOT_FOUND)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def page_server(folder: Path, port: int = 0) -> ThreadingHTTPServer:
    """A server of this folder on 127.0.0.1, on a free port unless one is named; call serve_forever()."""
    return ThreadingHTTPServer((HOST, port), partial(_Quiet, directory=str(folder)))
