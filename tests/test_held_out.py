"""Graphs that had no part in any choice: what benchmarks/held_out.py reads and writes, and how it is split."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from rae.errors import DatasetError
from rae.evaluation import data
from rae.evaluation.tables import held_out


@pytest.fixture
def script(load):
    return load("held_out")


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("RAE_DATA", str(tmp_path))
    (tmp_path / "held-out").mkdir()
    data.get.cache_clear()
    yield tmp_path / "held-out"
    data.get.cache_clear()


def test_a_graph_that_is_written_is_read_again(script, home):
    words = script.words_of(["big cat", "big dog", *["big bird sings"] * 5, *["a fish"] * 8])
    edges = np.array([(0, 1), (1, 0), (1, 2), (3, 3)])
    assert not data.present("zoo")

    script.save(home, "zoo", 15, edges, ["pet", "pet", *["wild"] * 12, None], 3, words)
    zoo = data.get("zoo")

    assert data.present("zoo")
    assert (zoo.graph.n_nodes, zoo.graph.n_edges) == (15, 2)
    assert zoo.labels.tolist() == [-1, -1, *[0] * 12, -1]
    assert (zoo.features != words).nnz == 0
    assert zoo.features.sum(0).tolist() == [7, 5, 5]  # big, bird, sings: fish is in more than half of the texts


def test_a_graph_that_was_not_made_is_unknown(home):
    with pytest.raises(DatasetError, match="unknown data set 'zoo'"):
        data.get("zoo")


def test_the_split_of_a_large_graph_is_of_labelled_nodes_alone():
    labels = np.where(np.arange(20_000) % 3 == 0, -1, 1)

    split = held_out.part_of(labels)

    parts = split.train, split.val, split.test
    assert [len(part) for part in parts] == [held_out.TRAIN, held_out.TRAIN, held_out.ASKED]
    assert len(np.unique(np.concatenate(parts))) == sum(map(len, parts))
    assert (labels[np.concatenate(parts)] == 1).all()


@pytest.mark.parametrize("order", ["<", ">"])
def test_the_format_of_graph_tool_is_read(script, order):
    def text(words):
        return struct.pack(f"{order}Q{len(words)}s", len(words), words.encode())

    neighbours = b"".join(struct.pack(f"{order}Q{len(row)}B", len(row), *row) for row in ([1, 2], [], [1]))
    group = bytes([1]) + text("group") + bytes([2]) + struct.pack(f"{order}3i", 7, -1, 7)
    name = bytes([1]) + text("name") + bytes([6]) + text("a") + text("") + text("c")
    weights = bytes([2]) + text("of edges") + bytes([10]) + struct.pack(f"{order}Qq", 1, 5) * 3
    head = b"\xe2\x9b\xbe gt\x01" + bytes([order == ">"]) + text("a comment") + bytes([1]) + struct.pack(f"{order}Q", 3)
    file = head + neighbours + struct.pack(f"{order}Q", 3) + group + weights + name

    n, edges, columns = script.GraphToolFile(file).read()

    assert (n, edges) == (3, [(0, 1), (0, 2), (2, 1)])
    assert columns == {"group": [7, -1, 7], "name": ["a", "", "c"]}


def test_relations_of_packages_are_read(script):
    fields = dict(script._fields("Package: a\nDepends: libc6 (>= 2.3), python3:any | python2,\n b [amd64]\nTag: x::y"))

    assert fields["Depends"] == "libc6 (>= 2.3), python3:any | python2, b [amd64]"
    assert list(script._first_choices(fields["Depends"])) == ["libc6", "python3", "b"]
    assert fields["Tag"] == "x::y"


def test_senses_are_related_to_those_of_their_part_of_speech(script, tmp_path):
    folder = tmp_path / "usr" / "share" / "wordnet"
    folder.mkdir(parents=True)
    lines = [
        "  1 This is the licence",
        "00000001 03 n 02 cat 0 tomcat 0 002 @ 00000002 n 0000 + 00000003 v 0101 | a small animal",
        "00000002 03 n 01 animal 0 001 ~ 00000001 n 0000 | a living being",
    ]
    for part in ("noun", "verb"):
        (folder / f"data.{part}").write_text("\n".join(lines) + "\n")

    script.wordnet(tmp_path, tmp_path)

    with np.load(tmp_path / "wordnet-noun.npz") as file:
        assert file["edges"].tolist() == [[0, 1], [1, 0]]
        assert file["labels"].tolist() == [-1, -1]  # a field needs 100 senses


def test_header_files_are_nodes_and_what_they_include_edges(script, tmp_path):
    root = tmp_path / "include"
    for name, code in (
        ("net/ip.h", '#include <linux/list.h>\n#include "tcp.h"\n#include <stdio.h>\nint ip_send; // one\n'),
        ("net/tcp.h", "int tcp_send; /* two */\n"),
        ("linux/list.h", "struct list_head;\n"),
        ("top.h", ""),
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(code)

    script.headers(root, tmp_path, "headers", 1)

    with np.load(tmp_path / "headers.npz") as file:  # linux/list.h, net/ip.h, net/tcp.h, top.h
        assert file["edges"].tolist() == [[1, 0], [1, 2]]
        assert file["labels"].tolist() == [0, 1, 1, -1]
