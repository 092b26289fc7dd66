"""Fit on today's graph, embed tomorrow's: nodes that the model was not fitted on.

    python examples/tomorrow.py

Accounts buy things and call each other. Overnight new accounts appear. The vector of a new account
should be near those of old accounts of its group, though the model was fitted without it.
"""

from __future__ import annotations

import numpy as np
from sklearn.neighbors import KNeighborsClassifier

import rae

data = rae.datasets.load("planted-actions", n_nodes=600, seed=5)
n, today = data.graph.n_nodes, 480
old_graph = data.graph.subgraph(data.graph.ids[:today])

model = rae.RAE(loss="neighbor", steps=100, seed=1).fit(old_graph, features=data.features[:today])
z = model.transform(data.graph, data.features, whole=True)  # the grown graph; no edge of it is missing

vote_of_nearest = KNeighborsClassifier(15, metric="cosine").fit(z[:today], data.labels[:today])
share = vote_of_nearest.score(z[today:], data.labels[today:])
chance = float(np.bincount(data.labels).max() / n)
print(
    f"{n - today} unseen nodes: {share:.0%} are nearest to their own group (the largest group is {chance:.0%} of all)"
)
assert share > 2 * chance
