"""The generated pages of docs/: `make docs`. A test checks that what is committed is what comes out."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from rae.config import PRESETS, Config

HERE = Path(__file__).parent


def settings_page() -> str:
    """Every setting, its default and its meaning, from the fields of Config."""
    rows = []
    for field in dataclasses.fields(Config):
        default = ",".join(map(str, field.default)) if isinstance(field.default, tuple) else str(field.default)
        flag = "--" + field.name.replace("_", "-")
        flag += f" / --no-{flag[2:]}" if field.type == "bool" else ""
        rows.append(f"| `{field.name}` | `{flag}` | {default} | {field.metadata['help']} |")
    presets = [
        f"- `rae.{name.upper()}` (`--preset {name}`): " + ", ".join(f"`{k}={v}`" for k, v in config.changed().items())
        for name, config in PRESETS.items()
        if config.changed()
    ]
    return "\n".join(
        [
            "# Every setting",
            "",
            "Made from the fields of `rae.Config` by `make docs`. The same names work in `rae.RAE(name=value)` and, as",
            "flags, in `rae fit` and `rae plan`.",
            "",
            "| setting | flag | default | meaning |",
            "|---|---|---|---|",
            *rows,
            "",
            "Presets change the defaults as follows:",
            "",
            *presets,
            "",
        ]
    )


PAGES = {"settings.md": settings_page}

if __name__ == "__main__":
    for name, make in PAGES.items():
        (HERE / name).write_text(make(), encoding="utf-8")
