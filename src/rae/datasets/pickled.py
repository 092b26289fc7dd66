"""The values in a Planetoid file, which is a pickle, read without ever running a pickle.

Planetoid's files use few of pickle's instructions: numbers, texts, lists, dicts, NumPy arrays and
SciPy CSR matrices. `read` carries out exactly those on inert values of its own. Nothing is
imported, no name in the file is ever called, and no array is made that is longer than the bytes
the file brings for it; any other instruction or name is refused before it has an effect.
"""

from __future__ import annotations

import io
import pickletools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from rae.errors import DatasetError


class _RefusedError(Exception):
    """Something in the file that no Planetoid file has."""


_MARK = object()
_NAMES = {
    "numpy.core.multiarray _reconstruct": "reconstruct",
    "numpy._core.multiarray _reconstruct": "reconstruct",
    "numpy ndarray": "ndarray",
    "numpy dtype": "dtype",
    "scipy.sparse.csr csr_matrix": "csr",
    "scipy.sparse._csr csr_matrix": "csr",
    "collections defaultdict": "defaultdict",
    "__builtin__ list": "list",
    "_codecs encode": "encode",
}
_VALUES = {"NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "BINSTRING", "SHORT_BINSTRING", "BINUNICODE"}
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_NUMBERS = re.compile(r"[biuf][1248]")


@dataclass(frozen=True)
class _Name:
    """One of the names above, as a mere word."""

    word: str


@dataclass
class _Array:
    """An array between its creation and the moment its state arrives."""

    value: np.ndarray[Any, Any] | None = None


@dataclass
class _Dtype:
    """A kind of number; its byte order arrives later."""

    code: str
    order: str = "|"


@dataclass
class CsrState:
    """What the file says about a CSR matrix: unchecked, and nothing but a dict of values."""

    state: dict[str, Any] | None = None


def read(content: bytes, what: str) -> Any:
    """The value in these bytes: numbers, texts, lists, tuples, dicts, arrays and CsrState."""
    try:
        return _Machine(len(content)).run(content)
    except _RefusedError as error:
        raise DatasetError(f"{what} is a pickle that is not Planetoid's: {error}; nothing of it was run") from None
    except (ValueError, TypeError, IndexError, KeyError, AttributeError) as error:
        raise DatasetError(f"{what} is damaged or not a Planetoid file: {error}; nothing of it was run") from None


class _Machine:
    """A stack and a memo, as pickle's instructions want them."""

    def __init__(self, budget: int) -> None:
        self.budget = budget  # bytes all arrays together may have: each has its own in the file
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self, content: bytes) -> Any:
        instructions = pickletools.genops(io.BytesIO(content))  # raises where there is no end
        while True:
            opcode, argument, _ = next(instructions)
            name, value = opcode.name, cast(Any, argument)
            if name in _VALUES:
                self.stack.append(_CONSTANTS.get(name, value))
            elif name in ("BINPUT", "LONG_BINPUT"):
                self.memo[value] = self.stack[-1]
            elif name in ("BINGET", "LONG_BINGET"):
                self.stack.append(self.memo[value])
            elif name == "GLOBAL":
                self.stack.append(_admitted(value))
            elif name in _DO:
                _DO[name](self)
            elif name == "STOP":
                return _finished(self.stack.pop())
            elif name != "PROTO":
                raise _RefusedError(f"it has the instruction {name}")

    def since_mark(self) -> list[Any]:
        """Everything above the latest mark, taken off the stack together with it."""
        place = len(self.stack) - 1
        while self.stack[place] is not _MARK:
            place -= 1
            if place < 0:
                raise ValueError("a mark is missing")
        items = self.stack[place + 1 :]
        del self.stack[place:]
        return items

    def take(self, count: int) -> list[Any]:
        """The top values, in the order they were put there."""
        if len(self.stack) < count:
            raise ValueError("a value is missing")
        items = self.stack[len(self.stack) - count :]
        del self.stack[len(self.stack) - count :]
        return items

    def append(self, items: list[Any]) -> None:
        """Add to the list on top."""
        target = self.stack[-1]
        if type(target) is not list:
            raise _RefusedError(f"it appends to a {type(target).__name__}")
        target.extend(_finished(item) for item in items)

    def set_items(self, items: list[Any]) -> None:
        """Fill the dict on top; keys are numbers or texts."""
        target = self.stack[-1]
        if type(target) is not dict or any(type(k) not in (int, str) for k in items[::2]) or len(items) % 2:
            raise _RefusedError(f"it sets items of a {type(target).__name__}")
        target.update(zip(items[::2], map(_finished, items[1::2]), strict=True))


