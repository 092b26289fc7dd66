"""J_within solved exactly for structure: two views of a node close, different nodes far apart, no training loop.

For a linear map of fixed statistics of a node's surroundings the objective is an eigenproblem:

1. measures   log1p of degree, triangles, core number and 4-cycles, each in units of the graph
2. statistics mean and standard deviation over neighbours, then means of farther neighbours
3. views      the graph with some edges dropped and as many random pairs added, in the units of the original
4. solution   S_T w = lambda (S_W + ridge I) w, with S_T the covariance over nodes and S_W that over views of a node

The vectors are two blocks: `place`, these directions, for distances and clusters; and `around`, the distribution of
the measures on a node and around it, for readers that learn weights.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from rae.blocks import Block
from rae.config import MEASURES, ExactConfig
from rae.features import measures
from rae.graph import Graph
from rae.graph.channels import kinds_of, mirrored
from rae.model.channels import channel_measures, n_averaged, n_measures, place_ways, weight_scales
from rae.ops import structure as structure_ops
from rae.ops.dense import row_product
from rae.ops.gather import moments
from rae.progress import Progress
from rae.runtime import generator, key, torch_alone

Floats = np.ndarray[Any, np.dtype[np.float32]]

PLACE = 64  # columns of `place`, a power of two
WAVE_LEVELS = 3  # of `around`: how far it looks, in edges
SAMPLE = 100_000  # nodes that the covariances are taken over, at most
SMALLEST_DEVIATION = 0.1  # of a measure: one that hardly varies is not blown up
SMALLEST_SHARE = 1e-9  # of the largest eigenvalue: directions below it are rounding
LARGEST = 1e30  # of any number that a model keeps
SMALLEST_EIGENVALUE = 1e-12  # where all nodes are alike, everything is rounding


@dataclass(frozen=True)
class Structure:
    """What a fit keeps, all float64: p statistics, f frequencies."""

    mean: Tensor  # (k,) of the measures: 4, and more where edges have weights, directions or kinds
    deviation: Tensor  # (k,)
    center: Tensor  # (p,) mean of the statistics
    directions: Tensor  # (p, 64) statistics -> place
    frequencies: Tensor  # (averaged measures, f)
    phases: Tensor  # (f,)
    scales: Tensor | None = None  # (kinds or 1,) the unit of weights, where the graph of the fit has any

    @classmethod
    def blank(
        cls,
        config: ExactConfig,
        frequencies: int,
        device: str = "cpu",
        channels: tuple[str, ...] = (),
        weighted: bool = False,
    ) -> Structure:
        """Zeros of the shapes that these settings ask for; on the device "meta" they take no memory."""
        k, p, f = n_measures(channels, weighted), n_statistics(config, channels, weighted), frequencies
        shapes: list[tuple[int, ...]] = [(k,), (k,), (p,), (p, PLACE), (n_averaged(channels, weighted), f), (f,)]
        if weighted:
            shapes.append((len(kinds_of(channels)) or 1,))
        return cls(*(torch.zeros(shape, dtype=torch.float64, device=device) for shape in shapes))

    def tensors(self) -> dict[str, Tensor]:
        """Everything that is kept, by name."""
        return {field.name: value for field in fields(self) if (value := getattr(self, field.name)) is not None}

    @property
    def n_frequencies(self) -> int:
        """Random combinations of the measures in `around`."""
        return len(self.phases)

    @property
    def around_width(self) -> int:
        """Columns of `around`: cosine and sine, half of them near the node, all of them two and three edges away."""
        return 6 * self.n_frequencies

    @property
    def is_collapsed(self) -> bool:
        """Whether all nodes of the fitted graph look alike, so that `place` is zero everywhere."""
        return not bool(self.directions.any())


def place_block(scale: float = 1.0) -> Block:
    """`place`, whose deviation over the graph of the fit is its scale, and which counts by it."""
    return Block("place", 0, PLACE, scale**2, scale, "structural position, for distances and clusters")


def around_block(fitted: Structure) -> Block:
    """`around`, which counts in no distance unless it is asked to."""
    return Block("around", 0, fitted.around_width, None, 0.0, "degrees and groups around, for readers that learn")


# ----------------------------------------------------------------------------- measures in units


def measure(graph: Graph, scales: Tensor | None = None) -> Tensor:
    """log1p of degree, triangles, core number and 4-cycles of every node.  -> (n, 4) float64

    Of a graph with channels then those of `rae.model.channels`, weights in these units, or in those of the graph.
    """
    functions = (measures.degrees, measures.triangles, measures.core_numbers, measures.four_cycles)
    columns = [torch.from_numpy(f(graph).astype(np.float64)) for f in functions]
    if graph.channels:
        columns += channel_measures(graph, scales_of(graph) if scales is None else scales)
    return torch.log1p(torch.stack(columns, 1))


def scales_of(graph: Graph) -> Tensor | None:
    """The units of the weights of a graph, None where it has none."""
    return weight_scales(graph) if graph.weighted and graph.channels else None


def units(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each measure, the latter at least 0.1.  (n, k) -> (k,), (k,)"""
    variance, mean = torch.var_mean(x, 0, correction=0)
    return mean, torch.sqrt(variance).clamp(min=SMALLEST_DEVIATION)


