"""The exact model: the fitted parts for structure and for actions, and the blocks of its vectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from rae.blocks import Block, side_by_side
from rae.config import ExactConfig
from rae.graph.channels import check_channel_names
from rae.model.actions import HOPS, Actions
from rae.model.channels import mixed_channels
from rae.model.structure import WAVE_LEVELS, Structure, around_block, loaded_structure, place_block


@dataclass(frozen=True)
class ExactModel:
    """A fitted exact model: settings, both fitted parts, and the features that it expects."""

    config: ExactConfig
    structure: Structure | None
    actions: Actions | None = None
    feature_names: tuple[str, ...] | None = None
    history: list[dict[str, Any]] = field(default_factory=list)  # nothing is trained
    channels: tuple[str, ...] = ()  # of the graph of the fit: the values of edges that it reads
    weighted: bool = False
    fitted_on: str = ""  # digest of the graph of the fit; empty in older files

    @property
    def structural(self) -> bool:
        """Whether it reads structure alone."""
        return self.actions is None

    @property
    def n_features(self) -> int:
        """Feature columns that it reads."""
        return 0 if self.actions is None else len(self.actions.scale)

    @property
    def structure_scale(self) -> float:
        """The scale of the structural blocks."""
        return 1.0 if self.actions is None else self.config.structure_scale

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks of a vector, in order."""
        parts = [] if self.actions is None else self.actions.blocks()
        if self.structure is not None:
            parts += [place_block(self.structure_scale), around_block(self.structure)]
        return side_by_side(parts)

    @property
    def width(self) -> int:
        """Columns of a vector."""
        return self.blocks[-1].stop

    @property
    def hops(self) -> int:
        """How many edges away from a node its vector reads features, or measures of the whole graph."""
        structure = 0 if self.structure is None else max(len(self.config.level_weights), WAVE_LEVELS)
        return max(structure, 0 if self.actions is None else HOPS)

    def tensors(self) -> dict[str, Tensor]:
        """All tensors, by name."""
        parts = {"structure": self.structure, "actions": self.actions}
        return {
            f"{part}.{name}": tensor
            for part, fitted_part in parts.items()
            if fitted_part is not None
            for name, tensor in fitted_part.tensors().items()
        }

    def header(self) -> dict[str, Any]:
        """The header fields of this model's file, besides its settings."""
        words = {"words": self.actions is not None and self.actions.words}
        return words | ({"channels": list(self.channels), "weighted": self.weighted} if self.channels else {})

    @classmethod
    def rebuilt(cls, fields: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> ExactModel:
        """The model that header fields and tensors of a file describe; ValueError where they do not match."""
        config, names = ExactConfig.from_dict(fields["config"]), fields["feature_names"]
        parts: dict[str, dict[str, Tensor]] = {"structure": {}, "actions": {}}
        for name, tensor in tensors.items():
            part, _, rest = name.partition(".")
            if part not in parts:
                raise ValueError(f"it has an unknown tensor {name!r}")
            parts[part][rest] = tensor
        channels, weighted = tuple(fields.get("channels", ())), bool(fields.get("weighted", False))
        check_channel_names(channels)
        structure = loaded_structure(parts["structure"], config, channels, weighted) if parts["structure"] else None
        words = fields["words"] if parts["actions"] else False
        if not isinstance(words, bool):
            raise ValueError(f"words is {words!r}")
        groups = len(mixed_channels(channels, weighted, config.mix))
        actions = Actions.rebuilt(parts["actions"], words, groups) if parts["actions"] else None
        if structure is None and (actions is None or config.structure):
            raise ValueError("the tensors of the structure are missing")
        if names is not None and (actions is None or len(names) != len(actions.scale)):
            raise ValueError(f"{len(names)} feature names for another number of features")
        feature_names = None if names is None else tuple(map(str, names))
        model = cls(
            config,
            structure,
            actions,
            feature_names,
            channels=channels,
            weighted=weighted,
            fitted_on=fields.get("fitted_on", ""),
        )
        if (model.n_features, model.structural) != (fields["n_features"], fields["structural"]):
            raise ValueError(f"{fields['n_features']} features are not those of its tensors")
        return model
