"""The graph builder: the same bytes for any batches, budget, threads, kind of id and file."""

from __future__ import annotations

import datetime
import gzip
import itertools
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import rae
from rae import RAE
from rae.errors import ConfigError, FileError, GraphError
from rae.graph import Counts, Graph, csr_writer
from rae.graph.csr_writer import FileSink, write_rows
from rae.graph.folder import row_order
from rae.graph.id_numbering import IntegerNumbering, TextNumbering
from rae.io import build_graph_folder, open_graph, read_edges, write_graph
from rae.io.edges import open_edges
from rae.storage.spill_buffer import MemoryBudget, SpillBuffer

RNG = np.random.default_rng(3)
ENDS = RNG.integers(60, size=(500, 2))
SPREAD = np.int64(0x1F3D5B79A2C4E68)  # times 60 at most: below 2**63
FULL = Path("/dev/full")

pytestmark = pytest.mark.usefixtures("small_pieces")


def _columns(kind):
    wide = ENDS.astype(np.int64) * SPREAD - 7
    return {
        "close": ENDS,
        "narrow": ENDS.astype(np.int16),
        "negative": ENDS - 30,
        "wide": wide,
        "unsigned": ENDS.astype(np.uint64) + np.uint64(2**63),
        "unsigned wide": ENDS.astype(np.uint64) * np.uint64(SPREAD),
        "text": np.array([[f"n{v}é" for v in pair] for pair in ENDS]),
        "dates": np.array([[datetime.date(2000, 1, 1) + datetime.timedelta(int(v)) for v in p] for p in ENDS]),
        "two kinds": None,
    }[kind]


def _table(kind):
    if kind == "two kinds":
        return pa.table({"source": ENDS[:, 0].astype(np.int32), "target": ENDS[:, 1]})
    both = _columns(kind)
    return pa.table({"source": pa.array(list(both[:, 0])), "target": pa.array(list(both[:, 1]))})


def _names(folder):
    return sorted(path.name for path in folder.iterdir())


def _same(first, second):
    names = ("graph.json", "ids.arrow", "offsets.npy", "targets.npy")
    assert _names(first) == list(names)
    for name in names:
        assert (first / name).read_bytes() == (second / name).read_bytes(), name


def _check_against_sets(graph, table):
    """Compare the graph with one of Python sets."""
    pairs = list(zip(*(table.column(i).to_pylist() for i in (0, 1)), strict=True))
    edges = {frozenset(pair) for pair in pairs if pair[0] != pair[1]}
    ids = sorted({end for pair in pairs for end in pair}, key=lambda id: id.encode() if isinstance(id, str) else id)
    row = {id: i for i, id in enumerate(ids)}
    neighbors = {i: [] for i in range(len(ids))}
    for a, b in map(tuple, edges):
        neighbors[row[a]].append(row[b])
        neighbors[row[b]].append(row[a])

    assert graph.id_column.to_pylist() == ids
    assert [graph.neighbors(i).tolist() for i in range(len(ids))] == [sorted(neighbors[i]) for i in range(len(ids))]
    loops = sum(a == b for a, b in pairs)
    assert graph.counts == Counts(len(pairs), loops, len(pairs) - loops - len(edges))


def _both(path, tmp_path, **options):
    build_graph_folder(path, tmp_path / "built", **options)
    write_graph(tmp_path / "written", read_edges(path, **options))
    _same(tmp_path / "built", tmp_path / "written")
    return open_graph(tmp_path / "built", verify=True)


KINDS = ["close", "narrow", "negative", "wide", "unsigned", "unsigned wide", "text", "dates", "two kinds"]


@pytest.mark.parametrize("kind", KINDS)
def test_parquet_of_any_kind_is_built_to_the_bytes_of_reading_and_writing(kind, tmp_path):
    pq.write_table(_table(kind), tmp_path / "e.parquet")

    graph = _both(tmp_path / "e.parquet", tmp_path)
    assert graph.n_nodes == 60
    assert graph.counts.rows == 500
    assert graph.counts.doubled > 0 < graph.counts.self_loops
    _check_against_sets(graph, _table(kind))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "two kinds"])
