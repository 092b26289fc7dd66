"""The library speaks of arguments, the command line of flags: one sentence turned into the other."""

from __future__ import annotations

import re
from dataclasses import fields

from rae.cli.inputs import Reading
from rae.cli.settings import flag
from rae.config import Config

_FLAGS = {
    **{f.name: flag(f.name) for f in (*fields(Config), *fields(Reading)) if f.name != "edges"},
    "force": "--force",
    "id": "--id-column",
    "feature": "--feature-column",
    "value": "--value-column",
}
_ARGUMENT = re.compile(
    rf"(?<![\w'\"/.=-])(?P<name>{'|'.join(_FLAGS)})="
    r"(?:(?P<quote>['\"])(?P<word>[^'\"]*)(?P=quote)|\[['\"](?P<item>[^'\"]*)['\"]\]|(?P<bare>True|False|\d[\d.]*\b)|)"
)
_SETTING = re.compile(rf"(?<![\w'\"/.-])(?:{'|'.join(n for n in _FLAGS if '_' in n)})(?![\w'\"/.])")


def in_flags(text: str) -> str:
    """The sentence with the arguments it advises written as flags.

    >>> in_flags('pass header=False, or missing="zero" (--missing zero); lower learning_rate')
    'pass --no-header, or --missing zero; lower --learning-rate'
    """
    text = _ARGUMENT.sub(_as_flag, text)
    text = _SETTING.sub(lambda m: flag(m[0]), text)
    text = re.sub(
        r"--(no-)?header (.*)\(read_features\)", lambda m: f"--{m[1] or ''}features-header {m[2].rstrip()}", text
    )
    return re.sub(r"(--[\w-]+ \w+) \(\1\)", r"\1", text)


def _as_flag(found: re.Match[str]) -> str:
    name = _FLAGS[found["name"]]
    if found["bare"] in ("True", "False"):
        return name if found["bare"] == "True" else "--no-" + name.removeprefix("--")
    value = found["word"] or found["item"] or found["bare"]
    return f"{name} {value}" if value else name
