"""Updates of a run that answers: in this process, or in one beside it, so that questions never wait for their work."""

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
from rae.memory import give_back
from rae.run import Run
from rae.runtime import threads
from rae.storage.npy import is_mapped
from rae.updater import fold_in_parts, keep_roles, live_of
from rae.updates import UpdateFolder

log = logging.getLogger("rae")

FOLD_SHARE = 4  # rows of vectors in the log, over those of the graph, above which all is written anew
LONGEST_LOG = 5_000  # updates that are kept apart; then all of them are written into the files of the run
FOLDED_AT_STOP = 4_000_000  # numbers in all vectors up to which a service that stops writes embeddings.parquet anew
UPDATES_KEPT = 50  # updates after which memory that they took and freed goes back to the system
NICENESS = 10  # of a process that updates: the one that answers goes first
RETRY = 60.0  # seconds after which a log that could not be folded in is tried again
REST = 1.0  # after a part of the log was folded in, over the time that it took
PATIENCE = 1.0  # seconds in which the process that updated for a service that was killed has ended


class WriterEndedError(RunError):
    """The process that updates a run ended before it answered."""

    def __init__(self) -> None:
        super().__init__(
            "the process that updates the run ended before it answered, and is started again by the next update; ask "
            "whether the edges are there before you send them once more"
        )


class Writer:
    """The updates of a run, which is its own as long as it is open; made by `Writer.of`."""

    def __init__(self, run: Run) -> None:
        self._run, self._folder = run, UpdateFolder(run.path)
        self._folding: Iterator[Any] | None = None
        self._not_before = 0.0  # when folding in is tried again

    @classmethod
    @contextlib.contextmanager
    def of(cls, run: Run) -> Iterator[Writer]:
        """A writer that is alone with the run during the block, and has made what the first update needs."""
        with contextlib.ExitStack() as held:
            given_up = time.monotonic() + PATIENCE
            while True:
                try:
                    held.enter_context(run.alone())
                    break
                except InUseError:
                    if time.monotonic() < given_up:
                        time.sleep(0.02)
                        continue
                    raise InUseError(
                        f"another service or update has {run.path}; stop that one first, or ask without changing it: ",
                        "--read-only, and no --write",
                    ) from None
            run.update(progress=False)  # keeps what each level averages, if it was never updated
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
        come, reading = _edge_table(added, "added")
        gone, of_gone = _edge_table(removed, "removed")
        table = _feature_table(features, self._run)
        done = self._run.update(
            come, gone, table, missing=missing, fold=False, again=True, progress=False, **of_gone | reading
        )
        counts = self._run.counts
        return {
            "update": done.number, "added": done.added, "removed": done.removed, "already_there": done.already_there,
            "self_loops": done.self_loops, "new_nodes": done.new_nodes, "moved": len(done.moved),
            "in_full": done.in_full, "nodes": counts["nodes"], "edges": counts["edges"],
            "seconds": round(done.seconds, 4),
        }  # fmt: skip

    def tidy(self) -> None:
        """Write everything anew where the log has grown long; the updates in it are safe whether or not that works."""
        self.begin_to_tidy()
        while self.is_tidying:
            self.tidy_a_part()

    @property
    def is_tidying(self) -> bool:
        """Whether the log is being folded in."""
        return self._folding is not None

    def begin_to_tidy(self) -> None:
        """Begin to write everything anew where the log has grown long; `tidy_a_part` goes on with that."""
        state = self._folder.state()
        if state is None or self.is_tidying or time.monotonic() < self._not_before:
            return
        if state.changed > FOLD_SHARE * state.counts["nodes"] or len(state.log) >= LONGEST_LOG:
            self._folding = fold_in_parts(self._run)

    def tidy_a_part(self) -> None:
        """Write a part, which takes a fraction of a second of a large run; updates may come between two of them."""
        assert self._folding is not None
        with self._told():
            if next(self._folding, "done") is None:
                return
        self._folding = None
        follow_tables(self._run)
        give_back()

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """What keeps the log from being folded in is a warning: nothing is lost, and later it is tried again."""
        try:
            yield
        except (RaeError, OSError) as error:
            log.warning("the log of %s was not folded in: %s", self._run.path, one_line(error))
            self._not_before = time.monotonic() + RETRY

    def _close(self) -> None:
        """Write embeddings.parquet of small runs anew."""
        if self._folding is not None:
            self._folding.close()  # type: ignore[attr-defined]  # a generator
        state = self._folder.state()
        small = state is not None and state.counts["nodes"] * self._run.counts["width"] <= FOLDED_AT_STOP
        if state is not None and state.log and small:
            with self._told():
                self._run.fold(progress=False)


