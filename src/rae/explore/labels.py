"""Labels from a table of the user, joined to the nodes by id."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pyarrow as pa

from rae.explore.columns import Column, label_column
from rae.io.node_columns import read_node_columns


def read_labels(
    path: str | os.PathLike[str], ids: pa.Array, columns: Sequence[str] = (), *, id_column: str | None = None
) -> tuple[Column, ...]:
    """The columns of this table (by default all but the id) in the order of `ids`; missing where a node has no row."""
    found = read_node_columns(path, ids, columns, id_column=id_column)
    return tuple(label_column(name, values) for name, values in found.items())
