"""A role in one line of plain language, beginning with what tells it apart from the other roles.

A line has a noun (hubs, leaves of hubs, links of chains, ...), then the facts that few nodes of other roles share.
Every fact holds for the middle half of the members: a range runs from the first quartile to the third.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rae.roles.actions import divergence

RANKS = (
    (99.0, "in the top 1 %"),
    (95.0, "in the top 5 %"),
    (90.0, "in the top 10 %"),
    (80.0, "in the top fifth"),
    (75.0, "in the top quarter"),
    (25.0, "in the middle"),
    (10.0, "in the lowest quarter"),
    (0.0, "in the lowest 10 %"),
)
NAMED_FEATURES, NAMED_FACTS = 3, 2
TELLING = 1 / 3  # a range that at most so many nodes of other roles are in is worth saying; half of the members are
WORTH_NAMING = float(divergence(1 / 2, TELLING))  # so much a range tells that is just worth saying: also of features
WORTH_SAYING = 0.1  # share of isolated members
NEARLY_ALL = 0.9  # share of members of degree 1 in a role of leaves
WELL_CONNECTED, HUB = 5, 8  # the least degrees of nodes that are called so, whatever their rank
HUB_RANK, HUB_TIMES = 80, 4  # a hub is in the top fifth by degree and has four times the median degree
HUB_NEIGHBOR_RANK = 95  # neighbours that are called hubs are in the top twentieth by degree
ATTACHED_TIMES = 3  # how many times the degree of nodes that hang on others these have
TIED, HARDLY_TIED = 0.5, 0.1  # share of the pairs of neighbours that are adjacent
SMALL_RANK, LARGE_RANK = 35, 60  # percentiles by degree up to which nodes are small, and from which large
MANY, TIMES = 4, 3  # edges of one direction that are called many, and how many times those of the other
EVEN, ONE_WAY = 0.2, 0.8  # balances of what goes out and comes in: about as much, and nearly all in one direction
Profile = dict[str, Any]
Facts = Sequence[dict[str, Any]]


def summarize_roles(structure: Facts, edges: Facts, actions: Sequence[Facts]) -> list[str]:
    """A line per role: what its members are, what sets them apart, where their edges lead, and what they do."""
    names = _names(structure, edges)
    lines = [_line(role, names, structure, edges[role], actions[role]) for role in range(len(structure))]
    return distinguish(lines, structure, edges)


def _line(
    role: int, names: Sequence[tuple[str, frozenset[str]]], structure: Facts, edges: Profile, actions: Facts
) -> str:
    doing, profile, (name, used) = _actions(actions), structure[role], names[role]
    if not profile:
        nothing = "no feature sets them apart" if actions else "nothing is known about its members but their vectors"
        return doing or ("no members" if any(structure) else nothing)
    facts = [_isolated(profile["degree"]), _flow(profile), _amounts(profile), *_telling_facts(profile, used)]
    facts.append(_edges(role, profile, edges))
    if doing and _is_sized(profile) and profile["degree"].get("others", 0) > TELLING:  # what they do says more
        facts = [fact for fact in facts if fact and fact != _ranked(profile)]
        return "; ".join([doing, *([", ".join(facts)] if facts else [])])
    place = ", ".join(fact for fact in facts if fact)
    line = f"{name}: {place}" if place else name
    return "; ".join(part for part in (line, doing) if part)


# ----------------------------------------------------------------------------------------- names


def _names(structure: Facts, edges: Facts) -> list[tuple[str, frozenset[str]]]:
    """Per role its name and the measures whose ranges are in it; a range separates equal names."""
    tied = [bool(profile) and _in_tight_groups(profile) for profile in structure]
    nouns = [
        (_noun(profile, structure, _leads_to(to, tied)), _surroundings(profile)) if profile else ("", "")
        for profile, to in zip(structure, edges, strict=True)
    ]
    named = [(noun + where, frozenset[str]()) for noun, where in nouns]
    for noun, where in dict.fromkeys(nouns):
        same = [role for role, other in enumerate(nouns) if other == (noun, where) and structure[role]]
        if len(same) > 1:
            _separate(same, "nodes" if noun in SIZES else noun, where, named, structure)
        elif same and _is_sized(structure[same[0]]):
            named[same[0]] = (f"{noun}{where} ({_degree(structure[same[0]]['degree'])})", frozenset({"degree"}))
    return named


def _separate(
    same: list[int], base: str, where: str, named: list[tuple[str, frozenset[str]]], structure: Facts
) -> None:
    """Add to these roles' name the range in which they overlap least, until no two are equal or no range helps."""
    used = named[same[0]][1]
    measure = min(
        (m for m in NAMING_MEASURES if m not in used),
        key=lambda m: _overlap([structure[r][m] for r in same]),
        default="",
    )
    spans = {role: _span(structure[role][measure]) for role in same} if measure else {}
    if len(set(spans.values())) < 2:
        return
    for span in dict.fromkeys(spans.values()):
        equal = [role for role in same if spans[role] == span]
        words = RANGES[measure](structure[equal[0]][measure])
        name = f"{base}, {words}" if used else base + SUFFIXES[measure].format(span)
        name += where if measure == "degree" else ""
        for role in equal:
            named[role] = (name, used | {measure})
        if len(equal) > 1:
            _separate(equal, name, "", named, structure)


