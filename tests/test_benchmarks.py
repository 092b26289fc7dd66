"""The benchmarks: lines are replaced and not mixed, racers compute the same, the page says what the lines say."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import rae
from rae.engine import embed
from rae.model.encoder import Encoder
from rae.runtime import generator

ROOT = Path(__file__).parents[1]
HERE = ROOT / "benchmarks"


@pytest.fixture
def load(monkeypatch):
    """A benchmark's module by its name."""
    monkeypatch.syspath_prepend(HERE)
    return importlib.import_module


def quietly(**more):
    """An environment in which processes share two cores well."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive", **more}


# --------------------------------------------------------------------------------------- lines


def test_a_new_run_replaces_the_lines_of_an_older_one_and_leaves_other_graphs_alone(load, tmp_path):
    lines = load("lines")
    path = tmp_path / "speed.jsonl"
    path.write_text('{"table": "speed", "dataset": "cora", "row": "from before runs had names", "threads": 1}\n')
    old, new = lines.Lines(path, run="monday"), lines.Lines(path, run="tuesday")
    for row in ("ours", "renamed since"):
        old.keep({"table": "speed", "dataset": "cora", "row": row, "threads": 1, "best_ms": 9.0})
    old.keep({"table": "speed", "dataset": "pubmed", "row": "ours", "threads": 1, "best_ms": 8.0})
    old.keep({"table": "speed", "dataset": "cora", "row": "ours", "threads": 2, "best_ms": 7.0})
    new.keep({"table": "speed", "dataset": "cora", "row": "ours", "threads": 1, "best_ms": 6.0})

    found = {(x["dataset"], x["row"], x["threads"]): x["best_ms"] for x in lines.read(path)}
    assert found == {("pubmed", "ours", 1): 8.0, ("cora", "ours", 2): 7.0, ("cora", "ours", 1): 6.0}


def test_a_line_says_where_when_and_with_what_it_was_made(load, tmp_path):
    lines = load("lines")
    kept = lines.Lines(tmp_path / "x.jsonl").keep({"table": "t", "row": "r", "versions": {"a-peer": "3"}})

    assert kept["versions"]["a-peer"] == "3"
    assert kept["versions"]["numpy"] == np.__version__
    assert {"machine", "load", "run"} <= set(kept)
    assert lines.read(tmp_path / "x.jsonl") == [kept]


def test_the_last_line_of_a_thing_measured_counts(load):
    newest = load("lines").newest
    a, b, c = ({"table": "t", "row": "r", "width": w, "best_s": s} for w, s in ((64, 1.0), (192, 2.0), (64, 3.0)))

    assert newest([a, b, c]) == [c, b]


# ------------------------------------------------------------------------------------- watched


def test_a_watched_command_tells_its_peak_its_time_and_its_last_line(load):
    watch = load("watched").watch
    spent = watch([sys.executable, "-c", "import time; x = bytearray(80 << 20); time.sleep(0.2); print('{\"a\": 1}')"])

    assert spent.peak_gib > 80 / 1024
    assert spent.seconds > 0.2
    assert (spent.stopped, spent.found) == (None, {"a": 1})


@pytest.mark.parametrize(
    ("limits", "said"),
    [({"most_s": 0.2}, "ended after"), ({"kill_after": 0.2}, "killed after"), ({"most_gib": 1e-3}, "ended when")],
)
def test_a_watched_command_is_ended_at_its_limit(load, limits, said):
    spent = load("watched").watch([sys.executable, "-c", "import time; time.sleep(60)"], **limits)

    assert spent.stopped.startswith(said)
    assert spent.seconds < 50


def test_a_watched_command_that_fails_is_an_error_with_what_it_said(load):
    watched = load("watched")
    with pytest.raises(watched.CommandError, match="no such luck"):
        watched.watch([sys.executable, "-c", "raise SystemExit('no such luck')"])


# --------------------------------------------------------------------------------------- racers


@pytest.fixture(scope="module")
def planted():
    return rae.datasets.load("planted-actions", n_nodes=120, n_words=80)


@pytest.fixture
def racing(load, planted):
    """The module, settings whose fan-out takes every neighbour, our encoder, and its vectors of the last level."""
    most = int(planted.graph.degrees.max())
    config = rae.PAPER.replace(dims=(12, 5), fanout=(most, most), batch_size=32)
    encoder = Encoder(planted.features.shape[1], config, generator(0, "race"))
    return load("racers"), config, encoder, embed(encoder, planted.graph, planted.features)[:, :5]


def give(linear, weight):
    linear.weight.data = weight.detach().T.contiguous()


@pytest.mark.filterwarnings("ignore:Sparse")
def test_the_geometric_racer_computes_our_encoder(racing, planted):
    racers, config, encoder, expected = racing
    racer = racers.Geometric(planted, config, "within")
    model = racer.models[0].eval()
    for at, level in zip((0, 3), encoder.stack(), strict=True):
        give(model[at].lin_l, level.aggregate.weight)
        give(model[at + 2][0], level.update.weight)

    assert np.allclose(racer.encode(model).detach(), expected, atol=1e-5)


def every_neighbor(offsets, targets, seeds, fanout, replace, directed):
    """What torch-sparse's neighbor_sample gives for a fan-out that takes all: nodes, sources, targets, edges."""
    import torch

    found, edges, frontier = seeds.tolist(), [], seeds.tolist()
    for _ in fanout:
        fresh = []
        for u in frontier:
            for v in targets[offsets[u] : offsets[u + 1]].tolist():
                if v not in found:
                    found.append(v)
                    fresh.append(v)
                edges.append((found.index(v), found.index(u)))
        frontier = fresh
    source, target = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T
    return torch.tensor(found), source, target, torch.arange(len(edges))


