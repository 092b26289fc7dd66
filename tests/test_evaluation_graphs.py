"""Ten honest folds of graphs: what the reader chooses, what a classifier is given, and rows by name."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp

from rae import baselines
from rae.baselines.registry import Method
from rae.evaluation import data, probes
from rae.evaluation.ledger import Ledger
from rae.evaluation.runner import reproduce
from rae.evaluation.table_spec import Effort
from rae.evaluation.tables import TABLES, airports, graph, others
from test_evaluation_cells import collection, stand_in

GRAPHS = collection("MUTAG")
FEW = (0.1, 10.0)


def test_ten_folds_hold_every_graph_out_once():
    tests = np.concatenate([test for _, test in probes.folds_of(GRAPHS.labels, 3, 10)])
    assert sorted(tests) == list(range(len(GRAPHS)))
    for train, test in probes.folds_of(GRAPHS.labels, 3, 10):
        assert not set(train) & set(test)


@pytest.mark.parametrize("sparse", [False, True])
def test_the_reader_reads_what_is_there_and_nothing_else(sparse):
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 2
    noise = rng.normal(size=(60, 5))
    informative = np.hstack([noise, labels[:, None] * 4.0])
    both = [sp.csr_array(z) if sparse else z for z in (informative, noise)]

    assert probes.svm_folds(both[0], labels, 0, FEW).mean() > 95
    assert 25 < probes.svm_folds(both[1], labels, 0, FEW).mean() < 75
    assert np.array_equal(*(probes.svm_folds(both[1], labels, 5, FEW) for _ in range(2)))


def test_scaling_is_chosen_where_one_column_drowns_the_others():
    rng = np.random.default_rng(1)
    labels = np.arange(60) % 2
    z = np.hstack([1000 * rng.normal(size=(60, 1)), labels[:, None] + 0.1 * rng.normal(size=(60, 1))])

    assert probes.svm_folds(z, labels, 0, FEW).mean() > 95


def test_a_classifier_is_made_anew_for_each_fold_without_the_labels_of_its_test_graphs():
    test_folds = []

    @dataclasses.dataclass
    class Spy:
        seed: int = 0

        def fit(self, graphs, features, labels, train):
            assert not hasattr(self, "fitted")
            self.fitted = True
            assert (np.delete(labels, train) == -1).all()
            assert np.array_equal(labels[train], GRAPHS.labels[train])
            test_folds.append(np.delete(np.arange(len(graphs)), train))
            return self

        def predict(self, graphs, features):
            assert [id(g) for g in graphs] == [id(GRAPHS.graphs[i]) for i in test_folds[-1]]
            assert len(features) == len(graphs)
            return GRAPHS.labels[test_folds[-1]]

    score = others.scored_by_folds(Spy(), Method("spy", Spy, "none", of="graphs"), GRAPHS, 2, Effort())

    assert score.score == 100
    assert len(test_folds) == 10
    assert score.also["sd_of_folds"] == 0


def test_a_row_of_graphs_runs_by_name_resumes_and_says_where_it_ran(tmp_path, monkeypatch):
    monkeypatch.setattr(data, "get", stand_in)
    monkeypatch.setattr(data, "present", lambda name: name == "MUTAG")
    ledger, table = Ledger(tmp_path), TABLES["graph-tuned"]
    options = {"runs": 2, "select": lambda work, dataset: "WL subtree kernel" in {row.name for row in work.rows}}

    first, second = (reproduce([table], ledger, **options) for _ in range(2))

    assert (first.computed, first.failed, second.computed, second.present) == (2, {}, 0, 2)
    lines = ledger.read("graph-tuned")
    assert [line["score"] for line in lines] == [100, 100]  # cycles and stars
    assert all("cores" in line["machine"] and line["also"]["device"] == "cpu" for line in lines)
    assert reproduce([TABLES["graph"]], ledger, runs=1, select=options["select"]).computed == 0  # kept in the other


def test_expensive_rows_are_computed_only_when_asked_for():
    for table, names in (("graph-tuned", graph.OTHERS[1:]), ("rone", [row.name for row in airports.OTHERS])):
        for work in TABLES[table].works:
            if any(row.name.startswith(tuple(names)) for row in work.rows):
                assert work.count(None, asked=False) == 0
                assert work.count(None, asked=True) >= 10


def test_every_method_of_the_graph_table_is_one_of_graphs():
    assert all(baselines.find(name).of == "graphs" for name in graph.OTHERS)
    assert {name for name in baselines.names() if baselines.find(name).of == "graphs"} == set(graph.OTHERS)
