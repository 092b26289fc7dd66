"""The roles of a run for the page, with nodes and features numbered as on the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from rae.blocks import Block
from rae.errors import RunError
from rae.run import Run

Floats = np.ndarray[Any, np.dtype[np.float32]]
Ints = np.ndarray[Any, np.dtype[np.integer[Any]]]

MEASURES = {
    "degree": "degree",
    "neighbor_degree": "neighbours' degree",
    "triangles": "triangles",
    "clustering": "clustering",
    "core": "core number",
}


@dataclass(frozen=True, eq=False)
class PageRoles:
    """The role of every node, the cards of roles.json, and the sentence on how the number of roles was chosen."""

    role: Ints  # (n,) from 0 on
    confidence: Floats  # (n,)
    membership: Floats  # (n, k)
    cards: tuple[dict[str, Any], ...]
    prototypes: tuple[tuple[int, ...], ...]  # rows, by role
    rule: str
    weighing: tuple[tuple[Block, ...], dict[str, float] | None] = ((), None)  # blocks of the vectors, their weights

    @property
    def feature_columns(self) -> list[int]:
        """The feature columns that the cards name."""
        return [action["column"] for card in self.cards for action in card["actions"]]

    def page_cards(
        self, position: Mapping[int, int], columns: Mapping[int, int], labels: Sequence[list[dict[str, Any]]]
    ) -> list[dict[str, Any]]:
        """The cards for the page with the labels of each role.

        `position` maps rows to nodes on the map, `columns` feature columns to the page's.
        """
        return [
            {
                "size": card["size"],
                "summary": sentence(card["summary"]),
                "prototypes": [position[row] for row in rows if row in position],
                "profile": [_measure(name, values) for name, values in card["structure"].items()],
                "features": [_feature(action, columns) for action in card["actions"]],
                "edges": card["edges"].get("to", []),
                "labels": of_role,
            }
            for card, rows, of_role in zip(self.cards, self.prototypes, labels, strict=True)
        ]


def sentence(text: str) -> str:
    """The text with a capital letter and a full stop.

    >>> sentence("hubs: degree 90")
    'Hubs: degree 90.'
    """
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


def page_roles(run: Run) -> PageRoles:
    """The roles of this run; they are fitted if it has none."""
    if not run.has_roles:
        run.fit_roles()
    record = run.role_record()
    ids, role, confidence, membership = run.role_table()
    cards = tuple(record["cards"])
    has_new_nodes = run.roles_behind > 0  # nodes that came later have roles by the same cards
    if len(cards) != membership.shape[1] or (len(ids) != record["nodes"] and not has_new_nodes):
        raise RunError(f"the roles in {run.path} do not fit together; find them again: rae roles {run.path} --force")
    run.warn_of_old_cards()
    weighing = (run.blocks, record.get("weights") or None) if run.blocks else ((), None)
    rows = _prototype_rows(ids, cards)
    return PageRoles(role, confidence, membership, cards, rows, sentence(record["rule"]), weighing)


def _prototype_rows(ids: pa.Array, cards: tuple[dict[str, Any], ...]) -> tuple[tuple[int, ...], ...]:
    """The rows of each card's prototypes, whose ids JSON may hold as text."""
    names = {str(name) for card in cards for name in card["prototypes"]}
    row = {text: i for i, value in enumerate(ids.to_pylist()) if (text := str(value)) in names}
    return tuple(tuple(row[str(name)] for name in card["prototypes"] if str(name) in row) for card in cards)


def _measure(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    low, middle, high = (percent / 100 for percent in values["percentiles"])
    return {
        "name": MEASURES.get(name, name),
        "value": values["quartiles"][1],
        "low": low,
        "middle": middle,
        "high": high,
    }


def _feature(action: Mapping[str, Any], columns: Mapping[int, int]) -> dict[str, Any]:
    if "lift" in action:
        strength = f"{action['lift']:.2g}×" if action["lift"] < 100 else f"{action['lift']:.0f}×"
        strength = f"lacked, {strength}" if action["lift"] < 1 else strength
        note = f"{100 * action['share']:.0f} % of its members have it, {100 * action['overall']:.1f} % of all nodes"
    else:
        strength = f"{action['shift']:+.1f} sd"
        note = f"{action['mean']:.3g} on average, {action['overall']:.3g} over all nodes"
    return {"name": action["feature"], "strength": strength, "note": note, "column": columns.get(action["column"])}
