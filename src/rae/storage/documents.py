"""JSON from files: parsed strictly, and checked against a pattern."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LARGEST = 1e300  # the largest finite number accepted
SHOWN = 60  # characters of a value that a reason quotes


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text; ValueError for NaN, doubled keys, bad Unicode and too deep nesting."""
    try:
        value = json.loads(text, object_pairs_hook=_once, parse_constant=_refuse)
        if (
            "\\ud" in (text if isinstance(text, str) else text.decode()).lower()
        ):  # half of a surrogate pair cannot be encoded
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return value


def read_json(path: Path) -> Any:
    """The value in a JSON file; ValueError where there is none, OSError where the file cannot be read."""
    return parse_json(path.read_bytes())


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"{next(key for key in value if keys.count(key) > 1)!r} is there twice")
    return value


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def expect(value: Any, pattern: Any, name: str = "it") -> None:
    """ValueError where the value does not have this pattern.

    A pattern is a type (`float` is any finite number, `object` anything), None, a tuple of alternatives, [pattern] for
    a list of such, {str: pattern} for an object with such values, or an object of names and patterns; a name that ends
    in "?" may be absent, and names that are not listed may be there.

    >>> expect({"k": 2, "cards": [{"size": 1}]}, {"k": int, "cards": [{"size": int, "names?": [str]}]})
    >>> expect({"k": "two"}, {"k": int})
    Traceback (most recent call last):
    ...
    ValueError: k must be a whole number, got 'two'
    """
    if isinstance(pattern, tuple):
        if not any(_has(value, one) for one in pattern):
            raise ValueError(f"{name} must be {' or '.join(map(_in_words, pattern))}, got {_quote(value)}")
    elif isinstance(pattern, list):
        if not isinstance(value, list):
            raise ValueError(f"{name} must be a list, got {_quote(value)}")
        for i, item in enumerate(value):
            expect(item, pattern[0], f"{name}[{i}]")
    elif isinstance(pattern, dict):
        _expect_object(value, pattern, name)
    elif not _is(value, pattern):
        raise ValueError(f"{name} must be {_in_words(pattern)}, got {_quote(value)}")


def _expect_object(value: Any, pattern: Mapping[Any, Any], name: str) -> None:
    if not isinstance(value, dict):
        raise ValueError(f"{name} must be an object, got {_quote(value)}")
    if str in pattern:
        for key, item in value.items():
            expect(item, pattern[str], _inside(name, key))
        return
    for key, inner in pattern.items():
        plain = key.removesuffix("?")
        if plain in value:
            expect(value[plain], inner, _inside(name, plain))
        elif key == plain:
            raise ValueError(f"{_inside(name, key)} is missing")


def _inside(name: str, key: str) -> str:
    return repr(key)[1:-1][:SHOWN] if name == "it" else f"{name}.{repr(key)[1:-1][:SHOWN]}"


def _has(value: Any, pattern: Any) -> bool:
    try:
        expect(value, pattern)
    except ValueError:
        return False
    return True


def _is(value: Any, kind: Any) -> bool:
    if kind is None or kind is object:
        return value is None or kind is object
    if kind is float:
        return type(value) in (int, float) and abs(value) <= LARGEST  # which NaN is not
    return type(value) is kind


def _in_words(kind: Any) -> str:
    if isinstance(kind, (list, dict)):
        return "a list" if isinstance(kind, list) else "an object"
    return _WORDS[kind]


_WORDS: dict[Any, str] = {
    **{None: "null", str: "text", bool: "true or false", dict: "an object", list: "a list"},
    **{int: "a whole number", float: "a finite number"},
}


def _quote(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
