"""A fit by tasks is the fit of one machine, bit for bit, after kills too; roles and models on Ray itself."""

from __future__ import annotations

import collections
import contextlib
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import elsewhere
from executors import Here, KilledError, Processes
from plain import random_graph
from rae import RAE, Config, ExactConfig, Graph, Roles, fit_run
from rae.cli.program import main
from rae.engine import cluster_plan
from rae.engine.exact_fit import fit_by_tasks, forget_fit
from rae.engine.executors import Serial
from rae.engine.layout import Layout, by_edges
from rae.engine.trained_fit import fit_by_draws, train
from rae.errors import ClusterError, ConfigError, FileError, RunError
from rae.features import Features, measures
from rae.io import write_embeddings
from rae.model import training
from rae.model.actions import fit_actions
from rae.model.structure import fit_structure
from rae.roles.cluster import vectors_by_parts
from rae.roles.vectors import sample_rows
from rae.storage.parts import Parts

N = 3000
RNG = np.random.default_rng(7)
WORDS = sp.random_array((N, 280), density=0.03, rng=RNG, dtype=np.float32).tocsr()
SMALL = {"dims": (40, 8), "fanout": (4, 3), "steps": 25, "batch_size": 48, "positives": 2, "negatives": 4}
FEATURES = {"structure": None, "words": WORDS, "table": np.hstack([WORDS[:, :20].toarray(), RNG.normal(size=(N, 3))])}


def new_graph(kind: str = "plain") -> Graph:
    """A graph without what an earlier fit has measured of it."""
    if kind == "plain":
        return random_graph(N, 9_000, seed=3)
    rng = np.random.default_rng(1)
    ends = rng.integers(N, size=(2, 9_000))
    weights = rng.exponential(size=9_000)
    return Graph.from_edges((ends[0], ends[1]), ids=np.arange(N), weight=weights, directed=True)


def of_features(graph, features):
    return None if features is None else Features.of(graph, features, Config())


def by_tasks(graph, features, config, folder, executor):
    """The tensors of a fit by tasks; its files stay."""
    x = of_features(graph, features)
    tasks = fit_by_tasks(
        graph, x, config, f"{folder}/z.fit", executor, lambda _: by_edges(Layout(2048, 16), graph.offsets)
    )
    actions = {} if x is None else fit_actions(x, config, passes=tasks).tensors()
    solved = fit_structure(graph, config, beside_features=x is not None, versions=tasks).tensors()
    tasks.keep_own()
    return actions | solved


def on_one_machine(graph, features, config):
    x = of_features(graph, features)
    actions = {} if x is None else fit_actions(x, config).tensors()
    return actions | fit_structure(graph, config, beside_features=x is not None).tensors()


def assert_equal(one, other):
    assert one.keys() == other.keys()
    assert [name for name in one if not torch.equal(one[name], other[name])] == []


@pytest.fixture(scope="module")
def pool():
    with ProcessPoolExecutor(1, elsewhere.CONTEXT) as processes:
        yield processes


@pytest.mark.parametrize("case", FEATURES)
def test_a_fit_by_tasks_has_the_bytes_of_one_machine(tmp_path, pool, case):
    config = ExactConfig()
    expected = on_one_machine(new_graph(), FEATURES[case], config)
    graph = new_graph()
    assert_equal(by_tasks(graph, FEATURES[case], config, tmp_path, Processes(pool)), expected)
    forget_fit(f"{tmp_path}/z.fit")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mix", ["union", "directions"])
def test_a_fit_by_tasks_reads_weights_and_directions(tmp_path, monkeypatch, mix):
    config, executor = ExactConfig(mix=mix), Here()
    expected = on_one_machine(new_graph("channels"), FEATURES["words"], config)
    monkeypatch.setattr("rae.engine.exact_fit.ENTRIES", 2000)
    monkeypatch.setattr("rae.model.structure.DRAWN", 301)
    assert_equal(by_tasks(new_graph("channels"), FEATURES["words"], config, tmp_path, executor), expected)
    assert len([name for name in executor.names if name.startswith("rows-1")]) > 5
    forget_fit(f"{tmp_path}/z.fit")
    assert list(tmp_path.iterdir()) == []


