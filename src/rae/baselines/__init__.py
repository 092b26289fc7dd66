"""Other methods a researcher compares with, one file each, behind the contract that rae.RAE obeys.

Settings are named; `fit_transform(graph)` gives one float32 row per node in the graph's row order,
and the methods that can embed a graph they have not seen have `fit` and `transform` too. They read
the graph alone: `features` is accepted, so that every embedder is called alike, and left aside.

>>> from rae import Graph
>>> Degree().fit_transform(Graph.from_edges([("ann", "bob"), ("bob", "cid")])).round(2).tolist()
[[0.6899999976158142], [1.100000023841858], [0.6899999976158142]]
"""

from rae.baselines.degree import Degree
from rae.baselines.graphwave import GraphWave
from rae.baselines.node2vec import DeepWalk, Node2Vec
from rae.baselines.refex import ReFeX

__all__ = ["DeepWalk", "Degree", "GraphWave", "Node2Vec", "ReFeX"]
