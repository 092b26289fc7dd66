"""The loop: draw a batch, encode its views, contrast them or let them agree, take a step of Adam."""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rae.config import Config
from rae.errors import Argument, CollapseWarning, ConfigError, GraphError, Sentence, TrainingError
from rae.features import Features
from rae.graph import Graph
from rae.model import pairs
from rae.model.adam import Adam
from rae.model.agree import agree_loss, settle
from rae.model.encoder import Decoder, Encoder, Stream
from rae.model.losses import contrast
from rae.model.sampling import Block, sample_blocks, shuffle_neighbors, stack
from rae.progress import Progress
from rae.runtime import device, generator, key, together, torch_alone, torch_alone_here

log = logging.getLogger("rae")

Ints = np.ndarray[Any, np.dtype[np.integer[Any]]]

_APART = {"agree": "decorrelation"}  # what keeps vectors apart where it is not negatives
AHEAD = 2  # steps that are drawn while a GPU works
COLLAPSED = 0.999  # mean cosine above which the vectors are all but equal


@dataclass(frozen=True)
class Record:
    """One entry of the history: the loss, and the shape of a fixed batch of vectors."""

    loss: str
    step: int
    value: float
    rank: float
    cosine: float

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@torch.inference_mode(False)  # whatever the caller is in the middle of
@torch.enable_grad()
def fit(
    graph: Graph, features: Features, config: Config, loss: str, progress: Progress | None = None
) -> tuple[Encoder, list[Record]]:
    """The encoder of one loss, trained for config.steps, and its history."""
    encoder = Encoder(features.width, config, generator(config.seed, loss, "encoder"))
    if config.steps == 0:
        return encoder, []
    if graph.n_nodes < 2:
        raise GraphError(
            "training contrasts nodes with others, got a graph of one node; use ",
            *(Argument("steps", 0), ", or a larger graph"),
        )
    if graph.n_edges == 0:
        raise GraphError(
            f"training needs edges, got {graph.n_nodes:,} nodes and no edge; check the edges, or use ",
            Argument("steps", 0),
        )
    rng = generator(config.seed, loss, "context")
    agree = loss == "agree"
    context = Decoder(features.width, config.dims[-1], rng) if agree else Encoder(features.width, config, rng)
    features = features.in_memory()
    encoder.to(device()), context.to(device())
    with torch_alone():
        history = _train(encoder, context, graph, features, config, loss, progress)
        if agree:
            settle(encoder, graph, features, config)
    encoder.to("cpu")  # a model has no device
    _warn_if_collapsed(history[-1], config)
    return encoder, history


def _train(
    encoder: Encoder,
    context: Encoder | Decoder,
    graph: Graph,
    features: Features,
    config: Config,
    loss: str,
    progress: Progress | None,
) -> list[Record]:
    tells = loss != "agree" or config.telling > 0  # without it the decoder takes no part
    weights = [*encoder.parameters(), *(context.parameters() if tells else ())]
    optimizer = Adam(weights, config.learning_rate)
    history: list[Record] = []
    steps = range(1, config.steps + 1)
    drawn = _drawn_ahead(graph, features, config, loss, steps) if device() != "cpu" and loss != "agree" else None
    for step in steps:
        encoder.train(), context.train()
        optimizer.zero_grad()
        ready = None if drawn is None else next(drawn)
        objective = step_loss(encoder, context, graph, features, config, loss, step, ready)
        value = float(objective.detach())
        if not math.isfinite(value):
            raise TrainingError(_diverged(loss, step, config))
        objective.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if step in (1, config.steps) or step % config.record_every == 0:
            history.append(_record(encoder, graph, features, config, loss, step, value))
        if progress is not None:
            progress(f"train {loss}", step, config.steps, {"loss": value})
    return history


def _drawn_ahead(graph: Graph, features: Features, config: Config, loss: str, steps: Any) -> Iterator[Drawn]:
    """What each step reads, in order, drawn by other threads while a GPU works on the steps before it."""
    with ThreadPoolExecutor(AHEAD, thread_name_prefix="rae-draw") as pool:
        waiting = [pool.submit(draw, graph, features, config, loss, step) for step in steps[:AHEAD]]
        for step in steps:
            drawn = waiting.pop(0).result()
            if step + AHEAD <= steps[-1]:
                waiting.append(pool.submit(draw, graph, features, config, loss, step + AHEAD))
            yield drawn


class _Both(torch.autograd.Function):
    """Two tensors computed at the same time; their gradients go back at the same time."""

    @staticmethod
    def forward(ctx: Any, needs_grad: Tensor, first: Callable[[], Tensor], second: Callable[[], Tensor]) -> Any:
        ctx.outputs = together(_with_grad(first), _with_grad(second))
        return tuple(output.detach() for output in ctx.outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, None, None]:
        together(*(partial(_backward, output, grad) for output, grad in zip(ctx.outputs, grads, strict=True)))
        return None, None, None


