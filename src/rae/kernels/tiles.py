"""The mean of a few rows, kept in the processor's registers while the rows pass by.

In Python `mean_row` is the formula, one row added after the other. Compiled, columns are taken up to
64 at a time, as one to four registers of 16 numbers; where the width is no multiple of 16 the last
register overlaps the one before, which makes the shared columns twice, both times the same.

A row is fetched twice before it is its turn: FAR rows ahead into the outer cache, NEAR rows ahead into the
inner one. The inner one holds few rows; and where a list of neighbours ends, which the processor cannot
foresee, the next rows are at hand at once.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils as untyped
from numba.extending import intrinsic, overload

from rae.kernels.hardware import LINE, fetch_row, widen

cgutils: Any = untyped

LANES = 16  # numbers in a register; elsewhere the compiler splits it into what there is
MOST = 4  # registers that add up at a time
FAR, NEAR = 48, 12  # rows ahead
OUTER, INNER = 2, 3  # what the processor calls the caches when it is told to fetch


def mean_row(x: Any, own: Any, index: Any, start: Any, stop: Any, share: Any, out: Any) -> None:
    """out = (x[own] + x[index[start]] + ... + x[index[stop - 1]]) * share; x float32, or float16 as uint16."""
    total = widen(x[own])
    for e in range(start, stop):
        total = total + widen(x[index[e]])
    out[:] = total * share


def _columns(registers: int) -> Any:
    """A function of (x, own, index, start, stop, share, out, at): `mean_row` of so many registers from column `at`."""

    def typed(_: Any, x: Any, own: Any, index: Any, start: Any, stop: Any, share: Any, out: Any, at: Any) -> Any:
        long = types.int64

        def write(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            _Writer(context, builder, signature, values, registers).write()
            return context.get_dummy_value()

        return types.void(x, long, index, long, long, types.float32, out, long), write

    return intrinsic(typed)


_one, _two, _three, _four = (_columns(registers) for registers in range(1, MOST + 1))


class _Writer:
    """What the compiler is given for `_columns`: a loop over the rows whose sums never leave the registers."""

    def __init__(self, context: Any, builder: Any, signature: Any, values: Any, registers: int) -> None:
        kinds = signature.args
        x, index, out = (context.make_array(kinds[i])(context, builder, values[i]) for i in (0, 2, 6))
        self.builder, self.share = builder, values[5]
        self.own, self.start, self.stop, self.at = (values[i] for i in (1, 3, 4, 7))
        self.x, self.index, self.out = (builder.ptrtoint(a.data, _LONG) for a in (x, index, out))
        self.stride = cgutils.unpack_tuple(builder, x.strides)[0]
        self.last = builder.sub(cgutils.unpack_tuple(builder, index.shape)[0], _LONG(1))
        self.width = cgutils.unpack_tuple(builder, out.shape)[0]
        self.half = kinds[0].dtype == types.uint16
        self.size = 2 if self.half else 4
        self.whole = kinds[2].dtype
        self.registers = registers

    def write(self) -> None:
        """start: sums = the own row; rows: sums += row; end: out = sums * share."""
        b = self.builder
        columns = self._columns()
        sums = [self._numbers(self._row(self.own), column) for column in columns]
        before = b.block
        head, body, end = (b.append_basic_block(name) for name in ("head", "row", "end"))
        b.branch(head)
        b.position_at_end(head)
        e, *totals = (b.phi(value.type) for value in (self.start, *sums))
        for phi, value in zip((e, *totals), (self.start, *sums), strict=True):
            phi.add_incoming(value, before)
        b.cbranch(b.icmp_signed("<", e, self.stop), body, end)
        b.position_at_end(body)
        for ahead, cache in ((FAR, OUTER), (NEAR, INNER)):
            self._fetch(self._row(self._entry(self._soon(e, ahead))), columns, cache)
        row = self._row(self._entry(e))
        more = [b.fadd(total, self._numbers(row, column)) for total, column in zip(totals, columns, strict=True)]
        for phi, value in zip((e, *totals), (b.add(e, _LONG(1)), *more), strict=True):
            phi.add_incoming(value, body)
        b.branch(head)
        b.position_at_end(end)
        for total, column in zip(totals, columns, strict=True):
            self._store(total, column)

    def _columns(self) -> list[Any]:
        """Where each register begins: 16 after the other, but never beyond the last 16 columns."""
        b = self.builder
        latest = b.sub(self.width, _LONG(LANES))
        starts = [b.add(self.at, _LONG(LANES * i)) for i in range(self.registers)]
        return [b.select(b.icmp_signed("<", start, latest), start, latest) for start in starts]

    def _soon(self, e: Any, ahead: int) -> Any:
        b = self.builder
        soon = b.add(e, _LONG(ahead))
        return b.select(b.icmp_signed("<", soon, self.last), soon, self.last)

    def _entry(self, e: Any) -> Any:
        """index[e] as 64 bits."""
        size = self.whole.bitwidth // 8
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
        ends = [self._times(column, self.size) for column in columns[::step]]
        ends.append(b.add(self._times(columns[-1], self.size), _LONG(LANES * self.size - 1)))
        for end in ends:
            b.call(function, [b.inttoptr(b.add(row, end), _BYTES), _INT(0), _INT(cache), _INT(1)])

    def _store(self, total: Any, column: Any) -> None:
        b = self.builder
        lonely = b.insert_element(ir.Constant(_REGISTER, ir.Undefined), self.share, _INT(0))
        everywhere = ir.Constant(ir.VectorType(_INT, LANES), [0] * LANES)
        share = b.shuffle_vector(lonely, ir.Constant(_REGISTER, ir.Undefined), everywhere)
        address = b.inttoptr(b.add(self.out, self._times(column, 4)), _REGISTER.as_pointer())
        b.store(b.fmul(total, share), address, align=4)

    def _load(self, address: Any, kind: Any, align: int) -> Any:
        return self.builder.load(self.builder.inttoptr(address, kind.as_pointer()), align=align)

    def _times(self, value: Any, factor: int) -> Any:
        return self.builder.mul(value, _LONG(factor))


_INT, _LONG = ir.IntType(32), ir.IntType(64)
_BYTES = ir.IntType(8).as_pointer()
_REGISTER = ir.VectorType(ir.FloatType(), LANES)


@overload(mean_row, strict=False)
def _compiled_mean_row(x: Any, own: Any, index: Any, start: Any, stop: Any, share: Any, out: Any) -> Any:
    def mean(
        x: Any, own: Any, index: Any, start: Any, stop: Any, share: Any, out: Any
    ) -> None:  # pragma: no cover - only ever compiled
        width = len(out)
        if width < LANES:
            for j in range(width):
                out[j] = widen(x[own, j])
            for e in range(start, stop):
                fetch_row(x, index[min(e + FAR, len(index) - 1)])
                row = x[index[e]]
                for j in range(width):
                    out[j] += widen(row[j])
            for j in range(width):
                out[j] *= share
            return
        for at in range(0, width, MOST * LANES):
            if width - at > 3 * LANES:
                _four(x, own, index, start, stop, share, out, at)
            elif width - at > 2 * LANES:
                _three(x, own, index, start, stop, share, out, at)
            elif width - at > LANES:
                _two(x, own, index, start, stop, share, out, at)
            else:
                _one(x, own, index, start, stop, share, out, at)

    return mean
