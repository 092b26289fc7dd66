"""The commands as a user calls them: files, output and exit codes."""

from __future__ import annotations

import json
import logging
import os
import warnings
from importlib import import_module

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rae import Run, cli, runtime
from rae.cli import program
from rae.cli.console import size
from rae.cli.program import main
from rae.io import read_embeddings

SMALL = ["--dims", "6,3", "--fanout", "3,3", "--steps", "4", "--batch-size", "16"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "edges.csv").write_text("a,b\nb,c\nc,d\nd,e\na,c\nb,a\ne,e\na,f\na,g\ng,h\n")
    rows = "".join(f"{name},{i % 3},{i / 2}\n" for i, name in enumerate("abcdefgh"))
    (tmp_path / "nodes.csv").write_text("id,size,age\n" + rows)
    return tmp_path


# -------------------------------------------------------------------------------------- fit


def test_fit_writes_a_run_and_reports_what_it_counted(here, rae):
    code, out, err = rae("fit", "edges.csv", *SMALL)

    assert code == 0
    run = Run.open("runs/edges")
    assert run.info["counts"] == {
        "nodes": 8, "edges": 8, "isolated": 0, "rows": 10, "doubled": 1, "self_loops": 1, "features": 0, "width": 9,
    }  # fmt: skip
    assert run.info["inputs"] == {"edges": {"path": "edges.csv", "bytes": 40}}
    assert set(run.info["timings"]) == {"read", "fit", "embed"}
    assert "8 nodes, 8 edges, 0 isolated" in err
    assert "1 doubled merged, 1 self-loops dropped" in err
    assert "train within  4 done" in err
    assert "runs/edges" in out
    assert "train" not in out


def test_the_same_command_twice_gives_the_same_bytes(here, rae):
    rae("fit", "edges.csv", *SMALL, "--out", "one", "--loss", "both")
    rae("fit", "edges.csv", *SMALL, "--out", "two", "--loss", "both")

    for name in ("model.safetensors", "embeddings.parquet"):
        assert (here / "one" / name).read_bytes() == (here / "two" / name).read_bytes()


def test_json_is_one_object_and_quiet_says_nothing_else(here, rae):
    code, out, err = rae("fit", "edges.csv", *SMALL, "--json", "--quiet")

    assert code == 0
    assert json.loads(out)["counts"]["nodes"] == 8
    assert err == ""


def test_global_flags_may_stand_before_the_command_too(here, rae):
    code, out, err = rae("--json", "--quiet", "fit", "edges.csv", *SMALL)

    assert code == 0
    assert json.loads(out)["run"] == "runs/edges"
    assert err == ""


def test_threads_are_passed_on(here, rae):
    import torch

    before = torch.get_num_threads()
    try:
        assert rae("--threads", "1", "fit", "edges.csv", *SMALL)[0] == 0
        assert runtime.threads() == 1
        assert torch.get_num_threads() == 1
        assert rae("--threads", "0", "fit", "edges.csv")[0] == 2
    finally:
        runtime.set_threads(None)
        torch.set_num_threads(before)


def test_an_existing_run_is_refused_before_any_work(here, rae):
    rae("fit", "edges.csv", *SMALL)
    code, out, err = rae("fit", "no such file", "--out", "runs/edges")

    assert code == 2
    assert out == ""
    assert "holds a run already" in err
    assert rae("fit", "edges.csv", *SMALL, "--force")[0] == 0


def test_features_are_joined_by_id(here, rae):
    assert rae("fit", "edges.csv", "--features", "nodes.csv", *SMALL, "--out", "run")[0] == 0
    run = Run.open("run")

    assert run.info["counts"]["features"] == 2
    assert run.model().feature_names == ("size", "age")
    assert list(run.info["inputs"]) == ["edges", "features"]


