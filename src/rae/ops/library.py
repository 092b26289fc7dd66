"""The compiled library of hot loops, and the choice between it and the plain-torch reference.

The library is C (`ops/native/*.c`), compiled when the wheel is made. It is used for arrays in main memory. Inside
`torch.export`, where a wheel has none, and on another device where `rae.ops.device` has no kernel, an operation runs
its reference from `rae.ops.reference`. Calls release the interpreter lock.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

# What each function takes: p pointer, i int64, u uint64, w uint32, f float, d double. Those of `_BY_INDEX` come in
# two versions, for 32-bit and 64-bit row numbers. A leading > says that an int64 comes back.
_BY_INDEX = {
    "sum_rows": "pppp i p ii",
    "mean_rows": "pp i pp i p i p ii",
    "mean_half_rows": "pp i pp i p i p ii",
    "moment_rows": ">pp i ppp iii p ii",
    "moment_half_rows": ">pp i ppp iii p ii",
    "estimate_cycles": "pp u i pp ii",
    "view_counts": "pppp uu p ii",
    "view_rows": "pppp uu pp ii",
    "view_weights": "pppp uu pp i pp ii",
    "scatter_rows": "pppp ii p ii",
    "adjacent": "ppppp ii",
    "sample_rows": "pppp iu pp ii",
    "pick_neighbors": "pppp u p i",
    "non_neighbors": "ppp iiu ii p",
    "walk_rows": "pppp ddu p iii",
    "neighbor_degrees": ">ppp iii u p ii",
    "count_paths": ">pp ii",
    "ranked_rows": "ppppp ii",
    "count_cycles": ">pp i p ii",
    "core_numbers": ">pp i p",
    "list_rows": "p i ppppp ii",
    "spread_rows": ">p i pppp i pp",
    "edit_edges": ">p i p i ppppp ppp ii pppp pp i ppp i",
    "number_ids": ">p i p i p i p",
    "look_up": "p ii ppp",
    "deal": ">pp ii p i p",
    "fill_rows": ">p ii p i pp",
    "deal_weighted": ">pppp iii p i pp",
    "fill_weighted_rows": ">pp ii p i ppp ii pp i p",
    "breadth_first": "ppp i pp",
    "relabel_rows": "pppppp ii",
}
_PLAIN = {
    "strengths": "pppp ii",
    "write_rows": ">p ip i ppp",
    "fill_mask": "u i w f ii p",
    "column_moments": "p ii d ppp ii",
    "norm_tanh_dropout": "p ii pppp u w f pp ii",
    "norm_tanh_dropout_grad": "ppp ii ppp u w f ppp ii",
    "mark_ids": "p ii p",
    "sort_digit": "p ii p i p",
    "sort_weighted_digit": "pp ii p i pp",
    "fuzzy_weights": "pp ii p",
    "optimize_layout": "p i pppp ii u dd i d",
    "characteristic_function": ">p ii dd i p ii",
    "squared_distances": "pp i ppp ii",
}
_C_TYPES = {
    "p": ctypes.c_void_p,
    "i": ctypes.c_int64,
    "u": ctypes.c_uint64,
    "w": ctypes.c_uint32,
    "f": ctypes.c_float,
    "d": ctypes.c_double,
}
FILE = Path(__file__).with_name("_native.dll" if sys.platform == "win32" else "_native.so")  # as setup.py names it
log = logging.getLogger("rae")
_reference_only = os.environ.get("RAE_OPS") == "reference"


@lru_cache(maxsize=1)
def library() -> ctypes.CDLL | None:
    """The compiled library with its functions declared, None where it was not compiled."""
    if FILE.is_file():
        return _declared(ctypes.CDLL(str(FILE)))
    log.warning(
        "the compiled library is missing, so every operation runs in plain torch, slowly; install "
        "role-action-embeddings from a wheel of this platform, or from source where there is a C compiler"
    )
    return None


def _declared(native: ctypes.CDLL) -> ctypes.CDLL:
    signatures = dict(_PLAIN)
    for name, signature in _BY_INDEX.items():
        signatures |= {f"{name}_32": signature, f"{name}_64": signature}
    for name, signature in signatures.items():
        function = getattr(native, name)
        function.restype = ctypes.c_int64 if signature.startswith(">") else None
        function.argtypes = [_C_TYPES[letter] for letter in signature.lstrip(">").replace(" ", "")]
    return native


@contextlib.contextmanager
def reference_only() -> Iterator[None]:
    """Inside this block every operation runs its plain-torch reference, as on another device."""
    global _reference_only
    before, _reference_only = _reference_only, True
    try:
        yield
    finally:
        _reference_only = before


def reference() -> Any:
    """The module of plain-torch references; it imports torch, which reading a graph does not need."""
    from rae.ops import reference

    return reference


def is_native(*arrays: Any) -> bool:
    """Whether the library works on these arrays: NumPy arrays, or plain tensors in main memory."""
    return not _reference_only and library() is not None and all(map(_in_main_memory, arrays))


def _in_main_memory(array: Any) -> bool:
    if array is None or isinstance(array, np.ndarray):
        return True
    torch = sys.modules["torch"]  # it is a tensor, so torch is there
    kind = type(array)
    return (kind is torch.Tensor or kind is torch.nn.Parameter) and array.is_cpu


def call(name: str, *arguments: Any, index: Any = None) -> Any:
    """Call a function of the library; arrays become pointers, `index` chooses the version by its type."""
    if index is not None:
        name += "_32" if index.dtype.itemsize == 4 else "_64"
    status = getattr(library(), name)(
        *[x if x is None or isinstance(x, (int, float)) else address(x) for x in arguments]
    )
    if status is not None and status < 0:
        raise MemoryError(f"not enough memory in {name}")
    return status


def address(array: Any) -> int:
    """Where an array begins. A step, or a small graph, makes hundreds of calls, so this takes the quickest way."""
    if isinstance(array, np.ndarray):
        flags = array.flags
        assert flags.c_contiguous, "the library reads C-ordered arrays"
        assert flags.aligned, "the library reads aligned arrays"
        return int(pa.py_buffer(array).address)  # a fifth of the time of array.ctypes.data
    assert array.is_contiguous(), "the library reads contiguous tensors"
    return int(array.data_ptr())


def int64(values: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The values as a C-ordered int64 array, without a copy where they are one."""
    return np.ascontiguousarray(values, np.int64)
