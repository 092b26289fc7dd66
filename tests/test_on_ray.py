"""What only Ray can show: the bytes of one machine whatever is killed, errors and refusals, a token and loopback."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plain import random_graph
from rae import RAE, Config, ExactConfig, Graph, build_graph, embed_file, fit_run, read_embeddings
from rae.cli.program import main
from rae.engine import TILE, embed_to, models_of
from rae.engine import ray_executor as on_ray
from rae.engine.layout import Layout
from rae.engine.shared import share
from rae.errors import ClusterError
from rae.graph.folder import write_graph
from rae.storage.parts import Parts

pytestmark = pytest.mark.slow

N = 9000
CUT = Layout(TILE, 16)
TRAINING = {"dims": (40, 8), "fanout": (4, 3), "steps": 120, "batch_size": 48, "positives": 2, "negatives": 4}


@pytest.fixture(scope="module")
def cluster():
    """Ray on this machine, two workers; one start for all tests."""
    if importlib.util.find_spec("ray") is None:
        pytest.skip("ray is not installed")
    with on_ray.connected("local") as executor:
        yield executor


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """Edges, a run that one machine fitted on them, and vectors that it wrote."""
    folder, graph = tmp_path_factory.mktemp("given"), random_graph(N, 30_000, seed=3)
    rows = np.repeat(np.arange(N), np.diff(graph.offsets))
    once = rows < graph.targets
    edges = folder / "edges.parquet"
    pq.write_table(pa.table({"source": rows[once], "target": graph.targets[once]}), edges)
    run = fit_run(edges, out=folder / "run", page=False)
    embed_file(run.path, edges, out=folder / "one.parquet")
    return SimpleNamespace(graph=graph, edges=edges, run=run.path, vectors=folder / "one.parquet")


@contextlib.contextmanager
def killing(folder, pattern, title="ray::perform_there"):
    """While the block runs: kill -9 the first process of Ray with this title once some parts are there."""
    killed, over = [], threading.Event()

    def watch():
        while not killed and not over.wait(0.002):
            if len(list(folder.glob(pattern))) >= 3:
                for process in psutil.Process().children(recursive=True):
                    with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess, IndexError):
                        if not killed and process.cmdline()[0].startswith(title):
                            process.send_signal(signal.SIGKILL)
                            killed.append(process.pid)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()


def test_embedding_gives_the_bytes_of_one_machine_and_a_killed_worker_changes_none(cluster, given, tmp_path):
    told = []

    def progress(stage, done, total, info):
        told.append((stage, info["hosts"], info["bytes"]))

    with killing(tmp_path, "ray.parquet.parts/*.part") as killed:
        embed_file(given.run, given.edges, out=tmp_path / "ray.parquet", ray="local", progress=progress)

    assert killed
    assert (tmp_path / "ray.parquet").read_bytes() == given.vectors.read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"ray.parquet"}
    written = [n_bytes for stage, hosts, n_bytes in told if stage == "embed" and hosts == 1]
    assert written == sorted(written)
    assert written[-1] > 2 * given.vectors.stat().st_size


def test_a_graph_and_a_folder_of_vectors_are_those_of_one_machine(cluster, given, tmp_path):
    build_graph(given.edges, tmp_path / "graph")
    arguments = ["graph", "build", str(given.edges), "--out", str(tmp_path / "on_ray"), "--ray", "local", "--quiet"]
    assert main(arguments) == 0
    assert (tmp_path / "on_ray/targets.npy").read_bytes() == (tmp_path / "graph/targets.npy").read_bytes()
    embed_file(given.run, tmp_path / "on_ray", out=f"{tmp_path}/vectors/", ray="local", half=True, dtype="float16")
    assert np.abs(read_embeddings(tmp_path / "vectors")[1] - read_embeddings(given.vectors)[1]).max() < 0.01
    assert {path.name for path in tmp_path.iterdir()} == {"vectors", "graph", "on_ray"}


def test_a_plan_that_needs_more_memory_than_a_host_has_is_refused(cluster, given, tmp_path, capsys):
    out = tmp_path / "z.parquet"
    arguments = [str(given.run), str(given.edges), "--out", str(out), "--ray", "local", "--memory", "4TiB", "--quiet"]
    assert main(["embed", *arguments]) == 2
    said = capsys.readouterr().err
    assert "a task needs 4.4 TB of memory, and the smallest host gives" in said
    assert "take larger hosts, more cores a task (--ray-cores) or pass a smaller --memory" in said
    assert not out.exists()


def test_this_machine_is_open_to_loopback_alone_and_asks_for_a_token(cluster, given, tmp_path):
    import ray

    started = psutil.Process().children(recursive=True)
    heard = {
        at.laddr.ip for process in started for at in process.net_connections("inet") if at.status == psutil.CONN_LISTEN
    }
    assert heard
    assert heard <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
    for process in started:
        if process.name() in ("gcs_server", "raylet"):
            environment = process.environ()
            assert (environment["RAY_USAGE_STATS_ENABLED"], environment["RAY_AUTH_MODE"]) == ("0", "token")

    address = ray.get_runtime_context().gcs_address
    out = tmp_path / "z.parquet"
    command = ["embed", str(given.run), str(given.edges), "--out", str(out), "--ray", address, "--quiet"]
    without = {**os.environ, "RAY_AUTH_TOKEN": "another"}
    done = subprocess.run([sys.executable, "-m", "rae", *command], env=without, capture_output=True, text=True)
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]  # after Ray's own, of each time that it tried
    assert "no Ray cluster answers at --ray 127.0.0.1:" in last
    assert "set RAY_AUTH_TOKEN to its token, or pass --ray local" in last
    assert not out.exists()


def test_an_error_in_a_worker_comes_back_in_its_own_words(cluster, given, tmp_path):
    x = np.random.default_rng(2).random((N, 12), np.float32)
    model = RAE(Config(steps=0)).fit(given.graph, features=x)
    x[5] = np.nan
    models = models_of(model.fitted, given.graph, x, check=False)
    shared = share(tmp_path / "inputs", models, model.fitted)
    with pytest.raises(ValueError, match="features must be finite"):
        embed_to(tmp_path / "z.parquet", models, cut=CUT, executor=cluster, shared=shared)
    (tmp_path / "inputs" / "features.npy").unlink()
    with pytest.raises(ClusterError, match="finds no"):
        embed_to(tmp_path / "y.parquet", models, cut=CUT, executor=cluster, shared=shared)


def test_a_killed_driver_is_given_again_and_goes_on(cluster, given, tmp_path, caplog):
    """The driver of the second call is this process; the first one is killed with -9 in the middle of its parts."""
    import ray

    address = ray.get_runtime_context().gcs_address
    assert address.startswith("127.0.0.1:")  # nobody but this machine can ask
    program = "import sys, rae; rae.embed_file(*sys.argv[1:3], out=sys.argv[3], ray=sys.argv[4], ray_cores=1)"
    driver = subprocess.Popen(
        [sys.executable, "-c", program, str(given.run), str(given.edges), str(tmp_path / "ray.parquet"), address],
        stderr=subprocess.DEVNULL,
    )
    parts = tmp_path / "ray.parquet.parts"
    while driver.poll() is None and len(list(parts.glob("*.part"))) < 8:
        time.sleep(0.02)
    driver.kill()
    driver.wait()
    assert len(list(parts.glob("*.part"))) >= 8
    assert not (tmp_path / "ray.parquet").exists()
    wrote, write = [], Parts.write
    with pytest.MonkeyPatch.context() as patch, caplog.at_level("INFO", logger="rae"):
        patch.setattr(Parts, "write", lambda self, name, arrays: (wrote.append(name), write(self, name, arrays)))
        embed_file(given.run, given.edges, out=tmp_path / "ray.parquet", ray="local", ray_cores=1)

    assert (tmp_path / "ray.parquet").read_bytes() == given.vectors.read_bytes()
    assert f"resuming with the parts in {parts}" in caplog.text  # though a host may give another amount of memory now
    assert not wrote  # all parts are written by workers
    assert not Path(f"{tmp_path}/ray.parquet.inputs").exists()
    assert not parts.exists()


# ---------------------------------------------------------------------------------- fits


def weighted_graph():
    """A graph with weights and directions, without what an earlier fit has measured of it."""
    rng = np.random.default_rng(1)
    ends = rng.integers(3000, size=(2, 9_000))
    return Graph.from_edges((ends[0], ends[1]), ids=np.arange(3000), weight=rng.exponential(size=9_000), directed=True)


@pytest.mark.parametrize("relative", [True, False])
def test_a_run_is_that_of_one_machine_and_a_killed_worker_changes_nothing(cluster, tmp_path, relative):
    write_graph(tmp_path / "graph", weighted_graph())
    config = ExactConfig(relative=relative)
    one = fit_run(tmp_path / "graph", out=tmp_path / "one", config=config, page=False)
    with killing(tmp_path, "*.fit.parts/*.part") as killed:
        run = fit_run(tmp_path / "graph", out=tmp_path / "run", config=config, page=False, ray="local")

    assert killed
    for name in ("model.safetensors", "embeddings.parquet"):
        assert (run.path / name).read_bytes() == (one.path / name).read_bytes(), name
    assert {path.name for path in tmp_path.iterdir()} == {"graph", "one", "run"}
    if relative:
        one.fit_roles()
        run.fit_roles(ray="local")
        for name in ("roles.parquet", "roles.json", "roles.safetensors"):
            assert (run.path / name).read_bytes() == (one.path / name).read_bytes(), name
    RAE.load(run.path / "model.safetensors").embed_to(tmp_path / "z.parquet", weighted_graph(), ray="local")
    assert {path.name for path in tmp_path.iterdir()} == {"graph", "one", "run", "z.parquet"}


def test_a_training_is_that_of_one_machine_and_a_killed_worker_changes_nothing(cluster, tmp_path):
    config, graph = Config(**TRAINING), random_graph(3000, 9_000, seed=3)
    one = fit_run(graph, out=tmp_path / "one", config=config, page=False)
    with killing(tmp_path, "*.fit.parts/*.part", "ray::RayTrainWorker") as killed:
        run = fit_run(graph, out=tmp_path / "run", config=config, page=False, ray="local")

    assert killed
    for name in ("model.safetensors", "embeddings.parquet"):
        assert (run.path / name).read_bytes() == (one.path / name).read_bytes(), name
    two = fit_run(graph, out=tmp_path / "two", config=config, page=False, ray="local", ray_workers=2)
    first, last = (one.info["training"]["within"][name] for name in ("first", "last"))
    assert abs(two.info["training"]["within"]["last"] - last) < 0.25 * (first - last)
    assert {path.name for path in tmp_path.iterdir()} == {"one", "run", "two"}
