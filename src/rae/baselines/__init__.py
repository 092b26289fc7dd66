"""Other methods to compare with, one file each, with the interface of rae.RAE.

Settings are keyword arguments; `fit_transform(graph, features)` returns one float32 row per node in the graph's row
order, and the methods that can embed an unseen graph have `fit` and `transform` too. Methods that see labels have
`fit(graph, features, labels, train)` and `predict`. Methods that read the graph alone accept `features`, so that
every method is called in the same way, and ignore them. `names()` lists all, `find(name).make(...)` makes one.

>>> from rae import Graph
>>> Degree().fit_transform(Graph.from_edges([("ann", "bob"), ("bob", "cid")])).round(2).tolist()
[[0.6899999976158142], [1.100000023841858], [0.6899999976158142]]
"""

from rae.baselines.degree import Degree
from rae.baselines.graphwave import GraphWave
from rae.baselines.node2vec import DeepWalk, Node2Vec
from rae.baselines.refex import ReFeX
from rae.baselines.registry import find, names

__all__ = ["DeepWalk", "Degree", "GraphWave", "Node2Vec", "ReFeX", "find", "names"]
