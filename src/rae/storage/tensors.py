"""One safetensors file: arrays by name, everything else as JSON in its header, and the checksum of both.

Nothing in the file is executed when it is read. A file from before there were checksums has none, and is read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rae.errors import CheckpointError, one_line
from rae.storage.atomic import atomic_path
from rae.storage.documents import parse_json

CHECKSUM = "sha256"
_OURS = {"format", "version", CHECKSUM}

Array = np.ndarray[Any, Any]


def write_tensors(path: str | Path, key: str, header: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Write arrays and header to one file, atomically; `key` is what the header is called in it."""
    from safetensors.numpy import save

    # One entry of metadata: the format keeps no order of several, and equal models have equal bytes.
    data = save(dict(arrays), metadata={key: signed(header, arrays)})
    with atomic_path(path) as temporary:
        temporary.write_bytes(data)


def signed(header: Mapping[str, Any], arrays: Mapping[str, Array]) -> str:
    """The header as JSON, with the SHA-256 of itself and of the arrays: names, types, shapes and bytes."""
    fields = {name: value for name, value in header.items() if name != CHECKSUM}
    digest = hashlib.sha256(json.dumps(fields, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"\n{name} {array.dtype.str} {arrays[name].shape}\n".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return json.dumps({**fields, CHECKSUM: digest.hexdigest()}, sort_keys=True)


def read_tensors(
    path: Path, key: str, newest: int, names: Iterable[str], remedy: str
) -> tuple[dict[str, Any], dict[str, Array]]:
    """The header and the arrays of a file; one that is cut short, changed, foreign or newer is refused.

    `newest` is the latest format, `names` are the fields of a header; `remedy` is what to do about a damaged file.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as file:
            text = (file.metadata() or {}).get(key)
            arrays = {name: file.get_tensor(name) for name in file.keys()} if text else {}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise CheckpointError(f"{path} is not a whole safetensors file ({one_line(error)}); {remedy}") from None
    if text is None:
        raise CheckpointError(f"{path} is a safetensors file, but not one that rae wrote (its header has no {key!r})")
    header = _header(path, text, newest, remedy)
    if unknown := set(header) - _OURS - {name.removesuffix("?") for name in names}:
        raise CheckpointError(f"the header of {path} is damaged: it has the field {min(unknown)!r}; {remedy}")
    if CHECKSUM in header and header[CHECKSUM] != parse_json(signed(header, arrays))[CHECKSUM]:
        raise CheckpointError(f"{path} has changed since it was written (its checksum is another); {remedy}")
    return header, arrays


def _header(path: Path, text: str, newest: int, remedy: str) -> dict[str, Any]:
    try:
        header: dict[str, Any] = parse_json(text)
        number = header["format"]
    except (ValueError, TypeError, KeyError):
        number = None
    if type(number) is not int:
        raise CheckpointError(f"the header of {path} is damaged; {remedy}")
    if number > newest:
        version = f" (rae {header['version']})" if "version" in header else ""
        raise CheckpointError(f"{path} has format {number}{version}, this rae reads up to {newest}; upgrade rae")
    return header
