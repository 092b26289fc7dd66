"""Actions in closed form: what a node does, what its neighbours do, and theirs, each block by axes of its own.

1. rows      words (sparse features): rare columns count more (square root of idf), long rows less (square root of the
             length). Columns of a table (dense ones, and categories): each in units of its deviation, the values of a
             category together
2. axes      features -> at most AXES directions, the same for every hop; and directions of the own features
3. hops      h_1 .. h_4: means over neighbours, without the node itself, of those directions; repeated
4. blocks    own; near = h_1; mid = h_2; far = the weighted mean of all hops. Each by its w principal axes, the variance
             of axis j less that of the first one left out, lambda_j - lambda_(w+1): what is noise counts little
5. rotation  inside a block, until every column has the same variance: a reader that standardises columns does not
             undo the spectrum
6. lengths   of words, each node's part of a block is scaled to one length: words say what, not how much;
             in the end every block is centred and has a total variance of 1

The fitted model is a map of a row, so it embeds nodes and graphs that it never saw, and the fit is a few passes
over features and edges: no training loop. The axes come from a sample of nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import reduce
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from rae.blocks import Block
from rae.config import ExactConfig
from rae.features import Features, csr_rows, is_sparse
from rae.features.columns import category_of
from rae.graph import Graph
from rae.memory import row_chunks
from rae.model.channels import mixed_channels, sum_of_channels
from rae.model.sampling import sample_neighbors
from rae.model.structure import check_tensors, equal_variances, sample_rows, signed
from rae.ops.dense import row_product
from rae.ops.gather import moments, sparse_product
from rae.progress import Progress
from rae.runtime import generator, key, torch_alone

Doubles = np.ndarray[Any, np.dtype[np.float64]]
Groups = Sequence[tuple[str, ...]]  # of channels: features are averaged along each

AXES = 256  # directions of the features that are averaged over neighbours, at most
HOPS = 4
RESTART = 0.1  # share of each step of a walk that goes back to its start: how fast `far` forgets
SAMPLE = 10_000  # nodes that axes are taken from, at most
CHUNK, CHUNK_NUMBERS = 65_536, 1 << 22  # rows at a time, and numbers
OVERSAMPLED, ITERATIONS = 16, 4  # further directions, and steps of an iteration that finds the leading ones
FANOUT = 25  # neighbours that the shared axes are taken from, at most
HOP_BYTES = 1 << 29  # of directions that are averaged at a time in a fit
SMALLEST_VARIANCE = 1e-12  # of a block: below it everything is rounding
SMALLEST_SHARE = 1e-6  # of its mean that the deviation of a column must be
BLOCKS = {
    "own": "what the node does",
    "near": "what its neighbours do",
    "mid": "what their neighbours do",
    "far": "what is done around, up to four edges away",
}


@dataclass(frozen=True)
class Actions:
    """The fitted part for features: m feature columns, a directions, blocks of w columns."""

    words: bool  # whether the features are words, or columns of a table
    shift: Tensor  # (m,) float64: mean of the columns of a table; zero for words
    scale: Tensor  # (m,) float64: 1 / deviation of the columns of a table; square root of idf of words
    own_axes: Tensor  # (m, w) float32
    own_center: Tensor  # (w,) float32
    axes: Tensor  # (m, a) float32
    near_center: Tensor  # (a,) float64, as all below; where features are averaged along g groups of channels, (g a,)
    near_map: Tensor  # (a, w)
    mid_center: Tensor  # (a,)
    mid_map: Tensor  # (a, w)
    far_center: Tensor  # (a,)
    far_map: Tensor  # (a, w)
    unit_centers: Tensor  # (4, w) means of the blocks after their rows were scaled to one length; of words
    unit_scales: Tensor  # (4,) what brings those to a variance of 1

    @classmethod
    def blank(
        cls, shift: Tensor, scale: Tensor, words: bool, width: int = 0, n_axes: int = 0, groups: int = 1
    ) -> Actions:
        """Scales of columns without axes yet, or with axes of zero."""
        m, a, double = len(scale), groups * n_axes, torch.float64
        maps = [(torch.zeros(a, dtype=double), torch.zeros((a, width), dtype=double)) for _ in range(3)]
        own, units = (torch.zeros((m, width)), torch.zeros(width)), torch.zeros((len(BLOCKS), width), dtype=double)
        axes, factors = torch.zeros((m, n_axes)), units.new_zeros(len(BLOCKS))
        return cls(words, shift, scale, *own, axes, *maps[0], *maps[1], *maps[2], units, factors)

    @property
    def width(self) -> int:
        """Columns of a block."""
        return int(self.own_axes.shape[1])

    def blocks(self) -> list[Block]:
        """The four blocks, each of total variance 1 over the graph of the fit."""
        return [Block(name, 0, self.width, 1.0, 1.0, about) for name, about in BLOCKS.items()]

    @property
    def is_collapsed(self) -> bool:
        """Whether no feature column varies, so that all blocks are zero everywhere."""
        return not (bool(self.own_axes.any()) or bool(self.near_map.any()))

    def prepared(self, x: Any) -> Any:
        """Rows of features as the axes read them: a CSR of float32, or a tensor; sparse columns are not centred yet."""
        if not is_sparse(x):
            if not self.words:
                dense = x if isinstance(x, Tensor) else torch.from_numpy(np.array(x, np.float32)).to(self.scale.device)
                return ((dense.double() - self.shift) * self.scale).float()
            x = sp.csr_array(x.cpu().numpy() if isinstance(x, Tensor) else x)
        scaled = x.data * self.scale.cpu().numpy()[x.indices].astype(np.float32)
        if self.words:
            scaled = scaled / np.repeat(_root_lengths(scaled, x.indptr), np.diff(x.indptr))
        return sp.csr_array((scaled, x.indices, x.indptr), shape=x.shape)

    def project(self, x: Any, weight: Tensor) -> Tensor:
        """Rows of features, prepared and centred, times weights; sparse ones stay sparse.  (n, m), (m, d) -> (n, d)"""
        rows = self.prepared(x)
        if isinstance(rows, Tensor):
            return row_product(rows, weight)
        out = sparse_product(rows, weight)
        return out if self.words else out - (self.shift * self.scale).float() @ weight

    def tensors(self) -> dict[str, Tensor]:
        """All tensors, by name."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "words"}

    @classmethod
    def rebuilt(cls, tensors: Mapping[str, Tensor], words: bool, groups: int = 1) -> Actions:
        """What `tensors` gave; ValueError where shapes or types do not match each other, or numbers are not finite."""
        shapes = [tensors[name].shape for name in ("scale", "axes", "own_axes")]
        if [len(shape) for shape in shapes] != [1, 2, 2]:
            raise ValueError("its axes are no matrices")
        (m,), (_, a), (_, w) = shapes
        with torch.device("meta"):  # takes no memory for what the shapes claim
            zeros = torch.zeros(m, dtype=torch.float64)
            expected = cls.blank(zeros, zeros, words, w, a, groups).tensors()
        check_tensors(tensors, expected)
        return cls(words, **tensors)


