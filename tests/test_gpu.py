"""Everything that a GPU computes, compared with the CPU: `make test-gpu`; skipped, saying so, where there is none."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from plain import random_graph
from rae import ACTIONS, PAPER, RAE, Config, Graph
from rae.datasets import load
from rae.model.sampling import Block
from rae.ops import dense, device, gather, reference, structure
from rae.runtime import on_device

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU that torch can use"),
]
HUB = Graph.from_edges([(0, i) for i in range(1, 5000)] + [(i, i + 1) for i in range(1, 3000)])
RANDOM = random_graph(2000, 12000, seed=4)
WIDTHS = (1, 24, 64, 300)


def table(n: int, width: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(width).normal(size=(n, width)).astype(np.float32)).to(dtype).cuda()


def test_means_and_moments_are_those_of_the_reference_at_every_width_and_type():
    for graph in (HUB, RANDOM):
        for width in WIDTHS:
            for dtype in device.KINDS:
                x = table(graph.n_nodes, width, dtype)
                expected = reference.mean(x.cpu().float(), graph.offsets, graph.targets)
                assert (gather.mean(x, graph.offsets, graph.targets).cpu() - expected).abs().max() < 1e-5
                spread = min(width, 24)
                expected = reference.moments(x.cpu().float(), graph.offsets, graph.targets, spread=spread)
                got = gather.moments(x, graph.offsets, graph.targets, spread=spread).cpu()
                assert (got - expected).abs().max() < 1e-5, (width, dtype)


def test_weights_lists_and_parts_of_a_table():
    rng = np.random.default_rng(0)
    for graph in (HUB, RANDOM):
        weights = rng.random(len(graph.targets)).astype(np.float32)
        weights[rng.random(len(weights)) < 0.3] = 0
        lists = rng.integers(graph.n_nodes, size=777)
        x = table(graph.n_nodes, 40)[:, 3:20]
        arguments = (graph.offsets, graph.targets, lists)
        expected = reference.moments(x.cpu(), *arguments, spread=9, weights=weights)
        assert (gather.moments(x, *arguments, spread=9, weights=weights).cpu() - expected).abs().max() < 1e-5
        whole = x.contiguous()
        expected = reference.mean(whole.cpu(), graph.offsets, graph.targets, lists, lists)
        assert (gather.mean(whole, graph.offsets, graph.targets, lists, lists).cpu() - expected).abs().max() < 1e-5


def test_a_list_of_millions_is_cut_and_exact():
    n, x = 3_000_000, torch.ones((3_000_000, 4), device="cuda")
    x[:, 1] = torch.arange(n, device="cuda") / n
    offsets, index = torch.tensor([0, n, n, n + 1], device="cuda"), torch.arange(n + 1, device="cuda") % n
    got = gather.moments(x, offsets, index, spread=2).cpu()
    assert got[0, 0] == 1
    assert abs(float(got[0, 1]) - 0.5) < 1e-6
    assert abs(float(got[0, 5]) - 12**-0.5) < 1e-6
    assert not got[1].any()


def test_same_bytes_on_every_run():
    x = table(HUB.n_nodes, 64)
    runs = [gather.moments(x, HUB.offsets, HUB.targets, spread=8).cpu() for _ in range(3)]
    assert all(torch.equal(run, runs[0]) for run in runs)


def test_cycles_and_cores_are_those_of_the_cpu(monkeypatch):
    for graph in (HUB, RANDOM, load("house").graph):
        for paths in (device.PATHS, 5000):
            monkeypatch.setattr(device, "PATHS", paths)
            for operation in (structure.counts_of_nodes, structure.core_numbers):
                expected = operation(graph.offsets, graph.targets)
                with on_device("cuda:0"):
                    assert np.array_equal(operation(graph.offsets, graph.targets), expected), operation


def test_gradients_are_those_of_the_reference():
    torch.manual_seed(0)
    lists = torch.randint(0, 40, (90,))
    block = Block(torch.randint(0, 50, (90,)), torch.arange(0, 41) * 5, torch.randint(0, 50, (200,)), lists)
    for chosen in (block, block._replace(ego=block.ego[:40], lists=None)):
        x = torch.randn(50, 24)
        here, there = x.clone().requires_grad_(), x.cuda().requires_grad_()
        expected, got = gather.average(here, chosen), gather.average(there, chosen)
        grad = torch.randn_like(expected)
        expected.backward(grad)
        got.backward(grad.cuda())
        assert (got.cpu() - expected).abs().max() < 1e-5
        assert (there.grad.cpu() - here.grad).abs().max() < 1e-5
    matrix = sp.random_array((60, 50), density=0.2, format="csr", dtype=np.float32, rng=1)
    here, there = torch.randn(50, 24).requires_grad_(), None
    there = here.detach().cuda().requires_grad_()
    expected, got = gather.sparse_product(matrix, here), gather.sparse_product(matrix, there)
    expected.sum().backward(), got.sum().backward()
    assert (got.cpu() - expected).abs().max() < 1e-5
    assert (there.grad.cpu() - here.grad).abs().max() < 1e-4


def test_dropout_is_the_same_choice_and_normalisation_the_same_numbers():
    x, norms = torch.randn(70, 33), [torch.nn.BatchNorm1d(33) for _ in range(2)]
    norms[1].cuda()
    here, there = x.clone().requires_grad_(), x.cuda().requires_grad_()
    for key in (12345678901234567890, 77):
        expected = dense.norm_tanh_dropout(here, norms[0], 0.6, key)
        got = dense.norm_tanh_dropout(there, norms[1], 0.6, key)
        assert torch.equal(got.cpu() == 0, expected == 0)
        assert (got.cpu() - expected).abs().max() < 1e-5
    (expected**2).sum().backward(), (got**2).sum().backward()
    assert (there.grad.cpu() - here.grad).abs().max() < 1e-4


def test_the_exact_model_gives_the_vectors_of_the_cpu_and_the_same_bytes():
    features = np.random.default_rng(0).normal(size=(RANDOM.n_nodes, 20)).astype(np.float32)
    words = sp.random_array((RANDOM.n_nodes, 300), density=0.05, format="csr", dtype=np.float32, rng=1)
    directed = Graph.from_edges(np.random.default_rng(1).integers(300, size=(2000, 2)), directed=True)
    for graph, x in ((RANDOM, None), (RANDOM, features), (RANDOM, words), (HUB, None), (directed, None)):
        model = RAE(device="cpu").fit(graph, features=x)
        expected = model.transform(graph, x)
        model.device = "cuda"
        got = model.transform(graph, x)
        assert np.abs(got - expected).max() < 5e-5 * np.abs(expected).max()  # the hub of HUB is 8.8 away from the mean
        assert (model.transform(graph, x) == got).all()
        fitted = RAE(device="cuda").fit(graph, features=x)
        assert np.abs(fitted.transform(graph, x) - expected).max() < 1e-3


def test_a_trained_model_embeds_and_trains(tmp_path):
    data = load("house")
    words = sp.random_array((RANDOM.n_nodes, 300), density=0.05, format="csr", dtype=np.float32, rng=1)
    small = Config(steps=5, dims=(16, 8), fanout=(5, 5))
    both, agree = small.replace(loss="both"), ACTIONS.replace(steps=5)
    paper = PAPER.replace(steps=5)
    cases = (small, RANDOM, None), (both, RANDOM, words), (agree, RANDOM, words), (paper, data.graph, None)
    for config, graph, x in cases:
        model = RAE(config, device="cpu").fit(graph, features=x)
        expected = model.transform(graph, x)
        model.device = "cuda"
        assert np.abs(model.transform(graph, x) - expected).max() < 1e-4
        twice = [RAE(config, device="cuda").fit(graph, features=x) for _ in range(2)]
        first, second = (fitted.transform(graph, x) for fitted in twice)
        assert (first == second).all()
        assert abs(twice[0].history[0]["value"] - model.history[0]["value"]) < 1e-4  # the same sample
        assert all(p.device.type == "cpu" for e in twice[0].encoders.values() for p in e.parameters())
        twice[0].save(tmp_path / "model.safetensors")
        assert RAE.load(tmp_path / "model.safetensors").config == config


def test_files_are_written_from_the_gpu_in_memory_and_in_bounded_memory(tmp_path):
    import pyarrow.parquet as pq

    model = RAE(device="cuda").fit(RANDOM)
    expected = model.transform(RANDOM)
    for name, memory in (("whole.parquet", None), ("parts.parquet", "2GiB")):
        model.embed_to(tmp_path / name, RANDOM, memory=memory)
        vectors = np.stack(pq.read_table(tmp_path / name)["embedding"].to_numpy(zero_copy_only=False))
        assert np.abs(vectors - expected).max() < 1e-5


def test_memory_that_is_not_enough_leaves_the_work_to_the_cpu(caplog, monkeypatch):
    model = RAE(device="cuda").fit(RANDOM)
    expected = model.transform(RANDOM)

    def none_left(*_, **__):
        raise torch.OutOfMemoryError("none left")

    monkeypatch.setattr(device, "moments", none_left)
    assert np.abs(model.transform(RANDOM) - expected).max() < 1e-4
    assert "is not enough" in caplog.text
