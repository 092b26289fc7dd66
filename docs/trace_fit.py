"""The modules and functions that `rae fit calls.csv` enters, in order: python docs/trace_fit.py [FLAGS of rae fit]

The file has 60 nodes and 200 edges. Counted are functions that are called, each once; class bodies, lambdas,
comprehensions and the loading of modules are not.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
import tempfile
import threading
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

import rae
from rae.cli.program import main

SOURCES = f"{Path(rae.__file__).parent}/"


def write_calls(path: Path) -> None:
    """An edge list of 60 nodes with a header."""
    edges = np.random.default_rng(0).integers(0, 60, (200, 2))
    path.write_text("caller,called\n" + "".join(f"u{a},u{b}\n" for a, b in edges))


def trace(arguments: list[str]) -> dict[str, list[str]]:
    """The functions that a command calls, by module; modules and functions in the order of their first call."""
    functions: dict[CodeType, None] = {}

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code not in functions and code.co_filename.startswith(SOURCES) and is_function(code):
            functions[code] = None

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        assert main(arguments) == 0
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    modules: dict[str, list[str]] = {}
    for code in functions:
        modules.setdefault(code.co_filename.removeprefix(SOURCES), []).append(code.co_qualname)
    return modules


def is_function(code: CodeType) -> bool:
    """Whether this is the code of a `def`: no class body, no lambda, no comprehension, no module."""
    return bool(code.co_flags & inspect.CO_NEWLOCALS) and not code.co_name.startswith("<")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        write_calls(Path("calls.csv"))
        modules = trace(["fit", "calls.csv", "--out", "run", "--quiet", *sys.argv[1:]])
    lines = [f"{name:28} {len(called):3}  {called[0]}" for name, called in modules.items()]
    lines.append(f"{len(modules)} modules, {sum(map(len, modules.values()))} functions")
    sys.stdout.write("\n".join(lines) + "\n")
