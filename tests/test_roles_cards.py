"""Role cards: sizes, prototypes, structure, actions, and sentences that are true of their facts."""

from __future__ import annotations

import json
import re
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

from rae import RAE, FeatureTable, Graph, Roles, Run
from rae.datasets import load
from rae.errors import FeatureError, FileError, GraphError, RunError
from rae.roles.actions import distinctive_features
from rae.roles.cards import profile_roles, structural_measures
from rae.roles.storage import describe_number, read_record, read_table
from rae.roles.summary import describe_rank, distinguish, summarize_roles


def make_stars(count=6, leaves=12):
    """A ring of hubs, each with leaves."""
    hubs = [(f"hub{i}", f"hub{(i + 1) % count}") for i in range(count)]
    return Graph.from_edges(hubs + [(f"hub{i}", f"leaf{i}.{j}") for i in range(count) for j in range(leaves)])


@pytest.fixture(scope="module")
def graph():
    return make_stars()


@pytest.fixture(scope="module")
def table(graph):
    words = ["sells", "buys", "rare", "always"]
    hub = np.array([i.startswith("hub") for i in graph.ids])
    x = np.zeros((graph.n_nodes, 4), np.float32)
    x[:, 0], x[:, 1], x[:, 3] = hub, ~hub, 1
    x[np.flatnonzero(hub)[:2], 2] = 1
    return FeatureTable(graph.id_column, sp.csr_array(x), tuple(words))


@pytest.fixture
def run(tmp_path, graph, table):
    model = RAE(dims=(8, 8), fanout=(5, 5), steps=5).fit(graph, features=table)
    z = model.transform(graph, table)
    return Run.create(tmp_path / "run", model, graph.id_column, z, graph=graph, features=table)


# -------------------------------------------------------------------------------------- cards


def test_cards_of_stars_separate_hubs_from_leaves(graph, table):
    z = np.array([[1.0, 0] if i.startswith("hub") else [0, 1] for i in graph.ids])
    leaves, hubs = Roles().fit(z).cards(graph.id_column, graph=graph, features=table.matrix, names=table.names)

    assert (leaves.size, hubs.size) == (72, 6)
    assert leaves.share + hubs.share == pytest.approx(1)
    assert set(hubs.prototypes) <= {f"hub{i}" for i in range(6)}
    assert leaves.structure["degree"]["quartiles"] == [1, 1, 1]
    assert hubs.structure["degree"]["quartiles"] == [14, 14, 14]
    assert hubs.structure["degree"]["percentile"] > 90
    assert leaves.edges["to"] == [0, 1]
    assert hubs.edges["to"][0] == pytest.approx(12 / 14, abs=1e-3)
    # A rare word of two of six members is not listed; lacking what all others have is.
    assert [a["feature"] for a in hubs.actions] == ["buys", "sells"]
    assert hubs.actions[0]["shift"] < -1
    assert [(a["feature"], a.get("share")) for a in leaves.actions] == [("sells", 0), ("buys", None)]
    assert hubs.actions[1]["share"] == 1
    assert hubs.actions[1]["overall"] == pytest.approx(6 / 78, abs=1e-4)
    assert leaves.summary.startswith("leaves of hubs: neighbours average degree 14")
    assert "whose neighbours are leaves" not in leaves.summary
    assert "sells" in hubs.summary
    json.dumps([c.as_dict() for c in (leaves, hubs)])


def test_cards_without_graph_and_features_say_that_nothing_is_known(graph):
    z = np.eye(2)[np.array([i.startswith("hub") for i in graph.ids]).astype(int)]
    roles = Roles().fit(z)
    (card, _) = roles.cards(graph.id_column, z)

    assert card.structure == card.edges == {}
    assert card.actions == ()
    assert "nothing is known" in card.summary


