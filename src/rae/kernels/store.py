"""A folder of compiled kernels in front of Numba's cache: found by the sources' content, never written by a run.

Numba's own cache needs a folder it may write to, and before version 0.68 goes by the age of the sources, which an
installation changes. The files, and the key of types, processor and bytecode, are Numba's.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

from numba.core import caching as numbas

from rae.kernels import shipped

caching: Any = numbas  # without types


@cache
def stamp(source: Path) -> str:
    """A hash of a file of kernels and of all files beside this one: a kernel may have any of them inside."""
    files = [source, *sorted(Path(__file__).parent.glob("*.py"))]
    return hashlib.sha256(b"".join(hashlib.sha256(file.read_bytes()).digest() for file in files)).hexdigest()


class Place(caching._CacheLocator):  # type: ignore[misc]
    """The folder, whether or not anybody may write there, and what the sources are."""

    def __init__(self, function: Any, source: str) -> None:
        self.line, self.source = function.__code__.co_firstlineno, Path(source)

    def get_cache_path(self) -> str:
        return str(shipped.FOLDER)

    def get_source_stamp(self) -> str:
        return stamp(self.source)

    def get_disambiguator(self) -> str:
        return str(self.line)

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Place:
        return cls(py_func, py_file)


class Code(caching.CompileResultCacheImpl):  # type: ignore[misc]
    """How compiled code is written and read: as Numba does it, in our folder."""

    _locator_classes = (Place,)


class Store(caching.FunctionCache):  # type: ignore[misc]
    """What is in the folder, and behind it the cache that the kernel has anyway, which takes all that is new."""

    _impl_class = Code

    def __init__(self, function: Any, behind: Any) -> None:
        super().__init__(function)
        self.behind = behind

    @property
    def cache_path(self) -> Any:
        return self.behind.cache_path

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The code for these types, None if it is neither here nor behind."""
        try:
            found = super().load_overload(sig, target_context)
        except Exception:  # damaged in any way: as good as not there
            found = None
        return self.behind.load_overload(sig, target_context) if found is None else found

    def save_overload(self, sig: Any, data: Any) -> None:
        self.behind.save_overload(sig, data)

    def keep(self, sig: Any, data: Any) -> None:
        """Write code into the folder itself."""
        super().save_overload(sig, data)

    def flush(self) -> None:
        self.behind.flush()
