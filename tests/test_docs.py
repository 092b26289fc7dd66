"""Documentation is executed: README, docs and examples."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import platform
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import postgres

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.M | re.S)
# Outputs are compared where the pages were written: the standard library is another one in another Python, and
# floats may differ in the last digit on another machine.
COMPARED = (sys.version_info[:2], sys.platform, platform.machine()) == ((3, 11), "linux", "x86_64")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the files that the shell examples speak of."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    calls = rng.integers(0, 60, (200, 2))
    (tmp_path / "calls.csv").write_text("caller,called\n" + "".join(f"u{a},u{b}\n" for a, b in calls))
    more = np.concatenate([calls[10:], rng.integers(0, 80, (60, 2))])  # most of today's, with new calls and callers
    (tmp_path / "tomorrow.csv").write_text("caller,called\n" + "".join(f"u{a},u{b}\n" for a, b in more))
    rows = "".join(f"u{i},{i % 7},{i / 9}\n" for i in range(55))
    (tmp_path / "accounts.csv").write_text("id,calls,spent\n" + rows)
    bought = "".join(f"u{i},item{i % 5}\nu{i},item{i % 3}\n" for i in range(50))
    (tmp_path / "bought.csv").write_text("id,item\n" + bought)
    return tmp_path


@pytest.fixture
def stores(monkeypatch):
    """The libraries of all stores, and a PostgreSQL with pgvector in DATABASE_URL."""
    for module in ("duckdb", "lance", "onnxruntime", "psycopg", "qdrant_client"):
        pytest.importorskip(module, reason="an extra of rae export is not installed")
    with postgres.server(with_pgvector=True) as dsn:
        monkeypatch.setenv("DATABASE_URL", dsn)
        yield


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_the_code_of_a_page_runs(page, folder, request):
    """In the order of the page: Python and commands see each other's files. A text block after it is what it prints."""
    if page.name == "export.md":
        request.getfixturevalue("stores")
    names: dict[str, object] = {}
    for language, code, expected in BLOCK.findall(page.read_text(encoding="utf-8")):
        printed = _python(code, page.name, names) if language == "python" else _shell(code)
        if COMPARED:
            missing = [line for line in expected.splitlines() if line not in printed.splitlines()]
            assert missing == [], f"{page.name} shows lines that its code does not print; it prints:\n{printed}"


def _python(code: str, name: str, names: dict[str, object]) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(code, name, "exec"), names)
    return printed.getvalue()


def _shell(block: str) -> str:
    from rae.cli import app
    from rae.cli.console import Console

    printed = []
    for line in re.findall(r"^\$ (.*)$", block, re.M):
        program, *words = shlex.split(line, comments=True)
        if program == "make":  # needs a network and minutes; the names must exist
            targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M)
            assert set(words) <= set(targets), line
        elif program == "pip":
            assert words[0] == "install", line
        else:
            assert program == "rae", line
            result = CliRunner().invoke(app, words, obj=Console())
            assert result.exit_code == 0, f"{line}\n{result.output}\n{result.exception!r}"
            printed.append(result.stdout)
    return "\n".join(printed)


def test_the_readme_has_five_lines_of_code_that_end_in_words():
    language, code, printed = BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))[1]
    assert language == "python"
    assert len([line for line in code.splitlines() if line.strip()]) == 5
    assert re.match(r"smtplib is like imaplib", printed)


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.name)
def test_an_example_runs(example, folder):
    runpy.run_path(str(example), run_name="__main__")


def test_the_manifest_for_kubernetes_asks_for_a_token_and_gives_a_command_that_rae_takes():
    yaml = pytest.importorskip("yaml")
    from rae.cli import app

    spec = yaml.safe_load((ROOT / "examples" / "rayjob.yaml").read_text(encoding="utf-8"))["spec"]
    program, command, *words = shlex.split(spec["entrypoint"])
    assert program == "rae"
    parameters = app.commands[command].make_context(command, words).params
    assert parameters["ray"] == "auto"
    assert parameters["out"].startswith("s3://")
    cluster = spec["rayClusterSpec"]
    assert cluster["authOptions"] == {"mode": "token"}
    assert f"ray=={cluster['rayVersion']}" in (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    pods = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    for pod in pods:
        (container,) = pod["template"]["spec"]["containers"]
        assert {"name": "RAY_USAGE_STATS_ENABLED", "value": "0"} in container["env"]


def _module_of_docs(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def test_generated_pages_and_numbers_are_up_to_date():
    numbers, make = _module_of_docs("ledger_numbers"), _module_of_docs("make")
    for name, page in make.PAGES.items():
        assert (ROOT / "docs" / name).read_text(encoding="utf-8") == page(), "run: make generate"
    marked = make.marked_pages()
    assert ROOT / "README.md" in marked
    for page in marked:
        text = page.read_text(encoding="utf-8")
        assert text == numbers.filled(text), f"{page.name}: run: make generate"


def test_a_mark_calls_a_known_function_with_literals():
    numbers = _module_of_docs("ledger_numbers")
    cell = 'score("node", "J_within", "cora")'
    value = numbers.evaluate(cell)
    assert numbers.filled(f"Cora: <!--= {cell} -->0<!--/-->.") == f"Cora: <!--= {cell} -->{value}<!--/-->."
    with pytest.raises(ValueError, match="must call one of"):
        numbers.evaluate("open('x')")
    with pytest.raises(ValueError, match="malformed"):
        numbers.evaluate("score(table, 'J_within', 'cora')")
    with pytest.raises(AssertionError, match="has no line"):
        numbers.evaluate('score("node", "J_within", "mars")')
    with pytest.raises(ValueError, match="must not begin a line"):
        numbers.filled(f"text\n<!--= {cell} -->0<!--/--> more")


def test_links_between_pages_lead_somewhere():
    for page in [*PAGES, ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} points to {target}"


def test_every_public_name_is_in_the_reference():
    import rae

    text = "".join((ROOT / "docs" / page).read_text(encoding="utf-8") for page in ("api.md", "settings.md"))
    assert [name for name in rae.__all__ if not re.search(rf"\brae\.{name}\b", text)] == []


def test_every_page_is_in_the_menu():
    menu = re.findall(r"<(.+)>$", (ROOT / "docs" / "index.md").read_text(encoding="utf-8"), re.M)
    pages = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.ipynb")]
    names = {page.relative_to(ROOT / "docs").with_suffix("").as_posix() for page in pages}
    assert names - {"index"} <= set(menu)


def test_a_table_has_no_paragraphs():
    for page in PAGES:
        most = 25 if page.name == "README.md" else 60
        cells = re.findall(r"(?<=\|)[^|\n]+(?=\|)", page.read_text(encoding="utf-8"))
        assert [cell for cell in cells if len(cell.split()) > most] == [], page.name


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_fetches_nothing(tmp_path):
    for module in ("sphinx", "furo", "myst_nb"):
        pytest.importorskip(module, reason="the extra docs is not installed")
    command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going", ROOT / "docs", tmp_path]
    process = subprocess.run(command, capture_output=True, text=True)
    assert (process.returncode, process.stderr) == (0, "")
    for page in tmp_path.rglob("*.html"):
        loaded = re.findall(r"<(?:script|link|img|iframe|source)\b[^>]*https?:[^>]*>", page.read_text(encoding="utf-8"))
        assert loaded == [], page.name


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
