"""Roles on disk: roles.safetensors to apply, roles.parquet per node, roles.json of cards, written last.

roles.parquet    id, role (int32), confidence (float32), membership (list of float32, one per role)
roles.json       format, model, k, criterion, rule in words, curve [[k, value], ...], settings, nodes, cards
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rae.errors import FileError
from rae.roles.canonical import CHUNK, Floats, Ints, chunks
from rae.roles.cards import Card
from rae.roles.fitted import Assignment, Roles
from rae.roles.number import STRENGTH
from rae.storage.atomic import atomic_path, write_json

FORMAT, FORMAT_VERSION = "rae roles", 1
TABLE, CARDS, FITTED = "roles.parquet", "roles.json", "roles.safetensors"


def write_roles(folder: Path, ids: pa.Array, roles: Roles, assignment: Assignment, cards: Sequence[Card]) -> None:
    """Keep the roles in this folder; the ones that lie there are replaced."""
    (folder / CARDS).unlink(missing_ok=True)  # until it is back, there are no roles here
    roles.save(folder / FITTED)
    write_table(folder / TABLE, ids, assignment)
    write_json(folder / CARDS, record(roles, assignment, cards))


def record(roles: Roles, assignment: Assignment, cards: Sequence[Card]) -> dict[str, Any]:
    """What roles.json holds."""
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "model": roles.model,
        "k": roles.n_roles,
        "criterion": roles.criterion,
        "rule": rule(roles),
        "threshold": _threshold(roles),
        "curve": [[k, round(strength, 4)] for k, strength in roles.curve.items()],
        "settings": roles.fitted.settings,
        "nodes": len(assignment.labels),
        "confidence": round(float(np.median(assignment.confidence)), 4),
        "cards": [card.as_dict() for card in cards],
    }


def _threshold(roles: Roles) -> float | None:
    """The height in the curve that decides, where one does; of steady positions the highest point decides."""
    return STRENGTH if roles.criterion == "prediction strength" and roles.curve else None


def rule(roles: Roles) -> str:
    """How the number of roles was found, in one sentence."""
    k = roles.n_roles
    if roles.criterion == "given":
        return f"{k} roles, as asked for"
    if roles.criterion == "positions" and k == 1:
        return "1 role: all vectors are equal up to rounding"
    if roles.criterion == "positions":
        return f"{k} roles: the exact positions that most nodes share"
    if roles.criterion == "steady positions":
        return f"{k} roles: the positions that random edges cannot have made"
    if not roles.curve:
        return "1 role: too few different nodes to tell roles apart"
    if roles.curve[k] >= STRENGTH:
        return f"{k} roles: the most that two halves of the nodes agree on (prediction strength {roles.curve[k]:.2f})"
    return (
        f"{k} roles: the number that two halves of the nodes agree on best, though weakly "
        f"(prediction strength {roles.curve[k]:.2f}, below {STRENGTH})"
    )


def write_table(path: Path, ids: pa.Array, assignment: Assignment) -> None:
    """Write id, role, confidence and membership, whole or not at all."""
    k = assignment.memberships.shape[1]
    vectors = pa.list_(pa.float32(), k)
    schema = pa.schema([("id", ids.type), ("role", pa.int32()), ("confidence", pa.float32()), ("membership", vectors)])
    with atomic_path(path) as hidden, pq.ParquetWriter(hidden, schema) as writer:
        for a, b in chunks(len(ids), 4 * CHUNK):
            lists = pa.FixedSizeListArray.from_arrays(pa.array(assignment.memberships[a:b].ravel()), type=vectors)
            columns = [ids.slice(a, b - a), assignment.labels[a:b], assignment.confidence[a:b], lists]
            writer.write_table(pa.table(columns, schema=schema))


def read_table(path: Path) -> tuple[pa.Array, Ints, Floats, Floats]:
    """The ids, roles, confidences and memberships of a roles.parquet.  -> (n,), (n,), (n,), (n, k)"""
    try:
        table = pq.read_table(path, columns=["id", "role", "confidence", "membership"]).combine_chunks()
        columns = [table.column(name) for name in table.column_names]
        ids, role, confidence, lists = (
            c.chunk(0) if c.num_chunks == 1 else pa.concat_arrays(c.chunks) if c.num_chunks else pa.array([], c.type)
            for c in columns
        )
        memberships = lists.flatten().to_numpy(zero_copy_only=False).astype(np.float32)
        shaped = memberships.reshape(len(ids), -1)
        return ids, role.to_numpy().astype(np.int64), confidence.to_numpy().astype(np.float32), shaped
    except (OSError, ValueError, pa.ArrowException, AttributeError) as error:
        raise FileError(f"{path} is not a table of roles ({error}); run `rae roles` again") from None


def read_record(path: Path) -> dict[str, Any]:
    """What roles.json says; a damaged, foreign or newer one is refused."""
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        known = told["format"] == FORMAT and isinstance(told["format_version"], int) and isinstance(told["cards"], list)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FileError(f"{path} is not what `rae roles` writes ({error}); run it again") from None
    if not known:
        raise FileError(f"{path} is not what `rae roles` writes; is this another program's file?")
    if told["format_version"] > FORMAT_VERSION:
        raise FileError(f"{path} has format version {told['format_version']}, this rae reads up to {FORMAT_VERSION}")
    out: dict[str, Any] = told
    return out
