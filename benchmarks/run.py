"""Run all benchmarks: `make bench`. Lines are appended to results/, the page is docs/performance.md.

    RAE_DATA=... python benchmarks/run.py [--only NAME ...] [--work FOLDER] [--quick] [--list]

A step that fails is named at the end and the others go on. --quick runs small sizes of everything with a temporary
ledger and touches neither results/ nor docs/.
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

from recording import RESULTS

from rae.evaluation.ledger import RUN_DATE, run_date

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Step:
    """One benchmark: the calls of its script, about how many minutes they take, and what they need."""

    name: str
    minutes: float
    calls: tuple[tuple[str, ...], ...] = ((),)
    work: bool = False  # takes --work: graphs that the next step uses too
    data: bool = False  # reads RAE_DATA even when quick
    installs: bool = False  # measures nothing, so --quick skips it
    scores: str = ""  # scores vectors into this table: skipped where the ledger has lines of it

    @property
    def script(self) -> Path:
        return HERE / f"{self.name}.py"


STEPS = (
    Step("install_alternatives", 20, installs=True),  # the first time; then seconds
    Step("first_fit", 4),
    Step("training_step", 6, (("--threads", "1"), ("--threads", "2"))),
    Step("neighborhood_mean", 5),
    Step("growth", 9, work=True),
    Step("resume_after_kill", 3, work=True),
    Step("embed_all", 13, work=True),
    Step("graph_build", 4),
    Step("plan_accuracy", 4),
    Step("million_nodes", 4),
    Step("one_node", 6, data=True),
    Step("serve_load", 25, ((), ("--seconds", "60", "--kill")), data=True),
    Step("update_trials", 25, scores="update-trials"),
    Step("drift_trials", 25, scores="drift-trials"),
    Step("file_to_vectors", 27, data=True),  # two methods run into their limit of ten minutes
    Step("roles", 12, scores="roles-planted"),
    Step("baselines", 5, scores="baselines"),
    Step("variants", 8, scores="variants"),
)


def commands(step: Step, work: Path, scratch: Path | None) -> list[list[str]]:
    """The commands of a step; with a scratch folder, its quick sizes into that folder."""
    extra = ["--work", str(work)] if step.work else []
    calls = step.calls
    if scratch is not None:
        extra += ["--quick", "--results", str(scratch)]
        calls = calls[:1]
    return [[sys.executable, str(step.script), *call, *extra] for call in calls]


def reason_to_skip(step: Step, quick: bool, named: bool) -> str | None:
    """Why a step is skipped, None if it runs."""
    if not step.script.exists():
        return "there is no such script"
    if quick and step.installs:
        return "it measures nothing"
    if quick and step.data and not os.environ.get("RAE_DATA"):
        return "RAE_DATA is not set"
    if step.scores and not quick and not named and (RESULTS / f"{step.scores}.jsonl").exists():
        return f"results/{step.scores}.jsonl has its lines; --only {step.name} adds those that are missing"
    return None


def run(steps: list[Step], named: bool, work: Path, scratch: Path | None) -> list[str]:
    """Run the steps with their output on the terminal; the names of those that failed."""
    failed = []
    environment = {**os.environ, RUN_DATE: run_date(), "PYTHONUNBUFFERED": "1"}
    for step in steps:
        reason = reason_to_skip(step, scratch is not None, named)
        about = "seconds" if scratch is not None else f"about {step.minutes:g} min"
        print(f"\n== {step.name}: {f'skipped, {reason}' if reason else about}", flush=True)
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
    parser.add_argument("--quick", action="store_true", help="small sizes, a minute or two, a temporary ledger")
    parser.add_argument("--list", action="store_true", help="name the steps and about how long each takes")
    options = parser.parse_args()
    steps = [step for step in STEPS if not options.only or step.name in options.only]
    if options.list:
        print("\n".join(f"{step.name:20} about {step.minutes:g} min" for step in steps))
        return
    if not options.quick:
        left = sum(step.minutes for step in steps if not reason_to_skip(step, False, bool(options.only)))
        print(f"about {left:.0f} minutes in all, less where the alternatives are installed", flush=True)
    with tempfile.TemporaryDirectory(dir=options.work) as home:
        work, scratch = Path(home), Path(home) / "quick" if options.quick else None
        if scratch is not None:
            scratch.mkdir()
        failed = run(steps, bool(options.only), work, scratch)
        page = ["--results", scratch, "--docs", scratch] if scratch is not None else []
        if subprocess.run([sys.executable, str(HERE / "performance.py"), *map(str, page)]).returncode:
            failed.append("performance")
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}; the others are measured")


if __name__ == "__main__":
    main()
