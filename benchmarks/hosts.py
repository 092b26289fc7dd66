"""Hosts on one machine, each with its own network, processes, shared memory and temporary files; and an object store.

A program calls `isolate()` first, which restarts it as the first process of its own namespaces: the bridge, hosts and
mounts that it makes there end with it. The bridge has no uplink. A host is a set of namespaces too, with an address on
the bridge; killing its first process kills all its processes and takes its network away, without a message, as a power
failure does.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ISOLATED = "RAE_HOSTS_APART"
BRIDGE, STORE = "10.77.0.1", "http://10.77.0.1:9000"
BUCKET = "s3://rehearsal"
RAY_PORT = 6379
FIRST = (  # the first process of a host
    "mount --make-rprivate / && mount -t tmpfs -o size={shm} tmpfs /dev/shm && "
    "mount -t tmpfs -o size={disk} tmpfs /tmp && hostname {name} && ip link set lo up && "
    "echo ready && while :; do sleep 1000; done"
)
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def rights() -> str | None:
    """Why hosts cannot be made here, None where they can."""
    if sys.platform != "linux":
        return "hosts in namespaces need Linux"
    try:
        subprocess.run([*_unshare(), "ip", "link", "add", "br0", "type", "bridge"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        reason = getattr(error, "stderr", b"").decode().strip().splitlines() or [str(error)]
        return f"no right to make namespaces and a bridge here ({reason[0]})"
    return None


def _unshare() -> list[str]:
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", *user, "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]


def is_isolated() -> bool:
    """Whether this process is in namespaces of its own already."""
    return ISOLATED in os.environ


def isolate() -> None:
    """Go on as the first process in namespaces of our own; refused where there are no rights."""
    if is_isolated():
        return
    if reason := rights():
        raise SystemExit(reason)
    os.environ[ISOLATED] = "1"
    command = [*_unshare(), "sh", "-c", '"$@" & wait $!', "sh", sys.executable, *sys.argv]
    os.execvp(command[0], command)


def _run(words: str, **options: object) -> str:
    return subprocess.run(shlex.split(words), check=True, capture_output=True, text=True, **options).stdout  # type: ignore[call-overload,no-any-return]


@dataclass
class Host:
    """A host of the bridge, by its number."""

    number: int
    first: subprocess.Popen[str]
    environment: Mapping[str, str]

    @property
    def address(self) -> str:
        """Its address on the bridge."""
        return f"10.77.0.{10 + self.number}"

    def command(self, words: Sequence[object], **environment: str) -> list[str]:
        """The words that start a command on this host."""
        assigned = [f"{name}={value}" for name, value in {**self.environment, **environment}.items()]
        inside = ["nsenter", "--target", str(self.first_pid), "--net", "--mount", "--pid", "--uts", "--ipc"]
        return [*inside, "--", "env", "--chdir=/tmp", "-i", *assigned, *map(str, words)]

    def run(self, *words: object, check: bool = True, **environment: str) -> str:
        """What a command on this host prints."""
        process = subprocess.run(self.command(words, **environment), capture_output=True, text=True)
        if check and process.returncode:
            raise RuntimeError(f"{words[:4]} on host {self.number}: {process.stdout[-2000:]}{process.stderr[-3000:]}")
        return process.stdout

    def start(self, *words: object, **environment: str) -> subprocess.Popen[str]:
        """A command on this host, with its output in one pipe."""
        return subprocess.Popen(
            self.command(words, **environment), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    @property
    def first_pid(self) -> int:
        """The process whose end is that of the host: the child of `unshare`."""
        return int(Path(f"/proc/{self.first.pid}/task/{self.first.pid}/children").read_text().split()[0])

    def kill(self) -> None:
        """End the host as a power failure does."""
        os.kill(self.first_pid, signal.SIGKILL)
        self.first.wait()

    def processes(self) -> dict[int, str]:
        """The commands of its processes, by their ids here."""
        namespace, commands = Path(f"/proc/{self.first_pid}/ns/pid").readlink(), {}
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and (entry / "ns/pid").readlink() == namespace:
                    commands[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
        return commands


@dataclass
class Hosts:
    """A bridge with a store and hosts; the counters of the bridge's side of each cable."""

    folder: Path
    environment: Mapping[str, str]
    shm: str = "256m"
    disk: str = "2g"
    hosts: dict[int, Host] = field(default_factory=dict)

    def __enter__(self) -> Hosts:
        _run("ip link set lo up")
        _run("ip link add br0 type bridge")
        _run(f"ip address add {BRIDGE}/24 dev br0")
        _run("ip link set br0 up")
        server = [sys.executable, str(Path(__file__).with_name("object_store.py")), str(self.folder), BRIDGE, "9000"]
        self.store = subprocess.Popen(server, **QUIET)  # type: ignore[call-overload]
        return self

    def __exit__(self, *_: object) -> None:
        for number in list(self.hosts):
            self.kill(number)
        self.store.kill()
        self.store.wait()
        _run("ip link delete br0")

    def add(self, number: int, *, disk: str | None = None) -> Host:
        """A new host with this number, or one in place of a host that was killed."""
        name = f"host{number}"
        program = FIRST.format(shm=self.shm, disk=disk or self.disk, name=name)
        words = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--uts", "--ipc", "--mount-proc"]
        first = subprocess.Popen([*words, "sh", "-c", program], stdout=subprocess.PIPE, text=True)
        if first.stdout is None or first.stdout.readline().strip() != "ready":
            raise RuntimeError(f"{name} did not start")
        host = self.hosts[number] = Host(number, first, self.environment)
        _run(f"ip link add {name} type veth peer name eth0 netns {host.first_pid}")
        _run(f"ip link set {name} master br0 up")
        for words in (f"address add {host.address}/24 dev eth0", "link set eth0 up"):
            subprocess.run(["nsenter", "--target", str(host.first_pid), "--net", "ip", *words.split()], check=True)
        return host

    def kill(self, number: int) -> None:
        """End a host as a power failure does; its cable goes with it."""
        host = self.hosts.pop(number)
        host.kill()
        cable = f"host{number}"  # goes with the namespace, but a moment later
        subprocess.run(["ip", "link", "delete", cable], capture_output=True)

    def traffic(self) -> dict[int, tuple[int, int]]:
        """Bytes that each host has received and sent, by its number."""
        out = {}
        for line in Path("/proc/net/dev").read_text().splitlines():
            if match := re.match(r"\s*host(\d+):\s*(.*)", line):
                numbers = [int(word) for word in match[2].split()]
                out[int(match[1])] = numbers[8], numbers[0]  # what the bridge sends into the cable, a host receives
        return out


