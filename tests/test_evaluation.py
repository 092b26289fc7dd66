"""Ledger, statistics, floors, probes, the runner and the report of `rae reproduce`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats

from elsewhere import CONTEXT
from rae import Graph, datasets
from rae.cli.program import main
from rae.errors import FileError, RaeError
from rae.evaluation import figures, floors, probes, reproduction, runner, table_spec
from rae.evaluation import paper_report as report
from rae.evaluation.ledger import SCORE_KEYS, Ledger, identity, lines_of_cell, provenance
from rae.evaluation.publish import publish
from rae.evaluation.statistics import Gap, gap_on_nodes, paired_gap, summary, two_sample, verdict
from rae.evaluation.table_spec import Effort, Published, Row, Score, Table, Work
from rae.evaluation.tables import GROUPS, TABLES
from rae.features import structural_features

ROOT = Path(__file__).parents[1]


def line(score=1.0, *, table="t", row="r", dataset="d", seed=0, settings=None, **more):
    return {
        "table": table,
        "row": row,
        "dataset": dataset,
        "seed": seed,
        "score": score,
        "settings": settings or {},
        "also": {},
        "seconds": 2.0,
        "cpu_seconds": 1.0,
        "peak_mb": 100.0,
        "rows_together": 1,
        **more,
    }


# --------------------------------------------------------------------------------- ledger


def test_lines_are_read_as_they_were_appended(tmp_path):
    ledger = Ledger(tmp_path / "results")
    lines = [line(1.5, seed=s, settings={"fanout": [4, 4]}) for s in range(3)]

    ledger.append(lines[:2])
    ledger.append(lines[2:])

    assert ledger.read("t") == lines
    assert ledger.read("another") == []


def test_the_identity_of_a_line_follows_its_settings_and_not_its_score():
    assert identity(line(1.0)) == identity(line(2.0))
    assert identity(line(settings={"a": 1, "b": 2})) == identity(line(settings={"b": 2, "a": 1}))
    assert identity(line(settings={"a": 1})) != identity(line(settings={"a": 2}))


def test_of_two_lines_with_one_identity_the_first_counts(tmp_path):
    ledger = Ledger(tmp_path)
    ledger.append([line(1.0), line(2.0)])

    assert [x["score"] for x in ledger.read("t")] == [1.0]


def test_an_incomplete_last_line_is_skipped_and_cut_off_by_the_next(tmp_path):
    ledger = Ledger(tmp_path)
    ledger.append([line(seed=0)])
    with ledger.path("t").open("a") as file:
        file.write('{"table": "t", "row"')

    assert len(ledger.read("t")) == 1
    ledger.append([line(seed=1)])
    assert [x["seed"] for x in ledger.read("t")] == [0, 1]


def test_a_complete_last_line_without_a_newline_is_kept(tmp_path):
    ledger = Ledger(tmp_path)
    ledger.append([line(seed=0)])
    path = ledger.path("t")
    path.write_bytes(path.read_bytes() + json.dumps(line(seed=1)).encode())

    ledger.append([line(seed=2)])
    assert [x["seed"] for x in ledger.read("t")] == [0, 1, 2]


@pytest.mark.parametrize(
    "text",
    [
        b"not json\n{}\n",
        b'{"table": "t"}\n',
        b"[1, 2]\n",
        b"\xff\xfe\n\n",
        json.dumps(line() | {"score": None}).encode() + b"\n",
    ],
)
def test_a_file_of_another_kind_is_refused_with_its_line(tmp_path, text):
    (tmp_path / "t.jsonl").write_bytes(text)

    with pytest.raises(FileError, match=r"t\.jsonl, line 1: expected"):
        Ledger(tmp_path).read("t", SCORE_KEYS)


def measured(best, date, *, dataset="d", row="r", threads=1, **settings):
    line = {"table": "t", "row": row, "dataset": dataset, "settings": {"threads": threads, **settings}}
    return {**line, "best_s": best, "date": date}


def test_the_latest_run_of_a_data_set_replaces_its_older_lines_and_leaves_others_alone(tmp_path):
    ledger = Ledger(tmp_path)
    ledger.append([measured(9.0, "monday"), measured(9.0, "monday", row="renamed since")])
    ledger.append([measured(8.0, "monday", dataset="e"), measured(7.0, "monday", threads=2)])
    ledger.append([measured(6.0, "tuesday")])

    latest = {(x["dataset"], x["row"], x["settings"]["threads"]): x["best_s"] for x in ledger.latest("t")}
    assert latest == {("e", "r", 1): 8.0, ("d", "r", 2): 7.0, ("d", "r", 1): 6.0}


def test_the_last_measurement_of_an_identity_counts(tmp_path):
    ledger = Ledger(tmp_path)
    ledger.append([measured(best, "monday", width=width) for width, best in ((64, 1.0), (192, 2.0), (64, 3.0))])

    assert [x["best_s"] for x in ledger.latest("t")] == [3.0, 2.0]


def test_a_resumed_table_computes_only_lines_that_are_not_there(tmp_path):
    ledger, calls = Ledger(tmp_path), []
    keys = [{"table": "t", "row": "r", "dataset": "d", "seed": s, "settings": {"dims": (4, 2)}} for s in range(3)]

    def compute(key):
        calls.append(key["seed"])
        return {"score": 10.0 + key["seed"]}

    list(ledger.resume(keys[:2], compute))
    lines = list(ledger.resume(keys, compute))

    assert calls == [0, 1, 2]
    assert [x["score"] for x in lines] == [10.0, 11.0, 12.0]
    assert ledger.read("t") == lines


def test_a_line_says_where_when_how_and_with_what_it_was_computed(monkeypatch):
    monkeypatch.setenv("RAE_RUN_DATE", "2026-11-18T00:00:00Z")
    monkeypatch.setattr(sys, "argv", ["/somewhere/growth.py", "--quick"])
    origin = provenance(dgl="1.1.3")

    assert (origin["date"], origin["command"]) == ("2026-11-18T00:00:00Z", "growth.py --quick")
    assert (origin["versions"]["dgl"], origin["versions"]["numpy"]) == ("1.1.3", np.__version__)
    assert "cores" in origin["machine"]


def test_a_cell_takes_only_lines_with_exactly_its_settings():
    lines = [line(seed=1), line(seed=0), line(seed=2, settings={"steps": 2}), line(seed=3, row="other")]

    assert [x["seed"] for x in lines_of_cell(lines, "r", "d", {})] == [0, 1]


# ----------------------------------------------------------------------------- statistics


def test_the_interval_is_students():
    scores = np.array([70.0, 72.0, 75.0, 71.0])
    result = summary(scores)

    low, high = stats.t.interval(0.95, 3, loc=scores.mean(), scale=stats.sem(scores))
    assert (result.low, result.high) == pytest.approx((low, high))
    assert result.sd == pytest.approx(scores.std(ddof=1))


def test_one_run_has_no_spread():
    result = summary([3.0])

    assert (result.mean, result.sd, result.low, result.high, result.runs) == (3.0, 0.0, 3.0, 3.0, 1)


@pytest.mark.parametrize(
    ("ours", "published", "word"),
    [
        ([78.5, 78.7], Published(78.0, 0.9), "reproduced"),
        ([80.0, 80.2], Published(78.0, 0.9), "better"),
        ([76.0, 76.2], Published(78.0, 0.9), "worse"),
        ([58.0], Published(58.9), "reproduced"),
        ([55.0], Published(58.9), "worse"),
        ([50.0, 60.0], Published(58.9), "reproduced"),  # our own spread is the only yardstick
    ],
)
def test_a_published_value_is_judged_by_its_own_spread(ours, published, word):
    assert verdict(summary(ours), published) == word


def by_seed(*scores, start=0):
    return dict(enumerate(scores, start))


def test_a_floor_is_cleared_only_if_the_interval_is_above_it():
    ours = by_seed(80, 81, 80, 81)

    sides = [paired_gap(ours, {0: floor}).against for floor in (75, 80.4, 85)]
    assert sides == ["above", "level with", "below"]


def test_paired_runs_show_a_difference_smaller_than_the_spread():
    floor = by_seed(60.0, 70.0, 80.0, 90.0)

    ours = {seed: score + 1 + 0.1 * (seed % 2) for seed, score in floor.items()}
    assert paired_gap(ours, floor).against == "above"


def test_runs_are_paired_by_their_seeds_and_only_over_those_that_both_have():
    floor = by_seed(60.0, 70.0, 80.0)
    ours = {seed: score - 1 - 0.1 * (seed % 2) for seed, score in by_seed(80.0, 85.0, 90.0, start=2).items()}

    assert paired_gap(ours, {**floor, 3: 85.0, 4: 90.0}).against == "below"
    assert paired_gap(ours, floor).against == "undecided against"  # one seed in common
    assert paired_gap(ours, by_seed(60.0, 70.0)) is None  # none


def test_one_run_decides_nothing():
    assert paired_gap({0: 70.1}, {0: 70.0}).against == "undecided against"


def test_a_gap_is_judged_by_its_standard_error_and_by_its_interval():
    gap = paired_gap(by_seed(80.0, 82.0, 81.0), by_seed(79.0, 81.5, 80.9))
    differences = np.array([1.0, 0.5, 0.1])

    assert (gap.mean, gap.error) == pytest.approx((differences.mean(), stats.sem(differences)))
    assert (gap.place, gap.against) == ("above", "level with")  # one error, and the wider interval
    assert paired_gap({0: 80.0}, {0: 70.0}).place == "undecided"
    assert paired_gap({0: 80.0}, {1: 70.0, 2: 60.0}) is None
    assert Gap(-5.0, 1.0).in_errors == -5
    assert Gap(5.0, 0.0).in_errors == 10
    assert Gap(5.0, None).in_errors == 0


def test_on_one_test_set_the_error_is_that_over_its_nodes():
    draw = np.random.default_rng(0)
    other = (draw.random((1, 400)) < 0.7).astype(int)
    ours = other.copy()
    ours[0, :40] = 1

    gap = gap_on_nodes(ours, other)
    assert gap.mean == pytest.approx(100 * (ours.mean() - other.mean()))
    assert gap.error == pytest.approx(100 * stats.sem((ours - other)[0]))
    assert gap_on_nodes(np.vstack([ours, ours]), other).error == pytest.approx(gap.error)  # runs do not lower it


def test_the_t_test_is_the_textbooks():
    a, b = [1.0, 2.0, 3.0, 4.0], [2.0, 3.0, 4.0, 6.0]

    assert two_sample(a, b) == pytest.approx((stats.ttest_ind(a, b).statistic, 6, stats.ttest_ind(a, b).pvalue))


# --------------------------------------------------------------------------------- floors


def test_the_two_hop_mean_is_two_plain_averages():
    graph = Graph.from_edges([(0, 1), (1, 2)], ids=[0, 1, 2, 3])
    x = np.array([[1, 1], [0, 2], [4, 0], [0, 0]], np.float32)

    share = np.array([[0.5, 0.5], [0, 1], [1, 0], [0, 0]])
    mean = np.array([[0.5, 0.5, 0, 0], [1 / 3, 1 / 3, 1 / 3, 0], [0, 0.5, 0.5, 0], [0, 0, 0, 1]])
    want = mean @ mean @ share
    want[:3] /= np.linalg.norm(want[:3], axis=1, keepdims=True)
    for features in (x, sp.csr_array(x)):
        np.testing.assert_allclose(floors.two_hop_mean(graph, features).toarray(), want, atol=1e-12)


def test_neighbour_statistics_are_those_of_a_plain_loop():
    graph = datasets.load("power-law", n_nodes=60, n_edges=90, seed=2).graph
    assert graph.n_isolated or graph.degrees.min() == 1
    own = np.log1p(graph.degrees)

    columns = floors.two_hop_degrees(graph)
    for u in range(graph.n_nodes):
        near = own[graph.neighbors(u)] if graph.degrees[u] else np.zeros(1)
        np.testing.assert_allclose(columns[u, :5], [own[u], near.mean(), near.std(), near.min(), near.max()], atol=1e-7)


def test_hops_are_plain_averages_and_the_symmetric_ones_weigh_by_both_degrees():
    graph = Graph.from_edges([(0, 1), (1, 2), (1, 3)])
    x = np.array([[1, 1], [0, 2], [4, 0], [3, 1]], np.float32)
    share = x / x.sum(1, keepdims=True)
    loops = graph.to_scipy().toarray() + np.eye(4)
    degree = loops.sum(1)

    for symmetric, step in ((False, loops / degree[:, None]), (True, loops / np.sqrt(np.outer(degree, degree)))):
        for hops in (0, 1, 3):
            want = np.linalg.matrix_power(step, hops) @ share
            want /= np.linalg.norm(want, axis=1, keepdims=True)
            got = floors.hop_mean(graph, x, hops, symmetric=symmetric).toarray()
            np.testing.assert_allclose(got, want, atol=1e-12)


def test_words_beside_their_means_keep_the_node_out_of_its_neighbours():
    graph = Graph.from_edges([(0, 1), (1, 2)])
    x = np.eye(3, dtype=np.float32)

    parts = floors.words_and_means(graph, x).toarray()
    assert parts[0].tolist()[:6] == [1, 0, 0, 0, 1, 0]  # own, then near
    np.testing.assert_allclose(parts[0, 6:], np.array([1, 0, 1]) / np.sqrt(2))


def test_two_hop_statistics_are_those_of_a_plain_loop():
    graph = datasets.load("planted-roles", n_nodes=120, seed=3).graph
    columns = floors.two_hop_statistics(graph)
    triangles = np.array([sum(graph.adjacent(*np.array(list(combinations(graph.neighbors(u), 2)) or [(0, 0)]).T))
                          for u in range(graph.n_nodes)])  # fmt: skip
    pairs = graph.degrees * (graph.degrees - 1) / 2
    own = np.stack([np.log1p(graph.degrees), np.log1p(triangles), triangles / np.maximum(pairs, 1)], 1)

    def around(u, values):
        near = values[graph.neighbors(u)]
        return near.mean(0), near.std(0), near.min(0), near.max(0)

    one = np.array([np.stack(around(u, own), 1).ravel() for u in range(graph.n_nodes)])
    two = np.array([np.hstack(around(u, one)[:2]) for u in range(graph.n_nodes)])
    assert columns.shape == (graph.n_nodes, 39)
    np.testing.assert_allclose(columns, np.hstack([own, one, two]), atol=1e-6)


def test_units_of_a_graph_do_not_depend_on_its_size_and_a_constant_column_is_zero():
    x = np.array([[1.0, 7.0], [2.0, 7.0], [6.0, 7.0]])

    np.testing.assert_allclose(floors.in_own_units(x), floors.in_own_units(10 * x + 3))
    assert floors.in_own_units(x)[:, 1].tolist() == [0, 0, 0]
    star = floors.degree_and_triangles(Graph.from_edges([(0, 1), (0, 2), (0, 3)]))
    assert star[0, 0] == pytest.approx(np.sqrt(3))
    assert star[:, 1].tolist() == [0] * 4  # no triangle anywhere


def test_a_trailing_isolated_node_has_no_neighbour_statistics():
    graph = Graph.from_edges([(0, 1)], ids=[0, 1, 2])

    assert floors.two_hop_degrees(graph)[2].tolist() == [0.0] * 10


def test_profiles_count_every_node_once_per_number():
    graphs = [Graph.from_edges([(0, 1), (1, 2)]), Graph.from_edges([(0, i) for i in range(1, 6)])]

    histograms = floors.degree_profiles(graphs, 4).reshape(2, 5, 4)
    assert histograms.sum(2).tolist() == [[3] * 5, [6] * 5]
    assert histograms[1, 0].tolist() == [0, 5, 0, 1]  # five leaves, one hub
    assert floors.graph_sizes(graphs).tolist() == np.log1p([[3, 2], [6, 5]]).tolist()


# --------------------------------------------------------------------------------- probes


def test_the_best_cut_is_the_best_of_all_cuts():
    draw = np.random.default_rng(0)
    p, y = draw.random(30), draw.random(30) < 0.5

    tried = [((p >= cut) == y).mean() for cut in np.linspace(-0.01, 1.01, 3000)]
    assert probes.best_cut(p, y) == pytest.approx(max(tried))


def test_a_cut_chosen_on_test_folds_overestimates_accuracy():
    draw = np.random.default_rng(1)
    folds = probes.cross_validated(draw.normal(size=(60, 3)), np.arange(60) % 2, 0)

    assert folds.best_cut > folds.accuracy + 3  # pure noise, and still it looks better than chance


def test_three_classes_have_no_cut():
    z = np.repeat(np.eye(3), 20, axis=0)

    folds = probes.cross_validated(z, np.repeat([0, 1, 2], 20), 0)
    assert folds.best_cut is None
    assert folds.accuracy == 100.0


def test_perfect_vectors_recover_perfect_roles():
    house = datasets.load("house")

    scores = probes.recovery(structural_features(house.graph), house.labels, 0)
    assert scores["homogeneity"] < 100  # one hop does not tell all seven roles apart
    scores = probes.recovery(np.eye(house.n_classes)[house.labels], house.labels, 0)
    assert scores["v_measure"] == pytest.approx(100)
    assert scores["ari"] == pytest.approx(100)


def _blobs(n=90, d=4, seed=0):
    draw = np.random.default_rng(seed)
    labels = np.arange(n) % 3
    return 3 * np.eye(3, d)[labels] + draw.normal(size=(n, d)), labels


def test_the_tuned_reader_is_the_one_that_validation_prefers():
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    z, labels = _blobs()
    split = datasets.Split(np.arange(30), np.arange(30, 60), np.arange(60, 90))
    scaler = StandardScaler().fit(z[:30])
    reading = probes.tuned(z, labels, split)

    for C in probes.CS:
        reader = LogisticRegression(C=C, max_iter=2000).fit(scaler.transform(z[:30]), labels[:30])
        assert reading.validation >= 100 * reader.score(scaler.transform(z[split.val]), labels[split.val]) - 1e-9
    assert reading.accuracy == 100 * reading.right.mean()


def test_more_columns_than_rows_are_read_from_their_coordinates_alike(monkeypatch):
    monkeypatch.setattr(probes, "SCALINGS", ("rows of length one",))  # which a turn of the space leaves as it is
    z, labels = _blobs(d=4)
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(200, 4)))[0]  # the same inner products in 200 columns
    split = datasets.Split(np.arange(30), np.arange(30, 60), np.arange(60, 90))

    plain, dense, sparse = (
        probes.tuned(x, labels, split, (0.1, 10.0)) for x in (z, z @ turn.T, sp.csr_array(z @ turn.T))
    )
    assert plain.accuracy > 80
    for wide in (dense, sparse):
        assert (wide.C, wide.validation, wide.right.tolist()) == (plain.C, plain.validation, plain.right.tolist())


def test_a_choice_within_the_training_rows_never_sees_the_test_rows():
    z, labels = _blobs()
    train, test = probes.fifth(labels, 0)
    changed = labels.copy()
    changed[test] = (changed[test] + 1) % 3

    one, other = (probes.tuned_within(z, x, train, test, 0) for x in (labels, changed))
    assert (one.scaling, one.C, one.validation) == (other.scaling, other.C, other.validation)
    assert one.accuracy > 80
    assert other.accuracy < 20


def test_a_fifth_leaves_nodes_without_a_label_out_and_takes_classes_of_one():
    labels = np.array([0, 1] * 20 + [-1] * 10)
    train, test = probes.fifth(labels, 0)

    assert (len(train), len(test)) == (32, 8)
    assert labels[test].tolist().count(0) == 4
    assert len(np.concatenate(probes.fifth(np.array([0] * 9 + [1]), 0))) == 10


def test_right_and_wrong_survive_a_line_of_the_ledger():
    right = np.random.default_rng(0).random(21) < 0.5

    assert probes.unpacked(probes.packed(right))[:21].tolist() == right.astype(int).tolist()


def test_clusters_of_perfect_vectors_agree_and_those_of_noise_do_not():
    z, labels = np.eye(3)[np.arange(60) % 3], np.arange(60) % 3

    assert list(probes.clusters(z, labels, 0).values()) == pytest.approx([100] * 4)
    noise = probes.clusters(np.random.default_rng(0).normal(size=(60, 3)), labels, 0)
    assert noise["ari"] < 20


def test_hubs_are_near_hubs_by_degree_and_not_by_its_opposite():
    degrees = np.arange(1, 201)
    folded = np.abs(degrees - 100.5)  # the largest beside the smallest

    assert probes.hubs_near_hubs(degrees[:, None], degrees) > 95
    assert probes.hubs_near_hubs(folded[:, None], degrees) < 80


def test_rone_reads_separable_classes_and_leaves_nodes_without_a_label_out():
    z, labels = _blobs(120)
    labels = np.where(np.arange(120) < 20, -1, labels)

    micro, macro = probes.rone(4 * z, labels, 0)
    assert micro > 80
    assert abs(micro - macro) < 10


def test_spread_of_equals_is_zero_only_for_equal_vectors():
    classes = np.array([0, 0, 1, 1])

    assert probes.spread_of_equals(np.array([[0.0], [0.0], [1.0], [1.0]]), classes) == 0
    assert probes.spread_of_equals(np.array([[0.0], [0.5], [1.0], [1.0]]), classes) > 50


# --------------------------------------------------------------------------------- runner


def table(compute, rows=("a",), runs=3, **more):
    spec = tuple(Row(name, "floor" if name == "floor" else "ours", {"way": name}) for name in rows)
    return Table("toy-table", "A toy table", "points", "None.", (Work(spec, compute, ("x",), runs),), **more)


@pytest.fixture
def toy(monkeypatch):
    """A table whose cells cost nothing, and how often each was computed."""
    calls = []

    def count(dataset, seed, effort):
        calls.append(seed)
        return {"a": Score(10.0 + seed, {"more": seed})}

    spec = table(count, from_files=False)
    monkeypatch.setitem(TABLES, spec.name, spec)
    return spec, calls


def test_a_run_that_exists_is_not_repeated(toy, tmp_path):
    spec, calls = toy
    ledger = Ledger(tmp_path)

    first = runner.reproduce([spec], ledger, runs=2)
    second = runner.reproduce([spec], ledger)

    assert (first.computed, first.present) == (2, 0)
    assert (second.computed, second.present) == (1, 2)
    assert calls == [0, 1, 2]
    assert [x["score"] for x in ledger.read(spec.name)] == [10.0, 11.0, 12.0]


def test_a_trial_adds_lines_that_the_report_ignores(toy, tmp_path):
    spec, calls = toy
    ledger = Ledger(tmp_path)

    runner.reproduce([spec], ledger, runs=1, effort=Effort(steps=2))
    runner.reproduce([spec], ledger, runs=1)

    assert calls == [0, 0]
    assert len(ledger.read(spec.name)) == 2
    assert len(report.fill(spec, ledger.read(spec.name)).cells["a", "x"]) == 1


def test_a_failed_run_is_reported_and_the_others_are_kept(monkeypatch, tmp_path):
    def fail_once(dataset, seed, effort):
        if seed == 1:
            raise ValueError("no such value")
        return {"a": Score(1.0)}

    spec = table(fail_once, from_files=False)
    monkeypatch.setitem(TABLES, spec.name, spec)

    outcome = runner.reproduce([spec], Ledger(tmp_path))
    assert outcome.computed == 2
    assert outcome.failed == {"toy-table, x, seed 1": "ValueError: no such value"}


def test_absent_data_is_reported(monkeypatch, tmp_path):
    spec = table(lambda *_: {}, from_files=True)
    monkeypatch.setenv("RAE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    assert runner.reproduce([spec], Ledger(tmp_path)).absent == ["x"]
    assert "| not run |" in report.page([report.fill(spec, [])], {})  # the same page on a machine that has the data


def test_a_score_that_is_no_number_is_a_failed_run(monkeypatch, tmp_path):
    spec = table(lambda *_: {"a": Score(float("nan"))}, from_files=False, runs=1)
    monkeypatch.setitem(TABLES, spec.name, spec)

    outcome = runner.reproduce([spec], Ledger(tmp_path))
    assert outcome.failed == {"toy-table, x, seed 0": "RaeError: a has no finite score"}


def test_a_changed_default_is_a_new_line(monkeypatch, tmp_path):
    row = next(row for row in TABLES["node"].rows if row.name == "J_within")
    work = next(work for work in TABLES["node"].works if row in work.rows)
    before = TABLES["node"].line_settings(work, row, "cora", Effort())
    changed = {**table_spec.PRESETS, "paper": table_spec.PRESETS["paper"].replace(dropout=0.5)}

    monkeypatch.setattr(table_spec, "PRESETS", changed)
    assert TABLES["node"].line_settings(work, row, "cora", Effort()) != before


def test_progress_counts_the_runs(toy, tmp_path):
    calls = []
    runner.reproduce([toy[0]], Ledger(tmp_path), progress=lambda *call: calls.append(call))

    assert calls == [("runs", 1, 3, {}), ("runs", 2, 3, {}), ("runs", 3, 3, {})]


class Killed:
    """A job that ends the worker process which unpacks it."""

    def __reduce__(self):
        return os._exit, (9,)


def test_a_killed_worker_gives_one_sentence_that_says_what_to_do(monkeypatch):
    monkeypatch.setattr(runner, "get_context", lambda _: CONTEXT)
    jobs = [runner.Job("toy", 0, "house", seed, Effort(1)) for seed in range(2)]

    with pytest.raises(RaeError, match=r"^a worker process was killed, .* with fewer jobs \(jobs=1\)$"):
        for _ in runner._compute_all([*jobs, Killed(), Killed()], 2):
            pass


def test_the_peak_of_memory_is_measured_without_proc_too(monkeypatch, tmp_path):
    monkeypatch.setattr(runner, "_STATUS", tmp_path / "absent")

    runner._reset_peak()
    assert runner._peak_mb() > 10


# --------------------------------------------------------------------------------- report


@pytest.fixture
def judged():
    """A table with a floor that is not cleared, a published value, and an absent data set."""
    method = {"method": "none"}
    rows = (Row("floor", "floor", method), Row("good", "ours", method), Row("bad", "ours", method, "a note", "good"))
    works = (Work(rows, lambda *_: {}, ("cora", "far away"), 3),)
    values = {("good", "cora"): Published(79.0, 1.0)}
    spec = Table("judged", "Judged", "%", "How.", works, published=values, also={"more": "and more"})
    lines = [
        *(line(75.0, table="judged", row="floor", dataset="cora", seed=s, settings=method) for s in range(3)),
        *(
            line(80.0 + s, table="judged", row="good", dataset="cora", seed=s, settings=method, also={"more": s})
            for s in range(3)
        ),
        *(line(70.0 + s, table="judged", row="bad", dataset="cora", seed=s, settings=method) for s in range(3)),
    ]
    return report.fill(spec, lines)


def test_the_page_says_reproduced_better_or_worse_and_which_floor_is_not_cleared(judged):
    page = report.page([judged], {"figures/a.png": "What it shows."})

    assert "| **good** | 81.0 ± 1.0 (79.0) | not run |" in page
    assert "- Cora: **below** the floor “floor”: bad." in page
    assert "- Cora: bad: -10.0 points against good (95 % interval -10.0 to -10.0); a note." in page
    assert "| [Judged](#judged) | 1 better | 1 above, 1 below |" in page
    assert "| bad (a note) | Cora | 71.00 ± 1.00 | 68.52 to 73.48 | 3 |" in page
    assert "| 1.0 ± 1.0 |" in page  # the further number
    assert "![What it shows.](figures/a.png)" in page
    assert "Together 0 minutes of one core" in page


def test_the_page_counts_exact_untrained_and_trained_cells_apart():
    rows = (
        Row("floor", "floor", {"method": "none"}),
        Row("solution", "ours", {"model": "exact"}),
        Row("place", "ours", {"model": "exact", "block": "place"}),
        Row("random", "ours", {"steps": 0}),
        Row("fitted", "ours", {"loss": "within"}),
    )
    works = (Work(rows, lambda *_: {}, ("cora",), 3),)
    spec = Table("judged", "Judged", "%", "How.", works, also={"more": "More"}, judged=("more",))
    scores = {"floor": (75, 10), "solution": (80, 20), "place": (75, 10), "random": (70, 5), "fitted": (70, 30)}
    work = spec.works[0]
    lines = [
        line(scores[row.name][0] + seed / 10, table="judged", row=row.name, dataset="cora", seed=seed,
             settings=spec.line_settings(work, row, "cora", Effort()), also={"more": scores[row.name][1] + seed / 10})
        for row in rows for seed in range(3)
    ]  # fmt: skip

    page = report.page([report.fill(spec, lines)], {})
    assert "|  | exact | exact, some blocks | untrained | trained |" in page
    assert "| **in all** | **2 above** | **2 level** | **2 below** | **1 above, 1 below** |" in page
    assert "| Judged | 1 above, 1 level | 1 above, 1 below |" in page  # trained against untrained, against exact
    assert "**More**" in page
    assert "Cora, More: **below** the floor “floor”: random." in page


def test_a_page_without_lines_still_reads(judged):
    empty = report.fill(judged.table, [])

    page = report.page([empty], {})
    assert "Where the time goes" not in page
    assert "not cleared" not in page


def test_a_table_that_clears_every_floor_says_so(judged):
    spec = report.fill(judged.table, [x for cell in judged.cells.values() for x in cell if x["row"] != "bad"])

    assert "Every row of ours is above every floor." in report.page([spec], {})


def test_the_terminal_table_folds_to_the_width(judged):
    wide, narrow = report.terminal(judged, 100), report.terminal(judged, 30)

    assert "81.0 (79.0) n3  not run" in wide
    assert len(narrow.splitlines()) > len(wide.splitlines())
    assert all(len(text) <= 40 for text in narrow.splitlines()[2:])


def test_the_page_has_the_papers_t_test_and_the_accuracy_lost():
    toy, lost = TABLES["toy"], TABLES["inductive"]

    def lines(spec, base):
        return [
            line(
                base(row.name) + seed % 3,
                table=spec.name,
                row=row.name,
                dataset=dataset,
                seed=seed,
                settings=spec.line_settings(work, row, dataset, Effort()),
            )
            for work in spec.works
            for row in work.rows
            for dataset in work.datasets
            for seed in range(min(4, work.runs))
        ]

    page = report.page([report.fill(toy, lines(toy, lambda name: 90.0 if "within" in name else 80.0))], {})
    assert "- house: t = 14.77, df = 6" in page
    assert ": significant at 5 %." in page
    page = report.page([report.fill(lost, lines(lost, lambda name: 70.0 if "without" in name else 72.0))], {})
    assert "- Cora, J_within: 2.0 points lost (95 % interval 2.0 to 2.0)." in page


# ------------------------------------------------------------------- figures, command line


def test_without_lines_there_is_no_figure_and_nothing_fails(tmp_path):
    assert publish(Ledger(tmp_path / "results"), tmp_path / "docs") == [tmp_path / "docs" / "reproduce.md"]


def test_the_command_writes_tables_figures_and_the_report_and_resumes(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("RAE_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    call = ["reproduce", "figures", "--runs", "1", "--jobs", "1", "--out", str(tmp_path), "--quiet"]

    assert main([*call, "--json"]) == 0
    outcome = json.loads(capsys.readouterr().out)
    assert (outcome["made"], outcome["kept"]) == (8, 0)
    assert outcome["absent"] == ["cora", "citeseer", "pubmed"]
    svg = (tmp_path / "docs" / "figures" / "exemplars.svg").read_bytes()
    assert main(call) == 0
    assert "0 runs computed, 8 were in the ledger" in capsys.readouterr().out
    page = (tmp_path / "docs" / "reproduce.md").read_text()
    assert "figures/exemplars.png" in page
    assert svg.startswith(b"<?xml")
    assert (tmp_path / "docs" / "figures" / "exemplars.svg").read_bytes() == svg  # same lines, same bytes


def test_the_report_in_docs_is_what_the_lines_in_results_give(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "save", lambda path, figure_of: figure_of(figures.pyplot()) is not None)
    publish(Ledger(ROOT / "results"), tmp_path)

    assert (tmp_path / "reproduce.md").read_text() == (ROOT / "docs" / "reproduce.md").read_text()


def test_every_figure_is_drawn_from_lines_alone(tmp_path):
    ledger = Ledger(tmp_path)
    for number, (name, spec) in enumerate(TABLES.items()):
        if name not in ("figures", "recovery"):
            continue
        for work in spec.works:
            for row in work.rows:
                for dataset in work.datasets:
                    settings = spec.line_settings(work, row, dataset, Effort())
                    ledger.append([_pictured(spec.name, row, dataset, number, settings)])

    files = publish(ledger, tmp_path / "docs")
    names = {path.name for path in files}
    assert names == {"reproduce.md", "exemplars.png", "citations.png", "training.png", "noise.png"}
    assert all(path.stat().st_size > 1000 for path in files)


def _pictured(name, row, dataset, seed, settings):
    n = datasets.load(dataset).graph.n_nodes if dataset in ("house", "barbell") else 12
    points = np.random.default_rng(seed).normal(size=(n, 2)).tolist()
    also = {"points": points, "labels": [i % 3 for i in range(n)], "silhouette_of_picture": 10.0}
    if "curve" in row.name:
        also = {"step": [0, 5], "value": [2.0, 1.0], "rank": [3.0, 4.0]}
    return line(50.0, table=name, row=row.name, dataset=dataset, settings=settings, also=also)


def test_a_trial_writes_no_report(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(GROUPS, "toy", ("toy",))
    call = ["reproduce", "toy", "--runs", "1", "--steps", "1", "--jobs", "1", "--out", str(tmp_path), "--quiet"]

    assert main(call) == 0
    assert not (tmp_path / "docs").exists()
    assert "RAE, J_within" in capsys.readouterr().out


def test_a_failed_run_gives_exit_code_2_and_keeps_the_rest(tmp_path, capsys, monkeypatch):
    def fail(*_):
        raise RaeError("no such value")

    spec = table(fail, from_files=False)
    for name in TABLES:
        monkeypatch.setitem(TABLES, name, spec)
    monkeypatch.setitem(TABLES, spec.name, spec)

    assert main(["reproduce", "node", "--out", str(tmp_path), "--jobs", "1", "--steps", "1", "--quiet"]) == 2
    assert "3 runs failed, the first: toy-table, x, seed 0: RaeError: no such value" in capsys.readouterr().err


def test_download_is_tried_only_with_its_flag_and_a_failure_is_a_warning(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("RAE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    names = []

    def refuse(name):
        names.append(name)
        raise rae_errors.DatasetError(f"{name} cannot be had")

    from rae import errors as rae_errors

    monkeypatch.setattr(reproduction, "load", refuse)
    call = ["reproduce", "inductive", "--out", str(tmp_path), "--jobs", "1", "--steps", "1"]
    assert main(call) == 0
    assert names == []
    assert main([*call, "--download"]) == 0
    assert names == ["cora", "pubmed"]
    err = capsys.readouterr().err
    assert "warning: cora cannot be had" in err


def test_an_interrupt_leaves_complete_lines_and_the_next_call_resumes(tmp_path):
    """The lines of two processes have the scores that one process computes."""
    call = [sys.executable, "-m", "rae", "reproduce", "toy", "--out", ".", "--jobs", "2", "--steps", "1", "--quiet"]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    work = subprocess.Popen(call, cwd=tmp_path, env=env, stderr=subprocess.PIPE, text=True)
    ledger = Ledger(tmp_path / "results")
    deadline = time.monotonic() + 60
    while sum(line["seed"] == 0 for line in ledger.read("toy")) < 4 and time.monotonic() < deadline:
        time.sleep(0.2)
    work.send_signal(signal.SIGINT)
    _, err = work.communicate(timeout=60)

    assert work.returncode == 130
    assert "Traceback" not in err
    lines = ledger.read("toy")
    assert 4 <= len(lines) < 602
    assert ledger.path("toy").read_bytes().endswith(b"\n")
    again = runner.reproduce([TABLES["toy"]], ledger, runs=1, effort=Effort(steps=1))
    assert again.present > 0
    assert ledger.read("toy")[: len(lines)] == lines
    alone = Ledger(tmp_path / "alone")
    runner.reproduce([TABLES["toy"]], alone, runs=1, effort=Effort(steps=1))
    scores = {identity(line): line["score"] for line in alone.read("toy")}
    shared = [line for line in lines if identity(line) in scores]
    assert len(shared) >= 4
    assert {identity(line): line["score"] for line in shared}.items() <= scores.items()


def test_a_missing_drawing_library_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(RaeError, match=r"role-action-embeddings\[bench\]"):
        figures.pyplot()


def test_a_missing_graph_drawing_library_is_named_with_its_extra(monkeypatch):
    from rae.evaluation.tables.pictures import layout

    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(RaeError, match=r"role-action-embeddings\[bench\]"):
        layout(Graph.from_edges([(0, 1)]))


def test_reproduce_can_be_asked_for_one_table_and_some_rows(tmp_path):
    call = ["reproduce", "toy", "--table", "toy", "--steps", "1", "--runs", "1", "--jobs", "1", "--out", str(tmp_path)]
    assert main([*call, "--row", "features alone", "--quiet"]) == 0
    lines = [json.loads(line) for line in (tmp_path / "results" / "toy.jsonl").read_text().splitlines()]

    assert {line["row"] for line in lines} == {"features alone"}


@pytest.mark.parametrize(
    ("flag", "sentence"), [("--table", "--table must be one of toy"), ("--row", "--row must be part of the name")]
)
def test_a_table_or_row_that_is_not_there_is_named(tmp_path, capsys, flag, sentence):
    assert main(["reproduce", "toy", flag, "nothing", "--out", str(tmp_path)]) == 2
    assert sentence in capsys.readouterr().err
