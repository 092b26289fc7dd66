"""The exact solution of J_within: its laws, its formulas written plainly, and what its vectors are good for."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.linalg
import torch
from safetensors.torch import load_file, save_file
from sklearn.cluster import KMeans
from sklearn.metrics import v_measure_score
from sklearn.preprocessing import StandardScaler

import rae
from plain import random_graph, relabel
from rae import Exact, Graph, datasets, set_threads
from rae.errors import CheckpointError, CollapseWarning, ConfigError, GraphError, NotFittedError
from rae.features import measures
from rae.model.exact import ExactConfig, Solution, view
from rae.ops import gather
from rae.ops.library import reference_only

GRAPH = random_graph(200, 500, seed=3)
OTHER = random_graph(120, 400, seed=8)
RING = Graph.from_edges([(i, (i + 1) % 12) for i in range(12)])


@pytest.fixture(scope="module")
def fitted() -> Exact:
    set_threads(1)
    return Exact().fit(GRAPH)


# ------------------------------------------------------------------------------ the formulas


def plain_measures(graph: Graph) -> np.ndarray:
    """log1p of degree, triangles, core number, 4-cycles; the cycles from powers of the adjacency matrix."""
    a = graph.to_scipy().toarray()
    paths = a @ a
    np.fill_diagonal(paths, 0)
    counts = [a.sum(0), np.diag(a @ a @ a) / 2, measures.core_numbers(graph), (paths * (paths - 1) / 2).sum(1)]
    return np.log1p(np.stack(counts, 1))


def plain_moments(graph: Graph, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rows = [x[graph.neighbors(u)] if graph.degrees[u] else np.zeros((1, x.shape[1])) for u in range(graph.n_nodes)]
    return np.stack([r.mean(0) for r in rows]), np.stack([r.std(0) for r in rows])


def plain_statistics(graph: Graph, own: np.ndarray) -> np.ndarray:
    h0 = own * [1.5, 1, 0.3, 1]
    h1 = 0.5 * np.hstack(plain_moments(graph, h0))
    h2 = 0.5 * np.hstack(plain_moments(graph, np.hstack([h0, h1])))
    means = [h0]
    for _ in range(4):
        means.append(plain_moments(graph, means[-1])[0])
    return np.hstack([h0, h1, h2, means[3] / 8, means[4] / 16])


def plain_vectors(graph: Graph, frequencies: np.ndarray, phases: np.ndarray) -> np.ndarray:
    """fit_transform in NumPy: every formula once, nothing shared with the model but views and frequencies."""
    x = plain_measures(graph)
    mean, deviation = x.mean(0), np.maximum(x.std(0), 0.1)
    own = (x - mean) / deviation
    phi = plain_statistics(graph, own)
    centered = phi - phi.mean(0)
    views = [view(graph, ExactConfig(), i) for i in range(4)]
    noisy = np.stack([plain_statistics(v, (plain_measures(v) - mean) / deviation) for v in views])
    within = sum(np.cov(noisy[:, u], rowvar=False) for u in range(graph.n_nodes)) / graph.n_nodes
    values, w = scipy.linalg.eigh(centered.T @ centered / len(phi), within + 0.1 * np.eye(44))
    values, w = values[::-1], w[:, ::-1]
    w = w * np.sign(w[np.abs(w).argmax(0), np.arange(44)])
    scaled = w * np.where(values > 1e-9 * values[0], np.abs(values), 0) ** 0.25
    place = centered @ scaled
    place = place / np.sqrt(place.var(0).sum()) @ (scipy.linalg.hadamard(64)[:44] / 8)
    angle = own @ frequencies + phases
    waves = [np.hstack([np.cos(angle), np.sin(angle)])]
    for _ in range(2):
        waves.append(plain_moments(graph, waves[-1])[0])
    around = np.hstack(waves) - np.hstack(waves).mean(0)
    return np.hstack([place, around / np.sqrt(around.var(0).sum()) / 4])


def test_the_vectors_are_those_of_the_formulas(fitted):
    solution = fitted._solution
    plain = plain_vectors(GRAPH, solution.frequencies.numpy(), solution.phases.numpy())

    assert np.allclose(fitted.transform(GRAPH), plain, atol=1e-5)


def test_the_reference_operations_give_the_same_vectors(fitted):
    with reference_only():
        plain = Exact().fit_transform(GRAPH)

    assert np.allclose(fitted.transform(GRAPH), plain, atol=1e-5)


def test_the_blocks_have_their_columns_and_variances(fitted):
    z = fitted.transform(GRAPH)
    place, around = fitted.blocks

    assert (place.name, place.start, place.stop, place.variance) == ("place", 0, 64, 1)
    assert (around.name, around.start, around.stop, around.variance) == ("around", 64, 256, 1 / 16)
    assert z.dtype == np.float32
    assert z.shape == (200, 256)
    for block in fitted.blocks:
        assert z[:, block.start : block.stop].var(0).sum() == pytest.approx(block.variance, rel=1e-4)
    assert z[:, :64].var(0) == pytest.approx(np.full(64, 1 / 64), rel=1e-3)


def test_a_view_drops_a_tenth_of_the_edges_and_adds_as_many():
    graph = random_graph(3000, 20_000, seed=1)
    noisy = view(graph, ExactConfig(), 0)
    before, after = ({tuple(edge) for edge in g.edges().tolist()} for g in (graph, noisy))

    assert len(before & after) / len(before) == pytest.approx(0.9, abs=0.01)
    assert len(after - before) / len(before) == pytest.approx(0.1, abs=0.01)
    assert not np.array_equal(noisy.edges(), view(graph, ExactConfig(), 1).edges())
    assert not np.array_equal(noisy.edges(), view(graph, ExactConfig(seed=1), 0).edges())
    assert np.array_equal(noisy.edges(), view(graph, ExactConfig(), 0).edges())


# -------------------------------------------------------------------------------------- laws


def test_relabelling_permutes_the_rows(fitted):
    order = np.random.default_rng(0).permutation(200)

    assert np.allclose(fitted.transform(relabel(GRAPH, order)), fitted.transform(GRAPH)[order], atol=1e-5)


def test_the_same_seed_gives_the_same_bytes_and_another_seed_does_not():
    first, second, other = (Exact(seed=seed).fit_transform(GRAPH) for seed in (5, 5, 6))

    assert first.tobytes() == second.tobytes()
    assert not np.allclose(first[:, :64], other[:, :64], atol=1e-4)


def test_any_number_of_threads_gives_the_same_bytes(monkeypatch):
    monkeypatch.setattr(gather, "MIN_ENTRIES", 64)
    graph = datasets.load("power-law", n_nodes=10_000, n_edges=20_000).graph
    vectors = []
    for count in (1, 2, 5):
        set_threads(count)
        vectors.append(Exact(views=2).fit_transform(graph).tobytes())

    assert len(set(vectors)) == 1


def test_the_number_of_threads_of_torch_and_its_random_state_stay_as_they_were():
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    torch.set_num_threads(2)
    Exact(views=2).fit_transform(OTHER)

    assert torch.get_num_threads() == 2
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("relative", [True, False])
def test_an_unseen_graph_is_embedded(relative):
    model = Exact(relative=relative).fit(GRAPH)
    z = model.transform(OTHER)

    assert z.shape == (120, 256)
    assert np.isfinite(z).all()
    assert len(np.unique(z.round(4), axis=0)) > 60


def test_units_of_the_fitted_graph_do_not_depend_on_what_is_beside_a_graph():
    together = Graph.disjoint_union([OTHER, RING])
    own_units, fitted_units = (Exact(relative=relative).fit(GRAPH) for relative in (True, False))

    assert np.allclose(fitted_units.transform(together)[:120], fitted_units.transform(OTHER), atol=1e-5)
    assert not np.allclose(own_units.transform(together)[:120], own_units.transform(OTHER), atol=1e-2)


def test_two_copies_of_a_graph_get_equal_vectors(fitted):
    z = fitted.transform(Graph.disjoint_union([OTHER, OTHER]))

    assert np.allclose(z[:120], z[120:], atol=1e-6)
    assert np.allclose(z[:120], fitted.transform(OTHER), atol=1e-5)


def test_nodes_in_equal_positions_get_equal_vectors():
    data = datasets.load("house")
    z = Exact().fit_transform(data.graph)

    for role in np.unique(data.labels):
        assert np.allclose(z[data.labels == role], z[data.labels == role][0], atol=1e-5)


# ------------------------------------------------------------------------ graphs that say little


@pytest.mark.parametrize(
    "graph",
    [Graph.from_edges([], ids=["a"]), Graph.from_edges([], ids=range(7)), RING, Graph.from_edges([(0, 1)])],
    ids=["one node", "no edges", "all alike", "one edge"],
)
def test_graphs_whose_nodes_are_alike_give_zeros_and_a_warning(graph):
    with pytest.warns(CollapseWarning, match="look alike"):
        z = Exact().fit_transform(graph)

    assert z.shape == (graph.n_nodes, 256)
    assert np.abs(z).max() < 1e-6


def test_a_model_of_a_graph_whose_nodes_are_alike_embeds_others():
    with pytest.warns(CollapseWarning):
        model = Exact().fit(RING)

    assert np.isfinite(model.transform(GRAPH)).all()


@pytest.mark.parametrize("graph", [Graph.from_edges([], ids=["a"]), RING], ids=["one node", "ring"])
def test_a_fitted_model_embeds_graphs_that_say_little(fitted, graph):
    assert np.isfinite(fitted.transform(graph)).all()


def test_a_star_with_isolated_nodes_is_finite():
    z = Exact().fit_transform(Graph.from_edges([(0, i) for i in range(1, 50)], ids=range(60)))

    assert np.isfinite(z).all()
    assert z[:, :64].var(0).sum() == pytest.approx(1, rel=1e-4)


# ------------------------------------------------------------------------------------- files


def test_a_saved_model_is_loaded_bit_by_bit(fitted, tmp_path):
    fitted.save(tmp_path / "model.safetensors")
    again = Exact.load(tmp_path / "model.safetensors")

    assert again.config == fitted.config
    assert again.blocks == fitted.blocks
    for name in Solution.shapes(fitted.config):
        assert torch.equal(getattr(again._solution, name), getattr(fitted._solution, name))
    assert again.transform(OTHER).tobytes() == fitted.transform(OTHER).tobytes()
    again.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == (tmp_path / "model.safetensors").read_bytes()
    assert len(list(tmp_path.iterdir())) == 2


def test_settings_travel_with_the_file(tmp_path):
    model = Exact(levels=1, moments=1, frequencies=8, weights=[1, 0, 0, 2], relative=False, seed=4).fit(GRAPH)
    model.save(tmp_path / "m")

    assert Exact.load(tmp_path / "m").config == model.config
    assert model.transform(GRAPH).shape == (200, 64 + 48)


def test_foreign_files_are_refused(fitted, tmp_path):
    path = tmp_path / "m"
    with pytest.raises(CheckpointError, match="no model file"):
        Exact.load(path)
    path.write_bytes(b"\0" * 100)
    with pytest.raises(CheckpointError, match="not a whole safetensors file"):
        Exact.load(path)
    save_file({"x": torch.zeros(2)}, path)
    with pytest.raises(CheckpointError, match="not one that rae wrote"):
        Exact.load(path)
    rae.RAE(dims=(4,), fanout=(2,), steps=0).fit(GRAPH).save(path)
    with pytest.raises(CheckpointError, match="holds a trained model"):
        Exact.load(path)
    fitted.save(path)
    with pytest.raises(CheckpointError, match="holds an exact model"):
        rae.RAE.load(path)
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(CheckpointError, match="not a whole safetensors file"):
        Exact.load(path)


@pytest.mark.parametrize("name", list(Solution.shapes(ExactConfig())))
@pytest.mark.parametrize("damage", ["absent", "shape", "nan", "type"])
def test_every_tensor_of_a_file_is_checked(fitted, tmp_path, name, damage):
    path = tmp_path / "m"
    fitted.save(path)
    header = {"rae": json.dumps({"format": 1, "model": "exact", "config": fitted.config.as_dict()})}
    tensors = load_file(path)
    if damage == "absent":
        del tensors[name]
    else:
        whole = tensors[name]
        tensors[name] = {"shape": whole.new_zeros((3, 2)), "nan": whole * float("nan"), "type": whole.float()}[damage]
    save_file(tensors, path, metadata=header)

    with pytest.raises(CheckpointError, match=f"does not hold the model its header describes .*{name}"):
        Exact.load(path)


@pytest.mark.parametrize(
    "config", [None, {}, {"levles": 3}, {"levels": 3}, {"sigma": "1"}, {"frequencies": 10**12}, [1]], ids=str
)
def test_a_header_that_does_not_fit_the_tensors_is_refused(fitted, tmp_path, config):
    path = tmp_path / "m"
    fitted.save(path)
    fields = {"format": 1, "model": "exact"} | ({} if config is None else {"config": config})
    save_file(load_file(path), path, metadata={"rae": json.dumps(fields)})

    if config == {}:  # the defaults, which are what was fitted
        assert Exact.load(path).config == fitted.config
        return
    with pytest.raises(CheckpointError, match="does not hold the model"):
        Exact.load(path)


# --------------------------------------------------------------------------------- arguments


def test_what_is_asked_before_a_fit_is_refused(tmp_path):
    with pytest.raises(NotFittedError, match="call fit"):
        Exact().transform(GRAPH)
    with pytest.raises(NotFittedError, match="call fit"):
        Exact().save(tmp_path / "m")
    with pytest.raises(GraphError, match="expected a Graph, got list"):
        Exact().fit([(0, 1)])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"views": 1}, "views must be from 2"),
        ({"views": 2.5}, "views must be a whole number"),
        ({"noise": float("nan")}, "noise must be a finite number"),
        ({"noise": True}, "noise must be a finite number"),
        ({"ridge": 0}, "ridge must be from"),
        ({"weights": (1, 2)}, "weights must be 4 numbers"),
        ({"relative": 1}, "relative must be True or False"),
        ({"levels": 1}, "moments must be at most levels"),
        ({"view": 3}, "unknown setting 'view'"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(ConfigError, match=message):
        Exact(**settings)


def test_a_model_shows_the_settings_that_differ():
    assert repr(Exact(ExactConfig(seed=2), views=8)) == "Exact(views=8, seed=2)"
    with pytest.raises(ConfigError, match="must be an ExactConfig, got Config"):
        Exact(rae.PAPER)


# ------------------------------------------------------------------- what the vectors are good for


@pytest.mark.parametrize("seed", [0, 1])
def test_hubs_are_near_hubs_on_a_power_law_graph(seed):
    """Of the 20 largest hubs, the ten nearest nodes have a median degree of half of the 20th largest or more."""
    graph = datasets.load("power-law", n_nodes=5000, n_edges=20_000, seed=seed).graph
    place = Exact().fit_transform(graph)[:, :64]
    hubs = np.argsort(-graph.degrees, kind="stable")[:20]

    for hub in hubs:
        distance = np.linalg.norm(place - place[hub], axis=1)
        distance[hub] = np.inf
        nearest = np.argsort(distance)[:10]
        assert np.median(graph.degrees[nearest]) >= graph.degrees[hubs[-1]] / 2


@pytest.mark.parametrize("seed", [0, 1])
def test_clusters_of_noisy_houses_are_closer_to_the_roles_than_those_of_degree_and_triangles(seed):
    data = datasets.load("house", noise=0.1, seed=seed)
    place = Exact().fit_transform(data.graph)[:, :64]
    counts = np.stack([data.graph.degrees, measures.triangles(data.graph)], 1)
    floor = StandardScaler().fit_transform(np.log1p(counts))

    def score(x: np.ndarray) -> float:
        k = len(data.label_names)
        return v_measure_score(data.labels, KMeans(k, n_init=10, random_state=0).fit_predict(x))

    assert score(place) > score(floor)
