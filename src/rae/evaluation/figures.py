"""Figures from ledger lines: exemplar graphs, citation maps, training curves, noise curves; PNG and SVG."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rae.errors import MissingExtraError
from rae.evaluation import data
from rae.evaluation.paper_report import FilledTable, display
from rae.evaluation.statistics import summary
from rae.evaluation.tables import pictures, recovery
from rae.storage.atomic import atomic_path

# Okabe and Ito's colours, which colour-blind readers can distinguish; marks differ too.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000", "#999999")
MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (8, 2)))

CAPTIONS = {
    "exemplars": ("House and barbell coloured by true role: the graph, RAE with J_within, GraphWave, and node2vec."),
    "citations": "t-SNE of J_within on the three citation graphs, coloured by field (Pubmed: its test nodes).",
    "training": "Training on Cora, five seeds each: the loss, and the effective rank of a fixed batch of vectors.",
    "noise": "Roles found again as random edges are added: mean of the runs, with the 95 % interval.",
}


def draw(filled: Mapping[str, FilledTable], folder: Path) -> dict[str, str]:
    """Write every figure whose lines are there; file names with their captions."""
    makers: dict[str, Callable[[Any, Mapping[str, FilledTable]], Any]] = {
        "exemplars": _exemplars,
        "citations": _citations,
        "training": _training,
        "noise": _noise,
    }
    captions = {}
    for name, maker in makers.items():
        if save(folder / name, lambda plt, maker=maker: maker(plt, filled)):  # type: ignore[misc]
            captions[f"{name}.png"] = CAPTIONS[name]
    return captions


def save(path: Path, make: Callable[[Any], Any]) -> bool:
    """Write what `make` draws as .png and .svg of this path; False if it draws nothing."""
    plt = _pyplot()
    path.parent.mkdir(parents=True, exist_ok=True)
    with plt.rc_context(_STYLE):
        figure = make(plt)
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


def need_library() -> None:
    """Raise an error before an hour of computing if no figure could be drawn."""
    _pyplot()


def _pyplot() -> Any:
    try:
        import matplotlib as mpl
    except ImportError:
        raise MissingExtraError("matplotlib", "bench", "drawing the figures") from None
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def _only(filled: Mapping[str, FilledTable], row: Any, dataset: str) -> dict[str, Any] | None:
    """The first line of a cell of the table `figures`, None without one."""
    lines = filled["figures"].cells.get((row.name, dataset))
    return lines[0] if lines else None


def _exemplars(plt: Any, filled: Mapping[str, FilledTable]) -> Any:
    rows = (pictures.GRAPH, pictures.RAE_MAP, pictures.GRAPHWAVE, pictures.NODE2VEC)
    if any(_only(filled, row, name) is None for row in rows for name in pictures.SMALL):
        return None
    figure, axes = plt.subplots(2, 4, figsize=(12, 7.4))
    for line, name in zip(axes, pictures.SMALL, strict=True):
        known = data.get(name)
        for axis, row in zip(line, rows, strict=True):
            found = _only(filled, row, name)
            assert found is not None
            xy, labels = np.array(found["also"]["points"]), np.array(found["also"]["labels"])
            if row is pictures.GRAPH:
                source = np.repeat(np.arange(len(xy)), known.graph.degrees)
                ends = np.stack([xy[source], xy[known.graph.targets]])
                axis.plot(ends[:, :, 0], ends[:, :, 1], color="#bbbbbb", lw=0.7, zorder=1)
            _points(axis, xy, labels, known.label_names, size=34)
            score = "" if row is pictures.GRAPH else f"\nsilhouette {found['score'] / 100:.2f}"
            axis.set_title(f"{name}: {row.name}{score}" if row is not pictures.GRAPH else f"{name}: true roles")
        line[0].legend(fontsize=6.5, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncol=2, frameon=False)
    return figure


def _points(axis: Any, xy: Any, labels: Any, names: Sequence[str] | None, size: float) -> None:
    for k in np.unique(labels):
        mine = labels == k
        axis.scatter(
            xy[mine, 0],
            xy[mine, 1],
            s=size,
            color=COLOURS[k % len(COLOURS)],
            marker=MARKS[k % len(MARKS)],
            alpha=0.75,
            linewidths=0,
            label=names[k] if names else str(k),
            zorder=2,
        )
    axis.set_xticks([])
    axis.set_yticks([])


def _citations(plt: Any, filled: Mapping[str, FilledTable]) -> Any:
    there = [name for name in pictures.CITATIONS if _only(filled, pictures.TSNE, name) is not None]
    if not there:
        return None
    figure, axes = plt.subplots(1, len(there), figsize=(4.4 * len(there), 4.6), squeeze=False)
    for axis, name in zip(axes[0], there, strict=True):
        found = _only(filled, pictures.TSNE, name)
        assert found is not None
        also = found["also"]
        _points(axis, np.array(also["points"]), np.array(also["labels"]), None, size=9)
        axis.set_title(
            f"{display(name)}\nsilhouette {found['score'] / 100:.3f} of the embedding,\n"
            f"{also['silhouette_of_picture'] / 100:.3f} of the picture"
        )
    return figure


def _training(plt: Any, filled: Mapping[str, FilledTable]) -> Any:
    curves = {loss: filled["figures"].cells.get((row.name, "cora"), []) for loss, row in pictures.CURVES.items()}
    if not all(curves.values()):
        return None
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4))
    for number, (loss, lines) in enumerate(curves.items()):
        for axis, key in ((left, "value"), (right, "rank")):
            each = np.array([line["also"][key] for line in lines])
            steps = lines[0]["also"]["step"]
            axis.plot(steps, each.mean(0), color=COLOURS[number], ls=LINES[number], label=f"J_{loss}")
            axis.fill_between(steps, each.min(0), each.max(0), color=COLOURS[number], alpha=0.2, lw=0)
    left.set(xlabel="step", ylabel="loss", title="Cora: loss (line: mean, band: all seeds)")
    right.set(xlabel="step", ylabel="effective rank", title="Cora: rank of the vectors")
    left.legend(frameon=False)
    return figure


def _noise(plt: Any, filled: Mapping[str, FilledTable]) -> Any:
    found = filled["recovery"]
    if not found.cells:
        return None
    figure, axes = plt.subplots(1, len(recovery.GRAPHS), figsize=(10, 4.2), sharey=True)
    for axis, graph in zip(axes, recovery.GRAPHS, strict=True):
        for number, row in enumerate(found.table.rows):
            curve = list(_curve(found, row, graph))
            if not curve:
                continue
            x, mean, low, high = zip(*curve, strict=True)
            style = {"color": COLOURS[number], "ls": LINES[number], "marker": MARKS[number]}
            axis.plot(x, mean, label=row.name, ms=5, **style)
            axis.fill_between(x, low, high, color=COLOURS[number], alpha=0.12, lw=0)
        axis.set(xlabel="random extra edges, %", title=f"{graph}: V-measure of the roles found")
    axes[0].set(ylim=(0, 103), ylabel="V-measure × 100")
    axes[-1].legend(frameon=False, fontsize=8, loc="upper right")
    return figure


def _curve(found: FilledTable, row: Any, graph: str) -> Iterator[tuple[float, float, float, float]]:
    for noise in recovery.NOISE:
        scores = found.scores(row, f"{graph}, {noise} % noise")
        if scores:
            s = summary(list(scores.values()))
            yield noise, s.mean, s.low, s.high
