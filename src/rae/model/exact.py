"""J_within solved exactly: two views of a node close, different nodes far apart, without a training loop.

For a linear map of fixed statistics of a node's surroundings the objective is an eigenproblem:

1. measures   log1p of degree, triangles, core number and 4-cycles, each in units of the graph
2. statistics mean and standard deviation over neighbours, level by level, then means of farther neighbours
3. views      the graph with some edges dropped and as many random pairs added, in the units of the original
4. solution   S_T w = lambda (S_W + ridge I) w, with S_T the covariance over nodes and S_W that over views of a node

The vectors are two blocks: `place`, these directions, for distances and clusters; and `around`, the distribution of
the measures on a node and around it, for readers that learn weights.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from rae.errors import Argument, CheckpointError, CollapseWarning, ConfigError, GraphError, NotFittedError
from rae.features import measures
from rae.graph import Graph
from rae.model.checkpoint import EXACT, read_file, write_file
from rae.ops import gather
from rae.runtime import generator, torch_alone

Floats = np.ndarray[Any, np.dtype[np.float32]]

MEASURES = ("degree", "triangles", "core", "four_cycles")
PLACE = 64  # columns of `place`, a power of two
CHUNK = 4096  # rows at a time
SMALLEST_DEVIATION = 0.1  # of a measure: one that hardly varies is not blown up
SMALLEST_SHARE = 1e-9  # of the largest eigenvalue: directions below it are rounding
SMALLEST_EIGENVALUE = 1e-12  # where all nodes are alike, everything is rounding


def _setting(default: Any, help: str, low: float = -math.inf, high: float = math.inf) -> Any:
    return dataclasses.field(default=default, metadata={"help": help, "low": low, "high": high})


@dataclass(frozen=True, kw_only=True)
class ExactConfig:
    """All settings of an exact model, checked when made.

    >>> ExactConfig().n_statistics
    44
    """

    weights: tuple[float, ...] = _setting(
        (1.5, 1.0, 0.3, 1.0), "weight of degree, triangles, core number and 4-cycles in `place`", 0.0, 1e6
    )
    levels: int = _setting(4, "how far around a node `place` looks, in edges", 0, 16)
    moments: int = _setting(2, "levels with mean and standard deviation of all levels before; the others: means", 0, 4)
    decay: float = _setting(0.5, "weight of a level relative to the one before", 0.0, 1.0)
    views: int = _setting(4, "noisy copies of the graph", 2, 1000)
    noise: float = _setting(0.1, "share of the edges that a view drops, and of random pairs that it adds", 0.0, 1.0)
    ridge: float = _setting(0.1, "variance within a node that is assumed beside that of its views", 1e-9, 1e9)
    power: float = _setting(1.5, "the variance of a direction is its eigenvalue to this power", 0.0, 8.0)
    frequencies: int = _setting(32, "random combinations of the measures in `around`, six columns each", 1, 4096)
    sigma: float = _setting(1.0, "standard deviation of the frequencies; 4 is better for sums over graphs", 0.0, 1e6)
    around_scale: float = _setting(0.25, "standard deviation of `around` as a whole; that of `place` is 1", 0.0, 1e6)
    relative: bool = _setting(True, "a graph is embedded in its own units; False: in those of the fitted graph")
    seed: int = _setting(0, "same seed, same bytes", 0, 2**63 - 1)

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = _checked(field.name, getattr(self, field.name), field.default, field.metadata)
            object.__setattr__(self, field.name, value)
        if self.moments > self.levels:
            raise ConfigError(
                *(Argument("moments"), " must be at most ", Argument("levels")),
                f" ({self.levels}), got {self.moments}",
            )

    @property
    def n_statistics(self) -> int:
        """Columns of the statistics: every level with moments triples what is before it, the others add means."""
        return len(MEASURES) * (int(3**self.moments) + self.levels - self.moments)

    @property
    def around_width(self) -> int:
        """Columns of `around`: cosine and sine, of the node, its neighbours and their neighbours."""
        return 6 * self.frequencies

    def as_dict(self) -> dict[str, Any]:
        """Every setting by name, in order of declaration."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> ExactConfig:
        """The config that `as_dict` (or its JSON) describes; an unknown name is refused."""
        known = [f.name for f in dataclasses.fields(cls)]
        for name in settings:
            if name not in known:
                raise ConfigError(f"unknown setting {name!r}; the settings are {', '.join(known)}")
        return cls(**settings)