def test_ids_of_any_type_become_json(graph):
    z = np.eye(2).repeat(5, axis=0)
    days = pa.array(np.arange(10), pa.int32()).cast(pa.date32())
    card = Roles().fit(z).cards(days)[0].as_dict()

    assert isinstance(card["prototypes"][0], str)
    assert isinstance(Roles().fit(z).cards(np.arange(10))[0].as_dict()["prototypes"][0], int)


def test_prototypes_are_in_different_positions():
    x = np.concatenate([np.zeros(20), np.linspace(0.01, 1, 30), np.full(20, 40.0)])
    z = np.stack([x, x], 1)
    card = Roles(k=2).fit(z).cards(np.arange(70))[0]

    assert len(card.prototypes) == 5
    assert len({round(float(z[i, 0]), 3) for i in card.prototypes}) == 5


def test_a_role_without_members_has_an_empty_card():
    z = np.eye(2).repeat(5, axis=0)
    roles = Roles().fit(z)
    cards = roles.cards(np.arange(5), z[:5], Graph.from_edges([(0, 1)], ids=np.arange(5)), np.ones((5, 1)))

    assert [c.size for c in cards] == [5, 0] or [c.size for c in cards] == [0, 5]
    empty = next(c for c in cards if not c.size)
    assert empty.prototypes == ()
    assert empty.summary


def test_ids_and_graphs_of_other_lengths_are_refused(graph):
    z = np.eye(2).repeat(5, axis=0)
    roles = Roles().fit(z)
    with pytest.raises(FeatureError, match="ids must have one entry"):
        roles.cards(np.arange(3))
    with pytest.raises(GraphError, match="nodes of the vectors"):
        roles.cards(np.arange(10), graph=graph)


# ------------------------------------------------------------------------------------ actions


def test_lift_is_the_share_of_members_over_the_share_of_all():
    labels = np.repeat([0, 1], [900, 100])
    x = np.zeros((1000, 2), np.float32)
    x[900:, 0] = 1
    x[::10, 1] = 1
    (lack, some) = distinctive_features(x, labels, 2)

    assert [(a["feature"], a["share"]) for a in lack] == [("feature 0", 0)]
    assert lack[0]["lift"] < 0.1
    assert [a["feature"] for a in some] == ["feature 0"]
    assert 7 < some[0]["lift"] <= 10  # 10 without the prior
    assert some[0]["share"] == 1


def test_sparse_and_dense_features_give_the_same_entries():
    draw = np.random.default_rng(0)
    x = (draw.random((400, 30)) < 0.2).astype(np.float32) * draw.random((400, 30)).astype(np.float32)
    labels = draw.integers(3, size=400)
    x[labels == 1, :4] += 1

    assert distinctive_features(x, labels, 3) == distinctive_features(sp.csr_array(x), labels, 3)


def test_features_that_most_nodes_have_are_judged_by_their_mean():
    draw = np.random.default_rng(0)
    labels = np.repeat([0, 1], 200)
    x = np.stack([draw.normal(50, 5, 400) + 20 * labels, np.full(400, 7.0)], 1).astype(np.float32)
    (young, old) = distinctive_features(x, labels, 2, ["age", "constant"])

    assert [a["feature"] for a in old] == [a["feature"] for a in young] == ["age"]
    assert old[0]["shift"] > 0.5 > -0.5 > young[0]["shift"]
    assert old[0]["mean"] == pytest.approx(70, abs=2)


def test_random_features_have_no_large_lift():
    draw = np.random.default_rng(0)
    x = sp.csr_array(sp.random_array((2000, 3000), density=0.002, rng=draw, dtype=np.float32))
    entries = distinctive_features(x, draw.integers(4, size=2000), 4)

    assert all(a["lift"] < 3 for role in entries for a in role)


# ------------------------------------------------------------------------------------ summary


