"""Ledger: every run of every cell as one JSON line, appended, never rewritten.

A line is known by (table, row, data set, seed, settings), so a changed setting is a new line and a
line that exists is not made again. Each table has its own file.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rae.errors import FileError

Line = dict[str, Any]
PACKAGES = ("rae", "torch", "numpy", "scipy", "scikit-learn", "numba", "gensim")
NEEDED = ("table", "row", "dataset", "seed", "score", "settings")


def identity(line: Mapping[str, Any]) -> tuple[Any, ...]:
    """What makes a line itself: two lines with one identity are one run."""
    settings = json.dumps(line["settings"], sort_keys=True)
    return line["table"], line["row"], line["dataset"], line["seed"], settings


@dataclass(frozen=True)
class Ledger:
    """The lines kept in one folder, a file per table."""

    folder: Path

    def path(self, table: str) -> Path:
        """The file of this table."""
        return self.folder / f"{table}.jsonl"

    def read(self, table: str) -> list[Line]:
        """All lines of a table, in the order they were made, each identity once.

        A last line that an interrupted write left half done is no evidence and is passed over.
        """
        path = self.path(table)
        if not path.exists():
            return []
        kept: dict[tuple[Any, ...], Line] = {}
        texts = path.read_text(encoding="utf-8").split("\n")
        for number, text in enumerate(texts, 1):
            if not text.strip():
                continue
            try:
                line = json.loads(text)
                missing = [key for key in NEEDED if key not in line]
            except (ValueError, TypeError):
                if number == len(texts):
                    continue
                raise FileError(f"{path}, line {number:,}: expected one JSON object, got {text[:40]!r}") from None
            if missing:
                raise FileError(
                    f"{path}, line {number:,}: expected the key {missing[0]!r}; is it another kind of file?"
                )
            kept.setdefault(identity(line), line)
        return list(kept.values())

    def append(self, lines: Sequence[Line]) -> None:
        """Add lines, all of one table, and have them on the disk before going on."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.path(lines[0]["table"])
        text = "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines)
        with path.open("ab+") as file:
            _mend(file)
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())


def _mend(file: Any) -> None:
    """Cut off a last line that was never finished."""
    end = file.seek(0, os.SEEK_END)
    back = min(end, 1 << 22)
    file.seek(end - back)
    tail = file.read(back)
    whole = tail.rfind(b"\n") + 1
    if whole < len(tail):
        file.truncate(end - (len(tail) - whole))
    file.seek(0, os.SEEK_END)


@lru_cache(maxsize=1)
def machine() -> dict[str, Any]:
    """The machine and the versions that a number depends on."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "machine": f"{platform.machine()}, {cores} cores, {platform.system()}",
        "versions": {"python": platform.python_version(), **versions},
    }


def chosen(lines: Iterable[Line], row: str, dataset: str, settings: Mapping[str, Any]) -> list[Line]:
    """The lines of one cell with exactly these settings, by seed."""
    wanted = json.dumps(dict(settings), sort_keys=True)
    cell = [
        line
        for line in lines
        if line["row"] == row and line["dataset"] == dataset and json.dumps(line["settings"], sort_keys=True) == wanted
    ]
    return sorted(cell, key=lambda line: int(line["seed"]))
