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
    assert "2 added, 1 removed\n" in out
    assert "1 new; 41 in all" in out
    assert "update 1 of runs/edges, folded in" in out
    ids, z = Run.open("runs/edges").embeddings()
    assert ids.to_pylist()[-1] == "newcomer"
    full = run.model().transform(run.graph(), units="fit")
    assert np.array_equal(z.view(np.int32), full.view(np.int32))
    assert "after update 1" in rae("info", "runs/edges")[1]


def test_edges_without_a_known_end_are_said(here, rae):
    (here / "today.csv").write_text("caller,called\nu0,newcomer\nnewcomer,another\nfar,away\n")
    code, out, _ = rae("update", "runs/edges", "--add", "today.csv", "--quiet")
    assert code == 0
    assert "3 added, 0 removed; 2 have no end that was a node of the run\n" in out


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


# ------------------------------------------------------------------------------------- weights, directions, kinds


@pytest.fixture
def payments(tmp_path, monkeypatch, rae):
    monkeypatch.chdir(tmp_path)
    rows = [
        (f"u{i}", f"u{(7 * i + j) % 30}", 10 * j + i, "card" if i % 3 else "wire") for i in range(30) for j in (1, 3)
    ]
    text = "".join(f"{u},{v},{amount},{how}\n" for u, v, amount, how in rows if u != v)
    (tmp_path / "payments.csv").write_text("payer,payee,amount,how\n" + text)
    (tmp_path / "today.csv").write_text("payer,payee,amount,how\nu0,u1,5,wire\nnewcomer,u9,7,card\nu9,u2,0,card\n")
    (tmp_path / "gone.csv").write_text("payer,payee,how\nu0,u3,wire\n")
    flags = ("--weight", "amount", "--directed", "--kind", "how", "--source", "payer", "--target", "payee")
    assert rae("fit", "payments.csv", *flags, "--no-page", "--quiet")[0] == 0
    return tmp_path


def test_tomorrows_files_need_no_flags(payments, rae):
    run = Run.open("runs/payments")
    code, out, err = rae("update", "runs/payments", "--add", "today.csv", "--remove", "gone.csv")
    assert code == 0
    assert "1 added, 1 removed; 1 have another weight; 1 of weight 0 left out" in out
    assert "read as at the fit: --source payer --target payee --weight amount --directed --kind how" in err
    edges = {(row["source"], row["target"]): row for row in run.graph().to_arrow().to_pylist()}
    assert edges["u0", "u1"] == {"source": "u0", "target": "u1", "weight": 15.0, "kind": "wire"}  # 10 were there
    assert ("u0", "u3") not in edges
    assert edges["newcomer", "u9"]["weight"] == 7
    full = run.model().transform(run.graph(), units="fit")
    assert np.array_equal(run.embeddings()[1].view(np.int32), full.view(np.int32))
    code, out, err = rae("embed", "runs/payments", "payments.csv", "--out", "z.parquet")
    assert code == 0
    assert "read as at the fit: --source payer" in err
    code, _, err = rae("embed", "runs/payments/model.safetensors", "payments.csv", "--out", "y.parquet")
    assert code == 2
    assert "was fitted on edges that are directed, weighted, of kinds card, wire" in err


def test_a_file_whose_amounts_were_added_is_refused_until_it_is_meant(payments, rae):
    added = ("update", "runs/payments", "--add", "today.csv", "--quiet")
    assert rae(*added)[0] == 0
    before = Run.open("runs/payments").graph().to_arrow()
    header, *rows = (payments / "today.csv").read_text().splitlines()
    (payments / "today.csv").write_text("\n".join([header, *rows[::-1]]))  # the same rows
    code, _, err = rae(*added)
    assert (code, Run.open("runs/payments").n_updates) == (2, 1)
    assert "an earlier update added this table" in err
    assert "pass --again" in err
    assert Run.open("runs/payments").graph().to_arrow().equals(before)
    code, out, _ = rae(*added, "--again")
    assert code == 0
    assert "2 have another weight" in out
    (payments / "today.csv").write_text("\n".join([header, *rows, "u3,u4,1,card"]))  # one row more is another table
    assert rae(*added)[0] == 0
    assert rae("update", "runs/payments", "--add", "payments.csv", "--quiet", "--fold")[0] == 0
    assert rae("update", "runs/payments", "--add", "payments.csv", "--quiet")[0] == 2  # folding does not forget


def test_the_times_of_the_fit_do_not_choose_rows_of_other_files_and_that_is_said(here, rae):
    rows = "".join(f"u{i},u{(3 * i + 1) % 20},2026-10-{1 + i % 28:02}\n" for i in range(20))
    (here / "timed.csv").write_text(f"caller,called,at\n{rows}")
    flags = ("--time", "at", "--since", "2026-10-05", "--until", "2026-10-20")
    assert rae("fit", "timed.csv", *flags, "--no-page", "--quiet")[0] == 0
    (here / "later.csv").write_text("caller,called,at\nu1,u9,2026-11-01\nu2,u9,2026-09-01\n")
    for command in (("update", "runs/timed", "--add"), ("embed", "runs/timed", "--whole", "--out", "z.parquet")):
        code, _, err = rae(*command, "later.csv")
        assert code == 0
        assert "rows of all times are read" in err
        assert "give --since or --until to choose" in err
    code, out, err = rae("update", "runs/timed", "--add", "later.csv", "--since", "2026-10-05")
    assert (code, "all times" in err) == (0, False)
    assert "0 added" in out


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("u0,u1,-5,wire", "today.csv: --weight must hold finite numbers from 0 up, got -5 in line 2"),
        ("u0,u1,nan,wire", "got a missing one (NaN) in line 2"),
        ("u0,u1,inf,wire", "got inf in line 2"),
        ("u0,u1,much,wire", "--weight must hold numbers, got 'much' in line 2"),
        ("u0,u1,5,loan", "the kind 'loan' was not there when the model was fitted, its kinds are 'card', 'wire'"),
        ("u0,u1,5,", "--kind must be"),
        (",u1,5,wire", "today.csv"),
    ],
)
def test_rows_that_no_edge_can_have_are_one_sentence(payments, rae, row, message):
    (payments / "today.csv").write_text(f"payer,payee,amount,how\n{row}\n")
    code, _, err = rae("update", "runs/payments", "--add", "today.csv", "--quiet")
    assert (code, Run.open("runs/payments").n_updates) == (2, 0)
    assert message in err
    assert len(err.strip().splitlines()) == 1


def test_nothing_to_do_is_said(here, rae):
    code, out, err = rae("update", "runs/edges")
    assert (code, out) == (2, "")
    assert "nothing to do: give edges by --add or --remove" in err
