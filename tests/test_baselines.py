"""One contract for every method, and each method's own known result."""

from __future__ import annotations

import dataclasses
import sys

import numpy as np
import pyarrow as pa
import pytest
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import adjusted_rand_score, completeness_score, homogeneity_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler

from elsewhere import exit_code
from plain import random_graph, relabel, to_networkx
from rae import Graph, baselines, datasets
from rae.baselines import DeepWalk, Degree, GraphWave, Node2Vec, ReFeX
from rae.baselines.refex import log_bins
from rae.datasets.roles import refine
from rae.errors import ConfigError, MissingExtraError, NotFittedError

FIXED = {  # the same graph gives the same vectors: no luck in them
    "Degree": Degree(),
    "GraphWave": GraphWave(),
    "GraphWave, plain": GraphWave(laplacian="plain"),
    "GraphWave, polynomial": GraphWave(dense=0),
    "ReFeX": ReFeX(),
}
RANDOM = {"DeepWalk": DeepWalk(dims=16), "Node2Vec": Node2Vec(dims=16)}
METHODS = FIXED | RANDOM
GRAPH = random_graph(60, 110, seed=3)


def _each(methods):
    return pytest.mark.parametrize("method", methods.values(), ids=methods)


def role_scores(z, roles):
    """GraphWave's protocol: homogeneity and completeness of k-means on five principal components."""
    flat = PCA(min(5, z.shape[1]), random_state=0).fit_transform(StandardScaler().fit_transform(z))
    clusters = KMeans(len(np.unique(roles)), n_init=20, random_state=0).fit_predict(flat)
    return homogeneity_score(roles, clusters), completeness_score(roles, clusters)


# -------------------------------------------------------------------------------- contract


def test_the_public_names_are_these():
    assert baselines.__all__ == sorted(baselines.__all__)
    assert set(baselines.__all__) == {"DeepWalk", "Degree", "GraphWave", "Node2Vec", "ReFeX", "find", "names"}


def test_rae_does_not_import_the_baselines():
    program = "import rae.pipeline, sys; sys.exit(any(m in sys.modules for m in ('rae.baselines', 'gensim')))"
    assert exit_code(program) == 0


@_each(METHODS)
def test_every_node_gets_a_finite_float32_row(method):
    z = method.fit_transform(GRAPH)

    assert z.dtype == np.float32
    assert z.ndim == 2
    assert z.flags.c_contiguous
    assert len(z) == GRAPH.n_nodes
    assert GRAPH.n_isolated > 0
    assert np.isfinite(z).all()


@_each(METHODS)
def test_the_same_settings_give_the_same_bytes(method):
    again = dataclasses.replace(method)
    assert method.fit_transform(GRAPH).tobytes() == again.fit_transform(GRAPH).tobytes()


@_each(RANDOM)
def test_another_seed_gives_other_vectors(method):
    first, second = (dataclasses.replace(method, seed=s).fit_transform(GRAPH) for s in (1, 2**70))
    assert not np.allclose(first, second)


@_each({name: method for name, method in METHODS.items() if hasattr(method, "transform")})
def test_fit_then_transform_is_fit_transform(method):
    assert np.array_equal(method.fit(GRAPH).transform(GRAPH), method.fit_transform(GRAPH))


@_each(METHODS)
def test_features_are_accepted_and_ignored(method):
    assert np.array_equal(method.fit_transform(GRAPH, np.ones((60, 3))), method.fit_transform(GRAPH))


@_each(FIXED)
def test_relabelling_permutes_the_rows(method):
    order = np.random.default_rng(0).permutation(GRAPH.n_nodes)
    z, moved = method.fit_transform(GRAPH), method.fit_transform(relabel(GRAPH, order))

    assert np.allclose(z[order], moved, atol=1e-5)


