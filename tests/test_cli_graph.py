"""`rae graph build`, and the graph folder in place of EDGES."""

from __future__ import annotations

import json

import numpy as np
import pytest

import rae as library
from rae.io import read_embeddings
from rae.storage.spill_buffer import MemoryBudget

SMALL = ["--dims", "6,3", "--fanout", "3,3", "--steps", "4", "--batch-size", "16"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "edges.csv").write_text("a,b\nb,c\nc,d\nd,e\na,c\nb,a\ne,e\na,f\na,g\ng,h\n")
    return tmp_path


def test_build_writes_a_folder_and_says_what_it_counted(here, rae):
    code, out, _ = rae("graph", "build", "edges.csv", "--out", "g")

    assert code == 0
    assert "8 nodes, 8 edges" in out
    assert "10 rows read, 1 doubled merged, 1 self-loops dropped" in out
    assert library.open_graph("g", verify=True).n_edges == 8


def test_build_prints_json(here, rae):
    code, out, _ = rae("graph", "build", "edges.csv", "--out", "g", "--order", "locality", "--json", "--quiet")

    result = json.loads(out)
    assert code == 0
    assert result["counts"] == {"nodes": 8, "edges": 8, "rows": 10, "doubled": 1, "self_loops": 1}
    assert result["order"] == "locality"
    assert set(result["files"]) == {"graph.json", "ids.arrow", "offsets.npy", "targets.npy"}


def test_an_existing_folder_is_replaced_only_by_force(here, rae):
    rae("graph", "build", "edges.csv", "--out", "g")
    code, _, err = rae("graph", "build", "edges.csv", "--out", "g")

    assert code == 2
    assert "--force" in err
    assert rae("graph", "build", "edges.csv", "--out", "g", "--force")[0] == 0


def test_a_folder_is_fitted_embedded_and_planned_as_its_file_is(here, rae):
    rae("graph", "build", "edges.csv", "--out", "g")
    for edges, run in (("edges.csv", "one"), ("g", "two")):
        assert rae("fit", edges, "--out", run, "--no-page", *SMALL)[0] == 0
        assert rae("embed", run, edges, "--out", f"{run}.parquet")[0] == 0
        assert rae("plan", edges, *SMALL)[0] == 0
    (ids, z), (same_ids, same) = (read_embeddings(f"{run}.parquet")[:2] for run in ("one", "two"))

    assert list(ids) == list(same_ids)
    assert np.array_equal(z, same)


def test_options_of_an_edge_file_are_refused_for_a_graph_folder(here, rae):
    rae("graph", "build", "edges.csv", "--out", "g")
    code, _, err = rae("fit", "g", "--source", "a", *SMALL)

    assert code == 2
    assert "--source says how an edge file is read, g is a graph folder" in err


def test_features_follow_their_ids_into_a_folder(here, rae):
    rows = "".join(f"{name},{i},{i / 2}\n" for i, name in enumerate("abcdefghz"))
    (here / "nodes.csv").write_text("id,size,age\n" + rows)
    rae("graph", "build", "edges.csv", "--out", "g", "--order", "locality")
    code, _, err = rae("fit", "g", "--features", "nodes.csv", "--out", "run", "--no-page", *SMALL)

    assert code == 0
    assert "1 feature rows have no edge, first 'z': added as isolated nodes" in err


def test_features_without_ids_follow_the_ids_whatever_the_order_of_the_folder(here, rae):
    np.save(here / "x.npy", np.random.default_rng(0).normal(size=(8, 5)).astype(np.float32))
    rae("graph", "build", "edges.csv", "--out", "g")
    rae("graph", "build", "edges.csv", "--out", "moved", "--order", "locality")
    rae("fit", "g", "--features", "x.npy", "--out", "run", "--no-page", *SMALL)
    vectors = {}
    for folder in ("g", "moved"):
        assert rae("embed", "run", folder, "--features", "x.npy", "--out", f"{folder}.parquet")[0] == 0
        ids, z = read_embeddings(f"{folder}.parquet")[:2]
        vectors[folder] = dict(zip(list(ids), z, strict=True))

    assert list(vectors["g"]) != list(vectors["moved"])
    for name, vector in vectors["g"].items():
        np.testing.assert_allclose(vector, vectors["moved"][name], atol=1e-5)


# ---------------------------------------------------------------------------- edge files in bounded memory


def test_with_memory_an_edge_file_is_mapped_and_gives_the_same_bytes(here, rae, monkeypatch):
    rae("fit", "edges.csv", "--out", "run", "--no-page", *SMALL)
    rae("embed", "run", "edges.csv", "--out", "plain.parquet")
    before, read = sorted(here.iterdir()), []
    monkeypatch.setattr("rae.io.edges.EdgeFile.graph", lambda *_, **__: read.append("into memory"))
    for command in ("embed run", "fit"):
        out = "z.parquet" if command != "fit" else "again"
        extra = () if command != "fit" else ("--no-page", *SMALL)
        assert rae(*command.split(), "edges.csv", "--memory", "2GiB", "--out", out, *extra)[0] == 0
    assert rae("plan", "edges.csv", "--memory", "2GiB", *SMALL)[0] == 0

    assert read == []
    assert (here / "z.parquet").read_bytes() == (here / "plain.parquet").read_bytes()
    for name in ("embeddings.parquet", "model.safetensors"):
        assert (here / "again" / name).read_bytes() == (here / "run" / name).read_bytes()
    assert sorted(here.iterdir()) == sorted([*before, here / "z.parquet", here / "again"])


