"""Every table by name. One file each: its rows, how a row is scored, and what was published."""

from __future__ import annotations

from rae.evaluation.table_spec import Table
from rae.evaluation.tables import airports, automorphism, graph, inductive, node, pictures, recovery, toy

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        toy.TABLE,
        recovery.TABLE,
        automorphism.TABLE,
        node.TABLE,
        graph.TABLE,
        airports.TABLE,
        airports.TRANSFER,
        inductive.TABLE,
        pictures.TABLE,
    )
}

GROUPS: dict[str, tuple[str, ...]] = {
    "toy": (toy.TABLE.name, recovery.TABLE.name, automorphism.TABLE.name),
    "node": (node.TABLE.name,),
    "graph": (graph.TABLE.name,),
    "roles": (airports.TABLE.name, airports.TRANSFER.name),
    "inductive": (inductive.TABLE.name,),
    "figures": (pictures.TABLE.name,),
}
"""What one word on the command line stands for; `all` is every one of them."""
