"""Every operation: the compiled library against the plain-torch reference, on one and on several threads."""

from __future__ import annotations

import re
from pathlib import Path

import networkx as nx
import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
import torch

from plain import random_graph, to_networkx
from rae import (
    RAE,
    Config,
    Encoder,
    Graph,
    exact_blocks,
    non_neighbor,
    random_neighbor,
    sample_blocks,
    set_threads,
    structural_features,
)
from rae.errors import ConfigError, FeatureError, GraphError
from rae.features import Features
from rae.model.sampling import Block, shuffle_neighbors, stack
from rae.ops import dense, distances, gather, layout, library, reference, sampling, structure
from rae.ops.library import reference_only
from rae.runtime import key

GRAPH = random_graph(300, 900, seed=4)
HUB = Graph.from_edges([(0, i) for i in range(1, 200)] + [(i, i + 1) for i in range(1, 150)])
WIDTHS = [1, 2, 7, 8, 9, 15, 16, 31, 33, 40, 49, 57, 63, 64, 65, 100, 192]

pytestmark = pytest.mark.skipif(library.library() is None, reason="the library was not compiled: no C compiler")


def wide(graph: Graph) -> Graph:
    """The same graph with 64-bit targets, as graphs of more than 2**31 nodes have them."""
    return Graph(graph.offsets, graph.targets.astype(np.int64), graph.id_column)


def both(operation):
    """What the library and the reference give."""
    fast = operation()
    with reference_only():
        return fast, operation()


@pytest.fixture(params=[1, 3], ids=["1 thread", "3 threads"])
def threads(request):
    set_threads(request.param)
    yield
    set_threads(1)


def rows_of(n: int, width: int, dtype=np.float32) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(width).normal(size=(n, width)).astype(dtype))


