"""One flag per setting, generated from the fields of the two kinds of settings, so that a default is defined once."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import Any

import click

from rae.cli.flags import flag
from rae.config import PRESETS, Config, ExactConfig, Settings, settings_for

_FIELDS = {field.name: (field, kind) for kind in (Config, ExactConfig) for field in dataclasses.fields(kind)}
_UNITS = {"int": "N", "float": "X", "tuple[int, ...]": "N,N,…", "tuple[float, ...]": "X,X,…"}


def config_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with --preset and a flag per setting; it gets them as one value, `config`."""

    wrapped = bundled(command, "config", [*_FIELDS, "preset"], _config)
    for field, kind in reversed(_FIELDS.values()):
        wrapped = _option(field, kind)(wrapped)
    help = "settings to start from  [default: exact, or trained where a flag of the trained model is given]"
    return click.option("--preset", type=click.Choice(list(PRESETS)), help=help)(wrapped)


def _config(preset: str | None, **options: Any) -> Settings:
    settings = {name: value for name, value in options.items() if value is not None}
    return settings_for(None if preset is None else PRESETS[preset], settings)


def bundled(
    command: Callable[..., Any], name: str, options: Sequence[str], kind: Callable[..., Any]
) -> Callable[..., Any]:
    """The command with these options passed as one value, `name`, which `kind` makes of them."""

    def wrapped(**arguments: Any) -> Any:
        return command(**{name: kind(**{option: arguments.pop(option) for option in options})}, **arguments)

    wrapped.__doc__, wrapped.__name__ = command.__doc__, command.__name__
    wrapped.__click_params__ = list(getattr(command, "__click_params__", []))  # type: ignore[attr-defined]
    return wrapped


def _option(field: dataclasses.Field[Any], kind: type[Settings]) -> Callable[..., Any]:
    """The click option of one setting; its value is None where it is not given, so that the preset decides."""
    model = "both models" if field.name == "seed" else "exact model" if kind is ExactConfig else "trained model"
    text = f"{model}: {field.metadata['help']}  [default: {_shown(field.default)}]"
    if field.type == "bool":
        return click.option(f"{flag(field.name)}/{flag('no_' + field.name)}", field.name, default=None, help=text)
    choices = field.metadata.get("choices")
    metavar = "|".join(map(str, choices)) if choices else _UNITS[str(field.type)]
    return click.option(flag(field.name), field.name, type=_parser(str(field.type)), metavar=metavar, help=text)


def _parser(annotation: str) -> Callable[[Any], Any]:
    """A parser of text to a value of this type; text that is none is left for Config to refuse."""

    def parse(value: Any) -> Any:
        if annotation == "str" or not isinstance(value, str):
            return value
        if annotation.startswith("tuple"):
            return tuple(_number(part) for part in re.split(r"[,x ]+", value.strip("()[], ")))
        return _number(value)

    return parse


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _shown(default: Any) -> str:
    if isinstance(default, bool):
        return "yes" if default else "no"
    return ",".join(map(str, default)) if isinstance(default, tuple) else str(default)
