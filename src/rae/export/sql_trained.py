"""A trained encoder as SQL: Algorithms 1 and 2, level by level."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rae.config import Config
from rae.export import sql_text as sql
from rae.features import structural_width
from rae.model.checkpoint import Checkpoint
from rae.model.encoder import Encoder, Layer, Level

_ACTIVATIONS = {
    "tanh": "tanh({})",
    "relu": "greatest({}, 0)",
    "elu": "CASE WHEN {0} > 0 THEN {0} ELSE exp({0}) - 1 END",
    "leaky_relu": "CASE WHEN {0} > 0 THEN {0} ELSE 0.01 * {0} END",
}

NEIGHBORHOODS = sql.temporary(
    "rae_neighborhoods",
    "{u} ∪ N(u)",
    "SELECT node, neighbor FROM rae_neighbors UNION ALL SELECT node, node FROM rae_nodes",
)


def statements(model: Checkpoint) -> list[str]:
    """The statements that make the vectors of a trained model from a graph, and features where it reads some."""
    out, parts = [NEIGHBORHOODS], []
    n_structural = structural_width(model.config, model.structural)
    if n_structural:
        out += [sql.degrees(), _structural(model.config)]
    names = model.feature_names or [str(j) for j in range(model.n_features - n_structural)]
    for loss, encoder in model.encoders.items():
        out += _encoder(loss, encoder, n_structural, names)
        parts += [(f"rae_{loss}_{k}", "h") for k in range(encoder.depth, 0, -1)]
    return [*out, sql.result(parts, model.width)]


def _structural(config: Config) -> str:
    """X_s as one list: own degree, then the neighbours' degrees, largest first, evenly spaced ones above the cap."""
    cap = config.degree_cap
    even = f"1 + (2 * j * (len(d) - 1) + {cap - 1}) // {2 * max(cap - 1, 1)}"
    entry = f"CASE WHEN len(d) > {cap} THEN d[{even}] ELSE coalesce(d[j + 1], 0) END"
    value = "ln(1 + x)" if config.degree_scale == "log" else "x::DOUBLE"
    return sql.temporary(
        "rae_structural",
        f"X_s: own degree, then up to {cap} of the neighbours' degrees, largest first",
        f"""\
WITH lists AS (
  SELECT n.node, n.degree, coalesce(list(f.degree ORDER BY f.degree DESC) FILTER (f.degree IS NOT NULL), []) AS d
  FROM rae_degrees n LEFT JOIN rae_neighbors e ON e.node = n.node LEFT JOIN rae_degrees f ON f.node = e.neighbor
  GROUP BY n.node, n.degree
)
SELECT node, [{value} FOR x IN [degree] || [{entry} FOR j IN range({cap})]] AS x FROM lists""",
    )


def _encoder(loss: str, encoder: Encoder, n_structural: int, names: Sequence[str]) -> list[str]:
    out: list[str] = []
    for k, level in enumerate(encoder.stack(), 1):
        weight = _weight(level.aggregate)
        if k == 1:
            out += _read(loss, weight, n_structural, names)
        else:
            out.append(_rows(f"rae_{loss}_row_{k}", f"rae_{loss}_{k - 1}", "h", weight, f"W^{k} h^{k - 1}"))
        out += _level(loss, k, level)
    return out


def _weight(layer: Layer) -> Any:
    return layer.weight.detach().double().numpy()


def _read(loss: str, weight: Any, n_structural: int, names: Sequence[str]) -> list[str]:
    """W^1 x as columns h0, h1, ...: of structural features, of given ones, or of both."""
    table, width = f"rae_{loss}_row_1", weight.shape[1]
    if not len(names):
        return [_rows(table, "rae_structural", "x", weight, "W^1 x")]
    structural = n_structural and _rows(f"{table}_s", "rae_structural", "x", weight[:n_structural], "W^1 x, structural")
    also = " + s." if structural else ""
    sums = ", ".join(f"coalesce(p.{h}, 0){also + h if also else ''} AS {h}" for h in sql.names("h", width))
    join = f" JOIN {table}_s s USING (node)" if structural else ""
    features = sql.temporary(
        table,
        "W^1 x of the given features; what is not there is 0",
        f"""\
WITH products AS (
  SELECT n.node, sum(f.value::DOUBLE * COLUMNS(a.* EXCLUDE (feature)))
  FROM rae_features f JOIN rae_nodes n ON n.id = f.id JOIN rae_axes a ON a.feature = f.feature::VARCHAR
  GROUP BY n.node
)
SELECT n.node, {sums}
FROM rae_nodes n LEFT JOIN products p USING (node){join}""",
    )
    return [*([structural] if structural else []), sql.feature_rows({"h": weight[n_structural:]}, names, {}), features]


def _rows(table: str, source: str, column: str, weight: Any, about: str) -> str:
    """Lists times a matrix, as columns h0, h1, ..."""
    return sql.temporary(
        table,
        about,
        f"""\
WITH model AS (SELECT {sql.matrix_literal(weight.T)} AS weight),
products AS (SELECT node, {sql.product(column, "weight")} AS v FROM {source}, model)
SELECT node, {sql.spread("v", "h", weight.shape[1])} FROM products""",
    )


def _level(loss: str, k: int, level: Level) -> list[str]:
    """mean({u} ∪ N(u)), σ and the second projection; averaging is linear, so it may follow the first one."""
    rows, means, out = f"rae_{loss}_row_{k}", f"rae_{loss}_mean_{k}", []
    inner = sql.all_columns("h")
    if level.order == "project_first":
        active = f"{rows}_active"
        width = level.widths[1]
        out.append(
            sql.temporary(
                active,
                f"σ^{k}(W^{k} ·), before the mean",
                f"WITH lists AS (SELECT node, {inner} AS v FROM {rows}),\n"
                f"active AS (SELECT node, {_activated(level.aggregate, 'v')} AS v FROM lists)\n"
                f"SELECT node, {sql.spread('v', 'h', width)} FROM active",
            )
        )
        rows = active
    out.append(sql.means(means, rows, f"mean({{u}} ∪ N(u)), level {k}", edges="rae_neighborhoods"))
    first = f"SELECT node, {inner} AS v FROM {means}"
    if level.order != "project_first":
        first = f"SELECT node, {_activated(level.aggregate, 'v')} AS v FROM ({first})"
    if level.update is not None:
        weight = sql.matrix_literal(_weight(level.update).T)
        first = f"SELECT node, {sql.product('v', 'weight')} AS v FROM ({first}), (SELECT {weight} AS weight)"
        first = f"SELECT node, {_activated(level.update, 'v')} AS v FROM ({first})"
    out.append(sql.temporary(f"rae_{loss}_{k}", f"h^{k}", f"SELECT node, v AS h FROM ({first})"))
    return out


def _activated(layer: Layer, row: str) -> str:
    """σ(BatchNorm(row)), with the statistics of the fit."""
    gain, shift = layer.norm_factors()
    value = _ACTIVATIONS[layer.activation].format("(x[1] * x[2] + x[3])")
    return f"[{value} FOR x IN list_zip({row}, {sql.list_literal(gain)}, {sql.list_literal(shift)})]"
