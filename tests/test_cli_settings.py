"""Flags are generated from the fields of Config, with their defaults and help texts."""

from __future__ import annotations

import dataclasses

import click
import pytest

from rae.cli.flags import flag, in_flags
from rae.cli.program import app
from rae.cli.settings import config_options
from rae.config import PAPER, TOY, Config, ExactConfig, Settings
from rae.errors import ConfigError


@click.command()
@config_options
def command(config: Settings) -> Settings:
    return config


def config_from(*args: str) -> Settings:
    config: Settings = command.main(list(args), standalone_mode=False)
    return config


def test_no_flags_are_the_library_s_own_defaults():
    assert config_from() == ExactConfig()
    assert config_from("--preset", "trained") == Config()
    assert config_from("--preset", "paper") == PAPER


def test_every_setting_has_a_flag_that_shows_its_default():
    fit = app.commands["fit"]
    flags = {option for parameter in fit.params for option in parameter.opts}

    for kind in (Config, ExactConfig):
        assert {flag(f.name) for f in dataclasses.fields(kind)} <= flags
    with click.Context(fit, max_content_width=200, terminal_width=200) as ctx:
        text = fit.get_help(ctx)
    assert "[default: 192,64]" in text
    assert "[default: 200]" in text
    assert "within|neighbor|both" in text


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["--dims", "32,8", "--fanout", "5,3"], {"dims": (32, 8), "fanout": (5, 3)}),
        (["--dims", "(32, 8)", "--fanout", "5x3"], {"dims": (32, 8), "fanout": (5, 3)}),
        (["--steps", "1e3"], {"steps": 1000}),
        (["--learning-rate", "0.5"], {"learning_rate": 0.5}),
        (["--no-exclude-neighbors", "--add-structure"], {"exclude_neighbors": False, "add_structure": True}),
        (["--projections", "1", "--loss", "both"], {"projections": 1, "loss": "both"}),
        (["--steps", "5", "--seed", str(2**63 - 1)], {"steps": 5, "seed": 2**63 - 1}),
    ],
)
def test_a_flag_sets_its_field(args, expected):
    assert config_from(*args) == Config(**expected)


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["--seed", "7"], {"seed": 7}),
        (["--views", "3", "--no-relative"], {"views": 3, "relative": False}),
        (["--level-weights", "1,.5"], {"level_weights": (1.0, 0.5)}),
    ],
)
def test_a_flag_of_the_exact_model_sets_its_field(args, expected):
    assert config_from(*args) == ExactConfig(**expected)


def test_flags_of_both_models_are_refused():
    with pytest.raises(ConfigError, match="is a setting of the trained model"):
        config_from("--steps", "5", "--views", "3")


def test_a_preset_sets_what_no_flag_sets():
    assert config_from("--preset", "toy", "--steps", "7") == TOY.replace(steps=7)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--steps", "many"], "--steps must be a whole number, got 'many'"),
        (["--batch-size", "1.5"], "--batch-size must be a whole number, got 1.5"),
        (["--steps", "inf"], "--steps must be"),
        (["--learning-rate", "nan"], "--learning-rate must be finite"),
        (["--dims", "64"], "--dims and --fanout must have one entry per level"),
        (["--dims", "", "--fanout", "3"], "--dims must be"),
        (["--loss", "withn"], "did you mean 'within'"),
        (["--dropout", "1"], "--dropout must be less than 1"),
    ],
)
def test_a_wrong_value_is_refused_by_the_name_of_the_flag(args, words):
    with pytest.raises(ConfigError) as caught:
        config_from(*args)

    assert words in in_flags(caught.value, command)
    assert args[0].lstrip("-").replace("-", "_") in str(caught.value)
    assert args[0] not in str(caught.value)
    assert flag(caught.value.argument) == args[0]
