"""Pieces of SQL in DuckDB's dialect: numbers, lists, names, and the statements that every model needs.

Rows that are averaged over neighbours are tables with one column per number (DuckDB averages all of them by
`avg(COLUMNS(...))`), rows that are multiplied by a matrix are lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from rae.graph.channels import split_name

DIGITS = 10  # of the numbers of a matrix


def number(value: Any) -> str:
    """A number as SQL reads it in double precision, with all its digits.

    >>> number(0.1), number(2), number(-1e-7)
    ('0.1e0', '2.0e0', '-1e-07')
    """
    text = repr(float(value))
    return text if "e" in text else f"{text}e0"


def numbers(values: Iterable[Any]) -> str:
    """Numbers between brackets, as the text of a list.

    >>> numbers([1, 1 / 3])
    '[1, 0.3333333333]'
    """
    return f"[{', '.join(f'{float(value):.{DIGITS}g}' for value in values)}]"


def as_written(matrix: Any) -> Any:
    """The matrix that `numbers` writes, for what must match it exactly.  (m, d) -> (m, d)"""
    return np.array([[float(f"{float(value):.{DIGITS}g}") for value in row] for row in matrix])


def list_literal(values: Any) -> str:
    """A list of numbers as a constant: text that is cast, which DuckDB reads faster than a number at a time.

    >>> list_literal([1, 0.25])
    "'[1, 0.25]'::DOUBLE[]"
    """
    return f"'{numbers(values)}'::DOUBLE[]"


def matrix_literal(rows: Any) -> str:
    """A matrix as a constant: a list of its rows, a line each."""
    lines = ",\n  ".join(numbers(row) for row in rows)
    return f"'[\n  {lines}]'::DOUBLE[][]"


def text_literal(text: str) -> str:
    """A text as a constant.

    >>> text_literal("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"


def names(prefix: str, count: int, table: str = "") -> list[str]:
    """Column names: a prefix and a number.

    >>> names("d", 2), names("d", 2, "h")
    (['d0', 'd1'], ['h.d0', 'h.d1'])
    """
    return [f"{table}.{prefix}{j}" if table else f"{prefix}{j}" for j in range(count)]


def all_columns(prefix: str) -> str:
    """All columns of this prefix as one list, in their order.

    >>> all_columns("d")
    "list_value(*COLUMNS('^d[0-9]+$'))"
    """
    return f"list_value(*COLUMNS('^{prefix}[0-9]+$'))"


def spread(source: str, prefix: str, count: int) -> str:
    """The entries of a list as columns.

    >>> spread("v", "h", 2)
    'v[1] AS h0, v[2] AS h1'
    """
    return ", ".join(f"{source}[{j + 1}] AS {name}" for j, name in enumerate(names(prefix, count)))


def product(row: str, matrix: str) -> str:
    """A row (a list) times a matrix that is kept as a list of its columns."""
    return f"[list_dot_product({row}, w) FOR w IN {matrix}]"


def temporary(name: str, about: str, query: str) -> str:
    """A statement that makes a temporary table, with a comment that says what it holds."""
    comment = "\n".join(f"-- {line}" for line in about.splitlines())
    return f"{comment}\nCREATE OR REPLACE TEMP TABLE {name} AS\n{query};\n"


def means(name: str, rows: str, about: str, *, edges: str = "rae_neighbors", also: str = "", weight: str = "") -> str:
    """The statement of M: means over neighbours of every column of a table, by weight; 0 for nodes that have none."""
    columns = "COLUMNS(r.* EXCLUDE (node))"
    mean = f"sum(({weight}) * {columns}) / nullif(sum({weight}), 0)" if weight else f"avg({columns})"
    query = f"""\
SELECT n.node, coalesce({mean}, 0){also}
FROM rae_nodes n LEFT JOIN {edges} e ON e.node = n.node LEFT JOIN {rows} r ON r.node = e.neighbor
GROUP BY n.node"""
    return temporary(name, about, query)


def feature_rows(columns: dict[str, Any], feature_names: Sequence[str], numbers_of: dict[str, Any]) -> str:
    """The statement of `rae_axes`: a row per feature, with its numbers and its rows of these matrices as columns."""
    lines = [
        ", ".join(
            [
                text_literal(name),
                *(number(values[i]) for values in numbers_of.values()),
                *(f"'{numbers(matrix[i])}'" for matrix in columns.values()),
            ]
        )
        for i, name in enumerate(feature_names)
    ]
    header = ", ".join(["feature", *numbers_of, *(f"list_{prefix}" for prefix in columns)])
    lists = ", ".join(f"list_{prefix}::DOUBLE[] AS {prefix}" for prefix in columns)
    wide = ", ".join(spread(prefix, prefix, matrix.shape[1]) for prefix, matrix in columns.items())
    values = ",\n  ".join(f"({line})" for line in lines)
    return temporary(
        "rae_axes",
        "every feature that the model knows, and its part in each direction",
        f"""\
WITH given({header}) AS (VALUES
  {values}
), lists AS (SELECT {", ".join(["feature", *numbers_of])}, {lists} FROM given)
SELECT {", ".join(["feature", *numbers_of])}, {wide} FROM lists""",
    )


# ----------------------------------------------------------------------------- the graph

EDGES = """\
-- What is read. The first two columns of the table `edges` are the two ends of an edge; change its name here.
CREATE OR REPLACE TEMP VIEW rae_edges AS
SELECT source, target FROM edges AS e(source, target) WHERE source IS NOT NULL AND target IS NOT NULL;
"""

FEATURES = """\
-- The first three columns of the table `features` are the id of a node, the name of a feature, and its value.
CREATE OR REPLACE TEMP VIEW rae_features AS
SELECT id, feature, value FROM features AS f(id, feature, value);
"""


def edges_with(weighted: bool, kinds: bool) -> str:
    """The view of edges that have weights or kinds."""
    fields = ", ".join(["source", "target", *(["weight"] if weighted else []), *(["kind"] if kinds else [])])
    columns = ["source", "target", "weight::DOUBLE AS weight" if weighted else "1e0 AS weight"]
    columns.append("kind::VARCHAR AS kind" if kinds else "'' AS kind")
    return f"""\
-- What is read. The first columns of the table `edges` are {fields}; change its name here. Weights of doubled
-- edges are added; where a row has none, write 1 AS weight.
CREATE OR REPLACE TEMP VIEW rae_edges AS
SELECT {", ".join(columns)} FROM edges AS e({fields})
WHERE source IS NOT NULL AND target IS NOT NULL{" AND weight > 0" if weighted else ""};
"""


def channels(names: Sequence[str], weighted: bool) -> str:
    """The statement of N(u) with the weight of every neighbour in each channel, as columns c0, c1, ..."""
    ways = list(dict.fromkeys(split_name(name)[0] for name in names))
    conditions = [
        f"way = {text_literal(direction)} AND kind = {text_literal(kind)}" for direction, kind in map(split_name, names)
    ]
    value = "coalesce(sum(weight) FILTER ({}), 0)" if weighted else "(count(*) FILTER ({}) > 0)::INTEGER::DOUBLE"
    columns = ",\n  ".join(f"{value.format(condition)} AS c{i}" for i, condition in enumerate(conditions))
    return temporary(
        "rae_neighbors",
        f"N(u): doubled edges once, self-loops not at all; the weight of each in {', '.join(names)}",
        f"""\
WITH pairs AS (
  SELECT s.node AS a, t.node AS b, e.weight, e.kind
  FROM rae_edges e JOIN rae_nodes s ON s.id = e.source JOIN rae_nodes t ON t.id = e.target
  WHERE s.node <> t.node
), ends AS (
  SELECT a AS node, b AS neighbor, weight, kind, {text_literal(ways[0])} AS way FROM pairs
  UNION ALL SELECT b, a, weight, kind, {text_literal(ways[-1])} FROM pairs
)
SELECT node, neighbor,
  {columns}
FROM ends GROUP BY node, neighbor""",
    )


def graph(has_features: bool, names: Sequence[str] = (), weighted: bool = False) -> str:
    """The statements that number the nodes, and list the neighbours of each: N(u), with channels where it has some."""
    more = " UNION SELECT id FROM rae_features" if has_features else ""
    nodes = temporary(
        "rae_nodes",
        "the nodes, numbered: every id that occurs",
        f"""\
SELECT row_number() OVER (ORDER BY id) AS node, id
FROM (SELECT source AS id FROM rae_edges UNION SELECT target FROM rae_edges{more})""",
    )
    if names:
        return f"{nodes}\n{channels(names, weighted)}"
    neighbors = temporary(
        "rae_neighbors",
        "N(u): an edge counts in both directions, doubled ones once, self-loops not at all",
        """\
WITH pairs AS (
  SELECT s.node AS a, t.node AS b
  FROM rae_edges e JOIN rae_nodes s ON s.id = e.source JOIN rae_nodes t ON t.id = e.target
  WHERE s.node <> t.node
)
SELECT a AS node, b AS neighbor FROM pairs UNION SELECT b, a FROM pairs""",
    )
    return f"{nodes}\n{neighbors}"


def degrees() -> str:
    """The statement of the degree of every node."""
    return temporary(
        "rae_degrees",
        "degree",
        """\
SELECT n.node, count(e.neighbor) AS degree
FROM rae_nodes n LEFT JOIN rae_neighbors e ON e.node = n.node GROUP BY n.node""",
    )


def result(parts: Sequence[tuple[str, str]], width: int) -> str:
    """The statement of the vectors: lists of several tables, side by side."""
    lists = " || ".join(f"{table}.{column}" for table, column in parts)
    tables = dict.fromkeys(table for table, _ in parts)
    joins = "".join(f" JOIN {table} ON {table}.node = n.node" for table in tables)
    return temporary(
        "rae_vectors",
        f"the vectors: id, embedding, a row per node and {width} numbers each",
        f"SELECT n.id, ({lists})::FLOAT[{width}] AS embedding\nFROM rae_nodes n{joins} ORDER BY n.node",
    )