def in_units(x: Tensor, unit: tuple[Tensor, Tensor]) -> Floats:
    """The measures in these units.  (n, k) -> (n, k)"""
    own: Floats = ((x - unit[0]) / unit[1]).float().numpy()
    return own


def measured(graph: Graph, fitted: Structure, config: ExactConfig) -> tuple[Floats, Structure]:
    """What a fitted model reads of a graph, its measures, and the model as this graph is seen by it.  -> (n, k), model

    A relative model takes the units and the center of each graph, another one those of its fit. Both are computed once
    per graph and kept with it: what is asked next of the same graph costs no pass over it.
    """
    with torch_alone():
        edges = repr((tuple(graph.channels), graph.weighted)).encode()  # a plain model reads the same graph otherwise
        if not config.relative:
            unit, scales = (fitted.mean, fitted.deviation), fitted.scales
            known_by = edges + _bytes(unit if scales is None else (*unit, scales))
            return measures.kept(graph, "own", known_by, lambda: in_units(measure(graph, scales), unit)), fitted
        unit = measures.kept(graph, "units", edges, lambda: units(measure(graph)))
        own: Floats = measures.kept(graph, "own", edges + _bytes(unit), lambda: in_units(measure(graph), unit))
        rows = sample_rows(graph.n_nodes, SAMPLE, config.seed)
        settings = (config.measure_weights, config.level_weights, config.seed)
        read = edges + repr((*settings, config.channel_weight) if graph.channels else settings).encode()
        center = measures.kept(graph, "center", read, lambda: statistics(graph, own, config, rows).mean(0))
    return own, replace(fitted, center=center)


def _bytes(unit: Sequence[Tensor]) -> bytes:
    return b"".join(tensor.numpy().tobytes() for tensor in unit)


# ----------------------------------------------------------------------------- statistics of a node's surroundings


def n_statistics(config: ExactConfig, channels: Sequence[str] = (), weighted: bool = False) -> int:
    """Columns of the statistics: own measures, moments of neighbours along every way, farther means."""
    k, averaged = n_measures(channels, weighted), n_averaged(channels, weighted)
    return k + averaged * (2 * len(place_ways(channels, weighted)) + len(config.level_weights) - 1)


def weighted_measures(own: Tensor, config: ExactConfig) -> Tensor:
    """The measures as `place` counts them.  (n, k) -> (n, k)"""
    more = own.shape[1] - len(MEASURES)
    return own * own.new_tensor([*config.measure_weights, *[config.channel_weight] * more])


