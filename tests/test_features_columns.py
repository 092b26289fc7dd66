"""Columns of a node table as numbers: text by value, dates, and the same columns whatever way a table comes."""

from __future__ import annotations

import datetime as dt
import json
import logging
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from rae import RAE, Config, Graph, fit_run, read_embeddings
from rae.cli import main
from rae.errors import FeatureError
from rae.features import FeatureTable
from rae.features.columns import MAX_VALUES, category_of
from rae.io import read_features, text
from rae.pipeline import embed_file

TOWNS = ["Rome", "Bonn", "", "Rome", "Oslo"]
PEOPLE = {"id": ["a", "b", "c", "d", "e"], "age": [31, 41, 51, 61, 71], "town": TOWNS, "ok": [True, False] * 2 + [True]}
NAMES = ("age", "town=Bonn", "town=Oslo", "town=Rome", "town=missing", "ok")
ROWS = [[31, 0, 0, 1, 0, 1], [41, 1, 0, 0, 0, 0], [51, 0, 0, 0, 1, 1], [61, 0, 0, 1, 0, 0], [71, 0, 1, 0, 0, 1]]


def dense(table: Any) -> Any:
    return table.matrix.toarray() if sp.issparse(table.matrix) else table.matrix


def from_frame(columns: Any, **choices: Any) -> FeatureTable:
    return FeatureTable.from_dataframe(pa.table(columns), **choices)


def keyed(path: Any, **choices: Any) -> FeatureTable:
    table = read_features(path, **choices)
    assert isinstance(table, FeatureTable)
    return table


def as_csv(folder: Path, columns: Any, name: str = "table.csv") -> Path:
    pa.csv.write_csv(pa.table(columns), folder / name)
    return folder / name


def as_parquet(folder: Path, columns: Any, **options: Any) -> Path:
    pq.write_table(pa.table(columns), folder / "table.parquet", **options)
    return folder / "table.parquet"


# ------------------------------------------------------------------------------------- values


def coded(kind: pa.DataType) -> pa.Array:
    return pa.array([None if t == "" else t for t in TOWNS]).dictionary_encode().cast(kind)


@pytest.mark.parametrize(
    "towns",
    [
        pa.array(TOWNS),
        pa.array(TOWNS, pa.large_string()),
        pa.array(TOWNS, pa.string_view()),
        pa.array([None if t == "" else t for t in TOWNS]),
        coded(pa.dictionary(pa.int8(), pa.string())),
        coded(pa.dictionary(pa.int32(), pa.large_string())),
        pa.chunked_array([pa.array(["Rome", "Bonn"]), pa.array([], pa.string()), pa.array(["", "Rome", "Oslo"])]),
        pa.DictionaryArray.from_arrays(
            [1, 2, None, 3, 0], ["Oslo", "Rome", "Bonn", "Rome", "never"]
        ),  # one value twice
        pa.DictionaryArray.from_arrays([0, 1, 2, 0, 3], pa.array(["Rome", "Bonn", None, "Oslo"])),  # null in the values
        pd.Categorical(TOWNS),
        pd.Categorical([t or None for t in TOWNS], ["Rome", "never", "Bonn", "Oslo"], ordered=True),
        pd.Series([t or None for t in TOWNS], dtype="string"),
        pl.Series(TOWNS),
        pl.Series(TOWNS, dtype=pl.Categorical),
        pl.Series(TOWNS, dtype=pl.Enum(["Rome", "never", "Oslo", "", "Bonn"])),
    ],
)
def test_text_of_every_kind_becomes_the_same_columns(towns: Any) -> None:
    make: Any = pl.DataFrame if isinstance(towns, pl.Series) else pa.table
    make = pd.DataFrame if isinstance(towns, (pd.Categorical, pd.Series)) else make
    table = FeatureTable.from_dataframe(make(PEOPLE | {"town": towns}))

    assert table.names == NAMES
    assert dense(table).tolist() == ROWS
    assert [(e.column, e.kind, e.n_values) for e in table.encodings] == [("town", "category", 4)]


