"""The fast reader of whole numbers agrees with Python's own, and refuses what is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rae.datasets.integers import parse_integers
from rae.errors import DatasetError


@given(st.lists(st.lists(st.integers(-(10**18) + 1, 10**18 - 1), max_size=5), max_size=8))
def test_numbers_and_their_lines_come_back(lines):
    text = "\n".join(" ".join(map(str, line)) for line in lines).encode()

    values, line_of_value = parse_integers(text, "a text")

    assert values.tolist() == [v for line in lines for v in line]
    assert line_of_value.tolist() == [i for i, line in enumerate(lines) for _ in line]


def test_commas_tabs_and_carriage_returns_separate():
    assert parse_integers(b"1,2\r\n3,\t-4\r\n", "a text")[0].tolist() == [1, 2, 3, -4]


@pytest.mark.parametrize("bad", [b"1 x", b"1.5", b"1-2", b"--1", b"3 -", b"1234567890123456789", b"\xff", b"1e3"])
def test_anything_else_is_refused_with_its_line(bad):
    with pytest.raises(DatasetError, match=r"some\.txt must hold whole numbers only.*in line 3"):
        parse_integers(b"1 2\n7\n" + bad + b"\n5", "some.txt")
