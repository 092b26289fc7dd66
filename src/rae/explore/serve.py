"""The page over HTTP, for this machine only."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

HOST = "127.0.0.1"


class _LocalHandler(SimpleHTTPRequestHandler):
    """Files of one folder, without a log. Other Host names are refused, which prevents DNS rebinding."""

    def send_head(self) -> Any:
        host = (self.headers.get("Host") or "").rpartition(":")[0]
        if host not in (HOST, "localhost"):
            self.send_error(HTTPStatus.FORBIDDEN)
            return None
        return super().send_head()

    def list_directory(self, path: Any) -> None:
        self.send_error(HTTPStatus.NOT_FOUND)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def page_server(folder: Path, port: int = 0) -> ThreadingHTTPServer:
    """A server of this folder on 127.0.0.1, on a free port if `port` is 0; call serve_forever()."""
    return ThreadingHTTPServer((HOST, port), partial(_LocalHandler, directory=str(folder)))
