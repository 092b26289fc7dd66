"""The loop: draw a batch, encode its views, contrast them or let them agree, take a step of Adam."""

from __future__ import annotations

import itertools
import logging
import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from rae.config import Config
from rae.errors import Argument, CollapseWarning, ConfigError, GraphError, Sentence, TrainingError
from rae.features import Features
from rae.graph import Graph
from rae.model import pairs, replay
from rae.model.adam import Adam
from rae.model.agree import agree_loss, settle
from rae.model.encoder import Decoder, Encoder, Stream
from rae.model.losses import contrast
from rae.model.sampling import Block, sample_blocks, shuffle_neighbors, stack
from rae.ops.device import Recorded, has, side_by_side
from rae.ops.gather import average
from rae.progress import Progress
from rae.runtime import device, generator, key, together, torch_alone, torch_alone_here

log = logging.getLogger("rae")

Ints = np.ndarray[Any, np.dtype[np.integer[Any]]]
T = TypeVar("T")

_SPREAD_SETTING = {"agree": "decorrelation"}  # the setting that prevents collapse, by loss; by default negatives
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


@torch.inference_mode(False)  # even inside a caller's inference mode
@torch.enable_grad()
def fit(
    graph: Graph, features: Features, config: Config, loss: str, progress: Progress | None = None
) -> tuple[Encoder, list[Record]]:
    """The encoder of one loss, trained for config.steps, and its history."""
    encoder, context = new_encoders(features.width, config, loss)
    if config.steps == 0:
        return encoder, []
    check_trainable(graph)
    features = features.in_memory()
    encoder.to(device()), context.to(device())
    with torch_alone():
        history = _train(encoder, context, graph, features, config, loss, progress)
        if loss == "agree":
            settle(encoder, graph, features, config)
    encoder.to("cpu")  # a model has no device
    warn_if_collapsed(history[-1], config)
    return encoder, history


def new_encoders(n_features: int, config: Config, loss: str) -> tuple[Encoder, Encoder | Decoder]:
    """The encoder of a loss before its training, and the module that is trained with it."""
    encoder = Encoder(n_features, config, generator(config.seed, loss, "encoder"))
    rng = generator(config.seed, loss, "context")
    return encoder, Decoder(n_features, config.dims[-1], rng) if loss == "agree" else Encoder(n_features, config, rng)


def check_trainable(graph: Graph) -> None:
    """Refuse a graph that training has nothing to contrast in."""
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


def _train(
    encoder: Encoder,
    context: Encoder | Decoder,
    graph: Graph,
    features: Features,
    config: Config,
    loss: str,
    progress: Progress | None,
) -> list[Record]:
    tells = loss != "agree" or config.telling > 0  # without it the decoder is not trained
    weights = [*encoder.parameters(), *(context.parameters() if tells else ())]
    optimizer = Adam(weights, config.learning_rate)
    history: list[Record] = []
    losses_of_steps = _recorded_steps(encoder, context, optimizer, graph, features, config, loss)
    if losses_of_steps is None:
        losses_of_steps = _take_steps(encoder, context, optimizer, graph, features, config, loss)
    probe = replay.placed(*draw_probe(graph, features, config), weights[0].device)
    losses = torch.empty(config.steps, device=weights[0].device)
    waiting: list[tuple[int, Tensor]] = []  # steps whose vectors nothing has looked at: a GPU does not wait for that
    for step, objective in enumerate(losses_of_steps, 1):
        losses[step - 1] = objective
        if step in (1, config.steps) or step % config.record_every == 0:
            waiting.append((step, probed(encoder, probe)))
        if step < config.steps and progress is None and losses.is_cuda:
            continue
        values = _checked_values(losses[:step], loss, config)
        history += [record_of(z, config, loss, number, values[number - 1]) for number, z in waiting]
        waiting.clear()
        if progress is not None:
            progress(f"train {loss}", step, config.steps, {"loss": values[-1]})
    return history


def _take_steps(
    encoder: Encoder,
    context: Encoder | Decoder,
    optimizer: Adam,
    graph: Graph,
    features: Features,
    config: Config,
    loss: str,
) -> Iterator[Tensor]:
    """The loss of every step, when it has been taken."""
    steps = range(1, config.steps + 1)
    drawn = None
    if device() != "cpu" and loss != "agree":
        drawn = _drawn_ahead(partial(draw, graph, features, config, loss), steps)
    for step in steps:
        encoder.train(), context.train()
        optimizer.zero_grad()
        ready = None if drawn is None else next(drawn)
        objective = step_loss(encoder, context, graph, features, config, loss, step, ready)
        checked_value(objective, loss, step, config)
        objective.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        yield objective.detach()


