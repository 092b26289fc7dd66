"""`rae compile`: afterwards no job compiles anything."""

import json
import os
import subprocess
import sys

COUNTED = """
import sys
from numba.core import event
from rae.cli import main

with event.install_recorder("numba:compile") as recorder:
    code = main(sys.argv[1:])
print(len(recorder.buffer))
sys.exit(code)
"""


def test_after_rae_compile_a_fit_compiles_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    edges = tmp_path / "edges.csv"
    edges.write_text("a,b\n" + "".join(f"n{i},n{i * i % 23}\n" for i in range(90)))
    fit = [sys.executable, "-c", COUNTED, "fit", str(edges), "--steps", "2", "--quiet", "--threads", "1", "--out"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}

    subprocess.run([sys.executable, "-m", "rae", "compile", "--quiet"], check=True, env=environment)
    done = subprocess.run([*fit, str(tmp_path / "run")], check=True, env=environment, capture_output=True, text=True)

    assert done.stdout.splitlines()[-1] == "0"
    assert any((tmp_path / "cache").rglob("*.nbi"))


def test_rae_compile_says_how_long_it_took(rae):
    code, out, _ = rae("compile", "--json")

    assert code == 0
    assert json.loads(out)["seconds"] > 0
