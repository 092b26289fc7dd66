"""Whether the first row of a text table is a header, told by comparing it with the rows below."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rae.io.names import ID, SOURCE, TARGET, plain

_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*|\s*[+-]?inf(inity)?\s*", re.IGNORECASE)
_MISSING = frozenset(("", "na", "n/a", "nan", "-nan", "null", "none", "#n/a"))

Row = list[str]


def has_header(rows: Sequence[Row]) -> tuple[bool, str | None]:
    """Whether the first row is a header, and a note when it could have been otherwise.

    It is one when in some column it has text where every later row has a number. It is data when
    it has numbers in such columns and text in none. When neither settles it (all cells are text,
    or the first row has both), it is a header if it holds usual names (source and target, from and
    to, u and v, or an id column first), or counts its columns (0, 1, 2, ...), and else data.

    >>> has_header([["soure", "target"], ["0", "11342"]])
    (True, None)
    >>> has_header([["7", "77"], ["29", "50"]])
    (False, None)
    """
    first, later = rows[0], rows[1:]
    numeric = [j for j, cells in enumerate(zip(*later, strict=True)) if _all_numbers(cells)]
    over = {is_number(first[j]) for j in numeric if not _is_missing(first[j])}
    if not later:
        over = {True} if _all_numbers(first) else set()
    named, counted = _has_usual_names(first), _counts_columns(first)
    if over == {False}:
        return True, None
    if over == {True} and not named:
        return False, None
    shown = ", ".join(first[:4]) + (", ..." if len(first) > 4 else "")
    if named or (counted and over == {False, True}):
        return True, f"the first row ({shown}) was taken as a header; pass header=False if it is data"
    return False, f"the first row ({shown}) was taken as data; pass header=True if it is a header"


def is_number(cell: str) -> bool:
    """Whether the cell is a number, or missing where a number may be."""
    return _is_missing(cell) or _NUMBER.fullmatch(cell) is not None


def _is_missing(cell: str) -> bool:
    return cell.strip().casefold() in _MISSING


def _all_numbers(cells: Sequence[str]) -> bool:
    return all(is_number(c) for c in cells) and not all(_is_missing(c) for c in cells)


def _has_usual_names(first: Row) -> bool:
    known = [plain(cell) for cell in first]
    return known[0] in ID or (any(k in SOURCE for k in known) and any(k in TARGET for k in known))


def _counts_columns(first: Row) -> bool:
    numbers = [int(c) for c in first if c.isdecimal()]
    return len(numbers) > 1 and numbers == list(range(numbers[0], numbers[0] + len(numbers)))
