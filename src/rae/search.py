"""Nearest neighbours: exact, or approximate with a measured recall.

Distances are Euclidean, between blocks times their weights, in units of the typical distance (root mean square)
between two of the vectors that are searched: 0 is the same vector, 1 as far apart as two nodes taken at random.

One query is one exact pass over the vectors (`rae.ops.nearest`), which is faster than building an index. Many queries
against many vectors use an inverted index (faiss), whose recall is measured on a sample of queries before it is used.
"""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rae.blocks import Block, Weights, weighted
from rae.display import printable
from rae.errors import (
    ConfigError,
    FeatureError,
    GraphError,
    MissingExtraError,
    RunError,
    UnknownIdError,
    needed_library,
)
from rae.graph.frames import is_frame, vectors_of
from rae.graph.ids import id_array, index_in, is_text, shown
from rae.memory import row_chunks
from rae.ops.nearest import Scale, nearest_rows
from rae.runtime import generator, libraries_alone

Floats = np.ndarray[Any, np.dtype[np.float32]]
Ints = np.ndarray[Any, np.dtype[np.int64]]

EXACT_ROWS = 200_000  # up to so many vectors the search is exact
EXACT_QUERIES = 5_000  # up to so many queries too: building an index for fewer takes longer than it saves
RECALL = 0.95  # an index probes more of its lists until it finds this share of the true nearest
PROBES, TRIALS = (8, 16, 32, 64, 128, 256), 200  # lists probed, queries answered both ways to measure the recall
ROOM = 4  # a list has spare room for one in so many of its vectors
CANDIDATES = 5_000  # ids compared by edit distance for "did you mean"
METHODS = ("auto", "exact", "approximate")


@dataclass(frozen=True)
class Similar:
    """A node and the nodes nearest to it, each with its distance; `recall` is 1 where the search was exact."""

    id: Any
    matches: tuple[tuple[Any, float], ...]
    method: str = "exact"
    recall: float = 1.0
    name: str | None = None  # the display names, where the nodes have some
    names: tuple[str | None, ...] = ()

    def __str__(self) -> str:
        """A sentence: "smtplib is like imaplib, nntplib, http.client"."""
        names = self.names or [None] * len(self.matches)
        called = [id if name is None else name for (id, _), name in zip(self.matches, names, strict=True)]
        like = f"is like {', '.join(map(str, called))}" if called else "has nobody to be like"
        return printable(f"{self.id if self.name is None else self.name} {like}")


def similar(
    source: Any,
    query: Any,
    k: int = 10,
    *,
    ids: Any = None,
    among: Any = None,
    weights: Weights | None = None,
    blocks: Sequence[Block] | None = None,
    method: str = "auto",
) -> Similar:
    """The k nodes whose vectors are nearest to that of `query`, each with its distance.

    A distance of 0 is the same vector, 1 as far apart as two nodes taken at random. `source` is a Run, a pair
    (ids, vectors), a data frame of vectors with ids, or vectors with `ids` (row numbers where there are none); `query`
    is one of its ids, or the display name of a node of a Run. `among` is another Run of the same model, or such a pair,
    to search instead:
    similar(read_embeddings("tomorrow.parquet"), "newcomer", among=run).

    `weights` say how much each block counts, as in "place=1,own=0.3" or a mapping; by default the blocks' own.
    `blocks` are those of the source, which a Run knows and `RAE.blocks` gives.

    >>> z = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
    >>> [name for name, distance in similar(z, "ann", k=2, ids=["ann", "bob", "cid"]).matches]
    ['bob', 'cid']
    """
    return similar_to_each(source, [query], k, ids=ids, among=among, weights=weights, blocks=blocks, method=method)[0]


def similar_to_each(
    source: Any,
    queries: Sequence[Any],
    k: int = 10,
    *,
    ids: Any = None,
    among: Any = None,
    weights: Weights | None = None,
    blocks: Sequence[Block] | None = None,
    method: str = "auto",
) -> list[Similar]:
    """`similar` for many nodes at once."""
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise ConfigError(f"k must be a whole number of 1 or more, got {k!r}")
    if among is not None:
        _check_same_model(source, among)
    own_ids, z = vectors(source, ids)
    own_names = display_names(source)
    try:
        rows = np.array([row_of(own_ids, query, own_names) for query in queries], np.int64)
    except UnknownIdError:
        _refuse_turned(source, among, queries)
        raise
    searched_ids, searched, skip, names = own_ids, z, rows, own_names
    blocks = _blocks_of(source, among) if blocks is None else blocks
    if among is not None:
        searched_ids, searched = vectors(among)
        if searched.shape[1] != z.shape[1]:
            raise FeatureError(f"both must be vectors of one model, got widths {z.shape[1]} and {searched.shape[1]}")
        skip, names = np.full(len(rows), -1), display_names(among)
    index = Index(weighted(searched, blocks, weights), method=method, n_queries=len(rows))
    neighbors, distances = index.nearest(weighted(z[rows], blocks, weights), k, skip)
    out = []
    for row, near, distance in zip(rows, neighbors, distances, strict=True):
        rows_near = pa.array(near[near >= 0])
        matches = tuple(zip(searched_ids.take(rows_near).to_pylist(), map(float, distance[near >= 0]), strict=True))
        name = None if own_names is None else own_names[int(row)].as_py()
        names_near = () if names is None else tuple(names.take(rows_near).to_pylist())
        out.append(Similar(own_ids[int(row)].as_py(), matches, index.method, index.recall, name, names_near))
    return out


