"""Look-alikes: the nodes whose vectors point the same way, exactly or by an index, with its recall measured.

One question is one pass over the vectors, which no index beats once building it is counted. Many
questions at once to many vectors are answered by an inverted index (faiss), whose recall is
measured on questions answered both ways before its first answer is given.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rae.errors import ConfigError, FeatureError, GraphError, MissingExtraError, RunError
from rae.graph.ids import id_array, index_in, shown
from rae.runtime import generator

Floats = np.ndarray[Any, np.dtype[np.float32]]
Ints = np.ndarray[Any, np.dtype[np.int64]]

EXACT_ROWS = 200_000  # up to so many vectors every question is answered exactly
EXACT_QUESTIONS = 5_000  # up to so many questions too: building an index for fewer takes longer than it saves
RECALL = 0.95  # an index looks through more of its lists until it finds this share of the true nearest
PROBES, TRIED = (8, 16, 32, 64, 128, 256), 200  # lists looked through, questions answered both ways
BLOCK = 1 << 26  # bytes of the product that is alive at a time
CANDIDATES = 5_000  # ids compared letter by letter for "did you mean"
METHODS = ("auto", "exact", "approximate")


@dataclass(frozen=True)
class Similar:
    """A node and its look-alikes, nearest first, each with its cosine; `recall` is 1 where the search was exact."""

    id: Any
    matches: tuple[tuple[Any, float], ...]
    method: str = "exact"
    recall: float = 1.0


def similar(
    source: Any,
    query: Any,
    k: int = 10,
    *,
    ids: Any = None,
    among: Any = None,
    method: str = "auto",
) -> Similar:
    """The k nodes most alike to this one by cosine.

    `source` is a Run, a pair (ids, vectors), or vectors with `ids` (row numbers where there are none);
    `query` is one of its ids. `among` is another Run of the same model, or such a pair, to look in
    instead: similar(read_embeddings("tomorrow.parquet"), "newcomer", among=run).

    >>> z = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
    >>> [name for name, cosine in similar(z, "ann", k=2, ids=["ann", "bob", "cid"]).matches]
    ['bob', 'cid']
    """
    return similar_to_each(source, [query], k, ids=ids, among=among, method=method)[0]


def similar_to_each(
    source: Any, queries: Sequence[Any], k: int = 10, *, ids: Any = None, among: Any = None, method: str = "auto"
) -> list[Similar]:
    """`similar` for many nodes at once."""
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise ConfigError(f"k must be a whole number of 1 or more, got {k!r}")
    own_ids, z = vectors(source, ids)
    rows = np.array([row_of(own_ids, query) for query in queries], np.int64)
    there, other, skip = own_ids, z, rows
    if among is not None:
        _same_model(source, among)
        there, other = vectors(among)
        if other.shape[1] != z.shape[1]:
            raise FeatureError(f"both must be vectors of one model, got widths {z.shape[1]} and {other.shape[1]}")
        skip = np.full(len(rows), -1)
    index = Index(other, method=method, questions=len(rows))
    near, cosine = index.nearest(z[rows], k, skip)
    out = []
    for row, found, value in zip(rows, near, cosine, strict=True):
        kept = found >= 0
        names = there.take(pa.array(found[kept])).to_pylist()
        matches = tuple(zip(names, (float(v) for v in value[kept]), strict=True))
        out.append(Similar(own_ids[int(row)].as_py(), matches, index.method, index.recall))
    return out


class Index:
    """Vectors that can be asked for the nearest of others; `recall` says what share of those it finds."""

    def __init__(self, z: Any, *, method: str = "auto", questions: int = 1) -> None:
        if method not in METHODS:
            raise ConfigError(f"method must be one of {', '.join(map(repr, METHODS))}, got {method!r}")
        self.z: Floats = np.ascontiguousarray(z, dtype=np.float32)
        large = len(self.z) > EXACT_ROWS and questions > EXACT_QUESTIONS
        self.method, self.recall, self.note = "exact", 1.0, ""
        self._lists: Any = None
        if method == "approximate" or (method == "auto" and large):
            try:
                self._build()
            except MissingExtraError as error:
                if method == "approximate":
                    raise
                self.note = f"searched exactly, which takes longer: {error}"

    def nearest(self, queries: Floats, k: int, skip: Ints | None = None) -> tuple[Ints, Floats]:
        """Rows and cosines, nearest first; row skip[i] is left out.  (q, d) -> (q, k), (q, k)

        Places that are left over hold -1.
        """
        unit = unit_rows(np.asarray(queries, np.float32))
        skip = np.full(len(unit), -1, np.int64) if skip is None else np.asarray(skip, np.int64)
        if self._lists is None:
            return exact(self.z, unit, k, skip)
        cosine, rows = self._lists.search(unit, k + 1)
        return _without(rows.astype(np.int64), cosine, skip, k)

    def _build(self) -> None:
        faiss = _faiss()
        n, width = self.z.shape
        lists = max(1, min(int(4 * n**0.5), n // 39))  # 39 vectors to a list is what its k-means asks for
        draw = generator(0, "search")
        learn = np.sort(draw.choice(n, min(n, 64 * lists), replace=False))
        index = faiss.IndexIVFFlat(faiss.IndexFlatIP(width), width, lists, faiss.METRIC_INNER_PRODUCT)
        index.train(unit_rows(self.z[learn]))
        for start in range(0, n, 65_536):
            index.add(unit_rows(self.z[start : start + 65_536]))
        self._lists, self.method = index, "approximate"
        asked = np.sort(draw.choice(n, min(n, TRIED), replace=False)).astype(np.int64)
        unit, k = unit_rows(self.z[asked]), min(10, n - 1)
        _, truth = exact(self.z, unit, k, asked)
        for probes in PROBES:
            index.nprobe = min(probes, lists)
            _, found = self.nearest(unit, k, asked)
            self.recall = float((found >= truth[:, -1:] - 1e-5).mean()) if k else 1.0  # equals are as good
            if self.recall >= RECALL:
                break


def exact(z: Floats, unit: Floats, k: int, skip: Ints) -> tuple[Ints, Floats]:
    """The k nearest by cosine of each unit vector, a block of rows at a time; among equals the lower row."""
    q = len(unit)
    best, near = np.full((q, k), -np.inf, np.float32), np.full((q, k), -1, np.int64)
    size = max(1, BLOCK // (4 * max(q, z.shape[1])))
    for start in range(0, len(z), size):
        block = unit_rows(z[start : start + size])
        cosine = unit @ block.T
        here = np.flatnonzero((skip >= start) & (skip < start + len(block)))
        cosine[here, skip[here] - start] = -np.inf
        kept = min(k, len(block))
        top = np.argpartition(-cosine, kept - 1, axis=1)[:, :kept]
        best = np.hstack([best, np.take_along_axis(cosine, top, 1)])
        near = np.hstack([near, top + start])
        order = np.lexsort((near, -np.round(best, 6)), axis=1)[:, :k]
        best, near = np.take_along_axis(best, order, 1), np.take_along_axis(near, order, 1)
    near[np.isneginf(best)] = -1
    return near, np.clip(best, -1, 1)


def unit_rows(z: Floats) -> Floats:
    """The rows with length one; a row of zeros stays so."""
    lengths = np.sqrt(np.einsum("ij,ij->i", z, z))[:, None]
    out: Floats = (z / np.maximum(lengths, np.float32(1e-12))).astype(np.float32, copy=False)
    return out


def _without(rows: Ints, cosine: Floats, skip: Ints, k: int) -> tuple[Ints, Floats]:
    """k of k + 1 answers: the asking row goes, or else the last one."""
    own = rows == skip[:, None]
    own[~own.any(1), -1] = True
    shape = (len(rows), k)
    return rows[~own].reshape(shape), np.clip(cosine[~own].reshape(shape), -1, 1)


def _faiss() -> Any:
    try:
        import faiss
    except ImportError:
        raise MissingExtraError("faiss", "search", "an approximate search") from None
    return faiss


# ------------------------------------------------------------------------------------- ids


def vectors(source: Any, ids: Any = None) -> tuple[pa.Array, Floats]:
    """Ids and vectors of a Run, of a pair (ids, vectors), or of vectors alone, called 0, 1, 2, ..."""
    if hasattr(source, "embeddings"):
        found: tuple[pa.Array, Floats] = source.embeddings()
        return found
    if isinstance(source, tuple):
        ids, source = source
    z = np.ascontiguousarray(source, dtype=np.float32)
    if z.ndim != 2 or 0 in z.shape:
        raise FeatureError(f"vectors must be a matrix with a row per node, got shape {z.shape}")
    column = pa.array(np.arange(len(z))) if ids is None else id_array(ids)
    if len(column) != len(z):
        raise FeatureError(f"ids must have one entry per row ({len(z):,}), got {len(column):,}")
    return column, z


def row_of(ids: pa.Array, wanted: Any) -> int:
    """The row of this id; text is read as the ids' own kind, an unknown id is refused with the nearest ones."""
    kind = ids.type
    try:
        value = pa.array([wanted if not isinstance(wanted, np.generic) else wanted.item()])
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        value = pa.array([str(wanted)])
    place = index_in(value, ids)
    if place.null_count:
        hint = _nearest_ids(ids, str(wanted))
        raise GraphError(
            f"there is no node {wanted!r}; " + (hint or f"ids here are {kind} such as {shown(ids.slice(0, 3))}")
        )
    return int(place[0].as_py())


