"""Planetoid's pickles, read by an `Unpickler` that can build nothing but plain arrays, CSR parts and lists.

Three guards, because an allow-list of names alone does not make a pickle safe:

1. `_check_instructions` scans the file before it is loaded. Only the instructions of Planetoid's files
   pass, and only names, texts and numbers may be referred to twice, so that what is built is a tree no
   larger than the file: no memo bomb, no list shared a million times.
2. `_PlanetoidUnpickler.find_class` knows the names in these files alone, and returns stand-ins for them.
   No function of NumPy or SciPy is called while the pickle is loaded, so neither a shape, a dtype nor a
   state in the file reaches them.
3. `_plain_value` accepts three results (an array, the parts of a CSR matrix, lists of neighbours) and makes
   the arrays, each only as long as its bytes in the file.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import re
from typing import Any

import numpy as np

from rae.errors import DatasetError

Array = np.ndarray[Any, Any]

_TUPLES = {"TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"}
_TEXTS = {"BINSTRING", "SHORT_BINSTRING", "BINUNICODE"}
_INSTRUCTIONS = {
    "PROTO", "STOP", "MARK", "GLOBAL", "REDUCE", "NEWOBJ", "BUILD", "NONE", "NEWTRUE", "NEWFALSE",
    "BININT", "BININT1", "BININT2", "BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET",
    "EMPTY_LIST", "APPEND", "APPENDS", "EMPTY_DICT", "SETITEM", "SETITEMS", "EMPTY_TUPLE",
} | _TUPLES | _TEXTS  # fmt: skip
_SHAREABLE = _TEXTS | {"GLOBAL", "REDUCE"}  # what makes a value that the file may refer to again
_MOST_TUPLES = 64  # Planetoid's files have 17; nested tuples as a key would exhaust the stack when hashed
_NUMBER_TYPE = re.compile(r"[biuf][1248]")


class _RefusedError(Exception):
    """Something in the file that no Planetoid file has."""


class CsrParts(dict[str, Any]):
    """What the file says of a CSR matrix: data, indices, indptr and _shape, not yet compared with each other."""


def unpickle(content: bytes, what: str) -> Array | CsrParts | dict[int, list[Any]]:
    """The value in a Planetoid file: an array, the parts of a CSR matrix, or the neighbours of each node."""
    try:
        _check_instructions(content)
        return _plain_value(_PlanetoidUnpickler(io.BytesIO(content), encoding="latin1").load())
    except _RefusedError as error:
        raise DatasetError(f"{what} is a pickle that is not Planetoid's: {error}; nothing of it was run") from None
    except (pickle.UnpicklingError, ValueError, TypeError, LookupError, AttributeError, EOFError) as error:
        raise DatasetError(f"{what} is damaged or not a Planetoid file: {error}; nothing of it was run") from None


def _check_instructions(content: bytes) -> None:
    """Refuse a pickle with other instructions than Planetoid's, or with parts that are used twice."""
    shareable: dict[int, bool] = {}  # by memo slot
    tuples, previous = 0, ""
    for count, (opcode, argument, _) in enumerate(pickletools.genops(content)):
        name, slot = opcode.name, argument if isinstance(argument, int) else -1
        if name not in _INSTRUCTIONS:
            raise _RefusedError(f"it has the instruction {name}")
        if name in ("BINPUT", "LONG_BINPUT"):
            if slot > count:  # the memo is an array as long as its highest slot
                raise _RefusedError(f"it uses memo slot {slot:,}")
            shareable[slot] = previous in _SHAREABLE
        elif name in ("BINGET", "LONG_BINGET") and not shareable.get(slot, False):
            raise _RefusedError(f"it refers again to memo slot {slot:,}")
        tuples += name in _TUPLES
        if tuples > _MOST_TUPLES:
            raise _RefusedError(f"it has more than {_MOST_TUPLES} tuples")
        previous = name


# ------------------------------------------------------------------------------- stand-ins


class _StandIn:
    """What a name in the file stands for. BUILD on the class itself finds this method unbound and fails."""

    def __setstate__(self, state: Any) -> None:
        raise _RefusedError(f"it sets the state of a {type(self).__name__.strip('_')}")


class _Ndarray(_StandIn):
    """numpy.ndarray, which the files name and never call."""

    def __init__(self) -> None:
        raise _RefusedError("it calls numpy.ndarray")