def test_feature_rows_without_an_edge_become_isolated_nodes_and_are_reported(here, rae):
    with (here / "nodes.csv").open("a") as file:
        file.write("hermit,1,1\n")
    code, _, err = rae("fit", "edges.csv", "--features", "nodes.csv", *SMALL, "--out", "run")
    ids, z = Run.open("run").embeddings()

    assert code == 0
    assert "1 feature rows have no edge, first 'hermit': added as isolated nodes" in err
    assert ids.to_pylist()[-1] == "hermit"
    assert np.isfinite(z).all()
    assert Run.open("run").info["counts"]["isolated"] == 1


def test_unknown_ids_can_be_dropped_or_refused(here, rae):
    with (here / "nodes.csv").open("a") as file:
        file.write("hermit,1,1\n")
    common = ["fit", "edges.csv", "--features", "nodes.csv", *SMALL]
    code, _, err = rae(*common, "--out", "dropped", "--unknown", "drop")

    assert code == 0
    assert "1 feature rows have no edge: left out" in err
    assert Run.open("dropped").info["counts"]["nodes"] == 8
    code, _, err = rae(*common, "--out", "refused", "--unknown", "error")
    assert code == 2
    assert "'hermit'" in err
    assert not (here / "refused").exists()


def test_nodes_without_features_are_refused_or_get_zeros(here, rae):
    lines = (here / "nodes.csv").read_text().splitlines()
    (here / "nodes.csv").write_text("\n".join(lines[:-1]) + "\n")  # h has no row
    common = ["fit", "edges.csv", "--features", "nodes.csv", *SMALL]
    code, _, err = rae(*common, "--out", "run")

    assert code == 2
    assert "--missing zero" in err
    code, _, err = rae(*common, "--out", "run", "--missing", "zero")
    assert code == 0
    assert "1 nodes have no feature row: zeros" in err
    assert "nobody has" not in err


def test_zeros_that_nobody_else_has_are_said(here, rae):
    rows = "".join(f"{node},{30 + i},{i - 2},{-5 - i}\n" for i, node in enumerate("abcdefg"))
    (here / "nodes.csv").write_text("id,age,balance,debt\n" + rows)  # h has no row
    common = ["fit", "edges.csv", "--features", "nodes.csv", "--missing", "zero", *SMALL]
    err = rae(*common, "--out", "run")[2]

    assert "zeros, which nobody has in column 'age' and 1 more (30 to 36)" in " ".join(err.split())
    err = rae(*common, "--columns", "balance", "--out", "neutral")[2]
    assert "nobody has" not in err


def test_features_of_other_ids_altogether_are_refused(here, rae):
    (here / "nodes.csv").write_text("id,size\n1,2\n2,3\n")
    code, _, err = rae("fit", "edges.csv", "--features", "nodes.csv", *SMALL)

    assert code == 2
    assert "none of the 2 feature ids is a node" in err
    assert "--id-column" in err


def test_a_bare_matrix_is_taken_in_row_order_and_said_so(here, rae):
    np.save(here / "x.npy", np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32))
    code, _, err = rae("fit", "edges.csv", "--features", "x.npy", *SMALL)

    assert code == 0
    assert "row i is taken for the i-th node" in err


def test_long_features_make_a_sparse_model(here, rae):
    (here / "words.csv").write_text("who,word\n" + "".join(f"{n},{w}\n" for n in "abcdefgh" for w in (n, "all")))
    args = ["--features", "words.csv", "--id-column", "who", "--feature-column", "word"]
    assert rae("fit", "edges.csv", *args, *SMALL)[0] == 0

    assert Run.open("runs/edges").model().feature_names == (*"a", "all", *"bcdefgh")


def test_chosen_columns_are_the_features(here, rae):
    assert rae("fit", "edges.csv", "--features", "nodes.csv", "--columns", "age", *SMALL)[0] == 0
    assert Run.open("runs/edges").model().feature_names == ("age",)


def test_reading_options_without_features_are_a_mistake(here, rae):
    code, _, err = rae("fit", "edges.csv", "--id-column", "id")

    assert code == 2
    assert "there is no --features" in err


