"""Arrays in the .npy format, of plain numbers, dates or text: the header is parsed by pattern, nothing is evaluated.

NumPy evaluates the header as Python, which a damaged file makes fail in a dozen ways, and takes memory for the
shape that it says. Here a header has the three entries in their usual form, and the shape must lie in the file.
"""

from __future__ import annotations

import math
import mmap
import os
import re
import struct
from pathlib import Path
from typing import IO, Any

import numpy as np

from rae.storage.atomic import atomic_path

SPARSE, DENSE = "features.npz", "features.npy"  # the file of a matrix of features in a folder
MAGIC = b"\x93NUMPY"
LONGEST_HEADER = 10_000  # bytes; that of a plain array has 118
MOST_DIMENSIONS = 32
LARGEST = 1 << 62  # bytes that an array may say it has
LAST_CHARACTER, SURROGATES = 0x10FFFF, (0xD800, 0xDFFF)  # of Unicode; halves of pairs are no characters

_ENTRY = re.compile(
    r"\s*(?:'descr'\s*:\s*'(?P<descr>[^']{1,20})'"
    r"|'fortran_order'\s*:\s*(?P<fortran>True|False)"
    r"|'shape'\s*:\s*\((?P<shape>[\dL, ]*)\))\s*"
)
_TYPE = re.compile(r"[<>|=]?([biufcSU]\d{1,9}|[mM]8(\[\d{0,6}[A-Za-z]{1,2}\])?|\?)")

Array = np.ndarray[Any, Any]


def read_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether columns come first, and type of the array that begins here; ValueError where none does."""
    start = file.read(8)
    if start[:6] != MAGIC or len(start) < 8 or start[6] not in (1, 2, 3):
        raise ValueError("it has no header of an array")
    width = 2 if start[6] == 1 else 4
    size = file.read(width)
    length = struct.unpack("<H" if width == 2 else "<I", size)[0] if len(size) == width else LONGEST_HEADER + 1
    text = file.read(length) if length <= LONGEST_HEADER else b""
    if len(text) != length:
        raise ValueError("the header of its array is cut short or too long")
    return _parse_header(text.decode("latin1"))


def _parse_header(header: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    body = header.strip()
    fields: dict[str, str] = {}
    at = 1
    while body[:1] == "{" and at < len(body) - 1 and (entry := _ENTRY.match(body, at)):
        fields |= {name: text for name, text in entry.groupdict().items() if text is not None}
        at = entry.end() + (body[entry.end() : entry.end() + 1] == ",")
    if body[at:].strip() != "}" or set(fields) != {"descr", "fortran", "shape"}:
        raise ValueError(f"the header of its array is damaged: {header.strip()[:60]!r}")
    if not _TYPE.fullmatch(fields["descr"]):
        raise ValueError(f"it must hold plain numbers or text, got {fields['descr']!r}")
    try:
        dtype = np.dtype(fields["descr"])
        shape = tuple(int(n.strip().removesuffix("L")) for n in fields["shape"].split(",") if n.strip())
    except (TypeError, ValueError):
        raise ValueError(f"the header of its array is damaged: {header.strip()[:60]!r}") from None
    if len(shape) > MOST_DIMENSIONS or dtype.itemsize * math.prod(n for n in shape if n) > LARGEST:
        raise ValueError("the shape of its array is larger than any memory")
    return shape, fields["fortran"] == "True", dtype


def array_in(buffer: Any, start: int, stop: int, shape: tuple[int, ...], fortran: bool, dtype: np.dtype[Any]) -> Array:
    """The array in bytes start..stop of a buffer, not copied; ValueError where they are too few."""
    size = math.prod(shape) * dtype.itemsize
    if size > stop - start:
        raise ValueError(f"its array says it has the shape {shape}, {size:,} bytes, and {stop - start:,} are there")
    if not size:
        return np.empty(shape, dtype, "F" if fortran else "C")
    if dtype.kind == "U":
        codes = np.ndarray((size // 4,), dtype.str[0] + "u4", buffer, start)
        if codes.max() > LAST_CHARACTER or ((codes >= SURROGATES[0]) & (codes <= SURROGATES[1])).any():
            raise ValueError("its text is not Unicode")
    return np.ndarray(shape, dtype, buffer, start, order="F" if fortran else "C")


def write_array(path: Path, array: Array) -> None:
    """Write a .npy file atomically."""
    with atomic_path(path) as hidden, hidden.open("wb") as file:
        np.lib.format.write_array(file, np.ascontiguousarray(array), allow_pickle=False)


def write_matrix(folder: Path, matrix: Any) -> Path:
    """Write a matrix of features, dense or sparse, atomically; the path of its file."""
    if isinstance(matrix, np.ndarray):
        write_array(folder / DENSE, matrix)
        return folder / DENSE
    import scipy.sparse as sp

    with atomic_path(folder / SPARSE) as hidden, hidden.open("wb") as file:
        sp.save_npz(file, sp.csr_array(matrix), compressed=False)
    return folder / SPARSE


def create_array(path: Path, shape: tuple[int, ...]) -> np.memmap[Any, Any]:
    """A new .npy file of float32, mapped to be written; OSError where the disk has no room for all of it.

    The space is allocated at once: writing to a mapped file on a full disk would kill the process.
    """
    out: Any = np.lib.format.open_memmap(path, "w+", np.float32, shape)
    if hasattr(os, "posix_fallocate") and out.nbytes:
        with path.open("rb+") as file:
            os.posix_fallocate(file.fileno(), 0, file.seek(0, 2))
    mapped: np.memmap[Any, Any] = out
    return mapped


def map_array(path: Path, *, private: bool = False) -> Array:
    """The array of a .npy file, mapped; ValueError where the file holds none, OSError where it cannot be read.

    It is read-only, or `private`: writes stay in memory and do not change the file.
    """
    with path.open("rb") as file:
        shape, fortran, dtype = read_header(file)
        start, stop = file.tell(), file.seek(0, 2)
        whole = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY if private else mmap.ACCESS_READ)
    return array_in(whole, start, stop, shape, fortran, dtype)


def is_mapped(array: Array) -> bool:
    """Whether an array is one of `create_array` or `map_array`: its pages are read when they are touched."""
    return isinstance(array, np.memmap) or isinstance(array.base, mmap.mmap)