def _nearest_ids(ids: pa.Array, wanted: str) -> str:
    """ "did you mean ...?", for ids that are text; of many ids only likely ones are compared."""
    if not (pa.types.is_string(ids.type) or pa.types.is_large_string(ids.type)) or not wanted.strip():
        return ""  # every id contains nothing
    likely = ids
    if len(ids) > CANDIDATES:
        part = pc.match_substring(ids, wanted, ignore_case=True)
        start = pc.starts_with(ids, wanted[:2], ignore_case=True)
        length = pc.less_equal(pc.abs(pc.subtract(pc.utf8_length(ids), len(wanted))), 3)
        likely = ids.filter(pc.or_(part, pc.and_(start, length))).slice(0, CANDIDATES)
    names = likely.to_pylist()
    folded = {name.lower(): name for name in reversed(names)}
    close = [folded[f] for f in difflib.get_close_matches(wanted.lower(), folded, n=3, cutoff=0.6)]
    close = close or [name for name in names if wanted.lower() in name.lower()][:3]
    return f"did you mean {' or '.join(map(repr, close))}?" if close else ""


def _same_model(source: Any, among: Any) -> None:
    first, second = (getattr(x, "model_checksum", None) for x in (source, among))
    if first is not None and second is not None and first != second:
        raise RunError(
            "the two runs have different models, so their vectors cannot be compared; "
            "embed the other graph with this run's model: rae embed RUN EDGES --out z.parquet"
        )
