"""One flag for every setting: made from the fields of Config, so that a default has one home."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any

import click

from rae.config import PRESETS, Config
from rae.errors import ConfigError

_FIELDS = dataclasses.fields(Config)
_UNITS = {"int": "N", "float": "X", "tuple[int, ...]": "N,N,…"}


def flag(name: str) -> str:
    """The flag of a setting.

    >>> flag("batch_size")
    '--batch-size'
    """
    return "--" + name.replace("_", "-")


def config_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with --preset and a flag per setting; it gets them as one Config, `config`."""

    def wrapped(**given: Any) -> Any:
        settings = {f.name: v for f in _FIELDS if (v := given.pop(f.name)) is not None}
        return command(config=config_of(given.pop("preset"), settings), **given)

    wrapped.__doc__, wrapped.__name__ = command.__doc__, command.__name__
    wrapped.__click_params__ = list(getattr(command, "__click_params__", []))  # type: ignore[attr-defined]
    for field in reversed(_FIELDS):
        wrapped = _option(field)(wrapped)
    preset = click.Choice(list(PRESETS))
    return click.option("--preset", type=preset, default="default", show_default=True, help="settings to start from")(
        wrapped
    )


def bundled(command: Callable[..., Any], name: str, kind: type[Any]) -> Callable[..., Any]:
    """The command with the options named like the fields of `kind` handed over as one value, `name`."""

    def wrapped(**given: Any) -> Any:
        return command(**{name: kind(**{f.name: given.pop(f.name) for f in dataclasses.fields(kind)})}, **given)

    wrapped.__doc__, wrapped.__name__ = command.__doc__, command.__name__
    wrapped.__click_params__ = list(getattr(command, "__click_params__", []))  # type: ignore[attr-defined]
    return wrapped


def config_of(preset: str, settings: Mapping[str, Any]) -> Config:
    """The preset with these settings changed; an error names the flag, not the field."""
    try:
        return PRESETS[preset].replace(**settings)
    except ConfigError as error:
        raise ConfigError(_with_flags(str(error))) from None


def _option(field: dataclasses.Field[Any]) -> Callable[..., Any]:
    """The click option of one setting. None means not given, so that a preset can speak."""
    text = f"{field.metadata['help']}  [default: {_shown(field.default)}]"
    if field.type == "bool":
        return click.option(f"{flag(field.name)}/{flag('no_' + field.name)}", field.name, default=None, help=text)
    choices = field.metadata.get("choices")
    metavar = "|".join(map(str, choices)) if choices else _UNITS[str(field.type)]
    return click.option(flag(field.name), field.name, type=_parser(str(field.type)), metavar=metavar, help=text)


def _parser(annotation: str) -> Callable[[Any], Any]:
    """Text to the value it spells; what it cannot be is left for Config to refuse in its own words."""

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


def _with_flags(message: str) -> str:
    """The message with the settings it opens with written as flags."""
    names = "|".join(f.name for f in _FIELDS)
    subject = re.match(rf"({names})(?: and ({names}))?(?= must )", message)
    if subject is None:
        return message
    return " and ".join(flag(name) for name in subject.groups() if name) + message[subject.end() :]