@pytest.mark.filterwarnings("ignore:Sparse")
def test_the_geometric_racer_that_samples_computes_our_encoder_where_it_takes_every_neighbour(
    racing, planted, monkeypatch
):
    import torch

    racers, config, encoder, expected = racing
    monkeypatch.setattr(racers.GeometricSampled, "sampler", staticmethod(every_neighbor))
    racer = racers.GeometricSampled(planted, config, "within")
    model = racer.models[0].eval()
    for at, level in zip((0, 3), encoder.stack(), strict=True):
        give(model[at].lin_l, level.aggregate.weight)
        give(model[at + 2][0], level.update.weight)
    nodes = torch.tensor([7, 3, 7, 50])
    h, place, kept = racer.below(model, nodes)
    assert np.allclose(racer.above(model, h, place, place, kept).detach(), expected[nodes], atol=1e-5)

    racer.models[1] = model
    nodes = torch.tensor([7, 3, 50])
    h, egos, rows, kept = racer.views(nodes, 2)
    assert np.allclose(racer.above(model, h, egos, rows, kept).detach(), expected[nodes.repeat(2)], atol=1e-5)


def test_a_sampler_that_is_not_there_or_does_not_work_is_left_out(load, tmp_path, monkeypatch):
    import torch

    racers = load("racers")
    monkeypatch.setattr(load("alternatives"), "BESIDE", tmp_path)
    monkeypatch.setattr(torch.ops, "torch_sparse", SimpleNamespace(), raising=False)
    assert racers.geometric_sampler() is None
    monkeypatch.setattr(torch.ops, "torch_sparse", SimpleNamespace(neighbor_sample=every_neighbor))
    assert racers.geometric_sampler() is every_neighbor
    (tmp_path / "torch_sparse").mkdir()
    (tmp_path / "torch_sparse" / "_sample_cpu.so").write_text("no library")
    assert racers.geometric_sampler() is None


@pytest.mark.parametrize("kind", ["Sampled", "SampledRagged"])
def test_the_sampling_racers_compute_our_encoder_where_they_take_every_neighbour(racing, planted, kind):
    import torch

    racers, config, encoder, expected = racing
    racer = getattr(racers, kind)(planted, config, "within")
    model = racer.models[0].eval()
    for at, level in enumerate(encoder.stack()):
        give(model[at][0][0], level.aggregate.weight)
        give(model[at][1][0], level.update.weight)
    nodes = torch.arange(planted.graph.n_nodes)
    found = racer.encode(model, nodes).detach().numpy()

    if kind == "Sampled":  # draws with replacement: only close
        assert np.corrcoef(found.ravel(), expected.ravel())[0, 1] > 0.8
    else:
        assert np.allclose(found, expected, atol=1e-5)


