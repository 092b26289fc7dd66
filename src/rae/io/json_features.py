"""Features in JSON: a list of features for each id, or a number for each of its features; and lists of names."""

from __future__ import annotations

import os
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from rae.errors import FeatureError, FileError, one_line
from rae.features import FeatureTable
from rae.io.files import File, file_errors, identify
from rae.io.tables import as_whole_numbers
from rae.storage.documents import parse_json

EXAMPLE = 'a list of features for each id, such as {"ann": ["buys", "sells"]}'


def read_json(file: File, *, as_text: bool = False) -> FeatureTable:
    """The features of a JSON file; ids that are whole numbers in every key are numbers, unless `as_text`."""
    content = load_json(file)
    if not isinstance(content, dict) or not content:
        raise FeatureError(f"{file.path}: expected {EXAMPLE}, got {_kind(content)}")
    lists = list(content.values())
    odd = next((id for id, entry in content.items() if not isinstance(entry, (list, dict))), None)
    if odd is not None:
        raise FeatureError(f"{file.path}: expected {EXAMPLE}, got {_kind(content[odd])} for {odd!r}")
    keys = pa.array(content.keys(), pa.string())
    ids = keys if as_text else as_whole_numbers(keys)
    lengths = np.fromiter(map(len, lists), np.int64, len(lists))
    repeated = ids.take(pa.array(np.repeat(np.arange(len(ids)), lengths)))
    words = _words(file, list(chain.from_iterable(lists)))
    values = [v for entry in lists for v in (entry.values() if isinstance(entry, dict) else [1] * len(entry))]
    if odd := [v for v in values if type(v) not in (int, float)]:
        raise FeatureError(f"{file.path}: the value of a feature must be a number, got {odd[0]!r:.40}")
    if not len(words):
        raise FeatureError(f"{file.path}: no id has a feature; expected {EXAMPLE}")
    return FeatureTable.from_pairs(repeated, words, np.array(values, np.float64), rows=ids)


def _words(file: File, words: list[Any]) -> pa.Array:
    """The features of all ids, one after the other: numbers where all are, so that 2 comes before 10, else text."""
    if odd := next((word for word in words if type(word) not in (int, str)), None):
        raise FeatureError(f"{file.path}: a feature must be a word or a whole number, got {odd!r:.40}")
    try:
        return pa.array(words, pa.int64())
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return as_whole_numbers(pa.array(map(str, words), pa.string()))


def load_json(file: File) -> Any:
    """The content of a JSON file; invalid JSON, or a key named twice, is refused."""
    with file_errors(file.path), file.open() as stream:
        text = stream.read()
    try:
        return parse_json(text.decode("utf-8-sig"))
    except ValueError as error:
        raise FileError(f"{file.path} is no JSON that can be read ({one_line(error)}); write it again") from None


def read_names(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """The names in a file: one per line, or a JSON list, or a JSON object from numbers (0, 1, ...) to names."""
    file = identify(path)
    if file.kind == "json":
        content = load_json(file)
        names = list(content) if isinstance(content, list) else _by_number(file, content)
        if not all(isinstance(name, str) for name in names):
            raise FileError(f"{file.path}: expected a list of names, or names by number, got {_kind(content)}")
        return tuple(names)
    if file.kind != "text":
        raise FileError(f"{file.path}: expected a text file with one name per line, or a JSON list, got {file.kind}")
    with file_errors(file.path), file.open() as stream:
        content = stream.read()
    try:
        lines = content.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise FileError(f"{file.path} must be text in UTF-8 ({error.reason}); save it again") from None
    return tuple(line.strip() for line in lines if line.strip())


def _by_number(file: File, content: Any) -> list[Any]:
    """The names of 0, 1, 2, ... in an object; a number without a name is its own."""
    if not isinstance(content, dict) or not all(key.isascii() and key.isdigit() for key in content):
        raise FileError(f"{file.path}: expected a list of names, or an object from numbers to names")
    largest = max(map(int, content), default=-1)
    if largest > 100 * len(content) + 1000:
        raise FileError(f"{file.path}: {len(content):,} names are numbered up to {largest:,}; number them from 0 on")
    return [content.get(str(i), str(i)) for i in range(largest + 1)]


def _kind(value: Any) -> str:
    return {list: "a list", dict: "an object", str: "a text", bool: "true or false", type(None): "null"}.get(
        type(value), "a number"
    )