def test_columns_and_header_can_be_named(here, rae):
    table = pa.table({"weight": [1.0, 2.0], "who": ["x", "y"], "whom": ["y", "z"]})
    pq.write_table(table, here / "e.parquet")
    assert rae("fit", "e.parquet", "--source", "who", "--target", "whom", *SMALL)[0] == 0
    assert Run.open("runs/e").embeddings()[0].to_pylist() == ["x", "y", "z"]
    assert rae("fit", "edges.csv", "--no-header", *SMALL, "--out", "plain")[0] == 0
    assert Run.open("plain").info["counts"]["rows"] == 10


def test_an_error_about_reading_names_the_flag(here, rae):
    (here / "nodes.csv").write_text("id,age\na,30\nb,nan\n")
    code, _, err = rae("fit", "edges.csv", "--features", "nodes.csv", *SMALL)

    assert code == 2
    assert "leave the column out with --drop-columns age" in err
    assert "drop=" not in err


def test_a_collapsed_fit_is_said_even_when_quiet(here, rae):
    (here / "ring.csv").write_text("".join(f"{i},{(i + 1) % 9}\n" for i in range(9)))
    code, _, err = rae("--quiet", "fit", "ring.csv", *SMALL)

    assert code == 0
    assert err.startswith("warning: the fit collapsed")
    assert err.count("\n") == 1


def test_a_fit_ends_with_the_roles_and_the_page(here, rae):
    code, out, _ = rae("fit", "edges.csv", *SMALL)

    assert code == 0
    assert {"explore/index.html", "roles.parquet", "roles.json"} <= set(Run.open("runs/edges").files())
    assert str(here / "runs") not in out
    assert "runs/edges/explore/index.html" in out.splitlines()[-1]
    assert "role" in out.splitlines()[0]


def test_no_page_leaves_out_roles_and_page_and_says_how_to_get_them(here, rae):
    code, out, _ = rae("fit", "edges.csv", *SMALL, "--no-page")

    assert code == 0
    assert "rae explore runs/edges" in out.splitlines()[-1]
    assert not {"explore/index.html", "roles.parquet"} & set(Run.open("runs/edges").files())


def test_a_large_graph_gets_its_page_only_when_asked(here, rae, monkeypatch):
    monkeypatch.setattr(import_module("rae.pipeline"), "PAGE_LIMIT", 5)

    assert "rae explore" in rae("fit", "edges.csv", *SMALL)[1]
    assert "index.html" in rae("fit", "edges.csv", *SMALL, "--page", "--force")[1]


# ------------------------------------------------------------------------------ embed, info


def test_embed_gives_new_nodes_vectors_and_old_ones_the_same(here, rae):
    rae("fit", "edges.csv", *SMALL)
    (here / "grown.csv").write_text((here / "edges.csv").read_text() + "x,y\ny,z\n")
    code, out, err = rae("embed", "runs/edges", "grown.csv", "--out", "deep/z.parquet")
    old_ids, old = Run.open("runs/edges").embeddings()
    ids, z = read_embeddings(here / "deep" / "z.parquet")

    assert code == 0
    assert "11 x 9" in out
    assert "embed  3 done" in err
    assert ids.to_pylist() == [*"abcdefghxyz"]
    np.testing.assert_allclose(z[:8], old, atol=1e-6)
    assert old_ids.to_pylist() == [*"abcdefgh"]


def test_embed_takes_a_model_file_and_writes_csv(here, rae):
    rae("fit", "edges.csv", *SMALL)
    model = "runs/edges/model.safetensors"
    code, out, _ = rae("embed", model, "edges.csv", "--out", "z.csv", "--json")

    assert code == 0
    assert json.loads(out)["counts"]["width"] == 9
    assert (here / "z.csv").read_text().startswith('"id"')


