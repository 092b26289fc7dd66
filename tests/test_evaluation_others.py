"""Rows of other methods by name: settings by data set and for all, labels that are hidden, lines that are shared."""

from __future__ import annotations

import json

import numpy as np
import pytest

from rae import baselines
from rae.cli import main
from rae.errors import ConfigError
from rae.evaluation import data, paper_report
from rae.evaluation.ledger import Ledger
from rae.evaluation.reproduction import reproduce_paper
from rae.evaluation.runner import reproduce
from rae.evaluation.table_spec import Effort
from rae.evaluation.tables import TABLES, node, others
from test_evaluation_cells import stand_in

pytest.importorskip("torch_geometric")


def test_a_table_is_a_list_of_names():
    works = others.works(("GCN", "CCA-SSG"), ("cora", "pubmed"), 7)

    assert [[row.name for row in work.rows] for work in works] == [
        ["GCN (with labels)"],
        ["CCA-SSG", "CCA-SSG, one setting for all"],  # Cora's are the defaults: one run fills both
        ["CCA-SSG"],
        ["CCA-SSG, one setting for all"],
    ]
    assert [work.datasets for work in works] == [("cora", "pubmed"), ("cora",), ("pubmed",), ("pubmed",)]
    assert works[2].by_dataset["pubmed"]["steps"] == 100
    assert all(work.runs == 7 for work in works)


@pytest.mark.parametrize("name", node.OTHERS)
def test_both_rows_of_a_method_differ_only_where_its_settings_do(name):
    method = baselines.find(name)
    for work in others.works((name,), node.DATASETS, 1):
        for row in work.rows:
            settings = TABLES["node"].line_settings(work, row, work.datasets[0], Effort())
            assert json.loads(json.dumps(settings)) == settings
            assert settings["reader"] == (others.OWN if method.sees_labels else others.TUNED)
            changes = {} if "one setting" in row.name else method.by_dataset.get(work.datasets[0], {})
            assert settings == {**settings, **others.settings_of_method(method), **changes}


def test_a_device_is_no_setting():
    work = others.works(("GCN",), ("cora",), 1)[0]
    lines = [TABLES["node"].line_settings(work, work.rows[0], "cora", Effort(device=d)) for d in ("cpu", "cuda")]
    assert lines[0] == lines[1]


@pytest.mark.parametrize("name", ["cora", "chameleon", "facebook-pages"])
def test_labels_of_test_nodes_are_hidden_from_classifiers(name):
    pages = stand_in(name)
    split = others.split_of(pages, 3)
    labels = others.hidden(pages, split)

    assert (labels[split.test] == -1).all()
    assert np.array_equal(labels[split.train], pages.labels[split.train])
    parts = np.concatenate([split.train, split.val, split.test])
    assert len(np.unique(parts)) == len(parts)
    assert min(map(len, (split.train, split.val, split.test))) > 0


def test_a_classifier_of_a_table_never_gets_a_test_label(monkeypatch):
    given_labels = []

    class Spy:
        def fit(self, graph, features, labels, train, validation):
            given_labels.append(labels)

        def predict(self, graph, features):
            return np.zeros(graph.n_nodes, np.int64)

    pages = stand_in("cora")
    score = others.scored(Spy(), baselines.find("GCN"), pages, 0, Effort())

    assert (given_labels[0][pages.split.test] == -1).all()
    assert score.score == pytest.approx(100 * (pages.labels[pages.split.test] == 0).mean())


def test_expensive_rows_run_only_when_asked(tmp_path, monkeypatch):
    work = others.works(("GraphMAE",), ("cora",), 10, unasked=0)[0]
    assert work.count(None, asked=False) == 0
    assert work.count(None, asked=True) == 10
    assert work.count(2, asked=True) == 2
    assert others.works(("GCN",), ("cora",), 10)[0].count(None, asked=False) == 10


def test_a_row_runs_by_name_resumes_and_stands_in_both_tables(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(data, "get", stand_in)
    monkeypatch.setattr(data, "present", lambda name, home=None: name == "cora")
    call = ["reproduce", "node", "--row", "GraphSAGE, supervised", "--row", "DGI", "--runs", "1", "--jobs", "1"]
    call += ["--table", "node", "--table", "node-tuned", "--steps", "2", "--device", "cpu", "--out", str(tmp_path)]

    assert main([*call, "--quiet", "--json"]) == 0
    outcome = json.loads(capsys.readouterr().out)
    assert outcome["made"] == 3  # DGI's two rows are one run on Cora
    cells = {(cell["table"], cell["row"]) for cell in outcome["cells"]}
    for table in ("node", "node-tuned"):
        assert {
            (table, "GraphSAGE, supervised (with labels)"),
            (table, "DGI"),
            (table, "DGI, one setting for all"),
        } <= cells
    lines = [json.loads(line) for line in (tmp_path / "results" / "node.jsonl").read_text().splitlines()]
    assert not (tmp_path / "results" / "node-tuned.jsonl").exists()
    assert {line["also"]["device"] for line in lines} == {"cpu"}
    assert all(line["machine"] and line["also"]["fit_seconds"] >= 0 for line in lines)
    assert main([*call, "--quiet"]) == 0
    assert "0 runs computed, 3 were in the ledger" in capsys.readouterr().out


def test_a_device_that_is_not_there_is_refused_before_any_work(tmp_path, capsys):
    assert main(["reproduce", "node", "--device", "nowhere", "--out", str(tmp_path)]) == 2
    assert "--device must be one that torch has here" in capsys.readouterr().err
    assert not (tmp_path / "results").exists()
    for wrong in ({"what": "nodes"}, {"tables": ["nowhere"]}, {"rows": ["nobody"]}, {"device": "nowhere"}):
        with pytest.raises(ConfigError, match=f"^{next(iter(wrong))} must be "):
            reproduce_paper(out=tmp_path, **wrong)
    assert not (tmp_path / "results").exists()


def test_a_cell_keeps_the_published_value_as_quoted_until_it_ran(tmp_path):
    table = TABLES["node"]
    empty = paper_report.page([paper_report.fill(table, [])], {})
    assert "| GAT (with labels) | *83.0, quoted* | *72.5, quoted* | *79.0, quoted* |" in empty
    work = next(w for w in table.works if w.rows[0].name == "GAT (with labels)" and "cora" in w.datasets)
    settings = table.line_settings(work, work.rows[0], "cora", Effort())
    costs = dict.fromkeys(("seconds", "cpu_seconds", "peak_mb", "rows_together"), 1)
    line = {"table": "node", "row": work.rows[0].name, "dataset": "cora", "seed": 0, "settings": settings}
    ledger = Ledger(tmp_path)
    ledger.append([{**line, "score": 82.0, "also": {}, **costs}])
    for name in ("node", "node-tuned"):
        page = paper_report.page([paper_report.fill(TABLES[name], paper_report.lines_of(TABLES[name], ledger))], {})
        assert "| GAT (with labels) | 82.0 (83.0) | *72.5, quoted*" in page
        assert "reproduced" in page


def test_lines_that_another_table_keeps_are_not_computed_twice(tmp_path, monkeypatch):
    monkeypatch.setattr(data, "present", lambda name, home=None: True)
    outcome = reproduce([TABLES["node-tuned"]], Ledger(tmp_path), select=lambda work, _: "GCN" in work.rows[0].name)
    assert (outcome.computed, outcome.failed) == (0, {})
