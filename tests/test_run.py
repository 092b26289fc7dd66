"""The run folder: complete or not a run, never overwritten by accident, the same bytes for the same seed."""

from __future__ import annotations

import json

import numpy as np
import pytest

from rae import RAE, Graph
from rae.errors import CheckpointError, FeatureError, RunError
from rae.run import EMBEDDINGS, INFO, MODEL, OURS, Run, check_free, load_model, summary


@pytest.fixture(scope="module")
def graph():
    hub = [(0, i) for i in range(1, 7)]
    return Graph.from_edges([*hub, (1, 2), (2, 3), (6, 7), (7, 8), (8, 9), (9, 10), (10, 11)])


@pytest.fixture(scope="module")
def model(graph):
    return RAE(dims=(8, 3), fanout=(3, 3), steps=4, batch_size=12, record_every=2).fit(graph)


def made(folder, model, graph, **rules):
    z = model.transform(graph)
    return Run.create(folder, model, graph.id_column, z, counts={"nodes": 12}, timings={"fit": 0.123456}, **rules)


def test_a_run_gives_back_what_was_put_in(tmp_path, model, graph):
    run = made(tmp_path / "deep" / "run", model, graph, inputs={"edges": {"path": "e.csv", "bytes": 9}})
    opened = Run.open(tmp_path / "deep" / "run")
    ids, z = opened.embeddings()

    assert ids.to_pylist() == list(range(12))
    np.testing.assert_array_equal(z, model.transform(graph))
    np.testing.assert_array_equal(opened.model().transform(graph), z)
    assert opened.info == run.info
    assert opened.info["counts"] == {"nodes": 12, "width": 11}
    assert opened.info["timings"] == {"fit": 0.1235}
    assert opened.info["settings"]["dims"] == [8, 3]
    assert opened.info["training"]["within"]["steps"] == 4
    assert {"rae", "python", "torch", "numpy"} <= set(opened.info["versions"])
    assert set(opened.files()) == {MODEL, EMBEDDINGS, INFO}


def test_the_keys_of_run_json_are_sorted(tmp_path, model, graph):
    made(tmp_path / "run", model, graph)
    pairs: list[list[str]] = []
    json.loads((tmp_path / "run" / INFO).read_text(), object_pairs_hook=lambda kv: pairs.append([k for k, _ in kv]))

    assert all(keys == sorted(keys) for keys in pairs)


def test_nothing_of_this_machine_is_in_run_json(tmp_path, model, graph):
    made(tmp_path / "run", model, graph)

    assert str(tmp_path) not in (tmp_path / "run" / INFO).read_text()


def test_the_same_seed_gives_the_same_bytes(tmp_path, model, graph):
    made(tmp_path / "a", model, graph)
    again = RAE(model.config).fit(graph)
    made(tmp_path / "b", again, graph)

    for name in (MODEL, EMBEDDINGS):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_run_is_not_overwritten_without_force(tmp_path, model, graph):
    made(tmp_path, model, graph)
    before = (tmp_path / INFO).read_bytes()
    with pytest.raises(RunError, match=r"holds a run already.*--force"):
        made(tmp_path, model, graph)
    assert (tmp_path / INFO).read_bytes() == before


def test_force_replaces_our_files_and_leaves_the_others(tmp_path, model, graph):
    made(tmp_path, model, graph)
    (tmp_path / "thesis.txt").write_text("mine")
    (tmp_path / "page.html").write_text("an old page")
    made(tmp_path, model, graph, force=True)

    assert (tmp_path / "thesis.txt").read_text() == "mine"
    assert not (tmp_path / "page.html").exists()
    assert Run.open(tmp_path).files().keys() == {MODEL, EMBEDDINGS, INFO}


def test_a_folder_with_other_files_is_refused_without_force(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(RunError, match="is not empty"):
        check_free(tmp_path)
    check_free(tmp_path, force=True)


def test_a_file_or_a_blocking_folder_is_refused_even_with_force(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="must be a folder"):
        check_free(tmp_path / "file", force=True)
    (tmp_path / "run" / MODEL).mkdir(parents=True)
    with pytest.raises(RunError, match="is a folder where a file"):
        check_free(tmp_path / "run", force=True)


def test_an_empty_or_absent_folder_is_free(tmp_path):
    check_free(tmp_path)
    check_free(tmp_path / "nothing" / "yet")


def test_a_run_without_its_last_file_is_incomplete(tmp_path, model, graph):
    made(tmp_path, model, graph)
    (tmp_path / INFO).unlink()
    with pytest.raises(RunError, match="incomplete"):
        Run.open(tmp_path)
    with pytest.raises(RunError, match="incomplete run; pass --force"):
        check_free(tmp_path)


def test_a_failure_while_writing_leaves_an_incomplete_run_not_a_wrong_one(tmp_path, model, graph):
    made(tmp_path, model, graph)
    z = model.transform(graph)
    with pytest.raises(FeatureError):
        Run.create(tmp_path, model, graph.id_column[:3], z, force=True)
    with pytest.raises(RunError, match="incomplete"):
        Run.open(tmp_path)


def test_what_is_no_run_is_refused_by_what_it_is(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="found a file"):
        Run.open(tmp_path / "file")
    with pytest.raises(RunError, match="found nothing"):
        Run.open(tmp_path / "absent")
    with pytest.raises(RunError, match="is not a run folder"):
        Run.open(tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not what `rae fit` writes"),
        ("[]", "is not what `rae fit` writes"),
        ('{"name": "left-pad"}', "another program"),
        ('{"format": "rae run", "format_version": 2}', "format version 2.*up to 1.*upgrade"),
        ('{"format": "rae run"}', "format version None"),
    ],
)
def test_a_foreign_or_newer_run_json_is_refused(tmp_path, text, words):
    (tmp_path / INFO).write_text(text)
    with pytest.raises(RunError, match=words):
        Run.open(tmp_path)


def test_bytes_that_are_no_text_are_refused(tmp_path):
    (tmp_path / INFO).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RunError, match="is not what"):
        Run.open(tmp_path)


def test_a_model_comes_from_a_folder_or_from_a_file(tmp_path, model, graph):
    made(tmp_path, model, graph)
    z = model.transform(graph)

    np.testing.assert_array_equal(load_model(tmp_path).transform(graph), z)
    np.testing.assert_array_equal(load_model(tmp_path / MODEL).transform(graph), z)
    with pytest.raises(CheckpointError):
        load_model(tmp_path / INFO)
    with pytest.raises(RunError):
        load_model(tmp_path / "absent")


def test_the_summary_has_one_entry_per_fit():
    def record(loss: str, step: int, value: float) -> dict[str, object]:
        return {"loss": loss, "step": step, "value": value, "rank": 2.0, "cosine": 0.5}

    told = summary([record("within", 10, 3.0), record("within", 20, 1.0), record("neighbor", 20, 2.0)])

    assert told["within"] == {"first": 3.0, "last": 1.0, "steps": 20, "rank": 2.0, "cosine": 0.5}
    assert told["neighbor"]["first"] == told["neighbor"]["last"] == 2.0
    assert summary([]) == {}


def test_only_names_of_ours_are_ever_removed():
    assert OURS[0] == INFO  # removed first: from then on the run is incomplete
