"""What the neural methods share: a graph as tensors, views of it, seeded training, and two base classes.

The convolutions are PyTorch Geometric's. On a processor they get adjacency and features as sparse matrices, which is
several times quicker than its gathering of edges; on another device edges and dense features, as it documents them.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import itertools
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rae.baselines.registry import Floats, Ints
from rae.datasets.options import fraction, whole_number
from rae.errors import ConfigError, FeatureError, MissingExtraError, NotFittedError, TrainingError
from rae.features import structural_features
from rae.graph import Graph
from rae.runtime import key, torch_alone

NEEDS = ("torch_geometric",)


def geometric() -> Any:
    """PyTorch Geometric's layers, or an error that says how to install it."""
    try:
        import torch_geometric.nn as layers
    except ImportError:
        raise MissingExtraError("torch_geometric", "bench", "a neural baseline") from None
    return layers


# ------------------------------------------------------------------------------------------------ tensors


@dataclass(frozen=True)
class Input:
    """A graph with features as tensors. Edges have both directions, sorted by receiver; loops are not among them."""

    x: Tensor  # (n, f), sparse on a processor where the features are
    receivers: Tensor  # (2 m,)
    senders: Tensor  # (2 m,)

    @property
    def n_nodes(self) -> int:
        """The number of nodes."""
        return int(self.x.shape[0])

    @property
    def width(self) -> int:
        """The number of features."""
        return int(self.x.shape[1])

    @property
    def edges(self) -> Tensor:
        """Sender and receiver of every edge, as PyTorch Geometric writes them.  -> (2, 2 m)"""
        return torch.stack([self.senders, self.receivers])

    def convolution(self, weights: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """D^-1/2 (A + I) D^-1/2, as a GCNConv with normalize=False takes it: a matrix, or edges and their weights."""
        n, device = self.n_nodes, self.x.device
        loops = torch.arange(n, device=device)
        rows, columns = torch.cat([self.receivers, loops]), torch.cat([self.senders, loops])
        values = torch.ones(len(self.receivers), device=device) if weights is None else weights
        values = torch.cat([values, torch.ones(n, device=device)])
        scale = torch.zeros(n, device=device).index_add_(0, rows, values).rsqrt()
        values = scale[rows] * values * scale[columns]
        if device.type != "cpu":
            return torch.stack([columns, rows]), values
        order = torch.argsort(rows, stable=True)
        return _csr(torch.bincount(rows, minlength=n), columns[order], values[order], (n, n)), None

    def view(self, drop_edges: float, drop_columns: float) -> Input:
        """This graph without a random share of its edges, each direction for itself, and of its feature columns."""
        mask = torch.rand(len(self.receivers), device=self.x.device) >= drop_edges
        columns = (torch.rand(self.width, device=self.x.device) >= drop_columns).float()
        if self.x.layout == torch.sparse_csr:
            x = _with_values(self.x, self.x.values() * columns[self.x.col_indices()])
        else:
            x = self.x * columns
        return Input(x, self.receivers[mask], self.senders[mask])

    def dense(self) -> Tensor:
        """The features as a dense matrix."""
        return self.x.to_dense() if self.x.layout == torch.sparse_csr else self.x


def read_input(graph: Graph, features: Any, device: str, scale: str = "sum") -> Input:
    """A graph as tensors. Rows of features add up to one (`"sum"`) or are as they are.

    Without features they are the structural ones, as they are: their size is what they say.
    """
    if features is None:
        features, scale = structural_features(graph), "none"
    if features.shape[0] != graph.n_nodes:
        raise FeatureError(f"features must have one row per node ({graph.n_nodes:,}), got {features.shape[0]:,}")
    matrix = sp.csr_array(features).astype(np.float32)
    if scale == "sum":
        sums = np.asarray(abs(matrix).sum(1)).reshape(-1)
        matrix = sp.csr_array(sp.diags_array(1 / np.where(sums > 0, sums, 1)) @ matrix).astype(np.float32)
    place = torch.device(device)
    if place.type == "cpu" and sp.issparse(features):
        x = csr_tensor(matrix)
    else:
        x = torch.from_numpy(matrix.toarray()).to(place)
    receivers = torch.from_numpy(np.repeat(np.arange(graph.n_nodes), graph.degrees)).to(place)
    senders = torch.from_numpy(np.array(graph.targets, np.int64)).to(place)
    return Input(x, receivers, senders)


def csr_tensor(matrix: sp.csr_array) -> Tensor:
    """A SciPy matrix as a tensor of the same layout."""
    columns = torch.from_numpy(matrix.indices.astype(np.int64))
    counts = torch.from_numpy(np.diff(matrix.indptr).astype(np.int64))
    return _csr(counts, columns, torch.from_numpy(matrix.data.astype(np.float32)), matrix.shape)


def _csr(counts: Tensor, columns: Tensor, values: Tensor, shape: Any) -> Tensor:
    starts = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch calls this layout new
        return torch.sparse_csr_tensor(starts, columns, values, tuple(shape), check_invariants=False)


def _with_values(x: Tensor, values: Tensor) -> Tensor:
    return torch.sparse_csr_tensor(x.crow_indices(), x.col_indices(), values, x.shape, check_invariants=False)


def dropout(x: Tensor, share: float, training: bool) -> Tensor:
    """Dropout of a dense matrix, or of the entries of a sparse one."""
    if x.layout == torch.sparse_csr:
        return _with_values(x, F.dropout(x.values(), share, training)) if training and share else x
    return F.dropout(x, share, training)


class Convolutions(nn.Module):
    """GCN layers of these widths, with an activation after each, or after each but the last."""

    def __init__(
        self, widths: tuple[int, ...], activation: str = "relu", last: bool = True, norm: bool = False
    ) -> None:
        super().__init__()
        pairs = list(itertools.pairwise(widths))
        self.layers = nn.ModuleList([geometric().GCNConv(a, b, normalize=False) for a, b in pairs])
        self.norms = nn.ModuleList([nn.BatchNorm1d(b) if norm else nn.Identity() for _, b in pairs])
        kinds: dict[str, Callable[[], nn.Module]] = {"relu": nn.ReLU, "prelu": nn.PReLU, "elu": nn.ELU}
        self.activations = nn.ModuleList([kinds[activation]() for _ in pairs])
        if not last:
            self.activations[-1] = nn.Identity()

    def forward(self, data: Input) -> Tensor:
        """The last layer's rows.  -> (n, widths[-1])"""
        matrix = data.convolution()
        h = data.x
        for layer, norm, activation in zip(self.layers, self.norms, self.activations, strict=True):
            h = activation(norm(layer(h, *matrix)))
        return h


# ----------------------------------------------------------------------------------------------- training


@contextlib.contextmanager
def seeded(seed: int, name: str, device: str) -> Iterator[None]:
    """Torch draws from this seed inside the block, on one thread; its own state is restored after it."""
    here = torch.device(device)
    devices = [here.index or 0] if here.type == "cuda" else []
    with torch_alone(), torch.random.fork_rng(devices, device_type="cuda"):
        torch.manual_seed(int(key(seed, "baseline", name)) >> 1)
        yield


def descend(
    optimizer: torch.optim.Optimizer, loss: Callable[[], Tensor], steps: int, after: Callable[[int, float], bool]
) -> list[float]:
    """The loss at every step; `after(step, loss)` says whether to stop."""
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        value = loss()
        value.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(float(value.detach()))
        if not math.isfinite(losses[-1]):
            raise TrainingError(f"the loss of step {step:,} is not a finite number; try a smaller learning_rate")
        if after(step, losses[-1]):
            break
    return losses


def never(step: int, loss: float) -> bool:
    """Train to the last step."""
    return False


class Patience:
    """Keeps the weights of the lowest value so far, and says when `patience` values in a row were not lower."""

    def __init__(self, model: nn.Module, patience: int) -> None:
        self.model, self.patience = model, patience
        self.best, self.worse, self.weights = math.inf, 0, copy.deepcopy(model.state_dict())

    def __call__(self, value: float) -> bool:
        if value < self.best:
            self.best, self.worse, self.weights = value, 0, copy.deepcopy(self.model.state_dict())
        else:
            self.worse += 1
        return self.worse >= self.patience

    def restore(self) -> None:
        """Give the model its best weights."""
        self.model.load_state_dict(self.weights)


# ---------------------------------------------------------------------------------------------- contracts


@dataclass(kw_only=True, eq=False)
class Neural:
    """Settings and checks of every neural method."""

    seed: int = 0
    device: str = "cpu"
    model: Any = field(default=None, init=False, repr=False)
    losses: list[float] = field(default_factory=list, init=False, repr=False)  # of every step of the last fit

    def __post_init__(self) -> None:
        whole_number("seed", self.seed, 0)
        for each in dataclasses.fields(self):
            value = getattr(self, each.name)
            if not each.init or each.name == "seed" or isinstance(value, (bool, str)):
                continue
            if isinstance(value, tuple):
                _ = [whole_number(each.name, number, 1) for number in value]
            elif isinstance(each.default, int):
                whole_number(each.name, value, 1)
            else:
                fraction(each.name, value, 1.0 if each.name.startswith(("drop", "mask", "replace")) else math.inf)
        try:
            usable = torch.device(self.device).type != "cuda" or torch.cuda.is_available()
        except RuntimeError:
            usable = False
        if not usable:
            raise ConfigError(f"device must be one that torch has here, such as 'cpu', got {self.device!r}")

    def _fitted(self) -> Any:
        if self.model is None:
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit first")
        return self.model.eval()

    def _seeded(self) -> contextlib.AbstractContextManager[None]:
        return seeded(self.seed, type(self).__name__, self.device)


class NeuralEmbedder(Neural):
    """fit, transform and fit_transform around `_train(data)`, which returns a model, and `_embed(model, data)`."""

    scale = "sum"  # of features, see read_input

    def fit(self, graph: Graph, features: Any = None) -> Self:
        """Learn from this graph, without labels."""
        with self._seeded():
            self.model = self._train(read_input(graph, features, self.device, self.scale))
        return self

    def transform(self, graph: Graph, features: Any = None) -> Floats:
        """One vector per node of this graph, in row order.  -> (n, d)"""
        model = self._fitted()
        with torch_alone(), torch.no_grad():
            z = self._embed(model, read_input(graph, features, self.device, self.scale))
        return np.ascontiguousarray(z.cpu().numpy(), np.float32)

    def fit_transform(self, graph: Graph, features: Any = None) -> Floats:
        """fit, then the vectors of the same graph."""
        return self.fit(graph, features).transform(graph, features)

    def _train(self, data: Input) -> nn.Module:
        raise NotImplementedError

    def _embed(self, model: Any, data: Input) -> Tensor:
        out: Tensor = model(data)
        return out


@dataclass(frozen=True)
class Labelled:
    """The labels that a classifier may read: those of training and validation nodes, the others are not here."""

    train: Tensor
    train_labels: Tensor
    validation: Tensor
    validation_labels: Tensor
    n_classes: int


class NeuralClassifier(Neural):
    """fit and predict around `_train(data, labelled)`, which returns a model, and `_scores(model, data)`."""

    scale = "sum"

    def fit(self, graph: Graph, features: Any, labels: Ints, train: Ints, validation: Ints | None = None) -> Self:
        """Learn from the labels of the rows `train`; those of `validation` may choose when to stop."""
        labelled = read_labels(labels, train, validation, self.device)
        with self._seeded():
            self.model = self._train(read_input(graph, features, self.device, self.scale), labelled, graph)
        return self

    def predict(self, graph: Graph, features: Any) -> Ints:
        """The class of every node, in row order.  -> (n,)"""
        model = self._fitted()
        with torch_alone(), torch.no_grad():
            scores = self._scores(model, read_input(graph, features, self.device, self.scale))
        return np.asarray(scores.argmax(1).cpu().numpy(), np.int64)

    def _train(self, data: Input, labelled: Labelled, graph: Graph) -> nn.Module:
        raise NotImplementedError

    def _scores(self, model: Any, data: Input) -> Tensor:
        out: Tensor = model(data)
        return out


def read_labels(labels: Ints, train: Ints, validation: Ints | None, device: str) -> Labelled:
    """The labels of these rows alone; every training node must have one."""
    chosen = np.asarray(labels)[train]
    if len(chosen) == 0 or chosen.min() < 0:
        raise ConfigError(f"train must be rows that have a label, 0 or more; got {len(chosen):,} rows with others too")
    checks = np.empty(0, np.int64) if validation is None else np.asarray(validation, np.int64)
    tensors = [np.asarray(train), chosen, checks, np.asarray(labels)[checks]]
    a, b, c, d = (torch.from_numpy(np.asarray(t, np.int64)).to(device) for t in tensors)
    return Labelled(a, b, c, d, int(chosen.max()) + 1)


def validation_score(model: nn.Module, scores: Callable[[], Tensor], labelled: Labelled) -> tuple[float, float]:
    """Loss and accuracy on the validation nodes, (0, 0) without any."""
    if len(labelled.validation) == 0:
        return 0.0, 0.0
    model.eval()
    with torch.no_grad():
        out = scores()[labelled.validation]
        loss = F.cross_entropy(out, labelled.validation_labels.clamp(max=out.shape[1] - 1))
        right = (out.argmax(1) == labelled.validation_labels).float().mean()
    model.train()
    return float(loss), float(right)
