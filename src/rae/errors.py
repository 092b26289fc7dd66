"""Every error raised on purpose, as one family tree.

Each message says what was expected, what came, and what to do. The command line turns any of
these into one sentence and exit code 2; everything else is a bug and exits with 1.
"""

from __future__ import annotations


class RaeError(Exception):
    """The root: catch this to catch every mistake that a user can mend."""


class ConfigError(RaeError, ValueError):
    """A setting that does not exist, or a value it cannot take."""


class GraphError(RaeError, ValueError):
    """Edges or ids that do not make a graph."""


class FeatureError(RaeError, ValueError):
    """Features that do not fit the graph or the model."""


class FileError(RaeError, ValueError):
    """A file that cannot be read or written as what it should be."""


class CheckpointError(FileError):
    """A model file that is truncated, foreign, or from a newer version."""


class RunError(RaeError):
    """A run folder that is missing, incomplete, or would be overwritten."""


class DatasetError(RaeError):
    """A data set that is unknown, absent, or not what its checksum says."""


class NotFittedError(RaeError, AttributeError):
    """A model that was asked for vectors before it was fitted or loaded."""


class TrainingError(RaeError, ArithmeticError):
    """A fit that diverged."""


class MissingExtraError(RaeError, ImportError):
    """An optional library that is needed and not installed."""

    def __init__(self, library: str, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs {library}; install it with: pip install 'rae[{extra}]'")


class CollapseWarning(UserWarning):
    """A fit whose vectors are all but equal."""
