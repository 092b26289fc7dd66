"""Damaged files: valid small files of every kind that rae reads, seeded damage to them, and what reading them does.

`test_damaged.py` runs some of each kind. As a script it runs as many as asked for, in processes with a memory limit
that are watched for hangs, and keeps a line per kind in results/damaged-files.jsonl:

    python tests/damaged.py --files 100000 --jobs 2 --out .
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import bz2
import contextlib
import gzip
import io
import json
import logging
import os
import pickle
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import traceback
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

from rae.errors import RaeError, RaeWarning

SECONDS = 20  # that a reader may take; files are small, so it needs milliseconds
OUTCOMES = ("read", "refused", "foreign", "hang", "crash")
MEMORY = 2 << 30  # bytes that a process of the script may take beyond what it starts with


@dataclass(frozen=True)
class Kind:
    """A kind of file: how a valid one is written into a folder, where it is, and how it is read."""

    name: str
    write: Callable[[Path], object]
    file: str
    read: Callable[[Path], object]
    edit: Callable[[random.Random, bytes], bytes] | None = None  # damage to what the bytes mean


# ------------------------------------------------------------------------------------- damage to bytes

ODD_NUMBERS = (b"0", b"-1", b"1e999", b"nan", b"9223372036854775808", b"2147483648", b"1e30", b"007", b"9" * 400)
ODD_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 10**40, -0.5, 1e308, 1e-320),
    *("", "x", "\x1b[2J", "\ud800", [], {}, [[]], [None], {"": 0}, [1, 2, 3], "9" * 400),
)


def flip_bits(rng: random.Random, data: bytes) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def cut(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data))]


def insert(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    new = rng.choice((rng.randbytes(rng.randrange(1, 9)), b"\0", b"\n", b'"', b",", b"\xff\xfe", b"[" * 5_000))
    return data[:at] + new + data[at:]


def remove(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + data[at + rng.randrange(1, 1 + min(64, len(data))) :]


def overwrite(rng: random.Random, data: bytes) -> bytes:
    at, size = rng.randrange(len(data)), rng.choice((1, 4, 8, 32))
    return data[:at] + rng.choice((b"\0", b"\xff", b"\x7f", b"\x80")) * size + data[at + size :]


def swap_chunks(rng: random.Random, data: bytes) -> bytes:
    a, b, c = sorted(rng.randrange(len(data) + 1) for _ in range(3))
    return data[:a] + data[b:c] + data[a:b] + data[c:]


def repeat_chunk(rng: random.Random, data: bytes) -> bytes:
    a, b = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    return data[:b] + data[a:b] * rng.choice((1, 2, 10)) + data[b:]


def odd_number(rng: random.Random, data: bytes) -> bytes:
    """Another number in the place of one that is written in digits."""
    matches = list(re.finditer(rb"-?\d+(\.\d+)?", data[:100_000]))
    if not matches:
        return flip_bits(rng, data)
    one = rng.choice(matches)
    return data[: one.start()] + rng.choice(ODD_NUMBERS) + data[one.end() :]


def scatter(rng: random.Random, data: bytes) -> bytes:
    """Several kinds of damage at once."""
    for _ in range(rng.randrange(2, 6)):
        data = rng.choice(BYTES)(rng, data) if data else b"x"
    return data


BYTES = (flip_bits, flip_bits, cut, insert, remove, overwrite, swap_chunks, repeat_chunk, odd_number)


def damaged(rng: random.Random, kind: Kind, data: bytes) -> bytes:
    """The file with some damage, to its bytes or to what they mean."""
    if kind.edit is not None and rng.random() < 0.5:
        return kind.edit(rng, data)
    return rng.choice((*BYTES, scatter))(rng, data)


# --------------------------------------------------------------------------- damage to what the bytes mean


def edit_value(rng: random.Random, value: Any) -> Any:
    """The JSON value with one of its parts replaced, removed, renamed or repeated."""
    if not isinstance(value, (dict, list)) or not value or rng.random() < 0.1:
        return rng.choice((*ODD_VALUES, -value) if type(value) in (int, float) else ODD_VALUES)
    out = value.copy()
    key = rng.choice(list(value) if isinstance(value, dict) else range(len(value)))
    how = rng.random()
    if how < 0.1:
        del out[key]
    elif how < 0.15 and isinstance(out, dict):
        out[rng.choice(("", "x", key + "x"))] = out.pop(key)
    elif how < 0.2 and isinstance(out, list):
        out.insert(rng.randrange(len(out) + 1), out[key])
    else:
        out[key] = edit_value(rng, out[key])
    return out


def edit_json(rng: random.Random, data: bytes) -> bytes:
    if rng.random() < 0.05:
        return rng.choice((b"[" * 100_000, b'{"a":' * 100_000, b"null", b"[]", b"NaN", b'"x"', b"1" * 5_000))
    return json.dumps(edit_value(rng, json.loads(data))).encode()


def edit_lines(rng: random.Random, data: bytes) -> bytes:
    """JSON lines with one of them edited."""
    lines = data.splitlines()
    at = rng.randrange(len(lines))
    lines[at] = edit_json(rng, lines[at])
    return b"\n".join(lines) + b"\n"


DTYPES = (
    "'|O'",
    "'<U9999999'",
    "'<c16'",
    "'|S0'",
    "'<i8'",
    "'<f2'",
    "'>f8'",
    "[('a', '<f4')]",
    "'x' * 9",
    "'<M8[s]'",
    "5",
)
DTYPES += ("'<f99'", "'f4,f4'", "'<V4'")
SHAPES = ("()", "(0,)", "(-1,)", "(0, 99999999999999)", "7", "(9223372036854775807, 9)", "(1e3,)", "(2, 2, 2)", "((),)")
SHAPES += ("(5000000000,)", "(99999999999999999999999,)", "(1,) * 99", "(True, 3)", "(4294967296, 4294967296)")
SHAPES += ("(" + "1, " * 70 + ")",)
HEADERS = ("(" * 5_000, "{" * 3_000, "{'a': " * 2_000, "", "{}", "1", "{'shape'", "'" * 7, "\\")


def edit_npy(rng: random.Random, data: bytes) -> bytes:
    """Another type, order or shape in the header of an array."""
    size = struct.unpack("<H", data[8:10])[0]
    header, body = data[10 : 10 + size].decode("latin1"), data[10 + size :]
    key, old, values = rng.choice(
        (
            ("descr", "'[^']*'", DTYPES),
            ("fortran_order", "False", ("True", "1", "None")),
            ("shape", r"\([^)]*\)", SHAPES),
        )
    )
    header = re.sub(f"'{key}': {old}", lambda _: f"'{key}': {rng.choice(values)}", header)
    if rng.random() < 0.1:
        header = rng.choice(HEADERS)
    return data[:8] + struct.pack("<H", len(header)) + header.encode("latin1") + body


def edit_zip(inner: Callable[[random.Random, bytes], bytes] | None = None) -> Callable[[random.Random, bytes], bytes]:
    """Damage to a member of a zip, whose checksums are right again."""

    def edit(rng: random.Random, data: bytes) -> bytes:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = [(info, archive.read(info)) for info in archive.infolist()]
        chosen = rng.randrange(len(members))
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            for i, (info, content) in enumerate(members):
                if i == chosen and rng.random() < 0.1:
                    continue
                if i == chosen:
                    content = (inner if inner and rng.random() < 0.7 else rng.choice(BYTES))(rng, content)
                archive.writestr(info.filename, content, compress_type=info.compress_type)
        return out.getvalue()

    return edit


def edit_packed(pack: Callable[[bytes], bytes], unpack: Callable[[bytes], bytes]) -> Any:
    def edit(rng: random.Random, data: bytes) -> bytes:
        return pack(rng.choice(BYTES)(rng, unpack(data)))

    return edit


def edit_safetensors(sign: Callable[[dict[str, str], bytes, dict[str, Any]], dict[str, str]] | None = None) -> Any:
    """Another header, of the format or of rae inside it; `sign` makes the checksum right again, now and then."""

    def edit(rng: random.Random, data: bytes) -> bytes:
        size = struct.unpack("<Q", data[:8])[0]
        header, body = json.loads(data[8 : 8 + size]), data[8 + size :]
        about = header["__metadata__"]
        if rng.random() < 0.7:
            key = next(name for name in about if name.startswith("rae"))
            about[key] = edit_json(rng, about[key].encode()).decode()
        else:
            header = edit_value(rng, header)
        if rng.random() < 0.2:
            body = rng.choice(BYTES)(rng, body)
        if sign and rng.random() < 0.8 and isinstance(header, dict) and isinstance(header.get("__metadata__"), dict):
            with contextlib.suppress(Exception):
                header["__metadata__"] = sign(header["__metadata__"], body, header)
        text = json.dumps(header).encode()
        return struct.pack("<Q", len(text)) + text + body

    return edit


def edit_table(write: Callable[[pa.Table], bytes], read: Callable[[bytes], pa.Table]) -> Any:
    """Other columns, types, names or metadata in a table of Arrow."""

    def edit(rng: random.Random, data: bytes) -> bytes:
        table = read(data)
        how, n = rng.randrange(7), len(table)
        if how == 0:
            table = table.drop_columns([rng.choice(table.column_names)])
        elif how == 1:
            names = table.column_names
            names[rng.randrange(len(names))] = rng.choice(("", "x", names[0], "\x1b[2J"))
            table = table.rename_columns(names)
        elif how == 2:
            table = table.slice(0, rng.randrange(n + 1))
        elif how == 3:
            table = pa.concat_tables([table, table])
        elif how == 4:
            meta = {k: edit_json(rng, v) if v[:1] in b"{[" else v for k, v in (table.schema.metadata or {}).items()}
            table = table.replace_schema_metadata(meta)
        else:
            at = rng.randrange(table.num_columns)
            table = table.set_column(at, table.column_names[at], rng.choice(ODD_COLUMNS)(n))
        return write(table)

    return edit


ODD_COLUMNS: tuple[Callable[[int], pa.Array], ...] = (
    lambda n: pa.nulls(n),
    lambda n: pa.nulls(n, pa.float32()),
    lambda n: pa.array(["x"] * n),
    lambda n: pa.array([b"\xff"] * n),
    lambda n: pa.array([None, *range(n)][:n], pa.int64()),
    lambda n: pa.array([2**63] * n, pa.uint64()),
    lambda n: pa.array([-1] * n, pa.int8()),
    lambda n: pa.array([float("nan")] * n),
    lambda n: pa.array([[1.0] * (i % 3) for i in range(n)]),
    lambda n: pa.array([[None, 1.0]] * n, pa.list_(pa.float32(), 2)),
    lambda n: pa.array([["x"]] * n),
    lambda n: pa.array([[[1.0]]] * n),
    lambda n: pa.array([{"a": 1}] * n),
    lambda n: pa.array([True] * n),
    lambda n: pa.array([0] * n, pa.timestamp("ns", "UTC")),
    lambda n: pa.array([0] * n, pa.duration("s")),
    lambda n: pa.array(["x"] * n).dictionary_encode(),
    lambda n: pa.array([1.5] * n, pa.float16()) if n < 0 else pa.array(np.full(n, 1.5, np.float16)),
    lambda n: pa.array([1] * n, pa.decimal128(5)),
    lambda n: pa.array([[]] * n, pa.list_(pa.float32(), 0)),
    lambda n: pa.array([[]] * n, pa.list_(pa.float32())),
)


def parquet_bytes(table: pa.Table) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out)
    return out.getvalue()


def arrow_bytes(table: pa.Table) -> bytes:
    out = io.BytesIO()
    with pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue()


edit_parquet = edit_table(parquet_bytes, lambda data: pq.read_table(io.BytesIO(data)))
edit_arrow = edit_table(arrow_bytes, lambda data: pa.ipc.open_file(io.BytesIO(data)).read_all())


# ------------------------------------------------------------------------------------------- valid files

N = 12  # nodes


def edges() -> list[tuple[int, int]]:
    rng = np.random.default_rng(1)
    pairs = {(int(min(e)), int(max(e))) for e in rng.integers(0, N, (40, 2)) if e[0] != e[1]}
    return sorted(pairs | {(i, i + 1) for i in range(N - 1)})


def matrix() -> Any:
    return np.random.default_rng(2).random((N, 4)).astype(np.float32)


def graph() -> Any:
    from rae.graph import Graph

    return Graph.from_edges(edges())


def edge_text(separator: str, header: str = "", end: str = "") -> bytes:
    lines = [header] * bool(header) + [f"{a}{separator}{b}{end}" for a, b in edges()]
    return ("\n".join(lines) + "\n").encode()


def edge_table() -> pa.Table:
    return pa.table(
        {"source": [f"n{a}" for a, _ in edges()], "target": [f"n{b}" for _, b in edges()], "w": [1.5] * len(edges())}
    )


def node_table() -> pa.Table:
    x = matrix()
    towns = pa.array([f"town {i % 3}" for i in range(N)])
    return pa.table(
        {"id": list(range(N)), "a": x[:, 0], "b": x[:, 1], "town": towns, "is": [i % 2 == 0 for i in range(N)]}
    )


def list_table() -> pa.Table:
    return pa.table({"id": [str(i) for i in range(N)], "x": pa.FixedSizeListArray.from_arrays(matrix().ravel(), 4)})


def json_features_bytes() -> bytes:
    return json.dumps({str(i): [f"word{i % 7}", f"word{i % 5 + 10}"] for i in range(40)}).encode()


def csv_bytes(table: pa.Table) -> bytes:
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    return "\n".join([",".join(table.column_names), *(",".join(map(str, row)) for row in rows)]).encode() + b"\n"


def long_bytes() -> bytes:
    lines = [f"{i},word {j},{1 + (i + j) % 3}" for i in range(N) for j in range(1 + i % 4)]
    return ("id,word,count\n" + "\n".join(lines) + "\n").encode()


def npy_bytes(array: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def npz_bytes(packed: bool = False, **arrays: Any) -> bytes:
    out = io.BytesIO()
    (np.savez_compressed if packed else np.savez)(out, **arrays)
    return out.getvalue()


def sparse_bytes(form: str, packed: bool = False) -> bytes:
    out = io.BytesIO()
    sp.save_npz(out, sp.csr_array(matrix() > 0.5).astype(np.float32).asformat(form), compressed=packed)
    return out.getvalue()


def zstd(data: bytes) -> bytes:
    return pa.Codec("zstd").compress(data, asbytes=True)


def unzstd(data: bytes) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        return stream.read()


def gz(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


def write_model(name: str) -> Callable[[Path], object]:
    from rae import RAE

    def write(folder: Path) -> None:
        features = {"exact": None, "actions": matrix(), "trained": None}[name]
        settings: dict[str, Any] = {"exact": {}, "actions": {}, "trained": {"dims": (4,), "fanout": (2,), "steps": 1}}[
            name
        ]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            RAE(**settings).fit(graph(), features=features).save(folder / "model.safetensors")

    return write


def write_run(folder: Path) -> None:
    """A run with names, features and roles."""
    from rae.features import FeatureTable
    from rae.pipeline import fit_run

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = FeatureTable(pa.array(range(N)), matrix(), ("a", "b", "c", "d"))
        run = fit_run(graph(), table, out=folder / "run", page=False)
        run.set_names({i: f"name {i}" for i in range(N)})
        run.fit_roles(2)


def write_trained_run(folder: Path) -> None:
    """A run of a trained model on words, with a history."""
    from rae.config import Config
    from rae.pipeline import fit_run

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit_run(
            graph(),
            sp.csr_array(matrix() > 0.5).astype(np.float32),
            out=folder / "run",
            page=False,
            config=Config(steps=2, dims=(4,), fanout=(2,)),
        )


def write_graph_folder(folder: Path) -> None:
    from rae.graph.folder import write_graph

    write_graph(folder / "graph", graph())


PLANETOID = ("x", "y", "tx", "ty", "allx", "ally", "graph", "test.index")


def write_planetoid(folder: Path) -> None:
    x = sp.csr_matrix((matrix() > 0.5).astype(np.float32))
    classes = np.eye(3, dtype=np.int32)[np.arange(N) % 3]
    values = {"allx": x[:9], "tx": x[9:], "x": x[:3], "ally": classes[:9], "ty": classes[9:], "y": classes[:3]}
    neighbors: dict[int, list[int]] = {i: [] for i in range(N)}
    for a, b in edges():
        neighbors[a].append(b)
    for part, value in values.items():
        (folder / f"ind.cora.{part}").write_bytes(pickle.dumps(value, 2))
    (folder / "ind.cora.graph").write_bytes(pickle.dumps(neighbors, 2))
    (folder / "ind.cora.test.index").write_text("".join(f"{i}\n" for i in (10, 9, 11)))


def tu_zip() -> bytes:
    out = io.BytesIO()
    parts = {
        "A": "1, 2\n2, 1\n3, 4\n4, 3\n",
        "graph_indicator": "1\n1\n2\n2\n",
        "graph_labels": "1\n-1\n",
        "node_labels": "0\n1\n0\n1\n",
    }
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for part, text in parts.items():
            archive.writestr(f"MUTAG/MUTAG_{part}.txt", text)
    return out.getvalue()


def tu_folds() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:") as archive:
        for i in range(1, 11):
            info = tarfile.TarInfo(f"10fold_idx/test_idx-{i}.txt")
            info.size = 2
            archive.addfile(info, io.BytesIO(b"0\n"))
    return gz(out.getvalue())


def heterophilous() -> bytes:
    masks = np.zeros((3, 2, N), bool)
    for part in range(3):
        masks[part, :, part::3] = True
    parts = dict(zip(("train_masks", "val_masks", "test_masks"), masks, strict=True))
    return npz_bytes(edges=np.array(edges()), node_features=matrix(), node_labels=np.arange(N) % 3, **parts)


def write_heterophilous(folder: Path) -> None:
    (folder / "heterophilous").mkdir()
    (folder / "heterophilous" / CHAMELEON).write_bytes(heterophilous())


def write_pages(folder: Path) -> None:
    folder = folder / "facebook-pages"
    folder.mkdir()
    (folder / "facebook_edges.csv").write_text("id_1,id_2\n" + "".join(f"{a},{b}\n" for a, b in edges()))
    (folder / "facebook.json").write_text(json.dumps({str(i): [i, i + 1] for i in range(N)}))
    rows = "".join(f'{i},{i}9,"Page, {i}",kind {i % 2}\n' for i in range(N))
    (folder / "facebook_target.csv").write_text("id,facebook_id,page_name,page_type\n" + rows)


def write_ledger(folder: Path) -> None:
    lines = [
        {
            "table": "t",
            "row": f"r{i}",
            "dataset": "d",
            "settings": {"threads": 1},
            "seed": i,
            "score": 0.5,
            "date": "2026",
        }
        for i in range(4)
    ]
    (folder / "t.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def write_parts(folder: Path) -> None:
    from rae.storage.parts import Parts

    Parts.open(folder / "parts", {"a": 1}).write("one", [matrix()])


def write_cache(folder: Path) -> None:
    from rae.resume import VectorCache

    write_embeddings("z.parquet")(folder)
    cache = VectorCache(folder / "run")
    cache.key_file.write_text(json.dumps({"a": [1, 2]}))
    (folder / "z.parquet").replace(cache.vectors)


def write_embeddings(name: str) -> Callable[[Path], object]:
    from rae.blocks import Block
    from rae.io import write_embeddings as write

    blocks = (Block("place", 0, 3, 1.0), Block("own", 3, 4, None, 0.5))
    return lambda folder: write(
        folder / name, pa.array([f"n{i}" for i in range(N)]), matrix(), model="m", blocks=blocks
    )


# ------------------------------------------------------------------------------------------------ readers


def read_graph_folder(folder: Path) -> None:
    from rae.graph.folder import open_graph, row_order

    row_order(folder / "graph")
    opened = open_graph(folder / "graph")
    opened.ids, opened.degrees.sum(), opened.id_column.to_pylist()
    open_graph(folder / "graph", verify=True)


def read_model(folder: Path) -> None:
    from rae import RAE
    from rae.run_folder import summary

    model = RAE.load(folder / "model.safetensors")
    summary(model.history)
    model.blocks, model.feature_names, repr(model)
    model.transform(graph(), None if model.structural else matrix())


def opened_run(folder: Path) -> Any:
    from rae.run import Run

    return Run.open(folder / "run")


def read_info(folder: Path) -> None:
    from rae.cli.info import described
    from rae.explore.page import _facts

    run = opened_run(folder)
    described(run)
    _facts(run)


def read_record(folder: Path) -> None:
    from rae.cli.roles import table
    from rae.explore.cards import page_roles

    run = opened_run(folder)
    table(run.role_record())
    page = page_roles(run)
    page.page_cards({i: i for i in range(N)}, {i: i for i in page.feature_columns}, [[] for _ in page.cards])


def read_roles(folder: Path) -> None:
    from rae.roles import Roles

    roles = Roles.load(folder / "run" / "roles.safetensors")
    roles.curve, roles.weak, repr(roles)
    roles.assign(opened_run(folder).embeddings()[1])


def read_role_table(folder: Path) -> None:
    from rae.explore.cards import page_roles

    run = opened_run(folder)
    run.label_table(["a"] * N)
    page_roles(run)


def read_vectors(name: str) -> Callable[[Path], object]:
    from rae.blocks import weighted
    from rae.io import read_embeddings
    from rae.io.embeddings import embeddings_blocks, embeddings_model, embeddings_width

    def read(folder: Path) -> None:
        ids, z = read_embeddings(folder / name)
        embeddings_model(folder / name)
        weighted(z, embeddings_blocks(folder / name))
        ids.to_pylist()
        if name.endswith(".parquet"):
            embeddings_width(folder / name)

    return read


def read_edges(name: str, **options: Any) -> Callable[[Path], object]:
    def read(folder: Path) -> None:
        from rae.io import read_edges
        from rae.io.edges import open_edges
        from rae.io.tables import expected_rows

        list(read_edges(folder / name, **options).ids)
        expected_rows(open_edges(folder / name).table)

    return read


def build(name: str) -> Callable[[Path], object]:
    def read(folder: Path) -> None:
        from rae.io.build import build_graph_folder

        list(build_graph_folder(folder / name, folder / "built", force=True).ids)

    return read


def read_features(name: str, **options: Any) -> Callable[[Path], object]:
    def read(folder: Path) -> None:
        from rae.inputs import Reading, read_inputs

        read_inputs(graph(), folder / name, Reading(**options, missing="zero", unknown="drop"))

    return read


def read_columns(name: str) -> Callable[[Path], object]:
    def read(folder: Path) -> None:
        from rae.io.node_columns import node_names, read_node_columns
        from rae.roles.labels import label_table

        ids = pa.array(range(N))
        for column in read_node_columns(folder / name, ids).values():
            label_table([0] * N, column, 1)
        node_names(folder / name, ids)

    return read


def read_planetoid(folder: Path) -> None:
    from rae.datasets import planetoid

    planetoid.read({part: folder / f"ind.cora.{part}" for part in PLANETOID}, "cora")


def read_tu(folder: Path) -> None:
    from rae.datasets import tu

    if (folder / "MUTAG.zip").is_file():
        tables = tu.read_zip(folder / "MUTAG.zip", "MUTAG")
    else:
        tables = tu.read_text(folder / "MUTAG.txt")
    tu.collection("MUTAG", tables, folder / "folds.tar.gz" if (folder / "folds.tar.gz").is_file() else None)


def home(folder: Path) -> Any:
    from rae.datasets.home import Home

    return Home(folder, folder / "cache", {})


def read_heterophilous(folder: Path) -> None:
    from rae.datasets import heterophilous

    heterophilous.load("chameleon", home=home(folder))


def read_pages(folder: Path) -> None:
    from rae.datasets import pages

    pages.load(home=home(folder))


def read_airports(folder: Path) -> None:
    from rae.datasets import airports

    airports.load("brazil", home=home(folder))


def read_ledger(folder: Path) -> None:
    from rae.evaluation.ledger import Ledger

    ledger = Ledger(folder)
    ledger.read("t"), ledger.latest("t")
    ledger.append([{"table": "t", "row": "r", "dataset": "d", "settings": {}}])
    ledger.read("t")


def read_parts(folder: Path) -> None:
    from rae.storage.parts import Parts

    parts = Parts.open(folder / "parts", {"a": 1})
    if parts.has("one"):
        parts.read("one", (N, 4))
    else:
        parts.write("one", [matrix()])


def read_cache(folder: Path) -> None:
    from rae.resume import VectorCache

    (folder / "taken.parquet").unlink(missing_ok=True)
    VectorCache(folder / "run").write(folder / "taken.parquet", {"a": [1, 2]}, write_anew)


def write_anew(path: Path) -> int:
    write_embeddings(path.name)(path.parent)
    return 4


# ---------------------------------------------------------------------------------------------- all kinds


def write_airports(folder: Path) -> None:
    place = folder / "struc2vec"
    place.mkdir()
    (place / "brazil-airports.edgelist").write_text("".join(f"{a} {b}\n" for a, b in edges()))
    (place / "labels-brazil-airports.txt").write_text("node label\n" + "".join(f"{i} {i % 4}\n" for i in range(N)))


def alone(
    name: str,
    file: str,
    content: Callable[[], bytes],
    read: Callable[..., Callable[[Path], object]],
    edit: Any = None,
    **options: Any,
) -> Kind:
    """A kind that is one file by itself."""
    return Kind(name, lambda folder: (folder / file).write_bytes(content()), file, read(file, **options), edit)


def kinds() -> list[Kind]:
    """Every kind of file that rae reads."""
    return [*graph_kinds(), *run_kinds(), *edge_kinds(), *feature_kinds(), *dataset_kinds(), *other_kinds()]


def graph_kinds() -> list[Kind]:
    files = {"graph.json": edit_json, "offsets.npy": edit_npy, "targets.npy": edit_npy, "ids.arrow": edit_arrow}
    return [
        Kind(f"graph {file}", write_graph_folder, f"graph/{file}", read_graph_folder, edit)
        for file, edit in files.items()
    ]


def run_kinds() -> list[Kind]:
    def features(folder: Path) -> object:
        return opened_run(folder).features()

    def names(folder: Path) -> object:
        return opened_run(folder).names()

    def ids(folder: Path) -> object:
        return opened_run(folder).set_names(["x"] * N)

    signed = edit_safetensors(sign)
    return [
        *(Kind(f"model {m}", write_model(m), "model.safetensors", read_model, signed) for m in MODELS),
        Kind("run.json", write_run, "run/run.json", read_info, edit_json),
        Kind("run.json trained", write_trained_run, "run/run.json", read_info, edit_json),
        Kind("run features.npy", write_run, "run/features.npy", features, edit_npy),
        Kind("run features.npz", write_trained_run, "run/features.npz", features, edit_zip(edit_npy)),
        Kind("run names.parquet", write_run, "run/names.parquet", names, edit_parquet),
        Kind("run embeddings.parquet", write_run, "run/embeddings.parquet", ids, edit_parquet),
        Kind("roles.json", write_run, "run/roles.json", read_record, edit_json),
        Kind("roles.parquet", write_run, "run/roles.parquet", read_role_table, edit_parquet),
        Kind("roles.safetensors", write_run, "run/roles.safetensors", read_roles, signed),
        Kind("embeddings parquet", write_embeddings("z.parquet"), "z.parquet", read_vectors("z.parquet"), edit_parquet),
        Kind("embeddings csv", write_embeddings("z.csv"), "z.csv", read_vectors("z.csv")),
    ]


def edge_kinds() -> list[Kind]:
    plain, headed = edge_text(","), edge_text(",", "source,target")
    market = edge_text(" ", f"%%MatrixMarket matrix coordinate pattern general\n{N} {N} {len(edges())}")
    packed = {"gz": (gz, gzip.decompress), "bz2": (bz2.compress, bz2.decompress), "zst": (zstd, unzstd)}
    parquet, arrow = parquet_bytes(edge_table()), arrow_bytes(edge_table())
    return [
        alone("edges csv", "e.csv", lambda: headed, read_edges),
        alone("edges tsv", "e.tsv", lambda: edge_text("\t"), read_edges, as_text=True),
        alone("edges blanks", "e.txt", lambda: edge_text(" "), read_edges, ids=range(N)),
        alone("edges networkx", "e.txt", lambda: edge_text(" ", end=" {'weight': 1}"), read_edges),
        alone("edges MatrixMarket", "e.mtx", lambda: market, read_edges),
        *(
            alone(f"edges csv.{end}", f"e.{end}", lambda p=pack: p(plain), read_edges, edit_packed(pack, unpack))
            for end, (pack, unpack) in packed.items()
        ),
        alone("edges parquet", "e.parquet", lambda: parquet, read_edges, edit_parquet),
        alone("edges parquet.gz", "e.gz", lambda: gz(parquet), read_edges, edit_packed(gz, gzip.decompress)),
        alone("edges arrow", "e.arrow", lambda: arrow, read_edges, edit_arrow),
        alone("build from csv", "e.csv", lambda: headed, build),
        alone("build from parquet", "e.parquet", lambda: parquet, build, edit_parquet),
    ]


def feature_kinds() -> list[Kind]:
    csv, parquet, arrow = csv_bytes(node_table()), parquet_bytes(node_table()), arrow_bytes(node_table())
    npz, ids, names = edit_zip(edit_npy), np.arange(N), np.array(list("abcd"))
    return [
        alone("features csv", "x.csv", lambda: csv, read_features),
        alone("features json", "x.json", json_features_bytes, read_features, edit_json),
        alone("features categories", "x.csv", lambda: csv, read_features, categories=["a"]),
        alone("features long", "x.csv", long_bytes, read_features, feature="word", value="count"),
        alone("features parquet", "x.parquet", lambda: parquet, read_features, edit_parquet),
        alone(
            "features long parquet",
            "x.parquet",
            lambda: parquet,
            read_features,
            edit_parquet,
            feature="town",
            value="a",
        ),
        alone("features lists", "x.parquet", lambda: parquet_bytes(list_table()), read_features, edit_parquet),
        alone("features arrow", "x.arrow", lambda: arrow, read_features, edit_arrow),
        alone("features npy", "x.npy", lambda: npy_bytes(matrix()), read_features, edit_npy),
        alone("features npz", "x.npz", lambda: npz_bytes(x=matrix(), ids=ids, names=names), read_features, npz),
        alone(
            "features npz packed", "x.npz", lambda: npz_bytes(True, x=matrix(), ids=ids.astype(str)), read_features, npz
        ),
        alone("features npz mapped", "x.npz", lambda: npz_bytes(x=np.zeros((N, 1500), np.float32)), read_features, npz),
        *(alone(f"features {f}", "x.npz", lambda f=f: sparse_bytes(f, f == "csc"), read_features, npz) for f in SPARSE),
        alone("labels csv", "l.csv", lambda: csv, read_columns),
        alone("labels parquet", "l.parquet", lambda: parquet, read_columns, edit_parquet),
    ]


def dataset_kinds() -> list[Kind]:
    def reads(read: Callable[[Path], object]) -> Callable[[str], Callable[[Path], object]]:
        return lambda _: read

    def write_folds(folder: Path) -> None:
        (folder / "MUTAG.zip").write_bytes(tu_zip())
        (folder / "folds.tar.gz").write_bytes(tu_folds())

    molecules = b"2\n2 1\n0 1 1\n1 1 0\n3 -1\n0 0\n0 1 2\n1 1 1\n"
    pages = {"facebook_edges.csv": None, "facebook.json": edit_json, "facebook_target.csv": None}
    return [
        *(Kind(f"planetoid {part}", write_planetoid, f"ind.cora.{part}", read_planetoid) for part in PLANETOID),
        alone("tu zip", "MUTAG.zip", tu_zip, reads(read_tu), edit_zip()),
        alone("tu text", "MUTAG.txt", lambda: molecules, reads(read_tu)),
        Kind("tu folds", write_folds, "folds.tar.gz", read_tu, edit_packed(gz, gzip.decompress)),
        Kind(
            "heterophilous", write_heterophilous, f"heterophilous/{CHAMELEON}", read_heterophilous, edit_zip(edit_npy)
        ),
        *(
            Kind(f"pages {file}", write_pages, f"facebook-pages/{file}", read_pages, edit)
            for file, edit in pages.items()
        ),
        Kind("airports labels", write_airports, "struc2vec/labels-brazil-airports.txt", read_airports),
    ]


def other_kinds() -> list[Kind]:
    return [
        Kind("ledger", write_ledger, "t.jsonl", read_ledger, edit_lines),
        Kind("parts manifest", write_parts, "parts/manifest.json", read_parts, edit_json),
        Kind("part", write_parts, "parts/one.part", read_parts),
        Kind("cache key", write_cache, ".run.json", read_cache, edit_json),
        Kind("cache vectors", write_cache, ".run.parquet", read_cache, edit_parquet),
    ]


CHAMELEON = "chameleon_filtered.npz"
MODELS = ("exact", "actions", "trained")
SPARSE = ("csr", "csc", "coo", "dia", "bsr")


def sign(about: dict[str, str], body: bytes, header: dict[str, Any]) -> dict[str, str]:
    """The metadata of a safetensors file with the checksum that this header and these tensors have."""
    from safetensors.numpy import load

    from rae.storage.tensors import signed

    text = json.dumps(header).encode()
    arrays = load(struct.pack("<Q", len(text)) + text + body)
    key = next(name for name in about if name.startswith("rae"))
    return {**about, key: signed(json.loads(about[key]), arrays)}


# ------------------------------------------------------------------------------------------- what reading does


class Hang(BaseException):
    """A reader that takes too long."""


@dataclass
class Sample:
    """A folder with valid files of one kind, whose file is damaged and read over and over."""

    kind: Kind
    folder: Path

    def __post_init__(self) -> None:
        self.kind.write(self.folder)
        self.path = self.folder / self.kind.file
        self.content = self.path.read_bytes()
        self.kind.read(self.folder)  # the file is valid
        self.others = {p: p.read_bytes() for p in self.folder.rglob("*") if p.is_file() and p != self.path}

    def outcome(self, seed: str) -> str:
        """What reading the file with the damage of this seed does: "read", "refused", or the foreign exception."""
        content = damaged(random.Random(seed), self.kind, self.content)
        self.restore()
        self.path.unlink(missing_ok=True)  # a mapped file must not change under whoever still has it
        self.path.write_bytes(content)
        try:
            with guarded():
                self.kind.read(self.folder)
        except RaeError as error:
            return "refused" if is_sentence(str(error)) else f"no sentence: {str(error)[:200]!r}"
        except (Exception, Hang) as error:
            return f"{type(error).__module__}.{type(error).__name__} at {where(error)}: {str(error)[:160]!r}"
        return "read"

    def restore(self) -> None:
        """Put back what a reader removed or replaced."""
        for path, content in self.others.items():
            if not path.is_file() or path.stat().st_size != len(content):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
        self.path.parent.mkdir(parents=True, exist_ok=True)


def is_sentence(text: str) -> bool:
    """Whether an error is one line with something in it."""
    return bool(text.strip()) and "\n" not in text


def where(error: BaseException) -> str:
    """The last place in rae that an exception went through."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f"{os.sep}rae{os.sep}" in f.filename]
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Warnings of others are errors, logs are silent, and a reader that hangs is stopped."""

    def stop(*_: Any) -> None:
        raise Hang(f"more than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", RaeWarning)
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        logging.disable(logging.NOTSET)


# ---------------------------------------------------------------------------------------------- the script


def work(share: dict[str, list[int]]) -> None:
    """Read damaged files in this process, under a memory limit: two lines of output each, before and after.

    `share` says for each kind the first and the last number of its files.
    """
    import resource

    import torch

    from rae import runtime

    runtime.set_threads(1)
    torch.set_num_threads(1)
    pa.set_cpu_count(1)
    kind_of_name = {kind.name: kind for kind in kinds()}
    with tempfile.TemporaryDirectory() as folder:
        for i, (name, (first, last)) in enumerate(share.items()):
            place = Path(folder) / str(i)
            place.mkdir()
            sample = Sample(kind_of_name[name], place)
            resource.setrlimit(resource.RLIMIT_AS, (virtual_memory() + MEMORY, resource.RLIM_INFINITY))
            for number in range(first, last):
                print(f"begin\t{name}\t{number}", flush=True)
                print(f"end\t{name}\t{number}\t{sample.outcome(f'{name} {number}')}", flush=True)
            shutil.rmtree(place, ignore_errors=True)


def virtual_memory() -> int:
    """Bytes of address space that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def run_share(share: dict[str, list[int]]) -> tuple[dict[str, Counter[str]], list[str]]:
    """Outcomes of these damaged files by kind, and the foreign ones; a process that dies or hangs is replaced."""
    outcomes: dict[str, Counter[str]] = {name: Counter() for name in share}
    bad: list[str] = []
    left = dict(share)
    while left:
        begun: tuple[str, int] | None = None
        with subprocess.Popen(
            [sys.executable, __file__, "--work", json.dumps(left)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        ) as process:  # fmt: skip
            assert process.stdout is not None
            assert process.stderr is not None
            watch = threading.Timer(0, lambda: None)
            for line in process.stdout:
                watch.cancel()
                watch = threading.Timer(6 * SECONDS, process.kill)  # where even an alarm does not get through
                watch.start()
                word, name, number, *rest = line.rstrip("\n").split("\t", 3)
                begun = (name, int(number)) if word == "begin" else None
                if word == "end":
                    outcome = (
                        rest[0] if rest[0] in ("read", "refused") else "hang" if ".Hang " in rest[0] else "foreign"
                    )
                    outcomes[name][outcome] += 1
                    bad += [f"{name} {number}: {rest[0]}"] * (outcome in ("hang", "foreign"))
            watch.cancel()
            errors = process.stderr.read()
        if process.returncode == 0:
            break
        if begun is None:
            raise RuntimeError(f"the process ended with {process.returncode} beside the files: {errors}")
        name, number = begun
        outcomes[name]["crash"] += 1
        bad.append(f"{name} {number}: the process ended with {process.returncode}: {errors[-300:]!r}")
        left = {n: [number + 1 if n == name else first, last] for n, (first, last) in left.items()}
        left = dict(list(left.items())[list(left).index(name) :])
    return outcomes, bad


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", default="", help="kinds whose name contains this")
    parser.add_argument("--out", type=Path, help="folder whose results/ gets a line per kind")
    parser.add_argument("--work")
    args = parser.parse_args()
    if args.work:
        work(json.loads(args.work))
        return 0
    names = [kind.name for kind in kinds() if args.only in kind.name]
    counts = {name: args.files // len(names) + (i < args.files % len(names)) for i, name in enumerate(names)}
    began = time.perf_counter()
    shares = [{name: [0, counts[name]] for name in names[i :: args.jobs]} for i in range(args.jobs)]
    with ThreadPoolExecutor(args.jobs) as pool:
        results = list(pool.map(run_share, shares))
    outcomes = {name: counter for by_kind, _ in results for name, counter in by_kind.items()}
    bad = [text for _, texts in results for text in texts]
    for name in names:
        print(f"{name:24} {dict(outcomes[name])}")
    print("".join(f"{text}\n" for text in bad), end="")
    total = {word: sum(outcomes[name][word] for name in names) for word in OUTCOMES}
    seconds = round(time.perf_counter() - began, 1)
    print(f"{sum(counts.values()):,} damaged files of {len(names)} kinds in {seconds} s: {total}")
    if args.out:
        from rae.evaluation.ledger import Ledger, provenance

        rows = {name: ({word: outcomes[name][word] for word in OUTCOMES}, counts[name]) for name in names}
        rows["all kinds"] = ({**total, "seconds": seconds}, sum(counts.values()))
        ours = {"table": "damaged-files", "dataset": "damaged", **provenance()}
        lines = [{**ours, "row": row, "settings": {"files": n}, **numbers} for row, (numbers, n) in rows.items()]
        Ledger(args.out / "results").append(lines)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
