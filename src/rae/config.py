"""Config: every setting of the model, its default and its meaning. The only home of a default.

The command line makes its flags from these fields, the checkpoint stores them, and the
documentation table is generated from them.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rae.errors import Argument, ConfigError

LOSSES = ("within", "neighbor", "both")
ACTIVATIONS = ("tanh", "relu", "elu", "leaky_relu")


def _setting(default: Any, help: str, **rules: Any) -> Any:
    return dataclasses.field(default=default, metadata={"help": help, **rules})


@dataclass(frozen=True, kw_only=True)
class Config:
    """All settings of one model, checked when made. Defaults are the paper's, but for the degree features.

    >>> Config(dims=(32,), fanout=(10,)).depth
    1
    """

    loss: str = _setting(
        "within",
        "objective: within (same role), neighbor (close in the graph), or both (two fits, joined)",
        choices=LOSSES,
    )
    dims: tuple[int, ...] = _setting((192, 64), "width of each level, first level first", low=1)
    fanout: tuple[int, ...] = _setting((10, 25), "neighbours sampled per node in training, by hop from the ego", low=1)
    steps: int = _setting(200, "training steps, one batch each; 0 leaves the encoder untrained", low=0)
    batch_size: int = _setting(256, "anchors per step", low=2)
    learning_rate: float = _setting(0.01, "Adam's step size", above=0.0, high=1e3)
    positives: int = _setting(5, "positive examples per anchor", low=1)
    negatives: int = _setting(20, "negative examples per anchor (Q)", low=1)
    shuffled: float = _setting(
        0.5, "share of the negatives made by neighbour shuffling (loss within)", low=0.0, high=1.0
    )
    shuffle: str = _setting(
        "neighbors",
        "what a shuffled negative swaps: neighbors (ego kept, the paper) or rows (released code)",
        choices=("neighbors", "rows"),
    )
    negative_weight: float = _setting(
        1.0, "weight of the mean over negatives; the paper's formula read literally is Q", above=0.0
    )
    exclude_neighbors: bool = _setting(
        True, "loss neighbor: negatives are never adjacent to the anchor (P(u)); released code: no"
    )
    order: str = _setting(
        "average_first",
        "inside a level: average_first (the paper) or project_first (released code)",
        choices=("average_first", "project_first"),
    )
    projections: int = _setting(2, "weight matrices per level: 2 (Algorithms 1 and 2) or 1", choices=(1, 2))
    activation: str = _setting("tanh", "nonlinearity of every level", choices=ACTIVATIONS)
    dropout: float = _setting(0.6, "dropout after every nonlinearity", low=0.0, below=1.0)
    input_dropout: float = _setting(0.0, "dropout of the input features", low=0.0, below=1.0)
    inference: str = _setting(
        "exact", "neighbourhoods when embedding: exact (all) or sampled (fan-out)", choices=("exact", "sampled")
    )
    degree_cap: int = _setting(30, "structural features: how many neighbour degrees are kept", low=1)
    degree_above_cap: str = _setting(
        "even",
        "above the cap keep evenly spaced order statistics (even) or a random sample (random, the paper)",
        choices=("even", "random"),
    )
    degree_scale: str = _setting(
        "log",
        "structural features: log(1 + degree) (log) or degrees as they are (raw, the paper)",
        choices=("log", "raw"),
    )
    add_structure: bool = _setting(
        False, "append the structural features to the given ones (the paper found that this hurts)"
    )
    record_every: int = _setting(10, "steps between two entries of the training history", low=1)
    seed: int = _setting(0, "same seed, same bytes", low=0, high=2**63 - 1)

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = _coerced(field.name, getattr(self, field.name), field.type)
            _check(field.name, value, field.metadata)
            object.__setattr__(self, field.name, value)
        if len(self.dims) != len(self.fanout):
            raise ConfigError(
                *(Argument("dims"), " and ", Argument("fanout")),
                f" must have one entry per level, got {len(self.dims)} dims "
                f"{self.dims} and {len(self.fanout)} fan-outs {self.fanout}",
            )

    @property
    def depth(self) -> int:
        """K, the number of levels."""
        return len(self.dims)

    @property
    def width(self) -> int:
        """Columns of the embedding: all levels side by side, twice for loss="both"."""
        return sum(self.dims) * (2 if self.loss == "both" else 1)

    def replace(self, **settings: Any) -> Config:
        """The same settings but for those named; an unknown name is refused with the nearest one."""
        check_names(settings)
        return dataclasses.replace(self, **settings)

    def as_dict(self) -> dict[str, Any]:
        """Every setting by name, in order of declaration."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}

    def changed(self) -> dict[str, Any]:
        """Only the settings that differ from their default."""
        return {f.name: v for f in dataclasses.fields(self) if (v := getattr(self, f.name)) != f.default}

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> Config:
        """The config that `as_dict` (or its JSON) describes."""
        check_names(settings)
        return cls(**settings)


