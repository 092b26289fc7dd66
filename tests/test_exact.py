"""The exact model: its laws, its formulas written plainly, and what its vectors are good for."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
import torch
from safetensors.torch import load_file, save_file
from sklearn.cluster import KMeans
from sklearn.metrics import v_measure_score
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from plain import random_graph, relabel
from rae import RAE, Config, ExactConfig, FeatureTable, Graph, Roles, datasets, read_embeddings, set_threads
from rae.engine import TILE, embed, embed_to, models_of
from rae.engine.layout import Layout
from rae.errors import (
    CheckpointError,
    CollapseWarning,
    ConfigError,
    FeatureError,
    GraphError,
    NotFittedError,
)
from rae.features import measures
from rae.features.columns import Encoding
from rae.io.embeddings import embeddings_blocks
from rae.model.actions import far_weights
from rae.model.structure import WithinSums, equal_variances, loaded_structure, squares, view
from rae.ops import gather, structure
from rae.ops.library import reference_only
from rae.storage.scratch import scratch_array

GRAPH = random_graph(200, 500, seed=3)
OTHER = random_graph(120, 400, seed=8)
RING = Graph.from_edges([(i, (i + 1) % 12) for i in range(12)])
RNG = np.random.default_rng(4)
WORDS = sp.random_array((200, 90), density=0.1, rng=RNG, dtype=np.float32).tocsr()
DENSE = (RNG.normal(size=(200, 7)) * [1, 1e6, 1e-4, 1, 1, 1, 1] + 3).astype(np.float32)
TOWNS = RNG.integers(5, size=200)
FEATURES = {"structure": None, "words": WORDS, "dense": DENSE}


@pytest.fixture(scope="module")
def fitted() -> RAE:
    set_threads(1)
    return RAE().fit(GRAPH)


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


def plain_means(graph: Graph, x: np.ndarray, count: int) -> list[np.ndarray]:
    means = []
    for _ in range(count):
        x = plain_moments(graph, x)[0]
        means.append(x)
    return means


def plain_statistics(graph: Graph, own: np.ndarray) -> np.ndarray:
    h0 = own * [1.5, 1, 0.3, 1]
    first, second, third, fourth = plain_means(graph, h0, 4)
    return np.hstack([h0, first / 2, plain_moments(graph, h0)[1] / 2, second / 4, third / 8, fourth / 16])


def plain_structure(graph: Graph, frequencies: np.ndarray, phases: np.ndarray) -> np.ndarray:
    """fit_transform in NumPy: every formula once, nothing shared with the model but views and frequencies."""
    x = plain_measures(graph)
    mean, deviation = x.mean(0), np.maximum(x.std(0), 0.1)
    own = (x - mean) / deviation
    phi = plain_statistics(graph, own)
    centered = phi - phi.mean(0)
    views = [view(graph, ExactConfig(), i) for i in range(8)]
    noisy = np.stack([plain_statistics(v, (plain_measures(v) - mean) / deviation) for v in views])
    within = sum(np.cov(noisy[:, u], rowvar=False) for u in range(graph.n_nodes)) / graph.n_nodes
    values, w = scipy.linalg.eigh(centered.T @ centered / len(phi), within + 0.1 * np.eye(24))
    values, w = values[::-1], w[:, ::-1]
    w = w * np.sign(w[np.abs(w).argmax(0), np.arange(24)])
    scaled = w * (values > 1e-9 * values[0])
    place = centered @ scaled
    place = place / np.sqrt(place.var(0).sum())
    angle = own @ frequencies + phases
    cosines = np.hstack([np.cos(angle), np.sin(angle)])
    f = len(phases)
    near = [*range(f // 2), *range(f, f + f // 2)]
    first, second, third = plain_means(graph, cosines, 3)
    return np.hstack([place, np.hstack([cosines[:, near], first[:, near], second, third]) * 0.5 / np.sqrt(3 * f)])


def plain_block(source: np.ndarray, width: int, words: bool) -> np.ndarray:
    """Principal axes with the first eigenvalue that is left out taken off; rows of words of one length; variance 1."""
    source = source - source.mean(0)
    values, axes = np.linalg.eigh(source.T @ source / len(source))
    values, axes = np.maximum(values[::-1], 0), axes[:, ::-1]
    axes = axes * np.sign(axes[np.abs(axes).argmax(0), np.arange(len(axes))])
    left_out = values[width] if len(values) > width else 0
    z = source @ axes[:, :width] * np.sqrt(np.maximum(values[:width] - left_out, 0) / np.maximum(values[:width], 1e-12))
    if words:
        z = z / np.maximum(np.linalg.norm(z, axis=1, keepdims=True), 1e-12)
    z = z - z.mean(0)
    return z / np.sqrt((z**2).sum(1).mean())


def test_the_structural_blocks_are_those_of_the_formulas(fitted):
    solution = fitted.fitted.structure
    plain = plain_structure(GRAPH, solution.frequencies.numpy(), solution.phases.numpy())

    z = fitted.transform(GRAPH)
    place, around = np.split(z, [64], axis=1)
    # `place` is turned: compare inner products
    assert np.allclose(place @ place.T, plain[:, :24] @ plain[:, :24].T, atol=1e-5)
    assert np.allclose(place.var(0), 1 / 64, atol=1e-6)
    assert np.allclose(around, plain[:, 24:], atol=1e-5)


@pytest.mark.parametrize("case", ["words", "dense"])
def test_the_blocks_of_features_are_those_of_the_formulas(case):
    graph = GRAPH.subgraph(GRAPH.ids[GRAPH.degrees > 0])  # nodes without neighbours have a test of their own
    x = FEATURES[case][GRAPH.degrees > 0]
    n = graph.n_nodes
    if case == "words":
        x = x.toarray() * np.sqrt(np.log1p(n / np.maximum((x.toarray() != 0).sum(0), 1)))
        x = x / np.sqrt(np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12))
    else:
        x = (x - x.mean(0, dtype=np.float64)) / x.std(0, dtype=np.float64)
    hops = plain_means(graph, x, 4)
    far = sum(weight * hop for weight, hop in zip(far_weights(), hops, strict=True))
    model = RAE(block_columns=90, structure=False).fit(graph, features=FEATURES[case][GRAPH.degrees > 0])
    z = model.transform(graph, FEATURES[case][GRAPH.degrees > 0])

    assert [block.name for block in model.blocks] == ["own", "near", "mid", "far"]
    for block, source in zip(model.blocks, [x, hops[0], hops[1], far], strict=True):
        plain = plain_block(source, block.width, case == "words")
        ours = z[:, block.start : block.stop]
        # the columns of a block are turned: compare inner products
        assert np.allclose(ours @ ours.T, plain @ plain.T, atol=2e-3)
        assert np.allclose(ours.var(0), 1 / block.width, atol=1e-4)


@pytest.mark.parametrize("size", [1, 2, 5, 64])
def test_a_rotation_gives_columns_equal_variances(size):
    rng = np.random.default_rng(size)
    x = rng.normal(size=(200, size)) * np.geomspace(1, 1e-3, size) @ rng.normal(size=(size, size))
    covariance = torch.from_numpy(np.cov(x, rowvar=False).reshape(size, size))
    turned = equal_variances(covariance)

    assert torch.allclose(turned @ turned.T, torch.eye(size, dtype=torch.float64), atol=1e-12)
    assert torch.allclose((turned.T @ covariance @ turned).diag(), covariance.trace() / size, rtol=1e-6)
    for plain in (torch.zeros(3, 3), torch.eye(3)):  # nothing varies, or all alike
        assert torch.equal(equal_variances(plain), torch.eye(3, dtype=torch.float64))


def test_the_reference_operations_give_the_same_vectors(fitted):
    with reference_only():
        plain = RAE().fit_transform(GRAPH)

    assert np.allclose(fitted.transform(GRAPH), plain, atol=1e-5)


def test_the_structural_blocks_have_their_columns_and_scales(fitted):
    z = fitted.transform(GRAPH)
    place, around = fitted.blocks

    assert (place.name, place.start, place.stop, place.variance, place.weight) == ("place", 0, 64, 1, 1)
    assert (around.name, around.start, around.stop, around.weight) == ("around", 64, 100, 0)  # 200 nodes: 6 frequencies
    assert z.dtype == np.float32
    assert z[:, :64].var(0).sum() == pytest.approx(1, rel=1e-4)
    assert z[:, :64].var(0) == pytest.approx(np.full(64, 1 / 64), rel=1e-3)  # a reader that standardises undoes nothing
    assert np.linalg.norm(z[:, 64:], axis=1).max() <= 0.5 + 1e-6


def test_features_and_structure_stand_side_by_side():
    model = RAE().fit(GRAPH, features=WORDS)
    z = model.transform(GRAPH, WORDS)

    assert [(b.name, b.width) for b in model.blocks] == [
        *((name, 32) for name in ("own", "near", "mid", "far")),
        *(("place", 64), ("around", 36)),
    ]
    assert z.shape == (200, model.blocks[-1].stop)
    own = model.blocks[0]
    assert z[:, own.start : own.stop].var(0).sum() == pytest.approx(1, rel=0.02)
    place = model.blocks[4]
    assert np.allclose(z[:, place.start : place.stop] * 4, RAE().fit_transform(GRAPH)[:, :64], atol=1e-6)


def test_every_column_and_every_category_of_a_table_counts_alike():
    """Columns of any scale, and categories whose values are one column each, stored sparse or dense."""
    one_hot = np.eye(5, dtype=np.float32)[TOWNS]
    matrix = np.hstack([DENSE[:, :2], one_hot])
    names = ("age", "income", *(f"town={t}" for t in range(5)))
    encodings = (Encoding("town", "category", 5),)
    dense, sparse = (
        FeatureTable(GRAPH.id_column, m, names, encodings=encodings) for m in (matrix, sp.csr_array(matrix))
    )
    model = RAE(structure=False).fit(GRAPH, features=dense)
    scale = model.fitted.actions.scale.numpy()

    assert (matrix[:, :2].std(0, dtype=np.float64) * scale[:2]) == pytest.approx([1, 1])
    assert ((one_hot * scale[2:]).var(0).sum()) == pytest.approx(1, rel=1e-5)
    assert np.allclose(
        model.transform(GRAPH, dense), RAE(structure=False).fit_transform(GRAPH, features=sparse), atol=1e-4
    )


def test_a_list_of_one_table_is_that_table():
    one_hot = np.eye(5, dtype=np.float32)[TOWNS]
    names = tuple(f"town={t}" for t in range(5))
    table = FeatureTable(GRAPH.id_column, sp.csr_array(one_hot), names, encodings=(Encoding("town", "category", 5),))
    alone, listed = RAE().fit(GRAPH, features=table), RAE().fit([GRAPH], features=[table])

    assert not listed.fitted.actions.words
    assert np.array_equal(alone.transform(GRAPH, table), listed.transform(GRAPH, table))


def test_stored_zeros_are_no_words():
    values, rows = np.append(WORDS.data, np.zeros(3, np.float32)), np.repeat(np.arange(200), np.diff(WORDS.indptr))
    positions = np.append(rows, [0, 1, 2]), np.append(WORDS.indices, [89, 88, 87])
    padded = sp.csr_array((values, positions), shape=WORDS.shape)

    assert padded.nnz > WORDS.nnz
    assert np.array_equal(RAE().fit_transform(GRAPH, features=padded), RAE().fit_transform(GRAPH, features=WORDS))


def test_a_node_without_neighbours_is_at_the_center_of_what_neighbours_do():
    graph = Graph.from_edges([(i, i + 1) for i in range(50)], ids=range(60))
    x = RNG.normal(size=(60, 4)).astype(np.float32)
    model = RAE().fit(graph, features=x)
    z = model.transform(graph, x)

    near, far = model.blocks[1], model.blocks[3]
    assert not z[55:, near.start : far.stop].any()
    assert z[55:, : near.start].any()


def test_a_view_drops_a_tenth_of_the_edges_and_adds_as_many():
    graph = random_graph(3000, 20_000, seed=1)
    noisy = view(graph, ExactConfig(), 0)
    before, after = ({tuple(edge) for edge in g.edges().tolist()} for g in (graph, noisy))

    assert len(before & after) / len(before) == pytest.approx(0.9, abs=0.01)
    assert len(after - before) / len(before) == pytest.approx(0.1, abs=0.01)
    assert not np.array_equal(noisy.edges(), view(graph, ExactConfig(), 1).edges())
    assert not np.array_equal(noisy.edges(), view(graph, ExactConfig(seed=1), 0).edges())
    assert np.array_equal(noisy.edges(), view(graph, ExactConfig(), 0).edges())


def test_cycles_are_estimated_beyond_a_number_of_paths(monkeypatch, caplog):
    graph = datasets.load("power-law", n_nodes=2000, n_edges=20_000).graph
    exact = [np.log1p(f(graph)) for f in (measures.triangles, measures.four_cycles)]
    again = Graph(graph.offsets, graph.targets, graph.id_column)
    monkeypatch.setattr(measures, "MOST_PATHS", 1000)

    estimates = [np.log1p(f(again)) for f in (measures.triangles, measures.four_cycles)]
    assert caplog.text.count("estimated from 64 pairs of neighbours") == 1
    for estimate, count in zip(estimates, exact, strict=True):
        assert 0 < np.sqrt(((estimate - count) ** 2).mean()) < 0.5 * count.std()
    assert np.isfinite(RAE().fit_transform(again)).all()
    few = graph.degrees * (graph.degrees - 1) // 2 <= 64  # all pairs are looked at
    assert np.array_equal(estimates[0][few], exact[0][few])


def test_estimates_have_no_bias():
    graph = datasets.load("power-law", n_nodes=500, n_edges=5000).graph
    runs = [structure.estimate_cycles(graph.offsets, graph.targets, 16, key) for key in range(60)]

    for estimates, count in zip(zip(*runs, strict=True), (measures.triangles, measures.four_cycles), strict=True):
        total = np.array([e.sum() for e in estimates])
        expected = float(count(graph).sum())
        assert abs(total.mean() - expected) < 4 * total.std() / np.sqrt(len(total))


# -------------------------------------------------------------------------------------- laws


@pytest.mark.parametrize("case", FEATURES)
def test_relabelling_permutes_the_rows(case):
    x = FEATURES[case]
    model = RAE().fit(GRAPH, features=x)
    order = np.random.default_rng(0).permutation(200)
    moved = model.transform(relabel(GRAPH, order), None if x is None else x[order])

    assert np.allclose(moved, model.transform(GRAPH, x)[order], atol=1e-4)


@pytest.mark.parametrize("case", FEATURES)
def test_the_same_seed_gives_the_same_bytes_and_another_seed_does_not(case):
    first, second, other = (RAE(seed=seed).fit_transform(GRAPH, features=FEATURES[case]) for seed in (5, 5, 6))

    assert first.tobytes() == second.tobytes()
    assert not np.allclose(first, other, atol=1e-4)


@pytest.mark.parametrize("words", [False, True])
def test_any_number_of_threads_gives_the_same_bytes(monkeypatch, words):
    monkeypatch.setattr(gather, "MIN_ENTRIES", 64)
    graph = datasets.load("power-law", n_nodes=10_000, n_edges=20_000).graph
    x = sp.random_array((10_000, 300), density=0.01, rng=RNG, dtype=np.float32).tocsr() if words else None
    vectors = []
    for count, tile in ((1, TILE), (2, 64), (5, 64), (9, 64)):  # threads of ours and of linear algebra's
        set_threads(count)
        monkeypatch.setitem(embed.__kwdefaults__, "tile", tile)  # many threads take several tiles at a time
        with threadpool_limits(count):
            vectors.append(RAE().fit_transform(graph, features=x).tobytes())

    assert len(set(vectors)) == 1


def test_the_number_of_threads_of_torch_and_its_random_state_stay_as_they_were():
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    torch.set_num_threads(2)
    RAE(views=2).fit_transform(OTHER, features=np.eye(120, dtype=np.float32))

    assert torch.get_num_threads() == 2
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("case", FEATURES)
@pytest.mark.parametrize("cut", [Layout(2048, 200), Layout(2048, 5), Layout(4096, 33)], ids=str)
def test_the_bytes_are_the_same_in_memory_and_out_of_core(tmp_path, case, cut):
    graph = random_graph(5000, 15_000, seed=2)
    x = {
        "structure": None,
        "words": sp.random_array((5000, 300), density=0.01, rng=np.random.default_rng(1), dtype=np.float32).tocsr(),
        "dense": np.random.default_rng(1).normal(size=(5000, 8)).astype(np.float32),
    }[case]
    model = RAE(frequencies=8).fit(graph, features=x)
    embed_to(tmp_path / "z.parquet", models_of(model.fitted, graph, x), cut=cut, blocks=model.blocks)

    assert np.array_equal(read_embeddings(tmp_path / "z.parquet")[1], model.transform(graph, x))
    assert embeddings_blocks(tmp_path / "z.parquet") == model.blocks


@pytest.mark.parametrize("case", FEATURES)
def test_some_nodes_get_the_vectors_they_have_among_all(case):
    model = RAE().fit(GRAPH, features=FEATURES[case])
    chosen = [7, 3, 150]

    some = model.transform(GRAPH, FEATURES[case], nodes=list(GRAPH.ids[chosen]))
    assert np.allclose(some, model.transform(GRAPH, FEATURES[case])[chosen], atol=1e-6)


@pytest.mark.parametrize("relative", [True, False])
def test_an_unseen_graph_is_embedded(relative):
    model = RAE(relative=relative).fit(GRAPH)
    z = model.transform(OTHER, whole=True)

    assert z.shape == (120, 64 + 36)
    assert np.isfinite(z).all()
    assert len(np.unique(z.round(4), axis=0)) > 60
    assert (np.abs(z[:, :64].mean(0)).max() < 1e-5) == relative  # a relative model takes the center of each graph


def test_units_of_the_fitted_graph_do_not_depend_on_what_is_beside_a_graph():
    together = Graph.disjoint_union([OTHER, RING])
    own_units, fitted_units = (RAE(relative=relative).fit(GRAPH) for relative in (True, False))

    alone = fitted_units.transform(OTHER, whole=True)
    assert np.allclose(fitted_units.transform(together, whole=True)[:120], alone, atol=1e-5)
    assert not np.allclose(
        own_units.transform(together, whole=True)[:120], own_units.transform(OTHER, whole=True), atol=1e-2
    )


def test_two_copies_of_a_graph_get_equal_vectors(fitted):
    z = fitted.transform(Graph.disjoint_union([OTHER, OTHER]), whole=True)

    assert np.allclose(z[:120], z[120:], atol=1e-6)
    assert np.allclose(z[:120], fitted.transform(OTHER, whole=True), atol=1e-5)


def test_nodes_in_equal_positions_get_equal_vectors():
    data = datasets.load("house")
    z = RAE().fit_transform(data.graph)

    for role in np.unique(data.labels):
        assert np.allclose(z[data.labels == role], z[data.labels == role][0], atol=1e-5)


def test_whole_graphs_are_counts_means_and_sums_in_the_units_of_the_fit():
    model = RAE().fit([GRAPH, OTHER])
    z = model.embed_graphs([GRAPH, OTHER, GRAPH])
    by_node = RAE(relative=False).fit([GRAPH, OTHER]).transform([OTHER, RING], whole=True)[:120]

    assert z.shape == (3, 2 + 2 * 48)  # without `place`
    assert np.array_equal(z[0], z[2])
    assert z[1, :2] == pytest.approx([120, np.log1p(120)])
    assert np.allclose(z[1, 2:50], by_node[:, 64:].mean(0), atol=1e-5)
    assert np.allclose(z[1, 50:], by_node[:, 64:].sum(0), atol=1e-3)
    assert model.embed_graphs([OTHER], readout="mean").shape == (1, 64 + 48)


# ------------------------------------------------------------------------ graphs and features that say little


@pytest.mark.parametrize(
    "graph",
    [Graph.from_edges([], ids=["a"]), Graph.from_edges([], ids=range(7)), RING, Graph.from_edges([(0, 1)])],
    ids=["one node", "no edges", "all alike", "one edge"],
)
def test_graphs_whose_nodes_are_alike_give_zeros_and_a_warning(graph):
    with pytest.warns(CollapseWarning, match="look alike"):
        z = RAE().fit_transform(graph)

    assert z.shape == (graph.n_nodes, 64 + 24)
    assert np.abs(z[:, :64]).max() < 1e-6
    assert np.allclose(z, z[0])


def test_a_model_of_a_graph_whose_nodes_are_alike_embeds_others():
    with pytest.warns(CollapseWarning):
        model = RAE().fit(RING)

    assert np.isfinite(model.transform(GRAPH, whole=True)).all()


@pytest.mark.parametrize("graph", [Graph.from_edges([], ids=["a"]), RING], ids=["one node", "ring"])
def test_a_fitted_model_embeds_graphs_that_say_little(fitted, graph):
    assert np.isfinite(fitted.transform(graph, whole=True)).all()


def test_a_star_with_isolated_nodes_is_finite():
    z = RAE().fit_transform(Graph.from_edges([(0, i) for i in range(1, 50)], ids=range(60)))

    assert np.isfinite(z).all()
    assert z[:, :64].var(0).sum() == pytest.approx(1, rel=1e-4)


@pytest.mark.parametrize(
    "x",
    [np.zeros((200, 3)), np.full((200, 3), 7.1), sp.csr_array((200, 4), dtype=np.float32)],
    ids=["zero", "constant", "no words"],
)
def test_features_that_do_not_vary_give_zeros_and_a_warning(x):
    with pytest.warns(CollapseWarning, match="no feature column varies"):
        model = RAE().fit(GRAPH, features=x)
    z = model.transform(GRAPH, x)

    assert not z[:, : model.blocks[3].stop].any()
    assert z[:, model.blocks[3].stop :].any()


def test_one_giant_value_leaves_the_other_columns_what_they_are():
    giant = DENSE.copy()
    giant[5, 2] = 1e17
    model = RAE(structure=False).fit(GRAPH, features=giant)
    z = model.transform(GRAPH, giant)

    assert np.isfinite(z).all()
    own = z[:, : model.blocks[0].stop]
    rest = np.delete(own, 5, axis=0)
    assert np.linalg.matrix_rank(rest - rest.mean(0), tol=1e-3) >= 6


# ------------------------------------------------------------------------------------- files


@pytest.mark.parametrize("case", FEATURES)
def test_a_saved_model_is_loaded_bit_by_bit(case, tmp_path):
    model = RAE().fit(GRAPH, features=FEATURES[case])
    model.save(tmp_path / "model.safetensors")
    again = RAE.load(tmp_path / "model.safetensors")

    assert again.config == model.config
    assert again.blocks == model.blocks
    assert again.structural == (case == "structure")
    loaded = again.fitted.tensors()
    assert all(torch.equal(tensor, loaded[name]) for name, tensor in model.fitted.tensors().items())
    assert again.transform(GRAPH, FEATURES[case]).tobytes() == model.transform(GRAPH, FEATURES[case]).tobytes()
    again.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == (tmp_path / "model.safetensors").read_bytes()
    assert len(list(tmp_path.iterdir())) == 2


def test_settings_travel_with_the_file(tmp_path):
    model = RAE(level_weights=(0.5,), frequencies=8, measure_weights=[1, 0, 0, 2], relative=False, seed=4).fit(GRAPH)
    model.save(tmp_path / "m")

    assert RAE.load(tmp_path / "m").config == model.config
    assert model.transform(GRAPH).shape == (200, 64 + 48)


@pytest.mark.parametrize("damage", ["absent", "shape", "nan", "type"])
def test_every_tensor_of_a_file_is_checked(tmp_path, damage):
    path = tmp_path / "m"
    model = RAE().fit(GRAPH, features=WORDS)
    model.save(path)
    whole = load_file(path)
    fields = {"format": 1, "model": "exact", "config": model.config.as_dict(), "feature_names": None, "words": True}
    fields |= {"n_features": model.n_features, "structural": False, "history": []}  # no checksum, as there was none
    header = {"rae": json.dumps(fields)}
    save_file(whole, path, metadata=header)
    RAE.load(path)
    for name, tensor in whole.items():
        tensors = dict(whole)
        if damage == "absent":
            del tensors[name]
        else:
            other = tensor.double() if tensor.dtype == torch.float32 else tensor.float()
            tensors[name] = {"shape": tensor.new_zeros((3, 2, 2)), "nan": tensor * float("nan"), "type": other}[damage]
        save_file(tensors, path, metadata=header)
        with pytest.raises(CheckpointError, match="does not hold the model its header describes"):
            RAE.load(path)


@pytest.mark.parametrize(
    "config", [None, {"views_": 3}, {"level_weights": [1, 2]}, {"noise": "1"}, {"frequencies": 10**12}, [1]], ids=str
)
def test_a_header_that_does_not_fit_the_tensors_is_refused(fitted, tmp_path, config):
    path = tmp_path / "m"
    fitted.save(path)
    fields = {"format": 1, "model": "exact", "feature_names": None} | ({} if config is None else {"config": config})
    fields |= {"n_features": 0, "structural": True, "history": []}
    save_file(load_file(path), path, metadata={"rae": json.dumps(fields)})

    with pytest.raises(CheckpointError, match="does not hold the model"):
        RAE.load(path)


# --------------------------------------------------------------------------------- arguments


def test_what_is_asked_before_a_fit_is_refused(tmp_path):
    with pytest.raises(NotFittedError, match="call fit"):
        RAE().transform(GRAPH)
    with pytest.raises(NotFittedError, match="call fit"):
        RAE().save(tmp_path / "m")
    with pytest.raises(GraphError, match="got"):
        RAE().fit([(0, 1)])


def test_other_features_than_those_of_the_fit_are_refused():
    model = RAE().fit(GRAPH, features=WORDS)

    with pytest.raises(FeatureError, match="fitted on 90 feature columns, got 80"):
        model.transform(GRAPH, WORDS[:, :80])
    with pytest.raises(FeatureError, match="got none"):
        model.transform(GRAPH)
    with pytest.raises(FeatureError, match="structure alone"):
        RAE().fit(GRAPH).transform(GRAPH, WORDS)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"views": 1}, "views must be 0 or 2 or more"),
        ({"views": 2.5}, "views must be a whole number"),
        ({"noise": float("nan")}, "noise must be finite"),
        ({"noise": True}, "noise must be a number"),
        ({"ridge": 0}, "ridge must be 1e-09 or more"),
        ({"frequencies": 7}, "frequencies must be even"),
        ({"measure_weights": (1, 2)}, "measure_weights must be 4 numbers"),
        ({"relative": 1}, "relative must be True or False"),
        ({"level_weights": ()}, "level_weights must name at least one level"),
        ({"view": 3}, "unknown setting 'view'"),
        ({"views": 3, "steps": 5}, "steps is a setting of the trained model, views of the exact one"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(ConfigError, match=message):
        RAE(**settings)


def test_the_names_of_settings_say_which_model():
    assert isinstance(RAE().config, ExactConfig)
    assert isinstance(RAE(seed=3).config, ExactConfig)
    assert isinstance(RAE(steps=3).config, Config)
    assert isinstance(RAE(Config()).config, Config)
    assert repr(RAE(ExactConfig(seed=2), views=8)) == "RAE(views=8, seed=2)"
    assert RAE(steps=0).fit(GRAPH).blocks[0][:3] == ("within", 0, 256)


# ------------------------------------------------------------------- what the vectors are good for


@pytest.mark.parametrize("seed", [0, 1])
def test_clusters_of_noisy_houses_are_closer_to_the_roles_than_those_of_degree_and_triangles(seed):
    data = datasets.load("house", noise=0.1, seed=seed)
    place = RAE().fit_transform(data.graph)[:, :64]
    counts = np.stack([data.graph.degrees, measures.triangles(data.graph)], 1)
    floor = StandardScaler().fit_transform(np.log1p(counts))

    def score(x: np.ndarray) -> float:
        k = len(data.label_names)
        return v_measure_score(data.labels, KMeans(k, n_init=10, random_state=0).fit_predict(x))

    assert score(place) > score(floor)


def test_the_seven_positions_of_a_barbell_are_apart():
    data = datasets.load("barbell")
    place = RAE().fit_transform(data.graph)[:, :64]
    centers = np.stack([place[data.labels == label].mean(0) for label in np.unique(data.labels)])
    gaps = np.linalg.norm(centers[:, None] - centers, axis=2)
    within = max(np.abs(place[data.labels == label] - center).max() for label, center in enumerate(centers))

    assert gaps[np.triu_indices(len(centers), 1)].min() > 100 * within
    assert Roles().fit(place).n_roles == len(centers) == 7


@pytest.mark.parametrize(("nodes", "frequencies"), [(1, 4), (131, 4), (399, 8), (1190, 16), (4096, 32), (10**9, 32)])
def test_around_is_as_wide_as_the_nodes_support(nodes, frequencies):
    assert ExactConfig().n_frequencies(nodes) == frequencies
    assert ExactConfig(frequencies=10).n_frequencies(nodes) == 10


def test_a_file_with_an_odd_number_of_frequencies_is_refused(fitted):
    tensors = fitted.fitted.structure.tensors()
    cut = tensors | {"phases": tensors["phases"][:-1], "frequencies": tensors["frequencies"][:, :-1]}

    with pytest.raises(ValueError, match="even"):
        loaded_structure(cut, ExactConfig())


# ----------------------------------------------------------------------------- bounded memory


@pytest.mark.parametrize("directed", [False, True])
def test_a_fit_whose_views_lie_in_a_file_is_the_same(monkeypatch, tmp_path, directed):
    monkeypatch.setattr("rae.model.structure.ROWS", 100)
    monkeypatch.setattr("rae.ops.structure.ROWS", 100)
    monkeypatch.setattr("rae.model.structure.SAMPLE", 200)
    rng = np.random.default_rng(0)
    graph = Graph.from_edges(rng.integers(700, size=(3_000, 2)), directed=directed)
    arrays = []
    monkeypatch.setattr("rae.fitting.scratch_array", lambda *a, **k: arrays.append(a) or scratch_array(*a, **k))

    in_memory, in_file = RAE().fit(graph), RAE().fit(graph, memory="1MB", scratch=tmp_path)

    assert len(arrays) == in_file.config.n_views(700) * (3 if directed else 1)
    assert not list(tmp_path.iterdir())  # the files have no names
    tensors = in_file.fitted.tensors()
    assert all(torch.equal(tensors[name], kept) for name, kept in in_memory.fitted.tensors().items())


def test_views_stay_in_memory_where_the_budget_has_room(monkeypatch):
    monkeypatch.setattr("rae.fitting.scratch_array", None)

    RAE().fit(Graph.from_edges([(0, 1), (1, 2), (2, 0), (2, 3)]), memory="2GiB")


def test_the_sums_of_parts_of_the_nodes_add_up():
    rng = np.random.default_rng(0)
    phi = torch.from_numpy(rng.normal(size=(50, 6)))
    views = [torch.from_numpy(rng.normal(size=(50, 6))) for _ in range(3)]

    def sums(rows):
        within = WithinSums()
        for change in views:
            within.add(change[rows].clone())
        return within

    parts = [slice(0, 20), slice(20, 50)]
    center = phi.mean(0)
    total = sum(squares(phi[part], center) for part in parts)
    within = sum(sums(part).sums() for part in parts)

    np.testing.assert_allclose(total / 50, np.cov(phi.numpy().T, bias=True), atol=1e-12)
    stacked = torch.stack(views).numpy()
    expected = np.mean([np.cov(stacked[:, i].T) for i in range(50)], 0)
    np.testing.assert_allclose(within / (50 * 2), expected, atol=1e-12)
    np.testing.assert_allclose(sums(slice(None)).mean(), expected, atol=1e-12)
