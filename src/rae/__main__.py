"""`rae` and `python -m rae`."""

from __future__ import annotations

import io
import os
import sys
from typing import TextIO


def print_all_letters(stream: TextIO) -> None:
    """Print letters that the encoding of a stream lacks as escapes; a file or a pipe of Windows lacks most."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")


def main() -> None:
    """Run the command line and leave with its exit code."""
    # Threads that wait should sleep: on busy cores spinning ones make a step several times slower.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    print_all_letters(sys.stdout)
    try:
        from rae.cli import main as run

        code = run()
    except KeyboardInterrupt:  # before the command line was up, or after it was done
        code = 130
    # An interrupt that passed through an exec of text, as in many an import, leaves CPython convinced that
    # nobody caught it, and the process would end by the signal instead of the code. Another exec clears that.
    exec("")
    sys.exit(code)


if __name__ == "__main__":  # pragma: no cover
    main()
