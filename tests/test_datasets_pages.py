"""Pages with words, types and names, plain or gzipped; a file that is not what its name says is refused."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest

from rae.datasets import Home, load
from rae.errors import DatasetError

EDGES = "id_1,id_2\n0,2\n2,1\n1,1\n"
WORDS = '{"2": [4, 0], "0": [], "1": [3, 3]}'
TARGET = 'id,facebook_id,page_name,page_type\n0,77,"The Voice, live",tvshow\n2,78,中国,company\n1,79,Third,tvshow\n'


def _home(tmp_path, *, edges=EDGES, words=WORDS, target=TARGET, packed=False):
    folder = tmp_path / "facebook-pages"
    folder.mkdir()
    for name, text in (("facebook_edges.csv", edges), ("facebook.json", words), ("facebook_target.csv", target)):
        content = text if isinstance(text, bytes) else text.encode()
        (folder / (name + ".gz" * packed)).write_bytes(gzip.compress(content) if packed else content)
    return Home(tmp_path, tmp_path / "cache", {})


@pytest.mark.parametrize("packed", [False, True])
def test_words_types_and_names_follow_the_ids(tmp_path, packed):
    data = load("facebook-pages", home=_home(tmp_path, packed=packed))

    assert data.graph.ids.tolist() == [0, 2, 1]
    assert (data.graph.n_edges, data.graph.counts.self_loops) == (2, 1)
    assert data.node_names == ("The Voice, live", "中国", "Third")
    assert [data.label_names[label] for label in data.labels] == ["tvshow", "company", "tvshow"]
    assert data.features.toarray().tolist() == [[0] * 5, [1, 0, 0, 0, 1], [0, 0, 0, 1, 0]]


@pytest.mark.parametrize(
    ("part", "text", "match"),
    [
        ("edges", "a,b\n0,1\n", "must start with the line 'id_1,id_2', got 'a,b'"),
        ("edges", "id_1,id_2\n0,1\n2\n", "two pages in every line"),
        ("edges", "id_1,id_2\n0,1,2\n0,1,2\n", "two pages in every line"),
        ("edges", "id_1,id_2\n0,3\n", r"must name pages 0\.\.2, got 0\.\.3"),
        ("edges", "id_1,id_2\n0,x\n", "whole numbers only"),
        ("words", WORDS[:20], "a list of feature numbers for each page"),
        ("words", "[1, 2]", "a list of feature numbers for each page"),
        ("words", '{"0": 1, "1": [], "2": []}', "a list of feature numbers for each page"),
        ("words", '{"0": [1.5], "1": [], "2": []}', "1.5 is no whole number"),
        ("words", '{"0": [NaN], "1": [], "2": []}', "NaN is no whole number"),
        ("words", '{"0": [[1]], "1": [], "2": []}', "a list of feature numbers for each page"),
        ("words", '{"0": [99999999999999999999], "1": [], "2": []}', "a list of feature numbers for each page"),
        ("words", "[" * 100_000, "a list of feature numbers for each page"),
        ("words", '{"0": [], "1": []}', r"the features of pages 0\.\.2, each once"),
        ("words", '{"0": [-1], "1": [], "2": []}', "number features from 0"),
        ("words", '{"0": [9999999999], "1": [], "2": []}', "number features from 0"),
        ("target", "id,page_name\n", "must start with the line 'id,facebook_id,page_name,page_type'"),
        ("target", "", "must start with the line"),
        ("target", TARGET[:-9], "4 values for every page"),
        ("target", TARGET.replace("2,78", "5,78"), r"every page 0\.\.2 once"),
        ("target", TARGET.replace("2,78", "0,78"), r"every page 0\.\.2 once"),
        ("target", TARGET.replace("live\"", "live"), "must be a CSV table in UTF-8"),
        ("target", b"\xff\xfe", "must be a CSV table in UTF-8"),
    ],
)  # fmt: skip
def test_damaged_files_are_refused_in_one_sentence(part, text, match, tmp_path):
    with pytest.raises(DatasetError, match=match) as error:
        load("facebook-pages", home=_home(tmp_path, **{part: text}))
    assert "\n" not in str(error.value)


def test_a_truncated_gzip_is_refused(tmp_path):
    home = _home(tmp_path, packed=True)
    path = tmp_path / "facebook-pages" / "facebook.json.gz"
    path.write_bytes(gzip.compress(json.dumps({str(i): [] for i in range(999)}).encode())[:-9])

    with pytest.raises(DatasetError, match="could not read"):
        load("facebook-pages", home=home)


@pytest.mark.data
def test_the_published_counts(data_home):
    data = load("facebook-pages")

    assert (data.graph.n_nodes, data.graph.n_edges, data.graph.counts.self_loops) == (22_470, 170_823, 179)
    assert (data.features.shape[1], data.features.nnz) == (4_714, 314_583)
    assert data.label_names == ("company", "government", "politician", "tvshow")
    assert np.bincount(data.labels).tolist() == [6_495, 6_880, 5_768, 3_327]
    assert data.node_names[2] == "ESET"
