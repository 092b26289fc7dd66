"""Equal vectors as one mark, blocks that can be weighed on the page, and labels by role."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from rae.blocks import Block, side_by_side, weighted
from rae.explore import coordinates
from rae.explore.columns import label_column, number_column, word_column
from rae.explore.coordinates import block_coordinates
from rae.explore.labels import REST, labels_of_roles
from rae.explore.marks import find_marks
from rae.ops.nearest import nearest_rows
from rae.roles.labels import label_table


def repeated(distinct: int = 60, width: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Vectors that occur one to 29 times each, mixed, and the vector that each is."""
    rng = np.random.default_rng(0)
    which = rng.permutation(np.repeat(np.arange(distinct), rng.integers(1, 30, distinct)))
    return rng.standard_normal((distinct, width)).astype(np.float32)[which], which


# ------------------------------------------------------------------------------------ marks


def test_nodes_share_a_mark_exactly_if_their_vectors_are_equal():
    z, which = repeated()
    marks = find_marks(z, 15)

    assert len(marks.first) == 60
    assert len({(a, b) for a, b in zip(marks.of.tolist(), which.tolist(), strict=True)}) == 60
    assert np.array_equal(marks.first, np.sort(marks.first))  # numbered by their first nodes
    assert np.array_equal(marks.of[marks.first], np.arange(60))


def test_distances_of_marks_are_those_of_nodes():
    z, _ = repeated()
    marks = find_marks(z, 15)
    _, distance = nearest_rows(z, z, len(z) - 1, skip=np.arange(len(z)))
    of_first = distance[marks.first]

    for own, row in zip(marks.distance, of_first, strict=True):
        assert np.allclose(own, np.unique(row[row > 0].round(5))[:15], atol=2e-5)


def test_vectors_that_differ_by_rounding_alone_are_equal():
    z, _ = repeated()
    noise = np.random.default_rng(1).integers(-1, 2, z.shape)
    exact, noisy = find_marks(z, 15), find_marks(z * (1 + 1e-7 * noise).astype(np.float32), 15)

    assert np.array_equal(exact.of, noisy.of)
    assert np.allclose(exact.distance, noisy.distance, atol=1e-5)
    assert np.array_equal(exact.neighbors, noisy.neighbors)


@pytest.mark.parametrize(
    ("z", "count"), [(np.zeros((5, 3)), 1), (np.ones((1, 2)), 1), (np.eye(3), 3), (np.array([[0.0], [-0.0]]), 1)]
)
def test_few_vectors_have_their_marks(z, count):
    marks = find_marks(z.astype(np.float32), 4)

    assert len(marks.first) == count
    assert ((marks.neighbors >= 0).sum(1) == min(count - 1, 4)).all()


# ------------------------------------------------------------------------------------ blocks


BLOCKS = side_by_side([Block("own", 0, 12, 2.0, 1.0), Block("place", 0, 5, None, 0.5), Block("same", 0, 2)])


def vectors(n: int = 400) -> np.ndarray:
    """Twelve columns of one scale, five with a far outlier and near others, two that are the same for all."""
    rng = np.random.default_rng(0)
    place = 0.1 * rng.standard_normal((n, 5))
    place[0] += 50
    return np.hstack([rng.standard_normal((n, 12)), place, np.ones((n, 2))]).astype(np.float32)


def computed(c: coordinates.Coordinates, weights: dict[str, float], rows: np.ndarray) -> np.ndarray:
    """Distances of some marks to all, as web/src/alike.js computes them."""
    total, unit, at = 0.0, 0.0, {"wide": 0, "narrow": 0}
    for block in c.blocks:
        w = weights.get(block["name"], block["weight"])
        unit += 2 * w**2 * block["variance"]
        for kind in ("wide", "narrow"):
            x = c.arrays[kind][at[kind] : at[kind] + block[kind]].T.astype(np.float64) * block["step"] * w
            total = total + np.square(x[rows, None] - x[None]).sum(-1)
            at[kind] += block[kind]
    return np.sqrt(total / unit)


