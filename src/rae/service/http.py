"""The verbs of `Answers` over HTTP: routes, statuses, the page of the interface, and the server itself."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import html
import importlib.util
import inspect
import ipaddress
import json
import logging
import socket
import sys
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, get_type_hints

from rae.display import printable
from rae.errors import Argument, FileError, MissingExtraError, RaeError, RunError, UnknownIdError, one_line
from rae.interrupts import settle
from rae.service.answers import VERBS, Answers, Verb
from rae.service.gate import Gate, Metrics
from rae.service.limits import Limits
from rae.service.writer import WriterEndedError
from rae.version import __version__

if TYPE_CHECKING:
    from fastapi import FastAPI

log = logging.getLogger("rae")

SWITCH = 0.0005  # seconds between switches of Python threads: an update must not block readers
STOPPING = 30  # seconds that requests have to end when the service stops
KEEP_ALIVE = 75  # seconds that a connection may be idle
_KINDS = ("int", "float", "str", "bool", "constrained-str")  # of values, as pydantic calls them
FULL_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
TITLE = "rae: roles and look-alikes of a graph"


def check_installed() -> None:
    """Refuse a service whose libraries are not installed."""
    for library in ("fastapi", "uvicorn", "prometheus_client"):
        if importlib.util.find_spec(library) is None:
            raise MissingExtraError(library.replace("_", "-"), "serve", "`rae serve`")


def make_app(
    answers: Answers, *, token: str | None = None, only_here: bool = True, limits: Limits | None = None
) -> Gate:
    """The ASGI application that answers about a run; `only_here` refuses requests to other names than localhost's."""
    check_installed()
    import fastapi

    limits, metrics = limits or Limits(), Metrics()
    api = fastapi.FastAPI(
        title=TITLE, version=__version__, docs_url=None, redoc_url=None, redirect_slashes=False, lifespan=_lifespan
    )
    updates, long = asyncio.Semaphore(limits.updates), asyncio.Semaphore(limits.updates)
    _register_ids()
    for verb in VERBS:
        _add(api, verb, answers, updates if verb.writes else long if verb.takes_long else None)
    _add_pages(api, answers, metrics)
    _add_errors(api)
    return Gate(api, limits=limits, metrics=metrics, token=token, only_here=only_here)


@contextlib.asynccontextmanager
async def _lifespan(_: Any) -> AsyncIterator[None]:
    yield
    settle()  # uvicorn has handled the signal that stopped it


def _register_ids() -> None:
    """Register a path parameter for ids, which may have slashes and line ends, percent-encoded."""
    from starlette.convertors import Convertor, register_url_convertor

    class Ids(Convertor[str]):
        regex = "(?s:.+)"

        def convert(self, value: str) -> str:
            return value

        def to_string(self, value: str) -> str:
            return value

    register_url_convertor("id", Ids())


def _add(api: FastAPI, verb: Verb, answers: Answers, few: asyncio.Semaphore | None) -> None:
    """Add the route of a verb: a GET takes its arguments from the address, a POST from a JSON object.

    At most `few` requests that take long run or wait.
    """
    answer = getattr(answers, verb.name)
    endpoint = _post_endpoint(answer, verb, few) if verb.method == "POST" else _get_endpoint(answer, answers, few)
    api.add_api_route(
        verb.path.replace("{id}", "{id:id}"),
        endpoint,
        methods=[verb.method],
        name=verb.name,
        description=inspect.getdoc(answer),
        response_model=get_type_hints(answer)["return"],
        responses={status: {"description": text} for status, text in _STATUSES.items()},
    )


@contextlib.asynccontextmanager
async def _one_of(few: asyncio.Semaphore, what: str) -> AsyncIterator[None]:
    """One of a few during the block; refused where there are as many already."""
    from fastapi import HTTPException

    if few.locked():
        raise HTTPException(503, what)
    async with few:
        yield


def _get_endpoint(answer: Callable[..., Any], answers: Answers, few: asyncio.Semaphore | None) -> Callable[..., Any]:
    """An endpoint with the arguments of a verb; a quick one is answered in the event loop, without a thread."""
    from starlette.concurrency import run_in_threadpool

    async def endpoint(**arguments: Any) -> Any:
        if few is not None:
            async with _one_of(few, "too many questions wait that take long; ask again later"):
                return await run_in_threadpool(answer, **arguments)
        return answer(**arguments) if answers.is_quick else await run_in_threadpool(answer, **arguments)

    endpoint.__signature__ = inspect.signature(answer, eval_str=True)  # type: ignore[attr-defined]
    return endpoint