def _overlap(profiles: Facts) -> int:
    """How many pairs of these middle halves overlap; those that are equal count twice."""
    spans = sorted((p["quartiles"][0], p["quartiles"][2]) for p in profiles)
    return sum((a[1] > b[0]) + 2 * (a == b) for i, a in enumerate(spans) for b in spans[i + 1 :])


def _leads_to(edges: Profile, roles: Sequence[bool]) -> float:
    """The share of the edges that lead to these roles."""
    return float(sum(share for share, chosen in zip(edges.get("to", ()), roles, strict=False) if chosen))


def _noun(profile: Profile, structure: Facts, to_groups: float) -> str:
    """What the members are, in a word that an analyst knows, where it is true of the middle half.

    A broker is well connected, its neighbours are hardly tied to each other, and most of its edges (`to_groups`) lead
    to roles whose members are in tight groups.
    """
    degree, ties = profile["degree"], profile["clustering"]["quartiles"]
    if degree["zero"] > 0.5:
        return "isolated nodes" if degree["zero"] == 1 else "mostly isolated nodes"
    if degree["one"] > 0.5:
        return "leaves" if degree["one"] >= NEARLY_ALL else "mostly leaves"
    if _is_chain(profile):
        return "links of chains"
    if _is_sized(profile):
        brokers = ties[2] < HARDLY_TIED and to_groups > 0.5 and degree["percentiles"][0] > 50
        return "brokers between groups" if brokers and degree["quartiles"][0] >= 3 else _size(profile, structure)
    if ties[0] >= TIED:
        return "members of the dense core"
    return "hubs between groups" if ties[2] < HARDLY_TIED and to_groups > 0.5 else "hubs"


def _is_sized(profile: Profile) -> bool:
    """Whether the members are named by their degree alone."""
    degree = profile["degree"]
    return degree["zero"] <= 0.5 and degree["one"] <= 0.5 and not (_is_chain(profile) or _is_hub(degree))


def _is_chain(profile: Profile) -> bool:
    degree, around = profile["degree"]["quartiles"], profile["neighbor_degree"]["quartiles"]
    return bool(degree[0] == degree[2] == 2 and profile["clustering"]["quartiles"][2] == 0 and around[2] <= 3)


def _is_hub(degree: Profile) -> bool:
    least = degree["quartiles"][0]
    return bool(least >= max(HUB, HUB_TIMES * degree["overall"]) and degree["percentiles"][0] >= HUB_RANK)


def _size(profile: Profile, structure: Facts) -> str:
    """Small, mid-sized or well connected, by degree among all nodes and among the roles."""
    degree = profile["degree"]
    (least, _, most), (low, _, high) = degree["quartiles"], degree["percentiles"]
    others = [p["degree"]["quartiles"] for p in structure if p and p is not profile]
    if most <= 3 and most <= max(degree["overall"], 2) and degree["percentiles"][1] < 50:
        return "fringe nodes"
    if others and least >= WELL_CONNECTED and low >= LARGE_RANK:
        best = low >= HUB_RANK and all(other[2] < least for other in others)
        return "the best-connected nodes" if best else "well-connected nodes"
    if not others:
        return "nodes"
    if high <= SMALL_RANK or most <= degree["overall"]:
        return "small nodes"
    return "nodes" if high - low > 60 else "mid-sized nodes"


def _surroundings(profile: Profile) -> str:
    """What is around the members, where it tells them apart; what leaves hang on is always worth saying."""
    degree, around = profile["degree"], profile["neighbor_degree"]
    few, most = degree["quartiles"][2], around["quartiles"][2]
    if degree["zero"] > 0.5 or _is_chain(profile):
        return ""
    if most < 1.5:
        return " in pairs" if few == 1 else " with leaves around" if most == 1 else " with mostly leaves around"
    if degree["one"] > 0.5:
        words = _neighbors(profile)
        return f" of {words}" if words else ""
    if around["others"] <= TELLING and (few <= 3 or _is_attached(profile)):
        words = _neighbors(profile)
        return "" if not words else f" among {words}" if words == "small nodes" else f" next to {words}"
    return " in tight groups" if _in_tight_groups(profile) and not _is_hub(degree) else ""


