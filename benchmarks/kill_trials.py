"""Kill every command with -9 at random moments, give it again: is anything lost, half-written or left over?

    python benchmarks/kill_trials.py [--trials 1000] [--fresh 50] [--seed 0] [--only NAME ...] [--quick]

A trial runs a command in a folder of its own, kills it with SIGKILL, looks at what lies there, gives the same command
again and compares the folder with that of a command that was never killed. It counts

    lost      inputs, and results that are being replaced, of which right after the kill neither the old nor the new is
              there; results that are missing or other than those of the uninterrupted command in the end
    half      files under their own names, right after the kill, that are neither the old nor the new ones
    left      files and folders, hidden and temporary ones too, that the uninterrupted command does not have
    refused   commands that could not be given again although their result was not complete

Files are compared byte by byte, but for times, dates and peaks of memory in run.json, in the ledger and its report.
Intermediate rows of --memory (FILE.parts) may lie there until the command is given again. A ledger grows line by
line: after a kill it must hold the first lines of the whole one, of which the last may be cut off; the next call
mends that.
A command that was killed after it had done everything may say that its result is there already, exit code 2.

Importing torch takes seconds, so one process imports everything and forks a child per trial, which runs the command as
`rae` does. Of these, every other one is killed at a random moment of its processor time, and every other one just
before a random call that opens, renames, links, makes or removes a file of its folder: such moments are short and are
where things go wrong. What forked children do not show is a kill while Python starts and modules are imported, or on
several threads: `--fresh` trials start the real program with two threads, kill it at a random moment, and give it again
in a fork. A kill is not a power failure: what a process has written, the system keeps.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

os.environ |= {"OMP_NUM_THREADS": "1", "RAE_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}  # before torch is imported

from recording import parser, record

from rae.cli import main as rae

TABLE = "kill-trials"
EVENTS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.truncate"}
MEASURED = ("timings", "seconds", "cpu_seconds", "peak_mb", "date", "machine", "command")
COUNTED = ("lost", "half", "left", "refused")
FIT = ("fit", "edges.csv", "--out", "out", "--quiet")
EMBED = ("embed", "run", "tomorrow.csv", "--out", "z.parquet", "--quiet")
REPRODUCE = ("reproduce", "toy", "--table", "toy", "--row", "exact", "--runs", "1", "--jobs", "1", "--out", ".")
BUDGET = ("--memory", "2GiB")


@dataclass(frozen=True)
class Command:
    """A command, how often it is tried, and what is done in its folder beforehand."""

    name: str
    arguments: tuple[str, ...]
    weight: int = 10
    is_long: bool = False  # seconds a call: left out by --quick
    before: tuple[tuple[str, ...], ...] = ()


COMMANDS = (
    Command("fit", FIT, 5),
    Command("fit with features and names", (*FIT, "--features", "nodes.csv", "--name-column", "name"), 5),
    Command("fit --force", (*FIT, "--force"), 5, before=((*FIT, "--seed", "1"),)),
    Command("fit --no-page", (*FIT, "--no-page")),
    Command("fit --memory", (*FIT, *BUDGET), 5),
    Command("fit --memory --no-page", (*FIT, *BUDGET, "--no-page")),
    Command("embed", EMBED),
    Command("embed --force", (*EMBED, "--force"), before=(("embed", "run", "edges.csv", "--out", "z.parquet"),)),
    Command("embed --memory", (*EMBED, *BUDGET)),
    Command("graph build", ("graph", "build", "edges.csv", "--out", "graph", "--order", "locality")),
    Command(
        "graph build --force",
        ("graph", "build", "edges.csv", "--out", "graph", "--force"),
        before=(("graph", "build", "tomorrow.csv", "--out", "graph"),),
    ),
    Command("roles", ("roles", "run"), 5),
    Command("roles --force", ("roles", "run", "--k", "3", "--force"), before=(("explore", "run"),)),
    Command("roles --apply", ("roles", "run", "--apply", "tomorrow.parquet"), 5),
    Command("roles --against", ("roles", "run", "--against", "tomorrow.parquet", "--out", "moved.parquet"), 5),
    Command("explore", ("explore", "run"), 5),
    Command("explore --out", ("explore", "run", "--out", "page"), 5),
    Command("plan", ("plan", "edges.csv"), 5),
    Command("plan --memory", ("plan", "edges.csv", *BUDGET), 5),
    Command("info", ("info", "run"), 1),
    Command("similar", ("similar", "run", "n3"), 1),
    Command("reproduce", REPRODUCE, 3, is_long=True),
    Command("demo", ("demo", "--quiet"), 3, is_long=True),
)


# ------------------------------------------------------------------------------------ folders


def make_inputs(folder: Path) -> None:
    """The files that commands read: edges, those of tomorrow, a table of nodes, a fitted run and vectors."""
    folder.mkdir()
    draw = random.Random(0)
    edges = [(draw.randrange(60), draw.randrange(60)) for _ in range(150)]
    folder.joinpath("edges.csv").write_text("".join(f"n{a},n{b}\n" for a, b in edges))
    folder.joinpath("tomorrow.csv").write_text("".join(f"n{a},n{b}\n" for a, b in edges[20:]))
    rows = "".join(f"n{i},{i % 7},{'ab'[i % 2]},node {i}\n" for i in range(60))
    folder.joinpath("nodes.csv").write_text(f"id,age,kind,name\n{rows}")
    folder.joinpath("temporary").mkdir()
    for arguments in (("fit", "edges.csv", "--out", "run", "--no-page"), ("embed", "run", "tomorrow.csv")):
        exit_code(fork(folder, (*arguments, *(("--out", "tomorrow.parquet") if arguments[0] == "embed" else ()))))


def snapshot(folder: Path) -> dict[str, str]:
    """The checksum of every file below a folder, and "" for every folder."""
    return {path.relative_to(folder).as_posix(): checksum(path) for path in sorted(folder.rglob("*"))}


def checksum(path: Path) -> str:
    """The SHA-256 of a file, of every line of a ledger, without what was measured."""
    if path.is_dir():
        return ""
    data = path.read_bytes()
    if path.suffix == ".jsonl":
        return " ".join(digest(line) for line in data.splitlines())
    if path.suffix == ".md":  # the report of reproduce, whose last section has minutes and memory
        text, heading, measured = data.partition(b"## Where the time goes")
        data = text + heading + measured[-20:]
    return digest(data) if path.suffix == ".json" else hashlib.sha256(data).hexdigest()


def digest(text: bytes) -> str:
    """The SHA-256 of a JSON object without what differs from call to call; "half" for a part of one."""
    try:
        value = json.loads(text)
    except ValueError:
        return "half"
    unchanging = (
        {name: part for name, part in value.items() if name not in MEASURED} if isinstance(value, dict) else value
    )
    return hashlib.sha256(json.dumps(unchanging, sort_keys=True).encode()).hexdigest()


def is_half(name: str, value: str, reference: Reference) -> bool:
    """Whether a file is neither the old nor the new one; the lines of a ledger must be the first ones of the new."""
    if name.endswith(".jsonl"):
        lines, whole = value.split(), reference.after.get(name, "").split()
        return lines != whole[: len(lines)] and [*lines[:-1], "half"] != [*whole[: len(lines) - 1], lines[-1]]
    return value not in (reference.before.get(name), reference.after.get(name))


def is_visible(name: str) -> bool:
    """Whether a file is under its own name: neither hidden nor intermediate."""
    parts = name.split("/")
    return parts[0] != "temporary" and not any(part.startswith(".") or part.endswith(".parts") for part in parts)


# ------------------------------------------------------------------------------------ processes


def fork(folder: Path, arguments: tuple[str, ...], watch: Callable[[], object] | None = None) -> int:
    """The id of a child that runs the command in this folder; `watch` is called at each of its calls on files."""
    sys.stdout.flush()
    if (child := os.fork()) != 0:
        return child
    os.chdir(folder)
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder / "temporary")
    output = os.open(folder.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    if watch is not None:
        sys.addaudithook(lambda event, args: watch() if event in EVENTS and is_inside(folder, event, args) else None)
    code = 1
    try:
        code = rae(list(arguments))
        sys.stdout.flush()
    finally:
        os._exit(code)


def is_inside(folder: Path, event: str, args: tuple[object, ...]) -> bool:
    """Whether a call is about a file of this folder, and more than reading it."""
    path = args[0]
    if not isinstance(path, (str, bytes, os.PathLike)) or (event == "open" and args[2] == os.O_RDONLY | os.O_CLOEXEC):
        return False
    return os.path.abspath(os.fsdecode(path)).startswith(str(folder))  # noqa: PTH100


def exit_code(child: int) -> int:
    """The exit code of a child, once it has ended."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def killed_after(child: int, seconds: float) -> bool:
    """Kill a child after so much processor time, which a busy machine does not stretch; False if it ended."""
    while int(Path(f"/proc/{child}/schedstat").read_text().split()[0]) < seconds * 1e9:
        if (ended := os.waitpid(child, os.WNOHANG))[0]:
            return os.waitstatus_to_exitcode(ended[1]) == -signal.SIGKILL
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    return exit_code(child) == -signal.SIGKILL


