"""A cluster gives the bytes of one machine: described tasks, parts by edges, folders of results, workers that die."""

from __future__ import annotations

import errno
import itertools
import json
import os
import re
import socket
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

import elsewhere
from executors import Here, KilledError, Processes
from plain import random_graph
from rae import RAE, Config, ExactConfig, Graph, build_graph, embed_file, fit_run, read_embeddings
from rae.cli.program import main
from rae.engine import TILE, cluster_plan, embed_to, graph_build, models_of
from rae.engine import ray_executor as on_ray
from rae.engine.executors import Threads
from rae.engine.layout import Layout, Sizes, by_edges, layout_for_hosts
from rae.engine.results import MANIFEST, Results
from rae.engine.shared import discard, share
from rae.errors import ClusterError, ConfigError, FileError, GraphError, MissingExtraError
from rae.graph.folder import checksum, folder_of, open_graph, write_graph
from rae.storage.parts import Parts

N = 9000
GRAPH = random_graph(N, 30_000, seed=3)
WORDS = sp.random_array((N, 12), density=0.2, rng=np.random.default_rng(2), dtype=np.float32).tocsr()
CUT = Layout(TILE, 16)


def one_file(path, model, x=None):
    model.embed_to(path, GRAPH, x)
    return path.read_bytes()


# ---------------------------------------------------------------------------------- parts by edges


def test_parts_are_cut_by_edges_and_no_part_has_much_more_work_than_another():
    degrees = np.ones(64 * TILE, np.int64)
    degrees[10 * TILE] += 40 * TILE  # a hub
    offsets = np.concatenate([[0], np.cumsum(degrees)])
    cut = by_edges(Layout(8 * TILE, 4), offsets)

    parts = cut.parts(len(degrees))
    work = [b - a + int(offsets[b] - offsets[a]) for a, b in parts]
    assert parts[0][0] == 0
    assert parts[-1][1] == len(degrees)
    assert all(a == before for (_, before), (a, _) in itertools.pairwise(parts))
    assert all(a % TILE == 0 and b - a <= 8 * TILE for a, b in parts)
    assert max(work) == 42 * TILE  # the hub's tile is alone, and cannot be cut
    assert sorted(work)[-2] <= sum(work) * 8 // 64
    assert [cut.part_of(a) for a, _ in parts] == list(range(len(parts)))
    assert [cut.part_of(b - 1) for _, b in parts] == list(range(len(parts)))


def test_a_cluster_with_a_little_more_memory_goes_on_with_the_parts_of_another():
    sizes = Sizes(10**9, 2 * 10**11, (64, 8), 256, 4, 0, 64 << 20)
    cuts = [layout_for_hosts(budget * 10**9, sizes, 64) for budget in (44, 45, 46)]
    assert cuts[0] == cuts[1] == cuts[2]
    assert layout_for_hosts("400GB", sizes, 64).rows > 4 * cuts[0].rows  # more memory, fewer and larger parts
    for budget, cut in ((44 * 10**9, cuts[0]), (400 * 10**9, layout_for_hosts("400GB", sizes, 64))):
        assert sizes.fixed_bytes + cut.rows * sizes.row_bytes + cut.columns * 4 * 10**9 <= budget
    small = replace(sizes, n_nodes=10**6, n_targets=10**7)
    assert {layout_for_hosts(f"{budget}GiB", small, 64) for budget in (2, 8, 64)} == {Layout(8 * TILE, 64)}


def test_a_hub_in_parts_by_edges_changes_no_byte(tmp_path):
    hub = np.stack([np.zeros(N - 1, np.int64), np.arange(1, N)])
    graph = Graph.from_edges(np.hstack([hub, np.random.default_rng(1).integers(N, size=(2, N))]).T)
    model = RAE().fit(graph)
    model.embed_to(tmp_path / "one.parquet", graph)
    cut = by_edges(Layout(2 * TILE, 16), graph.offsets)
    assert cut.bounds == (0, TILE, 3 * TILE, N)
    embed_to(tmp_path / "parts.parquet", models_of(model.fitted, graph), cut=cut, blocks=model.blocks)

    assert (tmp_path / "parts.parquet").read_bytes() == (tmp_path / "one.parquet").read_bytes()


# ---------------------------------------------------------------------------------- described by files


@pytest.fixture(scope="module")
def pool():
    with ProcessPoolExecutor(1, elsewhere.CONTEXT) as processes:
        yield processes


