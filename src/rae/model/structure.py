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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from rae.blocks import Block
from rae.config import MEASURES, ExactConfig
from rae.features import measures
from rae.graph import Graph
from rae.graph.builder import build_numbered
from rae.graph.channels import kinds_of, mirrored
from rae.graph.csr_writer import MemorySink
from rae.memory import forget, row_chunks
from rae.model.channels import channel_measures, n_averaged, n_measures, place_ways, weight_scales
from rae.ops import structure as structure_ops
from rae.ops.dense import row_product
from rae.ops.gather import moments
from rae.progress import Progress, counter, of_stage
from rae.runtime import generator, key, threads, torch_alone

Floats = np.ndarray[Any, np.dtype[np.float32]]
Unit = tuple[Tensor, Tensor]  # mean and deviation of each measure
Empty = Callable[[int, Any], Any]  # makes an array of so many numbers of a type

PLACE = 64  # columns of `place`
WAVE_LEVELS = 3  # of `around`: how far it looks, in edges
ROWS = 1 << 18  # of a graph that are read at a time
CHUNK_BYTES = 64 << 20  # of what is made of them
DRAWN = 1 << 22  # pairs at a time, where only those of some rows are kept
DRAWING_BYTES = 40  # per entry that is added to the rows of a view, while these are made
SAMPLE = 100_000  # nodes that the covariances are taken over, at most
SMALLEST_DEVIATION = 0.1  # of a measure: one that hardly varies is not blown up
SMALLEST_SHARE = 1e-9  # of the largest eigenvalue: directions below it are rounding
LARGEST = 1e30  # of any number that a model keeps
SMALLEST_EIGENVALUE = 1e-12  # below it the eigenvalues are rounding errors: all nodes are alike


@dataclass(frozen=True)
class Structure:
    """The fitted part for structure, all float64: p statistics, f frequencies."""

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
        """All tensors, by name."""
        return {field.name: value for field in fields(self) if (value := getattr(self, field.name)) is not None}

    @property
    def n_frequencies(self) -> int:
        """Random combinations of the measures in `around`."""
        return len(self.phases)

    @property
    def around_width(self) -> int:
        """Columns of `around`: cosine and sine, half of them near the node, all of them two and three edges away."""
        return 6 * self.n_frequencies

    def around_factor(self, config: ExactConfig, scale: float) -> float:
        """What cosines and sines are multiplied by in `around`."""
        return scale * config.around_scale / math.sqrt(3 * self.n_frequencies)

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
    columns: list[Any] = [f(graph) for f in functions]
    if graph.channels:
        columns += channel_measures(graph, scales_of(graph) if scales is None else scales)
    x = np.empty((len(columns[0]), len(columns)))
    for j, column in enumerate(columns):
        x[:, j] = column
    return torch.from_numpy(x).log1p_()


def scales_of(graph: Graph) -> Tensor | None:
    """The units of the weights of a graph, None where it has none."""
    return weight_scales(graph) if graph.weighted and graph.channels else None


def units(x: Tensor) -> Unit:
    """Mean and standard deviation of each measure, the latter at least 0.1.  (n, k) -> (k,), (k,)"""
    variance, mean = torch.var_mean(x, 0, correction=0)
    return mean, torch.sqrt(variance).clamp(min=SMALLEST_DEVIATION)


def in_units(x: Tensor, unit: Unit) -> Floats:
    """The measures in these units.  (n, k) -> (n, k)"""
    own: Floats = np.empty(x.shape, np.float32)
    for a, b in row_chunks(len(x), ROWS):
        own[a:b] = ((x[a:b] - unit[0]) / unit[1]).float().numpy()
    return own


def measured(graph: Graph, fitted: Structure, config: ExactConfig) -> tuple[Floats, Structure]:
    """What a fitted model reads of a graph, its measures, and the model as this graph is seen by it.  -> (n, k), model

    A relative model takes the units and the center of each graph, another one those of its fit. Both are computed once
    and cached in the graph, so that a second call costs no pass over it.
    """
    with torch_alone():
        edges = _edges_read(graph)
        if not config.relative:
            unit, scales = (fitted.mean, fitted.deviation), fitted.scales
            cache_key = edges + _bytes(unit if scales is None else (*unit, scales))
            return measures.cached(graph, "own", cache_key, lambda: in_units(measure(graph, scales), unit)), fitted
        unit = measures.cached(graph, "units", edges, lambda: units(measure(graph)))
        own: Floats = measures.cached(graph, "own", edges + _bytes(unit), lambda: in_units(measure(graph), unit))
        rows = sample_rows(graph.n_nodes, SAMPLE, config.seed)
        center = measures.cached(
            graph, "center", _read_by(graph, config), lambda: statistics(graph, own, config, rows).mean(0)
        )
    return own, replace(fitted, center=center)