def test_edges_of_one_kind_are_read_in_batches(kind, tmp_path, monkeypatch):
    pq.write_table(_table(kind), tmp_path / "e.parquet")
    monkeypatch.setattr("rae.io.edges.read_ids", lambda *_, **__: pytest.fail("read the whole table"))

    _check_against_sets(read_edges(tmp_path / "e.parquet"), _table(kind))


@pytest.mark.parametrize("kind", ["close", "unsigned", "wide", "text"])
@pytest.mark.parametrize("budget", [0, 3_000, 20_000])
@pytest.mark.parametrize("row_bits", [3, 14])
@pytest.mark.parametrize("threads", [1, 3])
def test_neither_budget_nor_stripes_nor_threads_change_a_byte(kind, budget, row_bits, threads, tmp_path, monkeypatch):
    monkeypatch.setattr(MemoryBudget, "available", lambda *_: MemoryBudget(budget))
    monkeypatch.setattr("rae.graph.csr_writer.ROW_BITS", row_bits)
    pq.write_table(_table(kind), tmp_path / "e.parquet")
    rae.set_threads(threads)
    try:
        _check_against_sets(_both(tmp_path / "e.parquet", tmp_path), _table(kind))
    finally:
        rae.set_threads(None)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("threads", [1, 3])
def test_a_table_in_memory_becomes_the_graph_of_its_file(kind, threads, tmp_path):
    rae.set_threads(threads)
    try:
        write_graph(tmp_path / "written", Graph.from_dataframe(_table(kind)))
    finally:
        rae.set_threads(None)
    pq.write_table(_table(kind), tmp_path / "e.parquet")
    build_graph_folder(tmp_path / "e.parquet", tmp_path / "built")

    _same(tmp_path / "built", tmp_path / "written")


def test_given_ids_are_the_rows_whatever_the_batches(tmp_path, monkeypatch):
    pq.write_table(_table("text"), tmp_path / "e.parquet")
    ids = sorted({v for pair in _columns("text").tolist() for v in pair}, reverse=True)
    monkeypatch.setattr("rae.graph.builder.BATCH", 7)
    cut = read_edges(tmp_path / "e.parquet", ids=ids)
    monkeypatch.undo()
    plain = Graph.from_dataframe(_table("text"), ids=ids)

    assert list(cut.ids) == ids
    assert cut.counts == plain.counts
    assert np.array_equal(cut.targets, plain.targets)
    with pytest.raises(GraphError, match=r"e\.parquet: \d+ edges name a source that is not among ids=, first "):
        read_edges(tmp_path / "e.parquet", ids=ids[1:])


def test_a_small_graph_touches_no_disk_but_for_its_folder(tmp_path):
    files = set()
    pq.write_table(_table("close"), tmp_path / "e.parquet")
    build_graph_folder(
        tmp_path / "e.parquet", tmp_path / "g", report=lambda *_: files.update(_names(tmp_path / ".g.building"))
    )

    assert files == {"graph.json", "ids.arrow", "offsets.npy", "targets.npy"}


def test_a_single_node_with_loops_is_a_graph_without_edges(tmp_path):
    pq.write_table(pa.table({"source": [7, 7], "target": [7, 7]}), tmp_path / "e.parquet")

    graph = _both(tmp_path / "e.parquet", tmp_path)
    assert (graph.n_nodes, graph.n_edges, graph.counts.self_loops) == (1, 0, 2)


def test_numbers_on_both_sides_of_the_largest_signed_one_are_built(tmp_path):
    column = pa.array([2**63 - 2, 2**63 + 1, 2**63 - 1], pa.uint64())
    pq.write_table(pa.table({"source": column, "target": column.take(pa.array([1, 2, 0]))}), tmp_path / "e.parquet")

    assert _both(tmp_path / "e.parquet", tmp_path).ids.tolist() == [2**63 - 2, 2**63 - 1, 2**63 + 1]