@pytest.mark.filterwarnings("ignore:Sparse")
def test_the_whole_graph_racer_computes_our_encoder(racing, planted):
    racers, config, encoder, expected = racing
    racer = racers.WholeGraph(planted, config, "within")

    assert np.allclose(racer.encode(encoder.eval()).detach(), expected, atol=1e-5)


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("loss", ["within", "neighbor"])
@pytest.mark.parametrize("kind", ["Geometric", "GeometricSampled", "Sampled", "SampledRagged"])
def test_the_racers_learn(racing, planted, kind, loss, monkeypatch):
    import torch

    racers, config, _, _ = racing
    monkeypatch.setattr(racers.GeometricSampled, "sampler", staticmethod(every_neighbor))
    torch.manual_seed(0)
    racer = getattr(racers, kind)(planted, config.replace(dropout=0.0), loss)
    nodes = torch.arange(planted.graph.n_nodes)
    before = float(racer.loss(nodes).detach())
    racer.run(20, 0)

    assert float(racer.loss(nodes).detach()) < before


def test_neighbours_as_index_tensors_are_those_of_the_graph(racing, planted):
    import torch

    index, graph = racing[0].Neighbors(planted.graph), planted.graph
    nodes = torch.tensor([5, 3, 5])
    lists, found, counts = index.ragged(nodes)
    assert counts.tolist() == graph.degrees[nodes].tolist()
    for i, u in enumerate(nodes.tolist()):
        assert found[lists == i].tolist() == graph.neighbors(u).tolist()
        assert set(index.padded(nodes, 7)[i].tolist()) <= set(graph.neighbors(u).tolist())
    us, vs = torch.arange(120).repeat_interleave(120), torch.arange(120).repeat(120)
    apart = ~(graph.adjacent(us.numpy(), vs.numpy()) | (us == vs).numpy())
    assert index.apart(us, vs).tolist() == apart.tolist()


# ------------------------------------------------------------------------------------- the mean


@pytest.mark.parametrize(
    ("loop", "kernel", "way"), [(6.0, 4.0, "limit, by our kernel"), (4.0, 6.0, "limit, by a loop")]
)
def test_the_limit_is_the_faster_of_two_ways_and_says_which(load, loop, kernel, way):
    embedding = load("embedding")
    times = dict(zip(embedding.LIMITS, ([loop, 7.0], [kernel, 7.0]), strict=True))
    found, told = embedding.faster_limit({**times, "ours": [5.0, 5.0]})

    assert found == {embedding.LIMIT: [4.0, 7.0], "ours": [5.0, 5.0]}
    assert (told["way"], told["other_way_ms"]) == (way, 6000.0)
    assert told["note"] == embedding.LIMITS[way]


def test_the_way_to_the_limit_by_our_kernel_reads_the_rows_it_is_given(load, planted):
    embedding, graph = load("embedding"), planted.graph
    x = embedding.at_a_line(generator(0, "x").random((graph.n_nodes, 8), dtype=np.float32))
    other = generator(0, "y").integers(graph.n_nodes, size=len(graph.targets)).astype(graph.targets.dtype)
    found = np.empty_like(x)
    embedding.ours(graph, x, 8, other)(found)
    lists = [[u, *other[graph.offsets[u] : graph.offsets[u + 1]]] for u in range(graph.n_nodes)]

    assert np.allclose(found, [x[rows].mean(0) for rows in lists], atol=1e-5)


# --------------------------------------------------------------------------------------- report


def test_the_page_in_docs_is_what_the_lines_in_results_give(load, tmp_path):
    load("report").publish(ROOT / "results", tmp_path)

    assert (tmp_path / "performance.md").read_text() == (ROOT / "docs" / "performance.md").read_text()


def kept(*lines):
    """Results as report.py reads them."""
    return [{"threads": 1, "rounds": 3, "file": x.get("file", "x"), **x} for x in lines]


def timed(row, best, *, table="whole", dataset="g", **more):
    return {"table": table, "dataset": dataset, "row": row, "best_s": best, "worst_s": 2 * best, **more}


def test_an_alternative_that_is_faster_or_smaller_is_named_as_a_loss(load):
    report = load("report")
    lines = kept(
        timed("limit: all", 0.1),
        timed("ours, in memory", 2.0, peak_gib=3.0),
        timed("quick one", 1.0, peak_gib=4.0),
        timed("small one", 4.0, peak_mb=1000),
        timed("neither", 4.0, peak_gib=4.0),
    )
    found = list(report.losses(report.Kept(lines), ["whole"]))

    assert found == [
        "- whole, g, 1 thread: quick one is 2.00 times as fast as ours, in memory.",
        "- whole, g, 1 thread: small one holds 0.93 GiB, ours, in memory 3.00 GiB.",
    ]


