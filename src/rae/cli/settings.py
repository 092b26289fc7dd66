"""One flag per setting, generated from the fields of Config, so that a default is defined once."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import click

from rae.cli.flags import flag
from rae.config import PRESETS, Config

_FIELDS = dataclasses.fields(Config)
_UNITS = {"int": "N", "float": "X", "tuple[int, ...]": "N,N,…"}


def config_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with --preset and a flag per setting; it gets them as one Config, `config`."""

    def wrapped(**given: Any) -> Any:
        settings = {f.name: v for f in _FIELDS if (v := given.pop(f.name)) is not None}
        return command(config=PRESETS[given.pop("preset")].replace(**settings), **given)

    wrapped.__doc__, wrapped.__name__ = command.__doc__, command.__name__
    wrapped.__click_params__ = list(getattr(command, "__click_params__", []))  # type: ignore[attr-defined]
    for field in reversed(_FIELDS):
        wrapped = _option(field)(wrapped)
    preset = click.Choice(list(PRESETS))
    return click.option("--preset", type=preset, default="default", show_default=True, help="settings to start from")(
        wrapped
    )


def bundled(command: Callable[..., Any], name: str, kind: type[Any]) -> Callable[..., Any]:
    """The command with the options named like the fields of `kind` passed as one value, `name`."""

    def wrapped(**given: Any) -> Any:
        return command(**{name: kind(**{f.name: given.pop(f.name) for f in dataclasses.fields(kind)})}, **given)

    wrapped.__doc__, wrapped.__name__ = command.__doc__, command.__name__
    wrapped.__click_params__ = list(getattr(command, "__click_params__", []))  # type: ignore[attr-defined]
    return wrapped


def _option(field: dataclasses.Field[Any]) -> Callable[..., Any]:
    """The click option of one setting; its value is None where it is not given, so that the preset decides."""
    text = f"{field.metadata['help']}  [default: {_shown(field.default)}]"
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
        if annotation == "tuple[int, ...]":
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
