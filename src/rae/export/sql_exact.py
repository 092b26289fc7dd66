"""The exact model as SQL: measures, statistics, waves and hops, by the formulas of docs/embedding.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rae.config import MEASURES, ExactConfig
from rae.export import sql_text as sql
from rae.graph.channels import is_directed, kinds_of, split_name
from rae.model.actions import BLOCKS, HOPS, Actions, far_weights
from rae.model.channels import (
    in_directions,
    measure_names,
    mixed_channels,
    n_averaged,
    n_measures,
)
from rae.model.exact import ExactModel
from rae.model.structure import SMALLEST_DEVIATION, WAVE_LEVELS, Structure, moments_read, weights_of_measures

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


@dataclass(frozen=True)
class Read:
    """What a model reads of edges: channels by name, and the columns of its measures."""

    channels: tuple[str, ...]
    weighted: bool

    @property
    def names(self) -> list[str]:
        """The columns of the measures: those of a plain graph, then x4, x5, ..."""
        return [*MEASURES, *(f"x{j}" for j in range(len(MEASURES), n_measures(self.channels, self.weighted)))]

    @property
    def averaged(self) -> list[str]:
        """Those whose moments over neighbours are taken."""
        return self.names[: n_averaged(self.channels, self.weighted)]

    def weight(self, group: Sequence[str]) -> str:
        """The weight of a neighbour in these channels together; "" for all edges alike."""
        return " + ".join(f"e.c{self.channels.index(name)}" for name in group)


def statements(model: ExactModel, units: str) -> list[str]:
    """The statements that make the vectors of an exact model from a graph, and features where it reads some."""
    out, parts, read = [], [], Read(model.channels, model.weighted)
    if model.actions is not None:
        groups = mixed_channels(model.channels, model.weighted, model.config.mix)
        weights = [read.weight(group) for group in groups]
        out += action_statements(model.actions, _feature_names(model), weights)
        parts += [("rae_actions", name) for name in BLOCKS]
    if model.structure is not None:
        out += structure_statements(model.structure, model.config, model.structure_scale, units, read)
        parts += [("rae_place", "place"), ("rae_around", "around")]
    return [*out, sql.result(parts, model.width)]


def _feature_names(model: ExactModel) -> Sequence[str]:
    return model.feature_names or [str(j) for j in range(model.n_features)]


# ----------------------------------------------------------------------------- place and around


def structure_statements(fitted: Structure, config: ExactConfig, scale: float, units: str, read: Read) -> list[str]:
    """The statements of `place` and `around`."""
    return [
        sql.degrees(),
        COUNTS,
        *([_channel_measures(fitted, units, read)] if read.channels else []),
        _measures(fitted, units, read),
        _counted(config, read),
        *_levels(config, read),
        _statistics(config, read),
        _place(fitted, scale, units),
        *_around(fitted, config, scale, read),
    ]


def _channel_measures(fitted: Structure, units: str, read: Read) -> str:
    """Edges and strengths of each node by direction and kind, before their logarithm."""
    kinds = kinds_of(read.channels) or ("",)
    at = {name: i for i, name in enumerate(read.channels)}
    kind_of = {name: kinds.index(split_name(name)[1]) for name in read.channels}
    sums = ", ".join(
        f"coalesce(sum((c{i} > 0)::INTEGER), 0) AS n{i}, coalesce(sum(c{i}), 0) AS s{i}" for i in at.values()
    )
    scales = []
    for k in range(len(kinds)):
        own = ", ".join(f"s{at[name]}" for name in read.channels if kind_of[name] == k)
        median = f"(SELECT coalesce(median(v), 1) FROM (SELECT unnest([{own}]) AS v FROM sums) WHERE v > 0)"
        value = "1e0" if fitted.scales is None else sql.number(fitted.scales[k]) if units == "fit" else median
        scales.append(f"{value} AS unit_{k}")
    columns = []
    for group in in_directions(read.channels):
        columns += [" + ".join(f"n{at[name]}" for name in group)] if is_directed(read.channels) else []
        strength = " + ".join(f"s{at[name]} / unit_{kind_of[name]}" for name in group)
        columns += [strength] if read.weighted else []
    if kinds_of(read.channels):
        for name in read.channels:
            columns += [f"n{at[name]}", *([f"s{at[name]} / unit_{kind_of[name]}"] if read.weighted else [])]
    named = zip(columns, read.names[len(MEASURES) :], measure_names(read.channels, read.weighted), strict=True)
    lines = "".join(f",\n  {column} AS {name} /* {_one_comment(words)} */" for column, name, words in named)
    return sql.temporary(
        "rae_channels",
        "edges and strengths by direction and kind; a strength is in units of the median strength of its kind",
        f"""\
