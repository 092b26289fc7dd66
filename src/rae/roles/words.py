"""A role in one line of plain language, made from its facts alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_RANKS = (
    (99.0, "in the top 1 %"),
    (95.0, "in the top 5 %"),
    (90.0, "in the top 10 %"),
    (75.0, "in the top quarter"),
    (25.0, "in the middle"),
    (10.0, "in the lowest quarter"),
    (0.0, "in the lowest 10 %"),
)
NAMED = 3  # features named in a summary


def summary(role: int, structure: dict[str, Any], edges: dict[str, Any], actions: Sequence[dict[str, Any]] = ()) -> str:
    """What the members are, where they stand, where their edges lead, what they do.

    >>> one = lambda median, percentile: {"quartiles": [median] * 3, "percentile": percentile}
    >>> summary(0, {"degree": one(90, 99.4), "neighbor_degree": one(1, 3), "clustering": one(0, 20)}, {})
    'hubs whose neighbours are leaves: degree 90 in the top 1 %, clustering near 0'
    """
    does = _actions(actions)
    if not structure:
        return does or "nothing is known about its members but their vectors"
    noun = _noun(structure["degree"]) + _around(structure)
    facts = [fact for fact in (_degree(structure), _clustering(structure), _edges(role, structure, edges)) if fact]
    return "; ".join(part for part in (f"{noun}: {', '.join(facts)}" if facts else noun, does) if part)


def _noun(degree: dict[str, Any]) -> str:
    median, at = degree["quartiles"][1], degree["percentile"]
    if median == 0:
        return "isolated nodes"
    if median == 1:
        return "leaves"
    if at >= 97.5:
        return "hubs"
    if at >= 80:
        return "well-connected nodes"
    if at <= 25:
        return "sparsely connected nodes"
    return "nodes of middling degree"


def _around(structure: dict[str, Any]) -> str:
    own, around = structure["degree"]["quartiles"][1], structure["neighbor_degree"]
    median, at = around["quartiles"][1], around["percentile"]
    if own == 0:
        return ""
    if median < 1.5:
        return " whose only neighbour is a leaf" if own == 1 else " whose neighbours are leaves"
    if at >= 90 or median >= max(5 * own, 8):
        return " next to hubs"
    if at >= 75:
        return " next to well-connected nodes"
    if at <= 25:
        return " among sparsely connected neighbours"
    return ""


def _degree(structure: dict[str, Any]) -> str:
    degree = structure["degree"]
    low, median, high = degree["quartiles"]
    if high <= 1:
        return ""
    span = f"{median:g}" if low == high else f"{low:g} to {high:g}"
    stands = rank(degree["percentile"])
    return f"degree {span}" if stands == rank(50) else f"degree {span} {stands}"


def _clustering(structure: dict[str, Any]) -> str:
    median = structure["clustering"]["quartiles"][1]
    if structure["degree"]["quartiles"][1] < 2:
        return ""
    if median < 0.02:
        return "clustering near 0"
    if median > 0.98:
        return "all neighbours tied to each other"
    if median >= 0.5:
        return f"tight groups (clustering {median:.2f})"
    return f"clustering {median:.2f}"


def _edges(role: int, structure: dict[str, Any], edges: dict[str, Any]) -> str:
    """Where most edges lead, if that says more than how many edges there are."""
    if not edges or structure["degree"]["quartiles"][2] == 0 or len(edges["to"]) < 2:
        return ""
    best = max(range(len(edges["to"])), key=lambda j: edges["to"][j])
    share, expected = edges["to"][best], edges["expected"][best]
    if share < 0.5 or share < 1.2 * expected:
        return ""
    return f"{100 * share:.0f} % of edges " + ("stay inside" if best == role else f"lead to role {best}")


def _actions(actions: Sequence[dict[str, Any]]) -> str:
    if not actions:
        return ""
    told = []
    for a in actions[:NAMED]:
        strength = f"{a['lift']:.1f}x" if "lift" in a else f"{a['shift']:+.1f} sd"
        told.append(f"{a['feature']} ({strength})")
    return "set apart by " + ", ".join(told)


def rank(percentile: float) -> str:
    """Where a percentile stands, in words.

    >>> rank(99.7), rank(60)
    ('in the top 1 %', 'in the middle')
    """
    return next(words for least, words in _RANKS if percentile >= least)