def test_embed_aligns_feature_columns_by_name(here, rae):
    rae("fit", "edges.csv", "--features", "nodes.csv", *SMALL)
    lines = [line.split(",") for line in (here / "nodes.csv").read_text().split()]
    (here / "turned.csv").write_text("".join(f"{name},{age},{size}\n" for name, size, age in reversed(lines[1:])))
    (here / "turned.csv").write_text("id,age,size\n" + (here / "turned.csv").read_text())
    assert rae("embed", "runs/edges", "edges.csv", "--features", "turned.csv", "--out", "z.parquet")[0] == 0

    np.testing.assert_array_equal(read_embeddings("z.parquet")[1], Run.open("runs/edges").embeddings()[1])


def test_embed_never_overwrites_and_checks_before_any_work(here, rae):
    (here / "z.parquet").write_text("mine")
    for out, words in (("z.parquet", "--force"), ("z.txt", "must end in"), (".", "is a folder")):
        code, _, err = rae("embed", "no run", "no edges", "--out", out)
        assert code == 2
        assert words in err
    assert (here / "z.parquet").read_text() == "mine"


def test_embed_refuses_features_the_model_does_not_know(here, rae):
    rae("fit", "edges.csv", *SMALL)
    code, _, err = rae("embed", "runs/edges", "edges.csv", "--features", "nodes.csv", "--out", "z.parquet")

    assert code == 2
    assert "structure alone" in err
    assert not (here / "z.parquet").exists()


def test_info_shows_settings_counts_timings_training_and_files(here, rae):
    rae("fit", "edges.csv", *SMALL)
    code, out, err = rae("info", "runs/edges")

    assert code == 0
    assert err == ""
    assert "steps              4 *" in out
    assert "learning_rate      0.01\n" in out
    for word in ("nodes", "edges.csv (40 B)", "embeddings.parquet", "in 4 steps", "torch"):
        assert word in out
    code, out, _ = rae("info", "runs/edges", "--json")
    data = json.loads(out)
    assert data["settings"]["steps"] == 4
    assert data["files"]["run.json"] > 0


def test_info_of_an_untrained_run_says_so(here, rae):
    rae("fit", "edges.csv", "--steps", "0", "--dims", "4", "--fanout", "3")

    assert "none  steps 0" in rae("info", "runs/edges")[1]


def test_info_says_what_the_model_reads_of_edges(here, rae):
    (here / "paid.csv").write_text("payer,payee,amount\n" + "".join(f"{i},{i * 7 % 11},{i + 1}\n" for i in range(11)))
    rae("fit", "paid.csv", "--directed", "--weight", "amount", "--no-page")
    rae("fit", "edges.csv", "--no-page")

    out = rae("info", "runs/paid")[1]
    assert "directed, weighted" in out
    assert "out, in" in out
    assert "plain: who is connected with whom" in rae("info", "runs/edges")[1]
    info = json.loads((here / "runs/edges/run.json").read_text())
    del info["channels"]  # a run of a version that did not say
    (here / "runs/edges/run.json").write_text(json.dumps(info))
    assert "as the model reads them" not in rae("info", "runs/edges")[1]


# -------------------------------------------------------------------------------------- plan


def test_plan_says_memory_and_time_and_writes_nothing(here, rae):
    before = sorted(p.name for p in here.iterdir())
    code, out, _ = rae("plan", "edges.csv", *SMALL)

    assert code == 0
    assert "peak" in out
    assert "total" in out
    assert sorted(p.name for p in here.iterdir()) == before
    data = json.loads(rae("plan", "edges.csv", *SMALL, "--json")[1])
    assert data["counts"]["nodes"] == 8
    assert data["memory"]["peak"] >= data["memory"]["graph"]
    assert data["seconds"]["total"] == pytest.approx(sum(v for k, v in data["seconds"].items() if k != "total"))


