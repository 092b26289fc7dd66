"""Tasks on a Ray cluster. Ray schedules them, retries them when a worker or a host dies, and returns errors.

A description of the job, which has `perform`, and a task are sent, both plain data of a few hundred bytes;
rows go through files that all hosts see. One task at a time is at work on a host by default, with all its cores: the
rows that a level averages are then in memory once per host.
"""

from __future__ import annotations

import atexit
import collections
import contextlib
import itertools
import logging
import os
import secrets
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rae.errors import Argument, ClusterError, ConfigError, FileError, MissingExtraError, RaeError, one_line
from rae.progress import Progress, size
from rae.runtime import set_threads
from rae.storage.parts import moved
from rae.version import __version__

log = logging.getLogger("rae.inputs")  # a note that the command line shows

LEAST_VERSION = (2, 59)  # from which on a cluster that Ray starts itself asks for a token
RECONNECT = "RAY_gcs_rpc_server_reconnect_timeout_s"
RECONNECT_SECONDS = 60.0  # after which Ray ends a program whose head is gone, unless it is told otherwise
LISTEN_SECONDS = 2.0  # without a result after which the head is asked for
RETRIES = 5  # of a task whose worker or host died, or whose disk failed
CONNECT_SECONDS = 10.0  # in which a cluster takes a connection
BATCHES = 8  # that the tasks of a stage make for each worker: what Ray does for one is spent once for its tasks
AHEAD = 4  # batches that wait at the cluster for each one at work
LOCAL = "local"


class HeadLostError(ClusterError):
    """The head of the cluster is gone, and with it all that Ray knew of tasks."""


@dataclass(frozen=True)
class Hosts:
    """What a cluster has: hosts, cores of all, and of the smallest host its cores and its memory for tasks."""

    count: int
    cores: int
    least_cores: int
    least_memory: int


