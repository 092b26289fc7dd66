"""The parts in a training loop of one's own: PyG Data in, Encoder, sampler, pairs and loss.

    python examples/torch_loop.py

What `RAE.fit` does for J_neighbor, spelled out, with a learning-rate schedule that RAE does not have.
"""

from __future__ import annotations

import numpy as np
import torch
from torch_geometric.data import Data

import rae
from rae.model import pairs
from rae.model.losses import contrast
from rae.runtime import key

torch.manual_seed(0)  # dropout follows torch's own generator here

# A PyG Data: 300 nodes of three kinds that link mostly within their kind, 50 noisy features.
rng = np.random.default_rng(0)
kind = rng.integers(3, size=300)
ends = rng.integers(300, size=(2, 4000))
ends = ends[:, (kind[ends[0]] == kind[ends[1]]) | (rng.random(4000) < 0.1)]
noisy = rng.normal(size=(300, 50)) + np.eye(3, 50)[kind]
data = Data(x=torch.tensor(noisy, dtype=torch.float32), edge_index=torch.tensor(ends))

graph = rae.Graph.from_pyg(data)
x = data.x.numpy()
config = rae.Config(dims=(64, 32), fanout=(5, 10))
encoder = rae.Encoder(x.shape[1], config)
context = rae.Encoder(x.shape[1], config, np.random.default_rng(1))
optimizer = torch.optim.Adam([*encoder.parameters(), *context.parameters()], lr=0.01)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 60)

for step in range(60):
    nodes = rng.choice(graph.n_nodes, 64, replace=False)
    near = pairs.random_neighbor(graph, nodes, 3, key(0, "near", step)).ravel()  # three per anchor

    rows, blocks = rae.sample_blocks(graph, nodes, config.fanout, 0, "anchor", step)
    anchor = encoder(x[rows], blocks)
    rows, blocks = rae.sample_blocks(graph, near, config.fanout, 0, "near", step, views=np.arange(len(near)))
    positive = context(x[rows], blocks).view(3, 64, -1)
    rows, blocks = rae.sample_blocks(graph, nodes, config.fanout, 0, "far", step)
    far = context(x[rows], blocks)

    place = torch.from_numpy(pairs.non_neighbor(graph, nodes, 10, key(0, "far", step)))
    scores = (anchor @ far.T).gather(1, place.clamp(min=0))
    loss = contrast((positive * anchor).sum(-1), scores, valid=place >= 0)

    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    if step % 20 == 19:
        print(f"step {step + 1}: loss {loss.item():.3f}")

encoder.eval()
everyone = np.arange(graph.n_nodes)
rows, blocks = rae.sample_blocks(graph, everyone, (10_000, 10_000), 0)  # fan-outs so large that all neighbours count
with torch.no_grad():
    z = torch.nn.functional.normalize(encoder(x[rows], blocks)).numpy()

same = kind[(z @ z.T - 9 * np.eye(300)).argmax(1)] == kind
print(f"nearest node is of the same kind: {same.mean():.0%} (chance: 33%)")
assert same.mean() > 0.8
