"""The page of a run: all parts together, written into a self-contained folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rae.blocks import weighted
from rae.config import settings_from
from rae.errors import Argument, ConfigError, RunError
from rae.explore import captions
from rae.explore.cards import PageRoles, page_roles
from rae.explore.columns import Column, feature_columns, number_column, pack_columns
from rae.explore.coordinates import block_coordinates
from rae.explore.html import asset, render
from rae.explore.labels import labels_of_roles
from rae.explore.layout import map_positions
from rae.explore.marks import Marks, find_marks
from rae.explore.pack import id_arrays, pack_arrays, smallest_unsigned
from rae.explore.sample import map_rows, page_neighbors
from rae.progress import Progress
from rae.run import Run
from rae.run_folder import NOTICE, PAGE
from rae.storage.atomic import write_text

Ints = np.ndarray[Any, np.dtype[np.integer[Any]]]
Floats = np.ndarray[Any, np.dtype[np.float32]]
Arrays = dict[str, np.ndarray[Any, Any]]

FOLDER, INDEX = PAGE.split("/")
LICENCES = NOTICE.split("/")[1]
SAMPLE = 30_000  # nodes on the map
MOST_SEARCHABLE = 1_000_000  # nodes that can be searched for
FARTHEST, STEPS_PER_DISTANCE = 6.5, 10_000  # distances on the page are whole numbers below 65,536
LISTED, ATTRACTING = 10, 15  # nearest marks: those listed with a node, and those that attract it on the map
STAGES = 4
MARK = b'<meta name="generator" content="rae explore">'


@dataclass(frozen=True)
class Subject:
    """Title, labels and names of the page, in the user's words."""

    title: str = ""
    thing: str = "a node"
    labels: tuple[Column, ...] = ()  # in the run's row order
    names: pa.Array | None = None  # display names in the run's row order, by default those of the run


@dataclass(frozen=True, eq=False)
class Nodes:
    """The rows of the run that are on the map, and those that can be searched for."""

    n: int  # rows of the run
    shown: Ints  # rows on the map, ascending
    searchable: Ints  # those, then rows that can be searched for


