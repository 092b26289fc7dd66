"""Roles whose summaries are equal, told apart by the fact in which they differ most."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rae.roles.words import leading

_TOLD = {
    "neighbor_degree": "neighbours of degree {}",
    "degree": "median degree {}",
    "triangles": "in {} triangles",
    "clustering": "median clustering {}",
    "core": "core number {}",
}
Facts = Sequence[dict[str, Any]]


def told_apart(summaries: Sequence[str], structure: Facts, edges: Facts) -> list[str]:
    """The summaries, with a fact more where two are equal; equal ones stay only where no fact differs.

    Facts are medians and shares of edges, compared by the percent that lie between them.
    """
    out = list(summaries)
    for text in dict.fromkeys(summaries):
        _tell(
            [role for role, other in enumerate(summaries) if other == text and structure[role]], out, structure, edges
        )
    return out


def _tell(equal: list[int], out: list[str], structure: Facts, edges: Facts) -> None:
    """Add facts to the summaries of these roles until no two are equal; each fact splits what is left."""
    if len(equal) < 2:
        return
    best = max(_facts(equal, structure, edges), key=lambda fact: (len(set(fact[1])) > 1, fact[0]))[1]
    if len(set(best)) < 2:
        return
    for role, fact in zip(equal, best, strict=True):
        out[role] += f"; {fact}"
    for fact in dict.fromkeys(best):
        _tell([role for role, other in zip(equal, best, strict=True) if other == fact], out, structure, edges)


def _facts(equal: list[int], structure: Facts, edges: Facts) -> Iterator[tuple[float, list[str]]]:
    """Each fact that could be added: how far these roles lie apart in it, and how it reads for each."""
    for name, words in _TOLD.items():
        stand = [structure[role][name]["percentiles"][1] for role in equal]
        yield max(stand) - min(stand), [words.format(f"{structure[r][name]['quartiles'][1]:.3g}") for r in equal]
    rows = [edges[role]["to"] for role in equal]
    most = [max(range(len(row)), key=row.__getitem__) for row in rows]
    for to in [most, *([j] * len(rows) for j in range(len(rows[0])))]:
        apart = max(max(row[j] for row in rows) - min(row[j] for row in rows) for j in set(to))
        if apart or to is most:
            yield 100 * apart, [leading(r, j, row[j]) for r, j, row in zip(equal, to, rows, strict=True)]
