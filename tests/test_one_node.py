"""One node at a time: the rows of a full pass, from a node's surroundings alone; a cut graph gives no wrong one."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse.csgraph

import rae
from rae.errors import ConfigError, CutWarning, GraphError
from rae.features import center_within, measures
from rae.graph.ids import find_sorted, positions_in, sorting_order


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
        z = model.transform(other, x, units=units)
        assert same_bytes(model.transform(other, x, nodes=[7, 299, 7], units=units), z[[7, 299, 7]])


def test_the_units_of_the_fit_stay_where_an_edge_is_far_away():
    path = rae.Graph.from_edges([(i, i + 1) for i in range(60)])
    model = rae.RAE().fit(path)
    longer = rae.Graph.from_edges([*((i, i + 1) for i in range(60)), (60, 61)])
    before, after = model.transform(path, units="fit"), model.transform(longer, units="fit")
    assert same_bytes(before[:55], after[:55])
    assert not np.array_equal(before[:55], model.transform(longer)[:55])


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
    with pytest.raises(GraphError, match="not those of the graph"):
        model.transform(rae.Graph(ego.offsets, ego.targets, ego.id_column, reach=ego.reach), nodes=[3], units="fit")
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


def cut_by_hand(graph, node, hops):
    """The ego graph that edges of a database would give: nothing in it says that it is cut."""
    return graph.subgraph(rae.ego_graph(graph, [node], hops).ids)


def test_a_graph_cut_by_hand_is_warned_of(fitted):
    model, graph, x = fitted
    rows = np.flatnonzero((graph.degrees > 0) & (graph.degrees < 6))[:4]
    for row, hops in itertools.product(rows.tolist(), range(1, min(4, model.hops + 1))):
        part = cut_by_hand(graph, row, hops)
        given = None if x is None else x[graph.rows(part.ids)]
        for units in (None, "fit"):
            with pytest.warns(CutWarning, match=rf"if they were cut out .* hops={model.hops}\).* pass whole=True"):
                model.transform(part, given, nodes=[row], units=units)


def test_a_cut_that_is_not_warned_of_has_all_edges_that_its_ego_reads(fitted):
    model, graph, x = fitted
    for hops in range(1, 8):
        part = cut_by_hand(graph, 3, hops)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            model.transform(part, None if x is None else x[graph.rows(part.ids)], nodes=[3], units="fit")
        assert any(w.category is CutWarning for w in seen) or hops > model.hops


def test_a_whole_graph_is_not_warned_of(fitted, tmp_path):
    model, graph, x = fitted
    small = rae.Graph.from_edges([(0, i) for i in range(1, 40)] + [(i, i + 1) for i in range(1, 30)])
    given = None if x is None else x[:40]
    for units in ("graph", "fit"):
        model.transform(small, given, units=units, whole=True)
    model.transform(graph, x)
    apart = rae.Graph.from_edges([(i, i + 1) for i in range(0, 20, 2)], ids=range(40))  # an ego graph is connected
    model.transform(apart, given, units="fit")
    ring = rae.Graph.from_edges([(i, (i + 1) % 40) for i in range(40)])  # and its nodes are near its ego
    model.transform(ring, given, units="fit")
    model.save(tmp_path / "model.safetensors")
    with pytest.warns(CutWarning):
        rae.RAE.load(tmp_path / "model.safetensors").transform(small, given, units="fit")


def test_a_center_is_found_where_there_is_one():
    """As the distances between all rows say."""
    for seed in range(40):
        graph = random_graph(n=30, m=20 + seed, seed=seed)
        distances = scipy.sparse.csgraph.shortest_path(graph.to_scipy(), unweighted=True)
        for hops in range(1, 7):
            row = center_within(graph, hops)
            assert (row is not None) == bool((distances.max(1) <= hops).any())
            assert row is None or distances[row].max() <= hops


# ------------------------------------------------------------------------------------- looking ids up


@pytest.mark.parametrize(
    ("column", "wanted"),
    [
        (pa.array([5, 1, 9, 3]), pa.array([9, 4, 1], pa.int32())),
        (pa.array([1, 3, 5]), pa.array([0, 5, 6])),
        (pa.array(["b", "é", "a"]), pa.array(["é", "", "a"], pa.large_string())),
    ],
)
def test_few_ids_are_found_as_many_are(column, wanted):
    assert find_sorted(wanted, column, sorting_order(column)).tolist() == positions_in(wanted, column).tolist()


def test_ids_of_other_kinds_are_left_to_arrow():
    assert find_sorted(pa.array([1.5]), pa.array([1.5]), None) is None
    graph = random_graph(n=5000, m=9000, words=True)
    assert graph.rows(["n4999", "n0"]).tolist() == [4999, 0]
    with pytest.raises(GraphError, match="1 of 2 ids are not in the graph, first 'x'"):
        graph.rows(["n1", "x"])
