"""Methods by name, so that a table is a list of names and a new method is one file.

A file of this folder registers its class:

    @method("DGI", paper="Veličković et al. 2019", needs=("torch_geometric",), by_dataset={"pubmed": {"dims": 256}})
    @dataclass(frozen=True, kw_only=True)
    class DGI: ...

and nothing else changes. `names` and `find` import every file here, so a file imports what `needs` names inside of
its functions. What a class can do is read from it: `predict` makes a classifier, which is given labels; `transform` or
`predict` of another graph, an inductive one; no field `seed`, a deterministic one.
"""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from rae.errors import ConfigError, MissingExtraError
from rae.graph import Graph

Floats = np.ndarray[Any, np.dtype[np.float32]]
Ints = np.ndarray[Any, np.dtype[np.int64]]
Class = TypeVar("Class", bound=type)

NOT_SETTINGS = ("seed", "device")  # fields that do not say what is computed, but which run of it, and where


class Embedder(Protocol):
    """Vectors without labels. One that can embed an unseen graph has `fit` and `transform` too."""

    def fit_transform(self, graph: Graph, features: Any = None) -> Floats:
        """One row per node, in row order.  -> (n, d)"""
        ...


class Classifier(Protocol):
    """Classes from labelled nodes. Labels outside of `train` and `validation` are never read."""

    def fit(self, graph: Graph, features: Any, labels: Ints, train: Ints, validation: Ints | None = None) -> Self:
        """Learn from the labels of the rows `train`; those of `validation` may choose when to stop."""
        ...

    def predict(self, graph: Graph, features: Any) -> Ints:
        """The class of every node, in row order.  -> (n,)"""
        ...


@dataclass(frozen=True)
class Method:
    """A registered method: its name in tables, its class, its paper, what it imports, and settings by data set."""

    name: str
    factory: Callable[..., Any]
    paper: str
    needs: tuple[str, ...] = ()
    by_dataset: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # where the paper has them so
    of: str = "nodes"  # or "graphs": fit_transform of a sequence of graphs, one row per graph
    transductive: bool = False  # a classifier of the fitted graph alone
    own_reader: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # of its paper, where it chose one

    def make(self, **settings: Any) -> Any:
        """The method with these settings; what it imports must be installed."""
        for library in self.needs:
            if find_spec(library) is None:
                raise MissingExtraError(library, "bench", self.name)
        return self.factory(**settings)

    @property
    def fields(self) -> tuple[str, ...]:
        """The names that `make` takes."""
        return tuple(f.name for f in dataclasses.fields(self.factory) if f.init)  # type: ignore[arg-type]

    @property
    def sees_labels(self) -> bool:
        """Whether this is a classifier, which is given labels, or an embedder, which is not."""
        return hasattr(self.factory, "predict")

    @property
    def inductive(self) -> bool:
        """Whether it can be applied to a graph that the fit has not seen."""
        return (hasattr(self.factory, "transform") or self.sees_labels) and not self.transductive

    @property
    def deterministic(self) -> bool:
        """Whether every run gives the same: there is no seed to choose."""
        return "seed" not in self.fields

    @property
    def installed(self) -> bool:
        """Whether all that it imports is on this machine."""
        return all(find_spec(library) is not None for library in self.needs)


_METHODS: dict[str, Method] = {}


def method(name: str, paper: str, **more: Any) -> Callable[[Class], Class]:
    """A decorator that registers a class under this name; `more` are further fields of `Method`."""

    def register(factory: Class) -> Class:
        other = _METHODS.get(name)
        if other is not None and other.factory.__module__ != factory.__module__:
            raise ConfigError(f"two methods are named {name!r}: {other.factory.__module__} and {factory.__module__}")
        _METHODS[name] = Method(name, factory, paper, **more)
        return factory

    return register


@lru_cache(maxsize=1)
def _import_all() -> None:
    package = importlib.import_module(__package__ or "")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")


def names() -> Sequence[str]:
    """Every registered name, sorted."""
    _import_all()
    return sorted(_METHODS)


def find(name: str) -> Method:
    """The method of this name.

    >>> find("degree").deterministic, find("degree").inductive
    (True, True)
    """
    _import_all()
    if name not in _METHODS:
        raise ConfigError(f"a method must be one of {', '.join(names())}, got {name!r}")
    return _METHODS[name]


def settings_of(model: Any) -> dict[str, Any]:
    """Every setting of a method but its seed and its device."""
    return {f.name: getattr(model, f.name) for f in dataclasses.fields(model) if f.init and f.name not in NOT_SETTINGS}