def _checked(name: str, value: Any, default: Any, rules: Mapping[str, Any]) -> Any:
    """The value with the type of the default, refused where it has another type or is out of range."""
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise ConfigError(Argument(name), f" must be True or False, got {value!r}")
        return value
    if isinstance(default, tuple):
        if not isinstance(value, (tuple, list)) or len(value) != len(default):
            raise ConfigError(Argument(name), f" must be {len(default)} numbers such as {default}, got {value!r}")
        return tuple(_checked(name, part, default[0], rules) for part in value)
    kind = type(default)
    is_number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and math.isfinite(value)
    if not is_number or kind(value) != value:
        what = "a whole number" if kind is int else "a finite number"
        raise ConfigError(Argument(name), f" must be {what}, got {value!r}")
    if not rules["low"] <= value <= rules["high"]:
        raise ConfigError(Argument(name), f" must be from {rules['low']} to {rules['high']}, got {value!r}")
    return kind(value)


class Block(NamedTuple):
    """Named columns start..stop of the vectors, and their total variance over the fitted graph."""

    name: str
    start: int
    stop: int
    variance: float


@dataclass(frozen=True)
class Solution:
    """What a fit keeps, all float64: p statistics, f frequencies."""

    mean: Tensor  # (4,) of the measures
    deviation: Tensor  # (4,)
    center: Tensor  # (p,) mean of the statistics
    directions: Tensor  # (p, 64) statistics -> place
    frequencies: Tensor  # (4, f)
    phases: Tensor  # (f,)
    around_center: Tensor  # (6 f,)
    around_factor: Tensor  # () what brings `around` to its scale

    @staticmethod
    def shapes(config: ExactConfig) -> dict[str, tuple[int, ...]]:
        """The shape of each tensor under these settings."""
        k, p, f = len(MEASURES), config.n_statistics, config.frequencies
        return {
            "mean": (k,), "deviation": (k,), "center": (p,), "directions": (p, PLACE),
            "frequencies": (k, f), "phases": (f,), "around_center": (6 * f,), "around_factor": (),
        }  # fmt: skip