def test_the_buffer_of_edges_stays_within_the_memory_option(here, rae, monkeypatch):
    limits, available = [], MemoryBudget.available
    monkeypatch.setattr(MemoryBudget, "available", lambda limit=None: (limits.append(limit), available(limit))[1])
    rae("fit", "edges.csv", "--out", "run", "--no-page", *SMALL)
    for memory in ("800MiB", "4GiB"):
        assert rae("embed", "run", "edges.csv", "--memory", memory, "--out", "z.parquet", "--force")[0] == 0

    assert limits[0] == 0
    assert 10**9 < limits[1] < 2 * 10**9


@pytest.mark.parametrize(("rows", "warned"), [(None, True), (10**6, False), (10**7, True)])
def test_reading_that_may_exceed_the_budget_is_warned_of(rows, warned, here, rae, monkeypatch):
    rae("fit", "edges.csv", "--out", "run", "--no-page", *SMALL)
    monkeypatch.setattr("rae.io.tables.expected_rows", lambda table: rows)
    code, _, err = rae("embed", "run", "edges.csv", "--memory", "800MiB", "--out", "z.parquet")

    assert code == 0
    assert ("reading edges.csv may take up to 1.0 GB, --memory is 839 MB; make a graph folder" in err) == warned


def test_features_and_nodes_without_edges_join_a_mapped_graph(here, rae):
    (here / "x.csv").write_text("id,p,q\n" + "".join(f"{v},{i},1\n" for i, v in enumerate("abcdefghz")))
    rae("fit", "edges.csv", "--features", "x.csv", "--out", "run", "--no-page", *SMALL)
    for extra, out in (((), "one"), (("--memory", "2GiB"), "two")):
        code, _, err = rae("embed", "run", "edges.csv", "--features", "x.csv", "--out", f"{out}.parquet", *extra)
        assert code == 0
        assert "added as isolated nodes" in err

    assert (here / "one.parquet").read_bytes() == (here / "two.parquet").read_bytes()


# ---------------------------------------------------------------------------- what will not fit


@pytest.mark.parametrize("command", ["fit", "embed run", "plan"])
def test_reading_that_will_not_fit_is_warned_of_before_it_begins(command, here, rae, monkeypatch):
    rae("fit", "edges.csv", "--out", "run", "--no-page", *SMALL)
    monkeypatch.setattr("rae.plan.available_memory", lambda root: 1_000_000)
    monkeypatch.setattr("rae.plan._resident", lambda root: 0)

    def stop(self, *_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("rae.io.edges.EdgeFile.graph", stop)
    extra = {"fit": ("--out", "two"), "plan": ()}.get(command, ("--out", "z.parquet"))
    code, _, err = rae(*command.split(), "edges.csv", *extra)

    assert code == 130
    assert "warning: reading edges.csv will take about 600 MB more memory and 1.0 MB is available" in err
    assert "pass --memory, or make a graph folder of it first" in err


def test_a_fit_that_will_not_fit_is_warned_of_and_goes_on(here, rae, monkeypatch):
    monkeypatch.setattr("rae.plan.available_memory", lambda root: 1_000_000)
    monkeypatch.setattr("rae.plan._resident", lambda root: 0)
    code, _, err = rae("fit", "edges.csv", "--out", "run", "--no-page", *SMALL)

    assert code == 0
    assert "warning: this will take about 60" in err
    assert "and 1.0 MB is available; no --memory makes it fit, program, graph and features take 60" in err


def test_a_fit_that_fits_is_not_warned_of(here, rae, monkeypatch):
    monkeypatch.setattr("rae.plan.available_memory", lambda root: 10**12)

    assert "available" not in rae("fit", "edges.csv", "--out", "run", "--no-page", *SMALL)[2]


def test_plan_says_what_is_available_and_keeps_to_a_budget(here, rae, monkeypatch):
    monkeypatch.setattr("rae.plan.available_memory", lambda: 3 * 10**9)
    code, out, _ = rae("plan", "edges.csv", "--memory", "2GiB", *SMALL)

    assert code == 0
    assert "available  3.0 GB" in out
    assert rae("plan", "edges.csv", "--memory", "lots", *SMALL)[0] == 2
    assert rae("plan", "edges.csv", "--memory", "2GiB", "--half", "--dtype", "float16", *SMALL)[0] == 0
    code, _, wrong = rae("plan", "edges.csv", "--memory", "10MB", *SMALL)
    assert code == 2
    assert "memory must be" in wrong
