"""Fitted roles in one safetensors file: arrays as tensors, everything else as JSON in the header."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from rae.errors import CheckpointError
from rae.roles.canonical import Space
from rae.roles.fitted import Fitted
from rae.roles.number import Choice
from rae.storage.atomic import atomic_path

FORMAT = 1
_HEADER = "rae roles"
_ARRAYS = ("mean", "directions", "centers", "sizes")


def save(fitted: Fitted, path: str | Path) -> None:
    """Write the roles to one file, atomically."""
    from safetensors.numpy import save as to_bytes

    choice = fitted.choice
    header = {
        "format": FORMAT,
        "version": version("rae"),
        "radius": fitted.radius,
        "criterion": choice.criterion,
        "curve": [[k, value] for k, value in choice.curve.items()],
        "settings": fitted.settings,
        "leading": fitted.space.leading,
        "model": fitted.model,
    }
    arrays = {
        "mean": fitted.space.mean,
        "directions": fitted.space.directions,
        "centers": fitted.centers,
        "sizes": fitted.sizes.astype(np.int64),
    }
    data = to_bytes(arrays, metadata={_HEADER: json.dumps(header, sort_keys=True)})
    with atomic_path(path) as hidden:
        hidden.write_bytes(data)


def load(path: str | Path) -> Fitted:
    """The roles in this file; a damaged, foreign or newer one is refused."""
    from safetensors import SafetensorError, safe_open

    path = Path(path)
    if not path.is_file():
        raise CheckpointError(f"no roles at {path}; `rae roles RUN` finds them and writes the file")
    try:
        with safe_open(path, framework="np") as file:
            header = (file.metadata() or {}).get(_HEADER)
            arrays = {name: file.get_tensor(name) for name in file.keys()} if header else {}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(f"{path} is not a whole safetensors file ({error}); run `rae roles` again") from None
    if header is None:
        raise CheckpointError(f"{path} is a safetensors file, but holds no roles (its header has no {_HEADER!r})")
    try:
        told = json.loads(header)
        newer = int(told["format"]) > FORMAT
    except (ValueError, TypeError, KeyError):
        raise CheckpointError(f"the header of {path} is damaged; run `rae roles` again") from None
    if newer:
        raise CheckpointError(f"{path} has format {told['format']}, this rae reads up to {FORMAT}; upgrade rae")
    try:
        return _rebuilt(told, arrays)
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} does not hold the roles its header describes ({error})") from None


def _rebuilt(told: dict[str, Any], arrays: dict[str, Any]) -> Fitted:
    mean, directions, centers, sizes = (arrays[name] for name in _ARRAYS)
    fits = directions.ndim == centers.ndim == 2 and (
        directions.shape == (len(mean), centers.shape[1]) and mean.ndim == 1 and sizes.shape == (len(centers),)
    )
    if not fits or not all(np.isfinite(a).all() for a in arrays.values()) or not len(centers):
        raise ValueError("its arrays do not fit together")
    radius, settings, model = float(told["radius"]), dict(told["settings"]), told["model"]
    if not radius > 0 or not {"k", "max_k", "seed"} <= set(settings) or not isinstance(model, str | None):
        raise ValueError("settings are missing")
    curve = {int(k): float(value) for k, value in told["curve"]}
    choice = Choice(len(centers), str(told["criterion"]), curve)
    return Fitted(Space(mean, directions, int(told["leading"])), centers, radius, sizes, choice, settings, model)
