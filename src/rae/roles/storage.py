"""Roles on disk: roles.safetensors to apply, roles.parquet per node, roles.json of cards, written last.

roles.safetensors    projection, centres and sizes as tensors; everything else as JSON in the header
roles.parquet        id, role (int32), confidence (float32), membership (list of float32, one per role)
roles.json           format, model, k, criterion, rule in words, weak, threshold, curve [[k, value], ...],
                     settings, weights of blocks, nodes, confidence, cards
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rae.blocks import LARGEST_WEIGHT, Block, blocks_from
from rae.errors import CheckpointError, FileError, RaeError, one_line
from rae.graph.frames import float_column
from rae.io.features import list_matrix
from rae.io.tables import open_table, read_ids
from rae.memory import row_chunks
from rae.roles.cards import Card
from rae.roles.model import Assignment, Parameters, Roles
from rae.roles.number import STRONG, Choice
from rae.roles.vectors import Floats, Ints, Projection
from rae.storage.atomic import atomic_path, write_json
from rae.storage.documents import expect, read_json
from rae.storage.tensors import read_tensors, write_tensors
from rae.version import __version__

PARAMETERS, TABLE, RECORD = "roles.safetensors", "roles.parquet", "roles.json"
PARAMETERS_VERSION = 2  # 1: without blocks and weights
HEADER = "rae roles"
RECORD_FORMAT, RECORD_VERSION = "rae roles", 1
LARGEST, SMALLEST_RADIUS = 1e100, 1e-100  # of numbers in a file: their squares are finite
TABLE_ROWS = 262_144  # rows written at a time


@dataclass(frozen=True)
class AppliedRoles:
    """Where the roles of a run were assigned to other nodes: a table or another run, and how many play each role."""

    path: Path
    sizes: tuple[int, ...]


def table_beside(vectors: Path) -> Path:
    """The table of the roles of a file of vectors.

    >>> table_beside(Path("z.v1.csv.gz")).name
    'z.v1.roles.parquet'
    """
    return vectors.with_name(f"{_SUFFIX.sub('', vectors.name)}.roles.parquet")


_SUFFIX = re.compile(r"\.(parquet|csv|tsv|txt|arrow|feather)(\.(gz|bz2|xz|zst))?$", re.IGNORECASE)


def write_roles(
    folder: Path, ids: pa.Array, roles: Roles, assignment: Assignment, cards: Sequence[Card], *, update: int = 0
) -> None:
    """Write the three files into this folder, replacing those in it; `update` says how often its run was updated."""
    (folder / RECORD).unlink(missing_ok=True)  # a folder has roles only with its record
    roles.save(folder / PARAMETERS)
    write_table(folder / TABLE, ids, assignment)
    write_json(folder / RECORD, make_record(roles, assignment, cards) | ({"update": update} if update else {}))


# ------------------------------------------------------------------------------- roles.safetensors


def save_parameters(parameters: Parameters, path: str | Path) -> None:
    """Write the parameters to one file, atomically."""
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
    write_tensors(path, HEADER, header, arrays)


def load_parameters(path: str | Path) -> Parameters:
    """The parameters in this file; a damaged, foreign or newer file is refused."""
    path = Path(path)
    if not path.is_file():
        raise CheckpointError(f"no roles at {path}; `rae roles RUN` finds them and writes the file")
    header, arrays = read_tensors(path, HEADER, PARAMETERS_VERSION, _PARAMETERS, "run `rae roles` again")
    try:
        expect(header, _PARAMETERS)
        return _parameters(header, arrays)
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} does not hold the roles its header describes ({one_line(error)})") from None


_PARAMETERS = {
    "radius": float,
    "criterion": str,
    "curve": [[float]],
    "settings": {"k": (int, str), "max_k": int, "seed": int},
    "leading": int,
    "model": (str, None),
    "blocks?": [dict],
    "weights?": {str: float},
}
_ARRAYS = {"mean": (1, np.float64), "directions": (2, np.float64), "centers": (2, np.float64), "sizes": (1, np.int64)}


def _parameters(header: dict[str, Any], arrays: dict[str, Any]) -> Parameters:
    if set(arrays) != set(_ARRAYS):
        raise ValueError(f"expected the tensors {', '.join(_ARRAYS)}, got {', '.join(arrays)[:80] or 'none'}")
    for name, (dimensions, kind) in _ARRAYS.items():
        if arrays[name].ndim != dimensions or arrays[name].dtype != kind or not (abs(arrays[name]) <= LARGEST).all():
            raise ValueError(f"{name} must be {dimensions}-dimensional, of {np.dtype(kind).name} and finite")
    mean, directions, centers, sizes = (arrays[name] for name in _ARRAYS)
    shapes_agree = directions.shape == (len(mean), centers.shape[1]) and sizes.shape == (len(centers),)
    if not shapes_agree or not centers.size or not 0 <= header["leading"] <= centers.shape[1]:
        raise ValueError("its arrays do not fit together")
    settings, k = header["settings"], header["settings"]["k"]
    if not SMALLEST_RADIUS <= header["radius"] <= LARGEST or min(settings["max_k"], 1 if k == "auto" else k) < 1:
        raise ValueError("its settings are damaged")
    curve = {int(k): float(value) for k, value in header["curve"]}
    if header["criterion"] == "prediction strength" and curve and len(centers) not in curve:
        raise ValueError("its curve lacks the number of roles")
    choice = Choice(len(centers), header["criterion"], curve)
    projection = Projection(mean, directions, header["leading"])
    blocks, weights = _blocks(header.get("blocks", []), header.get("weights", {}), len(mean))
    return Parameters(projection, centers, header["radius"], sizes, choice, settings, header["model"], blocks, weights)


def _blocks(records: Any, weights: Any, width: int) -> tuple[tuple[Block, ...], dict[str, float]]:
    """The blocks and weights of a header; ValueError where they do not make up `width` weighted columns."""
    if not records:
        return (), {}
    blocks = blocks_from(records, records[-1]["stop"])
    if set(weights) != {block.name for block in blocks} or not all(0 <= w <= LARGEST_WEIGHT for w in weights.values()):
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
        for start, stop in row_chunks(len(ids), TABLE_ROWS):
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
        table = open_table(path)
        columns = ("id", "role", "confidence", "membership")
        if absent := [name for name in columns if name not in table.names]:
            raise FileError(f"it has no column {absent[0]!r}")
        (ids,) = read_ids(table, {"role": table.names.index("id")})
        role, confidence, lists = table.read([table.names.index(name) for name in columns[1:]])  # type: ignore[arg-type]
        if not pa.types.is_fixed_size_list(lists.type):
            raise FileError(f"its memberships are {lists.type}")
        memberships = list_matrix(lists, "membership")
        roles, sure = float_column(role, "role"), float_column(confidence, "confidence")
    except RaeError as error:
        raise FileError(f"{path} is not a table of roles (", error, "); run `rae roles` again") from None
    k = memberships.shape[1]
    sound = pa.types.is_integer(role.type) and ((roles >= 0) & (roles < k)).all() and len(ids) > 0
    if not sound or not all(((part >= 0) & (part <= 1)).all() for part in (sure, memberships)):
        raise FileError(f"{path} is not a table of roles (some lie outside of 0 to {k - 1}); run `rae roles` again")
    return ids, roles.astype(np.int64), sure, memberships


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


_NUMBERS = [float]
_MEASURE = {"quartiles": _NUMBERS, "percentiles": _NUMBERS}
_ACTION = {"feature": str, "column": int, "overall": float}
_CARD = {
    "role": int,
    "size": int,
    "share": float,
    "confidence": float,
    "prototypes": [(str, float, bool)],
    "names?": [(str, None)],
    "structure": {str: _MEASURE},
    "edges": {"inside?": float, "to?": _NUMBERS},
    "actions": [({**_ACTION, "lift": float, "share": float}, {**_ACTION, "shift": float, "mean": float})],
    "summary": str,
}
_RECORD = {
    "k": int,
    "criterion": str,
    "rule": str,
    "nodes": int,
    "update?": int,
    "weights?": {str: float},
    "cards": [_CARD],
}


def read_record(path: Path) -> dict[str, Any]:
    """The content of a roles.json; a damaged, foreign or newer file is refused."""
    try:
        record: dict[str, Any] = read_json(path)
        expect(record, {"format": str, "format_version": int})
    except (OSError, ValueError) as error:
        raise FileError(f"{path} is not what `rae roles` writes ({one_line(error)}); run it again") from None
    if record["format"] != RECORD_FORMAT:
        raise FileError(f"{path} is not what `rae roles` writes; is this another program's file?")
    if record["format_version"] > RECORD_VERSION:
        raise FileError(f"{path} has format version {record['format_version']}, this rae reads up to {RECORD_VERSION}")
    try:
        expect(record, _RECORD)
        _check_cards(record["cards"])
    except ValueError as error:
        raise FileError(f"{path} is not what `rae roles` writes ({error}); run it again") from None
    return record


def _check_cards(cards: Sequence[Mapping[str, Any]]) -> None:
    """ValueError for cards that are not one per role, or whose lists do not go together."""
    for role, card in enumerate(cards):
        structure, edges, prototypes = card["structure"], card["edges"], card["prototypes"]
        sound = card["role"] == role and len(card.get("names") or prototypes) == len(prototypes)
        sound = sound and (not structure or {"degree", "core"} <= set(structure))
        sound = sound and all(len(measure[part]) == 3 for measure in structure.values() for part in _MEASURE)
        if not sound or (edges and len(edges.get("to", ())) != len(cards)) or ("inside" in edges) != bool(edges):
            raise ValueError(f"card {role} is damaged")
