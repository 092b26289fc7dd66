"""A model as ONNX, run by onnxruntime on means that the test computes itself, gives the vectors of the run."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse as sp

import rae
from rae import Run
from rae.errors import RaeError
from rae.export.contract import Options
from rae.export.onnx import write
from rae.features import measures
from rae.model.channels import channel_measures, conform, mixed_channels, place_ways

onnxruntime = pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
onnx = pytest.importorskip("onnx", reason="the extra onnx is not installed")

RNG = np.random.default_rng(3)
N = 90
ENDS = (RNG.random((400, 2)) ** 2 * (N - 2)).astype(np.int64)  # the last two nodes have no edge
WORDS = sp.random_array((N, 300), density=0.04, rng=4, format="csr", dtype=np.float32)
TABLE = (RNG.normal(size=(N, 5)) * [1, 10, 0.1, 1, 1] + [0, 0, 0, 1e6, 0]).astype(np.float32)
SMALL = {"dims": (7, 5), "fanout": (3, 3), "steps": 4, "batch_size": 32}


def new_run(folder, features=None, settings=None, **edges):
    graph = rae.Graph.from_edges(ENDS, ids=np.arange(N), **edges)
    model = rae.RAE(**(settings or {})).fit(graph, features=features)
    z = model.transform(graph, features)
    return Run.create(folder, model, graph.id_column, z, graph=graph, features=features), graph, z


def sessions(path, *names):
    return [onnxruntime.InferenceSession(path.with_suffix(f".{name}.onnx") if name else path) for name in names]


def ask(session, values):
    names = {i.name for i in [*session.get_inputs(), *session.get_overridable_initializers()]}
    rows = {name: np.asarray(value, np.float32) for name, value in values.items() if name in names}
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, rows), strict=True))


def moments(graph, rows, channels=()):
    """Means and deviations over N(u), one node at a time; 0 where there are none."""
    mean, deviation = np.zeros(rows.shape), np.zeros(rows.shape)
    for u in range(graph.n_nodes):
        at = slice(graph.offsets[u], graph.offsets[u + 1])
        weight = sum(graph.channels[c][at] for c in channels) if channels else np.ones(at.stop - at.start)
        if weight.sum() > 0:
            mean[u] = np.average(rows[graph.targets[at]], axis=0, weights=weight)
            deviation[u] = np.sqrt(np.average((rows[graph.targets[at]] - mean[u]) ** 2, axis=0, weights=weight))
    return mean, deviation


def counts_of(graph, model):
    plain = [f(graph) for f in (measures.degrees, measures.triangles, measures.core_numbers, measures.four_cycles)]
    more = channel_measures(graph, model.structure.scales) if graph.channels else []
    return np.stack([*plain, *(column.numpy() for column in more)], 1)


def exact_vectors(path, run, graph, features):
    """What an engineer does: rows-1, means over neighbours, vectors."""
    model = run.model().fitted
    graph = conform(graph, model.channels, model.weighted)
    first, last = sessions(path, "rows-1", "")
    values = {}
    if features is not None:
        values["features"] = features.toarray() if sp.issparse(features) else features
    if model.structure is not None:
        values["counts"] = counts_of(graph, model)
    values |= ask(first, values)
    for k in range(1, 5):
        if model.structure is not None:
            below = values["measures"] if k == 1 else values[f"mean_{k - 1}"]
            width = len(model.structure.frequencies)
            for i, way in enumerate(place_ways(model.channels, model.weighted) if k == 1 else [(0, 0, ())]):
                name = f"{k}_channel_{i}" if way[2] else f"{k}"
                values[f"mean_{name}"], values[f"deviation_{name}"] = moments(graph, below[:, :width], way[2])
            values[f"waves_{k}"] = moments(graph, values["waves"] if k == 1 else values[f"waves_{k - 1}"])[0]
        if model.actions is not None:
            width, groups = (
                model.actions.axes.shape[1] + 1,
                mixed_channels(model.channels, model.weighted, run.model().config.mix),
            )
            below = np.tile(values["directions"], len(groups)) if k == 1 else values[f"directions_{k - 1}"]
            parts = [moments(graph, below[:, g * width : (g + 1) * width], c)[0] for g, c in enumerate(groups)]
            values[f"directions_{k}"] = np.hstack(parts)
    return ask(last, values)["vector"]


@pytest.mark.parametrize("features", [None, WORDS, TABLE], ids=["structure", "words", "table"])
def test_the_exact_model_gives_its_vectors_from_what_it_reads(tmp_path, features):
    run, graph, z = new_run(tmp_path / "run", features)
    written = write(run, str(tmp_path / "model.onnx"), Options())

    assert {file.name for file in written.files} == {"model.onnx", "model.rows-1.onnx"}
    np.testing.assert_allclose(exact_vectors(tmp_path / "model.onnx", run, graph, features), z, atol=1e-5)


@pytest.mark.parametrize("mix", ["union", "directions", "channels"])
def test_weights_directions_and_kinds_are_more_inputs(tmp_path, mix):
    kinds = RNG.choice(["card", "wire"], len(ENDS))
    edges = {"weight": RNG.gamma(0.7, 80.0, len(ENDS)), "directed": True, "kind": kinds}
    run, graph, z = new_run(tmp_path / "run", TABLE, {"mix": mix}, **edges)
    write(run, str(tmp_path / "model.onnx"), Options())

    np.testing.assert_allclose(exact_vectors(tmp_path / "model.onnx", run, graph, TABLE), z, atol=1e-5)
    about = json.loads(onnx.load(tmp_path / "model.onnx").metadata_props[0].value)
    assert about["weight_units"].keys() == {"card", "wire"}


def test_units_and_center_of_another_graph_may_be_given(tmp_path):
    run, _, _ = new_run(tmp_path / "run")
    write(run, str(tmp_path / "model.onnx"), Options())
    other = rae.Graph.from_edges(ENDS[:150])
    model = run.model()
    first, last = sessions(tmp_path / "model.onnx", "rows-1", "")
    logs = np.log1p(counts_of(other, model.fitted))
    unit = {"unit_mean": logs.mean(0), "unit_deviation": np.maximum(logs.std(0), 0.1)}
    values = unit | {"counts": counts_of(other, model.fitted)}
    values |= ask(first, values)
    values["mean_1"], values["deviation_1"] = moments(other, values["measures"])
    for k in range(1, 5):
        values[f"mean_{k}"] = moments(other, values["measures"] if k == 1 else values[f"mean_{k - 1}"])[0]
        values[f"waves_{k}"] = moments(other, values["waves"] if k == 1 else values[f"waves_{k - 1}"])[0]
    config = model.config
    parts = [values["measures"], 0.5 * values["mean_1"], 0.5 * values["deviation_1"]]
    parts += [weight * values[f"mean_{k}"] for k, weight in enumerate(config.level_weights[1:], 2)]
    values["center"] = np.hstack([part * config.measure_weights for part in parts]).mean(0)

    np.testing.assert_allclose(ask(last, values)["vector"], model.transform(other, whole=True), atol=1e-5)


def mean_with_ego(graph, rows):
    degree = np.diff(graph.offsets)[:, None]
    return (moments(graph, rows)[0] * degree + rows) / (degree + 1)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"order": "project_first", "activation": "relu"},
        {"loss": "both", "activation": "elu"},
        {"projections": 1, "activation": "leaky_relu", "add_structure": True},
    ],
    ids=["paper", "project first", "both losses", "one projection"],
)
def test_the_trained_encoder_gives_its_vectors_level_by_level(tmp_path, settings):
    features = TABLE[:, [0, 1, 2, 4]] / [1, 10, 0.1, 1]
    run, graph, z = new_run(tmp_path / "run", features.astype(np.float32), SMALL | settings)
    write(run, str(tmp_path / "model.onnx"), Options())
    model, config = run.model(), run.model().config
    x = features if not config.add_structure else np.hstack([rae.structural_features(graph), features])
    prefixes = ["within_", "neighbor_"] if config.loss == "both" else [""]
    values = {"features": x, "mean_1": mean_with_ego(graph, x)}
    for k in (1, 2):
        path = tmp_path / f"model.rows-{k}.onnx"
        assert path.exists() == (k == 2 or config.order == "project_first")
        if path.exists():
            values |= ask(onnxruntime.InferenceSession(path), values)
            values |= {f"{p}mean_{k}": mean_with_ego(graph, values[f"{p}rows_{k}"]) for p in prefixes}

    vectors = ask(onnxruntime.InferenceSession(tmp_path / "model.onnx"), values)["vector"]
    np.testing.assert_allclose(vectors, z, atol=1e-5)
    assert model.n_features == x.shape[1]


def test_every_input_says_what_it_is(tmp_path):
    run, _, _ = new_run(tmp_path / "run", WORDS)
    written = write(run, str(tmp_path / "model.onnx"), Options())

    for file in written.files:
        graph = onnx.load(file).graph
        assert all(len(value.doc_string) > 10 for value in [*graph.input, *graph.output])
        assert graph.doc_string
    about = json.loads(onnx.load(written.files[0]).metadata_props[0].value)
    assert about["model"] == run.model_checksum
    assert [block["name"] for block in about["blocks"]] == ["own", "near", "mid", "far", "place", "around"]


def test_the_same_run_gives_the_same_bytes_and_nothing_is_replaced_unasked(tmp_path):
    run, _, _ = new_run(tmp_path / "run")
    one, two = (write(run, str(tmp_path / name), Options()).files for name in ("one.onnx", "two.onnx"))

    assert [a.read_bytes() for a in one] == [b.read_bytes() for b in two]
    with pytest.raises(RaeError, match=r"one\.\S*onnx is there already"):
        write(run, str(tmp_path / "one.onnx"), Options())
    write(run, str(tmp_path / "one.onnx"), Options(force=True))
    with pytest.raises(RaeError, match=r"ends in \.onnx"):
        write(run, str(tmp_path / "model.bin"), Options())


def test_a_model_that_draws_neighbours_is_refused(tmp_path):
    run, _, _ = new_run(tmp_path / "run", None, SMALL | {"inference": "sampled"})

    with pytest.raises(RaeError, match="inference='sampled'"):
        write(run, str(tmp_path / "model.onnx"), Options())


def test_a_model_beyond_two_gigabytes_is_refused(tmp_path, monkeypatch):
    from rae.export import onnx_graph

    run, _, _ = new_run(tmp_path / "run")
    monkeypatch.setattr(onnx_graph, "MOST_BYTES", 1_000)

    with pytest.raises(RaeError, match=r"an ONNX file holds 1\.0 kB at most"):
        write(run, str(tmp_path / "model.onnx"), Options())
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
