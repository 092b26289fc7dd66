"""`rae serve` and `rae mcp`: a run that answers, to programs and to assistants."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rae.cli.console import Console, global_options
from rae.cli.options import weights_option
from rae.errors import FileError
from rae.progress import seconds
from rae.service.limits import Limits

if TYPE_CHECKING:
    from rae.run import Run
    from rae.service.answers import Answers

TOKEN = "RAE_TOKEN"  # the name of the variable
_weights = weights_option(" in look-alikes")


@click.command(short_help="answer about a run over HTTP, and update it")
@click.argument("run", metavar="RUN")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="NAME", help="address to listen on")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8471, show_default=True, metavar="N", help="port, 0 for a free one"
)
@click.option("--token-file", metavar="FILE", help=f"file with the token that requests must bring  [default: ${TOKEN}]")
@click.option(
    "--write/--read-only", "writable", default=True, show_default=True,
    help="take updates, or answer questions only, while other programs may update the run",
)  # fmt: skip
@_weights
@click.option(
    "--max-body", type=click.IntRange(min=1), default=Limits.body, show_default=True, metavar="BYTES",
    help="size of a request, at most",
)  # fmt: skip
@click.option(
    "--timeout", type=click.FloatRange(min=0.1), default=Limits.seconds, show_default=True, metavar="SECONDS",
    help="time in which a request must have arrived",
)  # fmt: skip
@click.option(
    "--concurrency", type=click.IntRange(min=1), default=Limits.requests, show_default=True, metavar="N",
    help="requests answered at once; more are told to come back",
)  # fmt: skip
@global_options
@click.pass_obj
def serve(
    console: Console,
    run: str,
    host: str,
    port: int,
    token_file: str | None,
    writable: bool,
    weights: str | None,
    max_body: int,
    timeout: float,
    concurrency: int,
) -> None:
    """Answer questions about RUN over HTTP, and take its updates, until Ctrl-C.

    GET /similar/ID, /role/ID, /card/ROLE, /roles, /why/ID and /search?q=TEXT; POST /embed gives the vector and role of
    a new node by its neighbours, POST /edges adds and removes edges. An update is on the disk when it is answered, and
    one service at a time has a run. GET / describes all of it, /openapi.json for programs; /healthz and /metrics are
    for those who watch it.

    It listens to this machine alone. Any other --host needs a token, in a file or in RAE_TOKEN, which requests bring
    as `Authorization: Bearer TOKEN`; there is no encryption, so put a proxy with a certificate before it.

    \b
    rae serve runs/web
    rae serve runs/web --port 0 --read-only
    rae serve runs/users --host 0.0.0.0 --token-file token.txt
    curl localhost:8471/similar/home
    curl localhost:8471/edges --json '{"added": [["home", "new"]]}'
    """
    from rae.run import Run
    from rae.service.http import bound_socket, check_installed, is_loopback, make_app
    from rae.service.http import serve as answer

    check_installed()
    token = _token(token_file)
    if not is_loopback(host) and token is None:
        raise click.UsageError(
            f"--host {host} lets other machines in, which need a token: give --token-file FILE, or set {TOKEN}"
        )
    opened = Run.open(run)
    limits = Limits(body=max_body, seconds=timeout, requests=concurrency)
    with bound_socket(host, port) as listener, _opened(console, opened, weights, writable) as answers:
        app = make_app(answers, token=token, only_here=is_loopback(host), limits=limits)
        shown = f"[{host}]" if ":" in host else host
        click.echo(f"http://{shown}:{listener.getsockname()[1]}/  (Ctrl-C stops it)", err=console.json)
        answer(app, listener)
    console.note("stopped")


@click.command(short_help="answer about a run to an assistant (MCP)")
@click.argument("run", metavar="RUN")
@click.option("--write", "writable", is_flag=True, help="also let the assistant add and remove edges")
@_weights
@global_options
@click.pass_obj
def mcp(console: Console, run: str, writable: bool, weights: str | None) -> None:
    """Answer an assistant's questions about RUN: a server of the Model Context Protocol on standard input and output.

    Its tools are similar, role, card, roles, why, search and embed; with --write also edges, which changes the run. An
    assistant starts the command itself; in its settings stands, for example:

    \b
    {"mcpServers": {"calls": {"command": "rae", "args": ["mcp", "runs/calls"]}}}

    \b
    rae mcp runs/calls
    rae mcp runs/calls --write
    """
    from rae.run import Run
    from rae.service.mcp import check_installed, make_server

    check_installed()
    opened = Run.open(run)
    with _opened(console, opened, weights, writable) as answers:
        make_server(answers).run("stdio")


@contextlib.contextmanager
def _opened(console: Console, run: Run, weights: str | None, writable: bool) -> Iterator[Answers]:
    """The answers of a run, loaded, with a thread fewer than there are cores for the work of an update."""
    from rae.runtime import set_threads, threads
    from rae.service.answers import Answers

    console.use_threads()
    if console.threads is None:
        set_threads(max(1, threads() - 1))
    began = time.perf_counter()
    console.note(f"reading {run.path}: {run.counts['nodes']:,} nodes")
    with Answers.open(run, weights=weights, writable=writable, own_process=True) as answers:
        answers.warm_up()
        index = answers.now.neighbors.index
        how = "exactly" if index.method == "exact" else f"by an index that finds {100 * index.recall:.1f} %"
        console.note(f"ready in {seconds(time.perf_counter() - began)}; look-alikes are searched {how}")
        yield answers


def _token(path: str | None) -> str | None:
    """The token of a file, or else of the environment."""
    if path is None:
        return os.environ.get(TOKEN, "").strip() or None
    text = Path(path).read_text(encoding="utf-8").strip()
    if not text or len(text.split()) > 1:
        raise FileError(f"{path} must hold one token, a word without spaces")
    return text
