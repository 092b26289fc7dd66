"""One safetensors file per model: weights as tensors, everything else as JSON in the header.

Nothing in the file is executed when it is read, and every part of it is checked.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from rae.config import Config
from rae.errors import CheckpointError, ConfigError
from rae.features import structural_width
from rae.model.encoder import Encoder
from rae.storage.atomic import atomic_path

FORMAT = 1
EXACT = "exact"  # what the header of `rae.model.exact` calls its model; trained models name none
_HEADER = "rae"


@dataclass(frozen=True)
class Checkpoint:
    """A fitted model as it is kept: settings, encoders by loss, and what features they expect."""

    config: Config
    encoders: dict[str, Encoder]
    n_features: int
    structural: bool
    feature_names: tuple[str, ...] | None = None
    history: list[dict[str, Any]] = field(default_factory=list)


def save(checkpoint: Checkpoint, path: str | Path) -> None:
    """Write the model to one file, atomically."""
    fields = {
        "config": checkpoint.config.as_dict(),
        "n_features": checkpoint.n_features,
        "structural": checkpoint.structural,
        "feature_names": checkpoint.feature_names,
        "history": checkpoint.history,
    }
    tensors = {
        f"{loss}.{name}": tensor.contiguous()
        for loss, encoder in checkpoint.encoders.items()
        for name, tensor in encoder.state_dict().items()
    }
    write_file(path, fields, tensors)


def write_file(path: str | Path, fields: Mapping[str, Any], tensors: dict[str, torch.Tensor]) -> None:
    """Write tensors and, as JSON in the header, the format, the version and these fields, atomically."""
    from safetensors.torch import save as to_bytes

    header = {"format": FORMAT, "version": version("rae"), **fields}
    data = to_bytes(tensors, metadata={_HEADER: json.dumps(header, sort_keys=True)})
    with atomic_path(path) as temporary:
        Path(temporary).write_bytes(data)


def load(path: str | Path) -> Checkpoint:
    """The model in this file; a truncated, foreign or newer file is refused."""
    path = Path(path)
    fields, tensors = read_file(path)
    if fields.get("model") == EXACT:
        raise CheckpointError(f"{path} holds an exact model, expected a trained one; rae.Exact.load reads it")
    return _rebuilt(path, fields, tensors)


def read_file(path: Path) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """The fields of the header and the tensors; a truncated, foreign or newer file is refused."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise CheckpointError(f"no model file at {path}; expected the model.safetensors that RAE.save or rae fit wrote")
    try:
        with safe_open(path, framework="pt") as file:
            header = (file.metadata() or {}).get(_HEADER)
            tensors = {name: file.get_tensor(name) for name in file.keys()} if header else {}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(f"{path} is not a whole safetensors file ({error}); was the copy cut short?") from None
    if header is None:
        raise CheckpointError(
            f"{path} is a safetensors file, but not one that rae wrote (its header has no {_HEADER!r})"
        )
    return _fields(path, header), tensors


def _fields(path: Path, header: str) -> dict[str, Any]:
    try:
        fields: dict[str, Any] = json.loads(header)
        newer = int(fields["format"]) > FORMAT
    except (ValueError, TypeError, KeyError):
        raise CheckpointError(f"the header of {path} is damaged; fit the model again") from None
    if newer:
        raise CheckpointError(
            f"{path} has format {fields['format']} (rae {fields.get('version', '?')}), this version reads up to "
            f"{FORMAT}; upgrade rae"
        )
    return fields


def _rebuilt(path: Path, fields: Mapping[str, Any], tensors: dict[str, torch.Tensor]) -> Checkpoint:
    try:
        config = Config.from_dict(fields["config"])
        n_features, structural = int(fields["n_features"]), bool(fields["structural"])
        names = fields["feature_names"]
        names = None if names is None else tuple(map(str, names))
        history = [dict(record) for record in fields["history"]]
        if names is not None and len(names) + (structural_width(config) if config.add_structure else 0) != n_features:
            raise ValueError(f"{len(names)} feature names for {n_features} features")
        encoders = {loss: _encoder(loss, n_features, config, tensors) for loss in losses(config)}
    except (KeyError, TypeError, ValueError, RuntimeError, ConfigError, MemoryError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise CheckpointError(f"{path} does not hold the model its header describes ({reason})") from None
    return Checkpoint(config, encoders, n_features, structural, names, history)


def _encoder(loss: str, n_features: int, config: Config, tensors: dict[str, torch.Tensor]) -> Encoder:
    state = {name[len(loss) + 1 :]: t for name, t in tensors.items() if name.startswith(f"{loss}.")}
    widths = (n_features, *config.dims)
    for k, expected in enumerate(itertools.pairwise(widths)):  # before memory is taken for what the header claims
        shape = tuple(state[f"levels.{k}.aggregate.weight"].shape)
        if shape != expected:
            raise ValueError(f"level {k + 1} has weights of shape {shape}, expected {expected}")
    if not all(torch.isfinite(t).all() for t in state.values()):
        raise ValueError("weights that are not finite")
    encoder = Encoder(n_features, config)
    encoder.load_state_dict(state, strict=True)
    return encoder.eval()


def losses(config: Config) -> tuple[str, ...]:
    """The fits a setting stands for: loss="both" is two."""
    return ("within", "neighbor") if config.loss == "both" else (config.loss,)
