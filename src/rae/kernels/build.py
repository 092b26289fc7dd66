"""The loops that make a graph folder: placing edges stripe by stripe, renumbering rows."""

from __future__ import annotations

from typing import Any

from rae.kernels.cpu import kernel, sort_values


@kernel
def place_between(source: Any, target: Any, first: Any, last: Any, cursor: Any, out: Any) -> None:
    """Write the ends of non-loop edges that belong to rows first..last; row u goes on at cursor[u - first]."""
    for e in range(len(source)):
        u, v = source[e], target[e]
        if u == v:
            continue
        if first <= u < last:
            out[cursor[u - first]] = v
            cursor[u - first] += 1
        if first <= v < last:
            out[cursor[v - first]] = u
            cursor[v - first] += 1


@kernel
def breadth_first(offsets: Any, targets: Any, starts: Any, seen: Any, out: Any) -> None:
    """out = all nodes, each start followed by all that is connected with it, nearest first."""
    at = end = 0
    for i in range(len(starts)):
        if seen[starts[i]]:
            continue
        seen[starts[i]] = True
        out[end] = starts[i]
        end += 1
        while at < end:
            u = out[at]
            at += 1
            for e in range(offsets[u], offsets[u + 1]):
                v = targets[e]
                if not seen[v]:
                    seen[v] = True
                    out[end] = v
                    end += 1


@kernel
def relabel_rows(
    offsets: Any, targets: Any, order: Any, rank: Any, starts: Any, out: Any, start: Any, stop: Any
) -> None:
    """Rows start..stop of the graph whose row i is row order[i] of this one; row i begins at starts[i] - starts[0]."""
    for i in range(start, stop):
        at, u = starts[i] - starts[0], order[i]
        row = out[at : at + offsets[u + 1] - offsets[u]]
        for j in range(len(row)):
            row[j] = rank[targets[offsets[u] + j]]
        sort_values(row)
