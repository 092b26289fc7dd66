"""Ctrl-C, termination and hang-up at any moment: the documented exit code, one line, nothing lost."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

import rae.__main__
from rae.cli import main
from rae.interrupts import Interrupted, interruptible

if not hasattr(signal, "SIGHUP"):
    pytest.skip("signals of POSIX", allow_module_level=True)

ENDED = {
    signal.SIGINT: (130, "interrupted: no file was left half-written"),
    signal.SIGTERM: (143, "terminated: no file was left half-written"),
    signal.SIGHUP: (129, "hung up: no file was left half-written"),
}


def spin(seconds: float = 5.0) -> None:
    """Python code that goes on until it is interrupted."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def command(monkeypatch, body) -> int:
    """The exit code of a command that does this."""
    monkeypatch.setattr("rae.cli.program.app.invoke", lambda ctx: body())
    return main(["info"])


@pytest.mark.parametrize("sent", list(ENDED))
def test_each_signal_ends_a_command_with_its_code_and_one_line(monkeypatch, capsys, sent):
    def body() -> None:
        signal.raise_signal(sent)
        spin()

    before = signal.getsignal(sent)
    code, line = ENDED[sent]

    assert command(monkeypatch, body) == code
    assert capsys.readouterr().err == f"{line}\n"
    assert signal.getsignal(sent) == before


def test_an_interrupt_that_a_package_swallows_while_it_loads_is_not_lost(monkeypatch, capsys, tmp_path):
    (tmp_path / "swallows.py").write_text(
        textwrap.dedent("""
            import signal
            try:
                signal.raise_signal(signal.SIGINT)
                loaded = True
            except:
                loaded = False
        """)
    )
    monkeypatch.syspath_prepend(tmp_path)
    events = []

    def body() -> None:
        import swallows

        events.append(swallows.loaded)
        spin()
        events.append("went on")

    assert command(monkeypatch, body) == 130
    assert capsys.readouterr().err == "interrupted: no file was left half-written\n"
    assert events == [True]  # the import was not disturbed, and the command ended after it


@pytest.mark.parametrize("how", ["swallowed", "dropped", "turned", "finished"])
def test_an_interrupt_is_raised_again_until_it_is_on_its_way_out(monkeypatch, capsys, how):
    class Dropped:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)  # Python drops what is raised in here

    def body() -> None:
        if how == "swallowed":
            with contextlib.suppress(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
            spin()
        elif how == "dropped":
            monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
            Dropped()
            spin()
        elif how == "turned":
            try:
                signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt:
                raise ImportError("half a module") from None
        else:
            with contextlib.suppress(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)

    assert command(monkeypatch, body) == 130
    assert capsys.readouterr().err == "interrupted: no file was left half-written\n"


def test_further_signals_do_not_disturb_those_who_clean_up(monkeypatch, capsys):
    cleanups = []

    def body() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            for _ in range(3):
                signal.raise_signal(signal.SIGINT)
                time.sleep(0.1)
            cleanups.append(True)

    assert command(monkeypatch, body) == 130
    assert cleanups == [True]


def test_a_caller_that_is_being_imported_can_be_interrupted(monkeypatch, tmp_path):
    (tmp_path / "script_that_runs_rae.py").write_text(
        textwrap.dedent("""
            import signal
            from rae.interrupts import interruptible
            try:
                with interruptible():
                    signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt as error:
                code = error.code
        """)
    )
    monkeypatch.syspath_prepend(tmp_path)
    import script_that_runs_rae

    assert script_that_runs_rae.code == 130


def test_another_thread_gets_no_handlers_and_does_not_fail():
    def enter() -> None:
        with interruptible() as interrupts:
            received.append(interrupts.received)

    received: list[Interrupted | None] = []
    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()

    assert received == [None]


@pytest.mark.parametrize("outcome", [7, KeyboardInterrupt, Interrupted(signal.SIGTERM)])
def test_the_entry_point_passes_the_code_on_and_survives_an_early_interrupt(monkeypatch, capsys, outcome):
    def run() -> int:
        if isinstance(outcome, int):
            return outcome
        raise outcome

    left = []
    monkeypatch.setattr("rae.cli.main", run)
    monkeypatch.setattr("atexit._run_exitfuncs", lambda: None)
    monkeypatch.setattr(os, "_exit", left.append)
    rae.__main__.main()

    code, line = {7: (7, ""), KeyboardInterrupt: (130, "interrupted")}.get(outcome, (143, "terminated"))
    assert left == [code]
    assert capsys.readouterr().err == (f"{line}: no file was left half-written\n" if line else "")


def test_an_interrupt_while_arrow_reads_ahead_does_not_abort():
    """Arrow's thread calls back into a Python that takes itself apart: without `_leave` that is SIGABRT."""
    script = """
        import io, threading, time
        import pyarrow as pa, pyarrow.csv
        import rae.__main__, rae.cli

        class Slow(io.RawIOBase):
            def readable(self):
                return True
            def read(self, size=-1):
                time.sleep(0.05)
                return b"1,2\\n" * 1000

        def run():
            options = pa.csv.ReadOptions(column_names=["a", "b"], block_size=4000)
            global rows
            rows = pa.csv.open_csv(pa.PythonFile(Slow(), mode="r"), read_options=options)
            raise KeyboardInterrupt

        rae.cli.main = run
        rae.__main__.main()
    """
    process = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True)

    assert (process.returncode, process.stderr) == (130, "interrupted: no file was left half-written\n")


def test_control_c_while_torch_is_imported_ends_the_program(tmp_path):
    (tmp_path / "edges.csv").write_text("a,b\nb,c\nc,d\n")
    script = """
        import signal, sys
        import rae.__main__

        class ControlC:
            @staticmethod
            def find_spec(name, path, target=None):
                if name in ("torch._C", "torch.nn"):
                    signal.raise_signal(signal.SIGINT)

        sys.meta_path.insert(0, ControlC)
        sys.argv = ["rae", "fit", "edges.csv", "--steps", "1000000", "--out", "run"]
        rae.__main__.main()
    """
    process = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )

    *notes, last = process.stderr.splitlines()  # torch may be imported after the edges are read, which is noted
    assert (process.returncode, last) == (130, "interrupted: no file was left half-written")
    assert not [line for line in notes if "Traceback" in line or "Error" in line]
    assert [path.name for path in tmp_path.iterdir()] == ["edges.csv"]