def _both(first: Callable[[], Tensor], second: Callable[[], Tensor]) -> tuple[Tensor, Tensor]:
    """What the two functions return, computed at the same time, each on half of the threads.

    Backward runs a backward inside: on another device than the CPU that would wait for itself.
    """
    one, two = _Both.apply(torch.zeros((), requires_grad=True), first, second)  # type: ignore[no-untyped-call]
    return one, two


def _backward(output: Tensor, grad: Tensor) -> None:
    """output.backward(grad), for which torch would import a library of algebra for half a second."""
    with torch.enable_grad():
        (output * grad).sum().backward()  # type: ignore[no-untyped-call]


def _with_grad(compute: Callable[[], Tensor]) -> Callable[[], Tensor]:
    def wrapped() -> Tensor:
        torch_alone_here()
        with torch.enable_grad():
            return compute()

    return wrapped


class Drawn(NamedTuple):
    """What a step reads: feature rows and blocks of the anchors, and of their positives and shuffled negatives."""

    anchors: tuple[Any, list[Block]]
    context: tuple[Any, list[Block]]


class _Draw:
    """The random choices of one step of "within" or "neighbor"; each is a hash of (seed, loss, step)."""

    def __init__(self, graph: Graph, features: Features, config: Config, loss: str, step: int) -> None:
        self.graph, self.features, self.config, self.within = graph, features, config, loss == "within"
        self.stream = (config.seed, loss, step)
        b = min(config.batch_size, graph.n_nodes)
        self.n_shuffled = round(config.shuffled * config.negatives) if self.within else 0
        self.nodes = generator(*self.stream, "batch").choice(graph.n_nodes, b, replace=False, shuffle=False)
        draw_positive = pairs.same_node if self.within else pairs.random_neighbor
        encoded = draw_positive(graph, self.nodes, config.positives, key(*self.stream, "positive"))
        self.encoded = encoded if self.within else np.concatenate([encoded, self.nodes[None]])

    def anchors(self) -> tuple[Any, list[Block]]:
        """What the encoder reads."""
        return _inputs(self.graph, self.features, self.nodes, self.config, (*self.stream, "anchor"))

    def context(self) -> tuple[Any, list[Block]]:
        """p positives per anchor, and for J_neighbor the batch itself, to be negatives; then shuffled ones."""
        views = np.repeat(np.arange(len(self.encoded)), len(self.nodes))
        stream = (*self.stream, "context")
        rows, blocks = _inputs(self.graph, self.features, self.encoded.ravel(), self.config, stream, views)
        if self.n_shuffled and self.config.shuffle == "neighbors":
            shuffled = self.config.positives, self.n_shuffled, self.stream
            blocks[-1] = _with_shuffled(blocks[-1], self.graph, self.nodes, *shuffled)
        return rows, blocks


def draw(graph: Graph, features: Features, config: Config, loss: str, step: int) -> Drawn:
    """What a step of "within" or "neighbor" reads; the same for the same seed, on any device."""
    drawing = _Draw(graph, features, config, loss, step)
    return Drawn(drawing.anchors(), drawing.context())


