"""The neural baselines: they find planted blocks, repeat by seed, never read a test node's label."""

from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.linear_model import LogisticRegression

from rae import Graph, baselines
from rae.baselines import bandana, networks
from rae.baselines.fastgcn import convolution_of, sampled
from rae.baselines.graphsage import GraphSAGE, _Layers, neighborhood
from rae.baselines.planetoid import _pairs_of_walks
from rae.errors import ConfigError, FeatureError, NotFittedError, TrainingError
from rae.evaluation.tables import node

pytest.importorskip("torch_geometric")

SMALL = {  # enough to find two blocks, in a fraction of a second each
    "EP-B": {"dims": 8, "passes": 15, "batch": 64, "margin": 1.0, "learning_rate": 0.02},
    "DGI": {"dims": 16, "steps": 60, "learning_rate": 0.01},
    "GraphSAGE, unsupervised": {
        "dims": 16,
        "steps": 40,
        "batch": 64,
        "walks": 5,
        "negatives": 5,
        "learning_rate": 0.01,
    },
    "CCA-SSG": {"dims": 8, "steps": 30, "learning_rate": 0.01},
    "GRACE": {"dims": 8, "steps": 30, "learning_rate": 0.01},
    "BGRL": {"dims": 8, "predictor": 16, "steps": 40, "learning_rate": 0.01},
    "GraphMAE": {"dims": 16, "heads": 2, "steps": 40, "learning_rate": 0.01},
    "Bandana": {"dims": 16, "layers": 2, "decoder": 16, "steps": 40, "drop_encoder": 0.2},
    "Planetoid, transductive": {
        "dims": 8,
        "steps": 100,
        "class_steps": 40,
        "walks": 10.0,
        "length": 5,
        "batch": 20,
    },
    "Planetoid, inductive": {
        "dims": 8,
        "steps": 100,
        "class_steps": 40,
        "walks": 10.0,
        "length": 5,
        "batch": 20,
    },
    "GraphSAGE, supervised": {"dims": 8, "steps": 40},
    "GCN": {"dims": 8, "steps": 60},
    "GAT": {"dims": 4, "heads": 2, "steps": 40, "learning_rate": 0.01},
    "FastGCN": {"dims": 8, "steps": 60, "samples": 20},
}
EMBEDDERS = [name for name in SMALL if not baselines.find(name).sees_labels]
STRUCTURE = "GraphSAGE, unsupervised, structure alone"
CLASSIFIERS = [name for name in SMALL if baselines.find(name).sees_labels]
N = 80
BLOCK = np.arange(N) % 2


def planted() -> tuple[Graph, sp.csr_array]:
    """Two blocks: more edges inside, and words of their own, both with much noise; the last node has no neighbour."""
    random = np.random.default_rng(0)
    same = BLOCK[:, None] == BLOCK[None]
    chosen = np.triu(random.random((N, N)) < np.where(same, 0.15, 0.02), 1)
    chosen[:, -1] = False
    words = random.random((N, 12)) < np.where((np.arange(12) % 2)[None] == BLOCK[:, None], 0.4, 0.15)
    return Graph.from_edges(np.argwhere(chosen), ids=np.arange(N)), sp.csr_array(words.astype(np.float32))


GRAPH, WORDS = planted()
TRAIN, CHECK, TEST = np.arange(20), np.arange(20, 40), np.arange(40, N)


def make_small(name: str, **settings: object):
    return baselines.find(name).make(**{**SMALL[name], **settings})


def test_every_row_of_the_table_is_tested_here():
    assert {*SMALL, STRUCTURE} == set(node.OTHERS)


def test_structure_alone_ignores_features_and_knows_degrees():
    small = SMALL["GraphSAGE, unsupervised"]
    model = baselines.find(STRUCTURE).make(**small)
    z = model.fit_transform(GRAPH, WORDS)

    assert np.array_equal(z, baselines.find("GraphSAGE, unsupervised").make(**small).fit_transform(GRAPH)) is False
    assert np.array_equal(z, baselines.find(STRUCTURE).make(**small).fit_transform(GRAPH))
    many = GRAPH.degrees > np.median(GRAPH.degrees)
    assert LogisticRegression(C=10).fit(z[:40], many[:40]).score(z[40:], many[40:]) >= 0.7