def test_the_files_of_a_fit_may_lie_in_a_store(tmp_path):
    config, store = ExactConfig(), f"file://{tmp_path}"
    expected = on_one_machine(new_graph("channels"), FEATURES["words"], config)
    assert_equal(by_tasks(new_graph("channels"), FEATURES["words"], config, store, Serial()), expected)
    forget_fit(f"{store}/z.fit")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    training, features = Config(**SMALL), FEATURES["words"]
    assert_equal(by_draws(store, training, features)["within"][0], trained_here(training, features)["within"][0])


def test_counts_in_shares_and_estimates_by_rows_are_those_of_one_machine(tmp_path, monkeypatch):
    config = ExactConfig(seed=5)
    expected = on_one_machine(new_graph(), None, config)
    monkeypatch.setattr(measures, "SHARE_PATHS", 10_000)
    executor = Here()
    assert_equal(by_tasks(new_graph(), None, config, tmp_path / "counted", executor), expected)
    assert len([name for name in executor.names if name.startswith("count-0")]) > 2
    monkeypatch.setattr(measures, "MOST_PATHS", 1000)
    monkeypatch.setattr(measures, "SHARE_ROWS", 900)
    estimated = on_one_machine(new_graph(), None, config)
    executor = Here()
    assert_equal(by_tasks(new_graph(), None, config, tmp_path / "estimated", executor), estimated)
    assert len([name for name in executor.names if name.startswith("count-0")]) == 4
    assert not torch.equal(estimated["mean"], expected["mean"])


def test_a_killed_fit_goes_on_and_another_one_starts_anew(tmp_path):
    config, graph = ExactConfig(), new_graph()
    expected = on_one_machine(new_graph(), FEATURES["words"], config)
    whole = Here()
    by_tasks(new_graph(), FEATURES["words"], config, tmp_path / "whole", whole)
    for stop_after in (3, 60, len(whole.names) - 5):
        folder = tmp_path / str(stop_after)
        with pytest.raises(KilledError):
            by_tasks(new_graph(), FEATURES["words"], config, folder, Here(stop_after))
        with written_parts() as wrote:
            assert_equal(by_tasks(new_graph(), FEATURES["words"], config, folder, Here()), expected)
        assert set(wrote).isdisjoint(name for name in whole.names[:stop_after] if name.startswith(("count", "core")))
        assert_equal(by_tasks(graph, FEATURES["words"], config, folder, Here(0)), expected)  # nothing is left to do
    other = replace_seed(config)
    expected = on_one_machine(new_graph(), FEATURES["words"], other)
    assert_equal(by_tasks(new_graph(), FEATURES["words"], other, tmp_path / "3", Here()), expected)


@contextlib.contextmanager
def written_parts():
    """The names of the parts that are written in the block."""
    names, write = [], Parts.write
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Parts, "write", lambda self, name, arrays: (names.append(name), write(self, name, arrays)))
        yield names


@pytest.mark.parametrize("case", ["structure", "words"])
def test_the_plan_of_a_fit_counts_the_bytes_that_are_written(tmp_path, case):
    graph, config, written, write = new_graph(), ExactConfig(), collections.Counter(), Parts.write
    with pytest.MonkeyPatch.context() as patch:

        def count(self, name, arrays):
            kind = name.partition("-")[0] if "sample" not in name and "means" not in name else "other"
            written[kind] += sum(array.nbytes for array in arrays)  # means are of stripes, of which the plan has none
            write(self, name, arrays)

        patch.setattr(Parts, "write", count)
        by_tasks(graph, FEATURES[case], config, tmp_path, Here())
    width = 0 if case == "structure" else FEATURES[case].shape[1]
    work = cluster_plan.work_of(config, N, graph.n_edges, width)
    fit = cluster_plan.plan_fit(work, cluster_plan.Hosts(4, 8 << 30), cluster_plan.Rates(1e-9, 1e-9, 1e-9))

    assert fit.counts["noisy copies"] == config.n_views(N) == work.views
    assert fit.bytes["between levels"] == sum(written[name] for name in ("place", *(["actions"] if width else [])))
    assert abs(written["rows"] / fit.bytes["copies of the graph"] - 1) < 0.05  # what is drawn varies
    assert cluster_plan.plan_fit(cluster_plan.work_of(Config(), N, 9000), cluster_plan.Hosts(4, 8 << 30), None) is None


