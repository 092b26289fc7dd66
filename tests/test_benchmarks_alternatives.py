"""benchmarks/file_to_vectors.py and benchmarks/graph_build.py: their lines, and small runs of both."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import rae as library
from rae.evaluation.ledger import Ledger

ROOT = Path(__file__).parent.parent
BENCHMARKS = ROOT / "benchmarks"


@pytest.fixture
def compared(load):
    return load("file_to_vectors")


@pytest.fixture
def edges(tmp_path):
    """A gzipped edge list in the form of web-Google: a cycle of thirty nodes with a few chords."""
    rows = [(u, (u + 1) % 30) for u in range(30)] + [(0, 10), (10, 20), (20, 0), (5, 5), (1, 0)]
    path = tmp_path / "ring.txt.gz"
    with gzip.open(path, "wt") as file:
        file.write("source\ttarget\n" + "".join(f"{u}\t{v}\n" for u, v in rows))
    return path


def lines_of(folder, *tables):
    return [line for table in tables for line in Ledger(folder).latest(table)]


def called(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300, check=False)


# ---------------------------------------------------------------------------- file_to_vectors


def fake_method(compared, monkeypatch, tmp_path, text):
    """Run this text in place of every other method."""
    arguments = "import sys, json, time\nname, edges, out, progress, threads = sys.argv[1:]\n"
    (tmp_path / "other_methods.py").write_text(arguments + text)
    monkeypatch.setattr(compared, "HERE", tmp_path)
    monkeypatch.setattr(compared, "methods_python", lambda: sys.executable)
    monkeypatch.setattr(compared, "versions", lambda _: {})


def test_a_method_that_takes_too_long_is_stopped_and_its_line_says_how_far_it_got(
    compared, monkeypatch, tmp_path, edges
):
    stages = {"stage": "graph read", "share": 1.0, "at": 41.2}, {"stage": "the walks", "share": 0.12, "at": 99.0}
    text = "".join(json.dumps(line) + "\n" for line in stages) + '{"stage": "cut o'
    fake_method(compared, monkeypatch, tmp_path, f"open(progress, 'w').write({text!r})\ntime.sleep(60)")
    shared = compared.Comparison(edges, "ring", limit=1.5)
    line = compared.compare([compared.Way("slow", "any")], shared, 3, tmp_path)["slow"]
    assert line["note"] == "ended after 2 s: graph read after 41 s, 12.0 % of the walks done"
    assert "best_s" not in line
    assert (line["rounds"], line["limit_s"]) == (1, 1.5)
    assert line["peak_mb"] > 1


def test_a_method_without_progress_has_done_nothing(compared, monkeypatch, tmp_path, edges):
    fake_method(compared, monkeypatch, tmp_path, "time.sleep(60)")
    _, fields = compared.Comparison(edges, "ring", limit=0.3).run(compared.Way("slow", "any"), tmp_path)
    assert fields["note"] == "ended after 0 s: nothing done"


def test_a_method_that_fails_has_a_reason_and_no_time(compared, monkeypatch, tmp_path, edges):
    stage = json.dumps({"stage": "graph read", "share": 1.0, "at": 2}) + "\n"
    fake_method(
        compared, monkeypatch, tmp_path, f"open(progress, 'w').write({stage!r})\nraise MemoryError('all of it')"
    )
    shared = compared.Comparison(edges, "ring")
    line = compared.compare([compared.Way("broken", "any")], shared, 2, tmp_path)["broken"]
    assert line["note"] == "graph read after 2 s; failed: MemoryError: all of it"
    assert "best_s" not in line
    assert "peak_mb" not in line


def test_quick_ways_run_in_turns_and_slow_ones_once(compared, monkeypatch, tmp_path):
    seconds = {"a": iter([30.0, 10.0, 20.0]), "b": iter([500.0]), "c": iter([600.0]), "d": iter([1.0, 1.0, 1.0])}
    ran = []

    def run(self, way, work):
        ran.append(way.row)
        stopped = "ended after 600 s" if way.row == "c" else None
        result = SimpleNamespace(seconds=next(seconds[way.row]), peak_gib=1.0, stopped=stopped)
        return result, {"note": "ended"} if stopped else {"embedded_s": result.seconds - 1}

    monkeypatch.setattr(compared.Comparison, "run", run)
    ways = [compared.Way(row, note="as it is" if row == "a" else "") for row in "abcd"]
    actual = compared.compare(ways, compared.Comparison(tmp_path, "ring"), 3, tmp_path)
    assert "".join(ran) == "abcdadad"
    assert [actual["a"][key] for key in ("best_s", "worst_s", "rounds", "embedded_s")] == [10.0, 30.0, 3, 9.0]
    assert actual["a"]["note"] == "as it is; 9.0 s to the vectors, unwritten"
    assert (actual["b"]["best_s"], actual["b"]["rounds"]) == (500.0, 1)
    assert "best_s" not in actual["c"]
    assert actual["c"]["note"] == "ended"


def test_a_quick_edge_list_has_the_header_and_the_first_rows(compared, edges, tmp_path):
    with gzip.open(compared.first_rows(edges, 2, tmp_path / "first.gz"), "rt") as file:
        assert file.read() == "source\ttarget\n0\t1\n1\t2\n"


def test_every_row_is_a_method_that_exists_with_pinned_packages(compared, load):
    for way in compared.WAYS:
        assert way.method is None or way.method in load("other_methods").METHODS
        assert set(compared.versions(way.packages)) == set(way.packages)


@pytest.mark.slow
def test_a_quick_comparison_measures_ours_and_an_installed_method(load, edges, tmp_path):
    installed = load("install_alternatives").methods_python() is not None
    rows = ["rae fit", "Cleora, 3 iterations"]
    options = ["--quick", "--edges", edges, "--results", tmp_path, "--only", *rows]
    process = called(sys.executable, BENCHMARKS / "file_to_vectors.py", *options)
    assert process.returncode == 0, process.stderr
    ours, theirs = lines_of(tmp_path, "file-to-vectors")
    assert [line["row"] for line in (ours, theirs)] == rows
    assert (ours["nodes"], ours["columns"], ours["rounds"]) == (30, 256, 1)
    assert ours["peak_mb"] > 50
    assert "embedded_s" not in ours
    assert {"worst_s", "load", "date", "command", "machine", "versions"} <= set(ours)
    assert (theirs.get("nodes") == 30) if installed else theirs["note"].startswith("not installed: ")


@pytest.mark.parametrize(
    ("name", "columns"), [("cleora", {256}), ("cleora-short", {256}), ("node2vec", {256}), ("rolx", set(range(1, 9)))]
)
def test_a_method_writes_a_vector_for_every_node(name, columns, load, compared, edges, tmp_path):
    python = load("install_alternatives").methods_python()
    if python is None:
        pytest.skip("the other methods are not installed: python benchmarks/install_alternatives.py")
    out, progress = tmp_path / "z.parquet", tmp_path / "progress.jsonl"
    process = called(python, BENCHMARKS / "other_methods.py", name, edges, out, progress, 1)
    assert process.returncode == 0, process.stderr
    actual = compared.shape(out)
    assert actual["nodes"] == 30
    assert actual["columns"] in columns
    stages = [line["stage"] for line in compared.read_stages(progress)]
    assert stages[0] == "graph"
    assert stages[-2:] == ["embedded", "written"]


def test_progress_has_the_share_of_a_loop_and_the_number_of_its_pass(load, monkeypatch, tmp_path):
    monkeypatch.setattr(load("other_methods"), "REPORT_SECONDS", -1.0)
    progress = load("other_methods").ProgressFile(tmp_path / "progress.jsonl")
    double = progress.counted("generation {}", 200, lambda x: 2 * x)
    assert [double(x) for x in range(350)] == [2 * x for x in range(350)]
    assert progress.after("end", double)(7) == 14
    actual = [(line["stage"], line["share"]) for line in load("file_to_vectors").read_stages(progress.path)]
    assert actual == [
        ("generation 1", 0.0),
        ("generation 1", 0.5),
        ("generation 2", 0.0),
        ("generation 2", 0.5),
        ("end", 1.0),
    ]


# ----------------------------------------------------------------------- install_alternatives


def test_an_environment_with_other_pins_is_not_used(load, monkeypatch, tmp_path):
    alternatives = load("install_alternatives")
    monkeypatch.setattr(alternatives, "METHODS_ENV", tmp_path)
    (tmp_path / "installed").write_text("pecanpy==1.0\n")
    assert alternatives.methods_python() is None
    (tmp_path / "installed").write_text((BENCHMARKS / "other_methods.txt").read_text())
    assert alternatives.methods_python() == tmp_path / "bin" / "python"
    assert alternatives.install_methods() is None  # nothing to do


def test_an_environment_that_cannot_be_installed_gives_the_reason_and_is_tried_again(load, monkeypatch, tmp_path):
    alternatives = load("install_alternatives")
    monkeypatch.setattr(alternatives, "METHODS_ENV", tmp_path)
    monkeypatch.setattr(alternatives, "_call", lambda command: None if "venv" in command else "ERROR: no network")
    assert alternatives.install_methods() == "ERROR: no network"
    assert alternatives.methods_python() is None
    monkeypatch.setattr(alternatives, "_call", lambda command: None)
    assert alternatives.install_methods() is None
    assert alternatives.methods_python() is not None


def test_extra_packages_are_tried_once_each_and_never_bring_their_own_torch(load, monkeypatch, tmp_path):
    alternatives, calls = load("install_alternatives"), []
    monkeypatch.setattr(alternatives, "EXTRA_PACKAGES", tmp_path / "extra")

    def call(command):
        calls.append(command)
        return "ERROR: does not compile" if "torch-sparse" in command[-1] else None

    monkeypatch.setattr(alternatives, "_call", call)
    alternatives.install_extra_packages()
    alternatives.install_extra_packages()
    assert [command[-1] for command in calls] == (BENCHMARKS / "extra_packages.txt").read_text().split()
    assert all("--no-deps" in command for command in calls)
    (tried,) = (tmp_path / "extra").glob("torch-sparse*.tried")
    assert tried.read_text() == "ERROR: does not compile"


def test_the_last_error_line_of_a_failing_command_is_returned(load):
    call = load("install_alternatives")._call
    assert call([sys.executable, "-c", "pass"]) is None
    assert call([sys.executable, "-c", "import sys; sys.exit('one\\nERROR: two\\nthree')"]) == "ERROR: two"
    assert call([sys.executable, "-c", "import sys; sys.exit(3)"]) == "pip ended with 3"


# --------------------------------------------------------------------------------- graph_build


@pytest.fixture
def graph():
    return library.datasets.load("power-law", n_nodes=200, n_edges=2000).graph


def test_all_ways_to_build_find_the_same_edges(load, edges, tmp_path):
    build = load("graph_builders")
    igraph = (load("install_alternatives").EXTRA_PACKAGES / "igraph").exists() or find_spec("igraph")
    ways = [way for way in build.WAYS if "igraph" not in way or igraph]
    assert {build.WAYS[way](edges, tmp_path) for way in ways} == {33}


def test_no_way_to_build_imports_anything_before_the_clock_starts():
    heavy = "{'numpy', 'scipy', 'pandas', 'torch', 'pyarrow', 'rae', 'networkx', 'igraph'}"
    code = (
        f"import sys; sys.path.insert(0, {str(BENCHMARKS)!r}); import graph_builders; print({heavy} & set(sys.modules))"
    )
    assert called(sys.executable, "-c", code).stdout.strip() == "set()"


@pytest.mark.slow
def test_a_quick_graph_build_measures_every_table(tmp_path):
    process = called(sys.executable, BENCHMARKS / "graph_build.py", "--quick", "--results", tmp_path)
    assert process.returncode == 0, process.stderr
    tables = ("graph-build", "row-order", "neighbor-sampler")
    assert all(lines_of(tmp_path, table) for table in tables)
    actual = lines_of(tmp_path, *tables)
    assert all({"rounds", "load", "date", "machine"} <= set(line) for line in actual)
    measured = [line for line in actual if line["rounds"]]
    assert all("best_s" in line or "best_m_edges_s" in line for line in measured)
    assert all(line["note"] for line in actual if not line["rounds"])
    assert {"rae", "NumPy, sorted by random keys", "PyTorch, with replacement"} <= {line["row"] for line in measured}


@pytest.mark.parametrize("name", ["rae", "numba, redraw what was drawn", "NumPy, sorted by random keys"])
def test_samplers_without_replacement_draw_samples(name, load, graph):
    samplers, nodes = load("neighbor_samplers"), np.random.default_rng(0).permutation(graph.n_nodes)
    if name.startswith("numba"):
        samplers.import_extra_packages()
        pytest.importorskip("numba", reason="not installed: python benchmarks/install_alternatives.py")
    sampler = samplers.WAYS[name](graph, nodes, 5)
    samplers.check_sample(sampler, sampler.sample(), graph, nodes, 5)


def test_a_wrong_sample_is_refused(load, graph):
    samplers, nodes = load("neighbor_samplers"), np.arange(graph.n_nodes)
    sampler = samplers.ours(graph, nodes, 5)
    offsets, actual = sampler.sample()
    wide = int(np.argmax(np.diff(offsets)))
    twice, stranger = actual.copy(), actual.copy()
    twice[offsets[wide] + 1] = twice[offsets[wide]]
    stranger[offsets[wide]] = wide  # no node is its own neighbour
    for result, complaint in (
        ((offsets, twice), "a neighbour twice"),
        ((offsets, stranger), "no edge"),
        ((np.append(offsets[:-1], offsets[-1] - 1), actual[:-1]), "too few"),
    ):
        with pytest.raises(AssertionError, match=complaint):
            samplers.check_sample(sampler, result, graph, nodes, 5)


def test_a_sampler_that_is_not_installed_is_named_with_the_reason(load, graph, monkeypatch):
    samplers = load("neighbor_samplers")

    def absent(*_):
        raise ImportError("No module named 'dgl'")

    monkeypatch.setattr(samplers, "WAYS", {"DGL": absent, "rae": samplers.ours})
    actual = dict(samplers.samplers(graph, np.arange(3), 5))
    assert actual["DGL"] == "not installed: No module named 'dgl'"
    assert isinstance(actual["rae"], samplers.Sampler)


def test_ways_run_in_turns_and_a_slow_one_has_one_round(load, monkeypatch):
    build, ran, checked, clock = load("graph_build"), [], [], [0.0]
    monkeypatch.setattr(build.time, "perf_counter", lambda: clock[0])

    def way(name, seconds):
        def work():
            ran.append(name)
            clock[0] += seconds

        return work

    ways = {"quick": way("q", 0.25), "slow": way("s", 12.0), "short": way("-", 0.0625)}
    spent = build.time_in_turns(ways, 2, lambda name, _: checked.append(name))
    assert "".join(ran) == "qs-" + "qs--" + "q--"
    assert checked == ["quick", "slow", "short"]
    assert spent == {"quick": [0.25, 0.25], "slow": [12.0], "short": [0.0625, 0.0625]}