def _post_endpoint(answer: Callable[..., Any], verb: Verb, few: asyncio.Semaphore | None) -> Callable[..., Any]:
    """An endpoint whose body has the arguments of a verb.

    Each verb has one thread: its calls run one after the other and reuse the memory that the last one freed.
    """
    from pydantic import ConfigDict, create_model

    thread = ThreadPoolExecutor(1, thread_name_prefix=verb.name)
    hints = get_type_hints(answer)
    fields = {
        name: (hints[name], ... if parameter.default is parameter.empty else parameter.default)
        for name, parameter in inspect.signature(answer).parameters.items()
    }
    strict = ConfigDict(strict=True, extra="forbid")
    model: Any = create_model(f"{verb.name.capitalize()}Request", __config__=strict, **fields)  # type: ignore[call-overload]

    async def endpoint(body: Any) -> Any:
        work = partial(answer, **{name: getattr(body, name) for name in fields})
        loop = asyncio.get_running_loop()
        if few is None:
            return await loop.run_in_executor(thread, work)
        async with _one_of(few, "too many updates wait to be written; nothing was changed: send it again later"):
            return await loop.run_in_executor(thread, work)

    endpoint.__annotations__["body"] = model
    return endpoint


# ------------------------------------------------------------------------------------- errors

_STATUSES = {
    400: "The body is not JSON.",
    404: "No such node, role or address.",
    409: "The run cannot do that as it is: it has no roles, keeps no graph, or is read-only.",
    413: "The request is too large.",
    422: "Arguments that do not fit: ids, edges, widths.",
    503: "Too much at once, or the process that updates has ended; try again.",
    507: "The disk is full; nothing was changed.",
}


def status_of(error: BaseException) -> int:
    """The HTTP status of an error of the library."""
    if isinstance(error, UnknownIdError):
        return 404
    if _is_full_disk(error) or _is_full_disk(error.__cause__):
        return 507
    if isinstance(error, MissingExtraError):
        return 501
    if isinstance(error, WriterEndedError):
        return 503
    if isinstance(error, RunError):
        return 409
    return 500 if isinstance(error, FileError | OSError) else 422


def _is_full_disk(error: BaseException | None) -> bool:
    return isinstance(error, OSError) and error.errno in FULL_DISK


def sentence_of(error: BaseException) -> str:
    """The message of an error, with arguments as the fields of a request."""

    def field(argument: Argument) -> str:
        if argument.value is None or argument.value is ...:
            return json.dumps(argument.name)
        return f"{json.dumps(argument.name)}: {json.dumps(argument.value, default=str)}"

    return printable(error.sentence.render(field) if isinstance(error, RaeError) else one_line(error))


def _is_place(part: int | str) -> bool:
    """Whether a part of an error's location is a field of the request, and no type that pydantic tried there."""
    return isinstance(part, int) or (part not in ("body", "path", "query", *_KINDS) and "[" not in part)


