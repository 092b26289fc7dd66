"""--memory, --half and --dtype: the same bytes within a budget, after a kill, from Python; advice and refusals."""

from __future__ import annotations

import json
import re
import shutil
import signal
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from elsewhere import exit_code
from plain import random_graph
from rae import RAE, Config, Graph, Run, fit_run, read_embeddings, write_embeddings
from rae.cli.fit import fit
from rae.cli.flags import in_flags
from rae.cli.program import main
from rae.engine import memory_bytes
from rae.engine.layout import PROGRAM
from rae.errors import ConfigError, MemoryWarning
from rae.graph.folder import open_graph, write_graph
from rae.inputs import Inputs
from rae.io.embeddings import GROUP_BYTES
from rae.pipeline import MIB, warn_of_memory
from rae.plan import least_budget
from rae.resume import VectorCache, vectors_key

RESIDENT = 600_000_000  # bytes that the process is said to have already

SMALL = ["--dims", "24,8", "--fanout", "3,3", "--steps", "2", "--batch-size", "64"]
CONFIG = Config(dims=(24, 8), fanout=(3, 3), steps=2, batch_size=64)
# What the process may take: room for a few MB of data, so that parts are as small as they get.
TIGHT = str(PROGRAM + 3 * GROUP_BYTES + (4 << 20))
# The Python call that SMALL and the other flags of these tests stand for; run in a process of its own.
CALL = """
import sys
from rae import Config, fit_run
def call(edges, out, memory):
    config = Config(dims=(24, 8), fanout=(3, 3), steps=2, batch_size=64)
    fit_run(edges, out=out, config=config, memory=memory, page=False, force=True)
    return 0
"""
# The last line of a program: the command line, or the Python call.
COMMAND, PYTHON = "from rae.cli.program import main; sys.exit(main(sys.argv[2:]))", "sys.exit(call(*sys.argv[2:]))"
# The program, killed by SIGKILL in the middle of writing its n-th part.
KILLED_WHILE_WRITING = """
import os, signal, sys
from rae.storage import parts

real, count = parts._write_all, 0

def write(file, data):
    global count
    count += 1
    if count == 2 * int(sys.argv[1]) - 1:
        real(file, data[: len(data) // 2])
        os.kill(os.getpid(), signal.SIGKILL)
    real(file, data)

parts._write_all = write
"""

# The program, killed at a moment that the first argument, a line of Python, chooses.
KILLED_AT = """
import os, signal, sys
from pathlib import Path
import rae.resume, rae.storage.atomic, rae.graph.folder, rae.storage.parts

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def before(owner, name, chosen):
    real = getattr(owner, name)
    setattr(owner, name, lambda *given: die() if chosen(*given) else real(*given))

exec(sys.argv[1])
"""


def run_killed(setup, moment, words, *, python=False):
    """Run a fit (or with words of another command, that) which is killed at a moment; it must die of that."""
    program = f"{CALL}{setup}{PYTHON if python else COMMAND}"
    assert exit_code(program, str(moment), *words) == -signal.SIGKILL


@pytest.fixture(scope="module")
def finished_folder(tmp_path_factory):
    """A folder with edges, a model, and a run of them that was fitted without a budget."""
    folder = tmp_path_factory.mktemp("made")
    graph = random_graph(9000, 30_000, seed=1)
    ends = np.repeat(np.arange(9000), graph.degrees)
    np.savetxt(folder / "edges.csv", np.stack([ends, graph.targets], 1), "%d", ",")
    RAE(dims=(24, 8), fanout=(3, 3), steps=0).fit(graph).save(folder / "model.safetensors")
    assert main(["fit", str(folder / "edges.csv"), *SMALL, "--no-page", "--quiet", "--out", str(folder / "plain")]) == 0
    return folder


@pytest.fixture
def here(tmp_path, monkeypatch, finished_folder):
    monkeypatch.chdir(tmp_path)
    for name in ("edges.csv", "model.safetensors"):
        shutil.copy(finished_folder / name, name)
    return tmp_path


@pytest.fixture
def plain(here, finished_folder):
    """The run that was fitted without a budget, beside the edges."""
    shutil.copytree(finished_folder / "plain", "plain")
    return here / "plain"


