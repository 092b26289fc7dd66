"""Laws that hold for every graph and every model."""

from __future__ import annotations

import os
import signal
import threading

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from plain import random_graph, relabel
from rae import PAPER, RAE, Graph, set_threads
from rae.engine import embed, encoder_models
from rae.features import Features
from rae.runtime import torch_alone

SMALL = PAPER.replace(dims=(16, 8), fanout=(3, 4), steps=5, batch_size=32)


@pytest.fixture(scope="module")
def graph():
    return random_graph(120, 260, seed=1)


@pytest.fixture(scope="module")
def words():
    return sp.random_array((120, 40), density=0.1, rng=np.random.default_rng(2), dtype=np.float32).tocsr()


@pytest.mark.parametrize("loss", ["within", "neighbor", "both"])
def test_same_seed_gives_the_same_bytes_and_another_seed_does_not(graph, words, loss):
    a = RAE(SMALL, loss=loss, seed=3).fit_transform(graph, features=words)
    b = RAE(SMALL, loss=loss, seed=3).fit_transform(graph, features=words)
    c = RAE(SMALL, loss=loss, seed=4).fit_transform(graph, features=words)

    assert a.tobytes() == b.tobytes()
    assert not np.allclose(a, c)


def test_fitting_touches_no_global_random_state(graph):
    np.random.seed(5)
    torch.manual_seed(5)
    before = np.random.get_state()[1].copy(), torch.get_rng_state()

    RAE(SMALL, loss="both", degree_above_cap="random", inference="sampled", input_dropout=0.5).fit_transform(graph)

    assert np.array_equal(np.random.get_state()[1], before[0])
    assert torch.equal(torch.get_rng_state(), before[1])


@pytest.mark.parametrize("order", ["average_first", "project_first"])
@pytest.mark.parametrize("sparse", [False, True])
def test_relabelling_nodes_permutes_the_embedding(graph, words, order, sparse):
    x = words if sparse else words.toarray()
    model = RAE(SMALL, order=order).fit(graph, features=x)
    new = np.random.default_rng(0).permutation(graph.n_nodes)

    z, moved = model.transform(graph, x), model.transform(relabel(graph, new), x[new])

    assert np.allclose(z[new], moved, atol=1e-6)


def test_relabelling_permutes_the_structural_embedding_too(graph):
    model = RAE(SMALL).fit(graph)
    new = np.random.default_rng(0).permutation(graph.n_nodes)

    assert np.allclose(model.transform(graph)[new], model.transform(relabel(graph, new)), atol=1e-6)


@pytest.mark.parametrize("tile", [1, 7, 50, 10_000])
def test_the_tile_size_does_not_matter(graph, words, tile):
    model = RAE(SMALL).fit(graph, features=words)
    features = Features.of(graph, words, model.config)

    assert np.allclose(
        embed(encoder_models(model.encoders, features), tile=tile), model.transform(graph, words), atol=1e-6
    )


@pytest.mark.parametrize("sparse", [False, True])
def test_the_number_of_threads_does_not_matter(sparse):
    """Not of ours, not of torch's: the same bytes, from the fit to the last vector."""
    graph = random_graph(6000, 18000, seed=3)
    x = sp.random_array((6000, 40), density=0.1, rng=np.random.default_rng(2), dtype=np.float32).tocsr()
    model = RAE(SMALL, dims=(64, 64))
    outputs = []
    for count in (1, 3):
        set_threads(count)
        torch.set_num_threads(count)
        try:
            outputs.append(model.fit_transform(graph, features=x if sparse else x.toarray()).tobytes())
            assert torch.get_num_threads() == count
        finally:
            set_threads(1)
            torch.set_num_threads(1)

    assert outputs[0] == outputs[1]


def test_a_stranger_gets_the_vector_it_would_have_had_in_the_graph_of_the_fit(graph, words):
    """The fit never sees the last node; embedding the grown graph moves only its surroundings."""
    ends = np.repeat(np.arange(120), graph.degrees)
    both_old = (ends != 119) & (graph.targets != 119)
    smaller = Graph.from_edges((ends[both_old], graph.targets[both_old]), ids=np.arange(119))
    model = RAE(SMALL).fit(smaller, features=words[:119])

    old, grown = model.transform(smaller, words[:119]), model.transform(graph, words, whole=True)

    near = {119, *graph.neighbors(119)} | {int(w) for v in graph.neighbors(119) for w in graph.neighbors(v)}
    far = sorted(set(range(119)) - near)
    assert len(far) > 20
    assert np.allclose(old[far], grown[far], atol=1e-6)
    assert np.isfinite(grown).all()


