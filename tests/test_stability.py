"""Reliability: what is said is what happens, on views that nothing was fitted on."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import rae
from rae.cli import app
from rae.cli.console import Console
from rae.config import ExactConfig
from rae.errors import ConfigError, FileError, RunError
from rae.model.structure import view
from rae.stability import calibrated, calibration, calibration_error, noisy_vectors, role_margins


@pytest.fixture(scope="module")
def data():
    return rae.datasets.load("planted-roles", n_nodes=600, noise=0.1)


@pytest.fixture(scope="module")
def run(data, tmp_path_factory):
    run = rae.fit_run(data.graph, out=tmp_path_factory.mktemp("sure") / "run", page=False)
    run.fit_roles(5)
    return run


@pytest.fixture(scope="module")
def reliability(run):
    return run.reliability()


def test_a_reliability_is_the_share_that_keep_their_role_in_fresh_views(run, data, reliability):
    roles, model = run.roles(), run.model()
    fresh = [view(data.graph, ExactConfig(noise=0.1, seed=77), number) for number in range(10)]
    kept = np.concatenate(
        [roles.predict(model.transform(g, units="fit", whole=True)) == reliability.roles for g in fresh]
    )
    table = calibration(np.tile(reliability.reliability, 10), kept)
    error = calibration_error(table)
    assert error < 0.04
    assert error < calibration_error(calibration(np.tile(reliability.kept, 10), kept))  # than the plain share of views
    assert error < calibration_error(calibration(np.tile(reliability.confidence, 10), kept)) / 2  # than memberships
    assert all(abs(row["said"] - row["kept"]) < 0.12 for row in table if row["nodes"] >= 500)


def test_less_noise_keeps_more_roles(run, reliability):
    assert run.reliability(noise=0.01).reliability.mean() > reliability.reliability.mean() + 0.1


def test_what_it_rests_on_stands_beside_it(run, reliability, data):
    table = reliability.table
    assert table.column_names == [
        *("id", "role", "confidence", "reliability", "kept", "spread", "degree", "distance"),
    ]
    assert table.column("degree").to_numpy().tolist() == data.graph.degrees.tolist()
    assert np.array_equal(reliability.roles, run.role_table()[1])
    assert ((reliability.reliability > 0) & (reliability.reliability < 1)).all()
    assert (reliability.spread >= 0).all()
    assert reliability.to_pandas().reliability.between(0, 1).all()
    assert np.corrcoef(reliability.reliability, reliability.kept)[0, 1] > 0.6
    assert "keep their role" in str(reliability)
    assert len(str(reliability).splitlines()) == 1 + run.roles().n_roles


def test_the_same_call_gives_the_same_bytes(run, reliability):
    assert run.reliability().table.equals(reliability.table)


def test_views_are_others_than_those_of_the_fit_and_of_each_other(data):
    model = rae.RAE().fit(data.graph)
    one, two = noisy_vectors(model, data.graph, None, views=2, dropped=0.1)
    (other,) = noisy_vectors(model, data.graph, None, views=1, dropped=0.1, first=2)
    assert not np.array_equal(one, two)
    assert not np.array_equal(one, other)
    assert not np.array_equal(two, other)
    nothing = next(noisy_vectors(model, data.graph, None, views=1, dropped=0.0, added=0))
    assert np.array_equal(nothing, model.transform(data.graph, units="fit"))
    more = view(data.graph, ExactConfig(noise=0.0), 0, 50)
    assert data.graph.n_edges < more.n_edges <= data.graph.n_edges + 50


def test_margins_are_distances_from_the_border():
    z = np.array([[0.0], [1.0], [10.0], [9.0]], np.float32)
    roles = rae.Roles(2).fit(np.repeat(z[[0, 2]], 5, axis=0))
    assert role_margins(roles, z) == pytest.approx([5, 4, 5, 4], abs=1e-5)
    assert role_margins(rae.Roles(1).fit(z), z).tolist() == [0] * 4


def test_where_all_views_agree_nobody_is_entirely_sure():
    kept = np.ones((19, 30), bool)
    said = calibrated(kept, np.zeros((19, 30)), np.ones(30), np.zeros((30, 2)))
    assert (said < 1).all()
    assert (said > 0.99).all()
    assert (calibrated(~kept, np.zeros((19, 30)), np.ones(30), np.zeros((30, 2))) < 0.01).all()


def test_it_works_for_a_trained_model_and_with_features(data, tmp_path):
    features = np.random.default_rng(0).normal(size=(data.graph.n_nodes, 3)).astype(np.float32)
    for name, config in (("trained", rae.Config(steps=0, dims=(8,), fanout=(4,))), ("exact", rae.ExactConfig())):
        other = rae.fit_run(data.graph, features, out=tmp_path / name, page=False, config=config)
        other.fit_roles(3)
        assert 0 < other.reliability(views=3).reliability.mean() < 1


def test_settings_and_runs_that_cannot_be_meant_are_refused(run, data, tmp_path):
    for asked in ({"views": 1}, {"views": True}, {"noise": 0}, {"noise": "much"}):
        with pytest.raises(ConfigError):
            run.reliability(**asked)
    bare = rae.fit_run(data.graph, out=tmp_path / "bare", page=False)
    with pytest.raises(RunError, match="no roles yet"):
        bare.reliability()
    lean = rae.fit_run(data.graph, out=tmp_path / "lean", page=False, lean=True)
    lean.fit_roles(2)
    with pytest.raises(RunError, match="keeps no graph"):
        lean.reliability()


def test_the_command_shows_and_writes_it(run, tmp_path, reliability):
    def invoke(*words):
        return CliRunner().invoke(app, ["roles", str(run.path), "--quiet", *map(str, words)], obj=Console())

    out = tmp_path / "sure.parquet"
    done = invoke("--reliability", "--out", out)
    assert done.exit_code == 0, done.output
    assert "keep their role" in done.output
    assert pq.read_table(out).num_rows == len(reliability.roles)
    assert isinstance(invoke("--reliability", "--out", out).exception, FileError)
    facts = json.loads(invoke("--reliability", "--json").output)
    assert facts["views"] == 19
    assert facts["noise"] == 0.1
    assert facts["mean"] == round(reliability.reliability.mean(), 4)
    assert "exclude each other" in invoke("--reliability", "--against", "x").output
    assert "leave out" in invoke("--reliability", "--labels", "x").output
