"""Graphs from .npz files: words, classes and ten splits; nothing but plain numbers is read."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest

from rae.datasets import Home, heterophilous, load
from rae.errors import DatasetError

MASK = np.eye(3, dtype=bool)[:, [0, 1, 2, 0]]  # a part has a node or two of four


def _arrays(**changes):
    words = np.array([[0, 1], [1, 0], [0, 0], [1, 1]], np.float32)
    arrays = {
        "edges": np.array([[0, 1], [1, 2], [2, 3]]),
        "node_features": words,
        "node_labels": np.array([1, 0, 1, 2]),
        "train_masks": MASK[[0, 1]],
        "val_masks": np.asfortranarray(MASK[[1, 2]]),  # as the public files have them
        "test_masks": MASK[[2, 0]],
    }
    return {name: value for name, value in (arrays | changes).items() if value is not None}


def _home(tmp_path, content=None, **changes):
    (tmp_path / "heterophilous").mkdir()
    if content is None:
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **_arrays(**changes))
        content = buffer.getvalue()
    (tmp_path / "heterophilous" / "chameleon_filtered.npz").write_bytes(content)
    return Home(tmp_path, tmp_path / "cache", {})


def test_words_classes_and_splits(tmp_path):
    data = load("chameleon", home=_home(tmp_path))

    assert data.graph.edges().tolist() == [[0, 1], [1, 2], [2, 3]]
    assert data.features.toarray().tolist() == [[0, 1], [1, 0], [0, 0], [1, 1]]
    assert data.labels.tolist() == [1, 0, 1, 2]
    assert data.split is data.splits[0]
    parts = [[part.tolist() for part in (s.train, s.val, s.test)] for s in data.splits]
    assert parts == [[[0, 3], [1], [2]], [[1], [2], [0, 3]]]


def _bomb(name, member):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for key, value in _arrays().items():
            one = io.BytesIO()
            np.save(one, value)
            archive.writestr(f"{key}.npy", member if key == name else one.getvalue())
    return buffer.getvalue()


def _header(shape, descr="<i8"):
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"shape": shape, "fortran_order": False, "descr": descr})
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"edges": None}, "must hold the arrays edges, node_features"),
        ({"edges": np.array([[0, 4]])}, r"edges between nodes 0\.\.3"),
        ({"edges": np.array([[0, 1, 2]])}, r"edges between nodes 0\.\.3"),
        ({"edges": np.array([[0.5, 1]])}, "edges holds 2 dimensions of float64"),
        ({"node_labels": np.array([[1]])}, "node_labels holds 2 dimensions"),
        ({"node_labels": np.array([-1, 0, 0, 1])}, "a class from 0 on"),
        ({"node_labels": np.array(["a"] * 4, object)}, "must hold plain numbers or text, got .\\|O"),
        ({"node_features": np.zeros((3, 2), np.float32)}, "finite features for each of its 4 nodes"),
        ({"node_features": np.full((4, 2), np.inf, np.float32)}, "finite features"),
        ({"node_features": np.zeros((4, 0), np.float32)}, "finite features"),
        ({"train_masks": MASK[[1, 1]]}, "whose parts share none"),
        ({"train_masks": MASK[:1]}, "whose parts share none"),
        ({"train_masks": np.zeros((2, 4), bool)}, "nodes in every part of every split"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(changes, match, tmp_path):
    with pytest.raises(DatasetError, match=match):
        load("chameleon", home=_home(tmp_path, **changes))


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"not a zip", "could not read"),
        (_bomb("edges", b""), "could not read"),
        (_bomb("edges", _header((1 << 40, 2))), "says it has the shape"),
        (_bomb("edges", _header((-1, -2))), "could not read"),
        (_bomb("edges", b"\x93NUMPY\x03\x00abc"), "the header of its array is cut short"),
        (_bomb("edges", _header((1, 2), "|O") + b"x" * 16), "must hold plain numbers or text"),
    ],
)
def test_hostile_files_are_refused_and_nothing_large_is_made(content, match, tmp_path):
    with pytest.raises(DatasetError, match=match):
        load("chameleon", home=_home(tmp_path, content))


def test_a_truncated_file_is_refused(tmp_path):
    with pytest.raises(DatasetError, match="could not read"):
        load("chameleon", home=_home(tmp_path, _bomb("edges", b"")[:-40]))


def test_a_member_larger_than_any_public_one_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(heterophilous, "_MOST_BYTES", 2000)
    with pytest.raises(DatasetError, match="2,000 are the most"):
        load("chameleon", home=_home(tmp_path, edges=np.zeros((500, 2), np.int64)))


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "nodes", "edges", "words", "sizes"),
    [
        ("chameleon", 890, 8_854, 2_325, [242, 134, 209, 164, 141]),
        ("squirrel", 2_223, 46_998, 2_089, [756, 516, 397, 321, 233]),
    ],
)
def test_the_published_counts(data_home, name, nodes, edges, words, sizes):
    data = load(name)

    assert (data.graph.n_nodes, data.graph.n_edges, data.features.shape[1]) == (nodes, edges, words)
    assert np.bincount(data.labels).tolist() == sizes
    assert len(data.splits) == 10
    assert all(len(s.train) + len(s.val) + len(s.test) == nodes for s in data.splits)
