"""Sums and means of rows, kept in the processor's registers while the rows pass by.

In Python `sum_row` and `mean_row` are the formulas, one row added after the other. Compiled, columns are taken
64 or 32 at a time, as four or two registers of 16 numbers; where the width is no multiple of that the last
registers overlap those before, which makes the shared columns twice, both times the same.

A mean reads rows from all over memory, so each is fetched twice before it is its turn: FAR rows ahead into the
outer cache, NEAR rows ahead into the inner one. The inner one holds few rows; and where a list of neighbours
ends, which the processor cannot foresee, the next rows are at hand at once. Sums are of rows that are near.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils as untyped
from numba.extending import intrinsic, overload, register_jitable

from rae.ops.intrinsics import LINE, fetch_row, widen, write_half

cgutils: Any = untyped

LANES = 16  # numbers in a register; where registers are shorter, the compiler takes several
MOST, FEW = 4, 2  # registers that add up at a time
FAR, NEAR = 48, 12  # rows ahead
OUTER, INNER = 2, 3  # what the processor calls the caches when it is told to fetch

_INT, _LONG = ir.IntType(32), ir.IntType(64)
_BYTES = ir.IntType(8).as_pointer()
_REGISTER = ir.VectorType(ir.FloatType(), LANES)
_FUSED = ("contract",)  # a product and a sum may be rounded once


def sum_row(x: Any, index: Any, weights: Any, start: Any, stop: Any, out: Any, i: Any) -> None:
    """out[i] = the sum of weights[e] * x[index[e]], e in start..stop; no weights (None) are weights of 1."""
    out[i] = 0
    for e in range(start, stop):
        out[i] += x[index[e]] if weights is None else x[index[e]] * weights[e]


def mean_row(x: Any, own: Any, index: Any, start: Any, stop: Any, share: Any, out: Any, i: Any) -> None:
    """out[i] = (x[own] + x[index[start]] + ... + x[index[stop - 1]]) * share; x float32, or float16 as uint16."""
    total = widen(x[own])
    for e in range(start, stop):
        total = total + widen(x[index[e]])
    out[i] = total * share


def spread_row(
    x: Any, i: Any, index: Any, weights: Any, start: Any, stop: Any, out: Any, left: Any, right: Any
) -> None:
    """out[index[e]] += weights[e] * x[i], e in start..stop, columns left..right; no weights are weights of 1."""
    for e in range(start, stop):
        out[index[e], left:right] += x[i, left:right] if weights is None else x[i, left:right] * weights[e]


class _Rows:
    """What both loops need: arrays, the entries that name rows, registers of their numbers."""

    def __init__(self, context: Any, builder: Any, kinds: Any, values: Any) -> None:
        self.context, self.builder, self.kinds, self.values = context, builder, kinds, values

    def _array(self, i: int) -> tuple[Any, Any, Any]:
        """Address, strides and shape of an argument."""
        array = self.context.make_array(self.kinds[i])(self.context, self.builder, self.values[i])
        strides, shape = (cgutils.unpack_tuple(self.builder, of) for of in (array.strides, array.shape))
        return self.builder.ptrtoint(array.data, _LONG), strides, shape

    def _loop(self, start: Any, stop: Any, carried: list[Any], step: Any) -> list[Any]:
        """The carried values after step(e, values) for every e in start..stop."""
        b, before = self.builder, self.builder.block
        head, body, end = (b.append_basic_block(name) for name in ("head", "row", "end"))
        b.branch(head)
        b.position_at_end(head)
        e, *values = (b.phi(value.type) for value in (start, *carried))
        b.cbranch(b.icmp_signed("<", e, stop), body, end)
        b.position_at_end(body)
        after = (b.add(e, _LONG(1)), *step(e, values))
        for phi, first, later in zip((e, *values), (start, *carried), after, strict=True):
            phi.add_incoming(first, before)
            phi.add_incoming(later, b.block)
        b.branch(head)
        b.position_at_end(end)
        return values

    def _entry(self, index: Any, e: Any, size: int) -> Any:
        """index[e] as 64 bits."""
        entry = self._load(self.builder.add(index, self._times(e, size)), ir.IntType(8 * size), size)
        return entry if size == 8 else self.builder.sext(entry, _LONG)

    def _weight(self, weights: Any, e: Any) -> Any:
        """A register that holds weights[e] 16 times."""
        return self._everywhere(self._load(self.builder.add(weights, self._times(e, 4)), ir.FloatType(), 4))

    def _everywhere(self, number: Any) -> Any:
        empty = ir.Constant(_REGISTER, ir.Undefined)
        once = self.builder.insert_element(empty, number, _INT(0))
        return self.builder.shuffle_vector(once, empty, ir.Constant(ir.VectorType(_INT, LANES), [0] * LANES))

    def _load(self, address: Any, kind: Any, align: int) -> Any:
        return self.builder.load(self.builder.inttoptr(address, kind.as_pointer()), align=align)

    def _store(self, register: Any, address: Any) -> None:
        self.builder.store(register, self.builder.inttoptr(address, _REGISTER.as_pointer()), align=4)

    def _times(self, value: Any, factor: int) -> Any:
        return self.builder.mul(value, _LONG(factor))


class _Spread(_Rows):
    """64 columns of one row, in registers, added to other rows."""

    def write(self) -> None:
        b = self.builder
        (x, strides, _), (index, _, _), (out, below, _) = (self._array(i) for i in (0, 2, 6))
        weights = self._array(3)[0] if self.kinds[3] != types.none else None
        _, i, _, _, start, stop, _, at = self.values
        places = [self._times(b.add(at, _LONG(LANES * i)), 4) for i in range(MOST)]
        row = b.add(x, b.mul(i, strides[0]))
        numbers = [self._load(b.add(row, place), _REGISTER, 4) for place in places]

        def step(e: Any, _: Any) -> list[Any]:
            to = b.add(out, b.mul(self._entry(index, e, self.kinds[2].dtype.bitwidth // 8), below[0]))
            weight = None if weights is None else self._weight(weights, e)
            for some, place in zip(numbers, places, strict=True):
                more = some if weight is None else b.fmul(weight, some, flags=_FUSED)
                total = b.fadd(self._load(b.add(to, place), _REGISTER, 4), more, flags=_FUSED)
                self._store(total, b.add(to, place))
            return []

        self._loop(start, stop, [], step)


class _Sum(_Rows):
    """For every 64 columns a loop over the rows whose sums never leave the registers."""

    def __init__(self, context: Any, builder: Any, kinds: Any, values: Any) -> None:
        super().__init__(context, builder, kinds, values)
        _, self.own, _, _, self.start, self.stop, self.share, _, row = values
        (self.x, strides, _), (self.index, _, entries), (out, below, shape) = (self._array(i) for i in (0, 2, 7))
        self.mean = kinds[1] != types.none
        self.weights = self._array(3)[0] if kinds[3] != types.none else None
        self.stride, self.width, self.last = strides[0], shape[1], builder.sub(entries[0], _LONG(1))
        self.out = builder.add(out, builder.mul(row, below[0]))
        self.half = kinds[0].dtype == types.uint16
        self.size = 2 if self.half else 4
        self.entry_size = kinds[2].dtype.bitwidth // 8

    def write(self) -> None:
        """Four registers at a time, two where that is enough."""
        b, step = self.builder, _LONG(MOST * LANES)
        with cgutils.for_range_slice(b, _LONG(0), self.width, step, inc=True) as (at, _):
            many = b.icmp_signed(">", b.sub(self.width, at), _LONG(FEW * LANES))
            with b.if_else(many) as (then, otherwise):
                with then:
                    self._write_some(self._columns(at, MOST))
                with otherwise:
                    self._write_some(self._columns(at, FEW))

    def _write_some(self, columns: list[Any]) -> None:
        """Begin with the own row, or nothing; add the rows; write the sums, or with the share the mean."""
        b = self.builder
        nothing = ir.Constant(_REGISTER, [0.0] * LANES)
        sums = [self._numbers(self._row(self.own), column) if self.mean else nothing for column in columns]
        sums = self._loop(self.start, self.stop, sums, lambda e, totals: self._add(e, totals, columns))
        for total, column in zip(sums, columns, strict=True):
            result = b.fmul(total, self._everywhere(self.share)) if self.mean else total
            self._store(result, b.add(self.out, self._times(column, 4)))

    def _columns(self, at: Any, registers: int) -> list[Any]:
        """Where each register begins: 16 after the other, but never beyond the last 16 columns."""
        b = self.builder
        latest = b.sub(self.width, _LONG(LANES))
        starts = [b.add(at, _LONG(LANES * i)) for i in range(registers)]
        return [b.select(b.icmp_signed("<", start, latest), start, latest) for start in starts]

    def _add(self, e: Any, totals: list[Any], columns: list[Any]) -> list[Any]:
        """The totals with the row of entry e added, and the rows of later entries fetched."""
        b = self.builder
        if self.mean:
            for ahead, cache in ((FAR, OUTER), (NEAR, INNER)):
                soon = b.add(e, _LONG(ahead))
                soon = b.select(b.icmp_signed("<", soon, self.last), soon, self.last)
                self._fetch(self._row(self._entry(self.index, soon, self.entry_size)), columns, cache)
        row = self._row(self._entry(self.index, e, self.entry_size))
        numbers = [self._numbers(row, column) for column in columns]
        if self.weights is not None:
            weight = self._weight(self.weights, e)
            numbers = [b.fmul(weight, some, flags=_FUSED) for some in numbers]
        return [b.fadd(total, some, flags=_FUSED) for total, some in zip(totals, numbers, strict=True)]

    def _row(self, row: Any) -> Any:
        """The address of a row of x."""
        return self.builder.add(self.x, self.builder.mul(row, self.stride))

    def _numbers(self, row: Any, column: Any) -> Any:
        """16 float32 of a row."""
        b = self.builder
        kind = ir.VectorType(ir.IntType(16), LANES) if self.half else _REGISTER
        numbers = self._load(b.add(row, self._times(column, self.size)), kind, self.size)
        return write_half(b, numbers) if self.half else numbers

    def _fetch(self, row: Any, columns: list[Any], cache: int) -> None:
        """Ask for the lines of these columns: where each register begins, and where the last one ends."""
        b = self.builder
        kind = ir.FunctionType(ir.VoidType(), [_BYTES, _INT, _INT, _INT])
        function = b.module.declare_intrinsic("llvm.prefetch", [_BYTES], kind)
        step = LINE // (LANES * self.size)  # registers in a line
        places = [self._times(column, self.size) for column in columns[::step]]
        places.append(b.add(self._times(columns[-1], self.size), _LONG(LANES * self.size - 1)))
        for place in places:
            b.call(function, [b.inttoptr(b.add(row, place), _BYTES), _INT(0), _INT(cache), _INT(1)])


def _written(
    _: Any, x: Any, own: Any, index: Any, weights: Any, start: Any, stop: Any, share: Any, out: Any, i: Any
) -> Any:
    """A mean with own and share, a sum where both are None; weights may be None."""
    long = types.int64
    mean = (long, types.float32) if own != types.none else (types.none, types.none)

    def write(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        _Sum(context, builder, signature.args, values).write()
        return context.get_dummy_value()

    return types.void(x, mean[0], index, weights, long, long, mean[1], out, long), write


def _written_apart(_: Any, x: Any, i: Any, index: Any, weights: Any, start: Any, stop: Any, out: Any, at: Any) -> Any:
    long = types.int64

    def write(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        _Spread(context, builder, signature.args, values).write()
        return context.get_dummy_value()

    return types.void(x, long, index, weights, long, long, out, long), write


_gather: Any = intrinsic(_written)  # rows of 16 columns or more
_scatter: Any = intrinsic(_written_apart)  # 64 columns


def in_registers(x: Any, index: Any, weights: Any, out: Any) -> bool:
    """Whether arrays of these types are what the loops above know: float32 side by side, signed whole numbers."""
    arrays = [x, index, out] if weights == types.none else [x, index, out, weights]
    signed = index.dtype in (types.int32, types.int64)
    numbers = all(array.dtype == types.float32 for array in arrays if array not in (x, index))
    return signed and numbers and x.dtype in (types.float32, types.uint16) and all(a.layout == "C" for a in arrays)


@register_jitable
def _sum_loop(
    x: Any, index: Any, weights: Any, start: Any, stop: Any, out: Any, i: Any
) -> None:  # pragma: no cover - only ever compiled
    for j in range(out.shape[1]):
        out[i, j] = 0
    for e in range(start, stop):
        row, weight = x[index[e]], np.float32(1) if weights is None else weights[e]
        for j in range(out.shape[1]):
            out[i, j] += weight * row[j]


@register_jitable
def _mean_loop(
    x: Any, own: Any, index: Any, start: Any, stop: Any, share: Any, out: Any, i: Any
) -> None:  # pragma: no cover - only ever compiled
    for j in range(out.shape[1]):
        out[i, j] = widen(x[own, j])
    for e in range(start, stop):
        fetch_row(x, index[min(e + FAR, len(index) - 1)])
        row = x[index[e]]
        for j in range(out.shape[1]):
            out[i, j] += widen(row[j])
    for j in range(out.shape[1]):
        out[i, j] *= share


@register_jitable
def _spread_loop(
    x: Any, i: Any, index: Any, weights: Any, start: Any, stop: Any, out: Any, left: Any, right: Any
) -> None:  # pragma: no cover - only ever compiled
    for e in range(start, stop):
        weight, total = np.float32(1) if weights is None else weights[e], out[index[e]]
        for j in range(left, right):
            total[j] += weight * x[i, j]


@overload(sum_row, strict=False, inline="always")
def _compiled_sum_row(x: Any, index: Any, weights: Any, start: Any, stop: Any, out: Any, i: Any) -> Any:
    def by_registers(
        x: Any, index: Any, weights: Any, start: Any, stop: Any, out: Any, i: Any
    ) -> None:  # pragma: no cover - only ever compiled
        if out.shape[1] >= LANES:
            _gather(x, None, index, weights, start, stop, None, out, i)
        else:
            _sum_loop(x, index, weights, start, stop, out, i)

    def by_number(
        x: Any, index: Any, weights: Any, start: Any, stop: Any, out: Any, i: Any
    ) -> None:  # pragma: no cover - only ever compiled
        _sum_loop(x, index, weights, start, stop, out, i)

    return by_registers if in_registers(x, index, weights, out) else by_number


@overload(mean_row, strict=False, inline="always")
def _compiled_mean_row(x: Any, own: Any, index: Any, start: Any, stop: Any, share: Any, out: Any, i: Any) -> Any:
    def by_registers(
        x: Any, own: Any, index: Any, start: Any, stop: Any, share: Any, out: Any, i: Any
    ) -> None:  # pragma: no cover - only ever compiled
        if out.shape[1] >= LANES:
            _gather(x, own, index, None, start, stop, share, out, i)
        else:
            _mean_loop(x, own, index, start, stop, share, out, i)

    def by_number(
        x: Any, own: Any, index: Any, start: Any, stop: Any, share: Any, out: Any, i: Any
    ) -> None:  # pragma: no cover - only ever compiled
        _mean_loop(x, own, index, start, stop, share, out, i)

    return by_registers if in_registers(x, index, types.none, out) else by_number


@overload(spread_row, strict=False, inline="always")
def _compiled_spread_row(
    x: Any, i: Any, index: Any, weights: Any, start: Any, stop: Any, out: Any, left: Any, right: Any
) -> Any:
    def by_registers(
        x: Any, i: Any, index: Any, weights: Any, start: Any, stop: Any, out: Any, left: Any, right: Any
    ) -> None:  # pragma: no cover - only ever compiled
        at = left
        while at + MOST * LANES <= right:
            _scatter(x, i, index, weights, start, stop, out, at)
            at += MOST * LANES
        _spread_loop(x, i, index, weights, start, stop, out, at, right)

    def by_number(
        x: Any, i: Any, index: Any, weights: Any, start: Any, stop: Any, out: Any, left: Any, right: Any
    ) -> None:  # pragma: no cover - only ever compiled
        _spread_loop(x, i, index, weights, start, stop, out, left, right)

    return by_registers if in_registers(x, index, weights, out) else by_number
