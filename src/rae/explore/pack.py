"""Arrays as text for the page: a header and the bytes, deflated, in base64. See web/src/data.js."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

BREAK = "\0"
KINDS = ("u1", "u2", "u4", "f4")


def packed(arrays: Mapping[str, np.ndarray[Any, Any]]) -> str:
    """Named arrays of whole numbers or float32 as one line of base64."""
    header, parts, at = [], [], 0
    for name, array in arrays.items():
        kind = array.dtype.str[1:]
        if kind not in KINDS:
            raise ValueError(f"the page reads {', '.join(KINDS)}, got {array.dtype} for {name}")
        data = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
        header.append([name, kind, at, array.size])
        parts += [data, bytes(-len(data) % 8)]
        at += len(data) + -len(data) % 8
    head = json.dumps(header, separators=(",", ":")).encode()
    head = struct.pack("<I", len(head)) + head
    deflated = zlib.compress(b"".join([head, bytes(-len(head) % 8), *parts]), 6)
    return base64.b64encode(deflated).decode("ascii")


def packed_ids(ids: pa.Array) -> dict[str, np.ndarray[Any, Any]]:
    """The ids as one text with breaks, and the length of each in the page's own units (UTF-16).

    >>> packed_ids(pa.array(["a", "bc"]))["text"].tobytes(), packed_ids(pa.array([7]))["lengths"].tolist()
    (b'\\x00a\\x00bc\\x00', [2])
    """
    names = ids.to_pylist() if pa.types.is_string(ids.type) else [str(value) for value in ids.to_pylist()]
    text = BREAK + BREAK.join(names) + BREAK if names else BREAK
    lengths = np.fromiter(map(len, names), np.int64, len(names)) + 1
    if not text.isascii():
        wide = np.fromiter((sum(c > "\uffff" for c in name) for name in names), np.int64, len(names))
        lengths += wide
    return {"text": np.frombuffer(text.encode("utf-8", "replace"), np.uint8), "lengths": smallest(lengths)}


def smallest(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Whole numbers from 0 on in the smallest kind that holds them."""
    top = int(values.max(initial=0))
    return values.astype(np.uint8 if top < 1 << 8 else np.uint16 if top < 1 << 16 else np.uint32)