def test_empty_batches_are_skipped(tmp_path):
    table = _table("close")
    with pa.ipc.new_file(str(tmp_path / "e.arrow"), table.schema) as file:
        for part in (table.slice(0, 0), table.slice(0, 300), table.slice(0, 0), table.slice(300)):
            file.write_batch(
                part.combine_chunks().to_batches()[0] if len(part) else pa.RecordBatch.from_pylist([], table.schema)
            )

    assert _both(tmp_path / "e.arrow", tmp_path).counts.rows == 500


@pytest.mark.parametrize("kind", ["close", "wide", "unsigned", "unsigned wide", "text"])
@pytest.mark.parametrize("packed", [False, True])
def test_text_is_built_to_the_bytes_of_reading_and_writing(kind, packed, tmp_path):
    lines = "\n".join(" ".join(map(str, pair)) for pair in _columns(kind)).encode()
    path = tmp_path / "e.txt"
    path.write_bytes(gzip.compress(lines) if packed else lines)

    _both(path, tmp_path)


def test_arrow_files_and_folders_of_parquet_are_built(tmp_path):
    pyarrow.feather.write_feather(_table("text"), str(tmp_path / "e.arrow"), chunksize=70)
    _both(tmp_path / "e.arrow", tmp_path)
    (tmp_path / "parts").mkdir()
    pq.write_table(_table("text").slice(0, 200), tmp_path / "parts" / "a.parquet")
    pq.write_table(_table("text").slice(200), tmp_path / "parts" / "b.parquet")
    build_graph_folder(tmp_path / "parts", tmp_path / "built", force=True)
    _same(tmp_path / "built", tmp_path / "written")


def test_parts_of_different_width_are_one_kind(tmp_path):
    (tmp_path / "parts").mkdir()
    pq.write_table(_table("narrow"), tmp_path / "parts" / "a.parquet")
    pq.write_table(_table("close"), tmp_path / "parts" / "b.parquet")

    assert _both(tmp_path / "parts", tmp_path).counts.rows == 1_000


@pytest.mark.parametrize("budget", [0, 10_000])
def test_a_word_late_in_the_file_makes_all_ids_text(budget, tmp_path, monkeypatch):
    monkeypatch.setattr(MemoryBudget, "available", lambda *_: MemoryBudget(budget))
    monkeypatch.setattr("rae.io.text.BLOCK", 256)
    lines = [f"{a},{b}" for a, b in ENDS]
    (tmp_path / "e.csv").write_text("source,target\n" + "\n".join([*lines, "007,x"]))

    assert "007" in _both(tmp_path / "e.csv", tmp_path).ids


def test_columns_and_headers_are_as_in_read_edges(tmp_path):
    (tmp_path / "e.csv").write_text("when,a,b\n1,5,6\n2,6,7\n")

    assert list(_both(tmp_path / "e.csv", tmp_path, source="a", target="b").ids) == [5, 6, 7]


@pytest.mark.parametrize(
    ("content", "error", "says"),
    [
        ("source,target\n", GraphError, "holds no edges"),
        ("source,target\n1,2\n3,\n", GraphError, "line 3 has an empty target"),
        ("source,target\n1,2\n3,4,5\n", FileError, "line 3 has 3 cells"),
    ],
)
def test_a_bad_file_is_refused_and_leaves_nothing(content, error, says, tmp_path):
    (tmp_path / "e.csv").write_text(content)
    with pytest.raises(error, match=says):
        build_graph_folder(tmp_path / "e.csv", tmp_path / "g")

    assert _names(tmp_path) == ["e.csv"]


