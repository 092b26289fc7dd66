"""Planetoid files give the published graphs; a hostile file gives an error and nothing else."""

from __future__ import annotations

import collections
import os
import pickle
import pickletools
import struct
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from rae.datasets import Home, load
from rae.datasets.unpickle import STAND_INS, unpickle
from rae.errors import DatasetError

# Ten known nodes, two of them for training; test ids 10, 12 and 13, and 11 is absent, as in Citeseer.
ALLX = sp.csr_matrix(np.eye(10, 6, dtype=np.float32))
TX = sp.csr_matrix(np.array([[0, 0, 0, 0, 0, 2], [0, 3, 0, 0, 0, 0], [0, 0, 0, 0, 4, 0]], np.float32))
ALLY = np.eye(3, dtype=np.int32)[np.arange(10) % 3]
TY = np.eye(3, dtype=np.int32)[[2, 1, 0]]
NEIGHBORS = collections.defaultdict(list, {0: [1, 1, 2], 1: [0, 0], 2: [0, 2], 10: [13], 13: [10], 11: []})


def _parts(**changed):
    parts = {"x": ALLX[:2], "y": ALLY[:2], "tx": TX, "ty": TY, "allx": ALLX, "ally": ALLY, "graph": NEIGHBORS}
    return {**parts, "test.index": b"13\n10\n12\n", **changed}


def _write(folder, **changed):
    (folder / "cora").mkdir()
    for part, value in _parts(**changed).items():
        content = value if isinstance(value, bytes) else pickle.dumps(value, protocol=2)
        (folder / "cora" / f"ind.cora.{part}").write_bytes(content)
    return Home(folder, folder / "cache", {})


def test_the_parts_come_together_in_row_order(tmp_path):
    data = load("cora", home=_write(tmp_path))

    expected = np.vstack([ALLX.toarray(), np.zeros((4, 6))])
    expected[[13, 10, 12]] = TX.toarray()
    assert isinstance(data.features, sp.csr_array)
    assert data.features.dtype == np.float32
    assert np.array_equal(data.features.toarray(), expected)
    assert data.labels.tolist() == [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, -1, 0, 2]
    assert data.labels.dtype == np.int64
    assert list(data.graph.ids) == list(range(14))
    assert (data.graph.n_edges, data.graph.n_isolated) == (3, 9)
    assert data.graph.counts.self_loops == 1


def test_the_split_leaves_out_what_has_no_label(tmp_path):
    split = load("cora", home=_write(tmp_path)).split

    assert split.train.tolist() == [0, 1]
    assert split.val.tolist() == list(range(2, 10))
    assert split.test.tolist() == [10, 12, 13]


def test_a_column_major_and_a_big_endian_array_are_read_as_they_are(tmp_path):
    home = _write(tmp_path, ally=np.asfortranarray(ALLY), ty=TY.astype(">f8"))

    assert load("cora", home=home).labels.tolist() == [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, -1, 0, 2]


# --------------------------------------------------------------------------- hostile files