@_each(METHODS)
def test_ids_may_be_text_and_do_not_matter(method):
    ends = (np.repeat(np.arange(60), GRAPH.degrees), GRAPH.targets)
    names = pa.array([f"node {i:02}" for i in range(60)])
    named = Graph.from_edges(tuple(names.take(e) for e in ends), ids=names)

    assert np.array_equal(method.fit_transform(named), method.fit_transform(GRAPH))


@_each(METHODS)
def test_one_node_alone_gets_a_row(method):
    z = method.fit_transform(Graph.from_edges([], ids=["ann"]))

    assert z.shape[0] == 1
    assert np.isfinite(z).all()


@_each(METHODS)
def test_one_edge_is_a_graph(method):
    z = method.fit_transform(Graph.from_edges([("ann", "bob")]))

    assert z.shape[0] == 2
    assert np.isfinite(z).all()


@_each(FIXED)
def test_two_equal_components_get_equal_rows(method):
    one = random_graph(25, 40, seed=1)
    z = method.fit_transform(Graph.disjoint_union([one, one]))

    assert np.allclose(z[:25], z[25:], atol=1e-5)


@_each(RANDOM)
def test_two_components_lie_apart_for_random_walks(method):
    clique = Graph.from_edges([(i, j) for i in range(12) for j in range(i)])
    z = dataclasses.replace(method, walks=20).fit_transform(Graph.disjoint_union([clique, clique]))
    clusters = KMeans(2, n_init=5, random_state=0).fit_predict(z)

    assert adjusted_rand_score(np.arange(24) // 12, clusters) == 1


@_each(RANDOM)
def test_a_node_without_neighbours_gets_zeros_from_random_walks(method):
    z = method.fit_transform(GRAPH)
    assert np.array_equal(np.flatnonzero(~z.any(1)), np.flatnonzero(GRAPH.degrees == 0))


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        (DeepWalk, {"dims": 0}),
        (DeepWalk, {"length": 1}),
        (DeepWalk, {"learning_rate": 0.0}),
        (DeepWalk, {"seed": -1}),
        (Node2Vec, {"p": 0.0}),
        (Node2Vec, {"q": "much"}),
        (Node2Vec, {"window": 2.5}),
        (GraphWave, {"points": 0}),
        (GraphWave, {"scales": (0.0, 1.0)}),
        (GraphWave, {"scales": ()}),
        (GraphWave, {"laplacian": "heavy"}),
        (ReFeX, {"rounds": -1}),
        (ReFeX, {"bins": 1.0}),
        (ReFeX, {"scale": "sqrt"}),
    ],
)
def test_a_setting_out_of_range_is_refused_by_name(method, settings):
    with pytest.raises(ConfigError, match=next(iter(settings))):
        method(**settings)


@pytest.mark.parametrize("method", [DeepWalk, Degree, GraphWave, Node2Vec, ReFeX])
def test_settings_are_named(method):
    with pytest.raises(TypeError, match="positional"):
        method(3)


@pytest.mark.parametrize(
    ("python", "remedy"),
    [
        ((3, 13), r"install it with: pip install 'role-action-embeddings\[bench\]'"),
        ((3, 14), r"it has no wheel for Python 3\.14: run this with Python 3\.13 or older"),
    ],
)
def test_without_gensim_the_error_says_what_to_do(monkeypatch, python, remedy):
    monkeypatch.setitem(sys.modules, "gensim.models", None)
    monkeypatch.setattr(sys, "version_info", python)
    with pytest.raises(MissingExtraError, match=f"gensim; {remedy}$"):
        DeepWalk().fit_transform(GRAPH)


# ----------------------------------------------------------------------------------- roles


@pytest.mark.parametrize("method", [GraphWave(), GraphWave(laplacian="plain"), GraphWave(dense=0), ReFeX()], ids=repr)
def test_the_roles_of_the_house_are_recovered_perfectly(method):
    house = datasets.load("house")
    assert role_scores(method.fit_transform(house.graph), house.labels) == pytest.approx((1, 1))


