"""The integers of a text, parsed with NumPy: no Python loop over lines."""

from __future__ import annotations

from typing import Any

import numpy as np

from rae.errors import DatasetError

Ints = np.ndarray[Any, np.dtype[np.int64]]

_MOST_DIGITS = 18  # what int64 always holds
_SEPARATORS = np.frombuffer(b" \t,\r\n", np.uint8)
_MINUS, _NEWLINE, _ZERO = 45, 10, 48


def parse_integers(text: bytes, what: str) -> tuple[Ints, Ints]:
    """The integers of the text in order, and the line (from 0) of each.  -> (t,), (t,)

    Separators are blanks and commas; anything else is refused.

    >>> [part.tolist() for part in parse_integers(b"3, 4\\n-1 70\\n", "an example")]
    [[3, 4, -1, 70], [0, 0, 1, 1]]
    """
    chars = np.frombuffer(text, np.uint8)
    digit = (chars - np.uint8(_ZERO)) < 10  # uint8 wraps, so everything below "0" is large
    minus = chars == _MINUS
    part = digit | minus
    if not np.all(part | np.isin(chars, _SEPARATORS)):
        at = int(np.flatnonzero(~(part | np.isin(chars, _SEPARATORS)))[0])
        raise _not_integers(what, text, at)
    edge = np.diff(part.astype(np.int8), prepend=np.int8(0), append=np.int8(0))
    starts, ends = np.flatnonzero(edge == 1), np.flatnonzero(edge == -1)
    negative = minus[starts]
    length = ends - starts - negative
    if np.count_nonzero(minus) != np.count_nonzero(negative) or np.any(length == 0) or np.any(length > _MOST_DIGITS):
        inner = minus.copy()
        inner[starts] = False
        bad = np.concatenate([np.flatnonzero(inner), starts[(length == 0) | (length > _MOST_DIGITS)]])
        raise _not_integers(what, text, int(bad.min()))
    values = np.zeros(len(starts), np.int64)
    for place in range(int(length.max(initial=0))):
        long_enough = np.flatnonzero(length > place)
        values[long_enough] += (chars[ends[long_enough] - 1 - place] - np.uint8(_ZERO)) * np.int64(10**place)
    values[negative] *= -1
    return values, np.searchsorted(np.flatnonzero(chars == _NEWLINE), starts).astype(np.int64)


def _not_integers(what: str, text: bytes, at: int) -> DatasetError:
    start = text.rfind(b"\n", 0, at) + 1
    line = text[start : start + 60].split(b"\n")[0].decode("latin1")
    number = text.count(b"\n", 0, at) + 1
    return DatasetError(
        f"{what} must hold whole numbers only, got {line!r} in line {number:,}; "
        "the file is damaged or not what its name says"
    )