@pytest.mark.parametrize("case", ["structure", "dense", "sparse", "trained"])
def test_shared_inputs_give_the_same_bytes_in_other_processes(tmp_path, pool, case):
    x = {"dense": WORDS.toarray(), "sparse": WORDS}.get(case)
    model = RAE(Config(steps=0, dims=(8,), fanout=(3,))) if case == "trained" else RAE()
    model.fit(GRAPH, features=x)
    expected = one_file(tmp_path / "one.parquet", model, x)
    models = models_of(model.fitted, GRAPH, x, check=False)
    shared = share(tmp_path / "inputs", models, model.fitted)
    path = tmp_path / "z.parquet"
    others = Processes(pool)
    options = {"cut": by_edges(CUT, GRAPH.offsets), "executor": others, "shared": shared, "blocks": model.blocks}
    embed_to(path, models, **options)
    if case == "structure":
        embed_to(tmp_path / "folder", models, in_folder=True, **options)
        assert np.array_equal(read_embeddings(tmp_path / "folder")[1], read_embeddings(path)[1])
    discard(tmp_path / "inputs")

    assert path.read_bytes() == expected
    assert others.ids
    assert os.getpid() not in others.ids
    assert not (tmp_path / "inputs").exists()


def test_a_graph_folder_that_all_hosts_see_is_not_copied(tmp_path):
    write_graph(tmp_path / "graph", GRAPH)
    graph = open_graph(tmp_path / "graph")
    model = RAE(Config(steps=0)).fit(graph)
    shared = share(tmp_path / "inputs", models_of(model.fitted, graph), model.fitted, folder_of(graph))

    assert shared.graph == str((tmp_path / "graph").resolve())
    assert not (tmp_path / "inputs" / "graph").exists()
    assert folder_of(GRAPH) is None


# ---------------------------------------------------------------------------------- folders of results


@pytest.fixture
def fitted(tmp_path):
    edges = tmp_path / "edges.parquet"
    rows = np.repeat(np.arange(N), np.diff(GRAPH.offsets))
    once = rows < GRAPH.targets
    pq.write_table(pa.table({"source": rows[once], "target": GRAPH.targets[once]}), edges)
    run = fit_run(edges, out=tmp_path / "run", page=False)
    return tmp_path, run, edges


def test_a_folder_of_results_is_one_table_with_a_manifest(fitted):
    folder, run, edges = fitted
    written = embed_file(run.path, edges, out=f"{folder}/vectors/", memory="2GiB")
    manifest = json.loads((folder / "vectors" / MANIFEST).read_text())

    ids, z = read_embeddings(folder / "vectors")
    expected_ids, expected = run.embeddings()
    assert ids.equals(expected_ids)
    assert np.array_equal(z, expected)
    assert manifest["rows"] == sum(file["rows"] for file in manifest["files"]) == len(ids)
    assert all(checksum(folder / "vectors" / file["file"]) == file["sha256"] for file in manifest["files"])
    assert written.n_bytes == sum(path.stat().st_size for path in (folder / "vectors").iterdir())
    assert sorted(path.name for path in folder.iterdir()) == ["edges.parquet", "run", "vectors"]
    with pytest.raises(FileError, match="exists; choose another out, or pass force=True"):
        embed_file(run.path, edges, out=f"{folder}/vectors/")
    assert embed_file(run.path, edges, out=f"{folder}/vectors/", force=True).n_bytes == written.n_bytes
    (folder / "vectors" / "mine.txt").write_text("keep me")
    with pytest.raises(FileError, match=r"holds mine.txt, which is no result of rae"):
        embed_file(run.path, edges, out=f"{folder}/vectors/", force=True)


def test_a_killed_folder_of_results_goes_on_with_its_files(tmp_path, monkeypatch):
    model = RAE().fit(GRAPH)
    models, target = models_of(model.fitted, GRAPH), tmp_path / "vectors"
    wrote, write = [], Results.write

    def killed_at_three(self, part, ids, vectors):
        if len(wrote) == 3:
            raise KeyboardInterrupt
        wrote.append(part)
        return write(self, part, ids, vectors)

    monkeypatch.setattr(Results, "write", killed_at_three)
    with pytest.raises(KeyboardInterrupt):
        embed_to(target, models, cut=CUT, in_folder=True)
    assert not target.exists()
    (tmp_path / f".vectors.{'0' * 16}.building").mkdir()  # of another job
    before, again = list(wrote), []
    next((tmp_path / "vectors.parts").glob("*written*")).unlink()  # killed between a file and the note of it
    monkeypatch.setattr(Results, "write", lambda self, part, *a: (again.append(part), write(self, part, *a))[1])
    embed_to(target, models, cut=CUT, in_folder=True)

    assert len(before) == 3
    assert again
    assert set(before).isdisjoint(again)
    assert np.array_equal(read_embeddings(target)[1], model.transform(GRAPH))
    assert [path.name for path in tmp_path.iterdir()] == ["vectors"]
    files = json.loads((target / MANIFEST).read_text())["files"]
    assert len(files) == 5
    assert all(checksum(target / file["file"]) == file["sha256"] for file in files)
    assert all((target / file["file"]).stat().st_size == file["bytes"] for file in files)


