"""The hot loops are compiled while the package is built, so that nobody waits for them at the first fit.

pyproject.toml says all the rest. Without numba, with RAE_COMPILE=0 in the environment, or where compiling fails,
the package is for any machine and compiles on first use.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

WANTED = os.environ.get("RAE_COMPILE") != "0"
ABLE = WANTED and find_spec("numba") is not None


class Package(Distribution):
    """Compiled code is for one kind of machine, and the name of the wheel says so."""

    def has_ext_modules(self):
        return ABLE


class Build(build_py):
    """The sources, and beside the kernels what they compile to; in an editable install beside the sources."""

    def run(self):
        super().run()
        if ABLE:
            compile_in(Path("src" if self.editable_mode else self.build_lib).resolve())


def compile_in(root):
    """Compile the kernels of the package under `root`, in a process of its own; say so if that fails."""
    with tempfile.TemporaryDirectory() as scratch:
        paths = [str(root), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths),
            "PYTHONDONTWRITEBYTECODE": "1",
            "NUMBA_CACHE_DIR": scratch,
        }
        if subprocess.run([sys.executable, "-m", "rae.kernels.ahead"], env=environment, cwd=scratch).returncode:
            shutil.rmtree(root / "rae" / "kernels" / "compiled", ignore_errors=True)
            print("the hot loops could not be compiled now; they will be on first use", file=sys.stderr)


setup(distclass=Package, cmdclass={"build_py": Build}, setup_requires=["numba>=0.60"] if WANTED else [])
