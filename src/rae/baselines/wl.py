"""The Weisfeiler-Lehman subtree kernel (Shervashidze et al. 2011): graphs are alike that have the same subtrees.

The kernel of two graphs is the number of pairs of nodes, one of each, that share a colour, summed over the rounds of
colour refinement: the inner product of their counts of colours. The counts are returned, since every kernel here has
such a map; a reader takes their inner products.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from rae.baselines.colors import colors, counted, graph_numbers
from rae.baselines.registry import method
from rae.datasets.options import whole_number
from rae.graph import Graph


@method("WL subtree kernel", paper="Shervashidze et al. 2011", of="graphs")
@dataclass(frozen=True, kw_only=True)
class WLKernel:
    """Counts of the colours of each graph's nodes, over all rounds; their inner products are the kernel.

    Nodes of equal features have one colour at the start; without features, those of equal degree.
    """

    rounds: int = 5

    def __post_init__(self) -> None:
        whole_number("rounds", self.rounds, 0)

    def fit_transform(self, graphs: Sequence[Graph], features: Sequence[Any] | None = None) -> sp.csr_array:
        """One sparse row per graph.  -> (g, number of colours)"""
        by_round = colors(graphs, features, self.rounds)
        owners = np.tile(graph_numbers(graphs), len(by_round))
        return counted(np.concatenate(by_round), owners, len(graphs), int(by_round[-1].max(initial=-1)) + 1)
