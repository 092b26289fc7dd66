"""What all tests share: one thread each, and the folder of the public data sets."""

from __future__ import annotations

import gc
import inspect
import os
import re
import signal
import sys
import sysconfig
import warnings
from functools import lru_cache, partial
from importlib import import_module
from pathlib import Path

import pytest

gc.disable()  # until all tests are collected: what is imported stays, and looking for garbage in it takes seconds
# Before NumPy and torch are imported, and for the processes that tests start: a worker per core has one core.
for library in ("OMP", "OPENBLAS"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")
if paths := os.environ.get("PYTHONPATH"):  # those processes stand in other folders
    os.environ["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, paths.split(os.pathsep)))

from rae import runtime  # noqa: E402


@pytest.fixture(autouse=True)
def one_thread():
    """Small problems on busy machines: threads that wait for each other cost more than they bring."""
    runtime.set_threads(1)
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="session")
def no_wait_for_the_disk():
    """No test cuts the power, so none waits until its bytes are on the disk, as every file of a run does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


def pytest_collection_finish(session):
    """Garbage is looked for among what tests make, not among the modules and tests themselves."""
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)
    gc.enable()


@pytest.fixture(autouse=True, scope="session")
def standard_library_parsed_once():
    """The modules of this Python are parsed once by a worker, not by every test that takes them for its example."""
    from rae.datasets import stdlib

    def parse(root):
        return parsed(root) if str(root) == sysconfig.get_path("stdlib") else real(root)

    real = stdlib.parse
    parsed = lru_cache(lambda root: list(real(root)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stdlib, "parse", parse)
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """A test of what an optional library does is skipped where that library has no wheel for this Python."""
    from rae.errors import MissingExtraError

    try:
        return (yield)
    except MissingExtraError as error:
        if "it has no wheel for Python" in str(error):
            pytest.skip(str(error))
        raise


POSIX = re.compile(r"SIGKILL|SIGHUP|getpid\(\), 9|mkfifo|geteuid|symlink_to|chmod\(|/proc/|/dev/|preexec_fn|killed\(")


def pytest_collection_modifyitems(items):
    """A test whose own lines use signals, links, modes or devices of POSIX is skipped on Windows."""
    if hasattr(signal, "SIGKILL"):
        return
    for item in items:
        if hasattr(item, "function") and POSIX.search(inspect.getsource(item.function)):
            item.add_marker(pytest.mark.skip(reason="it needs a POSIX system"))


@pytest.fixture
def data_home() -> Path:
    """The folder that RAE_DATA names; tests that read it are marked `data`."""
    named = os.environ.get("RAE_DATA")
    if not named:
        pytest.skip("RAE_DATA is not set")
    return Path(named)


@pytest.fixture
def load(monkeypatch):
    """A module of benchmarks/ by its name."""
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")
    return import_module


@pytest.fixture
def z(tmp_path):
    """A file for vectors."""
    return tmp_path / "z.parquet"


@pytest.fixture
def threads():
    """A call that sets how many threads there are, until the test ends."""
    yield runtime.set_threads
    runtime.set_threads(None)


@pytest.fixture
def small_steps(monkeypatch):
    """No update is folded in by itself, and a full pass is never cheaper."""
    monkeypatch.setattr("rae.updater.FOLD_NUMBERS", 0)
    monkeypatch.setattr("rae.updater.FOLD_SHARE", float("inf"))
    monkeypatch.setattr("rae.engine.live.MOST_SHARE", float("inf"))


@pytest.fixture
def small_pieces(monkeypatch):
    """A graph of some hundred edges is built in as many pieces as a large one."""
    monkeypatch.setattr("rae.graph.builder.BATCH", 90)
    monkeypatch.setattr("rae.io.tables.BATCH", 50)
    monkeypatch.setattr("rae.graph.row_order.RUN", 64)
    monkeypatch.setattr("rae.graph.csr_writer.PIECE", 64)
    monkeypatch.setattr("rae.graph.csr_writer.ROW_BITS", 3)


@pytest.fixture
def short_readers(monkeypatch):
    """Readers of the evaluation that stop after few iterations: a trial's score is only checked to be a number."""
    from sklearn.exceptions import ConvergenceWarning

    from rae.evaluation import probes

    def shortened(*C, make):
        reader = make(*C)
        return reader.set_params(**{"estimator__max_iter" if hasattr(reader, "estimator") else "max_iter": 20})

    monkeypatch.setattr(probes, "MOST_STEPS", 20)
    monkeypatch.setattr(probes, "FOLDS", 2)
    for make in (probes.linear, probes.softmax):
        monkeypatch.setattr(probes, make.__name__, partial(shortened, make=make))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


@pytest.fixture
def rae(capsys):
    """Call the command line; the exit code, standard output and standard error come back."""
    from rae.cli import main

    def call(*args: object) -> tuple[int, str, str]:
        code = main([str(a) for a in args])
        out, err = capsys.readouterr()
        return code, out, err

    return call
