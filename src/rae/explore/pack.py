"""Arrays as text for the page: a header and the bytes, deflated, in base64. web/src/data.js reads them."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

SEPARATOR = "\0"
DTYPES = ("u1", "u2", "u4", "f4")


def pack_arrays(arrays: Mapping[str, np.ndarray[Any, Any]]) -> str:
    """Named arrays of unsigned integers or float32 as one line of base64."""
    header, parts, offset = [], [], 0
    for name, array in arrays.items():
        dtype = array.dtype.str[1:]
        if dtype not in DTYPES:
            raise ValueError(f"the page reads {', '.join(DTYPES)}, got {array.dtype} for {name}")
        data = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
        header.append([name, dtype, offset, array.size])
        parts += [data, bytes(-len(data) % 8)]
        offset += len(data) + -len(data) % 8
    head = json.dumps(header, separators=(",", ":")).encode()
    head = struct.pack("<I", len(head)) + head
    deflated = zlib.compress(b"".join([head, bytes(-len(head) % 8), *parts]), 6)
    return base64.b64encode(deflated).decode("ascii")


def id_arrays(ids: pa.Array) -> dict[str, np.ndarray[Any, Any]]:
    """The ids as one text with separators, and the length of each in UTF-16 units, as JavaScript counts.

    >>> id_arrays(pa.array(["a", "bc"]))["text"].tobytes(), id_arrays(pa.array([7]))["lengths"].tolist()
    (b'\\x00a\\x00bc\\x00', [2])
    """
    names = ids.to_pylist() if pa.types.is_string(ids.type) else [str(value) for value in ids.to_pylist()]
    text = SEPARATOR + SEPARATOR.join(names) + SEPARATOR if names else SEPARATOR
    lengths = np.fromiter(map(len, names), np.int64, len(names)) + 1
    if not text.isascii():
        lengths += np.fromiter((sum(c > "\uffff" for c in name) for name in names), np.int64, len(names))
    return {"text": np.frombuffer(text.encode("utf-8", "replace"), np.uint8), "lengths": smallest_unsigned(lengths)}


def smallest_unsigned(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Integers from 0 on in the smallest unsigned type that holds them."""
    top = int(values.max(initial=0))
    return values.astype(np.uint8 if top < 1 << 8 else np.uint16 if top < 1 << 16 else np.uint32)
