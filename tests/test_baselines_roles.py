"""struc2vec, role2vec, RolX, RESD and DRNE: each one's law, and roles that are known."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest
import torch

from plain import random_graph, relabel
from rae import Graph, datasets
from rae.baselines.drne import DRNE, Network, Sequences
from rae.baselines.resd import RESD
from rae.baselines.role2vec import MOTIFS, Role2Vec, motif_counts
from rae.baselines.rolx import RolX, description_length, factors, lloyd_max
from rae.baselines.struc2vec import Struc2Vec, compared, structural_distances
from rae.datasets.roles import refine
from rae.errors import ConfigError, NotFittedError

GRAPH = random_graph(40, 60, seed=3)
WALKS = {
    "struc2vec": Struc2Vec(dims=8, walks=2, length=10, passes=1),
    "role2vec": Role2Vec(dims=8, walks=2, length=10),
}
METHODS = {**WALKS, "RolX": RolX(), "RESD": RESD(dims=8, hidden=8, passes=2), "DRNE": DRNE(dims=4, passes=2)}


def _each(methods):
    return pytest.mark.parametrize("method", methods.values(), ids=methods)


# ------------------------------------------------------------------------------- contract


@_each(METHODS)
def test_every_node_gets_a_finite_float32_row_the_same_every_time(method):
    z, again = (dataclasses.replace(method).fit_transform(GRAPH) for _ in range(2))

    assert z.dtype == np.float32
    assert z.shape[0] == GRAPH.n_nodes
    assert GRAPH.n_isolated > 0
    assert np.isfinite(z).all()
    assert z.tobytes() == again.tobytes()


@_each({name: method for name, method in METHODS.items() if hasattr(method, "seed")})
def test_another_seed_gives_other_vectors(method):
    assert not np.allclose(method.fit_transform(GRAPH), dataclasses.replace(method, seed=5).fit_transform(GRAPH))


@_each({name: method for name, method in METHODS.items() if hasattr(method, "transform")})
def test_what_was_fitted_on_one_graph_is_computed_on_another(method):
    other = random_graph(30, 50, seed=8)
    with pytest.raises(NotFittedError, match="fit"):
        dataclasses.replace(method).transform(other)
    width = method.fit_transform(GRAPH).shape[1]

    assert method.transform(other).shape == (30, width)
    order = np.random.default_rng(0).permutation(30)
    assert np.allclose(method.transform(other)[order], method.transform(relabel(other, order)), atol=1e-4)


@_each(METHODS)
def test_tiny_graphs_get_rows(method):
    for graph in (Graph.from_edges([], ids=["ann"]), Graph.from_edges([("ann", "bob")])):
        z = dataclasses.replace(method).fit_transform(graph)
        assert z.shape[0] == graph.n_nodes
        assert np.isfinite(z).all()


@_each(WALKS)
def test_a_node_without_neighbours_gets_zeros_from_walks(method):
    z = method.fit_transform(GRAPH)
    assert np.array_equal(np.flatnonzero(~z.any(1)), np.flatnonzero(GRAPH.degrees == 0))


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        (Struc2Vec, {"pairs": "some"}),
        (Struc2Vec, {"stay": 0.0}),
        (Struc2Vec, {"levels": -1}),
        (Role2Vec, {"motifs": ()}),
        (Role2Vec, {"motifs": ("pentagons",)}),
        (Role2Vec, {"bins": 1}),
        (RolX, {"roles": 0}),
        (RolX, {"most": 0.5}),
        (RESD, {"dims": 0}),
        (RESD, {"device": "abacus"}),
    ],
)
def test_a_setting_out_of_range_is_refused_by_name(method, settings):
    with pytest.raises(ConfigError, match=next(iter(settings))):
        method(**settings)


# ------------------------------------------------------------------------------- struc2vec


def plain_distances(graph, levels):
    """f_k of every pair, by the definitions, one cell of the warping table at a time."""
    import networkx as nx

    steps = dict(nx.all_pairs_shortest_path_length(graph.to_networkx()))
    ids, degree = graph.ids.tolist(), dict(zip(graph.ids.tolist(), graph.degrees.tolist(), strict=True))

    def ring(u, k):
        degrees = sorted(degree[v] for v, away in steps[u].items() if away == k)
        return [(d, len(list(group))) for d, group in itertools.groupby(degrees)]

    def warped(a, b):
        table = {(-1, -1): 0.0}
        for i, j in itertools.product(range(len(a)), range(len(b))):
            (x, m), (y, n) = a[i], b[j]
            before = min(table.get(cell, math.inf) for cell in ((i - 1, j), (i, j - 1), (i - 1, j - 1)))
            table[i, j] = (max(x, y) / min(x, y) - 1) * max(m, n) + before
        return table[len(a) - 1, len(b) - 1]

    by_level = []
    for k in range(levels + 1):
        here = {}
        for u, v in itertools.combinations(range(len(ids)), 2):
            rings = ring(ids[u], k), ring(ids[v], k)
            if all(rings) and (k == 0 or (u, v) in by_level[-1]):
                here[u, v] = warped(*rings) + (by_level[-1][u, v] if k else 0)
        by_level.append(here)
    return by_level


def test_structural_distances_are_those_of_the_definition():
    graph = datasets.load("power-law", n_nodes=40, n_edges=70, seed=2).graph
    graph = graph.subgraph(graph.ids[graph.degrees > 0])

    ours = structural_distances(graph, compared(graph, "all"), 3)

    for level, truth in zip(ours, plain_distances(graph, 3), strict=True):
        pairs = [tuple(sorted(pair)) for pair in level[0].tolist()]
        assert set(pairs) == set(truth)
        assert np.allclose(level[1], [truth[pair] for pair in pairs], atol=1e-9)


def test_nodes_in_equal_positions_are_at_distance_zero_and_no_others():
    graph = datasets.load("barbell", clique=5, path=6).graph
    classes = refine(graph)

    pairs, distances = structural_distances(graph, compared(graph, "all"), 4)[-1]

    equal = classes[pairs[:, 0]] == classes[pairs[:, 1]]
    assert equal.any()
    assert distances[equal].max() < 1e-9
    assert distances[~equal].min() > 0.01


def test_near_pairs_are_some_of_all_pairs():
    every = {tuple(sorted(pair)) for pair in compared(GRAPH, "all").tolist()}
    near = [tuple(sorted(pair)) for pair in compared(GRAPH, "near").tolist()]

    assert set(near) < every
    assert len(set(near)) == len(near)
    assert {row for pair in near for row in pair} == set(np.flatnonzero(GRAPH.degrees).tolist())


def test_struc2vec_tells_the_positions_of_the_barbell_apart():
    barbell = datasets.load("barbell")
    z = Struc2Vec(dims=16, walks=10, length=30, passes=2, pairs="all").fit_transform(barbell.graph)
    same = barbell.labels[:, None] == barbell.labels
    unit = z / np.linalg.norm(z, axis=1, keepdims=True)
    alike = unit @ unit.T
    others = ~np.eye(len(z), dtype=bool)
    clique, path = (np.flatnonzero(barbell.labels == barbell.labels[row]) for row in (0, len(z) // 2))

    assert alike[same & others].mean() > alike[~same].mean() + 0.2
    assert alike[np.ix_(clique[:10], clique[-10:])].mean() > alike[np.ix_(clique, path)].mean() + 0.2


# ------------------------------------------------------------------------------- role2vec


def test_motifs_are_counted_as_by_hand():
    import networkx as nx

    graph = random_graph(14, 40, seed=1)
    plain = nx.Graph(graph.to_networkx())
    squares = dict.fromkeys(range(14), 0)
    for a, b, c, d in itertools.permutations(range(14), 4):
        if a < min(b, c, d) and b < d and all(plain.has_edge(*e) for e in ((a, b), (b, c), (c, d), (d, a))):
            for node in (a, b, c, d):
                squares[node] += 1
    triangles = nx.triangles(plain)
    truth = {
        "edges": [plain.degree(u) for u in range(14)],
        "triangles": [triangles[u] for u in range(14)],
        "squares": [squares[u] for u in range(14)],
        "paths": [sum(w != u and not plain.has_edge(u, w) for v in plain[u] for w in plain[v]) for u in range(14)],
        "tails": [sum(triangles[v] for v in plain[u]) - 2 * triangles[u] for u in range(14)],
    }

    assert set(truth) == set(MOTIFS)
    for motif, counts in truth.items():
        assert motif_counts(graph, motif).tolist() == counts


def test_nodes_of_one_type_have_one_vector_and_those_in_equal_positions_one_type():
    graph, method = datasets.load("house").graph, Role2Vec(dims=8, walks=2, length=10)
    types, z, classes = method.types(graph), method.fit_transform(graph), refine(graph)

    assert len(np.unique(types)) > 2
    for kind in np.unique(types):
        assert np.ptp(z[types == kind], axis=0).max() == 0
    for position in np.unique(classes):
        assert len(np.unique(types[classes == position])) == 1


# ------------------------------------------------------------------------------- RolX


def test_factors_are_not_negative_and_rebuild_the_features():
    model = RolX(roles=3)
    graph = datasets.load("planted-roles", n_nodes=150, seed=1).graph
    z = model.fit_transform(graph)
    x = dataclasses.replace(model._features).fit_transform(graph)

    assert z.shape == (150, 3)
    assert z.min() >= 0
    assert model.definitions.min() >= 0
    assert np.allclose(z.mean(0), 1, atol=0.02)
    assert np.linalg.norm(x - z @ model.definitions) < 0.2 * np.linalg.norm(x)


def test_a_role_is_named_by_what_it_has_more_of_than_others():
    star = [(0, i) for i in range(1, 30)]  # what leads out of a leaf's egonet are the hub's other edges
    clique = [(100 + i, 100 + j) for i in range(9) for j in range(i)]
    graph = Graph.from_edges([*star, *clique, (1, 100)])
    model = RolX(roles=2)
    z = model.fit_transform(graph)
    leaf, dense = (z[graph.rows([node])[0]].argmax() for node in (2, 104))
    names = model.named_roles(top=2)

    assert len(names) == 2
    assert names[leaf] == ("outside", "degree")
    assert names[dense] == ("inside", "degree")
    with pytest.raises(NotFittedError):
        RolX().named_roles()


def test_the_shortest_description_finds_the_rank_of_the_features():
    rng = np.random.default_rng(0)
    left, right = rng.gamma(0.5, 200, (300, 3)), rng.gamma(0.5, 1, (3, 12))
    x = rng.poisson(left @ right).astype(float)

    lengths = {roles: description_length(x, *factors(x, roles)) for roles in range(1, 7)}

    assert min(lengths, key=lengths.get) == 3


def test_levels_are_the_means_of_what_is_rounded_to_them():
    values = np.random.default_rng(1).gamma(2, size=500)
    middles, numbers = lloyd_max(values, 8, steps=200)

    for level in np.unique(numbers):
        assert middles[level] == pytest.approx(values[numbers == level].mean(), abs=1e-3)
    assert np.all(np.abs(values - middles[numbers]) <= np.abs(values[:, None] - middles).min(1) + 1e-9)


# ------------------------------------------------------------------------------- RESD


def test_the_code_tells_the_degree_and_equal_positions_have_equal_codes():
    graph = datasets.load("house").graph
    z = RESD(dims=8, hidden=16, passes=60).fit_transform(graph)
    classes = refine(graph)
    design = np.hstack([z, np.ones((len(z), 1))])
    predicted = design @ np.linalg.lstsq(design, np.log1p(graph.degrees), rcond=None)[0]

    assert np.corrcoef(predicted, np.log1p(graph.degrees))[0, 1] > 0.95
    assert all(np.ptp(z[classes == c], axis=0).max() < 1e-5 for c in np.unique(classes))


# ------------------------------------------------------------------------------- DRNE


def test_neighbours_are_read_from_the_lowest_degree_up_and_the_best_connected_are_drawn():
    star = Graph.from_edges([(0, i) for i in range(1, 9)] + [(7, 8), (8, 9)])
    rng = np.random.default_rng(0)
    rows, lengths = Sequences(star, 100).of(np.array([0, 9]), rng)
    drawn = [Sequences(star, 3).of(np.array([0]), rng)[0][0] for _ in range(200)]

    assert lengths.tolist() == [8, 1]
    assert star.degrees[rows[0]].tolist() == sorted(star.degrees[star.neighbors(0)])
    assert rows[1, 0] == 8
    assert all(len(set(each)) == 3 and np.all(np.diff(star.degrees[each]) >= 0) for each in drawn)
    assert np.mean([8 in each for each in drawn]) > 1.5 * np.mean([1 in each for each in drawn])


def test_the_loss_is_that_of_a_network_read_step_by_step():
    torch.manual_seed(0)
    degrees = torch.tensor([3.0, 1.0, 2.0, 2.0])
    model = Network(degrees, 3)
    rows, neighbours, lengths = np.array([0, 1]), np.array([[1, 2, 3], [0, 0, 0]]), np.array([3, 1])
    total = 0.0
    with torch.no_grad():
        for row, near in ((0, [1, 2, 3]), (1, [0])):
            h = c = torch.zeros(3)
            for x in model.own[near]:
                gates = model.reads.weight_ih_l0 @ x + model.reads.weight_hh_l0 @ h + model.reads.bias_ih_l0
                keep_in, forget, new, out = (gates + model.reads.bias_hh_l0).reshape(4, 3)
                c = forget.sigmoid() * c + keep_in.sigmoid() * new.tanh()
                h = out.sigmoid() * c.tanh()
            told = torch.selu(model.tell(h)[0]) - torch.log1p(degrees[row])
            total += float(((h - model.own[row]) ** 2).mean() + 0.5 * told.abs()) / 2
        loss = float(model.loss(rows, neighbours, lengths, 0.5))

    assert loss == pytest.approx(total, rel=1e-5)


def test_vectors_learn_to_tell_the_degree():
    house = datasets.load("house").graph
    z = DRNE(passes=60).fit_transform(house)
    design = np.hstack([z, np.ones((len(z), 1))])
    told = design @ np.linalg.lstsq(design, np.log1p(house.degrees), rcond=None)[0]

    assert np.corrcoef(told, np.log1p(house.degrees))[0, 1] > 0.95
