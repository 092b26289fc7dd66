"""`rae serve` under load: requests that arrive whether or not earlier ones were answered, with updates beside them.

    RAE_DATA=... python benchmarks/serve_load.py [--run FOLDER] [--rate 200] [--seconds 600] [--updates 1] [--kill]

The service is a process of its own, this program another one. Reads arrive at random moments (a Poisson process of
`--rate` a second); a latency counts from the moment at which the request was due, so a service that stalls pays for all
who came meanwhile. Of the reads 2 % (`--embeds`) embed a new node that has the neighbours of a node of the graph; of
the others 74 % ask for look-alikes, 16 % for a role, 5 % each for a card and a search. Beside them `--updates` a
second post 10 edges between nodes without hubs around them, one of them to a new node; every second update takes
the edges of the one before away again. The memory of the service is what its processes have in memory, after a
tenth of the time, after half of it and at the end. --kill ends it by SIGKILL under load instead of SIGTERM.
Afterwards the run is opened, and every update that was acknowledged must be in it.

--run is a run of web-Google, which is updated; else one is fitted in a temporary folder, with roles (k = 12).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path

import aiohttp
import numpy as np
from one_node import WITHOUT_HUBS, percentiles, surroundings
from recording import parser, record, web_google

import rae
from rae.ops.edits import EditedRows
from rae.run import Run

EDGES = 10  # of an update
SHARES = {"similar": 0.70, "role": 0.15, "card": 0.05, "search": 0.05}
FIRST_NEW = 10**12  # ids of new nodes, which no graph here has
READ = ("similar", "role", "card", "search", "embed")


class Load:
    """The requests of one trial, and what became of them."""

    def __init__(self, run: Run, url: str, embeds: float, seed: int = 7) -> None:
        self.url, self.embeds = url, embeds
        self.rng = np.random.default_rng(seed)
        self.graph = run.graph()
        self.latencies: dict[str, list[float]] = defaultdict(list)
        self.errors: Counter[str] = Counter()
        self.acknowledged: list[tuple[bool, list[list[int]]]] = []  # whether added, and the edges, in order
        self.n_roles = len(run.role_record()["cards"])
        rows = EditedRows.of(self.graph, self.graph.n_nodes)
        drawn = self.rng.permutation(self.graph.n_nodes)[:20_000]
        quiet = (u for u in drawn if surroundings(rows, u, 5, WITHOUT_HUBS) is not None)
        self.quiet = [u for u, _ in zip(quiet, range(500), strict=False)]

    def id_of(self, row: int) -> int:
        return self.graph.id_column[int(row)].as_py()

    def question(self) -> tuple[str, str, object]:
        """A verb, its address, and its body, None for a GET."""
        row = int(self.rng.integers(self.graph.n_nodes))
        drawn, id = self.rng.random(), self.id_of(row)
        if drawn < self.embeds:
            return "embed", "/embed", {"neighbours": [self.id_of(v) for v in self.graph.neighbors(row)[:100]]}
        drawn = (drawn - self.embeds) / (1 - self.embeds) * sum(SHARES.values())
        verbs, shares = list(SHARES), np.cumsum(list(SHARES.values()))
        verb = verbs[min(int(np.searchsorted(shares, drawn, side="right")), len(verbs) - 1)]
        if verb == "card":
            return verb, f"/card/{row % self.n_roles}", None
        return verb, f"/search?q={str(id)[:4]}" if verb == "search" else f"/{verb}/{id}", None

    def edges(self, number: int) -> list[list[int]]:
        """The edges of an update: between quiet nodes, which are no neighbours, and one to a new node."""
        picked = self.rng.choice(self.quiet, 2 * EDGES - 1, replace=False).tolist()
        pairs = [(u, v) for u, v in zip(picked[::2], picked[1::2], strict=False) if v not in self.graph.neighbors(u)]
        return [[self.id_of(u), self.id_of(v)] for u, v in pairs] + [[self.id_of(picked[-1]), FIRST_NEW + number]]

    async def ask(self, session: aiohttp.ClientSession, verb: str, path: str, body: object, due: float) -> bool:
        """Whether a request was answered well; its latency is kept."""
        try:
            method = "GET" if body is None else "POST"
            async with session.request(method, self.url + path, json=body) as reply:
                await reply.read()
                fine = reply.status == 200
                if not fine:
                    self.errors[f"{verb} {reply.status}"] += 1
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self.errors[f"{verb} {type(error).__name__}"] += 1
            return False
        self.latencies[verb].append(time.perf_counter() - due)
        return fine

    async def read(self, session: aiohttp.ClientSession, rate: float, seconds: float) -> None:
        """Send reads at random moments, whatever becomes of earlier ones."""
        began, due, waiting = time.perf_counter(), 0.0, set()
        while due < seconds:
            due += float(self.rng.exponential(1 / rate))
            if (wait := began + due - time.perf_counter()) > 0:
                await asyncio.sleep(wait)
            task = asyncio.ensure_future(self.ask(session, *self.question(), began + due))
            waiting.add(task)
            task.add_done_callback(waiting.discard)
        await asyncio.gather(*waiting)

    async def update(self, session: aiohttp.ClientSession, rate: float, seconds: float) -> None:
        """Post an update after the other, none before its moment."""
        began, number, last = time.perf_counter(), 0, None
        while rate and number / rate < seconds:
            due = began + number / rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            adds = last is None
            edges = self.edges(number) if adds else last
            if await self.ask(session, "edges", "/edges", {"added" if adds else "removed": edges}, due):
                self.acknowledged.append((adds, edges))
                last = edges if adds else None
            number += 1

    async def trial(self, rate: float, seconds: float, updates: float, process: subprocess.Popen, kill: bool) -> dict:
        """All requests of a trial; memory and CPU time of the service."""
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(60)) as session:
            await asyncio.gather(self.read(session, rate, min(2.0, seconds / 10)), self.update(session, updates, 1.0))
            self.latencies.clear()
            first = resources(process.pid)
            began = time.perf_counter()
            work = asyncio.gather(self.read(session, rate, seconds), self.update(session, updates, seconds))
            await asyncio.sleep(seconds / 10)
            settled = resources(process.pid)
            await asyncio.sleep(0.4 * seconds)
            half = resources(process.pid)
            if kill:
                await asyncio.sleep(0.4 * seconds)
                last = resources(process.pid)
                process.kill()
                with contextlib.suppress(asyncio.CancelledError):
                    await work
            else:
                await work
                last = resources(process.pid)
            spent = time.perf_counter() - began
        return {
            "memory_first_mb": settled[0],
            "memory_half_mb": half[0],
            "memory_last_mb": last[0],
            "cpu_share": round((last[1] - first[1]) / spent, 3),
        }


def resources(pid: int) -> tuple[float, float]:
    """Megabytes in memory and seconds of CPU time of a process and of those that it started.  (Linux)"""
    status = Path(f"/proc/{pid}/status").read_text()
    spent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    memory = int(re.search(r"VmRSS:\s+(\d+)", status)[1]) * 1024 / 1e6
    own = memory, sum(map(int, spent)) / os.sysconf("SC_CLK_TCK")
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    both = [own, *(resources(int(child)) for child in children)]
    return round(sum(m for m, _ in both), 1), sum(s for _, s in both)


@contextlib.contextmanager
def service(folder: Path):
    """A service of this run, and its address."""
    command = [sys.executable, "-m", "rae", "serve", str(folder), "--port", "0"]
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline()
            match = re.match(r"(http://\S+)/ ", line)
            if not match:
                raise SystemExit(f"the service did not start: {line!r}")
            print(f"{match[1]} after {time.perf_counter() - began:.1f} s", flush=True)
            yield process, match[1], round(time.perf_counter() - began, 1)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.wait(60)


def check(folder: Path, acknowledged: list) -> int:
    """Updates that were acknowledged and are not in the run."""
    graph = Run.open(folder).graph()
    here: dict[tuple[int, int], bool] = {}
    for adds, edges in acknowledged:
        for u, v in edges:
            here[u, v] = adds
    lost = 0
    for (u, v), there in here.items():
        neighbors = {int(graph.id_column[int(r)].as_py()) for r in graph.neighbors(int(graph.rows([u])[0]))}
        lost += (v in neighbors) != there
    return lost


def main() -> None:
    arguments = parser(__doc__, "a random graph of 2,000 nodes, 2 s")
    arguments.add_argument("--run", type=Path, help="a run of web-Google with roles, which is updated")
    arguments.add_argument("--rate", type=float, default=200, help="reads a second")
    arguments.add_argument("--seconds", type=float, default=600)
    arguments.add_argument("--updates", type=float, default=1, help="updates a second")
    arguments.add_argument("--embeds", type=float, default=0.02, help="share of the reads that embed a new node")
    arguments.add_argument("--kill", action="store_true", help="end the service by SIGKILL under load")
    options = arguments.parse_args()
    name = "random, 2,000 nodes" if options.quick else "web-Google"
    rate, seconds = (50, 2) if options.quick else (options.rate, options.seconds)
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.run or Path(scratch) / "run"
        if options.run is None:
            edges = np.random.default_rng(7).integers(2000, size=(2600, 2))
            graph = rae.Graph.from_edges(edges) if options.quick else rae.read_edges(web_google())
            rae.fit_run(graph, out=folder, page=False).fit_roles(12)
        with service(folder) as (process, url, start_s):
            load = Load(Run.open(folder), url, options.embeds)
            facts = asyncio.run(load.trial(rate, seconds, options.updates, process, options.kill))
        lost = check(folder, load.acknowledged)
    if not options.kill and process.returncode != 0:
        load.errors[f"exit code {process.returncode}"] += 1
    settings = {"rate": rate, "seconds": seconds, "updates": options.updates, "cores": os.cpu_count()}
    if options.kill:
        record(options.results, "serve-killed", name, "killed under load (SIGKILL)", settings,
               acknowledged=len(load.acknowledged), lost=lost)  # fmt: skip
    else:
        everything = [s for verb in READ for s in load.latencies[verb]]
        shared = {"errors": sum(load.errors.values()), "lost": lost, "start_s": start_s, **facts}
        record(options.results, "serve", name, "all reads", settings,
               **percentiles(everything), calls=len(everything), **shared)  # fmt: skip
        for verb in (*READ, "edges"):
            if load.latencies[verb]:
                shown = "POST /edges, 10 edges" if verb == "edges" else verb
                record(options.results, "serve", name, shown, settings,
                       **percentiles(load.latencies[verb]), calls=len(load.latencies[verb]))  # fmt: skip
    if lost or (load.errors and not options.kill):
        raise SystemExit(f"{lost} acknowledged edges lost; errors: {dict(load.errors)}")


if __name__ == "__main__":
    main()
