"""`rae info`: inputs, settings, timings and training of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rae.cli.console import Console, columns, global_options, size
from rae.cli.progress import seconds
from rae.config import Config

if TYPE_CHECKING:
    from rae.run import Run


@click.command(short_help="what a run was made of and how it went")
@click.argument("run", metavar="RUN")
@global_options
@click.pass_obj
def info(console: Console, run: str) -> None:
    """Show the settings, counts, timings, training and files of RUN.

    Text comes out, or with --json one object: all of run.json and the sizes of the files.

    \b
    rae info runs/web
    rae info runs/web --json
    """
    from rae.run import Run

    opened = Run.open(run)
    console.result(described(opened), {**opened.info, "run": str(opened.path), "files": opened.files()})


def described(run: Run) -> str:
    """The run in a few paragraphs of two columns each."""
    known: dict[str, Any] = run.info
    versions = known["versions"]
    parts = [
        f"run {run.path}",
        "counts\n" + _part([(name.replace("_", " "), f"{n:,}") for name, n in run.counts.items()]),
        "settings (* differs from the default)\n" + _part(_settings(known["settings"])),
        "training\n"
        + _part([_training(name, fit) for name, fit in known["training"].items()] or [("none", "steps 0")]),
        "time\n" + _part([(name, seconds(spent)) for name, spent in run.timings.items()]),
        "inputs\n" + _part([(what, f"{f['path']} ({size(f['bytes'])})") for what, f in known["inputs"].items()]),
        "files\n" + _part([(name, size(n)) for name, n in run.files().items()]),
        "made by\n"
        + _part([(name, versions[name]) for name in ("rae", "python", "torch", "numpy") if name in versions]),
    ]
    return "\n\n".join(part for part in parts if "\n" in part or part.startswith("run "))


def _part(rows: list[tuple[str, str]]) -> str:
    return columns(rows, indent="  ")


def _settings(settings: dict[str, Any]) -> list[tuple[str, str]]:
    changed = Config.from_dict(settings).changed()
    return [(name, f"{_shown(value)}{' *' if name in changed else ''}") for name, value in settings.items()]


def _shown(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _training(name: str, fit: dict[str, Any]) -> tuple[str, str]:
    return name, (
        f"loss {fit['first']:.3g} -> {fit['last']:.3g} in {fit['steps']:,} steps, "
        f"rank {fit['rank']:.1f}, mean cosine {fit['cosine']:.2f}"
    )
