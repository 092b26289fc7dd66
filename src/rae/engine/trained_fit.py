"""A trained fit on a cluster: one sampling pass by tasks, then training by Ray Train, which never sees the graph.

    probe          the fixed batch whose shape the history tells
    LOSS (number)  what one step of one worker reads: samples of the neighbours of its anchors, positives and negatives

Every choice is a hash of (seed, loss, number), so that a draw depends on no host and no retry. The lowest level is kept
as means where weights come after the mean, a small fraction of the rows. A step of w workers is w draws of a w-th of
the batch, whose gradients are averaged; one worker does what one machine does. Weights, moments and history are saved
as a checkpoint every few steps, from which restarted workers resume. Statistics of normalisations are averaged over the
workers.
"""

from __future__ import annotations

import contextlib
import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from rae.config import Config
from rae.engine.shared import share_features, share_graph
from rae.errors import Argument, ClusterError, ConfigError, RaeError, one_line
from rae.features import Features
from rae.graph import Graph
from rae.graph.folder import open_graph
from rae.io import read_features
from rae.model.adam import Adam
from rae.model.encoder import Encoder
from rae.model.sampling import Block
from rae.model.training import (
    Drawn,
    Record,
    averaged_below,
    check_trainable,
    checked_value,
    contrast_loss,
    draw,
    draw_probe,
    new_encoders,
    record,
    warn_if_collapsed,
)
from rae.progress import Progress
from rae.runtime import set_threads, torch_alone
from rae.storage.objects import filesystem_of, place
from rae.storage.parts import Parts, digest_of
from rae.version import __version__, versions_of

PARTS, STORAGE = ".parts", ".train"
KEEP_EVERY = 10  # steps between checkpoints, which a killed worker loses at most
FAILURES = 5  # of workers, after which a training ends

Array = np.ndarray[Any, Any]
Average = Callable[[Sequence[Tensor]], None]  # replaces tensors by their means over all workers


@dataclass(frozen=True)
class DrawTask:
    """One unit of work: the loss and the number of a draw, or the probe."""

    loss: str
    number: int = 0

    @property
    def name(self) -> str:
        """The name of its output."""
        return f"{self.loss}-{self.number:07}"


@dataclass(frozen=True)
class TrainingDescription:
    """A training as plain data."""

    graph: str  # graph folder
    features: str | None  # .npy or .npz, one row per node
    parts: str
    fingerprint: str
    config: dict[str, Any]
    n_features: int  # that the encoder reads
    n_nodes: int
    workers: int

    def perform(self, task: DrawTask) -> None:
        """Do one task, unless its output is there."""
        _opened(json.dumps(asdict(self))).perform(task)

    def close(self) -> None:
        """Give back what this process has opened for tasks."""
        _opened.cache_clear()


@lru_cache(maxsize=1)
def _opened(fields: str) -> TrainingFiles:
    description = TrainingDescription(**json.loads(fields))
    return TrainingFiles(description, Parts(place(description.parts), description.fingerprint))


@dataclass(frozen=True)
class TrainingFiles:
    """A training in a process that draws for it, or trains."""

    description: TrainingDescription
    parts: Parts

    @cached_property
    def config(self) -> Config:
        """The settings of the fit."""
        return Config.from_dict(self.description.config)

    @cached_property
    def of_worker(self) -> Config:
        """The settings of one worker: its part of a batch."""
        size = min(self.config.batch_size, self.description.n_nodes) // self.description.workers
        return replace(self.config, batch_size=size) if self.description.workers > 1 else self.config

    @cached_property
    def features(self) -> Features:
        """The features that the encoder reads."""
        path, graph = self.description.features, open_graph(self.description.graph, checked=True)
        return Features.of(graph, None if path is None else read_features(path), self.config, check=False)

    def perform(self, task: DrawTask) -> None:
        """Do one task, unless its output is there."""
        if not self.parts.has(task.name):
            with torch_alone():
                self.draw(task)

    def draw(self, task: DrawTask) -> None:
        """Draw the samples of a step, and store them."""
        graph, x = self.features.graph, self.features
        if task.loss == "probe":
            value: Any = averaged_below(*draw_probe(graph, x, self.config), self.config)
        else:
            drawn = draw(graph, x, self.of_worker, task.loss, task.number)
            views = (averaged_below(*view, self.config) for view in (drawn.anchors, drawn.context))  # type: ignore[arg-type]
            value = [*views, *drawn[2:]]
        self.parts.write(task.name, packed(value))

    def read(self, task: DrawTask) -> Any:
        """The samples of a draw."""
        return self.stored(task.name)

    def stored(self, name: str) -> Any:
        """The content of a part."""
        return unpacked(self.parts.read(name, (self.parts.size(name),), np.uint8))