def keep_units(graph: Graph, config: ExactConfig, unit: Unit, center: Tensor) -> None:
    """Cache units and center in a graph, for `measured`."""
    measures.cached(graph, "units", _edges_read(graph), lambda: unit)
    measures.cached(graph, "center", _read_by(graph, config), lambda: center)


def keep_own(graph: Graph, config: ExactConfig, unit: Unit, unit_of_weights: Tensor | None, own: Floats) -> None:
    """Cache measures in units in a graph, for `measured` with these settings."""
    absolute = not config.relative and unit_of_weights is not None
    cache_key = _bytes((*unit, unit_of_weights) if absolute else unit)  # type: ignore[arg-type]
    measures.cached(graph, "own", _edges_read(graph) + cache_key, lambda: own)


def _edges_read(graph: Graph) -> bytes:
    """A cache key of the values of edges that are read: a plain model reads the same graph otherwise."""
    return repr((tuple(graph.channels), graph.weighted)).encode()


def _read_by(graph: Graph, config: ExactConfig) -> bytes:
    """A cache key of everything that the statistics of a graph depend on."""
    settings = (config.measure_weights, config.level_weights, config.seed)
    return _edges_read(graph) + repr((*settings, config.channel_weight) if graph.channels else settings).encode()


def _bytes(unit: Sequence[Tensor]) -> bytes:
    return b"".join(tensor.numpy().tobytes() for tensor in unit)


# ----------------------------------------------------------------------------- statistics of a node's surroundings


def n_statistics(config: ExactConfig, channels: Sequence[str] = (), weighted: bool = False) -> int:
    """Columns of the statistics: own measures, moments of neighbours along every way, farther means."""
    k, averaged = n_measures(channels, weighted), n_averaged(channels, weighted)
    return k + averaged * len(moments_read(config, channels, weighted))


class Moments(NamedTuple):
    """Means, or deviations, of the averaged measures over what is so many edges away, and their weight."""

    level: int
    channels: tuple[str, ...]  # along which they are taken; () is all edges alike
    is_spread: bool
    weight: float


def moments_read(config: ExactConfig, channels: Sequence[str] = (), weighted: bool = False) -> list[Moments]:
    """What comes after the own measures among the statistics, in its order."""
    near, farther = config.level_weights[0], list(enumerate(config.level_weights[1:], 2))
    ways = [way.channels for way in place_ways(channels, weighted)]
    first = [Moments(1, along, is_spread, near) for along in ways for is_spread in (False, True)]
    return [*first, *(Moments(level, (), False, weight) for level, weight in farther)]


def weights_of_measures(config: ExactConfig, count: int) -> list[float]:
    """How much each of so many measures counts in `place`."""
    return [*config.measure_weights, *[config.channel_weight] * (count - len(MEASURES))]


def weighted_measures(own: Tensor, config: ExactConfig) -> Tensor:
    """The measures as `place` counts them.  (n, k) -> (n, k)"""
    return own * own.new_tensor(weights_of_measures(config, own.shape[1]))


def weighted_levels(levels: list[Tensor], config: ExactConfig) -> Tensor:
    """The statistics: own measures, then each level times its weight.  [(n, ...)] -> (n, p)"""
    own, *others = levels
    return torch.cat([own, *(h * weight for h, weight in zip(others, config.level_weights, strict=True))], 1)


def statistics(graph: Graph, own: Floats, config: ExactConfig, rows: Any) -> Tensor:
    """The statistics of some rows, ascending: own measures, moments of neighbours, farther means.  -> (r, p) float64

    Besides the measures of all nodes, one level of their means is in memory, and the next one that is computed from it.
    """
    width = n_averaged(tuple(graph.channels), graph.weighted)
    levels = [weighted_measures(torch.from_numpy(own[rows]), config)]
    below = weighted_measures(torch.from_numpy(own), config)[:, :width].contiguous()
    last = len(config.level_weights) - 1
    for k in range(last + 1):
        here, below = _level(graph, below, rows, is_first=k == 0, is_last=k == last)
        levels.append(here)
    return weighted_levels(levels, config).double()


