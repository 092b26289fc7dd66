"""The report and its figures, written from the ledger."""

from __future__ import annotations

from pathlib import Path

from rae.evaluation import figures, report
from rae.evaluation.ledger import Ledger
from rae.evaluation.tables import TABLES
from rae.storage.atomic import write_text


def publish(ledger: Ledger, folder: Path) -> list[Path]:
    """Write reproduce.md and figures/ in this folder from the kept lines alone; the files written."""
    filled = {each.table.name: each for each in report.read(TABLES.values(), ledger)}
    drawn = figures.draw(filled, folder / "figures")
    shown = {f"figures/{name}": what for name, what in drawn.items()}
    path = folder / "reproduce.md"
    write_text(path, report.page(list(filled.values()), shown))
    return [path, *(folder / name for name in shown)]