class Exact:
    """The exact solution of J_within for structure: `fit`, `transform`, `save`, `load`, as `rae.RAE`.

    >>> graph = Graph.from_edges([("hub", "a"), ("hub", "b"), ("a", "c"), ("b", "d")])
    >>> Exact().fit_transform(graph).shape
    (5, 256)
    >>> [(block.name, block.start, block.stop) for block in Exact().blocks]
    [('place', 0, 64), ('around', 64, 256)]
    """

    def __init__(self, config: ExactConfig | None = None, /, **settings: Any) -> None:
        if config is not None and not isinstance(config, ExactConfig):
            raise ConfigError(
                f"the first argument must be an ExactConfig, got {type(config).__name__}; name settings, as in "
                "Exact(views=8)"
            )
        before = {} if config is None else config.as_dict()
        self.config = ExactConfig.from_dict(before | settings)
        self._fitted: Solution | None = None

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks of a vector, in order: name, columns, total variance over the fitted graph."""
        place = Block("place", 0, PLACE, 1.0)
        return place, Block("around", PLACE, PLACE + self.config.around_width, self.config.around_scale**2)

    def fit(self, graph: Graph) -> Self:
        """Solve the eigenproblem of this graph; nothing but its structure is read."""
        _check_graph(graph)
        with torch_alone():
            self._fitted = _solution(graph, self.config)
        if not self._fitted.directions.any():
            warnings.warn(
                CollapseWarning(
                    "all nodes of the graph look alike (the same degree, triangles, core number and 4-cycles "
                    "everywhere), so every vector of the block 'place' is zero"
                ),
                stacklevel=2,
            )
        return self

    def transform(self, graph: Graph) -> Floats:
        """The vectors of this graph's nodes, in row order, whether or not the fit has seen them.  -> (n, width)"""
        _check_graph(graph)
        with torch_alone():
            return _vectors(graph, self._solution, self.config)

    def fit_transform(self, graph: Graph) -> Floats:
        """fit, then the vectors of the same graph."""
        return self.fit(graph).transform(graph)

    def save(self, path: str | Path) -> None:
        """Write the model to one file, atomically: safetensors, with the settings as JSON in its header."""
        tensors = {name: getattr(self._solution, name).contiguous() for name in Solution.shapes(self.config)}
        write_file(path, {"model": EXACT, "config": self.config.as_dict()}, tensors)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """The model in this file; a truncated, foreign, damaged or newer file is refused."""
        path = Path(path)
        fields, tensors = read_file(path)
        if fields.get("model") != EXACT:
            raise CheckpointError(f"{path} holds a trained model, expected an exact one; rae.RAE.load reads it")
        try:
            model = cls(ExactConfig.from_dict(fields["config"]))
            model._fitted = _loaded(tensors, model.config)
        except (KeyError, TypeError, ValueError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise CheckpointError(f"{path} does not hold the model its header describes ({reason})") from None
        return model

    @property
    def _solution(self) -> Solution:
        if self._fitted is None:
            raise NotFittedError("this model has not been fitted; call fit(graph) or Exact.load(path) first")
        return self._fitted

    def __repr__(self) -> str:
        default = ExactConfig().as_dict()
        changed = {name: value for name, value in self.config.as_dict().items() if value != default[name]}
        return f"Exact({', '.join(f'{name}={value!r}' for name, value in changed.items())})"


def _check_graph(graph: Any) -> None:
    if not isinstance(graph, Graph):
        raise GraphError(f"expected a Graph, got {type(graph).__name__}; Graph.from_edges makes one from pairs")


def _loaded(tensors: Mapping[str, Tensor], config: ExactConfig) -> Solution:
    shapes = Solution.shapes(config)
    if set(tensors) != set(shapes):
        raise ValueError(f"expected the tensors {', '.join(shapes)}, got {', '.join(tensors) or 'none'}")
    for name, shape in shapes.items():
        if tuple(tensors[name].shape) != shape or tensors[name].dtype != torch.float64:
            raise ValueError(f"{name} is {tensors[name].dtype} of shape {tuple(tensors[name].shape)}, expected {shape}")
        if not torch.isfinite(tensors[name]).all():
            raise ValueError(f"{name} is not finite")
    if tensors["deviation"].min() < SMALLEST_DEVIATION:
        raise ValueError(f"a deviation below {SMALLEST_DEVIATION}")
    return Solution(**tensors)


# ----------------------------------------------------------------------------- statistics of a node's surroundings


def measure(graph: Graph) -> Tensor:
    """log1p of degree, triangles, core number and 4-cycles of every node.  -> (n, 4) float64"""
    functions = (measures.degrees, measures.triangles, measures.core_numbers, measures.four_cycles)
    return torch.log1p(torch.stack([torch.from_numpy(f(graph).astype(np.float64)) for f in functions], 1))


def units(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each measure, the latter at least 0.1.  (n, 4) -> (4,), (4,)"""
    variance, mean = torch.var_mean(x, 0, correction=0)
    return mean, torch.sqrt(variance).clamp(min=SMALLEST_DEVIATION)


def statistics(graph: Graph, own: Tensor, config: ExactConfig) -> Tensor:
    """[H0 | H1 | H2 | ...] of the measures in their units.  (n, 4) -> (n, p)

    H0 = weighted measures; H_k = decay [mean, deviation](H0 .. H_k-1) over neighbours, up to `moments`; after that
    decay^k times the k-th mean of H0.
    """
    weighted = own * torch.tensor(config.weights, dtype=torch.float64)
    all_levels, far = weighted, weighted
    for level in range(1, config.levels + 1):
        far = gather.neighbor_mean(far, graph.offsets, graph.targets)
        if level <= config.moments:
            new = config.decay * gather.moments(all_levels, graph.offsets, graph.targets)
        else:
            new = config.decay**level * far
        all_levels = torch.cat([all_levels, new], 1)
    return all_levels


def waves(graph: Graph, own: Tensor, frequencies: Tensor, phases: Tensor) -> Iterator[Tensor]:
    """cos and sin of random combinations of the measures; their means over neighbours, once and twice.

    (n, 4), (4, f), (f,) -> (n, 2 f) three times
    """
    angle = own @ frequencies + phases
    level = torch.cat([torch.cos(angle), torch.sin(angle)], 1)
    yield level
    for _ in range(2):
        level = gather.neighbor_mean(level, graph.offsets, graph.targets)
        yield level


def view(graph: Graph, config: ExactConfig, number: int) -> Graph:
    """The graph with a share of its edges dropped and as many random pairs added; the same for the same seed."""
    rng, n = generator(config.seed, "view", number), graph.n_nodes
    edges = graph.edges()
    kept = edges[rng.random(len(edges)) >= config.noise]
    added = rng.integers(n, size=(rng.binomial(len(edges), config.noise), 2))
    source, target = np.concatenate([kept, added]).T
    return Graph.from_scipy(sp.coo_array((np.ones(len(source), np.int8), (source, target)), shape=(n, n)))


# ----------------------------------------------------------------------------- fit and transform


def _solution(graph: Graph, config: ExactConfig) -> Solution:
    x = measure(graph)
    mean, deviation = units(x)
    own = (x - mean) / deviation
    phi = statistics(graph, own, config)
    center = phi.mean(0)
    total = _covariance(phi - center)
    within = _within(graph, phi, (mean, deviation), config)
    rng = generator(config.seed, "around")
    frequencies = torch.from_numpy(rng.normal(size=(len(MEASURES), config.frequencies)) * config.sigma)
    phases = torch.from_numpy(rng.random(config.frequencies) * 2 * np.pi)
    around_center, factor = _around_scale(waves(graph, own, frequencies, phases), config)
    directions = solve(total, within, config)
    return Solution(mean, deviation, center, directions, frequencies, phases, around_center, factor)


def _covariance(centered: Tensor) -> Tensor:
    return centered.T @ centered / len(centered)


def _within(graph: Graph, phi: Tensor, unit: tuple[Tensor, Tensor], config: ExactConfig) -> Tensor:
    """S_W: the mean covariance of a node's statistics over its views.  (n, p) -> (p, p)

    Views are taken relative to the statistics of the graph itself: the covariance is the same, and nothing cancels.
    """
    mean, deviation = unit
    sums, squares = torch.zeros_like(phi), phi.new_zeros((phi.shape[1], phi.shape[1]))
    for number in range(config.views):
        noisy = view(graph, config, number)
        change = statistics(noisy, (measure(noisy) - mean) / deviation, config) - phi
        sums += change
        squares += change.T @ change
    return (squares - sums.T @ sums / config.views) / (len(phi) * (config.views - 1))


def solve(total: Tensor, within: Tensor, config: ExactConfig) -> Tensor:
    """The map from statistics to `place`, of total variance 1; zero where nothing varies.  (p, p), (p, p) -> (p, 64)

    Directions w of S_T w = lambda (S_W + ridge I) w with variance lambda^power, rotated so that every column has an
    equal part of all of them: a reader that standardises columns does not undo the scaling.
    """
    lower = torch.linalg.cholesky(within + config.ridge * torch.eye(len(within), dtype=within.dtype))
    half = torch.linalg.solve_triangular(lower, total, upper=False)
    standard = torch.linalg.solve_triangular(lower, half.T, upper=False)
    values, vectors = torch.linalg.eigh((standard + standard.T) / 2)
    values, vectors = values.flip(0)[:PLACE].clamp(min=0), vectors.flip(1)[:, :PLACE]
    vectors = torch.linalg.solve_triangular(lower.T, vectors, upper=True)
    largest = vectors.gather(0, vectors.abs().argmax(0, keepdim=True))
    vectors = torch.where(largest < 0, -vectors, vectors)  # an eigenvector has no sign of its own
    varies = values > max(SMALLEST_SHARE * float(values[0]), SMALLEST_EIGENVALUE)
    scale = torch.where(varies, torch.where(varies, values, 1.0) ** ((config.power - 1) / 2), 0.0)
    size = torch.sqrt((values * scale**2).sum())
    return (vectors * scale / torch.where(size > 0, size, 1.0)) @ _rotation()[: len(values)]


def _rotation() -> Tensor:
    """An orthogonal matrix whose entries all have one size: Hadamard's, by Sylvester.  -> (64, 64)"""
    h = torch.ones((1, 1), dtype=torch.float64)
    while len(h) < PLACE:
        h = torch.cat([torch.cat([h, h], 1), torch.cat([h, -h], 1)])
    return h / math.sqrt(PLACE)


def _around_scale(levels: Iterator[Tensor], config: ExactConfig) -> tuple[Tensor, Tensor]:
    """The mean of the columns of `around`, and the factor that brings them to their scale.  -> (6 f,), ()"""
    centers, variance = [], 0.0
    for level in levels:
        spread, center = torch.var_mean(level, 0, correction=0)
        centers.append(center)
        variance += float(spread.sum())
    factor = config.around_scale / math.sqrt(variance) if variance > SMALLEST_EIGENVALUE else 0.0
    return torch.cat(centers), torch.tensor(factor, dtype=torch.float64)


def _vectors(graph: Graph, solution: Solution, config: ExactConfig) -> Floats:
    x = measure(graph)
    mean, deviation = units(x) if config.relative else (solution.mean, solution.deviation)
    own = (x - mean) / deviation
    out = np.empty((graph.n_nodes, PLACE + config.around_width), np.float32)
    phi = statistics(graph, own, config)
    for rows in _chunks(graph.n_nodes):
        out[rows, :PLACE] = (phi[rows] - solution.center) @ solution.directions
    del phi
    start, width = PLACE, 2 * config.frequencies
    centers = torch.split(solution.around_center, width)
    for level, stored in zip(waves(graph, own, solution.frequencies, solution.phases), centers, strict=True):
        center = level.mean(0) if config.relative else stored
        for rows in _chunks(graph.n_nodes):
            out[rows, start : start + width] = (level[rows] - center) * solution.around_factor
        start += width
    return out


def _chunks(n: int) -> Iterator[slice]:
    """Rows 0..n in pieces that stay in the cache."""
    return (slice(start, start + CHUNK) for start in range(0, n, CHUNK))
