"""Data sets by name: `load` and `names`."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from rae.datasets import airports, heterophilous, pages, payments, planetoid, random_graphs, roles, stdlib, tu
from rae.datasets.dataset import Dataset, GraphCollection
from rae.errors import ConfigError, DatasetError

_LOADERS: dict[str, Callable[..., Any]] = {
    "house": roles.house,
    "barbell": roles.barbell,
    "planted-roles": roles.planted_roles,
    "planted-actions": random_graphs.planted_actions,
    "power-law": random_graphs.power_law,
    "transactions": payments.load,
    "stdlib": stdlib.load,
    **{name: partial(planetoid.load, name) for name in planetoid.NAMES},
    **{name: partial(tu.load, name) for name in tu.NAMES},
    **{name: partial(heterophilous.load, name) for name in heterophilous.NAMES},
    "facebook-pages": pages.load,
    "actor": airports.load_actor,
    **{name: partial(airports.load, name) for name in airports.LABELLED},
    **{name: partial(airports.load_edges, name) for name in airports.EDGE_LISTS},
}
_ALIASES = {
    "imdb-b": "IMDB-BINARY",
    "imdb-m": "IMDB-MULTI",
    "reddit-b": "REDDIT-BINARY",
    "reddit-5k": "REDDIT-MULTI-5K",
    "reddit-12k": "REDDIT-MULTI-12K",
    **{f"{name}-airports": name for name in airports.LABELLED},
    **{name.lower(): name for name in _LOADERS},
}


def names() -> tuple[str, ...]:
    """The names that `load` accepts, sorted."""
    return tuple(sorted(_LOADERS, key=str.lower))


def load(name: str, **options: Any) -> Any:
    """The data set of this name: a Dataset, or a GraphCollection where it has many graphs.

    Generators take options (`load("planted-roles", n_nodes=5000, noise=0.1, seed=3)`); sets that
    come from files take `home=`, a Home to look in. Files come from the folder RAE_DATA, else from
    the cache folder, else they are downloaded and their checksum is verified.
    """
    if not isinstance(name, str):
        raise DatasetError(f"a data set has a name of text, got {name!r}; the names are {', '.join(names())}")
    full_name = _ALIASES.get(name.lower())
    if full_name is None:
        near = difflib.get_close_matches(name.lower(), _ALIASES, n=1)
        hint = f"did you mean {_ALIASES[near[0]]!r}?" if near else f"the names are {', '.join(names())}"
        raise DatasetError(f"unknown data set {name!r}; {hint}")
    loader = _LOADERS[full_name]
    _check_options(full_name, loader, options)
    data: Dataset | GraphCollection = loader(**options)
    return data


def _check_options(name: str, loader: Callable[..., Any], options: dict[str, Any]) -> None:
    parameters = inspect.signature(loader).parameters.values()
    allowed = [p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY]
    for option in options:
        if option not in allowed:
            near = difflib.get_close_matches(option, allowed, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(allowed)}"
            raise ConfigError(f"{name} has no option {option!r}; {hint}")
