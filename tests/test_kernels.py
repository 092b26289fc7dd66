"""The kernels of a GPU, interpreted on the CPU by Triton and compared with the references: `make test-kernels`."""

from __future__ import annotations

import os
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from plain import random_graph
from rae import Config, Graph, step_loss
from rae.features import Features
from rae.model import replay, training
from rae.model.adam import Adam
from rae.model.training import new_encoders
from rae.ops import dense, device, reference, structure
from rae.runtime import torch_alone

if torch.cuda.is_available():
    pytest.skip("there is a GPU: make test-gpu runs the kernels themselves", allow_module_level=True)
os.environ.setdefault("TRITON_INTERPRET", "1")  # before Triton is imported: it decides when a kernel is declared
pytest.importorskip(
    "triton", minversion="3.7", reason="Triton 3.7 or newer is not installed: make test-kernels gets it"
)

pytestmark = pytest.mark.slow
CPU = torch.device("cpu")
HUB = Graph.from_edges([(0, i) for i in range(1, 40)] + [(i, i + 1) for i in range(1, 12)])
RANDOM = random_graph(24, 90, seed=4)
WIDTHS = (1, 24, 64)


@pytest.fixture(autouse=True)
def short_lists(monkeypatch):
    """Lists of more than 8 neighbours are cut: the hub's, and some of the random graph."""
    monkeypatch.setattr(device, "LONGEST", 8)
    monkeypatch.setattr(device, "SHORT", 1)
    with torch_alone():
        yield


def table(n: int, width: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(width).normal(size=(n, width)).astype(np.float32)).to(dtype)


@pytest.mark.parametrize("width", WIDTHS)
def test_means_and_deviations(width):
    for graph, dtype in ((HUB, torch.float32), (RANDOM, torch.float32), (RANDOM, torch.float16)):
        x = table(graph.n_nodes, width, dtype)
        expected = reference.mean(x.float(), graph.offsets, graph.targets)
        assert (device.mean(CPU, x, graph.offsets, graph.targets, 0, None) - expected).abs().max() < 1e-5
        spread = min(width, 24)
        expected = reference.moments(x.float(), graph.offsets, graph.targets, spread=spread)
        got = device.moments(CPU, x, graph.offsets, graph.targets, None, spread, None)
        assert (got - expected).abs().max() < 1e-5


def test_weights_lists_and_parts_of_a_table():
    rng = np.random.default_rng(0)
    for graph in (HUB, RANDOM):
        weights = rng.random(len(graph.targets)).astype(np.float32)
        weights[rng.random(len(weights)) < 0.3] = 0
        lists = rng.integers(graph.n_nodes, size=30)
        x = table(graph.n_nodes, 12)[:, 3:10]
        expected = reference.moments(x, graph.offsets, graph.targets, lists, spread=5, weights=weights)
        got = device.moments(CPU, x, graph.offsets, graph.targets, lists, 5, weights)
        assert (got - expected).abs().max() < 1e-5
        whole, ego = x.contiguous(), torch.from_numpy(lists)
        expected = reference.mean(whole, graph.offsets, graph.targets, lists, lists)
        assert (device.mean(CPU, whole, graph.offsets, graph.targets, ego, lists) - expected).abs().max() < 1e-5


def test_rows_are_added_back_in_their_order():
    x, source, target = table(30, 6), torch.randint(0, 30, (80,)), torch.randint(0, 20, (80,))
    expected = torch.zeros(20, 6).index_add_(0, target, x[source])
    assert (device.added_back(x, source, target, 20) - expected).abs().max() < 1e-5


def test_cycles_and_cores():
    for graph in (HUB, RANDOM):
        both = graph.offsets, graph.targets
        counted = device.triangles(CPU, *both), device.four_cycles(CPU, *both), device.core_numbers(CPU, *both)
        for got, expected in zip(counted, structure.counts_of_nodes(*both), strict=True):
            assert np.array_equal(got, expected)


def test_dropout_is_the_same_choice_and_its_gradient():
    torch.manual_seed(0)
    norms = [torch.nn.BatchNorm1d(5) for _ in range(2)]
    here, there = (torch.randn(40, 5, generator=torch.Generator().manual_seed(1)).requires_grad_() for _ in range(2))
    for key in (12345678901234567890, 77):
        expected = dense.norm_tanh_dropout(here, norms[0], 0.6, key)
        got = device.norm_tanh_dropout(there, norms[1], 0.6, key)
        assert torch.equal(got == 0, expected == 0)
        assert (got - expected).abs().max() < 1e-5
    (expected**2).sum().backward(), (got**2).sum().backward()
    assert (there.grad - here.grad).abs().max() < 1e-4
    assert (norms[1].weight.grad - norms[0].weight.grad).abs().max() < 1e-4


@pytest.mark.parametrize("loss", ["within", "neighbor"])
def test_a_recorded_step_has_the_loss_and_the_gradients_of_a_step(loss, monkeypatch):
    config = Config(steps=3, batch_size=8, fanout=(3, 2), dims=(4, 3), positives=2, negatives=4, seed=2)
    words = sp.random_array((24, 9), density=0.3, format="csr", dtype=np.float32, rng=1)
    for given in (words, words.toarray()):
        features = Features.of(RANDOM, given, config)
        networks = [new_encoders(9, config, loss) for _ in range(2)]
        drawn = partial(training.numbers_of_step, RANDOM, config, loss)
        with monkeypatch.context() as patched:
            patched.setattr(device, "has", lambda x: type(x) in (torch.Tensor, torch.nn.Parameter))
            table = replay.table_of(features, CPU)
            adam = NoStep([p for network in networks[1] for p in network.parameters()], 0.0)
            steps = training._replay_steps(*networks[1], adam, table, drawn, config, loss)
            got = [float(next(steps)) for _ in (1, 2)][-1]
        for step in (1, 2):
            NoStep([p for network in networks[0] for p in network.parameters()], 0.0).zero_grad()
            expected = step_loss(*networks[0], RANDOM, features, config, loss, step)
            expected.backward()
        assert got == pytest.approx(float(expected.detach()), rel=1e-5)
        for here, there in zip(*networks, strict=True):
            for p, q in zip(here.parameters(), there.parameters(), strict=True):
                assert (p.grad - q.grad).abs().max() < 1e-5
            for p, q in zip(here.buffers(), there.buffers(), strict=True):
                assert (p - q).abs().max() < 1e-5


class NoStep(Adam):
    """Adam that leaves the weights where they are."""

    def step(self):
        pass
