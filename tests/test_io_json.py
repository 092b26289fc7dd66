"""Features and names in JSON, names of features in a file, and tables that are long without saying so."""

from __future__ import annotations

import gzip
import json
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

from rae import FeatureTable, Run, read_edges, read_features
from rae.errors import FeatureError, FileError, RaeError
from rae.io.json_features import read_names

EDGES = "source,target\n0,1\n1,2\n2,3\n3,1\n10,2\n"
SMALL = ("--no-page", "--quiet", "--json")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "edges.csv").write_text(EDGES)
    return tmp_path


def written(content: Any, name: str = "x.json") -> str:
    with open(name, "w", encoding="utf-8") as file:  # noqa: PTH123
        file.write(content if isinstance(content, str) else json.dumps(content))
    return name


@pytest.mark.parametrize("indent", [None, 4])
def test_a_list_of_features_for_each_id_is_a_table(indent):
    content = {"10": ["b"], "2": [], "1": ["a", "b", "b"]}
    table = read_features(written(json.dumps(content, indent=indent)))

    assert isinstance(table, FeatureTable)
    assert table.id_column.to_pylist() == [10, 2, 1]
    assert table.names == ("a", "b")
    assert table.matrix.toarray().tolist() == [[0, 1], [0, 0], [1, 2]]
    assert table.open_vocabulary
    assert read_features("x.json", as_text=True).id_column.to_pylist() == ["10", "2", "1"]


def test_features_that_are_numbers_come_in_their_order_and_values_count():
    table = read_features(written({"ann": {"10": 0.5, "2": 3}, "bob": [2, 10]}))

    assert table.names == ("2", "10")
    assert table.matrix.toarray().tolist() == [[3, 0.5], [1, 1]]
    assert table.id_column.to_pylist() == ["ann", "bob"]


def test_a_packed_file_is_read_too():
    with gzip.open("x.json.gz", "wb") as file:
        file.write(b'\xef\xbb\xbf {"ann": ["a"]}')

    assert read_features("x.json.gz").names == ("a",)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ('{"a": ["x"], "a": ["y"]}', "'a' is there twice"),
        ('{"a": "x"}', "expected a list of features for each id, .*, got a text for 'a'"),
        ('{"a": null}', "got null for 'a'"),
        ('{"a": [1.5]}', "a feature must be a word or a whole number, got 1.5"),
        ('{"a": [["x"]]}', r"a feature must be a word or a whole number, got \['x'\]"),
        ('{"a": [true]}', "a feature must be a word or a whole number, got True"),
        ('{"a": {"x": "1"}}', "the value of a feature must be a number, got '1'"),
        ('{"a": {"x": NaN}}', "NaN is no number of JSON"),
        ('{"a": {"x": 1e999}}', "missing or NaN|finite|beyond"),
        ('{"a": []}', "no id has a feature"),
        ('[["a", "x"]]', "got a list"),
        ("{}", "got an object"),
        ('{"a": ["x"', "is no JSON that can be read"),
        ('{"a": ' + "[" * 100_000, "nested too deeply|no JSON"),
        (b'{"a": ["\xff"]}', "is no JSON that can be read"),
    ],
)
def test_other_json_is_refused_in_one_sentence(here, content, sentence):
    (here / "x.json").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(RaeError, match=sentence) as caught:
        read_features("x.json")
    assert "\n" not in str(caught.value)


def test_json_is_no_table_of_edges():
    with pytest.raises(FileError, match="is JSON; save it as Parquet or CSV"):
        read_edges(written({"a": ["b"]}, "e.json"))


def test_an_id_in_braces_is_no_json(here):
    (here / "e.csv").write_text("{1a},{2b}\n{2b},{3c}\n")

    assert read_edges("e.csv").n_nodes == 3


# ---------------------------------------------------------------------------- names of features


@pytest.mark.parametrize(
    "content", ["buys\n\nsells \r\nlends", '["buys", "sells", "lends"]', '{"0": "buys", "2": "lends", "1": "sells"}']
)
def test_names_come_one_per_line_or_as_json(content):
    assert read_names(written(content, "names")) == ("buys", "sells", "lends")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ('{"a": "b"}', "from numbers to names"),
        ('["a", ["b"]]', "expected a list of names"),
        ('{"0": "a", "999999999": "b"}', "number them from 0 on"),
        (b"\xff\xfe", "UTF-8"),
        (b"\x93NUMPY" + bytes(80), "one name per line"),
    ],
)
def test_other_files_of_names_are_refused(here, content, sentence):
    (here / "names").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(FileError, match=sentence):
        read_names("names")


