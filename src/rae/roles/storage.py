"""Roles on disk: roles.safetensors to apply, roles.parquet per node, roles.json of cards, written last.

roles.safetensors    projection, centres and sizes as tensors; everything else as JSON in the header
roles.parquet        id, role (int32), confidence (float32), membership (list of float32, one per role)
roles.json           format, model, k, criterion, rule in words, weak, threshold, curve [[k, value], ...],
                     settings, weights of blocks, nodes, confidence, cards
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rae.blocks import Block, blocks_from
from rae.errors import CheckpointError, FileError
from rae.roles.cards import Card
from rae.roles.model import Assignment, Parameters, Roles
from rae.roles.number import STRONG, Choice
from rae.roles.vectors import Floats, Ints, Projection, chunks
from rae.storage.atomic import atomic_path, write_json
from rae.version import __version__

PARAMETERS, TABLE, RECORD = "roles.safetensors", "roles.parquet", "roles.json"
PARAMETERS_VERSION = 2  # 1: without blocks and weights
HEADER = "rae roles"
RECORD_FORMAT, RECORD_VERSION = "rae roles", 1
TABLE_ROWS = 262_144  # rows written at a time


def write_roles(folder: Path, ids: pa.Array, roles: Roles, assignment: Assignment, cards: Sequence[Card]) -> None:
    """Write the three files into this folder, replacing those in it."""
    (folder / RECORD).unlink(missing_ok=True)  # a folder has roles only with its record
    roles.save(folder / PARAMETERS)
    write_table(folder / TABLE, ids, assignment)
    write_json(folder / RECORD, make_record(roles, assignment, cards))


# ------------------------------------------------------------------------------- roles.safetensors


def save_parameters(parameters: Parameters, path: str | Path) -> None:
    """Write the parameters to one file, atomically."""
    from safetensors.numpy import save

    choice, projection = parameters.choice, parameters.projection
    header = {
        "format": PARAMETERS_VERSION,
        "version": __version__,
        "radius": parameters.radius,
        "criterion": choice.criterion,
        "curve": [[k, value] for k, value in choice.curve.items()],
        "settings": parameters.settings,
        "leading": projection.leading,
        "model": parameters.model,
        "blocks": [block.as_dict() for block in parameters.blocks],
        "weights": parameters.weights,
    }
    arrays = {
        "mean": projection.mean,
        "directions": projection.directions,
        "centers": parameters.centers,
        "sizes": parameters.sizes.astype(np.int64),
    }
    data = save(arrays, metadata={HEADER: json.dumps(header, sort_keys=True)})
    with atomic_path(path) as temporary:
        temporary.write_bytes(data)


def load_parameters(path: str | Path) -> Parameters:
    """The parameters in this file; a damaged, foreign or newer file is refused."""
    from safetensors import SafetensorError, safe_open

    path = Path(path)
    if not path.is_file():
        raise CheckpointError(f"no roles at {path}; `rae roles RUN` finds them and writes the file")
    try:
        with safe_open(path, framework="np") as file:
            text = (file.metadata() or {}).get(HEADER)
            arrays = {name: file.get_tensor(name) for name in file.keys()} if text else {}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(f"{path} is not a whole safetensors file ({error}); run `rae roles` again") from None
    if text is None:
        raise CheckpointError(f"{path} is a safetensors file, but holds no roles (its header has no {HEADER!r})")
    try:
        header = json.loads(text)
        newer = int(header["format"]) > PARAMETERS_VERSION
    except (ValueError, TypeError, KeyError):
        raise CheckpointError(f"the header of {path} is damaged; run `rae roles` again") from None
    if newer:
        number = header["format"]
        raise CheckpointError(f"{path} has format {number}, this rae reads up to {PARAMETERS_VERSION}; upgrade rae")
    try:
        return _parameters(header, arrays)
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} does not hold the roles its header describes ({error})") from None


def _parameters(header: dict[str, Any], arrays: dict[str, Any]) -> Parameters:
    mean, directions, centers, sizes = (arrays[name] for name in ("mean", "directions", "centers", "sizes"))
    shapes_agree = directions.ndim == centers.ndim == 2 and (
        directions.shape == (len(mean), centers.shape[1]) and mean.ndim == 1 and sizes.shape == (len(centers),)
    )
    if not shapes_agree or not all(np.isfinite(array).all() for array in arrays.values()) or not len(centers):
        raise ValueError("its arrays do not fit together")
    radius, settings, model = float(header["radius"]), dict(header["settings"]), header["model"]
    if not radius > 0 or not {"k", "max_k", "seed"} <= set(settings) or not isinstance(model, str | None):
        raise ValueError("settings are missing")
    curve = {int(k): float(value) for k, value in header["curve"]}
    choice = Choice(len(centers), str(header["criterion"]), curve)
    projection = Projection(mean, directions, int(header["leading"]))
    blocks, weights = _blocks(header.get("blocks", []), header.get("weights", {}), len(mean))
    return Parameters(projection, centers, radius, sizes, choice, settings, model, blocks, weights)


def _blocks(records: Any, weights: Any, width: int) -> tuple[tuple[Block, ...], dict[str, float]]:
    """The blocks and weights of a header; ValueError where they do not make up `width` weighted columns."""
    if not records:
        return (), {}
    blocks = blocks_from(records, int(records[-1]["stop"]))
    if set(weights) != {block.name for block in blocks}:
        raise ValueError("weights are missing")
    weights = {block.name: float(weights[block.name]) for block in blocks}
    if sum(block.width for block in blocks if weights[block.name]) != width:
        raise ValueError("its blocks do not fit its arrays")
    return blocks, weights


# ----------------------------------------------------------------------------------- roles.parquet


def write_table(path: Path, ids: pa.Array, assignment: Assignment) -> None:
    """Write id, role, confidence and membership of every node, atomically."""
    schema = assignment_table(ids, assignment, 0, 0).schema
    with atomic_path(path) as temporary, pq.ParquetWriter(temporary, schema) as writer:
        for start, stop in chunks(len(ids), TABLE_ROWS):
            writer.write_table(assignment_table(ids, assignment, start, stop))


def assignment_table(ids: pa.Array, assignment: Assignment, start: int = 0, stop: int | None = None) -> pa.Table:
    """Rows start..stop of the table in roles.parquet."""
    stop = len(ids) if stop is None else stop
    vectors = pa.list_(pa.float32(), assignment.memberships.shape[1])
    schema = pa.schema([("id", ids.type), ("role", pa.int32()), ("confidence", pa.float32()), ("membership", vectors)])
    values = pa.array(assignment.memberships[start:stop].ravel())
    columns = [
        ids.slice(start, stop - start),
        assignment.labels[start:stop],
        assignment.confidence[start:stop],
        pa.FixedSizeListArray.from_arrays(values, type=vectors),
    ]
    return pa.table(columns, schema=schema)


def read_table(path: Path) -> tuple[pa.Array, Ints, Floats, Floats]:
    """The ids, roles, confidences and memberships of a roles.parquet.  -> (n,), (n,), (n,), (n, k)"""
    try:
        table = pq.read_table(path, columns=["id", "role", "confidence", "membership"]).combine_chunks()
        columns = [table.column(name) for name in table.column_names]
        ids, role, confidence, lists = (
            c.chunk(0) if c.num_chunks == 1 else pa.concat_arrays(c.chunks) if c.num_chunks else pa.array([], c.type)
            for c in columns
        )
        memberships = lists.flatten().to_numpy(zero_copy_only=False).astype(np.float32).reshape(len(ids), -1)
        return ids, role.to_numpy().astype(np.int64), confidence.to_numpy().astype(np.float32), memberships
    except (OSError, ValueError, pa.ArrowException, AttributeError) as error:
        raise FileError(f"{path} is not a table of roles ({error}); run `rae roles` again") from None


# -------------------------------------------------------------------------------------- roles.json


def make_record(roles: Roles, assignment: Assignment, cards: Sequence[Card]) -> dict[str, Any]:
    """The content of roles.json."""
    return {
        "format": RECORD_FORMAT,
        "format_version": RECORD_VERSION,
        "model": roles.model,
        "k": roles.n_roles,
        "criterion": roles.criterion,
        "rule": describe_number(roles.parameters.choice),
        "weak": roles.weak,
        "threshold": STRONG if roles.curve and roles.criterion == "prediction strength" else None,
        "curve": [[k, round(strength, 4)] for k, strength in roles.curve.items()],
        "settings": roles.parameters.settings,
        "weights": roles.parameters.weights,
        "nodes": len(assignment.labels),
        "confidence": round(float(np.median(assignment.confidence)), 4),
        "cards": [card.as_dict() for card in cards],
    }


def describe_number(choice: Choice) -> str:
    """How the number of roles was chosen, in one sentence.

    >>> describe_number(Choice(2, "prediction strength", {2: 0.85, 3: 0.6}))
    '2 roles: the most that two halves of the nodes agree on (prediction strength 0.85)'
    """
    number = f"{choice.k} role{'s' if choice.k > 1 else ''}"
    if choice.criterion == "given":
        return f"{number}, as asked for"
    if choice.criterion == "positions":
        return f"{number}: " + (
            "the exact positions of the nodes" if choice.k > 1 else "all vectors are equal up to rounding"
        )
    if choice.criterion == "steady positions":  # in files of versions that counted positions through noise
        return f"{number}: the positions that random edges cannot have made"
    if not choice.curve:
        return f"{number}: too few different nodes to tell roles apart"
    strength = f"prediction strength {choice.curve[choice.k]:.2f}"
    if choice.weak:
        return (
            f"{number}, a weak choice: two halves of the nodes agree on no number of roles, "
            f"and come nearest at this one ({strength}, below {STRONG})"
        )
    return f"{number}: the most that two halves of the nodes agree on ({strength})"


def read_record(path: Path) -> dict[str, Any]:
    """The content of a roles.json; a damaged, foreign or newer file is refused."""
    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        ours = record["format"] == RECORD_FORMAT
        whole = isinstance(record["format_version"], int) and isinstance(record["cards"], list)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FileError(f"{path} is not what `rae roles` writes ({error}); run it again") from None
    if not (ours and whole):
        raise FileError(f"{path} is not what `rae roles` writes; is this another program's file?")
    if record["format_version"] > RECORD_VERSION:
        raise FileError(f"{path} has format version {record['format_version']}, this rae reads up to {RECORD_VERSION}")
    return record