def _recorded_steps(
    encoder: Encoder,
    context: Encoder | Decoder,
    optimizer: Adam,
    graph: Graph,
    features: Features,
    config: Config,
    loss: str,
) -> Iterator[Tensor] | None:
    """The same on a GPU, by a recorded step that is repeated; None where that cannot be."""
    same_shapes = config.order == "average_first" and config.activation == "tanh" and not config.input_dropout
    if device() == "cpu" or not isinstance(context, Encoder) or not same_shapes:
        return None
    table = replay.table_of(features, torch.device(device()))
    if table is None:
        return None
    return _replay_steps(
        encoder, context, optimizer, table, partial(numbers_of_step, graph, config, loss), config, loss
    )


def _replay_steps(
    encoder: Encoder,
    context: Encoder,
    optimizer: Adam,
    table: Any,
    numbers_of: Callable[[int], dict[replay.Name, replay.Numbers]],
    config: Config,
    loss: str,
) -> Iterator[Tensor]:
    place = next(encoder.parameters()).detach()

    def take(numbers: Mapping[replay.Name, Tensor]) -> Tensor:
        encoder.train(), context.train()
        optimizer.zero_grad()

        def encode(side: str, network: Encoder) -> Tensor:
            read = replay.read(side, numbers, table, config.depth)
            return network.hidden(*read, replay.keys_of(side, numbers))[-1]

        anchor, z = side_by_side(partial(encode, "anchor", encoder), partial(encode, "context", context), place)
        column = numbers.get(("negatives", "column"))
        column = None if column is None else column.view(len(anchor), -1)
        objective = _contrasted(anchor, z, column, numbers["negatives", "exists"] > 0, config, loss)
        objective.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return objective.detach()

    drawn = _drawn_ahead(numbers_of, range(1, config.steps + 1))
    first_numbers = list(itertools.islice(drawn, replay.FIRST_STEPS))
    recorded = Recorded(take, replay.sizes_of(first_numbers), place)
    for numbers in itertools.chain(list(first_numbers), drawn):
        if not recorded.fits(numbers):
            first_numbers.append(numbers)
            recorded = Recorded(take, replay.sizes_of(first_numbers), place)
        yield recorded.run(numbers)


def numbers_of_step(graph: Graph, config: Config, loss: str, step: int) -> dict[replay.Name, replay.Numbers]:
    """The inputs of a step as whole numbers: rows of the features, blocks, negatives, and keys of what is dropped."""
    drawn = draw(graph, _RowNumbers(), config, loss, step)
    column, exists = _negatives(drawn, config, loss, step)
    out = dict[replay.Name, replay.Numbers]()
    for side, (rows, blocks) in zip(replay.SIDES, (drawn.anchors, drawn.context), strict=True):
        stream = config.seed, loss, step, side
        names = [(k, layer) for k in range(config.depth) for layer in ("aggregate", "update")]
        out |= replay.of_blocks(side, rows, blocks)  # type: ignore[arg-type]
        out |= replay.of_keys(side, {name: key(*stream, *name) for name in names}, blocks)  # type: ignore[arg-type]
    if column is not None:
        out["negatives", "column"] = replay.Numbers(column.numpy().ravel(), fixed=True)
    out["negatives", "exists"] = replay.Numbers(exists.numpy(), fixed=True)
    return out


class _RowNumbers:
    """In place of features: the numbers of their rows."""

    def take(self, index: Any) -> Any:
        return np.asarray(index)