def _in_tight_groups(profile: Profile) -> bool:
    """Whether the members have two neighbours or more, half of the pairs of them are adjacent, and these are its like.

    Neighbours of a far larger degree are a core that the members hang on, however tied to each other.
    """
    tied = profile["degree"]["quartiles"][0] >= 2 and profile["clustering"]["quartiles"][0] >= TIED
    return bool(tied and not _is_attached(profile))


def _is_attached(profile: Profile) -> bool:
    """Whether the neighbours have several times the degree of the members."""
    return bool(profile["neighbor_degree"]["quartiles"][0] >= ATTACHED_TIMES * profile["degree"]["quartiles"][2])


def _neighbors(profile: Profile) -> str:
    """What the neighbours are: a mean degree of theirs that is high says so of one of them at least."""
    around = profile["neighbor_degree"]
    (least, _, most), rank = around["quartiles"], around["as_degree"][0]
    if least >= HUB and rank >= HUB_NEIGHBOR_RANK:
        return "hubs"
    if least >= WELL_CONNECTED and rank >= 75:
        return "well-connected nodes"
    return "small nodes" if most <= max(profile["degree"]["overall"], 3) else ""


# ----------------------------------------------------------------------------------------- facts


def _telling_facts(profile: Profile, used: frozenset[str]) -> list[str]:
    """The ranges that few nodes of other roles are in, the most telling first; always that of a hub's degree."""
    degree = profile["degree"]
    if degree["zero"] > 0.5:
        return []  # most have no neighbours that a range could be about
    ranges = {name: profile[name].get("others", 1.0) for name in NAMING_MEASURES if name not in used}
    if degree["quartiles"][2] <= 1 or _is_chain(profile):
        ranges.pop("degree", None)
    if degree["quartiles"][2] < 2 or degree["quartiles"][1] < 2:
        ranges.pop("clustering", None)
    if degree["quartiles"][2] == 0:
        ranges.pop("neighbor_degree", None)
    chosen = [name for name, share in ranges.items() if share <= TELLING or name == "degree"]
    chosen.sort(key=lambda name: (name != "degree", ranges[name]))
    return [_ranked(profile) if name == "degree" else RANGES[name](profile[name]) for name in chosen[:NAMED_FACTS]]


def _ranked(profile: Profile) -> str:
    """The range of the degree, and its rank where that is high or low."""
    degree = profile["degree"]
    low, _, high = degree["percentiles"]
    rank = describe_rank(low) if low >= 75 else describe_rank(high) if high < 25 else ""
    return f"{_degree(degree)} {rank}".rstrip()


def _degree(profile: Profile) -> str:
    return f"degree {_span(profile)}"


def _neighbor_degree(profile: Profile) -> str:
    return f"neighbours average degree {_span(profile)}"


def _clustering(profile: Profile) -> str:
    low, _, high = profile["quartiles"]
    if high == 0:
        return "no triangles" if profile.get("zero", 1.0) >= NEARLY_ALL else "mostly no triangles"
    if low > 0.98:
        return "all neighbours tied to each other"
    return f"{'neighbours hardly tied, ' if high < HARDLY_TIED else ''}clustering {_span(profile)}"


def _core(profile: Profile) -> str:
    return f"core number {_span(profile)}"


def _triangles(profile: Profile) -> str:
    return f"in {_span(profile)} triangles"


RANGES: dict[str, Callable[[Profile], str]] = {
    "degree": _degree,
    "neighbor_degree": _neighbor_degree,
    "clustering": _clustering,
    "core": _core,
    "triangles": _triangles,
}
FLOWS: dict[str, Callable[[Profile], str]] = {  # of graphs whose edges have directions or weights
    "out_degree": lambda profile: f"{_span(profile)} edges out",
    "in_degree": lambda profile: f"{_span(profile)} edges in",
    "strength": lambda profile: f"weights add up to {_span(profile)}",
    "out_strength": lambda profile: f"weights out add up to {_span(profile)}",
    "in_strength": lambda profile: f"weights in add up to {_span(profile)}",
}
SIZES = ("small nodes", "mid-sized nodes", "well-connected nodes", "the best-connected nodes", "nodes")
SUFFIXES = {
    "degree": " of degree {}",
    "neighbor_degree": " whose neighbours average degree {}",
    "clustering": " of clustering {}",
}
NAMING_MEASURES = ("degree", "neighbor_degree", "clustering")  # the other two follow degree and clustering closely


def _span(profile: Profile) -> str:
    """The middle half as a number or a range.

    >>> _span({"quartiles": [437.3, 656, 1303]}), _span({"quartiles": [0.131, 0.2, 0.5]})
    ('437 to 1,303', '0.13 to 0.5')
    """
    low, _, high = (_number(value) for value in profile["quartiles"])
    return low if low == high else f"{low} to {high}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.2g}"


