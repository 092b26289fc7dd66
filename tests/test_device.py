"""Which device is taken, without one: the choice, what it says, and that a model keeps none."""

from __future__ import annotations

import logging
from functools import partial

import numpy as np
import pytest
import torch

from plain import random_graph
from rae import RAE, runtime, set_threads
from rae.cli import main
from rae.errors import ConfigError

GRAPH = random_graph(60, 200, seed=1)


@pytest.fixture
def one_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (1000, 1000))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "a card")


def test_auto_takes_the_gpu_where_the_work_is_worth_it_and_says_so(one_gpu, caplog):
    caplog.set_level(logging.INFO, "rae.inputs")
    set_threads(3)  # the more threads, the more work
    enough = 3 * runtime.WORTH_IT
    assert runtime.chosen_device("auto", enough - 1) == "cpu"
    assert runtime.chosen_device("auto", enough, needed=1001) == "cpu"
    assert not caplog.text
    assert runtime.chosen_device("auto", enough, needed=1000) == "cuda:0"
    assert "a card" in caplog.text
    assert runtime.chosen_device("cuda", 1) == runtime.chosen_device("cuda:0", 1) == "cuda:0"
    assert runtime.chosen_device("cpu", enough) == "cpu"


def test_a_gpu_that_is_not_there_is_refused_in_a_sentence(one_gpu, monkeypatch, tmp_path, capsys):
    with pytest.raises(ConfigError, match=r"device='cuda:1' needs such a GPU .* there is 1 of them"):
        runtime.chosen_device("cuda:1", 1)
    with pytest.raises(ConfigError, match="auto, cpu, cuda or cuda:1, got 'gpu'"):
        RAE(device="gpu").fit(GRAPH)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    (tmp_path / "edges.csv").write_text("a,b\nb,c\nc,a\nc,d\n")
    assert main(["fit", str(tmp_path / "edges.csv"), "--out", str(tmp_path / "run"), "--device", "cuda"]) != 0
    assert "--device cuda needs such a GPU" in capsys.readouterr().err


def test_a_device_is_no_setting_of_a_model_and_a_clone_keeps_it(tmp_path):
    assert RAE().device == "cpu"
    model = RAE(device="auto").fit(GRAPH)
    model.save(tmp_path / "model.safetensors")
    again = RAE.load(tmp_path / "model.safetensors")
    assert again.device == "cpu"
    assert again.config == model.config
    assert (again.transform(GRAPH) == model.transform(GRAPH)).all()
    assert RAE(**model.get_params()).device == "auto"
    assert "device" not in again.get_params()
    assert model.set_params(device="cuda").device == "cuda"


def test_memory_that_a_gpu_lacks_leaves_the_work_to_the_cpu(one_gpu, caplog):
    model, devices = RAE(device="cuda"), []

    def work() -> str:
        devices.append(runtime.device())
        if runtime.device() != "cpu":
            raise torch.OutOfMemoryError("none left")
        return "done"

    assert model._on_device(GRAPH, work) == "done"
    assert devices == ["cuda:0", "cpu"]
    assert "is not enough" in caplog.text
    with pytest.raises(RuntimeError, match="something else"):
        model._on_device(GRAPH, lambda: (_ for _ in ()).throw(RuntimeError("something else")))
    assert runtime.device() == "cpu"


def test_steps_drawn_ahead_are_the_steps_themselves():
    from rae import Config
    from rae.features import Features
    from rae.model.training import _drawn_ahead, draw

    config = Config(steps=5, batch_size=16, fanout=(3, 3), dims=(8, 4))
    features = Features.of(GRAPH, None, config).in_memory()
    draws = partial(draw, GRAPH, features, config, "neighbor")
    for step, drawn in enumerate(_drawn_ahead(draws, range(1, 6)), 1):
        expected = draw(GRAPH, features, config, "neighbor", step)
        assert np.array_equal(drawn.anchors[0], expected.anchors[0])
        assert all(torch.equal(a, b) for a, b in zip(drawn.context[1][0][:3], expected.context[1][0][:3], strict=True))


def test_what_a_recorded_step_reads_is_what_was_drawn_filled_up_to_a_size():
    from rae import Config
    from rae.model import replay
    from rae.model.training import draw, numbers_of_step
    from rae.ops.device import Recorded

    config = Config(steps=5, batch_size=16, fanout=(3, 3), dims=(8, 4))
    steps = [numbers_of_step(GRAPH, config, "within", step) for step in (1, 2, 3)]
    sizes = replay.sizes_of(steps[:2])
    table, seen = torch.arange(60.0)[:, None], []
    recorded = Recorded(lambda read: seen.append({k: v.clone() for k, v in read.items()}) or table, sizes, table)
    for step, numbers in enumerate(steps, 1):
        assert recorded.fits(numbers)
        recorded.run(numbers)
        rows, blocks = replay.read("context", seen[-1], table, 2)
        drawn = draw(GRAPH, type("Rows", (), {"take": staticmethod(np.asarray)})(), config, "within", step)
        expected, drawn_blocks = drawn.context
        assert rows[: len(expected), 0].tolist() == expected.tolist()
        for got, block in zip(blocks, drawn_blocks, strict=True):
            n_lists = len(block.offsets) - 1
            assert torch.equal(got.ego[: block.n_rows], block.ego)
            assert torch.equal(got.neighbors[: len(block.neighbors)], block.neighbors)
            assert torch.equal(got.offsets[: n_lists + 1], block.offsets)
            assert (got.ego[block.n_rows :] == -1).all()  # nothing goes back from what fills a block up
            assert (got.offsets[n_lists + 1 :] == block.offsets[-1]).all()  # and it has no neighbours
        keys = replay.keys_of("context", seen[-1])
        assert [int(keys[k, "aggregate"][1]) for k in (0, 1)] == [block.n_rows for block in drawn_blocks]
    larger = numbers_of_step(GRAPH, config.replace(batch_size=60), "within", 1)
    assert not recorded.fits(larger)
