"""The product as a library: fit_run is `rae fit`, embed_file is `rae embed`, whatever the inputs are given as."""

from __future__ import annotations

import json
import logging
import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import rae
from rae import Config, FeatureTable, Graph, Run, embed_file, fit_run, read_edges, read_features, write_graph
from rae.cli import main
from rae.cli.fit import fit
from rae.cli.flags import in_flags
from rae.errors import (
    Argument,
    CollapseWarning,
    ConfigError,
    FeatureError,
    FileError,
    GraphError,
    RaeError,
    RunError,
    Sentence,
)
from rae.inputs import Inputs, Reading, read_inputs

CONFIG = Config(dims=(6, 3), fanout=(3, 3), steps=4, batch_size=16)
FLAGS = ["--dims", "6,3", "--fanout", "3,3", "--steps", "4", "--batch-size", "16", "--quiet"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with edges.csv, with nodes.csv, in which h has no row and hermit no edge, and with more.csv."""
    monkeypatch.chdir(tmp_path)
    Path("edges.csv").write_text("caller,called\na,b\nb,c\nc,d\nd,e\na,c\nb,a\ne,e\na,f\na,g\ng,h\n")
    rows = "".join(f"{name},{i % 3},{i / 2}\n" for i, name in enumerate([*"gfedcba", "hermit"]))
    Path("nodes.csv").write_text("id,size,age\n" + rows)
    Path("more.csv").write_text("caller,called\na,b\nb,z\n")
    return tmp_path


def contents(folder):
    """The bytes of every file of a run but run.json, which has timings."""
    return {name: (Path(folder) / name).read_bytes() for name in Run.open(folder).files() if name != "run.json"}


def info(folder):
    return {name: value for name, value in Run.open(folder).info.items() if name != "timings"}


# ------------------------------------------------------------------------------- who is like whom


def test_a_data_set_brings_its_features_and_names_and_a_run_answers_in_words(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    graph = Graph.from_edges([(0, leaf) for leaf in range(1, 6)] + [(5, 6), (6, 7)])
    words = np.eye(8, 3, dtype=np.float32)
    names = ("Hub", "Ann", "Bob", "Cid", "Dan", "Eve", "Fay", "Gus\x1b[2J")
    data = rae.datasets.Dataset("toy", graph, words, ("buys", "sells", "lends"), node_names=names)
    run = fit_run(data)

    assert run.path == Path("runs/toy")
    assert run.feature_names == data.feature_names
    assert run.names().to_pylist() == list(names)
    assert str(run.similar("Cid", k=1)) == "Cid is like Dan"
    assert str(run.similar(3, k=1)) == "Cid is like Dan"  # by id, shown by name
    assert "\\x1b[2J" in str(run.similar("Gus\x1b[2J", k=1))
    card = run.card("Cid")
    assert card.as_dict() == run.role_record()["cards"][card.role]
    assert str(card).startswith(f"role {card.role}, {card.size} nodes (")
    assert card.summary.split("; ")[0] in str(card)
    with pytest.raises(GraphError, match="there is no node 'Zoe'"):
        run.card("Zoe")
    with pytest.raises(ConfigError, match="features is part of what was read before, or of the data set"):
        fit_run(data, words, out="other")
    bare = fit_run(rae.datasets.Dataset("bare", graph), page=False)
    assert bare.feature_names is None
    with pytest.raises(RunError, match="has no roles yet"):
        bare.card(3)


# ------------------------------------------------------------------------- the same as the commands


@pytest.mark.parametrize(
    ("flags", "options"),
    [
        ([], {}),
        (["--no-page", "--lean"], {"page": False, "lean": True}),
        (["--dtype", "float16", "--page"], {"dtype": "float16", "page": True}),
        (["--memory", "2GiB", "--half", "--no-page"], {"memory": "2GiB", "half": True, "page": False}),
    ],
)
def test_fit_run_writes_the_bytes_of_rae_fit(here, flags, options):
    reading = ["--source", "called", "--target", "caller", "--missing", "zero", "--columns", "age"]
    assert main(["fit", "edges.csv", "--features", "nodes.csv", *FLAGS, *reading, *flags, "--out", "one/run"]) == 0
    run = fit_run(
        "edges.csv", "nodes.csv", out="two/run", config=CONFIG,
        source="called", target="caller", missing="zero", columns=["age"], **options,
    )  # fmt: skip

    assert run.path == Path("two/run")
    assert contents("two/run") == contents("one/run")
    assert info("two/run") == info("one/run")
    assert set(run.timings) == {"read", "fit", "embed"}
    assert run.has_roles == options.get("page", True)


def test_fit_run_writes_by_default_where_rae_fit_does(here):
    assert fit_run(Path("edges.csv"), config=CONFIG, page=False).path == Path("runs/edges")
    with pytest.raises(RunError, match=r"^runs/edges holds a run already; choose another out, or pass force=True to"):
        fit_run("edges.csv", config=CONFIG)
    assert fit_run("edges.csv", config=CONFIG, page=False, force=True).counts["nodes"] == 8


def test_embed_file_writes_the_bytes_of_rae_embed(here):
    fit_run("edges.csv", out="run", config=CONFIG, page=False)
    assert main(["embed", "run", "more.csv", "--out", "one.parquet", "--whole", "--quiet"]) == 0
    embedded = embed_file("run", "more.csv", out="deep/two.parquet", whole=True)

    assert embedded.path.read_bytes() == Path("one.parquet").read_bytes()
    assert embedded.counts["nodes"] == 3
    assert embedded.counts["width"] == 9
    assert set(embedded.timings) == {"read", "embed"}
    with pytest.raises(FileError, match=r"exists; choose another out, or pass force=True to replace it"):
        embed_file("run", "more.csv", out="one.parquet")


def test_progress_is_called_with_stage_done_total_and_numbers(here):
    calls = []
    fit_run("edges.csv", out="run", config=CONFIG, memory="2GiB", progress=lambda *call: calls.append(call))

    stages = list(dict.fromkeys(stage for stage, *_ in calls))
    assert stages[-3:] == ["train within", "embed", "page"]
    assert ("train within", 4, 4) in [call[:3] for call in calls]
    assert all(0 <= done <= (total or done) for _, done, total, _ in calls)


def test_notes_and_counts_are_logged_and_no_line_is_printed(here, caplog, capsys):
    caplog.set_level(logging.INFO, "rae.inputs")
    fit_run("edges.csv", "nodes.csv", out="run", config=CONFIG, page=False, missing="zero")

    assert "1 feature rows have no edge, first 'hermit': added as isolated nodes" in caplog.messages
    assert "1 nodes have no feature row: zeros" in caplog.messages
    assert caplog.messages[-1].startswith("9 nodes, 8 edges, 1 isolated; 2 action features")
    assert capsys.readouterr() == ("", "")


# ---------------------------------------------------------------------------------- kinds of inputs


def test_objects_give_the_bytes_of_the_files_they_were_read_from(here):
    fit_run("edges.csv", "nodes.csv", out="a/run", config=CONFIG, missing="zero")
    graph, table = read_edges("edges.csv"), read_features("nodes.csv")
    write_graph("folder", graph)
    frame = pa.table({"id": table.id_column, "size": table.matrix[:, 0], "age": table.matrix[:, 1]})
    for name, edges, features in (
        ("b", graph, table),
        ("c", "folder", "nodes.csv"),
        ("d", graph, frame),
        ("e", read_inputs("edges.csv", "nodes.csv", Reading(missing="zero")), None),
    ):
        reading = {} if isinstance(edges, Inputs) else {"missing": "zero"}
        fit_run(edges, features, out=f"{name}/run", config=CONFIG, **reading)
        assert contents(f"{name}/run") == contents("a/run"), name


def test_a_matrix_is_in_row_order(here):
    graph = read_edges("edges.csv")
    x = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)
    run = fit_run(graph, x, out="run", config=CONFIG, page=False)

    np.testing.assert_array_equal(run.features(), x)
    assert run.info["inputs"] == {}
    with pytest.raises(FeatureError, match="one row per node") as caught:
        fit_run(graph, x[:5], out="other", config=CONFIG)
    assert caught.value.argument == "features"
    assert not Path("other").exists()


def test_a_frame_without_ids_is_in_row_order_and_one_with_an_id_column_is_joined(here):
    graph = Graph.from_edges([("a", "b"), ("b", "c")])
    rows = read_inputs(graph, pa.table({"x": [1.0, 2.0, 3.0]})).features
    joined = read_inputs(graph, pa.table({"who": ["c", "a", "b"], "x": [3.0, 1.0, 2.0]}), Reading(id="who")).features

    assert isinstance(joined, FeatureTable)
    np.testing.assert_array_equal(joined.matrix, rows)


@pytest.mark.parametrize(
    ("call", "kind", "sentence"),
    [
        (lambda g: fit_run(g), ConfigError, r"^out must be given where edges are no file, got a Graph"),
        (
            lambda g: fit_run(5, out="run"),
            GraphError,
            "^edges must be an edge file, a graph folder, a data frame or a",
        ),
        (lambda g: fit_run(g, out="run", header=True), GraphError, "^header says how an edge file is read, a Graph"),
        (lambda g: fit_run(g, out="run", id="x"), FeatureError, "^id says how features is read, but there is no feat"),
        (lambda g: fit_run(g, g, out="run", id="x"), FeatureError, "^id says how features is read from a file"),
        (lambda g: fit_run(g, out="run", missing="no"), ConfigError, "^missing must be one of 'error', 'zero', got"),
        (lambda g: fit_run(Inputs(g), out="run", unknown="drop"), ConfigError, "^unknown is part of what was read"),
        (lambda g: fit_run(g, out="run", memory="lots"), ConfigError, "^memory must be a size such as 4GiB"),
        (lambda g: fit_run(g, out="run", dtype="int8"), ConfigError, "^dtype must be one of 'float32', 'float16', got"),
        (lambda g: embed_file("run", g, out="z.txt"), FileError, "^out must end in .parquet or .csv, got z.txt"),
        (lambda g: embed_file("run", g, out="."), FileError, r"^out must be a file, \. is a folder; try out='emb"),
    ],
)
def test_a_mistaken_call_names_the_argument(here, call, kind, sentence):
    with pytest.raises(kind, match=sentence) as caught:
        call(read_edges("edges.csv"))
    assert caught.value.argument == str(caught.value).split(" ")[0]
    assert not Path("run").exists()


# ------------------------------------------------------- one sentence, for Python and the command line


def test_a_sentence_names_arguments_in_python_and_options_on_the_command_line():
    sentence = Sentence(
        *("pass ", Argument("id", ...), ", ", Argument("columns", ["x"]), ", ", Argument("header", False), ", "),
        *(Argument("half", True), ", ", Argument("header", True, "read_features"), ", ", Argument("steps", 0)),
        *(" or other ", Argument("edges"), "; not ", Argument("folder", "x")),
    )

    assert sentence == (
        "pass id=, columns=['x'], header=False, half=True, read_features(header=True), steps=0 or other edges; "
        "not folder='x'"
    )
    assert in_flags(sentence, fit) == (
        "pass --id-column, --columns x, --no-header, --half, --features-header, --steps 0 or other EDGES; "
        "not folder='x'"
    )


def test_an_error_inside_another_keeps_its_arguments():
    inner = FeatureError("pass ", Argument("id", ...), argument="features")
    outer = RaeError("nodes.csv: ", inner)

    assert str(outer) == "nodes.csv: pass id="
    assert outer.argument == "features"
    assert in_flags(outer, fit) == "nodes.csv: pass --id-column"
    assert RaeError("no argument").argument is None


@pytest.mark.parametrize("error", [RunError("choose another ", Argument("out")), CollapseWarning("x ", Argument("y"))])
def test_errors_and_warnings_survive_pickling(error):
    again = pickle.loads(pickle.dumps(error))  # noqa: S301  # our own bytes

    assert str(again) == str(error)
    assert again.sentence.parts == error.sentence.parts


ENDS = "a,b\nb,c\n"


@pytest.mark.parametrize(
    ("files", "options", "in_python", "on_the_command_line"),
    [
        ({"e": "x,y\n"}, {"header": True}, "(pass header=False if they are", "(pass --no-header if they are"),
        ({"e": ENDS, "f": "id,town\na,Rome\na,Oslo\n"}, {}, "pass feature='town' if", "pass --feature-column town if"),
        ({"e": ENDS, "f": "id,x,y\na,1,2\nb,nan,3\n"}, {}, "with drop=['x']", "with --drop-columns x"),
        ({"e": ENDS, "f": "id,x\na,1\n"}, {}, "pass missing='zero' to give", "pass --missing zero to give"),
        ({"e": ENDS, "f": "id,x\na,1\n"}, {"value": "x"}, "value= goes with feature=, the column of words; pass both "
         "or columns=", "--value-column goes with --feature-column, the column of words; pass both or --columns"),
        ({"e": ENDS, "f": "id,x\na,1\n"}, {"feature": "id"}, "for both; pass id= too", "both; pass --id-column too"),
        ({"e": ENDS, "f": "id,x\n7,1\n"}, {}, "check id, source and target",
         "check --id-column, --source and --target"),
        ({"e": "u,v,w\n" + ENDS.replace("\n", ",1\n")}, {"source": "v", "target": "v"},
         "source and target must be two columns", "--source and --target must be two columns"),
        ({"e": ENDS, "f": "id,x\na,1\nz,1\n"}, {"unknown": "error"}, "pass unknown='isolated' to make",
         "pass --unknown isolated to make"),
    ],
)  # fmt: skip
def test_the_same_error_names_arguments_in_python_and_flags_on_the_command_line(
    here, capsys, files, options, in_python, on_the_command_line
):
    for name, text in files.items():
        Path(f"{name}.csv").write_text(text)
    features = "f.csv" if "f" in files else None
    names = {option.name: option.opts[0] for option in fit.params}
    words = [word for name, value in options.items() for word in (names[name], value)[: 1 if value is True else 2]]
    with pytest.raises(RaeError) as caught:
        fit_run("e.csv", features, out="run", **options)
    assert main(["fit", "e.csv", *(["--features", features] if features else []), *words, "--out", "run"]) == 2
    err = capsys.readouterr().err.splitlines()[-1]

    assert in_python in str(caught.value)
    assert on_the_command_line in err
    assert caught.value.argument is not None
    assert not Path("run").exists()


def test_an_error_about_a_run_names_the_options_of_fit_in_other_commands(here, capsys):
    Path("run").mkdir()
    Path("run/model.safetensors").touch()

    assert main(["info", "run"]) == 2
    assert capsys.readouterr().err.endswith("it has no run.json; fit it again with --force\n")
    with pytest.raises(RunError, match="fit it again with force=True"):
        Run.open("run")


def test_the_json_of_a_fit_is_unchanged(here, capsys):
    assert main(["fit", "edges.csv", *FLAGS, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)

    assert set(data) == {"run", "files", "counts", "timings", "training", "roles", "page"}
    assert set(data["roles"]) == {"k", "criterion", "sizes"}
    assert rae.fit_run is fit_run
