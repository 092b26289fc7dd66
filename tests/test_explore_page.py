"""The page in a real Chromium: it loads in silence, asks the network for nothing, and does what it offers."""

from __future__ import annotations

import csv
import io
import struct
import time

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

from chromium import Chromium, find_chromium
from rae import RAE, Graph, Run
from rae.explore import Subject, write_page
from rae.explore.columns import word_column
from rae.features import FeatureTable
from rae.ops.nearest import nearest_rows

IMAGE = "<img src=x onerror=alert(1)>"
SCRIPT = "</script><script>alert(1)</script>"
FORMULA = '=HYPERLINK("http://x","y")'

pytestmark = pytest.mark.skipif(find_chromium() is None, reason="no Chromium: install it, or name it in RAE_CHROMIUM")


def planted_run(folder, n: int, roles: int, names: dict[int, str], features: bool) -> Run:
    """A run with planted roles; neighbours are near in row order, and row 0 is a hub."""
    rng = np.random.default_rng(0)
    ids = [names.get(i, f"node-{i:06d}") for i in range(n)]
    hops = rng.integers(1, 40, size=2 * n)
    ends = np.concatenate([np.arange(2 * n) % n, np.zeros(600, np.int64)])
    others = np.concatenate([(np.arange(2 * n) + hops) % n, rng.choice(np.arange(1, n), 600, replace=False)])
    graph = Graph.from_scipy(sp.coo_array((np.ones(len(ends)), (ends, others)), shape=(n, n)), ids=ids)
    z = np.eye(roles, 8, dtype=np.float32)[np.arange(n) % roles] + 0.15 * rng.standard_normal((n, 8), dtype=np.float32)
    x = None
    if features:
        words = sp.random_array((n, 60), density=0.05, rng=rng, format="csr", dtype=np.float32)
        own = sp.csr_array((np.arange(n) % roles == 1).astype(np.float32)[:, None])
        x = FeatureTable(pa.array(ids), sp.csr_array(sp.hstack([own, words])), (IMAGE, *(f"w{i}" for i in range(60))))
    model = RAE(dims=(4,), fanout=(2,), steps=0).fit(graph, features=x)
    counts = {"nodes": n, "edges": graph.n_edges}
    run = Run.create(folder, model, graph.id_column, z, graph=graph, features=x, counts=counts)
    run.fit_roles(roles)
    return run


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A page of a thousand nodes with hostile names, and the run behind it."""
    run = planted_run(
        tmp_path_factory.mktemp("small") / "run", 1_000, 5, {3: IMAGE, 4: SCRIPT, 7: FORMULA, 9: 'a, "b"\n'}, True
    )
    kinds = word_column("kind", "label", [IMAGE if i % 4 == 0 else f"kind {i % 4}" for i in range(1_000)])
    return run, write_page(run, subject=Subject("Small & <b>bold</b>", "a thing", (kinds,)))


@pytest.fixture(scope="module")
def browser():
    with Chromium(find_chromium()) as opened:
        yield opened


@pytest.fixture
def tab(browser, small):
    """The page of the thousand nodes, fresh; afterwards nothing was logged, fetched or run."""
    browser.forget()
    browser.open(small[1])
    yield browser
    assert browser.errors == []
    assert browser.requests == [small[1].resolve().as_uri()]
    assert browser.value("document.images.length") == 0


def screen_position(tab: Chromium, node: int) -> tuple[float, float]:
    """Where a node of the map stands in the window."""
    x, y = tab.value(
        f"(() => {{ const b = document.getElementById('stage').getBoundingClientRect(); "
        f"const p = window.raePage.place({node}); return [b.left + p.x, b.top + p.y]; }})()"
    )
    return x, y


def choose(tab: Chromium, option: str) -> None:
    """Pick what the map is coloured by."""
    tab.value(
        f"""(() => {{ const s = document.getElementById("color");
        s.value = [...s.options].find(o => o.textContent === {option!r}).value;
        s.dispatchEvent(new Event("change")); }})()"""
    )


def open_id(tab: Chromium, text: str) -> None:
    tab.press("Escape")
    tab.press("/")
    tab.type(text)
    tab.press("Enter")


def test_it_loads_and_shows_cards_names_and_what_was_counted(tab, small):
    assert tab.text("#title") == "Small & <b>bold</b>"
    assert "1,000 nodes" in tab.text("#subtitle")
    assert "a thing" in tab.text("#hint")
    assert tab.count(".card") == 5
    assert tab.value("document.documentElement.dataset.drawing") == "webgl"
    sizes = [card["size"] for card in small[0].role_record()["cards"]]
    assert [tab.text(f".card[data-role='{r}'] .size").split()[0] for r in range(5)] == [str(s) for s in sizes]
    assert _colours(tab) > 5  # the marks are there


def _colours(tab: Chromium) -> int:
    """How many different colours the map has now."""
    return tab.value(
        """(() => { const c = window.raePage.view.image(); const t = document.createElement("canvas");
        t.width = c.width; t.height = c.height; const b = t.getContext("2d"); b.drawImage(c, 0, 0);
        const p = new Uint32Array(b.getImageData(0, 0, t.width, t.height).data.buffer);
        return new Set(p).size; })()"""
    )


@pytest.mark.parametrize("name", [IMAGE, SCRIPT, FORMULA])
def test_hostile_names_are_text(tab, name):
    open_id(tab, name)

    assert tab.text("#node-name") == name
    assert tab.value("document.querySelector('#node-name').querySelectorAll('*').length") == 1  # the <bdi>
    assert tab.count("#nearest li") == 10


def test_search_finds_prefixes_before_substrings_and_walks_by_keyboard(tab):
    tab.press("/")
    assert tab.value("document.activeElement.id") == "search"
    tab.type("NODE-00012")
    hits = tab.value("[...document.querySelectorAll('#hits li bdi')].map(e => e.textContent)")
    assert hits == [f"node-{i:06d}" for i in range(120, 130)]
    tab.press("ArrowDown")
    tab.press("ArrowDown")
    tab.press("ArrowUp")
    tab.press("Enter")
    assert tab.text("#node-name") == "node-000121"
    tab.press("/")
    tab.type("0999")
    assert tab.text("#hits li bdi") == "node-000999"
    tab.value("document.getElementById('search').value = ''")
    tab.type("nobody")
    assert "No id contains nobody" in tab.text("#hits")


def test_a_click_on_a_mark_opens_its_node_with_role_alikes_and_neighbourhood(tab, small):
    run, _ = small
    row = 500
    tab.click_at(*screen_position(tab, row))
    _, role, _, membership = run.role_table()
    ids, z = run.embeddings()
    opened = tab.value("window.raePage.selected")
    if opened != row:  # another mark lies over it
        row = opened
    nearest, distance = nearest_rows(z, z[[row]], 10, np.array([row]))

    assert tab.text("#node-name") == ids[row].as_py()
    assert f"Role {role[row]}" in tab.text("#node .facts")
    summary = run.role_record()["cards"][role[row]]["summary"]
    assert tab.text("#node-role") == f"Its role: {summary}."
    assert f"{run.graph().degrees[row]} neighbours" in tab.text("#node .facts")
    listed = tab.value("[...document.querySelectorAll('#nearest bdi')].map(e => e.textContent)")
    assert listed == [ids[int(i)].as_py() for i in nearest[0]]
    assert float(tab.text("#nearest .value")) == pytest.approx(distance[0, 0], abs=6e-4)
    shares = tab.value("[...document.querySelectorAll('.members .value')].map(e => parseFloat(e.textContent))")
    assert shares[0] == pytest.approx(100 * membership[row].max(), abs=1.5)
    drawn = set(
        tab.value("[...document.querySelectorAll('.neighborhood .hop1')].map(e => +e.dataset.node).filter(n => n >= 0)")
    )
    assert drawn == set(run.graph().neighbors(row).tolist())
    assert tab.count(".neighborhood .hop2") > 0
    tab.value("document.querySelector('.neighborhood .node.hop1').dispatchEvent(new MouseEvent('click'))")
    assert tab.text("#node-name") != ids[row].as_py()


def test_a_hub_is_drawn_in_part_and_the_page_says_so(tab):
    open_id(tab, "node-000000")

    assert tab.count(".neighborhood g.hop1") == 24
    assert "24 of its" in tab.text("#node")
    assert "keeps 200" in tab.text("#node")


def test_a_card_lights_its_members_and_lets_them_go_again(tab, small):
    _, role, _, _ = small[0].role_table()
    before = _colours(tab)
    tab.click(".card[data-role='2'] .head")

    assert tab.value("document.querySelector('.card[data-role=\"2\"]').classList.contains('lit')")
    lit = tab.value("[...Array(1000).keys()].filter(i => window.raePage.styleOf(i).alpha > 0.5)")
    assert lit == np.flatnonzero(role == 2).tolist()
    assert _colours(tab) != before
    tab.press("2")
    assert not tab.value("document.querySelector('.card.lit')")
    tab.press("4")
    assert tab.count(".card.lit") == 1
    tab.press("Escape")
    assert tab.count(".card.lit") == 0


def test_a_lit_role_is_saved_as_csv_with_every_cell_safe(tab, small):
    ids, role, _, _ = small[0].role_table()
    tab.value(f"document.querySelector('.card[data-role=\"{role[7]}\"] .head').click()")
    tab.click("#csv")
    text = tab.download(".csv").read_bytes().decode("utf-8")
    rows = list(csv.reader(io.StringIO(text, newline="")))

    assert rows[0] == ["id", "role", "confidence", "degree"]
    expected = [ids[int(i)].as_py() for i in np.flatnonzero(role == role[7])]
    assert [r[0].removeprefix("'") for r in rows[1:]] == expected
    assert "'" + FORMULA in [r[0] for r in rows]
    assert {r[1] for r in rows[1:]} == {str(role[7])}
    assert text.endswith("\r\n")


def test_a_box_selects_and_the_table_holds_the_column_that_colours(tab):
    choose(tab, "kind")
    assert IMAGE in tab.text("#legend")
    x, y = screen_position(tab, 3)
    tab.mouse("mouseMoved", x - 40, y - 40)
    tab.mouse("mousePressed", x - 40, y - 40, buttons=1, shift=True)
    tab.mouse("mouseMoved", x + 40, y + 40, buttons=1, shift=True)
    tab.mouse("mouseReleased", x + 40, y + 40, shift=True)
    tab.click("#csv")
    rows = list(csv.reader(io.StringIO(tab.download(".csv").read_text(encoding="utf-8"), newline="")))

    assert rows[0][-1] == "kind"
    assert 1 < len(rows) < 1_000
    assert IMAGE in [r[0] for r in rows]


def test_the_view_is_saved_as_png(tab):
    tab.click("#png")
    data = tab.download(".png").read_bytes()
    width, height = struct.unpack(">II", data[16:24])

    assert data.startswith(b"\x89PNG")
    assert (width, height) == (
        tab.value("document.getElementById('stage').clientWidth"),
        tab.value("document.getElementById('stage').clientHeight") + 34,
    )
    assert len(data) > 20_000


def test_features_and_numbers_colour_the_map(tab):
    tab.value(f"[...document.querySelectorAll('[data-feature]')].find(e => e.dataset.feature === {IMAGE!r}).click()")
    assert tab.text("#legend").startswith(IMAGE)
    assert "grey: 0" in tab.text("#legend")
    by_role = _colours(tab)
    choose(tab, "degree")
    assert tab.text("#legend").startswith("degree")
    assert _colours(tab) != by_role
    choose(tab, "another feature…")
    tab.type("w5")
    assert tab.text("#features li") == "w5"
    tab.press("Enter")
    assert tab.text("#legend").startswith("w5")


def test_a_label_that_is_a_feature_too_is_listed_once(browser, small, tmp_path):
    own = word_column(IMAGE, "label", [str(i % 2) for i in range(1_000)])
    browser.open(write_page(small[0], tmp_path, subject=Subject(labels=(own,))))
    listed = "[...document.querySelectorAll('#color option')].map(e => e.textContent).filter(t => t.includes('<img'))"

    assert browser.value(listed) == [IMAGE]
    browser.value(
        f"[...document.querySelectorAll('[data-feature]')].find(e => e.dataset.feature === {IMAGE!r}).click()"
    )
    assert browser.value(listed) == [IMAGE, f"{IMAGE} (feature)"]  # asked for by its card


def test_one_role_is_counted_as_one(browser, tmp_path):
    browser.open(write_page(planted_run(tmp_path / "run", 700, 1, {}, False)))

    assert browser.text("#subtitle").endswith(" · 1 role")


def test_it_can_be_used_by_keyboard_alone(tab):
    tab.value("document.getElementById('stage').focus()")
    scale = tab.value("window.raePage.view.affine().scale")
    tab.press("+")
    tab.until(f"window.raePage.view.affine().scale > {1.3 * scale}")
    left = tab.value("window.raePage.view.affine().left")
    tab.press("ArrowRight")
    tab.until(f"window.raePage.view.affine().left < {left - 20}")
    tab.press("Enter")
    assert tab.text("#node-name") != ""
    tab.press("Home")
    tab.until(f"Math.abs(window.raePage.view.affine().scale - {scale}) < 1")
    tab.value("document.getElementById('tab-node').focus()")
    tab.press("ArrowLeft")
    assert not tab.value("document.getElementById('roles').hidden")
    unnamed = tab.value("""[...document.querySelectorAll("button, input, select, [role=tab], [tabindex='0']")]
        .filter(e => !(e.innerText || "").trim() && !e.getAttribute("aria-label") && !e.getAttribute("aria-labelledby")
        && !e.closest("label")).map(e => e.outerHTML.slice(0, 80))""")
    assert unnamed == []


def test_dark_follows_the_reader_and_can_be_switched(small):
    with Chromium(find_chromium(), dark=True) as tab:
        tab.open(small[1])
        ground = "getComputedStyle(document.body).backgroundColor"
        dark = tab.value(ground)
        tab.click("#theme")
        assert tab.value("document.documentElement.dataset.theme") == "light"
        assert tab.value(ground) != dark
        tab.click("#about-open")
        assert "UMAP" in tab.text("#about")
        assert tab.errors == []


def test_without_webgl_a_plain_canvas_draws_the_same_page(small):
    flags = ("--disable-3d-apis",)
    with Chromium(find_chromium(), flags=flags) as tab:
        tab.open(small[1])
        assert tab.value("document.documentElement.dataset.drawing") == "canvas"
        assert _colours(tab) > 5
        tab.click_at(*screen_position(tab, 500))
        assert tab.text("#node-name").startswith("node-")
        before = tab.value("window.raePage.view.affine().scale")
        tab.click("#closer")
        tab.until(f"window.raePage.view.affine().scale > {1.3 * before}")
        tab.click("#png")
        assert len(tab.download(".png").read_bytes()) > 20_000
        assert tab.errors == []


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    run = planted_run(tmp_path_factory.mktemp("large") / "run", 10_000, 6, {7_000: IMAGE}, False)
    return run, write_page(run, sample=2_000)


def test_ten_thousand_nodes_are_sampled_searched_and_explored(browser, large):
    run, page = large
    assert page.stat().st_size < 5_000_000
    browser.forget()
    tab = browser
    tab.open(page)
    assert "10,000 nodes" in tab.text("#subtitle")
    assert "on the map" in tab.text("#subtitle")
    assert " of 10,000 nodes: the typical ones of every role" in tab.text("#sample")
    spent = tab.value(
        "(() => { const t = performance.now(); window.raePage.names.find('009999'); return performance.now() - t; })()"
    )
    assert spent < 1_000
    open_id(tab, "node-009999")
    assert tab.text("#node-name") == "node-009999"
    degree = run.graph().degrees[9_999]
    assert f"{degree} neighbours" in tab.text("#node .facts")
    assert tab.count(".neighborhood g.hop1") == min(degree, 24)
    open_id(tab, IMAGE)
    assert tab.text("#node-name") == IMAGE
    tab.press("Escape")
    tab.click_at(*screen_position(tab, 1_000))
    assert tab.count("#nearest li") == 10
    tab.press("Escape")
    tab.click(".card[data-role='1'] .head")
    tab.click("#csv")
    size = run.role_record()["cards"][1]["size"]
    assert len(tab.download(".csv").read_text().splitlines()) == size + 1
    began = time.monotonic()
    for _ in range(10):
        tab.value("window.raePage.view.panBy(20, 0); window.raePage.view.image(); 1")
    assert (time.monotonic() - began) / 10 < 1  # without a graphics card, on a busy machine
    assert tab.errors == []
    assert tab.requests == [page.resolve().as_uri()]