def write_page(
    run: Run,
    folder: str | Path | None = None,
    *,
    subject: Subject | None = None,
    sample: int = SAMPLE,
    force: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Write the page of a run, by default into its folder `explore`, and return the path of index.html.

    Roles are fitted if the run has none. Up to `sample` nodes are on the map.
    """
    if sample < 1:
        raise ConfigError(Argument("sample"), f" must be 1 or more, got {sample}")
    target = Path(folder) if folder is not None else run.path / FOLDER
    check_page_free(target, force=force)
    text = page_text(run, subject or Subject(), sample, progress or (lambda *_: None))
    target.mkdir(parents=True, exist_ok=True)
    write_text(target / LICENCES, asset(LICENCES))
    write_text(target / INDEX, text)  # last: a folder has a page only with it
    return target / INDEX


def check_page_free(folder: Path, *, force: bool = False) -> None:
    """Refuse a folder that holds something else, before any work. A page of ours is replaced."""
    if folder.exists() and not folder.is_dir():
        raise RunError(Argument("out"), f" must be a folder, {folder} is a file; choose another name")
    if force or not folder.exists() or is_page(folder) or _is_begun(folder):
        return
    raise RunError(
        *(f"{folder} is not empty; choose another ", Argument("out"), ", or pass ", Argument("force", True)),
        " to write the page beside what is there",
    )


def _is_begun(folder: Path) -> bool:
    """Whether a folder is empty, or holds only the partial page of a killed process."""
    others = [path for path in folder.iterdir() if not (path.name.startswith(".") and path.suffix == ".tmp")]
    return all(path.name == LICENCES and path.read_bytes() == asset(LICENCES).encode() for path in others)


def is_page(folder: Path) -> bool:
    """Whether this folder holds a page of ours."""
    if not (folder / INDEX).is_file():
        return False
    with (folder / INDEX).open("rb") as file:
        return MARK in file.read(2_000)


def page_text(run: Run, subject: Subject, sample: int, progress: Progress) -> str:
    """The page as one HTML text."""
    progress("page", 0, STAGES, {})
    roles = page_roles(run)
    ids, z = run.embeddings()
    nodes = _nodes(roles, sample)
    vectors = z[nodes.shown]
    del z
    progress("page", 1, STAGES, {})
    marks = find_marks(np.ascontiguousarray(weighted(vectors, *roles.weighing)), ATTRACTING)
    coordinates = block_coordinates(vectors[marks.first], marks, *roles.weighing)
    progress("page", 2, STAGES, {})
    distinct = np.ascontiguousarray(weighted(vectors[marks.first], *roles.weighing))
    xy = map_positions(distinct, marks.neighbors, marks.distance)
    progress("page", 3, STAGES, {})
    degree, graph, graph_caption = _graph(run, nodes)
    columns, features, feature_caption = _columns(run, subject, roles, nodes, degree)
    descriptions, codes = pack_columns([*columns, *features.values()])
    parts = {
        "map": _map(roles, nodes, marks, xy, degree),
        "ids": id_arrays(ids.take(pa.array(nodes.searchable))),
        "names": _names(run, subject, ids, nodes),
        "near": _near(roles, nodes, marks),
        "vectors": coordinates.arrays,
        "graph": graph,
        "columns": codes,
    }
    position = {row: i for i, row in enumerate(nodes.shown.tolist())}
    title = subject.title or f"Roles of {run.path.resolve().name}"
    facts = _facts(run) | {
        "title": title,
        "thing": subject.thing,
        "nodes": nodes.n,
        "shown": len(nodes.shown),
        "nearest": LISTED,
        "marks": len(marks.first),
        "roles": roles.page_cards(
            position,
            {j: len(columns) + i for i, j in enumerate(features)},
            labels_of_roles(subject.labels, roles.role, len(roles.cards)),
        ),
        "blocks": coordinates.blocks,
        "columns": descriptions,
        "rules": {
            "sample": captions.sample(len(nodes.shown), nodes.n),
            "map": captions.MAP,
            "roles": roles.rule,
            **(
                {"equal": captions.equal(len(nodes.shown), len(marks.first))}
                if len(marks.first) < len(nodes.shown)
                else {}
            ),
            "nearest": captions.nearest(LISTED, len(nodes.shown), nodes.n),
            **({"weights": captions.weights(coordinates.agreement)} if coordinates.blocks else {}),
            "around": graph_caption,
            "colors": captions.COLORS,
            **({"search": captions.search(len(nodes.searchable), nodes.n)} if len(nodes.searchable) < nodes.n else {}),
            **({"features": feature_caption} if feature_caption else {}),
            "table": captions.TABLE,
        },
    }
    text = render(title, facts, {name: pack_arrays(arrays) for name, arrays in parts.items()})
    progress("page", STAGES, STAGES, {})
    return text


def _nodes(roles: PageRoles, sample: int) -> Nodes:
    n = len(roles.role)
    shown = map_rows(roles.role, [row for rows in roles.prototypes for row in rows], sample)
    hidden = np.ones(n, bool)
    hidden[shown] = False
    others = np.flatnonzero(hidden)[: max(MOST_SEARCHABLE - len(shown), 0)]
    return Nodes(n, shown, np.concatenate([shown, others]))


def _map(roles: PageRoles, nodes: Nodes, marks: Marks, xy: Floats, degree: Ints) -> Arrays:
    x, y = np.round(65535 * xy).astype(np.uint16).T
    return {
        "x": x,
        "y": y,
        "mark": smallest_unsigned(marks.of),
        "role": smallest_unsigned(roles.role[nodes.searchable]),
        "confidence": _byte_shares(roles.confidence[nodes.searchable]),
        "degree": degree.astype(np.uint32),
    }


def _near(roles: PageRoles, nodes: Nodes, marks: Marks) -> Arrays:
    distance = np.minimum(marks.distance[:, :LISTED], FARTHEST)
    return {
        "index": marks.neighbors[:, :LISTED].astype(np.uint32),  # none (-1) becomes the largest number
        "distance": np.round(STEPS_PER_DISTANCE * distance).astype(np.uint16),
        "membership": _byte_shares(roles.membership[nodes.shown[marks.first]]),
    }


def _names(run: Run, subject: Subject, ids: pa.Array, nodes: Nodes) -> Arrays:
    """The display names of the nodes that can be searched for; empty where a node has none but its id."""
    names = run.names() if subject.names is None else subject.names
    if names is None:
        return id_arrays(pa.array([], pa.string()))
    searchable = pa.array(nodes.searchable)
    names, ids = names.take(searchable), ids.take(searchable).cast(pa.string())
    return id_arrays(pc.fill_null(pc.if_else(pc.equal(names, ids), "", names), ""))


def _byte_shares(values: Floats) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.round(255 * np.clip(values, 0, 1)).astype(np.uint8)


def _graph(run: Run, nodes: Nodes) -> tuple[Ints, Arrays, str]:
    """Degrees and neighbours of the nodes that can be searched for, and the caption on them."""
    if not run.has_graph:
        none: Arrays = {"kept": np.zeros(len(nodes.searchable), np.uint8), "around": np.empty(0, np.uint32)}
        return np.zeros(len(nodes.searchable), np.int64), none, captions.NO_GRAPH
    graph = run.graph()
    count, neighbors, limit = page_neighbors(graph, nodes.searchable)
    degree = graph.degrees[nodes.searchable]
    caption = captions.neighbors(limit, int(degree.max()), len(nodes.searchable), nodes.n)
    return degree, {"kept": count, "around": neighbors}, caption


def _columns(
    run: Run, subject: Subject, roles: PageRoles, nodes: Nodes, degree: Ints
) -> tuple[list[Column], dict[int, Column], str]:
    """The columns to colour the map by, the feature columns, and a caption if some of those are left out."""
    shown = nodes.shown
    columns = [number_column("confidence", "node", roles.confidence[shown].astype(np.float64))]
    if run.has_graph:
        columns.insert(0, number_column("degree", "node", degree[: len(shown)].astype(np.float64)))
    columns += [label.select(shown) for label in subject.labels]
    x = run.features()
    if x is None:
        return columns, {}, ""
    names = run.feature_names or [f"feature {j}" for j in range(x.shape[1])]
    features = feature_columns(x[shown], names, roles.feature_columns)
    caption = "" if len(features) == x.shape[1] else captions.features(len(features), x.shape[1])
    return columns, features, caption


def _facts(run: Run) -> dict[str, Any]:
    """Counts, settings and training curve of the run."""
    info = run.info
    changed = settings_from(info["settings"]).changed()
    fits: dict[str, dict[str, Any]] = {}
    for record in info["history"]:
        fit = fits.setdefault(str(record["loss"]), {"loss": record["loss"], "steps": [], "values": []})
        fit["steps"].append(record["step"])
        fit["values"].append(record["value"])
    versions = info["versions"]
    return {
        "edges": run.counts.get("edges", 0),
        "counts": [[name.replace("_", " "), n] for name, n in run.counts.items()],
        "training": list(fits.values()),
        "settings": [[name, _as_text(value), name in changed] for name, value in info["settings"].items()],
        "made": f"Made by rae {versions.get('rae', '')}, Python {versions.get('python', '')}.",
    }


def _as_text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, Sequence) and not isinstance(value, str) else str(value)
