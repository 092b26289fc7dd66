"""The loss "agree": its formulas written plainly, what its views hide, and what a fit with it gives."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import rae.model.agree
from plain import plain_embedding, random_graph
from rae import ACTIONS, PAPER, RAE, Config, Decoder, Encoder, Graph, agreement, hide_neighbors, telling, walk_end
from rae.errors import CollapseWarning, ConfigError, FeatureError
from rae.evaluation.table_spec import digest
from rae.features import Features
from rae.model.agree import encode_view, settle
from rae.model.sampling import whole_block
from rae.model.training import fit, step_loss
from rae.ops.library import reference_only
from rae.runtime import generator, set_threads

GRAPH = random_graph(60, 150, seed=3)
WORDS = sp.random_array((60, 25), density=0.3, rng=np.random.default_rng(4), dtype=np.float32).tocsr()
SMALL = ACTIONS.replace(dims=(12, 8), fanout=(4, 4), steps=12)


def _unit(z: np.ndarray) -> np.ndarray:
    return (z - z.mean(0)) / np.sqrt(((z - z.mean(0)) ** 2).sum(0))


def _agreement(a: np.ndarray, b: np.ndarray, c: np.ndarray, near: float, weight: float) -> float:
    """Column by column, pair of columns by pair of columns."""
    a, b, c = _unit(a), _unit(b), _unit(c)
    d = a.shape[1]
    agreed = sum((1 - near) * a[:, j] @ b[:, j] + near * a[:, j] @ c[:, j] for j in range(d))
    pairs = [(i, j) for i in range(d) for j in range(d)]
    repeated = sum((z[:, i] @ z[:, j] - (i == j)) ** 2 for z in (a, b) for i, j in pairs)
    return float((weight / d * repeated - agreed) / d)


def _telling(z: np.ndarray, decoder: np.ndarray, x: np.ndarray) -> float:
    """Row by row, D z as wide as the features."""
    cosines = [x[i] @ (decoder @ z[i]) / np.linalg.norm(x[i]) / np.linalg.norm(decoder @ z[i]) for i in range(len(z))]
    return float(np.mean([(1 - c) ** 2 for c in cosines if np.isfinite(c)]))


def test_agreement_is_the_formula():
    a, b, c = np.random.default_rng(0).normal(size=(3, 30, 5))

    got = agreement(*map(torch.from_numpy, (a, b, c)), near_share=0.3, decorrelation=0.7)

    assert float(got) == pytest.approx(_agreement(a, b, c, 0.3, 0.7))
    orthogonal = torch.linalg.qr(torch.from_numpy(a - a.mean(0)))[0]
    best = agreement(orthogonal, orthogonal, orthogonal, near_share=0.3, decorrelation=0.7)
    assert float(best) == pytest.approx(-1)


def test_a_constant_column_is_no_nan():
    z = torch.ones((6, 3), requires_grad=True)

    loss = agreement(z, z, z, near_share=0.5, decorrelation=1.0)
    loss.backward()

    assert torch.isfinite(loss)
    assert torch.isfinite(z.grad).all()


def test_telling_is_the_formula_and_rows_of_zeros_do_not_count():
    rng = np.random.default_rng(1)
    decoder = Decoder(25, 8, rng)
    z = torch.from_numpy(rng.normal(size=(60, 8)).astype(np.float32))
    x = WORDS.toarray()
    x[[3, 17]] = 0
    sizes = torch.from_numpy(np.linalg.norm(x, axis=1))
    weight = decoder.weight.detach().numpy().astype(np.float64)

    for rows in (sp.csr_array(x), torch.from_numpy(x)):
        got = telling(z, decoder.project(rows), decoder.lengths(z)[0], sizes)
        with np.errstate(invalid="ignore"):
            assert float(got.detach()) == pytest.approx(_telling(z.numpy().astype(np.float64), weight, x), rel=1e-5)


@pytest.mark.parametrize("dense", [False, True])
def test_a_step_is_the_formula(dense):
    """Without anything hidden both views are the graph itself: the whole loss, from the weights, in float64."""
    config = SMALL.replace(hidden_features=0, hidden_edges=0, near=0.3, telling=1.7, decorrelation=0.6, walk=3)
    encoder, decoder = Encoder(25, config, generator(0, "a")), Decoder(25, 8, generator(0, "b"))
    x = WORDS.toarray() if dense else WORDS

    got = step_loss(encoder.train(), decoder, GRAPH, x, config, "agree", 1)

    h = WORDS.toarray().astype(np.float64)
    for level in encoder.stack():
        h = np.stack([h[[u, *GRAPH.neighbors(u)]].mean(0) for u in range(60)])
        h = h @ level.aggregate.weight.detach().numpy().astype(np.float64)
        h = np.tanh((h - h.mean(0)) / np.sqrt(h.var(0) + 1e-5))
    ends = walk_end(GRAPH, np.arange(60), 3, rae.key(0, "agree", 1, "walk"))
    weight, words = decoder.weight.detach().numpy().astype(np.float64), WORDS.toarray()
    expected = _agreement(h, h, h[ends], 0.3, 0.6)
    expected += 1.7 * (0.7 * _telling(h, weight, words) + 0.3 * _telling(h, weight, words[ends]))
    assert float(got.detach()) == pytest.approx(expected, rel=1e-4)


def test_the_library_and_plain_torch_give_one_loss():
    losses = []
    for batch_size in (16, 60):
        config = SMALL.replace(batch_size=batch_size)
        for _ in range(2):
            encoder, decoder = Encoder(25, config, generator(0, "a")), Decoder(25, 8, generator(0, "b"))
            if len(losses) % 2:
                with reference_only():
                    losses.append(float(step_loss(encoder.train(), decoder, GRAPH, WORDS, config, "agree", 5).detach()))
            else:
                losses.append(float(step_loss(encoder.train(), decoder, GRAPH, WORDS, config, "agree", 5).detach()))
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)
    assert losses[2] == pytest.approx(losses[3], abs=1e-5)
    assert losses[0] != pytest.approx(losses[2], abs=1e-5)


def test_hidden_neighbors_are_a_share_of_them_and_egos_stay():
    graph = random_graph(400, 4000, seed=1)
    whole = whole_block(graph)

    hidden = [hide_neighbors(whole, 0.3, rae.key(0, i)) for i in range(4)]

    assert hide_neighbors(whole, 0.0, 1) is whole
    for block in hidden:
        assert torch.equal(block.ego, whole.ego)
        for u in range(graph.n_nodes):
            shown = block.neighbors[block.offsets[u] : block.offsets[u + 1]].tolist()
            assert set(shown) <= set(graph.neighbors(u).tolist())
    shares = [len(block.neighbors) / len(whole.neighbors) for block in hidden]
    assert np.allclose(shares, 0.7, atol=0.03)  # 8,000 draws: four standard errors are 0.02
    assert not torch.equal(hidden[0].offsets, hidden[1].offsets)


def test_a_batch_with_all_neighbours_is_encoded_as_the_whole_graph_is():
    config = SMALL.replace(fanout=(99, 99), hidden_features=0, hidden_edges=0)
    encoder = Encoder(25, config, generator(0, "a")).eval()
    features = Features.of(GRAPH, WORDS, config)
    nodes = np.array([5, 0, 33])

    with torch.no_grad():
        every = encode_view(encoder, GRAPH, features, np.arange(60), config, (0, "v"))
        some = encode_view(encoder, GRAPH, features, nodes, config, (0, "v"))
        moved = encode_view(encoder, GRAPH, features, np.arange(60)[::-1], config, (0, "v"))

    assert torch.allclose(some, every[nodes.tolist()], atol=1e-6)
    assert torch.allclose(moved, every.flip(0), atol=1e-6)  # all nodes in another order are a batch like any other


def test_hidden_columns_are_hidden_from_every_node():
    config = SMALL.replace(hidden_features=0.5, hidden_edges=0)
    features = Features.of(GRAPH, WORDS, config)
    views = []

    class Spy(Encoder):
        def hidden(self, x, blocks, stream=None):
            views.append(x)
            return super().hidden(x, blocks, stream)

    encoder = Spy(25, config, generator(0, "a")).eval()
    for x in (features, Features.of(GRAPH, WORDS.toarray(), config)):
        encode_view(encoder, GRAPH, x, np.arange(60), config, (0, "v"))

    shown = abs(views[0].toarray()).sum(0) > 0
    assert 3 <= shown.sum() <= 22
    assert np.array_equal(views[0].toarray(), WORDS.toarray() * shown)
    assert np.array_equal(views[0].toarray(), views[1])


def test_a_walk_ends_where_walks_end():
    star = Graph.from_edges([("hub", leaf) for leaf in "abcd"], ids=[*"abcd", "hub", "alone"])
    leaves, nodes = set(star.rows([*"abcd"]).tolist()), star.rows([*"aabb", "hub", "alone"])

    ends = np.stack([walk_end(star, nodes, 2, rae.key(0, i)) for i in range(400)])

    assert set(ends[:, 0].tolist()) == leaves
    assert np.allclose([(ends[:, 0] == leaf).mean() for leaf in leaves], 0.25, atol=0.09)  # four standard errors
    assert (ends[:, 0] == ends[:, 1]).mean() < 0.4  # walks from one node part: a quarter by chance
    assert set(ends[:, 4].tolist()) == set(star.rows(["hub"]).tolist())
    assert set(ends[:, 5].tolist()) == set(star.rows(["alone"]).tolist())


@pytest.mark.parametrize("batch_size", [20, 60])
def test_same_seed_same_bytes_on_any_number_of_threads(batch_size):
    vectors = []
    try:
        for threads in (1, 2, 1):
            set_threads(threads)
            vectors.append(
                RAE(SMALL, batch_size=batch_size, seed=len(vectors) // 2).fit_transform(GRAPH, features=WORDS)
            )
    finally:
        set_threads(None)
    assert np.array_equal(vectors[0], vectors[1])
    assert not np.allclose(vectors[0], vectors[2])


@pytest.mark.parametrize("settings", [{}, {"projections": 2}, {"order": "project_first"}, {"activation": "relu"}])
@pytest.mark.parametrize("batch_size", [20, 4096])
def test_the_engine_embeds_what_was_trained(settings, batch_size):
    config = SMALL.replace(batch_size=batch_size, dropout=0.2, **settings)
    model = RAE(config).fit(GRAPH, features=WORDS)

    z = model.transform(GRAPH, WORDS)

    order = settings.get("order", "average_first")
    assert np.allclose(z, plain_embedding(model.encoders["agree"], GRAPH, WORDS.toarray(), order), atol=1e-5)
    assert z.shape == (60, config.width)


def _standardised(encoder: Encoder, z: np.ndarray) -> np.ndarray:
    """What the normalisation of the last level gave, from the vectors."""
    norm = encoder.stack()[-1].aggregate.norm
    return (np.arctanh(z.astype(np.float64)) - norm.bias.detach().numpy()) / norm.weight.detach().numpy()


def test_statistics_are_those_of_the_graph_and_of_a_sample_where_it_is_large(monkeypatch):
    graph = random_graph(300, 900, seed=2)
    words = sp.random_array((300, 25), density=0.3, rng=np.random.default_rng(4), dtype=np.float32).tocsr()
    encoder, _ = fit(graph, Features.of(graph, words, SMALL), SMALL, "agree")
    model = RAE(SMALL).fit(graph, features=words)

    exact = _standardised(encoder, model.transform(graph, words)[:, :8])
    assert np.allclose(exact.mean(0), 0, atol=1e-4)
    assert np.allclose(exact.std(0), 1, atol=0.01)

    monkeypatch.setattr(rae.model.agree, "SETTLED", 100)
    monkeypatch.setattr(rae.model.agree, "SAMPLE", 200)
    sampled = RAE(SMALL, fanout=(99, 99), batch_size=300).fit(graph, features=words)
    near = _standardised(sampled.encoders["agree"], sampled.transform(graph, words)[:, :8])
    assert np.allclose(near.mean(0), 0, atol=0.25)
    assert np.allclose(near.std(0), 1, atol=0.25)
    assert abs(near.mean(0)).max() > 1e-4


def test_settling_changes_statistics_alone():
    encoder = Encoder(25, SMALL, generator(0, "a"))
    before = {name: t.clone() for name, t in encoder.state_dict().items()}

    settle(encoder, GRAPH, Features.of(GRAPH, WORDS, SMALL), SMALL)

    changed = {name for name, t in encoder.state_dict().items() if not torch.equal(t, before[name])}
    assert {name.rsplit(".", 1)[1] for name in changed} == {"running_mean", "running_var", "num_batches_tracked"}
    assert not encoder.training
    assert all(level.aggregate.norm.momentum == 0.1 for level in encoder.stack())


def test_decorrelation_keeps_the_rank():
    ranks = [
        RAE(SMALL, steps=150, learning_rate=0.01, decorrelation=weight, telling=0.0, record_every=150)
        .fit(GRAPH, features=WORDS)
        .history[-1]["rank"]
        for weight in (0.0, 4.0)
    ]

    assert ranks[1] > 1.3 * ranks[0]


@pytest.mark.parametrize("telling_weight", [0.0, 2.0])
def test_the_loss_falls(telling_weight):
    history = RAE(SMALL, steps=100, telling=telling_weight, learning_rate=0.01).fit(GRAPH, features=WORDS).history

    assert np.mean([h["value"] for h in history[-3:]]) < history[0]["value"] - 0.1


def test_groups_that_share_words_and_edges_come_out_together():
    """Two planted groups: a node's own words say less than the vectors, which have those of its neighbours."""
    rng = np.random.default_rng(0)
    group = np.repeat([0, 1], 100)
    us, vs = rng.integers(200, size=(2, 6000))
    mask = rng.random(6000) < np.where(group[us] == group[vs], 0.15, 0.02)
    graph = Graph.from_edges((us[mask], vs[mask]), ids=np.arange(200))
    chance = np.where((np.arange(40) < 20)[None] == (group == 0)[:, None], 0.15, 0.08)
    words = sp.csr_array((rng.random((200, 40)) < chance).astype(np.float32))

    def right(x: np.ndarray) -> float:
        """The share of nodes on the side of their group's mean, the better of the two ways along the first axis."""
        axis = np.linalg.svd(x - x.mean(0))[2][0]
        side = (x - x.mean(0)) @ axis > 0
        return float(max((side == group).mean(), (side != group).mean()))

    z = RAE(SMALL, dims=(32, 32), steps=100, learning_rate=0.01).fit_transform(graph, features=words)

    assert right(z) > 0.9
    assert right(words.toarray()) < 0.8


