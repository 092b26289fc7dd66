"""What a text table says about itself: delimiter, header, comments, and which line is wrong."""

from __future__ import annotations

import logging
from pathlib import Path

import pyarrow as pa
import pytest

from rae.cli.fit import fit
from rae.cli.flags import in_flags
from rae.errors import FileError
from rae.io import read_edges, read_features, text
from rae.io.header import has_header
from rae.io.tables import open_table
from rae.io.text import TextTable


def table(tmp_path: Path, content: str | bytes, header: bool | None = None) -> TextTable:
    path = tmp_path / "table.txt"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    opened = open_table(path, header)
    assert isinstance(opened, TextTable)
    return opened


def cells(opened: TextTable) -> list[list[str]]:
    columns = opened.read({i: pa.string() for i in range(len(opened.names))})
    return [list(row) for row in zip(*(c.to_pylist() for c in columns), strict=True)]


@pytest.mark.parametrize(
    "content",
    [
        "1,2\n3,4\n",
        "1,2\n3,4",
        "1, 2\n3, 4\n",
        "1;2\n3;4\n",
        "1|2\n3|4\n",
        "1\t2\n3\t4\n",
        "1 2\n3 4\n",
        "  1    2  \n 3  4\n",
        " 1  2\r\n\r\n 3\t4 \r\n",
        "1,2\r\n3,4\r\n",
        "1,2\r3,4\r",
        "\n\n1,2\n\n3,4\n\n",
        b"\xef\xbb\xbf1,2\n3,4\n",
        b"\xef\xbb\xbf# a comment\n1 2\n3 4\n",
        '"1","2"\n"3","4"\n',
        '"1" "2"\n3 4\n',
        "# one\n# two, with commas\n\n1\t2\n3\t4\n",
        "% konect\n% 2 3\n1 2\n3 4\n",
        "%%MatrixMarket matrix coordinate pattern symmetric\n% by hand\n4 4 2\n1 2\n3 4\n",
        "1 2 {}\n3 4 {'weight': 1, 'color': 'red, blue'}\n",
    ],
)
def test_every_usual_layout_gives_the_same_cells(tmp_path: Path, content: str | bytes) -> None:
    assert cells(table(tmp_path, content)) == [["1", "2"], ["3", "4"]]


def test_quoted_cells_keep_delimiters_blanks_and_line_breaks(tmp_path: Path) -> None:
    content = 'source,target\n"a, b","c ""d"""\n"line\nbreak", e\n'
    assert cells(table(tmp_path, content)) == [["a, b", 'c "d"'], ["line\nbreak", " e"]]
    assert cells(table(tmp_path, '"New  York"   Rome\nParis "San Jose"\n')) == [
        ["New  York", "Rome"],
        ["Paris", "San Jose"],
    ]
    assert cells(table(tmp_path, 'ann, "bob, jr"\ncid, dan\n')) == [["ann", "bob, jr"], ["cid", "dan"]]


def test_decimal_commas_do_not_hide_the_semicolons(tmp_path: Path) -> None:
    assert cells(table(tmp_path, "a;1,5;2,5\nb;3,5;4,5\n")) == [["a", "1,5", "2,5"], ["b", "3,5", "4,5"]]


FRIENDS = [[f"{a}x", f"{b}x"] for a in "abcde" for b in "abcde"]
SINGLE = [[f"{a}{b}", f"{b}{a}z"] for a in "abcde" for b in "vwxyz"]


