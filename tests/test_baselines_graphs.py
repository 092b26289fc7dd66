"""Methods of whole graphs: one contract for vectors, one for classifiers, and each method's own law."""

from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import cross_val_score

from plain import random_graph, relabel
from rae import Graph
from rae.baselines.colors import colors
from rae.baselines.dgk import DeepGraphKernel, graphlet_names, path_sentences
from rae.baselines.gin import GIN
from rae.baselines.graph2vec import Graph2Vec
from rae.baselines.infograph import InfoGraph
from rae.baselines.patchysan import PatchySAN, receptive_fields
from rae.baselines.subgraph2vec import Subgraph2Vec, contexts
from rae.baselines.wl import WLKernel
from rae.datasets.roles import refine
from rae.errors import ConfigError, FeatureError, NotFittedError

VECTORS = {
    "WL": WLKernel(rounds=3),
    "DGK, wl": DeepGraphKernel(dims=4, passes=1),
    "DGK, paths": DeepGraphKernel(substructures="paths", dims=4, passes=1),
    "DGK, graphlets": DeepGraphKernel(substructures="graphlets", size=4, samples=8, near=3, dims=4, passes=1),
    "graph2vec": Graph2Vec(dims=8, rounds=2, passes=3),
    "subgraph2vec": Subgraph2Vec(dims=4, passes=1),
    "InfoGraph": InfoGraph(layers=2, width=4, passes=2, batch=8),
}
CLASSIFIERS = {
    "GIN": GIN(layers=2, width=8, batch=8, passes=12),
    "Patchy-SAN": PatchySAN(field_size=4, batch=8, passes=25, learning_rate=0.003),
}


def _each(methods):
    return pytest.mark.parametrize("method", methods.values(), ids=methods)


def planted(count: int = 40):
    """Cycles and stars of several sizes, told apart by their shape alone."""
    graphs = []
    for i in range(count):
        n = 5 + i % 5
        graphs.append(Graph.from_edges([(j, (j + 1) % n) if i % 2 else (0, j + 1) for j in range(n)]))
    return graphs, np.arange(count) % 2


GRAPHS, LABELS = planted()
FEATURES = [np.eye(2, dtype=np.float32)[np.arange(g.n_nodes) % 2] for g in GRAPHS]


def dense(z):
    return z.toarray() if sp.issparse(z) else z


# --------------------------------------------------------------------------------- vectors


@_each(VECTORS)
@pytest.mark.parametrize("features", [None, FEATURES], ids=["degrees", "kinds"])
def test_every_graph_gets_a_finite_row_the_same_every_time(method, features):
    z, again = (dense(dataclasses.replace(method).fit_transform(GRAPHS, features)) for _ in range(2))

    assert z.shape[0] == len(GRAPHS)
    assert np.isfinite(z).all()
    assert z.tobytes() == again.tobytes()


@_each(VECTORS)
def test_cycles_and_stars_are_told_apart(method):
    z = dense(method.fit_transform(GRAPHS)).astype(float)
    unit = z / np.linalg.norm(z, axis=1, keepdims=True)
    alike = unit @ unit.T

    assert alike[LABELS[:, None] == LABELS].mean() > alike[LABELS[:, None] != LABELS].mean()


@_each({name: method for name, method in VECTORS.items() if hasattr(method, "seed")})
def test_another_seed_gives_other_vectors(method):
    other = dataclasses.replace(method, seed=7)
    assert not np.allclose(method.fit_transform(GRAPHS), other.fit_transform(GRAPHS))


def test_a_vector_does_not_tell_the_place_of_its_graph_in_the_list():
    """Public sets are sorted by class: a method that learns graphs in their order would learn the classes by it."""
    random = np.random.default_rng(0)
    pairs = [np.argwhere(np.triu(random.random((30, 30)) < 0.1, 1)) for _ in range(400)]
    z = Graph2Vec(dims=64, rounds=2, passes=5).fit_transform([Graph.from_edges(p, ids=np.arange(30)) for p in pairs])
    second_half = np.arange(400) >= 200

    assert cross_val_score(RidgeClassifier(10.0), z / z.std(0), second_half, cv=5).mean() <= 0.6


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        (WLKernel, {"rounds": -1}),
        (DeepGraphKernel, {"substructures": "planets"}),
        (DeepGraphKernel, {"size": 8}),
        (Graph2Vec, {"learning_rate": 0}),
        (Subgraph2Vec, {"dims": 0}),
        (InfoGraph, {"without": "nothing"}),
        (GIN, {"without": "nothing"}),
        (GIN, {"dropout": 2.0}),
        (PatchySAN, {"order": "alphabetic"}),
        (PatchySAN, {"field_size": 0}),
    ],
)
def test_a_setting_out_of_range_is_refused_by_name(method, settings):
    with pytest.raises(ConfigError, match=next(iter(settings))):
        method(**settings)


