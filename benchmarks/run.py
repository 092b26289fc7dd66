"""All benchmarks, one after the other: `make bench`. Lines go to results/, the page to docs/performance.md.

    RAE_DATA=... python benchmarks/run.py [--only NAME ...] [--work FOLDER] [--quick] [--list]

A step that fails is named at the end and the others go on. --quick runs small sizes of everything into a
scratch folder and touches neither results/ nor docs/.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from lines import RESULTS, now

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Step:
    """One benchmark: the calls of its script, about how many minutes they take, and what they need."""

    name: str
    minutes: float
    calls: tuple[tuple[str, ...], ...] = ((),)
    work: bool = False  # takes --work: graphs that the next step uses too
    data: bool = False  # reads RAE_DATA even when quick
    installs: bool = False  # measures nothing, so no trial
    kept: str = ""  # judges vectors, not speed: left alone where this file has its lines

    @property
    def script(self) -> Path:
        return HERE / f"{self.name}.py"


STEPS = (
    Step("alternatives", 20, installs=True),  # the first time; then seconds
    Step("first", 6),
    Step("speed", 6, (("--threads", "1"), ("--threads", "2"))),
    Step("embedding", 5),
    Step("growth", 9, work=True),
    Step("large", 3, work=True),
    Step("whole", 13, work=True),
    Step("build", 4),
    Step("planned", 4),
    Step("explore", 2),
    Step("peers", 27, data=True),  # two of them are given ten minutes each and take them
    Step("roles", 12, kept="roles.jsonl"),
    Step("baselines", 5, kept="baselines.jsonl"),
    Step("variants", 8, kept="variants.jsonl"),
)


def commands(step: Step, work: Path, scratch: Path | None) -> list[list[str]]:
    """What is run for a step; with a scratch folder, its quick sizes into that folder."""
    extra = ["--work", str(work)] if step.work else []
    calls = step.calls
    if scratch is not None:
        extra += ["--quick", "--out", str(scratch / f"{step.name}.jsonl")]
        calls = calls[:1]
    return [[sys.executable, str(step.script), *call, *extra] for call in calls]


def skipped(step: Step, quick: bool, named: bool) -> str | None:
    """Why a step is not run now, None if it is."""
    if not step.script.exists():
        return "there is no such script"
    if quick and step.installs:
        return "it measures nothing"
    if quick and step.data and not os.environ.get("RAE_DATA"):
        return "RAE_DATA is not set"
    if step.kept and not quick and not named and (RESULTS / step.kept).exists():
        return f"results/{step.kept} has its lines; --only {step.name} goes over them again"
    return None


def run(steps: list[Step], named: bool, work: Path, scratch: Path | None) -> list[str]:
    """Run the steps with their output on the terminal; the names of those that failed."""
    failed = []
    environment = {**os.environ, "RAE_BENCH": now(), "PYTHONUNBUFFERED": "1"}
    for step in steps:
        reason = skipped(step, scratch is not None, named)
        about = "seconds" if scratch is not None else f"about {step.minutes:g} min"
        print(f"\n== {step.name}: {f'left out, {reason}' if reason else about}", flush=True)
        began = time.perf_counter()
        try:
            for command in [] if reason else commands(step, work, scratch):
                print(f"-- {' '.join([Path(command[1]).name, *command[2:]])}", flush=True)
                if subprocess.run(command, env=environment).returncode and step.name not in failed:
                    failed.append(step.name)
        except KeyboardInterrupt:
            return [*failed, f"{step.name} (interrupted, and nothing after it was run)"]
        if not reason:
            print(f"== {step.name}: {time.perf_counter() - began:.0f} s", flush=True)
    return failed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=[step.name for step in STEPS], metavar="NAME")
    parser.add_argument(
        "--work", type=Path, help="folder for some 35 GB of graphs and vectors  [default: the system's]"
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, a minute or two, nothing kept")
    parser.add_argument("--list", action="store_true", help="name the steps and about how long each takes")
    options = parser.parse_args()
    steps = [step for step in STEPS if not options.only or step.name in options.only]
    if options.list:
        print("\n".join(f"{step.name:12} about {step.minutes:g} min" for step in steps))
        return
    if not options.quick:
        left = sum(step.minutes for step in steps if not skipped(step, False, bool(options.only)))
        print(f"about {left:.0f} minutes in all, less where the alternatives are installed", flush=True)
    with tempfile.TemporaryDirectory(dir=options.work) as home:
        work, scratch = Path(home), Path(home) / "quick" if options.quick else None
        if scratch is not None:
            scratch.mkdir()
        failed = run(steps, bool(options.only), work, scratch)
        page = ["--results", scratch, "--docs", scratch] if scratch is not None else []
        if subprocess.run([sys.executable, str(HERE / "report.py"), *map(str, page)]).returncode:
            failed.append("report")
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}; the others are measured")


if __name__ == "__main__":
    main()
