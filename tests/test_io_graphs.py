"""The graph folder: it gives the graph back, and its content is checked."""

from __future__ import annotations

import json
import uuid

import numpy as np
import pytest

from plain import random_graph
from rae import RAE, Graph
from rae.errors import FileError
from rae.graph.folder import checksum, is_graph_folder, open_graph, write_graph


@pytest.fixture
def folder(tmp_path):
    write_graph(tmp_path / "g", Graph.from_edges([("ann", "bob"), ("bob", "cid"), ("cid", "cid")]))
    return tmp_path / "g"


def test_a_graph_comes_back_from_its_folder(folder):
    graph = open_graph(folder, verify=True)

    assert list(graph.ids) == ["ann", "bob", "cid"]
    assert graph.neighbors(1).tolist() == [0, 2]
    assert graph.counts.self_loops == 1
    assert is_graph_folder(folder)
    assert not is_graph_folder(folder.parent)


def test_ids_of_an_extension_type_come_back(tmp_path):
    a, b = uuid.uuid4(), uuid.uuid4()
    write_graph(tmp_path / "g", Graph.from_edges([(a, b)]))

    assert open_graph(tmp_path / "g").rows([a, b]).tolist() == Graph.from_edges([(a, b)]).rows([a, b]).tolist()


def test_a_mapped_graph_gives_the_same_vectors(tmp_path):
    graph = random_graph(200, 500)
    write_graph(tmp_path / "g", graph)

    model = RAE(dims=(8, 4), fanout=(3, 3), steps=4)
    assert np.array_equal(model.fit_transform(graph), model.fit_transform(open_graph(tmp_path / "g")))


def test_the_same_graph_gives_the_same_bytes_and_replaces_the_old_one(folder, tmp_path):
    first = {f.name: f.read_bytes() for f in folder.iterdir()}
    write_graph(folder, random_graph(9, 12))
    write_graph(folder, Graph.from_edges([("ann", "bob"), ("bob", "cid"), ("cid", "cid")]))

    assert {f.name: f.read_bytes() for f in folder.iterdir()} == first


def _info(folder, **changes):
    info = json.loads((folder / "graph.json").read_text())
    (folder / "graph.json").write_text(json.dumps({**info, **changes}))


def _array(folder, name, **changes):
    arrays = json.loads((folder / "graph.json").read_text())["arrays"]
    _info(folder, arrays={**arrays, name: {**arrays[name], **changes}})


def _version_1(folder):
    """Rewrite graph.json as version 1 had it."""
    info = json.loads((folder / "graph.json").read_text())
    sha256 = {name: array["sha256"] for name, array in info["arrays"].items()}
    fields = {name: info[name] for name in ("format", "n_nodes", "n_edges", "counts")}
    (folder / "graph.json").write_text(json.dumps({**fields, "format_version": 1, "sha256": sha256}))


def test_the_folder_describes_its_arrays_and_edges(folder):
    info = json.loads((folder / "graph.json").read_text())

    assert info["format_version"] == 2
    assert (info["directed"], info["weights"]) == (False, None)
    assert {name: (array["dtype"], array["shape"]) for name, array in info["arrays"].items()} == {
        "offsets.npy": ("int64", [4]),
        "targets.npy": ("int32", [4]),
        "ids.arrow": ("string", [3]),
    }
    assert all(array["sha256"] == checksum(folder / name) for name, array in info["arrays"].items())


def test_a_folder_of_version_1_opens(folder):
    before = open_graph(folder)
    _version_1(folder)
    graph = open_graph(folder, verify=True)

    assert graph.counts == before.counts
    assert graph.id_column.equals(before.id_column)
    assert np.array_equal(graph.targets, before.targets)
    np.save(folder / "targets.npy", np.array([2, 0, 2, 1], np.int32))
    with pytest.raises(FileError, match=r"targets.npy has changed"):
        open_graph(folder, verify=True)


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (lambda f: (f / "graph.json").unlink(), "incomplete"),
        (lambda f: (f / "graph.json").write_text("{"), "not what rae writes"),
        (lambda f: (f / "graph.json").write_text("[]"), "not what rae writes"),
        (lambda f: _info(f, format_version=99), "upgrade rae"),
        (lambda f: _info(f, arrays={}), "graph.json: .* (is missing|must be an object)"),
        (lambda f: _info(f, arrays=None), "graph.json: .* (is missing|must be an object)"),
        (lambda f: _info(f, format_version=1), "graph.json: .* (is missing|must be an object)"),
        (lambda f: _array(f, "targets.npy", dtype="int64"), "do not fit together"),
        (lambda f: _array(f, "ids.arrow", shape=[4]), "do not fit together"),
        (lambda f: _info(f, directed=True), "directed does not go with its channels"),
        (lambda f: _info(f, weights="weights.npy"), "weights must be an object or null"),
        (lambda f: _info(f, n_nodes=7), "do not fit together"),
        (lambda f: _info(f, counts={"rows": "many"}), "damaged"),
        (lambda f: (f / "targets.npy").unlink(), "damaged"),
        (lambda f: (f / "ids.arrow").write_bytes(b"ARROW1 nonsense"), "damaged"),
        (lambda f: np.save(f / "targets.npy", np.array([1, 0, 2, 99], np.int32)), "do not fit together"),
        (lambda f: np.save(f / "targets.npy", np.array([1, 0, 2, -1], np.int32)), "do not fit together"),
        (lambda f: np.save(f / "offsets.npy", np.array([0, 9, 3, 4])), "do not fit together"),
        (lambda f: np.save(f / "offsets.npy", np.array([{}], object)), "damaged"),
    ],
)
@pytest.mark.parametrize("chunk", [1, 1 << 20])
def test_a_damaged_or_hostile_folder_is_refused(folder, harm, says, chunk, monkeypatch):
    monkeypatch.setattr("rae.graph.folder.CHUNK", chunk)
    harm(folder)
    with pytest.raises(FileError, match=says):
        open_graph(folder)


def test_verify_notices_a_changed_byte(folder):
    np.save(folder / "targets.npy", np.array([2, 0, 2, 1], np.int32))
    open_graph(folder)
    with pytest.raises(FileError, match=r"targets.npy has changed"):
        open_graph(folder, verify=True)


def test_a_graph_is_not_written_over_a_file(tmp_path):
    (tmp_path / "file").write_text("precious")
    with pytest.raises(FileError, match="it is a file"):
        write_graph(tmp_path / "file", random_graph(3, 4))
    with pytest.raises(FileError, match="no graph folder"):
        open_graph(tmp_path)
