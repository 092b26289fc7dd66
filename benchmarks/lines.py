"""Lines: a measurement is one JSON object; those of an older run of the same table are replaced, never mixed."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rae.evaluation.ledger import machine
from rae.storage.atomic import write_text

RESULTS = Path(__file__).parent.parent / "results"
TOGETHER = ("table", "dataset", "threads")  # measured in one run, so replaced together
SAME = (*TOGETHER, "row", "stage", "width", "memory", "half", "dtype", "order", "fanout", "nodes", "edges", "seed")
ROW = ("table", "dataset", "row", "threads")  # what every line has

Line = dict[str, Any]


def now() -> str:
    """The run's name: when it began, or what RAE_BENCH says, so that the steps of one `make bench` share it."""
    return os.environ.get("RAE_BENCH") or time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


@dataclass(frozen=True)
class Lines:
    """One file of lines, and the run that writes to it."""

    path: Path
    run: str = field(default_factory=now)

    def keep(self, line: Line) -> Line:
        """Add a line with machine, load and run; those of another run of the same table and graph go."""
        kept = {**line, **machine(), "load": round(os.getloadavg()[0], 1), "run": self.run}
        kept["versions"] = {**kept["versions"], **line.get("versions", {})}
        group = [kept.get(name) for name in TOGETHER]
        older = [x for x in read(self.path) if [x.get(name) for name in TOGETHER] != group or x.get("run") == self.run]
        older = [x for x in older if "run" in x]  # from before runs had names
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_text(self.path, "".join(json.dumps(x) + "\n" for x in newest([*older, kept])))
        return kept


def read(path: Path) -> list[Line]:
    """The lines of a file, none if there is no file."""
    if not path.exists():
        return []
    return [json.loads(text) for text in path.read_text(encoding="utf-8").splitlines() if text.strip()]


def newest(lines: Iterable[Line]) -> list[Line]:
    """One line for each thing measured: the last one, in the order of first appearance."""
    kept: dict[str, Line] = {}
    for line in lines:
        kept[json.dumps([line.get(name) for name in SAME])] = line
    return list(kept.values())


def spread(seconds: list[float], unit: str = "s", digits: int = 2) -> Line:
    """Best and worst of several rounds as fields of a line.

    >>> spread([0.25, 0.5], "ms")
    {'best_ms': 250.0, 'worst_ms': 500.0, 'rounds': 2}
    """
    scale = {"s": 1, "ms": 1e3}[unit]
    best, worst = (round(scale * value, digits) for value in (min(seconds), max(seconds)))
    return {f"best_{unit}": best, f"worst_{unit}": worst, "rounds": len(seconds)}