def _drawn_ahead(draws: Callable[[int], T], steps: range) -> Iterator[T]:
    """The inputs of each step, in order, drawn by other threads while a GPU works on the steps before it."""
    with ThreadPoolExecutor(AHEAD, thread_name_prefix="rae-draw") as pool:
        waiting = [pool.submit(draws, step) for step in steps[:AHEAD]]
        for step in steps:
            drawn = waiting.pop(0).result()
            if step + AHEAD <= steps[-1]:
                waiting.append(pool.submit(draws, step + AHEAD))
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
    """The results of both functions, computed at the same time, each on half of the threads.

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
    """The inputs of a step without the graph: feature rows and blocks of the anchors, and of their pairs; negatives."""

    anchors: tuple[Any, list[Block | None]]
    context: tuple[Any, list[Block | None]]
    size: int  # anchors
    n_encoded: int  # rows of the context before the shuffled ones
    negatives: Any  # (anchors, k) positions in the batch, -1 where there is none; None where all are shuffled


class _Draw:
    """The random choices of one step of a loss that contrasts pairs; each is a hash of (seed, loss, step)."""

    def __init__(self, graph: Graph, features: Any, config: Config, loss: str, step: int) -> None:
        self.graph, self.features, self.config, self.pairing = graph, features, config, pairs.PAIRINGS[loss]
        self.stream = (config.seed, loss, step)
        b = min(config.batch_size, graph.n_nodes)
        self.n_shuffled = n_shuffled(config, loss)
        self.nodes = generator(*self.stream, "batch").choice(graph.n_nodes, b, replace=False, shuffle=False)
        encoded = self.pairing.positive(graph, self.nodes, config.positives, key(*self.stream, "positive"))
        self.encoded = np.concatenate([encoded, self.nodes[None]]) if self.pairing.encodes_batch else encoded
        self.size, self.n_encoded = b, self.encoded.size

    def anchors(self) -> tuple[Any, list[Block]]:
        """The inputs of the encoder."""
        return _inputs(self.graph, self.features, self.nodes, self.config, (*self.stream, "anchor"))

    def context(self) -> tuple[Any, list[Block]]:
        """p positives per anchor, and where the loss asks for it the batch, to be negatives; then shuffled ones."""
        views = np.repeat(np.arange(len(self.encoded)), len(self.nodes))
        stream = (*self.stream, "context")
        rows, blocks = _inputs(self.graph, self.features, self.encoded.ravel(), self.config, stream, views)
        if self.n_shuffled and self.config.shuffle == "neighbors":
            shuffled = self.config.positives, self.n_shuffled, self.stream
            blocks[-1] = _with_shuffled(blocks[-1], self.graph, self.nodes, *shuffled)
        return rows, blocks

    def negatives(self) -> Any:
        """Random negatives, and the released code's shuffled ones: other rows of the batch.  (b, k), or None"""
        config = self.config
        n_random = config.negatives - self.n_shuffled
        if not n_random and config.shuffle != "rows":
            return None
        draw_negative = self.pairing.negative if config.exclude_neighbors else pairs.any_other
        count = n_random if config.shuffle == "neighbors" else config.negatives
        return draw_negative(self.graph, self.nodes, count, key(*self.stream, "negative"))


def n_shuffled(config: Config, loss: str) -> int:
    """Negatives per anchor that are made by neighbour shuffling."""
    return round(config.shuffled * config.negatives) if pairs.PAIRINGS[loss].shuffles else 0


def draw(graph: Graph, features: Any, config: Config, loss: str, step: int) -> Drawn:
    """What a step of a loss that contrasts pairs reads; the same for the same seed, on any device."""
    drawing = _Draw(graph, features, config, loss, step)
    anchors, context = drawing.anchors(), drawing.context()
    return Drawn(anchors, context, drawing.size, drawing.n_encoded, drawing.negatives())  # type: ignore[arg-type]


def averaged_below(rows: Any, blocks: list[Block], config: Config) -> tuple[Any, list[Block | None]]:
    """The same, to store: the means of the lowest level instead of its rows, where weights come after the mean.

    A fraction of the bytes: 11 means for 261 rows, at two levels of 10 and 25 neighbours.
    """
    plain = isinstance(rows, np.ndarray) and config.order == "average_first" and not config.input_dropout
    if not plain or len(blocks) < 2:
        return rows, list(blocks)
    return average(torch.from_numpy(rows), blocks[0]).numpy(), [None, *blocks[1:]]


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
    if loss not in pairs.PAIRINGS or not isinstance(context, Encoder):
        raise ConfigError(
            Argument("loss"),
            f" must be {' or '.join(map(repr, pairs.PAIRINGS))} with two encoders or 'agree' with an encoder and a "
            f"decoder, got {loss!r} with {type(context).__name__}",
        )
    if drawn is not None:
        return contrast_loss(encoder, context, drawn, config, loss, step)
    return contrast_loss(encoder, context, _Draw(graph, features, config, loss, step), config, loss, step)


def contrast_loss(
    encoder: Encoder, context: Encoder, drawing: Drawn | _Draw, config: Config, loss: str, step: int
) -> Tensor:
    """The contrast of the pairs of what was drawn for a step, or is drawn now."""
    stream = config.seed, loss, step

    def encode_anchors() -> Tensor:
        rows, blocks = drawing.anchors if isinstance(drawing, Drawn) else drawing.anchors()
        return encoder.hidden(rows, blocks, (*stream, "anchor"))[-1]

    def encode_context() -> Tensor:
        rows, blocks = drawing.context if isinstance(drawing, Drawn) else drawing.context()
        return context.hidden(rows, blocks, (*stream, "context"))[-1]

    on_cpu = next(encoder.parameters()).device.type == "cpu"
    anchor, z = _both(encode_anchors, encode_context) if on_cpu else (encode_anchors(), encode_context())
    column, exists = _negatives(drawing, config, loss, step)
    return _contrasted(anchor, z, None if column is None else column.to(z.device), exists.to(z.device), config, loss)


