"""Data frames of any library: two protocols, no library named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import rae
from rae import FeatureTable, Graph, fit_run
from rae.errors import FeatureError, FileError, GraphError
from rae.graph.frames import as_table, is_frame

EDGES = {"u": ["a", "b", "c", "a"], "v": ["b", "c", "d", "c"]}
PEOPLE = {"id": ["d", "c", "b", "a"], "age": [1, 2, 3, 4], "town": ["Rome", "Bonn", "Rome", "Bonn"]}


class Stream:
    """A frame that gives its data to Arrow and says nothing else."""

    def __init__(self, columns: dict[str, Any]) -> None:
        self.table = pa.table(columns)
        self.columns = list(columns)

    columns: Any = ()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)


class Exchange:
    """A frame that has the older exchange protocol alone, as Modin's."""

    columns: Any = ()

    def __init__(self, columns: dict[str, Any]) -> None:
        self.table = pa.table(columns)

    def __dataframe__(self, nan_as_null: bool = False, allow_copy: bool = True) -> Any:
        return self.table.__dataframe__(nan_as_null, allow_copy)


def duckdb_relation(columns: dict[str, Any]) -> Any:
    duckdb = pytest.importorskip("duckdb")
    given = pa.table(columns)  # noqa: F841  # DuckDB finds it by its name
    return duckdb.sql("select * from given")


MAKERS = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "arrow": pa.table,
    "batch": lambda columns: pa.table(columns).to_batches()[0],
    "reader": lambda columns: pa.table(columns).to_reader(),
    "stream": Stream,
    "exchange": Exchange,
    "duckdb": duckdb_relation,
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_edges_and_features_come_from_any_frame(make):
    graph = Graph.from_dataframe(make(EDGES))
    table = FeatureTable.from_dataframe(make(PEOPLE))

    assert is_frame(make(EDGES))
    assert graph.ids.tolist() == ["a", "b", "c", "d"]
    assert table.names == ("age", "town=Bonn", "town=Rome")
    assert np.asarray(table.aligned(graph)).tolist() == [[4, 1, 0], [3, 0, 1], [2, 1, 0], [1, 0, 1]]


@pytest.mark.parametrize("make", [MAKERS[name] for name in ("pandas", "polars", "stream")])
def test_a_run_is_made_of_frames(make, tmp_path):
    run = fit_run(make(EDGES), make(PEOPLE | {"name": list("DCBA")}), out=tmp_path / "run", name="name", page=False)

    assert run.feature_names == ("age", "town=Bonn", "town=Rome")
    assert run.names().to_pylist() == ["A", "B", "C", "D"]
    assert "features" not in run.info["inputs"]


def test_names_and_labels_come_from_frames_and_mappings(tmp_path):
    run = fit_run(
        pd.DataFrame(EDGES), out=tmp_path / "run", page=False, names=pl.DataFrame({"node": ["a"], "name": ["Ann"]})
    )
    run.fit_roles(2)
    by_id = dict(zip(PEOPLE["id"], PEOPLE["town"], strict=True))
    tables = [
        run.label_table(pd.DataFrame(PEOPLE), "town"),
        run.label_table(pd.DataFrame(PEOPLE).set_index("id")[["town"]]),
        run.label_table(by_id),
        run.label_table([by_id[id] for id in run.graph().ids]),
    ]

    assert run.names().to_pylist() == ["Ann", None, None, None]
    assert {table.labels for table in tables} == {("Bonn", "Rome")}
    assert len({table.counts.tobytes() for table in tables}) == 1
    assert tables[0].to_arrow().column("nodes").to_pylist() == [int(n) for n in tables[0].counts.ravel() if n]
    with pytest.raises(FileError, match="the labels: there is no column 'twn'; did you mean 'town'"):
        run.label_table(pd.DataFrame(PEOPLE), "twn")
    with pytest.raises(FileError, match="the labels has only ids"):
        run.label_table(pd.DataFrame({"id": ["a"]}))


def test_an_index_is_ids_and_never_a_column():
    frame = pd.DataFrame({"age": [1, 2]}, index=pd.Index(["b", "a"], name="who"))

    assert as_table(frame).column_names == ["age"]
    assert FeatureTable.from_dataframe(frame).id_column.to_pylist() == ["b", "a"]
    assert as_table(pl.DataFrame({"__index_level_0__": [1]})).column_names == ["__index_level_0__"]


def test_a_long_frame_is_read_by_its_pairs_and_suggested_where_it_is_not():
    pairs = {"id": ["a", "a", "b"], "word": ["x", "y", "y"], "times": [2, 1, 3]}
    table = FeatureTable.from_dataframe(pl.DataFrame(pairs), feature="word", value="times")

    assert table.names == ("x", "y")
    assert table.matrix.toarray().tolist() == [[2, 1], [0, 3]]
    with pytest.raises(FeatureError, match="pass feature='word' and value='times' if each row is one"):
        FeatureTable.from_dataframe(pl.DataFrame(pairs))
    with pytest.raises(FeatureError, match="missing"):
        FeatureTable.from_dataframe(pl.DataFrame(pairs | {"times": [2, None, 3]}), feature="word", value="times")


@pytest.mark.parametrize(
    "other", [np.eye(2), [1, 2], pd.Series([1]), pl.Series([1]), pa.chunked_array([[1]]), "edges.csv"]
)
def test_columns_and_arrays_are_no_frames(other):
    assert not is_frame(other)


def test_what_is_no_frame_is_refused():
    with pytest.raises(GraphError, match=r"expected a data frame .*, got ndarray"):
        Graph.from_dataframe(np.eye(2))
    with pytest.raises(GraphError, match="ids must be one column, got a DataFrame"):
        Graph.from_edges([("a", "b")], ids=pd.DataFrame({"a": ["a", "b"]}))


def test_edges_go_out_as_arrow_and_come_back():
    graph = rae.Graph.from_edges([(3, 1), (1, 2)])

    again = Graph.from_dataframe(graph.to_arrow())
    assert again.edges().tolist() == graph.edges().tolist()
    assert pl.DataFrame(graph.to_arrow()).rows() == [(1, 2), (1, 3)]