def cards_of(edges, role_of, **options):
    """The cards of a graph whose roles are known, by the name of the role."""
    graph = Graph.from_edges(edges)
    names = sorted({role_of(i) for i in graph.ids})
    z = np.eye(len(names))[[names.index(role_of(i)) for i in graph.ids]]
    roles = Roles(k=len(names)).fit(z)
    cards = roles.cards(graph.id_column, graph=graph, **options)
    return {role_of(card.prototypes[0]): card for card in cards}


def clique(name, size):
    return [(f"{name}.{i}", f"{name}.{j}") for i in range(size) for j in range(i)]


def town():
    """Hubs with leaves, cliques, brokers that tie cliques together, chains between hubs, and pairs."""
    edges = [(f"hub{h}", f"leaf{h}.{i}") for h in range(6) for i in range(40)]
    for c in range(30):
        edges += clique(f"member{c}", 5)
        edges += [(f"broker{c}", f"member{(c + step) % 30}.0") for step in range(6)]
    for h in range(5):
        chain = [f"hub{h}", *(f"chain{h}.{i}" for i in range(8)), f"hub{h + 1}"]
        edges += list(pairwise(chain))
    return edges + [(f"pair{i}.a", f"pair{i}.b") for i in range(10)]


def kind(id):
    return id.rstrip("0123456789.ab") if id.startswith("pair") else id.split(".")[0].rstrip("0123456789")


def test_nodes_that_hang_on_a_dense_core_are_in_no_tight_group():
    core = clique("core", 30)
    edges = core + [(f"fan{i}", f"core.{(i + j) % 30}") for i in range(60) for j in range(4)]
    edges += [(f"leaf{i}", f"core.{i % 30}") for i in range(60)]
    for c in range(30):
        edges += clique(f"member{c}", 5)
    fan, member = (cards_of(edges, kind)[name] for name in ("fan", "member"))

    assert fan.structure["clustering"]["quartiles"][0] >= 0.5
    assert "tight" not in fan.summary
    assert "in tight groups" in member.summary


def test_nodes_above_the_middle_are_not_called_the_best_connected():
    bands = [structure(spread(2, at=20)), structure(spread(8, 10, 14, at=(61, 75, 90)))]
    for band in bands:
        band["neighbor_degree"]["others"] = band["clustering"]["others"] = 0.9
    words = [line.split(" (")[0] for line in summarize_roles(bands, [{"to": []}] * 2, [[], []])]
    assert words[1] == "well-connected nodes"
    bands[1]["degree"]["percentiles"] = (81, 90, 95)
    assert summarize_roles(bands, [{"to": []}] * 2, [[], []])[1].startswith("the best-connected nodes")


def test_roles_get_the_nouns_that_an_analyst_knows():
    summary = {name: card.summary for name, card in cards_of(town(), kind).items()}

    assert summary["leaf"].startswith("leaves of hubs: neighbours average degree 41 to 42, 100 % of edges lead to role")
    assert summary["hub"].startswith("hubs with mostly leaves around: degree 41 to 42 in the top 5 %")
    assert summary["pair"] == "leaves in pairs: neighbours average degree 1, 100 % of edges stay inside"
    assert summary["chain"].startswith("links of chains: neighbours average degree 2")
    assert summary["broker"].startswith("brokers between groups (degree 6)")
    assert summary["member"].startswith("mid-sized nodes in tight groups (degree 4)")


def test_a_dense_core_is_not_called_hubs():
    edges = clique("core", 20) + [(f"core.{i}", f"leaf{i}") for i in range(20)]
    edges += [(f"ring{i}", f"ring{(i + 1) % 60}") for i in range(60)]
    summary = {name: card.summary for name, card in cards_of(edges, kind).items()}

    assert summary["core"].startswith("members of the dense core: degree 20 in the top 10 %")