@pytest.mark.parametrize(
    ("rows", "expected", "doubtful"),
    [
        ([["soure", "target"], ["0", "11342"]], True, False),
        ([["a", "b", "w"], ["ann", "bob", "3"]], True, False),
        ([["1", "2"], ["3", "4"]], False, False),
        ([["1", "2"]], False, False),
        ([["x", "y"], ["1", "nan"], ["2", ""]], True, False),
        # usual names
        ([["Source", "TARGET"], ["bob", "cid"]], True, False),
        ([["From_ID", "to id"], ["bob", "cid"]], True, False),
        ([["caller", "called"], ["ann", "bob"], ["bob", "cid"]], True, False),
        ([["user", "friend"], ["ann", "bob"]], True, False),
        ([["customer_id", "product_id"], ["ann", "milk"]], True, False),
        ([["author", "coauthor"], ["ann", "bob"]], True, False),
        ([["start", "stop"], ["ann", "bob"]], True, False),
        ([["caller", "called"]], True, False),
        ([["id", "word"], ["bob", "nice"]], True, False),
        ([["id", "word"], ["bob", "id"], ["cid", "word"]], True, False),
        ([["id", "0", "1"], ["bob", "0.5", "-1e3"]], True, True),
        ([["paper", "0", "1"], ["7", "0.5", "3"]], True, True),
        ([["", "source", "target"], ["0", "ann", "bob"]], True, False),
        # usual names that are nodes
        ([["u", "v"], ["v", "w"], ["w", "u"]], False, True),
        ([["u", "v"], ["v", "w"]], False, True),
        ([["u", "v", "3"], ["x", "w", "4"]], False, False),
        ([["user", "friend"], ["friend", "foe"], ["foe", "user"]], False, True),
        ([["source", "target"], ["source", "oil"]], True, True),
        ([["id", "ego"], ["ego", "id"], ["id", "superego"]], False, True),
        # cells that stand again below
        ([["ann", "bob"], ["bob", "cid"]], False, False),
        ([["ann", "bob"], ["cid", "ann"]], False, False),
        ([["ax", "bx"], *FRIENDS], False, False),
        # words of another make
        ([["worker", "boss"], *FRIENDS], True, True),
        ([["worker", "boss"], ["u1", "u2"], ["u3", "u4"]], True, True),
        ([["worker 1", "boss 1"], ["u1", "u2"], ["u3", "u4"]], False, True),
        ([["worker", "worker"], *FRIENDS], False, True),
        # nothing tells
        ([["worker", "boss"], *SINGLE], False, True),
        ([["worker", "boss"], *FRIENDS[:19]], False, True),
        ([["ann", "bob"]], False, True),
        ([["ann", "bob"], ["cid", "dan"]], False, True),
        ([["x", "12"], ["13", "14"]], False, True),
        ([["x", "y"], ["", "NA"]], False, True),
        ([["ann", "bob"], ["7", "x"], ["x", "8"]], False, True),
    ],
)
def test_a_header_is_text_over_numbers_or_names_that_no_node_has(
    rows: list[list[str]], expected: bool, doubtful: bool
) -> None:
    verdict = has_header(rows)

    assert verdict.header is expected
    assert verdict.doubtful is doubtful
    assert verdict.note or not doubtful


@pytest.mark.parametrize(
    ("content", "level", "sentence"),
    [
        ("ann,bob\ncid,dan\n", logging.WARNING, "the first row (ann, bob) was taken as data; pass header=True if"),
        ("u,v\nv,w\nw,u\n", logging.WARNING, "the first row (u, v) was taken as data; pass header=True if"),
        ("boss,hand\nu1,u2\n", logging.WARNING, "the first row (boss, hand) was taken as a header; pass header=False"),
        ("ann,bob\nbob,cid\n", logging.INFO, "the first row (ann, bob) was taken as data; pass header=True if"),
        ("from,to\nbob,cid\n", logging.INFO, "the first row (from, to) was taken as a header; pass header=False"),
    ],
)
def test_a_detected_header_is_logged_and_in_doubt_as_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: str, level: int, sentence: str
) -> None:
    with caplog.at_level(logging.INFO, "rae"):
        opened = table(tmp_path, content)

    (record,) = caplog.records
    assert record.levelno == level
    assert sentence in record.getMessage()
    assert (opened.doubts if level == logging.WARNING else opened.notes)[0].startswith(sentence)


def test_a_warning_about_features_names_the_reader(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "f.csv"
    path.write_text("who,what\nann,milk\nbob,rice\n")
    with caplog.at_level(logging.WARNING, "rae"):
        read_features(path, id="1", feature="2")

    assert "pass read_features(header=True) if it is a header" in caplog.text
    assert in_flags(caplog.records[0].msg, fit).endswith("pass --features-header if it is a header")


def test_skipped_comments_are_counted(tmp_path: Path) -> None:
    assert table(tmp_path, "# a\n# b\n1 2\n").notes == ("2 comment lines at the top were skipped",)


def test_the_header_can_be_forced_either_way(tmp_path: Path) -> None:
    assert table(tmp_path, "7,8\n1,2\n", header=True).names == ("7", "8")
    assert cells(table(tmp_path, "a,b\n1,2\n", header=False)) == [["a", "b"], ["1", "2"]]
    assert table(tmp_path, "a,b\n1,2\n", header=False).names == ("1", "2")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("a,b\n1,2\n\n3,4,5\n6,7\n", "line 4 has 3 cells, expected 2; mend that line"),
        ("# c\n1 2\n3 4\n5\n", "line 4 has 1 cell, expected 2"),
        ("a,b\n1,2,3\n", "line 2 has 3 cells, expected 2"),
        ("a title\n1,2,3\n4,5,6\n", "line 1 has 1 cell, the lines after it have 3; mend or drop it"),
        (b"s,t\na,b\nc,caf\xe9\n", "line 3 is not UTF-8 text; save the file as UTF-8"),
        ("# only\n% comments\n\n", "holds no rows, only comments or blank lines"),
        ("\n \n", "holds no rows"),
        (b"\xff\xfe1\0,\0002\0", "is UTF-16 text; save it as UTF-8"),
        (b"abc\0\1\2\n,,", "is neither Parquet, Arrow nor text"),
        ("1,2\n3," + "x" * 200_000 + "\n", "a cell of more than 131,072 characters"),
    ],
)
def test_an_error_names_the_bad_line(tmp_path: Path, content: str | bytes, sentence: str) -> None:
    with pytest.raises(FileError, match=sentence) as caught:
        cells(table(tmp_path, content))
    assert "\n" not in str(caught.value)


