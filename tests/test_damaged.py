"""Every reader of every kind of file refuses damage in one sentence: no foreign exception, no hang."""

from __future__ import annotations

import json
import struct
import tracemalloc
import warnings

import numpy as np
import pytest

import damaged
from rae import RAE, Graph
from rae.errors import CheckpointError, CollapseWarning, FeatureError, FileError, GraphError, ScaleWarning
from rae.io import read_edges, read_features
from rae.storage.tensors import signed

FILES = 25  # of each kind; the script runs 100,000 in all
KINDS = {kind.name: kind for kind in damaged.kinds()}


@pytest.mark.parametrize("name", KINDS)
def test_a_damaged_file_is_read_or_refused_in_one_sentence(tmp_path, name):
    sample = damaged.Sample(KINDS[name], tmp_path)
    outcomes = [sample.outcome(f"{name} {number}") for number in range(FILES)]

    assert set(outcomes) <= {"read", "refused"}
    assert "refused" in outcomes or name in NEVER_REFUSED


NEVER_REFUSED = ("parts manifest", "part", "cache key", "cache vectors")  # what is damaged there is made anew


def test_the_script_sees_a_foreign_exception(tmp_path):
    """The outcome is not "refused" by accident: a reader that lets an exception through is told by its name."""

    def read(folder):
        json.loads((folder / "t.jsonl").read_text().splitlines()[0])

    sample = damaged.Sample(damaged.Kind("plain", damaged.write_ledger, "t.jsonl", read, damaged.edit_lines), tmp_path)
    outcomes = {sample.outcome(f"plain {number}") for number in range(20)}
    assert any("Error at ?" in outcome for outcome in outcomes)


# ---------------------------------------------------------------------------------------------- model files

GRAPH = Graph.from_edges(damaged.edges())
SMALL = {"dims": (4,), "fanout": (2,), "steps": 0}


def rewritten(path, change, *, sign=True):
    """The model file with another header, whose checksum is right again."""
    from safetensors.numpy import load_file

    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    outer, body = json.loads(data[8 : 8 + size]), data[8 + size :]
    inner = json.loads(outer["__metadata__"]["rae"])
    change(inner)
    outer["__metadata__"]["rae"] = signed(inner, load_file(path)) if sign else json.dumps(inner)
    text = json.dumps(outer).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


@pytest.mark.parametrize("settings", [{}, SMALL], ids=["exact", "trained"])
def test_every_flipped_bit_of_a_weight_is_found(tmp_path, settings):
    path = tmp_path / "m"
    RAE(**settings).fit(GRAPH).save(path)
    data = path.read_bytes()
    body = 8 + struct.unpack("<Q", data[:8])[0]
    for at in np.random.default_rng(0).integers(body, len(data), 20):
        changed = bytearray(data)
        changed[at] ^= 1
        path.write_bytes(changed)
        with pytest.raises(CheckpointError, match="has changed since it was written"):
            RAE.load(path)


def test_a_model_file_without_a_checksum_is_read(tmp_path):
    """Files from before there were checksums."""
    model = RAE().fit(GRAPH)
    model.save(tmp_path / "m")
    rewritten(tmp_path / "m", lambda header: header.pop("sha256"), sign=False)
    assert b"sha256" not in (tmp_path / "m").read_bytes()
    assert np.array_equal(RAE.load(tmp_path / "m").transform(GRAPH), model.transform(GRAPH))