def test_neither_walks_nor_degree_know_the_roles_of_the_house():
    house = datasets.load("house")
    assert max(role_scores(DeepWalk(dims=16).fit_transform(house.graph), house.labels)) < 0.3
    assert len(np.unique(Degree().fit_transform(house.graph))) < len(house.label_names)


@_each(FIXED)
@pytest.mark.parametrize("name", ["house", "barbell"])
def test_equal_positions_get_equal_vectors(name, method):
    data = datasets.load(name)
    z = method.fit_transform(data.graph)

    for role in np.unique(data.labels):
        assert np.allclose(z[data.labels == role], z[data.labels == role][0], atol=1e-5)


@pytest.mark.data
@_each({name: FIXED[name] for name in ("GraphWave", "GraphWave, polynomial", "ReFeX")})
def test_the_two_copies_of_mirrored_karate_get_equal_vectors(method, data_home):
    graph = datasets.load("karate-mirrored").graph
    z = method.fit_transform(graph)
    colors = refine(graph)
    assert np.bincount(colors).min() >= 2
    for color in range(colors.max() + 1):
        assert np.allclose(z[colors == color], z[colors == color][0], atol=1e-5)
    assert len(np.unique(z.round(4), axis=0)) > 20


# ------------------------------------------------------------------------------- GraphWave


def test_graphwave_is_the_formula_of_its_paper():
    import scipy.linalg

    graph = datasets.load("house").graph
    plain = np.diag(graph.degrees.astype(float))
    plain[np.repeat(np.arange(80), graph.degrees), graph.targets] = -1
    values = np.linalg.eigvalsh(plain)
    t = 4.0 * np.arange(1, 26)
    parts = []
    for share in (0.95, 0.85):
        psi = scipy.linalg.expm(-(-np.log(share) / np.sqrt(values[1] * values[-1])) * plain)
        phi = np.exp(1j * t[:, None, None] * psi).mean(1).T
        parts += [phi.real, phi.imag]

    z = GraphWave(laplacian="plain").fit_transform(graph)
    assert np.allclose(z, np.hstack(parts), atol=1e-5)


@pytest.mark.parametrize("laplacian", ["normalized", "plain"])
def test_the_polynomial_equals_the_decomposition(laplacian):
    graph = datasets.load("power-law", n_nodes=700, n_edges=2000).graph
    exact = GraphWave(laplacian=laplacian).fit_transform(graph)
    near = GraphWave(laplacian=laplacian, dense=10).fit_transform(graph)

    assert np.allclose(exact, near, atol=1e-6)


def test_the_block_size_changes_nothing(monkeypatch):
    whole = {name: FIXED[name].fit_transform(GRAPH) for name in ("GraphWave", "GraphWave, polynomial")}
    monkeypatch.setattr("rae.baselines.graphwave.BLOCK", 8 * 60 * 7)

    for name, z in whole.items():
        assert np.allclose(z, FIXED[name].fit_transform(GRAPH), atol=1e-6)


def test_the_ends_of_the_spectrum_are_found_without_the_whole(monkeypatch):
    graph = datasets.load("planted-roles", n_nodes=300).graph
    monkeypatch.setattr("rae.baselines.graphwave.SMALL", 50)

    for laplacian in ("normalized", "plain"):
        z = GraphWave(laplacian=laplacian).fit_transform(graph)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("rae.baselines.graphwave.SMALL", 400)
            assert np.allclose(z, GraphWave(laplacian=laplacian).fit_transform(graph), atol=1e-4)


def test_given_scales_are_used():
    z = GraphWave(scales=(0.5, 1.0, 2.0), points=4).fit_transform(GRAPH)

    assert z.shape == (60, 24)
    assert np.allclose(z[:, :8], GraphWave(scales=(0.5,), points=4).fit_transform(GRAPH), atol=1e-6)


