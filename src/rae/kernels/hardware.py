"""What the processor can do and Python has no word for: fetch a row early, widen a half-precision number.

In Python each is an ordinary function; compiled, it is one instruction of the processor.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic, overload

LINE = 64  # bytes the memory hands over at a time


def aligned(shape: tuple[int, ...], kind: Any = np.float32) -> Any:
    """An empty array that begins with a cache line, so that rows of whole lines touch no others.

    >>> aligned((3, 16)).ctypes.data % LINE
    0
    """
    size = math.prod(shape) * np.dtype(kind).itemsize
    space = np.empty(size + LINE, np.uint8)
    start = -space.ctypes.data % LINE
    return space[start : start + size].view(kind).reshape(shape)


def fetch_row(x: Any, row: Any) -> None:
    """Nothing; compiled, row `row` of a C-ordered matrix starts its way into the cache."""


def fetch_item(x: Any, item: Any) -> None:
    """Nothing; compiled, item `item` of a vector starts its way into the cache."""


def widen(value: Any) -> Any:
    """A float32 as it is, and for the bits of a float16 held as uint16 the same number as float32."""
    return np.float32(value.view(np.float16)) if value.dtype == np.uint16 else value


def _fetch_line(context: Any, address: Any) -> Any:
    """Ask for the cache line at an address, to be read soon."""

    def write(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
        # To read, into all caches but the nearest, data: the nearest takes too few lines at a time.
        hints = [ir.Constant(number, hint) for hint in (0, 2, 1)]
        return builder.call(function, [builder.inttoptr(arguments[0], pointer), *hints])

    return types.void(types.uintp), write


def _half_bits(context: Any, bits: Any) -> Any:
    """The float32 of the 16 bits of a float16."""

    def write(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        return builder.fpext(builder.bitcast(arguments[0], ir.HalfType()), ir.FloatType())

    return types.float32(types.uint16), write


_fetch: Any = intrinsic(_fetch_line)
_from_half: Any = intrinsic(_half_bits)


@overload(fetch_row, strict=False)
def _compiled_fetch_row(x: Any, row: Any) -> Any:
    size = x.dtype.bitwidth // 8

    def fetch(x: Any, row: Any) -> None:  # pragma: no cover - only ever compiled
        width = x.shape[1] * size
        start = x.ctypes.data + np.intp(row) * width
        for at in range(start - start % LINE, start + width, LINE):
            _fetch(np.uintp(at))

    return fetch


@overload(fetch_item, strict=False)
def _compiled_fetch_item(x: Any, item: Any) -> Any:
    size = x.dtype.bitwidth // 8

    def fetch(x: Any, item: Any) -> None:  # pragma: no cover - only ever compiled
        _fetch(np.uintp(x.ctypes.data + np.intp(item) * size))

    return fetch


@overload(widen, strict=False)
def _compiled_widen(value: Any) -> Any:
    return (lambda value: _from_half(value)) if value == types.uint16 else (lambda value: value)
