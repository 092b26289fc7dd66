"""The fast code against the formula written plainly."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch

from plain import plain_embedding, random_graph, to_networkx
from rae import PAPER, RAE, Config, Encoder, Graph, sample_blocks, structural_features
from rae.model import pairs
from rae.model.encoder import Layer
from rae.model.losses import contrast
from rae.model.sampling import Block, sample_neighbors, shuffle_neighbors, stack
from rae.model.training import step_loss
from rae.ops.dense import dropout
from rae.ops.gather import average
from rae.runtime import generator, key

SMALL = PAPER.replace(dims=(6, 4), fanout=(3, 4), steps=6, batch_size=16)
GRAPH = random_graph(40, 90, seed=5)
WORDS = sp.random_array((40, 12), density=0.3, rng=np.random.default_rng(2), dtype=np.float32).tocsr()


@pytest.mark.parametrize("order", ["average_first", "project_first"])
@pytest.mark.parametrize("projections", [1, 2])
@pytest.mark.parametrize("dims", [(6, 4), (9, 30, 12), (20,)])
@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.filterwarnings("ignore::rae.errors.CollapseWarning")  # a few steps of relu may well collapse
def test_embedding_is_algorithms_1_and_2(order, projections, dims, activation):
    settings = {"order": order, "projections": projections, "dims": dims, "fanout": (3,) * len(dims)}
    model = RAE(SMALL, activation=activation, **settings).fit(GRAPH, features=WORDS)

    expected = plain_embedding(model.encoders["within"], GRAPH, WORDS.toarray(), order)

    assert np.allclose(model.transform(GRAPH, WORDS), expected, atol=1e-5)
    assert np.allclose(model.transform(GRAPH, WORDS.toarray()), expected, atol=1e-5)


@pytest.mark.parametrize("order", ["average_first", "project_first"])
@pytest.mark.parametrize("dense", [False, True])
def test_sampling_with_full_fanout_is_exact(order, dense):
    config = SMALL.replace(fanout=(99, 99), order=order)
    model = RAE(config).fit(GRAPH, features=WORDS)
    encoder = model.encoders["within"].eval()
    x = WORDS.toarray() if dense else WORDS
    nodes = np.array([7, 3, 3, 21])
    rows, blocks = sample_blocks(GRAPH, nodes, config.fanout, 0, "test", views=np.array([0, 0, 1, 0]))

    with torch.no_grad():
        z = encoder(x[rows], blocks).numpy()

    assert np.allclose(z, model.transform(GRAPH, x)[nodes], atol=1e-5)


def _block(seed: int, n_below: int = 9, rows: int = 6) -> Block:
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(0, 4, rows))])
    ego, neighbors = rng.integers(0, n_below, rows), rng.integers(0, n_below, offsets[-1])
    return Block(*map(torch.from_numpy, (ego, offsets, neighbors)))


def _list(block: Block, i: int) -> list[int]:
    return block.neighbors[block.offsets[i] : block.offsets[i + 1]].tolist()


def test_average_is_the_mean_of_ego_and_neighbours_and_its_gradient_is_right():
    block = _block(1)
    x = torch.randn(9, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1), requires_grad=True)

    rows = [[int(block.ego[i]), *_list(block, i)] for i in range(6)]
    assert torch.allclose(average(x, block), torch.stack([x[r].mean(0) for r in rows]))
    assert torch.autograd.gradcheck(lambda x: average(x, block), (x,))


def test_shuffling_keeps_the_ego_and_takes_the_neighbours_of_another():
    block = _block(2)
    x = torch.randn(9, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1), requires_grad=True)
    rows, others = np.array([0, 1, 2]), np.array([4, 5, 0])

    both = stack(block, shuffle_neighbors(block, rows, others))

    expected = [x[[int(block.ego[u]), *_list(block, v)]].mean(0) for u, v in zip(rows, others, strict=True)]
    assert torch.allclose(average(x, both)[6:], torch.stack(expected))
    assert torch.allclose(average(x, both)[:6], average(x, block))
    assert torch.autograd.gradcheck(lambda x: average(x, both), (x,))
    again = shuffle_neighbors(both, np.array([6]), np.array([7]))
    assert again.lists.tolist() == [5]


def test_sparse_and_dense_features_give_the_same_gradient():
    nodes = np.arange(10)
    rows, blocks = sample_blocks(GRAPH, nodes, (3, 4), 0, "test")
    grads = []
    for x in (WORDS[rows], WORDS[rows].toarray()):
        encoder = Encoder(12, SMALL).eval()
        encoder(x, blocks).square().sum().backward()
        grads.append(encoder.levels[0].aggregate.weight.grad)

    assert torch.allclose(*grads, atol=1e-6)


def test_the_loss_is_the_papers_formula():
    rng = torch.Generator().manual_seed(0)
    anchor, pos, neg = (torch.randn(*s, generator=rng) for s in [(5, 4), (5, 3, 4), (5, 7, 4)])
    total = 0.0
    for u in range(5):
        total -= np.mean([np.log(1 / (1 + np.exp(-float(anchor[u] @ v)))) for v in pos[u]])
        total -= 2.0 * np.mean([np.log(1 / (1 + np.exp(float(anchor[u] @ w)))) for w in neg[u]])

    ours = contrast((pos @ anchor[:, :, None])[..., 0], (neg @ anchor[:, :, None])[..., 0], negative_weight=2.0)

    assert float(ours) == pytest.approx(total / 5, rel=1e-5)


def test_negatives_that_do_not_exist_weigh_nothing():
    scores = torch.tensor([[1.0, 5.0], [2.0, 9.0]])
    valid = torch.tensor([[True, False], [True, False]])

    masked = contrast(torch.zeros(2), scores, valid=valid)

    assert float(masked) == pytest.approx(float(contrast(torch.zeros(2), scores[:, :1])))


def test_structural_features_are_own_degree_then_sorted_neighbour_degrees():
    nxg = to_networkx(GRAPH)
    x = structural_features(GRAPH, cap=6, scale="raw")

    for u in range(GRAPH.n_nodes):
        degrees = sorted((nxg.degree(v) for v in nxg[u]), reverse=True)
        if len(degrees) <= 6:
            assert x[u].tolist() == [nxg.degree(u), *degrees, *[0] * (6 - len(degrees))]
    assert np.allclose(structural_features(GRAPH, cap=6, scale="log"), np.log1p(x))


@pytest.mark.parametrize("above_cap", ["even", "random"])
@pytest.mark.parametrize("cap", [1, 2, 5])
def test_above_the_cap_degrees_stay_sorted_and_real(above_cap, cap):
    """A hub whose neighbours have degrees 1..12 (each neighbour has its own leaves)."""
    edges = [("hub", i) for i in range(12)] + [(i, f"{i}.{j}") for i in range(12) for j in range(i)]
    graph = Graph.from_edges([(str(a), str(b)) for a, b in edges])
    hub = graph.rows(["hub"])[0]

    row = structural_features(graph, cap=cap, above_cap=above_cap, scale="raw", seed=1)[hub]

    assert row[0] == 12
    assert len(row) == 1 + cap
    assert sorted(row[1:], reverse=True) == row[1:].tolist()
    assert set(row[1:]) <= set(range(1, 13))
    assert len(set(row[1:])) == cap
    if above_cap == "even":
        assert row[1] == 12
        assert cap == 1 or row[-1] == 1
    else:
        rows = {tuple(structural_features(graph, cap=cap, above_cap="random", seed=s)[hub]) for s in range(20)}
        assert len(rows) > 5


def test_sampled_neighbours_are_distinct_true_and_uniform():
    star = Graph.from_edges([(0, i) for i in range(1, 11)])
    counts = np.zeros(11)
    for step in range(4000):
        offsets, results = sample_neighbors(star, np.array([0, 3]), 4, key(0, step))
        hub = results[offsets[0] : offsets[1]]
        assert len(set(hub)) == 4
        assert results[offsets[1] :].tolist() == [0]
        counts[hub] += 1

    expected = 4000 * 4 / 10
    chi2 = ((counts[1:] - expected) ** 2 / expected).sum()
    assert counts[0] == 0
    assert chi2 < 30  # 9 degrees of freedom: p < 0.001


def test_a_sample_depends_on_seed_node_and_view_alone():
    graph = random_graph(50, 600, seed=2)
    _, alone = sample_neighbors(graph, np.array([7]), 5, key(1, "x"))
    offsets, among = sample_neighbors(graph, np.array([3, 7, 7]), 5, key(1, "x"), views=np.array([0, 0, 1]))

    assert among[offsets[1] : offsets[2]].tolist() == alone.tolist()
    assert among[offsets[2] :].tolist() != alone.tolist()


def test_any_other_is_uniform_over_the_rest_of_the_batch():
    nodes = np.array([4, 9, 2, 30, 17])
    place = pairs.any_other(GRAPH, nodes, 20_000, key(0))

    for i in range(5):
        counts = np.bincount(place[i], minlength=5)
        assert counts[i] == 0
        assert np.abs(np.delete(counts, i) - 5000).max() < 300


def test_non_neighbours_are_never_adjacent_and_a_hub_without_any_gets_none():
    star = Graph.from_edges([(0, i) for i in range(1, 8)] + [(1, 2)])
    nodes = np.arange(8)

    place = pairs.non_neighbor(star, nodes, 30, key(0))

    assert (place[0] == -1).all()
    assert set(place[1]) <= {3, 4, 5, 6, 7}
    assert set(place[5]) <= {1, 2, 3, 4, 6, 7}
    assert (pairs.any_other(star, nodes, 30, key(0))[0] >= 1).all()


def test_random_neighbours_are_neighbours_and_the_lonely_stand_for_themselves():
    graph = Graph.from_edges([(0, 1), (0, 2), (0, 3)], ids=range(5))

    drawn = pairs.random_neighbor(graph, np.array([0, 4]), 50, key(3))

    assert set(drawn[:, 0]) == {1, 2, 3}
    assert set(drawn[:, 1]) == {4}


def test_dropout_drops_its_share_and_keeps_the_mean():
    x = torch.ones(1001, 999)
    y = dropout(x, 0.6, key(1))

    assert abs(float((y == 0).float().mean()) - 0.6) < 0.002
    assert abs(float(y.mean()) - 1) < 0.005
    assert torch.equal(y, dropout(x, 0.6, key(1)))
    assert not torch.equal(y, dropout(x, 0.6, key(2)))


def test_dropped_entries_are_independent_of_each_other():
    """Between neighbouring columns, rows and keys the masks agree as often as chance has it."""
    masks = np.stack([(dropout(torch.ones(400, 500), 0.5, key(k)) > 0).numpy() for k in range(3)]).astype(float)

    for a, b in [
        (masks[:, :, 1:], masks[:, :, :-1]),
        (masks[:, 1:], masks[:, :-1]),
        (masks[1:], masks[:-1]),
        (masks[:, :, 4:], masks[:, :, :-4]),
    ]:
        assert abs((a == b).mean() - 0.5) < 0.005
    assert abs(masks.mean(1) - 0.5).max() < 0.12  # columns
    assert abs(masks.mean(2) - 0.5).max() < 0.12  # rows


@pytest.mark.parametrize("share", [0.0, 0.6])
@pytest.mark.parametrize("width", [1, 7, 64])
def test_the_fused_layer_is_batchnorm_tanh_dropout(share, width):
    """Against torch's own layers with the same mask: values, gradients and running statistics."""
    rng = np.random.default_rng(0)
    x = torch.from_numpy(3 * rng.normal(size=(50, width)).astype(np.float32) + 1)
    grad = torch.from_numpy(rng.normal(size=(50, width)).astype(np.float32))
    results = []
    for fused in (True, False):
        layer = Layer(3, width, "tanh", share, generator(0))
        layer.norm.weight.data.copy_(torch.linspace(0.5, 2, width))
        layer.norm.bias.data.copy_(torch.linspace(-1, 1, width))
        h = x.clone().requires_grad_()
        if fused:
            y = layer.activate(h, key(9))
            mask = torch.where(y.detach() == 0, 0.0, 1 / (1 - share))
        else:
            y = torch.tanh(layer.norm(h)) * mask
        y.backward(grad)
        results.append([y.detach(), h.grad, layer.norm.weight.grad, layer.norm.bias.grad, *layer.norm.buffers()])

    for ours, theirs in zip(*results, strict=True):
        assert torch.allclose(ours.float(), theirs.float(), atol=3e-5, rtol=1e-4)