def step_loss(
    encoder: Encoder,
    context: Encoder | Decoder,
    graph: Graph,
    features: Any,
    config: Config,
    loss: str,
    step: int,
    drawn: Drawn | None = None,
) -> Tensor:
    """The loss of one batch, ready for backward(); `features` as for `RAE.fit`.

    `context` is the second encoder, which sees the pairs, or for the loss "agree" the decoder, which tells features.
    `drawn` is what `draw` gave for this step, where that was done in advance.
    """
    if not isinstance(features, Features):
        features = Features.of(graph, features, config).in_memory()
    if loss == "agree" and isinstance(context, Decoder):
        return agree_loss(encoder, context, graph, features, config, step)
    if loss not in ("within", "neighbor") or not isinstance(context, Encoder):
        raise ConfigError(
            Argument("loss"),
            f" must be 'within' or 'neighbor' with two encoders or 'agree' with an encoder and a decoder, got {loss!r} "
            f"with {type(context).__name__}",
        )
    within = loss == "within"
    draw_negative = pairs.any_other if within or not config.exclude_neighbors else pairs.non_neighbor
    drawing = _Draw(graph, features, config, loss, step)
    nodes, encoded, stream, n_shuffled = drawing.nodes, drawing.encoded, drawing.stream, drawing.n_shuffled
    b, p, n_random = len(nodes), config.positives, config.negatives - n_shuffled

    def encode_anchors() -> Tensor:
        rows, blocks = drawing.anchors() if drawn is None else drawn.anchors
        return encoder.hidden(rows, blocks, (*stream, "anchor"))[-1]

    def encode_context() -> Tensor:
        rows, blocks = drawing.context() if drawn is None else drawn.context
        return context.hidden(rows, blocks, (*stream, "context"))[-1]

    on_cpu = next(encoder.parameters()).device.type == "cpu"
    anchor, z = _both(encode_anchors, encode_context) if on_cpu else (encode_anchors(), encode_context())
    d = anchor.shape[1]
    n_encoded = encoded.size
    positive = (z[: p * b].view(p, b, d) * anchor).sum(-1)
    scores, valid = [], []
    if n_random or config.shuffle == "rows":
        # Random negatives, and the released code's shuffled ones, are other rows of the batch.
        count = n_random if config.shuffle == "neighbors" else config.negatives
        pool = z[:n_encoded] if within else z[p * b : n_encoded]
        place = torch.from_numpy(draw_negative(graph, nodes, count, key(*stream, "negative")))
        view = generator(*stream, "view").integers(len(pool) // b, size=place.shape)
        column = (place.clamp(min=0) + b * torch.from_numpy(view)).to(z.device)
        if z.is_cuda:  # the gradient of `gather` is added up in any order there
            scores.append((pool[column] * anchor[:, None, :]).sum(-1).ravel())
        else:
            scores.append((anchor @ pool.T).gather(1, column).ravel())
        valid.append((place >= 0).ravel())
    if len(z) > n_encoded:
        shuffled = (z[n_encoded:].view(n_shuffled, b, d) * anchor).sum(-1).ravel()
        scores.append(shuffled)
        valid.append(torch.ones(len(shuffled), dtype=torch.bool))
    exists = torch.cat(valid).to(z.device)
    return contrast(positive, torch.cat(scores), negative_weight=config.negative_weight, valid=exists)


def _inputs(
    graph: Graph, features: Features, nodes: Ints, config: Config, stream: Stream, views: Ints | None = None
) -> tuple[Any, list[Block]]:
    """The feature rows and the blocks that the encoder reads for these nodes."""
    seed, *purpose = stream
    below, blocks = sample_blocks(graph, nodes, config.fanout, int(seed), *purpose, views=views)
    return features.take(below), blocks


def _with_shuffled(block: Block, graph: Graph, nodes: Ints, p: int, k: int, stream: Any) -> Block:
    """The block and, below it, k rows per anchor: the ego stays, the neighbours are those of another node."""
    b = len(nodes)
    other = pairs.any_other(graph, nodes, k, key(*stream, "shuffle")).T  # (k, b) positions
    view = generator(*stream, "shuffle").integers(p, size=other.shape)
    rows = np.tile(np.arange(b), k)
    return stack(block, shuffle_neighbors(block, rows, (other + b * view).ravel()))


def _record(
    encoder: Encoder, graph: Graph, features: Features, config: Config, loss: str, step: int, value: float
) -> Record:
    """The shape of a fixed batch without dropout: how many directions it uses, how alike its vectors are."""
    nodes = generator(config.seed, "probe").choice(graph.n_nodes, min(256, graph.n_nodes), replace=False)
    encoder.eval()
    with torch.no_grad():
        z = encoder.hidden(*_inputs(graph, features, nodes, config, (config.seed, "probe")))[-1].double().cpu()
    if not torch.isfinite(z).all():
        raise TrainingError(_diverged(loss, step, config, what="a vector"))
    energy = torch.linalg.svdvals(z - z.mean(0)) ** 2
    share = energy / energy.sum().clamp(min=1e-12)
    rank = float(torch.exp(-(share * torch.log(share.clamp(min=1e-12))).sum()))
    unit = torch.nn.functional.normalize(z, dim=1)
    n = len(unit)
    cosine = float((unit.sum(0).square().sum() - n) / (n * (n - 1))) if z.any() else 1.0  # all zero: all alike
    return Record(loss, step, round(value, 6), round(rank, 4), round(cosine, 6))


def _warn_if_collapsed(last: Record, config: Config) -> None:
    if last.cosine > COLLAPSED:
        warnings.warn(
            CollapseWarning(
                f"the fit collapsed: the mean cosine between vectors is {last.cosine:.3f} (loss {last.loss!r}, step "
                f"{last.step}), so all nodes look alike; if every node has the same features that is the truth, else ",
                *("lower ", Argument("learning_rate"), f" (now {config.learning_rate:g}), raise "),
                *(Argument(apart := _APART.get(last.loss, "negatives")), f" (now {getattr(config, apart)}) "),
                "or scale the features",
            ),
            stacklevel=4,
        )


def _diverged(loss: str, step: int, config: Config, what: str = "") -> Sentence:
    what = f"{what} of loss {loss!r}" if what else f"loss {loss!r}"
    return Sentence(
        f"the fit diverged: {what} became infinite or NaN at step {step} of {config.steps}; lower ",
        *(Argument("learning_rate"), f" (now {config.learning_rate:g}) or scale the features to about 1"),
    )