# ----------------------------------------------------------------------------- what is kept of a draw


def packed(value: Any) -> list[Array]:
    """Nested lists of arrays, sparse matrices, blocks and numbers as bytes: how they are nested, then the arrays."""
    arrays: list[Array] = []
    text = json.dumps([_flat(value, arrays), [[array.dtype.str, array.shape] for array in arrays]]).encode()
    text += b" " * (-len(text) % 8)
    padded = [np.frombuffer(array.tobytes() + bytes(-array.nbytes % 8), np.uint8) for array in arrays]
    return [np.array([len(text)], np.int64), np.frombuffer(text, np.uint8), *padded]


def unpacked(raw: Array) -> Any:
    """The value that `packed` stored; arrays that came from tensors are tensors."""
    start = 8 + int(raw[:8].view(np.int64)[0])
    value, kinds = json.loads(raw[8:start].tobytes())
    arrays = []
    for kind, shape in kinds:
        size = int(np.prod(shape)) * np.dtype(kind).itemsize
        arrays.append(raw[start : start + size].view(kind).reshape(shape))
        start += size + -size % 8
    return _nested(value, arrays)


def _flat(value: Any, arrays: list[Array]) -> Any:
    if isinstance(value, Tensor | np.ndarray):
        arrays.append(np.asarray(value.detach().numpy() if isinstance(value, Tensor) else value, order="C"))
        array = arrays[-1]
        if array.dtype == np.int64 and array.size and array.min() >= -(2**31) and array.max() < 2**31:
            arrays[-1] = array.astype(np.int32)  # half the bytes
        return {"tensor" if isinstance(value, Tensor) else "array": len(arrays) - 1, "kind": array.dtype.str}
    if isinstance(value, sp.csr_array):
        return {"csr": _flat([value.data, value.indices, value.indptr], arrays), "shape": list(value.shape)}
    if isinstance(value, Block):
        return {"block": _flat(list(value), arrays)}
    return [_flat(part, arrays) for part in value] if isinstance(value, list | tuple) else value


def _nested(value: Any, arrays: list[Array]) -> Any:
    if isinstance(value, list):
        return [_nested(part, arrays) for part in value]
    if not isinstance(value, dict):
        return value
    if "csr" in value:
        return sp.csr_array(tuple(_nested(value["csr"], arrays)), shape=value["shape"])
    if "block" in value:
        return Block(*_nested(value["block"], arrays))
    array = arrays[value["tensor"] if "tensor" in value else value["array"]].astype(
        value["kind"]
    )  # a copy that may be written to
    return torch.from_numpy(array) if "tensor" in value else array


# ----------------------------------------------------------------------------- training


