"""One safetensors file per model: weights as tensors, everything else as JSON in the header.

Nothing in the file is executed when it is read, and every part of it is checked; its header has their checksum.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from rae.blocks import Block, side_by_side
from rae.config import Config
from rae.errors import CheckpointError, one_line
from rae.features import structural_width
from rae.model.encoder import Encoder
from rae.model.exact import ExactModel
from rae.model.structure import check_tensors
from rae.storage.documents import expect
from rae.storage.tensors import read_tensors, write_tensors
from rae.version import __version__

FORMAT = 1
EXACT = "exact"  # what the header calls an exact model; trained models name none
_HEADER = "rae"


@dataclass(frozen=True)
class Checkpoint:
    """A trained model, to save: settings, encoders by loss, and the features that they expect."""

    config: Config
    encoders: dict[str, Encoder]
    n_features: int
    structural: bool
    feature_names: tuple[str, ...] | None = None
    history: list[dict[str, Any]] = field(default_factory=list)
    fitted_on: str = ""  # digest of the graph of the fit; empty in older files

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

    @property
    def hops(self) -> int:
        """How many edges away from a node its vector reads; degrees of neighbours are two edges more."""
        return self.config.depth + (2 if self.structural or self.config.add_structure else 0)

    @property
    def draws(self) -> list[str]:
        """The settings for which it draws neighbours when it embeds, by row number."""
        config, settings = self.config, []
        if config.inference == "sampled":
            settings.append("inference='sampled'")
        if config.degree_above_cap == "random" and (self.structural or config.add_structure):
            settings.append("degree_above_cap='random'")
        return settings

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
        "config": model.config.stored(),
        "n_features": model.n_features,
        "structural": model.structural,
        "feature_names": model.feature_names,
        "history": model.history,
        "fitted_on": model.fitted_on,
    }
    if isinstance(model, ExactModel):
        fields |= {"model": EXACT, **model.header()}
    write_file(path, fields, {name: tensor.contiguous() for name, tensor in model.tensors().items()})


def write_file(path: str | Path, fields: Mapping[str, Any], tensors: dict[str, torch.Tensor]) -> None:
    """Write tensors and, as JSON in the header, the format, the version and these fields, atomically."""
    header = {"format": FORMAT, "version": __version__, **fields}
    write_tensors(path, _HEADER, header, {name: tensor.numpy() for name, tensor in tensors.items()})


def load(path: str | Path) -> Fitted:
    """The model in this file; a truncated, foreign, changed or newer file is refused."""
    path = Path(path)
    fields, tensors = read_file(path)
    try:
        expect(fields, _PATTERN)
        return ExactModel.rebuilt(fields, tensors) if fields.get("model") == EXACT else _rebuilt(fields, tensors)
    except (KeyError, ValueError, TypeError, RuntimeError, OverflowError) as error:  # torch, of impossible shapes
        raise CheckpointError(f"{path} does not hold the model its header describes ({one_line(error)})") from None


def read_file(path: Path) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """The fields of the header and the tensors; a truncated, foreign, changed or newer file is refused."""
    if not path.is_file():
        raise CheckpointError(f"no model file at {path}; expected the model.safetensors that RAE.save or rae fit wrote")
    fields, arrays = read_tensors(path, _HEADER, FORMAT, _PATTERN, "was the copy cut short? copy or fit it again")
    try:
        return fields, {name: torch.from_numpy(array) for name, array in arrays.items()}
    except TypeError as error:  # a type of numbers that torch lacks
        raise CheckpointError(f"{path} does not hold the model its header describes ({one_line(error)})") from None


_RECORD = {"loss": str, "step": int, "value": float, "rank": float, "cosine": float}
_PATTERN = {
    "config": dict,
    "n_features": int,
    "structural": bool,
    "feature_names": (None, [str]),
    "history": [_RECORD],
    "model?": str,
    "words?": bool,
    "channels?": [str],
    "weighted?": bool,
    "fitted_on?": str,
    "n_nodes?": int,  # in some older files; not read
}


def _rebuilt(fields: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]) -> Checkpoint:
    config = Config.from_dict(fields["config"])
    n_features, structural, names = fields["n_features"], fields["structural"], fields["feature_names"]
    computed = structural_width(config, structural)
    n_given = n_features - computed
    if n_given < 0 or (n_given == 0) != structural:
        raise ValueError(f"{n_features} features do not go with its settings")
    if names is not None and len(names) != n_given:
        raise ValueError(f"{len(names)} feature names for {n_given} features")
    shapes = {loss: state_shapes(n_features, config) for loss in losses(config)}
    expected = {f"{loss}.{name}": shape for loss, of_loss in shapes.items() for name, shape in of_loss.items()}
    # before memory is taken for what the header claims
    check_tensors(tensors, {n: torch.empty(s, dtype=kind, device="meta") for n, (s, kind) in expected.items()})
    encoders = {}
    for loss in losses(config):
        encoder = Encoder(n_features, config)
        encoder.load_state_dict({name: tensors[f"{loss}.{name}"] for name in shapes[loss]}, strict=True)
        if any(float(norm.running_var.min()) < 0 for norm in encoder.norms()):  # type: ignore[union-attr]
            raise ValueError("a variance below zero")
        encoders[loss] = encoder.eval()
    return Checkpoint(
        config,
        encoders,
        n_features,
        structural,
        None if names is None else tuple(names),
        fields["history"],
        fields.get("fitted_on", ""),
    )


def state_shapes(n_features: int, config: Config) -> dict[str, tuple[tuple[int, ...], torch.dtype]]:
    """Shape and type of every tensor of an encoder with these settings, by name."""
    shapes: dict[str, tuple[tuple[int, ...], torch.dtype]] = {}
    for k, (n_in, n_out) in enumerate(itertools.pairwise((n_features, *config.dims))):
        layers = {"aggregate": n_in} | ({"update": n_out} if config.projections == 2 else {})
        for layer, width in layers.items():
            name = f"levels.{k}.{layer}"
            shapes[f"{name}.weight"] = (width, n_out), torch.float32
            for part in ("weight", "bias", "running_mean", "running_var"):
                shapes[f"{name}.norm.{part}"] = (n_out,), torch.float32
            shapes[f"{name}.norm.num_batches_tracked"] = (), torch.int64
    return shapes


def losses(config: Config) -> tuple[str, ...]:
    """The fits a setting stands for: loss="both" is two."""
    return ("within", "neighbor") if config.loss == "both" else (config.loss,)
