"""The run folder: complete or refused, never overwritten without force, the same bytes for the same seed."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
import scipy.sparse as sp

from rae import RAE, FeatureTable, Graph
from rae.errors import CheckpointError, FeatureError, FileError, RunError
from rae.graph.folder import checksum
from rae.io.embeddings import embeddings_model
from rae.run import Run, load_model, model_checksum
from rae.run_folder import DENSE, EMBEDDINGS, GRAPH, INFO, MODEL, PAGE, RUN_FILES, SPARSE, check_free, summary
from rae.updates import GRAPH_FILES


@pytest.fixture(scope="module")
def graph():
    hub = [(0, i) for i in range(1, 7)]
    return Graph.from_edges([*hub, (1, 2), (2, 3), (6, 7), (7, 8), (8, 9), (9, 10), (10, 11)])


@pytest.fixture(scope="module")
def model(graph):
    return RAE(dims=(8, 3), fanout=(3, 3), steps=4, batch_size=12, record_every=2).fit(graph)


def write_run(folder, model, graph_of_run, **options):
    z = model.transform(graph_of_run)
    counts, timings = {"nodes": 12}, {"fit": 0.123456}
    return Run.create(folder, model, graph_of_run.id_column, z, counts=counts, timings=timings, **options)


def test_a_run_returns_what_was_written(tmp_path, model, graph):
    run = write_run(tmp_path / "deep" / "run", model, graph, inputs={"edges": {"path": "e.csv", "bytes": 9}})
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
    write_run(tmp_path / "run", model, graph)
    pairs: list[list[str]] = []
    json.loads((tmp_path / "run" / INFO).read_text(), object_pairs_hook=lambda kv: pairs.append([k for k, _ in kv]))

    assert all(keys == sorted(keys) for keys in pairs)


def test_nothing_of_this_machine_is_in_run_json(tmp_path, model, graph):
    write_run(tmp_path / "run", model, graph)

    assert str(tmp_path) not in (tmp_path / "run" / INFO).read_text()


def test_the_same_seed_gives_the_same_bytes(tmp_path, model, graph):
    write_run(tmp_path / "a", model, graph)
    again = RAE(model.config).fit(graph)
    write_run(tmp_path / "b", again, graph)

    for name in (MODEL, EMBEDDINGS):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_run_is_not_overwritten_without_force(tmp_path, model, graph):
    write_run(tmp_path, model, graph)
    before = (tmp_path / INFO).read_bytes()
    with pytest.raises(RunError, match=r"holds a run already; choose another out, or pass force=True"):
        write_run(tmp_path, model, graph)
    assert (tmp_path / INFO).read_bytes() == before


@pytest.mark.parametrize("force", [False, True])
def test_a_second_fit_into_a_folder_that_a_first_one_writes_is_refused_and_the_first_goes_on(
    tmp_path, model, graph, force
):
    folder, z = tmp_path / "run", model.transform(graph)

    def write(path, checksum):
        with pytest.raises(RunError, match="another fit is writing its run into"):
            Run.create(folder, model, graph.id_column, z, force=force)
        path.write_bytes(b"vectors")
        return 8

    Run.create(folder, model, graph.id_column, write)

    assert (folder / EMBEDDINGS).read_bytes() == b"vectors"
    assert all(not p.name.startswith(".") for p in folder.iterdir())


def test_a_run_is_written_where_the_system_has_no_file_locks(tmp_path, model, graph, monkeypatch):
    monkeypatch.setitem(sys.modules, "fcntl", None)
    (tmp_path / "run" / f".{'0' * 32}.tmp").mkdir(parents=True)
    (tmp_path / "run" / f".{'0' * 32}.tmp" / "lock").touch()

    Run.create(tmp_path / "run", model, graph.id_column, model.transform(graph))

    assert {p.name for p in (tmp_path / "run").iterdir()} == {MODEL, EMBEDDINGS, INFO}


def test_force_replaces_the_files_of_a_run_and_no_others(tmp_path, model, graph):
    write_run(tmp_path, model, graph)
    (tmp_path / "thesis.txt").write_text("mine")
    (tmp_path / "explore").mkdir()
    (tmp_path / PAGE).write_text("an old page")
    write_run(tmp_path, model, graph, force=True)

    assert (tmp_path / "thesis.txt").read_text() == "mine"
    assert not (tmp_path / PAGE).exists()
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
    write_run(tmp_path, model, graph)
    (tmp_path / INFO).unlink()
    with pytest.raises(RunError, match="incomplete"):
        Run.open(tmp_path)
    with pytest.raises(RunError, match="incomplete run; pass force=True"):
        check_free(tmp_path)


def test_embeddings_that_do_not_match_the_ids_do_not_replace_the_old_run(tmp_path, model, graph):
    write_run(tmp_path, model, graph)
    z = model.transform(graph)
    with pytest.raises(FeatureError):
        Run.create(tmp_path, model, graph.id_column[:3], z, force=True)

    assert Run.open(tmp_path).embeddings()[1].shape == z.shape


def test_a_path_that_is_no_run_is_refused_with_the_reason(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="found a file"):
        Run.open(tmp_path / "file")
    with pytest.raises(RunError, match="found nothing; `rae fit` makes one"):
        Run.open(tmp_path / "absent")
    with pytest.raises(RunError, match="found nothing; `rae fit` makes one"):
        Run.open(tmp_path / "absent" / "calls")
    (tmp_path / "calls").mkdir()
    with pytest.raises(RunError, match="found nothing; did you mean 'calls'"):
        Run.open(tmp_path / "cals")
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
    write_run(tmp_path, model, graph)
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

    entries = summary([record("within", 10, 3.0), record("within", 20, 1.0), record("neighbor", 20, 2.0)])

    assert entries["within"] == {"first": 3.0, "last": 1.0, "steps": 20, "rank": 2.0, "cosine": 0.5}
    assert entries["neighbor"]["first"] == entries["neighbor"]["last"] == 2.0
    assert summary([]) == {}


def test_the_order_of_removal_marks_a_run_incomplete_first():
    assert RUN_FILES[0] == INFO  # removed first: from then on the run is incomplete
    assert RUN_FILES[-1] == MODEL  # removed last: a graph without a model is not part of a run


# ------------------------------------------------------------------------- graph and features


@pytest.fixture(scope="module")
def informed(graph):
    x = sp.csr_array(sp.random_array((12, 5), density=0.4, rng=np.random.default_rng(1), dtype=np.float32))
    table = FeatureTable(graph.id_column, x, ("a", "b", "c", "d", "e"))
    return table, RAE(dims=(4,), fanout=(3,), steps=0).fit(graph, features=table)


def test_graph_and_features_come_back_in_the_rows_of_the_embeddings(tmp_path, graph, informed):
    table, model = informed
    z = model.transform(graph, table)
    turned = FeatureTable(table.id_column.take(np.arange(12)[::-1]), table.matrix[::-1], table.names)
    run = Run.create(tmp_path, model, graph.id_column, z, graph=graph, features=turned)
    opened = Run.open(run.path)

    assert opened.has_graph
    assert opened.graph().id_column.equals(opened.embeddings()[0])
    np.testing.assert_array_equal(opened.graph().targets, graph.targets)
    np.testing.assert_array_equal(opened.features().toarray(), table.matrix.toarray())
    np.testing.assert_array_equal(opened.model().transform(opened.graph(), opened.features()), z)
    assert opened.feature_names == table.names
    assert {*GRAPH_FILES, SPARSE} < set(opened.files())


def test_dense_features_stay_dense(tmp_path, graph):
    x = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)
    model = RAE(dims=(4,), fanout=(3,), steps=0).fit(graph, features=x)
    run = Run.create(tmp_path, model, graph.id_column, model.transform(graph, x), graph=graph, features=x)

    np.testing.assert_array_equal(run.features(), x)
    assert (tmp_path / DENSE).is_file()
    assert run.feature_names is None


def test_a_lean_run_has_neither_graph_nor_features(tmp_path, model, graph):
    run = write_run(tmp_path, model, graph)

    assert not run.has_graph
    assert run.features() is None
    with pytest.raises(RunError, match="keeps no graph"):
        run.graph()


def test_force_replaces_the_graph_of_a_run_and_a_lean_run_has_none(tmp_path, graph, informed):
    table, model = informed
    z = model.transform(graph, table)
    Run.create(tmp_path, model, graph.id_column, z, graph=graph, features=table)
    (tmp_path / GRAPH / "notes.txt").write_text("mine")
    run = Run.create(tmp_path, model, graph.id_column, z, force=True)

    assert not run.has_graph
    assert set(run.files()) == {MODEL, EMBEDDINGS, INFO}
    assert (tmp_path / GRAPH / "notes.txt").read_text() == "mine"


def test_a_graph_that_no_run_wrote_is_never_replaced(tmp_path, model, graph):
    from rae.graph.folder import write_graph

    write_graph(tmp_path / GRAPH, graph)
    with pytest.raises(RunError, match="that no run wrote"):
        write_run(tmp_path, model, graph, graph=graph, force=True)
    assert (tmp_path / GRAPH_FILES[0]).is_file()


def test_a_file_or_a_link_in_the_place_of_the_graph_is_refused(tmp_path, model, graph):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / GRAPH).write_text("")
    with pytest.raises(RunError, match="a file or a link"):
        write_run(tmp_path / "a", model, graph, force=True)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / GRAPH).symlink_to(tmp_path)
    with pytest.raises(RunError, match="a file or a link"):
        write_run(tmp_path / "b", model, graph, force=True)


def test_a_graph_with_other_ids_than_the_embeddings_is_refused_before_anything_is_written(tmp_path, model, graph):
    other = Graph.from_edges([(0, 1), (1, 2)])
    with pytest.raises(RunError, match="must be those of the graph"):
        write_run(tmp_path / "run", model, graph, graph=other)
    with pytest.raises(RunError, match="pass graph="):
        write_run(tmp_path / "run", model, graph, features=FeatureTable(graph.id_column, np.ones((12, 1))))
    with pytest.raises(FeatureError, match="one row per node"):
        write_run(tmp_path / "run", model, graph, features=np.ones((3, 1)))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "matrix",
    [
        sp.csr_array(np.eye(12, dtype=np.float32)),
        np.eye(12, dtype=np.float32),
    ],
)
def test_damaged_features_are_refused(tmp_path, model, graph, matrix):
    run = write_run(tmp_path, model, graph, graph=graph, features=matrix)
    path = next(p for p in (tmp_path / SPARSE, tmp_path / DENSE) if p.is_file())
    path.write_bytes(path.read_bytes()[:90])
    with pytest.raises(RunError, match="is damaged"):
        run.features()


def test_features_of_another_kind_are_refused(tmp_path, model, graph):
    run = write_run(tmp_path, model, graph)
    np.save(tmp_path / DENSE, np.arange(12))
    with pytest.raises(RunError, match=r"is damaged .*a table with one row per node"):
        run.features()


def test_embeddings_have_the_checksum_of_their_model(tmp_path, model, graph):
    run = write_run(tmp_path, model, graph)

    assert embeddings_model(tmp_path / EMBEDDINGS) == checksum(tmp_path / MODEL) == run.model_checksum
    assert model_checksum(tmp_path) == model_checksum(tmp_path / MODEL) == run.model_checksum


def test_a_run_that_cannot_be_written_leaves_the_old_one_whole(tmp_path, model, graph, monkeypatch):
    """The disk fills up, or Ctrl-C comes, when the model is written and the embeddings are not yet."""
    import rae.io

    z = model.transform(graph)
    Run.create(tmp_path / "run", model, graph.id_column, z)
    before = {f.name: f.read_bytes() for f in (tmp_path / "run").iterdir()}
    for harm in (FileError("the disk is full"), KeyboardInterrupt()):

        def fail(*_args, harm=harm, **_rest):
            raise harm

        monkeypatch.setattr(rae.io, "write_embeddings", fail)
        with pytest.raises(type(harm)):
            Run.create(tmp_path / "run", model, graph.id_column, z, force=True)
        with pytest.raises(type(harm)):
            Run.create(tmp_path / "other", model, graph.id_column, z)

        assert {f.name: f.read_bytes() for f in (tmp_path / "run").iterdir()} == before
        assert not (tmp_path / "other").exists()


def test_new_roles_remove_the_page_of_the_old_ones_with_a_warning(tmp_path, model, graph, caplog):
    run = Run.create(tmp_path / "run", model, graph.id_column, model.transform(graph), graph=graph)
    run.fit_roles(2)
    page = run.path / "explore" / "index.html"
    page.parent.mkdir()
    page.write_text("old roles")

    run.fit_roles(3)

    assert not page.exists()
    assert "makes it anew" in caplog.text


def test_features_of_half_precision_stay_in_half_precision(tmp_path, model, graph):
    half = np.eye(graph.n_nodes, 4, dtype=np.float16)
    run = write_run(tmp_path, model, graph, graph=graph, features=half)

    assert run.features().dtype == np.float16
    assert np.array_equal(run.features(), half)