def test_a_summary_holds_for_the_middle_half_and_begins_differently_for_every_role():
    graph = load("power-law", n_nodes=3000, seed=1).graph
    degree = np.asarray(graph.degrees)
    labels = np.digitize(degree, np.quantile(degree, [0.3, 0.6, 0.85, 0.97]))
    labels = np.unique(labels, return_inverse=True)[1]
    cards = Roles(k=int(labels.max()) + 1).fit(np.eye(labels.max() + 1)[labels]).cards(graph.id_column, graph=graph)

    assert len({card.summary.split(":")[0] for card in cards}) == len(cards)
    for card in cards:
        members = degree[labels == labels[graph.ids.tolist().index(card.prototypes[0])]]
        low, high = [int(n) for n in re.search(r"degree (\d+)(?: to (\d+))?", card.summary).groups(default="0")]
        assert np.mean((members >= low) & (members <= max(low, high))) >= 0.5


def test_the_share_of_other_roles_in_a_range_says_how_telling_it_is():
    values = np.array([1, 2, 3, 4, 1, 2, 9, 9, 2, 2, 2, 2])
    profile = profile_roles({"degree": values}, np.repeat([0, 1, 2], 4), 3)

    assert profile[0]["degree"]["quartiles"] == [2, 3, 3]  # the nearest values
    assert profile[0]["degree"]["others"] == pytest.approx((1 / 4 + 1) / 2)
    assert profile[1]["degree"]["others"] == pytest.approx((3 / 4 + 1) / 2)


def test_words_come_first_where_the_place_tells_nothing():
    ring = [(i, (i + 1) % 100) for i in range(100)] + [(i, (i + 2) % 100) for i in range(100)]
    graph = Graph.from_edges(ring)
    labels = (graph.id_column.to_numpy() // 50) % 2
    x = np.eye(2, dtype=np.float32)[labels]
    roles = Roles(k=2).fit(np.eye(2)[labels])
    for card in roles.cards(graph.id_column, graph=graph, features=x, names=["sells", "buys"]):
        assert card.summary.startswith("set apart by ")
        assert "degree" not in card.summary  # which all share


def spread(*quartiles, at=50, zero=0.0, one=0.0):
    quartiles = quartiles * 3 if len(quartiles) == 1 else quartiles
    at = at if isinstance(at, tuple) else (at,) * 3
    shares = {"zero": zero, "one": one, "others": 0.0}
    return {"quartiles": quartiles, "percentiles": at, "as_degree": at, "overall": 4, **shares}


def structure(degree, around=None, clustering=None, **more):
    around, clustering = around or spread(5), clustering or spread(0.2)
    more = {name: spread(1) for name in ("triangles", "core")} | more
    return {"degree": degree, "neighbor_degree": around, "clustering": clustering, **more}


ISOLATED, LEAVES = spread(0, at=10, zero=1.0), spread(1, at=20, one=1.0)


def summarize(facts, edges=None, actions=()):
    return summarize_roles([facts], [edges or {}], [list(actions)])[0]


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (structure(ISOLATED, spread(0, at=10)), "isolated nodes"),
        (structure(LEAVES, spread(1, at=5)), "leaves in pairs: neighbours average degree 1"),
        (structure(LEAVES, spread(40, at=95)), "leaves of hubs: neighbours average degree 40"),
        (structure(LEAVES, spread(6, at=80)), "leaves of well-connected nodes: neighbours average degree 6"),
        (structure(LEAVES, spread(2, 3, 4, at=10)), "leaves of small nodes: neighbours average degree 2 to 4"),
        (structure(LEAVES, spread(2, 3, 5, at=10)), "leaves: neighbours average degree 2 to 5"),
        (
            structure(spread(90, at=99.5), spread(1, at=3), spread(0)),
            "hubs with leaves around: degree 90 in the top 1 %, neighbours average degree 1",
        ),
        (structure(spread(9, at=99), spread(9, at=50)), "nodes (degree 9): neighbours average degree 9"),
        (structure(spread(2, at=40), spread(2, at=40), spread(0)), "links of chains: neighbours average degree 2"),
        (
            structure(spread(1, 1, 7, at=(24, 24, 99), one=0.6), spread(1, 30, 90)),
            "mostly leaves: degree 1 to 7, neighbours average degree 1 to 90",
        ),
        (structure(spread(0, 0, 1, zero=0.6, one=0.4), spread(0, 0, 1)), "mostly isolated nodes: 60 % of them"),
        (structure(spread(0, zero=0.997), spread(0)), "mostly isolated nodes: over 99 % of them isolated"),
    ],
)  # fmt: skip
def test_a_summary_follows_from_its_facts(facts, words):
    assert summarize(facts).startswith(words)


