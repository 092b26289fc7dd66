"""`rae` and `python -m rae`."""

from __future__ import annotations

import atexit
import contextlib
import io
import os
import sys
from typing import TextIO

from rae.interrupts import Interrupted, interruptible


def print_all_letters(stream: TextIO) -> None:
    """Print letters that the encoding of a stream lacks as escapes; a file or a pipe of Windows lacks most."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")


def main() -> None:
    """Run the command line and leave with its exit code."""
    # Threads that wait should sleep: on busy cores spinning ones make a step several times slower.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    with interruptible() as interrupts:
        try:
            print_all_letters(sys.stdout)
            from rae.cli import main as run

            code = run()
            interrupts.settle()
        except KeyboardInterrupt as error:  # before the command line was up, or after it was done
            interrupts.settle()
            ended = error if isinstance(error, Interrupted) else Interrupted()
            code = ended.code
            with contextlib.suppress(OSError):
                sys.stderr.write(f"{ended}\n")
        _leave(code)


def _leave(code: int) -> None:
    """End the process now: an interrupted one has threads that would crash while Python takes itself apart."""
    with contextlib.suppress(BaseException):
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":  # pragma: no cover
    main()