WITH sums AS (
  SELECT n.node, {sums} FROM rae_nodes n LEFT JOIN rae_neighbors e ON e.node = n.node GROUP BY n.node
), units AS (SELECT {", ".join(scales)})
SELECT node{lines}
FROM sums, units""",
    )


def _one_comment(words: str) -> str:
    """Words that end no comment: a kind of edges may have any name."""
    return " ".join(words.replace("*/", "").split())


def _measures(fitted: Structure, units: str, read: Read) -> str:
    counts = ", ".join(f"ln(1 + coalesce({name}, 0)) AS {name}" for name in read.names)
    more = " LEFT JOIN rae_channels USING (node)" if read.channels else ""
    if units == "graph":
        mean = ", ".join(f"avg({name}) AS mean_{name}" for name in read.names)
        smallest = sql.number(SMALLEST_DEVIATION)
        deviation = ", ".join(f"greatest(stddev_pop({name}), {smallest}) AS deviation_{name}" for name in read.names)
        unit = f"SELECT {mean},\n    {deviation} FROM logs"
    else:
        values = [(name, fitted.mean[j], fitted.deviation[j]) for j, name in enumerate(read.names)]
        unit = "SELECT " + ",\n    ".join(
            f"{sql.number(mean)} AS mean_{name}, {sql.number(deviation)} AS deviation_{name}"
            for name, mean, deviation in values
        )
    x = ", ".join(f"(l.{name} - u.mean_{name}) / u.deviation_{name} AS {name}" for name in read.names)
    whose = "of this graph" if units == "graph" else "of the graph of the fit"
    return sql.temporary(
        "rae_measures",
        f"x: log(1 + count) of each measure, in units {whose}",
        f"""\
WITH logs AS (
  SELECT node, {counts}
  FROM rae_degrees LEFT JOIN rae_triangles USING (node) LEFT JOIN rae_core USING (node)
  LEFT JOIN rae_four_cycles USING (node){more}
), units AS (
  {unit}
)
SELECT l.node, {x}
FROM logs l, units u""",
    )


def _counted(config: ExactConfig, read: Read) -> str:
    weights = weights_of_measures(config, len(read.names))
    weighted = ", ".join(
        f"{sql.number(weight)} * {name} AS {name}" for name, weight in zip(read.names, weights, strict=True)
    )
    return sql.temporary("rae_x", "x as `place` counts it", f"SELECT node, {weighted} FROM rae_measures")


def _levels(config: ExactConfig, read: Read) -> list[str]:
    deviations = ",\n  coalesce(stddev_pop(COLUMNS(r.* EXCLUDE (node))), 0) AS 'sd_\\0'"
    averaged = ", ".join(read.averaged)
    out = [f"CREATE OR REPLACE TEMP VIEW rae_x_averaged AS SELECT node, {averaged} FROM rae_x;\n"]
    for k in range(1, len(config.level_weights) + 1):
        below = "rae_x_averaged" if k == 1 else "rae_mean_1_alone" if k == 2 else f"rae_mean_{k - 1}"
        about = f"M^{k} x: means over nodes {k} edge{'s' if k > 1 else ''} away" + (", and sd x" if k == 1 else "")
        out.append(sql.means(f"rae_mean_{k}", below, about, also=deviations if k == 1 else ""))
        if k == 1:
            out.append(f"CREATE OR REPLACE TEMP VIEW rae_mean_1_alone AS SELECT node, {averaged} FROM rae_mean_1;\n")
    for i, name in enumerate(read.channels):
        weight, columns = f"e.c{i}", "COLUMNS(r.* EXCLUDE (node))"
        mean = f"(sum({weight} * {columns}) / nullif(sum({weight}), 0))"
        square = f"(sum({weight} * {columns} * {columns}) / nullif(sum({weight}), 0))"
        also = f",\n  coalesce(sqrt(greatest({square} - {mean} * {mean}, 0)), 0) AS 'sd_\\0'"
        about = f"M x and sd x along the channel {name}, by its weights"
        out.append(sql.means(f"rae_channel_{i}", "rae_x_averaged", about, also=also, weight=weight))
    return out


def _statistics(config: ExactConfig, read: Read) -> str:
    """φ as columns p0, p1, ..."""
    entries = [f"x.{name}" for name in read.names]
    for part in moments_read(config, read.channels, read.weighted):
        table = f"c{read.channels.index(part.channels[0])}" if part.channels else f"m{part.level}"
        column = f"{table}.sd_" if part.is_spread else f"{table}."
        entries += [f"{sql.number(part.weight)} * {column}{name}" for name in read.averaged]
    columns = [f"{entry} AS p{j}" for j, entry in enumerate(entries)]
    lines = ",\n  ".join(", ".join(columns[a : a + len(MEASURES)]) for a in range(0, len(columns), len(MEASURES)))
    joins = "".join(f" JOIN rae_mean_{k} m{k} USING (node)" for k in range(1, len(config.level_weights) + 1))
    joins += "".join(f" JOIN rae_channel_{i} c{i} USING (node)" for i in range(len(read.channels)))
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


def _around(fitted: Structure, config: ExactConfig, scale: float, read: Read) -> list[str]:
    f = fitted.n_frequencies
    angles = [
        " + ".join(
            [f"{sql.number(fitted.frequencies[i, j])} * {name}" for i, name in enumerate(read.averaged)]
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
    factor = sql.number(fitted.around_factor(config, scale))
    lists = []
    for k in range(WAVE_LEVELS + 1):
        count = f // 2 if k < 2 else f  # half of the frequencies are enough near the node
        columns = [*sql.names("c", count, f"w{k}"), *sql.names("s", count, f"w{k}")]
        lists.append(f"[{', '.join(columns)}]")
    joins = "".join(f" JOIN rae_waves_{k} w{k} USING (node)" for k in range(1, WAVE_LEVELS + 1))
    joined = "\n    || ".join(lists)
    around = sql.temporary(
        "rae_around",
        "around: half of them for the node and its neighbours, all of them two and three edges away",
        f"SELECT node, [v * {factor} FOR v IN\n    {joined}] AS around\nFROM rae_waves_0 w0{joins}",
    )
    return [own, *hops, around]


# ----------------------------------------------------------------------------- own, near, mid and far


def action_statements(fitted: Actions, names: Sequence[str], weights: Sequence[str] = ("",)) -> list[str]:
    """The statements of the blocks of given features, which are averaged by each of these weights, side by side."""
    directions, own = sql.as_written(fitted.axes), sql.as_written(fitted.own_axes)
    scale = {"scale": fitted.scale.numpy()}
    return [
        sql.feature_rows({"d": directions, "o": own}, names, scale),
        _prepared(fitted.words),
        *_projected(fitted, directions, own),
        *(hop for g, weight in enumerate(weights) for hop in _hops(g, weight)),
        _blocks(fitted, len(weights)),
        _one_length(fitted)
        if fitted.words
        else sql.temporary("rae_actions", "the blocks of the features", "FROM rae_blocks"),
    ]


def _hops(group: int, weight: str) -> list[str]:
    """h_1 .. h_4 along one group of channels; those of the first are rae_hop_1 .. rae_hop_4."""
    along = f", by {weight}" if weight else ""
    return [
        sql.means(
            _hop(k, group), _hop(k - 1, group), f"h_{k} = M h_{k - 1}: means over neighbours{along}", weight=weight
        )
        for k in range(1, HOPS + 1)
    ]


def _hop(k: int, group: int) -> str:
    return f"rae_hop_{k}_{group}" if k and group else f"rae_hop_{k}"


def _prepared(words: bool) -> str:
    scaled = """\
  SELECT n.node, f.feature, sum(f.value::DOUBLE) * any_value(a.scale) AS value
  FROM rae_features f JOIN rae_nodes n ON n.id = f.id JOIN rae_axes a ON a.feature = f.feature::VARCHAR
  GROUP BY n.node, f.feature"""
    if not words:
        return sql.temporary("rae_rows", "features in units of their deviation; what is not there is 0", scaled)
    return sql.temporary(
        "rae_rows",
        "words: rare ones count more (√idf), long rows less (√length)",
        f"""\
