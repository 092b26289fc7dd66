"""Every error raised on purpose, as one family tree, and the sentences they speak in.

Each message says what was expected, what came, and what to do. The command line turns any of
these into one sentence and exit code 2; everything else is a bug and exits with 1.

A sentence that names arguments of the library keeps them as `Argument`s: Python reads
`missing='zero'`, the command line writes the same sentence with its flag, `--missing zero`.
"""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rae.version import DISTRIBUTION

_HERE = f"{Path(__file__).parent}{os.sep}"


@dataclass(frozen=True)
class Argument:
    """An argument of the library named in a sentence, alone or with a value; `...` is any value.

    >>> print(Argument("seed"), Argument("id", ...), Argument("missing", "zero"), Argument("header", False))
    seed id= missing='zero' header=False
    """

    name: str
    value: Any = None
    function: str = ""  # the function that takes it, where that is not clear

    def __str__(self) -> str:
        if self.value is None:
            return self.name
        value = "" if self.value is ... else repr(self.value)
        return f"{self.function}({self.name}={value})" if self.function else f"{self.name}={value}"


class Sentence(str):
    """Text that remembers which of its parts are arguments. As a string it is written for Python.

    >>> advice = Sentence("pass ", Argument("missing", "zero"), " or drop the nodes")
    >>> print(advice)
    pass missing='zero' or drop the nodes
    >>> advice.render(lambda argument: f"--{argument.name} {argument.value}")
    'pass --missing zero or drop the nodes'
    """

    parts: tuple[str | Argument, ...]

    def __new__(cls, *parts: str | Argument | RaeError) -> Sentence:
        flat = [part.sentence if isinstance(part, RaeError) else part for part in parts]
        sentence = super().__new__(cls, "".join(map(str, flat)))
        sentence.parts = tuple(p for part in flat for p in (part.parts if isinstance(part, Sentence) else (part,)))
        return sentence

    @property
    def argument(self) -> str | None:
        """The name of the first argument, None where the sentence names none."""
        return next((part.name for part in self.parts if isinstance(part, Argument)), None)

    def render(self, spell: Callable[[Argument], str]) -> str:
        """The sentence with each argument written as `spell` says."""
        return "".join(spell(part) if isinstance(part, Argument) else part for part in self.parts)


class RaeError(Exception):
    """The root: catch this to catch every mistake that a user can mend.

    `sentence` is the message, `argument` the name of the argument that it is about, if there is one: by
    default the first that the sentence names. An error among the parts brings its own sentence.
    """

    def __init__(self, *parts: str | Argument | RaeError, argument: str | None = None) -> None:
        self.sentence = Sentence(*parts)
        inner = next((part.argument for part in parts if isinstance(part, RaeError)), None)
        self.argument: str | None = argument or inner or self.sentence.argument
        super().__init__(str(self.sentence))


class ConfigError(RaeError, ValueError):
    """A setting that does not exist, or a value it cannot take."""


class GraphError(RaeError, ValueError):
    """Edges or ids that do not make a graph."""


class UnknownIdError(GraphError):
    """An id, a name or a role that is not there."""


class FeatureError(RaeError, ValueError):
    """Features that do not fit the graph or the model."""


class FileError(RaeError, ValueError):
    """A file that cannot be read or written as what it should be."""


class CheckpointError(FileError):
    """A model file that is truncated, foreign, or from a newer version."""


class RunError(RaeError):
    """A run folder that is missing, incomplete, or would be overwritten."""


class InUseError(RunError):
    """A run that another process updates, serves or writes."""


class DatasetError(RaeError):
    """A data set that is unknown, absent, or not what its checksum says."""


class NotFittedError(RaeError, ValueError, AttributeError):
    """A model that was asked for vectors before it was fitted or loaded."""


class TrainingError(RaeError, ArithmeticError):
    """A fit that diverged."""


class ClusterError(RaeError):
    """A cluster that does not answer, is too small, or lost a task too often."""


class MissingExtraError(RaeError, ImportError):
    """An optional library that is needed and not installed; `last_python` is the newest that it has wheels for."""

    def __init__(self, library: str, extra: str, purpose: str, last_python: tuple[int, int] = (sys.maxsize, 0)) -> None:
        install = f"install it with: pip install '{DISTRIBUTION}[{extra}]'"
        if (here := sys.version_info[:2]) > last_python:
            (major, minor), newest = here, ".".join(map(str, last_python))
            install = f"it has no wheel for Python {major}.{minor}: run this with Python {newest} or older"
        super().__init__(f"{purpose} needs {library}; {install}")


def needed_library(module: str, extra: str, purpose: str, library: str = "") -> Any:
    """A module that an extra installs; where it is missing, an error says for what it is needed, and how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingExtraError(library or module, extra, purpose) from None


class RaeWarning(UserWarning):
    """The root of the warnings; `sentence` as in `RaeError`."""

    def __init__(self, *parts: str | Argument) -> None:
        self.sentence = Sentence(*parts)
        super().__init__(str(self.sentence))


class CollapseWarning(RaeWarning):
    """A fit whose vectors are all but equal."""


class CutWarning(RaeWarning):
    """Vectors of a graph that may be cut out of a larger one, without `whole=True`."""


def warn_caller(warning: RaeWarning) -> None:
    """Warn at the line that called this library: every time, since the next graph at that line is another one."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    name = frame.f_globals.get("__name__", "__main__")
    warnings.warn_explicit(warning, type(warning), frame.f_code.co_filename, frame.f_lineno, name, registry={})


class IgnoredWarning(RaeWarning):
    """An argument that is not used where it was given, and may belong elsewhere."""


class ScaleWarning(RaeWarning):
    """Feature columns of very different sizes, which a model takes as they are."""


class MemoryWarning(RaeWarning):
    """Work that will not fit in memory as it is asked for, and what would make it fit."""


def is_there(path: Any, *choose: str | Argument) -> FileError:
    """The error of a file or folder that would be replaced: choose another of this, or replace it."""
    other = choose or (Argument("out"),)
    return FileError(f"{path} exists; choose another ", *other, ", or pass ", Argument("force", True), " to replace it")


def one_line(error: BaseException) -> str:
    """The reason of an error in one line, to be quoted in a sentence.

    >>> one_line(ValueError("cut short.\\n  at byte 7")), one_line(EOFError())
    ('cut short', 'EOFError')
    """
    lines = str(error.args[0] if isinstance(error, KeyError) and error.args else error).strip().splitlines()
    return lines[0].rstrip(". ") if lines else type(error).__name__
