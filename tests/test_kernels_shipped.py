"""Compiled code that comes with the package: found first, trusted only if it fits, never written by a run."""

import inspect
import os
import shutil
import subprocess
import sys
import zipfile
from importlib import import_module
from pathlib import Path

import numba
import numpy as np
import pytest
from numba.core import event

from rae.kernels import ahead, cpu, shipped, store

ROOT = Path(__file__).parent.parent
LONGS = numba.types.Array(numba.int64, 1, "C")
LINES = ahead.LIST.read_text(encoding="utf-8").splitlines()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty place for shipped code, with another for Numba's own cache."""
    monkeypatch.setattr(shipped, "FOLDER", tmp_path / "compiled" / numba.__version__)
    monkeypatch.setattr(ahead, "FOLDER", shipped.FOLDER)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    return shipped.FOLDER


def fresh(**options):
    """A kernel that nobody has called yet."""
    return shipped.first(numba.njit(**options)(cpu.count_ends.py_func))


def compilations(kernel, dtype=np.int64):
    """How many were needed for a call of it."""
    ends, counts = np.array([0, 1], dtype), np.zeros(4, np.int64)
    with event.install_recorder("numba:compile") as recorder:
        assert kernel(ends, ends + 1, counts) == 0
    assert counts.tolist() == [0, 1, 2, 1]
    return len(recorder.buffer) // 2  # a start and an end each


# ------------------------------------------------------------------------------- at a call


def test_shipped_code_is_found_without_compiling(folder):
    assert compilations(fresh()) == 1
    shipped.ship(fresh(), (LONGS, LONGS, LONGS))

    assert compilations(fresh()) == 0
    assert compilations(fresh(cache=True)) == 0


@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
def test_damaged_code_is_as_good_as_none(folder, suffix):
    shipped.ship(fresh(), (LONGS, LONGS, LONGS))
    for file in folder.glob(f"*.{suffix}"):
        file.write_bytes(file.read_bytes()[:20])

    assert compilations(fresh()) == 1


def test_code_of_other_sources_is_left_alone(folder, monkeypatch):
    shipped.ship(fresh(), (LONGS, LONGS, LONGS))
    monkeypatch.setattr(store, "stamp", lambda source: "of a later version")

    assert compilations(fresh()) == 1


def test_every_source_of_kernels_counts(tmp_path):
    one, other = tmp_path / "one.py", tmp_path / "other.py"
    one.write_text("a")
    other.write_text("b")

    assert store.stamp(one) == store.stamp(one)
    assert len({store.stamp(one), store.stamp(other), store.stamp(Path(cpu.__file__))}) == 3


def test_types_that_were_not_shipped_go_to_the_cache_behind(folder):
    shipped.ship(fresh(), (LONGS, LONGS, LONGS))
    before = sorted(folder.iterdir())

    assert compilations(fresh(cache=True), np.int32) == 1
    assert compilations(fresh(cache=True), np.int32) == 0
    assert sorted(folder.iterdir()) == before


def test_emptying_the_cache_leaves_what_was_shipped(folder):
    shipped.ship(fresh(), (LONGS, LONGS, LONGS))
    kernel = fresh(cache=True)
    kernel._cache.flush()

    assert Path(kernel.stats.cache_path).is_relative_to(folder.parent.parent / "cache")
    assert compilations(fresh()) == 0


def test_without_shipped_code_a_kernel_is_as_numba_makes_it(folder):
    assert not isinstance(fresh(cache=True)._cache, store.Store)


def test_another_version_of_numba_finds_another_folder():
    assert shipped.FOLDER.name == numba.__version__


# ---------------------------------------------------------------------------- in the list


def test_what_was_found_compiled_is_listed_by_name_and_types(monkeypatch):
    kernel = numba.njit(cpu.count_ends.py_func)
    kernel._cache_hits[LONGS, LONGS.copy(readonly=True), numba.uint64] += 1
    monkeypatch.setattr(cpu, "count_ends", kernel)

    assert "cpu.count_ends(int64[1], const int64[1], uint64)" in ahead.asked()


@pytest.mark.parametrize("line", LINES)
def test_every_line_of_the_list_is_a_kernel_and_the_types_of_its_arguments(line):
    name, types = ahead.parse(line)
    module, _, function = name.partition(".")
    kernel = getattr(import_module(f"rae.kernels.{module}"), function)

    assert len(types) == len(inspect.signature(kernel.py_func).parameters)
    assert ahead.written(name, types) == line


def test_compiling_ahead_replaces_what_was_there(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(ahead, "LIST", tmp_path / "types.txt")
    ahead.LIST.write_text("cpu.count_ends(int64[1], int64[1], int64[1])\n")
    older = folder.parent / "0.1"
    older.mkdir(parents=True)

    ahead.main()

    assert not older.exists()
    assert {path.suffix for path in folder.iterdir()} == {".nbi", ".nbc"}
    assert compilations(fresh()) == 0


# ------------------------------------------------------------------------------ in a wheel

CALL = """
import numpy as np
from numba.core import event
from rae.kernels import cpu, shipped

ends, counts = np.array([0, 1]), np.zeros(4, np.int64)
with event.install_recorder("numba:compile") as recorder:
    cpu.count_ends(ends, ends + 1, counts)
print(counts.tolist(), len(recorder.buffer), shipped.FOLDER.is_dir())
"""


def wheel(tmp_path, lines, **environment):
    """A wheel of the package as it is now, with this list of types; its name, and what a call in it says."""
    pytest.importorskip("setuptools", minversion="77")
    home, out, site = tmp_path / "home", tmp_path / "out", tmp_path / "site"
    shutil.copytree(
        ROOT / "src" / "rae", home / "src" / "rae", ignore=shutil.ignore_patterns("__pycache__", "compiled")
    )
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, home)
    (home / "src" / "rae" / "kernels" / "types.txt").write_text(lines)
    around = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), **environment}
    build = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", build, str(out)], cwd=home, env=around, check=True, capture_output=True)
    (made,) = out.glob("*.whl")
    zipfile.ZipFile(made).extractall(site)
    call = [sys.executable, "-c", CALL]
    around["PYTHONPATH"] = str(site)
    said = subprocess.run(call, cwd=tmp_path, env=around, check=True, capture_output=True, text=True)
    return made.name, said.stdout.strip()


def test_an_installed_wheel_brings_its_compiled_code(tmp_path):
    name, said = wheel(tmp_path, "cpu.count_ends(int64[1], int64[1], int64[1])\n")

    assert said == "[0, 1, 2, 1] 0 True"
    assert not name.endswith("none-any.whl")


def test_a_wheel_made_without_compiling_is_for_any_machine(tmp_path):
    name, said = wheel(tmp_path, "cpu.count_ends(int64[1], int64[1], int64[1])\n", RAE_COMPILE="0")

    assert said == "[0, 1, 2, 1] 2 False"
    assert name.endswith("none-any.whl")


def test_where_compiling_fails_the_package_is_built_all_the_same(tmp_path):
    assert wheel(tmp_path, "cpu.no_such_kernel(int64)\n")[1] == "[0, 1, 2, 1] 2 False"
