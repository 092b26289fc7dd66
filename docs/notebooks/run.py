"""Run the notebooks in this folder from top to bottom and save them with their outputs: `make notebooks`.

What is saved depends on nothing but code and data: no times, no paths, no warnings about the terminal. Outputs are
committed, so that they can be read on the web and the site needs no kernel to be built.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from traitlets.config import Config

HERE = Path(__file__).parent
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def run(path: Path) -> Any:
    """The notebook with fresh outputs; a cell that fails raises."""
    os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"  # the debugger of the kernel would warn about itself
    notebook = nbformat.read(path, as_version=4)
    config = Config({"KernelManager": {"transport": "ipc"}})  # sockets in a private folder, no TCP port
    NotebookClient(notebook, config=config, kernel_name="python3", timeout=300, coalesce_streams=True).execute()
    for cell in notebook.cells:
        cell.metadata = {}
    notebook.metadata = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    return notebook


def texts(notebook: Any) -> list[str]:
    """What the cells print, in order; pictures are left out, their bytes depend on fonts."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return [output.get("text") or output.get("data", {}).get("text/plain", "") for output in outputs]


if __name__ == "__main__":
    for path in sorted(HERE.glob("*.ipynb")):
        nbformat.write(run(path), path)
