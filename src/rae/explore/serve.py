"""The page over HTTP, for this machine only."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

HOST = "127.0.0.1"


class _LocalHandler(SimpleHTTPRequestHandler):
    """Files of one folder, without a log.

    Other Host names are refused, which prevents DNS rebinding, and so are links that lead out of the folder.
    """

    def send_head(self) -> Any:
        host, _, port = (self.headers.get("Host") or "").partition(":")  # browsers leave port 80 out
        if host not in (HOST, "localhost") or not (port.isdigit() or not port):
            self.send_error(HTTPStatus.FORBIDDEN)
            return None
        if not Path(self.translate_path(self.path)).resolve().is_relative_to(Path(self.directory).resolve()):
            self.send_error(HTTPStatus.NOT_FOUND)
            return None
        return super().send_head()

    def list_directory(self, path: Any) -> None:
        self.send_error(HTTPStatus.NOT_FOUND)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def page_server(folder: Path, port: int = 0) -> ThreadingHTTPServer:
    """A server of this folder on 127.0.0.1, on a free port if `port` is 0; call serve_forever()."""
    return ThreadingHTTPServer((HOST, port), partial(_LocalHandler, directory=str(folder)))
