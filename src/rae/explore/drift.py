"""What changed between two moments as one HTML file: tables without a script, in the style of the explorer."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from rae.drift import Drift
from rae.errors import Argument, FileError, is_there
from rae.explore.html import asset, digest
from rae.storage.atomic import write_text

SHOWN = 1_000  # alarms on the page
STYLE = (
    "body{display:block;max-width:960px;margin:0 auto;padding:20px 24px}h1{font-size:20px}"
    "h2{font-size:15px;margin:22px 0 6px}p{margin:4px 0}"
    "table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}"
    "th,td{padding:4px 10px 4px 0;border-bottom:1px solid var(--line);text-align:right}"
    "th{color:var(--soft);font-weight:600}th:first-child,td:first-child{text-align:left;overflow-wrap:anywhere}"
    "tr.alarm td{font-weight:650}"
)


def check_page_file(path: str | Path, *, force: bool = False) -> None:
    """Refuse a name that is not that of a page, and, without `force`, a file that is there."""
    if Path(path).suffix.lower() not in (".html", ".htm"):
        raise FileError(Argument("page"), f" must end in .html, got {path}")
    if Path(path).exists() and not force:
        raise is_there(path, Argument("page"))


def write_page(drift: Drift, path: str | Path, *, title: str = "", force: bool = False) -> Path:
    """Write the page of a comparison and return its path; a file that is there is replaced with `force` alone."""
    path = Path(path)
    if path.exists() and not force:
        raise is_there(path, "name")
    write_text(path, render(drift, title or "What changed"))
    return path


def render(drift: Drift, title: str) -> str:
    """The page: what happened in sentences, a line per role, and the alarms."""
    facts = drift.as_dict()
    style = asset("page.css") + STYLE
    roles = [
        (r["role"], f"{r['before']:,}", f"{r['after']:,}", f"{100 * (r['share_after'] - r['share_before']):+.1f}",
         "" if r["stayed"] is None else f"{100 * r['stayed']:.1f} %", f"{r['new']:,}", f"{r['gone']:,}",
         f"{r['p']:.2f}")
        for r in facts["roles"]
    ]  # fmt: skip
    alarms = [
        (a.get("name", a["id"]), a["from"], a["to"], _number(a["distance"]), _number(a["noise"]), _number(a["p"]),
         _number(a["q"]))
        for a in facts["alarms"][:SHOWN]
    ]  # fmt: skip
    marked = [r["p"] <= drift.rate and r["after"] != r["before"] for r in facts["roles"]]
    parts = [
        f"<h1>{escape(title)}</h1>",
        *(f"<p>{escape(text)}</p>" for text in drift.sentences()),
        "<h2>Roles</h2>",
        '<p class="soft">points: change of the share of all nodes, in percentage points; p: how often noise alone '
        "changes the size as much</p>",
        _table(("role", "before", "after", "points", "stayed", "new", "gone", "p"), roles, marked),
        "<h2>Moved more than noise explains</h2>",
        '<p class="soft">moved: 1 is the distance of two nodes taken at random; noise: how far the noise of the fit '
        "moves it; q: share of false alarms down to this line</p>",
        _table(("node", "from", "to", "moved", "noise", "p", "q"), alarms) if alarms else "<p>no node</p>",
    ]
    if facts["n_alarms"] > SHOWN:
        parts.append(f"<p>and {facts['n_alarms'] - SHOWN:,} more</p>")
    policy = f"default-src 'none'; style-src '{digest(style)}'; base-uri 'none'; form-action 'none'"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        '<meta name="generator" content="rae drift">\n'
        f"<title>{escape(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n{''.join(parts)}\n</body>\n</html>\n"
    )


def _number(value: Any) -> str:
    return "" if value is None else f"{value:.3g}"


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]], marked: Sequence[bool] = ()) -> str:
    lines = ["<tr>" + "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head) + "</tr>"]
    for i, row in enumerate(rows):
        lit = ' class="alarm"' if i < len(marked) and marked[i] else ""
        lines.append(f"<tr{lit}>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>")
    return f"<table>{''.join(lines)}</table>"