def _negatives(drawing: Drawn | _Draw, config: Config, loss: str, step: int) -> tuple[Tensor | None, Tensor]:
    """The negatives among other rows of the context, None without any; and which ones exist, shuffled ones last."""
    b, p, n_encoded = drawing.size, config.positives, drawing.n_encoded
    column, valid = None, []
    negatives = drawing.negatives if isinstance(drawing, Drawn) else drawing.negatives()
    if negatives is not None:
        n_views = (n_encoded - p * b if pairs.PAIRINGS[loss].encodes_batch else n_encoded) // b
        place = torch.from_numpy(negatives)
        view = generator(config.seed, loss, step, "view").integers(n_views, size=place.shape)
        column = place.clamp(min=0) + b * torch.from_numpy(view)
        valid.append((place >= 0).ravel())
    if config.shuffle == "neighbors" and (count := n_shuffled(config, loss)):
        valid.append(torch.ones(count * b, dtype=torch.bool))
    return column, torch.cat(valid)


def _contrasted(anchor: Tensor, z: Tensor, column: Tensor | None, exists: Tensor, config: Config, loss: str) -> Tensor:
    """The loss of anchors and of their context: positives first, then what else was encoded, then shuffled ones."""
    (b, d), p, shuffles = anchor.shape, config.positives, n_shuffled(config, loss)
    encodes_batch = pairs.PAIRINGS[loss].encodes_batch
    n_encoded = (p + 1) * b if encodes_batch else p * b
    positive = (z[: p * b].view(p, b, d) * anchor).sum(-1)
    scores = []
    if column is not None:
        pool = z[p * b : n_encoded] if encodes_batch else z[:n_encoded]
        if has(z):  # the gradient of `gather` is added up in any order there
            scores.append((pool[column] * anchor[:, None, :]).sum(-1).ravel())
        else:
            scores.append((anchor @ pool.T).gather(1, column).ravel())
    if len(z) > n_encoded:
        scores.append((z[n_encoded:].view(shuffles, b, d) * anchor).sum(-1).ravel())
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


def draw_probe(graph: Graph, features: Features, config: Config) -> tuple[Any, list[Block]]:
    """The inputs of the fixed batch whose shape the history records."""
    nodes = generator(config.seed, "probe").choice(graph.n_nodes, min(256, graph.n_nodes), replace=False)
    return _inputs(graph, features, nodes, config, (config.seed, "probe"))


def record(encoder: Encoder, probe: Any, config: Config, loss: str, step: int, value: float) -> Record:
    """The shape of a fixed batch without dropout: how many directions it uses, how alike its vectors are."""
    return record_of(probed(encoder, probe), config, loss, step, value)


def probed(encoder: Encoder, probe: Any) -> Tensor:
    """The vectors of a fixed batch, without dropout."""
    encoder.eval()
    with torch.no_grad():
        return encoder.hidden(*probe)[-1]


def record_of(z: Tensor, config: Config, loss: str, step: int, value: float) -> Record:
    """The shape of these vectors: how many directions they use, how alike they are."""
    z = z.double().cpu()
    if not torch.isfinite(z).all():
        raise TrainingError(_diverged(loss, step, config, what="a vector"))
    energy = torch.linalg.svdvals(z - z.mean(0)) ** 2
    share = energy / energy.sum().clamp(min=1e-12)
    rank = float(torch.exp(-(share * torch.log(share.clamp(min=1e-12))).sum()))
    unit = torch.nn.functional.normalize(z, dim=1)
    n = len(unit)
    cosine = float((unit.sum(0).square().sum() - n) / (n * (n - 1))) if z.any() else 1.0  # all zero: all alike
    return Record(loss, step, round(value, 6), round(rank, 4), round(cosine, 6))


def checked_value(objective: Tensor, loss: str, step: int, config: Config) -> float:
    """The value of a loss; TrainingError where it is no number."""
    value = float(objective.detach())
    if not math.isfinite(value):
        raise TrainingError(_diverged(loss, step, config))
    return value


def _checked_values(losses: Tensor, loss: str, config: Config) -> list[float]:
    """These losses; TrainingError where one of them is no number."""
    values: list[float] = losses.tolist()
    for step, value in enumerate(values, 1):
        if not math.isfinite(value):
            raise TrainingError(_diverged(loss, step, config))
    return values


def warn_if_collapsed(last: Record, config: Config) -> None:
    if last.cosine > COLLAPSED:
        warnings.warn(
            CollapseWarning(
                f"the fit collapsed: the mean cosine between vectors is {last.cosine:.3f} (loss {last.loss!r}, step "
                f"{last.step}), so all nodes look alike; if every node has the same features that is the truth, else ",
                *("lower ", Argument("learning_rate"), f" (now {config.learning_rate:g}), raise "),
                *(Argument(name := _SPREAD_SETTING.get(last.loss, "negatives")), f" (now {getattr(config, name)}) "),
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
