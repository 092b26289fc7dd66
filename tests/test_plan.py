"""The plan: its formulas against plain counting, its predictions loosely against a real fit."""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy.sparse as sp

from rae import PAPER, RAE, Config, ExactConfig, Graph, open_graph, write_graph
from rae.engine.layout import PROGRAM
from rae.errors import ConfigError, GraphError, MemoryWarning
from rae.features import Features, structural_features
from rae.io.embeddings import GROUP_BYTES
from rae.model.sampling import sample_blocks
from rae.plan import available_memory, check_budget, fit_seconds, least_budget, memory, plan, rows_by_level, shortage

SMALL = Config(dims=(8, 4), fanout=(4, 3), steps=3, batch_size=32)


@pytest.fixture(scope="module")
def graph():
    rng = np.random.default_rng(0)
    return Graph.from_edges(rng.integers(3_000, size=(9_000, 2)))


def test_expected_rows_are_near_those_that_are_sampled(graph):
    nodes = np.random.default_rng(1).choice(graph.n_nodes, 64, replace=False)
    below, blocks = sample_blocks(graph, nodes, (4, 3), 0, "test")
    sampled = [len(below), *(block.n_rows for block in blocks)]

    np.testing.assert_allclose(rows_by_level(graph, 64, SMALL), sampled, rtol=0.25)


def test_the_graph_and_the_features_are_counted_exactly(graph):
    x = structural_features(graph)
    parts = memory(graph, x, SMALL)

    assert parts["graph"] == graph.offsets.nbytes + graph.targets.nbytes + graph.id_column.nbytes
    assert parts["features"] == x.nbytes
    sparse = sp.random_array((graph.n_nodes, 50), density=0.1, format="csr", dtype=np.float32, rng=0)
    stored = sp.csr_array(sparse)
    assert memory(graph, stored, SMALL)["features"] == stored.data.nbytes + stored.indices.nbytes + stored.indptr.nbytes


def test_the_peak_is_at_least_what_is_there_at_once(graph):
    parts = memory(graph, structural_features(graph), PAPER, file_bytes=10**9)

    assert parts["peak"] >= PROGRAM + 10**9
    assert parts["embedding"] >= 4 * graph.n_nodes * PAPER.width  # a small graph is one row group


@pytest.mark.parametrize(
    ("settings", "columns"),
    [
        ({}, 64),  # the first level averages the 31 features as they are, the second what it projects
        ({"loss": "both"}, 2 * 64),
        ({"order": "project_first"}, 192 + 64),
        ({"dims": (16, 64), "fanout": (3, 3)}, 16 + 16),  # the second level averages the vectors of the first
    ],
)
def test_the_rows_that_levels_average_are_held_and_not_the_vectors(settings, columns):
    n = 1_000_000
    large = Graph.from_edges((np.arange(n), np.roll(np.arange(n), 1)))

    assert memory(large, None, PAPER.replace(**settings))["embedding"] == 4 * n * columns + 5 * GROUP_BYTES


@pytest.mark.parametrize(("loss", "encoders"), [("within", 1), ("both", 2)])
def test_a_small_graph_is_one_row_group_of_its_vectors(graph, loss, encoders):
    averaged, width = 8 + 4, 8 + 4  # both levels project first

    embedding_bytes = memory(graph, None, SMALL.replace(loss=loss))["embedding"]
    assert embedding_bytes == 4 * graph.n_nodes * encoders * (averaged + 5 * width)


@pytest.mark.parametrize(
    ("small", "large"),
    [({"batch_size": 16}, {"batch_size": 64}), ({"positives": 1}, {"positives": 9}), ({"projections": 1}, {})],
)
def test_more_work_a_step_needs_more_memory(graph, small, large):
    x = structural_features(graph)

    assert memory(graph, x, SMALL.replace(**small))["step"] < memory(graph, x, SMALL.replace(**large))["step"]


def test_without_steps_there_is_no_step(graph):
    untrained = SMALL.replace(steps=0)
    expected_plan = plan(graph, None, untrained)

    assert expected_plan.memory["step"] == 0
    assert expected_plan.seconds["fit"] == 0