# ------------------------------------------------------------------------------------ trials


@dataclass(frozen=True)
class Reference:
    """A command that was not killed: its folder before and after it, its processor seconds and its calls on files."""

    command: Command
    start: Path
    before: dict[str, str]
    after: dict[str, str]
    seconds: float
    calls: int


def learn(command: Command, inputs: Path, work: Path) -> Reference:
    """Run a command twice without killing it: it must do the same both times."""
    start = work / "start"
    shutil.copytree(inputs, start)
    for arguments in command.before:
        exit_code(fork(start, arguments))
    runs = [_observe(command, start, work / "trial") for _ in range(2)]
    whole, again = (after for after, _, _ in runs)
    if changed := sorted(name for name in {*whole, *again} if whole.get(name) != again.get(name)):
        raise SystemExit(f"{command.name} does not do the same twice: {changed}")
    return Reference(command, start, snapshot(start), whole, min(spent for _, spent, _ in runs), runs[0][2])


def _observe(command: Command, start: Path, folder: Path) -> tuple[dict[str, str], float, int]:
    """The folder after a command that is not killed, its processor seconds, and its calls on files."""
    shutil.copytree(start, folder)
    counter = folder.with_suffix(".calls")
    handle = os.open(counter, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    _, status, used = os.wait4(fork(folder, command.arguments, lambda: os.write(handle, b".")), 0)
    code, seconds = os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime
    calls, after = counter.stat().st_size, snapshot(folder)
    os.close(handle)
    shutil.rmtree(folder)
    if code:
        raise SystemExit(f"{command.name} ends with {code}: {folder.with_suffix('.log').read_text()[-2000:]}")
    return after, seconds, calls


def trial(reference: Reference, kind: str, folder: Path, draw: random.Random) -> Counter[str]:
    """Kill a command once, look, give it again, look again."""
    shutil.copytree(reference.start, folder)
    arguments, count = reference.command.arguments, Counter(trials=1)
    if kind == "call" and reference.calls:  # info and similar touch no file
        left = [draw.randrange(reference.calls)]

        def watch() -> None:
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)

        count["killed"] = exit_code(fork(folder, arguments, watch)) == -signal.SIGKILL
    elif kind != "fresh":
        count["killed"] = killed_after(fork(folder, arguments), draw.uniform(0, reference.seconds))
    else:
        count["killed"] = kill_program(folder, arguments, reference.seconds, draw)
    left_over = snapshot(folder)
    half = [name for name, value in left_over.items() if value and is_visible(name) and is_half(name, value, reference)]
    lost = [name for name in reference.before if is_lost(name, left_over, reference)]
    code = exit_code(fork(folder, arguments))
    text = folder.with_suffix(".log").read_text()
    end = snapshot(folder)
    lost += [name for name, value in reference.after.items() if end.get(name) != value]
    extra = [name for name in end if name not in reference.after]
    refused = code != 0 and not (code == 2 and not lost and ("exists" in text or "already" in text))
    count |= {"lost": bool(lost), "half": bool(half), "left": bool(extra), "refused": refused}
    if lost or half or extra or refused:
        print(f"{reference.command.name}, {kind}: {lost=} {half=} {extra=} {code=} {text[-500:]}", flush=True)
    shutil.rmtree(folder)
    return count


