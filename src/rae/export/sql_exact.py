"""The exact model as SQL: measures, statistics, waves and hops, by the formulas of docs/embedding.md."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rae.config import MEASURES, ExactConfig
from rae.export import sql_text as sql
from rae.model.actions import BLOCKS, HOPS, Actions, far_weights
from rae.model.exact import ExactModel
from rae.model.structure import SMALLEST_DEVIATION, WAVE_LEVELS, Structure

COUNTS = """\
-- N(u) with ranks: nodes by degree, so that paths go through nodes of lower degree, and there are few
CREATE OR REPLACE TEMP TABLE rae_ranked AS
WITH ranks AS (SELECT node, row_number() OVER (ORDER BY degree, node) AS rank FROM rae_degrees)
SELECT e.node, e.neighbor, a.rank, b.rank AS neighbor_rank
FROM rae_neighbors e JOIN ranks a ON a.node = e.node JOIN ranks b ON b.node = e.neighbor;

-- triangles: each has one lowest corner a, and one edge that goes upwards from b to c
CREATE OR REPLACE TEMP TABLE rae_triangles AS
WITH upwards AS (SELECT node AS low, neighbor AS high FROM rae_ranked WHERE rank < neighbor_rank),
corners AS (
  SELECT unnest([ab.low, ab.high, bc.high]) AS node
  FROM upwards ab JOIN upwards bc ON bc.low = ab.high JOIN upwards ac ON ac.low = ab.low AND ac.high = bc.high
)
SELECT node, count(*) AS triangles FROM corners GROUP BY node;

-- 4-cycles, each from its highest corner u: with p paths u - v - w, u and w are across from each other in p (p - 1) / 2
-- of them, and every v is on p - 1
CREATE OR REPLACE TEMP TABLE rae_four_cycles AS
WITH paths AS NOT MATERIALIZED (
  SELECT vu.neighbor AS u, vu.node AS v, vw.neighbor AS w
  FROM rae_ranked vu JOIN rae_ranked vw ON vw.node = vu.node
  WHERE vu.rank < vu.neighbor_rank AND vw.neighbor_rank < vu.neighbor_rank
), across AS (
  SELECT u, w, count(*) AS p FROM paths GROUP BY u, w HAVING count(*) > 1
), counted AS (
  SELECT unnest([u, w]) AS node, p * (p - 1) / 2 AS cycles FROM across
  UNION ALL
  SELECT v, p - 1 FROM paths JOIN across USING (u, w)
)
SELECT node, sum(cycles) AS four_cycles FROM counted GROUP BY node;

-- core numbers: begin with degrees; again and again, k(u) becomes the largest h such that h neighbours have h or more.
-- What no longer changes are the core numbers. Only nodes beside those that changed last are looked at.
CREATE OR REPLACE TEMP TABLE rae_core AS
WITH RECURSIVE core(node, k) USING KEY (node) AS (
  SELECT node, degree FROM rae_degrees
  UNION
  SELECT h.node, h.k
  FROM (
    SELECT node, max(least(k, place)) AS k
    FROM (
      SELECT e.node, c.k, row_number() OVER (PARTITION BY e.node ORDER BY c.k DESC) AS place
      FROM rae_neighbors e JOIN recurring.core c ON c.node = e.neighbor
      WHERE e.node IN (SELECT f.neighbor FROM core changed JOIN rae_neighbors f ON f.node = changed.node)
    ) GROUP BY node
  ) h JOIN recurring.core o ON o.node = h.node
  WHERE h.k < o.k
)
SELECT node, k AS core FROM core;
"""


def statements(model: ExactModel, units: str) -> list[str]:
    """The statements that make the vectors of an exact model from a graph, and features where it reads some."""
    out, parts = [], []
    if model.actions is not None:
        out += action_statements(model.actions, _feature_names(model))
        parts += [("rae_actions", name) for name in BLOCKS]
    if model.structure is not None:
        out += structure_statements(model.structure, model.config, model.structure_scale, units)
        parts += [("rae_place", "place"), ("rae_around", "around")]
    return [*out, sql.result(parts, model.width)]


def _feature_names(model: ExactModel) -> Sequence[str]:
    return model.feature_names or [str(j) for j in range(model.n_features)]


# ----------------------------------------------------------------------------- place and around


def structure_statements(fitted: Structure, config: ExactConfig, scale: float, units: str) -> list[str]:
    """The statements of `place` and `around`."""
    return [
        sql.degrees(),
        COUNTS,
        _measures(fitted, units),
        _counted(config),
        *_levels(config),
        _statistics(config),
        _place(fitted, scale, units),
        *_around(fitted, config, scale),
    ]


def _measures(fitted: Structure, units: str) -> str:
    counts = ", ".join(f"ln(1 + coalesce({name}, 0)) AS {name}" for name in MEASURES)
    if units == "graph":
        mean = ", ".join(f"avg({name}) AS mean_{name}" for name in MEASURES)
        smallest = sql.number(SMALLEST_DEVIATION)
        deviation = ", ".join(f"greatest(stddev_pop({name}), {smallest}) AS deviation_{name}" for name in MEASURES)
        unit = f"SELECT {mean},\n    {deviation} FROM logs"
    else:
        values = [(name, fitted.mean[j], fitted.deviation[j]) for j, name in enumerate(MEASURES)]
        unit = "SELECT " + ",\n    ".join(
            f"{sql.number(mean)} AS mean_{name}, {sql.number(deviation)} AS deviation_{name}"
            for name, mean, deviation in values
        )
    x = ", ".join(f"(l.{name} - u.mean_{name}) / u.deviation_{name} AS {name}" for name in MEASURES)
    whose = "of this graph" if units == "graph" else "of the graph of the fit"
    return sql.temporary(
        "rae_measures",
        f"x: log(1 + count) of each measure, in units {whose}",
        f"""\