def _level(graph: Graph, below: Tensor, rows: Any, *, is_first: bool, is_last: bool) -> tuple[Tensor, Tensor]:
    """A level of these rows, and the means of all nodes, which the next level averages; the last one makes no others.

    The first level has deviations too, over all edges alike and along each channel.
    """
    offsets, targets, width = graph.offsets, graph.targets, below.shape[1]
    spread = width if is_first else 0
    ways = place_ways(tuple(graph.channels), graph.weighted)[1:] if is_first else ()
    along = [graph.channels[way.channels[0]] for way in ways]
    level, means = [], below[:0] if is_last else torch.empty_like(below)
    for a, b in row_chunks(graph.n_nodes, ROWS):
        here = rows[np.searchsorted(rows, a) : np.searchsorted(rows, b)]
        if is_last:
            parts = [moments(below, offsets, targets, here, spread=spread)]
        else:
            part = moments(below, offsets[a : b + 1], targets, spread=spread)
            means[a:b] = part[:, :width]
            parts = [part[here - a]]
        parts += [moments(below, offsets, targets, here, spread=spread, weights=weights) for weights in along]
        level.append(torch.cat(parts, 1))
        forget(targets, *along)
    return torch.cat(level), means


def view(graph: Graph, config: ExactConfig, number: int, added: int | None = None, *, empty: Empty = np.empty) -> Graph:
    """The graph with a share of its edges dropped and as many random pairs added, or `added`; one seed, one view.

    A dropped edge takes its weights along, an added pair has those of a random edge, and its direction and kind.
    `empty` makes the arrays of its edges.
    """
    rng, n = generator(config.seed, "view", number), graph.n_nodes
    count = int(rng.binomial(graph.n_edges, config.noise)) if added is None else added
    ends = rng.integers(n, size=(2, count), dtype=graph.targets.dtype)
    rows, channels = _view_rows(graph, config, number, ends, empty)
    noisy = Graph(*rows, graph.id_column, channels=channels, weighted=graph.weighted)
    noisy.measures["estimated"] = measures.is_estimated(graph)  # counted where the graph itself is
    return noisy


def rows_of_view(graph: Graph, config: ExactConfig, number: int, a: int, b: int) -> tuple[Any, Any, list[Any]]:
    """Rows a..b of a view: their lengths, their entries, and the weights of these in each channel.

    All pairs are drawn, some at a time, and those with an end in these rows are kept.
    """
    first, second = (generator(config.seed, "view", number) for _ in range(2))
    count = int(first.binomial(graph.n_edges, config.noise))
    second.binomial(graph.n_edges, config.noise)
    n, kind = graph.n_nodes, graph.targets.dtype
    for low, high in row_chunks(count, DRAWN):  # the first ends are drawn before the second ones
        second.integers(n, size=high - low, dtype=kind)
    parts_of_rows = [np.empty((2, 0), kind)]
    for low, high in row_chunks(count, DRAWN):
        ends = np.stack([stream.integers(n, size=high - low, dtype=kind) for stream in (first, second)])
        parts_of_rows.append(ends[:, ((ends >= a) & (ends < b)).any(0)])
    ends = np.concatenate(parts_of_rows, 1)
    rows, channels = _view_rows(graph, config, number, ends, np.empty, (a, b))
    return np.diff(rows[0][a : b + 1]), rows[1], list(channels.values())


def _view_rows(
    graph: Graph, config: ExactConfig, number: int, ends: Any, empty: Empty, some: tuple[int, int] | None = None
) -> tuple[tuple[Any, Any], dict[str, Any]]:
    """Offsets and targets of a view to which these pairs are added, or of some of its rows; and its channels."""
    sink = MemorySink()
    pairs = build_numbered(ends[0], ends[1], graph.id_column, sink).offsets, sink.targets
    salt = key(config.seed, "view", number, "dropped")
    arguments = graph.offsets, graph.targets, pairs, salt, config.noise
    rows = structure_ops.view(*arguments, empty=empty, rows=some)
    channels = {
        name: structure_ops.view_weights(arguments, rows, array, graph.channels[mirrored(name)], empty=empty, of=some)
        for name, array in graph.channels.items()
    }
    return rows, channels


