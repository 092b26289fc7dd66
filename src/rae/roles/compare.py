"""Two embeddings by one model, seen with the same roles: who moved, and how far each role drifted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rae.errors import GraphError
from rae.graph.ids import id_array, index_in, shown
from rae.roles.canonical import Doubles, Floats, Ints, chunks
from rae.roles.fitted import Assignment, Roles, checked

SHOWN = 10  # movers named


@dataclass(frozen=True, eq=False)
class Comparison:
    """From one embedding to another, role by role; `moves[i, j]` common ids went from role i to role j."""

    moves: Ints  # (k, k)
    gone: Ints  # (k,) ids that only the first has, by their role there
    new: Ints  # (k,) ids that only the second has, by their role there
    before: Ints  # (k,) sizes
    after: Ints  # (k,)
    drift: Doubles  # (k,) how far the middle of the role went, in radii; NaN where it is empty
    movers: tuple[tuple[Any, int, int, float], ...]  # id, from, to, confidence: the surest first
    table: pa.Table  # id, from, to, of every common id

    @property
    def common(self) -> int:
        return int(self.moves.sum())

    @property
    def moved(self) -> int:
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
            "movers": [
                {"id": i if isinstance(i, int | str | float) else str(i), "from": a, "to": b, "confidence": round(c, 4)}
                for i, a, b, c in self.movers
            ],
        }


def compare(roles: Roles, ids: Any, z: Any, other_ids: Any, other_z: Any) -> Comparison:
    """How the nodes of the first embedding play in the second, for the ids both have."""
    ids, other_ids = id_array(ids), id_array(other_ids)
    z, other_z = checked(z, len(roles.fitted.space.mean)), checked(other_z, len(roles.fitted.space.mean))
    first, second = roles.assign(z), roles.assign(other_z)
    found = index_in(ids, other_ids)
    if found.null_count == len(ids):
        raise GraphError(
            f"the two have no id in common: {ids.type} such as {shown(ids)}, "
            f"{other_ids.type} such as {shown(other_ids)}"
        )
    here = np.flatnonzero(pc.is_valid(found).to_numpy(zero_copy_only=False))
    there = found.drop_null().to_numpy(zero_copy_only=False).astype(np.int64)
    a, b = first.labels[here], second.labels[there]
    k = roles.n_roles
    moves = np.bincount(a.astype(np.int64) * k + b, minlength=k * k).reshape(k, k)
    fresh = np.ones(len(other_ids), bool)
    fresh[there] = False
    lost = np.ones(len(ids), bool)
    lost[here] = False
    return Comparison(
        moves=moves,
        gone=np.bincount(first.labels[lost], minlength=k),
        new=np.bincount(second.labels[fresh], minlength=k),
        before=first.sizes,
        after=second.sizes,
        drift=_drift(roles, z, first, other_z, second),
        movers=_surest(ids, here, a, b, second.confidence[there]),
        table=pa.table({"id": ids.take(pa.array(here)), "from": a, "to": b}),
    )


def _surest(ids: pa.Array, here: Ints, a: Any, b: Any, sure: Floats) -> tuple[tuple[Any, int, int, float], ...]:
    moved = np.flatnonzero(a != b)
    best = moved[np.argsort(-sure[moved], kind="stable")[:SHOWN]]
    names = ids.take(pa.array(here[best])).to_pylist()
    return tuple((name, int(a[i]), int(b[i]), float(sure[i])) for name, i in zip(names, best, strict=True))


def _drift(roles: Roles, z: Floats, first: Assignment, other_z: Floats, second: Assignment) -> Doubles:
    """The distance between the middles of a role's members, before and after, in radii of a role."""
    middles = []
    for vectors, assignment in ((z, first), (other_z, second)):
        total = np.zeros((roles.n_roles, roles.fitted.centers.shape[1]))
        for a, b in chunks(len(vectors)):
            np.add.at(total, assignment.labels[a:b], roles.fitted.space.project(vectors[a:b]))
        sizes = assignment.sizes[:, None]
        middles.append(np.where(sizes > 0, total / np.maximum(sizes, 1), np.nan))
    out: Doubles = np.sqrt(((middles[0] - middles[1]) ** 2).sum(1)) / roles.fitted.radius
    return out
