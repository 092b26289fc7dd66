"""Part files are whole or absent, and believed only when their checksum is right."""

from __future__ import annotations

import json

import numpy as np
import pytest

from rae.errors import FileError
from rae.memory import forget, mapped
from rae.storage import parts
from rae.storage.parts import Parts, digest_of

ABOUT = {"model": "m", "rows": 4}
A = np.arange(12, dtype=np.float32).reshape(4, 3)
B = np.arange(4, dtype=np.float16).reshape(4, 1)


@pytest.fixture
def work(tmp_path):
    return Parts.open(tmp_path / "z.parts", ABOUT)


def again(work):
    """The same folder, as another process would open it."""
    return Parts.open(work.folder, ABOUT)


def test_arrays_come_back_from_any_position(work):
    work.write("a", [A, B])
    late = np.empty((4, 1), np.float16)
    again(work).read_into("a", late, A.nbytes)

    assert np.array_equal(work.read("a", (4, 3)), A)
    assert np.array_equal(late, B)
    assert work.has("a")
    assert not work.has("b")


def test_columns_and_slices_are_written_in_c_order(work):
    work.write("a", [A[:, 1:], A[:, :1]])

    assert work.read("a", (4, 2)).tolist() == A[:, 1:].tolist()


def test_the_same_work_finds_its_parts_and_other_work_starts_anew(work):
    work.write("a", [A])

    assert again(work).has("a")
    other = Parts.open(work.folder, ABOUT | {"rows": 5})
    assert not other.has("a")
    assert [p.name for p in work.folder.iterdir()] == ["manifest.json"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda b: b[:-1],
        lambda b: b[:10],
        lambda b: b"",
        lambda b: b + b"x",
        lambda b: bytes([b[0] ^ 1]) + b[1:],
        lambda b: b[:-1] + bytes([b[-1] ^ 1]),
    ],
)
def test_a_damaged_part_is_as_good_as_absent(work, damage, caplog):
    work.write("a", [A])
    path = work.folder / "a.part"
    path.write_bytes(damage(path.read_bytes()))

    assert not again(work).has("a")
    assert "damaged or foreign" in caplog.text
    assert not path.exists()


def test_a_part_under_another_name_or_of_another_folder_is_refused(work, tmp_path):
    work.write("a", [A])
    (work.folder / "b.part").write_bytes((work.folder / "a.part").read_bytes())
    other = Parts.open(tmp_path / "other.parts", {"model": "another"})
    (other.folder / "a.part").write_bytes((work.folder / "a.part").read_bytes())

    assert not work.has("b")
    assert not other.has("a")
    with pytest.raises(FileError, match="missing or damaged"):
        other.read("a", (4, 3))


def test_more_than_a_part_holds_cannot_be_read(work):
    work.write("a", [A])
    with pytest.raises(FileError, match="too short"):
        work.read("a", (40, 3))


def test_a_part_that_shrinks_while_it_is_checked_is_refused(work, monkeypatch):
    work.write("a", [A])
    path = work.folder / "a.part"
    monkeypatch.setattr(parts, "CHUNK", 8)
    monkeypatch.setattr(type(path), "stat", lambda *_, **__: type("S", (), {"st_size": 10_000, "st_mode": 0o100644})())

    assert not again_checked(work, path)


def again_checked(work, path):
    return Parts(work.folder, work.fingerprint)._verify("a", path)


@pytest.mark.parametrize("manifest", ["", "{}", "[]", '{"format": "rae parts", "format_version": 99}', "\x00"])
def test_a_manifest_that_is_not_ours_means_starting_anew(work, manifest):
    work.write("a", [A])
    (work.folder / "manifest.json").write_text(manifest)

    assert not again(work).has("a")
    assert json.loads((work.folder / "manifest.json").read_text())["about"] == ABOUT


@pytest.mark.parametrize("name", ["thesis.tex", "a.part"])
def test_a_folder_of_others_is_refused_and_left_alone(tmp_path, name):
    folder = tmp_path / "z.parts"
    folder.mkdir()
    (folder / name).write_text("mine")

    with pytest.raises(FileError, match=f"must be free for intermediate files, it holds {name}"):
        Parts.open(folder, ABOUT)
    assert (folder / name).read_text() == "mine"


def test_a_run_killed_while_it_wrote_its_manifest_starts_anew(tmp_path):
    folder = tmp_path / "z.parts"
    folder.mkdir()
    (folder / f".{'0' * 32}.tmp").write_text('{"format": "rae pa')

    assert not Parts.open(folder, ABOUT).has("a")
    assert [path.name for path in folder.iterdir()] == ["manifest.json"]


def test_a_file_in_the_way_is_refused_and_an_empty_folder_taken(tmp_path):
    (tmp_path / "z.parts").write_text("mine")
    (tmp_path / "y.parts").mkdir()

    with pytest.raises(FileError, match="it is a file"):
        Parts.open(tmp_path / "z.parts", ABOUT)
    assert not Parts.open(tmp_path / "y.parts", ABOUT).has("a")


def test_removing_takes_the_parts_and_what_a_killed_run_left(work):
    work.write("a", [A])
    (work.folder / ".output.tmp").write_text("half a file")
    work.drop("a")

    assert not work.has("a")
    work.remove()
    work.remove()
    assert not work.folder.exists()


def test_a_mapped_array_is_known_read_digested_and_forgotten(tmp_path):
    np.save(tmp_path / "a.npy", A)
    array = np.asarray(np.load(tmp_path / "a.npy", mmap_mode="r"))[1:]

    forget(array, A)
    assert mapped(array) is not None
    assert mapped(A) is None
    assert array.tolist() == A[1:].tolist()
    assert digest_of(array) == digest_of(A[1:].copy())
    assert digest_of(A) != digest_of(A.T.copy())
