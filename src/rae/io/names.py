"""The usual names of id columns, by which a header is known and columns are found."""

from __future__ import annotations

import difflib
from collections.abc import Sequence, Set

SOURCE = {
    "source", "src", "from", "u", "node1", "id1", "start", "begin", "head", "sender",
    "sourceid", "srcid", "sourcenode", "fromid", "fromnode", "fromnodeid",
}  # fmt: skip
TARGET = {
    "target", "dst", "dest", "destination", "to", "v", "node2", "id2", "end", "stop", "tail", "receiver",
    "targetid", "dstid", "targetnode", "toid", "tonode", "tonodeid",
}  # fmt: skip
ID = {"id", "node", "nodeid", "vertex", "vertexid"}


def usual(names: Sequence[str], among: Set[str]) -> int | None:
    """The position of the one column with a usual name, None if there is none or more than one.

    >>> usual(["weight", "Node_ID"], ID)
    1
    """
    found = [i for i, name in enumerate(names) if plain(name) in among]
    return found[0] if len(found) == 1 else None


def plain(name: str) -> str:
    """The name without case, blanks, dashes and underscores."""
    return "".join(c for c in name.casefold() if c not in " _-")


def position(name: str, names: Sequence[str]) -> int | str:
    """Where the column of this name stands, or half a sentence that says why that is not known."""
    if (count := list(names).count(name)) == 1:
        return list(names).index(name)
    if count:
        return f"{count} columns are called {name!r}; rename them"
    near = difflib.get_close_matches(name, names, n=1)
    listed = ", ".join(map(repr, names[:8])) + (", ..." if len(names) > 8 else "")
    return f"there is no column {name!r}; " + (f"did you mean {near[0]!r}?" if near else f"the columns are {listed}")