def test_a_command_killed_in_the_middle_goes_on_and_gives_the_same_bytes(here):
    command = ["embed", "model.safetensors", "edges.csv", "--threads", "1", "--memory", TIGHT, "--out"]
    assert main([*command, "whole.parquet"]) == 0
    assert main(["embed", "model.safetensors", "edges.csv", "--out", "plain.parquet"]) == 0

    run_killed(KILLED_WHILE_WRITING, 7, [*command, "z.parquet"])

    assert not (here / "z.parquet").exists()
    left = sorted(p.name for p in (here / "z.parquet.parts").glob("*.part"))
    assert len(left) == 6
    assert "within-1-vectors-00000.part" in left
    assert main([*command, "z.parquet"]) == 0
    assert (here / "z.parquet").read_bytes() == (here / "whole.parquet").read_bytes()
    assert (here / "z.parquet").read_bytes() == (here / "plain.parquet").read_bytes()
    assert sorted(p.name for p in here.iterdir()) == [
        "edges.csv", "model.safetensors", "plain.parquet", "whole.parquet", "z.parquet"
    ]  # fmt: skip


def test_a_run_fitted_within_a_budget_is_the_run_fitted_without(here, plain):
    assert main(["fit", "edges.csv", "--out", "tight", "--memory", TIGHT, *SMALL, "--no-page", "--quiet"]) == 0

    plain, tight = Run.open(plain), Run.open("tight")
    assert (tight.path / "embeddings.parquet").read_bytes() == (plain.path / "embeddings.parquet").read_bytes()
    assert tight.counts == plain.counts
    assert sorted(p.name for p in here.iterdir()) == ["edges.csv", "model.safetensors", "plain", "tight"]


@pytest.mark.parametrize("python", [False, True], ids=["command", "python"])
def test_a_fit_killed_while_it_embeds_resumes_with_the_parts_beside_its_folder(
    here, plain, caplog, monkeypatch, python
):
    monkeypatch.setenv("RAE_THREADS", "1")
    command = ["fit", "edges.csv", *SMALL, "--no-page", "--threads", "1", "--verbose", "--out"]
    within = ["run", "--memory", TIGHT]

    run_killed(KILLED_WHILE_WRITING, 7, ["edges.csv", "run", TIGHT] if python else [*command, *within], python=python)

    assert len(list((here / ".run.parquet.parts").glob("*.part"))) == 6
    caplog.set_level("INFO", "rae")
    caplog.clear()
    if python:
        fit_run("edges.csv", out="run", config=CONFIG, memory=TIGHT, page=False)
    else:
        assert main([*command, *within]) == 0
    assert "resuming with the parts in" in caplog.text
    assert (here / "run" / "embeddings.parquet").read_bytes() == (plain / "embeddings.parquet").read_bytes()
    assert sorted(p.name for p in here.iterdir()) == ["edges.csv", "model.safetensors", "plain", "run"]


def test_a_fit_killed_while_it_keeps_its_graph_has_embedded_nothing_yet(here):
    command = ["fit", "edges.csv", *SMALL, "--no-page", "--memory", TIGHT, "--out", "run"]

    run_killed(KILLED_AT, "rae.graph.folder.write_graph = die", command)

    assert sorted(p.name for p in here.iterdir()) == ["edges.csv", "model.safetensors", "run"]
    assert main(command) == 0


WHOLE_RUN_WRITTEN = "rae.resume.VectorCache.remove = die"


@pytest.mark.parametrize(
    ("moment", "python"),
    [
        ("rae.storage.parts.Parts.remove = die", True),
        ("before(rae.storage.atomic, 'write_json', lambda path, value: path.name == 'run.json')", True),
        ("before(Path, 'replace', lambda old, new: Path(new).parent.name == 'run' and old.suffix == '.parquet')", True),
        ("before(Path, 'replace', lambda old, new: Path(new).parent.name == 'run' and old.name == 'run.json')", True),
        (WHOLE_RUN_WRITTEN, True),
        (WHOLE_RUN_WRITTEN, False),
    ],
    ids=["parts-removed", "info-written", "vectors-moved", "info-moved", "run-written", "run-written-by-command"],
)
def test_finished_vectors_are_not_computed_again_whenever_a_fit_is_killed(here, plain, monkeypatch, moment, python):
    command = ["fit", "edges.csv", *SMALL, "--no-page", "--force", "--out"]
    within = ["run", "--memory", TIGHT]

    run_killed(KILLED_AT, moment, ["edges.csv", "run", TIGHT] if python else [*command, *within], python=python)

    assert (here / ".run.parquet").is_file()
    monkeypatch.setattr("rae.estimator.RAE.embed_to", lambda *_, **__: pytest.fail("embedded again"))
    if python:
        fit_run("edges.csv", out="run", config=CONFIG, memory=TIGHT, page=False, force=True)
    else:
        assert main([*command, *within]) == 0
    assert (here / "run" / "embeddings.parquet").read_bytes() == (plain / "embeddings.parquet").read_bytes()
    assert sorted(p.name for p in here.iterdir()) == ["edges.csv", "model.safetensors", "plain", "run"]
    assert all(not p.name.startswith(".") for p in (here / "run").iterdir())


