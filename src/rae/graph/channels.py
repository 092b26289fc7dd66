"""Channels: weights, directions and kinds of edges, as arrays of float32 parallel to a graph's neighbours.

    weight          the weight of the edge                       of an undirected graph
    out, in         the weight of u -> v, of v -> u              of a directed one; 0 where there is no such edge
    out:payment     the same of one kind of edges

A channel has one number for every stored neighbour, in the order of `Graph.targets`, so every operation on rows works
on a channel too, and a channel takes 4 bytes for each of them. A weight is above 0; where none was given it is 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rae.errors import Argument, ConfigError, GraphError, one_line
from rae.graph.ids import is_text, usable
from rae.reading import EdgeOptions

Floats = np.ndarray[Any, np.dtype[np.float32]]
Codes = np.ndarray[Any, np.dtype[np.float32]]

MOST_KINDS = 16  # with two directions 32 channels, which a key of the builder has bits for
DOUBLED = ("add", "count", "max")
OUT, IN, BOTH = "out", "in", "weight"
LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class EdgeValues:
    """The values of edges that a graph stores: weights, directions, kinds, and how doubled edges are merged.

    `doubled` edges "add" their weights, are counted ("count"), or the largest weight stays ("max"); by default weights
    are added, and edges without weights count once.
    """

    weighted: bool = False
    directed: bool = False
    kinds: bool = False
    doubled: str | None = None

    def __post_init__(self) -> None:
        if self.doubled is not None and self.doubled not in DOUBLED:
            raise ConfigError(
                Argument("doubled"), f" must be one of {', '.join(map(repr, DOUBLED))}, got {self.doubled!r}"
            )
        if self.doubled == "count" and self.weighted:
            raise ConfigError(
                *(Argument("doubled", "count"), " makes the number of rows the weight of an edge, so no weights are "),
                *("read; leave ", Argument("weight"), " out, or pass ", Argument("doubled", "add")),
            )

    @classmethod
    def of(cls, options: EdgeOptions) -> EdgeValues:
        """The values that a table gives with these options."""
        return cls(options.weight is not None, bool(options.directed), options.kind is not None, options.doubled)

    def __bool__(self) -> bool:
        """Whether edges have any values besides their ends."""
        return self.weighted or self.directed or self.kinds or self.doubled is not None

    @property
    def has_weights(self) -> bool:
        """Whether weights differ: given ones, or counts of doubled edges."""
        return self.weighted or self.doubled in ("add", "count")

    @property
    def merged(self) -> str | None:
        """How doubled edges are merged where their weights are not added: "count" or "max"."""
        if not self.has_weights:
            return None
        return "max" if self.keeps_largest else None if self.weighted else "count"

    @property
    def keeps_largest(self) -> bool:
        """Whether of doubled edges the largest weight stays; without weights all are 1."""
        return self.doubled == "max" or not self.has_weights

    @property
    def directions(self) -> tuple[str, ...]:
        """The channels of one kind."""
        return (OUT, IN) if self.directed else (BOTH,)


def channel_names(directions: Sequence[str], kinds: Iterable[str]) -> tuple[str, ...]:
    """The names of the channels, kind by kind; no kinds are one without a name.

    >>> channel_names(("out", "in"), ["call", "text"])
    ('out:call', 'in:call', 'out:text', 'in:text')
    """
    ways = list(kinds) or [""]
    return tuple(f"{direction}:{kind}" if kind else direction for kind in ways for direction in directions)


def split_name(name: str) -> tuple[str, str]:
    """Direction and kind of a channel; "" is no kind.

    >>> split_name("out:call"), split_name("weight")
    (('out', 'call'), ('weight', ''))
    """
    direction, _, kind = name.partition(":")
    return direction, kind


def kinds_of(names: Iterable[str]) -> tuple[str, ...]:
    """The kinds of these channels, in their order; empty where edges have none."""
    return tuple(dict.fromkeys(kind for _, kind in map(split_name, names) if kind))


def mirrored(name: str) -> str:
    """The channel of the same weights, seen from the other end of the edges.

    >>> mirrored("out:call"), mirrored("weight")
    ('in:call', 'weight')
    """
    direction, kind = split_name(name)
    other = {OUT: IN, IN: OUT, BOTH: BOTH}[direction]
    return f"{other}:{kind}" if kind else other


def is_directed(names: Sequence[str]) -> bool:
    """Whether these are the channels of a directed graph."""
    return bool(names) and split_name(names[0])[0] == OUT


def check_channel_names(names: Sequence[str]) -> None:
    """Refuse names that are not the channels of one graph."""
    if names and tuple(names) != channel_names((OUT, IN) if is_directed(names) else (BOTH,), kinds_of(names)):
        raise GraphError(
            f"channels must be 'weight', or 'out' and 'in', or these for each kind ('out:call', 'in:call', ...), got "
            f"{', '.join(map(repr, names))}"
        )


def check_channels(channels: Mapping[str, Any], length: int) -> None:
    """Refuse channels that are not those of one graph with so many stored neighbours."""
    check_channel_names(tuple(channels))
    for name, array in channels.items():
        if not isinstance(array, np.ndarray) or array.dtype != np.float32 or array.shape != (length,):
            got = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
            raise GraphError(
                f"channel {name!r} must be float32 with one weight per stored neighbour ({length:,}), got {got}"
            )


def checked_weights(column: Any, *, first_row: int = 0) -> Floats:
    """Weights as float32; missing, negative and infinite ones are refused with their row. Zeros stay.

    >>> checked_weights([1, 2.5]).tolist()
    [1.0, 2.5]
    """
    doubles = _doubles(column)
    bad = ~((doubles >= 0) & (doubles <= LARGEST))  # NaN compares false
    if bad.any():
        row = int(bad.argmax())
        raise WeightError(row, first_row, doubles[row], int(bad.sum()))
    return doubles.astype(np.float32)


class WeightError(GraphError):
    """A weight that is missing, negative or infinite; `row` counts from 0 in the column."""

    def __init__(self, row: int, first_row: int, value: float, count: int) -> None:
        self.row, self.value = row + first_row, value
        others = f" and {count - 1:,} more" if count > 1 else ""
        super().__init__(
            Argument("weight"),
            f" must hold finite numbers from 0 up, got {weight_in_words(value)} in row {self.row:,}{others}; "
            f"mend or drop such rows{other_way(value)}",
        )


def weight_in_words(value: float) -> str:
    """An invalid weight, in words.

    >>> weight_in_words(float("nan")), weight_in_words(-2.0), weight_in_words(1e39)
    ('a missing one (NaN)', '-2', '1e+39')
    """
    return "a missing one (NaN)" if value != value else f"{value:g}"


def other_way(value: float) -> str:
    """Advice for a negative weight: what it may have been meant for."""
    return ", or give what comes back as an edge the other way round" if value < 0 else ""


def _doubles(column: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    if hasattr(column, "detach"):  # a torch tensor
        column = column.detach().cpu().numpy()
    if not isinstance(column, (pa.Array, pa.ChunkedArray)):
        try:
            column = pa.chunked_array(column) if hasattr(column, "__arrow_c_stream__") else pa.array(column)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            strange = _no_number(column)
            got = one_line(error) if strange is None else f"{strange!r} among others"
            raise GraphError(Argument("weight"), f" must hold one number per edge, got {got}") from None
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if pa.types.is_boolean(kind):
        column = column.cast(pa.uint8())
    elif pa.types.is_null(kind) or pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
    elif not pa.types.is_integer(kind) and not pa.types.is_floating(kind):
        shown = next((repr(value) for value in column.slice(0, 100).to_pylist() if value is not None), "nothing")
        raise GraphError(
            Argument("weight"), f" must hold numbers, got {kind} such as {shown}; name another column, or convert it"
        )
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    doubles: np.ndarray[Any, np.dtype[np.float64]] = column.cast(pa.float64(), safe=False).to_numpy(
        zero_copy_only=False
    )
    return doubles


def _no_number(column: Any) -> Any:
    """The first value that is no number, None where there is none to be found."""
    values = column if isinstance(column, Iterable) else ()
    return next((value for value in values if not isinstance(value, (Real, np.ndarray, type(None)))), None)


class KindCodes:
    """Kinds of edges, numbered as they appear; in the end they are sorted."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def codes(self, column: Any, *, first_row: int = 0) -> Codes:
        """The numbers of these kinds, as float32, to be stored like the weights.  (r,) -> (r,)"""
        encoded = kind_column(column).dictionary_encode()
        if encoded.null_count:
            row = first_row + pc.index(pc.is_null(encoded), True).as_py()
            raise GraphError(
                Argument("kind"), f" must be there for every edge, got none in row {row:,}; fill or drop it"
            )
        codes_of_kinds = []
        for name in encoded.dictionary.to_pylist():
            if name not in self.names:
                self.names.append(name)
            codes_of_kinds.append(self.names.index(name))
        if "" in self.names:
            raise GraphError(
                Argument("kind"), " must be a word for every edge, got an empty one; fill or drop those rows"
            )
        if len(self.names) > MOST_KINDS:
            raise GraphError(
                Argument("kind"),
                f" must have at most {MOST_KINDS} different values, got {', '.join(map(repr, self.names[:3]))} and "
                "more; put rare kinds together under one name, or name another column",
            )
        table = np.array(codes_of_kinds, np.float32)
        return table[encoded.indices.to_numpy()] if len(encoded) else np.empty(0, np.float32)

    def ranks(self) -> Codes:
        """The place of each kind among the sorted ones."""
        order = sorted(range(len(self.names)), key=self.names.__getitem__)
        out = np.empty(len(order), np.float32)
        out[order] = np.arange(len(order))
        return out


def kind_column(column: Any) -> pa.Array:
    """A column of kinds as text; whole numbers, truth values and dates are written out, other numbers refused."""
    if not isinstance(column, (pa.Array, pa.ChunkedArray)):
        try:
            column = pa.chunked_array(column) if hasattr(column, "__arrow_c_stream__") else pa.array(list(column))
        except (pa.ArrowException, TypeError, ValueError) as error:
            reason = one_line(error)
            raise GraphError(Argument("kind"), f" must hold one word per edge ({reason})") from None
    column = usable(column)
    kind = column.type
    if not (is_text(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind)):
        raise GraphError(Argument("kind"), f" must hold words or whole numbers, got {kind}; name another column")
    return column.cast(pa.string())