@pytest.mark.parametrize("name", EMBEDDERS)
def test_vectors_tell_the_blocks_and_repeat_by_seed(name):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    model = make_small(name)
    z = model.fit_transform(GRAPH, WORDS)

    assert torch.equal(torch.get_rng_state(), before)  # nobody else's draws change
    assert z.dtype == np.float32
    assert z.flags.c_contiguous
    assert len(z) == N
    assert np.isfinite(z).all()
    losses = np.array(model.losses)
    assert losses[-5:].mean() < losses[:5].mean()
    assert LogisticRegression(C=10).fit(z[:40], BLOCK[:40]).score(z[40:], BLOCK[40:]) >= 0.8
    assert make_small(name).fit_transform(GRAPH, WORDS).tobytes() == z.tobytes()
    assert not np.allclose(make_small(name, seed=1).fit_transform(GRAPH, WORDS), z)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classes_are_found_and_the_labels_of_test_nodes_are_never_read(name):
    said = make_small(name).fit(GRAPH, WORDS, BLOCK, TRAIN, CHECK).predict(GRAPH, WORDS)

    assert said.shape == (N,)
    assert (said[TEST] == BLOCK[TEST]).mean() >= 0.75
    for hidden in (1 - BLOCK, np.full(N, -1)):
        labels = BLOCK.copy()
        labels[TEST] = hidden[TEST]
        again = make_small(name).fit(GRAPH, WORDS, labels, TRAIN, CHECK)
        assert np.array_equal(again.predict(GRAPH, WORDS), said)
    assert again.losses[-1] < again.losses[0]


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_training_labels_do_matter_and_validation_is_optional(name):
    opposite = np.where(np.isin(np.arange(N), TRAIN), 1 - BLOCK, -1)
    said = make_small(name).fit(GRAPH, WORDS, opposite, TRAIN).predict(GRAPH, WORDS)

    assert (said[TEST] == BLOCK[TEST]).mean() <= 0.25


@pytest.mark.parametrize("name", [name for name in SMALL if baselines.find(name).inductive])
def test_an_unseen_graph_can_be_asked(name):
    part = GRAPH.subgraph(np.arange(30))
    model = make_small(name, steps=3)
    if baselines.find(name).sees_labels:
        assert model.fit(GRAPH, WORDS, BLOCK, TRAIN).predict(part, WORDS[:30]).shape == (30,)
    else:
        assert model.fit(GRAPH, WORDS).transform(part, WORDS[:30]).shape[0] == 30


@pytest.mark.parametrize("name", EMBEDDERS)
@pytest.mark.parametrize("edges", [[], [(0, 1)]], ids=["no edge", "one edge"])
def test_a_tiny_graph_without_features_gets_finite_rows(name, edges):
    z = make_small(name, steps=2).fit_transform(Graph.from_edges(edges, ids=[0, 1, 2]))

    assert z.shape[0] == 3
    assert np.isfinite(z).all()


def test_dense_and_sparse_features_give_the_same():
    for name in ("DGI", "GCN"):
        model = [make_small(name, steps=3), make_small(name, steps=3)]
        if name == "GCN":
            model = [m.fit(GRAPH, x, BLOCK, TRAIN) for m, x in zip(model, (WORDS, WORDS.toarray()), strict=True)]
        else:
            a, b = (m.fit_transform(GRAPH, x) for m, x in zip(model, (WORDS, WORDS.toarray()), strict=True))
            assert np.allclose(a, b, atol=1e-4)


# ----------------------------------------------------------------------------------------------- parts


def test_the_convolution_is_the_formula_and_its_gradient_that_of_a_dense_product():
    data = networks.read_input(GRAPH, WORDS, "cpu")
    matrix, none = data.convolution()
    assert none is None
    assert np.allclose(matrix.to_dense().numpy(), convolution_of(GRAPH).toarray(), atol=1e-6)
    view = data.view(0.5, 0.3)  # directions are dropped one by one, so this is not symmetric
    matrix, _ = view.convolution()
    h = torch.randn(N, 3, requires_grad=True)
    weights = torch.randn(N, 3)
    ((matrix @ h) * weights).sum().backward()
    assert torch.allclose(h.grad, matrix.to_dense().T @ weights, atol=1e-5)
    assert (view.x.to_dense().sum(0) == 0).sum() > (data.x.to_dense().sum(0) == 0).sum()


def test_rows_of_features_add_up_to_one_and_must_be_as_many_as_nodes():
    assert np.allclose(networks.read_input(GRAPH, WORDS, "cpu").dense().sum(1)[WORDS.sum(1) > 0], 1)
    with pytest.raises(FeatureError, match=r"one row per node \(80\), got 79"):
        networks.read_input(GRAPH, WORDS[:-1], "cpu")


def test_a_sample_of_all_neighbours_is_the_whole_neighbourhood():
    data = networks.read_input(GRAPH, WORDS, "cpu")
    model = _Layers((12, 6, 4)).eval()
    anchors = np.array([7, 3, 79, 12])
    nodes, blocks = neighborhood(GRAPH, anchors, (1000, 1000), 5, "cpu")

    with torch.no_grad():
        assert torch.allclose(model.sampled(data.dense()[nodes], blocks), model(data)[anchors], atol=1e-5)
    _, few = neighborhood(GRAPH, anchors, (2, 1), 5, "cpu")
    assert few[-1][0].shape[1] == 6  # two neighbours of three nodes, none of the last