WITH logs AS (
  SELECT node, {counts}
  FROM rae_degrees LEFT JOIN rae_triangles USING (node) LEFT JOIN rae_core USING (node)
  LEFT JOIN rae_four_cycles USING (node)
), units AS (
  {unit}
)
SELECT l.node, {x}
FROM logs l, units u""",
    )


def _counted(config: ExactConfig) -> str:
    weighted = ", ".join(
        f"{sql.number(weight)} * {name} AS {name}"
        for name, weight in zip(MEASURES, config.measure_weights, strict=True)
    )
    return sql.temporary("rae_x", "x as `place` counts it", f"SELECT node, {weighted} FROM rae_measures")


def _levels(config: ExactConfig) -> list[str]:
    deviations = ",\n  coalesce(stddev_pop(COLUMNS(r.* EXCLUDE (node))), 0) AS 'sd_\\0'"
    out = []
    for k in range(1, len(config.level_weights) + 1):
        below = "rae_x" if k == 1 else "rae_mean_1_alone" if k == 2 else f"rae_mean_{k - 1}"
        about = f"M^{k} x: means over nodes {k} edge{'s' if k > 1 else ''} away" + (", and sd x" if k == 1 else "")
        out.append(sql.means(f"rae_mean_{k}", below, about, also=deviations if k == 1 else ""))
        if k == 1:
            alone = f"SELECT node, {', '.join(MEASURES)} FROM rae_mean_1"
            out.append(f"CREATE OR REPLACE TEMP VIEW rae_mean_1_alone AS {alone};\n")
    return out


def _statistics(config: ExactConfig) -> str:
    """φ as columns p0, p1, ..."""
    entries = [f"x.{name}" for name in MEASURES]
    for k, weight in enumerate(config.level_weights, 1):
        moments = [*MEASURES, *(f"sd_{name}" for name in MEASURES)] if k == 1 else MEASURES
        entries += [f"{sql.number(weight)} * m{k}.{name}" for name in moments]
    columns = [f"{entry} AS p{j}" for j, entry in enumerate(entries)]
    lines = ",\n  ".join(", ".join(columns[a : a + len(MEASURES)]) for a in range(0, len(columns), len(MEASURES)))
    joins = "".join(f" JOIN rae_mean_{k} m{k} USING (node)" for k in range(1, len(config.level_weights) + 1))
    return sql.temporary(
        "rae_phi",
        "φ: own measures, means and deviations of neighbours, farther means, each level times its weight",
        f"SELECT node,\n  {lines}\nFROM rae_x x{joins}",
    )


def _place(fitted: Structure, scale: float, units: str) -> str:
    center = sql.list_literal(fitted.center)
    if units == "graph":
        center = f"(SELECT {sql.all_columns('p')} FROM (SELECT avg(COLUMNS('^p[0-9]+$')) FROM rae_phi))"
    return sql.temporary(
        "rae_place",
        "place: φ less its mean, times the directions w of S_T w = λ (S_W + ridge I) w, rotated to equal columns",
        f"""\
