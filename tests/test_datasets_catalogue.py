"""Every data set is found under its name, and a name that is not there is answered by the nearest."""

from __future__ import annotations

import numpy as np
import pytest

from rae import datasets
from rae.datasets import Dataset, GraphCollection, Split
from rae.errors import ConfigError, DatasetError, RaeError
from rae.graph import Graph


def test_the_names_are_all_there():
    assert {"house", "barbell", "planted-roles", "planted-actions", "power-law", "stdlib"} < set(datasets.names())
    assert {"cora", "citeseer", "pubmed", "brazil", "europe", "usa", "MUTAG", "IMDB-BINARY"} < set(datasets.names())
    assert {"facebook-pages", "chameleon", "squirrel", "actor", "PROTEINS"} < set(datasets.names())
    assert list(datasets.names()) == sorted(datasets.names(), key=str.lower)


@pytest.mark.parametrize(("name", "near"), [("cara", "cora"), ("Mutagg", "MUTAG"), ("planted-role", "planted-roles")])
def test_an_unknown_name_is_refused_with_the_nearest(name, near):
    with pytest.raises(DatasetError, match=f"unknown data set '{name}'; did you mean '{near}'"):
        datasets.load(name)


@pytest.mark.parametrize("name", ["", "zzzzzzzz", 7, None])
def test_an_unknown_name_without_a_similar_one_lists_all_names(name):
    with pytest.raises(DatasetError, match="the names are actor, barbell, "):
        datasets.load(name)


def test_an_unknown_option_is_refused_by_name():
    with pytest.raises(ConfigError, match="planted-roles has no option 'nodes'; did you mean 'n_nodes'"):
        datasets.load("planted-roles", nodes=100)
    with pytest.raises(ConfigError, match="cora has no option 'seed'; it takes home"):
        datasets.load("cora", seed=1)


def test_names_are_found_in_any_case():
    assert datasets.load("BARBELL").name == "barbell"


@pytest.mark.parametrize(
    ("alias", "path"),
    [
        ("mutag", "MUTAG/MUTAG.zip"),
        ("imdb-b", "IMDB-BINARY/"),
        ("imdb-m", "IMDB-MULTI/"),
        ("reddit-b", "REDDIT-BINARY/"),
        ("reddit-multi-5k", "REDDIT-MULTI-5K/"),
        ("reddit-12k", "REDDIT-MULTI-12K/"),
        ("usa-airports", "struc2vec/usa-airports.edgelist"),
    ],
)
def test_aliases_lead_to_their_set(alias, path, tmp_path):
    nowhere = datasets.Home(None, tmp_path, sources={})

    with pytest.raises(DatasetError, match=path):
        datasets.load(alias, home=nowhere)


def test_rows_that_do_not_fit_the_graph_are_refused():
    graph = Graph.from_edges([(0, 1)])
    with pytest.raises(DatasetError, match="labels must have one row per node"):
        Dataset("tiny", graph, labels=np.zeros(3, np.int64))
    with pytest.raises(DatasetError, match="node_names must be one per node"):
        Dataset("tiny", graph, node_names=("a",))
    with pytest.raises(RaeError, match="labels must be one per graph"):
        GraphCollection("tiny", (graph,), np.zeros(2, np.int64))


def test_a_data_set_says_in_one_line_what_it_is():
    graph = Graph.from_edges([(0, 1)])
    rows = np.arange(2)
    one = Dataset("tiny", graph, np.zeros((2, 5), np.float32), labels=np.array([0, 2]), split=Split(rows, rows, rows))
    many = GraphCollection("few", (graph, graph), np.array([0, 1]), folds=(rows,))

    expected = "Dataset('tiny', nodes=2, edges=1, features=5, classes=3, split=Split(train=2, val=2, test=2))"
    assert repr(one) == expected
    assert repr(many) == "GraphCollection('few', graphs=2, nodes=4, edges=2, classes=2, folds=1)"
    assert len(many) == 2
    assert Dataset("tiny", graph).n_classes == 0