def test_files_of_every_kind_become_the_same_columns(tmp_path: Path) -> None:
    stored = pa.table(PEOPLE | {"town": coded(pa.dictionary(pa.int8(), pa.string()))})
    pyarrow.feather.write_feather(stored, tmp_path / "table.arrow")
    paths = [as_parquet(tmp_path, stored, row_group_size=2), tmp_path / "table.arrow", as_csv(tmp_path, PEOPLE)]
    tables = [keyed(path) for path in paths]

    for table in (*tables, keyed(as_parquet(tmp_path, PEOPLE, row_group_size=2))):
        assert table.names == NAMES
        assert dense(table).tolist() == ROWS


def test_whole_numbers_are_numbers_unless_they_are_called_categories(tmp_path: Path) -> None:
    numbers = {"id": [1, 2, 3], "zip": [10, 9, 10]}
    expected = [[0, 1], [1, 0], [0, 1]]

    assert from_frame(numbers).names == ("zip",)
    in_three = (
        from_frame(numbers, categories=["zip"]),
        from_frame(numbers | {"zip": pa.array([10, 9, 10]).dictionary_encode()}),
        FeatureTable.from_dataframe(pd.DataFrame(numbers | {"zip": pd.Categorical([10, 9, 10])})),
        from_frame(numbers | {"zip": [10.0, 9.0, 10.0]}, categories=["zip"]),
        keyed(as_parquet(tmp_path, numbers), categories=["zip"]),
    )
    for table in in_three:
        assert table.names == ("zip=9", "zip=10")
        assert dense(table).tolist() == expected
    written = keyed(as_csv(tmp_path, numbers), categories=["zip"])
    assert written.names == ("zip=10", "zip=9")  # text is in the order of text
    gaps = from_frame(numbers | {"zip": [10.0, float("nan"), 10.0]}, categories=["zip"])
    assert gaps.names == ("zip=10", "zip=missing")
    truth = from_frame({"id": [1, 2, 3], "ok": [True, None, False]}, categories=["ok"])
    assert truth.names == ("ok=false", "ok=true", "ok=missing")
    halves = from_frame({"id": [1, 2], "size": [0.5, 1.5]}, categories=["size"])
    assert halves.names == ("size=0.5", "size=1.5")


def test_a_text_that_says_missing_is_the_missing_value() -> None:
    table = from_frame({"id": [1, 2, 3], "x": ["missing", None, "a"]})

    assert table.names == ("x=a", "x=missing")
    assert dense(table).tolist() == [[0, 1], [0, 1], [1, 0]]


def test_columns_are_left_out_by_name(tmp_path: Path) -> None:
    for table in (
        from_frame(PEOPLE, drop=["town"]),
        keyed(as_csv(tmp_path, PEOPLE), drop=["town"]),
        keyed(as_parquet(tmp_path, PEOPLE), columns=["age", "town", "ok"], drop=["town"]),
    ):
        assert table.names == ("age", "ok")
        assert table.encodings == ()
    with pytest.raises(FeatureError, match="there is no column 'twon'; did you mean 'town'"):
        keyed(as_csv(tmp_path, PEOPLE), drop=["twon"])
    with pytest.raises(FeatureError, match="there is no column 'twon'; did you mean 'town'"):
        from_frame(PEOPLE, categories=["twon"])
    with pytest.raises(FeatureError, match="no column is left, expected one column of features or more"):
        keyed(as_csv(tmp_path, PEOPLE), drop=["age", "town", "ok"])
    with pytest.raises(FeatureError, match="drop= is about a table with one row per id, feature= about one with"):
        keyed(as_csv(tmp_path, PEOPLE), drop=["age"], feature="town")


words = st.one_of(st.none(), st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=4))


