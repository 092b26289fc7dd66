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
KINDS: dict[str, Any] = {
    **dict.fromkeys(("table", "row", "dataset"), str),
    **dict.fromkeys(("seed", "score", "seconds", "cpu_seconds", "peak_mb", "rows_together"), (int, float)),
    **dict.fromkeys(("settings", "also"), dict),
}


def identity(line: Mapping[str, Any]) -> tuple[Any, ...]:
    """What makes a line itself: two lines with one identity are one run."""
    return line["table"], line["row"], line["dataset"], line["seed"], _in_order(line["settings"])


def _in_order(settings: Mapping[str, Any]) -> str:
    return json.dumps(dict(settings), sort_keys=True)


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
        texts = path.read_bytes().split(b"\n")
        for number, text in enumerate(texts, 1):
            if not text.strip():
                continue
            try:
                line = json.loads(text)
            except ValueError:
                if number == len(texts):
                    continue
                raise FileError(f"{path}, line {number:,}: expected one JSON object, got {text[:40]!r}") from None
            if (wrong := _wrong(line)) is not None:
                raise FileError(f"{path}, line {number:,}: expected {wrong}; is it another kind of file?")
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


def _wrong(line: Any) -> str | None:
    """What a line lacks to be one of ours, None if it is."""
    if not isinstance(line, dict):
        return "an object"
    return next(
        (f"the key {key!r} and its value" for key, kind in KINDS.items() if not isinstance(line.get(key), kind)), None
    )


def _mend(file: Any) -> None:
    """End the last line, or cut it off if it was never finished."""
    end = file.seek(0, os.SEEK_END)
    back = min(end, 1 << 22)
    file.seek(end - back)
    tail = file.read(back)
    last = tail[tail.rfind(b"\n") + 1 :]
    if last:
        try:
            json.loads(last)
            file.write(b"\n")
        except ValueError:
            file.truncate(end - len(last))
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
    wanted = _in_order(settings)
    cell = [
        line
        for line in lines
        if line["row"] == row and line["dataset"] == dataset and _in_order(line["settings"]) == wanted
    ]
    return sorted(cell, key=lambda line: int(line["seed"]))