def test_nothing_is_said_of_neighbours_that_most_members_lack():
    assert summarize(structure(spread(0, 0, 1, zero=0.6, one=0.4), spread(0, 0, 3))) == (
        "mostly isolated nodes: 60 % of them isolated"
    )


def test_a_small_degree_is_not_that_of_a_hub_whatever_its_rank():
    assert not summarize(structure(spread(3, at=99))).startswith("hubs")
    assert summarize(structure(spread(30, at=99))).startswith("hubs: degree 30 in the top 1 %")
    assert not summarize(structure(spread(12, at=99))).startswith("hubs")  # not four times the median degree of 4


def test_facts_that_other_roles_share_are_left_out():
    facts = structure(spread(5), spread(7), spread(0.4))
    facts["neighbor_degree"]["others"], facts["clustering"]["others"] = 0.5, 0.1
    assert summarize(facts) == "nodes (degree 5): clustering 0.4"


def test_equal_nouns_are_told_apart_by_the_range_that_overlaps_least():
    pair = [structure(LEAVES, spread(20, 30, 40, at=80)), structure(LEAVES, spread(70, 80, 90, at=80))]
    assert summarize_roles(pair, [{"to": []}] * 2, [[], []]) == [
        "leaves whose neighbours average degree 20 to 40",
        "leaves whose neighbours average degree 70 to 90",
    ]
    bands = [structure(spread(4, 5, 6, at=60), clustering=spread(c)) for c in (0.1, 0.3)]
    assert [text.split(":")[0] for text in summarize_roles(bands, [{"to": []}] * 2, [[], []])] == [
        "nodes of clustering 0.1",
        "nodes of clustering 0.3",
    ]


def test_the_facts_of_a_summary_are_those_of_the_graph():
    graph = Graph.from_edges([(0, i) for i in range(1, 30)] + [(1, i) for i in range(2, 9)], ids=np.arange(40))
    labels = np.where(graph.degrees > 5, 1, 0)
    degree = profile_roles(structural_measures(graph), labels, 2)[0]["degree"]

    assert degree["zero"] == pytest.approx(np.mean(graph.degrees[labels == 0] == 0), abs=1e-4)
    assert degree["one"] == pytest.approx(np.mean(graph.degrees[labels == 0] == 1), abs=1e-4)
    many = profile_roles({"degree": np.arange(100_000) > 0}, np.zeros(100_000, np.int64), 1)[0]["degree"]
    assert (many["zero"], many["one"]) == (1e-4, 0.9999)  # one of many is neither 0 nor 1


# -------------------------------------------------------------------------- equal summaries


def test_equal_summaries_get_the_fact_that_differs_most():
    near, far = structure(LEAVES, spread(40, at=30)), structure(LEAVES, spread(90, at=80))
    edges = [{"to": [0.1, 0.9]}, {"to": [0.9, 0.1]}]

    assert distinguish(["leaves", "leaves"], [near, far], [edges[0]] * 2) == [
        "leaves; neighbours average degree 40",
        "leaves; neighbours average degree 90",
    ]
    assert distinguish(["leaves", "leaves"], [near, far], edges) == [
        "leaves; 90 % of edges lead to role 1",
        "leaves; 90 % of edges lead to role 0",
    ]
    assert distinguish(["leaves", "hubs"], [near, far], edges) == ["leaves", "hubs"]