@dataclass
class Cluster:
    """Ray on hosts: host 1 has the head, every one works with so many cores."""

    network: Hosts
    python: str
    cores: int = 1
    memory: int = 2 << 30

    @property
    def head(self) -> str:
        """The address of the head."""
        return f"10.77.0.11:{RAY_PORT}"

    def start(self, number: int) -> None:
        """Start Ray on a host: the head on host 1, which the others join."""
        host = self.network.hosts[number]
        ray = [self.python, "-m", "ray.scripts.scripts", "start"]
        head = ["--head", f"--port={RAY_PORT}", "--include-dashboard=false"]
        where = head if number == 1 else [f"--address={self.head}"]
        limits = [f"--num-cpus={self.cores}", f"--memory={self.memory}", f"--object-store-memory={80 << 20}"]
        host.run(*ray, *where, f"--node-ip-address={host.address}", *limits, "--disable-usage-stats")


@contextlib.contextmanager
def cluster(
    folder: Path, python: str, environment: Mapping[str, str], count: int = 4, **options: object
) -> Iterator[Cluster]:
    """Ray on so many hosts, with a store whose objects lie in this folder."""
    with Hosts(folder, environment, **options) as network:  # type: ignore[arg-type]
        on_hosts = Cluster(network, python)
        for number in range(1, count + 1):
            network.add(number)
            on_hosts.start(number)
        yield on_hosts