def follow_tables(run: Run) -> None:
    """Bring what updates and new nodes are computed from up to date, if it is there, and have it in memory.

    Tables are mapped when they are opened; a service reads and writes rows of them until all would be in memory.
    """
    if run._kept.tables is None:
        return
    live = live_of(run)
    if live is not None and any(is_mapped(table) for table in live.tables.values()):
        live.grow(live.capacity)


class WriterApart:
    """A `Writer` in a process of its own; made by `WriterApart.of`.

    Requests and answers are lines of JSON. The process ends with this one, however that ends: where its requests end
    without a word it ends at once, which an update may not survive that was not answered yet, and loses nothing else.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    @contextlib.contextmanager
    def of(cls, run: Run) -> Iterator[WriterApart]:
        """A writer that is alone with the run during the block."""
        writer = cls(run.path.absolute())
        try:
            writer._started()
            yield writer
        finally:
            writer._close()

    def edges(self, added: Any, removed: Any, features: Any, missing: str) -> dict[str, Any]:
        """What an update did; it is on the disk when this returns."""
        process = self._started()
        self._send(process, {"added": added, "removed": removed, "features": features, "missing": missing})
        return self._answer(process)

    def tidy(self) -> None:
        """Nothing: the process does that by itself when it has answered."""

    def _started(self) -> subprocess.Popen[bytes]:
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
            )  # Ctrl-C is for this process, which lets the other one finish; a session of its own would not be nice
            self._answer(process)
        return process

    @staticmethod
    def _send(process: subprocess.Popen[bytes], request: dict[str, Any]) -> None:
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # that it has ended is seen when its answer does not come
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
    """Update the run that is named on the command line as lines of JSON on standard input say."""
    for number in (signal.SIGINT, signal.SIGTERM):  # the process that asks decides when this one ends
        signal.signal(number, signal.SIG_IGN)
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    replies = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what a library prints is no answer
    requests: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    lines = os.fdopen(os.dup(0), "rb")  # not sys.stdin, which a thread that still reads would keep from being closed
    threading.Thread(target=_receive, args=(lines, requests), daemon=True).start()
    try:
        with Writer.of(Run.open(sys.argv[1])) as writer:
            give_back()
            _reply(replies, {})
            for done in itertools.count(1):
                if "close" in (request := _next(requests, writer)):
                    break
                try:
                    answer = writer.edges(**request)
                except Exception as error:
                    answer = _line_of(error)
                _reply(replies, answer)
                writer.begin_to_tidy()
                if done % UPDATES_KEPT == 0:
                    give_back()
    except Exception as error:
        _reply(replies, _line_of(error))


def _next(requests: queue.SimpleQueue[dict[str, Any]], writer: Writer) -> dict[str, Any]:
    """The next request; until it comes the log is folded in, part by part, with rests for whoever answers."""
    rest = 0.0
    while writer.is_tidying:
        try:
            return requests.get(timeout=rest)
        except queue.Empty:
            began = time.perf_counter()
            writer.tidy_a_part()
            rest = REST * (time.perf_counter() - began)
    return requests.get()


def _receive(lines: BinaryIO, requests: queue.SimpleQueue[dict[str, Any]]) -> None:
    for line in lines:
        requests.put(request := json.loads(line))
        if "close" in request:
            return
    os._exit(1)  # whoever asked is gone


def _reply(replies: Any, answer: dict[str, Any]) -> None:
    with contextlib.suppress(BrokenPipeError):
        replies.write(json.dumps(answer).encode() + b"\n")


def _line_of(error: Exception) -> dict[str, Any]:
    """An error as it goes to the process that asked; the trace of a bug is printed."""
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
    said = [p if isinstance(p, str) else Argument(p[0], ... if p[1] else p[2], p[3]) for p in parts]
    RaeError.__init__(error, *said)  # type: ignore[arg-type]
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
