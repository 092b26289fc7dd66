"""Vectors as a collection of Qdrant: in a folder (its local mode), or on a server."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa

from rae.errors import FileError, needed_library, one_line
from rae.export.contract import MARK, Options, Written, check_table, refuse_table
from rae.export.vectors import VECTOR, Vectors, matrix, plain, vectors_of
from rae.run import Run

KEY = "QDRANT_API_KEY"  # the variable of the environment that holds the key of a server
NAMESPACE = uuid.UUID("6d1f3b52-5a0e-5a3c-9d57-0f4f2c7f7b10")  # of points whose ids are no whole numbers
COMPLETE = "complete"


def write(run: Run, target: str, options: Options) -> Written:
    """Write the vectors of a run as a collection, in batches; an incomplete collection is resumed.

    Qdrant has no transactions: until all points are there, the metadata of the collection says `complete: false`, and
    the same call writes all of them again. Whole numbers from 0 up are the ids of points; other ids get a UUID each,
    the same one every time, and are in the payload.
    """
    client, table = _client(target), check_table(options.table)
    try:
        metadata = _check(client, table, target, options)
        vectors = vectors_of(run, options)
        try:
            _write(client, table, vectors, _is_begun(metadata, vectors), options)
        except Exception as error:
            raise FileError(f"cannot write {table} in {target}: {one_line(error)}; the same call goes on") from error
    finally:
        client.close()
    return Written("qdrant", f"{table} in {target}", rows=vectors.table.num_rows)


def _client(target: str) -> Any:
    qdrant = needed_library("qdrant_client", "qdrant", "a collection of Qdrant", "qdrant-client")
    if target.startswith(("http://", "https://")):
        return qdrant.QdrantClient(url=target, api_key=os.environ.get(KEY) or None, check_compatibility=False)
    if Path(target).is_file():
        raise FileError(f"cannot write {target}: it is a file, and Qdrant's local mode takes a folder")
    try:
        return qdrant.QdrantClient(path=target)
    except (RuntimeError, OSError) as error:
        raise FileError(f"cannot write {target}: {one_line(error)}") from None


def _check(client: Any, table: str, where: str, options: Options) -> dict[str, Any]:
    """The metadata of an existing collection; one that may not be replaced is refused."""
    try:
        if not client.collection_exists(table):
            return {}
        metadata: dict[str, Any] = client.get_collection(table).config.metadata or {}
    except Exception as error:  # each client raises its own errors where a server does not answer
        raise FileError(f"cannot reach {where}: {one_line(error)}") from None
    if MARK not in metadata or (metadata.get(COMPLETE) is not False and not options.force):
        refuse_table("collection", table, where, force=options.force, ours=MARK in metadata)
    return metadata


def _is_begun(metadata: dict[str, Any], vectors: Vectors) -> bool:
    """Whether an incomplete collection is one of these vectors, to resume."""
    same = all(metadata.get(name) == vectors.about.get(name) for name in ("model", "update", "weighted", "blocks"))
    return same and metadata.get(COMPLETE) is False


def _write(client: Any, table: str, vectors: Vectors, resumes: bool, options: Options) -> None:
    from qdrant_client import models

    if not resumes:
        client.delete_collection(table)
        shape = models.VectorParams(size=vectors.width, distance=models.Distance.EUCLID)
        client.create_collection(table, vectors_config=shape, metadata=vectors.about | {COMPLETE: False})
    names = [name for name in vectors.table.column_names if name != VECTOR]
    for part in vectors.batches(options):
        columns = [plain(part.column(name)).to_pylist() for name in names]
        payloads = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        points = models.Batch(ids=point_ids(part.column("id")), vectors=matrix(part).tolist(), payloads=payloads)
        client.upsert(table, points, wait=True)
    client.update_collection(table, metadata={COMPLETE: True})


def point_ids(ids: pa.ChunkedArray) -> list[Any]:
    """The ids of the points of these nodes.

    >>> point_ids(pa.chunked_array([[7, 8]]))
    [7, 8]
    >>> point_ids(pa.chunked_array([["ann"]]))
    ['33de158e-5c1d-5b6d-8129-96eb7e4d2bd9']
    """
    values: list[Any] = ids.to_pylist()
    if pa.types.is_integer(ids.type) and min(values, default=0) >= 0:
        return values
    return [str(uuid.uuid5(NAMESPACE, str(value))) for value in values]
