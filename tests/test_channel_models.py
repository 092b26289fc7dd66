"""Vectors of graphs with weights, directions and kinds: laws, and what a fitted model reads of other graphs."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

import rae
from rae import RAE, Graph, set_threads
from rae.engine import embed_to, models_of
from rae.engine.layout import Layout
from rae.errors import ConfigError, GraphError
from rae.io import open_graph, read_embeddings, write_graph
from rae.model.channels import conform, measure_names, n_averaged, n_measures, place_ways
from rae.model.structure import measure, n_statistics, statistics, units, view
from rae.ops.library import reference_only
from rae.roles.cards import flow_measures, structural_profiles
from rae.roles.summary import summarize_roles

RNG = np.random.default_rng(8)
N, ROWS = 150, 900
ENDS = (RNG.random((ROWS, 2)) ** 2 * N).astype(np.int64)
WEIGHT = RNG.gamma(0.7, 80.0, ROWS)
KIND = RNG.choice(["card", "wire"], ROWS, p=[0.8, 0.2])
FEATURES = RNG.normal(size=(N, 6)).astype(np.float32)
WAYS = {
    "all": {"weight": WEIGHT, "directed": True, "kind": KIND},
    "weight": {"weight": WEIGHT},
    "directed": {"directed": True},
    "kinds": {"kind": KIND},
    "both": {"weight": WEIGHT, "directed": True},
}


def graph_of(**options):
    return Graph.from_edges(ENDS, ids=np.arange(N), **options)


@pytest.fixture(params=WAYS)
def graph(request):
    return graph_of(**WAYS[request.param])


def place(model, vectors):
    block = next(b for b in model.blocks if b.name == "place")
    return vectors[:, block.start : block.stop]


def distances(z):
    return np.linalg.norm(z[:, None] - z[None], axis=2)


# ------------------------------------------------------------------------------ laws


def test_a_plain_graph_has_the_vectors_it_had():
    """The bytes of the version before weights: a plain edge list is read, fitted and embedded as ever."""
    plain = graph_of()
    z = RAE(power=1.0).fit_transform(plain)
    channels = RAE().fit(plain)

    assert channels.fitted.channels == ()
    assert "channels" not in channels.fitted.header()
    assert "scales" not in channels.fitted.structure.tensors()
    assert "mix" not in channels.config.stored()
    for options in WAYS.values():  # a model of a plain graph reads the rows of any graph
        assert np.array_equal(channels.transform(graph_of(**options), whole=True), z)


def test_measures_are_those_of_dictionaries(graph):
    x = measure(graph).numpy()
    names = measure_names(tuple(graph.channels), graph.weighted)

    assert x.shape[1] == 4 + len(names) == n_measures(tuple(graph.channels), graph.weighted)
    arcs = graph.arcs()
    for column, name in enumerate(names, 4):
        way, _, what = name.rpartition(" ")
        direction, _, kind = way.partition(":")
        of_kind = np.ones(len(arcs.kind), bool) if not kind else arcs.kind == graph.kinds.index(kind)
        ends = {"out": [arcs.source], "in": [arcs.target]}.get(direction, [arcs.source, arcs.target])
        counts = sum(np.bincount(end[of_kind], minlength=N) for end in ends)
        if what == "degree":
            assert np.allclose(x[:, column], np.log1p(counts))
        elif not graph.kinds:
            sums = sum(np.bincount(end, arcs.weight, minlength=N) for end in ends)
            both = [np.bincount(arcs.source, arcs.weight, N), np.bincount(arcs.target, arcs.weight, N)]
            every = np.concatenate(both) if graph.directed else sum(both)
            assert np.allclose(x[:, column], np.log1p(sums / np.median(every[every > 0])), rtol=1e-5)


def test_vectors_do_not_depend_on_the_names_of_the_nodes(graph):
    names = RNG.permutation(N)
    arcs = graph.arcs()
    renamed = Graph.from_edges(
        (names[arcs.source], names[arcs.target]),
        ids=np.arange(N),
        weight=arcs.weight if graph.weighted else None,
        kind=np.array(graph.kinds)[arcs.kind] if graph.kinds else None,
        directed=graph.directed,
    )

    model = RAE().fit(graph)
    assert np.allclose(model.transform(renamed, whole=True)[names], model.transform(graph), atol=2e-4)


@pytest.mark.parametrize("name", ["all", "weight", "both"])
@pytest.mark.parametrize("factor", [100.0, 1e-9, 1e12, 7.3])
def test_amounts_in_cents_and_in_euros_give_the_same_vectors(name, factor):
    euros = graph_of(**WAYS[name])
    cents = graph_of(**WAYS[name] | {"weight": WEIGHT * factor})

    for relative in (True, False):
        model, other = RAE(relative=relative).fit(euros), RAE(relative=relative).fit(cents)
        assert np.allclose(
            distances(model.transform(euros, whole=True)), distances(other.transform(cents, whole=True)), atol=2e-3
        )
    assert np.allclose(RAE().fit(euros).transform(cents, whole=True), RAE().fit(euros).transform(euros), atol=1e-3)


def test_a_model_in_units_of_its_fit_sees_that_amounts_grew():
    small, large = graph_of(**WAYS["both"]), graph_of(**WAYS["both"] | {"weight": 10 * WEIGHT})
    model = RAE(relative=False).fit(small)
    assert not np.allclose(
        place(model, model.transform(large, whole=True)), place(model, model.transform(small, whole=True)), atol=0.05
    )


@pytest.mark.parametrize("name", ["all", "directed", "both"])
def test_turning_every_edge_round_swaps_what_goes_out_and_what_comes_in(name):
    graph = graph_of(**WAYS[name])
    channels, config = tuple(graph.channels), RAE().config
    names = measure_names(channels, graph.weighted)
    swap = [names.index(_other(name)) for name in names]

    x, turned = measure(graph).numpy(), measure(graph.reverse()).numpy()
    assert np.array_equal(turned[:, :4], x[:, :4])
    assert np.allclose(turned[:, 4:], x[:, 4:][:, swap], rtol=1e-12)

    width, k = n_averaged(channels, graph.weighted), n_measures(channels, graph.weighted)
    rows = np.arange(N)
    own, own_turned = ((m - m.mean(0)).astype(np.float32) for m in (x, turned))
    phi, phi_turned = (statistics(g, o, config, rows).numpy() for g, o in ((graph, own), (graph.reverse(), own_turned)))
    assert phi.shape[1] == n_statistics(config, channels, graph.weighted)
    order = [*range(4), *(4 + place for place in swap if place < width - 4)]
    ways = place_ways(channels, graph.weighted)
    for i, way in enumerate(ways):
        j = i if not way.channels else 1 + channels.index(_other(way.channels[0]))
        for shift in (0, width):  # means, then deviations
            left, right = k + 2 * width * i + shift, k + 2 * width * j + shift
            here, there = phi[:, left : left + width], phi_turned[:, right : right + width]
            assert np.allclose(there, here[:, order], atol=1e-5)

    z, z_turned = RAE().fit_transform(graph), RAE().fit_transform(graph.reverse())
    assert np.allclose(distances(z), distances(z_turned), atol=0.15)  # views are drawn alike for neither
    assert not np.allclose(
        RAE().fit(graph).transform(graph.reverse(), whole=True), RAE().fit(graph).transform(graph), atol=0.05
    )


def _other(name):
    return name.replace("out", "IN").replace("in", "out").replace("IN", "in") if name[:2] in ("ou", "in") else name


def test_weights_of_one_add_a_strength_and_change_no_mean():
    """Where all weights are 1, moments along the channel are those of the plain graph, to the bit."""
    ones, plain = Graph.from_edges(graph_of().edges(), ids=np.arange(N), weight=np.ones(graph_of().n_edges)), graph_of()
    config, rows = RAE().config, np.arange(N)
    x = measure(ones)

    assert np.array_equal(x[:, :4], measure(plain))
    own = ((x - units(x)[0]) / units(x)[1]).float().numpy()
    phi, width = statistics(ones, own, config, rows), n_averaged(("weight",), True)
    assert np.array_equal(phi[:, 5 : 5 + 2 * width], phi[:, 5 + 2 * width : 5 + 4 * width])


@pytest.mark.parametrize("mix", ["union", "directions", "channels"])
def test_features_are_averaged_along_edges_by_their_weights(graph, mix):
    model = RAE(mix=mix, structure=False).fit(graph, features=FEATURES)
    z = model.transform(graph, FEATURES)

    own, near = (next(b for b in model.blocks if b.name == name) for name in ("own", "near"))
    names = tuple(graph.channels)
    if mix == "union":
        groups = [names] if graph.weighted else [None]
    elif mix == "directions":
        groups = [[n for n in names if n.startswith(way)] for way in (("out", "in") if graph.directed else ("weight",))]
    else:
        groups = [[name] for name in names]
    means = []
    for group in groups:
        matrix = graph.to_scipy() if group is None else sum(graph.to_scipy(channel=name) for name in group)
        share = np.maximum(np.asarray(matrix.sum(1)).ravel(), 1e-300)
        means.append((matrix @ FEATURES) / share[:, None])
    means = np.hstack(means)
    assert near.width == own.width
    alone = np.abs(means).sum(1) == 0
    design = np.hstack([means, np.ones((N, 1))])[~alone]
    fitted = np.linalg.lstsq(design, z[~alone, near.start : near.stop], rcond=None)[0]
    if mix == "union" or len(groups) == 1:  # a map of the weighted means, and of nothing else
        assert np.allclose(design @ fitted, z[~alone, near.start : near.stop], atol=1e-3)
    plain = RAE(structure=False).fit(graph_of(), features=FEATURES).transform(graph_of(), FEATURES)
    differs = graph.weighted or mix != "union"
    assert np.allclose(z, plain, atol=1e-6) == (not differs)


# ------------------------------------------------------------------------------ one result, however it is computed


@pytest.mark.parametrize("mix", ["union", "directions", "channels"])
@pytest.mark.parametrize("features", [None, FEATURES], ids=["structure", "features"])
def test_in_memory_in_parts_and_on_any_threads_are_the_same_bytes(mix, features, tmp_path):
    graph = graph_of(**WAYS["all"])
    model = RAE(mix=mix).fit(graph, features=features)
    z = model.transform(graph, features)
    set_threads(3)
    try:
        assert np.array_equal(RAE(mix=mix).fit(graph, features=features).transform(graph, features), z)
    finally:
        set_threads(1)

    for columns in (1, 3, 100):
        path = tmp_path / f"z{columns}.parquet"
        embed_to(path, models_of(model.fitted, graph, features), cut=Layout(40, columns))
        assert np.array_equal(read_embeddings(path)[1], z)

    write_graph(tmp_path / "g", graph)
    opened = open_graph(tmp_path / "g")
    model.save(tmp_path / "m.safetensors")
    loaded = RAE.load(tmp_path / "m.safetensors")
    assert loaded.fitted.channels == tuple(graph.channels)
    assert loaded.fitted.weighted
    assert np.array_equal(loaded.transform(opened, features), z)
    first = (tmp_path / "m.safetensors").read_bytes()
    RAE(mix=mix).fit(opened, features=features).save(tmp_path / "again.safetensors")
    assert hashlib.sha256((tmp_path / "again.safetensors").read_bytes()).digest() == hashlib.sha256(first).digest()


def test_some_nodes_have_the_vectors_of_all(graph):
    model = RAE(mix="directions").fit(graph, features=FEATURES)
    some = np.array([3, 140, 77, 3])
    z = model.transform(graph, FEATURES)
    assert np.array_equal(model.transform(graph, FEATURES, nodes=some), z[some])


def test_an_ego_graph_has_the_vectors_of_the_whole(graph):
    model = RAE(relative=False).fit(graph)
    ego = rae.ego_graph(graph, [3, 77], model.hops)
    z = model.transform(graph)
    assert np.array_equal(model.transform(ego, nodes=[3, 77]), z[[3, 77]])
    assert list(ego.channels) == list(graph.channels)


def test_a_plain_model_and_one_of_channels_read_one_graph_each_in_its_way(graph):
    """What is kept with a graph for one model is not given to the other."""
    plain, seeing = RAE().fit(graph_of()), RAE().fit(graph)
    first, second = plain.transform(graph, whole=True), seeing.transform(graph, whole=True)
    assert np.array_equal(plain.transform(graph, whole=True), first)
    assert np.array_equal(seeing.transform(graph, whole=True), second)
    assert np.array_equal(plain.transform(graph_of(), whole=True), first)


def test_the_reference_gives_the_same_vectors(graph):
    model = RAE().fit(graph)
    z = model.transform(graph)
    with reference_only():
        assert np.allclose(model.transform(graph), z, atol=1e-4)


def test_views_drop_and_add_edges_with_their_weights(graph):
    noisy = view(graph, RAE(noise=0.3).config, 0)
    assert list(noisy.channels) == list(graph.channels)
    assert noisy.weighted == graph.weighted
    for name in graph.channels:
        here = noisy.to_scipy(channel=name)
        other = {"out": "in", "in": "out"}.get(name.split(":")[0], "weight") + name[len(name.split(":")[0]) :]
        assert (here != noisy.to_scipy(channel=other).T).nnz == 0
        assert set(here.data) <= set(graph.to_scipy(channel=name).data)
        assert 0.8 < here.nnz / max(1, graph.to_scipy(channel=name).nnz) < 1.25


# ------------------------------------------------------------------------------ other graphs than that of the fit


def test_a_kind_that_is_not_there_counts_as_absent():
    both, cards = graph_of(**WAYS["all"]), KIND == "card"
    model = RAE().fit(both)
    less = Graph.from_edges(ENDS[cards], ids=np.arange(N), weight=WEIGHT[cards], directed=True, kind=KIND[cards])
    assert less.kinds == ("card",)

    padded = conform(less, tuple(both.channels), True)
    assert padded.kinds == both.kinds
    assert not padded.channels["out:wire"].any()
    assert np.array_equal(model.transform(less, whole=True), model.transform(padded, whole=True))
    assert conform(both, tuple(both.channels), True) is both


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            {},
            "are directed, weighted, of kinds card, wire, and those of this graph are not directed",
        ),
        (WAYS["both"], "not of several kinds"),
        ({"directed": True, "kind": KIND}, "those of this graph are not weighted"),
        (WAYS["all"] | {"kind": np.where(KIND == "card", "card", "gift")}, "the kind 'gift' was not there"),
    ],
)
def test_a_graph_that_the_model_would_misread_is_refused(options, says):
    model = RAE().fit(graph_of(**WAYS["all"]))
    with pytest.raises(GraphError, match=says):
        model.transform(graph_of(**options), whole=True)


def test_a_weighted_graph_is_refused_by_a_model_of_an_unweighted_directed_one():
    model = RAE().fit(graph_of(**WAYS["directed"]))
    with pytest.raises(GraphError, match="are directed, and those of this graph are weighted"):
        model.transform(graph_of(**WAYS["both"]), whole=True)


def test_the_trained_model_says_that_it_leaves_weights_out(caplog):
    caplog.set_level("INFO", "rae")
    settings = {"dims": (4,), "fanout": (3,), "steps": 2}
    z = RAE(**settings).fit_transform(graph_of(**WAYS["all"]))

    assert caplog.text.count("weights, directions and kinds are left out") == 1
    assert np.array_equal(z, RAE(**settings).fit_transform(graph_of()))


def test_settings_of_channels_are_checked():
    with pytest.raises(ConfigError, match="mix must be one of"):
        RAE(mix="sideways").fit(graph_of())
    with pytest.raises(ConfigError, match="channel_weight"):
        RAE(channel_weight=-1.0).fit(graph_of())


def test_a_damaged_model_of_channels_is_refused(tmp_path):
    from rae.errors import CheckpointError
    from rae.model.checkpoint import read_file, write_file

    RAE().fit(graph_of(**WAYS["all"])).save(tmp_path / "m.safetensors")
    for harm, says in (
        ({"channels": ["out", "sideways"]}, "channels must be"),
        ({"channels": ["out:card", "in:card"]}, "shape"),
        ({"channels": "out"}, "channels"),
        ({"weighted": False}, "unknown|shape|missing"),
    ):
        fields, tensors = read_file(tmp_path / "m.safetensors")
        write_file(tmp_path / "bad.safetensors", {**fields, **harm}, tensors)
        with pytest.raises(CheckpointError, match=says):
            RAE.load(tmp_path / "bad.safetensors")
    fields, tensors = read_file(tmp_path / "m.safetensors")
    write_file(tmp_path / "bad.safetensors", fields, tensors | {"structure.scales": 0 * tensors["structure.scales"]})
    with pytest.raises(CheckpointError, match="unit of weights"):
        RAE.load(tmp_path / "bad.safetensors")


def test_directions_tell_collectors_from_spreaders():
    """Two nodes with equally many neighbours, one of which pays them and one of which they pay."""
    edges = [("spreader", f"a{i}") for i in range(12)] + [(f"b{i}", "collector") for i in range(12)]
    edges += [(f"a{i}", f"a{i + 1}") for i in range(11)] + [(f"b{i + 1}", f"b{i}") for i in range(11)]
    blind, seeing = Graph.from_edges(edges), Graph.from_edges(edges, directed=True)

    def distance(graph):
        model = RAE().fit(graph)
        z = dict(zip(graph.ids, place(model, model.transform(graph)), strict=True))
        return np.linalg.norm(z["spreader"] - z["collector"])

    assert distance(blind) < 1e-4
    assert distance(seeing) > 0.5


# ------------------------------------------------------------------------------ payments, and cards of roles


def test_payments_have_their_schemes():
    transactions = rae.datasets.transactions(n_rows=6000, seed=3)
    again = rae.datasets.transactions(n_rows=6000, seed=3)
    data = rae.datasets.load("transactions", n_rows=6000, seed=3)

    assert transactions.table.equals(again.table)
    assert repr(transactions) == "Transactions(rows=6,000, accounts=500)"
    assert transactions.table.column_names == ["sender", "receiver", "amount", "type", "timestamp"]
    assert (np.diff(transactions.table["timestamp"].to_numpy().astype(np.int64)) >= 0).all()
    assert data.graph.directed
    assert data.graph.kinds == ("card", "salary", "transfer", "wire")
    roles, z = dict(zip(*(column.to_pylist() for column in transactions.accounts.columns), strict=True)), data.labels
    assert [roles[id] for id in data.graph.ids] == [data.label_names[label] for label in z]
    flows = flow_measures(data.graph)
    members = {role: np.flatnonzero(z == i) for i, role in enumerate(data.label_names)}
    assert np.median(flows["in_degree"][members["merchant"]]) > 3 * np.median(flows["out_degree"][members["merchant"]])
    assert np.median(flows["out_degree"][members["employer"]]) > 3 * np.median(flows["in_degree"][members["employer"]])
    collectors = members["collector"]
    rows = zip(*(transactions.table[name].to_pylist() for name in ("sender", "receiver", "type")), strict=True)
    own = set(data.graph.ids[collectors])
    mules = {roles[sender] for sender, receiver, kind in rows if kind == "wire" and receiver in own}
    assert "mule" in mules
    assert "transactions" in rae.datasets.names()
    with pytest.raises(ConfigError, match="n_rows must be a whole number, 500 or more"):
        rae.datasets.transactions(n_rows=3)
    assert (rae.datasets.load("transactions", n_rows=600, schemes=0.0).labels < 4).all()


def test_cards_speak_of_directions_and_weights():
    data = rae.datasets.load("transactions", n_rows=12_000)
    graph, labels = data.graph, data.labels
    merchant, employer = data.label_names.index("merchant"), data.label_names.index("employer")

    def summaries(graph):
        profiles = structural_profiles(graph, labels, data.n_classes)
        nothing = [{}] * data.n_classes
        return profiles, summarize_roles(profiles, nothing, [[]] * data.n_classes)

    profiles, lines = summaries(graph)
    assert "collect from many, pay out to few" in lines[merchant]
    assert "collect from few, pay out to many" in lines[employer]
    assert "weights" in " ".join(lines)
    assert {"out_degree", "in_degree", "out_strength", "in_strength", "balance"} <= set(profiles[0])

    arcs = graph.arcs()
    plain = Graph.from_edges((arcs.source, arcs.target), ids=np.arange(graph.n_nodes))
    profiles, lines = summaries(plain)
    assert "balance" not in profiles[0]
    assert not any("collect" in line or "weights" in line for line in lines)
    directed = Graph.from_edges((arcs.source, arcs.target), ids=np.arange(graph.n_nodes), directed=True)
    _, lines = summaries(directed)
    assert "many edges lead to them, few away" in lines[merchant]
    assert "many edges lead away from them, few to them" in lines[employer]
    weighted = Graph.from_edges((arcs.source, arcs.target), ids=np.arange(graph.n_nodes), weight=arcs.weight)
    profiles, lines = summaries(weighted)
    assert "strength" in profiles[0]
    assert "weights add up to" in " ".join(lines)


@pytest.mark.parametrize(
    ("edges", "weights", "says"),
    [
        ([(f"s{i}", "hub") for i in range(6)], True, "only get, from many"),
        ([("hub", f"s{i}") for i in range(6)], True, "only pay, to many"),
        ([("hub", f"s{i}") for i in range(6)], False, "only send, to many"),
        ([(f"s{i}", "hub") for i in range(2)], False, "only receive, from 2"),
        ([("a", "hub"), ("hub", "b"), ("a", "b")], True, "pass on about what they get"),
        ([("a", "hub"), ("hub", "b"), ("hub", "c"), ("b", "c")], [1, 9, 9, 1], "pay far more than they get"),
        ([("hub", "a"), ("b", "hub"), ("c", "hub"), ("b", "c")], [1, 9, 9, 1], "get far more than they pay"),
    ],
)
def test_the_way_of_money_in_words(edges, weights, says):
    weight = np.ones(len(edges)) if weights is True else weights or None
    graph = Graph.from_edges(edges, directed=True, weight=weight)
    labels = (graph.ids == "hub").astype(np.int64)
    profiles = structural_profiles(graph, labels, 2)
    assert says in summarize_roles(profiles, [{}, {}], [[], []])[1]


def test_a_run_keeps_the_channels_of_its_graph(tmp_path):
    import pyarrow.csv

    transactions = rae.datasets.transactions(n_rows=1500)
    pyarrow.csv.write_csv(transactions.table, tmp_path / "t.csv")
    options = {"weight": "amount", "directed": True, "kind": "type", "time": "timestamp", "since": "2026-07-05"}
    for memory in (None, "2GiB"):
        run = rae.fit_run(tmp_path / "t.csv", out=tmp_path / "run", page=False, memory=memory, force=True, **options)
        opened = rae.Run.open(run.path if hasattr(run, "path") else tmp_path / "run")
        graph = open_graph(tmp_path / "run" / "graph", verify=True)

        assert graph.kinds == ("card", "salary", "transfer", "wire")
        assert graph.counts.outside > 0
        ids, z = opened.embeddings()
        assert np.array_equal(RAE.load(tmp_path / "run" / "model.safetensors").transform(graph), z)
        assert ids.to_pylist() == list(graph.ids)
    with pytest.raises(GraphError, match=r"must be \(source, target, weight, kind\) each, .*, got 2 entries"):
        opened.update(added=[(graph.ids[0], "new")])
    rae.fit_run(tmp_path / "t.csv", out=tmp_path / "run", page=False, force=True)
    assert not list((tmp_path / "run" / "graph").glob("channel*"))
    assert not open_graph(tmp_path / "run" / "graph", verify=True).channels