def test_sampled_sums_are_the_sums_in_the_mean_and_exact_where_neighbours_are_few():
    matrix, random = convolution_of(GRAPH), np.random.default_rng(0)
    rows, length = matrix[[3, 10, 40]], np.sqrt((convolution_of(GRAPH).toarray() ** 2).sum(0))
    h = random.standard_normal((N, 2))
    nodes, weights = sampled(rows, length, N, random)
    assert np.allclose(weights @ h[nodes], rows @ h, atol=1e-6)
    assert len(nodes) < N

    trials = [weights @ h[nodes] for nodes, weights in (sampled(rows, length, 5, random) for _ in range(4000))]
    assert np.abs(np.mean(trials, 0) - rows @ h).max() < 5 * (np.std(trials, 0) / np.sqrt(4000)).max()


def test_edges_are_held_out_in_both_directions():
    data = networks.read_input(GRAPH, WORDS, "cpu")
    visible, (a, b) = bandana.held_out(data, 0.3)
    asked = set(zip(a.tolist(), b.tolist(), strict=True))
    left = set(zip(visible.receivers.tolist(), visible.senders.tolist(), strict=True))

    assert len(asked) == 2 * int(0.3 * GRAPH.n_edges)
    assert {(j, i) for i, j in asked} == asked
    assert asked | left == set(zip(data.receivers.tolist(), data.senders.tolist(), strict=True))
    assert not asked & left


def test_pairs_of_a_walk_are_those_of_its_window():
    walk = np.array([[5, 3, 8, 3]])
    near = [(i, j) for i in range(4) for j in range(4) if abs(i - j) <= 2]
    pairs = Counter(map(tuple, _pairs_of_walks(walk, 2).tolist()))
    assert pairs == Counter((walk[0, i], walk[0, j]) for i, j in near)


def test_a_walk_learns_nothing_where_there_is_no_edge():
    model = GraphSAGE(dims=4, steps=3).fit(Graph.from_edges([], ids=[0, 1]))
    assert model.losses == []


def test_grace_in_parts_is_grace_in_one(monkeypatch):
    from rae.baselines import grace

    own, other = (torch.nn.functional.normalize(torch.randn(9, 4)).requires_grad_() for _ in range(2))
    whole = grace.contrast(own, other, 0.5)
    gradient = torch.autograd.grad(whole, own)[0]
    monkeypatch.setattr(grace, "ROWS", 4)
    parts = grace.contrast(own, other, 0.5)

    assert torch.allclose(parts, whole)
    assert torch.allclose(torch.autograd.grad(parts, own)[0], gradient, atol=1e-6)


def test_a_loss_that_is_no_number_ends_the_fit():
    with pytest.raises(TrainingError, match=r"step 0 .* smaller learning_rate"):
        make_small("CCA-SSG", decorrelation=1e38).fit(GRAPH, WORDS)


# -------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    "settings",
    [{"dims": 0}, {"dims": 2.5}, {"learning_rate": -1.0}, {"steps": 0}, {"seed": -1}, {"device": "nowhere"},
     {"device": "cuda"} if not torch.cuda.is_available() else {"device": "cuda:99x"}],
)  # fmt: skip
def test_a_setting_out_of_range_is_refused_by_name(settings):
    with pytest.raises(ConfigError, match=next(iter(settings))):
        make_small("DGI", **settings)


def test_shares_are_shares():
    with pytest.raises(ConfigError, match="drop_edges"):
        make_small("GRACE", drop_edges=1.5)
    with pytest.raises(ConfigError, match="fanouts"):
        make_small("GraphSAGE, supervised", fanouts=(0, 1))


def test_what_is_not_fitted_says_so():
    with pytest.raises(NotFittedError, match="DGI is not fitted"):
        make_small("DGI").transform(GRAPH, WORDS)


def test_a_training_node_without_a_label_is_refused():
    with pytest.raises(ConfigError, match="rows that have a label"):
        make_small("GCN").fit(GRAPH, WORDS, np.full(N, -1), TRAIN)


def test_the_transductive_one_refuses_another_graph():
    model = make_small("Planetoid, transductive", steps=1, class_steps=1, walks=0.01).fit(GRAPH, WORDS, BLOCK, TRAIN)
    with pytest.raises(ConfigError, match="must be the fitted one, of 80 nodes"):
        model.predict(GRAPH.subgraph(np.arange(10)), WORDS[:10])


def test_methods_are_equal_by_settings_alone_when_replaced():
    assert dataclasses.replace(make_small("DGI"), seed=3).dims == SMALL["DGI"]["dims"]