def check_names(settings: Mapping[str, Any]) -> None:
    """Refuse names that are no setting, each with the nearest right one."""
    known = [f.name for f in dataclasses.fields(Config)]
    for name in settings:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"the settings are {', '.join(known)}"
            raise ConfigError(f"unknown setting {name!r}; {hint}")


def _coerced(name: str, value: Any, annotation: Any) -> Any:
    if annotation == "tuple[int, ...]":
        if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
            raise ConfigError(Argument(name), f" must be a sequence of whole numbers such as (192, 64), got {value!r}")
        items = tuple(_number(name, v, int) for v in value)
        if not items:
            raise ConfigError(Argument(name), f" must name at least one level, got {value!r}")
        return value if isinstance(value, tuple) and items == value else items
    if annotation == "bool":
        if not isinstance(value, bool):
            raise ConfigError(Argument(name), f" must be True or False, got {value!r}")
        return value
    if annotation == "str":
        if not isinstance(value, str):
            raise ConfigError(Argument(name), f" must be a word, got {value!r}")
        return value
    return _number(name, value, int if annotation == "int" else float)


def _number(name: str, value: Any, kind: type) -> Any:
    if isinstance(value, kind) and not isinstance(value, bool):
        number: Any = value
    else:
        try:
            number = kind(value)
            exact = not isinstance(value, (str, bytes, bool)) and number == value
        except (TypeError, ValueError, OverflowError):
            exact = False
        if not exact:
            what = "a whole number" if kind is int else "a number"
            raise ConfigError(Argument(name), f" must be {what}, got {value!r}")
    if not math.isfinite(number):
        raise ConfigError(Argument(name), f" must be finite, got {value!r}")
    return number


def _check(name: str, value: Any, rules: Mapping[str, Any]) -> None:
    if (choices := rules.get("choices")) and value not in choices:
        near = difflib.get_close_matches(str(value), [str(c) for c in choices], n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ConfigError(Argument(name), f" must be one of {', '.join(map(repr, choices))}, got {value!r}{hint}")
    for part in value if isinstance(value, tuple) else (value,):
        if "low" in rules and part < rules["low"]:
            raise ConfigError(Argument(name), f" must be {rules['low']} or more, got {value!r}")
        if "high" in rules and part > rules["high"]:
            raise ConfigError(Argument(name), f" must be {rules['high']} or less, got {value!r}")
        if "above" in rules and part <= rules["above"]:
            raise ConfigError(Argument(name), f" must be more than {rules['above']}, got {value!r}")
        if "below" in rules and part >= rules["below"]:
            raise ConfigError(Argument(name), f" must be less than {rules['below']}, got {value!r}")


PAPER = Config(degree_scale="raw", degree_above_cap="random")
"""The paper's setting: K=2, 192 and 64 wide, fan-out 10 and 25, 200 steps of 256 anchors."""

TOY = PAPER.replace(dims=(8, 2), fanout=(2, 4), steps=100)
"""The paper's exemplar graphs (house, barbell): hidden 8, out 2, fan-out 2 and 4, 100 steps."""

PRESETS = {"default": Config(), "paper": PAPER, "toy": TOY}
