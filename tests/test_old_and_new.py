"""The comparison of two versions: turns are fair, ratios are of the best, a failing job is named, the page says it."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest

from rae.evaluation.ledger import Ledger

HERE = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def script(load):
    return load("old_and_new")


@pytest.fixture
def versions(script, tmp_path):
    """This environment as both versions."""
    for label in ("old", "new"):
        (tmp_path / label).mkdir()
    return [script.Version(label, Path(sys.executable), tmp_path / label, script.ROOT) for label in ("old", "new")]


def options(tmp_path, **more):
    return SimpleNamespace(**{"results": Ledger(tmp_path / "lines"), "rounds": 1, "only": None, **more})


def test_cpu_time_is_that_of_the_process_and_of_those_it_waited_for(load):
    burn = "import time\nwhile time.process_time() < 0.2: pass"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}])"
    asleep = load("processes").run_process([sys.executable, "-c", "import time; time.sleep(0.4)"])
    assert load("processes").run_process([sys.executable, "-c", code]).cpu_s > 0.2
    assert asleep.cpu_s < asleep.seconds - 0.2


def test_ratios_are_new_to_old_of_the_best_and_of_the_largest_peak(script):
    old = [script.Sample(2.0, 4.0, 1.0), script.Sample(3.0, 3.0, 0.5)]
    line = script.compare(old, [script.Sample(1.0, 3.0, 2.0), script.Sample(5.0, 9.0, 1.0)])
    assert (line["cpu_ratio"], line["ratio"], line["peak_ratio"], line["cpu_median_ratio"]) == (0.5, 1.0, 2.0, 1.2)
    assert (line["old_cpu_s"], line["new_cpu_s"], line["samples"]) == (2.0, 1.0, 2)


def test_turns_change_their_order_and_a_slower_job_has_as_many_rounds_again(script, versions, monkeypatch):
    monkeypatch.setattr(script, "MOST_ROUNDS", 3)
    for factor, rounds in ((1.0, 3), (1.2, 6)):
        ran = []

        def measure(version, ran=ran, factor=factor):
            ran.append(version.label[0])
            return {"row": [script.Sample(factor if version.label == "new" else 1.0, 1.0, 1.0)]}

        samples = script.measure_in_turns(script.Job("t", "d", 1, measure), versions, 3)
        assert "".join(ran).startswith("onnoon")
        assert len(ran) == 2 * rounds
        assert len(samples["old"]["row"]) == len(samples["new"]["row"]) == rounds


def test_a_slower_row_and_a_failing_job_are_named_and_the_others_recorded(script, versions, tmp_path, capfd):
    def measure(version):
        return {"slow": [script.Sample(1.0 + (version.label == "new"), 1.0, 1.0)]}

    broken = script.command("broken", 1, "-c", "raise SystemExit('not in this version')")
    jobs = [script.Job("a", "d", 1, broken), script.Job("b", "d", 2, measure), script.Job("c", "d", 1, measure)]
    failed = script.measure_all(options(tmp_path, only=["a", "b"]), versions, jobs, {"old": "1234567", "new": "tree"})
    assert failed == ["a: d"]
    (line,) = Ledger(tmp_path / "lines").latest(script.TABLE)
    assert (line["dataset"], line["row"], line["settings"]) == ("b: d", "slow", {"threads": 2, "old": "1234567"})
    assert line["cpu_ratio"] == 2.0
    written = capfd.readouterr()
    assert "not in this version" in written.err
    assert "more than 5 % slower: 1\nb: d, slow, 2 threads: 2.00" in written.out


def test_what_a_job_needs_is_done_once_by_each_version(script, versions, tmp_path):
    words = ("-c", "open('{home}/needed', 'a').write('x')")
    read = script.command("read", 1, "-c", "open('{home}/needed').read()")
    jobs = [script.Job("t", f"d{i}", 1, read, (words,)) for i in range(2)]
    assert script.measure_all(options(tmp_path), versions, jobs, {"old": "o", "new": "n"}) == []
    assert [(version.home / "needed").read_text() for version in versions] == ["x", "x"]


def test_a_resumed_command_must_give_the_same_bytes(script, versions):
    code = "import sys, time, os; time.sleep(0.2); open(sys.argv[2], 'w').write(sys.argv[2][-{0}:])"
    samples = script.resumed(1, "-c", code.format(8))(versions[0])  # both end with .parquet
    assert set(samples) == {"uninterrupted", "killed half way and resumed"}
    with pytest.raises(SystemExit, match="old: the resumed run gave other bytes"):
        script.resumed(1, "-c", code.format(13))(versions[0])


def test_an_environment_gets_the_files_of_its_revision_or_of_the_tree_as_it_is(script, tmp_path, monkeypatch):
    tree = tmp_path / "tree"
    (tree / "src").mkdir(parents=True)
    (tree / "src" / "a.py").write_text("old")
    who = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    for words in (("init", "-q"), ("add", "."), (*who, "commit", "-qm", "first")):
        subprocess.run(["git", *words], cwd=tree, check=True)
    (tree / "src" / "a.py").write_text("new")
    (tree / "src" / "b.py").write_text("untracked")
    monkeypatch.setattr(script, "ROOT", tree)
    for name, revision, expected in (
        ("of", "HEAD", {"a.py": "old"}),
        ("is", None, {"a.py": "new", "b.py": "untracked"}),
    ):
        (tmp_path / name).mkdir()
        script.check_out(revision, tmp_path / name)
        assert {path.name: path.read_text() for path in (tmp_path / name / "src").iterdir()} == expected
    assert script.present_tree().endswith(" and changes")


def test_the_page_has_every_row_and_marks_those_that_are_slower(script, load, tmp_path):
    samples = [script.Sample(1.0, 2.0, 0.5)], [script.Sample(1.1, 1.0, 0.5)]
    for row, (old, new) in (("up", samples), ("down", samples[::-1])):
        load("recording").record(
            *(Ledger(tmp_path), script.TABLE, "growth: g", row, {"threads": 2, "old": "1234567"}),
            **script.compare(old, new),
            new="89abcde",
        )
    text = load("performance").old_and_new(load("measurements").Measurements.read(Ledger(tmp_path), [script.TABLE]))
    assert "| growth: g | up | 2 | 1 s | 1.1 s | **1.10** | 1.10 | 0.50 | 1.00 |" in text
    assert "| growth: g | down | 2 | 1.1 s | 1 s | 0.91 | 0.91 | 2.00 | 1.00 |" in text
    assert "--old 1234567" in text
    assert "Of 2 rows 1 take over 5% more CPU time" in text.replace("\n", " ")
    assert load("performance").old_and_new(load("measurements").Measurements([])) == ""


def test_jobs_cover_every_table_of_the_page(script, load, tmp_path, monkeypatch):
    """All but the order of rows, whose rows are the mean's, and what is younger than the old code."""
    monkeypatch.setattr(script, "web_google", lambda: tmp_path / "web-Google" / "web.gz")
    for name in ("web-Google", "ca-AstroPh"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "edges.gz").touch()
    monkeypatch.setattr(script, "draw_edges", lambda path, n, m: path)
    monkeypatch.setattr(script, "skewed_edges", lambda m, path: path)
    jobs = list(script.jobs(script.sizes(tmp_path, quick=False, threads=2)))
    missing = {*load("performance").TABLES} - {job.table for job in jobs}
    younger = {"update", "one-node", "large-weighted", "serve", "serve-killed", "gpu", "threads"}
    cluster = {"cluster", "cluster-faults", "cluster-model", "cluster-overhead", "cluster-skew"}
    assert missing == {"row-order", *younger, *cluster, script.TABLE}