@settings(max_examples=40, deadline=None)
@given(st.lists(words, min_size=1, max_size=30), st.randoms(use_true_random=False), st.integers(1, 9))
def test_every_row_says_its_value_in_any_order_and_any_pieces(
    values: list[str | None], random: Any, piece: int
) -> None:
    """The one column of a row that is 1 is called after its value, however the rows are shuffled and cut."""
    order = list(range(len(values)))
    random.shuffle(order)
    turned = pa.array([values[i] for i in order], pa.string())
    pieces = pa.chunked_array([turned[i : i + piece] for i in range(0, len(turned), piece)])
    whole = from_frame({"id": list(range(len(values))), "x": pa.array(values, pa.string())})
    cut = from_frame({"id": order, "x": pieces})

    assert whole.names is not None
    assert whole.names == cut.names
    matrix = dense(whole)
    assert np.array_equal(dense(cut), matrix[order])
    assert (matrix.sum(1) == 1).all()
    assert [whole.names[j] for j in matrix.argmax(1)] == [f"x={value or 'missing'}" for value in values]
    assert len(set(whole.names)) == len(whole.names)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(["Rome", "Bonn", "", "Sao Paulo", 'a"b', "x,y", "é"]), min_size=1, max_size=60))
def test_csv_and_parquet_give_the_same_whatever_the_size_of_a_block(values: list[str]) -> None:
    columns = {"id": list(range(len(values))), "t": pa.array([*values[:-1], "last"]), "n": [0.5] * len(values)}
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        expected = keyed(as_parquet(Path(folder), columns, row_group_size=3))
        path = as_csv(Path(folder), columns)
        for block in (64, 1 << 22):
            patch.setattr(text, "BLOCK", block)
            table = keyed(path)
            assert table.names == expected.names
            assert np.array_equal(dense(table), dense(expected))


def test_many_values_make_a_sparse_matrix_with_the_same_numbers() -> None:
    rng = np.random.default_rng(0)
    towns = rng.integers(0, 50, 300)
    x = rng.integers(-2, 3, 300).astype(np.float32)
    table = from_frame({"id": np.arange(300), "x": x, "town": pa.array([f"t{t:02d}" for t in towns]), "y": x * 2})

    assert sp.issparse(table.matrix)
    expected = np.hstack([x[:, None], np.eye(50)[towns], 2 * x[:, None]])
    assert np.array_equal(dense(table), expected)
    assert table.matrix.nnz == np.count_nonzero(expected)
    assert not sp.issparse(from_frame(PEOPLE).matrix)  # 6 numbers take less than 3 entries and their places


# ------------------------------------------------------------------------------------- dates

EPOCH = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)


def years(*when: dt.datetime) -> list[float]:
    return [float(np.float32((w - EPOCH).total_seconds() / 86_400 / 365.2425)) for w in when]


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64(), *(pa.timestamp(u) for u in ("s", "ms", "us", "ns"))])
def test_dates_of_every_kind_are_years_since_2000(kind: pa.DataType) -> None:
    days = [dt.datetime(1999, 12, 31, tzinfo=dt.UTC), EPOCH, dt.datetime(2024, 2, 29, tzinfo=dt.UTC)]
    column = pa.array([d.date() for d in days]).cast(pa.timestamp("s")).cast(kind)
    table = from_frame({"id": [1, 2, 3], "joined": column, "coded": column.dictionary_encode()})

    assert table.names == ("joined", "coded")
    assert np.allclose(dense(table), np.array([years(*days)] * 2).T, rtol=1e-6, atol=1e-7)
    assert [str(e) for e in table.encodings] == ["date, in years since 2000"] * 2


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["2024-01-31", "1969-07-20"], [(2024, 1, 31), (1969, 7, 20)]),
        (["2024-01-31 12:30:00", "2024-02-01"], [(2024, 1, 31, 12, 30), (2024, 2, 1)]),
        (["2024-01-31T12:30:00.250000", "2024-02-01T00:00"], [(2024, 1, 31, 12, 30, 0, 250_000), (2024, 2, 1)]),
        (["2024-01-31T12:30:00Z", "2024-01-31T12:30:00+02:00"], [(2024, 1, 31, 12, 30), (2024, 1, 31, 10, 30)]),
        (["2024-01-31T12:30:00.123456789", "2024-02-01"], [(2024, 1, 31, 12, 30, 0, 123_456), (2024, 2, 1)]),
    ],
)
def test_iso_dates_in_text_are_dates(tmp_path: Path, cells: list[str], expected: list[tuple[int, ...]]) -> None:
    path = tmp_path / "table.csv"
    path.write_text("id,when\n" + "".join(f"{i},{cell}\n" for i, cell in enumerate(cells)))
    table = keyed(path)

    when = [dt.datetime(*(*parts, 0, 0)[: max(3, len(parts))], tzinfo=dt.UTC) for parts in expected]  # type: ignore[misc,arg-type]
    assert table.names == ("when",)
    assert np.allclose(dense(table).ravel(), years(*when), rtol=1e-6)


