"""Every setting of every model, its default and its meaning. The only home of a default.

ExactConfig   the exact model: J_within solved; what `RAE()` and `rae fit` use by default
Config        the trained model: the paper's encoder and its losses

The command line makes its flags from these fields, the checkpoint stores them, and the
documentation table is generated from them.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from rae.errors import Argument, ConfigError

LOSSES = ("within", "neighbor", "both", "agree")
ACTIVATIONS = ("tanh", "relu", "elu", "leaky_relu")


def _setting(default: Any, help: str, **rules: Any) -> Any:
    return dataclasses.field(default=default, metadata={"help": help, **rules})


class Settings:
    """Settings by name, each checked when made; the base of the two kinds."""

    seed: int

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):  # type: ignore[arg-type]  # every kind is a dataclass
            value = _coerced(field.name, getattr(self, field.name), field.type)
            _check(field.name, value, field.metadata)
            object.__setattr__(self, field.name, value)

    @classmethod
    def names(cls) -> list[str]:
        """The names of the settings, in order of declaration."""
        return [f.name for f in dataclasses.fields(cls)]  # type: ignore[arg-type]

    def replace(self, **settings: Any) -> Self:
        """The same settings but for those named; an unknown name is refused with the nearest one."""
        check_names(settings, type(self).names())
        return dataclasses.replace(self, **settings)  # type: ignore[type-var]

    def as_dict(self) -> dict[str, Any]:
        """Every setting by name, in order of declaration."""
        return {name: getattr(self, name) for name in type(self).names()}

    def stored(self) -> dict[str, Any]:
        """Every setting by name as a file keeps them: one that came later is left out where it has its default.

        So the files of a model that does without it are those of the versions before.
        """
        later = {field.name for field in dataclasses.fields(self) if field.metadata.get("later")}  # type: ignore[arg-type]
        changed = self.changed()
        return {name: value for name, value in self.as_dict().items() if name not in later or name in changed}

    def changed(self) -> dict[str, Any]:
        """Only the settings that differ from their default."""
        default = type(self)().as_dict()
        return {name: value for name, value in self.as_dict().items() if value != default[name]}

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> Self:
        """The settings that `as_dict` (or its JSON) describes."""
        check_names(settings, cls.names())
        return cls(**settings)


@dataclass(frozen=True, kw_only=True)
class Config(Settings):
    """All settings of a trained model, checked when made. Defaults are the paper's, but for the degree features.

    >>> Config(dims=(32,), fanout=(10,)).depth
    1
    """

    loss: str = _setting(
        "within",
        "objective: within (same role), neighbor (close in the graph), both (two fits, joined), or agree (views of a "
        "node and of one near it agree, columns differ, vectors tell features)",
        choices=LOSSES,
    )
    dims: tuple[int, ...] = _setting((192, 64), "width of each level, first level first", low=1, high=16_384)
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
    degree_cap: int = _setting(30, "structural features: how many neighbour degrees are kept", low=1, high=4096)
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
    hidden_features: float = _setting(
        0.3, "loss agree: share of the feature columns hidden from a view", low=0.0, below=1.0, loss="agree"
    )
    hidden_edges: float = _setting(
        0.5, "loss agree: share of the edges hidden from a view", low=0.0, below=1.0, loss="agree"
    )
    walk: int = _setting(2, "loss agree: steps of the walk to a near node", low=1, loss="agree")
    near: float = _setting(
        0.5, "loss agree: share of agreeing and telling that is about the near node", low=0.0, high=1.0, loss="agree"
    )
    telling: float = _setting(
        2.0, "loss agree: weight of telling the features of the node and of a near node", low=0.0, loss="agree"
    )
    decorrelation: float = _setting(
        0.25, "loss agree: weight of the decorrelation of columns, divided by their number", low=0.0, loss="agree"
    )
    record_every: int = _setting(10, "steps between two entries of the training history", low=1)
    seed: int = _setting(0, "same seed, same bytes", low=0, high=2**63 - 1)

    def __post_init__(self) -> None:
        super().__post_init__()
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


# Of questions about a run: `Run.reliability`, `Run.drift` and `Run.why`.
VIEWS = 19  # times that noise is tried; with the graph itself twenty, and one in twenty is RATE
MORE_VIEWS = 99  # of small graphs, where they cost little
MOST_VIEWS = 1000
RATE, MOST_RATE = 0.05, 0.5  # of false alarms
MOST_EDGES, EDGES_LIMIT = 5, 100  # of a change that a reason tries

MEASURES = ("degree", "triangles", "core", "four_cycles")  # of a node, which the exact model reads


@dataclass(frozen=True, kw_only=True)
class ExactConfig(Settings):
    """All settings of an exact model, checked when made.

    >>> ExactConfig().n_block_columns(10_000)
    100
    """

    measure_weights: tuple[float, ...] = _setting(
        (1.5, 1.0, 0.3, 1.0), "weight of degree, triangles, core number and 4-cycles in `place`", low=0.0, high=1e6
    )
    level_weights: tuple[float, ...] = _setting(
        (0.5, 0.25, 0.125, 0.0625),
        "weight in `place` of what is 1, 2, ... edges away: mean and deviation of neighbours, then means alone",
        low=0.0,
        high=1e6,
    )
    views: int = _setting(
        0, "noisy copies of the graph, which say what is noise; 0: 10,000 over the nodes, from 2 to 8", low=0, high=1000
    )
    noise: float = _setting(0.1, "share of the edges that a view drops, and of random pairs it adds", low=0.0, high=1.0)
    ridge: float = _setting(0.1, "variance within a node that is assumed beside that of its views", low=1e-9, high=1e9)
    power: float = _setting(1.0, "the variance of a direction is its eigenvalue to this power", low=0.0, high=8.0)
    frequencies: int = _setting(
        0,
        "random combinations of the measures in `around`, six columns each, even; 0: half the square root of the "
        "number of nodes, from 4 to 32, beside features to 8",
        low=0,
        high=4096,
    )
    sigmas: tuple[float, ...] = _setting(
        (0.5, 1.0, 2.0, 4.0), "standard deviations of the frequencies, in turn", above=0.0, high=1e6
    )
    around_scale: float = _setting(0.5, "largest length of the part of a vector that is `around`", above=0.0, high=1e6)
    block_columns: int = _setting(
        0,
        "columns of each of own, near, mid and far; 0: the square root of the number of nodes, from 32 to 128",
        low=0,
        high=4096,
    )
    channel_weight: float = _setting(
        1.0,
        "weight in `place` of degrees and strengths by direction and kind, where edges have these",
        low=0.0,
        high=1e6,
        later=True,
    )
    mix: str = _setting(
        "union",
        "how features are averaged where edges have weights, directions or kinds: union (over all neighbours, by "
        "weight), directions (along edges out of a node and into it, side by side) or channels (by kind too)",
        choices=("union", "directions", "channels"),
        later=True,
    )
    structure: bool = _setting(True, "structural blocks beside those of the features")
    structure_scale: float = _setting(
        0.25,
        "scale of the structural blocks beside those of the features, whose total variance is 1 each",
        above=0.0,
        high=1e6,
    )
    relative: bool = _setting(
        True, "measure each graph in its own units; no: in those of the fitted graph (growth, sums over graphs)"
    )
    seed: int = _setting(0, "same seed, same bytes", low=0, high=2**63 - 1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.measure_weights) != len(MEASURES):
            raise ConfigError(
                *(Argument("measure_weights"), f" must be {len(MEASURES)} numbers, of {', '.join(MEASURES)}"),
                f", got {self.measure_weights}",
            )
        if self.frequencies % 2:
            raise ConfigError(Argument("frequencies"), f" must be even, got {self.frequencies}")
        if self.views == 1:
            raise ConfigError(Argument("views"), " must be 0 or 2 or more, since views are compared, got 1")

    def n_views(self, n_nodes: int) -> int:
        """The noisy copies of a graph of this size: a large one says more about noise than a small one."""
        return self.views or min(8, max(2, round(10_000 / n_nodes)))

    def n_block_columns(self, n_nodes: int) -> int:
        """Columns of a block of features: more nodes support more of them."""
        return self.block_columns or min(128, max(32, math.isqrt(n_nodes)))

    def n_frequencies(self, n_nodes: int, *, beside_features: bool = False) -> int:
        """Frequencies of `around`: a level has as many columns as a block of features would have, up to 64.

        Beside features the whole of it has as many as one of their blocks: a reader that standardises columns would
        hear little else.
        """
        return self.frequencies or min(8 if beside_features else 32, max(4, 2 * (math.isqrt(n_nodes) // 4)))


def check_names(settings: Mapping[str, Any], names: Sequence[str]) -> None:
    """Refuse names that are no setting, each with the nearest right one."""
    for name in settings:
        for kind, what in ((Config, "trained"), (ExactConfig, "exact")):
            if name not in names and name in kind.names():
                raise ConfigError(Argument(name), f" is a setting of the {what} model, and this is the other one")
        if name not in names:
            near = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"the settings are {', '.join(names)}"
            raise ConfigError(f"unknown setting {name!r}; {hint}")


_TUPLES: dict[Any, tuple[type, str]] = {
    "tuple[int, ...]": (int, "whole numbers such as (192, 64)"),
    "tuple[float, ...]": (float, "numbers such as (0.7, 0.25)"),
}


def _coerced(name: str, value: Any, annotation: Any) -> Any:
    if annotation in _TUPLES:
        kind, such_as = _TUPLES[annotation]
        if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
            raise ConfigError(Argument(name), f" must be a sequence of {such_as}, got {value!r}")
        items = tuple(_number(name, v, kind) for v in value)
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
    if kind is float and not math.isfinite(number):
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

ACTIONS = Config(
    loss="agree", dims=(256, 256), fanout=(10, 10), projections=1, dropout=0.0, learning_rate=1e-3, batch_size=4096
)
"""For nodes with features of their own (words, actions): 256 and 256 wide, loss agree, 200 steps."""

PRESETS: dict[str, Settings] = {
    "exact": ExactConfig(),
    "trained": Config(),
    "actions": ACTIONS,
    "paper": PAPER,
    "toy": TOY,
}
"""Settings to start from, by name; the first is the default."""


def settings_for(start: Settings | None, changes: Mapping[str, Any]) -> Settings:
    """The settings of a model: those to start from, changed by name.

    Without a start, the names say which model: those of the trained one make a Config, else it is the exact one.

    >>> type(settings_for(None, {"steps": 50})).__name__, type(settings_for(None, {"views": 8})).__name__
    ('Config', 'ExactConfig')
    """
    if start is not None:
        return start.replace(**changes)
    trained = [name for name in changes if name in Config.names() and name not in ExactConfig.names()]
    exact = [name for name in changes if name in ExactConfig.names() and name not in Config.names()]
    if trained and exact:
        raise ConfigError(
            *(Argument(trained[0]), " is a setting of the trained model, ", Argument(exact[0])),
            " of the exact one; pass those of one model",
        )
    kind: type[Settings] = Config if trained else ExactConfig
    names = list(dict.fromkeys([*Config.names(), *ExactConfig.names()]))
    check_names(changes, names)
    return kind(**changes)


def settings_from(settings: Mapping[str, Any]) -> Settings:
    """The settings that `as_dict` of either kind describes."""
    return (ExactConfig if model_kind(settings) == "exact" else Config).from_dict(settings)


def model_kind(settings: Mapping[str, Any]) -> str:
    """The model that these settings are of: "exact" or "trained"."""
    return "trained" if "loss" in settings else "exact"
