"""Every table by name. One file each: its rows, how a row is scored, and what was published."""

from __future__ import annotations

from rae.evaluation.table_spec import Table
from rae.evaluation.tables import airports, automorphism, graph, hubs, inductive, node, pictures, recovery, toy, words

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        toy.TABLE,
        recovery.TABLE,
        recovery.PLAIN,
        automorphism.TABLE,
        node.TABLE,
        words.CITED,
        words.PAGES,
        graph.TABLE,
        graph.TUNED,
        airports.TABLE,
        airports.ACTIVITY,
        airports.RONE,
        airports.TRANSFER,
        airports.TUNED_TRANSFER,
        hubs.TABLE,
        inductive.TABLE,
        pictures.TABLE,
    )
}

GROUPS: dict[str, tuple[str, ...]] = {
    "toy": (toy.TABLE.name, recovery.TABLE.name, recovery.PLAIN.name, automorphism.TABLE.name),
    "node": (node.TABLE.name, words.CITED.name, words.PAGES.name),
    "graph": (graph.TABLE.name, graph.TUNED.name),
    "roles": (
        airports.TABLE.name,
        airports.ACTIVITY.name,
        airports.RONE.name,
        airports.TRANSFER.name,
        airports.TUNED_TRANSFER.name,
        hubs.TABLE.name,
    ),
    "inductive": (inductive.TABLE.name,),
    "figures": (pictures.TABLE.name,),
}
"""What one word on the command line stands for; `all` is every one of them."""
