"""`rae info`: blocks, edges, inputs, settings, timings and training of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from rae.cli.console import Console, columns, global_options, size
from rae.config import model_kind, settings_from
from rae.progress import seconds

if TYPE_CHECKING:
    from rae.blocks import Block
    from rae.run import Run


@click.command(short_help="what a run was made of and how it went")
@click.argument("run", metavar="RUN")
@global_options
@click.pass_obj
def info(console: Console, run: str) -> None:
    """Show the blocks of the vectors, the edges as the model reads them, settings, counts, timings and files of RUN.

    Text comes out, or with --json one object: all of run.json and the sizes of the files.

    \b
    rae info runs/web
    rae info runs/web --json
    """
    from rae.run import Run

    opened = Run.open(run)
    blocks = [block.as_dict() for block in opened.blocks]
    data = {
        **opened.info,
        "counts": opened.counts,
        "updates": opened.n_updates,
        "run": str(opened.path),
        "blocks": blocks,
        "files": opened.files(),
    }
    console.result(described(opened), data)


def described(run: Run) -> str:
    """The run in a few paragraphs of two columns each."""
    info: dict[str, Any] = run.info
    versions = info["versions"]
    parts = [
        f"run {run.path}" + (f", after update {run.n_updates}" if run.n_updates else ""),
        "counts\n" + _part([(name.replace("_", " "), f"{n:,}") for name, n in run.counts.items()]),
        "blocks of a vector\n" + _part([_block(block) for block in run.blocks]),
        "edges as the model reads them" + "".join(f"\n{part}" for part in [_part(_edges(info))] if part),
        f"settings of the {model_kind(info['settings'])} model (* differs from the default)\n"
        + _part(_settings(info["settings"])),
        "training\n" + _part([_training(name, fit) for name, fit in info["training"].items()] or [_untrained(info)]),
        "time\n" + _part([(name, seconds(spent)) for name, spent in run.timings.items()]),
        "inputs\n" + _part([(what, f"{f['path']} ({size(f['bytes'])})") for what, f in info["inputs"].items()]),
        "files\n" + _part([(name, size(n)) for name, n in run.files().items()]),
        "made by\n"
        + _part([(name, versions[name]) for name in ("rae", "python", "torch", "numpy") if name in versions]),
    ]
    return "\n\n".join(part for part in parts if "\n" in part or part.startswith("run "))


def _part(rows: list[tuple[str, str]]) -> str:
    return columns(rows, indent="  ")


def _settings(settings: dict[str, Any]) -> list[tuple[str, str]]:
    changed = settings_from(settings).changed()
    return [(name, f"{_shown(value)}{' *' if name in changed else ''}") for name, value in settings.items()]


def _shown(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _block(block: Block) -> tuple[str, str]:
    scale = "" if block.variance is None else f", variance {block.variance:.3g}"
    about = f": {block.about}" if block.about else ""
    return block.name, f"{block.width} columns{scale}, weight {block.weight:g} in distances{about}"


def _edges(info: dict[str, Any]) -> list[tuple[str, str]]:
    """What the model reads of edges besides their ends, and how it averages features along them."""
    if "channels" not in info:  # a run of a version that did not say
        return []
    channels, weighted = info["channels"], info.get("weighted", False)
    if not channels:
        return [("edges", "plain: who is connected with whom")]
    from rae.model.channels import in_words, mixed_channels

    rows = [("edges", in_words(channels, weighted)), ("channels", ", ".join(channels))]
    if not info["structural"]:
        groups = mixed_channels(channels, weighted, settings_from(info["settings"]).as_dict()["mix"])
        along = ("+".join(group) if group else "all edges alike" for group in groups)
        rows.append(("features", f"averaged along {', '.join(along)}"))
    return rows


def _untrained(info: dict[str, Any]) -> tuple[str, str]:
    return "none", "solved" if model_kind(info["settings"]) == "exact" else "steps 0"


def _training(name: str, fit: dict[str, Any]) -> tuple[str, str]:
    return name, (
        f"loss {fit['first']:.3g} -> {fit['last']:.3g} in {fit['steps']:,} steps, "
        f"rank {fit['rank']:.1f}, mean cosine {fit['cosine']:.2f}"
    )