WITH scaled AS (
{scaled}
)
SELECT node, feature, value / sqrt(sqrt(greatest(sum(value * value) OVER (PARTITION BY node), 1e-24))) AS value
FROM scaled""",
    )


def _projected(fitted: Actions, directions: Any, own: Any) -> list[str]:
    """h_0 as columns d0, d1, ... and finally a one, whose mean says who has neighbours; own as columns o0, o1, ..."""
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


def _blocks(fitted: Actions, groups: int) -> str:
    maps = {
        name: _with_center(center, directions, groups).T
        for name, center, directions in (
            ("near", fitted.near_center.numpy(), fitted.near_map.numpy()),
            ("mid", fitted.mid_center.numpy(), fitted.mid_map.numpy()),
            ("far", fitted.far_center.numpy(), fitted.far_map.numpy()),
        )
    }
    constants = ",\n  ".join(f"{sql.matrix_literal(matrix)} AS {name}_map" for name, matrix in maps.items())
    weights = " + ".join(f"{sql.number(weight)} * x[{k}]" for k, weight in enumerate(far_weights(), 1))
    each = [(k, g) for k in range(1, HOPS + 1) for g in range(groups)]
    hops = ", ".join(" || ".join(f"h{k}_{g}.v" for g in range(groups)) + f" AS h{k}" for k in range(1, HOPS + 1))
    joins = "".join(
        f"\n  JOIN (SELECT node, {sql.all_columns('d')} AS v FROM {_hop(k, g)}) h{k}_{g} USING (node)" for k, g in each
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


def _with_center(center: Any, directions: Any, groups: int) -> Any:
    """The axes of each group of directions, then minus their product with its center, for the one of a row."""
    parts = zip(np.split(center, groups), np.split(directions, groups), strict=True)
    return np.vstack([row for c, d in parts for row in (d, -(c @ d)[None])])


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