@pytest.mark.parametrize(
    "settings",
    [
        {"loss": "within"},
        {"loss": "within", "shuffled": 1.0},
        {"loss": "within", "shuffled": 0.0},
        {"loss": "within", "shuffle": "rows"},
        {"loss": "neighbor"},
        {"loss": "neighbor", "exclude_neighbors": False},
    ],
)
def test_a_step_scores_the_right_number_of_pairs(settings, monkeypatch):
    calls = {}
    import rae.model.training

    def spy(positive, negative, **rest):
        calls.update(positive=positive.numel(), negative=negative.numel(), **rest)
        return contrast(positive, negative, **rest)

    monkeypatch.setattr(rae.model.training, "contrast", spy)
    config = SMALL.replace(**settings)
    encoder, context = (Encoder(12, config, generator(0, w)) for w in "ab")

    loss = step_loss(encoder, context, GRAPH, WORDS, config, config.loss, 1)
    loss.backward()

    assert calls["positive"] == 16 * 5
    assert calls["negative"] == 16 * 20
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in encoder.parameters())
    assert all(p.grad is not None for p in context.parameters())


def test_the_papers_counterexample():
    """u and v have equal first-order neighbourhoods and second-order ones of other degrees, K = 1.

    J_within reads one hop and treats them alike; the features of the nodes are their degrees.
    """
    edges = [("u", "u1"), ("u", "u2"), ("v", "v1"), ("v", "v2")]
    edges += [("u1", "a"), ("u2", "b"), ("v1", "c"), ("v2", "d")]
    edges += [(x, f"{x}{i}") for x in "cd" for i in range(4)]  # beyond v, two hops out, are hubs
    graph = Graph.from_edges(edges)
    degree = graph.degrees[:, None].astype(np.float32)
    config = Config(loss="within", dims=(8,), fanout=(5,), steps=50, batch_size=8)

    model = RAE(config).fit(graph, features=degree)
    z = dict(zip(graph.ids, model.transform(graph, degree), strict=True))

    assert np.allclose(z["u"], z["v"], atol=1e-6)
    assert not np.allclose(z["u1"], z["v1"], atol=1e-2)  # what J_neighbor would have to tell apart
    deeper = RAE(config, dims=(8, 8), fanout=(5, 5)).fit_transform(graph, features=degree)
    deep = dict(zip(graph.ids, deeper, strict=True))
    assert not np.allclose(deep["u"], deep["v"], atol=1e-2)


def test_networkx_agrees_on_the_graph():
    nxg = nx.gnm_random_graph(30, 60, seed=1)
    graph = Graph.from_networkx(nxg)

    assert graph.n_edges == 60
    assert all(set(graph.neighbors(u)) == set(nxg[u]) for u in nxg)


def test_adam_gives_the_bytes_of_torchs_own():
    from rae.model.adam import Adam

    start = [torch.from_numpy(generator(i, "weights").normal(size=(5, 3)).astype(np.float32)) for i in range(2)]
    ours, theirs = ([torch.nn.Parameter(w.clone()) for w in start] for _ in range(2))
    steps = Adam(ours, 0.01), torch.optim.Adam(theirs, lr=0.01, fused=True)

    for turn in range(5):
        for weights, optimizer in zip((ours, theirs), steps, strict=True):
            optimizer.zero_grad()
            sum(((w - turn) ** 3).sum() for w in weights).backward()
            optimizer.step()

    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
    assert not torch.equal(ours[0], start[0])