# ---------------------------------------------------------------------------------- building by parts


def edge_files(folder, ids):
    """Three Parquet files of several row groups, with doubled edges, self-loops and a hub."""
    rng = np.random.default_rng(4)
    source, target = rng.integers(len(ids), size=(2, 5000))
    source[:900], target[3000:3100] = 0, source[3000:3100]
    source[4000:4400], target[4000:4400] = target[3200:3600], source[3200:3600]  # the other way round
    more = {
        "amount": np.where(rng.random(5000) < 0.05, 0, rng.exponential(size=5000)),
        "what": np.array(["text", "call", "é"])[np.where(np.arange(5000) < 1600, 0, rng.integers(3, size=5000))],
        "day": rng.integers(30, size=5000),
    }
    folder.mkdir()
    for i, rows in enumerate(np.array_split(np.arange(5000), 3)):
        ends = {"source": ids.take(pa.array(source[rows])), "target": ids.take(pa.array(target[rows]))}
        table = pa.table(ends | {name: column[rows] for name, column in more.items()})
        pq.write_table(table, folder / f"{i}.parquet", row_group_size=500)
    return folder


IDS = {
    "close": pa.array(np.arange(100, 800)),
    "far": pa.array(np.unique(np.random.default_rng(0).integers(-(2**62), 2**62, 700))),
    "unsigned": pa.array(np.arange(700, dtype=np.uint64) * 10**15 + 2**63),
    "text": pa.array([f"é{i}" for i in range(700)]),
}


@pytest.mark.parametrize("kind", IDS)
def test_a_graph_built_by_parts_has_the_bytes_of_one_machine(tmp_path, monkeypatch, kind):
    edges = edge_files(tmp_path / "edges", IDS[kind])
    build_graph(edges, tmp_path / "one")
    monkeypatch.setattr(graph_build, "RANGE", 300)
    monkeypatch.setattr(graph_build, "PART", 1000)
    monkeypatch.setattr(graph_build, "STRIPES", 50)
    executor = Here()
    graph = graph_build.build_by_parts(edges, tmp_path / "parts", executor, unit=800)

    kinds = [name.partition("-")[0] for name in executor.names]
    assert min(kinds.count(kind) for kind in ("ids", "number", "deal", "rows")) > 3
    assert {p.name for p in (tmp_path / "parts").iterdir()} == {p.name for p in (tmp_path / "one").iterdir()}
    for path in (tmp_path / "one").iterdir():
        assert (tmp_path / "parts" / path.name).read_bytes() == path.read_bytes(), path.name
    assert graph.n_nodes == 700
    assert not (tmp_path / "parts.parts").exists()


@pytest.mark.parametrize(
    "options",
    [
        {"weight": "amount"},
        {"directed": True},
        {"weight": "amount", "directed": True, "kind": "what", "doubled": "max"},
        {"kind": "what", "doubled": "count", "time": "day", "since": 3, "until": 17},
    ],
    ids=["weights", "directions", "largest", "times"],
)
def test_weights_directions_kinds_and_times_are_built_by_parts(tmp_path, monkeypatch, options):
    edges = edge_files(tmp_path / "edges", IDS["text"])
    one = build_graph(edges, tmp_path / "one", **options)
    monkeypatch.setattr(graph_build, "PART", 600)
    monkeypatch.setattr(graph_build, "STRIPES", 50)
    graph = graph_build.build_by_parts(edges, tmp_path / "parts", Threads(2), unit=800, **options)

    assert {p.name for p in (tmp_path / "parts").iterdir()} == {p.name for p in (tmp_path / "one").iterdir()}
    for path in (tmp_path / "one").iterdir():
        assert (tmp_path / "parts" / path.name).read_bytes() == path.read_bytes(), path.name
    assert graph.counts == one.counts
    assert graph.counts.doubled > 0


