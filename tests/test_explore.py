"""The content of the page: nodes, positions, columns and cards; and that no id or label can break out of it."""

from __future__ import annotations

import base64
import hashlib
import html.parser
import json
import re
import struct
import threading
import urllib.error
import urllib.request
import zlib
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from rae import RAE, Graph, Run
from rae.errors import ConfigError, FileError, RunError
from rae.explore import Subject, captions, columns, layout, page, read_labels, sample, write_page
from rae.explore.cards import page_roles, sentence
from rae.explore.columns import feature_columns, label_column, number_column, pack_columns, word_column
from rae.explore.html import as_json, render
from rae.explore.layout import HEIGHT, map_positions, shorten_gaps
from rae.explore.pack import id_arrays, pack_arrays
from rae.explore.sample import map_rows, page_neighbors
from rae.explore.serve import page_server
from rae.features import FeatureTable
from rae.ops.library import reference_only
from rae.ops.nearest import nearest_rows

EVIL = ("<img src=x onerror=alert(1)>", "</script><script>alert(1)</script>", '=HYPERLINK("x")', 'a,b\n"c"', "𝔘𝔫𝔦 שלום")
DTYPES = {"u1": np.uint8, "u2": np.uint16, "u4": np.uint32, "f4": np.float32}


def unpack(text: str) -> dict[str, np.ndarray]:
    """The arrays of a packed text, decoded as the page decodes them."""
    raw = zlib.decompress(base64.b64decode(text))
    (length,) = struct.unpack_from("<I", raw)
    start = -(-(4 + length) // 8) * 8
    header = json.loads(raw[4 : 4 + length])
    return {name: np.frombuffer(raw, DTYPES[dtype], count, start + at) for name, dtype, at, count in header}


def small_run(folder: Path, ids: list, *, keep_graph: bool = True) -> Run:
    """A small run with three planted roles, on a ring with a hub."""
    n = len(ids)
    ring = [(i, (i + 1) % n) for i in range(n)] + [(0, i) for i in range(2, n - 1, 2)]
    graph = Graph.from_edges(np.array(ring), ids=np.arange(n))
    graph = Graph(graph.offsets, graph.targets, pa.array(ids), graph.counts)
    model = RAE(dims=(4,), fanout=(2,), steps=2, batch_size=8).fit(graph)
    counts = {"nodes": n, "edges": graph.n_edges}
    return Run.create(folder, model, graph.id_column, planted(n), graph=graph if keep_graph else None, counts=counts)


def planted(n: int) -> np.ndarray:
    noise = np.random.default_rng(0).standard_normal((n, 5), dtype=np.float32)
    return np.eye(3, 5, dtype=np.float32)[np.arange(n) % 3] + np.float32(0.05) * noise


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    run = small_run(tmp_path_factory.mktemp("run") / "r", [*EVIL, *(f"n{i:03d}" for i in range(55))])
    run.fit_roles(3)
    return run


def parts(text: str) -> dict[str, dict[str, np.ndarray]]:
    scripts = re.findall(r'<script type="application/octet-stream" id="part-(\w+)">([^<]*)</script>', text)
    return {name: unpack(packed_text) for name, packed_text in scripts}


def facts(text: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="facts">([^<]*)</script>', text)[1])


# ----------------------------------------------------------------------------------- sample


def test_a_small_graph_is_shown_whole():
    assert map_rows(np.array([0, 1, 0]), [1], 3).tolist() == [0, 1, 2]


def test_a_sample_has_every_prototype_and_a_fair_share_of_every_role_and_is_the_same_each_time():
    role = np.repeat([0, 1, 2], [90_000, 9_990, 10])
    prototypes = [5, 17, 90_001, 99_999]
    shown = map_rows(role, prototypes, 5_000)
    sizes = np.bincount(role[shown])

    assert len(shown) <= 5_000
    assert len(set(shown.tolist())) == len(shown)
    assert set(prototypes) <= set(shown.tolist())
    assert sizes[2] == 10  # a rare role is seen whole
    assert 0.85 < sizes[0] / 4_500 < 1
    assert sizes[1] >= sample.LEAST_PER_ROLE
    assert np.array_equal(shown, map_rows(role, prototypes, 5_000))


def test_a_sample_smaller_than_the_prototypes_still_has_its_size():
    role = np.arange(100) % 4
    assert len(map_rows(role, range(50), 8)) <= 8


def test_the_page_says_which_nodes_it_shows():
    assert captions.sample(10, 10) == "The map shows all 10 nodes."
    assert "30,000 of 1,000,000" in captions.sample(30_000, 1_000_000)
    assert "up to 300 of each role" in captions.sample(30_000, 1_000_000)
    assert "among all nodes, exact" in captions.nearest(10, 5, 5)
    assert "among the 5 on the map, exact" in captions.nearest(10, 5, 9)
    assert "2 of 9 nodes" in captions.search(2, 9)
    assert "up to 7 neighbours" in captions.neighbors(7, 9, 5, 5)
    assert "among the 5 nodes" in captions.neighbors(7, 3, 5, 9)


# ----------------------------------------------------------------------------------- layout


def nearest(z: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    return nearest_rows(z, z, k, skip=np.arange(len(z)))


def groups(n: int = 300, width: int = 8) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    group = np.arange(n) % 5
    return (np.eye(5, width)[group] + 0.1 * rng.standard_normal((n, width))).astype(np.float32), group


def test_alike_vectors_lie_close_on_the_map_and_the_map_is_the_same_each_time():
    z, group = groups()
    xy = map_positions(z, *nearest(z, 15))
    far = ((xy[:, None] - xy[None]) ** 2).sum(-1)
    np.fill_diagonal(far, np.inf)
    closest = np.argsort(far, axis=1)[:, :10]

    assert (group[closest] == group[:, None]).mean() > 0.95
    assert np.array_equal(xy, map_positions(z, *nearest(z, 15)))
    assert xy.min() >= 0
    assert xy[:, 0].max() == pytest.approx(1)
    assert xy[:, 1].max() == pytest.approx(HEIGHT)


@pytest.mark.parametrize("shape", [(1, 4), (2, 1), (3, 5), (5, 1), (30, 2)])
def test_any_number_of_nodes_and_columns_has_a_map(shape):
    z = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    xy = map_positions(z, *nearest(z, 15))

    assert xy.shape == (shape[0], 2)
    assert np.isfinite(xy).all()


@pytest.mark.parametrize("z", [np.zeros((50, 3)), np.ones((50, 3)), np.repeat(np.eye(2, 3), 25, axis=0)])
def test_equal_vectors_do_no_harm(z):
    z = z.astype(np.float32)
    assert np.isfinite(map_positions(z, *nearest(z, 15))).all()


def test_attraction_is_symmetric_and_strongest_between_the_nearest():
    z, _ = groups(60)
    index, distance = nearest(z, 5)
    weight = layout.attraction(index, distance).toarray()

    assert np.allclose(weight, weight.T)
    assert weight.max() <= 1 + 1e-6
    assert all(weight[i, index[i, 0]] >= weight[i, index[i, 4]] - 1e-6 for i in range(60))


def test_the_compiled_layout_equals_the_reference():
    z, _ = groups(25)
    index, distance = nearest(z, 4)
    index[0], index[1, 1:], distance[2] = -1, -1, 0

    def positions():
        edges = layout.attraction(index, distance)
        start = layout.principal_axes(z)
        return start, layout.optimize_layout(start, edges.row, edges.col, edges.data.max() / edges.data, 3, 5)

    start, moved = positions()
    with reference_only():
        _, plain = positions()

    assert not np.allclose(moved, start)
    assert np.allclose(moved, plain, atol=1e-2)


def test_shortening_empty_space_keeps_the_order_along_both_sides():
    xy = np.random.default_rng(0).standard_normal((50, 2)).astype(np.float32) ** 3
    short = shorten_gaps(xy)

    for side in (0, 1):
        assert np.array_equal(np.argsort(xy[:, side]), np.argsort(short[:, side]))
    assert np.diff(np.sort(short[:, 0])).max() < np.diff(np.sort(shorten_gaps(xy * [1, 0])[:, 0])).max() + 1e-6
    assert np.array_equal(shorten_gaps(np.zeros((3, 2), np.float32)), np.zeros((3, 2)))


# ----------------------------------------------------------------------------------- neighbours


def test_small_neighbourhoods_are_whole():
    graph = Graph.from_edges([(0, 1), (0, 2), (1, 2), (2, 3)])
    count, around, limit = page_neighbors(graph, np.array([2, 0, 1, 3]))

    assert limit == sample.MOST_PER_NODE
    assert count.tolist() == [3, 2, 2, 1]
    assert around.tolist() == [1, 2, 3, 2, 0, 1, 0, 0]  # positions in the order given


def test_of_a_hub_evenly_spaced_neighbours_are_kept():
    star = Graph.from_edges([(0, i) for i in range(1, 1001)])
    count, around, _ = page_neighbors(star, np.arange(1001))

    assert count[0] == sample.MOST_PER_NODE
    assert set(np.diff(around[: count[0]].astype(int)).tolist()) == {5}


def test_all_neighbours_together_fit_the_page_and_nodes_off_the_page_are_left_out(monkeypatch):
    monkeypatch.setattr(sample, "MOST_NEIGHBORS", 500)
    rng = np.random.default_rng(0)
    graph = Graph.from_edges(rng.integers(200, size=(2_000, 2)), ids=np.arange(200))
    count, around, limit = page_neighbors(graph, np.arange(200))
    assert limit == 2
    assert count.sum() == len(around) <= 500

    count, around, _ = page_neighbors(graph, np.arange(50))
    assert around.max() < 50
    assert count.sum() == len(around)


def test_a_graph_without_edges_has_no_neighbours():
    count, around, _ = page_neighbors(Graph.from_edges([], ids=[1, 2]), np.arange(2))
    assert count.tolist() == [0, 0]
    assert len(around) == 0


# ----------------------------------------------------------------------------------- packing


def test_packed_arrays_are_read_back_unchanged():
    arrays = {
        "a": np.arange(5, dtype=np.uint8),
        "b": np.linspace(0, 1, 3, dtype=np.float32),
        "none": np.empty(0, np.uint32),
        "c": np.array([[1, 2], [3, 70_000]], np.uint32),
    }
    back = unpack(pack_arrays(arrays))

    assert all(np.array_equal(back[name], array.ravel()) for name, array in arrays.items())
    with pytest.raises(ValueError, match="int64"):
        pack_arrays({"x": np.arange(3)})


def test_lengths_of_ids_are_in_utf16_units():
    names = ["", "a", "é", "𝔘x", "\0"]
    arrays = id_arrays(pa.array(names))
    text = arrays["text"].tobytes().decode()
    units = text.encode("utf-16-le")
    at = [0, *np.cumsum(arrays["lengths"]).tolist()]

    assert [units[2 * (a + 1) : 2 * b].decode("utf-16-le") for a, b in pairwise(at)] == names
    assert id_arrays(pa.array([7, 8]))["text"].tobytes() == b"\x007\x008\x00"


# ----------------------------------------------------------------------------------- columns


def test_few_numbers_are_coded_exactly_and_many_by_quantiles():
    few = number_column("x", "node", np.array([2.5, -1, 2.5, np.nan, np.inf]))
    assert few.table.tolist() == [-1, 2.5]
    assert few.codes.tolist() == [1, 0, 1, 255, 255]

    values = np.random.default_rng(0).lognormal(size=5_000)
    many = number_column("x", "node", values)
    assert len(many.table) <= columns.MOST_LEVELS
    assert np.all(np.diff(many.codes[np.argsort(values)].astype(int)) >= 0)
    assert np.abs(many.table[many.codes] - values)[values < 5].max() < 0.5


def test_the_most_common_words_have_a_code_each_and_the_rest_share_one():
    words = ["x", None, *(f"w{i:03d}" for i in range(400)), "x"]
    column = word_column("kind", "label", words)

    assert column.levels[0] == "x"
    assert column.codes[[0, 1, -1]].tolist() == [0, 255, 0]
    assert len(column.levels) == columns.MOST_LEVELS
    assert (column.codes == columns.OTHER).sum() == 401 - columns.MOST_LEVELS


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (pa.array([1, 2, 1, None]), True),
        (pa.array([1.0, 2.0, 1.0, None]), True),
        (pa.array([0.5, 2.0, 1.0, None]), False),
        (pa.array(list(range(40))), False),
        (pa.array([True, False, None]), True),
        (pa.array(["b", "a", None]), True),
    ],
)
def test_labels_are_words_unless_they_are_amounts(values, words):
    column = label_column("label", values)

    assert (column.levels is not None) is words
    if values[-1].as_py() is None:
        assert column.codes[-1] == 255


def test_a_whole_number_as_a_label_is_written_without_a_point():
    assert label_column("label", pa.array([1.0, 2.0, None])).levels == ("1", "2")


def test_features_that_fit_are_kept_those_of_the_cards_first(monkeypatch):
    x = sp.random_array((100, 6), density=0.2, format="csr", rng=np.random.default_rng(0), dtype=np.float32)
    x = sp.csr_array(sp.hstack([x, sp.csr_array((100, 1), dtype=np.float32), np.ones((100, 1), np.float32)]))
    by_number = feature_columns(x, list("abcdefgh"), first=[3, 6])

    assert next(iter(by_number)) == 3
    assert 6 not in by_number  # nobody has it
    assert by_number[7].rows is None  # everybody has it
    assert by_number[3].table[0] == 0
    back = np.zeros(100, np.float32)
    back[by_number[3].rows] = by_number[3].table[by_number[3].codes]
    assert np.allclose(back, x[:, [3]].toarray().ravel())

    monkeypatch.setattr(columns, "MOST_BYTES", 130)
    assert list(feature_columns(x, list("abcdefgh"), first=[3])) == [3]


def test_dense_features_and_negative_sparse_ones_are_coded_whole():
    x = np.array([[1, 0], [0, -1], [2, 0], [0, 0]], np.float32)
    for matrix in (x, sp.csr_array(x)):
        by_number = feature_columns(matrix, ["a", "b"])
        assert by_number[1].table[by_number[1].codes].tolist() == [0, -1, 0, 0]


def test_columns_are_packed_end_to_end():
    sparse = columns.Column("t", "feature", np.array([1], np.uint8), np.array([0, 4], np.float32), rows=np.array([2]))
    descriptions, arrays = pack_columns([number_column("n", "node", np.array([5.0, 6, 5])), sparse])

    assert descriptions == [
        {"name": "n", "group": "node", "kind": "number", "dense": 0},
        {"name": "t", "group": "feature", "kind": "number", "sparse": 0},
    ]
    assert arrays["dense"].tolist() == [0, 1, 0]
    assert (arrays["rows"].tolist(), arrays["codes"].tolist(), arrays["starts"].tolist()) == ([2], [1], [0, 1])
    assert arrays["tables"][arrays["table_at"][1] :].tolist() == [0, 4]
    assert pack_columns([])[1]["dense"].tolist() == []


# ----------------------------------------------------------------------------------- labels


def test_labels_are_joined_by_id_and_a_node_without_a_row_has_none(tmp_path):
    (tmp_path / "l.csv").write_text("node,country,age\nb,fr,1.5\na,de,\nzz,es,3\n")
    country, age = read_labels(tmp_path / "l.csv", pa.array(["a", "b", "c"]))

    assert [country.levels[c] if c < 200 else None for c in country.codes] == ["de", "fr", None]
    assert [age.table[c] if c < 200 else None for c in age.codes] == [None, 1.5, None]


def test_label_columns_are_found_by_name_in_any_table(tmp_path):
    dictionary = pa.array(["x", "y"]).dictionary_encode()
    pq.write_table(pa.table({"kind": dictionary, "key": [2, 1], "n": [1, 1]}), tmp_path / "l.parquet")
    (kind,) = read_labels(tmp_path / "l.parquet", pa.array([1, 2]), ["kind"], id_column="key")

    assert [kind.levels[c] for c in kind.codes] == ["y", "x"]


@pytest.mark.parametrize(
    ("text", "asked", "words"),
    [
        ("id,x\na,1\n", {"columns": ["y"]}, "no column 'y'"),
        ("id\na\n", {}, "only ids"),
        ("id,x\nq,1\n", {}, "none of its 1 ids is a node.*check id_column$"),
    ],
)
def test_labels_that_do_not_fit_are_refused(tmp_path, text, asked, words):
    (tmp_path / "l.csv").write_text(text)
    with pytest.raises(FileError, match=words):
        read_labels(tmp_path / "l.csv", pa.array(["a"]), asked.get("columns", ()))


# ----------------------------------------------------------------------------------- the page


class Elements(html.parser.HTMLParser):
    """What a browser's parser finds in a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.inline: list[tuple[str, dict, str]] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

        if tag in ("script", "style"):
            self.inline.append((tag, dict(attrs), ""))

    def handle_data(self, data):
        if self.cdata_elem:
            tag, attrs, before = self.inline.pop()
            self.inline.append((tag, attrs, before + data))


def test_no_id_becomes_an_element_or_a_script(run):
    text = page.page_text(run, Subject(title=EVIL[0], labels=()), 100, lambda *_: None)
    elements = Elements(text)

    assert not [t for t, _ in elements.tags if t in ("img", "iframe", "object", "embed", "link", "base")]
    assert not [a for _, attrs in elements.tags for a in attrs if a.startswith("on")]
    assert len([t for t, _ in elements.tags if t == "script"]) == 2 + 7  # the facts, the script, seven parts
    assert "<img" not in text
    assert facts(text)["title"] == EVIL[0]


def test_the_policy_allows_the_one_script_and_the_one_style_and_nothing_else(run):
    elements = Elements(page.page_text(run, Subject(), 100, lambda *_: None))
    policy = next(a["content"] for t, a in elements.tags if t == "meta" and "http-equiv" in a)
    sources = dict(part.split(" ", 1) for part in policy.split("; "))

    def digest(tag: str) -> str:
        ((_, _, text),) = [e for e in elements.inline if e[0] == tag and not e[1]]
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    assert sources["default-src"] == "'none'"
    assert sources["script-src"] == digest("script")
    assert sources["style-src"] == digest("style")
    assert not re.search(r"unsafe|http|\*", policy)
    assert not [a for _, attrs in elements.tags for a in attrs if a in ("src", "action")]


def test_a_value_with_braces_is_not_filled_in_again():
    assert "{{script}}" in render("{{script}}", {}, {})
    assert "<" not in as_json({"a": "<!--<script>&"})
    with pytest.raises(ValueError):
        as_json(float("nan"))


def test_the_page_holds_the_run(run):
    text = page.page_text(run, Subject(thing="a thing"), 100, lambda *_: None)
    page_facts, data = facts(text), parts(text)
    ids, z = run.embeddings()
    roles = page_roles(run)

    assert page_facts["nodes"] == page_facts["shown"] == 60
    assert page_facts["thing"] == "a thing"
    assert page_facts["training"][0]["steps"][-1] == 2
    assert [c["name"] for c in page_facts["columns"]] == ["degree", "confidence"]
    assert sum(card["size"] for card in page_facts["roles"]) == 60
    assert all(len(card["prototypes"]) == 5 for card in page_facts["roles"])
    assert all(roles.role[p] == r for r, card in enumerate(page_facts["roles"]) for p in card["prototypes"])
    assert data["map"]["role"].tolist() == roles.role.tolist()
    assert data["map"]["degree"].tolist() == run.graph().degrees.tolist()
    index, _ = nearest(z, 10)
    assert data["near"]["index"].reshape(60, 10).tolist() == index.tolist()
    assert data["ids"]["text"].tobytes().decode().strip("\0").split("\0") == ids.to_pylist()
    assert np.allclose(data["near"]["membership"].reshape(60, 3).sum(1), 255, atol=2)


def test_names_are_those_of_the_run_or_of_the_subject_and_empty_where_they_say_no_more_than_the_id(tmp_path):
    named = small_run(tmp_path / "r", list(range(30)))
    named.fit_roles(3)
    named.set_names({0: "zero", 1: "1", 2: EVIL[0]})

    def names(subject: Subject) -> list[str]:
        packed = parts(page.page_text(named, subject, 100, lambda *_: None))["names"]
        return packed["text"].tobytes().decode()[1:-1].split("\0")

    assert names(Subject()) == ["zero", "", EVIL[0], *[""] * 27]
    assert names(Subject(names=pa.array(["a", None] * 15))) == ["a", ""] * 15


def test_the_same_run_gives_the_same_page(run, tmp_path):
    one, two = (write_page(run, tmp_path / name).read_bytes() for name in "ab")
    assert one == two


def test_a_sampled_page_knows_the_other_nodes_too(run, monkeypatch):
    monkeypatch.setattr(page, "MOST_SEARCHABLE", 40)
    text = page.page_text(run, Subject(), 24, lambda *_: None)
    page_facts, data = facts(text), parts(text)

    assert page_facts["shown"] <= 24
    assert len(data["ids"]["lengths"]) == len(data["map"]["role"]) == 40
    assert len(data["map"]["x"]) == page_facts["shown"]
    assert data["graph"]["around"].max() < 40
    assert "40 of 60 nodes" in page_facts["rules"]["search"]
    assert f"{page_facts['shown']} of 60 nodes" in page_facts["rules"]["sample"]


def test_a_run_without_a_graph_has_a_page_without_neighbourhoods(tmp_path):
    lean = small_run(tmp_path / "lean", [f"n{i}" for i in range(30)], keep_graph=False)
    text = write_page(lean).read_text()
    page_facts = facts(text)

    assert lean.has_roles  # they were fitted on the way
    assert page_facts["rules"]["around"] == captions.NO_GRAPH
    assert [c["name"] for c in page_facts["columns"]] == ["confidence"]
    assert not parts(text)["map"]["degree"].any()
    assert all(card["profile"] == [] for card in page_facts["roles"])


@pytest.mark.parametrize("named", [True, False])
def test_features_colour_the_map_and_set_roles_apart(tmp_path, named):
    ids = [f"n{i:02d}" for i in range(60)]
    x = np.zeros((60, 4), np.float32)
    x[:, 0] = np.arange(60) % 3 == 1
    x[:, 1] = np.random.default_rng(0).random(60) + 1
    x[::7, 2] = 1
    table = FeatureTable(
        pa.array(ids), sp.csr_array(x) if named else x, ("spends", "age", EVIL[0], "never") if named else None
    )
    run = _with_features(tmp_path / "r", ids, table)
    run.fit_roles(3)
    text = write_page(run, subject=Subject(labels=(word_column("kind", "label", ["a", "b"] * 30),))).read_text()
    page_facts = facts(text)
    names = [c["name"] for c in page_facts["columns"]]

    assert names[:3] == ["degree", "confidence", "kind"]
    assert set(names[3:]) == ({"spends", "age", EVIL[0]} if named else {"feature 0", "feature 1", "feature 2"})
    assert "3 of 4 features" in page_facts["rules"]["features"]
    use = next(f for card in page_facts["roles"] for f in card["features"])
    assert page_facts["columns"][use["column"]]["name"] == use["name"]
    assert "×" in use["strength"]


def _with_features(folder, ids, table):
    n = len(ids)
    graph = Graph.from_edges([(ids[i], ids[(i + 1) % n]) for i in range(n)], ids=ids)
    model = RAE(dims=(4,), fanout=(2,), steps=0).fit(graph, features=table)
    return Run.create(folder, model, graph.id_column, planted(n), graph=graph, features=table, counts={"nodes": n})


def test_a_shifted_feature_is_given_in_standard_deviations_and_a_lack_as_one():
    from rae.explore.cards import _feature

    entry = _feature({"feature": "age", "column": 4, "shift": -1.25, "mean": 3.0, "overall": 5.0}, {})
    assert (entry["strength"], entry["column"]) == ("-1.2 sd", None)
    lack = {"feature": "calls", "column": 1, "lift": 0.1, "share": 0.03, "overall": 0.3}
    assert _feature(lack, {})["strength"] == "lacked, 0.1×"
    entry = _feature({"feature": "f", "column": 1, "lift": 120.4, "share": 0.5, "overall": 0.01}, {1: 9})
    assert (entry["strength"], entry["column"]) == ("120×", 9)
    assert sentence("x.") == "X."


def test_roles_that_do_not_fit_their_cards_are_refused(run, tmp_path):
    import shutil

    copy = shutil.copytree(run.path, tmp_path / "copy")
    stored = json.loads((copy / "roles.json").read_text())
    stored["cards"].pop()
    (copy / "roles.json").write_text(json.dumps(stored))
    with pytest.raises(FileError, match=r"not what `rae roles` writes .*; run it again"):
        write_page(Run.open(copy))
    stored["cards"], stored["nodes"] = json.loads((run.path / "roles.json").read_text())["cards"], 7
    (copy / "roles.json").write_text(json.dumps(stored))
    with pytest.raises(RunError, match="rae roles"):
        write_page(Run.open(copy))


def test_a_page_of_ours_is_replaced_and_anything_else_is_refused(run, tmp_path):
    first = write_page(run, tmp_path / "p", subject=Subject("one"))
    assert facts(first.read_text())["title"] == "one"
    assert write_page(run, tmp_path / "p", subject=Subject("two")) == first
    assert facts(first.read_text())["title"] == "two"
    for name in ("thesis.txt", "index.html"):
        other = tmp_path / name.partition(".")[0]
        other.mkdir()
        (other / name).write_text("mine")
        with pytest.raises(RunError, match=r"not empty.*force=True"):
            write_page(run, other)
        assert (other / name).read_text() == "mine"
    write_page(run, tmp_path / "thesis", force=True)
    assert (tmp_path / "thesis" / "thesis.txt").read_text() == "mine"
    with pytest.raises(RunError, match="is a file"):
        write_page(run, tmp_path / "thesis" / "thesis.txt")
    with pytest.raises(ConfigError, match="sample"):
        write_page(run, tmp_path / "q", sample=0)
    assert not (tmp_path / "q").exists()


def test_progress_is_reported_from_the_first_stage_to_the_last(run, tmp_path):
    calls = []
    write_page(run, tmp_path / "p", progress=lambda *a: calls.append(a))
    assert [done for _, done, _, _ in calls] == [0, 1, 2, 3, 4]


# ----------------------------------------------------------------------------------- the assets


def test_the_script_is_small_and_neither_fetches_nor_evaluates():
    folder = files("rae.explore") / "assets"
    script = (folder / "page.js").read_text()

    assert len(script) < 600_000
    assert not re.search(r"\beval\(|new Function|innerHTML|outerHTML|insertAdjacentHTML|document\.write", script)
    assert not re.search(r"\bfetch\(|XMLHttpRequest|WebSocket|EventSource|importScripts|sendBeacon", script)
    for library in ("sigma", "graphology", "d3-force"):
        assert library in (folder / "NOTICE.txt").read_text()


def test_the_script_was_built_from_the_sources_that_are_here():
    web = Path(__file__).parents[1] / "web"
    if not web.is_dir():
        pytest.skip("web/ is not here")
    digest = hashlib.sha256()
    names = sorted(p.name for p in (web / "src").iterdir())
    for name in ("package-lock.json", *(f"src/{n}" for n in names)):
        digest.update(f"{name}\n".encode() + (web / name).read_bytes())
    built = (files("rae.explore") / "assets" / "sources.sha256").read_text().strip()
    assert digest.hexdigest() == built, "web/ has changed since the page was built; run: make page"


# ----------------------------------------------------------------------------------- serving


@pytest.fixture
def served(tmp_path):
    (tmp_path / "index.html").write_text("the page")
    (tmp_path / "below").mkdir()
    with page_server(tmp_path) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def request(server, path: str = "/", host: str | None = None) -> tuple[int, str]:
    address = f"http://127.0.0.1:{server.server_address[1]}{path}"
    query = urllib.request.Request(address, headers={"Host": host} if host else {})
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(query) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, ""


def test_the_page_is_served_to_this_machine_alone(served):
    assert served.server_address[0] == "127.0.0.1"
    assert request(served) == (200, "the page")
    assert request(served, host=f"localhost:{served.server_address[1]}")[0] == 200
    assert request(served, host="evil.example:80")[0] == 403  # DNS rebinding
    assert request(served, "/below/")[0] == 404
    assert request(served, "/../../etc/passwd")[0] == 404


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.0.0.1:80"])
def test_the_printed_address_of_port_80_is_served(served, host):
    assert request(served, host=host) == (200, "the page")  # browsers leave out :80


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "127.0.0.1:evil", ":80", "127.0.0.1:80:80"])
def test_other_hosts_are_refused(served, host):
    assert request(served, host=host)[0] == 403


def test_links_that_lead_out_of_the_page_are_not_followed(served, tmp_path, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret.txt").write_text("secret")
    (tmp_path / "link.txt").symlink_to(outside / "secret.txt")
    (tmp_path / "folder").symlink_to(outside)
    (tmp_path / "within.html").symlink_to(tmp_path / "index.html")

    assert request(served, "/link.txt")[0] == 404
    assert request(served, "/folder/secret.txt")[0] == 404
    assert request(served, "/within.html") == (200, "the page")


# ----------------------------------------------------------------------------------- the command


def test_explore_writes_the_page_into_the_run_and_says_where(run, rae, tmp_path):
    code, out, _ = rae("explore", run.path, "--out", tmp_path / "p", "--title", "Mine", "--sample", 30)
    assert code == 0
    assert str(tmp_path / "p" / "index.html") in out
    text = (tmp_path / "p" / "index.html").read_text()
    assert facts(text)["title"] == "Mine"
    assert facts(text)["shown"] <= 30
    assert (tmp_path / "p" / "NOTICE.txt").is_file()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("mine")
    assert rae("explore", run.path, "--out", tmp_path / "full")[0] == 2
    code, out, _ = rae("explore", run.path, "--json", "--quiet")
    assert code == 0
    assert json.loads(out)["page"] == str(run.path / "explore" / "index.html")


def test_explore_colours_by_labels_of_the_user(run, rae, tmp_path):
    labels = tmp_path / "labels.csv"
    labels.write_text("who,team\n" + "".join(f"n{i:03d},t{i % 2}\n" for i in range(50)))
    code, _, _ = rae(
        "explore", run.path, "--out", tmp_path / "p", "--labels", labels, "--label-column", "team", "--id-column", "who"
    )
    assert code == 0
    column = next(c for c in facts((tmp_path / "p" / "index.html").read_text())["columns"] if c["group"] == "label")
    assert column["name"] == "team"
    assert column["levels"] == ["t0", "t1"]
    code, _, err = rae("explore", run.path, "--label-column", "team")
    assert code == 2
    assert "--labels" in err


def test_explore_shows_names_of_the_user(run, rae, tmp_path):
    table = tmp_path / "people.csv"
    table.write_text("key,called\nn001,Ann\nn002,Bob\n")
    out = ("explore", run.path, "--out", tmp_path / "p")
    assert rae(*out, "--names", table, "--name-column", "called", "--id-column", "key")[0] == 0
    text = parts((tmp_path / "p" / "index.html").read_text())["names"]["text"].tobytes().decode()
    assert "\0Ann\0Bob\0" in text
    for flags, words in ((("--name-column", "called"), "--names"), (("--id-column", "key"), "neither")):
        code, _, err = rae(*out, *flags)
        assert code == 2
        assert words in err


def test_serve_prints_the_address_keeps_the_page_that_is_there_and_ends_with_ctrl_c(run, rae, tmp_path, monkeypatch):
    from http.server import ThreadingHTTPServer

    def interrupted(self, *_):
        raise KeyboardInterrupt

    monkeypatch.setattr(ThreadingHTTPServer, "serve_forever", interrupted)
    code, out, err = rae("explore", run.path, "--out", tmp_path / "p", "--serve")
    assert code == 0
    assert re.search(r"http://127\.0\.0\.1:\d+/", out)
    assert "stopped" in err
    before = (tmp_path / "p" / "index.html").stat().st_mtime_ns
    code, out, err = rae("explore", run.path, "--out", tmp_path / "p", "--serve")
    assert "served as it is" in err
    assert (tmp_path / "p" / "index.html").stat().st_mtime_ns == before
    rae("explore", run.path, "--out", tmp_path / "p", "--serve", "--title", "Anew")
    assert facts((tmp_path / "p" / "index.html").read_text())["title"] == "Anew"