# ----------------------------------------------------------------------------------- ReFeX


def test_the_local_features_are_those_of_the_egonet():
    import networkx as nx

    theirs, model = to_networkx(GRAPH), ReFeX(rounds=0, scale="raw")
    z = model.fit_transform(GRAPH)
    egos = [nx.ego_graph(theirs, u) for u in range(60)]
    inside = [ego.number_of_edges() for ego in egos]
    truth = {
        "degree": [theirs.degree(u) for u in range(60)],
        "inside": inside,
        "outside": [sum(theirs.degree(v) for v in ego) - 2 * i for ego, i in zip(egos, inside, strict=True)],
    }

    for j, (name,) in enumerate(model.recipes):
        assert z[:, j].tolist() == truth[name]


def test_recursive_features_are_sums_and_means_over_neighbours():
    model = ReFeX(rounds=2, scale="raw")
    z = dict(zip(model.fit(GRAPH).recipes, model.transform(GRAPH).T, strict=True))
    means = [recipe for recipe in z if recipe[-1] == "mean" and recipe[:-1] in z]
    sums = [recipe for recipe in z if recipe[-1] == "sum" and recipe[:-1] in z]

    assert means
    assert sums
    for recipe in sums + means:
        below = z[recipe[:-1]]
        for u in range(60):
            around = below[GRAPH.neighbors(u)]
            expected = around.sum() if recipe[-1] == "sum" else around.mean() if len(around) else 0
            assert z[recipe][u] == pytest.approx(expected, rel=1e-5)


def test_bins_halve_the_nodes_and_keep_equal_values_together():
    assert np.bincount(log_bins(np.arange(64.0), 0.5)).tolist() == [32, 16, 8, 4, 2, 1, 1]
    assert log_bins(np.array([3.0, 1.0, 1.0 + 1e-13, 1.0, 2.0]), 0.2).tolist() == [2, 0, 0, 0, 1]
    assert not log_bins(np.zeros(5), 0.5).any()


def test_similar_columns_are_selected_once():
    cycle = Graph.from_edges([(i, (i + 1) % 9) for i in range(9)])
    assert ReFeX().fit(cycle).recipes == (("degree",),)


def test_what_was_fitted_on_one_graph_is_computed_on_another():
    model = ReFeX().fit(datasets.load("house").graph)
    other = random_graph(50, 90, seed=8)

    assert model.transform(other).shape == (50, len(model.recipes))
    with pytest.raises(NotFittedError, match="fit"):
        ReFeX().transform(other)


# ----------------------------------------------------------------------------------- walks


@_each(RANDOM)
def test_random_walks_recover_planted_communities(method):
    rng = np.random.default_rng(0)
    group = np.arange(120) // 30
    chance = np.where(group[:, None] == group, 0.3, 0.01)
    edges = np.argwhere(np.triu(rng.random((120, 120)) < chance, 1))
    z = dataclasses.replace(method, walks=10).fit_transform(Graph.from_edges(edges, ids=np.arange(120)))
    clusters = KMeans(4, n_init=10, random_state=0).fit_predict(z)

    assert adjusted_rand_score(group, clusters) > 0.95


def test_node2vec_with_even_weights_is_deepwalk():
    assert np.array_equal(Node2Vec(dims=8, p=1, q=1).fit_transform(GRAPH), DeepWalk(dims=8).fit_transform(GRAPH))


@pytest.mark.data
@pytest.mark.parametrize(("name", "published"), [("cora", 67.2), ("citeseer", 43.2)])
def test_deepwalk_reaches_its_published_accuracy(name, published, data_home):
    data = datasets.load(name)
    z, train, test = DeepWalk(seed=1).fit_transform(data.graph), data.split.train, data.split.test
    probe = OneVsRestClassifier(LogisticRegression(C=1, max_iter=1000)).fit(z[train], data.labels[train])

    assert 100 * probe.score(z[test], data.labels[test]) > published
