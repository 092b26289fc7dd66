"""A fitted model as ONNX: features and means over neighbours in, vectors out.

Means over neighbours are the caller's: each system has its own way to compute them. So a model is several files:

    model.onnx          what a node reads -> its vector
    model.rows-1.onnx   what a node has itself -> the rows that the first level averages over neighbours
    model.rows-2.onnx   means of the first level -> the rows that the second level averages: trained models

Every input says in its `doc_string` what it is; `docs/how-to/export.md` has them all.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rae.errors import Argument, FileError
from rae.export.contract import Options, Written, about, check_new_file
from rae.export.onnx_exact import exact_graphs
from rae.export.onnx_trained import trained_graphs
from rae.graph.channels import kinds_of
from rae.model.checkpoint import Fitted
from rae.model.exact import ExactModel
from rae.run import Run
from rae.storage.atomic import atomic_path


def write(run: Run, target: str, options: Options) -> Written:
    """Write the model of a run as ONNX files; the one that gives vectors is there last, when all are complete."""
    path = Path(target)
    if path.suffix.lower() != ".onnx":
        raise FileError(Argument("target"), f" must be a file that ends in .onnx, got {target}")
    model = run.model().fitted
    graphs = exact_graphs(model) if isinstance(model, ExactModel) else trained_graphs(model)
    paths = {path.with_suffix(f".{name}.onnx") if name else path: graph for name, graph in graphs.items()}
    for file in paths:
        check_new_file(file, options.force)
    described = about(run) | {"blocks": [block.as_dict() for block in model.blocks]} | _weight_units(model)
    with ExitStack() as files:  # the file that was opened first is moved into place last
        for file in sorted(paths, key=lambda file: file != path):
            files.enter_context(atomic_path(file)).write_bytes(paths[file].file(described))
    return Written("onnx", str(path), files=tuple(paths))


def _weight_units(model: Fitted) -> dict[str, Any]:
    """What strengths are divided by, for each kind of edge; nothing for a model that reads no weights."""
    structure = model.structure if isinstance(model, ExactModel) else None
    if structure is None or structure.scales is None or not isinstance(model, ExactModel):
        return {}
    kinds = kinds_of(model.channels) or ("",)
    return {"weight_units": dict(zip(kinds, structure.scales.tolist(), strict=True))}
