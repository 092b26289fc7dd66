"""Edge files: any format, exact ids, and one sentence for what is wrong with them."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import logging
import os
import pickle
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from rae import Graph
from rae.errors import FileError, GraphError, RaeError
from rae.io import read_edges, text

DATA = Path(os.environ.get("RAE_DATA", "/nowhere"))
PAIRS = pa.table({"source": [5, 5, 9], "target": [9, 7, 5], "weight": [0.1, 0.2, 0.3]})


def file(tmp_path: Path, content: str | bytes, name: str = "edges.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def edges(graph: Graph) -> set[tuple[Any, Any]]:
    return {(graph.ids[u], graph.ids[v]) for u in range(graph.n_nodes) for v in graph.neighbors(u) if u < v}


# ------------------------------------------------------------------------------------- formats


def test_every_format_gives_the_same_graph(tmp_path: Path) -> None:
    text = b"source,target,weight\n5,9,0.1\n5,7,0.2\n9,5,0.3\n"
    pq.write_table(PAIRS, tmp_path / "parquet.txt")
    pyarrow.feather.write_feather(PAIRS, tmp_path / "feather")
    pyarrow.feather.write_feather(PAIRS, tmp_path / "feather-plain", compression="uncompressed")
    for name, content in {
        "plain": text,
        "packed.csv": gzip.compress(text),  # known by its content, whatever it is called
        "twice.gz": gzip.compress(text[:30]) + gzip.compress(text[30:]),
        "packed.zst": pa.compress(text, codec="zstd", asbytes=True),
        "packed.bz2": bz2.compress(text),
        "parquet.gz": gzip.compress((tmp_path / "parquet.txt").read_bytes()),
        "feather.gz": gzip.compress((tmp_path / "feather").read_bytes()),
    }.items():
        file(tmp_path, content, name)
    for path in tmp_path.iterdir():
        graph = read_edges(path)
        assert edges(graph) == {(5, 9), (5, 7)}, path
        assert (graph.counts.rows, graph.counts.doubled) == (3, 1)
        assert graph.id_column.type == pa.int64()


def test_a_text_file_may_begin_with_the_word_par1(tmp_path: Path) -> None:
    assert edges(read_edges(file(tmp_path, "PAR1 ARROW1\nBZh91 x\n"))) == {("ARROW1", "PAR1"), ("BZh91", "x")}


def test_a_folder_of_parquet_parts_is_one_table(tmp_path: Path) -> None:
    parts = tmp_path / "parts"
    parts.mkdir()
    pq.write_table(PAIRS.slice(0, 1), parts / "0.parquet")
    other = pa.schema({"source": "int32", "target": "int64", "weight": "float32"})
    pq.write_table(PAIRS.slice(1).cast(other), parts / "1.parquet")
    (parts / "_SUCCESS").write_text("")

    assert edges(read_edges(parts)) == {(5, 9), (5, 7)}
    pq.write_table(PAIRS.rename_columns(["a", "b", "c"]), parts / "2.parquet")
    with pytest.raises(FileError, match=r"2\.parquet has other columns than 0\.parquet"):
        read_edges(parts)
    (parts / "2.parquet").write_text("1,2")
    with pytest.raises(FileError, match=r"2\.parquet is not Parquet"):
        read_edges(parts)


# ------------------------------------------------------------------------------------- columns


def test_columns_are_found_by_name_wherever_they_stand(tmp_path: Path) -> None:
    path = file(tmp_path, "weight,To,year,FROM\n0.5,1,1999,2\n0.5,3,1999,2\n")

    assert edges(read_edges(path)) == {(1, 2), (2, 3)}
    assert edges(read_edges(path, source="year", target="FROM")) == {(2, 1999)}
    assert edges(read_edges(path, source="year")) == {(1, 1999), (3, 1999)}
    assert edges(read_edges(path, target="year")) == {(2, 1999)}


def test_unknown_names_mean_the_first_two_columns(tmp_path: Path) -> None:
    assert edges(read_edges(file(tmp_path, "a,b,c\n1,2,3\n"))) == {(1, 2)}
    assert edges(read_edges(file(tmp_path, "a,b,source\n1,2,3\n"))) == {(1, 2)}
    assert edges(read_edges(file(tmp_path, "a,b,c\n1,2,3\n"), source="b")) == {(1, 2)}
    assert edges(read_edges(file(tmp_path, "a,b,c\n1,2,3\n"), target="a")) == {(1, 2)}


def test_columns_without_a_header_are_named_by_number(tmp_path: Path) -> None:
    assert edges(read_edges(file(tmp_path, "1,2,3\n1,5,6\n"), source="3", target="2")) == {(2, 3), (5, 6)}


def test_a_pandas_index_is_not_taken_for_the_source(tmp_path: Path) -> None:
    assert edges(read_edges(file(tmp_path, ",source,target\n0,ann,bob\n1,bob,cid\n"))) == {
        ("ann", "bob"),
        ("bob", "cid"),
    }


def test_columns_that_are_not_read_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "rae"):
        read_edges(file(tmp_path, "source,target,w,t\n1,2,3,4\n"))

    assert "edges from columns 'source' and 'target'; ignored: 'w', 't'; 1 rows read" in caplog.text
    assert caplog.records[-1].levelno == logging.INFO


@pytest.mark.parametrize(
    "header",
    ["time,caller,called", "w,from,to", "when,user_id,friend_id", "start,src,dst,end", "x,Customer ID,y,product-id"],
)
def test_usual_names_are_found_wherever_they_stand(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, header: str
) -> None:
    ends = ("caller", "called", "from", "to", "user_id", "friend_id", "src", "dst", "Customer ID", "product-id")
    names = header.split(",")
    row = ",".join("ab"[ends.index(name) % 2] if name in ends else "7" for name in names)

    with caplog.at_level(logging.WARNING, "rae"):
        assert edges(read_edges(file(tmp_path, f"{header}\n{row}\n"))) == {("a", "b")}
    assert not caplog.records


def test_taking_the_first_two_of_many_columns_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "rae"):
        assert edges(read_edges(file(tmp_path, "time,a,b,c,d,e,f\n1,2,3,4,5,6,7\n"))) == {(1, 2)}
    assert (
        "edges from columns 'time' and 'a'; ignored: 'b', 'c', 'd', 'e', ...; pass source= and target=" in caplog.text
    )
    caplog.clear()
    with caplog.at_level(logging.WARNING, "rae"):
        read_edges(file(tmp_path, "a,b\n1,2\n"))
        read_edges(file(tmp_path, "time,a,b\n1,2,3\n"), source="a")
    assert not caplog.records


def test_the_first_edge_between_usual_names_is_not_lost(tmp_path: Path) -> None:
    assert edges(read_edges(file(tmp_path, "u,v\nv,w\nw,u\n"))) == {("u", "v"), ("v", "w"), ("u", "w")}


def test_the_same_column_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="source and target must be two columns, got 'a' for both"):
        read_edges(file(tmp_path, "a,b\n1,2\n"), source="a", target="a")
    with pytest.raises(GraphError, match="source and target must be two columns, got 'to' for both"):
        read_edges(file(tmp_path, "from,to\n1,2\n"), source="to")


# ----------------------------------------------------------------------------------- exact ids


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["1", "2147483648", "-9223372036854775808", "9223372036854775807"], pa.int64()),
        (["9007199254740993", "9007199254740992"], pa.int64()),  # one double, two ids
        (["1", "9223372036854775808", "18446744073709551615"], pa.uint64()),
        (["-1", "18446744073709551615"], pa.string()),
        (["1", "18446744073709551616"], pa.string()),
        (["007", "7"], pa.string()),
        (["+7", "7"], pa.string()),
        (["-0", "0"], pa.string()),
        (["7.0", "7"], pa.string()),
        (["1e3", "1000"], pa.string()),
        (["NA", "null", "nan", "None"], pa.string()),
        (["٣", "3"], pa.string()),
        (["ann", "7"], pa.string()),
    ],
)
def test_ids_come_back_as_they_went_in(tmp_path: Path, cells: list[str], kind: pa.DataType) -> None:
    path = file(tmp_path, "source,target\n" + "".join(f"{a},{b}\n" for a, b in pairwise(cells)))
    graph = read_edges(path)

    assert graph.id_column.type == kind
    assert sorted(map(str, graph.ids)) == sorted(cells)


@pytest.mark.parametrize("content", [" 1 \t 2\n3\t1\n", "1 ,2\n3 ,1\n", " 1, 2\n 3, 1\n", '"1"; "2"\n"3"; "1"\n'])
def test_blanks_around_numbers_are_padding(tmp_path: Path, content: str) -> None:
    assert edges(read_edges(file(tmp_path, content))) == {(1, 2), (1, 3)}


def test_blanks_in_text_ids_are_kept(tmp_path: Path) -> None:
    assert edges(read_edges(file(tmp_path, "source,target\n a, b\n1, 2\n"))) == {(" a", " b"), (" 2", "1")}


def test_one_column_of_text_makes_both_text(tmp_path: Path) -> None:
    assert edges(read_edges(file(tmp_path, "source,target\n1,a\n2,1\n"))) == {("1", "a"), ("1", "2")}


def test_an_odd_id_late_in_the_file_makes_all_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "BLOCK", 1 << 12)
    path = file(tmp_path, "source,target\n" + "1,2\n" * 99_999 + "03,1\n")

    assert sorted(read_edges(path).ids) == ["03", "1", "2"]


def test_parquet_ids_keep_their_type(tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    for column in (
        pa.array(["1", "007"]),
        pa.array([2**64 - 1, 3], pa.uint64()),
        pa.array([1, 2], pa.int32()),
        pa.array([b"a", b"\xff"]),
    ):
        pq.write_table(pa.table({"a": column, "b": column[::-1]}), path)
        graph = read_edges(path)
        assert graph.id_column.type == column.type
        assert set(graph.ids) == set(column.to_pylist())


def test_parquet_ends_of_two_kinds_are_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1], "b": ["x"]}), tmp_path / "e.parquet")
    with pytest.raises(
        GraphError, match=r"e\.parquet: source and target ids must be of one kind, got int64 and string"
    ):
        read_edges(tmp_path / "e.parquet")


def test_given_ids_are_the_nodes_in_that_order(tmp_path: Path) -> None:
    path = file(tmp_path, "1,2\n2,3\n")

    assert list(read_edges(path, ids=[9, 3, 2, 1]).ids) == [9, 3, 2, 1]
    assert list(read_edges(path, ids=["3", "2", "1", "x"]).ids) == ["3", "2", "1", "x"]
    with pytest.raises(GraphError, match=r"edges\.csv: .* not among ids=, first 1"):
        read_edges(path, ids=[2, 3])
    assert read_edges(file(tmp_path, "source,target\n"), ids=[1, 2]).n_edges == 0


def test_whole_numbers_are_text_with_as_text(tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    pq.write_table(PAIRS, path)
    for source in (path, file(tmp_path, "5,9\n5,7\n")):
        assert edges(read_edges(source, as_text=True)) == {("5", "9"), ("5", "7")}
    assert list(read_edges(path, ids=["9", "5", "7"]).ids) == ["9", "5", "7"]


# ------------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty; expected a table"),
        (gzip.compress(b"", mtime=0), "is empty; expected a table"),
        ("# only a comment\n", "holds no rows, only comments"),
        ("1\n2\n3\n", "has one column, expected two"),
        ("word\n", "has one column, expected two"),
        (
            "source,target\n",
            r"holds no edges, only column names \(pass header=False if they are an edge\); expected one",
        ),
        ("1,2\n3,\n", "line 2 has an empty target id; fill it or drop that line"),
        ("a,b\n1,2\n\n,4\n", "line 4 has an empty source id"),
        ("1,2\n1,2,3\n3,4\n", "line 2 has 3 cells, expected 2"),
        (gzip.compress(b"1,2\n" * 9_999, mtime=0)[:-9], r"is cut short or damaged \(Truncated compressed stream\)"),
        (
            gzip.compress(random.Random(0).randbytes(4_000_000), mtime=0)[:2_000_000],
            "is neither Parquet, Arrow nor text",
        ),
        (gzip.compress(b"1,2\n", mtime=0)[:12], "is cut short or damaged"),
        (b"PAR1\x15\x04\x15\x08", "is cut short or damaged"),
        (b"PAR1", "is cut short or damaged"),
        (b"ARROW1\0\0xxxxxxxx", "is cut short or damaged"),
        (bytes(range(256)) * 9, "is neither Parquet, Arrow nor text"),
        (b"\xe9\xe8,\xff\n\xfd,\xfc\n", "line 1 is not UTF-8 text"),
        (b"PK\x03\x04" + bytes(50), "is a zip archive or a workbook; unpack it first, or save a sheet as CSV"),
        (b"\x93NUMPY\x01\0", "is a NumPy array; save it as Parquet or CSV"),
    ],
)
def test_a_bad_file_is_one_sentence(tmp_path: Path, content: str | bytes, sentence: str) -> None:
    with pytest.raises(RaeError, match=sentence) as caught:
        read_edges(file(tmp_path, content))
    assert "edges.csv" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("cut", [8, 100, 300, -1, -5, -20])
def test_a_truncated_parquet_file_is_one_sentence(tmp_path: Path, cut: int) -> None:
    pq.write_table(PAIRS, tmp_path / "e.parquet")
    whole = (tmp_path / "e.parquet").read_bytes()
    with pytest.raises(FileError, match=r"edges\.csv is cut short or damaged \(.*\); fetch or write it again"):
        read_edges(file(tmp_path, whole[:cut]))


def test_a_parquet_file_with_a_wrong_byte_never_ends_in_a_traceback(tmp_path: Path) -> None:
    pq.write_table(PAIRS, tmp_path / "e.parquet", compression="none", use_dictionary=False)
    whole = (tmp_path / "e.parquet").read_bytes()
    for at in range(4, 200, 3):
        path = file(tmp_path, whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        with contextlib.suppress(RaeError):
            assert read_edges(path).counts.rows <= len(PAIRS)


def test_missing_parquet_ids_are_refused_with_their_row(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1, None], "b": [1, 2]}), tmp_path / "e.parquet")
    with pytest.raises(GraphError, match=r"e\.parquet: source: every id must be there, got 1 missing, first in row 1"):
        read_edges(tmp_path / "e.parquet")


def test_columns_of_lists_are_ids_and_a_column_of_nothing_is_none(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [[1], [2]], "b": [[2], [3]]}), tmp_path / "e.parquet")
    assert list(read_edges(tmp_path / "e.parquet").ids) == [(1,), (2,), (3,)]
    pq.write_table(pa.table({"a": [[1], [2]], "b": [1, 2]}), tmp_path / "e.parquet")
    with pytest.raises(GraphError, match="must be of one kind"):
        read_edges(tmp_path / "e.parquet")
    pq.write_table(pa.table({"a": pa.nulls(2), "b": [1, 2]}), tmp_path / "e.parquet")
    with pytest.raises(GraphError, match=r"the source column must hold ids \(numbers or text\), got null"):
        read_edges(tmp_path / "e.parquet")


def test_a_folder_a_pipe_and_a_missing_path_are_one_sentence(tmp_path: Path) -> None:
    file(tmp_path, "1,2\n", "edges.csv")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileError, match=r"expected a file, .* is a folder; name a file in it"):
        read_edges(tmp_path)
    with pytest.raises(FileError, match="is a pipe or a device"):
        read_edges(tmp_path / "pipe")
    with pytest.raises(FileError, match=r"there is no file .*edge\.csv; did you mean 'edges\.csv'\?"):
        read_edges(tmp_path / "edge.csv")
    with pytest.raises(FileError, match=r"there is no file .*edges\.txt; did you mean 'edges\.csv'\?"):
        read_edges(tmp_path / "edges.txt")
    file(tmp_path, "1,2\n", "e.csv")
    file(tmp_path, "1,2\n", "note.md")
    with pytest.raises(FileError, match=r"there is no file .*nofile\.csv; check the path"):
        read_edges(tmp_path / "nofile.csv")
    with pytest.raises(FileError, match=r"there is no file .*zzz; check the path"):
        read_edges(str(tmp_path / "zzz"))
    with pytest.raises(FileError, match=r"nor a folder .*nowhere; check the path"):
        read_edges(tmp_path / "nowhere" / "edges.csv")


def test_a_file_one_may_not_read_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = file(tmp_path, "1,2\n")

    def refuse(*_: Any, **__: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("rae.io.files.pa.OSFile", refuse)
    with pytest.raises(FileError, match="may not be read by you; ask for permission"):
        read_edges(path)


class Bomb:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickle_is_refused_and_not_run(tmp_path: Path, protocol: int) -> None:
    ran = tmp_path / "ran"
    path = file(tmp_path, pickle.dumps(Bomb(ran), protocol))
    with pytest.raises(RaeError, match="pickle, which is never read" if protocol > 1 else None):
        read_edges(path)
    assert not ran.exists()


# ------------------------------------------------------------------------------------- real data


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "nodes", "links"),
    [
        ("struc2vec/brazil-airports.edgelist", 131, 1_003),
        ("struc2vec/usa-airports.edgelist", 1_190, 13_599),
        ("ca-AstroPh/ca-AstroPh.txt.gz", 18_772, 198_050),
    ],
)
def test_public_edge_lists_have_their_published_counts(name: str, nodes: int, links: int) -> None:
    if not (DATA / name).exists():
        pytest.skip(f"{name} is not in RAE_DATA")
    graph = read_edges(DATA / name)

    assert (graph.n_nodes, graph.n_edges) == (nodes, links)


def test_a_file_of_one_column_is_one_sentence_and_no_doubt(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("WARNING"), pytest.raises(GraphError, match="has one column, expected two"):
        read_edges(file(tmp_path, "ann\nbob\n", "one.csv"))

    assert caplog.text == ""
