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
from numba.extending import intrinsic, overload

from rae.kernels.hardware import LINE, fetch_row, widen

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


def _written(
    _: Any, x: Any, own: Any, index: Any, weights: Any, start: Any, stop: Any, share: Any, out: Any, i: Any
) -> Any:
    """A mean with own and share, a sum where both are None; weights may be None."""
    long = types.int64
    mean = (long, types.float32) if own != types.none else (types.none, types.none)

    def write(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        _Writer(context, builder, signature.args, values).write()
        return context.get_dummy_value()

    return types.void(x, mean[0], index, weights, long, long, mean[1], out, long), write


_wide: Any = intrinsic(_written)  # rows of 16 columns or more


class _Writer:
    """What the compiler is given: for every 64 columns a loop over the rows whose sums never leave the registers."""

    def __init__(self, context: Any, builder: Any, kinds: Any, values: Any) -> None:
        def array(i: int) -> Any:
            return context.make_array(kinds[i])(context, builder, values[i])

        def address(i: int) -> Any:
            return builder.ptrtoint(array(i).data, _LONG)

        self.builder = builder
        _, self.own, _, _, self.start, self.stop, self.share, _, row = values
        self.x, self.index = address(0), address(2)
        strides, shape = array(7).strides, array(7).shape
        self.out = builder.add(address(7), builder.mul(row, cgutils.unpack_tuple(builder, strides)[0]))
        self.mean = kinds[1] != types.none
        self.weights = address(3) if kinds[3] != types.none else None
        self.stride = cgutils.unpack_tuple(builder, array(0).strides)[0]
        self.last = builder.sub(cgutils.unpack_tuple(builder, array(2).shape)[0], _LONG(1))
        self.width = cgutils.unpack_tuple(builder, shape)[1]
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
        """Before: sums = the own row, or nothing; row: sums += row; end: out = sums, times the share."""
        b = self.builder
        nothing = ir.Constant(_REGISTER, [0.0] * LANES)
        sums = [self._numbers(self._row(self.own), column) if self.mean else nothing for column in columns]
        before = b.block
        head, body, end = (b.append_basic_block(name) for name in ("head", "row", "end"))
        b.branch(head)
        b.position_at_end(head)
        e, *totals = (b.phi(value.type) for value in (self.start, *sums))
        for phi, value in zip((e, *totals), (self.start, *sums), strict=True):
            phi.add_incoming(value, before)
        b.cbranch(b.icmp_signed("<", e, self.stop), body, end)
        b.position_at_end(body)
        for phi, value in zip((e, *totals), (b.add(e, _LONG(1)), *self._add(e, totals, columns)), strict=True):
            phi.add_incoming(value, body)
        b.branch(head)
        b.position_at_end(end)
        for total, column in zip(totals, columns, strict=True):
            self._store(b.fmul(total, self._everywhere(self.share)) if self.mean else total, column)

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
                self._fetch(self._row(self._entry(soon)), columns, cache)
        row = self._row(self._entry(e))
        numbers = [self._numbers(row, column) for column in columns]
        if self.weights is not None:
            weight = self._everywhere(self._load(b.add(self.weights, self._times(e, 4)), ir.FloatType(), 4))
            numbers = [b.fmul(weight, some, flags=_FUSED) for some in numbers]
        return [b.fadd(total, some, flags=_FUSED) for total, some in zip(totals, numbers, strict=True)]

    def _entry(self, e: Any) -> Any:
        """index[e] as 64 bits."""
        size = self.entry_size
        entry = self._load(self.builder.add(self.index, self._times(e, size)), ir.IntType(8 * size), size)
        return entry if size == 8 else self.builder.sext(entry, _LONG)

    def _row(self, row: Any) -> Any:
        """The address of a row of x."""
        return self.builder.add(self.x, self.builder.mul(row, self.stride))

    def _numbers(self, row: Any, column: Any) -> Any:
        """16 float32 of a row."""
        b = self.builder
        kind = ir.VectorType(ir.HalfType(), LANES) if self.half else _REGISTER
        numbers = self._load(b.add(row, self._times(column, self.size)), kind, self.size)
        return b.fpext(numbers, _REGISTER) if self.half else numbers

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

    def _store(self, total: Any, column: Any) -> None:
        b = self.builder
        b.store(total, b.inttoptr(b.add(self.out, self._times(column, 4)), _REGISTER.as_pointer()), align=4)

    def _everywhere(self, number: Any) -> Any:
        """A register that holds one number 16 times."""
        empty = ir.Constant(_REGISTER, ir.Undefined)
        once = self.builder.insert_element(empty, number, _INT(0))
        return self.builder.shuffle_vector(once, empty, ir.Constant(ir.VectorType(_INT, LANES), [0] * LANES))

    def _load(self, address: Any, kind: Any, align: int) -> Any:
        return self.builder.load(self.builder.inttoptr(address, kind.as_pointer()), align=align)

    def _times(self, value: Any, factor: int) -> Any:
        return self.builder.mul(value, _LONG(factor))


@overload(sum_row, strict=False, inline="always")
def _compiled_sum_row(x: Any, index: Any, weights: Any, start: Any, stop: Any, out: Any, i: Any) -> Any:
    plain = weights == types.none

    def sum_(
        x: Any, index: Any, weights: Any, start: Any, stop: Any, out: Any, i: Any
    ) -> None:  # pragma: no cover - only ever compiled
        if out.shape[1] >= LANES:
            _wide(x, None, index, weights, start, stop, None, out, i)
            return
        for j in range(out.shape[1]):
            out[i, j] = 0
        for e in range(start, stop):
            row, weight = x[index[e]], np.float32(1) if plain else weights[e]
            for j in range(out.shape[1]):
                out[i, j] += weight * row[j]

    return sum_


@overload(mean_row, strict=False, inline="always")
def _compiled_mean_row(x: Any, own: Any, index: Any, start: Any, stop: Any, share: Any, out: Any, i: Any) -> Any:
    def mean(
        x: Any, own: Any, index: Any, start: Any, stop: Any, share: Any, out: Any, i: Any
    ) -> None:  # pragma: no cover - only ever compiled
        if out.shape[1] >= LANES:
            _wide(x, own, index, None, start, stop, share, out, i)
            return
        for j in range(out.shape[1]):
            out[i, j] = widen(x[own, j])
        for e in range(start, stop):
            fetch_row(x, index[min(e + FAR, len(index) - 1)])
            row = x[index[e]]
            for j in range(out.shape[1]):
                out[i, j] += widen(row[j])
        for j in range(out.shape[1]):
            out[i, j] *= share

    return mean
