"""The page in a real Chromium: names, labels, equal vectors, weights of blocks, and the link to a view."""

from __future__ import annotations

import csv
import io
import json
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pytest

from chromium import Chromium, find_chromium
from rae import Graph, similar
from rae.explore import Subject, write_page
from rae.explore.columns import number_column, word_column
from rae.features import FeatureTable
from rae.inputs import Inputs, count
from rae.pipeline import fit_run

IMAGE = "<img src=x onerror=alert(1)>"
N, LEAVES = 160, 12

pytestmark = pytest.mark.skipif(find_chromium() is None, reason="no Chromium: install it, or name it in RAE_CHROMIUM")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A fitted run: a random graph with features, and twelve leaves of one hub that cannot be told apart."""
    rng = np.random.default_rng(0)
    edges = np.concatenate([rng.integers(N, size=(3 * N, 2)), [[0, N + i] for i in range(LEAVES)]])
    ids = [f"n{i:03d}" for i in range(N + LEAVES)]
    graph = Graph.from_edges([(ids[a], ids[b]) for a, b in edges if a != b], ids=ids)
    x = (rng.random((N + LEAVES, 10)) < 0.3).astype(np.float32)
    x[N:] = x[N]
    table = FeatureTable(pa.array(ids), x, tuple(f"word {j}" for j in range(10)))
    folder = tmp_path_factory.mktemp("view") / "run"
    fitted = fit_run(Inputs(graph, table, count(graph, table), 0.0), out=folder, page=False)
    fitted.set_names({id: NAMES.get(id, f"Person {i}") for i, id in enumerate(ids) if i % 2 or id in NAMES})
    fitted.fit_roles(4)
    return fitted


NAMES = {"n005": IMAGE, "n007": "שלום", "n160": "Leaf A"}


@pytest.fixture(scope="module")
def page(run):
    kinds = word_column("kind", "label", [None if i % 10 == 9 else f"kind {i % 3}" for i in range(N + LEAVES)])
    spent = number_column("spent", "label", np.arange(N + LEAVES) / 7)
    return write_page(run, subject=Subject("Views", labels=(kinds, spent)))


@pytest.fixture(scope="module")
def browser():
    with Chromium(find_chromium()) as opened:
        yield opened


@pytest.fixture
def tab(browser, page):
    """The page, fresh; afterwards nothing was logged, and nothing but the page was asked for."""
    browser.forget()
    browser.open(page)
    yield browser
    assert browser.errors == []
    assert {address.partition("#")[0] for address in browser.requests} == {page.resolve().as_uri()}
    assert browser.value("document.images.length") == 0


def reopen(tab: Chromium, page, fragment: str) -> None:
    """The page anew under this fragment, as a reader of a link opens it."""
    tab.call("Page.navigate", url="about:blank")
    tab.until("location.href === 'about:blank'")
    tab.open(f"{page.resolve().as_uri()}#{fragment}")


def link_of(tab: Chromium) -> str:
    """The fragment once the page has put the view into it."""
    tab.click("#link")
    tab.value("document.getElementById('share').open && document.getElementById('share').close()")
    return tab.value("location.hash").removeprefix("#")


def search(tab: Chromium, text: str) -> list[str]:
    tab.value("document.activeElement.blur()")
    tab.press("Escape")
    tab.press("/")
    tab.type(text)
    return tab.value("[...document.querySelectorAll('#hits .who')].map(e => e.innerText)")


def listed(tab: Chromium) -> list[int]:
    return tab.value("[...document.querySelectorAll('#nearest [data-node]')].map(e => +e.dataset.node)")


def weigh(tab: Chromium, block: str, weight: float) -> None:
    tab.value(
        f"""(() => {{ const s = document.querySelector("[data-block='{block}']"); s.value = {weight};
        s.dispatchEvent(new Event("input")); }})()"""
    )


# ------------------------------------------------------------------------------------ names


def test_a_node_is_found_and_shown_by_its_name_with_its_id_beside_it(tab):
    assert search(tab, "person 11")[0].split() == ["Person", "11", "n011"]
    tab.press("Enter")
    assert tab.text("#node-name") == "Person 11"
    assert tab.text("#node-id") == "id n011"
    assert search(tab, "n011") == [search(tab, "person 11")[0]]  # by its id too
    assert search(tab, "n012")[0] == "n012"  # it has no name
    tab.press("Enter")
    assert tab.text("#node-id") == ""
    assert "No name or id contains nobody" in (search(tab, "nobody") or [tab.text("#hits")])[0]


def test_names_are_on_the_cards_in_the_lists_and_in_the_table(tab, run):
    names, ids = run.names().to_pylist(), run.embeddings()[0].to_pylist()
    chips = tab.value("[...document.querySelectorAll('.card [data-node]')].map(e => [+e.dataset.node, e.innerText])")
    assert all(text == (names[node] or ids[node]) for node, text in chips)
    assert any(names[node] for node, _ in chips)
    search(tab, "n013")
    tab.press("Enter")
    rows = tab.value(
        "[...document.querySelectorAll('#nearest [data-node]')]"
        ".map(e => [+e.dataset.node, e.querySelector('bdi').innerText, e.querySelector('.id')?.innerText ?? null])"
    )
    assert rows == [[node, names[node] or ids[node], ids[node] if names[node] else None] for node, _, _ in rows]
    tab.click("#csv")
    table = list(csv.reader(io.StringIO(tab.download(".csv").read_text(encoding="utf-8"), newline="")))
    assert table[0][:3] == ["id", "name", "role"]
    assert table[1][:2] == ["n013", "Person 13"]


@pytest.mark.parametrize("id", ["n005", "n007"])
def test_a_hostile_name_is_text(tab, id):
    search(tab, id)
    tab.press("Enter")

    assert tab.text("#node-name") == NAMES[id]
    assert tab.value("document.querySelector('#node-name').querySelectorAll('*').length") == 1  # the <bdi>


# ------------------------------------------------------------------------------------ labels


def test_a_card_has_the_labels_of_its_role_with_their_lift(tab, run):
    kinds = [None if i % 10 == 9 else f"kind {i % 3}" for i in range(N + LEAVES)]
    table = run.label_table(kinds)
    for role in range(4):
        rows = tab.value(
            f"[...document.querySelectorAll('.card[data-role=\"{role}\"] .label-row')]"
            ".map(e => [...e.children].map(c => c.textContent))"
        )
        assert len(rows) == np.count_nonzero(table.counts[role])
        for label, nodes, _, lift in rows:
            at = role, table.labels.index(label)
            assert int(nodes) == table.counts[at]
            assert float(lift.removesuffix("×")) == pytest.approx(table.lift[at], abs=0.051)
    assert "of all nodes" in tab.text(".card[data-role='0']")  # the median of spent
    tab.value("[...document.querySelectorAll('.card .plain')].find(e => e.innerText === 'kind').click()")
    assert tab.text("#legend").startswith("kind")


# ------------------------------------------------------------------------------------ equal vectors


def test_equal_vectors_are_one_mark_with_a_count_and_a_list(tab, run):
    assert tab.value("window.raePage.points.x.length") == N + 1
    mark = tab.value(f"window.raePage.groups.of({N})")
    assert tab.value(f"[...window.raePage.groups.nodes({mark})]") == list(range(N, N + LEAVES))
    size, other = tab.value(f"[window.raePage.styleOf({mark}).size, window.raePage.styleOf(3).size]")
    assert size > other
    search(tab, "Leaf A")
    tab.press("Enter")
    assert "11 other nodes" in tab.text("#equals")
    others = tab.value("[...document.querySelectorAll('#equals [data-node]')].map(e => +e.dataset.node)")
    assert others == list(range(N + 1, N + LEAVES))
    assert not set(listed(tab)) & set(range(N, N + LEAVES))  # the most alike are other vectors
    answer = similar(run, "n160", k=LEAVES + 9)
    assert [m[1] for m in answer.matches[: LEAVES - 1]] == [0.0] * (LEAVES - 1)
    assert [f"n{i:03d}" for i in listed(tab)] == [m[0] for m in answer.matches[LEAVES - 1 :]]
    tab.click("#csv")
    table = tab.download(".csv").read_text(encoding="utf-8").splitlines()
    assert len(table) == 1 + LEAVES + 10
    search(tab, "n001")
    tab.press("Enter")
    assert tab.count("#equals") == 0


def test_a_mark_of_several_nodes_is_coloured_by_their_commonest_value_or_median(tab):
    codes = "window.raePage.groups.codes(Uint8Array.from({length: %d}, (_, i) => %s), %s, 255)[%d]"
    code = f"i < {N} ? 9 : i < {N + 5} ? 255 : i < {N + 8} ? i - {N} : 7"
    assert tab.value(codes % (N + LEAVES, code, "false", N)) == 7
    assert tab.value(codes % (N + LEAVES, f"i < {N} ? 9 : i - {N}", "true", N)) == LEAVES // 2
    assert tab.value(codes % (N + LEAVES, "255", "true", N)) == 255


# ------------------------------------------------------------------------------------ weights


def test_the_most_alike_follow_the_weights_of_the_blocks(tab, run):
    ids, node = run.embeddings()[0].to_pylist(), 20
    search(tab, "n020")
    tab.press("Enter")
    blocks = tab.value("window.raePage.facts.blocks.map(b => b.name)")
    assert set(blocks) <= {b.name for b in run.blocks}
    before = listed(tab)
    assert tab.value("document.querySelector('#weights-reset').disabled")
    weigh(tab, "own", 2)
    for name in blocks:
        if name != "own":
            weigh(tab, name, 0)
    weights = {b.name: 2.0 if b.name == "own" else 0.0 for b in run.blocks}
    answer = dict(similar(run, ids[node], k=N, weights=weights).matches)
    listed_ids = [ids[i] for i in listed(tab)]
    shown = tab.value("[...document.querySelectorAll('#nearest .value')].map(e => +e.textContent)")
    assert [answer[id] for id in listed_ids] == pytest.approx(shown, abs=0.01)
    assert max(answer[id] for id in listed_ids) <= sorted(answer.values())[20]  # ties may stand in another order
    assert "--weights" in tab.text("#node")
    weigh(tab, "own", 0)
    assert "nothing to compare" in tab.text("#nearest")
    tab.value("document.querySelector('#weights-reset').click()")
    assert listed(tab) == before


# ------------------------------------------------------------------------------------ the link


def test_a_link_restores_node_role_colour_place_and_weights(tab, page):
    search(tab, "Leaf A")
    tab.press("Enter")
    weigh(tab, "own", 1.5)
    tab.click("#tab-roles")
    tab.click(".card[data-role='1'] .head")
    tab.value("[...document.querySelectorAll('.card .plain')].find(e => e.innerText === 'kind').click()")
    scale = tab.value("window.raePage.view.affine().scale")
    tab.value("window.raePage.view.moveTo(0.3, 0.4, 3)")
    tab.until(f"window.raePage.view.affine().scale > {2.9 * scale}")
    tab.until("window.lastScale === (window.lastScale = window.raePage.view.affine().scale)")  # it moves no more
    before = tab.value("window.raePage.view.affine()")
    near = listed(tab)
    link = link_of(tab)
    reopen(tab, page, link)

    assert tab.value("window.raePage.selected") == N
    assert tab.value("document.querySelector('.card.lit').dataset.role") == "1"
    assert tab.text("#legend").startswith("kind")
    assert tab.value("document.querySelector('[data-block=own]').value") == "1.5"
    assert listed(tab) == near
    assert not tab.value("document.getElementById('roles').hidden")
    assert tab.value("window.raePage.view.affine()") == pytest.approx(before, rel=1e-3, abs=1)
    assert link_of(tab) == link
    tab.value("location.hash = 'node=n003'")  # another link in the same window
    tab.until("window.raePage.selected === 3")
    assert tab.count(".card.lit") == 0
    assert tab.text("#legend").startswith("role")
    assert tab.value("window.raePage.alike.changed") == []


def test_a_box_is_in_the_link_and_nothing_chosen_is_no_fragment(tab, page):
    reopen(tab, page, "box=0,0,0.5,1")
    left = tab.value("[...window.raePage.points.x].map((x, i) => x <= 0.5 ? i : -1).filter(i => i >= 0)")
    lit = tab.value(f"[...Array({N + 1}).keys()].filter(i => window.raePage.lit.has(i))")
    assert lit == left
    assert link_of(tab) == "box=0%2C0%2C0.5%2C1"
    tab.press("Escape")
    assert link_of(tab) == ""
    assert "#" not in tab.value("location.href")


HOSTILE = (
    "node=" + quote(IMAGE),
    "node=n003%00",
    "node=N003",
    "role=99",
    "role=-1",
    "role=1e0",
    "role=__proto__",
    "color=__proto__",
    "color=label+constructor",
    "at=NaN,0,1",
    "at=0,0,-5",
    "at=1e9,0,1",
    "at=99999999,0,1",
    "at=0,0",
    "box=5,5,6,6",
    "box=Infinity,0,1,1",
    "weights=own=-1",
    "weights=own=1e9",
    "weights=own=NaN,__proto__=1,constructor=2",
    "weights=,,==",
    "show=" + quote(SCRIPT := "</script><script>alert(1)</script>"),
    "%E0%A4%A&node=%",
    "side",
    "node=n003&" + "x" * 20_000,
)


def test_hostile_fragments_are_ignored(tab, page):
    whole = tab.value("JSON.stringify(window.raePage.view.affine())")
    states = tab.value(
        f"""(async () => {{ const out = []; const page = window.raePage;
        for (const fragment of {json.dumps(HOSTILE)}) {{
          const heard = new Promise(done => addEventListener("hashchange", done, {{ once: true }}));
          location.hash = fragment;
          await heard; // after the page, which listens longer
          await new Promise(requestAnimationFrame);
          out.push([page.selected, page.lit, page.choice, page.alike.changed, JSON.stringify(page.view.affine())]);
        }} return out; }})()"""
    )
    for fragment, state in zip(HOSTILE, states, strict=True):
        assert state == [None, None, "role", [], whole], fragment
    reopen(tab, page, HOSTILE[0])
    assert tab.value("window.raePage.selected") is None
    assert IMAGE not in tab.value("document.body.innerText")
    assert tab.value("({}).weight === undefined && ({}).x === undefined")


def test_a_link_is_copied_or_shown_to_be_copied(tab):
    search(tab, "n001")
    tab.press("Enter")
    tab.click("#link")
    tab.until("document.getElementById('share').open || document.getElementById('link').textContent === 'Copied'")
    tab.value("navigator.clipboard.writeText = () => Promise.reject(new Error('no'))")
    tab.value("document.getElementById('share').close()")
    tab.click("#link")
    tab.until("document.getElementById('share').open")
    assert tab.value("document.getElementById('address').value").endswith("#node=n001")