def test_a_command_reads_json_by_its_numbers_and_names(here, rae):
    written({"0": [1], "1": [0, 1], "2": [3], "3": [], "10": [0]}, "words.json")
    written("obama\nnasa\nnobody\nzürich\n", "words.txt")
    first = rae("fit", "edges.csv", "--features", "words.json", "--feature-names", "words.txt", "--out", "run", *SMALL)
    again = rae(
        "embed", "run", "edges.csv", "--features", "words.json", "--feature-names", "words.txt", "--out", "z.csv"
    )

    assert (first[0], again[0]) == (0, 0), first[2] + again[2]
    assert Run.open("run").feature_names == ("obama", "nasa", "zürich")


def test_a_command_reads_matrices_and_their_names(here, rae):
    np.save("x.npy", np.arange(10, dtype=np.float32).reshape(5, 2))
    sp.save_npz("x.npz", sp.csr_array(np.eye(5, 2, dtype=np.float32)))
    written('["buys", "sells"]', "names.json")
    for name in ("x.npy", "x.npz"):
        result = rae(
            "fit", "edges.csv", "--features", name, "--feature-names", "names.json", "--out", f"run-{name}", *SMALL
        )
        assert result[0] == 0, result[2]
        assert Run.open(f"run-{name}").feature_names == ("buys", "sells")
    wrong = rae("fit", "edges.csv", "--features", "x.npy", "--feature-names", "edges.csv", "--out", "no", *SMALL)
    assert (wrong[0], "one entry per column (2), got 6" in wrong[2]) == (2, True)


def test_columns_with_names_of_their_own_keep_them():
    table = read_features(written("id,age,size\n1,2,3\n2,3,4\n", "x.csv"))

    assert table.with_names(["a", "b"]).names == ("a", "b")
    with pytest.raises(FeatureError, match="have names already, first 'age'"):
        table.with_names(["a"])
    with pytest.raises(FeatureError, match="must have a name for every number, feature 7 is beyond its 2"):
        read_features(written({"a": [7]})).with_names(["x", "y"])


# -------------------------------------------------------------------------- display names


def test_names_are_a_column_of_the_features_or_a_file(here, rae):
    written("id,age,login\n0,5,zoe\n1,6,ann\n2,7,bob\n3,8,cid\n10,9,dan\n", "nodes.csv")
    column = rae("fit", "edges.csv", "--features", "nodes.csv", "--names", "login", "--out", "one", *SMALL)
    file = rae("fit", "edges.csv", "--names", "nodes.csv", "--name-column", "login", "--out", "two", *SMALL)
    wrong = rae("fit", "edges.csv", "--features", "nodes.csv", "--names", "logn", "--out", "no", *SMALL)

    assert (column[0], file[0]) == (0, 0)
    assert Run.open("one").feature_names == ("age",)
    assert (
        Run.open("one").names().to_pylist()
        == Run.open("two").names().to_pylist()
        == ["zoe", "ann", "bob", "cid", "dan"]
    )
    assert (wrong[0], "did you mean 'login'" in wrong[2]) == (2, True)
    assert rae("similar", "one", "zoe", "-k", "1")[1].startswith("most alike to zoe (0)")
    assert "did you mean 'zoe'" in rae("similar", "one", "zo")[2]
    Run.open("one").set_names(["twin", "twin", "bob", "cid", "dan"])
    assert "2 nodes are called 'twin': ask by id, one of 0, 1" in rae("similar", "one", "twin")[2]


# -------------------------------------------------------------------------------- long tables


@pytest.mark.parametrize(
    ("content", "flags"),
    [
        ("id,word\n1,a\n1,b\n2,a\n", "--feature-column word if each row"),
        (
            "id,word,times\n1,a,2\n1,b,1\n2,a,3\n",
            "--feature-column word and --value-column times if each row",
        ),
        ("id,item,times\n1,7,2\n1,8,1\n2,7,3\n", "--feature-column item and --value-column times if each row"),
        ("id,word\n" + "".join(f"{i // 3},w{i}\n" for i in range(4_000)), "--feature-column word if each row"),
    ],
)
def test_a_long_table_suggests_its_columns(rae, content, flags):
    written(content, "long.csv")
    result = rae("fit", "edges.csv", "--features", "long.csv", "--out", "run", *SMALL)

    assert result[0] == 2
    assert re.search(flags, result[2]), result[2]


def test_a_list_of_numbers_called_json_is_no_table(tmp_path):
    path = tmp_path / "x.json"
    path.write_text("[1, 2, 3]")

    with pytest.raises(FeatureError, match="expected a list of features for each id"):
        read_features(path)
    with pytest.raises(FileError, match="JSON; save it as Parquet or CSV"):
        read_edges(path)


@pytest.mark.parametrize(("reads", "instead"), [(read_edges, "Graph"), (read_features, "FeatureTable")])
def test_a_frame_in_the_place_of_a_path_is_told_where_to_go(reads, instead):
    with pytest.raises(FileError, match=f"got Table; rae.{instead}.from_dataframe takes a data frame"):
        reads(pa.table({"a": [1], "b": [2]}))
