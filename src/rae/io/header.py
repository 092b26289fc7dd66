"""Whether the first row of a text table is a header, decided by comparing it with the rows below."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rae.errors import Argument, Sentence
from rae.graph.column_names import CLOSING, ID, OPENING, SOURCE, TARGET, end_name, plain

_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*|\s*[+-]?inf(inity)?\s*", re.IGNORECASE)
_MISSING = frozenset(("", "na", "n/a", "nan", "-nan", "null", "none", "#n/a"))
_WORD = re.compile(r"[^\W\d][\w .()/-]{0,40}")

# A first row of unique cells is a header if such a row is improbable (RARE) among at least ENOUGH rows.
RARE, ENOUGH = 0.05, 20

Row = list[str]


@dataclass(frozen=True)
class Verdict:
    """Whether there is a header, a note on why, and whether the decision may be wrong."""

    header: bool
    note: str | None = None
    doubtful: bool = False


def has_header(rows: Sequence[Row]) -> Verdict:
    """Whether the first row is a header.

    Text over a column of numbers makes a header, numbers over numbers make data. Where all is text,
    or the first row has both: usual names (source and target, caller and called, an id column first)
    make a header unless they recur below, as ids do; so do numbers that count the columns, and, in doubt,
    words unlike all below them. The rest is data, in doubt unless a cell recurs.

    >>> has_header([["soure", "target"], ["0", "11342"]])
    Verdict(header=True, note=None, doubtful=False)
    >>> has_header([["caller", "called"], ["ann", "bob"], ["bob", "cid"]]).header
    True
    >>> has_header([["u", "v"], ["v", "w"], ["w", "u"]]).header
    False
    """
    first, later = rows[0], rows[1:]
    columns = list(zip(*later, strict=True))
    numeric = [j for j, cells in enumerate(columns) if _all_numbers(cells)]
    over = {is_number(first[j]) for j in numeric if not is_missing(first[j])}
    if not later:
        over = {True} if _all_numbers(first) else set()
    if over == {False}:
        return Verdict(True)
    ids, counted = plain(first[0]) in ID, _counts_columns(first)
    ends = [] if True in over and not counted else _ends(first)
    if over == {True} and not ids and not ends:
        return Verdict(False)
    if not ids and not ends and counted and over == {False, True}:
        return _header(first, doubtful=True)
    texts = [j for j in range(len(first)) if j not in numeric]
    compared = ends or ([0] if ids else texts)
    recurring = _recurring(first, columns, compared)
    if ids or ends:
        # One node may be called target in a file with a header; single letters are names of nodes.
        nodes = recurring and (len(recurring) == len(compared) or any(len(cell) == 1 for cell in recurring))
        return _data(first, doubtful=True) if nodes else _header(first, doubtful=bool(over or recurring))
    if recurring:
        return _data(first, doubtful=bool(over))
    unlike = not over and _are_words(first) and _is_unlike(first, columns, texts)
    return _header(first, doubtful=True) if unlike else _data(first, doubtful=True)


def is_number(cell: str) -> bool:
    """Whether the cell is a number, or missing where a number may be."""
    return is_missing(cell) or _NUMBER.fullmatch(cell) is not None


def _header(first: Row, *, doubtful: bool) -> Verdict:
    advice = (Argument("header", False), " if it is data")
    return Verdict(True, Sentence(f"the first row ({_quote(first)}) was taken as a header; pass ", *advice), doubtful)


def _data(first: Row, *, doubtful: bool) -> Verdict:
    advice = (Argument("header", True), " if it is a header")
    return Verdict(False, Sentence(f"the first row ({_quote(first)}) was taken as data; pass ", *advice), doubtful)


def _quote(first: Row) -> str:
    return ", ".join(first[:4]) + (", ..." if len(first) > 4 else "")


def is_missing(cell: str) -> bool:
    """Whether the cell says that nothing is there."""
    return cell.strip().casefold() in _MISSING


def _all_numbers(cells: Sequence[str]) -> bool:
    return all(is_number(c) for c in cells) and not all(is_missing(c) for c in cells)


def _ends(first: Row) -> list[int]:
    """The columns with usual names of an edge's ends, [] if there are not both."""
    end_names = [end_name(cell) for cell in first]
    sources = [i for i, name in enumerate(end_names) if name in SOURCE | OPENING]
    targets = [i for i, name in enumerate(end_names) if name in TARGET | CLOSING]
    return sources + targets if sources and targets else []


def _counts_columns(first: Row) -> bool:
    numbers = [int(c) for c in first if c.isdecimal()]
    return len(numbers) > 1 and numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def _recurring(first: Row, columns: Sequence[Sequence[str]], compared: Sequence[int]) -> set[str]:
    """The cells of the first row that recur below, in any of the compared columns."""
    cells = {first[j].strip() for j in compared if not is_missing(first[j])}
    return cells & {cell.strip() for j in compared if j < len(columns) for cell in columns[j]}


def _are_words(first: Row) -> bool:
    return len(set(first)) == len(first) and all(_WORD.fullmatch(cell.strip()) for cell in first)


def _is_unlike(first: Row, columns: Sequence[Sequence[str]], texts: Sequence[int]) -> bool:
    """Whether the first row differs in kind: no digit where all cells below have one, or cells that are too rare."""
    if not columns:
        return False
    if any(not _has_digit(first[j]) and all(map(_has_digit, columns[j])) for j in texts):
        return True
    times = Counter(cell for j in texts for cell in columns[j])
    alone = [sum(times[cell] == 1 for cell in columns[j]) / len(columns[j]) for j in texts]
    return len(columns[0]) >= ENOUGH and math.prod(alone) <= RARE


def _has_digit(cell: str) -> bool:
    return any(c.isdigit() for c in cell)
