"""Generated pages of docs/, and marked numbers and tables of all pages: `make generate`. A test compares them."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE), str(ROOT / "benchmarks")]

import ledger_numbers  # noqa: E402
import performance  # noqa: E402

from rae.config import PRESETS, Config, ExactConfig, Settings  # noqa: E402
from rae.evaluation.measurements import Measurements  # noqa: E402
from rae.evaluation.publish import publish  # noqa: E402

LEDGER = ledger_numbers.LEDGER


def settings_page() -> str:
    """Every setting of both kinds of model, its default and its meaning, and the presets."""
    return "\n".join(
        [
            "# Every setting",
            "",
            "Made from the fields of `rae.ExactConfig` and `rae.Config` by `make generate`. The same names work in",
            "`rae.RAE(name=value)` and, as flags, in `rae fit` and `rae plan`. Names decide which model it is: without",
            "any, or with those of the exact model, it is the exact one; a name of the trained model gives the trained",
            "one; names of both are refused. `seed` belongs to both.",
            "",
            "## The exact model: `rae.ExactConfig`",
            "",
            "What it does with them: [what is in a vector](embedding.md).",
            "",
            *_settings_table(ExactConfig),
            "",
            "## The trained model: `rae.Config`",
            "",
            "What it does with them: [the paper and this code](paper.md).",
            "",
            *_settings_table(Config),
            "",
            "## Presets",
            "",
            "`--preset NAME`, or the value as the first argument, as in `rae.RAE(rae.PAPER, seed=3)`; named settings",
            "change it.",
            "",
            "| preset | in Python | what it changes |",
            "|---|---|---|",
            *(_preset_row(name, config) for name, config in PRESETS.items()),
            "",
        ]
    )


def _settings_table(kind: type[Settings]) -> list[str]:
    """The lines of a table of all settings of one kind."""
    rows = ["| setting | flag | default | meaning |", "|---|---|---|---|"]
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]  # every kind is a dataclass
        default = ",".join(map(str, field.default)) if isinstance(field.default, tuple) else str(field.default)
        flag = "--" + field.name.replace("_", "-")
        flag += f" / --no-{flag[2:]}" if field.type == "bool" else ""
        rows.append(f"| `{field.name}` | `{flag}` | {default} | {field.metadata['help']} |")
    return rows


def _preset_row(name: str, config: Settings) -> str:
    """A preset: its name, its value in Python, and what differs from the defaults of its kind."""
    kind = type(config).__name__
    changed = ", ".join(f"`{k}={v}`" for k, v in config.changed().items())
    here = f"`rae.{name.upper()}`" if changed else f"`rae.{kind}()`"
    first = "; what is used where nothing is said" if name == next(iter(PRESETS)) else ""
    return f"| `{name}` | {here} | {changed or f'nothing{first}'} |"


def performance_page() -> str:
    """docs/performance.md from the lines in results/."""
    return performance.page(Measurements.read(LEDGER, performance.TABLES))


def marked_pages() -> list[Path]:
    """The pages with marks for numbers of the ledger (docs/ledger_numbers.py)."""
    pages = [ROOT / "README.md", *sorted(HERE.rglob("*.md"))]
    return [page for page in pages if ledger_numbers.MARK.search(page.read_text(encoding="utf-8"))]


PAGES = {"settings.md": settings_page, "performance.md": performance_page}

if __name__ == "__main__":
    publish(LEDGER, HERE)
    performance.publish(LEDGER.folder, HERE)
    for name, make in PAGES.items():
        (HERE / name).write_text(make(), encoding="utf-8")
    for page in marked_pages():
        page.write_text(ledger_numbers.filled(page.read_text(encoding="utf-8")), encoding="utf-8")
