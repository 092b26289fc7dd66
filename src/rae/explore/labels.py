"""Labels from a table of the user: joined to the nodes by id, and counted by role for the cards."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from rae.explore.columns import MISSING, OTHER, Column, label_column
from rae.io.node_columns import read_node_columns
from rae.roles.labels import LabelTable, label_table

Ints = np.ndarray[Any, np.dtype[np.integer[Any]]]

MOST_ROWS = 12  # labels of a role on its card
REST = "all other labels"  # those beyond the commonest 254


def read_labels(
    path: str | os.PathLike[str], ids: pa.Array, columns: Sequence[str] = (), *, id_column: str | None = None
) -> tuple[Column, ...]:
    """The columns of this table (by default all but the id) in the order of `ids`; missing where a node has no row."""
    by_name = read_node_columns(path, ids, columns, id_column=id_column)
    return tuple(label_column(name, values) for name, values in by_name.items())


def labels_of_roles(labels: Sequence[Column], role: Ints, k: int) -> list[list[dict[str, Any]]]:
    """Per role and label column what its card says: words with count, share and lift, amounts with their median.

    Labels that a role has oftener than expected come first, by how many nodes.  -> a list per role
    """
    out: list[list[dict[str, Any]]] = [[] for _ in range(k)]
    for column in labels:
        if (column.codes == MISSING).all():
            continue
        for card, entry in zip(out, _words(column, role, k) or _amounts(column, role, k), strict=True):
            card.append({"column": column.name, **entry})
    return out


def _words(column: Column, role: Ints, k: int) -> list[dict[str, Any]]:
    """What each card says of a column of words; nothing for a column of numbers."""
    if column.levels is None:
        return []
    words = np.array([*column.levels, *[None] * (OTHER - len(column.levels)), REST, None], object)
    table = label_table(role, pa.array(words[column.codes], pa.string()), k, column=column.name)
    return [_row(table, r) for r in range(k)]


def _row(table: LabelTable, role: int) -> dict[str, Any]:
    counts, share, lift = table.counts[role], table.share[role], table.lift[role]
    excess = counts - counts.sum() * table.overall
    order = sorted(np.flatnonzero(counts).tolist(), key=lambda i: (-excess[i], i))
    rows = [[table.labels[i], int(counts[i]), round(share[i], 4), round(lift[i], 3)] for i in order[:MOST_ROWS]]
    return {"rows": rows, "more": max(len(order) - MOST_ROWS, 0), "unlabelled": int(table.unlabelled[role])}


def _amounts(column: Column, role: Ints, k: int) -> list[dict[str, Any]]:
    """What each card says of a column of numbers: the median in the role and over all."""
    assert column.table is not None
    values = np.append(column.table, np.nan)[np.minimum(column.codes, len(column.table))]

    def median(numbers: Any) -> float | None:
        present = numbers[~np.isnan(numbers)]
        return float(np.median(present)) if len(present) else None

    overall = median(values)
    missing = np.bincount(role[np.isnan(values)], minlength=k)
    return [{"median": median(values[role == r]), "overall": overall, "unlabelled": int(missing[r])} for r in range(k)]
