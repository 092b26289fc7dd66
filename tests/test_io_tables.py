"""Tables read a piece at a time, and counted before."""

from __future__ import annotations

import gzip
import re

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from rae.errors import FileError
from rae.io import files, tables
from rae.io.tables import expected_rows, open_table

ROWS = 300_000
ENDS = np.random.default_rng(0).integers(10**6, 10**7, size=(ROWS, 2))


@pytest.fixture(scope="module")
def table():
    return pa.table({"source": ENDS[:, 0], "target": ENDS[:, 1]})


@pytest.mark.parametrize("packed", [False, True])
def test_the_number_of_lines_is_estimated_from_the_first_ones(packed, tmp_path):
    text = "".join(f"{u}\t{v}\n" for u, v in ENDS.tolist()).encode()
    path = tmp_path / "edges.tsv"
    path.write_bytes(gzip.compress(text) if packed else text)

    assert expected_rows(open_table(path)) == pytest.approx(ROWS, rel=0.1)


def test_the_number_of_rows_of_parquet_is_exact(table, tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    for name in "ab":
        pq.write_table(table, folder / f"{name}.parquet")

    assert expected_rows(open_table(folder / "a.parquet")) == ROWS
    assert expected_rows(open_table(folder)) == 2 * ROWS


def test_the_number_of_rows_of_other_files_is_unknown(table, tmp_path):
    pyarrow.feather.write_feather(table, tmp_path / "edges.feather")
    pq.write_table(table, tmp_path / "edges.parquet")
    (tmp_path / "edges.parquet.gz").write_bytes(gzip.compress((tmp_path / "edges.parquet").read_bytes(), 1))

    assert expected_rows(open_table(tmp_path / "edges.feather")) is None
    assert expected_rows(open_table(tmp_path / "edges.parquet.gz")) is None


def test_reading_parquet_in_batches_keeps_memory_small(table, tmp_path, monkeypatch):
    monkeypatch.setattr("rae.io.tables.BATCH", 10_000)
    pq.write_table(table, tmp_path / "edges.parquet", row_group_size=10_000, use_dictionary=False, compression="none")
    before, extra, rows = pa.total_allocated_bytes(), 0, 0
    for columns in open_table(tmp_path / "edges.parquet").batches([0, 1]):
        rows += len(columns[0])
        extra = max(extra, pa.total_allocated_bytes() - before - sum(c.nbytes for c in columns))

    assert rows == ROWS
    assert extra < table.nbytes / 4


def test_a_format_is_its_first_bytes_and_one_entry(table, tmp_path, monkeypatch):
    orc = pytest.importorskip("pyarrow.orc")
    orc.write_table(table, tmp_path / "edges.orc")
    monkeypatch.setattr(files, "_FORMATS", (*files._FORMATS, (re.compile(rb"ORC"), "orc")))
    with pytest.raises(FileError, match=r"expected a table, .*edges.orc is of the format orc; save it as Parquet"):
        open_table(tmp_path / "edges.orc")

    class Orc:
        def schema(self, source):
            return orc.ORCFile(source).schema

        def read(self, source, names, dictionaries):
            return orc.ORCFile(source).read(names)

        def batches(self, source, names):
            return iter(self.read(source, names, []).to_batches())

        def rows(self, source):
            return orc.ORCFile(source).nrows

    monkeypatch.setitem(tables.FORMATS, "orc", Orc())
    opened = open_table(tmp_path / "edges.orc")
    assert opened.names == ("source", "target")
    assert opened.read([1])[0].to_pylist() == ENDS[:, 1].tolist()
    assert sum(len(column) for (column,) in opened.batches([0])) == ROWS == expected_rows(opened)