def test_features_of_another_shape_are_refused():
    with pytest.raises(FeatureError, match="one table per graph"):
        WLKernel().fit_transform(GRAPHS, FEATURES[1:])
    with pytest.raises(FeatureError, match="as in the fit"):
        InfoGraph(layers=1, width=2, passes=1).fit(GRAPHS, FEATURES).transform(GRAPHS, [f[:, :1] for f in FEATURES])


# --------------------------------------------------------------------------------- colours and the WL kernel


def plain_kernel(graphs, kinds, rounds):
    """Pairs of nodes with equal subtrees, summed over rounds; a subtree is a nested tuple."""
    counts = []
    for graph, kind in zip(graphs, kinds, strict=True):
        trees, subtrees = list(kind), Counter()
        for number in range(rounds + 1):
            subtrees.update((number, tree) for tree in trees)
            trees = [
                (trees[u], tuple(sorted((trees[v] for v in graph.neighbors(u)), key=repr)))
                for u in range(graph.n_nodes)
            ]
        counts.append(subtrees)
    return np.array([[sum(a[t] * b[t] for t in a) for b in counts] for a in counts])


@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_the_wl_kernel_is_that_of_the_definition(rounds):
    graphs = [random_graph(9, m, seed=m) for m in range(6, 14)] + GRAPHS[:4]
    z = WLKernel(rounds=rounds).fit_transform(graphs)
    features = [np.random.default_rng(i).integers(0, 2, (g.n_nodes, 2)) for i, g in enumerate(graphs)]
    with_kinds = WLKernel(rounds=rounds).fit_transform(graphs, features)

    assert np.array_equal((z @ z.T).toarray(), plain_kernel(graphs, [g.degrees.tolist() for g in graphs], rounds))
    kinds = [[tuple(row) for row in f.tolist()] for f in features]
    assert np.array_equal((with_kinds @ with_kinds.T).toarray(), plain_kernel(graphs, kinds, rounds))


def test_relabelled_graphs_have_the_same_counts_and_colours():
    graphs = [random_graph(12, m, seed=m) for m in (10, 15, 20)]
    orders = [np.random.default_rng(i).permutation(12) for i in range(3)]
    moved = [relabel(g, order) for g, order in zip(graphs, orders, strict=True)]
    z = WLKernel().fit_transform([*graphs, *moved]).toarray()

    assert np.array_equal(z[:3], z[3:])
    for before, after in zip(colors(graphs, None, 3), colors(moved, None, 3), strict=True):
        rows = np.concatenate([12 * i + order for i, order in enumerate(orders)])
        assert np.array_equal(before[rows], after)


# --------------------------------------------------------------------------------- deep kernels