def replace_seed(config):
    return ExactConfig(**config.as_dict() | {"seed": config.seed + 1})


def test_embedding_takes_the_measures_of_a_fit_by_tasks(tmp_path, monkeypatch):
    graph = new_graph()
    by_tasks(graph, None, ExactConfig(), tmp_path, Here())
    model = RAE().fit(new_graph())
    expected = model.transform(new_graph())
    monkeypatch.setattr("rae.model.structure.measure", None)  # nothing is counted again
    assert np.array_equal(model.transform(graph), expected)


def test_what_a_fit_on_a_cluster_needs_is_said():
    with pytest.raises(ConfigError, match="shared must be what names of files begin with that all hosts"):
        RAE().fit(new_graph(), ray="local")


# ---------------------------------------------------------------------------------- roles


def vectors_with_ties():
    """Vectors of which many are the same, and many begin with the same number."""
    rng = np.random.default_rng(5)
    z = rng.normal(size=(6000, 4)).astype(np.float32) + 4 * rng.integers(3, size=(6000, 1))
    z[::3, 0] = 1.5
    z[100:900] = z[7]
    return np.ascontiguousarray(z, np.float32)


@pytest.mark.parametrize("in_folder", [False, True])
def test_roles_by_parts_are_those_of_one_machine(tmp_path, monkeypatch, in_folder):
    monkeypatch.setattr("rae.roles.model.SAMPLE_ROWS", 500)
    for module in ("model", "cluster"):
        monkeypatch.setattr(f"rae.roles.{module}.CHUNK_ROWS", 300)
    z = vectors_with_ties()
    ids = np.arange(len(z))
    path = tmp_path / ("vectors" if in_folder else "z.parquet")
    if in_folder:
        path.mkdir()
        for i, rows in enumerate(np.array_split(ids, 5)):
            write_embeddings(path / f"part-{i}.parquet", rows, z[rows])
    else:
        monkeypatch.setattr("rae.io.embeddings.GROUP_BYTES", 4 * 4 * 700)
        write_embeddings(path, ids, z)
    one = Roles(max_k=6).fit(z)
    by_parts = vectors_by_parts(path, f"{tmp_path}/r", ["here"], Here())

    assert np.array_equal(by_parts.sample(500, 0), sample_rows(z, 500, 0))
    other = Roles(max_k=6).fit_from(by_parts)
    assert np.array_equal(other.parameters.centers, one.parameters.centers)
    for name in ("labels", "confidence", "memberships", "distances"):
        assert np.array_equal(getattr(other.assignment, name), getattr(one.assignment, name)), name
    everything = vectors_by_parts(path, f"{tmp_path}/r", ["all"], Here())
    assert np.array_equal(everything.sample(10**6, 0), sample_rows(z, 10**6, 0))


def test_vectors_that_a_cluster_cannot_read_by_rows_are_refused(tmp_path):
    write_embeddings(tmp_path / "z.csv", np.arange(3), np.eye(3, dtype=np.float32))
    with pytest.raises(FileError, match=r"z.csv must be embeddings in Parquet to be read by rows"):
        vectors_by_parts(tmp_path / "z.csv", f"{tmp_path}/r", [], Here()).sample(2, 0)
    run = fit_run(new_graph(), out=tmp_path / "run", page=False)
    run.update(added=[(0, 1), (0, 2)], fold=False)
    with pytest.raises(RunError, match=r"write them to one file first: Run.fold\(\)"):
        run.fit_roles(ray="local")
    assert main(["roles", str(run.path), "--ray", "local", "--reliability"]) == 2


# ---------------------------------------------------------------------------------- training by draws


def alone(tensors):
    """The mean over one worker."""


def train_in_threads(files, loss):
    """All workers of a training as threads, whose tensors are averaged when all have come."""
    workers = files.description.workers
    if workers == 1:
        train(files, loss, 0, alone)
        return
    gate, sent = threading.Barrier(workers), [None] * workers

    def average(rank, tensors):
        sent[rank] = [tensor.clone() for tensor in tensors]
        gate.wait()
        means = [torch.stack(same).mean(0) for same in zip(*sent, strict=True)]
        gate.wait()
        for tensor, mean in zip(tensors, means, strict=True):
            tensor.copy_(mean)

    with ThreadPoolExecutor(workers) as pool:
        running = [pool.submit(train, files, loss, rank, partial(average, rank)) for rank in range(workers)]
        for one in running:
            one.result()


