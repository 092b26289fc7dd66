"""Run the cells that have no line yet: several processes of one thread each; every line is appended at once."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import sys
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path

from rae.errors import Argument, CollapseWarning, RaeError
from rae.evaluation import data
from rae.evaluation.ledger import RUN_DATE, SCORE_KEYS, Ledger, Line, identity, provenance, run_date
from rae.evaluation.table_spec import Effort, Scores, Table, Work
from rae.memory import number_in

Progress = Callable[[str, int, int, dict[str, float]], None]

_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "RAE_THREADS": "1"}


@dataclass(frozen=True)
class Job:
    """One work for one data set and one seed, as plain data for another process."""

    table: str
    work: int
    dataset: str
    seed: int
    effort: Effort


@dataclass
class Outcome:
    """What a call of `reproduce` did."""

    computed: int = 0  # lines added
    present: int = 0  # lines that the ledger had
    absent: list[str] = field(default_factory=list)  # data sets that are not on this machine
    failed: dict[str, str] = field(default_factory=dict)  # error messages by job


def reproduce(
    tables: Sequence[Table],
    ledger: Ledger,
    *,
    runs: int | None = None,
    jobs: int = 1,
    effort: Effort | None = None,
    progress: Progress | None = None,
    select: Callable[[Work, str], bool] | None = None,
) -> Outcome:
    """Compute and append every line that these tables lack; `runs` lowers how many each row gets.

    `select` says of a work and a data set whether to compute it; None selects all, but of expensive works only as many
    runs as they have unasked.
    """
    outcome = Outcome()
    ledger.folder.mkdir(parents=True, exist_ok=True)  # fails before any work if it cannot be written
    todo = list(_missing(tables, ledger, runs, effort or Effort(), outcome, select))
    with contextlib.closing(_compute_all(todo, min(jobs, len(todo)))) as results:
        for done, (job, lines) in enumerate(results, 1):
            if isinstance(lines, str):
                outcome.failed[f"{job.table}, {job.dataset}, seed {job.seed}"] = lines
            else:
                ledger.append(lines)
                outcome.computed += len(lines)
            if progress is not None:
                progress("runs", done, len(todo), {})
    return outcome


def _missing(
    tables: Sequence[Table],
    ledger: Ledger,
    runs: int | None,
    effort: Effort,
    outcome: Outcome,
    select: Callable[[Work, str], bool] | None,
) -> Iterator[Job]:
    """The jobs whose lines are not all in the ledger, by data set, so that each is loaded few times."""
    for table in tables:
        recorded = {identity(line) for line in ledger.read(table.name, SCORE_KEYS)}
        for dataset in table.datasets:
            if table.from_files and not all(map(data.present, dataset.split(" to "))):
                outcome.absent += [dataset] if dataset not in outcome.absent else []
                continue
            for number, work in enumerate(table.works):
                if dataset not in work.datasets or work.ledger_table or not (select is None or select(work, dataset)):
                    continue
                for seed in range(work.count(runs, asked=select is not None)):
                    job = Job(table.name, number, dataset, seed, effort)
                    if all(identity(line) in recorded for line in _line_keys(job, table, work)):
                        outcome.present += len(work.rows)
                    else:
                        yield job


def _line_keys(job: Job, table: Table, work: Work) -> list[Line]:
    """Table, row, data set, seed and settings of the lines of a job."""
    key = {"table": job.table, "dataset": job.dataset, "seed": job.seed}
    return [
        {**key, "row": row.name, "settings": table.line_settings(work, row, job.dataset, job.effort)}
        for row in work.rows
    ]


def compute(job: Job) -> list[Line]:
    """The lines of one job, computed in this process."""
    from rae.evaluation.tables import TABLES

    table = TABLES[job.table]
    work = table.works[job.work]
    return scored_lines(_line_keys(job, table, work), lambda: work.compute(job.dataset, job.seed, job.effort))


def scored_lines(keys: Sequence[Line], compute_scores: Callable[[], Scores]) -> list[Line]:
    """The lines of these keys, each with the score of its row, what the computation cost, and where it ran."""
    _reset_peak()
    began, cpu = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CollapseWarning)  # an untrained or tiny model is a row, not a mistake
        scores = compute_scores()
    for name, score in scores.items():
        if not math.isfinite(score.score):
            raise RaeError(f"{name} has no finite score")
    cost = {
        "seconds": round(time.perf_counter() - began, 3),
        "cpu_seconds": round(time.process_time() - cpu, 3),  # a busy machine stretches the other
        "peak_mb": _peak_mb(),
        "rows_together": len(keys),
    }
    return [
        {**line, "score": round(score.score, 4), "also": dict(score.also), **cost, **provenance()}
        for line in keys
        for score in [scores[line["row"]]]
    ]


def _compute_all(todo: Sequence[Job], jobs: int) -> Generator[tuple[Job, list[Line] | str]]:
    """Every job with its lines or its error message, as they finish."""
    if jobs <= 1:
        for job in todo:
            yield job, _try_compute(job)
        return
    with environment(), ProcessPoolExecutor(jobs, get_context("spawn"), init_worker) as pool:
        pending = iter(todo)
        running: dict[Future[list[Line] | str], Job] = {}
        try:
            while True:
                # Few jobs are handed out at a time, so that an interrupt waits for two or three, not for all.
                for job in itertools.islice(pending, 2 * jobs - len(running)):
                    running[pool.submit(_try_compute, job)] = job
                if not running:
                    return
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    yield running.pop(future), future.result()
        except BrokenProcessPool:
            raise RaeError(
                "a worker process was killed, most likely for want of memory; finished runs are in the ledger: "
                "call the same command again with fewer jobs (",
                *(Argument("jobs", 1), ")"),
            ) from None
        except (GeneratorExit, KeyboardInterrupt):  # unfinished runs are lost, so they are not waited for
            for process in active_children():
                process.terminate()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _try_compute(job: Job) -> list[Line] | str:
    try:
        return compute(job)
    except Exception as error:  # one cell that fails must not cost the others
        return f"{type(error).__name__}: {error}"


def init_worker() -> None:
    """One thread in a worker process, because there is a process for every core; it ends with its parent."""
    import signal
    import threading

    import torch

    from rae import runtime

    threading.Thread(target=_end_with_parent, daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    torch.set_num_threads(1)
    runtime.set_threads(1)


def _end_with_parent() -> None:
    """End this process when its parent is gone, perhaps killed: no work will come."""
    if (parent := parent_process()) is not None:
        parent.join()
        os._exit(1)


@contextlib.contextmanager
def environment() -> Iterator[None]:
    """The environment of worker processes: one thread in every library, and the date of this run."""
    settings = {**_ENVIRONMENT, RUN_DATE: run_date()}
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


_STATUS, _REFS = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def _reset_peak() -> None:
    """Reset the peak of resident memory, where the system can."""
    with contextlib.suppress(OSError):
        _REFS.write_text("5", encoding="ascii")


def _peak_mb() -> float:
    """The peak of this process's resident memory since the reset; 0 where the system does not say."""
    if (kilobytes := number_in(_STATUS, r"VmHWM:\s+(\d+)")) is not None:
        return round(kilobytes / 1000, 1)
    try:
        import resource
    except ImportError:  # Windows
        return 0.0
    unit = 1e6 if sys.platform == "darwin" else 1e3  # macOS counts bytes, others kilobytes
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit, 1)