# -------------------------------------------------------------------------------------- ends


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["fot"], "did you mean 'fit'"),
        (["xyzzy"], "the commands are demo, fit, "),
        (["fit"], "missing argument 'EDGES'"),
        (["fit", "edges.csv", "--stepz", "3"], "--steps"),
        (["fit", "edges.csv", "--steps", "-1"], "--steps must be 0 or more"),
        (["fit", "edges.csv", "--missing", "maybe"], "maybe"),
        (["fit", "absent.csv"], "absent.csv"),
        (["fit", "."], "."),
        (["info", "absent"], "expected a run folder"),
        (["embed", "absent", "edges.csv", "--out", "z.parquet"], "expected a run folder"),
        (["--nope"], "--nope"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(here, rae, args, words):
    code, out, err = rae(*args)

    assert code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert words in err
    assert len(err.splitlines()) == 1
    assert "Traceback" not in err


def test_help_has_examples_and_exits_with_0(rae):
    for command in ("fit", "embed", "info", "plan", "demo"):
        code, out, _ = rae(command, "--help")
        assert code == 0
        assert out.count(f"rae {command} ") >= 2
        assert "come" in out  # a sentence of what comes out
    assert rae()[1] == rae("--help")[1] == rae("-h")[1]
    assert "rae demo" in rae("--help")[1]


def test_version_is_the_installed_one(rae):
    from rae.version import __version__

    assert rae("--version")[:2] == (0, f"rae {__version__}\n")


@pytest.fixture
def failing(monkeypatch):
    """A command line whose `info` raises what it is told to."""

    def fail_with(error: BaseException) -> None:
        def callback(**_: object) -> None:
            raise error

        monkeypatch.setattr(cli.app.commands["info"], "callback", callback)

    return fail_with


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (PermissionError(13, "Permission denied", "/root/z"), 2, "error: /root/z: permission denied"),
        (OSError(28, "No space left on device"), 2, "error: no space left on device"),
        (MemoryError(), 2, "out of memory"),
        (ZeroDivisionError("oh"), 1, "This is a bug in rae"),
    ],
)
def test_every_kind_of_error_has_its_exit_code(rae, failing, error, code, words):
    failing(error)
    got, out, err = rae("info", "run")

    assert got == code
    assert words in err
    assert out == ""
    assert ("Traceback" in err) == (code == 1)


def test_verbose_shows_the_log_and_otherwise_only_warnings(rae, monkeypatch):
    def callback(**_: object) -> None:
        logging.getLogger("rae").info("detail")
        logging.getLogger("rae.io").warning("caution")
        warnings.warn("a hint\nover two lines", stacklevel=1)

    monkeypatch.setattr(cli.app.commands["info"], "callback", callback)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert rae("info", "run")[2] == "caution\nwarning: a hint over two lines\n"
        assert rae("--verbose", "info", "run")[2].startswith("detail\ncaution\n")
    assert logging.getLogger("rae").handlers == []


def test_a_broken_pipe_ends_without_a_message(failing, capfd):
    failing(BrokenPipeError())

    assert main(["info", "run"]) == 141
    assert capfd.readouterr() == ("", "")


def test_sizes_read_well():
    assert [size(n) for n in (0, 999, 1000, 250e3, 3.2e9, 5e12)] == [
        "0 B",
        "999 B",
        "1.0 kB",
        "250 kB",
        "3.2 GB",
        "5.0 TB",
    ]


def test_shell_completion_is_offered(monkeypatch, capsys):
    monkeypatch.setenv("_RAE_COMPLETE", "bash_source")
    with pytest.raises(SystemExit) as left:
        main([])
    assert left.value.code == 0
    assert "_rae_completion" in capsys.readouterr().out


def test_a_closed_pipe_is_silenced(monkeypatch, tmp_path):
    def closed(*_: object, **__: object) -> None:
        raise BrokenPipeError

    stream = (tmp_path / "err").open("w")
    monkeypatch.setattr(program.click, "echo", closed)
    monkeypatch.setattr(program.sys, "stderr", stream)
    assert main(["fot"]) == 2
    os.write(stream.fileno(), b"goes nowhere")
    stream.close()
    assert (tmp_path / "err").read_bytes() == b""
