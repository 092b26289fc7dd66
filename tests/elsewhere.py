"""Processes of their own that begin with everything imported: for programs that are killed, and work done elsewhere.

A process that starts from nothing spends seconds on importing torch. These are forked from one that has imported it
and has done nothing else, so they share no state with the test. What a shell would start is in test_cli_process.py.
"""

from __future__ import annotations

import multiprocessing
import os
import sys

FORKED = "forkserver" in multiprocessing.get_all_start_methods()  # not on Windows
CONTEXT = multiprocessing.get_context("forkserver" if FORKED else "spawn")
if FORKED:
    CONTEXT.set_forkserver_preload(["rae.cli.program", "rae.pipeline", "rae.explore", "rae.roles.model", "pytest"])


def exit_code(program: str, *arguments: str) -> int | None:
    """How a program ends that is called with these arguments, in the present folder and environment."""
    process = CONTEXT.Process(target=_run, args=(program, arguments, dict(os.environ)))
    process.start()
    process.join()
    return process.exitcode


def _run(program: str, arguments: tuple[str, ...], environment: dict[str, str]) -> None:
    os.environ.update(environment)
    sys.argv = ["-c", *arguments]
    exec(compile(program, "program", "exec"), {"__name__": "__main__"})
