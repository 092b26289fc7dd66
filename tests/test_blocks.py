"""Named blocks: where they are kept, how weights are read, and what a distance sees."""

from __future__ import annotations

import numpy as np
import pytest

from rae.blocks import Block, blocks_from, parse_weights, side_by_side, weighted
from rae.errors import ConfigError

BLOCKS = side_by_side([Block("own", 0, 2, 1.0), Block("place", 0, 3, 0.0625, 0.25), Block("around", 0, 1, None, 0.0)])
Z = np.arange(12, dtype=np.float32).reshape(2, 6)


def test_blocks_stand_side_by_side_and_survive_json():
    assert [(b.start, b.stop, b.width) for b in BLOCKS] == [(0, 2, 2), (2, 5, 3), (5, 6, 1)]
    assert blocks_from([b.as_dict() for b in BLOCKS], 6) == BLOCKS


@pytest.mark.parametrize(
    "change",
    [
        *({"start": 0.0}, {"stop": 2.0}, {"stop": 0}, {"name": 3}, {"name": "place"}, {"weight": float("nan")}),
        *({"weight": 1e300}, {"weight": True}, {"variance": -1.0}, {"about": None}, {"more": 1}),
    ],
    ids=str,
)
def test_damaged_blocks_are_refused(change):
    records = [b.as_dict() for b in BLOCKS]
    records[0] |= change

    with pytest.raises((ValueError, TypeError)):
        blocks_from(records, 6)


def test_blocks_of_another_width_are_refused():
    with pytest.raises(ValueError, match="blocks of 6 columns for vectors of 7"):
        blocks_from([b.as_dict() for b in BLOCKS], 7)


def test_a_weight_is_that_of_a_block_of_variance_one():
    """The default leaves the vectors as they are; equal weights bring blocks to equal variance."""
    assert np.array_equal(weighted(Z, BLOCKS), Z[:, :5])
    assert np.array_equal(weighted(Z, BLOCKS, "place=1"), Z[:, :5] * [1, 1, 4, 4, 4])
    assert np.array_equal(weighted(Z, BLOCKS, {"own": 0, "around": 2}), np.hstack([Z[:, 2:5], 2 * Z[:, 5:]]))
    assert np.array_equal(weighted(Z, ()), Z)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("plce=1", r"no block 'plce'.*did you mean 'place'"),
        ("x=1", "the blocks are own, place, around"),
        ("own", "must name blocks and numbers"),
        ("own=-1", "from 0 to 1,000,000"),
        ("own=1e300", "from 0 to 1,000,000"),
        ("own=many", "from 0 to 1,000,000"),
        ({"own": float("nan")}, "from 0 to 1,000,000"),
        ("own=0,place=0", "at least one block a weight above 0"),
    ],
)
def test_weights_that_say_nothing_are_refused(weights, message):
    with pytest.raises(ConfigError, match=message):
        parse_weights(weights, BLOCKS)


def test_weights_need_blocks():
    with pytest.raises(ConfigError, match="these vectors have none"):
        weighted(Z, (), "own=1")