@dataclass(frozen=True)
class RayExecutor:
    """Runs tasks on the cluster that this process is connected to; `cores` are those of one task."""

    hosts: Hosts
    cores: int
    status: dict[str, float] = field(default_factory=dict)  # what progress shows of the cluster

    @property
    def at_work(self) -> int:
        """Tasks that run at the same time."""
        return max(1, self.hosts.cores // self.cores)

    @property
    def memory(self) -> int:
        """Bytes that a task may take on the smallest host."""
        return self.hosts.least_memory * self.cores // max(self.cores, self.hosts.least_cores)

    def run(self, job: Any, tasks: Sequence[Any]) -> Iterator[None]:
        """Yields once per task, in order; tasks whose output is there are not sent."""
        import ray

        if job.description is None:
            raise ClusterError(
                "a job that runs on a cluster must lie in files that all hosts see, this one is in memory"
            )
        options: dict[str, Any] = {"num_cpus": self.cores, "max_retries": RETRIES, "retry_exceptions": [OSError]}
        there = ray.remote(**options)(perform_there)
        self.status.update(hosts=_hosts(ray).count, bytes=self.status.get("bytes", 0))
        waiting = collections.deque(batches(tasks, BATCHES * self.at_work))
        sent: collections.deque[Any] = collections.deque()
        while sent or waiting:  # few are sent ahead; those of a failed job end by themselves
            while waiting and len(sent) < AHEAD * self.at_work:
                batch = waiting.popleft()
                sent.append((there.remote(job.description, batch, self.cores, __version__), len(batch)))
            done, count = sent.popleft()
            with errors_of_tasks():
                _wait(ray, done)
                self.status["bytes"] += ray.get(done)
            yield from itertools.repeat(None, count)

    def telling(self, progress: Progress | None) -> Progress | None:
        """The callback that is told of the cluster too: its hosts, and the bytes that tasks have read and written."""
        if progress is None:
            return None
        return lambda stage, done, total, info: progress(stage, done, total, {**info, **self.status})


def _wait(ray: Any, result: Any) -> None:
    """Wait until this result is there; a head that does not answer any more ends the job, before Ray ends it itself."""
    patience = float(os.environ.get(RECONNECT, RECONNECT_SECONDS)) / 2
    silent_since = None
    while not ray.wait([result], timeout=LISTEN_SECONDS)[0]:
        now = time.monotonic()
        if _answers(ray):
            silent_since = None
        elif now - (silent_since := silent_since or now) >= patience:
            raise HeadLostError(
                "the head of the cluster does not answer any more; start Ray again on its hosts, then give the same "
                "command again: it goes on from the parts that are there"
            )


def _answers(ray: Any) -> bool:
    """Whether something listens where the head of the cluster is; a client of ray:// hears of it by itself."""
    if ray.util.client.ray.is_connected():
        return True
    try:
        _check_listener(ray.get_runtime_context().gcs_address, LISTEN_SECONDS)
    except OSError:
        return False
    return True


def batches(tasks: Sequence[Any], most: int) -> list[Sequence[Any]]:
    """The tasks cut into at most so many runs of equal length, but for the last one.

    >>> batches([1, 2, 3, 4, 5], 3)
    [[1, 2], [3, 4], [5]]
    """
    size = -(-len(tasks) // most)
    return [tasks[i : i + size] for i in range(0, len(tasks), max(1, size))]


def perform_there(description: Any, tasks: Sequence[Any], cores: int, version: str) -> int:
    """Do some tasks in a worker process of the cluster, and keep what is opened for them; bytes read and written."""
    if version != __version__:
        raise ClusterError(
            f"every host must have rae {version}, a worker has {__version__}; install the same one there"
        )
    set_threads(cores)
    if _opened and _opened[0] != description:
        _opened.pop().close()
    _opened[:] = [description]
    before = moved.bytes
    try:
        for task in tasks:
            description.perform(task)
        return moved.bytes - before
    except (FileNotFoundError, FileError) as error:
        named = [value for value in vars(description).values() if isinstance(value, str) and Path(value).is_absolute()]
        if (absent := next((path for path in named if not Path(path).exists()), None)) is None:
            if isinstance(error, FileError):
                raise FileError(f"on host {socket.gethostname()}: ", error) from error
            raise
        raise ClusterError(
            f"a worker on {socket.gethostname()} finds no {absent}; the folder of ",
            *(Argument("out"), ", and a graph folder, must be seen by all hosts under the same path"),
        ) from None


_opened: list[Any] = []  # the description whose tasks this process did last


@contextlib.contextmanager
def errors_of_tasks() -> Iterator[None]:
    """Raise errors of the cluster as errors of rae, in one sentence."""
    from ray import exceptions

    try:
        yield
    except exceptions.RayTaskError as error:
        cause = getattr(error, "cause", None)
        if isinstance(cause, RaeError):
            raise cause from None
        raise ClusterError(f"a task failed on the cluster ({one_line(cause or error)})") from error
    except (exceptions.RayError, ConnectionError) as error:
        raise ClusterError(
            f"the cluster lost a task {RETRIES + 1} times ({one_line(error)}); look at its hosts, then give the same "
            "command again: it goes on from the parts that are there"
        ) from error


@contextlib.contextmanager
def connected(address: str, *, cores: int | None = None) -> Iterator[RayExecutor]:
    """An executor on the cluster at this address, disconnected at the end: "auto", "local", "ray://..." or HOST:PORT.

    `local` starts Ray on this machine for the duration, on the loopback interface, without its dashboard. `cores` of
    a task are by default those of the smallest host, for one task per host.
    """
    if not isinstance(address, str) or not address:
        raise ConfigError(Argument("ray"), f" must be auto, local, ray://HOST:10001 or HOST:6379, got {address!r}")
    ray = _library(address)
    ours = not ray.is_initialized()
    if ours:
        _start(ray, address)
    try:
        hosts = _hosts(ray)
        chosen = cores or (1 if address == LOCAL else hosts.least_cores)
        if chosen > hosts.least_cores:
            raise ConfigError(Argument("ray_cores"), f" must be at most {hosts.least_cores} here, got {chosen}")
        log.log(
            logging.INFO if ours else logging.DEBUG,
            "cluster: %d host%s, %d cores, %s or more for tasks on each; %d core%s a task",
            *(hosts.count, "s" if hosts.count > 1 else "", hosts.cores, size(hosts.least_memory)),
            *(chosen, "s" if chosen > 1 else ""),
        )
        yield RayExecutor(hosts, chosen)
    except HeadLostError:
        ours = False  # nobody is there to say goodbye to
        atexit.unregister(ray.shutdown)
        raise
    finally:
        if ours:
            ray.shutdown()


def _library(address: str) -> Any:
    """Ray, imported now; refused where it is missing or too old.

    Ray decides how it authenticates when it is imported: here with a token, a fresh one for a cluster of this machine.
    Where it was imported before, it has decided already: a token, for clusters that it starts itself.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    if "ray" not in sys.modules:
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        if address == LOCAL:
            os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # on Linux too: the loopback interface alone
            if "RAY_AUTH_TOKEN_PATH" not in os.environ:
                os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    try:
        import ray
    except ImportError:
        raise MissingExtraError("ray", "ray", "a cluster") from None
    version = tuple(int(number) for number in ray.__version__.split(".")[:2])
    if version < LEAST_VERSION:
        least = ".".join(map(str, LEAST_VERSION))
        raise MissingExtraError(f"ray {least} or newer (this is {ray.__version__})", "ray", "a cluster")
    return ray


def _check_listener(address: str, seconds: float = CONNECT_SECONDS) -> None:
    """Refuse HOST:PORT, also behind ray://, where nothing listens: with a token Ray would try for many minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        with socket.create_connection((host.strip("[]"), int(port)), timeout=seconds):
            pass


def _start(ray: Any, address: str) -> None:
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": False}
    try:
        if address == LOCAL:
            ray.init(address="local", include_dashboard=False, _node_ip_address="127.0.0.1", **quiet)
        else:
            _check_listener(address)
            ray.init(address=address, **quiet)
    except (ConnectionError, OSError, RuntimeError, ValueError, ImportError) as error:
        raise ClusterError(
            *("no Ray cluster answers at ", Argument("ray", address), f" ({one_line(error)}); "),
            *("start one with `ray start --head`, set RAY_AUTH_TOKEN to its token, or pass ", Argument("ray", LOCAL)),
        ) from None
    except Exception as error:
        if type(error).__module__.startswith("ray."):
            raise ClusterError(
                f"the Ray cluster refuses ({one_line(error)}); set RAY_AUTH_TOKEN to its token"
            ) from None
        raise


def _hosts(ray: Any) -> Hosts:
    alive = [node["Resources"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) >= 1]
    if not alive:
        raise ClusterError("the cluster has no host with a core for tasks; add workers to it")
    cores = [int(resources["CPU"]) for resources in alive]
    return Hosts(len(alive), sum(cores), min(cores), int(min(resources.get("memory", 0) for resources in alive)))


def check_cluster_memory(executor: RayExecutor, needed: int) -> None:
    """Refuse a job whose tasks take more memory than a host gives to one."""
    if needed > executor.memory:
        raise ClusterError(
            f"a task needs {size(needed)} of memory, and the smallest host gives {size(executor.memory)} to each of "
            f"{max(1, executor.hosts.least_cores // executor.cores)}; take larger hosts, more cores a task (",
            *(Argument("ray_cores", ...), ") or pass a smaller ", Argument("memory", ...)),
        )