def far_weights() -> list[float]:
    """The weight of each hop in `far`: a walk that goes back to its start after each step with chance RESTART.

    >>> [round(weight, 3) for weight in far_weights()]
    [0.1, 0.09, 0.081, 0.729]
    """
    stop = [RESTART * (1 - RESTART) ** k for k in range(HOPS - 1)]
    return [*stop, 1 - sum(stop)]


def _root_lengths(values: Any, indptr: Any) -> Any:
    """The square root of the length of each row of a CSR.  -> (n,) float32"""
    counts = np.diff(indptr)
    squares = np.bincount(np.repeat(np.arange(len(counts)), counts), values.astype(np.float64) ** 2, len(counts))
    return (np.maximum(squares, 1e-24) ** 0.25).astype(np.float32)


def product(rows: Any, weight: Tensor) -> Tensor:
    """Prepared rows times weights.  (n, m), (m, d) -> (n, d)"""
    return rows @ weight if isinstance(rows, Tensor) else sparse_product(rows, weight)


# ----------------------------------------------------------------------------- the fit


class Passes(Protocol):
    """Passes over all nodes, for a fit."""

    def sums(self, kind: str, mean: Any = None) -> Doubles:
        """`sums_of_rows` of all chunks, added up in order."""

    def hops(self, blank: Actions, axes: Tensor, groups: Groups) -> list[Tensor]:
        """Directions of the features, averaged over neighbours once, twice, ...: of the sample.  -> (r, groups a) each

        `blank` has the scales of columns. With several groups of channels, averages are along each, side by side.
        """