def waves(own: Tensor, frequencies: Tensor, phases: Tensor) -> Tensor:
    """cos and sin of random combinations of the measures.  (n, k), (k, f), (f,) -> (n, 2 f)"""
    angle = row_product(own, frequencies) + phases
    return torch.cat([torch.cos(angle), torch.sin(angle)], 1)


# ----------------------------------------------------------------------------- the fit


class Versions(Protocol):
    """A graph and its noisy copies, for a fit."""

    def units(self) -> tuple[Unit, Tensor | None]:
        """The units of the measures of the graph, and those of its weights, None where it has none."""

    def statistics(self, number: int | None) -> Tensor:
        """The statistics of the sample of a fit, in these units: in the graph, None, or in one of its views.  (r, p)"""


@dataclass
class VersionsHere:
    """Versions of a graph that are made in this process; `empty` makes the arrays of the edges of its views."""

    graph: Graph
    config: ExactConfig
    empty: Empty = np.empty
    _unit: Unit | None = None
    _scales: Tensor | None = None
    _measured: Tensor | None = None  # the measures of the graph, until their statistics are taken

    def units(self) -> tuple[Unit, Tensor | None]:
        self._scales = scales_of(self.graph)
        self._measured = measure(self.graph, self._scales)
        self._unit = units(self._measured)
        return self._unit, self._scales

    def statistics(self, number: int | None) -> Tensor:
        assert self._unit is not None
        graph, rows = self.graph, sample_rows(self.graph.n_nodes, SAMPLE, self.config.seed)
        if number is not None:
            graph = view(graph, self.config, number, empty=self.empty)
        x = measure(graph, self._scales) if self._measured is None else self._measured
        own, self._measured = in_units(x, self._unit), None
        del x
        return statistics(graph, own, self.config, rows)


def fit_structure(
    graph: Graph,
    config: ExactConfig,
    progress: Progress | None = None,
    *,
    beside_features: bool = False,
    versions: Versions | None = None,
) -> Structure:
    """The solution of the eigenproblem of this graph; `versions` are made here by default."""
    advance = counter(of_stage(progress, "fit"), config.n_views(graph.n_nodes) + 1)
    versions = versions or VersionsHere(graph, config)
    with torch_alone():
        unit, scales = versions.units()
        phi = versions.statistics(None)
        center = phi.mean(0)
        keep_units(graph, config, unit, center)  # for embedding this graph
        advance()
        within = WithinSums()
        for number in range(config.n_views(graph.n_nodes)):
            within.add(versions.statistics(number) - phi)
            advance()
        directions = solve(squares(phi, center) / len(phi), within.mean(), config)
        rng = generator(config.seed, "around")
        count = config.n_frequencies(graph.n_nodes, beside_features=beside_features)
        averaged = n_averaged(tuple(graph.channels), graph.weighted)
        frequencies = torch.from_numpy(rng.normal(size=(averaged, count)) * np.resize(config.sigmas, count))
        phases = torch.from_numpy(rng.random(count) * 2 * np.pi)
        return Structure(*unit, center, directions, frequencies, phases, scales)


def fit_bytes(graph: Graph, config: ExactConfig, *, views_in_memory: bool = True) -> int:
    """Memory that `fit_structure` takes at most, besides the graph."""
    n, itemsize = graph.n_nodes, graph.targets.dtype.itemsize
    drawn = round(config.noise * len(graph.targets))  # entries that are added to the rows of a view
    entries = len(graph.targets) * (itemsize + 4 * len(graph.channels)) if views_in_memory else 0
    view = 16 * n + entries + itemsize * drawn
    return max(measures.CACHED_BYTES * n + view + measuring_bytes(graph, config), DRAWING_BYTES * drawn)


def measuring_bytes(graph: Graph, config: ExactConfig) -> int:
    """Memory that the measures and statistics of a graph take at most, besides the graph."""
    n, channels, weighted = graph.n_nodes, tuple(graph.channels), graph.weighted
    measured, width = n_measures(channels, weighted), n_averaged(channels, weighted)
    averaging = (12 * measured + 12 * width + 16 * len(channels)) * n + CHUNK_BYTES
    sampled = 8 * 5 * n_statistics(config, channels, weighted) * min(n, SAMPLE)
    return measures.CACHED_BYTES * n + sampled + max(counting_bytes(graph), averaging)