def train(files: TrainingFiles, loss: str, rank: int, average: Average) -> None:
    """Train the encoder of one loss as one of the workers, from the last checkpoint; the first worker writes them."""
    config, workers = files.config, files.description.workers
    encoder, context = new_encoders(files.description.n_features, config, loss)
    assert isinstance(context, Encoder)
    models = encoder, context
    optimizer = Adam([weight for model in models for weight in model.parameters()], config.learning_rate)
    history, first_step = _restored(files, loss, models, optimizer)
    probe = files.read(DrawTask("probe"))
    for step in range(first_step + 1, config.steps + 1):
        encoder.train(), context.train()
        optimizer.zero_grad()
        number = (step - 1) * workers + rank + 1
        drawn = Drawn(*files.read(DrawTask(loss, number)))
        objective = contrast_loss(encoder, context, drawn, files.of_worker, loss, number)
        value = torch.tensor(checked_value(objective, loss, step, config), dtype=torch.float64)
        objective.backward()  # type: ignore[no-untyped-call]
        average([weight.grad for weight in optimizer.weights if weight.grad is not None])
        optimizer.step()
        noted = step in (1, config.steps) or step % config.record_every == 0
        if noted or step % KEEP_EVERY == 0:
            average([value, *(buffer for model in models for buffer in model.buffers() if buffer.is_floating_point())])
        if noted:
            history.append(record(encoder, probe, config, loss, step, float(value)))
        if rank == 0 and (step % KEEP_EVERY == 0 or step == config.steps):
            tensors = [*(tensor for model in models for tensor in model.state_dict().values()), *optimizer.state()]
            files.parts.write(f"state-{loss}", packed([tensors, [list(asdict(r).values()) for r in history], step]))


def _restored(files: TrainingFiles, loss: str, models: Sequence[Encoder], optimizer: Adam) -> tuple[list[Record], int]:
    """The history and step of the last checkpoint, which is loaded into the models and the optimiser."""
    if not files.parts.has(f"state-{loss}"):
        return [], 0
    tensors, history, step = files.stored(f"state-{loss}")
    with torch.no_grad():
        ours = [*(tensor for model in models for tensor in model.state_dict().values()), *optimizer.state()]
        for tensor, saved in zip(ours, tensors, strict=True):
            tensor.copy_(saved)
    return [Record(*values) for values in history], int(step)


def trained(files: TrainingFiles, loss: str) -> tuple[Encoder, list[Record]]:
    """The encoder at the end of a training, and its history."""
    encoder, context = new_encoders(files.description.n_features, files.config, loss)
    assert isinstance(context, Encoder)
    optimizer = Adam([*encoder.parameters(), *context.parameters()], files.config.learning_rate)
    history, steps_done = _restored(files, loss, (encoder, context), optimizer)
    if steps_done != files.config.steps:
        raise ClusterError(
            f"the training ended after {steps_done} of {files.config.steps} steps; give the same command again"
        )
    warn_if_collapsed(history[-1], files.config)
    return encoder, history


def train_here(settings: Mapping[str, Any]) -> None:
    """The work of one worker of Ray Train."""
    import ray.train
    import torch.distributed as together

    if settings["version"] != __version__:
        raise ClusterError(
            f"every host must have rae {settings['version']}, a worker has {__version__}; install the same one there"
        )
    files, rank = _opened(settings["description"]), ray.train.get_context().get_world_rank()

    def average(tensors: Sequence[Tensor]) -> None:
        if files.description.workers > 1:
            for kind in {tensor.dtype for tensor in tensors}:
                some = [tensor for tensor in tensors if tensor.dtype == kind]
                flat = torch.cat([tensor.reshape(-1) for tensor in some])
                together.all_reduce(flat)
                flat /= files.description.workers
                for tensor, mean in zip(some, flat.split([tensor.numel() for tensor in some]), strict=True):  # type: ignore[no-untyped-call]
                    tensor.copy_(mean.view_as(tensor))

    set_threads(settings["cores"])
    with torch_alone():
        train(files, settings["loss"], rank, average)


