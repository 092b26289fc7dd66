"""The group `rae` and its exit codes; errors are printed here, with flags for arguments."""

from __future__ import annotations

import contextlib
import difflib
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import click

from rae.cli.console import Console, global_options, say
from rae.cli.demo import demo
from rae.cli.drift import drift
from rae.cli.embed import embed
from rae.cli.explore import explore
from rae.cli.export import export
from rae.cli.fit import fit
from rae.cli.flags import in_flags
from rae.cli.graph import graph
from rae.cli.info import info
from rae.cli.plan import plan
from rae.cli.reproduce import reproduce
from rae.cli.roles import roles
from rae.cli.serve import mcp, serve
from rae.cli.similar import similar
from rae.cli.update import update
from rae.cli.why import why
from rae.display import printable
from rae.errors import RaeError, RaeWarning, Sentence
from rae.interrupts import Interrupted, Interrupts, interruptible
from rae.version import __version__

SUCCESS, BUG, USER_ERROR, PIPE_CLOSED = 0, 1, 2, 141  # and 128 + its number for a signal
NOTES = "rae.inputs"  # the logger of notes on the files that are read


class _Group(click.Group):
    """A group that suggests the command a mistyped name was meant to be."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            near = difflib.get_close_matches(name, self.commands, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"the commands are {', '.join(self.list_commands(ctx))}"
            raise click.UsageError(f"no command {name!r}; {hint}", ctx)
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # as listed below, not by the alphabet


def _show_version(ctx: click.Context, _: click.Parameter, requested: bool) -> None:
    if requested and not ctx.resilient_parsing:
        click.echo(f"rae {__version__}")
        ctx.exit()


@click.group(
    cls=_Group,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    commands=[
        demo,
        fit,
        roles,
        similar,
        why,
        drift,
        explore,
        embed,
        update,
        export,
        serve,
        mcp,
        graph,
        info,
        plan,
        reproduce,
    ],
)
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_show_version, help="the version")
@global_options
def app() -> None:
    """Role action embeddings: which nodes of a graph play the same role?

    A file of edges goes in; a vector for every node comes out, close where nodes have similar roles.

    \b
    rae demo                                 see it work on Python's own library
    rae fit edges.csv --out runs/mine        learn a model, embed every node
    rae roles runs/mine                      how many roles, who plays which, what each is
    rae similar runs/mine NODE               who else is like this node
    rae why runs/mine NODE                   why it plays its role, and what would change that
    rae drift runs/mine OTHER                who moved more than noise explains
    rae explore runs/mine                    a page to see it with: map, roles, neighbourhoods
    rae embed runs/mine new.csv --out z.parquet
    rae update runs/mine --add today.csv     tomorrow's edges, in the same run
    rae serve runs/mine                      answers over HTTP, while the run changes
    rae mcp runs/mine                        the same for an assistant
    rae export runs/mine --sql model.sql     the model, or its vectors, where others read them
    rae graph build edges.csv --out mine     a folder that opens at once, for large graphs
    rae info runs/mine                       what was done, and how it went
    rae plan edges.csv                       memory and time, before any of it
    rae reproduce all                        the paper's tables and figures, again
    """


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code of one call.

    0 done, 2 an error of the user's, 1 a bug, 130 interrupted, 143 terminated, 129 hung up.
    """
    if "_RAE_COMPLETE" in os.environ:  # shell completion: _RAE_COMPLETE=bash_source rae
        app.main(prog_name="rae")
    with interruptible() as interrupts:
        try:
            code = _exit_code(argv, interrupts)
            if interrupts.received is not None:  # an except block on the way has swallowed it
                raise interrupts.received
            interrupts.settle()
        except (KeyboardInterrupt, click.Abort) as error:
            interrupts.settle()
            ended = error if isinstance(error, Interrupted) else interrupts.received or Interrupted()
            code = _say(str(ended), ended.code)
    return code


def _exit_code(argv: Sequence[str] | None, interrupts: Interrupts) -> int:
    """The exit code of a call that ends by itself, an error printed."""
    console = Console()
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        with _log_to_stderr(console), app.make_context("rae", arguments or ["--help"], obj=console) as ctx:
            app.invoke(ctx)
        sys.stdout.flush()
    except click.exceptions.Exit as exit_request:
        return exit_request.exit_code
    except Exception as error:
        if interrupts.received is not None:  # a library has turned it into an error of its own
            raise interrupts.received from error
        return _failure(error, console)
    return SUCCESS


def _failure(error: Exception, console: Console) -> int:
    """The exit code of an error, which is printed."""
    if isinstance(error, BrokenPipeError):  # the reader is gone, as in `rae info run | head -1`
        _silence(sys.stdout)
        return PIPE_CLOSED
    if isinstance(error, click.ClickException):
        return _say(f"error: {_sentence(error)}", USER_ERROR)
    if isinstance(error, RaeError):
        return _say(f"error: {printable(_in_flags(error, console))}", USER_ERROR)
    if isinstance(error, MemoryError):
        return _say("error: out of memory; `rae plan` says how much a fit needs, --batch-size lowers it", USER_ERROR)
    if isinstance(error, OSError):
        return _say(f"error: {printable(_os_sentence(error))}", USER_ERROR)
    text = "".join(traceback.format_exception(error))
    return _say(f"{text}\nThis is a bug in rae, not your mistake: please report it with the lines above.", BUG)


def _say(text: str, code: int) -> int:
    try:
        say(text, err=True)
    except OSError:  # a closed pipe, a terminal that hung up
        _silence(sys.stderr)
    return code


def _in_flags(message: object, console: Console) -> str:
    """The message with the options of the command that runs, else of `rae fit`, which others send the user to."""
    return in_flags(message, console.command, fit)


def _silence(stream: Any) -> None:
    """Redirect a closed pipe to the null device, so that Python's flush at exit does not fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _sentence(error: click.ClickException) -> str:
    text = error.format_message()
    where = getattr(error, "ctx", None)
    return f"{text[:1].lower()}{text[1:]}" + (f" (see {where.command_path} --help)" if where else "")


def _os_sentence(error: OSError) -> str:
    reason = (error.strerror or str(error) or type(error).__name__).lower()
    return f"{error.filename}: {reason}" if error.filename else reason


@contextlib.contextmanager
def _log_to_stderr(console: Console) -> Iterator[None]:
    """Print warnings and log records of the library as plain lines on standard error, in the block.

    Notes on the inputs are printed unless --quiet is given, other records below a warning with --verbose.
    """

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        console.warn(" ".join(_in_flags(message, console).split()))

    def is_shown(record: logging.LogRecord) -> bool:
        is_note = record.name == NOTES and not console.quiet
        return console.verbose or is_note or record.levelno >= logging.WARNING

    def line(record: logging.LogRecord) -> str:
        message = record.msg if isinstance(record.msg, Sentence) else record.getMessage()
        return printable(_in_flags(message, console), lines=True)

    handler = logging.StreamHandler()
    handler.format = line  # type: ignore[method-assign]
    handler.addFilter(is_shown)
    log = logging.getLogger("rae")
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", RaeWarning)
            warnings.showwarning = show
            yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before)
