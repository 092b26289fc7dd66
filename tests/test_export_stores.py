"""Vectors in Lance, DuckDB, PostgreSQL and Qdrant: what was written is what the run has, whole or not at all."""

from __future__ import annotations

import json
import signal
import sys

import numpy as np
import pyarrow as pa
import pytest

import rae
from elsewhere import exit_code
from postgres import server
from rae import Run, similar
from rae.cli.export import STORES
from rae.errors import ConfigError, FileError, MissingExtraError, RunError
from rae.export import TARGETS, contract, export, vectors
from rae.export.vectors import plain

RNG = np.random.default_rng(5)
ENDS = (RNG.random((300, 2)) ** 2 * 60).astype(np.int64)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run with text ids, names and roles."""
    graph = rae.Graph.from_edges([(f"u{a}", f"u{b}") for a, b in ENDS])
    features = RNG.normal(size=(graph.n_nodes, 4)).astype(np.float32)
    names = {id: f"the node {id}" for id in graph.ids[:-3]}  # three have none
    fitted = rae.fit_run(graph, features, out=tmp_path_factory.mktemp("runs") / "run", page=False)
    fitted.set_names(names)
    fitted.fit_roles(3)
    return Run.open(fitted.path)


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(vectors, "BATCH", 16)


def check(run, columns):
    """Columns as lists, in any order of rows, against the run."""
    ids, z = run.embeddings()
    _, role, confidence, _ = run.role_table()
    order = {id: i for i, id in enumerate(columns["id"])}
    at = [order[id] for id in ids.to_pylist()]
    assert len(order) == len(ids)
    np.testing.assert_array_equal(np.array([columns["embedding"][i] for i in at], np.float32), z)
    assert [columns["role"][i] for i in at] == np.asarray(role).tolist()
    np.testing.assert_allclose([columns["confidence"][i] for i in at], confidence, rtol=1e-6)
    assert [columns["name"][i] for i in at] == run.names().to_pylist()


def block_names(about):
    return [block["name"] for block in about["blocks"]]


BLOCKS = ["own", "near", "mid", "far", "place", "around"]

# ----------------------------------------------------------------------------- Lance


def test_lance_has_the_rows_of_the_run_and_their_blocks(run, tmp_path):
    lance = pytest.importorskip("lance")
    written = run.export("lance", tmp_path / "z.lance")

    dataset = lance.dataset(str(tmp_path / "z.lance"))
    check(run, dataset.to_table().to_pydict())
    about = json.loads(dataset.schema.metadata[b"rae"])
    assert block_names(about) == BLOCKS
    assert about["model"] == run.model_checksum
    assert written.rows == dataset.count_rows()
    assert [path.name for path in tmp_path.iterdir()] == ["z.lance"]


def test_a_dataset_is_replaced_by_a_newer_version_alone(run, tmp_path):
    lance = pytest.importorskip("lance")
    run.export("lance", tmp_path / "z.lance")

    with pytest.raises(FileError, match="is there already"):
        run.export("lance", tmp_path / "z.lance")
    run.export("lance", tmp_path / "z.lance", force=True, weights="")
    assert len(lance.dataset(str(tmp_path / "z.lance")).versions()) == 2
    (tmp_path / "mine").mkdir()
    with pytest.raises(FileError, match="no dataset that rae wrote"):
        run.export("lance", tmp_path / "mine", force=True)
    with pytest.raises(FileError, match="there is no folder"):
        run.export("lance", tmp_path / "no" / "z.lance")
    with pytest.raises(FileError, match="on this machine"):
        run.export("lance", "s3://bucket/z.lance")


@pytest.mark.parametrize("to", ["lance", "duckdb"])
def test_what_a_killed_export_left_is_removed_by_the_next(run, tmp_path, to):
    """The process is killed in the middle of its rows; nothing that looks like a result is there."""
    pytest.importorskip(to)
    program = (
        "import os, sys; from rae import Run; from rae.export import vectors; vectors.BATCH = 16\n"
        "def stop(stage, done, total, info): done > 30 and os.kill(os.getpid(), 9)\n"
        "Run.open(sys.argv[1]).export(sys.argv[2], sys.argv[3], progress=stop)"
    )
    target = tmp_path / "z"
    assert exit_code(program, str(run.path), to, str(target)) == -signal.SIGKILL
    run.export(to, target)
    assert [path.name for path in tmp_path.iterdir()] == ["z"]


# ----------------------------------------------------------------------------- DuckDB


def test_duckdb_has_the_rows_of_the_run_and_their_blocks(run, tmp_path):
    duckdb = pytest.importorskip("duckdb")
    run.export("duckdb", tmp_path / "z.duckdb")

    with duckdb.connect(str(tmp_path / "z.duckdb")) as connection:
        check(run, connection.sql("FROM rae_vectors").to_arrow_table().to_pydict())
        kind = connection.execute("SELECT typeof(embedding) FROM rae_vectors LIMIT 1").fetchone()[0]
        assert kind == f"FLOAT[{run.counts['width']}]"
        blocks = connection.execute("SELECT name, start, stop FROM rae_vectors_blocks ORDER BY start").fetchall()
        assert blocks == [(block.name, block.start, block.stop) for block in run.blocks]
        comment = connection.execute("SELECT comment FROM duckdb_tables() WHERE table_name = 'rae_vectors'").fetchone()[
            0
        ]
    assert json.loads(comment)["model"] == run.model_checksum


def test_tables_of_others_are_never_replaced(run, tmp_path):
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "z.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE mine AS SELECT 1 AS x")
    run.export("duckdb", path)

    with pytest.raises(FileError, match=r"table mine in .* was not written by rae"):
        run.export("duckdb", path, table="mine", force=True)
    with pytest.raises(
        FileError, match=r"rae_vectors in .* is there already; choose another table, or pass force=True"
    ):
        run.export("duckdb", path)
    run.export("duckdb", path, force=True, weights="place=1,own=0,near=0,mid=0,far=0")
    with duckdb.connect(str(path)) as connection:
        assert connection.execute("FROM mine").fetchall() == [(1,)]
        assert connection.execute("SELECT len(embedding::FLOAT[]) FROM rae_vectors LIMIT 1").fetchone() == (64,)


def test_a_failed_export_leaves_the_database_as_it_was(run, tmp_path, monkeypatch):
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "z.duckdb"

    def fails(self, options):
        yield self.table.slice(0, 10)
        raise KeyboardInterrupt

    monkeypatch.setattr(vectors.Vectors, "batches", fails)
    with pytest.raises(KeyboardInterrupt):
        run.export("duckdb", path)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    run.export("duckdb", path)
    monkeypatch.setattr(vectors.Vectors, "batches", fails)
    with pytest.raises(KeyboardInterrupt):
        run.export("duckdb", path, force=True)
    with duckdb.connect(str(path)) as connection:
        check(run, connection.sql("FROM rae_vectors").to_arrow_table().to_pydict())


def test_a_search_in_weighted_vectors_finds_the_look_alikes(run, tmp_path):
    duckdb = pytest.importorskip("duckdb")
    run.export("duckdb", tmp_path / "z.duckdb", weights="")

    with duckdb.connect(str(tmp_path / "z.duckdb")) as connection:
        rows = connection.execute(
            "SELECT b.id FROM rae_vectors a, rae_vectors b WHERE a.id = 'u7' AND b.id <> 'u7' "
            "ORDER BY array_distance(a.embedding, b.embedding) LIMIT 5"
        ).fetchall()
    assert [id for (id,) in rows] == [id for id, _ in similar(run, "u7", k=5).matches]


@pytest.mark.parametrize("to", ["duckdb", "lance", "qdrant", "sql", "onnx"])
def test_a_full_disk_is_one_sentence_and_leaves_nothing(run, tmp_path, to):
    pytest.importorskip({"lance": "lance", "qdrant": "qdrant_client", "sql": "rae", "onnx": "onnx"}.get(to, to))
    resource = pytest.importorskip("resource", reason="it needs a POSIX system")
    name = {"onnx": "z.onnx"}.get(to, "z")
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (6_000, before[1]))
    try:
        with pytest.raises(FileError, match="cannot write") as raised:
            run.export(to, tmp_path / name)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert "\n" not in str(raised.value)
    if to != "qdrant":  # has no transactions; the same call goes on
        assert list(tmp_path.iterdir()) == []
    run.export(to, tmp_path / name)


# ----------------------------------------------------------------------------- PostgreSQL


@pytest.fixture(scope="module", params=["vector", "real[]"])
def database(request):
    pytest.importorskip("psycopg")
    with server(with_pgvector=request.param == "vector") as dsn:
        yield dsn, request.param


def rows_of(dsn, table="rae_vectors"):
    import psycopg

    with psycopg.connect(dsn) as connection:
        kind = connection.execute(
            "SELECT format_type(atttypid, atttypmod) FROM pg_attribute "
            "WHERE attrelid = %s::regclass AND attname = 'embedding'",
            [table],
        ).fetchone()[0]
        cursor = connection.execute(f"SELECT id, name, role, confidence, embedding::real[] FROM {table}")
        columns = dict(
            zip(("id", "name", "role", "confidence", "embedding"), zip(*cursor.fetchall(), strict=True), strict=True)
        )
        comment = connection.execute("SELECT obj_description(%s::regclass)", [table]).fetchone()[0]
    return kind, columns, json.loads(comment)


def test_postgres_has_the_rows_of_the_run_and_their_blocks(run, database, monkeypatch):
    import psycopg

    dsn, kind = database
    monkeypatch.setenv("VECTORS_AT", dsn)
    written = run.export("pgvector", "env:VECTORS_AT")

    column_type, columns, about = rows_of(dsn)
    assert column_type == (f"vector({run.counts['width']})" if kind == "vector" else kind)
    check(run, columns)
    assert block_names(about) == BLOCKS
    assert ("real[]" in "".join(written.notes)) == (kind == "real[]")
    assert "hunter2" not in repr(written)
    with pytest.raises(FileError, match=r"rae_vectors in postgres on .* is there already"):
        run.export("pgvector", dsn)
    run.export("pgvector", dsn, force=True, weights="")
    assert rows_of(dsn)[2]["weighted"] is True
    with psycopg.connect(dsn) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS mine (x int)")
        if kind == "vector":
            near = connection.execute(
                "SELECT b.id FROM rae_vectors a, rae_vectors b WHERE a.id = 'u7' AND b.id <> 'u7' "
                "ORDER BY a.embedding <-> b.embedding LIMIT 5"
            ).fetchall()
            assert [id for (id,) in near] == [id for id, _ in similar(run, "u7", k=5).matches]
    with pytest.raises(FileError, match="was not written by rae"):
        run.export("pgvector", dsn, table="mine", force=True)


def test_a_failed_export_leaves_the_table_as_it_was(run, database, monkeypatch):
    dsn, _ = database

    def fails(self, options):
        yield self.table.slice(0, 10)
        raise KeyboardInterrupt

    run.export("pgvector", dsn, table="kept")
    with monkeypatch.context() as patch:
        patch.setattr(vectors.Vectors, "batches", fails)
        with pytest.raises(KeyboardInterrupt):
            run.export("pgvector", dsn, table="kept", force=True)
    check(run, rows_of(dsn, "kept")[1])


def test_whoever_may_not_create_the_extension_gets_real_numbers(run, database):
    import psycopg

    dsn, kind = database
    if kind == "real[]":
        pytest.skip("about a server that has pgvector")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("DROP EXTENSION IF EXISTS vector CASCADE")
        connection.execute("CREATE ROLE guest LOGIN; GRANT CREATE ON SCHEMA public TO guest")
    written = run.export("pgvector", dsn.replace("tester", "guest"), table="guests")

    assert rows_of(dsn, "guests")[0] == "real[]"
    assert "CREATE EXTENSION vector" in written.notes[0]


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("env:NOT_SET_ANYWHERE", "variable NOT_SET_ANYWHERE of the environment, which is not set"),
        ("hunter2 = = 'x", "must be a connection string of PostgreSQL"),
        ("host=/nowhere/at/all dbname=x password=hunter2", "cannot write to x on /nowhere/at/all"),
        ("postgresql://me:hunter2@127.0.0.1:1/x", "cannot write to x on 127.0.0.1"),
    ],
)
def test_a_database_that_cannot_be_reached_is_one_sentence_without_a_password(run, target, sentence):
    pytest.importorskip("psycopg")
    with pytest.raises((FileError, ConfigError)) as raised:
        run.export("pgvector", target)

    assert sentence in str(raised.value)
    assert "hunter2" not in str(raised.value)
    assert "\n" not in str(raised.value)


# ----------------------------------------------------------------------------- Qdrant


def points_of(path, table="rae_vectors"):
    from qdrant_client import QdrantClient

    client = QdrantClient(path=str(path))
    points = client.scroll(table, limit=1000, with_vectors=True)[0]
    about = client.get_collection(table).config.metadata
    client.close()
    columns = {name: [point.payload[name] for point in points] for name in points[0].payload}
    return columns | {"embedding": [point.vector for point in points]}, about, points


def test_qdrant_has_the_rows_of_the_run_and_their_blocks(run, tmp_path):
    pytest.importorskip("qdrant_client")
    run.export("qdrant", tmp_path / "q")

    columns, about, _ = points_of(tmp_path / "q")
    check(run, columns)
    assert block_names(about) == BLOCKS
    assert about["complete"] is True
    with pytest.raises(FileError, match=r"collection rae_vectors in .* is there already"):
        run.export("qdrant", tmp_path / "q")
    run.export("qdrant", tmp_path / "q", force=True, weights="")
    assert points_of(tmp_path / "q")[1]["weighted"] is True
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="it is a file"):
        run.export("qdrant", tmp_path / "file")
    with pytest.raises(FileError, match=r"cannot reach http://127\.0\.0\.1:1"):
        run.export("qdrant", "http://127.0.0.1:1")


def test_a_collection_that_is_not_complete_is_gone_on_with(run, tmp_path, monkeypatch):
    pytest.importorskip("qdrant_client")

    def fails(self, options):
        yield self.table.slice(0, 10)
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(vectors.Vectors, "batches", fails)
        with pytest.raises(FileError, match="the same call goes on"):
            run.export("qdrant", tmp_path / "q")
    assert points_of(tmp_path / "q")[1]["complete"] is False
    assert len(points_of(tmp_path / "q")[2]) == 10
    run.export("qdrant", tmp_path / "q", weights="")  # other vectors: the collection begins anew
    assert points_of(tmp_path / "q")[1]["weighted"] is True
    with monkeypatch.context() as patch:
        patch.setattr(vectors.Vectors, "batches", fails)
        with pytest.raises(FileError):
            run.export("qdrant", tmp_path / "q", force=True)
    run.export("qdrant", tmp_path / "q")
    check(run, points_of(tmp_path / "q")[0])


def test_whole_numbers_are_the_ids_of_points(tmp_path):
    pytest.importorskip("qdrant_client")
    run = rae.fit_run(rae.Graph.from_edges(ENDS), out=tmp_path / "run", page=False)
    run.export("qdrant", tmp_path / "q")

    assert sorted(point.id for point in points_of(tmp_path / "q")[2]) == sorted(run.ids().to_pylist())


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # of the lock file that Qdrant leaves open
def test_a_folder_that_another_client_has_open_is_refused(run, tmp_path):
    qdrant_client = pytest.importorskip("qdrant_client")
    client = qdrant_client.QdrantClient(path=str(tmp_path / "q"))

    with pytest.raises(FileError, match="already accessed"):
        run.export("qdrant", tmp_path / "q")
    client.close()


# ----------------------------------------------------------------------------- all of them


def test_what_is_asked_wrongly_is_one_sentence(run, tmp_path):
    with pytest.raises(ConfigError, match="there is no target 'duck'; did you mean 'duckdb'"):
        export(run, "duck", tmp_path / "x")
    with pytest.raises(ConfigError, match="the targets are onnx, sql, lance"):
        export(run, "?", tmp_path / "x")
    with pytest.raises(ConfigError, match="units says nothing to the target 'duckdb'"):
        export(run.path, "duckdb", tmp_path / "x", units="fit")
    with pytest.raises(FileError, match="table must be letters, digits and _"):
        export(run, "duckdb", tmp_path / "x", table="a; DROP TABLE b")
    with pytest.raises(ConfigError, match="there is no block 'plac'"):
        export(run, "duckdb", tmp_path / "x", weights="plac=1")
    with pytest.raises(FileError, match="there is no folder"):
        export(run, "duckdb", tmp_path / "no" / "x")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("to", "library", "extra"),
    [
        ("onnx", "onnx", "onnx"),
        ("lance", "lance", "lance"),
        ("duckdb", "duckdb", "duckdb"),
        ("pgvector", "psycopg", "pgvector"),
        ("qdrant", "qdrant_client", "qdrant"),
    ],
)
def test_a_missing_library_is_named_with_its_extra(run, tmp_path, monkeypatch, to, library, extra):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError, match=rf"role-action-embeddings\[{extra}\]"):
        run.export(to, tmp_path / "x.onnx")
    assert set(TARGETS) >= {to}


def test_a_lean_run_and_an_updated_one_are_written_as_they_are(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    lean = rae.fit_run(rae.Graph.from_edges(ENDS), out=tmp_path / "lean", page=False, lean=True)
    lean.export("duckdb", tmp_path / "z.duckdb", table="lean")
    lean.export("sql", tmp_path / "lean.sql")
    run = rae.fit_run(rae.Graph.from_edges(ENDS), out=tmp_path / "run", page=False)
    run.update(added=[(1, 1000)], fold=False)
    run.export("duckdb", tmp_path / "z.duckdb", table="updated")

    with duckdb.connect(str(tmp_path / "z.duckdb")) as connection:
        for opened, table in ((lean, "lean"), (run, "updated")):
            ids, z = opened.embeddings()
            rows = connection.sql(f"FROM {table}").to_arrow_table()
            assert rows.column("id").to_pylist() == ids.to_pylist()
            np.testing.assert_array_equal(vectors.matrix(rows), z)


def test_a_run_without_blocks_has_vectors_as_they_are_and_one_of_another_version_is_refused(run, tmp_path):
    duckdb = pytest.importorskip("duckdb")
    ids, z = run.embeddings()
    plain_run = Run.create(tmp_path / "plain", run.model(), ids, z)
    plain_run.export("duckdb", tmp_path / "z.duckdb", weights="")
    with duckdb.connect(str(tmp_path / "z.duckdb")) as connection:
        np.testing.assert_array_equal(vectors.matrix(connection.sql("FROM rae_vectors").to_arrow_table()), z)
        assert connection.execute("SELECT count(*) FROM rae_vectors_blocks").fetchone() == (0,)
    info = tmp_path / "plain" / "run.json"
    info.write_text(info.read_text().replace('"format_version": 1', '"format_version": 99'))
    with pytest.raises(RunError, match="has format version 99"):
        export(tmp_path / "plain", "sql", tmp_path / "x.sql")


def test_progress_is_said_while_rows_are_written(run, tmp_path):
    pytest.importorskip("duckdb")
    said = []
    run.export("duckdb", tmp_path / "z", progress=lambda stage, done, total, info: said.append((stage, done, total)))

    n = run.counts["nodes"]
    assert said == [("export", min(a + 16, n), n) for a in range(0, n, 16)]


def test_ids_of_any_kind_become_numbers_or_text():
    big = pa.chunked_array([pa.array([2**64 - 1], pa.uint64())])
    assert plain(big).to_pylist() == [str(2**64 - 1)]
    assert plain(pa.chunked_array([[1.5]])).type == pa.float64()
    assert plain(pa.chunked_array([[[1, 2]]])).to_pylist() == ["[1, 2]"]
    assert plain(pa.chunked_array([["a", None]])).to_pylist() == ["a", None]
    assert contract.is_ours(None) is False
    assert contract.is_ours("[1]") is False


def test_the_command_line_says_what_was_written_and_asks_for_one_target(run, tmp_path, rae):
    pytest.importorskip("duckdb")
    code, out, err = rae("export", run.path, "--to", "duckdb", tmp_path / "z.duckdb", "--distances", "--table", "v")
    assert code == 0, err
    assert "v in" in out
    assert f"{run.counts['nodes']:,}" in out
    code, out, err = rae("export", run.path, "--to", "duckdb", tmp_path / "z.duckdb", "--table", "v")
    assert code == 2
    assert "choose another --table, or pass --force to replace it" in err
    assert "expected one of --onnx, --sql and --to lance" in rae("export", run.path, "x")[2]
    assert "expected one of --onnx, --sql and --to, got 2" in rae("export", run.path, "x", "--onnx", "--sql")[2]
    code, out, err = rae("export", run.path, "--sql", tmp_path / "m.sql", "--json", "--quiet")
    assert json.loads(out)["files"] == [str(tmp_path / "m.sql")]
    assert err == ""
    assert rae("export", tmp_path / "no run", "--sql", "x.sql")[0] == 2
    assert {path.name for path in tmp_path.iterdir()} == {"z.duckdb", "m.sql"}
    assert [name for name, target in TARGETS.items() if not target.is_model] == list(STORES)
