"""`rae demo`: embed the standard library of this Python, whose look-alikes a programmer can judge."""

from __future__ import annotations

import platform
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rae.cli.console import Console, columns, global_options

if TYPE_CHECKING:
    from rae.explore import Subject
    from rae.inputs import Inputs
    from rae.search import Similar

# Modules whose look-alikes a Python programmer can judge; one that this Python lacks is skipped.
SHOWN_MODULES = (
    "ntpath",
    "bz2",
    "smtplib",
    "threading",
    "json.decoder",
    "asyncio.tasks",
    "unittest.case",
    "xml.dom.minidom",
    "email.message",
    "encodings.cp1252",
)


@click.command(short_help="embed Python's own library and show what is alike")
@click.option("--out", default="demo", metavar="DIR", show_default=True, help="folder to write")
@click.option("--force", is_flag=True, help="replace the demo that is there")
@global_options
@click.pass_obj
def demo(console: Console, out: str, force: bool) -> None:
    """Embed the standard library of this Python and show which modules have similar roles.

    Modules are nodes, imports are edges, the names a module uses are its features; nothing is
    downloaded. A table comes out, and a run folder with a page to explore: explore/index.html.

    \b
    rae demo
    rae demo --out /tmp/demo --force
    """
    from rae.pipeline import check_run_folder, fit_run
    from rae.search import similar_to_each

    folder = Path(out)
    check_run_folder(folder, page=True, force=force)  # before the library is read
    console.use_threads()
    inputs = _inputs(console)
    names = [str(i) for i in inputs.graph.ids]
    with console.progress() as progress:
        subject = _subject(names)
        run = fit_run(inputs, out=folder, page=True, subject=subject, force=force, progress=progress)
    alike = similar_to_each(run, [name for name in SHOWN_MODULES if name in names], k=3)
    data = {a.id: [{"id": name, "distance": round(distance, 4)} for name, distance in a.matches] for a in alike}
    files = run.files()
    text = _report(alike, folder, files)
    console.result(text, {"run": str(folder), "files": files, "counts": inputs.counts, "alike": data})


def _inputs(console: Console) -> Inputs:
    from rae.datasets import load
    from rae.inputs import dataset_inputs

    began = time.perf_counter()
    inputs = dataset_inputs(load("stdlib"))
    counts = inputs.counts
    console.note(
        f"Python {platform.python_version()}'s own library: {counts['nodes']:,} modules, "
        f"{counts['edges']:,} imports,\n{counts['features']:,} names they use"
    )
    return replace(inputs, seconds=time.perf_counter() - began)


def _subject(names: Sequence[str]) -> Subject:
    """The title of the page and its labels: the package of each module, which the model does not see."""
    from rae.explore import Subject
    from rae.explore.columns import word_column

    packages = {name.partition(".")[0] for name in names if "." in name}
    package = [name.partition(".")[0] if name.partition(".")[0] in packages else None for name in names]
    title = f"The standard library of Python {platform.python_version()}"
    return Subject(title, "a module", (word_column("package", "label", package),))


def _report(alike: Sequence[Similar], folder: Path, files: dict[str, int]) -> str:
    """The table, where things are, and what to try next; no line wider than 60 columns."""
    rows = [(a.id, ", ".join(name for name, _ in a.matches)) for a in alike]
    wide = max((len(name) for name, _ in rows), default=0)
    table = [(name, line) for name, text in rows for name, line in _wrap(name, text, 60 - wide - 4)]
    written = [(name, what) for name, what in _FILES if name in files]
    return "\n".join(
        [
            "Modules with similar roles, nearest first:",
            "",
            columns(table, indent="  "),
            "",
            f"In {folder}/:",
            columns(written, indent="  "),
            "",
            "Next:",
            f"  rae roles {folder}",
            f"  rae similar {folder} json.decoder",
            "and with your own graph:",
            "  rae plan edges.csv",
            "  rae fit edges.csv --features nodes.csv",
        ]
    )


_FILES = (
    ("explore/index.html", "open it in a browser"),
    ("embeddings.parquet", "id, embedding"),
    ("roles.parquet", "id, role, confidence, membership"),
    ("model.safetensors", "the model"),
    ("run.json", "rae info shows it"),
)


def _wrap(name: str, text: str, width: int) -> list[tuple[str, str]]:
    import textwrap

    lines = textwrap.wrap(text, max(20, width), break_long_words=False, break_on_hyphens=False) or [""]
    return [(name if i == 0 else "", line) for i, line in enumerate(lines)]
