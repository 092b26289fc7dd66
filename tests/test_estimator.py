"""The estimator, its file, and the ways a fit goes wrong."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
import torch
from safetensors.torch import load_file, save_file
from sklearn.base import clone

import rae
from plain import random_graph
from rae import PAPER, RAE, Encoder, FeatureTable, Graph, sample_blocks
from rae.errors import (
    CheckpointError,
    CollapseWarning,
    ConfigError,
    FeatureError,
    GraphError,
    NotFittedError,
    TrainingError,
)
from rae.model.checkpoint import FORMAT

SMALL = PAPER.replace(dims=(8, 4), fanout=(3, 3), steps=12, batch_size=32)
GRAPH = random_graph(60, 150)
X = np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32)


@pytest.fixture
def saved(tmp_path):
    RAE(SMALL, loss="both").fit(GRAPH, features=X, feature_names=list("vwxyz")).save(tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors"


def test_a_model_comes_back_from_its_file_bit_by_bit(saved):
    model = RAE(SMALL, loss="both").fit(GRAPH, features=X, feature_names=list("vwxyz"))
    again = RAE.load(saved)

    assert np.array_equal(model.transform(GRAPH, X), again.transform(GRAPH, X))
    assert (again.config, again.history, again.feature_names) == (model.config, model.history, tuple("vwxyz"))
    assert (again.n_features, again.structural) == (5, False)
    model.save(saved.with_name("again"))
    assert saved.read_bytes() == saved.with_name("again").read_bytes()


def test_settings_follow_scikit_learns_conventions():
    model = RAE(SMALL, seed=7)
    copy = clone(model)

    assert copy is not model
    assert copy.get_params() == model.get_params()
    assert copy.set_params(steps=3).config.steps == 3
    assert repr(RAE(steps=3)) == "RAE(steps=3)"
    with pytest.raises(ConfigError, match="did you mean 'steps'"):
        model.set_params(step=3)
    with pytest.raises(ConfigError, match="did you mean 'dropout'"):
        RAE(drop_out=0.1)
    with pytest.raises(ConfigError, match=r"name settings, as in RAE\(steps=500\)"):
        RAE(500)


def test_a_fitted_model_keeps_the_settings_it_was_fitted_with():
    model = RAE(SMALL).fit(GRAPH)
    before = model.transform(GRAPH)

    model.set_params(degree_cap=3, inference="sampled")

    assert np.array_equal(model.transform(GRAPH), before)
    assert model.fit(GRAPH).n_features == 4


def test_a_table_is_aligned_by_id_and_by_column_name():
    ids = pa.array(np.arange(60))
    order = np.random.default_rng(1).permutation(60)
    table = FeatureTable(ids.take(order), X[order], tuple("vwxyz"))
    model = RAE(SMALL).fit(GRAPH, features=table)

    turned = FeatureTable(ids, X[:, ::-1], tuple("zyxwv"))

    assert np.array_equal(model.transform(GRAPH, turned), RAE(SMALL).fit(GRAPH, features=X).transform(GRAPH, X))
    assert model.feature_names == tuple("vwxyz")


def test_structure_can_be_added_to_features(tmp_path):
    model = RAE(SMALL, add_structure=True, degree_cap=4).fit(GRAPH, features=X, feature_names=list("vwxyz"))

    assert model.n_features == 5 + 5
    model.save(tmp_path / "m")
    assert RAE.load(tmp_path / "m").transform(GRAPH, X).shape == (60, 12)


def test_progress_and_history_tell_what_happens():
    calls = []
    model = RAE(SMALL, loss="both", record_every=5)
    z = model.fit_transform(GRAPH, progress=lambda *call: calls.append(call))

    stages = [c[0] for c in calls]
    embedding = [c[1:3] for c in calls if c[0] == "embed"]
    assert stages == ["train within"] * 12 + ["train neighbor"] * 12 + ["embed"] * len(embedding)
    assert embedding == [(i + 1, len(embedding)) for i in range(len(embedding))]
    assert all(np.isfinite(c[3]["loss"]) for c in calls[:24])
    assert [r["step"] for r in model.history if r["loss"] == "within"] == [1, 5, 10, 12]
    assert all(1 <= r["rank"] <= 4 and -1 <= r["cosine"] <= 1 for r in model.history)
    assert z.shape == (60, 24)


@pytest.mark.parametrize(
    ("use", "error", "says"),
    [
        (lambda: RAE(SMALL).transform(GRAPH), NotFittedError, "call fit"),
        (lambda: RAE(SMALL).fit(GRAPH).transform(GRAPH, X), FeatureError, "structure alone"),
        (lambda: RAE(SMALL).fit(GRAPH, features=X).transform(GRAPH), FeatureError, "fitted with features, got none"),
        (
            lambda: RAE(SMALL).fit(GRAPH, features=X).transform(GRAPH, X[:, :3]),
            FeatureError,
            "reads 5 feature columns, got 3",
        ),
        (lambda: RAE(SMALL).fit(GRAPH, features=X[:9]), FeatureError, r"one row per node \(60\), got 9"),
        (
            lambda: RAE(SMALL).fit(GRAPH, features=X, feature_names=["a"]),
            FeatureError,
            r"one entry per column \(5\), got 1",
        ),
        (lambda: RAE(SMALL).fit([(1, 2)]), GraphError, "rae.Graph, got tuple"),
        (lambda: RAE(SMALL).fit({1: 2}), GraphError, "rae.Graph, got dict; make one with rae.Graph.from_edges"),
        (lambda: RAE(SMALL).fit("calls.csv"), GraphError, "got str; make one with rae.read_edges"),
        (lambda: RAE(SMALL).fit(pa.table({"a": [1]})), GraphError, "got Table; make one with rae.Graph.from_dataframe"),
        (lambda: RAE(SMALL).fit(sp.eye_array(3)), GraphError, "make one with rae.Graph.from_scipy"),
        (lambda: RAE(SMALL).fit([]), GraphError, "got none"),
        (
            lambda: RAE(SMALL).fit([GRAPH], features=X),
            FeatureError,
            "a list with one matrix or table per graph, got ndarray",
        ),
        (lambda: RAE(SMALL).fit([GRAPH], features=[X, X]), FeatureError, r"one matrix per graph \(1\), got 2"),
        (lambda: RAE(SMALL).fit([GRAPH], features=[X[:5]]), FeatureError, r"one row per node \(60\), got 5"),
        (
            lambda: RAE(SMALL, steps=0).fit(GRAPH).embed_graphs([GRAPH], readout="add"),
            ConfigError,
            "'sum', 'mean', 'max'",
        ),
        (lambda: RAE(SMALL).fit(Graph.from_edges([], ids=[1, 2])), GraphError, "2 nodes and no edge"),
        (lambda: RAE(SMALL).fit(Graph.from_edges([(1, 1)])), GraphError, "one node"),
    ],
)
def test_misuse_is_refused_in_a_sentence(use, error, says):
    with pytest.raises(error, match=says):
        use()


def test_one_node_and_no_edges_can_still_be_embedded_untrained():
    for graph in (Graph.from_edges([(1, 1)]), Graph.from_edges([], ids=[1, 2])):
        assert np.isfinite(RAE(SMALL, steps=0).fit_transform(graph)).all()


def test_a_failed_fit_keeps_the_old_model():
    model = RAE(SMALL).fit(GRAPH, features=X)
    before = model.transform(GRAPH, X)
    with pytest.raises(FeatureError):
        model.fit(GRAPH, features=X * np.nan)

    assert np.array_equal(model.transform(GRAPH, X), before)


def test_a_diverged_fit_says_so_and_what_to_change():
    with pytest.raises(TrainingError, match=r"diverged.*lower learning_rate"):
        RAE(SMALL, learning_rate=1000).fit(GRAPH, features=X * np.float32(1e17))


def test_vectors_that_are_not_finite_are_refused():
    model = RAE(SMALL, steps=0).fit(GRAPH, features=X)
    for weights in model.encoders["within"].parameters():
        weights.data.fill_(torch.inf)  # times features of either sign: inf - inf
    with pytest.raises(FeatureError, match="scale the features"):
        model.transform(GRAPH, X)


def test_a_collapsed_fit_says_so_and_what_to_change():
    ring = Graph.from_edges([(i, (i + 1) % 50) for i in range(50)])
    with pytest.warns(CollapseWarning, match=r"all nodes look alike.*lower learning_rate"):
        RAE(SMALL).fit(ring)


def test_an_ordinary_fit_warns_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RAE(SMALL).fit(GRAPH)


def test_many_graphs_with_tables_or_sparse_features():
    graphs = [GRAPH, Graph.from_edges([("a", "b")])]
    tables = [sp.csr_array(X), FeatureTable(pa.array(["b", "a"]), np.ones((2, 5)))]
    model = RAE(SMALL).fit(graphs, features=tables)

    assert model.embed_graphs(graphs, tables, readout="mean").shape == (2, 12)


@pytest.mark.filterwarnings("ignore:no feature column varies")
def test_the_tables_of_many_graphs_are_joined_by_column_name():
    graphs = [Graph.from_edges([("a", "b"), ("b", "c")])] * 2
    red = FeatureTable(pa.array(list("abc")), np.array([[1.0, 0]] * 3), ("red", "blue"))
    same = FeatureTable(pa.array(list("abc")), np.array([[0.0, 1]] * 3), ("blue", "red"))
    model = RAE(SMALL, steps=0).fit(graphs, features=[red, same])

    z = model.embed_graphs(graphs, [same, red])

    assert model.feature_names == ("red", "blue")
    assert np.array_equal(z[0], z[1])
    assert np.array_equal(z, RAE(SMALL, steps=0).fit(graphs[0], features=red).embed_graphs(graphs, [red, same]))
    with pytest.raises(FeatureError, match="'blue'"):
        model.embed_graphs(graphs, [red, FeatureTable(pa.array(list("abc")), np.ones((3, 2)), ("red", "green"))])


# ------------------------------------------------------------------------------ bad files


def _rewritten(path, change):
    """The same tensors under a changed header, in a file without a checksum, as there were before."""
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        header = json.loads(file.metadata()["rae"])
    del header["sha256"]
    tensors = load_file(path)
    change(header, tensors)
    save_file(tensors, path, metadata={"rae": json.dumps(header)})
    return path


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda h, t: h.update(format=FORMAT + 1), "upgrade rae"),
        (lambda h, t: h.pop("format"), "header of .* is damaged"),
        (lambda h, t: h.pop("config"), "does not hold the model"),
        (lambda h, t: h["config"].update(dims="wide"), "does not hold the model"),
        (lambda h, t: h["config"].update(shape=3), "does not hold the model .*unknown setting 'shape'"),
        (lambda h, t: h.update(n_features=10**12, feature_names=None), "levels.0.aggregate.weight is .*, expected"),
        (lambda h, t: h["config"].update(dims=[8, 16_000]), "levels.1.aggregate.weight is .*, expected"),
        (lambda h, t: h.update(n_features=10**40, feature_names=None), "does not hold the model"),
        (lambda h, t: h.update(feature_names="abcde"), "feature_names must be null or a list"),
        (lambda h, t: h.update(history=[{"loss": "within"}]), r"history\[0\].step is missing"),
        (lambda h, t: h.update(sha257="0"), "it has the field 'sha257'"),
        (lambda h, t: t.update(further=torch.ones(2)), "1 tensors are unknown, first 'further'"),
        (lambda h, t: t["within.levels.0.aggregate.norm.running_var"].fill_(-1), "a variance below zero"),
        (lambda h, t: h.update(feature_names=["only one"]), "1 feature names for 5 features"),
        (lambda h, t: t.pop("within.levels.0.aggregate.weight"), "does not hold the model"),
        (lambda h, t: t.pop("neighbor.levels.1.update.weight"), "does not hold the model"),
        (lambda h, t: t["within.levels.1.update.weight"].fill_(torch.nan), "not finite"),
    ],
)
def test_a_file_that_lies_is_refused(saved, change, says):
    with pytest.raises(CheckpointError, match=says):
        RAE.load(_rewritten(saved, change))


def test_a_truncated_foreign_or_absent_file_is_refused(saved, tmp_path):
    whole = saved.read_bytes()
    for size in (0, 4, 100, len(whole) - 1):
        saved.write_bytes(whole[:size])
        with pytest.raises(CheckpointError, match="not a whole safetensors file"):
            RAE.load(saved)
    save_file({"a": torch.ones(2)}, saved)
    with pytest.raises(CheckpointError, match="not one that rae wrote"):
        RAE.load(saved)
    for path in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(CheckpointError, match="no model file"):
            RAE.load(path)


def test_a_pickle_in_place_of_a_model_is_not_run(tmp_path):
    import pickle

    class Hostile:
        def __reduce__(self):
            return (open, (str(tmp_path / "ran"), "w"))

    (tmp_path / "model").write_bytes(pickle.dumps(Hostile()))
    with pytest.raises(CheckpointError):
        RAE.load(tmp_path / "model")
    assert not (tmp_path / "ran").exists()


# -------------------------------------------------------------------- for torch programmers


def test_the_encoder_works_in_a_plain_torch_loop():
    """Without a stream, dropout follows torch's own seed, as torch programmers expect."""
    for x in (X, sp.csr_array(X)):
        losses = []
        for _ in range(2):
            torch.manual_seed(0)
            encoder = Encoder(5, SMALL.replace(input_dropout=0.2))
            rows, blocks = sample_blocks(GRAPH, np.arange(20), (3, 3), seed=1)
            losses.append(float(encoder(x[rows], blocks).square().mean().detach()))
        assert losses[0] == losses[1]


# ------------------------------------------------------------------------- the public names


def test_the_public_names_are_these():
    assert rae.__all__ == sorted(rae.__all__, key=lambda n: (not n.isupper(), not n[0].isupper(), n))
    assert set(rae.__all__) == {
        "ACTIONS", "PAPER", "RAE", "TOY", "Config", "Decoder", "Encoder", "ExactConfig", "FeatureTable", "Features",
        "Graph", "Roles", "Run", "agreement", "any_other", "build_graph", "contrast", "datasets", "ego_graph",
        "embed_file", "errors", "exact_blocks", "fit_run", "hide_neighbors", "key",
        "non_neighbor", "open_graph", "random_neighbor", "read_edges", "read_embeddings", "read_features",
        "sample_blocks", "same_node", "set_threads", "shuffle_neighbors", "similar", "step_loss", "structural_features",
        "telling", "walk_end", "write_embeddings", "write_graph",
    }  # fmt: skip
    for name in rae.__all__:
        assert getattr(rae, name) is not None
    assert rae.__version__.count(".") == 2
    assert set(dir(rae)) >= set(rae.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'Grph'"):
        _ = rae.Grph
