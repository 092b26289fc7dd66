"""One safetensors file per model: weights as tensors, everything else as JSON in the header.

Nothing in the file is executed when it is read, and every part of it is checked.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from rae.blocks import Block, side_by_side
from rae.config import Config
from rae.errors import CheckpointError, ConfigError
from rae.features import structural_width
from rae.model.encoder import Encoder
from rae.model.exact import ExactModel
from rae.storage.atomic import atomic_path
from rae.version import __version__

FORMAT = 1
EXACT = "exact"  # what the header calls an exact model; trained models name none
_HEADER = "rae"


@dataclass(frozen=True)
class Checkpoint:
    """A trained model as it is kept: settings, encoders by loss, and what features they expect."""

    config: Config
    encoders: dict[str, Encoder]
    n_features: int
    structural: bool
    feature_names: tuple[str, ...] | None = None
    history: list[dict[str, Any]] = field(default_factory=list)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks of a vector: one per loss, all levels of its encoder."""
        about = {"within": "same role", "neighbor": "close in the graph"}
        return side_by_side(
            Block(loss, 0, encoder.width, about=about.get(loss, "")) for loss, encoder in self.encoders.items()
        )

    @property
    def width(self) -> int:
        """Columns of a vector."""
        return self.config.width

    def tensors(self) -> dict[str, torch.Tensor]:
        """The weights of all encoders, by name."""
        return {
            f"{loss}.{name}": tensor
            for loss, encoder in self.encoders.items()
            for name, tensor in encoder.state_dict().items()
        }


Fitted = Checkpoint | ExactModel


def save(model: Fitted, path: str | Path) -> None:
    """Write the model to one file, atomically."""
    fields: dict[str, Any] = {
        "config": model.config.as_dict(),
        "n_features": model.n_features,
        "structural": model.structural,
        "feature_names": model.feature_names,
        "history": model.history,
    }
    if isinstance(model, ExactModel):
        fields |= {"model": EXACT, **model.header()}
    write_file(path, fields, {name: tensor.contiguous() for name, tensor in model.tensors().items()})


def write_file(path: str | Path, fields: Mapping[str, Any], tensors: dict[str, torch.Tensor]) -> None:
    """Write tensors and, as JSON in the header, the format, the version and these fields, atomically."""
    from safetensors.torch import save as to_bytes

    header = {"format": FORMAT, "version": __version__, **fields}
    data = to_bytes(tensors, metadata={_HEADER: json.dumps(header, sort_keys=True)})
    with atomic_path(path) as temporary:
        Path(temporary).write_bytes(data)


def load(path: str | Path) -> Fitted:
    """The model in this file; a truncated, foreign, damaged or newer file is refused."""
    path = Path(path)
    fields, tensors = read_file(path)
    try:
        return ExactModel.rebuilt(fields, tensors) if fields.get("model") == EXACT else _rebuilt(fields, tensors)
    except (KeyError, TypeError, ValueError, RuntimeError, ConfigError, MemoryError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise CheckpointError(f"{path} does not hold the model its header describes ({reason})") from None


def read_file(path: Path) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """The fields of the header and the tensors; a truncated, foreign or newer file is refused."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise CheckpointError(f"no model file at {path}; expected the model.safetensors that RAE.save or rae fit wrote")
    try:
        with safe_open(path, framework="pt") as file:
            header = (file.metadata() or {}).get(_HEADER)
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()} if header else {}  # noqa: SIM118
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


def _rebuilt(fields: Mapping[str, Any], tensors: dict[str, torch.Tensor]) -> Checkpoint:
    config = Config.from_dict(fields["config"])
    n_features, structural = int(fields["n_features"]), bool(fields["structural"])
    names = fields["feature_names"]
    names = None if names is None else tuple(map(str, names))
    history = [dict(record) for record in fields["history"]]
    if names is not None and len(names) + (structural_width(config) if config.add_structure else 0) != n_features:
        raise ValueError(f"{len(names)} feature names for {n_features} features")
    encoders = {loss: _encoder(loss, n_features, config, tensors) for loss in losses(config)}
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
