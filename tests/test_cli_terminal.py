"""Nothing of a file or an argument reaches the terminal as a command; ids that begin with a dash are ids."""

from __future__ import annotations

import io
import sys

import pytest

from rae.cli import main
from rae.cli.console import Console, columns
from rae.display import printable
from rae.pipeline import fit_run

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e"  # renames the window, clears it, turns the order of letters
IN_WORDS = r"\x1b]0;owned\x07\x1b[2J\x9b31m\u202e"


class Terminal(io.StringIO):
    """A stream that says it is a terminal: click leaves escapes alone there."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch):
    """Call the command line with terminals for its streams; exit code, output and errors come back."""

    def call(*args):
        out, err = Terminal(), Terminal()
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(sys, "stderr", err)
        return main([str(a) for a in args]), out.getvalue(), err.getvalue()

    return call


def assert_harmless(*texts):
    for text in texts:
        plain = text.replace("\x1b[?25l", "").replace("\x1b[?25h", "")
        assert all(c.isprintable() or c in "\n\t" for c in plain if c != "\r")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run whose ids, labels, features and names have escapes in them."""
    folder = tmp_path_factory.mktemp("evil")
    (folder / "e.csv").write_text(
        "source,target\n" + "".join(f'"{EVIL}{a}","{EVIL}{b}"\n' for a, b in [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4)])
    )
    rows = "".join(f'"{EVIL}{i}",{i},"{EVIL} town {i % 2}","name {EVIL}{i}"\n' for i in range(5))
    (folder / "x.csv").write_text(f'id,"size{EVIL}",town,name\n' + rows)
    fitted = fit_run(folder / "e.csv", folder / "x.csv", out=folder / "run", page=False, id="id", drop=["name"])
    fitted.set_names(folder / "x.csv", column="name")
    fitted.fit_roles(2)
    return fitted


def test_ids_names_and_labels_are_printed_harmlessly(run, terminal):
    table = run.path.parent / "x.csv"
    for args in (
        ("similar", run.path, f"{EVIL}1"),
        ("roles", run.path),
        ("roles", run.path, "--labels", table, "--label-column", "town"),
        ("roles", run.path, "--against", run.path),
        ("info", run.path),
        ("plan", run.path.parent / "e.csv", "--features", table, "--verbose"),
    ):
        code, out, err = terminal(*args)
        assert code == 0, err
        assert_harmless(out, err)
    assert IN_WORDS in terminal("similar", run.path, f"{EVIL}1")[1]


def test_errors_warnings_and_notes_are_printed_harmlessly(run, terminal, tmp_path):
    (tmp_path / "one.csv").write_text(f"{EVIL}a\n{EVIL}b\n".replace(";", ""))
    (tmp_path / "three.csv").write_text(f"{EVIL},w,x\na,b,c\nb,c,d\n")
    for args in (
        ("similar", run.path, f"{EVIL}9"),
        ("similar", run.path, f"a\n{EVIL}"),
        ("similar", f"no{EVIL}", "x"),
        ("fit", tmp_path / "one.csv", "--out", tmp_path / "a"),
        ("plan", tmp_path / "three.csv", "--source", f"{EVIL}x"),
        ("fit", tmp_path / f"{EVIL}.csv"),
        (f"f{EVIL}it",),
        ("fit", "x", f"--{EVIL}"),
    ):
        code, out, err = terminal(*args)
        assert code == 2
        assert err.startswith("error: ")
        assert err.rstrip("\n").count("\n") == 0
        assert_harmless(out, err)
    _, out, err = terminal("plan", tmp_path / "three.csv", "--no-header", "--verbose")
    assert_harmless(out, err)


def test_json_has_the_ids_as_they_are(run, terminal):
    import json

    out = terminal("similar", run.path, f"{EVIL}1", "--json", "--quiet")[1]
    assert_harmless(out)
    assert json.loads(out)["similar"][0]["id"] == f"{EVIL}1"


def test_a_cell_is_one_line():
    assert columns([("a\nb", "c\rd")]) == r"a\nb  c\rd"
    assert printable("Zoë 名前 \ud800") == "Zoë 名前 \\ud800"


def test_the_console_prints_halves_of_pairs(capsys):
    Console().result("a \ud800", {})
    assert capsys.readouterr().out == "a \\ud800\n"


# ------------------------------------------------------------------------------------------ ids with a dash


@pytest.fixture(scope="module")
def negative(tmp_path_factory):
    folder = tmp_path_factory.mktemp("negative")
    (folder / "e.csv").write_text("source,target\n-1,0\n0,1\n1,-1\n1,-20\n-20,3\n3,0\n")
    return fit_run(folder / "e.csv", out=folder / "run", page=False).path


def test_negative_ids_need_nothing(negative, rae):
    code, out, _ = rae("similar", negative, "-1", "3", "-20", "-k", "1")
    assert code == 0
    assert [line for line in out.splitlines() if line.startswith("most")] == [
        "most alike to -1", "most alike to 3", "most alike to -20",
    ]  # fmt: skip
    assert rae("similar", negative, "-1") == rae("similar", negative, "--", "-1")
    assert "no node '-7'" in rae("similar", negative, "-7")[2]
    assert "nothing at -1" in rae("similar", "-1", "3")[2]
    assert rae("similar", negative, "-k", "-1", "3")[0] == 2


def test_other_ids_with_a_dash_go_after_two_dashes(negative, rae):
    assert "an id that begins with - goes after --, as in: rae similar RUN -- ID" in rae("similar", negative, "-x")[2]
    assert "did you mean --weights?" in rae("similar", negative, "--weight", "place=1", "3")[2]
    assert "no node '-x'" in rae("similar", negative, "--", "-x")[2]
