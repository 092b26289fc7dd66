"""--memory, --half and --dtype: what they write, what they refuse, and what a kill -9 cannot change."""

from __future__ import annotations

import signal
import subprocess
import sys

import numpy as np
import pytest

from plain import random_graph
from rae import RAE, Run, read_embeddings
from rae.cli.program import main
from rae.inference.layout import PROGRAM
from rae.io.embeddings import GROUP_BYTES

SMALL = ["--dims", "24,8", "--fanout", "3,3", "--steps", "2", "--batch-size", "64"]
# What the process may take: room for a few MB of data, so that parts are as small as they get.
TIGHT = str(PROGRAM + 3 * GROUP_BYTES + (4 << 20))
# As `rae` does it, but killed, as by kill -9, in the middle of writing its n-th part.
DYING = """
import os, signal, sys
from rae.cli.program import main
from rae.io import parts

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