def test_a_bounded_row_that_loses_has_one_line_for_all_alternatives(load):
    report = load("report")
    note = "vectors written to Parquet, counted as time"
    lines = kept(
        timed("ours, in memory", 2.0, peak_gib=1.0),
        timed("ours, --memory 4GiB", 8.0, peak_gib=3.5, note=note),
        timed("limit: all", 0.1, peak_gib=0.1),
        timed("one", 4.0, peak_gib=3.0),
        timed("another", 5.0, peak_gib=4.0),
        timed("slow one", 9.0, peak_gib=4.0),
        timed("on more threads", 4.0, peak_gib=4.0, threads=2),
        timed("of another order, locality", 4.0, peak_gib=4.0),
    )
    text = report.page(report.Kept(lines), None).split("## Where we lose")[1].split("Not rows of a table")[0]

    assert " ".join(text.split()).split(" - ")[1:] == [
        "whole, g, 1 thread, ours, --memory 4GiB, which also writes Parquet: faster are one (2.00 times) and another "
        "(1.60 times); less than its 3.50 GiB holds one (3.00 GiB)."
    ]


def test_a_row_of_ours_that_takes_the_place_of_one_that_did_not_finish_is_told_of_once(load):
    report = load("report")
    lines = kept(
        {"table": "whole", "dataset": "g", "row": "ours, in memory", "note": "ended"},
        timed("ours, --memory 4GiB", 8.0),
        timed("one", 4.0),
    )

    assert list(report.losses(report.Kept(lines), ["whole"])) == [
        "- whole, g, 1 thread: one is 2.00 times as fast as ours, --memory 4GiB.",
        "- whole, g, 1 thread: ours, in memory did not finish (ended).",
    ]


def test_what_was_measured_once_says_so_and_has_no_worst(load):
    report = load("report")
    lines = kept(timed("ours, in memory", 34.569, rounds=1), timed("one", 0.5, rounds=1), timed("another", 4.0))
    text = report.page(report.Kept(lines), None)

    assert "| **ours, in memory** | 1 | 34.6 s, once |" in text
    assert "| one | 1 | 0.500 s, once |" in text
    assert "| another | 1 | 4.00 (8.00) s |" in text


def test_a_note_names_the_threads_where_it_is_not_that_of_all(load):
    report = load("report")
    lines = [timed("limit: all", 1.0, threads=n, note=note) for n, note in ((1, "a loop"), (2, "a kernel"))]
    lines += [timed("ours", 1.0, threads=n, note="tiles") for n in (1, 2)]

    assert list(report._notes(kept(*lines))) == [
        "- limit: all, 1 thread: a loop.",
        "- limit: all, 2 threads: a kernel.",
        "- ours: tiles.",
        "",
    ]


def test_more_edges_a_second_are_faster_and_a_row_of_ours_that_did_not_finish_is_a_loss(load):
    report = load("report")
    fast = {"table": "sampler", "dataset": "g", "fanout": 10}
    lines = kept(
        {**fast, "row": "rae, without replacement", "best_m_edges_s": 50.0, "worst_m_edges_s": 40.0},
        {**fast, "row": "faster", "best_m_edges_s": 100.0, "worst_m_edges_s": 80.0},
        {"table": "whole", "dataset": "g", "row": "ours, in memory", "note": "ended when it held 20 GiB"},
    )
    found = list(report.losses(report.Kept(lines), ["whole", "sampler"]))

    assert found == [
        "- sampler, g, 1 thread: faster is 2.00 times as fast as rae, without replacement.",
        "- whole, g, 1 thread: ours, in memory did not finish (ended when it held 20 GiB).",
    ]


def test_a_row_is_compared_with_ours_of_the_same_loss_order_and_threads(load):
    report = load("report")
    group = kept(
        timed("ours, within", 1.0),
        timed("ours, neighbor", 2.0),
        timed("ours, within", 3.0, threads=2),
        timed("ours, locality order", 4.0),
    )

    def found(row, threads=1):
        return report.counterpart({"row": row, "threads": threads}, group)["best_s"]

    assert [found("x, neighbor"), found("x, within", 2), found("x, locality order"), found("x")] == [2.0, 3.0, 4.0, 1.0]


