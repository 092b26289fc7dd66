"""Methods by name: what a table lists, and what a class says of itself."""

from __future__ import annotations

import dataclasses

import pytest

from rae import baselines
from rae.baselines import registry
from rae.errors import ConfigError, MissingExtraError


@pytest.mark.parametrize("name", baselines.names())
def test_every_method_is_made_by_its_name_and_has_one_of_the_contracts(name):
    method = baselines.find(name)
    if not method.installed:
        pytest.skip(f"{name} needs {', '.join(method.needs)}")
    model = method.make()

    assert method.name == name
    assert method.paper
    assert hasattr(model, "predict") is method.sees_labels
    assert hasattr(model, "fit") if method.sees_labels else hasattr(model, "fit_transform")
    assert not {"seed", "device"} & set(registry.settings_of(model))
    for settings in method.by_dataset.values():
        method.make(**settings)  # they are settings that exist, in their range


def test_what_a_class_says_of_itself():
    degree, walks = baselines.find("degree"), baselines.find("node2vec")

    assert (degree.deterministic, degree.inductive, degree.sees_labels) == (True, True, False)
    assert (walks.deterministic, walks.inductive, walks.sees_labels) == (False, False, False)


def test_an_unknown_name_is_answered_with_the_names():
    with pytest.raises(ConfigError, match=r"must be one of .*GraphWave.*, got 'nothing'"):
        baselines.find("nothing")


def test_two_files_cannot_share_a_name():
    class Other:
        pass

    with pytest.raises(ConfigError, match="two methods are named 'degree'"):
        registry.method("degree", paper="none")(Other)


def test_a_library_that_is_missing_is_named_with_its_extra():
    missing = dataclasses.replace(baselines.find("degree"), needs=("no_such_library",))

    assert not missing.installed
    with pytest.raises(MissingExtraError, match=r"degree needs no_such_library; .*\[bench\]"):
        missing.make()
