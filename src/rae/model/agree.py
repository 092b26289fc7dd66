"""The loss "agree": views of a node agree column by column, with the end of a walk too, and tell features.

A view hides a share of the edges and of the feature columns. No pair is pushed apart: columns that may not repeat
each other keep the vectors from collapsing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from rae.config import Config
from rae.features import Features
from rae.features.matrix import is_sparse
from rae.graph import Graph
from rae.model import pairs
from rae.model.encoder import Decoder, Encoder, Rows, Stream, statistics_of
from rae.model.losses import agreement, telling
from rae.model.sampling import exact_blocks, hide_neighbors, sample_blocks, whole_block
from rae.ops.dense import dropout_mask
from rae.ops.sampling import renumber
from rae.runtime import generator, key

Ints = np.ndarray[Any, np.dtype[np.integer[Any]]]

SETTLED = 1 << 18  # nodes of a graph over which statistics are exact; those of a larger one
SAMPLE = 1 << 14  # are taken over so many nodes with sampled neighbours


def agree_loss(
    encoder: Encoder, decoder: Decoder, graph: Graph, features: Features, config: Config, step: int
) -> Tensor:
    """Two views of a batch agree, and with the ends of walks; both tell the features of the node and of that end."""
    stream = (config.seed, "agree", step)
    b, share = min(config.batch_size, graph.n_nodes), config.near
    nodes = np.arange(b) if b == graph.n_nodes else _batch(graph, b, stream)
    ends = pairs.walk_end(graph, nodes, config.walk, key(*stream, "walk"))
    both, place = renumber(np.concatenate([nodes, ends]))
    own, near = torch.from_numpy(place[:b]), torch.from_numpy(place[b:])

    first = encode_view(encoder, graph, features, nodes, config, (*stream, "first"))
    encoded = encode_view(encoder, graph, features, both, config, (*stream, "second"))
    own, near = own.to(encoded.device), near.to(encoded.device)
    second = encoded[own]
    loss = agreement(first, second, encoded[near], near_share=share, decorrelation=config.decorrelation)
    if not config.telling:
        return loss
    x = _rows_of(features, both)
    sizes = torch.from_numpy(_sizes(x)).to(encoded.device)
    xd = decoder.project(_as_rows(x, encoded.device))
    wrong = [
        (1 - share) * telling(z, xd[own], lengths, sizes[own]) + share * telling(z, xd[near], lengths, sizes[near])
        for z, lengths in zip((first, second), decoder.lengths(first, second), strict=True)
    ]
    return loss + config.telling * (wrong[0] + wrong[1]) / 2


def _batch(graph: Graph, size: int, stream: Stream) -> Ints:
    """So many distinct nodes, drawn uniformly."""
    seed, *purpose = stream
    return generator(int(seed), *purpose, "batch").choice(graph.n_nodes, size, replace=False, shuffle=False)


def encode_view(
    encoder: Encoder, graph: Graph, features: Features, nodes: Ints, config: Config, stream: Stream
) -> Tensor:
    """The vectors of these nodes on a copy of the graph that lacks a share of the edges and of the feature columns.

    Every node in order reads all its neighbours, and every level lacks the same edges; a batch reads samples.
    """
    seed, *purpose = stream
    if _is_all(graph, nodes):
        whole = hide_neighbors(whole_block(graph), config.hidden_edges, key(int(seed), *purpose, "edges"))
        rows, blocks = nodes, [whole] * config.depth
    else:
        rows, sampled = sample_blocks(graph, nodes, config.fanout, int(seed), *purpose)
        keys = [key(int(seed), *purpose, "edges", k) for k in range(config.depth)]
        blocks = [hide_neighbors(block, config.hidden_edges, k) for block, k in zip(sampled, keys, strict=True)]
    x = _hide_columns(_rows_of(features, rows), config.hidden_features, key(int(seed), *purpose, "columns"))
    return encoder.hidden(x, blocks, stream)[-1]


def _is_all(graph: Graph, nodes: Ints) -> bool:
    """Whether these are all nodes, in order."""
    return len(nodes) == graph.n_nodes and np.array_equal(nodes, np.arange(len(nodes)))


def _rows_of(features: Features, nodes: Ints) -> Any:
    """The features of these nodes; all of them are not copied."""
    return features.rows(0, len(nodes)) if _is_all(features.graph, nodes) else features.take(nodes)


def _hide_columns(x: Any, share: float, key: Any) -> Any:
    """The rows with a share of their columns set to 0; the rest stays as it is."""
    if not share:
        return x
    shown = (dropout_mask(x.shape[1], share, key, like=torch.empty(0)) > 0).numpy().astype(np.float32)
    if not is_sparse(x):
        return x * shown
    return sp.csr_array((x.data * shown[x.indices], x.indices, x.indptr), shape=x.shape)


def _sizes(x: Any) -> Any:
    """|x| of every row, float32."""
    if is_sparse(x):
        x = sp.csr_array((x.data.astype(np.float64) ** 2, x.indices, x.indptr), shape=x.shape)
        return np.sqrt(x.sum(1)).astype(np.float32)
    return np.sqrt(np.einsum("nd,nd->n", x, x, dtype=np.float64)).astype(np.float32)


def _as_rows(x: Any, device: torch.device) -> Rows:
    return x if is_sparse(x) else torch.from_numpy(x).to(device)


@torch.no_grad()
def settle(encoder: Encoder, graph: Graph, features: Features, config: Config) -> None:
    """Take the statistics of every normalisation again, level by level: over every node with all its neighbours.

    Views hide edges and columns, so what is normalised in training has another mean and spread than what is embedded.
    A graph of more than `SETTLED` nodes is represented by `SAMPLE` nodes with sampled neighbours.
    """
    n, stream = graph.n_nodes, (config.seed, "settle")
    whole = n <= SETTLED and config.inference == "exact"
    nodes = np.arange(n) if n <= SETTLED else np.sort(_batch(graph, SAMPLE, stream))
    encoder.eval()
    for k, level in enumerate(encoder.stack()):
        depth = k + 1
        if whole:
            rows, blocks = exact_blocks(graph, nodes, depth)
        else:
            rows, blocks = sample_blocks(graph, nodes, config.fanout[-depth:], *stream)
        h: Any = _as_rows(_rows_of(features, rows), level.aggregate.weight.device)
        for below, block in zip(encoder.stack()[:k], blocks[:-1], strict=True):
            h = below(h, block)
        with statistics_of(level):
            level(h, blocks[-1])