@pytest.mark.parametrize(
    "change",
    [
        lambda header: header["config"].update(degree_cap=2_000_000),
        lambda header: header["config"].update(degree_cap=2_000_000) or header.update(n_features=2_000_001),
        lambda header: header["config"].update(dims=[2_000_000], fanout=[2]),
    ],
    ids=["cap", "cap and features", "dims"],
)
def test_a_huge_model_is_refused_before_memory_is_taken(tmp_path, change):
    RAE(**SMALL).fit(GRAPH).save(tmp_path / "m")
    rewritten(tmp_path / "m", change)
    tracemalloc.start()
    try:
        with pytest.raises(CheckpointError, match="does not hold the model its header describes"):
            RAE.load(tmp_path / "m")
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_nested_json_is_refused_in_a_sentence(tmp_path):
    RAE().fit(GRAPH).save(tmp_path / "m")
    data = (tmp_path / "m").read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    outer = json.loads(data[8 : 8 + size])
    outer["__metadata__"]["rae"] = "[" * 100_000
    text = json.dumps(outer).encode()
    (tmp_path / "m").write_bytes(struct.pack("<Q", len(text)) + text + data[8 + size :])
    with pytest.raises(CheckpointError, match=r"the header of .* is damaged"):
        RAE.load(tmp_path / "m")


# ---------------------------------------------------------------------------------------------- odd features

N = GRAPH.n_nodes
X = np.random.default_rng(0).normal(size=(N, 5)).astype(np.float32)


@pytest.mark.parametrize("settings", [{}, {**SMALL, "steps": 2}], ids=["exact", "trained"])
def test_features_beyond_what_products_hold_are_refused(settings):
    with pytest.raises(FeatureError, match=r"from -1e\+18 to 1e\+18"):
        RAE(**settings).fit(GRAPH, features=X * np.float32(1e30))


def test_an_exact_model_does_not_depend_on_the_units_of_a_column():
    large = X * np.array([1, 1, 1e6, 1, 1], np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        z, other = (RAE().fit_transform(GRAPH, features=x) for x in (X, large))
    np.testing.assert_allclose(np.abs(other), np.abs(z), atol=2e-3)


def test_a_trained_model_says_that_a_column_outweighs_the_others():
    large = X * np.array([1, 1, 1e6, 1, 1], np.float32)
    with pytest.warns(ScaleWarning, match=r"'c' varies by .*e\+0[56], others by .*fit the exact model"):
        RAE(**SMALL).fit(GRAPH, features=large, feature_names=list("abcde"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RAE(**SMALL).fit(GRAPH, features=X)


@pytest.mark.parametrize("settings", [{}, SMALL, {**SMALL, "steps": 2}], ids=["exact", "untrained", "trained"])
@pytest.mark.parametrize("value", [0.0, 7.0])
def test_features_that_are_the_same_everywhere_are_warned_of(settings, value):
    with pytest.warns(CollapseWarning):
        RAE(**settings).fit(GRAPH, features=np.full((N, 3), value, np.float32))


# ----------------------------------------------------------------------------------------------------- JSON


@pytest.mark.parametrize(
    "text", ['{"a": ["b"]}', '[["a", "b"]]', ' {\n"a": 1}', '[{"source": 1}]', "{}", "[]", "[", "{"]
)
@pytest.mark.parametrize("name", ["e.json", "e.csv"])
def test_json_is_no_table_of_edges(tmp_path, text, name):
    (tmp_path / name).write_text(text)
    with pytest.raises(FileError, match=r"expected a table, .* is JSON; save it as Parquet or CSV"):
        read_edges(tmp_path / name)


def test_ids_in_brackets_are_no_json(tmp_path):
    (tmp_path / "e.csv").write_text("[a],{b}\n{b},[c]\n")
    assert list(read_edges(tmp_path / "e.csv", header=False).ids) == ["[a]", "[c]", "{b}"]


def test_two_columns_of_one_name_are_refused(tmp_path):
    import pyarrow as pa

    table = pa.table([[1, 2], [2, 3], [3, 4]], names=["source", "target", "target"])
    (tmp_path / "e.arrow").write_bytes(damaged.arrow_bytes(table))
    with pytest.raises((FileError, GraphError), match=r"columns (are )?called 'target'"):
        read_edges(tmp_path / "e.arrow")


@pytest.mark.parametrize("form", damaged.SPARSE)
def test_every_sparse_format_of_scipy_is_read(tmp_path, form):
    (tmp_path / "x.npz").write_bytes(damaged.sparse_bytes(form))
    assert np.array_equal(read_features(tmp_path / "x.npz").toarray(), damaged.matrix() > 0.5)
