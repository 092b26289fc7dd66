"""A model as SQL: DuckDB computes the vectors of the run from its edges and features, to 1e-5."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

import rae
from rae import Graph, Run
from rae.errors import ConfigError, RaeError
from rae.export.sql import script
from rae.export.sql_exact import COUNTS
from rae.export.sql_text import EDGES, degrees, graph
from rae.features import measures

duckdb = pytest.importorskip("duckdb", reason="the extra duckdb is not installed")

RNG = np.random.default_rng(11)
ENDS = (RNG.random((500, 2)) ** 2 * 100).astype(np.int64)
SMALL = {"dims": (7, 5), "fanout": (3, 3), "steps": 4, "batch_size": 32}


def database(edges, features=None):
    """A database with the tables of a user: edges as they came, features in the long format."""
    connection = duckdb.connect()
    connection.register("e", pa.table([pa.array(column) for column in edges], names=list("abcd")[: len(edges)]))
    connection.execute("CREATE TABLE edges AS FROM e")
    if features is not None:
        connection.register("f", pa.table(dict(zip(("id", "feature", "value"), features, strict=True))))
        connection.execute("CREATE TABLE features AS FROM f")
    return connection


def long(ids, matrix, names=None):
    entries = sp.coo_array(matrix)
    row, column = entries.coords
    return [ids[i] for i in row], [str(j) if names is None else names[j] for j in column], entries.data


def computed(connection, text, ids):
    """The vectors that the SQL gives, in the order of these ids."""
    connection.execute(text)
    rows = connection.execute("SELECT id, embedding FROM rae_vectors").fetchall()
    vectors = dict(rows)
    assert len(vectors) == len(rows) == len(ids)
    return np.array([vectors[id] for id in ids], np.float32)


def check(ends, features=None, settings=None, *, units="graph", names=None):
    whole = Graph.from_edges(ends)
    model = rae.RAE(**(settings or {})).fit(whole, features=features, feature_names=names)
    ids = list(whole.ids)
    case = None if features is None else long(ids, features, names)
    vectors = computed(database([list(end) for end in zip(*ends, strict=True)], case), script(model.fitted, units), ids)
    np.testing.assert_allclose(vectors, model.transform(whole, features), atol=1e-5)
    return model


# self-loops, doubled edges, a node whose only edge is a loop, and two of their own
PAIRS = [(f"n{a}", f"n{b}") for a, b in ENDS] + [("alone", "alone"), ("it's", "one"), ("one", "it's")]
N = Graph.from_edges(PAIRS).n_nodes
WORDS = sp.random_array((N, 60), density=0.08, rng=3, format="csr", dtype=np.float32)
TABLE = (RNG.normal(size=(N, 4)) * [1, 10, 1, 0.1] + [0, 3, 1e6, 0]).astype(np.float32)


@pytest.mark.parametrize("units", ["graph", "fit"])
def test_structure_alone(units):
    check(PAIRS, units=units)


def test_words_of_odd_names():
    check(PAIRS, WORDS, names=[f"it's; word {j}" for j in range(60)])


def test_columns_of_a_table_whose_mean_is_far_larger_than_their_deviation():
    check(PAIRS, TABLE, {"structure": False})


def test_other_settings():
    settings = {"level_weights": (0.4, 0.2), "measure_weights": (1.0, 0.0, 2.0, 0.5), "frequencies": 2, "seed": 3}
    check(PAIRS, TABLE, settings | {"block_columns": 3, "relative": False}, units="fit")


@pytest.mark.parametrize(
    ("settings", "features"),
    [
        ({"degree_cap": 4}, None),
        ({"degree_scale": "raw", "activation": "relu", "projections": 1}, None),
        ({"loss": "both", "activation": "elu"}, WORDS),
        ({"order": "project_first", "activation": "leaky_relu", "add_structure": True}, WORDS),
    ],
    ids=["structure", "raw degrees", "both losses", "project first"],
)
def test_a_trained_encoder(settings, features):
    check(PAIRS, features, SMALL | settings)


def test_another_graph_is_measured_in_its_own_units():
    model = check(PAIRS)
    other = [(f"m{a}", f"m{b}") for a, b in ENDS[:180]]
    graph = Graph.from_edges(other)
    for units in ("graph", "fit"):
        vectors = computed(
            database([list(e) for e in zip(*other, strict=True)]), script(model.fitted, units), list(graph.ids)
        )
        np.testing.assert_allclose(vectors, model.transform(graph, units=units, whole=True), atol=1e-5)


def place_in_double(model, graph):
    """`place` by its formula in double precision, in the units of the fit."""
    fitted, config = model.fitted.structure, model.config
    counts = (getattr(measures, name)(graph) for name in ("degrees", "triangles", "core_numbers", "four_cycles"))
    x = (np.log1p(np.stack([*counts], 1)) - fitted.mean.numpy()) / fitted.deviation.numpy() * config.measure_weights
    degree = np.maximum(graph.degrees, 1)[:, None]
    adjacency = graph.to_scipy().astype(np.float64)
    levels, phi = x, [x]
    for k, weight in enumerate(config.level_weights):
        levels = adjacency @ levels / degree
        phi.append(weight * levels)
        if k == 0:
            u, v = adjacency.nonzero()
            squares = np.zeros_like(x)
            np.add.at(squares, u, (x[v] - levels[u]) ** 2)
            phi.append(weight * np.sqrt(squares / degree))
    return (np.hstack(phi) - fitted.center.numpy()) @ (fitted.directions.numpy() * model.fitted.structure_scale)


def test_beside_a_hub_sql_is_nearer_to_double_precision_than_the_run_is():
    """Means over thousands of neighbours are sums in single precision in the run, and in double precision in SQL."""
    rng, hub = np.random.default_rng(4), 4_000
    chosen = rng.choice(10_000, hub, replace=False)
    ends = [*((int(a), int(b)) for a, b in rng.integers(0, 10_000, (15_000, 2))), *((-1, int(v)) for v in chosen)]
    graph = Graph.from_edges(ends)
    model = rae.RAE().fit(graph)
    text = script(model.fitted, "fit")
    vectors = computed(database([list(e) for e in zip(*ends, strict=True)]), text, list(graph.ids))
    block = next(block for block in model.blocks if block.name == "place")
    reference = place_in_double(model, graph)
    of_sql, of_run = (
        np.abs(z[:, block.start : block.stop] - reference).max() for z in (vectors, model.transform(graph, units="fit"))
    )
    assert of_sql < 2e-6
    assert of_run < 1e-4
    assert of_sql <= of_run


WEIGHT = np.where(RNG.random(len(ENDS)) < 0.05, 0.0, RNG.gamma(0.7, 80.0, len(ENDS)))  # a zero is no edge
KIND = RNG.choice(["card", "it's a */ wire"], len(ENDS), p=[0.8, 0.2])


@pytest.mark.parametrize("units", ["graph", "fit"])
@pytest.mark.parametrize(
    ("case", "mix"),
    [
        ({"weight": WEIGHT}, "union"),
        ({"directed": True}, "directions"),
        ({"kind": KIND}, "channels"),
        ({"weight": WEIGHT, "directed": True, "kind": KIND}, "channels"),
        ({"weight": WEIGHT, "directed": True, "kind": KIND}, "union"),
    ],
    ids=["weights", "directions", "kinds", "all", "all together"],
)
def test_weights_directions_and_kinds(case, mix, units):
    graph = Graph.from_edges(ENDS, **case)
    features = RNG.normal(size=(graph.n_nodes, 3)).astype(np.float32)
    model = rae.RAE(mix=mix).fit(graph, features=features)
    columns = [ENDS[:, 0], ENDS[:, 1], *(case[name] for name in ("weight", "kind") if name in case)]
    connection = database(columns, long(list(graph.ids), features))

    vectors = computed(connection, script(model.fitted, units), list(graph.ids))
    np.testing.assert_allclose(vectors, model.transform(graph, features, units=units), atol=1e-5)


FAMILIES = {
    "path": [(i, i + 1) for i in range(30)],
    "clique and tail": [(i, j) for i in range(8) for j in range(i)] + [(7, 8), (8, 9), (9, 10)],
    "grid": [(10 * i + j, 10 * i + j + d) for i in range(6) for j in range(6) for d in (1, 10)],
    "cliques in a row": [(10 * c + i, 10 * c + j) for c in range(4) for i in range(c + 3) for j in range(i)]
    + [(10 * c, 10 * c + 10) for c in range(3)],
    "bipartite": [(i, 100 + j) for i in range(5) for j in range(7)],
    "random": [tuple(map(int, pair)) for pair in ENDS],
}


@pytest.mark.parametrize("family", FAMILIES)
def test_counts_are_exact(family):
    edges = FAMILIES[family]
    whole = Graph.from_edges(edges)
    connection = database([list(end) for end in zip(*edges, strict=True)])
    connection.execute("\n".join([EDGES, graph(False), degrees(), COUNTS]))
    query = "SELECT id, {0} FROM rae_nodes JOIN {1} USING (node)"
    for table, column, count in (
        ("rae_degrees", "degree", measures.degrees),
        ("rae_triangles", "triangles", measures.triangles),
        ("rae_core", "core", measures.core_numbers),
        ("rae_four_cycles", "four_cycles", measures.four_cycles),
    ):
        counts = dict(connection.execute(query.format(column, table)).fetchall())
        assert [counts.get(id, 0) for id in whole.ids] == count(whole).tolist(), column


# ----------------------------------------------------------------------------- files


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return rae.fit_run(Graph.from_edges(PAIRS), out=tmp_path_factory.mktemp("runs") / "run", page=False)


def test_a_file_of_sql_computes_the_vectors_of_its_run_and_touches_no_table(run, tmp_path):
    written = run.export("sql", tmp_path / "model.sql")
    again = run.export("sql", tmp_path / "again.sql")
    ids, z = run.embeddings()
    connection = database([list(end) for end in zip(*PAIRS, strict=True)])

    text = written.files[0].read_text(encoding="utf-8")
    np.testing.assert_allclose(computed(connection, text, ids.to_pylist()), z, atol=1e-5)
    assert text == again.files[0].read_text(encoding="utf-8")
    assert [
        name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables() WHERE NOT temporary").fetchall()
    ] == ["edges"]
    np.testing.assert_allclose(computed(connection, text, ids.to_pylist()), z, atol=1e-5)  # a second time
    with pytest.raises(RaeError, match=r"model\.sql is there already"):
        run.export("sql", tmp_path / "model.sql")
    run.export("sql", tmp_path / "model.sql", force=True)


def test_an_updated_run_is_in_the_units_of_its_fit(tmp_path):
    run = rae.fit_run(Graph.from_edges(PAIRS), out=tmp_path / "run", page=False)
    more = [("n1", "new"), ("new", "n5"), ("n2", "n3")]
    run.update(added=more)
    run.export("sql", tmp_path / "model.sql")
    ids, z = Run.open(run.path).embeddings()
    connection = database([list(end) for end in zip(*PAIRS, *more, strict=True)])

    vectors = computed(connection, (tmp_path / "model.sql").read_text(encoding="utf-8"), ids.to_pylist())
    np.testing.assert_allclose(vectors, z, atol=1e-5)


def test_what_sql_cannot_say_is_refused_in_one_sentence(run, tmp_path):
    with pytest.raises(ConfigError, match="units must be one of 'graph', 'fit', got 'metres'"):
        run.export("sql", tmp_path / "x", units="metres")
    for setting in ({"inference": "sampled"}, {"degree_above_cap": "random"}):
        with pytest.raises(RaeError, match="draws neighbours at random"):
            script(rae.RAE(**SMALL, **setting).fit(Graph.from_edges(ENDS)).fitted, "graph")
    assert list(tmp_path.iterdir()) == []


def test_the_center_of_a_sample_is_said_to_differ(run, tmp_path, monkeypatch):
    from rae.export import sql

    monkeypatch.setattr(sql, "SAMPLE", 10)
    assert "moved by the same small amount" in run.export("sql", tmp_path / "x").notes[0]
    assert run.export("sql", tmp_path / "y", units="fit").notes == ()
