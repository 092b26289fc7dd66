"""The arrays of an .npz file: memory-mapped if they are stored without compression, else read.

An .npz file is a zip of .npy files. A member without compression is an array in the middle of the file, so
it can be mapped like a .npy file, though at any alignment. Every member is read once, in chunks, to verify
its checksum.
"""

from __future__ import annotations

import math
import mmap
import struct
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

LEAST_MAPPED = 1 << 16  # bytes; a smaller array is read
CHUNK = 1 << 20  # bytes read at a time to verify a checksum
LOCAL_HEADER = 30  # bytes before each member; the last four are the lengths of its name and extra field

Array = np.ndarray[Any, Any]


def open_npz(path: Path) -> dict[str, Array]:
    """The arrays of the file by name; other members are left out."""
    with path.open("rb") as file, zipfile.ZipFile(file) as archive:
        whole = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        arrays = {}
        for info in archive.infolist():
            with archive.open(info) as member:
                is_array = member.read(len(npy.MAGIC_PREFIX)) == npy.MAGIC_PREFIX
            if is_array:
                array = _map_member(file, whole, archive, info)
                arrays[info.filename.removesuffix(".npy")] = _read_member(archive, info) if array is None else array
        return arrays


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Array:
    with archive.open(info) as member:
        read: Array = npy.read_array(member, allow_pickle=False)  # an array of Python objects could run code
        return read


def _map_member(file: IO[bytes], whole: mmap.mmap, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Array | None:
    """The array of a member as a view of the file; None if it is compressed, small, or not a plain array in C order."""
    if info.compress_type != zipfile.ZIP_STORED or info.file_size < LEAST_MAPPED:
        return None
    with archive.open(info) as member:
        version = npy.read_magic(member)
        if version not in _HEADERS:
            return None
        shape, fortran, dtype = _HEADERS[version](member)
        start = member.tell()
        size = math.prod(shape) * dtype.itemsize
        plain = not fortran and not dtype.hasobject and all(length > 0 for length in shape)
        if not plain or not LEAST_MAPPED <= size <= info.file_size - start:
            return None
        while member.read(CHUNK):
            pass  # zipfile compares the checksum at the end
    file.seek(info.header_offset + LOCAL_HEADER - 4)
    begin = info.header_offset + LOCAL_HEADER + sum(struct.unpack("<HH", file.read(4)))
    return np.ndarray(shape, dtype, buffer=whole, offset=begin + start)


_HEADERS: dict[tuple[int, int], Any] = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
