"""scikit-learn's conventions for what turns a graph into vectors: tags, names of columns, frames, and labels unused.

Nothing is inherited from scikit-learn, whose import takes as long as torch's: it asks by name for the methods that
are here, and is imported when it does.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from rae.blocks import Block
from rae.errors import Argument, ConfigError, FeatureError, IgnoredWarning
from rae.features import Features, FeatureTable
from rae.graph.frames import FRAMES, vector_frame

if TYPE_CHECKING:
    from sklearn.utils import Tags

_BY_NAME = ("; pass features by name, as in fit(graph, ", Argument("features", ...), "x)")


class GraphTransformer:
    """The methods of a scikit-learn transformer, besides fit and transform."""

    _sklearn_output_config: dict[str, str]  # the name under which sklearn.base.clone copies it

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The named blocks of a vector, in order."""
        raise NotImplementedError

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray[Any, Any]:
        """The names of the columns of a vector: block and number, such as place0."""
        return np.array([f"{block.name}{i}" for block in self.blocks for i in range(block.width)], object)

    def set_output(self, *, transform: str | None = None) -> Self:
        """Make transform return a frame: "pandas", with the ids as its index, or "polars", with a column id.

        "default" is a plain array; None changes nothing.
        """
        if transform is None:
            return self
        if transform not in ("default", *FRAMES):
            choices = ", ".join(map(repr, ("default", *FRAMES)))
            raise ConfigError(Argument("transform"), f" must be one of {choices}, got {transform!r}")
        self._sklearn_output_config = {"transform": transform}
        return self

    def _output(self) -> str:
        """The kind of frame that is asked for here, else in scikit-learn's own settings."""
        if (own := getattr(self, "_sklearn_output_config", {}).get("transform")) is not None:
            return str(own)
        import sys

        if "sklearn" not in sys.modules:  # its settings are the defaults
            return "default"
        from sklearn import get_config

        return str(get_config()["transform_output"])

    def _as_frame(self, ids: pa.Array, z: Any) -> Any:
        """The vectors as they are, or as the frame that is asked for."""
        kind = self._output()
        return z if kind == "default" else vector_frame(kind, ids, z, self.get_feature_names_out().tolist())

    def _check_y(self, y: Any) -> None:
        """Refuse features in the place of labels, and id columns that a classifier would learn from."""
        refuse_features(y)
        if y is not None and self._output() == "polars":
            raise ConfigError(
                "a polars frame keeps ids in a column, which what comes after it would learn; use "
                "set_output(transform='pandas'), whose index is no feature, or 'default'"
            )

    def get_metadata_routing(self) -> Any:
        """What scikit-learn passes on: `features=` of a pipeline to fit and to transform, `whole=` to transform."""
        from sklearn.utils.metadata_routing import MetadataRequest

        request = MetadataRequest(owner=type(self).__name__)
        for method in (request.fit, request.transform):
            method.add_request(param="features", alias=True)
        request.transform.add_request(param="whole", alias=True)
        return request

    def __sklearn_tags__(self) -> Tags:
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(preserves_dtype=[]),
            input_tags=InputTags(two_d_array=False),  # a graph is no array
            no_validation=True,
        )


def refuse_features(y: Any) -> None:
    """Refuse features where labels stand, which a fit ignores; warn where it could be either."""
    if isinstance(y, (FeatureTable, Features, str, os.PathLike)):
        raise FeatureError(f"the second argument of a fit is y and is ignored, got a {type(y).__name__}", *_BY_NAME)
    if isinstance(y, Sequence) and any(isinstance(part, FeatureTable) or _dimensions(part) == 2 for part in y):
        raise FeatureError("the second argument of a fit is y and is ignored, got matrices or tables", *_BY_NAME)
    if _dimensions(y) == 2:
        warnings.warn(
            IgnoredWarning(
                "the second argument of a fit is y and is ignored, got a table of two dimensions, as features are",
                *_BY_NAME,
            ),
            stacklevel=4,
        )


def _dimensions(y: Any) -> int:
    """How many dimensions y has, 1 where it does not say."""
    if isinstance(y, (list, tuple)):
        return 1 + (len(y) > 0 and isinstance(y[0], (list, tuple)))
    return len(getattr(y, "shape", (0,)))