def by_draws(folder, config, features=None, run=train_in_threads, **options):
    graph = new_graph()
    x = Features.of(graph, features, config)
    losses = ("within", "neighbor") if config.loss == "both" else (config.loss,)
    fits = fit_by_draws(graph, x, config, losses, f"{folder}/z.fit", Here(), run, **options)
    return {loss: (encoder.state_dict(), history) for loss, (encoder, history) in fits.items()}


def trained_here(config, features=None):
    graph = new_graph()
    losses = ("within", "neighbor") if config.loss == "both" else (config.loss,)
    fits = {loss: training.fit(graph, Features.of(graph, features, config), config, loss) for loss in losses}
    return {loss: (encoder.state_dict(), history) for loss, (encoder, history) in fits.items()}


@pytest.mark.parametrize("shuffle", ["neighbors", "rows"])
def test_one_worker_over_draws_does_what_one_machine_does(tmp_path, shuffle):
    config = Config(loss="both", shuffle=shuffle, **SMALL)
    expected, got = trained_here(config), by_draws(tmp_path, config)
    for loss, (state, history) in expected.items():
        assert_equal(state, got[loss][0])
        assert history == got[loss][1]


@pytest.mark.parametrize(("case", "tolerance"), [("words", 0), ("table", 1e-4)])
def test_features_are_drawn_too_and_means_that_come_first_are_near(tmp_path, case, tolerance):
    config = Config(**SMALL | {"steps": 5})
    (expected, _), (got, _) = (
        trained_here(config, FEATURES[case])["within"],
        by_draws(tmp_path, config, FEATURES[case])["within"],
    )
    for name, tensor in expected.items():
        assert (tensor.double() - got[name].double()).abs().max() <= tolerance, name


def test_a_training_goes_on_from_what_was_kept(tmp_path):
    config = Config(**SMALL)
    for workers in (1, 2):
        expected = by_draws(tmp_path / f"whole{workers}", config, workers=workers)

        def killed(files, loss):
            shorter = replace(
                files, description=replace(files.description, config=files.description.config | {"steps": 14})
            )
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("rae.engine.trained_fit.KEEP_EVERY", 5)
                train_in_threads(shorter, loss)
            raise KilledError

        with pytest.raises(KilledError):
            by_draws(tmp_path / f"part{workers}", config, run=killed, workers=workers)
        with written_parts() as wrote:
            after = by_draws(tmp_path / f"part{workers}", config, workers=workers)
        assert wrote == ["state-within"] * 2  # at steps 20 and 25
        if workers == 1:
            assert_equal(expected["within"][0], after["within"][0])
        assert after["within"][1][-1].value == pytest.approx(expected["within"][1][-1].value, rel=0.05)


def test_several_workers_learn_as_well_as_one(tmp_path):
    config = Config(**SMALL | {"steps": 60})
    one, two = by_draws(tmp_path / "1", config), by_draws(tmp_path / "2", config, workers=2)
    first, last = (one["within"][1][i].value for i in (0, -1))
    assert abs(two["within"][1][-1].value - last) < 0.25 * (first - last)
    assert {entry.step for entry in two["within"][1]} == {entry.step for entry in one["within"][1]}


def test_what_a_cluster_does_not_train_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"loss='agree' is trained on one machine.*; leave ray out"):
        by_draws(tmp_path, Config(loss="agree"))
    with pytest.raises(ConfigError, match=r"ray_workers must be from 1 to half of a batch \(24\), got 25"):
        by_draws(tmp_path, Config(**SMALL), workers=25)
    with pytest.raises(ClusterError, match="ended after 0 of 25 steps; give the same command again"):
        by_draws(tmp_path, Config(**SMALL), run=lambda *_: None)
    untrained = by_draws(tmp_path, Config(**SMALL | {"steps": 0}))
    assert_equal(untrained["within"][0], trained_here(Config(**SMALL | {"steps": 0}))["within"][0])