def test_a_row_group_that_is_larger_than_the_others_is_read_in_pieces(tmp_path):
    edges = edge_files(tmp_path / "edges", IDS["close"])
    table = pq.read_table(edges)
    pq.write_table(table, tmp_path / "one_group.parquet", row_group_size=len(table))
    build_graph(tmp_path / "one_group.parquet", tmp_path / "one", weight="amount")
    executor = Here()
    graph_build.build_by_parts(tmp_path / "one_group.parquet", tmp_path / "parts", executor, unit=800, weight="amount")

    assert len([name for name in executor.names if name.startswith("deal")]) == 6
    for path in (tmp_path / "one").iterdir():
        assert (tmp_path / "parts" / path.name).read_bytes() == path.read_bytes(), path.name


def test_a_bad_weight_is_named_by_its_row_in_the_whole_table(tmp_path):
    folder = tmp_path / "edges"
    folder.mkdir()
    for i in range(2):
        table = pa.table({"a": np.arange(600), "b": np.arange(600) + 1, "w": np.where(np.arange(600) == 70, -i, 1.0)})
        pq.write_table(table, folder / f"{i}.parquet", row_group_size=50)
    with pytest.raises(GraphError, match="weight must hold finite numbers from 0 up, got -1 in row 670"):
        graph_build.build_by_parts(folder, tmp_path / "graph", Here(), unit=100, weight="w")


def test_a_killed_build_by_parts_goes_on_and_changed_files_start_anew(tmp_path):
    edges = edge_files(tmp_path / "edges", IDS["close"])
    build_graph(edges, tmp_path / "one")
    first, again = Here(stop_after=9), Here()
    with pytest.raises(KilledError):
        graph_build.build_by_parts(edges, tmp_path / "graph", first, unit=800)
    wrote, write = [], Parts.write
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Parts, "write", lambda self, name, arrays: (wrote.append(name), write(self, name, arrays)))
        graph_build.build_by_parts(edges, tmp_path / "graph", again, unit=800)
    assert wrote
    assert set(wrote).isdisjoint(first.names)
    assert (tmp_path / "graph" / "targets.npy").read_bytes() == (tmp_path / "one" / "targets.npy").read_bytes()


def test_what_only_one_machine_builds_is_refused(tmp_path, capsys):
    (tmp_path / "e.csv").write_text("a,b\n1,2\n")
    with pytest.raises(FileError, match="a cluster builds a graph of Parquet files"):
        graph_build.build_by_parts(tmp_path / "e.csv", tmp_path / "graph", Here())
    pq.write_table(pa.table({"a": [1.5], "b": [2.5]}), tmp_path / "e.parquet")
    with pytest.raises(GraphError, match="a cluster numbers ids that are whole numbers or text, 'a' holds double"):
        graph_build.build_by_parts(tmp_path / "e.parquet", tmp_path / "graph", Here())
    pq.write_table(pa.table({"a": [1], "b": ["2"]}), tmp_path / "e.parquet")
    with pytest.raises(GraphError, match="must be of one kind"):
        graph_build.build_by_parts(tmp_path / "e.parquet", tmp_path / "graph", Here())
    arguments = ["graph", "build", str(tmp_path / "e.parquet"), "--out", str(tmp_path / "g"), "--ray", "local"]
    with pytest.raises(ConfigError, match="order='locality' is for a build on one machine; leave ray out"):
        build_graph(tmp_path / "e.parquet", tmp_path / "g", order="locality", ray="local")
    assert main([*arguments, "--order", "locality"]) == 2
    assert "--order locality is for a build on one machine; leave --ray out" in capsys.readouterr().err


# ---------------------------------------------------------------------------------- the plan


@pytest.mark.parametrize("half", [False, True])
def test_the_plan_counts_the_bytes_that_are_written(tmp_path, half):
    config = ExactConfig()
    model = RAE(config).fit(GRAPH)
    written, write = [], Parts.write
    with pytest.MonkeyPatch.context() as patch:

        def count(self, name, arrays):
            if "written" not in name:  # of the files of results, a few bytes each
                written.append(sum(a.nbytes for a in arrays))
            write(self, name, arrays)

        patch.setattr(Parts, "write", count)
        embed_to(tmp_path / "z", models_of(model.fitted, GRAPH), cut=Layout(TILE, 64), half=half, in_folder=True)
    work = cluster_plan.work_of(config, N, GRAPH.n_edges, half=half)
    plan = cluster_plan.plan_cluster(work, cluster_plan.Hosts(4, 8 << 30), cluster_plan.Rates(1e-9, 1e-9, 1e-9))

    assert plan.fits
    assert plan.bytes["between levels"] == sum(written)
    assert work.edge_bytes == GRAPH.offsets.nbytes + GRAPH.targets.nbytes
    output = sum(file.stat().st_size for file in (tmp_path / "z").iterdir())
    assert abs(plan.bytes["output"] / output - 1) < 0.1
    stages = [plan.seconds[name] for name in ("computing", "network", "start and tasks")]
    assert plan.seconds["total"] == pytest.approx(sum(stages))