def test_both_losses_take_about_twice_the_room_of_one(graph):
    x = structural_features(graph)

    assert memory(graph, x, SMALL.replace(loss="both"))["embedding"] > 1.5 * memory(graph, x, SMALL)["embedding"]
    assert memory(graph, x, SMALL.replace(loss="neighbor"))["step"] > 0


def test_every_stage_has_a_time_and_the_total_is_their_sum(graph):
    expected_plan = plan(graph, None, SMALL, read_seconds=2.5)
    stages = ("read", "fit", "embed", "write")

    assert expected_plan.seconds["read"] == 2.5
    assert all(expected_plan.seconds[stage] > 0 for stage in stages)
    assert expected_plan.seconds["total"] == pytest.approx(sum(expected_plan.seconds[stage] for stage in stages))


def test_a_large_graph_is_measured_on_a_small_one(monkeypatch, graph):
    monkeypatch.setattr("rae.plan.SAMPLE", 500)
    x = sp.random_array((graph.n_nodes, 20), density=0.1, format="csr", dtype=np.float32, rng=0)

    assert plan(graph, x, SMALL.replace(inference="sampled")).seconds["embed"] > 0
    assert plan(graph, None, SMALL).seconds["embed"] > 0


def test_parts_on_disk_take_longer_than_none(graph, monkeypatch):
    monkeypatch.setattr("rae.plan._part_seconds", lambda: 1.0)
    whole, bounded = (plan(graph, None, SMALL, budget=budget).seconds["embed"] for budget in (None, "2GiB"))

    assert bounded - whole > 4 * graph.n_nodes


def test_halves_take_half_the_room_and_half_the_disk(graph, monkeypatch):
    monkeypatch.setattr("rae.plan._part_seconds", lambda: 1.0)
    n = graph.n_nodes
    whole, half = (plan(graph, None, SMALL, budget="2GiB", half=half) for half in (False, True))

    assert whole.memory["embedding"] - half.memory["embedding"] == 2 * n * 8  # of the first level, the widest
    assert whole.seconds["embed"] - half.seconds["embed"] == pytest.approx(2 * n * 2 * (8 + 4), rel=0.01)


def test_the_precision_of_the_file_is_that_whose_writing_is_timed(graph, monkeypatch):
    dtypes = []
    monkeypatch.setattr("rae.plan.write_embeddings", lambda *_, dtype: dtypes.append(dtype))
    plan(graph, None, SMALL, dtype="float16")

    assert dtypes == ["float16"]


def test_a_budget_that_nothing_keeps_to_is_refused_before_any_step(graph):
    with pytest.raises(ConfigError, match=r"memory must be .* GiB or more"):
        plan(graph, None, SMALL, budget="10MB")


def test_more_steps_take_longer(graph):
    few, many = (plan(graph, None, SMALL.replace(steps=steps)).seconds["fit"] for steps in (1, 100_000))

    assert many > few


def test_a_graph_without_edges_is_refused_before_any_step():
    isolated = Graph.from_edges([], ids=[1, 2, 3])
    with pytest.raises(GraphError, match="training needs edges"):
        fit_seconds(isolated, Features.of(isolated, None, SMALL), SMALL, "within")


def test_what_is_not_prepared_yet_is_counted_as_if_it_were(graph):
    x = np.ones((graph.n_nodes, 5), np.float32)
    for features, config in ((None, SMALL), (x, SMALL), (x, SMALL.replace(add_structure=True))):
        assert (
            memory(graph, features, config)["features"]
            == Features.of(graph, features, config).rows(0, graph.n_nodes).nbytes
        )


def test_a_graph_folder_costs_no_reading(graph):
    parts = memory(graph, None, SMALL, file_bytes=10**12, from_folder=True)

    assert parts["read"] == 0
    assert parts["peak"] < 10**12


def test_a_budget_bounds_what_embedding_takes():
    large = Graph.from_edges((np.arange(1_000_000), np.roll(np.arange(1_000_000), 1)))
    untrained = PAPER.replace(steps=0)
    whole, bounded, tight = (memory(large, None, untrained, budget=b)["peak"] for b in (None, "9GiB", "950MB"))

    assert tight == 950_000_000
    assert tight < bounded < whole