def grown(report):
    """Growth of three parts over four sizes, and the proof."""
    lines = []
    for number, part in enumerate((report.BUILD, report.TRAIN, report.EMBED)):
        for power in (5, 6, 7, 8):
            m = 10**power
            more = {
                "drawn": m,
                "nodes": m // 10,
                "edges": m - 7,
                "start_s": 1.5,
                "start_gib": 0.3,
                "peak_gib": 0.5 + number,
            }
            dataset = f"power law, {m:,} edges"
            seconds = (0.04, 9.0, 0.2)[number] * (1 if number == 1 else 10.4 ** (power - 5))
            memory = {"memory": "4GiB"} if part == report.EMBED else {}
            lines.append(timed(part, seconds, table="growth", dataset=dataset, **more, **memory))
    told = {"memory": "4GiB", "killed_after_s": 90.0, "uninterrupted_s": 180.0, "same_bytes": True, "file_gb": 10.3}
    row = timed("killed", 60.0, table="large", dataset="power law, 100,000,000 edges", peak_gib=3.2, **told)
    return kept(*lines, row)


def test_growth_is_told_from_one_size_to_the_next(load):
    report = load("report")
    text = "\n".join(report.growth(report.Kept(grown(report)), None))

    assert "| 999,993 | 0.416 (0.832) s | 10.0 | too short to tell | 0.50 GiB |" in text
    assert "| 9,999,993 | 4.33 (8.65) s | 10.0 | 10.4 | 0.50 GiB |" in text
    assert "with the same bytes as the uninterrupted" in text.replace("\n", " ")


def test_the_aims_are_met_or_missed_by_the_lines(load):
    report = load("report")
    step = {"table": "speed", "best_ms": 24.0, "worst_ms": 30.0, "row": "ours, within"}
    lines = [*grown(report), *kept({**step, "dataset": "cora"}, {**step, "dataset": "pubmed", "best_ms": 51.0})]
    for line in lines:
        if line["row"] == report.BUILD and line["drawn"] == 10**8:
            line["worst_s"] *= 11.5 / 10.4
    lines += kept(timed("rae fit", 17.0, table="peers", dataset="web-Google", peak_mb=1600, file="peers"))
    for row, seconds in (("rae fit, first", 1.5), ("RAE().fit, first", 2.5), ("rae fit, second", 0.0)):
        lines += kept(timed(row, 9.0, table="first", dataset="34 nodes", compile_s=seconds))
    lines += kept(timed("rae fit, first after RAE_COMPILE=0", 9.0, table="first", dataset="34 nodes", compile_s=8.0))
    found = {aim.what: (aim.shown, aim.met) for aim in report.aims(report.Kept(lines))}

    assert found["training step, Cora, one thread"] == ("24.0 ms", True)
    assert found["training step, Pubmed, one thread"] == ("51.0 ms", False)
    assert found["web-Google, gzipped text to 256 columns in Parquet, `rae fit`"] == ("17.0 s", True)
    assert found["the same, peak memory"] == ("1.6 GB", False)
    assert found["100 M edges, graph folder built, with the start of the process"] == ("46.5 s", True)
    assert found["100 M edges, embedded at 256 columns and written, with the start of the process"] == ("226.5 s", True)
    growth = "growth: seconds for ten times the edges, best by best, the steepest of all parts"
    assert found[growth] == ("10.4 times (worst by worst 11.5)", True)
    assert found["sampler, web-Google, one thread"] == ("not measured", False)
    assert found["first fit after `pip install .`: compiling"] == ("2.5 s", False)
    assert found["second fit after `pip install .`: compiling"] == ("0.0 s", True)


def test_the_bounded_way_on_the_largest_graph_comes_from_the_growth_table(load):
    report = load("report")
    lines = [*grown(report), *kept(timed("embedding_bag", 60.0, dataset=report.LARGEST))]
    page = report.page(report.Kept(lines), None)

    assert "| **ours, --memory 4GiB** | 1 | 225.0 (449.9) s | 2.28e+08 | 2.50 GiB |" in page


def test_same_lines_same_bytes_page_and_figure(load, tmp_path):
    report = load("report")
    results = tmp_path / "results"
    results.mkdir()
    (results / "growth.jsonl").write_text("".join(json.dumps(x) + "\n" for x in grown(report)))
    pages = [report.publish(results, tmp_path / name) for name in ("a", "b")]

    assert pages[0].read_bytes() == pages[1].read_bytes()
    assert "figures/growth.png" in pages[0].read_text()
    drawn = [[(page.parent / "figures" / f"growth.{kind}").read_bytes() for kind in ("png", "svg")] for page in pages]
    assert drawn[0] == drawn[1]