def is_lost(name: str, files: dict[str, str], reference: Reference) -> bool:
    """Whether something that was there before a killed command is neither as it was nor as it will be.

    A folder that is replaced may be gone while all files of the old or of the new one lie elsewhere, hidden. Roles and
    page are computed from the vectors beside them, and may be gone.
    """
    if files.get(name) in (reference.before[name], reference.after.get(name)) or is_derived(name):
        return False
    top = name.split("/")[0]
    for each in (reference.before, reference.after):
        if {value for n, value in each.items() if n.split("/")[0] == top and not is_derived(n)} <= set(files.values()):
            return False
    return True


def is_derived(name: str) -> bool:
    """Whether this file of a run belongs to its roles or its page."""
    return "/roles." in name or "/explore" in name


def kill_program(folder: Path, arguments: tuple[str, ...], seconds: float, draw: random.Random) -> bool:
    """Start the real program on two threads and kill it at a random moment; False if it had ended."""
    environment = {**os.environ, "RAE_THREADS": "2", "TMPDIR": str(folder / "temporary")}
    output = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    program = subprocess.Popen([sys.executable, "-m", "rae", *arguments], cwd=folder, env=environment, **output)
    try:
        program.wait(draw.uniform(0, 4 + 2 * seconds))
    except subprocess.TimeoutExpired:
        program.kill()
    return program.wait() == -signal.SIGKILL


