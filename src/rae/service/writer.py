"""Updates of a run that is served: in this process, or in one of their own, so that questions never wait for them."""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from rae import errors
from rae.errors import Argument, FeatureError, GraphError, InUseError, RaeError, RunError, one_line
from rae.folding import fold_in_parts, keep_roles
from rae.live_tables import live_of
from rae.memory import give_back
from rae.run import Run
from rae.runtime import threads
from rae.storage.npy import is_mapped
from rae.updates import UpdateFolder

log = logging.getLogger("rae")

FOLD_SHARE = 4  # rows in the log per row of the graph above which the log is folded
LONGEST_LOG = 5_000  # updates in the log above which it is folded
FOLDED_AT_STOP = 4_000_000  # numbers in all vectors up to which a stopping service folds the log
UPDATES_PER_RELEASE = 50  # updates after which freed memory goes back to the system
NICENESS = 10  # of the writer's process: answers have priority
RETRY = 60.0  # seconds until a failed fold is tried again
REST = 1.0  # pause after a part of a fold, over the time that it took
PATIENCE = 1.0  # seconds to wait for the lock of a service that was killed


class WriterEndedError(RunError):
    """The process that updates a run ended before it answered."""

    def __init__(self) -> None:
        super().__init__(
            "the process that updates the run ended before it answered, and is started again by the next update; ask "
            "whether the edges are there before you send them once more"
        )


class Writer:
    """The only writer of a run, which it locks while open; opened by `Writer.of`."""

    def __init__(self, run: Run) -> None:
        self._run, self._folder = run, UpdateFolder(run.path)
        self._folding: Iterator[Any] | None = None
        self._not_before = 0.0  # when a failed fold is tried again

    @classmethod
    @contextlib.contextmanager
    def of(cls, run: Run) -> Iterator[Writer]:
        """A writer that holds the lock of the run during the block, with the first update's tables loaded."""
        with contextlib.ExitStack() as stack:
            deadline = time.monotonic() + PATIENCE
            while True:
                try:
                    stack.enter_context(run.alone())
                    break
                except InUseError:
                    if time.monotonic() < deadline:
                        time.sleep(0.02)
                        continue
                    raise InUseError(
                        f"another service or update has {run.path}; stop that one first, or ask without changing it: ",
                        Argument("writable", False),
                    ) from None
            run.update(progress=False)  # saves the tables of the levels, if it was never updated
            follow_tables(run)
            keep_roles(run)
            if run.has_roles:
                run.roles().assign(np.zeros((1, run.counts["width"]), np.float32))  # loads what that needs
            writer = cls(run)
            try:
                yield writer
            finally:
                writer._close()

    def edges(self, added: Any, removed: Any, features: Any, missing: str) -> dict[str, Any]:
        """What an update did, as `EdgesAnswer` has it; it is on the disk when this returns."""
        to_add, reading = _edge_table(added, "added")
        to_remove, reading_removed = _edge_table(removed, "removed")
        table = _feature_table(features, self._run)
        options = reading_removed | reading | {"missing": missing}
        outcome = self._run.update(to_add, to_remove, table, fold=False, again=True, progress=False, **options)
        counts = self._run.counts
        return {
            "update": outcome.number, "added": outcome.added, "removed": outcome.removed,
            "already_there": outcome.already_there, "self_loops": outcome.self_loops, "new_nodes": outcome.new_nodes,
            "moved": len(outcome.moved), "in_full": outcome.in_full, "nodes": counts["nodes"],
            "edges": counts["edges"], "seconds": round(outcome.seconds, 4),
        }  # fmt: skip

    def fold_if_long(self) -> None:
        """Fold the log into the files of the run where it is long; a failure loses no update."""
        self.start_folding()
        while self.is_folding:
            self.fold_next_part()

    @property
    def is_folding(self) -> bool:
        """Whether the log is being folded."""
        return self._folding is not None

    def start_folding(self) -> None:
        """Start to fold the log where it is long; `fold_next_part` continues."""
        state = self._folder.state()
        if state is None or self.is_folding or time.monotonic() < self._not_before:
            return
        if state.changed > FOLD_SHARE * state.counts["nodes"] or len(state.log) >= LONGEST_LOG:
            self._folding = fold_in_parts(self._run)

    def fold_next_part(self) -> None:
        """Fold a part, in a fraction of a second; updates may come between two parts."""
        assert self._folding is not None
        with self._failure_as_warning():
            if next(self._folding, "done") is None:
                return
        self._folding = None
        follow_tables(self._run)
        give_back()

    @contextlib.contextmanager
    def _failure_as_warning(self) -> Iterator[None]:
        """An error of a fold is logged as a warning: no update is lost, and it is tried again later."""
        try:
            yield
        except (RaeError, OSError) as error:
            log.warning("the log of %s was not folded in: %s", self._run.path, one_line(error))
            self._not_before = time.monotonic() + RETRY

    def _close(self) -> None:
        """Fold the log of a small run, so that its embeddings.parquet is current."""
        if self._folding is not None:
            self._folding.close()  # type: ignore[attr-defined]  # a generator
        state = self._folder.state()
        small = state is not None and state.counts["nodes"] * self._run.counts["width"] <= FOLDED_AT_STOP
        if state is not None and state.log and small:
            with self._failure_as_warning():
                self._run.fold(progress=False)


