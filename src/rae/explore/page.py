"""The page of a run: what it shows, put together and written into a folder that needs nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from rae.config import Config
from rae.errors import Argument, ConfigError, RunError
from rae.explore import rules
from rae.explore.cards import PageRoles, page_roles
from rae.explore.columns import Column, feature_columns, number_column, packed_columns
from rae.explore.html import asset, render
from rae.explore.layout import places
from rae.explore.nearest import most_alike
from rae.explore.pack import packed, packed_ids, smallest
from rae.explore.sample import on_the_map
from rae.explore.surroundings import surroundings
from rae.run import NOTICE, PAGE, Run
from rae.storage.atomic import write_text

Ints = np.ndarray[Any, np.dtype[np.integer[Any]]]
Floats = np.ndarray[Any, np.dtype[np.float32]]
Arrays = dict[str, np.ndarray[Any, Any]]

FOLDER, INDEX = PAGE.split("/")
SAMPLE = 30_000  # nodes on the map
KNOWN = 1_000_000  # nodes that can be searched for
ALIKE, HELD = 10, 15  # nearest nodes that are listed, and that hold the map together
STAGES = 4
MARK = b'<meta name="generator" content="rae explore">'


class Progress(Protocol):
    """What is called as the page grows: the stage, how much of it is done, numbers worth showing."""

    def __call__(self, stage: str, done: int, total: int, info: Mapping[str, float], /) -> None: ...


@dataclass(frozen=True)
class Subject:
    """What the page is about, in the words of whoever made the run."""

    title: str = ""
    thing: str = "a node"
    labels: tuple[Column, ...] = ()  # in the run's row order


@dataclass(frozen=True, eq=False)
class Nodes:
    """Which rows of the run the page shows and knows."""

    n: int  # rows of the run
    shown: Ints  # rows on the map, ascending
    known: Ints  # those, then rows that can be searched for


def write_page(
    run: Run,
    folder: str | Path | None = None,
    *,
    subject: Subject | None = None,
    sample: int = SAMPLE,
    force: bool = False,
    progress: Progress | None = None,
) -> Path:
    """Write the page of a run, by default into its folder `explore`, and return where index.html is.

    Roles are found if the run has none. Up to `sample` nodes stand on the map.
    """
    if sample < 1:
        raise ConfigError(Argument("sample"), f" must be 1 or more, got {sample}")
    target = Path(folder) if folder is not None else run.path / FOLDER
    check_page_free(target, force=force)
    text = page_text(run, subject or Subject(), sample, progress or (lambda *_: None))
    target.mkdir(parents=True, exist_ok=True)
    notice = NOTICE.split("/")[1]
    write_text(target / notice, asset(notice))
    write_text(target / INDEX, text)
    return target / INDEX


def check_page_free(folder: Path, *, force: bool = False) -> None:
    """Refuse a place that holds something else; called before any work. A page of ours is made anew without asking."""
    if folder.exists() and not folder.is_dir():
        raise RunError(Argument("out"), f" must be a folder, {folder} is a file; choose another name")
    if force or not folder.exists() or not any(folder.iterdir()) or is_page(folder):
        return
    raise RunError(
        *(f"{folder} is not empty; choose another ", Argument("out"), ", or pass ", Argument("force", True)),
        " to write the page beside what is there",
    )


def is_page(folder: Path) -> bool:
    """Whether a page of ours lies in this folder."""
    if not (folder / INDEX).is_file():
        return False
    with (folder / INDEX).open("rb") as file:
        return MARK in file.read(2_000)


def page_text(run: Run, subject: Subject, sample: int, tell: Progress) -> str:
    """The page as one HTML text."""
    tell("page", 0, STAGES, {})
    roles = page_roles(run)
    ids, z = run.embeddings()
    nodes = _nodes(roles, sample)
    vectors = np.ascontiguousarray(z[nodes.shown])
    del z
    tell("page", 1, STAGES, {})
    index, cosine = most_alike(vectors, HELD)
    tell("page", 2, STAGES, {})
    xy = places(vectors, index, cosine)
    tell("page", 3, STAGES, {})
    degree, graph, graph_rule = _graph(run, nodes)
    columns, features, feature_rule = _columns(run, subject, roles, nodes, degree)
    told, coded = packed_columns([*columns, *features.values()])
    parts = {
        "map": _map(roles, nodes, xy, degree),
        "ids": packed_ids(ids.take(pa.array(nodes.known))),
        "near": _near(roles, nodes, index, cosine),
        "graph": graph,
        "columns": coded,
    }
    place = {row: i for i, row in enumerate(nodes.shown.tolist())}
    title = subject.title or f"Roles of {run.path.resolve().name}"
    facts = _facts(run) | {
        "title": title,
        "thing": subject.thing,
        "nodes": nodes.n,
        "shown": len(nodes.shown),
        "nearest": ALIKE,
        "roles": roles.told(place, {j: len(columns) + i for i, j in enumerate(features)}),
        "columns": told,
        "rules": {
            "sample": rules.sample(len(nodes.shown), nodes.n),
            "map": rules.MAP,
            "roles": roles.rule,
            "nearest": rules.nearest(ALIKE, len(nodes.shown), nodes.n),
            "around": graph_rule,
            "colors": rules.COLORS,
            **({"search": rules.search(len(nodes.known), nodes.n)} if len(nodes.known) < nodes.n else {}),
            **({"features": feature_rule} if feature_rule else {}),
            "table": rules.TABLE,
        },
    }
    text = render(title, facts, {name: packed(arrays) for name, arrays in parts.items()})
    tell("page", STAGES, STAGES, {})
    return text


def _nodes(roles: PageRoles, sample: int) -> Nodes:
    n = len(roles.role)
    shown = on_the_map(roles.role, [row for rows in roles.prototypes for row in rows], sample)
    rest = np.ones(n, bool)
    rest[shown] = False
    others = np.flatnonzero(rest)[: max(KNOWN - len(shown), 0)]
    return Nodes(n, shown, np.concatenate([shown, others]))


def _map(roles: PageRoles, nodes: Nodes, xy: Floats, degree: Ints) -> Arrays:
    x, y = np.round(65535 * xy).astype(np.uint16).T
    return {
        "x": x,
        "y": y,
        "role": smallest(roles.role[nodes.known]),
        "confidence": _share(roles.confidence[nodes.known]),
        "degree": degree.astype(np.uint32),
    }


def _near(roles: PageRoles, nodes: Nodes, index: Ints, cosine: Floats) -> Arrays:
    return {
        "index": index[:, :ALIKE].astype(np.uint32),  # none (-1) becomes the largest number
        "cosine": np.round(32767.5 * (np.clip(cosine[:, :ALIKE], -1, 1) + 1)).astype(np.uint16),
        "membership": _share(roles.membership[nodes.shown]),
    }


def _share(values: Floats) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.round(255 * np.clip(values, 0, 1)).astype(np.uint8)


def _graph(run: Run, nodes: Nodes) -> tuple[Ints, Arrays, str]:
    """Degrees and neighbours of the nodes that the page knows, and a sentence about them."""
    if not run.has_graph:
        none: Arrays = {"kept": np.zeros(len(nodes.known), np.uint8), "around": np.empty(0, np.uint32)}
        return np.zeros(len(nodes.known), np.int64), none, rules.NO_GRAPH
    graph = run.graph()
    kept, around, cap = surroundings(graph, nodes.known)
    degree = graph.degrees[nodes.known]
    told = rules.surroundings(cap, int(degree.max()), len(nodes.known), nodes.n)
    return degree, {"kept": kept, "around": around}, told


def _columns(
    run: Run, subject: Subject, roles: PageRoles, nodes: Nodes, degree: Ints
) -> tuple[list[Column], dict[int, Column], str]:
    """What the map can be coloured by, the features apart, and a sentence if some of those did not fit."""
    shown = nodes.shown
    columns = [number_column("confidence", "node", roles.confidence[shown].astype(np.float64))]
    if run.has_graph:
        columns.insert(0, number_column("degree", "node", degree[: len(shown)].astype(np.float64)))
    columns += [label.of_rows(shown) for label in subject.labels]
    x = run.features()
    if x is None:
        return columns, {}, ""
    names = run.feature_names or [f"feature {j}" for j in range(x.shape[1])]
    features = feature_columns(x[shown], names, roles.feature_columns)
    rule = "" if len(features) == x.shape[1] else rules.features(len(features), x.shape[1])
    return columns, features, rule


def _facts(run: Run) -> dict[str, Any]:
    """What the page says about the run itself."""
    info = run.info
    changed = Config.from_dict(info["settings"]).changed()
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
        "settings": [[name, _shown(value), name in changed] for name, value in info["settings"].items()],
        "made": f"Made by rae {versions.get('rae', '')}, Python {versions.get('python', '')}.",
    }


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, Sequence) and not isinstance(value, str) else str(value)
