"""Exports: a fitted model as ONNX or SQL, its vectors in Lance, DuckDB, PostgreSQL or Qdrant.

Each target is a module with one function, `write(run, target, options)`. The libraries of a target are
imported when it is chosen.
"""

from __future__ import annotations

import difflib
import importlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rae.errors import Argument, ConfigError
from rae.export.contract import Options, Written
from rae.progress import Asked, shown

if TYPE_CHECKING:
    from rae.blocks import Weights
    from rae.run import Run

__all__ = ["TARGETS", "Options", "Target", "Written", "export"]


class Target(NamedTuple):
    """Where an export goes: what TARGET means there, and what is written."""

    target: str
    about: str
    is_model: bool = False  # the model itself; else its vectors


TARGETS = {
    "onnx": Target("FILE.onnx", "the model: features and means over neighbours in, vectors out", is_model=True),
    "sql": Target("FILE", "the model: DuckDB computes vectors from a table of edges", is_model=True),
    "lance": Target("FOLDER", "the vectors as a Lance dataset"),
    "duckdb": Target("FILE", "the vectors as a table of a DuckDB file"),
    "pgvector": Target("DSN or env:NAME", "the vectors as a table of PostgreSQL with pgvector"),
    "qdrant": Target("FOLDER or URL", "the vectors as a collection of Qdrant"),
}


def export(
    run: Run | str | Path,
    to: str,
    target: str | Path,
    *,
    force: bool = False,
    table: str | None = None,
    weights: Weights | None = None,
    units: str | None = None,
    progress: Asked = None,
) -> Written:
    """Write the model of a run, or its vectors with ids, names, roles and confidences, in a format of other systems.

    `to` is one of `TARGETS`, `target` what that takes. `table` names the table or collection. `weights` writes vectors
    times these weights of blocks (where it is "", the blocks' own), so that a plain Euclidean search finds the
    look-alikes of `rae.similar`. `units` are those of SQL: "graph", of the graph it runs on, or "fit". Nothing that is
    there is replaced without `force`, and nothing that an export did not write is replaced at all.
    """
    from rae.run import Run

    if to not in TARGETS:
        near = difflib.get_close_matches(str(to), TARGETS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"the targets are {', '.join(TARGETS)}"
        raise ConfigError(f"there is no target {to!r}; {hint}", argument="to")
    _refuse_unused(to, {"table": table, "weights": weights, "units": units})
    opened = run if isinstance(run, Run) else Run.open(run)
    with shown(progress) as report:
        options = Options(force=force, weights=weights, units=units, progress=report)
        module = importlib.import_module(f"rae.export.{to}")
        written: Written = module.write(
            opened, str(target), options if table is None else replace(options, table=table)
        )
    return written


def _refuse_unused(to: str, options: dict[str, object]) -> None:
    """Refuse options that a target does not have."""
    used = {"sql": ("units",), "onnx": (), "lance": ("weights",)}.get(to, ("table", "weights"))
    for name, value in options.items():
        if value is not None and name not in used:
            raise ConfigError(Argument(name), f" says nothing to the target {to!r}; leave it out")
