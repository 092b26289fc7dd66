"""Run a command in its own process and measure its seconds, its CPU time and its peak resident memory.

The peak is VmHWM from /proc, not ru_maxrss, which begins with the memory of the parent process.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RAE = (sys.executable, "-m", "rae")
POLL_SECONDS = 0.02


class CommandError(RuntimeError):
    """The command failed by itself."""


@dataclass(frozen=True)
class ProcessResult:
    """Seconds, peak memory and output of a command; `stopped` says why it was stopped, if it was.

    `cpu_s` is user and system time of the process and of those that it started and waited for.
    """

    seconds: float
    peak_gib: float
    stopped: str | None
    output: str
    cpu_s: float = 0.0

    @property
    def json(self) -> dict[str, Any]:
        """The last line of the output, parsed as JSON."""
        return json.loads(self.output.strip().splitlines()[-1])


def run_process(
    command: Sequence[object],
    *,
    max_gib: float = float("inf"),
    max_seconds: float = float("inf"),
    kill_after: float = float("inf"),
) -> ProcessResult:
    """Run a command; kill it with -9 above a limit of memory or time, or on purpose after some seconds."""
    peak, stopped = 0.0, None
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        began, cpu = time.perf_counter(), _children_cpu_s()
        process = subprocess.Popen([str(word) for word in command], stdout=output, stderr=errors, text=True)
        try:
            while process.poll() is None:
                resident, peak = _resident_gib(process.pid, peak)
                seconds = time.perf_counter() - began
                if resident > max_gib:
                    stopped = f"ended when it held {max_gib:g} GiB"
                elif seconds > max_seconds:
                    stopped = f"ended after {max_seconds:,.0f} s"
                elif seconds > kill_after:
                    stopped = f"killed after {kill_after:,.1f} s"
                if stopped:
                    break
                time.sleep(POLL_SECONDS)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
        seconds = time.perf_counter() - began
        output.seek(0), errors.seek(0)
        if process.returncode and not stopped:
            text = f"{' '.join(map(str, command))} ended with {process.returncode}:\n{errors.read()[-2000:]}"
            raise CommandError(text)
        return ProcessResult(seconds, peak, stopped, output.read(), _children_cpu_s() - cpu)


def _children_cpu_s() -> float:
    """User and system time of all processes that this one has waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def own_peak_gib() -> float:
    """The peak of this process so far."""
    return _resident_gib("self", 0.0)[1]


def _resident_gib(pid: int | str, peak: float) -> tuple[float, float]:
    """Resident memory of a process now and at most, in GiB; the last known peak when it is gone."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0, peak
    sizes = {line.split(":")[0]: line.split()[1] for line in text.splitlines() if line.startswith("Vm")}
    return int(sizes.get("VmRSS", 0)) / 2**20, max(peak, int(sizes.get("VmHWM", 0)) / 2**20)
