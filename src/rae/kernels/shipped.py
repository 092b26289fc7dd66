"""Compiled code that comes with the package: made while it is installed, so that the first fit need not wait.

It is made by, and for, one version of Numba. Any other version finds none and compiles on first use, as it does
where the processor, Python or the types differ.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numba

FOLDER = Path(__file__).parent / "compiled" / numba.__version__


def first(compiled: Any) -> Any:
    """The same kernel; if code came with the package, it is looked for there before Numba's own cache."""
    if FOLDER.is_dir():
        from rae.kernels.store import Store  # here: it leans on the insides of the Numba that made the folder

        compiled._cache = Store(compiled.py_func, behind=compiled._cache)
    return compiled


def ship(compiled: Any, types: tuple[Any, ...]) -> None:
    """Compile a kernel for these types and put the code where it goes into the package."""
    from rae.kernels.store import Store

    anew = numba.jit(**compiled.targetoptions)(compiled.py_func)  # code out of a cache cannot be written again
    anew.compile(types)
    FOLDER.mkdir(parents=True, exist_ok=True)
    Store(anew.py_func, behind=anew._cache).keep(types, anew.overloads[types])