def weighted_levels(levels: list[Tensor], config: ExactConfig) -> Tensor:
    """The statistics: own measures, then each level times its weight.  [(n, ...)] -> (n, p)"""
    own, *others = levels
    return torch.cat([own, *(h * weight for h, weight in zip(others, config.level_weights, strict=True))], 1)


def statistics(graph: Graph, own: Floats, config: ExactConfig, rows: Any) -> Tensor:
    """The statistics of some rows: own measures, mean and deviation of neighbours, farther means.  -> (r, p) float64"""
    at, to, channels = graph.offsets, graph.targets, tuple(graph.channels)
    width = n_averaged(channels, graph.weighted)
    counted = weighted_measures(torch.from_numpy(own), config)
    levels, below = [counted[rows]], counted[:, :width].contiguous()
    for k in range(len(config.level_weights)):
        here = moments(below, at, to, spread=0 if k else width)
        level = [here[rows]]
        for way in () if k else place_ways(channels, graph.weighted)[1:]:
            level.append(moments(below, at, to, rows, spread=width, weights=graph.channels[way.channels[0]]))
        levels.append(torch.cat(level, 1))
        below = here[:, :width].contiguous()
    return weighted_levels(levels, config).double()


def view(graph: Graph, config: ExactConfig, number: int) -> Graph:
    """The graph with a share of its edges dropped and as many random pairs added; the same for the same seed.

    A dropped edge takes its weights along, an added pair has those of a random edge, and its direction and kind.
    """
    rng, n = generator(config.seed, "view", number), graph.n_nodes
    count = int(rng.binomial(graph.n_edges, config.noise))
    ends = rng.integers(n, size=(2, count), dtype=graph.targets.dtype)
    ids = pa.array(np.arange(n))
    added = Graph.from_edges((ends[0], ends[1]), ids=ids)
    salt = key(config.seed, "view", number, "dropped")
    arguments = graph.offsets, graph.targets, (added.offsets, added.targets), salt, config.noise
    rows = structure_ops.view(*arguments)
    channels = {
        name: structure_ops.view_weights(arguments, rows, array, graph.channels[mirrored(name)])
        for name, array in graph.channels.items()
    }
    noisy = Graph(*rows, ids, channels=channels, weighted=graph.weighted)
    measures.estimate_as(noisy, graph)
    return noisy


def waves(own: Tensor, frequencies: Tensor, phases: Tensor) -> Tensor:
    """cos and sin of random combinations of the measures.  (n, k), (k, f), (f,) -> (n, 2 f)"""
    angle = row_product(own, frequencies) + phases
    return torch.cat([torch.cos(angle), torch.sin(angle)], 1)


# ----------------------------------------------------------------------------- the fit


def fit_structure(graph: Graph, config: ExactConfig, progress: Progress | None = None) -> Structure:
    """The solution of the eigenproblem of this graph."""
    done = _counter(progress, config.n_views(graph.n_nodes) + 1)
    with torch_alone():
        scales = scales_of(graph)
        x = measure(graph, scales)
        unit = units(x)
        rows = sample_rows(graph.n_nodes, SAMPLE, config.seed)
        phi = statistics(graph, in_units(x, unit), config, rows)
        done()
        within = _within(graph, phi, unit, config, rows, done, scales)
        center = phi.mean(0)
        total = (phi - center).T @ (phi - center) / len(phi)
        rng = generator(config.seed, "around")
        count = config.n_frequencies(graph.n_nodes)
        averaged = n_averaged(tuple(graph.channels), graph.weighted)
        frequencies = torch.from_numpy(rng.normal(size=(averaged, count)) * np.resize(config.sigmas, count))
        phases = torch.from_numpy(rng.random(count) * 2 * np.pi)
        return Structure(*unit, center, solve(total, within, config), frequencies, phases, scales)


