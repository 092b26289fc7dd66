"""Compiling before anybody waits: `python -m rae.kernels.ahead` makes the code that goes into the package.

For which types, types.txt says, a kernel and its arguments a line: what `rae compile --types` lists.
Only numba and numpy are needed, nothing is run, and no type is guessed.
"""

from __future__ import annotations

import shutil
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numba
import numpy as np

from rae.kernels.shipped import FOLDER, ship

LIST = Path(__file__).with_name("types.txt")


def parse(line: str) -> tuple[str, tuple[Any, ...]]:
    """A kernel's module and name, and the types of its arguments.

    >>> parse("cpu.adjacent(const int32[1], uint64)")
    ('cpu.adjacent', (Array(int32, 1, 'C', True, aligned=True), uint64))
    """
    name, _, arguments = line.strip().removesuffix(")").partition("(")
    return name, tuple(_kind(text) for text in arguments.split(", "))


def written(name: str, types: tuple[Any, ...]) -> str:
    """The line that `parse` reads.

    >>> written(*parse("cpu.adjacent(const int32[1], uint64)"))
    'cpu.adjacent(const int32[1], uint64)'
    """
    return f"{name}({', '.join(_text(kind) for kind in types)})"


def _kind(text: str) -> Any:
    plain, _, dimensions = text.removeprefix("const ").removesuffix("]").partition("[")
    scalar = numba.from_dtype(np.dtype(plain))
    if not dimensions:
        return scalar
    return numba.types.Array(scalar, int(dimensions), "C", readonly=text.startswith("const "))


def _text(kind: Any) -> str:
    if not isinstance(kind, numba.types.Array):
        return str(kind)
    return f"{'' if kind.mutable else 'const '}{kind.dtype}[{kind.ndim}]"


def asked() -> list[str]:
    """Lines for the kernels that callers found compiled in this process, sorted; not those inside others."""
    modules = [module for name, module in sys.modules.items() if name.startswith("rae.kernels.")]
    kernels = {value for module in modules for value in vars(module).values() if hasattr(value, "py_func")}
    return sorted(written(_name(kernel.py_func), types) for kernel in kernels for types in kernel.stats.cache_hits)


def _name(function: Any) -> str:
    return f"{function.__module__.removeprefix('rae.kernels.')}.{function.__name__}"


def main() -> None:
    """Compile every line of the list into an empty folder."""
    shutil.rmtree(FOLDER.parent, ignore_errors=True)
    for line in LIST.read_text(encoding="utf-8").splitlines():
        name, types = parse(line)
        module, _, function = name.partition(".")
        ship(getattr(import_module(f"rae.kernels.{module}"), function), types)


if __name__ == "__main__":
    main()
