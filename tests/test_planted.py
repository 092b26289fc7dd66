"""Planted answers: where the truth is known, the model finds it, and training earns its keep."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import silhouette_score
from sklearn.model_selection import cross_val_score

from rae import PAPER, RAE, TOY, Graph, datasets


def _accuracy(z, labels):
    return cross_val_score(LogisticRegression(max_iter=2000), z, labels, cv=3).mean()


def test_training_beats_the_untrained_encoder_on_planted_action_groups():
    data = datasets.load("planted-actions", n_nodes=600, seed=1)
    trained = RAE(PAPER, steps=60).fit_transform(data.graph, features=data.features)
    untrained = RAE(PAPER, steps=0).fit_transform(data.graph, features=data.features)

    assert _accuracy(trained, data.labels) > _accuracy(untrained, data.labels) + 0.03


def test_the_roles_of_the_house_graph_are_told_apart():
    data = datasets.load("house")
    z = RAE(TOY, dims=(8, 4), degree_cap=6).fit_transform(data.graph)

    assert silhouette_score(z, data.labels) > 0.5


@pytest.mark.parametrize("name", ["house", "barbell"])
def test_equal_positions_get_equal_vectors(name):
    """Labels are automorphism classes, so the nodes of a class stand in equal places."""
    data = datasets.load(name)
    z = RAE(TOY).fit_transform(data.graph)

    for role in np.unique(data.labels):
        members = z[data.labels == role]
        assert np.allclose(members, members[0], atol=1e-5)


def test_a_hub_is_nearer_to_a_far_hub_than_to_its_own_leaf():
    """Two stars joined by a long path: roles, not communities."""
    edges = [("h1", f"a{i}") for i in range(12)] + [("h2", f"b{i}") for i in range(12)]
    edges += [(f"p{i}", f"p{i + 1}") for i in range(10)] + [("h1", "p0"), ("p10", "h2")]
    graph = Graph.from_edges(edges)
    z = dict(zip(graph.ids, RAE(PAPER, steps=50, batch_size=32).fit_transform(graph), strict=True))

    assert np.linalg.norm(z["h1"] - z["h2"]) < 0.1 * np.linalg.norm(z["h1"] - z["a0"])


@pytest.mark.data
def test_mirrored_karate_gets_equal_vectors_for_its_two_copies(data_home):
    graph = datasets.load("karate-mirrored").graph
    z = RAE(PAPER, steps=20, batch_size=32).fit_transform(graph)

    distances = np.linalg.norm(z[:, None] - z[None], axis=-1) + 9 * np.eye(len(z))
    assert (distances.min(1) < 1e-4).all()