def test_equal_summaries_are_split_until_none_are_equal():
    facts = [structure(LEAVES, spread(d, at=d), core=spread(c, at=c)) for d, c in ((10, 1), (80, 1), (80, 9))]
    distinct = distinguish(["x"] * 3, facts, [{"to": [0.5, 0.25, 0.25]}] * 3)

    assert distinct == [
        "x; neighbours average degree 10",
        "x; neighbours average degree 80; core number 1",
        "x; neighbours average degree 80; core number 9",
    ]


def test_roles_without_a_different_fact_keep_equal_summaries():
    same = structure(LEAVES)
    edges = {"to": [0.5, 0.2, 0.3]}

    assert distinguish(["y", "x", "x"], [same] * 3, [{"to": [1.0, 0.0, 0.0]}] * 3) == ["y", "x", "x"]
    assert distinguish(["x", "x"], [same] * 2, [{"to": [1.0, 0.0]}] * 2) == [
        "x; 100 % of edges stay inside",
        "x; 100 % of edges lead to role 0",
    ]
    assert distinguish(["x", "x", "x"], [{}, {}, same], [{}, {}, edges]) == ["x", "x", "x"]


def test_cards_of_different_roles_have_different_summaries():
    edges = [(f"hub{s}{i}", f"{s}{i}.{j}") for s, n in (("a", 20), ("b", 60)) for i in range(8) for j in range(n)]
    graph = Graph.from_edges(edges)
    z = np.eye(3)[["hab".index(i[0]) for i in graph.ids]]
    summaries = [card.summary for card in Roles(k=3).fit(z).cards(graph.id_column, graph=graph)]

    assert summaries[:2] == [
        "leaves whose neighbours average degree 60: 100 % of edges lead to role 2",
        "leaves whose neighbours average degree 20: 100 % of edges lead to role 2",
    ]


def test_the_first_prototype_is_in_the_commonest_position():
    x = np.concatenate([np.linspace(-1, 1, 41), np.full(40, 1.7), np.full(60, 60.0)])
    z = np.stack([x, x], 1)
    roles = Roles(k=2).fit(z)
    card = next(c for c in roles.cards(np.arange(len(x))) if c.size == 81)

    assert x[card.prototypes[0]] == 1.7
    assert len({round(float(x[i]), 3) for i in card.prototypes}) == 5


def test_a_summary_says_where_edges_lead_if_that_differs_from_all_edges():
    facts = structure(spread(5))
    to = lambda to, expected: {"to": to, "expected": expected, "inside": to[0]}  # noqa: E731

    assert "90 % of edges lead to role 1" in summarize(facts, to([0.1, 0.9], [0.5, 0.5]))
    assert "80 % of edges stay inside" in summarize(facts, to([0.8, 0.2], [0.5, 0.5]))
    assert "edges" not in summarize(facts, to([0.55, 0.45], [0.5, 0.5]))
    assert "edges" not in summarize(facts, to([1.0], [1.0]))


def test_actions_are_named_with_their_strength():
    facts = [word("a", 0.6, 0.2), {"feature": "b", "shift": -1.04}, word("c", 0.05, 0.5), word("d", 0.9, 0.1)]

    assert summarize({}, {}, facts[:2]) == "set apart by a (3.0x), b (-1.0 sd)"
    assert summarize({}, {}, facts[1:]) == "set apart by b (-1.0 sd), d (9.0x) and a lack of c (0.1x)"
    assert summarize({}, {}, facts[2:3]) == "set apart by a lack of c (0.1x)"