def test_structure_alone_is_learned_from_too():
    z = RAE(SMALL).fit_transform(GRAPH)

    assert np.isfinite(z).all()
    assert np.linalg.matrix_rank(z - z.mean(0)) > 4


@pytest.mark.parametrize("value", [0.0, 1.0])
@pytest.mark.parametrize(("preset", "advice"), [(SMALL, "decorrelation \\(now 0.25"), (PAPER, "negatives \\(now 20")])
def test_features_that_say_nothing_give_finite_vectors_and_a_warning(value, preset, advice):
    x = np.full((60, 3), value, np.float32)
    with pytest.warns(CollapseWarning, match=advice):
        model = RAE(preset, steps=3).fit(GRAPH, features=x)

    assert np.isfinite(model.transform(GRAPH, x)).all()


@pytest.mark.parametrize("preset", [SMALL, PAPER])
def test_a_giant_value_is_refused_in_a_sentence(preset):
    x = WORDS.toarray()
    x[3, 1] = 1e30
    with pytest.raises(FeatureError, match="products of larger ones overflow"):
        RAE(preset, steps=3).fit(GRAPH, features=x)


def test_a_step_needs_the_partner_of_its_loss():
    encoder, decoder = Encoder(25, SMALL, generator(0, "a")), Decoder(25, 8, generator(0, "b"))

    with pytest.raises(ConfigError, match="'agree' with an encoder and a decoder, got 'agree' with Encoder"):
        step_loss(encoder, encoder, GRAPH, WORDS, SMALL, "agree", 1)
    with pytest.raises(ConfigError, match="got 'within' with Decoder"):
        step_loss(encoder, decoder, GRAPH, WORDS, SMALL, "within", 1)


def test_the_preset_and_the_digest_of_recorded_results():
    assert (ACTIONS.loss, ACTIONS.width, ACTIONS.projections, ACTIONS.dropout) == ("agree", 512, 1, 0.0)
    assert digest(PAPER.replace(walk=5, telling=1.0)) == digest(PAPER)  # settings that the loss does not read
    assert digest(ACTIONS.replace(walk=5)) != digest(ACTIONS)
    assert Config.from_dict(ACTIONS.as_dict()) == ACTIONS


def test_a_saved_model_gives_the_same_vectors(tmp_path):
    model = RAE(SMALL).fit(GRAPH, features=WORDS)
    model.save(tmp_path / "model.safetensors")

    again = RAE.load(tmp_path / "model.safetensors")

    assert np.array_equal(again.transform(GRAPH, WORDS), model.transform(GRAPH, WORDS))
    assert set(again.encoders) == {"agree"}