def kinds(trials: int, fresh: int, weight: float) -> Iterator[str]:
    """How each trial of a command with this share of all trials is killed."""
    real = round(fresh * weight)
    yield from ["fresh"] * real
    yield from (("call", "moment")[i % 2] for i in range(max(2, math.ceil(trials * weight)) - real))


def import_everything() -> None:
    """Import what commands import, so that children need not."""
    for name in ("publish", "runner", "tables"):
        importlib.import_module(f"rae.evaluation.{name}")
    for name in ("explore", "pipeline", "plan", "roles", "search"):
        importlib.import_module(f"rae.{name}")
    importlib.import_module("sklearn.cluster")
    importlib.import_module("torch").set_num_threads(1)


def main() -> None:
    arguments = parser(__doc__, "a few trials of every command but demo and reproduce, none of fresh processes")
    arguments.add_argument("--trials", type=int, default=1000)
    arguments.add_argument("--fresh", type=int, default=50, help="of these, real programs that are started")
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--only", action="append", choices=[command.name for command in COMMANDS], metavar="NAME")
    options = arguments.parse_args()
    chosen = [c for c in COMMANDS if c.name in (options.only or [c.name]) and not (options.quick and c.is_long)]
    trials, fresh = (2 * len(chosen), 0) if options.quick else (options.trials, options.fresh)
    import_everything()
    total: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as home:
        make_inputs(inputs := Path(home) / "inputs")
        for command in chosen:
            work = Path(home) / "work"
            work.mkdir()
            reference = learn(command, inputs, work)
            counts, draw, began = Counter[str](), random.Random(f"{options.seed} {command.name}"), time.monotonic()
            for kind in kinds(trials, fresh, command.weight / sum(c.weight for c in chosen)):
                counts += trial(reference, kind, work / "trial", draw) + Counter({kind: 1})
            shutil.rmtree(work)
            total += counts
            record(
                *(options.results, TABLE, command.name, "killed with -9 at random, given again"),
                {"trials": counts["trials"], "fresh": counts["fresh"], "seed": options.seed},
                killed=counts["killed"],
                **{name: counts[name] for name in COUNTED},
                files=sum(1 for value in reference.after.values() if value),
                calls=reference.calls,
                uninterrupted_cpu_s=round(reference.seconds, 2),
                spent_s=round(time.monotonic() - began),
            )
    print(f"{total['trials']:,} trials, {total['killed']:,} killed, the others had ended: ", end="")
    print(", ".join(f"{total[name]} {name}" for name in COUNTED))
    if any(total[name] for name in COUNTED):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
