"""What the processor can do and Python has no word for: fetch a row early, widen a half-precision number.

In Python each is an ordinary function; compiled, it is one instruction of the processor.
"""

from __future__ import annotations

import math
import platform
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from llvmlite.binding import get_host_cpu_features  # type: ignore[import-untyped]
from numba import config, types
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
        return write_half(builder, arguments[0])

    return types.float32(types.uint16), write


def has_half() -> bool:
    """Whether the processor that is compiled for widens float16 by itself: ARM does, x86 where it says so.

    Elsewhere the compiler would call a function that Numba does not have.
    """
    if platform.machine().lower() in ("arm64", "aarch64"):
        return True
    name, features = getattr(config, "CPU_NAME", None), getattr(config, "CPU_FEATURES", None)
    if name or features is not None:  # for another processor than this one
        return "+f16c" in (features or "")
    return bool(get_host_cpu_features().get("f16c", False))


def write_half(builder: Any, bits: Any) -> Any:
    """The float32 of the bits of a float16, or a register of them."""
    many = isinstance(bits.type, ir.VectorType)

    def of(kind: Any) -> Any:
        return ir.VectorType(kind, bits.type.count) if many else kind

    def all_(kind: Any, value: Any) -> Any:
        return ir.Constant(of(kind), [value] * bits.type.count if many else value)

    if has_half():
        return builder.fpext(builder.bitcast(bits, of(ir.HalfType())), of(ir.FloatType()))
    number, real = ir.IntType(32), ir.FloatType()
    wide = builder.zext(bits, of(number))
    size = builder.shl(builder.and_(wide, all_(number, 0x7FFF)), all_(number, 13))
    scaled = builder.fmul(
        builder.bitcast(size, of(real)), all_(real, 2.0**112)
    )  # from one exponent's zero to the other's
    endless = builder.icmp_unsigned(">=", size, all_(number, 0x7C00 << 13))  # infinite, or not a number
    found = builder.select(endless, builder.or_(size, all_(number, 0x7F800000)), builder.bitcast(scaled, of(number)))
    sign = builder.shl(builder.and_(wide, all_(number, 0x8000)), all_(number, 16))
    return builder.bitcast(builder.or_(found, sign), of(real))


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
