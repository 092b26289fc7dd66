"""Object stores: the same files, graphs, parts and results by URL, from an S3 server on loopback that tests start."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plain import random_graph
from rae import RAE, Config, build_graph, embed_file, fit_run, open_graph, read_edges, read_embeddings, read_features
from rae.cli.program import main
from rae.engine import TILE, embed_to, models_of
from rae.engine.graph_build import build_by_parts
from rae.engine.layout import Layout
from rae.engine.results import MANIFEST
from rae.engine.shared import discard, share
from rae.errors import ConfigError, FileError, RunError
from rae.pipeline import copied_folder
from rae.run import Run
from rae.storage.objects import ObjectPath, is_url, place, without_secrets
from rae.storage.parts import Parts

SECRET = "a-secret-that-no-message-shows"


def server_program():
    """moto's server, which speaks S3, beside this Python or on the PATH."""
    program = Path(sys.executable).with_name("moto_server")
    return str(program) if program.is_file() else shutil.which("moto_server")


@pytest.fixture(scope="module")
def s3():
    """The URL of an empty bucket on a server of S3 that listens on loopback."""
    program = server_program()
    if program is None:
        pytest.skip("moto_server is not installed (pip install 'moto[s3]' flask flask-cors)")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [program, "-H", "127.0.0.1", "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            try:
                urllib.request.urlopen(urllib.request.Request(f"{address}/calls", method="PUT"), timeout=5).close()
                break
            except OSError:
                time.sleep(0.1)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("AWS_ENDPOINT_URL", address)
            patch.setenv("AWS_ACCESS_KEY_ID", "me")
            patch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
            patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
            yield "s3://calls"
    finally:
        server.terminate()
        server.wait()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """An edge table in three Parquet files, a table of features and a CSV, on disk."""
    folder = tmp_path_factory.mktemp("files")
    graph = random_graph(3000, 9000, seed=1)
    rows = np.repeat(np.arange(3000), np.diff(graph.offsets))
    once = rows < graph.targets
    edges = pa.table({"source": rows[once], "target": graph.targets[once]})
    (folder / "edges").mkdir()
    for i in range(3):
        pq.write_table(edges.slice(i * 3000, 3000), folder / "edges" / f"{i}.parquet")
    rng = np.random.default_rng(0)
    pq.write_table(
        pa.table({"id": np.arange(3000), "age": rng.random(3000), "sum": rng.random(3000)}), folder / "x.parquet"
    )
    np.save(folder / "x.npy", rng.random((3000, 4)).astype(np.float32))
    (folder / "few.csv").write_text("a,b\n1,2\n2,3\n3,1\n")
    return folder


@pytest.fixture(scope="module", params=["s3", "file"])
def store(request, files, tmp_path_factory):
    """The files in a store: of S3, or a folder by its URL."""
    base = request.getfixturevalue("s3") if request.param == "s3" else f"file://{tmp_path_factory.mktemp('store')}"
    for path in files.rglob("*"):
        if path.is_file():
            (ObjectPath(base) / "in" / path.relative_to(files).as_posix()).upload(path)
    return base


def test_tables_arrays_and_graphs_are_read_from_a_store_as_from_a_disk(store, files):
    graph = read_edges(files / "edges")
    there = read_edges(f"{store}/in/edges/")
    assert there.id_column.equals(graph.id_column)
    assert np.array_equal(there.targets, graph.targets)
    assert read_edges(f"{store}/in/few.csv").n_edges == 3
    assert np.array_equal(read_features(f"{store}/in/x.npy"), np.load(files / "x.npy"))
    here = read_features(files / "x.parquet")
    assert np.array_equal(read_features(f"{store}/in/x.parquet").matrix, here.matrix)


def test_a_fit_from_a_store_into_a_store_is_that_of_a_disk(store, files, tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    here = fit_run(files / "edges", files / "x.parquet", out=tmp_path / "here", page=False)
    run = fit_run(f"{store}/in/edges/", f"{store}/in/x.parquet", out=f"{store}/out/run", page=False)
    assert (run.path / "embeddings.parquet").read_bytes() == (here.path / "embeddings.parquet").read_bytes()
    assert run.path == copied_folder(place(f"{store}/out/run"))
    assert run.path != copied_folder(place(f"{store}/other/run"))
    with pytest.raises(RunError, match=r"folder of this machine, got .*out/run; copy it here"):
        Run.open(f"{store}/out/run")
    with pytest.raises(FileError, match="out/run exists; choose another out"):
        fit_run(f"{store}/in/edges/", out=f"{store}/out/run", page=False)

    embedded = embed_file(
        f"{store}/out/run", f"{store}/in/edges/", f"{store}/in/x.parquet", out=f"{store}/out/z.parquet"
    )
    assert embedded.path.read_bytes() == (here.path / "embeddings.parquet").read_bytes()
    assert np.array_equal(read_embeddings(f"{store}/out/z.parquet")[1], here.embeddings()[1])
    assert embedded.n_bytes == (here.path / "embeddings.parquet").stat().st_size
    with pytest.raises(FileError, match="exists; choose another out"):
        embed_file(here.path, files / "edges", files / "x.parquet", out=f"{store}/out/z.parquet")

    model = f"{store}/out/run/model.safetensors"
    folder = f"{store}/out/vectors/"
    embed_file(model, f"{store}/in/edges/", f"{store}/in/x.parquet", out=folder, memory="2GiB")
    ids, z = read_embeddings(folder)
    assert ids.equals(here.embeddings()[0])
    assert np.array_equal(z, here.embeddings()[1])
    manifest = json.loads((place(folder) / MANIFEST).read_bytes())
    assert manifest["rows"] == 3000
    left = [child.name for child in place(f"{store}/out").iterdir()]
    assert not [name for name in left if name.endswith(".parts") and place(f"{store}/out/{name}").is_file()]
    assert SECRET not in caplog.text


def test_a_graph_folder_is_built_into_a_store_and_opened_from_it(store, files, tmp_path, capsys):
    build_graph(files / "edges", tmp_path / "graph")
    assert main(["graph", "build", f"{store}/in/edges", "--out", f"{store}/graph", "--quiet"]) == 0
    assert f"written  {store}/graph (4 files" in capsys.readouterr().out
    with pytest.raises(FileError, match="graph exists; choose another name"):
        build_graph(files / "edges", f"{store}/graph")
    here, there = open_graph(tmp_path / "graph"), open_graph(f"{store}/graph", verify=True)
    assert np.array_equal(here.targets, there.targets)
    assert fit_run(f"{store}/graph", out=tmp_path / "run", page=False).counts["nodes"] == here.n_nodes


class Described:
    """Every task by the job that its description opens, as a worker of a cluster does."""

    def run(self, job, tasks):
        return (job.description.perform(task) for task in tasks)


def test_a_graph_folder_is_built_by_parts_from_a_store_into_a_store(store, files, tmp_path):
    build_graph(files / "edges", tmp_path / "graph")
    graph = build_by_parts(f"{store}/in/edges/", f"{store}/parts/graph", Described(), unit=2000)
    assert np.array_equal(graph.targets, open_graph(tmp_path / "graph").targets)
    for path in (tmp_path / "graph").iterdir():
        assert (place(f"{store}/parts/graph") / path.name).read_bytes() == path.read_bytes(), path.name
    assert not place(f"{store}/parts/graph.parts/manifest.json").exists()
    with pytest.raises(FileError, match="graph exists; choose another name"):
        build_by_parts(f"{store}/in/edges/", f"{store}/parts/graph", Described())


def test_parts_and_inputs_in_a_store_give_the_bytes_of_one_machine(store, files, tmp_path):
    graph = read_edges(files / "edges")
    model = RAE(Config(steps=0, dims=(8,), fanout=(3,))).fit(graph)
    models = models_of(model.fitted, graph)
    shared = share(ObjectPath(f"{store}/z.inputs"), models, model.fitted)
    options = {"cut": Layout(TILE, 16), "blocks": model.blocks, "shared": shared}

    embed_to(f"{store}/vectors", models, executor=Described(), in_folder=True, **options)
    discard(ObjectPath(f"{store}/z.inputs"))
    assert np.array_equal(read_embeddings(f"{store}/vectors")[1], model.transform(graph))
    assert not (ObjectPath(store) / "z.inputs/model.safetensors").exists()


def test_a_part_that_was_not_written_to_its_end_counts_as_absent(store, monkeypatch):
    parts = Parts.open(f"{store}/some.parts", {"job": 1})
    rows = np.arange(5000, dtype=np.float32)
    parts.write("whole", [rows])
    monkeypatch.setattr("rae.storage.parts._write_all", lambda file, data: file.write(data[: len(data) // 2]))
    parts.write("half", [rows])
    again = Parts.open(f"{store}/some.parts", {"job": 1})
    assert again.has("whole")
    assert not again.has("half")
    assert np.array_equal(again.read("whole", (5000,)), rows)
    other = Parts.open(f"{store}/some.parts", {"job": 2})
    assert not other.has("whole")
    other.remove()


class Refusing(BaseHTTPRequestHandler):
    """A store where uploads begin, and no part is taken: its disk is full."""

    def do_POST(self):
        self.answer(200, "<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>")

    def do_PUT(self):
        self.answer(403, "<Error><Code>QuotaExceeded</Code><Message>the disk is full</Message></Error>")

    def answer(self, code, text):
        self.close_connection = True
        self.send_response(code)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *words):
        """Nothing."""


def test_an_upload_of_which_the_store_refuses_a_part_is_an_error(tmp_path, monkeypatch):
    (tmp_path / "large").write_bytes(os.urandom(12 << 20))
    with HTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "me")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        with pytest.raises(FileError, match=r"s3://full/large cannot be read or written \(.*") as error:
            ObjectPath("s3://full/large").upload(tmp_path / "large")
        server.shutdown()
    assert re.search("disk is full|QuotaExceeded|Connection", str(error.value), re.IGNORECASE)


def test_what_is_not_there_is_one_sentence_without_credentials(s3, monkeypatch, tmp_path):
    with pytest.raises(FileError, match="there is no object s3://calls/nothing"):
        read_edges(f"{s3}/nothing.parquet")
    with pytest.raises(FileError, match=r"s3://no-such-bucket/x\.parquet"):
        read_edges("s3://no-such-bucket/x.parquet")
    with pytest.raises(FileError, match=r"https://example\.org/x\.csv is an address; download it first"):
        read_edges("https://example.org/x.csv")
    with pytest.raises(FileError, match="names no bucket"):
        read_edges("s3://")
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT", raising=False)
    with pytest.raises(FileError, match="set AZURE_STORAGE_ACCOUNT"):
        read_edges("az://container/x.parquet")
    run = fit_run(read_edges_of(tmp_path), out=tmp_path / "run", page=False)
    with pytest.raises(ConfigError, match="writes one file to a folder of all hosts"):
        embed_file(run.path, tmp_path / "e.csv", out=f"{s3}/z.parquet", ray="local")


def read_edges_of(folder):
    (folder / "e.csv").write_text("a,b\n" + "".join(f"{i},{i * 7 % 50}\n" for i in range(1, 50)))
    return folder / "e.csv"


def test_urls_are_told_from_paths_and_shown_without_secrets(tmp_path):
    assert is_url("s3://b/x")
    assert not is_url("https://x/y")
    assert not is_url(tmp_path)
    path = ObjectPath("s3://me:word@b/x/y.tar.gz?access_key=k&region=eu")
    assert str(path) == "s3://b/x/y.tar.gz?access_key=...&region=eu"
    assert (path.name, path.suffix, path.suffixes) == ("y.tar.gz", ".gz", [".tar", ".gz"])
    assert (path / "z").url == "s3://me:word@b/x/y.tar.gz/z?access_key=k&region=eu"
    assert without_secrets("no url") == "no url"


def test_a_store_of_google_that_does_not_answer_is_given_up_with_a_sentence(monkeypatch):
    monkeypatch.setattr("rae.storage.objects.GS_SECONDS", 1)  # without a limit its library tries for 15 minutes
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"gs://anonymous@bucket/calls/?scheme=http&endpoint_override=127.0.0.1:{port}"
    with pytest.raises(FileError, match=r"gs://bucket/calls.* cannot be read or written .*; check its name"):
        read_edges(url)
