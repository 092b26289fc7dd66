"""How tables are read: their columns by name, which rows count, and what becomes of doubled and missing ones."""

from __future__ import annotations

import difflib
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

from rae.errors import Argument, ConfigError, Sentence

log = logging.getLogger("rae.inputs")  # what the command line shows


@dataclass(frozen=True, kw_only=True)
class EdgeOptions:
    """What a table of edges is read by.

    `source` and `target` name its columns (without a header they are called "1", "2", ...); by default those with the
    usual names (source and target, from and to, caller and called, ...), else the first two. Other columns are read
    where they are named. `header` says whether a text file begins with one; by default its rows decide (see
    `rae.io.header.has_header`).

    `weight` names a column of numbers above 0 (rows of weight 0 are left out, and counted); `directed` edges go from
    source to target; `kind` names a column of words, at most 16 different ones. `doubled` edges "add" their weights
    (the default where there are any), "count" as the weight, or the largest stays ("max"). `time` names a column of
    timestamps, dates or numbers, of which `since` is the first that counts and `until` the first that does not.
    """

    source: str | None = None
    target: str | None = None
    header: bool | None = None
    weight: str | None = None
    directed: bool = False
    kind: str | None = None
    doubled: str | None = None
    time: str | None = None
    since: Any = None
    until: Any = None

    @classmethod
    def of(cls, options: Mapping[str, Any], hint: str = "") -> Self:
        """The options that are given by name; an unknown name is refused, with the nearest one, or else a hint."""
        names = [field.name for field in fields(cls)]
        for name in [name for name in options if name not in names]:
            near = difflib.get_close_matches(name, names, n=1)
            advice = f"did you mean {near[0]!r}?" if near else hint or f"there are {', '.join(names)}"
            raise ConfigError(f"unknown argument {name!r}; {advice}", argument=name)
        return cls(**options)

    @property
    def others(self) -> dict[str, str | None]:
        """The columns that are named besides the ends."""
        return {"weight": self.weight, "kind": self.kind, "time": self.time}

    @property
    def begins_with_names(self) -> bool | None:
        """Whether a text file has a header: as `header` says, else True if a column is asked for by name, else None."""
        return named_header(self.header, self.source, self.target, *self.others.values())

    def first_set(self, *names: str) -> str | None:
        """The first of these options that is not as by default, None where none is."""
        return next((name for name in names if getattr(self, name) is not getattr(type(self), name)), None)


EDGE_OPTIONS = tuple(field.name for field in fields(EdgeOptions))
_OF_FEATURES = ("features_header", "id", "columns", "drop", "categories", "feature", "value", "name")
_CHOICES = {"missing": ("error", "zero"), "unknown": ("isolated", "drop", "error")}


@dataclass(frozen=True, kw_only=True)
class Reading(EdgeOptions):
    """How edges and features are read and joined: the options of `EdgeOptions`, and those of features.

    `id`, `columns`, `drop`, `categories`, `feature` and `value` are those of `read_features`, and `features_header` its
    header; `name` is a column of display names, which is no feature; `feature_names` are names of the feature columns,
    or a file of them (`read_names`). `missing` says what becomes of nodes without a feature row ("error", "zero"),
    `unknown` of feature rows without a node ("isolated", "drop", "error").
    """

    features_header: bool | None = None
    id: str | None = None
    columns: Sequence[str] | None = None
    drop: Sequence[str] | None = None
    categories: Sequence[str] | None = None
    feature: str | None = None
    value: str | None = None
    name: str | None = None
    feature_names: Sequence[str] | str | os.PathLike[str] | None = None
    missing: str = "error"
    unknown: str = "isolated"

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            if (value := getattr(self, name)) not in choices:
                raise ConfigError(Argument(name), f" must be one of {', '.join(map(repr, choices))}, got {value!r}")

    def record(self) -> dict[str, Any]:
        """What tomorrow's files of the same shape are read by: columns and what they mean, not which times count."""
        names = (*EDGE_OPTIONS, *_OF_FEATURES)
        values = {name: getattr(self, name) for name in names if name not in ("since", "until")}
        return {
            name: value if isinstance(value, (str, bool)) else list(value)
            for name, value in values.items()
            if value is not None and (value is not False or name in ("header", "features_header"))
        }

    def as_at_the_fit(self, record: Mapping[str, Any], *, edges: bool, features: bool) -> Reading:
        """This reading, with what it leaves open of tables of edges or features as the fit had it; that is logged."""
        names = [*(EDGE_OPTIONS if edges else ()), *(_OF_FEATURES if features else ())]
        open_now = [name for name in names if getattr(self, name) is None or (name == "directed" and not self.directed)]
        from_fit = {name: record[name] for name in open_now if name in record}
        if self.since is None and self.until is None and from_fit.pop("time", None) is not None:
            log.info(
                Sentence(
                    "rows of all times are read: the bounds of the fit were for the fit alone; give ",
                    *(Argument("since"), " or ", Argument("until"), " to choose"),
                )
            )
        if from_fit:
            parts = [part for name, value in from_fit.items() for part in (" ", Argument(name, value))]
            log.info(Sentence("read as at the fit:", *parts))
        return replace(self, **from_fit)


def named_header(header: bool | None, *names: str | None) -> bool | None:
    """Whether the file has a header: as `header` says, else True if a column is asked for by name, else None."""
    return True if header is None and any(name and not name.isdigit() for name in names) else header
