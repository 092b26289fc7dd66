"""--memory, --half and --dtype: what they write, what they refuse, and what a kill -9 cannot change."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from plain import random_graph
from rae import RAE, Config, Graph, Run, read_embeddings, write_embeddings
from rae.cli.console import Console
from rae.cli.fit import MIB, warn_of_memory
from rae.cli.inputs import Inputs
from rae.cli.memory_options import Bounds
from rae.cli.program import main
from rae.cli.resume import Beside, made_of
from rae.engine import memory_bytes
from rae.engine.layout import PROGRAM
from rae.graph.folder import open_graph, write_graph
from rae.io.embeddings import GROUP_BYTES
from rae.plan import least_budget

HELD = 600_000_000  # bytes that a process is told to hold already

SMALL = ["--dims", "24,8", "--fanout", "3,3", "--steps", "2", "--batch-size", "64"]
# What the process may take: room for a few MB of data, so that parts are as small as they get.
TIGHT = str(PROGRAM + 3 * GROUP_BYTES + (4 << 20))
# As `rae` does it, but killed, as by kill -9, in the middle of writing its n-th part.
DYING = """
import os, signal, sys
from rae.cli.program import main
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
sys.exit(main(sys.argv[2:]))
"""

# As `rae` does it, but killed at a moment that the first argument, a line of Python, chooses.
KILLED = """
import os, signal, sys
from pathlib import Path
import rae.cli.resume, rae.storage.atomic, rae.graph.folder, rae.storage.parts
from rae.cli.program import main

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def before(owner, name, chosen):
    real = getattr(owner, name)
    setattr(owner, name, lambda *given: die() if chosen(*given) else real(*given))

exec(sys.argv[1])
sys.exit(main(sys.argv[2:]))
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    graph = random_graph(9000, 30_000, seed=1)
    ends = np.repeat(np.arange(9000), graph.degrees)
    np.savetxt("edges.csv", np.stack([ends, graph.targets], 1), "%d", ",")
    RAE(dims=(24, 8), fanout=(3, 3), steps=0).fit(graph).save("model.safetensors")
    return tmp_path


def test_a_command_killed_in_the_middle_goes_on_and_gives_the_same_bytes(here):
    command = ["embed", "model.safetensors", "edges.csv", "--threads", "1", "--memory", TIGHT, "--out"]
    assert main([*command, "whole.parquet"]) == 0
    assert main(["embed", "model.safetensors", "edges.csv", "--out", "plain.parquet"]) == 0

    dead = subprocess.run([sys.executable, "-c", DYING, "7", *command, "z.parquet"], capture_output=True)

    assert dead.returncode == -signal.SIGKILL, dead.stderr.decode()
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


def test_a_run_fitted_within_a_budget_is_the_run_fitted_without(here):
    rest = [*SMALL, "--no-page", "--quiet"]
    assert main(["fit", "edges.csv", "--out", "plain", *rest]) == 0
    assert main(["fit", "edges.csv", "--out", "tight", "--memory", TIGHT, *rest]) == 0

    plain, tight = Run.open("plain"), Run.open("tight")
    assert (tight.path / "embeddings.parquet").read_bytes() == (plain.path / "embeddings.parquet").read_bytes()
    assert tight.counts == plain.counts
    assert sorted(p.name for p in here.iterdir()) == ["edges.csv", "model.safetensors", "plain", "tight"]


def test_a_fit_killed_while_it_embeds_goes_on_with_the_parts_beside_its_folder(here, capsys):
    command = ["fit", "edges.csv", *SMALL, "--no-page", "--threads", "1", "--verbose", "--out"]
    assert main([*command, "plain"]) == 0
    within = ["run", "--memory", TIGHT]

    dead = subprocess.run([sys.executable, "-c", DYING, "7", *command, *within], capture_output=True)

    assert dead.returncode == -signal.SIGKILL, dead.stderr.decode()
    assert len(list((here / ".run.parquet.parts").glob("*.part"))) == 6
    capsys.readouterr()
    assert main([*command, *within]) == 0
    assert "continuing with the parts in" in capsys.readouterr().err
    assert (here / "run" / "embeddings.parquet").read_bytes() == (here / "plain" / "embeddings.parquet").read_bytes()
    assert sorted(p.name for p in here.iterdir()) == ["edges.csv", "model.safetensors", "plain", "run"]


