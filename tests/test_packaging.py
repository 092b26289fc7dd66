"""The package: one name, one version, wheels that say what is in them, and files that agree with each other."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import rae
from rae.ops import library
from rae.version import DISTRIBUTION, versions_of

ROOT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TEXTS = {".cff", ".md", ".mk", ".py", ".toml", ".txt", ".yml", ".html", ".js", ".mjs", ".ipynb", ".json", ""}
MADE = {
    ".pytest_cache",
    "build",
    "demo",
    "dist",
    "htmlcov",
    "jupyter_execute",
    "runs",
    "site",
}  # as .gitignore has them
NOT_OURS = MADE | {".git", ".venv", "node_modules", "results", "package-lock.json"}
# An install line of the other project of that name, or an extra of it.
FOREIGN = re.compile(
    r"(?:pip3?|pipx|uv(?:x| add| tool)?) (?:install|run|add|-)[^\n`&|;]*?(?<![\w./-])rae(?:[\s'\"`,;)=<>~]|$)"
)
FOREIGN_EXTRA = re.compile(
    r"(?<![\w.-])rae\\?\[(?:all|bench|dev|docs|duckdb|lance|networkx|onnx|pandas|pgvector|polars|pyg|qdrant|search)\b"
)


def _our_texts():
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in NOT_OURS and not name.endswith((".egg-info", "cache__"))]
        for path in (Path(folder, name) for name in files if name not in NOT_OURS):
            if path.suffix in TEXTS and path != Path(__file__):
                yield path, path.read_text(encoding="utf-8", errors="replace")


def _foreign(text: str) -> list[str]:
    lines = [line for line in text.splitlines() if not re.search(r"--(?:from|spec)\b", line)]
    matches = [match for line in lines for match in (FOREIGN.search(line), FOREIGN_EXTRA.search(line)) if match]
    return [match.group() for match in matches]


@pytest.mark.parametrize(
    "line",
    [
        "pip install rae",
        "pip install 'rae[pandas]'",
        "python -m pip install -U rae",
        "uvx run rae",
        "raise X('rae[bench]')",
    ],
)
def test_an_install_line_of_the_other_rae_is_found(line):
    assert _foreign(line)


@pytest.mark.parametrize(
    "line",
    [
        "pip install 'role-action-embeddings[pandas]'",
        "pip install . && rae demo",
        "uvx --from role-action-embeddings rae demo",
        "pip uninstall rae",
        "rae[name] = 3",
    ],
)
def test_other_lines_are_not(line):
    assert not _foreign(line)


def test_no_file_tells_to_install_the_other_rae():
    texts = dict(_our_texts())
    assert {ROOT / "README.md", ROOT / "pyproject.toml", ROOT / "src" / "rae" / "errors.py"} <= texts.keys()

    assert {str(path.relative_to(ROOT)): lines for path, text in texts.items() if (lines := _foreign(text))} == {}


def test_the_distribution_has_one_name_in_metadata_and_messages():
    own = [
        text for extra in PROJECT["optional-dependencies"].values() for text in extra if text.startswith(DISTRIBUTION)
    ]
    named = {name for text in own for name in re.search(r"\[(.*)\]", text)[1].split(",")}

    assert PROJECT["name"] == DISTRIBUTION
    assert named <= PROJECT["optional-dependencies"].keys()
    assert set(PROJECT["scripts"]) == {"rae", DISTRIBUTION}  # the second is what `uvx` and `pipx run` look for
    assert len(set(PROJECT["scripts"].values())) == 1


def test_the_version_is_written_once():
    written = [path for path, text in _our_texts() if re.search(rf'"{re.escape(rae.__version__)}"', text)]

    assert written == [ROOT / "src" / "rae" / "version.py"]
    assert PROJECT["dynamic"] == ["version"]
    assert PYPROJECT["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "rae.version.__version__"}
    assert versions_of() == {"rae": rae.__version__}


def test_the_citation_names_this_version_and_the_paper():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")

    assert f"\nversion: {rae.__version__}\n" in text
    assert "family-names: Berry" in text
    assert "10.48550/arXiv.1811.08019" in text


def test_the_changelog_begins_with_what_is_unreleased():
    titles = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)

    assert titles[0] == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", title) for title in titles[1:])


def test_every_python_of_the_classifiers_is_in_the_workflows():
    pythons = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["classifiers"]))
    matrices = [
        line for path in WORKFLOWS for line in re.findall(r"python: \[(.*)\]", path.read_text(encoding="utf-8"))
    ]

    assert f">={pythons[0]}" == PROJECT["requires-python"]
    assert len(matrices) == 2
    assert all(re.findall(r'"(3\.\d+)"', line) == pythons for line in matrices)


def test_the_extra_leaves_gensim_out_where_the_baseline_says_that_there_is_none():
    from rae.baselines.skipgram import GENSIM_UNTIL

    (line,) = [text for text in PROJECT["optional-dependencies"]["bench"] if text.startswith("gensim")]
    major, minor = GENSIM_UNTIL
    assert line.endswith(f"; python_version < '{major}.{minor + 1}'")


# ------------------------------------------------------------------------------- built


def _build(kind: str, out: Path, **environment: str) -> Path:
    """What `python -m build` makes of a copy of the sources, with the setuptools that is installed."""
    sources = out.parent / f"sources-{out.name}"
    sources.mkdir()
    for name in (
        "src",
        "setup.py",
        "pyproject.toml",
        "MANIFEST.in",
        "README.md",
        "LICENSE",
        "CHANGELOG.md",
        "CITATION.cff",
    ):
        path = ROOT / name
        skip = shutil.ignore_patterns(
            "*.egg-info", "__pycache__"
        )  # a library of this checkout stays: it must not get in
        shutil.copytree(path, sources / name, ignore=skip) if path.is_dir() else shutil.copy(path, sources)
    command = [sys.executable, "-m", "build", f"--{kind}", "--no-isolation", "--outdir", out, sources]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, **environment}, cwd=out.parent)
    (package,) = out.iterdir()
    return package


def _metadata(wheel: Path, name: str) -> str:
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(f"role_action_embeddings-{rae.__version__}.dist-info/{name}").decode()


@pytest.mark.slow
def test_the_sources_hold_what_a_build_needs_and_nothing_compiled(tmp_path):
    with tarfile.open(_build("sdist", tmp_path / "dist")) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}

    c_files = {f"src/rae/ops/native/{path.name}" for path in (ROOT / "src" / "rae" / "ops" / "native").iterdir()}
    assert c_files | {"setup.py", "pyproject.toml", "CITATION.cff", "CHANGELOG.md", "src/rae/version.py"} <= names
    assert not [name for name in names if name.endswith((".so", ".dll", ".pyc"))]


@pytest.mark.slow
def test_the_wheel_of_a_platform_serves_every_python_3(tmp_path):
    wheel = _build("wheel", tmp_path / "dist")
    names = zipfile.ZipFile(wheel).namelist()
    libraries = [name for name in names if name.startswith("rae/ops/_native")]
    if not libraries:
        pytest.skip("there is no C compiler here")

    assert re.fullmatch(rf"role_action_embeddings-{rae.__version__}-py3-none-(?!any)\w+\.whl", wheel.name)
    assert libraries == [f"rae/ops/{library.FILE.name}"]  # no Python's name in it
    assert "Root-Is-Purelib: false" in _metadata(wheel, "WHEEL")
    assert f"\nVersion: {rae.__version__}\n" in _metadata(wheel, "METADATA")
    assert {"rae/py.typed", "rae/explore/assets/page.js"} <= set(names)
    assert not [name for name in names if name.endswith((".c", ".h")) or name.startswith("tests")]


@pytest.mark.slow
@pytest.mark.parametrize(
    "environment", [{"RAE_OPS": "reference"}, {"CC": "no-such-compiler"}], ids=["asked", "no compiler"]
)
def test_a_wheel_without_the_library_is_for_any_platform_and_works(tmp_path, environment):
    wheel = _build("wheel", tmp_path / "dist", **environment)
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    code = (
        "import rae; from rae.ops.library import library; assert library() is None;"
        "print(rae.__file__, rae.__version__);"
        "print(rae.RAE().fit_transform(rae.Graph.from_edges([(1, 2), (2, 3), (3, 1), (3, 4)])).shape)"
    )
    process = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(site)}, capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert wheel.name == f"role_action_embeddings-{rae.__version__}-py3-none-any.whl"
    assert "Root-Is-Purelib: true" in _metadata(wheel, "WHEEL")
    assert process.stdout == f"{site / 'rae' / '__init__.py'} {rae.__version__}\n(4, 88)\n"