@dataclass(frozen=True)
class PassesHere:
    """Passes over all nodes in this process."""

    x: Features
    config: ExactConfig
    progress: Progress | None = None

    def sums(self, kind: str, mean: Any = None) -> Doubles:
        chunks = (sums_of_rows(self.x, kind, a, b, mean) for a, b in chunks_to_sum(self.x, kind))
        return reduce(np.add, chunks)

    def hops(self, blank: Actions, axes: Tensor, groups: Groups) -> list[Tensor]:
        return sampled_hops(self.x, blank, axes, sample_of(self.x.graph, self.config), self.progress, groups)


def sample_of(graph: Graph, config: ExactConfig) -> Any:
    """The nodes that axes are taken from."""
    return sample_rows(graph.n_nodes, SAMPLE, config.seed)


def fit_actions(
    x: Features, config: ExactConfig, progress: Progress | None = None, *, passes: Passes | None = None
) -> Actions:
    """The axes of the features of a graph, and of their means around its nodes; `passes` are made here by default."""
    from threadpoolctl import threadpool_limits

    passes = passes or PassesHere(x, config, progress)
    with torch_alone(), threadpool_limits(1):  # the same bytes on any number of cores
        words = not x.is_dense and not x.categories
        shift, scale = scales(passes, x, words)
        blank = Actions.blank(shift, scale, words)
        rows, columns = sample_of(x.graph, config), config.n_block_columns(x.graph.n_nodes)
        own = blank.prepared(x.take(rows))
        own_axes = leading_axes([own], 2 * columns, config.seed)
        groups = mixed_channels(tuple(x.graph.channels), x.graph.weighted, config.mix)
        axes = leading_axes([own, _near(x, blank, rows, config.seed)], AXES // len(groups), config.seed)
        hops = passes.hops(blank, axes, groups)
        sources = [blank.project(x.take(rows), own_axes), *blocks_of_hops(hops)]
        width = min(columns, own_axes.shape[1])
        maps = [block_map(source, width, words) for source in sources]
        units = [
            _unit_scale((source.double() - center) @ axis) for source, (center, axis) in zip(sources, maps, strict=True)
        ]
        (own_center, own_map), *others = maps
        return Actions(
            words,
            shift,
            scale,
            (own_axes.double() @ own_map).float(),
            (own_center @ own_map).float(),
            axes,
            *others[0], *others[1], *others[2],
            torch.stack([center for center, _ in units]),
            torch.tensor([factor for _, factor in units], dtype=torch.float64),
        )  # fmt: skip


def _unit_scale(block: Tensor) -> tuple[Tensor, float]:
    """Mean of the rows scaled to one length, and what brings them to a variance of 1.  (r, w) -> (w,), factor"""
    unit = unit_rows(block)
    variance, mean = torch.var_mean(unit, 0, correction=0)
    total = float(variance.sum())
    return mean, total**-0.5 if total > SMALLEST_VARIANCE else 0.0


def unit_rows(block: Tensor) -> Tensor:
    """The rows scaled to length one; a row of zeros stays zeros."""
    return torch.nn.functional.normalize(block)


def blocks_of_hops(hops: Sequence[Tensor]) -> list[Tensor]:
    """The inputs of near, mid and far: the first hop, the second, and the weighted mean of all."""
    far = torch.stack([weight * hop for weight, hop in zip(far_weights(), hops, strict=True)]).sum(0)
    return [hops[0], hops[1], far]


def scales(passes: Passes, x: Features, words: bool) -> tuple[Tensor, Tensor]:
    """The shift and scale of features, as words or as columns of a table.  -> (m,), (m,)"""
    return _word_scales(passes, x) if words else _column_scales(passes, x)


def _word_scales(passes: Passes, x: Features) -> tuple[Tensor, Tensor]:
    """Zeros, and the square root of idf = log(1 + n / nodes that have the word).  -> (m,), (m,)"""
    (counts,) = passes.sums("words")
    idf = np.log1p(x.graph.n_nodes / np.maximum(counts, 1))
    return torch.zeros(x.given_width, dtype=torch.float64), torch.from_numpy(np.sqrt(idf))


def _column_scales(passes: Passes, x: Features) -> tuple[Tensor, Tensor]:
    """Mean and 1 / deviation of each column; the values of a category share one deviation.  -> (m,), (m,)"""
    n = x.graph.n_nodes
    mean = passes.sums("columns")[0] / n
    squares, counts = passes.sums("squares", mean)  # deviations from the mean, in a second pass: nothing cancels
    variance = (squares if x.is_dense else squares + (n - counts) * mean**2) / n
    variance[variance <= (SMALLEST_SHARE * mean) ** 2] = 0  # a constant column has rounding errors only
    group = _groups(x)
    of_group = np.bincount(group, variance)[group]
    varies = (variance > 0) & (of_group > 0)
    return torch.from_numpy(mean), torch.from_numpy(np.where(varies, 1 / np.sqrt(np.where(varies, of_group, 1)), 0.0))


def chunks_to_sum(x: Features, kind: str) -> list[tuple[int, int]]:
    """The runs of rows whose sums are added up, in order: the same ones wherever they are taken."""
    return list(row_chunks(x.graph.n_nodes, CHUNK if kind == "words" else _rows_at_a_time(x)))


def sums_of_rows(x: Features, kind: str, a: int, b: int, mean: Any = None) -> Doubles:
    """Sums over rows a..b, of each column: `words`, the rows that have it; `columns`, what it holds; `squares`.

    The latter of what is away from the mean, and the rows that have an entry.  -> (1 or 2, m)
    """
    m = x.given_width
    if kind == "words":
        words = csr_rows(x.matrix, a, b)
        return np.bincount(words.indices[words.data != 0], minlength=m).astype(np.float64)[None]
    rows: Any = x.rows(a, b)
    if kind == "columns":
        return np.asarray(rows.sum(0, dtype=np.float64)).reshape(1, m)
    if x.is_dense:
        return np.stack([((rows.astype(np.float64) - mean) ** 2).sum(0), np.zeros(m)])
    away = (rows.data.astype(np.float64) - mean[rows.indices]) ** 2
    return np.stack([np.bincount(rows.indices, away, m), np.bincount(rows.indices, minlength=m)])


def _rows_at_a_time(x: Features) -> int:
    """Rows whose copies in double precision take some tens of megabytes."""
    return max(256, min(CHUNK, CHUNK_NUMBERS // max(1, x.row_entries)))


def _groups(x: Features) -> Any:
    """The group of each column: the values of a category are one, every other column is one.  -> (m,)"""
    names: Sequence[str] = x.names or ()
    keys = [category_of(name, x.categories) for name in names] if x.categories else [None] * x.given_width
    return np.unique([f"={key}" if key is not None else str(j) for j, key in enumerate(keys)], return_inverse=True)[1]


def _near(x: Features, blank: Actions, rows: Any, seed: int) -> Any:
    """Means of prepared rows over neighbours, a sample of them where there are many; sparse where the rows are."""
    offsets, neighbors = sample_neighbors(x.graph, rows, FANOUT, key(seed, "actions", "near"))
    distinct, positions = np.unique(neighbors, return_inverse=True)
    counts = np.diff(offsets)
    share = np.repeat(1 / np.maximum(counts, 1), counts).astype(np.float32)
    average = sp.csr_array((share, positions, offsets), shape=(len(rows), len(distinct)))
    below = blank.prepared(x.take(distinct))
    return torch.from_numpy(average @ below.numpy()) if isinstance(below, Tensor) else sp.csr_array(average @ below)


def leading_axes(parts: Sequence[Any], count: int, seed: int) -> Tensor:
    """Directions in which these rows are largest, each part counted alike; all where there are few.  -> (m, count)

    Subspace iteration: a random basis, multiplied by X'X and made orthogonal again, a few times.
    """
    width = parts[0].shape[1]
    if width <= count:
        return torch.eye(width)
    rng = generator(seed, "actions", "axes")
    basis = torch.from_numpy(rng.normal(size=(width, min(width, count + OVERSAMPLED))).astype(np.float32))
    sizes = [max(_norm(part), 1e-12) ** 2 for part in parts]
    for _ in range(ITERATIONS):
        squares = [
            transposed_product(part, product(part, basis)) / size for part, size in zip(parts, sizes, strict=True)
        ]
        basis = torch.linalg.qr(torch.stack(squares).sum(0)).Q.contiguous()
    images = [product(part, basis).double() for part in parts]
    gram = torch.stack([image.T @ image / size for image, size in zip(images, sizes, strict=True)]).sum(0)
    vectors: Tensor = torch.linalg.eigh(gram)[1]
    return (basis.double() @ vectors.flip(1)[:, :count]).float().contiguous()


def transposed_product(rows: Any, images: Tensor) -> Tensor:
    """The transpose of prepared rows times a matrix.  (n, m), (n, d) -> (m, d)"""
    if isinstance(rows, Tensor):
        return rows.T @ images
    out: Tensor = torch.from_numpy(rows.T @ images.numpy())
    return out


def _norm(rows: Any) -> float:
    return float(np.linalg.norm(rows.numpy() if isinstance(rows, Tensor) else rows.data))


def sampled_hops(
    x: Features,
    blank: Actions,
    axes: Tensor,
    rows: Any,
    progress: Progress | None = None,
    groups: Groups = ((),),
) -> list[Tensor]:
    """The directions of the features, averaged over neighbours once, twice, ...: these rows alone.  -> (r, a) each

    Only some directions are averaged at a time: those of all nodes have to be in memory. With several groups of
    channels, they are averaged along each, side by side.
    """
    graph, n, count = x.graph, x.graph.n_nodes, axes.shape[1]
    step = directions_at_a_time(n, count)
    hops = [torch.empty((len(rows), len(groups) * count)) for _ in range(HOPS)]
    for left in range(0, count, step):
        below = torch.empty((n, min(step, count - left)))
        part = axes[:, left : left + step].contiguous()
        rows_at_a_time = _rows_at_a_time(x)
        for a in range(0, n, rows_at_a_time):
            b = min(a + rows_at_a_time, n)
            below[a:b] = blank.project(x.rows(a, b), part)
        for g, channels in enumerate(groups):
            arrays, here = [graph.channels[name] for name in channels], below
            weights = sum_of_channels(arrays, 0, len(graph.targets)) if arrays else None
            for hop in hops:
                here = moments(here, graph.offsets, graph.targets, weights=weights)
                hop[:, g * count + left : g * count + left + below.shape[1]] = here[rows]
        if progress is not None:
            progress("axes", min(left + step, count), count, {})
    return hops


def hop_bytes(n_nodes: int, n_features: int) -> int:
    """Memory that a fit takes to average directions over neighbours, and for the sample it takes them from."""
    columns = min(AXES, n_features)
    averaged = 12 * n_nodes * min(columns, directions_at_a_time(n_nodes, columns))  # below, here and the next hop
    return averaged + 12 * (HOPS + 2) * min(SAMPLE, n_nodes) * columns


def directions_at_a_time(n_nodes: int, count: int) -> int:
    """Directions of the features of all nodes that are averaged together in a fit."""
    return max(8, min(count, HOP_BYTES // (8 * n_nodes)))


def block_map(source: Tensor, count: int, words: bool) -> tuple[Tensor, Tensor]:
    """Center and axes of a block, turned so that each of its columns has the same variance.  -> (a,), (a, count)"""
    center, axes = principal_axes(source, count)
    block = (source.double() - center) @ axes
    covariance = torch.cov((unit_rows(block) if words else block).T).reshape(axes.shape[1], -1)
    return center, (axes @ equal_variances(covariance)).contiguous()


def principal_axes(block: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Center and principal axes of these rows, scaled to a total variance of 1.  (r, a) -> (a,), (a, count) float64

    The variance of an axis is its eigenvalue less that of the first axis left out.
    """
    center = block.double().mean(0)
    centered = block.double() - center
    values, vectors = torch.linalg.eigh(centered.T @ centered / len(block))
    values, vectors = values.flip(0).clamp(min=0), vectors.flip(1)[:, :count]
    vectors = signed(vectors)
    left_out = values[count] if len(values) > count else values.new_zeros(())
    variances = (values[:count] - left_out).clamp(min=0)
    size = float(variances.sum())
    if size <= SMALLEST_VARIANCE:
        return center, torch.zeros(vectors.shape, dtype=torch.float64)
    return center, (vectors * torch.sqrt(variances / values[:count].clamp(min=SMALLEST_VARIANCE) / size)).contiguous()
