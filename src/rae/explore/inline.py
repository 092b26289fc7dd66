"""The page of a run inside a notebook: the whole of it in a frame of its own, without a server or a network."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from rae.explore.labels import read_labels
from rae.explore.page import FOLDER, INDEX, SAMPLE, Subject, is_page, write_page
from rae.progress import Asked, shown
from rae.run import Run


@dataclass(frozen=True)
class InlinePage:
    """A page that a notebook shows; anywhere else it is the path of its file."""

    path: Path
    height: int = 720

    def _repr_html_(self) -> str:
        """The page as the text of a frame that may run its script and save files, and reach nothing around it."""
        text = escape(self.path.read_text(encoding="utf-8"), quote=True)
        style = "width:100%;border:1px solid currentColor;border-radius:4px"
        return (
            f'<iframe srcdoc="{text}" sandbox="allow-scripts allow-downloads" height="{int(self.height)}" '
            f'style="{style}" title="roles of {escape(self.path.parent.parent.name, quote=True)}"></iframe>'
        )


def inline_page(
    run: Run,
    *,
    title: str = "",
    labels: Any = None,
    sample: int | None = None,
    height: int = 720,
    force: bool = False,
    progress: Asked = None,
) -> InlinePage:
    """The page of a run to show in a notebook; it is written if it is not there, or if options are given."""
    if force or title or labels is not None or sample is not None or not is_page(run.path / FOLDER):
        columns = () if labels is None else read_labels(labels, run.embeddings()[0])
        with shown(progress) as report:
            subject = Subject(title=title, labels=columns)
            write_page(run, subject=subject, sample=sample or SAMPLE, force=True, progress=report)
    return InlinePage(run.path / FOLDER / INDEX, height)
