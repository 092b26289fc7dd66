"""facebook-pages: pages that like each other, the words of their descriptions, their type and their name.

Three files of the MUSAE repository, plain or gzipped: edges (CSV), the active features of each node (JSON), and id,
name and type of each page (CSV).
"""

from __future__ import annotations

import csv
import io
import json
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from rae.datasets.dataset import Dataset
from rae.datasets.home import Home, read_bytes
from rae.datasets.integers import Ints, parse_integers
from rae.errors import DatasetError
from rae.graph import Graph

FILES = ("facebook_edges.csv", "facebook.json", "facebook_target.csv")

_EDGES_HEADER = b"id_1,id_2"
_TARGET_HEADER = ["id", "facebook_id", "page_name", "page_type"]
_MOST_BYTES = 1 << 25  # sixteen times the largest of the files
_MOST_COLUMNS = 1 << 20


def load(*, home: Home | None = None) -> Dataset:
    """The page graph; `labels` are the types of page, `node_names` their names."""
    home = home or Home.from_environment()
    edges, features, target = (_path(home, f"facebook-pages/{name}") for name in FILES)
    ids, names, types = _read_target(target)
    label_names, labels = np.unique(types, return_inverse=True)
    return Dataset(
        "facebook-pages",
        _read_edges(edges, ids),
        _read_features(features, ids),
        labels=labels.astype(np.int64),
        label_names=tuple(label_names.tolist()),
        node_names=names,
    )


def _path(home: Home, path: str) -> Path:
    return home.find(f"{path}.gz") or home.get(path)


def _read_target(path: Path) -> tuple[Ints, tuple[str, ...], list[str]]:
    """Id, name and type of each page; ids are 0, 1, 2, ... in any order."""
    try:
        rows = list(csv.reader(io.StringIO(read_bytes(path, _MOST_BYTES).decode("utf-8"), newline=""), strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise DatasetError(f"{path} must be a CSV table in UTF-8, got {error}; the file is damaged") from None
    if not rows or rows[0] != _TARGET_HEADER:
        raise DatasetError(f"{path} must start with the line {','.join(_TARGET_HEADER)!r}, got {rows[:1]!r:.80}")
    if set(map(len, rows)) != {len(_TARGET_HEADER)} or len(rows) < 2:
        raise DatasetError(f"{path} must give {len(_TARGET_HEADER)} values for every page; the file is damaged")
    columns = list(zip(*rows[1:], strict=True))
    ids = parse_integers("\n".join(columns[0]).encode(), path.name)[0]
    if len(ids) != len(rows) - 1 or not np.array_equal(np.sort(ids), np.arange(len(ids))):
        raise DatasetError(f"{path} must name every page 0..{len(rows) - 2:,} once; the file is damaged")
    return ids, columns[2], list(columns[3])


def _read_edges(path: Path, ids: Ints) -> Graph:
    header, _, body = read_bytes(path, _MOST_BYTES).partition(b"\n")
    if header.strip() != _EDGES_HEADER:
        raise DatasetError(f"{path} must start with the line 'id_1,id_2', got {header[:60].decode('latin1')!r}")
    numbers, lines = parse_integers(body, path.name)
    if len(numbers) % 2 or not np.array_equal(lines[::2], lines[1::2]):
        raise DatasetError(f"{path} must have two pages in every line; the file is damaged")
    if numbers.size and not 0 <= numbers.min() <= numbers.max() < len(ids):
        raise DatasetError(f"{path} must name pages 0..{len(ids) - 1:,}, got {numbers.min()}..{numbers.max()}")
    return Graph.from_edges((numbers[::2], numbers[1::2]), ids=ids)


def _read_features(path: Path, ids: Ints) -> Any:
    """The words of each page, 1 for each, in the order of the ids.  -> (n, words) CSR"""
    try:
        words = json.loads(read_bytes(path, _MOST_BYTES), parse_float=_refuse, parse_constant=_refuse)
        if type(words) is not dict or {type(v) for v in words.values()} != {list}:
            raise ValueError("not a list of numbers for each page")
        pages = np.fromiter(map(int, words), np.int64, len(words))
        lengths = np.fromiter(map(len, words.values()), np.int64, len(words))
        columns = np.fromiter(chain.from_iterable(words.values()), np.int64, int(lengths.sum()))
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise DatasetError(f"{path} must hold a list of feature numbers for each page ({error})") from None
    if not np.array_equal(np.sort(pages), np.arange(len(ids))):
        raise DatasetError(f"{path} must hold the features of pages 0..{len(ids) - 1:,}, each once")
    if columns.size and not 0 <= columns.min() <= columns.max() < _MOST_COLUMNS:
        raise DatasetError(f"{path} must number features from 0 to {_MOST_COLUMNS:,}; the file is damaged")
    row_of = np.empty(len(ids), np.int64)
    row_of[ids] = np.arange(len(ids))
    shape = (len(ids), int(columns.max(initial=-1)) + 1)
    ones = np.ones(len(columns), np.float32)
    matrix = sp.csr_array((ones, (np.repeat(row_of[pages], lengths), columns)), shape=shape)
    matrix.data[:] = 1  # a word that is listed twice counts once
    return matrix


def _refuse(text: str) -> Any:
    raise ValueError(f"{text} is no whole number")
