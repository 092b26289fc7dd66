"""What a notebook shows: tables, pictures, the page and bars."""

from __future__ import annotations

import html
import io
import sys
import types
from html.parser import HTMLParser

import numpy as np
import pyarrow as pa
import pytest

from chromium import Chromium, find_chromium
from rae import RAE, Graph, Roles, Run, fit_run, progress
from rae.progress import NotebookReporter, Reporter, in_notebook, shown

HOSTILE = '<script>alert("&")</script>'
EDGES = [(HOSTILE, f"b{i}") for i in range(6)] + [(f"b{i}", f"c{i}") for i in range(6)]


class Elements(HTMLParser):
    """The elements of a text, opened and closed in pairs."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.open: list[str] = []
        self.words = ""
        self.feed(text)
        assert not self.open, f"{self.open} stay open"

    def handle_starttag(self, tag, attrs):
        assert not any(name.startswith("on") for name, _ in attrs)
        self.names.append(tag)
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words += data


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Run:
    folder = tmp_path_factory.mktemp("notebook")
    names = {HOSTILE: f"Hub {HOSTILE}"}
    return fit_run(Graph.from_edges(EDGES), out=folder / f"{HOSTILE.replace('/', '')}", names=names)


def shows(thing) -> Elements:
    elements = Elements(thing._repr_html_())
    assert "script" not in elements.names
    return elements


def test_a_graph_is_a_table_and_a_picture_of_degrees():
    elements = shows(Graph.from_edges([(0, i) for i in range(1, 9)], ids=range(10)))

    assert "nodes10edges8isolated1" in elements.words
    assert elements.names.count("svg") == 1
    assert elements.names.count("rect") == 5  # degrees 0, 1, 2 to 3, 4 to 7, 8 to 15
    assert shows(Graph.from_edges([], ids=[0])).names.count("rect") == 1


def test_a_model_is_its_settings_and_its_blocks():
    graph = Graph.from_edges(EDGES)
    model = RAE(views=2)

    assert "not fitted" in shows(model).words
    assert "views" in shows(model).words
    assert "all by default" in shows(RAE()).words
    fitted = shows(model.fit(graph))
    assert all(word in fitted.words for word in ("structure alone", "place", "around"))
    assert fitted.names.count("rect") == 2
    assert "trained model" in shows(RAE(steps=0).fit(graph, features=np.eye(13))).words


def test_roles_are_a_table_and_a_picture_of_sizes():
    roles = Roles(k=2)

    assert "not fitted" in shows(roles).words
    elements = shows(roles.fit(np.repeat([[0.0], [9.0]], [5, 3], axis=0)))
    assert "2 roles of 8 nodes" in elements.words
    assert elements.names.count("rect") == 2


def test_a_run_is_its_counts_and_its_cards_all_text_escaped(run, tmp_path):
    elements = shows(run)

    assert f"Hub {HOSTILE}"[:20] in elements.words
    assert elements.names.count("rect") == len(run.role_record()["cards"])
    bare = fit_run(Graph.from_edges(EDGES), out=tmp_path / "bare", page=False)
    assert "without roles" in shows(bare).words
    assert shows(bare).names.count("svg") == 1
    lean = fit_run(Graph.from_edges(EDGES), out=tmp_path / "lean", page=False, lean=True)
    assert "svg" not in shows(lean).names


def test_labels_beside_roles_are_a_table(run):
    ids = run.graph().ids
    elements = shows(run.label_table([HOSTILE if len(id) > 2 else id for id in ids], "kind"))

    assert "kind by role" in elements.words
    assert HOSTILE in elements.words
    assert "8 commonest" in elements.words


def test_a_long_table_says_what_it_leaves_out():
    graph = Graph.from_edges(EDGES)
    roles = Roles(k=13).fit(np.eye(13) * np.arange(1, 14)[:, None])

    assert "and 1 more" in shows(roles).words
    assert graph.n_nodes == 13


# ---------------------------------------------------------------------------- frames of roles


def test_roles_are_a_frame_by_id(run):
    fitted, loaded = run.fit_roles(2), run.roles()
    frame = loaded.to_pandas()

    assert frame.equals(fitted.to_pandas())
    assert frame.index.tolist() == run.graph().ids.tolist()
    assert frame.columns.tolist() == ["role", "confidence", "membership0", "membership1"]
    assert np.allclose(frame[["membership0", "membership1"]].sum(axis=1), 1)
    assert loaded.to_arrow().equals(pa.table(pa.parquet.read_table(run.path / "roles.parquet")))
    assert Roles(2).fit(np.eye(2)).to_pandas(np.eye(2), ids=["x", "y"]).index.tolist() == ["x", "y"]
    assert Roles(2).fit(np.eye(2)).to_arrow().column("id").to_pylist() == [0, 1]


def test_a_run_goes_out_as_arrow(run, tmp_path):
    run.fit_roles(2)
    table = run.to_arrow()
    bare = fit_run(Graph.from_edges(EDGES), out=tmp_path / "bare", page=False).to_arrow()

    assert table.column_names == ["id", "name", "role", "confidence", "embedding"]
    assert bare.column_names == ["id", "embedding"]
    assert np.array_equal(np.array(bare.column("embedding").to_pylist(), np.float32), run.embeddings()[1])


# ---------------------------------------------------------------------------------- the page


def test_the_page_is_shown_inline_and_kept(run):
    page = run.explore()
    written = page.path.stat().st_mtime_ns

    assert shows(page).names == ["iframe"]
    assert html.unescape(page._repr_html_().split('"')[1]) == page.path.read_text(encoding="utf-8")
    assert run.explore(height=300).path.stat().st_mtime_ns == written
    assert 'height="300"' in run.explore(height=300)._repr_html_()
    assert "A title" in run.explore(title="A title").path.read_text(encoding="utf-8")


def test_a_run_is_one_line_in_a_terminal(run):
    shown = repr(run)
    assert shown.startswith(f"Run({str(run.path)!r}, nodes=13, edges=")
    assert "has_roles=True" in shown
    assert len(shown) < len(str(run.path)) + 120
    assert "\n" not in shown


def test_the_page_takes_labels_of_a_frame(run):
    labels = pa.table({"id": run.graph().ids, "kind": ["x"] * 13})

    assert '"name":"kind"' in run.explore(labels=labels, force=True).path.read_text(encoding="utf-8")


@pytest.mark.skipif(find_chromium() is None, reason="no Chromium on this machine")
def test_the_inline_page_runs_in_a_browser_and_reaches_nothing(run, tmp_path):
    around = tmp_path / "notebook.html"
    cell = run.explore(force=True)._repr_html_()
    around.write_text(f"<!doctype html><html data-ready=yes><meta charset=utf-8>{cell}", encoding="utf-8")
    with Chromium(find_chromium(), flags=["--disable-features=IsolateSandboxedIframes"]) as tab:
        tab.open(around)
        (child,) = tab.call("Page.getFrameTree")["frameTree"]["childFrames"]
        world = tab.call("Page.createIsolatedWorld", frameId=child["frame"]["id"])["executionContextId"]
        ready = (
            "new Promise(yes => setInterval(() => document.documentElement.dataset.ready && yes(document.title), 50))"
        )
        answer = tab.call("Runtime.evaluate", expression=ready, contextId=world, awaitPromise=True)
        assert answer["result"]["value"] == f"Roles of {run.path.name}"
        assert tab.value("document.querySelector('iframe').contentDocument === null")  # it cannot reach the notebook
        assert not tab.errors
        assert all(request.startswith(("file:", "about:", "data:", "blob:")) for request in tab.requests)


# -------------------------------------------------------------------------------------- bars


@pytest.fixture
def kernel(monkeypatch):
    """A process that is the kernel of a notebook, as IPython says it."""
    shell = types.SimpleNamespace(config={"IPKernelApp": {}})
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    return shell


def test_a_notebook_is_told_from_a_terminal(kernel, monkeypatch):
    assert in_notebook()
    kernel.config = {"TerminalIPythonApp": {}}
    assert not in_notebook()
    monkeypatch.delitem(sys.modules, "IPython")
    assert not in_notebook()


def test_who_asks_for_progress_gets_it(kernel, monkeypatch):
    def callback(*_):
        pass

    for asked, kind in ((None, NotebookReporter), (True, NotebookReporter), (False, type(None))):
        with shown(asked) as report:
            assert type(report) is kind
    with shown(callback) as report:
        assert report is callback
    monkeypatch.delitem(sys.modules, "IPython")
    for asked, kind in ((None, type(None)), (True, Reporter), (False, type(None))):
        with shown(asked) as report:
            assert type(report) is kind


def test_a_notebook_has_a_bar_per_stage(monkeypatch):
    from tqdm import tqdm

    stream = io.StringIO()
    monkeypatch.setattr(progress, "_notebook_bar", lambda: lambda **settings: tqdm(file=stream, **settings))
    reporter = NotebookReporter(delay=0)
    for stage in ("train within", "embed"):
        for step in range(1, 4):
            reporter(stage, step, 3, {"loss": 0.5} if stage != "embed" else {})
    reporter.close()

    bars = [line for line in stream.getvalue().replace("\r", "\n").splitlines() if "3/3" in line]
    assert any(line.startswith("train within: 100%") and "loss 0.5" in line for line in bars)
    assert any(line.startswith("embed: 100%") for line in bars)


def test_the_bar_of_a_notebook_is_tqdms():
    assert hasattr(progress._notebook_bar(), "set_postfix_str")


def test_fit_and_transform_show_bars_when_asked(capsys):
    graph = Graph.from_edges(EDGES)
    RAE(steps=2, dims=(4,), fanout=(2,)).fit_transform(graph, progress=True)
    said = capsys.readouterr().err

    assert "train within  2 done" in said
    assert "embed" in said
    RAE(steps=2, dims=(4,), fanout=(2,)).fit_transform(graph)
    assert capsys.readouterr().err == ""
