"""Output for people: text that is safe in a terminal, and small tables and pictures for notebooks.

These are HTML and SVG without a script, all text escaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

MOST_TEXT, MOST_ROWS = 60, 12  # characters of a cell, rows of a table
BAR, GAP, HIGH = 18, 4, 72  # of a picture, in pixels
STRIP = 360

_CONTROLS = [*range(32), *range(0x7F, 0xA0)]  # control characters
_TURNS = [*range(0x202A, 0x202F), *range(0x2066, 0x206A)]  # direction marks
_ESCAPES = {code: f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" for code in [*_CONTROLS, *_TURNS]}
_ESCAPES |= {ord(c): text for c, text in (("\n", r"\n"), ("\r", r"\r"), ("\t", r"\t"))}
_IN_LINES = {code: text for code, text in _ESCAPES.items() if code not in (ord("\n"), ord("\t"))}
_CELL = "text-align:left;padding:1px 14px 1px 0;vertical-align:top;font-weight:"


def printable(text: str, *, lines: bool = False) -> str:
    r"""The text with control characters written out; with `lines`, line ends and tabs stay.

    >>> print(printable("a\x1b[2Jb\nc"))
    a\x1b[2Jb\nc
    """
    clean = text.translate(_IN_LINES if lines else _ESCAPES)
    return clean if clean.isascii() else clean.encode("utf-8", "backslashreplace").decode()  # halves of pairs


def panel(title: str, *parts: str) -> str:
    """A heading and what stands below it, in one element.

    >>> panel("a < b")
    '<div><strong>a &lt; b</strong></div>'
    """
    return f"<div><strong>{escape(title)}</strong>{''.join(parts)}</div>"


def table(rows: Sequence[Sequence[Any]], head: Sequence[str] = ()) -> str:
    """A table of at most a dozen rows; a line says how many more there are.

    >>> table([("nodes", 1200)])
    '<table><tr><td style="text-align:left;padding:1px 14px 1px 0;vertical-align:top;font-weight:normal">nodes</td>\
<td style="text-align:left;padding:1px 14px 1px 0;vertical-align:top;font-weight:normal">1,200</td></tr></table>'
    """
    lines = [_line(head, "th", "bold")] if head else []
    lines += [_line(row, "td", "normal") for row in rows[:MOST_ROWS]]
    more = f"<div>and {len(rows) - MOST_ROWS:,} more</div>" if len(rows) > MOST_ROWS else ""
    return f"<table>{''.join(lines)}</table>{more}"


def bars(title: str, values: Sequence[float], labels: Sequence[str]) -> str:
    """A picture of bars side by side, as high as their values, with a label each; at most a few dozen."""
    values, labels = values[: 3 * MOST_ROWS], labels[: 3 * MOST_ROWS]
    largest = max([*values, 0]) or 1
    marks = []
    for i, (value, label) in enumerate(zip(values, labels, strict=True)):
        x, high = i * (BAR + GAP), HIGH * value / largest
        tooltip = escape(f"{label}: {_text(value)}")
        marks.append(
            f'<rect x="{x}" y="{HIGH - high:.1f}" width="{BAR}" height="{high:.1f}" fill="#4c78a8">'
            f"<title>{tooltip}</title></rect>"
            f'<text x="{x + BAR / 2:g}" y="{HIGH + 11}" text-anchor="middle" font-size="9" fill="currentColor">'
            f"{escape(label)}</text>"
        )
    return _picture(title, len(values) * (BAR + GAP), HIGH + 15, marks)


def strip(title: str, widths: Sequence[float], labels: Sequence[str]) -> str:
    """A picture of one bar cut into parts of these widths, with a label each."""
    total, x, marks = sum(widths) or 1, 0.0, []
    for i, (width, label) in enumerate(zip(widths, labels, strict=True)):
        wide = STRIP * width / total
        marks.append(
            f'<rect x="{x:.1f}" y="0" width="{max(wide - 1, 0):.1f}" height="14" fill="#4c78a8" '
            f'opacity="{1 - 0.5 * (i % 2):g}"><title>{escape(f"{label}: {_text(width)} columns")}</title></rect>'
            f'<text x="{x:.1f}" y="26" font-size="9" fill="currentColor">{escape(label)}</text>'
        )
        x += wide
    return _picture(title, STRIP, 30, marks)


def _picture(title: str, width: float, height: float, marks: Sequence[str]) -> str:
    return (
        f'<figure style="margin:4px 0"><svg width="{width:g}" height="{height:g}" role="img" '
        f'aria-label="{escape(title)}">{"".join(marks)}</svg>'
        f'<figcaption style="font-size:11px">{escape(title)}</figcaption></figure>'
    )


def _line(cells: Sequence[Any], tag: str, weight: str) -> str:
    return "<tr>" + "".join(f'<{tag} style="{_CELL}{weight}">{escape(_text(c))}</{tag}>' for c in cells) + "</tr>"


def _text(value: Any) -> str:
    text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
    return text if len(text) <= MOST_TEXT else text[: MOST_TEXT - 1] + "…"