def _admitted(words: str) -> _Name:
    if words not in _NAMES:
        raise _RefusedError(f"it asks for {words.replace(' ', '.')}")
    return _Name(_NAMES[words])


def _finished(value: Any) -> Any:
    """The value as the caller may see it: an array in place of its stand-in."""
    if isinstance(value, _Array):
        if value.value is None:
            raise _RefusedError("it has an array without content")
        return value.value
    if isinstance(value, (_Name, _Dtype)) or value is _MARK:
        raise _RefusedError(f"it uses {value} as a value")
    return value


def _make(machine: _Machine) -> None:
    """REDUCE and NEWOBJ: one of five things may be made, each from the arguments that it always has."""
    name, arguments = machine.take(2)
    made: Any
    match (name, arguments):
        case (_Name("reconstruct"), (_Name("ndarray"), (0,), str() | bytes())):
            made = _Array()
        case (_Name("dtype"), (str() as code, *_)) if _NUMBERS.fullmatch(code):
            made = _Dtype(code)
        case (_Name("csr"), ()):
            made = CsrState()
        case (_Name("defaultdict"), (_Name("list"),)):
            made = {}
        case (_Name("encode"), (str() as text, "latin1")):
            made = text
        case _:
            called = name.word if isinstance(name, _Name) else type(name).__name__
            raise _RefusedError(f"it calls {called} in a way of its own")
    machine.stack.append(made)


def _build(machine: _Machine) -> None:
    """BUILD: give the thing on top its state."""
    (state,) = machine.take(1)
    match (machine.stack[-1], state):
        case (_Dtype() as dtype, (_, ("<" | ">" | "|" | "=") as order, *_)):
            dtype.order = order
        case (_Array(None) as array, (_, tuple() as shape, _Dtype() as dtype, bool() as fortran, str() as data)):
            machine.budget -= len(data)
            if machine.budget < 0:
                raise _RefusedError("its arrays have more bytes than the file")
            array.value = _array(shape, dtype, fortran, data.encode("latin1"))
        case (CsrState(None) as csr, dict()):
            csr.state = state
        case _:
            raise _RefusedError(f"it sets the state of a {type(machine.stack[-1]).__name__}")


def _array(shape: tuple[Any, ...], dtype: _Dtype, fortran: bool, data: bytes) -> np.ndarray[Any, Any]:
    if not 1 <= len(shape) <= 2 or any(type(n) is not int or n < 0 for n in shape):
        raise _RefusedError("it has an array that is neither a row nor a table")
    flat = np.frombuffer(data, np.dtype(dtype.order + dtype.code))
    size = shape[0] * (shape[1] if len(shape) == 2 else 1)
    if flat.size != size:
        raise _RefusedError(f"it has an array of shape {shape} with {flat.size:,} values")
    return flat.reshape(shape, order="F" if fortran else "C")


_DO: dict[str, Callable[[_Machine], None]] = {
    "MARK": lambda m: m.stack.append(_MARK),
    "EMPTY_LIST": lambda m: m.stack.append([]),
    "EMPTY_DICT": lambda m: m.stack.append({}),
    "EMPTY_TUPLE": lambda m: m.stack.append(()),
    "TUPLE": lambda m: m.stack.append(tuple(m.since_mark())),
    "TUPLE1": lambda m: m.stack.append(tuple(m.take(1))),
    "TUPLE2": lambda m: m.stack.append(tuple(m.take(2))),
    "TUPLE3": lambda m: m.stack.append(tuple(m.take(3))),
    "APPEND": lambda m: m.append(m.take(1)),
    "APPENDS": lambda m: m.append(m.since_mark()),
    "SETITEM": lambda m: m.set_items(m.take(2)),
    "SETITEMS": lambda m: m.set_items(m.since_mark()),
    "REDUCE": _make,
    "NEWOBJ": _make,
    "BUILD": _build,
}