def test_a_word_that_hardly_any_member_has_sets_no_role_apart():
    rare = word("rare", 0.03, 0.0075)  # four times as common as elsewhere

    assert summarize({}, {}, [rare]) == "no feature sets them apart"
    assert summarize(structure(LEAVES, spread(40, at=95)), {}, [rare]).startswith("leaves of hubs")
    assert "rare" not in summarize(structure(LEAVES, spread(40, at=95)), {}, [rare])
    band = structure(spread(4, 5, 6, at=60))
    for measure in band.values():
        measure["others"] = 0.9
    assert summarize(band, {}, [rare]) == "nodes (degree 4 to 6)"
    assert summarize(band, {}, [word("usual", 0.5, 0.2)]) == "set apart by usual (2.5x)"


def test_features_are_in_the_order_of_what_they_tell():
    draw = np.random.default_rng(0)
    labels = np.repeat([0, 1], 2000)
    shares = np.array([[0.5, 0.02, 0.4, 0.3], [0.1, 0.0, 0.4, 0.04]])  # by role: of a, b, c and d
    x = (draw.random((4000, 4)) < shares[labels]).astype(np.float32)
    first, second = distinctive_features(x, labels, 2, ["a", "b", "c", "d"])

    assert [a["feature"] for a in first] == ["a", "d", "b"]  # b has the largest lift, c tells nothing
    assert [a["feature"] for a in second] == ["a", "d", "b"]
    assert all(a["lift"] < 1 for a in second)


def word(name, share, overall):
    return {"feature": name, "lift": share / overall, "share": share, "overall": overall}


def test_ranks_cover_every_percentile():
    assert [describe_rank(p) for p in (0, 10, 50, 75, 90, 95, 100)][::3] == [
        "in the lowest 10 %",
        "in the top quarter",
        "in the top 1 %",
    ]


# ----------------------------------------------------------------------------- names and labels


def test_prototypes_have_display_names_where_there_are_some(graph):
    z = np.eye(2)[np.array([i.startswith("hub") for i in graph.ids]).astype(int)]
    roles = Roles().fit(z)
    _, hubs = roles.cards(graph.id_column, display_names={"hub0": "Zero", "hub3": "Three"})
    named = dict(zip(hubs.prototypes, hubs.names, strict=True))

    assert named["hub0"] == "Zero"
    assert named["hub1"] is None
    assert hubs.as_dict()["names"] == list(hubs.names)
    assert roles.cards(graph.id_column)[0].names == ()
    rows = [i.upper() for i in graph.ids]
    assert roles.cards(graph.id_column, display_names=rows)[1].names[0].startswith("HUB")
    with pytest.raises(FeatureError, match="one entry per node"):
        roles.cards(graph.id_column, display_names=["a"])


def test_the_label_table_has_counts_shares_and_lift():
    roles = Roles().fit(np.eye(2).repeat([6, 4], axis=0))
    labels = ["a", "a", "a", "b", None, None, "b", "b", "b", "c"]
    table = roles.label_table(labels, column="party")

    assert table.labels == ("b", "a", "c")
    assert table.counts.tolist() == [[1, 3, 0], [3, 0, 1]]
    assert table.unlabelled.tolist() == [2, 0]
    np.testing.assert_allclose(table.share, [[0.25, 0.75, 0], [0.75, 0, 0.25]])
    np.testing.assert_allclose(table.lift, [[0.5, 2, 0], [1.5, 0, 2]])
    assert json.loads(json.dumps(table.as_dict()))["column"] == "party"
    assert roles.label_table([1.0, None] * 5).labels == ("1",)
    assert roles.label_table(labels[:6], np.eye(2).repeat([6, 4], axis=0)[:6]).counts.sum() == 4
    for wrong, words in ((["a"], "one entry per node"), ([None] * 10, "got none"), ([["x"]] * 10, "text or numbers")):
        with pytest.raises(FeatureError, match=words):
            roles.label_table(wrong)