def display_names(source: Any) -> pa.Array | None:
    """The display names of a Run's nodes, None for anything else and where it has none."""
    return source.names() if hasattr(source, "embeddings") and hasattr(source, "names") else None


def _blocks_of(*sources: Any) -> Sequence[Block]:
    """The blocks of the first of these that has any."""
    return next((blocks for source in sources if (blocks := getattr(source, "blocks", ()))), ())


class Index:
    """Vectors to search; `recall` is the share of the true nearest that a search returns."""

    def __init__(self, z: Any, *, method: str = "auto", n_queries: int = 1, target_recall: float = RECALL) -> None:
        if method not in METHODS:
            raise ConfigError(f"method must be one of {', '.join(map(repr, METHODS))}, got {method!r}")
        self.z: Floats = np.ascontiguousarray(z, dtype=np.float32)
        large = len(self.z) > EXACT_ROWS and n_queries > EXACT_QUERIES
        self.method, self.recall, self.note = "exact", 1.0, ""
        self._lists: Any = None
        self._target_recall = target_recall
        if method == "approximate" or (method == "auto" and large):
            try:
                self._build()
            except MissingExtraError as error:
                if method == "approximate":
                    raise
                self.note = f"searched exactly, which takes longer: {error}"

    def nearest(self, queries: Floats, k: int, skip: Ints | None = None) -> tuple[Ints, Floats]:
        """Rows and distances, nearest first, without row skip[i]; -1 for no row.  (q, d) -> (q, k), (q, k)"""
        if self._lists is None:
            return nearest_rows(self.z, queries, k, skip)
        skip = np.full(len(queries), -1) if skip is None else np.asarray(skip, np.int64)
        squared, rows = self._lists.search(self._scale(queries).astype(np.float32), k + 1)
        return _drop_skipped(rows.astype(np.int64), np.sqrt(np.maximum(squared, 0)), skip, k)

    def _build(self) -> None:
        faiss = _faiss()
        n, width = self.z.shape
        lists = max(1, min(int(4 * n**0.5), n // 39))  # faiss warns of fewer than 39 vectors per list
        rng = generator(0, "search")
        training = np.sort(rng.choice(n, min(n, 64 * lists), replace=False))
        self._scale = Scale.of(self.z)
        index = faiss.IndexIVFFlat(faiss.IndexFlatL2(width), width, lists, faiss.METRIC_L2)
        index.train(self._scale(self.z[training]).astype(np.float32))
        for start, stop in row_chunks(n, 65_536):
            index.add(self._scale(self.z[start:stop]).astype(np.float32))
        self._lists, self.method = index, "approximate"
        trial = np.sort(rng.choice(n, min(n, TRIALS), replace=False)).astype(np.int64)
        queries, k = self.z[trial], min(10, n - 1)
        _, truth = nearest_rows(self.z, queries, k, trial)
        for probes in PROBES:
            index.nprobe = min(probes, lists)
            _, distance = self.nearest(queries, k, trial)
            self.recall = float((distance <= truth[:, -1:] + 1e-5).mean()) if k else 1.0  # equals are as good
            if self.recall >= self._target_recall:
                break

    def get_ready_to_change(self) -> None:
        """Prepare an approximate index so that `put` can replace its vectors."""
        index = self._lists
        index.make_direct_map()  # from row to the position of its vector
        self._centres: Floats = index.quantizer.reconstruct_n(0, index.nlist)
        for number, length in enumerate([index.invlists.list_size(number) for number in range(index.nlist)]):
            index.invlists.resize(number, length + length // ROOM + 1)  # so that `put` need not double it
            index.invlists.resize(number, length)

    def lists_of(self, z: Floats) -> Ints:
        """The list of an approximate index that each of these vectors belongs to: that of the nearest centre."""
        scaled = self._scale(z).astype(np.float32)
        with libraries_alone("blas"):
            distances = np.square(self._centres).sum(1) - 2 * (scaled @ self._centres.T)
        lists: Ints = distances.argmin(1)
        return lists

    def put(self, rows: Ints, z: Floats, lists: Ints) -> None:
        """Replace the vectors of these rows, ascending, in an approximate index.

        Rows beyond the last are new. `lists` are those that `lists_of` gives. Not safe during a search.
        """
        faiss, index = _faiss(), self._lists
        codes = self._scale(z).astype(np.float32)
        n_old = int(np.searchsorted(rows, index.ntotal))
        if n_old:
            old, to, old_codes = rows[:n_old].astype(np.int64), lists[:n_old].astype(np.int64), codes[:n_old]
            pointers = faiss.swig_ptr(old), faiss.swig_ptr(to), faiss.swig_ptr(old_codes.view(np.uint8))
            index.direct_map.update_codes(index.invlists, n_old, *pointers)
        if n_old < len(rows):
            index.add(codes[n_old:])


def _drop_skipped(rows: Ints, distance: Floats, skip: Ints, k: int) -> tuple[Ints, Floats]:
    """The k + 1 nearest without the skipped row, or without the last where it is not among them."""
    own = rows == skip[:, None]
    own[~own.any(1), -1] = True
    shape = (len(rows), k)
    return rows[~own].reshape(shape), distance[~own].reshape(shape)


def _faiss() -> Any:
    return needed_library("faiss", "search", "an approximate search")


# ------------------------------------------------------------------------------------- ids


def vectors(source: Any, ids: Any = None) -> tuple[pa.Array, Floats]:
    """Ids and vectors of a Run, of a pair (ids, vectors), or of vectors alone, with the ids 0, 1, 2, ..."""
    if hasattr(source, "embeddings"):
        embeddings: tuple[pa.Array, Floats] = source.embeddings()
        return embeddings
    if isinstance(source, tuple):
        ids, source = source
    if is_frame(source):
        own, source = vectors_of(source)
        ids = own if ids is None else ids
    z = np.ascontiguousarray(source, dtype=np.float32)
    if z.ndim != 2 or 0 in z.shape:
        raise FeatureError(f"vectors must be a matrix with a row per node, got shape {z.shape}")
    column = pa.array(np.arange(len(z))) if ids is None else id_array(ids)
    if len(column) != len(z):
        raise FeatureError(f"ids must have one entry per row ({len(z):,}), got {len(column):,}")
    return column, z


def row_of(ids: pa.Array, id_or_name: Any, names: pa.Array | None = None) -> int:
    """The row of this id, converted to the type of the ids, or else of this display name.

    An unknown one is refused with the most similar ones, a name of several nodes with their ids.

    >>> row_of(pa.array([7, 8]), "Bob", pa.array(["Ann", "Bob"]))
    1
    """
    try:
        value = pa.array([id_or_name if not isinstance(id_or_name, np.generic) else id_or_name.item()])
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        value = pa.array([str(id_or_name)])
    row = index_in(value, ids)
    if row.null_count and names is not None:
        called = np.flatnonzero(pc.fill_null(pc.equal(names, str(id_or_name)), False).to_numpy(zero_copy_only=False))
        if len(called) > 1:
            several = shown(ids.take(pa.array(called)), 5)
            raise GraphError(f"{len(called):,} nodes are called {id_or_name!r}: ask by id, one of {several}")
        if len(called):
            return int(called[0])
    if row.null_count:
        hint = _suggestion(ids, str(id_or_name))
        if not hint and names is not None:
            hint = _suggestion(names.drop_null(), str(id_or_name))
        raise UnknownIdError(
            f"there is no node {id_or_name!r}; " + (hint or f"ids here are {ids.type} such as {shown(ids.slice(0, 3))}")
        )
    return int(row[0].as_py())


def _suggestion(ids: pa.Array, text: str) -> str:
    """ "did you mean ...?" for ids that are text, else ""; of many ids only likely ones are compared."""
    if not is_text(ids.type) or not text.strip():
        return ""  # blank text is a part of every id
    likely = ids
    if len(ids) > CANDIDATES:
        contains = pc.match_substring(ids, text, ignore_case=True)
        begins = pc.starts_with(ids, text[:2], ignore_case=True)
        similar_length = pc.less_equal(pc.abs(pc.subtract(pc.utf8_length(ids), len(text))), 3)
        likely = ids.filter(pc.or_(contains, pc.and_(begins, similar_length))).slice(0, CANDIDATES)
    names = likely.to_pylist()
    folded = {name.lower(): name for name in reversed(names)}
    close = [folded[f] for f in difflib.get_close_matches(text.lower(), folded, n=3, cutoff=0.6)]
    close = close or [name for name in names if text.lower() in name.lower()][:3]
    return f"did you mean {' or '.join(map(repr, close))}?" if close else ""


def _refuse_turned(source: Any, among: Any, queries: Sequence[Any]) -> None:
    """Refuse ids that only the vectors to search have, with the question that would be answered."""
    names = [str(query) for query in queries]
    if among is None or index_in(pa.array(names), vectors(among)[0]).null_count:
        return
    said = f"{', '.join(names)} is no node of the first vectors, but of those to search; ask the other way"
    if (here := getattr(source, "path", None)) and (there := getattr(among, "path", None)):
        said += f": {shlex.join(['rae', 'similar', str(there), *names, '--in', str(here)])}"
    raise UnknownIdError(said)


def _check_same_model(source: Any, among: Any) -> None:
    """Refuse vectors of two models; unknown ones (None) pass."""
    first, second = (getattr(x, "model_checksum", None) for x in (source, among))
    if first is not None and second is not None and first != second:
        raise RunError(
            f"the vectors of {source.path} and {among.path} were made by different models, so they cannot be compared; "
            "embed both graphs with one: rae embed RUN EDGES --out z.parquet"
        )
