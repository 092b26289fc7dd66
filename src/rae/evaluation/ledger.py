"""The ledger of results: every run and every measurement as one JSON line, appended, never rewritten.

A line names its table, row, data set, settings and, for a run that draws at random, its seed: these are its
identity. Each table has its own file. `rae reproduce` reads each identity once, so an interrupted call resumes;
`make bench` reads the latest measurement of each data set, so a new one replaces an old one without deleting it.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from rae.errors import FileError
from rae.storage.documents import parse_json
from rae.version import versions_of

Line = dict[str, Any]
Identity = tuple[Any, ...]
PACKAGES = ("torch", "numpy", "scipy", "scikit-learn", "gensim")
RUN_DATE = "RAE_RUN_DATE"  # environment variable by which the processes of one run share its date

_NUMBER = (int, float)
KEYS: dict[str, Any] = {**dict.fromkeys(("table", "row", "dataset"), str), "settings": dict}
SCORE_KEYS: dict[str, Any] = {
    **KEYS,
    **dict.fromkeys(("seed", "score", "seconds", "cpu_seconds", "peak_mb", "rows_together"), _NUMBER),
    "also": dict,
}
"""The keys that every line has, and those of a scored run of `rae reproduce`."""


def identity(line: Mapping[str, Any]) -> Identity:
    """The key of a line: two lines with the same identity are the same run."""
    return line["table"], line["row"], line["dataset"], line.get("seed", 0), _sorted_json(line["settings"])


def _sorted_json(settings: Mapping[str, Any]) -> str:
    return json.dumps(dict(settings), sort_keys=True)


@dataclass(frozen=True)
class Ledger:
    """The lines in one folder, a file per table."""

    folder: Path

    def path(self, table: str) -> Path:
        """The file of this table."""
        return self.folder / f"{table}.jsonl"

    def read(self, table: str, keys: Mapping[str, Any] = KEYS) -> list[Line]:
        """The lines of a table in file order, the first line of each identity; each line must have these keys."""
        lines: dict[Identity, Line] = {}
        for line in self._parse(table, keys):
            lines.setdefault(identity(line), line)
        return list(lines.values())

    def latest(self, table: str) -> list[Line]:
        """The last line of each identity, from the latest run of each data set and number of threads.

        Rows that one run measured together are compared with each other, so runs are never mixed.
        """
        lines = list(self._parse(table, KEYS))
        dates: dict[tuple[Any, ...], str] = {}
        for line in lines:
            dates[_group(line)] = max(line.get("date", ""), dates.get(_group(line), ""))
        return list({identity(x): x for x in lines if x.get("date", "") == dates[_group(x)]}.values())

    def append(self, lines: Sequence[Line]) -> None:
        """Add lines of one table and flush them to the disk."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.path(lines[0]["table"])
        text = "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines)
        with path.open("ab+") as file:
            _end_last_line(file)
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())

    def resume(self, keys: Iterable[Line], compute: Callable[[Line], Mapping[str, Any]]) -> Iterator[Line]:
        """The line of each key (table, row, dataset, settings, seed); a missing line is computed and appended."""
        lines_by_table: dict[str, dict[Identity, Line]] = {}
        for key in keys:
            key = json.loads(json.dumps(key))
            if key["table"] not in lines_by_table:
                lines_by_table[key["table"]] = {identity(line): line for line in self.read(key["table"])}
            lines = lines_by_table[key["table"]]
            if identity(key) not in lines:
                line = {**key, **compute(key), **provenance()}
                self.append([line])
                lines[identity(key)] = line
            yield lines[identity(key)]

    def _parse(self, table: str, keys: Mapping[str, Any]) -> Iterator[Line]:
        """All lines; a last line that an interrupted write left incomplete is skipped."""
        path = self.path(table)
        texts = path.read_bytes().split(b"\n") if path.exists() else []
        for number, text in enumerate(texts, 1):
            if not text.strip():
                continue
            try:
                line = parse_json(text)
            except ValueError:
                if number == len(texts):
                    continue
                raise FileError(f"{path}, line {number:,}: expected one JSON object, got {text[:40]!r}") from None
            if (missing := _missing(line, keys)) is not None:
                raise FileError(f"{path}, line {number:,}: expected {missing}; is it another kind of file?")
            yield line


def _group(line: Line) -> tuple[Any, ...]:
    return line["dataset"], json.dumps(line["settings"].get("threads"))


def _missing(line: Any, keys: Mapping[str, Any]) -> str | None:
    """What a line lacks to be one of ours, None if it is."""
    if not isinstance(line, dict):
        return "an object"
    return next(
        (f"the key {key!r} and its value" for key, kind in keys.items() if not isinstance(line.get(key), kind)),
        None
        if isinstance(line.get("date", ""), str) and isinstance(line.get("seed", 0), _NUMBER)
        else "a seed and a date",
    )


def _end_last_line(file: Any) -> None:
    """End the last line, or cut it off if it is incomplete."""
    end = file.seek(0, os.SEEK_END)
    back = min(end, 1 << 22)
    file.seek(end - back)
    tail = file.read(back)
    last = tail[tail.rfind(b"\n") + 1 :]
    if last:
        try:
            parse_json(last)
            file.write(b"\n")
        except ValueError:
            file.truncate(end - len(last))
    file.seek(0, os.SEEK_END)


def run_date() -> str:
    """When this run began, in UTC; all processes of one `make bench` or `rae reproduce` share it."""
    return os.environ.get(RUN_DATE) or _start_date()


@lru_cache(maxsize=1)
def _start_date() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def provenance(**versions: str) -> dict[str, Any]:
    """Machine, versions, command and date of a result; further packages can be given with their versions."""
    return {
        "machine": machine(),
        "versions": {**_versions(), **versions},
        "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "date": run_date(),
    }


def machine() -> str:
    """Processor, usable cores and system."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{platform.machine()}, {cores} cores, {platform.system()}"


@lru_cache(maxsize=1)
def _versions() -> dict[str, str]:
    return {"python": platform.python_version(), **versions_of(*PACKAGES)}


def lines_of_cell(lines: Iterable[Line], row: str, dataset: str, settings: Mapping[str, Any]) -> list[Line]:
    """The lines of one cell with exactly these settings, by seed."""
    text = _sorted_json(settings)
    cell = [x for x in lines if (x["row"], x["dataset"]) == (row, dataset) and _sorted_json(x["settings"]) == text]
    return sorted(cell, key=lambda line: int(line["seed"]))
