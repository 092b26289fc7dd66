"""EP-B (García-Durán and Niepert 2017): a node's words, and the node itself, are said again by its neighbours.

Every word has a vector, and so has every node. A node's word vector is the mean over its words; its reconstruction is
the mean over all words of its neighbours. By a margin, a reconstruction is nearer to its own node than to a random
one. The same for the nodes' own vectors; both are put side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn import functional as F

from rae.baselines.networks import Neural, csr_tensor, descend, never
from rae.baselines.registry import Floats, method
from rae.features import structural_features
from rae.graph import Graph
from rae.runtime import generator


@method("EP-B", paper="García-Durán and Niepert 2017")
@dataclass(kw_only=True, eq=False)
class EPB(Neural):
    """Word part, then node part; a node without words gets its reconstruction.  -> (n, 2 * dims)

    Large batches, few passes and a high rate: 50 passes of 512 nodes take a twentieth of the time of 200 of 64.
    """

    dims: int = 128
    margin: float = 10.0
    batch: int = 512
    learning_rate: float = 0.01
    passes: int = 50
    steps: int = 1_000_000  # at most, whatever the passes say

    def fit_transform(self, graph: Graph, features: Any = None) -> Floats:
        """One vector per node, in row order.  -> (n, 2 * dims)"""
        with self._seeded():
            words = abs(sp.csr_array(structural_features(graph) if features is None else features)).astype(np.float64)
            around = sp.csr_array(graph.to_scipy() @ words)
            parts = [self._fit(graph, *map(_shares, (words, around)))]
            one = sp.csr_array(sp.eye_array(graph.n_nodes))
            parts.append(self._fit(graph, one, _shares(sp.csr_array(graph.to_scipy()))))
        return np.ascontiguousarray(np.hstack(parts), np.float32)

    def _fit(self, graph: Graph, own: sp.csr_array, around: sp.csr_array) -> Floats:
        """The vectors of one kind of label; rows of `own` and `around` weigh the labels."""
        vectors = torch.nn.Parameter(torch.empty(own.shape[1], self.dims, device=self.device))
        torch.nn.init.xavier_uniform_(vectors)
        nodes = np.flatnonzero((np.diff(own.indptr) > 0) & (np.diff(around.indptr) > 0))
        others = np.flatnonzero(np.diff(own.indptr) > 0)
        if len(nodes) and len(others) > 1:
            each = -(-len(nodes) // self.batch)
            steps, step = min(self.steps, self.passes * each), iter(range(self.passes * each))

            def loss() -> Tensor:
                number = next(step)
                order = generator(self.seed, "ep-b", number // each).permutation(nodes)
                batch = order[number % each * self.batch :][: self.batch]
                wrong = generator(self.seed, "ep-b", "other", number).choice(others, len(batch))
                said, right, other = (
                    torch.sparse.mm(csr_tensor(m[rows]).to(self.device), vectors)
                    for m, rows in ((around, batch), (own, batch), (own, wrong))
                )
                gap = (said - right).norm(dim=1) - (said - other).norm(dim=1)
                return F.relu(self.margin + gap).mean()

            optimizer = torch.optim.Adam([vectors], self.learning_rate)
            self.losses = descend(optimizer, loss, steps, never)
        with torch.no_grad():
            z, said = (torch.sparse.mm(csr_tensor(m).to(self.device), vectors) for m in (own, around))
        empty = torch.from_numpy(np.diff(own.indptr) == 0).to(self.device)
        return np.asarray(torch.where(empty[:, None], said, z).cpu().numpy())


def _shares(matrix: sp.csr_array) -> sp.csr_array:
    """Rows divided by their sum."""
    sums = np.asarray(matrix.sum(1)).reshape(-1)
    shares = sp.csr_array(sp.diags_array(1 / np.where(sums > 0, sums, 1)) @ matrix)
    shares.eliminate_zeros()
    return shares
