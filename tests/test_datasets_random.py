"""Random graphs have the size, the groups and the tails that were asked for."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from rae.datasets import load
from rae.errors import ConfigError


def _same_group_share(data):
    rows = np.repeat(np.arange(data.graph.n_nodes), data.graph.degrees)
    return (data.labels[rows] == data.labels[data.graph.targets]).mean()


def test_planted_actions_have_what_was_asked_for():
    data = load("planted-actions", n_nodes=1001, groups=4, n_words=300, words=12, degree=8)

    assert data.graph.n_nodes == 1001
    assert sp.issparse(data.features)
    assert data.features.shape == (1001, 300)
    assert data.features.dtype == np.float32
    assert set(np.unique(data.features.data)) == {1.0}
    assert 1 <= np.diff(data.features.indptr).min() <= np.diff(data.features.indptr).max() <= 12
    assert np.ptp(np.bincount(data.labels)) <= 1
    assert data.label_names == ("group 0", "group 1", "group 2", "group 3")
    assert abs(data.graph.degrees.mean() - 8) < 0.3


def test_the_split_is_a_partition():
    split = load("planted-actions", n_nodes=500).split

    assert [len(split.train), len(split.val), len(split.test)] == [50, 50, 400]
    assert np.array_equal(np.sort(np.concatenate([split.train, split.val, split.test])), np.arange(500))


def test_assortativity_sets_the_share_of_edges_inside_groups():
    for assortativity in (0.0, 0.5, 1.0):
        share = _same_group_share(load("planted-actions", n_nodes=4000, groups=5, assortativity=assortativity))

        assert abs(share - (assortativity + (1 - assortativity) / 5)) < 0.02


def test_signal_sets_how_far_words_give_the_group_away():
    def between(signal):
        data = load("planted-actions", n_nodes=2000, signal=signal)
        means = np.stack([data.features[data.labels == g].mean(0) for g in range(5)])
        return means.std(0).sum()

    assert between(0.0) < between(0.15) < between(0.6)


def test_without_signal_words_say_nothing():
    data = load("planted-actions", n_nodes=4000, groups=2, signal=0.0)
    means = [np.asarray(data.features[data.labels == g].mean(0)) for g in (0, 1)]

    assert np.abs(means[0] - means[1]).max() < 0.05


@pytest.mark.parametrize("name", ["planted-actions", "power-law"])
def test_same_seed_same_bytes(name):
    one, same, other = (load(name, n_nodes=900, seed=s) for s in (1, 1, 2))

    assert one.graph.targets.tobytes() == same.graph.targets.tobytes() != other.graph.targets.tobytes()
    if one.features is not None:
        assert one.features.indices.tobytes() == same.features.indices.tobytes() != other.features.indices.tobytes()


@pytest.mark.parametrize(("n", "m"), [(2, 0), (10_000, 40_000), (3000, 100_000)])
def test_power_law_has_exactly_its_edges(n, m):
    graph = load("power-law", n_nodes=n, n_edges=m).graph

    assert (graph.n_nodes, graph.n_edges) == (n, m)


def test_power_law_has_a_heavy_tail_at_random_rows():
    degrees = load("power-law", n_nodes=50_000, n_edges=200_000, exponent=2.2).graph.degrees
    light = load("power-law", n_nodes=50_000, n_edges=200_000, exponent=4.0).graph.degrees

    assert degrees.max() > 100 * np.median(degrees)
    assert degrees.max() > 3 * light.max()
    assert abs(degrees[:25_000].mean() - degrees[25_000:].mean()) < 1.0


@pytest.mark.parametrize(
    ("name", "options", "match"),
    [
        ("planted-actions", {"groups": 1}, "groups must be a whole number, 2 or more"),
        ("planted-actions", {"n_nodes": 20, "groups": 21}, "groups must be at most n_nodes"),
        ("planted-actions", {"n_words": 10}, "topic_words at most n_words"),
        ("planted-actions", {"signal": 1.1}, r"signal must be a number from 0 to 1, got 1\.1"),
        ("planted-actions", {"assortativity": "much"}, "assortativity must be a number"),
        ("power-law", {"exponent": 2}, "exponent must be a number above 2"),
        ("power-law", {"exponent": "steep"}, "exponent must be a number above 2"),
        ("power-law", {"n_nodes": 10, "n_edges": 40}, "must leave the graph sparse"),
    ],
)
def test_impossible_options_are_refused(name, options, match):
    with pytest.raises(ConfigError, match=match):
        load(name, **options)