WITH model AS (SELECT {center} AS center,
  {sql.matrix_literal((fitted.directions * scale).T)} AS directions
), rows AS (SELECT node, {sql.all_columns("p")} AS phi FROM rae_phi)
SELECT node, [list_dot_product(phi, w) - list_dot_product(center, w) FOR w IN directions] AS place
FROM rows, model""",
    )


def _around(fitted: Structure, config: ExactConfig, scale: float) -> list[str]:
    f = fitted.n_frequencies
    angles = [
        " + ".join(
            [f"{sql.number(fitted.frequencies[i, j])} * {name}" for i, name in enumerate(MEASURES)]
            + [sql.number(fitted.phases[j])]
        )
        for j in range(f)
    ]
    lines = ",\n    ".join(f"{angle} AS a{j}" for j, angle in enumerate(angles))
    own = sql.temporary(
        "rae_waves_0",
        f"cos and sin of {f} random combinations of the measures",
        f"""\
WITH angles AS (
  SELECT node,
    {lines}
  FROM rae_measures
)
SELECT node, cos(COLUMNS('^a([0-9]+)$')) AS 'c\\1', sin(COLUMNS('^a([0-9]+)$')) AS 's\\1' FROM angles""",
    )
    hops = [
        sql.means(f"rae_waves_{k}", f"rae_waves_{k - 1}", f"their means over neighbours, of those {k} edges away")
        for k in range(1, WAVE_LEVELS + 1)
    ]
    factor = sql.number(scale * config.around_scale / math.sqrt(3 * f))
    lists = []
    for k in range(WAVE_LEVELS + 1):
        count = f // 2 if k < 2 else f  # half of the frequencies are enough near the node
        lists.append(sql.column_list([*sql.names("c", count, f"w{k}"), *sql.names("s", count, f"w{k}")]))
    joins = "".join(f" JOIN rae_waves_{k} w{k} USING (node)" for k in range(1, WAVE_LEVELS + 1))
    joined = "\n    || ".join(lists)
    around = sql.temporary(
        "rae_around",
        "around: half of them for the node and its neighbours, all of them two and three edges away",
        f"SELECT node, [v * {factor} FOR v IN\n    {joined}] AS around\nFROM rae_waves_0 w0{joins}",
    )
    return [own, *hops, around]


# ----------------------------------------------------------------------------- own, near, mid and far


def action_statements(fitted: Actions, names: Sequence[str]) -> list[str]:
    """The statements of the blocks of given features."""
    directions, own = sql.as_written(fitted.axes), sql.as_written(fitted.own_axes)
    scale = {"scale": fitted.scale.numpy()}
    return [
        sql.feature_rows({"d": directions, "o": own}, names, scale),
        _prepared(fitted.words),
        *_projected(fitted, directions, own),
        *(
            sql.means(f"rae_hop_{k}", f"rae_hop_{k - 1}", f"h_{k} = M h_{k - 1}: means over neighbours")
            for k in range(1, HOPS + 1)
        ),
        _blocks(fitted),
        _one_length(fitted) if fitted.words else _as_they_are(),
    ]


def _prepared(words: bool) -> str:
    known = """\
  SELECT n.node, f.feature, sum(f.value::DOUBLE) * any_value(a.scale) AS value
  FROM rae_features f JOIN rae_nodes n ON n.id = f.id JOIN rae_axes a ON a.feature = f.feature::VARCHAR
  GROUP BY n.node, f.feature"""
    if not words:
        return sql.temporary("rae_rows", "features in units of their deviation; what is not there is 0", known)
    return sql.temporary(
        "rae_rows",
        "words: rare ones count more (√idf), long rows less (√length)",
        f"""\
