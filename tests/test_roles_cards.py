"""Role cards: sizes, prototypes, structure, actions, and sentences that are true of their facts."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

from rae import RAE, FeatureTable, Graph, Roles, Run
from rae.errors import FeatureError, FileError, GraphError, RunError
from rae.roles.actions import distinctive_features
from rae.roles.cards import profile_roles, structural_measures
from rae.roles.storage import describe_number, read_record, read_table
from rae.roles.summary import describe_rank, distinguish, summarize


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
    model = RAE(dims=(8, 8), fanout=(5, 5), steps=5).fit(graph, table)
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
    assert [a["feature"] for a in hubs.actions] == ["sells", "buys"]
    assert hubs.actions[1]["shift"] < -1
    assert [a["feature"] for a in leaves.actions] == ["buys"]
    assert hubs.actions[0]["share"] == 1
    assert hubs.actions[0]["overall"] == pytest.approx(6 / 78, abs=1e-4)
    assert leaves.summary.startswith("leaves next to hubs")
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
    (none, some) = distinctive_features(x, labels, 2)

    assert none == []
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


def spread(*quartiles, at=50, zero=0.0, one=0.0):
    quartiles = quartiles * 3 if len(quartiles) == 1 else quartiles
    at = at if isinstance(at, tuple) else (at,) * 3
    return {"quartiles": quartiles, "percentiles": at, "overall": 4, "zero": zero, "one": one}


def structure(degree, around=None, clustering=None, **more):
    around, clustering = around or spread(5), clustering or spread(0.2)
    more = {name: spread(1) for name in ("triangles", "core")} | more
    return {"degree": degree, "neighbor_degree": around, "clustering": clustering, **more}


ISOLATED, LEAVES = spread(0, at=10, zero=1.0), spread(1, at=20, one=1.0)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (structure(ISOLATED, spread(0, at=10)), "isolated nodes"),
        (structure(LEAVES, spread(1, at=5)), "leaves whose only neighbour is a leaf"),
        (structure(LEAVES, spread(40, at=95)), "leaves next to hubs"),
        (
            structure(spread(90, at=99.5), spread(1, at=3), spread(0)),
            "hubs whose neighbours are leaves: degree 90 in the top 1 %, clustering near 0",
        ),
        (structure(spread(90, at=96)), "well-connected nodes: degree 90 in the top 5 %, clustering 0.20"),
        (
            structure(spread(9, at=50), spread(1.2, 1.3, 1.4, at=3), spread(0)),
            "nodes of middling degree whose neighbours are mostly leaves: degree 9, clustering near 0",
        ),
        (
            structure(spread(20, at=85), spread(20, at=80), spread(1.0)),
            "well-connected nodes next to well-connected nodes: degree 20 in the top quarter, "
            "all neighbours tied to each other",
        ),
        (
            structure(spread(2, at=15), spread(3, at=10), spread(0.6)),
            "sparsely connected nodes among sparsely connected neighbours: degree 2 in the lowest quarter, "
            "tight groups (clustering 0.60)",
        ),
        (structure(spread(3, 5, 8)), "nodes of middling degree: degree 3 to 8, clustering 0.20"),
        (structure(spread(3, 4, 4, at=(10, 30, 40))), "nodes of lower degree: degree 3 to 4, clustering 0.20"),
    ],
)
def test_a_summary_follows_from_its_facts(facts, words):
    assert summarize(0, facts, {}) == words


def test_a_role_is_named_after_its_middle_half():
    mixed = spread(1, 1, 7, at=(24.7, 24.7, 98.9), one=0.6)
    assert summarize(0, structure(mixed, spread(1, 30, 90)), {}) == "mostly leaves: degree 1 to 7"
    assert summarize(0, structure(mixed, spread(40, 50, 90)), {}).startswith(
        "mostly leaves next to hubs: degree 1 to 7"
    )
    some = spread(1, 1, 7, at=(24.7, 24.7, 98.9), one=0.4)
    assert summarize(0, structure(some), {}) == "nodes of differing degree: degree 1 to 7"
    assert "in the" not in summarize(0, structure(spread(4, 9, 30, at=(70, 90, 99))), {})
    assert "in the top quarter" in summarize(0, structure(spread(9, 20, 300, at=(80, 97, 99.9))), {})


def test_a_small_degree_is_not_called_well_connected_whatever_its_rank():
    assert summarize(0, structure(spread(3, at=99)), {}).startswith("nodes of higher degree: degree 3 in the top 1 %")
    assert "next to" not in summarize(0, structure(LEAVES, spread(4, at=95)), {})
    assert "next to well-connected nodes" in summarize(0, structure(LEAVES, spread(6, at=95)), {})


def test_neighbours_above_the_median_degree_are_not_called_sparse_whatever_their_rank():
    assert "among sparsely connected" in summarize(0, structure(LEAVES, spread(2, 3, 4, at=10)), {})
    assert "among sparsely connected" not in summarize(0, structure(LEAVES, spread(2, 3, 5, at=10)), {})
    some = spread(0, 0, 1, zero=0.6, one=0.4)
    assert summarize(0, structure(some, spread(0, 0, 1, at=10)), {}).startswith("mostly isolated nodes: 60 %")


@pytest.mark.parametrize(
    ("degree", "words"),
    [
        (spread(3, 4, 5, zero=0.14), "nodes of middling degree: 14 % of them isolated, degree 3 to 5"),
        (spread(3, 4, 5, zero=0.0004), "nodes of middling degree: under 1 % of them isolated, degree 3 to 5"),
        (spread(0, zero=0.997), "mostly isolated nodes: over 99 % of them isolated"),
        (spread(0, 0, 1, zero=0.6, one=0.4), "mostly isolated nodes: 60 % of them isolated, degree 0 to 1"),
        (spread(0, 1, 1, zero=0.3, one=0.7), "mostly leaves: 30 % of them isolated, degree 0 to 1"),
    ],
)
def test_isolated_members_are_counted(degree, words):
    assert summarize(0, structure(degree), {}).removesuffix(", clustering 0.20") == words


def test_clustering_is_described_by_its_middle_half():
    describe = lambda *c: summarize(0, structure(spread(5), clustering=spread(*c)), {})  # noqa: E731

    assert describe(0.1, 1.0, 1.0).endswith("clustering 0.10 to 1.00")
    assert describe(0, 0, 0.4).endswith("clustering 0.00 to 0.40")
    assert describe(0, 0, 0.08).endswith("clustering 0.00 to 0.08")
    assert describe(0.5, 0.7, 0.9).endswith("tight groups (clustering 0.50 to 0.90)")


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
        "leaves; neighbours of degree 40",
        "leaves; neighbours of degree 90",
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
        "x; neighbours of degree 10",
        "x; neighbours of degree 80; core number 1",
        "x; neighbours of degree 80; core number 9",
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
        "leaves next to hubs: 100 % of edges lead to role 2; neighbours of degree 60",
        "leaves next to hubs: 100 % of edges lead to role 2; neighbours of degree 20",
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

    assert "90 % of edges lead to role 1" in summarize(0, facts, to([0.1, 0.9], [0.5, 0.5]))
    assert "80 % of edges stay inside" in summarize(0, facts, to([0.8, 0.2], [0.5, 0.5]))
    assert "edges" not in summarize(0, facts, to([0.55, 0.45], [0.5, 0.5]))
    assert "edges" not in summarize(0, facts, to([1.0], [1.0]))


def test_actions_are_named_with_their_strength():
    text = summarize(0, {}, {}, [{"feature": "a", "lift": 3.21}, {"feature": "b", "shift": -1.04}])

    assert text == "set apart by a (3.2x), b (-1.0 sd)"


def test_ranks_cover_every_percentile():
    assert [describe_rank(p) for p in (0, 10, 50, 80, 90, 95, 100)][::3] == [
        "in the lowest 10 %",
        "in the top quarter",
        "in the top 1 %",
    ]


# ------------------------------------------------------------------------------------ run


def test_a_run_stores_its_roles(run):
    with pytest.raises(RunError, match="no roles yet"):
        run.roles()
    roles = run.fit_roles()
    again = Run.open(run.path)
    ids, role, confidence, memberships = again.role_table()
    record = again.role_record()
    _, z = run.embeddings()

    assert again.has_roles
    assert ids.equals(run.embeddings()[0])
    np.testing.assert_array_equal(role, roles.labels)
    np.testing.assert_array_equal(confidence, roles.confidence)
    np.testing.assert_array_equal(memberships, again.roles().memberships(z))
    assert record["k"] == roles.n_roles == len(record["cards"])
    assert record["model"] == run.model_checksum
    assert record["rule"] == describe_number(roles.parameters.choice)
    assert record["cards"][0]["structure"]
    assert record["cards"][-1]["actions"]


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
    RAE(dims=(8, 8), fanout=(5, 5), steps=0, seed=9).fit(graph, table).save(run.path / "model.safetensors")
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
