"""One HTML page of a run: counts, training curve, map, look-alikes, settings. It fetches nothing.

Every word that comes from the user's data goes through `_text`, and the page's own policy forbids
scripts and requests, so an id can be any text at all.
"""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rae.config import Config
from rae.io.atomic import atomic_path
from rae.report.lookalikes import LookAlikes, look_alikes
from rae.run import PAGE, PICTURE, Run

STYLE = """
:root{color-scheme:light dark;--ink:#1b1f24;--soft:#59636e;--line:#d5d9df;--ground:#fff;--a:#0072b2;--b:#d55e00}
@media (prefers-color-scheme:dark){:root{--ink:#e6e9ee;--soft:#9aa4b0;--line:#3a414b;--ground:#15181d;
--a:#56b4e9;--b:#f0a35e}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1.2rem;max-width:60rem;background:var(--ground);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;overflow-wrap:anywhere}
h1{font-size:1.6rem;line-height:1.2;margin:.4rem 0}h2{font-size:1.15rem;margin:2rem 0 .5rem}
p,figcaption,.soft{color:var(--soft)}
dl.counts{display:grid;grid-template-columns:repeat(auto-fit,minmax(7.5rem,1fr));gap:.6rem;margin:1rem 0}
dl.counts div{border:1px solid var(--line);border-radius:.5rem;padding:.5rem .7rem}
dl.counts dt{color:var(--soft);font-size:.85rem}
dl.counts dd{margin:0;font-size:1.2rem;font-variant-numeric:tabular-nums}
figure{margin:0}img{width:100%;height:auto;border-radius:.5rem;background:#fff}svg{width:100%;height:auto}
svg text{fill:var(--soft);font-size:13px}svg .axis{stroke:var(--line);fill:none}
svg .curve{fill:none;stroke-width:2.2;stroke-linejoin:round}svg .within{stroke:var(--a)}
svg .neighbor{stroke:var(--b);stroke-dasharray:7 3}svg text.within{fill:var(--a);stroke:none}
svg text.neighbor{fill:var(--b);stroke:none}
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%}
th,td{text-align:left;vertical-align:top;padding:.35rem .8rem .35rem 0;border-bottom:1px solid var(--line)}
th[scope=row]{min-width:10.5rem}td small{color:var(--soft);font-variant-numeric:tabular-nums}
"""


def write_page(run: Run, *, title: str = "", names: Sequence[str] | None = None) -> Path:
    """Write page.html into the run's folder and return where it is."""
    ids, z = run.embeddings()
    alike = look_alikes(ids.to_pylist(), z, names)
    with atomic_path(run.path / PAGE) as path:
        path.write_text(render(run, alike, title=title), encoding="utf-8")
    return run.path / PAGE


def render(run: Run, alike: Sequence[LookAlikes], *, title: str = "") -> str:
    """The whole page as text."""
    known = run.info
    heading = title or f"Run {run.path.name}"
    parts = [
        f"<h1>{_text(heading)}</h1>",
        "<p>Each node of the graph has a vector; nodes that play alike roles have vectors that point the same way.</p>",
        _counts(run.counts),
        "<h2>Map</h2>" + _map(run),
        "<h2>Look-alikes</h2>" + _alike(alike),
        "<h2>Training</h2>" + curve(known["history"]),
        "<h2>Settings</h2>" + _settings(known["settings"]),
        f'<p class="soft">Made by rae {_text(known["versions"].get("rae", ""))}, '
        f"Python {_text(known['versions'].get('python', ''))}.</p>",
    ]
    return _frame(heading, "\n".join(parts))


def curve(history: Sequence[dict[str, Any]]) -> str:
    """The loss by step as inline SVG, one line per fit."""
    if not history:
        return "<p>No training: the encoder was left as it was drawn (steps 0).</p>"
    left, right, top, bottom = 60, 690, 20, 200
    steps = max(int(r["step"]) for r in history)
    low, high = min(float(r["value"]) for r in history), max(float(r["value"]) for r in history)
    span = (high - low) or 1.0
    lines = []
    fits = list(dict.fromkeys(str(r["loss"]) for r in history))
    for i, loss in enumerate(fits):
        records = [r for r in history if r["loss"] == loss]
        xs = [left + (right - left) * int(r["step"]) / steps for r in records]
        ys = [bottom - (bottom - top) * (float(r["value"]) - low) / span for r in records]
        points = [f"{x:.1f},{y:.1f}" for x, y in zip(xs, ys, strict=True)]
        kind = "neighbor" if loss == "neighbor" else "within"
        lines.append(f'<polyline class="curve {kind}" points="{" ".join(points)}"/>')
        note = f"{loss} {float(records[-1]['value']):.3g}"
        lines.append(f'<text class="{kind}" x="{right}" y="{top + 4 + 18 * i}" text-anchor="end">{_text(note)}</text>')
    return (
        f'<figure><svg viewBox="0 0 700 240" role="img" aria-label="loss by training step">'
        f'<path class="axis" d="M{left} {top}V{bottom}H{right}"/>'
        f'<text x="{left - 8}" y="{top + 5}" text-anchor="end">{high:.3g}</text>'
        f'<text x="{left - 8}" y="{bottom}" text-anchor="end">{low:.3g}</text>'
        f'<text x="{left}" y="{bottom + 22}">0</text>'
        f'<text x="{right}" y="{bottom + 22}" text-anchor="end">step {steps:,}</text>'
        f"{''.join(lines)}</svg><figcaption>Loss of one batch, every few steps.</figcaption></figure>"
    )


def _text(value: Any) -> str:
    return html.escape(str(value), quote=True)


def _counts(counts: dict[str, Any]) -> str:
    boxes = (f"<div><dt>{_text(n.replace('_', ' '))}</dt><dd>{int(v):,}</dd></div>" for n, v in counts.items())
    return f'<dl class="counts">{"".join(boxes)}</dl>'


def _map(run: Run) -> str:
    picture = run.path / PICTURE
    if not picture.is_file():
        return "<p>No picture: it needs matplotlib; install it with <code>pip install 'rae[plot]'</code>.</p>"
    data = base64.b64encode(picture.read_bytes()).decode("ascii")
    return (
        f'<figure><img alt="Map of the nodes: alike ones are close" src="data:image/png;base64,{data}">'
        "<figcaption>Every node a point; near means alike, the axes mean nothing.</figcaption></figure>"
    )


def _alike(alike: Sequence[LookAlikes]) -> str:
    rows = "".join(
        f'<tr><th scope="row"><bdi>{_text(a.name)}</bdi></th><td>'
        + ", ".join(f"<bdi>{_text(name)}</bdi> <small>{cosine:.2f}</small>" for name, cosine in a.nearest)
        + "</td></tr>"
        for a in alike
    )
    return f'<div class="wide"><table><tr><th>node</th><th>nearest, with cosine</th></tr>{rows}</table></div>'


def _settings(settings: dict[str, Any]) -> str:
    changed = Config.from_dict(settings).changed()
    rows = "".join(
        f"<tr><td>{_text(name)}</td><td>{_text(value)}{' *' if name in changed else ''}</td></tr>"
        for name, value in settings.items()
    )
    told = f"{len(settings)} settings, {len(changed)} changed (*)"
    return f"<details><summary>{told}</summary><table>{rows}</table></details>"


def _frame(title: str, body: str) -> str:
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode("ascii")
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{_text(title)}</title><style>{STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )
