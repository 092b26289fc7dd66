"""Airports carry their classes by id; edge lists come as they are."""

from __future__ import annotations

import numpy as np
import pytest

from rae.datasets import Home, load
from rae.errors import DatasetError


def _home(tmp_path, edges="7 3\n3 12\n12 12\n", labels="node label\n12 1\n3 0\n7 2\n40 3\n"):
    (tmp_path / "struc2vec").mkdir()
    (tmp_path / "struc2vec" / "brazil-airports.edgelist").write_text(edges)
    (tmp_path / "struc2vec" / "labels-brazil-airports.txt").write_text(labels)
    return Home(tmp_path, tmp_path / "cache", {})


def test_labels_follow_the_ids_and_airports_without_flights_exist(tmp_path):
    data = load("brazil-airports", home=_home(tmp_path))

    assert dict(zip(data.graph.ids.tolist(), data.labels.tolist(), strict=True)) == {3: 0, 7: 2, 12: 1, 40: 3}
    assert (data.graph.n_edges, data.graph.n_isolated, data.graph.counts.self_loops) == (2, 1, 1)


def test_an_airport_without_a_class_has_the_label_minus_one(tmp_path):
    data = load("brazil", home=_home(tmp_path, labels="node label\n12 1\n3 0\n"))

    assert data.labels[data.graph.rows([7])].tolist() == [-1]


@pytest.mark.parametrize(
    ("labels", "match"),
    [
        ("12 1\n3 0\n", "must start with the line 'node label', got '12 1'"),
        ("node label\n12 1\n3\n", "one class from 0 on"),
        ("node label\n12 1\n12 2\n", "one class from 0 on"),
        ("node label\n12 -1\n", "one class from 0 on"),
        ("node label\n12 one\n", "whole numbers only"),
    ],
)
def test_damaged_labels_are_refused(labels, match, tmp_path):
    with pytest.raises(DatasetError, match=match):
        load("brazil", home=_home(tmp_path, labels=labels))


def _actors(tmp_path, labels):
    (tmp_path / "rone").mkdir()
    (tmp_path / "rone" / "actor.edge").write_text("0 2\n2 1\n1 1\n")
    (tmp_path / "rone" / "actor.lbl").write_text(labels)
    return Home(tmp_path, tmp_path / "cache", {})


def test_actors_without_an_influence_have_the_label_minus_one(tmp_path):
    data = load("actor", home=_actors(tmp_path, "0 3\n2 1\n"))

    assert dict(zip(data.graph.ids.tolist(), data.labels.tolist(), strict=True)) == {0: 3, 1: -1, 2: 1}


@pytest.mark.parametrize("labels", ["0 3\n2\n", "0 3\n0 1\n", "0 -1\n", "0 high\n"])
def test_damaged_labels_of_actors_are_refused(labels, tmp_path):
    with pytest.raises(DatasetError, match=r"actor\.lbl must"):
        load("actor", home=_actors(tmp_path, labels))


def test_the_web_graph_is_read_under_either_name(tmp_path):
    (tmp_path / "web-Google").mkdir()
    (tmp_path / "web-Google" / "web-Google.txt.gz").write_text("# a comment\n0\t5\n5\t0\n")

    assert load("web-google", home=Home(tmp_path, tmp_path, {})).graph.n_edges == 1


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "nodes", "edges", "loops", "smallest"),
    [("brazil", 131, 1003, 71, 32), ("europe", 399, 5993, 2, 99), ("usa", 1190, 13599, 0, 297)],
)
def test_the_published_counts(data_home, name, nodes, edges, loops, smallest):
    data = load(name)

    assert (data.graph.n_nodes, data.graph.n_edges, data.graph.counts.self_loops) == (nodes, edges, loops)
    assert data.n_classes == 4
    assert np.bincount(data.labels).min() == smallest


@pytest.mark.data
def test_the_published_counts_of_actors(data_home):
    data = load("actor")

    assert (data.graph.n_nodes, data.graph.n_edges, data.graph.counts.self_loops) == (7_758, 26_646, 87)
    assert np.bincount(data.labels + 1).tolist() == [594, 1_782, 1_787, 1_798, 1_797]


@pytest.mark.data
def test_the_edge_lists_have_their_published_size(data_home):
    assert load("ca-AstroPh").graph.n_edges == 198_050
    assert load("karate-mirrored").graph.n_nodes == 68
    assert load("facebook348").graph.n_nodes == 224


@pytest.mark.data
def test_our_barbell_is_that_of_struc2vec(data_home):
    ours, theirs = load("barbell").graph, load("barbell-struc2vec").graph

    assert np.array_equal(ours.offsets, theirs.offsets)
    assert np.array_equal(ours.targets, theirs.targets)
