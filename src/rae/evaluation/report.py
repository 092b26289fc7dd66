"""Markdown pages from ledger lines: what docs/reproduce.md and docs/performance.md share.

A column is a heading and a function of an item and its context (the table or the group that it stands in).
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from rae.evaluation.statistics import Summary
from rae.storage.atomic import write_text

Column = tuple[str, Callable[[Any, Any], str]]
WIDTH = 120


def page(title: str, command: str, words: str, parts: Iterable[str]) -> str:
    """A whole page: title, how it was generated, and its parts; empty parts are left out."""
    generated = f"Generated from the lines in `results/` by {command}; only the words are typed."
    return "\n\n".join([f"# {title}", paragraph(f"{generated} {words}"), *filter(None, parts)]) + "\n"


def write_page(path: Path, text: str) -> Path:
    """Write a page whole or not at all; its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text)
    return path


def section(title: str, *parts: str) -> str:
    """A heading and what stands under it."""
    return "\n\n".join([f"## {title}", *filter(None, parts)])


def paragraph(text: str, indent: str = "") -> str:
    """Text in lines that fit the page's source."""
    return textwrap.fill(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def bullets(texts: Iterable[str]) -> str:
    """A list, one entry a text."""
    return "\n".join(paragraph(f"- {text}", "  ") for text in texts)


def listing(title: str, texts: Iterable[str]) -> str:
    """A title with a list under it, nothing without entries."""
    entries = bullets(texts)
    return f"{title}\n\n{entries}" if entries else ""


def grid(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table.

    >>> print(grid(["", "x"], [["a", "1"]]))
    |  | x |
    |---|---|
    | a | 1 |
    """
    lines = [head, *rows]
    text = ["| " + " | ".join(cells) + " |" for cells in lines]
    return "\n".join([text[0], "|" + "---|" * len(head), *text[1:]])


def table(items: Iterable[Any], columns: Sequence[Column], context: Any = None) -> str:
    """A Markdown table with one row an item."""
    rows = ([cell(item, context) for _, cell in columns] for item in items)
    return grid([title for title, _ in columns], rows)


def number(value: float | None, text: str) -> str:
    """A formatted number, nothing for None.

    >>> number(0.5, "{:.0%}")
    '50%'
    """
    return "" if value is None else text.format(value)


def mean_sd(summary: Summary | None, digits: int = 1) -> str:
    """Mean and standard deviation of several runs, the value alone of one."""
    if summary is None:
        return ""
    return f"{summary.mean:.{digits}f}" + (f" ± {summary.sd:.{digits}f}" if summary.runs > 1 else "")


def anchor(title: str) -> str:
    """The link target that Markdown gives a heading.

    >>> anchor("Graph: one, two")
    'graph-one-two'
    """
    return "".join(c for c in title.lower().replace(" ", "-") if c.isalnum() or c == "-")
