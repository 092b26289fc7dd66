"""The picture and the page: the same bytes every time, nothing fetched, no id can break out."""

from __future__ import annotations

import builtins
import html.parser

import numpy as np
import pytest

from rae import RAE, Graph
from rae.errors import MissingExtraError
from rae.report import picture
from rae.report.lookalikes import look_alikes, spread
from rae.report.page import curve, write_page
from rae.report.picture import coordinates, draw, write_picture
from rae.run import PAGE, PICTURE, Run

EVIL = "<img src=x onerror=alert(1)>\"'&</td></script>"


class Tags(html.parser.HTMLParser):
    """Every tag and attribute of a page, as a browser would see them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    names = [EVIL, *"abcdefghij", "$x_1$", "שלום"]
    graph = Graph.from_edges([(names[i], names[i // 2]) for i in range(1, len(names))])
    model = RAE(dims=(6, 3), fanout=(3, 3), steps=4, record_every=1, loss="both").fit(graph)
    folder = tmp_path_factory.mktemp("evil")
    return Run.create(folder, model, graph.id_column, model.transform(graph), counts={"nodes": graph.n_nodes})


def two_blobs(n: int = 40) -> np.ndarray:
    rng = np.random.default_rng(0)
    blob = np.arange(n) % 2
    return (rng.normal(size=(n, 8)) * 0.05 + blob[:, None]).astype(np.float32)


# ------------------------------------------------------------------------------ look-alikes


def test_the_nearest_are_those_that_point_the_same_way():
    z = np.array([[1, 0], [2, 0.1], [0, 1], [-1, 0]], np.float32)
    (a,) = look_alikes(["a", "b", "c", "d"], z, ["a"], k=2)

    assert a.name == "a"
    assert [name for name, _ in a.nearest] == ["b", "c"]
    assert a.nearest[0][1] == pytest.approx(0.99875, abs=1e-4)


def test_a_node_is_never_its_own_look_alike_even_among_equals():
    found = look_alikes(list(range(5)), np.ones((5, 2), np.float32), k=9)

    assert len(found) == 5
    assert all(len(a.nearest) == 4 and a.name not in dict(a.nearest) for a in found)


def test_a_zero_vector_and_an_unknown_name_do_no_harm():
    z = np.array([[0, 0], [1, 0]], np.float32)

    assert look_alikes(["a", "b"], z, ["a", "nobody"]) == look_alikes(["a", "b"], z, ["a"])
    assert look_alikes(["only"], z[:1])[0].nearest == ()


def test_rows_are_spread_over_the_whole_range():
    assert spread(3) == [0, 1, 2]
    assert spread(1) == [0]
    assert spread(1000, 3) == [0, 499, 999]


# -------------------------------------------------------------------------------------- map


def test_alike_vectors_come_close_on_the_map():
    xy = coordinates(two_blobs())
    even, odd = xy[::2], xy[1::2]
    within = np.linalg.norm(even - even.mean(0), axis=1).mean() + np.linalg.norm(odd - odd.mean(0), axis=1).mean()

    assert xy.shape == (40, 2)
    assert np.linalg.norm(even.mean(0) - odd.mean(0)) > within


@pytest.mark.parametrize("shape", [(1, 3), (2, 1), (5, 4), (12, 1), (12, 2)])
def test_any_number_of_nodes_and_columns_has_a_map(shape):
    z = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    xy = coordinates(z)

    assert xy.shape == (shape[0], 2)
    assert np.isfinite(xy).all()


def test_equal_vectors_lie_on_one_point():
    assert np.ptp(coordinates(np.ones((30, 4), np.float32)), axis=0).tolist() == [0, 0]


def test_many_nodes_are_projected_without_the_slow_method(monkeypatch):
    monkeypatch.setattr(picture, "TSNE_MOST", 20)
    z = two_blobs()
    unit = z / np.linalg.norm(z, axis=1, keepdims=True)
    expected = np.abs(np.linalg.svd(unit - unit.mean(0), full_matrices=False)[0][:, 0])
    xy = np.abs(coordinates(z)[:, 0])

    np.testing.assert_allclose(xy / xy.max(), expected / expected.max(), atol=1e-3)


def test_the_same_vectors_give_the_same_bytes():
    ids = [f"node {i}" for i in range(40)]
    rules = {"names": ["node 3", "nobody"], "groups": {"even": ids[::2], "gone": ["nobody"]}, "title": "Two $ blobs"}
    first, second = (draw(ids, two_blobs(), **rules) for _ in range(2))

    assert first == second
    assert first["png"].startswith(b"\x89PNG")
    assert b"<svg" in first["svg"]


def test_the_picture_is_1200_pixels_wide():
    data = draw(list(range(12)), two_blobs(12))["png"]

    assert int.from_bytes(data[16:20], "big") == 1200


def test_names_in_one_spot_and_long_names_are_drawn_all_the_same():
    z = np.ones((15, 3), np.float32)

    assert draw(["x" * 90 + str(i) for i in range(15)], z)["png"].startswith(b"\x89PNG")


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def absent(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(MissingExtraError, match=r"pip install 'rae\[plot\]'"):
        draw(["a"], np.ones((1, 2), np.float32))


# ------------------------------------------------------------------------------------- page


def test_a_hostile_id_stays_text(run):
    write_picture(run)
    page = write_page(run, title=EVIL).read_text()
    tags = Tags(page)

    assert [t for t, _ in tags.seen].count("img") == 1  # the map
    assert not [a for _, attributes in tags.seen for a in attributes if a.startswith("on")]
    assert not [t for t, _ in tags.seen if t in ("script", "iframe", "link", "object")]
    assert any(EVIL in text for text in tags.text)


def test_the_page_fetches_nothing_and_says_so_in_its_policy(run):
    write_picture(run)
    page = write_page(run).read_text()
    tags = Tags(page)
    policy = next(a["content"] for t, a in tags.seen if t == "meta" and a.get("http-equiv"))

    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert all(a["src"].startswith("data:image/png;base64,") for t, a in tags.seen if "src" in a)
    assert not [a for _, a in tags.seen if "href" in a or "style" in a]
    assert "http://" not in page
    assert "https://" not in page


def test_the_page_shows_counts_curves_and_look_alikes(run):
    page = write_page(run, names=["a", "nobody"]).read_text()
    tags = Tags(page)
    text = " ".join(tags.text)

    assert f"Run {run.path.name}" in text
    assert [t for t, _ in tags.seen].count("polyline") == 2  # loss both: two fits
    assert [a for t, a in tags.seen if t == "th" and a.get("scope") == "row"] == [{"scope": "row"}]
    assert "prefers-color-scheme:dark" in page
    assert 'name="viewport"' in page


def test_without_a_picture_the_page_says_what_is_missing(run):
    (run.path / PICTURE).unlink(missing_ok=True)
    page = write_page(run).read_text()

    assert "pip install 'rae[plot]'" in page
    assert "<img" not in page


def test_without_training_the_page_says_so():
    assert "No training" in curve([])


def test_a_flat_curve_is_drawn_inside_its_frame():
    flat = [{"loss": "within", "step": s, "value": 2.0} for s in (10, 20)]

    assert 'points="375.0,200.0 690.0,200.0"' in curve(flat)


def test_the_page_is_written_into_the_folder(run):
    assert write_page(run) == run.path / PAGE
