"""`rae update` as a user calls it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from rae import Run
from rae import updater as updates


@pytest.fixture
def here(tmp_path, monkeypatch, rae):
    monkeypatch.chdir(tmp_path)
    edges = [(f"u{i}", f"u{(7 * i + j) % 40}") for i in range(40) for j in (1, 3)]
    (tmp_path / "edges.csv").write_text("caller,called\n" + "".join(f"{u},{v}\n" for u, v in edges if u != v))
    (tmp_path / "today.csv").write_text("caller,called\nu0,newcomer\nnewcomer,u9\n")
    (tmp_path / "gone.csv").write_text("caller,called\nu1,u0\n")
    rae("fit", "edges.csv", "--no-page", "--quiet")
    return tmp_path


def test_edges_come_and_go(here, rae):
    run = Run.open("runs/edges")
    first = run.graph().neighbors(0)[0]
    (here / "gone.csv").write_text(f"caller,called\nu0,{run.graph().ids[first]}\n")
    code, out, _ = rae("update", "runs/edges", "--add", "today.csv", "--remove", "gone.csv", "--quiet")
    assert code == 0
    assert "2 added, 1 removed; 0 were there already" in out
    assert "1 new; 41 in all" in out
    assert "update 1 of runs/edges, folded in" in out
    ids, z = Run.open("runs/edges").embeddings()
    assert ids.to_pylist()[-1] == "newcomer"
    full = run.model().transform(run.graph(), units="fit")
    assert np.array_equal(z.view(np.int32), full.view(np.int32))
    assert "after update 1" in rae("info", "runs/edges")[1]


def test_json_and_folding(here, rae, monkeypatch):
    monkeypatch.setattr(updates, "FOLD_NUMBERS", 0)
    code, out, _ = rae("update", "runs/edges", "--add", "today.csv", "--no-fold", "--json")
    data = json.loads(out)
    assert code == 0
    assert (data["added"], data["new_nodes"], data["update"], data["counts"]["nodes"]) == (2, 1, 1, 41)
    assert data["moved"] == len(data["ids"]) or data["in_full"]
    code, out, _ = rae("update", "runs/edges", "--fold", "--json")
    assert json.loads(out)["update"] == 1
    assert (here / "runs/edges/embeddings.parquet").is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--remove", "gone.csv"], "edges to remove are not in the graph, first 'u1' to 'u0'"),
        (["--add", "nothing.csv"], "nothing.csv"),
        (["--add", "today.csv", "--features", "today.csv"], "structure alone, got features"),
        (["--add", "today.csv", "--source", "who"], "who"),
    ],
)
def test_mistakes_are_one_sentence_and_change_nothing(here, rae, arguments, message):
    run = Run.open("runs/edges")
    if run.graph().adjacent([run.graph().rows(["u0"])[0]], [run.graph().rows(["u1"])[0]])[0]:
        (here / "gone.csv").write_text("caller,called\nu1,nobody\n")
        message = message.replace("'u0'", "'nobody'")
    code, out, err = rae("update", "runs/edges", *arguments, "--quiet")
    assert code == 2
    assert message in err
    assert not out
    assert run.counts["nodes"] == 40
