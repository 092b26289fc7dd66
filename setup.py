"""The hot loops are C, compiled here into one library without Python's headers; pyproject.toml says all the rest.

Where there is no compiler the installation goes on without it (`optional`), and every operation runs in plain torch.
"""

import sys

from setuptools import Extension, setup

FLAGS = (
    ["/O2"] if sys.platform == "win32" else ["-O3", "-std=gnu11", "-fno-math-errno", "-fno-trapping-math", "-Wno-psabi"]
)
NAMES = ("module", "gather", "dense", "sampling", "structure", "build", "charfun", "layout")

setup(
    ext_modules=[
        Extension(
            "rae.ops._native",
            [f"src/rae/ops/native/{name}.c" for name in NAMES],
            depends=["src/rae/ops/native/common.h"],
            extra_compile_args=FLAGS,
            optional=True,
        )
    ]
)
