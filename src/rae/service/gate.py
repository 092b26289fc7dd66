"""Access control and limits of every request: token, size, time and number at once; and metrics."""

from __future__ import annotations

import asyncio
import hmac
import json
import re
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from rae.progress import size
from rae.service.limits import Limits

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]

OPEN = ("/healthz",)  # answered without a token, under any load
NAMES = ("localhost", "127.0.0.1", "[::1]")  # of this machine
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]]+)(?::(\d+))?")


class Metrics:
    """Counts and durations for Prometheus."""

    def __init__(self) -> None:
        import prometheus_client as prometheus

        self.registry = prometheus.CollectorRegistry()
        for collector in (prometheus.ProcessCollector, prometheus.GCCollector):
            collector(registry=self.registry)
        steps = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
        self.seconds = prometheus.Histogram(
            "rae_request_seconds", "What requests took.", ("verb", "status"), buckets=steps, registry=self.registry
        )
        self.waiting = prometheus.Gauge("rae_requests_now", "Requests being answered.", registry=self.registry)
        names = {"nodes": "Nodes of the graph.", "edges": "Its edges.", "updates": "Updates since the fit."}
        self.run = {n: prometheus.Gauge(f"rae_{n}", text, registry=self.registry) for n, text in names.items()}

    def text(self) -> bytes:
        """All of them, as Prometheus reads them."""
        from prometheus_client import generate_latest

        return bytes(generate_latest(self.registry))


class Gate:
    """ASGI middleware: it passes a request to the application, or refuses it with a sentence."""

    def __init__(
        self, app: Any, *, limits: Limits, metrics: Metrics, token: str | None = None, only_here: bool = True
    ) -> None:
        self.app, self.limits, self.metrics = app, limits, metrics
        self._token = None if token is None else token.encode()
        self._only_here = only_here  # whether it listens to this machine alone
        self._now = self._arriving = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500

        async def counted(message: Any) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            refusal = self._refusal(scope)
            body = refusal if refusal is not None else await self._body(scope, receive)
            if isinstance(body, bytes) and self._now >= self.limits.requests and scope["path"] not in OPEN:
                body = self._busy()
            if not isinstance(body, bytes):
                await _answer(counted, *body)
                return
            self._now += 1
            self.metrics.waiting.set(self._now)
            try:
                await self.app(scope, _replayed(body, receive), counted)
            finally:
                self._now -= 1
                self.metrics.waiting.set(self._now)
        finally:
            verb = getattr(scope.get("route"), "path", "none").split("/")[1:2] or ["none"]
            self.metrics.seconds.labels(verb[0] or "none", str(status)).observe(time.perf_counter() - began)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        if self._only_here and not _is_here(headers.get(b"host", b"").decode("latin1")):
            return 403, "this service answers to localhost alone; ask it by that name, or start it for other machines"
        origin = headers.get(b"origin")
        if origin is not None and not _same(origin, headers.get(b"host", b"")):
            return 403, "this service answers no pages of other sites"
        if scope["path"] in OPEN:
            return None
        if self._token is not None:
            kind, _, token = headers.get(b"authorization", b"").partition(b" ")
            if kind.lower() != b"bearer" or not hmac.compare_digest(token.strip(), self._token):
                return 401, "a token is needed: send the header `Authorization: Bearer TOKEN`"
        if (
            scope["method"] == "POST"
            and headers.get(b"content-type", b"").split(b";")[0].strip() != b"application/json"
        ):
            return 415, "send JSON, with the header `Content-Type: application/json`"
        return None

    def _busy(self) -> tuple[int, str]:
        return 503, f"more than {self.limits.requests} requests at once; ask again in a second"

    async def _body(self, scope: Scope, receive: Receive) -> bytes | tuple[int, str]:
        """The body of a request, or why it is refused; requests that still arrive do not block others."""
        headers: dict[bytes, bytes] = dict(scope["headers"])
        if headers.get(b"content-length", b"0") == b"0" and b"transfer-encoding" not in headers:
            return b""
        if self._arriving >= self.limits.requests:
            return self._busy()
        self._arriving += 1
        try:
            return await self._arrived(scope, receive)
        finally:
            self._arriving -= 1

    async def _arrived(self, scope: Scope, receive: Receive) -> bytes | tuple[int, str]:
        most = self.limits.body
        declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        large = 413, f"a request has at most {size(most)}; send it in parts, or start the service with a larger limit"
        if not declared.isdigit() or int(declared) > most:
            return large
        parts, length = [], 0
        try:
            async with asyncio.timeout(self.limits.seconds):
                while True:
                    message = await receive()
                    parts.append(message.get("body", b""))
                    length += len(parts[-1])
                    if length > most:
                        return large
                    if message["type"] == "http.disconnect" or not message.get("more_body"):
                        return b"".join(parts)
        except TimeoutError:
            return 408, f"the request did not arrive within {self.limits.seconds:g} s; send it again"


def _replayed(body: bytes, receive: Receive) -> Receive:
    """The `receive` of an application: the body that was read already, then further messages."""
    read = False

    async def replay() -> Any:
        nonlocal read
        if read:
            return await receive()
        read = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


async def _answer(send: Send, status: int, sentence: str) -> None:
    body = json.dumps({"error": sentence}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if status == 503:
        headers.append((b"retry-after", b"1"))
    if status in (401, 403, 408, 413, 415, 503):  # the rest of the request may still come
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _is_here(host: str) -> bool:
    """Whether a Host header names this machine; others are refused against DNS rebinding."""
    match = _HOST.fullmatch(host.strip())
    return match is not None and match[1].lower() in NAMES


def _same(origin: bytes, host: bytes) -> bool:
    return origin.partition(b"://")[2].lower() == host.strip().lower()
