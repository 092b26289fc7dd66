"""The notebooks of docs/ run from top to bottom, and what they were saved with is what they print."""

from __future__ import annotations

import importlib.util
import platform
import sys
from pathlib import Path

import pytest

NOTEBOOKS = Path(__file__).parent.parent / "docs" / "notebooks"
COMPARED = (sys.version_info[:2], sys.platform, platform.machine()) == ((3, 11), "linux", "x86_64")  # see test_docs.py

nbformat = pytest.importorskip("nbformat", reason="the extra docs is not installed")


def _pictures(notebook) -> int:
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return sum("image/png" in output.get("data", {}) for output in outputs)


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda p: p.stem)
def test_a_notebook_is_saved_with_its_pictures_and_is_small(path):
    saved = nbformat.read(path, as_version=4)
    assert _pictures(saved) >= 2
    assert path.stat().st_size < 300_000
    assert all(cell.outputs or not cell.execution_count for cell in saved.cells if "print(" in cell.source)


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda p: p.stem)
def test_a_notebook_runs_from_top_to_bottom(path):
    pytest.importorskip("nbclient", reason="the extra docs is not installed")
    spec = importlib.util.spec_from_file_location("run_notebooks", NOTEBOOKS / "run.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    saved, fresh = nbformat.read(path, as_version=4), script.run(path)
    assert _pictures(fresh) == _pictures(saved)
    if COMPARED:
        assert script.texts(fresh) == script.texts(saved), "run: make notebooks"
