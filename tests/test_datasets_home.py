"""Files come from the data folders, or are downloaded whole and verified, or not kept at all."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import logging
import threading
from pathlib import Path

import pytest

from rae import datasets
from rae.datasets import home as home_module
from rae.datasets.home import Home, cache_folder, read_bytes
from rae.datasets.sources import SOURCES, Source
from rae.errors import DatasetError

CONTENT = b"0 1\n1 2\n"
PATH = "struc2vec/karate-mirrored.edgelist"


class _Server(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/gone":
            self.send_error(404)
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(CONTENT)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def address():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Server) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def _source(url, content=CONTENT, size=None):
    return Source(url, len(content) if size is None else size, hashlib.sha256(content).hexdigest())


def _files(folder: Path):
    return [p for p in folder.rglob("*") if p.is_file()]


def test_a_file_is_downloaded_once_and_then_found(address, tmp_path, caplog):
    home = Home(None, tmp_path / "cache", {PATH: _source(f"{address}/file")})
    with caplog.at_level(logging.INFO, "rae.datasets"):
        graph = datasets.load("karate-mirrored", home=home).graph
    assert "downloading" in caplog.text
    assert "100 %" in caplog.text

    unreachable = Home(None, tmp_path / "cache", {PATH: _source("http://127.0.0.1:9/file")})

    assert graph.n_edges == datasets.load("karate-mirrored", home=unreachable).graph.n_edges == 2
    assert [p.name for p in _files(tmp_path)] == ["karate-mirrored.edgelist"]


def test_a_local_address_works_too_and_progress_is_logged_ten_times(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(home_module, "_CHUNK_BYTES", 5)
    content = bytes(range(100))
    (tmp_path / "public").write_bytes(content)
    home = Home(None, tmp_path / "cache", {PATH: _source((tmp_path / "public").as_uri(), content)})
    with caplog.at_level(logging.INFO, "rae.datasets"):
        assert home.get(PATH).read_bytes() == content

    assert [r.getMessage().strip() for r in caplog.records if "%" in r.getMessage()] == [
        f"{10 * i} %" for i in range(1, 11)
    ]


def test_a_wrong_checksum_is_refused_and_nothing_is_kept(address, tmp_path):
    wrong = Source(f"{address}/file", len(CONTENT), hashlib.sha256(b"another").hexdigest())

    with pytest.raises(DatasetError, match=r"should have the SHA-256 sum .* nothing was kept"):
        Home(None, tmp_path, {PATH: wrong}).get(PATH)
    assert _files(tmp_path) == []


def test_a_longer_answer_is_cut_off_and_nothing_is_kept(address, tmp_path, monkeypatch):
    monkeypatch.setattr(home_module, "_CHUNK_BYTES", 2)

    with pytest.raises(DatasetError, match="should have 3 bytes and sends more"):
        Home(None, tmp_path, {PATH: _source(f"{address}/file", size=3)}).get(PATH)
    assert _files(tmp_path) == []


@pytest.mark.parametrize("url", ["{address}/gone", "http://127.0.0.1:9/closed", "file:///no/such/file", "no address"])
def test_a_failed_download_says_where_to_put_the_file(url, address, tmp_path):
    home = Home(tmp_path / "data", tmp_path / "cache", {PATH: _source(url.format(address=address))}, timeout=5)

    with pytest.raises(DatasetError, match=f"could not download .*put the file at {tmp_path}/data/{PATH} or"):
        home.get(PATH)
    assert _files(tmp_path) == []


def test_a_file_without_a_public_home_says_where_to_put_it(tmp_path):
    path = "web-Google/web_Google.txt.gz"
    assert SOURCES[path].url is None

    with pytest.raises(
        DatasetError, match=f"no download that can be checked; put .* {tmp_path}/{path}, or set RAE_DATA"
    ):
        datasets.load("web-Google", home=Home(None, tmp_path))


def test_the_named_folder_comes_before_the_cache(tmp_path):
    for folder in ("data", "cache"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a").write_text(folder)
    (tmp_path / "cache" / "b").write_text("cache")
    home = Home(tmp_path / "data", tmp_path / "cache", {})

    assert home.get("a").read_text() == "data"
    assert home.get("b").read_text() == "cache"
    assert home.find("c") is None


def test_files_put_by_hand_need_no_checksum(tmp_path):
    (tmp_path / "struc2vec").mkdir()
    (tmp_path / PATH).write_bytes(b"5 6\n")

    assert datasets.load("karate-mirrored", home=Home(tmp_path, tmp_path)).graph.n_nodes == 2


def test_the_environment_names_the_folders(monkeypatch, tmp_path):
    monkeypatch.setenv("RAE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert Home.from_environment() == Home(tmp_path / "data", tmp_path / "cache" / "rae")

    monkeypatch.setenv("RAE_DATA", "")
    assert Home.from_environment().folder is None


@pytest.mark.parametrize(
    ("platform", "folder"), [("linux", ".cache/rae"), ("darwin", "Library/Caches/rae"), ("win32", "AppData/Local/rae")]
)
def test_every_platform_has_its_cache_folder(platform, folder, monkeypatch, tmp_path):
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(home_module.sys, "platform", platform)

    assert cache_folder() == tmp_path / folder


def test_every_source_has_a_checksum_and_a_safe_address():
    assert len(SOURCES) > 40
    for path, source in SOURCES.items():
        assert len(source.sha256) == 64
        assert source.size > 0
        assert source.url is None or (source.url.startswith("https://") and source.url.endswith(path.split("/")[1]))


def test_compressed_files_are_read_up_to_a_limit(tmp_path):
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"0" * 5000))
    (tmp_path / "b.gz").write_bytes(gzip.compress(b"0" * 5000)[:20])

    assert len(read_bytes(tmp_path / "a.gz", 5000)) == 5000
    with pytest.raises(DatasetError, match="should have 4,999 bytes at most"):
        read_bytes(tmp_path / "a.gz", 4999)
    with pytest.raises(DatasetError, match="could not read"):
        read_bytes(tmp_path / "b.gz")
    with pytest.raises(DatasetError, match="could not read"):
        read_bytes(tmp_path / "absent")


@pytest.mark.data
def test_the_public_files_have_the_checksums_of_the_sources(data_home):
    for path, source in SOURCES.items():
        if (data_home / path).is_file() and source.size < 1 << 21:
            assert hashlib.sha256((data_home / path).read_bytes()).hexdigest() == source.sha256, path