def _add_errors(api: FastAPI) -> None:
    from fastapi.exceptions import RequestValidationError
    from starlette.exceptions import HTTPException
    from starlette.responses import JSONResponse

    def say(status: int, sentence: str) -> JSONResponse:
        return JSONResponse({"error": sentence}, status, {"Retry-After": "1"} if status == 503 else None)

    async def refused(_: Any, error: Exception) -> JSONResponse:
        return say(status_of(error), sentence_of(error))

    async def malformed(_: Any, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        if first["type"] == "json_invalid":
            return say(400, f"the body is not JSON: {first.get('ctx', {}).get('error', first['msg'])}")
        where = ".".join(str(part) for part in first["loc"] if _is_place(part))
        return say(422, f"{where or 'the body'}: {first['msg'][:1].lower()}{first['msg'][1:]}")

    async def missed(_: Any, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        if error.status_code == 400:  # such as JSON that is nested too deep
            return say(400, "the body is not JSON that can be read")
        no_such_address = error.status_code in (404, 405) and error.detail in ("Not Found", "Method Not Allowed")
        return say(
            error.status_code, "there is no such address; GET / lists them" if no_such_address else str(error.detail)
        )

    async def broken(_: Any, error: Exception) -> JSONResponse:
        return say(500, "this is a bug in rae, not your mistake; the log of the service has its trace")

    for kind, handler in ((RaeError, refused), (OSError, refused), (RequestValidationError, malformed),
                          (HTTPException, missed), (Exception, broken)):  # fmt: skip
        api.add_exception_handler(kind, handler)


# ------------------------------------------------------------------------------------- pages


def _add_pages(api: FastAPI, answers: Answers, metrics: Metrics) -> None:
    from starlette.responses import HTMLResponse, Response

    @api.get("/healthz", description="Whether the service answers, and about what.")
    async def healthz() -> dict[str, Any]:
        now = answers.now
        index = now.neighbors.index
        return {
            "status": "ok",
            "run": answers.run.path.name,
            "version": __version__,
            "nodes": now.counts["nodes"],
            "edges": now.counts["edges"],
            "updates": now.number,
            "writable": answers.writable,
            "search": {"method": index.method, "recall": round(index.recall, 4)},
        }

    @api.get("/metrics", include_in_schema=False)
    async def show_metrics() -> Response:
        now = answers.now
        for name, number in (now.counts | {"updates": now.number}).items():
            if name in metrics.run:
                metrics.run[name].set(number)
        return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @api.get("/", include_in_schema=False)
    async def page() -> HTMLResponse:
        return HTMLResponse(interface_page(api.openapi()))


def interface_page(schema: dict[str, Any]) -> str:
    """The OpenAPI document as a page that fetches nothing."""
    parts = []
    for path, methods in schema["paths"].items():
        for method, about in methods.items():
            arguments = [(p["name"], p["schema"], p.get("required")) for p in about.get("parameters", [])]
            if "requestBody" in about:
                reference = about["requestBody"]["content"]["application/json"]["schema"]["$ref"]
                model = schema["components"]["schemas"][reference.rpartition("/")[2]]
                needed = model.get("required", [])
                arguments += [(name, kind, name in needed) for name, kind in model["properties"].items()]
            rows = "".join(
                f"<li><code>{html.escape(name)}</code> {html.escape(_kind(kind))}{'' if needed else ', optional'}</li>"
                for name, kind, needed in arguments
            )
            text = html.escape(about.get("description", "")).replace("\n\n", "<br>")
            parts.append(f"<h2><code>{method.upper()} {html.escape(path)}</code></h2><p>{text}</p><ul>{rows}</ul>")
    title = html.escape(schema["info"]["title"])
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        "<style>body{font:16px/1.5 system-ui;max-width:48rem;margin:2rem auto;padding:0 1rem}h2{font-size:1rem}</style>"
        f'<h1>{title}</h1><p>Errors are <code>{{"error": "a sentence"}}</code>. '
        'For programs: <a href="openapi.json">openapi.json</a>; for Prometheus: <a href="metrics">metrics</a>.'
        f"</p>{''.join(parts)}</html>"
    )


def _kind(schema: dict[str, Any]) -> str:
    """A schema in a few words."""
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_kind(one) for one in schema["anyOf"] if one.get("type") != "null"))
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    return str(schema.get("type", "anything"))


# ------------------------------------------------------------------------------------- the server


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket of this address, on a free port if `port` is 0; one that is taken is refused."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, OverflowError) as error:
        raise RunError(f"cannot listen on {host} port {port}: {one_line(error)}; choose another port or host") from None


def _protocol(seconds: float) -> type[asyncio.Protocol]:
    """uvicorn's HTTP protocol with a timeout for idle connections and for incomplete headers."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Impatient(H11Protocol):
        _late: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            self._forget()
            super().connection_lost(exc)

        def send_400_response(self, msg: str) -> None:
            body = json.dumps({"error": "this is no HTTP request that can be read"}).encode()
            head = f"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
            self.transport.write(head.encode() + b"connection: close\r\n\r\n" + body)
            self.transport.close()

        def _watch(self) -> None:
            """Start the timeout, unless a request is being answered; parts of a header do not extend it."""
            if self.cycle is not None and not self.cycle.response_complete:
                self._forget()
            elif self._late is None:
                self._late = self.loop.call_later(seconds, self.transport.close)

        def _forget(self) -> None:
            if self._late is not None:
                self._late.cancel()
                self._late = None

    return Impatient


def serve(app: Gate, listener: socket.socket) -> None:
    """Answer until a signal ends the process; requests that are being answered are finished."""
    import uvicorn

    config = uvicorn.Config(
        app,
        http=_protocol(app.limits.seconds),
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=STOPPING,
        lifespan="on",
        ws="none",
    )
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH)
    gc.freeze()  # the collector skips what is loaded by now
    try:
        uvicorn.Server(config).run(sockets=[listener])
    finally:
        sys.setswitchinterval(before)
