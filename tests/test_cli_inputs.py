"""Reading edges and features: which columns, how their ids are joined, and what the user is told."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rae import RAE
from rae.cli import main
from rae.cli.fit import fit
from rae.cli.flags import in_flags
from rae.errors import FeatureError
from rae.inputs import Reading, read_inputs

CHAIN = "".join(f"{i},{i + 1}\n" for i in range(5))
NUMBERS = "id,x\n" + "".join(f"{i},{i}\n" for i in range(6))


@pytest.fixture
def read(tmp_path, monkeypatch, caplog):
    """Read the files of this content; the inputs and the notes on them come back."""
    monkeypatch.chdir(tmp_path)
    caplog.set_level("INFO", "rae")

    def call(edges, features=None, **options):
        caplog.clear()
        for name, content in (("edges.csv", edges), ("features.csv", features)):
            if isinstance(content, str):
                (tmp_path / name).write_text(content)
            elif content is not None:
                pq.write_table(content, tmp_path / name)
        named = None if features is None else "features.csv"
        inputs = read_inputs("edges.csv", named, Reading(**options))
        return inputs, "\n".join(record.getMessage() for record in caplog.records if record.name == "rae.inputs")

    return call


@pytest.mark.parametrize("header", ["caller,called", "user,friend", "customer_id,product_id", "author,coauthor"])
def test_usual_names_are_no_nodes(read, header):
    inputs, _ = read(f"{header}\nann,bob\nbob,cid\ncid,ann\n")

    assert list(inputs.graph.ids) == ["ann", "bob", "cid"]


def test_the_columns_read_are_said_when_there_are_more_than_two(read):
    assert "edges from columns 'caller' and 'called'; ignored: 'when'" in read("when,caller,called\n1,ann,bob\n")[1]
    assert "edges from columns" not in read("caller,called\nann,bob\n")[1]


def test_guesses_reach_the_user_once_and_name_the_flag(read, capsys):
    read("ann,bob,x\ncid,dan,y\n")
    assert main(["plan", "edges.csv"]) == 0
    err = capsys.readouterr().err

    assert err.count("was taken as data; pass --header if it is a header") == 1
    assert err.count("edges from columns '1' and '2'; ignored: '3'; pass --source and --target if that is wrong") == 1


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("id,age\n1,2\n2,3\n3,1\n", "edges from columns 'id' and 'age'"),
        ("node,age,city\nu1,23,Rome\nu2,31,Oslo\nu3,23,Oslo\n", "edges from columns 'node' and 'age'; ignored: 'city'"),
    ],
)
def test_columns_of_a_node_table_as_edges_are_told_where_they_belong(read, capsys, table, says):
    read(table)
    assert main(["plan", "edges.csv"]) == 0
    err = " ".join(capsys.readouterr().err.split())

    assert f"{says}; pass --source and --target if that is wrong, or give the file as --features if each" in err


@pytest.mark.parametrize("names", ["id,friend_id", "node,target", "user,friend", "a,b"])
def test_columns_of_edges_are_not_taken_for_a_node_table(read, capsys, names):
    read(f"{names}\n1,2\n2,3\n3,1\n")
    assert main(["plan", "edges.csv"]) == 0
    assert "--features" not in capsys.readouterr().err


def test_rows_of_a_node_table_as_edges_are_told_where_they_belong(read):
    says = "every edge has an end without another edge, as in a table of nodes and their values; if it is one, give it"
    assert says in read("u1,23\nu2,31\nu3,44\nu4,23\nu5,36\n")[1]
    assert says not in read("ann,bob\nbob,cid\ncid,dan\ndan,eve\n")[1]  # the middle edges have none
    assert says not in read("ann,bob\nann,cid\n")[1]  # too few to tell


@pytest.mark.parametrize(
    ("edges", "says"),
    [
        (" ann , bob\nbob,cid\ncid,ann\n", "' ann ', which is another node than 'ann'; remove the blanks"),
        ("1,2\n2,3\n3,nan\n", "'nan' is taken for a node's id; drop the rows with it"),
        ("a,b\nb,NULL\nN/A,a\n", "'N/A', 'NULL' are taken for a node's id"),
    ],
)
def test_ids_that_may_not_be_meant_are_said(read, capsys, edges, says):
    read(edges)
    assert main(["plan", "edges.csv"]) == 0
    assert says in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("edges", ["a, b\n1, 2\n 2 ,3\n", "ann,bob\nbob,nancy\n", "a  b\nb  c\n"])
def test_blanks_around_numbers_and_between_columns_are_nothing_to_speak_of(read, capsys, edges):
    read(edges)
    assert main(["plan", "edges.csv"]) == 0
    err = capsys.readouterr().err
    assert "blanks around" not in err
    assert "taken for" not in err


def test_an_address_is_not_taken_for_a_path(capsys):
    assert main(["plan", "https://example.org/edges.csv"]) == 2
    assert "https://example.org/edges.csv is an address; download it first" in capsys.readouterr().err


def test_whole_numbers_in_the_features_match_text_in_the_edges(read):
    inputs, _ = read(CHAIN + "5,guest\n", NUMBERS, missing="zero")

    assert inputs.features.matrix.ravel().tolist() == [0, 1, 2, 3, 4, 5, 0]
    assert inputs.graph.ids[-1] == "guest"
    with pytest.raises(FeatureError, match="1 of 7 nodes have no feature row, first 'guest'"):
        read(CHAIN + "5,guest\n", NUMBERS)


def test_text_in_the_features_makes_the_nodes_text_where_a_new_one_comes(read):
    inputs, notes = read(CHAIN, NUMBERS + "guest,9\n")

    assert list(inputs.graph.ids) == ["0", "1", "2", "3", "4", "5", "guest"]
    assert inputs.features.matrix.ravel().tolist() == [0, 1, 2, 3, 4, 5, 9]
    assert "1 feature rows have no edge, first 'guest': added as isolated nodes" in notes
    assert read(CHAIN, NUMBERS + "guest,9\n", unknown="drop")[0].graph.ids.tolist() == [0, 1, 2, 3, 4, 5]


def test_rows_without_an_edge_are_refused_with_arguments_in_python_and_flags_on_the_command_line(read):
    with pytest.raises(FeatureError, match=r"'guest'; pass unknown='isolated' .* or unknown='drop'") as caught:
        read(CHAIN, NUMBERS + "guest,9\n", unknown="error")
    assert "first 'guest'; pass --unknown isolated to make them" in in_flags(caught.value, fit)
    assert "=" not in in_flags(caught.value, fit)
    assert caught.value.argument == "unknown"


def test_stored_numbers_are_not_made_text(read):
    stored = pa.table({"source": [0, 1], "target": [1, 2]})
    with pytest.raises(FeatureError, match=r"text there, first 'guest', and whole numbers in the edges") as caught:
        read(stored, "id,x\n0,1\n1,1\n2,1\nguest,1\n")
    assert in_flags(caught.value, fit).endswith("or pass --unknown drop")


def test_files_without_rows_are_said_to_have_none(read, capsys):
    read(CHAIN, NUMBERS)
    for edges, features, says in (
        (
            "caller,called\n",
            NUMBERS,
            "edges.csv holds no edges, only column names (pass --no-header if they are an edge)",
        ),
        (CHAIN, "id,x\n", "features.csv: there are no rows, only column names; expected one row per node"),
    ):
        with pytest.raises(ValueError, match="only column names"):
            read(edges, features)
        assert main(["plan", "edges.csv", "--features", "features.csv"]) == 2
        err = capsys.readouterr().err
        assert says in err
        assert "ids=" not in err


def test_a_column_the_model_does_not_know_is_said_when_embedding(read, tmp_path, capsys):
    inputs, _ = read(CHAIN, NUMBERS)
    RAE(steps=0, dims=(4,), fanout=(2,)).fit(inputs.graph, features=inputs.features).save(tmp_path / "m.safetensors")
    rows = "".join(f"{i},{i},7\n" for i in range(6))
    read(CHAIN, "id,x,more\n" + rows)
    code = main(["embed", "m.safetensors", "edges.csv", "--features", "features.csv", "--out", "z.parquet"])
    err = capsys.readouterr().err

    assert code == 0
    assert "1 feature columns are unknown to the model and left out, first 'more'" in err
    assert np.isfinite(pq.read_table("z.parquet").column("embedding").to_pylist()).all()
