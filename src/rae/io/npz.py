"""The arrays of an .npz file: memory-mapped if they are stored without compression, else read.

An .npz file is a zip of .npy files. A member without compression is an array in the middle of the file, so
it can be mapped like a .npy file, though at any alignment. Every member is read once, in chunks, to verify
its checksum.
"""

from __future__ import annotations

import lzma
import math
import mmap
import struct
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any

import numpy as np

from rae.storage.npy import MAGIC, array_in, read_header

LEAST_MAPPED = 1 << 16  # bytes; a smaller array is read
CHUNK = 1 << 20  # bytes read at a time to verify a checksum
LOCAL_HEADER = 30  # bytes before each member; the last four are the lengths of its name and extra field

# The errors of a damaged zip: its folder, the packed bytes of a member, or the array in one.
DAMAGED = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, OSError, KeyError),
    *(ValueError, NotImplementedError, RuntimeError, OverflowError, MemoryError),
)

Array = np.ndarray[Any, Any]


def open_npz(path: Path) -> dict[str, Array]:
    """The arrays of the file by name; other members are left out."""
    with path.open("rb") as file, zipfile.ZipFile(file) as archive:
        whole = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        arrays = {}
        for info in archive.infolist():
            with archive.open(info) as member:
                is_array = member.read(len(MAGIC)) == MAGIC
            if is_array:
                array = _map_member(file, whole, archive, info)
                arrays[info.filename.removesuffix(".npy")] = read_member(archive, info) if array is None else array
        return arrays


def read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Array:
    """The array of one member, read into memory."""
    with archive.open(info) as member:
        shape, fortran, dtype = read_header(member)
        content = member.read()
    return array_in(content, 0, len(content), shape, fortran, dtype)


def _map_member(file: IO[bytes], whole: mmap.mmap, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Array | None:
    """The array of a member as a view of the file; None if it is compressed, small, or not a plain array in C order."""
    if info.compress_type != zipfile.ZIP_STORED or info.file_size < LEAST_MAPPED:
        return None
    with archive.open(info) as member:
        shape, fortran, dtype = read_header(member)
        start = member.tell()
        size = math.prod(shape) * dtype.itemsize
        if fortran or not LEAST_MAPPED <= size <= info.file_size - start:
            return None
        while member.read(CHUNK):
            pass  # zipfile compares the checksum at the end
    file.seek(info.header_offset + LOCAL_HEADER - 4)
    begin = info.header_offset + LOCAL_HEADER + sum(struct.unpack("<HH", file.read(4)))
    return array_in(whole, begin + start, len(whole), shape, fortran, dtype)
