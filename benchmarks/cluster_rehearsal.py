"""A rehearsal of a cluster on one machine with real separation: hosts in network namespaces, one disk between them.

    python benchmarks/cluster_rehearsal.py --hosts 4 --nodes 20000 --edges 100000

Every host is a network namespace on a bridge without an uplink, with its own mount namespace: /dev/shm and Ray's
temporary folder are private, the folder of the work is shared. Ray starts on each by `ray start`, with a token, on its
private interface. Then graph build, embedding and writing run from the first host, once undisturbed and once while a
whole host dies (every process of its namespace is killed with -9), and the vectors are compared with those of one
machine. Bytes over the network are read from the interfaces. What the rehearsal needs (root, iproute2, unshare, ray) is
looked for first: where it is missing, that is said, and nothing is done.

The shared disk stands for a network file system: what tasks read and write through it does not pass the interfaces,
so their counters show what Ray itself sends. `rae plan --hosts` counts the disk's bytes as network.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

BRIDGE, PREFIX = "raebr", "raehost"


def missing() -> str | None:
    """Why this machine cannot rehearse, None where it can."""
    for program in ("ip", "unshare", "nsenter"):
        if shutil.which(program) is None:
            return f"the program {program} is missing"
    if os.geteuid() != 0:
        return "only root may make network namespaces"
    if not (Path(sys.executable).with_name("ray")).exists():
        return "ray is not installed"
    made = subprocess.run(["ip", "netns", "add", f"{PREFIX}try"], capture_output=True, text=True)
    if made.returncode:
        return f"network namespaces cannot be made here ({made.stderr.strip()})"
    subprocess.run(["ip", "netns", "del", f"{PREFIX}try"], check=False)
    return None


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


class Host:
    """One host: a network namespace with an address, and a shell's worth of private folders."""

    def __init__(self, number: int, environment: dict[str, str], work: Path) -> None:
        self.name, self.address = f"{PREFIX}{number}", f"10.77.0.{number + 1}"
        self.environment, self.work = environment, work
        self.inside = f"rv{number}i"
        ip("netns", "add", self.name)
        ip("link", "add", f"rv{number}o", "type", "veth", "peer", "name", self.inside, "netns", self.name)
        ip("link", "set", f"rv{number}o", "master", BRIDGE, "up")
        ip("-n", self.name, "addr", "add", f"{self.address}/24", "dev", self.inside)
        ip("-n", self.name, "link", "set", self.inside, "up")
        ip("-n", self.name, "link", "set", "lo", "up")

    def run(self, *command: str, wait: bool = True, log: str = "log") -> subprocess.Popen[bytes]:
        """A command on this host, with /dev/shm and /tmp/ray of its own."""
        private = "mount -t tmpfs none /dev/shm && mkdir -p /tmp/ray && mount -t tmpfs none /tmp/ray && exec \"$@\""
        line = ["ip", "netns", "exec", self.name, "unshare", "--mount", "--propagation", "private", "sh", "-c", private]
        with (self.work / f"{self.name}-{log}.txt").open("ab") as out:
            process = subprocess.Popen([*line, "sh", *command], env=self.environment, stdout=out, stderr=out)
        if wait and process.wait():
            raise SystemExit(f"{self.name}: {' '.join(command)} failed; see {out.name}\n{Path(out.name).read_text()[-2000:]}")
        return process

    def processes(self) -> list[int]:
        """The processes of this host."""
        listed = subprocess.run(["ip", "netns", "pids", self.name], capture_output=True, text=True, check=False).stdout
        return [int(pid) for pid in listed.split()]

    def kill(self) -> None:
        """Kill every process of this host with -9."""
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def traffic(self) -> int:
        """Bytes that its interface received and sent."""
        shown = ["ip", "-n", self.name, "-s", "-j", "link", "show", self.inside]
        counted = json.loads(subprocess.run(shown, capture_output=True, text=True, check=True).stdout)[0]["stats64"]
        return int(counted["rx"]["bytes"] + counted["tx"]["bytes"])


@contextlib.contextmanager
def cluster(count: int, work: Path):
    """Hosts with Ray on each, the first one the head; everything is taken down at the end."""
    environment = os.environ | {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_USAGE_STATS_ENABLED": "0",
        "OMP_NUM_THREADS": "1",
    }
    hosts: list[Host] = []
    ip("link", "add", BRIDGE, "type", "bridge")
    try:
        ip("link", "set", BRIDGE, "up")
        for number in range(count):
            hosts.append(Host(number, environment, work))
        ray = str(Path(sys.executable).with_name("ray"))
        for host in hosts:
            where = ["--head", "--port=6379"] if host is hosts[0] else [f"--address={hosts[0].address}:6379"]
            shared = ["--num-cpus=1", "--object-store-memory=100000000", "--include-dashboard=false", "--block"]
            if host is not hosts[0]:
                shared.remove("--include-dashboard=false")
            host.run(ray, "start", *where, f"--node-ip-address={host.address}", *shared, wait=False, log="ray")
            if host is hosts[0]:
                time.sleep(8)
        yield hosts
    finally:
        for host in hosts:
            host.kill()
            subprocess.run(["ip", "netns", "del", host.name], check=False)
        subprocess.run(["ip", "link", "del", BRIDGE], check=False)


