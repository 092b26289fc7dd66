"""Vectors as a table of a DuckDB file: a column of arrays of one length, which its extension vss can index."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from rae.errors import FileError, needed_library, one_line
from rae.export.contract import Options, Written, check_table, is_ours, refuse_table
from rae.export.sql_text import text_literal
from rae.export.vectors import Vectors, vectors_of
from rae.run import Run

_BLOCKS = pa.schema(
    [
        ("name", pa.string()),
        *((name, pa.int64()) for name in ("start", "stop")),
        *((name, pa.float64()) for name in ("variance", "weight")),
        ("about", pa.string()),
    ]
)
_COMMENTS = """\
SELECT comment FROM duckdb_tables() WHERE table_name = ?
UNION ALL SELECT comment FROM duckdb_views() WHERE view_name = ?"""


def write(run: Run, target: str, options: Options) -> Written:
    """Write the vectors of a run as a table, and its blocks as a second one, in one transaction."""
    duckdb, table, path = needed_library("duckdb", "duckdb", "a DuckDB file"), check_table(options.table), Path(target)
    if not path.parent.is_dir():
        raise FileError(f"cannot write {path}: there is no folder {path.parent}; make it first")
    was_there, committed = path.exists(), False
    try:
        with duckdb.connect(str(path)) as connection:
            _check(connection, table, str(path), options.force)
            vectors = vectors_of(run, options)
            _write(connection, table, vectors, options)
        committed = True
    except duckdb.Error as error:
        raise FileError(f"cannot write {path}: {one_line(error)}") from error
    finally:
        if not was_there and not committed:  # nothing was committed
            for file in (path, path.with_name(f"{path.name}.wal")):
                file.unlink(missing_ok=True)
    return Written("duckdb", f"{table} in {path}", rows=vectors.table.num_rows, files=(path,))


def _check(connection: Any, table: str, where: str, force: bool) -> None:
    for name in (table, f"{table}_blocks"):
        for (comment,) in connection.execute(_COMMENTS, [name, name]).fetchall():
            ours = is_ours(comment)
            if not (ours and force):
                refuse_table("table", name, where, force=force, ours=ours)


def _write(connection: Any, table: str, vectors: Vectors, options: Options) -> None:
    connection.execute("BEGIN")
    for number, rows in enumerate(vectors.batches(options)):
        connection.register("rae_rows", rows)
        verb = f"INSERT INTO {table}" if number else f"CREATE OR REPLACE TABLE {table} AS"
        connection.execute(f"{verb} FROM rae_rows")
    blocks = pa.Table.from_pylist(vectors.about["blocks"], _BLOCKS)
    connection.register("rae_rows", blocks)
    connection.execute(f"CREATE OR REPLACE TABLE {table}_blocks AS FROM rae_rows")
    for name in (table, f"{table}_blocks"):
        connection.execute(f"COMMENT ON TABLE {name} IS {text_literal(vectors.comment)}")
    connection.execute("COMMIT")
    connection.unregister("rae_rows")
