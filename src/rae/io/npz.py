"""The arrays of an .npz file: mapped where they lie in it as they are, read where they are packed.

Such a file is a zip of .npy files. A member that was stored without compression is an array in the middle of
the file, so it can be mapped like a .npy file, though at any address. Every member is read through once, in
pieces: a checksum that is not right refuses the file, mapped or not.
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

LEAST = 1 << 16  # bytes of an array from which on it is mapped
PIECE = 1 << 20  # bytes read at a time where a member is checked
LOCAL = 30  # bytes of the header before each member; its last four say how long name and extra field are

Array = np.ndarray[Any, Any]


def open_npz(path: Path) -> dict[str, Array]:
    """The arrays of the file by name; members that are no arrays are left out."""
    with path.open("rb") as file, zipfile.ZipFile(file) as archive:
        whole = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        found = {}
        for info in archive.infolist():
            with archive.open(info) as member:
                is_array = member.read(len(npy.MAGIC_PREFIX)) == npy.MAGIC_PREFIX
            if is_array:
                array = _mapped(file, whole, archive, info)
                found[info.filename.removesuffix(".npy")] = _read(archive, info) if array is None else array
        return found


def _read(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Array:
    with archive.open(info) as member:
        read: Array = npy.read_array(member, allow_pickle=False)  # an array of Python objects could run code
        return read


def _mapped(file: IO[bytes], whole: mmap.mmap, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Array | None:
    """The array of a member as a view of the file, None where it is packed, small, or no plain array in C order."""
    if info.compress_type != zipfile.ZIP_STORED or info.file_size < LEAST:
        return None
    with archive.open(info) as member:
        version = npy.read_magic(member)
        if version not in _HEADERS:
            return None
        shape, fortran, dtype = _HEADERS[version](member)
        start = member.tell()
        size = math.prod(shape) * dtype.itemsize
        plain = not fortran and not dtype.hasobject and all(length > 0 for length in shape)
        if not plain or not LEAST <= size <= info.file_size - start:
            return None
        while member.read(PIECE):
            pass  # at the end the checksum is compared
    file.seek(info.header_offset + LOCAL - 4)
    begin = info.header_offset + LOCAL + sum(struct.unpack("<HH", file.read(4)))
    return np.ndarray(shape, dtype, buffer=whole, offset=begin + start)


_HEADERS: dict[tuple[int, int], Any] = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