def test_a_plan_for_a_cluster_grows_with_the_graph_and_says_what_does_not_fit(capsys, monkeypatch):
    monkeypatch.setattr(cluster_plan, "NODES", 4096)
    assert main(["plan", "1e9,1e11", "--hosts", "64", "--host-memory", "512GiB", "--half", "--json"]) == 0
    large = json.loads(capsys.readouterr().out)
    assert main(["plan", "1e8,1e10", "--hosts", "64", "--host-memory", "512GiB", "--half", "--json"]) == 0
    small = json.loads(capsys.readouterr().out)
    assert large["fits"]
    for name in ("graph", "between levels", "output", "network"):
        assert large["bytes"][name] / small["bytes"][name] == pytest.approx(10, rel=0.01)
    assert main(["plan", "1e9,1e11", "--hosts", "4", "--host-memory", "4GiB"]) == 0
    assert re.search(r"this does not fit: a host must give 4\.\d GB", capsys.readouterr().out)
    with pytest.raises(ConfigError, match="a graph needs a node"):
        cluster_plan.work_of(ExactConfig(), 0, 0)


# ---------------------------------------------------------------------------------- what is refused


def test_without_ray_or_with_an_old_one_the_error_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with (
        pytest.raises(MissingExtraError, match=r"a cluster needs ray; install it with: pip install .*\[ray\]"),
        on_ray.connected("local"),
    ):
        pass
    monkeypatch.setitem(sys.modules, "ray", type("ray", (), {"__version__": "2.9.3"}))
    with pytest.raises(MissingExtraError, match=r"ray 2.59 or newer \(this is 2.9.3\)"), on_ray.connected("local"):
        pass
    with pytest.raises(ConfigError, match="ray must be auto, local"), on_ray.connected(""):
        pass


def test_a_cluster_with_too_little_memory_is_refused_with_the_number():
    executor = on_ray.RayExecutor(on_ray.Hosts(4, 32, 8, 8 << 30), 4)
    assert (executor.at_work, executor.memory) == (8, 4 << 30)
    on_ray.check_cluster_memory(executor, 4 << 30)
    with pytest.raises(
        ClusterError, match=r"a task needs 5.4 GB of memory, .* gives 4.3 GB to each of 2; .*ray_cores="
    ):
        on_ray.check_cluster_memory(executor, 5 << 30)


def test_a_worker_with_another_version_or_without_the_folder_says_so(tmp_path):
    model = RAE(Config(steps=0)).fit(GRAPH)
    models = models_of(model.fitted, GRAPH)
    shared = share(tmp_path / "inputs", models, model.fitted)

    class Elsewhere:
        def run(self, job, tasks):
            with pytest.raises(ClusterError, match=r"every host must have rae 0.0, a worker has"):
                on_ray.perform_there(job.description, tasks, 1, "0.0")
            gone = replace(job.description, measures=str(tmp_path / "nowhere.npy"))
            with pytest.raises(
                ClusterError, match=r"finds no .*nowhere.npy; the folder of out, and a graph folder, must"
            ):
                on_ray.perform_there(gone, tasks[:1], 1, on_ray.__version__)
            return (job.perform(task) for task in tasks)

    embed_to(tmp_path / "z.parquet", models, cut=CUT, executor=Elsewhere(), shared=shared)


def test_a_full_disk_is_one_sentence(tmp_path, monkeypatch):
    model = RAE(Config(steps=0)).fit(GRAPH)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("rae.storage.parts._write_all", full)
    with pytest.raises(FileError, match=r"cannot write .*\.part: the disk is full; free some space"):
        embed_to(tmp_path / "z.parquet", models_of(model.fitted, GRAPH), cut=CUT)


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_an_address_where_nothing_listens_is_refused_at_once(scheme):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
        on_ray._check_listener(f"{scheme}127.0.0.1:{port}")
    with pytest.raises(ConnectionRefusedError):
        on_ray._check_listener(f"{scheme}127.0.0.1:{port}")
    for elsewhere_checked in ("auto", "local", "bogus"):
        on_ray._check_listener(elsewhere_checked)