class _List(_StandIn):
    """list, which the files name and never call."""

    def __init__(self) -> None:
        raise _RefusedError("it calls list")


class _Dtype(_StandIn):
    """numpy.dtype of plain numbers; the byte order arrives as state."""

    def __init__(self, code: Any, *_: Any) -> None:
        if type(code) is not str or not _NUMBER_TYPE.fullmatch(code):
            raise _RefusedError("it has numbers of another type than int, uint, float or bool")
        self.code, self.order = code, "|"

    def __setstate__(self, state: Any) -> None:
        match state:
            case (_, ("<" | ">" | "|" | "=") as order, *_):
                self.order = order
            case _:
                super().__setstate__(state)


class _Array(_StandIn):
    """numpy's _reconstruct(ndarray, (0,), "b"); shape, dtype and bytes arrive as state and are checked at the end."""

    def __init__(self, kind: Any, shape: Any, code: Any) -> None:
        if kind is not _Ndarray or shape != (0,) or type(code) is not str:
            raise _RefusedError("it calls _reconstruct for something else than an empty array")
        self.state: tuple[tuple[Any, ...], _Dtype, bool, str] | None = None

    def __setstate__(self, state: Any) -> None:
        match state:
            case (_, tuple() as shape, _Dtype() as dtype, bool() as fortran, str() as data) if self.state is None:
                self.state = shape, dtype, fortran, data
            case _:
                super().__setstate__(state)

    def value(self) -> Array:
        """The array; its shape must account for every byte."""
        if self.state is None:
            raise _RefusedError("it has an array without content")
        shape, dtype, fortran, data = self.state
        if not 1 <= len(shape) <= 2 or any(type(n) is not int or n < 0 for n in shape):
            raise _RefusedError("it has an array that is neither a row nor a table")
        flat = np.frombuffer(data.encode("latin1"), np.dtype(dtype.order + dtype.code))
        size = shape[0] * (shape[1] if len(shape) == 2 else 1)
        if flat.size != size:
            raise _RefusedError(f"it has an array of shape {shape} with {flat.size:,} values")
        return flat.reshape(shape, order="F" if fortran else "C")


class _Csr(_StandIn):
    """scipy.sparse.csr_matrix; its attributes arrive as state."""

    state: dict[str, Any] | None = None

    def __setstate__(self, state: Any) -> None:
        if type(state) is not dict or self.state is not None:
            super().__setstate__(state)
        self.state = state


class _Neighbors(_StandIn):
    """collections.defaultdict(list), as a plain dict."""

    def __new__(cls, factory: Any) -> Any:
        if factory is not _List:
            raise _RefusedError("it has a defaultdict of something else than list")
        return {}


class _Latin1(_StandIn):
    """_codecs.encode(text, "latin1"), by which Python 3 writes bytes; the text is kept as it is."""

    def __new__(cls, text: Any, encoding: Any) -> Any:
        if type(text) is not str or encoding != "latin1":
            raise _RefusedError("it encodes something else than text as Latin-1")
        return text


STAND_INS = {
    ("numpy", "ndarray"): _Ndarray,
    ("numpy", "dtype"): _Dtype,
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("scipy.sparse.csr", "csr_matrix"): _Csr,
    ("scipy.sparse._csr", "csr_matrix"): _Csr,
    ("collections", "defaultdict"): _Neighbors,
    ("__builtin__", "list"): _List,
    ("_codecs", "encode"): _Latin1,
}


class _PlanetoidUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in STAND_INS:
            raise _RefusedError(f"it names {module}.{name}")
        return STAND_INS[module, name]


def _plain_value(loaded: Any) -> Array | CsrParts | dict[int, list[Any]]:
    """The result without stand-ins; three kinds of it are Planetoid's."""
    if type(loaded) is _Array:
        return loaded.value()
    if type(loaded) is _Csr:
        attributes = loaded.state or {}
        # The rest of the attributes (maxprint, ...) is left unread.
        parts = {name: attributes.get(name) for name in ("data", "indices", "indptr", "_shape")}
        return CsrParts({k: part.value() if type(part) is _Array else part for k, part in parts.items()})
    if type(loaded) is dict and all(type(k) is int and type(v) is list for k, v in loaded.items()):
        return loaded
    kind = type(loaded).__name__.strip("_")
    raise _RefusedError(f"expected an array, a CSR matrix, or a list of neighbours for each node, got {kind}")
