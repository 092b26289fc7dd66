"""Vectors as a table of PostgreSQL: the type `vector` of its extension pgvector, or real[] where that is missing."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from rae.errors import ConfigError, FileError, needed_library, one_line
from rae.export.contract import TARGET, Options, Written, check_table, is_ours, refuse_table
from rae.export.vectors import VECTOR, Vectors, matrix, plain, vectors_of
from rae.run import Run

ENVIRONMENT = "env:"  # before the name of a variable that holds the connection string
MOST_NUMBERS = 16_000  # in a value of the type vector
SECONDS = 10  # to wait for a server
TYPES = {pa.int64(): "bigint", pa.float64(): "double precision", pa.string(): "text"}
HEADER, END = b"PGCOPY\n\xff\r\n\0" + struct.pack("!ii", 0, 0), struct.pack("!h", -1)  # of binary COPY
REAL = 700  # the number of the type real


def write(run: Run, target: str, options: Options) -> Written:
    """Write the vectors of a run as a table, in one transaction: it is there whole or not at all.

    `target` is a connection string of PostgreSQL, or env:NAME, a variable that holds one. Messages leave out its
    password.
    """
    psycopg, table = needed_library("psycopg", "pgvector", "a table of PostgreSQL"), check_table(options.table)
    address = _from_environment(target)
    parts = _parts(psycopg, address)
    where, patience = _describe(parts), parts.get("connect_timeout", SECONDS)
    with (
        _errors(psycopg, where, parts.get("password")),
        psycopg.connect(address, connect_timeout=patience) as connection,
    ):
        _check(connection, table, where, options.force)
        vectors = vectors_of(run, options)
        has_vector = vectors.width <= MOST_NUMBERS and _has_pgvector(connection)
        columns = {name: plain(vectors.table.column(name)) for name in vectors.table.column_names if name != VECTOR}
        kind = f"vector({vectors.width})" if has_vector else "real[]"
        typed = [f'"{name}" {TYPES[column.type]}' for name, column in columns.items()]
        connection.execute(f"DROP TABLE IF EXISTS {table}")
        connection.execute(f"CREATE TABLE {table} ({', '.join([*typed, f'{VECTOR} {kind}'])}, PRIMARY KEY (id))")
        ordered = ", ".join([*(f'"{name}"' for name in columns), VECTOR])
        with connection.cursor().copy(f"COPY {table} ({ordered}) FROM STDIN WITH (FORMAT BINARY)") as copy:
            copy.write(HEADER)
            for part in vectors.batches(options):
                copy.write(_rows(part, has_vector))
            copy.write(END)
        connection.execute(psycopg.sql.SQL(f"COMMENT ON TABLE {table} IS {{}}").format(vectors.comment))
    notes = () if has_vector else (_why_real(vectors),)
    return Written("pgvector", f"{table} in {where}", rows=vectors.table.num_rows, notes=notes)


def _from_environment(target: str) -> str:
    if not target.startswith(ENVIRONMENT):
        return target
    name = target.removeprefix(ENVIRONMENT)
    if not os.environ.get(name):
        raise ConfigError(TARGET, f" names the variable {name} of the environment, which is not set")
    return os.environ[name]


def _parts(psycopg: Any, address: str) -> dict[str, Any]:
    """The parts of a connection string by name."""
    try:
        parts: dict[str, Any] = psycopg.conninfo.conninfo_to_dict(address)
    except psycopg.ProgrammingError:  # its message may quote a part of the password
        raise ConfigError(
            TARGET,
            " must be a connection string of PostgreSQL, such as postgresql://user@host/database, or env:NAME of a "
            "variable that holds one",
        ) from None
    return parts


def _describe(parts: Mapping[str, Any]) -> str:
    """The database in words, without its password."""
    host = parts.get("host") or os.environ.get("PGHOST") or "this machine"
    name = parts.get("dbname") or os.environ.get("PGDATABASE") or "the default database"
    return f"{name} on {host}"


@contextmanager
def _errors(psycopg: Any, where: str, secret: str | None) -> Iterator[None]:
    """Raise errors of the server as one sentence without the password."""
    try:
        yield
    except psycopg.Error as error:
        reason = one_line(error)
        reason = reason.replace(secret, "***") if secret else reason
        raise FileError(f"cannot write to {where}: {reason}") from None


def _check(connection: Any, table: str, where: str, force: bool) -> None:
    row = connection.execute("SELECT to_regclass(%s), obj_description(to_regclass(%s), 'pg_class')", [table, table])
    table_id, comment = row.fetchone()
    if table_id is not None and not (is_ours(comment) and force):
        refuse_table("table", table, where, force=force, ours=is_ours(comment))


def _has_pgvector(connection: Any) -> bool:
    """Whether the type vector exists; the extension is created where the server has it and the user may."""
    from psycopg import errors

    available = connection.execute(
        "SELECT installed_version FROM pg_available_extensions WHERE name = 'vector'"
    ).fetchone()
    if available is None or available[0] is not None:
        return available is not None
    try:
        with connection.transaction():
            connection.execute("CREATE EXTENSION vector")
    except errors.InsufficientPrivilege:
        return False
    return True


def _why_real(vectors: Vectors) -> str:
    if vectors.width > MOST_NUMBERS:
        return (
            f"the vectors are real[]: they have {vectors.width:,} numbers, and the type vector holds {MOST_NUMBERS:,}"
        )
    return (
        "the vectors are real[]: the database has no extension pgvector, or you may not create it (CREATE EXTENSION "
        "vector)"
    )


# ----------------------------------------------------------------------------- binary rows


def _rows(part: pa.Table, has_vector: bool) -> bytes:
    """Rows as binary COPY takes them: the number of fields, then each with its length."""
    names = [name for name in part.column_names if name != VECTOR]
    fields = [_fields(plain(part.column(name))) for name in names]
    fields.append(_vector_fields(matrix(part)) if has_vector else _array_fields(matrix(part)))
    count = struct.pack("!h", len(fields))
    return b"".join(count + b"".join(row) for row in zip(*fields, strict=True))


def _fields(column: pa.ChunkedArray) -> list[bytes]:
    null = struct.pack("!i", -1)
    pack = {pa.int64(): struct.Struct("!iq").pack, pa.float64(): struct.Struct("!id").pack}.get(column.type)
    if pack is not None:
        return [null if value is None else pack(8, value) for value in column.to_pylist()]
    texts = (None if value is None else value.encode() for value in column.to_pylist())
    return [null if text is None else struct.pack("!i", len(text)) + text for text in texts]


def _vector_fields(z: Any) -> list[bytes]:
    """Values of the type vector: the number of its numbers, an unused one, the numbers."""
    head = struct.pack("!ihh", 4 + 4 * z.shape[1], z.shape[1], 0)
    return [head + row.tobytes() for row in z.astype(">f4")]


def _array_fields(z: Any) -> list[bytes]:
    """Values of the type real[]: one dimension from 1, no null, each number with its length."""
    width = z.shape[1]
    entries = np.empty(z.shape, [("length", ">i4"), ("value", ">f4")])
    entries["length"], entries["value"] = 4, z
    head = struct.pack("!iiiiii", 20 + 8 * width, 1, 0, REAL, width, 1)
    return [head + row.tobytes() for row in entries]