def test_missing_ids_are_refused_with_their_row_in_the_whole_file(tmp_path):
    column = pa.array([1] * 300 + [None])
    pq.write_table(pa.table({"source": column, "target": pa.array([2] * 301)}), tmp_path / "e.parquet")
    with pytest.raises(GraphError, match="first in row 300"):
        build_graph_folder(tmp_path / "e.parquet", tmp_path / "g")


@pytest.fixture
def edges(tmp_path):
    pq.write_table(_table("text"), tmp_path / "e.parquet")
    return tmp_path / "e.parquet"


def test_a_folder_whose_build_was_killed_at_its_very_end_can_be_replaced(tmp_path):
    (tmp_path / "edges.csv").write_text("0,1\n1,2\n")
    build_graph_folder(tmp_path / "edges.csv", tmp_path / "graph")
    (tmp_path / "graph" / "lock").touch()

    assert build_graph_folder(tmp_path / "edges.csv", tmp_path / "graph", force=True).n_edges == 2
    assert not (tmp_path / "graph" / "lock").exists()


def test_force_replaces_a_graph_folder_and_never_other_files(edges, tmp_path):
    build_graph_folder(edges, tmp_path / "g")
    with pytest.raises(FileError, match="exists; choose"):
        build_graph_folder(edges, tmp_path / "g")
    build_graph_folder(edges, tmp_path / "g", force=True)
    (tmp_path / "g" / "precious.txt").write_text("mine")
    with pytest.raises(FileError, match="not only a graph folder"):
        build_graph_folder(edges, tmp_path / "g", force=True)
    with pytest.raises(FileError, match="not only a graph folder"):
        build_graph_folder(edges, edges, force=True)
    (tmp_path / "empty").mkdir()
    assert build_graph_folder(edges, tmp_path / "empty").n_nodes == 60
    with pytest.raises(ConfigError, match="order must be one of none, locality"):
        build_graph_folder(edges, tmp_path / "other", order="rcm")


