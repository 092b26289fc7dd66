"""A training loop of your own, from exported functions: PyG Data in, sampler, encoder, pairs and loss.

    pip install 'role-action-embeddings[pyg]'  # for the Data object alone; a Graph and an array do as well
    python examples/torch_loop.py

It trains J_neighbor as `RAE(loss="neighbor").fit` does, with a learning-rate schedule that RAE does not have.
"""

from __future__ import annotations

import numpy as np
import torch
from torch_geometric.data import Data

import rae

torch.manual_seed(0)  # dropout uses torch's own generator here

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


def encode(model: rae.Encoder, nodes: np.ndarray, *purpose: int | str, views: np.ndarray | None = None) -> torch.Tensor:
    """The last level, which the loss compares, over sampled neighbourhoods.  (b,) -> (b, 32)"""
    rows, blocks = rae.sample_blocks(graph, nodes, config.fanout, config.seed, *purpose, views=views)
    return model.hidden(x[rows], blocks)[-1]


for step in range(60):
    nodes = rng.choice(graph.n_nodes, 64, replace=False)
    neighbors = rae.random_neighbor(graph, nodes, 3, rae.key(config.seed, "neighbor", step)).ravel()  # 3 per anchor
    others = torch.from_numpy(rae.non_neighbor(graph, nodes, 10, rae.key(config.seed, "other", step)))  # -1: none

    anchor = encode(encoder, nodes, "anchor", step)
    positive = encode(context, neighbors, "positive", step, views=np.arange(len(neighbors))).view(3, 64, -1)
    negative = encode(context, nodes, "negative", step)  # negatives are other nodes of the batch

    products = (anchor @ negative.T).gather(1, others.clamp(min=0))
    loss = rae.contrast((positive * anchor).sum(-1), products, valid=others >= 0)

    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    if step % 20 == 19:
        print(f"step {step + 1}: loss {loss.item():.3f}")

encoder.eval()
rows, blocks = rae.exact_blocks(graph, np.arange(graph.n_nodes), encoder.depth)  # all neighbours of all nodes
with torch.no_grad():
    z = encoder(x[rows], blocks)  # all levels side by side, as RAE.transform returns them
assert z.shape == (300, 32 + 64)

unit = torch.nn.functional.normalize(z).numpy()
same = kind[(unit @ unit.T - 9 * np.eye(300)).argmax(1)] == kind
print(f"nearest node is of the same kind: {same.mean():.0%} (chance: 33%)")
assert same.mean() > 0.8
