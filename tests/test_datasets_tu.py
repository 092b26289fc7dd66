"""Both forms of a collection give the same graphs; archives are read in memory and within bounds."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from collections import Counter

import numpy as np
import pytest

from rae.datasets import Home, load, tu
from rae.errors import DatasetError
from rae.graph import Graph

# Three graphs: a triangle with a tail, an edge, a single node.
A = "1, 2\n2, 1\n2, 3\n3, 2\n1, 3\n3, 1\n3, 4\n4, 3\n5, 6\n6, 5\n"
ZIP = {
    "A": A,
    "graph_indicator": "1\n1\n1\n1\n2\n2\n3\n",
    "graph_labels": "1\n-1\n1\n",
    "node_labels": "0\n0\n1\n2\n2\n2\n0\n",
}
TEXT = "3\n4 5\n0 2 1 2\n0 2 0 2\n1 3 0 1 3\n2 1 2\n2 3\n2 1 1\n2 1 0\n1 5\n0 0\n"


def _zip(path, name, files=ZIP, folder=True):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for part, text in files.items():
            packed.writestr(f"{name}/{name}_{part}.txt" if folder else f"{name}_{part}.txt", text)
    return path


def _folds(path, folds, *extra):
    with tarfile.open(path, "w:gz") as packed:
        for i, fold in folds.items():
            info = tarfile.TarInfo(f"10fold_idx/test_idx-{i}.txt")
            content = "".join(f"{g}\n" for g in fold).encode()
            info.size = len(content)
            packed.addfile(info, io.BytesIO(content))
        for info in extra:
            packed.addfile(info)
    return path


def _home(tmp_path, name="IMDB-BINARY"):
    (tmp_path / name).mkdir()
    return Home(tmp_path, tmp_path / "cache", {}), tmp_path / name


def _same(one, other):
    return all(
        np.array_equal(a.offsets, b.offsets) and np.array_equal(a.targets, b.targets)
        for a, b in zip(one.graphs, other.graphs, strict=True)
    )


def test_the_two_forms_give_the_same_graphs(tmp_path):
    home, folder = _home(tmp_path)
    _zip(folder / "IMDB-BINARY.zip", "IMDB-BINARY")
    zipped = load("imdb-b", home=home)
    (folder / "IMDBBINARY.txt").write_text(TEXT)
    plain = load("imdb-b", home=home)
    (folder / "IMDBBINARY.txt").unlink()
    (folder / "IMDBBINARY.txt.gz").write_bytes(gzip.compress(TEXT.encode()))
    packed = load("imdb-b", home=home)

    assert zipped.label_names == ("-1", "1")
    assert plain.label_names == packed.label_names == ("3", "5")
    for data in (zipped, plain, packed):
        assert _same(zipped, data)
        assert [g.n_edges for g in data.graphs] == [4, 1, 0]
        assert data.labels.tolist() == [1, 0, 1]
        assert [f.tolist() for f in data.features] == [f.tolist() for f in zipped.features]
        assert data.feature_names == ("0", "1", "2")
        assert [list(g.ids) for g in data.graphs] == [[0, 1, 2, 3], [0, 1], [0]]
        assert [g.counts.doubled for g in data.graphs] == [4, 1, 0]


def test_each_graph_is_what_its_own_edges_make(tmp_path):
    _, folder = _home(tmp_path)
    data = tu.collection("IMDB-BINARY", tu.read_zip(_zip(folder / "a.zip", "IMDB-BINARY"), "IMDB-BINARY"))
    alone = Graph.from_edges([(0, 1), (1, 2), (0, 2), (2, 3)])

    assert np.array_equal(data.graphs[0].targets, alone.targets)
    assert data.features[0].tolist() == [[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert data.features[0].dtype == np.float32
    with pytest.raises(ValueError, match="read-only"):
        data.graphs[0].targets[0] = 3


def test_nodes_of_a_graph_need_not_stand_together(tmp_path):
    mixed = {
        "A": "1, 3\n3, 1\n3, 5\n3, 3\n2, 4\n",
        "graph_indicator": "2\n1\n2\n1\n2\n",
        "graph_labels": "7\n8\n",
        "node_labels": "5\n9\n6\n9\n5\n",
    }
    data = tu.collection("MIXED", tu.read_zip(_zip(tmp_path / "m.zip", "MIXED", mixed, folder=False), "MIXED"))

    assert [g.n_nodes for g in data.graphs] == [2, 3]
    assert data.graphs[1].neighbors(1).tolist() == [0, 2]
    assert [(g.counts.rows, g.counts.self_loops, g.counts.doubled) for g in data.graphs] == [(1, 0, 0), (4, 1, 1)]
    assert data.features[1].argmax(1).tolist() == [0, 1, 0]


def test_nodes_that_are_all_alike_have_no_features(tmp_path):
    without = {part: text for part, text in ZIP.items() if part != "node_labels"}
    assert tu.collection("X", tu.read_zip(_zip(tmp_path / "x.zip", "X", without), "X")).features is None
    (tmp_path / "X.txt").write_text("1\n2 0\n0 1 1\n0 1 0\n")
    assert tu.collection("X", tu.read_text(tmp_path / "X.txt")).features is None


def test_folds_belong_to_the_one_file_form(tmp_path):
    """The zip of MUTAG has another order, so its folds would judge on the wrong graphs."""
    folds = {i: [i % 3] for i in range(1, 11)}
    for name, fits in (("MUTAG", False), ("IMDB-MULTI", True)):
        home, folder = _home(tmp_path, name)
        _zip(folder / f"{name}.zip", name)
        assert load(name, home=home).folds is None
        _folds(folder / "10fold_idx.tar.gz", folds)
        assert (load(name, home=home).folds is not None) == fits
        (folder / f"{name.replace('-', '')}.txt").write_text(TEXT)
        assert [f.tolist() for f in load(name, home=home).folds] == [[i % 3] for i in range(1, 11)]


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"A": "1, 2\n3\n"}, r"pairs of nodes 1\.\.7"),
        ({"A": "1, 8\n"}, r"pairs of nodes 1\.\.7"),
        ({"A": "0, 1\n"}, r"pairs of nodes 1\.\.7"),
        ({"A": "1, 5\n"}, "edge 1 joins two graphs"),
        ({"A": "1, x\n"}, r"IMDB-BINARY_A\.txt must hold whole numbers only"),
        ({"graph_indicator": "1\n1\n1\n1\n2\n2\n4\n"}, r"graphs 1\.\.3"),
        ({"graph_indicator": "1\n1\n1\n1\n1\n1\n3\n"}, "every graph needs a node, graph 2 has none"),
        ({"node_labels": "1\n"}, r"one node label per node \(7\), got 1"),
        ({"graph_labels": "", "graph_indicator": "", "A": "", "node_labels": ""}, "a graph or more, got none"),
    ],
)
def test_a_damaged_zip_is_refused(changed, match, tmp_path):
    home, folder = _home(tmp_path)
    _zip(folder / "IMDB-BINARY.zip", "IMDB-BINARY", {**ZIP, **changed})

    with pytest.raises(DatasetError, match=match):
        load("imdb-b", home=home)


def test_a_zip_of_something_else_is_refused(tmp_path):
    home, folder = _home(tmp_path)
    path = _zip(folder / "IMDB-BINARY.zip", "../IMDB-BINARY")
    with pytest.raises(DatasetError, match=r"must hold IMDB-BINARY_A\.txt"):
        load("imdb-b", home=home)
    path.write_bytes(b"PK\x03\x04 not really")
    with pytest.raises(DatasetError, match="could not read"):
        load("imdb-b", home=home)


def test_a_zip_bomb_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    home, folder = _home(tmp_path)
    monkeypatch.setattr(tu, "_MOST_BYTES", 1000)
    _zip(folder / "IMDB-BINARY.zip", "IMDB-BINARY", {**ZIP, "A": A + "\n" * 5000})
    assert (folder / "IMDB-BINARY.zip").stat().st_size < 1000

    with pytest.raises(DatasetError, match="must have 1,000 bytes at most, got 5,"):
        load("imdb-b", home=home)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "must start with a line that says how many graphs"),
        ("3 4\n", "must start with a line that says how many graphs"),
        ("0\n", "must start with a line that says how many graphs"),
        ("900000000000\n1 1\n0 0\n", "must start with a line that says how many graphs"),
        (TEXT + "0 0\n", "must have 11 lines for its 3 graphs, got 12"),
        (TEXT[:-4], "must have 11 lines for its 3 graphs, got 10"),
        ("2\n1 1\n0 0\n", "graph 2 of 2 must open with size and label"),
        ("1\n1\n0 0\n", "graph 1 of 1 must open with size and label"),
        ("1\n0 1\n", "graph 1 of 1 must open with size and label"),
        ("1\n2 1\n0 1 1\n0 1 2\n", "neighbours must be numbered within their graph"),
        ("1\n2 1\n0 1 -1\n0 1 0\n", "neighbours must be numbered within their graph"),
        ("1\n2 1\n0 2 1\n0 1 0\n", "must be tag, degree and as many neighbours"),
        ("1\n2 1\n0\n0 1 0\n", "must be tag, degree and as many neighbours"),
    ],
)
def test_a_damaged_text_is_refused(text, match, tmp_path):
    home, folder = _home(tmp_path)
    (folder / "IMDBBINARY.txt").write_text(text)

    with pytest.raises(DatasetError, match=match):
        load("imdb-b", home=home)


def test_folds_are_read_from_regular_members_alone(tmp_path):
    link = tarfile.TarInfo("10fold_idx/test_idx-3.txt")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    outside = tarfile.TarInfo("../../test_idx-3.txt")
    folds = {i: [0] for i in range(1, 11) if i != 3}

    with pytest.raises(DatasetError, match=r"test_idx-1\.txt to test_idx-10\.txt, got the numbers \[1, 2, 4, "):
        tu.read_folds(_folds(tmp_path / "f.tar.gz", folds, link, outside), 3)


@pytest.mark.parametrize("fold", [[3], [-1], []])
def test_folds_of_another_set_are_refused(fold, tmp_path):
    folds = {i: [0] for i in range(1, 11)} | {4: fold}

    with pytest.raises(DatasetError, match=r"fold 4 must name graphs 0\.\.2"):
        tu.read_folds(_folds(tmp_path / "f.tar.gz", folds), 3)


def test_a_broken_archive_of_folds_is_refused(tmp_path):
    (tmp_path / "f.tar.gz").write_bytes(gzip.compress(b"no archive" * 100))
    with pytest.raises(DatasetError, match="could not read"):
        tu.read_folds(tmp_path / "f.tar.gz", 3)
    (tmp_path / "f.tar.gz").write_bytes(gzip.compress(b"\0" * (1 << 25)))
    with pytest.raises(DatasetError, match="bytes at most"):
        tu.read_folds(tmp_path / "f.tar.gz", 3)


def test_the_large_sets_say_where_to_put_them(tmp_path):
    for name in ("REDDIT-BINARY", "REDDIT-MULTI-5K", "REDDIT-MULTI-12K"):
        with pytest.raises(DatasetError, match=f"put the file at .*{name}/{name}.zip"):
            load(name, home=Home(None, tmp_path))


# --------------------------------------------------------------------------- public data


def _fingerprint(graph, atoms):
    """What no renumbering of the nodes changes, fine enough to tell molecules apart."""
    rows = np.repeat(np.arange(graph.n_nodes), graph.degrees)
    color = atoms @ np.arange(1, 8, dtype=np.int64) ** 3
    for _ in range(6):
        around = np.zeros_like(color)
        np.add.at(around, rows, color[graph.targets] ** 2 % 1_000_003)
        color = (31 * color + around) % 1_000_003
    return tuple(np.sort(color).tolist())


@pytest.mark.data
def test_both_forms_of_mutag_hold_the_same_molecules(data_home):
    text = load("MUTAG")
    packed = tu.collection("MUTAG", tu.read_zip(data_home / "MUTAG" / "MUTAG.zip", "MUTAG"))

    def molecules(data):
        parts = zip(data.graphs, data.features, data.labels, strict=True)
        return Counter((int(label), _fingerprint(g, x.astype(np.int64))) for g, x, label in parts)

    assert text.feature_names == packed.feature_names == ("C", "N", "O", "F", "I", "Cl", "Br")
    assert molecules(text) == molecules(packed)
    assert not _same_order(text, packed)


def _same_order(one, other):
    return [g.n_nodes for g in one.graphs] == [g.n_nodes for g in other.graphs]


@pytest.mark.data
@pytest.mark.parametrize("name", tu.FOLDS_FIT_THE_ZIP)
def test_both_forms_are_equal_graph_by_graph_where_the_folds_fit_both(data_home, name):
    text = load(name)
    packed = tu.collection(name, tu.read_zip(data_home / name / f"{name}.zip", name))

    assert _same(text, packed)
    assert np.array_equal(text.labels, packed.labels)


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "graphs", "nodes", "edges", "classes", "partition"),
    [
        ("MUTAG", 188, 3371, 3721, [63, 125], False),
        ("IMDB-BINARY", 1000, 19773, 96531, [500, 500], True),
        ("IMDB-MULTI", 1500, 19502, 98903, [500, 500, 500], True),
        ("PROTEINS", 1113, 43471, 81044, [663, 450], False),
        ("REDDIT-BINARY", 2000, 859254, 995508, [1000, 1000], True),
    ],
)
def test_the_published_counts(data_home, name, graphs, nodes, edges, classes, partition):
    data = load(name)

    assert len(data) == graphs
    assert sum(g.n_nodes for g in data.graphs) == nodes
    assert sum(g.n_edges for g in data.graphs) == edges
    assert np.bincount(data.labels).tolist() == classes
    assert len(data.folds) == 10
    tested = np.sort(np.concatenate(data.folds))
    assert np.array_equal(tested, np.arange(graphs)) == partition
