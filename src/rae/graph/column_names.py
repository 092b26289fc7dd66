"""The usual names of columns, which tell ids, sources and targets, and whether a row is a header."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence, Set

from rae.errors import Argument, GraphError

# The two ends of an edge, the surest pair first: of several pairs in one table the first is used.
PAIRS = (
    ("source", "target"), ("src", "dst"), ("src", "dest"), ("from", "to"), ("u", "v"), ("node1", "node2"),
    ("caller", "called"), ("caller", "callee"), ("sender", "receiver"), ("sender", "recipient"),
    ("follower", "followee"), ("follower", "followed"), ("citing", "cited"), ("payer", "payee"), ("buyer", "seller"),
    ("user", "friend"), ("author", "coauthor"), ("customer", "product"), ("user", "item"), ("user", "product"),
    ("origin", "destination"), ("source", "destination"), ("head", "tail"), ("parent", "child"),
    ("id1", "id2"), ("user1", "user2"), ("vertex1", "vertex2"), ("person1", "person2"),
)  # fmt: skip
SOURCE = {source for source, _ in PAIRS}
TARGET = {target for _, target in PAIRS} | {"dest", "destination"}
# Also names of ends, but as often of times, so that they count in the first two columns only.
OPENING, CLOSING = {"start", "begin"}, {"end", "stop"}
ID = {"id", "node", "nodeid", "vertex", "vertexid"}
# Usual names of columns that are read only where an option names them.
WEIGHT = {
    "weight",
    "amount",
    "value",
    "sum",
    "volume",
    "price",
    "usd",
    "eur",
    "amountusd",
    "amounteur",
    "duration",
    "total",
}
KIND = {"type", "kind", "category", "relation", "relationship", "label", "transactiontype", "edgetype", "channel"}
TIME = {"time", "timestamp", "date", "datetime", "when", "ts", "createdat", "created", "at"}
_EITHER_WAY = {"u", "node1", "user", "author", "id1", "user1", "vertex1", "person1", "customer", "source", "src"}
DIRECTED = {(source, target) for source, target in PAIRS if source not in _EITHER_WAY}


def edge_columns(
    names: Sequence[str], source: str | None = None, target: str | None = None
) -> tuple[tuple[int, int], bool]:
    """The positions of an edge's two ends, and whether they are a guess among several columns.

    The columns named by the caller; else those with usual names, at any position; else the first two.
    """
    if len(names) < 2:
        raise GraphError(f"an edge table needs two columns, got {', '.join(map(repr, names)) or 'none'}")
    first = None if source is None else _position(names, source)
    second = None if target is None else _position(names, target)
    guessed = False
    if first is None and second is None:
        ends = edge_ends(names)
        guessed = ends is None and len(names) > 2
        first, second = ends or (0, 1)
    if first is None:
        first = usual_end(names, SOURCE)
        first = next(i for i in range(len(names)) if i != second) if first is None else first
    if second is None:
        second = usual_end(names, TARGET)
        second = next(i for i in range(len(names)) if i != first) if second is None else second
    if first == second:
        raise GraphError(
            *(Argument("source"), " and ", Argument("target")),
            f" must be two columns, got {names[first]!r} for both; name the other",
        )
    return (first, second), guessed


def named_columns(names: Sequence[str], ends: tuple[int, int], column_of: Mapping[str, str | None]) -> dict[str, int]:
    """The positions of the columns that are named for something besides the ends: weight, kind, time."""
    out: dict[str, int] = {}
    for argument, name in column_of.items():
        if name is None:
            continue
        index = position(name, names)
        if isinstance(index, str):
            raise GraphError(Argument(argument), f": {index}")
        role_of = {ends[0]: "source", ends[1]: "target"} | {place: other for other, place in out.items() if place != -1}
        if index in role_of:
            raise GraphError(
                *(Argument(argument), " and ", Argument(role_of[index])),
                f" must be two columns, got {name!r} for both; name another",
            )
        out[argument] = index
    return out


def suggested_columns(names: Sequence[str], ends: tuple[int, int]) -> dict[str, str]:
    """The columns besides the ends with usual names, and whether the names of the ends tell directions.

    >>> suggested_columns(["sender", "receiver", "Amount", "timestamp", "note"], (0, 1))
    {'weight': 'Amount', 'time': 'timestamp', 'directed': ''}
    """
    out: dict[str, str] = {}
    for argument, among in (("weight", WEIGHT), ("kind", KIND), ("time", TIME)):
        place = usual(names, among)
        if place is not None and place not in ends:
            out[argument] = names[place]
    if (end_name(names[ends[0]]), end_name(names[ends[1]])) in DIRECTED:
        out["directed"] = ""
    return out


def _position(names: Sequence[str], name: str) -> int:
    index = position(name, names)
    if isinstance(index, str):
        raise GraphError(index)
    return index


def edge_ends(names: Sequence[str]) -> tuple[int, int] | None:
    """The positions of the two columns with usual names of an edge's ends, None if there are none.

    >>> edge_ends(["timestamp", "Caller_ID", "called id"])
    (1, 2)
    """
    plain_names = [end_name(name) for name in names]
    for source, target in PAIRS:
        if plain_names.count(source) == 1 == plain_names.count(target):
            return plain_names.index(source), plain_names.index(target)
    first, second = usual_end(names, SOURCE), usual_end(names, TARGET)
    return None if first is None or second is None else (first, second)


def is_like_a_node_table(names: Sequence[str]) -> bool:
    """Whether these are columns of a table with a row per node: an id first, and no end of an edge after it.

    >>> is_like_a_node_table(["id", "age"]), is_like_a_node_table(["id", "friend_id"])
    (True, False)
    """
    return (
        edge_ends(names) is None
        and plain(names[0]) in ID
        and like_an_id(names[1:2]) is None
        and end_name(names[1]) not in TARGET | CLOSING
    )


def usual_end(names: Sequence[str], among: Set[str]) -> int | None:
    """The position of the one column with such a name of an end, None if there is none or more than one."""
    matches = [i for i, name in enumerate(names) if end_name(name) in among]
    return matches[0] if len(matches) == 1 else None


def usual(names: Sequence[str], among: Set[str]) -> int | None:
    """The position of the one column with a usual name, None if there is none or more than one.

    >>> usual(["weight", "Node_ID"], ID)
    1
    """
    matches = [i for i, name in enumerate(names) if plain(name) in among]
    return matches[0] if len(matches) == 1 else None


def like_an_id(names: Sequence[str]) -> int | None:
    """The position of the first column that seems to hold ids: a usual name, or one that ends in id."""
    matches = (i for i, name in enumerate(names) if plain(name) in ID or re.search(r"[\W_]id$", name.casefold()))
    return next(matches, None)


def plain(name: str) -> str:
    """The name without case, blanks, dashes and underscores."""
    return "".join(c for c in name.casefold() if c not in " _-")


def end_name(name: str) -> str:
    """The plain name without what only says that it is an id.

    >>> end_name("From_Node_ID"), end_name("customer id"), end_name("id")
    ('from', 'customer', 'id')
    """
    short = plain(name)
    return re.sub(r"(?<=.)(nodeid|node|id)$", "", short) or short


def position(name: str, names: Sequence[str]) -> int | str:
    """The position of the column of this name, or the reason why there is none, for an error message."""
    if (count := list(names).count(name)) == 1:
        return list(names).index(name)
    if count:
        return f"{count} columns are called {name!r}; rename them"
    near = difflib.get_close_matches(name, names, n=1)
    listed = ", ".join(map(repr, names[:8])) + (", ..." if len(names) > 8 else "")
    return f"there is no column {name!r}; " + (f"did you mean {near[0]!r}?" if near else f"the columns are {listed}")