def test_a_fit_killed_while_it_keeps_its_graph_has_embedded_nothing_yet(here):
    command = ["fit", "edges.csv", *SMALL, "--no-page", "--memory", TIGHT, "--out", "run"]

    dead = subprocess.run([sys.executable, "-c", KILLED, "rae.graph.folder.write_graph = die", *command])

    assert dead.returncode == -signal.SIGKILL
    assert sorted(p.name for p in here.iterdir()) == ["edges.csv", "model.safetensors", "run"]
    assert main(command) == 0


@pytest.mark.parametrize(
    "moment",
    [
        "rae.storage.parts.Parts.remove = die",
        "before(rae.storage.atomic, 'write_json', lambda path, value: path.name == 'run.json')",
        "before(Path, 'replace', lambda old, new: Path(new).parent.name == 'run' and old.name == 'embeddings.parquet')",
        "before(Path, 'replace', lambda old, new: Path(new).parent.name == 'run' and old.name == 'run.json')",
        "rae.cli.resume.Beside.remove = die",
    ],
)
def test_finished_vectors_are_not_made_again_whenever_a_fit_is_killed(here, monkeypatch, moment):
    command = ["fit", "edges.csv", *SMALL, "--no-page", "--force", "--out"]
    assert main([*command, "plain"]) == 0
    within = ["run", "--memory", TIGHT]

    dead = subprocess.run([sys.executable, "-c", KILLED, moment, *command, *within], capture_output=True)

    assert dead.returncode == -signal.SIGKILL, dead.stderr.decode()
    assert (here / ".run.parquet").is_file()
    monkeypatch.setattr("rae.estimator.embed_to", lambda *_, **__: pytest.fail("embedded again"))
    assert main([*command, *within]) == 0
    assert (here / "run" / "embeddings.parquet").read_bytes() == (here / "plain" / "embeddings.parquet").read_bytes()
    assert sorted(p.name for p in here.iterdir()) == ["edges.csv", "model.safetensors", "plain", "run"]
    assert all(not p.name.startswith(".") for p in (here / "run").iterdir())


# ------------------------------------------------------------------- vectors beside the run folder


@pytest.fixture
def beside(tmp_path):
    return Beside(tmp_path / "run")


def vectors(of):
    return lambda path: write_embeddings(path, pa.array(["a", "b"]), np.full((2, 3), of, np.float32))


def found(path):
    return float(read_embeddings(path)[1][0, 0])


def test_vectors_of_something_else_are_made_anew(tmp_path, beside):
    for n, about in enumerate([{"model": "1"}, {"model": "1"}, {"model": "2"}, {"model": "1"}]):
        assert beside.put(tmp_path / f"{n}.parquet", about, vectors(n)) == 3

    assert [found(tmp_path / f"{n}.parquet") for n in range(4)] == [0, 0, 2, 3]
    beside.remove()
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


@pytest.mark.parametrize("note", [None, "{", "[1]"])
def test_vectors_without_a_sound_note_are_made_anew(tmp_path, beside, note):
    beside.put(tmp_path / "0.parquet", {"model": "1"}, vectors(0))
    beside.note.unlink() if note is None else beside.note.write_text(note)
    beside.put(tmp_path / "1.parquet", {"model": "1"}, vectors(1))

    assert found(tmp_path / "1.parquet") == 1


