"""Generated pages of docs/, and marked numbers and tables of all pages: `make generate`. A test compares them."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE), str(ROOT / "benchmarks")]

import choice  # noqa: E402
import ledger_numbers  # noqa: E402
import performance  # noqa: E402
from measurements import Measurements  # noqa: E402

from rae.config import PRESETS, Config, ExactConfig, Settings  # noqa: E402
from rae.evaluation.publish import publish  # noqa: E402

LEDGER = ledger_numbers.LEDGER


def settings_page() -> str:
    """Every setting of both kinds of model, its default and its meaning, and the presets."""
    return "\n".join(
        [
            "# Every setting",
            "",
            "Set them by name in Python, `rae.RAE(name=value)`, or as flags of `rae fit` and `rae plan`. There are",
            "two models. The *exact* one is the default: it is computed by formulas. The *trained* one learns step by",
            "step, as in the paper. The names you set choose: any setting of the trained model gives the trained one.",
            "Settings of both models at once are refused; `seed` belongs to both. `make generate` makes this page",
            "from the fields of `rae.ExactConfig` and `rae.Config`.",
            "",
            "## The exact model: `rae.ExactConfig`",
            "",
            "You rarely need any of these. What each does: [what is in a vector](embedding.md), which also explains",
            "`place`, `around` and the blocks own, near, mid and far.",
            "",
            *_settings_table(ExactConfig),
            "",
            "## The trained model: `rae.Config`",
            "",
            "What each does: [the paper and this code](paper.md). An *anchor* is the node that a training example is",
            "about; a *positive* should get a vector like its own, a *negative* should not.",
            "",
            *_settings_table(Config),
            "",
            "## Presets",
            "",
            "A preset is a named set of settings: `--preset paper`, or in Python `rae.RAE(rae.PAPER, seed=3)`.",
            "Settings that you name beside it change it.",
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


def choice_page() -> str:
    """docs/choice.md from the lines in results/."""
    return choice.page(choice.gaps(LEDGER))


PAGES = {"settings.md": settings_page, "performance.md": performance_page, "choice.md": choice_page}

if __name__ == "__main__":
    publish(LEDGER, HERE)
    performance.publish(LEDGER.folder, HERE)
    for name, make in PAGES.items():
        (HERE / name).write_text(make(), encoding="utf-8")
    for page in marked_pages():
        page.write_text(ledger_numbers.filled(page.read_text(encoding="utf-8")), encoding="utf-8")