class _Call:
    """Pickles as a call of any function."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def _matrix(**state):
    """A CSR matrix that pickles with any state, sound or not."""
    matrix = sp.csr_matrix.__new__(sp.csr_matrix)
    matrix.__dict__.update(state)
    return matrix


def _payloads(marker):
    shell = f"touch {marker}"
    code = f"open({str(marker)!r}, 'w').close()"
    objects = np.empty(1, object)
    objects[0] = _Call(os.system, shell)
    return {
        "os.system": _Call(os.system, shell),
        "eval": _Call(eval, code),
        "exec": _Call(exec, code),
        "subprocess": _Call(subprocess.check_output, ["touch", str(marker)]),
        "getattr": _Call(getattr, _Call(__import__, "os"), "system"),
        "numpy loads": _Call(np.load, str(marker), None, True),
        "object array": objects,
        "in a list": [1, 2, _Call(os.system, shell)],
        "in a dict": {0: _Call(os.system, shell)},
        "in a matrix": _matrix(data=_Call(os.system, shell)),
        "through a dtype": _Call(np.dtype, _Call(os.system, shell)),
    }


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize("kind", list(_payloads("x")))
def test_code_in_a_pickle_is_refused_and_does_not_run(kind, protocol, tmp_path):
    marker = tmp_path / "ran"
    hostile = pickle.dumps(_payloads(marker)[kind], protocol=protocol)

    with pytest.raises(DatasetError, match="nothing of it was run"):
        unpickle(hostile, "ind.cora.graph")
    assert not marker.exists()


@pytest.mark.parametrize("part", ["x", "y", "tx", "ty", "allx", "ally", "graph"])
def test_every_part_is_guarded(part, tmp_path):
    marker = tmp_path / "ran"
    home = _write(tmp_path, **{part: _payloads(marker)["os.system"]})

    with pytest.raises(DatasetError, match=f"ind.cora.{part} is a pickle that is not Planetoid's: it names"):
        load("cora", home=home)
    assert not marker.exists()


def test_the_hostile_file_would_run_elsewhere(tmp_path):
    """The proof above is worth something only if the same bytes do harm when they are unpickled."""
    marker, file = tmp_path / "ran", tmp_path / "hostile"
    file.write_bytes(pickle.dumps(_payloads(marker)["os.system"], protocol=2))
    subprocess.run([sys.executable, "-c", f"import pickle; pickle.load(open({str(file)!r}, 'rb'))"], check=True)

    assert marker.exists()


def _raw(*pieces):
    return b"\x80\x02" + b"".join(pieces) + b"."


def _numpy_array(shape: bytes, data: bytes):
    """The instructions for an array of bytes with any shape."""
    empty = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    dtype = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    return empty + b"(K\x01" + shape + dtype + b"\x89" + data + b"tb"


BYTES_4 = b"U\x04abcd"
BOMBS = {
    "a text of 2 GB": _raw(b"T\xff\xff\xff\x7fabc"),
    "an array of 2**31 bytes": _raw(_numpy_array(b"J\xff\xff\xff\x7f\x85", BYTES_4)),
    "a table of 2**62 bytes": _raw(_numpy_array(b"J\xff\xff\xff\x7fJ\xff\xff\xff\x7f\x86", BYTES_4)),
    "a negative length": _raw(_numpy_array(b"J\xff\xff\xff\xff\x85", BYTES_4)),
    "a cube": _raw(_numpy_array(b"K\x01K\x02K\x02\x87", BYTES_4)),
    "one text for many arrays": _raw(
        b"](T" + struct.pack("<i", 4096) + b"x" * 4096 + b"q\x01",
        _numpy_array(b"M\x00\x10\x85", b"h\x01") * 200 + b"e",
    ),
    "an array without content": _raw(b"](cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87Re"),
    "a bare name": _raw(b"cnumpy\nndarray\n"),
    "a kind of number as a value": _raw(b"cnumpy\ndtype\nU\x02i4K\x00K\x01\x87R"),
    "a mark as a value": _raw(b"("),
    "objects as numbers": _raw(b"cnumpy\ndtype\nU\x02O8K\x00K\x01\x87R"),
    "state for a name": _raw(b"c__builtin__\nlist\n}b"),
    "state for a list": _raw(b"]}b"),
    "state given twice": _raw(b"cscipy.sparse.csr\ncsr_matrix\n)\x81}b}b"),
    "a call of a list": _raw(b"]K\x01\x85R"),
    "appending to a tuple": _raw(b")K\x01a"),
    "items for a list": _raw(b"]K\x01K\x01s"),
    "a tuple as a key": _raw(b"})K\x01s"),
    "an odd number of items": _raw(b"}(K\x01u"),
    "text in another code": _raw(b"c_codecs\nencode\nX\x01\x00\x00\x00aX\x05\x00\x00\x00utf-8\x86R"),
    "an outside reference": _raw(b"K\x01Q"),
    "an extension": _raw(b"\x82\x01"),
    "an empty stack": _raw(b""),
    "too few values": _raw(b"K\x01\x86"),
    "no mark": _raw(b"K\x01t"),
    "no mark at all": _raw(b"t"),
    "an unknown slot": _raw(b"h\x07"),
    "a memo slot far out": _raw(b"}r\xff\xff\xff\xff"),
    "a list that is used twice": _raw(b"}(K\x01]q\x01K\x02h\x01u"),
    "a tuple that is used twice": _raw(b")q\x01h\x01\x86"),
    "a tuple that hides behind an empty append": _raw(b"N\x85(eq\x01h\x01\x86"),
    "a tuple that hides behind an empty state": _raw(b"N\x85Nbq\x01h\x01\x86"),
    "nested tuples as a key": _raw(b"}N" + b"\x85" * 100_000 + b"K\x01s"),
    "no end": b"\x80\x02N",
    "nothing": b"",
    "no pickle": b"0 1\n1 2\n",
}


@pytest.mark.parametrize("kind", list(BOMBS))
def test_bombs_and_broken_pickles_are_refused(kind):
    with pytest.raises(DatasetError, match=r"ind\.cora\.x is .*; nothing of it was run"):
        unpickle(BOMBS[kind], "ind.cora.x")


def test_one_text_for_many_arrays_is_not_copied():
    text = b"T" + struct.pack("<i", 1 << 20) + b"x" * (1 << 20) + b"q\x01"
    shape = b"J" + struct.pack("<i", 1 << 20) + b"\x85"
    array, arrays = _numpy_array(shape, b"h\x01"), 6
    tracemalloc.start()
    try:
        with pytest.raises(DatasetError, match="got list"):
            unpickle(_raw(b"](" + text + array * arrays + b"e"), "ind.cora.x")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 5 << 20  # the file, its text twice, and no array


NDARRAY, RECONSTRUCT = b"cnumpy\nndarray\n", b"cnumpy.core.multiarray\n_reconstruct\n"
CSR, DTYPE, LIST = b"cscipy.sparse.csr\ncsr_matrix\n", b"cnumpy\ndtype\n", b"c__builtin__\nlist\n"
DEFAULTDICT, ENCODE = b"ccollections\ndefaultdict\n", b"c_codecs\nencode\n"
ABUSES = {
    "_reconstruct of another class": RECONSTRUCT + CSR + b"K\x00\x85U\x01b\x87R",
    "_reconstruct of a huge shape": RECONSTRUCT + NDARRAY + b"J\xff\xff\xff\x7f\x85U\x01b\x87R",
    "_reconstruct without arguments": RECONSTRUCT + b")R",
    "ndarray called with a shape": NDARRAY + b"J\xff\xff\xff\x7f\x85R",
    "ndarray made without a call": NDARRAY + b"J\xff\xff\xff\x7f\x85\x81",
    "an array made without a call": RECONSTRUCT + b")\x81(K\x01K\x04\x85" + DTYPE + b"U\x02u1\x85R\x89U\x04abcdtb",
    "a dtype with fields": DTYPE + b"]\x85R",
    "a dtype made without a call": DTYPE + b")\x81",
    "a dtype with a hostile state": DTYPE + b"U\x02u1\x85R(K\x03U\x01OtbK\x01\x86",
    "a list called with a text": LIST + b"U\x04abcd\x85R",
    "a defaultdict of another factory": DEFAULTDICT + CSR + b"\x85R",
    "a defaultdict with content": DEFAULTDICT + LIST + b"}\x86R",
    "a matrix called with arguments": CSR + b"K\x01\x85R",
    "a matrix with a state that is no dict": CSR + b")\x81K\x01b",
    "a matrix with the state of its slots": CSR + b")\x81N}U\x05state}s\x86b",
    **{
        f"{how} for the class behind {what}": name + state + b"b"
        for what, name in {
            "ndarray": NDARRAY, "dtype": DTYPE, "_reconstruct": RECONSTRUCT, "csr_matrix": CSR, "list": LIST,
            "defaultdict": DEFAULTDICT, "encode": ENCODE,
        }.items()
        for how, state in {
            "attributes": b"}U\x0c__setstate__K\x01s", "slots": b"N}U\x0c__setstate__K\x01s\x86", "nothing": b"N",
        }.items()
    },
}  # fmt: skip


@pytest.mark.parametrize("kind", list(ABUSES))
def test_allowed_names_cannot_be_abused(kind):
    good = pickle.dumps(ALLX, protocol=2)
    with pytest.raises(DatasetError, match=r"ind\.cora\.x is .*; nothing of it was run"):
        unpickle(_raw(ABUSES[kind]), "ind.cora.x")
    assert np.array_equal(unpickle(good, "ind.cora.x")["data"], ALLX.data)  # no name was changed by the attempt


def test_loading_calls_no_function_of_numpy_or_scipy():
    assert {stand_in.__module__ for stand_in in STAND_INS.values()} == {"rae.datasets.unpickle"}


def test_a_well_made_array_passes_so_the_bombs_fail_for_their_own_reason():
    assert unpickle(_raw(_numpy_array(b"K\x04\x85", BYTES_4)), "a file").tobytes() == b"abcd"
    assert unpickle(_raw(b"}K\x01]K\x02as"), "a file") == {1: [2]}


def test_public_pickles_of_this_kind_need_only_the_allowed_instructions():
    for value in _parts().values():
        if not isinstance(value, bytes):
            content = pickle.dumps(value, protocol=2)
            assert {op.name for op, _, _ in pickletools.genops(content)} & {"GLOBAL"}
            unpickle(content, "a file")


# --------------------------------------------------------------------- parts that do not fit


def _state(**changed):
    state = {"_shape": (10, 6), "data": ALLX.data, "indices": ALLX.indices, "indptr": ALLX.indptr}
    return _matrix(**{**state, **changed})


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"allx": _state(indices=ALLX.indices + 1000)}, "parts do not fit each other"),
        ({"allx": _state(indices=ALLX.indices - 1)}, "parts do not fit each other"),
        ({"allx": _state(indptr=ALLX.indptr[::-1].copy())}, "parts do not fit each other"),
        ({"allx": _state(indptr=ALLX.indptr * 2)}, "parts do not fit each other"),
        ({"allx": _state(data=np.full(6, np.nan))}, "parts do not fit each other"),
        ({"allx": _state(_shape=(10, 1 << 30))}, "parts do not fit each other"),
        ({"allx": _state(_shape=(1 << 30, 6))}, "parts do not fit each other"),
        ({"allx": _state(_shape=(-1, 6))}, "a table of rows and columns"),
        ({"allx": _state(_shape=[10, 6])}, "a table of rows and columns"),
        ({"allx": _state(data=[1])}, "data, indices and indptr as rows of numbers"),
        ({"allx": _state(data=[1.0])}, "instruction BINFLOAT"),
        ({"allx": _state(data="ones")}, "data, indices and indptr as rows of numbers"),
        ({"allx": _state(indices=ALLX.indices.astype(float))}, "data, indices and indptr as rows of numbers"),
        ({"allx": _matrix(data=ALLX.data)}, "a table of rows and columns"),
        ({"allx": _matrix()}, "a table of rows and columns"),
        ({"allx": ALLY}, "must hold a CSR matrix, got ndarray"),
        ({"allx": b"\x80\x02cscipy.sparse.csr\ncsr_matrix\n)\x81."}, "a table of rows and columns"),
        ({"allx": ALLX[:9]}, "allx and ally must have as many rows, got 9 and 10"),
        ({"tx": TX[:, :5]}, "allx and tx must be equally wide, got 6 and 5"),
        ({"ty": TY[:2]}, "tx and ty must have as many rows"),
        ({"y": np.tile(ALLY, (2, 1))}, "y must be the first rows of ally"),
        ({"ty": TY * 2}, "a single 1 in every row"),
        ({"ty": TY[:, 0].copy()}, "one column per class"),
        ({"ty": ALLX[:3]}, "one column per class"),
        ({"ty": [1, 2, 3]}, "expected an array, a CSR matrix, or a list of neighbours for each node, got list"),
        ({"test.index": b"13\n10\n"}, "must name each of the 3 rows of tx once"),
        ({"test.index": b"13\n10\n10\n"}, "must name each of the 3 rows of tx once"),
        ({"test.index": b"13\n10\n9\n"}, "from 10 on"),
        ({"test.index": b"13\n10\n1000000000000\n"}, "from 10 on"),
        ({"test.index": b"13\nten\n9\n"}, "whole numbers only"),
        ({"graph": [1, 2]}, "a list of neighbours for each node"),
        ({"graph": {"a": [1]}}, "a list of neighbours for each node"),
        ({"graph": {0: 1}}, "a list of neighbours for each node"),
        ({"graph": {0: [[1]]}}, "must name neighbours by number"),
        ({"graph": {0: [14]}}, r"must name nodes 0\.\.13, got 14\.\.14"),
        ({"graph": {-1: [1]}}, r"must name nodes 0\.\.13, got -1"),
        ({"graph": ALLX}, "a list of neighbours for each node, got CsrParts"),
        ({"graph": dict.fromkeys(range(14), list(range(14)) * 50)}, "refers again to memo slot"),
    ],
)
def test_parts_that_do_not_fit_are_refused(changed, match, tmp_path):
    with pytest.raises(DatasetError, match=match):
        load("cora", home=_write(tmp_path, **changed))


# --------------------------------------------------------------------------- public data


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "nodes", "edges", "isolated", "words", "classes", "train", "unlabelled"),
    [
        ("cora", 2708, 5278, 0, 1433, 7, 140, 0),
        ("citeseer", 3327, 4552, 48, 3703, 6, 120, 15),
        ("pubmed", 19717, 44324, 0, 500, 3, 60, 0),
    ],
)
def test_the_published_counts(data_home, name, nodes, edges, isolated, words, classes, train, unlabelled):
    data = load(name)

    assert (data.graph.n_nodes, data.graph.n_edges, data.graph.n_isolated) == (nodes, edges, isolated)
    assert data.features.shape == (nodes, words)
    assert data.n_classes == classes
    assert (len(data.split.train), len(data.split.val), len(data.split.test)) == (train, 500, 1000)
    absent = np.flatnonzero(data.labels == -1)
    assert len(absent) == unlabelled
    assert data.features[absent].nnz == 0
    for part in (data.split.train, data.split.val, data.split.test):
        assert not np.isin(absent, part).any()
    assert np.array_equal(np.bincount(data.labels[data.split.train]), np.full(classes, train // classes))


@pytest.mark.data
def test_self_loops_and_published_list_lengths(data_home):
    assert load("citeseer").graph.counts.rows // 2 == 4732
    assert load("cora").graph.counts.rows // 2 == 5429
    assert load("citeseer").graph.counts.self_loops == 2 * 124