def test_wide_lines_are_sampled_until_two_are_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "SAMPLE", 1 << 10)
    width = text.SAMPLE
    content = "id," + ",".join(f"c{i}" for i in range(width)) + "\n" + ("7" + ",1" * width + "\n") * 3
    opened = table(tmp_path, content)

    assert opened.header
    assert len(opened.names) == width + 1
    assert opened.read({0: pa.string()})[0].to_pylist() == ["7"] * 3


def test_only_the_first_lines_decide_and_the_rest_is_still_read(tmp_path: Path) -> None:
    lines = ["# c", *(f"{i}  {i + 1} " for i in range(40_000))]
    rows = cells(table(tmp_path, "\n".join(lines)))

    assert len(rows) == 40_000
    assert rows[-1] == ["39999", "40000"]


def test_lines_longer_than_a_block_are_cleaned_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "BLOCK", 16)
    content = "\n".join(f"{'a' * (i % 40 + 1)}   b{i}" for i in range(200)) + "\n"

    assert cells(table(tmp_path, content)) == [["a" * (i % 40 + 1), f"b{i}"] for i in range(200)]
    with pytest.raises(FileError, match="line 201 has 1 cell, expected 2"):
        cells(table(tmp_path, content + "x\n"))


def test_a_line_too_long_for_the_reader_is_still_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "BLOCK", 64)
    monkeypatch.setattr(text, "SAMPLE", 64)
    content = "a,b\n" * 30 + "a," + "b" * 5_000 + "\n"
    with pytest.raises(FileError, match="is cut short or damaged"):
        cells(table(tmp_path, content))


def test_a_repeated_or_wrong_column_name_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text("x,x,weight\n1,2,3\n")
    with pytest.raises(ValueError, match=r"2 columns are called 'x'; rename them"):
        read_edges(path, source="x")
    with pytest.raises(ValueError, match=r"there is no column 'wieght'; did you mean 'weight'\?"):
        read_edges(path, source="wieght")
    with pytest.raises(ValueError, match=r"there is no column 'q'; the columns are 'x', 'x', 'weight'"):
        read_edges(path, target="q")


@pytest.mark.parametrize(
    ("content", "plain"),
    [
        (b"1 2\n30 4\n", True),
        (b"1  2\n30 4\n", True),  # runs of blanks are squeezed before they are counted
        (b"1 2\n30 4", False),  # a last line without an end may hide a 07 elsewhere
        (b"1 2\n07 4\n", False),
        (b"1 2\n+7 4\n", False),
        (b"1 2\n-7 4\n", False),
        (b"1 2\n0x1F 4\n", False),
        (b"1 2\r\n30 4\r\n", True),
        (b"1 2\r\n3 4\r007 8\n", False),
        (b"1 2\n\n3 4\n", False),
        (b'1 2\n"3" 4\n', False),
        (b"1 2\n3 word\n", False),
        (b"1 2\n3 9223372036854775808\n", False),
        (b"1 2 3\n4 5 6\n", False),
    ],
)
def test_the_fast_reader_takes_only_numbers_in_their_shortest_form(tmp_path, content, plain):
    path = tmp_path / "e.txt"
    path.write_bytes(content)
    table = open_table(path, False)
    if plain:
        assert [c.to_pylist() for c in next(table.whole_numbers([0, 1]))] == [[1, 30], [2, 4]]
        return
    with pytest.raises(text.NotPlain):
        list(table.whole_numbers([0, 1]))
