"""Every work of every table, run for two steps on a small stand-in; every cell, on the real data where it is."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

import rae
from rae import datasets
from rae.evaluation import data
from rae.evaluation.runner import Job, compute
from rae.evaluation.table_spec import Effort
from rae.evaluation.tables import GROUPS, TABLES, hubs, recovery

TUNED = (  # choosing C takes minutes
    "recovery-plain", "node-tuned", "words", "activity", "rone", "transfer-tuned", "graph-tuned",
    "held-out", "held-out-words",
)  # fmt: skip
NO_STAND_IN = {"house", "barbell"}  # the data themselves are small


def works_of(table):
    """The works that a table computes, with their numbers; the others are computed in another table."""
    return [(number, work) for number, work in enumerate(table.works) if not work.ledger_table]


def cell(table, number, dataset):
    """The parameters of a test that computes a cell."""
    return pytest.param(table.name, number, dataset, id=f"{table.name}-{table.works[number].rows[0].name}-{dataset}")


ONE_EACH = [  # every work on one of its data sets, not always the first
    cell(table, number, work.datasets[number % len(work.datasets)])
    for table in TABLES.values()
    for number, work in works_of(table)
]


def cells_of_files():
    """Every data set once in each table, in its first work; every row once in all, on its first data set."""
    rows = set()
    for table in TABLES.values():
        read = set(NO_STAND_IN)
        for number, work in works_of(table) if table.name not in TUNED else ():
            new = {row.name for row in work.rows} - rows
            for dataset in work.datasets:
                if dataset not in read or (new and dataset == work.datasets[0] not in NO_STAND_IN):
                    yield cell(table, number, dataset)
            read.update(work.datasets)
            rows |= new


TWO_STEPS = Effort(steps=2)


@cache
def stand_in(name: str):
    """A small data set of the same kind as the named one."""
    if name in ("house", "barbell"):
        return datasets.load(name)
    if name == "karate-mirrored":
        return datasets.load("barbell", clique=5, path=4)
    if name in ("brazil", "europe", "usa", "actor", "facebook348", "ca-AstroPh"):
        graph = datasets.load("power-law", n_nodes=80, n_edges=240, seed=len(name)).graph
        return datasets.Dataset(name, graph, labels=np.argsort(np.argsort(graph.degrees)) * 4 // graph.n_nodes)
    if name.isupper():
        return collection(name)
    planted = datasets.load("planted-actions", n_nodes=240, n_words=60, groups=3, seed=1)
    rows = np.random.default_rng(0).permutation(240)
    split = datasets.Split(rows[:60], rows[60:80], rows[80:])
    splits = (split,) if name in ("chameleon", "squirrel") else ()
    split = None if name == "facebook-pages" else split
    return datasets.Dataset(name, planted.graph, planted.features, None, planted.labels, None, split, splits)


def collection(name: str) -> datasets.GraphCollection:
    """Cycles and stars of several sizes; three kinds of graph where the real set has three or more."""
    kinds = 3 if "MULTI" in name else 2
    graphs, labels = [], []
    for i in range(36):
        n, kind = 5 + i % 7, i % kinds
        ring = [(j, (j + 1) % n) for j in range(n)]
        star = [(0, j) for j in range(1, n)]
        graphs.append(rae.Graph.from_edges([ring, star, ring + [(0, j) for j in range(2, n - 1)]][kind]))
        labels.append(kind)
    has_kinds = name in ("MUTAG", "PROTEINS")
    features = tuple(np.eye(2, dtype=np.float32)[g.degrees % 2] for g in graphs) if has_kinds else None
    return datasets.GraphCollection(name, tuple(graphs), np.array(labels), features)


def check(lines, table, number, dataset):
    work = TABLES[table].works[number]
    assert [line["row"] for line in lines] == [row.name for row in work.rows]
    for line, row in zip(lines, work.rows, strict=True):
        assert (line["table"], line["dataset"], line["seed"]) == (table, dataset, 0)
        assert line["settings"] == TABLES[table].line_settings(work, row, dataset, TWO_STEPS)
        assert line["settings"]["trial_steps"] == 2
        assert math.isfinite(line["score"])
        assert line["seconds"] >= 0  # rounded
        assert line["peak_mb"] > 0
        assert line["versions"]["rae"] == rae.__version__


@pytest.mark.parametrize(("table", "number", "dataset"), ONE_EACH)
def test_every_work_runs_on_a_small_stand_in(table, number, dataset, monkeypatch, short_readers):
    monkeypatch.setattr(data, "get", stand_in)
    monkeypatch.setitem(recovery.GRAPHS["mixed"], "n_nodes", 150)

    check(compute(Job(table, number, dataset, 0, TWO_STEPS)), table, number, dataset)


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize(("table", "number", "dataset"), list(cells_of_files()))
def test_cells_run_on_their_own_data(table, number, dataset, data_home, short_readers):
    if TABLES[table].from_files and not all(map(data.present, dataset.split(" to "))):
        pytest.skip(f"{dataset} is not in RAE_DATA")

    check(compute(Job(table, number, dataset, 0, TWO_STEPS)), table, number, dataset)


def test_a_trial_never_trains_a_row_that_is_untrained():
    untrained = next(row for row in TABLES["node"].rows if row.name == "untrained")

    assert untrained.config(0, TWO_STEPS).steps == 0
    assert untrained.config(0, Effort(steps=9)).steps == 0


def test_every_table_belongs_to_one_group():
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(TABLES)


def test_published_values_belong_to_rows_and_data_sets_that_exist():
    for table in TABLES.values():
        computed = {(row.name, dataset) for work in table.works for row in work.rows for dataset in work.datasets}
        assert set(table.published) <= computed
        for quoted in table.quoted:
            assert set(quoted.values) <= set(table.datasets)


def test_floors_stand_first_in_every_table():
    for table in TABLES.values():
        kinds = [row.kind for row in table.rows]
        assert kinds == sorted(kinds, key=["floor", "other", "ours", "ablation"].index)
        if table.floors and table.name != "figures":
            assert kinds[0] == "floor"


@pytest.mark.data
def test_the_floors_of_the_citation_graphs_are_the_known_ones(data_home):
    lines = compute(Job("node", 0, "cora", 0, Effort()))

    scores = {line["row"]: line["score"] for line in lines}
    assert scores["two-hop mean, softmax reader"] == pytest.approx(80.2, abs=0.3)
    assert scores["X_a of length one, softmax reader"] == pytest.approx(60.1, abs=0.3)


@pytest.mark.data
@pytest.mark.parametrize("dataset", [*hubs.SMALL, *(pytest.param(name, marks=pytest.mark.slow) for name in hubs.LARGE)])
def test_hubs_are_near_hubs_on_every_graph(dataset, data_home):
    assert hubs.near_hubs(hubs.EXACT, dataset, 0, Effort()).score >= 50


@pytest.mark.data
def test_only_data_sets_that_lie_here_are_present(data_home, tmp_path):
    assert data.present("cora")
    assert data.present("MUTAG")
    assert data.present("brazil")
    assert data.present("house")
    assert all(map(data.present, ("facebook-pages", "chameleon", "squirrel", "actor", "PROTEINS")))
    assert not data.present("REDDIT-MULTI-5K")
    assert not data.present("cora", datasets.Home(tmp_path, tmp_path))
