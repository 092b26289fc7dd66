"""Settings: one home, checked when made, refused by name."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from rae import PAPER, TOY, Config
from rae.config import PRESETS
from rae.errors import ConfigError
from rae.runtime import set_threads, threads


def test_the_papers_setting_is_what_the_paper_says():
    assert (PAPER.dims, PAPER.fanout, PAPER.depth, PAPER.width) == ((192, 64), (10, 25), 2, 256)
    assert (PAPER.steps, PAPER.batch_size, PAPER.learning_rate, PAPER.dropout) == (200, 256, 0.01, 0.6)
    assert (PAPER.positives, PAPER.negatives, PAPER.shuffled, PAPER.activation) == (5, 20, 0.5, "tanh")
    assert (PAPER.degree_cap, PAPER.degree_scale, PAPER.inference) == (30, "raw", "exact")
    assert PAPER.steps * PAPER.batch_size == 51_200
    assert PAPER.replace(loss="both").width == 512
    assert (TOY.dims, TOY.fanout, TOY.steps) == ((8, 2), (2, 4), 100)
    assert list(PRESETS) == ["exact", "trained", "actions", "paper", "toy"]
    assert PRESETS["trained"] == Config()


def test_the_default_differs_from_the_paper_in_its_degree_features_alone():
    assert PAPER.changed() == {"degree_scale": "raw", "degree_above_cap": "random"}


def test_a_config_survives_a_round_trip_and_tells_what_differs():
    config = Config(dims=[8], fanout=(3,), steps=np.int64(5), dropout=0)

    assert Config.from_dict(config.as_dict()) == config
    assert config.changed() == {"dims": (8,), "fanout": (3,), "steps": 5, "dropout": 0}
    assert dataclasses.asdict(config)["dims"] == (8,)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"n_steps": 5}, "unknown setting 'n_steps'; did you mean 'steps'"),
        ({"epochs_total": 5}, "unknown setting 'epochs_total'; the settings are loss, dims"),
        ({"loss": "between"}, "loss must be one of 'within', 'neighbor', 'both', 'agree', got 'between'"),
        ({"loss": "neighbour"}, "did you mean 'neighbor'"),
        ({"loss": 3}, "loss must be a word"),
        ({"steps": -1}, "steps must be 0 or more, got -1"),
        ({"steps": 1.5}, "steps must be a whole number, got 1.5"),
        ({"steps": "5"}, "steps must be a whole number, got '5'"),
        ({"steps": True}, "steps must be a whole number, got True"),
        ({"dims": 64}, "dims must be a sequence"),
        ({"dims": "64"}, "dims must be a sequence"),
        ({"dims": ()}, "at least one level"),
        ({"dims": (0, 3)}, "dims must be 1 or more"),
        ({"dims": (2_000_000, 3)}, "dims must be 16384 or less"),
        ({"degree_cap": 2_000_000}, "degree_cap must be 4096 or less, got 2000000"),
        ({"dims": (3,)}, "one entry per level, got 1 dims"),
        ({"dropout": 1.0}, "dropout must be less than 1.0"),
        ({"shuffled": 1.5}, "shuffled must be 1.0 or less"),
        ({"learning_rate": 0}, "learning_rate must be more than 0.0"),
        ({"learning_rate": float("nan")}, "learning_rate must be finite"),
        ({"add_structure": 1}, "add_structure must be True or False"),
        ({"projections": 3}, "projections must be one of 1, 2, got 3"),
        ({"seed": 2**70}, "seed must be"),
    ],
)
def test_a_wrong_setting_is_refused_in_a_sentence(settings, says):
    with pytest.raises(ConfigError, match=says):
        PAPER.replace(**settings)


@pytest.mark.parametrize("count", ["x", 0, -1, 1.5, True])
def test_threads_that_are_no_number_from_one_are_refused(count):
    before = threads()
    with pytest.raises(ConfigError, match="threads must be a whole number from 1, or None for all cores, got"):
        set_threads(count)
    assert threads() == before