def test_text_that_is_no_iso_date_is_text_and_durations_are_days(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("id,when\n1,31.01.2024\n2,01.02.2024\n")

    assert keyed(path).names == ("when=01.02.2024", "when=31.01.2024")
    waited = from_frame({"id": [1, 2], "waited": pa.array([43_200, 86_400], pa.duration("s"))})
    assert dense(waited).tolist() == [[0.5], [1]]
    assert str(waited.encodings[0]) == "duration, in days"


# ------------------------------------------------------------------------------------- refused or said


def test_a_column_of_too_many_values_is_refused_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    n = MAX_VALUES + 1
    crowd = {"id": np.arange(n), "x": np.arange(n), "name": [f"n{i}" for i in range(n)]}
    sentence = r"column 'name' has 1,001 different values.*: text becomes one column per value, for up to 1,000 .*drop="
    for make in (from_frame, lambda c: keyed(as_csv(tmp_path, c)), lambda c: keyed(as_parquet(tmp_path, c))):
        with pytest.raises(FeatureError, match=sentence + r"\['name'\]"):
            make(crowd)
        fewer = {name: column[:-1] for name, column in crowd.items()}
        assert make(fewer).width == n
    monkeypatch.setattr(text, "SAMPLE", 1 << 10)  # so that the first rows do not tell
    with pytest.raises(FeatureError, match=sentence):
        keyed(as_csv(tmp_path, crowd))
    two = crowd | {"mail": crowd["name"]}
    with pytest.raises(FeatureError, match=r"and 1 more columns have as many: .*drop=\['name', 'mail'\]"):
        from_frame(two)


def test_two_columns_of_one_name_are_refused() -> None:
    with pytest.raises(FeatureError, match="two columns would be called 'a=b'; rename one"):
        from_frame({"id": [1, 2], "a": ["b", "c"], "a=b": [1, 2]})


def test_what_was_encoded_and_what_tells_nothing_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    n = 30
    columns = {
        "id": np.arange(n),
        "one": [5] * n,
        "zero": [0.0] * n,
        "town": ["Rome"] * n,
        "sex": ["f", "m"] * (n // 2),
        "name": [f"n{i}" for i in range(n)],
        "born": [dt.date(2000, 1, 1 + i) for i in range(n)],
    }
    with caplog.at_level(logging.INFO, "rae"):
        table = from_frame(columns)
    said = [record.getMessage() for record in caplog.records]

    assert said == [
        "every row has another value in column 'name', as ids and names have; is it a feature?",
        "feature columns: town: 1 value, one column; sex: 2 values, one column each; name: 30 values, one column each; "
        "born: date, in years since 2000",
        "feature columns with one value in all rows, which tell nothing: 'town', 'one', 'zero'",
    ]
    assert table.width == 2 + 1 + 2 + n + 1
    caplog.clear()
    with caplog.at_level(logging.INFO, "rae"):
        from_frame({"id": [1, 2], "x": [1.0, 2.0]})
    assert not caplog.records


def test_numbers_with_words_between_are_said_to_be_read_by_value(tmp_path: Path, caplog: Any) -> None:
    path = tmp_path / "table.csv"
    path.write_text(
        "id,age,code\n" + "".join(f"{i},{30 + i},{'xyz'[i % 3]}{i % 2}\n" for i in range(9)) + "9,unknown,x1\n"
    )

    assert "age=30" in (keyed(path).names or ())
    warned = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert len(warned) == 1
    assert "column 'age' holds numbers and words such as 'unknown', and becomes one column per value" in warned[0]


# ------------------------------------------------------------------------------------- tomorrow

RING = Graph.from_edges([(PEOPLE["id"][i], PEOPLE["id"][(i + 1) % 5]) for i in range(5)])
MODEL = {"dims": (8, 4), "fanout": (3, 3), "steps": 0}


def test_tomorrows_table_may_lack_values_and_bring_new_ones(caplog: pytest.LogCaptureFixture) -> None:
    today = from_frame(PEOPLE)
    tomorrow = from_frame(PEOPLE | {"town": ["Paris", "Bonn", "Bonn", "Lima", "Bonn"]})
    with caplog.at_level(logging.INFO, "rae"):
        moved = tomorrow.with_columns(today.names or ())

    assert moved.names == today.names
    assert dense(moved)[:, 1:5].tolist() == [[0, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0], [1, 0, 0, 0]]
    assert [r.getMessage() for r in caplog.records] == [
        "2 values of categories are unknown to the model: zeros, first 'town=Lima'"
    ]
    model = RAE(**MODEL).fit(RING, features=today)
    assert model.feature_names == NAMES
    assert np.isfinite(model.transform(RING, tomorrow)).all()


def test_a_column_that_is_no_category_must_still_be_there() -> None:
    names = from_frame(PEOPLE).names or ()
    with pytest.raises(FeatureError, match="needs 6 feature columns, 1 are not in this table, first 'age'"):
        from_frame(PEOPLE, drop=["age"]).with_columns(names)
    with pytest.raises(FeatureError, match="needs 6 feature columns, 4 are not in this table, first 'town=Bonn'"):
        from_frame(PEOPLE, drop=["town"]).with_columns(names)
    numbers = from_frame(PEOPLE | {"town": [1, 2, 3, 4, 5]})
    says = r"column 'town' holds numbers here and held categories in the fit: pass categories=\['town'\]"
    with pytest.raises(FeatureError, match=says):
        numbers.with_columns(names)


def test_columns_are_encoded_like_those_of_the_fit_whatever_they_hold_today(tmp_path: Path, caplog: Any) -> None:
    today = keyed(as_csv(tmp_path, {"id": [1, 2, 3], "code": ["7", "A1", "9"], "x": [1, 2, 3]}))
    assert today.names == ("code=7", "code=9", "code=A1", "x")
    crowd = [f"n{i}" for i in range(MAX_VALUES + 1)]
    many = {"id": range(len(crowd)), "code": [7] * len(crowd), "x": [1] * len(crowd), "note": crowd}
    caplog.clear()
    for table in (
        keyed(as_csv(tmp_path, many), like=today.names),
        keyed(as_parquet(tmp_path, many), like=today.names),
        from_frame(many, like=today.names),
    ):
        assert dense(table.with_columns(today.names)).tolist() == [[1, 0, 0, 1]] * len(crowd)
    messages = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert messages == ["1 feature columns are unknown to the model and left out, first 'note'"] * 3
    with pytest.raises(FeatureError, match="column 'x' holds numbers or dates in the model, here it holds text"):
        from_frame({"id": [1], "code": ["7"], "x": ["a"]}, like=today.names)
    with pytest.raises(FeatureError, match="the model knows none of the columns of this table, first 'y'"):
        from_frame({"id": [1], "y": ["7"]}, like=today.names)
    assert category_of("code=a=b", {"code"}) == "code"
    nobody = from_frame({"id": [1, 2], "code": pa.nulls(2), "x": [1, 2], "odd": [{"a": 1}] * 2}, like=today.names)
    assert dense(nobody.with_columns(today.names)).tolist() == [[0, 0, 0, 1], [0, 0, 0, 2]]


def test_a_model_applied_to_its_own_table_gives_its_own_vectors(tmp_path: Path) -> None:
    """The way of the fit (columns chosen by hand) and that of the model's names end in the same bytes."""
    config = Config(**MODEL)  # type: ignore[arg-type]
    path = as_csv(tmp_path, PEOPLE | {"mail": [f"{i}@x.org" for i in PEOPLE["id"]], "size": [1, 2, 1, 2, 1]})
    choices: Any = {"drop": ["mail"], "categories": ["size"]}
    run = fit_run(RING, path, out=tmp_path / "run", config=config, page=False, **choices)
    embed_file(run.path, RING, path, out=tmp_path / "z.parquet")

    assert np.array_equal(run.embeddings()[1], read_embeddings(tmp_path / "z.parquet")[1])


def test_several_graphs_have_the_values_of_all_tables() -> None:
    other = from_frame(PEOPLE | {"town": ["Paris"] * 5})
    model = RAE(**MODEL).fit([RING, RING], features=[from_frame(PEOPLE), other])

    assert set(model.feature_names or ()) == {*NAMES, "town=Paris"}


def test_a_table_with_categories_goes_from_the_command_line_to_the_cards_and_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Leaves from FR, hubs from DE: the card of a role says so; tomorrow's values are read as the model knows them."""
    monkeypatch.chdir(tmp_path)
    stars = [(f"h{h}", f"l{h}_{i}") for h in range(6) for i in range(9)]
    Path("calls.csv").write_text("caller,called\n" + "".join(f"{a},{b}\n" for a, b in stars))
    nodes = sorted({node for edge in stars for node in edge})

    def write(name: str, leaf: str) -> None:
        rows = (f"{v},{leaf if v[0] == 'l' else 'DE'},2000-01-0{1 + i % 9},{v}@x.org\n" for i, v in enumerate(nodes))
        Path(name).write_text("id,country,joined,mail\n" + "".join(rows))

    write("accounts.csv", "FR")
    options = ["--features", "accounts.csv", "--drop-columns", "mail", "--out", "run"]
    assert main(["fit", "calls.csv", *options, "--steps", "20", "--dims", "8", "--fanout", "5"]) == 0
    said = capsys.readouterr().err
    assert said.count("feature columns: country: 2 values, one column each; joined: date, in years since 2000") == 1
    encodings = json.loads(Path("run/run.json").read_text())["inputs"]["features"]["columns"]
    assert encodings == {"country": "2 values, one column each", "joined": "date, in years since 2000"}
    cards = json.loads(Path("run/roles.json").read_text())["cards"]
    assert any(action["feature"] == "country=DE" for card in cards for action in card["actions"])

    write("tomorrow.csv", "XX")
    assert main(["embed", "run", "calls.csv", "--features", "tomorrow.csv", "--out", "z.parquet"]) == 0
    said = capsys.readouterr().err
    assert "1 values of categories are unknown to the model: zeros, first 'country=XX'" in said
    assert "read as at the fit: --drop-columns mail" in said
    assert np.isfinite(pq.read_table("z.parquet").column("embedding").to_pylist()).all()


def test_a_data_frame_given_to_a_run_is_encoded_too(tmp_path: Path) -> None:
    frame = pd.DataFrame(PEOPLE | {"mail": ["x"] * 5})
    config = Config(**MODEL)  # type: ignore[arg-type]
    run = fit_run(RING, frame, out=tmp_path / "run", config=config, page=False, drop=["mail"], categories=["age"])
    tomorrow = frame.assign(age=31)

    assert run.model().feature_names[:2] == ("age=31", "age=41")  # type: ignore[index]
    embedded = embed_file(run.path, RING, tomorrow, out=tmp_path / "z.parquet")
    assert embedded.counts["nodes"] == 5
