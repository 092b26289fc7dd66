"""Embedding from disk to disk gives the bytes of embedding in memory, however it is cut, killed or damaged."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import elsewhere
from executors import Processes
from plain import random_graph
from rae import RAE, Config, FeatureTable, Run, read_embeddings, read_features, set_threads, write_embeddings
from rae.cli.program import main
from rae.engine import TILE, embed_to, embedding, memory_bytes, models_of
from rae.engine.embedding import JobDescription
from rae.engine.layout import PROGRAM, Layout, Sizes, layout
from rae.errors import ConfigError, FeatureError, FileError, GraphError, NotFittedError
from rae.features import Features
from rae.graph.folder import open_graph, write_graph
from rae.io import embeddings, npz
from rae.memory import mapped
from rae.storage.parts import Parts

N = 5000
GRAPH = random_graph(N, 20_000, seed=3)
WORDS = sp.random_array((N, 30), density=0.1, rng=np.random.default_rng(2), dtype=np.float32).tocsr()
SMALL = Config(dims=(24, 8), fanout=(3, 3), steps=0)
ONE, MANY, THIN = Layout(6144, 100), Layout(2048, 16), Layout(4096, 5)
FEATURES = {"structure": None, "dense": WORDS.toarray(), "half": WORDS.toarray().astype(np.float16), "sparse": WORDS}


def in_memory(path, model, graph, x, dtype="float32"):
    write_embeddings(path, graph.id_column, model.transform(graph, x, whole=True), dtype=dtype, blocks=model.blocks)
    return path.read_bytes()


def on_disk(path, model, graph, x, cut=MANY, **options):
    embed_to(path, models_of(model.fitted, graph, x, check=False), cut=cut, blocks=model.blocks, **options)
    return path.read_bytes()


# ---------------------------------------------------------------------------------- the same bytes


@pytest.mark.parametrize("case", FEATURES)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"order": "project_first"},
        {"projections": 1, "dims": (40, 24), "activation": "relu"},
        {"loss": "both"},
        {"inference": "sampled"},
        {"add_structure": True, "degree_above_cap": "random", "degree_scale": "raw"},
        {"dims": (9, 20, 4), "fanout": (2, 2, 2)},
        {"dims": (12,), "fanout": (2,)},
    ],
)
def test_the_file_is_that_of_the_embedding_in_memory_however_it_is_cut(z, monkeypatch, threads, case, settings):
    model, x = RAE(SMALL, **settings).fit(GRAPH, features=FEATURES[case]), FEATURES[case]
    expected = in_memory(z, model, GRAPH, x)

    for count in (1, 2, 3):
        threads(count)
        assert model.embed_to(z, GRAPH, x) == sum(block.width for block in model.blocks)
        assert z.read_bytes() == expected
    threads(1)
    for cut in (ONE, MANY, THIN):
        assert on_disk(z, model, GRAPH, x, cut) == expected
    parts = []
    monkeypatch.setattr(Layout, "parts", lambda self, n: parts.append(n) or [(0, 2048), (2048, 4096), (4096, n)])
    model.embed_to(z, GRAPH, x)
    assert parts
    assert z.read_bytes() == expected
    assert [p.name for p in z.parent.iterdir()] == [z.name]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_precision_and_kind_of_file_are_those_of_writing_from_memory(tmp_path, monkeypatch, dtype, suffix):
    model = RAE(SMALL).fit(GRAPH)
    path = tmp_path / f"z{suffix}"

    monkeypatch.setattr(embeddings, "GROUP_BYTES", 1000 * 32)  # groups that end inside parts
    expected = in_memory(path, model, GRAPH, None, dtype)
    assert on_disk(path, model, GRAPH, None, dtype=dtype) == expected
    monkeypatch.setattr(embeddings, "GROUP_BYTES", 3000 * 128)  # groups that end inside runs of rows
    expected = in_memory(path, model, GRAPH, None, dtype)
    model.embed_to(path, GRAPH, dtype=dtype)
    assert path.read_bytes() == expected


def test_threads_do_not_matter(z):
    model = RAE(SMALL, dims=(64, 64)).fit(GRAPH)
    contents = []
    for count in (1, 3):
        set_threads(count)
        try:
            contents += [on_disk(z, model, GRAPH, None, cut) for cut in (ONE, MANY, THIN)]
        finally:
            set_threads(1)

    assert len(set(contents)) == 1


def test_a_run_killed_with_several_threads_goes_on_too(z, monkeypatch):
    model = RAE(SMALL).fit(GRAPH)
    expected = in_memory(z, model, GRAPH, None)
    set_threads(3)
    try:
        for writes in (2, 4, 3):
            with monkeypatch.context() as patched:
                killed_after(patched, writes)
                with pytest.raises(Killed):
                    on_disk(z, model, GRAPH, None)
        assert on_disk(z, model, GRAPH, None) == expected
    finally:
        set_threads(1)


@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_mapped_graph_and_features_stay_on_disk(tmp_path, z, kind):
    x = WORDS.toarray().astype(kind)
    np.save(tmp_path / "x.npy", x)
    write_graph(tmp_path / "graph", GRAPH)
    model = RAE(SMALL).fit(GRAPH, features=x)
    graph, mapped = open_graph(tmp_path / "graph"), np.load(tmp_path / "x.npy", mmap_mode="r")
    features = Features.of(graph, mapped, SMALL, check=False)

    assert features.matrix is mapped
    assert features.is_mapped
    assert features.resident_bytes == 0
    expected = in_memory(z, model, GRAPH, x)
    assert on_disk(z, model, graph, mapped) == expected


def test_a_table_in_any_order_is_put_in_the_graphs(z):
    order = np.random.default_rng(0).permutation(N)
    model = RAE(SMALL).fit(GRAPH, features=WORDS)
    expected = in_memory(z, model, GRAPH, WORDS)
    sorted_table = FeatureTable(GRAPH.id_column, WORDS)
    shuffled = FeatureTable(GRAPH.id_column.take(order), WORDS[order])

    assert on_disk(z, model, GRAPH, sorted_table) == expected
    assert on_disk(z, model, GRAPH, shuffled) == expected


def test_structural_features_by_parts_are_those_of_the_whole():
    for settings in ({}, {"degree_above_cap": "random", "degree_cap": 3, "degree_scale": "raw"}):
        config = SMALL.replace(**settings)
        whole = Features.of(GRAPH, None, config)
        parts = np.concatenate([whole.rows(a, b) for a, b in MANY.parts(N)])

        assert parts.tobytes() == whole.in_memory().whole().tobytes()
        assert np.array_equal(whole.take([7, 3, 4000]), parts[[7, 3, 4000]])
        assert np.array_equal(whole.in_memory().take([7, 3, 4000]), parts[[7, 3, 4000]])
        assert whole.resident_bytes == 0
        assert whole.in_memory().resident_bytes == parts.nbytes
        assert whole.width == parts.shape[1]


def test_features_in_memory_count_against_the_budget():
    dense, sparse = (Features.of(GRAPH, x, SMALL) for x in (WORDS.toarray(), WORDS))

    assert dense.resident_bytes == 4 * 30 * N
    assert sparse.resident_bytes == WORDS.data.nbytes + WORDS.indices.nbytes + WORDS.indptr.nbytes


# ------------------------------------------------------------------------------ other processes


@pytest.mark.parametrize(("case", "cut"), [("structure", MANY), ("dense", THIN)], ids=["one stripe", "stripes"])
def test_tasks_described_by_plain_data_run_in_other_processes(tmp_path, z, case, cut):
    x = FEATURES[case]
    model = RAE(SMALL, loss="both").fit(GRAPH, features=x)
    expected = in_memory(z, model, GRAPH, x)
    z.unlink()
    model.save(tmp_path / "model.safetensors")
    write_graph(tmp_path / "graph", GRAPH)
    if x is not None:
        np.save(tmp_path / "x.npy", x)
    description = JobDescription(
        graph=str(tmp_path / "graph"),
        features=None if x is None else str(tmp_path / "x.npy"),
        model=str(tmp_path / "model.safetensors"),
        parts=f"{z}.parts",
        rows=cut.rows,
        columns=cut.columns,
    )
    assert json.loads(json.dumps(asdict(description))) == asdict(description)
    with ProcessPoolExecutor(2, elsewhere.CONTEXT) as pool, written_parts() as here:
        others = Processes(pool)
        vectors = np.vstack([rows.copy() for rows in embedding.run_job(description.open(), executor=others)])

    assert os.getpid() not in others.ids
    assert all("neighbor-2-vectors" in name for name in here)  # the last level is made where the vectors are wanted
    write_embeddings(z, GRAPH.id_column, vectors, blocks=model.blocks)
    assert z.read_bytes() == expected


@contextlib.contextmanager
def written_parts():
    """The names of the parts that this process writes."""
    with pytest.MonkeyPatch.context() as patched:
        yield killed_after(patched, -1)


# ---------------------------------------------------------------------------------- half precision


@pytest.mark.parametrize("case", FEATURES)
@pytest.mark.parametrize("cut", [ONE, THIN])
def test_half_precision_in_between_moves_vectors_by_less_than_a_thousandth(z, case, cut):
    model = RAE(SMALL).fit(GRAPH, features=FEATURES[case])
    on_disk(z, model, GRAPH, FEATURES[case], cut, half=True)

    error = np.abs(read_embeddings(z)[1] - model.transform(GRAPH, FEATURES[case])).max()
    assert 0 < error < 1e-3


def test_half_precision_does_not_depend_on_the_cut(z):
    model = RAE(SMALL).fit(GRAPH, features=WORDS)
    first = on_disk(z, model, GRAPH, WORDS, ONE, half=True)

    assert on_disk(z, model, GRAPH, WORDS, THIN, half=True) == first


@pytest.mark.filterwarnings("ignore:no feature column varies")
def test_what_half_precision_cannot_hold_is_refused(z):
    x = np.full((N, 30), 1e6, np.float32)
    model = RAE(SMALL, dims=(64, 8)).fit(GRAPH, features=x)

    with pytest.raises(FeatureError, match="reach 1,000,000, half precision holds 65,504"):
        on_disk(z, model, GRAPH, x, half=True)


# ----------------------------------------------------------------------- killed, damaged, continued


class Killed(BaseException):
    pass


def killed_after(monkeypatch, writes):
    """Parts.write that ends the run after so many parts, and the names it wrote."""
    wrote = []
    write = Parts.write

    def counted(self, name, arrays):
        if 0 <= writes <= len(wrote):
            raise Killed
        write(self, name, arrays)
        wrote.append(name)

    monkeypatch.setattr(Parts, "write", counted)
    return wrote


@pytest.mark.parametrize("cut", [MANY, THIN])
def test_a_killed_run_goes_on_where_it_was_and_makes_no_part_twice(z, monkeypatch, cut):
    model = RAE(SMALL, loss="both").fit(GRAPH)
    expected = in_memory(z, model, GRAPH, None)
    with monkeypatch.context() as patched:
        everything = killed_after(patched, -1)
        assert on_disk(z, model, GRAPH, None, cut) == expected
    z.unlink()
    written_before = []
    for writes in (3, 5, 4, 9):
        with monkeypatch.context() as patched:
            wrote = killed_after(patched, writes)
            with pytest.raises(Killed):
                on_disk(z, model, GRAPH, None, cut)
            written_before += wrote
        assert not z.exists()
    with monkeypatch.context() as patched:
        wrote = killed_after(patched, -1)
        assert on_disk(z, model, GRAPH, None, cut) == expected

    assert sorted(written_before + wrote) == sorted(everything)
    assert not list(z.parent.glob("*.parts"))


@pytest.mark.parametrize("damage", ["rows", "vectors"])
def test_damaged_parts_are_made_anew(z, monkeypatch, damage):
    model = RAE(SMALL).fit(GRAPH)
    expected = in_memory(z, model, GRAPH, None)
    z.unlink()
    with monkeypatch.context() as patched:
        killed_after(patched, 11 if damage == "vectors" else 3)
        with pytest.raises(Killed):
            on_disk(z, model, GRAPH, None)
    (path,) = sorted(z.parent.glob(f"z.parquet.parts/*{damage}-00001.part"))
    path.write_bytes(path.read_bytes()[:-40] + bytes(40))

    assert on_disk(z, model, GRAPH, None) == expected


@pytest.mark.parametrize("change", ["model", "graph", "features", "cut", "half"])
def test_parts_of_other_work_are_not_taken(z, monkeypatch, change):
    x = WORDS.toarray()
    model = RAE(SMALL).fit(GRAPH, features=x)
    with monkeypatch.context() as patched:
        killed_after(patched, 7)
        with pytest.raises(Killed):
            on_disk(z, model, GRAPH, x)
    graph, cut, half = GRAPH, MANY, change == "half"
    if change == "model":
        model = RAE(SMALL, seed=1).fit(GRAPH, features=x)
    elif change == "graph":
        graph = random_graph(N, 20_000, seed=4)
    elif change == "features":
        x = x + 1
    elif change == "cut":
        cut = THIN
    content = on_disk(z, model, graph, x, cut, half=half)

    if not half:
        assert content == in_memory(z, model, graph, x)
    else:
        assert content == on_disk(z, model, graph, x, ONE, half=True)


def test_an_error_leaves_no_file_and_the_old_one_untouched(z):
    x = WORDS.toarray()
    model = RAE(SMALL).fit(GRAPH, features=x)
    z.write_text("old")
    bad = x.copy()
    bad[3000, 2] = np.nan

    with pytest.raises(FeatureError, match="NaN or infinite in rows 2,048 to 4,095"):
        on_disk(z, model, GRAPH, bad)
    assert z.read_text() == "old"


def test_vectors_that_overflow_name_their_rows(z, monkeypatch):
    model = RAE(SMALL, activation="relu").fit(GRAPH)
    model.encoders["within"].stack()[0].update.norm.weight.data.fill_(np.inf)

    with pytest.raises(FeatureError, match=r"rows 0 to 2,047 came out infinite or NaN"):
        on_disk(z, model, GRAPH, None)


# ------------------------------------------------------------------------------- cutting to a budget

SIZES = Sizes(10_000_000, 200_000_000, (192, 64, 31), 256, itemsize=4, resident=160_000_000, group_bytes=1 << 26)


def test_the_parts_cover_the_rows_and_the_stripes_the_columns():
    for cut, width in [(MANY, 40), (THIN, 24), (ONE, 31), (Layout(2048, 33), 192), (Layout(2048, 1), 3)]:
        rows = [r for a, b in cut.parts(N) for r in range(a, b)]
        columns = [c for a, b in cut.stripes(width) for c in range(a, b)]

        assert rows == list(range(N))
        assert columns == list(range(width))
        assert max(b - a for a, b in cut.stripes(width)) <= cut.columns


@pytest.mark.parametrize("itemsize", [4, 2])
@pytest.mark.parametrize("budget", ["2GiB", "4GiB", "6GiB", "100GiB"])
def test_what_is_in_memory_at_once_keeps_to_the_budget(budget, itemsize):
    cut = layout(budget, replace(SIZES, itemsize=itemsize))

    part = 2 * cut.rows * (12 * 256 + 4 * 20)
    columns = cut.columns * 10_000_000 * itemsize
    assert PROGRAM + SIZES.resident + 3 * (1 << 26) + part + columns <= memory_bytes(budget)
    assert cut.rows % TILE == 0
    assert part <= 128 << 20


def test_four_gibibytes_hold_the_default_model_of_ten_million_nodes_in_one_stripe():
    assert len(layout("4GiB", SIZES).stripes(64)) == 1
    assert len(layout("2GiB", SIZES).stripes(64)) == 3


def test_a_budget_too_small_for_the_graph_is_refused_with_the_least_that_is_not():
    with pytest.raises(ConfigError, match=r"memory must be 0\.95 GiB or more for 10,000,000 nodes .*, got 0\.49 GiB"):
        layout("500 MiB", SIZES)
    layout("0.96GiB", SIZES)


@pytest.mark.parametrize("itemsize", [4, 2])
@pytest.mark.parametrize("n", [50, 10_000_000, 1_000_000_000])
def test_the_least_budget_is_kept_to_and_one_byte_less_is_refused(n, itemsize):
    sizes = replace(SIZES, n_nodes=n, n_targets=20 * n, itemsize=itemsize)
    least = sizes.least_memory

    assert layout(least, sizes).columns == 1
    with pytest.raises(ConfigError, match="memory must be") as refused:
        layout(least - 1, sizes)
    advice = str(refused.value).split()[3]
    layout(f"{advice}GiB", sizes)  # what the sentence advises is not refused for being rounded


def test_sizes_are_read_as_people_write_them():
    assert [memory_bytes(s) for s in ("1k", "2 MiB", "0.5gb", "3T", 7, "12b")] == [
        1000, 2 << 20, 500_000_000, 3 * 10**12, 7, 12
    ]  # fmt: skip
    for wrong in ("", "much", "-1GiB", "0", "4 GiBs", None, True):
        with pytest.raises(ConfigError, match="memory must be a size such as 4GiB"):
            memory_bytes(wrong)


def test_a_small_budget_cuts_and_changes_nothing(z, monkeypatch):
    monkeypatch.setattr(embeddings, "GROUP_BYTES", 1 << 16)
    model = RAE(SMALL).fit(GRAPH)
    expected = in_memory(z, model, GRAPH, None)
    cuts = []
    monkeypatch.setattr(embedding, "layout", lambda *a, **k: cuts.append(layout(*a, **k)) or cuts[-1])
    resident = GRAPH.offsets.nbytes + GRAPH.targets.nbytes + GRAPH.id_column.nbytes

    model.embed_to(z, GRAPH, memory=PROGRAM + resident + 3 * (1 << 16) + 2 * 2048 * (12 * 32 + 4 * 8) + 4 * 20 * N)

    assert (cuts[0].rows, cuts[0].columns) == (2048, 20)
    assert z.read_bytes() == expected


# -------------------------------------------------------------------------------------- the estimator


def test_the_estimator_reports_and_refuses(z):
    model = RAE(SMALL).fit(GRAPH)
    calls = []
    width = model.embed_to(z, GRAPH, memory="1GiB", progress=lambda *report: calls.append(report[:3]))

    assert width == 32
    assert calls == [("embed", i + 1, len(calls)) for i in range(len(calls))]
    with pytest.raises(GraphError, match=r"expected a rae\.Graph"):
        model.embed_to(z, "edges.csv", memory="1GiB")
    with pytest.raises(FeatureError, match="structure alone"):
        model.embed_to(z, GRAPH, WORDS, memory="1GiB")
    with pytest.raises(NotFittedError):
        RAE().embed_to(z, GRAPH, memory="1GiB")
    with pytest.raises(FileError, match=r"\.parquet or \.csv"):
        model.embed_to(z.with_suffix(".npy"), GRAPH, memory="1GiB")
    with pytest.raises(FileError, match="float32 or float16, got dtype 'int8'"):
        model.embed_to(z, GRAPH, memory="1GiB", dtype="int8")
    wider = RAE(SMALL).fit(GRAPH, features=WORDS)
    with pytest.raises(FeatureError, match="reads 30 feature columns, got 29"):
        wider.embed_to(z, GRAPH, WORDS[:, :29], memory="1GiB")
    with pytest.raises(FeatureError, match=r"one row per node \(5,000\), got 4,999"):
        wider.embed_to(z, GRAPH, WORDS.toarray()[1:], memory="1GiB")


# ----------------------------------------------------------------------------- features that stay on disk


@pytest.mark.parametrize(
    "settings", [{}, {"dims": (40, 24)}, {"order": "project_first"}, {"add_structure": True}, {"input_dropout": 0.3}]
)
def test_halves_give_the_bytes_of_the_same_numbers_in_full_precision(tmp_path, z, settings):
    half = WORDS.toarray().astype(np.float16)
    np.save(tmp_path / "half.npy", half)
    on_file = read_features(tmp_path / "half.npy")
    config = SMALL.replace(steps=3, batch_size=64, **settings)
    full = RAE(config).fit(GRAPH, features=half.astype(np.float32))
    expected = in_memory(z, full, GRAPH, half.astype(np.float32))

    assert mapped(on_file) is not None
    for x in (half, on_file):
        model = RAE(config).fit(GRAPH, features=x)
        assert in_memory(z, model, GRAPH, x) == expected
        assert on_disk(z, model, GRAPH, x) == expected


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("settings", [{}, {"dims": (40, 24)}, {"add_structure": True}, {"input_dropout": 0.3}])
def test_a_mapped_csr_gives_the_bytes_of_the_one_in_memory(tmp_path, z, monkeypatch, index, settings):
    monkeypatch.setattr(npz, "LEAST_MAPPED", 1)
    words = WORDS.copy()
    words.indices, words.indptr = words.indices.astype(index), words.indptr.astype(index)
    sp.save_npz(tmp_path / "x.npz", words, compressed=False)
    on_file = read_features(tmp_path / "x.npz")
    config = SMALL.replace(steps=3, batch_size=64, **settings)
    expected = in_memory(z, RAE(config).fit(GRAPH, features=WORDS), GRAPH, WORDS)
    model = RAE(config).fit(GRAPH, features=on_file)

    features = Features.of(GRAPH, on_file, SMALL)
    assert features.resident_bytes == words.indptr.nbytes
    assert np.shares_memory(features.matrix.data, on_file.data)
    assert in_memory(z, model, GRAPH, on_file) == expected
    for cut in (ONE, MANY):
        assert on_disk(z, model, GRAPH, on_file, cut) == expected


@pytest.mark.parametrize("name", ["half.npy", "words.npz"])
def test_the_commands_take_mapped_features(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(npz, "LEAST_MAPPED", 1)
    half = WORDS.toarray().astype(np.float16)
    np.save("half.npy", half)
    np.save("full.npy", half.astype(np.float32))
    sp.save_npz("words.npz", sp.csr_array(half, dtype=np.float32), compressed=False)
    ends = np.repeat(np.arange(N), GRAPH.degrees)
    np.savetxt("edges.csv", np.stack([ends, GRAPH.targets], 1), "%d", ",")
    RAE(SMALL).fit(GRAPH, features=half).save("model.safetensors")
    small = ["--dims", "24,8", "--fanout", "3,3", "--steps", "2", "--batch-size", "64"]

    for memory in ([], ["--memory", "2GiB"]):
        for file in (name, "full.npy"):
            command = ["embed", "model.safetensors", "edges.csv", "--features", file, "--out", f"{file}.parquet"]
            assert main([*command, *memory, "--force"]) == 0
        ours, full = (read_embeddings(f"{file}.parquet")[1] for file in (name, "full.npy"))
        np.testing.assert_allclose(ours, full, atol=0 if name == "half.npy" else 1e-5)
    assert main(["plan", "edges.csv", "--features", name, *small]) == 0
    assert main(["fit", "edges.csv", "--features", name, "--out", "run", "--no-page", *small]) == 0
    rest = Run.open("run").features()
    assert np.array_equal(rest.toarray() if sp.issparse(rest) else rest, half)


# A fit and an embedding in bounded memory of a file of features, one after the other; the stage is told in a file.
STAGES = """
import sys
from pathlib import Path
import rae