def _isolated(degree: Profile) -> str:
    share = degree["zero"]
    if share < WORTH_SAYING or share == 1:
        return ""
    return f"{'over 99' if share > 0.99 else f'{100 * share:.0f}'} % of them isolated"


def _flow(profile: Profile) -> str:
    """Which way edges go, where it is one way for the middle half: of money, what is collected and paid out."""
    if "balance" not in profile:
        return ""
    (few_in, _, many_in), (few_out, _, many_out) = (profile[f"{way}_degree"]["quartiles"] for way in ("in", "out"))
    paid = "out_strength" in profile
    if many_in + many_out == 0:
        return ""
    if many_out == 0:
        return f"only {'get' if paid else 'receive'}, from {_how_many(few_in, many_in)}"
    if many_in == 0:
        return f"only {'pay' if paid else 'send'}, to {_how_many(few_out, many_out)}"
    if few_in >= max(MANY, TIMES * many_out):
        return "collect from many, pay out to few" if paid else "many edges lead to them, few away"
    if few_out >= max(MANY, TIMES * many_in):
        return "collect from few, pay out to many" if paid else "many edges lead away from them, few to them"
    low, _, high = profile["balance"]["quartiles"]
    if paid and -EVEN <= low <= high <= EVEN and profile["balance"]["others"] <= TELLING:
        return "pass on about what they get"
    if paid and low >= ONE_WAY:
        return "pay far more than they get"
    return "get far more than they pay" if paid and high <= -ONE_WAY else ""


def _how_many(low: float, high: float) -> str:
    """Partners in a word or a number."""
    return "many" if low >= MANY else f"{_span({'quartiles': [low, low, high]})}"


def _amounts(profile: Profile) -> str:
    """How large the weights are that come together at the members, where that is high or low and tells them apart."""
    names = [name for name in ("strength", "in_strength", "out_strength") if name in profile]
    telling = [name for name in names if profile[name]["others"] <= TELLING]
    for name in sorted(telling, key=lambda name: -profile[name]["percentiles"][0]):
        low, _, high = profile[name]["percentiles"]
        if low >= 75 or high < 25:
            return f"{FLOWS[name](profile[name])} {describe_rank(low if low >= 75 else high)}"
    return ""


def _edges(role: int, profile: Profile, edges: Profile) -> str:
    """Where most edges lead, if half as many again do so as of all edges."""
    if not edges or profile["degree"]["quartiles"][2] == 0 or len(edges["to"]) < 2:
        return ""
    to = max(range(len(edges["to"])), key=edges["to"].__getitem__)
    share = edges["to"][to]
    return describe_edges(role, to, share) if share >= max(0.5, 1.5 * edges["expected"][to]) else ""


def describe_edges(role: int, to: int, share: float) -> str:
    """How many of the edges of one role lead to another.

    >>> describe_edges(0, 2, 0.75), describe_edges(2, 2, 0.5)
    ('75 % of edges lead to role 2', '50 % of edges stay inside')
    """
    return f"{100 * share:.0f} % of edges " + ("stay inside" if to == role else f"lead to role {to}")


def _actions(actions: Facts) -> str:
    """What the members have and lack, of what tells as much as a range that is worth saying."""
    telling = [action for action in actions if _tells(action) >= WORTH_NAMING][:NAMED_FEATURES]
    lacks = [action for action in telling if action.get("lift", 1) < 1]
    having = ", ".join(_named(action) for action in telling if action not in lacks)
    lacking = f"a lack of {', '.join(map(_named, lacks))}" if lacks else ""
    return f"set apart by {' and '.join(filter(None, [having, lacking]))}" if telling else ""


def _tells(action: Profile) -> float:
    """How far the members are from all nodes in a feature, in nats."""
    return action["shift"] ** 2 / 2 if "shift" in action else float(divergence(action["share"], action["overall"]))


def _named(action: Profile) -> str:
    strength = f"{action['lift']:.1f}x" if "lift" in action else f"{action['shift']:+.1f} sd"
    return f"{action['feature']} ({strength})"


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
    flows = {name: words for name, words in FLOWS.items() if name in structure[equal[0]]}
    for name, words in {**RANGES, **flows}.items():
        ranks = [structure[role][name]["percentiles"][1] for role in equal]
        yield max(ranks) - min(ranks), [words(structure[role][name]) for role in equal]
    shares = [edges[role]["to"] for role in equal]
    most = [max(range(len(row)), key=row.__getitem__) for row in shares]
    for goals in [most, *([goal] * len(shares) for goal in range(len(shares[0])))]:
        difference = max(max(row[j] for row in shares) - min(row[j] for row in shares) for j in set(goals))
        if difference or goals is most:
            yield (
                100 * difference,
                [describe_edges(r, j, row[j]) for r, j, row in zip(equal, goals, shares, strict=True)],
            )
