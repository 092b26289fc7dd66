"""Documentation is executed: README, docs and examples."""

from __future__ import annotations

import importlib.util
import re
import runpy
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])


def _blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the files that the shell examples speak of."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    calls = rng.integers(0, 60, (200, 2))
    (tmp_path / "calls.csv").write_text("caller,called\n" + "".join(f"u{a},u{b}\n" for a, b in calls))
    more = rng.integers(0, 80, (300, 2))
    (tmp_path / "tomorrow.csv").write_text("caller,called\n" + "".join(f"u{a},u{b}\n" for a, b in more))
    rows = "".join(f"u{i},{i % 7},{i / 9}\n" for i in range(55))
    (tmp_path / "accounts.csv").write_text("id,calls,spent\n" + rows)
    bought = "".join(f"u{i},item{i % 5}\nu{i},item{i % 3}\n" for i in range(50))
    (tmp_path / "bought.csv").write_text("id,item\n" + bought)
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_the_python_of_a_page_runs(page, folder):
    names: dict[str, object] = {}
    for block in _blocks(page, "python"):
        exec(compile(block, page.name, "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_the_shell_of_a_page_runs(page, folder):
    from rae.cli import app
    from rae.cli.console import Console

    for block in _blocks(page, "console"):
        for line in re.findall(r"^\$ (.*)$", block, re.M):
            program, *words = shlex.split(line, comments=True)
            if program == "make":  # needs a network and minutes; the names must exist
                targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M)
                assert set(words) <= set(targets), line
                continue
            assert program == "rae", line
            done = CliRunner().invoke(app, words, obj=Console())
            assert done.exit_code == 0, f"{line}\n{done.output}\n{done.exception!r}"


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.name)
def test_an_example_runs(example, folder):
    runpy.run_path(str(example), run_name="__main__")


def _make():
    spec = importlib.util.spec_from_file_location("make_docs", ROOT / "docs" / "make.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_pages_are_up_to_date():
    for name, make in _make().PAGES.items():
        assert (ROOT / "docs" / name).read_text(encoding="utf-8") == make(), "run: make docs"


def test_links_between_pages_lead_somewhere():
    for page in [*PAGES, ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} points to {target}"


def test_the_files_that_the_architecture_page_names_exist():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:[a-z_]+/)*[a-z_*]+\.(?:py|c|toml))`", text)
    missing = [path for path in named if not any([*(ROOT / "src" / "rae").glob(path), *ROOT.glob(path)])]
    assert len(named) > 50
    assert missing == []


def test_the_modules_of_a_command_are_traced():
    script = runpy.run_path(str(ROOT / "docs" / "trace_fit.py"), run_name="not main")

    assert script["trace"](["--version"])["cli/program.py"][0] == "main"


def test_every_benchmark_can_be_asked_what_it_does():
    for script in sorted((ROOT / "benchmarks").glob("*.py")):
        assert (runpy.run_path(str(script), run_name="not main")["__doc__"] or "").strip(), script.name


@pytest.fixture(autouse=True)
def _benchmarks_import_each_other(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
