"""A role in one line of plain language: a sentence that holds for the middle half of its members."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

RANKS = (
    (99.0, "in the top 1 %"),
    (95.0, "in the top 5 %"),
    (90.0, "in the top 10 %"),
    (75.0, "in the top quarter"),
    (25.0, "in the middle"),
    (10.0, "in the lowest quarter"),
    (0.0, "in the lowest 10 %"),
)
NAMED_FEATURES = 3
NEARLY_ALL = 0.9  # share of members of degree 1 in a role of leaves
WELL_CONNECTED, HUB = 5, 8  # the least degrees of nodes that are called so, whatever their rank
FACTS = {
    "neighbor_degree": "neighbours of degree {}",
    "degree": "median degree {}",
    "triangles": "in {} triangles",
    "clustering": "median clustering {}",
    "core": "core number {}",
}
Facts = Sequence[dict[str, Any]]


def summarize(role: int, structure: dict[str, Any], edges: dict[str, Any], actions: Facts = ()) -> str:
    """What the members are, their place in the graph, where their edges lead, and what they do.

    >>> one = lambda value, at: {"quartiles": [value] * 3, "percentiles": [at] * 3, "zero": 0, "one": 0}
    >>> summarize(0, {"degree": one(90, 99.4), "neighbor_degree": one(1, 3), "clustering": one(0, 20)}, {})
    'hubs whose neighbours are leaves: degree 90 in the top 1 %, clustering near 0'
    """
    doing = _actions(actions)
    if not structure:
        return doing or "nothing is known about its members but their vectors"
    degree = structure["degree"]
    noun = _noun(degree) + _neighbors(structure)
    facts = (_isolated(degree), _degree(degree), _clustering(structure), _edges(role, structure, edges))
    place = ", ".join(fact for fact in facts if fact)
    return "; ".join(part for part in (f"{noun}: {place}" if place else noun, doing) if part)


def _noun(degree: dict[str, Any]) -> str:
    if degree["zero"] > 0.5:
        return "isolated nodes" if degree["zero"] == 1 else "mostly isolated nodes"
    if degree["one"] > 0.5:
        return "leaves" if degree["one"] >= NEARLY_ALL else "mostly leaves"
    (least, _, _), (low, median, high) = degree["quartiles"], degree["percentiles"]
    if low >= 95 and median >= 97.5 and least >= HUB:
        return "hubs"
    if low >= 75 and least >= WELL_CONNECTED:
        return "well-connected nodes"
    if high <= 25:
        return "sparsely connected nodes"
    if high - low > 50:
        return "nodes of differing degree"
    level = "higher" if low > 50 else "lower" if high < 50 else "middling"
    return f"nodes of {level} degree"


def _neighbors(structure: dict[str, Any]) -> str:
    """What their neighbours are, by the mean degree of those; a mean below 1.5 says that most are leaves.

    Percentiles rank it among such means, which are larger than degrees, so a low rank alone is not a small degree.
    """
    own, around = structure["degree"], structure["neighbor_degree"]
    (least, _, most), (low, _, high) = around["quartiles"], around["percentiles"]
    if most == 0 or own["zero"] > 0.5:
        return ""
    if most == 1:
        return " whose only neighbour is a leaf" if own["one"] >= NEARLY_ALL else " whose neighbours are leaves"
    if most < 1.5:
        return " whose neighbours are mostly leaves"
    if least >= HUB and (low >= 90 or least >= 5 * own["quartiles"][2]):
        return " next to hubs"
    if least >= WELL_CONNECTED and low >= 75:
        return " next to well-connected nodes"
    return " among sparsely connected neighbours" if high <= 25 and most <= own["overall"] else ""


def _isolated(degree: dict[str, Any]) -> str:
    share = degree["zero"]
    if share in (0, 1):
        return ""
    percent = "under 1" if share < 0.01 else "over 99" if share > 0.99 else f"{100 * share:.0f}"
    return f"{percent} % of them isolated"


def _degree(degree: dict[str, Any]) -> str:
    (low, median, high), (low_rank, _, high_rank) = degree["quartiles"], degree["percentiles"]
    if low == high <= 1:
        return ""
    span = f"{median:g}" if low == high else f"{low:g} to {high:g}"
    rank = describe_rank(low_rank) if low_rank >= 75 else describe_rank(high_rank) if high_rank < 25 else ""
    return f"degree {span} {rank}".rstrip()


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
    """Where most edges lead, if more do so than of all edges."""
    if not edges or structure["degree"]["quartiles"][2] == 0 or len(edges["to"]) < 2:
        return ""
    to = max(range(len(edges["to"])), key=edges["to"].__getitem__)
    share = edges["to"][to]
    return describe_edges(role, to, share) if share >= max(0.5, 1.2 * edges["expected"][to]) else ""


def describe_edges(role: int, to: int, share: float) -> str:
    """How many of the edges of one role lead to another.

    >>> describe_edges(0, 2, 0.75), describe_edges(2, 2, 0.5)
    ('75 % of edges lead to role 2', '50 % of edges stay inside')
    """
    return f"{100 * share:.0f} % of edges " + ("stay inside" if to == role else f"lead to role {to}")


def _actions(actions: Facts) -> str:
    if not actions:
        return ""
    strengths = (f"{a['lift']:.1f}x" if "lift" in a else f"{a['shift']:+.1f} sd" for a in actions)
    named = [f"{a['feature']} ({strength})" for a, strength in zip(actions, strengths, strict=True)]
    return "set apart by " + ", ".join(named[:NAMED_FEATURES])


def describe_rank(percentile: float) -> str:
    """A percentile in words.

    >>> describe_rank(99.7), describe_rank(60)
    ('in the top 1 %', 'in the middle')
    """
    return next(words for least, words in RANKS if percentile >= least)


# ----------------------------------------------------------------------------- equal summaries


def distinguish(summaries: Sequence[str], structure: Facts, edges: Facts) -> list[str]:
    """The summaries, with another fact where two are equal; they stay equal only where no fact differs.

    The fact is the one in which the roles differ most: by percentiles of medians, by percent of edges.
    """
    distinct = list(summaries)
    for text in dict.fromkeys(summaries):
        equal = [role for role, other in enumerate(summaries) if other == text and structure[role]]
        _add_facts(equal, distinct, structure, edges)
    return distinct


def _add_facts(equal: list[int], summaries: list[str], structure: Facts, edges: Facts) -> None:
    """Add facts to the summaries of these roles until no two are equal; each fact splits the rest."""
    if len(equal) < 2:
        return
    _, facts = max(_candidates(equal, structure, edges), key=lambda fact: (len(set(fact[1])) > 1, fact[0]))
    if len(set(facts)) < 2:
        return
    for role, fact in zip(equal, facts, strict=True):
        summaries[role] += f"; {fact}"
    for fact in dict.fromkeys(facts):
        same = [role for role, other in zip(equal, facts, strict=True) if other == fact]
        _add_facts(same, summaries, structure, edges)


def _candidates(equal: list[int], structure: Facts, edges: Facts) -> Iterator[tuple[float, list[str]]]:
    """Every fact that could be added: by how much these roles differ in it, and its words for each of them."""
    for name, words in FACTS.items():
        ranks = [structure[role][name]["percentiles"][1] for role in equal]
        yield max(ranks) - min(ranks), [words.format(f"{structure[r][name]['quartiles'][1]:.3g}") for r in equal]
    shares = [edges[role]["to"] for role in equal]
    most = [max(range(len(row)), key=row.__getitem__) for row in shares]
    for goals in [most, *([goal] * len(shares) for goal in range(len(shares[0])))]:
        difference = max(max(row[j] for row in shares) - min(row[j] for row in shares) for j in set(goals))
        if difference or goals is most:
            yield (
                100 * difference,
                [describe_edges(r, j, row[j]) for r, j, row in zip(equal, goals, shares, strict=True)],
            )