def train_on_ray(files: TrainingFiles, loss: str, base: str, cores: int) -> None:
    """Train the encoder of one loss by Ray Train, whose workers resume from the last checkpoint when one dies."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ray warns of its own parts
        _train_on_ray(files, loss, base, cores)


def _train_on_ray(files: TrainingFiles, loss: str, base: str, cores: int) -> None:
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    where = place(f"{base}{STORAGE}")
    system, path = filesystem_of(where)
    settings = {"loss": loss, "cores": cores, "version": __version__}
    trainer = TorchTrainer(
        train_here,
        train_loop_config=settings | {"description": json.dumps(asdict(files.description))},
        torch_config=TorchConfig(backend="gloo"),
        scaling_config=ScalingConfig(num_workers=files.description.workers, resources_per_worker={"CPU": cores}),
        run_config=RunConfig(
            name="rae", storage_path=path, storage_filesystem=system, failure_config=FailureConfig(FAILURES)
        ),
    )
    try:
        trainer.fit()
    except Exception as error:
        raise _in_one_sentence(error) from error
    finally:
        with contextlib.suppress(FileNotFoundError):  # of a training that did not begin
            system.delete_dir(path)


def _in_one_sentence(error: Exception) -> Exception:
    """An error of Ray Train, or what a worker raised, as one of rae."""
    failures = getattr(error, "worker_failures", None) or {}
    causes = [getattr(failure, "__cause__", None) or failure for failure in failures.values()]
    ours = next((cause for cause in causes if isinstance(cause, RaeError)), None)
    if ours is not None:
        return ours
    reason = one_line(causes[0] if causes else error)
    return ClusterError(
        f"the training failed on the cluster ({reason}); look at its hosts, then give the same command again: it goes "
        "on from the steps that are done"
    )


def fit_by_draws(
    graph: Graph,
    x: Features,
    config: Config,
    losses: Sequence[str],
    base: str,
    executor: Any,
    run: Callable[[TrainingFiles, str], None],
    *,
    workers: int = 1,
    progress: Progress | None = None,
) -> dict[str, tuple[Encoder, list[Record]]]:
    """The encoders of these losses and their histories: drawn by tasks, then trained by `run`.

    `base` is the prefix of files that all hosts see. A killed fit is resumed from its files there.
    """
    check_workers(config, losses, workers, graph.n_nodes)
    if config.steps == 0:
        return {loss: (new_encoders(x.width, config, loss)[0], []) for loss in losses}
    check_trainable(graph)
    about = {
        "versions": versions_of("numpy", "torch"),
        "config": config.as_dict(),
        "graph": digest_of(*graph.arrays),
        "features": x.digest(),
        "workers": workers,
    }
    parts, home = Parts.open(f"{base}{PARTS}", about), place(f"{base}-0")
    description = TrainingDescription(
        share_graph(home, graph),
        None if x.matrix is None else share_features(home, x.matrix),
        os.fspath(parts.folder),
        parts.fingerprint,
        config.as_dict(),
        x.width,
        graph.n_nodes,
        workers,
    )
    files, out = TrainingFiles(description, parts), {}
    for loss in losses:
        numbers = range(1, config.steps * workers + 1)
        tasks = [DrawTask("probe"), *(DrawTask(loss, number) for number in numbers)]
        for i, _ in enumerate(executor.run(files, tasks)):
            if progress is not None:
                progress(f"draw {loss}", i + 1, len(tasks), {})
        run(files, loss)
        out[loss] = trained(replace(files, parts=Parts(parts.folder, parts.fingerprint)), loss)
    return out


def draw_bytes(config: Config, n_features: int) -> int:
    """Memory that a draw takes at most: the feature rows of a batch and its positives, as read and as stored."""
    rows = config.batch_size * (1 + config.positives)
    for fanout in config.fanout:
        rows *= 1 + fanout
    return 12 * n_features * rows


def check_workers(config: Config, losses: Sequence[str], workers: int, n_nodes: int) -> None:
    """Refuse a fit that a cluster does not train."""
    if "agree" in losses:
        raise ConfigError(
            Argument("loss", "agree"),
            " is trained on one machine: its views read the graph; leave ",
            Argument("ray"),
            " out",
        )
    most = min(config.batch_size, n_nodes) // 2
    if not 1 <= workers <= most:
        raise ConfigError(Argument("ray_workers"), f" must be from 1 to half of a batch ({most}), got {workers}")
