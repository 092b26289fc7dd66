"""A role in one line of plain language, made from its facts alone; it is true of the middle half of its members."""

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
NEARLY_ALL = 0.9  # of its members have degree 1 in a role of leaves
WELL, HUB = 5, 8  # degrees below which nobody is called well-connected or a hub, wherever they stand


def summary(role: int, structure: dict[str, Any], edges: dict[str, Any], actions: Sequence[dict[str, Any]] = ()) -> str:
    """What the members are, where they stand, where their edges lead, what they do.

    >>> one = lambda value, at: {"quartiles": [value] * 3, "percentiles": [at] * 3, "zero": 0, "one": 0}
    >>> summary(0, {"degree": one(90, 99.4), "neighbor_degree": one(1, 3), "clustering": one(0, 20)}, {})
    'hubs whose neighbours are leaves: degree 90 in the top 1 %, clustering near 0'
    """
    does = _actions(actions)
    if not structure:
        return does or "nothing is known about its members but their vectors"
    noun = _noun(structure["degree"]) + _around(structure)
    told = (_isolated(structure["degree"]), _degree(structure["degree"]), _clustering(structure))
    facts = [fact for fact in (*told, _edges(role, structure, edges)) if fact]
    return "; ".join(part for part in (f"{noun}: {', '.join(facts)}" if facts else noun, does) if part)


def _noun(degree: dict[str, Any]) -> str:
    for share, name in ((degree["zero"], "isolated nodes"), (degree["one"], "leaves")):
        if share > 0.5:
            return name if share >= (1 if name == "isolated nodes" else NEARLY_ALL) else f"mostly {name}"
    (least, _, _), (low, median, high) = degree["quartiles"], degree["percentiles"]
    if low >= 95 and median >= 97.5 and least >= HUB:
        return "hubs"
    if low >= 75 and least >= WELL:
        return "well-connected nodes"
    if high <= 25:
        return "sparsely connected nodes"
    if high - low > 50:
        return "nodes of differing degree"
    return (
        "nodes of higher degree" if low > 50 else "nodes of lower degree" if high < 50 else "nodes of middling degree"
    )


def _around(structure: dict[str, Any]) -> str:
    """What their neighbours are, by the mean degree of those: below 1.5 most are leaves.

    It ranks among such means, which are larger than degrees, so the least of them need not be small.
    """
    own, around = structure["degree"], structure["neighbor_degree"]
    (least, _, most), (low, _, high) = around["quartiles"], around["percentiles"]
    if most == 0 or own["zero"] > 0.5:
        return ""
    if most < 1.5:
        neighbor = " whose only neighbour is a leaf" if own["one"] >= NEARLY_ALL else " whose neighbours are leaves"
        return neighbor if most == 1 else " whose neighbours are mostly leaves"
    if least >= HUB and (low >= 90 or least >= 5 * own["quartiles"][2]):
        return " next to hubs"
    if least >= WELL and low >= 75:
        return " next to well-connected nodes"
    return " among sparsely connected neighbours" if high <= 25 and most <= own["overall"] else ""


def _isolated(degree: dict[str, Any]) -> str:
    share = degree["zero"]
    if share in (0, 1):
        return ""
    percent = "under 1" if share < 0.01 else "over 99" if share > 0.99 else f"{100 * share:.0f}"
    return f"{percent} % of them isolated"


def _degree(degree: dict[str, Any]) -> str:
    low, median, high = degree["quartiles"]
    if low == high <= 1:
        return ""
    span = f"{median:g}" if low == high else f"{low:g} to {high:g}"
    return f"degree {span} {_stand(degree['percentiles'])}".rstrip()


def _stand(percentiles: Sequence[float]) -> str:
    """The end of the ranking in which both quartiles lie, if they lie in one."""
    low, _, high = percentiles
    return rank(low) if low >= 75 else rank(high) if high < 25 else ""


def _clustering(structure: dict[str, Any]) -> str:
    low, median, high = structure["clustering"]["quartiles"]
    if structure["degree"]["quartiles"][1] < 2:
        return ""
    if high < 0.02:
        return "clustering near 0"
    if low > 0.98:
        return "all neighbours tied to each other"
    span = f"{median:.2f}" if high - low < 0.1 and median >= 0.02 else f"{low:.2f} to {high:.2f}"
    return f"tight groups (clustering {span})" if low >= 0.5 else f"clustering {span}"


def _edges(role: int, structure: dict[str, Any], edges: dict[str, Any]) -> str:
    """Where most edges lead, if that says more than how many edges there are."""
    if not edges or structure["degree"]["quartiles"][2] == 0 or len(edges["to"]) < 2:
        return ""
    best = max(range(len(edges["to"])), key=lambda j: edges["to"][j])
    share, expected = edges["to"][best], edges["expected"][best]
    if share < 0.5 or share < 1.2 * expected:
        return ""
    return leading(role, best, share)


def leading(role: int, to: int, share: float) -> str:
    """How much of the edges of one role lead to another.

    >>> leading(0, 2, 0.75), leading(2, 2, 0.5)
    ('75 % of edges lead to role 2', '50 % of edges stay inside')
    """
    return f"{100 * share:.0f} % of edges " + ("stay inside" if to == role else f"lead to role {to}")


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