def test_a_page_without_lines_says_so(load, tmp_path):
    text = load("report").publish(tmp_path, tmp_path).read_text()

    assert text.count("Not measured yet.") >= 5
    assert not (tmp_path / "figures").exists()


# --------------------------------------------------------------------------------------- growth


def test_a_call_is_timed_by_itself_and_what_its_process_takes_to_start_is_the_best_of_three(
    load, tmp_path, monkeypatch
):
    growth = load("growth")
    seconds = iter([9.0, 8.0, 7.0, 2.0, 3.0, 4.0, 5.0, 6.0, 1.0])
    monkeypatch.setattr(growth, "watch", lambda command, **_: growth.Spent(next(seconds), 0.5, None, ""))
    start = growth.starting(tmp_path, "1GiB", 1)
    assert [start[part].seconds for part in growth.PARTS] == [2.0, 3.0, 1.0]

    rae.write_graph(tmp_path / "graph", rae.Graph.from_edges([(0, 1), (1, 2)]))
    runs = [growth.Spent(9.0, peak, None, f'{{"seconds": {own}}}') for own, peak in ((3.0, 0.7), (2.5, 0.8))]
    line = growth.line(growth.BUILD, runs, start[growth.BUILD], 20, tmp_path / "graph")
    found = (line["best_s"], line["worst_s"], line["start_s"], line["peak_gib"], line["edges"])
    assert found == (2.5, 3.0, 2.0, 0.8, 2)


# ------------------------------------------------------------------------------- all of them


def test_a_failing_step_is_named_and_the_others_go_on(load, tmp_path, monkeypatch, capfd):
    run = load("run")
    for name, code in (("breaks", "raise SystemExit(3)"), ("works", "print('measured')")):
        (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.setattr(run, "HERE", tmp_path)
    steps = [run.Step("breaks", 1, ((), ("--again",))), run.Step("absent", 1), run.Step("works", 1)]

    assert run.run(steps, False, tmp_path, None) == ["breaks"]
    out = capfd.readouterr().out
    assert "absent: left out, there is no such script" in out
    assert "measured" in out


def test_a_step_that_judges_vectors_is_left_alone_where_its_lines_are_kept(load, tmp_path, monkeypatch):
    run = load("run")
    monkeypatch.setattr(run, "RESULTS", tmp_path)
    step = next(step for step in run.STEPS if step.name == "roles")
    assert run.skipped(step, quick=False, named=False) is None
    (tmp_path / "roles.jsonl").write_text("{}\n")

    assert "has its lines" in run.skipped(step, quick=False, named=False)
    assert run.skipped(step, quick=False, named=True) is None
    assert run.skipped(step, quick=True, named=False) is None


def test_a_step_that_needs_data_is_left_out_of_a_trial_without_it(load, monkeypatch):
    run = load("run")
    peers = next(step for step in run.STEPS if step.name == "peers")
    monkeypatch.delenv("RAE_DATA", raising=False)
    assert run.skipped(peers, quick=True, named=False) == "RAE_DATA is not set"
    assert run.skipped(run.STEPS[0], quick=True, named=False) == "it measures nothing"

    monkeypatch.setenv("RAE_DATA", "somewhere")
    assert run.skipped(peers, quick=True, named=False) is None


def test_every_benchmark_runs_on_small_sizes_and_touches_nothing_that_is_kept(load):
    """Those of test_benchmarks_peers.py aside."""
    first = ("growth", "large", "explore", "planned", "first")
    last = ("speed", "embedding", "whole", "roles", "baselines", "variants")
    assert {*first, *last} == {step.name for step in load("run").STEPS} - {"alternatives", "build", "peers"}
    kept_files = [*(ROOT / "results").glob("*"), ROOT / "docs" / "performance.md"]
    before = {path: path.read_bytes() for path in kept_files}
    said = {}
    for names in (first, last):
        command = [sys.executable, HERE / "run.py", "--quick", *(word for name in names for word in ("--only", name))]
        work = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=quietly())
        said[names] = work
    for names, work in said.items():
        text, _ = work.communicate()
        assert work.returncode == 0, text
        assert all(f"== {name}: " in text for name in names)
        assert ("same bytes: True" in text) == ("large" in names)
    assert {path: path.read_bytes() for path in kept_files} == before
