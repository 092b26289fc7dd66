"""The choice of the default: a candidate that one data set alone favours is not chosen by the others."""

from __future__ import annotations

import json
import sys

import pytest

from rae.evaluation.ledger import Ledger
from rae.evaluation.statistics import Gap
from rae.evaluation.table_spec import Effort
from rae.evaluation.tables import TABLES, recovery


@pytest.fixture
def choice(load):
    return load("choice")


@pytest.fixture
def gaps(choice):
    """A function that makes the gaps of a candidate, by data set."""
    return lambda **by_dataset: {
        choice.Task("t", dataset, "", choice.KINDS[0]): Gap(mean, 1.0) for dataset, mean in by_dataset.items()
    }


def test_a_standing_counts_places_and_takes_the_mean_in_errors(choice):
    assert str(choice.standing([Gap(2.0, 1.0), Gap(-0.5, 1.0), Gap(-3.0, 1.0)])) == "1 / 1 / 1 (-0.5)"


def test_the_fewest_below_wins_before_the_highest_mean(choice, gaps):
    candidates = {"careful": gaps(a=0.5, b=0.5), "bold": gaps(a=9.0, b=-2.0)}

    assert choice.choose(candidates, choice.common_tasks(candidates)) == "careful"
    candidates["also careful"] = gaps(a=2.0, b=0.5)
    assert choice.choose(candidates, choice.common_tasks(candidates)) == "also careful"


def test_a_data_set_has_no_say_in_what_is_chosen_for_it(choice, gaps):
    candidates = {"steady": gaps(a=1.5, b=1.5, c=1.5), "tuned to c": gaps(a=-3.0, b=-3.0, c=9.0)}

    left = {each.left_out: each for each in choice.leave_one_out(candidates)}
    assert {name: each.chosen for name, each in left.items()} == {"a": "steady", "b": "steady", "c": "steady"}
    assert left["c"].best == "tuned to c"
    assert str(left["c"].there) == "1 / 0 / 0 (+1.5)"
    assert str(left["c"].others) == "2 / 0 / 0 (+1.5)"


def test_only_tasks_that_every_candidate_has_are_compared(choice, gaps):
    candidates = {"one": gaps(a=1.0, b=1.0), "two": gaps(b=2.0)}

    assert [task.dataset for task in choice.common_tasks(candidates)] == ["b"]
    assert choice.leave_one_out(candidates) == []  # nothing is left to choose by


def test_a_family_of_data_sets_is_left_out_together(choice):
    assert {choice.group_of(name) for name in ("brazil", "usa to europe")} == {"airports"}
    assert choice.group_of("mixed, 30 % noise") == "mixed"


def test_every_development_table_has_floors_and_its_data_sets(choice):
    for development in choice.DEVELOPMENT:
        assert TABLES[development.table.name] is development.table
        assert set(development.datasets) <= set(development.table.datasets)
        for dataset in development.datasets:
            kinds = {row.kind for work in development.table.works for row in work.rows if dataset in work.datasets}
            assert "floor" in kinds


def test_every_candidate_is_a_setting_of_the_exact_solution_and_changes_it(choice):
    development = choice.DEVELOPMENT[0]
    configs = {name: choice.candidate_row(development, name).config(0, Effort()) for name in choice.CANDIDATES}

    assert len(set(configs.values())) == len(configs)


def test_the_benchmark_compares_resumes_and_is_reported(choice, load, tmp_path, capsys, monkeypatch, short_readers):
    monkeypatch.setitem(recovery.GRAPHS["mixed"], "n_nodes", 150)
    script = load("default_choice")
    monkeypatch.setattr(sys, "argv", ["default_choice.py", "--quick", "--results", str(tmp_path)])

    script.main()
    first = capsys.readouterr().out
    assert "8 runs to compute" in first
    assert "| two levels |" in first
    lines = [json.loads(text) for text in (tmp_path / "default_choice.jsonl").read_text().splitlines()]
    assert {x["row"] for x in lines} == {"default", "two levels"}
    assert all(x["settings"]["trial_steps"] == 1 and x["seconds"] >= 0 for x in lines)

    script.main()
    again = capsys.readouterr().out
    assert "0 runs to compute" in again
    assert first.split("# How the default was chosen")[1] == again.split("# How the default was chosen")[1]

    candidates = choice.gaps(Ledger(tmp_path), Effort(steps=1))
    assert {task.key for task in candidates["default"]} == {"", "standardised", "linear"}
    assert not choice.gaps(Ledger(tmp_path))  # a trial is no evidence


def test_the_page_has_the_choice(choice, tmp_path):
    ledger, development = Ledger(tmp_path), choice.DEVELOPMENT[0]
    table, more = development.table, {"standardised": 60.0, "linear": 60.0}
    numbers = {"also": more, "seconds": 1.0, "cpu_seconds": 1.0, "peak_mb": 1.0, "rows_together": 1}
    work = next(work for work in table.works if work.rows[0].kind == "floor")
    for seed in range(2):
        for dataset in ("house, 0 % noise", "mixed, 0 % noise"):
            settings = table.line_settings(work, work.rows[0], dataset, Effort())
            floor = {"table": table.name, "row": work.rows[0].name, "dataset": dataset, "seed": seed}
            ledger.append([{**floor, "settings": settings, "score": 50.0, **numbers}])
            for name, score in (("default", 60.0 + seed), ("two levels", 40.0 + seed)):
                ledger.append(
                    [{**choice.key_of(development, name, dataset, seed, Effort()), "score": score, **numbers}]
                )

    page = choice.page(choice.gaps(ledger))
    assert page.startswith("# How the default was chosen")
    assert "| house | default | 1 / 2 / 0" in page
    assert "All data sets together choose: **default**." in page