def follow_tables(run: Run) -> None:
    """Replay the log into the tables of an open run, and copy mapped tables into memory.

    A service reads and writes their rows until all pages would be in memory anyway.
    """
    if run._session.tables is None:
        return
    live = live_of(run)
    if live is not None and any(is_mapped(table) for table in live.tables.values()):
        live.grow(live.capacity)


class WriterProcess:
    """A `Writer` in a process of its own; made by `WriterProcess.of`.

    Requests and answers are lines of JSON. The process ends with this one: at once where its standard input
    closes without a "close", which may lose an update that was not answered yet and nothing else.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    @contextlib.contextmanager
    def of(cls, run: Run) -> Iterator[WriterProcess]:
        """A writer whose process holds the lock of the run during the block."""
        writer = cls(run.path.absolute())
        try:
            writer._running()
            yield writer
        finally:
            writer._close()

    def edges(self, added: Any, removed: Any, features: Any, missing: str) -> dict[str, Any]:
        """What an update did; it is on the disk when this returns."""
        process = self._running()
        self._send(process, {"added": added, "removed": removed, "features": features, "missing": missing})
        return self._answer(process)

    def fold_if_long(self) -> None:
        """Nothing: the process folds its log itself, after an answer."""

    def _running(self) -> subprocess.Popen[bytes]:
        """The process, started again if it has ended."""
        process = self._process
        if process is not None and process.poll() is not None:
            process.communicate()
            process = None
        if process is None:
            environment = os.environ | {"RAE_THREADS": str(threads())}
            command = [sys.executable, "-c", "from rae.service.writer import main; main()", str(self._path)]
            pipe = subprocess.PIPE
            self._process = process = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, env=environment, process_group=0
            )  # Ctrl-C reaches this process alone; a new session would lose the niceness
            self._answer(process)
        return process

    @staticmethod
    def _send(process: subprocess.Popen[bytes], request: dict[str, Any]) -> None:
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # a missing answer shows that it has ended
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()

    def _answer(self, process: subprocess.Popen[bytes]) -> dict[str, Any]:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.endswith(b"\n"):
            process.kill()
            process.communicate()  # closes its pipes
            self._process = None
            raise WriterEndedError
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise _error_of(answer)
        return answer

    def _close(self) -> None:
        process = self._process
        if process is not None:
            self._send(process, {"close": True})
            process.communicate()


def main() -> None:
    """Update the run named on the command line, a line of JSON on standard input per update."""
    for number in (signal.SIGINT, signal.SIGTERM):  # the parent decides when this process ends
        signal.signal(number, signal.SIG_IGN)
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    replies = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # prints of libraries must not mix with answers
    requests: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    lines = os.fdopen(os.dup(0), "rb")  # not sys.stdin, which a thread that still reads would keep from being closed
    threading.Thread(target=_receive, args=(lines, requests), daemon=True).start()
    try:
        with Writer.of(Run.open(sys.argv[1])) as writer:
            give_back()
            _reply(replies, {})
            for count in itertools.count(1):
                if "close" in (request := _next(requests, writer)):
                    break
                try:
                    answer = writer.edges(**request)
                except Exception as error:
                    answer = _line_of(error)
                _reply(replies, answer)
                writer.start_folding()
                if count % UPDATES_PER_RELEASE == 0:
                    give_back()
    except Exception as error:
        _reply(replies, _line_of(error))


def _next(requests: queue.SimpleQueue[dict[str, Any]], writer: Writer) -> dict[str, Any]:
    """The next request; while waiting for it the log is folded, part by part, with pauses for the parent."""
    rest = 0.0
    while writer.is_folding:
        try:
            return requests.get(timeout=rest)
        except queue.Empty:
            began = time.perf_counter()
            writer.fold_next_part()
            rest = REST * (time.perf_counter() - began)
    return requests.get()


def _receive(lines: BinaryIO, requests: queue.SimpleQueue[dict[str, Any]]) -> None:
    for line in lines:
        requests.put(request := json.loads(line))
        if "close" in request:
            return
    os._exit(1)  # the parent is gone


def _reply(replies: Any, answer: dict[str, Any]) -> None:
    with contextlib.suppress(BrokenPipeError):
        replies.write(json.dumps(answer).encode() + b"\n")


def _line_of(error: Exception) -> dict[str, Any]:
    """An error as JSON for the parent; the traceback of a bug is printed."""
    cause = error if isinstance(error, OSError) else error.__cause__
    number = cause.errno if isinstance(cause, OSError) else None
    if isinstance(error, RaeError):
        parts = [[p.name, p.value is ..., None if p.value is ... else p.value, p.function] if isinstance(p, Argument)
                 else p for p in error.sentence.parts]  # fmt: skip
        family = next(kind.__name__ for kind in type(error).__mro__ if hasattr(errors, kind.__name__))
        return {"error": family, "parts": json.loads(json.dumps(parts, default=str)), "errno": number}
    if not isinstance(error, OSError):
        traceback.print_exception(error)
    return {"error": "", "parts": [one_line(error)], "errno": number}


def _error_of(answer: dict[str, Any]) -> Exception:
    """The error that `_line_of` wrote."""
    number, parts = answer["errno"], answer["parts"]
    cause = None if number is None else OSError(number, os.strerror(number))
    kind = getattr(errors, answer["error"], None)
    if kind is None:
        return RuntimeError(parts[0]) if cause is None else OSError(number, parts[0])
    error: Exception = kind.__new__(kind)
    sentence = [p if isinstance(p, str) else Argument(p[0], ... if p[1] else p[2], p[3]) for p in parts]
    RaeError.__init__(error, *sentence)  # type: ignore[arg-type]
    error.__cause__ = cause
    return error


def _edge_table(edges: list[list[int | float | str] | dict[str, Any]] | None, what: str) -> tuple[Any, dict[str, str]]:
    """Edges as `Run.update` takes them, and which of their columns are which."""
    import pyarrow as pa

    if not edges:
        return None, {}
    if all(isinstance(edge, list) and len(edge) == len(edges[0]) >= 2 for edge in edges):
        return edges, {}
    objects = [edge for edge in edges if isinstance(edge, dict)]
    names = dict.fromkeys(["source", "target", *sorted({name for edge in objects for name in edge})])
    if len(objects) < len(edges) or not all(set(edge) == set(names) for edge in objects):
        raise GraphError(f"{what} must be pairs of ids, [u, v], or objects with source and target, all of one kind")
    try:
        table = pa.table({name: pa.array([edge[name] for edge in objects]) for name in names})
    except pa.ArrowException as error:
        raise GraphError(f"{what} must have ids and numbers of one kind in each field: {error}") from None
    return table, {"source": "source", "target": "target"} | {n: n for n in ("weight", "kind") if n in names}


def _feature_table(features: dict[str, list[float] | dict[str, Any]] | None, run: Run) -> Any:
    """Feature rows by id as `Run.update` takes them."""
    import pyarrow as pa

    from rae.features import FeatureTable

    if not features:
        return None
    ids, rows = run.ids().type, list(features.values())
    try:
        column = pa.array(list(features)).cast(ids)
    except pa.ArrowException:
        raise FeatureError(
            f"features are rows by id, and the ids here are {ids}, got {next(iter(features))!r}"
        ) from None
    lists = [row for row in rows if isinstance(row, list)]
    objects = [row for row in rows if isinstance(row, dict)]
    if len(lists) == len(rows):
        width, names = len(lists[0]), run.feature_names
        if (names is not None and width != len(names)) or any(len(row) != width for row in lists):
            raise FeatureError(f"a row of features has as many numbers as the model has columns, got {width:,}")
        return FeatureTable(column, np.array(lists, np.float32), names)
    if len(objects) < len(rows) or not all(set(row) == set(objects[0]) for row in objects):
        raise FeatureError("features must all be lists of numbers, or all objects with the same columns")
    return pa.table({"id": column} | {name: pa.array([row[name] for row in objects]) for name in objects[0]})
