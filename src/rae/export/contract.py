"""Options and result of an export, and the checks that several targets share."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rae.errors import Argument, FileError
from rae.progress import Progress
from rae.version import __version__

if TYPE_CHECKING:
    from rae.blocks import Weights
    from rae.run import Run

TARGET, FORCE, TABLE = Argument("target"), Argument("force", True), Argument("table")
MARK = "rae"  # the key of a table's metadata
PART_OF_A_GRAPH = "in a part of a larger graph vectors are wrong, and nothing warns: give all edges of the graph"


@dataclass(frozen=True)
class Options:
    """How to write: whether to replace, the table or collection, the units of SQL, and the progress callback."""

    force: bool = False
    table: str = "rae_vectors"
    weights: Weights | None = None  # of blocks; "": their own; None: vectors as they are
    units: str | None = None
    progress: Progress | None = None

    def report(self, done: int, total: int) -> None:
        """Report the number of rows written."""
        if self.progress is not None:
            self.progress("export", done, total, {})


@dataclass(frozen=True)
class Written:
    """What an export wrote: the kind of target, where (without a password), rows of vectors, files, and notes."""

    kind: str
    where: str
    rows: int = 0
    files: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()


def check_new_file(path: Path, force: bool) -> None:
    """Refuse a file that is there, unless it may be replaced."""
    if path.exists() and not force:
        raise FileError(f"{path} is there already; choose another name, or pass ", FORCE, " to replace it")


def check_table(name: str) -> str:
    """The name of a table or collection; one that would have to be quoted is refused."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,59}", name):
        raise FileError(TABLE, f" must be letters, digits and _, not beginning with a digit, got {name!r}")
    return name


def about(run: Run) -> dict[str, Any]:
    """The metadata of a table of vectors: version, model, updates, and the blocks of a vector."""
    return {
        MARK: __version__,
        "model": run.model_checksum,
        "update": run.n_updates,
        "blocks": [block.as_dict() for block in run.blocks],
    }


def is_ours(comment: str | None) -> bool:
    """Whether a comment is metadata of `about`: a table without it was not written by an export."""
    try:
        return MARK in json.loads(comment or "")
    except (ValueError, TypeError):
        return False


def refuse_table(kind: str, name: str, where: str, *, force: bool, ours: bool) -> None:
    """Refuse a table that is there: unless it may be replaced, and always where something else made it."""
    if not ours:
        raise FileError(f"the {kind} {name} in {where} was not written by rae; choose another ", TABLE)
    if not force:
        raise FileError(
            *(f"the {kind} {name} in {where} is there already; choose another ", TABLE, ", or pass ", FORCE),
            " to replace it",
        )
