"""The hot loops are C, compiled here into one library without Python's headers; pyproject.toml says all the rest.

The library has no part of Python in it, so one build serves every Python 3 of a platform, and the wheel says so:
py3-none-PLATFORM. Where there is no compiler, or where RAE_OPS=reference asks for it, the library is left out, every
operation runs in plain torch, and the wheel is py3-none-any.
"""

import os
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

WINDOWS = sys.platform == "win32"
NATIVE = Path("src/rae/ops/native")
# /std:c11 for `restrict`. Without math-errno and trapping-math the loops over columns become vector code.
FLAGS = ["/O2", "/std:c11"]
if not WINDOWS:
    FLAGS = ["-O3", "-g0", "-std=gnu11", "-fvisibility=hidden", "-fno-math-errno", "-fno-trapping-math", "-Wno-psabi"]

LIBRARY = Extension(
    "rae.ops._native",
    sorted(path.as_posix() for path in NATIVE.glob("*.c")),
    depends=sorted(path.as_posix() for path in NATIVE.glob("*.h")),
    extra_compile_args=FLAGS,
    libraries=[] if WINDOWS else ["m"],
    optional=True,
)


class BuildLibrary(build_ext):
    """Builds a library with one name for all Pythons, as `ops/library.py` looks for it."""

    def get_ext_filename(self, fullname: str) -> str:
        return f"{fullname.replace('.', os.sep)}.{'dll' if WINDOWS else 'so'}"

    def get_export_symbols(self, ext: Extension) -> list[str]:
        return []  # the sources say EXPORT; there is no function by which Python would import it

    def get_libraries(self, ext: Extension) -> list[str]:
        return list(ext.libraries)  # and never Python's own


class Wheel(bdist_wheel):
    """Tags the wheel by what is in it."""

    def get_tag(self) -> tuple[str, str, str]:
        self.root_is_pure = not list(Path(self.bdist_dir).glob("rae/ops/_native.*"))
        platform = "any" if self.root_is_pure else super().get_tag()[2]
        return "py3", "none", platform


setup(
    ext_modules=[] if os.environ.get("RAE_OPS") == "reference" else [LIBRARY],
    cmdclass={"build_ext": BuildLibrary, "bdist_wheel": Wheel},
)