def test_a_plan_of_a_mapped_graph_keeps_to_the_budget_that_the_fit_keeps_to(tmp_path):
    rng, ends = np.random.default_rng(0), np.random.default_rng(1).integers(60_000, size=(600_000, 2))
    options = {"weight": rng.random(len(ends)) + 0.1, "directed": True, "kind": rng.choice(["a", "b", "c"], len(ends))}
    write_graph(tmp_path / "graph", Graph.from_edges(ends, **options))
    graph = open_graph(tmp_path / "graph")
    least = least_budget(graph, None, ExactConfig())
    peaks = [memory(graph, None, ExactConfig(), budget=b, from_folder=True)["peak"] for b in (least, 2 * least, 2**40)]

    assert peaks[0] <= least
    assert peaks[1] <= 2 * least
    assert peaks[2] > peaks[0]  # noisy copies lie in memory where there is room
    assert peaks[2] <= memory(graph, None, ExactConfig(), from_folder=True)["peak"]


# ----------------------------------------------------------------------------- memory there is


def _machine(root, **files):
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("DOT", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


MEMINFO = "MemTotal:  9000 kB\nMemFree:  10 kB\nMemAvailable:  8000 kB\n"


def test_the_machine_says_what_is_available(tmp_path):
    assert available_memory(tmp_path) is None
    assert available_memory(_machine(tmp_path, proc__meminfo=MEMINFO)) == 8_000 * 1024


def test_a_control_group_that_allows_less_counts(tmp_path):
    _machine(
        tmp_path, proc__meminfo=MEMINFO, sys__fs__cgroup__memoryDOTmax="max\n", sys__fs__cgroup__memoryDOTcurrent="5"
    )
    assert available_memory(tmp_path) == 8_000 * 1024
    _machine(tmp_path, sys__fs__cgroup__memoryDOTmax="5000\n", sys__fs__cgroup__memoryDOTcurrent="3000\n")
    assert available_memory(tmp_path) == 2_000
    _machine(tmp_path, sys__fs__cgroup__memoryDOTstat="anon 1\ninactive_file 500\nslab 2\n")
    assert available_memory(tmp_path) == 2_500
    where = tmp_path / "sys/fs/cgroup/memory"
    where.mkdir()
    (where / "memory.limit_in_bytes").write_text("1000")
    (where / "memory.usage_in_bytes").write_text("400")
    assert available_memory(tmp_path) == 600


def test_what_the_process_holds_already_is_not_needed_again(tmp_path):
    _machine(tmp_path, proc__meminfo="MemAvailable: 100 kB", proc__self__status="Name: x\nVmRSS:\t 50 kB\n")

    assert shortage(150 * 1024, tmp_path) is None
    assert shortage(151 * 1024, tmp_path) == (101 * 1024, 100 * 1024)
    assert shortage(10**18, tmp_path / "elsewhere") is None


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("settings", [{}, {"loss": "both"}, {"add_structure": True}])
@pytest.mark.parametrize("storage", [None, "dense", "sparse"])
def test_the_least_budget_is_the_least_that_embedding_takes(tmp_path, graph, storage, settings, half):
    x = None if storage is None else np.eye(graph.n_nodes, 20, dtype=np.float32)
    x = sp.csr_array(x) if storage == "sparse" else x
    config = SMALL.replace(steps=0, **settings)
    least = least_budget(graph, x, config, half=half)
    model = RAE(config).fit(graph, features=x)

    assert model.embed_to(tmp_path / "z.parquet", graph, x, memory=least, half=half) > 0
    with pytest.warns(MemoryWarning, match="is enough, but slow"):
        check_budget(least, graph, x, config, half=half)
    for refused in (
        lambda: model.embed_to(tmp_path / "z.parquet", graph, x, memory=least - 1, half=half),
        lambda: check_budget(least - 1, graph, x, config, half=half),
    ):
        with pytest.raises(ConfigError, match="memory must be"):
            refused()


def test_a_budget_that_takes_many_passes_says_so_and_the_one_it_advises_does_not(graph):
    config = ExactConfig()
    least = least_budget(graph, None, config)
    with pytest.warns(MemoryWarning, match=r"over the edges \d+ times; 4 times with memory='\d+MiB'$") as caught:
        check_budget(least, graph, None, config)
    advised = re.search(r"'(\d+MiB)'$", str(caught[0].message))

    assert advised
    check_budget(advised[1], graph, None, config)  # a warning would be an error