WITH scaled AS (
{known}
)
SELECT node, feature, value / sqrt(sqrt(greatest(sum(value * value) OVER (PARTITION BY node), 1e-24))) AS value
FROM scaled""",
    )


def _projected(fitted: Actions, directions: Any, own: Any) -> list[str]:
    """h_0 as columns d0, d1, ... and at last a one, whose mean says who has neighbours; own as columns o0, o1, ..."""
    shift = np.zeros(len(directions)) if fitted.words else (fitted.shift * fitted.scale).numpy()
    less = {"d": shift @ directions, "o": shift @ own + fitted.own_center.double().numpy()}
    centered = [
        f"coalesce(p.{name}, 0) - {sql.number(value)} AS {name}"
        for prefix, values in less.items()
        for name, value in zip(sql.names(prefix, len(values)), values, strict=True)
    ]
    a = directions.shape[1]
    lines = ",\n  ".join(", ".join(centered[i : i + 8]) for i in range(0, len(centered), 8))
    projected = sql.temporary(
        "rae_projected",
        "features times the axes, centred",
        f"""\
WITH products AS (
  SELECT r.node, sum(r.value * COLUMNS(a.* EXCLUDE (feature, scale)))
  FROM rae_rows r JOIN rae_axes a ON a.feature = r.feature::VARCHAR GROUP BY r.node
)
SELECT n.node,
  {lines}
FROM rae_nodes n LEFT JOIN products p USING (node)""",
    )
    averaged = sql.temporary(
        "rae_hop_0",
        "h_0: the directions that are averaged, and a one, whose mean says who has neighbours",
        f"SELECT node, {', '.join(sql.names('d', a))}, 1e0 AS d{a} FROM rae_projected",
    )
    return [projected, averaged]


def _blocks(fitted: Actions) -> str:
    maps = {
        name: np.vstack([directions, -(center @ directions)[None]]).T  # the one of a row brings the center
        for name, center, directions in (
            ("near", fitted.near_center.numpy(), fitted.near_map.numpy()),
            ("mid", fitted.mid_center.numpy(), fitted.mid_map.numpy()),
            ("far", fitted.far_center.numpy(), fitted.far_map.numpy()),
        )
    }
    constants = ",\n  ".join(f"{sql.matrix_literal(matrix)} AS {name}_map" for name, matrix in maps.items())
    weights = " + ".join(f"{sql.number(weight)} * x[{k}]" for k, weight in enumerate(far_weights(), 1))
    hops = ", ".join(f"h{k}.v AS h{k}" for k in range(1, HOPS + 1))
    joins = "".join(
        f" JOIN (SELECT node, {sql.all_columns('d')} AS v FROM rae_hop_{k}) h{k} USING (node)"
        for k in range(1, HOPS + 1)
    )
    zipped = ", ".join(f"h{k}" for k in range(1, HOPS + 1))
    return sql.temporary(
        "rae_blocks",
        "near = h_1, mid = h_2, far = the weighted mean of all hops, each by its principal axes;\n"
        "the last number of an axis is minus its product with the center",
        f"""\
WITH model AS (SELECT
  {constants}
), own AS (SELECT node, {sql.all_columns("o")} AS own FROM rae_projected),
hops AS (SELECT node, own, {hops} FROM own{joins})
SELECT node, own,
  {sql.product("h1", "near_map")} AS near,
  {sql.product("h2", "mid_map")} AS mid,
  {sql.product(f"[{weights} FOR x IN list_zip({zipped})]", "far_map")} AS far
FROM hops, model""",
    )


def _as_they_are() -> str:
    return sql.temporary("rae_actions", "the blocks of the features", "FROM rae_blocks")


def _one_length(fitted: Actions) -> str:
    """Each node's part of a block of words scaled to one length, then centred; one at the center stays there."""
    columns = []
    for k, name in enumerate(BLOCKS):
        center, factor = sql.list_literal(fitted.unit_centers[k]), sql.number(fitted.unit_scales[k])
        unit = f"[(x[1] / greatest({name}_length, 1e-12) - x[2]) * {factor} FOR x IN list_zip({name}, {center})]"
        columns.append(f"CASE WHEN {name}_length = 0 THEN {name} ELSE {unit} END AS {name}")
    lengths = ", ".join(f"sqrt(list_dot_product({name}, {name})) AS {name}_length" for name in BLOCKS)
    lines = ",\n  ".join(columns)
    return sql.temporary(
        "rae_actions", "words say what, not how much: each block scaled to one length, then centred",
        f"SELECT node,\n  {lines}\nFROM (SELECT *, {lengths} FROM rae_blocks)",
    )  # fmt: skip
