"""Executors for tests: what Ray does, without Ray, in this process or in others."""

from __future__ import annotations

import json
import os

from rae.engine import ray_executor as on_ray


class KilledError(Exception):
    """What ends work in the middle."""


class Here:
    """An executor in this process that goes by what is described; it stops after so many tasks."""

    def __init__(self, stop_after=-1):
        self.names, self.stop_after = [], stop_after

    def run(self, job, tasks):
        for task in tasks:
            if len(self.names) == self.stop_after:
                raise KilledError
            job.description.perform(task)
            self.names.append(task.name)
            yield


def perform_in_process(description, task):
    on_ray.perform_there(description, [task], 1, on_ray.__version__)
    return os.getpid()


class Processes:
    """An executor by other processes, to which tasks go as plain data."""

    def __init__(self, pool):
        self.pool, self.ids = pool, set()

    def run(self, job, tasks):
        json.dumps(job.description.__dict__)
        for process in self.pool.map(perform_in_process, [job.description] * len(tasks), tasks):
            self.ids.add(process)
            yield