def test_vectors_that_fail_leave_neither_a_note_nor_those_before(tmp_path, beside):
    beside.put(tmp_path / "0.parquet", {"model": "1"}, vectors(0))
    with pytest.raises(ZeroDivisionError):
        beside.put(tmp_path / "1.parquet", {"model": "2"}, lambda path: 1 // 0)

    assert [p.name for p in tmp_path.iterdir()] == ["0.parquet"]


def test_where_a_file_has_one_name_only_it_is_moved(tmp_path, beside, monkeypatch):
    def refuse(self, target):
        raise OSError("no links here")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    assert beside.put(tmp_path / "0.parquet", {"model": "1"}, vectors(7)) == 3

    assert found(tmp_path / "0.parquet") == 7
    assert not beside.vectors.exists()


def test_what_vectors_depend_on_tells_any_two_of_them_apart():
    graph = Graph.from_edges([("a", "b"), ("b", "c")])
    other = Graph.from_edges([("a", "b"), ("a", "c")])
    renamed = Graph.from_edges([("a", "b"), ("b", "d")])
    x, y = np.ones((3, 2), np.float32), np.zeros((3, 2), np.float32)
    plain = Bounds("1GiB")
    told = [
        made_of(graph, None, Config(), "1", plain),
        made_of(other, None, Config(), "1", plain),
        made_of(renamed, None, Config(), "1", plain),
        made_of(graph, x, Config(), "1", plain),
        made_of(graph, y, Config(), "1", plain),
        made_of(graph, None, Config(), "2", plain),
        made_of(graph, None, Config(), "1", Bounds("1GiB", half=True)),
        made_of(graph, None, Config(), "1", Bounds("1GiB", dtype="float16")),
    ]

    assert len({json.dumps(about) for about in told}) == len(told)
    again = Graph.from_edges([("a", "b"), ("b", "c")])
    assert made_of(again, None, Config(), "1", Bounds("2GiB")) == told[0]  # any budget gives the same bytes


# ------------------------------------------------------------------------------ what is advised


@pytest.fixture(scope="module")
def large():
    """A graph large enough for a budget to be of use; its vectors are never made."""
    n = 1_000_000
    return Inputs(Graph.from_edges((np.arange(n), (np.arange(n) + 1) % n)), None, {}, 0.0)


@pytest.fixture
def advice(capsys, monkeypatch):
    def ask(inputs, bounds, room, **settings):
        monkeypatch.setattr("rae.plan.available_memory", lambda root: room - HELD)
        monkeypatch.setattr("rae.plan._resident", lambda root: HELD)
        warn_of_memory(inputs, Config(**{"steps": 0} | settings), bounds, Console())
        return capsys.readouterr().err

    return ask


@pytest.mark.parametrize("room", [865, 890, 960, 1000])
@pytest.mark.parametrize("memory", [None, "1GiB"])
def test_a_budget_that_is_advised_is_taken_and_fits(advice, large, room, memory):
    told = advice(large, Bounds(memory), room * 1_000_000)
    advised = re.search(r"; pass --memory (\d+MiB)\n", told)

    assert advised, told
    assert memory_bytes(advised[1]) < memory_bytes(memory or "1GiB")
    assert advice(large, Bounds(advised[1]), room * 1_000_000) == ""


def test_where_only_half_precision_fits_it_is_advised_too(advice, large):
    room = -(-least_budget(large.graph, None, Config(), half=True) // MIB) * MIB
    least = f"--memory {room // MIB}MiB"

    assert f"; pass {least} --half\n" in advice(large, Bounds(), room)
    assert f"; pass {least}\n" in advice(large, Bounds("2GiB", half=True), room)
    assert advice(large, Bounds(f"{room // MIB}MiB", half=True), room) == ""


def test_where_no_budget_fits_that_is_said_and_what_would(advice, large, tmp_path):
    room = least_budget(large.graph, None, Config(), half=True) - 1
    write_graph(tmp_path / "g", large.graph)
    opened = Inputs(open_graph(tmp_path / "g"), None, {}, 0.0)
    with_features = Inputs(large.graph, np.zeros((large.graph.n_nodes, 32), np.float32), {}, 0.0)

    told = advice(large, Bounds(), room)
    assert f"no --memory makes it fit, the least is {-(-room // MIB)} MiB, with --half; free some memory, or" in told
    assert told.endswith("or give EDGES as a graph folder (`rae graph build`)\n")
    assert re.search(r"; pass --memory \d+MiB\n", advice(opened, Bounds(), room))  # which is true
    assert "program, graph and features take 748 MB; free some memory\n" in advice(large, Bounds(), 650_000_000)
    assert advice(with_features, Bounds(), HELD).endswith("; free some memory, or give fewer columns\n")


def test_where_training_does_not_fit_a_smaller_batch_is_advised(advice, large):
    told = advice(large, Bounds("4GiB"), 900_000_000, steps=1, batch_size=100_000)

    assert told.endswith("; pass a smaller --batch-size\n")


def test_a_fit_refuses_a_budget_before_it_trains(here, capsys, monkeypatch):
    monkeypatch.setattr("rae.estimator.fit", lambda *_: pytest.fail("trained"))

    assert main(["fit", "edges.csv", "--out", "run", "--memory", "100MB", *SMALL]) == 2
    assert "memory must be 0." in capsys.readouterr().err
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
        (["--memory", "lots"], "memory must be a size such as 4GiB or 500MB, got 'lots'"),
        (["--memory", "100MB"], "memory must be 0."),
    ],
)
def test_a_mistaken_budget_is_one_sentence(here, capsys, flags, words):
    assert main(["embed", "model.safetensors", "edges.csv", "--out", "z.parquet", *flags]) == 2

    assert words in capsys.readouterr().err
    assert not (here / "z.parquet").exists()
    assert not (here / "z.parquet.parts").exists()
