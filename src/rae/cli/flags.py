"""How the command line writes the arguments that a sentence of the library names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from rae.errors import Argument, RaeError, RaeWarning, Sentence

# Arguments that an option has another name for, by the function that takes them.
_RENAMED = {("read_features", "header"): "features_header"}


def flag(name: str) -> str:
    """The flag of an option.

    >>> flag("batch_size")
    '--batch-size'
    """
    return "--" + name.replace("_", "-")


def in_flags(message: object, *commands: click.Command | None) -> str:
    """The message with its arguments written as options: of the first of these commands that has such an option.

    >>> command = click.Command("fit", params=[click.Option(["--missing"]), click.Option(["--header/--no-header"])])
    >>> in_flags(Sentence("pass ", Argument("missing", "zero"), " or ", Argument("header", False)), command)
    'pass --missing zero or --no-header'
    """
    if isinstance(message, (RaeError, RaeWarning)):
        message = message.sentence
    if not isinstance(message, Sentence):
        return str(message)
    options = {option.name: option for command in reversed(commands) if command for option in command.params}
    return message.render(lambda argument: _spell(argument, options))


def _spell(argument: Argument, options: Mapping[str, click.Parameter]) -> str:
    """The option of this name with its value, as one types it; as in Python where there is none."""
    option = options.get(_RENAMED.get((argument.function, argument.name), argument.name))
    if option is None:
        return str(argument)
    if isinstance(option, click.Argument):
        return option.metavar or str(option.name).upper()
    if argument.value is False:
        return option.secondary_opts[0] if option.secondary_opts else f"no {option.opts[0]}"
    value = _typed(argument.value)
    return f"{option.opts[0]} {value}" if value else option.opts[0]


def _typed(value: Any) -> str:
    if value is None or value is True or value is ...:
        return ""
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