def test_every_graph_of_up_to_seven_nodes_has_a_name_of_its_own():
    from networkx.generators.atlas import graph_atlas_g

    by_size, rng = {}, np.random.default_rng(0)
    for graph in graph_atlas_g()[1:]:
        by_size.setdefault(graph.number_of_nodes(), []).append(list(graph.edges))
    for k, graphs in by_size.items():
        joined = np.zeros((len(graphs), k, k), np.int64)
        for matrix, edges in zip(joined, graphs, strict=True):
            for u, v in edges:
                matrix[u, v] = matrix[v, u] = 1
        order = rng.permutation(k)
        names, again = (
            graphlet_names(m[:, *np.triu_indices(k, 1)] @ (1 << np.arange(k * (k - 1) // 2)), k)
            for m in (joined, joined[:, order][:, :, order])
        )
        assert len(np.unique(names)) == len(graphs)
        assert np.array_equal(names, again)
    assert sum(map(len, by_size.values())) == 1252


def test_path_words_are_the_kinds_of_the_ends_and_the_length():
    path, triangle = Graph.from_edges([(0, 1), (1, 2)]), Graph.from_edges([(0, 1), (1, 2), (2, 0)])
    sentences, owners = path_sentences([path, triangle], None)
    counts = [Counter(np.concatenate([s for s, o in zip(sentences, owners, strict=True) if o == i])) for i in (0, 1)]

    assert owners.tolist() == [0, 0, 0, 1, 1, 1]
    assert sorted(counts[0].values()) == [2, 4]  # end to end at two steps, ends to the middle at one
    assert sorted(counts[1].values()) == [6]
    assert not set(counts[0]) & set(counts[1])  # degree 1 to 2, against degree 2 to 2


def test_the_context_of_a_subtree_is_around_its_neighbours():
    graph = Graph.from_edges([(0, 1)])
    by_round = [np.array([0, 1]), np.array([2, 3]), np.array([4, 5])]

    assert {tuple(pair) for pair in contexts(by_round, graph).tolist()} == {
        (0, 1), (0, 3), (2, 1), (2, 3), (2, 5), (4, 3), (4, 5)
    }  # fmt: skip


# --------------------------------------------------------------------------------- InfoGraph


def test_infograph_embeds_graphs_that_the_fit_has_not_seen():
    model = dataclasses.replace(VECTORS["InfoGraph"])
    with pytest.raises(NotFittedError, match="fit"):
        model.transform(GRAPHS)
    model.fit(GRAPHS[:20])

    assert np.allclose(model.transform(GRAPHS)[:20], model.transform(GRAPHS[:20]), atol=1e-4)
    order = np.random.default_rng(0).permutation(GRAPHS[30].n_nodes)
    assert np.allclose(model.transform([relabel(GRAPHS[30], order)]), model.transform(GRAPHS[30:31]), atol=1e-4)


# --------------------------------------------------------------------------------- classifiers


@_each(CLASSIFIERS)
def test_two_planted_classes_are_told_apart_on_graphs_that_were_not_seen(method):
    train, test = np.arange(30), np.arange(30, 40)
    with pytest.raises(NotFittedError, match="fit"):
        dataclasses.replace(method).predict(GRAPHS)
    model = dataclasses.replace(method).fit(GRAPHS, None, LABELS, train)

    assert np.array_equal(model.predict([GRAPHS[i] for i in test]), LABELS[test])
    assert 1 <= model.chosen_pass <= method.passes


@_each(CLASSIFIERS)
def test_labels_and_graphs_of_the_test_are_never_read_and_the_seed_decides(method):
    train, test = np.arange(30), np.arange(30, 40)
    features = [np.random.default_rng(i).random((g.n_nodes, 3)).astype(np.float32) for i, g in enumerate(GRAPHS)]
    short = dataclasses.replace(method, passes=2)
    other = LABELS.copy()
    other[test] = 1 - other[test]
    elsewhere = [*GRAPHS[:30], *GRAPHS[:10]]
    hidden = np.where(np.isin(np.arange(40), train), LABELS, -1)
    weights = [
        _weights(dataclasses.replace(short).fit(graphs, features, labels, train))
        for graphs, labels in ((GRAPHS, LABELS), (GRAPHS, other), (GRAPHS, hidden), (elsewhere, LABELS))
    ]
    another = _weights(dataclasses.replace(short, seed=5).fit(GRAPHS, features, LABELS, train))

    assert all(np.array_equal(w, weights[0]) for w in weights)
    assert not np.array_equal(another, weights[0])


def _weights(model):
    return np.concatenate([w.detach().numpy().ravel() for w in model.model.state_dict().values()])


@_each(CLASSIFIERS)
def test_classes_need_not_be_numbered_from_zero(method):
    short = dataclasses.replace(method, passes=2).fit(GRAPHS, None, LABELS * 3 + 4, np.arange(30))
    assert set(short.predict(GRAPHS)) <= {4, 7}


def test_global_random_numbers_are_left_alone():
    import torch

    torch.manual_seed(3)
    first = torch.rand(1)
    torch.manual_seed(3)
    dataclasses.replace(CLASSIFIERS["GIN"], passes=1).fit(GRAPHS, None, LABELS, np.arange(30))
    assert torch.rand(1) == first


@pytest.mark.parametrize("order", ["betweenness", "pagerank"])
def test_a_receptive_field_has_the_nearest_nodes_the_most_central_first(order):
    path = Graph.from_edges([(i, i + 1) for i in range(6)])  # 3 is in the middle
    fields = receptive_fields(path, 9, 3, order)

    assert fields.shape == (9, 3)
    assert (fields[7:] == -1).all()  # there are only seven nodes
    assert fields[:, 0][:7].tolist() == sorted(range(7), key=lambda u: fields[:, 0].tolist().index(u))
    for root, *near in fields[:7].tolist():
        assert max(abs(u - root) for u in near) == (1 if 0 < root < 6 else 2)
    if order == "betweenness":
        assert fields[0, 0] == 3
        assert (receptive_fields(Graph.disjoint_union([path, path]), 3, 9, order)[:, 7:] == -1).all()


def test_relabelling_moves_the_fields_of_a_graph():
    graph = random_graph(12, 26, seed=4)
    order = np.random.default_rng(1).permutation(12)

    fields = receptive_fields(graph, 12, 4, "betweenness")
    moved = receptive_fields(relabel(graph, order), 12, 4, "betweenness")

    positions = refine(graph)  # nodes in equal positions may change places
    assert np.array_equal(positions[order[moved]], positions[fields])