def _counter(progress: Progress | None, total: int) -> Any:
    count = 0

    def done() -> None:
        nonlocal count
        count += 1
        if progress is not None:
            progress("fit", count, total, {})

    return done


def sample_rows(n: int, most: int, seed: int) -> Any:
    """The rows that statistics are taken over: all, or a random sample in ascending order."""
    return np.arange(n) if n <= most else np.sort(generator(seed, "sample").choice(n, most, replace=False))


def _within(
    graph: Graph,
    phi: Tensor,
    unit: tuple[Tensor, Tensor],
    config: ExactConfig,
    rows: Any,
    done: Any,
    scales: Tensor | None = None,
) -> Tensor:
    """S_W: the mean covariance of a node's statistics over its views.  (r, p) -> (p, p)

    Views are taken relative to the statistics of the graph itself: the covariance is the same, and nothing cancels.
    """
    views = config.n_views(graph.n_nodes)
    sums, squares = torch.zeros_like(phi), phi.new_zeros((phi.shape[1], phi.shape[1]))
    for number in range(views):
        noisy = view(graph, config, number)
        change = statistics(noisy, in_units(measure(noisy, scales), unit), config, rows) - phi
        sums += change
        squares += change.T @ change
        done()
    return (squares - sums.T @ sums / views) / (len(phi) * (views - 1))


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
    vectors = signed(vectors)
    varies = values > max(SMALLEST_SHARE * float(values[0]), SMALLEST_EIGENVALUE)
    scale = torch.where(varies, torch.where(varies, values, 1.0) ** ((config.power - 1) / 2), 0.0)
    size = torch.sqrt((values * scale**2).sum())
    return (vectors * scale / torch.where(size > 0, size, 1.0)) @ _rotation()[: len(values)]


def signed(vectors: Tensor) -> Tensor:
    """Each column with the sign that makes its largest entry positive: an eigenvector has no sign of its own."""
    largest = vectors.gather(0, vectors.abs().argmax(0, keepdim=True))
    return torch.where(largest < 0, -vectors, vectors)


def _rotation() -> Tensor:
    """An orthogonal matrix whose entries all have one size: Hadamard's, by Sylvester.  -> (64, 64)"""
    h = torch.ones((1, 1), dtype=torch.float64)
    while len(h) < PLACE:
        h = torch.cat([torch.cat([h, h], 1), torch.cat([h, -h], 1)])
    return h / math.sqrt(PLACE)


def loaded_structure(
    tensors: Mapping[str, Tensor], config: ExactConfig, channels: tuple[str, ...] = (), weighted: bool = False
) -> Structure:
    """The solution in these tensors; ValueError where they are not what the settings describe."""
    frequencies = config.frequencies or tensors.get("phases", torch.empty(0)).numel()
    if frequencies % 2:
        raise ValueError(f"{frequencies} frequencies, expected an even number")
    check_tensors(tensors, Structure.blank(config, frequencies, "meta", channels, weighted).tensors())
    if weighted and tensors["scales"].min() <= 0:
        raise ValueError("a unit of weights that is not above 0")
    if tensors["deviation"].min() < SMALLEST_DEVIATION:
        raise ValueError(f"a deviation below {SMALLEST_DEVIATION}")
    return Structure(**tensors)


def check_tensors(tensors: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    """ValueError for tensors that are missing, superfluous, of another shape or type, or not finite."""
    for what, names in (("missing", set(expected) - set(tensors)), ("unknown", set(tensors) - set(expected))):
        if names:
            raise ValueError(f"{len(names)} tensors are {what}, first {min(names)!r}")
    for name, like in expected.items():
        got = tensors[name]
        if got.shape != like.shape or got.dtype != like.dtype:
            raise ValueError(f"{name} is {got.dtype} of shape {tuple(got.shape)}, expected {tuple(like.shape)}")
        if not bool((got.abs() <= LARGEST).all()):
            raise ValueError(f"{name} is not finite, or too large")
