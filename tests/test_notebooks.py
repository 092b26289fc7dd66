"""The notebooks of docs/ run from top to bottom, and what they were saved with is what they print."""

from __future__ import annotations

import importlib.util
import json
import platform
import sys
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).parent.parent / "docs" / "notebooks").glob("*.ipynb"))
COMPARED = (sys.version_info[:2], sys.platform, platform.machine()) == ((3, 11), "linux", "x86_64")  # see test_docs.py


def _outputs(notebook: Any) -> list[Any]:
    return [output for cell in notebook["cells"] for output in cell.get("outputs", ())]


def _pictures(notebook: Any) -> int:
    return sum("image/png" in output.get("data", {}) for output in _outputs(notebook))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_is_saved_with_its_pictures_and_is_small(path):
    saved = json.loads(path.read_text(encoding="utf-8"))
    assert _pictures(saved) >= 2
    assert {output["output_type"] for output in _outputs(saved)} <= {"stream", "display_data", "execute_result"}
    assert [output for output in _outputs(saved) if output.get("name") == "stderr"] == []
    assert path.stat().st_size < 300_000


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_runs_from_top_to_bottom(path):
    nbformat = pytest.importorskip("nbformat", reason="the extra docs is not installed")
    pytest.importorskip("nbclient", reason="the extra docs is not installed")
    spec = importlib.util.spec_from_file_location("run_notebooks", path.with_name("run.py"))
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    saved, fresh = nbformat.read(path, as_version=4), script.run(path)
    assert _pictures(fresh) == _pictures(saved)
    if COMPARED:
        assert script.texts(fresh) == script.texts(saved), "run: make notebooks"