def counting_bytes(graph: Graph) -> int:
    """Memory that counting cycles takes: a copy of the graph that is ordered by degree, and counts of every thread.

    With several threads core numbers are found at the same time.
    """
    n, itemsize = graph.n_nodes, graph.targets.dtype.itemsize
    shared = 16 if threads() > 1 else 0
    return graph.targets.nbytes + (32 + shared + (16 + 2 * itemsize) * threads()) * n


def sample_rows(n: int, most: int, seed: int) -> Any:
    """The rows that statistics are taken over: all, or a random sample in ascending order."""
    return np.arange(n) if n <= most else np.sort(generator(seed, "sample").choice(n, most, replace=False))


def squares(phi: Tensor, center: Tensor) -> Tensor:
    """The sum of the squares of these rows about a center, for S_T: those of parts of the nodes add up.

    (r, p), (p,) -> (p, p)
    """
    away = phi - center
    return away.T @ away


@dataclass
class WithinSums:
    """The sums of S_W over some rows: of each view how the statistics of the rows change, relative to the graph itself.

    The covariance over views is the same as that of the statistics, and nothing cancels. The sums of parts of the nodes
    add up, once each part has added all views.
    """

    views: int = 0
    changes: Tensor | None = None  # (r, p) added up over views
    squares: Tensor | None = None  # (p, p)

    def add(self, change: Tensor) -> None:
        """Add a view: the statistics of the rows in it, less those in the graph.  (r, p)"""
        square = change.T @ change
        self.changes = change if self.changes is None else self.changes.add_(change)
        self.squares = square if self.squares is None else self.squares.add_(square)
        self.views += 1

    def sums(self) -> Tensor:
        """The squares of the changes about their mean over the views.  -> (p, p)"""
        assert self.changes is not None
        assert self.squares is not None
        return self.squares - self.changes.T @ self.changes / self.views

    def mean(self) -> Tensor:
        """S_W over these rows: the mean covariance of a node's statistics over its views.  -> (p, p)"""
        assert self.changes is not None
        return self.sums() / (len(self.changes) * (self.views - 1))


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
    variances = torch.zeros(PLACE, dtype=torch.float64)
    variances[: len(values)] = values * scale**2
    size = torch.sqrt(variances.sum())
    return (vectors * scale / torch.where(size > 0, size, 1.0)) @ equal_variances(variances.diag())[: len(values)]


def signed(vectors: Tensor) -> Tensor:
    """Each column with the sign that makes its largest entry positive: an eigenvector has no sign of its own."""
    largest = vectors.gather(0, vectors.abs().argmax(0, keepdim=True))
    return torch.where(largest < 0, -vectors, vectors)


def equal_variances(covariance: Tensor) -> Tensor:
    """An orthogonal matrix that gives every column the same variance.  (w, w) -> (w, w)

    Distances stay as they are, and a reader that standardises columns does not undo the scale of directions. Each step
    rotates the column of the largest variance towards that of the smallest, until the first has the mean.
    """
    c, turned = covariance.double().numpy().copy(), np.eye(len(covariance))
    mean, left = np.trace(c) / len(c), np.ones(len(c), bool)
    for _ in range(len(c) - 1):
        variances = np.diag(c)
        i, j = np.where(left, variances, -np.inf).argmax(), np.where(left, variances, np.inf).argmin()
        more, less, both = c[i, i] - mean, c[j, j] - mean, c[i, j]
        if more <= SMALLEST_SHARE * mean or less >= 0:  # equal already
            break
        tangent = (np.sqrt(both**2 - more * less) - both) / less
        cosine = 1 / np.sqrt(1 + tangent**2)
        rotation = cosine * np.array([[1, -tangent], [tangent, 1]])
        c[:, [i, j]] = c[:, [i, j]] @ rotation
        c[[i, j]] = rotation.T @ c[[i, j]]
        turned[:, [i, j]] = turned[:, [i, j]] @ rotation
        left[i] = False
    return torch.from_numpy(turned)


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
