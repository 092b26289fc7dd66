"""benchmarks/peers.py and benchmarks/build.py: what their lines say, and small runs of both."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import rae as library

ROOT = Path(__file__).parent.parent
BENCHMARKS = ROOT / "benchmarks"


@pytest.fixture
def script(monkeypatch):
    """Import a module of benchmarks/ by its name."""
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    return import_module


@pytest.fixture
def peers(script):
    return script("peers")


@pytest.fixture
def edges(tmp_path):
    """A gzipped edge list in the form of web-Google: a cycle of thirty nodes with a few chords."""
    rows = [(u, (u + 1) % 30) for u in range(30)] + [(0, 10), (10, 20), (20, 0), (5, 5), (1, 0)]
    path = tmp_path / "ring.txt.gz"
    with gzip.open(path, "wt") as file:
        file.write("source\ttarget\n" + "".join(f"{u}\t{v}\n" for u, v in rows))
    return path


def lines_of(path):
    return [json.loads(text) for text in path.read_text().splitlines()]


def called(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300, check=False)


# ------------------------------------------------------------------------------------ the race


def fake_peer(peers, monkeypatch, tmp_path, text):
    """Make this text the script that runs in place of every peer."""
    (tmp_path / "peer.py").write_text("import sys, json, time\nname, edges, out, told, threads = sys.argv[1:]\n" + text)
    monkeypatch.setattr(peers, "HERE", tmp_path)
    monkeypatch.setattr(peers, "peers_python", lambda: sys.executable)


def test_a_peer_that_takes_too_long_is_ended_and_its_line_says_how_far_it_got(peers, monkeypatch, tmp_path, edges):
    said = {"stage": "graph read", "share": 1.0, "at": 41.2}, {"stage": "the walks", "share": 0.12, "at": 99.0}
    text = "".join(json.dumps(line) + "\n" for line in said) + '{"stage": "cut o'
    fake_peer(peers, monkeypatch, tmp_path, f"open(told, 'w').write({text!r})\ntime.sleep(60)")
    way = peers.Way("slow", "any")
    monkeypatch.setattr(peers, "versions", lambda _: {})
    (line,) = peers.race([way], peers.Race(edges, "ring", limit=1.5), 3, tmp_path)
    assert line["note"] == "ended after 2 s: graph read after 41 s, 12.0 % of the walks done"
    assert "best_s" not in line
    assert (line["rounds"], line["limit_s"]) == (1, 1.5)
    assert line["peak_mb"] > 1


def test_a_peer_that_says_nothing_before_its_end_has_done_nothing(peers, monkeypatch, tmp_path, edges):
    fake_peer(peers, monkeypatch, tmp_path, "time.sleep(60)")
    _, known = peers.Race(edges, "ring", limit=0.3).run(peers.Way("slow", "any"), tmp_path)
    assert known["note"] == "ended after 0 s: nothing done"


def test_a_peer_that_fails_says_why_and_has_no_time(peers, monkeypatch, tmp_path, edges):
    told = json.dumps({"stage": "graph read", "share": 1.0, "at": 2}) + "\n"
    fake_peer(peers, monkeypatch, tmp_path, f"open(told, 'w').write({told!r})\nraise MemoryError('all of it')")
    monkeypatch.setattr(peers, "versions", lambda _: {})
    (line,) = peers.race([peers.Way("broken", "any")], peers.Race(edges, "ring"), 2, tmp_path)
    assert line["note"] == "graph read after 2 s; failed: MemoryError: all of it"
    assert "best_s" not in line
    assert "peak_mb" not in line


def test_quick_ways_run_in_turns_and_slow_ones_once(peers, monkeypatch, tmp_path):
    seconds = {"a": iter([30.0, 10.0, 20.0]), "b": iter([500.0]), "c": iter([600.0]), "d": iter([1.0, 1.0, 1.0])}
    ran = []

    def run(self, way, work):
        ran.append(way.row)
        stopped = "ended after 600 s" if way.row == "c" else None
        spent = SimpleNamespace(seconds=next(seconds[way.row]), peak_gib=1.0, stopped=stopped)
        return spent, {"note": "ended"} if stopped else {"embedded_s": spent.seconds - 1}

    monkeypatch.setattr(peers.Race, "run", run)
    ways = [peers.Way(row, note="as it is" if row == "a" else "") for row in "abcd"]
    found = {line["row"]: line for line in peers.race(ways, peers.Race(tmp_path, "ring"), 3, tmp_path)}
    assert "".join(ran) == "abcdadad"
    assert [found["a"][key] for key in ("best_s", "worst_s", "rounds", "embedded_s")] == [10.0, 30.0, 3, 9.0]
    assert found["a"]["note"] == "as it is; 9.0 s to the vectors, unwritten"
    assert (found["b"]["best_s"], found["b"]["rounds"]) == (500.0, 1)
    assert "best_s" not in found["c"]
    assert found["c"]["note"] == "ended"


def test_a_cut_keeps_the_header_and_the_first_rows(peers, edges, tmp_path):
    with gzip.open(peers.cut(edges, 2, tmp_path / "cut.gz"), "rt") as file:
        assert file.read() == "source\ttarget\n0\t1\n1\t2\n"


def test_every_row_of_the_race_is_a_peer_that_exists_with_pinned_packages(peers, script):
    for way in peers.WAYS:
        assert way.peer is None or way.peer in script("peer").PEERS
        assert set(peers.versions(way.packages)) == set(way.packages)


def test_our_own_rows_and_an_installed_peer_come_out_of_a_quick_race(script, edges, tmp_path):
    there = script("alternatives").peers_python() is not None
    out = tmp_path / "lines.jsonl"
    rows = ["rae fit", "Cleora, 3 iterations"]
    done = called(sys.executable, BENCHMARKS / "peers.py", "--quick", "--edges", edges, "--out", out, "--only", *rows)
    assert done.returncode == 0, done.stderr
    ours, theirs = lines_of(out)
    assert [line["row"] for line in (ours, theirs)] == rows
    assert (ours["nodes"], ours["columns"], ours["rounds"]) == (30, 256, 1)
    assert ours["peak_mb"] > 50
    assert "embedded_s" not in ours
    assert {"table", "dataset", "threads", "worst_s", "load", "run", "machine", "versions"} <= set(ours)
    assert (theirs.get("nodes") == 30) if there else theirs["note"].startswith("not installed: ")


@pytest.mark.parametrize(
    ("name", "columns"), [("cleora", {256}), ("cleora-short", {256}), ("node2vec", {256}), ("rolx", set(range(1, 9)))]
)
def test_a_peer_writes_a_vector_for_every_node(name, columns, script, peers, edges, tmp_path):
    python = script("alternatives").peers_python()
    if python is None:
        pytest.skip("the peers are not installed: python benchmarks/alternatives.py")
    out, told = tmp_path / "z.parquet", tmp_path / "told.jsonl"
    done = called(python, BENCHMARKS / "peer.py", name, edges, out, told, 1)
    assert done.returncode == 0, done.stderr
    found = peers.shape(out)
    assert found["nodes"] == 30
    assert found["columns"] in columns
    stages = [line["stage"] for line in peers.told_lines(told)]
    assert stages[0] == "graph"
    assert stages[-2:] == ["embedded", "written"]


def test_a_peer_tells_how_far_a_loop_is_and_how_often_it_was_gone_through(script, monkeypatch, tmp_path):
    monkeypatch.setattr(script("peer"), "OFTEN", -1.0)
    told = script("peer").Told(tmp_path / "told.jsonl")
    double = told.counted("generation {}", 200, lambda x: 2 * x)
    assert [double(x) for x in range(350)] == [2 * x for x in range(350)]
    assert told.after("end", double)(7) == 14
    found = [(line["stage"], line["share"]) for line in script("peers").told_lines(told.path)]
    assert found == [
        ("generation 1", 0.0),
        ("generation 1", 0.5),
        ("generation 2", 0.0),
        ("generation 2", 0.5),
        ("end", 1.0),
    ]


# ------------------------------------------------------------------------- where alternatives lie


def test_an_environment_made_from_other_pins_is_not_taken(script, monkeypatch, tmp_path):
    alternatives = script("alternatives")
    monkeypatch.setattr(alternatives, "PEERS", tmp_path)
    (tmp_path / "made").write_text("pecanpy==1.0\n")
    assert alternatives.peers_python() is None
    (tmp_path / "made").write_text((BENCHMARKS / "peers.txt").read_text())
    assert alternatives.peers_python() == tmp_path / "bin" / "python"
    assert alternatives.make_peers() is None  # nothing to do


def test_an_environment_that_could_not_be_made_says_why_and_is_tried_again(script, monkeypatch, tmp_path):
    alternatives = script("alternatives")
    monkeypatch.setattr(alternatives, "PEERS", tmp_path)
    monkeypatch.setattr(alternatives, "_call", lambda command: None if "venv" in command else "ERROR: no network")
    assert alternatives.make_peers() == "ERROR: no network"
    assert alternatives.peers_python() is None
    monkeypatch.setattr(alternatives, "_call", lambda command: None)
    assert alternatives.make_peers() is None
    assert alternatives.peers_python() is not None


def test_packages_beside_are_tried_once_each_and_never_bring_their_own_torch(script, monkeypatch, tmp_path):
    alternatives, calls = script("alternatives"), []
    monkeypatch.setattr(alternatives, "BESIDE", tmp_path / "beside")

    def call(command):
        calls.append(command)
        return "ERROR: does not compile" if "torch-sparse" in command[-1] else None

    monkeypatch.setattr(alternatives, "_call", call)
    alternatives.make_beside()
    alternatives.make_beside()
    assert [command[-1] for command in calls] == (BENCHMARKS / "beside.txt").read_text().split()
    assert all("--no-deps" in command for command in calls)
    (tried,) = (tmp_path / "beside").glob("torch-sparse*.tried")
    assert tried.read_text() == "ERROR: does not compile"


def test_what_a_failing_command_said_last_is_kept(script):
    call = script("alternatives")._call
    assert call([sys.executable, "-c", "pass"]) is None
    assert call([sys.executable, "-c", "import sys; sys.exit('one\\nERROR: two\\nthree')"]) == "ERROR: two"
    assert call([sys.executable, "-c", "import sys; sys.exit(3)"]) == "pip ended with 3"


# ---------------------------------------------------------------------------- build and sampler


@pytest.fixture
def graph():
    return library.datasets.load("power-law", n_nodes=200, n_edges=2000).graph


def test_all_ways_to_build_find_the_same_edges(script, edges, tmp_path):
    build = script("builders")
    igraph = (script("alternatives").BESIDE / "igraph").exists() or find_spec("igraph")
    ways = [way for way in build.WAYS if "igraph" not in way or igraph]
    assert {build.WAYS[way](edges, tmp_path) for way in ways} == {33}


def test_no_way_to_build_has_its_imports_done_before_the_clock_starts():
    heavy = "{'numpy', 'scipy', 'pandas', 'torch', 'pyarrow', 'rae', 'networkx', 'igraph'}"
    code = f"import sys; sys.path.insert(0, {str(BENCHMARKS)!r}); import builders; print({heavy} & set(sys.modules))"
    assert called(sys.executable, "-c", code).stdout.strip() == "set()"


def test_a_small_run_of_build_gives_lines_of_everything(tmp_path):
    out = tmp_path / "lines.jsonl"
    done = called(sys.executable, BENCHMARKS / "build.py", "--quick", "--out", out)
    assert done.returncode == 0, done.stderr
    found = lines_of(out)
    assert {line["table"] for line in found} == {"build", "order", "sampler"}
    assert all({"dataset", "row", "threads", "rounds", "load", "run", "machine"} <= set(line) for line in found)
    measured = [line for line in found if line["rounds"]]
    assert all("best_s" in line or "best_m_edges_s" in line for line in measured)
    assert all(line["note"] for line in found if not line["rounds"])
    assert {"rae", "NumPy, sorted by random keys", "PyTorch, with replacement"} <= {line["row"] for line in measured}


@pytest.mark.parametrize("name", ["rae", "numba, redraw what was drawn", "NumPy, sorted by random keys"])
def test_samplers_without_replacement_draw_samples(name, script, graph):
    samplers, nodes = script("samplers"), np.random.default_rng(0).permutation(graph.n_nodes)
    sampler = samplers.WAYS[name](graph, nodes, 5)
    samplers.check(sampler, sampler.work(), graph, nodes, 5)


def test_what_is_no_sample_is_refused(script, graph):
    samplers, nodes = script("samplers"), np.arange(graph.n_nodes)
    sampler = samplers.ours(graph, nodes, 5)
    offsets, found = sampler.work()
    wide = int(np.argmax(np.diff(offsets)))
    twice, stranger = found.copy(), found.copy()
    twice[offsets[wide] + 1] = twice[offsets[wide]]
    stranger[offsets[wide]] = wide  # no node is its own neighbour
    for result, complaint in (
        ((offsets, twice), "a neighbour twice"),
        ((offsets, stranger), "no edge"),
        ((np.append(offsets[:-1], offsets[-1] - 1), found[:-1]), "too few"),
    ):
        with pytest.raises(AssertionError, match=complaint):
            samplers.check(sampler, result, graph, nodes, 5)


def test_a_sampler_that_is_not_installed_is_named_with_the_reason(script, graph, monkeypatch):
    samplers = script("samplers")

    def absent(*_):
        raise ImportError("No module named 'dgl'")

    monkeypatch.setattr(samplers, "WAYS", {"DGL": absent, "rae": samplers.ours})
    found = dict(samplers.made(graph, np.arange(3), 5))
    assert found["DGL"] == "not installed: No module named 'dgl'"
    assert isinstance(found["rae"], samplers.Sampler)


def test_racers_run_in_turns_and_one_that_is_too_slow_has_one_round(script, monkeypatch):
    build, ran, seen, clock = script("build"), [], [], [0.0]
    monkeypatch.setattr(build.time, "perf_counter", lambda: clock[0])

    def way(name, seconds):
        def work():
            ran.append(name)
            clock[0] += seconds

        return work

    ways = {"quick": way("q", 0.25), "slow": way("s", 12.0), "short": way("-", 0.0625)}
    spent = build.in_turns(ways, 2, lambda name, _: seen.append(name))
    assert "".join(ran) == "qs-" + "qs--" + "q--"
    assert seen == ["quick", "slow", "short"]
    assert spent == {"quick": [0.25, 0.25], "slow": [12.0], "short": [0.0625, 0.0625]}