def test_a_run_keeps_names_and_reads_labels(run, graph, tmp_path):
    assert run.names() is None
    run.set_names({"hub1": "First"})
    run.fit_roles()
    table = tmp_path / "nodes.csv"
    table.write_text("id,kind\n" + "".join(f"{i},{i[:3]}\n" for i in graph.ids))
    labels = run.label_table(table, "kind")

    assert run.names().to_pylist()[graph.ids.tolist().index("hub1")] == "First"
    assert "names.parquet" in run.files()
    assert len(run.role_record()["cards"][0]["names"]) == 5
    assert set(labels.labels) == {"hub", "lea"}
    assert labels.counts.sum() == graph.n_nodes
    assert run.label_table([i[:3] for i in graph.ids]).counts.tolist() == labels.counts.tolist()


# ------------------------------------------------------------------------------------ run


def test_a_run_stores_its_roles(run):
    with pytest.raises(RunError, match="no roles yet"):
        run.roles()
    roles = run.fit_roles()
    again = Run.open(run.path)
    ids, role, confidence, memberships = again.role_table()
    stored = again.role_record()
    _, z = run.embeddings()

    assert again.has_roles
    assert ids.equals(run.embeddings()[0])
    np.testing.assert_array_equal(role, roles.labels)
    np.testing.assert_array_equal(confidence, roles.confidence)
    np.testing.assert_array_equal(memberships, again.roles().memberships(z))
    assert stored["k"] == roles.n_roles == len(stored["cards"])
    assert stored["model"] == run.model_checksum
    assert stored["rule"] == describe_number(roles.parameters.choice)
    assert stored["cards"][0]["structure"]
    assert stored["cards"][-1]["actions"]


def test_the_same_run_gives_the_same_roles_to_the_byte(run):
    names = ("roles.parquet", "roles.json", "roles.safetensors")
    run.fit_roles()
    before = [(run.path / name).read_bytes() for name in names]
    run.fit_roles()

    assert [(run.path / name).read_bytes() for name in names] == before


def test_a_lean_run_has_roles_without_structure(tmp_path, graph):
    model = RAE(dims=(8,), fanout=(5,), steps=0).fit(graph)
    run = Run.create(tmp_path, model, graph.id_column, model.transform(graph))
    run.fit_roles(k=2)

    assert run.role_record()["cards"][0]["structure"] == {}


def test_roles_of_a_replaced_model_are_refused(run, graph, table):
    run.fit_roles()
    RAE(dims=(8, 8), fanout=(5, 5), steps=0, seed=9).fit(graph, features=table).save(run.path / "model.safetensors")
    with pytest.raises(RunError, match="another model"):
        Run.open(run.path).roles()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not what"),
        ('{"format": "rae roles"}', "is not what"),
        ('{"format": "x", "format_version": 1, "cards": []}', "another program"),
        ('{"format": "rae roles", "format_version": 7, "cards": []}', "version 7"),
    ],
)
def test_a_foreign_or_newer_record_is_refused(tmp_path, text, words):
    (tmp_path / "roles.json").write_text(text)
    with pytest.raises(FileError, match=words):
        read_record(tmp_path / "roles.json")


def test_a_file_that_is_not_a_table_of_roles_is_refused(tmp_path):
    (tmp_path / "roles.parquet").write_text("no")
    with pytest.raises(FileError, match="not a table of roles"):
        read_table(tmp_path / "roles.parquet")


def test_every_criterion_has_a_sentence():
    def describe(roles):
        return describe_number(roles.parameters.choice)

    z = np.repeat(np.eye(2), 5, axis=0)
    noise = np.random.default_rng(0).normal(size=(200, 30))

    assert describe(Roles(k=2).fit(z)) == "2 roles, as asked for"
    assert describe(Roles(k=1).fit(z)) == "1 role, as asked for"
    assert "exact positions" in describe(Roles().fit(z))
    assert "too few" in describe(Roles().fit(np.eye(3)))
    assert "a weak choice" in describe(Roles(max_k=3).fit(noise))
    assert "the most that two halves" in describe(Roles(max_k=3).fit(noise + 30 * (np.arange(200) % 2)[:, None]))
