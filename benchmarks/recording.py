"""What all benchmarks share: their command-line options and how they record a measurement in the ledger."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from rae.evaluation.ledger import Ledger, Line, provenance

RESULTS = Path(__file__).parent.parent / "results"


def parser(doc: str | None, quick: str, *, threads: int | None = None, rounds: int | None = None) -> Any:
    """An argument parser with --quick, --results and, where a default is given, --threads and --rounds."""
    arguments = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--quick", action="store_true", help=quick)
    arguments.add_argument(
        "--results", type=lambda path: Ledger(Path(path)), default=Ledger(RESULTS), help="folder of lines"
    )
    if threads is not None:
        arguments.add_argument("--threads", type=int, default=threads)
    if rounds is not None:
        arguments.add_argument("--rounds", type=int, default=rounds)
    return arguments


def all_cores() -> int:
    """The number of cores of this machine."""
    return os.cpu_count() or 1


def record(ledger: Ledger, table: str, dataset: str, row: str, settings: dict[str, Any], **numbers: Any) -> Line:
    """Append one measurement with its provenance and the load of the machine, and print it."""
    versions = numbers.pop("versions", {})
    line = {"table": table, "row": row, "dataset": dataset, "settings": settings, **numbers}
    ledger.append([{**line, **provenance(**versions), "load": round(os.getloadavg()[0], 1)}])
    named = {**settings, **{name: value for name, value in numbers.items() if name != "note"}}
    print(f"{dataset}  {row}  " + "  ".join(f"{name} {value}" for name, value in named.items()), flush=True)
    return line


def web_google() -> Path:
    """The gzipped edge list of web-Google in the folder that RAE_DATA names."""
    return next((Path(os.environ["RAE_DATA"]) / "web-Google").glob("*.gz"))