def wait_for(hosts: list[Host], seconds: float = 120) -> None:
    """Until all hosts have joined the cluster."""
    program = f"import ray, sys; ray.init(address='{hosts[0].address}:6379', log_to_driver=False); " \
        f"sys.exit(sum(node['Alive'] for node in ray.nodes()) != {len(hosts)})"
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        if hosts[0].run(sys.executable, "-c", program, wait=False, log="wait").wait() == 0:
            return
        time.sleep(1)
    raise SystemExit(f"only some of {len(hosts)} hosts joined the cluster; see the logs of the rehearsal")


def write_edges(folder: Path, nodes: int, edges: int, files: int = 8) -> None:
    """Power-law edges in several Parquet files."""
    rng = np.random.default_rng(7)
    folder.mkdir()
    for i in range(files):
        ends = (nodes * rng.random((2, edges // files)) ** 3).astype(np.int64)
        pq.write_table(pa.table({"source": ends[0], "target": ends[1]}), folder / f"{i}.parquet")


def rae(*words: str, environment: dict[str, str] | None = None) -> None:
    subprocess.run([sys.executable, "-m", "rae", *words, "--quiet"], check=True, env=environment, stdout=subprocess.DEVNULL)


def embed_while_a_host_dies(hosts: list[Host], work: Path, arguments: list[str], victim: Host | None) -> float:
    """Seconds of embedding from the first host; the victim is killed when some parts are there."""
    began, parts = time.monotonic(), Path(f"{arguments[arguments.index('--out') + 1].rstrip('/')}.parts")
    driver = hosts[0].run(sys.executable, "-m", "rae", *arguments, wait=False, log="driver")
    while driver.poll() is None:
        if victim is not None and len(list(parts.glob("*.part"))) >= 5:
            victim.kill()
            victim = None
        time.sleep(0.05)
    if driver.returncode or victim is not None:
        raise SystemExit(f"embedding ended with {driver.returncode}\n{(work / f'{hosts[0].name}-driver.txt').read_text()[-2000:]}")
    return time.monotonic() - began


def same_vectors(one: Path, other: Path) -> bool:
    from rae import read_embeddings

    (ids, z), (other_ids, other_z) = read_embeddings(one), read_embeddings(other)
    return bool(ids.equals(other_ids) and np.array_equal(z, other_z))


def rehearse(count: int, nodes: int, edges: int) -> dict[str, object]:
    """What the rehearsal found, by name."""
    with tempfile.TemporaryDirectory(prefix="rae-rehearsal-") as name:
        work = Path(name)
        write_edges(work / "edges", nodes, edges)
        rae("graph", "build", str(work / "edges"), "--out", str(work / "one"))
        rae("fit", str(work / "one"), "--out", str(work / "run"), "--no-page")
        one, seconds = work / "run" / "embeddings.parquet", {}
        with cluster(count, work) as hosts:
            wait_for(hosts)
            address = f"{hosts[0].address}:6379"
            before, began = sum(host.traffic() for host in hosts), time.monotonic()
            build = ["graph", "build", str(work / "edges"), "--out", str(work / "graph"), "--ray", address, "--quiet"]
            hosts[0].run(sys.executable, "-m", "rae", *build)
            seconds["build"] = time.monotonic() - began
            embed = ["embed", str(work / "run"), str(work / "graph"), "--ray", address, "--ray-cores", "1", "--quiet"]
            embed += ["--memory", "1GiB"]
            seconds["embed"] = embed_while_a_host_dies(hosts, work, [*embed, "--out", f"{work}/vectors/"], None)
            traffic = sum(host.traffic() for host in hosts) - before
            dies = [*embed, "--out", f"{work}/after/"]
            seconds["embed, a host dies"] = embed_while_a_host_dies(hosts, work, dies, hosts[-1])
        arrays = ("offsets.npy", "targets.npy", "ids.arrow", "graph.json")
        return {
            "hosts": count,
            "nodes": nodes,
            "edges": edges,
            "same graph": all((work / "graph" / a).read_bytes() == (work / "one" / a).read_bytes() for a in arrays),
            "same vectors": same_vectors(one, work / "vectors"),
            "same vectors after a host died": same_vectors(one, work / "after"),
            "network bytes": traffic,
            "seconds": {stage: round(spent, 1) for stage, spent in seconds.items()},
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--edges", type=int, default=100_000)
    options = parser.parse_args()
    if (why := missing()) is not None:
        print(f"the rehearsal of a cluster is skipped: {why}")
        return 0
    found = rehearse(options.hosts, options.nodes, options.edges)
    print(json.dumps(found))
    return 0 if all(found[name] for name in found if name.startswith("same")) else 1


if __name__ == "__main__":
    sys.exit(main())