def test_nothing_beyond_k_hops_matters():
    """A path: changing the features of a node moves the vectors within two hops, no others."""
    graph = Graph.from_edges([(i, i + 1) for i in range(20)])
    x = np.random.default_rng(0).normal(size=(21, 5)).astype(np.float32)
    model = RAE(SMALL).fit(graph, features=x)
    changed = x.copy()
    changed[10] += 1

    moved = np.abs(model.transform(graph, x) - model.transform(graph, changed)).max(1) > 1e-6

    assert np.flatnonzero(moved).tolist() == [8, 9, 10, 11, 12]


@pytest.mark.parametrize("storage", ["structure", "sparse", "dense"])
@pytest.mark.parametrize("dims", [(16, 8), (8, 16, 24), (30,)])
@pytest.mark.parametrize("loss", ["within", "both"])
def test_some_nodes_get_the_vectors_they_have_among_all(graph, words, storage, dims, loss):
    x = {"structure": None, "sparse": words, "dense": words.toarray()}[storage]
    model = RAE(SMALL, loss=loss, dims=dims, fanout=(3,) * len(dims)).fit(graph, features=x)
    nodes = np.array([77, 3, 110])

    assert np.allclose(model.transform(graph, x, nodes=nodes), model.transform(graph, x)[nodes], atol=1e-6)
    assert np.allclose(model.transform(graph, x, nodes=[5]), model.transform(graph, x)[5:6], atol=1e-6)
    sampled = RAE(model.config, inference="sampled", steps=0).fit(graph, features=x)
    assert np.allclose(sampled.transform(graph, x, nodes=nodes), sampled.transform(graph, x)[nodes], atol=1e-6)


@pytest.mark.parametrize("n", [2048, 2049, 2050, 2051, 2053])
def test_equal_positions_get_equal_vectors_wherever_a_tile_ends(n):
    star = Graph.from_edges([(0, i) for i in range(1, n)])
    z = RAE(SMALL, steps=0).fit_transform(star)

    assert len(np.unique(z, axis=0)) == 2


def test_a_model_embeds_another_graph():
    model = RAE(SMALL).fit(random_graph(100, 300))
    other = Graph.from_edges([("x", "y"), ("y", "z")])

    z = model.transform(other, whole=True)

    assert z.shape == (3, 24)
    assert np.allclose(z[0], z[2], atol=1e-7)
    assert not np.allclose(z[0], z[1], atol=1e-3)


def test_two_copies_of_a_graph_get_equal_vectors(graph):
    """Automorphic nodes, here the two copies of each node, have equal positions."""
    pair = Graph.disjoint_union([graph, graph])

    z = RAE(SMALL).fit_transform(pair)

    assert np.allclose(z[:120], z[120:], atol=1e-6)


def test_both_is_the_two_fits_side_by_side(graph, words):
    within = RAE(SMALL, loss="within").fit_transform(graph, features=words)
    neighbor = RAE(SMALL, loss="neighbor").fit_transform(graph, features=words)

    assert np.array_equal(RAE(SMALL, loss="both").fit_transform(graph, features=words), np.hstack([within, neighbor]))


def test_isolated_nodes_get_finite_vectors():
    graph = Graph.from_edges([("a", "b"), ("b", "c")], ids=["a", "b", "c", "alone", "lonely"])
    for loss in ("within", "neighbor"):
        z = RAE(SMALL, loss=loss).fit_transform(graph)

        assert np.isfinite(z).all()
        assert np.array_equal(z[3], z[4])


def test_sampled_inference_with_a_large_fanout_is_the_exact_one(graph, words):
    model = RAE(SMALL, inference="sampled", fanout=(999, 999)).fit(graph, features=words)
    exact = RAE(SMALL, fanout=(999, 999)).fit(graph, features=words)

    assert np.allclose(model.transform(graph, words), exact.transform(graph, words), atol=1e-6)


def test_sampled_inference_repeats_itself_and_differs_from_the_exact_one(graph, words):
    model = RAE(SMALL, inference="sampled").fit(graph, features=words)

    assert np.array_equal(model.transform(graph, words), model.transform(graph, words))
    assert not np.allclose(model.transform(graph, words), RAE(SMALL).fit(graph, features=words).transform(graph, words))


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=40),
    st.integers(0, 3),
)
def test_any_graph_with_an_edge_gets_finite_vectors(edges, extra):
    graph = Graph.from_edges(edges, ids=range(13 + extra))
    model = RAE(SMALL, steps=2, dropout=0.0)
    if graph.n_edges == 0:
        model.set_params(steps=0)

    assert np.isfinite(model.fit_transform(graph)).all()


