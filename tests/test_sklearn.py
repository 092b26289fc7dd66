"""scikit-learn's conventions: labels are ignored, settings, tags, names of columns, frames, pipelines."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.base import clone
from sklearn.exceptions import NotFittedError as SklearnNotFitted
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.utils import estimator_checks, get_tags
from sklearn.utils.validation import check_is_fitted

from plain import random_graph
from rae import RAE, FeatureTable, Graph, Roles, similar
from rae.errors import ConfigError, CutWarning, FeatureError, GraphError, IgnoredWarning, MissingExtraError

NUMBERED = random_graph(60, 150)
GRAPH = Graph(NUMBERED.offsets, NUMBERED.targets, pa.array([f"n{i}" for i in range(60)]))
X = np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32)
SMALL = {"frequencies": 4, "views": 2}
Y = np.asarray(GRAPH.degrees > 5).astype(int)


@pytest.fixture(scope="module")
def model() -> RAE:
    return RAE(**SMALL).fit(GRAPH)


@pytest.fixture(scope="module")
def z(model) -> np.ndarray:
    return model.transform(GRAPH)


# ------------------------------------------------------------------------------------ labels


@pytest.mark.parametrize("y", [Y, Y.tolist(), pd.Series(Y), pl.Series(Y), ["a"] * 60])
def test_labels_change_nothing(z, y):
    assert np.array_equal(RAE(**SMALL).fit(GRAPH, y).transform(GRAPH), z)
    assert np.array_equal(RAE(**SMALL).fit_transform(GRAPH, y), z)


@pytest.mark.parametrize("y", [np.eye(60)[:, :3], np.eye(60)[:, :3].tolist(), sp.csr_array(X), pd.DataFrame(X)])
def test_two_dimensions_in_the_place_of_labels_are_ignored_aloud(z, y):
    with pytest.warns(IgnoredWarning, match=r"is y and is ignored.* pass features by name, .*features=x"):
        assert np.array_equal(RAE(**SMALL).fit_transform(GRAPH, y), z)


@pytest.mark.parametrize(
    "y", [FeatureTable(GRAPH.id_column, X), "features.csv", [X], [FeatureTable(GRAPH.id_column, X)]]
)
def test_what_can_only_be_features_is_refused_in_the_place_of_labels(y):
    with pytest.raises(FeatureError, match="pass features by name"):
        RAE(**SMALL).fit(GRAPH, y)


# --------------------------------------------------------------------------------- pipelines


def test_a_pipeline_learns_from_vectors_and_labels(z):
    pipeline = make_pipeline(RAE(**SMALL), LogisticRegression(max_iter=500)).fit(GRAPH, Y)

    assert np.array_equal(pipeline.predict(GRAPH), LogisticRegression(max_iter=500).fit(z, Y).predict(z))
    assert pipeline[0].structural
    assert "RAE" in pipeline._repr_html_()


def test_two_dimensional_labels_reach_the_classifier_alone(z):
    labels = np.stack([Y, 1 - Y], axis=1)
    reader = OneVsRestClassifier(LogisticRegression(max_iter=500))
    with pytest.warns(IgnoredWarning):
        pipeline = make_pipeline(RAE(**SMALL), reader).fit(GRAPH, labels)

    assert pipeline[0].structural
    assert pipeline.predict(GRAPH).shape == (60, 2)


def test_a_pipeline_passes_features_by_name():
    pipeline = make_pipeline(RAE(**SMALL), LogisticRegression(max_iter=500))
    assert not pipeline.fit(GRAPH, Y, rae__features=X)[0].structural
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline.fit(GRAPH, Y, features=X)
        assert len(pipeline.predict(GRAPH, features=X)) == 60
        other = GRAPH.subgraph(GRAPH.ids[:50])
        assert len(pipeline.predict(other, features=X[:50], whole=True)) == 50
        with pytest.warns(CutWarning, match="not the graph of the fit"):
            pipeline.predict(other, features=X[:50])


def test_several_models_stand_side_by_side(z):
    union = FeatureUnion([("one", RAE(**SMALL)), ("two", RAE(**SMALL))]).fit(GRAPH)

    assert np.array_equal(union.transform(GRAPH), np.hstack([z, z]))
    assert union.get_feature_names_out()[0] == "one__place0"


# ---------------------------------------------------------------------- settings and tags

# The checks of scikit-learn that do not feed arrays to fit; all others do, and a graph is none.
CHECKS = (
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_estimator_tags_renamed",
    "check_estimators_unfitted",
    "check_get_params_invariance",
    "check_mixin_order",
    "check_no_attributes_set_in_init",
    "check_set_params",
    "check_valid_tag_types",
)


@pytest.mark.filterwarnings("ignore:ConfigError occurred during set_params")  # settings are checked when they are set
@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("estimator", [RAE(), RAE(steps=3)], ids=["exact", "trained"])
def test_the_checks_of_scikit_learn_that_need_no_array_pass(check, estimator):
    getattr(estimator_checks, check)("RAE", estimator)


def test_tags_say_what_the_model_takes():
    tags = get_tags(RAE())

    assert not tags.input_tags.two_d_array
    assert not tags.target_tags.required
    assert tags.requires_fit
    assert tags.transformer_tags is not None


def test_whether_a_model_is_fitted_is_known(model):
    check_is_fitted(model)
    with pytest.raises(SklearnNotFitted):
        check_is_fitted(clone(model))


def test_settings_are_set_through_a_pipeline():
    pipeline = make_pipeline(RAE(), LogisticRegression()).set_params(rae__seed=4)

    assert clone(pipeline).get_params()["rae__seed"] == 4


# ------------------------------------------------------------------------------------ frames


def test_columns_are_named_by_block(model, z):
    names = model.get_feature_names_out()

    assert len(names) == z.shape[1]
    assert (names[0], names[model.blocks[1].start]) == ("place0", "around0")
    assert len(set(names)) == len(names)


def test_vectors_are_a_frame_with_ids_when_asked(model, z):
    framed = clone(RAE(**SMALL).set_output(transform="pandas")).fit(GRAPH)  # a clone keeps what was asked
    frame = framed.transform(GRAPH)

    assert frame.index.tolist() == GRAPH.ids.tolist()
    assert frame.columns.tolist() == model.get_feature_names_out().tolist()
    assert np.array_equal(frame.to_numpy(), z)
    assert framed.transform(GRAPH, nodes=["n7", "n3"]).index.tolist() == ["n7", "n3"]
    assert isinstance(framed.set_output(transform="default").transform(GRAPH), np.ndarray)
    assert framed.set_output().transform(GRAPH).shape == z.shape


def test_polars_frames_have_ids_in_a_column(model, z):
    frame = RAE(**SMALL).set_output(transform="polars").fit_transform(GRAPH)

    assert frame.columns == ["id", *model.get_feature_names_out()]
    assert np.array_equal(frame.drop("id").to_numpy(), z)
    with pytest.raises(ConfigError, match="which what comes after it would learn"):
        make_pipeline(RAE(**SMALL), LogisticRegression()).set_output(transform="polars").fit(GRAPH, Y)


def test_scikit_learns_own_setting_counts(model):
    with sklearn.config_context(transform_output="pandas"):
        assert model.transform(GRAPH).index.name == "id"
    with pytest.raises(ConfigError, match=r"must be one of 'default', 'pandas', 'polars', got 'arrow'"):
        model.set_output(transform="arrow")


def test_a_library_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(MissingExtraError, match="a polars frame needs polars"):
        RAE(**SMALL).set_output(transform="polars").fit_transform(GRAPH)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_roles_and_look_alikes_never_take_ids_for_numbers(kind):
    """Ids that are numbers, too: those of a frame stay out of distances."""
    framed = RAE(**SMALL).set_output(transform=kind).fit(NUMBERED)
    frame, z = framed.transform(NUMBERED), framed.set_output(transform="default").transform(NUMBERED)

    roles = Roles(3).fit(frame)
    assert np.array_equal(roles.labels, Roles(3).fit(z).labels)
    assert np.array_equal(roles.predict(frame), roles.predict(z))
    assert roles.to_arrow(frame).column("id").to_pylist() == list(range(60))
    assert similar(frame, 7, k=3) == similar(z, 7, k=3)


def test_vectors_go_out_as_arrow(model, z):
    table = RAE.to_arrow(model, GRAPH, nodes=["n4", "n2"])

    assert table.column("id").to_pylist() == ["n4", "n2"]
    assert np.array_equal(
        np.array(table.column("embedding").to_pylist(), np.float32), model.transform(GRAPH, nodes=["n4", "n2"])
    )
    assert model.to_arrow(GRAPH).num_rows == 60
    assert pl.DataFrame(model.to_arrow(GRAPH)).columns == ["id", "embedding"]


@pytest.mark.parametrize("cut", ["cross_val_score", "GridSearchCV", "train_test_split"])
def test_what_cuts_rows_refuses_a_graph_and_says_what_to_do(cut):
    from sklearn import model_selection

    pipeline, y = make_pipeline(RAE(), LogisticRegression()), GRAPH.degrees > 5
    calls = {
        "cross_val_score": lambda: model_selection.cross_val_score(pipeline, GRAPH, y),
        "GridSearchCV": lambda: model_selection.GridSearchCV(pipeline, {"rae__seed": [0]}).fit(GRAPH, y),
        "train_test_split": lambda: model_selection.train_test_split(GRAPH, y),
    }
    with pytest.raises(GraphError, match=r"cannot be cut into folds.* embed the whole graph .* the rows of z"):
        calls[cut]()
