"""The real program in a process of its own: exit codes, Ctrl-C, closed pipes, light imports."""

from __future__ import annotations

import io
import os
import select
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import rae.__main__
from rae.cli import main
from rae.cli.demo import _subject, _wrap
from rae.io.embeddings import EmbeddingWriter

pty = pytest.importorskip("pty", reason="there are no pseudo-terminals on Windows")
RAE = [sys.executable, "-m", "rae"]
ENV = {**os.environ, "OMP_NUM_THREADS": "1", "RAE_THREADS": "1", "COLUMNS": "60"}
SMALL = ["--dims", "8,4", "--fanout", "3,3", "--batch-size", "16"]
EDGES = "".join(f"{i},{(7 * i + 3) % 40}\n{i},{(i + 1) % 40}\n" for i in range(40))


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "edges.csv").write_text(EDGES)
    return tmp_path


def test_nothing_heavy_is_imported_for_help():
    heavy = ("torch", "numpy", "pyarrow", "scipy", "sklearn", "numba", "matplotlib")
    code = f"import sys, rae.cli; print([m for m in {heavy} if m in sys.modules])"

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_letters_that_the_output_lacks_are_escaped():
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, "cp1252", newline="\n")
    rae.__main__.print_all_letters(stream)
    print("zürich 東京", file=stream, flush=True)

    assert raw.getvalue() == b"z\xfcrich \\u6771\\u4eac\n"


def test_the_exit_code_reaches_the_shell(here):
    process = subprocess.run([*RAE, "fit", "absent.csv"], capture_output=True, text=True, env=ENV)

    assert process.returncode == 2
    assert process.stdout == ""
    assert process.stderr.startswith("error: ")
    assert process.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("sent", "code", "word"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
)
def test_control_c_or_termination_in_the_middle_of_a_fit_leaves_no_file(here, sent, code, word):
    fit = subprocess.Popen(
        [*RAE, "fit", "edges.csv", "--steps", "1000000", "--out", "run"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENV,
    )
    assert fit.stderr is not None
    try:
        assert "nodes" in fit.stderr.readline()  # the graph is read, the fit begins
        time.sleep(0.5)
        fit.send_signal(sent)
        out, err = fit.communicate(timeout=60)
    finally:
        fit.kill()  # which would go on for hours

    assert fit.returncode == code
    assert out == ""
    assert "Traceback" not in err
    assert err.splitlines()[-1] == f"{word}: no file was left half-written"
    assert sorted(p.name for p in here.iterdir()) == ["edges.csv"]


def test_termination_while_vectors_are_written_leaves_no_file(here, capsys, monkeypatch):
    monkeypatch.setattr(EmbeddingWriter, "append", lambda self, rows: signal.raise_signal(signal.SIGTERM))
    before = signal.getsignal(signal.SIGTERM)

    assert main(["fit", "edges.csv", "--steps", "0", "--out", "run", "--no-page"]) == 143
    assert capsys.readouterr().err.splitlines()[-1] == "terminated: no file was left half-written"
    assert sorted(p.name for p in here.iterdir()) == ["edges.csv"]
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize("whose", ["program", "thread"])
def test_an_existing_sigterm_handler_is_kept(here, capsys, monkeypatch, whose):
    monkeypatch.setattr("rae.cli.program.app.invoke", lambda ctx: handlers.append(signal.getsignal(signal.SIGTERM)))
    handlers: list[object] = []
    before = signal.getsignal(signal.SIGTERM)
    handler = (lambda *_: None) if whose == "program" else before
    signal.signal(signal.SIGTERM, handler)
    try:
        with ThreadPoolExecutor(1) as pool:
            assert (pool.submit(main, ["info"]).result() if whose == "thread" else main(["info"])) == 0
    finally:
        signal.signal(signal.SIGTERM, before)

    assert handlers == [handler]


def test_a_closed_pipe_is_no_error():
    read, write = os.pipe()
    os.close(read)
    process = subprocess.run([*RAE, "--help"], stdout=write, stderr=subprocess.PIPE, text=True, env=ENV)
    os.close(write)

    assert process.returncode == 141
    assert process.stderr == ""


def test_on_a_terminal_of_60_columns_the_bar_fits_and_shows_step_loss_and_rate(here):
    master, slave = pty.openpty()
    fit = subprocess.Popen(
        [*RAE, "fit", "edges.csv", "--steps", "100", *SMALL, "--out", "run", "--no-page"],
        stdout=subprocess.DEVNULL,
        stderr=slave,
        env=ENV,
    )
    os.close(slave)
    text = b""
    while select.select([master], [], [], 60)[0]:
        try:
            text += os.read(master, 4096)
        except OSError:  # the other end is closed
            break
    os.close(master)
    lines = [part for line in text.decode().replace("\r\n", "\n").split("\n") for part in line.split("\r")]
    bars = [line for line in lines if line.startswith("train within  [")]

    assert fit.wait() == 0
    assert bars
    assert max(map(len, bars)) < 60
    assert all("/100  loss " in bar for bar in bars)
    assert any(bar.rstrip().endswith("left") and "/s" in bar for bar in bars)


# ------------------------------------------------------------------------------------- demo


def test_the_demo_shows_look_alikes_and_says_where_things_are(here, capsys):
    from rae import Run

    assert main(["demo"]) == 0
    out, err = capsys.readouterr()

    assert "'s own library: " in err
    assert "ntpath" in out
    assert "explore/index.html" in out
    assert max(len(line) for line in (out + err).splitlines()) <= 60
    assert {"explore/index.html", "roles.parquet"} <= set(Run.open("demo").files())
    assert main(["demo"]) == 2
    assert "--force" in capsys.readouterr().err


def test_names_that_do_not_fit_go_on_in_the_next_line():
    assert _wrap("a", "one.two, three.four, five.six", 20) == [("a", "one.two, three.four,"), ("", "five.six")]
    assert _wrap("a", "", 20) == [("a", "")]


def test_the_demo_labels_modules_by_package_and_single_ones_by_none():
    (column,) = _subject(["os", "email", "email.parser", "json.tool"]).labels

    assert column.levels == ("email", "json")
    assert column.codes.tolist() == [255, 0, 0, 1]
