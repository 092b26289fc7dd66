"""`rae compile`: afterwards no job compiles anything; what jobs use is what an installation compiles."""

import json
import os
import subprocess
import sys

import pytest

from rae.kernels.ahead import LIST

COUNTED = """
import sys
from numba.core import event
from rae.cli import main

with event.install_recorder("numba:compile") as recorder:
    code = main(sys.argv[1:])
print(len(recorder.buffer))
sys.exit(code)
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """The environment of a program whose loops `rae compile` has compiled."""
    cache = tmp_path_factory.mktemp("cache")
    environment = os.environ | {"OMP_NUM_THREADS": "1", "NUMBA_CACHE_DIR": str(cache)}
    subprocess.run([sys.executable, "-m", "rae", "compile", "--quiet"], check=True, env=environment)
    return environment


def test_after_rae_compile_a_fit_compiles_nothing(compiled, tmp_path):
    edges = tmp_path / "edges.csv"
    edges.write_text("a,b\n" + "".join(f"n{i},n{i * i % 23}\n" for i in range(90)))
    fit = [sys.executable, "-c", COUNTED, "fit", str(edges), "--steps", "2", "--quiet", "--threads", "1", "--out"]

    done = subprocess.run([*fit, str(tmp_path / "run")], check=True, env=compiled, capture_output=True, text=True)

    assert done.stdout.splitlines()[-1] == "0"


def test_an_installation_compiles_what_jobs_use(compiled):
    call = [sys.executable, "-m", "rae", "compile", "--types", "--quiet"]
    used = subprocess.run(call, check=True, env=compiled, capture_output=True, text=True).stdout

    assert LIST.read_text(encoding="utf-8") == used, "rae compile; rae compile --types > src/rae/kernels/types.txt"


def test_rae_compile_says_how_long_it_took(rae):
    code, out, _ = rae("compile", "--json")

    assert code == 0
    assert json.loads(out)["seconds"] > 0
