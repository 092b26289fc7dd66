"""A command in a process of its own: its seconds, its peak resident memory, and why it was stopped if it was.

The peak is VmHWM from /proc, not ru_maxrss, which begins with the memory of the process that started it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RAE = (sys.executable, "-m", "rae")
GLANCE = 0.02  # seconds between two looks at the process


class CommandError(RuntimeError):
    """The command ended by itself, and not well."""


@dataclass(frozen=True)
class Spent:
    """What a command took; `stopped` says why it was ended from outside, if it was."""

    seconds: float
    peak_gib: float
    stopped: str | None
    printed: str

    @property
    def found(self) -> dict[str, Any]:
        """The last line that it printed, as JSON."""
        return json.loads(self.printed.strip().splitlines()[-1])


def watch(
    command: Sequence[object],
    *,
    most_gib: float = float("inf"),
    most_s: float = float("inf"),
    kill_after: float = float("inf"),
) -> Spent:
    """Run it; end it with -9 above so much resident memory, after so many seconds, or on purpose half way."""
    peak, stopped = 0.0, None
    with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as wrong:
        began = time.perf_counter()
        work = subprocess.Popen([str(word) for word in command], stdout=said, stderr=wrong, text=True)
        try:
            while work.poll() is None:
                held, peak = _resident(work.pid, peak)
                spent = time.perf_counter() - began
                if held > most_gib:
                    stopped = f"ended when it held {most_gib:g} GiB"
                elif spent > most_s:
                    stopped = f"ended after {most_s:,.0f} s"
                elif spent > kill_after:
                    stopped = f"killed after {kill_after:,.1f} s"
                if stopped:
                    break
                time.sleep(GLANCE)
        finally:
            if work.poll() is None:
                work.kill()
            work.wait()
        seconds = time.perf_counter() - began
        said.seek(0), wrong.seek(0)
        if work.returncode and not stopped:
            raise CommandError(f"{' '.join(map(str, command))} ended with {work.returncode}:\n{wrong.read()[-2000:]}")
        return Spent(seconds, peak, stopped, said.read())


def own_peak() -> float:
    """The peak of this process so far, in GiB."""
    return _resident("self", 0.0)[1]


def _resident(pid: int | str, peak: float) -> tuple[float, float]:
    """What the process holds now and has held at most, in GiB; the last peak known when it is gone."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0, peak
    found = {line.split(":")[0]: line.split()[1] for line in text.splitlines() if line.startswith("Vm")}
    return int(found.get("VmRSS", 0)) / 2**20, max(peak, int(found.get("VmHWM", 0)) / 2**20)
