"""One node at a time: the rows of a full pass, from a node's surroundings alone; a cut graph gives no wrong one."""

from __future__ import annotations

import itertools
import warnings
from functools import partial

import numpy as np
import pyarrow as pa
import pytest

import rae
from rae.errors import ConfigError, CutWarning, GraphError
from rae.features import measures
from rae.graph.ids import find_sorted, positions_in, sorting_order
from rae.model import checkpoint


def random_graph(n=300, m=700, seed=0, words=False):
    ends = np.random.default_rng(seed).integers(n, size=(m, 2))
    ids = [f"n{i}" for i in range(n)] if words else list(range(n))
    return rae.Graph.from_edges([(ids[u], ids[v]) for u, v in ends], ids=ids)


def same_bytes(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def dense(n=300, width=7):
    return np.random.default_rng(5).normal(size=(n, width)).astype(np.float32)


MODELS = {
    "structure": (rae.ExactConfig(), False),
    "actions": (rae.ExactConfig(), True),
    "actions alone": (rae.ExactConfig(structure=False), True),
    "trained": (rae.Config(steps=2, dims=(8, 4), fanout=(5, 5)), False),
    "trained on actions": (rae.Config(steps=2, dims=(8, 4), fanout=(5, 5)), True),
}


@pytest.fixture(scope="module", params=MODELS)
def fitted(request):
    config, with_features = MODELS[request.param]
    graph, x = random_graph(), dense() if with_features else None
    return rae.RAE(config).fit(graph, features=x), graph, x


def test_after_the_fit_both_units_give_the_same_bytes(fitted):
    model, graph, x = fitted
    assert same_bytes(model.transform(graph, x, units="fit"), model.transform(graph, x))
    assert same_bytes(model.transform(graph, x, units="graph"), model.transform(graph, x))


def test_rows_of_some_nodes_are_those_of_the_full_pass_in_either_unit(fitted):
    model, _, x = fitted
    other = random_graph(seed=3, m=900)
    for units in ("graph", "fit"):
        z = model.transform(other, x, units=units, whole=True)
        assert same_bytes(model.transform(other, x, nodes=[7, 299, 7], units=units, whole=True), z[[7, 299, 7]])


def test_the_units_of_the_fit_stay_where_an_edge_is_far_away():
    path = rae.Graph.from_edges([(i, i + 1) for i in range(60)])
    model = rae.RAE().fit(path)
    longer = rae.Graph.from_edges([*((i, i + 1) for i in range(60)), (60, 61)])
    before, after = model.transform(path, units="fit"), model.transform(longer, units="fit", whole=True)
    assert same_bytes(before[:55], after[:55])
    assert not np.array_equal(before[:55], model.transform(longer, whole=True)[:55])


def test_the_second_node_of_a_graph_costs_no_pass_over_it(monkeypatch):
    graph = random_graph()
    model = rae.RAE().fit(graph)
    z = model.transform(graph, units="fit")
    for name in ("degrees", "triangles", "four_cycles", "core_numbers"):
        monkeypatch.setattr(measures, name, None)  # would raise
    assert same_bytes(model.transform(graph, nodes=[9], units="fit"), z[[9]])


def test_wrong_units_are_refused():
    graph = random_graph()
    with pytest.raises(ConfigError, match="units must be one of 'graph', 'fit', got 'mine'"):
        rae.RAE().fit(graph).transform(graph, units="mine")


# ------------------------------------------------------------------------------------- ego graphs


def test_an_ego_graph_gives_the_rows_of_the_whole_graph(fitted):
    model, graph, x = fitted
    ego = rae.ego_graph(graph, [3, 200], hops=model.hops)
    rows = graph.rows(ego.ids)
    part = None if x is None else x[rows]
    z = model.transform(graph, x, nodes=[3, 200], units="fit")
    assert same_bytes(model.transform(ego, part, nodes=[3, 200], units="fit"), z)


def test_a_cut_that_is_too_near_is_refused(fitted):
    model, graph, x = fitted
    ego = rae.ego_graph(graph, [3], hops=model.hops - 1)
    part = None if x is None else x[graph.rows(ego.ids)]
    with pytest.raises(GraphError, match=f"reads {model.hops} edges away, and 1 of 1 nodes .* nearer to the cut"):
        model.transform(ego, part, nodes=[3], units="fit")
    with pytest.raises(GraphError, match=r"pass nodes= with those inside"):
        model.transform(rae.ego_graph(graph, [3], hops=model.hops), None if x is None else x[:0], units="fit")


def test_an_ego_graph_lacks_the_units_of_its_graph():
    graph = random_graph()
    model = rae.RAE().fit(graph)
    with pytest.raises(GraphError, match="pass units='fit', or the whole graph"):
        model.transform(rae.ego_graph(graph, [3], hops=4), nodes=[3])


def test_a_cut_graph_stays_cut(tmp_path):
    graph = random_graph()
    ego = rae.ego_graph(graph, [3], hops=4)
    assert "cut off 4 edges away" in repr(ego)
    assert ego.subgraph(ego.ids[:5]).reach.tolist() == [0] * 5
    assert ego.with_nodes([1000]).reach[-1] == 0
    model = rae.RAE().fit(graph)
    by_hand = rae.Graph(ego.offsets, ego.targets, ego.id_column, reach=ego.reach)
    with pytest.raises(GraphError, match="not those of the graph"):
        model.transform(by_hand, nodes=[3], units="fit", whole=True)
    for refused in (
        lambda: rae.RAE().fit(ego),
        lambda: rae.ego_graph(ego, [3], 2),
        lambda: rae.Graph.disjoint_union([ego, ego]),
        lambda: rae.write_graph(tmp_path / "ego", ego),
        lambda: model.embed_to(tmp_path / "z.parquet", ego, units="fit"),
        lambda: rae.ego_graph(graph, [3], 0),
        lambda: rae.Graph(ego.offsets, ego.targets, ego.id_column, reach=ego.reach[1:]),
    ):
        with pytest.raises(GraphError):
            refused()


DRAWING = {
    "the paper's": (rae.PAPER.replace(steps=2, dims=(8, 4), fanout=(5, 5), degree_cap=5), "degree_above_cap='random'"),
    "sampled": (rae.Config(steps=2, dims=(8, 4), fanout=(2, 2), inference="sampled"), "inference='sampled'"),
}


@pytest.mark.parametrize("name", DRAWING)
def test_a_model_that_draws_gives_rows_of_the_whole_graph_and_refuses_parts(name, tmp_path):
    (config, setting), graph = DRAWING[name], with_hub()
    rae.RAE(config).fit(graph).save(tmp_path / "model.safetensors")
    model = rae.RAE.load(tmp_path / "model.safetensors")
    z = model.transform(graph)
    assert same_bytes(model.transform(graph, nodes=[7, 299]), z[[7, 299]])
    for hops in (model.hops - 1, model.hops):
        with pytest.raises(GraphError, match=rf"fitted with {setting} and draws .* pass the whole graph, and nodes="):
            model.transform(rae.ego_graph(graph, [7], hops), nodes=[7], whole=True)
    if name == "sampled":  # with features too, for which the cap draws nothing
        model = rae.RAE(config).fit(graph, features=dense())
        ego = rae.ego_graph(graph, [7], model.hops)
        with pytest.raises(GraphError, match=setting):
            model.transform(ego, dense()[graph.rows(ego.ids)], nodes=[7])


def with_hub():
    ends = random_graph().edges().tolist()
    return rae.Graph.from_edges([*ends, *((0, v) for v in range(1, 60))], ids=range(300))


def test_a_model_with_features_does_not_draw_degrees():
    graph, x = with_hub(), dense()
    model = rae.RAE(rae.PAPER.replace(steps=2, dims=(8, 4), fanout=(5, 5))).fit(graph, features=x)
    ego = rae.ego_graph(graph, [7], model.hops)
    part = x[graph.rows(ego.ids)]
    assert same_bytes(model.transform(ego, part, nodes=[7]), model.transform(graph, x, nodes=[7]))


def test_degrees_of_neighbours_are_refused_near_a_cut():
    graph = with_hub()
    ego, full = rae.ego_graph(graph, [7], 4), rae.structural_features(graph)
    inside = np.flatnonzero(ego.reach >= 2)
    assert same_bytes(rae.structural_features(ego, rows=inside), full[graph.rows(ego.ids)[inside]])
    near = np.flatnonzero(ego.reach == 1)[0]
    for rows in (None, [near], (0, ego.n_nodes)):
        with pytest.raises(GraphError, match=r"degrees of neighbours lie two edges away, and .* pass rows= with those"):
            rae.structural_features(ego, rows=rows)
    with pytest.raises(GraphError, match="drawn by row number"):
        rae.structural_features(ego, rows=inside, above_cap="random")


# ------------------------------------------------------------------------------------- cut by hand


def cut_by_hand(graph, nodes, hops, isolated=()):
    """The edges that a database would give around these nodes: nothing in them says that they are a part."""
    return graph.subgraph(rae.ego_graph(graph, nodes, hops).ids).with_nodes(list(isolated))


def is_warned_of(model, graph, x=None, **options):
    """Whether a CutWarning comes with the vectors, and the vectors."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        z = model.transform(graph, x, **options)
    assert {w.category for w in caught} <= {CutWarning}
    assert all(w.filename == __file__ for w in caught)
    return bool(caught), z


@pytest.mark.parametrize("larger", [False, True], ids=["of the fit's graph", "of a larger graph"])
def test_a_cut_by_hand_is_warned_of_or_exact(fitted, larger):
    model, graph, x = fitted
    if larger:
        graph, x = random_graph(n=900, m=2000, seed=8), None if x is None else dense(900)
    lonely = graph.ids[graph.degrees == 0][:1].tolist()
    rows = np.flatnonzero((graph.degrees > 0) & (graph.degrees < 6))
    for number, (hops, egos, isolated) in enumerate(itertools.product(range(1, 9), (1, 2), ([], lonely))):
        nodes = rows[2 * number : 2 * number + egos].tolist()
        part = cut_by_hand(graph, nodes, hops, isolated)
        features = None if x is None else x[graph.rows(part.ids)]
        for units in (None, "fit"):
            warned, z = is_warned_of(model, part, features, nodes=nodes, units=units)
            assert warned or same_bytes(z, model.transform(graph, x, nodes=nodes, units=units, whole=True))


def test_a_cut_that_holds_all_of_the_graph_of_the_fit_is_that_graph():
    graph = rae.Graph.from_edges([(i, i + 1) for i in range(12)] + [(0, 5), (2, 9), (7, 11)])
    model = rae.RAE().fit(graph)
    warned = {}
    for hops in range(1, 9):
        warned[hops], z = is_warned_of(model, cut_by_hand(graph, [6], hops), nodes=[6], units="fit")
        assert warned[hops] or same_bytes(z, model.transform(graph, nodes=[6], units="fit"))
    assert warned[2]
    assert not warned[8]


def test_any_other_graph_is_warned_of_unless_it_is_said_to_be_whole(fitted, tmp_path):
    model, graph, x = fitted
    others = [
        random_graph(seed=4),
        random_graph(n=900, m=2000),
        rae.Graph.from_edges([(i, (i + 1) % 40) for i in range(40)]),
        rae.Graph.from_edges([], ids=[0]),
        graph.with_nodes([300]),
    ]
    for other in others:
        features = None if x is None else np.resize(x, (other.n_nodes, x.shape[1]))
        with pytest.warns(CutWarning, match=rf"not the graph of the fit; .* {model.hops} edges .* pass whole=True if"):
            model.transform(other, features, units="fit")
        for embed in (model.to_arrow, partial(model.embed_to, tmp_path / "z.parquet")):
            with pytest.warns(CutWarning) as caught:
                embed(other, features)
            assert [w.filename for w in caught] == [__file__]
        model.transform(other, features, units="fit", whole=True)
        model.to_arrow(other, features, whole=True)
        model.embed_to(tmp_path / "z.parquet", other, features, whole=True)
        if x is None:
            model.embed_graphs([other, graph])


def test_the_warning_says_where_vectors_are_wrong():
    graph, x, other = random_graph(), dense(), random_graph(seed=4)
    with pytest.warns(
        CutWarning, match=r"and core numbers of the whole graph, so .* larger graph, its vectors are wrong"
    ):
        rae.RAE().fit(graph).transform(other)
    with pytest.warns(CutWarning, match=r"4 edges away, so .* larger graph, vectors near the cut are wrong"):
        rae.RAE(structure=False).fit(graph, features=x).transform(other, x)


def test_an_ego_graph_is_as_sure_as_what_it_was_cut_from():
    graph = random_graph()
    model, by_hand = rae.RAE().fit(graph), cut_by_hand(graph, [3], 5)
    for whole in (graph, by_hand.as_whole()):
        assert not is_warned_of(model, rae.ego_graph(whole, [3], 4), nodes=[3], units="fit")[0]
    with pytest.warns(CutWarning, match=r"not cut from the graph of the fit; .* wrong: pass whole=True if no edge is"):
        model.transform(rae.ego_graph(by_hand, [3], 4), nodes=[3], units="fit")
    model.transform(rae.ego_graph(by_hand, [3], 4), nodes=[3], units="fit", whole=True)
    whole = graph.as_whole()
    for derived in (whole.subgraph(whole.ids[:20]), whole.with_nodes([300])):
        assert is_warned_of(model, derived)[0]


def in_another_order(graph, rows):
    """The same graph with its rows in this order, its edges shuffled and turned, built anew."""
    arcs = graph.to_arrow().take(pa.array(np.random.default_rng(1).permutation(graph.to_arrow().num_rows)))
    columns = {name: arcs[name] for name in arcs.column_names if name not in ("source", "target")}
    ends = [arcs["source"].combine_chunks(), arcs["target"].combine_chunks()]
    ends = ends if graph.directed else ends[::-1]
    ids = graph.id_column.take(pa.array(rows))
    return rae.Graph.from_edges(tuple(ends), ids=ids, directed=graph.directed, **columns)


FORMS = {
    "plain": {},
    "words": {"words": True},
    "weights": {"weight": True},
    "weights, directions, kinds": {"weight": True, "directed": True, "kind": True},
}


def graph_of_form(words=False, weight=False, directed=False, kind=False):
    rng = np.random.default_rng(6)
    graph = random_graph(words=words)
    arcs = graph.to_arrow()
    options = {"weight": rng.random(len(arcs)) + 0.1} if weight else {}
    options |= {"kind": rng.choice(["card", "wire"], len(arcs))} if kind else {}
    return rae.Graph.from_edges((arcs["source"], arcs["target"]), ids=graph.id_column, directed=directed, **options)


@pytest.mark.parametrize("form", FORMS)
def test_the_graph_of_the_fit_is_known_in_any_order_and_from_a_file(form, tmp_path):
    graph = graph_of_form(**FORMS[form])
    model = rae.RAE().fit(graph)
    model.save(tmp_path / "model.safetensors")
    rae.write_graph(tmp_path / "folder", graph)
    shuffled = in_another_order(graph, np.random.default_rng(2).permutation(graph.n_nodes))
    assert shuffled.ids.tolist() != graph.ids.tolist()
    for fitted in (model, rae.RAE.load(tmp_path / "model.safetensors")):
        for same in (graph, rae.open_graph(tmp_path / "folder"), shuffled, graph.subgraph(graph.ids[::-1])):
            assert not is_warned_of(fitted, same)[0]
    assert is_warned_of(model, graph.subgraph(graph.ids[1:]))[0]


def test_a_file_of_the_edges_of_the_fit_is_known(tmp_path):
    graph = random_graph(words=True)
    rows = [
        f"{e['source']},{e['target']}\n" for e in graph.subgraph(graph.ids[graph.degrees > 0]).to_arrow().to_pylist()
    ]
    (tmp_path / "a.csv").write_text("".join(["source,target\n", *rows]))
    (tmp_path / "b.csv").write_text("".join(["source,target\n", *rows[::-1], rows[0]]))
    model = rae.RAE().fit(rae.read_edges(tmp_path / "a.csv"))
    assert not is_warned_of(model, rae.read_edges(tmp_path / "b.csv"))[0]


def test_several_graphs_are_known_together_in_any_order():
    graphs = [random_graph(n=60, m=120, seed=seed, words=seed == 2) for seed in range(3)]
    model = rae.RAE().fit(graphs[:2])
    assert not is_warned_of(model, graphs[:2])[0]
    assert not is_warned_of(model, graphs[1::-1])[0]
    assert not is_warned_of(model, [graph.as_whole() for graph in graphs])[0]
    for others in (graphs, graphs[:1], graphs[0], graphs[1:], rae.Graph.disjoint_union(graphs[:2])):
        assert is_warned_of(model, others)[0]
    assert not is_warned_of(model, graphs, whole=True)[0]


@pytest.mark.parametrize("settings", [{}, {"steps": 1, "dims": (8,), "fanout": (5,)}], ids=["exact", "trained"])
@pytest.mark.parametrize("older_fields", [{}, {"n_nodes": 300}], ids=["oldest", "with a number of nodes"])
def test_a_model_file_that_does_not_know_its_graph_takes_all_graphs_for_others(settings, older_fields, tmp_path):
    graph, path = random_graph(), tmp_path / "model.safetensors"
    rae.RAE(**settings).fit(graph).save(path)
    fields, tensors = checkpoint.read_file(path)
    del fields["fitted_on"]
    checkpoint.write_file(path, fields | older_fields, tensors)
    model = rae.RAE.load(path)
    assert is_warned_of(model, graph)[0]
    assert not is_warned_of(model, graph, whole=True)[0]


def test_the_graph_of_a_run_is_known_after_its_updates(tmp_path):
    run = rae.fit_run(random_graph(), out=tmp_path / "run", page=False)
    assert not is_warned_of(run.model(), run.graph())[0]
    for fold in (False, True):
        run.update(added=[(1, f + 1000) for f in range(3)] if fold else [(1, 2000)], fold=fold)
        assert not is_warned_of(run.model(), run.graph(), units="fit")[0]
        assert is_warned_of(run.model(), run.graph().with_nodes([5000]), units="fit")[0]


def test_the_graph_of_a_run_is_known_to_models_of_its_fit_alone(tmp_path):
    graph = random_graph()
    model, part = rae.RAE().fit(graph), cut_by_hand(graph, [3], 3)
    z = model.transform(part, whole=True)
    of_part = rae.fit_run(part, out=tmp_path / "part", page=False)
    foreign = rae.Run.create(tmp_path / "foreign", model, part.id_column, z, graph=part)
    for run in (of_part, foreign):
        assert is_warned_of(model, run.graph())[0]
        assert is_warned_of(model, rae.ego_graph(run.graph(), [3], 4), nodes=[3], units="fit")[0]
        run.update(added=[(3, 5000)])
        assert is_warned_of(model, run.graph(), units="fit")[0]
        assert not is_warned_of(model, run.graph().as_whole(), units="fit")[0]
    assert not is_warned_of(of_part.model(), of_part.graph(), units="fit")[0]
    own = rae.Run.create(tmp_path / "own", model, graph.id_column, model.transform(graph), graph=graph)
    own.update(added=[(3, 5000)])
    ego = rae.ego_graph(own.graph(), [3], 4)
    for same in (model, rae.Run.open(own.path).model(), rae.RAE(seed=1).fit(graph)):
        assert not is_warned_of(same, own.graph(), units="fit")[0]
        assert not is_warned_of(same, ego, nodes=[3], units="fit")[0]


def test_every_call_warns_at_the_line_of_its_caller(tmp_path):
    graph = random_graph()
    model = rae.RAE().fit(graph)
    model.save(tmp_path / "model.safetensors")
    calls = {
        "transform": lambda part, out: model.transform(part),
        "to_arrow": lambda part, out: model.to_arrow(part),
        "embed_to": lambda part, out: model.embed_to(out, part),
        "embed_file": lambda part, out: rae.embed_file(tmp_path / "model.safetensors", part, out=out),
    }
    for name, call in calls.items():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")  # what Python does unless it is asked otherwise: once at a line
            for node in (3, 5, 7):
                call(cut_by_hand(graph, [node], 2), tmp_path / f"{name}{node}.parquet")
        assert [(w.category, w.filename) for w in caught] == [(CutWarning, __file__)] * 3
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=CutWarning, module=__name__)
        model.transform(cut_by_hand(graph, [3], 2))


# ------------------------------------------------------------------------------------- looking ids up


@pytest.mark.parametrize(
    ("column", "ids"),
    [
        (pa.array([5, 1, 9, 3]), pa.array([9, 4, 1], pa.int32())),
        (pa.array([1, 3, 5]), pa.array([0, 5, 6])),
        (pa.array(["b", "é", "a"]), pa.array(["é", "", "a"], pa.large_string())),
    ],
)
def test_few_ids_are_found_as_many_are(column, ids):
    assert find_sorted(ids, column, sorting_order(column)).tolist() == positions_in(ids, column).tolist()


def test_ids_of_other_kinds_are_left_to_arrow():
    assert find_sorted(pa.array([1.5]), pa.array([1.5]), None) is None
    graph = random_graph(n=5000, m=9000, words=True)
    assert graph.rows(["n4999", "n0"]).tolist() == [4999, 0]
    with pytest.raises(GraphError, match="1 of 2 ids are not in the graph, first 'x'"):
        graph.rows(["n1", "x"])