@pytest.mark.parametrize("readout", ["sum", "mean", "max"])
def test_many_graphs_in_one_pass_equal_one_by_one(readout):
    graphs = [random_graph(n, 2 * n, seed=n) for n in (3, 17, 40, 5)]
    model = RAE(SMALL, steps=0).fit(graphs)
    reduce = {"sum": np.sum, "mean": np.mean, "max": np.max}[readout]

    together = model.embed_graphs(graphs, readout=readout)
    alone = np.stack([reduce(model.transform(g, whole=True), axis=0) for g in graphs])

    assert np.allclose(together, alone, atol=1e-4)


def test_many_graphs_are_cut_into_bounded_groups(monkeypatch):
    import rae.estimator

    graphs = [random_graph(n, 2 * n, seed=n) for n in (30, 17, 40, 5, 8)]
    features = [np.random.default_rng(i).normal(size=(g.n_nodes, 3)) for i, g in enumerate(graphs)]
    model = RAE(SMALL, steps=3).fit(graphs, features=features)
    whole = model.embed_graphs(graphs, features)
    monkeypatch.setattr(rae.estimator, "_NODES_AT_ONCE", 25)

    assert np.allclose(model.embed_graphs(graphs, features), whole, atol=1e-5)


@pytest.mark.parametrize("loss", ["within", "neighbor"])
@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("edges", [[(0, 1)], [(0, 1), (1, 2)], [(0, 1), (0, 2), (1, 2)]])
@pytest.mark.filterwarnings("ignore::rae.errors.CollapseWarning")  # nodes of a complete graph are alike
def test_the_smallest_graphs_can_be_fitted(loss, depth, edges):
    graph = Graph.from_edges(edges)

    z = RAE(loss=loss, dims=(4,) * depth, fanout=(2,) * depth, steps=3).fit_transform(graph)

    assert np.isfinite(z).all()


@pytest.mark.parametrize("loss", ["within", "neighbor"])
def test_many_threads_give_the_bytes_of_one(loss):
    """Four and more: the two sides of a step have threads of their own."""
    ends = np.random.default_rng(0).integers(3000, size=(2, 20_000))
    graph = Graph.from_edges((ends[0], ends[1]))
    outputs = []
    for count in (1, 2, 4, 5, 8):
        set_threads(count)
        try:
            outputs.append(RAE(loss=loss, steps=2).fit_transform(graph).tobytes())
        finally:
            set_threads(1)

    assert len(set(outputs)) == 1


def test_a_forked_child_has_threads_of_its_own():
    ends = np.random.default_rng(0).integers(3000, size=(2, 20_000))
    graph = Graph.from_edges((ends[0], ends[1]))
    set_threads(4)
    try:
        RAE(steps=1).fit(graph)
        child = os.fork()
        if child == 0:  # pragma: no cover - coverage does not follow
            signal.alarm(60)
            try:
                RAE(steps=1).fit_transform(graph)
            finally:
                os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    finally:
        set_threads(1)


def test_a_fit_does_not_care_what_torch_is_in_the_middle_of():
    graph = Graph.from_edges([(i, i * i % 29) for i in range(60)])
    plain = RAE(steps=3, batch_size=8).fit_transform(graph)
    outputs = {}
    with torch.inference_mode():
        outputs["inference"] = RAE(steps=3, batch_size=8).fit_transform(graph)
    with torch.no_grad():
        outputs["no grad"] = RAE(steps=3, batch_size=8).fit_transform(graph)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        outputs["float64"] = RAE(steps=3, batch_size=8).fit_transform(graph)
    finally:
        torch.set_default_dtype(before)

    assert all(np.array_equal(plain, z) for z in outputs.values())


@pytest.mark.parametrize("met", [True, False], ids=["met", "new"])
def test_threads_that_fit_at_once_each_leave_torch_the_threads_they_found(met):
    together, after, before = threading.Barrier(2, timeout=60), {}, torch.get_num_threads()

    def fit(name: str) -> None:
        if met or name == "first":
            torch.set_num_threads(3)
        if name == "second":
            together.wait()  # the first is in its block
        with torch_alone(), torch_alone():
            if name == "first":
                together.wait()
            assert torch.get_num_threads() == 1
            together.wait()  # both are in their blocks
        if name == "second":
            together.wait()  # the first has left its own
        after[name] = torch.get_num_threads()
        if name == "first":
            together.wait()

    workers = [threading.Thread(target=fit, args=(name,)) for name in ("first", "second")]
    try:
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    finally:
        torch.set_num_threads(before)

    assert after == {"first": 3, "second": 3}