def test_a_killed_build_leaves_no_folder_and_the_next_one_cleans_up(edges, tmp_path):
    script = f"""
        import time, rae.graph.builder
        rae.graph.builder.BATCH = 1
        def report(*_):
            print("on", flush=True)
            time.sleep(9)
        rae.build_graph({str(edges)!r}, {str(tmp_path / "g")!r}, progress=report)
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGKILL)
    assert (tmp_path / ".g.building").is_dir()
    assert not (tmp_path / "g").exists()
    with pytest.raises(FileError):
        open_graph(tmp_path / ".g.building")

    build_graph_folder(edges, tmp_path / "g")
    assert _names(tmp_path) == ["e.parquet", "g"]


@pytest.mark.parametrize("force", [False, True])
def test_a_second_build_of_a_name_is_refused_and_the_first_goes_on(edges, tmp_path, force):
    refused = []

    def second(*_):
        with pytest.raises(FileError, match=r"another build is writing .*g; wait for it"):
            build_graph_folder(edges, tmp_path / "g", force=force)
        refused.append(_names(tmp_path))

    build_graph_folder(edges, tmp_path / "g", report=second)
    write_graph(tmp_path / "written", read_edges(edges))

    assert refused
    assert all(names == [".g.building", ".g.building.lock", "e.parquet"] for names in refused)
    _same(tmp_path / "g", tmp_path / "written")
    assert _names(tmp_path) == ["e.parquet", "g", "written"]


def test_a_file_that_is_read_again_as_text_is_still_locked(tmp_path, monkeypatch):
    monkeypatch.setattr(MemoryBudget, "available", lambda *_: MemoryBudget(0))
    monkeypatch.setattr("rae.io.text.BLOCK", 256)
    (tmp_path / "e.csv").write_text("source,target\n" + "".join(f"{a},{b}\n" for a, b in ENDS) + "x,y\n")
    names = []
    build_graph_folder(tmp_path / "e.csv", tmp_path / "g", report=lambda *_: names.append(_names(tmp_path)))

    assert names
    assert all(".g.building.lock" in listed for listed in names)
    assert _names(tmp_path) == ["e.csv", "g"]


def test_a_folder_that_another_build_wrote_meanwhile_is_not_replaced(edges, tmp_path, monkeypatch):
    def slowly(*args, **options):
        write_graph(tmp_path / "g", read_edges(edges))
        return open_edges(*args, **options)

    monkeypatch.setattr("rae.io.build.open_edges", slowly)
    with pytest.raises(FileError, match="exists; choose another name"):
        build_graph_folder(edges, tmp_path / "g")

    assert open_graph(tmp_path / "g").n_nodes == 60
    assert _names(tmp_path) == ["e.parquet", "g"]


def test_a_full_disk_is_one_sentence_and_leaves_nothing(edges, tmp_path, monkeypatch):
    resource = pytest.importorskip("resource")
    build_graph_folder(edges, tmp_path / "warm", order="locality")  # compiled code is cached before files are limited
    monkeypatch.setattr(MemoryBudget, "available", lambda *_: MemoryBudget(0))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, before[1]))
    try:
        with pytest.raises(FileError, match=r"cannot write .*ends\.raw: the file is larger than the disk allows"):
            build_graph_folder(edges, tmp_path / "g")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    assert _names(tmp_path) == ["e.parquet", "warm"]


@pytest.mark.skipif(not FULL.exists(), reason="this system has no disk that is always full")
def test_a_sink_that_grows_beyond_the_disk_is_one_sentence():
    sink = FileSink(FULL)
    sink.open(np.int64, 100_000)
    with pytest.raises(FileError, match="cannot write /dev/full: the disk is full"):
        sink.append(np.zeros(100_000, np.int64))
    with pytest.raises(FileError, match="cannot write /dev/full: the disk is full"):
        sink.close()


@pytest.mark.parametrize(("budget", "files"), [(0, ["ends.raw"]), (1 << 20, [])])
@pytest.mark.parametrize("spread", [1, SPREAD])
def test_the_keys_of_the_rows_overwrite_the_ends_of_the_edges(spread, budget, files, tmp_path, monkeypatch):
    ends = SpillBuffer(tmp_path / "ends.raw", MemoryBudget(budget))
    numbering, states = IntegerNumbering(ends, pa.int64()), []
    numbering.add(*([pa.array(column * spread)] for column in ENDS.T))
    pieces = csr_writer._pieces

    def observed(keys, n):
        states.append((_names(tmp_path), ends.budget.left, keys.keys is ends))
        return pieces(keys, n)

    monkeypatch.setattr(csr_writer, "_pieces", observed)
    left = ends.budget.left
    ids, lookup = numbering.finish(lambda *_: None)
    write_rows(ends, numbering.rows, lookup, len(ids), FileSink(tmp_path / "targets.npy"), lambda *_: None)

    assert states == [(files, left, True)]
    assert ends.budget.left == budget
    assert _names(tmp_path) == ["targets.npy"]


# ------------------------------------------------------------------------------ words


def _batch(words):
    column = pa.array(words)
    return [column.slice(0, len(words) // 2)], [column.slice(len(words) // 2)]


@pytest.mark.parametrize("budget", [0, 1_000, 1 << 20])
def test_words_are_numbered_in_their_order_whenever_they_first_came(budget, tmp_path):
    numbering = TextNumbering(SpillBuffer(tmp_path / "ends.raw", MemoryBudget(budget)))
    batches = [[f"{v}é" * (1 + v % 3) for v in RNG.integers(40 * (1 + i), size=60)] for i in range(12)]
    for batch in batches:
        numbering.add(*_batch(batch))
    ids, lookup = numbering.finish(lambda *_: None)

    assert ids.to_pylist() == sorted(set(itertools.chain(*batches)), key=str.encode)
    assert len(numbering.ends) == 12
    for i, batch in enumerate(batches):
        numbers = np.empty(60, np.int32)
        lookup(numbering.ends.part(i), numbers)
        assert ids.take(pa.array(numbers)).to_pylist() == batch


@pytest.mark.parametrize("fresh", [False, True])
def test_the_work_on_words_grows_with_the_batches_not_with_all_words(fresh, monkeypatch):
    merge, hashed = TextNumbering._merge, []

    def counted(self):
        hashed.append(len(self.words) + sum(map(len, self.recent)))
        merge(self)

    monkeypatch.setattr(TextNumbering, "_merge", counted)
    numbering = TextNumbering(SpillBuffer())
    numbering.add(*_batch([f"n{i}" for i in range(1_000)]))
    for i in range(500):
        start = 10 * i if fresh else 0
        numbering.add(*_batch([f"n{j}" for j in range(start, start + 10)]))
    ids, _ = numbering.finish(lambda *_: None)

    assert len(ids) == (5_000 if fresh else 1_000)
    assert sum(hashed) <= 5 * (1_000 + 500 * 10)


def test_progress_is_reported_stage_by_stage(edges, tmp_path):
    reports = []
    build_graph_folder(edges, tmp_path / "g", order="locality", report=lambda *words: reports.append(words))

    assert list(dict.fromkeys(stage for stage, _, _ in reports)) == ["read", "number", "place", "order", "check"]
    assert all(done <= total or not total for _, done, total in reports)


# ------------------------------------------------------------------------------ the order of rows


def test_another_order_is_the_same_graph_of_the_same_ids(edges, tmp_path):
    plain, moved = (
        build_graph_folder(edges, tmp_path / "a"),
        build_graph_folder(edges, tmp_path / "b", order="locality"),
    )

    assert row_order(tmp_path / "a") is None
    assert row_order(tmp_path / "b") == "locality"
    assert list(moved.ids) != list(plain.ids)
    assert sorted(moved.ids) == list(plain.ids)
    for i, name in enumerate(plain.ids):
        row = moved.neighbors(int(moved.rows([name])[0]))
        assert (np.diff(row) > 0).all()
        assert sorted(moved.ids[row]) == [plain.ids[j] for j in plain.neighbors(i)]


def test_another_order_gives_every_id_the_same_vector(edges, tmp_path):
    plain, moved = (
        build_graph_folder(edges, tmp_path / "a"),
        build_graph_folder(edges, tmp_path / "b", order="locality"),
    )
    model = RAE(dims=(8, 4), fanout=(3, 3), steps=4).fit(plain)

    rows = moved.rows(list(plain.ids))
    np.testing.assert_allclose(model.transform(moved)[rows], model.transform(plain), atol=1e-5)


def test_neighbours_stand_nearer_each_other(tmp_path):
    n = 2_000
    ring = RNG.permutation(n)
    pq.write_table(pa.table({"source": ring, "target": np.roll(ring, 1)}), tmp_path / "e.parquet")
    plain = build_graph_folder(tmp_path / "e.parquet", tmp_path / "a")
    moved = build_graph_folder(tmp_path / "e.parquet", tmp_path / "b", order="locality")

    def distance(graph):
        return np.abs(graph.targets - np.repeat(np.arange(n), graph.degrees)).mean()

    assert distance(moved) < distance(plain) / 50


# ------------------------------------------------------------------------------ taken as edges


def test_a_folder_is_read_where_edges_are(edges, tmp_path):
    rae.build_graph(edges, tmp_path / "g")

    assert rae.read_edges(tmp_path / "g").n_edges == rae.open_graph(tmp_path / "g").n_edges
    with pytest.raises(GraphError, match="takes no source="):
        rae.read_edges(tmp_path / "g", source="a")


def test_opening_reads_no_text(edges, tmp_path, monkeypatch):
    rae.build_graph(edges, tmp_path / "g")
    edges.unlink()
    began = time.perf_counter()
    assert rae.open_graph(tmp_path / "g").n_nodes == 60
    assert time.perf_counter() - began < 1
