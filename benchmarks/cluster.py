"""A cluster rehearsed on one machine: the bytes of one machine, bytes over the network, and every fault.

    python benchmarks/cluster.py [--edges 1e6 | --web-google] [--only plain,faults] [--fault embed:host ...] [--quick]

Four hosts, each with a network address, processes, shared memory and a temporary folder of its own (`hosts.py`), on a
bridge without an uplink; Ray with token authentication; all that they share is a server that speaks S3
(`object_store.py`). A graph is built there, fitted, embedded and written by commands that are given on host 2, then
once more for each fault: a worker killed with -9, a host with all its processes, and the head, each in the middle of
building, fitting, embedding and writing; and a host whose disk is full. What comes out is compared byte by byte with
what one machine writes. The bytes over the network are those of the bridge's counters. Needs root, or the right to
make user namespaces.

`cluster_overhead.py` compares the processor time of Ray with that of one process, `cluster_model.py` feeds measured
times of tasks to a model of 64 hosts.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hosts
import numpy as np
import pyarrow.parquet as pq
from hosts import BUCKET, STORE, Cluster
from power_law import draw_edges, name
from recording import parser, record, web_google

TABLE, FAULTS_TABLE = "cluster", "cluster-faults"
SOURCE = Path(__file__).parent.parent / "src"
DRIVER = 2  # the host that commands are given on
STAGES = ("build", "fit", "embed", "write")
FAULTS = ("worker", "host", "head")
PREFIXES = {  # objects that appear while a stage is at work
    "build": ("graph.parts/",),
    "fit": ("run.fit", "run.parts/"),
    "embed": ("vectors.parts/",),
    "write": ("vectors/part-",),
}
COMMANDS = {
    "build": ("graph", "build", f"{BUCKET}/edges/", "--out", f"{BUCKET}/graph"),
    "fit": ("fit", f"{BUCKET}/graph", "--out", f"{BUCKET}/run", "--no-page"),
    "embed": ("embed", f"{BUCKET}/run", f"{BUCKET}/graph", "--out", f"{BUCKET}/vectors/"),
}
OUTPUTS = {"build": "graph/", "fit": "run/", "embed": "vectors/"}
MINUTES = 10  # that a command may take


def environment() -> dict[str, str]:
    """What a host's commands see: no variable of this process but the path."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": "/tmp",
        "PYTHONPATH": str(SOURCE),
        "OMP_NUM_THREADS": "1",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_health_check_period_ms": "1000",  # a lost host is noticed after 15 s instead of a minute
        "RAY_health_check_timeout_ms": "5000",
        "RAY_health_check_failure_threshold": "3",
        "RAY_gcs_rpc_server_reconnect_timeout_s": "20",
        "AWS_ENDPOINT_URL": STORE,
        "AWS_ACCESS_KEY_ID": "rehearsal",
        "AWS_SECRET_ACCESS_KEY": "rehearsal",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


@dataclass
class Objects:
    """The objects of the store, as files of its folder."""

    folder: Path

    def names(self, *prefixes: str) -> set[str]:
        """The names of objects that begin so."""
        start = f"{BUCKET.partition('://')[2]}/"
        paths = (path.name.replace("%2F", "/") for path in self.folder.iterdir())
        return {full[len(start) :] for full in paths if full.startswith(tuple(start + each for each in prefixes))}

    def path(self, name: str) -> Path:
        """The file of an object."""
        return self.folder / f"{BUCKET.partition('://')[2]}/{name}".replace("/", "%2F")

    def put(self, name: str, file: Path) -> None:
        """Copy a file into the store."""
        shutil.copy(file, self.path(name))

    def written(self, names: set[str]) -> dict[str, int]:
        """When objects were written, as far as they are there."""
        out = {}
        for each in names:
            with contextlib.suppress(FileNotFoundError):
                out[each] = self.path(each).stat().st_mtime_ns
        return out

    def remove(self, *prefixes: str) -> None:
        """Remove all objects that begin so."""
        for each in self.names(*prefixes):
            self.path(each).unlink(missing_ok=True)


