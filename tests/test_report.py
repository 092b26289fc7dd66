"""Look-alikes: who points the same way."""

from __future__ import annotations

import numpy as np
import pytest

from rae.report.lookalikes import look_alikes, spread


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
