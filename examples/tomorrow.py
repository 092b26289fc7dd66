"""Fit on today's graph, embed tomorrow's: nodes that the model never saw.

    python examples/tomorrow.py

Accounts buy things and call each other. Overnight new accounts appear. A new account must land
near the old ones that play its role, though the model was fitted without it.
"""

from __future__ import annotations

import numpy as np

import rae

data = rae.datasets.load("planted-actions", n_nodes=600, seed=5)
n, today = data.graph.n_nodes, 480
old = data.graph.subgraph(data.graph.ids[:today])

model = rae.RAE(loss="neighbor", steps=100, seed=1).fit(old, data.features[:today])
z = model.transform(data.graph, data.features)  # the grown graph, one call

unit = z / np.linalg.norm(z, axis=1, keepdims=True)
nearest_old = (unit[today:] @ unit[:today].T).argsort(1)[:, -15:]
votes = [np.bincount(data.labels[row]).argmax() for row in nearest_old]
share = float(np.mean(votes == data.labels[today:]))
chance = float(np.bincount(data.labels).max() / n)
print(f"{n - today} unseen nodes: {share:.0%} fall among their own group (the largest group is {chance:.0%} of all)")
assert share > 2 * chance
