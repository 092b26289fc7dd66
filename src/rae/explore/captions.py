"""The sentences in which the page says what it shows and what it leaves out."""

from __future__ import annotations

import math

from rae.explore.sample import LEAST_PER_ROLE

MAP = (
    "Each node is drawn towards the 15 that are nearest to it and pushed off random others (the scheme of "
    "UMAP), from the two principal axes, with seed 0; then empty space is shortened. Near means alike; how far apart "
    "distant nodes lie, and the two axes, mean little."
)
COLORS = "Numbers are coloured by rank: equal steps of colour are equal shares of the values that occur."
TABLE = (
    "In a saved CSV, text that a spreadsheet would run as a formula (it begins with =, +, -, @ or the like) gets a "
    "leading apostrophe."
)
NO_GRAPH = "This run keeps no graph, so there are no neighbourhoods."


def sample(shown: int, n: int) -> str:
    """Which nodes are on the map."""
    if shown == n:
        return f"The map shows all {n:,} nodes."
    return (
        f"The map shows {shown:,} of {n:,} nodes: the typical ones of every role, then others at random (seed 0), "
        f"up to {LEAST_PER_ROLE:,} of each role, and of what is left each role's share."
    )


def equal(shown: int, marks: int) -> str:
    """How nodes with the same vector are drawn."""
    return (
        f"The {shown:,} nodes have {marks:,} different vectors. Nodes with the same vector are one mark, larger with "
        "its number of nodes; its colour is that of the commonest value among them, or of the median of numbers."
    )


def nearest(k: int, shown: int, n: int) -> str:
    """Which nodes are listed as most alike."""
    among = "all nodes" if shown == n else f"the {shown:,} on the map"
    return (
        f"Most alike: the {k} nearest vectors among {among}, exact, with their distance: 0 is the same vector, "
        "1 as far apart as two nodes taken at random."
    )


def weights(agreement: float) -> str:
    """How exact the lists are that the page itself computes.

    >>> weights(0.923)[-60:]
    'finds 92 % of the exact nearest at the weights of the roles.'
    """
    return (
        "Most alike by weights of your own: computed here from the blocks turned onto their principal axes and "
        f"rounded to fit the page, which finds {math.floor(100 * agreement)} % of the exact nearest at the weights of "
        "the roles."
    )


def neighbors(limit: int, largest: int, searchable: int, n: int) -> str:
    """Which neighbours of a node the page holds.

    >>> neighbors(200, 50, 100, 100)
    'Neighbourhoods are whole.'
    """
    some = "" if searchable == n else f" among the {searchable:,} nodes of this page"
    if largest <= limit:
        return f"Neighbourhoods are whole{some}."
    return f"Of each node up to {limit:,} neighbours are kept, evenly spaced through their list{some}."


def search(searchable: int, n: int) -> str:
    """Which nodes can be searched for, where it is not all."""
    return f"The search knows {searchable:,} of {n:,} nodes: those on the map, then the first others."


def features(columns: int, width: int) -> str:
    """Which features the map can be coloured by, where it is not all."""
    return (
        f"The map can be coloured by {columns:,} of {width:,} features: those of the cards, then the most used; "
        "features that no node on the map has are left out."
    )
