"""What all tests share: one thread each, and the folder of the public data sets."""

from __future__ import annotations

import inspect
import os
import re
import signal
import sys
from pathlib import Path

import pytest

from rae import runtime


@pytest.fixture(autouse=True)
def one_thread():
    """Small problems on busy machines: threads that wait for each other cost more than they bring."""
    runtime.set_threads(1)
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(1)


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
def rae(capsys):
    """Call the command line; the exit code, standard output and standard error come back."""
    from rae.cli import main

    def call(*args: object) -> tuple[int, str, str]:
        code = main([str(a) for a in args])
        out, err = capsys.readouterr()
        return code, out, err

    return call
