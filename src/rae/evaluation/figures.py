"""Figures from ledger lines: exemplar graphs, citation maps, training curves, noise curves; PNG and SVG."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from rae.errors import needed_library
from rae.evaluation import data
from rae.evaluation.paper_report import FilledTable, display
from rae.evaluation.tables import pictures, recovery
from rae.storage.atomic import atomic_path

# Okabe and Ito's colours, which colour-blind readers can distinguish; marks differ too.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000", "#999999")
MARKS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "h", "p")
LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (8, 2)))

Tables = Mapping[str, FilledTable]


def draw(filled: Tables, folder: Path) -> dict[str, str]:
    """Write every figure that has all of its lines; file names with their captions."""
    return {
        f"{figure.__name__}.png": caption
        for figure, caption in FIGURES.items()
        if save(folder / figure.__name__, partial(figure, filled))
    }


def save(path: Path, figure_of: Callable[[Any], Any]) -> bool:
    """Write a figure, a function of pyplot, as .png and .svg of this path; False if it gives None."""
    plt = pyplot()
    path.parent.mkdir(parents=True, exist_ok=True)
    with plt.rc_context(_STYLE):
        figure = figure_of(plt)
        if figure is None:
            return False
        for kind, metadata in (("png", {"Software": None}), ("svg", {"Date": None})):
            with atomic_path(path.with_suffix(f".{kind}")) as hidden:
                figure.savefig(hidden, format=kind, dpi=150, metadata=metadata)
        plt.close(figure)
    return True


_STYLE = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "rae",
    "figure.constrained_layout.use": True,
    "savefig.facecolor": "white",
}


def pyplot() -> Any:
    """matplotlib.pyplot, drawing into files."""
    needed_library("matplotlib", "bench", "drawing the figures").use("Agg")
    import matplotlib.pyplot as plt

    return plt


def exemplars(filled: Tables, plt: Any) -> Any:
    cells = filled["figures"].cells
    rows = (pictures.GRAPH, pictures.RAE_MAP, pictures.GRAPHWAVE, pictures.NODE2VEC)
    if any((row.name, name) not in cells for row in rows for name in pictures.SMALL):
        return None
    figure, axes = plt.subplots(2, 4, figsize=(12, 7.4))
    for axes_of_graph, name in zip(axes, pictures.SMALL, strict=True):
        exemplar = data.get(name)
        for axis, row in zip(axes_of_graph, rows, strict=True):
            line = cells[row.name, name][0]
            xy, labels = np.array(line["also"]["points"]), np.array(line["also"]["labels"])
            title = f"{row.name}\nsilhouette {line['score'] / 100:.2f}"
            if row is pictures.GRAPH:
                title = "true roles"
                source = np.repeat(np.arange(len(xy)), exemplar.graph.degrees)
                ends = np.stack([xy[source], xy[exemplar.graph.targets]])
                axis.plot(ends[:, :, 0], ends[:, :, 1], color="#bbbbbb", lw=0.7, zorder=1)
            _points(axis, xy, labels, exemplar.label_names, size=34)
            axis.set_title(f"{name}: {title}")
        axes_of_graph[0].legend(fontsize=6.5, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncol=2, frameon=False)
    return figure


def _points(axis: Any, xy: Any, labels: Any, names: Sequence[str] | None, size: float) -> None:
    for k in np.unique(labels):
        style = {"color": COLOURS[k % len(COLOURS)], "marker": MARKS[k % len(MARKS)], "alpha": 0.75, "linewidths": 0}
        axis.scatter(*xy[labels == k].T, s=size, label=names[k] if names else str(k), zorder=2, **style)
    axis.set(xticks=[], yticks=[])


def citations(filled: Tables, plt: Any) -> Any:
    cells = filled["figures"].cells
    lines = {name: cells[key][0] for name in pictures.CITATIONS if (key := (pictures.TSNE.name, name)) in cells}
    if not lines:
        return None
    figure, axes = plt.subplots(1, len(lines), figsize=(4.4 * len(lines), 4.6), squeeze=False)
    for axis, (name, line) in zip(axes[0], lines.items(), strict=True):
        also = line["also"]
        _points(axis, np.array(also["points"]), np.array(also["labels"]), None, size=9)
        axis.set_title(
            f"{display(name)}\nsilhouette {line['score'] / 100:.3f} of the embedding,\n"
            f"{also['silhouette_of_picture'] / 100:.3f} of the picture"
        )
    return figure


def training(filled: Tables, plt: Any) -> Any:
    curves = {loss: filled["figures"].cells.get((row.name, "cora"), []) for loss, row in pictures.CURVES.items()}
    if not all(curves.values()):
        return None
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4))
    for number, (loss, lines) in enumerate(curves.items()):
        for axis, key in ((left, "value"), (right, "rank")):
            runs = np.array([line["also"][key] for line in lines])
            steps = lines[0]["also"]["step"]
            axis.plot(steps, runs.mean(0), color=COLOURS[number], ls=LINES[number], label=f"J_{loss}")
            axis.fill_between(steps, runs.min(0), runs.max(0), color=COLOURS[number], alpha=0.2, lw=0)
    left.set(xlabel="step", ylabel="loss", title="Cora: loss (line: mean, band: all seeds)")
    right.set(xlabel="step", ylabel="effective rank", title="Cora: rank of the vectors")
    left.legend(frameon=False)
    return figure


def noise(filled: Tables, plt: Any) -> Any:
    table = filled["recovery"]
    if not table.cells:
        return None
    figure, axes = plt.subplots(1, len(recovery.GRAPHS), figsize=(10, 4.2), sharey=True)
    for axis, graph in zip(axes, recovery.GRAPHS, strict=True):
        curves = {row.name: curve for row in table.table.rows if (curve := list(_noise_curve(table, row, graph)))}
        for number, (name, curve) in enumerate(curves.items()):
            x, mean, low, high = zip(*curve, strict=True)
            colour, marker = COLOURS[number % len(COLOURS)], MARKS[number % len(MARKS)]
            axis.plot(x, mean, label=name, ms=5, color=colour, ls=LINES[number % len(LINES)], marker=marker)
            axis.fill_between(x, low, high, color=colour, alpha=0.12, lw=0)
        axis.set(xlabel="random extra edges, %", title=f"{graph}: V-measure of the roles found")
    axes[0].set(ylim=(0, 103), ylabel="V-measure × 100")
    axes[-1].legend(frameon=False, fontsize=8, loc="upper right")
    return figure


def _noise_curve(filled: FilledTable, row: Any, graph: str) -> Iterator[tuple[float, float, float, float]]:
    for percent in recovery.NOISE:
        if s := filled.summary(row, f"{graph}, {percent} % noise"):
            yield percent, s.mean, s.low, s.high


FIGURES: dict[Callable[[Tables, Any], Any], str] = {
    exemplars: "House and barbell coloured by true role: the graph, RAE with J_within, GraphWave, and node2vec.",
    citations: "t-SNE of J_within on the three citation graphs, coloured by field (Pubmed: its test nodes).",
    training: "Training on Cora, five seeds each: the loss, and the effective rank of a fixed batch of vectors.",
    noise: "Roles found again as random edges are added: mean of the runs, with the 95 % interval.",
}
"""Every figure with its caption; its name is that of the function that draws it, from the tables, with pyplot."""
