"""The page as one HTML text: template, style, data and script, with a policy that allows nothing else.

Ids, names and labels are JSON or packed bytes, neither of which can hold a `<`, and the script
writes them as text nodes only.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

ASSETS = files("rae.explore") / "assets"


def render(title: str, facts: Mapping[str, Any], parts: Mapping[str, str]) -> str:
    """The template with everything filled in."""
    script, style = asset("page.js"), asset("page.css")
    policy = (
        f"default-src 'none'; script-src '{digest(script)}'; style-src '{digest(style)}'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    data = "\n".join(
        f'<script type="application/octet-stream" id="part-{name}">{text}</script>' for name, text in parts.items()
    )
    filled = {
        "policy": policy,
        "title": html.escape(title, quote=True),
        "style": style,
        "facts": as_json(facts),
        "parts": data,
        "script": script,
    }
    pieces = asset("page.html").split("{{")
    out = [pieces[0]]
    for piece in pieces[1:]:  # one pass: a value that contains {{ is not filled in again
        name, _, rest = piece.partition("}}")
        out += [filled[name], rest]
    return "".join(out)


def asset(name: str) -> str:
    """The text of a file of the assets folder."""
    return (ASSETS / name).read_text(encoding="utf-8")


def as_json(value: Any) -> str:
    """JSON in ASCII without <, > and &, so that it can stand inside a script element.

    >>> as_json("</script>")
    '"\\\\u003c/script\\\\u003e"'
    """
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def digest(text: str) -> str:
    """What a policy calls this text."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