# ------------------------------------------------------------------- the cache of finished vectors


@pytest.fixture
def cache(tmp_path):
    return VectorCache(tmp_path / "run")


def embed(value):
    return lambda path: write_embeddings(path, pa.array(["a", "b"]), np.full((2, 3), value, np.float32))


def first_value(path):
    return float(read_embeddings(path)[1][0, 0])


def test_cached_vectors_of_another_key_are_computed_again(tmp_path, cache):
    for n, key in enumerate([{"model": "1"}, {"model": "1"}, {"model": "2"}, {"model": "1"}]):
        assert cache.write(tmp_path / f"{n}.parquet", key, embed(n)) == 3

    assert [first_value(tmp_path / f"{n}.parquet") for n in range(4)] == [0, 0, 2, 3]
    cache.remove()
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


@pytest.mark.parametrize("text", [None, "{", "[1]"])
def test_cached_vectors_without_a_verified_key_are_computed_again(tmp_path, cache, text):
    cache.write(tmp_path / "0.parquet", {"model": "1"}, embed(0))
    cache.key_file.unlink() if text is None else cache.key_file.write_text(text)
    cache.write(tmp_path / "1.parquet", {"model": "1"}, embed(1))

    assert first_value(tmp_path / "1.parquet") == 1


def test_vectors_that_fail_leave_neither_a_key_nor_the_vectors_before(tmp_path, cache):
    cache.write(tmp_path / "0.parquet", {"model": "1"}, embed(0))
    with pytest.raises(ZeroDivisionError):
        cache.write(tmp_path / "1.parquet", {"model": "2"}, lambda path: 1 // 0)

    assert [p.name for p in tmp_path.iterdir()] == ["0.parquet"]


def test_where_the_disk_has_no_hard_links_the_vectors_are_moved(tmp_path, cache, monkeypatch):
    def refuse(self, target):
        raise OSError("no links here")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    assert cache.write(tmp_path / "0.parquet", {"model": "1"}, embed(7)) == 3

    assert first_value(tmp_path / "0.parquet") == 7
    assert not cache.vectors.exists()


def test_the_key_differs_where_any_input_of_the_vectors_differs():
    graph = Graph.from_edges([("a", "b"), ("b", "c")])
    other = Graph.from_edges([("a", "b"), ("a", "c")])
    renamed = Graph.from_edges([("a", "b"), ("b", "d")])
    x, y = np.ones((3, 2), np.float32), np.zeros((3, 2), np.float32)
    keys = [
        vectors_key(graph, None, "1"),
        vectors_key(other, None, "1"),
        vectors_key(renamed, None, "1"),
        vectors_key(graph, x, "1"),
        vectors_key(graph, y, "1"),
        vectors_key(graph, None, "2"),
        vectors_key(graph, None, "1", half=True),
        vectors_key(graph, None, "1", dtype="float16"),
    ]

    assert len({json.dumps(key) for key in keys}) == len(keys)
    again = Graph.from_edges([("a", "b"), ("b", "c")])
    assert vectors_key(again, None, "1") == keys[0]


# ------------------------------------------------------------------------------ what is advised


@pytest.fixture(scope="module")
def large():
    """A graph large enough for a budget to be of use; its vectors are never computed."""
    n = 1_000_000
    return Inputs(Graph.from_edges((np.arange(n), (np.arange(n) + 1) % n)))


@pytest.fixture
def advice(monkeypatch):
    def ask(inputs, memory, room, *, half=False, **settings):
        """The warning of this fit with `room` bytes of memory, as the command line writes it; "" for none."""
        monkeypatch.setattr("rae.plan.available_memory", lambda root: room - RESIDENT)
        monkeypatch.setattr("rae.plan._resident", lambda root: RESIDENT)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warn_of_memory(inputs, Config(**{"steps": 0} | settings), memory=memory, half=half)
        caught = [w for w in caught if "is enough, but slow" not in str(w.message)]
        assert [w.category for w in caught] in ([], [MemoryWarning])
        return "".join(in_flags(w.message, fit) for w in caught)

    return ask


@pytest.mark.parametrize("room", [865, 890, 960, 1000])
@pytest.mark.parametrize("memory", [None, "1GiB"])
def test_a_budget_that_is_advised_is_taken_and_fits(advice, large, room, memory):
    text = advice(large, memory, room * 1_000_000)
    advised = re.search(r"; pass --memory (\d+MiB)$", text)

    assert advised, text
    assert memory_bytes(advised[1]) < memory_bytes(memory or "1GiB")
    assert advice(large, advised[1], room * 1_000_000) == ""


def test_where_only_half_precision_fits_it_is_advised_too(advice, large):
    room = -(-least_budget(large.graph, None, Config(), half=True) // MIB) * MIB
    least = f"--memory {room // MIB}MiB"

    assert advice(large, None, room).endswith(f"; pass {least} --half")
    assert advice(large, "2GiB", room, half=True).endswith(f"; pass {least}")
    assert advice(large, f"{room // MIB}MiB", room, half=True) == ""


def test_where_no_budget_fits_that_is_said_and_what_would(advice, large, tmp_path):
    room = least_budget(large.graph, None, Config(), half=True) - 1
    write_graph(tmp_path / "g", large.graph)
    opened = Inputs(open_graph(tmp_path / "g"))
    with_features = Inputs(large.graph, np.zeros((large.graph.n_nodes, 32), np.float32))

    text = advice(large, None, room)
    assert f"no --memory makes it fit, the least is {-(-room // MIB)} MiB, with --half; free some memory, or" in text
    assert text.endswith("or give EDGES as a graph folder (`rae graph build`)")
    assert re.search(r"; pass --memory \d+MiB$", advice(opened, None, room))  # which is true
    assert advice(large, None, 650_000_000).endswith("program, graph and features take 748 MB; free some memory")
    assert advice(with_features, None, RESIDENT).endswith("; free some memory, or give fewer columns")


def test_where_training_does_not_fit_a_smaller_batch_is_advised(advice, large):
    text = advice(large, "4GiB", 900_000_000, steps=1, batch_size=100_000)

    assert text.endswith("; pass a smaller --batch-size")


def test_in_python_the_advice_names_arguments(large, monkeypatch):
    monkeypatch.setattr("rae.plan.available_memory", lambda root: 900_000_000 - RESIDENT)
    monkeypatch.setattr("rae.plan._resident", lambda root: RESIDENT)
    with pytest.warns(MemoryWarning, match=r"more memory and 300 MB is available; pass memory='\d+MiB'$"):
        warn_of_memory(large, Config(steps=0))
    with pytest.raises(ConfigError, match=r"^half=True is about rows kept on disk, which memory= asks for; pass both"):
        fit_run(large, out="run", half=True)


def test_a_fit_refuses_a_budget_before_it_trains(here, capsys, monkeypatch):
    monkeypatch.setattr("rae.estimator.RAE.fit", lambda *_, **__: pytest.fail("trained"))

    assert main(["fit", "edges.csv", "--out", "run", "--memory", "600MB", *SMALL]) == 2
    assert re.search(r"--memory must be 0\.\d\d GiB or more for .* nodes", capsys.readouterr().err)
    assert main(["fit", "no file", "--out", "run", "--memory", "10MiB", *SMALL]) == 2  # refused before it is read
    says = "--memory must be 0.56 GiB or more, which the program takes before any data, got 0.01 GiB"
    assert says in capsys.readouterr().err
    assert sorted(p.name for p in here.iterdir()) == ["edges.csv", "model.safetensors"]


@pytest.mark.parametrize("bounds", [[], ["--memory", "2GiB"], ["--memory", "2GiB", "--half"]])
def test_half_precision_files_are_near_and_half_as_large(here, bounds):
    assert main(["embed", "model.safetensors", "edges.csv", "--out", "z.parquet"]) == 0
    assert main(["embed", "model.safetensors", "edges.csv", "--out", "h.parquet", "--dtype", "float16", *bounds]) == 0
    assert main(["fit", "edges.csv", "--out", "run", *SMALL, "--no-page", "--dtype", "float16", *bounds]) == 0

    z, h = read_embeddings("z.parquet")[1], read_embeddings("h.parquet")[1]
    assert 0 < np.abs(z - h).max() < 2e-3
    sizes = [(here / name).stat().st_size for name in ("z.parquet", "h.parquet")]
    assert sizes[1] < 0.6 * sizes[0]
    assert Run.open("run").counts["width"] == 32
    assert np.isfinite(Run.open("run").embeddings()[1]).all()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--half"], "--half is about rows kept on disk, which --memory asks for; pass both"),
        (["--memory", "lots"], "--memory must be a size such as 4GiB or 500MB, got 'lots'"),
        (["--memory", "100MB"], "--memory must be 0."),
    ],
)
def test_a_mistaken_budget_is_one_sentence(here, capsys, flags, words):
    assert main(["embed", "model.safetensors", "edges.csv", "--out", "z.parquet", *flags]) == 2

    assert words in capsys.readouterr().err
    assert not (here / "z.parquet").exists()
    assert not (here / "z.parquet.parts").exists()