graph = rae.open_graph("graph")
for name in sys.argv[1:]:
    Path("stage.new").write_text(name)
    Path("stage.new").replace("stage")
    x = rae.read_features(name)
    model = rae.RAE(dims=(16, 8), fanout=(3, 3), steps=3, batch_size=64).fit(graph, features=x)
    model.embed_to("z.parquet", graph, x, memory="1GiB")
"""


def peaks(folder, names):
    """The most memory that is no mapped file, by stage, as another process sees it every few milliseconds."""
    most = dict.fromkeys(names, 0)
    command = [sys.executable, "-c", STAGES, *names]
    with subprocess.Popen(command, cwd=folder, env=os.environ | {"OMP_NUM_THREADS": "1"}) as child:
        while child.poll() is None:
            stage = (folder / "stage").read_text() if (folder / "stage").exists() else names[0]
            match = re.search(r"RssAnon:\s+(\d+) kB", Path(f"/proc/{child.pid}/status").read_text())
            most[stage] = max(most[stage], int(match[1]) << 10 if match else 0)
            time.sleep(0.004)
    assert child.returncode == 0
    return most


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the memory of a process is told by /proc")
def test_a_file_of_features_larger_than_the_memory_it_takes(tmp_path):
    n, width, entries = 70_000, 1500, 375
    rng = np.random.default_rng(0)
    write_graph(tmp_path / "graph", random_graph(n, 200_000, seed=1))
    some = rng.normal(size=(1000, width)).astype(np.float16)
    half = np.lib.format.open_memmap(tmp_path / "half.npy", "w+", np.float16, (n, width))
    for start in range(0, n, len(some)):
        half[start : start + len(some)] = some
    half.flush()
    np.save(tmp_path / "tiny.npy", half[:, :8])
    words = sp.csr_array((n, width), dtype=np.float32)
    words.data = np.tile(rng.normal(size=1000 * entries).astype(np.float32), n // 1000)
    words.indices = np.tile(np.arange(0, width, width // entries, dtype=np.int32), n)
    words.indptr = np.arange(0, n * entries + 1, entries, dtype=np.int32)
    sp.save_npz(tmp_path / "words.npz", words, compressed=False)
    del half, words

    most = peaks(tmp_path, ["tiny.npy", "half.npy", "words.npz"])
    for name in ("half.npy", "words.npz"):
        assert (tmp_path / name).stat().st_size > 200 << 20
        assert most[name] - most["tiny.npy"] < 120 << 20
