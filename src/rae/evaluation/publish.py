"""Write docs/reproduce.md and its figures from the ledger."""

from __future__ import annotations

from pathlib import Path

from rae.evaluation import figures, paper_report, report
from rae.evaluation.ledger import Ledger
from rae.evaluation.tables import TABLES


def publish(ledger: Ledger, folder: Path) -> list[Path]:
    """Write reproduce.md and figures/ in this folder from the lines alone; the files written."""
    filled = {each.table.name: each for each in paper_report.read(TABLES.values(), ledger)}
    captions = {f"figures/{name}": text for name, text in figures.draw(filled, folder / "figures").items()}
    page = report.write_page(folder / "reproduce.md", paper_report.page(list(filled.values()), captions))
    return [page, *(folder / name for name in captions)]
