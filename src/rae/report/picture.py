"""The map of a run: every node a point, alike ones close, some of them named."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rae.errors import MissingExtraError
from rae.io.atomic import atomic_path
from rae.report.lookalikes import spread
from rae.run import DRAWING, PICTURE, Run

Floats = np.ndarray[Any, np.dtype[np.float32]]

TSNE_MOST = 5_000  # above this many nodes the map is a plain projection
GREY, INK = "#b9bec7", "#1b1f24"
# Okabe and Ito's colours, which people who see colours differently can tell apart, and a shape each.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a4fa3", "#8c6d1f")
SHAPES = ("o", "s", "^", "D", "v", "P", "X", "*")
# Where a name may stand relative to its point, in points; the first free place is taken.
AROUND = ((1, 0.3), (-1, 0.3), (0.8, 1), (0.8, -1), (-0.8, 1), (-0.8, -1), (0, 1.3), (0, -1.4))
PLACES = [(r * x, r * y) for r in (6, 9, 13, 18, 24, 32) for x, y in AROUND]


def coordinates(z: Floats, seed: int = 0) -> Floats:
    """A place in the plane for every vector: t-SNE of 50 principal axes, or two axes if there are many.

    (n, d) -> (n, 2)
    """
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    n, d = z.shape
    unit = z / np.maximum(np.linalg.norm(z, axis=1, keepdims=True), 1e-12)  # alike means the same direction
    centred = np.asarray(unit - unit.mean(axis=0), np.float32)
    if n < 10 or n > TSNE_MOST or not centred.any():
        kept = min(2, n, d)
        flat = PCA(kept, svd_solver="full").fit_transform(centred) if centred.any() else np.zeros((n, kept))
        return np.pad(flat, ((0, 0), (0, 2 - kept))).astype(np.float32)
    reduced = PCA(min(50, n, d), svd_solver="full").fit_transform(centred)
    start = reduced[:, :2] / max(float(reduced[:, 0].std()), 1e-12) * 1e-4
    start = np.pad(start, ((0, 0), (0, 2 - start.shape[1])))
    flat = TSNE(init=start, perplexity=min(30.0, (n - 1) / 3), random_state=seed).fit_transform(reduced)
    return np.asarray(flat, np.float32)


def draw(
    ids: Sequence[Any],
    z: Floats,
    *,
    names: Sequence[str] | None = None,
    groups: Mapping[str, Sequence[str]] | None = None,
    title: str = "",
) -> dict[str, bytes]:
    """The map as {"png": ..., "svg": ...}; the same vectors give the same bytes.

    `names` are the ids written beside their points, `groups` the ids that share a colour and a shape.
    """
    matplotlib, figure_of, text_box = _matplotlib()
    known = [str(i) for i in ids]
    place = {name: row for row, name in enumerate(known)}
    named = [place[n] for n in names if n in place] if names is not None else spread(len(known), 20)
    colored = {g: [place[m] for m in members if m in place] for g, members in (groups or {}).items()}
    xy = coordinates(z)
    out = {}
    style = {"svg.hashsalt": "rae", "font.family": "DejaVu Sans", "text.parse_math": False}
    with matplotlib.rc_context(style):
        figure = figure_of(figsize=(8, 5.2), dpi=150, facecolor="white")
        axes = figure.add_axes((0.012, 0.012, 0.976, 0.93 if title else 0.976))
        _points(axes, xy, colored)
        if title:
            figure.text(0.022, 0.962, title, fontsize=11.5, color=INK, va="center", weight="bold")
        _names(figure, text_box, axes, xy, [(row, known[row], _color_of(row, colored)) for row in named])
        for kind, silent in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": None})):
            buffer = io.BytesIO()
            figure.savefig(buffer, format=kind, metadata=silent, facecolor="white")
            out[kind] = buffer.getvalue()
    return out


def write_picture(
    run: Run,
    *,
    names: Sequence[str] | None = None,
    groups: Mapping[str, Sequence[str]] | None = None,
    title: str = "",
) -> None:
    """Write map.png and map.svg into the run's folder."""
    ids, z = run.embeddings()
    drawn = draw(ids.to_pylist(), z, names=names, groups=groups, title=title)
    for name, kind in ((PICTURE, "png"), (DRAWING, "svg")):
        with atomic_path(run.path / name) as path:
            path.write_bytes(drawn[kind])


