"""Every table by name. One file each: its rows, how a row is scored, and what was published."""

from __future__ import annotations

from rae.evaluation.table_spec import Table
from rae.evaluation.tables import (
    airports,
    automorphism,
    graph,
    held_out,
    hubs,
    inductive,
    node,
    pictures,
    recovery,
    toy,
    words,
)

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
        held_out.TABLE,
        held_out.WORDS,
        inductive.TABLE,
        pictures.TABLE,
    )
}

GROUPS: dict[str, tuple[str, ...]] = {
    "toy": (toy.TABLE.name, recovery.TABLE.name, recovery.PLAIN.name, automorphism.TABLE.name),
    "node": (node.TABLE.name, words.CITED.name, words.PAGES.name, held_out.WORDS.name),
    "graph": (graph.TABLE.name, graph.TUNED.name),
    "roles": (
        airports.TABLE.name,
        airports.ACTIVITY.name,
        airports.RONE.name,
        airports.TRANSFER.name,
        airports.TUNED_TRANSFER.name,
        hubs.TABLE.name,
        held_out.TABLE.name,
    ),
    "inductive": (inductive.TABLE.name,),
    "figures": (pictures.TABLE.name,),
}
"""What one word on the command line stands for; `all` is every one of them."""
