"""The plan: its formulas against plain counting, its predictions loosely against a real fit."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from rae import PAPER, Config, Graph
from rae.errors import GraphError
from rae.features import prepare
from rae.plan import PROGRAM, fit_seconds, memory, plan, rows_by_level
from rae.sampling import sample_blocks

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
    x = prepare(graph, None, SMALL)
    parts = memory(graph, x, SMALL)

    assert parts["graph"] == graph.offsets.nbytes + graph.targets.nbytes + graph.id_column.nbytes
    assert parts["features"] == x.nbytes
    sparse = sp.random_array((graph.n_nodes, 50), density=0.1, format="csr", dtype=np.float32, rng=0)
    kept = sp.csr_array(sparse)
    assert memory(graph, kept, SMALL)["features"] == kept.data.nbytes + kept.indices.nbytes + kept.indptr.nbytes


def test_the_peak_is_at_least_what_is_there_at_once(graph):
    parts = memory(graph, prepare(graph, None, PAPER), PAPER, file_bytes=10**9)

    assert parts["peak"] >= PROGRAM + 10**9
    assert parts["embedding"] >= 4 * graph.n_nodes * PAPER.width


@pytest.mark.parametrize(
    ("small", "large"),
    [({"batch_size": 16}, {"batch_size": 64}), ({"positives": 1}, {"positives": 9}), ({"projections": 1}, {})],
)
def test_more_work_a_step_needs_more_memory(graph, small, large):
    x = prepare(graph, None, SMALL)

    assert memory(graph, x, SMALL.replace(**small))["step"] < memory(graph, x, SMALL.replace(**large))["step"]


def test_without_steps_there_is_no_step(graph):
    untrained = SMALL.replace(steps=0)
    made = plan(graph, None, untrained)

    assert made.memory["step"] == 0
    assert made.seconds["fit"] == 0


def test_both_losses_take_about_twice_the_room_of_one(graph):
    x = prepare(graph, None, SMALL)

    assert memory(graph, x, SMALL.replace(loss="both"))["embedding"] > 1.5 * memory(graph, x, SMALL)["embedding"]
    assert memory(graph, x, SMALL.replace(loss="neighbor"))["step"] > 0


def test_every_stage_has_a_time_and_the_total_is_their_sum(graph):
    made = plan(graph, None, SMALL, read_seconds=2.5)
    stages = ("read", "fit", "embed", "write")

    assert made.seconds["read"] == 2.5
    assert all(made.seconds[stage] > 0 for stage in stages)
    assert made.seconds["total"] == pytest.approx(sum(made.seconds[stage] for stage in stages))


def test_a_large_graph_is_measured_on_a_small_one(monkeypatch, graph):
    monkeypatch.setattr("rae.plan.SAMPLE", 500)
    x = sp.random_array((graph.n_nodes, 20), density=0.1, format="csr", dtype=np.float32, rng=0)

    assert plan(graph, x, SMALL.replace(inference="sampled")).seconds["embed"] > 0
    assert plan(graph, None, SMALL).seconds["embed"] > 0


def test_more_steps_take_longer(graph):
    few, many = (plan(graph, None, SMALL.replace(steps=steps)).seconds["fit"] for steps in (1, 100_000))

    assert many > few


def test_a_graph_without_edges_is_refused_before_any_step():
    lonely = Graph.from_edges([], ids=[1, 2, 3])
    with pytest.raises(GraphError, match="training needs edges"):
        fit_seconds(lonely, prepare(lonely, None, SMALL), SMALL, "within")
