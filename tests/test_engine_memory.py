"""Embedding into a file gives the bytes of embedding into memory, and never holds the vectors of all nodes."""

from __future__ import annotations

import signal
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from elsewhere import exit_code
from plain import random_graph
from rae import RAE, Config, Run, estimator
from rae.cli.program import main
from rae.engine import embed, embed_to, encoder_models, stream
from rae.errors import ConfigError, FeatureError, FileError, GraphError, NotFittedError
from rae.features import Features
from rae.graph.folder import checksum
from rae.io import embeddings

N = 5000
GRAPH = random_graph(N, 20_000, seed=3)
WORDS = sp.random_array((N, 30), density=0.1, rng=np.random.default_rng(2), dtype=np.float32).tocsr()
SMALL = Config(dims=(24, 8), fanout=(3, 3), steps=0)


# ------------------------------------------------------------------------------- never all of it


def peak(work):
    """The most bytes of Python and NumPy at a time that this call took."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.filterwarnings("ignore:no feature column varies")
def test_the_vectors_of_all_nodes_are_never_in_memory(z, monkeypatch):
    monkeypatch.setattr(embeddings, "GROUP_BYTES", 1 << 20)
    graph = random_graph(40_000, 100_000, seed=1)
    x = np.ones((graph.n_nodes, 8), np.float32)
    model = RAE(dims=(120, 8), fanout=(3, 3), steps=0).fit(graph, features=x)
    whole = 4 * graph.n_nodes * 128

    models = encoder_models(model.encoders, Features.of(graph, x, model.config))
    assert peak(lambda: embed(models)) > whole
    assert peak(lambda: embed_to(z, models)) < 0.5 * whole


@pytest.mark.parametrize("bounds", [[], ["--dtype", "float16"]])
def test_the_commands_write_vectors_while_they_are_made(tmp_path, monkeypatch, bounds):
    def refused(*_, **__):
        raise AssertionError("all vectors at once")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(RAE, "transform", refused)
    monkeypatch.setattr(estimator, "embed", refused)
    np.savetxt("edges.csv", np.random.default_rng(0).integers(300, size=(900, 2)), "%d", ",")
    small = ["--dims", "24,8", "--fanout", "3,3", "--steps", "2", "--batch-size", "64"]

    assert main(["fit", "edges.csv", "--out", "run", "--no-page", *small, *bounds]) == 0
    assert main(["embed", "run", "edges.csv", "--out", "z.parquet", *bounds]) == 0

    run = Run.open("run")
    assert (tmp_path / "z.parquet").read_bytes() == (run.path / "embeddings.parquet").read_bytes()
    assert list(run.timings) == ["read", "fit", "embed"]
    assert run.counts["width"] == 32
    assert sorted(p.name for p in tmp_path.iterdir()) == ["edges.csv", "run", "z.parquet"]


@pytest.mark.parametrize("bounds", [[], ["--memory", "2GiB"]])
def test_the_folder_one_stands_in_can_be_the_run(tmp_path, monkeypatch, bounds):
    here = tmp_path / "here"
    here.mkdir()
    np.savetxt(tmp_path / "edges.csv", np.random.default_rng(0).integers(50, size=(90, 2)), "%d", ",")
    monkeypatch.chdir(here)

    assert main(["fit", "../edges.csv", "--out", ".", "--no-page", "--steps", "0", *bounds]) == 0
    assert Run.open(here).counts["width"] == 256
    assert sorted(p.name for p in tmp_path.iterdir()) == ["edges.csv", "here"]


# ------------------------------------------------------------------------- what it says and refuses


def test_progress_counts_runs_of_rows_to_the_end(z, monkeypatch):
    monkeypatch.setattr(embeddings, "GROUP_BYTES", 2048 * 32 * 4)
    model = RAE(SMALL).fit(GRAPH)
    calls = []

    assert model.embed_to(z, GRAPH, progress=lambda *report: calls.append(report[:3])) == 32
    # Three runs of rows: what the first level projects, what the second does, then the vectors.
    assert calls == [("embed", i + 1, 9) for i in range(9)]


def test_what_cannot_be_embedded_is_refused_and_leaves_no_file(z):
    model = RAE(SMALL).fit(GRAPH)
    with pytest.raises(ConfigError, match=r"half=True is about rows kept on disk, which memory= asks for"):
        model.embed_to(z, GRAPH, half=True)
    with pytest.raises(GraphError, match=r"expected a rae\.Graph"):
        model.embed_to(z, "edges.csv")
    with pytest.raises(NotFittedError):
        RAE().embed_to(z, GRAPH)
    with pytest.raises(FileError, match=r"\.parquet or \.csv"):
        model.embed_to(z.with_suffix(".npy"), GRAPH)
    with pytest.raises(FileError, match="float32 or float16, got dtype 'int8'"):
        model.embed_to(z, GRAPH, dtype="int8")
    wider = RAE(SMALL).fit(GRAPH, features=WORDS)
    with pytest.raises(FeatureError, match="reads 30 feature columns, got 29"):
        wider.embed_to(z, GRAPH, WORDS[:, :29])
    assert list(z.parent.iterdir()) == []


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("level", [0, 1])
def test_vectors_that_are_not_finite_are_refused_and_leave_no_file(z, threads, count, level):
    threads(count)
    model = RAE(SMALL, activation="relu").fit(GRAPH)
    model.encoders["within"].stack()[level].aggregate.weight.data.fill_(np.inf)

    with pytest.raises(FeatureError, match="came out infinite or NaN"):
        model.embed_to(z, GRAPH)
    assert list(z.parent.iterdir()) == []


def test_a_reader_that_stops_early_leaves_nobody_at_work(threads):
    threads(2)
    model = RAE(SMALL).fit(GRAPH)
    rows = stream(encoder_models(model.encoders, Features.of(GRAPH, None, model.config)))

    assert next(rows).shape == (N, 32)
    rows.close()


# ------------------------------------------------------------------------------------------ a run


def test_a_run_takes_vectors_as_they_are_written(tmp_path):
    model = RAE(SMALL).fit(GRAPH)

    def write(path, model_checksum):
        return model.embed_to(path, GRAPH, model=model_checksum)

    run = Run.create(tmp_path / "run", model, GRAPH.id_column, write, timings={"fit": 1.0})
    assert embeddings.embeddings_model(run.path / "embeddings.parquet") == checksum(run.path / "model.safetensors")
    assert np.array_equal(run.embeddings()[1], model.transform(GRAPH))
    assert run.timings["embed"] > 0
    assert Run.open(run.path).info == run.info


def test_a_run_whose_vectors_fail_leaves_the_old_one(tmp_path):
    model = RAE(SMALL).fit(GRAPH)
    old = Run.create(tmp_path / "run", model, GRAPH.id_column, model.transform(GRAPH))
    before = {name: (old.path / name).read_bytes() for name in old.files()}

    def fail(path, model_checksum):
        path.write_bytes(b"half")
        raise FeatureError("no")

    with pytest.raises(FeatureError, match="no"):
        Run.create(tmp_path / "run", model, GRAPH.id_column, fail, force=True)
    assert {p.name: p.read_bytes() for p in old.path.iterdir()} == before


DYING = """
import os, signal, sys
from rae.cli.program import main
from rae.io.embeddings import EmbeddingWriter

EmbeddingWriter.append = lambda self, rows: os.kill(os.getpid(), signal.SIGKILL)
sys.exit(main(sys.argv[1:]))
"""


def test_a_fit_killed_while_it_writes_vectors_is_given_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savetxt("edges.csv", np.random.default_rng(0).integers(50, size=(90, 2)), "%d", ",")
    command = ["fit", "edges.csv", "--out", "run", "--no-page", "--steps", "0"]

    assert exit_code(DYING, *command) == -signal.SIGKILL
    (left,) = (tmp_path / "run").iterdir()
    assert main(command) == 0
    assert not left.exists()
    assert all(not p.name.startswith(".") for p in (tmp_path / "run").iterdir())
