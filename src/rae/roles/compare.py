"""Two embeddings of one model with the same roles: which nodes changed role, how far each role drifted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rae.errors import GraphError
from rae.graph.ids import id_array, index_in, json_id, shown
from rae.memory import row_chunks
from rae.roles.model import Assignment, Roles
from rae.roles.vectors import CHUNK_ROWS, Doubles, Floats, Ints, check_vectors

NAMED_MOVERS = 10


@dataclass(frozen=True, eq=False)
class Comparison:
    """The changes from one embedding to another, by role."""

    moves: Ints  # (k, k) common ids that went from role i to role j
    gone: Ints  # (k,) ids that only the first has, by their role there
    new: Ints  # (k,) ids that only the second has, by their role there
    before: Ints  # (k,) sizes in the first
    after: Ints  # (k,) sizes in the second
    drift: Doubles  # (k,) distance between the means of its members, in radii; NaN where it has none
    movers: tuple[tuple[Any, int, int, float], ...]  # id, from, to, confidence: the surest first
    table: pa.Table  # id, from, to, of every common id

    @property
    def common(self) -> int:
        """The number of ids in both."""
        return int(self.moves.sum())

    @property
    def moved(self) -> int:
        """The number of common ids that changed role."""
        return self.common - int(np.trace(self.moves))

    def as_dict(self) -> dict[str, Any]:
        """The comparison as JSON holds it."""
        k = len(self.before)
        shares = [sizes / max(int(sizes.sum()), 1) for sizes in (self.before, self.after)]
        stayed = np.diag(self.moves) / np.maximum(self.moves.sum(1), 1)
        return {
            "common": self.common,
            "moved": self.moved,
            "gone": int(self.gone.sum()),
            "new": int(self.new.sum()),
            "moves": self.moves.tolist(),
            "roles": [
                {
                    "role": r,
                    "before": int(self.before[r]),
                    "after": int(self.after[r]),
                    "share_before": round(float(shares[0][r]), 6),
                    "share_after": round(float(shares[1][r]), 6),
                    "stayed": round(float(stayed[r]), 4) if self.moves[r].sum() else None,
                    "gone": int(self.gone[r]),
                    "new": int(self.new[r]),
                    "drift": None if np.isnan(self.drift[r]) else round(float(self.drift[r]), 4),
                }
                for r in range(k)
            ],
            "movers": [{"id": json_id(i), "from": a, "to": b, "confidence": round(c, 4)} for i, a, b, c in self.movers],
        }


def compare(roles: Roles, ids: Any, z: Any, other_ids: Any, other_z: Any) -> Comparison:
    """The roles of one model in two embeddings, node by node for the ids in both."""
    ids, other_ids = id_array(ids), id_array(other_ids)
    width = roles.parameters.width
    z, other_z = check_vectors(z, width), check_vectors(other_z, width)
    before, after = roles.assign(z), roles.assign(other_z)
    matches = index_in(ids, other_ids)
    if matches.null_count == len(ids):
        raise GraphError(
            f"the two have no id in common: {ids.type} such as {shown(ids)}, "
            f"{other_ids.type} such as {shown(other_ids)}"
        )
    rows = np.flatnonzero(pc.is_valid(matches).to_numpy(zero_copy_only=False))
    other_rows = matches.drop_null().to_numpy(zero_copy_only=False).astype(np.int64)
    old, new, k = before.labels[rows], after.labels[other_rows], roles.n_roles
    return Comparison(
        moves=np.bincount(old.astype(np.int64) * k + new, minlength=k * k).reshape(k, k),
        gone=np.bincount(np.delete(before.labels, rows), minlength=k),
        new=np.bincount(np.delete(after.labels, other_rows), minlength=k),
        before=before.sizes,
        after=after.sizes,
        drift=_drift(roles, z, before, other_z, after),
        movers=_surest_movers(ids, rows, old, new, after.confidence[other_rows]),
        table=pa.table({"id": ids.take(pa.array(rows)), "from": old, "to": new}),
    )


def _surest_movers(
    ids: pa.Array, rows: Ints, old: Ints, new: Ints, confidence: Floats
) -> tuple[tuple[Any, int, int, float], ...]:
    """Id, old role, new role and confidence of the nodes that changed role, the surest first."""
    moved = np.flatnonzero(old != new)
    surest = moved[np.argsort(-confidence[moved], kind="stable")[:NAMED_MOVERS]]
    names = ids.take(pa.array(rows[surest])).to_pylist()
    return tuple((name, int(old[i]), int(new[i]), float(confidence[i])) for name, i in zip(names, surest, strict=True))


def _drift(roles: Roles, z: Floats, before: Assignment, other_z: Floats, after: Assignment) -> Doubles:
    """The distance between the means of a role's members, before and after, in radii.  -> (k,)"""
    means = [_role_means(roles, vectors, assignment) for vectors, assignment in ((z, before), (other_z, after))]
    out: Doubles = np.linalg.norm(means[0] - means[1], axis=1) / roles.parameters.radius
    return out


def _role_means(roles: Roles, z: Floats, assignment: Assignment) -> Doubles:
    """The mean of each role's members in the projection; NaN for a role without members.  -> (k, p)"""
    sums = np.zeros(roles.parameters.centers.shape)
    for start, stop in row_chunks(len(z), CHUNK_ROWS):
        np.add.at(sums, assignment.labels[start:stop], roles.parameters.project(z[start:stop]))
    sizes = assignment.sizes[:, None]
    means: Doubles = np.where(sizes > 0, sums / np.maximum(sizes, 1), np.nan)
    return means