@pytest.mark.parametrize(
    ("job", "words", "row"),
    [
        ("training_step", ["planted-actions"], "embedding every node"),
        ("variants", ["planted-actions"], "sampled inference of every node"),
        ("baselines", ["barbell"], "Node2Vec"),
    ],
)
def test_a_job_times_its_parts(load, monkeypatch, job, words, row):
    jobs = load("old_and_new_jobs")
    monkeypatch.setattr(jobs, "TURN_SECONDS", 0)
    monkeypatch.setattr(jobs, "TURNS", 1)
    monkeypatch.setattr(jobs, "STEPS", 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as in its own process: a dozen steps are no fit
        times = jobs.JOBS[job](*words)

    assert row in times
    assert all(cpu >= 0 and seconds > 0 for ((cpu, seconds),) in times.values())


@pytest.mark.slow
def test_a_trial_compares_this_environment_with_itself(tmp_path):
    command = [sys.executable, HERE / "old_and_new.py", "--quick", "--results", tmp_path, "--only", "neighbor-sampler"]
    subprocess.run(command, check=True)
    lines = Ledger(tmp_path).latest("old-and-new")
    assert {line["dataset"].split(":")[0] for line in lines} == {"neighbor-sampler"}
    assert all(line["new_cpu_s"] > 0 for line in lines)