# ------------------------------------------------------------------------------ gathering


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("graph", [GRAPH, wide(GRAPH), HUB], ids=["32", "64", "hub"])
def test_means_over_neighborhoods_of_any_width(threads, width, dtype, graph):
    x = rows_of(graph.n_nodes, width, dtype)

    fast, plain = both(lambda: gather.mean(x, graph.offsets, graph.targets))

    assert fast.dtype == torch.float32
    assert torch.allclose(fast, plain, rtol=1e-5, atol=1e-5)
    u = 3
    around = x[[u, *graph.neighbors(u).tolist()]].double().mean(0)
    assert torch.allclose(fast[u].double(), around, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("width", [1, 4, 12, 70])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("graph", [GRAPH, wide(GRAPH), HUB], ids=["32", "64", "hub"])
def test_moments_over_neighbors(threads, monkeypatch, width, graph, dtype):
    monkeypatch.setattr(gather, "MIN_ENTRIES", 64)
    x = rows_of(graph.n_nodes, width, dtype) + 100  # large numbers: a difference of squares would cancel
    spread = -(-width // 2)
    some = np.array([3, graph.n_nodes - 1, 3])

    fast, plain = both(lambda: gather.moments(x, graph.offsets, graph.targets, spread=spread))
    listed, plain_listed = both(lambda: gather.moments(x, graph.offsets, graph.targets, some, spread=spread))

    assert fast.dtype == torch.float32
    assert torch.allclose(fast, plain, rtol=1e-5, atol=1e-5)
    assert torch.allclose(listed, plain_listed, rtol=1e-5, atol=1e-5)
    assert torch.equal(listed, fast[some])
    for u in (3, graph.n_nodes - 1):
        around = x[graph.neighbors(u).tolist()].double()[:, :spread]
        assert torch.allclose(fast[u, width:].double(), around.std(0, correction=0), atol=1e-5)
    alone = np.flatnonzero(graph.degrees == 0)
    assert not fast[alone].any()


def some_weights(graph: Graph, seed: int = 0) -> np.ndarray:
    """Weights of the stored neighbours, many of them 0."""
    rng = np.random.default_rng(seed)
    values = rng.gamma(0.5, 100, len(graph.targets)) * (rng.random(len(graph.targets)) < 0.6)
    return values.astype(np.float32)


@pytest.mark.parametrize("width", [1, 4, 8, 9, 33, 65, 100])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("graph", [GRAPH, wide(GRAPH), HUB], ids=["32", "64", "hub"])
def test_weighted_moments_over_neighbours(threads, width, dtype, graph):
    x, weights = rows_of(graph.n_nodes, width, dtype), some_weights(graph)
    spread, some = -(-width // 2), np.array([3, graph.n_nodes - 1, 3])

    def moments(lists=None, scale=1.0):
        return gather.moments(
            x, graph.offsets, graph.targets, lists, spread=spread, weights=weights * np.float32(scale)
        )

    fast, plain = both(moments)
    assert torch.allclose(fast, plain, rtol=1e-4, atol=1e-5)
    listed, plain_listed = both(lambda: moments(some))
    assert torch.allclose(listed, plain_listed, rtol=1e-4, atol=1e-5)
    assert torch.equal(listed, fast[some])
    for u in (3, 150):
        row = slice(graph.offsets[u], graph.offsets[u + 1])
        around, w = x[graph.neighbors(u).tolist()].double(), torch.from_numpy(weights[row]).double()[:, None]
        mean = (around * w).sum(0) / max(float(w.sum()), 1e-300)
        spreads = torch.sqrt((w * (around - mean) ** 2).sum(0) / max(float(w.sum()), 1e-300))[:spread]
        assert torch.allclose(fast[u].double(), torch.cat([mean, spreads]), rtol=1e-4, atol=1e-5)
    for scale in (2.0**-60, 2.0**20, 1e30, 1e-30):
        assert torch.allclose(moments(scale=scale), fast, rtol=1e-4, atol=1e-5)
    assert torch.equal(moments(scale=8.0), fast)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_moments_of_some_columns_of_a_table_are_those_of_a_copy_of_them(dtype):
    x, weights = rows_of(300, 70, dtype), some_weights(GRAPH)
    for some in (slice(3, 5), slice(0, 32), slice(30, 70), slice(69, 70)):
        part = gather.moments(x[:, some], GRAPH.offsets, GRAPH.targets, spread=1, weights=weights)
        copy = x[:, some].contiguous()
        assert torch.equal(part, gather.moments(copy, GRAPH.offsets, GRAPH.targets, spread=1, weights=weights))
    turned = x.T.contiguous().T
    assert torch.equal(
        gather.moments(turned, GRAPH.offsets, GRAPH.targets), gather.moments(x, GRAPH.offsets, GRAPH.targets)
    )


@pytest.mark.parametrize("width", [3, 8, 70])
def test_moments_by_weights_of_one_are_those_without_weights(width):
    x, ones = rows_of(300, width), np.ones(len(GRAPH.targets), np.float32)
    plain = gather.moments(x, GRAPH.offsets, GRAPH.targets, spread=2)

    assert torch.equal(gather.moments(x, GRAPH.offsets, GRAPH.targets, spread=2, weights=ones), plain)
    assert not gather.moments(x, GRAPH.offsets, GRAPH.targets, spread=2, weights=0 * ones).any()


@pytest.mark.parametrize("graph", [GRAPH, HUB], ids=["random", "hub"])
def test_strengths_are_sums_of_rows(threads, graph):
    weights = some_weights(graph)
    fast, plain = both(lambda: structure.strengths(graph.offsets, weights))

    assert np.array_equal(fast[0], plain[0])
    assert np.allclose(fast[1], plain[1])
    rows = [weights[graph.offsets[u] : graph.offsets[u + 1]] for u in range(graph.n_nodes)]
    assert fast[0].tolist() == [np.count_nonzero(row) for row in rows]
    assert np.allclose(fast[1], [row.astype(np.float64).sum() for row in rows])


@pytest.mark.parametrize("graph", [random_graph(600, 3000, seed=1), wide(random_graph(600, 3000, seed=1))])
def test_a_noisy_copy_keeps_weights_and_gives_added_edges_those_of_others(threads, graph):
    weight = np.arange(1, graph.n_edges + 1)
    directed = Graph.from_edges(graph.edges(), ids=np.arange(600), directed=True, weight=weight)
    out, into = directed.channels["out"], directed.channels["in"]
    added = random_graph(600, 300, seed=2)
    arguments = (graph.offsets, graph.targets, (added.offsets, added.targets), 7, 0.3)
    rows = structure.view(*arguments)

    (here, there), plain = both(
        lambda: (
            structure.view_weights(arguments, rows, out, into),
            structure.view_weights(arguments, rows, into, out),
        )
    )
    assert np.array_equal(here, plain[0])
    assert np.array_equal(there, plain[1])
    copy = Graph(*rows, graph.id_column, channels={"out": here, "in": there}, weighted=True)
    a, b = copy.to_scipy(channel="out"), copy.to_scipy(channel="in")
    assert (a != b.T).nnz == 0  # both ends of an edge agree
    weight_of = {(int(u), int(v)): w for u, v, w, _ in zip(*directed.arcs(), strict=True)}
    ours = {(int(u), int(v)): w for u, v, w, _ in zip(*copy.arcs(), strict=True)}
    same = [pair for pair in ours if pair in weight_of]
    assert all(ours[pair] == weight_of[pair] for pair in same)
    new = [pair for pair in ours if pair not in weight_of]
    assert len(new) > 200
    assert set(ours.values()) <= set(weight_of.values())  # every added one has the weight of an edge that there is
    backwards = sum(u > v for u, v in new)
    assert 0.3 * len(new) < backwards < 0.7 * len(new)  # and its direction, either way


@pytest.mark.parametrize("noise", [0.0, 0.1, 0.7, 1.0])
def test_a_noisy_copy_of_a_graph(threads, noise):
    graph, added = random_graph(600, 3000, seed=1), random_graph(600, 300, seed=2)

    fast, plain = both(lambda: structure.view(graph.offsets, graph.targets, (added.offsets, added.targets), 7, noise))

    assert np.array_equal(fast[0], plain[0])
    assert np.array_equal(fast[1], plain[1])
    edges = {tuple(e) for e in added.edges().tolist()}
    copy = Graph(*fast, graph.id_column)
    assert edges <= {tuple(e) for e in copy.edges().tolist()}
    if noise == 0:
        assert {tuple(e) for e in copy.edges().tolist()} == edges | {tuple(e) for e in graph.edges().tolist()}


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_means_of_any_set_of_rows_are_those_of_the_whole(threads, dtype):
    x = rows_of(300, 40, dtype)
    whole = gather.mean(x, GRAPH.offsets, GRAPH.targets)
    chosen = np.array([299, 0, 17, 17, 250])

    run = gather.mean(x, GRAPH.offsets[100:201], GRAPH.targets, 100)
    scattered, plain = both(lambda: gather.mean(x, GRAPH.offsets, GRAPH.targets, chosen, chosen))

    assert torch.equal(run, whole[100:200])
    assert torch.equal(scattered, whole[chosen])
    assert torch.allclose(plain, scattered, atol=1e-5)


def test_half_precision_is_widened_exactly():
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    every = every[np.isfinite(every)]
    x = torch.from_numpy(np.resize(every, (len(every) // 8 + 1, 8)))
    offsets, nothing = np.zeros(len(x) + 1, np.int64), np.zeros(0, np.int32)

    assert torch.equal(gather.mean(x, offsets, nothing), x.float())  # the mean of one row is the row
    narrow = x[:, :3].contiguous()
    assert torch.equal(gather.mean(narrow, offsets, nothing), narrow.float())


def test_nothing_is_written_beyond_the_rows_of_a_call():
    x = rows_of(300, 31)
    out = torch.full((12, 31), 7.0)
    arguments = GRAPH.offsets, GRAPH.targets, len(GRAPH.targets), None, None, 0, x, 31

    library.call("mean_rows", *arguments, out, 1, 11, index=GRAPH.targets)

    assert (out[[0, 11]] == 7).all()
    assert torch.equal(out[1:11], gather.mean(x, GRAPH.offsets, GRAPH.targets)[1:11])


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("shared", [False, True], ids=["own lists", "shared lists"])
def test_the_average_of_a_block_and_its_gradient(threads, width, shared):
    _, blocks = sample_blocks(GRAPH, np.arange(50), (4,), 0)
    block = blocks[0]
    if shared:
        block = stack(block, shuffle_neighbors(block, np.arange(50), np.arange(50)[::-1].copy()))
    x = rows_of(300, width).requires_grad_()
    grad = rows_of(block.n_rows, width)

    def values_and_gradient():
        y = gather.average(x, block)
        return y.detach(), torch.autograd.grad(y, x, grad)[0]

    for fast, plain in zip(*both(values_and_gradient), strict=True):
        assert torch.allclose(fast, plain, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_sparse_products_and_their_gradient(threads, width, index):
    matrix = sp.random_array((90, 50), density=0.1, rng=np.random.default_rng(1), dtype=np.float32).tocsr()
    matrix.indices, matrix.indptr = matrix.indices.astype(index), matrix.indptr.astype(index)
    weight = rows_of(50, width).requires_grad_()
    grad = rows_of(90, width)

    def values_and_gradient():
        y = gather.sparse_product(matrix, weight)
        with torch.no_grad():
            assert torch.equal(gather.sparse_product(matrix, weight), y)
        return y.detach(), torch.autograd.grad(y, weight, grad)[0]

    for fast, plain in zip(*both(values_and_gradient), strict=True):
        assert torch.allclose(fast, plain, rtol=1e-5, atol=1e-5)
    assert np.allclose(gather.sparse_product(matrix, weight).detach(), matrix @ weight.detach().numpy(), atol=1e-5)


# ---------------------------------------------------------------------------------- dense


@pytest.mark.parametrize("width", [1, 5, 64, 300])
@pytest.mark.parametrize("share", [0.0, 0.6])
def test_batchnorm_tanh_dropout_and_its_gradient(threads, width, share):
    x, grad = 3 * rows_of(80, width) + 1, rows_of(80, width + 1)[:, :width]

    def results():
        norm = torch.nn.BatchNorm1d(width)
        norm.weight.data.copy_(torch.linspace(0.5, 2, width))
        norm.bias.data.copy_(torch.linspace(-1, 1, width))
        h = x.clone().requires_grad_()
        y = dense.norm_tanh_dropout(h, norm, share, key(9))
        y.backward(grad)
        inference = dense.norm_tanh(x, norm.eval()).detach()
        return y.detach(), h.grad, norm.weight.grad, norm.bias.grad, inference, *norm.buffers()

    for fast, plain in zip(*both(results), strict=True):
        assert torch.allclose(fast.float(), plain.float(), rtol=1e-4, atol=3e-5)


def test_what_is_dropped_is_the_same_on_every_device(threads):
    fast, plain = both(lambda: dense.dropout_mask(100_003, 0.3, key(5), like=torch.empty(0)))

    assert torch.equal(fast, plain)


def test_tanh_keeps_what_is_not_a_number():
    norm = torch.nn.BatchNorm1d(3).eval()
    x = torch.tensor([[float("nan"), float("inf"), -float("inf")]])
    with torch.no_grad():
        y = dense.norm_tanh(x, norm)

    assert torch.isnan(y[0, 0])
    assert y[0, 1:].tolist() == pytest.approx([1, -1])


def test_products_and_their_gradients_do_not_depend_on_threads():
    x, weight = rows_of(3000, 40), rows_of(40, 20).requires_grad_()
    bytes_by_count = []
    for count in (1, 2, 5):
        set_threads(count)
        y = dense.product(x, weight)
        gradient = torch.autograd.grad(y, weight, torch.ones_like(y))[0]
        bytes_by_count.append((y.detach().numpy().tobytes(), gradient.numpy().tobytes()))
    set_threads(1)

    assert len(set(bytes_by_count)) == 1
    assert torch.allclose(dense.product(x, weight), x @ weight, atol=1e-5)


def test_products_of_columns_and_their_gradient_do_not_depend_on_threads():
    x, pull = rows_of(3000, 40).requires_grad_(), rows_of(40, 40)
    bytes_by_count = []
    for count in (1, 2, 5):
        set_threads(count)
        y = dense.gram(x)
        gradient = torch.autograd.grad(y, x, pull)[0]
        bytes_by_count.append((y.detach().numpy().tobytes(), gradient.numpy().tobytes()))
    set_threads(1)

    assert len(set(bytes_by_count)) == 1
    with reference_only():
        plain = dense.gram(x)
        assert torch.allclose(y, plain, atol=1e-3)
        assert torch.allclose(gradient, torch.autograd.grad(plain, x, pull)[0], atol=1e-4)


# ------------------------------------------------------------------------------- sampling


@pytest.mark.parametrize("graph", [GRAPH, wide(GRAPH), HUB], ids=["32", "64", "hub"])
@pytest.mark.parametrize("fanout", [1, 3, 25])
def test_the_same_neighbors_are_sampled_on_every_device(threads, graph, fanout):
    nodes = np.random.default_rng(0).integers(graph.n_nodes, size=5000)
    views = np.arange(5000) % 3

    for fast, plain in zip(
        *both(lambda: sampling.sample_neighbors(graph.offsets, graph.targets, nodes, fanout, key(1), views)),
        strict=True,
    ):
        assert fast.dtype == plain.dtype
        assert np.array_equal(fast, plain)


def test_nodes_are_renumbered_by_first_appearance():
    nodes = np.random.default_rng(0).integers(-(2**62), 2**62, 300).repeat(4)
    np.random.default_rng(1).shuffle(nodes)

    (distinct, place), (plain_distinct, plain_place) = both(lambda: sampling.renumber(nodes))

    assert np.array_equal(distinct, plain_distinct)
    assert np.array_equal(place, plain_place)
    assert np.array_equal(distinct[place], nodes)


@pytest.mark.parametrize("graph", [GRAPH, wide(GRAPH), HUB], ids=["32", "64", "hub"])
@pytest.mark.parametrize("exclude", [False, True])
def test_the_same_pairs_are_drawn_on_every_device(threads, graph, exclude):
    nodes = np.random.default_rng(2).choice(graph.n_nodes, 64, replace=False)
    arrays = graph.offsets, graph.targets

    for operation in (
        lambda: sampling.non_neighbors(*arrays, nodes, 20, key(3), exclude),
        lambda: sampling.pick_neighbor(*arrays, nodes, key(3), np.arange(64)),
        lambda: sampling.adjacent(*arrays, nodes.repeat(64), np.tile(nodes, 64)),
    ):
        assert np.array_equal(*both(operation))


@pytest.mark.parametrize(("p", "q"), [(1.0, 1.0), (0.25, 4.0), (4.0, 0.5), (1e6, 1e6), (1e-6, 1.0)])
def test_the_same_walks_are_walked_on_every_device(threads, p, q):
    nodes = np.flatnonzero(GRAPH.degrees)[:12]
    arrays = GRAPH.offsets, GRAPH.targets

    assert np.array_equal(*both(lambda: sampling.walks(*arrays, nodes, 7, key(7), nodes % 3, p, q)))


# ------------------------------------------------------------------------------ structure


@pytest.mark.parametrize("graph", [GRAPH, wide(GRAPH), HUB], ids=["32", "64", "hub"])
@pytest.mark.parametrize("cap", [1, 2, 5, 30])
@pytest.mark.parametrize("sample", [False, True])
def test_neighbor_degrees_by_run_and_by_index(threads, graph, cap, sample):
    arrays, n = (graph.offsets, graph.targets), graph.n_nodes

    fast, plain = both(lambda: structure.neighbor_degrees(*arrays, (0, n), cap, sample=sample, key=key(2)))
    chosen = np.array([n - 1, 0, 5])

    assert np.array_equal(fast, plain)
    assert np.array_equal(structure.neighbor_degrees(*arrays, (3, 40), cap, sample=sample, key=key(2)), fast[3:40])
    assert np.array_equal(structure.neighbor_degrees(*arrays, chosen, cap, sample=sample, key=key(2)), fast[chosen])


@pytest.mark.parametrize("graph", [GRAPH, wide(GRAPH), HUB], ids=["32", "64", "hub"])
def test_triangles_and_core_numbers_are_those_of_networkx(threads, graph):
    plain = to_networkx(graph)
    arrays = graph.offsets, graph.targets

    fast, by_torch = both(lambda: structure.counts_of_nodes(*arrays)[0])
    assert fast.tolist() == by_torch.tolist() == list(nx.triangles(plain).values())
    for count in (structure.core_numbers, lambda *rows: structure.counts_of_nodes(*rows)[2]):
        fast, by_torch = both(lambda count=count: count(*arrays))
        assert fast.tolist() == by_torch.tolist() == list(nx.core_number(plain).values())


@pytest.mark.parametrize("graph", [GRAPH, wide(GRAPH), HUB], ids=["32", "64", "hub"])
def test_four_cycles_of_the_library_and_of_the_reference(threads, graph):
    fast, plain = both(lambda: structure.counts_of_nodes(graph.offsets, graph.targets)[1])

    assert fast.dtype == plain.dtype == np.int64
    assert fast.tolist() == plain.tolist()
    assert fast.any()


def test_four_cycles_are_those_found_by_trying_all_paths(threads):
    graph = random_graph(30, 90, seed=1)
    neighbors = [set(graph.neighbors(u).tolist()) for u in range(30)]

    def cycles(u: int) -> int:
        paths = ((v, w, x) for v in neighbors[u] for w in neighbors[v] - {u} for x in neighbors[w] - {u, v})
        return sum(u in neighbors[x] for _, _, x in paths) // 2  # each is found in both directions

    counts = structure.counts_of_nodes(graph.offsets, graph.targets)[1]

    assert counts.tolist() == [cycles(u) for u in range(30)]
    assert counts.sum() > 0


def test_cycles_of_dense_rows_and_of_a_hub_need_counters_of_every_size(threads):
    rng = np.random.default_rng(0)
    n = 400  # rows of less and of more than 128 lower neighbours
    dense = np.argwhere(np.triu(rng.random((n, n)) < 0.6, 1))
    fan = np.stack([np.arange(n, n + 40_000), np.repeat(0, 40_000)], 1)  # and one of more than 32,768
    graph = Graph.from_edges(np.concatenate([dense, fan, [(n, n + 1)]]))
    inner = Graph.from_edges(dense)

    triangles, cycles, _ = structure.counts_of_nodes(graph.offsets, graph.targets)
    adjacency = inner.to_scipy().astype(np.int64).toarray()
    paths = adjacency @ adjacency
    closed = (paths * adjacency).sum(1) // 2
    across = (paths * (paths - 1) // 2 * (1 - np.eye(n, dtype=np.int64))).sum(1)
    by_id = dict(zip(graph.ids.tolist(), zip(triangles.tolist(), cycles.tolist(), strict=True), strict=True))

    expected = dict(zip(inner.ids.tolist(), zip(closed.tolist(), across.tolist(), strict=True), strict=True))
    expected[0] = expected[0][0] + 1, expected[0][1]
    assert {i: by_id[i] for i in expected} == expected
    assert by_id[n] == by_id[n + 1] == (1, 0)


def test_paths_that_counting_looks_at(threads):
    fast, plain = both(lambda: structure.paths_counted(GRAPH.offsets, GRAPH.targets))

    assert (
        fast
        == plain
        == sum(
            GRAPH.degrees[v]
            for u in range(GRAPH.n_nodes)
            for v in GRAPH.neighbors(u)
            if GRAPH.degrees[v] <= GRAPH.degrees[u]
        )
    )


def test_four_cycles_do_not_depend_on_threads_and_do_not_overflow_32_bits():
    ends = np.arange(70_000)
    graph = Graph.from_edges((np.concatenate([ends, ends]), np.repeat([70_000, 70_001], 70_000)))  # K(2, 70000)
    by_count = []
    for count in (1, 2, 5):
        set_threads(count)
        by_count.append(structure.counts_of_nodes(graph.offsets, graph.targets)[1])
    set_threads(1)

    assert all(np.array_equal(counts, by_count[0]) for counts in by_count)
    assert by_count[0][[0, 70_000]].tolist() == [69_999, 70_000 * 69_999 // 2]


# --------------------------------------------------------------------------------- layout


@pytest.mark.parametrize("width", [1, 15, 16, 17, 100])
def test_squared_distances_of_pairs(width):
    rng = np.random.default_rng(width)
    x, y = rng.normal(size=(40, width)), rng.normal(size=(30, width))
    rows, others = rng.integers(0, 40, 200), rng.integers(0, 30, 200)
    fast, slow = both(lambda: distances.squared_distances(x, y, rows, others))
    np.testing.assert_allclose(fast, slow, rtol=1e-13)
    np.testing.assert_allclose(fast, [np.linalg.norm(x[a] - y[b]) ** 2 for a, b in zip(rows, others, strict=True)])
    assert not distances.squared_distances(x, x, rows, rows).any()


def test_the_layout_of_a_map_and_its_weights():
    rng = np.random.default_rng(0)
    distance, valid = rng.random((40, 6)).astype(np.float32), rng.random((40, 6)) < 0.8
    distance[3], valid[4] = 0, False
    fast, plain = both(lambda: layout.fuzzy_weights(distance, valid))
    assert np.allclose(fast, plain, atol=1e-6)
    xy, heads, tails = layout.jitter(40, 7) * 1000, rng.integers(40, size=90), rng.integers(40, size=90)

    fast, plain = both(lambda: layout.optimize_layout(xy, heads, tails, 1 + rng.random(90) * 0 + heads % 3, 5, key(2)))

    assert np.allclose(fast, plain, atol=1e-3)
    assert not np.allclose(fast, xy)


# ------------------------------------------------------------- the seam as a whole


@pytest.mark.parametrize("loss", ["within", "neighbor"])
@pytest.mark.parametrize("storage", ["structure", "sparse", "dense"])
def test_a_fit_by_the_reference_alone_gives_nearly_the_same_vectors(loss, storage):
    words = sp.random_array((300, 40), density=0.2, rng=np.random.default_rng(3), dtype=np.float32).tocsr()
    x = {"structure": None, "sparse": words, "dense": words.toarray()}[storage]

    fast, plain = both(lambda: RAE(loss=loss, dims=(24, 16), steps=4, batch_size=32).fit_transform(GRAPH, features=x))

    assert np.abs(fast - plain).max() < 2e-3
    assert np.abs(fast - plain).mean() < 2e-5


def test_an_encoder_can_be_exported():
    config = Config(dims=(16, 8))
    encoder = Encoder(31, config).eval()
    rows, blocks = sample_blocks(GRAPH, np.arange(10), (3, 4), 0)
    x = torch.from_numpy(Features.of(GRAPH, None, config).take(rows))

    program = torch.export.export(encoder, (x, blocks))

    with torch.no_grad():
        assert torch.allclose(program.module()(x, blocks), encoder(x, blocks), atol=1e-6)


def test_an_encoder_gives_what_transform_gives():
    model = RAE(dims=(16, 8), steps=2).fit(GRAPH)
    nodes = np.array([7, 250, 7, 0])
    rows, blocks = exact_blocks(GRAPH, nodes, depth=2)
    x = Features.of(GRAPH, None, model.config).take(rows)

    with torch.no_grad():
        z = model.encoders["within"].eval()(x, blocks)

    assert np.allclose(z.numpy(), model.transform(GRAPH)[nodes], atol=1e-6)


@pytest.mark.parametrize(
    "change",
    [
        {"ego": torch.tensor([300])}, {"ego": torch.tensor([-1])}, {"neighbors": torch.tensor([0, 999])},
        {"offsets": torch.tensor([0, 3])}, {"offsets": torch.tensor([0, 2, 1])}, {"lists": torch.tensor([1])},
        {"ego": torch.tensor([0, 1])}, {"neighbors": torch.tensor([0, -1], dtype=torch.int16)},
    ],
    ids=str,
)  # fmt: skip
def test_a_block_that_names_rows_which_are_not_there_is_refused(change):
    block = Block(torch.tensor([0]), torch.tensor([0, 2]), torch.tensor([1, 2]))._replace(**change)

    with pytest.raises(IndexError, match="rows or lists that are not there"):
        gather.average(rows_of(300, 8), block)


@pytest.mark.parametrize("make", [sp.csr_array, sp.csc_array, sp.coo_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, bool])
def test_an_encoder_reads_sparse_rows_of_any_kind(make, dtype):
    words = sp.random_array((300, 20), density=0.2, rng=np.random.default_rng(0)).astype(bool).astype(dtype)
    encoder = Encoder(20, Config(dims=(16, 8))).eval()
    rows, blocks = exact_blocks(GRAPH, np.arange(300), 2)
    dense = torch.from_numpy(words.toarray().astype(np.float32))[rows]

    with torch.no_grad():
        assert torch.allclose(encoder(make(words.tocsr()[rows]), blocks), encoder(dense, blocks), atol=1e-5)
        with pytest.raises(FeatureError, match="reads 20 feature columns, got 19"):
            encoder(words.tocsr()[rows][:, :19], blocks)


def test_a_damaged_csr_is_refused():
    damaged = sp.csr_array((np.ones(4, np.float32), np.array([0, 1, 2, 10**7], np.int32), np.arange(5)), shape=(4, 3))

    with pytest.raises(FeatureError, match="entries lie outside of its 3 columns"):
        RAE(steps=1).fit(Graph.from_edges([(0, 1), (1, 2), (2, 3)]), features=damaged)


@pytest.mark.parametrize(
    ("offsets", "targets"),
    [
        (np.array([0, 1, 2]), np.array([1, 5], np.int32)), (np.array([0, 2, 1]), np.array([1], np.int32)),
        (np.array([0, 1, 2], np.int32), np.array([1, 0], np.int32)), (np.array([0, 1, 2]), np.array([1, 0], np.int16)),
        (np.array([0, 1]), np.array([0], np.int32)),
    ],
)  # fmt: skip
def test_arrays_that_do_not_make_a_graph_are_refused(offsets, targets):
    with pytest.raises(GraphError, match=r"Graph\.from_edges makes a graph"):
        Graph(offsets, targets, pa.array(["a", "b"]))


@pytest.mark.parametrize("rows", [[300], [-1], [0, 2**40]])
def test_rows_outside_the_graph_are_refused(rows):
    for call in (
        lambda: GRAPH.adjacent(np.array(rows), np.zeros(len(rows), int)),
        lambda: sample_blocks(GRAPH, np.array(rows), (3,), 0),
        lambda: exact_blocks(GRAPH, np.array(rows), 1),
        lambda: random_neighbor(GRAPH, np.array(rows), 2, key(0)),
        lambda: non_neighbor(GRAPH, np.array(rows), 2, key(0)),
        lambda: structural_features(GRAPH, rows=np.array(rows)),
    ):
        with pytest.raises(GraphError, match="rows must be from 0 to 299"):
            call()
    with pytest.raises(ConfigError, match="fanout must be 1 or more, got 0"):
        sample_blocks(GRAPH, np.array([0]), (0,), 0)


def test_the_meta_device_runs_the_reference():
    """A tensor that is not in main memory never reaches the library."""
    x = torch.empty((300, 16), device="meta")

    assert not library.is_native(x)
    assert library.is_native(torch.empty(3), GRAPH.offsets, None)


def test_every_function_of_the_library_is_declared_and_called():
    folder = Path(library.__file__).parent
    exported = set()
    for source in (folder / "native").glob("*.c"):
        text = source.read_text()
        exported |= set(re.findall(r"EXPORT \w+ \*?(?:NAME\()?(\w+?)(?:_\d\d)?\)?\(", text))
        exported |= {name.removesuffix("_32") for name in re.findall(r"^\w+\((\w+_32),", text, re.MULTILINE)}
    exported -= {"NAME"}
    declared = {*library._BY_INDEX, *library._PLAIN}
    code = "".join(path.read_text() for path in folder.glob("*.py") if path.name != "library.py")

    assert exported == declared
    assert all(f'"{name}"' in code for name in declared)


def test_without_the_library_everything_still_works(monkeypatch):
    monkeypatch.setattr(library, "library", lambda: None)

    assert not library.is_native(np.zeros(3))
    assert np.isfinite(RAE(dims=(8,), fanout=(3,), steps=1).fit_transform(HUB)).all()
    assert reference.tensor(GRAPH.offsets).tolist() == GRAPH.offsets.tolist()