@contextlib.contextmanager
def watching(objects: Objects, names_by_stage: dict[str, set[str]]) -> Iterator[None]:
    """Note the names of all objects of a stage that are ever there."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.02):
            for stage, prefixes in PREFIXES.items():
                names_by_stage.setdefault(stage, set()).update(objects.names(*prefixes))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


# ------------------------------------------------------------------------------------ what must come out


def rae(*words: object, **environ: str) -> str:
    """What a command on this machine prints."""
    command = [sys.executable, "-m", "rae", *map(str, words)]
    return subprocess.run(
        command, check=True, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(SOURCE), **environ}
    ).stdout


def on_one_machine(work: Path, edges: Path) -> dict[str, str]:
    """Checksums of what one machine makes of the edges, by command; they stay in the work folder."""
    sums_file = work / "one-machine.json"
    if not sums_file.is_file():
        options = ("--quiet", "--threads", "1")
        rae("graph", "build", edges, "--out", work / "graph", "--force", "--quiet")
        rae("fit", work / "graph", "--out", work / "run", "--no-page", "--force", *options)
        rae("embed", work / "run", work / "graph", "--out", f"{work}/vectors/", "--force", *options)
        sums = {command: checksum(command, work / folder.rstrip("/")) for command, folder in OUTPUTS.items()}
        sums_file.write_text(json.dumps(sums))
    return dict(json.loads(sums_file.read_text()))


def checksum(command: str, folder: Path) -> str:
    """The SHA-256 of what a command has made: of files, of ids and vectors."""
    digest = hashlib.sha256()
    if command == "build":
        for path in sorted(folder.iterdir()):
            digest.update(path.name.encode() + path.read_bytes())
    if command == "fit":
        digest.update((folder / "model.safetensors").read_bytes())
    tables = {"fit": ["embeddings.parquet"], "embed": sorted(p.name for p in folder.glob("part-*.parquet"))}
    ids, vectors = hashlib.sha256(), hashlib.sha256()  # apart: parts are cut for the cluster
    for each in tables.get(command, []):
        table = pq.read_table(folder / each)
        ids.update("\n".join(map(str, table.column("id").to_pylist())).encode() + b"\n")
        vectors.update(np.ascontiguousarray(table.column("embedding").combine_chunks().flatten().to_numpy()))
    return hashlib.sha256(digest.digest() + ids.digest() + vectors.digest()).hexdigest()


# ------------------------------------------------------------------------------------ the rehearsal


@dataclass
class Rehearsal:
    """A cluster, the objects that it shares, and what must come out."""

    cluster: Cluster
    objects: Objects
    expected: dict[str, str]
    work: Path
    numbers: range  # of the hosts
    seen: dict[str, set[str]] = field(default_factory=dict)

    def start(self, command: str) -> subprocess.Popen[str]:
        """Give a command on host 2."""
        words = (*COMMANDS[command], "--ray", self.cluster.head, "--quiet")
        return self.cluster.network.hosts[DRIVER].start(self.cluster.python, "-m", "rae", *words)

    def result(self, process: subprocess.Popen[str]) -> tuple[int, str]:
        """The exit code of a command, and its last line."""
        try:
            text, _ = process.communicate(timeout=60 * MINUTES)
        except subprocess.TimeoutExpired:
            process.kill()
            text, _ = process.communicate()
            text += f"\nended after {MINUTES} minutes"
        (self.work / "last.log").write_text(text)
        lines = [line for line in text.splitlines() if line.strip()]
        return process.returncode, lines[-1] if lines else ""

    def is_same(self, command: str) -> bool:
        """Whether the objects that a command has made are those of one machine."""
        with tempfile.TemporaryDirectory(dir=self.work) as folder:
            for each in self.objects.names(OUTPUTS[command]):
                shutil.copy(self.objects.path(each), Path(folder) / each.rpartition("/")[2])
            return checksum(command, Path(folder)) == self.expected[command]

    def forget(self, command: str) -> None:
        """Remove what a command and those after it have made, on the host where it was given too."""
        commands = list(COMMANDS)
        for each in commands[commands.index(command) :]:
            self.objects.remove(OUTPUTS[each].rstrip("/"))
        self.cluster.network.hosts[DRIVER].run("rm", "-rf", "/tmp/runs")

    def prepare(self, command: str) -> None:
        """Remove what a command and those after it have made, and make what it reads where a fault has removed that."""
        self.forget(command)
        for before in list(COMMANDS)[: list(COMMANDS).index(command)]:
            if not self.objects.names(OUTPUTS[before]):
                self.plain(before)

    def plain(self, command: str) -> dict[str, Any]:
        """One command without a fault: seconds, bytes over the network, whether its result is that of one machine."""
        self.forget(command)
        before, began = self.cluster.network.traffic(), time.perf_counter()
        with watching(self.objects, self.seen):
            code, last = self.result(self.start(command))
        seconds, after = time.perf_counter() - began, self.cluster.network.traffic()
        if code:
            raise RuntimeError(f"{command}: {last}\n{(self.work / 'last.log').read_text()[-3000:]}")
        received, sent = (sum(after[n][way] - before[n][way] for n in after) for way in (0, 1))
        return {
            "seconds": round(seconds, 1),
            "received": received,
            "sent": sent,
            "same": self.is_same(command),
            "left": sorted(self.objects.names(*(f"{each.rstrip('/')}." for each in OUTPUTS.values()))),
        }

    def half_way(self, stage: str, process: subprocess.Popen[str]) -> bool:
        """Wait until half of the objects of a stage have been there; False where the command ended before."""
        half, names = len(self.seen[stage]) / 2, set()
        while len(names) < max(1, half):
            names |= self.objects.names(*PREFIXES[stage])
            if process.poll() is not None:
                return False
            time.sleep(0.01)
        return True

    def fault(self, stage: str, what: str) -> dict[str, Any]:
        """One command with a fault in the middle of a stage of it."""
        command = "embed" if stage == "write" else stage
        self.prepare(command)
        process = self.start(command)
        began = time.perf_counter()
        in_time = self.half_way(stage, process)
        numbers: dict[str, Any] = {"parts": len(self.seen[stage])}
        numbers["in_time"] = in_time and self.break_(what, process)
        numbers["parts_there"] = len(self.objects.names(*PREFIXES[stage]))
        struck = time.perf_counter()
        code, last = self.result(process)
        numbers |= {"seconds": round(time.perf_counter() - began, 1)}
        numbers |= {"seconds_after": round(time.perf_counter() - struck, 1), "code": code}
        if what in ("head", "disk") or code:
            numbers["sentence"] = last
        if what == "head" and code:
            parts_before = self.objects.written(self.objects.names(*PREFIXES[stage]))
            self.restart()
            numbers["parts_kept"] = len(parts_before)
            again = self.start(command)
            with watching(self.objects, {}):
                code, last = self.again(again, parts_before, numbers)
            numbers |= {"code_again": code}
            if code:
                numbers["sentence_again"] = last
        numbers["same"] = code == 0 and self.is_same(command)
        numbers["left"] = len(self.objects.names(*(f"{each.rstrip('/')}." for each in OUTPUTS.values())))
        if what == "host":
            self.cluster.network.add(3)
            self.cluster.start(3)
        return numbers

    def again(
        self, process: subprocess.Popen[str], parts_before: dict[str, int], numbers: dict[str, Any]
    ) -> tuple[int, str]:
        """The end of the command that was given again; how many of the parts that were there were written anew."""
        ended, anew = threading.Event(), set()

        def watch() -> None:
            while not ended.wait(0.02):
                anew.update(n for n, when in self.objects.written(set(parts_before)).items() if when != parts_before[n])

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            return self.result(process)
        finally:
            ended.set()
            thread.join()
            numbers["parts_written_anew"] = len(anew)

    def break_(self, what: str, process: subprocess.Popen[str]) -> bool:
        """Kill a worker, its host, or the head, when a task is at work there; False where the command ended before."""
        network = self.cluster.network
        numbers = {"worker": set(network.hosts) - {DRIVER}, "host": {3}, "head": {1}}[what]
        while process.poll() is None:
            for number in numbers:
                for pid, words in network.hosts[number].processes().items():
                    if "perform_there" in words:
                        if what == "worker":
                            os.kill(pid, 9)
                        else:
                            network.kill(number)
                        return True
            time.sleep(0.005)
        return False

    def restart(self) -> None:
        """A new head, and the other hosts joining it."""
        network = self.cluster.network
        for number in sorted(set(network.hosts) - {DRIVER}):
            network.kill(number)
        network.hosts[DRIVER].run(self.cluster.python, "-m", "ray.scripts.scripts", "stop", "--force", check=False)
        for number in self.numbers:
            if number not in network.hosts:
                network.add(number)
            self.cluster.start(number)

    def full_disk(self) -> dict[str, Any]:
        """Embedding with a host whose disk is full, and once more when it is not."""
        self.prepare("embed")
        network = self.cluster.network
        room = int(network.hosts[4].run("df", "--output=avail", "-B1", "/tmp").split()[1])
        network.hosts[4].run("fallocate", "-l", max(1, room - (1 << 20)), "/tmp/full")
        began = time.perf_counter()
        code, last = self.result(self.start("embed"))
        numbers: dict[str, Any] = {"seconds": round(time.perf_counter() - began, 1), "code": code, "sentence": last}
        parts_before = self.objects.written(self.objects.names("vectors"))
        network.hosts[4].run("rm", "/tmp/full")
        code, _ = self.again(self.start("embed"), parts_before, numbers)
        return numbers | {
            "parts_kept": len(parts_before),
            "code_again": code,
            "same": code == 0 and self.is_same("embed"),
        }


def planned(nodes: int, edges: int, count: int) -> dict[str, Any]:
    """What `rae plan` says of embedding on so many hosts of one core."""
    size = ("--host-memory", "3GiB", "--host-cores", 1)
    return dict(json.loads(rae("plan", f"{nodes},{edges}", "--hosts", count, *size, "--json")))


def make_edges(work: Path, options: Any) -> tuple[str, Path]:
    """The name of the graph, and a folder of eight Parquet files of its edges."""
    folder = work / "edges"
    title = "web-Google" if options.web_google else name(int(options.edges))
    if folder.is_dir():
        return title, folder
    if options.web_google:
        from pyarrow import csv

        how = csv.ReadOptions(column_names=["source", "target"], skip_rows=4)
        table = csv.read_csv(web_google(), how, csv.ParseOptions(delimiter="\t"))
    else:
        whole = draw_edges(work / "whole.parquet", int(options.edges) // 10, int(options.edges))
        table = pq.read_table(whole)
        whole.unlink()
    making = work / "edges.new"
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir()
    rows = -(-len(table) // 8)
    for i in range(8):
        pq.write_table(table.slice(i * rows, rows), making / f"edges-{i}.parquet", row_group_size=max(1, rows // 2))
    making.replace(folder)
    return title, folder


def rehearse(options: Any, work: Path, say: Callable[..., Any]) -> None:
    """The four commands without a fault, then with each one."""
    title, edges = make_edges(work, options)
    expected = on_one_machine(work, edges)
    store = work / "store"
    shutil.rmtree(store, ignore_errors=True)
    store.mkdir()
    objects = Objects(store)
    for path in edges.iterdir():
        objects.put(f"edges/{path.name}", path)
    counts = json.loads((work / "graph" / "graph.json").read_text())
    plan = planned(counts["n_nodes"], counts["n_edges"], options.hosts)
    differ: list[str] = []
    began = time.perf_counter()
    with hosts.cluster(store, sys.executable, environment(), options.hosts) as cluster:
        settings = {"hosts": options.hosts, "cores": cluster.cores}
        say(title, "start", settings, seconds=round(time.perf_counter() - began, 1))
        rehearsal = Rehearsal(cluster, objects, expected, work, range(1, options.hosts + 1))
        for command in COMMANDS:
            numbers = {"edges": counts["n_edges"], **rehearsal.plain(command)}
            if command == "embed":
                numbers |= {
                    "planned": plan["bytes"]["network, graph in an object store"],
                    "planned_seconds": round(plan["seconds"]["total"], 1),
                }
            say(title, command, settings, **numbers)
            differ += [] if numbers["same"] else [command]
        faults = options.fault or [f"{stage}:{what}" for stage in STAGES for what in FAULTS] + ["embed:disk"]
        if "faults" not in options.only and not options.fault:
            faults = []
        for each in faults:
            stage, _, what = each.partition(":")
            numbers = rehearsal.full_disk() if what == "disk" else rehearsal.fault(stage, what)
            lost = "a disk full" if what == "disk" else f"{what} lost"
            say(f"{title}: {stage}, {lost}", stage, settings, table=FAULTS_TABLE, **numbers)
            differ += [] if numbers["same"] else [each]
            if stage in ("build", "fit") and not numbers["same"]:
                rehearsal.plain(stage)
            if what == "host" and not numbers["same"]:
                rehearsal.restart()
    if differ:
        raise SystemExit(f"not the files of one machine: {', '.join(differ)}")


def main() -> None:
    arguments = parser(__doc__, "100,000 edges on two hosts, without faults; skipped without the rights")
    arguments.add_argument("--edges", type=float, default=1e6)
    arguments.add_argument("--web-google", action="store_true")
    arguments.add_argument("--hosts", type=int, default=4)
    arguments.add_argument("--only", default="plain,faults", type=lambda text: text.split(","))
    arguments.add_argument("--fault", action="append", metavar="STAGE:WHAT")
    arguments.add_argument("--work", type=Path, help="folder that keeps graphs and results  [default: temporary]")
    options = arguments.parse_args()
    if options.quick:
        options.edges, options.hosts, options.only = 100_000, 2, ["plain"]
        if reason := None if hosts.is_isolated() else hosts.rights():
            raise SystemExit(print(f"skipped: {reason}"))
    in_namespaces = {"plain", "faults"} & set(options.only)
    if in_namespaces:
        if SOURCE.resolve().is_relative_to("/tmp"):
            raise SystemExit(f"every host has a /tmp of its own, and would not see {SOURCE}; run a copy from elsewhere")
        hosts.isolate()
    with tempfile.TemporaryDirectory() as scratch:
        work = (options.work or Path(scratch)).resolve()
        work.mkdir(parents=True, exist_ok=True)
        ledger = options.results

        def say(dataset: str, row: str, settings: dict[str, Any], *, table: str = TABLE, **numbers: Any) -> None:
            record(ledger, table, dataset, row, settings, **numbers)

        if in_namespaces:
            rehearse(options, work, say)


if __name__ == "__main__":
    main()