def _matplotlib() -> tuple[Any, Any, Any]:
    """The library, what makes a figure, and what measures a text (an annotation would add its line)."""
    try:
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.text import Text
    except ImportError:
        raise MissingExtraError("matplotlib", "plot", "the picture") from None

    def figure_of(**rules: Any) -> Any:
        figure = Figure(**rules)
        FigureCanvasAgg(figure)
        return figure

    return matplotlib, figure_of, Text.get_window_extent


def _points(axes: Any, xy: Floats, colored: Mapping[str, list[int]]) -> None:
    n = len(xy)
    small = float(np.clip(12_000 / n, 3, 26))
    rest = np.setdiff1d(np.arange(n), [row for rows in colored.values() for row in rows])
    grey = GREY if colored else COLORS[0]
    axes.scatter(*xy[rest].T, s=small, c=grey, alpha=0.75, linewidths=0, rasterized=n > 20_000)
    for i, (group, rows) in enumerate(colored.items()):
        style = {"c": COLORS[i % len(COLORS)], "marker": SHAPES[i % len(SHAPES)], "label": group}
        axes.scatter(*xy[rows].T, s=1.4 * small, alpha=0.9, linewidths=0.3, edgecolors="white", zorder=3, **style)
    axes.set(xticks=[], yticks=[])
    axes.margins(0.05)
    for side in axes.spines.values():
        side.set_color("#d5d9df")
    if colored:
        axes.legend(loc="best", fontsize=8, frameon=True, framealpha=0.9, edgecolor="#d5d9df", handletextpad=0.2)


def _color_of(row: int, colored: Mapping[str, list[int]]) -> str:
    found = [i for i, rows in enumerate(colored.values()) if row in rows]
    return COLORS[found[0] % len(COLORS)] if found else INK


def _names(figure: Any, text_box: Any, axes: Any, xy: Floats, named: list[tuple[int, str, str]]) -> None:
    """Write each name near its point where nothing else is written; one without a free place is left out."""
    renderer = figure.canvas.get_renderer()
    figure.draw(renderer)
    taken = [legend.get_window_extent(renderer)] if (legend := axes.get_legend()) else []
    inside = axes.get_window_extent(renderer)
    for row, name, color in named:
        label = _label(axes, xy[row], name if len(name) <= 28 else name[:27] + "…", color)
        for x, y in PLACES:
            label.set_ha("left" if x > 0 else "right" if x < 0 else "center")
            label.set_position((x, y))
            label.update_positions(renderer)
            box = text_box(label, renderer)
            within = inside.x0 < box.x0 and box.x1 < inside.x1 and inside.y0 < box.y0 and box.y1 < inside.y1
            if within and not any(box.overlaps(other) for other in taken):
                taken.append(box)
                axes.scatter(*xy[row], s=34, facecolors="none", edgecolors=color, linewidths=1.1, zorder=6)
                break
        else:
            label.remove()


def _label(axes: Any, point: Floats, text: str, color: str) -> Any:
    return axes.annotate(
        text,
        point,
        (0, 0),
        textcoords="offset points",
        fontsize=8.5,
        color=color,
        zorder=5,
        va="center",
        bbox={"boxstyle": "round,pad=0.12", "fc": "white", "ec": "none", "alpha": 0.75},
        arrowprops={"arrowstyle": "-", "color": color, "lw": 0.7, "shrinkA": 0, "shrinkB": 3},
    )
