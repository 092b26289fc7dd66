"""Roles against labels of the user: which labels a role has more often than all nodes. Labels never influence roles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rae import display
from rae.errors import FeatureError
from rae.io.node_columns import as_text
from rae.roles.vectors import Doubles, Ints

LABELS_SHOWN = 8  # in a notebook


@dataclass(frozen=True, eq=False)
class LabelTable:
    """How many nodes of each role have each label; nodes without a label are counted apart."""

    labels: tuple[str, ...]  # the commonest first
    counts: Ints  # (k, labels)
    unlabelled: Ints  # (k,)
    column: str = "label"

    @property
    def share(self) -> Doubles:
        """The share of each label among the labelled nodes of a role.  -> (k, labels)"""
        out: Doubles = self.counts / np.maximum(self.counts.sum(1, keepdims=True), 1)
        return out

    @property
    def overall(self) -> Doubles:
        """The share of each label among all labelled nodes.  -> (labels,)"""
        out: Doubles = self.counts.sum(0) / max(int(self.counts.sum()), 1)
        return out

    @property
    def lift(self) -> Doubles:
        """The share in a role over the share among all: 2 is twice as common as expected.  -> (k, labels)"""
        return self.share / self.overall

    def as_dict(self) -> dict[str, Any]:
        """The table as JSON holds it."""
        return {
            "column": self.column,
            "labels": list(self.labels),
            "overall": self.overall.round(6).tolist(),
            "counts": self.counts.tolist(),
            "share": self.share.round(6).tolist(),
            "lift": self.lift.round(4).tolist(),
            "unlabelled": self.unlabelled.tolist(),
        }

    def to_arrow(self) -> pa.Table:
        """The table with a row per role and label that it has: role, label, nodes, share, lift."""
        role, label = np.nonzero(self.counts)
        names = pa.array(self.labels, pa.string()).take(pa.array(label))
        numbers = {"nodes": self.counts[role, label], "share": self.share[role, label], "lift": self.lift[role, label]}
        return pa.table({"role": role, "label": names, **numbers})

    def _repr_html_(self) -> str:
        named = self.labels[:LABELS_SHOWN]
        cells = [
            [role, *(f"{count:,} ({lift:.1f}×)" if count else "" for count, lift in zip(counts, lifts, strict=False))]
            for role, (counts, lifts) in enumerate(zip(self.counts[:, :LABELS_SHOWN], self.lift, strict=True))
        ]
        more = f", the {len(named)} commonest" if len(named) < len(self.labels) else ""
        return display.panel(f"{self.column} by role: nodes (lift){more}", display.table(cells, ("role", *named)))


def label_table(roles: Any, labels: Any, k: int, *, column: str = "label") -> LabelTable:
    """The table of these roles and labels, node by node; None and null are no label.

    >>> label_table([0, 0, 1, 1], ["a", "a", "b", None], 2).lift.tolist()
    [[1.5, 0.0], [0.0, 3.0]]
    """
    values = _labels_as_text(labels)
    role = np.asarray(roles, np.int64)
    if len(values) != len(role):
        raise FeatureError(f"labels must have one entry per node ({len(role):,}), got {len(values):,}")
    encoded = values.dictionary_encode()
    has_label = pc.is_valid(encoded).to_numpy(zero_copy_only=False)
    if not has_label.any():
        raise FeatureError("expected labels, got none: every entry is missing")
    code = pc.fill_null(encoded.indices, 0).to_numpy(zero_copy_only=False).astype(np.int64)
    names, n = encoded.dictionary.to_pylist(), len(encoded.dictionary)
    counts = np.bincount(role[has_label] * n + code[has_label], minlength=k * n).reshape(k, n)
    order = sorted(range(n), key=lambda i: (-counts[:, i].sum(), names[i]))
    missing = np.bincount(role[~has_label], minlength=k)
    return LabelTable(tuple(names[i] for i in order), counts[:, order], missing, column)


def _labels_as_text(labels: Any) -> pa.Array:
    try:
        return as_text(labels if isinstance(labels, pa.Array) else pa.array(labels, from_pandas=True))
    except (pa.ArrowException, TypeError) as error:
        raise FeatureError(f"labels must be text or numbers, one per node: {error}") from None