@pytest.mark.parametrize("weights", [{}, {"own": 0.0}, {"own": 0.2, "place": 2.0}])
def test_blocks_weighed_on_the_page_give_the_distances_of_a_search(weights):
    z = vectors()
    marks = find_marks(weighted(z, BLOCKS), 15)
    c = block_coordinates(z[marks.first], marks, BLOCKS, None)
    weighed = weighted(z, BLOCKS, weights)
    rows = np.arange(0, 400, 20)
    neighbors, exact = nearest_rows(weighed, weighed[rows], 10, skip=rows)
    distances = np.take_along_axis(computed(c, weights, rows), neighbors, 1)

    assert [b["name"] for b in c.blocks] == ["own", "place"]  # there is nothing to weigh in a block of equals
    assert np.abs(distances - exact).max() < 0.02 * exact.max()
    assert c.agreement > 0.97
    assert c.arrays["wide"].shape[0] >= 1  # the outlier needs more than a byte


def test_a_small_page_has_coarser_coordinates_and_says_what_that_costs(monkeypatch):
    z = vectors()
    marks = find_marks(weighted(z, BLOCKS), 15)
    fine = block_coordinates(z, marks, BLOCKS, None)
    monkeypatch.setattr(coordinates, "MOST_BYTES", 3_000)
    coarse = block_coordinates(z, marks, BLOCKS, None)

    assert coarse.blocks[0]["step"] > fine.blocks[0]["step"]
    assert coarse.agreement < fine.agreement
    assert (
        coordinates._deflated_bytes([coordinates._rotate(z, np.ones(400, int), BLOCKS[0], np.arange(9))], 1.0)
        < 400 * 12
    )


def test_weights_of_the_roles_are_where_the_sliders_begin():
    z = vectors()
    marks = find_marks(weighted(z, BLOCKS, "own=0.3"), 15)
    c = block_coordinates(z, marks, BLOCKS, {"own": 0.3, "place": 0.5, "same": 1.0})

    assert [b["weight"] for b in c.blocks] == [0.3, 0.5]


@pytest.mark.parametrize("blocks", [(), BLOCKS[:1], (BLOCKS[0], BLOCKS[2])])
def test_one_block_leaves_nothing_to_weigh(blocks):
    z = vectors(50)
    c = block_coordinates(z, find_marks(z, 5), blocks, None)

    assert c.blocks == []
    assert all(array.shape == (0, 50) for array in c.arrays.values())


# ------------------------------------------------------------------------------------ labels


def test_cards_have_the_labels_of_their_role_with_count_share_and_lift():
    rng = np.random.default_rng(0)
    role, words = rng.integers(3, size=300), rng.choice(["a", "b", "c", None], 300, p=[0.5, 0.3, 0.1, 0.1])
    table = label_table(role, pa.array(words.tolist()), 3)
    cards = labels_of_roles([word_column("kind", "label", words.tolist())], role, 3)

    for r, (entry,) in enumerate(cards):
        assert entry["column"] == "kind"
        assert entry["unlabelled"] == table.unlabelled[r]
        for label, count, share, lift in entry["rows"]:
            at = r, table.labels.index(label)
            assert (count, share, lift) == (table.counts[at], round(table.share[at], 4), round(table.lift[at], 3))
        excess = [count - count / lift for _, count, _, lift in entry["rows"]]
        assert excess == sorted(excess, reverse=True)


def test_many_labels_are_cut_and_counted_and_rare_ones_share_a_name():
    words = [f"w{i:03d}" for i in range(300)]
    (entry,) = labels_of_roles([word_column("kind", "label", words)], np.zeros(300, int), 1)[0]

    assert len(entry["rows"]) == 12
    assert entry["more"] == 255 - 12
    assert entry["rows"][0][:2] == [REST, 46]


def test_amounts_have_their_median_and_a_column_without_values_is_left_out():
    role = np.array([0, 0, 0, 1, 1])
    spent = number_column("spent", "label", np.array([1.5, 2.5, 9.0, 4.0, np.nan]))
    nothing = label_column("nothing", pa.array([None] * 5, pa.string()))
    cards = labels_of_roles([spent, nothing], role, 3)

    assert cards[0] == [{"column": "spent", "median": 2.5, "overall": 3.25, "unlabelled": 0}]
    assert cards[1] == [{"column": "spent", "median": 4.0, "overall": 3.25, "unlabelled": 1}]
    assert cards[2][0]["median"] is None
